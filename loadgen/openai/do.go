package openai

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openai/openai-go/v3/option"

	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/sse"
	"github.com/servebench/servebench/metrics"
)

var _ loadgen.Client = (*Client)(nil)

// call is one request under way. It is used by the goroutine of that request;
// the connection's stamps and the watch are shared and guard themselves.
type call struct {
	c     *Client
	clock loadgen.Clock
	req   *loadgen.Request
	rec   *metrics.Record
	watch *watch

	cancel func() // ends the request
	ticket *ticket

	conn      *conn // nil until the transport has chosen one
	attempts  int   // how often it had to
	discarded int64
	errBody   []byte // of a status that is an error, cut
	location  string // of a redirect, which is not followed

	prev    time.Duration // the latest arrival
	done    bool          // [DONE] came
	finish  bool          // a finish reason came
	lastGap bool          // the last event with choices was empty and finished
	usage   usage
	final   bool // the usage came at the end, not on the way
	tokens  []int
	body    []byte // that came as one; its memory is used again
	bearing int    // events that carried a token
	unshown int    // of them, not yet in the client's counter
	counted int    // completion tokens up to now, where usage comes on the way
	told    bool   // some event told its tokens
	unknown bool   // some event with a token did not
	seen    bool   // visible output came
	text    []byte

	ev  event // the one at hand
	dec sse.Decoder
	buf [4 << 10]byte // the transport's own buffer is no larger
}

// calls are reused: their buffers fit what this server sends.
var calls = sync.Pool{New: func() any { return new(call) }}

type callKey struct{}

// Do implements [loadgen.Client].
func (c *Client) Do(ctx context.Context, clock loadgen.Clock, req *loadgen.Request, rec *metrics.Record) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := calls.Get().(*call)
	defer k.release()
	k.c, k.clock, k.req, k.rec, k.cancel = c, clock, req, rec, cancel
	k.usage = noUsage
	k.dec.MaxEvent = c.cfg.MaxEventBytes
	rec.Sent = clock.Now()
	k.watch = startWatch(&c.cfg, clock, cancel)
	defer k.watch.stop()
	k.expect(req.OutputTokens)

	res, err := k.post(ctx)
	switch {
	case rec.Status != 0 && rec.Status/100 != 2:
		err = &fault{metrics.HTTP, k.statusMessage(res)}
	case err == nil:
		defer res.Body.Close()
		err = k.read(res)
	}
	k.end(ctx, err)
}

// expect makes room for the events that a request asks for.
func (k *call) expect(tokens int) {
	n := min(max(tokens, 0), 4096) + 2
	k.rec.Arrivals = make([]time.Duration, 0, n)
	k.rec.RxDelay = make([]time.Duration, 0, n)
}

func (k *call) release() {
	dec, text := k.dec, k.text[:0]
	dec.Reset()
	tokens, body := k.tokens[:0], k.body[:0]
	if cap(body) > bodyKept {
		body = nil
	}
	*k = call{dec: dec, text: text, tokens: tokens, body: body}
	calls.Put(k)
}

// placeholder is the body for openai-go, which would hold a real one until the
// response comes. The transport gets the real one.
var placeholder = []byte("{}")

// post sends the request through openai-go and returns the raw response. Where
// the status is an error, that counts, whatever openai-go makes of the body.
func (k *call) post(ctx context.Context) (res *http.Response, err error) {
	t := &ticket{gate: k.c.gate, passed: k.c.passed}
	k.ticket = t // the trace must not touch k, which may be in use again by then
	ctx = context.WithValue(ctx, callKey{}, k)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:      func(string) { k.attempts, k.conn = k.attempts+1, nil },
		GotConn:      k.gotConn,
		WroteRequest: func(httptrace.WroteRequestInfo) { t.wrote() },
	})
	err = k.c.target().Post(ctx, k.c.cfg.Endpoint, nil, &res, option.WithRequestBody("application/json", placeholder))
	return res, err
}

// gotConn notes which connection the transport chose.
func (k *call) gotConn(info httptrace.GotConnInfo) {
	var nc any = info.Conn
	for k.conn = nil; k.conn == nil; {
		if own, ok := nc.(*conn); ok {
			k.conn = own
			break
		}
		below, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return
		}
		nc = below.NetConn()
	}
	k.rec.Reused = info.Reused || k.conn.before
	k.rec.Connect = 0
	if !k.rec.Reused {
		k.rec.Connect = k.conn.took
	}
	k.discarded = k.conn.rx.Discarded()
	if k.conn.rx.Streams() {
		k.conn.direct.begin()
	}
	if info.Reused && !k.conn.rx.Alive() {
		// The server has closed it, and the transport did not see that yet.
		// Closed here too, nothing gets written, and the transport takes
		// another one; else the request would be lost, or sent twice.
		k.conn.Close()
	}
}

// recorder is the transport: it takes the stamp just before sending, hands over
// the bytes that are ready, and keeps what an error says.
type recorder struct{ c *Client }

// errBodyMax is how much of an error's body is read, and errBodyTime how long is
// waited for it.
const (
	errBodyMax  = 64 << 10
	errBodyTime = 10 * time.Second
)

// probeMax bounds the body of an answer that is no completion: a list of models,
// of tokens, the server's metrics.
const probeMax = 64 << 20

// RoundTrip implements [http.RoundTripper].
func (t *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	k, ok := req.Context().Value(callKey{}).(*call)
	if req.Body != nil && ok {
		req.Body.Close()
	}
	r := *req
	r.Header = req.Header.Clone()
	for name, value := range t.c.cfg.Header {
		r.Header.Set(name, value)
		if http.CanonicalHeaderKey(name) == "Host" {
			r.Host = value // net/http takes it from there only
		}
	}
	if !ok {
		res, err := t.c.transport.RoundTrip(&r)
		if err == nil {
			res.Body = http.MaxBytesReader(nil, res.Body, probeMax)
		}
		return res, err
	}
	if k.req.ID != "" {
		r.Header.Set("X-Request-Id", k.req.ID)
	}
	res, err := k.send(&r)
	if err != nil {
		return nil, err
	}
	k.rec.Headers, _, _ = k.stamp()
	k.rec.Status = res.StatusCode
	k.watch.headers.Store(true)
	if res.StatusCode/100 != 2 {
		k.takeError(res)
	}
	return res, nil
}

// gateWait is how long nothing may pass the gate while somebody waits for the
// server, and gateMost how long at all. Then the gate stays open for good: either
// the server does not read, or what holds it up is unknown. That our goroutines did
// not get to run for so long is what the gate is for.
const (
	gateWait = 50 * time.Millisecond
	gateMost = 10 * gateWait
)

// ticket is a place in the client's gate. Two goroutines may give it back: the
// one that wrote the request, and that of the request.
type ticket struct {
	gate   chan struct{}
	passed *atomic.Int64 // of the client and its siblings: tickets given back
	held   atomic.Bool
	reader bytes.Reader // of the body, up to its end having been written
}

// wrote ends the ticket and lets go of the body: a stream may be long.
func (t *ticket) wrote() {
	t.reader.Reset(nil)
	t.giveBack()
}

// body returns a reader of the body from its beginning, once more where the
// transport had to change the connection.
func (t *ticket) body(req *loadgen.Request) (io.ReadCloser, error) {
	if t.reader.Size() != int64(req.Len()) {
		b, err := req.Bytes()
		if err != nil {
			return nil, err
		}
		t.reader.Reset(b)
	}
	_, err := t.reader.Seek(0, io.SeekStart)
	return io.NopCloser(&t.reader), err
}

func (t *ticket) giveBack() {
	if t.held.CompareAndSwap(true, false) {
		t.passed.Add(1)
		<-t.gate
	}
}

// take waits until few other requests stand between their stamp and the wire.
// When hundreds start at once, each would be stamped long before its bytes left,
// behind all the others in the scheduler's queue: that would be in its TTFT. Like
// this it is lag, where our own lateness belongs.
func (t *ticket) take(ctx context.Context, c *Client) {
	if c.ungated.Load() {
		return
	}
	select {
	case t.gate <- struct{}{}:
		t.held.Store(true)
		return
	default:
	}
	late := time.NewTimer(gateWait)
	defer late.Stop()
	for passed, waited := c.passed.Load(), 0*gateWait; ; {
		select {
		case t.gate <- struct{}{}:
			t.held.Store(true)
			return
		case <-ctx.Done():
			return
		case <-late.C:
			if now := c.passed.Load(); now != passed {
				passed, waited = now, 0
			} else if waited += gateWait; c.waiting.Load() > 0 || waited >= gateMost {
				c.ungated.Store(true)
				return
			}
			late.Reset(gateWait)
		}
	}
}

// send gives the request to the transport.
func (k *call) send(r *http.Request) (res *http.Response, err error) {
	// A plain reader of bytes spares the transport a flush and a copy; and it
	// can be read again when an idle connection turns out to be closed.
	body, err := k.req.Bytes()
	if err != nil {
		return nil, &fault{metrics.ClientResource, err.Error()}
	}
	t := k.ticket
	r.ContentLength = int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return t.body(k.req) }
	t.reader.Reset(body)
	body = nil // from here on the reader holds it, until it is written
	k.ticket.take(r.Context(), k.c)
	defer k.ticket.giveBack()
	k.rec.Sent = k.clock.Now()
	k.prev = k.rec.Sent
	for range 2 {
		if r.Body, err = r.GetBody(); err != nil {
			return nil, &fault{metrics.ClientResource, err.Error()}
		}
		res, err = k.c.transport.RoundTrip(r)
		// The transport itself replaces a connection on which nothing was
		// written, but for one that it saw closing just as it chose it, if the
		// request is a POST. Nothing was written there either.
		if err == nil || err.Error() != "http: server closed idle connection" {
			break
		}
	}
	return res, err
}

// takeError reads what an error status came with, so that nobody after this
// reads it, follows it or waits for it.
func (k *call) takeError(res *http.Response) {
	if res.StatusCode >= 200 {
		late := time.AfterFunc(errBodyTime, k.cancel)
		k.errBody, _ = io.ReadAll(io.LimitReader(res.Body, errBodyMax))
		late.Stop()
	}
	res.Body.Close()
	res.Body = http.NoBody
	k.location = res.Header.Get("Location")
	res.Header.Del("Location")
}

// stamp returns the arrival of what was read last, how much later the read came
// and whether the kernel told. The two clocks behind a kernel stamp can be torn
// apart, so an arrival is kept between the one before it and the read.
func (k *call) stamp() (arrival, delay time.Duration, kernel bool) {
	if k.conn == nil {
		k.prev = max(k.prev, k.clock.Now())
		return k.prev, 0, false
	}
	s := k.conn.rx.Last()
	read := k.clock.At(s.Read)
	arrival = read - s.Delay
	if arrival < k.prev {
		arrival = k.prev
		k.rec.Clamped++
	}
	k.prev = arrival
	return arrival, max(0, read-arrival), s.Kernel
}
