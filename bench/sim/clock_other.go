//go:build !linux

package sim

import "time"

var processStart = time.Now()

// monotonicNow is the time since the process started, in nanoseconds: there is no clock here that other processes share
// and that reads the same as Go's.
func monotonicNow() int64 { return int64(time.Since(processStart)) }
