// Package report shows a run to people: every form is a function of a writer
// and data, and measures nothing.
package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
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
	// Pooled tells that nothing was generated; SequenceRate is then the number of
	// texts a second.
	Pooled       bool
	SequenceRate float64
	// Errors are those of the first requests that failed.
	Errors      []string
	Summary     *metrics.Summary
	Percentiles []float64
	Probes      *metrics.Probes
	Sections    []Section // vLLM's, in its order
	Diffusion   *metrics.Diffusion
	Speculation *metrics.Speculation // not shown beside Diffusion
	Own         []Row                // below vLLM's table
	// Analysis says how sure the figures are; nil is not shown.
	Analysis *metrics.Analysis
	// Accounting says how the tokens of events are known and why so; "" is not
	// shown.
	Accounting string
	// Verdict is the judgement of the run; nil is not shown.
	Verdict  *metrics.Judgement
	Health   *metrics.Figures // what the verdict rests on; nil is not shown
	Warnings []string
	Files    []string
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
	// Client tells that it is the generator's own part, not the server's.
	Client bool
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
	failed(b, t)
	line(b, center(" Serving Benchmark Result ", '='))
	counts(b, t)
	probes(b, t.Probes)
	for _, sec := range t.Sections {
		section(b, sec, t.Percentiles)
	}
	if t.Diffusion != nil {
		diffusion(b, t)
	} else if t.Speculation != nil {
		speculation(b, t.Speculation)
	}
	line(b, strings.Repeat("=", 50))
	own(b, t)
	return b.Flush()
}

// most is how many failed requests vLLM lists.
const most = 10

// failed lists failed requests, for which vLLM has no room where nothing is
// generated.
func failed(w io.Writer, t *Table) {
	if len(t.Errors) == 0 || t.Pooled {
		return
	}
	line(w, "Failed requests during benchmark run detected (capping to 10):")
	for i, e := range t.Errors[:min(len(t.Errors), most)] {
		line(w, fmt.Sprintf("Error %d: %s", i, e))
	}
}

func count(w io.Writer, label string, n int64) { line(w, fmt.Sprintf("%-40s %-10d", label, n)) }

func decimal(w io.Writer, label string, v float64) { line(w, fmt.Sprintf("%-40s %-10.2f", label, v)) }

// counts are the rows before the sections.
func counts(w io.Writer, t *Table) {
	s := t.Summary
	count(w, "Successful requests:", int64(s.Completed))
	count(w, "Failed requests:", int64(s.Failed))
	if t.MaxConcurrency > 0 {
		count(w, "Maximum request concurrency:", int64(t.MaxConcurrency))
	}
	if t.Rate > 0 {
		decimal(w, "Request rate configured (RPS):", t.Rate)
	}
	decimal(w, "Benchmark duration (s):", t.Seconds)
	count(w, "Total input tokens:", s.InputTokens)
	if !t.Pooled {
		count(w, "Total generated tokens:", s.OutputTokens)
	}
	decimal(w, "Request throughput (req/s):", t.RequestRate)
	if t.Pooled {
		decimal(w, "Input throughput (inputs/s):", t.SequenceRate)
	} else {
		if t.Goodput != nil {
			decimal(w, "Request goodput (req/s):", *t.Goodput)
		}
		decimal(w, "Output token throughput (tok/s):", t.OutputRate)
		decimal(w, "Peak output token throughput (tok/s):", float64(s.PeakTokens))
		decimal(w, "Peak concurrent requests:", float64(s.PeakConcurrency))
	}
	decimal(w, "Total token throughput (tok/s):", t.TotalRate)
}

func probes(w io.Writer, p *metrics.Probes) {
	if p == nil || p.E2EL == nil {
		return
	}
	p99, _ := p.E2EL.Percentile(99)
	line(w, center("Probe Requests", '-'))
	count(w, "Probe requests completed:", int64(p.Completed))
	count(w, "Probe requests failed:", int64(p.Failed))
	decimal(w, "Median probe E2EL (ms):", p.E2EL.Median)
	decimal(w, "P99 probe E2EL (ms):", p99)
	decimal(w, "Max probe E2EL (ms):", p.E2EL.Max)
}

func diffusion(w io.Writer, t *Table) {
	d, rate := t.Diffusion, 0.0
	if t.Seconds > 0 {
		rate = float64(d.Committed) / t.Seconds
	}
	line(w, center("Diffusion Decoding", '-'))
	decimal(w, "Committed throughput (tok/s):", rate)
	decimal(w, "Denoising steps per canvas:", d.PerCanvas())
	decimal(w, "Committed per denoising step:", d.PerStep())
	count(w, "Committed tokens:", d.Committed)
	count(w, "Denoising steps:", int64(d.Denoising()))
	count(w, "Canvas positions evaluated:", d.Positions)
}

func speculation(w io.Writer, sp *metrics.Speculation) {
	line(w, center("Speculative Decoding", '-'))
	decimal(w, "Acceptance rate (%):", sp.Rate())
	decimal(w, "Acceptance length:", sp.Length())
	count(w, "Drafts:", sp.Drafts)
	count(w, "Draft tokens:", sp.DraftTokens)
	count(w, "Accepted tokens:", sp.Accepted)
	if len(sp.AcceptedAt) > 0 {
		line(w, "Per-position acceptance (%):")
	}
	for i, p := range sp.Positions() {
		decimal(w, fmt.Sprintf("  Position %d:", i), 100*p)
	}
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
	count(w, "In flight at most:", int64(t.Summary.MaxInFlight))
	if !t.Pooled {
		decimal(w, "Peak output token rate (tok/s):", t.Summary.MaxTokenRate)
	}
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
			line(w, fmt.Sprintf("%-28s %8d %10.3f %10s %10s %10s", r.label(), r.Dist.N, r.Dist.Mean, at(50), at(90), at(99)))
		}
	}
	sure(w, t)
	chunks(w, t)
	judged(w, t.Verdict)
	health(w, t.Health)
	if t.Simulated {
		line(w, "")
		line(w, "SIMULATED: the target is servebench's own simulator, not a model.")
	}
	list(w, "Warnings:", t.Warnings)
	list(w, "Files:", t.Files)
}

// judged writes the verdict, what it rests on, and what it means where delays of the
// client are in it.
func judged(w io.Writer, j *metrics.Judgement) {
	if j == nil {
		return
	}
	line(w, "")
	wrapped(w, fmt.Sprintf("Verdict: %s. ", j.Verdict), j.Sentence)
	for _, r := range j.Reasons {
		wrapped(w, "  - ", r.Text)
	}
	if text := meaning(j); text != "" {
		wrapped(w, "  ", text)
	}
}

// meaning says what it is for the numbers that the client was late; "" where no such
// rule was broken.
func meaning(j *metrics.Judgement) string {
	late := []string{"lag", "behind", "rx_delay", "sched_wait", "pause", "cpu", "gc", "throttled", "canary", "achieved_rate"}
	if j.Verdict == metrics.Valid || !slices.ContainsFunc(j.Reasons, func(r metrics.Reason) bool {
		return r.Verdict != metrics.Valid && slices.Contains(late, r.Rule)
	}) {
		return ""
	}
	if j.Verdict == metrics.Invalid {
		return "The numbers are not the server's alone. Most often the client's machine is too busy or too small for this load."
	}
	return "The numbers may hold delays of the client. Most often its machine is busy with other work."
}

// chunks writes what the events told of their tokens.
func chunks(w io.Writer, t *Table) {
	k := t.Summary.Chunks
	if k == nil && t.Accounting == "" {
		return
	}
	line(w, "")
	if k != nil {
		line(w, fmt.Sprintf("Tokens per chunk: mean %.3f, p50 %.4g, p99 %.4g, max %d; %.1f %% of %d chunks carry one.", k.Mean, k.P50, k.P99, k.Max, 100*k.Single, k.Chunks))
	}
	if t.Accounting != "" {
		line(w, "Token accounting: "+t.Accounting+".")
	}
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
