package chat

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// stringMethods are those of Python's str. Lengths and places count code points.
var stringMethods = map[string]func(s scope, t string, a *args) (any, error){
	"capitalize": plain(capitalize),
	"casefold":   plain(func(t string) string { return cases.Fold().String(t) }),
	"lower":      plain(lower),
	"upper":      plain(upper),
	"title":      plain(title),
	"swapcase":   plain(swapcase),

	"isalnum":   check(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }),
	"isalpha":   check(unicode.IsLetter),
	"isdecimal": check(unicode.IsDigit),
	"isdigit": check(func(r rune) bool {
		return unicode.IsDigit(r) || strings.ContainsRune("²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", r)
	}),
	"isnumeric":    check(unicode.IsNumber),
	"isspace":      check(isSpace),
	"isascii":      predicate(func(t string) bool { return strings.IndexFunc(t, func(r rune) bool { return r > 127 }) < 0 }),
	"isprintable":  predicate(func(t string) bool { return strings.IndexFunc(t, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 }),
	"isidentifier": predicate(isIdentifier),
	"islower":      predicate(isLower),
	"isupper":      predicate(isUpper),
	"istitle":      predicate(func(t string) bool { return t != "" && title(t) == t && strings.IndexFunc(t, cased) >= 0 }),

	"strip":        strip(strings.TrimFunc, strings.Trim),
	"lstrip":       strip(strings.TrimLeftFunc, strings.TrimLeft),
	"rstrip":       strip(strings.TrimRightFunc, strings.TrimRight),
	"removeprefix": remove(strings.TrimPrefix),
	"removesuffix": remove(strings.TrimSuffix),
	"startswith":   affix(strings.HasPrefix),
	"endswith":     affix(strings.HasSuffix),

	"find":   find(strings.Index, false),
	"rfind":  find(strings.LastIndex, false),
	"index":  find(strings.Index, true),
	"rindex": find(strings.LastIndex, true),
	"count":  count,

	"center": pad(func(n, width int) (left, right int) {
		left = n/2 + n&width&1
		return left, n - left
	}),
	"ljust": pad(func(n, _ int) (int, int) { return 0, n }),
	"rjust": pad(func(n, _ int) (int, int) { return n, 0 }),
	"zfill": zfill,

	"join":       joinMethod,
	"replace":    replace,
	"split":      splitMethod(false),
	"rsplit":     splitMethod(true),
	"splitlines": splitLines,
	"partition":  partition(strings.Index, false),
	"rpartition": partition(strings.LastIndex, true),
	"format":     format,
}

// keywordMethods are those whose arguments may be named.
var keywordMethods = map[string]bool{"split": true, "rsplit": true, "splitlines": true, "format": true}

type stringMethod = func(s scope, t string, a *args) (any, error)

func plain(f func(string) string) stringMethod {
	return func(s scope, t string, a *args) (any, error) {
		if _, err := a.bind(0); err != nil {
			return nil, err
		}
		return f(t), s.make(len(t))
	}
}

func predicate(f func(string) bool) stringMethod {
	return func(_ scope, t string, a *args) (any, error) {
		_, err := a.bind(0)
		return f(t), err
	}
}

// check asks all runes of a text that is not empty.
func check(f func(rune) bool) stringMethod {
	return predicate(func(t string) bool {
		return t != "" && strings.IndexFunc(t, func(r rune) bool { return !f(r) }) < 0
	})
}

func isASCII(t string) bool {
	for i := range len(t) {
		if t[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func lower(t string) string {
	if isASCII(t) {
		return strings.ToLower(t)
	}
	return cases.Lower(language.Und).String(t)
}

func upper(t string) string {
	if isASCII(t) {
		return strings.ToUpper(t)
	}
	return cases.Upper(language.Und).String(t)
}

// capitalize lowers with the first rune in place: a sigma at the end of a word has
// a form of its own.
func capitalize(t string) string {
	_, n := utf8.DecodeRuneInString(t)
	return titleOf(t[:n]) + lower(t)[len(lower(t[:n])):]
}

// titleOf is the title case of one rune.
func titleOf(t string) string {
	if isASCII(t) {
		return strings.ToUpper(t)
	}
	return cases.Title(language.Und).String(t)
}

func cased(r rune) bool {
	return unicode.IsUpper(r) || unicode.IsLower(r) || unicode.IsTitle(r)
}

// title begins a word after every rune without a case.
func title(t string) string {
	var b strings.Builder
	word := -1 // where it begins
	flush := func(end int) {
		if word >= 0 {
			b.WriteString(capitalize(t[word:end]))
		}
		word = -1
	}
	for i, r := range t {
		switch {
		case !cased(r):
			flush(i)
			b.WriteRune(r)
		case word < 0:
			word = i
		}
	}
	flush(len(t))
	return b.String()
}

func swapcase(t string) string {
	var b strings.Builder
	for _, r := range t {
		if unicode.IsUpper(r) {
			b.WriteString(lower(string(r)))
		} else {
			b.WriteString(upper(string(r)))
		}
	}
	return b.String()
}

func isLower(t string) bool {
	return strings.IndexFunc(t, unicode.IsLower) >= 0 &&
		strings.IndexFunc(t, func(r rune) bool { return unicode.IsUpper(r) || unicode.IsTitle(r) }) < 0
}

func isUpper(t string) bool {
	return strings.IndexFunc(t, unicode.IsUpper) >= 0 &&
		strings.IndexFunc(t, func(r rune) bool { return unicode.IsLower(r) || unicode.IsTitle(r) }) < 0
}

func strip(space func(string, func(rune) bool) string, set func(string, string) string) stringMethod {
	return func(_ scope, t string, a *args) (any, error) {
		v, err := a.bind(0, "chars")
		if err != nil {
			return nil, err
		}
		if v[0] == nil || v[0] == (missing{}) {
			return space(t, isSpace), nil
		}
		chars, err := or(v[0], "")
		return set(t, chars), err
	}
}

func remove(f func(t, part string) string) stringMethod {
	return func(_ scope, t string, a *args) (any, error) {
		v, err := a.bind(1, "part")
		if err != nil {
			return nil, err
		}
		part, err := or(v[0], "")
		return f(t, part), err
	}
}

func affix(f func(t, part string) bool) stringMethod {
	return func(s scope, t string, a *args) (any, error) {
		v, err := a.bind(1, "part", "start", "end")
		if err != nil {
			return nil, err
		}
		t, _, ok, err := part(t, v[1], v[2])
		if err != nil {
			return nil, err
		}
		options := []any{v[0]}
		if several, ok := v[0].(*sequence); ok && several.kind == tuple {
			options = several.items
		}
		for _, o := range options {
			want, isText := text(o)
			if !isText {
				return nil, fmt.Errorf("%s first arg must be str or a tuple of str, not %s", a.of, typeName(o))
			}
			if ok && f(t, want) {
				return true, s.spend(len(options))
			}
		}
		return false, nil
	}
}

// part cuts t to [start:end], for the methods that look at a part only. before
// counts the code points in front; ok is false where start is behind the end.
func part(t string, start, end any) (cut string, before int, ok bool, err error) {
	none := func(v any) bool { return v == nil || v == (missing{}) }
	if none(start) && none(end) {
		return t, 0, true, nil
	}
	var bounds [2]int
	n := utf8.RuneCountInString(t)
	for i, v := range []any{start, end} {
		bounds[i] = i * n
		if none(v) {
			continue
		}
		at, isInt := asInt(v)
		if !isInt {
			return "", 0, false, errors.New("slice indices must be integers or None")
		}
		if at < 0 {
			at = max(at+n, 0)
		}
		bounds[i] = at
	}
	low, high := bounds[0], min(bounds[1], n)
	if low > n || low > high {
		return "", 0, false, nil
	}
	runes := []rune(t)
	return string(runes[low:high]), low, true, nil
}

func find(f func(t, part string) int, must bool) stringMethod {
	return func(_ scope, t string, a *args) (any, error) {
		v, err := a.bind(1, "part", "start", "end")
		if err != nil {
			return nil, err
		}
		want, err := or(v[0], "")
		if err != nil {
			return nil, err
		}
		t, before, ok, err := part(t, v[1], v[2])
		if err != nil {
			return nil, err
		}
		i := -1
		if ok {
			i = f(t, want)
		}
		if i < 0 && must {
			return nil, errors.New("substring not found")
		}
		if i >= 0 {
			i = before + utf8.RuneCountInString(t[:i])
		}
		return i, nil
	}
}

func count(_ scope, t string, a *args) (any, error) {
	v, err := a.bind(1, "part", "start", "end")
	if err != nil {
		return nil, err
	}
	want, err := or(v[0], "")
	if err != nil {
		return nil, err
	}
	t, _, ok, err := part(t, v[1], v[2])
	if !ok {
		return 0, err
	}
	return strings.Count(t, want), err
}

// pad fills a text to a width; sides says how n fillers are shared.
func pad(sides func(n, width int) (left, right int)) stringMethod {
	return func(s scope, t string, a *args) (any, error) {
		v, err := a.bind(1, "width", "fillchar")
		if err != nil {
			return nil, err
		}
		width, err1 := or(v[0], 0)
		fill, err2 := or(v[1], " ")
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		if utf8.RuneCountInString(fill) != 1 {
			return nil, errors.New("the fill character must be exactly one character long")
		}
		n := width - utf8.RuneCountInString(t)
		if n <= 0 {
			return t, nil
		}
		if n > maxOutput {
			return nil, errTooLong
		}
		left, right := sides(n, width)
		return strings.Repeat(fill, left) + t + strings.Repeat(fill, right), s.make(len(t) + n*len(fill))
	}
}

func zfill(s scope, t string, a *args) (any, error) {
	v, err := a.bind(1, "width")
	if err != nil {
		return nil, err
	}
	width, err := or(v[0], 0)
	n := width - utf8.RuneCountInString(t)
	if err != nil || n <= 0 {
		return t, err
	}
	if n > maxOutput {
		return nil, errTooLong
	}
	signs := 0
	if t != "" && (t[0] == '+' || t[0] == '-') {
		signs = 1
	}
	return t[:signs] + strings.Repeat("0", n) + t[signs:], s.make(len(t) + n)
}

func joinMethod(s scope, t string, a *args) (any, error) {
	v, err := a.bind(1, "iterable")
	if err != nil {
		return nil, err
	}
	all, err := items(s, v[0])
	if err != nil {
		return nil, err
	}
	for i, item := range all {
		if _, ok := text(item); !ok {
			return nil, fmt.Errorf("sequence item %d: expected str instance, %s found", i, typeName(item))
		}
	}
	return join(s, t, all)
}

func replace(s scope, t string, a *args) (any, error) {
	v, err := a.bind(2, "old", "new", "count")
	if err != nil {
		return nil, err
	}
	was, err1 := or(v[0], "")
	is, err2 := or(v[1], "")
	n, err3 := or(v[2], -1)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	return replaceText(s, t, was, is, n)
}

func replaceText(s scope, t, was, is string, n int) (any, error) {
	hits := strings.Count(t, was)
	if n >= 0 {
		hits = min(hits, n)
	}
	size := len(t)
	if more := len(is) - len(was); more > 0 && hits > maxOutput/more {
		return nil, errTooLong
	} else {
		size += hits * more
	}
	if err := s.make(size); err != nil {
		return nil, err
	}
	return strings.Replace(t, was, is, n), nil
}

func splitMethod(fromRight bool) stringMethod {
	return func(s scope, t string, a *args) (any, error) {
		v, err := a.bind(0, "sep", "maxsplit")
		if err != nil {
			return nil, err
		}
		limit, err := or(v[1], -1)
		if err != nil {
			return nil, err
		}
		var parts []string
		if v[0] == nil || v[0] == (missing{}) {
			parts = fields(t, limit, fromRight)
		} else {
			sep, err := or(v[0], "")
			if err != nil {
				return nil, err
			}
			if sep == "" {
				return nil, errors.New("empty separator")
			}
			parts = splitAt(t, sep, limit, fromRight)
		}
		return textList(s, parts)
	}
}

func textList(s scope, parts []string) (any, error) {
	if err := s.spend(len(parts)); err != nil {
		return nil, err
	}
	out := make([]any, len(parts))
	for i, p := range parts {
		out[i] = p
	}
	return newList(out...), nil
}

func splitAt(t, sep string, limit int, fromRight bool) []string {
	if !fromRight {
		if limit < 0 {
			return strings.Split(t, sep)
		}
		return strings.SplitN(t, sep, limit+1)
	}
	var parts []string
	for limit != 0 {
		i := strings.LastIndex(t, sep)
		if i < 0 {
			break
		}
		parts = append(parts, t[i+len(sep):])
		t = t[:i]
		limit--
	}
	parts = append(parts, t)
	slices.Reverse(parts)
	return parts
}

// fields splits at white space: none at the ends makes an empty part.
func fields(t string, limit int, fromRight bool) []string {
	if fromRight {
		return fieldsFromRight(t, limit)
	}
	if limit < 0 {
		return strings.FieldsFunc(t, isSpace)
	}
	var parts []string
	for t = strings.TrimLeftFunc(t, isSpace); t != ""; t = strings.TrimLeftFunc(t, isSpace) {
		i := strings.IndexFunc(t, isSpace)
		if limit == 0 || i < 0 {
			parts = append(parts, t)
			break
		}
		parts = append(parts, t[:i])
		t = t[i:]
		limit--
	}
	return parts
}

func fieldsFromRight(t string, limit int) []string {
	var parts []string
	for t = strings.TrimRightFunc(t, isSpace); t != ""; t = strings.TrimRightFunc(t, isSpace) {
		i := strings.LastIndexFunc(t, isSpace)
		if limit == 0 || i < 0 {
			parts = append(parts, t)
			break
		}
		_, n := utf8.DecodeRuneInString(t[i:])
		parts = append(parts, t[i+n:])
		t = t[:i]
		limit--
	}
	slices.Reverse(parts)
	return parts
}

func splitLines(s scope, t string, a *args) (any, error) {
	v, err := a.bind(0, "keepends")
	if err != nil {
		return nil, err
	}
	keep, err := or(v[0], 0)
	if err != nil {
		return nil, err
	}
	return textList(s, lines(t, keep != 0))
}

// lines splits where Python's splitlines does.
func lines(t string, keep bool) []string {
	var out []string
	for t != "" {
		i := strings.IndexAny(t, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if i < 0 {
			return append(out, t)
		}
		_, n := utf8.DecodeRuneInString(t[i:])
		if strings.HasPrefix(t[i:], "\r\n") {
			n = 2
		}
		if keep {
			out = append(out, t[:i+n])
		} else {
			out = append(out, t[:i])
		}
		t = t[i+n:]
	}
	return out
}

func partition(f func(t, sep string) int, right bool) stringMethod {
	return func(_ scope, t string, a *args) (any, error) {
		v, err := a.bind(1, "sep")
		if err != nil {
			return nil, err
		}
		sep, err := or(v[0], "")
		if err != nil {
			return nil, err
		}
		if sep == "" {
			return nil, errors.New("empty separator")
		}
		i := f(t, sep)
		switch {
		case i >= 0:
			return newTuple(t[:i], sep, t[i+len(sep):]), nil
		case right:
			return newTuple("", "", t), nil
		}
		return newTuple(t, "", ""), nil
	}
}

var field = regexp.MustCompile(`^\{(\w*)(![rs])?(:[^{}]*)?\}`)

// format is str.format for fields by place or name, without their own formats.
func format(s scope, t string, a *args) (any, error) {
	var b strings.Builder
	next := 0
	for {
		i := strings.IndexAny(t, "{}")
		if i < 0 {
			break
		}
		b.WriteString(t[:i])
		t = t[i:]
		if len(t) > 1 && t[0] == t[1] {
			b.WriteByte(t[0])
			t = t[2:]
			continue
		}
		m := field.FindStringSubmatch(t)
		if m == nil || m[3] != "" && m[3] != ":" {
			return nil, fmt.Errorf("format %.20q: not supported", t)
		}
		t = t[len(m[0]):]
		v, err := fieldValue(a, m[1], &next)
		if err != nil {
			return nil, err
		}
		var one strings.Builder
		if m[2] == "!r" {
			err = repr(s, &one, v)
		} else {
			var whole string
			whole, err = str(s, v)
			one.WriteString(whole)
		}
		if err == nil {
			err = s.make(b.Len() + one.Len())
		}
		if err != nil {
			return nil, err
		}
		b.WriteString(one.String())
	}
	b.WriteString(t)
	return b.String(), s.make(b.Len())
}

func fieldValue(a *args, name string, next *int) (any, error) {
	if name == "" {
		name = strconv.Itoa(*next)
		*next++
	}
	if n, err := strconv.Atoi(name); err == nil {
		if n < len(a.positional) {
			return a.positional[n], nil
		}
		return nil, fmt.Errorf("replacement index %d out of range", n)
	}
	if v, ok := a.keywords.get(name); ok {
		return v, nil
	}
	return nil, fmt.Errorf("format needs the argument %q", name)
}
