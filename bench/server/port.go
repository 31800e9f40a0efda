package server

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

// reserve finds the ports of n replicas: those from port on, which must be free,
// or free ones where port is 0. It holds them until all are found, so that no
// two are the same. After that another program can still take one; the server
// then fails to bind, and [Group.impostor] sees who answers in its place.
func reserve(host string, port, n int) ([]int, *StartError) {
	var ports []int
	for i := range n {
		want := port
		if port > 0 {
			want = port + i
		}
		address := net.JoinHostPort(host, strconv.Itoa(want))
		// Where a wildcard and an address may be bound side by side, binding alone
		// does not show that someone listens.
		if want > 0 {
			if c, err := net.DialTimeout("tcp", address, time.Second); err == nil {
				c.Close()
				return nil, portTaken(i, address)
			}
		}
		l, err := net.Listen("tcp", address)
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, portTaken(i, address)
		}
		if err != nil {
			return nil, &StartError{Replica: i, Stage: stageStart, Category: categoryOther,
				Message: fmt.Sprintf("%v; want an address of this machine as server.host and a port that may be used as server.port", err)}
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func portTaken(replica int, address string) *StartError {
	return &StartError{Replica: replica, Stage: stageStart, Category: categoryPort,
		Message: fmt.Sprintf("%s is in use; end what listens there, or set server.port to another port, or to 0 for a free one", address)}
}
