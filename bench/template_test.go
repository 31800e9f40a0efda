package bench_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/loadgen/openai"
)

// The chat template beside the tokenizer is rendered around custom prompts on a
// completions backend, with the arguments that were given, and not on chat, where
// the server renders it; without a template the error says what would help.
func TestChatTemplate(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tokenizer, err := os.ReadFile("../tokenize/testdata/small/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	write("tokenizer.json", string(tokenizer))
	rows := write("rows.jsonl", `{"prompt": "hi"}`)
	cfg := bench.Config{
		Backend: "vllm", Model: "m", Tokenizer: dir, Stream: true, Target: openai.Config{BaseURL: "http://127.0.0.1:1"},
		Dataset: dataset.Spec{Name: "custom", Path: rows, Prompts: 1, OutputLen: 1}, TemplateKwargs: []byte(`{"mood": "glad"}`),
	}
	if _, err := bench.Prepare(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "--skip-chat-template, or a chat backend") {
		t.Errorf("without a template: %v", err)
	}
	write("chat_template.jinja", "{% for m in messages %}<{{ m.role }} {{ mood }}>{{ m.content }}{% endfor %}")
	for backend, want := range map[string]string{"vllm": `"prompt":"<user glad>hi"`, "openai-chat": `"text":"hi"`} {
		cfg.Backend = backend
		p, err := bench.Prepare(t.Context(), cfg)
		if err != nil {
			t.Errorf("%s: %v", backend, err)
		} else if body := string(p.Requests[0].Body); !strings.Contains(body, want) {
			t.Errorf("%s: %s, want %s in it", backend, body, want)
		}
	}
}
