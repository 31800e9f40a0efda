//go:build unix && !linux

package server

import "syscall"

// groupLives reports whether a process group has a process. One that may not be
// signaled, a zombie among them, counts as gone: nothing can be done about it.
func groupLives(leader int) bool { return syscall.Kill(-leader, 0) == nil }
