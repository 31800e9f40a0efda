package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// jsonWriter is Python's json.dumps.
type jsonWriter struct {
	scope
	strings.Builder
	ascii, sort, pretty bool
	indent              string
	item, key           string // what follows a value and a key
}

// write writes a value; line begins a line at its depth.
func (w *jsonWriter) write(v any, line string) error {
	if err := w.enter(); err != nil {
		return err
	}
	defer w.leave()
	if t, ok := text(v); ok {
		w.text(t)
		return w.made(len(t))
	}
	switch v := v.(type) {
	case nil:
		w.WriteString("null")
	case bool:
		w.WriteString(strconv.FormatBool(v))
	case int:
		w.WriteString(strconv.Itoa(v))
	case float64:
		w.WriteString(jsonFloat(v))
	case *sequence:
		if v.kind > tuple {
			return fmt.Errorf("object of type %s is not JSON serializable", typeName(v))
		}
		return w.list(v.items, line)
	case *dict:
		return w.dict(v, line)
	default:
		return fmt.Errorf("object of type %s is not JSON serializable", typeName(v))
	}
	return nil
}

// made counts what has been written of one value.
func (w *jsonWriter) made(n int) error {
	if w.Len() > maxOutput {
		return errTooLong
	}
	return w.run.make(n)
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return floatText(f)
}

// line ends what stands before a member and begins its line.
func (w *jsonWriter) line(i int, line string) error {
	if i > 0 {
		w.WriteString(w.item)
	}
	if w.pretty {
		w.WriteString(line)
	}
	return w.made(len(line) + len(w.item))
}

func (w *jsonWriter) list(all []any, line string) error {
	if len(all) == 0 {
		w.WriteString("[]")
		return nil
	}
	w.WriteByte('[')
	for i, v := range all {
		if err := w.line(i, line+w.indent); err != nil {
			return err
		}
		if err := w.write(v, line+w.indent); err != nil {
			return err
		}
	}
	if w.pretty {
		w.WriteString(line)
	}
	w.WriteByte(']')
	return nil
}

func (w *jsonWriter) dict(d *dict, line string) error {
	if len(d.keys) == 0 {
		w.WriteString("{}")
		return nil
	}
	order := make([]int, len(d.keys))
	for i := range order {
		order[i] = i
	}
	if w.sort {
		var failed error
		slices.SortStableFunc(order, func(i, j int) int {
			c, err := compare(w.scope, d.keys[i], d.keys[j], "<")
			failed = errors.Join(failed, err)
			return c
		})
		if failed != nil {
			return failed
		}
	}
	w.WriteByte('{')
	for i, j := range order {
		if err := w.line(i, line+w.indent); err != nil {
			return err
		}
		key, err := jsonKey(d.keys[j])
		if err != nil {
			return err
		}
		w.text(key)
		w.WriteString(w.key)
		if err := w.made(len(key) + len(w.key)); err != nil {
			return err
		}
		if err := w.write(d.values[j], line+w.indent); err != nil {
			return err
		}
	}
	if w.pretty {
		w.WriteString(line)
	}
	w.WriteByte('}')
	return nil
}

func jsonKey(v any) (string, error) {
	if t, ok := text(v); ok {
		return t, nil
	}
	switch v := v.(type) {
	case nil:
		return "null", nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case float64:
		return jsonFloat(v), nil
	}
	return "", fmt.Errorf("keys must be str, int, float, bool or None, not %s", typeName(v))
}

func (w *jsonWriter) text(t string) {
	w.WriteByte('"')
	for _, r := range t {
		switch {
		case r == '"' || r == '\\':
			w.WriteByte('\\')
			w.WriteRune(r)
		case r == '\n':
			w.WriteString(`\n`)
		case r == '\r':
			w.WriteString(`\r`)
		case r == '\t':
			w.WriteString(`\t`)
		case r == '\f':
			w.WriteString(`\f`)
		case r == '\b':
			w.WriteString(`\b`)
		case r < 0x20 || w.ascii && r > 0x7e && r < 0x10000:
			fmt.Fprintf(w, `\u%04x`, r)
		case w.ascii && r >= 0x10000:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(w, `\u%04x\u%04x`, high, low)
		default:
			w.WriteRune(r)
		}
	}
	w.WriteByte('"')
}

// Kwargs reads the JSON object of --chat-template-kwargs for [Template.Render]:
// the members of objects keep their order, which a template may show, and 1 is
// another number than 1.0. An empty text or null has no arguments.
func Kwargs(object []byte) (map[string]any, error) {
	if len(bytes.TrimSpace(object)) == 0 {
		return nil, nil
	}
	v, err := decode(object)
	if err != nil {
		return nil, fmt.Errorf("chat template kwargs: %w", err)
	}
	if v == nil {
		return nil, nil
	}
	d, ok := v.(*dict)
	if !ok {
		return nil, fmt.Errorf("chat template kwargs: want a JSON object, got %.40q", object)
	}
	kwargs := make(map[string]any, len(d.keys))
	for i, key := range d.keys {
		kwargs[key.(string)] = d.values[i]
		if f, ok := d.values[i].(float64); ok {
			kwargs[key.(string)] = exact(f)
		}
	}
	return kwargs, nil
}

// exact is a float that was written as one: fromGo takes a float64 for an integer
// where it can.
type exact float64

// decode is Python's json.loads.
func decode(data []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	v, err := decodeValue(decoder)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

func decodeValue(decoder *json.Decoder) (any, error) {
	token, err := decoder.Token()
	if err == io.EOF {
		return nil, io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Number:
		return decodeNumber(t)
	case json.Delim:
		if t == '[' {
			return decodeList(decoder)
		}
		return decodeDict(decoder)
	}
	return token, nil // nil, bool, string
}

func decodeNumber(n json.Number) (any, error) {
	if !strings.ContainsAny(n.String(), ".eE") {
		i, err := strconv.Atoi(n.String())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", n, errOverflow)
		}
		return i, nil
	}
	f, err := n.Float64()
	if errors.Is(err, strconv.ErrRange) {
		err = nil // infinite, as Python reads it
	}
	return f, err
}

func decodeList(decoder *json.Decoder) (any, error) {
	all := newList()
	for decoder.More() {
		v, err := decodeValue(decoder)
		if err != nil {
			return nil, err
		}
		all.items = append(all.items, v)
	}
	_, err := decoder.Token()
	return all, err
}

func decodeDict(decoder *json.Decoder) (any, error) {
	d := &dict{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		v, err := decodeValue(decoder)
		if err != nil {
			return nil, err
		}
		if err := d.set(key, v); err != nil {
			return nil, err
		}
	}
	_, err := decoder.Token()
	return d, err
}

// fromGo takes an argument of Render as a value.
func fromGo(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, string, int, *dict, *sequence:
		return v, nil
	case float64:
		// encoding/json makes every number a float64.
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int(v), nil
		}
		return v, nil
	case exact:
		return float64(v), nil
	case json.Number:
		return decodeNumber(v)
	case json.RawMessage:
		return decode(v)
	case []any:
		all := newList()
		for _, item := range v {
			value, err := fromGo(item)
			if err != nil {
				return nil, err
			}
			all.items = append(all.items, value)
		}
		return all, nil
	case map[string]any:
		if len(v) > 1 {
			return nil, errors.New("a Go map has lost the order of its members; want what Kwargs returns, or a json.RawMessage")
		}
		d := &dict{}
		for key, item := range v {
			value, err := fromGo(item)
			if err != nil {
				return nil, err
			}
			if err := d.set(key, value); err != nil {
				return nil, err
			}
		}
		return d, nil
	}
	return nil, fmt.Errorf("a %T: not supported; want what JSON can hold", v)
}
