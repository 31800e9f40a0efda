package sim

import (
	"math"
	"slices"
	"time"
)

// played is what a client sees of a run: latencies in nanoseconds.
type played struct {
	duration             float64
	ttft, itl, tpot, e2e []float64
}

// visit is one request as its client sees it.
type visit struct{ sent, first, last time.Duration }

// play runs requests of p in a closed loop against replicas of e, without a network and without waiting. The next request
// is sent, to the next replica in turn, when the client has thought for a time about the end of an answer.
func play(p *Published, e Engine, requests int, thought time.Duration) *played {
	out := &played{}
	visits := make([]visit, 0, requests)
	servers := make([]*core, max(1, p.Replicas))
	send := func(at time.Duration) {
		if n := len(visits); n < requests {
			visits = append(visits, visit{sent: at})
			servers[n%len(servers)].submit(&sequence{promptTokens: p.InputTokens, maxTokens: p.OutputTokens, visit: n}, at)
		}
	}
	receive := func(s *sequence, n int, at time.Duration) {
		v := &visits[s.visit]
		if s.made == n {
			v.first = at
		} else {
			out.itl = append(out.itl, float64(at-v.last))
		}
		v.last = at
		if s.made == s.maxTokens {
			send(at + thought)
		}
	}
	for i := range servers {
		servers[i] = newCore(e, p.InputTokens+p.OutputTokens, 0, 0, receive)
	}
	for range min(p.Concurrency, requests) {
		send(0)
	}
	for at, ok := soonest(servers); ok; at, ok = soonest(servers) {
		for _, c := range servers {
			c.advance(at)
		}
	}
	for _, v := range visits {
		out.duration = max(out.duration, float64(v.last))
		out.ttft = append(out.ttft, float64(v.first-v.sent))
		out.e2e = append(out.e2e, float64(v.last-v.sent))
		if p.OutputTokens > 1 {
			out.tpot = append(out.tpot, float64(v.last-v.first)/float64(p.OutputTokens-1))
		}
	}
	return out
}

// soonest is the time of the next event of any server.
func soonest(servers []*core) (at time.Duration, ok bool) {
	for _, c := range servers {
		if t, busy := c.next(); busy && (!ok || t < at) {
			at, ok = t, true
		}
	}
	return at, ok
}

// latency computes the statistics that a manifest has: linear interpolation between order statistics, population standard
// deviation. It sorts x, which must not be empty.
func latency(x []float64) Latency {
	slices.Sort(x)
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	mean := sum / float64(len(x))
	squares := 0.0
	for _, v := range x {
		squares += (v - mean) * (v - mean)
	}
	at := func(q float64) time.Duration {
		whole, part := math.Modf(q * float64(len(x)-1))
		i := int(whole)
		return time.Duration(x[i] + part*(x[min(i+1, len(x)-1)]-x[i]))
	}
	return Latency{Mean: time.Duration(mean), P50: at(.5), P90: at(.9), P95: at(.95), P99: at(.99),
		StdDev: time.Duration(math.Sqrt(squares / float64(len(x))))}
}
