package dataset_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/servebench/servebench/tokenize"
)

// toy is the tokenizer of testdata/golden.py: letters, pairs of neighbours that
// merge, and ids whose text has no id of its own.
type toy struct {
	added  int
	remote bool // does not tell its vocabulary
	calls  *atomic.Int64
}

var _ tokenize.Tokenizer = toy{}

var toyPieces = sync.OnceValue(func() []string {
	pieces := []string{"<s>"}
	for c := 'a'; c <= 'z'; c++ {
		pieces = append(pieces, string(c))
	}
	for c := 'a'; c <= 'z'; c += 2 {
		pieces = append(pieces, string([]rune{c, c + 1}))
	}
	for c := 'a'; c < 'a'+10; c++ {
		pieces = append(pieces, string([]rune{c, c + 2, c}))
	}
	return append(pieces, "</s>")
})

var toyKnown = sync.OnceValue(func() map[string]int {
	known := map[string]int{}
	for id, p := range toyPieces() {
		if len(p) != 3 || p == "<s>" {
			known[p] = id
		}
	}
	return known
})

func (t toy) Vocabulary() (tokenize.Vocabulary, bool) {
	n := len(toyPieces())
	return tokenize.Vocabulary{Size: n, Special: []int{0, n - 1}, Added: t.added}, !t.remote
}

func (t toy) Decode(_ context.Context, ids []int) (string, error) {
	var text strings.Builder
	for _, id := range ids {
		text.WriteString(toyPieces()[id])
	}
	return text.String(), nil
}

func (t toy) Encode(_ context.Context, text string, special bool) ([]int, error) {
	if t.calls != nil {
		t.calls.Add(1)
	}
	var ids []int
	if special {
		ids = make([]int, t.added)
	}
next:
	for len(text) > 0 {
		for n := min(4, len(text)); n > 0; n-- {
			if id, ok := toyKnown()[text[:n]]; ok {
				ids, text = append(ids, id), text[n:]
				continue next
			}
		}
		ids, text = append(ids, 1), text[1:]
	}
	return ids, nil
}

// spaced is a remote tokenizer with one token a space-separated word of up to
// five letters, two for longer ones, and one special token.
type spaced struct{ broken error }

func (spaced) Vocabulary() (tokenize.Vocabulary, bool)       { return tokenize.Vocabulary{}, false }
func (spaced) Decode(context.Context, []int) (string, error) { return "", fmt.Errorf("not used") }
func (s spaced) Encode(_ context.Context, text string, special bool) ([]int, error) {
	if s.broken != nil {
		return nil, s.broken
	}
	var ids []int
	if special {
		ids = append(ids, 1)
	}
	for _, word := range strings.Fields(text) {
		ids = append(ids, 7)
		if len(word) > 5 {
			ids = append(ids, 8)
		}
	}
	return ids, nil
}
