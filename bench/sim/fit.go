package sim

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Published is what is known of a published run: its workload, its server's settings and its results.
type Published struct {
	InputTokens  int  // of each request; at least 1
	OutputTokens int  // of each request; at least 1
	Requests     int  // timed requests; at least 1
	Concurrency  int  // of the closed loop, over all replicas; at least 1
	Replicas     int  // servers behind a round robin; 0 means 1
	Streaming    bool // whether latencies of tokens were seen; without, TTFT, ITL and TPOT are not looked at

	// Server has the settings of the scheduler and the cache; they are taken over as they are. Its times, its Acceptance and
	// its TimeScale are not looked at.
	Server Engine

	Duration time.Duration // of the timed run; above 0. Throughput is Requests / Duration.
	// Latencies as the client saw them; nil where they were not published.
	TTFT, ITL, TPOT, E2E *Latency
	// AcceptLength is the tokens made by one step of one request (1 + accepted / drafts). 0 means unknown; the gaps
	// between chunks (TPOT and ITL) tell it too and go before it.
	AcceptLength float64
}

// Latency is the published statistics of one metric. Zero fields were not published.
type Latency struct {
	Mean, P50, P90, P95, P99, StdDev time.Duration
}

// maxFitTokens bounds the tokens of the run that Fit plays through.
const maxFitTokens = 1 << 24

func (p *Published) validate() error {
	var errs []error
	for _, f := range [...]struct {
		name  string
		value int
	}{
		{"input tokens", p.InputTokens}, {"output tokens", p.OutputTokens}, {"requests", p.Requests}, {"concurrency", p.Concurrency},
	} {
		if f.value < 1 || f.value > maxFitTokens {
			errs = append(errs, fmt.Errorf("%s must be from 1 to %d, got %d", f.name, maxFitTokens, f.value))
		}
	}
	if p.Replicas < 0 || p.Replicas > 1024 {
		errs = append(errs, fmt.Errorf("replicas must be from 0 to 1024, got %d", p.Replicas))
	}
	if p.Duration <= 0 || p.Duration > 30*maxTime {
		errs = append(errs, fmt.Errorf("duration must be above 0 and at most %v, got %v", 30*maxTime, p.Duration))
	}
	for _, m := range [...]struct {
		name string
		*Latency
	}{{"TTFT", p.TTFT}, {"ITL", p.ITL}, {"TPOT", p.TPOT}, {"E2E", p.E2E}} {
		if l := m.Latency; l != nil && (min(l.Mean, l.P50, l.P90, l.P95, l.P99, l.StdDev) < 0 || max(l.Mean, l.P50, l.P90, l.P95, l.P99, l.StdDev) > 30*maxTime) {
			errs = append(errs, fmt.Errorf("%s must be from 0 to %v in all statistics", m.name, 30*maxTime))
		}
	}
	if !(p.AcceptLength >= 0 && p.AcceptLength <= maxSetting) {
		errs = append(errs, fmt.Errorf("accept length must not be negative, got %v", p.AcceptLength))
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return errors.Join(p.blank().validate(p.InputTokens + p.OutputTokens)...)
}

// MisfitError says that the model cannot be brought near a published run.
type MisfitError struct {
	// Off lists what is further off than 5 % (throughput) or 10 % (means), with the model's and the published value.
	Off []string
}

func (e *MisfitError) Error() string {
	return "no engine model comes near the published numbers: " + strings.Join(e.Off, "; ")
}

// Fit returns an Engine that behaves as the published run's server did: Published.Server with the times and the
// acceptance that make the model's throughput and latencies those of p. It is a pure function, takes a few seconds at
// most, and is safe for concurrent use. The error says everything that is wrong with p, or is a *MisfitError: the Engine
// is then the nearest there is. docs/simulator.md, "Fit", says how it is found.
//
// One run does not tell everything: StepBase holds the attention to the context and the draft model, and a sequence is
// taken to add 0.5 % to a step.
func Fit(p Published) (Engine, error) {
	if !p.Streaming {
		p.TTFT, p.ITL, p.TPOT = nil, nil, nil
	}
	if err := p.validate(); err != nil {
		return Engine{}, err
	}
	f := &fit{Published: &p, each: (p.Concurrency + max(1, p.Replicas) - 1) / max(1, p.Replicas)}
	f.requests = f.sample()
	var best guess
	for i, first := range f.groups() {
		if f.work > fitWork/2 {
			break
		}
		if g := f.correct(f.start(first)); i == 0 || g.loss < best.loss {
			best = g
		}
	}
	best = f.search(best)
	return f.engine(best.params), f.misfit(best)
}

// perSequence is a sequence's part of a step, relative to StepBase: what a batch adds where memory is the limit.
const perSequence = 0.005

// prefillRatio is how many prompt tokens take the time of one decode step where nothing tells them apart. In the three
// reference runs it is 210 to 330.
const prefillRatio = 256

// fitWork bounds the tokens that Fit generates, and with them its time, to about a second. A few runs are played in any case.
const (
	fitWork  = 24 << 20
	fitTries = 800 // so many runs at most, however short they are
)

// fit is one search.
type fit struct {
	*Published
	each     int // requests in flight at a server
	requests int // to play
	work     int // tokens generated so far
}

// params is what is searched for, in nanoseconds.
type params struct {
	first    int     // requests in the first step of a wave
	step     float64 // a decode step of each sequences
	prompt   float64 // a prompt token
	overhead float64
	likely   float64    // share of the requests of the first kind
	made     [2]float64 // tokens of a step of either kind of request, 1 to 1 + SpeculativeTokens
}

// guess is params and how far they are from what was published.
type guess struct {
	params
	loss float64
	run  *played
}

// blank is the server's settings with no times.
func (p *Published) blank() Engine {
	e := p.Server
	e.StepBase, e.PerSequence, e.DraftOverhead, e.Overhead, e.Frontend, e.IdleDelay = 0, 0, 0, 0, 0, 0
	e.PrefillRate, e.ContextRate, e.TimeScale, e.Acceptance = 0, 0, 0, nil
	if e.SpeculativeTokens > 0 {
		e.Acceptance = []Acceptance{{Share: 1}}
	}
	return e
}

// engine is the Engine that x stands for.
func (f *fit) engine(x params) Engine {
	e := f.blank()
	base := x.step / (1 + perSequence*float64(f.each))
	base = min(base, float64(maxTime))
	e.StepBase = time.Duration(base)
	e.PerSequence = time.Duration(base * perSequence)
	e.PrefillRate = min(max(minRate, 1e9/x.prompt), 1e15)
	e.Overhead = time.Duration(min(x.overhead, float64(maxTime)))
	// first requests reach an idle engine before its first step, with half an interval to spare on either side. They end a
	// step before the others, so the group stays together if it is back in the queue within that step: it takes half of it
	// at most, and the client has the other half. A whole wave takes two steps at most.
	e.Frontend = time.Duration(min(x.step/float64(4*x.first), 2*x.step/float64(f.each), float64(2*time.Millisecond)))
	if x.first > 1 && x.first < f.each {
		e.Overhead = min(e.Overhead, time.Duration(x.step/4))
	}
	e.IdleDelay = time.Duration(x.first-1)*e.Frontend + e.Frontend/2
	if k := e.SpeculativeTokens; k > 0 {
		e.Acceptance = []Acceptance{{Share: 1, Rate: rateOf(x.made[0], k)}}
		if x.likely < 1 {
			e.Acceptance = []Acceptance{{x.likely, rateOf(x.made[0], k)}, {1 - x.likely, rateOf(x.made[1], k)}}
		}
	}
	return e
}

// rateOf solves 1 + r + … + r^k = made for r.
func rateOf(made float64, k int) float64 {
	low, high := 0.0, 1.0
	for range 50 {
		r, sum := (low+high)/2, 1.0
		for range k {
			sum = sum*r + 1
		}
		if sum < made {
			low = r
		} else {
			high = r
		}
	}
	return (low + high) / 2
}

// sample is how many requests to play: all, or of a long run as many as tell its steady state.
func (f *fit) sample() int {
	enough := max(fitWork/256/f.OutputTokens, 2*f.Concurrency)
	return min(f.Requests, enough)
}

// groups are the sizes to try for the part of a wave that comes first.
func (f *fit) groups() []int {
	const most = 16
	if f.TTFT == nil || f.each == 1 {
		return []int{1}
	}
	var out []int
	for i := range min(f.each, most) {
		out = append(out, 1+i*(f.each-1)/(min(f.each, most)-1))
	}
	return out
}

// start is the closed form. With first of each requests prefilled before the others, the first see first prompts' time and
// the others that of all.
func (f *fit) start(first int) params {
	x := params{first: first, likely: 1}
	perRequest := float64(f.Duration) / float64(f.Requests) * float64(f.Concurrency) // in flight
	if f.E2E != nil && f.E2E.Mean > 0 {
		perRequest = float64(f.E2E.Mean)
	}
	prompts := float64(f.InputTokens)
	mean := func(l *Latency) float64 {
		if l == nil {
			return 0
		}
		return float64(l.Mean)
	}
	a, m := float64(first), float64(f.each)
	x.prompt = mean(f.TTFT) * m / (a*a + (m-a)*m) / prompts
	x.step = mean(f.ITL)
	if f.ITL != nil && f.ITL.P50 > 0 {
		x.step = float64(f.ITL.P50)
	}
	f.startAcceptance(&x, mean(f.ITL), mean(f.TPOT))
	steps := float64(f.OutputTokens-1) / x.average()
	if x.step == 0 && mean(f.TPOT) > 0 {
		x.step = mean(f.TPOT) * x.average()
	}
	switch {
	case x.prompt == 0 && x.step == 0: // a step is prefillRatio prompt tokens, a request waits for the prompts of all
		x.prompt = perRequest / (prompts*m + steps*prefillRatio)
		x.step = prefillRatio * x.prompt
	case x.prompt == 0:
		x.prompt = max(perRequest-steps*x.step, x.step) / (prompts * m)
	case x.step == 0:
		x.step = max((perRequest-mean(f.TTFT))/max(1, steps), x.prompt)
	}
	return x
}

// average is the tokens of a step over all requests, each of which makes as many tokens.
func (x *params) average() float64 {
	if x.likely >= 1 {
		return x.made[0]
	}
	return 1 / (x.likely/x.made[0] + (1-x.likely)/x.made[1])
}

// startAcceptance finds how many tokens a step makes, and whether for all requests alike. Where the median of TPOT lies
// off its mean, there are two kinds of requests, that of the median and a share q of others: with mean m, median p and
// standard deviation s of such a mixture, q = 1 / (1 + s²/(m-p)²), and the others' value is p + (m-p)/q.
func (f *fit) startAcceptance(x *params, itl, tpot float64) {
	x.made = [2]float64{1, 1}
	most := float64(1 + f.Server.SpeculativeTokens)
	if most == 1 {
		return
	}
	clamp := func(v float64) float64 { return min(max(v, 1), most) }
	switch {
	case itl > 0 && tpot > 0:
		x.made[0] = clamp(itl / tpot)
	case f.AcceptLength > 0:
		x.made[0] = clamp(f.AcceptLength)
	}
	if itl == 0 || tpot == 0 || f.TPOT.P50 == 0 || f.TPOT.StdDev == 0 {
		return
	}
	p50, sd := float64(f.TPOT.P50), float64(f.TPOT.StdDev)
	if off := tpot - p50; math.Abs(off) > 0.05*tpot {
		q := 1 / (1 + sd*sd/(off*off))
		other := p50 + off/q
		if other <= 0 {
			return
		}
		x.likely = 1 - q
		x.made = [2]float64{clamp(itl / p50), clamp(itl / other)}
	}
}

// clientTime is how long a client may take from the end of an answer to its next request: its own work, and a sleeping
// process that wakes up to a millisecond late.
const clientTime = 1500 * time.Microsecond

// try plays a run, once with a client that takes no time and once with one that does, and goes by the worse: a request that
// only just reaches a step is no good fit, since in real time it would be one step later.
func (f *fit) try(x params) guess {
	e := f.engine(x)
	f.work += 2 * max(f.requests*f.OutputTokens, fitWork/fitTries)
	run := play(f.Published, e, f.requests, 0)
	return guess{x, max(f.loss(run), f.loss(play(f.Published, e, f.requests, clientTime))), run}
}

// correct takes a few steps of a fixed point: each time in proportion to how far off what it decides is.
func (f *fit) correct(x params) guess {
	best := f.try(x)
	for tries := 0; tries < 3 && f.work < fitWork; tries++ {
		x := best.params
		if f.ITL != nil && f.ITL.P50 > 0 && len(best.run.itl) > 0 {
			x.step *= float64(f.ITL.P50) / float64(latency(best.run.itl).P50)
		}
		if f.TTFT != nil && f.TTFT.Mean > 0 {
			x.prompt *= float64(f.TTFT.Mean) / float64(latency(best.run.ttft).Mean)
		}
		if f.TTFT == nil || f.ITL == nil {
			ratio := float64(f.Duration) / float64(f.Requests) / (best.run.duration / float64(f.requests))
			if f.TTFT == nil {
				x.prompt *= ratio
			}
			if f.ITL == nil {
				x.step *= ratio
			}
		}
		g := f.try(x)
		enough := g.loss >= 0.9*best.loss
		if g.loss < best.loss {
			best = g
		}
		if enough {
			break
		}
	}
	return best
}

// search is a compass search: it goes to the best neighbour in any one parameter, and looks closer where none is
// clearly better. The loss has jumps wherever a request changes its step, so a method that needs slopes would not do.
func (f *fit) search(best guess) guess {
	for h := 0.08; h > 0.004 && f.work < fitWork; {
		better := best
		for _, x := range f.neighbours(best.params, h) {
			if g := f.try(x); g.loss < better.loss {
				better = g
			}
			if f.work >= fitWork {
				break
			}
		}
		if better.loss >= 0.98*best.loss { // no crawling
			h /= 2
		}
		best = better
	}
	return best
}

func (f *fit) neighbours(x params, h float64) []params {
	var out []params
	for _, s := range [...]float64{-h, h} {
		for _, change := range []func(*params){
			func(x *params) { x.step *= 1 + s },
			func(x *params) { x.prompt *= 1 + s },
			func(x *params) { x.overhead = max(0, x.overhead+s*float64(f.InputTokens)*x.prompt) },
		} {
			y := x
			change(&y)
			out = append(out, y)
		}
		if f.Server.SpeculativeTokens == 0 {
			continue
		}
		most := float64(1 + f.Server.SpeculativeTokens)
		for i := range x.made {
			y := x
			y.made[i] = min(max(1, y.made[i]*(1+s)), most)
			out = append(out, y)
		}
		if y := x; x.likely < 1 {
			y.likely = min(max(0.01, y.likely+s), 0.99)
			out = append(out, y)
		}
	}
	return out
}

// term is one published number, the model's, and how far apart they may be.
type term struct {
	name                 string
	published, got, most float64
}

// terms pairs what was published with what the model gives.
func (f *fit) terms(run *played) []term {
	out := []term{{"throughput in requests/s", 1e9 * float64(f.Requests) / float64(f.Duration), 1e9 * float64(f.requests) / run.duration, 0.05}}
	for _, m := range [...]struct {
		name      string
		published *Latency
		got       []float64
	}{{"TTFT", f.TTFT, run.ttft}, {"ITL", f.ITL, run.itl}, {"TPOT", f.TPOT, run.tpot}, {"E2E", f.E2E, run.e2e}} {
		if m.published == nil || len(m.got) == 0 {
			continue
		}
		p, g := m.published, latency(m.got)
		for _, t := range [...]struct {
			name           string
			published, got time.Duration
			most           float64
		}{
			{"mean", p.Mean, g.Mean, 0.1}, {"p50", p.P50, g.P50, 0.15}, {"p90", p.P90, g.P90, 0.5}, {"p95", p.P95, g.P95, 0.5},
			{"p99", p.P99, g.P99, 0.5}, {"standard deviation", p.StdDev, g.StdDev, 1},
		} {
			if t.published > 0 {
				out = append(out, term{t.name + " of " + m.name + " in ms", float64(t.published) / 1e6, float64(t.got) / 1e6, t.most})
			}
		}
	}
	return out
}

// loss is the sum of squares of the relative errors, each in units of what is allowed.
func (f *fit) loss(run *played) float64 {
	sum := 0.0
	for _, t := range f.terms(run) {
		e := (t.got/t.published - 1) / t.most
		sum += e * e
	}
	return sum
}

// misfit is the error of a guess that is not good enough, or nil.
func (f *fit) misfit(g guess) error {
	var off []string
	for _, t := range f.terms(g.run) {
		if t.most <= 0.1 && math.Abs(t.got/t.published-1) > t.most {
			off = append(off, fmt.Sprintf("%s is %.4g, published %.4g", t.name, t.got, t.published))
		}
	}
	if off == nil {
		return nil
	}
	return &MisfitError{off}
}
