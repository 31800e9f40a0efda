package stat_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/servebench/servebench/metrics/stat"
)

// trials are scipy's and counted values, by testdata/trials.py.
type trials struct {
	T             [][3]float64        `json:"t"`
	TP            [][3]float64        `json:"t_p"`
	SignFlip      []json.RawMessage   `json:"sign_flip"`
	HodgesLehmann [][]json.RawMessage `json:"hodges_lehmann"`
	MannWhitney   [][]json.RawMessage `json:"mann_whitney"`
	Holm          [][2][]float64      `json:"holm"`
}

func readTrials(t *testing.T) (out trials) {
	t.Helper()
	b, err := os.ReadFile("testdata/trials.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func close9(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

func decode(t *testing.T, from []json.RawMessage, to ...any) {
	t.Helper()
	for i, v := range to {
		if err := json.Unmarshal(from[i], v); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTrialsAgainstScipy(t *testing.T) {
	g := readTrials(t)
	for _, c := range g.T {
		if got := stat.StudentT(c[0], c[1]); !close9(got, c[2]) {
			t.Errorf("StudentT(%v, %v) = %v, want %v", c[0], c[1], got, c[2])
		}
	}
	for _, c := range g.TP {
		if got := stat.StudentP(c[0], c[1]); !close9(got, c[2]) {
			t.Errorf("StudentP(%v, %v) = %v, want %v", c[0], c[1], got, c[2])
		}
	}
	for _, raw := range g.SignFlip {
		var pair []json.RawMessage
		var d []float64
		var want float64
		if err := json.Unmarshal(raw, &pair); err != nil {
			t.Fatal(err)
		}
		decode(t, pair, &d, &want)
		if got, ok := stat.SignFlip(d); !ok || got != want {
			t.Errorf("SignFlip(%v) = %v, want %v", d, got, want)
		}
	}
	for _, raw := range g.HodgesLehmann {
		var d []float64
		var level, centre float64
		var low, high *float64
		decode(t, raw, &d, &level, &centre, &low, &high)
		c, l, h, ok := stat.HodgesLehmann(d, level)
		if low == nil {
			low, high = new(math.Inf(-1)), new(math.Inf(1))
		}
		if !ok || !close9(c, centre) || !close9(l, *low) && l != *low || !close9(h, *high) && h != *high {
			t.Errorf("HodgesLehmann(%v, %v) = %v [%v, %v], want %v [%v, %v]", d, level, c, l, h, centre, *low, *high)
		}
	}
	for _, raw := range g.MannWhitney {
		var x, y []float64
		var u, p float64
		decode(t, raw, &x, &y, &u, &p)
		if gotU, gotP, ok := stat.MannWhitney(x, y); !ok || gotU != u || !close9(gotP, p) {
			t.Errorf("MannWhitney(%v, %v) = %v, %v, want %v, %v", x, y, gotU, gotP, u, p)
		}
	}
	for _, c := range g.Holm {
		got := stat.Holm(c[0])
		for i := range got {
			if !close9(got[i], c[1][i]) {
				t.Errorf("Holm(%v) = %v, want %v", c[0], got, c[1])
				break
			}
		}
	}
}

// The published tables: t by Fisher and Yates; the largest W with P <= alpha, one
// more than which is the rank of the Walsh average; the least p of Mann and Whitney
// for n against n.
func TestPublishedTables(t *testing.T) {
	for _, c := range []struct{ p, df, want float64 }{
		{0.95, 7, 1.895}, {0.95, 4, 2.132}, {0.975, 7, 2.365}, {0.99, 9, 2.821}, {0.995, 10, 3.169}, {0.95, 30, 1.697},
	} {
		if got := stat.StudentT(c.p, c.df); math.Round(got*1000)/1000 != c.want {
			t.Errorf("t(%v, %v) = %v, want %v", c.p, c.df, got, c.want)
		}
	}
	// Wilcoxon's table, two-sided 5 %: critical values 0, 2, 3, 5, 8 for n = 6 to 10.
	for n, critical := range map[int]int{6: 0, 7: 2, 8: 3, 9: 5, 10: 8} {
		d, walsh := make([]float64, n), []float64{}
		for i := range d {
			d[i] = math.Pow(2, float64(i))
		}
		for i := range d {
			for _, v := range d[i:] {
				walsh = append(walsh, (d[i]+v)/2)
			}
		}
		slices.Sort(walsh)
		_, low, high, _ := stat.HodgesLehmann(d, 0.95)
		if low != walsh[critical] || high != walsh[len(walsh)-1-critical] {
			t.Errorf("n=%d: [%v, %v], want the averages at %d from either end", n, low, high, critical)
		}
	}
	for n, want := range map[int]float64{3: 1. / 20, 4: 1. / 70, 5: 1. / 252, 8: 1. / 12870} {
		x, y := make([]float64, n), make([]float64, n)
		for i := range n {
			x[i], y[i] = float64(i), float64(n+i)
		}
		if u, p, _ := stat.MannWhitney(x, y); u != 0 || !close9(p, want) {
			t.Errorf("%d against %d: U %v, p %v, want 0, %v", n, n, u, p, want)
		}
	}
	for n, want := range map[int]float64{4: 0.0625, 5: 0.03125, 8: 1. / 256} {
		d := make([]float64, n)
		for i := range d {
			d[i] = -float64(i + 1)
		}
		if p, _ := stat.SignFlip(d); p != want {
			t.Errorf("%d values below 0: p %v, want %v", n, p, want)
		}
	}
}

// Scale and label do not matter: units change no p, and what is worse for one side
// is better for the other.
func TestTrialsAreSymmetric(t *testing.T) {
	d := []float64{-0.031, 0.012, -0.024, -0.041, 0.003, -0.019, -0.008, -0.027}
	const scale = 1024 // exact
	scaled, turned := make([]float64, len(d)), make([]float64, len(d))
	for i, v := range d {
		scaled[i], turned[i] = v*scale, -v
	}
	p, _ := stat.SignFlip(d)
	if q, _ := stat.SignFlip(scaled); q != p {
		t.Errorf("scaled: p %v, want %v", q, p)
	}
	// Both sides count the pattern that was observed, and those that equal it.
	if q, _ := stat.SignFlip(turned); p+q < 1 || p+q > 1+2./256 {
		t.Errorf("turned: p %v and %v", p, q)
	}
	c, lo, hi, _ := stat.HodgesLehmann(d, 0.95)
	if a, b, e, _ := stat.HodgesLehmann(turned, 0.95); a != -c || b != -hi || e != -lo {
		t.Errorf("turned: %v [%v, %v], want %v [%v, %v]", a, b, e, -c, -hi, -lo)
	}
	if a, b, e, _ := stat.HodgesLehmann(scaled, 0.95); a != c*scale || b != lo*scale || e != hi*scale {
		t.Errorf("scaled: %v [%v, %v]", a, b, e)
	}
	x, y := []float64{3, 1, 4, 1.5}, []float64{2, 7, 1.8, 2.8, 1}
	u, _, _ := stat.MannWhitney(x, y)
	if v, _, _ := stat.MannWhitney(y, x); u+v != float64(len(x)*len(y)) {
		t.Errorf("U %v and %v do not sum to the pairs", u, v)
	}
	low, high, _ := stat.Bootstrap(d, 0.95, 2000)
	if a, b, _ := stat.Bootstrap(d, 0.95, 2000); a != low || b != high {
		t.Error("the bootstrap draws anew")
	}
	if a, b, _ := stat.Bootstrap(scaled, 0.95, 2000); a != low*scale || b != high*scale {
		t.Errorf("scaled bootstrap: [%v, %v], want [%v, %v]", a, b, low*scale, high*scale)
	}
	if !(low < c && c < high) {
		t.Errorf("bootstrap [%v, %v] is not about %v", low, high, c)
	}
}

func TestSample(t *testing.T) {
	for _, c := range []struct {
		v        []float64
		mean, sd float64
	}{{nil, 0, 0}, {[]float64{7}, 7, 0}, {[]float64{2, 4, 4, 4, 5, 5, 7, 9}, 5, math.Sqrt(32. / 7)}, {[]float64{3, 3, 3}, 3, 0}} {
		if mean, sd := stat.Sample(c.v); mean != c.mean || !close9(sd, c.sd) {
			t.Errorf("Sample(%v) = %v, %v, want %v, %v", c.v, mean, sd, c.mean, c.sd)
		}
	}
}

func TestTrialsOfNothing(t *testing.T) {
	nan := []float64{1, math.NaN()}
	for name, ok := range map[string]bool{
		"flip none":    second(stat.SignFlip(nil)),
		"flip NaN":     second(stat.SignFlip(nan)),
		"flip many":    second(stat.SignFlip(make([]float64, stat.MostFlipped+1))),
		"mann none":    third(stat.MannWhitney(nil, d1)),
		"mann NaN":     third(stat.MannWhitney(d1, nan)),
		"mann many":    third(stat.MannWhitney(make([]float64, 51), d1)),
		"boot one":     third(stat.Bootstrap(d1, 0.95, 10)),
		"boot level":   third(stat.Bootstrap([]float64{1, 2}, 1, 10)),
		"boot nothing": third(stat.Bootstrap([]float64{1, 2}, 0.95, 0)),
		"boot NaN":     third(stat.Bootstrap(nan, 0.95, 10)),
		"walsh none":   fourth(stat.HodgesLehmann(nil, 0.95)),
		"walsh level":  fourth(stat.HodgesLehmann(d1, 0)),
		"walsh NaN":    fourth(stat.HodgesLehmann(nan, 0.95)),
	} {
		if ok {
			t.Errorf("%s: ok", name)
		}
	}
	for _, v := range []float64{stat.StudentT(0, 3), stat.StudentT(1, 3), stat.StudentT(0.5, 0), stat.StudentP(math.NaN(), 3), stat.StudentP(1, 0.5)} {
		if !math.IsNaN(v) {
			t.Errorf("%v of nothing", v)
		}
	}
	if got := stat.Holm([]float64{0.02, math.NaN(), 0.01}); got[0] != 0.02 || !math.IsNaN(got[1]) || got[2] != 0.02 {
		t.Errorf("Holm with a hole: %v", got)
	}
}

var d1 = []float64{1}

func second(_ float64, ok bool) bool       { return ok }
func third(_, _ float64, ok bool) bool     { return ok }
func fourth(_, _, _ float64, ok bool) bool { return ok }
