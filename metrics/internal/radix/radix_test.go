package radix_test

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/servebench/servebench/metrics/internal/radix"
)

// sets are lengths on both sides of where comparing ends, in a few shapes.
func sets(yield func(name string, draw func() uint64, n int)) {
	rng := rand.New(rand.NewPCG(11, 11))
	up := uint64(0)
	for _, n := range []int{0, 1, 2, 255, 256, 257, 3000} {
		yield("any", rng.Uint64, n)
		yield("small", func() uint64 { return rng.Uint64N(1000) }, n)
		yield("ties", func() uint64 { return rng.Uint64N(3) << 40 }, n)
		yield("equal", func() uint64 { return 7 }, n)
		yield("sorted", func() uint64 { up++; return up }, n)
		yield("ends", func() uint64 { return []uint64{0, math.MaxUint64, 1 << 63, 1<<63 - 1}[rng.IntN(4)] }, n)
	}
}

// Every sort gives what comparing gives.
func TestSorts(t *testing.T) {
	sets(func(name string, draw func() uint64, n int) {
		v := make([]uint64, n)
		short, signed, floats := make([]uint32, n), make([]int64, n), make([]float64, n)
		items := make([]radix.Item, n)
		for i := range v {
			v[i] = draw()
			short[i], signed[i], floats[i] = uint32(v[i]), int64(v[i]), math.Float64frombits(v[i])
			if math.IsNaN(floats[i]) {
				floats[i] = float64(v[i])
			}
			items[i] = radix.Item{Key: v[i], I: int32(i)}
		}
		wantV, wantShort, wantSigned, wantFloats := slices.Clone(v), slices.Clone(short), slices.Clone(signed), slices.Clone(floats)
		wantItems := slices.Clone(items)
		slices.Sort(wantV)
		slices.Sort(wantShort)
		slices.Sort(wantSigned)
		slices.Sort(wantFloats)
		slices.SortStableFunc(wantItems, func(a, b radix.Item) int { return cmp.Compare(a.Key, b.Key) })
		radix.Sort(v)
		radix.Sort(short)
		radix.Int64s(signed)
		radix.Float64s(floats)
		radix.Items(items)
		if !slices.Equal(v, wantV) || !slices.Equal(short, wantShort) || !slices.Equal(signed, wantSigned) ||
			!slices.Equal(floats, wantFloats) || !slices.Equal(items, wantItems) {
			t.Errorf("%d numbers, %s: not sorted", n, name)
		}
	})
}

// Floats of both signs and the infinities stand in order.
func TestKeysOrderFloats(t *testing.T) {
	v := []float64{math.Inf(-1), -math.MaxFloat64, -1, -math.SmallestNonzeroFloat64, math.Copysign(0, -1), 0, math.SmallestNonzeroFloat64, 1, math.Inf(1)}
	for i := 1; i < len(v); i++ {
		if radix.Key(v[i-1]) >= radix.Key(v[i]) {
			t.Errorf("%v does not come before %v", v[i-1], v[i])
		}
	}
	many := slices.Repeat(v, 100)
	slices.Reverse(many)
	radix.Float64s(many)
	if !slices.IsSorted(many) {
		t.Error("floats of both signs are not sorted")
	}
}

func BenchmarkSort(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	base := make([]uint64, 1<<20)
	for i := range base {
		base[i] = rng.Uint64N(1 << 42) // an hour of nanoseconds
	}
	v := make([]uint64, len(base))
	b.Run("by=digits", func(b *testing.B) {
		for b.Loop() {
			copy(v, base)
			radix.Sort(v)
		}
	})
	b.Run("by=comparing", func(b *testing.B) {
		for b.Loop() {
			copy(v, base)
			slices.Sort(v)
		}
	})
}
