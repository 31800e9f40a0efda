// Package nprand is the randomness of vLLM's client, bit for bit: numpy's
// PCG64 Generator, numpy's legacy RandomState and CPython's random module, each
// as far as `vllm bench serve` uses it.
//
// The integers and the uniform doubles equal those of the originals exactly, on
// every machine. What goes through a logarithm or a power ([Legacy.Gamma]) may
// differ from numpy in the last bits, as C libraries themselves differ; the
// tests hold it to 1e-12 relative.
//
// No generator here is safe for concurrent use.
package nprand

import "math/bits"

// Generator is numpy.random.Generator over PCG64, what numpy.random.default_rng
// returns. The zero value is not usable; see [NewGenerator]. A copy goes on by
// itself from where the original is.
type Generator struct {
	hi, lo       uint64 // the 128-bit state
	incHi, incLo uint64
	// A 64-bit word serves two 32-bit draws, its low half first. The high half
	// waits here across calls, also across those that draw 64 bits.
	half    uint32
	hasHalf bool
}

// NewGenerator returns numpy.random.default_rng(seed).
func NewGenerator(seed uint64) *Generator {
	s := seedSequence(seed)
	// pcg_setseq_128_srandom: the stream s[2:4] becomes the odd increment, the
	// state is stepped, added to and stepped again.
	g := &Generator{incHi: s[2]<<1 | s[3]>>63, incLo: s[3]<<1 | 1}
	g.step()
	var carry uint64
	g.lo, carry = bits.Add64(g.lo, s[1], 0)
	g.hi, _ = bits.Add64(g.hi, s[0], carry)
	g.step()
	return g
}

// Integers returns n integers of [low, high), as
// Generator.integers(low, high, n) with numpy's default type int64. A range of
// one value consumes nothing. It panics where low >= high or n < 0.
func (g *Generator) Integers(low, high int64, n int) []int64 {
	if low >= high {
		panic("nprand: Integers: low >= high")
	}
	out := make([]int64, n)
	last := uint64(high) - uint64(low) - 1 // numpy's rng: the largest value above low
	for i := range out {
		out[i] = int64(uint64(low) + g.bounded(last))
	}
	return out
}

// Random returns a float64 of [0, 1), as Generator.random().
func (g *Generator) Random() float64 { return float64(g.uint64()>>11) / (1 << 53) }

// bounded returns an integer of [0, last] by Lemire's method, with 32-bit words
// where they suffice.
func (g *Generator) bounded(last uint64) uint64 {
	switch {
	case last == 0:
		return 0
	case last < 1<<32-1:
		return uint64(g.lemire32(uint32(last) + 1))
	case last == 1<<32-1:
		return uint64(g.uint32())
	case last == 1<<64-1:
		return g.uint64()
	}
	return g.lemire64(last + 1)
}

func (g *Generator) lemire32(n uint32) uint32 {
	m := uint64(g.uint32()) * uint64(n)
	if uint32(m) < n {
		for reject := -n % n; uint32(m) < reject; { // -n % n = 2^32 mod n
			m = uint64(g.uint32()) * uint64(n)
		}
	}
	return uint32(m >> 32)
}

func (g *Generator) lemire64(n uint64) uint64 {
	hi, lo := bits.Mul64(g.uint64(), n)
	if lo < n {
		for reject := -n % n; lo < reject; {
			hi, lo = bits.Mul64(g.uint64(), n)
		}
	}
	return hi
}

func (g *Generator) uint32() uint32 {
	if g.hasHalf {
		g.hasHalf = false
		return g.half
	}
	w := g.uint64()
	g.half, g.hasHalf = uint32(w>>32), true
	return uint32(w)
}

// uint64 is PCG's XSL-RR output of the state after the step.
func (g *Generator) uint64() uint64 {
	g.step()
	return bits.RotateLeft64(g.hi^g.lo, -int(g.hi>>58))
}

// PCG's default 128-bit multiplier.
const pcgHi, pcgLo = 2549297995355413924, 4865540595714422341

// step multiplies the state by the multiplier and adds the increment.
func (g *Generator) step() {
	hi, lo := bits.Mul64(g.lo, pcgLo)
	hi += g.hi*pcgLo + g.lo*pcgHi
	var carry uint64
	g.lo, carry = bits.Add64(lo, g.incLo, 0)
	g.hi, _ = bits.Add64(hi, g.incHi, carry)
}

// seedSequence is numpy's SeedSequence(seed).generate_state(4, uint64): O'Neill's
// seed_seq with a pool of four 32-bit words.
func seedSequence(seed uint64) (state [4]uint64) {
	const (
		multA, multB = 0x931e8875, 0x58f38ded
		mixL, mixR   = 0xca01f9dd, 0x4973f715
	)
	hash := uint32(0x43b0d7e5)
	hashed := func(v uint32) uint32 {
		v ^= hash
		hash *= multA
		v *= hash
		return v ^ v>>16
	}
	// The seed's words, least significant first, fill the pool; absent ones are 0.
	pool := [4]uint32{uint32(seed), uint32(seed >> 32)}
	for i := range pool {
		pool[i] = hashed(pool[i])
	}
	for src := range pool {
		for dst := range pool {
			if src != dst {
				v := mixL*pool[dst] - mixR*hashed(pool[src])
				pool[dst] = v ^ v>>16
			}
		}
	}
	hash = 0x8b51f9dd
	for i := range 8 {
		v := pool[i%4] ^ hash
		hash *= multB
		v *= hash
		v ^= v >> 16
		state[i/2] |= uint64(v) << (32 * (i % 2))
	}
	return state
}
