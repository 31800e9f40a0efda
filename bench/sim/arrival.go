package sim

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// The arrival of a request is when the kernel had it, where the kernel tells: how long the server took to read it is then
// the server's and not the client's.

// arrivals makes connections that know when what they read last arrived.
type arrivals struct{ net.Listener }

func (l arrivals) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	a := &arrivalConn{Conn: c}
	a.kernel.init(c)
	return a, nil
}

type arrivalConn struct {
	net.Conn
	kernel kernelStamp
	last   atomic.Int64 // CLOCK_MONOTONIC of the newest read's first byte; 0 before the first
}

func (c *arrivalConn) Read(p []byte) (int, error) {
	at := int64(0)
	if len(p) > 0 {
		at = c.kernel.wait()
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		if at == 0 {
			at = monotonicNow()
		}
		c.last.Store(at)
	}
	return n, err
}

type arrivalKey struct{}

// withArrival lets the handlers of c's requests ask when these arrived.
func withArrival(ctx context.Context, c net.Conn) context.Context {
	for {
		if a, ok := c.(*arrivalConn); ok {
			return context.WithValue(ctx, arrivalKey{}, a)
		}
		below, ok := c.(interface{ NetConn() net.Conn }) // TLS
		if !ok {
			return ctx
		}
		c = below.NetConn()
	}
}

// arrived is when the end of r's body arrived, once that is read; now, where its connection does not know.
func arrived(r *http.Request) int64 {
	if c, ok := r.Context().Value(arrivalKey{}).(*arrivalConn); ok {
		if at := c.last.Load(); at != 0 {
			return at
		}
	}
	return monotonicNow()
}
