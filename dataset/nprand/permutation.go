package nprand

import "math/bits"

// Permutation returns the numbers 0 to n-1 as Generator.permutation(n) does;
// Generator.shuffle orders a list the same way.
func (g *Generator) Permutation(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	for i := n - 1; i > 0; i-- {
		j := g.interval(uint64(i))
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// interval returns an integer of [0, last] as numpy's random_interval: random
// bits of last's length, drawn again while they are too large.
func (g *Generator) interval(last uint64) uint64 {
	word := g.uint64
	if last <= 1<<32-1 {
		word = func() uint64 { return uint64(g.uint32()) }
	}
	mask := uint64(1)<<bits.Len64(last) - 1
	for {
		if v := word() & mask; v <= last {
			return v
		}
	}
}
