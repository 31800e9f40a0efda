//go:build unix

package probe

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a canceled program end with all that it started, where it is a
// script; and an interrupt at the terminal is not for it.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
