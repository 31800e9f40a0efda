package manifest

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"
)

// experiment is what the rules read of a manifest of kind experiment.
type experiment struct {
	Shared struct {
		Workload    experimentWorkload
		Environment *Environment
	}
	Runs      []experimentRun
	Artifacts []Artifact
}

type experimentRun struct {
	ClientRunID     string `json:"client_run_id"`
	Status          string
	Failure         *Failure
	Trials          []Trial
	Results         *ExperimentResults
	StartedAt       *time.Time `json:"started_at"`
	EndedAt         *time.Time `json:"ended_at"`
	DurationSeconds *float64   `json:"duration_seconds"`
	Relation        Relation
	Workload        experimentWorkload
	Artifacts       []Artifact
	Environment     *Environment
	Subject         Subject
	Runtime         struct {
		Parameters       map[string]map[string]any
		Parallelism      *Parallelism
		CommandSanitized string `json:"command_sanitized"`
	}
}

// experimentWorkload is a [Workload] of which a run may leave out what all runs
// share.
type experimentWorkload struct {
	Task           string
	Concurrency    int
	RequestCount   *int64          `json:"request_count"`
	InputTokens    TokenCount      `json:"input_tokens"`
	OutputTokens   TokenCount      `json:"output_tokens"`
	PrefixBehavior *PrefixBehavior `json:"prefix_behavior"`
	Dataset        Dataset
}

// aggregate reports whether a run was not timed but computed from others.
func (r *experimentRun) aggregate() bool { return r.Relation.Type == "aggregate" }

// experimentVerifier holds what several rules of kind experiment need.
type experimentVerifier struct {
	verifier
	doc  *experiment
	runs map[string]*experimentRun // by id
}

// verifyExperiment checks the X rules. Their number is that of arithmetic.md.
func verifyExperiment(bare []byte, files fs.FS) []Finding {
	var doc experiment
	if err := json.Unmarshal(bare, &doc); err != nil {
		return []Finding{{"schema", Fail, "/", err.Error()}}
	}
	v := &experimentVerifier{doc: &doc, runs: make(map[string]*experimentRun)}
	for i := range doc.Runs {
		r := &doc.Runs[i]
		if v.runs[r.ClientRunID] != nil {
			v.fail("X0", fmt.Sprintf("/runs/%d/client_run_id", i), "%q is another run's id too", r.ClientRunID)
		}
		v.runs[r.ClientRunID] = r
	}
	for i := range doc.Runs {
		at := fmt.Sprintf("/runs/%d", i)
		v.runNumbers(at, &doc.Runs[i])
		v.runTrials(at, &doc.Runs[i])
		v.runTimes(at, &doc.Runs[i])
		v.runAggregate(at, &doc.Runs[i])
		v.runCommand(at, &doc.Runs[i])
		v.runReferences(at, &doc.Runs[i])
		v.runFacts(at, &doc.Runs[i])
	}
	if env := doc.Shared.Environment; env != nil {
		v.under("/shared", func() { v.host(env) })
	}
	v.overlaps()
	v.measuredTwice()
	v.prompts()
	v.experimentArtifacts(files)
	v.runManifests(files)
	return v.found
}

// under puts a prefix before the paths of what f finds.
func (v *experimentVerifier) under(prefix string, f func()) {
	from := len(v.found)
	f()
	for i := from; i < len(v.found); i++ {
		v.found[i].Path = prefix + v.found[i].Path
	}
}

// workload is a run's own, where that says something, else the shared one.
func (v *experimentVerifier) workload(r *experimentRun) experimentWorkload {
	w, shared := r.Workload, v.doc.Shared.Workload
	if w.RequestCount == nil {
		w.RequestCount = shared.RequestCount
	}
	if w.InputTokens.Kind == "" {
		w.InputTokens = shared.InputTokens
	}
	if w.OutputTokens.Kind == "" {
		w.OutputTokens = shared.OutputTokens
	}
	return w
}

// perRequest is the mean length of a request in tokens, where one was stated.
func (c TokenCount) perRequest() (float64, bool) {
	switch c.Kind {
	case "fixed":
		return float64(c.Value), true
	case "empirical":
		return c.Mean, true
	}
	return 0, false
}

// same compares two ways to compute one number: up to the rounding of two
// divisions, or of a mean where the lengths are counted ones.
func (c TokenCount) same(a, b float64) bool {
	return ulps(a, b) <= 2 || c.Kind == "empirical" && about(a, b)
}

// runNumbers checks X1 to X5 and X8.
func (v *experimentVerifier) runNumbers(at string, r *experimentRun) {
	res, w := r.Results, v.workload(r)
	if res == nil || res.RequestsPerSecond == nil {
		return
	}
	rate := res.RequestsPerSecond
	ok := w.RequestCount
	if res.SuccessfulRequests != nil {
		ok = res.SuccessfulRequests
	}
	if d := r.DurationSeconds; ok != nil && d != nil && !rate.derived() {
		if want := float64(*ok) / *d; ulps(rate.Value, want) > 1 {
			v.fail("X1", at+"/results/requests_per_second/value", "%v is not %d / %v s = %v", rate.Value, *ok, *d, want)
		}
	}
	flow := func(rule, name string, m *Metric, c TokenCount) {
		if each, known := c.perRequest(); m != nil && known && !c.same(m.Value, rate.Value*each) {
			v.fail(rule, at+"/results/"+name+"/value", "%v is not %v req/s x %v tokens = %v", m.Value, rate.Value, each, rate.Value*each)
		}
	}
	flow("X2", "input_tokens_per_second", res.InputTokensPerS, w.InputTokens)
	if w.Task != "" && w.Task != "text_generation" {
		w.OutputTokens = TokenCount{} // nothing is generated, and the schema has no length of 0
	}
	flow("X3", "output_tokens_per_second", res.OutputTokensPerS, w.OutputTokens)
	in, inKnown := w.InputTokens.perRequest()
	out, outKnown := w.OutputTokens.perRequest()
	if t := res.TotalTokens; t != nil && res.SuccessfulRequests != nil && inKnown && outKnown {
		n := float64(*res.SuccessfulRequests)
		if want := n * (in + out); t.Value != want && (w.InputTokens.Kind == "fixed" && w.OutputTokens.Kind == "fixed" || !about(t.Value, want)) {
			v.fail("X4", at+"/results/total_tokens/value", "%v is not %v requests x (%v + %v) tokens = %v", t.Value, n, in, out, want)
		}
	}
	if res.SuccessfulRequests != nil && res.FailedRequests != nil && w.RequestCount != nil && *res.SuccessfulRequests+*res.FailedRequests != *w.RequestCount {
		v.fail("X5", at+"/results/successful_requests", "%d successful + %d failed requests are not the %d of workload.request_count",
			*res.SuccessfulRequests, *res.FailedRequests, *w.RequestCount)
	}
	if t := res.TotalTokens; t.derived() && !r.aggregate() && !slices.Equal(t.InputRunIDs, []string{r.ClientRunID}) {
		v.fail("X8", at+"/results/total_tokens/input_run_ids", "%q; want the run's own id %q alone", t.InputRunIDs, r.ClientRunID)
	}
}

// runTrials checks X6. What several trials add up to is no rule: nobody has
// published any.
func (v *experimentVerifier) runTrials(at string, r *experimentRun) {
	for i, t := range r.Trials {
		if want := fmt.Sprintf("%s-trial-%d", r.ClientRunID, i+1); t.ClientTrialID != want {
			v.fail("X6", fmt.Sprintf("%s/trials/%d/client_trial_id", at, i), "%q; want %q", t.ClientTrialID, want)
		}
	}
	d := r.DurationSeconds
	if d != nil && r.Results != nil && r.Results.DurationSeconds != nil && r.Results.DurationSeconds.Value != *d {
		v.fail("X6", at+"/results/duration_seconds/value", "%v, but the run took %v s", r.Results.DurationSeconds.Value, *d)
	}
	if len(r.Trials) != 1 {
		return
	}
	t, trialAt := r.Trials[0], at+"/trials/0"
	if d != nil && t.DurationSeconds != *d {
		v.fail("X6", trialAt+"/duration_seconds", "%v, but the run took %v s", t.DurationSeconds, *d)
	}
	if one, all := t.Results.RequestsPerSecond, r.Results; one != nil && all != nil && all.RequestsPerSecond != nil && one.Value != all.RequestsPerSecond.Value {
		v.fail("X6", trialAt+"/results/requests_per_second/value", "%v, but the run's rate is %v", one.Value, all.RequestsPerSecond.Value)
	}
	if !slices.Equal(t.Artifacts, r.Artifacts) {
		v.fail("X6", trialAt+"/artifacts", "not the run's artifacts, though it is the only trial")
	}
}

// runTimes checks X7 and X15. An aggregate was never timed, and several trials
// have pauses between them.
func (v *experimentVerifier) runTimes(at string, r *experimentRun) {
	if r.Status != Completed {
		if r.Results != nil || len(r.Trials) > 0 || r.StartedAt != nil || r.EndedAt != nil || r.DurationSeconds != nil {
			v.fail("X15", at, "%s, but it has results, trials or times", r.Status)
		}
		return
	}
	if r.StartedAt == nil || r.EndedAt == nil || r.DurationSeconds == nil || r.aggregate() {
		return
	}
	took, want := r.EndedAt.Sub(*r.StartedAt).Milliseconds(), int64(math.Floor(*r.DurationSeconds*1000))
	if took != want && (len(r.Trials) <= 1 || took < want) {
		v.fail("X7", at+"/ended_at", "%d ms after started_at, but duration_seconds %v are %d ms", took, *r.DurationSeconds, want)
	}
}

// runAggregate checks X9 and X10: what was computed from other runs is what
// they give, in the order in which they are named.
func (v *experimentVerifier) runAggregate(at string, r *experimentRun) {
	if r.Results == nil || !r.Results.RequestsPerSecond.derived() {
		return
	}
	var sum, longest float64
	var requests int64
	var start, end *time.Time
	rate := r.Results.RequestsPerSecond
	for _, id := range rate.InputRunIDs {
		in := v.runs[id]
		if in == nil || in.Results == nil || in.Results.RequestsPerSecond == nil {
			return // X14, or nothing to sum
		}
		sum += in.Results.RequestsPerSecond.Value
		longest = max(longest, deref(in.DurationSeconds))
		requests += deref(v.workload(in).RequestCount)
		if t := in.StartedAt; t != nil && (start == nil || t.Before(*start)) {
			start = t
		}
		if t := in.EndedAt; t != nil && (end == nil || t.After(*end)) {
			end = t
		}
	}
	if len(rate.InputRunIDs) == 0 || slices.Equal(rate.InputRunIDs, []string{r.ClientRunID}) {
		return
	}
	if ulps(rate.Value, sum) > 1 {
		v.fail("X9", at+"/results/requests_per_second/value", "%v is not the sum of %s, which is %v", rate.Value, strings.Join(rate.InputRunIDs, ", "), sum)
	}
	if n := r.Workload.RequestCount; n != nil && *n != requests {
		v.warn("X10", at+"/workload/request_count", "%d, but the runs that were added have %d", *n, requests)
	}
	if d := r.DurationSeconds; d != nil && *d != longest {
		v.warn("X10", at+"/duration_seconds", "%v, but the longest run that was added took %v", *d, longest)
	}
	timed := start != nil && end != nil && r.StartedAt != nil && r.EndedAt != nil
	if timed && (!r.StartedAt.Equal(*start) || !r.EndedAt.Equal(*end)) {
		v.warn("X10", at+"/started_at", "the runs that were added lasted from %s to %s", start.Format(time.RFC3339Nano), end.Format(time.RFC3339Nano))
	}
}

// runCommand checks X13, and of the rules of kind run those about facts that a
// run of an experiment states twice: C7, C11, C12.
func (v *experimentVerifier) runCommand(at string, r *experimentRun) {
	sub := verifier{server: map[string]any{}, run: &Run{Subject: r.Subject}}
	for name, parameters := range sorted(r.Runtime.Parameters) {
		from := len(sub.found)
		sub.server = parameters
		for _, c := range engineCommands(r.Runtime.CommandSanitized) {
			sub.launchParameters(c)
			if given, ok := launched(c, "kv-cache-dtype"); ok && r.Subject.Quantization != nil && r.Subject.Quantization.KVCacheDtype != "" && given != r.Subject.Quantization.KVCacheDtype {
				sub.fail("C1", "/subject/quantization/kv_cache_dtype", "%s, but the command has --kv-cache-dtype %s", r.Subject.Quantization.KVCacheDtype, given)
			}
		}
		w := v.workload(r)
		sub.run.Workload = Workload{Concurrency: w.Concurrency, InputTokens: w.InputTokens, OutputTokens: w.OutputTokens, PrefixBehavior: w.PrefixBehavior, Dataset: w.Dataset}
		sub.run.Runtime.Parallelism = r.Runtime.Parallelism
		sub.prefixCache()
		sub.capacity()
		for i := from; i < len(sub.found); i++ {
			sub.found[i].Path = strings.Replace(sub.found[i].Path, serverPath, "/runtime/parameters/"+name, 1)
		}
	}
	sub.parameterCounts()
	for _, f := range sub.found {
		if f.Rule == "C1" {
			f.Rule = "X13"
		}
		f.Path = at + f.Path
		v.found = append(v.found, f)
	}
}

// runReferences checks X14: every run that is named is there.
func (v *experimentVerifier) runReferences(at string, r *experimentRun) {
	if f := r.Failure; f != nil && f.ReplacementClientRunID != "" {
		path := at + "/failure/replacement_client_run_id"
		switch {
		case f.ReplacementClientRunID == r.ClientRunID:
			v.fail("X14", path, "a run does not replace itself")
		case v.runs[f.ReplacementClientRunID] == nil:
			v.fail("X14", path, "no run has the id %q", f.ReplacementClientRunID)
		}
	}
	if r.Results == nil {
		return
	}
	for _, m := range []struct {
		name string
		*Metric
	}{
		{"total_tokens", r.Results.TotalTokens},
		{"duration_seconds", r.Results.DurationSeconds},
		{"requests_per_second", r.Results.RequestsPerSecond},
		{"input_tokens_per_second", r.Results.InputTokensPerS},
		{"output_tokens_per_second", r.Results.OutputTokensPerS},
	} {
		if m.Metric == nil {
			continue
		}
		for i, id := range m.InputRunIDs {
			if v.runs[id] == nil {
				v.fail("X14", fmt.Sprintf("%s/results/%s/input_run_ids/%d", at, m.name, i), "no run has the id %q", id)
			}
		}
	}
}

// overlaps checks X16: one device runs one thing at a time. Each device has one
// finding, at the first run that began before another had ended. Between the trials
// of a run there may be other runs, and when each trial began stands elsewhere.
func (v *experimentVerifier) overlaps() {
	type span struct {
		at   int
		r    *experimentRun
		ends time.Time
	}
	busy := make(map[int][]span)
	for i := range v.doc.Runs {
		r := &v.doc.Runs[i]
		if r.aggregate() || len(r.Trials) > 1 || r.Environment == nil || r.StartedAt == nil || r.EndedAt == nil {
			continue
		}
		var devices []int
		for _, a := range r.Environment.Accelerators {
			devices = append(devices, a.DeviceIndices...)
		}
		slices.Sort(devices)
		for _, d := range slices.Compact(devices) {
			busy[d] = append(busy[d], span{i, r, *r.EndedAt})
		}
	}
	devices := make([]int, 0, len(busy))
	for d := range busy {
		devices = append(devices, d)
	}
	slices.Sort(devices)
	for _, d := range devices {
		spans := busy[d]
		slices.SortStableFunc(spans, func(a, b span) int { return a.r.StartedAt.Compare(*b.r.StartedAt) })
		last, first, second, n := spans[0], span{}, span{}, 0
		for _, s := range spans[1:] {
			if s.r.StartedAt.Before(last.ends) {
				if n == 0 {
					first, second = last, s
				}
				n++
			}
			if s.ends.After(last.ends) {
				last = s
			}
		}
		if n > 0 {
			v.fail("X16", fmt.Sprintf("/runs/%d/started_at", second.at), "%q began while %q was running on device %d%s", second.r.ClientRunID, first.r.ClientRunID, d, andMore(n-1))
		}
	}
}

func andMore(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", and %d more such", n)
}

// measuredTwice checks X19: two runs with one duration and one rate are one
// measurement.
func (v *experimentVerifier) measuredTwice() {
	first := make(map[[2]float64]string)
	for i := range v.doc.Runs {
		r := &v.doc.Runs[i]
		if r.Results == nil || r.Results.RequestsPerSecond == nil || r.DurationSeconds == nil || r.aggregate() {
			continue
		}
		key := [2]float64{*r.DurationSeconds, r.Results.RequestsPerSecond.Value}
		if other, ok := first[key]; ok {
			v.warn("X19", fmt.Sprintf("/runs/%d", i), "the duration and rate of %q: one measurement, two runs", other)
		} else {
			first[key] = r.ClientRunID
		}
	}
}

// experimentArtifacts checks X11, X12, X17, X18 and the files. A trial repeats
// its run's artifacts, which X6 compares.
func (v *experimentVerifier) experimentArtifacts(files fs.FS) {
	seen := seenArtifacts{}
	n, sizes := 0, make(map[int64]bool)
	each := func(at string, list []Artifact) {
		for i, a := range list {
			at := fmt.Sprintf("%s/artifacts/%d", at, i)
			n, sizes[a.SizeBytes] = n+1, true
			v.artifact(files, seen, at, a)
			if a.RunClientID != "" && v.runs[a.RunClientID] == nil {
				v.fail("X11", at+"/run_client_id", "no run has the id %q", a.RunClientID)
			}
		}
	}
	each("", v.doc.Artifacts)
	for i, r := range v.doc.Runs {
		at := fmt.Sprintf("/runs/%d", i)
		each(at, r.Artifacts)
		for j, a := range r.Artifacts {
			path := fmt.Sprintf("%s/artifacts/%d", at, j)
			if a.RunClientID != r.ClientRunID && v.runs[a.RunClientID] != nil {
				v.fail("X11", path+"/run_client_id", "%q, but it is an artifact of %q", a.RunClientID, r.ClientRunID)
			}
			if !strings.HasPrefix(a.ClientArtifactID, r.ClientRunID+"-") {
				v.fail("X11", path+"/client_artifact_id", "%q; want %q", a.ClientArtifactID, r.ClientRunID+"-raw")
			}
		}
	}
	if n > 2 && len(sizes) <= n/10+1 {
		v.warn("X18", "/runs", "%d artifacts have %d different sizes: sizes are not measured ones", n, len(sizes))
	}
}
