//go:build linux && (amd64 || arm64)

package rxtime

import (
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// sock is a TCP connection that a loop watches instead of the runtime's poller. It
// has no deadlines.
type sock struct {
	fd            int
	loop          *loop
	local, remote net.Addr
	in, out       chan struct{} // of one: something to read, room to write, or closed

	mu     sync.Mutex // also held while a stream's sink runs
	refs   int        // the owner's and those of calls under way; the last one closes fd
	closed bool
	conn   *Conn              // of the stream, as is what follows
	sink   func([]byte) bool  // nil: nobody streams
	end    chan streamOutcome // of one
}

// streamOutcome is how a stream ended: panicked is what its sink panicked with.
type streamOutcome struct {
	err      error
	panicked any
}

// adopt takes a connection away from the runtime's poller: its descriptor is
// duplicated and c closed. Where that cannot be done, c stays as it was.
func adopt(c net.Conn) (*sock, bool) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil, false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil, false
	}
	fd := -1
	err = raw.Control(func(old uintptr) {
		if n, err := unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			fd = n
		}
	})
	if err != nil || fd < 0 {
		return nil, false
	}
	s := &sock{
		fd: fd, local: c.LocalAddr(), remote: c.RemoteAddr(), refs: 1,
		in: make(chan struct{}, 1), out: make(chan struct{}, 1), end: make(chan streamOutcome, 1),
	}
	if err := watch(s); err != nil {
		_ = unix.Close(fd) // a second descriptor of the same connection
		return nil, false
	}
	_ = c.Close() // the connection lives on in fd
	return s, true
}

// use takes a reference: fd stays open until the matching drop.
func (s *sock) use(op string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.failure(op, net.ErrClosed)
	}
	s.refs++
	return nil
}

func (s *sock) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release()
}

// release gives a reference back; mu is held.
func (s *sock) release() {
	if s.refs--; s.refs == 0 {
		s.loop.forget(s)
		_ = unix.Close(s.fd) // nothing is buffered: nothing is lost
	}
}

func (s *sock) failure(op string, err error) error {
	return &net.OpError{Op: op, Net: "tcp", Source: s.local, Addr: s.remote, Err: err}
}

// try calls f until it reports an end, and before each further call waits until
// ready is signalled.
func (s *sock) try(op string, ready <-chan struct{}, f func(fd uintptr) bool) error {
	for {
		if err := s.use(op); err != nil {
			return err
		}
		done := f(uintptr(s.fd))
		s.drop()
		if done {
			return nil
		}
		<-ready
	}
}

// sockRaw is the syscall.RawConn of a sock.
type sockRaw struct{ s *sock }

func (r sockRaw) Read(f func(uintptr) bool) error  { return r.s.try("read", r.s.in, f) }
func (r sockRaw) Write(f func(uintptr) bool) error { return r.s.try("write", r.s.out, f) }
func (r sockRaw) Control(f func(uintptr)) error {
	return r.s.try("control", nil, func(fd uintptr) bool { f(fd); return true })
}

// Read is not used: a Conn with stamps has its own.
func (s *sock) Read(p []byte) (n int, err error) {
	fail := s.try("read", s.in, func(fd uintptr) bool {
		n, err = ignoringEINTR(func() (int, error) { return unix.Read(int(fd), p) })
		return err != unix.EAGAIN
	})
	switch {
	case fail != nil:
		return 0, fail
	case err != nil:
		return 0, s.failure("read", os.NewSyscallError("read", err))
	case n == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write implements net.Conn.
func (s *sock) Write(p []byte) (sent int, err error) {
	fail := s.try("write", s.out, func(fd uintptr) bool {
		for sent < len(p) {
			n, e := ignoringEINTR(func() (int, error) { return unix.Write(int(fd), p[sent:]) })
			if e == unix.EAGAIN {
				return false
			}
			if e != nil {
				err = s.failure("write", os.NewSyscallError("write", e))
				return true
			}
			sent += n
		}
		return true
	})
	if fail != nil {
		err = fail
	}
	return sent, err
}

func ignoringEINTR(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if err != unix.EINTR {
			return n, err
		}
	}
}

// Close implements net.Conn. It ends a read, a write and a stream under way.
func (s *sock) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.failure("close", net.ErrClosed)
	}
	s.closed = true
	if s.sink != nil {
		s.finish(streamOutcome{err: s.failure("read", net.ErrClosed)})
	}
	signal(s.in)
	signal(s.out)
	s.release()
	return nil
}

func (s *sock) LocalAddr() net.Addr              { return s.local }
func (s *sock) RemoteAddr() net.Addr             { return s.remote }
func (s *sock) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (s *sock) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (s *sock) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// gone are the events after which a short read does not mean that all was read.
const gone = unix.EPOLLRDHUP | unix.EPOLLHUP | unix.EPOLLERR

// stream hands all that c receives to sink until that returns false, c fails or is
// closed.
func (s *sock) stream(c *Conn, sink func([]byte) bool) error {
	if err := s.use("read"); err != nil {
		return err
	}
	defer s.drop()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return s.failure("read", net.ErrClosed)
	}
	s.conn, s.sink = c, sink
	// What came before now has been signalled to in and not to the stream.
	buf := firstPumps.Get().(*[firstPump]byte)
	s.pump(buf[:], gone)
	firstPumps.Put(buf)
	s.mu.Unlock()
	o := <-s.end
	if o.panicked != nil {
		panic(o.panicked)
	}
	return o.err
}

// firstPump is the size of a stream's first reads, in bytes; their buffers are used
// again.
const firstPump = 4 << 10

var firstPumps = sync.Pool{New: func() any { return new([firstPump]byte) }}

// finish ends the stream; mu is held.
func (s *sock) finish(o streamOutcome) {
	s.sink, s.conn = nil, nil
	s.end <- o
}

// pump reads what there is and hands it to the sink; mu is held. events are those
// that told of it: without one of gone, a read that did not fill the buffer has
// taken everything, and whatever comes after it is told of again. That saves the
// read that every event would end with, only to see that there is no more.
func (s *sock) pump(buf []byte, events uint32) {
	defer func() {
		if p := recover(); p != nil {
			s.finish(streamOutcome{panicked: fmt.Errorf("%v\n%s", p, debug.Stack())})
		}
	}()
	for s.sink != nil {
		n, err := s.conn.sys.recvNow(s.conn, uintptr(s.fd), buf)
		if err == unix.EAGAIN {
			return
		}
		if err != nil {
			s.finish(streamOutcome{err: err})
			return
		}
		if !s.sink(buf[:n]) {
			s.finish(streamOutcome{})
			return
		}
		if n < len(buf) && events&gone == 0 {
			return
		}
	}
}

// event is called by the loop. It reports whether a goroutine was woken.
func (s *sock) event(buf []byte, events uint32) (woke bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sink != nil {
		s.pump(buf, events)
		woke = s.sink == nil
	} else if events&(unix.EPOLLIN|gone) != 0 {
		signal(s.in)
		woke = true
	}
	if events&(unix.EPOLLOUT|gone) != 0 {
		signal(s.out)
	}
	return woke
}

// loop watches sockets from one goroutine: the runtime's poller would wake one
// goroutine an event, which then finds by a second read that there is no more.
type loop struct {
	epoll, wake int // descriptors

	mu    sync.Mutex
	socks map[int]*sock // by descriptor; guarded by mu
}

// loops are those of the process. They exist while there are sockets.
var loops struct {
	mu   sync.Mutex
	all  []*loop
	next int
	held int // sockets
}

// watch gives s to a loop.
func watch(s *sock) error {
	loops.mu.Lock()
	defer loops.mu.Unlock()
	if loops.all == nil {
		// Half of the cores read; requests, parsing of others and a server on the same machine need the rest.
		for range max(1, runtime.GOMAXPROCS(0)/2) {
			l, err := newLoop()
			if err != nil {
				stopLoops()
				return err
			}
			loops.all = append(loops.all, l)
		}
	}
	l := loops.all[loops.next%len(loops.all)]
	if err := l.add(s); err != nil {
		if loops.held == 0 {
			stopLoops()
		}
		return err
	}
	loops.next++
	loops.held++
	return nil
}

// stopLoops ends all loops; loops.mu is held and no sockets are left.
func stopLoops() {
	for _, l := range loops.all {
		_, _ = unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // cannot fail: the counter is at 0
	}
	loops.all = nil
}

func newLoop() (*loop, error) {
	l := &loop{socks: map[int]*sock{}}
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if l.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		_ = unix.Close(l.epoll)
		return nil, err
	}
	err = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, l.wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(l.wake)})
	if err != nil {
		l.close()
		return nil, err
	}
	go l.run()
	return l, nil
}

func (l *loop) close() {
	_ = unix.Close(l.wake)
	_ = unix.Close(l.epoll)
}

func (l *loop) add(s *sock) error {
	s.loop = l
	l.mu.Lock()
	defer l.mu.Unlock()
	l.socks[s.fd] = s
	err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, s.fd, &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(s.fd),
	})
	if err != nil {
		delete(l.socks, s.fd)
	}
	return err
}

// forget ends the watching of s, whose descriptor is still open.
func (l *loop) forget(s *sock) {
	l.mu.Lock()
	_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, s.fd, nil) // it is there
	delete(l.socks, s.fd)
	l.mu.Unlock()
	loops.mu.Lock()
	defer loops.mu.Unlock()
	if loops.held--; loops.held == 0 {
		stopLoops()
	}
}

// run is the loop's goroutine.
func (l *loop) run() {
	defer l.close()
	buf := make([]byte, 64<<10)
	events := make([]unix.EpollEvent, 256)
	batch := make([]*sock, len(events))
	for woke := false; ; {
		wait := -1
		if woke {
			wait = 0
		}
		n, err := unix.EpollWait(l.epoll, events, wait)
		if err != nil && err != unix.EINTR {
			panic("rxtime: epoll_wait: " + err.Error()) // a descriptor of ours is broken
		}
		l.mu.Lock()
		for i := range max(n, 0) {
			fd := int(events[i].Fd)
			if fd == l.wake {
				l.mu.Unlock()
				return
			}
			// One that was closed meanwhile is nil, or another one by now: then it reads in vain.
			batch[i] = l.socks[fd]
		}
		l.mu.Unlock()
		if woke && n == 0 {
			// All is read. Blocked in the kernel, this thread would keep those waiting that it woke.
			woke = false
			runtime.Gosched()
		}
		for i := range max(n, 0) {
			if s := batch[i]; s != nil {
				woke = s.event(buf, events[i].Events) || woke
			}
		}
	}
}
