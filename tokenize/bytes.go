//go:build hf && cgo

package tokenize

import (
	"strings"
	"unicode/utf8"
)

// byteDecoder is the decoder ByteLevel on its own: the bytes of all tokens one
// after the other, and U+FFFD for what in them is not UTF-8.
type byteDecoder struct {
	text []byte   // of all tokens in the order of their ids
	ends []uint32 // where each token's part ends; it begins where the one before does
	// whole[id] tells a token whose bytes are characters: what is not UTF-8
	// ends before it and begins behind it.
	whole []bool
}

// maxSparse bounds a table of ids by what is in it.
const maxSparse = 4

// newByteDecoder returns nil where the tokenizer's decoder is another one.
func newByteDecoder(r resolved) *byteDecoder {
	decoder, ok := stageOf(r.rewritten.get("decoder"))
	if !ok || decoder["type"] != "ByteLevel" {
		return nil
	}
	size := len(r.vocab) + len(r.added)
	tokens := make([]string, size)
	put := func(id int, token string, over bool) bool {
		if id < 0 || id >= maxSparse*size {
			return false
		}
		for id >= len(tokens) {
			tokens = append(tokens, make([]string, len(tokens))...)
		}
		if tokens[id] != "" && !over {
			return false // two tokens of one id: the library takes any
		}
		tokens[id] = token
		return true
	}
	for token, id := range r.vocab {
		if !put(id, token, false) {
			return nil
		}
	}
	for _, token := range r.added {
		if !put(token.ID, token.Content, true) {
			return nil
		}
	}
	d := &byteDecoder{ends: make([]uint32, len(tokens)), whole: make([]bool, len(tokens))}
	for id, token := range tokens {
		start := len(d.text)
		d.text = appendBytes(d.text, token)
		d.ends[id] = uint32(len(d.text))
		d.whole[id] = utf8.Valid(d.text[start:])
	}
	return d
}

// appendBytes appends what a token stands for: GPT-2's characters for bytes, or,
// if there is another one among them, itself.
func appendBytes(to []byte, token string) []byte {
	start := len(to)
	for _, c := range token {
		switch {
		case '!' <= c && c <= '~', 0xA1 <= c && c <= 0xAC, 0xAE <= c && c <= 0xFF:
			to = append(to, byte(c))
		case 0x100 <= c && c <= 0x120: // 0 to ' '
			to = append(to, byte(c-0x100))
		case 0x121 <= c && c <= 0x142: // 0x7F to 0xA0
			to = append(to, byte(c-0x121+0x7F))
		case c == 0x143:
			to = append(to, 0xAD)
		default:
			return append(to[:start], token...)
		}
	}
	return to
}

// decode returns the text of ids; those it does not know add nothing.
func (d *byteDecoder) decode(ids []int) string {
	size := 0
	for _, id := range ids {
		size += len(d.bytes(id))
	}
	var text strings.Builder
	text.Grow(size)
	var open []byte // not yet characters
	for _, id := range ids {
		token := d.bytes(id)
		if len(token) == 0 {
			continue
		}
		if !d.whole[id] {
			open = append(open, token...)
			continue
		}
		if len(open) > 0 {
			writeLossy(&text, open)
			open = open[:0]
		}
		text.Write(token)
	}
	writeLossy(&text, open)
	return text.String()
}

// bytes are those of a token; none for an unknown id.
func (d *byteDecoder) bytes(id int) []byte {
	if uint(id) >= uint(len(d.ends)) {
		return nil
	}
	start := uint32(0)
	if id > 0 {
		start = d.ends[id-1]
	}
	return d.text[start:d.ends[id]]
}

// writeLossy writes raw with U+FFFD for each maximal part that no character
// begins with, as Rust's from_utf8_lossy does (Unicode, chapter 3.9,
// "U+FFFD substitution of maximal subparts").
func writeLossy(to *strings.Builder, raw []byte) {
	for len(raw) > 0 {
		c, size := utf8.DecodeRune(raw)
		if c == utf8.RuneError && size <= 1 {
			size = subpart(raw)
			to.WriteString("\uFFFD")
		} else {
			to.Write(raw[:size])
		}
		raw = raw[size:]
	}
}

// subpart is the length of the longest beginning of raw that begins a character;
// 1 if none does. raw does not begin with a whole character.
func subpart(raw []byte) int {
	low, high, most := byte(0x80), byte(0xBF), 0
	switch c := raw[0]; { // Unicode, table 3-7
	case c >= 0xC2 && c <= 0xDF:
		most = 1 // what follows is no continuation, or it would be whole
	case c == 0xE0:
		low, most = 0xA0, 2
	case c == 0xED:
		high, most = 0x9F, 2
	case c >= 0xE1 && c <= 0xEF:
		most = 2
	case c == 0xF0:
		low, most = 0x90, 3
	case c == 0xF4:
		high, most = 0x8F, 3
	case c >= 0xF1 && c <= 0xF3:
		most = 3
	}
	n := 1
	for n < most && n < len(raw) && raw[n] >= low && raw[n] <= high {
		low, high = 0x80, 0xBF
		n++
	}
	return n
}
