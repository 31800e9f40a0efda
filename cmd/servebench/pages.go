package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/report"
	"github.com/servebench/servebench/manifest"
)

// pages are the pages that were asked for, of a result that may be unknown before the
// run: beside the result file, or where it would be. A run in which nothing was sent or
// succeeded has nothing to draw, and says why by itself.
func (o *options) pages(model string, res *bench.Result) (out []bench.Page) {
	stem, red := withoutExt(o.resultPath(model)), o.redactor()
	add := func(kind, title string, draw func(io.Writer, report.Page) error) {
		out = append(out, bench.Page{Path: stem + kind, Write: func(w io.Writer) error {
			return draw(w, report.Page{Title: title + red.Hide(printable(model)), Simulated: res.Simulated(), Facts: facts(res, red)})
		}})
	}
	if o.plotTimeline && (res == nil || res.Summary.Completed+res.Summary.Failed > 0) {
		add(".timeline.html", "Timeline: ", func(w io.Writer, p report.Page) error {
			return report.Timeline(w, p, res.Records, res.Series, o.thresholds, o.table(res, nil))
		})
	}
	if o.plotStats && (res == nil || res.Summary.Completed > 0) {
		add(".dataset_stats.html", "Lengths: ", func(w io.Writer, p report.Page) error { return report.Lengths(w, p, res.Records) })
	}
	return out
}

// withoutExt is a path without the last suffix of its file name, as Python's
// os.path.splitext cuts it.
func withoutExt(path string) string {
	if name := filepath.Base(path); strings.TrimLeft(name, ".") != "" {
		return strings.TrimSuffix(path, filepath.Ext(strings.TrimLeft(name, ".")))
	}
	return path
}

// facts are what stands above a page's charts.
func facts(res *bench.Result, red *manifest.Redactor) [][2]string {
	c := &res.Config
	load := "closed loop"
	switch {
	case c.Ramp != nil:
		load = c.Ramp.String()
	case c.Traced():
		load = "the times of the trace"
	case !c.Rate.IsInf():
		load = fmt.Sprintf("%v requests/s, burstiness %v", c.Rate, c.Burstiness)
	}
	if c.MaxConcurrency > 0 {
		load += fmt.Sprintf(", %d at a time", c.MaxConcurrency)
	}
	return [][2]string{
		{"model", red.Hide(printable(cmp.Or(c.Model, "not known")))}, {"backend", c.Backend}, {"data set", c.Dataset.Name}, {"load", load},
		{"requests", fmt.Sprintf("%d, %d failed", res.Summary.Completed+res.Summary.Failed, res.Summary.Failed)},
		{"duration", fmt.Sprintf("%.2f s", res.Duration.Seconds())}, {"started", res.Start.Format("2006-01-02 15:04:05 MST")},
	}
}
