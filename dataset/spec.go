package dataset

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Limits that no benchmark reaches; beyond them a number is a slip of the hand.
const (
	maxLen    = 1 << 24 // tokens of one prompt or answer
	maxCount  = 1 << 24 // prompts
	maxTokens = 1 << 32 // tokens of all random prompts together, about 17 GB of text
)

// Spec describes a data set. It is plain data and survives a JSON round trip.
// The zero Spec is not valid: there are no defaults here, those are the command
// line's. Fields of the other kind of data set are ignored.
type Spec struct {
	// Name is the kind: "random" or "custom".
	Name string `json:"name"`
	// Path is the JSONL file of a custom set; its name must end in ".jsonl".
	Path string `json:"path,omitempty"`
	// Prompts is the number of timed requests. In a custom set 0 or less means
	// every row of the file.
	Prompts int `json:"prompts"`
	// Seed of every random choice, from 0 to 2^32-1 (numpy's limit).
	Seed int64 `json:"seed"`

	// InputLen is the mean length of a random prompt in tokens as the server
	// counts them, without the shared prefix; special tokens that the server
	// will add are part of it.
	InputLen int `json:"input_len,omitempty"`
	// OutputLen is the mean number of tokens asked for in a random set. No
	// request asks for less than one.
	OutputLen int `json:"output_len,omitempty"`
	// PrefixLen is the length in tokens of a prefix that all random prompts
	// share; it comes on top of InputLen.
	PrefixLen int `json:"prefix_len,omitempty"`
	// RangeRatio spreads the lengths of a random set. Its zero value gives every
	// prompt the same length.
	RangeRatio Ratio `json:"range_ratio,omitzero"`

	// CustomOutputLen is the number of tokens asked for by every request of a
	// custom set, at least 1; -1 takes each line's output_tokens.
	CustomOutputLen int `json:"custom_output_len,omitempty"`
	// DisableShuffle keeps a custom file's own order.
	DisableShuffle bool `json:"disable_shuffle,omitempty"`
	// NoOversample makes a custom set smaller than Prompts where the file has
	// fewer rows; otherwise rows are repeated.
	NoOversample bool `json:"no_oversample,omitempty"`

	// TokenIDs sends prompts as token ids and not as text.
	TokenIDs bool `json:"token_ids,omitempty"`
	// Warmups is the number of untimed requests before the timed ones.
	Warmups int `json:"warmups,omitempty"`
	// WarmupFirst makes each warm-up a copy of the first timed request, as vLLM
	// does; its prompt is then in the server's prefix cache. Otherwise warm-ups
	// are prompts of their own.
	WarmupFirst bool `json:"warmup_first,omitempty"`
}

// Ratio spreads lengths uniformly over [floor(len*(1-r)), ceil(len*(1+r))],
// with 0 <= r < 1 for each side on its own.
type Ratio struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"`
}

// Validate reports everything that is wrong with s at once, each under the name
// of the command's flag. It changes nothing and opens no file.
func (s Spec) Validate() error {
	var bad problems
	bad.whole("seed", s.Seed, 0, math.MaxUint32)
	bad.whole("num-warmups", int64(s.Warmups), 0, maxCount)
	switch s.Name {
	case "random":
		s.validateRandom(&bad)
	case "custom":
		s.validateCustom(&bad)
	default:
		bad.addf("dataset-name: %q is unknown; want random or custom", s.Name)
	}
	return errors.Join(bad...)
}

func (s Spec) validateRandom(bad *problems) {
	before := len(*bad)
	bad.whole("num-prompts", int64(s.Prompts), 1, maxCount)
	bad.whole("random-input-len", int64(s.InputLen), 0, maxLen)
	bad.whole("random-output-len", int64(s.OutputLen), 0, maxLen)
	bad.whole("random-prefix-len", int64(s.PrefixLen), 0, maxLen)
	bad.ratio("input", s.RangeRatio.Input)
	bad.ratio("output", s.RangeRatio.Output)
	if s.Path != "" {
		bad.addf("dataset-path: a random data set takes no file; want none or dataset-name custom")
	}
	if len(*bad) > before {
		return // the sums below would judge nonsense
	}
	if err := s.checkInput(0); err != nil {
		bad.addf("%w", err)
	}
	if total := int64(s.Prompts+s.Warmups) * int64(s.PrefixLen+s.InputLen); total > maxTokens {
		bad.addf("num-prompts: %d prompts of %d tokens are %d tokens; want %d at most, or smaller random-input-len",
			s.Prompts+s.Warmups, s.PrefixLen+s.InputLen, total, int64(maxTokens))
	}
}

func (s Spec) validateCustom(bad *problems) {
	if s.Prompts > maxCount {
		bad.whole("num-prompts", int64(s.Prompts), 0, maxCount)
	}
	if s.CustomOutputLen != -1 {
		bad.whole("custom-output-len", int64(s.CustomOutputLen), 1, maxLen)
	}
	switch {
	case s.Path == "":
		bad.addf("dataset-path: missing; want a .jsonl file")
	case !strings.HasSuffix(s.Path, ".jsonl"):
		bad.addf("dataset-path: %s does not end in .jsonl; want a file with one JSON object a line", s.Path)
	}
}

// checkInput is vLLM's condition that no random prompt is empty. special is the
// number of special tokens that count against InputLen.
func (s Spec) checkInput(special int) error {
	shortest, _ := span(max(0, s.InputLen-special), s.RangeRatio.Input)
	if int64(s.PrefixLen)+shortest >= 1 {
		return nil
	}
	return fmt.Errorf("random-input-len: %d tokens with %d special tokens and random-range-ratio %v can give an empty prompt;"+
		" want random-prefix-len + floor((random-input-len - special) * (1 - ratio)) >= 1",
		s.InputLen, special, s.RangeRatio.Input)
}

// span is the closed interval that a length is drawn from.
func span(length int, ratio float64) (low, high int64) {
	return int64(math.Floor(float64(length) * (1 - ratio))), int64(math.Ceil(float64(length) * (1 + ratio)))
}

// problems collects what Validate finds.
type problems []error

func (p *problems) addf(format string, args ...any) { *p = append(*p, fmt.Errorf(format, args...)) }

func (p *problems) whole(name string, v, low, high int64) {
	if v < low || v > high {
		p.addf("%s: %d is out of range; want %d to %d", name, v, low, high)
	}
}

func (p *problems) ratio(side string, r float64) {
	if !(r >= 0 && r < 1) { // also refuses NaN
		p.addf("random-range-ratio: %v for the %s length is out of range; want 0 <= ratio < 1", r, side)
	}
}
