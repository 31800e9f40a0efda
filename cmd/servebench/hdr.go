package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/google/renameio/v2"
	"github.com/urfave/cli/v2"

	"github.com/servebench/servebench/metrics"
)

// hdrPercents are those that `servebench hdr` prints.
var hdrPercents = []float64{50, 90, 99, 99.9}

// hdrCommand is `servebench hdr`: histogram logs, merged.
func hdrCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "hdr",
		Usage:     "print histogram logs (run.hdr), of several runs, replicas or clients merged",
		ArgsUsage: "FILE...",
		Description: "Counts of the same metric add up, so that percentiles are those of all samples together. " +
			"Figures come from buckets: of three significant digits in logs of servebench serve. Values are nanoseconds in the log and printed in milliseconds.",
		HideHelpCommand: true,
		OnUsageError:    wrongFlag,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "json", Usage: "print JSON"},
			&cli.StringFlag{Name: "out", TakesFile: true, Usage: "write the merged log to `FILE`"},
		},
		Action: func(c *cli.Context) error { return mergeHDR(c, t) },
	}
}

func mergeHDR(c *cli.Context, t *terminal) error {
	names := c.Args().Slice()
	if len(names) == 0 {
		return usagef("hdr: no file; want histogram logs, as servebench serve --save-result writes them, or - for standard input")
	}
	out := c.String("out")
	if err := replaceable(out); err != nil {
		return usagef("--out: %v", err)
	}
	var merged []*metrics.HDR
	for _, name := range names {
		if out != "" && filepath.Clean(name) == filepath.Clean(out) {
			return usagef("--out: %s is one of the logs to read; want another name", quoteWord(out))
		}
		all, err := readHDR(name)
		if err != nil {
			return err
		}
		for _, h := range all {
			i := slices.IndexFunc(merged, func(o *metrics.HDR) bool { return o.Tag == h.Tag })
			if i < 0 {
				merged = append(merged, h)
			} else if err := merged[i].Merge(h); err != nil {
				return &exitError{code: exitInvalid, err: fmt.Errorf("%s: %w", name, err)}
			}
		}
	}
	if len(merged) == 0 {
		return &exitError{code: exitInvalid, err: errors.New("hdr: no histogram in " + count(len(names), "file"))}
	}
	if err := sayHDR(t.out, merged, len(names), c.Bool("json")); err != nil {
		return &exitError{code: exitUnsaved, err: err}
	}
	if out == "" {
		return nil
	}
	if err := saveHDR(out, merged); err != nil {
		return &exitError{code: exitUnsaved, err: fmt.Errorf("%s: %w", out, err)}
	}
	t.notef("saved %s", out)
	return nil
}

// readHDR reads a log by its lines; it may be longer than what fits in memory.
func readHDR(name string) ([]*metrics.HDR, error) {
	in := io.Reader(os.Stdin)
	if name != standardInput {
		file, err := os.Open(name)
		if err != nil {
			return nil, &exitError{code: exitUsage, err: err}
		}
		defer file.Close()
		if st, err := file.Stat(); err == nil && st.IsDir() {
			return nil, usagef("%s is a folder; want a histogram log", name)
		}
		in = file
	}
	all, err := metrics.ReadHDR(in)
	if err != nil {
		return nil, &exitError{code: exitInvalid, err: fmt.Errorf("%s: %w", name, err)}
	}
	return all, nil
}

// replaceable tells whether a new file may take the place of what has a name: a
// device or a pipe would be gone.
func replaceable(path string) error {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file; want the name of a file", quoteWord(path))
	}
	return nil
}

func saveHDR(to string, all []*metrics.HDR) error {
	file, err := renameio.NewPendingFile(to, renameio.WithTempDir(filepath.Dir(to)), renameio.WithPermissions(0o666))
	if err != nil {
		return err
	}
	defer file.Cleanup()
	if err := metrics.WriteHDRs(file, all); err != nil {
		return err
	}
	return file.CloseAtomicallyReplace()
}

// hdrFigures are what is printed of one metric, in milliseconds.
type hdrFigures struct {
	Metric    string             `json:"metric"`
	Intervals int                `json:"intervals"`
	Count     int64              `json:"count"`
	Digits    int                `json:"significant_digits"`
	Min       float64            `json:"min_ms"`
	Mean      float64            `json:"mean_ms"`
	Max       float64            `json:"max_ms"`
	Percent   map[string]float64 `json:"percentiles_ms"`
}

func figuresOf(h *metrics.HDR) hdrFigures {
	const ms = 1e6
	f := hdrFigures{Metric: h.Tag, Intervals: h.Intervals, Count: h.Count(), Digits: h.Digits(), Mean: h.Mean() / ms, Percent: map[string]float64{}}
	if f.Metric == "" {
		f.Metric = "untagged"
	}
	f.Min, f.Max = float64(h.Percentile(0))/ms, float64(h.Percentile(100))/ms
	for i, v := range h.Percentiles(hdrPercents...) {
		f.Percent[fmt.Sprintf("p%v", hdrPercents[i])] = float64(v) / ms
	}
	return f
}

// sayHDR prints the figures of logs.
func sayHDR(w io.Writer, all []*metrics.HDR, logs int, asJSON bool) error {
	doc := struct {
		Source  string       `json:"source"`
		Logs    int          `json:"logs"`
		Metrics []hdrFigures `json:"metrics"`
	}{Source: "histogram", Logs: logs}
	for _, h := range all {
		doc.Metrics = append(doc.Metrics, figuresOf(h))
	}
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(doc)
	}
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tab, "ms\tcount\tmin\tmean\t")
	for _, p := range hdrPercents {
		fmt.Fprintf(tab, "p%v\t", p)
	}
	fmt.Fprintln(tab, "max\t")
	digits := doc.Metrics[0].Digits
	for _, f := range doc.Metrics {
		digits = min(digits, f.Digits)
		fmt.Fprintf(tab, "%s\t%d\t%.3f\t%.3f\t", f.Metric, f.Count, f.Min, f.Mean)
		for _, p := range hdrPercents {
			fmt.Fprintf(tab, "%.3f\t", f.Percent[fmt.Sprintf("p%v", p)])
		}
		fmt.Fprintf(tab, "%.3f\t\n", f.Max)
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "From histograms of %s, of %s: every figure but the counts is of a bucket.\n", count(digits, "significant digit"), count(logs, "log"))
	return err
}
