package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tidwall/gjson"
	"github.com/urfave/cli/v2"

	"github.com/servebench/servebench/bench/importer"
	"github.com/servebench/servebench/bench/stored"
	"github.com/servebench/servebench/manifest"
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
				Flags: []cli.Flag{
					historyFlag,
					&cli.StringSliceFlag{Name: "allow-difference", Usage: "a fact that may differ from the history's runs; may be repeated"},
					&cli.StringFlag{Name: "max-failures", Value: "0%", Usage: "share of requests that may have failed in a run, as of servebench gate"},
				},
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
	names, err := filesOf(dir)
	if err != nil {
		return nil, err
	}
	var all []kept
	for _, n := range names {
		path := filepath.Join(dir, n)
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
	dir := c.String("history")
	if !c.Args().Present() {
		return usagef("baseline add: no file; want one or more results or manifests")
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return &exitError{code: exitUsage, err: fmt.Errorf("--history: %w", err)}
	}
	policy := stored.Policy{Differ: c.StringSlice("allow-difference")}
	var err error
	if text := c.String("max-failures"); text != "" {
		if policy.Failures, err = share(text); err != nil {
			return usagef("--max-failures: %w", err)
		}
	}
	earlier, err := readHistory(dir)
	if err != nil {
		return &exitError{code: exitUsage, err: fmt.Errorf("--history: %w", err)}
	}
	for _, path := range c.Args().Slice() {
		run, err := t.keep(dir, path, earlier, policy)
		if err != nil {
			return err
		}
		earlier = append(earlier, run)
	}
	return nil
}

// keep adds one file's run to a history.
func (t *terminal) keep(dir, path string, earlier []kept, policy stored.Policy) (kept, error) {
	name, text, err := keptText(path, localRedactor(nil))
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
		if k.run.Same(&run) {
			t.notef("%s is there already, as %s", path, k.path)
			return k, nil
		}
		before = append(before, k.run)
	}
	checks, _ := stored.Checks(before, runs, policy)
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
func keptText(path string, red *manifest.Redactor) (name string, text []byte, err error) {
	data, err := readText(path)
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
	texts, err := importer.Split(data)
	if err != nil {
		return "", nil, err
	}
	for i := range texts {
		if texts[i], err = cleanJSON(texts[i], red); err != nil {
			return "", nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if doc := gjson.ParseBytes(texts[0]); doc.Get("servebench_baseline").Exists() { // one of a history
		part := func(name string) []byte {
			if v := doc.Get(name); v.IsObject() {
				return []byte(v.Raw)
			}
			return nil
		}
		return stored.Keep(part("result"), part("manifest"))
	}
	if runs[0].Form == stored.Manifest {
		return stored.Keep(nil, texts[0])
	}
	beside, err := manifestBeside(path, &runs[0])
	if beside != nil && err == nil {
		beside, err = cleanJSON(beside, red)
	}
	if err != nil {
		return "", nil, err
	}
	return stored.Keep(texts[0], beside)
}

// manifestBeside is the text of the manifest of the same run; nil where there is none.
func manifestBeside(path string, run *stored.Run) ([]byte, error) {
	name := strings.TrimSuffix(strings.TrimSuffix(path, ".json"), ".result") + ".manifest.json"
	text, err := readText(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := stored.Read(name, text)
	if err != nil || len(m) != 1 || !m[0].OfSameRun(run) {
		return nil, err
	}
	return text, nil
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
		return &exitError{code: exitUsage, err: fmt.Errorf("--history: %w", err)}
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
		return &exitError{code: exitUsage, err: fmt.Errorf("--history: %w", err)}
	}
	if anchor+keep >= len(all) {
		t.notef("%s: all stay", count(len(all), "run"))
		return nil
	}
	gone, stay := all[anchor:len(all)-keep], slices.Concat(all[:anchor], all[len(all)-keep:])
	for i, k := range gone {
		same := func(o kept) bool { return o.path == k.path }
		switch {
		case slices.ContainsFunc(gone[:i], same):
			continue
		case slices.ContainsFunc(stay, same): // a file of several runs, which was put there by hand
			t.notef("%s stays: it has runs that stay", k.path)
			continue
		}
		if !c.Bool("dry-run") {
			if err := os.Remove(k.path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return &exitError{code: exitUnsaved, err: err}
			}
		}
		fmt.Fprintln(t.out, k.path)
	}
	return nil
}
