package metrics

import (
	"math"
	"slices"
	"time"

	"github.com/servebench/servebench/metrics/stat"
)

// Options says what to make of a run's records. The zero value is a closed loop
// without percentiles beyond the manifest's.
type Options struct {
	// Percentiles in percent, beyond 50, 90, 95 and 99, which are always there.
	Percentiles []float64
	// Goodput holds upper bounds in milliseconds on ttft, tpot and e2el in
	// vLLM's reading; empty: no goodput.
	Goodput map[string]float64
	// OpenLoop tells that requests had due times of their own: only then do
	// latencies from the due time exist.
	OpenLoop bool
	// MaxConcurrency is the number of in-flight slots; 0 where there were none.
	MaxConcurrency int
	// RawGaps is how many inter-token gaps are held exactly, 4 bytes each;
	// beyond it the histogram answers and Dist.Source says so. 0: 64 Mi.
	RawGaps int
}

// Dist is the distribution of one metric in milliseconds.
type Dist struct {
	N                           int // samples
	Mean, Median, Std, Min, Max float64
	// Source is "exact", or "hdr3" where a histogram of three significant
	// digits had to answer for quantiles and spread.
	Source string

	percent []float64
	value   []float64
}

// Percentile returns the value at p percent; ok is false where it was not asked
// for or d is nil.
func (d *Dist) Percentile(p float64) (ms float64, ok bool) {
	if d == nil {
		return 0, false
	}
	i := slices.Index(d.percent, p)
	if i < 0 {
		return 0, false
	}
	return d.value[i], true
}

// Latencies are the four metrics of a streaming benchmark under one reading;
// nil where there is no sample.
type Latencies struct{ TTFT, TPOT, ITL, E2EL *Dist }

// Counters are things that happened on the way, over all requests.
type Counters struct {
	NoDone, Empty, NotStreamed, UsageMismatch, BadUsage int
	Redialed, Dialed, Undrained, Trailing               int
	Clamped, Discarded, NoStamp                         int
	Events, Reads, ZeroGaps, NotBearing                 int
	Cached                                              int64 // prompt tokens from the prefix cache
}

// Summary is what a run's records say. Failed requests are counted and enter
// nothing else.
type Summary struct {
	Completed, Failed         int
	Outcomes                  map[Outcome]int
	TokenSources              map[TokenSource]int
	InputTokens, OutputTokens int64

	// VLLM is vLLM's reading (events with choices), Token ours (token-bearing
	// events); see docs/measurement.md.
	VLLM, Token Latencies
	// ITLPerToken shares each gap among the tokens of its chunk, where known.
	ITLPerToken *Dist
	// TTFTFromDue and E2ELFromDue count from the due time; open loop only.
	TTFTFromDue, E2ELFromDue *Dist
	// ClientQueue is vLLM's client_queue_time: Sent minus the instant its client
	// would have made the request (the due time; schedule zero in a closed
	// loop). E2ELWithQueue is its sum with vLLM's e2el.
	ClientQueue, E2ELWithQueue *Dist
	// QueueWait and Lag are the generator's own part of every issued request;
	// RampLag is the lag of the first fill of a closed loop's slots.
	QueueWait, Lag, RampLag *Dist
	// RxDelay is the time from kernel receive to read, one sample a read.
	RxDelay *Dist
	// Connect is dial and TLS time of requests that had to open a connection.
	Connect *Dist

	// Good is the number of requests within all Goodput bounds.
	Good int
	// PeakTokens and PeakConcurrency are vLLM's figures: the fullest second in
	// chunks, and the requests that touch it.
	PeakTokens, PeakConcurrency int

	// InputRange and OutputRange are the smallest and largest counts over
	// completed requests; zero where none told.
	InputRange, OutputRange [2]int

	Counters Counters
	// Last is the end of the last request.
	Last time.Duration
}

// basePercentiles are those of the manifest.
var basePercentiles = []float64{50, 90, 95, 99}

// Summarize computes a run's numbers. Records are only read.
func Summarize(records []Record, o Options) *Summary {
	s := &Summary{Outcomes: map[Outcome]int{}, TokenSources: map[TokenSource]int{}}
	c := newCollector(o)
	for i := range records {
		r := &records[i]
		if r.Outcome == "" {
			continue
		}
		s.count(r)
		c.generator(r)
		if r.Outcome == OK {
			s.completed(r)
			c.latency(r)
		}
	}
	c.finish(s)
	s.PeakTokens, s.PeakConcurrency = vllmPeaks(records)
	return s
}

// count takes in what holds for requests of any outcome.
func (s *Summary) count(r *Record) {
	s.Outcomes[r.Outcome]++
	s.Last = max(s.Last, r.Done)
	k := &s.Counters
	k.NoDone += b2i(r.NoDone)
	k.NotStreamed += b2i(r.NotStreamed)
	k.UsageMismatch += b2i(r.UsageMismatch)
	k.Undrained += b2i(r.Undrained)
	k.Dialed += b2i(!r.Reused && r.Status != 0)
	k.BadUsage += r.BadUsage
	k.Redialed += r.Redialed
	k.Trailing += r.Trailing
	k.Clamped += r.Clamped
	k.Discarded += r.Discarded
	k.NoStamp += r.NoStamp
	k.Events += len(r.Arrivals)
	k.NotBearing += len(r.NotBearing)
	if r.Outcome != OK {
		s.Failed++
	}
}

// completed takes in a request that succeeded.
func (s *Summary) completed(r *Record) {
	s.Completed++
	s.InputTokens += int64(r.PromptTokens)
	s.OutputTokens += int64(r.OutputTokens)
	s.Counters.Cached += int64(r.CachedTokens)
	if r.TokenSource != "" {
		s.TokenSources[r.TokenSource]++
		s.Counters.Empty += b2i(r.OutputTokens == 0)
		widen(&s.OutputRange, r.OutputTokens, s.Completed == 1)
	}
	if r.PromptTokens > 0 {
		widen(&s.InputRange, r.PromptTokens, s.InputRange == [2]int{})
	}
}

func widen(r *[2]int, v int, first bool) {
	if first {
		*r = [2]int{v, v}
		return
	}
	r[0], r[1] = min(r[0], v), max(r[1], v)
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// collector gathers samples in nanoseconds.
type collector struct {
	o                            Options
	percent                      []float64
	ttft, e2el, ttftTok, e2elTok []int64
	tpot, tpotTok                ratios
	itl, itlTok, perTok, rx      gaps
	fromDue, e2eFromDue          []int64
	wait, lag, ramp, connect     []int64
	queue, e2eQueue              []int64
	good, reads, zeroGaps        int
}

func newCollector(o Options) *collector {
	c := &collector{o: o, percent: slices.Clone(basePercentiles)}
	for _, p := range o.Percentiles {
		if !slices.Contains(c.percent, p) {
			c.percent = append(c.percent, p)
		}
	}
	limit := o.RawGaps
	if limit == 0 {
		limit = 64 << 20
	}
	for _, g := range []*gaps{&c.itl, &c.itlTok, &c.perTok, &c.rx} {
		g.limit = limit
	}
	return c
}

// generator takes in our own part of a request of any outcome.
func (c *collector) generator(r *Record) {
	if !c.o.OpenLoop && r.Slot == 0 {
		c.ramp = append(c.ramp, int64(r.Lag()))
	} else {
		c.lag = append(c.lag, int64(r.Lag()))
	}
	if c.o.OpenLoop {
		c.wait = append(c.wait, int64(r.QueueWait()))
	}
	if r.Connect > 0 {
		c.connect = append(c.connect, int64(r.Connect))
	}
	for i, at := range r.Arrivals {
		// Events of one read share its stamp and its delay.
		if i > 0 && at == r.Arrivals[i-1] {
			c.zeroGaps++
			if r.RxDelay[i] == r.RxDelay[i-1] {
				continue
			}
		}
		c.reads++
		c.rx.add(int64(r.RxDelay[i]))
	}
}

// latency takes in a completed request's latencies, in both readings.
func (c *collector) latency(r *Record) {
	chunk, token := r.chunks(), r.tokens()
	e2el := int64(r.end(chunk) - r.Sent)
	c.e2el = append(c.e2el, e2el)
	c.e2elTok = append(c.e2elTok, int64(r.end(token)-r.Sent))
	if c.o.OpenLoop {
		c.e2eFromDue = append(c.e2eFromDue, int64(r.end(token)-r.Due))
	}
	queue := int64(r.Sent)
	if c.o.OpenLoop {
		queue = int64(r.Sent - r.Due)
	}
	c.queue, c.e2eQueue = append(c.queue, queue), append(c.e2eQueue, queue+e2el)
	var ttft int64
	var tpot float64
	if chunk.n > 0 {
		ttft = int64(chunk.first - r.Sent)
		c.ttft = append(c.ttft, ttft)
		c.ttftTok = append(c.ttftTok, int64(token.first-r.Sent))
		if c.o.OpenLoop {
			c.fromDue = append(c.fromDue, int64(token.first-r.Due))
		}
		if n := r.OutputTokens; n > 1 {
			tpot = c.tpot.add(int64(chunk.last-chunk.first), int64(n-1))
			// One chunk with all the tokens tells nothing of their pace. vLLM
			// says 0 there, which is kept in its own reading alone.
			if token.n > 1 {
				c.tpotTok.add(int64(token.last-token.first), int64(n-1))
			}
		}
		c.gapsOf(r)
	}
	if c.within(float64(ttft), tpot, float64(e2el)) {
		c.good++
	}
}

// gapsOf takes in the gaps between a request's events.
func (c *collector) gapsOf(r *Record) {
	for i := 1; i < len(r.Arrivals); i++ {
		c.itl.add(int64(r.Arrivals[i] - r.Arrivals[i-1]))
	}
	prev := -1
	r.bearing(func(i int) {
		if prev >= 0 {
			gap := int64(r.Arrivals[i] - r.Arrivals[prev])
			c.itlTok.add(gap)
			if r.Tokens != nil {
				// The gap's tokens came one after the other for all we know.
				k := int64(r.Tokens[i])
				for j := range k {
					c.perTok.add(gap*(j+1)/k - gap*j/k)
				}
			}
		}
		prev = i
	})
}

// within tells whether a request met every goodput bound (nanoseconds).
func (c *collector) within(ttft, tpot, e2el float64) bool {
	for name, ms := range c.o.Goodput {
		v := map[string]float64{"ttft": ttft, "tpot": tpot, "e2el": e2el}[name]
		if v > ms*1e6 {
			return false
		}
	}
	return true
}

func (c *collector) finish(s *Summary) {
	s.VLLM = Latencies{c.dist(c.ttft), c.tpot.dist(c.percent), c.itl.dist(c.percent), c.dist(c.e2el)}
	s.Token = Latencies{c.dist(c.ttftTok), c.tpotTok.dist(c.percent), c.itlTok.dist(c.percent), c.dist(c.e2elTok)}
	s.ITLPerToken = c.perTok.dist(c.percent)
	s.TTFTFromDue, s.E2ELFromDue = c.dist(c.fromDue), c.dist(c.e2eFromDue)
	s.ClientQueue, s.E2ELWithQueue = c.dist(c.queue), c.dist(c.e2eQueue)
	s.QueueWait, s.Lag, s.RampLag = c.dist(c.wait), c.dist(c.lag), c.dist(c.ramp)
	s.RxDelay, s.Connect = c.rx.dist(c.percent), c.dist(c.connect)
	s.Good = c.good
	s.Counters.Reads, s.Counters.ZeroGaps = c.reads, c.zeroGaps
}

// dist sorts ns in place.
func (c *collector) dist(ns []int64) *Dist {
	slices.Sort(ns)
	var sum int64
	for _, v := range ns {
		sum += v
	}
	mean := float64(sum) / (float64(len(ns)) * 1e6)
	return exact(len(ns), func(i int) float64 { return float64(ns[i]) / 1e6 }, mean, c.percent)
}

// exact makes a Dist of n values in ascending order; nil for none.
func exact(n int, at func(int) float64, mean float64, percent []float64) *Dist {
	if n == 0 {
		return nil
	}
	d := &Dist{N: n, Mean: mean, Min: at(0), Max: at(n - 1), Source: "exact", percent: percent}
	d.Std, _ = stat.StdDev(n, at, mean)
	d.Median, _ = stat.Quantile(n, at, 0.5)
	for _, p := range percent {
		v, _ := stat.Quantile(n, at, p/100)
		d.value = append(d.value, v)
	}
	return d
}

// ratios collects durations over counts: tpot.
type ratios struct {
	values []float64 // ns
	sum    int64     // of the numerators
	over   int64     // the common denominator; 0 none yet, -1 they differ
}

func (q *ratios) add(ns, over int64) float64 {
	v := float64(ns) / float64(over)
	q.values = append(q.values, v)
	q.sum += ns
	if q.over == 0 {
		q.over = over
	} else if q.over != over {
		q.over = -1
	}
	return v
}

func (q *ratios) dist(percent []float64) *Dist {
	n := float64(len(q.values))
	// With equal lengths the mean comes from the exact integer sum, so that
	// mean(e2el) = mean(ttft) + (n-1) mean(tpot) holds to the last places.
	mean := stat.Sum(q.values) / n / 1e6
	if q.over > 0 {
		mean = float64(q.sum) / (n * float64(q.over) * 1e6)
	}
	slices.Sort(q.values)
	return exact(len(q.values), func(i int) float64 { return q.values[i] / 1e6 }, mean, percent)
}

// vllmPeaks computes vLLM's max_output_tokens_per_s and max_concurrent_requests
// as its client does, flaws and all: one-second buckets from the first send,
// one for each event with choices, and every request counts in each second that
// it touches.
func vllmPeaks(records []Record) (tokens, concurrent int) {
	start, end := time.Duration(math.MaxInt64), time.Duration(0)
	for i := range records {
		if r := &records[i]; r.Outcome == OK {
			start = min(start, r.Sent)
			end = max(end, r.end(r.chunks()))
		}
	}
	if end < start {
		return 0, 0
	}
	n := int((end-start)/time.Second) + 1
	toks, active := make([]int, n), make([]int, n+1)
	for i := range records {
		r := &records[i]
		if r.Outcome != OK {
			continue
		}
		for _, at := range r.Arrivals {
			toks[(at-start)/time.Second]++
		}
		active[(r.Sent-start)/time.Second]++
		active[(r.end(r.chunks())-start)/time.Second+1]--
	}
	now := 0
	for i := range n {
		now += active[i]
		tokens, concurrent = max(tokens, toks[i]), max(concurrent, now)
	}
	return tokens, concurrent
}
