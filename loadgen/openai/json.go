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
	if uint(i) < uint(len(b)) && b[i] > ' ' {
		return i
	}
	return spaces(b, i)
}

func spaces(b []byte, i int) int {
	for uint(i) < uint(len(b)) && kinds[b[i]]&white != 0 {
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
	// What nearly all servers write, without a call: ,"key": and key short.
	if i+12 <= len(b) && b[i] == ',' && b[i+1] == '"' {
		if hit := special(binary.LittleEndian.Uint64(b[i+2:])); hit != 0 {
			end := i + 2 + bits.TrailingZeros64(hit)/8
			if b[end] == '"' && b[end+1] == ':' && b[end+2] > ' ' {
				return b[i+2 : end], end + 2, true
			}
		}
	}
	i = space(b, i)
	switch at(b, i) {
	case ',':
		return member(b, i+1)
	case '}':
		return nil, i + 1, false
	}
	return nil, -1, false
}

// member reads a key and its colon.
func member(b []byte, i int) (key []byte, _ int, more bool) {
	i = space(b, i)
	end := str(b, i)
	if end < 0 {
		return nil, -1, false
	}
	key = b[i+1 : end-1]
	colon := space(b, end)
	if at(b, colon) != ':' {
		return nil, -1, false
	}
	if i = space(b, colon+1); i == len(b) {
		return nil, -1, false
	}
	return key, i, true
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

// special looks at eight bytes at once: the high bit of a byte is set where a
// quote, a backslash or a control character is. Above the lowest one there can
// be false ones.
func special(x uint64) uint64 {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	// c^2 is below 0x21 where c is a quote (0x22) or below 0x20.
	return ((x ^ ones*2 - ones*0x21) | (x ^ ones*'\\' - ones)) &^ x & high
}

// str passes over a string, quotes included.
func str(b []byte, i int) int {
	if at(b, i) != '"' {
		return -1
	}
	for i++; i >= 0; {
		if i+8 <= len(b) {
			hit := special(binary.LittleEndian.Uint64(b[i:]))
			if hit == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(hit) / 8
		}
		switch c := at(b, i); {
		case c == '"':
			return i + 1
		case c == '\\':
			i = escape(b, i+1)
		case c < ' ': // a control character, or the end
			return -1
		default:
			i++
		}
	}
	return -1
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
