package runfile

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"strings"
)

// The kinds of file. The last two hold facts, which run files name.
const (
	KindRun        = "run"
	KindExperiment = "experiment"
	KindSubject    = "subject" // see [manifest.ParseSubject]
	KindHost       = "host"    // see [manifest.ParseHost]
)

// Kinds lists those that have a schema of their own.
func Kinds() []string { return []string{KindRun, KindExperiment} }

//go:embed starter-run.yaml
var starterRun []byte

//go:embed starter-experiment.yaml
var starterExperiment []byte

//go:embed starter-subject.yaml
var starterSubject []byte

// Starter is a file to begin with, with comments; of a kind that has none, such as
// that of a host, which is found and not written, it is nil.
func Starter(kind string) []byte {
	return bytes.Clone(map[string][]byte{KindRun: starterRun, KindExperiment: starterExperiment, KindSubject: starterSubject}[kind])
}

// member is one entry of an object of the schema, whose order is kept.
type member struct {
	key   string
	value any
}

type members []member

func (m members) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, e := range m {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := plainJSON(e.key)
		if err != nil {
			return nil, err
		}
		value, err := plainJSON(e.value)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// plainJSON is v as JSON, with < and > as they are.
func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// Schema is the JSON Schema (2020-12) of a kind of file, for editors.
func Schema(kind string, known []Flag) ([]byte, error) {
	g := &schemas{flags: known}
	root, title := runShape(), "A benchmark run of servebench (servebench serve -f FILE)"
	if kind == KindExperiment {
		root, title = experimentShape(), "An experiment of servebench (servebench sweep -f FILE)"
	}
	body := g.object(root)
	doc := append(members{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"title", title},
	}, body...)
	if len(g.defs) > 0 {
		doc = append(doc, member{"$defs", g.defs})
	}
	compact, err := plainJSON(doc)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, compact, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// schemas writes shapes as schemas. Named types stand once, under $defs.
type schemas struct {
	flags []Flag
	defs  members
}

func (g *schemas) object(s *shape) members {
	var properties members
	var required []string
	for _, f := range s.fields {
		sub := g.of(f.shape)
		if f.help != "" {
			sub = append(members{{"description", f.help}}, sub...)
		}
		properties = append(properties, member{f.key, sub})
		if f.required {
			required = append(required, f.key)
		}
	}
	out := members{{"type", "object"}, {"additionalProperties", false}}
	if required != nil {
		out = append(out, member{"required", required})
	}
	return append(out, member{"properties", properties})
}

// ref defines a type once and points at it.
func (g *schemas) ref(name string, body func() members) members {
	key := strings.ToLower(name[:1]) + name[1:]
	known := false
	for _, d := range g.defs {
		known = known || d.key == key
	}
	if !known {
		at := len(g.defs)
		g.defs = append(g.defs, member{key, nil})
		g.defs[at].value = body()
	}
	return members{{"$ref", "#/$defs/" + key}}
}

// goDuration is what time.ParseDuration takes.
const goDuration = `^([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h)(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))*$`

var scalarTypes = []string{"string", "number", "boolean"}

func (g *schemas) of(s *shape) members {
	if s.file {
		inner := *s
		inner.file = false
		return members{{"anyOf", []any{members{{"type", "string"}}, g.of(&inner)}}}
	}
	switch s.kind {
	case text:
		if s.choices != nil {
			return members{{"type", "string"}, {"enum", s.choices}}
		}
		return members{{"type", "string"}}
	case scalar:
		return members{{"type", scalarTypes}}
	case whole, number:
		out := members{{"type", map[shapeKind]string{whole: "integer", number: "number"}[s.kind]}}
		if s.min != nil {
			out = append(out, member{"minimum", *s.min})
		}
		if s.max != nil {
			out = append(out, member{"maximum", *s.max})
		}
		return out
	case truth:
		return members{{"type", "boolean"}}
	case duration:
		return members{{"type", "string"}, {"pattern", goDuration}}
	case command:
		return members{{"anyOf", []any{
			members{{"type", "array"}, {"minItems", 1}, {"items", members{{"type", scalarTypes}}}},
			members{{"type", "string"}, {"minLength", 1}},
		}}}
	case list:
		return members{{"type", "array"}, {"items", g.of(s.of)}}
	case dictionary:
		return members{{"type", "object"}, {"additionalProperties", g.of(s.of)}}
	case object:
		return g.ref(s.name, func() members { return g.object(s) })
	case flags:
		return g.ref("bench", g.bench)
	}
	return members{}
}

// bench has the flags, each under its name and under that with underscores.
func (g *schemas) bench() members {
	var properties members
	for _, f := range g.flags {
		help := f.Help
		if f.Default != "" {
			help += "; " + f.Default + " unless given"
		}
		value := append(members{{"description", help}}, f.schema()...)
		properties = append(properties, member{f.Name, value})
		if under := strings.ReplaceAll(f.Name, "-", "_"); under != f.Name {
			properties = append(properties, member{under, members{{"$ref", "#/$defs/bench/properties/" + f.Name}}})
		}
	}
	return members{{"type", "object"}, {"additionalProperties", false}, {"properties", properties}}
}

// schema is that of a flag's value.
func (f Flag) schema() members {
	one := members{{"type", scalarTypes}}
	switch {
	case f.Switch:
		return members{{"type", "boolean"}}
	case len(f.Choices) > 0:
		one = members{{"enum", f.Choices}}
	case f.Kind == "whole":
		one = members{{"type", []string{"integer", "string"}}}
	case f.Kind == "number":
		one = members{{"type", []string{"number", "string"}}}
	case f.Object:
		one = members{{"type", append([]string{"object"}, scalarTypes...)}}
	}
	if f.Several {
		return members{{"anyOf", []any{members{{"type", "array"}, {"items", one}}, one}}}
	}
	return one
}
