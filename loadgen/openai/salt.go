package openai

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// SaltForm is how a salt is sent.
type SaltForm string

const (
	// SaltField is vLLM's request field cache_salt: the prompt stays as it is.
	SaltField SaltForm = "cache_salt"
	// SaltPrompt changes the prompt's beginning: a short word of the salt's stands
	// in front of a text, and the first ids of a list change places.
	SaltPrompt SaltForm = "prompt"
)

// maxSalt leaves room for an ending: vLLM takes 128 characters.
const maxSalt = 100

// CheckSalt tells whether vLLM would take a salt.
func CheckSalt(salt string) error {
	n := utf8.RuneCountInString(salt)
	bad := strings.ContainsFunc(salt, func(r rune) bool { return r < ' ' || r == 0x7f || strings.ContainsRune(`@/\`, r) })
	if n == 0 || n > maxSalt || bad || !utf8.ValidString(salt) {
		return fmt.Errorf(`%d characters; want 1 to %d, none of them @, /, \ or a control character`, n, maxSalt)
	}
	return nil
}

// Salted returns a body that [Format.Encode] made, salted. Bodies that begin
// alike still do under one salt. Prompts that no prefix cache can hold stay as
// they are: images alone, in the APIs that embed either those or texts.
func (a API) Salted(body []byte, form SaltForm, salt string) ([]byte, error) {
	if form == SaltField {
		return withField(body, salt)
	}
	s := salter(sha256.Sum256([]byte(salt)))
	keys := []string{"prompt", "messages", "input"}
	switch {
	case a == Rerank:
		keys = []string{"query", "documents"}
	case (a == Infinity || a == InfinityClip) && gjson.GetBytes(body, "modality").Exists():
		return body, nil
	case a == EmbeddingsClip && gjson.GetBytes(body, "messages.0.content.#").Int() > 1:
		return body, nil
	}
	found := false
	for _, key := range keys {
		v := gjson.GetBytes(body, key)
		if !v.Exists() {
			continue
		}
		salted, err := s.value(v)
		if err != nil {
			return nil, fmt.Errorf("salt the member %s: %w", key, err)
		}
		if body, err = sjson.SetRawBytes(body, key, salted); err != nil {
			return nil, fmt.Errorf("salt the member %s: %w", key, err)
		}
		found = true
	}
	if !found {
		return nil, fmt.Errorf("the body has no prompt to salt; want one of %s", strings.Join(keys, ", "))
	}
	return body, nil
}

// withField adds the field behind all others.
func withField(body []byte, salt string) ([]byte, error) {
	value, err := encode(salt)
	if err != nil {
		return nil, err
	}
	end := len(body) - 1
	if end < 2 || body[0] != '{' || body[end] != '}' {
		return nil, fmt.Errorf("the body is no JSON object with members")
	}
	out := make([]byte, 0, len(body)+len(value)+len(`,"cache_salt":`))
	out = append(append(out, body[:end]...), `,"cache_salt":`...)
	return append(append(out, value...), '}'), nil
}

// salter is the digest of a salt.
type salter [sha256.Size]byte

// word is what stands in front of texts. Letters need no escape in JSON.
func (s *salter) word() string {
	b := make([]byte, 8)
	for i := range b {
		b[i] = 'a' + s[i]%26
	}
	return string(b) + " "
}

func (s *salter) value(v gjson.Result) ([]byte, error) {
	switch {
	case v.Type == gjson.String:
		return []byte(`"` + s.word() + v.Raw[1:]), nil
	case !v.IsArray():
		return nil, fmt.Errorf("neither a text nor a list")
	}
	switch first := v.Get("0"); {
	case !first.Exists():
		return []byte(v.Raw), nil
	case first.Type == gjson.Number:
		return s.ids(v.Raw)
	case first.IsObject():
		return s.messages(v)
	}
	out := []byte{'['}
	for i, item := range v.Array() {
		if i > 0 {
			out = append(out, ',')
		}
		salted, err := s.value(item)
		if err != nil {
			return nil, err
		}
		out = append(out, salted...)
	}
	return append(out, ']'), nil
}

// mixedIDs is how many ids change places: a block of vLLM's cache.
const mixedIDs = 16

// ids orders the first ids anew: as many as before, all of the vocabulary, and
// another order for another salt. raw is the list in JSON.
func (s *salter) ids(raw string) ([]byte, error) {
	inside, rest := raw[1:len(raw)-1], ""
	first := strings.SplitN(inside, ",", mixedIDs+1)
	if len(first) > mixedIDs {
		first, rest = first[:mixedIDs], ","+first[mixedIDs]
	}
	for _, id := range first {
		if strings.Trim(id, "0123456789") != "" {
			return nil, fmt.Errorf("%.20q is no token id", id)
		}
	}
	order := make([]int, len(first))
	for i := range order {
		order[i] = i
	}
	// 32 bytes are 16 keys of two; equal ones keep their order.
	key := func(i int) uint16 { return binary.BigEndian.Uint16(s[2*i:]) }
	slices.SortStableFunc(order, func(a, b int) int { return int(key(a)) - int(key(b)) })
	mixed := make([]string, len(first))
	for i, from := range order {
		mixed[i] = first[from]
	}
	return []byte("[" + strings.Join(mixed, ",") + rest + "]"), nil
}

// messages salts the first text of a chat, which a template puts first.
func (s *salter) messages(v gjson.Result) ([]byte, error) {
	for i, m := range v.Array() {
		content := m.Get("content")
		if content.Type == gjson.String {
			return sjson.SetRawBytes([]byte(v.Raw), fmt.Sprintf("%d.content", i), []byte(`"`+s.word()+content.Raw[1:]))
		}
		for j, part := range content.Array() {
			if text := part.Get("text"); text.Type == gjson.String {
				return sjson.SetRawBytes([]byte(v.Raw), fmt.Sprintf("%d.content.%d.text", i, j), []byte(`"`+s.word()+text.Raw[1:]))
			}
		}
	}
	return nil, fmt.Errorf("no message has a text")
}

// PromptIn returns the part of a body that a prefix cache looks at, as JSON in
// the order in which a server reads it; text tells it from token ids. It is nil
// where that order is not known: beside images, for several prompts at a time,
// and where nothing is generated.
func (a API) PromptIn(body []byte) (prompt []byte, text bool) {
	if !a.Generates() {
		return nil, false
	}
	for _, key := range []string{"prompt", "messages", "input"} {
		v := gjson.GetBytes(body, key)
		switch {
		case !v.Exists():
			continue
		case v.Type == gjson.String:
			return json.RawMessage(v.Raw), true
		case !v.IsArray() || strings.Contains(v.Raw, `_url":`):
			return nil, false
		case v.Get("0").IsObject():
			// Templates put tools in front.
			return append([]byte(gjson.GetBytes(body, "tools").Raw), v.Raw...), true
		case v.Get("0").Type == gjson.Number:
			return []byte(v.Raw), false
		}
		return nil, false
	}
	return nil, false
}
