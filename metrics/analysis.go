package metrics

import (
	"cmp"
	"fmt"
	"time"

	"github.com/servebench/servebench/metrics/internal/radix"
	"github.com/servebench/servebench/metrics/stat"
)

// Load says what a run's schedule was, as far as its records do not. The zero
// value is a closed loop of unknown concurrency.
type Load struct {
	// OpenLoop tells that requests had due times of their own.
	OpenLoop bool
	// Concurrency is the number of requests that a closed loop keeps in flight;
	// 0: unknown. A cap on an open loop is none.
	Concurrency int
	// Shape is the gamma shape (vLLM's burstiness) from which the gaps between
	// due times were drawn: 1 is a Poisson process, infinity a constant gap, 0
	// none, as for a trace or a ramp.
	Shape float64
}

// Analysis is what a run's records say about how sure its figures are. A figure
// that has no basis is nil, and a text beside it says why. Nothing in it is NaN
// or infinite.
type Analysis struct {
	// TTFT is vLLM's, the others are of the token reading.
	TTFT, TPOT, ITL, E2EL Independence

	// Steady is the concurrency plateau of a closed loop (M14).
	Steady   *Steady
	NoSteady string // why there is none
	// Throughput is that of the plateau; of an open loop, of its arrivals
	// without the fill at their beginning.
	Throughput   *Throughput
	NoThroughput string

	// Saturation tells whether an open loop outran the server.
	Saturation   *Saturation
	NoSaturation string

	// Goodput is nil where no bounds were given or nothing was sent.
	Goodput *Goodput

	// Arrivals compares the sends of an open loop with its schedule.
	Arrivals   *Arrivals
	NoArrivals string
}

// Analyze computes it in linear time; records are only read. s and o are the
// run's: what [Summarize] returned, and what it was asked for.
func Analyze(records []Record, s *Summary, o Options, load Load) *Analysis {
	a := &Analysis{}
	sent := bySending(records)
	a.independence(sent, s)
	e2el := time.Duration(0)
	if s.Token.E2EL != nil {
		e2el = time.Duration(s.Token.E2EL.Mean * msInNS)
	}
	if load.OpenLoop {
		a.NoSteady = "an open loop has no concurrency to hold"
		w, why := arrivalWindow(records)
		if a.NoSaturation = why; why == "" {
			a.Saturation, a.NoSaturation = saturation(records, w)
		}
		if a.NoThroughput = why; why == "" {
			a.Throughput, a.NoThroughput = throughput(tally(records, w.from, w.to), e2el)
		}
		a.Arrivals, a.NoArrivals = arrivals(records, load)
	} else {
		a.NoSaturation = "a closed loop cannot outrun the server"
		a.NoArrivals = "a closed loop has no schedule"
		a.closed(records, s, o, load, e2el)
	}
	if len(o.Goodput) > 0 {
		a.Goodput = goodput(s)
	}
	return a
}

// closed looks for the plateau and at what it holds.
func (a *Analysis) closed(records []Record, s *Summary, o Options, load Load, e2el time.Duration) {
	a.Steady, a.NoSteady = plateau(records, load.Concurrency)
	if a.Steady == nil {
		a.NoThroughput = a.NoSteady
		return
	}
	t := tally(records, a.Steady.From, a.Steady.To)
	a.Steady.fill(records, t, s, o)
	a.Throughput, a.NoThroughput = throughput(t, e2el)
}

// bySending returns the completed records in the order in which they were sent;
// of those sent together the first in the slice comes first.
func bySending(records []Record) []*Record {
	keys := make([]radix.Item, 0, len(records))
	for i := range records {
		if r := &records[i]; r.Outcome == OK {
			keys = append(keys, radix.Item{Key: uint64(r.Sent) ^ 1<<63, I: int32(i)})
		}
	}
	radix.Items(keys)
	sent := make([]*Record, len(keys))
	for i, k := range keys {
		sent[i] = &records[k.I]
	}
	return sent
}

// Independence says what the samples of a metric are worth (M18). Those of
// neighbouring requests resemble each other; an interval that takes them to be
// independent is then too narrow.
type Independence struct {
	N int `json:"n"` // samples
	// Rho is the rank correlation between neighbours in the order of sending;
	// between the neighbouring gaps of one stream for itl. Nil: fewer than three
	// samples, or all equal.
	Rho *float64 `json:"lag1_rank_correlation,omitempty"`
	// EffectiveN is N(1-Rho)/(1+Rho), at most N; for itl, whose gaps are alike
	// across streams too, no more than what the spread of its batch means shows.
	EffectiveN *float64 `json:"effective_n,omitempty"`
	// Mean is the mean with its interval by batch means in milliseconds (M19);
	// NoMean says why there is none.
	Mean   *Estimate `json:"mean,omitempty"`
	NoMean string    `json:"no_mean,omitempty"`
}

// Estimate is a figure with its 95 % interval from batch means.
type Estimate struct {
	Value    float64  `json:"value"`
	Interval Interval `json:"ci95"`
	Batches  int      `json:"batches"`
	// Rho is the correlation of neighbouring batches. Beyond one half they are
	// no repeats of each other, and the interval is too narrow.
	Rho float64 `json:"batch_correlation"`
}

func estimate(b stat.Batches) *Estimate {
	return &Estimate{Value: b.Mean, Interval: Interval{b.Low, b.High}, Batches: b.M, Rho: b.Rho}
}

// Optimistic tells that the batches depend on each other (A4).
func (e *Estimate) Optimistic() bool { return e.Rho > 0.5 || e.Rho < -0.5 }

// mostPairs bounds the neighbours that a rank correlation looks at: they are
// taken at even distances, and its standard error is 0.004 then.
const mostPairs = 1 << 16

func (a *Analysis) independence(sent []*Record, s *Summary) {
	c := columnsOf(sent)
	why := c.tooShort(sent)
	of := func(values []float64) (in Independence) {
		in.N = len(values)
		in.correlate(successive(values))
		if in.NoMean = why; why == "" {
			in.mean(values)
		}
		return in
	}
	a.TTFT, a.TPOT, a.E2EL = of(c.ttft), of(c.tpot), of(c.e2el)
	a.ITL = c.gaps(sent, s.Token.ITL, why)
}

// columns hold what is looked at of each completed request, in the order of
// sending, in milliseconds: ttft where it has one, tpot where it has one.
type columns struct {
	ttft, tpot, e2el []float64
	whole            float64  // of e2el, in seconds
	batches          []gapSum // of BatchCount batches of requests
}

// gapSum adds up gaps between token-bearing events.
type gapSum struct{ ns, n int64 }

func columnsOf(sent []*Record) *columns {
	n := len(sent)
	c := &columns{ttft: make([]float64, 0, n), tpot: make([]float64, 0, n), e2el: make([]float64, 0, n), batches: make([]gapSum, stat.BatchCount(n))}
	m, j := len(c.batches), 0
	for i, r := range sent {
		for i >= (j+1)*n/m {
			j++
		}
		chunk, token := r.chunks(), r.tokens()
		if chunk.n > 0 {
			c.ttft = append(c.ttft, float64(chunk.first-r.Sent)/msInNS)
		}
		if token.n > 1 {
			c.batches[j].ns += int64(token.last - token.first)
			c.batches[j].n += int64(token.n - 1)
			if r.OutputTokens > 1 {
				c.tpot = append(c.tpot, perToken(int64(token.last-token.first), int64(r.OutputTokens-1)))
			}
		}
		e2el := r.end(token) - r.Sent
		c.e2el = append(c.e2el, float64(e2el)/msInNS)
		c.whole += e2el.Seconds()
	}
	return c
}

func (in *Independence) mean(values []float64) {
	b, ok := stat.BatchMeans(len(values), func(i int) float64 { return values[i] }, stat.Level)
	if !ok {
		in.NoMean = fmt.Sprintf("%d samples are too few for batch means; want %d", len(values), stat.FewestForBatches)
		return
	}
	in.Mean = estimate(b)
}

// tooShort says why batches of requests are no repeats of each other: all
// requests are in flight at once, or nearly (A4). It is "" where they are.
func (c *columns) tooShort(sent []*Record) string {
	n := len(sent)
	if n < stat.FewestForBatches {
		return fmt.Sprintf("%d requests are too few for batch means; want %d", n, stat.FewestForBatches)
	}
	mean := c.whole / float64(n)
	if span := (sent[n-1].Sent - sent[0].Sent).Seconds(); span/float64(stat.BatchCount(n)) < mean {
		return fmt.Sprintf("%d batches of requests were sent over %.3g s: less each than the mean latency of %.3g s", stat.BatchCount(n), span, mean)
	}
	return ""
}

// correlate fills Rho and EffectiveN from pairs of neighbours.
func (in *Independence) correlate(x, y []float64) {
	if rho, ok := stat.Spearman(x, y); ok {
		worth := stat.EffectiveN(in.N, rho)
		in.Rho, in.EffectiveN = &rho, &worth
	}
}

// strideOf is the distance between the pairs of n that a correlation looks at.
func strideOf(n int) int { return max(1, (n+mostPairs-1)/mostPairs) }

// successive returns values and their successors, thinned to [mostPairs].
func successive(values []float64) (x, y []float64) {
	stride := strideOf(len(values) - 1)
	x = make([]float64, 0, len(values)/stride+1)
	y = make([]float64, 0, cap(x))
	for i := 0; i+1 < len(values); i += stride {
		x, y = append(x, values[i]), append(y, values[i+1])
	}
	return x, y
}

// neighbours returns gaps and their successors in the same stream, thinned to
// [mostPairs].
func neighbours(sent []*Record) (x, y []float64) {
	pairs := 0
	for _, r := range sent {
		pairs += max(0, r.BearingCount()-2)
	}
	stride := strideOf(pairs)
	x = make([]float64, 0, pairs/stride+1)
	y = make([]float64, 0, cap(x))
	next := 0 // how many pairs to pass over
	var times []time.Duration
	for _, r := range sent {
		at := r.Arrivals
		if n := r.BearingCount(); n-2 <= next {
			next -= max(0, n-2)
			continue
		} else if n < len(at) {
			times = r.bearingTimes(times)
			at = times
		}
		for ; next+2 < len(at); next += stride {
			x = append(x, float64(at[next+1]-at[next]))
			y = append(y, float64(at[next+2]-at[next+1]))
		}
		next -= len(at) - 2
	}
	return x, y
}

// gaps is the Independence of the gaps between token-bearing events, which are
// too many for a slice of their own: what is needed of them is summed up.
func (c *columns) gaps(sent []*Record, d *Dist, why string) (in Independence) {
	if d == nil {
		return Independence{NoMean: cmp.Or(why, "there is no gap")}
	}
	in.N = d.N
	in.correlate(neighbours(sent))
	if in.NoMean = why; why != "" {
		return in
	}
	means := make([]float64, 0, len(c.batches))
	for _, b := range c.batches {
		if b.n == 0 {
			in.NoMean = fmt.Sprintf("one of %d batches of requests has no gap", len(c.batches))
			return in
		}
		means = append(means, float64(b.ns)/float64(b.n)/msInNS)
	}
	if b, ok := stat.OfBatches(means, d.Mean, stat.Level); ok {
		in.Mean = estimate(b)
		if in.EffectiveN != nil && b.Err > 0 {
			worth := max(1, min(*in.EffectiveN, d.Std*d.Std/(b.Err*b.Err)))
			in.EffectiveN = &worth
		}
	}
	return in
}

// Goodput is the share of requests within all bounds (M21), and their rate.
type Goodput struct {
	Good int `json:"good"`
	// N counts every request with an outcome: one that failed was not good. Only
	// those that the user gave up are left out.
	N        int      `json:"n"`
	Share    float64  `json:"share"`
	Interval Interval `json:"ci95"` // of the share, Wilson's
}

func goodput(s *Summary) *Goodput {
	n := s.Completed + s.Failed - s.Outcomes[Canceled]
	lo, hi, ok := stat.Wilson(s.Good, n, stat.Level)
	if !ok {
		return nil
	}
	return &Goodput{Good: s.Good, N: n, Share: float64(s.Good) / float64(n), Interval: Interval{lo, hi}}
}
