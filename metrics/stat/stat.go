// Package stat holds the statistics of a latency benchmark: pure functions of
// n values that a function yields, no clock and no I/O. A result is exact in
// the last places on every machine: no product is fused into a sum.
package stat

import "math"

// Quantile returns the p-quantile, 0 <= p <= 1, of n values in ascending order
// that at yields: linear interpolation between order statistics at rank
// (n-1)p, Hyndman and Fan's type 7, numpy's default. ok is false for n = 0 and
// for a p outside.
func Quantile(n int, at func(i int) float64, p float64) (v float64, ok bool) {
	if n <= 0 || !(p >= 0 && p <= 1) {
		return 0, false
	}
	h := float64(n-1) * p
	lo := min(int(math.Floor(h)), n-1)
	t := h - float64(lo)
	a := at(lo)
	if t == 0 {
		return a, true
	}
	b := at(min(lo+1, n-1))
	// numpy's lerp turns round at one half, so that it is exact at both ends.
	// The conversions keep the compiler from fusing.
	if t < 0.5 {
		return a + float64((b-a)*t), true
	}
	return b - float64((b-a)*(1-t)), true
}

// Mean returns the mean of n values. Equal values have that value as their
// mean, which a rounded sum over n does not guarantee. ok is false for n = 0.
func Mean(n int, at func(i int) float64) (mean float64, ok bool) {
	if n <= 0 {
		return 0, false
	}
	mean = sum(n, at) / float64(n)
	return mean + sum(n, func(i int) float64 { return at(i) - mean })/float64(n), true
}

// StdDev returns the population standard deviation (numpy's default) of n
// values about their mean. ok is false for n = 0.
func StdDev(n int, at func(i int) float64, mean float64) (sd float64, ok bool) {
	if n <= 0 {
		return 0, false
	}
	// The second term corrects for the rounding of the mean.
	var ss, s float64
	for i := range n {
		d := at(i) - mean
		ss += float64(d * d)
		s += d
	}
	return math.Sqrt(max(0, (ss-float64(s*s)/float64(n))/float64(n))), true
}

// sum adds with Neumaier's compensation: the error does not grow with n.
func sum(n int, at func(i int) float64) float64 {
	var s, c float64
	for i := range n {
		v := at(i)
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
