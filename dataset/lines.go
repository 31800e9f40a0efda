package dataset

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"unicode/utf8"
)

// maxLine bounds one line of a file of lines, and one element of an array; a
// longer one is a file of another kind.
const maxLine = 64 << 20

const byteOrderMark = "\ufeff"

// openFile opens a regular file that is to be read; want names its kind in
// messages. It looks before it opens: a FIFO would wait for somebody to write.
func openFile(path, want string) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("dataset-path: %w", err)
	case info.IsDir():
		return nil, fmt.Errorf("%s: is a directory; want %s", path, want)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: is no regular file; want %s", path, want)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("dataset-path: %w", err)
	}
	return f, nil
}

// jsonLines calls f for each line of a file of JSON objects, one a line, in
// order. Lines are counted from 1; an error of f gets the file and the line in
// front. Keys are exact, and of a repeated one the last holds, as everywhere in
// Python. Blank lines, a byte order mark and CR LF are fine.
func jsonLines(ctx context.Context, path string, f func(line int, object map[string]json.RawMessage) error) error {
	in, err := openFile(path, "a .jsonl file")
	if err != nil {
		return err
	}
	defer in.Close()
	return scanLines(ctx, in, path, f)
}

// scanLines is jsonLines for an open file; path is for messages.
func scanLines(ctx context.Context, in io.Reader, path string, f func(int, map[string]json.RawMessage) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	n := 0
	for lines.Scan() {
		n++
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		line := lines.Bytes()
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte(byteOrderMark))
		}
		if line = bytes.Trim(line, " \t\r"); len(line) == 0 {
			continue
		}
		object, err := parseObject(line)
		if err == nil {
			err = f(n, object)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%s:%d: longer than %d MiB; want one JSON object a line", path, n+1, maxLine>>20)
	case err != nil:
		return fmt.Errorf("%s:%d: %w", path, n+1, err)
	}
	return nil
}

func noRows(path string) error { return fmt.Errorf("%s: no rows; want one JSON object a line", path) }

func parseObject(line []byte) (object map[string]json.RawMessage, err error) {
	if !utf8.Valid(line) {
		return nil, errors.New("not UTF-8; want the file encoded as UTF-8")
	}
	err = json.Unmarshal(line, &object)
	if _, wrong := errors.AsType[*json.UnmarshalTypeError](err); wrong || err == nil && object == nil {
		err = fmt.Errorf("it is %s", jsonKind(line))
	}
	if _, syntax := errors.AsType[*json.SyntaxError](err); syntax && line[0] != '{' {
		return nil, errors.New("not a JSON object; want one a line") // why a word is none says nothing
	}
	if err != nil {
		return nil, fmt.Errorf("not a JSON object (%w); want one a line", err)
	}
	return object, nil
}

// parseText reads a string; name is that of its key in messages.
func parseText(raw []byte, name string) (text string, err error) {
	if raw[0] != '"' {
		return "", fmt.Errorf("%s is %s; want a string", name, jsonKind(raw))
	}
	if loneSurrogate(raw) {
		return "", fmt.Errorf(`%s has half of a surrogate pair; want \ud8xx\udcxx escapes in pairs`, name)
	}
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return text, nil
}

// textUnder reads the string under a key of object.
func textUnder(object map[string]json.RawMessage, name string) (string, error) {
	raw, ok := object[name]
	if !ok {
		return "", fmt.Errorf("no %q; want a string under this key", name)
	}
	return parseText(raw, name)
}

// textIn reads the string under a key of raw, which name calls in messages.
func textIn(raw []byte, name, key string) (string, error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return "", fmt.Errorf("%s is %s; want an object", name, jsonKind(raw))
	}
	value, ok := object[key]
	if !ok {
		return "", fmt.Errorf("%s has no %q; want a string under this key", name, key)
	}
	return parseText(value, name+"."+key)
}

// listUnder reads the list of values under a key of object.
func listUnder(object map[string]json.RawMessage, name string) (list []json.RawMessage, err error) {
	raw, ok := object[name]
	if !ok {
		return nil, fmt.Errorf("no %q; want a list under this key", name)
	}
	return parseList(raw, name)
}

// parseList reads a list of values; name is that of its key in messages.
func parseList(raw []byte, name string) (list []json.RawMessage, err error) {
	if raw[0] != '[' {
		return nil, fmt.Errorf("%s is %s; want a list", name, jsonKind(raw))
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return list, nil
}

// jsonKind names the type of a JSON value that begins with this byte.
func jsonKind(raw []byte) string {
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "a list"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// loneSurrogate reports an escape in a valid JSON string that is no character:
// encoding/json would put U+FFFD in its place and send another prompt.
func loneSurrogate(raw []byte) bool {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		switch surrogate(raw[i-1:]) {
		case 'h':
			if surrogate(raw[i+5:]) != 'l' {
				return true
			}
			i += 10
		case 'l':
			return true
		}
	}
	return false
}

// surrogate tells a high ('h') or low ('l') surrogate escape at the beginning
// of s from anything else (0).
func surrogate(s []byte) byte {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0
	}
	v, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	switch {
	case err != nil || v < 0xd800 || v > 0xdfff:
		return 0
	case v < 0xdc00:
		return 'h'
	}
	return 'l'
}
