package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// MaxBytes is how long a document may be. One with a thousand runs has some
	// six megabytes.
	MaxBytes = 32 << 20
	maxDepth = 200
	// A float64 has at most 17 digits that matter; more than this many are an
	// attack on whoever computes with them.
	maxNumber = 400
)

// textError is what makes a text no document, and the line.
type textError struct {
	line    int
	message string
}

func (e *textError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.message) }

// checkDocument rejects a text that is no JSON, or one that readers would take
// for different documents: a key twice in an object, of which encoding/json
// would silently take the last, bytes that are not UTF-8, numbers beyond
// float64. Its errors are *textError.
func checkDocument(data []byte) error {
	if len(data) > MaxBytes {
		return &textError{1, fmt.Sprintf("the document has %d bytes; want at most %d", len(data), MaxBytes)}
	}
	if bytes.HasPrefix(data, []byte("\ufeff")) {
		return &textError{1, "the document begins with a byte order mark; want plain UTF-8"}
	}
	if !utf8.Valid(data) {
		return &textError{lineAt(data, invalidByte(data)), "the document is not UTF-8"}
	}
	if !json.Valid(data) {
		return syntaxError(data)
	}
	return checkTokens(data)
}

// invalidByte is the offset of the first byte that is not UTF-8.
func invalidByte(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(data)
}

// syntaxError says where and why data is no JSON.
func syntaxError(data []byte) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return &textError{1, "the document is empty"}
	}
	var v any
	err := json.Unmarshal(data, &v)
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return &textError{1, fmt.Sprint(err)}
	}
	at := min(max(int(syntax.Offset)-1, 0), len(data))
	// Python's json writes these. The scanner stops within the word.
	for _, word := range []string{"NaN", "Infinity"} {
		if from := max(at-len(word), 0); bytes.Contains(data[from:min(at+len(word), len(data))], []byte(word)) {
			return &textError{lineAt(data, at), word + " is no JSON; want a number or null"}
		}
	}
	if strings.Contains(syntax.Error(), "max depth") {
		return &textError{lineAt(data, at), fmt.Sprintf("nested more than %d deep", maxDepth)}
	}
	return &textError{lineAt(data, at), syntax.Error()}
}

// checkTokens finds keys that are there twice, and nesting and numbers beyond
// every use, in a text that is JSON.
func checkTokens(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	fail := func(format string, args ...any) error {
		return &textError{lineAt(data, int(d.InputOffset())), fmt.Sprintf(format, args...)}
	}
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
			return fail("%v", err)
		}
		top := len(open) - 1
		if s, ok := token.(string); ok && top >= 0 && open[top].key {
			if open[top].keys[s] {
				return fail("key %q is there twice", s)
			}
			open[top].keys[s], open[top].key = true, false
			continue
		}
		if n, ok := token.(json.Number); ok && !representable(string(n)) {
			return fail("the number %.40s is beyond float64", n)
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{keys: make(map[string]bool), key: true})
		case json.Delim('['):
			open = append(open, level{})
		case json.Delim('}'), json.Delim(']'):
			open = open[:top]
		}
		if len(open) > maxDepth {
			return fail("nested more than %d deep", maxDepth)
		}
		if token != json.Delim('{') && token != json.Delim('[') && len(open) > 0 {
			open[len(open)-1].key = open[len(open)-1].keys != nil
		}
	}
}

// representable reports whether a number is finite as a float64 and not so
// small that it would be taken for 0.
func representable(n string) bool {
	f, err := strconv.ParseFloat(n, 64)
	mantissa, _, _ := strings.Cut(strings.ToLower(n), "e")
	return err == nil && len(n) <= maxNumber && (f != 0 || strings.Trim(mantissa, "-0.") == "")
}

// lineAt is the line of an offset, from 1.
func lineAt(data []byte, offset int) int {
	return 1 + bytes.Count(data[:min(offset, len(data))], []byte("\n"))
}

// Lines says on which line of a document each JSON pointer leads, from 1. A
// pointer that leads nowhere has the line of what it leads to last. Pointers
// are into the bare manifest; data may have the publishing site's envelope
// around it. What is no JSON has 0 for all.
func Lines(data []byte, pointers []string) []int {
	found := make([]int, len(pointers))
	if len(pointers) == 0 || !json.Valid(data) {
		return found
	}
	_, enveloped := unwrap(data)
	lines := make(map[string]int) // of the places that were asked for, and of those they are in
	places := make([]string, len(pointers))
	for i, pointer := range pointers {
		if enveloped {
			pointer = "/manifest" + pointer
		}
		for token := range strings.SplitSeq(pointer, "/") {
			if token != "" {
				places[i] += "/" + token
				lines[places[i]] = 0
			}
		}
	}
	lines[""] = 0
	eachToken(data, func(path string, line int, _ json.Token, key bool) {
		if _, asked := lines[path]; asked && !key {
			lines[path] = line
		}
	})
	for i, p := range places {
		for lines[p] == 0 && p != "" {
			p = p[:strings.LastIndexByte(p, '/')]
		}
		found[i] = lines[p]
	}
	return found
}

// eachToken calls f for each value and key in JSON values that follow each other, with
// its JSON pointer, "" for the whole (a key has that of its object), and its line. It
// tells whether the text was JSON to its end; what came before has been seen anyway.
func eachToken(data []byte, f func(path string, line int, token json.Token, key bool)) bool {
	type level struct {
		path  string
		array bool
		index int
		key   *string // of the value that follows
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var open []level
	line, counted := 1, 0
	for {
		token, err := d.Token()
		if err != nil {
			return err == io.EOF && len(open) == 0
		}
		at := int(d.InputOffset())
		line, counted = line+bytes.Count(data[counted:at], []byte("\n")), at
		if token == json.Delim('}') || token == json.Delim(']') {
			open = open[:len(open)-1]
			continue
		}
		path := ""
		if len(open) > 0 {
			top := &open[len(open)-1]
			if s, ok := token.(string); ok && !top.array && top.key == nil {
				top.key = &s
				f(top.path, line, token, true)
				continue
			}
			name := strconv.Itoa(top.index)
			if !top.array {
				name, top.key = escape.Replace(*top.key), nil
			}
			top.index++
			path = top.path + "/" + name
		}
		f(path, line, token, false)
		if delim, ok := token.(json.Delim); ok {
			open = append(open, level{path: path, array: delim == '['})
		}
	}
}
