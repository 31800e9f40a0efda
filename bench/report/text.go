// Package report shows a run to people: every form is a function of a writer
// and data, and measures nothing.
package report

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/servebench/servebench/metrics"
)

// Table is what the table of `vllm bench serve` says, and what it does not.
type Table struct {
	Simulated      bool
	MaxConcurrency int     // 0: the row is left out
	Rate           float64 // requests a second; 0: left out
	Seconds        float64 // duration
	Goodput        *float64
	RequestRate    float64 // completed a second
	OutputRate     float64 // tokens a second
	TotalRate      float64
	Summary        *metrics.Summary
	Percentiles    []float64
	Sections       []Section // vLLM's, in its order
	Speculation    *metrics.Speculation
	Own            []Row // below vLLM's table
	Warnings       []string
	Files          []string
}

// Section is one of vLLM's metric blocks.
type Section struct {
	Title, Name string
	Dist        *metrics.Dist // nil: no sample
}

// Row is one distribution on one line.
type Row struct {
	Label string
	Dist  *metrics.Dist
}

// titles are vLLM's headings and names of its metrics.
var titles = map[string][2]string{
	"ttft":                        {"Time to First Token", "TTFT"},
	"tpot":                        {"Time per Output Token (excl. 1st token)", "TPOT"},
	"itl":                         {"Inter-token Latency", "ITL"},
	"e2el":                        {"End-to-end Latency", "E2EL"},
	"client_queue_time":           {"Client-side Queueing", "Client Queue Time"},
	"e2el_including_client_queue": {"Queue-inclusive End-to-end Latency", "E2EL incl. Client Queue"},
}

// SectionOf returns the block of one of vLLM's metrics.
func SectionOf(metric string, d *metrics.Dist) Section {
	t := titles[metric]
	return Section{t[0], t[1], d}
}

// Text writes the table with vLLM's labels, order and widths, which scripts
// grep, and below it what vLLM does not show.
func Text(w io.Writer, t *Table) error {
	b := bufio.NewWriter(w)
	s := t.Summary
	line(b, center(" Serving Benchmark Result ", '='))
	count := func(label string, n int64) { line(b, fmt.Sprintf("%-40s %-10d", label, n)) }
	real := func(label string, v float64) { line(b, fmt.Sprintf("%-40s %-10.2f", label, v)) }
	count("Successful requests:", int64(s.Completed))
	count("Failed requests:", int64(s.Failed))
	if t.MaxConcurrency > 0 {
		count("Maximum request concurrency:", int64(t.MaxConcurrency))
	}
	if t.Rate > 0 {
		real("Request rate configured (RPS):", t.Rate)
	}
	real("Benchmark duration (s):", t.Seconds)
	count("Total input tokens:", s.InputTokens)
	count("Total generated tokens:", s.OutputTokens)
	real("Request throughput (req/s):", t.RequestRate)
	if t.Goodput != nil {
		real("Request goodput (req/s):", *t.Goodput)
	}
	real("Output token throughput (tok/s):", t.OutputRate)
	real("Peak output token throughput (tok/s):", float64(s.PeakTokens))
	real("Peak concurrent requests:", float64(s.PeakConcurrency))
	real("Total token throughput (tok/s):", t.TotalRate)
	for _, sec := range t.Sections {
		section(b, sec, t.Percentiles)
	}
	if sp := t.Speculation; sp != nil {
		line(b, center("Speculative Decoding", '-'))
		real("Acceptance rate (%):", sp.Rate())
		real("Acceptance length:", sp.Length())
		count("Drafts:", sp.Drafts)
		count("Draft tokens:", sp.DraftTokens)
		count("Accepted tokens:", sp.Accepted)
		if len(sp.AcceptedAt) > 0 {
			line(b, "Per-position acceptance (%):")
		}
		for i, p := range sp.Positions() {
			real(fmt.Sprintf("  Position %d:", i), 100*p)
		}
	}
	line(b, strings.Repeat("=", 50))
	own(b, t)
	return b.Flush()
}

func line(w io.Writer, s string) { fmt.Fprintln(w, strings.TrimRight(s, " ")) }

// center is Python's centred format over 50 columns.
func center(s string, fill rune) string {
	n := max(0, 50-len(s))
	return strings.Repeat(string(fill), n/2) + s + strings.Repeat(string(fill), n-n/2)
}

func section(w io.Writer, sec Section, percentiles []float64) {
	line(w, center(sec.Title, '-'))
	row := func(label string, v float64, ok bool) {
		text := "n/a"
		if ok {
			text = fmt.Sprintf("%.2f", v)
		}
		line(w, fmt.Sprintf("%-40s %-10s", label+" "+sec.Name+" (ms):", text))
	}
	d, ok := sec.Dist, sec.Dist != nil
	if !ok {
		d = &metrics.Dist{}
	}
	row("Mean", d.Mean, ok)
	row("Median", d.Median, ok)
	for _, p := range percentiles {
		v, have := d.Percentile(p)
		row("P"+strconv.FormatFloat(p, 'f', -1, 64), v, have)
	}
}

// own writes what vLLM's table does not have.
func own(w io.Writer, t *Table) {
	line(w, "")
	line(w, fmt.Sprintf("%-40s %-10d", "In flight at most:", t.Summary.MaxInFlight))
	line(w, fmt.Sprintf("%-40s %-10.2f", "Peak output token rate (tok/s):", t.Summary.MaxTokenRate))
	if len(t.Own) > 0 {
		line(w, "")
		line(w, fmt.Sprintf("%-28s %8s %10s %10s %10s %10s", "servebench (ms)", "n", "mean", "p50", "p90", "p99"))
		for _, r := range t.Own {
			at := func(p float64) string {
				v, ok := r.Dist.Percentile(p)
				if !ok {
					return "-"
				}
				return fmt.Sprintf("%.3f", v)
			}
			line(w, fmt.Sprintf("%-28s %8d %10.3f %10s %10s %10s", r.Label, r.Dist.N, r.Dist.Mean, at(50), at(90), at(99)))
		}
	}
	if t.Simulated {
		line(w, "")
		line(w, "SIMULATED: the target is servebench's own simulator, not a model.")
	}
	list(w, "Warnings:", t.Warnings)
	list(w, "Files:", t.Files)
}

func list(w io.Writer, title string, items []string) {
	if len(items) == 0 {
		return
	}
	line(w, "")
	line(w, title)
	for _, it := range items {
		line(w, "  - "+it)
	}
}
