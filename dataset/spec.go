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
// line's. Fields of other kinds of data set are ignored.
type Spec struct {
	// Name is the kind: one of [Names].
	Name string `json:"name"`
	// Path is the file or folder of a data set that is read; the id of a data
	// set of the hub (org/name) for hf.
	Path string `json:"path,omitempty"`
	// Prompts is the number of timed requests. In custom, custom_image, spec_bench
	// and speed_bench 0 or less means every row.
	Prompts int `json:"prompts"`
	// Seed of every random choice, from 0 to 2^32-1 (numpy's limit).
	Seed int64 `json:"seed"`

	// InputLen is the mean length of a random prompt in tokens as the server
	// counts them, without the shared prefix; special tokens that the server
	// will add are part of it.
	InputLen int `json:"input_len,omitempty"`
	// OutputLen is the number of tokens asked for: the mean of a random set, of
	// which no request asks for less than one; elsewhere that of each request.
	// -1 takes the row's own, where rows have one.
	OutputLen int `json:"output_len,omitempty"`
	// PrefixLen is the length in tokens of a shared prefix: the one of all
	// random prompts, on top of InputLen; each of prefix_repetition.
	PrefixLen int `json:"prefix_len,omitempty"`
	// RangeRatio spreads the lengths of a random set. Its zero value gives every
	// prompt the same length.
	RangeRatio Ratio `json:"range_ratio,omitzero"`
	// BatchSize is the number of prompts in one request of a random set for
	// embeddings, or of documents in one of random-rerank; 0 stands for 1.
	BatchSize int `json:"batch_size,omitempty"`
	// NoReranker makes random-rerank for a model that embeds and does not
	// rerank: query and documents are counted on their own.
	NoReranker bool `json:"no_reranker,omitempty"`

	// SuffixLen and Prefixes, of prefix_repetition: tokens behind each prefix,
	// and how many prefixes there are.
	SuffixLen int `json:"suffix_len,omitempty"`
	Prefixes  int `json:"prefixes,omitempty"`

	// DisableShuffle keeps a file's own order, and in prefix_repetition the prompts
	// of one prefix together.
	DisableShuffle bool `json:"disable_shuffle,omitempty"`
	// NoOversample makes a set smaller than Prompts where the file has fewer
	// rows; otherwise rows are repeated.
	NoOversample bool `json:"no_oversample,omitempty"`
	// Category keeps only rows of that category in spec_bench and speed_bench.
	Category string `json:"category,omitempty"`
	// Subset of speed_bench or of a data set of the hub.
	Subset string `json:"subset,omitempty"`

	Hub   Hub   `json:"hub,omitzero"`
	Trace Trace `json:"trace,omitzero"`
	Media Media `json:"media,omitzero"`

	// Chat tells that the requests go to an endpoint that renders the model's
	// chat template itself: it is then never rendered here.
	Chat bool `json:"chat,omitempty"`
	// SkipTemplate sends prompts as they are where vLLM would render the chat
	// template around them.
	SkipTemplate bool `json:"skip_template,omitempty"`

	// TokenIDs sends prompts as token ids and not as text.
	TokenIDs bool `json:"token_ids,omitempty"`
	// Warmups is the number of untimed requests before the timed ones.
	Warmups int `json:"warmups,omitempty"`
	// WarmupFirst makes each warm-up a copy of the first timed request, as vLLM
	// does; its prompt is then in the server's prefix cache. Otherwise warm-ups
	// are prompts of their own.
	WarmupFirst bool `json:"warmup_first,omitempty"`
}

// Hub says what to take of a data set of the hub.
type Hub struct {
	// Split is the one to take; "" stands for the form's own, or train.
	Split string `json:"split,omitempty"`
	// Name is the data set whose form Path has, where Path is a folder or a copy
	// under another id (--hf-name).
	Name string `json:"name,omitempty"`
	// PromptColumn holds the prompt of a data set that has no form of its own
	// here; OutputColumn the answer, whose length is asked for.
	PromptColumn string `json:"prompt_column,omitempty"`
	OutputColumn string `json:"output_column,omitempty"`
	// MinDistance and MaxDistance bound the edits of a blazedit row.
	MinDistance float64 `json:"min_distance,omitempty"`
	MaxDistance float64 `json:"max_distance,omitempty"`
	// NoStream shuffles all rows of the split and not a stream of them.
	NoStream bool `json:"no_stream,omitempty"`
}

// Trace says how the lines of a timed_trace are written.
type Trace struct {
	// BlockSize is the number of tokens that one hash id stands for.
	BlockSize int `json:"block_size,omitempty"`
	// Multiplier turns a line's timestamp into seconds.
	Multiplier float64 `json:"multiplier,omitempty"`
	// The names of the keys of a line.
	Timestamp    string `json:"timestamp,omitempty"`
	InputLength  string `json:"input_length,omitempty"`
	OutputLength string `json:"output_length,omitempty"`
	HashIDs      string `json:"hash_ids,omitempty"`
}

// Media says what images random-mm and custom_image put into requests.
type Media struct {
	// Items is the mean number of images of a random-mm request, ItemsRatio
	// spreads it as RangeRatio does lengths.
	Items      int     `json:"items,omitempty"`
	ItemsRatio float64 `json:"items_ratio,omitempty"`
	// Limit is the most items of a modality ("image", "video") in a request.
	Limit map[string]int `json:"limit,omitempty"`
	// Buckets are the sizes that images come in.
	Buckets []Bucket `json:"buckets,omitempty"`
	// ClientSide sends a custom_image's local file as a data URL and not as a
	// file:// URL that the server reads.
	ClientSide bool `json:"client_side,omitempty"`
}

// Bucket is one size of random-mm's items: one frame is an image, more are a
// video.
type Bucket struct {
	Height      int     `json:"height"`
	Width       int     `json:"width"`
	Frames      int     `json:"frames"`
	Probability float64 `json:"probability"`
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
	if k, ok := kinds[s.Name]; ok {
		k.validate(s, &bad)
	} else {
		bad.addf("dataset-name: %q is unknown; want one of %s", s.Name, strings.Join(Names(), ", "))
	}
	return errors.Join(bad...)
}

func (s Spec) validateRandom(bad *problems) {
	if !bad.lengths(s) {
		return // the sum below would judge nonsense
	}
	if err := s.checkInput(0); err != nil {
		bad.addf("%w", err)
	}
}

// lengths checks what random and random-mm have in common, and tells whether all
// of it is right.
func (p *problems) lengths(s Spec) bool {
	before := len(*p)
	p.whole("num-prompts", int64(s.Prompts), 1, maxCount)
	p.whole("random-input-len", int64(s.InputLen), 0, maxLen)
	p.whole("random-output-len", int64(s.OutputLen), 0, maxLen)
	p.whole("random-prefix-len", int64(s.PrefixLen), 0, maxLen)
	p.ratio("input", s.RangeRatio.Input)
	p.ratio("output", s.RangeRatio.Output)
	p.noFile(s)
	if len(*p) > before {
		return false
	}
	// By division: the product of three large numbers would not fit.
	prompts := int64(s.Prompts) + int64(max(0, s.Warmups))*int64(s.warmBatch())
	if each := int64(s.PrefixLen + s.InputLen); prompts > maxTokens/max(1, each) {
		p.addf("num-prompts: %d prompts of %d tokens, warm-ups included, are too many tokens; want %d at most, or smaller random-input-len",
			prompts, each, int64(maxTokens))
	}
	return true
}

func (s Spec) validateCustom(bad *problems) {
	bad.rows(s)
	if s.OutputLen != -1 {
		bad.whole("custom-output-len", int64(s.OutputLen), 1, maxLen)
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

// rows checks the number of prompts of a set where none means all.
func (p *problems) rows(s Spec) {
	if s.Prompts > maxCount {
		p.whole("num-prompts", int64(s.Prompts), 0, maxCount)
	}
}

// noFile refuses a path where prompts are made and not read.
func (p *problems) noFile(s Spec) {
	if s.Path != "" {
		p.addf("dataset-path: a %s data set takes no file; want none or dataset-name custom", s.Name)
	}
}

func (p *problems) ratio(side string, r float64) {
	if !(r >= 0 && r < 1) { // also refuses NaN
		p.addf("random-range-ratio: %v for the %s length is out of range; want 0 <= ratio < 1", r, side)
	}
}
