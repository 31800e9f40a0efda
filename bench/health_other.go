//go:build !linux

package bench

// What the kernel tells is read on Linux alone, but for the CPU time.
func cpuStats() []string { return nil }

func throttledPeriods([]string) (n int, ok bool) { return 0, false }

func openFiles() (int, bool) { return 0, false }

func filesLimit() (int, bool) { return 0, false }

func portRange() (int, bool) { return 0, false }

func timeWait() (int, bool) { return 0, false }

func residentBytes() (int, bool) { return 0, false }
