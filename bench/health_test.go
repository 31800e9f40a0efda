package bench

import (
	"math"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"
)

func TestP99Of(t *testing.T) {
	inf := math.Inf(1)
	h := func(counts ...uint64) *metrics.Float64Histogram {
		return &metrics.Float64Histogram{Counts: counts, Buckets: []float64{0, 0.001, 0.002, inf}[:len(counts)+1]}
	}
	for _, c := range []struct {
		name          string
		before, after *metrics.Float64Histogram
		want          float64 // ms; -1 is none
	}{
		{"none", nil, nil, -1},
		{"nothing added", h(5, 5, 5), h(5, 5, 5), -1},
		{"other buckets", h(1, 1), h(1, 1, 1), -1},
		{"one in a hundred is above", h(9, 9, 9), h(9+99, 9+1, 9), 1},
		{"two in a hundred are above", h(0, 0, 0), h(98, 2, 0), 2},
		{"the last bucket has no upper bound", h(0, 0, 0), h(0, 0, 3), 2},
	} {
		got := -1.0
		if v := p99Of(c.before, c.after); v != nil {
			got = *v
		}
		if got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// The watcher wakes on time in virtual time, looks at the processor once a second,
// and is gone when it was told to end.
func TestHealthWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := watchHealth()
		time.Sleep(3500 * time.Millisecond)
		v := h.end()
		if len(h.processor) != 3 || v.CPU == nil || *v.Canary != 0 {
			t.Errorf("%d seconds, %+v", len(h.processor), v)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if v := watchHealth().end(); v.CPU != nil {
			t.Errorf("%v of no second", *v.CPU)
		}
	})
}
