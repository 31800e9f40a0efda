package dataset

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// maxDepth bounds nesting: a conversation is not worth a stack overflow.
const maxDepth = 512

// arrayReader cuts a file that is one JSON array of objects into its elements
// and holds only one at a time. It is not safe for concurrent use.
type arrayReader struct {
	in   io.Reader
	path string // for messages

	mem    []byte // what buf is a part of
	buf    []byte // read, not passed yet
	eof    bool
	opened bool  // the bracket is passed
	at     int64 // offset of buf in the file
	line   int   // of the beginning of buf, counted from 1
	n      int   // elements passed
	top    int   // the line on which the last of them begins
}

func newArrayReader(in io.Reader, path string) *arrayReader {
	return &arrayReader{in: in, path: path, line: 1}
}

// next returns the next object, checked, with its offset in the file; io.EOF
// behind the last. The bytes hold until the next call.
func (a *arrayReader) next() (object []byte, offset int64, err error) {
	if err := a.enter(); err != nil {
		return nil, 0, err
	}
	end, err := a.end()
	if err != nil {
		return nil, 0, err
	}
	object, offset = a.buf[:end:end], a.at
	if err := a.check(object); err != nil {
		return nil, 0, err
	}
	a.n++
	a.top = a.line
	a.pass(end)
	return object, offset, nil
}

// enter moves to the first byte of the next element, over what stands before it.
func (a *arrayReader) enter() error {
	c, err := a.peek()
	if err != nil {
		return err
	}
	if !a.opened {
		if err := a.open(); err != nil {
			return err
		}
		if c, err = a.peek(); err != nil {
			return err
		}
	}
	switch {
	case c == ']':
		a.pass(1)
		return a.tail()
	case a.n > 0 && c != ',':
		return a.errorf("no comma behind element %d; want a JSON array", a.n)
	case a.n > 0:
		a.pass(1)
		if c, err = a.peek(); err != nil {
			return err
		}
	}
	if c == '{' {
		return nil
	}
	if c == ']' || c == ',' {
		return a.errorf("no element behind a comma; want a JSON array")
	}
	if strings.IndexByte(`"[-0123456789tfn`, c) < 0 {
		return a.errorf("element %d begins with %q; want an object", a.n+1, c)
	}
	return a.errorf("element %d is %s; want an object", a.n+1, jsonKind([]byte{c}))
}

// open passes the bracket that begins the array.
func (a *arrayReader) open() error {
	if a.at == 0 && bytes.HasPrefix(a.buf, []byte(byteOrderMark)) {
		a.pass(len(byteOrderMark))
	}
	c, err := a.peek()
	switch {
	case err != nil:
		return err
	case c == '{':
		return a.errorf("begins with an object; want one JSON array of objects, not one object a line")
	case c >= utf8.RuneSelf:
		return a.errorf("not UTF-8; want the file encoded as UTF-8, and a JSON array in it")
	case c != '[':
		return a.errorf("begins with %q; want a JSON array", c)
	}
	a.pass(1)
	a.opened = true
	return nil
}

// tail holds that nothing follows the array.
func (a *arrayReader) tail() error {
	switch _, err := a.peek(); {
	case err == nil:
		return a.errorf("something follows the array; want one JSON array and nothing else")
	case !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	}
	return io.EOF
}

// peek passes white space and returns the byte behind it, which it leaves there.
func (a *arrayReader) peek() (byte, error) {
	for {
		rest := bytes.TrimLeft(a.buf, " \t\r\n")
		a.pass(len(a.buf) - len(rest))
		if len(rest) >= len(byteOrderMark) || len(rest) > 0 && a.eof {
			return rest[0], nil
		}
		switch {
		case a.eof && !a.opened:
			return 0, fmt.Errorf("%s: nothing in it; want a JSON array", a.path)
		case a.eof:
			return 0, fmt.Errorf("%s:%d: the file ends inside its JSON array, behind element %d (%w); want the whole of it",
				a.path, a.line, a.n, io.ErrUnexpectedEOF)
		}
		if err := a.fill(); err != nil {
			return 0, err
		}
	}
}

// end returns the length of the object at the beginning of buf. Only strings and
// brackets count here; whether the object is right is check's matter.
func (a *arrayReader) end() (int, error) {
	depth, quoted := 0, false
	for i := 0; ; {
		for i < len(a.buf) {
			if quoted {
				q := bytes.IndexByte(a.buf[i:], '"')
				if q < 0 {
					i = len(a.buf)
					break
				}
				i += q + 1
				quoted = escaped(a.buf[:i-1])
				continue
			}
			switch a.buf[i] {
			case '"':
				quoted = true
			case '{', '[':
				if depth++; depth > maxDepth {
					return 0, a.errorf("element %d is nested deeper than %d", a.n+1, maxDepth)
				}
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1, nil
				}
			}
			i++
		}
		switch {
		case a.eof:
			return 0, a.errorf("the file ends inside element %d, at byte %d; want the whole of it", a.n+1, a.at+int64(len(a.buf)))
		case len(a.buf) > maxLine:
			return 0, a.errorf("element %d is longer than %d MiB; want a conversation", a.n+1, maxLine>>20)
		}
		if err := a.fill(); err != nil {
			return 0, err
		}
	}
}

// escaped tells whether what follows s has a backslash of its own before it.
func escaped(s []byte) bool {
	return (len(s)-len(bytes.TrimRight(s, `\`)))%2 == 1
}

// check reports what is wrong with an element, with its line.
func (a *arrayReader) check(object []byte) error {
	if !utf8.Valid(object) {
		return a.errorf("element %d is not UTF-8; want the file encoded as UTF-8", a.n+1)
	}
	if gjson.ValidBytes(object) {
		return nil
	}
	var v any
	err := json.Unmarshal(object, &v)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		a.line += bytes.Count(object[:min(max(0, int(syntax.Offset)), len(object))], []byte("\n"))
		return a.errorf("element %d is no JSON object at byte %d: %w", a.n+1, a.at+syntax.Offset, err)
	}
	return a.errorf("element %d is no JSON object", a.n+1)
}

// errorf puts file and line in front.
func (a *arrayReader) errorf(format string, args ...any) error {
	return fmt.Errorf("%s:%d: "+format, append([]any{a.path, a.line}, args...)...)
}

func (a *arrayReader) pass(n int) {
	a.line += bytes.Count(a.buf[:n], []byte("\n"))
	a.buf, a.at = a.buf[n:], a.at+int64(n)
}

// fill reads more. What is not passed yet stays in buf, which moves to the front
// of its memory or of a larger one.
func (a *arrayReader) fill() error {
	const chunk = 64 << 10
	if cap(a.buf)-len(a.buf) < chunk {
		if cap(a.mem) < 2*(len(a.buf)+chunk) {
			a.mem = make([]byte, 4*(len(a.buf)+chunk))
		}
		a.buf = a.mem[:copy(a.mem, a.buf)]
	}
	n, err := a.in.Read(a.buf[len(a.buf):cap(a.buf)])
	a.buf = a.buf[:len(a.buf)+n]
	switch {
	case errors.Is(err, io.EOF):
		a.eof = true
	case err != nil:
		return fmt.Errorf("%s: %w", a.path, err)
	}
	return nil
}
