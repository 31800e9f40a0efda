//go:build unix

package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// hasWidth tells whether a terminal knows its width: a bar cannot be drawn into
// one of no columns, as some programs open them.
func hasWidth(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil && size.Col > 0
}
