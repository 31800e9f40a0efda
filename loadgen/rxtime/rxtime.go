// Package rxtime wraps a net.Conn so that it knows when the kernel received
// what was read.
//
// A load generator that stamps an event when its goroutine gets to run adds its
// own scheduling delay to the server's latency: 2 ms at the 99th percentile of
// 500 streams on two cores. Linux stamps every received segment
// (SO_TIMESTAMPNS); with a [Conn] that stamp comes with each read, and the
// difference, [Stamp.Delay], can be measured, reported and kept out of the
// result.
//
// Where there is no kernel stamp (another system, another kind of connection,
// or not asked for), a Conn works all the same and knows the time of the read.
package rxtime

import (
	"net"
	"sync/atomic"
	"time"
)

// maxDelay is the longest delay believed. The kernel stamps with the wall
// clock: a step of that clock between the stamp and the read makes delays that
// are negative or absurd.
const maxDelay = 10 * time.Second

// maxDrift is by how much, beside a thousandth of the time, the two clocks may move
// apart between two reads of a connection. More is the wall clock being set: then
// stamps of before are those of another clock. A thread that is preempted between
// its readings of the two clocks moves them apart too, by less.
const maxDrift = 100 * time.Millisecond

// A Stamp tells when the bytes of one read arrived: at Read.Add(-Delay), which
// keeps Read's monotonic reading. The zero Stamp is that of no read.
//
// The kernel's stamp is that of the last segment the read took bytes from, also
// where it merged queued segments. So Delay is that of the newest byte, and no
// older byte of the read waited less.
type Stamp struct {
	// Read is the time right after the read returned: exact on the monotonic
	// clock; its wall reading is that of a clock nobody has set since New.
	Read time.Time
	// Delay is how long before Read the kernel received the bytes; 0 where
	// Kernel is false.
	Delay time.Duration
	// Kernel says that Delay is known: the kernel sent a stamp, and one that
	// was not discarded.
	Kernel bool
}

// A Conn is a net.Conn whose reads are stamped. Make one with [New]; the zero
// value has no connection and is not usable. It is as safe for concurrent use as
// the connection inside, and its owner closes it, which closes that one.
//
// Only the methods of net.Conn are passed on. What a *net.TCPConn has beyond
// them, such as WriteTo, would read past the stamps.
type Conn struct {
	net.Conn
	sys sys // the system's part: recvmsg and peek

	// Wall reads the wall clock, by which the kernel stamps, at an instant; nil is
	// the instant's own reading. A test sets that clock with it, before the first
	// read.
	Wall func(time.Time) time.Time
	// drift is by how much the wall clock has gained since New, at the last read
	// with a stamp, and trust the end of the last one that saw it set, both in ns.
	// Reads with a stamp come one at a time.
	drift, trust int64

	// The last stamp, in two words: a mutex would be four locked instructions
	// an event more. Seen in the middle of a read they may not fit together,
	// which can only be when a request has ended.
	epoch     time.Time    // of New
	read      atomic.Int64 // ns since epoch, plus 1; 0 before the first read
	delay     atomic.Int64 // ns; -1 without the kernel's word
	discarded atomic.Int64
}

var _ net.Conn = (*Conn)(nil)

// New wraps c. If kernel is true, c is a *net.TCPConn and the system is Linux on
// amd64 or arm64, it asks the kernel for receive stamps. It never fails: without
// them stamps have Kernel false.
//
// What the kernel received before New has no stamp. Nor may the first reads of a
// process have one, because Linux begins to stamp packets only some time after
// the first socket of the machine asked for it.
func New(c net.Conn, kernel bool) *Conn {
	conn := &Conn{Conn: c, epoch: time.Now()}
	conn.sys.init(c, kernel)
	return conn
}

// Adopt is New with kernel stamps for a connection that nobody else has: it takes
// c away from the runtime's poller, so that what comes later can be streamed, and c
// must not be used again. Such a Conn has no deadlines. Where c is no *net.TCPConn
// or the system not Linux on amd64 or arm64, it is New.
func Adopt(c net.Conn) *Conn {
	if s, ok := adopt(c); ok {
		return New(s, true)
	}
	return New(c, true)
}

// Streams reports whether Stream can be called: after Adopt, where that could do
// its work.
func (c *Conn) Streams() bool { return c.sys.streams() }

// Stream hands what c receives, read by read, to sink until sink returns false,
// and returns nil then, or the error of a read: io.EOF at the end, one that is
// net.ErrClosed where c was closed meanwhile. During a call of sink, Last is the
// stamp of its bytes. Nobody else may read from c until Stream has returned.
//
// sink runs on a goroutine that serves many connections: it must not wait, nor
// close c, nor keep the bytes. A panic in it is Stream's.
func (c *Conn) Stream(sink func(p []byte) (more bool)) error { return c.sys.stream(c, sink) }

// Read reads as the connection inside does, with the same errors, and stamps a
// read that returned data. It allocates nothing.
func (c *Conn) Read(p []byte) (int, error) {
	if c.sys.stamping() && len(p) > 0 {
		return c.sys.recv(c, p)
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.stamp(time.Now(), 0, false)
	}
	return n, err
}

// Last returns the stamp of the last read that returned data, the zero Stamp
// before the first. It may be called while another goroutine reads; then it is
// the stamp of a read that has returned or is about to.
func (c *Conn) Last() Stamp {
	read := c.read.Load()
	if read == 0 {
		return Stamp{}
	}
	s := Stamp{Read: c.epoch.Add(time.Duration(read - 1))}
	if d := c.delay.Load(); d >= 0 {
		s.Delay, s.Kernel = time.Duration(d), true
	}
	return s
}

// Discarded returns how many kernel stamps were not believed, since they were
// later than the read or more than 10 s before it, or from before the wall clock was
// set. It may be called at any time.
func (c *Conn) Discarded() int64 {
	return c.discarded.Load()
}

// Alive reports whether an idle connection can still be used. It is false if the
// peer has closed or reset it, if this side has, or if data waits unread, which
// on an idle connection answers no request; true also where that cannot be
// known. It waits for nothing and may be called while another goroutine reads.
//
// It looks at the bare connection. Under TLS 1.3 the session tickets a server
// sends after the handshake count as waiting data until a read has taken them.
func (c *Conn) Alive() bool { return c.sys.alive() }

// stamp records a read that returned data at now; kernel is the kernel's receive
// time in nanoseconds since 1970, if ok.
func (c *Conn) stamp(now time.Time, kernel int64, ok bool) {
	delay, mono := int64(-1), int64(now.Sub(c.epoch))
	if ok {
		wall, epoch := now, c.epoch
		if c.Wall != nil {
			wall, epoch = c.Wall(now), c.Wall(c.epoch)
		}
		// Both are readings of the wall clock. now's monotonic reading was
		// taken together with its wall reading, so Read.Add(-Delay) brings the
		// kernel's time to the monotonic clock.
		at := wall.UnixNano()
		d := at - kernel
		c.compare(at-epoch.UnixNano()-mono, mono)
		if d >= 0 && d <= int64(maxDelay) && (c.trust == 0 || mono-d >= c.trust) {
			delay = d
		} else {
			c.discarded.Add(1)
		}
	}
	c.delay.Store(delay)
	c.read.Store(mono + 1)
}

// compare sees whether the wall clock was set since the last read. What came in
// before now may then have a stamp of the time before, in this read or a later one.
func (c *Conn) compare(drift, mono int64) {
	moved, since := drift-c.drift, mono-max(0, c.read.Load()-1)
	if limit := int64(maxDrift) + since/1000; moved > limit || moved < -limit {
		c.trust = mono
	}
	c.drift = drift
}
