//go:build !unix

package selftest

import "time"

func processCPU() (time.Duration, bool) { return 0, false }
