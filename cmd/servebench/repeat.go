package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/renameio/v2"
	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/report"
	"github.com/servebench/servebench/bench/stored"
	"github.com/servebench/servebench/bench/sweep"
	"github.com/servebench/servebench/metrics"
)

// fewestUntilCI is how many runs there are before --until-ci ends them.
const fewestUntilCI = 3

// repeats is the summary of --num-runs, as it is written.
type repeats struct {
	Schema    string          `json:"schema"` // servebench.repeats/1
	Simulated bool            `json:"simulated,omitempty"`
	Asked     int             `json:"asked"`
	Runs      []repeat        `json:"runs"`
	Ended     string          `json:"ended"` // why there are no more
	Metrics   []stored.Spread `json:"metrics"`
	Notes     []string        `json:"notes"`
}

type repeat struct {
	Name    string   `json:"name"`
	Salt    string   `json:"salt,omitempty"`
	Verdict string   `json:"verdict"`
	Reasons []string `json:"reasons"`
}

// repeat is --num-runs: whole runs, each saved, and how they differ.
func (o *options) repeat(ctx context.Context, t *terminal) error {
	for _, u := range unsupported {
		if u.given(o) {
			return usagef("--%s is for one run; want --result-dir, in which each of --num-runs has its files", u.flag)
		}
	}
	if err := o.valid(); err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	if o.dryRun {
		return o.printPlan(ctx, t)
	}
	if err := o.checkDescriptors(); err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	for _, n := range o.notes() {
		if !strings.HasPrefix(n, "no --save-result") {
			t.notef("%s", n)
		}
	}
	dir := cmp.Or(o.dir, "repeats-"+time.Now().Format("20060102-150405"))
	if _, err := os.Stat(filepath.Join(dir, "repeats.json")); err == nil {
		return usagef("--result-dir: %s has the runs of another --num-runs; want another folder", dir)
	}
	ctx, signals := catchSignals(ctx, t, func() string { return "no new requests, and no further runs; a second signal ends all at once" })
	defer signals.stop()
	s := &repeats{Schema: "servebench.repeats/1", Asked: o.runs, Runs: []repeat{}, Metrics: []stored.Spread{}, Notes: []string{}}
	runs, failed := o.runsOf(ctx, t, dir, s, signals)
	if len(runs) == 0 {
		return failed
	}
	s.conclude(runs)
	return o.concludeRepeats(t, dir, s, failed)
}

// runsOf makes the runs, up to the last or to one that could not be made.
func (o *options) runsOf(ctx context.Context, t *terminal, dir string, s *repeats, signals *stopState) (runs []stored.Run, failed error) {
	s.Ended = "all were made"
	for i := 1; i <= o.runs; i++ {
		name := fmt.Sprintf("run-%03d", i)
		config := o.config
		o.at = func() (number, of int) { return i, o.runs }
		if o.server == nil && !config.ResetPrefixCache {
			config.Salt = cmp.Or(config.Salt, bench.AutoSalt) // of a text that is given each run makes its own
		}
		outcome, err := t.oneRun(ctx, dir, name, o, sweep.Point{ID: name, Name: name, Group: "repetition", Config: config, Server: o.server, Deadline: o.deadline}, signals)
		if err == nil && outcome.Failure != nil {
			err = &exitError{code: exitTarget, err: fmt.Errorf("%s failed: %s", name, outcome.Failure.MessageSanitized)}
		}
		if err != nil {
			s.Ended = name + " could not be made"
			select {
			case <-signals.soft:
				s.Ended = "interrupted in " + name
			default:
			}
			return runs, err
		}
		path := filepath.Join(dir, name+".result.json")
		one, err := readStoredFile(path)
		if err != nil {
			return runs, &exitError{code: exitUnsaved, err: err}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return runs, &exitError{code: exitUnsaved, err: err}
		}
		one[0].Name = name
		runs = append(runs, one[0])
		s.Runs = append(s.Runs, repeat{name, gjson.GetBytes(text, "servebench.salt.value").String(), one[0].Verdict, one[0].Reasons})
		if o.untilCI > 0 && i >= fewestUntilCI && i < o.runs {
			for _, m := range stored.Repeats(runs) {
				if m.Metric == "output_throughput" && m.Half() <= o.untilCI {
					s.Ended = fmt.Sprintf("output_throughput is known to within %.2g %%, as declared", 100*m.Half())
					return runs, nil
				}
			}
		}
	}
	return runs, nil
}

func (s *repeats) conclude(runs []stored.Run) {
	s.Simulated = runs[0].Simulated
	s.Metrics = stored.Repeats(runs)
	for i := range s.Metrics {
		if m := &s.Metrics[i]; m.Drifts() && (m.Metric == "output_throughput" || m.Metric == "p99_ttft" || m.Metric == "median_ttft") {
			s.Notes = append(s.Notes, fmt.Sprintf("%s drifts by %+.2g %% a run: the runs are no repeats of one thing.", m.Metric, 100**m.Drift))
		}
	}
	for _, r := range s.Runs {
		if r.Verdict != "" && r.Verdict != string(metrics.Valid) {
			s.Notes = append(s.Notes, fmt.Sprintf("%s is %s: %s.", r.Name, r.Verdict, strings.Join(r.Reasons, "; ")))
		}
	}
}

// concludeRepeats writes and shows the summary.
func (o *options) concludeRepeats(t *terminal, dir string, s *repeats, failed error) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(s)
	path := filepath.Join(dir, "repeats.json")
	if err == nil {
		err = renameio.WriteFile(path, text.Bytes(), 0o666, renameio.WithTempDir(dir))
	}
	if err == nil {
		var page bytes.Buffer
		if err = s.page(&page); err == nil {
			err = renameio.WriteFile(filepath.Join(dir, "repeats.html"), page.Bytes(), 0o666, renameio.WithTempDir(dir))
		}
	}
	if err = errors.Join(err, s.write(t.out)); err != nil {
		t.fail(errors.Join(failed, err))
		return &exitError{code: exitUnsaved, err: errors.New("not everything could be saved")}
	}
	fmt.Fprintf(t.out, "\nFiles:\n  - %s and .html, and those of %s in %s\n", path, count(len(s.Runs), "run"), dir)
	if failed != nil {
		return failed
	}
	if o.strict && slices.ContainsFunc(s.Runs, func(r repeat) bool { return r.Verdict != string(metrics.Valid) }) {
		return &exitError{code: exitInvalid, err: errors.New("--strict: not every run is VALID")}
	}
	return nil
}

// shownRepeats are the metrics on the screen; all are in the file.
var shownRepeats = []string{
	"request_throughput", "output_throughput", stored.SteadyThroughput, "total_token_throughput", "mean_ttft", "median_ttft", "p99_ttft",
	"mean_tpot", "median_tpot", "p99_tpot", "mean_itl", "median_itl", "p99_itl", "mean_e2el", "p99_e2el",
}

func (s *repeats) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\tmean\t95 %%\tstd\tCV\tdrift a run\t\n", count(len(s.Runs), "run"))
	for _, name := range shownRepeats {
		i := slices.IndexFunc(s.Metrics, func(m stored.Spread) bool { return m.Metric == name })
		if i < 0 {
			continue
		}
		m := &s.Metrics[i]
		fmt.Fprintf(w, "%s\t%s\t\n", nameOf(m), strings.Join(spreadCells(m), "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\n%s of %d; %s.\n", count(len(s.Runs), "run"), s.Asked, s.Ended)
	for _, n := range s.Notes {
		fmt.Fprintf(out, "  - %s\n", printable(n))
	}
	if s.Simulated {
		fmt.Fprintln(out, "SIMULATED: the target is servebench's own simulator, not a model.")
	}
	return err
}

// nameOf is a metric with its unit.
func nameOf(m *stored.Spread) string {
	if m.Unit == "" {
		return m.Metric
	}
	return m.Metric + " (" + string(m.Unit) + ")"
}

// spreadCells are the mean, its interval, the standard deviation, the coefficient of
// variation and the drift of a metric, for people.
func spreadCells(m *stored.Spread) []string {
	span, std, cv, drift := "-", "-", "-", "-"
	if m.Low != nil {
		span, std = fmt.Sprintf("[%.5g, %.5g]", *m.Low, *m.High), fmt.Sprintf("%.3g", *m.Std)
	}
	if m.CV != nil {
		cv = fmt.Sprintf("%.2g %%", 100**m.CV)
	}
	if m.Drift != nil {
		if drift = fmt.Sprintf("%+.2g %%", 100**m.Drift); !m.Drifts() {
			drift += " ~"
		}
	}
	return []string{fmt.Sprintf("%.5g", m.Mean), span, std, cv, drift}
}

// drawnRepeats is how many of the metrics on the page have a picture: the throughputs
// and the first latencies.
const drawnRepeats = 7

// page writes the summary as a page with the values over the order of the runs.
func (s *repeats) page(w io.Writer) error {
	p := report.Page{Title: "servebench serve --num-runs", Simulated: s.Simulated, Notes: s.Notes, Facts: [][2]string{{"runs", fmt.Sprintf("%d of %d", len(s.Runs), s.Asked)}, {"ended", s.Ended}}}
	var names, verdicts []string
	for _, r := range s.Runs {
		names, verdicts = append(names, r.Name), append(verdicts, r.Verdict)
	}
	var all []report.Repeated
	for _, name := range shownRepeats {
		if i := slices.IndexFunc(s.Metrics, func(m stored.Spread) bool { return m.Metric == name }); i >= 0 {
			m := &s.Metrics[i]
			all = append(all, report.Repeated{Metric: nameOf(m), Values: m.Values, Mean: m.Mean, Low: m.Low, High: m.High, Figures: spreadCells(m)})
		}
	}
	return report.Repeats(w, p, names, verdicts, all, drawnRepeats)
}
