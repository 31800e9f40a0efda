package chat

import (
	"errors"
	"fmt"

	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
)

// errBreak and errContinue travel from the tag to its loop.
var (
	errBreak    = errors.New("break outside a loop")
	errContinue = errors.New("continue outside a loop")
)

type loopControl struct {
	block
	err error
}

func readLoopControl(control error) readStatement {
	return func(b *block, _ *parser.Parser, e *expressions) (nodes.ControlStructure, error) {
		return &loopControl{*b, control}, e.end()
	}
}

func (c *loopControl) Execute(*exec.Renderer, *nodes.ControlStructureBlock) error {
	return atLine(c.at.Line, c.err)
}

type forStatement struct {
	block
	target     *target
	over, test expr // test may be nil
	recursive  bool
	body       *nodes.Wrapper
	otherwise  *nodes.Wrapper // may be nil
}

func readFor(b *block, p *parser.Parser, e *expressions) (nodes.ControlStructure, error) {
	f := &forStatement{block: *b}
	var err error
	if f.target, err = readTarget(e, "in"); err != nil {
		return nil, err
	}
	if e.MatchName("in") == nil {
		return nil, e.unexpected()
	}
	if f.over, err = e.tuple(false, false, "recursive"); err != nil {
		return nil, err
	}
	if e.MatchName("if") != nil {
		if f.test, err = e.expression(); err != nil {
			return nil, err
		}
	}
	f.recursive = e.MatchName("recursive") != nil
	if err := e.end(); err != nil {
		return nil, err
	}
	if f.body, e, err = b.body(p, "endfor", "else"); err != nil {
		return nil, err
	}
	if err := e.end(); err != nil {
		return nil, err
	}
	if f.body.EndTag == "else" {
		f.otherwise, err = b.only(p, "endfor")
	}
	return f, err
}

func (f *forStatement) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	v, err := scopeOf(r).eval(f.over)
	if err != nil {
		return atLine(f.at.Line, err)
	}
	return f.render(r, v, 0)
}

// render runs the loop over v. Every round has a scope of its own.
func (f *forStatement) render(r *exec.Renderer, v any, depth int) error {
	all, err := f.filtered(r, v)
	if err != nil {
		return atLine(f.at.Line, err)
	}
	ended, err := f.rounds(r, all, depth)
	if err == nil && !ended && f.otherwise != nil {
		return nodes.Walk(r.Inherit(), f.otherwise)
	}
	return err
}

// rounds renders the body for every item. ended says that one round came to its
// end: Jinja2 takes the else not only for an empty list, but also where every
// round left by break or continue.
func (f *forStatement) rounds(r *exec.Renderer, all []any, depth int) (ended bool, err error) {
	l := &loop{items: all, depth: depth}
	variable := &function{name: "loop", extra: l.attribute, call: f.again(r, l)}
	for i, item := range all {
		l.at = i
		s := scopeOf(r.Inherit())
		s.Environment.Context.Set("loop", variable)
		if err := errors.Join(s.enter(), s.spend(roundCost)); err != nil {
			return ended, atLine(f.at.Line, err)
		}
		if err := f.target.assign(s, item); err != nil {
			return ended, atLine(f.at.Line, err)
		}
		err := nodes.Walk(s.Renderer, f.body)
		s.leave()
		switch {
		case err == nil:
			ended = true
		case errors.Is(err, errBreak):
			return ended, nil
		case !errors.Is(err, errContinue):
			return ended, err
		}
	}
	return ended, nil
}

// roundCost is what a round costs beside its body, for its scope, in operations.
const roundCost = 3

// filtered lists what the loop runs over.
func (f *forStatement) filtered(r *exec.Renderer, v any) ([]any, error) {
	all, err := items(scopeOf(r), v)
	if err != nil || f.test == nil {
		return all, err
	}
	var kept []any
	for _, item := range all {
		s := scopeOf(r.Inherit())
		if err := f.target.assign(s, item); err != nil {
			return nil, err
		}
		is, err := s.holds(f.test)
		if err != nil {
			return nil, err
		}
		if is {
			kept = append(kept, item)
		}
	}
	return kept, nil
}

// again is loop(items) in a recursive loop.
func (f *forStatement) again(r *exec.Renderer, l *loop) func(scope, *args) (any, error) {
	return func(s scope, a *args) (any, error) {
		if !f.recursive {
			return nil, errors.New("the loop must have the 'recursive' marker to be called recursively")
		}
		b, err := a.bind(1, "iterable")
		if err != nil {
			return nil, err
		}
		inner := r.Inherit()
		out := &sink{run: s.run}
		inner.Output = out
		err = f.render(inner, b[0], l.depth+1)
		return out.Builder.String(), err
	}
}

// loop is the state behind the variable loop.
type loop struct {
	items     []any
	at, depth int
	changed   *sequence // arguments of the last loop.changed()
}

func (l *loop) attribute(name string) (any, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return l.at + 1, true
	case "index0":
		return l.at, true
	case "revindex":
		return n - l.at, true
	case "revindex0":
		return n - l.at - 1, true
	case "first":
		return l.at == 0, true
	case "last":
		return l.at == n-1, true
	case "length":
		return n, true
	case "depth":
		return l.depth + 1, true
	case "depth0":
		return l.depth, true
	case "previtem":
		if l.at > 0 {
			return l.items[l.at-1], true
		}
		return &undefined{message: "there is no previous item"}, true
	case "nextitem":
		if l.at < n-1 {
			return l.items[l.at+1], true
		}
		return &undefined{message: "there is no next item"}, true
	case "cycle":
		return &function{name: "cycle", call: l.cycle}, true
	case "changed":
		return &function{name: "changed", call: l.hasChanged}, true
	}
	return nil, false
}

func (l *loop) cycle(_ scope, a *args) (any, error) {
	if len(a.positional) == 0 || len(a.keywords.keys) > 0 {
		return nil, errors.New("no items for cycling given")
	}
	return a.positional[l.at%len(a.positional)], nil
}

func (l *loop) hasChanged(s scope, a *args) (any, error) {
	if len(a.keywords.keys) > 0 {
		return nil, fmt.Errorf("changed() got an unexpected keyword argument '%s'", a.keywords.keys[0])
	}
	now := newTuple(a.positional...)
	if l.changed != nil {
		if same, err := equal(s, l.changed, now); err != nil || same {
			return false, err
		}
	}
	l.changed = now
	return true, nil
}
