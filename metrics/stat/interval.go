package stat

import (
	"math"
	"sort"

	"gonum.org/v1/gonum/mathext"
)

// Level is the confidence level of every two-sided interval that is published.
const Level = 0.95

// TailConfidence is the one-sided confidence of MLPerf's tail estimates.
const TailConfidence = 0.99

// QuantileRanks returns the 1-based ranks of the order statistics that enclose
// the p-quantile with at least the probability level, whatever the
// distribution; the samples must be independent. M16: with B ~ Bin(n, p), lo is
// the largest k with P(B <= k-1) <= (1-level)/2 and hi the smallest with
// P(B >= k) <= (1-level)/2.
//
// ok is false where n samples are too few ([QuantileNeeds] says how many it
// takes), and for a p or a level that is not within (0, 1).
func QuantileRanks(n int, p, level float64) (lo, hi int, ok bool) {
	if n <= 0 || !inside(p) || !inside(level) {
		return 0, 0, false
	}
	below := func(k int) float64 { return atMost(k, n, p) }
	half := (1 - level) / 2
	// The first k with P(B <= k) over half is the largest with P(B <= k-1) not.
	lo = sort.Search(n, func(k int) bool { return below(k) > half })
	hi = 1 + sort.Search(n, func(k int) bool { return 1-below(k) <= half })
	return lo, hi, lo >= 1 && hi <= n
}

// QuantileNeeds returns the smallest number of samples from which on
// [QuantileRanks] finds an interval: 6 for the median at 95 %, 368 for p99. It
// is 0 for a p or a level that is not within (0, 1).
func QuantileNeeds(p, level float64) int {
	if !inside(p) || !inside(level) {
		return 0
	}
	return least(func(n int) bool { _, _, ok := QuantileRanks(n, p, level); return ok })
}

// TailRank returns the 1-based rank of the order statistic that is not below
// the p-quantile with the given one-sided confidence: MLPerf's early-stopping
// estimate (M17). With t the largest number of samples that may lie above so
// that P(Bin(n, 1-p) <= t) <= 1-confidence, it is n-t+1. This is MLPerf's
// h_min(t)+t <= n, whose incomplete beta function is that probability.
//
// ok is false where n samples are too few ([TailNeeds]: not even t = 1), and
// for a p or a confidence that is not within (0, 1).
func TailRank(n int, p, confidence float64) (rank int, ok bool) {
	if n <= 0 || !inside(p) || !inside(confidence) {
		return 0, false
	}
	t := sort.Search(n, func(t int) bool { return atMost(t, n, 1-p) > 1-confidence }) - 1
	return n - t + 1, t >= 1
}

// TailNeeds returns the smallest number of samples from which on [TailRank]
// finds an estimate: 11 for the median at 99 %, 662 for p99. It is 0 for a p or
// a confidence that is not within (0, 1).
func TailNeeds(p, confidence float64) int {
	if !inside(p) || !inside(confidence) {
		return 0
	}
	return least(func(n int) bool { _, ok := TailRank(n, p, confidence); return ok })
}

// least is the smallest n from which on enough holds; 0 where none below 2^40 is
// enough.
func least(enough func(n int) bool) int {
	hi := 1
	for ; !enough(hi); hi *= 2 {
		if hi >= 1<<40 {
			return 0
		}
	}
	return hi/2 + sort.Search(hi-hi/2, func(i int) bool { return enough(hi/2 + i) })
}

// inside tells that p is a probability strictly between 0 and 1; NaN is not.
func inside(p float64) bool { return p > 0 && p < 1 }

// Wilson returns the score interval of the share k/n of n independent trials
// (M21, Wilson 1927). ok is false for n = 0, for a k that is not one of 0 to n,
// and for a level that is not within (0, 1).
func Wilson(k, n int, level float64) (lo, hi float64, ok bool) {
	if n <= 0 || k < 0 || k > n || !inside(level) {
		return 0, 0, false
	}
	z := mathext.NormalQuantile(1 - (1-level)/2)
	size, share := float64(n), float64(k)/float64(n)
	z2 := float64(z * z)
	centre := share + z2/(2*size)
	half := z * math.Sqrt(float64(share*(1-share))/size+z2/(4*float64(size*size)))
	scale := 1 + z2/size
	// The ends are exact at k = 0 and k = n, where rounding would leave a rest.
	lo, hi = max(0, (centre-half)/scale), min(1, (centre+half)/scale)
	if k == 0 {
		lo = 0
	}
	if k == n {
		hi = 1
	}
	return lo, hi, true
}

// Batches is the interval of a mean by batch means.
type Batches struct {
	Mean      float64 // of all values
	Low, High float64
	Err       float64 // standard error of the mean
	M         int     // batches
	Rho       float64 // lag-1 correlation of the batch means; 0 where they are equal
}

// FewestForBatches is how many values an interval by batch means takes.
const FewestForBatches = 60

// BatchMeans returns the interval of the mean of a stationary series whose
// values depend on their neighbours, in the order in which they came: the means
// of m = n/30 batches, at least 5 and at most 10, are taken as independent, and
// Student's t with m-1 degrees of freedom does the rest (M19, A4). The batches
// differ by a value at most, by none where n is a multiple of m; at yields.
//
// ok is false below [FewestForBatches] values, for values that are not finite,
// and for a level that is not within (0, 1).
func BatchMeans(n int, at func(i int) float64, level float64) (b Batches, ok bool) {
	if n < FewestForBatches {
		return b, false
	}
	means := make([]float64, BatchCount(n))
	for j := range means {
		from, to := j*n/len(means), (j+1)*n/len(means)
		means[j], _ = Mean(to-from, func(i int) float64 { return at(from + i) })
	}
	mean, _ := Mean(n, at)
	return OfBatches(means, mean, level)
}

// OfBatches is [BatchMeans] for a caller that has the means of the batches, at
// least two, and the mean of all.
func OfBatches(means []float64, mean, level float64) (b Batches, ok bool) {
	if len(means) < 2 || !inside(level) {
		return b, false
	}
	of := func(i int) float64 { return means[i] }
	centre, _ := Mean(len(means), of)
	sd, _ := StdDev(len(means), of, centre)
	df := float64(len(means) - 1)
	// StdDev is the population's; over sqrt(m-1) it is the standard error.
	b.Err = sd / math.Sqrt(df)
	half := student(df, level) * b.Err
	b.Mean, b.M, b.Low, b.High = mean, len(means), mean-half, mean+half
	if !finite(b.Low) || !finite(b.High) {
		return Batches{}, false
	}
	b.Rho, _ = Pearson(means[:b.M-1], means[1:])
	return b, true
}

// BatchCount is the number of batches that n values make (A4).
func BatchCount(n int) int { return min(max(n/30, 5), 10) }

// The special functions are gonum's. Its distributions (stat/distuv) would be
// shorter here, but they bring matrices with them: 2 MB in a program that uses
// reflection.

// student is the two-sided quantile of Student's t: of its mass, level lies
// within plus and minus the result.
func student(df, level float64) float64 {
	x := mathext.InvRegIncBeta(df/2, 0.5, 1-level)
	return math.Sqrt(df * (1 - x) / x)
}

// atMost is P(Bin(n, p) <= k).
func atMost(k, n int, p float64) float64 {
	if k < 0 {
		return 0
	}
	if k >= n {
		return 1
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 1-p)
}
