package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/servebench/servebench/bench/gate"
)

// A signal in the middle of a gate whose servers are its own: they end with it, the
// runs that were made are kept, and the verdict says that there is none.
func TestGateSignals(t *testing.T) {
	for _, c := range []struct {
		signal syscall.Signal
		code   int
	}{{syscall.SIGINT, 130}, {syscall.SIGTERM, 143}} {
		t.Run(c.signal.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			verdict, runs := filepath.Join(dir, "v.json"), filepath.Join(dir, "runs")
			mark := fmt.Sprintf("mark-%d-%d", os.Getpid(), c.code)
			server := fmt.Sprintf("%s sim --host 127.0.0.1 --port {port} --served-model-name %s --ttft 1ms --itl 1ms", os.Args[0], mark)
			cmd := exec.CommandContext(t.Context(), os.Args[0], "gate", "--baseline-command", server, "--candidate-command", server, "--verdict", verdict, "--result-dir", runs,
				"--model", mark, "--skip-tokenizer-init", "--num-prompts", "4", "--random-input-len", "4", "--random-output-len", "4", "--temperature", "0")
			cmd.Env = append(os.Environ(), "SERVEBENCH_TEST_MAIN=1", "OPENAI_API_KEY=", "GITHUB_ACTIONS=")
			var said lines
			cmd.Stderr = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			exited := make(chan struct{})
			completed := said.has("01-baseline: completed")
			go func() { defer close(exited); cmd.Wait() }()
			select {
			case <-completed:
			case <-exited:
				t.Fatal(said.String())
			}
			if err := cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			<-exited
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Errorf("exit %d, want %d: %s", code, c.code, said.String())
			}
			if r := readReport(t, verdict); r.Verdict != gate.Inconclusive || !strings.Contains(r.Reason, "interrupted") {
				t.Errorf("%+v", r)
			}
			if _, err := os.Stat(filepath.Join(runs, "01-baseline.manifest.json")); err != nil {
				t.Error(err)
			}
			processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, p := range processes {
				if text, err := os.ReadFile(p); err == nil && strings.Contains(string(text), mark) {
					t.Errorf("left running: %s: %q", p, text)
				}
			}
		})
	}
}
