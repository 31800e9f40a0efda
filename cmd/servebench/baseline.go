package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/servebench/servebench/bench/importer"
	"github.com/servebench/servebench/bench/stored"
)

var historyFlag = &cli.StringFlag{Name: "history", TakesFile: true, Required: true, Usage: "folder of the history"}

// baselineCommand is `servebench baseline`.
func baselineCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:  "baseline",
		Usage: "keep the history that servebench gate --history judges by",
		Description: "A history is a folder with one file a run. Nothing in it is ever changed, so that jobs may add to it at the same time; prune takes files away.\n" +
			"A history holds runs of one kind: one model, workload, machine and client. What is under test, the server's version and parameters, may change.",
		Subcommands: []*cli.Command{
			{
				Name: "add", Usage: "add results", ArgsUsage: "FILE ...", Action: t.baselineAdd,
				Flags: []cli.Flag{historyFlag, &cli.StringSliceFlag{Name: "allow-difference", Usage: "a fact that may differ from the history's runs; may be repeated"}},
			},
			{Name: "list", Usage: "list the runs of a history, the oldest first", Action: t.baselineList, Flags: []cli.Flag{historyFlag}},
			{
				Name: "prune", Usage: "take away runs, but neither the oldest nor the newest", Action: t.baselinePrune,
				Flags: []cli.Flag{
					historyFlag,
					&cli.IntFlag{Name: "keep", Value: 50, Usage: "how many of the newest stay"},
					&cli.IntFlag{Name: "anchor", Value: 10, Usage: "how many of the oldest stay: a baseline that only rolls on follows every small loss"},
					&cli.BoolFlag{Name: "dry-run", Usage: "only say which"},
				},
			},
		},
	}
}

// kept is one run of a history.
type kept struct {
	path string
	run  stored.Run
}

// readHistory reads a history, the oldest run first.
func readHistory(dir string) ([]kept, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []kept
	for _, e := range entries {
		if !e.Type().IsRegular() || !strings.HasSuffix(e.Name(), ".json") || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		runs, err := readOne(path)
		if err != nil {
			return nil, err
		}
		for _, r := range runs {
			all = append(all, kept{path, r})
		}
	}
	slices.SortStableFunc(all, func(a, b kept) int { return a.run.At.Compare(b.run.At) })
	return all, nil
}

func (t *terminal) baselineAdd(c *cli.Context) error {
	if err := flagsFirst(c, "baseline add"); err != nil {
		return err
	}
	dir := c.String("history")
	if !c.Args().Present() {
		return usagef("baseline add: no file; want one or more results or manifests")
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return &exitError{code: exitUsage, err: fmt.Errorf("--history: %w", err)}
	}
	earlier, err := readHistory(dir)
	if err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	for _, path := range c.Args().Slice() {
		run, err := t.keep(dir, path, earlier, c.StringSlice("allow-difference"))
		if err != nil {
			return err
		}
		earlier = append(earlier, run)
	}
	return nil
}

// keep adds one file's run to a history.
func (t *terminal) keep(dir, path string, earlier []kept, differ []string) (kept, error) {
	name, text, err := keptText(path)
	if err != nil {
		return kept{}, &exitError{code: exitUsage, err: err}
	}
	runs, err := stored.Read(path, text)
	if err != nil {
		return kept{}, &exitError{code: exitUsage, err: err}
	}
	run := runs[0]
	var before []stored.Run
	for _, k := range earlier {
		before = append(before, k.run)
	}
	checks, _ := stored.Checks(before, runs, stored.Policy{Failures: 1, Differ: differ})
	for _, check := range checks {
		if !check.Holds && check.Name != "equal_work" {
			return kept{}, &exitError{code: exitInvalid, err: fmt.Errorf("%s is not added: %s", path, check.Reason), hint: "another --history for another kind of run; --allow-difference KEY for a fact that does not matter"}
		}
	}
	if run.Verdict == "SUSPECT" {
		t.notef("%s is SUSPECT: %s", path, strings.Join(run.Reasons, "; "))
	}
	target := filepath.Join(dir, name)
	switch err := writeNew(dir, target, text); {
	case errors.Is(err, os.ErrExist):
		t.notef("%s is there already, as %s", path, target)
	case err != nil:
		return kept{}, &exitError{code: exitUnsaved, err: err}
	default:
		fmt.Fprintln(t.out, target)
	}
	return kept{target, run}, nil
}

// keptText is what a history keeps of a file: of a result, with the manifest beside it.
func keptText(path string) (name string, text []byte, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	runs, err := stored.Read(path, data)
	if err != nil {
		return "", nil, err
	}
	if len(runs) > 1 {
		return "", nil, fmt.Errorf("%s holds %d results; want a file for each", path, len(runs))
	}
	if bytes.Contains(data[:min(len(data), 64)], []byte("servebench_baseline")) {
		return filepath.Base(path), data, nil // one of a history
	}
	texts, err := importer.Split(data)
	if err != nil {
		return "", nil, err
	}
	if runs[0].Form == stored.Manifest {
		return stored.Keep(nil, texts[0])
	}
	stem := strings.TrimSuffix(strings.TrimSuffix(path, ".json"), ".result")
	beside, err := os.ReadFile(stem + ".manifest.json")
	if err == nil {
		if m, e := stored.Read(stem+".manifest.json", beside); e != nil || len(m) != 1 || !m[0].OfSameRun(&runs[0]) {
			beside = nil
		}
	}
	return stored.Keep(texts[0], beside)
}

// writeNew writes a file that is not there yet: it appears whole, and of two jobs that
// add the same run one finds it there.
func writeNew(dir, target string, text []byte) error {
	f, err := os.CreateTemp(dir, ".adding-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), target)
}

func (t *terminal) baselineList(c *cli.Context) error {
	all, err := readHistory(c.String("history"))
	if err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	w := tabwriter.NewWriter(t.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "at\tverdict\toutput tok/s\tsteady tok/s\tserver\tfile")
	for _, k := range all {
		number := func(metric string) string {
			if m := k.run.Metric(metric); m != nil {
				return fmt.Sprintf("%.1f", m.Value)
			}
			return "-"
		}
		at, server := "-", []string{}
		if !k.run.At.IsZero() {
			at = k.run.At.UTC().Format(time.RFC3339)
		}
		for _, f := range k.run.Facts {
			if f.Key == "engine" || f.Key == "engine_version" {
				server = append(server, f.Value)
			}
		}
		verdict := k.run.Verdict
		if verdict == "" {
			verdict = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", at, printable(verdict), number("output_throughput"), number(stored.SteadyThroughput), printable(strings.Join(server, " ")), printable(filepath.Base(k.path)))
	}
	return w.Flush()
}

func (t *terminal) baselinePrune(c *cli.Context) error {
	keep, anchor := c.Int("keep"), c.Int("anchor")
	if keep < 0 || anchor < 0 {
		return usagef("baseline prune: --keep %d, --anchor %d; want 0 or more", keep, anchor)
	}
	all, err := readHistory(c.String("history"))
	if err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	if anchor+keep >= len(all) {
		t.notef("%s: all stay", count(len(all), "run"))
		return nil
	}
	for _, k := range all[anchor : len(all)-keep] {
		if !c.Bool("dry-run") {
			if err := os.Remove(k.path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return &exitError{code: exitUnsaved, err: err}
			}
		}
		fmt.Fprintln(t.out, k.path)
	}
	return nil
}
