package openai

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/servebench/servebench/loadgen/sse"
	"github.com/servebench/servebench/metrics"
)

// end completes the record: outcome, counts, message.
func (k *call) end(ctx context.Context, err error) {
	r := k.rec
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
		return metrics.Truncated, "the stream ended in the middle of an event, without a finish reason"
	}
	return metrics.Truncated, "the stream ended without [DONE] and without a finish reason"
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
	var netErr net.Error
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE),
		errors.Is(err, syscall.EADDRNOTAVAIL), errors.Is(err, syscall.ENOBUFS):
		return metrics.ClientResource, text
	case isTLS(err):
		return metrics.Connect, text
	case !connected:
		if errors.As(err, &netErr) && netErr.Timeout() {
			return metrics.TimeoutConnect, text
		}
		return metrics.Connect, text
	case errors.Is(err, sse.ErrTooLong), strings.Contains(text, "response headers exceeded"):
		return metrics.Oversized, text
	case errors.Is(err, io.ErrUnexpectedEOF) && answered:
		return metrics.Truncated, "the body was cut off"
	case broken(err), errors.Is(err, io.EOF), strings.Contains(text, "server closed"):
		return metrics.Reset, "the server closed or reset the connection"
	}
	return metrics.Decode, text
}

func isTLS(err error) bool {
	var (
		own    *tlsError
		record tls.RecordHeaderError
		alert  tls.AlertError
		cert   *tls.CertificateVerificationError
		auth   x509.UnknownAuthorityError
	)
	return errors.As(err, &own) || errors.As(err, &record) || errors.As(err, &alert) || errors.As(err, &cert) || errors.As(err, &auth)
}

// count settles the token counts and which events bore a token.
func (k *call) count() {
	r := k.rec
	r.PromptTokens = k.req.PromptTokens
	if k.usage.prompt >= 0 {
		r.PromptTokens = k.usage.prompt
	}
	r.CachedTokens = max(0, k.usage.cached)
	n := k.usage.completion
	// Some servers finish with an event of its own, after the last token's.
	if k.lastGap && n >= 0 && n < len(r.Arrivals) {
		r.NotBearing = append(r.NotBearing, len(r.Arrivals)-1)
	}
	if !k.unknown && len(r.Arrivals) > 0 && len(k.tokens) == len(r.Arrivals) {
		r.Tokens = append(make([]int, 0, len(k.tokens)), k.tokens...)
	}
	ids := 0
	for _, t := range k.tokens {
		ids += t
	}
	counted := !k.unknown && len(k.tokens) > 0
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

// messageMax bounds an error's message.
const messageMax = 512

// clean makes a server's words fit for a terminal and a record: printable, of
// bounded length, without our key and without the prompt.
func (k *call) clean(s string) string {
	if key := k.c.cfg.APIKey; key != "" {
		s = strings.ReplaceAll(s, key, "<redacted>")
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		piece := s[i : i+size]
		switch {
		case r == utf8.RuneError && size == 1:
			piece = fmt.Sprintf(`\x%02x`, s[i])
		case r == '\n':
			piece = " "
		case !unicode.IsPrint(r):
			piece = fmt.Sprintf(`\u%04x`, r)
		}
		if b.Len()+len(piece) > messageMax-len("…") {
			return b.String() + "…"
		}
		b.WriteString(piece)
		i += size
	}
	return b.String()
}

