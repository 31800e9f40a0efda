package metrics

import (
	"encoding/json"
	"math"
	"math/bits"
	"strconv"
	"time"
)

// slicesMax bounds the slices of a [Series]: a longer run has slices of more
// seconds.
const slicesMax = 600

// Series is what happened in each slice of a run, from schedule zero on, column by
// column. The zero value has no columns.
type Series struct {
	// Width is the length of a slice in whole seconds; the last one may be shorter.
	Width time.Duration
	// Columns are all as long as there are slices.
	Columns []Column
}

// Column is one figure of every slice.
type Column struct {
	Name   string    // the unit is its last word where there is one
	Values []float64 // NaN where there was nothing to measure
}

// Slices is how many slices a run of that length has, and how long each is.
func Slices(length time.Duration) (n int, width time.Duration) {
	length = max(length, 1)
	const most = slicesMax * time.Second
	width = (1 + (length-1)/most) * time.Second
	return int(1 + (length-1)/width), width
}

// Column returns a column's values; nil where there is none of that name.
func (s *Series) Column(name string) []float64 {
	for _, c := range s.Columns {
		if c.Name == name {
			return c.Values
		}
	}
	return nil
}

// Add puts a column at the end; values must be as long as the others.
func (s *Series) Add(name string, values []float64) {
	s.Columns = append(s.Columns, Column{name, values})
}

// Plain is the series as JSON has it: interval_s, then an array a column, with nil for
// what was not measured and four digits a number. Columns without any are left out.
func (s *Series) Plain() map[string]any {
	out := map[string]any{"interval_s": s.Width.Seconds()}
	for _, c := range s.Columns {
		if none(c.Values) {
			continue
		}
		values := make([]any, len(c.Values))
		for i, v := range c.Values {
			values[i] = short(v)
		}
		out[c.Name] = values
	}
	return out
}

// MarshalJSON writes [Series.Plain], in the order of the columns' names.
func (s *Series) MarshalJSON() ([]byte, error) { return json.Marshal(s.Plain()) }

func none(values []float64) bool {
	for _, v := range values {
		if !math.IsNaN(v) {
			return false
		}
	}
	return true
}

// short is v in four digits, whole numbers in all of theirs; nil where it is none.
func short(v float64) any {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return nil
	case v == math.Trunc(v):
		return v
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'e', 3, 64), 64)
	return v
}

// SeriesOf is what the records tell of each slice: requests sent, due (of an open loop)
// and events that came in a second, the mean number of requests in flight, and of the
// lag and the queue_wait of those sent in it and the rx_delay of what came in it the p99 and the
// maximum. Like [Summary] it leaves the first fill of a closed loop's slots out of
// lag. It takes linear time and at most 8 MB; a p99 is that of a histogram, at most
// 3.2 % or 1.024 µs above the sample.
func SeriesOf(records []Record, o Options) Series {
	length := time.Duration(0)
	for i := range records {
		length = max(length, records[i].Done)
	}
	n, width := Slices(length)
	t := slicer{open: newOccupancy(n, width), slices: make([]slice, n)}
	for i := range records {
		r := &records[i]
		if r.issued() {
			t.add(r, o)
		}
		if o.OpenLoop && r.Outcome != "" { // dropped ones were due too
			t.slices[t.open.at(r.Due)].due++
		}
	}
	return t.series(length, o)
}

// slicer counts what happens in each slice.
type slicer struct {
	open   occupancy
	slices []slice
}

type slice struct {
	sends, events, reads int
	due                  int
	lag, queue, rx       tail
}

// occupancy counts the requests in flight in each slice of a run.
type occupancy struct {
	width time.Duration
	busy  []time.Duration // of requests in flight for a part of a slice
	full  []int           // requests that are in flight for all of it, as differences
}

func newOccupancy(n int, width time.Duration) occupancy {
	return occupancy{width, make([]time.Duration, n), make([]int, n+1)}
}

// at is the slice of an instant.
func (o *occupancy) at(d time.Duration) int {
	return min(int(max(d, 0)/o.width), len(o.busy)-1)
}

// add counts a request from sent to done.
func (o *occupancy) add(sent, done time.Duration) {
	first, last := o.at(sent), o.at(done)
	if last <= first {
		o.busy[first] += max(0, done-max(sent, 0))
		return
	}
	o.busy[first] += time.Duration(first+1)*o.width - max(sent, 0)
	o.busy[last] += done - time.Duration(last)*o.width
	o.full[first+1]++
	o.full[last]--
}

// seconds is the length of a slice; the last one ends with the run.
func (o *occupancy) seconds(k int, length time.Duration) float64 {
	end := time.Duration(k+1) * o.width
	if k == len(o.busy)-1 {
		end = length
	}
	return max(end-time.Duration(k)*o.width, 1).Seconds()
}

// mean is the mean number in each slice of a run of that length.
func (o *occupancy) mean(length time.Duration) []float64 {
	full, means := 0, make([]float64, len(o.busy))
	for k := range means {
		full += o.full[k]
		means[k] = float64(full) + o.busy[k].Seconds()/o.seconds(k, length)
	}
	return means
}

func (t *slicer) add(r *Record, o Options) {
	sl := &t.slices[t.open.at(r.Sent)]
	sl.sends++
	if o.OpenLoop || r.Slot != 0 {
		sl.lag.add(r.Lag())
	}
	if o.OpenLoop {
		sl.queue.add(r.QueueWait())
	}
	t.open.add(r.Sent, r.Done)
	// Arrivals ascend: the slice is looked for where it changes only.
	from, to := time.Duration(0), time.Duration(-1)
	for i, at := range r.Arrivals {
		if at < from || at >= to {
			k := t.open.at(at)
			sl, from, to = &t.slices[k], time.Duration(k)*t.open.width, time.Duration(k+1)*t.open.width
		}
		sl.events++
		if i >= len(r.RxDelay) {
			continue
		}
		// Events of one read share its stamp and its delay.
		if i == 0 || at != r.Arrivals[i-1] || r.RxDelay[i] != r.RxDelay[i-1] {
			sl.reads++
			sl.rx.add(r.RxDelay[i])
		}
	}
}

func (t *slicer) series(length time.Duration, o Options) Series {
	s := Series{Width: t.open.width}
	column := func(name string, of func(k int, sl *slice) float64) {
		values := make([]float64, len(t.slices))
		for k := range t.slices {
			values[k] = of(k, &t.slices[k])
		}
		s.Add(name, values)
	}
	seconds := func(k int) float64 { return t.open.seconds(k, length) }
	column("sends_per_s", func(k int, sl *slice) float64 { return float64(sl.sends) / seconds(k) })
	if o.OpenLoop {
		column("due_per_s", func(k int, sl *slice) float64 { return float64(sl.due) / seconds(k) })
	}
	column("events_per_s", func(k int, sl *slice) float64 { return float64(sl.events) / seconds(k) })
	s.Add("in_flight", t.open.mean(length))
	column("events_per_read", func(_ int, sl *slice) float64 { return float64(sl.events) / float64(sl.reads) }) // 0/0 is NaN
	both := func(name string, of func(sl *slice) *tail) {
		column(name+"_p99_ms", func(_ int, sl *slice) float64 { return of(sl).p99() })
		column(name+"_max_ms", func(_ int, sl *slice) float64 { return of(sl).most() })
	}
	both("lag", func(sl *slice) *tail { return &sl.lag })
	if o.OpenLoop {
		both("queue_wait", func(sl *slice) *tail { return &sl.queue })
	}
	both("rx_delay", func(sl *slice) *tail { return &sl.rx })
	return s
}

// tail is a histogram of durations for their p99: 32 buckets to a factor of two, the
// smallest 1.024 µs wide. The zero value has no samples.
type tail struct {
	n      int
	max    time.Duration
	counts []uint32
}

const (
	tailUnit    = 10        // a bucket's least width is 1<<tailUnit ns
	tailBits    = 5         // 1<<tailBits buckets to a factor of two
	tailLongest = 1<<44 - 1 // 4.9 h and all beyond
	tailBuckets = (44 - tailUnit - tailBits + 1) << tailBits
)

func (t *tail) add(d time.Duration) {
	if t.counts == nil {
		t.counts = make([]uint32, tailBuckets)
	}
	d = max(d, 0)
	t.n, t.max = t.n+1, max(t.max, d)
	v := uint64(min(d, tailLongest)) >> tailUnit
	shift := max(0, bits.Len64(v)-tailBits-1)
	t.counts[uint64(shift)<<tailBits+v>>shift]++
}

// p99 is in milliseconds, NaN where there is no sample.
func (t *tail) p99() float64 {
	rank, seen := int(math.Ceil(0.99*float64(t.n))), 0
	for i, n := range t.counts {
		if seen += int(n); n > 0 && seen >= rank {
			if i == tailBuckets-1 {
				break // it has no end
			}
			shift := max(0, i>>tailBits-1)
			bound := (uint64(i-shift<<tailBits) + 1) << shift << tailUnit
			return inMS(min(time.Duration(bound), t.max))
		}
	}
	return t.most()
}

func (t *tail) most() float64 {
	if t.n == 0 {
		return math.NaN()
	}
	return inMS(t.max)
}

func inMS(d time.Duration) float64 { return float64(d) / 1e6 }
