package metrics_test

import (
	"math"
	"testing"
	"time"

	"github.com/servebench/servebench/metrics"
)

// told is a request sent at 1 ms, whose three tokens came at 11, 13 and 15 ms, the
// server saying what it says.
func told(s *metrics.ServerTiming) metrics.Record {
	at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	return metrics.Record{
		Outcome: metrics.OK, Sent: at(1), Done: at(16), Arrivals: []time.Duration{at(11), at(13), at(15)}, RxDelay: make([]time.Duration, 3),
		OutputTokens: 3, TokenSource: metrics.FromUsage, Status: 200, ServerTiming: s,
	}
}

func TestCompareServer(t *testing.T) {
	us := func(n int) *time.Duration { return ptr(time.Duration(n) * time.Microsecond) }
	failed := told(&metrics.ServerTiming{Queue: us(1)})
	failed.Outcome, failed.BadTiming = metrics.StreamError, 2
	body := told(&metrics.ServerTiming{Queue: us(0), TTFT: us(9000), Generation: us(3000), ITL: us(1500)})
	body.Arrivals, body.RxDelay, body.NotStreamed = nil, nil, true
	role := told(&metrics.ServerTiming{Queue: us(0), TTFT: us(11500)})
	role.NotBearing, role.OutputTokens = []int{0}, 2
	s := metrics.CompareServer([]metrics.Record{
		told(&metrics.ServerTiming{Queue: us(500), TTFT: us(9000), Generation: us(3900), ITL: us(1950)}),
		told(nil),
		told(&metrics.ServerTiming{TTFT: us(9000)}), // no queue: nothing to subtract
		failed, body, role,
		told(&metrics.ServerTiming{Queue: us(0), TTFT: us(10001)}), // impossible: the client saw it after 10 ms
	}, []float64{25})
	if s.Told != 5 || s.Untold != 1 || s.Bad != 2 || s.Negative != 1 {
		t.Errorf("told %d, untold %d, bad %d, negative %d", s.Told, s.Untold, s.Bad, s.Negative)
	}
	for _, c := range []struct {
		name           string
		d              *metrics.Dist
		n              int
		min, max, mean float64
	}{
		{"queue", s.Queue, 4, 0, .5, .125},
		{"ttft", s.TTFT, 5, 9, 11.5, 9.7002},
		{"generation", s.Generation, 2, 3, 3.9, 3.45},
		{"itl", s.ITL, 2, 1.5, 1.95, 1.725},
		// 10 - 9.5, 12 - 11.5 from the first token, 10 - 10.001
		{"beyond ttft", s.BeyondTTFT, 3, -.001, .5, .333},
		// 14 - 13.4; of one body its end counts: 15 - 12
		{"beyond e2el", s.BeyondE2EL, 2, .6, 3, 1.8},
		// (15-11)/2 - 1.95; a body has no gaps
		{"beyond itl", s.BeyondITL, 1, .05, .05, .05},
	} {
		if c.d == nil || c.d.N != c.n || c.d.Min != c.min || c.d.Max != c.max || math.Abs(c.d.Mean-c.mean) > 1e-12 /* the last places of a sum */ {
			t.Errorf("%s: %+v, want %d from %v to %v, mean %v", c.name, c.d, c.n, c.min, c.max, c.mean)
		}
	}
	if _, ok := s.BeyondTTFT.Percentile(25); !ok {
		t.Error("the percentile that was asked for is missing")
	}
	if none := metrics.CompareServer(nil, nil); *none != (metrics.ServerSide{}) {
		t.Errorf("of nothing %+v", none)
	}
}
