//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package sweep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// lock makes this process the only one that works on a folder, until unlock is
// called or the process ends in whatever way. Where the file system knows no locks
// there is none.
func lock(dir string) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(dir, ".servebench.lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR {
			break
		}
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		file.Close()
		return nil, fmt.Errorf("another servebench works on %s; want another folder, or to wait", dir)
	}
	return func() { file.Close() }, nil
}
