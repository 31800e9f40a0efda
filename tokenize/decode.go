//go:build hf && cgo

package tokenize

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// A decodeTable does what the library does with ids where each token stands for
// fixed bytes. Of some tokens these are parts of characters: what a run of such
// comes to is seen at its end. It is not changed once made.
type decodeTable struct {
	text []byte   // of all tokens in the order of their ids
	ends []uint32 // where each token's part ends; it begins where the one before does
	// part[id] tells a token that may be part of a character.
	part []bool
	// write writes the bytes of a run of such tokens, or none.
	write func(to *strings.Builder, raw []byte)
}

// maxSparse bounds a table of ids by what is in it.
const maxSparse = 4

// newDecodeTable returns nil where the tokenizer's decoder is none that it knows,
// or the ids are not what it can rely on.
func newDecodeTable(r resolved) *decodeTable {
	decoder, ok := stageOf(r.rewritten.get("decoder"))
	if !ok {
		return nil
	}
	tokens, ok := tokensByID(r)
	if !ok {
		return nil
	}
	d := &decodeTable{ends: make([]uint32, len(tokens)), part: make([]bool, len(tokens))}
	var add func(to []byte, token string) (_ []byte, part, ok bool)
	switch {
	case decoder["type"] == "ByteLevel":
		add, d.write = addByteLevel, writeLossy
	case isByteFallback(decoder):
		add, d.write = addWithFallback, writeWhole
	default:
		return nil
	}
	for id, token := range tokens {
		if d.text, d.part[id], ok = add(d.text, token); !ok {
			return nil
		}
		d.ends[id] = uint32(len(d.text))
	}
	return d
}

// tokensByID lists the tokens; "" is an id that does not exist. It is not ok where
// two tokens have one id, of which the library takes any, or one is empty.
func tokensByID(r resolved) (tokens []string, ok bool) {
	size := len(r.ids) + len(r.added)
	for _, id := range r.ids {
		size = max(size, id+1)
	}
	for _, token := range r.added {
		size = max(size, token.ID+1)
	}
	if size > maxSparse*(len(r.ids)+len(r.added)) {
		return nil, false
	}
	tokens = make([]string, size)
	for token, id := range r.ids {
		if id < 0 || token == "" || tokens[id] != "" {
			return nil, false
		}
		tokens[id] = token
	}
	for _, token := range r.added {
		if token.ID < 0 || token.Content == "" {
			return nil, false
		}
		tokens[token.ID] = token.Content // also over the vocabulary's
	}
	return tokens, true
}

// decode returns the text of ids; those it does not know add nothing.
func (d *decodeTable) decode(ids []int) string {
	size := 0
	for _, id := range ids {
		size += len(d.bytes(id))
	}
	var text strings.Builder
	text.Grow(size)
	var run []byte
	for _, id := range ids {
		token := d.bytes(id)
		if len(token) == 0 {
			continue
		}
		if d.part[id] {
			run = append(run, token...)
			continue
		}
		if len(run) > 0 {
			d.write(&text, run)
			run = run[:0]
		}
		text.Write(token)
	}
	d.write(&text, run)
	return text.String()
}

// bytes are those of a token; none for an unknown id.
func (d *decodeTable) bytes(id int) []byte {
	if uint(id) >= uint(len(d.ends)) {
		return nil
	}
	start := uint32(0)
	if id > 0 {
		start = d.ends[id-1]
	}
	return d.text[start:d.ends[id]]
}

// addByteLevel: the decoder ByteLevel puts the bytes of all tokens one after the
// other and then looks for characters. A token of whole characters ends what
// comes before and leaves nothing open.
func addByteLevel(to []byte, token string) (_ []byte, part, ok bool) {
	start := len(to)
	to = appendBytes(to, token)
	return to, !utf8.Valid(to[start:]), true
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

// isByteFallback: Gemma's decoder. "▁" becomes a space, a run of tokens like
// <0xE4> the text that it is in UTF-8.
func isByteFallback(decoder stage) bool {
	list := decoder.list("decoders")
	return len(list) == 3 && replaces(list[:1], spaceMark, " ") && list[1]["type"] == "ByteFallback" && list[2]["type"] == "Fuse"
}

func addWithFallback(to []byte, token string) (_ []byte, part, ok bool) {
	token = strings.ReplaceAll(token, spaceMark, " ")
	if len(token) != 6 || token[:3] != "<0x" || token[5] != '>' {
		return append(to, token...), false, true
	}
	if token[3] == '+' { // which Rust takes for a sign
		return nil, false, false
	}
	b, err := strconv.ParseUint(token[3:5], 16, 8)
	if err != nil {
		return append(to, token...), false, true
	}
	return append(to, byte(b)), true, true
}

// writeWhole writes raw, or U+FFFD for each of its bytes if it is not UTF-8 as a
// whole.
func writeWhole(to *strings.Builder, raw []byte) {
	if utf8.Valid(raw) {
		to.Write(raw)
		return
	}
	for range raw {
		to.WriteString("\uFFFD")
	}
}
