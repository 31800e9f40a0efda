package metrics_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/servebench/servebench/metrics"
)

func TestSlices(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		length time.Duration
		n      int
		width  time.Duration
	}{
		{0, 1, s}, {-s, 1, s}, {1, 1, s}, {s, 1, s}, {s + 1, 2, s}, {600 * s, 600, s},
		{600*s + 1, 301, 2 * s}, {1200 * s, 600, 2 * s}, {6 * time.Hour, 600, 36 * s}, {1000 * time.Hour, 600, 6000 * s},
	} {
		if n, width := metrics.Slices(c.length); n != c.n || width != c.width {
			t.Errorf("%v: %d of %v, want %d of %v", c.length, n, width, c.n, c.width)
		}
	}
}

// Two requests of an open loop, every figure by hand: the first is in flight for all
// of the second slice, the second was sent late in the third.
func TestSeriesByHand(t *testing.T) {
	const s = time.Second
	records := []metrics.Record{
		{Outcome: metrics.OK, Due: 0, Slot: 200 * ms, Sent: 500 * ms, Done: 2250 * ms,
			Arrivals: []time.Duration{900 * ms, 900 * ms, 1500 * ms, 2 * s}, RxDelay: []time.Duration{ms, ms, 3 * ms, 2 * ms}},
		{Outcome: metrics.Reset, Due: 2 * s, Slot: 2 * s, Sent: 2100 * ms, Done: 2500 * ms},
		{Outcome: metrics.Dropped, Due: 2 * s, Slot: 2 * s},
		{},
	}
	got := metrics.SeriesOf(records, metrics.Options{OpenLoop: true})
	b, err := json.Marshal(&got)
	const want = `{"due_per_s":[1,0,4],"events_per_read":[2,1,1],"events_per_s":[2,1,2],"in_flight":[0.5,1,1.3],"interval_s":1,` +
		`"lag_max_ms":[300,null,100],"lag_p99_ms":[300,null,100],"queue_wait_max_ms":[200,null,0],"queue_wait_p99_ms":[200,null,0],` +
		`"rx_delay_max_ms":[1,3,2],"rx_delay_p99_ms":[1,3,2],"sends_per_s":[1,0,2]}`
	if err != nil || string(b) != want {
		t.Errorf("%v\n got %s\nwant %s", err, b, want)
	}
	// A closed loop has no queue_wait, and the lag of its first fill is left out.
	closed := []metrics.Record{{Outcome: metrics.OK, Sent: 400 * ms, Done: s}}
	got = metrics.SeriesOf(closed, metrics.Options{})
	if b, err = json.Marshal(&got); string(b) != `{"events_per_s":[0],"in_flight":[0.6],"interval_s":1,"sends_per_s":[1]}` || err != nil {
		t.Errorf("%s %v", b, err)
	}
	if v := got.Column("lag_p99_ms"); len(v) != 1 || !math.IsNaN(v[0]) || got.Column("x") != nil {
		t.Errorf("%v", v)
	}
	if empty := metrics.SeriesOf(nil, metrics.Options{}); len(empty.Column("in_flight")) != 1 {
		t.Errorf("%+v", empty)
	}
}

// A p99 is at most 3.2 % or 1.024 µs above the order statistic, never above the
// maximum, whatever the size of the samples.
func TestSeriesTail(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 1))
	for _, scale := range []time.Duration{300, 50 * time.Microsecond, ms, 10 * time.Minute} {
		var records []metrics.Record
		var lags []time.Duration
		for range 700 {
			d := time.Duration(r.ExpFloat64() * float64(scale))
			lags = append(lags, d)
			records = append(records, metrics.Record{Outcome: metrics.OK, Due: 1, Slot: 1, Sent: 1 + d, Done: 1 + d})
		}
		// All in one slice: the run is shorter than one, or the slice is that long.
		for i := range records {
			records[i].Slot, records[i].Due, records[i].Sent = records[i].Slot-records[i].Sent+1, records[i].Slot-records[i].Sent+1, 1
		}
		s := metrics.SeriesOf(records, metrics.Options{OpenLoop: true})
		slices.Sort(lags)
		exact, most := float64(lags[692])/1e6, float64(lags[699])/1e6
		p99 := s.Column("lag_p99_ms")[0]
		if p99 < exact || p99 > max(exact*1.032, exact+0.001024) || p99 > most || s.Column("lag_max_ms")[0] != most {
			t.Errorf("%v: p99 %v, exact %v, max %v", scale, p99, exact, most)
		}
	}
}

// Whatever the records say there is one value a slice, sums hold, and JSON can be
// written.
func FuzzSeries(f *testing.F) {
	f.Add(int64(5), int64(1e9), int64(3e12), int64(7), true)
	f.Add(int64(-5), int64(-1e9), int64(math.MaxInt64), int64(math.MinInt64), false)
	f.Fuzz(func(t *testing.T, slot, sent, done, arrival int64, open bool) {
		d := func(v int64) time.Duration { return time.Duration(v) }
		records := []metrics.Record{{Outcome: metrics.OK, Due: d(slot), Slot: d(slot), Sent: d(sent), Done: d(done),
			Arrivals: []time.Duration{d(arrival), d(arrival), d(done)}, RxDelay: []time.Duration{d(slot), d(arrival)}}}
		s := metrics.SeriesOf(records, metrics.Options{OpenLoop: open})
		n, width := metrics.Slices(d(max(done, 0)))
		for _, c := range s.Columns {
			if len(c.Values) != n || s.Width != width {
				t.Fatalf("%s has %d values of %v, want %d of %v", c.Name, len(c.Values), s.Width, n, width)
			}
		}
		b, err := json.Marshal(&s)
		if err != nil || !json.Valid(b) {
			t.Fatal(err)
		}
	})
}

// The series is made in linear time: 16 events a request.
func BenchmarkSeriesOf(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			records := make([]metrics.Record, n)
			for i := range records {
				at := time.Duration(i) * ms
				records[i] = metrics.Record{Outcome: metrics.OK, Due: at, Slot: at, Sent: at + 1000, Done: at + 400*ms}
				for k := range 16 {
					records[i].Arrivals = append(records[i].Arrivals, at+time.Duration(k+1)*25*ms)
					records[i].RxDelay = append(records[i].RxDelay, time.Duration(10_000*k))
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				metrics.SeriesOf(records, metrics.Options{OpenLoop: true})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
		})
	}
}
