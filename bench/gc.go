package bench

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// gcRoom is how much the heap may grow in the timed part before a collection: with a
// small heap and a low GOGC they follow each other so fast that they take a third of
// the client's time. Where there is more to look at, as with ten thousand streams, a
// collection takes longer and holds up sends: the room is then half of it, up to gcMost.
const (
	gcRoom = 32 << 20
	gcMost = 192 << 20
)

// gcLeast is the heap below which the runtime's least goal, which is 4 MB at a GOGC
// of 100, would be more than gcRoom.
const gcLeast = 4 << 20

// giveRoom lets the collector wait for gcRoom at least, and returns what takes that
// back. It concerns the whole process; nothing is changed where GOGC is off or gives
// more room already.
func giveRoom() (undo func()) {
	want := roomPercent()
	old := debug.SetGCPercent(want)
	if old < 0 || old >= want {
		debug.SetGCPercent(old)
		return func() {}
	}
	r := &room{old: old}
	r.adjust()
	return r.end
}

// room is GOGC set anew after each collection: it is a share of a heap that grows, and
// what gives a small one its room would let it double many times over.
type room struct {
	old   int // what GOGC was
	mu    sync.Mutex
	ended bool // guarded by mu
}

// collected is what no one holds: its cleanup runs after the next collection.
type collected struct{ _ *int } // of no pointer the runtime may put several into one

func (r *room) adjust() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	debug.SetGCPercent(max(r.old, roomPercent()))
	runtime.AddCleanup(new(collected), (*room).adjust, r)
}

func (r *room) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	debug.SetGCPercent(r.old)
}

// roomPercent is the GOGC with which the heap may grow by its room: it is of all that
// the last collection looked at.
func roomPercent() int {
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(read)
	size := uint64(0)
	for _, s := range read {
		if s.Value.Kind() == metrics.KindUint64 {
			size += s.Value.Uint64()
		}
	}
	size = max(size, gcLeast)
	return int(max(gcRoom, min(size/2, gcMost)) * 100 / size)
}
