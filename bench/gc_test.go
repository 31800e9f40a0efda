package bench

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// A low GOGC is raised for a small heap and put back; one that gives more room, or is
// off, stays.
func TestGiveRoom(t *testing.T) {
	before := debug.SetGCPercent(10)
	defer debug.SetGCPercent(before)
	debug.FreeOSMemory()
	undo := giveRoom()
	raised := debug.SetGCPercent(10)
	debug.SetGCPercent(raised)
	undo()
	if after := debug.SetGCPercent(10); raised <= 10 || after != 10 {
		t.Errorf("10 became %d, then %d", raised, after)
	}
	for _, same := range []int{-1, 1 << 20} {
		debug.SetGCPercent(same)
		undo := giveRoom()
		got := debug.SetGCPercent(same)
		undo()
		if after := debug.SetGCPercent(same); got != same || after != same {
			t.Errorf("%d became %d, then %d", same, got, after)
		}
	}
}

// The room is for a heap that grows too: what a run keeps raises it to half of that at
// most.
func TestRoomStays(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	debug.FreeOSMemory()
	defer giveRoom()()
	kept := make([]byte, 3*gcRoom)
	var room int64
	for range 1000 { // the first collections still go by the old share
		runtime.GC()
		heap := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}, {Name: "/gc/heap/live:bytes"}}
		metrics.Read(heap)
		if room = int64(heap[0].Value.Uint64()) - int64(heap[1].Value.Uint64()); room <= 3*gcRoom/2+1<<20 {
			break
		}
	}
	if room > 3*gcRoom/2+1<<20 {
		t.Errorf("a heap of %d MB may grow by %d MB", len(kept)>>20, room>>20)
	}
	runtime.KeepAlive(kept)
}
