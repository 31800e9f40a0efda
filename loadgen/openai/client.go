// Package openai speaks the OpenAI-compatible wire: bodies, streams, outcomes.
//
// The request, its credentials and the model list go through openai-go; the
// stream is read here, since every event needs the kernel's receive time before
// anything else happens to it.
package openai

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"golang.org/x/sync/errgroup"

	"github.com/servebench/servebench/loadgen/rxtime"
)

// Config says where a target is and how to talk to it. It is plain data that
// survives a round trip through JSON, but for the key and the dialer.
type Config struct {
	// BaseURL has scheme, host and port, perhaps a path; Endpoint is appended.
	BaseURL  string `json:"base_url"`
	Endpoint string `json:"endpoint"`
	// API is the form of the answers; "" is the one that Endpoint ends like.
	API API `json:"api,omitempty"`
	// Header is sent with every request to the target, after our own.
	Header map[string]string `json:"header,omitempty"`
	// APIKey goes to every request to the target as a bearer token.
	APIKey   string `json:"-"`
	Insecure bool   `json:"insecure,omitempty"` // certificates are not checked

	// Timeouts; 0 takes the default, a negative one is none.
	ConnectTimeout time.Duration `json:"connect_timeout,omitempty"` // 10 s
	HeadersTimeout time.Duration `json:"headers_timeout,omitempty"` // none
	StallTimeout   time.Duration `json:"stall_timeout,omitempty"`   // 600 s from the previous event
	TotalTimeout   time.Duration `json:"total_timeout,omitempty"`   // 6 h

	MaxEventBytes  int  `json:"max_event_bytes,omitempty"`  // 0: 16 MiB
	NoKernelStamps bool `json:"no_kernel_stamps,omitempty"` // arrivals are read times
	// Text says when a record gets the text that was generated.
	Text Text `json:"text,omitempty"`
	// Truth keeps what a simulator started with --truth tells of its own times, as
	// the record's Truth.
	Truth bool `json:"truth,omitempty"`
	// ServerTiming keeps what the target tells of its own timing of each request.
	ServerTiming bool `json:"server_timing,omitempty"`

	// Dial replaces the network: an in-memory server in a test, a Unix socket.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error) `json:"-"`
	// Wall reads the wall clock at an instant; nil is the instant's own reading. A
	// test sets that clock with it.
	Wall func(time.Time) time.Time `json:"-"`
}

// Text says when generated text is kept.
type Text string

const (
	TextNever     Text = ""          // not at all
	TextUncounted Text = "uncounted" // where the server tells no token count
	TextAlways    Text = "always"
)

// Client sends requests to one target. It is safe for concurrent use; Close
// ends its connections.
type Client struct {
	cfg       Config
	api       []option.RequestOption // see target
	http      *http.Client
	transport *http.Transport
	proxied   bool
	secrets   []string // what no message may repeat
	// What answers are: a stream of named events, or one body of vectors.
	responses, pools bool

	life  context.Context // ends with Close: dials outlive their requests
	close context.CancelFunc
	mu    sync.Mutex
	ready []*conn      // opened beforehand, not yet used; guarded by mu
	live  atomic.Int64 // open connections, idle ones and those in use

	// gate holds the requests that are stamped and not yet written; see ticket.
	// Siblings have one gate together.
	gate    chan struct{}
	passed  *atomic.Int64
	waiting *atomic.Int64 // dials and writes under way: of each the server's turn
	ungated *atomic.Bool

	// Events counts token-bearing events as they come, for a live display; those
	// of siblings too.
	Events *atomic.Int64
	// Whether the target has ever ended a body soon after [DONE], and whether
	// it has ever kept one open.
	drained, undrained atomic.Bool
}

// New makes a client. It opens nothing. Errors: a URL that is not one.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.BaseURL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, fmt.Errorf("%q is no base URL: want http://HOST:PORT or https://HOST", PublicURL(cfg.BaseURL))
	}
	cfg.ConnectTimeout = orDefault(cfg.ConnectTimeout, 10*time.Second)
	cfg.HeadersTimeout = orDefault(cfg.HeadersTimeout, 0)
	cfg.StallTimeout = orDefault(cfg.StallTimeout, 600*time.Second)
	cfg.TotalTimeout = orDefault(cfg.TotalTimeout, 6*time.Hour)
	c := &Client{
		cfg: cfg, secrets: cfg.Secrets(), gate: make(chan struct{}, runtime.GOMAXPROCS(0)),
		passed: new(atomic.Int64), waiting: new(atomic.Int64), ungated: new(atomic.Bool), Events: new(atomic.Int64),
	}
	api := cmp.Or(cfg.API, apiOf(cfg.Endpoint))
	c.responses, c.pools = api == Responses, !api.Generates()
	c.life, c.close = context.WithCancel(context.Background())
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: base})
	if err != nil {
		return nil, errors.New("HTTP_PROXY or HTTPS_PROXY in the environment is not a URL")
	}
	c.proxied = proxy != nil && cfg.Dial == nil
	c.transport = &http.Transport{
		DialContext:            c.dial,
		DialTLSContext:         c.dialTLS,
		TLSClientConfig:        c.tls(""),
		MaxIdleConnsPerHost:    1 << 20,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 256 << 10,
	}
	if c.proxied {
		c.transport.Proxy = http.ProxyFromEnvironment
		c.transport.DialTLSContext = nil // the tunnel's TLS is the transport's
	}
	c.http = &http.Client{
		Transport:     &recorder{c},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.api = c.apiOptions(base)
	return c, nil
}

// Sibling makes a client of a further target of the same load. The two count their
// events together and hold requests back at one gate, as the processor they wait
// for is one; they share no connections.
func (c *Client) Sibling(cfg Config) (*Client, error) {
	s, err := New(cfg)
	if err != nil {
		return nil, err
	}
	s.gate, s.passed, s.waiting, s.ungated, s.Events = c.gate, c.passed, c.waiting, c.ungated, c.Events
	return s, nil
}

// apiOptions are those of openai-go's client without its environment: no base
// URL, key, organisation or headers but ours, and no retries.
func (c *Client) apiOptions(base *url.URL) []option.RequestOption {
	u := *base
	u.RawQuery, u.Fragment = "", ""
	opts := []option.RequestOption{
		option.WithBaseURL(u.String()),
		option.WithHTTPClient(c.http),
		option.WithMaxRetries(0),
	}
	if c.cfg.APIKey != "" {
		opts = append(opts, option.WithAPIKey(c.cfg.APIKey))
	}
	for _, h := range []string{"Lang", "Package-Version", "OS", "Arch", "Runtime", "Runtime-Version", "Retry-Count", "Timeout"} {
		opts = append(opts, option.WithHeaderDel("X-Stainless-"+h))
	}
	return opts
}

// target is openai-go's client. openai.NewClient would read OPENAI_BASE_URL and
// its like; a client made of options does not. It is made for each call: in a
// field of Client, whose type reflection reaches, the linker keeps every method
// of every service, 24 MB of them.
func (c *Client) target() *openai.Client { return &openai.Client{Options: c.api} }

func orDefault(d, def time.Duration) time.Duration {
	switch {
	case d == 0:
		return def
	case d < 0:
		return 0
	}
	return d
}

// PublicURL is a URL without what may be secret in it: user, password, query.
func PublicURL(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "(a URL)"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// Connections is how many connections to the target are open, idle ones among them.
func (c *Client) Connections() int { return int(c.live.Load()) }

// HTTP is the client's own HTTP client, for probes: no redirects, the same
// connections. Requests of its own must carry Headers.
func (c *Client) HTTP() *http.Client { return c.http }

// Headers are those that go to every request to the target, the key among them.
func (c *Client) Headers() http.Header {
	h := http.Header{}
	if c.cfg.APIKey != "" {
		h.Set("Authorization", "Bearer "+c.cfg.APIKey)
	}
	for k, v := range c.cfg.Header {
		h.Set(k, v)
	}
	return h
}

// Proxied tells whether a proxy of the environment stands between.
func (c *Client) Proxied() bool { return c.proxied }

// Close ends all connections and dials. No request may be under way or follow.
func (c *Client) Close() {
	c.close()
	c.transport.CloseIdleConnections()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.ready {
		k.Close()
	}
	c.ready = nil
}

// conn is a connection with what its request wants to know of it.
type conn struct {
	net.Conn // perhaps TLS
	rx       *rxtime.Conn
	took     time.Duration // dial and TLS
	before   bool          // opened before it was needed
	held     bool          // a line feed was read and not yet handed on
	direct   direct        // reads streams past the transport
	closed   func()        // tells the client, once
	waiting  *atomic.Int64 // the client's
}

// Write writes and lets the gate know that it may wait for the server.
func (k *conn) Write(p []byte) (int, error) {
	k.waiting.Add(1)
	defer k.waiting.Add(-1)
	return k.Conn.Write(p)
}

// Close ends the connection.
func (k *conn) Close() error {
	k.closed()
	return k.Conn.Close()
}

// Read keeps back the line feed of a chunk's header at the end of what there is.
// With the whole header in its buffer net/http would wait for the chunk before
// it hands out the event in front of it, which then had the chunk's stamp.
func (k *conn) Read(p []byte) (int, error) {
	if k.held && len(p) > 0 {
		p[0], k.held = '\n', false
		return 1, nil
	}
	n, err := k.direct.give(p), error(nil)
	if n > 0 {
		k.direct.after += n
	} else {
		n, err = k.Conn.Read(p)
		n = k.direct.split(p[:n])
	}
	if n > 3 && p[n-1] == '\n' && p[n-2] == '\r' && kinds[p[n-3]]&hex != 0 {
		k.held = true
		return n - 1, nil // an error comes again
	}
	return n, err
}

// NetConn is the connection below, as tls.Conn has it.
func (k *conn) NetConn() net.Conn { return k.Conn }

func (c *Client) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return c.take(ctx, network, addr, "")
}

func (c *Client) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	return c.take(ctx, network, addr, host)
}

// take returns a connection that stands ready or else a new one.
func (c *Client) take(ctx context.Context, network, addr, tlsHost string) (net.Conn, error) {
	if k := c.takeReady(); k != nil {
		return k, nil
	}
	k, err := c.open(ctx, network, addr, tlsHost)
	if err != nil {
		return nil, err // not a nil *conn in a net.Conn
	}
	return k, nil
}

// takeReady returns a connection that was opened beforehand and still stands.
func (c *Client) takeReady() *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.ready) > 0 {
		k := c.ready[len(c.ready)-1]
		c.ready = c.ready[:len(c.ready)-1]
		if k.rx.Alive() {
			return k
		}
		k.Close()
	}
	return nil
}

// open dials and, with a host for it, shakes hands in TLS; the connect timeout
// is for both together.
func (c *Client) open(ctx context.Context, network, addr, tlsHost string) (*conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	if d := c.cfg.ConnectTimeout; d > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, d)
		defer stop()
	}
	dial := c.cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext
	}
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	start := time.Now()
	raw, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	var rx *rxtime.Conn
	if c.cfg.Dial == nil && tlsHost == "" && !c.cfg.NoKernelStamps {
		rx = rxtime.Adopt(raw)
	} else {
		rx = rxtime.New(raw, !c.cfg.NoKernelStamps)
	}
	rx.Wall = c.cfg.Wall
	k := &conn{Conn: rx, rx: rx, waiting: c.waiting, closed: sync.OnceFunc(func() { c.live.Add(-1) })}
	if tlsHost != "" {
		t := tls.Client(rx, c.tls(tlsHost))
		if err := t.HandshakeContext(ctx); err != nil {
			rx.Close()
			return nil, &tlsError{err}
		}
		k.Conn = t
	}
	k.took = time.Since(start)
	c.live.Add(1)
	return k, nil
}

func (c *Client) tls(host string) *tls.Config {
	return &tls.Config{ServerName: host, InsecureSkipVerify: c.cfg.Insecure, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
}

// settle takes in the session tickets that a server sends after a TLS 1.3
// handshake, wanted or not: unread, they make a connection look dead. They come
// within one round trip; the handshake took two.
func (k *conn) settle() {
	_ = k.SetReadDeadline(time.Now().Add(max(k.took, 20*time.Millisecond)))
	_, _ = k.Conn.Read(make([]byte, 1)) // a server has nothing to say yet
	_ = k.SetReadDeadline(time.Time{})
}

// tlsError is a handshake that failed.
type tlsError struct{ err error }

func (e *tlsError) Error() string {
	var record tls.RecordHeaderError
	if errors.As(e.err, &record) && string(record.RecordHeader[:]) == "HTTP/" {
		return "TLS: the server speaks plain HTTP on this port"
	}
	return "TLS: " + e.err.Error()
}

func (e *tlsError) Unwrap() error { return e.err }

// dialers bounds how many connections are opened at once: a listen backlog may
// be as short as 128.
const dialers = 64

// Open opens connections until there are n, idle ones among them, so that
// requests need not. Behind a proxy it does nothing. The error is the first one;
// connections that were opened stay. No request may be under way.
func (c *Client) Open(ctx context.Context, n int) error {
	if c.proxied {
		return nil
	}
	base, err := url.Parse(c.cfg.BaseURL)
	if err != nil {
		return err
	}
	port, tlsHost := base.Port(), ""
	if base.Scheme == "https" {
		tlsHost = base.Hostname()
	}
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[base.Scheme]
	}
	addr := net.JoinHostPort(base.Hostname(), port)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(dialers)
	for range n - int(c.live.Load()) {
		g.Go(func() error {
			k, err := c.open(ctx, "tcp", addr, tlsHost)
			if err != nil {
				return err
			}
			k.before = true
			if tlsHost != "" {
				k.settle()
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ready = append(c.ready, k)
			return nil
		})
	}
	return g.Wait()
}

// Model is one entry of the target's model list.
type Model struct{ ID, Root string }

// Models lists the target's models.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	var page struct {
		Data []struct {
			ID   string `json:"id"`
			Root string `json:"root"`
		} `json:"data"`
	}
	var raw *http.Response
	err := c.target().Get(ctx, "v1/models", nil, &page, option.WithResponseInto(&raw))
	if err != nil && raw != nil && raw.StatusCode >= 400 {
		body, _ := io.ReadAll(raw.Body) // openai-go has read it, and knows one shape of error
		return nil, fmt.Errorf("HTTP %d: %s", raw.StatusCode, c.redact(errorText(body)))
	}
	if err != nil {
		return nil, err
	}
	out := make([]Model, len(page.Data))
	for i, m := range page.Data {
		out[i] = Model{m.ID, m.Root}
	}
	return out, nil
}
