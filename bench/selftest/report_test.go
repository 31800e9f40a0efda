package selftest

import (
	"strings"
	"testing"
	"time"

	"github.com/servebench/servebench/metrics"
)

func TestShapeOfAStep(t *testing.T) {
	for _, tt := range []struct {
		n                int
		d                time.Duration
		requests, tokens int
		ttft             time.Duration
	}{
		// 16 rounds of half a second: 50 ms and 45 gaps of 10.
		{1, 8 * time.Second, 16, 46, 50 * ms},
		// A second has room for 3 rounds of 50 ms and 25 tokens.
		{1, time.Second, 3, 29, 50 * ms},
		{5, 8 * time.Second, 20, 196, 50 * ms},
		{16, 8 * time.Second, 16, 796, 50 * ms},
		{100, 8 * time.Second, 100, 791, 100 * ms},
		{2000, 8 * time.Second, 2000, 751, 500 * ms},
		{2000, time.Second, 2000, 51, 500 * ms},
	} {
		requests, tokens, ttft := shape(tt.n, tt.d)
		if requests != tt.requests || tokens != tt.tokens || ttft != tt.ttft {
			t.Errorf("%d streams for %v: %d requests of %d tokens after %v, want %d, %d, %v", tt.n, tt.d, requests, tokens, ttft, tt.requests, tt.tokens, tt.ttft)
		}
	}
}

func TestStopsWhereTimeOrDescriptorsAreTooFew(t *testing.T) {
	c := Config{Duration: 8 * time.Second, Budget: time.Minute, Streams: 1000}
	for _, tt := range []struct {
		n    int
		left time.Duration
		last pastStep
		want string
	}{
		{1000, 9 * time.Second, pastStep{}, ""},
		{1001, time.Minute, pastStep{}, "open files"},
		{1000, 7 * time.Second, pastStep{}, "about 8s, and 7s are left of 1m0s"},
		{1000, 10 * time.Second, pastStep{500, 9 * time.Second}, ""},
		// Twice the streams take twice as long where the cores carry no more.
		{1000, 39 * time.Second, pastStep{500, 20 * time.Second}, "about 40s, and 39s are left"},
		{1000, 41 * time.Second, pastStep{500, 20 * time.Second}, ""},
		{1000, -time.Second, pastStep{500, time.Second}, "0s are left"},
	} {
		if got := c.stops(tt.n, tt.left, tt.last); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%d streams, %v left: %q, want %q", tt.n, tt.left, got, tt.want)
		}
	}
}

func TestReportSaysWhereTheVerdictTurned(t *testing.T) {
	step := func(n int, v, unstamped metrics.Verdict) Step {
		return Step{Concurrency: n, EventsPerSecond: float64(100 * n), Verdict: v, VerdictUnstamped: unstamped}
	}
	number := func(p *int) int {
		if p == nil {
			return 0
		}
		return *p
	}
	for _, tt := range []struct {
		name                     string
		steps                    []Step
		valid, turned, unstamped int
		to                       metrics.Verdict
	}{
		{"nowhere", []Step{step(1, "VALID", "VALID"), step(2, "VALID", "VALID")}, 2, 0, 0, ""},
		{"at once", []Step{step(1, "INVALID", "INVALID"), step(2, "VALID", "VALID")}, 0, 1, 1, "INVALID"},
		{"in the middle, and back", []Step{step(1, "VALID", "SUSPECT"), step(2, "SUSPECT", "SUSPECT"), step(3, "VALID", "VALID")}, 1, 2, 1, "SUSPECT"},
	} {
		r := (&Report{Steps: tt.steps}).end()
		valid := 0
		if r.MaxValid != nil {
			valid = r.MaxValid.Concurrency
			if r.MaxValid.EventsPerSecond != float64(100*valid) {
				t.Errorf("%s: %+v", tt.name, r.MaxValid)
			}
		}
		if valid != tt.valid || number(r.TurnedAt) != tt.turned || number(r.TurnedUnstamped) != tt.unstamped || r.TurnedTo != tt.to {
			t.Errorf("%s: VALID up to %d, %s at %d, %d without stamps", tt.name, valid, r.TurnedTo, number(r.TurnedAt), number(r.TurnedUnstamped))
		}
		if r.Floor == nil || r.Floor.Concurrency != 1 || r.Floor.Stamps != "read" || r.Floor.TTFTBiasP50 != nil {
			t.Errorf("%s: the floor is %+v", tt.name, r.Floor)
		}
	}
	if r := (&Report{}).end(); r.Floor != nil || r.Failures == nil {
		t.Errorf("without steps: %+v", r)
	}
}
