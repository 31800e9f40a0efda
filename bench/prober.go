package bench

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/metrics"
)

// prober sends one request for one token at a time, beside the load and on a
// connection of its own: what a light user would wait. A nil prober does nothing.
type prober struct {
	client  *openai.Client
	request []loadgen.Request
	rate    float64 // probes a second

	cancel func()
	wg     sync.WaitGroup
	// Written by the loop, read after it has ended.
	took     []time.Duration
	failed   int
	missed   int
	first    *metrics.Record // of those that failed
	internal error
}

// openProbes opens the probes' connection; nil where none were asked for.
func (s *session) openProbes(ctx context.Context) *prober {
	if s.cfg.ProbeRate <= 0 {
		return nil
	}
	target := s.cfg.Target
	target.Text = openai.TextNever
	client, err := openai.New(target)
	if err != nil {
		s.warnf("No probes were sent: %v.", err)
		return nil
	}
	if err := client.Open(ctx, 1); err != nil {
		s.warnf("the probes' connection could not be opened beforehand: %v", err)
	}
	return &prober{client: client, request: []loadgen.Request{s.res.Plan.probe}, rate: s.cfg.ProbeRate}
}

// start sends probes until stop.
func (p *prober) start(ctx context.Context) {
	if p != nil {
		ctx, p.cancel = context.WithCancel(ctx)
		p.wg.Go(func() { p.loop(ctx) })
	}
}

// loop sends probe k at k/rate by an absolute schedule. A late one starts at
// once, in place of the last tick that has passed; those before it are missed.
func (p *prober) loop(ctx context.Context) {
	clock := loadgen.StartClock()
	for tick := 0; ; {
		if !pause(ctx, p.at(tick)-clock.Now()) {
			return
		}
		recs, _, err := loadgen.Run(ctx, p.client, p.request, loadgen.Load{})
		if p.internal = errors.Join(p.internal, err); err != nil {
			return
		}
		if !p.count(ctx, &recs[0]) {
			return
		}
		next := tick + 1
		if passed := p.passed(clock.Now()); passed > next {
			p.missed += passed - next
			next = passed
		}
		tick = next
	}
}

// count takes in a probe that has ended; false says that the load has ended.
func (p *prober) count(ctx context.Context, r *metrics.Record) bool {
	switch {
	case r.Outcome == metrics.OK:
		p.took = append(p.took, r.E2EL())
	case ctx.Err() != nil:
		return false // cut off, whose fault nobody knows
	default:
		if p.failed++; p.first == nil {
			p.first = r
		}
	}
	return true
}

// at is when tick k is due. One that is due after longer than a Duration holds is
// never due.
func (p *prober) at(k int) time.Duration {
	if ns := float64(k) / p.rate * 1e9; ns < math.MaxInt64 {
		return time.Duration(ns)
	}
	return math.MaxInt64
}

// passed is the last tick that was due by now.
func (p *prober) passed(now time.Duration) int {
	k := int(now.Seconds() * p.rate)
	for k > 0 && p.at(k) > now {
		k--
	}
	for p.at(k+1) <= now {
		k++
	}
	return k
}

// pause returns false when ctx ended before d was over.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// endProbes ends the probe under way with the load, and takes the numbers over.
func (s *session) endProbes(p *prober) {
	if p == nil {
		return
	}
	p.cancel()
	p.wg.Wait()
	s.internal = errors.Join(s.internal, p.internal)
	s.res.Probes = &metrics.Probes{Completed: len(p.took), Failed: p.failed, Missed: p.missed, E2EL: metrics.DistOf(p.took)}
	if p.failed > 0 {
		s.warnf("%d of %d probes failed, the first: %s", p.failed, p.failed+len(p.took), describe(p.first))
	}
	if p.missed > 0 {
		s.warnf("%d probes were not sent, as the one before was still under way.", p.missed)
	}
}

func (p *prober) close() {
	if p != nil {
		p.client.Close()
	}
}
