package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/manifest"
)

// Server is a server that was started and is ready.
type Server interface {
	// URLs are the base URLs, one for each replica.
	URLs() []string
	Launched() []manifest.Launched
	// PIDs are its living processes, where they are known.
	PIDs() []int
	// Warnings are asked for once after each run: what its log says that a reader of
	// that run's numbers should know.
	Warnings() []string
	// Logs are the files that the replicas write to.
	Logs() []string
	// Done is closed when the server has ended unasked; Err then says why.
	Done() <-chan struct{}
	Err() error
	// Stop ends it in order, or at once when the context ends.
	Stop(context.Context) error
}

// Options say how to run an experiment.
type Options struct {
	// Dir takes the files of all points and the state. It is locked: one process
	// works on it at a time.
	Dir string
	// Resume goes on where another process has ended. Without it a folder with
	// results of the experiment is refused.
	Resume bool
	// Only are the ids of the points to run; nil is all. When the experiment is
	// resumed, those named here are run again unless they completed.
	Only []string
	// Selected are the metrics of the result files; Detailed adds their arrays.
	Selected []string
	Detailed bool
	// Secrets are further texts that no file may hold, beside the keys of the
	// configurations and the servers.
	Secrets []string

	// Start starts a server and waits until it is ready. A *[server.StartError]
	// is a failure of the point, any other error a mistake in the configuration.
	Start func(context.Context, server.Config) (Server, error)
	// Stop, when closed, ends the present run early, with the grace of its
	// configuration, and the experiment. Canceling the context ends both at once.
	Stop <-chan struct{}

	// What follows, if set, is called while the experiment runs, one call after
	// the other. Starting tells that a server is being started.
	Starting func(Step)
	// Began tells of a run; what it returns, if anything, is kept up to date.
	Began func(Step) *bench.Progress
	// Ended tells of a run that is saved, or could not be, and how long the rest takes.
	Ended func(Step, *bench.Result, Estimate)
	// Note tells in a sentence what else there is to know.
	Note func(string)
}

// ErrInterrupted is an experiment that was ended by the user; it can be resumed.
var ErrInterrupted = errors.New("the experiment was interrupted")

// ErrUnsaved is a result that could not be saved.
var ErrUnsaved = errors.New("not everything could be saved")

// Check reports everything that is wrong with an experiment at once, without
// running anything.
func (e *Experiment) Check() error {
	errs := []error{checkID("experiment", e.About.ID)}
	if len(e.Points) == 0 {
		errs = append(errs, errors.New("the experiment has no points"))
	}
	owner := map[string]string{}
	for i := range e.Points {
		p := &e.Points[i]
		if err := checkID("point", p.ID); err != nil {
			errs = append(errs, err)
		}
		for trial := range p.repeat() {
			s := stem(p, trial+1)
			if o, taken := owner[s]; taken {
				errs = append(errs, fmt.Errorf("points %s and %s would write the same files %s.*; want other ids", o, p.ID, s))
			}
			owner[s] = p.ID
		}
		if err := p.Config.Validate(); err != nil {
			for line := range strings.SplitSeq(err.Error(), "\n") {
				errs = append(errs, fmt.Errorf("point %s: %s", p.ID, line))
			}
		}
		if p.Repeat < 0 || p.OnFailure.Retry < 0 || p.Deadline < 0 {
			errs = append(errs, fmt.Errorf("point %s: repeat, retry or deadline is negative; want 0 or more", p.ID))
		}
	}
	for i := range e.Points {
		r := e.Points[i].OnFailure.Replacement
		if r != "" && r != previousCompleted && !slices.ContainsFunc(e.Points, func(p Point) bool { return p.ID == r }) {
			errs = append(errs, fmt.Errorf("point %s: on_failure.replacement %q is no point; want one's id or %s", e.Points[i].ID, r, previousCompleted))
		}
	}
	return errors.Join(errs...)
}

// previousCompleted is the replacement that is found when all is over.
const previousCompleted = "previous_completed"

// stem begins the names of a trial's files.
func stem(p *Point, trial int) string {
	if p.repeat() == 1 {
		return p.ID
	}
	return fmt.Sprintf("%s-trial-%d", p.ID, trial)
}

// runner is an experiment under way.
type runner struct {
	Options
	e     *Experiment
	steps []Step // those to run
	state *state

	srv     Server         // the running server, nil if there is none
	cfg     *server.Config // what it was started from
	logFrom map[string]int64
	sent    map[[3]string]string // by base URL and digest of the bodies and salt: the run that sent them
}

// Run runs what is left of an experiment and returns what became of each point
// that was run, now or before, in the order of the experiment. Everything is saved
// as soon as it is known: the process can end at any moment and another go on with
// Options.Resume. With an error there are outcomes too, unless nothing could begin.
// A mistake in the configuration that shows before anything is measured ends the
// experiment; after that it is a failure of its point.
func Run(ctx context.Context, e Experiment, o Options) ([]Outcome, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o777); err != nil {
		return nil, err
	}
	unlock, err := lock(o.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	r, err := open(&e, o)
	if err != nil {
		return nil, err
	}
	defer r.stopServer(ctx)
	for _, s := range r.steps {
		if r.over(ctx) {
			return r.outcomes(), ErrInterrupted
		}
		if r.failed(s.Point) { // its other trials would fail in the same way
			continue
		}
		if err := r.step(ctx, s); err != nil {
			return r.outcomes(), err
		}
		if s.Point.OnFailure.Stop && r.failed(s.Point) {
			r.note("point %s failed, which ends the experiment", s.Point.ID)
			break
		}
	}
	return r.outcomes(), nil
}

// Left is what Run would run, in order, with how long that takes and what there is
// to know before.
func Left(e Experiment, o Options) (steps []Step, left Estimate, notes []string, err error) {
	if err := e.Check(); err != nil {
		return nil, left, nil, err
	}
	o.Note = func(s string) { notes = append(notes, s) }
	r, err := open(&e, o)
	if err != nil {
		return nil, left, notes, err
	}
	return r.steps, r.state.past().estimate(r.steps), notes, nil
}

// open reads the state and finds out what is left.
func open(e *Experiment, o Options) (*runner, error) {
	st, err := readState(o.Dir, e.About.ID)
	if err != nil {
		return nil, err
	}
	r := &runner{Options: o, e: e, state: st, logFrom: map[string]int64{}, sent: map[[3]string]string{}}
	if n := st.trials(); n > 0 && !o.Resume {
		return nil, fmt.Errorf("%s has results of %d runs; want to resume the experiment, or another folder", statePath(o.Dir, e.About.ID), n)
	}
	only := map[string]bool{}
	for _, id := range o.Only {
		only[id] = true
		if !slices.ContainsFunc(e.Points, func(p Point) bool { return p.ID == id }) {
			return nil, fmt.Errorf("%q is no point of the experiment; it has %s", id, someIDs(e.Points))
		}
	}
	for _, note := range st.resume(e, o.Dir, only) {
		r.note("%s", note)
	}
	plan := order(*e)
	for _, s := range plan {
		done := st.Points[s.Point.ID] != nil && st.Points[s.Point.ID].Trials[s.Trial] != nil
		if !done && (len(only) == 0 || only[s.Point.ID]) && !r.failed(s.Point) {
			r.steps = append(r.steps, s)
		}
	}
	if n := len(plan) - len(r.steps); n > 0 && o.Resume {
		r.note("%d of %d runs are left", len(r.steps), len(plan))
	}
	markStarts(r.steps)
	return r, r.checkFiles()
}

func someIDs(points []Point) string {
	var ids []string
	for i := range points {
		if i == 20 {
			ids = append(ids, "…")
			break
		}
		ids = append(ids, points[i].ID)
	}
	return strings.Join(ids, ", ")
}

// checkFiles tells now what could not be saved later.
func (r *runner) checkFiles() error {
	if _, err := os.Stat(r.Dir); errors.Is(err, os.ErrNotExist) {
		return nil // nothing is made for a look at the plan
	}
	var errs []error
	for _, s := range r.steps {
		f := r.files(stem(s.Point, s.Trial))
		f.Pages = append(f.Pages, bench.Page{Path: filepath.Join(r.Dir, stem(s.Point, s.Trial)+".server.log")})
		if err := f.Check(); err != nil {
			errs = append(errs, fmt.Errorf("point %s: %w", s.Point.ID, err))
		}
		if len(errs) == 5 {
			break
		}
	}
	return errors.Join(errs...)
}

func (r *runner) note(format string, args ...any) {
	if r.Note != nil {
		r.Note(fmt.Sprintf(format, args...))
	}
}

// over tells whether the user has ended the experiment.
func (r *runner) over(ctx context.Context) bool {
	select {
	case <-r.Stop:
		return true
	default:
		return ctx.Err() != nil
	}
}

// failed tells whether a point has a trial that failed at last.
func (r *runner) failed(p *Point) bool {
	if st := r.state.Points[p.ID]; st != nil {
		for _, t := range st.Trials {
			if t.Status == manifest.Failed {
				return true
			}
		}
	}
	return false
}

// step runs a trial, again if it fails and that was asked for. A server that failed
// is not used again.
func (r *runner) step(ctx context.Context, s Step) error {
	var failures []manifest.Failure
	for s.Attempt = 1; ; s.Attempt++ {
		t, res, err := r.attempt(ctx, s)
		if err != nil {
			return err
		}
		t.Failures = append(failures, t.Failures...)
		failures = t.Failures
		if err := r.record(s, t); err != nil {
			return err
		}
		if r.Ended != nil {
			r.Ended(s, res, r.left(s))
		}
		switch {
		case t.Again:
			return ErrInterrupted
		case t.Status != manifest.Failed:
			return nil
		}
		r.stopServer(ctx)
		if s.Attempt > s.Point.OnFailure.Retry {
			return nil
		}
		if r.over(ctx) {
			return ErrInterrupted
		}
	}
}

// left estimates what follows a step.
func (r *runner) left(s Step) Estimate {
	i := slices.IndexFunc(r.steps, func(o Step) bool { return o.Number == s.Number })
	return r.state.past().estimate(r.steps[i+1:])
}

// record keeps what became of a trial.
func (r *runner) record(s Step, t *trialState) error {
	p := r.point(s.Point)
	p.Trials[s.Trial] = t
	if err := r.state.write(r.Dir); err != nil {
		return fmt.Errorf("%w: the state of the experiment: %w", ErrUnsaved, err)
	}
	return nil
}

// point is the state of a point, which is made where there is none.
func (r *runner) point(p *Point) *pointState {
	st := r.state.Points[p.ID]
	if st == nil {
		st = &pointState{Digest: p.digest(), Trials: map[int]*trialState{}}
		r.state.Points[p.ID] = st
	}
	return st
}

// ensure makes the server of a step run, and returns nil for a server that is not
// ours.
func (r *runner) ensure(ctx context.Context, s Step) (Server, error) {
	p := s.Point
	if r.srv != nil {
		ended := false
		select {
		case <-r.srv.Done():
			ended = true
		default:
		}
		// A trial of a point that restarts has a server of its own.
		if ended || p.Server == nil || p.Restart || !sameServer(r.cfg, p.Server) {
			r.stopServer(ctx)
		}
	}
	if p.Server == nil || r.srv != nil {
		return r.srv, nil
	}
	if r.Start == nil {
		return nil, errors.New("the point has a server, but nothing can start it")
	}
	if r.over(ctx) { // while the last one was stopped
		return nil, ErrInterrupted
	}
	if r.Starting != nil {
		r.Starting(s)
	}
	starting, cancel := bench.UntilStopped(ctx, r.Stop)
	defer cancel()
	begin := time.Now()
	srv, err := r.Start(server.WithHurry(starting, ctx), *p.Server)
	if err != nil {
		return nil, err
	}
	r.state.Starts = append(r.state.Starts, time.Since(begin).Seconds())
	r.srv, r.cfg = srv, p.Server
	return srv, nil
}

// stopServer ends the running server: in order, or at once where ctx has ended or
// ends meanwhile.
func (r *runner) stopServer(ctx context.Context) {
	if r.srv == nil {
		return
	}
	if err := r.srv.Stop(ctx); err != nil {
		r.note("the server did not stop in good order: %v", err)
	}
	urls := r.srv.URLs()
	maps.DeleteFunc(r.sent, func(k [3]string, _ string) bool { return k[0] == urls[0] })
	r.srv, r.cfg = nil, nil
	clear(r.logFrom)
}

// outcomes are what became of the points that were run.
func (r *runner) outcomes() (out []Outcome) {
	for i := range r.e.Points {
		p := &r.e.Points[i]
		if st := r.state.Points[p.ID]; st != nil && len(st.Trials) > 0 {
			out = append(out, outcomeOf(p, st))
		}
	}
	return out
}

func outcomeOf(p *Point, st *pointState) Outcome {
	o := Outcome{PointID: p.ID, Digest: st.Digest, Status: manifest.Completed, Warnings: slices.Clone(st.Warnings)}
	for n := range p.repeat() {
		t := st.Trials[n+1]
		if t == nil {
			continue
		}
		o.Trials = append(o.Trials, t.Trial)
		before := t.Failures
		if f := t.failure(); f != nil {
			o.Failure, o.Status = f, manifest.Failed
			before = before[:len(before)-1]
		} else if t.Status != manifest.Completed && o.Status == manifest.Completed {
			o.Status = manifest.Interrupted
		}
		o.Attempts = append(o.Attempts, before...)
	}
	if missing := p.repeat() - len(o.Trials); missing > 0 {
		o.Warnings = append(o.Warnings, fmt.Sprintf("%d of %d trials were run.", len(o.Trials), p.repeat()))
		if o.Status == manifest.Completed {
			o.Status = manifest.Interrupted
		}
	}
	return o
}
