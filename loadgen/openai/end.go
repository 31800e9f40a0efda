package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/servebench/servebench/loadgen/sse"
	"github.com/servebench/servebench/metrics"
)

// end completes the record: outcome, counts, message.
func (k *call) end(ctx context.Context, err error) {
	r := k.rec
	k.flush()
	if r.Done == 0 || r.Done < k.prev {
		r.Done = max(k.clock.Now(), k.prev)
	}
	r.Redialed = max(0, k.attempts-1)
	if k.conn != nil {
		r.Discarded = int(k.conn.rx.Discarded() - k.discarded)
	}
	r.Outcome, r.Error = k.outcome(ctx, err)
	r.Error = k.clean(r.Error)
	r.NoDone = r.Outcome == metrics.OK && !k.done && !r.NotStreamed
	k.count()
}

// outcome decides how the request ended. It trusts its own limits and ctx, not
// the text of an error: net/http returns a context's cause.
func (k *call) outcome(ctx context.Context, err error) (metrics.Outcome, string) {
	got := len(k.rec.Arrivals) > 0 || k.rec.NotStreamed
	var f *fault
	switch {
	case errors.As(err, &f):
		return f.outcome, f.message
	case got && (k.done || k.finish && err == nil):
		return metrics.OK, ""
	case k.done:
		return metrics.Truncated, "[DONE] came, but no event with choices"
	case k.watch.reached.Load() != nil:
		return k.timeout(*k.watch.reached.Load())
	case err != nil && ctx.Err() != nil:
		return metrics.Canceled, "canceled"
	case got && k.finish && broken(err):
		return metrics.OK, "" // all that was to come had come
	case err != nil:
		return classify(err, k.conn != nil, k.rec.Status != 0)
	case k.dec.Pending():
		return metrics.Truncated, "the stream ended in the middle of an event, without " + k.lacks()
	case k.c.pools:
		return metrics.Truncated, "the body is empty"
	case k.c.responses:
		return metrics.Truncated, "the stream ended without " + k.lacks()
	}
	return metrics.Truncated, "the stream ended without [DONE] and without " + k.lacks()
}

// lacks is what the end of a stream is told by.
func (k *call) lacks() string {
	if k.c.responses {
		return "a terminal event such as response.completed"
	}
	return "a finish reason"
}

func (k *call) timeout(o metrics.Outcome) (metrics.Outcome, string) {
	c := &k.c.cfg
	switch o {
	case metrics.TimeoutStall:
		return o, fmt.Sprintf("no event for %v", c.StallTimeout)
	case metrics.TimeoutHeaders:
		return o, fmt.Sprintf("no response headers within %v", c.HeadersTimeout)
	}
	return o, fmt.Sprintf("not finished within %v", c.TotalTimeout)
}

// broken tells a connection that broke off from a body that is malformed.
func broken(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// classify sorts an error of the transport.
func classify(err error, connected, answered bool) (metrics.Outcome, string) {
	text := err.Error()
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE),
		errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.ENOBUFS):
		return metrics.ClientResource, text
	case !connected && timedOut(err):
		return metrics.TimeoutConnect, text
	case !connected, !answered && isTLS(err):
		return metrics.Connect, text
	case errors.Is(err, sse.ErrTooLong), strings.Contains(text, "response headers exceeded"):
		return metrics.Oversized, text
	case errors.Is(err, io.ErrUnexpectedEOF) && answered:
		return metrics.Truncated, "the body was cut off"
	case broken(err), errors.Is(err, io.EOF), strings.Contains(text, "server closed"):
		return metrics.Reset, "the server closed or reset the connection"
	}
	if _, ok := errors.AsType[syscall.Errno](err); ok {
		return metrics.Reset, text // the network went away
	}
	return metrics.Decode, text
}

func timedOut(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// isTLS tells an alert of a peer that refused the connection only after the
// handshake, as one that wants a client's certificate does under TLS 1.3.
func isTLS(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// count settles the token counts and which events bore a token.
func (k *call) count() {
	r := k.rec
	r.PromptTokens = k.req.PromptTokens
	if k.usage.prompt >= 0 {
		r.PromptTokens = k.usage.prompt
	}
	r.CachedTokens = max(0, k.usage.cached)
	r.ReasoningTokens = max(0, k.usage.reasoning)
	n := k.usage.completion
	// Some servers finish with an event of its own, after the last token's.
	if k.lastGap && n >= 0 && n < len(r.Arrivals) {
		r.NotBearing = append(r.NotBearing, len(r.Arrivals)-1)
	}
	counted := k.told && !k.unknown
	if counted && len(r.Arrivals) > 0 {
		r.Tokens = append(make([]int, 0, len(k.tokens)), k.tokens...)
	}
	ids := 0
	for _, t := range k.tokens {
		ids += t
	}
	switch {
	case n >= 0 && k.final:
		r.OutputTokens, r.TokenSource = n, metrics.FromUsage
	case n >= 0:
		r.OutputTokens, r.TokenSource = n, metrics.FromContinuous
	case counted:
		r.OutputTokens, r.TokenSource = ids, metrics.FromIDs
	case len(r.Arrivals) > 0:
		r.OutputTokens, r.TokenSource = r.BearingCount(), metrics.FromChunks
	}
	if n >= 0 {
		few := len(r.NotBearing) < len(r.Arrivals) && n < r.BearingCount()
		r.UsageMismatch = few || counted && ids != n || k.usage.reasoning > n
	}
	if k.c.cfg.Text == TextAlways || k.c.cfg.Text == TextUncounted && n < 0 && !counted {
		_ = json.Unmarshal([]byte(`"`+string(k.text)+`"`), &r.Text) // checked when scanned
	}
}
