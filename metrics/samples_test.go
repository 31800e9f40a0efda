package metrics

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// sample is spread over all that is measured: zeros, microseconds, minutes.
func sample(rng *rand.Rand) int64 {
	switch rng.IntN(20) {
	case 0:
		return 0
	case 1:
		return math.MaxUint32 + rng.Int64N(3) - 1
	default:
		return int64(math.Pow(10, 11*rng.Float64()))
	}
}

func fillSamples(s *samples, rng *rand.Rand, n int) (sorted []int64) {
	for range n {
		ns := sample(rng)
		s.add(ns, 1)
		sorted = append(sorted, ns)
	}
	slices.Sort(sorted)
	return sorted
}

// Short gaps before long ones, each in order: percentiles come out as if they
// were in one list. 70,000 are counted by halves, 1,000 are sorted.
func TestLongGapsKeepTheirPlace(t *testing.T) {
	for _, n := range []int{1, 2, 3, 1000, 70_000} {
		var s samples
		sorted := fillSamples(&s, rand.New(rand.NewPCG(1, uint64(n))), n)
		d := s.dist(newCertainties([]float64{0, 100}))
		if d.Source != "exact" || d.N != n || d.Min != float64(sorted[0])/1e6 || d.Max != float64(sorted[n-1])/1e6 {
			t.Fatalf("%d: %+v", n, d)
		}
		var ranks []int
		for i := 0; i < len(s.small); i += 1 + n/300 {
			ranks = append(ranks, i)
		}
		small := orderStatistics(s.small, uint32(s.lo), uint32(min(s.hi, math.MaxUint32)), ranks)
		for i, want := range sorted {
			got, ok := int64(0), true
			if i < len(s.small) {
				var v uint32
				v, ok = small[i]
				got = int64(v)
			} else {
				got = s.long[i-len(s.small)]
			}
			if ok && got != want {
				t.Fatalf("%d: number %d is %d, want %d", n, i, got, want)
			}
		}
	}
}

// The exact moments are those of arithmetic: 1, 2, ... n ns.
func TestMomentsAreExact(t *testing.T) {
	for _, n := range []int{1, 2, 3, 1000} {
		var m moments
		for i := range n {
			m.add(int64(i+1), 1)
		}
		f := float64(n)
		if got, want := m.mean(1), (f+1)/2/1e6; got != want {
			t.Errorf("mean of 1..%d: %v, want %v", n, got, want)
		}
		if got, want := m.std(), math.Sqrt((f*f-1)/12)/1e6; math.Abs(got-want) > 1e-15*want {
			t.Errorf("spread of 1..%d: %v, want %v", n, got, want)
		}
	}
	// Spread of a nanosecond on six hours: float64 milliseconds have no place for it.
	var m moments
	for i := range 1000 {
		m.add(6*3600*1e9+int64(i%2), 1)
	}
	if got := m.std(); got != 0.5e-6 {
		t.Errorf("%v, want half a nanosecond", got)
	}
	// k at once is k times one.
	var one, many moments
	for range 1000 {
		one.add(1<<45, 1)
	}
	many.add(1<<45, 1000)
	if one != many {
		t.Errorf("%+v and %+v", one, many)
	}
}

// Past the budget a histogram answers: to 0.1 % of the nearest rank, with exact
// mean, spread and ends.
func TestBudgetHandsOverToAHistogram(t *testing.T) {
	const n = 5000
	for _, limit := range []int{1, 100, n - 1, n} {
		s := samples{limit: limit}
		sorted := fillSamples(&s, rand.New(rand.NewPCG(2, 3)), n)
		var exact samples
		for _, ns := range sorted {
			exact.add(ns, 1)
		}
		percent := []float64{0, 1, 50, 90, 99, 99.9, 100}
		d, want := s.dist(newCertainties(percent)), exact.dist(newCertainties(percent))
		if limit == n {
			if d.Source != "exact" {
				t.Errorf("%d samples and a limit of %d: %s", n, limit, d.Source)
			}
			continue
		}
		if d.Source != "hdr3" || s.small != nil || s.long != nil {
			t.Fatalf("limit %d: %s, %d and %d held", limit, d.Source, len(s.small), len(s.long))
		}
		if d.N != want.N || d.Mean != want.Mean || d.Std != want.Std || d.Min != want.Min || d.Max != want.Max {
			t.Errorf("limit %d: %+v, want %+v", limit, d, want)
		}
		for _, p := range percent {
			rank := max(1, int(p/100*n+0.5)) // HdrHistogram's rule
			v, _ := d.Percentile(p)
			if exact := float64(sorted[rank-1]) / 1e6; math.Abs(v-exact) > exact/1000 {
				t.Errorf("limit %d: p%v is %v, the sample of rank %d is %v", limit, p, v, rank, exact)
			}
		}
	}
}

// The budget is 4 bytes a gap: nothing but the list grows.
func TestAGapTakesFourBytes(t *testing.T) {
	s := samples{limit: 1 << 20, small: make([]uint32, 0, 1<<20)}
	if n := testing.AllocsPerRun(1<<19-1, func() { s.add(12_345_678, 1) }); n != 0 {
		t.Errorf("%v allocations a gap", n)
	}
	if cap(s.small) != 1<<20 || s.long != nil || s.hist != nil {
		t.Errorf("%d, %d", cap(s.small), len(s.long))
	}
}

// A negative duration is a bug of somebody else; it does not become 4.29 s.
func TestNegativeCountsAsZero(t *testing.T) {
	var s samples
	s.add(-1, 1)
	s.add(math.MinInt64, 2)
	if d := s.dist(newCertainties([]float64{99})); d.N != 3 || d.Min != 0 || d.Max != 0 || d.Mean != 0 || d.Std != 0 {
		t.Errorf("%+v", d)
	}
}

// BenchmarkOrderStatistics is why order statistics are counted, not sorted.
func BenchmarkOrderStatistics(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	base := make([]uint32, 1<<22)
	for i := range base {
		base[i] = uint32(8e6 + rng.ExpFloat64()*4e6)
	}
	v := make([]uint32, len(base))
	b.Run("by=counting", func(b *testing.B) {
		for b.Loop() {
			copy(v, base)
			n := len(v) / 100
			orderStatistics(v, 0, math.MaxUint32, []int{50 * n, 90 * n, 95 * n, 99 * n})
		}
	})
	b.Run("by=sort", func(b *testing.B) {
		for b.Loop() {
			copy(v, base)
			slices.Sort(v)
		}
	})
}
