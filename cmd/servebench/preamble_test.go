package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The lines before the table, in vLLM's words and order (bench-serve.md, 5d).
func TestPreamble(t *testing.T) {
	for _, row := range []struct {
		reading, args string
		phases        string
		want          string
	}{
		{"a closed loop", "", "prompts,run,results", `Starting initial single prompt test run...
Skipping endpoint ready check.
Starting main benchmark run...
Traffic request rate: inf
Burstiness factor: 1.0 (Poisson process)
Maximum request concurrency: None
`},
		{"everything", "--ready-check-timeout-sec 5 --num-warmups 3 --request-rate 10 --burstiness 0.5 --max-concurrency 8 --probe-request-rate 2 --profile",
			"prompts,waiting for the server,prompts,ready check,warm-up,run,results", `Starting initial single prompt test run...
Initial test run completed.
Warming up with 3 requests...
Warmup run completed.
Starting main benchmark run...
Starting profiler...
Traffic request rate: 10.0
Burstiness factor: 0.5 (Gamma distribution)
Maximum request concurrency: 8
Probe request rate: 2.0 req/s
`},
		{"a ramp", "--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 20 --num-warmups 1", "warm-up,run", `Starting initial single prompt test run...
Skipping endpoint ready check.
Warming up with 1 requests...
Warmup run completed.
Starting main benchmark run...
Traffic ramp-up strategy: linear.
Will increase RPS from 1 to 20 RPS over the duration of the benchmark.
Burstiness factor: 1.0 (Poisson process)
Maximum request concurrency: None
`},
		{"a trace by its times", "--dataset-name timed_trace", "run", `Starting initial single prompt test run...
Skipping endpoint ready check.
Starting main benchmark run...
Self timing is set, using the timestamps from the trace file.
`},
		{"a ready check that failed", "--ready-check-timeout-sec 5", "prompts,ready check,results", "Starting initial single prompt test run...\n"},
		{"a server that is not there", "", "prompts,results", ""},
	} {
		o, err := optionsOf(t, strings.Fields(row.args)...)
		if err != nil {
			t.Fatalf("%s: %v", row.reading, err)
		}
		var b strings.Builder
		enter := o.preamble(&b)
		for phase := range strings.SplitSeq(row.phases, ",") {
			enter(phase)
		}
		if diff := cmp.Diff(row.want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.reading, diff)
		}
	}
}

// A real run prints them before its table, also without progress.
func TestPreambleStandsBeforeTheTable(t *testing.T) {
	code, out, errs := command(t, serveArgs("--disable-tqdm", "--num-warmups", "1", "--ready-check-timeout-sec", "5")...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	want := `Starting initial single prompt test run...
Initial test run completed.
Warming up with 1 requests...
Warmup run completed.
Starting main benchmark run...
Traffic request rate: inf
Burstiness factor: 1.0 (Poisson process)
Maximum request concurrency: None
============ Serving Benchmark Result ============
`
	if !strings.HasPrefix(out, want) {
		t.Errorf("stdout begins\n%s\nwant\n%s", out[:min(len(out), len(want)+100)], want)
	}
}

// A flag that is taken without effect is told on stderr, once, and the run goes on.
func TestAcceptedFlagsAreTold(t *testing.T) {
	code, _, errs := command(t, serveArgs("--trust_remote_code", "--use-beam-search", "--extra-body.a", "1", "--extra-body.a", "2")...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, want := range []string{"--trust-remote-code has no effect", "--use-beam-search has no effect", "--extra-body.a is given more than once"} {
		if strings.Count(errs, want) != 1 {
			t.Errorf("want %q once in:\n%s", want, errs)
		}
	}
}

// What is given key by key arrives in the body.
func TestKeysReachTheServer(t *testing.T) {
	bodies := make(chan string, 16)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		select {
		case bodies <- string(b):
		default:
		}
		http.Error(w, "no", http.StatusBadRequest)
	}))
	defer srv.Close()
	command(t, "serve", "--base-url", srv.URL, "--model", "m", "--num-prompts", "1", "--random-input-len", "4", "--skip-tokenizer-init",
		"--extra-body.chat_template_kwargs.enable_thinking", "false", "--extra-body.stop+", "a,b", "--extra-body.x", "1.50")
	for {
		select {
		case b := <-bodies:
			if !strings.Contains(b, "stop") {
				continue // not a benchmark request
			}
			for _, want := range []string{`"chat_template_kwargs":{"enable_thinking": false}`, `"stop":["a", "b"]`, `"x":1.50`} {
				if !strings.Contains(b, want) {
					t.Errorf("no %s in %s", want, b)
				}
			}
			return
		default:
			t.Fatal("no body had the keys")
		}
	}
}
