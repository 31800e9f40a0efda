package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/internal/memnet"
)

// perRun is a server that is another in each run: at is asked for the run's number.
type perRun struct {
	at      func(run int) http.Handler
	run     atomic.Int64 // runs that have ended
	mu      sync.Mutex
	prompts []map[string]bool // of each run; guarded by mu
}

func (p *perRun) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	run := int(p.run.Load())
	if r.URL.Path == "/v1/completions" {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var in struct {
			Prompt json.RawMessage
			Salt   string `json:"cache_salt"`
		}
		json.Unmarshal(body, &in)
		p.mu.Lock()
		for len(p.prompts) <= run {
			p.prompts = append(p.prompts, map[string]bool{})
		}
		p.prompts[run][in.Salt+string(in.Prompt)] = true
		p.mu.Unlock()
	}
	p.at(run+1).ServeHTTP(w, r)
}

// Write counts the lines that tell of the end of a run.
func (p *perRun) Write(text []byte) (int, error) {
	p.run.Add(int64(bytes.Count(text, []byte("servebench: ["))))
	return len(text), nil
}

// repeated makes runs in virtual time.
func repeated(t *testing.T, p *perRun, dir string, args ...string) (code int, out, errs string) {
	t.Helper()
	early := make(chan os.Signal, 1) // as in gated
	signal.Notify(early, syscall.SIGUSR2)
	defer signal.Stop(early)
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		srv := &http.Server{Handler: p}
		ended := make(chan struct{})
		go func() { defer close(ended); srv.Serve(n) }()
		defer func() { srv.Close(); <-ended }()
		var stdout, stderr bytes.Buffer
		term := &terminal{out: &stdout, err: io.MultiWriter(&stderr, p), dial: func(ctx context.Context, _, _ string) (net.Conn, error) { return n.Dial(ctx, "", "") }}
		code = term.exit(serve(t.Context(), append([]string{
			"--base-url", "http://a.test", "--model", "m", "--skip-tokenizer-init", "--pacing", "sleep", "--num-prompts", "8", "--max-concurrency", "4",
			"--random-input-len", "8", "--random-output-len", "10", "--temperature", "0", "--result-dir", dir,
		}, args...), term))
		out, errs = stdout.String(), stderr.String()
	})
	return code, out, errs
}

func readRepeats(t *testing.T, dir string) (s repeats) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "repeats.json"))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func always(h http.Handler) func(int) http.Handler { return func(int) http.Handler { return h } }

// Whole runs, with prompts of their own, are saved each, and said to be equal.
func TestRepeats(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs")
	p := &perRun{at: always(simulator(10 * time.Millisecond))}
	code, out, errs := repeated(t, p, dir, "--num-runs", "4")
	if code != 0 {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	s := readRepeats(t, dir)
	if s.Asked != 4 || len(s.Runs) != 4 || s.Ended != "all were made" || !s.Simulated {
		t.Errorf("%+v", s)
	}
	salts := map[string]bool{}
	for i, r := range s.Runs {
		if salts[r.Salt] || r.Salt == "" || strings.Contains(r.Salt, "{") {
			t.Errorf("run %d: %+v, want a salt of its own", i+1, r)
		}
		salts[r.Salt] = true
		if says := fmt.Sprintf("servebench: [%d/4] run-%03[1]d: completed", i+1); !strings.Contains(errs, says) {
			t.Errorf("nothing says %q:\n%s", says, errs)
		}
		for _, name := range []string{"result.json", "manifest.json", "requests.jsonl"} {
			if _, err := os.Stat(filepath.Join(dir, fmt.Sprintf("run-%03d.%s", i+1, name))); err != nil {
				t.Error(err)
			}
		}
		for other := range i {
			for prompt := range p.prompts[i] {
				if p.prompts[other][prompt] {
					t.Errorf("runs %d and %d have a prompt in common: %s", other+1, i+1, prompt)
				}
			}
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "repeats.html"))
	if err != nil || !bytes.Contains(page, []byte(`"kind":"repeats"`)) || !bytes.Contains(page, []byte("SIMULATED")) {
		t.Errorf("%v: the page has no picture", err)
	}
	if code, _, errs := repeated(t, p, dir, "--num-runs", "4"); code != exitUsage || !strings.Contains(errs, "has the runs of another --num-runs") {
		t.Errorf("the folder is taken: exit %d, %s", code, errs)
	}
}

// What was declared beforehand ends the runs; a trend of the values is told.
func TestRepeatsEnd(t *testing.T) {
	const itl = 10 * time.Millisecond
	growing := func(run int) http.Handler { return simulator(itl + time.Duration(run)*itl/20) }
	for _, c := range []struct {
		name  string
		at    func(run int) http.Handler
		args  []string
		runs  int
		ended string
		note  string
	}{
		{"equal runs end after three", always(simulator(itl)), []string{"--num-runs", "6", "--until-ci", "2%"}, 3, "output_throughput is known to within", ""},
		{"others are all made", growing, []string{"--num-runs", "5", "--until-ci", "2%"}, 5, "all were made", "output_throughput drifts by -"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			code, out, errs := repeated(t, &perRun{at: c.at}, dir, c.args...)
			s := readRepeats(t, dir)
			if code != 0 || len(s.Runs) != c.runs || !strings.Contains(s.Ended, c.ended) || !strings.Contains(out, s.Ended) {
				t.Errorf("exit %d, %+v\n%s%s", code, s, out, errs)
			}
			// Whether a goroutine waited for a CPU is in no virtual time: a run may be SUSPECT.
			if notes := strings.Join(s.Notes, "\n"); strings.Contains(notes, "drifts") != (c.note != "") || !strings.Contains(notes, c.note) {
				t.Errorf("%q, want %q", notes, c.note)
			}
		})
	}
}

// A run that cannot be made keeps those before, which are told.
func TestRepeatsKeepWhatThereIs(t *testing.T) {
	dead := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	p := &perRun{at: func(run int) http.Handler {
		if run > 2 {
			return dead
		}
		return simulator(time.Millisecond)
	}}
	dir := t.TempDir()
	code, out, errs := repeated(t, p, dir, "--num-runs", "5", "--ready-check-timeout-sec", "0")
	s := readRepeats(t, dir)
	if code != exitTarget || len(s.Runs) != 2 || s.Ended != "run-003 could not be made" || !strings.Contains(errs, "run-003 failed") || !strings.Contains(out, "2 runs of 5; run-003 could not be made.") {
		t.Errorf("exit %d, %+v\n%s%s", code, s, out, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, "repeats.html")); err != nil {
		t.Error(err)
	}
}

func TestRepeatsRefuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--num-runs", "0"}, "--num-runs"},
		{[]string{"--until-ci", "2%"}, "goes with --num-runs"},
		{[]string{"--num-runs", "3", "--until-ci", "0"}, "a share above 0%"},
		{[]string{"--num-runs", "3", "--result-filename", "x.json"}, "is for one run"},
		{[]string{"--num-runs", "3", "--manifest", "x.json"}, "is for one run"},
	} {
		code, out, errs := command(t, append([]string{"serve", "--base-url", "http://127.0.0.1:1", "--model", "m"}, c.args...)...)
		if code != exitUsage || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%q: exit %d, %q %q, want …%s…", c.args, code, out, errs, c.says)
		}
	}
}

// A signal in the second run keeps the first.
func TestRepeatsInterrupted(t *testing.T) {
	pid, quick := make(chan int, 1), sim.New(sim.Config{})
	var n, second atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/completions" && second.Load() == 0 && n.Add(1) > 6 {
			second.Store(1)
			if p, err := os.FindProcess(<-pid); err != nil || p.Signal(os.Interrupt) != nil {
				t.Error("no signal")
			}
		}
		quick.ServeHTTP(w, r)
	}))
	defer srv.Close()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "serve", "--base-url", srv.URL, "--model", "m", "--skip-tokenizer-init", "--num-prompts", "4", "--max-concurrency", "1",
		"--random-input-len", "4", "--random-output-len", "2", "--ready-check-timeout-sec", "0", "--num-runs", "400", "--result-dir", dir)
	cmd.Env = append(os.Environ(), "SERVEBENCH_TEST_MAIN=1", "OPENAI_API_KEY=")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid <- cmd.Process.Pid
	err := cmd.Wait()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if s := readRepeats(t, dir); !ok || exit.ExitCode() != 130 || len(s.Runs) < 1 || len(s.Runs) == 400 || !strings.HasPrefix(s.Ended, "interrupted in run-") {
		t.Errorf("%v, %+v\n%s", err, s, &said)
	}
}
