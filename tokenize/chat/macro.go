package chat

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// macro is a body with parameters; the body of a call block is one too.
type macro struct {
	block
	name       string
	parameters []string
	defaults   []expr // of the last parameters
	body       *nodes.Wrapper
	// What the body names decides what a call may hand over.
	kwargs, varargs, caller bool
}

// readParameters reads "(a, b=1)".
func (m *macro) readParameters(e *expressions) error {
	if err := e.expect(tokens.LeftParenthesis); err != nil {
		return err
	}
	for e.Match(tokens.RightParenthesis) == nil {
		if len(m.parameters) > 0 {
			if err := e.expect(tokens.Comma); err != nil {
				return err
			}
		}
		n, err := e.name()
		if err != nil {
			return err
		}
		if n == "caller" {
			return errors.New("a parameter called caller: not supported")
		}
		m.parameters = append(m.parameters, n)
		if e.Match(tokens.Assign) != nil {
			byDefault, err := e.expression()
			if err != nil {
				return err
			}
			m.defaults = append(m.defaults, byDefault)
		} else if m.defaults != nil {
			return errors.New("a parameter without a default after one with a default")
		}
	}
	return nil
}

// readBody notes which of the special names the body reads.
func (m *macro) readBody(p *parser.Parser, end string) error {
	reads := func(name string) int {
		if slices.Contains(m.parameters, name) {
			return 0
		}
		return m.in.loads[name]
	}
	kwargs, varargs, caller := reads("kwargs"), reads("varargs"), reads("caller")
	var err error
	m.body, err = m.only(p, end)
	m.kwargs = reads("kwargs") > kwargs
	m.varargs = reads("varargs") > varargs
	m.caller = reads("caller") > caller
	return err
}

func readMacro(b *block, p *parser.Parser, e *expressions) (nodes.ControlStructure, error) {
	m := &macro{block: *b}
	var err error
	if m.name, err = e.name(); err == nil {
		err = m.readParameters(e)
	}
	if err == nil {
		err = e.end()
	}
	if err != nil {
		return nil, err
	}
	return m, m.readBody(p, "endmacro")
}

func (m *macro) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	r.Environment.Context.Set(m.name, m.function(r))
	return nil
}

// function binds the macro to the scope that it is defined in.
func (m *macro) function(r *exec.Renderer) *function {
	return &function{
		name: m.name,
		extra: func(name string) (any, bool) {
			switch name {
			case "name":
				return m.name, true
			case "arguments":
				all := newTuple()
				for _, p := range m.parameters {
					all.items = append(all.items, p)
				}
				return all, true
			case "catch_kwargs", "catch_varargs", "caller":
				return unsupported("macro." + name), true
			}
			return nil, false
		},
		call: func(s scope, a *args) (any, error) {
			if err := s.enter(); err != nil {
				return nil, err
			}
			defer s.leave()
			inner := r.Inherit()
			out := &sink{run: s.run}
			inner.Output = out
			if err := m.bind(scopeOf(inner), a); err != nil {
				return nil, err
			}
			err := nodes.Walk(inner, m.body)
			return out.Builder.String(), err
		},
	}
}

// bind gives the parameters their values, in the scope of the body.
func (m *macro) bind(s scope, a *args) error {
	variables := s.Environment.Context
	rest := &dict{}
	for i, key := range a.keywords.keys {
		if err := rest.set(key, a.keywords.values[i]); err != nil {
			return err
		}
	}
	for i, name := range m.parameters {
		if i < len(a.positional) {
			variables.Set(name, a.positional[i])
			continue
		}
		if v, ok := rest.get(name); ok {
			rest.drop(name)
			variables.Set(name, v)
			continue
		}
		if first := len(m.parameters) - len(m.defaults); i >= first {
			v, err := s.eval(m.defaults[i-first])
			if err != nil {
				return err
			}
			variables.Set(name, v)
			continue
		}
		variables.Set(name, &undefined{message: fmt.Sprintf("parameter '%s' was not provided", name)})
	}
	return m.bindRest(variables, a, rest)
}

func (m *macro) bindRest(variables *exec.Context, a *args, rest *dict) error {
	if m.caller {
		var caller any = &undefined{message: "No caller defined"}
		if v, ok := rest.get("caller"); ok {
			rest.drop("caller")
			caller = v
		}
		variables.Set("caller", caller)
	}
	if m.kwargs {
		variables.Set("kwargs", rest)
	} else if len(rest.keys) > 0 {
		return fmt.Errorf("macro '%s' takes no keyword argument '%v'", m.name, rest.keys[0])
	}
	more := newTuple(a.positional[min(len(m.parameters), len(a.positional)):]...)
	if m.varargs {
		variables.Set("varargs", more)
	} else if len(more.items) > 0 {
		return fmt.Errorf("macro '%s' takes not more than %d argument(s)", m.name, len(m.parameters))
	}
	return nil
}

// drop removes a key of a dict that no template has seen.
func (d *dict) drop(key any) {
	fresh := &dict{}
	for i, k := range d.keys {
		if k != key {
			_ = fresh.set(k, d.values[i]) // it was a key before
		}
	}
	*d = *fresh
}

// callBlock is {% call(a) m(b) %}: the body goes to the macro as caller.
type callBlock struct {
	block
	call *call
	body macro
}

func readCall(b *block, p *parser.Parser, e *expressions) (nodes.ControlStructure, error) {
	c := &callBlock{block: *b, body: macro{block: *b, name: "caller"}}
	if e.Current(tokens.LeftParenthesis) != nil {
		if err := c.body.readParameters(e); err != nil {
			return nil, err
		}
	}
	node, err := e.expression()
	if err == nil {
		err = e.end()
	}
	if err != nil {
		return nil, err
	}
	ok := false
	if c.call, ok = node.(*call); !ok {
		return nil, errors.New("want a call")
	}
	return c, c.body.readBody(p, "endcall")
}

func (c *callBlock) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	caller := &constant{c.body.function(r)}
	with := *c.call
	with.keywords = append(with.keywords[:len(with.keywords):len(with.keywords)], keyword{"caller", caller})
	s := scopeOf(r)
	v, err := s.eval(&with)
	if err != nil {
		return atLine(c.at.Line, err)
	}
	t, err := str(s, v)
	if err == nil {
		_, err = io.WriteString(r.Output, t)
	}
	return atLine(c.at.Line, err)
}
