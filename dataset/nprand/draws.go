package nprand

import (
	"math"
	"math/bits"
)

// Bytes fills dst as Generator.integers(0, 256, len(dst), dtype=uint8) does:
// four bytes of each 32-bit word, the lowest first; what the last word has left
// is thrown away.
func (g *Generator) Bytes(dst []byte) {
	for len(dst) >= 4 {
		w := g.uint32()
		dst[0], dst[1], dst[2], dst[3] = byte(w), byte(w>>8), byte(w>>16), byte(w>>24)
		dst = dst[4:]
	}
	if len(dst) > 0 {
		w := g.uint32()
		for i := range dst {
			dst[i] = byte(w >> (8 * i))
		}
	}
}

// SkipBytes leaves the generator as Bytes of n bytes does, in time logarithmic
// in n. A copy of the generator from before it draws the bytes elsewhere.
func (g *Generator) SkipBytes(n int) {
	words := (uint64(n) + 3) / 4
	if words > 0 && g.hasHalf {
		g.hasHalf = false
		words--
	}
	g.advance(words / 2)
	if words%2 == 1 {
		g.uint32()
	}
}

// Choice returns the index that Generator.choice(len(p), p=p) takes. It panics
// where p has a negative value or no positive one; p need not sum to one.
func (g *Generator) Choice(p []float64) int {
	cdf := make([]float64, len(p))
	sum := 0.
	for i, v := range p {
		if !(v >= 0) {
			panic("nprand: Choice: negative probability")
		}
		sum += v
		cdf[i] = sum
	}
	if !(sum > 0) {
		panic("nprand: Choice: no positive probability")
	}
	u := g.Random()
	for i := range cdf {
		if u < cdf[i]/sum {
			return i
		}
	}
	return len(p) - 1 // not reached: the last quotient is 1
}

// advance steps n times: a step is an affine map, whose power takes log n
// squarings (Brown, "Random number generation with arbitrary strides").
func (g *Generator) advance(n uint64) {
	mul, add := u128{pcgHi, pcgLo}, u128{g.incHi, g.incLo}
	allMul, allAdd := u128{0, 1}, u128{}
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			allMul = allMul.times(mul)
			allAdd = allAdd.times(mul).plus(add)
		}
		add = mul.plus(u128{0, 1}).times(add)
		mul = mul.times(mul)
	}
	s := allMul.times(u128{g.hi, g.lo}).plus(allAdd)
	g.hi, g.lo = s.hi, s.lo
}

// u128 is an integer modulo 2^128.
type u128 struct{ hi, lo uint64 }

func (a u128) times(b u128) u128 {
	hi, lo := bits.Mul64(a.lo, b.lo)
	return u128{hi + a.hi*b.lo + a.lo*b.hi, lo}
}

func (a u128) plus(b u128) u128 {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(a.hi, b.hi, carry)
	return u128{hi, lo}
}

// Integers returns n integers of [low, high), as RandomState.randint(low, high,
// n) with numpy's default type int64: words of as many bits as the range has,
// again while they are beyond it. A range of one value consumes nothing. It
// panics where low >= high or n < 0.
func (l *Legacy) Integers(low, high int64, n int) []int64 {
	if low >= high {
		panic("nprand: Integers: low >= high")
	}
	out := make([]int64, n)
	last := uint64(high) - uint64(low) - 1
	for i := range out {
		out[i] = int64(uint64(low) + l.masked(last))
	}
	return out
}

// masked returns an integer of [0, last].
func (l *Legacy) masked(last uint64) uint64 {
	if last == 0 {
		return 0
	}
	mask := uint64(1)<<bits.Len64(last) - 1
	for {
		v := uint64(l.mt.uint32())
		if last > math.MaxUint32 {
			v = v<<32 | uint64(l.mt.uint32())
		}
		if v &= mask; v <= last {
			return v
		}
	}
}

// Choices returns the indices that random.choices(population, k=k) takes of a
// population of n; no k below one takes any, as there. It panics where n < 1.
func (p *Python) Choices(n, k int) []int {
	if n < 1 {
		panic("nprand: Choices: n < 1")
	}
	out := make([]int, max(0, k))
	for i := range out {
		out[i] = int(p.mt.float64() * float64(n))
	}
	return out
}
