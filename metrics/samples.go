package metrics

import (
	"math"
	"math/big"
	"math/bits"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/servebench/servebench/metrics/internal/radix"
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
	hist   *hist
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
	if s.over() {
		s.hist.add(uint64(ns), int64(k))
		return
	}
	for range k {
		s.keep(ns)
	}
}

// over tells that a histogram holds the samples, and sees to it that it does
// where they have become too many.
func (s *samples) over() bool {
	if s.hist == nil && s.limit > 0 && s.n > s.limit {
		s.spill()
	}
	return s.hist != nil
}

func (s *samples) keep(ns int64) {
	if ns > math.MaxUint32 {
		s.long = append(s.long, ns)
	} else {
		s.small = append(s.small, uint32(ns))
	}
}

// addAll is add for each of many, and moves negative ones in ns to zero. The sums
// are carried in registers.
func (s *samples) addAll(ns []int64) {
	if len(ns) == 0 || len(ns) > math.MaxInt-s.n {
		return
	}
	lo, hi := uint64(math.MaxInt64), uint64(0)
	var sum, sq wide
	for i, v := range ns {
		x := uint64(v)
		if v < 0 {
			x, ns[i] = 0, 0
		}
		lo, hi = min(lo, x), max(hi, x)
		var carry uint64
		sum.lo, carry = bits.Add64(sum.lo, x, 0)
		sum.hi += carry
		top, low := bits.Mul64(x, x)
		sq.lo, carry = bits.Add64(sq.lo, low, 0)
		sq.hi += top + carry
	}
	if s.n == 0 {
		s.lo = math.MaxInt64
	}
	s.lo, s.hi = min(s.lo, int64(lo)), max(s.hi, int64(hi))
	s.n += len(ns)
	s.sum.add(sum.hi, sum.lo)
	s.sq.add(sq.hi, sq.lo)
	switch {
	case s.over():
		for _, v := range ns {
			s.hist.add(uint64(v), 1)
		}
	case hi <= math.MaxUint32:
		small := slices.Grow(s.small, len(ns))
		for _, v := range ns {
			small = append(small, uint32(v))
		}
		s.small = small
	default:
		for _, v := range ns {
			s.keep(v)
		}
	}
}

// spill hands what is held so far to a histogram.
func (s *samples) spill() {
	s.hist = newHist()
	for _, v := range s.small {
		s.hist.add(uint64(v), 1)
	}
	for _, v := range s.long {
		s.hist.add(uint64(v), 1)
	}
	s.small, s.long = nil, nil
}

// dist is nil where there is no sample.
func (s *samples) dist(c *certainties) *Dist {
	if s.n == 0 {
		return nil
	}
	d := &Dist{
		N: s.n, Mean: s.mean(1), Std: s.std(), Min: float64(s.lo) / msInNS, Max: float64(s.hi) / msInNS,
		Source: "exact", percent: c.percent,
	}
	if s.hist != nil {
		d.Source = "hdr3"
		h := s.hist.hdr()
		d.fill(c, func(p float64) float64 {
			return float64(min(max(h.ValueAtQuantile(p), s.lo), s.hi)) / msInNS
		}, func(i int) (low, high float64) { return s.bucket(h, i) })
		return d
	}
	// Which order statistics it takes is found by asking for them once in vain.
	var ranks []int
	blank := Dist{N: s.n, percent: c.percent}
	blank.fill(c, quantile(s.n, func(i int) float64 { ranks = append(ranks, i); return 0 }),
		func(i int) (low, high float64) { ranks = append(ranks, i-1); return 0, 0 })
	ranks = slices.DeleteFunc(ranks, func(i int) bool { return i >= len(s.small) })
	small := orderStatistics(s.small, uint32(min(s.lo, math.MaxUint32)), uint32(min(s.hi, math.MaxUint32)), ranks)
	slices.Sort(s.long)
	at := func(i int) float64 {
		if i < len(s.small) {
			return float64(small[i]) / msInNS
		}
		return float64(s.long[i-len(s.small)]) / msInNS
	}
	d.fill(c, quantile(s.n, at), exactly(at))
	return d
}

func quantile(n int, at func(i int) float64) func(p float64) float64 {
	return func(p float64) float64 {
		v, _ := stat.Quantile(n, at, p/100)
		return v
	}
}

// bucket is what the histogram knows of the order statistic i, from 1: the ends
// of its bucket in milliseconds, within the exact extremes.
func (s *samples) bucket(h *hdrhistogram.Histogram, i int) (low, high float64) {
	top := h.ValueAtQuantile(100 * float64(i) / float64(s.n))
	// Buckets are as wide as the last place of three digits in binary: 11 bits.
	width := int64(1) << max(0, bits.Len64(uint64(top))-histBits)
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

func (q *ratios) dist(c *certainties) *Dist {
	n := len(q.ms)
	if n == 0 {
		return nil
	}
	// The mean and the spread add up in this order.
	radix.Float64s(q.ms)
	at := func(i int) float64 { return q.ms[i] }
	d := &Dist{N: n, Min: q.ms[0], Max: q.ms[n-1], Source: "exact", percent: c.percent}
	if q.over > 0 {
		d.Mean = q.whole.mean(q.over)
	} else {
		d.Mean, _ = stat.Mean(n, at)
	}
	d.Std, _ = stat.StdDev(n, at, d.Mean)
	d.fill(c, quantile(n, at), exactly(at))
	return d
}
