//go:build unix

package selftest

import (
	"syscall"
	"time"
)

// processCPU is the CPU time that this process has used, in user and in kernel mode.
func processCPU() (time.Duration, bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
