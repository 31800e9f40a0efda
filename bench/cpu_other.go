//go:build !unix

package bench

import "time"

// ProcessCPU is not known here.
func ProcessCPU() (used time.Duration, ok bool) { return 0, false }
