package metrics_test

import (
	"slices"
	"testing"
	"time"

	"github.com/servebench/servebench/metrics"
)

// Two requests of 400 ms, the second 200 ms after the first: slices of 100 ms with
// 1, 1, 2, 2, 1, 1 in flight; a token every 100 ms counts where it comes.
func TestCourse(t *testing.T) {
	const ms = time.Millisecond
	var records []metrics.Record
	for i := range 2 {
		sent := time.Duration(i) * 200 * ms
		r := metrics.Record{Seq: i, Sent: sent, Done: sent + 400*ms, Outcome: metrics.OK, OutputTokens: 4, TokenSource: metrics.FromUsage}
		for j := range 4 {
			r.Arrivals = append(r.Arrivals, sent+time.Duration(j)*100*ms+50*ms)
		}
		records = append(records, r)
	}
	records = append(records, metrics.Record{Sent: 999 * ms, Done: 9999 * ms}) // was never sent
	c := metrics.CourseOf(records)
	if c.Slice != 100*ms || !slices.Equal(c.InFlight, []float64{1, 1, 2, 2, 1, 1}) || !slices.Equal(c.TokenRate, []float64{10, 10, 20, 20, 10, 10}) {
		t.Errorf("%+v", c)
	}
	if c := metrics.CourseOf(nil); c.Slice != 0 || c.TokenRate != nil {
		t.Errorf("of nothing: %+v", c)
	}
}

// A long run has slices of more than a second, one under a minute has sixty.
func TestCourseHasFewSlices(t *testing.T) {
	for _, c := range []struct {
		run  time.Duration
		want int
	}{{50 * time.Millisecond, 1}, {time.Second, 10}, {30 * time.Second, 60}, {100 * time.Second, 100}, {time.Hour, 240}} {
		r := []metrics.Record{{Done: c.run, Outcome: metrics.Reset}}
		if got := metrics.CourseOf(r); len(got.InFlight) != c.want || got.InFlight[c.want-1] != 1 {
			t.Errorf("%v: %d slices, want %d: %v", c.run, len(got.InFlight), c.want, got.InFlight)
		}
	}
}

func TestAlike(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	batches := &metrics.Estimate{Batches: 5}
	for _, c := range []struct {
		name string
		in   metrics.Independence
		want bool
	}{
		{"nothing known", metrics.Independence{N: 100}, false},
		{"independent", metrics.Independence{N: 100, Rho: f(.1), EffectiveN: f(82)}, false},
		{"half is worth nothing", metrics.Independence{N: 100, Rho: f(.4), EffectiveN: f(43)}, true},
		{"that may be chance in ten", metrics.Independence{N: 10, Rho: f(.5), EffectiveN: f(3)}, false},
		{"the batches show it", metrics.Independence{N: 1000, Rho: f(0), EffectiveN: f(100), Mean: batches}, true},
		{"they may be so by chance", metrics.Independence{N: 1000, Rho: f(0), EffectiveN: f(400), Mean: batches}, false},
	} {
		if got := c.in.Alike(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
