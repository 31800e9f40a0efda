package main

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable returns s with everything that could move the cursor, hide text or
// reorder a line of the terminal written out as an escape: control characters
// (newline is \n, ESC is \x1b, U+0085 is \u0085), line separators, bidi and other
// invisible format characters, unassigned and private code points, and bytes that
// are not UTF-8 (\xNN). Other text is kept, so printable(printable(s)) is
// printable(s).
//
// Note: a backslash is not doubled. The result is for people and is never read
// back, and doubling would spoil every JSON error body it is used on.
func printable(s string) string {
	clean := func(r rune) bool { return r != utf8.RuneError && !hidden(r) }
	if strings.IndexFunc(s, func(r rune) bool { return !clean(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for i, width := 0, 0; i < len(s); i += width {
		var r rune
		r, width = utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && width == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case hidden(r):
			writeEscape(&b, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// writeEscape writes r in the notation of a Go string literal. C1 controls get \u,
// which keeps \x above 7f for bytes that are not UTF-8.
func writeEscape(b *strings.Builder, r rune) {
	switch {
	case r == '\n':
		b.WriteString(`\n`)
	case r == '\r':
		b.WriteString(`\r`)
	case r == '\t':
		b.WriteString(`\t`)
	case r < utf8.RuneSelf:
		fmt.Fprintf(b, `\x%02x`, r)
	case r <= 0xffff:
		fmt.Fprintf(b, `\u%04x`, r)
	default:
		fmt.Fprintf(b, `\U%08x`, r)
	}
}

// hidden reports whether r shows no mark of its own on a terminal, or has an effect
// there beyond its mark. IsGraphic already leaves out controls (Cc), format
// characters (Cf: bidi, zero width, tags), line separators, private use and
// unassigned code points; the fillers and selectors counted here are formally
// letters, marks or symbols, and as invisible.
func hidden(r rune) bool {
	switch {
	case r == '\ufe0e' || r == '\ufe0f':
		return false // text or emoji style, part of ordinary emoji
	case r == '\u2800':
		return true // braille blank: looks like a space and is none
	}
	return !unicode.IsGraphic(r) ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// ellipsis marks text that clip has cut.
const ellipsis = "…"

// clip returns s if it has at most max bytes, and otherwise the longest start of s
// that ends at a rune boundary and fits max bytes together with the ellipsis. A max
// too small for the ellipsis gives "".
func clip(s string, max int) string {
	if len(s) <= max {
		return s
	}
	end := max - len(ellipsis)
	if end < 0 {
		return ""
	}
	// A rune starts at most three bytes back. Bytes that are not UTF-8 have no
	// boundary to look for, and are cut where the limit falls.
	for back := range utf8.UTFMax {
		if end-back >= 0 && utf8.RuneStart(s[end-back]) {
			end -= back
			break
		}
	}
	return s[:end] + ellipsis
}
