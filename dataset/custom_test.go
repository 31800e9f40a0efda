package dataset_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/dataset"
)

// writeFile writes the lines to a .jsonl file and returns its path.
func writeFile(t testing.TB, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCustomIsVLLMs(t *testing.T) {
	golden := readGolden(t)
	path := writeFile(t, golden.File...)
	for i, c := range golden.Custom {
		s := dataset.Spec{Name: "custom", SkipTemplate: true, Path: path, Prompts: c.N, Seed: c.Seed, OutputLen: c.Output,
			DisableShuffle: !c.Shuffle, NoOversample: !c.Oversample}
		set := load(t, s, toy{added: 1})
		if diff := cmp.Diff(c.Rows, rowsOf(set.Requests), cmp.AllowUnexported(goldenRow{})); diff != "" {
			t.Errorf("case %d (-vLLM +ours):\n%s", i, diff)
		}
		if short := c.N > len(golden.File); short != (len(set.Warnings) == 1) {
			t.Errorf("case %d: warnings %q", i, set.Warnings)
		}
		if set.Generator != "custom-jsonl" || set.Synthetic {
			t.Errorf("case %d: generator %q, synthetic %v", i, set.Generator, set.Synthetic)
		}
	}
}

func TestCustomReadsWhatIsHarmless(t *testing.T) {
	path := writeFile(t,
		"\ufeff{\"prompt\": \"one\", \"output_tokens\": 12.0, \"Prompt\": 7, \"id\": [1]}\r",
		"", " \t\r",
		`  {"output_tokens": 1.3e1, "prompt": "two \ud83d\ude00 \\ud800"}  `,
		`{"prompt": "never", "output_tokens": 14, "prompt": "three"}`, "")
	set := load(t, dataset.Spec{Name: "custom", SkipTemplate: true, Path: path, OutputLen: -1, DisableShuffle: true}, nil)
	want := []dataset.Request{
		{Prompt: "one", OutputTokens: 12}, {Prompt: `two 😀 \ud800`, OutputTokens: 13}, {Prompt: "three", OutputTokens: 14},
	}
	if diff := cmp.Diff(want, set.Requests); diff != "" {
		t.Error(diff)
	}
}

func TestCustomErrorsNameFileLineAndRemedy(t *testing.T) {
	const good = `{"prompt": "a", "output_tokens": 1}`
	for name, c := range map[string]struct {
		bad, want string
	}{
		"broken JSON":        {`{"prompt": "a"`, `not a JSON object`},
		"two objects":        {good + good, `not a JSON object`},
		"a list":             {`["a"]`, `not a JSON object`},
		"null":               {`null`, `not a JSON object (it is null); want one a line`},
		"no prompt":          {`{"Prompt": "a"}`, `no "prompt"; want`},
		"empty prompt":       {`{"prompt": ""}`, `prompt is empty; want`},
		"number as prompt":   {`{"prompt": 5}`, `prompt is a number; want a string`},
		"messages":           {`{"prompt": [{"role": "user"}]}`, `prompt is a list; want a string`},
		"prompt null":        {`{"prompt": null}`, `prompt is null; want a string`},
		"not UTF-8":          {"{\"prompt\": \"\xff\"}", `not UTF-8; want`},
		"half a pair":        {`{"prompt": "\ud83d x"}`, `prompt has half of a surrogate pair; want`},
		"the other half":     {`{"prompt": "\\\udE00"}`, `prompt has half of a surrogate pair; want`},
		"two high halves":    {`{"prompt": "\ud83d\ud83d"}`, `prompt has half of a surrogate pair; want`},
		"text as tokens":     {`{"prompt": "a", "output_tokens": "1"}`, `output_tokens is a string; want a whole number`},
		"boolean as tokens":  {`{"prompt": "a", "output_tokens": true}`, `output_tokens is a boolean; want`},
		"half a token":       {`{"prompt": "a", "output_tokens": 1.5}`, `output_tokens is 1.5; want`},
		"no tokens at all":   {`{"prompt": "a", "output_tokens": 0}`, `output_tokens is 0; want`},
		"too many tokens":    {`{"prompt": "a", "output_tokens": 1e300}`, `output_tokens is 1e300; want`},
		"overflowing number": {`{"prompt": "a", "output_tokens": 1e999}`, `output_tokens is 1e999; want`},
		"missing tokens":     {`{"prompt": "a"}`, `no output_tokens; want`},
		"null tokens":        {`{"prompt": "a", "output_tokens": null}`, `no output_tokens; want`},
		"deep nesting":       {`{"prompt": "a", "x": ` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, `not a JSON object`},
	} {
		path := writeFile(t, good, "", c.bad, good)
		_, err := dataset.Load(t.Context(), dataset.Spec{Name: "custom", SkipTemplate: true, Path: path, OutputLen: -1}, dataset.Tools{})
		if want := path + ":3: " + c.want; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %.200v, want %s...", name, err, want)
		}
	}
}

func TestCustomLineTooLong(t *testing.T) {
	path := writeFile(t, `{"prompt": "a"}`, `{"prompt": "`+strings.Repeat("a", 64<<20)+`"}`)
	_, err := dataset.Load(t.Context(), dataset.Spec{Name: "custom", SkipTemplate: true, Path: path, OutputLen: 1}, dataset.Tools{})
	if err == nil || err.Error() != path+":2: longer than 64 MiB; want one JSON object a line" {
		t.Errorf("error %.300v", err)
	}
}

func TestCustomFilesThatHaveNoRows(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "folder.jsonl")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		writeFile(t):               "no rows",
		writeFile(t, "", "\ufeff"): "not a JSON object", // a mark elsewhere than at the start is no mark
		folder:                     "is a directory",
		folder + "/no.jsonl":       "no such file",
	} {
		_, err := dataset.Load(t.Context(), dataset.Spec{Name: "custom", SkipTemplate: true, Path: path, OutputLen: 1}, dataset.Tools{})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want %s", path, err, want)
		}
	}
}

func TestCustomMissingOutputTokensDoNotMatterWithALengthForAll(t *testing.T) {
	path := writeFile(t, `{"prompt": "a", "output_tokens": null}`, `{"prompt": "b", "output_tokens": 4}`)
	for _, r := range load(t, dataset.Spec{Name: "custom", SkipTemplate: true, Path: path, OutputLen: 9}, nil).Requests {
		if r.OutputTokens != 9 {
			t.Errorf("request %+v", r)
		}
	}
}

func TestCustomWarmupsAreTheRowsThatFollow(t *testing.T) {
	path := writeFile(t, `{"prompt": "a"}`, `{"prompt": "b"}`, `{"prompt": "a"}`, `{"prompt": "c"}`, `{"prompt": "d"}`)
	s := dataset.Spec{Name: "custom", SkipTemplate: true, Path: path, Prompts: 2, OutputLen: 9, DisableShuffle: true, Warmups: 2}
	set := load(t, s, toy{added: 1})
	want := []dataset.Request{
		{Prompt: "c", InputTokens: 2, OutputTokens: 9}, {Prompt: "d", InputTokens: 2, OutputTokens: 9},
	}
	if diff := cmp.Diff(want, set.Warmups); diff != "" || set.Warnings != nil {
		t.Errorf("%s warnings %q", diff, set.Warnings)
	}
	s.Warmups = 4
	set = load(t, s, nil)
	if got := set.Warmups[3].Prompt; got != "Warm-up 2: b" || len(set.Warnings) != 1 {
		t.Errorf("last warm-up %q, warnings %q", got, set.Warnings)
	}
}

func TestCustomAsTokenIDs(t *testing.T) {
	path := writeFile(t, `{"prompt": "abc"}`)
	s := dataset.Spec{Name: "custom", SkipTemplate: true, Path: path, OutputLen: 9, TokenIDs: true}
	for _, remote := range []bool{false, true} {
		set := load(t, s, toy{added: 1, remote: remote})
		want := []dataset.Request{{Tokens: []int{0, 27, 3}, InputTokens: 3, OutputTokens: 9}}
		if diff := cmp.Diff(want, set.Requests); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := dataset.Load(t.Context(), s, dataset.Tools{}); err == nil {
		t.Error("no error without a tokenizer")
	}
}

// A count by the server would be one more request for each prompt.
func TestCustomIsNotCountedRemotely(t *testing.T) {
	path := writeFile(t, `{"prompt": "abc"}`)
	set := load(t, dataset.Spec{Name: "custom", SkipTemplate: true, Path: path, OutputLen: 9}, toy{remote: true})
	if n := set.Requests[0].InputTokens; n != 0 {
		t.Errorf("%d tokens", n)
	}
}
