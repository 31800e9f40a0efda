//go:build hf

package dataset_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/servebench/servebench/dataset"
)

// The same as with the toy, over a tokenizer as models have it: byte-level
// pieces that are no characters, special tokens in texts, added ones.
func TestMadeSetsAreVLLMsWithATokenizer(t *testing.T) {
	tok, g := small(t), readMade(t, "made_small.json")
	same := func(kind string, i int, c madeCase, reqs []dataset.Request) {
		t.Helper()
		if got := rowsDigest(t, reqs); got != c.SHA256 {
			t.Errorf("%s: digest %s, want %s", caseName(kind, i), got, c.SHA256)
		}
	}
	for i, c := range g.Prefixes {
		set := load(t, c.prefixes(), tok)
		same("prefixes", i, c, set.Requests)
		sameState(t, caseName("prefixes", i), c, set)
	}
	for i, c := range g.Rerank {
		same("rerank", i, c, load(t, c.rerank(), tok).Requests)
	}
	for i, c := range g.Media {
		reqs, err := dataset.MediaPixels(t.Context(), c.media(), tok)
		if err != nil {
			t.Fatal(err)
		}
		same("media", i, c, reqs)
		samePixels(t, caseName("media", i), c, reqs)
	}
	for i, c := range g.Trace {
		set := load(t, c.trace(t), tok)
		if len(set.Warnings) > 0 {
			t.Errorf("warnings %q: vLLM's prompts would be shorter", set.Warnings)
		}
		same("trace", i, c, set.Requests)
	}
	if len(g.Prefixes) < 2 || len(g.Rerank) < 2 || len(g.Media) < 2 || len(g.Trace) < 1 {
		t.Error("too few cases to say anything")
	}
}

// rowsDigest is digest of testdata/made.py.
func rowsDigest(t *testing.T, reqs []dataset.Request) string {
	t.Helper()
	h := sha256.New()
	for _, r := range reqs {
		var texts []string
		raw := prompt(t, r)
		switch {
		case r.Tokens != nil:
			for _, id := range r.Tokens {
				texts = append(texts, fmt.Sprint(id))
			}
		case r.Texts != nil:
			if err := json.Unmarshal(raw, &texts); err != nil {
				t.Fatal(err)
			}
		default:
			texts = []string{r.Prompt}
		}
		for _, text := range texts {
			fmt.Fprintf(h, "%d:%s", len(text), text)
		}
		fmt.Fprintf(h, "|%d|%d\n", r.InputTokens, r.OutputTokens)
	}
	return hex.EncodeToString(h.Sum(nil))
}
