package manifest

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// The two profiles of the schema, as their files stand beside this one.
var (
	//go:embed schema-1.0.json
	schemaText []byte
	//go:embed schema-1.0-publishable.json
	publishableText []byte
)

// Profile says what a document must hold. The zero value is the base profile of
// schema 1.0, which every manifest that this package writes holds. A Profile is
// plain data, safe for concurrent use.
type Profile struct {
	// Publishable adds every presence rule of the published references.
	Publishable bool
	// References takes away each value that no published reference has, those
	// that the schema marks x-proposed.
	References bool
}

// String is base or publishable, with "strict references" where that is asked for.
func (p Profile) String() string {
	name := "base profile"
	if p.Publishable {
		name = "publishable profile"
	}
	if p.References {
		name += ", strict references"
	}
	return name
}

// Schema is the JSON Schema (2020-12) of the profile. [Profile.References] has
// none of its own: what it takes away is marked x-proposed. The caller may
// change the slice.
func (p Profile) Schema() []byte {
	return bytes.Clone(p.text())
}

func (p Profile) text() []byte {
	if p.Publishable {
		return publishableText
	}
	return schemaText
}

// compiled are the schemas of the profiles. Compiling takes milliseconds, so it
// waits until somebody validates.
var compiled = func() map[Profile]func() (map[string]*jsonschema.Schema, error) {
	all := make(map[Profile]func() (map[string]*jsonschema.Schema, error))
	for _, p := range []Profile{{}, {Publishable: true}, {References: true}, {Publishable: true, References: true}} {
		all[p] = sync.OnceValues(p.compile)
	}
	return all
}()

// compile returns the parts of the schema that are validated against.
func (p Profile) compile() (map[string]*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(p.text()))
	if err != nil {
		return nil, fmt.Errorf("read embedded schema: %w", err)
	}
	if p.References {
		doc = seenOnly(doc)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // nothing is ever fetched
	if err := c.AddResource("manifest.json", doc); err != nil {
		return nil, fmt.Errorf("read embedded schema: %w", err)
	}
	parts := make(map[string]*jsonschema.Schema)
	for _, name := range []string{KindRun, KindExperiment, "subject", "environment"} {
		if parts[name], err = c.Compile("manifest.json#/$defs/" + name); err != nil {
			return nil, fmt.Errorf("compile embedded schema: %w", err)
		}
	}
	return parts, nil
}

// seenOnly takes out of a schema what it marks x-proposed: a list of values of
// an enumeration, or true for all that the schema there would allow.
func seenOnly(node any) any {
	switch n := node.(type) {
	case []any:
		for i, v := range n {
			n[i] = seenOnly(v)
		}
	case map[string]any:
		proposed, values := n["x-proposed"], n["enum"]
		if proposed == true {
			return false
		}
		if list, ok := proposed.([]any); ok {
			seen, _ := values.([]any)
			n["enum"] = slices.DeleteFunc(slices.Clone(seen), func(v any) bool { return slices.Contains(list, v) })
		}
		for key, v := range n {
			n[key] = seenOnly(v)
		}
	}
	return node
}

// Problem is one place of a document that breaks a [Profile].
type Problem struct {
	Path    string // JSON pointer into the bare manifest, / for all of it
	Line    int    // in the text that was given, from 1; 0 where it is not known
	Message string
}

// Report is what [Profile.Check] found.
type Report struct {
	Kind      string // run or experiment; empty where the document says neither
	Enveloped bool   // the envelope of the publishing site was around it
	Problems  []Problem
}

// Check finds everything in data that breaks the profile, sorted by path. A text
// that is no JSON has one problem, without a path. The error is one of our own.
//
// The envelope that the publishing site puts around a run is unwrapped; the
// envelope's own fields are the site's and are not looked at.
func (p Profile) Check(data []byte) (*Report, error) {
	_, report, err := p.check(data)
	return report, err
}

// check is [Profile.Check] that also returns the bare document.
func (p Profile) check(data []byte) (bare []byte, report *Report, err error) {
	report = &Report{}
	var wrong *textError
	if err := checkDocument(data); errors.As(err, &wrong) {
		report.Problems = []Problem{{Line: wrong.line, Message: wrong.message}}
		return nil, report, nil
	}
	bare, report.Enveloped = unwrap(data)
	found, err := p.violations(bare, report)
	if err != nil {
		return nil, nil, err
	}
	paths := make([]string, len(found))
	for i, v := range found {
		paths[i] = v.path
	}
	for i, line := range Lines(data, paths) {
		report.Problems = append(report.Problems, Problem{found[i].path, line, found[i].message})
	}
	return bare, report, nil
}

// violations validates a bare document and fills in its kind.
func (p Profile) violations(bare []byte, report *Report) ([]violation, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(bare))
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	object, ok := doc.(map[string]any)
	if !ok {
		return []violation{{"/", "a manifest is a JSON object"}}, nil
	}
	name, _ := object["kind"].(string)
	if name != KindRun && name != KindExperiment {
		return []violation{{"/kind", "value must be one of 'run', 'experiment'"}}, nil
	}
	report.Kind = name
	return violations(p, name, doc)
}

// Validate is [Profile.Check] with what is wrong as an error: one line each,
// that begins with the JSON pointer of the place.
func (p Profile) Validate(data []byte) (enveloped bool, err error) {
	report, err := p.Check(data)
	if err != nil {
		return false, err
	}
	return report.Enveloped, report.err()
}

// Validate is [Profile.Validate] of the base profile. Safe for concurrent use.
func Validate(data []byte) (enveloped bool, err error) {
	return Profile{}.Validate(data)
}

// err is nil where nothing is wrong.
func (r *Report) err() error {
	var lines []string
	for _, p := range r.Problems {
		if p.Path == "" {
			return fmt.Errorf("read manifest: line %d: %s", p.Line, p.Message)
		}
		lines = append(lines, p.Path+": "+p.Message)
	}
	if lines == nil {
		return nil
	}
	return errors.New(strings.Join(lines, "\n"))
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
// against a named part of a profile. They are sorted by path.
func violations(p Profile, name string, value any) ([]violation, error) {
	parts, err := compiled[p]()
	if err != nil {
		return nil, err
	}
	err = parts[name].Validate(value)
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
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(a.message, b.message))
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
