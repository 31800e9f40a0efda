package dataset

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/servebench/servebench/dataset/nprand"
	"github.com/servebench/servebench/tokenize"
)

// The columns of BurstGPT that are used.
const (
	modelColumn  = "Model"
	inputColumn  = "Request tokens"
	outputColumn = "Response tokens"
)

func (s Spec) validateBurstGPT(bad *problems) {
	bad.whole("num-prompts", int64(s.Prompts), 1, maxCount)
	if s.Path == "" {
		bad.addf("dataset-path: missing; want BurstGPT's .csv file")
	}
}

// burst are the lengths of one row of BurstGPT.
type burst struct{ input, output int }

// loadBurstGPT is vLLM's BurstGPTDataset: rows of GPT-4 that got an answer,
// chosen as pandas' DataFrame.sample chooses them. Only their two lengths are
// used. The prompt of request i is the ids i, i+1, ... of the vocabulary, special
// ones too, round its end, decoded; nobody looks at what that encodes to.
func loadBurstGPT(ctx context.Context, s Spec, t Tools) (*Set, error) {
	vocab, known := vocabularyOf(t.Tokenizer)
	if !known || vocab.Size < 1 {
		return nil, errors.New("tokenizer: burstgpt makes its prompts of the model's vocabulary, and none is known; want a local tokenizer")
	}
	set := &Set{Generator: "burstgpt-ids", Synthetic: true}
	rows, err := s.burstRows(ctx, set)
	if err != nil {
		return nil, err
	}
	timed, warm := s.pickBursts(set, rows)
	total := int64(0)
	for _, b := range slices.Concat(timed, warm) {
		total += int64(b.input)
	}
	if total > maxTokens {
		return nil, fmt.Errorf("num-prompts: %d prompts have %d tokens together; want %d at most", len(timed)+len(warm), total, int64(maxTokens))
	}
	maker := newBurstMaker(s, t.Tokenizer, vocab.Size, slices.Concat(timed, warm))
	if set.Requests, err = maker.requests(ctx, timed, 0); err != nil {
		return nil, err
	}
	return set, addWarmups(s, set, func() ([]Request, error) {
		return maker.requests(ctx, warm, len(timed))
	})
}

// pickBursts chooses the timed rows and, for warm-ups, those that follow.
func (s Spec) pickBursts(set *Set, rows []burst) (timed, warm []burst) {
	rng, wanted := nprand.NewLegacy(uint32(s.Seed)), s.Prompts
	if s.NoOversample && wanted > len(rows) {
		set.warnf("%s has %d rows of GPT-4: %d requests are sent and not %d", s.Path, len(rows), len(rows), wanted)
		wanted = len(rows)
	}
	var order []int
	if wanted <= len(rows) {
		order = rng.Permutation(len(rows))
	} else {
		set.warnf("%s has %d rows of GPT-4: the %d requests repeat their lengths, not their prompts", s.Path, len(rows), wanted)
		order = rng.Choices(len(rows), wanted)
	}
	empty := 0
	for i := range wanted + s.Warmups {
		b := rows[order[i%len(order)]]
		if i >= wanted {
			warm = append(warm, b)
			continue
		}
		timed = append(timed, b)
		if b.input == 0 {
			empty++
		}
	}
	if empty > 0 {
		set.warnf("%s: %d requests have no request tokens: their prompts are empty, which a server refuses", s.Path, empty)
	}
	return timed, warm
}

// burstMaker makes prompts of consecutive ids.
type burstMaker struct {
	ids  bool // prompts are sent as ids
	tok  tokenize.Tokenizer
	size int   // of the vocabulary
	ring []int // its ids, and from the first again for the longest prompt
}

func newBurstMaker(s Spec, tok tokenize.Tokenizer, size int, rows []burst) *burstMaker {
	longest := 0
	for _, b := range rows {
		longest = max(longest, b.input)
	}
	ring := make([]int, size+longest)
	for i := range ring {
		ring[i] = i % size
	}
	return &burstMaker{s.TokenIDs, tok, size, ring}
}

// requests makes the requests first, first+1, ... of rows.
func (m *burstMaker) requests(ctx context.Context, rows []burst, first int) ([]Request, error) {
	reqs := make([]Request, len(rows))
	return reqs, parallel(ctx, cores(), len(rows), func(ctx context.Context, i int) (err error) {
		at := (first + i) % m.size
		ids := m.ring[at : at+rows[i].input : at+rows[i].input]
		reqs[i] = Request{InputTokens: len(ids), OutputTokens: rows[i].output}
		if m.ids {
			reqs[i].Tokens = ids
			return nil
		}
		if reqs[i].Prompt, err = m.tok.Decode(ctx, ids); err != nil {
			return fmt.Errorf("decode prompt %d: %w", first+i, err)
		}
		return nil
	})
}

// burstRows reads the rows of GPT-4 that got an answer.
func (s Spec) burstRows(ctx context.Context, set *Set) ([]burst, error) {
	f, err := openFile(s.Path, "a .csv file")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rows, all, err := scanBursts(ctx, f, s.Path)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: none of %d rows has the model GPT-4 and response tokens; want some", s.Path, all)
	}
	set.warnf("%s: %d of %d rows have the model GPT-4 and an answer; of these the lengths are used and not the times, as in vllm bench serve",
		s.Path, len(rows), all)
	return rows, nil
}

// scanBursts reads CSV with a header; all is the number of its rows. path is for
// messages.
func scanBursts(ctx context.Context, in io.Reader, path string) (rows []burst, all int, err error) {
	limited := &recordLimit{in: in}
	buffered := bufio.NewReaderSize(limited, 64<<10)
	if mark, _ := buffered.Peek(len(byteOrderMark)); bytes.Equal(mark, []byte(byteOrderMark)) {
		_, _ = buffered.Discard(len(byteOrderMark)) // they are in the buffer
	}
	records := csv.NewReader(buffered)
	records.ReuseRecord = true
	var columns burstColumns
	for n, last := 0, 0; ; n++ {
		if ctx.Err() != nil {
			return nil, 0, context.Cause(ctx)
		}
		limited.end = records.InputOffset() + maxRecord
		record, err := records.Read()
		switch {
		case errors.Is(err, io.EOF) && n == 0:
			return nil, 0, fmt.Errorf("%s: nothing in it; want a header and rows", path)
		case errors.Is(err, io.EOF):
			return rows, n - 1, nil
		case errors.Is(err, errRecord):
			return nil, 0, fmt.Errorf("%s:%d: %w", path, last+1, err)
		case err != nil:
			return nil, 0, csvError(path, err)
		}
		line, _ := records.FieldPos(0)
		last = line
		var b burst
		if n == 0 {
			columns, err = findColumns(record)
		} else {
			b, err = columns.parse(record)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%s:%d: %w", path, line, err)
		}
		if b.output > 0 {
			rows = append(rows, b)
		}
	}
}

// maxRecord bounds one row of a CSV file, which encoding/csv reads to its end,
// however far that is. The file may be ahead by a buffer.
const maxRecord = 1 << 20

var errRecord = fmt.Errorf("a row longer than %d MiB; want one of a header's columns", maxRecord>>20)

// recordLimit reads up to end and a buffer more.
type recordLimit struct {
	in        io.Reader
	read, end int64
}

func (l *recordLimit) Read(p []byte) (int, error) {
	if l.read > l.end {
		return 0, errRecord
	}
	n, err := l.in.Read(p)
	l.read += int64(n)
	return n, err
}

// csvError puts the line where all messages have it.
func csvError(path string, err error) error {
	if at, ok := errors.AsType[*csv.ParseError](err); ok {
		return fmt.Errorf("%s:%d:%d: %w; want one row of the header's columns", path, at.Line, at.Column, at.Err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// burstColumns are the places of the columns in a record.
type burstColumns struct{ model, input, output int }

func findColumns(header []string) (c burstColumns, err error) {
	for name, at := range map[string]*int{modelColumn: &c.model, inputColumn: &c.input, outputColumn: &c.output} {
		if *at = slices.Index(header, name); *at < 0 {
			err = fmt.Errorf("the header has not all of the columns %q, %q and %q; want BurstGPT's", modelColumn, inputColumn, outputColumn)
		}
	}
	return c, err
}

// parse reads a row; output is 0 where it is none of GPT-4, or got no answer.
func (c burstColumns) parse(record []string) (b burst, err error) {
	if slices.ContainsFunc(record, func(field string) bool { return !utf8.ValidString(field) }) {
		return b, errors.New("not UTF-8; want the file encoded as UTF-8")
	}
	if record[c.model] != "GPT-4" {
		return b, nil
	}
	if b.output, err = parseTokens(record[c.output], outputColumn, true); err != nil || b.output <= 0 {
		return burst{}, err
	}
	b.input, err = parseTokens(record[c.input], inputColumn, false)
	return b, err
}

// parseTokens reads a number of tokens as pandas would: empty is none of a
// column that may be empty or negative.
func parseTokens(field, column string, failed bool) (int, error) {
	if failed && field == "" {
		return 0, nil
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(field), 64)
	if err != nil || n != math.Trunc(n) || n > maxLen || n < 0 && !failed || n < -maxLen {
		return 0, fmt.Errorf("%s is %.40q; want a whole number from 0 to %d", column, field, maxLen)
	}
	return int(n), nil
}
