package openai

import (
	"encoding/binary"
	"math/bits"
)

// What follows walks JSON (RFC 8259) as encoding/json understands it, but that
// nesting is bounded by maxDepth and nothing is built.

// maxDepth bounds nesting: a payload is not worth a stack overflow.
const maxDepth = 512

// Kinds of bytes.
const (
	white = 1 << iota // between values
	digit
	hex
	escapable // may follow a backslash
)

var kinds = func() (t [256]byte) {
	for s, kind := range map[string]byte{" \t\r\n": white, "0123456789": digit | hex, "abcdefABCDEF": hex} {
		for _, c := range []byte(s) {
			t[c] |= kind
		}
	}
	for _, c := range []byte(`"\/bfnrt`) {
		t[c] |= escapable
	}
	return t
}()

// at is b[i], 0 behind the end.
func at(b []byte, i int) byte {
	if uint(i) < uint(len(b)) {
		return b[i]
	}
	return 0
}

// space passes over white space.
func space(b []byte, i int) int {
	for uint(i) < uint(len(b)) && b[i] <= ' ' && kinds[b[i]]&white != 0 {
		i++
	}
	return i
}

// begin enters an object and stands at its first value. Without one more is
// false, and i is behind the object or -1.
func begin(b []byte, i int) (key []byte, _ int, more bool) {
	i = space(b, i+1)
	if at(b, i) == '}' {
		return nil, i + 1, false
	}
	return member(b, i)
}

// next stands behind a value of an object and goes on to the following one, as
// begin does.
func next(b []byte, i int) (key []byte, _ int, more bool) {
	if i < 0 {
		return nil, -1, false
	}
	i = space(b, i)
	switch at(b, i) {
	case ',':
		return member(b, space(b, i+1))
	case '}':
		return nil, i + 1, false
	}
	return nil, -1, false
}

// member reads a key and its colon.
func member(b []byte, i int) (key []byte, _ int, more bool) {
	end := str(b, i)
	if end < 0 {
		return nil, -1, false
	}
	colon := space(b, end)
	if at(b, colon) != ':' {
		return nil, -1, false
	}
	v := space(b, colon+1)
	if v == len(b) {
		return nil, -1, false
	}
	return b[i+1 : end-1], v, true
}

// beginArray and nextElement do for an array what begin and next do for an
// object.
func beginArray(b []byte, i int) (_ int, more bool) {
	i = space(b, i+1)
	if at(b, i) == ']' {
		return i + 1, false
	}
	return i, true
}

func nextElement(b []byte, i int) (_ int, more bool) {
	if i < 0 {
		return -1, false
	}
	i = space(b, i)
	switch at(b, i) {
	case ',':
		return space(b, i+1), true
	case ']':
		return i + 1, false
	}
	return -1, false
}

// skip passes over one value of any kind, which lies in depth others.
func skip(b []byte, i, depth int) int {
	if i < 0 {
		return -1
	}
	switch c := at(b, i); c {
	case '"':
		return str(b, i)
	case 'n':
		return word(b, i, "null")
	case 't':
		return word(b, i, "true")
	case 'f':
		return word(b, i, "false")
	case '{', '[':
		if depth >= maxDepth {
			return -1
		}
		if c == '[' {
			return skipArray(b, i, depth+1)
		}
		return skipObject(b, i, depth+1)
	}
	return number(b, i)
}

func skipObject(b []byte, i, depth int) int {
	_, i, more := begin(b, i)
	for more {
		_, i, more = next(b, skip(b, i, depth))
	}
	return i
}

func skipArray(b []byte, i, depth int) int {
	i, more := beginArray(b, i)
	for more {
		i, more = nextElement(b, skip(b, i, depth))
	}
	return i
}

func word(b []byte, i int, w string) int {
	if len(b)-i < len(w) || string(b[i:i+len(w)]) != w {
		return -1
	}
	return i + len(w)
}

// str passes over a string, quotes included.
func str(b []byte, i int) int {
	if at(b, i) != '"' {
		return -1
	}
	for i++; ; {
		i = plainEnd(b, i)
		switch at(b, i) {
		case '"':
			return i + 1
		case '\\':
			if i = escape(b, i+1); i < 0 {
				return -1
			}
		default: // a control character, or the end
			return -1
		}
	}
}

// plainEnd returns the index of the first byte at or after i that is a quote, a
// backslash or a control character; len(b) if there is none. It looks at eight
// bytes at once: the high bit of a byte of hit is set where it is such a byte.
// Above the lowest hit there can be false ones, which do not matter.
func plainEnd(b []byte, i int) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quote, slash := x^ones*'"', x^ones*'\\'
		hit := ((quote-ones)&^quote | (slash-ones)&^slash | (x-ones*0x20)&^x) & high
		if hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < 0x20 {
			return i
		}
	}
	return i
}

// escape stands behind a backslash.
func escape(b []byte, i int) int {
	c := at(b, i)
	if kinds[c]&escapable != 0 {
		return i + 1
	}
	if c != 'u' || len(b)-i < 5 {
		return -1
	}
	for _, c := range b[i+1 : i+5] {
		if kinds[c]&hex == 0 {
			return -1
		}
	}
	return i + 5
}

func number(b []byte, i int) int {
	if at(b, i) == '-' {
		i++
	}
	if at(b, i) == '0' {
		i++
	} else if i = digits(b, i); i < 0 {
		return -1
	}
	if at(b, i) == '.' {
		if i = digits(b, i+1); i < 0 {
			return -1
		}
	}
	if at(b, i)|0x20 == 'e' {
		i++
		if c := at(b, i); c == '+' || c == '-' {
			i++
		}
		return digits(b, i)
	}
	return i
}

// digits passes over one digit or more.
func digits(b []byte, i int) int {
	from := i
	for kinds[at(b, i)]&digit != 0 {
		i++
	}
	if i == from {
		return -1
	}
	return i
}
