//go:build unix

package bench

import (
	"syscall"
	"time"
)

// ProcessCPU is the CPU time that this process has used, in user and in kernel mode;
// not ok where the system does not tell.
func ProcessCPU() (used time.Duration, ok bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
