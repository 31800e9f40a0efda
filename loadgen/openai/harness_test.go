package openai

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/metrics"
)

// peer is the server's end of a connection: it does what its test says.
type peer struct {
	net.Conn
	in *bufio.Reader
}

// next reads a whole request; nil where no more comes.
func (p *peer) next() *http.Request {
	r, err := http.ReadRequest(p.in)
	if err != nil {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	return r
}

// send writes each piece on its own. A client that has gone is no error.
func (p *peer) send(pieces ...string) {
	for _, s := range pieces {
		if _, err := io.WriteString(p, s); err != nil {
			return
		}
	}
}

// script is what a server does on each connection; it is closed afterwards.
type script func(p *peer)

// answer answers every request with the same pieces, then closes.
func answer(pieces ...string) script {
	return func(p *peer) {
		if p.next() != nil {
			p.send(pieces...)
		}
	}
}

// bubble runs test against a server on an in-memory network, under a fake
// clock. Everything must have ended once the client is closed.
func bubble(t *testing.T, cfg Config, serve script, test func(t *testing.T, c *Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		if cfg.Dial == nil {
			cfg.Dial = func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				wg.Go(func() {
					defer server.Close()
					serve(&peer{server, bufio.NewReader(server)})
				})
				return client, nil
			}
		}
		c := newClient(t, cfg)
		test(t, c)
		c.Close()
		wg.Wait()
	})
}

// newClient fills in what a test does not care about.
func newClient(t testing.TB, cfg Config) *Client {
	t.Helper()
	if cfg.BaseURL == "" {
		cfg.BaseURL = "http://server.test"
	}
	if cfg.Endpoint == "" {
		cfg.Endpoint = Completions.Path()
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// do sends one request; schedule zero is now.
func do(ctx context.Context, c *Client, body ...string) metrics.Record {
	var rec metrics.Record
	req := &loadgen.Request{Body: []byte(`{"prompt":"p"}`), OutputTokens: 4}
	if len(body) > 0 {
		req.Body = []byte(body[0])
	}
	c.Do(ctx, loadgen.StartClock(), req, &rec)
	return rec
}

// loopback is a server on a real socket; its URL.
func loopback(t *testing.T, serve script) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				serve(&peer{conn, bufio.NewReader(conn)})
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return "http://" + l.Addr().String()
}

const (
	streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	lastChunk  = "0\r\n\r\n"
	doneEvent  = "data: [DONE]\n\n"
)

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

func event1(payload string) string { return "data: " + payload + "\n\n" }

// token is a completion's event, last one with a finish reason.
func token(text string) string {
	return event1(`{"choices":[{"index":0,"text":"` + text + `","finish_reason":null}]}`)
}

func last(text string) string {
	return event1(`{"choices":[{"index":0,"text":"` + text + `","finish_reason":"stop"}]}`)
}

func usageEvent(usage string) string { return event1(`{"choices":[],"usage":` + usage + `}`) }

// delta is a chat's event.
func delta(members string) string {
	return event1(`{"choices":[{"index":0,"delta":{` + members + `},"finish_reason":null}]}`)
}

// stream is a whole response whose body is events, each in a chunk of its own.
func stream(events ...string) string {
	var b strings.Builder
	b.WriteString(streamHead)
	for _, e := range events {
		b.WriteString(chunk(e))
	}
	b.WriteString(lastChunk)
	return b.String()
}

// plain is a response with a length.
func plain(status, contentType, body string, header ...string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n%s", status, contentType, len(body), strings.Join(header, ""), body)
}

// sum says in one line what a record holds, stamps apart.
func sum(r metrics.Record) string {
	var b strings.Builder
	fmt.Fprint(&b, r.Outcome)
	add := func(ok bool, format string, args ...any) {
		if ok {
			fmt.Fprintf(&b, " "+format, args...)
		}
	}
	add(r.Status != 200 && r.Status != 0, "%d", r.Status)
	add(len(r.Arrivals) > 0, "ev=%d", len(r.Arrivals))
	add(r.NotBearing != nil, "without=%v", r.NotBearing)
	add(r.TokenSource != "", "out=%d/%s", r.OutputTokens, r.TokenSource)
	add(r.PromptTokens > 0, "in=%d", r.PromptTokens)
	add(r.CachedTokens > 0, "cached=%d", r.CachedTokens)
	add(r.Tokens != nil, "tokens=%v", r.Tokens)
	add(r.Reasoned, "visible=%d", r.Visible)
	add(r.ReasoningTokens > 0, "reasoning=%d", r.ReasoningTokens)
	add(r.Text != "", "%q", r.Text)
	add(r.NoDone, "no_done")
	add(r.NotStreamed, "not_streamed")
	add(r.UsageMismatch, "mismatch")
	add(r.BadUsage > 0, "bad=%d", r.BadUsage)
	add(r.Redialed > 0, "redialed=%d", r.Redialed)
	add(r.Trailing > 0, "trailing=%d", r.Trailing)
	add(r.Undrained, "undrained")
	add(r.Error != "", "[%s]", r.Error)
	return b.String()
}
