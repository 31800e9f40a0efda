package dataset_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/dataset"
)

const burstHeader = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"

func TestBurstGPTErrorsNameLineAndColumn(t *testing.T) {
	const good = "1,GPT-4,5,6,11,x\n"
	for name, c := range map[string]struct{ text, want string }{
		"empty":           {"", ": nothing in it; want"},
		"header only":     {burstHeader, ": none of 0 rows has the model GPT-4 and response tokens; want"},
		"no GPT-4":        {burstHeader + "1,ChatGPT,5,6,11,x\n1,GPT-4,5,0,5,x\n", ": none of 2 rows has"},
		"no column":       {"Timestamp,Model,Request tokens\n", ":1: the header has not all of the columns"},
		"too few":         {burstHeader + good + "1,GPT-4,5\n", ":3:1: wrong number of fields; want"},
		"quote":           {burstHeader + good + "1,\"GPT-4,5,6,11,x\n", ":3:19: extraneous or missing"},
		"words":           {burstHeader + good + "\n1,GPT-4,5,six,11,x\n", `:4: Response tokens is "six"; want a whole number`},
		"half a token":    {burstHeader + good + "1,GPT-4,5.5,6,11,x\n", `:3: Request tokens is "5.5"; want a whole number`},
		"negative":        {burstHeader + good + "1,GPT-4,-5,6,11,x\n", `:3: Request tokens is "-5"; want`},
		"not a number":    {burstHeader + good + "1,GPT-4,NaN,6,11,x\n", `:3: Request tokens is "NaN"; want`},
		"infinitely many": {burstHeader + good + "1,GPT-4,5,inf,11,x\n", `:3: Response tokens is "inf"; want`},
		"a long row":      {burstHeader + good + good + "1,GPT-4," + strings.Repeat("\x00", 2<<20), ":4: a row longer than 1 MiB; want"},
		"an open quote":   {"\"" + strings.Repeat("x\n", 1<<20), ":1: a row longer than 1 MiB; want"},
		"not UTF-8":       {burstHeader + good + "1,GPT-4,5,6,11,\xff\n", `:3: not UTF-8; want`},
	} {
		path := writeText(t, "b.csv", c.text)
		_, err := dataset.Load(t.Context(), dataset.Spec{Name: "burstgpt", Path: path, Prompts: 1}, dataset.Tools{Tokenizer: toy{}})
		if err == nil || !strings.HasPrefix(err.Error(), path+c.want) {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
}

func TestBurstGPTNeedsAVocabulary(t *testing.T) {
	s := dataset.Spec{Name: "burstgpt", Path: "none.csv", Prompts: 1}
	for _, tools := range []dataset.Tools{{}, {Tokenizer: toy{remote: true}}} {
		if _, err := dataset.Load(t.Context(), s, tools); err == nil || !strings.HasPrefix(err.Error(), "tokenizer: burstgpt") {
			t.Errorf("error %v", err)
		}
	}
}

func TestBurstGPTPromptsGoOnInTheWarmups(t *testing.T) {
	path := writeText(t, "b.csv", "\ufeff"+strings.ReplaceAll(burstHeader, "\n", "\r\n")+"1,GPT-4,3,6,9,x\r\n\r\n2,GPT-4,3.0,,3,x\r\n3,GPT-4,0,2,2,x\r\n4,ChatGPT,?,?,?,\r\n")
	s := dataset.Spec{Name: "burstgpt", Path: path, Prompts: 1, TokenIDs: true, Warmups: 2}
	set := load(t, s, toy{})
	want := []dataset.Request{{Tokens: []int{}, InputTokens: 0, OutputTokens: 2}}
	warm := []dataset.Request{{Tokens: []int{1, 2, 3}, InputTokens: 3, OutputTokens: 6}, {Tokens: []int{}, OutputTokens: 2}}
	if set.Requests[0].InputTokens != 0 {
		t.Fatalf("the seed does not put the empty row first: %+v", set.Requests)
	}
	if diff := cmp.Diff(want, set.Requests) + cmp.Diff(warm, set.Warmups); diff != "" {
		t.Error(diff)
	}
	for i, want := range []string{"2 of 4 rows have the model GPT-4 and an answer; of these the lengths are used and not the times", "1 requests have no request tokens"} {
		if !strings.Contains(set.Warnings[i], want) {
			t.Errorf("warning %q, want %s", set.Warnings[i], want)
		}
	}
}

func TestBurstGPTMayStopAtItsRows(t *testing.T) {
	path := writeText(t, "b.csv", burstHeader+"1,GPT-4,3,6,9,x\n1,GPT-4,4,6,9,x\n")
	s := dataset.Spec{Name: "burstgpt", Path: path, Prompts: 5}
	if n := len(load(t, s, toy{}).Requests); n != 5 {
		t.Errorf("%d requests", n)
	}
	s.NoOversample = true
	if set := load(t, s, toy{}); len(set.Requests) != 2 || len(set.Warnings) != 2 {
		t.Errorf("%d requests, warnings %q", len(set.Requests), set.Warnings)
	}
}

func TestBenchErrorsNameLineAndKey(t *testing.T) {
	for _, c := range []struct{ kind, bad, want string }{
		{"spec_bench", `{}`, `:2: no "turns"; want a list`},
		{"spec_bench", `{"turns": "a"}`, `:2: turns is a string; want a list`},
		{"spec_bench", `{"turns": []}`, `:2: turns is empty; want`},
		{"spec_bench", `{"turns": [null]}`, `:2: turns[0] is null; want a string`},
		{"spec_bench", `{"turns": [""]}`, `:2: the prompt is empty; want`},
		{"spec_bench", `[`, `:2: not a JSON object`},
		{"speed_bench", `{}`, `:2: no "messages"; want a list`},
		{"speed_bench", `{"messages": []}`, `:2: messages is empty; want`},
		{"speed_bench", `{"messages": ["a"]}`, `:2: messages[0] is a string; want an object`},
		{"speed_bench", `{"messages": [null]}`, `:2: messages[0] is null; want an object`},
		{"speed_bench", `{"messages": [{"role": "user"}]}`, `:2: messages[0] has no "content"; want a string`},
		{"speed_bench", `{"messages": [{"content": []}]}`, `:2: messages[0].content is a list; want a string`},
	} {
		path := writeText(t, "qualitative.jsonl", `{"turns": ["a"], "messages": [{"content": "a"}]}`+"\n"+c.bad)
		s := dataset.Spec{Name: c.kind, Path: path, OutputLen: 1, Subset: "qualitative", Chat: true}
		if c.kind == "speed_bench" {
			s.Path = filepath.Dir(path)
		}
		_, err := dataset.Load(t.Context(), s, dataset.Tools{})
		if err == nil || !strings.HasPrefix(err.Error(), path+c.want) {
			t.Errorf("%s %s: error %v, want %s", c.kind, c.bad, err, c.want)
		}
	}
}

func TestBenchCategories(t *testing.T) {
	path := writeText(t, "q.jsonl", `{"turns": ["a"], "category": "qa"}`+"\n"+`{"turns": ["b"], "category": "math"}`+"\n"+`{"turns": 5, "category": "math"}`)
	s := dataset.Spec{Name: "spec_bench", Path: path, OutputLen: 1, Category: "qa", Chat: true}
	if diff := cmp.Diff([]string{"a"}, prompts(load(t, s, nil).Requests)); diff != "" {
		t.Error(diff)
	}
	s.Prompts = 3
	if set := load(t, s, nil); len(set.Requests) != 3 || !strings.Contains(set.Warnings[0], `has 1 rows of category "qa": 2 of the 3`) {
		t.Errorf("warnings %q", set.Warnings)
	}
	s.Category = "no"
	if _, err := dataset.Load(t.Context(), s, dataset.Tools{}); err == nil || err.Error() != path+`: no row of category "no"; want one of math, qa` {
		t.Errorf("error %v", err)
	}
	s.Path = writeText(t, "q.jsonl", `{"turns": ["a"]}`)
	if _, err := dataset.Load(t.Context(), s, dataset.Tools{}); err == nil || err.Error() != s.Path+`:1: no "category"; want a string under this key` {
		t.Errorf("error %v", err)
	}
}

func TestSpeedBenchWantsItsFolder(t *testing.T) {
	file := writeText(t, "qualitative.jsonl", "\n")
	s := dataset.Spec{Name: "speed_bench", OutputLen: 1, Subset: "qualitative", Chat: true}
	for path, want := range map[string]string{
		file:               file + ": is no folder; want the folder with SPEED-Bench's qualitative.jsonl",
		file + "x":         "dataset-path: stat " + file + "x: no such file",
		t.TempDir():        "dataset-path: stat ",
		filepath.Dir(file): file + ": no rows; want one JSON object a line",
	} {
		s.Path = path
		if _, err := dataset.Load(t.Context(), s, dataset.Tools{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestSonnetWithoutAFileHasItsOwn(t *testing.T) {
	s := dataset.Spec{Name: "sonnet", Prompts: 20, InputLen: 2000, PrefixLen: 600, OutputLen: 150, Warmups: 2}
	set := loadWith(t, s, toy{added: 1}, "")
	const begin = "[user]Pick as many lines as you can from these poem lines:\nFrom fairest creatures we desire increase,\n"
	for i, r := range set.Requests {
		if !strings.HasPrefix(r.Prompt, begin) || r.InputTokens > 2000 || r.InputTokens < 1900 || r.OutputTokens != 150 {
			t.Errorf("request %d: %d tokens, %.150q", i, r.InputTokens, r.Prompt)
		}
	}
	for _, w := range set.Warmups {
		if !strings.HasPrefix(w.Prompt, "[user]Warm-up: Pick") {
			t.Errorf("warm-up %.80q", w.Prompt)
		}
	}
	if set.Warnings != nil || set.Generator != "sonnet-lines" {
		t.Errorf("generator %q, warnings %q", set.Generator, set.Warnings)
	}
}

func TestSonnetOnChat(t *testing.T) {
	s := dataset.Spec{Name: "sonnet", Prompts: 2, InputLen: 2000, PrefixLen: 600, OutputLen: 150, Chat: true}
	rendered, plain := loadWith(t, s, toy{added: 1}, ""), load(t, s, toy{added: 1})
	for _, set := range []*dataset.Set{rendered, plain} {
		if p := set.Requests[0].Prompt; !strings.HasPrefix(p, "Pick as many") {
			t.Errorf("%.80q", p)
		}
	}
	if n := len(plain.Warnings); n != 1 || rendered.Warnings != nil {
		t.Errorf("warnings %q, %q", plain.Warnings, rendered.Warnings)
	}
}

func TestSonnetErrors(t *testing.T) {
	spec := func(path string, input int) dataset.Spec {
		return dataset.Spec{Name: "sonnet", Path: path, Prompts: 2, InputLen: input, PrefixLen: input / 10, OutputLen: 1}
	}
	uneven := writeText(t, "p.txt", strings.Repeat("z", 3000)+"\n"+strings.Repeat("z\n", 30))
	notText := writeText(t, "p.txt", "a\n\xff\n")
	blank := writeText(t, "p.txt", "\n \n")
	for _, c := range []struct {
		spec dataset.Spec
		want string
	}{
		{spec("", 20), "sonnet-input-len: 20 is not more than the "},
		{spec(notText, 500), notText + ":2: not UTF-8; want"},
		{spec(blank, 500), blank + ": no text in it; want"},
		{spec(t.TempDir(), 500), "is a directory; want a text file"},
		{spec(uneven, 1500), fmt.Sprintf("prompts of %s are longer than 1500 tokens, the shortest has ", uneven)},
	} {
		_, err := dataset.Load(t.Context(), c.spec, dataset.Tools{Tokenizer: toy{}, Render: template("")})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %s", err, c.want)
		}
	}
	if _, err := dataset.Load(t.Context(), spec("", 500), dataset.Tools{Render: template("")}); err == nil || !strings.HasPrefix(err.Error(), "tokenizer: sonnet needs one") {
		t.Errorf("error %v", err)
	}
}

// Numbers in a file, times numbers of flags, are no reason to run out of memory.
func TestTooManyTokens(t *testing.T) {
	long := writeText(t, "b.csv", burstHeader+"1,GPT-4,16777216,6,9,x\n")
	trace := writeText(t, "t.jsonl", `{"timestamp": 0, "input_length": 1000000, "output_length": 1}`)
	labels := dataset.Trace{BlockSize: 16, Multiplier: 1, Timestamp: "timestamp", InputLength: "input_length", OutputLength: "output_length", HashIDs: "hash_ids"}
	for _, c := range []struct {
		spec dataset.Spec
		want string
	}{
		{dataset.Spec{Name: "burstgpt", Path: long, Prompts: 200, Warmups: 100}, "num-prompts: 300 prompts have 5033164800 tokens together; want 4294967296 at most"},
		{dataset.Spec{Name: "timed_trace", Path: trace, Prompts: 1, Warmups: 300, Trace: labels}, "num-warmups: 300 prompts as long as those of "},
	} {
		if _, err := dataset.Load(t.Context(), c.spec, dataset.Tools{Tokenizer: toy{}}); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: error %v", c.spec.Name, err)
		}
	}
}

// A warm-up is as large as a timed request, and counts as such.
func TestWarmupBatches(t *testing.T) {
	s := dataset.Spec{Name: "random", Prompts: 2, InputLen: 5, OutputLen: 1, BatchSize: 1 << 20, Warmups: 1}
	if set := load(t, s, toy{}); len(set.Warmups) != 1 || len(set.Warmups[0].Texts) != 2 {
		t.Errorf("%d warm-ups", len(set.Warmups))
	}
	s = dataset.Spec{Name: "random", Prompts: 1 << 20, InputLen: 300, OutputLen: 1, BatchSize: 1 << 20, Warmups: 16}
	if err := s.Validate(); err == nil || !strings.HasPrefix(err.Error(), "num-prompts: 17825792 prompts of 300 tokens, warm-ups included, are too many") {
		t.Errorf("error %v", err)
	}
}

func TestAPoemInUTF16(t *testing.T) {
	path := writeText(t, "p.txt", "line\nl\x00i\x00n\x00e\x00\n\x00")
	s := dataset.Spec{Name: "sonnet", Path: path, Prompts: 1, InputLen: 500, OutputLen: 1, Chat: true}
	if _, err := dataset.Load(t.Context(), s, dataset.Tools{Tokenizer: toy{}}); err == nil || !strings.HasPrefix(err.Error(), path+":2: not UTF-8; want") {
		t.Errorf("error %v", err)
	}
}
