package sim

import (
	"errors"
	"time"
)

// Published is what is known of a published run: its workload, its server's settings and its results.
type Published struct {
	InputTokens  int  // of each request; at least 1
	OutputTokens int  // of each request; at least 1
	Requests     int  // timed requests; at least 1
	Concurrency  int  // of the closed loop, over all replicas; at least 1
	Replicas     int  // servers behind a round robin; 0 means 1
	Streaming    bool // whether latencies of tokens were seen; without, TTFT, ITL and TPOT are not looked at

	// Server has the settings of the scheduler and the cache; they are taken over as they are. Its times and its Acceptance
	// are not looked at.
	Server Engine

	Duration time.Duration // of the timed run; above 0. Throughput is Requests / Duration.
	// Latencies as the client saw them; nil where they were not published.
	TTFT, ITL, TPOT, E2E *Latency
	// AcceptLength is the tokens made by one step of one request (1 + accepted / drafts). 0 means unknown; the gaps
	// between chunks (TPOT and ITL) tell it too and go before it.
	AcceptLength float64
}

// Latency is the published statistics of one metric. Zero fields were not published.
type Latency struct {
	Mean, P50, P90, P95, P99, StdDev time.Duration
}

// Fit returns an Engine that behaves as the published run's server did: Published.Server with the times and the
// acceptance that make the model's throughput and latencies those of p. It is a pure function, takes a few seconds at
// most, and is safe for concurrent use. The error says what p lacks, or that nothing comes near it.
func Fit(p Published) (Engine, error) {
	return p.Server, errors.New("sim: not yet")
}
