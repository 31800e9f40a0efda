package metrics_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/servebench/servebench/metrics"
)

// loop is a closed loop of the given concurrency in which every request takes
// ttft and then tokens gaps of `gap`; nothing is drawn. The starts are spread
// over the first request's time by `ramp` each.
func loop(concurrency, requests, tokens int, ttft, gap, ramp time.Duration) []metrics.Record {
	var out []metrics.Record
	free := make([]time.Duration, concurrency)
	for i := range free {
		free[i] = time.Duration(i) * ramp
	}
	for range requests {
		j := 0
		for k := range free {
			if free[k] < free[j] {
				j = k
			}
		}
		after := make([]time.Duration, tokens)
		for k := range after {
			after[k] = ttft + time.Duration(k)*gap
		}
		r := answer(free[j], tokens, after...)
		r.Seq = len(out)
		free[j] = r.Done
		out = append(out, r)
	}
	return out
}

// queue is an open loop with Poisson arrivals before a server of c places that
// take 100 ms and then 8 gaps, exponential with a mean of service in all.
func queue(rate float64, c, n int, service time.Duration, seed uint64) []metrics.Record {
	rng := rand.New(rand.NewPCG(seed, 1))
	free := make([]time.Duration, c)
	out := make([]metrics.Record, n)
	var due time.Duration
	for i := range out {
		due += time.Duration(rng.ExpFloat64() / rate * 1e9)
		j := 0
		for k := range free {
			if free[k] < free[j] {
				j = k
			}
		}
		begin := max(due, free[j])
		gap := time.Duration(rng.ExpFloat64()*float64(service)) / 9
		after := make([]time.Duration, 9)
		for k := range after {
			after[k] = begin - due + gap*time.Duration(k+1)
		}
		out[i] = answer(due, 9, after...)
		out[i].Seq = i
		free[j] = out[i].Done
	}
	return out
}

func analyze(records []metrics.Record, o metrics.Options, load metrics.Load) *metrics.Analysis {
	o.OpenLoop = load.OpenLoop
	return metrics.Analyze(records, metrics.Summarize(records, o), o, load)
}

func TestIntervalsStandBesideThePercentiles(t *testing.T) {
	var records []metrics.Record
	for i := range 1000 {
		records = append(records, answer(time.Duration(i)*ms, 1, time.Duration(i+1)*ms))
	}
	s := metrics.Summarize(records, metrics.Options{Percentiles: []float64{99.9, 0, 100}})
	d := s.VLLM.TTFT // 1, 2, ... 1000 ms: a rank is its value
	for _, c := range []struct {
		p    float64
		want *metrics.Interval
		tail float64 // 0: none
	}{
		{50, &metrics.Interval{Low: 469, High: 532}, 539},
		{99, &metrics.Interval{Low: 983, High: 997}, 999},
		{99.9, nil, 0}, {0, nil, 0}, {100, nil, 0}, {12, nil, 0},
	} {
		if got := d.Interval(c.p); !reflect.DeepEqual(got, c.want) {
			t.Errorf("p%v: %v, want %v", c.p, got, c.want)
		}
		tail, ok := d.Tail(c.p)
		if ok != (c.tail != 0) || tail != c.tail {
			t.Errorf("p%v: tail %v %v, want %v", c.p, tail, ok, c.tail)
		}
	}
	if (*metrics.Dist)(nil).Interval(50) != nil {
		t.Error("an interval of nothing")
	}
	for p, need := range map[float64][2]int{50: {6, 11}, 90: {36, 64}, 95: {72, 130}, 99: {368, 662}, 99.9: {3688, 6636}, 0: {}, 100: {}} {
		if a, b := metrics.IntervalNeeds(p), metrics.TailNeeds(p); a != need[0] || b != need[1] {
			t.Errorf("p%v needs %d and %d, want %v", p, a, b, need)
		}
	}
}

// Just below the floor there is no interval, at it there is; ties and equal
// values have one of no width.
func TestIntervalsAtTheFloor(t *testing.T) {
	for _, n := range []int{0, 1, 2, 5, 6, 35, 36, 367, 368} {
		records := make([]metrics.Record, n)
		for i := range records {
			records[i] = answer(0, 2, 7*ms, 9*ms)
		}
		s := metrics.Summarize(records, metrics.Options{})
		for _, d := range []*metrics.Dist{s.VLLM.TTFT, s.Token.TPOT, s.Token.ITL, s.Token.E2EL} {
			for _, p := range []float64{50, 90, 95, 99} {
				i := d.Interval(p)
				if (i != nil) != (n >= metrics.IntervalNeeds(p)) {
					t.Errorf("%d samples: p%v has %v", n, p, i)
				}
				if v, _ := d.Percentile(p); i != nil && (i.Low != v || i.High != v) {
					t.Errorf("%d equal samples: p%v is %v with %v", n, p, v, i)
				}
			}
		}
	}
}

// A5: past the budget the ranks are looked up in the histogram, whose buckets
// hold the exact interval.
func TestIntervalsFromAHistogram(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	records := make([]metrics.Record, 300)
	for i := range records {
		after := make([]time.Duration, 20)
		at := 50 * ms
		for k := range after {
			at += time.Duration(8e6 * math.Exp(0.8*rng.NormFloat64()))
			after[k] = at
		}
		records[i] = answer(time.Duration(i)*ms, 20, after...)
	}
	exact := metrics.Summarize(records, metrics.Options{}).Token.ITL
	hdr := metrics.Summarize(records, metrics.Options{RawGaps: 100}).Token.ITL
	if exact.Source != "exact" || hdr.Source != "hdr3" {
		t.Fatal(exact.Source, hdr.Source)
	}
	for _, p := range []float64{50, 90, 95, 99} {
		e, h := exact.Interval(p), hdr.Interval(p)
		if h.Low > e.Low || h.High < e.High || h.Low < e.Low*0.998 || h.High > e.High*1.002 {
			t.Errorf("p%v: %v from the histogram, exactly %v", p, h, e)
		}
		te, _ := exact.Tail(p)
		if th, ok := hdr.Tail(p); !ok || th < te || th > te*1.002 {
			t.Errorf("p%v: tail %v from the histogram, exactly %v", p, th, te)
		}
	}
}

// 20 at a time, started 10 ms apart: the plateau begins with the 19th (95 %)
// and ends when fewer than 19 are left. Every number can be told by hand.
func TestPlateau(t *testing.T) {
	records := loop(20, 2000, 11, 100*ms, 90*ms, 10*ms) // 1 s each, 100 rounds
	a := analyze(records, metrics.Options{}, metrics.Load{Concurrency: 20})
	w := a.Steady
	if w == nil {
		t.Fatal(a.NoSteady)
	}
	if w.Threshold != 19 || w.From != 180*ms || w.To != 100*time.Second+10*ms {
		t.Errorf("threshold %d, %v to %v", w.Threshold, w.From, w.To)
	}
	// All but 10 ms at its head, when 19 are open, and 10 ms at its end.
	if want := (20*99.83 - 0.02) / 99.83; !near(w.InFlight, want) {
		t.Errorf("%v in flight, want %v", w.InFlight, want)
	}
	tokens, started, ended := 0., 0, 0
	for _, r := range records {
		if r.Sent >= w.From && r.Sent < w.To {
			started++
		}
		if r.Done >= w.From && r.Done < w.To {
			ended++
		}
		for _, at := range r.Arrivals {
			if at >= w.From && at < w.To {
				tokens++
			}
		}
	}
	if w.OutputTokens != tokens || w.Started != started || w.Ended != ended {
		t.Errorf("%v tokens, %d started, %d ended; counted %v, %d, %d", w.OutputTokens, w.Started, w.Ended, tokens, started, ended)
	}
	if !near(w.TokenRate, tokens/99.83) || !near(w.RequestRate, float64(ended)/99.83) {
		t.Errorf("rates %v and %v", w.TokenRate, w.RequestRate)
	}
	wantDist(t, "ttft", w.TTFT, started, 100)
	wantDist(t, "tpot", w.TPOT, started, 90)
	wantDist(t, "e2el", w.E2EL, started, 1000)
	if w.ITL == nil || w.ITL.Mean != 90 {
		t.Errorf("itl %v", w.ITL)
	}
	if w.Settled == nil || *w.Settled != 0 || len(w.Warnings) != 0 {
		t.Errorf("MSER-5 %v %q, warnings %q", w.Settled, w.NoSettled, w.Warnings)
	}
	if th := a.Throughput; th == nil || !within(th.OutputTokens, w.TokenRate) || !within(th.Requests, w.RequestRate) || th.OutputTokens.Batches != 5 {
		t.Errorf("throughput %+v %q", th, a.NoThroughput)
	}
}

func within(e *metrics.Estimate, v float64) bool {
	return e != nil && near(e.Value, v) && e.Interval.Low <= v && v <= e.Interval.High
}

func TestPlateauOrTheReasonWhyNot(t *testing.T) {
	touching := loop(1, 12, 2, 500*ms, 500*ms, 0) // one after the other, each from the end of the last
	for _, c := range []struct {
		name     string
		records  []metrics.Record
		load     metrics.Load
		why      string // "" : there is one
		warnings string
	}{
		{"nothing", nil, metrics.Load{Concurrency: 4}, "at most 0 requests were in flight; want 4 of 4", ""},
		{"unknown target", touching, metrics.Load{}, "the target concurrency is not known", ""},
		{"open loop", touching, metrics.Load{OpenLoop: true, Concurrency: 1}, "an open loop has no concurrency to hold", ""},
		{"all ramp", loop(8, 8, 2, 500*ms, 500*ms, 400*ms), metrics.Load{Concurrency: 8}, "at most 5 requests were in flight; want 8 of 8", ""},
		{"touching requests are no two", touching, metrics.Load{Concurrency: 2}, "at most 1 requests were in flight; want 2 of 2", ""},
		{"no length", []metrics.Record{answer(0, 1, 0)}, metrics.Load{Concurrency: 1}, "at most 0 requests were in flight; want 1 of 1", ""},
		{"short", loop(2, 10, 2, 500*ms, 500*ms, 0), metrics.Load{Concurrency: 2}, "", "the plateau lasted 5 s of 5 s; want 10 s"},
		{"short against the run", append(loop(2, 24, 2, 500*ms, 500*ms, 0), answer(12*time.Second, 2, 100*ms, 190*time.Second)), metrics.Load{Concurrency: 2}, "", "the plateau lasted 12 s of 202 s; want 20.2 s"},
	} {
		a := analyze(c.records, metrics.Options{}, c.load)
		if a.NoSteady != c.why || (a.Steady == nil) != (c.why != "") {
			t.Errorf("%s: %v, %q; want %q", c.name, a.Steady, a.NoSteady, c.why)
		}
		if a.Steady != nil && !strings.Contains(strings.Join(a.Steady.Warnings, "\n"), c.warnings) {
			t.Errorf("%s: warnings %q, want %q", c.name, a.Steady.Warnings, c.warnings)
		}
		if a.Throughput != nil || a.NoThroughput == "" {
			t.Errorf("%s: throughput %v of seconds", c.name, a.Throughput)
		}
	}
}

// Failed requests hold their place in flight and give no tokens.
func TestPlateauWithFailures(t *testing.T) {
	records := loop(2, 40, 2, 500*ms, 500*ms, 0)
	for i := range records {
		if i%4 == 1 {
			records[i].Outcome = metrics.Reset
		}
	}
	w := analyze(records, metrics.Options{}, metrics.Load{Concurrency: 2}).Steady
	if w == nil || w.From != 0 || w.To != 20*time.Second || w.InFlight != 2 {
		t.Fatalf("%+v", w)
	}
	// 30 completed; the last tokens of the last two come at the very end, outside.
	if w.Started != 30 || w.Ended != 28 || w.OutputTokens != 58 {
		t.Errorf("%d started, %d ended, %v tokens", w.Started, w.Ended, w.OutputTokens)
	}
}

// A server that is slow for its first 40 of 200 s: MSER-5 cuts about that, and a
// rate that climbs all along never settles.
func TestMSERInThePlateau(t *testing.T) {
	var records []metrics.Record
	var climbing []metrics.Record
	at, up := time.Duration(0), time.Duration(0)
	for i := 0; at < 200*time.Second; i++ {
		gap := 10 * ms
		if at < 40*time.Second {
			gap = 30 * ms
		}
		gap += time.Duration(i%3) * ms
		r := answer(at, 10, every(10, gap)...)
		at = r.Done
		records = append(records, r)
	}
	for i := 0; up < 200*time.Second; i++ {
		r := answer(up, 10, every(10, time.Duration(float64(ms)*20/(1+up.Seconds()/20)))...)
		up = r.Done
		climbing = append(climbing, r)
	}
	w := analyze(records, metrics.Options{}, metrics.Load{Concurrency: 1}).Steady
	if w.Settled == nil || *w.Settled < 40*time.Second || *w.Settled > 46*time.Second {
		t.Errorf("cut at %v %q, want 40 s", w.Settled, w.NoSettled)
	}
	w = analyze(climbing, metrics.Options{}, metrics.Load{Concurrency: 1}).Steady
	if w.Settled != nil || w.NoSettled == "" || len(w.Warnings) != 1 {
		t.Errorf("a climbing rate settles at %v; warnings %q", w.Settled, w.Warnings)
	}
}

// Tokens count when they are emitted: as events tell, else in equal parts.
func TestTokensOfTheWindow(t *testing.T) {
	told := answer(0, 10, 1*time.Second, 3*time.Second)
	told.Tokens = []int{2, 8}
	equal := answer(0, 10, 1*time.Second, 3*time.Second)
	late := answer(2*time.Second, 4, 1500*ms)
	for _, c := range []struct {
		r    metrics.Record
		want float64
	}{{told, 2}, {equal, 5}} {
		// Two are in flight from 2 s until the first one's end at 3 s, which is outside.
		w := analyze([]metrics.Record{c.r, answer(500*ms, 1, 2500*ms), late}, metrics.Options{}, metrics.Load{Concurrency: 2}).Steady
		if w == nil || w.From != 500*ms || w.To != 3500*ms && w.To != 3*time.Second {
			t.Fatalf("%+v", w)
		}
		inside := c.want
		if w.To > 3*time.Second {
			inside = 10 + 1
		}
		if w.OutputTokens != inside {
			t.Errorf("%v tokens to %v, want %v", w.OutputTokens, w.To, inside)
		}
	}
}

// What is below the server's capacity is not called over-saturated, what is
// above is: fixed seeds. Near it a run of this length cannot tell, and need not.
// docs/statistics.md has the counts of 100 runs each, 1.1 among the loads.
func TestSaturation(t *testing.T) {
	const runs = 10
	for _, c := range []struct {
		load     float64 // of a capacity of 20 requests/s
		n        int
		min, max int // over-saturated
	}{{0.5, 1000, 0, 0}, {0.8, 1600, 0, 1}, {0.9, 1800, 0, 2}, {1.2, 2400, 9, runs}, {1.5, 1500, runs, runs}, {3, 3000, runs, runs}} {
		over := 0
		for seed := range uint64(runs) {
			a := analyze(queue(20*c.load, 20, c.n, time.Second, seed), metrics.Options{}, metrics.Load{OpenLoop: true, Shape: 1})
			if a.Saturation == nil {
				t.Fatalf("load %v: %s", c.load, a.NoSaturation)
			}
			if a.Saturation.Over {
				over++
				if !strings.HasPrefix(a.Saturation.Reason, "the server did not keep up: requests due and not done changed by +") {
					t.Fatal(a.Saturation.Reason)
				}
			}
		}
		if over < c.min || over > c.max {
			t.Errorf("load %v: %d of %d runs are over-saturated, want %d to %d", c.load, over, runs, c.min, c.max)
		}
	}
}

// Without a draw: one request a second into a server that does one in 2 s grows
// by half a request a second, and a TTFT by a second a second.
func TestSlopesByHand(t *testing.T) {
	var records []metrics.Record
	for i := range 200 {
		due := time.Duration(i) * time.Second
		begin := time.Duration(2*i) * time.Second
		r := answer(due, 2, begin-due+time.Second, begin-due+2*time.Second)
		records = append(records, r)
	}
	a := analyze(records, metrics.Options{}, metrics.Load{OpenLoop: true})
	s := a.Saturation
	if s == nil || !s.Over {
		t.Fatalf("%+v %q", s, a.NoSaturation)
	}
	if math.Abs(s.Outstanding.Slope-0.5) > 0.002 || math.Abs(s.TTFT.Slope-1000) > 1e-6 {
		t.Errorf("slopes %v and %v", s.Outstanding.Slope, s.TTFT.Slope)
	}
	// At the middle of the window, from a quarter (or two early latencies) to the end.
	middle := (s.From + s.To).Seconds() / 2
	if math.Abs(s.Outstanding.Mean-(middle/2+1)) > 1 {
		t.Errorf("mean %v at %v s", s.Outstanding.Mean, middle)
	}
	if a.Throughput != nil || !strings.HasPrefix(a.NoThroughput, "batches of 29.") {
		t.Errorf("throughput %+v %q of a run whose requests outlast its batches", a.Throughput, a.NoThroughput)
	}
}

func TestSaturationNeedsTime(t *testing.T) {
	short := queue(20, 20, 60, 5*time.Second, 1)
	for name, c := range map[string]struct {
		records []metrics.Record
		load    metrics.Load
		why     string
	}{
		"closed loop":  {short, metrics.Load{Concurrency: 20}, "a closed loop cannot outrun the server"},
		"nothing":      {nil, metrics.Load{OpenLoop: true}, "0 requests are too few; want 40"},
		"few requests": {short[:30], metrics.Load{OpenLoop: true}, "30 requests are too few; want 40"},
		"too short":    {short, metrics.Load{OpenLoop: true}, "which is too short to judge"},
		"all at once":  {loop(50, 50, 2, 100*ms, 100*ms, 0), metrics.Load{OpenLoop: true}, "which is too short to judge"},
	} {
		a := analyze(c.records, metrics.Options{}, c.load)
		if a.Saturation != nil || !strings.Contains(a.NoSaturation, c.why) {
			t.Errorf("%s: %+v %q, want %q", name, a.Saturation, a.NoSaturation, c.why)
		}
	}
	failed := queue(20, 20, 400, time.Second, 1)
	for i := range failed {
		failed[i].Outcome = metrics.HTTP
	}
	if a := analyze(failed, metrics.Options{}, metrics.Load{OpenLoop: true}); a.Saturation != nil || a.NoSaturation == "" {
		t.Errorf("a run without a completed request: %+v", a.Saturation)
	}
}

func TestArrivalsAgainstTheSchedule(t *testing.T) {
	poisson := queue(50, 100, 2000, 100*ms, 4)
	a := analyze(poisson, metrics.Options{}, metrics.Load{OpenLoop: true, Shape: 1}).Arrivals
	if a == nil || a.Ratio != 1 || a.Gaps == nil || a.Gaps.N != 1999 || a.Gaps.Rejected() || a.Gaps.Bound {
		t.Fatalf("%+v", a)
	}
	last := poisson[1999].Due.Seconds()
	if !near(a.Offered, 2000/last) || a.Achieved != a.Offered {
		t.Errorf("%v offered, %v achieved", a.Offered, a.Achieved)
	}
	// A pacer that wakes every 100 ms sends what is due by then: no Poisson process.
	late := slices.Clone(poisson)
	for i := range late {
		late[i].Sent = (late[i].Due/(100*ms) + 1) * 100 * ms
	}
	if a := analyze(late, metrics.Options{}, metrics.Load{OpenLoop: true, Shape: 1}).Arrivals; !a.Gaps.Rejected() || a.Ratio >= 1 {
		t.Errorf("bunched sends pass: %+v", a)
	}
	// Every tenth dropped and the rest a tenth late: 0.9/1.1 of the rate.
	thin := slices.Clone(poisson)
	for i := range thin {
		thin[i].Sent = thin[i].Due * 11 / 10
		if i%10 == 5 {
			thin[i] = metrics.Record{Due: thin[i].Due, Outcome: metrics.Dropped}
		}
	}
	if a := analyze(thin, metrics.Options{}, metrics.Load{OpenLoop: true}).Arrivals; math.Abs(a.Ratio-0.9/1.1) > 1e-9 || a.Gaps != nil || a.NoGaps != "the schedule is no stationary process" {
		t.Errorf("%+v", a)
	}
	constant := analyze(poisson, metrics.Options{}, metrics.Load{OpenLoop: true, Shape: math.Inf(1)}).Arrivals
	if constant.Gaps != nil || constant.NoGaps != "the gaps are constant: nothing was drawn" {
		t.Errorf("%+v", constant)
	}
	if a := analyze(poisson[:10], metrics.Options{}, metrics.Load{OpenLoop: true, Shape: 1}).Arrivals; a.Gaps != nil || a.NoGaps != "9 gaps cannot be tested; want 20, not all 0" {
		t.Errorf("%+v", a)
	}
	for _, records := range [][]metrics.Record{nil, {answer(0, 1, ms)}} {
		if a := analyze(records, metrics.Options{}, metrics.Load{OpenLoop: true, Shape: 1}); a.Arrivals != nil || a.NoArrivals != "nothing was due after the start" {
			t.Errorf("%+v", a.Arrivals)
		}
	}
}

// M18: requests that resemble the one before are worth fewer.
func TestIndependence(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 1))
	correlated := func(rho float64) []metrics.Record {
		v := 0.
		records := make([]metrics.Record, 5000)
		for i := range records {
			v = rho*v + rng.NormFloat64()
			records[i] = answer(time.Duration(i)*100*ms, 2, time.Duration((100+5*v)*1e6), time.Duration((200+5*v)*1e6))
		}
		rng.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
		return records
	}
	a := analyze(correlated(0.6), metrics.Options{}, metrics.Load{})
	if in := a.TTFT; in.N != 5000 || math.Abs(*in.EffectiveN-1250) > 0.15*1250 || !within(in.Mean, in.Mean.Value) {
		t.Errorf("rho 0.6: %+v, rho %v, effective %v", in, *in.Rho, *in.EffectiveN)
	}
	if in := analyze(correlated(0), metrics.Options{}, metrics.Load{}).TTFT; *in.EffectiveN < 4500 {
		t.Errorf("independent: effective %v", *in.EffectiveN)
	}
	// A tpot that never varies correlates with nothing.
	if in := a.TPOT; in.N != 5000 || in.Rho != nil || in.EffectiveN != nil || in.Mean == nil {
		t.Errorf("%+v", in)
	}
}

// All streams of an engine wait for the same steps: their gaps are alike across
// streams, which no correlation within a stream shows.
func TestGapsAreAlikeAcrossStreams(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 1))
	// 600 waves of 10 requests in step: each wave's gaps share a pace.
	var records []metrics.Record
	for w := range 600 {
		pace := time.Duration((10 + rng.Float64()) * 1e6)
		for range 10 {
			at, after := time.Duration(0), make([]time.Duration, 20)
			for k := range after {
				at += pace + time.Duration(rng.Float64()*1e5)
				after[k] = at
			}
			records = append(records, answer(time.Duration(w)*300*ms, 20, after...))
		}
	}
	in := analyze(records, metrics.Options{}, metrics.Load{}).ITL
	if in.N != 6000*19 || in.EffectiveN == nil || *in.EffectiveN > 6000 {
		t.Errorf("%d gaps of 600 paces are worth %v", in.N, *in.EffectiveN)
	}
}

// A4: where everything is in flight at once batches are no repeats.
func TestMeansThatNothingSupports(t *testing.T) {
	for name, c := range map[string]struct {
		records []metrics.Record
		why     string
	}{
		"nothing":     {nil, "0 requests are too few for batch means; want 60"},
		"few":         {loop(4, 59, 4, 100*ms, 10*ms, 0), "59 requests are too few for batch means; want 60"},
		"all at once": {loop(200, 200, 4, 100*ms, 10*ms, 0), "6 batches of requests were sent over 0 s: less each than the mean latency of 0.13 s"},
	} {
		a := analyze(c.records, metrics.Options{}, metrics.Load{Concurrency: 4})
		for _, in := range []metrics.Independence{a.TTFT, a.TPOT, a.ITL, a.E2EL} {
			if in.Mean != nil || in.NoMean != c.why {
				t.Errorf("%s: %v %q, want %q", name, in.Mean, in.NoMean, c.why)
			}
		}
	}
}

func TestGoodputCountsFailuresAsNotGood(t *testing.T) {
	var records []metrics.Record
	for i := range 100 {
		r := answer(time.Duration(i)*ms, 2, time.Duration(1+i%4)*100*ms, 500*ms)
		switch {
		case i < 10:
			r = metrics.Record{Outcome: metrics.HTTP, Status: 503}
		case i < 20:
			r = metrics.Record{Outcome: metrics.Canceled}
		}
		records = append(records, r)
	}
	g := analyze(records, metrics.Options{Goodput: map[string]float64{"ttft": 200}}, metrics.Load{}).Goodput
	if g == nil || g.Good != 40 || g.N != 90 || g.Share != 40./90 || !(g.Interval.Low > 0.34 && g.Interval.Low < g.Share && g.Interval.High < 0.55) {
		t.Errorf("%+v", g)
	}
	if a := analyze(records, metrics.Options{}, metrics.Load{}); a.Goodput != nil {
		t.Error("goodput without bounds")
	}
	if a := analyze(nil, metrics.Options{Goodput: map[string]float64{"ttft": 200}}, metrics.Load{}); a.Goodput != nil {
		t.Error("goodput of nothing")
	}
}

// loads are those under which every set of records is looked at.
var loads = []metrics.Load{
	{}, {Concurrency: 1}, {Concurrency: 3}, {Concurrency: math.MaxInt}, {OpenLoop: true}, {OpenLoop: true, Shape: 1},
	{OpenLoop: true, Shape: 0.3}, {OpenLoop: true, Shape: math.Inf(1)}, {OpenLoop: true, Shape: math.NaN()}, {OpenLoop: true, Shape: -1},
}

// sound fails where something does not marshal, as NaN and infinity do not, or
// a distribution of the plateau is not in order.
func sound(t *testing.T, name string, records []metrics.Record) {
	t.Helper()
	for _, load := range loads {
		o := metrics.Options{OpenLoop: load.OpenLoop, Goodput: map[string]float64{"ttft": 100}, Percentiles: []float64{0, 99.9, 100}}
		s := metrics.Summarize(records, o)
		a := metrics.Analyze(records, s, o, load)
		f := metrics.FiguresOf(records, s, a)
		for _, v := range []any{a, metrics.Judge(f, metrics.DefaultLimits)} {
			if _, err := json.Marshal(v); err != nil {
				t.Fatalf("%s, %+v: %v", name, load, err)
			}
		}
		for what, nothing := range map[string][2]bool{
			"steady": {a.Steady == nil, a.NoSteady == ""}, "throughput": {a.Throughput == nil, a.NoThroughput == ""},
			"saturation": {a.Saturation == nil, a.NoSaturation == ""}, "arrivals": {a.Arrivals == nil, a.NoArrivals == ""},
		} {
			if nothing[0] == nothing[1] {
				t.Fatalf("%s, %+v: %s is there and has a reason not to be, or neither", name, load, what)
			}
		}
		if w := a.Steady; w != nil {
			for _, d := range []*metrics.Dist{w.TTFT, w.TPOT, w.ITL, w.E2EL} {
				if d != nil && !(d.Min <= d.Mean && d.Mean <= d.Max) {
					t.Fatalf("%s, %+v: %+v", name, load, d)
				}
			}
		}
		if i := a.TTFT.EffectiveN; i != nil && (*i < 1 || *i > float64(a.TTFT.N)) {
			t.Fatalf("%s: %v of %d", name, *i, a.TTFT.N)
		}
	}
}

func TestAnalysisOfEverythingThereIs(t *testing.T) {
	for _, name := range []string{"equal", "chat", "mixed", "stalls", "unstreamed", "failed", "single"} {
		sound(t, name, readRecords(t, "testdata/"+name+".requests.jsonl"))
	}
	sound(t, "nothing", nil)
	sound(t, "never sent", make([]metrics.Record, 3))
	for _, n := range []int{1, 2, 3, 60, 700} {
		sound(t, fmt.Sprint(n, " equal"), loop(1, n, 3, 10*ms, 10*ms, 0))
		sound(t, fmt.Sprint(n, " at once"), loop(n, n, 3, 10*ms, 10*ms, 0))
		sound(t, fmt.Sprint(n, " of no length"), loop(n, n, 1, 0, 0, 0))
	}
	const n, century = 700, 876000 * time.Hour // its many slices take most of this test's time
	sound(t, "a century", loop(1, n, 2, century/n/2, century/n/2, 0))
	huge := answer(math.MaxInt64-2, math.MaxInt64, 0, 1, 2)
	sound(t, "the end of time", []metrics.Record{huge, answer(0, math.MaxInt64, 1, 2)})
}

// FuzzAnalyze: whatever a record file holds, there is a finite number or a
// reason, and a verdict.
func FuzzAnalyze(f *testing.F) {
	f.Add(write(f, loop(2, 8, 3, 10*ms, 10*ms, ms)...))
	f.Add(write(f, queue(5, 2, 50, time.Second, 1)...))
	f.Add(write(f, full))
	f.Fuzz(func(t *testing.T, text string) {
		records, err := read(text)
		if err != nil {
			return
		}
		sound(t, "fuzzed", records)
	})
}
