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
	c.TokenRate, c.InFlight = make([]float64, n), make([]float64, n)
	t := tallied{from: 0, to: last + 1, slice: last.Seconds() / float64(n), tokens: c.TokenRate}
	began := make([]float64, n+1) // what begins to count in full in a slice
	var buf []time.Duration
	for i := range records {
		r := &records[i]
		if !r.issued() {
			continue
		}
		c.open(began, r.Sent, last, 1)
		c.open(began, r.Done, last, -1)
		if r.Outcome == OK {
			d := r.doses(&buf)
			each := float64(d.tokens) / float64(len(d.at))
			for k, at := range d.at {
				if d.told != nil {
					each = float64(d.told[k])
				}
				if t.within(at) {
					c.TokenRate[t.index(at)] += each / t.slice
				}
			}
		}
	}
	level := 0.0
	for j := range c.InFlight {
		level += began[j]
		c.InFlight[j] = max(0, c.InFlight[j]+level) // a rest of rounding is not below 0
	}
	return c
}

// open adds by to the level from an instant on: the slice that it is in by the
// share that is left of it, and those that follow in full.
func (c *Course) open(began []float64, at, last time.Duration, by float64) {
	at = min(max(at, 0), last)
	where := float64(at) / float64(last) * float64(len(c.InFlight))
	j := min(int(where), len(c.InFlight)-1)
	c.InFlight[j] += by * (float64(j+1) - where)
	began[j+1] += by
}
