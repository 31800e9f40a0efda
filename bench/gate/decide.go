// Package gate decides whether a change made a server slower. It holds the rules, a
// grammar of requirements and the forms of a verdict: pure functions of numbers, no
// clock and no I/O. A value is always the figure of a whole run: requests of one run
// are no repeats of each other.
package gate

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/servebench/servebench/metrics/stat"
)

// Verdict is what a gate says.
type Verdict string

// The verdicts.
const (
	Pass         Verdict = "PASS"
	Fail         Verdict = "FAIL"
	Inconclusive Verdict = "INCONCLUSIVE"
)

// Rule is what a gate is asked to find. The zero value is the default rule.
type Rule struct {
	// Effect is the loss, as a share, from which on a change is a regression; 0
	// stands for 0.03.
	Effect float64 `json:"effect"`
	// Certain fails only where the whole interval lies beyond Effect.
	Certain bool `json:"certain,omitempty"`
	// Looks is how often the data may be looked at: 2 declares one extension of the
	// pairs, and halves the level of each look. 0 stands for 1.
	Looks int `json:"looks"`
}

// The default of a rule, its level, and how many there must be.
const (
	DefaultEffect = 0.03
	level         = 0.05 // one-sided
	FewestPairs   = 5
	FewestHistory = 10
	historyLevel  = 0.01 // one-sided
	resamples     = 10_000
)

// Validate reports what is wrong with the rule.
func (r Rule) Validate() error {
	r = r.WithDefaults()
	if !(r.Effect > 0 && r.Effect < 1) {
		return fmt.Errorf("effect: %v; want a share above 0 and below 1, such as 3%%", r.Effect)
	}
	if r.Looks < 1 || r.Looks > 2 {
		return fmt.Errorf("looks: %d; want 1, or 2 with an extension", r.Looks)
	}
	return nil
}

// WithDefaults has the defaults in the place of zeros.
func (r Rule) WithDefaults() Rule {
	if r.Effect == 0 {
		r.Effect = DefaultEffect
	}
	if r.Looks == 0 {
		r.Looks = 1
	}
	return r
}

// alpha is the level of one look.
func (r Rule) alpha() float64 { return level / float64(r.Looks) }

// delta is the loss as a difference of logarithms; it is below 0.
func (r Rule) delta() float64 { return math.Log1p(-r.Effect) }

// Better says which way a metric gets better.
type Better string

// The directions.
const (
	Higher Better = "higher"
	Lower  Better = "lower"
)

// Change is ln(candidate/baseline), turned so that below 0 is worse. ok is false for
// a value that is not above 0 and finite: no comparison is made of those.
func Change(baseline, candidate float64, b Better) (d float64, ok bool) {
	if !(baseline > 0) || !(candidate > 0) || math.IsInf(baseline, 1) || math.IsInf(candidate, 1) {
		return 0, false
	}
	d = math.Log(candidate) - math.Log(baseline)
	if b == Lower {
		d = -d
	}
	return d, true
}

// Estimate is a change as a share of the baseline, negative where the candidate is
// worse, with the bounds of the rule's level, each one-sided.
type Estimate struct {
	Change float64  `json:"change"`
	Low    *float64 `json:"low"` // nil: no bound
	High   *float64 `json:"high"`
}

// shares makes shares of logarithms; infinite ones bound nothing.
func shares(mean, low, high float64) Estimate {
	bound := func(v float64) *float64 {
		if v = math.Expm1(v); math.IsInf(v, 1) || v <= -1 {
			return nil
		}
		return &v
	}
	return Estimate{math.Expm1(mean), bound(low), bound(high)}
}

// Decision is what a rule makes of the changes.
type Decision struct {
	Verdict Verdict `json:"verdict"`
	// Reason is one sentence in words and numbers.
	Reason string `json:"reason"`
	N      int    `json:"n"` // pairs, or runs of a history

	Mean Estimate `json:"mean_change"` // by Student's t
	// Spread is the standard deviation of the changes, as a share.
	Spread float64 `json:"spread"`
	// Detectable is the smallest loss that a gate of this many pairs with this
	// spread finds in nine of ten cases.
	Detectable float64 `json:"detectable"`

	// The cross-checks of pairs; nil in the other modes.
	HodgesLehmann *Estimate `json:"hodges_lehmann,omitempty"`
	Bootstrap     *Estimate `json:"bootstrap,omitempty"`
	SignFlipP     *float64  `json:"sign_flip_p,omitempty"` // against no loss
	TP            *float64  `json:"t_p,omitempty"`         // against no loss
	// Disagree names the cross-checks that do not bear the verdict out.
	Disagree []string `json:"disagree,omitempty"`
	Weak     bool     `json:"weak_evidence,omitempty"`
}

// Pairs decides from the changes of pairs of runs, as [Change] makes them, at one of
// the rule's looks (notes of the method: 3.1, 4A). With m their mean and L and U its
// one-sided bounds it is FAIL where U < 0 and m is beyond the effect, PASS where L is
// not, and INCONCLUSIVE else, where a cross-check disagrees, and where a loss of the
// effect could have been missed. Fewer than [FewestPairs] changes are an error.
func Pairs(d []float64, r Rule) (Decision, error) {
	if err := r.Validate(); err != nil {
		return Decision{}, err
	}
	r = r.WithDefaults()
	if len(d) < FewestPairs || len(d) > stat.MostFlipped {
		return Decision{}, fmt.Errorf("pairs: %d; want %d to %d", len(d), FewestPairs, stat.MostFlipped)
	}
	if slices.ContainsFunc(d, noLogarithm) {
		return Decision{}, errors.New("pairs: a change is not a number, or beyond all measure")
	}
	p := newPairs(d, r)
	p.resamples = resamples
	return p.decide(), nil
}

// noLogarithm tells a value that is none of a figure, or of a quotient of two: those
// are within e to the 350, so that all that follows stays finite.
func noLogarithm(v float64) bool { return !(math.Abs(v) <= 350) }

// pairs are changes on their way to a decision.
type pairs struct {
	rule      Rule
	d         []float64
	n         float64
	quantile  float64 // Student's, for the bounds
	resamples int

	mean, sd, low, high float64
}

func newPairs(d []float64, r Rule) *pairs {
	n := float64(len(d))
	return &pairs{rule: r, d: d, n: n, quantile: stat.StudentT(1-r.alpha(), n-1)}
}

func (p *pairs) decide() Decision {
	n := len(p.d)
	p.mean, p.sd = stat.Sample(p.d)
	half := p.quantile * p.sd / math.Sqrt(p.n)
	p.low, p.high = p.mean-half, p.mean+half
	out := Decision{N: n, Mean: shares(p.mean, p.low, p.high), Spread: p.sd, Detectable: detectable(p.sd, n, p.rule)}
	delta := p.rule.delta()
	switch beyond := p.mean < delta; {
	case p.high < 0 && beyond && (!p.rule.Certain || p.high < delta):
		out.Verdict = Fail
	case p.low > delta:
		out.Verdict = Pass
	default:
		out.Verdict = Inconclusive
	}
	p.check(&out)
	out.Reason = p.reason(&out)
	return out
}

// power is the normal deviate of nine in ten.
const power = 1.2815515655446004

// detectable is the loss that n pairs with the spread sd find in nine of ten cases at
// the level of one look (notes of the method, 3.1, 6).
func detectable(sd float64, n int, r Rule) float64 {
	certain := 1.6448536269514722 // the normal deviate of 0.95
	if r.Looks == 2 {
		certain = 1.959963984540054 // of 0.975
	}
	return -math.Expm1(-(certain + power) * sd / math.Sqrt(float64(max(1, n-2))))
}

// check asks the tests that rest on other assumptions, and takes a verdict back that
// they do not bear out, or that could not have been another one.
func (p *pairs) check(out *Decision) {
	a, delta := p.rule.alpha(), p.rule.delta()
	flip, _ := stat.SignFlip(p.d)
	centre, low, high, _ := stat.HodgesLehmann(p.d, 1-2*a)
	bootLow, bootHigh, drawn := stat.Bootstrap(p.d, 1-2*a, p.resamples)
	t := 0.0
	switch {
	case p.sd > 0:
		t = stat.StudentP(p.mean/(p.sd/math.Sqrt(p.n)), p.n-1)
	case p.mean > 0:
		t = 1
	case p.mean == 0:
		t = 0.5
	}
	hl, boot := shares(centre, low, high), shares(p.mean, bootLow, bootHigh)
	out.SignFlipP, out.TP, out.HodgesLehmann, out.Bootstrap = &flip, &t, &hl, &boot
	doubt := func(is bool, name string) {
		if is {
			out.Disagree = append(out.Disagree, name)
		}
	}
	switch out.Verdict {
	case Fail:
		doubt(flip > a, "sign-flip test")
		doubt(centre >= delta, "Hodges-Lehmann estimate")
		doubt(drawn && bootHigh >= 0, "bootstrap")
	case Pass:
		doubt(centre <= delta, "Hodges-Lehmann estimate")
		doubt(drawn && bootLow <= delta, "bootstrap")
	}
	if len(out.Disagree) > 0 || out.Verdict == Pass && out.Detectable > p.rule.Effect {
		out.Verdict = Inconclusive
	}
}

func (p *pairs) reason(out *Decision) string {
	at := fmt.Sprintf("%s over %d pairs, %s to %s", percent(out.Mean.Change), out.N, bounded(out.Mean.Low), bounded(out.Mean.High))
	effect := fmt.Sprintf("%.3g %%", 100*p.rule.Effect)
	switch {
	case out.Verdict == Fail:
		return fmt.Sprintf("A loss beyond %s: %s.", effect, at)
	case out.Verdict == Pass:
		return fmt.Sprintf("No loss of %s: %s; a loss of %.2g %% would have been seen in nine of ten cases.", effect, at, 100*out.Detectable)
	case len(out.Disagree) > 0:
		return fmt.Sprintf("The tests disagree (%s): %s.", out.Disagree[0], at)
	case p.low > p.rule.delta():
		return fmt.Sprintf("Too noisy to see a loss of %s: %s; only one of %.2g %% would have been seen in nine of ten cases.", effect, at, 100*out.Detectable)
	}
	return fmt.Sprintf("Neither a loss beyond %s nor its absence is shown: %s.", effect, at)
}

// span is the interval for people.
func (e Estimate) span() string {
	if e.Low == nil && e.High == nil {
		return "no interval"
	}
	return bounded(e.Low) + " to " + bounded(e.High)
}

// percent is a share with a sign.
func percent(v float64) string { return fmt.Sprintf("%+.2f %%", 100*v) }

// bounded is a bound, as percent has it.
func bounded(v *float64) string {
	if v == nil {
		return "unbounded"
	}
	return percent(*v)
}

// History decides whether the value of one run lies below what the runs of a history
// foretell (notes of the method, 3.1, 4B): FAIL where it is beyond the prediction
// limit at 99 % and beyond the effect, INCONCLUSIVE where it is beyond one of the
// two, PASS else. Values are logarithms, turned so that below is worse. Fewer than
// [FewestHistory] are an error.
func History(earlier []float64, value float64, r Rule) (Decision, error) {
	if err := r.Validate(); err != nil {
		return Decision{}, err
	}
	r = r.WithDefaults()
	k := len(earlier)
	if k < FewestHistory {
		return Decision{}, fmt.Errorf("history: %d runs; want %d or more", k, FewestHistory)
	}
	if noLogarithm(value) || slices.ContainsFunc(earlier, noLogarithm) {
		return Decision{}, errors.New("history: a value is not a number, or beyond all measure")
	}
	mean, sd := stat.Sample(earlier)
	n := float64(k)
	unit := sd * math.Sqrt(1+1/n)
	half := stat.StudentT(1-historyLevel, n-1) * unit
	change := value - mean
	out := Decision{N: k, Mean: shares(change, change-half, change+half), Spread: sd, Detectable: -math.Expm1(-(half + power*unit))}
	unusual, large := change < -half, change < r.delta()
	text := fmt.Sprintf("%s against the mean of %d runs, which foretell %s or better", percent(out.Mean.Change), k, percent(math.Expm1(-half)))
	switch {
	case unusual && large:
		out.Verdict, out.Reason = Fail, "A loss that the history does not explain: "+text+"."
	case large:
		out.Verdict, out.Reason = Inconclusive, "A loss that the history's spread may explain: "+text+"."
	case unusual:
		out.Verdict, out.Reason = Inconclusive, fmt.Sprintf("Below what the history foretells, but within %.3g %%: %s.", 100*r.Effect, text)
	default:
		out.Verdict, out.Reason = Pass, fmt.Sprintf("Within what the history foretells: %s; a loss of %.2g %% would have been seen in nine of ten cases.", text, 100*out.Detectable)
	}
	return out, nil
}

// File decides from one change against one stored run: coarse (notes of the method,
// 3.1, 4C). It is FAIL below 5 %, or thrice the coefficient of variation between runs
// where that is known and more. cv is 0 where it is not.
func File(change, cv float64) (Decision, error) {
	if noLogarithm(change) || !(cv >= 0) || math.IsInf(cv, 1) {
		return Decision{}, errors.New("baseline: a value is not a number")
	}
	limit := max(0.05, 3*cv)
	out := Decision{N: 1, Verdict: Pass, Mean: Estimate{Change: math.Expm1(change)}, Spread: cv, Detectable: limit, Weak: true}
	what := "Within"
	if out.Mean.Change < -limit {
		out.Verdict, what = Fail, "Beyond"
	}
	out.Reason = fmt.Sprintf("%s the coarse limit of %.3g %%: %s against one stored run. Weak evidence: what differs from run to run is not known.", what, 100*limit, percent(out.Mean.Change))
	return out, nil
}

// Share is a change, which is a difference of logarithms, as a share.
func Share(d float64) float64 { return math.Expm1(d) }
