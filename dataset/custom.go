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
	"math"
	"os"
	"strconv"
	"unicode/utf8"

	"github.com/servebench/servebench/dataset/nprand"
	"github.com/servebench/servebench/tokenize"
)

// maxLine bounds one line of a custom file; a longer one is a file of another
// kind.
const maxLine = 64 << 20

// row is one line of a custom file.
type row struct {
	prompt string
	output int // output_tokens; 0 where the line has none
	line   int // counted from 1
}

// loadCustom is vLLM's CustomDataset with its seeded order: the whole file is
// shuffled by CPython's random, its first rows are sent, and where it is too
// short rows are chosen again by a freshly seeded one.
func loadCustom(ctx context.Context, s Spec, t Tools) (*Set, error) {
	tok := t.Tokenizer
	if s.TokenIDs && tok == nil {
		return nil, errors.New("token ids of a custom data set need a tokenizer; want one, or text prompts")
	}
	rows, err := s.readFile(ctx)
	if err != nil {
		return nil, err
	}
	if !s.DisableShuffle {
		nprand.NewPython(s.Seed).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	}
	wanted := s.Prompts
	if wanted <= 0 {
		wanted = len(rows)
	}
	timed, rest := rows[:min(wanted, len(rows))], rows[min(wanted, len(rows)):]
	set := &Set{Generator: "custom-jsonl"}
	if set.Requests, err = s.requests(ctx, timed, tok); err != nil {
		return nil, err
	}
	s.oversample(set, wanted)
	err = addWarmups(s, set, func() ([]Request, error) {
		return s.requests(ctx, s.customWarmups(set, timed, rest), tok)
	})
	if err != nil {
		return nil, err
	}
	return set, nil
}

// requests makes one request a row, its prompt counted as vLLM counts it: with
// special tokens, without a chat template.
func (s Spec) requests(ctx context.Context, rows []row, tok tokenize.Tokenizer) ([]Request, error) {
	reqs := make([]Request, len(rows))
	for i, r := range rows {
		reqs[i] = Request{Prompt: r.prompt, OutputTokens: s.OutputLen}
		if s.OutputLen == -1 {
			reqs[i].OutputTokens = r.output
		}
	}
	err := parallel(ctx, s.counters(tok), len(rows), func(ctx context.Context, i int) error {
		ids, err := tok.Encode(ctx, rows[i].prompt, true)
		if err != nil {
			return fmt.Errorf("%s:%d: encode prompt: %w", s.Path, rows[i].line, err)
		}
		reqs[i].InputTokens = len(ids)
		if s.TokenIDs {
			reqs[i].Prompt, reqs[i].Tokens = "", ids
		}
		return nil
	})
	return reqs, err
}

// counters is how many prompts are encoded at a time: none where a count would
// cost a call to the server for each row, as its usage says the same for nothing.
func (s Spec) counters(tok tokenize.Tokenizer) int {
	if tok == nil {
		return 0
	}
	if _, local := tok.Vocabulary(); local {
		return cores()
	}
	if s.TokenIDs {
		return countWorkers
	}
	return 0
}

// oversample is vLLM's maybe_oversample_requests: choices, with replacement,
// from the requests that the file gave.
func (s Spec) oversample(set *Set, wanted int) {
	have := len(set.Requests)
	switch {
	case have >= wanted:
	case s.NoOversample:
		set.warnf("%s has %d rows: %d requests are sent and not %d", s.Path, have, have, wanted)
	default:
		set.warnf("%s has %d rows: %d of the %d requests repeat one, which may come from the server's prefix cache",
			s.Path, have, wanted-have, wanted)
		again := nprand.NewPython(s.Seed)
		for len(set.Requests) < wanted {
			set.Requests = append(set.Requests, set.Requests[again.Choice(have)])
		}
	}
}

// customWarmups takes rows that are not timed, and copies of timed ones behind
// a short text of their own where there are too few.
func (s Spec) customWarmups(set *Set, timed, rest []row) []row {
	sent := make(map[string]bool, len(timed))
	for _, r := range timed {
		sent[r.prompt] = true
	}
	var warm []row
	for _, r := range rest {
		if len(warm) < s.Warmups && !sent[r.prompt] {
			warm = append(warm, r)
		}
	}
	if salted := s.Warmups - len(warm); salted > 0 {
		set.warnf("%s has no rows left for %d warm-ups: they are timed prompts behind a prefix of their own", s.Path, salted)
	}
	for i := 0; len(warm) < s.Warmups; i++ {
		r := timed[i%len(timed)]
		r.prompt = fmt.Sprintf("Warm-up %d: %s", i+1, r.prompt)
		warm = append(warm, r)
	}
	return warm
}

// readFile reads all rows of the file and checks each of them.
func (s Spec) readFile(ctx context.Context) ([]row, error) {
	// Before it is opened: a FIFO would wait for somebody to write.
	info, err := os.Stat(s.Path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("dataset-path: %w", err)
	case info.IsDir():
		return nil, fmt.Errorf("%s: is a directory; want a .jsonl file", s.Path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s: is no regular file; want a .jsonl file", s.Path)
	}
	f, err := os.Open(s.Path)
	if err != nil {
		return nil, fmt.Errorf("dataset-path: %w", err)
	}
	defer f.Close()
	rows, err := readRows(ctx, f, s.Path)
	if err != nil || s.OutputLen != -1 {
		return rows, err
	}
	for _, r := range rows {
		if r.output == 0 {
			return nil, fmt.Errorf("%s:%d: no output_tokens; want a number of tokens in every line, or custom-output-len", s.Path, r.line)
		}
	}
	return rows, nil
}

// readRows reads JSON objects, one a line. Blank lines, a byte order mark and
// CR LF are fine; path is for messages.
func readRows(ctx context.Context, in io.Reader, path string) ([]row, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	var rows []row
	n := 0
	for lines.Scan() {
		n++
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		line := lines.Bytes()
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if line = bytes.Trim(line, " \t\r"); len(line) == 0 {
			continue
		}
		r, err := parseRow(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		r.line = n
		rows = append(rows, r)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%s:%d: longer than %d MiB; want one JSON object a line", path, n+1, maxLine>>20)
	case err != nil:
		return nil, fmt.Errorf("%s:%d: %w", path, n+1, err)
	case len(rows) == 0:
		return nil, fmt.Errorf(`%s: no rows; want lines like {"prompt": "text"}`, path)
	}
	return rows, nil
}

// parseRow reads one line. Keys are exact, and of a repeated one the last holds,
// as everywhere in Python.
func parseRow(line []byte) (r row, err error) {
	if !utf8.Valid(line) {
		return r, errors.New("not UTF-8; want the file encoded as UTF-8")
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(line, &object); err != nil || object == nil {
		return r, fmt.Errorf(`not a JSON object (%w); want {"prompt": "text"}`, cmp.Or(err, errors.New("it is null")))
	}
	raw, ok := object["prompt"]
	if !ok {
		return r, errors.New(`no "prompt"; want a string under this key`)
	}
	if raw[0] != '"' {
		return r, fmt.Errorf("prompt is %s; want a string", jsonKind(raw))
	}
	if loneSurrogate(raw) {
		return r, errors.New(`prompt has half of a surrogate pair; want \ud8xx\udcxx escapes in pairs`)
	}
	if err := json.Unmarshal(raw, &r.prompt); err != nil {
		return r, fmt.Errorf("prompt: %w", err)
	}
	if r.prompt == "" {
		return r, errors.New("prompt is empty; want some text")
	}
	if raw, ok := object["output_tokens"]; ok {
		r.output, err = parseOutput(raw)
	}
	return r, err
}

// parseOutput reads output_tokens; 0 stands for null, which is as good as none.
func parseOutput(raw []byte) (int, error) {
	switch c := raw[0]; {
	case c == 'n':
		return 0, nil
	case c != '-' && (c < '0' || c > '9'):
		return 0, fmt.Errorf("output_tokens is %s; want a whole number", jsonKind(raw))
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n != math.Trunc(n) || n < 1 || n > maxLen {
		return 0, fmt.Errorf("output_tokens is %.40s; want a whole number from 1 to %d", raw, maxLen)
	}
	return int(n), nil
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
