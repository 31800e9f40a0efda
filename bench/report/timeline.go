package report

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/servebench/servebench/metrics"
)

// segmentsMax bounds the bars of a timeline: beyond it a browser stutters.
const segmentsMax = 250_000

// The kinds of a timeline's segments, in the order of its legend.
const (
	segQueue  = iota // from the due time to the sending
	segTTFT          // to the first event
	segShort         // gaps below the first threshold
	segMiddle        // gaps between the thresholds
	segLong          // gaps of the second threshold and longer
	segAnswer        // an answer in one piece
	segFailed        // a request that failed, from its sending to its end
)

// segment is one bar: [request, kind, start, end, gaps, longest gap], times in
// milliseconds since schedule zero.
type segment [6]float64

// timeline is what page.js draws.
type timeline struct {
	Kind     string      `json:"kind"`
	Names    []string    `json:"names"`
	Requests []request   `json:"requests"`
	Segments []segment   `json:"segments"`
	Limits   [2]float64  `json:"limits"`
	Health   *healthData `json:"health,omitempty"`
	sureCharts
}

type request struct {
	Label string `json:"label"`
	Text  string `json:"text"` // what a tooltip says of it
}

// Timeline writes an HTML page with a row for each request that was sent: its
// wait for a slot, its time to first token, and its gaps coloured by two
// thresholds in milliseconds, as `vllm bench serve --plot-timeline` draws them.
// Neighbouring gaps of one colour are one bar. Below it the token rate and the
// requests in flight over time, with the window that is looked at, the percentiles of
// figures with their intervals, and what the client did meanwhile; figures and series
// may be nil. The error is the writer's, or that nothing was sent.
func Timeline(w io.Writer, p Page, records []metrics.Record, series *metrics.Series, thresholds [2]float64, figures *Table) error {
	t := timeline{Kind: "timeline", Limits: thresholds, Names: []string{
		"waiting to be sent", "TTFT",
		fmt.Sprintf("ITL < %v ms", thresholds[0]),
		fmt.Sprintf("%v ms ≤ ITL < %v ms", thresholds[0], thresholds[1]),
		fmt.Sprintf("ITL ≥ %v ms", thresholds[1]),
		"answer in one piece", "failed",
	}}
	sent := 0
	for i := range records {
		r := &records[i]
		if r.Outcome == "" || r.Outcome == metrics.Dropped {
			continue
		}
		sent++
		segments := segmentsOf(r, float64(len(t.Requests)), thresholds)
		if len(t.Segments)+len(segments) > segmentsMax {
			continue
		}
		t.Segments = append(t.Segments, segments...)
		t.Requests = append(t.Requests, describe(r))
	}
	if sent == 0 {
		return errors.New("timeline: no request was sent")
	}
	if drawn := len(t.Requests); drawn < sent {
		p.Notes = append(p.Notes, fmt.Sprintf("%d of %d requests are drawn: more bars than %d are too many for a browser.", drawn, sent, segmentsMax))
	}
	charts := []string{"timeline"}
	var below table
	if figures != nil {
		t.sureCharts = chartsOf(figures, records)
		charts = append(charts, "course")
		if len(t.Percentiles) > 0 {
			charts = append(charts, "percentiles")
		}
		p.Notes = append(append(figures.verdictNotes(), p.Notes...), figures.certainty()...)
		below = figures.page()
	}
	if t.Health = healthPanels(series); t.Health != nil {
		for i := range t.Health.Panels {
			charts = append(charts, fmt.Sprintf("panel%d", i))
		}
		if width := series.Width; width > time.Second {
			p.Notes = append(p.Notes, fmt.Sprintf("The client's charts have a point for every %v.", width))
		}
	}
	return p.write(w, charts, below, t)
}

// verdictNotes are the verdict and what it rests on; nil without one.
func (t *Table) verdictNotes() (notes []string) {
	j := t.Verdict
	if j == nil {
		return nil
	}
	text := fmt.Sprintf("Verdict: %s. %s", j.Verdict, j.Sentence)
	for i, r := range j.Reasons {
		text += map[bool]string{true: " Reasons: ", false: "; "}[i == 0] + r.Text
	}
	if len(j.Reasons) > 0 {
		text += "."
	}
	if why := meaning(j); why != "" {
		text += " " + why
	}
	return []string{text}
}

func describe(r *metrics.Record) request {
	text := fmt.Sprintf("prompt %d tokens, output %d tokens", r.PromptTokens, r.OutputTokens)
	if r.Outcome != metrics.OK {
		text = fmt.Sprintf("%s after %d events", r.Outcome, len(r.Arrivals))
	}
	return request{
		Label: fmt.Sprintf("request %d", r.Seq),
		Text:  fmt.Sprintf("%s, from %.1f to %.1f ms", text, ms(r.Sent), ms(r.Done)),
	}
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// segmentsOf are the bars of one request in row y.
func segmentsOf(r *metrics.Record, y float64, thresholds [2]float64) (out []segment) {
	bar := func(kind int, from, to time.Duration) {
		out = append(out, segment{y, float64(kind), ms(from), ms(to), 1, ms(to - from)})
	}
	if r.Sent > r.Due {
		bar(segQueue, r.Due, r.Sent)
	}
	n := len(r.Arrivals)
	switch {
	case r.Outcome != metrics.OK && n == 0:
		bar(segFailed, r.Sent, r.Done)
		return out
	case n == 0:
		bar(segAnswer, r.Sent, r.Done)
		return out
	}
	bar(segTTFT, r.Sent, r.Arrivals[0])
	for i := 1; i < n; i++ {
		from, to := r.Arrivals[i-1], r.Arrivals[i]
		kind, gap := kindOf(ms(to-from), thresholds), ms(to-from)
		if last := &out[len(out)-1]; int(last[1]) == kind {
			last[3], last[4], last[5] = ms(to), last[4]+1, max(last[5], gap)
			continue
		}
		bar(kind, from, to)
	}
	if r.Outcome != metrics.OK {
		bar(segFailed, r.Arrivals[n-1], r.Done)
	}
	return out
}

func kindOf(gap float64, thresholds [2]float64) int {
	switch {
	case gap < thresholds[0]:
		return segShort
	case gap < thresholds[1]:
		return segMiddle
	}
	return segLong
}
