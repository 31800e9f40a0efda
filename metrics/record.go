// Package metrics turns request records into numbers. It has no clock and does
// no I/O but the record file's encoding.
//
// Every duration in it is measured from schedule zero of a run, on the
// monotonic clock, in nanoseconds.
package metrics

import "time"

// Outcome says how a request ended; the set is closed.
type Outcome string

// The outcomes. Everything but OK is a failure and enters no latency.
const (
	OK             Outcome = "ok"              // a completion came, with a finish reason or [DONE]
	HTTP           Outcome = "http"            // a status other than 2xx; 3xx too, redirects are not followed
	Connect        Outcome = "connect"         // no connection: refused, no such host, TLS
	TimeoutConnect Outcome = "timeout_connect" // no connection in time
	TimeoutHeaders Outcome = "timeout_headers" // no response headers in time
	TimeoutStall   Outcome = "timeout_stall"   // the stream stood still for too long
	TimeoutTotal   Outcome = "timeout_total"   // the request as a whole took too long
	Reset          Outcome = "reset"           // the connection was reset
	Truncated      Outcome = "truncated"       // ended without a finish reason and without [DONE]
	StreamError    Outcome = "stream_error"    // an error object in the stream or in a 200 body
	Decode         Outcome = "decode"          // what came is not what it claims to be
	Oversized      Outcome = "oversized"       // an event or a header over the limit
	ClientResource Outcome = "client_resource" // no descriptors, no ports: ours, not the server's
	Canceled       Outcome = "canceled"        // given up by the user
	Dropped        Outcome = "dropped"         // never sent, by an explicit rule
)

// TokenSource says who counted a request's output tokens.
type TokenSource string

// The sources, best first.
const (
	FromUsage      TokenSource = "usage"            // the server's usage
	FromIDs        TokenSource = "token_ids"        // token ids in the stream
	FromContinuous TokenSource = "continuous_usage" // a usage before the last chunk
	FromTokenizer  TokenSource = "tokenizer"        // our tokenizer over the whole text
	FromChunks     TokenSource = "chunks"           // token-bearing events
)

// Record is what came back for one request. The zero value is a request that
// was never sent. A record is written by the goroutine of its request alone and
// read after that has ended.
type Record struct {
	Seq int    // index in the run's schedule
	ID  string // x-request-id
	// Replica is the server it went to, 0 for the first or the only one.
	Replica int

	Due     time.Duration // the schedule's instant; equal to Slot in a closed loop
	Slot    time.Duration // max(Due, the instant at which the slot it took became free)
	Sent    time.Duration // just before the transport is asked to send
	Headers time.Duration // arrival of the response's headers; 0 where Status is 0
	Done    time.Duration // the end: arrival of [DONE], of the end of the body, or of the error
	Connect time.Duration // dial and TLS inside the request; 0 on a connection that was there before

	// Arrivals has one entry for each event with choices: the kernel's receive
	// time of the read that completed it. RxDelay runs parallel: by how much
	// the read came after that.
	Arrivals []time.Duration
	RxDelay  []time.Duration
	// Tokens runs parallel to Arrivals where every event told how many tokens
	// it carried; else it is nil.
	Tokens []int
	// NotBearing holds the indices of arrivals without a token.
	NotBearing []int
	// Reasoned tells that reasoning came before anything visible. Visible is then
	// the index of the first arrival with visible output (text, a refusal, a tool
	// call), 0 where none came.
	Reasoned bool
	Visible  int

	PromptTokens int         // 0 where nobody told
	OutputTokens int         // by TokenSource
	CachedTokens int         // prompt tokens served from the prefix cache, by the server's usage
	TokenSource  TokenSource // "" where nothing was counted
	// ReasoningTokens are those of OutputTokens that the server's usage says were
	// reasoning; 0 where it told none.
	ReasoningTokens int

	// ServerTiming is what the server told of its own timing; nil where it told
	// nothing or was not listened to.
	ServerTiming *ServerTiming

	Status  int     // HTTP status; 0 where no response came
	Outcome Outcome // "" where the request was never sent
	Error   string  // what went wrong, for people; at most 512 bytes, printable
	Reused  bool    // sent on a connection that was open before

	// Flags and counters on requests of any outcome.
	NoDone        bool // ok without [DONE]
	NotStreamed   bool // one JSON body where a stream was asked for (or none was)
	UsageMismatch bool // the server's count is not what its events carried
	BadUsage      int  // usage numbers that are not counts, taken as absent
	BadTiming     int  // figures of the server's timing that are not times, taken as absent
	Redialed      int  // idle connections found closed with nothing written, replaced
	Clamped       int  // arrivals moved into [previous arrival, read time]
	Discarded     int  // kernel stamps that could not be right
	NoStamp       int  // event-bearing reads, and ends of a body in one piece, without a kernel stamp
	Trailing      int  // bytes after [DONE], ignored
	Undrained     bool // the connection was dropped as the server kept it open after [DONE]

	Text string // what was generated, only where asked for; never in the record file
	// Truth is what a simulator told of its own times, nil where it was not asked
	// for; never in the record file.
	Truth *Truth
}

// Truth is when a server did what, on a clock of its own: CLOCK_MONOTONIC in
// nanoseconds. 0 is not known.
type Truth struct {
	Arrived int64   // the request reached its machine
	Sent    []int64 // parallel to Arrivals: just before the event was written
}

// issued tells that the request was sent.
func (r *Record) issued() bool { return r.Outcome != "" && r.Outcome != Dropped }

// bearing calls yield with the index of every arrival that carried a token. A
// stream in which none did counts all its arrivals: some servers send no text.
func (r *Record) bearing(yield func(i int)) {
	skip := r.NotBearing
	if len(skip) == len(r.Arrivals) {
		skip = nil
	}
	for i := range r.Arrivals {
		if len(skip) > 0 && skip[0] == i {
			skip = skip[1:]
			continue
		}
		yield(i)
	}
}

// BearingCount is the number of token-bearing events.
func (r *Record) BearingCount() int {
	if len(r.NotBearing) == len(r.Arrivals) {
		return len(r.Arrivals)
	}
	return len(r.Arrivals) - len(r.NotBearing)
}

// reading is one request's latencies under one rule of which events count.
type reading struct {
	first, last time.Duration
	n           int // events
}

// chunks is vLLM's reading: every event with choices.
func (r *Record) chunks() reading {
	if len(r.Arrivals) == 0 {
		return reading{}
	}
	return reading{r.Arrivals[0], r.Arrivals[len(r.Arrivals)-1], len(r.Arrivals)}
}

// tokens is our reading: token-bearing events only.
func (r *Record) tokens() reading {
	skip, n := r.NotBearing, r.BearingCount()
	if n == len(r.Arrivals) {
		return r.chunks()
	}
	// Those without a token are indexed in order: they are passed over at both ends.
	first, last := 0, len(r.Arrivals)-1
	for first < len(skip) && skip[first] == first {
		first++
	}
	for j := len(skip) - 1; j >= 0 && skip[j] == last; j-- {
		last--
	}
	if first > last {
		return reading{}
	}
	return reading{r.Arrivals[first], r.Arrivals[last], n}
}

// bearingTimes returns the instants of the events that bore tokens; they are put
// into buf.
func (r *Record) bearingTimes(buf []time.Duration) []time.Duration {
	buf = buf[:0]
	if r.BearingCount() == len(r.Arrivals) {
		return append(buf, r.Arrivals...)
	}
	from := 0
	for _, i := range r.NotBearing {
		if i >= from && i < len(r.Arrivals) {
			buf = append(buf, r.Arrivals[from:i]...)
			from = i + 1
		}
	}
	return append(buf, r.Arrivals[from:]...)
}

// end is the instant the last event of the reading came; without a stream, the
// end of the body.
func (r *Record) end(t reading) time.Duration {
	if t.n == 0 {
		return r.Done
	}
	return t.last
}

// E2EL is the end-to-end latency in vLLM's reading.
func (r *Record) E2EL() time.Duration { return r.end(r.chunks()) - r.Sent }

// QueueWait is the time spent waiting for an in-flight slot: Slot - Due.
func (r *Record) QueueWait() time.Duration { return r.Slot - r.Due }

// Lag is our own lateness: Sent - Slot. In a closed loop it is the turn-round
// time from one request's end to the next one's start.
func (r *Record) Lag() time.Duration { return r.Sent - r.Slot }
