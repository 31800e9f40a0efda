package tokenize

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// addedToken is an AddedToken of the Rust library.
type addedToken struct {
	ID         int    `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

// UnmarshalJSON reads what Python's AddedToken(**object) takes: normalized is by
// default what special is not.
func (t *addedToken) UnmarshalJSON(data []byte) error {
	type plainToken addedToken
	var open struct {
		plainToken
		Content    *string `json:"content"`
		Normalized *bool   `json:"normalized"`
	}
	if err := json.Unmarshal(data, &open); err != nil {
		return err
	}
	if open.Content == nil {
		return fmt.Errorf("token without content: %.80s", data)
	}
	*t = addedToken(open.plainToken)
	t.Content = *open.Content
	t.Normalized = !t.Special
	if open.Normalized != nil {
		t.Normalized = *open.Normalized
	}
	return nil
}

func specialToken(content string) addedToken { return addedToken{Content: content, Special: true} }

// withoutID is for comparing: ids are given by the Rust library itself.
func (t addedToken) withoutID() addedToken {
	t.ID = 0
	return t
}

// attributes are the names of special tokens that every class knows, in
// transformers' order.
var attributes = []string{
	"bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token",
}

// specials are the special tokens by name and without one.
type specials struct {
	named map[string]string // attributes only; absent is None
	own   []string          // tokens under a model's own names (image_token)
	extra []string          // additional_special_tokens, extra_special_tokens
}

// all lists every token once, in transformers' order.
func (s specials) all() []string {
	var all []string
	for _, name := range attributes {
		if token, ok := s.named[name]; ok {
			all = append(all, token)
		}
	}
	return unique(slices.Concat(all, s.own, s.extra))
}

func unique(list []string) []string {
	seen := make(map[string]bool, len(list))
	return slices.DeleteFunc(list, func(s string) bool {
		was := seen[s]
		seen[s] = true
		return was
	})
}

// readSpecials follows _from_pretrained and __init__ of transformers'
// PreTrainedTokenizerBase: the class's defaults, over them tokenizer_config.json,
// over that special_tokens_map.json where the former lists no added tokens.
func readSpecials(f folder, defaults map[string]*string) (specials, error) {
	s := specials{named: map[string]string{}}
	for name, token := range defaults {
		if token != nil {
			s.named[name] = *token
		}
	}
	if err := s.apply(f.config); err != nil {
		return s, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	if f.config.get("added_tokens_decoder") == nil {
		if err := s.apply(f.specialMap); err != nil {
			return s, fmt.Errorf("special_tokens_map.json: %w", err)
		}
	}
	s.own = unique(s.own)
	return s, nil
}

func (s *specials) apply(config object) error {
	for _, m := range config {
		if !strings.HasSuffix(m.key, "_token") || strings.HasPrefix(m.key, "add_") {
			continue
		}
		token, ok, err := tokenText(m.value)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", m.key, err)
		case slices.Contains(attributes, m.key) && ok:
			s.named[m.key] = token
		case slices.Contains(attributes, m.key):
			delete(s.named, m.key) // null: None, also over a class's default
		case ok:
			s.own = append(s.own, token)
		}
	}
	return s.applyExtra(config.get("extra_special_tokens"), config.get("additional_special_tokens"))
}

// applyExtra: extra_special_tokens is a list, or an object of named tokens;
// additional_special_tokens, its old name, counts beside an object and where there
// is no list.
func (s *specials) applyExtra(extra, additional json.RawMessage) error {
	if bytes.HasPrefix(bytes.TrimSpace(extra), []byte("{")) {
		var named object
		if err := json.Unmarshal(extra, &named); err != nil {
			return fmt.Errorf("extra_special_tokens: %w", err)
		}
		for _, m := range named {
			token, ok, err := tokenText(m.value)
			if err != nil || !ok {
				return fmt.Errorf("extra_special_tokens: %s: want a token, got %.80s", m.key, m.value)
			}
			s.own = append(s.own, token)
		}
		extra = nil
	}
	tokens, err := tokenTexts(extra)
	if err != nil {
		return fmt.Errorf("extra_special_tokens: %w", err)
	}
	if len(tokens) == 0 {
		if tokens, err = tokenTexts(additional); err != nil {
			return fmt.Errorf("additional_special_tokens: %w", err)
		}
	}
	if len(tokens) > 0 {
		s.extra = tokens
	}
	return nil
}

func tokenTexts(list json.RawMessage) ([]string, error) {
	if isNull(list) {
		return nil, nil
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(list, &raw); err != nil {
		return nil, err
	}
	var tokens []string
	for _, value := range raw {
		token, ok, err := tokenText(value)
		if err != nil {
			return nil, err
		}
		if ok {
			tokens = append(tokens, token)
		}
	}
	return tokens, nil
}

// tokenText reads a token written as a string or as an AddedToken; ok is false for
// null and for what is no token (a flag called some_token).
func tokenText(value json.RawMessage) (text string, ok bool, err error) {
	switch trimmed := bytes.TrimSpace(value); {
	case bytes.HasPrefix(trimmed, []byte(`"`)):
		err = json.Unmarshal(trimmed, &text)
		return text, err == nil, err
	case bytes.HasPrefix(trimmed, []byte("{")):
		var token addedToken
		err = json.Unmarshal(trimmed, &token)
		return token.Content, err == nil, err
	default:
		return "", false, nil
	}
}

// decoderTokens lists the tokens that transformers adds from beside
// tokenizer.json, by id: added_tokens_decoder of tokenizer_config.json, else
// added_tokens.json with the added tokens of tokenizer.json over it.
func decoderTokens(f folder, s specials, own []addedToken) ([]addedToken, error) {
	byID := map[int]addedToken{}
	if raw := f.config.get("added_tokens_decoder"); raw != nil {
		var listed map[string]addedToken
		if err := json.Unmarshal(raw, &listed); err != nil {
			return nil, fmt.Errorf("tokenizer_config.json: added_tokens_decoder: %w", err)
		}
		for key, token := range listed {
			id, err := strconv.Atoi(key)
			if err != nil {
				return nil, fmt.Errorf("tokenizer_config.json: added_tokens_decoder: %w", err)
			}
			byID[id] = token
		}
	} else {
		all := s.all()
		for content, id := range f.addedTokens {
			special := slices.Contains(all, content)
			byID[id] = addedToken{Content: content, Special: special, Normalized: !special}
		}
		for _, token := range own {
			byID[token.ID] = token
		}
	}
	tokens := make([]addedToken, 0, len(byID))
	for id, token := range byID {
		token.ID = id
		tokens = append(tokens, token)
	}
	slices.SortFunc(tokens, func(a, b addedToken) int { return a.ID - b.ID })
	return tokens, nil
}
