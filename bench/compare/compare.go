// Package compare sets results side by side: what differs between the runs, and each
// metric with its intervals and its change. It measures and reads nothing.
package compare

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/servebench/servebench/bench/gate"
	"github.com/servebench/servebench/bench/stored"
	"github.com/servebench/servebench/metrics/stat"
)

// Side is one run, or repeats of it.
type Side struct {
	Name string // for people
	Runs []stored.Run
}

// Table is a comparison. The first side is the base of all changes.
type Table struct {
	Sides []Head `json:"sides"`
	// Differences are what the runs are unlike in, between sides or among repeats.
	Differences []stored.Difference `json:"differences"`
	Rows        []Row               `json:"rows"`
	Notes       []string            `json:"notes"`
}

// Head is what stands above a column.
type Head struct {
	Name     string   `json:"name"`
	Runs     int      `json:"runs"`
	Verdicts []string `json:"verdicts,omitempty"` // those of the runs, each once; "" is none
}

// Row is one metric.
type Row struct {
	Metric string    `json:"metric"`
	Unit   gate.Unit `json:"unit"`
	// Better is "" where neither way is better.
	Better gate.Better `json:"better,omitempty"`
	Cells  []Cell      `json:"cells"` // one for each side
}

// Cell is a side's value of a metric; a nil Value is none.
type Cell struct {
	Value *float64 `json:"value"`
	// Low and High are the 95 % interval: over repeats by Student's t, else inside
	// the run; nil: there is none.
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
	// Change is against the first side, as a share, with its 95 % interval; nil on
	// the first side and where there is nothing to compare.
	Change     *float64 `json:"change,omitempty"`
	ChangeLow  *float64 `json:"change_low,omitempty"`
	ChangeHigh *float64 `json:"change_high,omitempty"`
	// Sign says better, worse or different (a metric without a direction) where the
	// interval of the change is on one side of 0; "~": nothing can be said.
	Sign   string  `json:"sign,omitempty"`
	Source string  `json:"source,omitempty"`
	spread float64 // standard error of ln(value); NaN: not known
	df     float64 // degrees of freedom; infinite inside a run
}

// histogramError is below what an exact percentile and one of a histogram of three
// digits cannot be told apart.
const histogramError = 0.002

// ErrMixed is a comparison of a simulator with a real server.
var ErrMixed = errors.New("simulated and real results cannot be compared: a simulator's numbers describe no server")

// Of compares two or more sides. The error is [ErrMixed], or says which side has no
// run. Safe for concurrent use.
func Of(sides []Side) (*Table, error) {
	if len(sides) < 2 {
		return nil, fmt.Errorf("%d to compare; want two or more results", len(sides))
	}
	var all []stored.Run
	t := &Table{}
	for _, s := range sides {
		if len(s.Runs) == 0 {
			return nil, fmt.Errorf("%s holds no result", s.Name)
		}
		h := Head{Name: s.Name, Runs: len(s.Runs)}
		for _, r := range s.Runs {
			if !slices.Contains(h.Verdicts, r.Verdict) {
				h.Verdicts = append(h.Verdicts, r.Verdict)
			}
		}
		t.Sides = append(t.Sides, h)
		all = append(all, s.Runs...)
	}
	for i := range all {
		if all[i].Simulated != all[0].Simulated {
			return nil, ErrMixed
		}
	}
	t.Differences = differences(sides, all)
	for _, m := range names(all) {
		t.Rows = append(t.Rows, row(sides, m))
	}
	t.remark(sides)
	return t, nil
}

// differences are those between all runs, with one value a side where its repeats
// agree.
func differences(sides []Side, all []stored.Run) []stored.Difference {
	out := stored.Differences(all)
	for i := range out {
		var bySide []string
		at := 0
		for _, s := range sides {
			values := slices.Clone(out[i].Values[at : at+len(s.Runs)])
			at += len(s.Runs)
			slices.Sort(values)
			values = slices.Compact(values)
			text := values[0]
			for _, v := range values[1:] {
				text += " | " + v
			}
			bySide = append(bySide, text)
		}
		out[i].Values = bySide
	}
	return out
}

// names are the metrics of the runs, those first that the first run has.
func names(all []stored.Run) (out []stored.Metric) {
	var seen []string
	for _, r := range all {
		for _, m := range r.Metrics {
			if !slices.Contains(seen, m.Name) && (!isMedian(m.Name) || !slices.Contains(seen, "p50"+m.Name[len("median"):])) {
				seen = append(seen, m.Name)
				out = append(out, m)
			}
		}
	}
	return out
}

func isMedian(name string) bool {
	return len(name) > len("median_") && name[:len("median_")] == "median_"
}

func row(sides []Side, m stored.Metric) Row {
	r := Row{Metric: m.Name, Unit: m.Unit, Better: m.Better}
	for _, s := range sides {
		r.Cells = append(r.Cells, cell(s.Runs, m.Name))
	}
	for i := 1; i < len(r.Cells); i++ {
		r.Cells[i].against(&r.Cells[0], m.Better)
	}
	return r
}

// cell is the mean over repeats, or the value of the only run.
func cell(runs []stored.Run, name string) Cell {
	var values []float64
	c := Cell{spread: math.NaN(), df: math.Inf(1)}
	var single *stored.Metric
	for i := range runs {
		if m := runs[i].Metric(name); m != nil {
			values = append(values, m.Value)
			if single = m; c.Source != "" && m.Source != c.Source {
				c.Source = "mixed"
			} else {
				c.Source = m.Source
			}
		}
	}
	n := len(values)
	if n == 0 || n < len(runs) { // a mean over some of the repeats is none of all
		return Cell{spread: math.NaN()}
	}
	mean, sd := stat.Sample(values)
	c.Value = &mean
	if n == 1 {
		c.Low, c.High = single.Low, single.High
		if c.Low != nil && *c.Low > 0 {
			c.spread = (math.Log(*c.High) - math.Log(*c.Low)) / 2 / normal
		}
		return c
	}
	c.df = float64(n - 1)
	se := sd / math.Sqrt(float64(n))
	half := stat.StudentT(0.975, c.df) * se
	low, high := mean-half, mean+half
	c.Low, c.High = &low, &high
	if mean > 0 {
		c.spread = se / mean
	}
	return c
}

// normal is the normal deviate of a two-sided interval at 95 %.
const normal = 1.959963984540054

// against sets the change from a base.
func (c *Cell) against(base *Cell, better gate.Better) {
	if c.Value == nil || base.Value == nil {
		return
	}
	c.Sign = "~"
	switch {
	case *c.Value == *base.Value:
		c.Change = new(float64)
		return
	case !(*base.Value > 0) || !(*c.Value > 0): // no share of nothing
		return
	}
	d := math.Log(*c.Value) - math.Log(*base.Value)
	share := math.Expm1(d)
	c.Change = &share
	if coarse(c, base) && math.Abs(share) < histogramError {
		return
	}
	a, b := base.spread, c.spread
	if math.IsNaN(a) || math.IsNaN(b) {
		return
	}
	// Welch's degrees of freedom; inside runs they have no end.
	v := a*a + b*b
	df := v * v / (a*a*a*a/base.df + b*b*b*b/c.df)
	q := normal
	if !math.IsNaN(df) && !math.IsInf(df, 0) {
		q = stat.StudentT(0.975, max(1, df))
	}
	low, high := math.Expm1(d-q*math.Sqrt(v)), math.Expm1(d+q*math.Sqrt(v))
	c.ChangeLow, c.ChangeHigh = &low, &high
	if low > 0 || high < 0 {
		c.Sign = sign(share > 0, better)
	}
}

// coarse tells that one of two cells is of a histogram, or of repeats one of which is.
func coarse(a, b *Cell) bool {
	of := func(s string) bool { return s != "" && s != "exact" }
	return of(a.Source) || of(b.Source)
}

func sign(up bool, better gate.Better) string {
	switch {
	case better == "":
		return "different"
	case up == (better == gate.Higher):
		return "better"
	}
	return "worse"
}

// remark says what a reader must know.
func (t *Table) remark(sides []Side) {
	add := func(is bool, text string) {
		if is {
			t.Notes = append(t.Notes, text)
		}
	}
	single, unjudged := false, false
	for _, s := range sides {
		single = single || len(s.Runs) == 1
		for _, r := range s.Runs {
			add(r.Verdict == "INVALID" || r.Verdict == "SUSPECT", fmt.Sprintf("%s is %s: %s", r.Name, r.Verdict, first(r.Reasons)))
			add(r.Failed > 0, fmt.Sprintf("%s: %d of %d requests failed and are in no latency.", r.Name, r.Failed, r.Failed+r.Completed))
			add(r.Outcome != "" && r.Outcome != "completed", fmt.Sprintf("%s: the run was %s.", r.Name, r.Outcome))
			unjudged = unjudged || r.Verdict == ""
		}
	}
	add(sides[0].Runs[0].Simulated, "The target is a simulator: these numbers describe no real server.")
	add(unjudged, "A run without a verdict may hold its client's own slowness.")
	add(single, "Intervals of a single run leave out what differs from run to run; `servebench gate` decides from pairs of runs.")
	for i := range t.Rows {
		for j := range t.Rows[i].Cells {
			if c := &t.Rows[i].Cells[j]; j > 0 && c.Change != nil && c.ChangeLow == nil && coarse(c, &t.Rows[i].Cells[0]) && math.Abs(*c.Change) < histogramError && *c.Change != 0 {
				add(true, fmt.Sprintf("%s: one of a histogram, closer than the histogram's error.", t.Rows[i].Metric))
			}
		}
	}
}

func first(reasons []string) string {
	if len(reasons) == 0 {
		return "no reason is told"
	}
	return reasons[0]
}

// Headline leaves the figures that a reader looks at first: throughputs, and mean,
// median and 99th percentile of vLLM's latencies, or of the token reading where there
// are no others.
func (t *Table) Headline() *Table {
	out := *t
	out.Rows = nil
	has := func(name string) bool {
		return slices.ContainsFunc(t.Rows, func(r Row) bool { return r.Metric == name })
	}
	for _, r := range t.Rows {
		stat, metric, ok := strings.Cut(r.Metric, "_")
		latency := ok && slices.Contains([]string{"mean", "median", "p50", "p99"}, stat)
		vllm, own := strings.CutSuffix(metric, "_token")
		switch {
		case latency && own && has(stat+"_"+vllm):
		case latency && slices.Contains([]string{"ttft", "tpot", "itl", "e2el"}, vllm),
			slices.Contains([]string{stored.SteadyThroughput, "output_throughput", "request_throughput", "total_token_throughput", "request_goodput", "completed", "failed", "duration"}, r.Metric):
			out.Rows = append(out.Rows, r)
		}
	}
	return &out
}
