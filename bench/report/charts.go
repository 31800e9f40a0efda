package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/servebench/servebench/metrics"
)

// sureCharts are what page.js draws of how sure the figures are; times in seconds
// since schedule zero.
type sureCharts struct {
	Course      *course       `json:"course,omitempty"`
	Percentiles []percentiles `json:"percentiles,omitempty"`
}

// course is the token rate and the requests in flight over time.
type course struct {
	Slice    float64   `json:"slice"`
	Tokens   []float64 `json:"tokens"`
	InFlight []float64 `json:"in_flight"`
	// Window is what the throughput is of, named by WindowName; nil: none.
	Window     []float64 `json:"window,omitempty"`
	WindowName string    `json:"window_name,omitempty"`
	// Settled is where the token rate settles by MSER-5, if it does so later than
	// at once.
	Settled float64 `json:"settled,omitempty"`
	// Rate is the window's mean of output tokens a second, with its interval if it
	// has one.
	Rate     float64   `json:"rate,omitempty"`
	Interval []float64 `json:"interval,omitempty"`
}

// percentiles of one metric in milliseconds: an interval is null where there are
// too few samples.
type percentiles struct {
	Name      string        `json:"name"`
	At        []string      `json:"at"`
	Values    []float64     `json:"values"`
	Intervals []*[2]float64 `json:"intervals"`
}

func chartsOf(t *Table, records []metrics.Record) (c sureCharts) {
	m := metrics.CourseOf(records)
	c.Course = &course{Slice: m.Slice.Seconds(), Tokens: m.TokenRate, InFlight: m.InFlight}
	if t.Analysis != nil {
		c.Course.mark(t.Analysis)
	}
	for _, r := range t.latencies() {
		c.Percentiles = append(c.Percentiles, percentilesOf(r, t.Percentiles))
	}
	return c
}

// mark adds the window that the analysis looked at.
func (c *course) mark(a *metrics.Analysis) {
	window := func(name string, from, to time.Duration) {
		c.WindowName, c.Window = name, []float64{from.Seconds(), to.Seconds()}
	}
	switch {
	case a.Steady != nil:
		window("steady state", a.Steady.From, a.Steady.To)
		c.Rate = a.Steady.TokenRate
		if s := a.Steady.Settled; s != nil && *s > 0 {
			c.Settled = (a.Steady.From + *s).Seconds()
		}
	case a.Throughput != nil:
		window("past the fill", a.Throughput.From, a.Throughput.To)
	case a.Saturation != nil:
		window("past the fill", a.Saturation.From, a.Saturation.To)
	}
	if r := a.Throughput; r != nil && r.OutputTokens != nil {
		c.Rate = r.OutputTokens.Value
		c.Interval = []float64{r.OutputTokens.Interval.Low, r.OutputTokens.Interval.High}
	}
}

// shownPercentiles are those that a page has: the usual ones and those asked for, in
// order.
func shownPercentiles(asked []float64) []float64 {
	all := append([]float64{50, 90, 95, 99}, asked...)
	slices.Sort(all)
	return slices.Compact(all)
}

func percentilesOf(r Row, asked []float64) percentiles {
	out := percentiles{Name: r.label()}
	for _, p := range shownPercentiles(asked) {
		v, ok := r.Dist.Percentile(p)
		if !ok {
			continue
		}
		out.At, out.Values = append(out.At, percentileName(p)), append(out.Values, v)
		var in *[2]float64
		if i := r.Dist.Interval(p); i != nil {
			in = &[2]float64{i.Low, i.High}
		}
		out.Intervals = append(out.Intervals, in)
	}
	return out
}

// page is the table of figures on a page: what the screen has no room for.
func (t *Table) page() table {
	asked := shownPercentiles(t.Percentiles)
	high := t.high()
	out := table{Head: []string{"ms [95 % interval]", "n", "mean"}}
	for _, p := range asked {
		out.Head = append(out.Head, percentileName(p))
	}
	out.Head = append(out.Head, percentileName(high)+" at most", "rho", "n in effect")
	client := slices.DeleteFunc(slices.Clone(t.Own), func(r Row) bool { return !r.Client })
	for _, r := range slices.Concat(t.latencies(), t.steadyRows(), client) {
		in := t.independence(r.Dist)
		mean := figureText(r.Dist.Mean)
		if in != nil && in.Mean != nil {
			mean += "\n" + span(in.Mean.Interval)
		}
		row := []string{r.label(), strconv.Itoa(r.Dist.N), mean}
		for _, p := range asked {
			row = append(row, strings.Replace(cell(r.Dist, p), " ", "\n", 1))
		}
		tail := short(metrics.TailNeeds(high))
		if v, ok := r.Dist.Tail(high); ok {
			tail = figureText(v)
		}
		rho, worth := "", ""
		if in != nil && in.Rho != nil {
			rho, worth = fmt.Sprintf("%.2f", *in.Rho), fmt.Sprintf("%.0f", *in.EffectiveN)
		}
		out.Rows = append(out.Rows, append(row, tail, rho, worth))
	}
	if len(out.Rows) == 0 {
		return table{}
	}
	return out
}

// independence is that of a metric over the whole run, in the reading in which it was
// looked at; nil for another.
func (t *Table) independence(d *metrics.Dist) *metrics.Independence {
	a, s := t.Analysis, t.Summary
	if a == nil {
		return nil
	}
	for _, m := range []struct {
		of *metrics.Dist
		in *metrics.Independence
	}{{s.VLLM.TTFT, &a.TTFT}, {s.Token.TPOT, &a.TPOT}, {s.Token.ITL, &a.ITL}, {s.Token.E2EL, &a.E2EL}} {
		if sameDist(m.of, d) {
			return m.in
		}
	}
	return nil
}

// sameDist tells that two readings of a metric are one.
func sameDist(a, b *metrics.Dist) bool {
	return a == b || a != nil && b != nil && a.N == b.N && a.Mean == b.Mean && a.Max == b.Max
}

// certainty is what the screen says below its intervals, as the lines of a page.
func (t *Table) certainty() (out []string) {
	var b strings.Builder
	if t.Analysis != nil {
		whole(&b, t)
		if text := alike(t.Analysis); text != "" {
			out = append(out, text)
		}
	}
	for _, l := range strings.Split(strings.TrimSpace(b.String()), "\n") {
		if text := strings.TrimSpace(l); strings.HasPrefix(l, " ") && len(out) > 0 {
			out[len(out)-1] += " " + text
		} else if text != "" {
			out = append(out, strings.Join(strings.Fields(text), " "))
		}
	}
	return out
}
