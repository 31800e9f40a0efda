package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/servebench/servebench/metrics/stat"
)

// drifting simulates pairs of runs in the order AB BA AB BA: each run has noise of
// its own, and all share a drift that each run carries on.
type drifting struct {
	r                 *rand.Rand
	noise, drift, rho float64
}

// changes are those of n pairs at a true change of loss, as a logarithm.
func (s *drifting) changes(n int, loss float64) []float64 {
	level := s.drift * s.r.NormFloat64()
	run := func(shift float64) float64 {
		v := shift + level + s.noise*s.r.NormFloat64()
		level = s.rho*level + s.drift*math.Sqrt(1-s.rho*s.rho)*s.r.NormFloat64()
		return v
	}
	out := make([]float64, n)
	for i := range out {
		var a, b float64
		if i%2 == 0 {
			a = run(0)
			b = run(loss)
		} else {
			b = run(loss)
			a = run(0)
		}
		out[i] = b - a
	}
	return out
}

// verdicts counts what a rule makes of many gates, without the bootstrap, which can
// only take a verdict back.
func verdicts(trials int, loss float64, rule Rule) (fail, pass float64) {
	s := drifting{rand.New(rand.NewPCG(42, uint64(1000*loss))), 0.01, 0.02, 0.9}
	p := newPairs(make([]float64, 8), rule.WithDefaults())
	for range trials {
		p.d = s.changes(8, math.Log1p(-loss))
		switch p.decide().Verdict {
		case Fail:
			fail++
		case Pass:
			pass++
		}
	}
	return fail / float64(trials), pass / float64(trials)
}

// TestOperatingCharacteristics: 10,000 gates of 8 pairs each, 1 % of noise between
// runs and a drift of 2 %. No false alarm in a hundred, five in a hundred lost are
// found nearly always. The bounds are the issue's.
func TestOperatingCharacteristics(t *testing.T) {
	const trials = 10_000
	for _, c := range []struct {
		loss              float64
		rule              Rule
		mostFail, minFail float64
		minPass, mostPass float64
	}{
		{0, Rule{}, 0.01, 0, 0.9, 1},
		{0.03, Rule{}, 0.6, 0.4, 0, 0.06},
		{0.05, Rule{}, 1, 0.95, 0, 0.001},
		{0.08, Rule{}, 1, 0.99, 0, 0},
		{0.03, Rule{Certain: true}, 0.06, 0, 0, 0.06},
		{0, Rule{Looks: 2}, 0.01, 0, 0.8, 1},
	} {
		t.Run(fmt.Sprintf("loss %v %+v", c.loss, c.rule), func(t *testing.T) {
			t.Parallel()
			fail, pass := verdicts(trials, c.loss, c.rule)
			t.Logf("FAIL %.4f PASS %.4f INCONCLUSIVE %.4f", fail, pass, 1-fail-pass)
			if fail > c.mostFail || fail < c.minFail || pass < c.minPass || pass > c.mostPass {
				t.Errorf("FAIL %v PASS %v, want FAIL in [%v, %v] and PASS in [%v, %v]", fail, pass, c.minFail, c.mostFail, c.minPass, c.mostPass)
			}
		})
	}
}

// The bootstrap takes verdicts back and gives none, and few of those of clear cases.
func TestBootstrapOnlyTakesBack(t *testing.T) {
	s := drifting{rand.New(rand.NewPCG(4, 2)), 0.01, 0.02, 0.9}
	lost := 0
	const trials = 60
	for range trials {
		d := s.changes(8, math.Log1p(-0.05))
		without := newPairs(d, Rule{}.WithDefaults()).decide()
		with, err := Pairs(d, Rule{})
		if err != nil {
			t.Fatal(err)
		}
		if with.Verdict != without.Verdict {
			if lost++; with.Verdict != Inconclusive {
				t.Errorf("%v became %v", without.Verdict, with.Verdict)
			}
		}
	}
	if lost > 3 {
		t.Errorf("%d of %d verdicts were taken back", lost, trials)
	}
}

func TestPairs(t *testing.T) {
	for _, c := range []struct {
		name string
		d    []float64
		rule Rule
		want Verdict
		says string
	}{
		{"equal to the bit", make([]float64, 8), Rule{}, Pass, "No loss of 3 %"},
		{"all 8 % slower, to the bit", slices.Repeat([]float64{math.Log(0.92)}, 8), Rule{}, Fail, "A loss beyond 3 %"},
		{"faster", []float64{.05, .06, .05, .04, .06}, Rule{}, Pass, "+5.34 %"},
		{"a loss within the effect", []float64{-.010, -.011, -.009, -.010, -.012, -.009, -.01, -.011}, Rule{}, Pass, "-1.02 %"},
		{"noise", []float64{-.2, .3, -.1, .2, -.3, .1, .2, -.2}, Rule{}, Inconclusive, "Neither"},
		{"no loss, but too noisy to tell", []float64{.02, .10, .03, .09, .02, .11, .04, .06}, Rule{}, Inconclusive, "Too noisy"},
		{"one outlier is no loss", []float64{0, 0, 0, 0, 0, 0, 0, -.9}, Rule{}, Inconclusive, "Neither"},
		{"certain takes the whole interval", []float64{-.02, -.06, -.02, -.06, -.02, -.06, -.02, -.06}, Rule{Certain: true}, Inconclusive, "Neither"},
		{"the same without", []float64{-.02, -.06, -.02, -.06, -.02, -.06, -.02, -.06}, Rule{}, Fail, "A loss"},
		{"five pairs cannot be looked at twice", slices.Repeat([]float64{-.1}, 5), Rule{Looks: 2}, Inconclusive, "disagree (sign-flip"},
		{"a larger effect", slices.Repeat([]float64{-.05}, 8), Rule{Effect: 0.1}, Pass, "No loss of 10 %"},
	} {
		got, err := Pairs(c.d, c.rule)
		if err != nil || got.Verdict != c.want || !strings.Contains(got.Reason, c.says) {
			t.Errorf("%s: %v %q %v, want %v … %s", c.name, got.Verdict, got.Reason, err, c.want, c.says)
		}
	}
}

// The unit of a metric changes nothing, and to turn the two sides round turns the
// signs: what was a loss is then none.
func TestPairsAreSymmetric(t *testing.T) {
	old := []float64{900, 910, 905, 898, 902, 907, 911, 899}
	slow := []float64{830, 842, 838, 826, 835, 836, 845, 829}
	changes := func(a, b []float64, unit float64, way Better) (d []float64) {
		for i := range a {
			v, ok := Change(a[i]*unit, b[i]*unit, way)
			if !ok {
				t.Fatal("no change")
			}
			d = append(d, v)
		}
		return d
	}
	one, err := Pairs(changes(old, slow, 1, Higher), Rule{})
	if err != nil || one.Verdict != Fail {
		t.Fatalf("%+v %v", one, err)
	}
	milli, _ := Pairs(changes(old, slow, 1024, Higher), Rule{})
	if milli.Verdict != one.Verdict || *milli.SignFlipP != *one.SignFlipP || math.Abs(milli.Mean.Change-one.Mean.Change) > 1e-12 {
		t.Errorf("in another unit: %+v, want %+v", milli, one)
	}
	other, _ := Pairs(changes(slow, old, 1, Higher), Rule{})
	if other.Verdict != Pass || math.Abs(math.Log1p(other.Mean.Change)+math.Log1p(one.Mean.Change)) > 1e-12 {
		t.Errorf("turned round: %+v", other)
	}
	// A latency that grows is worse as a rate that falls is.
	latency, _ := Pairs(changes(slow, old, 1, Lower), Rule{})
	if latency.Verdict != Fail || math.Abs(latency.Mean.Change-one.Mean.Change) > 1e-12 {
		t.Errorf("as a latency: %+v", latency)
	}
}

func TestWhatIsNoComparison(t *testing.T) {
	for _, v := range [][2]float64{{0, 1}, {1, 0}, {-1, 1}, {math.NaN(), 1}, {1, math.Inf(1)}, {math.Inf(1), 1}} {
		if _, ok := Change(v[0], v[1], Higher); ok {
			t.Errorf("%v to %v is a change", v[0], v[1])
		}
	}
	if _, err := Pairs(make([]float64, 4), Rule{}); err == nil {
		t.Error("four pairs are enough")
	}
	if _, err := Pairs([]float64{0, 0, 0, 0, math.NaN()}, Rule{}); err == nil {
		t.Error("NaN passes")
	}
	if _, err := Pairs(make([]float64, 21), Rule{}); err == nil {
		t.Error("21 pairs have a sign-flip test")
	}
	for _, r := range []Rule{{Effect: 1}, {Effect: -0.1}, {Effect: math.NaN()}, {Looks: 3}, {Looks: -1}} {
		if _, err := Pairs(make([]float64, 8), r); err == nil {
			t.Errorf("%+v is a rule", r)
		}
	}
	if _, err := History(make([]float64, 9), 0, Rule{}); err == nil {
		t.Error("nine runs are a history")
	}
	if _, err := History(make([]float64, 10), math.NaN(), Rule{}); err == nil {
		t.Error("NaN passes a history")
	}
	if _, err := File(math.NaN(), 0); err == nil {
		t.Error("NaN passes a baseline")
	}
}

func TestHistory(t *testing.T) {
	// Ten sessions with a spread of 1 %: the limit is 2.821 * 1.0 % * sqrt(1.1).
	var earlier []float64
	for i := range 10 {
		earlier = append(earlier, math.Log(900)+0.01*float64(i%2*2-1)*math.Sqrt(0.9))
	}
	for _, c := range []struct {
		loss float64
		want Verdict
	}{{0, Pass}, {-0.05, Pass}, {0.02, Pass}, {0.029, Pass}, {0.05, Fail}, {0.1, Fail}} {
		got, err := History(earlier, math.Log(900*(1-c.loss)), Rule{})
		if err != nil || got.Verdict != c.want {
			t.Errorf("%v lost: %v %s %v, want %v", c.loss, got.Verdict, got.Reason, err, c.want)
		}
	}
	limit := stat.StudentT(0.99, 9) * 0.01 * math.Sqrt(1.1)
	got, _ := History(earlier, math.Log(900), Rule{})
	if math.Abs(*got.Mean.Low-math.Expm1(-limit)) > 1e-9 {
		t.Errorf("the limit is %v, want %v", *got.Mean.Low, math.Expm1(-limit))
	}
	for _, c := range []struct {
		spread, loss float64
		says         string
	}{{0.03, 0.05, "spread may explain"}, {0.001, 0.01, "within 3 %"}} {
		earlier := make([]float64, 12)
		for i := range earlier {
			earlier[i] = c.spread * float64(i%2*2-1)
		}
		got, _ := History(earlier, math.Log1p(-c.loss), Rule{})
		if got.Verdict != Inconclusive || !strings.Contains(got.Reason, c.says) {
			t.Errorf("%+v: %v %s", c, got.Verdict, got.Reason)
		}
	}
}

func TestFile(t *testing.T) {
	for _, c := range []struct {
		loss, cv float64
		want     Verdict
	}{{0.04, 0, Pass}, {0.06, 0, Fail}, {0.06, 0.03, Pass}, {0.1, 0.03, Fail}, {-0.2, 0, Pass}} {
		got, err := File(math.Log1p(-c.loss), c.cv)
		if err != nil || got.Verdict != c.want || !got.Weak || !strings.Contains(got.Reason, "Weak evidence") {
			t.Errorf("%+v: %+v %v", c, got, err)
		}
	}
}
