package dataset_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/dataset"
)

func writeText(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// talk is a conversation.
func talk(texts ...string) string {
	var turns []map[string]string
	for _, text := range texts {
		turns = append(turns, map[string]string{"from": "x", "value": text})
	}
	data, err := json.Marshal(map[string]any{"conversations": turns})
	if err != nil {
		panic(err)
	}
	return string(data)
}

func prompts(reqs []dataset.Request) (out []string) {
	for _, r := range reqs {
		out = append(out, r.Prompt)
	}
	return out
}

func TestShareGPTTellsWhatItLeavesOut(t *testing.T) {
	path := writeText(t, "s.json", "["+strings.Join([]string{
		talk("alone"), `{"id": 5}`, talk("zzz", "long enough"), talk("a good one", "xy"), talk(strings.Repeat("z", 1025), "an answer"),
		talk("another one", "an answer"), talk(strings.Repeat("z", 1000), strings.Repeat("z", 1049)), talk("not looked at", "an answer"),
	}, ",\n")+"]")
	s := dataset.Spec{Name: "sharegpt", Path: path, Prompts: 1, OutputLen: -1, DisableShuffle: true}
	set := load(t, s, toy{})
	want := []string{
		path + ": 2 of 8 conversations have no two turns and are left out, as in vllm bench serve",
		path + ": of 4 conversations looked at, 2 are too short (a prompt or answer under 4 tokens) and 1 too long (a prompt over 1024 tokens, or over 2048 with its answer): they are left out, as in vllm bench serve",
	}
	if diff := cmp.Diff(want, set.Warnings); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"another one"}, prompts(set.Requests)); diff != "" {
		t.Error(diff)
	}
	// With a length for all, answers are no matter: of a short one, or in the sum.
	s.OutputLen, s.Prompts = 9, 4
	if diff := cmp.Diff([]string{"a good one", "another one", strings.Repeat("z", 1000), "not looked at"}, prompts(load(t, s, toy{}).Requests)); diff != "" {
		t.Error(diff)
	}
}

func TestShareGPTErrorsNameLineAndElement(t *testing.T) {
	good := talk("a good one", "an answer")
	for name, c := range map[string]struct{ bad, want string }{
		"number":             {`7`, `element 2 is a number; want an object`},
		"list":               {`[1]`, `element 2 is a list; want an object`},
		"no comma":           {good + " " + good, `no comma behind element 2; want`},
		"broken":             {`{"a": tru}`, `element 2 is no JSON object at byte `},
		"not UTF-8":          {"{\"a\": \"\xff\"}", `element 2 is not UTF-8; want`},
		"deep":               {`{"a": ` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}`, `element 2 is nested deeper than 512`},
		"conversations null": {`{"conversations": null}`, `element 2: conversations is null; want a list`},
		"conversations text": {`{"conversations": "ab"}`, `element 2: conversations is a string; want a list`},
		"turn is text":       {`{"conversations": ["a", "b"]}`, `element 2: conversations[0] is a string; want an object`},
		"turn is null":       {`{"conversations": [{"value": "a"}, null]}`, `element 2: conversations[1] is null; want an object`},
		"no value":           {`{"conversations": [{"from": "a"}, {"value": "a"}]}`, `element 2: conversations[0] has no "value"; want`},
		"value null":         {`{"conversations": [{"value": "a"}, {"value": null}]}`, `element 2: conversations[1].value is null; want a string`},
		"half a pair":        {`{"conversations": [{"value": "\ud83d"}, {"value": "a"}]}`, `element 2: conversations[0].value has half of a surrogate pair; want`},
		"image list":         {strings.TrimSuffix(good, "}") + `, "image": ["a"]}`, `element 2: image is a list; want a string`},
	} {
		path := writeText(t, "s.json", "["+good+",\n\n"+c.bad+",\n"+good+"]")
		s := dataset.Spec{Name: "sharegpt", Path: path, Prompts: 3, OutputLen: -1, DisableShuffle: true}
		_, err := dataset.Load(t.Context(), s, dataset.Tools{Tokenizer: toy{}})
		if want := path + ":3: " + c.want; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %.200v, want %s...", name, err, want)
		}
	}
}

// What nobody gets as far as is no error: it would be one with more cores only.
func TestShareGPTDoesNotLookBehindItsLastRequest(t *testing.T) {
	path := writeText(t, "s.json", "["+talk("a good one", "an answer")+`, {"conversations": [1, 2]}]`)
	s := dataset.Spec{Name: "sharegpt", Path: path, Prompts: 1, OutputLen: -1, DisableShuffle: true}
	load(t, s, toy{})
	s.Prompts = 2
	if _, err := dataset.Load(t.Context(), s, dataset.Tools{Tokenizer: toy{}}); err == nil {
		t.Error("no error")
	}
}

func TestShareGPTFilesThatHaveNoConversations(t *testing.T) {
	folder := t.TempDir()
	for path, want := range map[string]string{
		writeText(t, "a.json", ""):                          "nothing in it; want a JSON array",
		writeText(t, "b.json", " \n"):                       "nothing in it; want a JSON array",
		writeText(t, "c.json", "[]"):                        "none of 0 elements has two turns; want",
		writeText(t, "d.json", "["+talk("x")+"]"):           "none of 1 elements has two turns; want",
		writeText(t, "e.json", "["+talk("x", "y")+"]"):      "of 1 conversations looked at, 1 are too short",
		writeText(t, "f.json", talk("x", "y")+"\n"):         "want one JSON array of objects, not one object a line",
		writeText(t, "g.json", "\"x\""):                     `begins with '"'; want a JSON array`,
		writeText(t, "h.json", "["+talk("x", "y")+"\n"):     ":2: the file ends inside its JSON array, behind element 1",
		writeText(t, "i.json", "["+talk("x", "y")[:20]):     ":1: the file ends inside element 1, at byte 21; want",
		writeText(t, "j.json", "["+talk("x", "y")+"]\n\nx"): ":3: something follows the array; want",
		writeText(t, "k.json", "["+talk("x", "y")+",\n]"):   ":2: no element behind a comma; want",
		folder:              "is a directory; want a .json file",
		folder + "/no.json": "no such file",
	} {
		s := dataset.Spec{Name: "sharegpt", Path: path, Prompts: 1, OutputLen: -1}
		_, err := dataset.Load(t.Context(), s, dataset.Tools{Tokenizer: toy{}})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want %s", path, err, want)
		}
	}
}

func TestShareGPTIsCountedByWhoeverCanCount(t *testing.T) {
	path := writeText(t, "s.json", "["+talk("abcabc", "an answer")+"]")
	s := dataset.Spec{Name: "sharegpt", Path: path, Prompts: 1, OutputLen: -1}
	var calls atomic.Int64
	set := load(t, s, toy{added: 1, remote: true, calls: &calls})
	if r := set.Requests[0]; r.InputTokens != 1+len(encode(t, "abcabc")) || calls.Load() != 2 {
		t.Errorf("%+v after %d calls", r, calls.Load())
	}
	const want = "tokenizer: sharegpt needs one to count tokens, and there is none; want a tokenizer, or a server with /tokenize"
	if _, err := dataset.Load(t.Context(), s, dataset.Tools{}); err == nil || err.Error() != want {
		t.Errorf("error %v", err)
	}
	s.TokenIDs = true
	r := load(t, s, toy{added: 1}).Requests[0]
	if diff := cmp.Diff(append([]int{0}, encode(t, "abcabc")...), r.Tokens); diff != "" || r.Prompt != "" {
		t.Errorf("%+v: %s", r, diff)
	}
}

func TestShareGPTImagesNeedAChatBackend(t *testing.T) {
	path := writeText(t, "s.json", `[{"image": "a.jpg", `+strings.TrimPrefix(talk("a good one", "an answer"), "{")+"]")
	s := dataset.Spec{Name: "sharegpt", Path: path, Prompts: 1, OutputLen: -1}
	set := load(t, s, toy{})
	if set.Requests[0].Parts != nil || len(set.Warnings) != 1 || !strings.Contains(set.Warnings[0], "1 requests go without their image") {
		t.Errorf("%+v, warnings %q", set.Requests[0], set.Warnings)
	}
	s.Chat = true
	set = load(t, s, toy{})
	if len(set.Requests[0].Parts) != 1 || !json.Valid(set.Requests[0].Parts[0]) || set.Warnings != nil {
		t.Errorf("%+v, warnings %q", set.Requests[0], set.Warnings)
	}
}

func TestShareGPTWarmupsAreWhatFollows(t *testing.T) {
	path := writeText(t, "s.json", "["+strings.Join([]string{
		talk("the first", "an answer"), talk("the second", "an answer"), talk("x", "y"), talk("the first", "an answer"), talk("the third", "an answer"),
	}, ",")+"]")
	s := dataset.Spec{Name: "sharegpt", Path: path, Prompts: 2, OutputLen: 7, DisableShuffle: true, Warmups: 3}
	set := load(t, s, toy{added: 1})
	want := []string{"the third", "Warm-up 1: the first", "Warm-up 2: the second"}
	if diff := cmp.Diff(want, prompts(set.Warmups)); diff != "" || set.Warmups[2].OutputTokens != 7 {
		t.Errorf("%s%+v", diff, set.Warmups[2])
	}
}
