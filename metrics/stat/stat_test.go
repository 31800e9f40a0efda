package stat_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/servebench/servebench/metrics/stat"
)

// golden is one set of values and what numpy 2.4.6 makes of it; mean is
// math.fsum(x)/n. Written by ../testdata/oracle.py stat.
type golden struct {
	X    []float64 // nil: lcg(N)
	N    int
	P    map[string]float64
	Mean float64
	Std  *float64
}

// lcg makes the numbers of oracle.py's function of that name.
func lcg(n int) []float64 {
	x, out := uint64(1), make([]float64, n)
	for i := range out {
		x = x*6364136223846793005 + 1442695040888963407
		out[i] = float64(x>>33) / (1 << 20)
	}
	return out
}

func goldens(t *testing.T) map[string]golden {
	t.Helper()
	data, err := os.ReadFile("testdata/numpy.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]golden
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	for name, g := range all {
		if g.X == nil {
			g.X = lcg(g.N)
		}
		slices.Sort(g.X)
		all[name] = g
	}
	return all
}

func near(got, want, rel float64) bool { return math.Abs(got-want) <= rel*math.Abs(want) }

// numpy does the same operations in the same order, so nothing may differ: not
// in the last bit either.
func TestQuantileIsNumpysBitForBit(t *testing.T) {
	for name, g := range goldens(t) {
		for ps, want := range g.P {
			p, err := strconv.ParseFloat(ps, 64)
			if err != nil {
				t.Fatal(err)
			}
			got, ok := stat.Quantile(g.N, func(i int) float64 { return g.X[i] }, p/100)
			if !ok || got != want {
				t.Errorf("%s p%v: %v, numpy has %v (off by %g)", name, p, got, want, got-want)
			}
		}
	}
}

// numpy sums in pairs and squares, so that the last places are its own.
func TestMeanAndStdDevAreNumpys(t *testing.T) {
	for name, g := range goldens(t) {
		at := func(i int) float64 { return g.X[i] }
		mean, ok := stat.Mean(g.N, at)
		if !ok || !near(mean, g.Mean, 0x1p-52) {
			t.Errorf("%s: mean %v, want %v", name, mean, g.Mean)
		}
		if g.Std == nil {
			continue
		}
		// Where the spread is 10^-12 of the mean, numpy's own mean is worth no more digits.
		if sd, ok := stat.StdDev(g.N, at, mean); !ok || !near(sd, *g.Std, 1e-9) && math.Abs(sd-*g.Std) > 0x1p-52*mean {
			t.Errorf("%s: standard deviation %v, numpy has %v", name, sd, *g.Std)
		}
	}
}

// 49 times 0.1 is 4.9 when rounded, but 4.9/49 is not 0.1.
func TestEqualValuesHaveNoSpread(t *testing.T) {
	for n := 1; n < 300; n++ {
		for _, v := range []float64{0.1, 1e-9, 12.345678, 1e15 / 3} {
			at := func(int) float64 { return v }
			mean, _ := stat.Mean(n, at)
			sd, _ := stat.StdDev(n, at, mean)
			if mean != v || sd != 0 {
				t.Fatalf("%d times %v: mean %v, standard deviation %v", n, v, mean, sd)
			}
		}
	}
}

// A wrong mean by the last place does not become spread.
func TestStdDevForgivesTheMeansRounding(t *testing.T) {
	x := []float64{1e9, 1e9 + 1, 1e9 + 2} // variance 2/3 by hand
	sd, _ := stat.StdDev(3, func(i int) float64 { return x[i] }, 1e9+1+1e-6)
	if want := math.Sqrt(2. / 3); !near(sd, want, 1e-12) {
		t.Errorf("%v, want %v", sd, want)
	}
}

func TestNothingHasNoStatistics(t *testing.T) {
	none := func(int) float64 { t.Error("asked for a value"); return 0 }
	if _, ok := stat.Quantile(0, none, 0.5); ok {
		t.Error("a quantile of nothing")
	}
	if _, ok := stat.Mean(0, none); ok {
		t.Error("a mean of nothing")
	}
	if _, ok := stat.StdDev(0, none, 0); ok {
		t.Error("a spread of nothing")
	}
	for _, p := range []float64{-0.1, 1.1, math.NaN(), math.Inf(1)} {
		if _, ok := stat.Quantile(3, none, p); ok {
			t.Errorf("a quantile at %v", p)
		}
	}
}
