//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/servebench/servebench/bench/sim"
)

// A client that stands still for over a second in the middle of a run says that its
// numbers are its own; one that idles as long has nothing to say of its CPU.
func TestStandstill(t *testing.T) {
	const still = 1200 * time.Millisecond
	for _, c := range []struct {
		name string
		stop bool
	}{{"stopped", true}, {"idle", false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			pid, quick, once := make(chan int, 1), sim.New(sim.Config{}), new(sync.Once)
			// Nothing but the time can tell how long a process stood still.
			standStill := func() {
				id := <-pid
				if c.stop {
					syscall.Kill(id, syscall.SIGSTOP)
					var ws syscall.WaitStatus
					for errors.Is(stopped(id, &ws), syscall.EINTR) {
					}
					if !ws.Stopped() {
						t.Errorf("the client is not stopped: %v", ws)
					}
				}
				<-time.After(still)
				if c.stop {
					syscall.Kill(id, syscall.SIGCONT)
				}
			}
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/completions" {
					once.Do(standStill)
				}
				quick.ServeHTTP(w, r)
			}))
			defer srv.Close()
			file := filepath.Join(t.TempDir(), "run.json")
			cmd := exec.CommandContext(t.Context(), os.Args[0], "serve", "--base-url", srv.URL, "--model", "m", "--strict",
				"--num-prompts", "4", "--max-concurrency", "1", "--random-input-len", "4", "--random-output-len", "2",
				"--save-result", "--result-filename", file)
			cmd.Env = append(os.Environ(), "SERVEBENCH_TEST_MAIN=1", "OPENAI_API_KEY=")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pid <- cmd.Process.Pid
			screen, _ := io.ReadAll(out)
			err = cmd.Wait()
			var res struct {
				Servebench struct {
					Verdict string
					Reasons []string `json:"verdict_reasons"`
					Health  struct {
						CPU  *float64 `json:"cpu_p95"`
						Wake *float64 `json:"wake_delay_max_ms"`
					}
				}
			}
			data, readErr := os.ReadFile(file)
			if readErr == nil {
				readErr = json.Unmarshal(data, &res)
			}
			s := res.Servebench
			if readErr != nil || s.Health.Wake == nil || s.Health.CPU == nil {
				t.Fatalf("%v, %s, %+v, ended with %v", readErr, screen, s, err)
			}
			if c.stop && (s.Verdict != "INVALID" || cmd.ProcessState.ExitCode() != exitInvalid || *s.Health.Wake < 1000 ||
				!strings.Contains(string(screen), "Verdict: INVALID.") || !strings.Contains(string(screen), "stood still")) {
				t.Errorf("%+v, exit %v\n%s", s, err, screen)
			}
			if !c.stop && slices.ContainsFunc(s.Reasons, func(r string) bool { return strings.Contains(r, "of its CPUs") }) {
				t.Errorf("an idle client: CPU %v, %v", *s.Health.CPU, s.Reasons)
			}
		})
	}
}

// stopped waits until all threads of a child have stopped.
func stopped(pid int, ws *syscall.WaitStatus) error {
	_, err := syscall.Wait4(pid, ws, syscall.WUNTRACED, nil)
	return err
}
