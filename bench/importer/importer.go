// Package importer makes manifests of results that somebody else measured: the
// result file of `vllm bench serve`, the one in Python or the one in Rust.
//
// It reads, checks and computes, and touches nothing: the file's text and all that
// was declared are arguments.
package importer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/servebench/servebench/manifest"
)

// Options are what a result file does not hold.
type Options struct {
	// Subject, Environment and Runtime were declared; nil and zero were not.
	Subject     *manifest.Subject
	Environment *manifest.Environment
	Runtime     manifest.Runtime
	// Warnings are about what was declared.
	Warnings []string
	// Set are settings of the manifest, KEY=VALUE, where a key is a path with dots
	// such as workload.random_seed, and a value JSON or text. A number for a length
	// of tokens stands for a fixed one.
	Set []string
	// Artifacts are the files of the run, the result among them.
	Artifacts []manifest.Artifact
	Redactor  *manifest.Redactor // nil knows the general forms
	At        time.Time          // of the import
	Version   string             // of this tool
}

// Run makes a manifest of one result, a JSON object. What the file does not say and
// nobody declared is left out, or has a warning where the schema wants something. A
// rate, a mean or a percentile that does not follow from the file's own counts and
// arrays is an error that names its key, and so is a setting that the schema or the
// arithmetic refuses. Safe for concurrent use.
func Run(result []byte, o Options) (*manifest.Run, error) {
	r, err := parse(result)
	if err != nil {
		return nil, err
	}
	if o.Redactor == nil {
		o.Redactor = &manifest.Redactor{}
	}
	i := &imported{result: r, o: &o}
	m := i.manifest(manifest.RunID(result, 1))
	if err := errors.Join(r.errs...); err != nil {
		return nil, err
	}
	if m, err = i.settings(m); err != nil {
		return nil, err
	}
	if m, _, err = manifest.Clean(o.Redactor, m); err != nil {
		return nil, err
	}
	text, err := manifest.Encode(m)
	if err != nil {
		return nil, err
	}
	for _, f := range manifest.Verify(text, nil) {
		if f.Severity == manifest.Fail {
			err = errors.Join(err, fmt.Errorf("%s (rule %s): %s", f.Path, f.Rule, f.Message))
		}
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// imported is a manifest in the making.
type imported struct {
	*result
	o        *Options
	warnings []string
}

func (i *imported) warnf(format string, args ...any) {
	i.warnings = append(i.warnings, fmt.Sprintf(format, args...))
}

func (i *imported) manifest(id string) *manifest.Run {
	i.warnf("Imported from a result file: its counts, times and rates were checked against each other, and what else is here was declared or is missing. Review it before publication.")
	m := &manifest.Run{
		SchemaVersion: manifest.SchemaVersion, Kind: manifest.KindRun, ClientRunID: id, Visibility: "private",
		Subject: i.subject(), Environment: i.host(), Runtime: i.o.Runtime, Artifacts: i.o.Artifacts,
		Provenance: manifest.Provenance{Tool: "servebench", Source: "import", ToolVersion: i.o.Version, GeneratedAt: i.o.At.UTC().Format(time.RFC3339Nano)},
	}
	if m.Runtime.Engine == "" {
		m.Runtime.Engine = "unknown"
		i.warnf("Nothing was declared of the server (--launch-command): engine, version and parameters are unknown.")
	}
	m.Workload = i.workload()
	m.Measurement = i.measurement()
	m.Workload.Client.Version = m.Measurement.Version
	i.outcome(m)
	m.Name = fmt.Sprintf("%s | %s->%s | C%d", m.Subject.Identifier, length(m.Workload.InputTokens), length(m.Workload.OutputTokens), m.Workload.Concurrency)
	if runes := []rune(m.Name); len(runes) > 200 {
		m.Name = string(runes[:200])
	}
	m.Warnings = append(i.warnings, i.o.Warnings...)
	return m
}

func length(c manifest.TokenCount) string {
	if c.Kind == "fixed" {
		return fmt.Sprint(c.Value)
	}
	return fmt.Sprintf("%d-%d", c.Min, c.Max)
}

func (i *imported) subject() manifest.Subject {
	if i.o.Subject != nil {
		return *i.o.Subject
	}
	i.warnf("The subject was not declared (--subject FILE): revision, quantization and parameter counts are unknown, no licence is given.")
	return manifest.Subject{Type: "model", Identifier: cmp.Or(manifest.Identifier(i.text("model_id")), "undeclared"), RevisionKind: "undeclared"}
}

// outcome says how the run ended, and fills in the results of one that completed.
func (i *imported) outcome(m *manifest.Run) {
	m.Outcome = manifest.Completed
	stated := i.text("outcome") // servebench's own
	switch {
	case i.completed == 0 || stated == manifest.Failed:
		m.Outcome = manifest.Failed
		m.Failure = &manifest.Failure{Stage: "timed_run", Category: "no_success", MessageSanitized: "No request succeeded."}
	case stated == manifest.Interrupted:
		m.Outcome = manifest.Interrupted
		i.warnf("Interrupted after %d of %d requests.", i.completed, max(i.completed+i.failed, i.whole("num_prompts", -1)))
	}
	results := i.results(&m.Workload)
	if m.Outcome == manifest.Completed {
		m.Results = results
		return
	}
	m.Measurement.Extensions["servebench.partial"] = map[string]any{
		"requests": i.completed + i.failed, "successful_requests": i.completed, "failed_requests": i.failed, "duration_seconds": i.duration,
		"total_input_tokens": i.input, "total_output_tokens": i.output,
	}
}

// endpoints are the schema's words for vLLM's backends: the endpoint and the task.
var endpoints = map[string][2]string{
	"vllm": {"completions", "text_generation"}, "openai": {"completions", "text_generation"}, "openai-chat": {"chat", "text_generation"},
	"openai-responses": {"responses", "text_generation"}, "openai-embeddings": {"embeddings", "embedding"},
	"openai-embeddings-chat": {"embeddings", "embedding"}, "openai-embeddings-clip": {"embeddings", "embedding"},
	"infinity-embeddings": {"embeddings", "embedding"}, "infinity-embeddings-clip": {"embeddings", "embedding"},
	"vllm-pooling": {"pooling", "pooling"}, "vllm-rerank": {"rerank", "rerank"},
}

func (i *imported) workload() manifest.Workload {
	backend := cmp.Or(i.text("backend"), i.text("endpoint_type"))
	end, known := endpoints[backend]
	if !known {
		end = endpoints["openai"]
		i.warnf("The backend %q is unknown here: the endpoint is taken for completions.", backend)
	}
	included := true
	w := manifest.Workload{
		Mode: "online", Task: end[1], EndpointType: "openai-compatible-" + end[0],
		Client:       manifest.Client{Name: i.harness(), Backend: token(backend), OverheadIncluded: &included},
		Dataset:      manifest.Dataset{Name: "unknown"},
		Streaming:    end[1] == "text_generation",
		RequestCount: int(max(1, i.completed+i.failed)),
	}
	if n := i.whole("num_prompts", -1); n >= 0 && n != i.completed+i.failed {
		i.warnf("%d prompts were asked for, but the file counts %d requests.", n, i.completed+i.failed)
	}
	i.load(&w)
	if id := manifest.Identifier(i.text("tokenizer_id")); id != "" {
		w.Tokenizer = &manifest.Tokenizer{Identifier: id}
	}
	w.InputTokens = i.tokens("input", i.inputLens, i.input)
	if w.OutputTokens = i.tokens("output", i.outputLens, i.output); end[1] != "text_generation" {
		w.OutputTokens = manifest.TokenCount{Kind: "fixed", Value: 1}
		i.warnf("Nothing was generated: workload.output_tokens is 1 as the schema has no 0, and the output rates of 0 are no measurement.")
	}
	for _, s := range []struct{ key, or, said string }{
		{"workload.dataset.name", "workload.dataset.generator", "The file does not name the data set"},
		{"workload.random_seed", "", "The file does not say the seed of the prompts, which stands as 0"},
		{"workload.warmup_request_count", "", "The file does not say how many warm-up requests there were, which stand as 0"},
		{"measurement.version", "", "The file does not say the version of the harness"},
		{"measurement.benchmark_command", "", "The file does not hold the command that measured"},
	} {
		if !i.set(s.key) && !i.set(s.or) {
			i.warnf("%s (--set %s=…).", s.said, s.key)
		}
	}
	return w
}

// token is a name in the schema's form.
func token(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	out := strings.Join(words, "_")
	if out == "" || out[0] <= '9' {
		return ""
	}
	return out
}

// load says when requests were sent.
func (i *imported) load(w *manifest.Workload) {
	rate, finite := i.number("request_rate")
	concurrency := i.whole("max_concurrency", 0)
	w.Concurrency = int(concurrency)
	switch b, known := i.number("burstiness"); {
	case i.has("ramp_up_strategy"):
		w.ArrivalProcess = "ramp"
	case !finite || rate <= 0:
		w.ArrivalProcess = "closed_loop"
		w.Concurrency = int(cmp.Or(concurrency, int64(w.RequestCount)))
	case i.has("burstiness") && !known: // infinite
		w.ArrivalProcess = "constant"
	case !known || b == 1:
		w.ArrivalProcess = "poisson"
	default:
		w.ArrivalProcess = "gamma"
	}
	if finite && rate > 0 && w.ArrivalProcess != "ramp" {
		w.RequestRatePerSecond = &rate
	}
}

// tokens describes the lengths of successful requests. Without an array there is
// only their sum.
func (i *imported) tokens(what string, lens []float64, total int64) manifest.TokenCount {
	n := i.completed
	if lens != nil && n > 0 {
		lo, hi := slices.Min(lens), slices.Max(lens)
		if lo == hi && lo >= 1 {
			return manifest.TokenCount{Kind: "fixed", Value: int64(lo)}
		}
		return manifest.TokenCount{Kind: "empirical", Min: int64(max(1, lo)), Max: int64(max(1, hi)), Mean: mean(total, n)}
	}
	if i.set("workload." + what + "_tokens") {
		return manifest.TokenCount{Kind: "fixed", Value: 1} // settings puts it right
	}
	if n > 0 && total > 0 && total%n == 0 {
		i.warnf("The file has no %s lengths (--save-detailed): they are taken as equal, since the sum allows it.", what)
		return manifest.TokenCount{Kind: "fixed", Value: total / n}
	}
	i.warnf("The file has no %s lengths (--save-detailed): their mean is that of the sum, and the range holds any that give it.", what)
	return manifest.TokenCount{Kind: "empirical", Min: 1, Max: max(1, total), Mean: mean(total, n)}
}

func mean(total, n int64) float64 {
	return max(float64(total)/float64(max(1, n)), math.SmallestNonzeroFloat64)
}

// harness is who measured.
func (i *imported) harness() string {
	if i.has("servebench") {
		return "servebench"
	}
	return "vllm bench serve"
}

func (i *imported) measurement() manifest.Measurement {
	m := manifest.Measurement{
		Warmup: "Not stated by the result file.", Harness: i.harness(), Version: "unknown", Repetitions: 1,
		TimingScope:            "client-observed request latency, by the clock of the harness.",
		BenchmarkCommand:       "Not stated by the result file.",
		RetryFailureTreatment:  "Failed requests counted, in no latency; what the harness does beyond is its own.",
		ClientOverheadIncluded: true,
		Extensions:             map[string]any{},
	}
	about := map[string]any{}
	for _, key := range i.keys {
		if !computed[key] && !metricKey(key) {
			about[key] = i.values[key]
		}
	}
	m.Extensions["servebench.result_file"] = about
	// vLLM counts from the end of the warm-up to the end of the timed requests.
	if n, ok := i.number("spec_decode_acceptance_length"); ok && n >= 1 {
		m.Extensions["runpile.speculative_accept_length"] = n
	}
	return m
}

// settings writes what the user set over the manifest.
func (i *imported) settings(m *manifest.Run) (*manifest.Run, error) {
	if len(i.o.Set) == 0 {
		return m, nil
	}
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := decode(text, &doc); err != nil {
		return nil, err
	}
	for _, s := range i.o.Set {
		if err := set(doc, s); err != nil {
			return nil, fmt.Errorf("set %w", err)
		}
	}
	if text, err = json.Marshal(doc); err != nil {
		return nil, err
	}
	if _, err := manifest.Validate(text); err != nil {
		return nil, fmt.Errorf("set: the manifest would break the schema: %w", err)
	}
	out := new(manifest.Run)
	if err := decode(text, out); err != nil {
		return nil, err
	}
	if c, v := out.Workload.Client.Version, out.Measurement.Version; c == "unknown" && v != "unknown" {
		out.Workload.Client.Version = v
	}
	for n := range out.Artifacts {
		out.Artifacts[n].License = cmp.Or(out.Artifacts[n].License, out.License)
	}
	return out, nil
}

// set tells whether the user set a place of the manifest.
func (i *imported) set(key string) bool {
	return slices.ContainsFunc(i.o.Set, func(s string) bool { return strings.HasPrefix(s, key+"=") })
}

// settable are the parts of a manifest that a setting may change: facts that nobody
// computed.
var settable = []string{"name", "notes", "visibility", "license", "subject", "environment", "runtime", "workload", "measurement"}

// set changes one place of a document.
func set(doc map[string]any, setting string) error {
	key, text, ok := strings.Cut(setting, "=")
	path := strings.Split(key, ".")
	switch {
	case !ok || key == "":
		return fmt.Errorf("%q: want KEY=VALUE, such as workload.random_seed=0", setting)
	case !slices.Contains(settable, path[0]):
		return fmt.Errorf("%s: cannot be set; want a key in %s", key, strings.Join(settable, ", "))
	}
	var value any = text
	var parsed any
	if json.Valid([]byte(text)) && decode([]byte(text), &parsed) == nil {
		value = parsed
	}
	at := doc
	for n, name := range path[:len(path)-1] {
		if name == "extensions" && n+2 < len(path) { // the rest is one name
			path = append(path[:n+1:n+1], strings.Join(path[n+1:], "."))
			at = object(at, name)
			break
		}
		if at = object(at, name); at == nil {
			return fmt.Errorf("%s: %s is no object", key, strings.Join(path[:n+1], "."))
		}
	}
	last := path[len(path)-1]
	if n, isNumber := value.(json.Number); isNumber && (key == "workload.input_tokens" || key == "workload.output_tokens") {
		value = map[string]any{"kind": "fixed", "value": n}
	}
	if _, number := value.(json.Number); number && slices.Contains(textual, last) {
		value = text // a version 0.23 is text
	}
	at[last] = value
	return nil
}

// textual are keys whose values may look like numbers.
var textual = []string{"version", "revision", "name", "build_identifier", "kernel", "driver", "nvidia", "cuda_compiler", "python"}

// object is the object inside another, made where it is not there; nil where
// something else is.
func object(in map[string]any, name string) map[string]any {
	if in == nil {
		return nil
	}
	if in[name] == nil {
		in[name] = map[string]any{}
	}
	out, _ := in[name].(map[string]any)
	return out
}
