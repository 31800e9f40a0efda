package sim

import (
	"encoding/binary"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// kernelStamp asks the kernel when it received what a connection has to read. The zero value knows nothing.
type kernelStamp struct{ raw syscall.RawConn }

func (k *kernelStamp) init(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
	if err == nil && failed == nil {
		k.raw = raw
	}
}

// wait waits until there is something to read and returns when its first byte was received, on CLOCK_MONOTONIC; 0 where
// that is not known. It takes nothing away: a byte is looked at, the read comes after.
func (k *kernelStamp) wait() int64 {
	if k.raw == nil {
		return 0
	}
	var stamp int64
	err := k.raw.Read(func(fd uintptr) bool {
		var one [1]byte
		var oob [64]byte
		n, oobn, _, _, err := unix.Recvmsg(int(fd), one[:], oob[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if err == unix.EAGAIN {
			return false
		}
		if err == nil && n > 0 {
			stamp = readStamp(oob[:oobn])
		}
		return true // the read tells what is wrong
	})
	if err != nil || stamp == 0 {
		return 0
	}
	// The stamp is of the wall clock. A step of that clock makes an absurd age, which is not believed.
	age := time.Now().UnixNano() - stamp
	if age < 0 || age > int64(10*time.Second) {
		return 0
	}
	return monotonicNow() - age
}

// readStamp finds SCM_TIMESTAMPNS among control messages, in nanoseconds since 1970.
func readStamp(oob []byte) int64 {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			return int64(binary.NativeEndian.Uint64(m.Data))*1e9 + int64(binary.NativeEndian.Uint64(m.Data[8:]))
		}
	}
	return 0
}
