package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/metrics"
)

// fault is an error that already knows its outcome.
type fault struct {
	outcome metrics.Outcome
	message string
}

func (f *fault) Error() string { return f.message }

// read takes in a response until the request has ended. A nil error is a
// stream that ended in order; whether that is a success is decided in end.
func (k *call) read(res *http.Response, cancel func()) error {
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return &fault{metrics.HTTP, k.statusMessage(res)}
	}
	if enc := res.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return &fault{metrics.Decode, "the response is encoded as " + enc + ", which was not asked for"}
	}
	for kind := byte(0); ; {
		n, err := res.Body.Read(k.buf[:])
		if n > 0 {
			if kind == 0 {
				kind = firstByte(k.buf[:n])
			}
			switch kind {
			case '{', '[':
				return k.document(res.Body, k.buf[:n], err)
			case '<':
				return &fault{metrics.Decode, "the response is a page of HTML: " + string(k.buf[:n])}
			}
			if fault := k.feed(k.buf[:n]); fault != nil {
				return fault
			}
			if k.done {
				k.drain(res.Body, err, cancel)
				return nil
			}
		}
		if err == io.EOF {
			k.rec.Done = k.clock.Now()
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// firstByte returns the first byte that is no white space; 0 if there is none.
// An event stream never begins with a brace: servers send one under any
// content type, and an error or a completion as plain JSON under any too.
func firstByte(p []byte) byte {
	p = bytes.TrimLeft(bytes.TrimPrefix(p, []byte("\xEF\xBB\xBF")), " \t\r\n")
	if len(p) == 0 {
		return 0
	}
	return p[0]
}

// feed hands the bytes of one read to the stream's decoder. The stamp is taken
// first: nothing may stand between the read and it.
func (k *call) feed(p []byte) error {
	at, delay := k.stamp()
	k.dec.Feed(p)
	stamped := false
	for k.dec.Next() {
		if k.done {
			k.rec.Trailing += len(k.dec.Data())
			continue
		}
		fresh, err := k.event(at, delay)
		if err != nil {
			k.rec.Done = at
			return err
		}
		if fresh && !stamped && k.conn != nil && !k.conn.rx.Last().Kernel {
			k.rec.NoStamp++
			stamped = true
		}
	}
	if err := k.dec.Err(); err != nil {
		k.rec.Done = at
		return err
	}
	return nil
}

var doneMark = []byte("[DONE]")

// event takes in one payload; fresh tells that it was an event with choices.
func (k *call) event(at, delay time.Duration) (fresh bool, err error) {
	data := k.dec.Data()
	k.watch.event(at + delay)
	if len(data) > 0 && len(data) < 64 && bytes.Equal(bytes.TrimSpace(data), doneMark) {
		k.done, k.rec.Done = true, at
		return false, nil
	}
	var ev event
	if err := scan(data, &ev); err != nil {
		return false, &fault{metrics.Decode, "an event is not valid JSON"}
	}
	if ev.failed || string(k.dec.Type()) == "error" {
		return false, &fault{metrics.StreamError, errorText(data)}
	}
	if ev.usage.seen {
		k.takeUsage(&ev)
	}
	if ev.choices {
		k.takeChoices(&ev, at, delay)
	}
	return ev.choices, nil
}

// takeUsage keeps the last count of each kind: usages are totals up to now.
func (k *call) takeUsage(ev *event) {
	u := &ev.usage
	k.rec.BadUsage += u.bad
	for _, f := range []struct{ to, from *int }{
		{&k.usage.prompt, &u.prompt}, {&k.usage.completion, &u.completion},
		{&k.usage.cached, &u.cached}, {&k.usage.reasoning, &u.reasoning},
	} {
		if *f.from >= 0 {
			*f.to = *f.from
		}
	}
	k.final = !ev.choices || ev.finish
}

func (k *call) takeChoices(ev *event, at, delay time.Duration) {
	bearing := ev.bearing || ev.plain
	if !bearing {
		k.rec.NotBearing = append(k.rec.NotBearing, len(k.rec.Arrivals))
	}
	k.rec.Arrivals = append(k.rec.Arrivals, at)
	k.rec.RxDelay = append(k.rec.RxDelay, delay)
	k.finish = k.finish || ev.finish
	k.lastGap = ev.plain && !ev.bearing && ev.finish
	k.takeTokens(ev, bearing)
	if bearing {
		k.c.Events.Add(1)
	}
	if k.c.cfg.Text != TextNever {
		k.text = append(k.text, ev.text...)
	}
}

// takeTokens notes how many tokens the event carried, if it tells.
func (k *call) takeTokens(ev *event, bearing bool) {
	if k.unknown {
		return
	}
	n := 0
	switch {
	case ev.ids >= 0:
		n = ev.ids
	case ev.usage.completion >= k.counted:
		n = ev.usage.completion - k.counted
	case bearing:
		k.unknown = true
		return
	}
	k.counted = max(k.counted, ev.usage.completion)
	k.tokens = append(k.tokens, n)
}

// drainLimit bounds what is read, and drainTime how long is waited, for the end
// of the body after [DONE]: the connection is worth that much, not more.
const (
	drainLimit = 64 << 10
	drainTime  = 100 * time.Millisecond
)

// drain reads up to the end of the body, so that the connection can be used
// again. A target that kept one open once is not waited for again.
func (k *call) drain(body io.Reader, err error, cancel func()) {
	if err == nil && !k.c.slowDrain.Load() {
		late := time.AfterFunc(drainTime, cancel)
		defer late.Stop()
		for left := drainLimit; err == nil && left > 0; {
			var n int
			n, err = body.Read(k.buf[:min(left, len(k.buf))])
			k.rec.Trailing += n
			left -= n
		}
	}
	if err != io.EOF {
		k.rec.Undrained = true
		k.c.slowDrain.Store(true)
		cancel()
	}
}

// document reads the rest of a body that is one JSON text.
func (k *call) document(body io.Reader, head []byte, err error) error {
	limit := k.c.cfg.MaxEventBytes
	if limit <= 0 {
		limit = 16 << 20
	}
	all := bytes.Clone(head)
	for err == nil {
		if len(all) > limit {
			return &fault{metrics.Oversized, fmt.Sprintf("a body over %d bytes", limit)}
		}
		var n int
		n, err = body.Read(k.buf[:])
		all = append(all, k.buf[:n]...)
	}
	k.rec.Done, _ = k.stamp()
	if err != io.EOF {
		return err
	}
	var ev event
	if scan(all, &ev) != nil {
		return &fault{metrics.Decode, "the body is not valid JSON"}
	}
	if ev.failed || (!ev.choices && bytes.HasPrefix(bytes.TrimSpace(all), []byte(`{"detail"`))) {
		return &fault{metrics.StreamError, errorText(all)}
	}
	k.rec.NotStreamed = true
	k.takeUsage(&ev)
	k.final = true
	if !ev.choices {
		return &fault{metrics.Truncated, "the body has no choices"}
	}
	k.finish = true // the body is complete, whatever its choices say
	k.unknown = ev.ids < 0
	if !k.unknown {
		k.tokens = append(k.tokens, ev.ids)
	}
	if k.c.cfg.Text != TextNever {
		k.text = append(k.text, ev.text...)
	}
	return nil
}

// statusMessage says what an error status came with.
func (k *call) statusMessage(res *http.Response) string {
	msg := errorText(k.errBody)
	if loc := res.Header.Get("Location"); loc != "" && res.StatusCode < 400 {
		msg = "redirect to " + redactURL(loc) + ", which is not followed"
	}
	if after := res.Header.Get("Retry-After"); after != "" {
		msg += " (Retry-After: " + after + ")"
	}
	if msg == "" {
		msg = http.StatusText(res.StatusCode)
	}
	return msg
}

// errorText finds the message in an error object of any of the usual shapes.
func errorText(body []byte) string {
	var v map[string]json.RawMessage
	if json.Unmarshal(body, &v) != nil {
		return strings.TrimSpace(string(body))
	}
	for _, key := range []string{"error", "message", "detail"} {
		var s string
		if json.Unmarshal(v[key], &s) == nil && s != "" {
			return s
		}
		var in struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(v[key], &in) == nil && in.Message != "" {
			return in.Message
		}
	}
	return strings.TrimSpace(string(body))
}

// watch ends a request that takes too long. The hot path only stores the time
// of an event; the timer looks at it when it fires.
type watch struct {
	clock   loadgen.Clock
	cfg     *Config
	start   time.Duration
	last    atomic.Int64 // of the latest event, 0 before the first
	reached atomic.Pointer[metrics.Outcome]
	headers atomic.Bool
	cancel  func()
	timer   *time.Timer
}

func startWatch(cfg *Config, clock loadgen.Clock, cancel func()) *watch {
	w := &watch{clock: clock, cfg: cfg, start: clock.Now(), cancel: cancel}
	w.timer = time.AfterFunc(w.next(w.start), w.fire)
	return w
}

// never is a wait that does not end before the request does.
const never = 1<<63 - 1

// next is the wait until the earliest limit; not above 0 where one is reached.
func (w *watch) next(now time.Duration) time.Duration {
	wait := time.Duration(never)
	for _, l := range w.limits() {
		wait = min(wait, l.at-now)
	}
	return wait
}

type limit struct {
	at      time.Duration
	outcome metrics.Outcome
}

// limits are those that apply now: before the first event only headers and
// total.
func (w *watch) limits() (out []limit) {
	if d := w.cfg.TotalTimeout; d > 0 {
		out = append(out, limit{w.start + d, metrics.TimeoutTotal})
	}
	if last := time.Duration(w.last.Load()); last > 0 {
		if d := w.cfg.StallTimeout; d > 0 {
			out = append(out, limit{last + d, metrics.TimeoutStall})
		}
	} else if d := w.cfg.HeadersTimeout; d > 0 && !w.headers.Load() {
		out = append(out, limit{w.start + d, metrics.TimeoutHeaders})
	}
	return out
}

func (w *watch) fire() {
	now := w.clock.Now()
	for _, l := range w.limits() {
		if l.at <= now {
			w.reached.Store(&l.outcome)
			w.cancel()
			return
		}
	}
	w.timer.Reset(w.next(now))
}

// event tells that something came at now. Only the first one arms the stall
// limit; after that the timer finds the time by itself.
func (w *watch) event(now time.Duration) {
	if w.last.Swap(int64(max(now, 1))) == 0 {
		w.timer.Reset(w.next(w.clock.Now()))
	}
}

func (w *watch) stop() { w.timer.Stop() }

