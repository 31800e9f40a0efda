package chat

import (
	"fmt"
)

// tests are Jinja2's own.
var tests map[string]func(s scope, v any, a *args) (bool, error)

func init() { // one test knows them all
	tests = map[string]func(s scope, v any, a *args) (bool, error){
		"boolean":   kindOf(func(v any) bool { _, ok := v.(bool); return ok }),
		"callable":  kindOf(isCallable),
		"defined":   kindOf(func(v any) bool { return isSet(v) == nil }),
		"escaped":   kindOf(func(v any) bool { _, ok := v.(markup); return ok }),
		"false":     kindOf(func(v any) bool { return v == false }),
		"float":     kindOf(func(v any) bool { _, ok := v.(float64); return ok }),
		"integer":   kindOf(func(v any) bool { _, ok := v.(int); return ok }),
		"iterable":  kindOf(isIterable),
		"mapping":   kindOf(func(v any) bool { _, ok := v.(*dict); return ok }),
		"none":      kindOf(func(v any) bool { return v == nil }),
		"number":    kindOf(func(v any) bool { _, ok := asFloat(v); return ok }),
		"sequence":  kindOf(isSequence),
		"string":    kindOf(func(v any) bool { _, ok := text(v); return ok }),
		"true":      kindOf(func(v any) bool { return v == true }),
		"undefined": kindOf(func(v any) bool { return isSet(v) != nil }),

		"lower": textTest(isLower),
		"upper": textTest(isUpper),

		"divisibleby": func(s scope, v any, a *args) (bool, error) {
			b, err := a.bind(1, "num")
			if err != nil {
				return false, err
			}
			return remainder(s, v, b[0], 0)
		},
		"even": func(s scope, v any, a *args) (bool, error) {
			_, err := a.bind(0)
			if err != nil {
				return false, err
			}
			return remainder(s, v, 2, 0)
		},
		"odd": func(s scope, v any, a *args) (bool, error) {
			_, err := a.bind(0)
			if err != nil {
				return false, err
			}
			return remainder(s, v, 2, 1)
		},
		"sameas": func(_ scope, v any, a *args) (bool, error) {
			b, err := a.bind(1, "other")
			if err != nil {
				return false, err
			}
			return same(v, b[0])
		},
		"filter": func(_ scope, v any, a *args) (bool, error) {
			_, err := a.bind(0)
			if err == nil {
				_, err = hashed(v)
			}
			name, _ := text(v)
			_, ok := filters[name]
			return ok, err
		},
		"test": func(_ scope, v any, a *args) (bool, error) {
			_, err := a.bind(0)
			if err == nil {
				_, err = hashed(v)
			}
			name, _ := text(v)
			_, ok := tests[name]
			return ok, err
		},
	}
	for op, names := range map[string][]string{
		"==": {"==", "eq", "equalto"}, "!=": {"!=", "ne"}, "<": {"<", "lt", "lessthan"}, "<=": {"<=", "le"},
		">": {">", "gt", "greaterthan"}, ">=": {">=", "ge"}, "in": {"in"},
	} {
		for _, name := range names {
			tests[name] = func(s scope, v any, a *args) (bool, error) {
				b, err := a.bind(1, "other")
				if err != nil {
					return false, err
				}
				return holds(s, v, op, b[0])
			}
		}
	}
}

func kindOf(f func(any) bool) func(scope, any, *args) (bool, error) {
	return func(_ scope, v any, a *args) (bool, error) {
		_, err := a.bind(0)
		return f(v), err
	}
}

func textTest(f func(string) bool) func(scope, any, *args) (bool, error) {
	return func(s scope, v any, a *args) (bool, error) {
		if _, err := a.bind(0); err != nil {
			return false, err
		}
		t, err := str(s, v)
		return f(t), err
	}
}

func isCallable(v any) bool {
	switch v.(type) {
	case *function, *undefined: // Undefined can be called, to fail
		return true
	}
	return false
}

func isIterable(v any) bool {
	switch v.(type) {
	case string, markup, *sequence, *dict, *undefined:
		return true
	}
	return false
}

// isSequence: what has a length and can be indexed.
func isSequence(v any) bool {
	q, ok := v.(*sequence)
	if ok {
		return q.kind <= rangeObject
	}
	return isIterable(v)
}

func remainder(s scope, v, by any, want int) (bool, error) {
	m, err := calculate(s, "%", v, by)
	if err != nil {
		return false, err
	}
	return equal(s, m, want)
}

// same is Python's "is", for the values of which there is only one.
func same(a, b any) (bool, error) {
	switch a.(type) {
	case nil, bool:
		return a == b, nil
	case *sequence, *dict, *namespace, *function, *undefined:
		return a == b, nil
	}
	if typeName(a) != typeName(b) {
		return false, nil
	}
	return false, fmt.Errorf("of a %s: not supported", typeName(a))
}
