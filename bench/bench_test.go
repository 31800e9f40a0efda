package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/internal/memnet"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/manifest"
	"github.com/servebench/servebench/metrics"
)

const ms = time.Millisecond

// pipeNet is a network in virtual time.
type pipeNet = memnet.Net

// serveHandler serves h on a network of its own until the test ends.
func serveHandler(t *testing.T, h http.Handler) *pipeNet {
	n := memnet.New()
	srv := &http.Server{Handler: h}
	ended := make(chan struct{})
	go func() { defer close(ended); srv.Serve(n) }()
	t.Cleanup(func() { srv.Close(); <-ended })
	return n
}

// config is a run against n: four requests of 7 prompt tokens and 5 tokens to
// generate, all at once.
func config(n *pipeNet) bench.Config {
	return bench.Config{
		Backend: "vllm", Model: "m", Stream: true, IgnoreEOS: true, NoTokenizer: true,
		Target:      openai.Config{BaseURL: "http://sim.test", Dial: n.Dial},
		Dataset:     dataset.Spec{Name: "random", Prompts: 4, InputLen: 7, OutputLen: 5},
		Rate:        loadgen.Inf,
		Pacing:      loadgen.Sleep,
		Percentiles: []float64{50, 99},
		Grace:       time.Second,
		Command:     []string{"servebench", "serve", "--num-prompts", "4"},
	}
}

func simulate(t *testing.T, c sim.Config) bench.Config {
	return config(serveHandler(t, sim.New(c)))
}

// save writes all files, validates and verifies the manifest, and returns it.
func save(t *testing.T, res *bench.Result) *manifest.Run {
	t.Helper()
	dir := t.TempDir()
	f := bench.Beside(filepath.Join(dir, "run.json"))
	f.Selected = []string{"ttft", "tpot", "itl", "e2el"}
	if _, err := res.Save(f); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(f.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := manifest.Validate(data); err != nil {
		t.Errorf("the manifest is not valid: %v", err)
	}
	for _, finding := range manifest.Verify(data, os.DirFS(dir)) {
		if finding.Severity == manifest.Fail {
			t.Errorf("the manifest does not verify: %v", finding)
		}
	}
	var run manifest.Run
	if err := json.Unmarshal(data, &run); err != nil {
		t.Fatal(err)
	}
	return &run
}

// In virtual time every number is known: 50 ms to the first token, 10 ms
// between tokens, for each API and form of prompt.
func TestRunIsExact(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*bench.Config)
	}{
		{"completions", func(*bench.Config) {}},
		{"token ids", func(c *bench.Config) { c.Dataset.TokenIDs = true }},
		{"chat", func(c *bench.Config) { c.Backend = "openai-chat" }},
		{"cap", func(c *bench.Config) { c.MaxConcurrency = 2; c.Dataset.Warmups = 3 }},
		{"open loop", func(c *bench.Config) { c.Rate = 10; c.Burstiness = loadgen.Inf }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := simulate(t, sim.Config{TTFT: 50 * ms, ITL: 10 * ms})
				c.set(&cfg)
				res, err := bench.Run(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				s := res.Summary
				if s.Completed != 4 || s.Failed != 0 || s.OutputTokens != 20 {
					t.Fatalf("%d completed, %d failed, %d tokens, want 4, 0 and 20: %v", s.Completed, s.Failed, s.OutputTokens, res.Warnings)
				}
				for name, d := range map[string]*metrics.Dist{"ttft": s.Token.TTFT, "itl": s.Token.ITL, "tpot": s.Token.TPOT, "e2el": s.Token.E2EL} {
					want := map[string]float64{"ttft": 50, "itl": 10, "tpot": 10, "e2el": 90}[name]
					if d.Min != want || d.Max != want || d.Mean != want {
						t.Errorf("%s is %v to %v, mean %v, want %v", name, d.Min, d.Max, d.Mean, want)
					}
				}
				run := save(t, res)
				if run.Outcome != manifest.Completed || run.Measurement.Extensions["servebench.simulated"] != true {
					t.Errorf("outcome %q, simulated %v, want completed and true", run.Outcome, run.Measurement.Extensions["servebench.simulated"])
				}
			})
		})
	}
}

// The duration runs from schedule zero, the wait for the first request included,
// to the end of the last request.
func TestDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := simulate(t, sim.Config{TTFT: 50 * ms, ITL: 10 * ms})
		cfg.Rate, cfg.Burstiness = 10, loadgen.Inf
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if want := 490 * ms; res.Duration != want { // due at 400 ms, 90 ms long
			t.Errorf("the run took %v, want %v", res.Duration, want)
		}
	})
}

// Case S20: every request fails. The files are there all the same, with nulls
// for what nobody measured, and say why.
func TestAllFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := simulate(t, sim.Config{Model: "another"})
		res, err := bench.Run(t.Context(), cfg)
		var target *bench.TargetError
		if !errors.As(err, &target) || target.Category != "http_404" || !strings.Contains(err.Error(), "does not exist") {
			t.Fatalf("error %v, want a target error http_404 with the server's words", err)
		}
		run := save(t, res)
		if run.Outcome != manifest.Failed || run.Failure == nil || run.Results != nil {
			t.Errorf("the manifest says %q, failure %v, results %v", run.Outcome, run.Failure, run.Results)
		}
		b, err := res.JSON([]string{"ttft", "e2el"}, false)
		if err != nil {
			t.Fatal(err)
		}
		var v map[string]any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		if v["completed"] != 0.0 || v["failed"] != 4.0 || v["mean_ttft_ms"] != nil || v["output_throughput"] != 0.0 {
			t.Errorf("completed %v failed %v mean ttft %v output %v, want 0, 4, null, 0", v["completed"], v["failed"], v["mean_ttft_ms"], v["output_throughput"])
		}
	})
}

// A server that is not there is an error with a manifest.
func TestNoServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		n.Close()
		res, err := bench.Run(t.Context(), config(n))
		var target *bench.TargetError
		if !errors.As(err, &target) || target.Stage != "connect" {
			t.Fatalf("error %v, want a target error at connect", err)
		}
		if run := save(t, res); run.Outcome != manifest.Failed || run.Workload.RequestCount != 4 {
			t.Errorf("outcome %q of %d requests, want failed of 4", run.Outcome, run.Workload.RequestCount)
		}
	})
}

// Case S28: stopped after some requests, the rest never sent; then stopped at
// once, with the ones in flight canceled.
func TestInterrupted(t *testing.T) {
	for _, hard := range []bool{false, true} {
		t.Run(fmt.Sprintf("hard=%v", hard), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := simulate(t, sim.Config{TTFT: 50 * ms, ITL: 10 * ms})
				cfg.MaxConcurrency = 1
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				stop := make(chan struct{})
				cfg.Stop = stop
				time.AfterFunc(200*ms, func() {
					if hard {
						cancel()
					} else {
						close(stop)
					}
				})
				res, err := bench.Run(ctx, cfg)
				if err != nil {
					t.Fatal(err)
				}
				// 90 ms each: the third is in flight at 200 ms.
				want := map[bool]int{false: 3, true: 2}[hard]
				if res.Outcome != manifest.Interrupted || res.Summary.Completed != want {
					t.Errorf("%s with %d completed, want interrupted with %d", res.Outcome, res.Summary.Completed, want)
				}
				if res.Duration != map[bool]time.Duration{false: 270 * ms, true: 200 * ms}[hard] {
					t.Errorf("it took %v", res.Duration)
				}
				run := save(t, res)
				partial, ok := run.Measurement.Extensions["servebench.partial"].(map[string]any)
				if run.Outcome != manifest.Interrupted || run.Results != nil || !ok || partial["successful_requests"] != float64(want) {
					t.Errorf("the manifest says %q, results %v, partial %v", run.Outcome, run.Results, partial)
				}
			})
		})
	}
}

// Answers in one piece have an end and nothing else.
func TestNotStreamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := simulate(t, sim.Config{TTFT: 50 * ms, ITL: 10 * ms})
		cfg.Stream = false
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if s := res.Summary; s.Token.TTFT != nil || s.Token.E2EL == nil || s.Token.E2EL.Mean != 90 || s.OutputTokens != 20 {
			t.Errorf("ttft %v, e2el %v, %d tokens", s.Token.TTFT, s.Token.E2EL, s.OutputTokens)
		}
		if run := save(t, res); run.Workload.Streaming || run.Results.LatencyMS.TimeToFirstToken != nil {
			t.Error("the manifest speaks of a stream")
		}
	})
}

// A ready check tries request 0 every 5 s; a server that comes up in time is
// measured.
func TestReadyCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		server := sim.New(sim.Config{TTFT: 50 * ms, ITL: 10 * ms})
		n := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if time.Since(begin) < 12*time.Second && strings.HasPrefix(r.URL.Path, "/v1/completions") {
				http.Error(w, "loading", http.StatusServiceUnavailable)
				return
			}
			server.ServeHTTP(w, r)
		}))
		cfg := config(n)
		cfg.ReadyTimeout = time.Minute
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if res.ReadyRequests != 4 { // at 0, 5, 10 and 15 s
			t.Errorf("%d readiness requests, want 4", res.ReadyRequests)
		}
		cfg.ReadyTimeout = 8 * time.Second
		begin = time.Now()
		_, err = bench.Run(t.Context(), cfg)
		var target *bench.TargetError
		if !errors.As(err, &target) || target.Stage != "readiness" || target.Category != "http_503" {
			t.Errorf("error %v, want readiness http_503", err)
		}
	})
}

// Before the first timed request Stop ends all at once: nothing is lost by it.
func TestStopBeforeTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "loading", http.StatusServiceUnavailable)
		})))
		cfg.ReadyTimeout = time.Hour
		stop := make(chan struct{})
		cfg.Stop = stop
		time.AfterFunc(7*time.Second, func() { close(stop) })
		begin := time.Now()
		res, err := bench.Run(t.Context(), cfg)
		if err != nil || !res.Stopped || time.Since(begin) != 7*time.Second {
			t.Errorf("error %v after %v, stopped %v, want none after 7s", err, time.Since(begin), res != nil && res.Stopped)
		}
		if run := save(t, res); run.Outcome != manifest.Failed || run.Failure.Category != "interrupted" {
			t.Errorf("the manifest says %q, %v", run.Outcome, run.Failure)
		}
	})
}

// --extra-body has the last word in the body, and so in the manifest.
func TestManifestTellsWhatWasSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := simulate(t, sim.Config{TTFT: ms, ITL: ms})
		cfg.Extra = json.RawMessage(`{"temperature":0,"ignore_eos":false,"max_tokens":2}`)
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		w := save(t, res).Workload
		if w.Sampling.Mode != "greedy" || *w.Stopping.IgnoreEOS || w.Stopping.MaxOutputTokens != 2 || w.OutputTokens.Value != 2 {
			t.Errorf("sampling %v, ignore_eos %v, max %d, output %v", w.Sampling, *w.Stopping.IgnoreEOS, w.Stopping.MaxOutputTokens, w.OutputTokens)
		}
		for _, warning := range res.Warnings {
			if strings.Contains(warning, "shorter") || strings.Contains(warning, "longer") {
				t.Errorf("a false alarm: %s", warning)
			}
		}
	})
}

// A file that is not there is the user's mistake, whether the server is there or
// not.
func TestBadFileBeforeMissingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		n.Close()
		cfg := config(n)
		cfg.Dataset = dataset.Spec{Name: "custom", Path: "none.jsonl", Prompts: 1, OutputLen: 1}
		cfg.ReadyTimeout = time.Hour
		begin := time.Now()
		res, err := bench.Run(t.Context(), cfg)
		if res != nil || err == nil || !strings.Contains(err.Error(), "none.jsonl") || time.Since(begin) != 0 {
			t.Errorf("result %v, error %v after %v, want the file's name at once", res, err, time.Since(begin))
		}
	})
}

// What a run's manifest says of the prompts is the digest of what was sent.
func TestSameConfigSameBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		sent := map[string]int{}
		server := sim.New(sim.Config{})
		cfg := config(serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				b, _ := io.ReadAll(r.Body)
				mu.Lock()
				sent[string(b)]++
				mu.Unlock()
				r.Body = io.NopCloser(bytes.NewReader(b))
			}
			server.ServeHTTP(w, r)
		})))
		first, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		// Through JSON and back it is the same run.
		b, err := json.Marshal(cfg)
		if err != nil {
			t.Fatal(err)
		}
		var again bench.Config
		if err := json.Unmarshal(b, &again); err != nil {
			t.Fatal(err)
		}
		again.Target.Dial, again.Command = cfg.Target.Dial, cfg.Command
		if !reflect.DeepEqual(plain(again), plain(cfg)) {
			t.Errorf("the configuration changed in JSON: %s", b)
		}
		second, err := bench.Run(t.Context(), again)
		if err != nil {
			t.Fatal(err)
		}
		if first.Plan.SHA256 != second.Plan.SHA256 || len(sent) != 4 {
			t.Errorf("digests %s and %s, %d distinct bodies of 8 sent, want equal and 4", first.Plan.SHA256, second.Plan.SHA256, len(sent))
		}
		again.Dataset.Seed = 1
		third, err := bench.Run(t.Context(), again)
		if err != nil || third.Plan.SHA256 == first.Plan.SHA256 {
			t.Errorf("another seed gives the same digest (%v)", err)
		}
	})
}

// plain is a configuration without what no comparison can hold.
func plain(c bench.Config) bench.Config {
	c.Target.Dial = nil
	return c
}

// No key, header, home folder or host name gets into a manifest, a record or
// a histogram, even where the server says them.
func TestNothingLeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const key = "sk-canary-0123456789abcdef"
		home, _ := os.UserHomeDir()
		cfg := config(serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":{"message":"bad key %s and %s from %s at 10.1.2.3"}}`, key, r.Header.Get("X-Secret"), home+"/model")
		})))
		cfg.Target.APIKey = key
		cfg.Target.Header = map[string]string{"X-Secret": "hunter2-hunter2"}
		cfg.Command = []string{"servebench", "serve", "--header", "X-Secret=hunter2-hunter2", "--dataset-path", home + "/prompts.jsonl"}
		for _, ready := range []time.Duration{0, time.Second} {
			cfg.ReadyTimeout = ready // the server's words come from the run, or from the check
			res, _ := bench.Run(t.Context(), cfg)
			noLeaks(t, res, key, "hunter2", home+"/", "10.1.2.3")
		}
	})
}

func noLeaks(t *testing.T, res *bench.Result, secrets ...string) {
	t.Helper()
	f := bench.Beside(filepath.Join(t.TempDir(), "run.json"))
	f.Detailed = true
	if _, err := res.Save(f); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{f.Result, f.Manifest, f.Records, f.HDR} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			if bytes.Contains(b, []byte(secret)) {
				t.Errorf("%s holds %q", filepath.Base(name), secret)
			}
		}
	}
}

func TestValidateTellsAllAtOnce(t *testing.T) {
	bad := -1.0
	cfg := bench.Config{Backend: "grpc", Rate: -1, Burstiness: -1, Percentiles: []float64{101}, Goodput: map[string]float64{"itl": 1}}
	cfg.Sampling.Temperature = &bad
	err := cfg.Validate()
	for _, flag := range []string{"backend", "dataset-name", "request-rate", "burstiness", "metric-percentiles", "goodput", "temperature"} {
		if err == nil || !strings.Contains(err.Error(), flag+":") {
			t.Errorf("the error does not name %s: %v", flag, err)
		}
	}
}
