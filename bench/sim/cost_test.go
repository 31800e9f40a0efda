package sim_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/servebench/servebench/bench/sim"
)

// discard is a ResponseWriter that costs nothing.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Flush()                      {}

func discarded(s *sim.Server, tokens int) {
	discardedFrom(s, "/v1/completions", streamBody("a", tokens))
}

func discardedFrom(s *sim.Server, path, body string) {
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	s.ServeHTTP(&discard{http.Header{}}, r)
}

func responseBody(tokens int) string {
	return fmt.Sprintf(`{"input":"a","max_output_tokens":%d,"stream":true}`, tokens)
}

func TestAnEventAllocatesNothing(t *testing.T) {
	for name, c := range map[string]sim.Config{"plain": {}, "truth": {Truth: true}, "jitter": {Jitter: 0.5, ITL: 1}, "chunks": {TokensPerChunk: 4},
		"engine": {Engine: &sim.Engine{ChunkedPrefill: true, StepBase: 1}}} {
		s := sim.New(c)
		few := testing.AllocsPerRun(10, func() { discarded(s, 1_000) })
		many := testing.AllocsPerRun(10, func() { discarded(s, 10_000) })
		// One allocation per event would be 9,000 more. The few tolerated come from sync.Pools (of fmt and encoding/json),
		// which the race detector empties at random.
		if many-few >= 90 {
			t.Errorf("%s: %v allocations for 1,000 tokens, %v for 10,000", name, few, many)
		}
		few = testing.AllocsPerRun(10, func() { discardedFrom(s, "/v1/responses", responseBody(1_000)) })
		many = testing.AllocsPerRun(10, func() { discardedFrom(s, "/v1/responses", responseBody(10_000)) })
		if many-few >= 90 {
			t.Errorf("%s: %v allocations for a response of 1,000 tokens, %v for one of 10,000", name, few, many)
		}
	}
}

// countedConn counts the writes that would be system calls on a socket.
type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

type countedListener struct {
	net.Listener
	writes atomic.Int64
}

func (l *countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countedConn{c, &l.writes}, err
}

// A client that stamps reads can only tell events apart that were written apart; and a second write per event would be
// half of the server's cost.
func TestEachEventIsOneWrite(t *testing.T) {
	t.Run("completion", func(t *testing.T) {
		// The headers, 50 tokens, and [DONE] together with the end of the body.
		testWrites(t, "/v1/completions", streamBody("a", 50), 52)
	})
	t.Run("response", func(t *testing.T) {
		// Four events before the tokens, three behind them, and the last one together with the end of the body.
		testWrites(t, "/v1/responses", responseBody(50), 59)
	})
}

func testWrites(t *testing.T, path, body string, want int64) {
	synctest.Test(t, func(t *testing.T) {
		pipes := newPipeNet()
		l := &countedListener{Listener: pipes}
		ctx, stop := context.WithCancel(t.Context())
		s := &served{&http.Client{Transport: &http.Transport{DialContext: pipes.dial}}, stop, make(chan error, 1)}
		go func() { s.done <- sim.New(sim.Config{}).Serve(ctx, l) }()
		if _, err := s.stream(t.Context(), path, body); err != nil {
			t.Fatal(err)
		}
		s.close(t)
		if got := l.writes.Load(); got != want {
			t.Errorf("%d writes, want %d", got, want)
		}
	})
}

// BenchmarkEvent is the simulator's own part of an event, without net/http and the kernel.
func BenchmarkEvent(b *testing.B) {
	const tokens = 100_000
	s := sim.New(sim.Config{})
	for b.Loop() {
		discarded(s, tokens)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tokens), "ns/event")
}

// BenchmarkLoopback streams over TCP as fast as it goes. The client drains with large reads, so nearly all of the CPU time,
// which covers both sides, is the server's: event for event one write to the socket.
func BenchmarkLoopback(b *testing.B) {
	for _, streams := range []int{1, 16, 256} {
		for _, truth := range []bool{false, true} {
			b.Run(fmt.Sprintf("streams=%d/truth=%v", streams, truth), func(b *testing.B) { loopback(b, streams, truth) })
		}
	}
}

func loopback(b *testing.B, streams int, truth bool) {
	const tokens = 2000
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	served := make(chan error, 1)
	go func() { served <- sim.New(sim.Config{Truth: truth}).Serve(ctx, l) }()
	body := streamBody("a", tokens)
	request := fmt.Sprintf("POST /v1/completions HTTP/1.1\r\nHost: sim\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)

	var requests atomic.Int64
	before := cpuTime(b)
	for b.Loop() {
		var all sync.WaitGroup
		for range streams {
			all.Go(func() {
				conn, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					b.Error(err)
					return
				}
				defer conn.Close()
				if _, err := io.WriteString(conn, request); err != nil {
					b.Error(err)
				}
				if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, make([]byte, 1<<20)); err != nil || n < tokens*200 {
					b.Errorf("%d bytes, %v", n, err)
				}
				requests.Add(1)
			})
		}
		all.Wait()
	}
	events := float64(requests.Load() * tokens)
	b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/events, "cpu-ns/event")
	stop()
	if err := <-served; err != nil {
		b.Error(err)
	}
}

// BenchmarkRequest is a request's own cost, with a prompt of 4,096 tokens and one token of answer.
func BenchmarkRequest(b *testing.B) {
	s := sim.New(sim.Config{})
	for _, c := range []struct{ name, prompt string }{
		{"text", `"` + strings.Repeat(" hello", 4096) + `"`},
		{"ids", "[" + strings.Repeat("151000,", 4095) + "1]"},
	} {
		b.Run("prompt="+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest("POST", "/v1/completions", strings.NewReader(`{"max_tokens":1,"prompt":`+c.prompt+`}`))
				s.ServeHTTP(&discard{http.Header{}}, r)
			}
		})
	}
}
