package bench

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
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
// written beside it. What was declared and does not fit the schema is left out
// with a warning: the manifest always exists.
func (r *Result) Manifest(result []byte, artifacts []manifest.Artifact) *manifest.Run {
	d := r.document()
	command, _ := d.red.Command(r.Config.Command)
	m := &manifest.Run{
		SchemaVersion: manifest.SchemaVersion,
		Kind:          manifest.KindRun,
		ClientRunID:   manifest.RunID(result, cmp.Or(r.repetition(), 1)),
		Outcome:       r.Outcome,
		Subject:       d.subject,
		Environment:   r.Environment,
		Runtime:       d.runtime(),
		Artifacts:     slices.Clone(artifacts),
		Provenance: manifest.Provenance{
			Tool: harness, Source: "harness", ToolVersion: Version,
			GeneratedAt: r.Start.Add(r.Duration).UTC().Format(time.RFC3339Nano),
		},
	}
	m.Workload = d.workload(m.Runtime.Parameters)
	m.Measurement = d.measurement(cmp.Or(command, harness+" (as a library)"))
	m.Name = d.name(m)
	d.publish(m)
	if r.Outcome == manifest.Completed {
		m.Results = r.results()
	} else {
		m.Measurement.Extensions["servebench.partial"] = r.partial()
	}
	if r.Failure != nil {
		f := *r.Failure
		f.MessageSanitized = d.clean(f.MessageSanitized)
		m.Failure = &f
	}
	for _, w := range slices.Concat(r.Warnings, d.serving.warnings, d.warnings, r.undeclared(), r.unsaid(), r.Config.Declared.Publish.Warnings) {
		if w != "" {
			m.Warnings = append(m.Warnings, d.clean(w))
		}
	}
	d.salvage(m)
	return published(m, d.red)
}

// document is a manifest in the making.
type document struct {
	r        *Result
	red      *manifest.Redactor
	serving  *serving
	subject  manifest.Subject
	warnings []string
}

func (r *Result) document() *document {
	d := &document{r: r, red: r.redactor(), serving: r.Config.served()}
	d.subject = d.describeSubject()
	return d
}

func (d *document) warnf(format string, args ...any) {
	d.warnings = append(d.warnings, fmt.Sprintf(format, args...))
}

func (d *document) clean(s string) string {
	s, _ = d.red.String(s)
	return s
}

// publish fills in what the user decided on.
func (d *document) publish(m *manifest.Run) {
	p := &d.r.Config.Declared.Publish
	m.Visibility, m.License, m.Notes = cmp.Or(p.Visibility, "private"), p.License, d.clean(p.Notes)
	for i := range m.Artifacts {
		a := &m.Artifacts[i]
		a.License = p.License
		if p.ArtifactVisibility != "" {
			a.Visibility = p.ArtifactVisibility
		}
	}
}

// salvage takes out of a manifest what was declared and breaks the schema, a
// whole part at a time.
func (d *document) salvage(m *manifest.Run) {
	data, err := json.Marshal(m)
	if err != nil {
		return // Encode will say it
	}
	report, err := manifest.Profile{}.Check(data)
	if err != nil {
		return
	}
	parts := []struct {
		path string
		drop func()
	}{
		{"/subject", func() { m.Subject = d.undeclaredSubject() }},
		{"/environment", func() { m.Environment = nil }},
		{"/runtime/extensions", func() { m.Runtime.Extensions = nil }},
		{"/runtime/parameters", func() { m.Runtime.Parameters = nil }},
		{"/runtime/launch_command", func() { m.Runtime.LaunchCommand = "" }},
		{"/runtime/safe_environment", func() { m.Runtime.SafeEnvironment = nil }},
		{"/workload/prefix_behavior", func() { m.Workload.PrefixBehavior = nil }},
	}
	for _, part := range parts {
		i := slices.IndexFunc(report.Problems, func(p manifest.Problem) bool {
			return p.Path == part.path || strings.HasPrefix(p.Path, part.path+"/")
		})
		if i >= 0 {
			part.drop()
			p := report.Problems[i]
			m.Warnings = append(m.Warnings, d.clean(fmt.Sprintf("%s is left out, as %s: %s.", part.path[1:], p.Path, p.Message)))
		}
	}
}

// redactor knows what must not leave this machine.
func (r *Result) redactor() *manifest.Redactor { return r.Config.Redactor() }

// describeSubject is what was declared, filled up from the launch command and the
// model's files in the local hub cache; without either only what was asked for.
// The simulator stands in for what was declared.
func (d *document) describeSubject() manifest.Subject {
	r := d.r
	s := d.undeclaredSubject()
	if declared := r.Config.Subject; declared != nil {
		s = d.publicSubject(*declared)
	}
	if !r.Simulated() || r.Config.Subject != nil {
		d.fillSubject(&s)
	}
	if !r.Simulated() {
		return s
	}
	if r.Config.Subject != nil {
		real := s.Identifier
		if s.Revision != "" {
			real += "@" + s.Revision
		}
		s.Modifications = append(slices.Clone(s.Modifications), "The simulator servebench-sim stands in for "+real+".")
	} else {
		s = manifest.Subject{Type: "model"}
	}
	s.Source, s.Identifier, s.RevisionKind = "local", "servebench-sim", "tag"
	s.Revision = cmp.Or(r.Engine.Version, Version)
	return s
}

// undeclaredSubject is the model that was started, or asked for.
func (d *document) undeclaredSubject() manifest.Subject {
	name := publicName(d.red, d.serving.first().Model)
	if name == "" || name == "undeclared" {
		name = cmp.Or(publicName(d.red, d.r.Config.Model), "undeclared")
	}
	return manifest.Subject{Type: "model", Identifier: name, RevisionKind: "undeclared"}
}

// publicSubject is a subject whose prose is redacted; its identifier has the
// schema's form and holds none.
func (d *document) publicSubject(s manifest.Subject) manifest.Subject {
	s.Modifications = slices.Clone(s.Modifications)
	for i, m := range s.Modifications {
		s.Modifications[i] = d.clean(m)
	}
	s.Architecture = d.clean(s.Architecture)
	if s.Quantization != nil {
		q := *s.Quantization
		for _, text := range []*string{&q.Format, &q.Application, &q.Checkpoint, &q.Provider} {
			*text = d.clean(*text)
		}
		s.Quantization = &q
	}
	return s
}

// fillSubject takes the revision that the launch command names or the cache
// holds, and what the model's config.json says.
func (d *document) fillSubject(s *manifest.Subject) {
	launch := d.serving.first()
	if s.Revision == "" && manifest.Identifier(launch.Model) == s.Identifier && launch.Revision != "" {
		d.setRevision(s, launch.Revision)
	}
	for _, c := range d.r.checkpoints {
		if c.name != s.Identifier || c.commit != "" && s.RevisionKind == "commit" && s.Revision != c.commit {
			continue
		}
		if s.RevisionKind != "commit" && c.commit != "" && (s.Revision == "" || s.Revision == c.asked) {
			d.setRevision(s, c.commit)
		}
		s.Architecture = cmp.Or(s.Architecture, c.architecture)
		if s.Quantization == nil && c.format != "" {
			s.Quantization = &manifest.Quantization{Format: c.format}
		}
		if s.Quantization != nil && s.Quantization.Checkpoint == "" && c.quantMethod != "" {
			q := *s.Quantization
			q.Checkpoint = c.quantMethod
			s.Quantization = &q
		}
	}
}

func (d *document) setRevision(s *manifest.Subject, revision string) {
	s.Source, s.Revision, s.RevisionKind = cmp.Or(s.Source, "huggingface"), d.clean(revision), "tag"
	if commitForm.MatchString(revision) {
		s.RevisionKind = "commit"
	}
}

// undeclared warns of what is missing before publication.
func (r *Result) undeclared() []string {
	if r.Simulated() || r.Config.Subject != nil {
		return nil
	}
	return []string{"The subject was not declared (--subject FILE): parameter counts and modifications are unknown, and of revision and quantization no more than is given here."}
}

// unsaid warns of what the schema cannot say.
func (r *Result) unsaid() []string {
	if !r.pools() {
		return nil
	}
	return []string{"Nothing was generated: workload.output_tokens is 1 as the schema has no 0, and the output rates of 0 are no measurement."}
}

// name is the title: the user's template, or one of ours.
func (d *document) name(m *manifest.Run) string {
	r := d.r
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
	if t := r.Config.Declared.Publish.Name; t != "" {
		name = cmp.Or(d.clean(d.fromTemplate(t, m)), name)
	}
	if r.Simulated() {
		const mark = " | simulated"
		runes := []rune(name)
		return string(runes[:min(len(runes), maxName-len(mark))]) + mark
	}
	runes := []rune(name)
	return string(runes[:min(len(runes), maxName)])
}

// maxName is the schema's limit in characters.
const maxName = 200

var placeholders = regexp.MustCompile(`\{[A-Za-z_][A-Za-z0-9_.-]*\}`)

// fromTemplate fills {name} in. Of the simulator the subject is the one it stands
// in for, as the name says that it is simulated.
func (d *document) fromTemplate(template string, m *manifest.Run) string {
	c := &d.r.Config
	identifier := m.Subject.Identifier
	if c.Subject != nil {
		identifier = c.Subject.Identifier
	}
	values := map[string]string{
		"subject.identifier": identifier, "concurrency": fmt.Sprint(m.Workload.Concurrency), "rate": c.Rate.String(),
		"input": short(m.Workload.InputTokens), "output": short(m.Workload.OutputTokens),
	}
	maps.Copy(values, c.Declared.Labels)
	return placeholders.ReplaceAllStringFunc(template, func(p string) string {
		v, ok := values[p[1:len(p)-1]]
		if !ok {
			d.warnf("The name's template has %s, which is no label; known are %s.", p, strings.Join(slices.Sorted(maps.Keys(values)), ", "))
			return p
		}
		return v
	})
}

func short(c manifest.TokenCount) string {
	if c.Kind == "fixed" {
		return fmt.Sprint(c.Value)
	}
	return fmt.Sprintf("%d-%d", c.Min, c.Max)
}

func ptr[T any](v T) *T { return &v }

func (d *document) workload(p *manifest.Parameters) manifest.Workload {
	r, c := d.r, &d.r.Config
	w := manifest.Workload{
		Mode: "online", Task: r.task(),
		Client: manifest.Client{
			Name: harness, Backend: strings.ReplaceAll(c.Backend, "-", "_"), Version: Version,
		},
		Dataset:            d.dataset(),
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
	w.Tokenizer = d.tokenizer()
	w.Concurrency = c.MaxConcurrency
	switch w.ArrivalProcess {
	case "closed_loop":
		w.Concurrency = cmp.Or(w.Concurrency, w.RequestCount)
	case "poisson", "gamma", "constant":
		w.RequestRatePerSecond = ptr(float64(c.Rate))
	}
	w.InputTokens, w.OutputTokens = r.lengths()
	r.setRequested(w.Extensions)
	w.PrefixBehavior = d.prefixBehavior(p)
	if v := d.fits("label profile_id", c.Declared.Labels["profile_id"], variantForm); v != "" {
		w.Extensions["runpile.profile_id"] = v
	}
	return w
}

// tokenizer is the one that prompts were made and counted with: a local one, or
// the server's own, which is that of the model it serves. Of the subject's own,
// known by its name, the revision is the subject's.
func (d *document) tokenizer() *manifest.Tokenizer {
	r, launch := d.r, d.serving.first()
	t := &manifest.Tokenizer{}
	switch {
	case r.Plan.Tokenizer != nil:
		t.Identifier, t.Revision = manifest.Identifier(r.Plan.Tokenizer.Identifier), r.Plan.Tokenizer.Revision
	case r.Plan.Counted != "server":
		return nil
	case r.Simulated():
		// Its tokenizer is a piece of its code. It has no commit of its own, and
		// what is published wants one: the version's digest stands for it.
		sum := sha256.Sum256([]byte("servebench-sim " + r.Engine.Version))
		return &manifest.Tokenizer{Identifier: "servebench-sim", Revision: hex.EncodeToString(sum[:20])}
	case launch.Tokenizer != "" && launch.Tokenizer != launch.Model:
		t.Identifier = publicName(d.red, launch.Tokenizer)
	case r.Config.Subject != nil || len(d.serving.engines) > 0:
		t.Identifier = d.subject.Identifier
	}
	if t.Identifier == "" || t.Identifier == "undeclared" {
		return nil
	}
	own := d.subject
	if r.Simulated() && r.Config.Subject != nil {
		own = *r.Config.Subject
	}
	if t.Revision == "" && t.Identifier == own.Identifier && own.RevisionKind == "commit" {
		t.Revision = own.Revision
	}
	return t
}

// prefixBehavior is what was declared, and what is known of the prompts and of
// the server.
func (d *document) prefixBehavior(parameters *manifest.Parameters) *manifest.PrefixBehavior {
	c := &d.r.Config
	p := manifest.PrefixBehavior{}
	if declared := c.Declared.PrefixBehavior; declared != nil {
		p = *declared
	}
	if c.Dataset.Name == "random" {
		p.SharedPrefixTokens = ptr(int64(c.Dataset.PrefixLen))
	}
	if parameters != nil {
		if v, ok := parameters.Server["prefix_caching"].(bool); ok {
			p.CacheEnabled, p.ServerPrefixCaching = &v, nil
		}
	}
	if p == (manifest.PrefixBehavior{}) {
		return nil
	}
	return &p
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

func (doc *document) dataset() manifest.Dataset {
	r := doc.r
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
	if info, ok := debug.ReadBuildInfo(); ok && *d.Synthetic {
		d.GeneratorRevision = sourceCommit(info)
	}
	d.License = doc.fits("dataset_license", r.Config.Declared.Publish.DatasetLicense, licenseForm)
	return d
}

// sourceCommit is the commit that this program was built from: what made the
// prompts. It is "" where the build does not say, or the source was changed.
func sourceCommit(info *debug.BuildInfo) (commit string) {
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.modified" && s.Value != "false":
			return ""
		case s.Key == "vcs.revision" && commitForm.MatchString(s.Value):
			commit = s.Value
		}
	}
	return commit
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

func (d *document) measurement(command string) manifest.Measurement {
	r, c := d.r, &d.r.Config
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
		Extensions:             d.extensions(),
	}
}

// extensions are the facts of the measurement that the schema has no field for.
func (d *document) extensions() map[string]any {
	r, c, s := d.r, &d.r.Config, d.r.Summary
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
	if r.Simulated() {
		ext["servebench.simulated"] = true
	}
	if f := c.Selftest; f != nil {
		ext["servebench.selftest"] = f
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
	switch {
	case r.Environment == nil:
	case c.Declared.Environment != nil:
		ext["servebench.environment_source"] = "declared by the user"
	case r.probed:
		// Behind a tunnel it would be another machine's, which nobody can see.
		ext["servebench.environment_source"] = "the client's host, since the target is a loopback address"
	}
	d.labels(ext)
	if text := c.RunFile; len(text) > 0 {
		var file any
		if err := json.Unmarshal(text, &file); err == nil {
			ext["servebench.run_file"] = d.red.Value(file)
		} else {
			d.warnf("The run file is left out: %v.", err)
		}
	}
	if sp := r.Speculation; sp != nil && sp.Length() >= 1 {
		ext["runpile.speculative_accept_length"] = sp.Length()
	}
	r.setAccounting(func(key string, value any) { ext["servebench."+key] = value })
	r.setWatched(ext)
	r.setSure(ext)
	if o := r.serverTiming(basePercentiles); o != nil {
		ext["servebench.server_timing"] = o
	}
	for _, m := range r.OwnMetrics() {
		ext["servebench."+m.Key] = distJSON(m.Dist, basePercentiles)
	}
	return ext
}

// repetition is the number that the label repetition_index gives this run among
// its like, from 1; 0 without one.
func (r *Result) repetition() int {
	n, err := strconv.Atoi(r.Config.Declared.Labels["repetition_index"])
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// labels writes what the run is labelled with; variant and profile_id have places
// of their own.
func (d *document) labels(ext map[string]any) {
	rest := map[string]any{}
	for key, value := range d.r.Config.Declared.Labels {
		switch key {
		case "variant", "profile_id":
		case "repetition_index":
			if n := d.r.repetition(); n >= 1 {
				ext["runpile.independent_repetition_index"] = n
				continue
			}
			d.warnf("The label repetition_index %q is no number from 1.", value)
		default:
			rest[key] = value
		}
	}
	if len(rest) > 0 {
		ext["servebench.labels"] = d.red.Value(rest)
	}
}

// plain is v as encoding/json decodes it.
func plain(v any) any {
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		return nil
	}
	return out
}

var basePercentiles = []float64{50, 90, 95, 99}

// stamped tells whether arrivals are the kernel's receive times.
func (r *Result) stamped() bool {
	return !r.Config.Target.NoKernelStamps && r.Summary.KernelStamps()
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
	c.Subject, c.Extra, c.Metadata, c.Label, c.RequestIDPrefix = nil, nil, nil, "", ""
	c.Declared, c.Replicas = Declared{}, nil // the environments of Launch may hold keys
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
