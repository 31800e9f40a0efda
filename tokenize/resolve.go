package tokenize

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// resolved is a folder brought into the one document that the Rust library reads,
// and what is outside it.
type resolved struct {
	document     []byte
	rewritten    object // document, member by member
	model        object // its model
	added        []addedToken
	ids          map[string]int // of the model's tokens
	vocab        Vocabulary     // without Added
	clean        bool           // clean_up_tokenization_spaces, where it applies
	splitSpecial bool
	class        string
	note         string
}

// source is a parsed tokenizer.json.
type source struct {
	document object
	model    object
	kind     string // BPE, Unigram, ...
	vocab    map[string]int
	added    []addedToken
}

// resolve does what AutoTokenizer.from_pretrained does to a folder's tokenizer.
func resolve(f folder) (resolved, error) {
	src, err := parse(f.document)
	if err != nil {
		return resolved{}, err
	}
	class, info, note, err := classOf(f, src)
	if err != nil {
		return resolved{}, err
	}
	marks, err := readSpecials(f, info.Defaults)
	if err != nil {
		return resolved{}, err
	}
	padFromFile(&marks, f, info, src)
	tokens, err := addTokens(f, src, info, marks)
	if err != nil {
		return resolved{}, err
	}
	r := resolved{vocab: Vocabulary{Size: len(src.vocab)}, ids: src.vocab, class: class, note: note, added: tokens}
	r.vocab.Special = src.idsOf(tokens, marks)
	r.vocab.fillIDs(src.vocab, tokens)
	if r.rewritten, r.model, err = rewrite(f, src, info, marks, tokens); err != nil {
		return resolved{}, err
	}
	r.document = r.rewritten.bytes()
	return r, r.options(f.config, src.kind)
}

// parse reads tokenizer.json as far as it is looked at here. Reading all of it as
// JSON first keeps damaged files away from the Rust library.
func parse(data []byte) (source, error) {
	var src source
	if err := json.Unmarshal(data, &src.document); err != nil {
		return src, fmt.Errorf("read %s: %w", fileName, err)
	}
	raw := src.document.get("model")
	if raw == nil {
		return src, fmt.Errorf("read %s: no model", fileName)
	}
	if err := json.Unmarshal(raw, &src.model); err != nil {
		return src, fmt.Errorf("read %s: model: %w", fileName, err)
	}
	if added := src.document.get("added_tokens"); added != nil {
		if err := json.Unmarshal(added, &src.added); err != nil {
			return src, fmt.Errorf("read %s: added_tokens: %w", fileName, err)
		}
	}
	if kind := src.model.get("type"); kind != nil {
		if err := json.Unmarshal(kind, &src.kind); err != nil {
			return src, fmt.Errorf("read %s: model.type: %w", fileName, err)
		}
	}
	if src.kind == "" && src.model.get("merges") != nil {
		src.kind = "BPE" // files of before 2020 name no type
	}
	return src, src.readVocab()
}

// readVocab reads {"token": id} or, of a Unigram model, [["token", score]].
func (src *source) readVocab() error {
	raw := bytes.TrimSpace(src.model.get("vocab"))
	var err error
	switch {
	case bytes.HasPrefix(raw, []byte("[")):
		var rows [][]json.RawMessage
		err = json.Unmarshal(raw, &rows)
		src.vocab = make(map[string]int, len(rows))
		for id, row := range rows {
			var token string
			if len(row) != 2 || json.Unmarshal(row[0], &token) != nil {
				return fmt.Errorf("read %s: model.vocab: row %d is not [token, score]", fileName, id)
			}
			src.vocab[token] = id
		}
	case bytes.HasPrefix(raw, []byte("{")):
		err = json.Unmarshal(raw, &src.vocab)
	default:
		err = errors.New("want an object or a list")
	}
	if err != nil {
		return fmt.Errorf("read %s: model.vocab: %w", fileName, err)
	}
	return nil
}

// classOf chooses the class and says in note where we do not follow it.
func classOf(f folder, src source) (name string, info classInfo, note string, err error) {
	var named string
	if raw := f.config.get("tokenizer_class"); !isNull(raw) {
		if err := json.Unmarshal(raw, &named); err != nil {
			return "", info, "", fmt.Errorf("tokenizer_config.json: tokenizer_class: %w", err)
		}
	}
	if named == "" {
		named = f.model.TokenizerClass
	}
	name, info = classes().lookup(classes().choose(named, f.model.Type, f.model.Name))
	switch {
	case info.Kind == "built" && (src.kind != "BPE" || src.model.get("merges") == nil):
		note = fmt.Sprintf("transformers' %s makes a BPE model of a file of another kind (%s)", name, src.kind)
	case info.Kind == "other":
		note = fmt.Sprintf("transformers' %s builds its own pipeline; here it is the file's", name)
	case info.Kind == "python":
		note = fmt.Sprintf("transformers' %s does not read %s", name, fileName)
	case !isNull(f.config.get("fix_mistral_regex")):
		note = "fix_mistral_regex of tokenizer_config.json is not followed"
	case !isNull(f.config.get("auto_map")):
		note = "with --trust-remote-code the folder's own Python code is used instead"
	}
	if note != "" && info.Kind == "built" {
		info.Kind = "other"
	}
	return name, info, note, nil
}

// padFromFile: the pad token of tokenizer.json's padding, where nothing else says.
func padFromFile(marks *specials, f folder, info classInfo, src source) {
	var padding struct {
		Token *string `json:"pad_token"`
	}
	_, known := info.Defaults["pad_token"]
	if known || f.config.get("pad_token") != nil || marks.named["pad_token"] != "" {
		return
	}
	if json.Unmarshal(src.document.get("padding"), &padding) == nil && padding.Token != nil {
		marks.named["pad_token"] = *padding.Token
	}
}

// addTokens follows __init__ of TokenizersBackend: the tokens in the order in which
// transformers adds them. The Rust library reads them one by one in the same way,
// so that a token that comes twice, with other properties, has the same effect.
func addTokens(f folder, src source, info classInfo, marks specials) ([]addedToken, error) {
	more, err := decoderTokens(f, marks, src.added)
	if err != nil {
		return nil, err
	}
	var tokens []addedToken
	if info.Kind != "built" {
		tokens = slices.Clone(src.added)
	}
	present := map[string]bool{}
	for _, token := range slices.Concat(tokens, more) {
		present[token.Content] = true
	}
	all := marks.all()
	for _, content := range all {
		if !present[content] {
			more = append(more, specialToken(content))
		}
	}
	named := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(marks.extra, s) })
	listed := map[addedToken]bool{}
	for _, token := range tokens {
		listed[token.withoutID()] = true
	}
	for _, token := range more {
		token.Special = token.Special || slices.Contains(named, token.Content)
		if !listed[token.withoutID()] {
			tokens = append(tokens, token)
		}
	}
	switch info.Readd {
	case "all":
		for _, content := range all {
			tokens = append(tokens, specialToken(content))
		}
	case "extra":
		for _, content := range marks.extra {
			tokens = append(tokens, specialToken(content))
		}
	}
	return number(tokens, src.vocab), nil
}

// number gives ids as the Rust library does when it adds token after token.
func number(tokens []addedToken, vocab map[string]int) []addedToken {
	ids := map[string]int{}
	next := len(vocab)
	tokens = slices.DeleteFunc(tokens, func(t addedToken) bool { return t.Content == "" }) // ignored there
	for i, token := range tokens {
		id, ok := ids[token.Content]
		if !ok {
			if id, ok = vocab[token.Content]; !ok {
				id = next
			}
			ids[token.Content] = id
			next = max(next, id+1)
		}
		tokens[i].ID = id
	}
	return tokens
}

func (src source) idsOf(tokens []addedToken, marks specials) []int {
	ids := make(map[string]int, len(tokens))
	for _, token := range tokens {
		ids[token.Content] = token.ID
	}
	special := []int{}
	for _, content := range marks.all() {
		if id, ok := ids[content]; ok {
			special = append(special, id)
		} else if id, ok := src.vocab[content]; ok {
			special = append(special, id)
		}
	}
	slices.Sort(special)
	return slices.Compact(special)
}

// rewrite returns the document for the Rust library, and the model in it: without
// truncation and padding, which transformers switches off, with the tokens, and
// with the class's pipeline where it builds one.
func rewrite(f folder, src source, info classInfo, marks specials, tokens []addedToken) (document, model object, err error) {
	document = slices.Clone(src.document)
	null := json.RawMessage("null")
	document.set("truncation", null)
	document.set("padding", null)
	list, err := json.Marshal(tokens)
	if err != nil {
		return nil, nil, err
	}
	if tokens != nil {
		document.set("added_tokens", list)
	}
	if info.NoPostProcessor {
		document.set("post_processor", null)
	}
	if info.Kind != "built" {
		return document, src.model, nil
	}
	p, err := info.pipelineFor(f.config)
	if err != nil {
		return nil, nil, err
	}
	document.set("normalizer", p.Normalizer)
	document.set("pre_tokenizer", p.PreTokenizer)
	document.set("decoder", p.Decoder)
	model = slices.Clone(p.Model)
	if !isNull(model.get("unk_token")) {
		unknown, _ := json.Marshal(marks.named["unk_token"]) // a string
		model.set("unk_token", unknown)
	}
	model.set("vocab", src.model.get("vocab"))
	model.set("merges", src.model.get("merges"))
	document.set("model", model.bytes())
	return document, model, nil
}

// options reads the switches of tokenizer_config.json. Cleaning up is ignored for
// BPE, whose spaces it would destroy, unless a second switch insists.
func (r *resolved) options(config object, kind string) error {
	clean, err1 := boolOr(config, "clean_up_tokenization_spaces")
	insist, err2 := boolOr(config, "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output")
	split, err3 := boolOr(config, "split_special_tokens")
	r.clean = clean && (insist || kind != "BPE")
	r.splitSpecial = split
	return errors.Join(err1, err2, err3)
}

// cleanUp is transformers' clean_up_tokenization: one pass after another, so that
// one replacement may make room for the next.
func cleanUp(text string) string {
	for _, pair := range [][2]string{
		{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"},
		{" n't", "n't"}, {" 'm", "'m"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
	} {
		text = strings.ReplaceAll(text, pair[0], pair[1])
	}
	return text
}
