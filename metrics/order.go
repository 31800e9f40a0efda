package metrics

import (
	"math/bits"
	"slices"

	"github.com/servebench/servebench/metrics/internal/radix"
)

// Order statistics of many values are found by counting: once through the
// values into as many buckets as cells, and once more into those in which a
// wanted one lies. Nothing is sorted or moved.
const (
	cellBits = 16
	cells    = 1 << cellBits
	// atOnce is how many buckets are looked into at once: 512 KB each at most.
	atOnce = 16
)

// orderStatistics returns those of the ranks that are asked for, from 0, all
// below len(v); v's values are within lo and hi. It is linear, and may sort v.
func orderStatistics(v []uint32, lo, hi uint32, ranks []int) map[int]uint32 {
	ranks = slices.Clone(ranks)
	slices.Sort(ranks)
	ranks = slices.Compact(ranks)
	found := make(map[int]uint32, len(ranks))
	if len(v) < cells {
		radix.Sort(v)
		for _, r := range ranks {
			found[r] = v[r]
		}
		return found
	}
	shift := max(0, bits.Len32(hi-lo)-cellBits)
	counts := new([cells]int)
	for _, x := range v {
		counts[uint16((x-lo)>>shift)]++
	}
	var in []cell
	passed, c := 0, 0
	for _, r := range ranks {
		for passed+counts[c] <= r {
			passed += counts[c]
			c++
		}
		if len(in) == 0 || in[len(in)-1].i != c {
			in = append(in, cell{i: c, passed: passed})
		}
		last := &in[len(in)-1]
		last.ranks = append(last.ranks, r)
	}
	for some := range slices.Chunk(in, atOnce) {
		within(v, lo, shift, some, found)
	}
	return found
}

// cell is a bucket with the wanted ranks in it.
type cell struct {
	i, passed int // passed: values before it
	ranks     []int
}

// within looks into some buckets, each 1<<shift wide.
func within(v []uint32, lo uint32, shift int, some []cell, found map[int]uint32) {
	if shift == 0 {
		for _, c := range some {
			for _, r := range c.ranks {
				found[r] = lo + uint32(c.i)
			}
		}
		return
	}
	var slot [cells]uint8 // of the bucket, from 1
	for j, c := range some {
		slot[c.i] = uint8(j + 1)
	}
	counts := make([]int, len(some)<<shift)
	mask := uint32(1)<<shift - 1
	for _, x := range v {
		x -= lo
		if s := slot[uint16(x>>shift)]; s != 0 {
			counts[int(s-1)<<shift|int(x&mask)]++
		}
	}
	for j, c := range some {
		passed, low := c.passed, 0
		for _, r := range c.ranks {
			for passed+counts[j<<shift|low] <= r {
				passed += counts[j<<shift|low]
				low++
			}
			found[r] = lo + uint32(c.i)<<shift + uint32(low)
		}
	}
}
