//go:build unix

package server

import (
	"os"
	"os/exec"
	"syscall"
)

// supported is nil where servers can be started and ended whole.
var supported error

const (
	sigterm = syscall.SIGTERM
	sigkill = syscall.SIGKILL
)

// ownSession makes cmd the leader of a session and so of a process group: no key
// at the terminal reaches it, and all it starts can be found.
func ownSession(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// send sends a signal to a process, or to the group -pid. What is gone already
// is no error.
func send(pid int, s syscall.Signal) { syscall.Kill(pid, s) }

// signaled is the name of the signal that ended a process, or "".
func signaled(s *os.ProcessState) string {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return w.Signal().String()
	}
	return ""
}
