//go:build !linux

package sim

import "net"

// kernelStamp knows nothing here: an arrival is the time of reading.
type kernelStamp struct{}

func (*kernelStamp) init(net.Conn) {}
func (*kernelStamp) wait() int64   { return 0 }
