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
	if err := h.open(set); err != nil {
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
	if why := h.reasons(); why != "" {
		set.warnf("%s: rows were left out%s", s.Path, why)
	}
	h.warn(set)
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
	*prompter
	spec    Spec
	tools   Tools
	form    hubForm
	files   *hubFiles
	skipped map[string]int // rows that were left out, by reason
	spare   []sampled      // rows that were read and not looked at yet
}

// sampled is a row that was used.
type sampled struct {
	item    hubItem
	request Request
}

// open finds out whether all is there that the form needs, and takes a prompter.
func (h *hubSampler) open(set *Set) (err error) {
	s, f := h.spec, h.form
	switch {
	case h.tools.Tokenizer == nil && s.TokenIDs:
		return errors.New("token ids of a data set of the hub need a tokenizer; want one, or text prompts")
	case h.tools.Tokenizer == nil && f.limit.always:
		return fmt.Errorf("dataset-path: rows of %s are chosen by their lengths, which needs a tokenizer; want one", s.Path)
	case h.tools.Tokenizer == nil && h.counts():
		return fmt.Errorf("hf-output-len: %s asks for as many tokens as its answers have, which needs a tokenizer; want one, or a number of tokens", s.Path)
	case len(s.Hub.PromptColumn) > 0 && s.OutputLen == -1 && f.output > 0:
		set.warnf("%s: %d tokens are asked for in each request; --hf-output-len or --hf-output-column says otherwise", s.Path, f.output)
	}
	// Rows that are chosen by their lengths are so by those of what the model
	// sees: on chat the template is rendered for the count in any case.
	s.SkipTemplate = !f.template || s.SkipTemplate && !(s.Chat && f.limit.always)
	if h.prompter, err = newPrompter(s, h.tools, h.limits()); err != nil {
		return err
	}
	if !h.local && h.counts() {
		h.workers = countWorkers
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
	items, first := make([]hubItem, len(places)), -1
	for i := range places {
		it, err := h.form.item(h.spec, cells[i])
		if err != nil {
			return nil, at(i, err)
		}
		if it.skip == "" && it.prompt == "" && len(it.messages) == 0 {
			it.skip = skipEmpty
		}
		if items[i], cells[i] = it, nil; it.skip == "" && first < 0 {
			first = i
		}
	}
	if first >= 0 {
		if err := h.learn(ctx, h.plain(items[first])); err != nil {
			return nil, at(first, err)
		}
	}
	out := make([]sampled, len(places))
	err := parallel(ctx, h.workers, len(places), func(ctx context.Context, i int) (err error) {
		if out[i], err = h.request(ctx, items[i]); err != nil {
			return at(i, err)
		}
		return nil
	})
	return out, err
}

// request makes the request of an item, or gives a reason why not.
func (h *hubSampler) request(ctx context.Context, it hubItem) (sampled, error) {
	if it.skip != "" {
		return sampled{item: it}, nil
	}
	r, theirs, err := h.send(ctx, it)
	if err != nil {
		return sampled{}, err
	}
	r.Parts = it.parts
	if r.OutputTokens = h.spec.OutputLen; r.OutputTokens == -1 {
		r.OutputTokens = h.form.output
	}
	if r.OutputTokens == 0 {
		answer, err := h.tok.Encode(ctx, it.answer, !h.form.bare)
		if err != nil {
			return sampled{}, fmt.Errorf("encode answer: %w", err)
		}
		if r.OutputTokens = len(answer); it.answer == "" || r.OutputTokens == 0 {
			it.skip = skipAnswer
		}
	}
	if h.limits() && !h.form.limit.allows(theirs, r.OutputTokens) {
		it.skip = cmp.Or(it.skip, skipLength)
	}
	return sampled{it, r}, nil
}

// send makes the prompt of an item, as its endpoint wants it.
func (h *hubSampler) send(ctx context.Context, it hubItem) (r Request, theirs int, err error) {
	if len(it.messages) == 0 {
		return h.prompter.request(ctx, it.prompt)
	}
	raw, err := json.Marshal(it.messages)
	if err != nil {
		return r, 0, err
	}
	render := h.render
	switch {
	case render != nil && h.tools.RenderMessages != nil:
		render = func(string) (string, error) { return h.tools.RenderMessages(raw) }
	case h.spec.Chat:
		render = nil
	case render != nil && it.system() != "":
		return r, 0, errors.New("has a system message, which the chat template is not rendered around here; want a chat backend, or --skip-chat-template")
	}
	r, theirs, err = h.rendered(ctx, h.plain(it), render)
	if h.spec.Chat { // the server renders
		r.Prompt, r.Messages = "", raw
	}
	return r, theirs, err
}

// plain is an item's text without a chat template: of a conversation all texts
// where they are only counted, else the system's and the user's first.
func (h *hubSampler) plain(it hubItem) string {
	switch {
	case len(it.messages) == 0:
		return it.prompt
	case h.spec.Chat:
		var all []string
		for _, m := range it.messages {
			all = append(all, m.Content)
		}
		return strings.Join(all, "\n")
	}
	user := ""
	if i := slices.IndexFunc(it.messages, hubMessage.asks); i >= 0 {
		user = it.messages[i].Content
	}
	if system := it.system(); system != "" {
		return system + "\n\n" + user
	}
	return user
}

// asks reports a message of the user.
func (m hubMessage) asks() bool { return m.Role == "user" && m.Content != "" }

// system is the last system message before the user's first.
func (it hubItem) system() (text string) {
	for _, m := range it.messages {
		if m.asks() {
			break
		}
		if m.Role == "system" {
			text = m.Content
		}
	}
	return text
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
	for i, m := range warmRows(h.spec, set, timed, more, sampled.salted) {
		if i >= len(more) {
			again, err := h.request(ctx, m.item)
			if err != nil {
				return nil, err
			}
			again.request.OutputTokens = m.request.OutputTokens
			m = again
		}
		out = append(out, m.request)
	}
	return out, nil
}

// salted changes the item alone: its request is to be made again.
func (m sampled) salted(salt string) sampled {
	m.item = m.item.salted(salt)
	return m
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
