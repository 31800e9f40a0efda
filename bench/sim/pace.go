package sim

import (
	"container/list"
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

// gate hands out slots in the order they were asked for.
type gate struct {
	limit int // 0: none

	mu    sync.Mutex
	used  int       // guarded by mu
	queue list.List // of chan struct{}, closed when the slot is handed over; guarded by mu
}

// acquire takes a slot and says whether it had to wait for it; it returns ctx's error where that ends first.
// Every acquire without an error is followed by one release.
func (g *gate) acquire(ctx context.Context) (waited bool, err error) {
	g.mu.Lock()
	if g.limit == 0 || g.used < g.limit {
		g.used++
		g.mu.Unlock()
		return false, nil
	}
	granted := make(chan struct{})
	place := g.queue.PushBack(granted)
	g.mu.Unlock()

	select {
	case <-granted:
		return true, nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	select {
	case <-granted: // both happened: the slot is ours and goes to the next one
		g.mu.Unlock()
		g.release()
	default:
		g.queue.Remove(place)
		g.mu.Unlock()
	}
	return true, context.Cause(ctx)
}

// release passes the slot to the longest waiting request; the number in use falls only where there is none.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if first := g.queue.Front(); first != nil {
		close(g.queue.Remove(first).(chan struct{}))
		return
	}
	g.used--
}

// load returns how many requests hold a slot and how many wait for one.
func (g *gate) load() (running, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.used, g.queue.Len()
}

// pace knows when the next token of one request is due. Due times are offsets from one instant: being late for one of
// them moves no other.
type pace struct {
	start  time.Time
	due    time.Duration // of the latest token asked for, from start
	itl    time.Duration
	jitter *rand.Rand // nil: none
	mean   float64    // of the factor's logarithm
	sigma  float64
	timer  *time.Timer // made at the first wait
}

func (c *Config) pace(start time.Time, number uint64, promptTokens int) *pace {
	p := &pace{start: start, itl: c.ITL}
	if c.Jitter > 0 {
		p.jitter = rand.New(rand.NewPCG(c.Seed, number))
		// exp(N(mean, sigma)) has mean 1 and standard deviation Jitter.
		variance := math.Log1p(c.Jitter * c.Jitter)
		p.mean, p.sigma = -variance/2, math.Sqrt(variance)
	}
	p.due = p.vary(c.TTFT + time.Duration(promptTokens)*c.PerPromptToken)
	return p
}

func (p *pace) vary(d time.Duration) time.Duration {
	if p.jitter == nil {
		return d
	}
	return time.Duration(float64(d) * math.Exp(p.mean+p.sigma*p.jitter.NormFloat64()))
}

// advance moves the due time n tokens on.
func (p *pace) advance(n int) {
	if p.jitter == nil {
		p.due += time.Duration(n) * p.itl
		return
	}
	for range n {
		p.due += p.vary(p.itl)
	}
}

// wait sleeps until the due time, or not at all where that is past; it returns the cause where ctx ends first.
func (p *pace) wait(ctx context.Context) error {
	d := time.Until(p.start.Add(p.due))
	if d <= 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	}
	if p.timer == nil {
		p.timer = time.NewTimer(d)
	} else {
		p.timer.Reset(d)
	}
	select {
	case <-p.timer.C:
		return nil
	case <-ctx.Done():
		p.timer.Stop()
		return context.Cause(ctx)
	}
}
