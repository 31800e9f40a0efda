package selftest

import (
	"encoding/json"
	"testing"
	"time"
)

const ms = time.Millisecond

// at is a time on the server's clock, which is another than the client's.
func at(n int) int64 { return int64(time.Duration(1000+n) * ms) }

func TestCompareTakesTheServersTimesAway(t *testing.T) {
	var c Comparison
	// Sent at 1 ms, arrived at 2 by the client's clock; written at 10, 20 and 31, seen
	// at 11, 22 and 32: TTFT 10 for 8, gaps 11 and 10 for 10 and 11.
	err := c.Add(Pair{Sent: 1 * ms, Arrivals: []time.Duration{11 * ms, 22 * ms, 32 * ms}, Arrived: at(2), Writes: []int64{at(10), at(20), at(31)}})
	if err != nil {
		t.Fatal(err)
	}
	// TTFT 5 for 4, one gap of 13 for 10.
	err = c.Add(Pair{Sent: 0, Arrivals: []time.Duration{5 * ms, 18 * ms}, Arrived: at(0), Writes: []int64{at(4), at(14)}})
	if err != nil {
		t.Fatal(err)
	}
	got := c.Errors()
	for _, tt := range []struct {
		name      string
		got, want float64
	}{
		{"bias mean", got.TTFTBias.Mean, 1.5}, {"bias p50", got.TTFTBias.P50, 1.5}, {"bias p99", got.TTFTBias.P99, 1.99},
		// |11-10|, |10-11|, |13-10|
		{"error mean", got.ITLError.Mean, 5.0 / 3}, {"error p50", got.ITLError.P50, 1}, {"error p99", got.ITLError.P99, 2.96},
		{"ITL bias", got.ITLBias, 1},
		{"ITL p99", got.ITL.P99, 12.96}, {"TTFT p50", got.TTFT.P50, 7.5},
		{"true ITL p99", c.Truth().ITL.P99, 10.98}, {"true TTFT p50", c.Truth().TTFT.P50, 6},
	} {
		if d := tt.got - tt.want; d > 1e-12 || d < -1e-12 { // rounding of decimal fractions
			t.Errorf("%s: %v, want %v", tt.name, tt.got, tt.want)
		}
	}
	if got.ITLP99Error != nil {
		t.Errorf("3 gaps have a p99: %v", *got.ITLP99Error)
	}
}

func TestP99IsOffByAShareOfTheTruth(t *testing.T) {
	var c Comparison
	p := Pair{Arrivals: []time.Duration{0}, Writes: []int64{0}}
	for i := range 400 {
		p.Arrivals, p.Writes = append(p.Arrivals, time.Duration(i+1)*12*ms), append(p.Writes, int64(i+1)*int64(10*ms))
	}
	if err := c.Add(p); err != nil {
		t.Fatal(err)
	}
	e := c.Errors()
	if e.ITLP99Error == nil || *e.ITLP99Error != 0.2 {
		t.Errorf("%v, want 0.2: 12 ms for 10", e.ITLP99Error)
	}
	// The step's verdict must not be VALID then.
	for _, tt := range []struct {
		step Step
		want int
	}{
		{Step{Kernel: &e, Verdict: "VALID", VerdictUnstamped: "SUSPECT"}, 1},
		{Step{Kernel: &e, Read: e, Verdict: "VALID", VerdictUnstamped: "VALID"}, 2},
		{Step{Kernel: &e, Read: e, Verdict: "SUSPECT", VerdictUnstamped: "INVALID"}, 0},
		{Step{Read: e, Verdict: "VALID", VerdictUnstamped: "SUSPECT"}, 0},
		{Step{Verdict: "VALID", VerdictUnstamped: "VALID"}, 0},
	} {
		if got := tt.step.failures(); len(got) != tt.want {
			t.Errorf("%s and %s: %q, want %d", tt.step.Verdict, tt.step.VerdictUnstamped, got, tt.want)
		}
	}
	*e.ITLP99Error = Limit
	if got := (&Step{Kernel: &e, Verdict: "VALID", VerdictUnstamped: "VALID"}).failures(); len(got) != 0 {
		t.Errorf("the limit itself: %q", got)
	}
}

func TestAddRefusesWhatDoesNotJoin(t *testing.T) {
	for name, p := range map[string]Pair{
		"nothing": {}, "more events": {Arrivals: make([]time.Duration, 2), Writes: make([]int64, 3)},
		"fewer": {Arrivals: make([]time.Duration, 2), Writes: make([]int64, 1)},
	} {
		var c Comparison
		if c.Add(p) == nil || len(c.itl) != 0 {
			t.Errorf("%s: taken", name)
		}
	}
	var c Comparison
	if e := c.Errors(); e.TTFTBias.N != 0 || e.ITLP99Error != nil {
		t.Errorf("of nothing: %+v", e)
	}
}

// Too few samples are null and no guess: 6 for a median, 368 for a p99.
func TestSpreadTellsNullForTooFew(t *testing.T) {
	for _, tt := range []struct {
		s    Spread
		want string
	}{
		{Spread{}, `{"n":0,"mean":null,"p50":null,"p99":null}`},
		{Spread{5, 1, 2, 3}, `{"n":5,"mean":1,"p50":null,"p99":null}`},
		{Spread{6, 1, 2, 3}, `{"n":6,"mean":1,"p50":2,"p99":null}`},
		{Spread{367, 1, 2, 3}, `{"n":367,"mean":1,"p50":2,"p99":null}`},
		{Spread{368, 1, 2, 3}, `{"n":368,"mean":1,"p50":2,"p99":3}`},
	} {
		if got, err := json.Marshal(tt.s); err != nil || string(got) != tt.want {
			t.Errorf("%s, %v, want %s", got, err, tt.want)
		}
	}
}
