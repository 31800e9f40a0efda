package metrics

import "math"

// Alike tells that neighbouring samples resemble each other so much that the
// intervals of percentiles, which take samples to be independent, are too narrow:
// half of the samples or more are worth nothing, and that is no chance. A rank
// correlation has a standard error of 1/sqrt(N) where there is none, and three of
// them are asked for; where the spread of few batch means shows it, as for itl, a
// quarter must be left.
func (in *Independence) Alike() bool {
	if in.Rho == nil || in.EffectiveN == nil {
		return false
	}
	n := float64(in.N)
	if *in.Rho > 3/math.Sqrt(n) && *in.EffectiveN <= n/2 {
		return true
	}
	return in.Mean != nil && *in.EffectiveN <= n/4
}
