package report

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/servebench/servebench/metrics"
	"github.com/servebench/servebench/metrics/stat"
)

// bins of a histogram, at most: as many as `vllm bench serve` draws.
const bins = 30

// histogram counts whole numbers in bins of one width: bin i holds
// [Low + i*Width, Low + (i+1)*Width).
type histogram struct {
	Name   string `json:"name"`
	Low    int    `json:"low"`
	Width  int    `json:"width"`
	Counts []int  `json:"counts"`
}

type lengths struct {
	Kind       string      `json:"kind"`
	Histograms []histogram `json:"histograms"`
	Prompts    []int       `json:"prompts"`
	Outputs    []int       `json:"outputs"`
}

// Lengths writes an HTML page with the distributions of prompt, output and all
// tokens of the requests that succeeded, and both numbers of each of them: what
// `vllm bench serve --plot-dataset-stats` draws. The error is the writer's, or
// that no request succeeded.
func Lengths(w io.Writer, p Page, records []metrics.Record) error {
	l := lengths{Kind: "lengths"}
	var total []int
	for i := range records {
		if r := &records[i]; r.Outcome == metrics.OK {
			l.Prompts = append(l.Prompts, r.PromptTokens)
			l.Outputs = append(l.Outputs, r.OutputTokens)
			total = append(total, r.PromptTokens+r.OutputTokens)
		}
	}
	if len(total) == 0 {
		return errors.New("dataset statistics: no request succeeded")
	}
	if left := len(records) - len(total); left > 0 {
		p.Notes = append(p.Notes, fmt.Sprintf("%d of %d requests did not succeed and are left out.", left, len(records)))
	}
	figures := table{Head: []string{"tokens", "n", "sum", "min", "mean", "p50", "p90", "p99", "max"}}
	for _, s := range []struct {
		name   string
		values []int
	}{{"prompt", l.Prompts}, {"output", l.Outputs}, {"prompt + output", total}} {
		l.Histograms = append(l.Histograms, histogramOf(s.name, s.values))
		figures.Rows = append(figures.Rows, figuresOf(s.name, s.values))
	}
	return p.write(w, []string{"prompt", "output", "total", "each"}, figures, l)
}

// histogramOf spreads values over bins of one whole width.
func histogramOf(name string, values []int) histogram {
	low, high := values[0], values[0]
	for _, v := range values {
		low, high = min(low, v), max(high, v)
	}
	h := histogram{Name: name, Low: low, Width: (high - low + bins) / bins}
	h.Counts = make([]int, (high-low)/h.Width+1)
	for _, v := range values {
		h.Counts[(v-low)/h.Width]++
	}
	return h
}

func figuresOf(name string, values []int) []string {
	sorted := slices.Sorted(slices.Values(values))
	n, at := len(sorted), func(i int) float64 { return float64(sorted[i]) }
	sum := 0
	for _, v := range sorted {
		sum = min(sum+v, 1<<53) // servers may tell any number
	}
	row := []string{name, strconv.Itoa(n), strconv.Itoa(sum), strconv.Itoa(sorted[0])}
	mean, _ := stat.Mean(n, at)
	row = append(row, fmt.Sprintf("%.1f", mean))
	for _, p := range []float64{.5, .9, .99} {
		v, _ := stat.Quantile(n, at, p)
		row = append(row, fmt.Sprintf("%.1f", v))
	}
	return append(row, strconv.Itoa(sorted[n-1]))
}
