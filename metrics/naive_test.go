package metrics

import (
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/servebench/servebench/metrics/stat"
)

// What is here computes a run's numbers in the plain way: a sample at a time, by
// sorting. TestAgainstThePlainWay holds the fast way against it, bit for bit.

// naiveGenerator puts our own part of a request that was sent, of any outcome.
func (r *Record) naiveGenerator(o Options, put func(m metric, ns int64, k int)) {
	if !o.OpenLoop && r.Slot == 0 {
		put(rampLag, int64(r.Lag()), 1)
	} else {
		put(lag, int64(r.Lag()), 1)
	}
	if o.OpenLoop {
		put(queueWait, int64(r.QueueWait()), 1)
	}
	if r.Connect > 0 {
		put(connect, int64(r.Connect), 1)
	}
	for i, d := range r.RxDelay[:min(len(r.RxDelay), len(r.Arrivals))] {
		// Events of one read share its stamp and its delay.
		if i == 0 || r.Arrivals[i] != r.Arrivals[i-1] || d != r.RxDelay[i-1] {
			put(rxDelay, int64(d), 1)
		}
	}
}

// naiveLatencies puts those of a completed request in both readings, but for tpot,
// which is no whole number of nanoseconds.
func (r *Record) naiveLatencies(o Options, put func(m metric, ns int64, k int)) {
	chunk, token := r.chunks(), r.naiveTokens()
	last := int64(r.end(chunk) - r.Sent)
	queue := int64(r.Sent)
	if o.OpenLoop {
		queue = int64(r.Sent - r.Due)
	}
	put(e2el, last, 1)
	put(e2elToken, int64(r.end(token)-r.Sent), 1)
	put(clientQueue, queue, 1)
	put(e2elWithQueue, queue+last, 1)
	if o.OpenLoop {
		put(e2elFromDue, int64(r.end(token)-r.Due), 1)
	}
	if chunk.n == 0 {
		return
	}
	put(ttft, int64(chunk.first-r.Sent), 1)
	put(ttftToken, int64(token.first-r.Sent), 1)
	if o.OpenLoop {
		put(ttftFromDue, int64(token.first-r.Due), 1)
	}
	for i := 1; i < len(r.Arrivals); i++ {
		put(itl, int64(r.Arrivals[i]-r.Arrivals[i-1]), 1)
	}
	r.naiveTokenGaps(put)
}

// naiveTokenGaps puts the gaps between token-bearing events, whole and shared among
// the tokens that came at their end.
func (r *Record) naiveTokenGaps(put func(m metric, ns int64, k int)) {
	known := r.Tokens != nil && len(r.Tokens) == len(r.Arrivals)
	prev := -1  // the bearing event before
	from := -1  // where the gap that is to be shared began
	next := 0   // the first event whose tokens are not in the share yet
	tokens := 0 // those of the share
	r.bearing(func(i int) {
		if prev >= 0 {
			put(itlToken, int64(r.Arrivals[i]-r.Arrivals[prev]), 1)
		}
		if known {
			for ; next <= i; next++ {
				tokens += r.Tokens[next]
			}
			if from >= 0 && tokens > 0 {
				naiveShare(int64(r.Arrivals[i]-r.Arrivals[from]), tokens, put)
			}
			// An event without a token of its own passes its gap on.
			if from < 0 || tokens > 0 {
				from, tokens = i, 0
			}
		}
		prev = i
	})
}

// naiveShare puts a gap's k parts, which differ by at most 1 ns and add up to it.
func naiveShare(gap int64, k int, put func(m metric, ns int64, k int)) {
	part, rest := gap/int64(k), int(gap%int64(k))
	put(itlPerToken, part+1, rest)
	put(itlPerToken, part, k-rest)
}

// naiveTokens is our reading by its definition.
func (r *Record) naiveTokens() (t reading) {
	r.bearing(func(i int) {
		if t.n == 0 {
			t.first = r.Arrivals[i]
		}
		t.last, t.n = r.Arrivals[i], t.n+1
	})
	return t
}

// naiveDist sorts; past the limit it asks the library's histogram.
func naiveDist(ns []int64, limit int, percent []float64) *Dist {
	n := len(ns)
	if n == 0 {
		return nil
	}
	slices.Sort(ns)
	var m moments
	h := hdrhistogram.New(1, int64(24*time.Hour), 3)
	for _, v := range ns {
		m.add(v, 1)
		if err := h.RecordValue(min(v, int64(24*time.Hour))); err != nil {
			panic(err)
		}
	}
	d := &Dist{N: n, Mean: m.mean(1), Std: m.std(), Min: float64(ns[0]) / msInNS, Max: float64(ns[n-1]) / msInNS, Source: "exact", percent: percent}
	clamp := func(v int64) float64 { return float64(min(max(v, ns[0]), ns[n-1])) / msInNS }
	at := func(p float64) float64 {
		v, _ := stat.Quantile(n, func(i int) float64 { return float64(ns[i]) / msInNS }, p/100)
		return v
	}
	rank := func(i int) (low, high float64) { v := float64(ns[i-1]) / msInNS; return v, v }
	if limit > 0 && n > limit {
		d.Source = "hdr3"
		at = func(p float64) float64 { return clamp(h.ValueAtQuantile(p)) }
		rank = func(i int) (low, high float64) {
			// The bucket of the value of that rank: 2048 of them to a power of two.
			v, width := ns[i-1], int64(1)
			for v/width >= 2048 {
				width *= 2
			}
			return clamp(v / width * width), clamp(v/width*width + width - 1)
		}
	}
	d.Median = at(50)
	for _, p := range percent {
		d.value = append(d.value, at(p))
		var c certainty
		if lo, hi, ok := stat.QuantileRanks(n, p/100, stat.Level); ok {
			low, _ := rank(lo)
			_, high := rank(hi)
			c.interval = &Interval{low, high}
		}
		if r, ok := stat.TailRank(n, p/100, stat.TailConfidence); ok {
			_, v := rank(r)
			c.tail = &v
		}
		d.sure = append(d.sure, c)
	}
	return d
}

// naiveRatios is the distribution of tpot, whose mean and spread add up in
// ascending order.
func naiveRatios(ns, over []int64, percent []float64) *Dist {
	n := len(ns)
	if n == 0 {
		return nil
	}
	ms := make([]float64, n)
	var m moments
	for i := range ns {
		ms[i] = float64(ns[i]) / (float64(over[i]) * msInNS)
		m.add(ns[i], 1)
	}
	slices.Sort(ms)
	at := func(i int) float64 { return ms[i] }
	d := &Dist{N: n, Min: ms[0], Max: ms[n-1], Source: "exact", percent: percent}
	d.Mean, _ = stat.Mean(n, at)
	if slices.Max(over) == slices.Min(over) {
		d.Mean = m.mean(over[0])
	}
	d.Std, _ = stat.StdDev(n, at, d.Mean)
	d.Median, _ = stat.Quantile(n, at, 0.5)
	for _, p := range percent {
		v, _ := stat.Quantile(n, at, p/100)
		d.value = append(d.value, v)
		var c certainty
		if lo, hi, ok := stat.QuantileRanks(n, p/100, stat.Level); ok {
			c.interval = &Interval{at(lo - 1), at(hi - 1)}
		}
		if r, ok := stat.TailRank(n, p/100, stat.TailConfidence); ok {
			v := at(r - 1)
			c.tail = &v
		}
		d.sure = append(d.sure, c)
	}
	return d
}

func naiveVLLMPeaks(records []Record) (chunks, concurrent int) {
	first := time.Duration(math.MaxInt64)
	for i := range records {
		if r := &records[i]; r.Outcome == OK {
			first = min(first, r.Sent)
		}
	}
	var began, ended []int64 // seconds
	second := func(at time.Duration) int64 { return int64((at - first) / time.Second) }
	perSecond := map[int64]int{}
	for i := range records {
		r := &records[i]
		if r.Outcome != OK {
			continue
		}
		began = append(began, second(r.Sent))
		ended = append(ended, second(r.end(r.chunks()))+1)
		// Arrivals rise, so that a request comes to each second once.
		for a := r.Arrivals; len(a) > 0; {
			s, n := second(a[0]), 1
			for n < len(a) && second(a[n]) == s {
				n++
			}
			perSecond[s] += n
			a = a[n:]
		}
	}
	for n := range maps.Values(perSecond) {
		chunks = max(chunks, n)
	}
	return chunks, naiveMostOpen(began, ended)
}

func naiveMostOpen[T ~int64](began, ended []T) (most int) {
	slices.Sort(began)
	slices.Sort(ended)
	over := 0
	for i, at := range began {
		for over < len(ended) && ended[over] <= at {
			over++
		}
		most = max(most, i+1-over)
	}
	return most
}

// naiveEmitted yields a completed request's output tokens at the instants at which
// they came: as its events told, else in equal parts on those that bore tokens.
func (r *Record) naiveEmitted(yield func(at time.Duration, tokens float64)) {
	told := 0
	for _, k := range r.Tokens {
		told += k
	}
	switch {
	case len(r.Arrivals) == 0:
		yield(r.Done, float64(r.OutputTokens))
	case len(r.Tokens) == len(r.Arrivals) && told == r.OutputTokens:
		for i, k := range r.Tokens {
			yield(r.Arrivals[i], float64(k))
		}
	default:
		each := float64(r.OutputTokens) / float64(max(1, r.BearingCount()))
		r.bearing(func(i int) { yield(r.Arrivals[i], each) })
	}
}

// naiveTally adds up tokens event by event.
func naiveTally(records []Record, from, to time.Duration) *tallied {
	t := &tallied{from: from, to: to}
	n := min(int((to-from)/time.Second), mostSlices)
	t.tokens, t.ended = make([]float64, max(n, 1)), make([]float64, max(n, 1))
	t.slice = (to - from).Seconds() / float64(len(t.tokens))
	for i := range records {
		r := &records[i]
		if r.Outcome != OK {
			continue
		}
		if t.within(r.Sent) {
			t.total.started++
		}
		if t.within(r.Done) {
			t.total.ended++
			t.ended[t.index(r.Done)]++
		}
		if r.Sent >= to || r.Done < from {
			continue
		}
		r.naiveEmitted(func(at time.Duration, tokens float64) {
			if t.within(at) {
				t.tokens[t.index(at)] += tokens
			}
		})
	}
	for _, k := range t.tokens {
		t.total.tokens += k
	}
	return t
}

// naivePeak looks at the window that begins with each dose of tokens.
func naivePeak(records []Record) (best float64) {
	type dose struct {
		at     time.Duration
		tokens float64
	}
	var all []dose
	for i := range records {
		if r := &records[i]; r.Outcome == OK {
			r.naiveEmitted(func(at time.Duration, tokens float64) { all = append(all, dose{at, tokens}) })
		}
	}
	slices.SortFunc(all, func(a, b dose) int { return int(a.at - b.at) })
	for i, first := range all {
		var sum float64
		for _, d := range all[i:] {
			if d.at-first.at >= time.Second {
				break
			}
			sum += d.tokens
		}
		best = max(best, sum)
	}
	return best
}

// naiveSummary fills what comes from samples and peaks.
func naiveSummary(records []Record, o Options) *Summary {
	s := &Summary{}
	percent := slices.Concat(basePercentiles, o.Percentiles)
	all := map[metric][]int64{}
	put := func(m metric, ns int64, k int) {
		for range k {
			all[m] = append(all[m], ns)
		}
	}
	var vllm, token struct{ ns, over []int64 }
	var began, ended []time.Duration
	for i := range records {
		r := &records[i]
		if r.issued() {
			r.naiveGenerator(o, put)
			began, ended = append(began, r.Sent), append(ended, r.Done)
		}
		if r.Outcome != OK {
			continue
		}
		r.naiveLatencies(o, put)
		if c, n := r.chunks(), int64(r.OutputTokens-1); n > 0 && c.n > 0 {
			vllm.ns, vllm.over = append(vllm.ns, int64(c.last-c.first)), append(vllm.over, n)
			if t := r.naiveTokens(); t.n > 1 {
				token.ns, token.over = append(token.ns, int64(t.last-t.first)), append(token.over, n)
			}
		}
	}
	dist := func(m metric) *Dist {
		limit := 0
		if slices.Contains([]metric{itl, itlToken, itlPerToken, rxDelay}, m) {
			limit = o.RawGaps
		}
		return naiveDist(slices.Clone(all[m]), limit, percent)
	}
	s.VLLM = Latencies{dist(ttft), naiveRatios(vllm.ns, vllm.over, percent), dist(itl), dist(e2el)}
	s.Token = Latencies{dist(ttftToken), naiveRatios(token.ns, token.over, percent), dist(itlToken), dist(e2elToken)}
	s.ITLPerToken = dist(itlPerToken)
	s.TTFTFromDue, s.E2ELFromDue = dist(ttftFromDue), dist(e2elFromDue)
	s.ClientQueue, s.E2ELWithQueue = dist(clientQueue), dist(e2elWithQueue)
	s.QueueWait, s.Lag, s.RampLag = dist(queueWait), dist(lag), dist(rampLag)
	s.RxDelay, s.Connect = dist(rxDelay), dist(connect)
	s.PeakTokens, s.PeakConcurrency = naiveVLLMPeaks(records)
	s.MaxInFlight = naiveMostOpen(began, ended)
	return s
}

// drawn is a run with everything that makes a difference: failures, answers in
// one piece, role-only events, held-back tokens, events of one read, stalls.
func drawn(rng *rand.Rand, n, events int, plain bool) []Record {
	records := make([]Record, n)
	free := make([]time.Duration, 1+rng.IntN(8))
	pace := time.Duration(1 + rng.IntN(20_000_000))
	for i := range records {
		slot := &free[rng.IntN(len(free))]
		due := *slot
		r := &records[i]
		*r = Record{Seq: i, Due: due, Slot: due + time.Duration(rng.IntN(3)*rng.IntN(1_000_000)), Status: 200, Outcome: OK, TokenSource: FromUsage}
		r.Sent = r.Slot + time.Duration(rng.IntN(100_000))
		at := r.Sent + time.Duration(rng.IntN(200_000_000))
		k := events
		if !plain {
			k = rng.IntN(2*events + 1)
			if rng.IntN(9) == 0 {
				r.Outcome = Reset
			}
			if rng.IntN(5) == 0 {
				r.Connect = time.Duration(rng.IntN(1_000_000))
			}
		}
		for j := range k {
			r.Arrivals, r.RxDelay = append(r.Arrivals, at), append(r.RxDelay, time.Duration(rng.IntN(60_000)))
			if !plain && rng.IntN(6) == 0 {
				r.NotBearing = append(r.NotBearing, j)
			}
			if plain || rng.IntN(5) > 0 {
				at += time.Duration(rng.IntN(int(2 * pace)))
			} else if j > 0 && rng.IntN(2) == 0 {
				r.RxDelay[j] = r.RxDelay[j-1]
			}
			if !plain && rng.IntN(2000) == 0 {
				at += 6 * time.Second
			}
		}
		r.OutputTokens = k
		if !plain {
			switch rng.IntN(3) {
			case 0: // each event told its tokens
				r.OutputTokens = 0
				r.Tokens = make([]int, k)
				for j := range r.Tokens {
					r.Tokens[j] = rng.IntN(4)
					r.OutputTokens += r.Tokens[j]
				}
				if k == 0 {
					r.Tokens = nil
				}
			case 1:
				r.OutputTokens = rng.IntN(3 * events)
			}
		}
		r.Done = at + time.Duration(rng.IntN(100_000))
		*slot = r.Done
	}
	return records
}

func TestAgainstThePlainWay(t *testing.T) {
	for seed := range uint64(9) {
		rng := rand.New(rand.NewPCG(seed, 60))
		n, events, plain := 1+rng.IntN(60), 1+rng.IntN(40), seed%3 == 0
		if seed == 0 {
			n, events = 280, 240 // enough to be counted, not sorted
		}
		records := drawn(rng, n, events, plain)
		o := Options{OpenLoop: rng.IntN(2) == 0, Percentiles: []float64{99.9, 0, 100, 33.3}, RawGaps: 1 << 20}
		if seed%2 == 1 {
			// At the budget, just beyond it, and far beyond.
			gaps := shapeOf(records).gaps
			o.RawGaps = max(1, []int{gaps, gaps - 1, gaps / 2}[rng.IntN(3)])
		}
		got, want := Summarize(records, o), naiveSummary(records, o)
		// The plain way knows samples and peaks.
		all := *got
		want.Completed, want.Failed, want.Outcomes, want.TokenSources = all.Completed, all.Failed, all.Outcomes, all.TokenSources
		want.InputTokens, want.OutputTokens, want.InputRange, want.OutputRange = all.InputTokens, all.OutputTokens, all.InputRange, all.OutputRange
		want.Good, want.Counters, want.Last, want.MaxTokenRate = all.Good, all.Counters, all.Last, all.MaxTokenRate
		want.TPOTAfterFirst, want.Chunks, want.Reasoning = all.TPOTAfterFirst, all.Chunks, all.Reasoning // tokens_test.go
		if !reflect.DeepEqual(got, want) {
			g, w := reflect.ValueOf(*got), reflect.ValueOf(*want)
			for i := range g.NumField() {
				if !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) {
					t.Errorf("seed %d: %s is %+v, the plain way has %+v", seed, g.Type().Field(i).Name, g.Field(i), w.Field(i))
				}
			}
		}
		sameWindow(t, seed, records, got, o)
		if seed == 0 {
			continue // looking at each window takes too long
		}
		peak := max(naivePeak(records), float64(got.OutputTokens)/got.Last.Seconds())
		if math.Abs(got.MaxTokenRate-peak) > 1e-9*peak {
			t.Errorf("seed %d: %v tokens in a second, by looking at each window %v", seed, got.MaxTokenRate, peak)
		}
	}
}

// sameWindow compares a window's slices and gaps.
func sameWindow(t *testing.T, seed uint64, records []Record, s *Summary, o Options) {
	t.Helper()
	from, to := s.Last/7, s.Last-s.Last/9
	if to <= from {
		return
	}
	got, want := tally(records, from, to), naiveTally(records, from, to)
	if !slices.Equal(got.tokens, want.tokens) || !slices.Equal(got.ended, want.ended) || got.total != want.total {
		t.Errorf("seed %d: the slices of the window are %+v, the plain way has %+v", seed, got, want)
	}
	var gaps []int64
	for i := range records {
		r := &records[i]
		last := time.Duration(-1)
		r.bearing(func(i int) {
			if r.Outcome == OK && r.Sent < to && r.Done >= from && last >= 0 && want.within(r.Arrivals[i]) {
				gaps = append(gaps, int64(r.Arrivals[i]-last))
			}
			last = r.Arrivals[i]
		})
	}
	w := &Steady{From: from, To: to}
	w.latencies(records, got, s, o)
	if d := naiveDist(gaps, o.RawGaps, slices.Concat(basePercentiles, o.Percentiles)); !reflect.DeepEqual(w.ITL, d) {
		t.Errorf("seed %d: the window's gaps are %+v, the plain way has %+v", seed, w.ITL, d)
	}
}

// A rate that does not vary leaves every window to be looked at; bins may be
// longer than a second; and what is out of order or before the first send is
// counted all the same.
func TestPeakWhereBoundsDoNotHelp(t *testing.T) {
	run := func(streams, events int, gap time.Duration) []Record {
		records := make([]Record, streams)
		for i := range records {
			r := &records[i]
			*r = Record{Outcome: OK, OutputTokens: events, Sent: gap * time.Duration(i) / time.Duration(streams)}
			for j := range events {
				r.Arrivals = append(r.Arrivals, r.Sent+gap*time.Duration(j+1))
			}
			r.Done = r.Arrivals[events-1]
		}
		return records
	}
	early := run(3, 100, 20*time.Millisecond)
	early[1].Arrivals[0] = -5 * time.Second
	late := run(3, 100, 20*time.Millisecond)
	late[2].Arrivals[50] = time.Hour
	for name, records := range map[string][]Record{
		"constant": run(10, 300, 10*time.Millisecond), "rare": run(1, 9, 700*time.Millisecond), "slow": run(2, 5, time.Minute), "early": early, "late": late,
	} {
		s := Summarize(records, Options{})
		want := max(naivePeak(records), float64(s.OutputTokens)/s.Last.Seconds())
		if s.MaxTokenRate != want {
			t.Errorf("%s: %v tokens in a second, want %v", name, s.MaxTokenRate, want)
		}
	}
}
