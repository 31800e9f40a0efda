package openai

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
)

// direct lets a stream be read past the transport, whose layers and locks cost an
// event as much as our own work does. The transport reads the head of a response
// and no byte of its body. The chunks of the body are then taken from the bare
// connection, up to the last one, which the transport gets to see: to it the body
// was empty, and the connection can be used again.
//
// It belongs to whoever reads the connection: the request between the head and the
// end of a body, the transport at other times.
type direct struct {
	inHead atomic.Bool // a request has the connection, and no head has ended since
	after  int         // bytes that the transport has got since the end of the head
	tail   uint32      // the last four bytes of the head
	rest   []byte      // was read and not yet handed on
	chunks chunks
}

// begin tells that a request has the connection.
func (d *direct) begin() { d.inHead.Store(true) }

// split looks for the end of a head in what was read for the transport and returns
// how much of it to hand on; the rest is kept.
func (d *direct) split(p []byte) int {
	if !d.inHead.Load() {
		d.after += len(p)
		return len(p)
	}
	for i, c := range p {
		if d.tail = d.tail<<8 | uint32(c); d.tail == '\r'<<24|'\n'<<16|'\r'<<8|'\n' {
			d.inHead.Store(false)
			d.after, d.tail = 0, 0
			d.rest = append(d.rest[:0], p[i+1:]...)
			return i + 1
		}
	}
	return len(p)
}

// give hands on what was kept.
func (d *direct) give(p []byte) int {
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	return n
}

// directBody returns a reader of the body of res that does not go through the
// transport, or nil where that cannot be: a body that is not in chunks, a head that
// came after another one (100 Continue), a connection that cannot stream.
func (k *call) directBody(res *http.Response) *directBody {
	c := k.conn
	if c == nil || !c.rx.Streams() || c.Conn != c.rx || !slices.Equal(res.TransferEncoding, []string{"chunked"}) {
		return nil // of an empty body the transport may be past the end
	}
	d := &c.direct
	if d.inHead.Load() || d.after != 0 {
		return nil
	}
	d.chunks = chunks{}
	return &directBody{ReadCloser: res.Body, c: c}
}

// directBody is a body of which the transport reads the end only.
type directBody struct {
	io.ReadCloser // the transport's
	c             *conn
	over          bool // the rest is the transport's
}

// Read returns data of the body, as the transport's body does.
func (b *directBody) Read(p []byte) (int, error) {
	for !b.over {
		n, err := b.c.direct.give(p), error(nil)
		if n == 0 {
			n, err = b.c.rx.Read(p)
		}
		data, bad := b.take(p[:n])
		switch {
		case bad != nil:
			err = bad
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
		}
		if len(data) > 0 || err != nil {
			return copy(p, data), err
		}
	}
	return b.ReadCloser.Read(p)
}

// take returns the data in p, what was read from the connection. From the last
// chunk on p is left to the transport.
func (b *directBody) take(p []byte) ([]byte, error) {
	d := &b.c.direct
	data, rest, over, err := d.chunks.strip(p)
	if over {
		// Of a read from rest, what follows it there is still to come.
		d.rest = slices.Concat(d.chunks.line[:d.chunks.held], rest, d.rest)
		b.over = true
	}
	return data, err
}

// stream is the rest of read for a stream: what comes is fed from where it is
// read. It ends where feed fails or is done, or the rest is the transport's.
func (k *call) stream(b *directBody) (err error) {
	if b.over || len(b.c.direct.rest) > 0 {
		return nil // what was read already comes first
	}
	broke := b.c.rx.Stream(func(p []byte) bool {
		data, bad := b.take(p)
		if len(data) > 0 {
			err = k.feed(data)
		}
		if err == nil {
			err = bad
		}
		return err == nil && !k.done && !b.over
	})
	switch {
	case err != nil:
		return err
	case broke == io.EOF:
		return io.ErrUnexpectedEOF
	}
	return broke
}

// chunks takes a chunked body apart. Its zero value stands at the beginning of a
// chunk.
type chunks struct {
	line [maxSize]byte // the beginning of a chunk's head, of which
	held int           // bytes are there
	left int           // bytes of the chunk's data that are to come
	tail int           // bytes of the line end behind it that are to come
	bad  bool          // those that came are no line end
}

// maxSize is the longest head of a chunk understood here, without its line feed:
// seven digits and a carriage return.
const maxSize = 8

var errChunk = errors.New("malformed chunked encoding")

// strip takes heads and line ends out of p, which it changes, and returns the data,
// one part of p. It is over at a head that is the transport's: of the last chunk, or one not
// understood, such as one with an extension. It begins with what line holds, and
// goes on with rest. The error is net/http's.
func (c *chunks) strip(p []byte) (data, rest []byte, over bool, err error) {
	from, to := 0, 0 // the data is p[from:to]
	for i := 0; i < len(p); {
		switch {
		case c.left > 0:
			n := min(c.left, len(p)-i)
			if to == from {
				from, to = i, i+n // nothing to move in a read of one chunk
			} else {
				to += copy(p[to:], p[i:i+n])
			}
			i += n
			if c.left -= n; c.left == 0 {
				c.tail = 2
			}
		case c.tail > 0:
			c.bad = c.bad || p[i] != "\n\r"[c.tail-1]
			i++
			if c.tail--; c.tail == 0 && c.bad {
				return p[from:to], nil, false, errChunk
			}
		case p[i] == '\n':
			if c.left = c.size(); c.left <= 0 {
				return p[from:to], p[i:], true, nil
			}
			c.held = 0
			i++
		case c.held == maxSize:
			return p[from:to], p[i:], true, nil
		default:
			c.line[c.held] = p[i]
			c.held++
			i++
		}
	}
	return p[from:to], nil, false, nil
}

// size is the one that line tells; 0 of the last chunk and of one not understood.
func (c *chunks) size() (n int) {
	last := c.held - 1
	if last < 1 || c.line[last] != '\r' {
		return 0
	}
	for _, d := range c.line[:last] {
		switch {
		case kinds[d]&hex == 0:
			return 0
		case d <= '9':
			n = n<<4 | int(d-'0')
		default:
			n = n<<4 | int(d|0x20-'a'+10)
		}
	}
	return n
}
