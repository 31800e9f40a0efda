package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// ParseSubject reads a subject file: YAML with the fields of [Subject], of
// which only identifier is required. Unless given, type is model, source is
// huggingface, adapters is empty, modalities is text, and revision_kind is
// commit for a revision of 40 hexadecimal digits and tag for another.
//
// An unknown or repeated key, a second document and a value that the schema
// does not allow are errors, each with the file's name and the line; name is
// used for nothing else.
func ParseSubject(name string, data []byte) (*Subject, error) {
	if len(data) > 1<<20 {
		return nil, fmt.Errorf("%s: a subject file of %d bytes is no subject file", name, len(data))
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, located(name, err)
	}
	if len(file.Docs) > 1 {
		return nil, fmt.Errorf("%s: more than one YAML document", name)
	}
	var s Subject
	decoder := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	if err := decoder.Decode(&s); err != nil && !errors.Is(err, io.EOF) {
		return nil, located(name, err)
	}
	if len(file.Docs) == 1 {
		if err := checkText(name, file.Docs[0].Body); err != nil {
			return nil, err
		}
	}
	if s.Identifier == "" {
		return nil, fmt.Errorf("%s: identifier is missing", name)
	}
	fillSubject(&s)
	if err := checkSubject(name, file, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

func fillSubject(s *Subject) {
	if s.Type == "" {
		s.Type = "model"
	}
	if s.Source == "" {
		s.Source = "huggingface"
	}
	if s.Adapters == nil {
		s.Adapters = []map[string]any{}
	}
	if s.Modalities == nil {
		s.Modalities = []string{"text"}
	}
	if s.Revision == "" || s.RevisionKind != "" {
		return
	}
	if isCommit(s.Revision) {
		s.RevisionKind = "commit"
	} else {
		s.RevisionKind = "tag"
	}
}

// isCommit matches a git commit as the schema wants it.
func isCommit(s string) bool {
	return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == ""
}

// checkSubject validates a subject against the schema and says on which lines
// of the file it fails.
func checkSubject(name string, file *ast.File, s *Subject) error {
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	problems, err := violations(Profile{}, "subject", value)
	if err != nil {
		return err
	}
	if s.RevisionKind == "commit" && s.Revision == "" {
		problems = append(problems, violation{"/revision_kind", "commit without a revision"})
	}
	for _, p := range problems {
		err = errors.Join(err, fmt.Errorf("%s:%d: %s: %s", name, lineOf(file, p.path), p.path[1:], p.message))
	}
	return err
}

// lineOf finds the line a JSON pointer leads to, as far as it leads into the
// file; 1 where it does not.
func lineOf(file *ast.File, pointer string) int {
	line := 1
	if len(file.Docs) == 0 {
		return line
	}
	node := file.Docs[0].Body
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch n := node.(type) {
		case ast.MapNode:
			node = nil
			for m := n.MapRange(); m.Next(); {
				if key := m.Key().GetToken(); key != nil && key.Value == token {
					node, line = m.Value(), key.Position.Line
				}
			}
		case *ast.SequenceNode:
			node = nil
			if i, err := strconv.Atoi(token); err == nil && i >= 0 && i < len(n.Values) && n.Values[i].GetToken() != nil {
				node, line = n.Values[i], n.Values[i].GetToken().Position.Line
			}
		}
	}
	return line
}

// checkText rejects a number or truth value where text belongs: revision: 1.10
// would silently become 1.1.
func checkText(name string, node ast.Node) (err error) {
	mapping, ok := node.(ast.MapNode)
	if !ok {
		return nil
	}
	for m := mapping.MapRange(); m.Next(); {
		key := m.Key().GetToken()
		if key == nil || strings.HasPrefix(key.Value, "parameter_count_") {
			continue
		}
		switch m.Value().(type) {
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
			err = errors.Join(err, fmt.Errorf("%s:%d: %s is text, put the value in quotes", name, key.Position.Line, key.Value))
		default:
			if key.Value == "quantization" {
				err = errors.Join(err, checkText(name, m.Value()))
			}
		}
	}
	return err
}

// located puts the file and line in front of an error of the YAML package and
// leaves out the excerpt it would print.
func located(name string, err error) error {
	e, ok := errors.AsType[yaml.Error](err)
	if !ok || e.GetToken() == nil || e.GetToken().Position == nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	at := e.GetToken().Position
	return fmt.Errorf("%s:%d:%d: %s", name, at.Line, at.Column, e.GetMessage())
}
