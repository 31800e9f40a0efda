package chat

import (
	"errors"
	"fmt"
)

// globals are the functions that every template finds.
var globals = map[string]any{
	"range":           &function{name: "range", call: rangeFunction},
	"dict":            &function{name: "dict", call: func(s scope, a *args) (any, error) { return dictOf(s, a) }},
	"namespace":       &function{name: "namespace", call: namespaceFunction},
	"joiner":          &function{name: "joiner", call: joiner},
	"cycler":          unsupported("cycler"),
	"lipsum":          unsupported("lipsum"),
	"raise_exception": &function{name: "raise_exception", call: raise},
	"strftime_now":    &function{name: "strftime_now", call: strftimeNow},
}

func unsupported(name string) *function {
	return &function{name: name, call: func(scope, *args) (any, error) {
		return nil, fmt.Errorf("%s: not supported", name)
	}}
}

func rangeFunction(s scope, a *args) (any, error) {
	b, err := a.bind(1, "start", "stop", "step")
	if err != nil {
		return nil, err
	}
	n := [3]int{0, 0, 1}
	for i, v := range b {
		if v == (missing{}) {
			continue
		}
		if err := isSet(v); err != nil {
			return nil, err
		}
		var ok bool
		if n[i], ok = asInt(v); !ok {
			return nil, fmt.Errorf("'%s' object cannot be interpreted as an integer", typeName(v))
		}
	}
	start, stop, step := n[0], n[1], n[2]
	if b[1] == (missing{}) {
		start, stop = 0, n[0]
	}
	if step == 0 {
		return nil, errors.New("range() arg 3 must not be zero")
	}
	q := &sequence{kind: rangeObject}
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(q.items) == maxRange {
			return nil, fmt.Errorf("range too big: more than %d values", maxRange)
		}
		q.items = append(q.items, i)
		if next := i + step; (next > i) != (step > 0) {
			break // past the last integer
		}
	}
	return q, s.spend(len(q.items))
}

// dictOf is Python's dict(): of a mapping or of pairs, and of keywords.
func dictOf(s scope, a *args) (*dict, error) {
	if len(a.positional) > 1 {
		return nil, fmt.Errorf("%s expected at most 1 argument, got %d", a.of, len(a.positional))
	}
	d := &dict{}
	set := func(from *dict) error {
		for i, key := range from.keys {
			if err := d.set(key, from.values[i]); err != nil {
				return err
			}
		}
		return s.spend(len(from.keys))
	}
	for _, v := range a.positional {
		from, ok := v.(*dict)
		if !ok {
			pairs, err := items(s, v)
			if err != nil {
				return nil, err
			}
			if from, err = dictOfPairs(s, pairs); err != nil {
				return nil, err
			}
		}
		if err := set(from); err != nil {
			return nil, err
		}
	}
	return d, set(&a.keywords)
}

func dictOfPairs(s scope, pairs []any) (*dict, error) {
	d := &dict{}
	for _, p := range pairs {
		pair, err := items(s, p)
		if err != nil {
			return nil, err
		}
		if len(pair) != 2 {
			return nil, fmt.Errorf("dictionary update sequence element has length %d; 2 is required", len(pair))
		}
		if err := d.set(pair[0], pair[1]); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func namespaceFunction(s scope, a *args) (any, error) {
	d, err := dictOf(s, a)
	if err != nil {
		return nil, err
	}
	return &namespace{*d}, nil
}

// joiner returns a function that returns nothing when it is called first, and
// then the separator.
func joiner(_ scope, a *args) (any, error) {
	b, err := a.bind(0, "sep")
	if err != nil {
		return nil, err
	}
	if b[0] == (missing{}) {
		b[0] = ", "
	}
	used := false
	return &function{name: "joiner", call: func(_ scope, a *args) (any, error) {
		if _, err := a.bind(0); err != nil || !used {
			used = true
			return "", err
		}
		return b[0], nil
	}}, nil
}

func raise(s scope, a *args) (any, error) {
	b, err := a.bind(1, "message")
	if err != nil {
		return nil, err
	}
	t, err := str(s, b[0])
	if err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("the template refuses: %s", t)
}
