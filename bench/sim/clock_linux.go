package sim

import "golang.org/x/sys/unix"

// monotonicNow is CLOCK_MONOTONIC in nanoseconds. It asks the kernel and not package time: other processes on the machine
// can compare it with their own, and a testing/synctest bubble does not replace it.
func monotonicNow() int64 {
	var ts unix.Timespec
	// It cannot fail: the clock exists and ts is valid memory.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}
