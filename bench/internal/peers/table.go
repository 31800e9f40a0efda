package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/servebench/servebench/bench/internal/simproc"
)

// table is what was measured with one number of streams.
type table struct {
	streams int
	runs    map[string][]figures // by client, in order
	failed  error
}

// rows are the figures of a table.
var rows = []struct {
	label string
	of    func(figures) float64
}{
	{"TTFT p50 error, ms", func(f figures) float64 { return f.ttft }},
	{"ITL p99 error, ms", func(f figures) float64 { return f.itl }},
	{"CPU per event, µs", func(f figures) float64 { return f.cpu }},
	{"peak memory, MB", func(f figures) float64 { return f.peak }},
	{"start-up to the first request, ms", func(f figures) float64 { return f.first }},
}

// write prints the tables in Markdown: medians with the extremes beside them, and
// each client's ratio to ours.
func write(w io.Writer, peers []peer, tables []table, machine string) {
	ours := peers[0].name
	fmt.Fprintf(w, "Each figure is the median of the runs (smallest–largest); a ratio is to %s's, run by run, its median.\n%s.\n\n", ours, machine)
	head, rule := "| streams | |", "|---|---|"
	for _, p := range peers {
		if p.why != "" {
			continue
		}
		head, rule = head+" "+p.name+" |", rule+"---|"
		if p.name != ours {
			head, rule = head+" ratio |", rule+"---|"
		}
	}
	fmt.Fprintln(w, head)
	fmt.Fprintln(w, rule)
	for _, t := range tables {
		for i, r := range rows {
			line := "| "
			if i == 0 {
				line += fmt.Sprint(t.streams)
			}
			line += " | " + r.label + " |"
			for _, p := range peers {
				if p.why != "" {
					continue
				}
				line += " " + cell(values(t.runs[p.name], r.of)) + " |"
				if p.name != ours {
					line += " " + ratio(values(t.runs[ours], r.of), values(t.runs[p.name], r.of)) + " |"
				}
			}
			fmt.Fprintln(w, line)
		}
	}
	fmt.Fprintln(w)
	for _, p := range peers {
		if p.why != "" {
			fmt.Fprintf(w, "%s: not measured: %s.\n", p.name, p.why)
		}
	}
	for _, t := range tables {
		if t.failed != nil {
			fmt.Fprintf(w, "not measured: %s.\n", strings.ReplaceAll(t.failed.Error(), "\n", ";\n  "))
		}
	}
}

func values(runs []figures, of func(figures) float64) (out []float64) {
	for _, f := range runs {
		out = append(out, of(f))
	}
	return out
}

// cell is a median and the extremes; fewer runs than asked for show in their number.
func cell(v []float64) string {
	if len(v) == 0 || slices.ContainsFunc(v, math.IsNaN) {
		return "not measured"
	}
	if len(v) == 1 {
		return number(v[0]) + " (n=1)"
	}
	return fmt.Sprintf("%s (%s–%s, n=%d)", number(simproc.Quantile(v, .5)), number(slices.Min(v)), number(slices.Max(v)), len(v))
}

// number has three significant digits, or as many as stand before the point.
func number(v float64) string {
	digits := 2 - int(math.Floor(math.Log10(max(math.Abs(v), 1e-3))))
	return fmt.Sprintf("%.*f", min(max(digits, 0), 3), v)
}

// ratio is the median of theirs over ours, run by run. Where an error of ours is
// not above zero there is none.
func ratio(ours, theirs []float64) string {
	var r []float64
	for i := range min(len(ours), len(theirs)) {
		if !(ours[i] > 0) || !(theirs[i] > 0) {
			return "–"
		}
		r = append(r, theirs[i]/ours[i])
	}
	if len(r) == 0 {
		return "–"
	}
	return number(simproc.Quantile(r, .5)) + " ×"
}

// machine says what the runs were made on.
func machine() string {
	name := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s, %s, %d cores shared by client and simulator", runtime.GOOS, name, runtime.NumCPU())
}

// loadAverage is that of the minute before; "unknown" where no one tells.
func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(data), " ")
	return first
}
