package chat

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// expressions reads the expressions of one tag, by the grammar of Jinja2's
// parser.py. gonja's own is another: no condition inside an expression, no
// chained comparison, no call of what stands in brackets, and no difference
// between undefined and none once it is evaluated.
type expressions struct {
	*parser.Parser
	in    *statements
	depth int
}

// maxNesting bounds brackets inside brackets.
const maxNesting = 500

func (p *expressions) unexpected() error {
	t := p.Current()
	if t.Type == tokens.EOF {
		return errors.New("unexpected end of tag")
	}
	return fmt.Errorf("unexpected %q", t.Val)
}

func (p *expressions) expect(kind tokens.Type) error {
	if p.Match(kind) == nil {
		return p.unexpected()
	}
	return nil
}

func (p *expressions) name() (string, error) {
	t := p.Match(tokens.Name)
	if t == nil {
		return "", p.unexpected()
	}
	return t.Val, nil
}

func (p *expressions) end() error {
	if !p.End() {
		return p.unexpected()
	}
	return nil
}

// expression reads everything but a tuple without brackets.
func (p *expressions) expression() (expr, error) { return p.condition() }

// nested guards the recursion of the parser.
func (p *expressions) nested(read func() (expr, error)) (expr, error) {
	if p.depth++; p.depth > maxNesting {
		return nil, fmt.Errorf("more than %d brackets inside each other", maxNesting)
	}
	defer func() { p.depth-- }()
	return read()
}

func (p *expressions) condition() (expr, error) {
	return p.nested(func() (expr, error) {
		yes, err := p.or()
		for err == nil && p.MatchName("if") != nil {
			c := &condition{yes: yes}
			if c.test, err = p.or(); err == nil && p.MatchName("else") != nil {
				c.no, err = p.condition()
			}
			yes = c
		}
		return yes, err
	})
}

func (p *expressions) or() (expr, error) {
	left, err := p.and()
	for err == nil && p.MatchName("or") != nil {
		var right expr
		right, err = p.and()
		left = &logical{left, right, true}
	}
	return left, err
}

func (p *expressions) and() (expr, error) {
	left, err := p.not()
	for err == nil && p.MatchName("and") != nil {
		var right expr
		right, err = p.not()
		left = &logical{left, right, false}
	}
	return left, err
}

func (p *expressions) not() (expr, error) {
	if p.MatchName("not") == nil {
		return p.comparison()
	}
	of, err := p.nested(p.not)
	return &negation{of}, err
}

var comparisons = []tokens.Type{
	tokens.Equals, tokens.Ne, tokens.LowerThan, tokens.LowerThanOrEqual,
	tokens.GreaterThan, tokens.GreaterThanOrEqual,
}

func (p *expressions) comparison() (expr, error) {
	first, err := p.sum()
	c := &comparison{first: first}
	for err == nil {
		op := ""
		if t := p.Match(comparisons...); t != nil {
			op = t.Val
		} else if p.MatchName("in") != nil {
			op = "in"
		} else if next := p.Peek(); p.CurrentName("not") != nil && next != nil && next.Type == tokens.Name && next.Val == "in" {
			p.Consume()
			p.Consume()
			op = "not in"
		} else {
			break
		}
		var right expr
		right, err = p.sum()
		c.rest = append(c.rest, operand{op, right})
	}
	if len(c.rest) == 0 {
		return first, err
	}
	return c, err
}

// binaries reads operators of one rank, from left to right.
func (p *expressions) binaries(operand func() (expr, error), ops ...tokens.Type) (expr, error) {
	left, err := operand()
	for err == nil {
		op := p.Match(ops...)
		if op == nil {
			break
		}
		var right expr
		right, err = operand()
		left = &binary{op.Val, left, right}
	}
	return left, err
}

func (p *expressions) sum() (expr, error) {
	return p.binaries(p.concatenation, tokens.Addition, tokens.Subtraction)
}

func (p *expressions) concatenation() (expr, error) {
	first, err := p.product()
	c := &concatenation{[]expr{first}}
	for err == nil && p.Match(tokens.Tilde) != nil {
		var next expr
		next, err = p.product()
		c.parts = append(c.parts, next)
	}
	if len(c.parts) == 1 {
		return first, err
	}
	return c, err
}

func (p *expressions) product() (expr, error) {
	return p.binaries(p.power, tokens.Multiply, tokens.Division, tokens.FloorDivision, tokens.Modulo)
}

func (p *expressions) power() (expr, error) {
	return p.binaries(func() (expr, error) { return p.unary(true) }, tokens.Power)
}

func (p *expressions) unary(filters bool) (expr, error) {
	var node expr
	var err error
	if op := p.Match(tokens.Subtraction, tokens.Addition); op != nil {
		node, err = p.nested(func() (expr, error) { return p.unary(false) })
		node = &sign{op.Val == "-", node}
	} else {
		node, err = p.primary()
	}
	if err == nil {
		node, err = p.postfix(node)
	}
	if err == nil && filters {
		node, err = p.filtersAndTests(node)
	}
	return node, err
}

func (p *expressions) primary() (expr, error) {
	t := p.Match(tokens.Name, tokens.String, tokens.Integer, tokens.Float,
		tokens.LeftParenthesis, tokens.LeftBracket, tokens.LeftBrace)
	if t == nil {
		return nil, p.unexpected()
	}
	switch t.Type {
	case tokens.Name:
		switch t.Val {
		case "true", "True":
			return &constant{true}, nil
		case "false", "False":
			return &constant{false}, nil
		case "none", "None":
			return &constant{nil}, nil
		}
		p.in.loads[t.Val]++
		return &name{t.Val}, nil
	case tokens.String:
		text := t.Val
		for t = p.Match(tokens.String); t != nil; t = p.Match(tokens.String) {
			text += t.Val
		}
		return &constant{text}, nil
	case tokens.Integer:
		n, err := strconv.ParseInt(t.Val, 0, 64)
		if err != nil {
			err = fmt.Errorf("integer %s: not supported, want 64 bits", t.Val)
		}
		return &constant{int(n)}, err
	case tokens.Float:
		f, err := strconv.ParseFloat(t.Val, 64)
		if errors.Is(err, strconv.ErrRange) {
			err = nil // infinite, as Python reads it
		}
		return &constant{f}, err
	case tokens.LeftParenthesis:
		node, err := p.tuple(true, true)
		if err == nil {
			err = p.expect(tokens.RightParenthesis)
		}
		return node, err
	case tokens.LeftBracket:
		return p.list()
	}
	return p.dict()
}

// tuple reads one expression, or several with commas. Brackets around allow an
// empty one, and conditions are left out where an "if" belongs to the tag.
func (p *expressions) tuple(brackets, conditions bool, stop ...string) (expr, error) {
	var all []expr
	isTuple := false
	for {
		if p.End() || p.Current(tokens.RightParenthesis) != nil || p.CurrentName(stop...) != nil {
			break
		}
		read := p.or
		if conditions {
			read = p.expression
		}
		node, err := p.nested(read)
		if err != nil {
			return nil, err
		}
		all = append(all, node)
		if p.Match(tokens.Comma) == nil {
			break
		}
		isTuple = true
	}
	if !isTuple && len(all) == 1 {
		return all[0], nil
	}
	if len(all) == 0 && !brackets {
		return nil, fmt.Errorf("want an expression: %w", p.unexpected())
	}
	return &display{tuple, all}, nil
}

func (p *expressions) list() (expr, error) {
	node := &display{kind: list}
	for p.Match(tokens.RightBracket) == nil {
		if len(node.items) > 0 {
			if err := p.expect(tokens.Comma); err != nil {
				return nil, err
			}
			if p.Match(tokens.RightBracket) != nil {
				break
			}
		}
		item, err := p.expression()
		if err != nil {
			return nil, err
		}
		node.items = append(node.items, item)
	}
	return node, nil
}

func (p *expressions) dict() (expr, error) {
	node := &dictDisplay{}
	for p.Match(tokens.RightBrace) == nil {
		if len(node.keys) > 0 {
			if err := p.expect(tokens.Comma); err != nil {
				return nil, err
			}
			if p.Match(tokens.RightBrace) != nil {
				break
			}
		}
		key, err := p.expression()
		if err == nil {
			err = p.expect(tokens.Colon)
		}
		if err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		node.keys = append(node.keys, key)
		node.values = append(node.values, value)
	}
	return node, nil
}

func (p *expressions) postfix(node expr) (expr, error) {
	for {
		var err error
		switch {
		case p.Match(tokens.Dot) != nil:
			node, err = p.attribute(node)
		case p.Match(tokens.LeftBracket) != nil:
			node, err = p.subscript(node)
		case p.Current(tokens.LeftParenthesis) != nil:
			node, err = p.call(node)
		default:
			return node, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *expressions) attribute(of expr) (expr, error) {
	t := p.Match(tokens.Name, tokens.Integer)
	if t == nil {
		return nil, p.unexpected()
	}
	if t.Type == tokens.Name {
		return &attribute{of, t.Val}, nil
	}
	n, err := strconv.ParseInt(t.Val, 0, 64)
	return &subscript{of, &constant{int(n)}}, err
}

func (p *expressions) subscript(of expr) (expr, error) {
	var keys []expr
	for {
		key, err := p.index()
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
		if p.Match(tokens.RightBracket) != nil {
			break
		}
		if err := p.expect(tokens.Comma); err != nil {
			return nil, err
		}
	}
	if len(keys) == 1 {
		return &subscript{of, keys[0]}, nil
	}
	return &subscript{of, &display{tuple, keys}}, nil
}

// index reads what stands in square brackets: an expression or a slice.
func (p *expressions) index() (expr, error) {
	var bounds [3]expr
	for i := range bounds {
		if p.Current(tokens.Colon, tokens.RightBracket, tokens.Comma) == nil {
			var err error
			if bounds[i], err = p.expression(); err != nil {
				return nil, err
			}
		}
		if i < 2 && p.Match(tokens.Colon) == nil || i == 2 {
			if i == 0 && bounds[0] == nil {
				return nil, p.unexpected()
			}
			if i == 0 {
				return bounds[0], nil
			}
			break
		}
	}
	return &slice{bounds}, nil
}

// call reads the arguments in round brackets.
func (p *expressions) call(of expr) (expr, error) {
	a, err := p.arguments()
	return &call{of, a}, err
}

func (p *expressions) arguments() (arguments, error) {
	var a arguments
	if err := p.expect(tokens.LeftParenthesis); err != nil {
		return a, err
	}
	for first := true; p.Match(tokens.RightParenthesis) == nil; first = false {
		if !first {
			if err := p.expect(tokens.Comma); err != nil {
				return a, err
			}
			if p.Match(tokens.RightParenthesis) != nil {
				break
			}
		}
		if err := p.argument(&a); err != nil {
			return a, err
		}
	}
	return a, nil
}

func (p *expressions) argument(a *arguments) (err error) {
	next := p.Peek()
	switch {
	case p.Match(tokens.Multiply) != nil:
		if a.star != nil || a.starStar != nil {
			return errors.New("invalid syntax for function call expression")
		}
		a.star, err = p.expression()
	case p.Match(tokens.Power) != nil:
		if a.starStar != nil {
			return errors.New("invalid syntax for function call expression")
		}
		a.starStar, err = p.expression()
	case p.Current(tokens.Name) != nil && next != nil && next.Type == tokens.Assign:
		k := keyword{name: p.Pop().Val}
		p.Consume()
		k.value, err = p.expression()
		if a.starStar != nil || slices.ContainsFunc(a.keywords, func(o keyword) bool { return o.name == k.name }) {
			return fmt.Errorf("argument %s comes twice or too late", k.name)
		}
		a.keywords = append(a.keywords, k)
	default:
		if a.star != nil || a.starStar != nil || a.keywords != nil {
			return errors.New("an argument without a name after one with a name")
		}
		var node expr
		node, err = p.expression()
		a.positional = append(a.positional, node)
	}
	return err
}

func (p *expressions) filtersAndTests(node expr) (expr, error) {
	for {
		var err error
		switch {
		case p.Match(tokens.Pipe) != nil:
			node, err = p.filter(node)
		case p.MatchName("is") != nil:
			node, err = p.test(node)
		case p.Current(tokens.LeftParenthesis) != nil:
			node, err = p.call(node)
		default:
			return node, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *expressions) dottedName() (string, error) {
	n, err := p.name()
	for err == nil && p.Match(tokens.Dot) != nil {
		var more string
		more, err = p.name()
		n += "." + more
	}
	return n, err
}

// filter reads a filter's name and arguments.
func (p *expressions) filter(of expr) (expr, error) {
	n, err := p.dottedName()
	f := &filter{of: of, name: n}
	if err == nil && p.Current(tokens.LeftParenthesis) != nil {
		f.arguments, err = p.arguments()
	}
	return f, err
}

func (p *expressions) test(of expr) (expr, error) {
	negated := p.MatchName("not") != nil
	n, err := p.dottedName()
	if err != nil {
		return nil, err
	}
	t := &test{of: of, name: n}
	switch {
	case p.Current(tokens.LeftParenthesis) != nil:
		t.arguments, err = p.arguments()
	case p.Current(tokens.Name, tokens.String, tokens.Integer, tokens.Float, tokens.LeftBracket, tokens.LeftBrace) != nil &&
		p.CurrentName("else", "or", "and") == nil:
		if p.CurrentName("is") != nil {
			return nil, errors.New("tests in a chain: want (x is a) is b")
		}
		var arg expr
		if arg, err = p.nested(p.primary); err == nil {
			arg, err = p.postfix(arg)
		}
		t.positional = []expr{arg}
	}
	if err != nil || !negated {
		return t, err
	}
	return &negation{t}, nil
}
