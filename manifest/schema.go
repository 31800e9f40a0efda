package manifest

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

//go:embed schema-1.0.json
var schemaText []byte

// schemas are the parts of the schema that are validated against. Compiling
// takes milliseconds, so it waits until somebody validates.
var schemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(schemaText))
	if err != nil {
		return nil, fmt.Errorf("read embedded schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // nothing is ever fetched
	if err := c.AddResource("manifest.json", doc); err != nil {
		return nil, fmt.Errorf("read embedded schema: %w", err)
	}
	compiled := make(map[string]*jsonschema.Schema)
	for _, name := range []string{"run", "experiment", "subject"} {
		if compiled[name], err = c.Compile("manifest.json#/$defs/" + name); err != nil {
			return nil, fmt.Errorf("compile embedded schema: %w", err)
		}
	}
	return compiled, nil
})

// Validate reports whether data is a manifest of kind run or experiment that
// holds the base profile of schema 1.0. The error has everything that is wrong,
// one line each that begins with the JSON pointer of the place.
//
// The envelope that the publishing site puts around a run is unwrapped, and
// enveloped says that it was there; the envelope's own fields are the site's
// and are not looked at. Safe for concurrent use.
func Validate(data []byte) (enveloped bool, err error) {
	_, enveloped, err = validated(data)
	return enveloped, err
}

// validated is [Validate] that also returns the bare document.
func validated(data []byte) (bare []byte, enveloped bool, err error) {
	if err := checkDuplicates(data); err != nil {
		return nil, false, fmt.Errorf("read manifest: %w", err)
	}
	bare, enveloped = unwrap(data)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(bare))
	if err != nil {
		return nil, enveloped, fmt.Errorf("read manifest: %w", err)
	}
	object, ok := doc.(map[string]any)
	if !ok {
		return nil, enveloped, invalidError{{"/", "a manifest is a JSON object"}}
	}
	name, _ := object["kind"].(string)
	if name != KindRun && name != "experiment" {
		return nil, enveloped, invalidError{{"/kind", "value must be one of 'run', 'experiment'"}}
	}
	problems, err := violations(name, doc)
	if err != nil {
		return nil, enveloped, err
	}
	return bare, enveloped, invalid(problems)
}

// invalidError is every violation of one document.
type invalidError []violation

func (e invalidError) Error() string {
	lines := make([]string, len(e))
	for i, p := range e {
		lines[i] = p.path + ": " + p.message
	}
	return strings.Join(lines, "\n")
}

func invalid(problems []violation) error {
	if len(problems) == 0 {
		return nil
	}
	return invalidError(problems)
}

// unwrap returns the document inside the site's envelope. What has a schema
// version of its own is no envelope.
func unwrap(data []byte) (bare []byte, enveloped bool) {
	var outer map[string]json.RawMessage
	if json.Unmarshal(data, &outer) != nil {
		return data, false
	}
	inner, ok := outer["manifest"]
	if _, bareDocument := outer["schema_version"]; !ok || bareDocument {
		return data, false
	}
	return inner, true
}

// A violation is one place where a value breaks the schema.
type violation struct {
	path    string // JSON pointer, / for the whole value
	message string
}

// violations validates a value, as jsonschema.UnmarshalJSON returns it,
// against a named part of the schema. They are sorted by path.
func violations(name string, value any) ([]violation, error) {
	compiled, err := schemas()
	if err != nil {
		return nil, err
	}
	err = compiled[name].Validate(value)
	if err == nil {
		return nil, nil
	}
	ve, ok := errors.AsType[*jsonschema.ValidationError](err)
	if !ok {
		return nil, err
	}
	printer := message.NewPrinter(language.English)
	var found []violation
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) == 0 {
			found = append(found, violation{pointer(e.InstanceLocation), explain(e, printer)})
		}
	}
	walk(ve)
	slices.SortFunc(found, func(a, b violation) int {
		return strings.Compare(a.path+"\x00"+a.message, b.path+"\x00"+b.message)
	})
	return slices.Compact(found), nil
}

// explain words one failure. Those of a "not" and of a value that must not be
// there say nothing on their own.
func explain(e *jsonschema.ValidationError, printer *message.Printer) string {
	switch e.ErrorKind.(type) {
	case *kind.Not:
		if strings.HasSuffix(e.SchemaURL, "/$defs/publicText") {
			return "public text must hold no local path, LAN address or credential"
		}
	case *kind.FalseSchema:
		return "must not be here"
	}
	return e.ErrorKind.LocalizedString(printer)
}

// pointer writes an instance location as a JSON pointer.
func pointer(location []string) string {
	var b strings.Builder
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, token := range location {
		b.WriteByte('/')
		b.WriteString(escape.Replace(token))
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}

// checkDuplicates rejects an object with the same key twice, of which
// encoding/json would silently take the last, and text after the value.
func checkDuplicates(data []byte) error {
	if !json.Valid(data) {
		var v any
		return json.Unmarshal(data, &v) // says where
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	type level struct {
		keys map[string]bool // nil for an array
		key  bool            // the next token is a key
	}
	var open []level
	for {
		token, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		top := len(open) - 1
		if s, ok := token.(string); ok && top >= 0 && open[top].key {
			if open[top].keys[s] {
				return fmt.Errorf("key %q is there twice", s)
			}
			open[top].keys[s], open[top].key = true, false
			continue
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{keys: make(map[string]bool), key: true})
			continue
		case json.Delim('['):
			open = append(open, level{})
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:top]
		}
		if top = len(open) - 1; top >= 0 {
			open[top].key = open[top].keys != nil
		}
	}
}
