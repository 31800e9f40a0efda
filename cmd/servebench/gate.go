package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/servebench/servebench/bench/gate"
	"github.com/servebench/servebench/bench/stored"
	"github.com/servebench/servebench/metrics/stat"
)

// exitRegression is what a gate ends with that found a regression.
const exitRegression = 3

const gateHelp = `servebench gate: decide whether a server became slower.

Pairs of runs, one after the other, in the order AB BA AB BA ...:
  --baseline-url URL       server A
  --candidate-url URL      server B
  --baseline-command CMD   start server A for each of its runs; {port} stands for its port
  --candidate-command CMD  start server B likewise
  --pairs N                pairs of runs, 5 to 20 (default 8)
  --extend                 declare one extension: as many pairs again where the first are inconclusive

Stored results (files of servebench or vllm bench serve, or folders with repeats):
  --result FILE            the candidate
  --baseline FILE          one earlier result: coarse, weak evidence
  --history DIR            at least 10 earlier results: servebench baseline add keeps them

Bounds, with --result or with a run of its own:
  --require EXPR           such as "output_throughput >= 900", "p99_ttft < 500ms",
                           "itl.p50 <= base+3%" (base: of --baseline, or the history's median); repeatable

The rule:
  --primary METRIC         decides (default steady_output_throughput, or output_throughput
                           where runs have no steady window); others advise
  --effect SHARE           the loss to find (default 3%)
  --certain                fail only where the whole interval is beyond it
  --cv SHARE               of --baseline: known coefficient of variation between runs
  --max-failures SHARE     requests that may fail in a run (default 0%)
  --allow-difference KEY   a fact that may differ besides the server's; repeatable
  --strict                 refuse runs that are SUSPECT, too

The verdict:
  --verdict FILE           as JSON
  --markdown FILE          for a comment on a change
  --junit FILE             JUnit XML
  --html FILE              a page with a picture of the pairs

Every flag of servebench serve may follow: it holds for both sides. Of a pair each run is
warmed up, by --num-warmups or a request for each of --max-concurrency. With GITHUB_ACTIONS
set an annotation is printed and the step summary written.

Exit codes: 0 PASS; 2 usage; 3 FAIL, a regression; 4 INCONCLUSIVE, or not comparable;
5 a server failed; 6 something could not be saved; 128 + N after signal N.
`

// gateLine is a command line of gate: its own flags, and those of serve.
type gateLine struct {
	baselineURL, candidateURL         string
	baselineCommand, candidateCommand string
	pairs                             int
	extend                            bool

	result, baseline, history string
	require                   []string

	primary                        string
	rule                           gate.Rule
	cv                             float64
	policy                         stored.Policy
	verdict, markdown, junit, html string

	help bool
	rest []string
	// requirements are require, read.
	requirements []gate.Requirement
	secrets      []string // of the flags of a load, in no file
}

// readGateLine takes the flags of gate out of args. All mistakes are reported at once.
func readGateLine(args []string) (l *gateLine, err error) {
	l = &gateLine{pairs: 8}
	var errs []error
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	texts := map[string]*string{
		"--baseline-url": &l.baselineURL, "--candidate-url": &l.candidateURL, "--baseline-command": &l.baselineCommand, "--candidate-command": &l.candidateCommand,
		"--result": &l.result, "--baseline": &l.baseline, "--history": &l.history, "--primary": &l.primary,
		"--verdict": &l.verdict, "--markdown": &l.markdown, "--junit": &l.junit, "--html": &l.html,
	}
	shares := map[string]*float64{"--effect": &l.rule.Effect, "--cv": &l.cv, "--max-failures": &l.policy.Failures}
	lists := map[string]*[]string{"--require": &l.require, "--allow-difference": &l.policy.Differ}
	switches := map[string]*bool{"--extend": &l.extend, "--certain": &l.rule.Certain, "--strict": &l.policy.Strict, "--help": &l.help, "-h": &l.help}
	seen := map[string]bool{}
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		if on := switches[name]; on != nil {
			if *on = !joined || value == "true"; joined && value != "true" && value != "false" {
				bad("%s is a switch, got =%s; write %s, or %s=false", name, quoteWord(value), name, name)
			}
			continue
		}
		if texts[name] == nil && shares[name] == nil && lists[name] == nil && name != "--pairs" {
			l.rest = append(l.rest, args[i])
			continue
		}
		if !joined {
			if i++; i == len(args) {
				bad("%s needs a value", name)
				continue
			}
			value = args[i]
		}
		if seen[name] && lists[name] == nil {
			bad("%s is given twice", name)
		}
		seen[name] = true
		switch {
		case value == "":
			bad("%s is empty", name)
		case texts[name] != nil:
			*texts[name] = value
		case lists[name] != nil:
			*lists[name] = append(*lists[name], value)
		case name == "--pairs":
			if l.pairs, err = strconv.Atoi(value); err != nil || l.pairs < gate.FewestPairs || l.pairs > stat.MostFlipped {
				bad("--pairs: %s; want %d to %d", quoteWord(value), gate.FewestPairs, stat.MostFlipped)
			}
		default:
			if *shares[name], err = share(value); err != nil {
				bad("%s: %w", name, err)
			} else if name == "--effect" && *shares[name] == 0 {
				bad("--effect: 0; want a share above 0, such as 3%%")
			}
		}
	}
	if l.help {
		return l, nil
	}
	if l.extend {
		if l.rule.Looks = 2; 2*l.pairs > stat.MostFlipped {
			bad("--extend: twice %d pairs; want --pairs %d at most", l.pairs, stat.MostFlipped/2)
		}
	}
	errs = append(errs, l.check(seen)...)
	return l, errors.Join(errs...)
}

// share reads 3% or 0.03.
func share(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		v /= 100
	}
	if err != nil || !(v >= 0 && v < 1) {
		return 0, fmt.Errorf("%s; want a share from 0%% to below 100%%, such as 3%% or 0.03", quoteWord(text))
	}
	return v, nil
}

// check tells what does not go together, and reads the requirements.
func (l *gateLine) check(seen map[string]bool) (errs []error) {
	bad := func(format string, a ...any) { errs = append(errs, fmt.Errorf(format, a...)) }
	for _, side := range []struct{ url, command, name string }{{l.baselineURL, l.baselineCommand, "baseline"}, {l.candidateURL, l.candidateCommand, "candidate"}} {
		if side.url != "" && side.command != "" {
			bad("--%s-url and --%s-command: want one of them", side.name, side.name)
		}
	}
	a, b := l.baselineURL+l.baselineCommand != "", l.candidateURL+l.candidateCommand != ""
	files := l.result != "" || l.baseline != "" || l.history != ""
	switch {
	case a != b:
		bad("pairs need both sides: --baseline-url or --baseline-command, and --candidate-url or --candidate-command")
	case a && files:
		bad("--result, --baseline and --history are for stored results; want them, or two servers")
	case l.baseline != "" && l.history != "":
		bad("--baseline and --history: want one of them")
	case files && l.result == "" && len(l.require) == 0:
		bad("--result is missing; want the candidate's result, or --require and the flags of a run")
	case l.result != "" && l.baseline == "" && l.history == "" && len(l.require) == 0:
		bad("nothing to compare --result with; want --baseline, --history or --require")
	case !a && !files && len(l.require) == 0:
		bad("nothing to decide; want two servers, --result with --baseline or --history, or --require")
	}
	if !a && (seen["--pairs"] || l.extend) {
		bad("--pairs and --extend are for pairs of runs: --baseline-url and --candidate-url")
	}
	if l.cv > 0 && l.baseline == "" {
		bad("--cv goes with --baseline")
	}
	if l.primary != "" {
		if name, ok := metricName(l.primary); ok {
			l.primary = name
		} else {
			bad("--primary: %s is no metric of a result; want one such as %s", quoteWord(l.primary), strings.Join(stored.Names()[:6], ", "))
		}
	}
	for _, text := range l.require {
		r, err := gate.ParseRequirement(text, stored.Known, stored.Names())
		if err != nil {
			bad("--require: %w", err)
			continue
		}
		if r.NeedsBase() && !a && l.baseline == "" && l.history == "" {
			bad("--require %s: base is only there with a baseline; want --baseline, --history or two servers", quoteWord(text))
		}
		l.requirements = append(l.requirements, r)
	}
	if err := l.rule.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errs
}

// metricName is the canonical name of a metric: itl.p50 is p50_itl.
func metricName(name string) (string, bool) {
	forms := []string{name, strings.TrimSuffix(name, "_ms")}
	if metric, s, ok := strings.Cut(name, "."); ok {
		forms = append(forms, s+"_"+metric)
	}
	for _, f := range forms {
		if _, ok := stored.Known(f); ok {
			return f, true
		}
	}
	return "", false
}

// gateCommand is `servebench gate`: args are the words after it.
func gateCommand(ctx context.Context, args []string, t *terminal) error {
	l, err := readGateLine(args)
	if err != nil {
		return &exitError{code: exitUsage, err: err, hint: "servebench gate --help"}
	}
	if l.help {
		_, err := io.WriteString(t.out, gateHelp)
		return err
	}
	if err := l.checkFiles(); err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	var r *gate.Report
	switch {
	case l.baselineURL+l.baselineCommand != "":
		r, err = l.runPairs(ctx, t)
	case l.result != "":
		r, err = l.readResults(t)
	default:
		r, err = l.runOnce(ctx, t)
	}
	if r == nil {
		return err
	}
	return l.conclude(t, r, err)
}

// checkFiles tells before a run whether the verdict can be written.
func (l *gateLine) checkFiles() error {
	var errs []error
	seen := map[string]bool{}
	for _, path := range []string{l.verdict, l.markdown, l.junit, l.html} {
		if path == "" {
			continue
		}
		if seen[filepath.Clean(path)] {
			errs = append(errs, fmt.Errorf("%s is named for two of the files to write; want different names", path))
		}
		seen[filepath.Clean(path)] = true
		if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
			errs = append(errs, fmt.Errorf("%s is no regular file; want the name of a file", path))
		}
		if st, err := os.Stat(filepath.Dir(path)); err != nil || !st.IsDir() {
			errs = append(errs, fmt.Errorf("%s: its folder is not there", path))
		}
	}
	return errors.Join(errs...)
}

// conclude writes and shows the verdict. failed is why not all could be run.
func (l *gateLine) conclude(t *terminal, r *gate.Report, failed error) error {
	if failed == nil {
		r.Conclude()
	}
	r, err := public(r, l.secrets)
	if err != nil {
		return err
	}
	var errs []error
	write := func(path string, form func(io.Writer) error) {
		if path == "" {
			return
		}
		var b bytes.Buffer
		err := form(&b)
		if err == nil {
			err = renameio.WriteFile(path, b.Bytes(), 0o666, renameio.WithTempDir(filepath.Dir(path)))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		}
	}
	write(l.verdict, r.JSON)
	write(l.markdown, r.Markdown)
	write(l.junit, r.JUnit)
	write(l.html, func(w io.Writer) error { return gatePage(w, r) })
	if err := r.Text(t.out); err != nil {
		errs = append(errs, fmt.Errorf("the verdict: %w", err))
	}
	if os.Getenv("GITHUB_ACTIONS") == "true" {
		fmt.Fprintln(t.out, r.Annotation())
		if path := os.Getenv("GITHUB_STEP_SUMMARY"); path != "" {
			errs = append(errs, appendTo(path, r.Markdown))
		}
		if path := os.Getenv("GITHUB_OUTPUT"); path != "" {
			errs = append(errs, appendTo(path, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "verdict=%s\nreason=%s\n", r.Verdict, printable(r.Reason))
				return err
			}))
		}
	}
	switch err := errors.Join(errs...); {
	case err != nil:
		t.fail(errors.Join(failed, err))
		return &exitError{code: exitUnsaved, err: errors.New("not everything could be saved")}
	case failed != nil:
		return failed
	}
	if code := r.ExitCode(); code != 0 {
		return &exitError{code: code, err: fmt.Errorf("gate: %s", r.Verdict)}
	}
	return nil
}

// public is a report without what must not be published: names of files and reasons
// may come from anywhere.
func public(r *gate.Report, secrets []string) (*gate.Report, error) {
	red := localRedactor(nil)
	red.Secrets = append(red.Secrets, secrets...)
	text, err := json.Marshal(r)
	if err == nil {
		text, err = cleanJSON(text, red)
	}
	clean := &gate.Report{}
	return clean, errors.Join(err, json.Unmarshal(text, clean))
}

func appendTo(path string, form func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(form(f), f.Close())
}

// newReport is a report with what is known before.
func (l *gateLine) newReport(mode gate.Mode) *gate.Report {
	return &gate.Report{
		Mode: mode, Attempt: l.attempt(), At: gate.Stamp(time.Now()), Rule: l.rule.WithDefaults(),
		Advisory: []gate.MetricDecision{}, Requirements: []gate.Finding{}, Checks: []gate.Check{}, Pairs: []gate.Pair{}, Runs: []gate.Run{}, Differences: []string{}, Notes: []string{},
	}
}

// attempt counts this gate among those that were run for the same verdict: what GitHub
// says of a job that is run again, or else the file that the verdict replaces.
func (l *gateLine) attempt() int {
	n, _ := strconv.Atoi(os.Getenv("GITHUB_RUN_ATTEMPT"))
	if text, err := os.ReadFile(cmp.Or(l.verdict, os.DevNull)); err == nil {
		var before gate.Report
		if json.Unmarshal(text, &before) == nil && before.Schema == gate.Schema {
			n = max(n, min(before.Attempt, math.MaxInt32)+1)
		}
	}
	return max(1, n)
}

// readResults decides from stored results.
func (l *gateLine) readResults(t *terminal) (*gate.Report, error) {
	candidate, err := readStored(l.result)
	if err != nil {
		return nil, &exitError{code: exitUsage, err: fmt.Errorf("--result: %w", err)}
	}
	mode, from := gate.Absolute, ""
	switch {
	case l.history != "":
		mode, from = gate.OfRuns, l.history
	case l.baseline != "":
		mode, from = gate.OfFile, l.baseline
	}
	var baseline []stored.Run
	if from != "" {
		if baseline, err = readStored(from); err != nil {
			return nil, &exitError{code: exitUsage, err: fmt.Errorf("--%s: %w", map[gate.Mode]string{gate.OfRuns: "history", gate.OfFile: "baseline"}[mode], err)}
		}
	}
	if mode == gate.OfRuns {
		// What a history keeps is fit to be published, and compared with what is, too.
		publicFacts(slices.Concat(baseline, candidate))
		baseline = slices.DeleteFunc(baseline, func(b stored.Run) bool {
			own := slices.ContainsFunc(candidate, func(c stored.Run) bool { return b.Same(&c) })
			if own {
				t.notef("%s is the candidate itself, and left out of its history", b.Name)
			}
			return own
		})
	}
	return l.decide(mode, baseline, candidate), nil
}

// publicFacts takes out of the runs' facts what must not be published.
func publicFacts(runs []stored.Run) {
	red := localRedactor(nil)
	for i := range runs {
		for j := range runs[i].Facts {
			f := &runs[i].Facts[j]
			f.Value = red.Hide(f.Value)
		}
	}
}

// decide makes a report of stored runs.
func (l *gateLine) decide(mode gate.Mode, baseline, candidate []stored.Run) *gate.Report {
	r := l.newReport(mode)
	r.Checks, r.Notes = stored.Checks(baseline, candidate, l.policy)
	r.Simulated = slices.ContainsFunc(slices.Concat(candidate, baseline), func(r stored.Run) bool { return r.Simulated })
	r.Differences = differing(baseline, candidate)
	for side, runs := range map[string][]stored.Run{"baseline": baseline, "candidate": candidate} {
		for _, run := range runs {
			r.Runs = append(r.Runs, gate.Run{Name: run.Name, Side: side, Verdict: run.Verdict, Reasons: run.Reasons})
		}
	}
	slices.SortStableFunc(r.Runs, func(a, b gate.Run) int { return strings.Compare(a.Side, b.Side) })
	primary := l.primaryOf(slices.Concat(baseline, candidate))
	if mode != gate.Absolute {
		r.Primary = l.storedDecision(r, mode, primary, baseline, candidate)
	}
	l.checkRequirements(r, baseline, candidate)
	return r
}

// checkRequirements holds the medians of the runs against the bounds.
func (l *gateLine) checkRequirements(r *gate.Report, baseline, candidate []stored.Run) {
	for i := range l.requirements {
		q := &l.requirements[i]
		f := q.Check(median(candidate, q.Metric), median(baseline, q.Metric))
		if f.Verdict == gate.Inconclusive {
			f.Reason += stored.Hint(slices.Concat(candidate, baseline), q.Metric)
		}
		r.Requirements = append(r.Requirements, f)
	}
}

// storedDecision applies the rule of a mode to the primary metric; nil, with a check
// that does not hold, where there is nothing to apply it to.
func (l *gateLine) storedDecision(r *gate.Report, mode gate.Mode, metric string, baseline, candidate []stored.Run) *gate.MetricDecision {
	fail := func(format string, a ...any) *gate.MetricDecision {
		r.Checks = append(r.Checks, gate.Check{Name: "values", Reason: fmt.Sprintf(format, a...)})
		return nil
	}
	value := median(candidate, metric)
	if value == nil || !(*value > 0) {
		return fail("The candidate has no %s above 0.%s", metric, stored.Hint(candidate, metric))
	}
	better := betterOf(candidate, metric)
	var d gate.Decision
	var err error
	if mode == gate.OfFile {
		base := median(baseline, metric)
		if base == nil || !(*base > 0) {
			return fail("The baseline has no %s above 0.%s", metric, stored.Hint(baseline, metric))
		}
		change, ok := gate.Change(*base, *value, better)
		if !ok {
			return fail("%s cannot be compared: %v and %v.", metric, *base, *value)
		}
		d, err = gate.File(change, l.cv)
	} else {
		var earlier []float64
		for i := range baseline {
			m := baseline[i].Metric(metric)
			if m == nil || !(m.Value > 0) {
				return fail("%s of the history has no %s above 0.%s", baseline[i].Name, metric, stored.Hint(baseline[i:i+1], metric))
			}
			earlier = append(earlier, turned(m.Value, better))
		}
		d, err = gate.History(earlier, turned(*value, better), l.rule)
	}
	if err != nil {
		return fail("%s.", err)
	}
	unit, _ := stored.Known(metric)
	return &gate.MetricDecision{Metric: metric, Unit: unit, Better: better, Decision: d}
}

// turned is a value's logarithm, below for worse.
func turned(v float64, better gate.Better) float64 {
	if better == gate.Lower {
		return -math.Log(v)
	}
	return math.Log(v)
}

// primaryOf is the metric that decides: the one asked for, or the output token
// throughput of the steady window where all runs have it.
func (l *gateLine) primaryOf(runs []stored.Run) string {
	if l.primary != "" {
		return l.primary
	}
	for i := range runs {
		if runs[i].Metric(stored.SteadyThroughput) == nil {
			return "output_throughput"
		}
	}
	return stored.SteadyThroughput
}

// median is that of a metric over runs; nil where one of them does not have it.
func median(runs []stored.Run, metric string) *float64 {
	var values []float64
	for i := range runs {
		m := runs[i].Metric(metric)
		if m == nil {
			return nil
		}
		values = append(values, m.Value)
	}
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	v, _ := stat.Quantile(len(values), func(i int) float64 { return values[i] }, 0.5)
	return &v
}

func betterOf(runs []stored.Run, metric string) gate.Better {
	for i := range runs {
		if m := runs[i].Metric(metric); m != nil && m.Better != "" {
			return m.Better
		}
	}
	return gate.Higher
}

// differing lists what the runs of the two sides are unlike in.
func differing(baseline, candidate []stored.Run) []string {
	out := []string{}
	for _, d := range stored.Differences(slices.Concat(baseline, candidate)) {
		if d.Unknown {
			continue
		}
		side := func(values []string) string {
			values = slices.Clone(values)
			slices.Sort(values)
			return strings.Join(slices.Compact(values), " | ")
		}
		a, b := side(d.Values[:len(baseline)]), side(d.Values[len(baseline):])
		out = append(out, clip(fmt.Sprintf("%s: %s: %s -> %s", d.Class, d.Key, a, b), 300))
	}
	return out
}
