package dataset_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/dataset"
)

// loadWith loads s with a template that begins with head.
func loadWith(t *testing.T, s dataset.Spec, tok toy, head string) *dataset.Set {
	t.Helper()
	set, err := dataset.Load(t.Context(), s, dataset.Tools{Tokenizer: tok, Render: template(head)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestATemplateThatIsNotThereIsAsked(t *testing.T) {
	path := writeFile(t, `{"prompt": "a", "turns": ["a"]}`)
	for name, want := range map[string]string{
		"custom":      "dataset-name: custom renders the model's chat template around each prompt, and none is there; want --skip-chat-template, or a chat backend",
		"speed_bench": "dataset-name: speed_bench renders the model's chat template around each prompt, and none is there; want --skip-chat-template, or a chat backend",
		"spec_bench":  "dataset-name: spec_bench renders the model's chat template around each prompt, and none is there; want a model that has one, or a chat backend",
		"sonnet":      "dataset-name: sonnet renders the model's chat template around each prompt, and none is there; want a model that has one, or a chat backend",
	} {
		s := dataset.Spec{Name: name, Path: path, Prompts: 1, InputLen: 500, OutputLen: 1, Subset: "qualitative"}
		if name == "speed_bench" {
			s.Path = t.TempDir()
		}
		if _, err := dataset.Load(t.Context(), s, dataset.Tools{Tokenizer: toy{}}); err == nil || err.Error() != want {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A chat endpoint renders the template itself; the count is that of what it sees.
func TestATemplateIsNeverSentToChat(t *testing.T) {
	path := writeFile(t, `{"prompt": "xyx"}`)
	s := dataset.Spec{Name: "custom", Path: path, OutputLen: 9, Chat: true}
	want := 1 + len(encode(t, "[user]xyx[bot]")) // with the BOS, which is there once
	if want == 1+len(encode(t, "xyx")) {
		t.Fatal("the template makes no difference")
	}
	if r := loadWith(t, s, toy{added: 1}, "").Requests[0]; r.Prompt != "xyx" || r.InputTokens != want {
		t.Errorf("%+v, want %d tokens", r, want)
	}
	if r := loadWith(t, s, toy{added: 1}, "<s>").Requests[0]; r.Prompt != "xyx" || r.InputTokens != want {
		t.Errorf("with a BOS: %+v, want %d tokens", r, want)
	}
	s.SkipTemplate = true
	if r := loadWith(t, s, toy{added: 1}, "").Requests[0]; r.Prompt != "xyx" || r.InputTokens != 1+len(encode(t, "xyx")) {
		t.Errorf("without the template: %+v", r)
	}
}

func encode(t *testing.T, text string) []int {
	t.Helper()
	ids, err := toy{}.Encode(t.Context(), text, false)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestABOSOfTheTemplateIsSentOnce(t *testing.T) {
	path := writeFile(t, `{"prompt": "abc"}`, `{"prompt": "<s>b"}`, `{"prompt": "c"}`)
	s := dataset.Spec{Name: "custom", Path: path, OutputLen: 9, DisableShuffle: true}
	want := []string{"[user]abc[bot]", "[user]<s>b[bot]", "[user]c[bot]"}
	for _, remote := range []bool{false, true} {
		var calls atomic.Int64
		set := loadWith(t, s, toy{added: 1, remote: remote, calls: &calls}, "<s>")
		var got []string
		for _, r := range set.Requests {
			got = append(got, r.Prompt)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(set.Warnings) != 1 || !strings.Contains(set.Warnings[0], "writes <s>") {
			t.Errorf("remote %v: %s warnings %q", remote, diff, set.Warnings)
		}
		// The server is asked about its BOS and about one prompt, not about each.
		if n := calls.Load(); remote && n != 4 {
			t.Errorf("%d calls", n)
		}
	}
	s.TokenIDs = true
	set := loadWith(t, s, toy{added: 1}, "<s>")
	if diff := cmp.Diff(append([]int{0}, encode(t, want[0])...), set.Requests[0].Tokens); diff != "" {
		t.Error(diff)
	}
}

// marked is a tokenizer that marks the beginning of a text, but not behind a BOS.
type marked struct{ toy }

func (m marked) Encode(ctx context.Context, text string, special bool) ([]int, error) {
	if !strings.HasPrefix(text, "<s>") && text != "" {
		text = "z" + text
	}
	return m.toy.Encode(ctx, text, special)
}

func TestABOSStaysWhereOtherTokensHangOnIt(t *testing.T) {
	path := writeFile(t, `{"prompt": "abc"}`, `{"prompt": "d"}`)
	s := dataset.Spec{Name: "custom", Path: path, OutputLen: 9, DisableShuffle: true}
	for _, remote := range []bool{false, true} {
		set, err := dataset.Load(t.Context(), s, dataset.Tools{Tokenizer: marked{toy{added: 1, remote: remote}}, Render: template("<s>")})
		if err != nil {
			t.Fatal(err)
		}
		if p := set.Requests[1].Prompt; p != "<s>[user]d[bot]" || len(set.Warnings) != 1 || !strings.Contains(set.Warnings[0], "begin with <s> twice") {
			t.Errorf("remote %v: prompt %q, warnings %q", remote, p, set.Warnings)
		}
	}
}

func TestATemplateThatFailsNamesTheLine(t *testing.T) {
	path := writeFile(t, "", `{"prompt": "abc"}`)
	broken := func(string) (string, error) { return "", errors.New("no such filter") }
	_, err := dataset.Load(t.Context(), dataset.Spec{Name: "custom", Path: path, OutputLen: 9}, dataset.Tools{Tokenizer: toy{}, Render: broken})
	if err == nil || err.Error() != path+":2: render chat template: no such filter" {
		t.Errorf("error %v", err)
	}
	// On chat it is only a count that fails.
	s := dataset.Spec{Name: "custom", Path: path, OutputLen: 9, Chat: true}
	set, err := dataset.Load(t.Context(), s, dataset.Tools{Tokenizer: toy{added: 1}, Render: broken})
	if err != nil || set.Requests[0].InputTokens != 1+len(encode(t, "abc")) || !strings.HasSuffix(set.Warnings[0], "rendered here: no such filter") {
		t.Errorf("chat: %+v, error %v", set, err)
	}
	// Its words may hold the prompt, which is no matter of a manifest.
	refuses := func(text string) (string, error) {
		if text == "x" {
			return text, nil
		}
		return "", errors.New("the template refuses: " + text)
	}
	set, err = dataset.Load(t.Context(), s, dataset.Tools{Tokenizer: toy{added: 1}, Render: refuses})
	if err != nil || len(set.Warnings) != 1 || strings.Contains(set.Warnings[0], "abc") || !strings.HasSuffix(set.Warnings[0], "it refuses them") {
		t.Errorf("chat: %+v, error %v", set, err)
	}
}

func TestSpecBenchRendersInAnyCase(t *testing.T) {
	path := writeFile(t, `{"turns": ["abc"]}`)
	s := dataset.Spec{Name: "spec_bench", Path: path, OutputLen: 9, SkipTemplate: true}
	set := loadWith(t, s, toy{added: 1}, "")
	if p := set.Requests[0].Prompt; p != "[user]abc[bot]" || len(set.Warnings) != 1 {
		t.Errorf("prompt %q, warnings %q", p, set.Warnings)
	}
	s.Chat = true
	set = loadWith(t, s, toy{added: 1}, "")
	if p := set.Requests[0].Prompt; p != "abc" || set.Warnings != nil {
		t.Errorf("chat: prompt %q, warnings %q", p, set.Warnings)
	}
}
