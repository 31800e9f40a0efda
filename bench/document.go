package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/manifest"
	"github.com/servebench/servebench/metrics"
)

// harness is our name in a manifest.
const harness = "servebench"

// Manifest describes the run as schema 1.0, kind run. result is the result file
// as written, from which the run's id comes; artifacts are the files that were
// written beside it.
func (r *Result) Manifest(result []byte, artifacts []manifest.Artifact) *manifest.Run {
	red := r.redactor()
	clean := func(s string) string { s, _ = red.String(s); return s }
	command, _ := red.Command(r.Config.Command)
	m := &manifest.Run{
		SchemaVersion: manifest.SchemaVersion,
		Kind:          manifest.KindRun,
		ClientRunID:   manifest.RunID(result, 1),
		Visibility:    "private",
		Outcome:       r.Outcome,
		Subject:       r.subject(),
		Environment:   r.Environment,
		Runtime:       r.runtime(),
		Workload:      r.workload(),
		Measurement:   r.measurement(cmp.Or(command, harness+" (as a library)")),
		Artifacts:     artifacts,
		Provenance: manifest.Provenance{
			Tool: harness, Source: "harness", ToolVersion: Version,
			GeneratedAt: r.Start.Add(r.Duration).UTC().Format(time.RFC3339Nano),
		},
	}
	m.Name = r.name(m)
	if r.Outcome == manifest.Completed {
		m.Results = r.results()
	} else {
		m.Measurement.Extensions["servebench.partial"] = r.partial()
	}
	if r.Failure != nil {
		f := *r.Failure
		f.MessageSanitized = clean(f.MessageSanitized)
		m.Failure = &f
	}
	for _, w := range append(append(slices.Clone(r.Warnings), r.undeclared()...), r.unsaid()...) {
		m.Warnings = append(m.Warnings, clean(w))
	}
	return published(m, red)
}

// redactor knows what must not leave this machine.
func (r *Result) redactor() *manifest.Redactor { return r.Config.Redactor() }

// subject is what was declared; without a declaration only what was asked for.
func (r *Result) subject() manifest.Subject {
	if r.Simulated() {
		return manifest.Subject{
			Type: "model", Source: "local", Identifier: "servebench-sim",
			Revision: cmp.Or(r.Engine.Version, Version), RevisionKind: "tag",
		}
	}
	if r.Config.Subject != nil {
		return *r.Config.Subject
	}
	return manifest.Subject{Type: "model", Identifier: cmp.Or(publicName(r.redactor(), r.Config.Model), "undeclared"), RevisionKind: "undeclared"}
}

// undeclared warns of what is missing before publication.
func (r *Result) undeclared() []string {
	if r.Simulated() || r.Config.Subject != nil {
		return nil
	}
	return []string{"The subject was not declared (--subject FILE): revision, quantization and parameter counts are unknown, no licence is given."}
}

// unsaid warns of what the schema cannot say.
func (r *Result) unsaid() []string {
	if !r.pools() {
		return nil
	}
	return []string{"Nothing was generated: workload.output_tokens is 1 as the schema has no 0, and the output rates of 0 are no measurement."}
}

func (r *Result) name(m *manifest.Run) string {
	load := fmt.Sprintf("C%d", m.Workload.Concurrency)
	switch w := &m.Workload; w.ArrivalProcess {
	case "closed_loop":
	case "trace":
		load = "trace"
	case "ramp":
		load = fmt.Sprintf("%v-%v req/s", r.Config.Ramp.Start, r.Config.Ramp.End)
	default:
		load = r.Config.Rate.String() + " req/s"
	}
	lengths := short(m.Workload.InputTokens)
	if !r.pools() {
		lengths += "->" + short(m.Workload.OutputTokens)
	}
	name := fmt.Sprintf("%s | %s | %s", m.Subject.Identifier, lengths, load)
	if r.Simulated() {
		name += " | simulated"
	}
	if runes := []rune(name); len(runes) > 200 {
		name = string(runes[:200])
	}
	return name
}

func short(c manifest.TokenCount) string {
	if c.Kind == "fixed" {
		return fmt.Sprint(c.Value)
	}
	return fmt.Sprintf("%d-%d", c.Min, c.Max)
}

func (r *Result) runtime() manifest.Runtime {
	rt := manifest.Runtime{Engine: cmp.Or(r.Engine.Name, "unknown"), Version: r.Engine.Version}
	if len(r.Engine.Parameters) > 0 {
		rt.Parameters = &manifest.Parameters{Server: r.Engine.Parameters}
	}
	return rt
}

func ptr[T any](v T) *T { return &v }

func (r *Result) workload() manifest.Workload {
	c := &r.Config
	w := manifest.Workload{
		Mode: "online", Task: r.task(),
		Client: manifest.Client{
			Name: harness, Backend: strings.ReplaceAll(c.Backend, "-", "_"), Version: Version,
		},
		Dataset:            r.dataset(),
		Sampling:           r.sampling(),
		Stopping:           r.stopping(),
		Streaming:          c.Stream && !r.neverStreamed(),
		RandomSeed:         c.Dataset.Seed,
		EndpointType:       r.endpointType(),
		RequestCount:       max(1, r.requests()),
		ArrivalProcess:     r.arrival(),
		WarmupRequestCount: c.Dataset.Warmups,
		Extensions:         map[string]any{},
	}
	if r.sameHost {
		w.Client.Placement = "same-host"
	} else if c.Target.Dial == nil {
		w.Client.Placement = "remote-host"
	}
	if t := r.Plan.Tokenizer; t != nil {
		if id := manifest.Identifier(t.Identifier); id != "" {
			w.Tokenizer = &manifest.Tokenizer{Identifier: id, Revision: t.Revision}
		}
	}
	w.Concurrency = c.MaxConcurrency
	switch w.ArrivalProcess {
	case "closed_loop":
		w.Concurrency = cmp.Or(w.Concurrency, w.RequestCount)
	case "poisson", "gamma", "constant":
		w.RequestRatePerSecond = ptr(float64(c.Rate))
	}
	w.InputTokens, w.OutputTokens = r.lengths()
	r.setRequested(w.Extensions)
	if c.Dataset.Name == "random" {
		w.PrefixBehavior = &manifest.PrefixBehavior{SharedPrefixTokens: ptr(int64(c.Dataset.PrefixLen))}
	}
	if v, ok := r.Engine.Parameters["prefix_caching"].(bool); ok {
		if w.PrefixBehavior == nil {
			w.PrefixBehavior = &manifest.PrefixBehavior{}
		}
		w.PrefixBehavior.CacheEnabled = &v
	}
	return w
}

func (r *Result) requests() int {
	if n := len(r.Plan.Requests); n > 0 {
		return n
	}
	return r.Config.Dataset.Prompts
}

// neverStreamed tells that no response came as a stream though all should have.
func (r *Result) neverStreamed() bool {
	return r.Summary.Completed > 0 && r.Summary.Counters.NotStreamed == r.Summary.Completed
}

// task is the schema's word for what was asked of the server.
func (r *Result) task() string {
	switch r.Config.API() {
	case openai.Embeddings, openai.EmbeddingsChat, openai.EmbeddingsClip, openai.Infinity, openai.InfinityClip:
		return "embedding"
	case openai.Pooling:
		return "pooling"
	case openai.Rerank:
		return "rerank"
	}
	return "text_generation"
}

// endpointType is the schema's; it has one for all that embeds.
func (r *Result) endpointType() string {
	if r.task() == "embedding" {
		return "openai-compatible-embeddings"
	}
	return "openai-compatible-" + string(r.Config.API())
}

// stopping is empty where nothing is generated.
func (r *Result) stopping() manifest.Stopping {
	if r.pools() {
		return manifest.Stopping{}
	}
	return manifest.Stopping{IgnoreEOS: ptr(r.ignoreEOS()), MaxOutputTokens: r.maxOutput()}
}

func (r *Result) arrival() string {
	c := &r.Config
	switch {
	case !r.openLoop():
		return "closed_loop"
	case c.Traced():
		return "trace"
	case c.Ramp != nil:
		return "ramp"
	case c.Burstiness == 1:
		return "poisson"
	case c.Burstiness.IsInf():
		return "constant"
	}
	return "gamma"
}

func (r *Result) dataset() manifest.Dataset {
	d := manifest.Dataset{Generator: r.Plan.Generator, SHA256: r.Plan.SHA256, Synthetic: ptr(r.Plan.Synthetic)}
	if d.Generator == "" {
		d.Generator = r.Config.Dataset.Name
		d.Synthetic = ptr(slices.Contains([]string{"random", "random-mm", "random-rerank", "prefix_repetition", "timed_trace"}, d.Generator))
	}
	if s := r.Config.Dataset; s.Name == "random" {
		d.SharedPrefixTokens = ptr(int64(s.PrefixLen))
		d.RandomPrefixTokens = ptr(int64(s.PrefixLen))
		if s.RangeRatio.Input == s.RangeRatio.Output {
			d.RangeRatio = ptr(s.RangeRatio.Input)
		}
	}
	return d
}

// sent looks a key up in the body of the first request: --extra-body may have
// set it. Without a body there is nothing to look up.
func (r *Result) sentKey(key string) gjson.Result {
	if len(r.Plan.Requests) == 0 {
		return gjson.Result{}
	}
	return gjson.GetBytes(r.Plan.Requests[0].Body, key)
}

// ignoreEOS tells whether the bodies ask to go on after the end of a text.
func (r *Result) ignoreEOS() bool {
	if len(r.Plan.Requests) == 0 {
		return r.Config.IgnoreEOS && !r.Config.Strict
	}
	return r.sentKey("ignore_eos").Bool()
}

func (r *Result) sampling() manifest.Sampling {
	if r.pools() {
		return manifest.Sampling{}
	}
	t := r.Config.Sampling.Temperature
	if v := r.sentKey("temperature"); v.Type == gjson.Number && v.Num >= 0 {
		t = &v.Num
	}
	switch {
	case t == nil:
		return manifest.Sampling{Mode: "server_default"}
	case *t == 0:
		return manifest.Sampling{Mode: "greedy", Temperature: t}
	}
	return manifest.Sampling{Mode: "sampled", Temperature: t}
}

// maxOutput is the largest number of tokens any request asked for.
func (r *Result) maxOutput() int64 {
	_, hi, _ := rangeOf(r.Plan.Requests, func(q loadgen.Request) int { return q.OutputTokens })
	if len(r.Plan.Requests) == 0 {
		hi = r.Config.Dataset.OutputLen
	}
	return int64(max(1, hi))
}

func rangeOf(requests []loadgen.Request, f func(loadgen.Request) int) (lo, hi int, mean float64) {
	sum := 0
	for i, q := range requests {
		v := f(q)
		if i == 0 {
			lo, hi = v, v
		}
		lo, hi, sum = min(lo, v), max(hi, v), sum+v
	}
	return lo, hi, float64(sum) / float64(max(1, len(requests)))
}

// lengths describe what was counted over completed requests; where nothing was
// completed, what was asked for.
func (r *Result) lengths() (in, out manifest.TokenCount) {
	s := r.Summary
	n := float64(max(1, s.Completed))
	if s.Completed > 0 && s.InputRange[0] > 0 {
		in = tokenCount(s.InputRange[0], s.InputRange[1], float64(s.InputTokens)/n)
	} else {
		in = r.inputAsked()
	}
	switch {
	case r.pools():
		out = manifest.TokenCount{Kind: "fixed", Value: 1} // the schema has no 0; undeclared says so
	case s.Completed > 0:
		out = tokenCount(s.OutputRange[0], s.OutputRange[1], float64(s.OutputTokens)/n)
	default:
		out = r.outputAsked()
	}
	return in, out
}

// tokenCount fits the schema, in which a length is at least 1. A mean below the
// range is that of requests of which some were not counted.
func tokenCount(lo, hi int, mean float64) manifest.TokenCount {
	if mean < float64(lo) {
		lo = 0
	}
	if lo == hi && lo > 0 {
		return manifest.TokenCount{Kind: "fixed", Value: int64(lo)}
	}
	return manifest.TokenCount{Kind: "empirical", Min: int64(max(1, lo)), Max: int64(max(1, hi)), Mean: max(mean, math.SmallestNonzeroFloat64)}
}

func (r *Result) inputAsked() manifest.TokenCount {
	lo, hi, mean := rangeOf(r.Plan.Requests, func(q loadgen.Request) int { return q.PromptTokens })
	if lo > 0 {
		return tokenCount(lo, hi, mean)
	}
	if r.Config.Dataset.Name == "random" {
		n := (r.Config.Dataset.InputLen + r.Config.Dataset.PrefixLen) * max(1, r.Config.Dataset.BatchSize)
		return tokenCount(n, n, float64(n))
	}
	// A token has at least one byte: the only bound that is known, and doubts
	// says that it is one.
	_, hi, mean = rangeOf(r.Plan.Requests, func(q loadgen.Request) int { return q.Len() })
	return tokenCount(1, max(2, hi), max(1, mean))
}

func (r *Result) outputAsked() manifest.TokenCount {
	lo, hi, mean := rangeOf(r.Plan.Requests, func(q loadgen.Request) int { return q.OutputTokens })
	if hi > 0 {
		return tokenCount(lo, hi, mean)
	}
	n := max(1, r.Config.Dataset.OutputLen)
	return tokenCount(n, n, float64(n))
}

// setRequested says what was asked for, where that is known.
func (r *Result) setRequested(ext map[string]any) {
	d := &r.Config.Dataset
	if d.Name == "random" && d.BatchSize > 1 { // the last batch may be smaller, and pooled
		lo, hi, _ := rangeOf(r.Plan.Requests, func(q loadgen.Request) int { return q.Sequences * (d.InputLen + d.PrefixLen) })
		if lo == hi && hi > 0 && d.RangeRatio.Input == 0 {
			ext["servebench.requested_input_tokens"] = requested(hi, 0)
		}
		return
	}
	if d.Name == "random" {
		ext["servebench.requested_input_tokens"] = requested(d.InputLen+d.PrefixLen, d.RangeRatio.Input)
		if r.pools() {
			return
		}
		ext["servebench.requested_output_tokens"] = requested(d.OutputLen, d.RangeRatio.Output)
		return
	}
	if r.pools() {
		return
	}
	if lo, hi, _ := rangeOf(r.Plan.Requests, func(q loadgen.Request) int { return q.OutputTokens }); lo == hi && hi > 0 {
		ext["servebench.requested_output_tokens"] = requested(hi, 0)
	} else if hi > 0 {
		ext["servebench.requested_output_tokens"] = map[string]any{"kind": "empirical", "min": lo, "max": hi}
	}
}

func requested(n int, ratio float64) map[string]any {
	if ratio > 0 {
		return map[string]any{"kind": "uniform", "mean": n, "range_ratio": ratio}
	}
	return map[string]any{"kind": "fixed", "value": n}
}

func (r *Result) measurement(command string) manifest.Measurement {
	c := &r.Config
	warm := fmt.Sprintf("%d unmeasured warm-up requests after %d readiness requests", r.warmups, r.ReadyRequests)
	if r.warmups > 0 {
		warm += map[bool]string{true: ", all with the first timed prompt", false: ", with prompts of their own"}[c.Dataset.WarmupFirst]
	}
	scope := "client-observed request latency"
	switch {
	case !c.Stream && r.stamped():
		scope += ", its end by the kernel's receive time"
	case c.Stream:
		scope = "client-observed streaming request latency, arrivals by the time of reading"
		if r.stamped() {
			scope = "client-observed streaming request latency, arrivals by the kernel's receive time"
		}
	}
	return manifest.Measurement{
		Notes:   "Aggregates here; per-request times without prompts and texts in the records, where they were saved.",
		Warmup:  warm + ".",
		Harness: harness, Version: Version, Repetitions: 1,
		TimingScope: scope + ".", BenchmarkCommand: command,
		RetryFailureTreatment:  "Failed requests counted, in no latency; no client retries.",
		ClientOverheadIncluded: !r.stamped(),
		Extensions:             r.extensions(),
	}
}

// extensions are the facts of the measurement that the schema has no field for.
func (r *Result) extensions() map[string]any {
	c, s := &r.Config, r.Summary
	ext := map[string]any{
		"runpile.declared_warmup_count":       c.Dataset.Warmups,
		"runpile.readiness_request_count":     r.ReadyRequests,
		"servebench.started_at":               r.Start.UTC().Format(time.RFC3339Nano),
		"servebench.ended_at":                 r.Start.Add(r.Duration).UTC().Format(time.RFC3339Nano),
		"servebench.wall_clock_offset_ms":     float64(r.clockOffset) / 1e6,
		"servebench.percentile_method":        "linear interpolation at rank (n-1)q over exact samples; a source of hdr3 is a histogram of 3 digits",
		"servebench.dataset_digest":           "sha256 over request bodies, each preceded by its length as 8 bytes big endian",
		"servebench.prompts_counted_by":       r.Plan.Counted,
		"servebench.max_concurrency":          nullable(c.MaxConcurrency),
		"servebench.kernel_receive_stamps":    r.stamped(),
		"servebench.peak_concurrency":         s.MaxInFlight,
		"servebench.peak_output_tokens_per_s": s.MaxTokenRate,
		"servebench.outcomes":                 s.Outcomes,
		"servebench.token_sources":            s.TokenSources,
		"servebench.counters":                 counters(&s.Counters),
		"servebench.configuration":            r.publicConfig(),
		"servebench.proxy":                    r.proxied,
		"servebench.connections_preopened":    r.opened,
		"servebench.metric_readings":          "token-bearing events; the result JSON has vLLM's reading over events with choices",
	}
	if len(r.Config.RunFile) > 0 {
		ext["servebench.run_file"] = r.Config.RunFile
	}
	if r.Simulated() {
		ext["servebench.simulated"] = true
	}
	if r.pools() {
		ext["servebench.total_input_sequences"] = r.Sequences()
		ext["servebench.input_sequences_per_second"] = r.throughput(r.Sequences())
	}
	if r.Plan.aligned > 0 {
		ext["servebench.prompts_aligned"] = r.Plan.aligned
	}
	if p := r.Probes; p != nil {
		ext["servebench.probes"] = map[string]any{"completed": p.Completed, "failed": p.Failed, "missed": p.Missed}
		if p.E2EL != nil {
			ext["servebench.probe_e2el_ms"] = distJSON(p.E2EL, basePercentiles)
		}
	}
	if r.Environment != nil {
		// Behind a tunnel it would be another machine's, which nobody can see.
		ext["servebench.environment_source"] = "the client's host, since the target is a loopback address"
	}
	if sp := r.Speculation; sp != nil && sp.Length() >= 1 {
		ext["runpile.speculative_accept_length"] = sp.Length()
	}
	r.setWatched(ext)
	for _, m := range r.OwnMetrics() {
		ext["servebench."+m.Key] = distJSON(m.Dist, basePercentiles)
	}
	return ext
}

var basePercentiles = []float64{50, 90, 95, 99}

// stamped tells whether arrivals are the kernel's receive times.
func (r *Result) stamped() bool {
	return !r.Config.Target.NoKernelStamps && r.Summary.Counters.NoStamp < r.reads()
}

// reads are those that a stamp was wanted for: with events, or at the end of a body
// in one piece.
func (r *Result) reads() int { return r.Summary.Counters.Reads + r.Summary.Counters.NotStreamed }

// publicConfig is the configuration without what is ours alone: addresses,
// headers, paths, labels, the extra body.
func (r *Result) publicConfig() any {
	c := r.Config
	c.Target = openai.Config{
		API: c.Target.API, Endpoint: c.Target.Endpoint, Insecure: c.Target.Insecure,
		ConnectTimeout: c.Target.ConnectTimeout, HeadersTimeout: c.Target.HeadersTimeout,
		StallTimeout: c.Target.StallTimeout, TotalTimeout: c.Target.TotalTimeout,
		MaxEventBytes: c.Target.MaxEventBytes, NoKernelStamps: c.Target.NoKernelStamps,
	}
	red := r.redactor()
	c.Declared.Launch = nil // its environment may hold keys
	c.Model, c.ServedModel = publicName(red, c.Model), publicName(red, c.ServedModel)
	c.Tokenizer = publicName(red, c.Tokenizer)
	switch {
	case c.Dataset.Name == "hf":
		c.Dataset.Path = publicName(red, c.Dataset.Path)
	case c.Dataset.Path != "":
		c.Dataset.Path = filepath.Base(c.Dataset.Path)
	}
	c.LoRA = slices.Clone(c.LoRA)
	for i, name := range c.LoRA {
		c.LoRA[i] = publicName(red, name)
	}
	if _, changed := red.String(string(c.TemplateKwargs)); len(changed) > 0 {
		c.TemplateKwargs = nil
	}
	c.Replicas = nil
	c.Subject, c.Extra, c.Metadata, c.Label, c.RequestIDPrefix = nil, nil, nil, "", ""
	// As JSON has it: an infinite rate is a word there.
	b, err := json.Marshal(c)
	if err != nil {
		return nil
	}
	return json.RawMessage(b)
}

// publicName is a name that the server may have chosen, fit for a manifest.
func publicName(red *manifest.Redactor, s string) string {
	if s == "" {
		return ""
	}
	// A path is a name by its last element; only what else is in it is hidden.
	id := manifest.Identifier(s)
	if clean, changed := red.String(id); id != "" && clean == id && len(changed) == 0 {
		return id
	}
	return "undeclared"
}

func (r *Result) results() *manifest.Results {
	s := r.Summary
	n := int64(s.Completed)
	rate := func(count int64) manifest.Rate {
		return manifest.Rate{Value: r.throughput(count), SampleCount: n, MeasurementStatus: "measured"}
	}
	res := &manifest.Results{
		Throughput: manifest.Throughput{
			RequestsPerSecond:     rate(n),
			TotalTokensPerSecond:  rate(s.InputTokens + s.OutputTokens),
			OutputTokensPerSecond: rate(s.OutputTokens),
		},
		FailedRequests: int64(s.Failed), DurationSeconds: r.Duration.Seconds(), SuccessfulRequests: n,
		TotalInputTokens: s.InputTokens, TotalOutputTokens: s.OutputTokens,
	}
	res.LatencyMS.EndToEnd = latency(s.Token.E2EL)
	if r.Config.Stream && !r.neverStreamed() {
		res.LatencyMS.InterToken = latency(s.Token.ITL)
		res.LatencyMS.TimeToFirstToken = latency(s.Token.TTFT)
		res.LatencyMS.TimePerOutputToken = latency(s.Token.TPOT)
	}
	return res
}

func latency(d *metrics.Dist) *manifest.Latency {
	if d == nil {
		return nil
	}
	at := func(p float64) float64 { v, _ := d.Percentile(p); return v }
	return &manifest.Latency{
		P50: at(50), P90: at(90), P95: at(95), P99: at(99), Mean: d.Mean, Stddev: d.Std,
		SampleCount: int64(d.N), MeasurementStatus: "measured",
	}
}

// partial is what there is of a run that did not complete.
func (r *Result) partial() map[string]any {
	s := r.Summary
	lat := map[string]any{}
	for name, d := range map[string]*metrics.Dist{"time_to_first_token": s.Token.TTFT, "time_per_output_token": s.Token.TPOT, "inter_token": s.Token.ITL, "end_to_end": s.Token.E2EL} {
		if d != nil {
			lat[name] = distJSON(d, basePercentiles)
		}
	}
	return map[string]any{
		"requests": len(r.Records), "successful_requests": s.Completed, "failed_requests": s.Failed,
		"duration_seconds": r.Duration.Seconds(), "total_input_tokens": s.InputTokens, "total_output_tokens": s.OutputTokens,
		"latency_ms": lat,
	}
}
