//go:build !linux

package bench

import "time"

// What the kernel tells is read on Linux alone.
func processCPU() (used time.Duration, ok bool) { return 0, false }

func cpuStats() []string { return nil }

func throttledPeriods([]string) (n int, ok bool) { return 0, false }

func openFiles() (int, bool) { return 0, false }

func filesLimit() (int, bool) { return 0, false }

func portRange() (int, bool) { return 0, false }

func timeWait() (int, bool) { return 0, false }

func residentBytes() (int, bool) { return 0, false }
