package sweep

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/servebench/servebench/manifest"
)

// point is the run of the manifest that a point is.
func (d *document) point(p *Point) (manifest.ExperimentRun, error) {
	o := d.outcomes[p.ID]
	if o == nil {
		o = &Outcome{PointID: p.ID, Status: manifest.Interrupted}
	}
	run := manifest.ExperimentRun{
		Name: clipped(cmp.Or(p.Name, p.ID)), ClientRunID: d.id(p.ID), Status: o.Status,
		Relation: manifest.Relation{Type: "sweep_point", Group: d.group(p.Group)},
		Warnings: []string{},
	}
	if p.Screening {
		run.Relation.Type = "other"
	}
	d.describe(&run, p, o)
	for i := range o.Trials {
		run.Artifacts = append(run.Artifacts, d.artifacts(&run, p, &o.Trials[i], i, len(o.Trials))...)
	}
	if len(o.Attempts) > 0 {
		if d.attempts == nil {
			d.attempts = map[string]any{}
		}
		d.attempts[run.ClientRunID] = o.Attempts
	}
	var err error
	switch o.Status {
	case manifest.Completed:
		err = d.completed(&run, o)
	case manifest.Failed:
		run.Failure = failure(o)
	case manifest.Interrupted:
		d.interrupted(&run, o)
	default:
		err = fmt.Errorf("the outcome's status is %q; want completed, failed or interrupted", o.Status)
	}
	if err != nil {
		return run, fmt.Errorf("point %q: %w", p.ID, err)
	}
	run.Warnings = append(run.Warnings, warnings(o)...)
	if len(run.Warnings) == 0 && o.Status != manifest.Completed {
		run.Warnings = nil
	}
	return run, nil
}

// warnings are those of the outcome and of its trials, each once. That of an
// interruption has better words here.
func warnings(o *Outcome) (all []string) {
	all = slices.Clone(o.Warnings)
	for _, t := range o.Trials {
		if t.Manifest != nil {
			all = append(all, t.Manifest.Warnings...)
		}
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(w string) bool {
		drop := seen[w] || w == "" || o.Status == manifest.Interrupted && strings.HasPrefix(w, "Interrupted after ")
		seen[w] = true
		return drop
	})
}

// describe says what was run on what, from the manifest of a trial, a completed
// one where there is one; without any, what the configuration says.
func (d *document) describe(run *manifest.ExperimentRun, p *Point, o *Outcome) {
	var m *manifest.Run
	for i := range o.Trials {
		t := &o.Trials[i]
		if t.Manifest == nil {
			continue
		}
		d.described = append(d.described, t.Manifest)
		if m == nil || m.Outcome != manifest.Completed {
			m = t.Manifest
		}
	}
	if m == nil {
		m = planned(p)
	}
	run.Subject, run.Runtime = subject(m), runtime(m)
	run.Workload = workload(m)
	run.Environment = d.environment(m, p)
}

// planned is what a configuration alone says of a run.
func planned(p *Point) *manifest.Run {
	c := &p.Config
	m := &manifest.Run{Runtime: manifest.Runtime{Engine: "unknown"}, Environment: c.Declared.Environment}
	if c.Subject != nil {
		m.Subject = *c.Subject
	} else {
		m.Subject = manifest.Subject{Type: "model", Identifier: cmp.Or(manifest.Identifier(c.Model), "undeclared"), RevisionKind: "undeclared"}
	}
	m.Workload = manifest.Workload{Mode: "online", Task: "text_generation", Concurrency: c.MaxConcurrency, RequestCount: c.Dataset.Prompts}
	if s := &c.Dataset; s.Name == "random" && s.RangeRatio.Input == 0 && s.RangeRatio.Output == 0 && s.InputLen > 0 && s.OutputLen > 0 {
		m.Workload.InputTokens = manifest.TokenCount{Kind: "fixed", Value: int64(s.InputLen + s.PrefixLen)}
		m.Workload.OutputTokens = manifest.TokenCount{Kind: "fixed", Value: int64(s.OutputLen)}
	}
	return m
}

// artifacts are a trial's files as the experiment has them.
func (d *document) artifacts(run *manifest.ExperimentRun, p *Point, t *Trial, i, of int) []manifest.Artifact {
	out := []manifest.Artifact{}
	for _, a := range t.Artifacts {
		if clean, changed := d.w.Redactor.String(a.Filename); len(changed) > 0 || clean != a.Filename {
			run.Warnings = append(run.Warnings, "A file is no artifact here: its name holds what must not be published.")
			continue
		}
		a.RunClientID = run.ClientRunID
		a.License = cmp.Or(a.License, d.e.About.License)
		a.Visibility = cmp.Or(a.Visibility, p.Config.Declared.Publish.ArtifactVisibility, "private")
		if a.Kind == "vllm_bench_serve_json" { // the references' name in kind experiment, as is RUN-raw
			a.Kind = "benchmark_result_json"
		}
		if prefix := run.ClientRunID + "-"; !strings.HasPrefix(a.ClientArtifactID, prefix) {
			if of > 1 {
				prefix += fmt.Sprintf("trial-%d-", i+1)
			}
			a.ClientArtifactID = prefix + a.ClientArtifactID
		}
		if stem, ok := strings.CutSuffix(a.ClientArtifactID, "-result"); ok && a.Kind == "benchmark_result_json" {
			a.ClientArtifactID = stem + "-raw"
		}
		for base, n := a.ClientArtifactID, 2; d.artifactIDs[a.ClientArtifactID]; n++ {
			a.ClientArtifactID = fmt.Sprintf("%s-%d", base, n)
		}
		d.artifactIDs[a.ClientArtifactID] = true
		out = append(out, a)
	}
	return out
}

// pool is what completed trials of one run add up to.
type pool struct {
	seconds                   float64
	ok, failed, input, output int64
	inputTokens, outputTokens manifest.TokenCount
	started, ended            time.Time
	requests, trials          int
}

func (s *pool) add(t *Trial) {
	r, w := t.Manifest.Results, &t.Manifest.Workload
	start := t.StartedAt.UTC().Truncate(time.Millisecond)
	end := start.Add(milliseconds(r.DurationSeconds))
	if s.trials == 0 {
		s.inputTokens, s.outputTokens, s.started, s.ended = w.InputTokens, w.OutputTokens, start, end
	} else {
		s.inputTokens = pooled(s.inputTokens, w.InputTokens, s.input+r.TotalInputTokens, s.ok+r.SuccessfulRequests)
		s.outputTokens = pooled(s.outputTokens, w.OutputTokens, s.output+r.TotalOutputTokens, s.ok+r.SuccessfulRequests)
	}
	if start.Before(s.started) {
		s.started = start
	}
	if end.After(s.ended) {
		s.ended = end
	}
	s.trials++
	s.seconds += r.DurationSeconds
	s.ok, s.failed = s.ok+r.SuccessfulRequests, s.failed+r.FailedRequests
	s.input, s.output = s.input+r.TotalInputTokens, s.output+r.TotalOutputTokens
	s.requests += w.RequestCount
}

// milliseconds is a duration as the times of a run show it: rule X7.
func milliseconds(seconds float64) time.Duration {
	return time.Duration(math.Floor(seconds*1000)) * time.Millisecond
}

// pooled is the distribution of two distributions' lengths, which are total tokens
// in n requests.
func pooled(a, b manifest.TokenCount, total, n int64) manifest.TokenCount {
	if a == b && a.Kind == "fixed" || n == 0 {
		return a
	}
	bounds := func(c manifest.TokenCount) (lo, hi int64) {
		if c.Kind == "fixed" {
			return c.Value, c.Value
		}
		return c.Min, c.Max
	}
	aLo, aHi := bounds(a)
	bLo, bHi := bounds(b)
	return manifest.TokenCount{Kind: "empirical", Min: min(aLo, bLo), Max: max(aHi, bHi), Mean: max(float64(total)/float64(n), math.SmallestNonzeroFloat64)}
}

// completed writes trials, results and times. The arithmetic is that of rules X1
// to X8: a count over a duration in float64, and a rate times a length where all
// lengths are equal.
func (d *document) completed(run *manifest.ExperimentRun, o *Outcome) error {
	var s pool
	for i := range o.Trials {
		t := &o.Trials[i]
		if t.Status != manifest.Completed || t.Manifest == nil || t.Manifest.Results == nil || !(t.Manifest.Results.DurationSeconds > 0) {
			run.Warnings = append(run.Warnings, fmt.Sprintf("Trial %d of %d is %s and in none of the numbers; trials are counted without it.", i+1, len(o.Trials), cmp.Or(t.Status, "unknown")))
			continue
		}
		s.add(t)
		r := t.Manifest.Results
		own := slices.DeleteFunc(slices.Clone(run.Artifacts), func(a manifest.Artifact) bool {
			return !slices.ContainsFunc(t.Artifacts, func(b manifest.Artifact) bool { return a.SHA256 == b.SHA256 && a.Filename == b.Filename })
		})
		run.Trials = append(run.Trials, manifest.Trial{
			Status: manifest.Completed, ClientTrialID: fmt.Sprintf("%s-trial-%d", run.ClientRunID, s.trials), DurationSeconds: r.DurationSeconds,
			Results:   manifest.TrialResults{RequestsPerSecond: measured("req/s", float64(r.SuccessfulRequests)/r.DurationSeconds)},
			Artifacts: own,
		})
	}
	if s.trials == 0 {
		return fmt.Errorf("completed, but of its %s none has results", count(len(o.Trials), "trial"))
	}
	if s.trials == 1 {
		run.Trials[0].Artifacts = run.Artifacts // rule X6, and another trial's have no other place
	} else {
		d.pool(run, o, &s)
	}
	rate := float64(s.ok) / s.seconds
	run.DurationSeconds = s.seconds
	run.StartedAt = stamp(s.started)
	if least := s.started.Add(milliseconds(s.seconds)); s.ended.Before(least) {
		s.ended = least
	}
	run.EndedAt = stamp(s.ended)
	run.Results = &manifest.ExperimentResults{
		TotalTokens: s.total(run.ClientRunID), FailedRequests: &s.failed, SuccessfulRequests: &s.ok,
		DurationSeconds: measured("s", s.seconds), RequestsPerSecond: measured("req/s", rate),
		InputTokensPerS: s.flow(rate, s.inputTokens, s.input), OutputTokensPerS: s.flow(rate, s.outputTokens, s.output),
	}
	return nil
}

// pool makes the workload of several trials the one that the numbers are of.
func (d *document) pool(run *manifest.ExperimentRun, o *Outcome, s *pool) {
	run.Workload["request_count"] = s.requests
	run.Workload["input_tokens"], run.Workload["output_tokens"] = object(s.inputTokens), object(s.outputTokens)
	run.Warnings = append(run.Warnings, fmt.Sprintf("%d trials are pooled: counts and durations are sums over them, the rate is their quotient, request_count is that of all; from the first start to the last end there are pauses.", s.trials))
	first := ""
	for _, t := range o.Trials {
		if t.Manifest == nil || t.Manifest.Workload.Dataset.SHA256 == "" {
			continue
		}
		if sum := t.Manifest.Workload.Dataset.SHA256; first == "" {
			first = sum
		} else if sum != first {
			if set, ok := run.Workload["dataset"].(map[string]any); ok {
				delete(set, "sha256")
			}
			run.Warnings = append(run.Warnings, "The trials had different prompts; each trial's own manifest has their sha256.")
			return
		}
	}
}

// stamp is a time as the references write it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

func measured(unit string, value float64) *manifest.Metric {
	return &manifest.Metric{Unit: unit, Value: value, MeasurementStatus: "measured"}
}

// flow is tokens per second.
func (s *pool) flow(rate float64, c manifest.TokenCount, total int64) *manifest.Metric {
	if c.Kind == "fixed" && total == s.ok*c.Value {
		return measured("tok/s", rate*float64(c.Value))
	}
	return measured("tok/s", float64(total)/s.seconds)
}

// total is the sum of all tokens, derived from the run itself.
func (s *pool) total(id string) *manifest.Metric {
	m := &manifest.Metric{Unit: "tokens", Value: float64(s.input + s.output), InputRunIDs: []string{id}, MeasurementStatus: "derived"}
	m.Derivation = "total_input_tokens + total_output_tokens of the successful requests"
	if s.inputTokens.Kind == "fixed" && s.outputTokens.Kind == "fixed" && s.input == s.ok*s.inputTokens.Value && s.output == s.ok*s.outputTokens.Value {
		m.Derivation = "successful_requests × (fixed_input_tokens + fixed_output_tokens)"
	}
	return m
}

// failure is why a point failed.
func failure(o *Outcome) *manifest.Failure {
	f := manifest.Failure{Stage: "timed_run", Category: "other", MessageSanitized: "The run failed."}
	if o.Failure != nil {
		f = *o.Failure
	} else {
		for _, t := range o.Trials {
			if t.Manifest != nil && t.Manifest.Failure != nil {
				f = *t.Manifest.Failure
			}
		}
	}
	f.MessageSanitized = cmp.Or(f.MessageSanitized, "The run failed without a message.")
	return &f
}

// interrupted says how far a point came, as the references do, and keeps what
// there is of it.
func (d *document) interrupted(run *manifest.ExperimentRun, o *Outcome) {
	const excluded = "; excluded from completed-run rankings."
	if len(o.Trials) == 0 {
		run.Warnings = append(run.Warnings, "Not run: the experiment ended before it"+excluded)
		return
	}
	said := "Interrupted before the first timed request" + excluded
	for i, t := range o.Trials {
		if t.Manifest == nil || t.Status == manifest.Completed {
			continue
		}
		raw, err := json.Marshal(t.Manifest.Measurement.Extensions["servebench.partial"])
		var p struct {
			Requests   int64 `json:"requests"`
			Successful int64 `json:"successful_requests"`
		}
		if err != nil || json.Unmarshal(raw, &p) != nil || p.Requests == 0 {
			continue
		}
		said = fmt.Sprintf("Interrupted after %d of %d requests%s", p.Successful, p.Requests, excluded)
		if len(o.Trials) > 1 {
			said = fmt.Sprintf("Interrupted in trial %d after %d of %d requests%s", i+1, p.Successful, p.Requests, excluded)
		}
		if d.partial == nil {
			d.partial = map[string]any{}
		}
		d.partial[run.ClientRunID] = json.RawMessage(raw)
	}
	run.Warnings = append(run.Warnings, said)
}

// replacements resolves what stands in the place of failed points.
func (d *document) replacements() {
	for i := range d.e.Points {
		p := &d.e.Points[i]
		run := d.runs[p.ID]
		if run.Failure == nil || p.OnFailure.Replacement == "" {
			continue
		}
		if by := d.replacement(i); by != nil && by.Status == manifest.Completed {
			run.Failure.ReplacementClientRunID = by.ClientRunID
		} else {
			run.Warnings = append(run.Warnings, fmt.Sprintf("No completed run replaces this one (on_failure.replacement is %s).", p.OnFailure.Replacement))
		}
	}
}

func (d *document) replacement(i int) *manifest.ExperimentRun {
	p := &d.e.Points[i]
	if p.OnFailure.Replacement != previousCompleted {
		return d.runs[p.OnFailure.Replacement]
	}
	for _, before := range slices.Backward(d.e.Points[:i]) {
		if run := d.runs[before.ID]; before.Group == p.Group && run.Status == manifest.Completed {
			return run
		}
	}
	return nil
}

// clipped fits the schema, in which a name has 1 to 200 characters.
func clipped(name string) string {
	if runes := []rune(name); len(runes) > 200 {
		return string(runes[:200])
	}
	return cmp.Or(name, "run")
}

// group is a group's name as it may be published.
func (d *document) group(name string) string {
	clean, _ := d.w.Redactor.String(name)
	return group(clean)
}

// group is a name as the schema wants it: words in lower case with _ between them.
func group(name string) string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r >= 0x80 || !isAlnum(byte(r)) })
	out := strings.Join(words, "_")
	if out == "" || out[0] >= '0' && out[0] <= '9' {
		out = strings.TrimSuffix("group_"+out, "_")
	}
	return out
}
