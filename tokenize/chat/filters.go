package chat

import (
	"errors"
	"fmt"
	"html"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// filters are Jinja2's own, and transformers' tojson. Those that no chat template
// has use for are left out: groupby, pprint, random, filesizeformat, striptags,
// urlencode, urlize, wordwrap, xmlattr.
var filters map[string]func(s scope, v any, a *args) (any, error)

func init() { // some filters run filters by name
	filters = map[string]func(s scope, v any, a *args) (any, error){
		"abs":         absolute,
		"attr":        attr,
		"batch":       batch,
		"capitalize":  textFilter(capitalize),
		"center":      center,
		"count":       lengthFilter,
		"d":           defaultFilter,
		"default":     defaultFilter,
		"dictsort":    dictSort,
		"e":           escapeFilter,
		"escape":      escapeFilter,
		"first":       first,
		"float":       floatFilter,
		"forceescape": forceEscape,
		"format":      formatFilter,
		"indent":      indent,
		"int":         intFilter,
		"items":       itemsFilter,
		"join":        joinFilter,
		"last":        last,
		"length":      lengthFilter,
		"list":        listFilter,
		"lower":       textFilter(lower),
		"map":         mapFilter,
		"max":         extreme(1),
		"min":         extreme(-1),
		"reject":      selection(false, false),
		"rejectattr":  selection(false, true),
		"replace":     replaceFilter,
		"reverse":     reverse,
		"round":       round,
		"safe":        safe,
		"select":      selection(true, false),
		"selectattr":  selection(true, true),
		"slice":       sliceFilter,
		"sort":        sortFilter,
		"string":      stringFilter,
		"sum":         sum,
		"title":       textFilter(titleFilter),
		"tojson":      toJSONFilter,
		"trim":        trim,
		"truncate":    truncate,
		"unique":      unique,
		"upper":       textFilter(upper),
		"wordcount":   wordCount,
	}
}

// plainText is str(v). A Markup would stay one in Python; what that escapes later
// is not followed here.
func plainText(s scope, v any) (string, error) {
	if _, ok := v.(markup); ok {
		return "", errors.New("of a Markup (safe, escape): not supported")
	}
	t, err := str(s, v)
	if err != nil {
		return "", err
	}
	return t, s.make(len(t))
}

func textFilter(f func(string) string) func(scope, any, *args) (any, error) {
	return func(s scope, v any, a *args) (any, error) {
		if _, err := a.bind(0); err != nil {
			return nil, err
		}
		t, err := plainText(s, v)
		if err != nil {
			return nil, err
		}
		return f(t), nil
	}
}

var wordStart = regexp.MustCompile(`(?:[-({\[<]|` + space + `)+`)

// titleFilter begins a word after other characters than the method title does.
func titleFilter(t string) string {
	var b strings.Builder
	word := func(w string) {
		_, n := utf8.DecodeRuneInString(w)
		b.WriteString(upper(w[:n]) + lower(w[n:]))
	}
	for m := wordStart.FindStringIndex(t); m != nil; m = wordStart.FindStringIndex(t) {
		word(t[:m[0]])
		word(t[m[0]:m[1]])
		t = t[m[1]:]
	}
	word(t)
	return b.String()
}

func absolute(_ scope, v any, a *args) (any, error) {
	if _, err := a.bind(0); err != nil {
		return nil, err
	}
	if n, ok := asInt(v); ok && n != math.MinInt {
		return max(n, -n), nil
	}
	if f, ok := v.(float64); ok {
		return math.Abs(f), nil
	}
	return nil, fmt.Errorf("bad operand type for abs(): '%s'", typeName(v))
}

func attr(_ scope, v any, a *args) (any, error) {
	b, err := a.bind(1, "name")
	if err != nil {
		return nil, err
	}
	name, err := or(b[0], "")
	if err != nil {
		return nil, err
	}
	if err := isSet(v); err != nil {
		return nil, err
	}
	if m, ok := memberOf(v, name); ok {
		return m, nil
	}
	return noMember(v, name), nil
}

func batch(s scope, v any, a *args) (any, error) {
	b, err := a.bind(1, "linecount", "fill_with")
	if err != nil {
		return nil, err
	}
	size, err1 := or(b[0], 0)
	all, err2 := items(s, v)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if size < 1 || size > maxRange {
		return nil, fmt.Errorf("linecount %d: want 1 to %d", size, maxRange)
	}
	out := &sequence{kind: iterator}
	for chunk := range slices.Chunk(all, size) {
		chunk = slices.Clip(chunk)
		for b[1] != nil && b[1] != (missing{}) && len(chunk) < size {
			chunk = append(chunk, b[1])
		}
		out.items = append(out.items, newList(chunk...))
	}
	return out, s.spend(len(all) + size)
}

func sliceFilter(s scope, v any, a *args) (any, error) {
	b, err := a.bind(1, "slices", "fill_with")
	if err != nil {
		return nil, err
	}
	n, err1 := or(b[0], 0)
	all, err2 := items(s, v)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if n < 1 || n > maxRange {
		return nil, fmt.Errorf("slices %d: want 1 to %d", n, maxRange)
	}
	out := &sequence{kind: iterator}
	size, extra := len(all)/n, len(all)%n
	for i := range n {
		take := size
		if i < extra {
			take++
		}
		part := slices.Clone(all[:take])
		all = all[take:]
		if b[1] != nil && b[1] != (missing{}) && i >= extra {
			part = append(part, b[1])
		}
		out.items = append(out.items, newList(part...))
	}
	return out, s.spend(len(all) + n)
}

func center(s scope, v any, a *args) (any, error) {
	b, err := a.bind(0, "width")
	if err != nil {
		return nil, err
	}
	width, err := or(b[0], 80)
	if err != nil {
		return nil, err
	}
	t, err := plainText(s, v)
	if err != nil {
		return nil, err
	}
	return stringMethods["center"](s, t, &args{of: "center", positional: []any{width}})
}

func lengthFilter(_ scope, v any, a *args) (any, error) {
	if _, err := a.bind(0); err != nil {
		return nil, err
	}
	return length(v)
}

func defaultFilter(_ scope, v any, a *args) (any, error) {
	b, err := a.bind(0, "default_value", "boolean")
	if err != nil {
		return nil, err
	}
	if b[0] == (missing{}) {
		b[0] = ""
	}
	if _, ok := v.(*undefined); ok || flag(b[1], false) && !truth(v) {
		return b[0], nil
	}
	return v, nil
}

func escapeFilter(s scope, v any, a *args) (any, error) {
	if _, ok := v.(markup); ok {
		return v, nil
	}
	return forceEscape(s, v, a)
}

func forceEscape(s scope, v any, a *args) (any, error) {
	if _, err := a.bind(0); err != nil {
		return nil, err
	}
	t, err := str(s, v)
	if err != nil {
		return nil, err
	}
	t = html.EscapeString(t)
	return markup(t), s.make(len(t))
}

func safe(s scope, v any, a *args) (any, error) {
	if _, err := a.bind(0); err != nil {
		return nil, err
	}
	t, err := str(s, v)
	return markup(t), err
}

func stringFilter(s scope, v any, a *args) (any, error) {
	if _, err := a.bind(0); err != nil {
		return nil, err
	}
	if _, ok := v.(markup); ok {
		return v, nil
	}
	return str(s, v)
}

func first(s scope, v any, a *args) (any, error) {
	if _, err := a.bind(0); err != nil {
		return nil, err
	}
	if t, ok := text(v); ok && t != "" {
		_, n := utf8.DecodeRuneInString(t)
		return t[:n], nil
	}
	if q, ok := v.(*sequence); ok && q.kind == iterator && !q.spent && len(q.items) > 0 {
		next := q.items[0]
		q.items = q.items[1:]
		return next, nil
	}
	all, err := items(s, v)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return &undefined{message: "No first item, sequence was empty."}, nil
	}
	return all[0], nil
}

func last(s scope, v any, a *args) (any, error) {
	if _, err := a.bind(0); err != nil {
		return nil, err
	}
	if q, ok := v.(*sequence); ok && q.kind == iterator {
		return nil, errors.New("'generator' object is not reversible")
	}
	all, err := items(s, v)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return &undefined{message: "No last item, sequence was empty."}, nil
	}
	return all[len(all)-1], nil
}

func reverse(s scope, v any, a *args) (any, error) {
	if _, err := a.bind(0); err != nil {
		return nil, err
	}
	all, err := items(s, v)
	if err != nil {
		return nil, err
	}
	all = slices.Clone(all)
	slices.Reverse(all)
	if err := s.spend(len(all)); err != nil {
		return nil, err
	}
	if _, ok := text(v); ok {
		return join(s, "", all)
	}
	if q, ok := v.(*sequence); ok && q.kind == iterator {
		return newList(all...), nil
	}
	return &sequence{kind: iterator, items: all}, nil
}

func listFilter(s scope, v any, a *args) (any, error) {
	if _, err := a.bind(0); err != nil {
		return nil, err
	}
	all, err := items(s, v)
	if err != nil {
		return nil, err
	}
	return newList(all...), s.spend(len(all))
}

func itemsFilter(s scope, v any, a *args) (any, error) {
	if _, err := a.bind(0); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case *undefined:
		return &sequence{kind: iterator}, nil
	case *dict:
		return &sequence{kind: iterator, items: v.pairs()}, s.spend(len(v.keys))
	}
	return nil, errors.New("can only get item pairs from a mapping")
}

func joinFilter(s scope, v any, a *args) (any, error) {
	b, err := a.bind(0, "d", "attribute")
	if err != nil {
		return nil, err
	}
	separator := ""
	if b[0] != (missing{}) {
		if separator, err = str(s, b[0]); err != nil {
			return nil, err
		}
	}
	all, err := items(s, v)
	if err != nil {
		return nil, err
	}
	if all, err = pick(s, all, b[1], nil); err != nil {
		return nil, err
	}
	return join(s, separator, all)
}

func replaceFilter(s scope, v any, a *args) (any, error) {
	b, err := a.bind(2, "old", "new", "count")
	if err != nil {
		return nil, err
	}
	n := -1
	if b[2] != nil {
		if n, err = or(b[2], -1); err != nil {
			return nil, err
		}
	}
	t, err1 := plainText(s, v)
	was, err2 := str(s, b[0])
	is, err3 := str(s, b[1])
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	return replaceText(s, t, was, is, n)
}

func trim(s scope, v any, a *args) (any, error) {
	t, err := plainText(s, v)
	if err != nil {
		return nil, err
	}
	return stringMethods["strip"](s, t, a)
}

func formatFilter(s scope, v any, a *args) (any, error) {
	t, err := plainText(s, v)
	if err != nil {
		return nil, err
	}
	if len(a.keywords.keys) > 0 {
		if len(a.positional) > 0 {
			return nil, errors.New("can't handle positional and keyword arguments at the same time")
		}
		return percent(s, t, &a.keywords)
	}
	return percent(s, t, newTuple(a.positional...))
}

func indent(s scope, v any, a *args) (any, error) {
	b, err := a.bind(0, "width", "first", "blank")
	if err != nil {
		return nil, err
	}
	t, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("of a %s: not supported", typeName(v))
	}
	indention, ok := text(b[0])
	if !ok {
		width, err := or(b[0], 4)
		if err != nil {
			return nil, err
		}
		if width > maxOutput {
			return nil, errTooLong
		}
		indention = strings.Repeat(" ", max(width, 0))
	}
	all := lines(t+"\n", false)
	if high := len(all) + 1; len(indention) > maxOutput/high {
		return nil, errTooLong
	}
	for i := 1; i < len(all); i++ {
		if all[i] != "" || flag(b[2], false) {
			all[i] = indention + all[i]
		}
	}
	out := strings.Join(all, "\n")
	if flag(b[1], false) {
		out = indention + out
	}
	return out, s.make(2 * len(out))
}

func truncate(s scope, v any, a *args) (any, error) {
	b, err := a.bind(0, "length", "killwords", "end", "leeway")
	if err != nil {
		return nil, err
	}
	t, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("of a %s: not supported", typeName(v))
	}
	size, err1 := or(b[0], 255)
	end, err2 := or(b[2], "...")
	if b[3] == nil {
		b[3] = missing{}
	}
	leeway, err3 := or(b[3], 5)
	if err := errors.Join(err1, err2, err3, s.make(len(t))); err != nil {
		return nil, err
	}
	keep := size - utf8.RuneCountInString(end)
	if keep < 0 || leeway < 0 {
		return nil, fmt.Errorf("expected length >= %d, got %d", utf8.RuneCountInString(end), size)
	}
	runes := []rune(t)
	if len(runes)-leeway <= size {
		return t, nil
	}
	cut := string(runes[:keep])
	if !flag(b[1], false) {
		if i := strings.LastIndexByte(cut, ' '); i >= 0 {
			cut = cut[:i]
		}
	}
	return cut + end, nil
}

func wordCount(s scope, v any, a *args) (any, error) {
	if _, err := a.bind(0); err != nil {
		return nil, err
	}
	t, err := str(s, v)
	return len(strings.FieldsFunc(t, func(r rune) bool {
		return r != '_' && !unicode.IsLetter(r) && !unicode.IsNumber(r)
	})), err
}

var decimal = regexp.MustCompile(`^[+-]?\d+(?:_\d+)*$`)

func intFilter(_ scope, v any, a *args) (any, error) {
	b, err := a.bind(0, "default", "base")
	if err != nil {
		return nil, err
	}
	if base, err := or(b[1], 10); err != nil || base != 10 {
		return nil, errors.New("another base than 10: not supported")
	}
	if b[0] == (missing{}) {
		b[0] = 0
	}
	if n, ok := asInt(v); ok {
		return n, nil
	}
	if err := isSet(v); err != nil {
		return nil, err
	}
	if t, ok := text(v); ok {
		if t = strings.TrimFunc(t, isSpace); decimal.MatchString(t) {
			n, err := strconv.Atoi(strings.ReplaceAll(t, "_", ""))
			if err != nil {
				return nil, errOverflow
			}
			return n, nil
		}
	}
	f, ok := parseFloat(v)
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		return b[0], nil
	}
	if math.Abs(f) >= 1<<63 {
		return nil, errOverflow
	}
	return int(f), nil
}

func floatFilter(_ scope, v any, a *args) (any, error) {
	b, err := a.bind(0, "default")
	if err != nil {
		return nil, err
	}
	if b[0] == (missing{}) {
		b[0] = 0.0
	}
	if err := isSet(v); err != nil {
		return nil, err
	}
	if f, ok := parseFloat(v); ok {
		return f, nil
	}
	return b[0], nil
}

var floating = regexp.MustCompile(`^(?i)[+-]?(?:inf|infinity|nan|(?:\d+(?:_\d+)*\.?|\.\d)(?:\d+(?:_\d+)*)?(?:e[+-]?\d+(?:_\d+)*)?)$`)

// parseFloat is Python's float().
func parseFloat(v any) (float64, bool) {
	if f, ok := asFloat(v); ok {
		return f, true
	}
	t, ok := text(v)
	t = strings.TrimFunc(t, isSpace)
	if !ok || !floating.MatchString(t) {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(t, "_", ""), 64)
	return f, err == nil || errors.Is(err, strconv.ErrRange)
}

func round(_ scope, v any, a *args) (any, error) {
	b, err := a.bind(0, "precision", "method")
	if err != nil {
		return nil, err
	}
	precision, err1 := or(b[0], 0)
	method, err2 := or(b[1], "common")
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	n, isInt := asInt(v)
	f, ok := asFloat(v)
	switch {
	case !ok:
		return nil, fmt.Errorf("of a %s: want a number", typeName(v))
	case precision < 0 || precision > 300:
		return nil, fmt.Errorf("precision %d: not supported, want 0 to 300", precision)
	case method == "common" && isInt:
		return n, nil
	case method == "common" && (math.IsNaN(f) || math.IsInf(f, 0)):
		return f, nil
	case method == "common":
		return strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64)
	case method != "ceil" && method != "floor":
		return nil, errors.New("method must be common, ceil or floor")
	}
	by := math.Pow(10, float64(precision))
	if method == "ceil" {
		return math.Ceil(f*by) / by, nil
	}
	return math.Floor(f*by) / by, nil
}

func toJSONFilter(s scope, v any, a *args) (any, error) {
	b, err := a.bind(0, "ensure_ascii", "indent", "separators", "sort_keys")
	if err != nil {
		return nil, err
	}
	w := jsonWriter{scope: s, ascii: flag(b[0], false), sort: flag(b[3], false), item: ", ", key: ": "}
	if b[1] != nil && b[1] != (missing{}) {
		w.item, w.pretty = ",", true
		if t, ok := text(b[1]); ok {
			w.indent = t
		} else if n, err := or(b[1], 0); err != nil || n > maxRange {
			return nil, errors.Join(err, fmt.Errorf("indent: want a number below %d or a str", maxRange))
		} else {
			w.indent = strings.Repeat(" ", max(n, 0))
		}
	}
	if b[2] != nil && b[2] != (missing{}) {
		q, ok := b[2].(*sequence)
		if !ok || len(q.items) != 2 {
			return nil, errors.New("separators: want two strings")
		}
		var err1, err2 error
		w.item, err1 = or(q.items[0], "")
		w.key, err2 = or(q.items[1], "")
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
	}
	if err := w.write(v, "\n"); err != nil {
		return nil, err
	}
	return w.String(), nil
}
