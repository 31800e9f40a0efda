package metrics

import "time"

// Course is how a run went, in slices of one length from schedule zero to the end
// of the last request: for charts. The zero value is that of a run without length.
type Course struct {
	Slice time.Duration
	// TokenRate is output tokens a second by the time of their emission, of
	// completed requests.
	TokenRate []float64
	// InFlight is the mean number of requests, of any outcome, between sent and
	// done.
	InFlight []float64
}

// The slices of a course: about a second each, finer in a short run, and few enough
// to be told apart on a screen.
const (
	mostInCourse  = 240
	quarterCourse = mostInCourse / 4
	finestSlice   = 100 * time.Millisecond
)

// CourseOf computes it in linear time; records are only read.
func CourseOf(records []Record) (c Course) {
	var last time.Duration
	for i := range records {
		if records[i].issued() {
			last = max(last, records[i].Done)
		}
	}
	if last <= 0 {
		return c
	}
	n := last / time.Second
	if n < quarterCourse {
		n = min(last/finestSlice, quarterCourse)
	}
	n = max(1, min(n, mostInCourse))
	c.Slice = last / n
	t := tallied{from: 0, to: last + 1, slice: last.Seconds() / float64(n), tokens: make([]float64, n)}
	t.cut()
	open := newOccupancy(int(n), c.Slice)
	var buf []time.Duration
	for i := range records {
		r := &records[i]
		if r.issued() {
			open.add(r.Sent, r.Done)
		}
		if r.Outcome == OK {
			t.emitted(r.doses(&buf))
		}
	}
	for j := range t.tokens {
		t.tokens[j] /= t.slice
	}
	c.TokenRate, c.InFlight = t.tokens, open.mean(last)
	return c
}
