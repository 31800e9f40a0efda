package stat

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"

	"github.com/servebench/servebench/metrics/internal/radix"
)

// KS is the outcome of a Kolmogorov-Smirnov test.
type KS struct {
	D float64 // the largest distance between the two distribution functions
	// P is the probability of so large a distance where the hypothesis holds. It
	// ends at 0.001 and 0.99 where a table answers.
	P float64
	// Bound tells that P is an upper bound.
	Bound bool
}

// FewestGaps is how many gaps [GammaGaps] takes.
const FewestGaps = 20

// GammaGaps tests whether gaps between arrivals are drawn from a gamma
// distribution of the given shape: 1 is the Poisson process. Their mean is
// estimated, so that the test is of the process's form and not of its rate (M9
// with u = F(gap/mean)). For shape 1 the estimate is accounted for (Lilliefors's
// test, by Stephens's statistic); for others P is Kolmogorov's, an upper bound.
// Gaps are only read; it is linear.
//
// ok is false below [FewestGaps] gaps, for a gap that is negative or not finite,
// for gaps that are all 0, and for a shape that is not positive and finite.
func GammaGaps(gaps []float64, shape float64) (k KS, ok bool) {
	n := len(gaps)
	mean, _ := Mean(n, func(i int) float64 { return gaps[i] })
	if n < FewestGaps || !(mean > 0) || math.IsInf(mean, 1) || !(shape > 0) || math.IsInf(shape, 1) {
		return k, false
	}
	u := make([]float64, n)
	for i, g := range gaps {
		if !(g >= 0) {
			return KS{}, false
		}
		if shape == 1 {
			u[i] = -math.Expm1(-g / mean)
		} else {
			u[i] = mathext.GammaIncReg(shape, float64(shape*g)/mean)
		}
	}
	radix.Float64s(u)
	for i, v := range u {
		k.D = max(k.D, float64(i+1)/float64(n)-v, v-float64(i)/float64(n))
	}
	if shape == 1 {
		k.P = exponentialP(k.D, n)
	} else {
		k.P, k.Bound = kolmogorovP(k.D, n), true
	}
	return k, true
}

// exponentialNull are upper quantiles of Stephens's D* with the mean estimated:
// testdata/gaps.py at n = 1000.
var exponentialNull = []struct{ star, p float64 }{
	{0.3976, 0.99}, {0.4623, 0.95}, {0.5039, 0.9}, {0.5861, 0.75}, {0.6993, 0.5}, {0.8413, 0.25}, {0.9285, 0.15},
	{0.9915, 0.1}, {1.0908, 0.05}, {1.1812, 0.025}, {1.2893, 0.01}, {1.366, 0.005}, {1.5265, 0.001},
}

// exponentialP looks D up, straight lines through log p between the quantiles.
func exponentialP(d float64, n int) float64 {
	root := math.Sqrt(float64(n))
	star := (d - 0.2/float64(n)) * (root + 0.26 + 0.5/root)
	i, _ := slices.BinarySearchFunc(exponentialNull, star, func(q struct{ star, p float64 }, star float64) int {
		if q.star < star {
			return -1
		}
		return 1
	})
	switch i {
	case 0:
		return exponentialNull[0].p
	case len(exponentialNull):
		return exponentialNull[i-1].p
	}
	a, b := exponentialNull[i-1], exponentialNull[i]
	t := (star - a.star) / (b.star - a.star)
	return math.Exp(float64((1-t)*math.Log(a.p)) + float64(t*math.Log(b.p)))
}

// kolmogorovP is the probability of a larger distance from a distribution that
// was known beforehand (Kolmogorov's limit with Stephens's correction for n).
func kolmogorovP(d float64, n int) float64 {
	root := math.Sqrt(float64(n))
	x := d * (root + 0.12 + 0.11/root)
	if x < 0.3 { // there the series hardly converges, and p is 1 within 1e-5
		return 1
	}
	var p float64
	for j, sign := 1.0, 1.0; j <= 100; j, sign = j+1, -sign {
		term := math.Exp(-2 * j * j * x * x)
		p += sign * term
		if term < 1e-16 {
			break
		}
	}
	return min(max(2*p, 0), 1)
}
