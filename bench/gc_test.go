package bench

import (
	"runtime/debug"
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
