// Package tokenize turns text into token ids and back, as the server does it.
//
// Two implementations of [Tokenizer] exist: [Open] reads a tokenizer.json (it
// needs the build tag hf and the library that build-lib.sh makes), and the
// package remote asks the server's /tokenize and /detokenize.
//
// What [Open] answers is what AutoTokenizer of transformers answers for the same
// folder: tokenizer.json read by the same Rust library, and around it what
// transformers takes from tokenizer_config.json and from its own classes
// (classes.json names the version that was read). Where a class does more than
// this package follows, [Info] has a Note.
package tokenize

import (
	"context"
	"errors"
)

// ErrNotBuilt is returned by [Open] in a build without the tag hf.
var ErrNotBuilt = errors.New("this build has no local tokenizer: build with `make` (build tag hf), or let the server count")

// Vocabulary is what transformers says of a tokenizer beside its encoding.
type Vocabulary struct {
	// Size is the base vocabulary without added tokens
	// (transformers' tokenizer.vocab_size).
	Size int
	// Special holds the ids of all special tokens in ascending order
	// (transformers' tokenizer.all_special_ids).
	Special []int
	// Added is how many special tokens the tokenizer puts around one text
	// (transformers' num_special_tokens_to_add).
	Added int
	// Others holds the ids of tokens that are not below Size: the added ones,
	// mostly; Missing the ids below Size that no token has, mostly none. So
	// transformers' get_vocab has the ids below Size without Missing, and Others.
	// Both are ascending.
	Others, Missing []int
	// Control holds the ids of the added tokens that are marked special
	// (transformers' added_tokens_decoder), in ascending order: more than
	// Special, which has those that a role names.
	Control []int
}

// Tokenizer is one model's tokenizer. Implementations are safe for concurrent use.
type Tokenizer interface {
	// Encode returns the ids of text; special asks for the tokens that the
	// model's post-processor adds (a leading BOS, for one). A byte that is not
	// UTF-8 counts as U+FFFD, which is what encoding/json sends in its place.
	Encode(ctx context.Context, text string, special bool) ([]int, error)
	// Decode returns the text of ids, special tokens kept. Ids that the
	// vocabulary does not have add nothing; a negative id is an error.
	Decode(ctx context.Context, ids []int) (string, error)
	// Vocabulary is constant for one tokenizer; ok is false where the
	// implementation cannot know it (a server does not tell).
	Vocabulary() (v Vocabulary, ok bool)
}
