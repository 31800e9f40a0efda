// Package loadgen sends requests when they are due and records what came back.
//
// A closed loop keeps a number of requests in flight; an open loop sends by a
// schedule computed beforehand, behind an optional cap. Each request has a slot
// of its own in a preallocated slice of records, so that no lock and no channel
// stands on its path.
package loadgen

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/servebench/servebench/metrics"
)

// Request is one request, ready to send.
type Request struct {
	ID           string // x-request-id; "" sends none
	PromptTokens int    // the client's count; 0 where nobody counted
	OutputTokens int    // asked for
	// Sequences is how many texts it brings to be pooled; 0 where tokens are
	// generated.
	Sequences int
	// Body is what is sent. Where File is set it is Size bytes there instead,
	// from Offset: a run of many long prompts need not hold them in memory.
	Body         []byte
	File         io.ReaderAt
	Offset, Size int64
}

// Bytes returns the body, which must not be changed.
func (r *Request) Bytes() ([]byte, error) {
	if r.File == nil {
		return r.Body, nil
	}
	b := make([]byte, r.Size)
	if _, err := r.File.ReadAt(b, r.Offset); err != nil {
		return nil, fmt.Errorf("read the request's body back: %w", err)
	}
	return b, nil
}

// Len is the length of the body in bytes.
func (r *Request) Len() int {
	if r.File == nil {
		return len(r.Body)
	}
	return int(r.Size)
}

// Clock measures a run: the time since schedule zero, monotonic. It is a value
// and safe for concurrent use.
type Clock struct{ zero time.Time }

// StartClock makes now the schedule zero.
func StartClock() Clock { return Clock{time.Now()} }

// Now is the time since schedule zero.
func (c Clock) Now() time.Duration { return time.Since(c.zero) }

// At is the time of t, which must carry a monotonic reading.
func (c Clock) At(t time.Time) time.Duration { return t.Sub(c.zero) }

// Zero is schedule zero, for people.
func (c Clock) Zero() time.Time { return c.zero }

// Client sends one request and fills in what came back: everything of rec but
// Seq, ID, Due and Slot. It returns when the request has ended, with Outcome
// and Done set whatever happened; it must be safe for concurrent use, and must
// end the request at once when ctx is done.
type Client interface {
	Do(ctx context.Context, clock Clock, req *Request, rec *metrics.Record)
}

// Pacing says how to wait for a due time.
type Pacing string

const (
	// Sleep waits in the kernel: up to about a millisecond late, no cost.
	Sleep Pacing = "sleep"
	// Hybrid sleeps, then spins through the last millisecond where a core is
	// free: a few microseconds late. It must not run under a fake clock, which
	// a spin never moves.
	Hybrid Pacing = "hybrid"
)

// Load says how requests are offered. The zero value sends all at once.
type Load struct {
	// Offsets holds one due time a request, ascending. Nil is a closed loop:
	// the next request is due when a slot becomes free.
	Offsets []time.Duration
	// MaxConcurrency is the number of slots; 0 means as many as requests.
	MaxConcurrency int
	// Pacing of an open loop; "" is Sleep.
	Pacing Pacing
	// Stop, when closed, ends the issuing of requests; those in flight may
	// finish within Grace, then they are canceled.
	Stop  <-chan struct{}
	Grace time.Duration
	// Done, if set, is called as each request ends, from its goroutine.
	Done func(*metrics.Record)
}

// Run sends the requests and returns one record for each, in order; those that
// were never sent have no Outcome. It returns when all that it started has
// ended. Canceling ctx cancels the requests in flight; what they had received
// is in their records. The error is a panic in a request: it ends the run, but
// not what the others have measured.
func Run(ctx context.Context, client Client, requests []Request, load Load) ([]metrics.Record, Clock, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &run{client: client, requests: requests, load: load, records: make([]metrics.Record, len(requests)), cancel: cancel}
	for i := range r.records {
		r.records[i].Seq, r.records[i].ID = i, requests[i].ID
	}
	issuing, stopIssuing := context.WithCancel(ctx)
	defer stopIssuing()
	if load.Stop != nil {
		ended := make(chan struct{})
		watcher := sync.WaitGroup{}
		defer watcher.Wait()
		defer close(ended)
		watcher.Go(func() { drain(load, stopIssuing, cancel, ended) })
	}
	if load.Offsets == nil {
		r.closedLoop(ctx, issuing)
	} else {
		r.openLoop(ctx, issuing)
	}
	if p := r.panicked.Load(); p != nil {
		return r.records, r.clock, *p
	}
	return r.records, r.clock, nil
}

// drain turns Stop into the end of issuing, and Grace later into the end of all.
func drain(load Load, stopIssuing, cancel func(), ended <-chan struct{}) {
	select {
	case <-load.Stop:
	case <-ended:
		return
	}
	stopIssuing()
	timer := time.NewTimer(load.Grace)
	defer timer.Stop()
	select {
	case <-timer.C:
		cancel()
	case <-ended:
	}
}

type run struct {
	client   Client
	requests []Request
	load     Load
	records  []metrics.Record
	clock    Clock
	cancel   func()
	panicked atomic.Pointer[error]
}

// do sends request i, whose Due and Slot are set, and returns the instant its
// slot becomes free.
func (r *run) do(ctx context.Context, i int) time.Duration {
	rec := &r.records[i]
	defer r.guard(rec)
	r.client.Do(ctx, r.clock, &r.requests[i], rec)
	if r.load.Done != nil {
		r.load.Done(rec)
	}
	return rec.Done
}

// guard keeps a panic in one request from losing what all the others measured.
func (r *run) guard(rec *metrics.Record) {
	p := recover()
	if p == nil {
		return
	}
	err := fmt.Errorf("request %d: panic: %v\n%s", rec.Seq, p, debug.Stack())
	r.panicked.CompareAndSwap(nil, &err)
	rec.Outcome, rec.Error = metrics.Canceled, "internal error"
	rec.Done = max(rec.Done, rec.Sent, r.clock.Now())
	r.cancel()
}

// stopped tells whether Stop is closed; the context that follows from it may
// come a moment later.
func (r *run) stopped() bool {
	select {
	case <-r.load.Stop:
		return true
	default:
		return false
	}
}

func (r *run) slots() int {
	if c := r.load.MaxConcurrency; c > 0 {
		return min(c, len(r.requests))
	}
	return len(r.requests)
}

// closedLoop gives each slot a goroutine that takes the next request when the
// one before has ended: nobody has to be woken in between.
func (r *run) closedLoop(ctx, issuing context.Context) {
	var next atomic.Int64
	var wg sync.WaitGroup
	r.clock = StartClock()
	for range r.slots() {
		wg.Go(func() {
			for slot := time.Duration(0); issuing.Err() == nil && !r.stopped(); {
				i := int(next.Add(1)) - 1
				if i >= len(r.requests) {
					return
				}
				r.records[i].Due, r.records[i].Slot = slot, slot
				slot = r.do(ctx, i)
			}
		})
	}
	wg.Wait()
}

// openLoop paces from one goroutine. A free slot is a value in a channel: the
// instant at which it became free, so that waiting for one (the server's part)
// and waking late (ours) stay apart.
func (r *run) openLoop(ctx, issuing context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	free := make(chan time.Duration, r.slots())
	for range cap(free) {
		free <- 0
	}
	r.clock = StartClock()
	for i, due := range r.load.Offsets {
		if !r.wait(issuing, due) {
			return
		}
		var since time.Duration
		select {
		case since = <-free:
		case <-issuing.Done():
			return
		}
		if r.stopped() {
			return
		}
		r.records[i].Due, r.records[i].Slot = due, max(due, since)
		wg.Go(func() { free <- r.do(ctx, i) })
	}
}

// spinFrom is how long before a due time sleeping ends and spinning begins: the
// kernel's timers, as Go uses them, are one millisecond coarse.
const spinFrom = 1200 * time.Microsecond

// busyAfter is how long a yield may take on a machine with a free core. One
// that takes longer ran somebody else here, and a spin would take that core
// from the server or from our own readers.
const busyAfter = 50 * time.Microsecond

// wait returns at due, or false when issuing ended before.
func (r *run) wait(issuing context.Context, due time.Duration) bool {
	if r.load.Pacing == Hybrid && runtime.GOMAXPROCS(0) > 1 {
		if !sleep(issuing, due-spinFrom-r.clock.Now()) {
			return false
		}
		for now := r.clock.Now(); now < due; {
			runtime.Gosched()
			then := now
			if now = r.clock.Now(); now-then > busyAfter {
				break
			}
		}
	}
	return sleep(issuing, due-r.clock.Now())
}

// sleep returns false when ctx is done.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
