package bench

import (
	"cmp"
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/tokenize"
	"github.com/servebench/servebench/tokenize/remote"
)

// alignWorkers is how many prompts are cut at a time, as many as vLLM's client
// has questions under way.
const alignWorkers = 64

// aligner cuts prompts that a local tokenizer made to the length that the server
// counts, where the two disagree on request 0. It is safe for concurrent use.
type aligner struct {
	tok   tokenize.Tokenizer // the server's
	vllm  bool               // the server is one that has /tokenize
	ctx   context.Context    // of the load: Emit knows none
	group *errgroup.Group

	mu      sync.Mutex
	decided bool
	differs bool // request 0 has another length there
	waiting []func() error
	theirs  int // what the server counts of request 0, and what was made
	ours    int
	silent  error // why the server could not be asked about request 0
	cut     int
	failed  int
	first   error // of those that failed
	lost    int   // of them, those since the last answer
	left    int   // prompts that were not asked about any more
}

// aligner is nil where prompts are not aligned: they are ids, no local tokenizer
// made them to a length, or the server is a simulator, which has no model's.
func (s *session) aligner(ctx context.Context) *aligner {
	d := &s.cfg.Dataset
	if s.tok == nil || s.res.Simulated() || d.TokenIDs || d.Name != "random" && d.Name != "prefix_repetition" {
		return nil
	}
	client := *s.client.HTTP()
	client.Timeout = tokenizeTimeout
	a := &aligner{
		tok:  remote.New(&client, s.cfg.Target.BaseURL, s.servedModel(), s.client.Headers()),
		vllm: s.res.Engine.Name == "vllm", ctx: ctx,
	}
	a.renew()
	return a
}

func (a *aligner) renew() {
	a.group = new(errgroup.Group)
	a.group.SetLimit(alignWorkers)
}

// take hands prompt i to put, perhaps cut, now or until finish. Those that come
// before request 0 is decided are kept: it may be that it never comes.
func (a *aligner) take(i int, r dataset.Request, put func(int, dataset.Request) error) error {
	next := func() error { return a.pass(i, r, put) }
	a.mu.Lock()
	if !a.decided && i > 0 {
		a.waiting = append(a.waiting, next)
		a.mu.Unlock()
		return nil
	}
	decided := a.decided
	a.mu.Unlock()
	if decided {
		return next()
	}
	a.decide(&r)
	if err := next(); err != nil {
		return err
	}
	return a.release()
}

// decide asks the server about request 0.
func (a *aligner) decide(r *dataset.Request) {
	var ids []int
	var err error
	comparable := r.Prompt != "" && r.Texts == nil
	if comparable {
		ids, err = a.tok.Encode(a.ctx, r.Prompt, false)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.decided, a.silent = true, err
	a.theirs, a.ours = len(ids), r.InputTokens
	a.differs = comparable && err == nil && a.theirs != a.ours
}

// release lets those go on that waited.
func (a *aligner) release() error {
	a.mu.Lock()
	waiting := a.waiting
	a.waiting = nil
	a.mu.Unlock()
	for _, next := range waiting {
		if err := next(); err != nil {
			return err
		}
	}
	return nil
}

// pass puts a prompt as it is, or from a goroutine of the group as the server has
// it.
func (a *aligner) pass(i int, r dataset.Request, put func(int, dataset.Request) error) error {
	if !a.differs || r.Prompt == "" || a.silenced() {
		return put(i, r)
	}
	a.group.Go(func() error {
		err := a.fit(&r)
		a.mu.Lock()
		if a.lost++; err == nil {
			a.lost = 0
		} else {
			a.failed++
			a.first = cmp.Or(a.first, err)
		}
		a.mu.Unlock()
		return put(i, r)
	})
	return nil
}

// silenced tells that a whole round of questions has had no answer, and counts the
// prompt that is therefore left: each would be waited for as long.
func (a *aligner) silenced() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lost < alignWorkers {
		return false
	}
	a.left++
	return true
}

// fit cuts a prompt that is too long. One that is too short stays, with the
// server's count of it.
func (a *aligner) fit(r *dataset.Request) error {
	ids, err := a.tok.Encode(a.ctx, r.Prompt, false)
	if err != nil {
		return err
	}
	if len(ids) <= r.InputTokens {
		r.InputTokens = len(ids)
		return nil
	}
	text, err := a.tok.Decode(a.ctx, ids[:r.InputTokens])
	if err != nil {
		return err
	}
	r.Prompt = text
	a.mu.Lock()
	a.cut++
	a.mu.Unlock()
	return nil
}

// finish waits for all that was taken.
func (a *aligner) finish() error {
	err := a.release() // request 0 never came
	defer a.renew()    // for the warm-ups
	return cmp.Or(a.group.Wait(), err)
}

// report adds to the plan's warnings what was done, and returns how many prompts
// were cut.
func (a *aligner) report(p *Plan) int {
	switch {
	case a.silent != nil && a.vllm:
		p.warnf("The server was not asked for its count of the prompts: %v.", a.silent)
	case a.differs:
		p.warnf("The server counts %d tokens of request 0 and the local tokenizer %d: %d prompts were cut by the server's tokenizer, shorter ones left.", a.theirs, a.ours, a.cut)
	}
	if a.failed > 0 {
		p.warnf("%d prompts could not be aligned with the server's tokenizer, the first: %v.", a.failed+a.left, a.first)
	}
	return a.cut
}
