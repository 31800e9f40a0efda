package openai

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/metrics"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

// steps is a server that waits and sends by turns.
func steps(does ...any) script {
	return func(p *peer) {
		for p.next() != nil {
			for _, do := range does {
				switch do := do.(type) {
				case time.Duration:
					time.Sleep(do)
				case string:
					p.send(do)
				}
			}
		}
	}
}

// TestTimes: every instant is exactly the one at which the server acted.
func TestTimes(t *testing.T) {
	a, c := chunk(token("a")), chunk(last("c"))
	hang := time.Hour
	for _, tt := range []struct {
		name     string
		cfg      Config
		serve    script
		outcome  metrics.Outcome
		headers  time.Duration
		arrivals string
		done     time.Duration
		returned time.Duration // when Do did; 0 for done
	}{
		{"each step", Config{}, steps(5*ms, streamHead, 10*ms, a, 20*ms, c, 30*ms, chunk(doneEvent), lastChunk),
			metrics.OK, 5 * ms, "[15ms 35ms]", 65 * ms, 0},
		{"several in one read share a stamp", Config{}, steps(streamHead, 10*ms, a+a+c, 20*ms, chunk(doneEvent)+lastChunk),
			metrics.OK, 0, "[10ms 10ms 10ms]", 30 * ms, 0},
		{"the read that completes an event counts", Config{}, steps(streamHead+a[:9], 10*ms, a[9:], 5*ms, c, chunk(doneEvent)+lastChunk),
			metrics.OK, 0, "[10ms 15ms]", 15 * ms, 0},
		// A read that ends behind a chunk's header would make net/http wait for
		// the chunk before it hands out the event that is already there.
		{"a segment ends behind a chunk's header", Config{}, steps(streamHead, 10*ms, a+c[:4], 20*ms, c[4:], chunk(doneEvent)+lastChunk),
			metrics.OK, 0, "[10ms 30ms]", 30 * ms, 0},
		{"a chunk's header comes alone", Config{}, steps(streamHead, 10*ms, a, ms, c[:2], ms, c[2:4], 18*ms, c[4:], chunk(doneEvent)+lastChunk),
			metrics.OK, 0, "[10ms 30ms]", 30 * ms, 0},
		{"comments are no events", Config{}, steps(streamHead, 10*ms, chunk(": keep-alive\n\n"), 10*ms, a, 10*ms, chunk(": k\n\n"), 10*ms, c, 10*ms, chunk(doneEvent)+lastChunk),
			metrics.OK, 0, "[20ms 40ms]", 50 * ms, 0},
		{"without [DONE] the end of the body is the end", Config{}, steps(streamHead, 10*ms, c, 10*ms, lastChunk),
			metrics.OK, 0, "[10ms]", 20 * ms, 0},
		{"stall", Config{StallTimeout: 2 * s}, steps(streamHead, 3*s, a, s, a, hang),
			metrics.TimeoutStall, 0, "[3s 4s]", 6 * s, 0},
		{"stall by default", Config{}, steps(streamHead, s, a, hang),
			metrics.TimeoutStall, 0, "[1s]", 601 * s, 0},
		{"stall, the gap just short of it", Config{StallTimeout: 2 * s}, steps(streamHead, a, 2*s-1, c, chunk(doneEvent)+lastChunk),
			metrics.OK, 0, "[0s 1.999999999s]", 2*s - 1, 0},
		{"comments do not feed the stall clock", Config{StallTimeout: 2 * s}, steps(streamHead, a, s, chunk(": k\n\n"), s-1, chunk(":\n\ndata:\n\n"), hang),
			metrics.TimeoutStall, 0, "[0s]", 2 * s, 0},
		{"stall in half an event", Config{StallTimeout: 2 * s}, steps(streamHead, a, s, a[:20], hang),
			metrics.TimeoutStall, 0, "[0s]", 2 * s, 0},
		{"before the first event nothing stalls", Config{StallTimeout: 2 * s, TotalTimeout: 60 * s}, steps(streamHead, 30*s, c, chunk(doneEvent)+lastChunk),
			metrics.OK, 0, "[30s]", 30 * s, 0},
		{"headers", Config{HeadersTimeout: 7 * s}, steps(hang),
			metrics.TimeoutHeaders, 0, "[]", 7 * s, 0},
		{"headers in time", Config{HeadersTimeout: 7 * s}, steps(6*s, streamHead, 20*s, c, chunk(doneEvent)+lastChunk),
			metrics.OK, 6 * s, "[26s]", 26 * s, 0},
		{"total", Config{TotalTimeout: 5 * s}, steps(streamHead, a, 2*s, a, 2*s, a, 2*s, a, hang),
			metrics.TimeoutTotal, 0, "[0s 2s 4s]", 5 * s, 0},
		{"total before anything", Config{TotalTimeout: 5 * s}, steps(hang),
			metrics.TimeoutTotal, 0, "[]", 5 * s, 0},
		{"total by default", Config{StallTimeout: -1}, steps(streamHead, a, 7*hang),
			metrics.TimeoutTotal, 0, "[0s]", 6 * hang, 0},
		{"the connection stays open after [DONE]", Config{}, steps(streamHead, 10*ms, c+chunk(doneEvent), hang),
			metrics.OK, 0, "[10ms]", 10 * ms, 110 * ms},
		{"the body ends a little after [DONE]", Config{}, steps(streamHead, 10*ms, c+chunk(doneEvent), 99*ms, lastChunk),
			metrics.OK, 0, "[10ms]", 10 * ms, 109 * ms},
		{"an error's body hangs", Config{}, steps("HTTP/1.1 503 No\r\nContent-Length: 9\r\n\r\nbusy", hang),
			metrics.HTTP, 0, "[]", 10 * s, 0},
		{"HTML hangs", Config{}, steps("HTTP/1.1 200 OK\r\n\r\n<html>", hang),
			metrics.Decode, 0, "[]", 10 * s, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, tt.cfg, tt.serve, func(t *testing.T, c *Client) {
				start := time.Now()
				r := do(t.Context(), c)
				took := time.Since(start)
				if r.Outcome != tt.outcome || r.Headers != tt.headers || fmt.Sprint(r.Arrivals) != tt.arrivals || r.Done != tt.done || r.Sent != 0 {
					t.Errorf("got %s headers %v arrivals %v done %v sent %v", sum(r), r.Headers, r.Arrivals, r.Done, r.Sent)
				}
				if want := max(tt.returned, tt.done); took != want {
					t.Errorf("Do took %v, want %v", took, want)
				}
				if len(r.RxDelay) != len(r.Arrivals) {
					t.Errorf("%d delays", len(r.RxDelay))
				}
			})
		})
	}
}

// TestDrainIsRemembered: a target that never ends its bodies costs one wait;
// one that did once is waited for again.
func TestDrainIsRemembered(t *testing.T) {
	open := streamHead + chunk(last("c")+doneEvent)
	n := 0
	serve := func(p *peer) {
		for p.next() != nil {
			if n++; n == 3 {
				p.send(open + lastChunk)
				continue
			}
			p.send(open)
			p.next() // until the client goes
			return
		}
	}
	bubble(t, Config{}, serve, func(t *testing.T, c *Client) {
		for i, want := range []time.Duration{100 * ms, 0, 0, 100 * ms} {
			start := time.Now()
			if i == 2 {
				c.undrained.Store(false) // as if the first had ended in time
			}
			r := do(t.Context(), c)
			if took := time.Since(start); took != want || r.Outcome != metrics.OK || r.Undrained != (i != 2) {
				t.Errorf("request %d took %v, want %v: %s", i, took, want, sum(r))
			}
		}
	})
}

// TestDrainIsBounded: more than 64 KiB after [DONE] is not read.
func TestDrainIsBounded(t *testing.T) {
	bubble(t, Config{}, answer(stream(last("c"), doneEvent, strings.Repeat("x", 100<<10))), func(t *testing.T, c *Client) {
		if got, want := sum(do(t.Context(), c)), "ok ev=1 out=1/chunks undrained"; got != want {
			t.Errorf("got %s", got)
		}
	})
}

// TestCancel: a request ends at once, wherever it is, and keeps what it has.
func TestCancel(t *testing.T) {
	for _, tt := range []struct {
		name, arrivals string
		serve          script
	}{
		{"before headers", "[]", steps(time.Hour)},
		{"in the stream", "[0s 1s]", steps(streamHead, chunk(token("a")), s, chunk(token("b")), time.Hour)},
		{"in an error's body", "[]", steps("HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\n", time.Hour)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, Config{}, tt.serve, func(t *testing.T, c *Client) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(3*s, cancel)
				r := do(ctx, c)
				want := metrics.Canceled
				if r.Status == 500 {
					want = metrics.HTTP // that is known already
				}
				if r.Outcome != want || r.Done != 3*s || fmt.Sprint(r.Arrivals) != tt.arrivals {
					t.Errorf("got %s arrivals %v done %v", sum(r), r.Arrivals, r.Done)
				}
			})
		})
	}
}

// TestConnectTimeout is for dial and TLS together, and a negative one is none.
func TestConnectTimeout(t *testing.T) {
	hang := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: ctx.Err()}
	}
	// A dial of 3 s, then silence where a handshake should be.
	slow := func(ctx context.Context, _, _ string) (net.Conn, error) {
		time.Sleep(3 * s)
		client, server := net.Pipe()
		go func() {
			<-ctx.Done()
			server.Close()
		}()
		go func() {
			in := bufio.NewReader(server)
			for _, err := in.ReadByte(); err == nil; _, err = in.ReadByte() {
			}
		}()
		return client, nil
	}
	for _, tt := range []struct {
		name, url string
		cfg       Config
		outcome   metrics.Outcome
		done      time.Duration
	}{
		{"dial", "http://x.test", Config{Dial: hang}, metrics.TimeoutConnect, 10 * s},
		{"dial, 2 s", "http://x.test", Config{Dial: hang, ConnectTimeout: 2 * s}, metrics.TimeoutConnect, 2 * s},
		{"none", "http://x.test", Config{Dial: hang, ConnectTimeout: -1, TotalTimeout: 60 * s}, metrics.TimeoutTotal, 60 * s},
		{"dial and TLS", "https://x.test", Config{Dial: slow}, metrics.TimeoutConnect, 10 * s},
		{"refused", "http://x.test", Config{Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }}, metrics.Connect, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.cfg.BaseURL = tt.url
				c := newClient(t, tt.cfg)
				if r := do(t.Context(), c); r.Outcome != tt.outcome || r.Done != tt.done || r.Status != 0 || r.Headers != 0 {
					t.Errorf("got %s done %v", sum(r), r.Done)
				}
				c.Close()
			})
		})
	}
}

// TestCloseEndsDials: a dial whose request was given up ends with the client.
// The bubble fails if it does not.
func TestCloseEndsDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials sync.WaitGroup
		c := newClient(t, Config{ConnectTimeout: -1, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			dials.Add(1)
			defer dials.Done()
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		ctx, cancel := context.WithTimeout(t.Context(), s)
		defer cancel()
		if r := do(ctx, c); r.Outcome != metrics.Canceled || r.Done != s {
			t.Errorf("got %s done %v", sum(r), r.Done)
		}
		c.Close()
		dials.Wait()
	})
}

// TestConcurrent shares a client among many requests under the race detector.
func TestConcurrent(t *testing.T) {
	serve := func(p *peer) {
		for p.next() != nil {
			p.send(streamHead)
			for range 5 {
				time.Sleep(ms)
				p.send(chunk(token("a")))
			}
			p.send(chunk(last("c")), chunk(doneEvent), lastChunk)
		}
	}
	bubble(t, Config{Text: TextAlways}, serve, func(t *testing.T, c *Client) {
		if err := c.Open(t.Context(), 50); err != nil {
			t.Fatal(err)
		}
		requests := make([]loadgen.Request, 500)
		for i := range requests {
			requests[i] = loadgen.Request{ID: fmt.Sprint(i), Body: []byte(`{}`), OutputTokens: 6}
		}
		records, _, _ := loadgen.Run(t.Context(), c, requests, loadgen.Load{MaxConcurrency: 50})
		for _, r := range records {
			if got := sum(r); got != `ok ev=6 out=6/chunks "aaaaac"` || !r.Reused || r.Done-r.Sent != 5*ms {
				t.Fatalf("%s, reused %v, %v", got, r.Reused, r.Done-r.Sent)
			}
		}
		if n := c.Events.Load(); n != 3000 {
			t.Errorf("%d events counted", n)
		}
	})
}
