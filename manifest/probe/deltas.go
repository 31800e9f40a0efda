package probe

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/servebench/servebench/metrics"
)

// Count is the name of one of vLLM's counters, without vllm: and _total.
type Count string

// The counters that are read. Tokens of the prefix cache are prompt tokens of
// admitted requests: those looked up, and those found.
const (
	Preemptions      Count = "num_preemptions"
	PrefixQueries    Count = "prefix_cache_queries"
	PrefixHits       Count = "prefix_cache_hits"
	PromptTokens     Count = "prompt_tokens"
	GenerationTokens Count = "generation_tokens"
	Succeeded        Count = "request_success" // whatever the reason to finish
)

var counts = []Count{Preemptions, PrefixQueries, PrefixHits, PromptTokens, GenerationTokens, Succeeded}

// Reading is what a server's counters say, each summed over its engines: at one
// instant, or over a window. The zero value has none.
type Reading struct {
	Counts map[Count]int64 // without those that the server does not have
	// Speculation and Diffusion are nil where the server has no such counters.
	Speculation *metrics.Speculation
	Diffusion   *metrics.Diffusion

	// started is when the server's process began, in Unix seconds; 0 where it
	// does not say.
	started float64
}

// Read reads the counters from the server's /metrics. It is bounded in time and
// safe for concurrent use. The error says why there is no answer; the address is
// not in it.
func Read(ctx context.Context, client *http.Client, baseURL string, header http.Header) (Reading, error) {
	base := strings.TrimSuffix(strings.TrimRight(baseURL, "/"), "/v1")
	a := get(ctx, client, base+"/metrics", "/metrics", header, metricsBody)
	switch {
	case a.err != nil:
		return Reading{}, fmt.Errorf("GET /metrics: %w", a.err)
	case a.body == nil:
		return Reading{}, errors.New("GET /metrics: the server does not have it")
	}
	return read(a.body), nil
}

// read goes over a text in the Prometheus format once.
//
// Note: github.com/prometheus/common/expfmt takes such a text to pieces as a whole.
// A dozen of some two thousand lines are wanted here; it would cost 2.1 MB of the
// binary, most of it protobuf, and a millisecond of each start.
func read(body []byte) (r Reading) {
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, metricsBody+1)
	for lines.Scan() {
		name, text, value, ok := sample(lines.Text())
		if !ok {
			continue
		}
		if name == startStamp {
			r.started = value
		}
		name, ours := strings.CutPrefix(name, "vllm:")
		name, counts := strings.CutSuffix(name, "_total")
		if ours && counts && value < 1<<53 {
			r.add(name, text, int64(value))
		}
	}
	return r
}

// add takes in n of the counter name; text are its labels.
func (r *Reading) add(name, text string, n int64) {
	switch c := Count(name); {
	case strings.HasPrefix(name, "spec_decode_num_"):
		r.readSpeculation(name, text, n)
	case strings.HasPrefix(name, "diffusion"):
		r.readDiffusion(name, n)
	case c == Succeeded:
		if reason := labels(text)["finished_reason"]; reason == "abort" || reason == "error" {
			n = 0
		}
		fallthrough
	case slices.Contains(counts, c):
		if r.Counts == nil {
			r.Counts = map[Count]int64{}
		}
		r.Counts[c] = sum(r.Counts[c], n)
	}
}

// sum adds two counts; however many lines there are, it does not wrap round.
func sum(a, b int64) int64 { return min(a+b, 1<<53) }

// startStamp is a gauge of Python's client library.
const startStamp = "process_start_time_seconds"

// sample reads a line of the Prometheus text format: a name, labels without their
// opening brace, and a value of 0 or more. Of other lines ok is false.
func sample(line string) (name, text string, value float64, ok bool) {
	if !strings.HasPrefix(line, "vllm:") && !strings.HasPrefix(line, startStamp) {
		return "", "", 0, false // most lines: buckets of Python's, and comments
	}
	end := strings.IndexAny(line, "{ \t")
	if end < 0 {
		return "", "", 0, false
	}
	name, rest := line[:end], line[end:]
	if rest[0] == '{' {
		text = rest[1:]
		if rest, ok = afterLabels(text); !ok {
			return "", "", 0, false
		}
	}
	words := strings.Fields(rest) // a value, and perhaps a time
	if len(words) == 0 {
		return "", "", 0, false
	}
	value, err := strconv.ParseFloat(words[0], 64)
	return name, text, value, err == nil && value >= 0 && !math.IsInf(value, 0)
}

// afterLabels is what stands behind the brace that closes labels: one in quotes
// does not.
func afterLabels(text string) (rest string, ok bool) {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return text[i+1:], true
		}
	}
	return "", false
}

// Since returns what was counted after before, a reading of the same server. An
// error says that the two are not of one server process: then nothing is known of
// the window between them.
func (r Reading) Since(before Reading) (Reading, error) {
	if r.started != before.started {
		return Reading{}, errors.New("another process answered: the server was started anew in between, or several share an address")
	}
	if s, b := r.Speculation, before.Speculation; s != nil && b != nil && (s.Drafts < b.Drafts || s.DraftTokens < b.DraftTokens || s.Accepted < b.Accepted || fewer(s.AcceptedAt, b.AcceptedAt)) {
		return Reading{}, errors.New("the counters of drafts went back: the server was started anew in between")
	}
	var d Reading
	for _, c := range counts {
		now, ok := r.Counts[c]
		then, had := before.Counts[c]
		// A counter that was not there yet stood at 0, unless all were missing.
		if !had && (!ok || before.Counts == nil) {
			continue
		}
		if now < then {
			return Reading{}, fmt.Errorf("%s went back from %d to %d: the server was started anew in between", c, then, now)
		}
		if d.Counts == nil {
			d.Counts = map[Count]int64{}
		}
		d.Counts[c] = now - then
	}
	d.Speculation, d.Diffusion = r.Speculation.Sub(before.Speculation), r.Diffusion.Sub(before.Diffusion)
	return d, nil
}

// fewer tells whether a position has less than it had.
func fewer(now, before []int64) bool {
	for i, n := range before {
		if i >= len(now) || now[i] < n {
			return true
		}
	}
	return false
}

// Plus returns the sum over two servers. What one of them does not count is not in
// it.
func (r Reading) Plus(o Reading) Reading {
	sum := Reading{Speculation: r.Speculation.Plus(o.Speculation), Diffusion: r.Diffusion.Plus(o.Diffusion)}
	for c, n := range r.Counts {
		if m, ok := o.Counts[c]; ok {
			if sum.Counts == nil {
				sum.Counts = map[Count]int64{}
			}
			sum.Counts[c] = n + m
		}
	}
	return sum
}
