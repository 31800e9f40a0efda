package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/manifest"
)

// TestMain lets the test binary stand in for servebench, so that signals and
// exit codes are those of a real process.
func TestMain(m *testing.M) {
	if os.Getenv("SERVEBENCH_TEST_TELLTALE") != "" {
		os.Exit(telltale(os.Args[1:]))
	}
	if os.Getenv("SERVEBENCH_TEST_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// Case S28: a signal in the middle of a run. One lets requests in flight end,
// two end it at once; what there is is saved either way.
func TestSignals(t *testing.T) {
	for _, c := range []struct {
		name    string
		signals []os.Signal
		code    int
	}{
		{"SIGINT", []os.Signal{os.Interrupt}, 130},
		{"SIGTERM", []os.Signal{syscall.SIGTERM}, 143},
		{"SIGINT twice", []os.Signal{os.Interrupt, os.Interrupt}, 130},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			// Three requests are answered at once; the fourth hangs until told.
			started, release := make(chan struct{}), make(chan struct{})
			quick, hanging := sim.New(sim.Config{}), 3
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/completions" {
					// Only after the body is read does a server notice that the
					// client has gone.
					body, _ := io.ReadAll(r.Body)
					r.Body = io.NopCloser(bytes.NewReader(body))
					if hanging--; hanging < 0 {
						close(started)
						select {
						case <-release:
						case <-r.Context().Done():
						}
					}
				}
				quick.ServeHTTP(w, r)
			}))
			defer srv.Close()
			file := filepath.Join(t.TempDir(), "run.json")
			cmd := exec.CommandContext(t.Context(), os.Args[0], "serve", "--base-url", srv.URL, "--model", "m",
				"--num-prompts", "50", "--max-concurrency", "1", "--random-input-len", "4", "--random-output-len", "2",
				"--save-result", "--result-filename", file, "--drain", "1h")
			cmd.Env = append(os.Environ(), "SERVEBENCH_TEST_MAIN=1", "OPENAI_API_KEY=")
			var said lines
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-started
			for i, s := range c.signals {
				if i > 0 {
					<-said.has("no new requests")
				}
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			if len(c.signals) == 1 {
				<-said.has("no new requests")
				close(release)
			}
			cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit %d, want %d: %s", code, c.code, said.String())
			}
			data, err := os.ReadFile(strings.TrimSuffix(file, ".json") + ".manifest.json")
			if err != nil {
				t.Fatal(err)
			}
			var run manifest.Run
			if err := json.Unmarshal(data, &run); err != nil {
				t.Fatal(err)
			}
			partial, _ := run.Measurement.Extensions["servebench.partial"].(map[string]any)
			want := 3.0
			if len(c.signals) == 1 {
				want = 4
			}
			if run.Outcome != manifest.Interrupted || partial["successful_requests"] != want {
				t.Errorf("%s with %v requests, want interrupted with %v", run.Outcome, partial["successful_requests"], want)
			}
		})
	}
}

// lines collects what a process says and tells when a word came.
type lines struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	wait map[string]chan struct{}
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf.Write(p)
	for word, ch := range l.wait {
		if strings.Contains(l.buf.String(), word) {
			close(ch)
			delete(l.wait, word)
		}
	}
	return len(p), nil
}

func (l *lines) has(word string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	ch := make(chan struct{})
	if strings.Contains(l.buf.String(), word) {
		close(ch)
		return ch
	}
	if l.wait == nil {
		l.wait = map[string]chan struct{}{}
	}
	l.wait[word] = ch
	return ch
}

func (l *lines) String() string { l.mu.Lock(); defer l.mu.Unlock(); return l.buf.String() }

// What a signal does depends on how far the run is.
func TestEndingOfEachPhase(t *testing.T) {
	o := &options{config: bench.Config{Grace: 10 * time.Second}}
	for phase, want := range map[string]string{
		"": "before", "warm-up": "before", "starting the profiler": "before", "run": "have 10s to end",
		"stopping the profiler": "are over", "results": "are over",
	} {
		if got := o.ending(phase); !strings.Contains(got, want) {
			t.Errorf("%q: %s", phase, got)
		}
	}
}
