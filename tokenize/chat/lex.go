package chat

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nikolalohinski/gonja/v2/tokens"
)

// lexer cuts a template into gonja's tokens by the rules of Jinja2's lexer.py
// with trim_blocks and lstrip_blocks. gonja's own lexer is not used: it drops
// characters that it does not know, knows no line break inside a tag and undoes
// the escapes of strings by replacement.
//
// Text comes out with all white space handled, so that gonja's parser has none
// to trim. An expression between braces becomes a block with the tag
// [outputTag].
type lexer struct {
	src string
	pos int
	out []*tokens.Token
	// lineStart says that what was read last ended a line: only then may a tag
	// without a line break before it be at the start of one.
	lineStart bool
	line      int // of counted
	counted   int // position up to which lines are counted
}

// outputTag is no name that a template can write.
const outputTag = "{{"

// maxTag bounds the tokens of one tag, and with them how deep an expression may
// nest: it is evaluated by recursion.
const maxTag = 20_000

func lex(source string) ([]*tokens.Token, error) {
	source = strings.ReplaceAll(source, "\r\n", "\n")
	source = strings.ReplaceAll(source, "\r", "\n")
	l := &lexer{src: strings.TrimSuffix(source, "\n"), lineStart: true, line: 1}
	for l.pos < len(l.src) {
		if err := l.next(); err != nil {
			return nil, &lineError{l.lineAt(l.pos), err}
		}
	}
	return l.out, nil
}

// next reads text up to a tag, and the tag.
func (l *lexer) next() error {
	start, kind := l.pos, byte(0)
	at := start
	for {
		brace := strings.IndexByte(l.src[at:], '{')
		if brace < 0 || at+brace+1 >= len(l.src) {
			l.emit(tokens.Data, l.src[start:], start)
			l.pos = len(l.src)
			return nil
		}
		at += brace
		if kind = l.src[at+1]; kind == '{' || kind == '%' || kind == '#' {
			break
		}
		at++
	}
	if kind == '%' {
		if raw := rawBegin.FindStringSubmatch(l.src[at:]); raw != nil {
			l.text(start, at, raw[1], true)
			l.advance(at + len(raw[0]))
			return l.raw()
		}
	}
	begin := at + 2
	sign := ""
	if begin < len(l.src) && (l.src[begin] == '-' || l.src[begin] == '+') {
		sign = l.src[begin : begin+1]
		begin++
	}
	l.text(start, at, sign, kind != '{')
	l.pos, l.lineStart = begin, false
	if kind == '#' {
		return l.comment()
	}
	return l.tag(kind == '{', at)
}

var (
	rawBegin = regexp.MustCompile(`^\{%([-+]?)` + space + `*raw` + space + `*(?:-%\}` + space + `*|%\})`)
	rawEnd   = regexp.MustCompile(`\{%([-+]?)` + space + `*endraw` + space + `*(?:\+%\}|-%\}` + space + `*|%\}\n?)`)
)

// space is Python's \s for text.
const space = `[\t-\r\x1c-\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]`

func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// text emits what is before a tag. A tag with '-' takes all white space before
// it, one of a block's the blanks before it on its line, unless it has '+'.
func (l *lexer) text(start, end int, sign string, block bool) {
	text := l.src[start:end]
	switch {
	case sign == "-":
		text = strings.TrimRightFunc(text, isSpace)
	case sign == "" && block:
		line := strings.LastIndexByte(text, '\n') + 1
		if (line > 0 || l.lineStart) && strings.TrimLeftFunc(text[line:], isSpace) == "" {
			text = text[:line]
		}
	}
	l.emit(tokens.Data, text, start)
}

// advance moves on to end, after the end of a tag.
func (l *lexer) advance(end int) {
	if end > l.pos {
		l.lineStart = l.src[end-1] == '\n'
	}
	l.pos = end
}

func (l *lexer) raw() error {
	end := rawEnd.FindStringSubmatchIndex(l.src[l.pos:])
	if end == nil {
		return fmt.Errorf("raw block without its end")
	}
	l.text(l.pos, l.pos+end[0], l.src[l.pos+end[2]:l.pos+end[3]], true)
	l.advance(l.pos + end[1])
	return nil
}

func (l *lexer) comment() error {
	end := strings.Index(l.src[l.pos:], "#}")
	if end < 0 {
		return fmt.Errorf("comment without its end")
	}
	end += l.pos
	sign := byte(0)
	if end > l.pos {
		sign = l.src[end-1]
	}
	l.advance(l.afterEnd(end+2, sign, true))
	return nil
}

// afterEnd is where text goes on after the end of a tag.
func (l *lexer) afterEnd(pos int, sign byte, block bool) int {
	switch {
	case sign == '-':
		return len(l.src) - len(strings.TrimLeftFunc(l.src[pos:], isSpace))
	case block && sign != '+' && strings.HasPrefix(l.src[pos:], "\n"):
		return pos + 1
	}
	return pos
}

// end says where the tag ends if it does here.
func (l *lexer) end(output bool) (after int, ok bool) {
	rest, sign := l.src[l.pos:], byte(0)
	if rest[0] == '-' || rest[0] == '+' && !output {
		sign, rest = rest[0], rest[1:]
	}
	closing := "%}"
	if output {
		closing = "}}"
	}
	if !strings.HasPrefix(rest, closing) {
		return 0, false
	}
	return l.afterEnd(len(l.src)-len(rest)+2, sign, !output), true
}

// tag reads the tokens up to the end of a tag.
func (l *lexer) tag(output bool, at int) error {
	l.add(tokens.BlockBegin, "{%", at)
	if output {
		l.add(tokens.Name, outputTag, at)
	}
	first := len(l.out)
	var open []byte
	for l.pos < len(l.src) {
		if len(open) == 0 {
			if after, ok := l.end(output); ok {
				l.add(tokens.BlockEnd, "%}", l.pos)
				l.advance(after)
				return nil
			}
		}
		if len(l.out)-first > maxTag {
			return fmt.Errorf("tag of more than %d tokens", maxTag)
		}
		var err error
		if open, err = l.token(open); err != nil {
			return err
		}
	}
	return fmt.Errorf("tag without its end")
}

var (
	number  = regexp.MustCompile(`^(?i:(?:\d+_)*\d+(?:(?:\.(?:\d+_)*\d+)?e[+\-]?(?:\d+_)*\d+|\.(?:\d+_)*\d+))`)
	integer = regexp.MustCompile(`^(?i:0b(?:_?[01])+|0o(?:_?[0-7])+|0x(?:_?[\da-f])+|[1-9](?:_?\d)*|0(?:_?0)*)`)
	quoted  = regexp.MustCompile(`^(?s:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")`)
)

// operators in the order in which they are tried.
var operators = []struct {
	text string
	kind tokens.Type
}{
	{"//", tokens.FloorDivision}, {"**", tokens.Power}, {"==", tokens.Equals}, {"!=", tokens.Ne},
	{">=", tokens.GreaterThanOrEqual}, {"<=", tokens.LowerThanOrEqual}, {"+", tokens.Addition},
	{"-", tokens.Subtraction}, {"/", tokens.Division}, {"*", tokens.Multiply}, {"%", tokens.Modulo},
	{"~", tokens.Tilde}, {"[", tokens.LeftBracket}, {"]", tokens.RightBracket}, {"(", tokens.LeftParenthesis},
	{")", tokens.RightParenthesis}, {"{", tokens.LeftBrace}, {"}", tokens.RightBrace},
	{">", tokens.GreaterThan}, {"<", tokens.LowerThan}, {"=", tokens.Assign}, {".", tokens.Dot},
	{":", tokens.Colon}, {"|", tokens.Pipe}, {",", tokens.Comma}, {";", tokens.Semicolon},
}

// token reads one token inside a tag; open are the brackets that wait for their
// end.
func (l *lexer) token(open []byte) ([]byte, error) {
	rest := l.src[l.pos:]
	r, _ := utf8.DecodeRuneInString(rest)
	start := l.pos
	switch {
	case isSpace(r):
		l.advance(len(l.src) - len(strings.TrimLeftFunc(rest, isSpace)))
		return open, nil
	case r >= '0' && r <= '9':
		return open, l.number(rest)
	case isWord(r):
		word := rest[:wordLength(rest)]
		if !isIdentifier(word) {
			return nil, fmt.Errorf("invalid character in identifier %q", word)
		}
		l.advance(start + len(word))
		l.add(tokens.Name, word, start)
		return open, nil
	case r == '\'' || r == '"':
		text := quoted.FindString(rest)
		if text == "" {
			return nil, fmt.Errorf("string without its end: %.20q", rest)
		}
		value, err := unescape(text[1 : len(text)-1])
		if err != nil {
			return nil, err
		}
		l.advance(start + len(text))
		l.add(tokens.String, value, start)
		return open, nil
	}
	for _, op := range operators {
		if strings.HasPrefix(rest, op.text) {
			l.advance(start + len(op.text))
			l.add(op.kind, op.text, start)
			return balance(open, op.text)
		}
	}
	return nil, fmt.Errorf("unexpected character %q", r)
}

func (l *lexer) number(rest string) error {
	kind := tokens.Float
	text := ""
	if l.pos == 0 || l.src[l.pos-1] != '.' {
		text = number.FindString(rest)
	}
	if text == "" {
		kind, text = tokens.Integer, integer.FindString(rest)
	}
	if text == "" {
		return fmt.Errorf("bad number: %.20q", rest)
	}
	start := l.pos
	l.advance(start + len(text))
	l.add(kind, strings.ReplaceAll(text, "_", ""), start)
	return nil
}

// balance keeps the brackets that are open: inside of them no tag ends.
func balance(open []byte, op string) ([]byte, error) {
	switch op {
	case "(":
		return append(open, ')'), nil
	case "[":
		return append(open, ']'), nil
	case "{":
		return append(open, '}'), nil
	case ")", "]", "}":
		if len(open) == 0 {
			return nil, fmt.Errorf("unexpected %q", op)
		}
		if want := open[len(open)-1]; want != op[0] {
			return nil, fmt.Errorf("unexpected %q; want %q", op, want)
		}
		return open[:len(open)-1], nil
	}
	return open, nil
}

func isWord(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r)
}

func wordLength(text string) int {
	for i, r := range text {
		if !isWord(r) {
			return i
		}
	}
	return len(text)
}

func isIdentifier(word string) bool {
	for i, r := range word {
		ok := r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.Nl, r)
		if i > 0 {
			ok = ok || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Mc, r)
		}
		if !ok {
			return false
		}
	}
	return word != ""
}

// unescape undoes Python's escapes; one that it does not know stays as it is.
func unescape(text string) (string, error) {
	if !strings.Contains(text, `\`) {
		return text, nil
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '\\')
		if i < 0 {
			b.WriteString(text)
			return b.String(), nil
		}
		b.WriteString(text[:i])
		r, size, err := escape(text[i:])
		if err != nil {
			return "", err
		}
		switch r {
		case noRune:
		case keep:
			b.WriteString(text[i : i+size])
		default:
			b.WriteRune(r)
		}
		text = text[i+size:]
	}
}

const (
	noRune = -1 // the escape stands for nothing
	keep   = -2 // it is no escape
)

var simpleEscapes = map[byte]rune{
	'\n': noRune, '\\': '\\', '\'': '\'', '"': '"', 'a': '\a', 'b': '\b', 'f': '\f',
	'n': '\n', 'r': '\r', 't': '\t', 'v': '\v',
}

// escape reads the escape at the start of text.
func escape(text string) (r rune, size int, err error) {
	if r, ok := simpleEscapes[text[1]]; ok {
		return r, 2, nil
	}
	digits, base := 0, 16
	switch c := text[1]; {
	case c >= '0' && c <= '7':
		base, digits = 8, 1
		for digits < 3 && 1+digits < len(text) && text[1+digits] >= '0' && text[1+digits] <= '7' {
			digits++
		}
		size = 1 + digits
	case c == 'x':
		digits = 2
	case c == 'u':
		digits = 4
	case c == 'U':
		digits = 8
	case c == 'N':
		return 0, 0, fmt.Errorf(`escape \N in a string: not supported`)
	default:
		return keep, 1, nil
	}
	if base == 16 {
		size = 2 + digits
	}
	if size > len(text) {
		return 0, 0, fmt.Errorf("truncated escape %.10q in a string", text)
	}
	n, err := strconv.ParseUint(text[size-digits:size], base, 32)
	if err != nil || n > unicode.MaxRune || n >= 0xd800 && n < 0xe000 {
		return 0, 0, fmt.Errorf("bad escape %.10q in a string", text)
	}
	return rune(n), size, nil
}

func (l *lexer) emit(kind tokens.Type, text string, at int) {
	if text != "" {
		l.add(kind, text, at)
	}
}

func (l *lexer) add(kind tokens.Type, text string, at int) {
	l.out = append(l.out, &tokens.Token{Type: kind, Val: text, Pos: at, Line: l.lineAt(at)})
}

// lineAt counts on from the place asked for last.
func (l *lexer) lineAt(at int) int {
	at = min(at, len(l.src))
	if at > l.counted {
		l.line += strings.Count(l.src[l.counted:at], "\n")
		l.counted = at
	}
	return l.line
}
