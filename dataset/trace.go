package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/servebench/servebench/dataset/nprand"
	"github.com/servebench/servebench/tokenize"
)

const (
	// maxSpan bounds a trace: no load is planned for longer.
	maxSpan = 30 * 24 * time.Hour
	// maxCached is the number of ids of blocks that are kept for later prompts.
	maxCached = 1 << 23
	// maxWarm bounds the tokens of all warm-ups, which stay in memory: 2 GB.
	maxWarm = 1 << 28
)

func (s Spec) validateTrace(bad *problems) {
	bad.whole("num-prompts", int64(s.Prompts), 1, maxCount)
	bad.whole("timed-trace-chunk-hash-size", int64(s.Trace.BlockSize), 1, maxLen)
	if m := s.Trace.Multiplier; !(m > 0 && m <= math.MaxFloat64) {
		bad.addf("timed-trace-sec-multiplier: %v is out of range; want a finite number above 0", m)
	}
	for _, key := range []struct{ flag, name string }{
		{"timestamp", s.Trace.Timestamp}, {"input-length", s.Trace.InputLength},
		{"output-length", s.Trace.OutputLength}, {"hash-ids", s.Trace.HashIDs},
	} {
		if key.name == "" {
			bad.addf("timed-trace-label-%s: is empty; want the name of a key", key.flag)
		}
	}
	if s.Path == "" {
		bad.addf("dataset-path: missing; want a file with one JSON object a line")
	}
}

// traceRow is one line of a trace.
type traceRow struct {
	line          int
	at            float64 // as the file counts
	input, output int
	hashes        json.RawMessage // a checked list, or nil
}

// loadTrace is vLLM's TimedTrace over the first num-prompts lines of a file, but
// for its flaws: due times are counted from the first one and in order, and each
// prompt has its line's length.
func loadTrace(ctx context.Context, s Spec, t Tools) (*Set, error) {
	// vLLM does not hand its seed on, so its global generators start from 0.
	set := &Set{Synthetic: true, Numpy: nprand.NewLegacy(0), Python: nprand.NewPython(0)}
	rows, err := s.readTrace(ctx, set)
	if err != nil {
		return nil, err
	}
	if set.Offsets, err = s.traceOffsets(set, rows); err != nil {
		return nil, err
	}
	if err := s.checkTraceWarmups(rows); err != nil {
		return nil, err
	}
	tr, err := newTracer(s, t.Tokenizer, &set.Generator)
	if err != nil {
		return nil, err
	}
	seen := newMemory(s, len(rows))
	set.Requests = make([]Request, len(rows))
	err = each(ctx, set.Requests, t.Emit, func(_ context.Context, i int, r *Request) error {
		*r = tr.request(rows[i])
		seen.note(i, *r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = seen.addWarmups(s, set, func() ([]Request, error) {
		warmups := make([]Request, s.Warmups)
		for i := range warmups {
			row := rows[i%len(rows)]
			warmups[i] = Request{Tokens: tr.fill("warmup", i, row.input), InputTokens: row.input, OutputTokens: row.output}
		}
		return warmups, nil
	})
	tr.doubts(set)
	return set, err
}

// checkTraceWarmups bounds the warm-ups, of which each has a row's length.
func (s Spec) checkTraceWarmups(rows []traceRow) error {
	if s.WarmupFirst {
		return nil
	}
	total := int64(0)
	for i := range s.Warmups {
		if total += int64(rows[i%len(rows)].input); total > maxWarm {
			return fmt.Errorf("num-warmups: %d prompts as long as those of %s have more than %d tokens; want fewer", s.Warmups, s.Path, int64(maxWarm))
		}
	}
	return nil
}

// errEnough ends the reading of lines before the file does.
var errEnough = errors.New("enough lines read")

func (s Spec) readTrace(ctx context.Context, set *Set) ([]traceRow, error) {
	var rows []traceRow
	silent, total := 0, int64(0)
	err := jsonLines(ctx, s.Path, func(line int, object map[string]json.RawMessage) error {
		if len(rows) == s.Prompts {
			return errEnough
		}
		row, err := s.Trace.row(object)
		if err != nil {
			return err
		}
		row.line = line
		if row.output == 0 {
			row.output = 1
			silent++
		}
		if total += int64(row.input); total > maxTokens {
			return fmt.Errorf("%d prompts have more than %d tokens; want fewer num-prompts", len(rows)+1, int64(maxTokens))
		}
		rows = append(rows, row)
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, noRows(s.Path)
	}
	if len(rows) < s.Prompts {
		set.warnf("%s has %d lines: %d requests are sent and not %d", s.Path, len(rows), len(rows), s.Prompts)
	}
	if silent > 0 {
		set.warnf("%s: %d lines ask for no tokens: their requests ask for one", s.Path, silent)
	}
	return rows, nil
}

// row reads a line's four keys.
func (t Trace) row(object map[string]json.RawMessage) (r traceRow, err error) {
	value := func(flag, key string) json.RawMessage {
		raw, ok := object[key]
		if err == nil && (!ok || raw[0] == 'n') {
			err = fmt.Errorf("no %q; want it in every line, or its key under timed-trace-label-%s", key, flag)
		}
		return raw
	}
	at, in, out := value("timestamp", t.Timestamp), value("input-length", t.InputLength), value("output-length", t.OutputLength)
	if err != nil {
		return r, err
	}
	if r.at, err = traceTime(at); err != nil {
		return r, fmt.Errorf("%s %w", t.Timestamp, err)
	}
	if r.input, err = wholeNumber(in, 1); err != nil {
		return r, fmt.Errorf("%s %w", t.InputLength, err)
	}
	if r.output, err = wholeNumber(out, 0); err != nil {
		return r, fmt.Errorf("%s %w", t.OutputLength, err)
	}
	if hashes := object[t.HashIDs]; len(hashes) > 0 && hashes[0] != 'n' {
		if _, err := hashTexts(hashes); err != nil {
			return r, fmt.Errorf("%s %w", t.HashIDs, err)
		}
		r.hashes = hashes
	}
	return r, nil
}

// traceTime reads a timestamp: a number, or a string with one as Python's float
// would take it.
func traceTime(raw json.RawMessage) (float64, error) {
	text := string(raw)
	switch raw[0] {
	case '"':
		if json.Unmarshal(raw, &text) != nil {
			return 0, fmt.Errorf("is %.40s; want a number", raw)
		}
	case '{', '[', 't', 'f':
		return 0, fmt.Errorf("is %s; want a number", jsonKind(raw))
	}
	at, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(at) || math.IsInf(at, 0) || at < 0 {
		return 0, fmt.Errorf("is %.40s; want a finite number of 0 or more", raw)
	}
	return at, nil
}

func wholeNumber(raw json.RawMessage, least int) (int, error) {
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return 0, fmt.Errorf("is %s; want a whole number", jsonKind(raw))
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || n != math.Trunc(n) || n < float64(least) || n > maxLen {
		return 0, fmt.Errorf("is %.40s; want a whole number from %d to %d", raw, least, maxLen)
	}
	return int(n), nil
}

// hashTexts are the hash ids as Python prints them.
func hashTexts(raw json.RawMessage) ([]string, error) {
	if raw[0] != '[' {
		return nil, fmt.Errorf("is %s; want a list of whole numbers or strings", jsonKind(raw))
	}
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, err
	}
	texts := make([]string, len(items))
	for i, item := range items {
		switch c := item[0]; {
		case c == '"':
			text, err := parseText(item, fmt.Sprintf("[%d]", i))
			if err != nil {
				return nil, err
			}
			texts[i] = text
		case (c == '-' || c >= '0' && c <= '9') && !bytes.ContainsAny(item, ".eE"):
			if texts[i] = string(item); texts[i] == "-0" {
				texts[i] = "0"
			}
		default:
			return nil, fmt.Errorf("[%d] is %.40s; want a whole number or a string", i, item)
		}
	}
	return texts, nil
}

// traceOffsets puts rows into the order of their timestamps and counts these
// from the first.
func (s Spec) traceOffsets(set *Set, rows []traceRow) ([]time.Duration, error) {
	byTime := func(a, b traceRow) int {
		switch {
		case a.at < b.at:
			return -1
		case a.at > b.at:
			return 1
		}
		return 0
	}
	if !slices.IsSortedFunc(rows, byTime) {
		set.warnf("%s: lines are not in the order of their timestamps: requests are sent in that order", s.Path)
		slices.SortStableFunc(rows, byTime)
	}
	first := rows[0].at
	if first > 0 {
		set.warnf("%s: the first timestamp is %v s: all are counted from it", s.Path, first*s.Trace.Multiplier)
	}
	offsets := make([]time.Duration, len(rows))
	for i, row := range rows {
		seconds := (row.at - first) * s.Trace.Multiplier
		if !(seconds <= maxSpan.Seconds()) {
			return nil, fmt.Errorf("%s:%d: %s is %v seconds after the first; want %v days at most, or another timed-trace-sec-multiplier",
				s.Path, row.line, s.Trace.Timestamp, seconds, maxSpan.Hours()/24)
		}
		offsets[i] = time.Duration(math.Round(seconds * 1e9))
	}
	return offsets, nil
}

// tracer makes prompts of hash ids: lines that begin with the same ones begin
// with the same tokens. It is safe for concurrent use.
type tracer struct {
	spec Spec
	ids  []int // those that prompts are made of, ascending

	mu     sync.Mutex
	blocks map[string][]int // guarded by mu, as all below
	cached int
	filled int // prompts longer than their hash ids
	longer int // by so many tokens
	unused int // prompts shorter than their hash ids
}

func newTracer(s Spec, tok tokenize.Tokenizer, name *string) (*tracer, error) {
	tr := &tracer{spec: s, blocks: map[string][]int{}}
	v, known := vocabularyOf(tok)
	if !known {
		*name, tr.ids = "servebench-timed-trace-ids-1", unknownIDs()
		return tr, nil
	}
	*name, tr.ids = "vllm-timed-trace", traceIDs(v)
	return tr, someIDs(v, tr.ids)
}

// request makes a prompt of a block of tokens for each hash id, the last one cut
// to the line's length, and fills up what the ids leave missing.
func (tr *tracer) request(row traceRow) Request {
	hashes, _ := hashTexts(orList(row.hashes)) // they were read before
	ids := make([]int, 0, row.input)
	used := 0
	for ; used < len(hashes) && len(ids) < row.input; used++ {
		size := min(tr.spec.Trace.BlockSize, row.input-len(ids))
		ids = append(ids, tr.block(hashes[used]+":"+strconv.Itoa(size), size)...)
	}
	missing := row.input - len(ids)
	ids = append(ids, tr.fill("trace", row.line, missing)...)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if missing > 0 {
		tr.filled++
		tr.longer += missing
	}
	if used < len(hashes) {
		tr.unused++
	}
	return Request{Tokens: ids, InputTokens: row.input, OutputTokens: row.output}
}

func orList(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("[]")
	}
	return raw
}

// block is vLLM's rule for the tokens of one hash id: choices of a Python
// generator that is seeded with the key's hash.
func (tr *tracer) block(key string, size int) []int {
	tr.mu.Lock()
	ids := tr.blocks[key]
	tr.mu.Unlock()
	if ids != nil {
		return ids
	}
	rng := nprand.NewPython(nprand.StringHash(key) & math.MaxUint32)
	ids = rng.Choices(len(tr.ids), size)
	for i, at := range ids {
		ids[i] = tr.ids[at]
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.cached+size <= maxCached {
		tr.blocks[key] = ids
		tr.cached += size
	}
	return ids
}

// fill draws n tokens that no other prompt has: a generator of their own for
// each purpose and number.
func (tr *tracer) fill(purpose string, number, n int) []int {
	if n == 0 {
		return nil
	}
	rng := nprand.NewGenerator(derive(fmt.Sprintf("%s %d", purpose, number), uint64(tr.spec.Seed)))
	return pick(rng, tr.ids, n)
}

func (tr *tracer) doubts(set *Set) {
	if tr.filled > 0 {
		set.warnf("%s: %d prompts are longer than their hash ids: %d tokens of their own were added", tr.spec.Path, tr.filled, tr.longer)
	}
	if tr.unused > 0 {
		set.warnf("%s: %d prompts are shorter than their hash ids, of which the last ones are not used", tr.spec.Path, tr.unused)
	}
}
