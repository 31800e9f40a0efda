package openai

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/servebench/servebench/metrics"
)

// TestResets has the server reset the connection at different points.
func TestResets(t *testing.T) {
	reset := func(p *peer) { p.Conn.(*net.TCPConn).SetLinger(0) }
	for _, tt := range []struct {
		name, want string
		serve      script
	}{
		{"before headers", "reset [the server closed or reset the connection]", func(p *peer) { p.next(); reset(p) }},
		{"in the stream", "reset ev=1 out=1/chunks [the server closed or reset the connection]", func(p *peer) {
			p.next()
			p.send(streamHead, chunk(token("a")))
			p.Read(make([]byte, 1)) // until the client has the event and says so
			reset(p)
		}},
		{"after the finish reason", "ok ev=1 out=1/chunks no_done", func(p *peer) {
			p.next()
			p.send(streamHead, chunk(last("a")))
			p.Read(make([]byte, 1))
			reset(p)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var conn net.Conn
			c := newClient(t, Config{BaseURL: loopback(t, tt.serve)})
			c.cfg.Dial = dialKeep(&conn)
			defer c.Close()
			// The event is counted once it is in the record; then the server may go.
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for c.Events.Load() == 0 {
					select {
					case <-stop:
						return
					default:
					}
				}
				conn.Write([]byte("x"))
			})
			got := sum(do(t.Context(), c))
			close(stop)
			wg.Wait()
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestNoConnection: refused, and every way in which TLS fails, is connect.
func TestNoConnection(t *testing.T) {
	quiet := log.New(io.Discard, "", 0)
	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = quiet
	secure.StartTLS()
	defer secure.Close()
	mutual := httptest.NewUnstartedServer(nil)
	mutual.Config.ErrorLog = quiet
	mutual.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	mutual.StartTLS()
	defer mutual.Close()
	insecure := loopback(t, func(p *peer) {
		p.in.ReadByte()
		p.send("HTTP/1.1 400 Bad Request\r\n\r\n")
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for _, tt := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"refused", Config{BaseURL: "http://" + l.Addr().String()}, "connection refused"},
		{"no such scheme of address", Config{BaseURL: "http://127.0.0.1:99999"}, "invalid port"},
		{"bad certificate", Config{BaseURL: secure.URL}, "TLS: tls: failed to verify certificate"},
		{"a client's certificate is wanted", Config{BaseURL: mutual.URL, Insecure: true}, "certificate required"},
		{"plain HTTP on https", Config{BaseURL: strings.Replace(insecure, "http:", "https:", 1)}, "TLS: the server speaks plain HTTP on this port"},
		{"the server closes in the handshake", Config{BaseURL: strings.Replace(loopback(t, func(p *peer) { p.in.ReadByte() }), "http:", "https:", 1)}, "TLS: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, tt.cfg)
			defer c.Close()
			r := do(t.Context(), c)
			if r.Outcome != metrics.Connect || !strings.Contains(r.Error, tt.want) || r.Status != 0 {
				t.Errorf("got %s", sum(r))
			}
		})
	}
}

// TestStaleConnection: the server has closed the idle connection. The request
// goes out on a new one, once, and that is counted.
func TestStaleConnection(t *testing.T) {
	for range 200 {
		var posts atomic.Int64
		closed := make(chan struct{}, 9)
		c := newClient(t, Config{BaseURL: loopback(t, func(p *peer) {
			if p.next() != nil {
				posts.Add(1)
				p.send(stream(last("c"), doneEvent))
			}
			p.Close()
			closed <- struct{}{}
		})})
		for i := range 3 {
			if r := do(t.Context(), c); r.Outcome != metrics.OK || r.Redialed > min(i, 1) || posts.Load() != int64(i)+1 {
				t.Fatalf("request %d: %s, %d posts", i, sum(r), posts.Load())
			}
			<-closed // the transport may or may not have seen it
		}
		c.Close()
	}
}

// TestNoHiddenRetry: what the server has read is not sent again.
func TestNoHiddenRetry(t *testing.T) {
	for _, response := range []string{
		"", "HTTP/1.1 ", "HTTP/1.1 503 No\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 429 No\r\nx-should-retry: true\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 307 No\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 302 No\r\nLocation: :%%bad\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 408 No\r\nContent-Length: 0\r\n\r\n",
	} {
		var posts atomic.Int64
		c := newClient(t, Config{BaseURL: loopback(t, func(p *peer) {
			for n := 0; p.next() != nil; n++ {
				posts.Add(1)
				if n == 0 && response == "" {
					p.send(stream(last("c"), doneEvent))
					continue
				}
				p.send(response)
				if !strings.HasPrefix(response, "HTTP/1.1 4") {
					return
				}
			}
		})})
		want := int64(1)
		if response == "" {
			do(t.Context(), c) // so that the connection is a reused one
			want++
		}
		r := do(t.Context(), c)
		if r.Outcome == metrics.OK || posts.Load() != want || r.Redialed != 0 {
			t.Errorf("%q: %s, %d posts", response, sum(r), posts.Load())
		}
		if strings.Contains(response, "\r\n\r\n") && r.Outcome != metrics.HTTP {
			t.Errorf("%q: %s", response, sum(r))
		}
		c.Close()
	}
}

// TestRefusedRedial: the second connection's failure is named, not the first's.
func TestRefusedRedial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := newClient(t, Config{BaseURL: "http://" + l.Addr().String()})
	defer c.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		l.Close()
		p := &peer{conn, bufio.NewReader(conn)}
		p.next()
		p.send(stream(last("c"), doneEvent))
		conn.Close()
	})
	do(t.Context(), c)
	wg.Wait()
	if r := do(t.Context(), c); r.Outcome != metrics.Connect {
		t.Errorf("got %s", sum(r))
	}
}

// TestOpen: requests use the connections opened before, plain or with TLS.
func TestOpen(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, last("c")+doneEvent)
	})
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprint("TLS=", secure), func(t *testing.T) {
			var conns atomic.Int64
			server := httptest.NewUnstartedServer(handler)
			server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					conns.Add(1)
				}
			}
			if server.Start(); secure {
				server.Close()
				server = httptest.NewUnstartedServer(handler)
				server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
					if s == http.StateNew {
						conns.Add(1)
					}
				}
				server.StartTLS()
			}
			defer server.Close()
			c := newClient(t, Config{BaseURL: server.URL, Insecure: true})
			defer c.Close()
			if err := c.Open(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
			for range 4 {
				if r := do(t.Context(), c); r.Outcome != metrics.OK || !r.Reused || r.Connect != 0 {
					t.Errorf("got %s, reused %v, connect %v", sum(r), r.Reused, r.Connect)
				}
			}
			if n := conns.Load(); n != 3 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// TestKernelStamps: on a real socket each event has one, and its delay.
func TestKernelStamps(t *testing.T) {
	c := newClient(t, Config{BaseURL: loopback(t, answer(stream(token("a"), last("c"), doneEvent)))})
	defer c.Close()
	r := do(t.Context(), c)
	if r.Outcome != metrics.OK || r.Sent > r.Headers || r.Headers > r.Arrivals[0] || r.Arrivals[1] > r.Done || r.Reused || r.Connect <= 0 {
		t.Errorf("got %s: %+v", sum(r), r)
	}
}

// dialKeep dials as usual and keeps the connection for the test.
func dialKeep(conn *net.Conn) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		*conn = c
		return c, err
	}
}
