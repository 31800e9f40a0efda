package sim

import _ "unsafe" // for go:linkname

// monotonicNow is CLOCK_MONOTONIC in nanoseconds, as other processes on the machine read it. It is the runtime's own reading,
// which needs no system call, and not package time's, which a testing/synctest bubble replaces.
//
//go:linkname monotonicNow runtime.nanotime
func monotonicNow() int64
