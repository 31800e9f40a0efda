package bench_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/manifest"
	"github.com/servebench/servebench/metrics"
)

// spy passes requests on and notes them: the method, the path and the model.
type spy struct {
	http.Handler
	mu     sync.Mutex
	seen   []string
	header map[string]http.Header // of the last request to each path
}

func (s *spy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(b))
	var body struct {
		Model  string
		Prompt any
	}
	json.Unmarshal(b, &body)
	s.mu.Lock()
	if s.header == nil {
		s.header = map[string]http.Header{}
	}
	s.header[r.URL.Path] = r.Header.Clone()
	if r.Method == http.MethodPost {
		note := strings.TrimSpace(r.URL.Path + " " + body.Model)
		if body.Prompt == "Hi" {
			note = "probe " + body.Model
		}
		s.seen = append(s.seen, note)
	}
	s.mu.Unlock()
	s.Handler.ServeHTTP(w, r)
}

// notes are what was seen so far.
func (s *spy) notes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// A ramp is an open loop: each request is due by its own rate. vLLM's result
// lists each whole rate as it is passed, the manifest calls the arrivals a ramp.
func TestRamp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := simulate(t, sim.Config{TTFT: 50 * ms, ITL: 10 * ms})
		cfg.Burstiness, cfg.Ramp = loadgen.Inf, &loadgen.Ramp{Strategy: "linear", Start: 2, End: 5}
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		// Rates of 2, 3, 4 and 5 a second: 1/2 + 1/3 + 1/4 + 1/5 s.
		due := []time.Duration{500 * ms, 833_333_333, 1_083_333_333, 1_283_333_333}
		for i, r := range res.Records {
			if r.Due != due[i] || r.Sent != r.Due {
				t.Errorf("request %d is due at %v and sent at %v, want %v", i, r.Due, r.Sent, due[i])
			}
		}
		b, err := res.JSON([]string{"ttft"}, false)
		if err != nil {
			t.Fatal(err)
		}
		var v struct {
			Rate     string `json:"request_rate"`
			Strategy string `json:"ramp_up_strategy"`
			Start    json.Number
			End      json.Number `json:"ramp_up_end_rps"`
			Events   []struct {
				RPS       int
				Timestamp string
			} `json:"rps_change_events"`
		}
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		if v.Rate != "inf" || v.Strategy != "linear" || v.End != "5" || len(v.Events) != 4 {
			t.Errorf("%+v", v)
		}
		for i, e := range v.Events {
			at := res.Start.Add([]time.Duration{0, due[1], due[2], due[3]}[i]).Local().Truncate(time.Microsecond)
			got, err := time.ParseInLocation("2006-01-02T15:04:05", e.Timestamp, time.Local)
			if err != nil || e.RPS != 2+i || !got.Equal(at) {
				t.Errorf("event %d: %d at %s (%v), want %d at %v", i, e.RPS, e.Timestamp, err, 2+i, at)
			}
		}
		w := save(t, res).Workload
		if w.ArrivalProcess != "ramp" || w.RequestRatePerSecond != nil || w.Concurrency != 0 {
			t.Errorf("arrivals %q at %v, concurrency %d, want ramp at null and none", w.ArrivalProcess, w.RequestRatePerSecond, w.Concurrency)
		}
	})
}

// LoRA names stand for the model's in timed requests alone: in turn, or as
// CPython's random.seed(7) and random.choice have it.
func TestLoRA(t *testing.T) {
	for _, c := range []struct {
		random bool
		want   string
	}{
		{false, "x y x y x y x y"},
		{true, "y x y x x x y x"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &spy{Handler: sim.New(sim.Config{TTFT: ms, ITL: ms})}
			cfg := config(serveHandler(t, s))
			cfg.LoRA, cfg.LoRARandom = []string{"x", "y"}, c.random
			cfg.Dataset.Prompts, cfg.Dataset.Seed, cfg.Dataset.Warmups = 8, 7, 1
			cfg.MaxConcurrency, cfg.ReadyTimeout, cfg.Command = 1, time.Second, nil
			res, err := bench.Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"/v1/completions m", "/v1/completions m"} // ready check, warm-up
			for name := range strings.FieldsSeq(c.want) {
				want = append(want, "/v1/completions "+name)
			}
			if !slices.Equal(s.notes(), want) {
				t.Errorf("sent %v, want %v", s.notes(), want)
			}
			save(t, res)
		})
	}
}

// Probes take their own connection and their own time: one at a time, by an
// absolute schedule, and the load knows nothing of them.
func TestProbes(t *testing.T) {
	for _, c := range []struct {
		rate              float64
		completed, missed int
	}{
		// 50 ms each, at 0, 100, 200 and 300 ms; the load ends at 360 ms.
		{10, 4, 0},
		// Every 25 ms, of which each second is missed: at 0, 50, … 300 ms; the one
		// of 350 ms is cut off.
		{40, 7, 7},
		// The second is due in 30,000 years.
		{1e-12, 1, 0},
	} {
		t.Run(fmt.Sprint(c.rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &spy{Handler: sim.New(sim.Config{TTFT: 50 * ms, ITL: 10 * ms})}
				cfg := config(serveHandler(t, s))
				cfg.MaxConcurrency, cfg.ProbeRate = 1, c.rate
				res, err := bench.Run(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				p := res.Probes
				if p.Completed != c.completed || p.Failed != 0 || p.Missed != c.missed || p.E2EL.Min != 50 || p.E2EL.Max != 50 {
					t.Errorf("%+v, %+v, want %d of 50 ms and %d missed", p, p.E2EL, c.completed, c.missed)
				}
				if res.Duration != 360*ms || res.Summary.Completed != 4 || res.Summary.MaxInFlight != 1 {
					t.Errorf("the run took %v with %d requests, %d at a time", res.Duration, res.Summary.Completed, res.Summary.MaxInFlight)
				}
				probes := 0
				for _, note := range s.notes() {
					probes += map[bool]int{true: 1}[note == "probe m"]
				}
				if cut := probes - c.completed; cut < 0 || cut > 1 {
					t.Errorf("%d probes were sent, %d came back", probes, c.completed)
				}
				run := save(t, res)
				if _, ok := run.Measurement.Extensions["servebench.probe_e2el_ms"]; !ok {
					t.Error("the manifest knows no probes")
				}
			})
		})
	}
}

// A probe that never ends delays nothing and is no failure; one that is refused
// is.
func TestProbesThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := sim.New(sim.Config{TTFT: 50 * ms, ITL: 10 * ms})
		var hangs atomic.Bool
		cfg := config(serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(b))
			switch {
			case !bytes.Contains(b, []byte(`"prompt":"Hi"`)):
				server.ServeHTTP(w, r)
			case hangs.Load():
				<-r.Context().Done()
			default:
				http.Error(w, "no", http.StatusTeapot)
			}
		})))
		cfg.ProbeRate = 10
		for _, hang := range []bool{true, false} {
			hangs.Store(hang)
			res, err := bench.Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			failed := map[bool]int{true: 0, false: 1}[hang] // at 0 ms; all requests end at 90 ms
			if p := res.Probes; p.Completed != 0 || p.Failed != failed || p.E2EL != nil || res.Duration != 90*ms {
				t.Errorf("hang %v: %+v after %v", hang, p, res.Duration)
			}
			b, _ := res.JSON(nil, false)
			if bytes.Contains(b, []byte("probe_completed")) {
				t.Error("as in vLLM, no probe keys without a probe that succeeded")
			}
			if told := strings.Contains(strings.Join(res.Warnings, "\n"), "1 of 1 probes failed, the first: HTTP 418"); told != !hang {
				t.Errorf("hang %v: %q", hang, res.Warnings)
			}
		}
	})
}

// The profiler runs from after the warm-ups to after the last request, and is
// asked with the key and the user's headers. Its lack is a warning.
func TestProfile(t *testing.T) {
	for _, there := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.Handle("/", sim.New(sim.Config{TTFT: ms, ITL: ms}))
			answer := http.NotFound
			if there {
				answer = func(http.ResponseWriter, *http.Request) {}
			}
			mux.HandleFunc("POST /start_profile", answer)
			mux.HandleFunc("POST /stop_profile", answer)
			s := &spy{Handler: mux}
			cfg := config(serveHandler(t, s))
			cfg.Profile, cfg.Dataset.Warmups, cfg.Dataset.Prompts = true, 1, 2
			cfg.Target.APIKey, cfg.Target.Header = "sk-1234567890", map[string]string{"X-Team": "a"}
			res, err := bench.Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			const post = "/v1/completions m"
			want := []string{post, "/start_profile", post, post, "/stop_profile"}
			warning := "The server's profiler was on"
			if !there {
				want, warning = want[:4], "/start_profile: HTTP 404: the server was not started with a profiler's configuration"
			}
			if !slices.Equal(s.notes(), want) {
				t.Errorf("sent %v, want %v", s.notes(), want)
			}
			if h := s.header["/start_profile"]; h.Get("Authorization") != "Bearer sk-1234567890" || h.Get("X-Team") != "a" {
				t.Errorf("asked with %v", h)
			}
			if !strings.Contains(strings.Join(res.Warnings, "\n"), warning) {
				t.Errorf("warnings %q, want %q", res.Warnings, warning)
			}
		})
	}
}

// A run that is given up during its warm-ups leaves the profiler alone: it may be
// somebody else's that is on.
func TestStopBeforeTheProfile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &spy{Handler: sim.New(sim.Config{TTFT: time.Hour, ITL: ms})}
		cfg := config(serveHandler(t, s))
		cfg.Profile, cfg.Dataset.Warmups = true, 1
		stop := make(chan struct{})
		cfg.Stop = stop
		time.AfterFunc(time.Minute, func() { close(stop) })
		res, err := bench.Run(t.Context(), cfg)
		if err != nil || !res.Stopped || !slices.Equal(s.notes(), []string{"/v1/completions m"}) {
			t.Errorf("sent %v, error %v, want the warm-up alone", s.notes(), err)
		}
		if all := strings.Join(res.Warnings, "\n"); strings.Contains(all, "profiler") {
			t.Errorf("warnings %s", all)
		}
	})
}

// pooled is the result of four pooled requests, the last of which failed.
func pooled(backend string) *bench.Result {
	r := &bench.Result{Plan: &bench.Plan{SHA256: strings.Repeat("0", 64), Generator: "vllm-random"}, Outcome: manifest.Completed, Start: time.Unix(1_770_000_000, 0)}
	r.Config = bench.Config{
		Backend: backend, Model: "m", Rate: loadgen.Inf, Burstiness: 1, MaxConcurrency: 2, Percentiles: []float64{99},
		Dataset: dataset.Spec{Name: "random", Prompts: 4, InputLen: 8, BatchSize: 2, Warmups: 1}, Command: []string{"servebench"},
	}
	for i := range 4 {
		at := time.Duration(i/2) * 100 * ms
		r.Records = append(r.Records, metrics.Record{
			Seq: i, Due: at, Slot: at, Sent: at, Headers: at + 90*ms, Done: at + 100*ms, Status: 200, Outcome: metrics.OK, PromptTokens: 16, NotStreamed: true,
		})
		r.Plan.Requests = append(r.Plan.Requests, loadgen.Request{PromptTokens: 16, Sequences: 2, Body: []byte(`{"input":["a","b"]}`)})
	}
	r.Records[3].Outcome, r.Records[3].Status, r.Records[3].Error = metrics.HTTP, 500, "no"
	r.Summary = metrics.Summarize(r.Records, metrics.Options{Percentiles: []float64{99}})
	r.Duration = r.Summary.Last
	return r
}

// Pooled requests have a manifest that is valid and says what was asked for.
func TestPooledManifest(t *testing.T) {
	for backend, want := range map[string][2]string{
		"openai-embeddings":      {"embedding", "openai-compatible-embeddings"},
		"openai-embeddings-chat": {"embedding", "openai-compatible-embeddings"},
		"infinity-embeddings":    {"embedding", "openai-compatible-embeddings"},

		"openai-embeddings-clip":   {"embedding", "openai-compatible-embeddings"},
		"infinity-embeddings-clip": {"embedding", "openai-compatible-embeddings"},
		"vllm-pooling":             {"pooling", "openai-compatible-pooling"},
		"vllm-rerank":              {"rerank", "openai-compatible-rerank"},
	} {
		t.Run(backend, func(t *testing.T) {
			run := save(t, pooled(backend))
			if got := [2]string{run.Workload.Task, run.Workload.EndpointType}; got != want {
				t.Errorf("%v, want %v", got, want)
			}
			if run.Workload.Streaming || run.Workload.Stopping != (manifest.Stopping{}) || run.Results.TotalOutputTokens != 0 || run.Results.TotalInputTokens != 48 {
				t.Errorf("%+v %+v", run.Workload, run.Results)
			}
			if run.Measurement.Extensions["servebench.total_input_sequences"] != 6.0 {
				t.Errorf("%v sequences, want 6", run.Measurement.Extensions["servebench.total_input_sequences"])
			}
			asked, _ := run.Workload.Extensions["servebench.requested_input_tokens"].(map[string]any)
			if asked["value"] != 16.0 { // two texts of eight
				t.Errorf("asked for %v tokens, want 16", asked)
			}
			if run.Measurement.Extensions["servebench.kernel_receive_stamps"] != true || run.Measurement.ClientOverheadIncluded {
				t.Errorf("%+v, want the kernel's stamps", run.Measurement)
			}
			if !strings.Contains(strings.Join(run.Warnings, "\n"), "Nothing was generated") {
				t.Errorf("warnings %q", run.Warnings)
			}
		})
	}
}

// fullConfig has every field that a load or a form can have.
func fullConfig() bench.Config {
	return bench.Config{
		Backend: "openai", Stream: true, Rate: loadgen.Inf, Burstiness: 2, Ramp: &loadgen.Ramp{Strategy: "linear", Start: 0.5, End: 4},
		IgnoreTimes: true, LoRA: []string{"a", "b"}, LoRARandom: true, ProbeRate: 2.5, Profile: true,
		TemplateKwargs: json.RawMessage(`{"enable_thinking":false}`), Dataset: dataset.Spec{Name: "timed_trace", Path: "t.jsonl", Prompts: 3},
	}
}

func TestConfigSurvivesJSON(t *testing.T) {
	b, err := json.Marshal(fullConfig())
	if err != nil {
		t.Fatal(err)
	}
	var back bench.Config
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, fullConfig()) {
		t.Errorf("%s became %+v (%v)", b, back, err)
	}
}

// What does not go together is refused under the names of the flags.
func TestValidateLoads(t *testing.T) {
	random := dataset.Spec{Name: "random", Prompts: 1, InputLen: 1, OutputLen: 1}
	trace := dataset.Spec{Name: "timed_trace", Path: "t.jsonl", Prompts: 1, Trace: dataset.Trace{
		BlockSize: 16, Multiplier: 1, Timestamp: "t", InputLength: "i", OutputLength: "o", HashIDs: "h",
	}}
	images := dataset.Media{Items: 1, Limit: map[string]int{"image": 1}, Buckets: []dataset.Bucket{{Height: 8, Width: 8, Frames: 1, Probability: 1}}}
	hot := 0.5
	for _, c := range []struct {
		want string // "": nothing of a load or a form
		set  func(*bench.Config)
	}{
		{"", func(*bench.Config) {}},
		{"ramp-up-start-rps: 5 is above", func(c *bench.Config) { c.Ramp = &loadgen.Ramp{Strategy: "linear", Start: 5, End: 1} }},
		{"ramp-up-strategy: the ramp sets the rate", func(c *bench.Config) { c.Rate, c.Ramp = 3, &loadgen.Ramp{Strategy: "linear", Start: 1, End: 2} }},
		{"ramp-up-strategy: a timed_trace", func(c *bench.Config) {
			c.Dataset, c.Ramp = trace, &loadgen.Ramp{Strategy: "linear", Start: 1, End: 2}
		}},
		{"", func(c *bench.Config) {
			c.Dataset, c.IgnoreTimes, c.Ramp = trace, true, &loadgen.Ramp{Strategy: "linear", Start: 1, End: 2}
		}},
		{"", func(c *bench.Config) { c.Dataset, c.Rate = trace, 1e-12 }}, // not used
		{"self-timed: a data set random", func(c *bench.Config) { c.IgnoreTimes = true }},
		{"lora-modules: an empty name", func(c *bench.Config) { c.LoRA = []string{"a", ""} }},
		{"", func(c *bench.Config) { c.LoRARandom = true }},
		{"probe-request-rate: -1", func(c *bench.Config) { c.ProbeRate = -1 }},
		{"probe-request-rate: NaN", func(c *bench.Config) { c.ProbeRate = math.NaN() }},
		{"probe-request-rate: +Inf", func(c *bench.Config) { c.ProbeRate = math.Inf(1) }},
		{"prompt-form: token-ids exist only", func(c *bench.Config) { c.Backend, c.Dataset.TokenIDs = "openai-chat", true }},
		{"dataset-name: timed_trace sends token ids", func(c *bench.Config) { c.Backend, c.Dataset = "openai-chat", trace }},
		{"dataset-name: random-mm sends images", func(c *bench.Config) { c.Dataset.Name, c.Dataset.Media = "random-mm", images }},
		{"dataset-name: custom_image sends images", func(c *bench.Config) { c.Dataset.Name, c.Dataset.Path = "custom_image", "i.jsonl" }},
		{"", func(c *bench.Config) {
			c.Dataset.Name, c.Dataset.Path, c.Backend = "custom_image", "i.jsonl", "openai-chat"
		}},
		{"", func(c *bench.Config) {
			c.Dataset.Name, c.Dataset.Path, c.Backend = "custom_image", "i.jsonl", "openai-embeddings-clip"
		}},
		{"", func(c *bench.Config) {
			c.Dataset.Name, c.Dataset.Path, c.Backend = "custom_image", "i.jsonl", "infinity-embeddings-clip"
		}},
		{"", func(c *bench.Config) { c.Backend, c.Dataset.BatchSize = "infinity-embeddings-clip", 2 }},
		{"dataset-name: random-rerank sends a query", func(c *bench.Config) { c.Dataset.Name = "random-rerank" }},
		{"backend: vllm-rerank sends a query", func(c *bench.Config) { c.Backend = "vllm-rerank" }},
		{"", func(c *bench.Config) { c.Backend, c.Dataset.Name = "vllm-rerank", "random-rerank" }},
		{"random-batch-size: 2 prompts", func(c *bench.Config) { c.Dataset.BatchSize = 2 }},
		{"", func(c *bench.Config) { c.Backend, c.Dataset.BatchSize = "openai-embeddings", 2 }},
		{"chat-template-kwargs: not a JSON object", func(c *bench.Config) { c.TemplateKwargs = json.RawMessage(`[1]`) }},
		{"backend: vllm-pooling generates no tokens", func(c *bench.Config) { c.Backend, c.Sampling.Temperature = "vllm-pooling", &hot }},
		{"", func(c *bench.Config) { c.Backend, c.Goodput = "vllm-pooling", map[string]float64{"ttft": 1} }},
	} {
		cfg := bench.Config{Backend: "vllm", Stream: true, Rate: loadgen.Inf, Dataset: random}
		c.set(&cfg)
		err := cfg.Validate()
		var lines []string
		if err != nil {
			lines = strings.Split(err.Error(), "\n")
		}
		got := strings.Join(lines, "\n")
		if (c.want == "") != (got == "") || !strings.HasPrefix(got, c.want) || len(lines) > 1 {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// SAVE_TO_PYTORCH_BENCHMARK_FORMAT's file has a record for each metric of vLLM's
// list, with the flags and all else of the result.
func TestPyTorchFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := simulate(t, sim.Config{TTFT: 50 * ms, ITL: 10 * ms})
		cfg.Metadata = [][2]string{{"tensor_parallel_size", "4"}}
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		f := bench.Files{
			Result: filepath.Join(dir, "run.json"), PyTorch: filepath.Join(dir, "run.pytorch.json"), Selected: []string{"ttft", "itl"},
			Args: map[string]any{"num_prompts": 4, "header": []string{"X-Key=secret"}, "base_url": "http://me:secret@h:1", "tensor_parallel_size": nil},
		}
		if err := f.Check(); err != nil {
			t.Fatal(err)
		}
		if _, err := res.Save(f); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(f.PyTorch)
		if err != nil || bytes.Contains(data, []byte("secret")) {
			t.Fatalf("%s (%v)", data, err)
		}
		var records []struct {
			Benchmark struct {
				Name  string
				Extra struct {
					Args       map[string]any
					Mode       any  `json:"compilation_config.mode"`
					Level      any  `json:"optimization_level"`
					UseCompile bool `json:"use_compile"`
				} `json:"extra_info"`
			}
			Model  struct{ Name string }
			Metric struct {
				Name   string
				Values []float64      `json:"benchmark_values"`
				Extra  map[string]any `json:"extra_info"`
			}
		}
		if err := json.Unmarshal(data, &records); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range records {
			names = append(names, r.Metric.Name)
			if r.Benchmark.Name != "vLLM benchmark" || r.Model.Name != "m" || r.Benchmark.Extra.Mode != "" || r.Benchmark.Extra.Level != "" || !r.Benchmark.Extra.UseCompile {
				t.Errorf("%+v", r)
			}
			if a := r.Benchmark.Extra.Args; a["num_prompts"] != 4.0 || a["header"] != "***" || a["base_url"] != "http://h:1" || a["tensor_parallel_size"] != "4" {
				t.Errorf("args %v", a)
			}
			if e := r.Metric.Extra; e["completed"] != 4.0 || e["mean_ttft_ms"] != nil || e["request_rate"] != "inf" {
				t.Errorf("extra info %v", e)
			}
		}
		// vLLM's list, in its order, without those that are not in the result.
		if got := strings.Join(names, " "); got != "median_ttft_ms mean_ttft_ms std_ttft_ms p99_ttft_ms median_itl_ms mean_itl_ms std_itl_ms p99_itl_ms" {
			t.Errorf("records of %s", got)
		}
		if v := records[1].Metric.Values; len(v) != 1 || v[0] != 50 {
			t.Errorf("mean ttft %v, want 50", v)
		}
	})
}

// Metadata stands before what the run says, and cannot change it but for the
// head; a result appended to a file stands on a line of its own.
func TestMetadataAndAppend(t *testing.T) {
	res := pooled("openai-embeddings")
	res.Config.Metadata = [][2]string{{"date", "then"}, {"num_prompts", "9"}, {"note", "<a&b>"}, {"request_rate", "1"}, {"completed", "no"}, {"failed", "7"}}
	f := bench.Files{Result: filepath.Join(t.TempDir(), "all.json"), Append: true, Selected: []string{"e2el"}}
	for range 2 {
		if _, err := res.Save(f); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(f.Result)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	if len(lines) != 2 || lines[0] != lines[1] {
		t.Fatalf("%d lines in %q", len(lines), data)
	}
	const head = `{"date":"then","endpoint_type":"openai-embeddings","backend":"openai-embeddings","label":null,"model_id":"m",` +
		`"tokenizer_id":"m","num_prompts":"9","note":"<a&b>","request_rate":"inf","completed":3,"failed":"7","burstiness":1.0,` +
		`"max_concurrency":2,"duration":0.2,"total_input_tokens":48,"total_input_sequences":6,"request_throughput":15.0,` +
		`"input_sequence_throughput":30.0,"total_token_throughput":240.0,"latencies":[0.1,0.1,0.1,0.0],"queue_times":[0.0,0.0,0.1,0.1],` +
		`"mean_e2el_ms":100.0,"median_e2el_ms":100.0,"std_e2el_ms":0.0,"p99_e2el_ms":100.0,"outcome":"completed",`
	if !strings.HasPrefix(lines[0], head) {
		t.Errorf("got\n%s\nwant\n%s", lines[0], head)
	}
}

// A CLIP model embeds a text or an image: of a row with both the image is sent, in a
// message or, to infinity, as its address.
func TestClipImages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "i.jsonl")
	if err := os.WriteFile(path, []byte(`{"prompt":"a cat","image_files":["http://x.test/i.png"]}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for backend, want := range map[string]string{
		"openai-embeddings-clip": `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":""},` +
			`{"type":"image_url","image_url":{"url":"http://x.test/i.png"}}]}],"truncate_prompt_tokens":-1}`,
		"infinity-embeddings-clip": `{"model":"m","input":"http://x.test/i.png","modality":"image"}`,
	} {
		plan, err := bench.Prepare(t.Context(), bench.Config{
			Backend: backend, Model: "m", NoTokenizer: true, Target: openai.Config{BaseURL: "http://x.test"},
			Dataset: dataset.Spec{Name: "custom_image", Path: path, Prompts: 1, OutputLen: 1},
		})
		if err != nil || string(plan.Requests[0].Body) != want {
			t.Errorf("%s: %v, want\n%s", backend, err, want)
			if err == nil {
				t.Errorf("got\n%s", plan.Requests[0].Body)
			}
		}
	}
}
