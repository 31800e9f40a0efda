//go:build linux && (amd64 || arm64)

package rxtime

import (
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sys reads with recvmsg, whose control message carries the kernel's receive
// time. unix.Recvmsg allocates on every call, so what the system call needs is
// kept here.
type sys struct {
	raw  syscall.RawConn // nil if the connection is not TCP
	sock *sock           // nil where the runtime's poller waits
	on   bool            // the kernel was asked for stamps; set by init only

	mu   sync.Mutex         // one read at a time; guards all below
	try  func(uintptr) bool // r.tryRecv: a closure made once
	msg  unix.Msghdr
	iov  unix.Iovec
	oob  [64]byte // a timestamp takes 32
	n    int
	errn syscall.Errno
	now  time.Time
}

func (r *sys) init(c net.Conn, kernel bool) {
	switch c := c.(type) {
	case *net.TCPConn:
		raw, err := c.SyscallConn()
		if err != nil {
			return
		}
		r.raw = raw
	case *sock:
		r.sock, r.raw = c, sockRaw{c}
	default:
		return
	}
	if !kernel {
		return
	}
	err := r.raw.Control(func(fd uintptr) {
		r.on = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) == nil
	})
	r.on = r.on && err == nil
	r.try = r.tryRecv
	r.msg.Iov, r.msg.Iovlen, r.msg.Control = &r.iov, 1, &r.oob[0]
}

func (r *sys) stamping() bool { return r.on }

func (r *sys) streams() bool { return r.sock != nil && r.on }

func (r *sys) stream(c *Conn, sink func([]byte) bool) error { return r.sock.stream(c, sink) }

// recv is one read of c. RawConn.Read supplies what net's own Read has: the wait
// in the poller, deadlines, and the error of a connection closed meanwhile.
func (r *sys) recv(c *Conn, p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Storing &p[0] in the heap keeps p alive and where it is, though the
	// system call gets its address in two steps.
	r.iov.Base = &p[0]
	r.iov.SetLen(len(p))
	err := r.raw.Read(r.try)
	r.iov.Base = nil
	if err != nil {
		if op, ok := err.(*net.OpError); ok {
			op.Op = "read" // was raw-read
		}
		return 0, err
	}
	return r.result(c)
}

// recvNow is a read that does not wait: where there is nothing its error is
// EAGAIN. fd is that of the connection.
func (r *sys) recvNow(c *Conn, fd uintptr, p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.iov.Base = &p[0]
	r.iov.SetLen(len(p))
	ended := r.tryRecv(fd)
	r.iov.Base = nil
	if !ended {
		return 0, unix.EAGAIN
	}
	return r.result(c)
}

// result makes of the latest attempt what Read returns, and stamps it.
func (r *sys) result(c *Conn) (int, error) {
	switch {
	case r.errn != 0:
		return 0, &net.OpError{
			Op: "read", Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(),
			Err: os.NewSyscallError("read", r.errn), // net's text, with stamps or without
		}
	case r.n == 0:
		return 0, io.EOF
	}
	// What does not fit in oob (MSG_CTRUNC) the kernel cuts and gives the length
	// of what is there, so a whole timestamp before the cut still counts.
	kernel, ok := parseTimestamp(r.oob[:min(uint64(len(r.oob)), r.msg.Controllen)])
	c.stamp(r.now, kernel, ok)
	return r.n, nil
}

// tryRecv makes one attempt to read and reports whether it came to an end; false
// is for the poller to wait.
func (r *sys) tryRecv(fd uintptr) bool {
	for {
		r.msg.SetControllen(len(r.oob))
		// It does not block: the scheduler need not know of it.
		n, _, errn := unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&r.msg)), unix.MSG_DONTWAIT)
		switch errn {
		case 0:
			// Before anything else: whatever came earlier would be measured
			// as delay.
			r.now = time.Now()
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		}
		r.n, r.errn = int(n), errn
		if errn == 0 {
			raceRead(fd, r.iov.Base, r.n)
		}
		return true
	}
}

// parseTimestamp finds the timestamp among control messages and returns it in
// nanoseconds since 1970. A message is a struct cmsghdr (length with header,
// level, type), then here a struct timespec; each begins at a multiple of 8.
func parseTimestamp(oob []byte) (ns int64, ok bool) {
	const header, timespec = unix.SizeofCmsghdr, 16
	order := binary.NativeEndian
	for len(oob) >= header {
		size := order.Uint64(oob)
		if size < header || size > uint64(len(oob)) {
			return 0, false
		}
		level, kind := order.Uint32(oob[8:]), order.Uint32(oob[12:])
		if level == unix.SOL_SOCKET && kind == unix.SCM_TIMESTAMPNS && size >= header+timespec {
			sec, nsec := order.Uint64(oob[header:]), order.Uint64(oob[header+8:])
			return int64(sec)*1e9 + int64(nsec), true
		}
		oob = oob[min(uint64(len(oob)), (size+7)&^7):]
	}
	return 0, false
}

// alive peeks at the socket. It must not use RawConn.Read, which waits until no
// other goroutine reads; the idle connections of net/http have one that does.
func (r *sys) alive() bool {
	if r.raw == nil {
		return true
	}
	ok := false
	err := r.raw.Control(func(fd uintptr) {
		var b [1]byte
		for {
			_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
			if err == unix.EINTR {
				continue
			}
			ok = err == unix.EAGAIN // 0 bytes: closed; 1: data waits
			return
		}
	})
	return ok && err == nil
}
