package stat

import (
	"math"

	"github.com/servebench/servebench/metrics/internal/radix"
)

// Pearson returns the correlation of two series of one length. ok is false
// below two values and where one of the series does not vary.
func Pearson(x, y []float64) (rho float64, ok bool) {
	n := len(x)
	if n < 2 || len(y) != n {
		return 0, false
	}
	mx, _ := Mean(n, func(i int) float64 { return x[i] })
	my, _ := Mean(n, func(i int) float64 { return y[i] })
	var xx, yy, xy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xx += float64(dx * dx)
		yy += float64(dy * dy)
		xy += float64(dx * dy)
	}
	if d := math.Sqrt(xx) * math.Sqrt(yy); d > 0 && !math.IsInf(d, 1) {
		return min(max(xy/d, -1), 1), true
	}
	return 0, false
}

// Spearman returns the rank correlation of two series of one length, which no
// outlier can move far; equal values share their mean rank. ok is as in
// [Pearson]. It is linear and takes room for six series.
func Spearman(x, y []float64) (rho float64, ok bool) {
	if len(x) != len(y) {
		return 0, false
	}
	order := make([]radix.Item, len(x))
	return Pearson(ranks(x, order), ranks(y, order))
}

// ranks returns the mean ranks of x, from 1; order is scratch of its length.
func ranks(x []float64, order []radix.Item) []float64 {
	for i, v := range x {
		order[i] = radix.Item{Key: radix.Key(v), I: int32(i)}
	}
	radix.Items(order)
	out := make([]float64, len(x))
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && x[order[j].I] == x[order[i].I] {
			j++
		}
		mean := float64(i+1+j) / 2
		for ; i < j; i++ {
			out[order[i].I] = mean
		}
	}
	return out
}

// EffectiveN returns how many independent values n values with the lag-1
// correlation rho are worth: n(1-rho)/(1+rho) (M18), at least 1 and at most n,
// as a negative correlation is no reason for a narrower interval. 0 for n <= 0;
// a rho that is not within [-1, 1] counts as none.
func EffectiveN(n int, rho float64) float64 {
	if n <= 0 {
		return 0
	}
	if !(rho >= -1 && rho <= 1) || rho < 0 {
		rho = 0
	}
	return max(1, float64(n)*(1-rho)/(1+rho))
}

// mserBatch is the 5 of MSER-5.
const mserBatch = 5

// FewestForMSER is how many values [MSER5] takes: ten batches.
const FewestForMSER = 10 * mserBatch

// MSER5 returns how many values at the head of the series to leave out, so that
// the standard error of the mean of the rest is smallest (White 1997, M14): over
// batches of five it minimises sum((Y_i - mean)^2)/(n-d)^2 for d up to half of
// them. Values beyond the last whole batch are not looked at. It is linear.
//
// ok is false below [FewestForMSER] values, for values that are not finite, and where the minimum lies at half
// of them: then the series never settles.
func MSER5(y []float64) (cut int, ok bool) {
	n := len(y) / mserBatch
	if n*mserBatch < FewestForMSER {
		return 0, false
	}
	all, _ := Mean(n*mserBatch, func(i int) float64 { return y[i] })
	if !finite(all) {
		return 0, false
	}
	batch := make([]float64, n)
	for j := range batch {
		for _, v := range y[j*mserBatch : (j+1)*mserBatch] {
			batch[j] += v - all // about the mean, so that squares lose nothing
		}
	}
	best, least := 0, math.Inf(1)
	var s, ss float64
	for d := n - 1; d >= 0; d-- {
		s += batch[d]
		ss += float64(batch[d] * batch[d])
		if d > n/2 {
			continue
		}
		m := float64(n - d)
		// A tie goes to the smaller cut: nothing is left out without gain.
		if v := max(0, ss-float64(s*s)/m) / float64(m*m); v <= least {
			best, least = d, v
		}
	}
	return best * mserBatch, best < n/2
}

// Fit is a straight line through points, by least squares.
type Fit struct {
	Slope     float64 // of y per unit of x
	Low, High float64 // of the slope, by Student's t with n-2 degrees of freedom
	Rho       float64 // correlation of neighbouring deviations; 0 where there is none
}

// Line fits y over x, in the order of x. The interval holds for deviations that
// are independent, see [Fit.Widened]. ok is
// false below three points, where x does not vary, for numbers that are not finite
// or too large, and for a level that is not within (0, 1).
func Line(x, y []float64, level float64) (f Fit, ok bool) {
	n := len(x)
	if n < 3 || len(y) != n || !inside(level) {
		return f, false
	}
	mx, _ := Mean(n, func(i int) float64 { return x[i] })
	my, _ := Mean(n, func(i int) float64 { return y[i] })
	var xx, xy float64
	for i := range x {
		dx := x[i] - mx
		xx += float64(dx * dx)
		xy += float64(dx * (y[i] - my))
	}
	if !(xx > 0) {
		return f, false
	}
	f.Slope = xy / xx
	var rest float64
	off := make([]float64, n)
	for i := range x {
		off[i] = y[i] - my - float64(f.Slope*(x[i]-mx))
		rest += float64(off[i] * off[i])
	}
	df := float64(n - 2)
	half := student(df, level) * math.Sqrt(rest/df/xx)
	f.Low, f.High = f.Slope-half, f.Slope+half
	if !finite(f.Low) || !finite(f.High) {
		return Fit{}, false
	}
	f.Rho, _ = Pearson(off[:n-1], off[1:])
	return f, true
}

// Widened returns the fit with the interval that its deviations allow where
// neighbours are alike: as if only n(1-Rho)/(1+Rho) of them counted (M18). Rho
// is taken as 0.9 at most; negative, it changes nothing.
func (f Fit) Widened() Fit {
	if rho := min(f.Rho, 0.9); rho > 0 {
		by := math.Sqrt((1 + rho) / (1 - rho))
		f.Low, f.High = f.Slope-(f.Slope-f.Low)*by, f.Slope+(f.High-f.Slope)*by
	}
	return f
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
