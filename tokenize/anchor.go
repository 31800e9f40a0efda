//go:build hf && cgo

package tokenize

import (
	"encoding/json"
	"strings"
)

// anchors are the places where a text can be cut so that what the library makes
// of both parts, one after the other, is what it makes of the whole. A text is
// cut before a space that follows one of these bytes, all of them visible ASCII;
// with none in the set it is never cut.
//
// Why that holds, layer by layer, for the tokenizers that anchorsOf knows. Let x
// end in such a byte, y begin with the space.
//
//   - Added tokens are found left to right, the longest first. None of them holds
//     an anchor, so none lies across x and y. One that swallows blanks to its left
//     stops at the visible byte; a byte that one ends in that swallows blanks to
//     its right is not in the set; one that must be a whole word and begins with
//     a space, which would look at x from within y, is refused.
//   - The normalizer is none, NFC (nothing composes with a space, nor over one),
//     or the replacement of each space by "▁".
//   - Pre-tokenizers: see patterns. A space does not occur in a match behind
//     another visible character, so that every match ends before y or begins in
//     it. The only look-ahead, (?!\S) behind \s+, looks at most at the next
//     visible character, which in x is there with or without y; nothing looks
//     back; and a repetition that reaches the end of x stops there at the space
//     as it would at the end of the text.
//   - The model is BPE without dropout, which looks at one word at a time.
//   - Without a pre-tokenizer all of the text is one word, but only merges reach
//     over a place in it, in a fixed order. Where no token holds the byte with a
//     "▁" behind it, none can, and both sides merge as if alone.
//   - The post-processor only adds special tokens, which is not asked for here.
type anchors [256]bool

// none tells that texts cannot be cut.
func (a *anchors) none() bool { return *a == anchors{} }

// first returns where text is to be cut first: len(text) if nowhere.
func (a *anchors) first(text string) int {
	for i := 1; i < len(text); i++ {
		if text[i] == ' ' && a[text[i-1]] {
			return i
		}
	}
	return len(text)
}

// patterns are the regular expressions of Split that keep to what anchors says.
// The true ones match each space, alone or at the head of a match or among other
// blanks, and so cut at every anchor; the false ones match no space at all and
// leave it to the next.
var patterns = map[string]bool{
	// GPT-2, as ByteLevel has it.
	`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`: true,
	// Llama 3 and others of cl100k's kind.
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: true,
	// Qwen 2 to 3.
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: true,
	// Qwen 3.5.
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: true,
	// o200k: gpt-oss. A contraction is the end of its word here, and as such
	// reaches no space either.
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`: true,
	// DeepSeek V3: three in a row. The last leaves digits and control characters
	// between its matches, but no space.
	`\p{N}{1,3}`:   false,
	`[一-龥぀-ゟ゠-ヿ]+`: false,
	"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+": true,
}

// A stage is one JSON object of a tokenizer's pipeline.
type stage map[string]any

func stageOf(raw json.RawMessage) (s stage, ok bool) {
	if isNull(raw) {
		return nil, true
	}
	return s, json.Unmarshal(raw, &s) == nil
}

// list returns the members of a Sequence, which are under key, or s alone; nil
// where s is none.
func (s stage) list(key string) []stage {
	if s == nil {
		return nil
	}
	if s["type"] != "Sequence" {
		return []stage{s}
	}
	members, _ := s[key].([]any)
	list := make([]stage, len(members))
	for i, m := range members {
		list[i], _ = m.(map[string]any)
	}
	return list
}

// spaceMark is what some models have in place of a space.
const spaceMark = "▁"

// anchorsOf returns where texts of the tokenizer can be cut.
func anchorsOf(r resolved) (a anchors) {
	normalizer, ok1 := stageOf(r.rewritten.get("normalizer"))
	pre, ok2 := stageOf(r.rewritten.get("pre_tokenizer"))
	post, ok3 := stageOf(r.rewritten.get("post_processor"))
	if !ok1 || !ok2 || !ok3 || !plainBPE(r.model) || !addsTokensOnly(post) {
		return anchors{}
	}
	for c := '!'; c <= '~'; c++ {
		a[c] = true
	}
	steps := normalizer.list("normalizers")
	switch {
	case replaces(steps, " ", spaceMark) && splitsNothing(pre):
		if !isWhole(r.model) {
			return anchors{}
		}
		a.removeMerged(r.ids)
	case !composesOnly(steps) || !splitsAtAnchors(pre.list("pretokenizers")):
		return anchors{}
	}
	a.removeAdded(r.added)
	return a
}

// plainBPE: no dropout, which would make the ids random.
func plainBPE(model object) bool {
	var kind string
	if raw := model.get("type"); raw != nil && json.Unmarshal(raw, &kind) != nil {
		return false
	}
	return (kind == "BPE" || kind == "" && model.get("merges") != nil) && isNull(model.get("dropout"))
}

// isWhole tells a model that merges characters as they are: without marks for
// the inside and the end of a word, and without looking up the whole word.
func isWhole(model object) bool {
	for _, key := range []string{"continuing_subword_prefix", "end_of_word_suffix"} {
		if raw := model.get(key); !isNull(raw) && string(raw) != `""` {
			return false
		}
	}
	raw := model.get("ignore_merges")
	return isNull(raw) || string(raw) == "false"
}

func addsTokensOnly(post stage) bool {
	for _, s := range post.list("processors") {
		if s["type"] != "ByteLevel" && s["type"] != "TemplateProcessing" {
			return false
		}
	}
	return true
}

func composesOnly(steps []stage) bool {
	for _, s := range steps {
		if s["type"] != "NFC" {
			return false
		}
	}
	return true
}

// replaces: the one step is Replace of a string by another.
func replaces(steps []stage, old, new string) bool {
	if len(steps) != 1 {
		return false
	}
	pattern, _ := steps[0]["pattern"].(map[string]any)
	return steps[0]["type"] == "Replace" && pattern["String"] == old && steps[0]["content"] == new
}

// splitsNothing: there is nothing to split at once spaces are replaced.
func splitsNothing(pre stage) bool {
	if pre == nil {
		return true
	}
	pattern, _ := pre["pattern"].(map[string]any)
	return pre["type"] == "Split" && pattern["String"] == " " && pre["invert"] == false
}

func splitsAtAnchors(steps []stage) bool {
	cuts := false
	for _, s := range steps {
		switch s["type"] {
		case "ByteLevel":
			// Absent, use_regex is true. After it a space is no space any more.
			cuts = cuts || s["use_regex"] != false
			if s["add_prefix_space"] != false || !cuts {
				return false
			}
		case "Digits":
		case "Split":
			pattern, _ := s["pattern"].(map[string]any)
			regex, _ := pattern["Regex"].(string)
			cutsHere, known := patterns[regex]
			isolated := s["behavior"] == "Isolated" && s["invert"] == false
			// What lies between matches is dropped: with such a pattern that
			// is as if kept, for a match ends, or another begins, at the anchor.
			matches := s["behavior"] == "Removed" && s["invert"] == true && cutsHere
			if !known || !isolated && !matches {
				return false
			}
			cuts = cuts || cutsHere
		default:
			return false
		}
	}
	return cuts
}

// removeMerged removes the bytes that a token holds with a space behind them, and
// those that are no token on their own: all of them where the space is none.
func (a *anchors) removeMerged(vocab map[string]int) {
	for token := range vocab {
		for at := strings.Index(token, spaceMark); at >= 0; {
			if at > 0 {
				a[token[at-1]] = false
			}
			next := strings.Index(token[at+len(spaceMark):], spaceMark)
			if next < 0 {
				break
			}
			at += len(spaceMark) + next
		}
	}
	_, known := vocab[spaceMark]
	for c := range a {
		if _, ok := vocab[string(rune(c))]; !ok || !known {
			a[c] = false
		}
	}
}

// removeAdded makes room for added tokens, as anchors says.
func (a *anchors) removeAdded(tokens []addedToken) {
	for _, t := range tokens {
		// Both ways to write it: "▁" becomes a space where spaces become "▁".
		content := strings.ReplaceAll(t.Content, spaceMark, " ")
		if content == "" {
			continue
		}
		last := content[len(content)-1]
		switch {
		case strings.Contains(strings.TrimLeft(content, " "), " "),
			t.SingleWord && content[0] == ' ',
			t.RStrip && last >= 0x80: // which NFC may make an ASCII letter of
			*a = anchors{}
			return
		case t.RStrip:
			a[last] = false
		}
	}
}
