package sweep

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/manifest"
)

func ptr[T any](v T) *T { return &v }

var began = time.Date(2026, 12, 1, 10, 0, 0, 123_456_789, time.UTC)

// host is a machine with four GPUs, as a host file declares it.
func host() *manifest.Environment {
	return &manifest.Environment{
		OS: "Ubuntu 24.04.2 LTS", CPU: &manifest.CPU{Model: "AMD Ryzen Threadripper PRO", LogicalCPUs: 64, PhysicalCores: 32},
		Kernel: "6.11.0-26-generic", Topology: "Four discrete PCIe GPUs, one serving process per GPU.",
		Accelerators: []manifest.Accelerator{{
			Count: 4, Model: "NVIDIA GeForce RTX 5090", Driver: "575.64.03", Vendor: "NVIDIA", Architecture: "Blackwell", Interconnect: "PCIe 5.0; no NVLink",
			DeviceIndices: []int{0, 1, 2, 3}, PowerLimitWatts: 575, MemoryBytesPerDevice: 34359738368,
		}},
		DriverVersions: map[string]string{"nvidia": "575.64.03", "cuda_compiler": "12.9"}, HostArchitecture: "x86_64", SystemMemoryBytes: 274877906944,
		VirtualEnvironment: &manifest.VirtualEnvironment{Python: "3.12.10", DependencyLockHash: strings.Repeat("07", 32)},
	}
}

// kindRun is the manifest of one trial with n requests in so many seconds.
func kindRun(p *Point, n int64, seconds float64) *manifest.Run {
	const in, out = 6000, 1
	c := int64(p.Config.MaxConcurrency)
	env := *host()
	env.Accelerators = slices.Clone(env.Accelerators)
	env.Accelerators[0].Count, env.Accelerators[0].DeviceIndices = len(p.Server.Devices), p.Server.Devices
	tokens := p.Config.Declared.Parameters["max_num_batched_tokens"]
	e2e := manifest.Latency{Mean: seconds / float64(n) * float64(c) * 1000, MeasurementStatus: "measured", SampleCount: n}
	e2e.P50, e2e.P90, e2e.P95, e2e.P99 = e2e.Mean, e2e.Mean, e2e.Mean, e2e.Mean
	rate := func(count int64) manifest.Rate {
		return manifest.Rate{Value: float64(count) / seconds, SampleCount: n, MeasurementStatus: "measured"}
	}
	return &manifest.Run{
		SchemaVersion: "1.0", Kind: "run", ClientRunID: "servebench-" + fmt.Sprintf("%x", sha256.Sum256([]byte(p.ID)))[:12] + "-1",
		Name: p.Name, Notes: "A trial.", Visibility: "public", License: "CC-BY-4.0", Outcome: manifest.Completed,
		Subject: *p.Config.Subject, Environment: &env,
		Runtime: manifest.Runtime{
			Engine: "vllm", Version: "0.27.1",
			Parameters: &manifest.Parameters{Server: map[string]any{
				"max_model_len": 6144, "max_num_batched_tokens": tokens, "gpu_memory_utilization": 0.95, "kv_cache_dtype": "fp8_e4m3", "prefix_caching": false,
				"moe_backend": "FLASHINFER_CUTLASS", "attention_backend": "TRITON_ATTN", "future_scheduler_knob": "preserved",
			}},
			Parallelism: &manifest.Parallelism{Data: 1, Tensor: 1, Pipeline: 1, Replicas: 1}, BuildIdentifier: "vllm-0.27.1-cu129",
			LaunchCommand: fmt.Sprintf("vllm serve %s --max-model-len 6144 --max-num-batched-tokens %v --gpu-memory-utilization 0.95 --kv-cache-dtype fp8_e4m3 --no-enable-prefix-caching --served-model-name %[1]s",
				p.Config.Subject.Identifier, tokens),
			SafeEnvironment: map[string]string{"CUDA_VISIBLE_DEVICES": fmt.Sprint(p.Server.Devices[0])},
		},
		Workload: manifest.Workload{
			Mode: "online", Task: "text_generation", Client: manifest.Client{Name: "servebench", Version: bench.Version, Placement: "same-host", Backend: "openai_chat"},
			Dataset:  manifest.Dataset{Generator: "vllm-random", Synthetic: ptr(true), License: "CC0-1.0", SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(p.Config.Subject.Identifier)))},
			Sampling: manifest.Sampling{Mode: "greedy", Temperature: ptr(0.0)}, Stopping: manifest.Stopping{IgnoreEOS: ptr(true), MaxOutputTokens: out},
			Tokenizer:   &manifest.Tokenizer{Identifier: p.Config.Subject.Identifier, Revision: p.Config.Subject.Revision},
			Concurrency: int(c), RandomSeed: 42, InputTokens: manifest.TokenCount{Kind: "fixed", Value: in}, OutputTokens: manifest.TokenCount{Kind: "fixed", Value: out},
			EndpointType: "openai-compatible-chat", RequestCount: int(n), ArrivalProcess: "closed_loop", WarmupRequestCount: 8,
			PrefixBehavior: &manifest.PrefixBehavior{CacheState: "cold", ResetPolicy: "server_restart", CacheEnabled: ptr(false), RepetitionRatio: ptr(0.0), SharedPrefixTokens: ptr(int64(0))},
		},
		Measurement: manifest.Measurement{
			Notes: "n", Warmup: "8 unmeasured warm-up requests after 1 readiness requests.", Harness: "servebench", Version: bench.Version, Repetitions: 1,
			TimingScope: "t", BenchmarkCommand: "servebench serve", RetryFailureTreatment: "none", ClientOverheadIncluded: true,
			Extensions: map[string]any{"servebench.started_at": "2026-12-01T10:00:00Z"},
		},
		Results: &manifest.Results{
			LatencyMS:      manifest.Latencies{EndToEnd: &e2e},
			Throughput:     manifest.Throughput{RequestsPerSecond: rate(n), OutputTokensPerSecond: rate(n * out), TotalTokensPerSecond: rate(n * (in + out))},
			FailedRequests: 0, DurationSeconds: seconds, TotalInputTokens: n * in, SuccessfulRequests: n, TotalOutputTokens: n * out,
		},
		Provenance: manifest.Provenance{Tool: "servebench", Source: "harness", ToolVersion: bench.Version}, Warnings: []string{},
	}
}

// campaign makes an experiment, the outcomes of its points and their files, one
// point after another.
type campaign struct {
	e        Experiment
	outcomes []Outcome
	files    fstest.MapFS
	at       time.Time
}

func newCampaign() *campaign {
	return &campaign{at: began, files: fstest.MapFS{}, e: Experiment{About: About{ID: "judge", Environment: host()}}}
}

func subjectOf(name string) *manifest.Subject {
	return &manifest.Subject{
		Type: "model", Source: "huggingface", Revision: fmt.Sprintf("%x", sha256.Sum256([]byte(name)))[:40], RevisionKind: "commit", Identifier: name + "/gemma-4-26B-A4B-it-NVFP4",
		Modalities: []string{"text"}, Adapters: []map[string]any{}, Modifications: []string{}, Architecture: "Gemma4ForConditionalGeneration", ParameterCountTotal: 26e9, ParameterCountActive: 4e9,
		Quantization: &manifest.Quantization{Scope: "all_linears", Format: "compressed-tensors", Method: "nvfp4", Provider: name, WeightDtype: "nvfp4", ActivationDtype: "bfloat16"},
	}
}

func (c *campaign) point(id, group string, set func(*Point)) *Point {
	p := Point{ID: id, Name: "Run " + id, Group: group, Server: &server.Config{Command: []string{"vllm"}, Devices: []int{0}}}
	p.Config = bench.Config{Model: "m", Subject: subjectOf("unsloth"), MaxConcurrency: 8, Dataset: dataset.Spec{Name: "random", Prompts: 500, InputLen: 6000, OutputLen: 1}}
	p.Config.Declared.Parameters = map[string]any{"max_num_batched_tokens": 10240}
	p.Config.Declared.Publish = bench.Publish{ArtifactVisibility: "public"}
	if set != nil {
		set(&p)
	}
	c.e.Points = append(c.e.Points, p)
	return &c.e.Points[len(c.e.Points)-1]
}

// file adds a file and the artifact of it.
func (c *campaign) file(name, kind, media, id string, content []byte) manifest.Artifact {
	c.files[name] = &fstest.MapFile{Data: content}
	return manifest.Artifact{Kind: kind, SHA256: fmt.Sprintf("%x", sha256.Sum256(content)), Filename: name, MediaType: media, SizeBytes: int64(len(content)), ClientArtifactID: id}
}

// trial is one that completed, with its files.
func (c *campaign) trial(p *Point, stem string, n int64, seconds float64) Trial {
	run := kindRun(p, n, seconds)
	result := c.file(stem+".result.json", "vllm_bench_serve_json", "application/json", "result", []byte(strings.Repeat(" ", int(n)%97)+`{"of":"`+stem+`"}`))
	result.License, result.Visibility = "CC-BY-4.0", "public"
	run.Artifacts = []manifest.Artifact{result}
	doc, err := manifest.Encode(run)
	if err != nil {
		panic(err)
	}
	t := Trial{Status: manifest.Completed, Manifest: run, StartedAt: c.at, Seconds: seconds}
	t.Artifacts = []manifest.Artifact{result, c.file(stem+".manifest.json", "runpile_run_manifest_json", "application/json", "manifest", doc)}
	c.at = c.at.Add(time.Duration(seconds*1e9) + time.Minute)
	return t
}

func (c *campaign) complete(p *Point, n int64, seconds ...float64) {
	o := Outcome{PointID: p.ID, Status: manifest.Completed}
	for i, s := range seconds {
		stem := p.ID
		if len(seconds) > 1 {
			stem = fmt.Sprintf("%s-trial-%d", p.ID, i+1)
		}
		o.Trials = append(o.Trials, c.trial(p, stem, n, s))
	}
	c.outcomes = append(c.outcomes, o)
}

// judge is an experiment of the shape of the reference's 25 runs.
func judge() *campaign {
	c := newCampaign()
	a := &c.e.About
	a.Title, a.Conclusions, a.License, a.Visibility, a.DataAffirmed = "Throughput", "10,240 is best.", "CC-BY-4.0", "public", true
	a.Tags, a.OmittedFiles, a.Warnings = []string{"rtx-5090", "Gemma 4", "rtx-5090"}, []string{"logs/unsanitized-server.log"}, []string{"A warning."}
	seconds := 58.0
	next := func() float64 { seconds += 0.123456789; return seconds }
	for _, name := range []string{"nvidia", "unsloth", "redhat"} {
		c.complete(c.point("checkpoint-"+name+"-c8", "checkpoint", func(p *Point) { p.Config.Subject = subjectOf(name) }), 500, next())
	}
	c.outcomes[0].Warnings = []string{"Trust-remote-code was required by the checkpoint."}
	for _, n := range []int{1, 2, 4, 8} {
		c.complete(c.point(fmt.Sprint("concurrency-", n), "concurrency", func(p *Point) {
			p.Config.MaxConcurrency, p.Vary = n, []Setting{{"bench.max-concurrency", n}}
		}), 500, next())
	}
	for _, n := range []int{2048, 4096, 6144, 8192, 10240, 10752, 11264, 11776, 12288} {
		p := c.point(fmt.Sprint("scheduler-", n), "max_num_batched_tokens", func(p *Point) {
			p.Config.Declared.Parameters = map[string]any{"max_num_batched_tokens": n}
			p.Vary, p.OnFailure = []Setting{{"vars.max_num_batched_tokens", n}}, OnFailure{Retry: 1, Replacement: "previous_completed"}
		})
		if n < 12288 {
			c.complete(p, 500, next())
			continue
		}
		f := manifest.Failure{Stage: "runtime_startup", Category: "kv_cache_allocation", ExitCode: ptr(1), MessageSanitized: "KV cache allocation failed on gpuhost-7."}
		run := kindRun(p, 500, 1)
		run.Outcome, run.Results, run.Failure = manifest.Failed, nil, &f
		log := c.file(p.ID+".startup.log", "server_log_text", "text/plain", p.ID+"-startup-log", []byte("no memory\n"))
		c.outcomes = append(c.outcomes, Outcome{PointID: p.ID, Status: manifest.Failed, Failure: &f, Attempts: []manifest.Failure{f},
			Trials: []Trial{{Status: manifest.Failed, Manifest: run, Artifacts: []manifest.Artifact{log}}}})
	}
	for n := range 4 {
		c.complete(c.point(fmt.Sprint("gpu-rotation-", n), "gpu_device", func(p *Point) { p.Server.Devices = []int{n} }), 200, next())
	}
	for _, letter := range []string{"a", "b", "c"} {
		c.complete(c.point("validation-500-"+letter, "repetition", nil), 500, next())
	}
	p := c.point("screening-interrupted", "screening", func(p *Point) { p.Screening = true })
	run := kindRun(p, 500, 1)
	run.Outcome, run.Results, run.Warnings = manifest.Interrupted, nil, []string{"Interrupted after 73 of 500 requests."}
	run.Measurement.Extensions["servebench.partial"] = map[string]any{"requests": 500, "successful_requests": 73}
	partial := c.file("screening-interrupted.result.json", "benchmark_result_json", "application/json", "screening-interrupted-raw", []byte("{}"))
	c.outcomes = append(c.outcomes, Outcome{PointID: p.ID, Status: manifest.Interrupted, Trials: []Trial{{Status: manifest.Interrupted, Manifest: run, Artifacts: []manifest.Artifact{partial}}}})
	c.e.Aggregates = []Aggregate{{ID: "derived-four-replica", Name: "Derived four-replica throughput", Group: "replica_aggregate",
		Sum: []string{"gpu-rotation-0", "gpu-rotation-1", "gpu-rotation-2", "gpu-rotation-3"}}}
	return c
}

func (c *campaign) document(t *testing.T) (*manifest.Experiment, []byte) {
	t.Helper()
	doc, err := Document(c.e, c.outcomes, Writing{At: began, Random: [10]byte{9}, Redactor: &manifest.Redactor{HostNames: []string{"gpuhost-7"}},
		Artifacts: []manifest.Artifact{c.file("methodology.md", "methodology_markdown", "text/markdown", "experiment-notes", []byte("# How\n"))}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := manifest.Encode(doc)
	if err != nil {
		t.Fatal(err)
	}
	return doc, text
}

// verify wants a document without a failure, and at most the warnings it is told.
func (c *campaign) verify(t *testing.T, text []byte, warnings ...string) {
	t.Helper()
	var warned []string
	for _, f := range manifest.Verify(text, c.files) {
		if f.Severity == manifest.Fail {
			t.Errorf("not verified: %v", f)
		} else {
			warned = append(warned, f.Rule)
		}
	}
	slices.Sort(warned)
	if warned = slices.Compact(warned); !slices.Equal(warned, warnings) {
		t.Errorf("warnings of %q, want %q", warned, warnings)
	}
}

// leavesOut are the reference's fields that ours has not, each with its reason.
var leavesOut = map[string]string{
	"/extensions/runpile.demo.fixture":                         "says that the reference is made up",
	"/extensions/runpile.demo.fixture/generated":               "so does this",
	"/extensions/runpile.demo.fixture/production_seed":         "and this",
	"/provenance/notes":                                        "says so too; ours has notes where the server is simulated",
	"/runs/*/environment/extensions":                           "has one key",
	"/runs/*/environment/extensions/runpile.demo.gpu_rotation": "the demonstration's; the device is in accelerators",
}

func TestDocumentHasTheFieldsOfTheReference(t *testing.T) {
	c := judge()
	_, text := c.document(t)
	for _, p := range []manifest.Profile{{}, {Publishable: true}} {
		if _, err := p.Validate(text); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
	c.verify(t, text)
	seed, err := os.ReadFile("../../manifest/testdata/seed-experiment.json")
	if err != nil {
		t.Fatal(err)
	}
	ours, index := paths(t, text), regexp.MustCompile(`/[0-9]+(/|$)`)
	missing := map[string]bool{}
	for path := range paths(t, seed) {
		if path = index.ReplaceAllString(path, "/*$1"); !ours[path] {
			missing[path] = true
		}
	}
	for path := range missing {
		if leavesOut[path] == "" {
			t.Errorf("%s is missing", path)
		}
	}
	for path := range leavesOut {
		if !missing[path] {
			t.Errorf("%s is not missing", path)
		}
	}
}

// paths are the places of a document, with * for each index.
func paths(t *testing.T, text []byte) map[string]bool {
	t.Helper()
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	var walk func(string, any)
	walk = func(at string, node any) {
		all[at] = true
		switch n := node.(type) {
		case map[string]any:
			for key, v := range n {
				walk(at+"/"+key, v)
			}
		case []any:
			for _, v := range n {
				walk(at+"/*", v)
			}
		}
	}
	walk("", doc)
	return all
}

// What a reader would look at, run by run.
func TestDocumentOfTheReferencesShape(t *testing.T) {
	c := judge()
	doc, _ := c.document(t)
	run := map[string]*manifest.ExperimentRun{}
	for i := range doc.Runs {
		run[doc.Runs[i].ClientRunID] = &doc.Runs[i]
	}
	first := run["checkpoint-nvidia-c8"]
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"runs", len(doc.Runs), 25},
		{"id", doc.ClientSubmissionID, "01a2310c-017b-7900-8000-000000000000"},
		{"tags", doc.Tags, []string{"gemma-4", "rtx-5090"}},
		{"omitted files", doc.PublisherNotes.OmittedFiles, []string{"unsanitized-server.log"}},
		{"redactions", doc.PublisherNotes.Redactions, []string{"secret_or_name: taken out of 2 strings, the first at runs/15/failure/message_sanitized"}},
		{"shared concurrency", fmt.Sprint(doc.Shared.Workload["concurrency"]), "8"},
		{"shared cores", doc.Shared.Environment.CPU.LogicalCores, 64},
		{"shared devices", doc.Shared.Environment.Accelerators[0].DeviceIndices, []int{0, 1, 2, 3}},
		{"shared toolkit", doc.Shared.Environment.DriverVersions["cuda_toolkit"], "12.9"},
		{"gpu", doc.Shared.Environment.Accelerators[0].Model, "GeForce RTX 5090"},
		{"own devices", run["gpu-rotation-3"].Environment.Accelerators[0].DeviceIndices, []int{3}},
		{"no kernel twice", first.Environment.Kernel, ""},
		{"command", first.Runtime.CommandSanitized, "vllm serve MODEL --max-model-len 6144 --max-num-batched-tokens 10240 --gpu-memory-utilization 0.95 --kv-cache-dtype fp8_e4m3 --no-enable-prefix-caching --served-model-name MODEL"},
		{"prefix cache", first.Runtime.Parameters["vllm"].(map[string]any)["enable_prefix_caching"], false},
		{"cache type moved", first.Runtime.Parameters["vllm"].(map[string]any)["kv_cache_dtype"], nil},
		{"cache type", first.Subject.Quantization.KVCacheDtype, "fp8_e4m3"},
		{"limit", fmt.Sprint(first.Workload["sampling"]), "map[max_output_tokens:1 mode:greedy temperature:0]"},
		{"exact", fmt.Sprint(first.Workload["stopping"]), "map[exact_output_tokens:true]"},
		{"client", fmt.Sprint(first.Workload["client"].(map[string]any)["overhead_included"]), "true"},
		{"warnings", first.Warnings, []string{"Trust-remote-code was required by the checkpoint."}},
		{"started", first.StartedAt, "2026-12-01T10:00:00.123Z"},
		{"ended", first.EndedAt, "2026-12-01T10:00:58.246Z"}, // floor(58.123456789 s) in ms
		{"artifact", first.Artifacts[0].ClientArtifactID, "checkpoint-nvidia-c8-raw"},
		{"artifact of", first.Artifacts[0].RunClientID, "checkpoint-nvidia-c8"},
		{"artifact kind", first.Artifacts[0].Kind, "benchmark_result_json"},
		{"own manifest", first.Artifacts[1].ClientArtifactID, "checkpoint-nvidia-c8-manifest"},
		{"replacement", run["scheduler-12288"].Failure.ReplacementClientRunID, "scheduler-11776"},
		{"reproducible", *run["scheduler-12288"].Failure.Reproducible, true},
		{"message", run["scheduler-12288"].Failure.MessageSanitized, "KV cache allocation failed on <redacted>."},
		{"log", run["scheduler-12288"].Artifacts[0].Kind, "server_log_text"},
		{"interrupted", run["screening-interrupted"].Warnings, []string{"Interrupted after 73 of 500 requests; excluded from completed-run rankings."}},
		{"screening", run["screening-interrupted"].Relation, manifest.Relation{Type: "other", Group: "screening"}},
		{"partial", fmt.Sprint(doc.Extensions["servebench.partial"]), "map[screening-interrupted:map[requests:500 successful_requests:73]]"},
		{"varied", fmt.Sprint(doc.Extensions["servebench.varied"].(map[string]any)["concurrency-4"]), "map[bench.max-concurrency:4]"},
		{"objective", doc.Objective, "Measure how throughput depends on bench.max-concurrency (1, 2, 4, 8), vars.max_num_batched_tokens (2048, 4096, 6144, 8192, 10240, 10752, 11264, 11776, 12288)."},
		{"summary", doc.Summary, "25 runs: 23 completed, 1 failed, 1 interrupted. Groups: checkpoint, concurrency (bench.max-concurrency), max_num_batched_tokens (vars.max_num_batched_tokens), gpu_device, repetition, screening."},
		{"limitations", doc.Limitations, []string{"Aggregates are derived from runs that were timed one by one; nothing was timed end to end."}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, c.got, c.want)
		}
	}
	sum, last := run["derived-four-replica"], run["gpu-rotation-3"]
	rate := 0.0
	for i := range 4 {
		rate += run[fmt.Sprint("gpu-rotation-", i)].Results.RequestsPerSecond.Value
	}
	got := fmt.Sprintln(sum.Results.RequestsPerSecond.Value == rate, sum.Results.InputTokensPerS.Value == rate*6000, sum.Workload["request_count"], sum.Workload["concurrency"], *sum.Results.SuccessfulRequests,
		sum.Runtime.Parallelism.Replicas, sum.Environment.Accelerators[0].Count, sum.StartedAt == run["gpu-rotation-0"].StartedAt, sum.EndedAt == last.EndedAt, sum.DurationSeconds == last.DurationSeconds, len(sum.Warnings))
	if want := "true true 800 32 800 4 4 true true true 1\n"; got != want {
		t.Errorf("aggregate: got %s, want %s", got, want)
	}
}

// Where each run has a concurrency or a rate of its own, what the schema ties to it
// is no common value either.
func TestDocumentOfASweepWithoutACommonLoad(t *testing.T) {
	for _, kind := range []string{"closed_loop", "poisson"} {
		t.Run(kind, func(t *testing.T) {
			c := newCampaign()
			for n := 1; n <= 4; n *= 2 {
				p := c.point(fmt.Sprint("p-", n), "load", func(p *Point) { p.Config.MaxConcurrency = n })
				c.complete(p, 500, 50.5/float64(n))
				w := &c.outcomes[len(c.outcomes)-1].Trials[0].Manifest.Workload
				w.ArrivalProcess = kind
				if kind == "poisson" {
					w.Concurrency, w.RequestRatePerSecond = 0, ptr(float64(n))
				}
			}
			doc, text := c.document(t)
			c.verify(t, text)
			if w := doc.Shared.Workload; w["mode"] != "online" || w["arrival_process"] != nil {
				t.Errorf("shared workload is %v; want the mode and no arrival process", w)
			}
			if got := doc.Runs[0].Workload["arrival_process"]; got != kind {
				t.Errorf("arrival process of a run is %v; want %s", got, kind)
			}
		})
	}
}

// Several trials are pooled; what was in none of the numbers is said.
func TestDocumentPoolsTrials(t *testing.T) {
	c := newCampaign()
	p := c.point("p", "Repetition 1", nil)
	c.complete(p, 500, 50.5, 61.25)
	failed := Trial{Status: manifest.Failed, Manifest: kindRun(p, 500, 1), Artifacts: []manifest.Artifact{c.file("p-trial-3.server.log", "server_log_text", "text/plain", "server-log", []byte("x\n"))}}
	failed.Manifest.Outcome, failed.Manifest.Results, failed.Manifest.Failure = manifest.Failed, nil, &manifest.Failure{Stage: "a", Category: "b", MessageSanitized: "c"}
	c.outcomes[0].Trials = append(c.outcomes[0].Trials, failed)
	doc, text := c.document(t)
	c.verify(t, text)
	r := doc.Runs[0]
	got := []any{*r.Results.SuccessfulRequests, r.DurationSeconds, r.Results.RequestsPerSecond.Value, fmt.Sprint(r.Workload["request_count"]), r.StartedAt, r.EndedAt,
		r.Trials[1].ClientTrialID, r.Trials[1].Results.RequestsPerSecond.Value, r.Trials[1].Artifacts[0].ClientArtifactID, len(r.Artifacts), len(r.Warnings), r.Relation.Group}
	// The second trial began a minute after the end of the first.
	want := []any{int64(1000), 111.75, 1000 / 111.75, "1000", "2026-12-01T10:00:00.123Z", "2026-12-01T10:02:51.873Z",
		"p-trial-2", 500 / 61.25, "p-trial-2-raw", 5, 2, "repetition_1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The manifest exists whatever is missing, and says what.
func TestDocumentOfWhatDidNotHappen(t *testing.T) {
	c := newCampaign()
	c.e.About = About{}
	p := c.point("done", "g", nil)
	c.complete(p, 10, 1.5)
	c.point("never", "g", func(p *Point) { p.Config.Subject, p.Config.Model = nil, "/models/m"; p.OnFailure.Replacement = "x" })
	bad := c.point("bad", "g", func(p *Point) { p.OnFailure.Replacement = "previous_completed" })
	c.outcomes = append(c.outcomes, Outcome{PointID: bad.ID, Status: manifest.Failed})
	early := c.point("early", "g", nil)
	run := kindRun(early, 10, 1)
	run.Outcome, run.Results, run.Warnings = manifest.Interrupted, nil, []string{"w"}
	c.outcomes = append(c.outcomes, Outcome{PointID: early.ID, Status: manifest.Interrupted, Trials: []Trial{{Status: manifest.Interrupted, Manifest: run}}})
	c.e.Aggregates = []Aggregate{{ID: "sum", Group: "s", Sum: []string{"done", "never"}}, {ID: "none", Group: "s"}}
	doc, text := c.document(t)
	c.verify(t, text)
	var got []string
	for _, r := range doc.Runs {
		why := strings.Join(r.Warnings, " ")
		if r.Failure != nil {
			why = r.Failure.MessageSanitized + r.Failure.ReplacementClientRunID
		}
		got = append(got, fmt.Sprintf("%s %s %s: %s", r.ClientRunID, r.Status, r.Subject.Identifier, why))
	}
	want := []string{
		"done completed unsloth/gemma-4-26B-A4B-it-NVFP4: ",
		"never interrupted m: Not run: the experiment ended before it; excluded from completed-run rankings.",
		"bad failed unsloth/gemma-4-26B-A4B-it-NVFP4: The run failed.done",
		"early interrupted unsloth/gemma-4-26B-A4B-it-NVFP4: Interrupted before the first timed request; excluded from completed-run rankings. w",
		"sum failed unsloth/gemma-4-26B-A4B-it-NVFP4: The aggregate cannot be derived: never did not complete.",
		"none failed undeclared: The aggregate cannot be derived: it names no runs to add.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDocumentRefuses(t *testing.T) {
	point := func(id string) Point { return Point{ID: id, Group: "g"} }
	for _, c := range []struct {
		why      string
		e        Experiment
		outcomes []Outcome
		want     string
	}{
		{"nothing", Experiment{}, nil, "an experiment without a point; want one at least"},
		{"an id twice", Experiment{Points: []Point{point("a"), point("a")}}, nil, `id "a" is there twice; want one for each run of the experiment`},
		{"an aggregate of a point's name", Experiment{Points: []Point{point("a")}, Aggregates: []Aggregate{{ID: "a"}}}, nil, `id "a" is there twice; want one for each run of the experiment`},
		{"a sum of what is not there", Experiment{Points: []Point{point("a")}, Aggregates: []Aggregate{{ID: "s", Sum: []string{"b"}}}}, nil, `aggregate "s" adds "b"; want the id of a point`},
		{"an outcome of nobody", Experiment{Points: []Point{point("a")}}, []Outcome{{PointID: "b", Status: "failed"}}, `an outcome is of "b"; want the id of a point`},
		{"no results", Experiment{Points: []Point{point("a")}}, []Outcome{{PointID: "a", Status: "completed"}}, `point "a": completed, but of its 0 trials none has results`},
		{"no status", Experiment{Points: []Point{point("a")}}, []Outcome{{PointID: "a"}}, `point "a": the outcome's status is ""; want completed, failed or interrupted`},
	} {
		if doc, err := Document(c.e, c.outcomes, Writing{At: began}); err == nil || err.Error() != c.want || doc != nil {
			t.Errorf("%s: got %v, want %s", c.why, err, c.want)
		}
	}
}
