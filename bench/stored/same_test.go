package stored

import "testing"

// A result has its duration from Duration.Seconds, a manifest from a division: these
// are of one run, and one of a nanosecond more is not.
func TestOfSameRun(t *testing.T) {
	run := func(duration float64) *Run {
		return &Run{Completed: 64, OutputTokens: 2048, Metrics: []Metric{{Name: "duration", Value: duration}}}
	}
	for _, c := range []struct {
		a, b float64
		want bool
	}{{2.655133956, 2.6551339560000002, true}, {2.655133956, 2.655133957, false}, {86400.123456789, 86400.12345678899, true}} {
		if got := run(c.a).OfSameRun(run(c.b)); got != c.want {
			t.Errorf("%v and %v: %v", c.a, c.b, got)
		}
	}
}
