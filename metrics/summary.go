package metrics

import (
	"math"
	"slices"
	"time"
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
	// RawGaps is how many inter-token gaps are held exactly, 4 bytes each;
	// beyond it the histogram answers and Dist.Source says so. 0: 64 Mi. It
	// holds for each metric with a sample an event by itself.
	RawGaps int
}

// Dist is the distribution of one metric in milliseconds. One that [Summarize]
// returned has samples, does not change, and may be shared by two metrics.
type Dist struct {
	N                           int // samples
	Mean, Median, Std, Min, Max float64
	// Source is "exact", or "hdr3" where a histogram of three significant
	// digits had to answer for median and percentiles.
	Source string

	percent []float64
	value   []float64
	sure    []certainty
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
	// TPOTAfterFirst is tpot without what the first chunk brought: the time after
	// it over the tokens after it. Chunks are the tokens of chunks. Both are nil
	// where no request told them.
	TPOTAfterFirst *Dist
	Chunks         *ChunkSizes
	// TTFTVisible is the time to the first visible output of the requests in which
	// reasoning came before it.
	TTFTVisible *Dist
	Reasoning   Reasoning
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
	// PeakTokens and PeakConcurrency are vLLM's figures: events with choices in
	// the fullest second (not tokens), and the most requests that touch a second
	// (not those in flight together).
	PeakTokens, PeakConcurrency int
	// MaxInFlight is the most requests in flight at one instant. MaxTokenRate is
	// the most output tokens in a second, and never below their mean rate.
	MaxInFlight  int
	MaxTokenRate float64

	// InputRange and OutputRange are the smallest and largest counts over
	// completed requests; zero where none told.
	InputRange, OutputRange [2]int

	Counters Counters
	// Last is the end of the last request.
	Last time.Duration
}

// basePercentiles are those of the manifest.
var basePercentiles = []float64{50, 90, 95, 99}

// Summarize computes a run's numbers in linear time: each record is walked
// through once. Records are only read. No number is NaN or infinite, whatever
// the records say.
func Summarize(records []Record, o Options) *Summary {
	s := &Summary{Outcomes: map[Outcome]int{}, TokenSources: map[TokenSource]int{}}
	sh := shapeOf(records)
	c := newCollector(o)
	c.reserve(sh)
	p := newPeaks(sh)
	for i := range records {
		r := &records[i]
		if r.Outcome == "" {
			continue
		}
		s.count(r)
		if r.issued() {
			c.generator(r)
			p.issued(r)
		}
		if r.Outcome == OK {
			s.completed(r)
			c.latencies(r)
			c.pace(r)
			p.completed(r)
		}
	}
	c.finish(s)
	s.PeakTokens, s.PeakConcurrency = p.vllm()
	s.MaxInFlight = p.inFlight()
	s.MaxTokenRate = p.tokens.rate(records, s.Last)
	return s
}

// shape is what is known of a run before its records are walked through: how
// much room they take, and when they were.
type shape struct {
	events, issued, completed int
	gaps                      int // between events of completed requests
	// same tells that every event of a completed request bore a token: both
	// readings are one. sameTPOT: and no answer of more tokens came in one event.
	same, sameTPOT bool
	// first and last are the first send and the last end of completed requests.
	first, last time.Duration
	tokens      float64 // output tokens of completed requests
}

func shapeOf(records []Record) (sh shape) {
	sh.same, sh.sameTPOT, sh.first = true, true, math.MaxInt64
	for i := range records {
		r := &records[i]
		if !r.issued() {
			continue
		}
		sh.issued++
		sh.events += len(r.Arrivals)
		if r.Outcome != OK {
			continue
		}
		sh.completed++
		sh.tokens += float64(r.OutputTokens)
		sh.gaps += max(0, len(r.Arrivals)-1)
		sh.same = sh.same && r.BearingCount() == len(r.Arrivals)
		sh.sameTPOT = sh.sameTPOT && !(len(r.Arrivals) == 1 && r.OutputTokens > 1)
		sh.first, sh.last = min(sh.first, r.Sent), max(sh.last, r.Done)
	}
	sh.sameTPOT = sh.sameTPOT && sh.same
	return sh
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
	k.Dialed += b2i(!r.Reused && (r.Status != 0 || r.Connect > 0))
	k.BadUsage += r.BadUsage
	k.Redialed += r.Redialed
	k.Trailing += r.Trailing
	k.Clamped += r.Clamped
	k.Discarded += r.Discarded
	k.NoStamp += r.NoStamp
	k.Events += len(r.Arrivals)
	k.NotBearing += len(r.NotBearing)
	k.ZeroGaps += zeroGaps(r.Arrivals)
	if r.Outcome != OK {
		s.Failed++
	}
}

// completed takes in a request that succeeded.
func (s *Summary) completed(r *Record) {
	s.Completed++
	s.InputTokens = plus(s.InputTokens, r.PromptTokens)
	s.OutputTokens = plus(s.OutputTokens, r.OutputTokens)
	s.Counters.Cached = plus(s.Counters.Cached, r.CachedTokens)
	s.Reasoning.add(r)
	if r.TokenSource != "" {
		widen(&s.OutputRange, r.OutputTokens, len(s.TokenSources) == 0)
		s.TokenSources[r.TokenSource]++
		s.Counters.Empty += b2i(r.OutputTokens == 0)
	}
	if r.PromptTokens > 0 {
		widen(&s.InputRange, r.PromptTokens, s.InputRange == [2]int{})
	}
}

// maxSum is the largest sum of tokens: whoever reads JSON takes it exactly, and sums
// of some sums do not wrap round either.
const maxSum = 1 << 53

// plus adds a count that a server told, up to [maxSum].
func plus(sum int64, n int) int64 {
	return min(sum+min(int64(max(n, 0)), maxSum), maxSum)
}

func widen(r *[2]int, v int, first bool) {
	if first {
		*r = [2]int{v, v}
		return
	}
	r[0], r[1] = min(r[0], v), max(r[1], v)
}

func zeroGaps(at []time.Duration) (n int) {
	for i := 1; i < len(at); i++ {
		if at[i] == at[i-1] {
			n++
		}
	}
	return n
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// metric names one distribution of durations; those with Token in their name
// are our reading, ttft, itl and e2el are vLLM's.
type metric int

const (
	ttft metric = iota
	itl
	e2el
	clientQueue
	e2elWithQueue
	ttftToken
	ttftVisible
	itlToken
	tpotToken
	e2elToken
	itlPerToken
	ttftFromDue
	e2elFromDue
	queueWait
	lag
	rampLag
	rxDelay
	connect
	metricCount
)

// collector gathers the samples of a run.
type collector struct {
	sure           *certainties
	open           bool // an open loop
	all            [metricCount]samples
	tpot           ratios // vLLM's reading
	tpotTok        ratios
	chunked        chunked
	same, sameTPOT bool                               // as in shape
	bounds         struct{ ttft, tpot, e2el float64 } // ms
	good           int
	ns             []int64         // scratch
	at             []time.Duration // scratch
}

// rawGaps is how many samples of an event each are held by default.
const rawGaps = 64 << 20

func newCollector(o Options) *collector {
	percent := slices.Clone(basePercentiles)
	for _, p := range o.Percentiles {
		if p >= 0 && p <= 100 && !slices.Contains(percent, p) {
			percent = append(percent, p)
		}
	}
	c := &collector{sure: newCertainties(percent), open: o.OpenLoop}
	limit := o.RawGaps
	if limit <= 0 {
		limit = rawGaps
	}
	for _, m := range []metric{itl, itlToken, itlPerToken, rxDelay} {
		c.all[m].limit = limit
	}
	bound := func(name string) float64 {
		if ms, ok := o.Goodput[name]; ok {
			return ms
		}
		return math.Inf(1)
	}
	c.bounds.ttft, c.bounds.tpot, c.bounds.e2el = bound("ttft"), bound("tpot"), bound("e2el")
	return c
}

// reserve makes room for the samples that a run of the shape will have: lists
// need not grow.
func (c *collector) reserve(sh shape) {
	c.same, c.sameTPOT = sh.same, sh.sameTPOT
	room := func(n int, of ...metric) {
		for _, m := range of {
			if s := &c.all[m]; s.limit == 0 || n <= s.limit {
				s.small = make([]uint32, 0, n)
			}
		}
	}
	room(sh.events, rxDelay)
	room(sh.issued, lag)
	room(sh.completed, ttft, e2el, clientQueue, e2elWithQueue)
	c.tpot.ms = make([]float64, 0, sh.completed)
	if c.all[itl].limit < sh.gaps {
		c.all[itl].hist = newHist() // it comes to that
	}
	room(sh.gaps, itl)
	if !c.same {
		room(sh.gaps, itlToken)
		room(sh.completed, ttftToken, e2elToken)
	}
	if c.open {
		room(sh.issued, queueWait)
		room(sh.completed, ttftFromDue, e2elFromDue)
	}
}

// generator takes in our own part of a request that was sent, of any outcome.
func (c *collector) generator(r *Record) {
	if !c.open && r.Slot == 0 {
		c.all[rampLag].add(int64(r.Lag()), 1)
	} else {
		c.all[lag].add(int64(r.Lag()), 1)
	}
	if c.open {
		c.all[queueWait].add(int64(r.QueueWait()), 1)
	}
	if r.Connect > 0 {
		c.all[connect].add(int64(r.Connect), 1)
	}
	ns, at := c.ns[:0], r.Arrivals
	for i, d := range r.RxDelay[:min(len(r.RxDelay), len(at))] {
		// Events of one read share its stamp and its delay.
		if i == 0 || at[i] != at[i-1] || d != r.RxDelay[i-1] {
			ns = append(ns, int64(d))
		}
	}
	c.ns = ns
	c.all[rxDelay].addAll(ns)
}

// latencies takes in those of a completed request in both readings, but for
// tpot, which is no whole number of nanoseconds.
func (c *collector) latencies(r *Record) {
	chunk, token := r.chunks(), r.tokens()
	last := int64(r.end(chunk) - r.Sent)
	queue := int64(r.Sent)
	if c.open {
		queue = int64(r.Sent - r.Due)
	}
	c.all[e2el].add(last, 1)
	c.all[clientQueue].add(queue, 1)
	c.all[e2elWithQueue].add(queue+last, 1)
	if !c.same {
		c.all[e2elToken].add(int64(r.end(token)-r.Sent), 1)
	}
	if c.open {
		c.all[e2elFromDue].add(int64(r.end(token)-r.Due), 1)
	}
	if chunk.n == 0 {
		return
	}
	c.all[ttft].add(int64(chunk.first-r.Sent), 1)
	if !c.same {
		c.all[ttftToken].add(int64(token.first-r.Sent), 1)
	}
	if r.Visible > 0 && r.Visible < len(r.Arrivals) {
		c.all[ttftVisible].add(int64(r.Arrivals[r.Visible]-r.Sent), 1)
	}
	if c.open {
		c.all[ttftFromDue].add(int64(token.first-r.Due), 1)
	}
	c.gaps(itl, r.Arrivals)
	if !c.same {
		c.at = r.bearingTimes(c.at)
		c.gaps(itlToken, c.at)
	}
	if r.Tokens != nil && len(r.Tokens) == len(r.Arrivals) {
		c.shares(r)
	}
}

// gaps takes in the distances between instants.
func (c *collector) gaps(m metric, at []time.Duration) {
	ns := c.ns[:0]
	for i := 1; i < len(at); i++ {
		ns = append(ns, int64(at[i]-at[i-1]))
	}
	c.ns = ns
	c.all[m].addAll(ns)
}

// shares takes in the gaps between token-bearing events, shared among the tokens
// that came at their end.
func (c *collector) shares(r *Record) {
	from := -1  // where the gap that is to be shared began
	next := 0   // the first event whose tokens are not in the share yet
	tokens := 0 // those of the share
	r.bearing(func(i int) {
		for ; next <= i; next++ {
			tokens += r.Tokens[next]
		}
		if from >= 0 && tokens > 0 {
			c.share(int64(r.Arrivals[i]-r.Arrivals[from]), tokens)
		}
		// An event without a token of its own passes its gap on.
		if from < 0 || tokens > 0 {
			from, tokens = i, 0
		}
	})
}

// share takes in a gap's k parts, which differ by at most 1 ns and add up to it.
func (c *collector) share(gap int64, k int) {
	part, rest := gap/int64(k), int(gap%int64(k))
	c.all[itlPerToken].add(part+1, rest)
	c.all[itlPerToken].add(part, k-rest)
}

// pace takes in a completed request's time per token, and whether it was good.
func (c *collector) pace(r *Record) {
	chunk, token := r.chunks(), r.tokens()
	c.chunked.add(r)
	// vLLM takes the tpot of an answer of one token as 0 here. What was not
	// measured meets no bound: vLLM counts such a request as failed.
	unknown := math.Inf(1)
	first, pace := unknown, unknown
	if chunk.n > 0 {
		first = float64(chunk.first-r.Sent) / msInNS
	}
	n := int64(r.OutputTokens)
	if n <= 1 {
		pace = 0
	} else if chunk.n > 0 {
		pace = perToken(int64(chunk.last-chunk.first), n-1)
		c.tpot.add(int64(chunk.last-chunk.first), n-1)
		// One event with all the tokens tells nothing of their pace. vLLM says 0
		// there, which is kept in its own reading alone.
		if token.n > 1 && !c.sameTPOT {
			c.tpotTok.add(int64(token.last-token.first), n-1)
		}
	}
	whole := float64(r.end(chunk)-r.Sent) / msInNS
	if first <= c.bounds.ttft && pace <= c.bounds.tpot && whole <= c.bounds.e2el {
		c.good++
	}
}

func (c *collector) finish(s *Summary) {
	dist := func(m metric) *Dist { return c.all[m].dist(c.sure) }
	s.VLLM = Latencies{dist(ttft), c.tpot.dist(c.sure), dist(itl), dist(e2el)}
	s.Token = s.VLLM
	if !c.same {
		s.Token = Latencies{TTFT: dist(ttftToken), ITL: dist(itlToken), E2EL: dist(e2elToken)}
	}
	if !c.sameTPOT {
		s.Token.TPOT = c.tpotTok.dist(c.sure)
	}
	s.ITLPerToken = dist(itlPerToken)
	s.TPOTAfterFirst, s.Chunks = c.chunked.after.dist(c.sure), c.chunked.sizes()
	s.TTFTVisible = dist(ttftVisible)
	s.TTFTFromDue, s.E2ELFromDue = dist(ttftFromDue), dist(e2elFromDue)
	s.ClientQueue, s.E2ELWithQueue = dist(clientQueue), dist(e2elWithQueue)
	s.QueueWait, s.Lag, s.RampLag = dist(queueWait), dist(lag), dist(rampLag)
	s.RxDelay, s.Connect = dist(rxDelay), dist(connect)
	s.Good = c.good
	s.Counters.Reads = c.all[rxDelay].n
}

// fill asks at for the median and the percentiles; at takes percent. rank tells
// between which two values the order statistic i lies, i from 1: the same one
// twice where samples are exact.
func (d *Dist) fill(c *certainties, at func(p float64) float64, rank func(i int) (low, high float64)) {
	d.Median = at(50)
	sets := c.ranks(d.N)
	for i, p := range d.percent {
		d.value = append(d.value, at(p))
		d.sure = append(d.sure, sets[i].certain(rank))
	}
}
