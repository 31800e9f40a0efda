package openai

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
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
func (k *call) read(res *http.Response) error {
	if enc := res.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return &fault{metrics.Decode, "the response is encoded as " + enc + ", which was not asked for"}
	}
	if k.c.pools && isBytes(res) {
		return k.takeBytes(res)
	}
	direct := k.directBody(res)
	if direct != nil {
		res.Body = direct
	}
	for kind := byte(0); ; {
		n, err := res.Body.Read(k.buf[:])
		if n > 0 {
			if kind == 0 {
				kind = firstByte(k.buf[:n])
			}
			switch {
			case kind == '<':
				return k.page(res.Body, n)
			case kind == '{', kind == '[', k.c.pools && kind != 0:
				return k.document(res, k.buf[:n], err)
			}
			if fault := k.feed(k.buf[:n]); fault != nil {
				return fault
			}
			if kind != 0 && direct != nil && err == nil && !k.done {
				err = k.stream(direct)
			}
			if k.done {
				k.drain(res.Body, err)
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

// page is the fault of a body that is HTML, of which the first n bytes are in
// buf; what is said of it does not depend on how it was split.
func (k *call) page(body io.Reader, n int) error {
	late := time.AfterFunc(errBodyTime, k.cancel)
	defer late.Stop()
	if n < messageMax {
		m, _ := io.ReadFull(body, k.buf[n:messageMax])
		n += m
	}
	return &fault{metrics.Decode, "the response is a page of HTML: " + string(bytes.TrimSpace(k.buf[:n]))}
}

// firstByte returns the first byte that is no white space and no part of a byte
// order mark; 0 if there is none.
// An event stream never begins with a brace: servers send one under any
// content type, and an error or a completion as plain JSON under any too.
func firstByte(p []byte) byte {
	for _, c := range p {
		switch c {
		case ' ', '\t', '\r', '\n', 0xEF, 0xBB, 0xBF:
		default:
			return c
		}
	}
	return 0
}

// feed hands the bytes of one read to the stream's decoder. The stamp is taken
// first: nothing may stand between the read and it. What others look at, the
// watch and the counter, is told once a read.
func (k *call) feed(p []byte) (err error) {
	at, delay, kernel := k.stamp()
	before, bearing, some := len(k.rec.Arrivals), k.bearing, false
	k.dec.Feed(p)
	for err == nil && !k.done && k.dec.Next() {
		if blank(k.dec.Data()) {
			continue // no more an event than a comment is
		}
		some = true
		err = k.event(at, delay)
	}
	if k.done {
		k.trailing()
	} else if err == nil {
		err = k.dec.Err()
	}
	if some {
		k.watch.event(at + delay)
	}
	if n := k.bearing - bearing; n > 0 {
		k.show(n)
	}
	if !kernel && len(k.rec.Arrivals) > before {
		k.rec.NoStamp++
	}
	if err != nil {
		k.rec.Done = at
	}
	return err
}

// showEvery is how many events of a request the live counter may lag behind: all
// requests share it, and each addition takes its cache line from another core.
const showEvery = 16

// show tells the live counter of n more events.
func (k *call) show(n int) {
	if k.unshown += n; k.unshown >= showEvery || k.unshown == k.bearing {
		k.flush()
	}
}

func (k *call) flush() {
	if k.unshown > 0 {
		k.c.Events.Add(int64(k.unshown))
		k.unshown = 0
	}
}

// trailing counts what came after [DONE]: payloads, which do not depend on how
// the bytes were split.
func (k *call) trailing() {
	for k.dec.Next() {
		if !k.c.responses || !isDone(k.dec.Data()) { // some servers end those twice
			k.rec.Trailing += len(k.dec.Data())
		}
	}
}

// blank tells a payload of white space; few payloads begin with any.
func blank(data []byte) bool {
	return len(data) == 0 || data[0] <= ' ' && len(bytes.TrimSpace(data)) == 0
}

var doneMark = []byte("[DONE]")

func isDone(data []byte) bool {
	return len(data) < 64 && bytes.Equal(bytes.TrimSpace(data), doneMark)
}

// event takes in one payload.
func (k *call) event(at, delay time.Duration) error {
	data := k.dec.Data()
	if isDone(data) {
		if k.c.responses {
			return &fault{metrics.Truncated, "[DONE] came, but no terminal event such as response.completed"}
		}
		k.done, k.rec.Done = true, at
		return nil
	}
	if string(k.dec.Type()) == "error" {
		return &fault{metrics.StreamError, errorText(data)}
	}
	ev := &k.ev
	if err := k.scan(data); err != nil {
		return &fault{metrics.Decode, "an event is not valid JSON"}
	}
	if ev.failed {
		return &fault{metrics.StreamError, errorText(data)}
	}
	if ev.usage.seen {
		k.takeUsage(ev)
	}
	if k.c.cfg.ServerTiming && (ev.finish || !ev.choices) {
		k.takeTiming(data)
	}
	if ev.choices {
		if len(k.rec.Arrivals) >= k.most() {
			return &fault{metrics.Oversized, fmt.Sprintf("more than %d events for %d tokens", k.most(), k.req.OutputTokens)}
		}
		k.takeChoices(ev, at, delay)
	}
	if k.c.cfg.Truth {
		k.takeTruth(data, ev.choices)
	}
	if k.c.responses && ev.finish {
		k.takeEnd(data, at, delay)
	}
	return nil
}

// scan reads an event of the target's API.
func (k *call) scan(data []byte) error {
	if k.c.responses {
		return scanResponse(data, k.dec.Type(), &k.ev)
	}
	return scan(data, &k.ev)
}

// takeEnd takes in the terminal event of a response. Where nothing came before
// it, it is what the first token came with: a server that made no text, or one
// that holds all of it back.
func (k *call) takeEnd(data []byte, at, delay time.Duration) {
	k.done, k.finish, k.rec.Done = true, true, at
	if len(k.rec.Arrivals) > 0 {
		return
	}
	k.takeChoices(&k.ev, at, delay)
	if k.c.cfg.Text != TextNever {
		k.text = append(k.text, replyText(data)...)
	}
}

// most bounds the events of a request: a stream without end would take all
// memory long before the total timeout.
func (k *call) most() int { return max(64<<10, 4*k.req.OutputTokens) }

// takeUsage keeps the last count of each kind: usages are totals up to now.
func (k *call) takeUsage(ev *event) {
	u := &ev.usage
	k.rec.BadUsage += u.bad
	keep(&k.usage.prompt, u.prompt)
	keep(&k.usage.completion, u.completion)
	keep(&k.usage.cached, u.cached)
	keep(&k.usage.reasoning, u.reasoning)
	if u.completion >= 0 {
		k.final = !ev.choices || ev.finish
	}
}

func keep(to *int, n int) {
	if n >= 0 {
		*to = n
	}
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
		k.bearing++
	}
	if !k.seen && (ev.visible || ev.thought) {
		k.takeSight(ev)
	}
	if k.c.cfg.Text != TextNever {
		k.text = append(k.text, ev.text...)
	}
}

// takeSight notes the first visible output, where reasoning came before it.
func (k *call) takeSight(ev *event) {
	k.seen = ev.visible
	if !ev.visible {
		k.rec.Reasoned = true
	} else if k.rec.Reasoned {
		k.rec.Visible = len(k.rec.Arrivals) - 1
	}
}

// takeTokens notes how many tokens the event carried, if it tells. A running
// usage is that of the event's own choice: with several it tells nothing.
func (k *call) takeTokens(ev *event, bearing bool) {
	if k.unknown {
		return
	}
	n := 0
	switch {
	case ev.ids >= 0:
		n, k.told = ev.ids, true
	case ev.usage.completion >= k.counted && !ev.several:
		n, k.told = ev.usage.completion-k.counted, true
	case bearing || ev.several && ev.usage.completion >= 0:
		k.unknown = true
		return
	}
	k.counted = max(k.counted+max(0, ev.ids), ev.usage.completion)
	k.tokens = append(k.tokens, n)
}

// drainLimit bounds what is read, and drainTime how long is waited, for the end
// of the body after [DONE]: the connection is worth that much, not more.
const (
	drainLimit = 64 << 10
	drainTime  = 100 * time.Millisecond
)

// drain reads up to the end of the body, so that the connection can be used
// again. A target that kept one open and never ended one in time is not waited
// for again: its connections are dropped at once.
func (k *call) drain(body io.Reader, err error) {
	if err == nil && (k.c.drained.Load() || !k.c.undrained.Load()) {
		late := time.AfterFunc(drainTime, k.cancel)
		defer late.Stop()
		for left := drainLimit; err == nil && left > 0; {
			var n int
			n, err = body.Read(k.buf[:min(left, len(k.buf))])
			left -= n
			k.dec.Feed(k.buf[:n])
			k.trailing()
		}
	}
	if err == io.EOF {
		k.c.drained.Store(true)
		return
	}
	k.rec.Undrained = true
	k.c.undrained.Store(true)
	k.cancel()
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

// The limits of a body that is one JSON text, where the user set none: what is
// generated fits an event's, vectors of whole prompts do not. Memory of up to
// bodyKept is used again.
const (
	bodyMax   = 16 << 20
	pooledMax = 256 << 20
	bodyKept  = 4 << 20
)

// document reads the rest of a body that is one JSON text.
func (k *call) document(res *http.Response, head []byte, err error) error {
	err = k.readBody(res, head, err)
	if err != io.EOF {
		return err
	}
	body := bytes.TrimPrefix(k.body, byteOrderMark)
	ev, lacks := &k.ev, "choices"
	switch {
	case k.c.pools:
		err, lacks = scanPooled(body, ev), "data and no results"
	case k.c.responses:
		err, lacks = scanReplyBody(body, ev), "output that is complete"
	default:
		err = scan(body, ev)
	}
	if err != nil {
		return &fault{metrics.Decode, "the body is not valid JSON"}
	}
	if ev.failed {
		return &fault{metrics.StreamError, errorText(body)}
	}
	k.rec.NotStreamed = true
	k.takeUsage(ev)
	if k.c.cfg.ServerTiming && !k.c.pools {
		k.takeTiming(body)
	}
	if !ev.choices {
		return &fault{metrics.Truncated, "the body has no " + lacks}
	}
	k.finish = true // the body is complete, whatever its choices say
	k.unknown = ev.ids < 0
	if !k.unknown {
		k.tokens, k.told = append(k.tokens, ev.ids), true
	}
	if k.c.cfg.Text != TextNever {
		if k.c.responses {
			ev.text = replyText(body)
		}
		k.text = append(k.text, ev.text...)
	}
	return nil
}

// bodyLimit is how long a body in one piece may be, in bytes.
func (k *call) bodyLimit() int {
	switch {
	case k.c.cfg.MaxEventBytes > 0:
		return k.c.cfg.MaxEventBytes
	case k.c.pools:
		return pooledMax
	}
	return bodyMax
}

func tooLarge(limit int) error {
	return &fault{metrics.Oversized, fmt.Sprintf("a body over %d bytes", limit)}
}

// readBody reads a whole body, whose beginning is head and whose latest read
// ended with err. It ends with io.EOF where all is well.
func (k *call) readBody(res *http.Response, head []byte, err error) error {
	limit := k.bodyLimit()
	all := append(k.body[:0], head...)
	if n := res.ContentLength; n > 0 { // one byte more shows the end; a lie costs no more than this
		all = slices.Grow(all, int(min(n, int64(limit), bodyKept))+1)
	}
	for err == nil && len(all) <= limit {
		if len(all) == cap(all) {
			all = slices.Grow(all, max(len(all), len(k.buf)))
		}
		var n int
		n, err = res.Body.Read(all[len(all):cap(all)])
		all = all[:len(all)+n]
	}
	k.body = all
	if len(all) > limit {
		return tooLarge(limit)
	}
	k.stampEnd()
	return err
}

// stampEnd notes when a body in one piece has ended.
func (k *call) stampEnd() {
	var kernel bool
	if k.rec.Done, _, kernel = k.stamp(); !kernel {
		k.rec.NoStamp++
	}
}

// watch ends a request that takes too long. The hot path only stores the time
// of an event; the timer looks at it when it fires.
type watch struct {
	clock   loadgen.Clock
	cfg     *Config
	start   time.Duration
	last    atomic.Int64 // of the latest event, plus 1; 0 before the first
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
			out = append(out, limit{last - 1 + d, metrics.TimeoutStall})
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
	if w.last.Swap(int64(now)+1) == 0 {
		w.timer.Reset(w.next(w.clock.Now()))
	}
}

func (w *watch) stop() { w.timer.Stop() }
