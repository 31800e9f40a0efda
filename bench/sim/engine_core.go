package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// sequence is one request as the engine knows it. The core owns it from submit until it is finished or canceled.
type sequence struct {
	promptTokens int
	prompt       []int32 // the ids, for the prefix cache; nil takes no part in it
	salt         uint64  // of the prompt's hashes
	cached       int     // tokens that came from the prefix cache when it was first admitted
	maxTokens    int     // to generate; a pooling request counts as one
	word         int     // which of words the answer begins with
	pooled       bool

	ready     time.Duration // when it reaches the waiting queue
	computed  int           // tokens in the KV cache
	made      int           // tokens generated
	preempted bool
	gone      bool // canceled

	queued, begun, first, last time.Duration // when it came to the waiting queue, its first step began, and tokens came

	drafting bool       // it has draft tokens to verify
	rate     float64    // at which they are accepted
	draws    *rand.Rand // that decide it; nil without speculation

	scheduled, drafted int // tokens in the present step; the drafts among them

	visit int // the number of its client's request, for who plays a run without handlers

	blocks     int // held
	held       []*block
	keptBlocks int
	hashes     []uint64

	chunks []int         // generated tokens not yet taken by the handler, one element a step
	wake   chan struct{} // of capacity 1; nil where nobody sleeps
}

// tokens is how many there are, computed or not.
func (s *sequence) tokens() int { return s.promptTokens + s.made }

func (s *sequence) token(i int) int32 {
	if i < s.promptTokens {
		return s.prompt[i]
	}
	return wordIDs[(s.word+i-s.promptTokens)%len(words)]
}

// decoding says whether s is past its prompt and only the last token is to be computed.
func (s *sequence) decoding() bool { return s.made > 0 && s.computed == s.tokens()-1 }

// tally is what the engine counts for /metrics.
type tally struct {
	promptTokens, generated  uint64
	queries, hits            uint64 // of the prefix cache, in tokens
	preemptions              uint64
	drafts, drafted, matched uint64   // decode steps with drafts; their tokens; those accepted
	matchedAt                []uint64 // accepted by position
	steps                    uint64
}

// core is the scheduler: requests go in, steps happen, tokens come out. It has no clock: times are offsets from one
// instant that the caller chose, and whoever advances it says what time it is. It is not safe for concurrent use.
type core struct {
	Engine // with defaults, TimeScale applied to the times
	limit  int
	pool   *blockPool
	shares []float64  // running sums of Acceptance's shares, up to 1
	seed   uint64     // of the draws
	jitter *rand.Rand // nil: none
	sigma  float64
	number uint64 // of the next request that generates

	// deliver is told of n new tokens of s at a time. made tells whether they are the last.
	deliver func(s *sequence, n int, at time.Duration)

	arriving  []*sequence // in the front end, by ready
	lastReady time.Duration
	waiting   []*sequence // the next one in front
	running   []*sequence // in order of admission

	stepping bool
	end      time.Duration // of the present step
	step     []*sequence   // its requests
	load     load          // of the present step

	tally
}

// load is what a step computes.
type load struct {
	decoding int // requests that decode
	context  int // tokens that they attend to
	prefill  int // tokens of prompts
	drafting bool
}

// newCore returns an idle engine. e must be valid for maxModelLen.
func newCore(e Engine, maxModelLen int, seed uint64, jitter float64, deliver func(*sequence, int, time.Duration)) *core {
	e = e.withDefaults(maxModelLen)
	scale := func(d time.Duration) time.Duration { return time.Duration(math.Round(float64(d) * e.TimeScale)) }
	e.StepBase, e.PerSequence, e.DraftOverhead = scale(e.StepBase), scale(e.PerSequence), scale(e.DraftOverhead)
	e.Overhead, e.Frontend = scale(e.Overhead), scale(e.Frontend)
	// A step may not begin at the very instant of the request that causes it: others may come at the same one, and which of
	// them is first is chance.
	e.IdleDelay = max(scale(e.IdleDelay), 1)
	e.PrefillRate /= e.TimeScale
	e.ContextRate /= e.TimeScale
	c := &core{Engine: e, limit: maxModelLen, seed: seed, deliver: deliver}
	c.pool = newBlockPool(e.blocks(), e.BlockSize, e.PrefixCaching)
	c.matchedAt = make([]uint64, e.SpeculativeTokens)
	sum := 0.0
	for _, a := range e.Acceptance {
		sum += a.Share
		c.shares = append(c.shares, sum)
	}
	for i := range c.shares {
		c.shares[i] /= sum
	}
	if jitter > 0 {
		c.jitter = rand.New(rand.NewPCG(seed, math.MaxUint64))
		c.sigma = math.Sqrt(math.Log1p(jitter * jitter))
	}
	return c
}

// submit takes a request that arrives at a time; times must not fall from call to call.
func (c *core) submit(s *sequence, at time.Duration) {
	s.ready = max(at+c.Overhead, c.lastReady) + c.Frontend
	c.lastReady = s.ready
	if c.SpeculativeTokens > 0 && !s.pooled {
		// The fractional parts of multiples of the golden ratio fill [0, 1) evenly however many there are.
		_, u := math.Modf(float64(c.number) * (math.Phi - 1))
		kind := 0
		for kind < len(c.shares)-1 && u >= c.shares[kind] {
			kind++
		}
		s.rate = c.Acceptance[kind].Rate
		s.draws = rand.New(rand.NewPCG(c.seed, c.number))
	}
	if !s.pooled {
		c.number++
	}
	c.arriving = append(c.arriving, s)
}

// cancel forgets a request, wherever it is.
func (c *core) cancel(s *sequence) {
	s.gone = true
	same := func(o *sequence) bool { return o == s }
	c.arriving = slices.DeleteFunc(c.arriving, same)
	c.waiting = slices.DeleteFunc(c.waiting, same)
	c.running = slices.DeleteFunc(c.running, same)
	c.pool.release(s)
}

// next is when something happens without a further request; nothing does where ok is false.
func (c *core) next() (at time.Duration, ok bool) {
	switch {
	case c.stepping:
		return c.end, true
	case len(c.arriving) > 0:
		return c.arriving[0].ready + c.IdleDelay, true
	}
	// Nobody waits or runs: where no step is on its way the first in the queue has an empty cache to itself, and Validate
	// has seen to it that it fits.
	return 0, false
}

// advance lets everything happen that is due at now.
func (c *core) advance(now time.Duration) {
	for {
		at, ok := c.next()
		if !ok || at > now {
			return
		}
		if c.stepping {
			c.finish(at)
		}
		c.admit(at)
		c.begin(at)
	}
}

// admit moves the requests that are ready before a time to the waiting queue. One that is ready at that very instant has
// missed the step, so that it does not matter which of the two is looked at first.
func (c *core) admit(at time.Duration) {
	n := 0
	for n < len(c.arriving) && c.arriving[n].ready < at {
		c.arriving[n].queued = at
		n++
	}
	c.waiting = append(c.waiting, c.arriving[:n]...)
	c.arriving = slices.Delete(c.arriving, 0, n)
}

// begin schedules a step and starts it at a time.
func (c *core) begin(at time.Duration) {
	c.step, c.load, c.end = c.step[:0], load{}, at
	budget, preempted := c.scheduleRunning(c.MaxNumBatchedTokens)
	if !preempted {
		c.scheduleWaiting(budget)
	}
	if c.stepping = len(c.step) > 0; c.stepping {
		c.steps++
		c.end += c.duration(c.load)
	}
}

// scheduleRunning gives each running request its tokens, in order of admission, while the budget lasts. Where the KV cache
// runs out the last admitted request loses its place and begins anew.
func (c *core) scheduleRunning(budget int) (left int, preempted bool) {
	for i := 0; i < len(c.running) && budget > 0; i++ {
		s := c.running[i]
		n, drafts := s.tokens()-s.computed, 0
		if s.drafting && s.decoding() {
			// No token may lie beyond the model's length, and there is none to draft for the last position.
			drafts = max(0, min(c.SpeculativeTokens, c.limit-1-s.tokens(), budget-n))
		}
		n = min(n, budget) + drafts
		for !c.pool.grow(s, s.computed+n) {
			preempted = true
			if c.preempt() == s {
				return budget, true
			}
		}
		c.schedule(s, n, drafts)
		budget -= n
	}
	return budget, preempted
}

// preempt throws the last admitted request back to the front of the waiting queue; all it has is computed again.
func (c *core) preempt() *sequence {
	s := c.running[len(c.running)-1]
	c.running = c.running[:len(c.running)-1]
	c.pool.release(s)
	s.computed, s.drafting, s.preempted = 0, false, true
	c.waiting = slices.Insert(c.waiting, 0, s)
	c.preemptions++
	return s
}

// scheduleWaiting admits waiting requests first come, first served: the first that cannot go holds up the others.
func (c *core) scheduleWaiting(budget int) {
	for budget > 0 && len(c.waiting) > 0 && len(c.running) < c.MaxNumSeqs {
		s := c.waiting[0]
		hits := c.pool.lookup(s)
		cached := len(hits) * c.BlockSize
		n := s.tokens() - cached
		if n > budget && !c.ChunkedPrefill || !c.pool.fits(s, hits) {
			return
		}
		n = min(n, budget)
		if c.PrefixCaching && s.prompt != nil && !s.preempted {
			c.queries += uint64(s.tokens())
			c.hits += uint64(cached)
			s.cached = cached
		}
		if !s.preempted {
			s.begun = c.end
		}
		c.pool.share(s, hits)
		s.computed = cached
		c.pool.grow(s, s.computed+n) // it fits as a whole
		c.waiting = slices.Delete(c.waiting, 0, 1)
		c.running = append(c.running, s)
		c.schedule(s, n, 0)
		budget -= n
	}
}

// schedule puts n tokens of s, the last of them drafts, into the step.
func (c *core) schedule(s *sequence, n, drafts int) {
	s.scheduled, s.drafted = n, drafts
	c.step = append(c.step, s)
	if s.decoding() {
		c.load.decoding++
		c.load.context += s.computed
		c.load.drafting = c.load.drafting || drafts > 0
	} else {
		c.load.prefill += n
	}
	c.pool.keep(s, min(s.computed+n, s.tokens()))
}

// duration is how long a step with that load takes: the formula of docs/simulator.md.
func (c *core) duration(l load) time.Duration {
	d := float64(c.StepBase) + float64(l.decoding)*float64(c.PerSequence)
	if c.ContextRate > 0 {
		d += float64(l.context) / c.ContextRate * 1e9
	}
	if c.PrefillRate > 0 {
		d += float64(l.prefill) / c.PrefillRate * 1e9
	}
	if l.drafting {
		d += float64(c.DraftOverhead)
	}
	if c.jitter != nil {
		d *= math.Exp(c.sigma*c.jitter.NormFloat64() - c.sigma*c.sigma/2)
	}
	return time.Duration(math.Round(d))
}

// finish ends the present step at a time: its tokens are there.
func (c *core) finish(at time.Duration) {
	ended := false
	for _, s := range c.step {
		if s.gone {
			continue
		}
		tokens := s.tokens()
		if s.computed += s.scheduled - s.drafted; s.computed < tokens {
			continue // a chunk of the prompt that is not its last
		}
		accepted := c.verify(s)
		s.computed += accepted
		s.drafting = c.SpeculativeTokens > 0
		if s.last = at; s.made == 0 {
			s.first = at
			c.promptTokens += uint64(s.promptTokens)
		}
		n := min(1+accepted, s.maxTokens-s.made)
		s.made += n
		if !s.pooled {
			c.generated += uint64(n)
		}
		if s.made == s.maxTokens {
			ended = true
			c.pool.release(s)
		}
		c.deliver(s, n, at)
	}
	if ended {
		c.running = slices.DeleteFunc(c.running, func(s *sequence) bool { return s.made == s.maxTokens })
	}
	c.stepping = false
}

// verify draws how many of the drafts of s are accepted: those before the first that is not.
func (c *core) verify(s *sequence) (accepted int) {
	if s.drafted == 0 {
		return 0
	}
	for accepted < s.drafted && s.draws.Float64() < s.rate {
		c.matchedAt[accepted]++
		accepted++
	}
	c.drafts++
	c.drafted += uint64(s.drafted)
	c.matched += uint64(accepted)
	return accepted
}
