//go:build !unix

package server

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

var supported error = errors.New("this system has no process groups, by which a server is ended whole; want Linux or macOS, or a server that is started by hand")

const (
	sigterm = syscall.SIGTERM
	sigkill = syscall.SIGKILL
)

func ownSession(*exec.Cmd)             {}
func send(int, syscall.Signal)         {}
func signaled(*os.ProcessState) string { return "" }

func groupLives(int) bool { return false }
