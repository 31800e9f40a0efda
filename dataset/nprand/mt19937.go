package nprand

import (
	"math"
	"math/bits"
	"sync"
)

// mt19937 is the Mersenne Twister of Matsumoto and Nishimura (2002 version),
// under both numpy's RandomState and CPython's random.
type mt19937 struct {
	state [624]uint32
	next  int // index of the next word to renew and hand out; 624 stands for 0
}

// seed is init_genrand.
func (m *mt19937) seed(s uint32) {
	m.state[0] = s
	for i := 1; i < len(m.state); i++ {
		prev := m.state[i-1]
		m.state[i] = 1812433253*(prev^prev>>30) + uint32(i)
	}
	m.next = len(m.state)
}

// arrayStart is the state from which init_by_array starts.
var arrayStart = sync.OnceValue(func() *mt19937 {
	m := new(mt19937)
	m.seed(19650218)
	return m
})

// seedArray is init_by_array; key must not be empty.
func (m *mt19937) seedArray(key []uint32) {
	const n = len(m.state)
	*m = *arrayStart()
	i, j := 1, 0
	prev := m.state[0]
	for range max(n, len(key)) {
		prev = (m.state[i] ^ (prev^prev>>30)*1664525) + key[j] + uint32(j)
		m.state[i] = prev
		if i++; i == n { // the last word comes to the front
			m.state[0], i = prev, 1
		}
		if j++; j == len(key) {
			j = 0
		}
	}
	for range n - 1 {
		prev = (m.state[i] ^ (prev^prev>>30)*1566083941) - uint32(i)
		m.state[i] = prev
		if i++; i == n {
			m.state[0], i = prev, 1
		}
	}
	m.state[0] = 1 << 31
}

// uint32 renews the word that it hands out, and no other: a generator that is
// seeded for a few numbers only, as a trace's are, does not pay for all.
func (m *mt19937) uint32() uint32 {
	const n = len(m.state)
	if m.next == n {
		m.next = 0
	}
	i, after, middle := m.next, m.next+1, m.next+397
	if after == n {
		after = 0
	}
	if middle >= n {
		middle -= n
	}
	m.next = i + 1
	y := m.state[i]&(1<<31) | m.state[after]&(1<<31-1)
	y = m.state[middle] ^ y>>1 ^ y&1*0x9908b0df
	m.state[i] = y
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// float64 is genrand_res53: 53 random bits of [0, 1).
func (m *mt19937) float64() float64 {
	a, b := m.uint32()>>5, m.uint32()>>6
	return float64(uint64(a)<<26|uint64(b)) / (1 << 53)
}

// Legacy is numpy.random.RandomState, the generator behind numpy.random.seed and
// the module's functions. The zero value is not usable; see [NewLegacy]. A copy
// goes on by itself from where the original is.
type Legacy struct {
	mt       mt19937
	gauss    float64 // the second normal of a pair, where hasGauss
	hasGauss bool
}

// NewLegacy returns numpy.random.RandomState(seed).
func NewLegacy(seed uint32) *Legacy {
	l := new(Legacy)
	l.mt.seed(seed)
	return l
}

// Random returns a float64 of [0, 1), as RandomState.random_sample().
func (l *Legacy) Random() float64 { return l.mt.float64() }

// Permutation returns 0..n-1 in the order of RandomState.permutation(n), whose
// beginning is also what RandomState.choice(n, size, replace=False) takes and,
// through it, pandas' DataFrame.sample. It panics where n < 0 or n > 2^32.
func (l *Legacy) Permutation(n int) []int {
	checkCount("Permutation", n)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	for i := n - 1; i > 0; i-- {
		j := l.masked(uint64(i))
		order[i], order[j] = order[j], order[i]
	}
	return order
}

// Choices returns k integers of [0, n), as RandomState.choice(n, k), which draws
// with replacement. It panics where n < 1 or n > 2^32.
func (l *Legacy) Choices(n, k int) []int {
	checkCount("Choices", n)
	out := make([]int, k)
	for i := range out {
		out[i] = int(l.masked(uint64(n - 1)))
	}
	return out
}

func checkCount(of string, n int) {
	if n < 0 || uint64(n) > 1<<32 || n == 0 && of == "Choices" {
		panic("nprand: " + of + ": n out of range")
	}
}

// Gamma returns a draw of the gamma distribution as RandomState.gamma(shape,
// scale), whose mean is shape*scale. It panics on an argument that is negative,
// infinite or NaN.
func (l *Legacy) Gamma(shape, scale float64) float64 {
	if !(shape >= 0 && scale >= 0 && shape <= math.MaxFloat64 && scale <= math.MaxFloat64) {
		panic("nprand: Gamma: argument not finite and >= 0")
	}
	return scale * l.standardGamma(shape)
}

// standardGamma is numpy's legacy_standard_gamma: an exponential for shape 1,
// Ahrens and Dieter's rejection below, Marsaglia and Tsang's above.
func (l *Legacy) standardGamma(shape float64) float64 {
	switch {
	case shape == 1:
		return l.exponential()
	case shape == 0:
		return 0
	case shape < 1:
		return l.gammaBelow1(shape)
	}
	return l.gammaAbove1(shape)
}

func (l *Legacy) gammaBelow1(shape float64) float64 {
	for {
		u, v := l.mt.float64(), l.exponential()
		if u <= 1-shape {
			if x := math.Pow(u, 1/shape); x <= v {
				return x
			}
			continue
		}
		y := -math.Log((1 - u) / shape)
		if x := math.Pow(1-shape+float64(shape*y), 1/shape); x <= v+y {
			return x
		}
	}
}

// The float64 conversions around products keep the compiler from fusing them
// with a sum, which would give other bits on arm64 than on amd64.
func (l *Legacy) gammaAbove1(shape float64) float64 {
	b := shape - 1./3.
	c := 1 / math.Sqrt(9*b)
	for {
		x := l.normal()
		v := 1 + float64(c*x)
		if v <= 0 {
			continue
		}
		v = v * v * v
		u := l.mt.float64()
		if u < 1-float64(0.0331*(x*x)*(x*x)) {
			return b * v
		}
		if math.Log(u) < float64(0.5*x*x)+float64(b*(1-v+math.Log(v))) {
			return b * v
		}
	}
}

func (l *Legacy) exponential() float64 { return -math.Log(1 - l.mt.float64()) }

// normal is legacy_gauss: Marsaglia's polar method, the first of a pair kept for
// the next call.
func (l *Legacy) normal() float64 {
	if l.hasGauss {
		l.hasGauss = false
		return l.gauss
	}
	for {
		x1 := float64(2*l.mt.float64()) - 1
		x2 := float64(2*l.mt.float64()) - 1
		r2 := float64(x1*x1) + float64(x2*x2)
		if r2 >= 1 || r2 == 0 {
			continue
		}
		f := math.Sqrt(-2 * math.Log(r2) / r2)
		l.gauss, l.hasGauss = f*x1, true
		return f * x2
	}
}

// Python is CPython's random.Random. The zero value is not usable; see
// [NewPython]. A copy goes on by itself from where the original is.
type Python struct{ mt mt19937 }

// NewPython returns random.Random(seed), that is random.seed(seed): a negative
// seed is its absolute value.
func NewPython(seed int64) *Python {
	abs := uint64(seed)
	if seed < 0 {
		abs = -abs
	}
	key := []uint32{uint32(abs)}
	if abs >= 1<<32 {
		key = append(key, uint32(abs>>32))
	}
	p := new(Python)
	p.mt.seedArray(key)
	return p
}

// Random returns a float64 of [0, 1), as random.random().
func (p *Python) Random() float64 { return p.mt.float64() }

// Choice returns the index that random.choice takes of a sequence of n elements.
// It panics where n < 1.
func (p *Python) Choice(n int) int {
	if n < 1 {
		panic("nprand: Choice: n < 1")
	}
	return int(p.below(uint64(n)))
}

// Shuffle permutes n elements as random.shuffle does; swap exchanges two of
// them.
func (p *Python) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, p.Choice(i+1))
	}
}

// below is _randbelow_with_getrandbits: as many bits as n has, again while they
// are n or more.
func (p *Python) below(n uint64) uint64 {
	k := bits.Len64(n)
	for {
		if r := p.bits(k); r < n {
			return r
		}
	}
}

// bits is getrandbits(k) for 1 <= k <= 64: whole words first, least significant
// first; the last one gives its upper bits.
func (p *Python) bits(k int) uint64 {
	if k <= 32 {
		return uint64(p.mt.uint32() >> (32 - k))
	}
	low := uint64(p.mt.uint32())
	return low | uint64(p.mt.uint32()>>(64-k))<<32
}
