package metrics

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/servebench/servebench/metrics/stat"
)

// ServerTiming is what the server told of its own timing of one request, by its
// own clock. Nil is what it did not tell. The zero value tells nothing.
type ServerTiming struct {
	// Queue is the wait in the engine's queue, from the request's arrival there to
	// its first being scheduled.
	Queue *time.Duration `json:"queue_ns,omitempty"`
	// TTFT is from being scheduled to the first token: the queue is not in it.
	TTFT *time.Duration `json:"ttft_ns,omitempty"`
	// Generation is from the first token to the last one.
	Generation *time.Duration `json:"generation_ns,omitempty"`
	// ITL is the mean over the gaps between tokens; nil for one token.
	ITL *time.Duration `json:"mean_itl_ns,omitempty"`
	// Rate is all output tokens over TTFT and Generation together, a second.
	Rate *float64 `json:"tokens_per_second,omitempty"`
}

// firstToken is the server's time from the request's arrival to its first token.
func (t *ServerTiming) firstToken() (d time.Duration, ok bool) {
	if t.Queue == nil || t.TTFT == nil {
		return 0, false
	}
	return *t.Queue + *t.TTFT, true
}

// check refuses what [ReadRecords] must not take in.
func (t *ServerTiming) check() error {
	if t == nil {
		return nil
	}
	var errs []error
	for _, f := range []struct {
		name string
		d    *time.Duration
	}{{"queue_ns", t.Queue}, {"ttft_ns", t.TTFT}, {"generation_ns", t.Generation}, {"mean_itl_ns", t.ITL}} {
		if f.d != nil && (*f.d < 0 || *f.d >= countLimit) {
			errs = append(errs, fmt.Errorf("server_timing.%s is %d", f.name, *f.d))
		}
	}
	if r := t.Rate; r != nil && (*r < 0 || math.IsInf(*r, 0) || math.IsNaN(*r)) {
		errs = append(errs, fmt.Errorf("server_timing.tokens_per_second is %v", *r))
	}
	return errors.Join(errs...)
}

// ServerSide sets what servers told of their own timing beside what the client
// saw, over completed requests. The Beyond distributions are the client's figure
// minus the server's, request by request, and may be negative; a request is in one
// only where both sides have the figure. The client's are in the token reading.
// Distributions without a sample are nil.
type ServerSide struct {
	Told   int // completed requests whose server told anything
	Untold int // the others
	Bad    int // figures that were not times and were ignored, over all requests
	// Negative counts the requests whose server says that it took longer to the
	// first token than the client waited for it: no clock can be right then.
	Negative int

	Queue, TTFT, Generation, ITL *Dist
	// BeyondTTFT is TTFT - (queue + server's TTFT), BeyondE2EL is E2EL - (queue +
	// server's TTFT + generation), BeyondITL is TPOT - server's mean ITL.
	BeyondTTFT, BeyondE2EL, BeyondITL *Dist
}

// CompareServer makes a ServerSide of a run's records, which are only read.
// Percentiles are in percent, beyond 50, 90, 95 and 99.
func CompareServer(records []Record, percentiles []float64) *ServerSide {
	s := &ServerSide{}
	var queue, first, generation, itl, beyondTTFT, beyondE2EL, beyondITL differences
	for i := range records {
		r := &records[i]
		s.Bad += r.BadTiming
		if r.Outcome != OK {
			continue
		}
		t := r.ServerTiming
		if t == nil {
			s.Untold++
			continue
		}
		s.Told++
		queue.told(t.Queue)
		first.told(t.TTFT)
		generation.told(t.Generation)
		itl.told(t.ITL)
		seen := r.tokens()
		if own, ok := t.firstToken(); ok {
			if seen.n > 0 {
				d := seen.first - r.Sent - own
				beyondTTFT.add(int64(d), 1)
				s.Negative += b2i(d < 0)
			}
			if t.Generation != nil {
				beyondE2EL.add(int64(r.end(seen)-r.Sent-own-*t.Generation), 1)
			}
		}
		if n := r.OutputTokens - 1; t.ITL != nil && seen.n > 1 && n > 0 {
			beyondITL.add(int64(seen.last-seen.first)-int64(n)*int64(*t.ITL), int64(n))
		}
	}
	sure := newCollector(Options{Percentiles: percentiles}).sure
	s.Queue, s.TTFT, s.Generation, s.ITL = queue.dist(sure), first.dist(sure), generation.dist(sure), itl.dist(sure)
	s.BeyondTTFT, s.BeyondE2EL, s.BeyondITL = beyondTTFT.dist(sure), beyondE2EL.dist(sure), beyondITL.dist(sure)
	return s
}

// differences are milliseconds of either sign. The zero value has none.
type differences []float64

// add takes in ns over n, rounded once.
func (q *differences) add(ns, n int64) {
	*q = append(*q, float64(ns)/(float64(n)*msInNS))
}

func (q *differences) told(d *time.Duration) {
	if d != nil {
		q.add(int64(*d), 1)
	}
}

// dist sorts q; it is nil where there is no sample.
func (q differences) dist(sure *certainties) *Dist {
	n := len(q)
	if n == 0 {
		return nil
	}
	slices.Sort(q)
	at := func(i int) float64 { return q[i] }
	d := &Dist{N: n, Min: q[0], Max: q[n-1], Source: "exact", percent: sure.percent}
	d.Mean, _ = stat.Mean(n, at)
	d.Std, _ = stat.StdDev(n, at, d.Mean)
	d.fill(sure, quantile(n, at), exactly(at))
	return d
}
