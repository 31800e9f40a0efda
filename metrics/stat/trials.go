package stat

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// The functions of this file compare repeats: a value of each is the figure of a
// whole run.

// StudentT returns the p-quantile of Student's t distribution with df degrees of
// freedom: 1.8946 for p = 0.95 and df = 7. It is NaN for a p that is not within
// (0, 1) and for df below 1.
func StudentT(p, df float64) float64 {
	if !inside(p) || !(df >= 1) {
		return math.NaN()
	}
	if p < 0.5 {
		return -StudentT(1-p, df)
	}
	return student(df, 2*p-1)
}

// Sample returns the mean of repeats and their standard deviation between runs, with
// n-1. The latter is 0 below two values, and so are both for none.
func Sample(v []float64) (mean, sd float64) {
	n := len(v)
	at := func(i int) float64 { return v[i] }
	mean, _ = Mean(n, at)
	if n < 2 {
		return mean, 0
	}
	sd, _ = StdDev(n, at, mean)
	return mean, sd * math.Sqrt(float64(n)/float64(n-1))
}

// MostFlipped is the most values that [SignFlip] takes: it looks at each of 2^n
// patterns of signs.
const MostFlipped = 20

// SignFlip returns the exact one-sided p of the hypothesis that the values are
// symmetric about 0, against a mean below it (A6): the share of all patterns of
// signs whose mean is not above the one observed, equal ones among them. Five
// values, all below 0, have 1/32.
//
// ok is false for no value, for more than [MostFlipped], and for values that are
// not finite.
func SignFlip(d []float64) (p float64, ok bool) {
	n := len(d)
	if n == 0 || n > MostFlipped || !allFinite(d) {
		return 0, false
	}
	var sum, size float64
	for _, v := range d {
		sum += v
		size += math.Abs(v)
	}
	// A sum is flipped value by value in the order of a Gray code; what rounding
	// moves is no difference.
	limit := sum + 1e-12*size
	count, s := 0, sum
	signs := make([]float64, n)
	for i := range signs {
		signs[i] = 1
	}
	for k := 1; ; k++ {
		if s <= limit {
			count++
		}
		if k == 1<<n {
			return float64(count) / float64(int(1)<<n), true
		}
		i := trailing(k)
		signs[i] = -signs[i]
		s += 2 * signs[i] * d[i]
	}
}

// trailing is the number of zero bits below the lowest one of k.
func trailing(k int) (n int) {
	for ; k&1 == 0; k >>= 1 {
		n++
	}
	return n
}

// HodgesLehmann returns the median of the Walsh averages (d_i+d_j)/2, i <= j: an
// estimate of the centre that one outlier cannot move far (A7). low and high are
// the ends of its interval from the order statistics of those averages, with at
// least the probability level by the exact distribution of Wilcoxon's signed-rank
// statistic, two-sided; they are infinite where n is too small for one.
//
// ok is false for no value, for values that are not finite and for a level that is
// not within (0, 1).
func HodgesLehmann(d []float64, level float64) (centre, low, high float64, ok bool) {
	n := len(d)
	if n == 0 || !allFinite(d) || !inside(level) {
		return 0, 0, 0, false
	}
	walsh := make([]float64, 0, n*(n+1)/2)
	for i := range d {
		for _, v := range d[i:] {
			walsh = append(walsh, d[i]/2+v/2)
		}
	}
	slices.Sort(walsh)
	m := len(walsh)
	centre = walsh[(m-1)/2]/2 + walsh[m/2]/2
	k := signedRank(n, (1-level)/2)
	if k == 0 {
		return centre, math.Inf(-1), math.Inf(1), true
	}
	return centre, walsh[k-1], walsh[m-k], true
}

// signedRank is the largest k with P(W < k) <= tail, where W is Wilcoxon's
// signed-rank statistic of n values without ties: the k-th Walsh average from
// either end is then a bound of the confidence 1-tail. 0: there is none.
func signedRank(n int, tail float64) int {
	most := n * (n + 1) / 2
	ways := make([]float64, most+1) // subsets of 1..n by their sum, over 2^n
	ways[0] = 1
	for r := 1; r <= n; r++ {
		for s := most; s >= 0; s-- {
			ways[s] /= 2
			if s >= r {
				ways[s] += ways[s-r] / 2
			}
		}
	}
	sum, k := 0.0, 0
	for k <= most {
		if sum += ways[k]; sum > tail {
			break
		}
		k++
	}
	return k
}

// MannWhitney returns the U statistic of x over y, the number of pairs in which x is
// the larger, ties as a half, and the exact one-sided p of so small a U where both
// are of one distribution, whatever it is. Ties are accounted for exactly: the
// distribution is that over all ways to divide the observed values.
//
// ok is false where one of the two is empty or longer than 50, and for values that
// are not finite.
func MannWhitney(x, y []float64) (u, p float64, ok bool) {
	const most = 50
	n, m := len(x), len(y)
	if n == 0 || m == 0 || n > most || m > most || !allFinite(x) || !allFinite(y) {
		return 0, 0, false
	}
	doubled := doubledRanks(slices.Concat(x, y))
	sum := 0
	for _, r := range doubled[:n] {
		sum += r
	}
	// ways[j][s]: choices of j of the values whose doubled ranks sum to s.
	top := n * 2 * (n + m)
	ways := make([][]float64, n+1)
	for j := range ways {
		ways[j] = make([]float64, top+1)
	}
	ways[0][0] = 1
	for _, r := range doubled {
		for j := n; j > 0; j-- {
			for s := top; s >= r; s-- {
				ways[j][s] += ways[j-1][s-r]
			}
		}
	}
	below, all := 0.0, 0.0
	for s, w := range ways[n] {
		all += w
		if s <= sum {
			below += w
		}
	}
	return float64(sum-n*(n+1)) / 2, below / all, true
}

// doubledRanks are twice the mean ranks, from 1, which are whole numbers.
func doubledRanks(v []float64) []int {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case v[a] < v[b]:
			return -1
		case v[a] > v[b]:
			return 1
		}
		return 0
	})
	out := make([]int, len(v))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && v[order[j]] == v[order[i]] {
			j++
		}
		for _, at := range order[i:j] {
			out[at] = i + 1 + j
		}
		i = j
	}
	return out
}

// Holm returns the p values adjusted for their number, so that each can be compared
// with the level of a single test (Holm 1979). They stay in their order; NaN, which
// is no test, stays NaN and does not count.
func Holm(p []float64) []float64 {
	order := make([]int, 0, len(p))
	out := make([]float64, len(p))
	for i, v := range p {
		out[i] = v
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	least := 0.0
	for k, i := range order {
		least = max(least, min(1, p[i]*float64(len(order)-k)))
		out[i] = least
	}
	return out
}

// Bootstrap returns the two-sided percentile interval of the mean over resamples
// draws with a fixed seed: the same values have the same interval. It is for
// repeats of whole runs; inside one run it covers too little (M19).
//
// ok is false for fewer than two values, for values that are not finite, for
// resamples below 1 and for a level that is not within (0, 1).
func Bootstrap(d []float64, level float64, resamples int) (low, high float64, ok bool) {
	n := len(d)
	if n < 2 || !allFinite(d) || resamples < 1 || !inside(level) {
		return 0, 0, false
	}
	r := rand.New(rand.NewPCG(1, 2))
	means := make([]float64, resamples)
	for i := range means {
		s := 0.0
		for range n {
			s += d[r.Uint32N(uint32(n))]
		}
		means[i] = s / float64(n)
	}
	slices.Sort(means)
	at := func(i int) float64 { return means[i] }
	low, _ = Quantile(resamples, at, (1-level)/2)
	high, _ = Quantile(resamples, at, (1+level)/2)
	return low, high, true
}

// StudentP returns the probability that Student's t with df degrees of freedom is at
// most t.
func StudentP(t, df float64) float64 {
	if math.IsNaN(t) || !(df >= 1) {
		return math.NaN()
	}
	if math.IsInf(t, 0) {
		return map[bool]float64{true: 1, false: 0}[t > 0]
	}
	half := mathext.RegIncBeta(df/2, 0.5, df/(df+float64(t*t))) / 2
	if t > 0 {
		return 1 - half
	}
	return half
}

func allFinite(v []float64) bool {
	return !slices.ContainsFunc(v, func(x float64) bool { return !finite(x) })
}
