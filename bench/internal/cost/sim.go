package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/servebench/servebench/bench/internal/simproc"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/loadgen/rxtime"
)

// simConfig is the server of all measurements. The first token waits until a
// burst of requests has been sent and read.
var simConfig = sim.Config{TTFT: 500 * time.Millisecond, ITL: 10 * time.Millisecond, TokensPerChunk: 1, Truth: true}

// stamps say when the simulator did what for one request: nanoseconds since 1970
// at the process's start, carried on by the monotonic clock.
type stamps = simproc.Stamps

// tap is the simulator with stamps. They are taken outside of it, right around
// its own: sent_ns of an event is read a few instructions before.
type tap struct {
	next http.Handler
	base time.Time

	mu   sync.Mutex
	idle *sync.Cond
	open int      // requests under way; guarded by mu
	done []stamps // guarded by mu
}

func newTap(next http.Handler) *tap {
	t := &tap{next: next, base: time.Now()}
	t.idle = sync.NewCond(&t.mu)
	return t
}

func (t *tap) now() int64 { return t.at(time.Now()) }

func (t *tap) at(when time.Time) int64 { return t.base.UnixNano() + int64(when.Sub(t.base)) }

// connKey is the context key of a request's connection.
type connKey struct{}

// arrived is when the kernel received what the connection read last; where it
// does not tell, when that was read.
func (t *tap) arrived(ctx context.Context) int64 {
	s := ctx.Value(connKey{}).(*rxtime.Conn).Last()
	return t.at(s.Read.Add(-s.Delay))
}

// senderKey is that of its sender of events, which each request wraps.
type senderKey struct{}

func connContext(ctx context.Context, c net.Conn) context.Context {
	ctx = context.WithValue(ctx, connKey{}, c)
	if sender := sim.NewSender(c.(*rxtime.Conn).Conn); sender != nil {
		ctx = context.WithValue(ctx, senderKey{}, sender)
	}
	return ctx
}

// stampedListener makes connections that know when the kernel received.
type stampedListener struct{ net.Listener }

func (l stampedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return rxtime.New(c, true), nil
}

// ServeHTTP implements [http.Handler].
func (t *tap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == simproc.TakePath {
		t.take(w)
		return
	}
	if r.Method != http.MethodPost || r.URL.Path != "/v1/completions" {
		t.next.ServeHTTP(w, r)
		return
	}
	s := stamps{ID: r.Header.Get("X-Request-Id"), Arrived: t.arrived(r.Context()), Entered: t.now(), Writes: make([]int64, 0, 512)}
	t.mu.Lock()
	t.open++
	t.mu.Unlock()
	r.Body = &stampedBody{r.Body, t, &s}
	if sender, ok := r.Context().Value(senderKey{}).(sim.Sender); ok {
		r = r.WithContext(sim.WithSender(r.Context(), &stampedSender{sender, t, &s}))
	}
	t.next.ServeHTTP(&stampedWriter{w, t, &s}, r)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.done = append(t.done, s)
	if t.open--; t.open == 0 {
		t.idle.Broadcast()
	}
}

// take writes the stamps since the last take, once no request is under way: a
// client may end before the handler that has served it.
func (t *tap) take(w http.ResponseWriter) {
	t.mu.Lock()
	for t.open > 0 {
		t.idle.Wait()
	}
	done := t.done
	t.done = nil
	t.mu.Unlock()
	if done == nil {
		done = []stamps{}
	}
	_ = json.NewEncoder(w).Encode(done) // whoever asked is gone
}

type stampedBody struct {
	io.ReadCloser
	t *tap
	s *stamps
}

func (b *stampedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.s.Read = b.t.now()
	return n, err
}

type stampedWriter struct {
	http.ResponseWriter
	t *tap
	s *stamps
}

func (w *stampedWriter) Write(p []byte) (int, error) {
	w.s.Writes = append(w.s.Writes, w.t.now())
	return w.ResponseWriter.Write(p)
}

// stampedSender does for events past net/http what stampedWriter does for the others.
type stampedSender struct {
	sim.Sender
	t *tap
	s *stamps
}

func (w *stampedSender) Write(p []byte) (int, error) {
	w.s.Writes = append(w.s.Writes, w.t.now())
	return w.Sender.Write(p)
}

func (w *stampedSender) Try(p []byte) (int, error) {
	w.s.Writes = append(w.s.Writes, w.t.now())
	return w.Sender.Try(p)
}

// Unwrap lets an http.ResponseController flush.
func (w *stampedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// serveSim is the role sim: it serves until standard input or ctx ends.
func serveSim(ctx context.Context, stdout io.Writer, ttft, itl time.Duration) error {
	cfg := simConfig
	cfg.TTFT, cfg.ITL = ttft, itl
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{
		Handler: newTap(sim.New(cfg)), ErrorLog: log.New(io.Discard, "", 0),
		ConnContext: connContext,
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // ends with the process: a read of standard input cannot be called off
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	closed := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer closed()
	fmt.Fprintf(stdout, "listening on http://%s\n", l.Addr())
	if err := srv.Serve(stampedListener{l}); ctx.Err() == nil {
		return err
	}
	return nil
}
