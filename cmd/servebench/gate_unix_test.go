//go:build unix

package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/servebench/servebench/bench/gate"
	"github.com/servebench/servebench/bench/sim"
)

// A gate that stands still in a run has measured itself: it says so, names the run, and
// makes no more of them. The servers are equal; without the check it would be a PASS.
func TestGateStarved(t *testing.T) {
	pid, quick := make(chan int, 1), sim.New(sim.Config{})
	var asked atomic.Int64
	standStill := func() {
		id := <-pid
		syscall.Kill(id, syscall.SIGSTOP)
		var ws syscall.WaitStatus
		for errors.Is(stopped(id, &ws), syscall.EINTR) {
		}
		if !ws.Stopped() {
			t.Errorf("the gate is not stopped: %v", ws)
		}
		<-time.After(1200 * time.Millisecond) // nothing but the time can tell
		syscall.Kill(id, syscall.SIGCONT)
	}
	handler := func(stop bool) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// The first may be a warm-up, which no verdict looks at.
			if stop && r.URL.Path == "/v1/completions" && asked.Add(1) == 3 {
				standStill()
			}
			quick.ServeHTTP(w, r)
		})
	}
	a, b := httptest.NewServer(handler(false)), httptest.NewServer(handler(true))
	defer a.Close()
	defer b.Close()
	dir := t.TempDir()
	verdict := filepath.Join(dir, "v.json")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "gate", "--baseline-url", a.URL, "--candidate-url", b.URL, "--model", "m", "--skip-tokenizer-init",
		"--num-prompts", "4", "--max-concurrency", "1", "--random-input-len", "4", "--random-output-len", "2", "--result-dir", filepath.Join(dir, "runs"), "--verdict", verdict)
	cmd.Env = append(os.Environ(), "SERVEBENCH_TEST_MAIN=1", "OPENAI_API_KEY=")
	out := new(strings.Builder)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid <- cmd.Process.Pid
	err := cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInvalid {
		t.Fatalf("exit %d (%v)\n%s", code, err, out)
	}
	r := readReport(t, verdict)
	if r.Verdict != gate.Inconclusive || !strings.Contains(r.Reason, "01-candidate is INVALID") || !strings.Contains(r.Reason, "stood still") || len(r.Runs) != 2 {
		t.Errorf("%+v", r)
	}
}
