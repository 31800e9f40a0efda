// Package selftest measures the measurer: it runs a benchmark against a simulator
// whose events carry the time of their own writing, at rising concurrency, and
// says by how much the client's numbers are off and whether the verdict knew.
package selftest

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/servebench/servebench/metrics/stat"
)

// Pair is one request as its client and its server saw it. Their clocks need not
// be the same: only differences within one side are taken.
type Pair struct {
	// Of the client: just before sending, and when each event arrived.
	Sent     time.Duration
	Arrivals []time.Duration
	// Of the server: when the request had arrived, and just before each write.
	Arrived int64 // ns
	Writes  []int64
}

// Comparison collects the pairs of a run. The zero value is empty and ready; it
// is not safe for concurrent use.
type Comparison struct {
	ttft, itl, bias, gapError numbers
	trueTTFT, trueITL         numbers
	gapSum                    float64
}

// numbers are nanoseconds.
type numbers []int64

// Add takes in a request. The events of the two sides must be the same ones.
func (c *Comparison) Add(p Pair) error {
	if len(p.Arrivals) == 0 || len(p.Arrivals) != len(p.Writes) {
		return fmt.Errorf("%d events arrived of %d that were written", len(p.Arrivals), len(p.Writes))
	}
	ttft, own := int64(p.Arrivals[0]-p.Sent), p.Writes[0]-p.Arrived
	c.ttft, c.trueTTFT, c.bias = append(c.ttft, ttft), append(c.trueTTFT, own), append(c.bias, ttft-own)
	for i := 1; i < len(p.Arrivals); i++ {
		gap, own := int64(p.Arrivals[i]-p.Arrivals[i-1]), p.Writes[i]-p.Writes[i-1]
		c.itl, c.trueITL = append(c.itl, gap), append(c.trueITL, own)
		c.gapError = append(c.gapError, max(gap-own, own-gap))
		c.gapSum += float64(gap - own)
	}
	return nil
}

// Errors are what a client's numbers have beyond the server's. Milliseconds.
type Errors struct {
	// TTFTBias is, request by request, the client's TTFT minus the server's.
	TTFTBias Spread `json:"ttft_bias_ms"`
	// ITLError is, gap by gap, the distance between the client's and the
	// server's; ITLBias the mean of the differences, which cancel out.
	ITLError Spread  `json:"itl_error_ms"`
	ITLBias  float64 `json:"itl_bias_ms"`
	// ITL and TTFT are the client's own, to be held against the truth.
	TTFT Spread `json:"ttft_ms"`
	ITL  Spread `json:"itl_ms"`
	// ITLP99Error is |p99 of the client's gaps - p99 of the true ones| over the
	// latter: by how much the figure that people read is off. Nil where the gaps
	// are too few for a p99, or the true one is 0.
	ITLP99Error *float64 `json:"itl_p99_error"`
}

// Truth is what the server did. Milliseconds.
type Truth struct {
	TTFT Spread `json:"ttft_ms"`
	ITL  Spread `json:"itl_ms"`
}

// Errors returns what the pairs say. It puts c's numbers in order.
func (c *Comparison) Errors() Errors {
	e := Errors{TTFTBias: c.bias.spread(), ITLError: c.gapError.spread(), TTFT: c.ttft.spread(), ITL: c.itl.spread()}
	if n := len(c.gapError); n > 0 {
		e.ITLBias = c.gapSum / float64(n) / 1e6
	}
	if truth := c.trueITL.spread(); truth.Tells(0.99) && truth.P99 > 0 {
		v := math.Abs(e.ITL.P99-truth.P99) / truth.P99
		e.ITLP99Error = &v
	}
	return e
}

// Truth returns the server's side.
func (c *Comparison) Truth() Truth { return Truth{TTFT: c.trueTTFT.spread(), ITL: c.trueITL.spread()} }

// Spread is a distribution in milliseconds. Of no samples all is 0; where they are
// too few for a percentile, Tells is false and its JSON null.
type Spread struct {
	N              int
	Mean, P50, P99 float64
}

// Tells is whether the samples are enough for the p-quantile: whether order
// statistics bound it on two sides at 95 %.
func (s Spread) Tells(p float64) bool { return s.N >= stat.QuantileNeeds(p, 0.95) }

// MarshalJSON implements [json.Marshaler].
func (s Spread) MarshalJSON() ([]byte, error) {
	known := func(v float64, ok bool) *float64 {
		if !ok {
			return nil
		}
		return &v
	}
	return json.Marshal(struct {
		N    int      `json:"n"`
		Mean *float64 `json:"mean"`
		P50  *float64 `json:"p50"`
		P99  *float64 `json:"p99"`
	}{s.N, known(s.Mean, s.N > 0), known(s.P50, s.Tells(0.5)), known(s.P99, s.Tells(0.99))})
}

// spread puts v in order.
func (v numbers) spread() Spread {
	slices.Sort(v)
	at := func(i int) float64 { return float64(v[i]) / 1e6 }
	s := Spread{N: len(v)}
	s.Mean, _ = stat.Mean(len(v), at)
	s.P50, _ = stat.Quantile(len(v), at, 0.5)
	s.P99, _ = stat.Quantile(len(v), at, 0.99)
	return s
}
