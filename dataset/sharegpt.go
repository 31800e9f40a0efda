package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/tidwall/gjson"
)

// The lengths that vLLM takes from ShareGPT (its is_valid_sequence), in tokens.
const (
	minTurn   = 4 // of a prompt, and of an answer that gives its own length
	maxPrompt = 1024
	maxTurns  = 2048 // prompt and answer together
)

func (s Spec) validateShareGPT(bad *problems) {
	bad.whole("num-prompts", int64(s.Prompts), 1, maxCount)
	if s.OutputLen != -1 {
		bad.whole("sharegpt-output-len", int64(s.OutputLen), 1, maxLen)
	}
	if s.Path == "" {
		bad.addf("dataset-path: missing; want a .json file, a JSON array of conversations")
	}
}

// loadShareGPT is vLLM's ShareGPTDataset. It reads the file once to find where
// its conversations are, shuffles these places, and reads conversations from
// there until enough have the right length: memory holds 16 bytes for each
// conversation, and the texts of the sample. 1,000 of 1 GB take 4 to 5 CPU seconds
// and 90 MB resident (linux/amd64), vLLM's class 13 and 3.9 GB.
func loadShareGPT(ctx context.Context, s Spec, t Tools) (*Set, error) {
	s.SkipTemplate = true // vLLM renders none here
	p, err := newPrompter(s, t, true)
	if err != nil {
		return nil, err
	}
	f, err := openFile(s.Path, "a .json file, a JSON array of conversations")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	set := &Set{Generator: "sharegpt-json"}
	w := walk{prompter: p, file: f}
	if err := w.find(ctx, set); err != nil {
		return nil, err
	}
	set.Python = shuffle(s, w.left)
	timed, err := w.take(ctx, s.Prompts)
	if err != nil {
		return nil, err
	}
	if err := w.keep(set, timed); err != nil {
		return nil, err
	}
	s.oversample(set, s.Prompts)
	rest, err := w.spare(ctx, timed)
	if err != nil {
		return nil, err
	}
	return set, p.addWarmups(ctx, set, rowsOf(timed), rowsOf(rest))
}

// place is where a conversation is in the file: 16 bytes, as there are millions.
type place struct {
	offset int64
	length uint32
	number uint32 // of the element, counted from 1
}

// turn is the first exchange of a conversation.
type turn struct {
	row
	request Request
	length  verdict
	bare    bool  // its image or video is left out
	wrong   error // what it is instead of an exchange
}

// verdict says whether vLLM would take an exchange of this length.
type verdict int

const (
	fits verdict = iota
	tooShort
	tooLong
)

func rowsOf(turns []turn) []row {
	rows := make([]row, len(turns))
	for i := range turns {
		rows[i] = turns[i].row
	}
	return rows
}

// walk goes through the conversations of a file in a given order.
type walk struct {
	*prompter
	file *os.File
	left []place // not walked yet

	short, long int // walked and left out for their length
}

// find reads the file and sets left, in the file's order. Conversations of fewer
// than two turns are counted.
func (w *walk) find(ctx context.Context, set *Set) error {
	short := 0
	elements := newArrayReader(w.file, w.spec.Path)
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		object, offset, err := elements.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		two, err := hasTwoTurns(object)
		switch {
		case err != nil:
			return fmt.Errorf("%s:%d: element %d: %w", w.spec.Path, elements.top, elements.n, err)
		case !two:
			short++
		case elements.n >= 1<<32:
			return fmt.Errorf("%s: more than 2^32 conversations; want fewer", w.spec.Path)
		default:
			w.left = append(w.left, place{offset, uint32(len(object)), uint32(elements.n)})
		}
	}
	if len(w.left) == 0 {
		return fmt.Errorf(`%s: none of %d elements has two turns; want some like {"conversations": [{"value": "question"}, {"value": "answer"}]}`,
			w.spec.Path, elements.n)
	}
	if short > 0 {
		set.warnf("%s: %d of %d conversations have no two turns and are left out, as in vllm bench serve", w.spec.Path, short, elements.n)
	}
	return nil
}

// hasTwoTurns looks into an object that is known to be valid JSON.
func hasTwoTurns(object []byte) (two bool, err error) {
	var turns gjson.Result
	gjson.ParseBytes(object).ForEach(func(key, value gjson.Result) bool {
		if key.Str == "conversations" { // of a repeated key the last holds, as in Python
			turns = value
		}
		return true
	})
	switch {
	case !turns.Exists():
		return false, nil
	case !turns.IsArray():
		return false, fmt.Errorf("conversations is %s; want a list", jsonKind([]byte(turns.Raw)))
	}
	n := 0
	turns.ForEach(func(_, _ gjson.Result) bool {
		n++
		return n < 2
	})
	return n == 2, nil
}

// take walks until n exchanges of the right length are found, or none is left.
// Blocks of them are read and encoded together, and taken in order.
func (w *walk) take(ctx context.Context, n int) (taken []turn, err error) {
	for len(taken) < n && len(w.left) > 0 {
		block := make([]turn, min(len(w.left), max(8*w.workers, min(n-len(taken), 256*w.workers))))
		err := parallel(ctx, w.workers, len(block), func(ctx context.Context, i int) (err error) {
			block[i], err = w.read(ctx, w.left[i])
			return err
		})
		if err != nil {
			return nil, err
		}
		walked := 0
		for ; walked < len(block) && len(taken) < n; walked++ {
			switch t := block[walked]; {
			case t.wrong != nil:
				return nil, w.misplaced(w.left[walked], t.wrong)
			case t.length == tooShort:
				w.short++
			case t.length == tooLong:
				w.long++
			default:
				taken = append(taken, t)
			}
		}
		w.left = w.left[walked:]
	}
	return taken, nil
}

// misplaced puts file, line and element in front of err.
func (w *walk) misplaced(at place, err error) error {
	line, rest := 1, io.NewSectionReader(w.file, 0, at.offset)
	for buf := make([]byte, 256<<10); ; {
		n, end := rest.Read(buf)
		line += bytes.Count(buf[:n], []byte("\n"))
		if end != nil {
			return fmt.Errorf("%s:%d: element %d: %w", w.spec.Path, line, at.number, err)
		}
	}
}

// spare takes rows for the warm-ups from behind the timed ones.
func (w *walk) spare(ctx context.Context, timed []turn) ([]turn, error) {
	if w.spec.WarmupFirst {
		return nil, nil
	}
	sent := make(map[string]bool, len(timed))
	for _, t := range timed {
		sent[t.prompt] = true
	}
	var spare []turn
	for len(spare) < w.spec.Warmups {
		more, err := w.take(ctx, w.spec.Warmups-len(spare))
		if err != nil || len(more) == 0 {
			return spare, err
		}
		for _, t := range more {
			if !sent[t.prompt] {
				spare = append(spare, t)
			}
		}
	}
	return spare, nil
}

// read reads one exchange and counts it. An answer is counted only where its
// length matters. A wrong one is no error yet: nobody may get as far as there.
func (w *walk) read(ctx context.Context, at place) (t turn, err error) {
	data := make([]byte, at.length)
	if _, err := w.file.ReadAt(data, at.offset); err != nil {
		return t, fmt.Errorf("%s: read again: %w", w.spec.Path, err)
	}
	answer := ""
	if answer, t.wrong = t.parse(data); t.wrong != nil {
		return t, nil
	}
	if t.parts != nil && !w.spec.Chat {
		t.parts, t.bare = nil, true
	}
	if t.request, _, err = w.request(ctx, t.prompt); err != nil {
		return t, w.misplaced(at, err)
	}
	if t.output = w.spec.OutputLen; t.output == -1 {
		if t.request.InputTokens > maxPrompt {
			t.length = tooLong
			return t, nil
		}
		ids, err := w.tok.Encode(ctx, answer, true)
		if err != nil {
			return t, w.misplaced(at, fmt.Errorf("encode answer: %w", err))
		}
		t.output = len(ids)
	}
	t.request.OutputTokens, t.request.Parts = t.output, t.parts
	switch n := t.request.InputTokens; {
	case n < minTurn, w.spec.OutputLen == -1 && t.output < minTurn:
		t.length = tooShort
	case n > maxPrompt, n+t.output > maxTurns:
		t.length = tooLong
	}
	return t, nil
}

// parse sets prompt and parts and returns the answer. The two are the first two
// turns, whoever they are from.
func (t *turn) parse(data []byte) (answer string, err error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil {
		return "", fmt.Errorf("read again: %w", err)
	}
	turns, err := listUnder(object, "conversations")
	if err != nil {
		return "", err
	}
	if len(turns) < 2 {
		return "", errors.New("read again: fewer than two turns")
	}
	if t.prompt, err = textIn(turns[0], "conversations[0]", "value"); err != nil {
		return "", err
	}
	if answer, err = textIn(turns[1], "conversations[1]", "value"); err != nil {
		return "", err
	}
	t.parts, err = media(object)
	return answer, err
}

// media returns the image of a conversation, or else its video, as a part of a
// chat message. A URL or the data of an image goes as it is, anything else is a
// file that the server reads.
func media(object map[string]json.RawMessage) ([]json.RawMessage, error) {
	for _, name := range []string{"image", "video"} {
		raw, ok := object[name]
		if !ok || falsy(raw) {
			continue
		}
		url, err := parseText(raw, name)
		if err != nil {
			return nil, err
		}
		schemes := []string{"http://", "https://", "file://"}
		if name == "image" {
			schemes = append(schemes, "data:image/")
		}
		known := false
		for _, scheme := range schemes {
			known = known || strings.HasPrefix(url, scheme)
		}
		if !known {
			url = "file://" + url
		}
		part := appendJSON(fmt.Appendf(nil, `{"type": "%s_url", "%[1]s_url": {"url": `, name), url)
		return []json.RawMessage{append(part, "}}"...)}, nil
	}
	return nil, nil
}

// falsy is what Python takes for nothing.
func falsy(raw []byte) bool {
	switch string(raw) {
	case "null", `""`, "0", "false", "[]", "{}":
		return true
	}
	return false
}

// keep puts the timed requests into set, and tells what the walk left out.
func (w *walk) keep(set *Set, timed []turn) error {
	bare := 0
	for _, t := range timed {
		set.Requests = append(set.Requests, t.request)
		if t.bare {
			bare++
		}
	}
	answer := ""
	if w.spec.OutputLen == -1 {
		answer = " or answer"
	}
	left := fmt.Sprintf("of %d conversations looked at, %d are too short (a prompt%s under %d tokens) and %d too long (a prompt over %d tokens, or over %d with its answer)",
		len(timed)+w.short+w.long, w.short, answer, minTurn, w.long, maxPrompt, maxTurns)
	switch {
	case len(timed) == 0:
		return fmt.Errorf("%s: %s; want some between", w.spec.Path, left)
	case w.short+w.long > 0:
		set.warnf("%s: %s: they are left out, as in vllm bench serve", w.spec.Path, left)
	}
	if bare > 0 {
		set.warnf("%s: %d requests go without their image or video, which only a chat backend takes", w.spec.Path, bare)
	}
	return nil
}
