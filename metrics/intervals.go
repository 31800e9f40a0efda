package metrics

import (
	"slices"

	"github.com/servebench/servebench/metrics/stat"
)

// Interval is a two-sided 95 % interval in the unit of its figure. It speaks of
// one run: what differs from run to run is not in it.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// certainty is how sure one percentile is; nil where samples are too few.
type certainty struct {
	interval *Interval
	tail     *float64
}

// certainties remembers the ranks of M16 and M17 for each number of samples:
// most metrics of a run have as many. It is not safe for concurrent use.
type certainties struct {
	percent []float64
	known   map[int][]rankSet
}

// rankSet holds the ranks of one percentile, from 1; 0: samples are too few.
type rankSet struct{ lo, hi, tail int }

func newCertainties(percent []float64) *certainties {
	return &certainties{percent: percent, known: map[int][]rankSet{}}
}

// ranks are those of each percentile with n samples.
func (c *certainties) ranks(n int) []rankSet {
	if sets, ok := c.known[n]; ok {
		return sets
	}
	sets := make([]rankSet, len(c.percent))
	for i, p := range c.percent {
		if lo, hi, ok := stat.QuantileRanks(n, p/100, stat.Level); ok {
			sets[i].lo, sets[i].hi = lo, hi
		}
		if r, ok := stat.TailRank(n, p/100, stat.TailConfidence); ok {
			sets[i].tail = r
		}
	}
	c.known[n] = sets
	return sets
}

// certain looks the ranks up. From a histogram an interval reaches to the far
// ends of its buckets (A5), and so does the tail estimate.
func (r rankSet) certain(rank func(i int) (low, high float64)) (c certainty) {
	if r.lo > 0 {
		low, _ := rank(r.lo)
		_, high := rank(r.hi)
		c.interval = &Interval{low, high}
	}
	if r.tail > 0 {
		_, v := rank(r.tail)
		c.tail = &v
	}
	return c
}

// Interval returns the distribution-free 95 % interval of the percentile at p
// percent in milliseconds (order statistics, M16). It is nil where there are too
// few samples, which [IntervalNeeds] tells, for the extremes 0 and 100, and as
// for [Dist.Percentile]. It takes samples to be independent: those of a run
// rarely are, see [Independence].
func (d *Dist) Interval(p float64) *Interval { return d.certainty(p).interval }

// Tail returns what the percentile at p percent is below with 99 % confidence,
// in milliseconds: MLPerf's early-stopping estimate (M17). ok is false where
// there are too few samples, which [TailNeeds] tells, and as for
// [Dist.Interval].
func (d *Dist) Tail(p float64) (ms float64, ok bool) {
	if t := d.certainty(p).tail; t != nil {
		return *t, true
	}
	return 0, false
}

func (d *Dist) certainty(p float64) certainty {
	if d != nil {
		if i := slices.Index(d.percent, p); i >= 0 && i < len(d.sure) {
			return d.sure[i]
		}
	}
	return certainty{}
}

// IntervalNeeds returns how many samples the interval of the percentile at p
// percent takes: 6, 36, 72 and 368 for 50, 90, 95 and 99. 0: there is none.
func IntervalNeeds(p float64) int { return stat.QuantileNeeds(p/100, stat.Level) }

// TailNeeds returns how many samples the tail estimate at p percent takes: 11,
// 64, 130 and 662 for 50, 90, 95 and 99. 0: there is none.
func TailNeeds(p float64) int { return stat.TailNeeds(p/100, stat.TailConfidence) }
