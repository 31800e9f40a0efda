package stat_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/servebench/servebench/metrics/stat"
)

// opinion is what scipy makes of one series; written by testdata/intervals.py.
type opinion struct {
	X                 []float64
	N                 int
	Spearman, Pearson float64
	Batches           struct{ Mean, Half, M, Rho float64 }
	Line              struct{ Slope, Half float64 }
	MSER              struct {
		Cut int
		OK  bool
	}
	Gaps map[string]struct{ D, P float64 }
}

type opinions struct {
	Ranks  [][4]json.RawMessage // n, p, level, [lo, hi] or null
	Needs  [][3]float64         // p, of an interval, of a tail estimate
	Tail   [][3]*float64        // n, p, rank or null
	Wilson [][4]float64         // k, n, low, high
	Series map[string]opinion
}

func scipy(t *testing.T) (o opinions) {
	t.Helper()
	data, err := os.ReadFile("testdata/intervals.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	for name, s := range o.Series {
		switch name {
		case "lcg":
			s.X = lcg(s.N)
		case "ar":
			s.X = lcg(s.N)
			for i := 1; i < s.N; i++ {
				s.X[i] += 0.6 * s.X[i-1]
			}
		}
		if len(s.X) != s.N || s.N == 0 {
			t.Fatalf("%s: %d values, want %d", name, len(s.X), s.N)
		}
		o.Series[name] = s
	}
	return o
}

func get[T any](t *testing.T, raw json.RawMessage) (v T) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRanksAreScipys(t *testing.T) {
	o := scipy(t)
	if len(o.Ranks) < 80 || len(o.Tail) < 60 || len(o.Wilson) < 8 || len(o.Needs) != 5 {
		t.Fatal("golden values are missing")
	}
	for _, r := range o.Ranks {
		n, p, level, want := get[int](t, r[0]), get[float64](t, r[1]), get[float64](t, r[2]), get[[]int](t, r[3])
		lo, hi, ok := stat.QuantileRanks(n, p, level)
		if ok != (want != nil) || ok && !slices.Equal([]int{lo, hi}, want) {
			t.Errorf("n %d p %v level %v: %d %d %v, scipy has %v", n, p, level, lo, hi, ok, want)
		}
	}
	for _, r := range o.Tail {
		rank, ok := stat.TailRank(int(*r[0]), *r[1], stat.TailConfidence)
		if ok != (r[2] != nil) || ok && float64(rank) != *r[2] {
			t.Errorf("tail of n %v p %v: %d %v, MLPerf's rule has %v", *r[0], *r[1], rank, ok, r[2])
		}
	}
	for _, r := range o.Needs {
		if n := stat.QuantileNeeds(r[0], stat.Level); float64(n) != r[1] {
			t.Errorf("an interval at %v needs %d, scipy has %v", r[0], n, r[1])
		}
		if n := stat.TailNeeds(r[0], stat.TailConfidence); float64(n) != r[2] {
			t.Errorf("a tail estimate at %v needs %d, scipy has %v", r[0], n, r[2])
		}
	}
	for _, r := range o.Wilson {
		lo, hi, ok := stat.Wilson(int(r[0]), int(r[1]), stat.Level)
		if !ok || math.Abs(lo-r[2]) > 1e-15 || math.Abs(hi-r[3]) > 1e-15 {
			t.Errorf("%v of %v: %v to %v, scipy has %v to %v", r[0], r[1], lo, hi, r[2], r[3])
		}
	}
}

func TestSeriesAreScipys(t *testing.T) {
	o := scipy(t)
	if len(o.Series) != 5 {
		t.Fatalf("%d series", len(o.Series))
	}
	for name, s := range o.Series {
		check := func(what string, got, want, scale float64) {
			t.Helper()
			if math.Abs(got-want) > 1e-9*scale {
				t.Errorf("%s: %s %v, scipy has %v", name, what, got, want)
			}
		}
		head, rest := s.X[:s.N-1], s.X[1:]
		rho, ok := stat.Spearman(head, rest)
		check("Spearman", rho, s.Spearman, 1)
		r, ok2 := stat.Pearson(head, rest)
		check("Pearson", r, s.Pearson, 1)
		b, ok3 := stat.BatchMeans(s.N, func(i int) float64 { return s.X[i] }, stat.Level)
		check("batch mean", b.Mean, s.Batches.Mean, b.Mean)
		check("low", b.Low, s.Batches.Mean-s.Batches.Half, b.Mean)
		check("high", b.High, s.Batches.Mean+s.Batches.Half, b.Mean)
		check("batches", float64(b.M), s.Batches.M, 0)
		check("correlation of batches", b.Rho, s.Batches.Rho, 1)
		at := make([]float64, s.N)
		for i := range at {
			at[i] = float64(i) / 2
		}
		f, ok4 := stat.Line(at, s.X, stat.Level)
		check("slope", f.Slope, s.Line.Slope, s.Line.Half)
		check("slope's low", f.Low, s.Line.Slope-s.Line.Half, s.Line.Half)
		check("slope's high", f.High, s.Line.Slope+s.Line.Half, s.Line.Half)
		cut, settled := stat.MSER5(s.X)
		if cut != s.MSER.Cut || settled != s.MSER.OK {
			t.Errorf("%s: MSER-5 cuts %d (%v), the plain formula %d (%v)", name, cut, settled, s.MSER.Cut, s.MSER.OK)
		}
		for text, want := range s.Gaps {
			shape, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			k, ok := stat.GammaGaps(s.X, shape)
			check("distance of gaps", k.D, want.D, 1)
			if !ok || k.Bound != (shape != 1) {
				t.Errorf("%s: gaps of shape %v: %v %v", name, shape, k, ok)
			}
			if shape != 1 {
				check("p of gaps", k.P, want.P, 1)
			}
		}
		if !ok || !ok2 || !ok3 || !ok4 {
			t.Errorf("%s: no result", name)
		}
	}
}

// MSER-5's sums from the end give what the definition gives, batch by batch.
func TestMSER5AgainstItsDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	for range 200 {
		n := 50 + rng.IntN(200)
		y := make([]float64, n)
		for i := range y {
			y[i] = 1e6 + 10*rng.NormFloat64()
			if i < n/4 {
				y[i] -= float64(n/4-i) * rng.Float64() * 20
			}
		}
		cut, ok := stat.MSER5(y)
		want, wantOK := naiveMSER(y)
		if cut != want || ok != wantOK {
			t.Fatalf("%d values: cut %d %v, by definition %d %v", n, cut, ok, want, wantOK)
		}
	}
}

func naiveMSER(y []float64) (cut int, ok bool) {
	var b []float64
	for i := 0; i+5 <= len(y); i += 5 {
		b = append(b, (y[i]+y[i+1]+y[i+2]+y[i+3]+y[i+4])/5-1e6)
	}
	best := math.Inf(1)
	for d := 0; d <= len(b)/2; d++ {
		rest := b[d:]
		mean, _ := stat.Mean(len(rest), func(i int) float64 { return rest[i] })
		sd, _ := stat.StdDev(len(rest), func(i int) float64 { return rest[i] }, mean)
		if v := sd * sd / float64(len(rest)); v < best {
			best, cut = v, d
		}
	}
	return 5 * cut, cut < len(b)/2
}

// covers counts how many of n experiments hold.
func covers(n int, hold func() bool) (hits int) {
	for range n {
		if hold() {
			hits++
		}
	}
	return hits
}

// within holds a count against a binomial of n trials: three standard errors,
// with seeds that are fixed.
func within(t *testing.T, what string, hits, n int, share float64) {
	t.Helper()
	if d := math.Abs(float64(hits) - float64(n)*share); d > 3*math.Sqrt(float64(n)*share*(1-share)) {
		t.Errorf("%s: %d of %d, want %.4f of them", what, hits, n, share)
	}
}

// The intervals of quantiles cover exactly as often as the binomial says,
// whatever the distribution, and the nominal level is the least of it.
func TestCoverageOfQuantiles(t *testing.T) {
	const trials = 1000
	for _, c := range []struct {
		name string
		draw func(*rand.Rand) float64
		at   func(p float64) float64 // the true quantile
	}{
		{"lognormal", func(r *rand.Rand) float64 { return math.Exp(0.6 * r.NormFloat64()) }, func(p float64) float64 { return math.Exp(0.6 * math.Sqrt2 * math.Erfinv(2*p-1)) }},
		{"Pareto", func(r *rand.Rand) float64 { return math.Pow(1-r.Float64(), -1/1.5) }, func(p float64) float64 { return math.Pow(1-p, -1/1.5) }},
	} {
		for _, q := range []struct {
			n int
			p float64
		}{{6, 0.5}, {100, 0.5}, {100, 0.9}, {400, 0.99}} {
			rng := rand.New(rand.NewPCG(uint64(q.n), uint64(100*q.p)))
			truth := c.at(q.p)
			lo, hi, ok := stat.QuantileRanks(q.n, q.p, stat.Level)
			if !ok {
				t.Fatal(q)
			}
			exact := binomial(q.n, q.p, hi-1) - binomial(q.n, q.p, lo-1)
			if exact < stat.Level {
				t.Errorf("%v: covers %v by the binomial", q, exact)
			}
			x := make([]float64, q.n)
			hits := covers(trials, func() bool {
				for i := range x {
					x[i] = c.draw(rng)
				}
				slices.Sort(x)
				return x[lo-1] <= truth && truth < x[hi-1]
			})
			within(t, c.name+" quantile", hits, trials, exact)
		}
		const n, p = 700, 0.99
		rank, ok := stat.TailRank(n, p, stat.TailConfidence)
		if !ok {
			t.Fatal("no tail estimate of 700")
		}
		exact := binomial(n, p, rank-1) // P(at most rank-1 lie below): the estimate is not below
		if exact < stat.TailConfidence {
			t.Errorf("a tail estimate covers %v by the binomial", exact)
		}
		rng := rand.New(rand.NewPCG(7, 7))
		x := make([]float64, n)
		hits := covers(trials, func() bool {
			for i := range x {
				x[i] = c.draw(rng)
			}
			slices.Sort(x)
			return x[rank-1] >= c.at(p)
		})
		within(t, c.name+" tail", hits, trials, exact)
	}
}

// binomial is P(Bin(n, p) <= k) by its definition.
func binomial(n int, p float64, k int) (sum float64) {
	for i := 0; i <= k; i++ {
		sum += mass(n, i, p)
	}
	return sum
}

func mass(n, k int, p float64) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return math.Exp(a - b - c + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
}

// What Wilson's interval covers can be summed up without a draw.
func TestCoverageOfWilson(t *testing.T) {
	for _, share := range []float64{0.05, 0.2, 0.5, 0.9} {
		const n = 100
		var covered float64
		for k := range n + 1 {
			if lo, hi, _ := stat.Wilson(k, n, stat.Level); lo <= share && share <= hi {
				covered += mass(n, k, share)
			}
		}
		if covered < 0.93 || covered > 0.98 {
			t.Errorf("share %v: covers %v", share, covered)
		}
	}
}

// autoregressive fills x with a Gaussian series about 0 whose neighbours
// correlate by rho, begun in its steady state.
func autoregressive(x []float64, rho float64, rng *rand.Rand) {
	v := rng.NormFloat64() / math.Sqrt(1-rho*rho)
	for i := range x {
		v = rho*v + rng.NormFloat64()
		x[i] = v
	}
}

// M19: batch means cover a correlated mean nearly as often as they say; taking
// its values as independent does not come near.
func TestCoverageOfBatchMeans(t *testing.T) {
	const trials = 2000
	for _, c := range []struct {
		n     int
		rho   float64
		least float64
	}{{120, 0.6, 0.92}, {300, 0.6, 0.92}, {600, 0.6, 0.935}, {120, 0, 0.94}} {
		rng := rand.New(rand.NewPCG(uint64(c.n), 19))
		x := make([]float64, c.n)
		naive := 0
		hits := covers(trials, func() bool {
			autoregressive(x, c.rho, rng)
			at := func(i int) float64 { return x[i] }
			b, ok := stat.BatchMeans(c.n, at, stat.Level)
			sd, _ := stat.StdDev(c.n, at, b.Mean)
			if math.Abs(b.Mean) < 1.96*sd/math.Sqrt(float64(c.n)) {
				naive++
			}
			return ok && b.Low <= 0 && 0 <= b.High
		})
		if share := float64(hits) / trials; share < c.least || share > 0.965 {
			t.Errorf("%d values, rho %v: covers %v", c.n, c.rho, share)
		}
		if c.rho > 0 && naive > trials*3/4 {
			t.Errorf("%d values, rho %v: independence would cover %d of %d, so that the test shows nothing", c.n, c.rho, naive, trials)
		}
	}
}

// M18: at rho 0.6 four values are worth one.
func TestEffectiveN(t *testing.T) {
	x := make([]float64, 20_000)
	autoregressive(x, 0.6, rand.New(rand.NewPCG(18, 18)))
	rho, ok := stat.Spearman(x[:len(x)-1], x[1:])
	if n := stat.EffectiveN(len(x), rho); !ok || math.Abs(n-5000) > 0.15*5000 {
		t.Errorf("%v of 20000 (rho %v), want 5000", n, rho)
	}
	for _, c := range []struct {
		n         int
		rho, want float64
	}{{100, 0, 100}, {100, -0.5, 100}, {100, 1, 1}, {100, -1, 100}, {0, 0.5, 0}, {-1, 0, 0}, {90, 0.5, 30}, {7, math.NaN(), 7}, {7, 2, 7}} {
		if got := stat.EffectiveN(c.n, c.rho); got != c.want {
			t.Errorf("%d at %v: %v, want %v", c.n, c.rho, got, c.want)
		}
	}
}

// M9: Poisson arrivals pass as often as they should, also where the sum of the
// gaps is stretched to a given length; regular and bursty ones do not.
func TestGapsOfAPoissonProcess(t *testing.T) {
	const trials = 2000
	rng := rand.New(rand.NewPCG(9, 9))
	for _, n := range []int{20, 100, 500} {
		x := make([]float64, n)
		for _, alpha := range []float64{0.5, 0.05, 0.01} {
			hits := covers(trials, func() bool {
				for i := range x {
					x[i] = rng.ExpFloat64() / 7
				}
				k, ok := stat.GammaGaps(x, 1)
				return ok && k.P > alpha
			})
			// The table is for many gaps: 20 are off by 0.04 in the middle, not at its ends.
			if share := float64(hits) / trials; math.Abs(share-(1-alpha)) > 0.01+0.08*alpha {
				t.Errorf("%d gaps at %v: %v pass", n, alpha, share)
			}
		}
		for _, c := range []struct {
			name string
			draw func() float64
		}{
			{"constant", func() float64 { return 0.1 }},
			{"jittered", func() float64 { return 0.1 + 0.01*rng.Float64() }},
			{"bursty", func() float64 { return math.Pow(rng.ExpFloat64(), 4) }},
		} {
			for i := range x {
				x[i] = c.draw()
			}
			if k, ok := stat.GammaGaps(x, 1); !ok || k.P > 0.01 {
				t.Errorf("%d %s gaps pass as Poisson: %+v", n, c.name, k)
			}
		}
	}
}

// Of gaps of another shape p is a bound: more pass than should, never fewer.
func TestGapsOfOtherShapes(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 9))
	x := make([]float64, 200)
	hits := covers(1000, func() bool {
		for i := range x {
			x[i] = rng.ExpFloat64() + rng.ExpFloat64() // gamma of shape 2
		}
		k, ok := stat.GammaGaps(x, 2)
		return ok && k.Bound && k.P > 0.05
	})
	if hits < 950 {
		t.Errorf("%d of 1000 pass", hits)
	}
	for i := range x {
		x[i] = rng.ExpFloat64()
	}
	if k, ok := stat.GammaGaps(x, 2); !ok || k.P > 0.01 {
		t.Errorf("Poisson gaps pass as shape 2: %+v", k)
	}
}

// Nothing, too little and nonsense have no statistics, and no NaN comes out.
func TestTooFewOrNonsense(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	same := func(v float64, n int) []float64 { return slices.Repeat([]float64{v}, n) }
	for _, p := range []float64{0, 1, -1, 2, nan, inf} {
		if _, _, ok := stat.QuantileRanks(1000, p, 0.95); ok {
			t.Errorf("ranks at %v", p)
		}
		if _, _, ok := stat.QuantileRanks(1000, 0.5, p); ok {
			t.Errorf("ranks at level %v", p)
		}
		if _, ok := stat.TailRank(1000, p, 0.99); ok {
			t.Errorf("a tail at %v", p)
		}
		if stat.QuantileNeeds(p, 0.95) != 0 || stat.TailNeeds(0.5, p) != 0 {
			t.Errorf("samples that make up for %v", p)
		}
		if _, _, ok := stat.Wilson(1, 2, p); ok {
			t.Errorf("a share at level %v", p)
		}
	}
	for _, c := range [][2]int{{0, 0}, {1, 0}, {-1, 5}, {6, 5}, {0, -1}} {
		if _, _, ok := stat.Wilson(c[0], c[1], 0.95); ok {
			t.Errorf("a share of %v", c)
		}
	}
	for _, n := range []int{-1, 0, 1, 2, 5} {
		if _, _, ok := stat.QuantileRanks(n, 0.5, 0.95); ok {
			t.Errorf("ranks of %d", n)
		}
		if _, ok := stat.TailRank(n, 0.5, 0.99); ok {
			t.Errorf("a tail of %d", n)
		}
	}
	for _, x := range [][]float64{nil, {1}, {1, 1}, {2, 2, 2}, {1, nan, 2}, {1, inf, 2}, {1e308, -1e308, 1e308}} {
		if _, ok := stat.Pearson(x, x); ok && len(x) < 4 && (len(x) < 2 || x[0] == x[1] || x[1] != x[1]) {
			t.Errorf("a correlation of %v", x)
		}
		if f, ok := stat.Line(x, x, 0.95); ok && !(f.Low <= f.Slope && f.Slope <= f.High) {
			t.Errorf("a line through %v: %v", x, f)
		}
		if _, ok := stat.GammaGaps(x, 1); ok {
			t.Errorf("a test of %v", x)
		}
		if _, ok := stat.MSER5(x); ok {
			t.Errorf("a steady state of %v", x)
		}
		if _, ok := stat.BatchMeans(len(x), func(i int) float64 { return x[i] }, 0.95); ok {
			t.Errorf("batches of %v", x)
		}
	}
	if _, ok := stat.Spearman([]float64{1, 2, 3}, []float64{1, 2}); ok {
		t.Error("series of two lengths correlate")
	}
	for _, v := range []float64{nan, inf, -inf} {
		x := same(1, 100)
		x[50] = v
		if _, ok := stat.BatchMeans(100, func(i int) float64 { return x[i] }, 0.95); ok {
			t.Errorf("batches with %v", v)
		}
		if _, ok := stat.MSER5(x); ok {
			t.Errorf("a steady state with %v", v)
		}
		if _, ok := stat.GammaGaps(x, 1); ok {
			t.Errorf("a test of gaps with %v", v)
		}
	}
	for _, shape := range []float64{0, -1, nan, inf} {
		if _, ok := stat.GammaGaps(lcg(100), shape); ok {
			t.Errorf("gaps of shape %v", shape)
		}
	}
	if _, ok := stat.GammaGaps(same(0, 100), 1); ok {
		t.Error("gaps of no length were tested")
	}
	// Equal values: an interval of no width, no correlation, nothing to cut.
	x := same(0.1, 100)
	b, ok := stat.BatchMeans(100, func(i int) float64 { return x[i] }, 0.95)
	if !ok || b.Mean != 0.1 || b.Low != 0.1 || b.High != 0.1 || b.Rho != 0 {
		t.Errorf("equal values: %+v", b)
	}
	if cut, ok := stat.MSER5(x); !ok || cut != 0 {
		t.Errorf("equal values: MSER-5 cuts %d %v", cut, ok)
	}
	if rho, ok := stat.Spearman(x, x); ok {
		t.Errorf("equal values correlate by %v", rho)
	}
}

func BenchmarkQuantileRanks(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				stat.QuantileRanks(n, 0.9, stat.Level)
				stat.TailRank(n, 0.9, stat.TailConfidence)
			}
		})
	}
}

// A line through values that resemble their neighbours: the plain interval of
// its slope promises too much, the widened one nearly holds.
func TestCoverageOfSlopes(t *testing.T) {
	const trials, n = 2000, 60
	rng := rand.New(rand.NewPCG(20, 14))
	x, y := make([]float64, n), make([]float64, n)
	for i := range x {
		x[i] = float64(i)
	}
	plain := 0
	hits := covers(trials, func() bool {
		autoregressive(y, 0.6, rng)
		f, ok := stat.Line(x, y, stat.Level)
		if f.Low <= 0 && 0 <= f.High {
			plain++
		}
		w := f.Widened()
		return ok && w.Low <= 0 && 0 <= w.High
	})
	if hits < trials*88/100 || plain > trials*75/100 {
		t.Errorf("widened %d, plain %d of %d", hits, plain, trials)
	}
	if f := (stat.Fit{Slope: 1, Low: 0.5, High: 1.5, Rho: -0.5}); f.Widened() != f {
		t.Errorf("a negative correlation changes %v to %v", f, f.Widened())
	}
	if f := (stat.Fit{Slope: 1, Low: 0.5, High: 1.5, Rho: 1}).Widened(); math.IsInf(f.High, 1) || f.High <= 1.5 {
		t.Errorf("a correlation of 1 widens to %v", f)
	}
}
