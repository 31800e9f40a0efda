// Package stat holds the statistics of a latency benchmark: pure functions of
// float slices, no clock and no I/O.
package stat

import "math"

// Quantile returns the p-quantile, 0 <= p <= 1, of n values in ascending order
// that at yields: linear interpolation between order statistics at rank
// (n-1)p, Hyndman and Fan's type 7, numpy's default. ok is false for n = 0.
func Quantile(n int, at func(i int) float64, p float64) (v float64, ok bool) {
	if n == 0 {
		return 0, false
	}
	h := float64(n-1) * p
	lo := min(int(math.Floor(h)), n-1)
	a, b := at(lo), at(min(lo+1, n-1))
	// numpy's lerp turns round at one half, so that it is exact at both ends.
	if t := h - float64(lo); t < 0.5 {
		return a + (b-a)*t, true
	} else {
		return b - (b-a)*(1-t), true
	}
}

// StdDev returns the population standard deviation (numpy's default) of n
// values about their mean. ok is false for n = 0.
func StdDev(n int, at func(i int) float64, mean float64) (sd float64, ok bool) {
	if n == 0 {
		return 0, false
	}
	// The second term corrects for the rounding of the mean.
	var ss, s float64
	for i := range n {
		d := at(i) - mean
		ss += d * d
		s += d
	}
	return math.Sqrt(max(0, (ss-s*s/float64(n))/float64(n))), true
}

// Sum adds x with Neumaier's compensation: the error does not grow with n.
func Sum(x []float64) float64 {
	var s, c float64
	for _, v := range x {
		t := s + v
		if math.Abs(s) >= math.Abs(v) {
			c += (s - t) + v
		} else {
			c += (v - t) + s
		}
		s = t
	}
	return s + c
}
