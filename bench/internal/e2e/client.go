package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// command is a child in a process group of its own: Ctrl-C reaches only us, and
// we end it when ctx ends.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 50 * time.Second // stop.sh takes up to 40 s
	return c
}

// client is one of the two tools.
type client string

const (
	ours   client = "servebench"
	theirs client = "vllm"
)

// ended is a client that has ended, and what it took.
type ended struct {
	code   int
	stdout string
	stderr string
	cpu    time.Duration // user and system, with its children
	rss    int64         // bytes, of the largest of its processes
	wall   time.Duration
}

// tail is the end of what was said, for messages.
func (e *ended) tail() string {
	text := strings.TrimSpace(e.stderr)
	if len(text) > 1500 {
		text = "…" + strings.ToValidUTF8(text[len(text)-1500:], "")
	}
	return text
}

// bench runs `servebench serve` or `vllm bench serve` with the same words.
func (s *suite) bench(ctx context.Context, who client, args ...string) (*ended, error) {
	name, words := s.binary, append([]string{"serve"}, args...)
	if who == theirs {
		name, words = filepath.Join(s.base, "venv/bin/vllm"), append([]string{"bench", "serve"}, args...)
	}
	c := command(ctx, name, words...)
	c.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "VLLM_TARGET_DEVICE=cpu",
		"VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1", "PATH="+filepath.Join(s.base, "venv/bin")+":"+os.Getenv("PATH"))
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	began := time.Now()
	err := c.Run()
	if c.ProcessState == nil {
		return nil, fmt.Errorf("%s: %w", who, err)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	e := &ended{
		code: c.ProcessState.ExitCode(), stdout: out.String(), stderr: errs.String(), wall: time.Since(began),
		cpu: c.ProcessState.UserTime() + c.ProcessState.SystemTime(),
	}
	if u, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
		e.rss = u.Maxrss
		if runtime.GOOS == "linux" {
			e.rss *= 1024
		}
	}
	return e, nil
}

// save are the flags that write a result named name, of either client.
func (s *suite) save(name string) []string {
	return []string{"--save-result", "--result-dir", s.dir, "--result-filename", name + ".json"}
}

func (s *suite) path(name string) string { return filepath.Join(s.dir, name) }
