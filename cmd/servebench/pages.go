package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/report"
)

// writePages writes the pages that were asked for, beside the result or where it
// would be, and returns the names of those that were written.
func (o *options) writePages(res *bench.Result) (written []string, err error) {
	stem := strings.TrimSuffix(o.resultPath(res.Config.Model), ".json")
	add := func(path string, draw func(io.Writer) error) {
		if wrong := writePage(path, draw); wrong != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", path, wrong))
			return
		}
		written = append(written, path)
	}
	page := report.Page{Simulated: res.Simulated(), Facts: facts(res)}
	name := printable(res.Config.Model)
	if o.plotTimeline {
		page.Title = "Timeline: " + name
		add(stem+".timeline.html", func(w io.Writer) error { return report.Timeline(w, page, res.Records, o.thresholds) })
	}
	if o.plotStats {
		page.Title = "Lengths: " + name
		add(stem+".dataset_stats.html", func(w io.Writer) error { return report.Lengths(w, page, res.Records) })
	}
	return written, err
}

// writePage makes a file that appears whole or not at all.
func writePage(path string, draw func(io.Writer) error) error {
	file, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o666))
	if err != nil {
		return err
	}
	defer file.Cleanup()
	if err := draw(file); err != nil {
		return err
	}
	return file.CloseAtomicallyReplace()
}

// facts are what stands above a page's charts.
func facts(res *bench.Result) [][2]string {
	c := &res.Config
	load := "closed loop"
	switch {
	case c.Ramp != nil:
		load = c.Ramp.String()
	case c.Dataset.Name == "timed_trace" && !c.IgnoreTimes:
		load = "the times of the trace"
	case !c.Rate.IsInf():
		load = fmt.Sprintf("%v requests/s, burstiness %v", c.Rate, c.Burstiness)
	}
	if c.MaxConcurrency > 0 {
		load += fmt.Sprintf(", %d at a time", c.MaxConcurrency)
	}
	return [][2]string{
		{"model", printable(cmp.Or(c.Model, "not known"))}, {"backend", c.Backend}, {"data set", c.Dataset.Name}, {"load", load},
		{"requests", fmt.Sprintf("%d, %d failed", res.Summary.Completed+res.Summary.Failed, res.Summary.Failed)},
		{"duration", fmt.Sprintf("%.2f s", res.Duration.Seconds())}, {"started", res.Start.Format("2006-01-02 15:04:05 MST")},
	}
}
