package dataset

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/servebench/servebench/dataset/parquet"
)

// loadHub is vLLM's HuggingFaceDataset over the Parquet files of a data set: its
// rows in the order of the datasets library, made into prompts as the data set's
// form says.
func loadHub(ctx context.Context, s Spec, t Tools) (*Set, error) {
	form := s.hubForm()
	files, err := s.openHub(ctx, t.Hub, s.hubSubset(form), cmp.Or(s.Hub.Split, form.split, "train"))
	if err != nil {
		return nil, err
	}
	defer files.Close()
	set := &Set{Generator: "hf-parquet", Warnings: files.notes}
	if form.item == nil {
		if form, err = s.guessForm(files, set); err != nil {
			return nil, err
		}
	}
	h := &hubSampler{spec: s, tools: t, form: form, files: files, skipped: map[string]int{}}
	if err := h.check(set); err != nil {
		return nil, err
	}
	next, stop := iter.Pull2(h.order())
	defer stop()
	timed, err := h.sample(ctx, next, s.Prompts)
	if err != nil {
		return nil, err
	}
	if len(timed) == 0 {
		return nil, fmt.Errorf("%s: none of its rows can be sent%s; want others", s.Path, h.reasons())
	}
	for _, r := range timed {
		set.Requests = append(set.Requests, r.request)
	}
	err = addWarmups(s, set, func() ([]Request, error) { return h.warmups(ctx, set, next, timed) })
	if err != nil {
		return nil, err
	}
	if n := h.failed.Load(); n > 0 {
		set.warnf("%s", uncounted(n, t.Render))
	}
	if why := h.reasons(); why != "" {
		set.warnf("%s: rows were left out%s", s.Path, why)
	}
	s.oversample(set, s.Prompts)
	return set, nil
}

func (s Spec) hubSubset(form hubForm) string {
	if form.wholeSubset {
		return ""
	}
	return cmp.Or(s.Subset, form.subset)
}

// guessForm takes the one column that must be the prompt, if there is one.
func (s Spec) guessForm(files *hubFiles, set *Set) (hubForm, error) {
	f, err := files.file(0)
	if err != nil {
		return hubForm{}, err
	}
	var found, all []string
	for _, c := range f.Columns() {
		all = append(all, c.Name+" ("+c.Type+")")
		text := c.Type == "string"
		chat := strings.HasPrefix(c.Type, "list of {") && (strings.Contains(c.Type, "content: string") || strings.Contains(c.Type, "value: string"))
		switch c.Name {
		case "prompt", "question", "instruction", "text", "messages", "conversations":
			if text || chat {
				found = append(found, c.Name)
			}
		}
	}
	if len(found) != 1 {
		return hubForm{}, fmt.Errorf("hf-prompt-column: %s is of a form that is not known; want the name of the column with the prompts, one of %s",
			s.Path, strings.Join(all, ", "))
	}
	set.warnf("%s is of a form that is not known: its column %s is sent as prompts; --hf-prompt-column names another", s.Path, found[0])
	return s.columnForm(found[0]), nil
}

// hubSampler makes requests of rows.
type hubSampler struct {
	spec    Spec
	tools   Tools
	form    hubForm
	files   *hubFiles
	skipped map[string]int // rows that were left out, by reason
	spare   []sampled      // rows that were read and not looked at yet
	failed  atomic.Int64   // not rendered, where it was for a count only
}

// sampled is a row that was used.
type sampled struct {
	item    hubItem
	request Request
}

// check finds out whether all is there that the form needs.
func (h *hubSampler) check(set *Set) error {
	s, f := h.spec, h.form
	switch {
	case h.tools.Tokenizer == nil && s.TokenIDs:
		return errors.New("token ids of a data set of the hub need a tokenizer; want one, or text prompts")
	case h.tools.Tokenizer == nil && f.limit.always:
		return fmt.Errorf("dataset-path: rows of %s are chosen by their lengths, which needs a tokenizer; want one", s.Path)
	case h.tools.Tokenizer == nil && h.counts():
		return fmt.Errorf("hf-output-len: %s asks for as many tokens as its answers have, which needs a tokenizer; want one, or a number of tokens", s.Path)
	case f.template && !s.Chat && !s.SkipTemplate && h.tools.Render == nil:
		return fmt.Errorf("dataset-path: %s renders the model's chat template around each prompt, and none is there; want --skip-chat-template, or a chat backend", s.Path)
	case len(s.Hub.PromptColumn) > 0 && s.OutputLen == -1 && f.output > 0:
		set.warnf("%s: %d tokens are asked for in each request; --hf-output-len or --hf-output-column says otherwise", s.Path, f.output)
	}
	return nil
}

// counts reports whether lengths decide what is sent.
func (h *hubSampler) counts() bool {
	return h.spec.OutputLen == -1 && h.form.output == 0 || h.limits()
}

// limits reports whether rows are left out for their lengths.
func (h *hubSampler) limits() bool {
	return h.form.limit.always || h.spec.OutputLen == -1 && h.form.limit != hubLimit{}
}

// columnOf finds the column that a path begins with.
func columnOf(f *parquet.File, name string) (string, error) {
	var all []string
	first, _, _ := strings.Cut(name, ".")
	for _, c := range f.Columns() {
		if c.Name == name {
			return name, nil
		}
		all = append(all, c.Name+" ("+c.Type+")")
	}
	if first != name && slices.ContainsFunc(f.Columns(), func(c parquet.Column) bool { return c.Name == first }) {
		return first, nil
	}
	return "", fmt.Errorf("no column %s; want one of %s", name, strings.Join(all, ", "))
}

// columnFlag begins a message about a column that a flag names.
func (s Spec) columnFlag(column string) string {
	switch column {
	case s.Hub.PromptColumn:
		return "hf-prompt-column: "
	case s.Hub.OutputColumn:
		return "hf-output-column: "
	}
	return ""
}

// order is the order of rows: that of a stream, as vLLM's default, or of a whole
// data set with --no-stream.
func (h *hubSampler) order() iter.Seq2[hubRow, error] {
	n, seed := len(h.files.names), uint64(h.spec.Seed)
	switch {
	case h.spec.DisableShuffle:
		return inOrder(n, h.files.rows)
	case h.spec.Hub.NoStream:
		return wholeShuffle(n, h.files.rows, seed)
	}
	return streamShuffle(n, h.files.rows, seed)
}

// sample uses rows until want of them can be sent, or none are left. Rows are
// read in rounds, each twice as long as the one before: a form that leaves out
// most of them then still passes the files only a few times.
func (h *hubSampler) sample(ctx context.Context, next func() (hubRow, error, bool), want int) (out []sampled, err error) {
	for round := want; len(out) < want; round = min(max(2*round, 256), 1<<16) {
		if len(h.spare) == 0 {
			if h.spare, err = h.round(ctx, next, round); err != nil || len(h.spare) == 0 {
				return out, err
			}
		}
		for len(h.spare) > 0 && len(out) < want {
			m := h.spare[0]
			h.spare = h.spare[1:]
			if m.item.skip != "" {
				h.skipped[m.item.skip]++
			} else {
				out = append(out, m)
			}
		}
	}
	return out, nil
}

// round reads up to n rows more.
func (h *hubSampler) round(ctx context.Context, next func() (hubRow, error, bool), n int) ([]sampled, error) {
	var places []hubRow
	for range n {
		p, err, ok := next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		places = append(places, p)
	}
	cells, err := h.read(ctx, places)
	if err != nil {
		return nil, err
	}
	return h.make(ctx, places, cells)
}

// read returns the cells of the rows.
func (h *hubSampler) read(ctx context.Context, places []hubRow) ([]hubCells, error) {
	out := make([]hubCells, len(places))
	inFile := map[int][]int{} // indices of places
	for i, p := range places {
		inFile[p.shard] = append(inFile[p.shard], i)
		out[i] = hubCells{}
	}
	for _, shard := range slices.Sorted(maps.Keys(inFile)) {
		file, err := h.files.file(shard)
		if err != nil {
			return nil, err
		}
		which := inFile[shard]
		slices.SortFunc(which, func(a, b int) int { return places[a].row - places[b].row })
		rows := make([]int, len(which))
		for i, w := range which {
			rows[i] = places[w].row
		}
		for _, c := range h.form.columns {
			column, err := columnOf(file, c)
			if err != nil {
				return nil, fmt.Errorf("%s%s: %w", h.spec.columnFlag(c), h.files.at(shard), err)
			}
			values, err := file.Read(ctx, column, rows)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", h.files.at(shard), err)
			}
			for i, w := range which {
				out[w][column] = values[i]
			}
		}
	}
	return out, nil
}

// make turns rows into requests, or into reasons to leave them out. Of several
// bad rows the first is told.
func (h *hubSampler) make(ctx context.Context, places []hubRow, cells []hubCells) ([]sampled, error) {
	at := func(i int, err error) error {
		return fmt.Errorf("%s: row %d: %w", h.files.at(places[i].shard), places[i].row, err)
	}
	items := make([]hubItem, len(places))
	for i := range places {
		var err error
		if items[i], err = h.form.item(h.spec, cells[i]); err != nil {
			return nil, at(i, err)
		}
		cells[i] = nil
	}
	out := make([]sampled, len(places))
	err := parallel(ctx, h.workers(), len(places), func(ctx context.Context, i int) (err error) {
		if out[i], err = h.request(ctx, items[i]); err != nil {
			return at(i, err)
		}
		return nil
	})
	return out, err
}

// local reports whether counting costs no call to a server.
func (h *hubSampler) local() bool {
	if h.tools.Tokenizer == nil {
		return false
	}
	_, local := h.tools.Tokenizer.Vocabulary()
	return local
}

func (h *hubSampler) workers() int {
	if h.tools.Tokenizer != nil && !h.local() && (h.spec.TokenIDs || h.counts()) {
		return countWorkers
	}
	return cores()
}

// request makes the request of an item, or gives a reason why not.
func (h *hubSampler) request(ctx context.Context, it hubItem) (sampled, error) {
	s := h.spec
	if it.skip == "" && it.prompt == "" && len(it.messages) == 0 {
		it.skip = skipEmpty
	}
	if it.skip != "" {
		return sampled{item: it}, nil
	}
	r := Request{Prompt: it.prompt, Parts: it.parts, OutputTokens: s.OutputLen}
	counted, err := h.fill(&r, it)
	if err != nil {
		return sampled{}, err
	}
	var tokens []int
	if h.local() || s.TokenIDs || h.limits() {
		tokens, err = h.tools.Tokenizer.Encode(ctx, counted, true)
	}
	if err != nil {
		return sampled{}, fmt.Errorf("encode prompt: %w", err)
	}
	r.InputTokens = len(tokens)
	if s.TokenIDs {
		r.Prompt, r.Tokens = "", tokens
	}
	if r.OutputTokens == -1 {
		r.OutputTokens = h.form.output
	}
	if r.OutputTokens == 0 {
		answer, err := h.tools.Tokenizer.Encode(ctx, it.answer, !h.form.bare)
		if err != nil {
			return sampled{}, fmt.Errorf("encode answer: %w", err)
		}
		if r.OutputTokens = len(answer); it.answer == "" || r.OutputTokens == 0 {
			it.skip = skipAnswer
		}
	}
	if h.limits() && !h.form.limit.allows(r.InputTokens, r.OutputTokens) {
		it.skip = cmp.Or(it.skip, skipLength)
	}
	return sampled{it, r}, nil
}

// fill puts the item into the request as its endpoint wants it, and returns the
// text to count.
func (h *hubSampler) fill(r *Request, it hubItem) (counted string, err error) {
	s := h.spec
	messages := it.messages
	if len(messages) == 0 {
		messages = []hubMessage{{"user", it.prompt}}
	}
	raw, err := json.Marshal(messages)
	if err != nil {
		return "", err
	}
	if s.Chat { // the server renders; its count is that of the rendered text
		if len(it.messages) > 0 {
			r.Messages = raw
		}
		return h.countedChat(it, raw), nil
	}
	system, user := "", ""
	for _, m := range messages {
		if m.Role == "system" && user == "" {
			system = m.Content
		}
		if m.Role == "user" && user == "" {
			user = m.Content
		}
	}
	switch {
	case !h.form.template || s.SkipTemplate:
		if system != "" {
			user = system + "\n\n" + user
		}
		r.Prompt = user
	case len(it.messages) > 0 && h.tools.RenderMessages != nil:
		r.Prompt, err = h.tools.RenderMessages(raw)
	case system != "":
		return "", errors.New("has a system message, which the chat template is not rendered around here; want a chat backend, or --skip-chat-template")
	default:
		r.Prompt, err = h.tools.Render(user)
	}
	if err != nil {
		return "", fmt.Errorf("render chat template: %w", err)
	}
	return r.Prompt, nil
}

// countedChat is the text to count of a prompt that the server renders.
func (h *hubSampler) countedChat(it hubItem, raw json.RawMessage) (text string) {
	var err error
	switch {
	case !h.form.template || !h.local() && !h.limits(): // nobody counts
	case len(it.messages) > 0 && h.tools.RenderMessages != nil:
		text, err = h.tools.RenderMessages(raw)
	case len(it.messages) == 0 && h.tools.Render != nil:
		text, err = h.tools.Render(it.prompt)
	}
	if err != nil { // the server renders it, perhaps better
		h.failed.Add(1)
	}
	if text != "" || len(it.messages) == 0 {
		return cmp.Or(text, it.prompt)
	}
	var all []string
	for _, m := range it.messages {
		all = append(all, m.Content)
	}
	return strings.Join(all, "\n")
}

// warmups takes the rows that follow the timed ones, and copies of timed ones
// behind a text of their own where there are too few.
func (h *hubSampler) warmups(ctx context.Context, set *Set, next func() (hubRow, error, bool), timed []sampled) ([]Request, error) {
	before := maps.Clone(h.skipped)
	more, err := h.sample(ctx, next, h.spec.Warmups)
	if err != nil {
		return nil, err
	}
	h.skipped = before // only of the timed ones is reported
	var out []Request
	for _, m := range more {
		out = append(out, m.request)
	}
	if salted := h.spec.Warmups - len(out); salted > 0 {
		set.warnf("%s has no rows left for %d warm-ups: they are timed prompts behind a prefix of their own", h.spec.Path, salted)
	}
	for i := 0; len(out) < h.spec.Warmups; i++ {
		it := timed[i%len(timed)].item.salted(fmt.Sprintf("Warm-up %d: ", i+1))
		m, err := h.request(ctx, it)
		if err != nil {
			return nil, err
		}
		m.request.OutputTokens = timed[i%len(timed)].request.OutputTokens
		out = append(out, m.request)
	}
	return out, nil
}

// salted puts a text in front of the prompt, that of the first message in a chat.
func (it hubItem) salted(salt string) hubItem {
	if len(it.messages) > 0 {
		it.messages = slices.Clone(it.messages)
		it.messages[0].Content = salt + it.messages[0].Content
	} else {
		it.prompt = salt + it.prompt
	}
	return it
}

// reasons tells how many rows were left out, and why.
func (h *hubSampler) reasons() string {
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(h.skipped)) {
		parts = append(parts, fmt.Sprintf("%d with %s", h.skipped[why], why))
	}
	if parts == nil {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}
