package bench

import (
	"runtime/debug"
	"runtime/metrics"
)

// gcRoom is how much the heap may grow in the timed part before a collection: with a
// small heap and a low GOGC they follow each other so fast that they take a third of
// the client's time.
const gcRoom = 32 << 20

// giveRoom lets the collector wait for gcRoom at least, and returns what takes that
// back. It concerns the whole process; nothing is changed where GOGC is off or gives
// more room already.
func giveRoom() (undo func()) {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	if live[0].Value.Kind() != metrics.KindUint64 {
		return func() {}
	}
	percent := int(gcRoom * 100 / max(live[0].Value.Uint64(), 1<<20))
	old := debug.SetGCPercent(percent)
	if old < 0 || old >= percent {
		debug.SetGCPercent(old)
		return func() {}
	}
	return func() { debug.SetGCPercent(old) }
}
