package dataset_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/dataset/nprand"
)

// textCase is one case of testdata/text.py: a spec, and what vLLM made of it.
type textCase struct {
	File  string
	Head  string // of the chat template
	Added int
	Spec  dataset.Spec
	Rows  []json.RawMessage // prompt, tokens, tokens to ask for, media
	// Next is what random.random() gives after it.
	Next string
	// SHA256 is that of the rows, where they are not written out.
	SHA256 string
}

// textGolden reads what text.py wrote and puts its files into a folder.
func textGolden(t testing.TB, name string) (cases []textCase) {
	t.Helper()
	folder := t.TempDir()
	for _, golden := range []string{"text.json", name} {
		data, err := os.ReadFile(filepath.Join("testdata", golden))
		if err != nil {
			t.Fatal(err)
		}
		var content struct {
			Files map[string]string
			Cases []textCase
		}
		if err := json.Unmarshal(data, &content); err != nil {
			t.Fatal(err)
		}
		for file, text := range content.Files {
			if err := os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cases = content.Cases
	}
	for i := range cases {
		cases[i].Spec.Path = filepath.Join(folder, cases[i].File)
		if cases[i].Spec.Name == "speed_bench" {
			cases[i].Spec.Path = folder
		}
	}
	return cases
}

// template is that of text.py.
func template(head string) func(string) (string, error) {
	return func(prompt string) (string, error) { return head + "[user]" + prompt + "[bot]", nil }
}

type textRow struct {
	Prompt        string
	Input, Output int
	Media         string
}

// theirs returns vLLM's row, but for the BOS that it doubles.
func theirs(t *testing.T, raw json.RawMessage, bos string) (r textRow) {
	t.Helper()
	var media json.RawMessage
	if err := json.Unmarshal(raw, &[]any{&r.Prompt, &r.Input, &r.Output, &media}); err != nil {
		t.Fatal(err)
	}
	if rest, ok := strings.CutPrefix(r.Prompt, bos); ok && bos != "" {
		r.Prompt, r.Input = rest, r.Input-1
	}
	if string(media) != "null" {
		r.Media = string(media)
	}
	return r
}

func TestTextSetsAreVLLMs(t *testing.T) {
	for i, c := range textGolden(t, "text.json") {
		var want []textRow
		bos := ""
		if c.Added > 0 && c.Head != "" {
			bos = c.Head
		}
		for _, raw := range c.Rows {
			want = append(want, theirs(t, raw, bos))
		}
		c.Spec.Chat = c.Spec.Name == "sharegpt" // for the images
		set, err := dataset.Load(t.Context(), c.Spec, dataset.Tools{Tokenizer: toy{added: c.Added}, Render: template(c.Head)})
		if err != nil {
			t.Errorf("case %d, %+v: %v", i, c.Spec, err)
			continue
		}
		rng := set.Python
		if rng == nil {
			rng = nprand.NewPython(c.Spec.Seed)
		}
		if got, err := strconv.ParseFloat(c.Next, 64); err != nil || got != rng.Random() {
			t.Errorf("case %d, %+v: Python's generator is left elsewhere: %v", i, c.Spec, err)
		}
		var got []textRow
		for _, r := range set.Requests {
			row := textRow{r.Prompt, r.InputTokens, r.OutputTokens, ""}
			for _, part := range r.Parts {
				row.Media += strings.ReplaceAll(string(part), "\n", "")
			}
			got = append(got, row)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("case %d, %+v (-vLLM +ours):\n%.2000s", i, c.Spec, diff)
		}
	}
}
