package metrics

import (
	"maps"
	"slices"

	"github.com/servebench/servebench/metrics/stat"
)

// ChunkSizes are the tokens of the chunks, in completed requests whose events told
// them: see [Record].Tokens. A chunk is a token-bearing event that brought at
// least one.
type ChunkSizes struct {
	Requests int   `json:"requests"` // that told them
	Chunks   int   `json:"n"`
	Tokens   int64 `json:"tokens"`
	// Mean is the mean over chunks, P50 and P99 interpolate as all percentiles do.
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P99  float64 `json:"p99"`
	Max  int     `json:"max"`
	// Single is the share of chunks with one token, 0 to 1.
	Single float64 `json:"single_share"`
	// First is the mean over the requests' first chunks.
	First float64 `json:"first_mean"`
}

// Reasoning says how much of completed requests was reasoning.
type Reasoning struct {
	// Requests are those in which reasoning came first, Unseen those of them in
	// which nothing visible followed.
	Requests int `json:"requests"`
	Unseen   int `json:"without_visible"`
	// Tokens are by the server's usage, where it tells them apart.
	Tokens int64 `json:"tokens"`
}

func (s *Reasoning) add(r *Record) {
	s.Requests += b2i(r.Reasoned)
	s.Unseen += b2i(r.Reasoned && r.Visible == 0)
	s.Tokens = plus(s.Tokens, r.ReasoningTokens)
}

// few is the end of the chunk sizes that are counted without a map.
const few = 64

// chunked collects the sizes of chunks. The zero value is ready.
type chunked struct {
	small    [few]int
	large    map[int]int
	tokens   int64
	requests int
	first    int64 // tokens of first chunks
	after    ratios
}

// add takes in a completed request. What an event without a token of its own, or
// one that shows nothing, told goes to the next chunk, as in itl_per_token: of
// each request the time per token after the first chunk is the mean of those.
func (c *chunked) add(r *Record) {
	if len(r.Tokens) == 0 || len(r.Tokens) != len(r.Arrivals) {
		return
	}
	c.requests++
	start, end := -1, -1 // the first event, the last with a token
	next, tokens, rest := 0, 0, int64(0)
	r.bearing(func(i int) {
		for ; next <= i; next++ {
			tokens += max(0, r.Tokens[next])
		}
		if tokens > 0 {
			c.size(tokens)
		}
		switch {
		case start < 0:
			start = i
			c.first = plus(c.first, tokens)
		case tokens > 0:
			end, rest = i, plus(rest, tokens)
		}
		tokens = 0
	})
	if rest > 0 {
		c.after.add(int64(r.Arrivals[end]-r.Arrivals[start]), rest)
	}
}

func (c *chunked) size(k int) {
	c.tokens = plus(c.tokens, k)
	if k < few {
		c.small[k]++
		return
	}
	if c.large == nil {
		c.large = map[int]int{}
	}
	c.large[k]++
}

// sizes is nil where no chunk had a token.
func (c *chunked) sizes() *ChunkSizes {
	s := &ChunkSizes{Requests: c.requests, Tokens: c.tokens}
	var values, upTo []int // the sizes that occurred, and how many chunks have at most each
	count := func(k, n int) {
		if n > 0 {
			s.Chunks, s.Max = s.Chunks+n, k
			values, upTo = append(values, k), append(upTo, s.Chunks)
		}
	}
	for k, n := range c.small {
		count(k, n)
	}
	for _, k := range slices.Sorted(maps.Keys(c.large)) {
		count(k, c.large[k])
	}
	if s.Chunks == 0 {
		return nil
	}
	at := func(i int) float64 {
		j, _ := slices.BinarySearch(upTo, i+1)
		return float64(values[j])
	}
	s.P50, _ = stat.Quantile(s.Chunks, at, 0.5)
	s.P99, _ = stat.Quantile(s.Chunks, at, 0.99)
	s.Mean = float64(s.Tokens) / float64(s.Chunks)
	s.Single = float64(c.small[1]) / float64(s.Chunks)
	s.First = float64(c.first) / float64(c.requests)
	return s
}
