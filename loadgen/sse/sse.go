// Package sse splits an event stream into the payloads of its events, by the
// rules of the event-stream standard (WHATWG HTML, section 9.2).
//
// It is pushed, not pulled: the caller reads, stamps the read, hands the bytes
// to [Decoder.Feed] and takes the events they completed from [Decoder.Next]. So
// an event belongs to the read that completed it, which a decoder with a reader
// of its own would hide. There is no JSON, no HTTP and no clock here.
//
// What a stream means does not depend on how its bytes were cut into reads.
//
// Two parts of the standard are left to the caller or left out. Bytes that are
// not UTF-8 come out as they came in, where a browser would show U+FFFD: line
// ends and field names are the same either way. The fields id and retry only
// steer a browser's reconnecting, so they are recognised and have no effect.
package sse

import (
	"bytes"
	"errors"
	"fmt"
)

// defaultMaxEvent leaves room for a line of logprobs (10 MB were seen) and
// still bounds what one broken server can make the client hold.
const defaultMaxEvent = 16 << 20

// keptBuffer is the largest buffer Reset keeps: a pool of decoders must not
// hold the longest event each of them ever met.
const keptBuffer = 1 << 20

// ErrTooLong is the error, to be found with errors.Is, of a stream with an
// event over [Decoder.MaxEvent].
var ErrTooLong = errors.New("sse: event too long")

var utf8BOM = []byte("\xEF\xBB\xBF")

// A Decoder splits one event stream. Its zero value is ready to use, and
// [Decoder.Reset] makes it ready for the next stream. It is not safe for
// concurrent use; it holds no resource, so there is nothing to close.
//
// A decoder works in time linear in the bytes fed, however they were cut, and
// in the steady state allocates nothing: the payload of an event whose lines
// lie in one feed is a part of that feed, and only an event that spans feeds,
// or has several data lines, is copied.
type Decoder struct {
	// MaxEvent is the most bytes one event may take: its data and event lines
	// without their line ends, and the line being read, whatever its kind.
	// 0 or less stands for 16 MiB. It is to be set before the first Feed.
	MaxEvent int

	in    []byte // what was fed and is not consumed before pos
	pos   int    // start of the next line in in
	lf    int    // the first LF at or after pos, len(in) if none; stale when below pos
	owned bool   // in is the decoder's own memory, not the caller's

	line []byte // the beginning of a line whose end was not yet fed
	data []byte // payload so far: borrowed, or else buf
	buf  []byte // storage of a payload that was copied
	typ  []byte // the event's type so far, always a copy

	size     int  // bytes of the unfinished event's data and event lines
	hasData  bool // a data line was seen, if only an empty one
	borrowed bool // data lies in in or in line, where it lasts as long as the feed
	ready    bool // the last Next returned true: data and typ are the caller's to look at
	begun    bool // the stream's first line, which may carry a byte order mark, is over
	skipLF   bool // the last line ended in CR: an LF right after it is the same line end
	err      error
}

// Feed hands over the bytes of one read. p must stay unchanged until Next has
// returned false: payloads are parts of it. Bytes fed before an earlier feed
// was used up are queued behind it, at the price of a copy. After an error
// Feed does nothing.
func (d *Decoder) Feed(p []byte) {
	switch {
	case d.err != nil:
	case d.pos == len(d.in):
		d.in, d.pos, d.lf, d.owned = p, 0, -1, false
	case d.owned:
		if d.lf == len(d.in) {
			d.lf = -1 // "no LF" was said of the bytes before p only
		}
		d.in = append(d.in, p...)
	default:
		rest := d.in[d.pos:]
		d.in = append(make([]byte, 0, len(rest)+len(p)), rest...)
		d.in = append(d.in, p...)
		d.pos, d.lf, d.owned = 0, -1, true
	}
}

// Next advances to the next complete event with data among the bytes fed. When
// it returns false, more has to be fed, unless Err is set. An event is complete
// at the first byte of the line end of the blank line after it; one without a
// data line is none.
func (d *Decoder) Next() bool {
	if d.ready {
		d.endEvent()
	}
	for d.err == nil {
		line, ok := d.nextLine()
		if !ok {
			return false
		}
		if len(line) > 0 {
			d.field(line)
			continue
		}
		if d.hasData {
			d.ready = true
			return true
		}
		d.endEvent()
	}
	return false
}

// Data returns the payload of the event Next advanced to: its data lines joined
// by LF. It is valid until the next call of Feed, Next or Reset, and nil when
// the last call of Next did not return true.
func (d *Decoder) Data() []byte {
	if !d.ready {
		return nil
	}
	return d.data
}

// Type returns the value of the event's event field, nil if it had none or an
// empty one, which the standard reads as "message". It is valid as long as Data
// is.
func (d *Decoder) Type() []byte {
	if !d.ready || len(d.typ) == 0 {
		return nil
	}
	return d.typ
}

// Err returns the error that ended the decoding: nil, or one that is
// [ErrTooLong]. It is sticky until Reset. The events before the long one are
// delivered first.
func (d *Decoder) Err() error { return d.err }

// Pending reports, once Next has returned false, whether bytes of an unfinished
// event or line are held. If the stream ends then, they are no event: the
// standard discards what no blank line completed.
func (d *Decoder) Pending() bool {
	return len(d.line) > 0 || !d.ready && (d.hasData || len(d.typ) > 0)
}

// Reset makes the decoder ready for another stream. MaxEvent stays, and so do
// the buffers, but for large ones.
func (d *Decoder) Reset() {
	*d = Decoder{
		MaxEvent: d.MaxEvent,
		line:     emptied(d.line),
		buf:      emptied(d.buf),
		typ:      emptied(d.typ),
	}
}

func emptied(b []byte) []byte {
	if cap(b) > keptBuffer {
		return nil
	}
	return b[:0]
}

// endEvent forgets the event at hand.
func (d *Decoder) endEvent() {
	d.data, d.typ, d.size = nil, d.typ[:0], 0
	d.hasData, d.borrowed, d.ready = false, false, false
}

// nextLine consumes one line and returns it without its line end. If the rest
// of the feed holds no line end, the rest is kept for the next feed, and ok is
// false. The line is valid until the next call.
func (d *Decoder) nextLine() (line []byte, ok bool) {
	if d.skipLF && d.pos < len(d.in) {
		// The CR ended its line at once, however long the LF takes to come.
		d.skipLF = false
		if d.in[d.pos] == '\n' {
			d.pos++
		}
	}
	if d.pos == len(d.in) && !d.borrowed {
		return nil, false
	}
	end := d.lineEnd()
	line = d.in[d.pos:end:end]
	if d.size+len(d.line)+len(line) > d.maxEvent() {
		return nil, d.fail()
	}
	if end == len(d.in) {
		d.holdBack(line)
		return nil, false
	}
	d.skipLF = d.in[end] == '\r'
	d.pos = end + 1
	if len(d.line) > 0 {
		line = append(d.line, line...)
		d.line = line[:0]
	}
	if !d.begun {
		// Held back as part of the line, a mark cut in two needs no state.
		d.begun = true
		line = bytes.TrimPrefix(line, utf8BOM)
	}
	return line, true
}

// lineEnd returns the index of the first CR or LF at or after pos, len(in) if
// there is none. The LF found is remembered, so that a feed with lines ended by
// CR is not searched for LF once a line, which would be quadratic.
func (d *Decoder) lineEnd() int {
	if d.pos < len(d.in) && d.in[d.pos] == '\n' {
		return d.pos // the blank line of nearly every event, without a call
	}
	if d.lf < d.pos {
		d.lf = len(d.in)
		if i := bytes.IndexByte(d.in[d.pos:], '\n'); i >= 0 {
			d.lf = d.pos + i
		}
	}
	if i := bytes.IndexByte(d.in[d.pos:d.lf], '\r'); i >= 0 {
		return d.pos + i
	}
	return d.lf
}

// holdBack ends a feed: what is still needed of it is copied, so that the
// caller may use its memory again.
func (d *Decoder) holdBack(rest []byte) {
	if d.borrowed {
		d.own() // before line is written to: the payload may lie there
	}
	d.line = append(d.line, rest...)
	d.in, d.pos, d.lf = nil, 0, -1
}

// field processes one line that is not blank. A line that begins with a colon,
// a comment, is a field without a name here, and ignored like any unknown one.
func (d *Decoder) field(line []byte) {
	name, value := line, line[len(line):]
	if i := bytes.IndexByte(line, ':'); i >= 0 {
		name, value = line[:i], line[i+1:]
	}
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		d.size += len(line)
		d.addData(value)
	case "event":
		d.size += len(line)
		d.typ = append(d.typ[:0], value...)
	}
}

// addData appends one data line to the payload. The first is taken as it lies;
// most events have but one.
func (d *Decoder) addData(value []byte) {
	if !d.hasData {
		d.data, d.hasData, d.borrowed = value, true, true
		return
	}
	if d.borrowed {
		d.own()
	}
	d.buf = append(append(d.buf, '\n'), value...)
	d.data = d.buf
}

// own moves a payload that lies in the feed, or in line, to the decoder's own
// buffer.
func (d *Decoder) own() {
	d.buf = append(d.buf[:0], d.data...)
	d.data, d.borrowed = d.buf, false
}

func (d *Decoder) maxEvent() int {
	if d.MaxEvent > 0 {
		return d.MaxEvent
	}
	return defaultMaxEvent
}

// fail ends the decoding and lets go of everything held. It returns false.
func (d *Decoder) fail() bool {
	d.err = fmt.Errorf("%w: over %d bytes", ErrTooLong, d.maxEvent())
	d.endEvent()
	d.in, d.pos, d.line, d.buf = nil, 0, nil, nil
	return false
}
