package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// This file reads JSON objects that are given key by key, as vLLM's parser takes them:
// --x.a.b VALUE sets {"a": {"b": VALUE}}, --x.l+ p,q appends to a list.

// objectFlag is one flag given by keys. A flag that is typed in two ways (shortened and
// in full) makes two objects, of which the one begun last counts: so it is in vLLM.
type objectFlag struct {
	spec  int
	typed string // the name as typed, with - for _
	root  *object
}

// takeKey stores the value behind --x.key and returns how many words of rest it used.
func (r *argReader) takeKey(w word, rest []string) (used int) {
	spec := r.specs[w.spec]
	r.last, r.lastWord = w.spec, w
	value := w.value
	if !w.hasValue {
		if len(rest) == 0 || !r.names.mayFollowKey(rest[0]) {
			r.missingKeyValue(w, spec)
			return 0
		}
		value, used = rest[0], 1
	}
	typed, path, _ := strings.Cut(dashes(w.dashed), ".")
	path, appended := strings.CutSuffix(path, "+")
	var v any
	if appended {
		v = textList(value)
	} else {
		v = r.keyValue(w, value)
	}
	if !utf8.ValidString(path) || !utf8.ValidString(value) {
		r.fail(spec.Name, fmt.Sprintf("--%s.KEY: a key or value is not UTF-8", spec.Name), "")
		return used
	}
	keys := strings.Split(path, ".")
	for _, k := range slices.Backward(keys) {
		v = &object{keys: []string{k}, values: map[string]any{k: v}}
	}
	for _, k := range r.object(w.spec, typed).merge(v.(*object)) {
		r.notes = append(r.notes, fmt.Sprintf("--%s.%s is given more than once: the last one counts", spec.Name, printable(k)))
	}
	return used
}

func (r *argReader) missingKeyValue(w word, spec flagSpec) {
	r.fail(spec.Name, quoteWord(w.dashed)+" needs a value", fmt.Sprintf("write --%s.KEY=VALUE if the value begins with -", spec.Name))
}

// mayFollowKey tells whether arg may be the value behind a key: everything but a flag.
func (n flagNames) mayFollowKey(arg string) bool {
	f := n.classify(arg).form
	return f == formValue || f == formUnknown && !strings.HasPrefix(arg, "--")
}

// object finds the object of a flag that was typed so, or begins it.
func (r *argReader) object(spec int, typed string) *object {
	for _, o := range r.objects {
		if o.typed == typed {
			return o.root
		}
	}
	o := &objectFlag{spec, typed, &object{values: map[string]any{}}}
	r.objects = append(r.objects, o)
	return o.root
}

// setObjects makes the objects the values of their flags, behind all that was given
// whole: vLLM adds them to the end of the line.
func (r *argReader) setObjects() {
	for _, o := range r.objects {
		spec := r.specs[o.spec]
		if r.given[o.spec].times > 0 {
			r.notes = append(r.notes, fmt.Sprintf("--%s is given in two ways: only its keys (as in %s.KEY) count", spec.Name, printable(o.typed)))
		}
		r.given[o.spec].times = 1
		r.last = o.spec
		r.set(o.spec, []string{string(appendJSON(nil, o.root))})
	}
}

// object is a JSON object that keeps the order of its keys. A value is an *object, a
// list or a json.RawMessage, so that a number keeps its spelling.
type object struct {
	keys   []string
	values map[string]any
}

type list []json.RawMessage

// merge lays other over o: objects are merged, lists joined, and everything else is
// replaced. It returns the paths of replaced keys.
func (o *object) merge(other *object) (replaced []string) {
	for _, k := range other.keys {
		old, has := o.values[k]
		v := other.values[k]
		switch v := v.(type) {
		case *object:
			if old, ok := old.(*object); ok {
				for _, sub := range old.merge(v) {
					replaced = append(replaced, k+"."+sub)
				}
				continue
			}
		case list:
			if old, ok := old.(list); ok {
				o.values[k] = append(old[:len(old):len(old)], v...)
				continue
			}
		}
		if has {
			replaced = append(replaced, k)
		} else {
			o.keys = append(o.keys, k)
		}
		o.values[k] = v
	}
	return replaced
}

func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case *object:
		b = append(b, '{')
		for i, k := range v.keys {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(append(b, jsonText(k)...), ": "...)
			b = appendJSON(b, v.values[k])
		}
		return append(b, '}')
	case list:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(b, e...)
		}
		return append(b, ']')
	}
	return append(b, v.(json.RawMessage)...)
}

// jsonText is s as a JSON string.
func jsonText(s string) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// textList is the value of --x.l+: texts between commas, numbers among them.
func textList(value string) (out list) {
	for s := range strings.SplitSeq(value, ",") {
		out = append(out, jsonText(s))
	}
	return out
}

// keyValue reads the value behind a key: JSON, else a whole number as Python's int()
// or with a suffix such as 1k, else text.
func (r *argReader) keyValue(w word, s string) any {
	if json.Valid([]byte(s)) {
		return tree(gjson.Parse(s))
	}
	spec := r.specs[w.spec]
	switch trimmed := strings.TrimSpace(s); {
	case trimmed == "NaN" || trimmed == "Infinity" || trimmed == "-Infinity":
		r.fail(spec.Name, fmt.Sprintf("--%s.KEY: %s is no JSON number", spec.Name, trimmed), "")
	case strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "["):
		r.notes = append(r.notes, fmt.Sprintf("--%s.KEY: a value that begins with %c is not JSON, so it is sent as text", spec.Name, trimmed[0]))
	}
	if n, ok := wholeNumber(s); ok {
		return json.RawMessage(n)
	}
	return jsonText(s)
}

// tree takes a valid JSON value apart.
func tree(v gjson.Result) any {
	switch {
	case v.IsObject():
		o := &object{values: map[string]any{}}
		v.ForEach(func(k, e gjson.Result) bool {
			if _, has := o.values[k.String()]; !has {
				o.keys = append(o.keys, k.String())
			}
			o.values[k.String()] = tree(e) // the last of equal keys counts
			return true
		})
		return o
	case v.IsArray():
		l := list{}
		v.ForEach(func(_, e gjson.Result) bool {
			l = append(l, json.RawMessage(e.Raw))
			return true
		})
		return l
	}
	return json.RawMessage(v.Raw)
}

var suffixed = regexp.MustCompile(`^(\d+)(\.\d+)?([kKmMgGtT])$`)

// wholeNumber reads 1k and 2m (powers of 1000, also of fractions), 1K and 2M (powers of
// 1024), and what Python's int() takes.
func wholeNumber(s string) (number string, ok bool) {
	s = strings.TrimSpace(s)
	if m := suffixed.FindStringSubmatch(s); m != nil {
		power := strings.Index("kmgt", strings.ToLower(m[3])) + 1
		if m[3] != strings.ToLower(m[3]) {
			n, err := strconv.ParseInt(m[1], 10, 64)
			if m[2] != "" || err != nil || n > math.MaxInt64>>(10*power) {
				return "", false
			}
			return strconv.FormatInt(n<<(10*power), 10), true
		}
		f, err := strconv.ParseFloat(m[1]+m[2], 64)
		if f *= math.Pow(1000, float64(power)); err != nil || f >= math.MaxInt64 {
			return "", false
		}
		return strconv.FormatInt(int64(f), 10), true
	}
	if canonical, problem := canonicalValue(kindInt, s); problem == "" {
		return canonical, true
	}
	return "", false
}
