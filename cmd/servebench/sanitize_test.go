package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPrintableEscapesWhatATerminalObeysOrHides(t *testing.T) {
	for _, row := range []struct{ reading, in, want string }{
		{"plain ASCII is kept", `{"error": "a\b"} ~`, `{"error": "a\b"} ~`},
		{"letters, CJK, emoji and combining marks are kept", "žluťoučký 日本語 🚀 e\u0301", "žluťoučký 日本語 🚀 e\u0301"},
		{"emoji style selector is kept", "❤\ufe0f", "❤\ufe0f"},
		{"a replacement character sent as such is kept", "\ufffd", "\ufffd"},
		{"empty stays empty", "", ""},
		{"no-break space is kept", "a\u00a0b", "a\u00a0b"},

		{"line ends", "a\nb\r\n", `a\nb\r\n`},
		{"tab", "a\tb", `a\tb`},
		{"colour sequence", "\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
		{"window title and bell", "\x1b]0;owned\x07", `\x1b]0;owned\x07`},
		{"NUL, backspace and DEL", "\x00\x08\x7f", `\x00\x08\x7f`},
		{"C1 controls: NEL and the one-character CSI", "\u0085\u009b31m", `\u0085\u009b31m`},
		{"bidi overrides and isolates", "a\u202eb\u2066c\u2069\u200f", `a\u202eb\u2066c\u2069\u200f`},
		{"zero width space, joiner, BOM, word joiner", "a\u200b\u200d\ufeff\u2060", `a\u200b\u200d\ufeff\u2060`},
		{"soft hyphen", "a\u00adb", `a\u00adb`},
		{"line and paragraph separators", "\u2028\u2029", `\u2028\u2029`},
		{"tag characters, which spell hidden ASCII", "\U000e0041", `\U000e0041`},
		{"variation selectors, which can carry hidden bytes", "a\U000e0100\ufe00", `a\U000e0100\ufe00`},
		{"Hangul filler and braille blank look like nothing", "\u3164\u2800", `\u3164\u2800`},
		{"private use", "\ue000", `\ue000`},
		{"bytes that are not UTF-8", "a\xffb\xc3", `a\xffb\xc3`},
		{"a surrogate written in UTF-8 is not UTF-8", "\xed\xa0\x80", `\xed\xa0\x80`},
		{"a byte that would be CSI in Latin-1", "\x9b31m", `\x9b31m`},
	} {
		if got := printable(row.in); got != row.want {
			t.Errorf("%s: printable(%+q) = %+q, want %+q", row.reading, row.in, got, row.want)
		}
	}
}

func TestClipCutsAtARuneAndSaysSo(t *testing.T) {
	for _, row := range []struct {
		reading, in string
		max         int
		want        string
	}{
		{"short text is kept", "abc", 3, "abc"},
		{"longer text gives room to the ellipsis, 3 bytes", "abcdef", 5, "ab…"},
		// é is c3 a9 at bytes 1-2; 5-3 = 2 falls inside it.
		{"a rune is not cut in two", "aébcd", 5, "a…"},
		// 🚀 is 4 bytes; 6-3 = 3 falls on its last byte.
		{"a four byte rune is not cut", "🚀🚀", 6, "…"},
		{"room for the ellipsis alone", "abcd", 3, "…"},
		{"no room for the ellipsis", "abcd", 2, ""},
		{"zero and less", "abcd", -1, ""},
		{"empty text fits everywhere", "", 0, ""},
		{"bytes without a boundary are cut at the limit", strings.Repeat("\x80", 9), 8, strings.Repeat("\x80", 5) + "…"},
	} {
		if got := clip(row.in, row.max); got != row.want {
			t.Errorf("%s: clip(%q, %d) = %q, want %q", row.reading, row.in, row.max, got, row.want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	for _, seed := range []string{"", "ok", "\x1b[2J", "\u202eabc", "\xff\xfe", "日本語\n", "\U000e0041"} {
		f.Add(seed, 8)
	}
	f.Fuzz(func(t *testing.T, s string, max int) {
		got := printable(s)
		if !utf8.ValidString(got) {
			t.Fatalf("printable(%q) = %q is not UTF-8", s, got)
		}
		if i := strings.IndexFunc(got, hidden); i >= 0 {
			t.Fatalf("printable(%q) = %q keeps a hidden character at %d", s, got, i)
		}
		if again := printable(got); again != got {
			t.Fatalf("printable is not stable: %q, then %q", got, again)
		}
		cut := clip(got, max)
		if len(cut) > 0 && len(cut) > max {
			t.Fatalf("clip(%q, %d) has %d bytes", got, max, len(cut))
		}
		if !utf8.ValidString(cut) {
			t.Fatalf("clip(%q, %d) = %q cuts a rune", got, max, cut)
		}
		if start, isCut := strings.CutSuffix(cut, ellipsis); isCut && !strings.HasPrefix(got, start) {
			t.Fatalf("clip(%q, %d) = %q is no start of it", got, max, cut)
		}
	})
}
