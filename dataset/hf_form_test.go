package dataset_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/tokenize"
)

// words is the tokenizer of testdata/hub/forms.py: one token a word, and one
// before each text where special ones are asked for.
type words struct{ remote bool }

func (w words) Vocabulary() (tokenize.Vocabulary, bool) {
	return tokenize.Vocabulary{Size: 3}, !w.remote
}
func (words) Decode(context.Context, []int) (string, error) { return "<bos>", nil }
func (words) Encode(_ context.Context, text string, special bool) (ids []int, err error) {
	if special {
		ids = append(ids, 1)
	}
	for range strings.Fields(text) {
		ids = append(ids, 2)
	}
	return ids, nil
}

type message struct{ Role, Content string }

func renderWords(messages ...message) string {
	var out strings.Builder
	for _, m := range messages {
		fmt.Fprintf(&out, "<%s>%s</%[1]s>\n", m.Role, m.Content)
	}
	return out.String() + "<assistant>"
}

// wordTools are the tools of testdata/hub/forms.py.
func wordTools() dataset.Tools {
	return dataset.Tools{
		Tokenizer: words{},
		Render:    func(prompt string) (string, error) { return renderWords(message{"user", prompt}), nil },
		RenderMessages: func(raw json.RawMessage) (string, error) {
			var m []message
			err := json.Unmarshal(raw, &m)
			return renderWords(m...), err
		},
	}
}

type formCase struct {
	Folder, Name, Split, Subset string
	N, Output                   int
	Seed                        int64
	NoStream                    bool `json:"no_stream"`
	Skip                        bool
	NoOversample                bool `json:"no_oversample"`
	DisableShuffle              bool `json:"disable_shuffle"`
	Distance                    [2]float64
	Rows                        [][3]any
}

func (c formCase) spec() dataset.Spec {
	return dataset.Spec{Name: "hf", Path: filepath.Join("testdata/hub", c.Folder), Prompts: c.N, Seed: c.Seed, OutputLen: c.Output,
		Subset: c.Subset, SkipTemplate: c.Skip, NoOversample: c.NoOversample, DisableShuffle: c.DisableShuffle,
		Hub: dataset.Hub{Name: c.Name, Split: c.Split, NoStream: c.NoStream, MinDistance: c.Distance[0], MaxDistance: c.Distance[1]}}
}

func TestHubFormsAreVLLMs(t *testing.T) {
	data, err := os.ReadFile("testdata/hub/forms.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []formCase
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) < 20 {
		t.Fatal(len(cases), err)
	}
	for i, c := range cases {
		s := c.spec()
		image := c.Folder == "visionarena" || c.Folder == "mmstar"
		tools := wordTools()
		if s.Chat = image; image {
			tools.Render, tools.RenderMessages = nil, nil
		}
		set, err := dataset.Load(t.Context(), s, tools)
		if err != nil {
			t.Errorf("case %d, %s: %v", i, c.Name, err)
			continue
		}
		var got [][3]any
		for _, r := range set.Requests {
			got = append(got, [3]any{r.Prompt, float64(r.InputTokens), float64(r.OutputTokens)})
			if image != (len(r.Parts) == 1) || image && !strings.HasPrefix(string(r.Parts[0]), `{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBOR`) {
				t.Errorf("case %d, %s: parts %s", i, c.Name, r.Parts)
			}
		}
		if diff := cmp.Diff(c.Rows, got); diff != "" {
			t.Errorf("case %d, %s (-vLLM +ours):\n%s", i, c.Name, diff)
		}
	}
}
