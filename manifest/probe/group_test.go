//go:build unix

package probe

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A program that hangs ends with what it started.
func TestProgramEndsWhole(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PROBE_TEST_PROGRAM", "hang")
	t.Setenv("PROBE_TEST_FIFO", path)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, err := runProgram(ctx, self)
		result <- err
	}()
	held, err := os.Open(path) // once the child has opened it
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := io.ReadAll(held); err != nil { // ends with the child
		t.Error(err)
	}
}
