package runfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/servebench/servebench/internal/edit"
)

// This file is what a file may hold, in one description: the types of this
// package, their tags (json, help, choices, min, max, file) and the flags that the
// caller knows. Checking, decoding and the JSON Schema all read it.

// Flag is a flag of `servebench serve`, which is a key of the section bench. It
// is plain data.
type Flag struct {
	Name    string // without dashes
	Help    string
	Default string // as it would be typed; "" is none
	// Switch takes true or false, Several a list of words, Object a mapping
	// beside its text; the rest take one value.
	Switch, Several, Object bool
	Kind                    string // whole, number, json, or "" for text
	Choices                 []string
}

// Given is one flag that a file sets.
type Given struct {
	Name  string
	Words []string // as they would follow `servebench serve`
	At    string   // FILE:LINE:COLUMN
}

// Duration is written as 20m or 1.5s.
type Duration time.Duration

// MarshalJSON writes the text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON reads the text.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	v, err := time.ParseDuration(s)
	*d = Duration(v)
	return err
}

// Scalar is a word or a number, kept as it is written: 1.10 stays 1.10.
type Scalar string

// Command is a list of words, or one text that is split as a shell would.
type Command []string

type shapeKind int

const (
	anything shapeKind = iota
	text
	scalar
	whole
	number
	truth
	duration
	command
	list
	object     // of fields that are known
	dictionary // of any keys
	flags
)

// want is what a value of the kind looks like, in a message.
var want = map[shapeKind]string{
	text: "text", scalar: "a word or a number", whole: "a whole number", number: "a number", truth: "true or false",
	duration: "a duration such as 20m or 1.5s", command: "a list of words, or one text", list: "a list", object: "a mapping",
	dictionary: "a mapping", flags: "a mapping",
}

// shape describes a value.
type shape struct {
	kind    shapeKind
	fields  []field // of an object
	of      *shape  // the elements of a list or dictionary
	choices []string
	min     *int
	max     *int
	file    bool   // may be the path of a file that holds it
	name    string // of the Go type
}

type field struct {
	key, help string
	shape     *shape
	required  bool
}

// shapeOf describes a Go type.
func shapeOf(t reflect.Type) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[Duration]():
		return &shape{kind: duration}
	case reflect.TypeFor[Scalar]():
		return &shape{kind: scalar}
	case reflect.TypeFor[Command]():
		return &shape{kind: command}
	case reflect.TypeFor[Bench]():
		return &shape{kind: flags}
	}
	switch t.Kind() {
	case reflect.String:
		return &shape{kind: text}
	case reflect.Int, reflect.Int64:
		return &shape{kind: whole}
	case reflect.Float64:
		return &shape{kind: number}
	case reflect.Bool:
		return &shape{kind: truth}
	case reflect.Slice:
		return &shape{kind: list, of: shapeOf(t.Elem())}
	case reflect.Map:
		return &shape{kind: dictionary, of: shapeOf(t.Elem())}
	case reflect.Struct:
		return structShape(t)
	}
	return &shape{kind: anything}
}

func structShape(t reflect.Type) *shape {
	s := &shape{kind: object, name: t.Name()}
	for f := range t.Fields() {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "" || key == "-" {
			continue
		}
		sub := shapeOf(f.Type)
		if c := f.Tag.Get("choices"); c != "" {
			sub.choices = strings.Split(c, ",")
		}
		if m, err := strconv.Atoi(f.Tag.Get("min")); err == nil {
			sub.min = &m
		}
		if m, err := strconv.Atoi(f.Tag.Get("max")); err == nil {
			sub.max = &m
		}
		sub.file = f.Tag.Get("file") != ""
		help := f.Tag.Get("help")
		if help == "" {
			help = helpOf[t.Name()+"."+key]
		}
		s.fields = append(s.fields, field{key, help, sub, f.Tag.Get("required") != ""})
	}
	return s
}

// helpOf has the help of types that belong to the manifest.
var helpOf = map[string]string{
	"Subject.identifier":                      "repository of the model, as org/name",
	"Subject.revision":                        "commit or tag",
	"Subject.revision_kind":                   "commit, tag or undeclared; told by the revision",
	"Subject.type":                            "model",
	"Subject.source":                          "huggingface, local or endpoint",
	"Subject.quantization":                    "how the weights are quantised",
	"Subject.parameter_count_total":           "parameters in all",
	"Subject.parameter_count_active":          "parameters that a token uses",
	"Subject.modifications":                   "what was changed of the model, in sentences",
	"Subject.modalities":                      "text, image, …",
	"Subject.architecture":                    "class of the model",
	"Subject.adapters":                        "adapters on top",
	"Environment.os":                          "PRETTY_NAME of os-release",
	"Environment.accelerators":                "groups of equal devices",
	"Environment.topology":                    "a sentence on how engines and devices belong together",
	"PrefixBehavior.cache_state":              "cold or warm-host",
	"PrefixBehavior.reset_policy":             "server_restart or none",
	"LoadBalancer.type":                       "what stands in front of the replicas",
	"VirtualEnvironment.python":               "version of Python",
	"PrefixBehavior.repetition_ratio":         "share of requests that repeat an earlier prompt",
	"PrefixBehavior.cache_enabled":            "whether the server's prefix cache is on",
	"Quantization.format":                     "such as FP8 per tensor",
	"Quantization.application":                "checkpoint or runtime weight quantization",
	"VirtualEnvironment.dependency_lock_hash": "sha256 of the lock file",
}

// checker holds nodes against shapes and makes plain values of them.
type checker struct {
	opts  Options
	flags map[string]Flag
	given []Given
	errs  []error
}

func (c *checker) failf(at place, format string, args ...any) {
	err := fmt.Errorf("%v: %s", at, fmt.Sprintf(format, args...))
	if !slices.ContainsFunc(c.errs, func(e error) bool { return e.Error() == err.Error() }) {
		c.errs = append(c.errs, err)
	}
}

func (c *checker) err() error { return errors.Join(c.errs...) }

// value checks n and returns what encoding/json would decode into the Go type;
// nil where it is wrong.
func (c *checker) value(n *node, s *shape, path string) any {
	if s.file && n.kind == textNode {
		return c.file(n, s, path)
	}
	wrong := func() any {
		c.failf(n.at, "%s is %s; want %s", path, shown(n), want[s.kind])
		return nil
	}
	switch s.kind {
	case text:
		if n.kind == numberNode || n.kind == boolNode {
			c.failf(n.at, "%s is text; put the value in quotes: %q", path, n.text)
			return nil
		}
		if n.kind != textNode {
			return wrong()
		}
		return c.choice(n, s, path)
	case scalar:
		if n.kind != textNode && n.kind != numberNode && n.kind != boolNode {
			return wrong()
		}
		return n.text
	case whole, number:
		return c.number(n, s, path)
	case truth:
		if n.kind != boolNode {
			return wrong()
		}
		return n.text == "true"
	case duration:
		d, err := time.ParseDuration(n.text)
		if n.kind != textNode || err != nil || d < 0 {
			return wrong()
		}
		return n.text
	case command:
		return c.command(n, path)
	case list:
		if n.kind != listNode {
			return wrong()
		}
		out := []any{}
		for i, item := range n.items {
			out = append(out, c.value(item, s.of, fmt.Sprintf("%s[%d]", path, i)))
		}
		return out
	case dictionary, object, flags:
		if n.kind != mapNode {
			return wrong()
		}
		return c.mapping(n, s, path)
	}
	return n.plain()
}

func (c *checker) mapping(n *node, s *shape, path string) any {
	switch s.kind {
	case flags:
		return c.bench(n)
	case object:
		before := len(c.errs)
		out := c.object(n, s, path)
		if s.name == "Subject" && len(c.errs) == before {
			return c.subject(n, out, path)
		}
		return out
	}
	out := map[string]any{}
	for _, e := range n.entries {
		out[e.key] = c.value(e.value, s.of, join(path, e.key))
	}
	return out
}

// shown is a value in a message.
func shown(n *node) string {
	switch n.kind {
	case textNode, numberNode, boolNode:
		return strconv.Quote(clip(n.text))
	}
	return n.kind.noun()
}

func clip(s string) string {
	if r := []rune(s); len(r) > 80 {
		return string(r[:79]) + "…"
	}
	return s
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func (c *checker) choice(n *node, s *shape, path string) any {
	if len(s.choices) > 0 && !slices.Contains(s.choices, n.text) {
		c.failf(n.at, "%s is %s; want %s", path, shown(n), strings.Join(s.choices, " or "))
		return nil
	}
	return n.text
}

func (c *checker) number(n *node, s *shape, path string) any {
	v, ok := decimal(n.text)
	_, notWhole := json.Number(v).Int64()
	if n.kind != numberNode || !ok || s.kind == whole && notWhole != nil {
		c.failf(n.at, "%s is %s; want %s", path, shown(n), want[s.kind])
		return nil
	}
	if f, err := json.Number(v).Float64(); err != nil || s.min != nil && f < float64(*s.min) {
		least := "a smaller one"
		if s.min != nil {
			least = fmt.Sprintf("%d or more", *s.min)
		}
		c.failf(n.at, "%s is %s; want %s", path, n.text, least)
		return nil
	} else if s.max != nil && f > float64(*s.max) {
		c.failf(n.at, "%s is %s; want %d at most", path, n.text, *s.max)
		return nil
	}
	return json.Number(v)
}

func (c *checker) command(n *node, path string) any {
	switch n.kind {
	case textNode:
		words, err := Words(n.text)
		if err != nil {
			c.failf(n.at, "%s: %v", path, err)
		}
		return words
	case listNode:
		words := []string{}
		for i, item := range n.items {
			if w, ok := c.value(item, &shape{kind: scalar}, fmt.Sprintf("%s[%d]", path, i)).(string); ok {
				words = append(words, w)
			}
		}
		return words
	}
	c.failf(n.at, "%s is %s; want %s", path, shown(n), want[command])
	return nil
}

// object checks a mapping whose keys are known.
func (c *checker) object(n *node, s *shape, path string) any {
	out := map[string]any{}
	for _, e := range n.entries {
		i := slices.IndexFunc(s.fields, func(f field) bool { return f.key == e.key })
		if i < 0 {
			c.unknown(e, s, path)
			continue
		}
		if e.value.kind == nullNode {
			c.failf(e.at, "%s has no value; want one, or leave the key out", join(path, e.key))
			continue
		}
		out[e.key] = c.value(e.value, s.fields[i].shape, join(path, e.key))
	}
	for _, f := range s.fields {
		if f.required && n.get(f.key) == nil {
			c.failf(n.at, "%s is missing", join(path, f.key))
		}
	}
	return out
}

// unknown complains about a key and says which it may have been meant to be.
func (c *checker) unknown(e entry, s *shape, path string) {
	known := make([]string, len(s.fields))
	for i, f := range s.fields {
		known[i] = f.key
	}
	hint := ""
	if near := nearest(e.key, known); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", join(path, near))
	} else if _, ok := c.flags[dashes(e.key)]; ok && s.name == "Run" {
		hint = "; it is a flag: did you mean " + join(path, "bench."+dashes(e.key)) + "?"
	} else if len(known) <= 12 {
		hint = "; want one of " + strings.Join(known, ", ")
	}
	c.failf(e.at, "%s is no key that is known%s", join(path, e.key), hint)
}

// bench checks the flags and collects them. What their values mean is the
// flags' own matter.
func (c *checker) bench(n *node) any {
	out := map[string]any{}
	seen := map[string]place{}
	for _, e := range n.entries {
		name := dashes(e.key)
		f, ok := c.flags[name]
		if !ok {
			hint := ""
			if near := nearest(name, slices.Sorted(maps.Keys(c.flags))); near != "" {
				hint = "; did you mean bench." + near + "?"
			}
			c.failf(e.at, "bench.%s is no flag of servebench serve%s", e.key, hint)
			continue
		}
		if first, twice := seen[name]; twice {
			c.failf(e.at, "bench.%s is given twice, first on line %d", name, first.line)
			continue
		}
		seen[name] = e.at
		words, problem := f.words(e.value)
		if problem != "" {
			c.failf(e.value.at, "bench.%s %s", name, problem)
			continue
		}
		c.given = append(c.given, Given{name, words, e.value.at.String()})
		out[name] = e.value.plain()
	}
	return out
}

// words writes a value as it would be typed, or says what is wrong with it.
func (f Flag) words(n *node) (words []string, problem string) {
	name := "--" + f.Name
	switch {
	case n.kind == nullNode:
		return nil, "has no value; want one, or leave the key out"
	case f.Switch && (n.text == "true" || n.text == "false"):
		return []string{name + "=" + n.text}, ""
	case f.Switch:
		return nil, "is " + shown(n) + "; want true or false"
	case f.Several && n.kind == listNode:
		words = []string{name}
		for _, item := range n.items {
			switch {
			case item.kind == listNode || item.kind == mapNode || item.kind == nullNode:
				return nil, "holds " + item.kind.noun() + "; want words, in quotes where they hold a colon"
			case strings.HasPrefix(item.text, "-") && item.kind == textNode:
				return nil, "holds " + shown(item) + "; want words that do not begin with -"
			}
			words = append(words, item.text)
		}
		return words, ""
	case n.kind == mapNode && f.Object:
		b, err := json.Marshal(n.plain())
		if err != nil {
			return nil, "cannot be written as JSON"
		}
		return []string{name + "=" + string(b)}, ""
	case n.kind == listNode:
		return nil, "is a list; want one value"
	case n.kind == mapNode:
		return nil, "is a mapping; want one value"
	}
	return []string{name + "=" + n.text}, ""
}

func dashes(s string) string { return strings.ReplaceAll(s, "_", "-") }

// nearest is the known word that s was probably meant to be, "" without one.
func nearest(s string, known []string) string {
	if len(s) > 60 {
		return ""
	}
	best, limit := "", max(2, len(s)/3)
	if len(s) < 4 {
		limit = 1
	}
	plain := func(w string) string { return strings.ToLower(dashes(w)) }
	for _, k := range known {
		if d := edit.Distance(plain(s), plain(k)); d < limit || d == limit && best == "" {
			best, limit = k, d
		}
	}
	return best
}
