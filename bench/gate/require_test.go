package gate

import (
	"errors"
	"math"
	"strings"
	"testing"
)

var metricsOfTest = map[string]Unit{
	"output_throughput": PerSecond, "p99_ttft": Milliseconds, "p50_itl": Milliseconds, "mean_itl": Milliseconds,
	"completed": Number, "duration": Seconds, "goodput_share": Fraction,
}

func knownOfTest(name string) (Unit, bool) { u, ok := metricsOfTest[name]; return u, ok }

func parse(text string) (Requirement, error) {
	return ParseRequirement(text, knownOfTest, []string{"completed", "duration", "mean_itl", "output_throughput", "p50_itl", "p99_ttft"})
}

func TestRequirements(t *testing.T) {
	base := 10.0
	for _, c := range []struct {
		text, metric string
		value        float64
		want         Verdict
		bound        float64
	}{
		{"output_throughput >= 900", "output_throughput", 900, Pass, 900},
		{"output_throughput>=900tok/s", "output_throughput", 899.9, Fail, 900},
		{"p99_ttft < 500ms", "p99_ttft", 500, Fail, 500},
		{"p99_ttft_ms < 0.5s", "p99_ttft", 499, Pass, 500},
		{"p99_ttft <= 500e3us", "p99_ttft", 500, Pass, 500e3 * 1e-3},
		{" itl.p50 <= base+3% ", "p50_itl", 10.3, Pass, 10 * 1.03},
		{"itl.p50 <= base + 3%", "p50_itl", 10.31, Fail, 10 * 1.03},
		{"itl.mean<base", "mean_itl", 10, Fail, 10},
		{"itl.mean > base-2ms", "mean_itl", 8.5, Pass, 8},
		{"output_throughput >= base - 5%", "output_throughput", 9.5, Pass, 9.5},
		{"completed >= 100", "completed", 100, Pass, 100},
		{"duration < 2m", "duration", 119, Pass, 120},
		{"goodput_share >= 99%", "goodput_share", 0.991, Pass, 0.99},
		{"goodput_share >= 0.99", "goodput_share", 0.98, Fail, 0.99},
	} {
		r, err := parse(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		f := r.Check(&c.value, &base)
		if r.Metric != c.metric || f.Verdict != c.want || math.Abs(*f.Bound-c.bound) > 1e-9 {
			t.Errorf("%s: %+v bound %v, want %s %v bound %v", c.text, f, *f.Bound, c.metric, c.want, c.bound)
		}
	}
}

func TestRequirementsThatCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		text string
		at   int
		says string
	}{
		{"", 0, "name of a metric"},
		{"  >= 9", 2, "name of a metric"},
		{"p90_ttft < 5ms", 0, "want p99_ttft"},
		{"throughput > 5", 0, "output_throughput"},
		{"p99_ttft == 5ms", 9, "< <= > >="},
		{"p99_ttft 5ms", 9, "< <= > >="},
		{"p99_ttft < 500", 14, "us, ms or s"},
		{"p99_ttft < 500h", 14, "us, ms or s"},
		{"p99_ttft < fast", 11, "a number, or base"},
		{"p99_ttft < -5ms", 11, "a number, or base"},
		{"p99_ttft < NaN", 11, "a number, or base"},
		{"p99_ttft < 1e999ms", 11, "a number"},
		{"p99_ttft < 5ms or 7ms", 15, "nothing more"},
		{"output_throughput > 5ms", 21, "nothing behind"},
		{"output_throughput > base+3", 26, "%"},
		{"itl.p50 <= base*2", 15, "+ or -"},
		{"itl.p50 <= base+3", 17, "us, ms or s"},
		{"itl.p50 <= base-100%", 16, "less than 100"},
		{"itl.p50 <= baseline", 15, "+ or -"},
		{"itl.p50.x <= 3ms", 0, "p50_itl"},
	} {
		_, err := parse(c.text)
		var s *SyntaxError
		if !errors.As(err, &s) || s.At != c.at || !strings.Contains(s.Want, c.says) {
			t.Errorf("%q: %+v, want at %d … %s", c.text, err, c.at, c.says)
			continue
		}
		lines := strings.Split(err.Error(), "\n")
		if got := strings.Index(lines[len(lines)-1], "^"); got != 4+c.at {
			t.Errorf("%q: the caret stands at %d, want %d", c.text, got-4, c.at)
		}
	}
}

// What is absent, not a number, or 0 in the baseline never passes.
func TestNothingNeverPasses(t *testing.T) {
	r, err := parse("itl.p50 <= base+3%")
	if err != nil || !r.NeedsBase() {
		t.Fatal(err)
	}
	v, zero, nan, inf := 1.0, 0.0, math.NaN(), math.Inf(1)
	for _, c := range [][2]*float64{{nil, &v}, {&v, nil}, {&v, &zero}, {&nan, &v}, {&v, &nan}, {&v, &inf}, {&inf, &v}} {
		if f := r.Check(c[0], c[1]); f.Verdict != Inconclusive || f.Reason == "" {
			t.Errorf("%+v", f)
		}
	}
}

// A 0 of what cannot be 0 is no measurement, and none is below 0.
func TestZeroNeverPasses(t *testing.T) {
	for _, c := range []struct {
		text  string
		value float64
		want  Verdict
	}{
		{"output_throughput >= 0", 0, Inconclusive}, {"output_throughput >= 1", 0, Fail}, {"output_throughput >= 0", -1, Inconclusive}, {"output_throughput > 5", -1, Inconclusive},
		{"p99_ttft < 500ms", 0, Inconclusive}, {"p99_ttft < 500ms", -1, Inconclusive}, {"duration < 2m", 0, Inconclusive},
		{"itl.p50 < 5ms", 0, Pass}, {"completed <= 0", 0, Pass}, {"completed <= 5", -1, Inconclusive},
	} {
		r, err := parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if f := r.Check(&c.value, nil); f.Verdict != c.want {
			t.Errorf("%s of %v: %+v, want %v", c.text, c.value, f, c.want)
		}
	}
}

func FuzzParseRequirement(f *testing.F) {
	for _, s := range []string{"output_throughput >= 900", "itl.p50 <= base+3%", "p99_ttft < 5e", "p99_ttft < 1e5ms", "\x00\xff", "é < 3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parse(s)
		if err != nil {
			var e *SyntaxError
			if !errors.As(err, &e) || e.At < 0 || e.At > len(s) || err.Error() == "" {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		if math.IsNaN(r.value) || math.IsInf(r.value, 0) || r.share <= -1 {
			t.Errorf("%q: %+v", s, r)
		}
	})
}
