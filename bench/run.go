package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/manifest"
	"github.com/servebench/servebench/manifest/probe"
	"github.com/servebench/servebench/metrics"
	"github.com/servebench/servebench/tokenize"
)

// TargetError says that the server failed: it was not there, refused us, or
// answered no request. Everything else that Run returns is a mistake in the
// configuration.
type TargetError struct {
	Stage    string // connect, readiness, timed_run
	Category string // snake_case: an outcome, or http_401
	Err      error
}

func (e *TargetError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *TargetError) Unwrap() error { return e.Err }

// Result is what a run yields. It is not changed after Run has returned it.
type Result struct {
	Config  Config
	Outcome string            // manifest.Completed, Failed or Interrupted
	Failure *manifest.Failure // of a failed run
	Start   time.Time         // schedule zero, by the wall clock
	// Duration is from schedule zero to the end of the last request.
	Duration time.Duration
	Summary  *metrics.Summary
	// ServerSide is nil unless the servers' own timing was asked for.
	ServerSide *metrics.ServerSide
	Records    []metrics.Record
	Warnings   []string

	Plan *Plan
	// Engine is what the server told of itself; Environment describes the
	// server's host where that is this one, else it is nil.
	Engine      probe.Server
	Environment *manifest.Environment
	facts
	sameHost    bool
	proxied     bool
	clockOffset time.Duration // by how much the wall clock gained on the run
	counted     probe.Reading // the servers' counters over the timed part
	gpu         *gpuReport    // nil where the devices were not watched
	reset       bool          // the servers forgot their prefix caches
	opened      int           // connections asked for before the clock
	warmups     int           // warm-up requests that were sent
	// Stopped tells that the user ended the run early.
	Stopped bool
	// ReadyRequests counts the untimed ones of the ready check.
	ReadyRequests int
	// Speculation and Diffusion count the timed part; nil where the server tells
	// none.
	Speculation *metrics.Speculation
	Diffusion   *metrics.Diffusion
	// Probes are what was sent beside the load; nil where nothing was.
	Probes *metrics.Probes
	// Analysis says how sure the figures are, Judgement whether they are the
	// server's; nil where no request completed.
	Analysis  *metrics.Analysis
	Judgement *metrics.Judgement
	// Figures are what the verdict rests on; nil where there is none. Series is what
	// was seen in each second.
	Figures *metrics.Figures
	Series  *metrics.Series
	// Accounting is what was asked of the server to know the tokens of events.
	Accounting Accounting
	// PrefixCache is what came from the servers' prefix caches; nil where nothing
	// completed.
	PrefixCache *PrefixCache
	vitals      *vitals
	watched     time.Duration // when the watch over this process began
	panics      int           // of ours that were recovered
}

// Simulated tells that the target said it is a simulator.
func (r *Result) Simulated() bool { return r.Engine.Simulated }

// Served lists the models that the server told of, a few of them.
func (r *Result) Served() (names []string) {
	if r.Engine.Simulated {
		return nil // it serves any
	}
	for _, m := range r.Engine.Models[:min(5, len(r.Engine.Models))] {
		names = append(names, m.ID)
	}
	return names
}

// options are those of the run's statistics.
func (r *Result) options() metrics.Options {
	c := &r.Config
	return metrics.Options{Percentiles: c.Percentiles, Goodput: c.Goodput, OpenLoop: r.openLoop(), RawGaps: c.RawSamples}
}

// session is one run under way.
type session struct {
	cfg    Config
	client *openai.Client // of the first target
	fleet  fleet          // all targets
	tok    tokenize.Tokenizer
	files  string      // where the tokenizer is, in this build or not; "" where there is none
	drawn  bool        // the salt was
	dated  atomic.Bool // a chat template was rendered that shows the date
	res    *Result

	internal error // a bug of ours that showed in a request
}

// Run runs one benchmark. A Result comes back whenever the target was addressed,
// also beside an error: a *TargetError where the server failed. A run that was
// stopped or whose ctx ended has Stopped set and no error.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	s, err := open(cfg)
	if err != nil {
		return nil, err
	}
	defer s.fleet.close()
	// Before the first timed request there is nothing to let end: Stop ends it.
	before, cancel := UntilStopped(ctx, cfg.Stop)
	defer cancel()
	if err := s.prepare(before); err != nil {
		return s.failed(before, err)
	}
	if err := s.salt(); err != nil {
		return s.failed(before, err)
	}
	if err := s.ready(before); err != nil {
		return s.failed(before, err)
	}
	if err := s.resetPrefixCaches(before); err != nil {
		return s.failed(before, err)
	}
	s.warmUp(before)
	profiled := s.startProfile(before)
	s.run(ctx)
	s.stopProfile(ctx, profiled)
	return s.finish(ctx)
}

// UntilStopped is ctx, canceled too when stop closes. The returned function ends
// the wait for that and must be called.
func UntilStopped(ctx context.Context, stop <-chan struct{}) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-stop:
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() { cancel(); wg.Wait() }
}

func open(cfg Config) (*session, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	drawn := cfg.Salt == AutoSalt
	if drawn {
		cfg.Salt = NewSalt()
	}
	s := &session{cfg: cfg, drawn: drawn, res: &Result{Plan: &Plan{Counted: "nobody"}, Accounting: cfg.accounts()}}
	s.res.Start = time.Now()
	if err := s.openTokenizer(cfg.Model); err != nil {
		return nil, err
	}
	// The text is needed to count it, where the server does not.
	if !cfg.NoTokenizer && cfg.Target.Text == openai.TextNever {
		s.cfg.Target.Text = openai.TextUncounted
	}
	s.cfg.Target.API, s.cfg.Target.ServerTiming = cfg.API(), cfg.ServerTiming
	var err error
	if s.fleet, err = openFleet(&s.cfg); err != nil {
		return nil, err
	}
	s.client = s.fleet[0].client
	s.res.proxied = slices.ContainsFunc(s.fleet, func(t target) bool { return t.client.Proxied() })
	if cfg.Progress != nil {
		cfg.Progress.events.Store(s.client.Events)
	}
	return s, nil
}

func (s *session) warnf(format string, args ...any) {
	s.res.Warnings = append(s.res.Warnings, fmt.Sprintf(format, args...))
}

// prepare reaches the server and builds the plan. A mistake in what the user
// gave goes before a server that is not there: a file is read first. What was
// built then stands, unless the server had to tell the model's name.
func (s *session) prepare(ctx context.Context) error {
	s.cfg.Progress.enter("prompts", 0)
	if err := s.checkFile(); err != nil {
		return err
	}
	// A custom file needs no server to be counted, but the model's tokenizer.
	named := s.cfg.Model != ""
	early := named && s.cfg.Dataset.Name == "custom" && !s.cfg.Dataset.TokenIDs
	if early {
		if err := s.build(ctx, false); err != nil {
			return err
		}
	}
	s.cfg.Progress.enter("waiting for the server", 0)
	if err := s.reach(ctx); err != nil {
		// The manifest of a failed run tells its workload all the same.
		if !early && named {
			if wrong := s.build(ctx, false); wrong != nil && ctx.Err() == nil {
				return wrong
			}
		}
		return err
	}
	s.account(ctx)
	changed := s.res.Accounting.Asked == byAuto && s.res.Accounting.Used != byChunks
	// A template may begin with the BOS that the server adds, which only a
	// tokenizer can tell: the server's, where there is none here.
	if d := &s.cfg.Dataset; early && !changed && (s.tok != nil || s.files == "" || d.SkipTemplate || d.Chat) {
		return nil
	}
	s.cfg.Progress.enter("prompts", 0)
	err := s.build(ctx, true)
	if err == nil && s.longPrompts() {
		err = s.build(ctx, true)
	}
	return err
}

// checkFile tells that a data set's file is not there, before the server is
// waited for.
func (s *session) checkFile() error {
	d := &s.cfg.Dataset
	if d.Path == "" || d.Name == "hf" {
		return nil
	}
	if _, err := os.Stat(d.Path); err != nil {
		return fmt.Errorf("dataset-path: %w", err)
	}
	return nil
}

// reach finds out whether the server is there, what it is and which model it
// serves. What it tells of itself only advises.
func (s *session) reach(ctx context.Context) error {
	wait := s.cfg.ReadyTimeout
	err := retry(ctx, wait, func() error {
		return s.fleet.each(func(_ int, t *target) error { return t.client.Open(ctx, 1) })
	})
	if err != nil {
		return s.targetError("connect", err)
	}
	if s.cfg.Model == "" {
		if err := s.firstModel(ctx); err != nil {
			return err
		}
	}
	s.look(ctx)
	s.checkNames()
	return nil
}

// checkNames warns of models that the server does not list, once for each.
func (s *session) checkNames() {
	names := s.res.Served()
	if len(names) == 0 {
		return
	}
	asked := append([]string{s.servedModel()}, s.cfg.LoRA...)
	for i, name := range asked {
		listed := slices.ContainsFunc(s.res.Engine.Models, func(m probe.Model) bool { return m.ID == name })
		if !listed && !slices.Contains(asked[:i], name) {
			s.warnf("The server does not list %s; it lists %s.", name, strings.Join(names, ", "))
		}
	}
}

func (s *session) targetError(stage string, err error) *TargetError {
	if len(s.fleet) > 1 {
		return &TargetError{stage, "connect", fmt.Errorf("not all servers answer: %w", err)}
	}
	return &TargetError{stage, "connect", fmt.Errorf("%s does not answer: %w", openai.PublicURL(s.cfg.Target.BaseURL), err)}
}

// modelsTimeout bounds the wait for a model list.
const modelsTimeout = 30 * time.Second

// firstModel takes the first model of the server's list.
func (s *session) firstModel(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, modelsTimeout)
	defer cancel()
	models, err := s.client.Models(ctx)
	if err == nil && len(models) == 0 {
		err = errors.New("the list is empty")
	}
	if err != nil {
		return &TargetError{"connect", "models", fmt.Errorf("no model was named and the server's list cannot be used: %w", err)}
	}
	// As vLLM's client has it: the id is what is sent, the root what it is. The
	// root may be a folder of the server's host.
	root := cmp.Or(models[0].Root, models[0].ID)
	s.cfg.Model = cmp.Or(manifest.Identifier(root), models[0].ID)
	s.cfg.ServedModel = cmp.Or(s.cfg.ServedModel, models[0].ID)
	if s.tok == nil {
		return s.openTokenizer(root)
	}
	return nil
}

// retry calls f until it succeeds, every 5 s or sooner as the end of wait comes
// near; at least once.
func retry(ctx context.Context, wait time.Duration, f func() error) error {
	const every, soon = 5 * time.Second, 200 * time.Millisecond
	for deadline := time.Now().Add(wait); ; {
		err := f()
		left := time.Until(deadline)
		if err == nil || left < 2*soon {
			return err
		}
		select {
		case <-time.After(min(every, max(left/2, soon))):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ready sends request 0 to each server until it succeeds, if that was asked for,
// for as long as was asked for.
func (s *session) ready(ctx context.Context) error {
	if s.cfg.ReadyTimeout <= 0 {
		return nil
	}
	s.cfg.Progress.enter("ready check", len(s.fleet))
	limited, cancel := context.WithTimeout(ctx, s.cfg.ReadyTimeout)
	defer cancel()
	deadline := time.Now().Add(s.cfg.ReadyTimeout)
	for i := range s.fleet {
		err := retry(limited, time.Until(deadline), func() error { return s.tryFirst(ctx, limited, &s.fleet[i]) })
		if err != nil {
			return err
		}
	}
	return nil
}

// tryFirst sends request 0 to one server; limited ends before ctx where the check
// has taken its time.
func (s *session) tryFirst(ctx, limited context.Context, t *target) error {
	s.res.ReadyRequests++
	recs, _, err := loadgen.Run(limited, t.client, []loadgen.Request{s.res.Plan.first}, loadgen.Load{})
	if err != nil {
		return err
	}
	what := "the ready check failed"
	if len(s.fleet) > 1 {
		what = "the ready check of " + t.name + " failed"
	}
	r := &recs[0]
	if r.Outcome == metrics.Canceled && ctx.Err() == nil {
		return &TargetError{"readiness", "timeout", fmt.Errorf("%s: no answer within %v", what, s.cfg.ReadyTimeout)}
	}
	if r.Outcome != metrics.OK {
		return &TargetError{"readiness", category(r), fmt.Errorf("%s: %s", what, describe(r))}
	}
	return nil
}

// warmUp sends the warm-up requests: untimed, as fast as the cap allows.
func (s *session) warmUp(ctx context.Context) {
	w := s.res.Plan.warmups
	if len(w) == 0 {
		return
	}
	s.cfg.Progress.enter("warm-up", len(w))
	s.warmupDoubts()
	recs, _, err := loadgen.Run(ctx, s.fleet, w, loadgen.Load{MaxConcurrency: s.cfg.MaxConcurrency, Done: s.note})
	s.internal = err
	failed := 0
	var first *metrics.Record
	for i := range recs {
		if recs[i].Outcome != "" {
			s.res.warmups++
		}
		if recs[i].Outcome != metrics.OK {
			if failed++; first == nil {
				first = &recs[i]
			}
		}
	}
	if failed > 0 && ctx.Err() == nil {
		s.warnf("%d of %d warm-up requests failed: %s", failed, len(w), describe(first))
	}
}

// note keeps the progress.
func (s *session) note(r *metrics.Record) {
	if p := s.cfg.Progress; p != nil {
		p.done.Add(1)
		if r.Outcome != metrics.OK {
			p.failed.Add(1)
		}
	}
}

// run is the timed part.
func (s *session) run(ctx context.Context) {
	p := s.res.Plan
	if n := s.connections(); n > 0 {
		var err error
		if s.res.opened, err = s.fleet.open(ctx, n, len(p.Requests)); err != nil {
			s.warnf("not all %d connections could be opened beforehand: %v", s.res.opened, err)
		}
	}
	probes := s.openProbes(ctx)
	defer probes.close()
	// What was built is kept to the end; collecting the rubble of building it
	// must not fall into the run, nor its memory stay.
	debug.FreeOSMemory()
	defer giveRoom()()
	before := s.readCounters(ctx)
	if n := len(p.Offsets); n > 0 && s.cfg.Progress != nil {
		s.cfg.Progress.span.Store(int64(p.Offsets[n-1]))
	}
	s.cfg.Progress.enter("run", len(p.Requests))
	gpus := s.watchGPUs(ctx)
	probes.start(ctx)
	health := watchHealth(s.connected(), s.cfg.Target.Wall)
	records, clock, err := loadgen.Run(ctx, s.fleet, p.Requests, loadgen.Load{
		Offsets: p.Offsets, MaxConcurrency: s.cfg.MaxConcurrency, Pacing: s.cfg.Pacing,
		Stop: s.cfg.Stop, Grace: s.cfg.Grace, Done: s.note,
	})
	s.res.vitals = health.end()
	gpus.end()
	s.endProbes(probes)
	s.res.watched = clock.At(health.began)
	s.res.Records, s.res.Start = records, clock.Zero()
	s.internal = errors.Join(s.internal, err)
	s.checkClocks(clock)
	s.takeCounters(before, s.readCounters(ctx))
	s.takeGPUs(gpus)
}

// checkClocks compares the run's length on the wall clock with that on the
// monotonic one: a step of the wall clock moves no duration, but it can have
// moved kernel stamps. What it means is the verdict's.
func (s *session) checkClocks(clock loadgen.Clock) {
	s.res.clockOffset = gained(clock.Zero(), time.Now(), s.cfg.Target.Wall)
}

// connected counts the connections to the server that has the most, as long as they
// are those of a network with ports; else it is nil.
func (s *session) connected() func() int {
	if s.cfg.Target.Dial != nil {
		return nil
	}
	return func() (n int) {
		for i := range s.fleet {
			n = max(n, s.fleet[i].client.Connections())
		}
		return n
	}
}

// connections is how many stand open before the clock starts: as many as can be
// in flight, unless nobody knows how many that is.
func (s *session) connections() int {
	n := len(s.res.Plan.Requests)
	switch {
	case s.cfg.MaxConcurrency > 0:
		return min(n, s.cfg.MaxConcurrency)
	case s.res.Plan.Offsets != nil:
		return 0
	}
	return n
}
