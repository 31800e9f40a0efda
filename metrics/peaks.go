package metrics

import (
	"time"

	"github.com/servebench/servebench/metrics/internal/radix"
)

// peaks gathers what the four peaks of a run need, record by record.
type peaks struct {
	began, ended []time.Duration // of issued requests
	chunks       seconds
	touching     []int32 // by second: how many more requests touch it than the one before
	beganS       []int64 // where seconds are too many to be counted
	endedS       []int64
	tokens       emission
}

func newPeaks(sh shape) *peaks {
	p := &peaks{began: make([]time.Duration, 0, sh.issued), ended: make([]time.Duration, 0, sh.issued)}
	p.chunks = newSeconds(sh)
	if n := len(p.chunks.counts); n > 0 {
		p.touching = make([]int32, n+1)
	}
	p.tokens = newEmission(sh)
	return p
}

func (p *peaks) issued(r *Record) {
	p.began, p.ended = append(p.began, r.Sent), append(p.ended, r.Done)
}

func (p *peaks) completed(r *Record) {
	p.chunks.add(r.Arrivals)
	from, to := p.chunks.of(r.Sent), p.chunks.of(r.end(r.chunks()))+1
	if n := int64(len(p.touching)); from >= 0 && from < n && to >= 0 && to < n {
		p.touching[from]++
		p.touching[to]--
	} else {
		p.beganS, p.endedS = append(p.beganS, from), append(p.endedS, to)
	}
	p.tokens.count(r)
}

// vllm are vLLM's max_output_tokens_per_s and max_concurrent_requests as its
// client computes them, flaws and all: seconds from the first send, one for each
// event with choices, and every request counts in each second that it touches.
func (p *peaks) vllm() (chunks, concurrent int) {
	if len(p.beganS) > 0 {
		// Some are beyond what is counted: all are sorted.
		for s, by := range p.touching {
			for ; by > 0; by-- {
				p.beganS = append(p.beganS, int64(s))
			}
			for ; by < 0; by++ {
				p.endedS = append(p.endedS, int64(s))
			}
		}
		return p.chunks.most(), mostOpen(p.beganS, p.endedS)
	}
	open := 0
	for _, by := range p.touching {
		open += int(by)
		concurrent = max(concurrent, open)
	}
	return p.chunks.most(), concurrent
}

// inFlight is the largest number of requests of any outcome that were between
// Sent and Done at one instant.
func (p *peaks) inFlight() int { return mostOpen(p.began, p.ended) }

// mostOpen is how many of the intervals [began, ended) overlap at most. Where
// one ends as another begins, they do not. It sorts both in place.
func mostOpen[T ~int64](began, ended []T) (most int) {
	radix.Int64s(began)
	radix.Int64s(ended)
	over := 0
	for i, at := range began {
		for over < len(ended) && ended[over] <= at {
			over++
		}
		most = max(most, i+1-over)
	}
	return most
}

// seconds counts events by the second since the first send.
type seconds struct {
	first  time.Duration
	counts []int
	beyond map[int64]int
}

// mostSeconds bounds the seconds that have a place of their own: twelve days.
const mostSeconds = 1 << 20

func newSeconds(sh shape) seconds {
	s := seconds{first: sh.first, beyond: map[int64]int{}}
	if n := int64((sh.last - sh.first) / time.Second); sh.completed > 0 && n >= 0 && n < mostSeconds {
		s.counts = make([]int, n+2)
	}
	return s
}

func (s *seconds) of(at time.Duration) int64 { return int64((at - s.first) / time.Second) }

// add counts events, which rise: so that a request comes to each second once.
func (s *seconds) add(at []time.Duration) {
	for len(at) > 0 {
		second, n := s.of(at[0]), 1
		from := s.first + time.Duration(second)*time.Second
		if at[0] >= from && at[len(at)-1]-from < time.Second {
			n = len(at)
		}
		for n < len(at) && at[n] >= from && at[n]-from < time.Second {
			n++
		}
		if second >= 0 && second < int64(len(s.counts)) {
			s.counts[second] += n
		} else {
			s.beyond[second] += n
		}
		at = at[n:]
	}
}

func (s *seconds) most() (most int) {
	for _, n := range s.counts {
		most = max(most, n)
	}
	for _, n := range s.beyond {
		most = max(most, n)
	}
	return most
}
