package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
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
	var s Subject
	file, err := parseFacts(name, "subject", data, &s)
	if err != nil {
		return nil, err
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

// parseFacts reads a YAML file of declared facts into v, strictly. what names the
// kind of file for people.
func parseFacts(name, what string, data []byte, v any) (*ast.File, error) {
	if len(data) > 1<<20 {
		return nil, fmt.Errorf("%s: a %s file of %d bytes is no %s file", name, what, len(data), what)
	}
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, located(name, err)
	}
	if len(file.Docs) > 1 {
		return nil, fmt.Errorf("%s: more than one YAML document", name)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	if err := decoder.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return nil, located(name, err)
	}
	if len(file.Docs) == 1 {
		if err := checkText(name, file.Docs[0].Body, reflect.TypeOf(v).Elem()); err != nil {
			return nil, err
		}
	}
	return file, nil
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
	err := checkFacts(name, file, "subject", s)
	if s.RevisionKind == "commit" && s.Revision == "" {
		err = errors.Join(err, fmt.Errorf("%s:%d: revision_kind: commit without a revision", name, lineOf(file, "/revision_kind")))
	}
	return err
}

// checkFacts validates v against a part of the schema.
func checkFacts(name string, file *ast.File, part string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	problems, err := violations(Profile{}, part, value)
	if err != nil {
		return err
	}
	for _, p := range problems {
		err = errors.Join(err, fmt.Errorf("%s:%d: %s: %s", name, lineOf(file, p.path), strings.TrimPrefix(p.path, "/"), p.message))
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

// checkText rejects a number or truth value where a field of t is text:
// revision: 1.10 would silently become 1.1.
func checkText(name string, node ast.Node, t reflect.Type) (err error) {
	switch t.Kind() {
	case reflect.Pointer:
		return checkText(name, node, t.Elem())
	case reflect.Slice:
		if list, ok := node.(*ast.SequenceNode); ok {
			for _, item := range list.Values {
				err = errors.Join(err, checkText(name, item, t.Elem()))
			}
		}
		return err
	case reflect.String:
		switch node.(type) {
		case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
			return errTextWanted
		}
		return nil
	}
	mapping, ok := node.(ast.MapNode)
	if !ok {
		return nil
	}
	for m := mapping.MapRange(); m.Next(); {
		key := m.Key().GetToken()
		if key == nil {
			continue
		}
		field := fieldType(t, key.Value)
		if field == nil {
			continue
		}
		wrong := checkText(name, m.Value(), field)
		if errors.Is(wrong, errTextWanted) {
			wrong = fmt.Errorf("%s:%d: %s is text, put the value in quotes", name, key.Position.Line, key.Value)
		}
		err = errors.Join(err, wrong)
	}
	return err
}

var errTextWanted = errors.New("text is wanted")

// fieldType is the type of a member: of a struct by its name in YAML, of a map
// always the same. It is nil where there is none.
func fieldType(t reflect.Type, key string) reflect.Type {
	switch t.Kind() {
	case reflect.Map:
		if t.Elem().Kind() == reflect.String {
			return t.Elem()
		}
	case reflect.Struct:
		for i := range t.NumField() {
			if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); tag == key {
				return t.Field(i).Type
			}
		}
	}
	return nil
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
