package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/servebench/servebench/metrics"
)

// The block of how sure the figures are: at most sureWidth columns, for people. The
// result JSON has all of it.
const (
	sureWidth  = 100
	labelWidth = 40 // vLLM's
)

// sure writes the intervals of the figures above and what the run as a whole says.
func sure(w io.Writer, t *Table) {
	intervalTable(w, t)
	if t.Analysis == nil {
		return
	}
	line(w, "")
	whole(w, t)
}

// whole writes what the run as a whole says.
func whole(w io.Writer, t *Table) {
	plateau(w, t)
	rates(w, t.Analysis)
	goodput(w, t.Analysis.Goodput)
	if t.Summary.QueueWait != nil { // that of an open loop
		openLoop(w, t.Analysis)
	}
}

// latencies are the rows that have intervals: vLLM's metrics and those of the server
// beside them.
func (t *Table) latencies() (rows []Row) {
	for _, s := range t.Sections {
		if s.Dist != nil {
			rows = append(rows, Row{Label: s.Name, Dist: s.Dist})
		}
	}
	for _, r := range t.Own {
		if !r.Client {
			rows = append(rows, r)
		}
	}
	return rows
}

// steadyRows are the metrics that are shown, inside a plateau that is long enough. But
// for TTFT they are read by events with tokens, which is said where that is not the
// same.
func (t *Table) steadyRows() (rows []Row) {
	if t.Analysis == nil || t.Analysis.Steady == nil || tooShort(t.Analysis.Steady) != "" {
		return nil
	}
	s, run := t.Analysis.Steady, t.Summary
	of := map[string][2]*metrics.Dist{
		"TTFT": {s.TTFT, run.VLLM.TTFT}, "TPOT": {s.TPOT, run.Token.TPOT}, "ITL": {s.ITL, run.Token.ITL}, "E2EL": {s.E2EL, run.Token.E2EL},
	}
	for _, sec := range t.Sections {
		inside, whole := of[sec.Name][0], of[sec.Name][1]
		if inside == nil {
			continue
		}
		label := sec.Name
		if !sameDist(whole, sec.Dist) {
			label += " (token)"
		}
		rows = append(rows, Row{Label: label + ", steady state", Dist: inside})
	}
	return rows
}

// label is the row's with a mark where a histogram answers for its percentiles.
func (r *Row) label() string {
	if r.Dist.Source == "exact" {
		return r.Label
	}
	return r.Label + " [" + r.Dist.Source + "]"
}

// high is the highest percentile below 100 that was asked for, or the 99th.
func (t *Table) high() float64 {
	p := 0.0
	for _, q := range t.Percentiles {
		if q < 100 {
			p = max(p, q)
		}
	}
	if p <= 50 {
		return 99
	}
	return p
}

func percentileName(p float64) string { return "p" + strconv.FormatFloat(p, 'f', -1, 64) }

// intervalTable writes the intervals of the median and of the highest percentile.
func intervalTable(w io.Writer, t *Table) {
	rows, p := append(t.latencies(), t.steadyRows()...), t.high()
	if len(rows) == 0 {
		return
	}
	line(w, "")
	some := false
	for _, r := range rows {
		some = some || r.Dist.Interval(50) != nil || r.Dist.Interval(p) != nil
	}
	if !some {
		wrapped(w, "", fmt.Sprintf("No intervals: the samples are too few. The median takes %d, %s %d.", metrics.IntervalNeeds(50), percentileName(p), metrics.IntervalNeeds(p)))
		notes(w, t, rows)
		return
	}
	put := func(label, median, high, tail string) {
		line(w, fmt.Sprintf("%-26s %-24s %-24s %s", label, median, high, tail))
	}
	put("95 % intervals (ms)", "p50", percentileName(p), percentileName(p)+" at most (MLPerf)")
	for _, r := range rows {
		tail := short(metrics.TailNeeds(p))
		if v, ok := r.Dist.Tail(p); ok {
			tail = "≤ " + figureText(v)
		}
		put(r.label(), cell(r.Dist, 50), cell(r.Dist, p), tail)
	}
	notes(w, t, rows)
}

// cell is a percentile with its interval, or with the number of samples that one
// takes.
func cell(d *metrics.Dist, p float64) string {
	v, ok := d.Percentile(p)
	if !ok {
		return "-"
	}
	if in := d.Interval(p); in != nil {
		return figureText(v) + " " + span(*in)
	}
	if need := metrics.IntervalNeeds(p); need > 0 {
		return figureText(v) + " [" + short(need) + "]"
	}
	return figureText(v)
}

func span(in metrics.Interval) string {
	return "[" + figureText(in.Low) + ", " + figureText(in.High) + "]"
}

// short marks too few samples.
func short(need int) string {
	if need == 0 {
		return "-"
	}
	return "n < " + strconv.Itoa(need)
}

// figureText has five digits, at most three of them decimals.
func figureText(v float64) string {
	decimals := 3
	for limit := 100.0; decimals > 0 && (v >= limit || v <= -limit); limit *= 10 {
		decimals--
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// notes say what makes the intervals less than they look.
func notes(w io.Writer, t *Table, rows []Row) {
	for _, r := range append(rows, t.Own...) {
		if r.Dist.Source != "exact" {
			wrapped(w, "", "["+r.Dist.Source+"]: read from a histogram of three digits, as the samples are more than --raw-samples.")
			break
		}
	}
	if a := t.Analysis; a != nil {
		if text := alike(a); text != "" {
			wrapped(w, "", text)
		}
	}
}

// alike names the metrics whose samples are no repeats of each other.
func alike(a *metrics.Analysis) string {
	var parts []string
	for _, m := range []struct {
		name string
		in   *metrics.Independence
	}{{"TTFT", &a.TTFT}, {"TPOT", &a.TPOT}, {"ITL", &a.ITL}, {"E2EL", &a.E2EL}} {
		if m.in.Alike() {
			parts = append(parts, fmt.Sprintf("%s %.0f of %d (rho %.2f)", m.name, *m.in.EffectiveN, m.in.N, *m.in.Rho))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "Neighbouring requests are alike, so that these intervals are too narrow. Samples in effect: " + strings.Join(parts, ", ") + "."
}

// plateau writes the steady state of a closed loop; of one that is too short only
// that.
func plateau(w io.Writer, t *Table) {
	s := t.Analysis.Steady
	if s == nil {
		return
	}
	if why := tooShort(s); why != "" {
		value(w, "Steady state:", why)
		return
	}
	value(w, "Steady state (s):", fmt.Sprintf("%.2f to %.2f of %.2f, %s of %d requests in flight", s.From.Seconds(), s.To.Seconds(), t.Seconds, figureText(s.InFlight), s.Target))
	if t.Analysis.Throughput == nil {
		if !t.Pooled {
			value(w, "Steady output throughput (tok/s):", figureText(s.TokenRate))
		}
		value(w, "Steady request throughput (req/s):", figureText(s.RequestRate))
	}
	settled := s.NoSettled
	if s.Settled != nil {
		settled = fmt.Sprintf("%.2f of the steady state (MSER-5)", s.Settled.Seconds())
	}
	value(w, "Token rate settles after (s):", settled)
}

// tooShort is the plateau's warning of its length; "" where it is long enough.
func tooShort(s *metrics.Steady) string {
	for _, text := range s.Warnings {
		if text != s.NoSettled {
			return text
		}
	}
	return ""
}

// rates write the throughput with its intervals: of the plateau of a closed loop,
// else past the fill.
func rates(w io.Writer, a *metrics.Analysis) {
	r := a.Throughput
	if r == nil {
		if a.Steady == nil || tooShort(a.Steady) == "" { // else that was said
			value(w, "Throughput interval:", "none: "+a.NoThroughput)
		}
		return
	}
	name := "Steady %s throughput (%s/s):"
	if a.Steady == nil {
		value(w, "Past the fill (s):", fmt.Sprintf("%.2f to %.2f", r.From.Seconds(), r.To.Seconds()))
		name = "Past it, %s throughput (%s/s):"
	}
	for _, e := range []struct {
		what, unit string
		of         *metrics.Estimate
	}{{"output", "tok", r.OutputTokens}, {"request", "req", r.Requests}} {
		if e.of == nil || e.of.Value == 0 {
			continue // nothing is generated
		}
		text := figureText(e.of.Value) + " " + span(e.of.Interval)
		if e.of.Optimistic() {
			text += fmt.Sprintf(", rough: neighbouring batches correlate by %.2f", e.of.Rho)
		}
		value(w, fmt.Sprintf(name, e.what, e.unit), text)
	}
}

func goodput(w io.Writer, g *metrics.Goodput) {
	if g == nil {
		return
	}
	value(w, "Goodput (% of requests):", fmt.Sprintf("%.1f [%.1f, %.1f], %d of %d", 100*g.Share, 100*g.Interval.Low, 100*g.Interval.High, g.Good, g.N))
}

// openLoop writes whether the server kept up, and whether we kept the schedule.
func openLoop(w io.Writer, a *metrics.Analysis) {
	switch s := a.Saturation; {
	case s == nil:
		value(w, "Over-saturated:", "not known: "+a.NoSaturation)
	case s.Over:
		value(w, "Over-saturated:", fmt.Sprintf("yes: from %.2f to %.2f s each second adds %s waiting requests to a mean of %s and %s ms to TTFT from due time",
			s.From.Seconds(), s.To.Seconds(), figureText(s.Outstanding.Slope), figureText(s.Outstanding.Mean), figureText(s.TTFT.Slope)))
	default:
		found, _, _ := strings.Cut(s.Reason, ":") // the figures have no room here
		value(w, "Over-saturated:", fmt.Sprintf("no: on the whole %s, from %.2f to %.2f s", found, s.From.Seconds(), s.To.Seconds()))
	}
	r := a.Arrivals
	if r == nil {
		return
	}
	text := fmt.Sprintf("%s of %s requests/s", figureText(r.Achieved), figureText(r.Offered))
	if g := r.Gaps; g != nil && g.Rejected() {
		text += fmt.Sprintf("; the gaps are not those asked for (p %.2g, distance %.2g)", g.P, g.D)
	} else if g != nil {
		text += fmt.Sprintf("; the gaps are as asked for (p %.2g)", g.P)
	}
	value(w, "Arrivals, achieved of offered:", text)
}

// value writes a label and a text beside it, over as many lines as it takes.
func value(w io.Writer, label, text string) {
	wrapped(w, fmt.Sprintf("%-*s ", labelWidth, label), text)
}

// wrapped breaks a text between words; what follows the first line stands below its
// beginning.
func wrapped(w io.Writer, head, text string) {
	left, row := sureWidth-utf8.RuneCountInString(head), ""
	for _, word := range strings.Fields(text) {
		if row != "" && utf8.RuneCountInString(row)+1+utf8.RuneCountInString(word) > left {
			line(w, head+row)
			head, row = strings.Repeat(" ", utf8.RuneCountInString(head)), ""
		}
		if row != "" {
			row += " "
		}
		row += word
	}
	line(w, head+row)
}
