package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/google/renameio/v2"

	"github.com/servebench/servebench/bench/report"
	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/bench/sweep"
)

// study is an experiment with the options of each of its points, in their order.
type study struct {
	experiment sweep.Experiment
	options    []*options
	notes      []string
	dir        string // takes all files
	resume     bool
	only       []string
}

// What an experiment needs from elsewhere; tests have their own.
var (
	// resolveStudy reads an experiment file; args are flags of serve, which go
	// before those of every point.
	resolveStudy = func(ctx context.Context, t *terminal, path string, args []string) (*study, error) {
		x, err := t.resolveExperiment(ctx, path, args)
		if err != nil {
			return nil, err
		}
		x.AsWritten = x.Order == "as_written"
		return &study{experiment: *x.Experiment, options: x.Options, notes: x.Warnings}, nil
	}
	// startServer starts a server that is not in this process.
	startServer = func(ctx context.Context, t *terminal, c server.Config) (sweep.Server, error) {
		g, err := t.launch(ctx, c)
		if err != nil {
			return nil, err // a nil *Group must not become an interface
		}
		return g, nil
	}
)

const sweepHelp = `servebench sweep -f FILE: run the experiment that a YAML file describes.

  -f, --file FILE    the experiment file
  --resume           go on where an earlier process has ended
  --only ID,...      run these points alone; with --resume those that did not complete again
  --dry-run          show the plan and how long it takes; run nothing
  --result-dir DIR   folder of all files, also of the state for --resume

Every flag of servebench serve may follow; it goes before what the file says, for all points.

Exit codes: 0 every point completed, or did not as the file allows (on_failure, deadline);
2 usage; 4 a file holds what must not be published (--fail-on-leak); 5 a point failed, or
its failure ended the experiment; 6 something could not be saved; 128 + N after signal N:
the first ends the present run softly, the second at once, and --resume goes on.
`

// sweepLine is a command line of sweep: its own flags, and those of serve.
type sweepLine struct {
	file   string
	resume bool
	only   []string
	help   bool
	rest   []string
}

// readSweepLine takes the flags of sweep out of args.
func readSweepLine(args []string) (l sweepLine, err error) {
	var errs []error
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		switch name {
		case "-f", "--file", "--only":
			if !joined {
				if i++; i == len(args) {
					errs = append(errs, fmt.Errorf("%s needs a value", name))
					continue
				}
				value = args[i]
			}
			if name == "--only" {
				for id := range strings.SplitSeq(value, ",") {
					l.only = append(l.only, strings.TrimSpace(id))
				}
			} else {
				if l.file != "" {
					errs = append(errs, fmt.Errorf("%s is given twice; want one experiment file", name))
				}
				l.file = value
			}
		case "--resume":
			if l.resume = !joined || value == "true"; joined && value != "true" && value != "false" {
				errs = append(errs, fmt.Errorf("--resume is a switch, got =%s; write --resume, or --resume=false", quoteWord(value)))
			}
		case "-h", "--help":
			l.help = true
		default:
			l.rest = append(l.rest, args[i])
		}
	}
	if l.file == "" && !l.help {
		errs = append(errs, errors.New("-f is missing; want the experiment file"))
	}
	return l, errors.Join(errs...)
}

// sweepCommand is `servebench sweep`: args are the words after it.
func sweepCommand(ctx context.Context, args []string, t *terminal) error {
	l, err := readSweepLine(args)
	if err != nil {
		return &exitError{code: exitUsage, err: err, hint: "servebench sweep --help"}
	}
	if l.help {
		_, err := io.WriteString(t.out, sweepHelp)
		return err
	}
	parsed, err := normalize(l.rest, serveFlags())
	if err != nil {
		return &exitError{code: exitUsage, err: err, hint: "servebench sweep --help, and servebench serve --help for the flags of all points"}
	}
	for _, w := range parsed.Warnings {
		t.notef("warning: %s", w)
	}
	if flag := listFlag(parsed.Words); flag != "" {
		return usagef("--%s: a list; want one value here, and a list under vary in the file", flag)
	}
	s, err := resolveStudy(ctx, t, l.file, l.rest)
	if err != nil {
		return err
	}
	s.resume, s.only = l.resume, l.only
	for i := range s.experiment.Points {
		s.experiment.Points[i].Config.Command = append([]string{"servebench", "sweep"}, args...)
	}
	if s.dir == "" && len(s.options) > 0 {
		s.dir = s.options[0].dir
	}
	return s.run(ctx, t)
}

// unsupported are flags that name a file for one run.
var unsupported = []struct {
	flag  string
	given func(*options) bool
}{
	{"result-filename", func(o *options) bool { return o.filename != "" }},
	{"append-result", func(o *options) bool { return o.appending }},
	{"manifest", func(o *options) bool { return o.manifest != "" }},
	{"records", func(o *options) bool { return o.records != "" }},
	{"plot-timeline", func(o *options) bool { return o.plotTimeline }},
	{"plot-dataset-stats", func(o *options) bool { return o.plotStats }},
}

// check tells what does not go with several runs, and returns what to note.
func (s *study) check() (notes []string, err error) {
	var errs []error
	for i, o := range s.options {
		for _, u := range unsupported {
			if u.given(o) && i == 0 {
				errs = append(errs, fmt.Errorf("--%s is for one run; want --result-dir, in which each run has its files", u.flag))
			}
		}
		if err := o.checkDescriptors(); err != nil {
			errs = append(errs, err)
		}
		for _, n := range o.notes() {
			if !slices.Contains(notes, n) && !strings.HasPrefix(n, "no --save-result") && n != namelessPlan {
				notes = append(notes, n)
			}
		}
	}
	if os.Getenv("SAVE_TO_PYTORCH_BENCHMARK_FORMAT") != "" {
		notes = append(notes, "SAVE_TO_PYTORCH_BENCHMARK_FORMAT has no effect on several runs")
	}
	return notes, errors.Join(errs...)
}

// checkNames refuses ids that hold what must not be published, since files are called
// so, and files of the author's that hold it, that have the name of another file of
// the experiment, or each other's: they are copied beside the results.
func (s *study) checkNames(t *terminal) error {
	red := experimentRedactor(&s.experiment)
	var errs []error
	ids := []string{s.experiment.About.ID}
	for i := range s.experiment.Points {
		ids = append(ids, s.experiment.Points[i].ID)
	}
	for _, id := range ids {
		if clean, kinds := red.String(id); clean != id {
			errs = append(errs, fmt.Errorf("the id %s holds what must not be published (%s), and files are called so; want another", quoteWord(clean), strings.Join(kinds, ", ")))
		}
	}
	taken := map[string]string{}
	for _, f := range s.experiment.About.ArtifactFiles {
		name := filepath.Base(f.Path)
		if clean, _ := red.String(name); clean != name {
			errs = append(errs, fmt.Errorf("the name of the artifact %s holds what must not be published; want another", quoteWord(clean)))
		}
		if other := taken[strings.ToLower(name)]; other != "" {
			errs = append(errs, fmt.Errorf("artifacts: %s and %s have the same name; want names of their own, as they go into one folder", other, f.Path))
		}
		taken[strings.ToLower(name)] = f.Path
		if isOurs(name, ids) {
			errs = append(errs, fmt.Errorf("artifacts: %s has the name of a file that the experiment writes; want another", f.Path))
		}
		if data, err := os.ReadFile(f.Path); err == nil && t.leaksIn(f.Path, data, red) {
			errs = append(errs, fmt.Errorf("artifacts: %s holds what must not be published; want it without", f.Path))
		}
	}
	return errors.Join(errs...)
}

// isOurs tells whether a file is called as those of one of the ids.
func isOurs(name string, ids []string) bool {
	return slices.ContainsFunc(ids, func(id string) bool {
		stem, rest := strings.ToLower(id), strings.ToLower(name)
		rest, ok := strings.CutPrefix(rest, stem)
		return ok && (strings.HasPrefix(rest, "-trial-") || strings.HasPrefix(rest, "-attempt-") ||
			slices.Contains([]string{".result.json", ".requests.jsonl", ".hdr", ".startup.log", ".server.log", ".manifest.json", ".experiment.json", ".html", ".state.json"}, rest))
	})
}

// run runs the experiment, saves it and shows what came out.
func (s *study) run(ctx context.Context, t *terminal) error {
	notes, err := s.check()
	if err == nil {
		err = s.experiment.Check()
	}
	if err == nil {
		_, err = sweep.Evidence(s.experiment.About.ArtifactFiles)
	}
	if err == nil {
		err = s.checkNames(t)
	}
	if err == nil {
		if _, _, e := encodeSweep(s.experiment, nil); e != nil {
			err = fmt.Errorf("what is declared fits no manifest of an experiment, which could not be saved after the runs: %w", e)
		}
	}
	if err != nil {
		return &exitError{code: exitUsage, err: flaggedPoints(err)}
	}
	s.dir = cmp.Or(s.dir, ".")
	for _, n := range append(s.notes, notes...) {
		t.notef("%s", n)
	}
	first := s.options[0]
	v := &sweepView{t: t, quiet: first.quiet, e: &s.experiment}
	note := func(n string) { v.pause(); t.notef("%s", n) }
	o := sweep.Options{
		Dir: s.dir, Resume: s.resume, Only: s.only, Selected: first.selected, Detailed: first.detailed, Secrets: secretsOfEnvironment(),
		Start: s.embed(t, note), Starting: v.starting, Began: v.began, Ended: v.ended, Note: note,
	}
	if first.dryRun {
		return s.printPlan(t, o)
	}
	s.attachSelftest(t)
	ctx, signals := catchSignals(ctx, t, func() string {
		return "no new requests, and the experiment ends with this run; a second signal ends all at once"
	})
	defer signals.stop()
	o.Stop = signals.soft
	outcomes, err := sweep.Run(ctx, s.experiment, o)
	v.pause()
	if outcomes == nil && err != nil && !errors.Is(err, sweep.ErrInterrupted) {
		return s.refused(err)
	}
	if saveErr := s.conclude(t, outcomes); saveErr != nil {
		t.fail(errors.Join(err, saveErr))
		return &exitError{code: exitUnsaved, err: errors.New("not everything could be saved")}
	}
	if first.failOnLeak {
		if leakErr := s.lookForLeaks(t); leakErr != nil {
			if err != nil {
				t.fail(err)
			}
			return leakErr
		}
	}
	switch {
	case errors.Is(err, sweep.ErrUnsaved):
		return &exitError{code: exitUnsaved, err: err}
	case errors.Is(err, sweep.ErrInterrupted):
		return &exitError{code: signals.code(), err: err, hint: s.resumeHint()}
	case err != nil:
		return s.refused(err)
	}
	return s.verdict(outcomes)
}

// resumeHint says how to go on.
func (s *study) resumeHint() string {
	if s.resumable() {
		return "--resume goes on with what is left"
	}
	return ""
}

// resumable tells whether the experiment comes from a file.
func (s *study) resumable() bool { return !strings.HasPrefix(s.experiment.About.ID, shorthandID) }

// refused is the error of an experiment that did not begin.
func (s *study) refused(err error) error {
	e := &exitError{code: exitUsage, err: flaggedPoints(err)}
	switch {
	case errors.Is(err, sweep.ErrUnsaved):
		e.code = exitUnsaved
	case strings.Contains(err.Error(), "want to resume"):
		e.hint = "--resume goes on with what is left; another --result-dir begins anew"
	}
	return e
}

// flaggedPoints writes flags in the errors of points with their dashes.
func flaggedPoints(err error) error {
	var out []string
	for l := range strings.SplitSeq(err.Error(), "\n") {
		if point, rest, ok := strings.Cut(l, ": "); ok && strings.HasPrefix(point, "point ") {
			l = point + ": " + flagged(errors.New(rest)).Error()
		}
		out = append(out, l)
	}
	return errors.New(strings.Join(out, "\n"))
}

// verdict is the exit code of an experiment that came to its end.
func (s *study) verdict(outcomes []sweep.Outcome) error {
	policy := map[string]sweep.OnFailure{}
	for _, p := range s.experiment.Points {
		policy[p.ID] = p.OnFailure
	}
	var failed []string
	for _, o := range outcomes {
		p := policy[o.PointID]
		if o.Failure != nil && (p.Stop || !p.Allow && p.Replacement == "") {
			failed = append(failed, o.PointID)
		}
	}
	if len(failed) == 0 {
		return nil
	}
	const shown = 5
	names := strings.Join(failed[:min(shown, len(failed))], ", ")
	if len(failed) > shown {
		names += ", …"
	}
	hint := ""
	if s.resumable() {
		hint = "--resume runs them again; on_failure says which failures are results"
	}
	return &exitError{code: exitTarget, err: fmt.Errorf("%d of %d points failed: %s", len(failed), len(s.experiment.Points), names), hint: hint}
}

// conclude writes the experiment's own files and shows the comparison.
func (s *study) conclude(t *terminal, outcomes []sweep.Outcome) error {
	if len(outcomes) == 0 {
		return nil
	}
	var errs []error
	var saved []string
	save := func(ending string, data []byte, err error) {
		path := filepath.Join(s.dir, s.experiment.About.ID+ending)
		if err == nil {
			err = renameio.WriteFile(path, data, 0o666, renameio.WithTempDir(s.dir))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
			return
		}
		saved = append(saved, path)
	}
	for _, f := range s.experiment.About.ArtifactFiles { // verify looks for them beside the manifest
		target := filepath.Join(s.dir, filepath.Base(f.Path))
		data, err := os.ReadFile(f.Path)
		if err == nil {
			err = renameio.WriteFile(target, data, 0o666, renameio.WithTempDir(s.dir))
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	doc, text, err := encodeSweep(s.experiment, outcomes)
	save(".experiment.json", text, err)
	points := comparison(&s.experiment, outcomes, doc)
	if slices.ContainsFunc(points, func(p report.Point) bool { return len(p.Trials) > 0 }) {
		var page bytes.Buffer
		err := report.Comparison(&page, s.page(outcomes), points)
		save(".html", page.Bytes(), err)
	}
	if err := s.show(t.out, points, outcomes, saved); err != nil && !errors.Is(err, syscall.EPIPE) {
		errs = append(errs, fmt.Errorf("the table: %w", err))
	}
	return errors.Join(errs...)
}

// lookForLeaks is --fail-on-leak over the experiment's files in its folder.
func (s *study) lookForLeaks(t *terminal) error {
	entries, err := os.ReadDir(s.dir)
	if err != nil { // what was not looked at is not clean
		return &exitError{code: exitUnsaved, err: fmt.Errorf("look for leaks: %w", err)}
	}
	var names []string
	for _, e := range entries {
		ours := func(id string) bool {
			return strings.HasPrefix(e.Name(), id+".") || strings.HasPrefix(e.Name(), id+"-")
		}
		if e.Type().IsRegular() && (ours(s.experiment.About.ID) ||
			slices.ContainsFunc(s.experiment.Points, func(p sweep.Point) bool { return ours(p.ID) }) ||
			slices.ContainsFunc(s.experiment.About.ArtifactFiles, func(f sweep.File) bool { return filepath.Base(f.Path) == e.Name() })) {
			names = append(names, filepath.Join(s.dir, e.Name()))
		}
	}
	return t.failOnLeak(names, experimentRedactor(&s.experiment))
}

// printPlan is --dry-run: it shows what would be run and runs nothing.
func (s *study) printPlan(t *terminal, o sweep.Options) error {
	steps, left, notes, err := sweep.Left(s.experiment, o)
	if err != nil {
		return s.refused(err)
	}
	for _, n := range notes {
		t.notef("%s", n)
	}
	var b strings.Builder
	starts, before := 0, ""
	for _, step := range steps {
		if step.Starts {
			starts++
			line := commandLine(step.Point)
			fmt.Fprintf(&b, "%*s  %s\n", len(fmt.Sprint(step.Of)), "", startText(before, line))
			before = line
		}
		fmt.Fprintf(&b, "%*d  %s\n", len(fmt.Sprint(step.Of)), step.Number, describeStep(step))
	}
	fmt.Fprintf(&b, "\n%s of %s, %s. Time: %v.\n", count(len(steps), "run"), count(len(s.experiment.Points), "point"), count(starts, "server start"), left)
	_, err = io.WriteString(t.out, b.String())
	return err
}
