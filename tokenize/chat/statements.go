package chat

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// statements are the control structures that gonja's parser is given: all of
// Jinja2's that a template of one file has use for, with transformers'
// generation and Jinja2's loopcontrols. None reads a file.
type statements struct {
	depth int
	// loads counts the names that expressions read so far: a macro is told by them
	// what its body uses.
	loads map[string]int
}

type readStatement func(b *block, p *parser.Parser, e *expressions) (nodes.ControlStructure, error)

var readers map[string]readStatement

func init() { // bodies hold statements
	readers = map[string]readStatement{
		outputTag:    readOutput,
		"if":         readIf,
		"for":        readFor,
		"set":        readSet,
		"macro":      readMacro,
		"call":       readCall,
		"filter":     readFilterBlock,
		"with":       readWith,
		"print":      readPrint,
		"generation": readGeneration,
		"break":      readLoopControl(errBreak),
		"continue":   readLoopControl(errContinue),
	}
	for _, name := range []string{"include", "import", "from", "extends", "block", "autoescape"} {
		readers[name] = func(*block, *parser.Parser, *expressions) (nodes.ControlStructure, error) {
			return nil, fmt.Errorf("tag %s: not supported, a chat template is one file", name)
		}
	}
}

// Get returns the reader of a tag, for gonja.
func (t *statements) Get(tag string) (parser.ControlStructureParser, bool) {
	read, ok := readers[tag]
	return func(p, args *parser.Parser) (nodes.ControlStructure, error) {
		b := &block{tag: tag, at: args.Current(), in: t}
		if b.at.Line == 0 { // a tag without arguments: what follows it knows its line
			b.at = p.Current()
		}
		if t.depth++; t.depth > maxBlocks {
			return nil, atLine(b.at.Line, fmt.Errorf("more than %d blocks inside each other", maxBlocks))
		}
		defer func() { t.depth-- }()
		statement, err := read(b, p, &expressions{Parser: args, in: t})
		return statement, atLine(b.at.Line, err)
	}, ok
}

// program is a template that has been read.
type program struct {
	root  *nodes.Template
	dated bool // it names the current date
}

// maxSource bounds a template; the longest known has 30 kB.
const maxSource = 4 << 20

func compile(source string) (p *program, err error) {
	defer func() {
		if caught := recover(); caught != nil {
			p, err = nil, fmt.Errorf("gonja: %v", caught)
		}
	}()
	if len(source) > maxSource {
		return nil, fmt.Errorf("%d bytes, more than %d", len(source), maxSource)
	}
	all, err := lex(source)
	if err != nil {
		return nil, err
	}
	in := &statements{loads: map[string]int{}}
	root, err := parser.NewParser("chat_template", tokens.NewStream(all), config.New(), nil, in).Parse()
	if err == nil {
		return &program{root, in.loads["strftime_now"] > 0}, nil
	}
	if own, ok := errors.AsType[*lineError](err); ok {
		return nil, own
	}
	return nil, err
}

// block is what all statements have.
type block struct {
	tag string
	at  *tokens.Token
	in  *statements
}

func (b *block) Position() *tokens.Token { return b.at }
func (b *block) String() string          { return b.tag }

// body reads up to one of the end tags, and says which it was.
func (b *block) body(p *parser.Parser, ends ...string) (*nodes.Wrapper, *expressions, error) {
	wrapper, args, err := p.WrapUntil(ends...)
	if err != nil {
		return nil, nil, err
	}
	return wrapper, &expressions{Parser: args, in: b.in}, nil
}

// only is body for one end tag.
func (b *block) only(p *parser.Parser, end string) (*nodes.Wrapper, error) {
	wrapper, rest, err := b.body(p, end)
	if err != nil {
		return nil, err
	}
	return wrapper, rest.end()
}

// capture renders a body into a string, in a scope of its own that set fills.
func capture(r *exec.Renderer, body *nodes.Wrapper, set func(*exec.Context)) (string, error) {
	inner := r.Inherit()
	out := &sink{run: scopeOf(r).run}
	inner.Output = out
	if set != nil {
		set(inner.Environment.Context)
	}
	err := nodes.Walk(inner, body)
	return out.Builder.String(), err
}

// output is {{ }} and print.
type output struct {
	block
	parts []expr
}

func readOutput(b *block, _ *parser.Parser, e *expressions) (nodes.ControlStructure, error) {
	node, err := e.tuple(false, true)
	if err == nil {
		err = e.end()
	}
	return &output{*b, []expr{node}}, err
}

func readPrint(b *block, _ *parser.Parser, e *expressions) (nodes.ControlStructure, error) {
	o := &output{block: *b}
	for !e.End() {
		if len(o.parts) > 0 {
			if err := e.expect(tokens.Comma); err != nil {
				return nil, err
			}
		}
		node, err := e.expression()
		if err != nil {
			return nil, err
		}
		o.parts = append(o.parts, node)
	}
	return o, nil
}

func (o *output) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	s := scopeOf(r)
	for _, part := range o.parts {
		v, err := s.eval(part)
		if err != nil {
			return atLine(o.at.Line, err)
		}
		t, err := str(s, v)
		if err != nil {
			return atLine(o.at.Line, err)
		}
		if _, err := io.WriteString(r.Output, t); err != nil {
			return atLine(o.at.Line, err)
		}
	}
	return nil
}

// ifStatement has one body more than tests where there is an else.
type ifStatement struct {
	block
	tests  []expr
	bodies []*nodes.Wrapper
}

func readIf(b *block, p *parser.Parser, e *expressions) (nodes.ControlStructure, error) {
	i := &ifStatement{block: *b}
	for {
		test, err := e.tuple(false, false)
		if err == nil {
			err = e.end()
		}
		if err != nil {
			return nil, err
		}
		i.tests = append(i.tests, test)
		var wrapper *nodes.Wrapper
		if wrapper, e, err = b.body(p, "elif", "else", "endif"); err != nil {
			return nil, err
		}
		i.bodies = append(i.bodies, wrapper)
		switch wrapper.EndTag {
		case "endif":
			return i, e.end()
		case "else":
			if err := e.end(); err != nil {
				return nil, err
			}
			wrapper, err := b.only(p, "endif")
			i.bodies = append(i.bodies, wrapper)
			return i, err
		}
	}
}

// Execute renders the body in the scope around: an if has none of its own.
func (i *ifStatement) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	s := scopeOf(r)
	for n, test := range i.tests {
		is, err := s.holds(test)
		if err != nil {
			return atLine(i.at.Line, err)
		}
		if is {
			return nodes.Walk(r, i.bodies[n])
		}
	}
	if len(i.bodies) > len(i.tests) {
		return nodes.Walk(r, i.bodies[len(i.tests)])
	}
	return nil
}

// target is what set and for assign to: a name, an attribute of a namespace, or
// several of them.
type target struct {
	name, member string
	parts        []*target
}

func readTarget(e *expressions, stop ...string) (*target, error) {
	var all []*target
	isTuple := false
	for {
		if e.End() || e.Current(tokens.RightParenthesis, tokens.Assign) != nil || e.CurrentName(stop...) != nil {
			break
		}
		t, err := readOneTarget(e)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
		if e.Match(tokens.Comma) == nil {
			break
		}
		isTuple = true
	}
	switch {
	case len(all) == 0:
		return nil, e.unexpected()
	case len(all) == 1 && !isTuple:
		return all[0], nil
	}
	return &target{parts: all}, nil
}

func readOneTarget(e *expressions) (*target, error) {
	if e.Match(tokens.LeftParenthesis) != nil {
		if e.depth++; e.depth > maxNesting {
			return nil, fmt.Errorf("more than %d brackets inside each other", maxNesting)
		}
		t, err := readTarget(e)
		if err == nil {
			err = e.expect(tokens.RightParenthesis)
		}
		return t, err
	}
	n, err := e.name()
	if err != nil {
		return nil, err
	}
	if slices.Contains([]string{"true", "True", "false", "False", "none", "None"}, n) {
		return nil, fmt.Errorf("can't assign to %s", n)
	}
	t := &target{name: n}
	if e.Match(tokens.Dot) != nil {
		t.member, err = e.name()
	}
	return t, err
}

func (t *target) assign(s scope, v any) error {
	switch {
	case t.parts != nil:
		all, err := items(s, v)
		if err != nil {
			return err
		}
		if len(all) != len(t.parts) {
			return fmt.Errorf("want %d values to unpack, got %d", len(t.parts), len(all))
		}
		for i, part := range t.parts {
			if err := part.assign(s, all[i]); err != nil {
				return err
			}
		}
		return nil
	case t.member != "":
		of, _ := s.Environment.Context.Get(t.name)
		space, ok := of.(*namespace)
		if !ok {
			return errors.New("cannot assign attribute on non-namespace object")
		}
		return space.set(t.member, v)
	}
	s.Environment.Context.Set(t.name, v)
	return nil
}

type setStatement struct {
	block
	target *target
	value  expr           // or
	body   *nodes.Wrapper // a block, with
	chain  expr           // filters on it
}

func readSet(b *block, p *parser.Parser, e *expressions) (nodes.ControlStructure, error) {
	t, err := readTarget(e)
	if err != nil {
		return nil, err
	}
	set := &setStatement{block: *b, target: t}
	if e.Match(tokens.Assign) != nil {
		if set.value, err = e.tuple(false, true); err == nil {
			err = e.end()
		}
		return set, err
	}
	if set.chain, err = readChain(e); err != nil {
		return nil, err
	}
	set.body, err = b.only(p, "endset")
	return set, err
}

// readChain reads the filters on a block, nil for none.
func readChain(e *expressions) (expr, error) {
	var chain expr
	for e.Match(tokens.Pipe) != nil {
		var err error
		if chain, err = e.filter(chain); err != nil {
			return nil, err
		}
	}
	return chain, e.end()
}

// applyChain filters text. The innermost filter has no operand of its own.
func applyChain(s scope, chain expr, text string) (any, error) {
	f, ok := chain.(*filter)
	if !ok {
		return text, nil
	}
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	v, err := applyChain(s, f.of, text)
	if err != nil {
		return nil, err
	}
	return f.apply(s, v)
}

func (t *setStatement) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	s := scopeOf(r)
	if t.body == nil {
		v, err := s.eval(t.value)
		if err == nil {
			err = t.target.assign(s, v)
		}
		return atLine(t.at.Line, err)
	}
	whole, err := capture(r, t.body, nil)
	if err != nil {
		return err
	}
	v, err := applyChain(s, t.chain, whole)
	if err == nil {
		err = t.target.assign(s, v)
	}
	return atLine(t.at.Line, err)
}

// filterBlock is {% filter a|b %}.
type filterBlock struct {
	block
	chain expr
	body  *nodes.Wrapper
}

func readFilterBlock(b *block, p *parser.Parser, e *expressions) (nodes.ControlStructure, error) {
	chain, err := e.filter(nil)
	for err == nil && e.Match(tokens.Pipe) != nil {
		chain, err = e.filter(chain)
	}
	if err == nil {
		err = e.end()
	}
	if err != nil {
		return nil, err
	}
	wrapper, err := b.only(p, "endfilter")
	return &filterBlock{*b, chain, wrapper}, err
}

func (f *filterBlock) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	whole, err := capture(r, f.body, nil)
	if err != nil {
		return err
	}
	s := scopeOf(r)
	v, err := applyChain(s, f.chain, whole)
	if err != nil {
		return atLine(f.at.Line, err)
	}
	t, err := str(s, v)
	if err == nil {
		_, err = io.WriteString(r.Output, t)
	}
	return atLine(f.at.Line, err)
}

// with opens a scope with names of its own.
type with struct {
	block
	targets []*target
	values  []expr
	body    *nodes.Wrapper
}

func readWith(b *block, p *parser.Parser, e *expressions) (nodes.ControlStructure, error) {
	w := &with{block: *b}
	for !e.End() {
		if len(w.targets) > 0 {
			if err := e.expect(tokens.Comma); err != nil {
				return nil, err
			}
		}
		t, err := readOneTarget(e)
		if err == nil {
			err = e.expect(tokens.Assign)
		}
		if err != nil {
			return nil, err
		}
		v, err := e.expression()
		if err != nil {
			return nil, err
		}
		w.targets, w.values = append(w.targets, t), append(w.values, v)
	}
	var err error
	w.body, err = b.only(p, "endwith")
	return w, err
}

func (w *with) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	s := scopeOf(r)
	values, err := s.evalAll(w.values)
	if err != nil {
		return atLine(w.at.Line, err)
	}
	inner := scopeOf(r.Inherit())
	for i, t := range w.targets {
		if err := t.assign(inner, values[i]); err != nil {
			return atLine(w.at.Line, err)
		}
	}
	return nodes.Walk(inner.Renderer, w.body)
}

// generation marks the assistant's part, which only training has use for.
type generation struct {
	block
	body *nodes.Wrapper
}

func readGeneration(b *block, p *parser.Parser, e *expressions) (nodes.ControlStructure, error) {
	if err := e.end(); err != nil {
		return nil, err
	}
	wrapper, err := b.only(p, "endgeneration")
	return &generation{*b, wrapper}, err
}

func (g *generation) Execute(r *exec.Renderer, _ *nodes.ControlStructureBlock) error {
	return nodes.Walk(r.Inherit(), g.body)
}
