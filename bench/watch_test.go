package bench_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/manifest"
	"github.com/servebench/servebench/metrics"
)

// site is several servers at addresses of their own, and notes what each was asked.
type site struct {
	nets map[string]*pipeNet
	mu   sync.Mutex
	seen map[string][]string // by server: method and path
}

// serveSite serves the handlers as node-0.test:80, node-1.test:80, ... and
// returns a run against them.
func serveSite(t *testing.T, handlers ...http.Handler) (*site, bench.Config) {
	s := &site{nets: map[string]*pipeNet{}, seen: map[string][]string{}}
	var cfg bench.Config
	for i, h := range handlers {
		name := fmt.Sprintf("node-%d.test", i)
		n := serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			s.seen[name] = append(s.seen[name], r.Method+" "+r.URL.Path)
			s.mu.Unlock()
			h.ServeHTTP(w, r)
		}))
		s.nets[name+":80"] = n
		if i == 0 {
			cfg = config(n)
			cfg.Command = []string{"servebench", "serve"}
			cfg.Target.BaseURL = "http://" + name
		} else {
			cfg.Replicas = append(cfg.Replicas, "http://"+name)
		}
		cfg.Command = append(cfg.Command, "--replica-url", "http://"+name)
	}
	cfg.Target.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		n := s.nets[addr]
		if n == nil {
			return nil, errors.New("no such host as " + addr)
		}
		c, err := n.Dial(ctx, network, addr)
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w", addr, err)
		}
		return c, nil
	}
	return s, cfg
}

// count is how often a server was asked for something.
func (s *site) count(i int, what string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.seen[fmt.Sprintf("node-%d.test", i)] {
		if line == what {
			n++
		}
	}
	return n
}

// saved reads all that a run writes.
func saved(t *testing.T, res *bench.Result) map[string]string {
	t.Helper()
	dir := t.TempDir()
	f := bench.Beside(filepath.Join(dir, "run.json"))
	f.Selected = []string{"ttft"}
	if _, err := res.Save(f); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(data)
	}
	return files
}

func has(warnings []string, part string) bool {
	return slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, part) })
}

// Request i goes to replica i mod n, warm-ups too; the ready check, the reset, the
// probe of the engine and the counters go to each.
func TestReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quick, slow := sim.Config{TTFT: 50 * ms}, sim.Config{TTFT: 100 * ms}
		s, cfg := serveSite(t, sim.New(quick), sim.New(slow), sim.New(quick))
		cfg.Dataset.Prompts, cfg.Dataset.Warmups, cfg.MaxConcurrency = 7, 3, 7
		cfg.ReadyTimeout, cfg.ResetPrefixCache, cfg.Dataset.TokenIDs = time.Minute, true, true
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if res.Summary.Completed != 7 || res.ReadyRequests != 3 {
			t.Fatalf("%d completed, %d readiness requests: %v", res.Summary.Completed, res.ReadyRequests, res.Warnings)
		}
		for i := range res.Records {
			r := &res.Records[i]
			want := map[bool]time.Duration{true: 100 * ms, false: 50 * ms}[i%3 == 1]
			if r.Replica != i%3 || r.E2EL() != want || !r.Reused {
				t.Errorf("request %d: replica %d, %v, reused %v, want %d, %v on a connection that was there", i, r.Replica, r.E2EL(), r.Reused, i%3, want)
			}
		}
		for i, timed := range []int{3, 2, 2} {
			for what, want := range map[string]int{"POST /v1/completions": timed + 2, "POST /reset_prefix_cache": 1, "GET /version": 1, "GET /metrics": 3} {
				if got := s.count(i, what); got != want {
					t.Errorf("replica %d was asked %d times for %s, want %d", i, got, what, want)
				}
			}
		}
		run := save(t, res)
		ext := run.Measurement.Extensions
		if ext["servebench.server_generation_tokens"] != 35.0 || ext["servebench.server_successful_requests"] != 7.0 || ext["servebench.server_prompt_tokens"] != 49.0 {
			t.Errorf("the sums over the replicas are %v, %v, %v, want 35, 7, 49", ext["servebench.server_generation_tokens"], ext["servebench.server_successful_requests"], ext["servebench.server_prompt_tokens"])
		}
		if ext["servebench.prefix_cache_reset"] != true || ext["servebench.connections_preopened"] != 9.0 {
			t.Errorf("reset %v, opened %v, want true and 3 for each", ext["servebench.prefix_cache_reset"], ext["servebench.connections_preopened"])
		}
		checkReplicas(t, ext, [][3]float64{{3, 0, 50}, {2, 0, 100}, {2, 0, 50}})
		for name, text := range saved(t, res) {
			if strings.Contains(text, "node-") {
				t.Errorf("%s holds an address", name)
			}
		}
		if has(res.Warnings, "eplica") || has(res.Warnings, "counter") {
			t.Errorf("warnings %q", res.Warnings)
		}
	})
}

// checkReplicas holds completed, failed and the mean E2EL of each.
func checkReplicas(t *testing.T, ext map[string]any, want [][3]float64) {
	t.Helper()
	list, _ := ext["servebench.replicas"].([]any)
	if len(list) != len(want) {
		t.Fatalf("servebench.replicas is %v", ext["servebench.replicas"])
	}
	for i, v := range list {
		one := v.(map[string]any)
		mean := 0.0
		if d, ok := one["e2el_ms"].(map[string]any); ok {
			mean = d["mean"].(float64)
		}
		if got := [3]float64{one["completed"].(float64), one["failed"].(float64), mean}; got != want[i] || one["replica"] != float64(i) {
			t.Errorf("replica %v: completed, failed, e2el %v, want %v", one["replica"], got, want[i])
		}
	}
}

// A replica that goes down after the ready check: its requests fail, and the others'
// go on. No file tells where it was.
func TestReplicaGoesDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		up := sim.New(sim.Config{TTFT: 50 * ms})
		_, cfg := serveSite(t, up, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if down.Load() || r.Method == http.MethodPost && down.CompareAndSwap(false, true) {
				panic(http.ErrAbortHandler)
			}
			up.ServeHTTP(w, r)
		}))
		cfg.Dataset.Prompts, cfg.MaxConcurrency = 6, 1
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		for i := range res.Records {
			if ok := res.Records[i].Outcome == metrics.OK; ok != (i%2 == 0) || res.Records[i].Replica != i%2 {
				t.Errorf("request %d: %s at replica %d", i, res.Records[i].Outcome, res.Records[i].Replica)
			}
		}
		run := save(t, res)
		checkReplicas(t, run.Measurement.Extensions, [][3]float64{{3, 0, 50}, {0, 3, 0}})
		if _, there := run.Measurement.Extensions["servebench.server_generation_tokens"]; there {
			t.Error("half of the counters are given for the whole")
		}
		if !has(res.Warnings, "Of the failed requests 0 went to replica 0, 3 went to replica 1.") {
			t.Errorf("warnings %q", res.Warnings)
		}
		if !has(res.Warnings, "The server's counters are not known: replica 1: GET /metrics:") {
			t.Errorf("warnings %q", res.Warnings)
		}
		for name, text := range saved(t, res) {
			if strings.Contains(text, "node-1") {
				t.Errorf("%s holds an address", name)
			}
		}
	})
}

// A replica that is not there at the start is no replica: nothing is measured.
func TestReplicaIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cfg := serveSite(t, sim.New(sim.Config{}), sim.New(sim.Config{}), sim.New(sim.Config{}))
		delete(s.nets, "node-1.test:80")
		delete(s.nets, "node-2.test:80")
		res, err := bench.Run(t.Context(), cfg)
		var target *bench.TargetError
		if !errors.As(err, &target) || target.Stage != "connect" || !strings.HasPrefix(err.Error(), "not all servers answer: replica 1: ") || !strings.Contains(err.Error(), "; replica 2: ") || strings.Contains(err.Error(), "\n") {
			t.Fatalf("error %v, want a target error that names replicas 1 and 2 in a line", err)
		}
		for name, text := range saved(t, res) {
			if strings.Contains(text, "node-1") {
				t.Errorf("%s holds an address: %s", name, text)
			}
		}
	})
}

// Replicas that are not alike are no replicas, which a warning says.
func TestReplicasDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		version := func(h http.Handler, v string) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/version" {
					io.WriteString(w, `{"version":"`+v+`"}`)
					return
				}
				h.ServeHTTP(w, r)
			})
		}
		_, cfg := serveSite(t, sim.New(sim.Config{Model: "m"}), version(sim.New(sim.Config{Model: "m"}), "9.9"), sim.New(sim.Config{Model: "m", MaxModelLen: 4096}), sim.New(sim.Config{Model: "other"}))
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"Replica 1 is not as replica 0: it differs in version.", "Replica 2 is not as replica 0: it differs in parameters.", "Replica 3 is not as replica 0: it differs in models."} {
			if !slices.Contains(res.Warnings, want) {
				t.Errorf("%q is not among %q", want, res.Warnings)
			}
		}
	})
}

func TestReplicaURLs(t *testing.T) {
	for url, want := range map[string]string{
		"http://b:1":        "",
		"https://b":         "",
		"b:1":               `replica-url: "b:1" is no base URL; want http://HOST:PORT or https://HOST`,
		"ftp://u:secret@b/": `replica-url: "ftp://b/" is no base URL; want http://HOST:PORT or https://HOST`,
		"http://b?key=x":    `replica-url: "http://b" is no base URL; want http://HOST:PORT or https://HOST`,
		"http://b:1/v1/":    "replica-url: http://b:1/v1/ ends in /v1, which the endpoint /v1/completions begins with; want the part before it",
		"http://a:1/":       "replica-url: http://a:1/ is there twice; want a server once",
	} {
		cfg := config(nil)
		cfg.Target.BaseURL, cfg.Replicas = "http://a:1", []string{url}
		err := cfg.Validate()
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

// The cache is reset after the ready check and before the warm-up; vLLM says no for as
// long as a request holds blocks.
func TestResetPrefixCache(t *testing.T) {
	for _, c := range []struct {
		why, category, err string
		answers            []string // status and body; the last one for good
		asked              int
	}{
		{"vLLM 0.32", "", "", []string{`200 {"success":true}`}, 1},
		{"an older vLLM", "", "", []string{"200 "}, 1},
		{"blocks are held for a while", "", "", []string{`200 {"success":false}`, `200 {"success":false}`, `200 {"success":true}`}, 3},
		{"blocks are held", "refused", "some requests still hold a part of the cache", []string{`200 {"success":false}`}, 51},
		{"no development mode", "http_404", "VLLM_SERVER_DEV_MODE=1", []string{`404 {"detail":"Not Found"}`}, 1},
		{"broken", "http_500", "POST /reset_prefix_cache: HTTP 500", []string{"500 "}, 1},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := sim.New(sim.Config{TTFT: ms})
				var order []string
				asked := 0
				cfg := config(serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost {
						order = append(order, r.URL.Path)
					}
					if r.URL.Path != "/reset_prefix_cache" {
						server.ServeHTTP(w, r)
						return
					}
					code, body, _ := strings.Cut(c.answers[min(asked, len(c.answers)-1)], " ")
					asked++
					w.WriteHeader(map[string]int{"200": 200, "404": 404, "500": 500}[code])
					io.WriteString(w, body)
				})))
				cfg.ResetPrefixCache, cfg.ReadyTimeout, cfg.MaxConcurrency = true, time.Minute, 1
				cfg.Dataset.Prompts, cfg.Dataset.Warmups, cfg.Command = 1, 1, nil
				res, err := bench.Run(t.Context(), cfg)
				if asked != c.asked {
					t.Errorf("asked %d times, want %d", asked, c.asked)
				}
				run := save(t, res)
				if reset := run.Measurement.Extensions["servebench.prefix_cache_reset"]; reset != (c.err == "") {
					t.Errorf("the manifest says the cache was reset: %v", reset)
				}
				if c.err == "" {
					const gen = "/v1/completions"
					want := slices.Concat([]string{gen}, slices.Repeat([]string{"/reset_prefix_cache"}, asked), []string{gen, gen})
					if d := cmp.Diff(want, order); d != "" || err != nil {
						t.Error(d, err)
					}
					return
				}
				var target *bench.TargetError
				if !errors.As(err, &target) || target.Category != c.category || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want %s with %q", err, c.category, c.err)
				}
				if run.Failure == nil || run.Failure.Stage != "prefix_cache_reset" {
					t.Errorf("failure %+v", run.Failure)
				}
			})
		})
	}
}

// counting puts vLLM's counters in front of a server: before at the first reading of
// the timed part, after at the second.
func counting(before, after string) http.Handler {
	server := sim.New(sim.Config{TTFT: 50 * ms, ITL: 10 * ms})
	var asked atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			server.ServeHTTP(w, r)
			return
		}
		if asked.Add(1) <= 2 { // the engine's probe, and before the load
			io.WriteString(w, before)
			return
		}
		io.WriteString(w, after)
	})
}

func prom(kv ...any) string {
	var b strings.Builder
	for i := 0; i < len(kv); i += 2 {
		fmt.Fprintf(&b, "vllm:%s_total{engine=\"0\"} %d.0\n", kv[i], kv[i+1])
	}
	return b.String()
}

// The window is that of the timed requests: 4 of 7 prompt tokens and 5 tokens.
func TestCounters(t *testing.T) {
	for _, c := range []struct {
		why           string
		before, after string
		want          map[string]any // of the extensions; nil: not there
		warning       string         // "": none of these
	}{
		{"all of it", prom("num_preemptions", 3, "prefix_cache_queries", 1000, "prefix_cache_hits", 900, "prompt_tokens", 1000, "generation_tokens", 50),
			prom("num_preemptions", 3, "prefix_cache_queries", 1028, "prefix_cache_hits", 907, "prompt_tokens", 1028, "generation_tokens", 70),
			map[string]any{"runpile.preemption_log_mentions": 0.0, "servebench.prefix_cache_query_tokens": 28.0, "servebench.prefix_cache_hit_tokens": 7.0,
				"servebench.prefix_cache_hit_rate": 0.25, "servebench.server_prompt_tokens": 28.0, "servebench.server_generation_tokens": 20.0}, "Warm cache: 7 of 28 prompt tokens (25.0 %)"},
		{"no look-ups have no rate", prom("prefix_cache_queries", 5, "prefix_cache_hits", 0), prom("prefix_cache_queries", 5, "prefix_cache_hits", 0),
			map[string]any{"servebench.prefix_cache_query_tokens": 0.0, "servebench.prefix_cache_hit_rate": nil, "runpile.preemption_log_mentions": nil}, ""},
		{"preemptions", prom("num_preemptions", 3), prom("num_preemptions", 5), map[string]any{"runpile.preemption_log_mentions": 2.0}, "preempted running requests 2 times"},
		{"drafts", prom("spec_decode_num_drafts", 10, "spec_decode_num_draft_tokens", 40, "spec_decode_num_accepted_tokens", 40),
			prom("spec_decode_num_drafts", 20, "spec_decode_num_draft_tokens", 80, "spec_decode_num_accepted_tokens", 60),
			map[string]any{"runpile.speculative_accept_length": 3.0, "servebench.speculative_decoding": map[string]any{
				"drafts": 10.0, "draft_tokens": 40.0, "accepted_tokens": 20.0, "acceptance_rate_percent": 50.0, "accepted_tokens_per_position": []any{}}}, ""},
		{"other load", prom("generation_tokens", 50), prom("generation_tokens", 100), map[string]any{"servebench.server_generation_tokens": 50.0}, "generated 50 tokens during the timed requests and these got 20: it had other load"},
		{"another server's counters", prom("generation_tokens", 50), prom("generation_tokens", 51), map[string]any{"servebench.server_generation_tokens": 1.0}, "it may not be the only one behind its address"},
		{"a late step of each request", prom("generation_tokens", 50), prom("generation_tokens", 66), map[string]any{"servebench.server_generation_tokens": 16.0}, ""},
		{"started anew", prom("generation_tokens", 50, "num_preemptions", 7), prom("generation_tokens", 20, "num_preemptions", 9),
			map[string]any{"servebench.server_generation_tokens": nil, "runpile.preemption_log_mentions": nil}, "generation_tokens went back from 50 to 20"},
		{"gone", prom("generation_tokens", 50), "", map[string]any{"servebench.server_generation_tokens": nil}, "went back"},
	} {
		t.Run(c.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				res, err := bench.Run(t.Context(), config(serveHandler(t, counting(c.before, c.after))))
				if err != nil {
					t.Fatal(err)
				}
				ext := save(t, res).Measurement.Extensions
				for key, want := range c.want {
					if d := cmp.Diff(want, ext[key]); d != "" {
						t.Errorf("%s: %s", key, d)
					}
				}
				if want := c.warning != ""; has(res.Warnings, "counter") || has(res.Warnings, "generated") || has(res.Warnings, "preempted") {
					if !want || !has(res.Warnings, c.warning) {
						t.Errorf("warnings %q, want %q", res.Warnings, c.warning)
					}
				} else if want {
					t.Errorf("no warning, want %q", c.warning)
				}
			})
		})
	}
}

// Without the engine's metrics nothing is read but the name of the engine.
func TestNoEngineMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, cfg := serveSite(t, sim.New(sim.Config{TTFT: ms}))
		cfg.Telemetry.NoEngineMetrics = true
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		ext := save(t, res).Measurement.Extensions
		if _, there := ext["runpile.preemption_log_mentions"]; there || s.count(0, "GET /metrics") != 1 {
			t.Errorf("%d readings, preemptions in the manifest: %v", s.count(0, "GET /metrics"), there)
		}
	})
}

// fakeSMI puts a script before the real nvidia-smi.
func fakeSMI(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// The devices are watched from the start of the timed requests to their end: 90 ms
// each, one after the other, with 100 ms between samples, make four.
func TestGPUTelemetry(t *testing.T) {
	fakeSMI(t, `case "$1" in
*query-gpu*) cat <<END
0, 57, 312.45, 2700, 14001, 30211, 98
END
;;
*) echo "GPU-1, 4711, 30000" ;;
esac
`)
	synctest.Test(t, func(t *testing.T) {
		cfg := simulate(t, sim.Config{TTFT: 50 * ms, ITL: 10 * ms})
		cfg.MaxConcurrency, cfg.Dataset.Warmups, cfg.ReadyTimeout = 1, 5, time.Minute
		cfg.Telemetry = bench.Telemetry{GPU: true, Interval: 100 * ms, Devices: []int{0}}
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		ext := save(t, res).Measurement.Extensions
		span := func(v float64) any { return []any{map[string]any{"min": v, "mean": v, "max": v}} }
		use := map[string]any{"processes": 1.0, "memory_bytes": 30000.0 * (1 << 20), "server_known": false}
		for key, want := range map[string]any{
			"runpile.max_gpu_temperature_c": 57.0, "servebench.gpu_samples": 4.0, "servebench.gpu_samples_missed": nil, "servebench.gpu_devices": []any{0.0},
			"servebench.gpu_power_watts": span(312.45), "servebench.gpu_memory_used_bytes": span(30211 << 20),
			"servebench.gpu_processes": map[string]any{"start": use, "end": use},
		} {
			if d := cmp.Diff(want, ext[key]); d != "" {
				t.Errorf("%s: %s", key, d)
			}
		}
		if res.Duration != 360*ms || has(res.Warnings, "GPU") {
			t.Errorf("the run took %v, want 360ms; warnings %q", res.Duration, res.Warnings)
		}
		if text := saved(t, res)["run.manifest.json"]; strings.Contains(text, "4711") || strings.Contains(text, "GPU-1") {
			t.Error("the manifest names a process or a device")
		}
	})
}

// Without nvidia-smi the run is as it was; a warning says so only where the GPU was
// asked for.
func TestNoNvidiaSMI(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, asked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cfg := simulate(t, sim.Config{TTFT: 50 * ms, ITL: 10 * ms})
			cfg.Telemetry.GPU = asked
			res, err := bench.Run(t.Context(), cfg)
			if err != nil || res.Outcome != manifest.Completed || res.Duration != 90*ms {
				t.Fatalf("%v after %v, %v", err, res.Duration, res.Outcome)
			}
			if has(res.Warnings, "No GPU was watched: nvidia-smi: no such program.") != asked {
				t.Errorf("asked %v: warnings %q", asked, res.Warnings)
			}
			for key := range save(t, res).Measurement.Extensions {
				if strings.Contains(key, "gpu") {
					t.Errorf("the manifest has %s", key)
				}
			}
		})
	}
}

// The replica stands in the record file.
func TestReplicaInRecords(t *testing.T) {
	b, err := json.Marshal(metrics.Record{Seq: 4, Replica: 2})
	if err != nil || !strings.Contains(string(b), `"replica":2`) {
		t.Error(string(b), err)
	}
	if b, _ = json.Marshal(metrics.Record{Seq: 4}); strings.Contains(string(b), "replica") {
		t.Error(string(b))
	}
}
