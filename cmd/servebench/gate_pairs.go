package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/gate"
	"github.com/servebench/servebench/bench/runfile"
	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/bench/stored"
	"github.com/servebench/servebench/bench/sweep"
	"github.com/servebench/servebench/manifest"
	"github.com/servebench/servebench/metrics"
	"github.com/servebench/servebench/metrics/stat"
)

// The sides of a pair.
const (
	sideBaseline  = "baseline"
	sideCandidate = "candidate"
)

// trials are the runs of a gate under way.
type trials struct {
	l       *gateLine
	t       *terminal
	dir     string
	options map[string]*options // by side
	signals *stopState

	salted  string       // why pairs have salts, a sentence; "" where they have none
	salt    string       // what those are made of
	runs    []stored.Run // in the order in which they were made
	details []gate.Run   // of the same
	pairs   [][2]int     // indices of baseline and candidate in runs
	orders  []string
}

// runPairs decides from pairs of runs.
func (l *gateLine) runPairs(ctx context.Context, t *terminal) (*gate.Report, error) {
	g := &trials{l: l, t: t, options: map[string]*options{}}
	if err := g.prepare(ctx); err != nil {
		return nil, err
	}
	if g.options[sideBaseline].dryRun {
		return nil, g.printPlan()
	}
	ctx, g.signals = catchSignals(ctx, t, func() string {
		return "no new requests, and the gate ends without a verdict; a second signal ends all at once"
	})
	defer g.signals.stop()
	for _, o := range g.options {
		o.at = g.place
	}
	if err := g.measure(ctx, l.pairs); err != nil {
		return g.broken(err), err
	}
	r := g.report()
	if l.extend && passed(r.Checks) && r.Primary != nil && r.Primary.Verdict == gate.Inconclusive {
		first := r.Primary.Reason
		t.notef("inconclusive after %d pairs: %d more, as declared", len(g.pairs), l.pairs)
		if err := g.measure(ctx, l.pairs); err != nil {
			return g.broken(err), err
		}
		r = g.report()
		r.Notes = append(r.Notes, fmt.Sprintf("Extended once, as declared: after %d pairs it was %s: %s", l.pairs, gate.Inconclusive, first))
	}
	return r, nil
}

// place is that of the next run, of those that are planned.
func (g *trials) place() (number, of int) {
	pairs := g.l.pairs
	if len(g.pairs) >= pairs {
		pairs *= 2 // the extension
	}
	return 2*len(g.pairs) + len(g.runs)%2 + 1, 2 * pairs
}

func passed(checks []gate.Check) bool {
	return !slices.ContainsFunc(checks, func(c gate.Check) bool { return !c.Holds })
}

// prepare reads the flags of the load for both sides.
func (g *trials) prepare(ctx context.Context) error {
	for _, side := range []struct{ name, url, command string }{
		{sideBaseline, g.l.baselineURL, g.l.baselineCommand}, {sideCandidate, g.l.candidateURL, g.l.candidateCommand},
	} {
		o, err := g.t.gateOptions(ctx, g.l.rest, side.name, side.url, side.command)
		if err != nil {
			return err
		}
		g.options[side.name] = o
		g.l.secrets = append(g.l.secrets, publicRedactor(&o.config, o.server).Secrets...)
	}
	first := g.options[sideBaseline]
	switch g.salt = first.config.Salt; g.salt {
	case "", bench.AutoSalt: // another gate must not find this one's prompts in a cache
		g.salt = bench.NewSalt()
	}
	if first.config.Salt != "" {
		g.salted = "Each pair had a salt of its own, as --salt asks."
	}
	g.dir = cmp.Or(first.dir, "gate-"+time.Now().Format("20060102-150405"))
	if entries, err := os.ReadDir(g.dir); err == nil && slices.ContainsFunc(entries, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "01-") }) {
		return usagef("--result-dir: %s has runs of a gate; want another folder", g.dir)
	}
	for _, n := range first.notes() {
		if !strings.HasPrefix(n, "no --save-result") {
			g.t.notef("%s", n)
		}
	}
	return nil
}

// gateOptions are those of one run of a gate: the flags of serve, aimed at a URL or at
// a server that is started by a command.
func (t *terminal) gateOptions(ctx context.Context, args []string, side, url, command string) (*options, error) {
	parsed, err := normalize(args, serveFlags())
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err, hint: "servebench gate --help, and servebench serve --help for the flags of the load"}
	}
	if flag := listFlag(parsed.Words); flag != "" {
		return nil, usagef("--%s: a list; want one value", flag)
	}
	line := parsed.given()
	if side != "" && line.has("base-url", "host", "port", "sim", "replica-url") {
		return nil, usagef("--%s-url or --%s-command names the server here; want no --base-url, --host, --port, --replica-url or --sim", sideBaseline, sideCandidate)
	}
	run, err := t.runOf(line)
	if err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	if url != "" {
		line.words, line.flags = append(slices.Clone(line.words), "--base-url="+url), append(slices.Clone(line.flags), "base-url")
	}
	o, err := t.resolveRun(ctx, run, line)
	if err != nil {
		return nil, err
	}
	if command != "" {
		words, err := runfile.Words(command)
		if err != nil || len(words) == 0 {
			return nil, usagef("--%s-command: %s is no command: %v", side, quoteWord(command), err)
		}
		c := server.Config{}
		if o.server != nil {
			c = *o.server
		}
		c.Command = words
		if err := c.Validate(); err != nil {
			return nil, &exitError{code: exitUsage, err: fmt.Errorf("--%s-command: %w", side, err)}
		}
		o.server = &c
	}
	for _, u := range unsupported {
		if u.given(o) {
			return nil, usagef("--%s is for one run; want --result-dir, in which each run has its files", u.flag)
		}
	}
	if err := o.valid(); err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	if err := o.checkDescriptors(); err != nil {
		return nil, &exitError{code: exitUsage, err: err}
	}
	if side != "" && !line.has("num-warmups") && o.config.Dataset.Warmups == 0 {
		o.config.Dataset.Warmups = warmups(&o.config)
	}
	o.config.Command = append([]string{"servebench", "serve"}, args...)
	o.config.Target.Dial = t.dial
	return o, nil
}

// warmups is how many requests go before the timed ones of a pair's runs, unless flags
// tell: a server's first requests are slow. One for each that is under way at a time.
func warmups(c *bench.Config) int {
	const most = 32
	n := most
	if c.MaxConcurrency > 0 {
		n = min(n, c.MaxConcurrency)
	}
	return min(n, c.Dataset.Prompts)
}

// order is that of the n-th pair, from 1: AB BA AB BA.
func order(n int) [2]string {
	if n%2 == 1 {
		return [2]string{sideBaseline, sideCandidate}
	}
	return [2]string{sideCandidate, sideBaseline}
}

func (g *trials) printPlan() error {
	for n := range g.l.pairs {
		o := order(n + 1)
		if _, err := fmt.Fprintf(g.t.out, "pair %d: %s, %s\n", n+1, o[0], o[1]); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(g.t.out, "\n%s, %d requests each, into %s.\n", count(2*g.l.pairs, "run"), g.options[sideBaseline].config.Dataset.Prompts, g.dir)
	return err
}

// measure makes n more pairs. An error is that of a run which could not be made.
func (g *trials) measure(ctx context.Context, n int) error {
	for goal := len(g.pairs) + n; len(g.pairs) < goal; {
		before := len(g.runs)
		switch err := g.pair(ctx, len(g.pairs)+1); {
		case errors.Is(err, errSalted): // from its first run on, or the two would differ
			g.runs, g.details = g.runs[:before], g.details[:before]
		case errors.Is(err, errUnfit):
			return nil // no pair can make up for it: the report says which and why
		case err != nil:
			return err
		}
	}
	return nil
}

// What ends a pair early: from here on pairs are salted; a run is INVALID.
var errSalted, errUnfit = errors.New("salted from here on"), errors.New("no fit run")

// pair makes the k-th pair.
func (g *trials) pair(ctx context.Context, k int) error {
	var at [2]int
	sides := order(k)
	for _, side := range sides {
		run, detail, err := g.run(ctx, k, side)
		if err != nil {
			return err
		}
		g.runs, g.details = append(g.runs, run), append(g.details, detail)
		at[slices.Index([]string{sideBaseline, sideCandidate}, side)] = len(g.runs) - 1
		if run.Verdict == string(metrics.Invalid) {
			return errUnfit
		}
	}
	g.pairs = append(g.pairs, at)
	g.orders = append(g.orders, map[string]string{sideBaseline: "AB", sideCandidate: "BA"}[sides[0]])
	return nil
}

// run makes one run, and once more where it is SUSPECT.
func (g *trials) run(ctx context.Context, pair int, side string) (stored.Run, gate.Run, error) {
	name := fmt.Sprintf("%02d-%s", pair, side)
	run, err := g.once(ctx, name, side, pair, false)
	repeated := false
	if err == nil && run.Verdict == string(metrics.Suspect) {
		g.t.notef("%s is SUSPECT (%s): it is repeated once", name, clip(strings.Join(run.Reasons, "; "), 200))
		name, repeated = name+"-again", true
		run, err = g.once(ctx, name, side, pair, true)
	}
	if err != nil {
		return run, gate.Run{}, err
	}
	run.Name = name
	return run, gate.Run{Name: name, Side: side, Verdict: run.Verdict, Reasons: run.Reasons, Repeated: repeated}, nil
}

// once makes one run as an experiment of its own, whose server, if it is ours, is
// started anew. errSalted tells that the prefix cache of a server cannot be emptied:
// this and all further pairs then have salts of their own.
func (g *trials) once(ctx context.Context, name, side string, pair int, again bool) (stored.Run, error) {
	o := g.options[side]
	config := o.config
	if o.server == nil && g.salted == "" {
		config.ResetPrefixCache = true
	}
	if g.salted != "" {
		config.Salt = g.saltOf(side, pair, again)
	}
	outcome, err := g.t.oneRun(ctx, g.dir, name, o, sweep.Point{ID: name, Name: name, Group: side, Config: config, ExactSalt: true, Server: o.server, Deadline: o.deadline}, g.signals)
	if err == nil && outcome.Failure != nil && outcome.Failure.Stage == "prefix_cache_reset" && !o.config.ResetPrefixCache && g.salted == "" {
		g.salted = "The servers' prefix caches could not be emptied (" + outcome.Failure.MessageSanitized + "); each pair had a salt of its own."
		g.t.notef("%s: %s; each pair gets a salt of its own", name, outcome.Failure.MessageSanitized)
		return stored.Run{}, errSalted
	}
	if err != nil {
		return stored.Run{}, err
	}
	if f := outcome.Failure; f != nil {
		return stored.Run{}, &exitError{code: exitTarget, err: fmt.Errorf("%s failed: %s", name, f.MessageSanitized), hint: "the verdict needs every run"}
	}
	runs, err := readStoredFile(filepath.Join(g.dir, name+".result.json"))
	if err != nil {
		return stored.Run{}, &exitError{code: exitUnsaved, err: err}
	}
	return runs[0], nil
}

// saltOf is the salt of a run: one for both sides of a pair, and another for each pair.
// A server that had the prompts of the pair before, because it is that of both sides
// or repeats a run, gets them under one more.
func (g *trials) saltOf(side string, pair int, again bool) string {
	key := []string{g.salt, strconv.Itoa(pair)}
	if g.shared() {
		key = append(key, side)
	}
	if again && g.options[side].server == nil {
		key = append(key, "again")
	}
	sum := sha256.Sum256([]byte(strings.Join(key, "\x00")))
	return hex.EncodeToString(sum[:10])
}

// shared tells that both sides are one server.
func (g *trials) shared() bool {
	a, b := g.options[sideBaseline], g.options[sideCandidate]
	return a.server == nil && b.server == nil && a.config.Target.BaseURL == b.config.Target.BaseURL
}

// oneRun runs a point by itself and saves its files in dir.
func (t *terminal) oneRun(ctx context.Context, dir, name string, o *options, p sweep.Point, signals *stopState) (sweep.Outcome, error) {
	p.Config.Target.Dial = t.dial
	s := &study{options: []*options{o}, experiment: sweep.Experiment{About: sweep.About{ID: "gate-" + name, Title: name}, Points: []sweep.Point{p}}}
	v := &sweepView{t: t, quiet: o.quiet, e: &s.experiment, at: o.at}
	note := func(n string) { v.pause(); t.notef("%s", n) }
	so := sweep.Options{
		Dir: dir, Selected: o.selected, Detailed: o.detailed, Secrets: secretsOfEnvironment(), Start: s.embed(t, note),
		Began: v.began, Ended: v.ended, Note: note, Stop: signals.soft,
	}
	outcomes, err := sweep.Run(ctx, s.experiment, so)
	v.pause()
	os.Remove(filepath.Join(dir, s.experiment.About.ID+".state.json")) // for --resume, which a gate has none of
	switch {
	case errors.Is(err, sweep.ErrInterrupted) || len(signals.received) > 0:
		return sweep.Outcome{}, &exitError{code: signals.code(), err: errors.New("interrupted: " + name + " was not made to its end")}
	case errors.Is(err, sweep.ErrUnsaved):
		return sweep.Outcome{}, &exitError{code: exitUnsaved, err: err}
	case err != nil:
		return sweep.Outcome{}, &exitError{code: exitUsage, err: flaggedPoints(err)}
	case len(outcomes) != 1:
		return sweep.Outcome{}, fmt.Errorf("%s: %d outcomes of one run", name, len(outcomes))
	}
	if o := &outcomes[0]; o.Failure == nil && o.Status != manifest.Completed {
		return *o, &exitError{code: exitInvalid, err: fmt.Errorf("%s: the run was %s", name, o.Status)}
	}
	return outcomes[0], nil
}

// broken is the report of a gate that could not be run to its end.
func (g *trials) broken(err error) *gate.Report {
	r := g.report()
	r.Verdict, r.Reason = gate.Inconclusive, "Not all runs could be made: "+strings.TrimSuffix(err.Error(), ".")+"."
	return r
}

// report decides from the pairs that there are.
func (g *trials) report() *gate.Report {
	r := g.l.newReport(gate.Paired)
	var sides [2][]stored.Run
	for i, d := range g.details {
		at := slices.Index([]string{sideBaseline, sideCandidate}, d.Side)
		sides[at] = append(sides[at], g.runs[i])
	}
	r.Runs = append(r.Runs, g.details...)
	if len(g.runs) > 0 {
		r.Simulated = g.runs[0].Simulated
	}
	if len(sides[0]) == 0 || len(sides[1]) == 0 {
		r.Checks = append(r.Checks, gate.Check{Name: "values", Reason: "There is no pair of runs."})
		if len(g.runs) > 0 {
			checks, _ := stored.Checks(nil, g.runs, g.l.policy)
			r.Checks = append(checks, r.Checks...)
		}
		r.Conclude()
		return r
	}
	r.Checks, r.Notes = stored.Checks(sides[0], sides[1], g.l.policy)
	r.Differences = differing(sides[0], sides[1])
	r.Notes = append(r.Notes, g.aboutSalts()...)
	primary := g.l.primaryOf(g.runs)
	g.decide(r, primary)
	for _, name := range advisory {
		if m := g.metric(name); m != nil && name != primary {
			r.Advisory = append(r.Advisory, *m)
		}
	}
	r.Advise(stat.Holm)
	g.l.checkRequirements(r, sides[0], sides[1])
	r.Conclude()
	return r
}

// aboutSalts is what a reader must know of them.
func (g *trials) aboutSalts() (notes []string) {
	if g.salted == "" {
		return nil
	}
	notes = append(notes, g.salted)
	if g.shared() {
		notes = append(notes, "Both sides are one server: each run of a pair had a salt of its own, too.")
	}
	if slices.ContainsFunc(g.details, func(d gate.Run) bool { return d.Repeated && g.options[d.Side].server == nil }) {
		notes = append(notes, "A run that was repeated had one more salt than its pair: its server had seen the prompts under that.")
	}
	return notes
}

// advisory are the metrics that only advise.
var advisory = []string{"output_throughput", "request_throughput", "p50_ttft", "p99_ttft", "p50_itl", "p99_itl", "p99_tpot"}

// decide applies the rule to the primary metric.
func (g *trials) decide(r *gate.Report, primary string) {
	better := betterOf(g.runs, primary)
	for i, p := range g.pairs {
		a, b := g.runs[p[0]].Metric(primary), g.runs[p[1]].Metric(primary)
		pair := gate.Pair{N: i + 1, Order: g.orders[i]}
		if a != nil && b != nil {
			pair.Baseline, pair.Candidate = &a.Value, &b.Value
			if d, ok := gate.Change(a.Value, b.Value, better); ok {
				share := gate.Share(d)
				pair.Change = &share
			}
		}
		r.Pairs = append(r.Pairs, pair)
	}
	if r.Primary = g.metric(primary); r.Primary == nil {
		r.Checks = append(r.Checks, gate.Check{Name: "values", Reason: fmt.Sprintf("Not all of %d pairs have a %s above 0; want %d or more that do.", len(g.pairs), primary, gate.FewestPairs)})
	}
}

// metric applies the rule to one metric; nil where not all pairs have it.
func (g *trials) metric(name string) *gate.MetricDecision {
	better := betterOf(g.runs, name)
	var changes []float64
	for _, p := range g.pairs {
		a, b := g.runs[p[0]].Metric(name), g.runs[p[1]].Metric(name)
		if a == nil || b == nil {
			return nil
		}
		d, ok := gate.Change(a.Value, b.Value, better)
		if !ok {
			return nil
		}
		changes = append(changes, d)
	}
	d, err := gate.Pairs(changes, g.l.rule)
	if err != nil {
		return nil
	}
	unit, _ := stored.Known(name)
	return &gate.MetricDecision{Metric: name, Unit: unit, Better: better, Decision: d}
}

// runOnce makes one run for --require, and decides from it.
func (l *gateLine) runOnce(ctx context.Context, t *terminal) (*gate.Report, error) {
	o, err := t.gateOptions(ctx, l.rest, "", "", "")
	if err != nil {
		return nil, err
	}
	l.secrets = publicRedactor(&o.config, o.server).Secrets
	if o.dryRun {
		return nil, o.printPlan(ctx, t)
	}
	dir := o.dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "servebench-gate-"); err != nil {
			return nil, &exitError{code: exitUsage, err: err}
		}
		defer os.RemoveAll(dir)
	}
	ctx, signals := catchSignals(ctx, t, func() string { return "no new requests, and no verdict; a second signal ends all at once" })
	defer signals.stop()
	name := "candidate-" + time.Now().Format("20060102-150405")
	outcome, err := t.oneRun(ctx, dir, name, o, sweep.Point{ID: name, Name: name, Group: sideCandidate, Config: o.config, Server: o.server, Deadline: o.deadline}, signals)
	if err != nil {
		return nil, err
	}
	if f := outcome.Failure; f != nil {
		return nil, &exitError{code: exitTarget, err: errors.New(f.MessageSanitized)}
	}
	candidate, err := readStoredFile(filepath.Join(dir, name+".result.json"))
	if err != nil {
		return nil, &exitError{code: exitUnsaved, err: err}
	}
	candidate[0].Name = sideCandidate
	var baseline []stored.Run
	if from := l.baseline + l.history; from != "" {
		if baseline, err = readStored(from); err != nil {
			return nil, &exitError{code: exitUsage, err: err}
		}
	}
	return l.decide(gate.Absolute, baseline, candidate), nil
}
