package sim

import (
	"container/heap"
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A Sender writes events past net/http, whose layers cost as much as all else here
// but the kernel. It is for one answer at a time.
type Sender interface {
	// Write waits until all of p is written.
	io.Writer
	// Try writes what there is room for at once. That less than all of p was written
	// is no error.
	Try(p []byte) (n int, err error)
}

type senderKey struct{}

// WithSender makes the context of a connection on which answers write their events
// through s. What was written through net/http before has been flushed by then.
func WithSender(ctx context.Context, s Sender) context.Context {
	return context.WithValue(ctx, senderKey{}, s)
}

// NewSender returns a Sender of c, or nil where c is not TCP.
func NewSender(c net.Conn) Sender {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	t := &tcpSender{TCPConn: tcp, raw: raw}
	t.try = t.tryWrite
	return t
}

// tcpSender keeps the arguments and results of one call of try, which is made once:
// a closure an event would be garbage.
type tcpSender struct {
	*net.TCPConn
	raw syscall.RawConn
	try func(fd uintptr) bool
	p   []byte
	n   int
	err error
}

// Try implements Sender.
func (t *tcpSender) Try(p []byte) (int, error) {
	t.p = p
	err := t.raw.Write(t.try)
	t.p = nil
	if err == nil {
		err = t.err
	}
	return t.n, err
}

// tryWrite never waits: the descriptor does not block.
func (t *tcpSender) tryWrite(fd uintptr) bool {
	t.n, t.err = syscall.Write(int(fd), t.p)
	if t.err == syscall.EAGAIN || t.err == syscall.EINTR {
		t.err = nil
	}
	t.n = max(t.n, 0)
	return true
}

// sender returns what an answer to r is written through; nil is net/http.
func sender(r *http.Request) Sender {
	s, _ := r.Context().Value(senderKey{}).(Sender)
	if s == nil || !r.ProtoAtLeast(1, 1) { // before HTTP/1.1 there are no chunks
		return nil
	}
	return s
}

// frame makes a chunk of the event in buf.
func (a *answer) frame() {
	b := strconv.AppendInt(a.wire[:0], int64(len(a.buf)), 16)
	b = append(append(b, "\r\n"...), a.buf...)
	a.wire = append(b, "\r\n"...)
}

// sendDirect is send past net/http. In the hands of a conductor it leaves what there
// was no room for in rest.
func (a *answer) sendDirect() (err error) {
	a.frame()
	if !a.conducted {
		_, err = a.sender.Write(a.wire)
		return err
	}
	n, err := a.sender.Try(a.wire)
	a.rest = a.wire[n:]
	return err
}

// lane is an answer in the hands of a conductor.
type lane struct {
	a     *answer
	p     *pace
	at    time.Time // the next event is due; guarded by the conductor's mu, as is index
	index int       // in its heap; -1: not there
	end   chan error

	mu   sync.Mutex // held while an event is made
	sent int        // tokens; guarded by mu, as is gone
	gone bool       // nobody waits for the answer any more
}

// conduct streams what is left after the first sent tokens from a conductor's
// goroutine: thousands of goroutines that wake for one event each cost the machine
// more than the events do. It returns how many tokens were sent and, where all could
// be done, that number is all of them.
func (a *answer) conduct(ctx context.Context, p *pace, sent int) (int, error) {
	l := &lane{a: a, p: p, at: p.start.Add(p.due), end: make(chan error, 1), sent: sent}
	a.conducted = true
	c := a.s.conductors.of(a.number)
	c.add(l)
	var err error
	select {
	case err = <-l.end:
	case <-ctx.Done():
		l.mu.Lock()
		l.gone = true
		l.mu.Unlock()
		c.remove(l)
		err = context.Cause(ctx)
	}
	a.conducted = false
	if err == nil && len(a.rest) > 0 {
		_, err = a.sender.Write(a.rest) // a slow reader: from here on it is waited for
	}
	return l.sent, err
}

// step writes the event that is due and returns when the next one is, if there is.
func (l *lane) step() (next time.Time, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return next, false
	}
	a := l.a
	n := min(a.s.cfg.TokensPerChunk, a.g.maxTokens-l.sent)
	a.s.generated.Add(uint64(n))
	err := a.tokens(l.sent, n)
	l.sent += n
	if err != nil || len(a.rest) > 0 || l.sent == a.g.maxTokens {
		l.end <- err
		return next, false
	}
	l.p.advance(min(a.s.cfg.TokensPerChunk, a.g.maxTokens-l.sent))
	return l.p.start.Add(l.p.due), true
}

// lanes is a heap of answers by when their next event is due.
type lanes []*lane

func (q lanes) Len() int           { return len(q) }
func (q lanes) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q lanes) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *lanes) Push(x any) {
	l := x.(*lane)
	l.index = len(*q)
	*q = append(*q, l)
}

// Pop implements heap.Interface.
func (q *lanes) Pop() any {
	old := *q
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	l.index = -1
	return l
}

// conductor writes the events of many answers when they are due. Its zero value is
// ready; its goroutine exists while it has answers.
type conductor struct {
	mu    sync.Mutex
	lanes lanes // guarded by mu
	runs  bool  // guarded by mu
	wake  chan struct{}
}

// conductors share the answers among them. The zero value is ready.
type conductors struct {
	once sync.Once
	all  []conductor
}

func (c *conductors) of(number uint64) *conductor {
	c.once.Do(func() {
		// The other half of the cores is for requests, and for a client on the same machine.
		c.all = make([]conductor, max(1, runtime.GOMAXPROCS(0)/2))
		for i := range c.all {
			c.all[i].wake = make(chan struct{}, 1)
		}
	})
	return &c.all[number%uint64(len(c.all))]
}

func (c *conductor) add(l *lane) {
	c.mu.Lock()
	defer c.mu.Unlock()
	heap.Push(&c.lanes, l)
	if !c.runs {
		c.runs = true
		go c.run()
		return
	}
	if c.lanes[0] == l {
		c.stir()
	}
}

// remove takes l out, if it is still there, and lets the goroutine see that.
func (c *conductor) remove(l *lane) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.index >= 0 {
		heap.Remove(&c.lanes, l.index)
		c.stir()
	}
}

func (c *conductor) stir() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *conductor) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for now := time.Now(); ; {
		c.mu.Lock()
		if len(c.lanes) == 0 {
			c.runs = false
			c.mu.Unlock()
			return
		}
		first := c.lanes[0]
		at := first.at
		c.mu.Unlock()
		wait := at.Sub(now)
		if wait > 0 { // now is from before what was written since
			now = time.Now()
			wait = at.Sub(now)
		}
		if wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-c.wake:
			}
			now = time.Now()
			continue
		}
		next, more := first.step()
		c.mu.Lock()
		switch {
		case first.index < 0: // removed meanwhile
		case more:
			first.at = next
			heap.Fix(&c.lanes, first.index)
		default:
			heap.Remove(&c.lanes, first.index)
		}
		c.mu.Unlock()
	}
}
