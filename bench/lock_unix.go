//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package bench

import (
	"os"
	"syscall"
)

// lock waits until no other run adds to file; closing the file ends it. Where the
// file system knows no locks there is none.
func lock(file *os.File) {
	for syscall.Flock(int(file.Fd()), syscall.LOCK_EX) == syscall.EINTR {
	}
}
