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

// qwen3 opens the tokenizer with which testdata/qwen3.json was made:
// $SERVEBENCH_QWEN3, a folder with Qwen3's tokenizer.json, or the place where
// the vLLM set-up script puts it. Without it the test is skipped.
func qwen3(t testing.TB) tokenize.Tokenizer {
	t.Helper()
	const sum = "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4"
	folder := os.Getenv("SERVEBENCH_QWEN3")
	if folder == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Skip(err)
		}
		folder = filepath.Join(cache, "servebench-vllm", "qwen3")
	}
	data, err := os.ReadFile(filepath.Join(folder, "tokenizer.json"))
	if err != nil {
		t.Skip(err)
	}
	if got := sha256.Sum256(data); hex.EncodeToString(got[:]) != sum {
		t.Skipf("%s has another tokenizer.json", folder)
	}
	tok, err := tokenize.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// testdata/qwen3.json: digests of what vLLM itself made with Qwen3's tokenizer.
func TestRandomIsVLLMsWithARealTokenizer(t *testing.T) {
	tok := qwen3(t)
	data, err := os.ReadFile(filepath.Join("testdata", "qwen3.json"))
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
			t.Errorf("case %d: digest %s, want %s", i, got, c.SHA256)
		}
	}
}

func BenchmarkRandomWithARealTokenizer(b *testing.B) {
	tok := qwen3(b)
	s := dataset.Spec{Name: "random", Prompts: 1000, InputLen: 1024, OutputLen: 128}
	b.ReportAllocs()
	for b.Loop() {
		load(b, s, tok)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*s.Prompts), "µs/prompt")
}
