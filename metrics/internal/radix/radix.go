// Package radix sorts numbers by their digits: linear, and several times faster
// than comparing where there are many. Functions keep nothing, and may be called
// concurrently on different slices.
package radix

import (
	"cmp"
	"math"
	"slices"
)

const (
	digit = 11 // bits
	size  = 1 << digit
	// few numbers are sorted faster by comparing.
	few = 256
)

// Sort sorts v. It takes room for as many again.
func Sort[T ~uint32 | ~uint64](v []T) {
	if len(v) < few || slices.IsSorted(v) {
		slices.Sort(v)
		return
	}
	var all T
	for _, x := range v {
		all |= x ^ v[0] // the bits in which any two differ
	}
	from, to := v, make([]T, len(v))
	for shift := 0; all>>shift != 0; shift += digit {
		if all>>shift&(size-1) == 0 {
			continue
		}
		var at [size]int
		for _, x := range from {
			at[x>>shift&(size-1)]++
		}
		starts(&at)
		for _, x := range from {
			d := x >> shift & (size - 1)
			to[at[d]] = x
			at[d]++
		}
		from, to = to, from
	}
	if &from[0] != &v[0] {
		copy(v, from)
	}
}

// Int64s sorts v.
func Int64s[T ~int64](v []T) {
	if len(v) < few || slices.IsSorted(v) {
		slices.Sort(v)
		return
	}
	keys := make([]uint64, len(v))
	for i, x := range v {
		keys[i] = uint64(x) ^ 1<<63
	}
	Sort(keys)
	for i, k := range keys {
		v[i] = T(k ^ 1<<63)
	}
}

// Float64s sorts v, which holds no NaN; -0 comes before 0.
func Float64s(v []float64) {
	if len(v) < few || slices.IsSorted(v) {
		slices.Sort(v)
		return
	}
	keys := make([]uint64, len(v))
	for i, x := range v {
		keys[i] = Key(x)
	}
	Sort(keys)
	for i, k := range keys {
		// Key is its own inverse but for which sign says to flip all bits.
		if k>>63 == 0 {
			v[i] = math.Float64frombits(^k)
		} else {
			v[i] = math.Float64frombits(k ^ 1<<63)
		}
	}
}

// Key is a number in the order of floats without NaN.
func Key(x float64) uint64 {
	b := math.Float64bits(x)
	if b>>63 != 0 {
		return ^b
	}
	return b ^ 1<<63
}

// Item is a key and what goes with it.
type Item struct {
	Key uint64
	I   int32
}

// Items sorts v by key; of equal keys, what came first stays first.
func Items(v []Item) {
	var all uint64
	sorted := true
	for i := range v {
		all |= v[i].Key ^ v[0].Key
		sorted = sorted && (i == 0 || v[i-1].Key <= v[i].Key)
	}
	if sorted {
		return
	}
	if len(v) < few {
		slices.SortStableFunc(v, func(a, b Item) int { return cmp.Compare(a.Key, b.Key) })
		return
	}
	from, to := v, make([]Item, len(v))
	for shift := 0; shift < 64 && all>>shift != 0; shift += digit {
		if all>>shift&(size-1) == 0 {
			continue
		}
		var at [size]int
		for i := range from {
			at[from[i].Key>>shift&(size-1)]++
		}
		starts(&at)
		for _, x := range from {
			d := x.Key >> shift & (size - 1)
			to[at[d]] = x
			at[d]++
		}
		from, to = to, from
	}
	if &from[0] != &v[0] {
		copy(v, from)
	}
}

// starts turns counts into the places at which their numbers begin.
func starts(at *[size]int) {
	sum := 0
	for d, n := range at {
		at[d], sum = sum, sum+n
	}
}
