package sim

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"
)

// engine runs a core by the clock. It has no goroutine: a timer stands at the next event while there is one, and whoever
// comes, the timer or a request, lets everything happen that is due. Events keep their own times however late that is, so
// a late timer moves none of them. It is safe for concurrent use.
type engine struct {
	mu    sync.Mutex
	core  *core       // guarded by mu
	epoch time.Time   // of the core's times: when the first request came; guarded by mu
	timer *time.Timer // nil before it; guarded by mu
}

func newEngine(c Config) *engine {
	return &engine{core: newCore(*c.Engine, c.MaxModelLen, c.Seed, c.Jitter, wake)}
}

// wake hands new tokens to the request's handler.
func wake(s *sequence, n int, _ time.Duration) {
	s.chunks = append(s.chunks, n)
	select {
	case s.wake <- struct{}{}:
	default: // it has not looked yet at what came before
	}
}

// submit starts a request that arrived at a time, now or a little before.
func (e *engine) submit(s *sequence, arrived time.Time) {
	s.wake = make(chan struct{}, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer == nil {
		e.epoch = arrived
		e.timer = time.AfterFunc(time.Hour, e.tick) // set right below
	}
	e.core.submit(s, arrived.Sub(e.epoch))
	e.advance()
}

// tick is the timer's.
func (e *engine) tick() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.advance()
}

// advance lets happen what is due and sets the timer. The caller holds mu.
func (e *engine) advance() {
	e.core.advance(time.Since(e.epoch))
	if at, ok := e.core.next(); ok {
		e.timer.Reset(time.Until(e.epoch.Add(at)))
	} else {
		e.timer.Stop()
	}
}

// wait sleeps until tokens are there and returns the number made by each step since the last call, to into's memory.
// When ctx ends first it takes the request out of the engine and returns the cause.
func (e *engine) wait(ctx context.Context, s *sequence, into []int) ([]int, error) {
	select {
	case <-s.wake:
	case <-ctx.Done():
		e.mu.Lock()
		defer e.mu.Unlock()
		e.core.cancel(s)
		return nil, context.Cause(ctx)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	into, s.chunks = s.chunks, into[:0]
	return into, nil
}

// took tells how long a request took that has ended. As in vLLM the engine looks for new requests between two steps, so
// what one waited for the end of a step is not in its queue's time.
func (e *engine) took(s *sequence) took {
	e.mu.Lock()
	defer e.mu.Unlock()
	return took{queue: s.begun - s.queued, first: s.first - s.begun, rest: s.last - s.first}
}

// cancel takes a request out of the engine; one that has ended is none of its business any more.
func (e *engine) cancel(s *sequence) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.core.cancel(s)
}

// reset empties the prefix cache if no request is running.
func (e *engine) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.advance()
	}
	e.core.pool.reset()
}

// state is what /metrics shows.
type state struct {
	tally
	running, waiting int
	usage            float64 // of the KV cache, 0 to 1
}

func (e *engine) state() state {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.advance()
	}
	c := e.core
	st := state{c.tally, len(c.running), len(c.waiting), 0}
	st.matchedAt = append([]uint64(nil), c.matchedAt...)
	// Requests in the front end are not the engine's yet, but one that it will take at its next step waits for it.
	for _, s := range c.arriving {
		if e.timer != nil && s.ready <= time.Since(e.epoch) {
			st.waiting++
		}
	}
	st.usage = 1 - float64(c.pool.free)/float64(c.pool.size)
	return st
}

// pool runs prompts that are only computed, and returns when the last one is.
func (e *engine) pool(ctx context.Context, arrived time.Time, lengths []int) error {
	prompts := make([]*sequence, len(lengths))
	for i, n := range lengths {
		prompts[i] = &sequence{promptTokens: n, maxTokens: 1, pooled: true}
		e.submit(prompts[i], arrived)
	}
	for i, s := range prompts {
		if _, err := e.wait(ctx, s, nil); err != nil {
			for _, left := range prompts[i+1:] {
				e.cancel(left)
			}
			return err
		}
	}
	return nil
}

// saltHash is 0 for no salt.
func saltHash(salt string) uint64 {
	if salt == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(salt))
	return binary.BigEndian.Uint64(sum[:])
}

// runEngine makes the tokens where an engine does. The error says that the client went away.
func (a *answer) runEngine(ctx context.Context, received time.Time) error {
	e, g := a.s.engine, a.g
	s := &sequence{promptTokens: g.promptTokens, maxTokens: g.maxTokens, word: a.word}
	if a.s.cfg.Engine.PrefixCaching {
		s.prompt, s.salt = g.promptIDs, saltHash(g.salt)
	}
	e.submit(s, received)
	var steps []int
	for made, sent := 0, 0; made < g.maxTokens; {
		var err error
		if steps, err = e.wait(ctx, s, steps); err != nil {
			return err
		}
		a.cached = s.cached // it does not change any more
		for _, n := range steps {
			made += n
			// As with vLLM's --stream-interval the first token and the last go at once.
			if !g.stream || sent > 0 && made-sent < a.s.cfg.TokensPerChunk && made < g.maxTokens {
				continue
			}
			if err := a.chunk(sent, made-sent); err != nil {
				e.cancel(s)
				return err
			}
			sent = made
		}
	}
	a.took = e.took(s)
	return nil
}

// chunk writes tokens of a stream, and before the first ones what opens it.
func (a *answer) chunk(first, n int) error {
	if first == 0 {
		if err := a.opening(); err != nil {
			return err
		}
	}
	return a.tokens(first, n)
}
