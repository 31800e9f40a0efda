package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/report"
	"github.com/servebench/servebench/bench/runfile"
	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/metrics"
)

// serve is `servebench serve`: args are the words after it.
func serve(ctx context.Context, args []string, t *terminal) error {
	parsed, err := normalize(args, serveFlags())
	if err != nil {
		return &exitError{code: exitUsage, err: err, hint: "servebench serve --help lists the flags"}
	}
	if parsed.Help {
		return printHelp(t.out, parsed.Topic)
	}
	for _, w := range parsed.Warnings {
		t.notef("warning: %s", w)
	}
	line := parsed.given()
	run, err := t.runOf(line)
	if err != nil {
		return &exitError{code: exitUsage, err: err, hint: "servebench config check FILE checks a run file, servebench config init prints one"}
	}
	if listFlag(parsed.Words) != "" {
		return serveLists(ctx, parsed.Words, t, func(ctx context.Context, words []string) (*options, error) {
			return t.resolveRun(ctx, run, given{words, line.flags})
		})
	}
	o, err := t.resolveRun(ctx, run, line)
	if err != nil {
		return err
	}
	o.config.Command = append([]string{"servebench", "serve"}, args...)
	if o.runs > 1 {
		return o.repeat(ctx, t)
	}
	return o.run(ctx, t)
}

// runOf reads the run file that the command line names; without one it is nil.
func (t *terminal) runOf(line given) (*runfile.Run, error) {
	i := slices.IndexFunc(line.words, func(w string) bool { return wordFlag(w) == runFileFlag })
	if i < 0 {
		return nil, nil
	}
	r, err := t.readRun(strings.TrimPrefix(line.words[i], "--"+runFileFlag+"="))
	if err != nil {
		return nil, err
	}
	for _, n := range r.Notes() {
		t.notef("%s", n)
	}
	return r, nil
}

// readWords makes options of canonical words.
func (t *terminal) readWords(ctx context.Context, words []string) (o *options, err error) {
	app := &cli.App{
		Name: "serve", HideHelp: true, HideVersion: true, DisableSliceFlagSeparator: true,
		Writer: t.out, ErrWriter: t.err, Flags: cliFlags(words),
		ExitErrHandler: func(*cli.Context, error) {},
		OnUsageError:   func(_ *cli.Context, err error, _ bool) error { return &exitError{code: exitUsage, err: err} },
		Action: func(c *cli.Context) (err error) {
			if o, err = readOptions(c); err != nil {
				return &exitError{code: exitUsage, err: err}
			}
			return nil
		},
	}
	err = app.RunContext(ctx, append([]string{"serve"}, words...))
	return o, err
}

// cliFlags declares the flags in the canonical words to urfave/cli, whose time grows
// with the square of their number. The normaliser has checked how numbers are written;
// here all values are text, read in reader.go.
func cliFlags(words []string) (flags []cli.Flag) {
	declared := map[string]bool{}
	for _, w := range words {
		name, _, _ := strings.Cut(strings.TrimPrefix(w, "--"), "=")
		s := flagByName[name]
		if declared[name] {
			continue
		}
		declared[name] = true
		switch {
		case s.Arity == arityNone || s.Arity == arityToggle:
			flags = append(flags, &cli.BoolFlag{Name: s.Name})
		case s.Arity == arityOne:
			flags = append(flags, &cli.StringFlag{Name: s.Name})
		default:
			flags = append(flags, &cli.StringSliceFlag{Name: s.Name, KeepSpace: true})
		}
	}
	return flags
}

// run runs the benchmark that the options describe.
func (o *options) run(ctx context.Context, t *terminal) error {
	if o.sim != nil && !o.dryRun {
		e, err := o.startSim(func(n string) { t.notef("%s", n) })
		if err != nil {
			return err
		}
		o.config.Target.BaseURL, o.config.Replicas, o.config.InProcess = e.urls[0], e.urls[1:], true
		defer func() {
			if err := e.Stop(ctx); err != nil {
				t.notef("the simulator ended with: %v", err)
			}
		}()
	}
	if err := o.valid(); err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	for _, p := range o.notes() {
		t.notef("%s", p)
	}
	if o.dryRun {
		return o.printPlan(ctx, t)
	}
	if err := o.checkDescriptors(); err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	if err := o.files(o.config.Model, nil).Check(); err != nil {
		return &exitError{code: exitUsage, err: fmt.Errorf("results cannot be saved: %w", err), hint: "--result-dir names a folder that can be written"}
	}
	return o.measure(ctx, t)
}

// flagged puts the dashes before the flag names that a configuration's errors
// begin with.
func flagged(err error) error {
	lines := strings.Split(err.Error(), "\n")
	for i, l := range lines {
		name, _, ok := strings.Cut(l, ":")
		if _, is := flagByName[name]; ok && is {
			lines[i] = "--" + l
		}
		lines[i] = dashed(lines[i])
	}
	return errors.New(strings.Join(lines, "\n"))
}

// compound finds names of flags with a dash in them that stand as words of a text:
// no other word looks like them.
var compound = sync.OnceValue(func() *regexp.Regexp {
	var names []string
	for _, s := range serveFlags() {
		if strings.Contains(s.Name, "-") {
			names = append(names, s.Name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	return regexp.MustCompile(`(^|[ (])(` + strings.Join(names, "|") + `)($|[ ,;:.)])`)
})

// dashed writes the flags that a library's message names as they are typed.
func dashed(text string) string {
	return compound().ReplaceAllString(text, "$1--$2$3")
}

// measure runs, saves and shows. Servers that are ours to start are there for as
// long as the run.
func (o *options) measure(ctx context.Context, t *terminal) error {
	if o.saving || o.appending || o.manifest != "" {
		o.config.Selftest = t.selftestFigure(o.config.Target.BaseURL)
	}
	o.config.Progress = &bench.Progress{}
	ctx, signals := catchSignals(ctx, t, func() string { return o.ending(o.config.Progress.Phase()) })
	defer signals.stop()
	o.config.Stop = signals.soft
	o.config.Progress.Entered = o.timed(o.preamble(t.out), signals, t)
	starting, cancel := bench.UntilStopped(ctx, o.config.Stop)
	group, err := o.startGroup(server.WithHurry(starting, ctx), t)
	interrupted := starting.Err() != nil
	cancel()
	if err != nil {
		return o.notStarted(ctx, err, interrupted, signals, t)
	}
	defer endGroup(ctx, group, t) // after all is saved and shown: it may take its time
	watch := o.endWith(group, signals, t)
	hide := showProgress(t.err, o.config.Progress, o.quiet)
	res, err := bench.Run(ctx, o.config)
	hide()
	watch()
	died := o.settle(ctx, group, res)
	var target *bench.TargetError
	if res == nil {
		return &exitError{code: exitUsage, err: located(flagged(err), o.places)}
	}
	files, _ := o.withLog(o.files(res.Config.Model, res), died, ".server.log", "server-log")
	saved, saveErr := res.Save(files)
	var leakErr error
	if o.failOnLeak {
		leakErr = t.failOnLeak(saved, o.redactor())
	}
	if res.Summary.Completed+res.Summary.Failed > 0 {
		// A reader that has gone away is no reason to lose the exit code; a full
		// disk is, where the table was all there is.
		if err := report.Text(t.out, o.table(res, saved)); err != nil && !errors.Is(err, syscall.EPIPE) {
			saveErr = errors.Join(saveErr, fmt.Errorf("the table: %w", err))
		}
	} else {
		for _, w := range res.Warnings {
			t.notef("warning: %s", dashed(w))
		}
		for _, f := range saved {
			t.notef("saved %s", f)
		}
	}
	switch {
	case saveErr != nil:
		t.fail(errors.Join(err, saveErr))
		return &exitError{code: exitUnsaved, err: errors.New("not everything could be saved")}
	case leakErr != nil:
		if err != nil {
			t.fail(err)
		}
		return leakErr
	case died != nil && res.Failure != nil:
		return &exitError{code: exitTarget, err: errors.New(res.Failure.MessageSanitized)}
	case res.Stopped:
		err := fmt.Errorf("interrupted after %d of %d requests", res.Summary.Completed, len(res.Records))
		if len(res.Records) == 0 {
			err = errors.New("interrupted before the first timed request")
		}
		if signals.late() {
			return &exitError{code: exitInvalid, err: fmt.Errorf("the deadline of %v: %w", o.deadline, err)}
		}
		return &exitError{code: signals.code(), err: err}
	case err == nil && o.strict && res.Judgement != nil && res.Judgement.Verdict != metrics.Valid:
		return notValid(res)
	case errors.As(err, &target):
		return &exitError{code: exitTarget, err: err, hint: o.hint(target, res.Served())}
	case err != nil:
		return err
	}
	return nil
}

// notValid is what --strict makes of a run that is not VALID.
func notValid(res *bench.Result) error {
	return &exitError{code: exitInvalid, err: fmt.Errorf("--strict: the verdict is %s: %s", res.Judgement.Verdict, strings.Join(res.Reasons(), "; "))}
}

// hint says what would help against a server's failure.
func (o *options) hint(e *bench.TargetError, served []string) string {
	text := e.Error()
	if e.Stage == "prefix_cache_reset" {
		return "without --reset-prefix-cache the server's cache stays as it is"
	}
	switch e.Category {
	case "connect", "timeout_connect":
		if strings.Contains(text, "certificate") {
			return "--insecure accepts a certificate that cannot be checked"
		}
		if o.sim == nil && e.Stage == "connect" {
			return "start the server, or name it with --base-url; `servebench serve --sim` tries things out without one"
		}
	case "http_401", "http_403", "models":
		return "the environment variable OPENAI_API_KEY holds the key; --model names the model"
	case "http_404":
		if len(served) > 0 {
			return "the server lists " + strings.Join(served, ", ") + ": name one of them with --model or --served-model-name"
		}
		return "--model or --served-model-name must be a name the server lists in /v1/models; --endpoint must exist"
	case "http_400", "http_422":
		if name := openai.AccountsIn(text); name != "" {
			return "--token-accounting chunks does not send " + name
		}
		if asked := o.config.TokenAccounting; asked == "ids" || asked == "usage" {
			return "--token-accounting chunks sends no parameter that a server may not know"
		}
		if name := openai.ForeignIn(text); name != "" {
			return "--strict-openai sends only OpenAI's own parameters, without " + name
		}
	case "client_resource":
		return "raise the limit of open files (ulimit -n) above --max-concurrency, or lower --max-concurrency"
	}
	return ""
}

// stopState knows what ended a run before its time.
type stopState struct {
	stop     func()
	received chan os.Signal
	soft     chan struct{}
	once     sync.Once
	expired  atomic.Bool
}

// end lets no further request begin.
func (s *stopState) end() { s.once.Do(func() { close(s.soft) }) }

// late tells that the deadline ended the run, and no signal.
func (s *stopState) late() bool { return s.expired.Load() && len(s.received) == 0 }

func (s *stopState) code() int {
	select {
	case sig := <-s.received:
		if n, ok := sig.(syscall.Signal); ok {
			return 128 + int(n)
		}
	default:
	}
	return 130
}

// timed returns entered with the deadline's clock, which begins with the timed
// requests.
func (o *options) timed(entered func(string), s *stopState, t *terminal) func(string) {
	if o.deadline <= 0 {
		return entered
	}
	var timer *time.Timer
	return func(phase string) {
		entered(phase)
		switch {
		case phase == "run":
			timer = time.AfterFunc(o.deadline, func() {
				s.expired.Store(true)
				t.notef("the deadline of %v: no new requests; those in flight have %v to end", o.deadline, o.config.Grace)
				s.end()
			})
		case timer != nil: // the timed requests are over
			timer.Stop()
		}
	}
}

// endWith ends the run when its servers end. The returned function ends the
// watch and must be called.
func (o *options) endWith(group serverGroup, s *stopState, t *terminal) func() {
	if group == nil {
		return func() {}
	}
	over := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-group.Done():
			t.notef("the server ended: no new requests")
			s.end()
		case <-over:
		}
	})
	return func() { close(over); wg.Wait() }
}

// ending says what a first signal does in a phase of a run.
func (o *options) ending(phase string) string {
	switch phase {
	case "run":
		return fmt.Sprintf("no new requests; those in flight have %v to end, a second signal ends all at once", o.config.Grace)
	case "stopping the profiler", "results":
		return "the timed requests are over and get saved; a second signal ends all at once"
	}
	return "ending before the timed requests"
}

// catchSignals makes the first signal stop the issuing of requests, the second
// one end all at once. ending says what the first one does at that time.
func catchSignals(ctx context.Context, t *terminal, ending func() string) (context.Context, *stopState) {
	ctx, cancel := context.WithCancel(ctx)
	in := make(chan os.Signal, 2)
	signal.Notify(in, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	ended := make(chan struct{})
	s := &stopState{received: make(chan os.Signal, 1), soft: make(chan struct{})}
	go func() {
		defer close(ended)
		select {
		case sig := <-in:
			s.received <- sig
			s.end()
			t.notef("%v: %s", sig, ending())
		case <-ctx.Done():
			return
		}
		select {
		case <-in: // further ones change nothing: what there is gets saved
			cancel()
		case <-ctx.Done():
		}
	}()
	s.stop = func() { cancel(); <-ended; signal.Stop(in) }
	return ctx, s
}
