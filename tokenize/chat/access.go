package chat

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// getAttribute is of.name: an attribute before an item, as the sandbox's getattr.
func getAttribute(of any, name string) (any, error) {
	if err := isSet(of); err != nil {
		return nil, err
	}
	if v, ok := memberOf(of, name); ok {
		return v, nil
	}
	if d, ok := of.(*dict); ok {
		if v, ok := d.get(name); ok {
			return v, nil
		}
	}
	return noMember(of, name), nil
}

// getItem is of[key]: an item before an attribute.
func getItem(s scope, of, key any) (any, error) {
	if err := isSet(of); err != nil {
		return nil, err
	}
	switch of := of.(type) {
	case *dict:
		if v, ok := of.get(key); ok {
			return v, nil
		}
	case *sequence:
		if n, ok := asInt(key); ok && of.kind <= rangeObject {
			if n < 0 {
				n += len(of.items)
			}
			if n >= 0 && n < len(of.items) {
				return of.items[n], nil
			}
		}
	case string, markup:
		if n, ok := asInt(key); ok {
			whole, _ := text(of)
			if r, ok := runeAt(whole, n); ok {
				return r, s.read(len(whole))
			}
		}
	}
	if name, ok := text(key); ok {
		if v, ok := memberOf(of, name); ok {
			return v, nil
		}
		return noMember(of, name), nil
	}
	var b strings.Builder
	if err := repr(s, &b, key); err != nil {
		return nil, err
	}
	return &undefined{message: fmt.Sprintf("%s has no element %s", objectName(of), b.String())}, nil
}

func objectName(of any) string {
	if of == nil {
		return "None"
	}
	return typeName(of) + " object"
}

func noMember(of any, name string) *undefined { return &undefined{of: of, name: name} }

// runeAt returns the code point at n, which counts from the end where negative.
func runeAt(text string, n int) (string, bool) {
	if n < 0 {
		runes := []rune(text)
		if n += len(runes); n < 0 {
			return "", false
		}
		return string(runes[n]), true
	}
	for _, r := range text {
		if n == 0 {
			return string(r), true
		}
		n--
	}
	return "", false
}

// hidden are methods that change their object.
var hidden = map[string]string{
	"list": " append clear extend insert pop remove reverse sort ",
	"dict": " clear pop popitem setdefault update ",
}

// memberOf returns a Python attribute of a value: a method, a function's name.
func memberOf(of any, name string) (any, bool) {
	kind := typeName(of)
	if strings.HasPrefix(name, "__") && strings.HasSuffix(name, "__") || strings.Contains(hidden[kind], " "+name+" ") {
		return &undefined{
			message: fmt.Sprintf("access to attribute '%s' of '%s' object is unsafe.", name, kind),
		}, true
	}
	var methods string
	switch of := of.(type) {
	case *namespace:
		return of.get(name)
	case *function:
		if of.extra != nil {
			return of.extra(name)
		}
	case string, markup:
		if m, ok := stringMethods[name]; ok {
			return &function{name: name, call: func(s scope, a *args) (any, error) {
				if _, ok := of.(markup); ok {
					return nil, fmt.Errorf("%s of a Markup: not supported", name)
				}
				if len(a.keywords.keys) > 0 && !keywordMethods[name] {
					return nil, fmt.Errorf("str.%s() takes no keyword arguments", name)
				}
				whole, _ := text(of)
				if err := s.read(len(whole)); err != nil {
					return nil, err
				}
				return m(s, whole, a)
			}}, true
		}
		methods = " encode expandtabs format_map maketrans translate "
	case *dict:
		if m, ok := dictMethods[name]; ok {
			return &function{name: name, call: func(s scope, a *args) (any, error) {
				if len(a.keywords.keys) > 0 {
					return nil, fmt.Errorf("dict.%s() takes no keyword arguments", name)
				}
				return m(s, of, a)
			}}, true
		}
		methods = " fromkeys "
	case *sequence:
		if of.kind <= rangeObject && (name == "index" || name == "count") {
			return of.method(name), true
		}
		switch of.kind {
		case list:
			methods = " copy "
		case rangeObject:
			methods = " start stop step "
		case view:
			methods = " mapping isdisjoint "
		case iterator:
			methods = " send throw close gi_frame gi_running gi_code gi_yieldfrom "
		}
	case int, float64, bool:
		methods = " real imag numerator denominator conjugate bit_length bit_count to_bytes from_bytes as_integer_ratio is_integer hex fromhex "
	}
	if !strings.Contains(methods, " "+name+" ") {
		return nil, false
	}
	return &function{name: name, call: func(scope, *args) (any, error) {
		return nil, fmt.Errorf("%s of a %s: not supported", name, kind)
	}}, true
}

func (q *sequence) method(name string) *function {
	return &function{name: name, call: func(s scope, a *args) (any, error) {
		v, err := a.bind(1, "value")
		if err != nil {
			return nil, err
		}
		n := 0
		for i, item := range q.items {
			same, err := equal(s, item, v[0])
			if err != nil {
				return nil, err
			}
			if same && name == "index" {
				return i, nil
			}
			if same {
				n++
			}
		}
		if name == "index" {
			return nil, errors.New("index: the value is not in the list")
		}
		return n, nil
	}}
}

var dictMethods = map[string]func(s scope, d *dict, a *args) (any, error){
	"keys": func(_ scope, d *dict, a *args) (any, error) {
		_, err := a.bind(0)
		return &sequence{kind: view, items: d.keys}, err
	},
	"values": func(_ scope, d *dict, a *args) (any, error) {
		_, err := a.bind(0)
		return &sequence{kind: view, items: d.values}, err
	},
	"items": func(s scope, d *dict, a *args) (any, error) {
		_, err := a.bind(0)
		if err == nil {
			err = s.spend(len(d.keys))
		}
		return &sequence{kind: view, items: d.pairs()}, err
	},
	"get": func(_ scope, d *dict, a *args) (any, error) {
		v, err := a.bind(1, "key", "default")
		if err != nil {
			return nil, err
		}
		if _, err := hashed(v[0]); err != nil {
			return nil, err
		}
		if found, ok := d.get(v[0]); ok {
			return found, nil
		}
		if v[1] == (missing{}) {
			return nil, nil
		}
		return v[1], nil
	},
	"copy": func(_ scope, d *dict, a *args) (any, error) {
		_, err := a.bind(0)
		return d, err // nothing changes it
	},
}

func (d *dict) pairs() []any {
	pairs := make([]any, len(d.keys))
	for i := range d.keys {
		pairs[i] = newTuple(d.keys[i], d.values[i])
	}
	return pairs
}

// of cuts a value.
func (e *slice) of(s scope, of any) (any, error) {
	if err := isSet(of); err != nil {
		return nil, err
	}
	var bounds [3]any
	for i, b := range e.bounds {
		if b == nil {
			continue
		}
		var err error
		if bounds[i], err = s.eval(b); err != nil {
			return nil, err
		}
	}
	seq, isSequence := of.(*sequence)
	whole, isText := text(of)
	if !isText && (!isSequence || seq.kind > rangeObject) {
		return nil, fmt.Errorf("'%s' object is not subscriptable by a slice", typeName(of))
	}
	step, err := bound(bounds[2], 1)
	if err != nil {
		return nil, err
	}
	if step == 0 {
		return nil, errors.New("slice step cannot be zero")
	}
	step = max(-maxRead, min(maxRead, step)) // no more than any length, so that no sum overflows
	if isText {
		return sliceText(s, whole, bounds, step)
	}
	start, stop, err := span(len(seq.items), bounds, step)
	if err != nil {
		return nil, err
	}
	out := &sequence{kind: seq.kind, items: []any{}}
	for i := start; before(i, stop, step); i += step {
		out.items = append(out.items, seq.items[i])
	}
	return out, s.spend(len(out.items))
}

func sliceText(s scope, whole string, bounds [3]any, step int) (any, error) {
	if err := s.make(len(whole)); err != nil {
		return nil, err
	}
	start, stop, err := span(utf8.RuneCountInString(whole), bounds, step)
	if err != nil {
		return nil, err
	}
	if step == 1 {
		return whole[offset(whole, start):offset(whole, max(start, stop))], nil
	}
	var out []rune
	runes := []rune(whole)
	for i := start; before(i, stop, step); i += step {
		out = append(out, runes[i])
	}
	return string(out), nil
}

// offset is where code point n begins.
func offset(text string, n int) int {
	for i := range text {
		if n == 0 {
			return i
		}
		n--
	}
	return len(text)
}

// before says that a slice has not come to its end.
func before(i, stop, step int) bool { return step > 0 && i < stop || step < 0 && i > stop }

// bound reads an index of a slice; None is the default.
func bound(v any, byDefault int) (int, error) {
	if v == nil {
		return byDefault, nil
	}
	n, ok := asInt(v)
	if !ok {
		return 0, errors.New("slice indices must be integers or None")
	}
	return n, nil
}

// span says where a slice of n values starts and stops, as Python's
// slice.indices.
func span(n int, bounds [3]any, step int) (start, stop int, err error) {
	low, high := 0, n
	if step < 0 {
		low, high = -1, n-1
	}
	place := func(v any, byDefault int) (int, error) {
		i, err := bound(v, byDefault)
		if v == nil || err != nil {
			return i, err
		}
		if i < 0 {
			i += n
		}
		return max(low, min(high, i)), nil
	}
	start, stop = low, high
	if step < 0 {
		start, stop = high, low
	}
	start, err1 := place(bounds[0], start)
	stop, err2 := place(bounds[1], stop)
	return start, stop, errors.Join(err1, err2)
}
