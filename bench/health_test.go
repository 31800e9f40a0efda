package bench

import (
	"fmt"
	"math"
	"reflect"
	rt "runtime/metrics"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/servebench/servebench/metrics"
)

func TestTailOf(t *testing.T) {
	inf := math.Inf(1)
	h := func(counts ...uint64) *rt.Float64Histogram {
		return &rt.Float64Histogram{Counts: counts, Buckets: []float64{0, 0.001, 0.002, inf}[:len(counts)+1]}
	}
	for _, c := range []struct {
		name          string
		before, after *rt.Float64Histogram
		q             float64
		want          float64 // ms; -1 is none
	}{
		{"none", nil, nil, 0.99, -1},
		{"nothing added", h(5, 5, 5), h(5, 5, 5), 0.99, -1},
		{"other buckets", h(1, 1), h(1, 1, 1), 0.99, -1},
		{"one in a hundred is above", h(9, 9, 9), h(9+99, 9+1, 9), 0.99, 1},
		{"two in a hundred are above", h(0, 0, 0), h(98, 2, 0), 0.99, 2},
		{"the last bucket has no upper bound", h(0, 0, 0), h(0, 0, 3), 0.99, 2},
		{"the largest", h(0, 7, 0), h(999, 8, 0), 1, 2},
	} {
		got, ok := tailOf(c.before, c.after, c.q)
		if ok != (c.want >= 0) || ok && got != c.want || !ok && !math.IsNaN(got) {
			t.Errorf("%s: %v %v, want %v", c.name, got, ok, c.want)
		}
	}
}

// The watcher wakes on time in virtual time, looks at the process once a second and
// at the end, and is gone when it was told to end.
func TestHealthWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := 3
		h := watchHealth(func() int { open--; return open + 1 }, nil)
		time.Sleep(2700 * time.Millisecond)
		v := h.end()
		var ends []time.Duration
		for _, w := range v.windows {
			ends = append(ends, w.end)
		}
		if fmt.Sprint(ends) != "[1s 2s 2.7s]" || v.CPU == nil || *v.Wake != 0 || *v.WakeP99 > 0.01 || *v.Conns != 3 || v.ClockOffset != 0 || *v.RSS < 1<<20 {
			t.Errorf("%v, %+v", ends, v)
		}
		if v.Files == nil || *v.Files < 3 || *v.FilesLimit < *v.Files || *v.Ports < 3 || *v.PortsLimit < 1 {
			t.Errorf("%+v", v)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		if v := watchHealth(nil, nil).end(); v.CPU != nil || v.Wake != nil || v.Conns != nil || v.PortsLimit != nil || len(v.windows) != 0 {
			t.Errorf("%+v of no time", v)
		}
	})
}

// A watcher that slept through a second would have been late at a hundred turns: they
// count too, or standing still would weigh as little as one turn.
func TestHealthCountsTheTurnsSleptThrough(t *testing.T) {
	h, none := newWakes(), newWakes()
	for range 6600 {
		noteWake(&h, 0)
	}
	noteWake(&h, -time.Millisecond)
	if got, ok := tailOf(&none, &h, 1); !ok || got != 0.01 {
		t.Errorf("%v ms, want the least there is", got)
	}
	noteWake(&h, time.Second) // 1000 ms, 990 ms, ... 10 ms: 1.5 % of all
	if got, _ := tailOf(&none, &h, 0.99); got < 320 || got > 400 {
		t.Errorf("p99 %v ms, want that of 330 ms", got)
	}
	noteWake(&h, 100*time.Hour)
}

// A clock that is set and set back again is seen, though its ends agree.
func TestHealthSeesTheClockSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		h := watchHealth(nil, func(now time.Time) time.Time {
			if d := now.Sub(began); d > time.Second && d < 2500*time.Millisecond {
				return now.Add(-time.Hour)
			}
			return now
		})
		time.Sleep(4 * time.Second)
		if v := h.end(); v.ClockOffset != -time.Hour || v.windows[3].offset != 0 {
			t.Errorf("%v, %+v", v.ClockOffset, v.windows)
		}
	})
}

// The memory of a watch is bounded; what was the most and what was the mean stays so.
func TestHealthJoinsWindows(t *testing.T) {
	h := &health{}
	for i := range 5 {
		w := unknown
		w.end, w.cpu, w.wake, w.throttled, w.offset = time.Duration(i+1)*time.Second, float64(i), float64(10-i), 1, float64(-i)
		h.windows = append(h.windows, w)
	}
	h.windows[1].wake = math.NaN()
	h.join()
	want := [][5]float64{{2, 0.5, 10, 2, -1}, {4, 2.5, 8, 2, -3}, {5, 4, 6, 1, -4}}
	var got [][5]float64
	for _, w := range h.windows {
		got = append(got, [5]float64{w.end.Seconds(), w.cpu, w.wake, w.throttled, w.offset})
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestSpread(t *testing.T) {
	const s = time.Second
	// Windows are told by their CPU share; - is a slice without any.
	for _, c := range []struct {
		name    string
		ends    []time.Duration
		watched time.Duration
		width   time.Duration
		n       int
		want    string
	}{
		{"none", nil, 0, s, 2, "- -"},
		{"one each", []time.Duration{s, 2 * s, 2300 * time.Millisecond}, -time.Millisecond, s, 3, "1 2 3"},
		{"the watch began long before", []time.Duration{s, 2 * s, 3 * s}, -200 * time.Millisecond, s, 3, "1 2 3"},
		{"a window of three seconds", []time.Duration{s, 4 * s, 5 * s}, 0, s, 5, "1 2 2 2 3"},
		{"two to a slice", []time.Duration{s, 2 * s, 3 * s}, 0, 2 * s, 2, "1.5 3"},
		{"a window beyond the run", []time.Duration{s, 9 * s}, 0, s, 2, "1 2"},
		{"a run of no length", []time.Duration{s}, 0, s, 1, "1"},
	} {
		var windows []window
		for i, end := range c.ends {
			w := unknown
			w.end, w.cpu = end, float64(i+1)
			windows = append(windows, w)
		}
		var got []string
		for _, w := range spread(windows, c.watched, c.width, c.n) {
			text := fmt.Sprint(w.cpu)
			got = append(got, strings.ReplaceAll(text, "NaN", "-"))
		}
		if g := strings.Join(got, " "); g != c.want {
			t.Errorf("%s: %s, want %s", c.name, g, c.want)
		}
	}
}

// The series has a column for everything that was seen, all of one length.
func TestSeriesHasTheProcess(t *testing.T) {
	records := []metrics.Record{{Outcome: metrics.OK, Sent: 1, Done: 2500 * time.Millisecond}}
	s := metrics.SeriesOf(records, metrics.Options{})
	w := unknown
	w.end, w.gc, w.used, w.rss, w.files = time.Second, 0.5, 2, 5<<20, 7
	(&vitals{windows: []window{w}}).addTo(&s, 0)
	for _, c := range s.Columns {
		if len(c.Values) != 3 {
			t.Errorf("%s has %d values", c.Name, len(c.Values))
		}
	}
	b, err := s.MarshalJSON()
	const want = `{"descriptors":[7,null,null],"events_per_s":[0,0,0],"gc_cpu":[0.25,null,null],"in_flight":[1,1,1],"interval_s":1,"resident_mib":[5,null,null],"sends_per_s":[1,0,0]}`
	if err != nil || string(b) != want {
		t.Errorf("%s %v", b, err)
	}
}

// What others leave in TIME_WAIT is not ours.
func TestPortsAreBounded(t *testing.T) {
	v := vitals{Conns: ptr(8), Ports: ptr(9000), windows: []window{{ports: 9}, {ports: 9000}, unknown}}
	v.boundPorts(2)
	if *v.Ports != 10 || v.windows[0].ports != 9 || v.windows[1].ports != 10 || !math.IsNaN(v.windows[2].ports) {
		t.Errorf("%d, %+v", *v.Ports, v.windows)
	}
	(&vitals{Ports: ptr(3)}).boundPorts(0)
}
