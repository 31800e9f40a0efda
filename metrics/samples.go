package metrics

import (
	"math"
	"math/big"
	"math/bits"
	"slices"
	"sort"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/servebench/servebench/metrics/stat"
)

// msInNS is how many nanoseconds a millisecond has.
const msInNS = 1_000_000

// samples are durations, none negative: 4-byte nanoseconds, longer ones beside,
// up to a limit; past it a histogram takes over. The zero value holds all.
type samples struct {
	limit  int // 0: none
	small  []uint32
	long   []int64 // over math.MaxUint32 ns
	hist   *hdrhistogram.Histogram
	lo, hi int64
	moments
}

// add takes in ns, k times. A negative value counts as zero: arrivals do not
// fall, the client sees to it and the record file's reader refuses others.
func (s *samples) add(ns int64, k int) {
	ns = max(ns, 0)
	k = min(k, math.MaxInt-s.n)
	if k <= 0 {
		return
	}
	if s.n == 0 {
		s.lo, s.hi = ns, ns
	}
	s.lo, s.hi = min(s.lo, ns), max(s.hi, ns)
	s.moments.add(ns, k)
	if s.hist == nil && s.limit > 0 && s.n > s.limit {
		s.spill()
	}
	if s.hist != nil {
		record(s.hist, ns, k)
		return
	}
	for range k {
		if ns > math.MaxUint32 {
			s.long = append(s.long, ns)
		} else {
			s.small = append(s.small, uint32(ns))
		}
	}
}

// spill hands what is held so far to a histogram.
func (s *samples) spill() {
	s.hist = newHist()
	for _, v := range s.small {
		record(s.hist, int64(v), 1)
	}
	for _, v := range s.long {
		record(s.hist, v, 1)
	}
	s.small, s.long = nil, nil
}

// dist is nil where there is no sample.
func (s *samples) dist(percent []float64) *Dist {
	if s.n == 0 {
		return nil
	}
	d := &Dist{
		N: s.n, Mean: s.mean(1), Std: s.std(), Min: float64(s.lo) / msInNS, Max: float64(s.hi) / msInNS,
		Source: "exact", percent: percent,
	}
	if s.hist != nil {
		d.Source = "hdr3"
		d.fill(func(p float64) float64 {
			return float64(min(max(s.hist.ValueAtQuantile(p), s.lo), s.hi)) / msInNS
		}, s.bucket)
		return d
	}
	small := ascending(s.small)
	slices.Sort(s.long)
	at := func(i int) float64 {
		if i < len(s.small) {
			return float64(small(i)) / msInNS
		}
		return float64(s.long[i-len(s.small)]) / msInNS
	}
	d.fill(func(p float64) float64 {
		v, _ := stat.Quantile(s.n, at, p/100)
		return v
	}, exactly(at))
	return d
}

// bucket is what the histogram knows of the order statistic i, from 1: the ends
// of its bucket in milliseconds, within the exact extremes.
func (s *samples) bucket(i int) (low, high float64) {
	top := s.hist.ValueAtQuantile(100 * float64(i) / float64(s.n))
	// Buckets are as wide as the last place of three digits in binary: 11 bits.
	width := int64(1) << max(0, bits.Len64(uint64(top))-11)
	within := func(v int64) float64 { return float64(min(max(v, s.lo), s.hi)) / msInNS }
	return within(top &^ (width - 1)), within(top)
}

// exactly makes ranks, from 1, of order statistics, from 0.
func exactly(at func(i int) float64) func(i int) (low, high float64) {
	return func(i int) (low, high float64) {
		v := at(i - 1)
		return v, v
	}
}

// ascending returns the order statistics of v. Many values are counted by their
// halves and not sorted: 4 Mi gaps take 20 ms, not 430 (BenchmarkOrderStatistics).
func ascending(v []uint32) (at func(i int) uint32) {
	const half = 1 << 16
	if len(v) < half {
		slices.Sort(v)
		return func(i int) uint32 { return v[i] }
	}
	high := make([]int, half) // cumulative
	for _, x := range v {
		high[x>>16]++
	}
	accumulate(high)
	lows := map[int][]int{}
	return func(i int) uint32 {
		h := sort.SearchInts(high, i+1)
		low := lows[h]
		if low == nil {
			low = make([]int, half)
			for _, x := range v {
				if int(x>>16) == h {
					low[x&(half-1)]++
				}
			}
			accumulate(low)
			lows[h] = low
		}
		if h > 0 {
			i -= high[h-1]
		}
		return uint32(h<<16 | sort.SearchInts(low, i+1))
	}
}

func accumulate(counts []int) {
	for i := 1; i < len(counts); i++ {
		counts[i] += counts[i-1]
	}
}

// moments are exact sums over durations that are not negative.
type moments struct {
	n       int
	sum, sq wide
}

// wide is a 128-bit count: 10 million gaps of an hour squared fit ten times.
type wide struct{ hi, lo uint64 }

func (w *wide) add(hi, lo uint64) {
	var carry uint64
	w.lo, carry = bits.Add64(w.lo, lo, 0)
	w.hi, _ = bits.Add64(w.hi, hi, carry)
}

func (w wide) int() *big.Int {
	i := new(big.Int).SetUint64(w.hi)
	return i.Lsh(i, 64).Add(i, new(big.Int).SetUint64(w.lo))
}

func (m *moments) add(ns int64, k int) {
	m.n += k
	x, c := uint64(ns), uint64(k)
	m.sum.add(bits.Mul64(x, c))
	hi, lo := bits.Mul64(x, x)
	top, low := bits.Mul64(lo, c)
	m.sq.add(hi*c+top, low)
}

// mean is the mean over `over` in milliseconds, rounded once: that is what
// makes mean(e2el) = mean(ttft) + (n-1) mean(tpot) hold to two last places, and
// the mean of equal samples equal to them.
func (m *moments) mean(over int64) float64 {
	den := new(big.Int).Mul(big.NewInt(int64(m.n)), big.NewInt(over))
	v, _ := new(big.Rat).SetFrac(m.sum.int(), den.Mul(den, big.NewInt(msInNS))).Float64()
	return v
}

// std is the population standard deviation in milliseconds.
func (m *moments) std() float64 {
	n, sum := big.NewInt(int64(m.n)), m.sum.int()
	v := n.Mul(n, m.sq.int())
	v.Sub(v, sum.Mul(sum, sum))
	if v.Sign() <= 0 {
		return 0
	}
	f, _ := new(big.Float).SetInt(v).Float64()
	return math.Sqrt(f) / float64(m.n) / msInNS
}

// ratios collects durations over counts: tpot.
type ratios struct {
	ms    []float64
	whole moments // of the numerators
	over  int64   // the common denominator; 0 none yet, -1 they differ
}

func (q *ratios) add(ns, over int64) {
	ns = max(ns, 0)
	q.ms = append(q.ms, perToken(ns, over))
	q.whole.add(ns, 1)
	if q.over == 0 {
		q.over = over
	} else if q.over != over {
		q.over = -1
	}
}

// perToken is ns/over in milliseconds, rounded once as [moments.mean] is.
func perToken(ns, over int64) float64 { return float64(ns) / (float64(over) * msInNS) }

func (q *ratios) dist(percent []float64) *Dist {
	n := len(q.ms)
	if n == 0 {
		return nil
	}
	slices.Sort(q.ms)
	at := func(i int) float64 { return q.ms[i] }
	d := &Dist{N: n, Min: q.ms[0], Max: q.ms[n-1], Source: "exact", percent: percent}
	if q.over > 0 {
		d.Mean = q.whole.mean(q.over)
	} else {
		d.Mean, _ = stat.Mean(n, at)
	}
	d.Std, _ = stat.StdDev(n, at, d.Mean)
	d.fill(func(p float64) float64 {
		v, _ := stat.Quantile(n, at, p/100)
		return v
	}, exactly(at))
	return d
}
