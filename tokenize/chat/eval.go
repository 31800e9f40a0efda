package chat

import (
	"errors"
	"fmt"
	"strings"
)

// expr is a node of an expression. Nodes are constant, and may be evaluated by
// several renderings at once.
type expr interface {
	eval(s scope) (any, error)
}

// eval evaluates e and counts it.
func (s scope) eval(e expr) (any, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	v, err := e.eval(s)
	s.leave()
	return v, err
}

func (s scope) evalAll(all []expr) ([]any, error) {
	values := make([]any, len(all))
	for i, e := range all {
		v, err := s.eval(e)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return values, nil
}

// holds evaluates e to a bool.
func (s scope) holds(e expr) (bool, error) {
	v, err := s.eval(e)
	if err != nil {
		return false, err
	}
	return truth(v), nil
}

type (
	constant  struct{ value any }
	name      struct{ name string }
	attribute struct {
		of   expr
		name string
	}
	subscript struct{ of, key expr }
	slice     struct{ bounds [3]expr } // start, stop, step; nil where left out
	call      struct {
		of expr
		arguments
	}
	filter struct {
		of   expr // nil in a filter block
		name string
		arguments
	}
	test struct {
		of   expr
		name string
		arguments
	}
	sign struct {
		negative bool
		of       expr
	}
	negation struct{ of expr }
	logical  struct {
		left, right expr
		or          bool
	}
	condition struct{ test, yes, no expr }
	binary    struct {
		op          string
		left, right expr
	}
	concatenation struct{ parts []expr }
	comparison    struct {
		first expr
		rest  []operand
	}
	operand struct {
		op    string
		right expr
	}
	display struct { // of a list or a tuple
		kind  kind
		items []expr
	}
	dictDisplay struct{ keys, values []expr }
)

// arguments are those of a call as they are written.
type arguments struct {
	positional     []expr
	keywords       []keyword
	star, starStar expr
}

type keyword struct {
	name  string
	value expr
}

func (e *constant) eval(scope) (any, error) { return e.value, nil }

func (e *name) eval(s scope) (any, error) {
	if v, ok := s.Environment.Context.Get(e.name); ok {
		return v, nil
	}
	if e.name == "self" {
		return nil, errors.New("self: not supported, a chat template has no blocks")
	}
	return &undefined{message: fmt.Sprintf("'%s' is undefined", e.name)}, nil
}

func (e *attribute) eval(s scope) (any, error) {
	of, err := s.eval(e.of)
	if err != nil {
		return nil, err
	}
	return getAttribute(of, e.name)
}

func (e *subscript) eval(s scope) (any, error) {
	of, err := s.eval(e.of)
	if err != nil {
		return nil, err
	}
	if cut, ok := e.key.(*slice); ok {
		return cut.of(s, of)
	}
	key, err := s.eval(e.key)
	if err != nil {
		return nil, err
	}
	return getItem(s, of, key)
}

// eval is reached where a slice stands inside a tuple of keys.
func (e *slice) eval(scope) (any, error) {
	return nil, errors.New("a slice among several keys: not supported")
}

func (e *sign) eval(s scope) (any, error) {
	v, err := s.eval(e.of)
	if err != nil {
		return nil, err
	}
	if err := isSet(v); err != nil {
		return nil, err
	}
	if n, ok := asInt(v); ok {
		if e.negative {
			n = -n
		}
		return n, nil
	}
	if f, ok := v.(float64); ok {
		if e.negative {
			f = -f
		}
		return f, nil
	}
	return nil, fmt.Errorf("bad operand type for unary sign: '%s'", typeName(v))
}

func (e *negation) eval(s scope) (any, error) {
	is, err := s.holds(e.of)
	return !is, err
}

func (e *logical) eval(s scope) (any, error) {
	left, err := s.eval(e.left)
	if err != nil {
		return nil, err
	}
	if truth(left) == e.or {
		return left, nil
	}
	return s.eval(e.right)
}

func (e *condition) eval(s scope) (any, error) {
	is, err := s.holds(e.test)
	switch {
	case err != nil:
		return nil, err
	case is:
		return s.eval(e.yes)
	case e.no != nil:
		return s.eval(e.no)
	}
	return &undefined{message: "the inline if-expression evaluated to false and no else section was defined."}, nil
}

func (e *concatenation) eval(s scope) (any, error) {
	values, err := s.evalAll(e.parts)
	if err != nil {
		return nil, err
	}
	return join(s, "", values)
}

// join is Python's separator.join(map(str, values)).
func join(s scope, separator string, values []any) (string, error) {
	parts := make([]string, len(values))
	size := 0
	for i, v := range values {
		var err error
		if parts[i], err = str(s, v); err != nil {
			return "", err
		}
		size += len(parts[i]) + len(separator)
		if size > maxOutput {
			return "", errTooLong
		}
	}
	return strings.Join(parts, separator), s.make(size)
}

func (e *comparison) eval(s scope) (any, error) {
	left, err := s.eval(e.first)
	if err != nil {
		return nil, err
	}
	for _, o := range e.rest {
		right, err := s.eval(o.right)
		if err != nil {
			return nil, err
		}
		if is, err := holds(s, left, o.op, right); err != nil || !is {
			return false, err
		}
		left = right
	}
	return true, nil
}

// holds says whether a comparison does.
func holds(s scope, left any, op string, right any) (bool, error) {
	switch op {
	case "==":
		return equal(s, left, right)
	case "!=":
		same, err := equal(s, left, right)
		return !same, err
	case "in":
		return contains(s, right, left)
	case "not in":
		is, err := contains(s, right, left)
		return !is, err
	}
	if nan(left) || nan(right) {
		return false, nil
	}
	order, err := compare(s, left, right, op)
	if err != nil {
		return false, err
	}
	switch op {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	}
	return order >= 0, nil
}

func nan(v any) bool {
	f, ok := v.(float64)
	return ok && f != f
}

func (e *display) eval(s scope) (any, error) {
	values, err := s.evalAll(e.items)
	return &sequence{kind: e.kind, items: values}, err
}

func (e *dictDisplay) eval(s scope) (any, error) {
	d := &dict{}
	for i := range e.keys {
		key, err := s.eval(e.keys[i])
		if err != nil {
			return nil, err
		}
		value, err := s.eval(e.values[i])
		if err != nil {
			return nil, err
		}
		if err := d.set(key, value); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (e *call) eval(s scope) (any, error) {
	of, err := s.eval(e.of)
	if err != nil {
		return nil, err
	}
	if err := isSet(of); err != nil {
		return nil, err
	}
	a, err := e.arguments.eval(s)
	if err != nil {
		return nil, err
	}
	f, ok := of.(*function)
	if !ok {
		return nil, fmt.Errorf("'%s' object is not callable", typeName(of))
	}
	a.of = f.name
	return f.call(s, a)
}

func (e *filter) eval(s scope) (any, error) {
	of, err := s.eval(e.of)
	if err != nil {
		return nil, err
	}
	return e.apply(s, of)
}

// apply filters a value that is there already.
func (e *filter) apply(s scope, of any) (any, error) {
	a, err := e.arguments.eval(s)
	if err != nil {
		return nil, err
	}
	return runFilter(s, e.name, of, a)
}

func runFilter(s scope, name string, of any, a *args) (any, error) {
	f, ok := filters[name]
	if !ok {
		return nil, fmt.Errorf("filter %s: unknown or not supported", name)
	}
	a.of = name
	v, err := f(s, of, a)
	if err != nil {
		return nil, fmt.Errorf("filter %s: %w", name, err)
	}
	return v, nil
}

func (e *test) eval(s scope) (any, error) {
	of, err := s.eval(e.of)
	if err != nil {
		return nil, err
	}
	a, err := e.arguments.eval(s)
	if err != nil {
		return nil, err
	}
	return runTest(s, e.name, of, a)
}

func runTest(s scope, name string, of any, a *args) (bool, error) {
	t, ok := tests[name]
	if !ok {
		return false, fmt.Errorf("test %s: unknown or not supported", name)
	}
	a.of = name
	is, err := t(s, of, a)
	if err != nil {
		return false, fmt.Errorf("test %s: %w", name, err)
	}
	return is, nil
}

// args are the arguments of a call.
type args struct {
	of         string // what is called, for errors
	positional []any
	keywords   dict
}

func (e *arguments) eval(s scope) (*args, error) {
	a := &args{}
	var err error
	if a.positional, err = s.evalAll(e.positional); err != nil {
		return nil, err
	}
	for _, k := range e.keywords {
		v, err := s.eval(k.value)
		if err != nil {
			return nil, err
		}
		if err := a.keywords.set(k.name, v); err != nil {
			return nil, err
		}
	}
	if e.star != nil {
		v, err := s.eval(e.star)
		if err != nil {
			return nil, err
		}
		more, err := items(s, v)
		if err != nil {
			return nil, err
		}
		if err := s.spend(len(more)); err != nil {
			return nil, err
		}
		a.positional = append(a.positional, more...)
	}
	if e.starStar != nil {
		return a, e.spread(s, a)
	}
	return a, nil
}

func (e *arguments) spread(s scope, a *args) error {
	v, err := s.eval(e.starStar)
	if err != nil {
		return err
	}
	d, ok := v.(*dict)
	if !ok {
		return fmt.Errorf("argument after ** must be a mapping, not %s", typeName(v))
	}
	for i, key := range d.keys {
		k, ok := text(key)
		if _, twice := a.keywords.get(k); !ok || twice {
			return fmt.Errorf("argument after **: bad or repeated keyword %v", key)
		}
		if err := a.keywords.set(k, d.values[i]); err != nil {
			return err
		}
	}
	return nil
}

// missing is an argument that is not given.
type missing struct{}

// bind sorts the arguments by the names of the parameters, as Python does. The
// first required ones must be there, what is not given is missing{}.
func (a *args) bind(required int, names ...string) ([]any, error) {
	if len(a.positional) > len(names) {
		return nil, fmt.Errorf("%s takes %d arguments but %d were given", a.of, len(names), len(a.positional))
	}
	values := make([]any, len(names))
	for i := range values {
		values[i] = missing{}
	}
	copy(values, a.positional)
keywords:
	for i, key := range a.keywords.keys {
		for j, n := range names {
			if n != key {
				continue
			}
			if values[j] != (missing{}) {
				return nil, fmt.Errorf("%s got multiple values for argument '%s'", a.of, n)
			}
			values[j] = a.keywords.values[i]
			continue keywords
		}
		return nil, fmt.Errorf("%s got an unexpected keyword argument '%s'", a.of, key)
	}
	for i := range required {
		if values[i] == (missing{}) {
			return nil, fmt.Errorf("%s missing required argument '%s'", a.of, names[i])
		}
	}
	return values, nil
}

// or returns v, or the default where v is missing.
func or[T any](v any, byDefault T) (T, error) {
	if v == (missing{}) {
		return byDefault, nil
	}
	if t, ok := v.(T); ok {
		return t, nil
	}
	if _, ok := any(byDefault).(int); ok {
		if n, ok := asInt(v); ok {
			return any(n).(T), nil
		}
	}
	if m, ok := v.(markup); ok {
		if t, ok := any(string(m)).(T); ok {
			return t, nil
		}
	}
	if err := isSet(v); err != nil {
		return byDefault, err
	}
	return byDefault, fmt.Errorf("want a %s as argument, got a %s", typeName(any(byDefault)), typeName(v))
}

// flag returns the truth of v, or the default where v is missing.
func flag(v any, byDefault bool) bool {
	if v == (missing{}) {
		return byDefault
	}
	return truth(v)
}
