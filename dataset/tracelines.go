package dataset

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"
)

// errEnough ends [traceLines] before the file does.
var errEnough = errors.New("enough lines read")

// traceLines calls f for each JSON object of a file with one a line. Blank
// lines, a byte order mark and CR LF are fine. An error of f comes back with
// path and line before it; of a repeated key the last one holds.
func traceLines(ctx context.Context, path string, f func(line int, object map[string]json.RawMessage) error) error {
	// Before it is opened: a FIFO would wait for somebody to write.
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return fmt.Errorf("dataset-path: %w", err)
	case info.IsDir():
		return fmt.Errorf("%s: is a directory; want a .jsonl file", path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s: is no regular file; want a .jsonl file", path)
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("dataset-path: %w", err)
	}
	defer file.Close()
	return scanLines(ctx, file, path, f)
}

func scanLines(ctx context.Context, in io.Reader, path string, f func(int, map[string]json.RawMessage) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	n, objects := 0, 0
	for lines.Scan() {
		n++
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		line := lines.Bytes()
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if line = bytes.Trim(line, " \t\r"); len(line) == 0 {
			continue
		}
		object, err := lineObject(line)
		if err == nil {
			err = f(n, object)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", path, n, err)
		}
		objects++
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%s:%d: longer than %d MiB; want one JSON object a line", path, n+1, maxLine>>20)
	case err != nil:
		return fmt.Errorf("%s:%d: %w", path, n+1, err)
	case objects == 0:
		return fmt.Errorf("%s: no rows; want one JSON object a line", path)
	}
	return nil
}

// lineObject reads one line. The values are copies.
func lineObject(line []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(line) {
		return nil, errors.New("not UTF-8; want the file encoded as UTF-8")
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(line, &object); err != nil || object == nil {
		return nil, fmt.Errorf("not a JSON object (%w); want one a line", cmp.Or(err, errors.New("it is null")))
	}
	return object, nil
}

// jsonText reads a JSON string under a key, which is for messages.
func jsonText(key string, raw json.RawMessage) (text string, err error) {
	switch {
	case raw[0] != '"':
		return "", fmt.Errorf("%s is %s; want a string", key, jsonKind(raw))
	case loneSurrogate(raw):
		return "", fmt.Errorf(`%s has half of a surrogate pair; want \ud8xx\udcxx escapes in pairs`, key)
	}
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}
	return text, nil
}
