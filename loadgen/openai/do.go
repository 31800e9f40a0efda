package openai

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
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

	conn      *conn
	attempts  int
	discarded int64
	errBody   []byte // of a status that is an error, cut

	prev    time.Duration // the latest arrival
	done    bool          // [DONE] came
	finish  bool          // a finish reason came
	lastGap bool          // the last event with choices was empty and finished
	usage   usage
	final   bool // the usage came at the end, not on the way
	tokens  []int
	counted int  // completion tokens up to now, where usage comes on the way
	unknown bool // some event did not tell its tokens
	text    []byte

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
	k.c, k.clock, k.req, k.rec = c, clock, req, rec
	k.usage = usage{prompt: -1, completion: -1, cached: -1, reasoning: -1}
	k.dec.MaxEvent = c.cfg.MaxEventBytes
	rec.Sent = clock.Now()
	k.watch = startWatch(&c.cfg, clock, cancel)
	defer k.watch.stop()
	k.expect(req.OutputTokens)

	res, err := k.post(ctx)
	if err == nil {
		defer res.Body.Close()
		err = k.read(res, cancel)
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
	tokens := k.tokens[:0]
	*k = call{dec: dec, text: text, tokens: tokens}
	calls.Put(k)
}

// post sends the request through openai-go and returns the raw response.
func (k *call) post(ctx context.Context) (*http.Response, error) {
	ctx = context.WithValue(ctx, callKey{}, k)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { k.attempts++ },
		GotConn: k.gotConn,
	})
	opts := []option.RequestOption{option.WithRequestBody("application/json", k.req.Body)}
	if k.req.ID != "" {
		opts = append(opts, option.WithHeader("X-Request-Id", k.req.ID))
	}
	if _, ok := k.c.cfg.Header["Content-Type"]; ok {
		opts = append(opts, option.WithHeader("Content-Type", k.c.cfg.Header["Content-Type"]))
	}
	var res *http.Response
	err := k.c.api.Post(ctx, k.c.cfg.Endpoint, nil, &res, opts...)
	if err != nil && res != nil && k.rec.Status != 0 {
		return res, nil // the status says more than openai-go's error
	}
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
}

// recorder is the transport: it takes the stamp just before sending, hands over
// the bytes that are ready, and keeps what an error says.
type recorder struct{ next http.RoundTripper }

// errBodyMax is how much of an error's body is read.
const errBodyMax = 64 << 10

// RoundTrip implements [http.RoundTripper].
func (t *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	k, ok := req.Context().Value(callKey{}).(*call)
	if !ok {
		return t.next.RoundTrip(req)
	}
	if req.Body != nil {
		req.Body.Close()
	}
	// A plain reader of bytes spares the transport a flush and a copy; and it
	// can be read again when an idle connection turns out to be closed.
	r := *req
	r.Body = io.NopCloser(bytes.NewReader(k.req.Body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(k.req.Body)), nil }
	r.ContentLength = int64(len(k.req.Body))
	k.rec.Sent = k.clock.Now()
	k.prev = k.rec.Sent
	res, err := t.next.RoundTrip(&r)
	if err != nil {
		return nil, err
	}
	k.rec.Headers, _ = k.stamp()
	k.rec.Status = res.StatusCode
	if res.StatusCode >= 300 {
		k.watch.event(k.clock.Now())
		k.errBody, _ = io.ReadAll(io.LimitReader(res.Body, errBodyMax))
		res.Body.Close()
		res.Body = io.NopCloser(bytes.NewReader(nil))
	}
	return res, nil
}

// stamp returns the arrival of what was read last and how much later the read
// came. The two clocks behind a kernel stamp can be torn apart, so an arrival
// is kept between the one before it and the read.
func (k *call) stamp() (at, delay time.Duration) {
	if k.conn == nil {
		k.prev = max(k.prev, k.clock.Now())
		return k.prev, 0
	}
	s := k.conn.rx.Last()
	read := k.clock.At(s.Read)
	at = read - s.Delay
	if at < k.prev {
		at = k.prev
		k.rec.Clamped++
	}
	k.prev = at
	return at, s.Delay
}
