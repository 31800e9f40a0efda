//go:build !linux

package bench

import "time"

// What the kernel tells is read on Linux alone.
func processCPU() time.Duration { return 0 }

func throttledPeriods() (n int, ok bool) { return 0, false }
