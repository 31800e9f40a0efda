package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/report"
	"github.com/servebench/servebench/bench/sweep"
	"github.com/servebench/servebench/manifest"
	"github.com/servebench/servebench/metrics"
)

// sweepView shows how an experiment goes on: a line for each run, and on a terminal
// a bar for the present one.
type sweepView struct {
	t     *terminal
	quiet bool
	e     *sweep.Experiment
	hide  func() // ends the bar
	// at, if set, is the place of a run that is an experiment of its own.
	at func() (number, of int)
}

// pause takes the bar away.
func (v *sweepView) pause() {
	if v.hide != nil {
		v.hide()
		v.hide = nil
	}
}

func (v *sweepView) starting(s sweep.Step) {
	v.pause()
	if !isEmbedded(s.Point.Server) {
		v.t.notef("%s%s: starting the server", v.numbered(s), s.Point.ID)
	}
}

func (v *sweepView) began(s sweep.Step) *bench.Progress {
	v.pause()
	p := &bench.Progress{}
	if isTerminal(v.t.err) {
		v.hide = showProgress(v.t.err, p, v.quiet)
	}
	return p
}

func (v *sweepView) ended(s sweep.Step, res *bench.Result, left sweep.Estimate) {
	v.pause()
	line := fmt.Sprintf("%s%s: %s", v.numbered(s), describeStep(s), upshot(res))
	if left != (sweep.Estimate{}) {
		line += fmt.Sprintf("; left: %v", left)
	}
	v.t.notef("%s", line)
}

// numbered is which run of how many; "" for one alone.
func (v *sweepView) numbered(s sweep.Step) string {
	number, of := s.Number, s.Of
	if v.at != nil {
		number, of = v.at()
	}
	if of == 1 {
		return ""
	}
	return fmt.Sprintf("[%d/%d] ", number, of)
}

// describeStep is a run in a few words.
func describeStep(s sweep.Step) string {
	text := s.Point.ID
	var settings []string
	for _, set := range s.Point.Vary {
		settings = append(settings, settingName(set.Key)+" "+settingText(set.Value))
	}
	if len(settings) > 0 {
		text += " (" + strings.Join(settings, ", ") + ")"
	}
	if n := max(1, s.Point.Repeat); n > 1 {
		text += fmt.Sprintf(", trial %d of %d", s.Trial, n)
	}
	if s.Attempt > 1 {
		text += fmt.Sprintf(", attempt %d", s.Attempt)
	}
	return text
}

// settingName is a key without the section that it is in.
func settingName(key string) string {
	for _, section := range []string{"bench.", "server.", "vars.", "labels."} {
		if name, ok := strings.CutPrefix(key, section); ok {
			return name
		}
	}
	return key
}

func settingText(v any) string { return clip(printable(fmt.Sprint(v)), 60) }

// upshot is a result in a few words.
func upshot(res *bench.Result) string {
	if f := res.Failure; f != nil {
		return fmt.Sprintf("failed at %s, %s: %s", f.Stage, f.Category, clip(dashed(printable(f.MessageSanitized)), 300))
	}
	rates := res.Rates()
	parts := []string{res.Outcome, fmt.Sprintf("%.2f req/s", rates.Requests)}
	if res.Config.API().Generates() {
		parts = append(parts, fmt.Sprintf("%.1f tok/s", rates.OutputTokens))
	}
	for _, name := range []string{"ttft", "itl"} {
		if d, ok := res.Metric(name); ok && d != nil {
			parts = append(parts, fmt.Sprintf("%s %.2f ms", strings.ToUpper(name), d.Median))
		}
	}
	if n := res.Summary.Failed; n > 0 {
		parts = append(parts, fmt.Sprintf("%d requests failed", n))
	}
	return strings.Join(parts, ", ")
}

// commandLine is a point's server as it may be shown.
func commandLine(p *sweep.Point) string {
	if isEmbedded(p.Server) {
		return "the embedded simulator"
	}
	return publicServerCommand(&p.Config, p.Server)
}

// startText says which server is started; of one that is like the one before, what
// is different.
func startText(before, line string) string {
	was, is := strings.Fields(before), strings.Fields(line)
	switch {
	case before == "":
		return "start a server: " + clip(line, 600)
	case before == line:
		return "start a server with the same command"
	case len(was) != len(is):
		return "start another server: " + clip(line, 600)
	}
	var changed []string
	for i, w := range is {
		if w == was[i] {
			continue
		}
		if i > 0 && strings.HasPrefix(is[i-1], "--") && !strings.HasPrefix(w, "--") {
			w = is[i-1] + " " + w
		}
		changed = append(changed, w)
	}
	return "the same with " + clip(strings.Join(changed, " "), 600)
}

// comparison is what tables and charts show of an experiment: its points, and what
// its manifest derives from them; doc may be nil.
func comparison(e *sweep.Experiment, outcomes []sweep.Outcome, doc *manifest.Experiment) (points []report.Point) {
	red := experimentRedactor(e)
	of := map[string]*sweep.Outcome{}
	for i := range outcomes {
		of[outcomes[i].PointID] = &outcomes[i]
	}
	for i := range e.Points {
		p := &e.Points[i]
		row := report.Point{ID: p.ID, Group: red.Hide(p.Group), Status: "not run"}
		for _, s := range p.Vary {
			row.Settings = append(row.Settings, [2]string{settingName(s.Key), settingText(s.Value)})
		}
		if o := of[p.ID]; o != nil {
			row.Status, row.Why = o.Status, why(o)
			for _, t := range o.Trials {
				if t.Status == manifest.Completed && t.Manifest.Results != nil {
					row.Trials = append(row.Trials, figures(t.Manifest))
				}
			}
		}
		points = append(points, row)
	}
	if doc == nil {
		return points
	}
	for i := range doc.Runs {
		if r := &doc.Runs[i]; r.Relation.Type == "aggregate" {
			points = append(points, aggregated(r))
		}
	}
	return points
}

// aggregated is a run that was computed from others.
func aggregated(r *manifest.ExperimentRun) report.Point {
	p := report.Point{ID: r.ClientRunID, Group: r.Relation.Group, Status: r.Status}
	if f := r.Failure; f != nil {
		p.Why = f.Stage + ", " + f.Category
		return p
	}
	sum := r.Results.RequestsPerSecond
	p.Settings = [][2]string{{"sum of", fmt.Sprintf("%d runs", len(sum.InputRunIDs))}}
	f := report.Figures{Requests: sum.Value}
	if n := r.Results.FailedRequests; n != nil {
		f.Failed = *n
	}
	p.Trials = []report.Figures{f}
	return p
}

// why says why a point did not complete.
func why(o *sweep.Outcome) string {
	if f := o.Failure; f != nil {
		return fmt.Sprintf("%s, %s", f.Stage, f.Category)
	}
	for _, t := range o.Trials {
		partial, ok := t.Manifest.Measurement.Extensions["servebench.partial"].(map[string]any)
		if ok && t.Status != manifest.Completed {
			return fmt.Sprintf("%v of %v requests", partial["successful_requests"], partial["requests"])
		}
	}
	return ""
}

// figures are those of a run's manifest, with what its extensions say of how sure
// they are.
func figures(m *manifest.Run) report.Figures {
	r, c := m.Results, certaintyOf(m)
	q := func(l *manifest.Latency, name string) *report.Quantiles {
		if l == nil {
			return nil
		}
		return &report.Quantiles{P50: l.P50, P99: l.P99, P50Interval: c.interval(name, "p50"), P99Interval: c.interval(name, "p99")}
	}
	return report.Figures{
		Requests: r.Throughput.RequestsPerSecond.Value, OutputTokens: r.Throughput.OutputTokensPerSecond.Value,
		TotalTokens: r.Throughput.TotalTokensPerSecond.Value, Failed: r.FailedRequests,
		TTFT: q(r.LatencyMS.TimeToFirstToken, "ttft_token"), TPOT: q(r.LatencyMS.TimePerOutputToken, "tpot_token"),
		ITL: q(r.LatencyMS.InterToken, "itl_token"), E2EL: q(r.LatencyMS.EndToEnd, "e2el_token"),
		RequestsInterval: c.Throughput.Requests.in(), OutputTokensInterval: c.Throughput.OutputTokens.in(),
		Verdict: c.Verdict,
	}
}

// certainty is what a manifest's extensions say of how sure its figures are. One of
// another version may say nothing of it, or something else.
type certainty struct {
	Verdict    metrics.Verdict                   `json:"servebench.verdict"`
	Intervals  map[string]map[string]*[2]float64 `json:"servebench.percentile_intervals"`
	Throughput struct {
		Requests     *estimated `json:"requests_per_second"`
		OutputTokens *estimated `json:"output_tokens_per_second"`
	} `json:"servebench.throughput"`
}

type estimated struct {
	Interval metrics.Interval `json:"ci95"`
}

func (e *estimated) in() *metrics.Interval {
	if e == nil {
		return nil
	}
	return &e.Interval
}

func certaintyOf(m *manifest.Run) (c certainty) {
	raw, err := json.Marshal(m.Measurement.Extensions)
	if err != nil || json.Unmarshal(raw, &c) != nil {
		return certainty{}
	}
	return c
}

func (c *certainty) interval(metric, percentile string) *metrics.Interval {
	in := c.Intervals[metric][percentile]
	if in == nil {
		return nil
	}
	return &metrics.Interval{Low: in[0], High: in[1]}
}

// simulated tells that a run was of the simulator.
func simulated(outcomes []sweep.Outcome) bool {
	for _, o := range outcomes {
		for _, t := range o.Trials {
			if t.Manifest.Measurement.Extensions["servebench.simulated"] == true {
				return true
			}
		}
	}
	return false
}

// page is what stands above the charts.
func (s *study) page(outcomes []sweep.Outcome) report.Page {
	a, red := &s.experiment.About, experimentRedactor(&s.experiment)
	p := report.Page{Title: printable(red.Hide(cmp.Or(a.Title, a.ID))), Simulated: simulated(outcomes)}
	if a.Objective != "" {
		p.Notes = append(p.Notes, printable(red.Hide(a.Objective)))
	}
	completed, runs := 0, 0
	var first, last *sweep.Trial
	for i := range outcomes {
		for j := range outcomes[i].Trials {
			t := &outcomes[i].Trials[j]
			runs++
			if first == nil || t.StartedAt.Before(first.StartedAt) {
				first = t
			}
			if last == nil || t.StartedAt.After(last.StartedAt) {
				last = t
			}
		}
		if outcomes[i].Status == manifest.Completed {
			completed++
		}
	}
	p.Facts = [][2]string{{"points", fmt.Sprintf("%d, %d completed", len(s.experiment.Points), completed)}, {"runs", fmt.Sprint(runs)}}
	if first != nil {
		const form = "2006-01-02 15:04:05 MST"
		p.Facts = append(p.Facts, [2]string{"first run", first.StartedAt.Format(form)}, [2]string{"last run", last.StartedAt.Format(form)})
	}
	p.Notes = append(p.Notes, "Latencies are percentiles over the requests of a run, in milliseconds; of several trials the median is drawn, with the trials as dots.",
		"Whiskers are 95 % intervals inside a run, of throughput those of its steady window, which its mean may lie outside of; what differs from run to run is not in them. A triangle marks a point with a run whose verdict is SUSPECT, a red diamond one that is INVALID, a dashed edge of a bar either.")
	return p
}

// show writes the table, what there is to know and the files.
func (s *study) show(w io.Writer, points []report.Point, outcomes []sweep.Outcome, saved []string) error {
	var b strings.Builder
	if err := report.Points(&b, points); err != nil {
		return err
	}
	if simulated(outcomes) {
		b.WriteString("\nSIMULATED: the target is servebench's own simulator, not a model.\n")
	}
	head := "\nWarnings:\n"
	for _, o := range outcomes {
		for _, warning := range o.Warnings {
			fmt.Fprintf(&b, "%s  - %s: %s\n", head, o.PointID, dashed(printable(warning)))
			head = ""
		}
	}
	fmt.Fprintf(&b, "\nFiles in %s: those of each run, and\n", printable(s.dir))
	for _, f := range saved {
		fmt.Fprintf(&b, "  - %s\n", printable(f))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
