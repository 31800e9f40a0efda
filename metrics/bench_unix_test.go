//go:build unix

package metrics_test

import (
	"syscall"
	"testing"
	"time"
)

// cpuTime is that of the process so far: on a busy machine the wall clock says
// little.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
