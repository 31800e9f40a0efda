package runfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a file. The YAML package takes time that grows with the square of
// the entries of a mapping, and a stack that grows with the depth.
const (
	maxBytes  = 256 << 10
	maxTokens = 30_000
	maxDepth  = 64
	maxNodes  = 100_000 // after aliases are followed
)

type nodeKind int

const (
	nullNode nodeKind = iota
	boolNode
	numberNode
	textNode
	listNode
	mapNode
)

// noun is what a value of the kind is called in a message.
func (k nodeKind) noun() string {
	return [...]string{"nothing", "true or false", "a number", "text", "a list", "a mapping"}[k]
}

// place is where something stands. line is 0 in a file whose lines nobody counts.
type place struct {
	file         string
	line, column int
}

func (p place) String() string {
	if p.line == 0 {
		return p.file
	}
	return fmt.Sprintf("%s:%d:%d", p.file, p.line, p.column)
}

// node is a value with its place. Nodes are shared and never changed.
type node struct {
	at      place
	kind    nodeKind
	text    string // of a scalar, as it is written
	items   []*node
	entries []entry
}

type entry struct {
	key   string
	at    place // of the key
	value *node
}

// get is the value of a key, nil where there is none.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for _, e := range n.entries {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

// parseYAML reads one document. The error has a line for each mistake.
func parseYAML(name string, data []byte) (*node, error) {
	if len(data) > maxBytes {
		return nil, fmt.Errorf("%s: %d bytes; want %d at most", name, len(data), maxBytes)
	}
	tokens, err := bounded(name, string(bytes.TrimPrefix(data, []byte("\ufeff"))))
	if err != nil {
		return nil, err
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, located(name, err)
	}
	if len(file.Docs) > 1 {
		second := place{file: name}
		if start := file.Docs[1].Start; start != nil {
			second = placeOf(name, start)
		}
		return nil, fmt.Errorf("%v: a second YAML document; want one in a file", second)
	}
	c := converter{file: name, anchors: map[string]ast.Node{}}
	var root *node
	if len(file.Docs) == 1 && file.Docs[0].Body != nil {
		root = c.node(file.Docs[0].Body, 0)
	}
	if len(c.errs) > 0 {
		return nil, errors.Join(c.errs...)
	}
	if root == nil || root.kind == nullNode {
		return nil, fmt.Errorf("%s: the file is empty", name)
	}
	return root, nil
}

// bounded splits a text into tokens and refuses what is made to take long.
func bounded(name, text string) (token.Tokens, error) {
	for i, line := range strings.Split(text, "\n") {
		if strings.Count(line[:len(line)-len(strings.TrimLeft(line, "-?: \t"))], " ") > 4*maxDepth {
			return nil, fmt.Errorf("%s:%d: nested too deeply; want %d levels at most", name, i+1, maxDepth)
		}
	}
	tokens := lexer.Tokenize(text)
	if len(tokens) > maxTokens {
		return nil, fmt.Errorf("%s: %d YAML tokens; want %d at most", name, len(tokens), maxTokens)
	}
	depth := 0
	for _, t := range tokens {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		}
		if depth > maxDepth {
			return nil, fmt.Errorf("%v: nested too deeply; want %d levels at most", placeOf(name, t), maxDepth)
		}
	}
	return tokens, nil
}

// located puts the file and line in front of an error of the YAML package and
// leaves out the excerpt it would print.
func located(name string, err error) error {
	e, ok := errors.AsType[yaml.Error](err)
	if !ok || e.GetToken() == nil || e.GetToken().Position == nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%v: %s", placeOf(name, e.GetToken()), e.GetMessage())
}

func placeOf(file string, t *token.Token) place {
	if t == nil || t.Position == nil {
		return place{file: file}
	}
	return place{file, t.Position.Line, t.Position.Column}
}

// converter makes nodes of the YAML package's tree, in which it follows aliases
// and merge keys.
type converter struct {
	file    string
	anchors map[string]ast.Node
	nodes   int
	errs    []error
}

func (c *converter) failf(at place, format string, args ...any) *node {
	if len(c.errs) < 100 {
		c.errs = append(c.errs, fmt.Errorf("%v: %s", at, fmt.Sprintf(format, args...)))
	}
	return &node{at: at}
}

// full tells, once, that there is too much.
func (c *converter) full(at place, depth int) bool {
	c.nodes++
	switch {
	case c.nodes == maxNodes+1:
		c.failf(at, "more than %d values, with the aliases written out", maxNodes)
	case depth == maxDepth+1:
		c.failf(at, "nested too deeply; want %d levels at most", maxDepth)
	}
	return c.nodes > maxNodes || depth > maxDepth
}

func (c *converter) node(n ast.Node, depth int) *node {
	if n == nil {
		return &node{at: place{file: c.file}}
	}
	at := placeOf(c.file, n.GetToken())
	if c.full(at, depth) {
		return &node{at: at}
	}
	switch n := n.(type) {
	case *ast.NullNode:
		return &node{at: at}
	case *ast.BoolNode:
		return &node{at: at, kind: boolNode, text: strings.ToLower(n.GetToken().Value)}
	case *ast.IntegerNode, *ast.FloatNode:
		return &node{at: at, kind: numberNode, text: n.GetToken().Value}
	case *ast.InfinityNode:
		return &node{at: at, kind: numberNode, text: strings.ToLower(strings.Replace(n.GetToken().Value, ".", "", 1))}
	case *ast.NanNode:
		return &node{at: at, kind: numberNode, text: "nan"}
	case *ast.StringNode:
		return &node{at: at, kind: textNode, text: n.Value}
	case *ast.LiteralNode:
		return &node{at: at, kind: textNode, text: n.Value.Value}
	case *ast.AnchorNode:
		out := c.node(n.Value, depth)
		c.anchors[n.Name.GetToken().Value] = n.Value // from here on: none holds itself
		return out
	case *ast.AliasNode:
		name := n.Value.GetToken().Value
		value, ok := c.anchors[name]
		if !ok {
			return c.failf(at, "*%s: no anchor before it has this name", name)
		}
		return c.node(value, depth+1)
	case *ast.TagNode:
		return c.tagged(n, depth)
	case *ast.SequenceNode:
		out := &node{at: at, kind: listNode}
		for _, v := range n.Values {
			out.items = append(out.items, c.node(v, depth+1))
		}
		return out
	case ast.MapNode:
		return c.mapping(at, n, depth)
	}
	return c.failf(at, "a form of YAML that is not read here")
}

// tagged reads !!str, which makes text of a number.
func (c *converter) tagged(n *ast.TagNode, depth int) *node {
	out := c.node(n.Value, depth+1)
	tag := n.GetToken().Value
	if tag != "!!str" || out.kind == listNode || out.kind == mapNode {
		return c.failf(placeOf(c.file, n.GetToken()), "the tag %s is not read; want the value alone", tag)
	}
	out.kind = textNode
	return out
}

func (c *converter) mapping(at place, m ast.MapNode, depth int) *node {
	out := &node{at: at, kind: mapNode}
	seen := map[string]place{}
	var merged []*node
	for i := m.MapRange(); i.Next(); {
		if i.Key().IsMergeKey() {
			merged = append(merged, c.node(i.Value(), depth+1))
			continue
		}
		key, keyAt, ok := c.key(i.Key())
		if !ok {
			continue
		}
		if i.KeyValue() != nil && len(seen) == 0 && keyAt.line > 0 {
			out.at = keyAt // the YAML package has the colon
		}
		value := c.node(i.Value(), depth+1)
		if first, twice := seen[key]; twice {
			c.failf(keyAt, "%s is given twice, first on line %d", key, first.line)
			continue
		}
		seen[key] = keyAt
		out.entries = append(out.entries, entry{key, keyAt, value})
	}
	for _, from := range merged {
		c.merge(out, from)
	}
	return out
}

// merge adds what a merge key (<<) names and the mapping does not have itself.
func (c *converter) merge(into, from *node) {
	switch from.kind {
	case listNode:
		for _, one := range from.items {
			c.merge(into, one)
		}
	case mapNode:
		for _, e := range from.entries {
			if into.get(e.key) == nil {
				into.entries = append(into.entries, e)
			}
		}
	default:
		c.failf(from.at, "<< merges %s; want a mapping", from.kind.noun())
	}
}

func (c *converter) key(k ast.MapKeyNode) (string, place, bool) {
	var n ast.Node = k
	if m, ok := n.(*ast.MappingKeyNode); ok {
		n = m.Value
	}
	if n == nil {
		return "", place{}, false
	}
	at := placeOf(c.file, n.GetToken())
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, at, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, at, true
	}
	c.failf(at, "a key that is no word; want text")
	return "", at, false
}

// parseJSON reads what servebench wrote itself, whose lines nobody counts.
func parseJSON(name string, data []byte) (*node, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	n, err := jsonNode(d, name, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("%s: more than one JSON value", name)
	}
	return n, nil
}

func jsonNode(d *json.Decoder, name string, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, errors.New("nested too deeply")
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	n := &node{at: place{file: name}}
	switch v := t.(type) {
	case bool:
		n.kind, n.text = boolNode, fmt.Sprint(v)
	case json.Number:
		n.kind, n.text = numberNode, v.String()
	case string:
		n.kind, n.text = textNode, v
	case json.Delim:
		n.kind = map[json.Delim]nodeKind{'[': listNode, '{': mapNode}[v]
		for d.More() {
			key := ""
			if n.kind == mapNode {
				k, err := d.Token()
				if err != nil {
					return nil, err
				}
				key, _ = k.(string)
				if n.get(key) != nil {
					return nil, fmt.Errorf("%s is given twice", key)
				}
			}
			value, err := jsonNode(d, name, depth+1)
			if err != nil {
				return nil, err
			}
			if n.kind == listNode {
				n.items = append(n.items, value)
			} else {
				n.entries = append(n.entries, entry{key, n.at, value})
			}
		}
		if _, err := d.Token(); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// plain is the value without places: bool, json.Number, string, []any, map.
func (n *node) plain() any {
	switch n.kind {
	case boolNode:
		return n.text == "true"
	case numberNode:
		if s, ok := decimal(n.text); ok {
			return json.Number(s)
		}
		return n.text
	case textNode:
		return n.text
	case listNode:
		out := make([]any, len(n.items))
		for i, item := range n.items {
			out[i] = item.plain()
		}
		return out
	case mapNode:
		out := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			out[e.key] = e.value.plain()
		}
		return out
	}
	return nil
}

// decimal is a number as JSON writes it, where it is written in tens.
func decimal(text string) (string, bool) {
	s := strings.TrimPrefix(strings.ReplaceAll(text, "_", ""), "+")
	digits := strings.TrimPrefix(s, "-")
	if strings.HasPrefix(digits, ".") {
		s = strings.Replace(s, ".", "0.", 1)
	}
	s = strings.TrimSuffix(s, ".")
	return s, json.Valid([]byte(s)) && s != "" && digits != ""
}

// with returns n with the value at a path; nil takes it out. at is the place of
// the key that asks for it.
func (n *node) with(path []string, at place, value *node) (*node, error) {
	if n == nil {
		n = &node{at: at, kind: mapNode}
	}
	if n.kind != mapNode {
		return nil, fmt.Errorf("%v: nothing can be set below %s, which %v has", at, n.kind.noun(), n.at)
	}
	var child *node
	index := -1
	for i, e := range n.entries {
		if e.key == path[0] {
			index, child = i, e.value
		}
	}
	if len(path) == 1 {
		child = value
	} else {
		var err error
		if child, err = child.with(path[1:], at, value); err != nil {
			return nil, err
		}
	}
	out := *n
	out.entries = append([]entry(nil), n.entries...)
	switch {
	case child == nil && index >= 0:
		out.entries = append(out.entries[:index], out.entries[index+1:]...)
	case child == nil:
	case index >= 0:
		out.entries[index] = entry{path[0], at, child}
	default:
		out.entries = append(out.entries, entry{path[0], at, child})
	}
	return &out, nil
}
