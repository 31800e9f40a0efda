package bench

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/manifest"
	"github.com/servebench/servebench/manifest/probe"
	"github.com/servebench/servebench/metrics"
	"github.com/servebench/servebench/tokenize"
	"github.com/servebench/servebench/tokenize/remote"
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
	Records  []metrics.Record
	Warnings []string

	Plan *Plan
	// Engine is what the server told of itself; Environment describes the
	// server's host where that is this one, else it is nil.
	Engine      probe.Server
	Environment *manifest.Environment
	sameHost    bool
	proxied     bool
	clockOffset time.Duration // by how much the wall clock gained on the run
	opened      int           // connections asked for before the clock
	warmups     int           // warm-up requests that were sent
	// Stopped tells that the user ended the run early.
	Stopped bool
	// ReadyRequests counts the untimed ones of the ready check.
	ReadyRequests int
	// Speculation counts the timed part; nil where the server tells none.
	Speculation *metrics.Speculation
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
	return metrics.Options{Percentiles: c.Percentiles, Goodput: c.Goodput, OpenLoop: c.openLoop()}
}

// Plan is a run that is ready to start: every body is encoded, every due time
// known.
type Plan struct {
	Requests []loadgen.Request
	warmups  []loadgen.Request
	Offsets  []time.Duration // nil in a closed loop
	// SHA256 is the digest of the bodies in order, each preceded by its length
	// as 8 bytes, big endian.
	SHA256    string
	Generator string
	Synthetic bool
	Tokenizer *tokenize.Info // nil where no local tokenizer was used
	claimed   []int          // lengths that were asked for and nobody counted
	special   int            // tokens the server puts around a prompt, uncounted here
	Counted   string         // who counts prompts: "tokenizer", "server" or "nobody"
	Warnings  []string
}

// session is one run under way.
type session struct {
	cfg    Config
	client *openai.Client
	tok    tokenize.Tokenizer
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
	defer s.client.Close()
	// Before the first timed request there is nothing to let end: Stop ends it.
	before, cancel := stopContext(ctx, cfg.Stop)
	defer cancel()
	if err := s.prepare(before); err != nil {
		return s.failed(before, err)
	}
	if err := s.ready(before); err != nil {
		return s.failed(before, err)
	}
	s.warmUp(before)
	s.run(ctx)
	return s.finish(ctx)
}

// stopContext is ctx, canceled too when stop closes. The returned function ends
// the wait for that and must be called.
func stopContext(ctx context.Context, stop <-chan struct{}) (context.Context, func()) {
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

// Prepare makes the plan of a run and sends nothing: a dry run. What only the
// server can tell is missing: the name of an unnamed model, and the length of
// prompts where no local tokenizer counts them.
func Prepare(ctx context.Context, cfg Config) (*Plan, error) {
	s, err := open(cfg)
	if err != nil {
		return nil, err
	}
	defer s.client.Close()
	if s.tok == nil && !s.cfg.Dataset.TokenIDs {
		s.warnf("No local tokenizer counts the prompts; the run itself asks the server, and their bytes may then differ.")
	}
	if err := s.build(ctx, false); err != nil {
		return nil, err
	}
	s.res.Plan.Warnings = append(s.res.Warnings, s.res.Plan.Warnings...)
	return s.res.Plan, nil
}

func open(cfg Config) (*session, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &session{cfg: cfg, res: &Result{Plan: &Plan{Counted: "nobody"}}}
	s.res.Start = time.Now()
	if err := s.openTokenizer(cfg.Model); err != nil {
		return nil, err
	}
	// The text is needed to count it, where the server does not.
	if !cfg.NoTokenizer && cfg.Target.Text == openai.TextNever {
		s.cfg.Target.Text = openai.TextUncounted
	}
	var err error
	s.client, err = openai.New(s.cfg.Target)
	if err != nil {
		return nil, fmt.Errorf("base-url: %w", err)
	}
	s.res.proxied = s.client.Proxied()
	if cfg.Progress != nil {
		cfg.Progress.events.Store(&s.client.Events)
	}
	return s, nil
}

func (s *session) warnf(format string, args ...any) {
	s.res.Warnings = append(s.res.Warnings, fmt.Sprintf(format, args...))
}

// openTokenizer opens the local tokenizer that was named, or the model's, if
// there is one.
func (s *session) openTokenizer(model string) error {
	name := cmp.Or(s.cfg.Tokenizer, model)
	if s.cfg.NoTokenizer || name == "" {
		return nil
	}
	path, err := tokenize.Find(name)
	if err != nil {
		if s.cfg.Tokenizer != "" {
			return fmt.Errorf("tokenizer: %w", err)
		}
		return nil
	}
	info, err := tokenize.Describe(path)
	if err == nil {
		s.tok, err = tokenize.Open(path)
	}
	switch {
	case err == nil:
	case errors.Is(err, tokenize.ErrNotBuilt), s.cfg.Tokenizer == "":
		s.warnf("The tokenizer of %s is not used: %v.", filepath.Base(name), err)
		return nil
	default:
		return fmt.Errorf("tokenizer: %w", err)
	}
	s.res.Plan.Tokenizer, s.res.Plan.Counted = &info, "tokenizer"
	if info.Note != "" {
		s.warnf("tokenizer %s: %s", info.Identifier, info.Note)
	}
	return nil
}

// prepare reaches the server and builds the plan. A mistake in what the user
// gave goes before a server that is not there.
func (s *session) prepare(ctx context.Context) error {
	if s.cfg.Dataset.Name == "custom" && !s.cfg.Dataset.TokenIDs {
		s.cfg.Progress.enter("prompts", 0)
		if err := s.build(ctx, false); err != nil {
			return err
		}
	}
	s.cfg.Progress.enter("waiting for the server", 0)
	if err := s.reach(ctx); err != nil {
		// The manifest of a failed run tells its workload all the same.
		if wrong := s.build(ctx, false); wrong != nil && ctx.Err() == nil {
			return wrong
		}
		return err
	}
	s.cfg.Progress.enter("prompts", 0)
	return s.build(ctx, true)
}

// reach finds out whether the server is there, what it is and which model it
// serves. What it tells of itself only advises.
func (s *session) reach(ctx context.Context) error {
	wait := s.cfg.ReadyTimeout
	err := retry(ctx, wait, func() error { return s.client.Open(ctx, 1) })
	if err != nil {
		return s.targetError("connect", err)
	}
	if s.cfg.Model == "" {
		if err := s.firstModel(ctx); err != nil {
			return err
		}
	}
	info, warnings := probe.Engine(ctx, s.client.HTTP(), s.cfg.Target.BaseURL, s.client.Headers())
	s.res.Engine = info
	s.res.Warnings = append(s.res.Warnings, warnings...)
	if names := s.res.Served(); len(names) > 0 && !slices.Contains(names, s.servedModel()) {
		s.warnf("The server does not list %s; it lists %s.", s.servedModel(), strings.Join(names, ", "))
	}
	return nil
}

func (s *session) targetError(stage string, err error) *TargetError {
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

// servedModel is the name in the bodies.
func (s *session) servedModel() string {
	return cmp.Or(s.cfg.ServedModel, s.cfg.Model)
}

// build makes the plan; ask allows to ask the server for counts.
func (s *session) build(ctx context.Context, ask bool) error {
	tok := s.tok
	if tok == nil && !s.cfg.NoTokenizer && ask {
		tok = s.serverTokenizer(ctx)
	}
	set, err := dataset.Load(ctx, s.cfg.Dataset, tok)
	if err != nil {
		return err
	}
	p := s.res.Plan
	if p.Counted == "nobody" && !s.cfg.Dataset.TokenIDs {
		// What was asked for is no count; it is kept to be compared with one.
		p.claimed = make([]int, len(set.Requests))
		for i := range set.Requests {
			p.claimed[i], set.Requests[i].InputTokens = set.Requests[i].InputTokens, 0
		}
	}
	p.Generator, p.Synthetic, p.Warnings = set.Generator, set.Synthetic, set.Warnings
	if v, ok := vocabulary(tok); ok && s.cfg.Dataset.Name == "random" && !s.cfg.Dataset.TokenIDs {
		p.special = v.Added
	}
	if s.cfg.openLoop() {
		p.Offsets, err = loadgen.Offsets(len(set.Requests), s.cfg.Rate, s.cfg.Burstiness, s.cfg.Dataset.Seed)
		if err != nil {
			return err
		}
	}
	if p.warmups, err = s.encode(set.Warmups); err != nil {
		return err
	}
	if p.Requests, err = s.encode(set.Requests); err != nil {
		return err
	}
	if prefix := s.cfg.RequestIDPrefix; prefix != "" {
		for i := range p.Requests {
			p.Requests[i].ID = fmt.Sprint(prefix, i)
		}
	}
	p.SHA256, err = digest(p.Requests)
	return err
}

func vocabulary(tok tokenize.Tokenizer) (v tokenize.Vocabulary, ok bool) {
	if tok == nil {
		return v, false
	}
	return tok.Vocabulary()
}

// tokenizeTimeout bounds the wait for one answer of /tokenize.
const tokenizeTimeout = 15 * time.Second

// serverTokenizer is the server's own, if it has one that answers.
func (s *session) serverTokenizer(ctx context.Context) tokenize.Tokenizer {
	client := *s.client.HTTP()
	client.Timeout = tokenizeTimeout
	tok := remote.New(&client, s.cfg.Target.BaseURL, s.servedModel(), s.client.Headers())
	if _, err := tok.Encode(ctx, "count", false); err != nil {
		s.warnf("No local tokenizer, and the server counts no prompts (%v): lengths are compared with its usage only.", err)
		return nil
	}
	s.res.Plan.Counted = "server"
	if !s.cfg.Dataset.TokenIDs && s.cfg.Dataset.Name == "random" {
		s.warnf("No local tokenizer for %s: prompts are seeded words, counted by the server's /tokenize.", s.cfg.Model)
	}
	return tok
}

// spoolOver is how many bytes of bodies are held in memory; more go to a file
// that has no name any more.
const spoolOver = 8 << 20

// encode makes the bodies, on all cores; the prompts are not needed after it.
func (s *session) encode(in []dataset.Request) ([]loadgen.Request, error) {
	f := openai.Format{
		API: s.cfg.API(), Model: s.servedModel(), Stream: s.cfg.Stream, IgnoreEOS: s.cfg.IgnoreEOS,
		Logprobs: s.cfg.Logprobs, Strict: s.cfg.Strict, Sampling: s.cfg.Sampling, Extra: s.cfg.Extra,
	}
	out := make([]loadgen.Request, len(in))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	var spool spool
	const chunk = 64
	for from := 0; from < len(in); from += chunk {
		g.Go(func() error {
			for i := from; i < min(from+chunk, len(in)); i++ {
				body, err := f.Encode(in[i])
				if err != nil {
					return fmt.Errorf("request %d: %w", i, err)
				}
				out[i] = loadgen.Request{Body: body, PromptTokens: in[i].InputTokens, OutputTokens: asked(body, in[i].OutputTokens)}
				in[i] = dataset.Request{}
				if i > 0 { // the manifest looks into the first one
					spool.put(&out[i])
				}
			}
			return nil
		})
	}
	return out, g.Wait()
}

// asked is the number of tokens a body asks for: --extra-body may have changed
// it.
func asked(body []byte, otherwise int) int {
	for _, key := range []string{"max_completion_tokens", "max_tokens"} {
		if v := gjson.GetBytes(body, key); v.Type == gjson.Number && v.Num >= 0 && v.Num < 1<<40 {
			return int(v.Num)
		}
	}
	return otherwise
}

func digest(requests []loadgen.Request) (string, error) {
	h := sha256.New()
	var length [8]byte
	for i := range requests {
		body, err := requests[i].Bytes()
		if err != nil {
			return "", err
		}
		binary.BigEndian.PutUint64(length[:], uint64(len(body)))
		h.Write(length[:])
		h.Write(body)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// ready sends request 0 until it succeeds, if that was asked for, for as long as
// was asked for.
func (s *session) ready(ctx context.Context) error {
	if s.cfg.ReadyTimeout <= 0 {
		return nil
	}
	s.cfg.Progress.enter("ready check", 1)
	first := s.res.Plan.Requests[0]
	first.ID = ""
	limited, cancel := context.WithTimeout(ctx, s.cfg.ReadyTimeout)
	defer cancel()
	return retry(limited, s.cfg.ReadyTimeout, func() error {
		s.res.ReadyRequests++
		recs, _, err := loadgen.Run(limited, s.client, []loadgen.Request{first}, loadgen.Load{})
		if err != nil {
			return err
		}
		r := &recs[0]
		if r.Outcome == metrics.Canceled && ctx.Err() == nil {
			return &TargetError{"readiness", "timeout", fmt.Errorf("the ready check failed: no answer within %v", s.cfg.ReadyTimeout)}
		}
		if r.Outcome != metrics.OK {
			return &TargetError{"readiness", category(r), fmt.Errorf("the ready check failed: %s", describe(r))}
		}
		return nil
	})
}

// warmUp sends the warm-up requests: untimed, as fast as the cap allows.
func (s *session) warmUp(ctx context.Context) {
	w := s.res.Plan.warmups
	if len(w) == 0 {
		return
	}
	s.cfg.Progress.enter("warm-up", len(w))
	recs, _, err := loadgen.Run(ctx, s.client, w, loadgen.Load{MaxConcurrency: s.cfg.MaxConcurrency, Done: s.note})
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
		s.res.opened = n
		if err := s.client.Open(ctx, n); err != nil {
			s.warnf("not all %d connections could be opened beforehand: %v", n, err)
		}
	}
	// What was built is kept to the end; collecting the rubble of building it
	// must not fall into the run, nor its memory stay.
	debug.FreeOSMemory()
	before := s.speculation(ctx)
	s.cfg.Progress.enter("run", len(p.Requests))
	records, clock, err := loadgen.Run(ctx, s.client, p.Requests, loadgen.Load{
		Offsets: p.Offsets, MaxConcurrency: s.cfg.MaxConcurrency, Pacing: s.cfg.Pacing,
		Stop: s.cfg.Stop, Grace: s.cfg.Grace, Done: s.note,
	})
	s.res.Records, s.res.Start = records, clock.Zero()
	s.internal = errors.Join(s.internal, err)
	s.checkClocks(clock)
	s.res.Speculation = s.speculation(ctx).Sub(before)
}

// checkClocks compares the run's length on the wall clock with that on the
// monotonic one: a step of the wall clock moves no duration, but it can have
// moved kernel stamps.
func (s *session) checkClocks(clock loadgen.Clock) {
	end := time.Now()
	mono, wall := end.Sub(clock.Zero()), end.Round(0).Sub(clock.Zero().Round(0))
	off := float64((wall - mono).Abs()) / float64(max(mono, time.Second))
	switch {
	case off > 0.01:
		s.warnf("INVALID: the wall clock disagrees with the monotonic clock by %v over %v; arrivals by kernel stamps cannot be trusted.", wall-mono, mono)
	case off > 0.001:
		s.warnf("The wall clock disagrees with the monotonic clock by %v over %v.", wall-mono, mono)
	}
	s.res.clockOffset = wall - mono
}

// speculation reads vLLM's counters. The window between two readings is that of
// the timed requests: warm-ups would flatter the acceptance.
func (s *session) speculation(ctx context.Context) *metrics.Speculation {
	if s.res.Engine.Name != "vllm" || ctx.Err() != nil {
		return nil
	}
	return probe.Speculation(ctx, s.client.HTTP(), s.cfg.Target.BaseURL, s.client.Headers())
}

// connections is how many stand open before the clock starts: as many as can be
// in flight, unless nobody knows how many that is.
func (s *session) connections() int {
	n := len(s.res.Plan.Requests)
	switch {
	case s.cfg.MaxConcurrency > 0:
		return min(n, s.cfg.MaxConcurrency)
	case s.cfg.openLoop():
		return 0
	}
	return n
}

// finish turns the records into numbers.
func (s *session) finish(ctx context.Context) (*Result, error) {
	s.cfg.Progress.enter("results", 0)
	r := s.res
	s.countTokens(context.WithoutCancel(ctx))
	r.Config = s.cfg
	r.Summary = metrics.Summarize(r.Records, r.options())
	r.Duration = r.Summary.Last
	r.Warnings = append(r.Warnings, r.Plan.Warnings...)
	s.describeHost(ctx)
	issued := r.Summary.Completed + r.Summary.Failed
	r.Stopped = (ctx.Err() != nil || s.stopped()) && (issued < len(r.Records) || r.Summary.Outcomes[metrics.Canceled] > 0)
	if r.Stopped {
		r.Warnings = append(r.Warnings, fmt.Sprintf("Interrupted after %d of %d requests.", r.Summary.Completed, len(r.Records)))
	}
	if s.internal != nil {
		r.Warnings = append(r.Warnings, "INVALID: an internal error of servebench ended the run.")
	}
	r.Warnings = append(r.Warnings, r.doubts()...)
	switch {
	case r.Summary.Completed == 0 && s.internal != nil:
		return r.fail(&TargetError{"timed_run", "internal_error", errors.New("an internal error of servebench ended the run")}), s.internal
	case r.Summary.Completed == 0 && r.Stopped:
		stage := "timed_run"
		if issued == 0 {
			stage = "preparation"
		}
		return r.fail(&TargetError{stage, "interrupted", errors.New("interrupted before any request completed")}), nil
	case r.Summary.Completed == 0:
		first := firstFailure(r.Records)
		err := &TargetError{"timed_run", category(first), fmt.Errorf("all %d requests failed, the first with: %s", issued, describe(first))}
		return r.fail(err), err
	case r.Stopped:
		r.Outcome = manifest.Interrupted
	default:
		r.Outcome = manifest.Completed
	}
	r.redact()
	return r, s.internal
}

// fail makes r the result of a failed run.
func (r *Result) fail(e *TargetError) *Result {
	r.Outcome = manifest.Failed
	r.Failure = &manifest.Failure{Stage: e.Stage, Category: e.Category, MessageSanitized: e.Error()}
	r.redact()
	return r
}

func (s *session) stopped() bool {
	select {
	case <-s.cfg.Stop:
		return true
	default:
		return false
	}
}

// redact cleans what servers said of what is ours: records and results are
// files to be published.
func (r *Result) redact() {
	red := r.redactor()
	for i, w := range r.Warnings {
		r.Warnings[i], _ = red.String(w)
	}
	if r.Failure != nil {
		r.Failure.MessageSanitized, _ = red.String(r.Failure.MessageSanitized)
	}
	known := map[string]string{"": ""} // failures repeat themselves
	for i := range r.Records {
		rec := &r.Records[i]
		clean, ok := known[rec.Error]
		if !ok {
			clean, _ = red.String(rec.Error)
			known[rec.Error] = clean
		}
		rec.Error = clean
	}
}

// countTokens counts the texts whose tokens the server did not.
func (s *session) countTokens(ctx context.Context) {
	for i := range s.res.Records {
		r := &s.res.Records[i]
		counted := r.TokenSource != "" && r.TokenSource != metrics.FromChunks
		if r.Outcome == metrics.OK && !counted && s.tok != nil && r.Text != "" {
			if ids, err := s.tok.Encode(ctx, r.Text, false); err == nil {
				r.OutputTokens, r.TokenSource = len(ids), metrics.FromTokenizer
			}
		}
		if s.cfg.Target.Text != openai.TextAlways {
			r.Text = ""
		}
	}
}

// failed makes the result of a run that did not come to its first timed request.
func (s *session) failed(ctx context.Context, err error) (*Result, error) {
	r := s.res
	var target *TargetError
	isTarget := errors.As(err, &target)
	if !isTarget && ctx.Err() == nil {
		return nil, err // a mistake of the user's
	}
	r.Config = s.cfg
	r.Warnings = append(r.Warnings, r.Plan.Warnings...)
	r.Summary = metrics.Summarize(nil, r.options())
	s.describeHost(ctx)
	if r.Stopped = ctx.Err() != nil; r.Stopped {
		return r.fail(&TargetError{"preparation", "interrupted", errors.New("interrupted before the first timed request")}), nil
	}
	return r.fail(target), target
}

// describeHost looks at this machine where the server runs on it.
func (s *session) describeHost(ctx context.Context) {
	u, err := url.Parse(s.cfg.Target.BaseURL)
	if err != nil || s.cfg.Target.Dial != nil {
		return
	}
	host := u.Hostname()
	ip := net.ParseIP(host)
	s.res.sameHost = strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
	if !s.res.sameHost {
		s.warnf("the server is on another host: the manifest does not describe its machine")
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	env, warnings := probe.Host(ctx)
	for i := range env.Accelerators {
		// What is there is not what the server uses, unless it is one.
		if a := &env.Accelerators[i]; a.Count > 1 {
			s.warnf("This host has %d %s; how many of them the server uses was not declared.", a.Count, a.Model)
			a.Count = 0
		}
	}
	s.res.Environment = env
	s.res.Warnings = append(s.res.Warnings, warnings...)
}

// category is the class of a failure in snake case.
func category(r *metrics.Record) string {
	if r.Outcome == metrics.HTTP {
		return fmt.Sprintf("http_%d", r.Status)
	}
	return string(r.Outcome)
}

// describe says in a line how a request failed.
func describe(r *metrics.Record) string {
	if r.Outcome == metrics.HTTP {
		return fmt.Sprintf("HTTP %d: %s", r.Status, r.Error)
	}
	if r.Error == string(r.Outcome) {
		return r.Error
	}
	return fmt.Sprintf("%s: %s", r.Outcome, r.Error)
}

func firstFailure(records []metrics.Record) *metrics.Record {
	for i := range records {
		if o := records[i].Outcome; o != "" && o != metrics.OK {
			return &records[i]
		}
	}
	return &metrics.Record{Outcome: metrics.Dropped, Error: "no request was sent"}
}
