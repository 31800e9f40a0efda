package bench_test

import (
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/dataset"
)

// Usage of 2^53-1 tokens in 1,100 answers is more than an int64 holds. It is
// warned of, and all of the run can be saved.
func TestAbsurdUsage(t *testing.T) {
	cfg := config(serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"text":"a"}],"usage":{"prompt_tokens":9007199254740991,"completion_tokens":9007199254740991,"prompt_tokens_details":{"cached_tokens":9007199254740991}}}`+"\n\ndata: [DONE]\n\n")
	})))
	cfg.Dataset = dataset.Spec{Name: "random", Prompts: 1100, InputLen: 8, OutputLen: 2}
	cfg.MaxConcurrency = 8
	res, err := bench.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := res.Save(bench.Beside(filepath.Join(t.TempDir(), "x.json")))
	if err != nil {
		t.Error(saved, err)
	}
	if p := res.PrefixCache; res.Summary.InputTokens != 1<<53 || p.UsageShare != 1 || p.PromptTokens != 1<<53 {
		t.Errorf("%d tokens in; %+v", res.Summary.InputTokens, p)
	}
	if i := slices.IndexFunc(res.Warnings, func(w string) bool { return strings.Contains(w, "otherwise than they were made") }); i < 0 || strings.Contains(res.Warnings[i], "-") {
		t.Errorf("%q", res.Warnings)
	}
}
