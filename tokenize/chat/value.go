package chat

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The values of a template are Python's: nil (None), bool, int, float64, string,
// and the types of this file. All but namespace are constant once made: the
// sandbox that transformers renders in has no list or dict changed.

// markup is a string that the filters safe and escape have made: what is added to
// it is escaped for HTML.
type markup string

// sequence is every iterable but dict and string.
type sequence struct {
	kind  kind
	items []any
	spent bool // of an iterator: read once already
}

type kind int

const (
	list kind = iota
	tuple
	rangeObject
	view     // of a dict: keys(), values(), items()
	iterator // what Python makes of a generator: it can be read once
)

func newList(items ...any) *sequence  { return &sequence{kind: list, items: items} }
func newTuple(items ...any) *sequence { return &sequence{kind: tuple, items: items} }

// dict is an ordered dict. Keys that Python holds to be equal (1, 1.0, true) are
// one key, and the first spelling stays.
type dict struct {
	keys   []any
	values []any
	index  map[any]int
}

// none stands for None in an index.
type none struct{}

// hashed is the form of key in an index.
func hashed(key any) (any, error) {
	switch k := key.(type) {
	case nil:
		return none{}, nil
	case bool:
		if k {
			return 1, nil
		}
		return 0, nil
	case int, string, *function, *namespace:
		return k, nil
	case markup:
		return string(k), nil
	case *undefined:
		return undefined{}, nil // all are equal
	case float64:
		if k == math.Trunc(k) && math.Abs(k) < 1<<62 {
			return int(k), nil
		}
		return k, nil
	case *sequence:
		if k.kind == tuple {
			return nil, fmt.Errorf("a tuple as a key: not supported")
		}
	}
	return nil, fmt.Errorf("unhashable type: '%s'", typeName(key))
}

func (d *dict) set(key, value any) error {
	h, err := hashed(key)
	if err != nil {
		return err
	}
	if i, ok := d.index[h]; ok {
		d.values[i] = value
		return nil
	}
	if d.index == nil {
		d.index = map[any]int{}
	}
	d.index[h] = len(d.keys)
	d.keys = append(d.keys, key)
	d.values = append(d.values, value)
	return nil
}

func (d *dict) get(key any) (any, bool) {
	if h, err := hashed(key); err == nil {
		if i, ok := d.index[h]; ok {
			return d.values[i], true
		}
	}
	return nil, false
}

// namespace is what a template may assign to, across scopes.
type namespace struct{ dict }

// undefined is a name or member that is not there: empty text, false, an empty
// list, and an error with this message in any other use.
type undefined struct {
	message string
	// of and name stand in place of a message, which few of them need.
	of   any
	name string
}

func (u *undefined) err() error {
	if u.message != "" {
		return errors.New(u.message)
	}
	var b strings.Builder
	quote(&b, objectName(u.of))
	b.WriteString(" has no attribute ")
	quote(&b, u.name)
	return errors.New(b.String())
}

// function is what can be called.
type function struct {
	name string
	call func(s scope, a *args) (any, error)
	// extra are the attributes of a macro and of loop.
	extra func(name string) (any, bool)
}

func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case markup:
		return "Markup"
	case *sequence:
		return [...]string{"list", "tuple", "range", "dict_view", "generator"}[v.kind]
	case *dict:
		return "dict"
	case *namespace:
		return "Namespace"
	case *undefined:
		return "Undefined"
	}
	return "function"
}

// isSet tells a value from an undefined one, with the error of its use.
func isSet(v any) error {
	if u, ok := v.(*undefined); ok {
		return u.err()
	}
	return nil
}

// text returns a str or a Markup.
func text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case markup:
		return string(v), true
	}
	return "", false
}

// truth is Python's bool().
func truth(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case markup:
		return v != ""
	case *sequence:
		return v.kind == iterator || len(v.items) > 0
	case *dict:
		return len(v.keys) > 0
	case *undefined:
		return false
	}
	return true
}

// length is Python's len().
func length(v any) (int, error) {
	switch v := v.(type) {
	case string:
		return utf8.RuneCountInString(v), nil
	case markup:
		return utf8.RuneCountInString(string(v)), nil
	case *sequence:
		if v.kind != iterator {
			return len(v.items), nil
		}
	case *dict:
		return len(v.keys), nil
	case *undefined:
		return 0, nil
	}
	return 0, fmt.Errorf("object of type '%s' has no len()", typeName(v))
}

// items is Python's list(iter(v)).
func items(s scope, v any) ([]any, error) {
	switch v := v.(type) {
	case string:
		if err := s.spend(len(v)); err != nil {
			return nil, err
		}
		var out []any
		for _, r := range v {
			out = append(out, string(r))
		}
		return out, nil
	case markup:
		return items(s, string(v))
	case *sequence:
		if v.kind != iterator {
			return v.items, nil
		}
		if v.spent {
			return nil, nil
		}
		v.spent = true
		return v.items, nil
	case *dict:
		return v.keys, nil
	case *undefined:
		return nil, nil
	}
	return nil, fmt.Errorf("'%s' object is not iterable", typeName(v))
}

// str is Python's str().
func str(s scope, v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case markup:
		return string(v), nil
	case *undefined:
		return "", nil
	}
	var b strings.Builder
	err := repr(s, &b, v)
	return b.String(), err
}

// repr writes Python's repr().
func repr(s scope, b *strings.Builder, v any) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if b.Len() > maxOutput {
		return errTooLong
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case int:
		b.WriteString(strconv.Itoa(v))
	case float64:
		b.WriteString(floatText(v))
	case string:
		quote(b, v)
		return s.make(len(v))
	case *sequence:
		if v.kind == list {
			return reprItems(s, b, "[", v.items, "]")
		}
		if v.kind == tuple && len(v.items) == 1 {
			return reprItems(s, b, "(", v.items, ",)")
		}
		if v.kind == tuple {
			return reprItems(s, b, "(", v.items, ")")
		}
		return fmt.Errorf("the text of a %s: not supported; make it a list", typeName(v))
	case *dict:
		return reprDict(s, b, v)
	case *undefined:
		b.WriteString("Undefined")
	default:
		return fmt.Errorf("the text of a %s: not supported", typeName(v))
	}
	return nil
}

func reprItems(s scope, b *strings.Builder, open string, items []any, end string) error {
	b.WriteString(open)
	for i, item := range items {
		if i > 0 {
			b.WriteString(", ")
		}
		if err := repr(s, b, item); err != nil {
			return err
		}
	}
	b.WriteString(end)
	return nil
}

func reprDict(s scope, b *strings.Builder, d *dict) error {
	b.WriteByte('{')
	for i, key := range d.keys {
		if i > 0 {
			b.WriteString(", ")
		}
		if err := repr(s, b, key); err != nil {
			return err
		}
		b.WriteString(": ")
		if err := repr(s, b, d.values[i]); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// quote writes a str as Python does: in double quotes only where that saves
// escapes.
func quote(b *strings.Builder, text string) {
	q := '\''
	if strings.Contains(text, "'") && !strings.Contains(text, `"`) {
		q = '"'
	}
	b.WriteRune(q)
	for _, r := range text {
		switch {
		case r == q || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			fmt.Fprintf(b, `\U%08x`, r)
		}
	}
	b.WriteRune(q)
}

// floatText is Python's repr of a float: the shortest digits that read back, with
// an exponent below 1e-4 and from 1e16.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if size := math.Abs(f); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// asFloat reads a number; a bool is one.
func asFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// asInt reads an int; a bool is one.
func asInt(v any) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// equal is Python's ==.
func equal(s scope, a, b any) (bool, error) {
	if err := s.enter(); err != nil {
		return false, err
	}
	defer s.leave()
	if x, ok := text(a); ok {
		y, ok := text(b)
		return ok && x == y, s.read(len(x))
	}
	if x, ok := asInt(a); ok {
		if y, ok := asInt(b); ok {
			return x == y, nil
		}
	}
	if x, ok := asFloat(a); ok {
		y, ok := asFloat(b)
		return ok && x == y, nil
	}
	switch x := a.(type) {
	case *undefined:
		_, ok := b.(*undefined)
		return ok, nil
	case *sequence:
		y, ok := b.(*sequence)
		if !ok || x.kind != y.kind || x.kind >= view {
			return ok && x == y, nil
		}
		return equalItems(s, x.items, y.items)
	case *dict:
		y, ok := b.(*dict)
		if !ok || len(x.keys) != len(y.keys) {
			return false, nil
		}
		for i, key := range x.keys {
			other, ok := y.get(key)
			if !ok {
				return false, nil
			}
			if same, err := equal(s, x.values[i], other); err != nil || !same {
				return false, err
			}
		}
		return true, nil
	}
	return a == b, nil
}

func equalItems(s scope, a, b []any) (bool, error) {
	if len(a) != len(b) {
		return false, nil
	}
	for i := range a {
		if same, err := equal(s, a[i], b[i]); err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// compare is negative, zero or positive as Python's < and > order a and b.
func compare(s scope, a, b any, op string) (int, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	if err := isSet(a); err != nil {
		return 0, err
	}
	if err := isSet(b); err != nil {
		return 0, err
	}
	if x, ok := asInt(a); ok {
		if y, ok := asInt(b); ok {
			return compareOrdered(x, y), nil
		}
	}
	if x, ok := asFloat(a); ok {
		if y, ok := asFloat(b); ok {
			return compareOrdered(x, y), nil
		}
	}
	if x, ok := text(a); ok {
		if y, ok := text(b); ok {
			// UTF-8 sorts as its code points do.
			return strings.Compare(x, y), s.read(len(x))
		}
	}
	x, ok1 := a.(*sequence)
	y, ok2 := b.(*sequence)
	if ok1 && ok2 && x.kind == y.kind && x.kind <= tuple {
		for i := range min(len(x.items), len(y.items)) {
			same, err := equal(s, x.items[i], y.items[i])
			if err != nil {
				return 0, err
			}
			if !same {
				return compare(s, x.items[i], y.items[i], op)
			}
		}
		return len(x.items) - len(y.items), nil
	}
	return 0, fmt.Errorf("'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
}

func compareOrdered[T int | float64](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// contains is Python's "in".
func contains(s scope, in, v any) (bool, error) {
	if whole, ok := text(in); ok {
		part, ok := text(v)
		if !ok {
			if err := isSet(v); err != nil {
				return false, err
			}
			return false, fmt.Errorf("'in <string>' requires string as left operand, not %s", typeName(v))
		}
		return strings.Contains(whole, part), s.read(len(whole))
	}
	if d, ok := in.(*dict); ok {
		if _, err := hashed(v); err != nil {
			return false, err
		}
		_, ok := d.get(v)
		return ok, nil
	}
	if seq, ok := in.(*sequence); !ok || seq.kind != iterator {
		if _, ok := in.(*undefined); !ok && seq == nil {
			return false, fmt.Errorf("argument of type '%s' is not iterable", typeName(in))
		}
	}
	all, err := items(s, in)
	if err != nil {
		return false, err
	}
	for _, item := range all {
		if same, err := equal(s, item, v); err != nil || same {
			return same, err
		}
	}
	return false, nil
}
