package metrics

import (
	"maps"
	"math"
	"slices"
	"time"
)

// vllmPeaks computes vLLM's max_output_tokens_per_s and max_concurrent_requests
// as its client does, flaws and all: seconds from the first send, one for each
// event with choices, and every request counts in each second that it touches.
func vllmPeaks(records []Record) (chunks, concurrent int) {
	first := time.Duration(math.MaxInt64)
	for i := range records {
		if r := &records[i]; r.Outcome == OK {
			first = min(first, r.Sent)
		}
	}
	var began, ended []int64 // seconds
	second := func(at time.Duration) int64 { return int64((at - first) / time.Second) }
	perSecond := map[int64]int{}
	for i := range records {
		r := &records[i]
		if r.Outcome != OK {
			continue
		}
		began = append(began, second(r.Sent))
		ended = append(ended, second(r.end(r.chunks()))+1)
		// Arrivals rise, so that a request comes to each second once.
		for a := r.Arrivals; len(a) > 0; {
			s, n := second(a[0]), 1
			for n < len(a) && second(a[n]) == s {
				n++
			}
			perSecond[s] += n
			a = a[n:]
		}
	}
	for n := range maps.Values(perSecond) {
		chunks = max(chunks, n)
	}
	return chunks, mostOpen(began, ended)
}

// mostOpen is how many of the intervals [began, ended) overlap at most. Where
// one ends as another begins, they do not. It sorts both in place.
func mostOpen[T ~int64](began, ended []T) (most int) {
	slices.Sort(began)
	slices.Sort(ended)
	over := 0
	for i, at := range began {
		for over < len(ended) && ended[over] <= at {
			over++
		}
		most = max(most, i+1-over)
	}
	return most
}

// peakInFlight is the largest number of requests of any outcome that were
// between Sent and Done at one instant.
func peakInFlight(records []Record) int {
	began, ended := make([]time.Duration, 0, len(records)), make([]time.Duration, 0, len(records))
	for i := range records {
		if r := &records[i]; r.issued() {
			began, ended = append(began, r.Sent), append(ended, r.Done)
		}
	}
	return mostOpen(began, ended)
}

// Token rates are read in windows of a second that move in steps of step.
const (
	step      = 100 * time.Millisecond
	inASecond = int64(time.Second / step)
)

// peakTokenRate is the largest number of output tokens in a second, and no less
// than their mean rate up to last: a run of less than a second has no other
// peak, and one that is busy at both ends no better.
func peakTokenRate(records []Record, last time.Duration) (perSecond float64) {
	var total float64
	per := map[int64]float64{} // tokens in each step
	for i := range records {
		if r := &records[i]; r.Outcome == OK {
			total += float64(r.OutputTokens)
			r.spread(func(at time.Duration, tokens float64) { per[int64(at/step)] += tokens })
		}
	}
	for s := range per {
		var sum float64
		for j := range inASecond {
			sum += per[s-j]
		}
		perSecond = max(perSecond, sum)
	}
	if last > 0 {
		perSecond = max(perSecond, total/last.Seconds())
	}
	return perSecond
}

// spread yields a completed request's output tokens in the steps in which they
// came: see emitted.
func (r *Record) spread(yield func(at time.Duration, tokens float64)) {
	var at time.Duration
	var sum float64
	r.emitted(func(a time.Duration, tokens float64) {
		if a/step != at/step {
			if sum > 0 {
				yield(at, sum)
			}
			at, sum = a, 0
		}
		sum += tokens
	})
	if sum > 0 {
		yield(at, sum)
	}
}

// emitted yields a completed request's output tokens at the instants at which
// they came: as its events told, else in equal parts on those that bore tokens.
func (r *Record) emitted(yield func(at time.Duration, tokens float64)) {
	told := 0
	for _, k := range r.Tokens {
		told += k
	}
	switch {
	case len(r.Arrivals) == 0:
		yield(r.Done, float64(r.OutputTokens))
	case len(r.Tokens) == len(r.Arrivals) && told == r.OutputTokens:
		for i, k := range r.Tokens {
			yield(r.Arrivals[i], float64(k))
		}
	default:
		each := float64(r.OutputTokens) / float64(max(1, r.BearingCount()))
		r.bearing(func(i int) { yield(r.Arrivals[i], each) })
	}
}
