package loadgen_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/servebench/servebench/dataset/nprand"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/metrics"
)

const ms = time.Millisecond

// service is a client whose requests take exactly that long, in virtual time.
type service time.Duration

func (s service) Do(ctx context.Context, clock loadgen.Clock, _ *loadgen.Request, rec *metrics.Record) {
	rec.Sent = clock.Now()
	rec.Outcome = metrics.OK
	select {
	case <-time.After(time.Duration(s)):
	case <-ctx.Done():
		rec.Outcome = metrics.Canceled
	}
	rec.Done = clock.Now()
	rec.Arrivals = []time.Duration{rec.Done}
	rec.RxDelay = []time.Duration{0}
}

func requests(n int) []loadgen.Request { return make([]loadgen.Request, n) }

// check holds the identities of measurement.md for every issued request.
func check(t *testing.T, records []metrics.Record) {
	t.Helper()
	for _, r := range records {
		if r.Outcome == "" {
			continue
		}
		if r.QueueWait() < 0 || r.Lag() < 0 {
			t.Errorf("request %d: queue wait %v, lag %v", r.Seq, r.QueueWait(), r.Lag())
		}
		if e2e := r.Done - r.Sent; r.QueueWait()+r.Lag()+e2e != r.Done-r.Due {
			t.Errorf("request %d: queue wait %v + lag %v + e2e %v is not e2e from due %v", r.Seq, r.QueueWait(), r.Lag(), e2e, r.Done-r.Due)
		}
	}
}

// Without a cap an open loop sends each request at its due time, whatever the
// server does with the ones before.
func TestOpenLoopSendsWhenDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		offsets, err := loadgen.Offsets(200, 100, 1, gen(7))
		if err != nil {
			t.Fatal(err)
		}
		records, _, _ := loadgen.Run(t.Context(), service(500*ms), requests(200), loadgen.Load{Offsets: offsets})
		check(t, records)
		for i, r := range records {
			if r.Due != offsets[i] || r.Slot != r.Due || r.Sent != r.Due || r.Done != r.Due+500*ms {
				t.Fatalf("request %d: due %v slot %v sent %v done %v, want due %v and all on time", i, r.Due, r.Slot, r.Sent, r.Done, offsets[i])
			}
		}
	})
}

// Case S22: 10 requests/s offered, one slot, 0.5 s of service. Request i is due
// at 100(i+1) ms and waits 400 i ms for its slot: coordinated omission shown.
func TestCoordinatedOmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		offsets, err := loadgen.Offsets(8, 10, loadgen.Inf, gen(0))
		if err != nil {
			t.Fatal(err)
		}
		records, _, _ := loadgen.Run(t.Context(), service(500*ms), requests(8), loadgen.Load{Offsets: offsets, MaxConcurrency: 1})
		check(t, records)
		for i, r := range records {
			i := time.Duration(i)
			if want := 100 * (i + 1) * ms; r.Due != want {
				t.Errorf("request %d is due at %v, want %v", i, r.Due, want)
			}
			if want := 400 * i * ms; r.QueueWait() != want {
				t.Errorf("request %d waits %v for a slot, want %v", i, r.QueueWait(), want)
			}
			if r.Lag() != 0 {
				t.Errorf("request %d: lag %v, want none: the wait is the server's", i, r.Lag())
			}
		}
		s := metrics.Summarize(records, metrics.Options{OpenLoop: true})
		if s.Token.E2EL.Mean != 500 || s.E2ELFromDue.Mean != 1900 {
			t.Errorf("mean e2el %v and from due %v ms, want 500 and 1900", s.Token.E2EL.Mean, s.E2ELFromDue.Mean)
		}
	})
}

// A cap of k lets k requests in flight and not one more, in either loop.
func TestCap(t *testing.T) {
	for _, open := range []bool{false, true} {
		t.Run(fmt.Sprintf("open=%v", open), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				load := loadgen.Load{MaxConcurrency: 3}
				if open {
					load.Offsets = make([]time.Duration, 10) // all at once
				}
				c := &gauge{service: 100 * ms}
				records, _, _ := loadgen.Run(t.Context(), c, requests(10), load)
				check(t, records)
				if c.peak != 3 {
					t.Errorf("%d requests were in flight at once, want 3", c.peak)
				}
				// 10 requests by threes end at 100, 200, 300 and 400 ms.
				var done []time.Duration
				for _, r := range records {
					done = append(done, r.Done)
				}
				slices.Sort(done)
				want := []time.Duration{100 * ms, 100 * ms, 100 * ms, 200 * ms, 200 * ms, 200 * ms, 300 * ms, 300 * ms, 300 * ms, 400 * ms}
				if !slices.Equal(done, want) {
					t.Errorf("requests end at %v, want %v", done, want)
				}
			})
		})
	}
}

// gauge counts the requests in flight.
type gauge struct {
	service   time.Duration
	mu        sync.Mutex
	now, peak int
}

func (g *gauge) Do(ctx context.Context, clock loadgen.Clock, req *loadgen.Request, rec *metrics.Record) {
	g.mu.Lock()
	g.now++
	g.peak = max(g.peak, g.now)
	g.mu.Unlock()
	service(g.service).Do(ctx, clock, req, rec)
	g.mu.Lock()
	g.now--
	g.mu.Unlock()
}

// In a closed loop a request is due when its slot is free: nothing waits, and
// the time from one request's end to the next one's start is lag.
func TestClosedLoopDueIsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records, _, _ := loadgen.Run(t.Context(), service(50*ms), requests(9), loadgen.Load{MaxConcurrency: 3})
		check(t, records)
		for i, r := range records {
			want := time.Duration(i/3) * 50 * ms
			if r.Due != want || r.Slot != want || r.Sent != want {
				t.Errorf("request %d: due %v slot %v sent %v, want all at %v", i, r.Due, r.Slot, r.Sent, want)
			}
		}
	})
}

// Rate inf without a cap sends everything at once.
func TestClosedLoopWithoutCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records, _, _ := loadgen.Run(t.Context(), service(50*ms), requests(20), loadgen.Load{})
		for i, r := range records {
			if r.Sent != 0 || r.Done != 50*ms {
				t.Errorf("request %d: sent %v, done %v, want 0 and 50ms", i, r.Sent, r.Done)
			}
		}
	})
}

// Case S28, first interrupt: no further request is sent, those in flight end.
func TestStopDrains(t *testing.T) {
	for _, open := range []bool{false, true} {
		t.Run(fmt.Sprintf("open=%v", open), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stop := make(chan struct{})
				time.AfterFunc(120*ms, func() { close(stop) })
				load := loadgen.Load{MaxConcurrency: 2, Stop: stop, Grace: time.Second}
				if open {
					load.Offsets = make([]time.Duration, 100)
				}
				begin := time.Now()
				records, _, _ := loadgen.Run(t.Context(), service(50*ms), requests(100), load)
				// Two at a time from 0, 50 and 100 ms: six were sent before 120 ms.
				if n := count(records, metrics.OK); n != 6 {
					t.Errorf("%d requests completed, want 6", n)
				}
				if n := count(records, ""); n != 94 {
					t.Errorf("%d requests were never sent, want 94", n)
				}
				if d := time.Since(begin); d != 150*ms {
					t.Errorf("ended after %v, want 150ms: when the last one in flight had ended", d)
				}
			})
		})
	}
}

// What is still in flight when the grace ends is canceled, exactly then.
func TestStopCancelsAfterGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		time.AfterFunc(100*ms, func() { close(stop) })
		records, _, _ := loadgen.Run(t.Context(), service(time.Hour), requests(3), loadgen.Load{Stop: stop, Grace: 10 * time.Second})
		for i, r := range records {
			if r.Outcome != metrics.Canceled || r.Done != 10100*ms {
				t.Errorf("request %d: %q at %v, want canceled at 10.1s", i, r.Outcome, r.Done)
			}
		}
	})
}

// Second interrupt: canceling the context ends all at once, also while a
// request waits for its due time or for a slot.
func TestCancelEndsAtOnce(t *testing.T) {
	for name, load := range map[string]loadgen.Load{
		"closed":          {MaxConcurrency: 2},
		"waiting for due": {Offsets: []time.Duration{0, time.Hour}},
		"waiting for slot": {
			Offsets: []time.Duration{0, 0}, MaxConcurrency: 1,
			Stop: make(chan struct{}), Grace: time.Hour,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if load.Stop != nil {
					load.Stop = make(chan struct{}) // of this bubble
				}
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(70*ms, cancel)
				begin := time.Now()
				records, _, _ := loadgen.Run(ctx, service(time.Hour), requests(2), load)
				if d := time.Since(begin); d != 70*ms {
					t.Errorf("ended after %v, want 70ms", d)
				}
				if records[0].Outcome != metrics.Canceled {
					t.Errorf("the request in flight is %q, want canceled", records[0].Outcome)
				}
			})
		})
	}
}

// broken panics in its third request.
type broken struct{ service }

func (b broken) Do(ctx context.Context, clock loadgen.Clock, req *loadgen.Request, rec *metrics.Record) {
	if rec.Seq == 2 {
		panic("a bug")
	}
	b.service.Do(ctx, clock, req, rec)
}

// A panic in one request ends the run with an error and loses no record.
func TestPanicKeepsTheRecords(t *testing.T) {
	for _, load := range []loadgen.Load{{MaxConcurrency: 1}, {MaxConcurrency: 1, Offsets: make([]time.Duration, 5)}} {
		synctest.Test(t, func(t *testing.T) {
			records, _, err := loadgen.Run(t.Context(), broken{service(ms)}, requests(5), load)
			if err == nil || count(records, metrics.OK) != 2 || records[2].Error != "internal error" {
				t.Errorf("error %v, %d ok, request 2 says %q", err, count(records, metrics.OK), records[2].Error)
			}
		})
	}
}

func count(records []metrics.Record, o metrics.Outcome) (n int) {
	for _, r := range records {
		if r.Outcome == o {
			n++
		}
	}
	return n
}

// Due times equal those of `vllm bench serve`: its algorithm over numpy's own
// generator, written down by testdata/offsets.py.
func TestOffsetsAreVLLMs(t *testing.T) {
	data, err := os.ReadFile("testdata/offsets.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		N          int
		Rate       float64
		Burstiness loadgen.Number
		Seed       int64
		Seconds    []float64
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 10 {
		t.Fatalf("only %d cases", len(cases))
	}
	for _, c := range cases {
		got, err := loadgen.Offsets(c.N, loadgen.Number(c.Rate), c.Burstiness, gen(c.Seed))
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range c.Seconds {
			// To the nanosecond that numpy's seconds round to. Go's and C's
			// logarithms differ in the last bit, which can tip a rounding.
			if d := got[i] - time.Duration(math.Round(s*1e9)); d < -1 || d > 1 {
				t.Errorf("rate %v burstiness %v seed %d: request %d is due at %d ns, numpy says %v s", c.Rate, c.Burstiness, c.Seed, i, got[i], s)
			}
		}
	}
}

// A ramp's rates and due times are those of vLLM's own get_request, recorded by
// testdata/ramp.py.
func TestRampIsVLLMs(t *testing.T) {
	data, err := os.ReadFile("testdata/ramp.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Ramp           loadgen.Ramp
		N              int
		Seed           int64
		Burstiness     loadgen.Number
		Rates, Seconds []float64
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) != 9 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		got, err := c.Ramp.Offsets(c.N, c.Burstiness, gen(c.Seed))
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range c.Seconds {
			// As with a constant rate: Go's and C's functions differ in the last bit.
			if d := got[i] - time.Duration(math.Round(s*1e9)); d < -1 || d > 1 {
				t.Errorf("%v of %d: request %d is due at %d ns, vLLM says %v s", c.Ramp, c.N, i, got[i], s)
			}
			if rate := c.Ramp.Rate(i, c.N); math.Abs(rate-c.Rates[i]) > 1e-14*c.Rates[i] {
				t.Errorf("%v of %d: request %d has the rate %v, vLLM says %v", c.Ramp, c.N, i, rate, c.Rates[i])
			}
		}
	}
}

// A linear ramp from 0, at which vLLM stops: the first request is due at once,
// the others by their own rates: 1/2 s, 1/4 s, 1/6 s after the one before.
func TestRampFromZero(t *testing.T) {
	r := loadgen.Ramp{Strategy: "linear", End: 6}
	got, err := r.Offsets(4, loadgen.Inf, gen(0))
	if want := []time.Duration{0, 500 * ms, 750 * ms, 916_666_667}; err != nil || !slices.Equal(got, want) {
		t.Errorf("due at %v (%v), want %v", got, err, want)
	}
	if got, err := r.Offsets(1, 1, gen(0)); err != nil || !slices.Equal(got, []time.Duration{0}) {
		t.Errorf("a single request is due at %v (%v), want 0", got, err)
	}
}

func TestRampRefuses(t *testing.T) {
	for want, r := range map[string]loadgen.Ramp{
		"ramp-up-strategy: ":                        {Strategy: "cubic", Start: 1, End: 2},
		"ramp-up-start-rps: -1":                     {Strategy: "linear", Start: -1, End: 2},
		"ramp-up-start-rps: NaN":                    {Strategy: "linear", Start: math.NaN(), End: 2},
		"ramp-up-end-rps: 0":                        {Strategy: "linear"},
		"ramp-up-end-rps: +Inf":                     {Strategy: "linear", Start: 1, End: math.Inf(1)},
		"ramp-up-start-rps: 3 is above":             {Strategy: "linear", Start: 3, End: 2},
		"ramp-up-start-rps: 0 cannot":               {Strategy: "exponential", End: 2},
		"request 0 of 2 would be due after more":    {Strategy: "linear", Start: 1e-9, End: 2},
		"request 0 of 2 would be due after more ":   {Strategy: "exponential", Start: 5e-324, End: 1 << 20},
		"request 999 of 1000 would be due after mo": {Strategy: "exponential", Start: 3.857e-4, End: 3.857e-4},
	} {
		n := 2
		if strings.Contains(want, "1000") {
			n = 1000
		}
		if _, err := r.Offsets(n, loadgen.Inf, gen(0)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: error %v, want %s…", r, err, want)
		}
	}
	for r, want := range map[loadgen.Ramp]string{
		{Strategy: "linear", Start: 1, End: 10}:          "ramp-up-linear-1qps-10qps",
		{Strategy: "exponential", Start: 0.5, End: 2.25}: "ramp-up-exponential-0.5qps-2.25qps",
		{Strategy: "linear", End: 1_000_000}:             "ramp-up-linear-0qps-1000000qps",
	} {
		if r.String() != want {
			t.Errorf("%v, want %s", r, want)
		}
	}
}

func TestOffsetsProperties(t *testing.T) {
	for _, b := range []loadgen.Number{0.1, 0.5, 1, 2, 10, loadgen.Inf} {
		got, err := loadgen.Offsets(1000, 50, b, gen(3))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSorted(got) || got[0] < 0 {
			t.Errorf("burstiness %v: due times are not in order", b)
		}
		if got[999] != 20*time.Second {
			t.Errorf("burstiness %v: the last of 1000 at 50/s is due at %v, want 20s", b, got[999])
		}
	}
}

// Gaps without bound are drawn all the same, and are no panic.
func TestBurstinessNearZero(t *testing.T) {
	got, err := loadgen.Offsets(3, 1e-5, 1e-320, gen(0))
	if err != nil || !slices.IsSorted(got) {
		t.Errorf("due at %v (%v)", got, err)
	}
}

func TestOffsetsRefuse(t *testing.T) {
	for name, err := range map[string]error{
		"rate 0":        second(loadgen.Offsets(1, 0, 1, gen(0))),
		"rate NaN":      second(loadgen.Offsets(1, loadgen.Number(math.NaN()), 1, gen(0))),
		"rate inf":      second(loadgen.Offsets(1, loadgen.Inf, 1, gen(0))),
		"burstiness 0":  second(loadgen.Offsets(1, 1, 0, gen(0))),
		"a century":     second(loadgen.Offsets(1000, 1e-7, 1, gen(0))),
		"denormal rate": second(loadgen.Offsets(1, 5e-324, 1, gen(0))),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func second[A any](_ A, err error) error { return err }

func TestNumberSurvivesJSON(t *testing.T) {
	for _, n := range []loadgen.Number{loadgen.Inf, 0, 1.5, 10} {
		b, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		var back loadgen.Number
		if err := json.Unmarshal(b, &back); err != nil || back != n {
			t.Errorf("%v became %s and then %v (%v)", n, b, back, err)
		}
	}
	for n, want := range map[loadgen.Number]string{loadgen.Inf: "inf", 10: "10.0", 0.25: "0.25", 1e-300: "1e-300", 1e16: "1e+16"} {
		if n.String() != want {
			t.Errorf("%v prints as %q, want %q as Python has it", float64(n), n, want)
		}
	}
}

// gen is numpy.random, seeded.
func gen(seed int64) *nprand.Legacy { return nprand.NewLegacy(uint32(seed)) }
