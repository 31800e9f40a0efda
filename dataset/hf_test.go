//go:build hf

package dataset_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/tokenize"
)

// small opens the small tokenizer of tokenize's tests: a byte-level BPE with
// special tokens and a BOS.
func small(t testing.TB) tokenize.Tokenizer {
	t.Helper()
	tok, err := tokenize.Open("../tokenize/testdata/small")
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// Digests of what vLLM itself made with the small tokenizer (testdata/small.py).
// Its vocabulary is so small that most prompts come back longer or shorter from
// a second encoding: the adjust loop and its padding are in every one.
func TestRandomIsVLLMsWithATokenizer(t *testing.T) {
	sameDigests(t, small(t), "small.json")
}

// The data sets that read text, with the same tokenizer. Its BOS is taken away
// where the template writes it, so those cases are made up to vLLM's again.
func TestTextSetsAreVLLMsWithATokenizer(t *testing.T) {
	tok := small(t)
	for i, c := range textGolden(t, "text.small.json") {
		head := ""
		if c.Head != "" {
			head = "[BOS]"
		}
		set, err := dataset.Load(t.Context(), c.Spec, dataset.Tools{Tokenizer: tok, Render: template(head)})
		if err != nil {
			t.Errorf("case %d: %v", i, err)
			continue
		}
		more := 0
		if head != "" {
			more = 1
		}
		h := sha256.New()
		for _, r := range set.Requests {
			prompt := head + r.Prompt
			fmt.Fprintf(h, "%d %d %d\n%s", len(prompt), r.InputTokens+more, r.OutputTokens, prompt)
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != c.SHA256 {
			t.Errorf("case %d, %+v: digest %s, want %s", i, c.Spec, got, c.SHA256)
		}
	}
}

// The same with Qwen3's tokenizer where somebody has it: SERVEBENCH_QWEN3 names
// the folder. make e2e-vllm compares real tokenizers in any case.
func TestRandomIsVLLMsWithQwen3(t *testing.T) {
	folder := os.Getenv("SERVEBENCH_QWEN3")
	if folder == "" {
		t.Skip("needs SERVEBENCH_QWEN3=<folder with Qwen3's tokenizer.json>")
	}
	tok, err := tokenize.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	sameDigests(t, tok, "qwen3.json")
}

func sameDigests(t *testing.T, tok tokenize.Tokenizer, file string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var cases []randomCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		h := sha256.New()
		for _, r := range load(t, c.spec(), tok).Requests {
			fmt.Fprintf(h, "%d %d %d\n%s", len(r.Prompt), r.InputTokens, r.OutputTokens, r.Prompt)
		}
		if got := hex.EncodeToString(h.Sum(nil)); got != c.SHA256 {
			t.Errorf("%s, case %d: digest %s, want %s", file, i, got, c.SHA256)
		}
	}
}

func BenchmarkRandomWithARealTokenizer(b *testing.B) {
	tok := small(b)
	s := dataset.Spec{Name: "random", Prompts: 1000, InputLen: 1024, OutputLen: 128}
	b.ReportAllocs()
	for b.Loop() {
		load(b, s, tok)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*s.Prompts), "µs/prompt")
}
