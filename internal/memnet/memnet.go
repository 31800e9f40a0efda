// Package memnet is a network of net.Pipe connections: a server and its clients
// share a bubble of virtual time. For tests.
package memnet

import (
	"context"
	"errors"
	"net"
	"sync"
)

// Net is a listener and what connects to it. It is safe for concurrent use; make one
// with New, inside the bubble.
type Net struct {
	conns chan net.Conn
	once  sync.Once
	gone  chan struct{}
}

// New returns a network without connections.
func New() *Net { return &Net{conns: make(chan net.Conn), gone: make(chan struct{})} }

// Accept waits for the next connection.
func (n *Net) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.gone:
		return nil, net.ErrClosed
	}
}

// Close refuses further connections. Those that there are stay.
func (n *Net) Close() error { n.once.Do(func() { close(n.gone) }); return nil }

// Addr is the same for all networks.
func (n *Net) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// Dial connects to the listener, whatever the address.
func (n *Net) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case n.conns <- server:
		return client, nil
	case <-n.gone:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
