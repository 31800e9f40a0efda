package dataset_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/dataset"
)

// columnSpec takes the rows of testdata/hub/columns in their order.
func columnSpec(prompt string) dataset.Spec {
	return dataset.Spec{Name: "hf", Path: "testdata/hub/columns", Prompts: 6, OutputLen: 9, DisableShuffle: true, NoOversample: true,
		Hub: dataset.Hub{PromptColumn: prompt}}
}

func TestHubColumns(t *testing.T) {
	chat, plain := true, false
	for name, c := range map[string]struct {
		column string
		chat   bool
		want   []dataset.Request
		left   string // of the warning about rows that were left out
	}{
		"text": {"prompt", plain, []dataset.Request{
			{Prompt: "<user>one</user>\n<assistant>", InputTokens: 3, OutputTokens: 9},
			{Prompt: "<user>two words</user>\n<assistant>", InputTokens: 4, OutputTokens: 9},
			{Prompt: "<user>five</user>\n<assistant>", InputTokens: 3, OutputTokens: 9},
			{Prompt: "<user>six</user>\n<assistant>", InputTokens: 3, OutputTokens: 9},
		}, "2 with no prompt"},
		"text to a chat": {"prompt", chat, []dataset.Request{
			{Prompt: "one", InputTokens: 3, OutputTokens: 9}, {Prompt: "two words", InputTokens: 4, OutputTokens: 9},
			{Prompt: "five", InputTokens: 3, OutputTokens: 9}, {Prompt: "six", InputTokens: 3, OutputTokens: 9},
		}, "2 with no prompt"},
		"messages to a chat": {"chat", chat, []dataset.Request{
			{Messages: []byte(`[{"role":"system","content":"be kind"},{"role":"user","content":"hello"}]`), InputTokens: 5, OutputTokens: 9},
			{Messages: []byte(`[{"role":"user","content":"first"},{"role":"assistant","content":"answer"},{"role":"user","content":"second \u003c2\u003e"}]`),
				InputTokens: 6, OutputTokens: 9},
			{Messages: []byte(`[{"role":"user","content":"alone"}]`), InputTokens: 3, OutputTokens: 9},
		}, "3 with no prompt"},
		"turns to a chat": {"said", chat, []dataset.Request{
			{Messages: []byte(`[{"role":"system","content":"s"},{"role":"user","content":"hello"}]`), InputTokens: 4, OutputTokens: 9},
			{Messages: []byte(`[{"role":"user","content":"x"},{"role":"assistant","content":"y"},{"role":"user","content":"z"}]`), InputTokens: 5, OutputTokens: 9},
			{Messages: []byte(`[{"role":"user","content":"end"}]`), InputTokens: 3, OutputTokens: 9},
		}, "1 with a role that no chat has, 2 with no prompt"},
		"a place in a column": {"nested.list.0.text", chat, []dataset.Request{
			{Prompt: "deep 0", InputTokens: 4, OutputTokens: 9}, {Prompt: "deep 1", InputTokens: 4, OutputTokens: 9},
			{Prompt: "deep 2", InputTokens: 4, OutputTokens: 9}, {Prompt: "deep 3", InputTokens: 4, OutputTokens: 9},
			{Prompt: "deep 4", InputTokens: 4, OutputTokens: 9}, {Prompt: "deep 5", InputTokens: 4, OutputTokens: 9},
		}, ""},
	} {
		s := columnSpec(c.column)
		s.Chat = c.chat
		set := load2(t, s, wordTools())
		if diff := cmp.Diff(c.want, set.Requests); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		told := slices.ContainsFunc(set.Warnings, func(w string) bool {
			return strings.HasPrefix(w, "testdata/hub/columns: rows were left out: "+c.left)
		})
		if told != (c.left != "") {
			t.Errorf("%s: warnings %q", name, set.Warnings)
		}
	}
}

func load2(t testing.TB, s dataset.Spec, tools dataset.Tools) *dataset.Set {
	t.Helper()
	set, err := dataset.Load(t.Context(), s, tools)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// A chat endpoint renders the template, perhaps better: here only a count fails.
func TestHubTemplateThatRefuses(t *testing.T) {
	s := columnSpec("prompt")
	s.Chat = true
	tools := wordTools()
	tools.Render = func(prompt string) (string, error) {
		if prompt == "five" {
			return "", errors.New("the template refuses: " + prompt)
		}
		return prompt, nil
	}
	set := load2(t, s, tools)
	if i := slices.IndexFunc(set.Warnings, func(w string) bool { return strings.HasPrefix(w, "1 prompts are counted without") }); i < 0 || strings.Contains(set.Warnings[i], "five") {
		t.Errorf("warnings %q", set.Warnings)
	}
	s.Chat = false
	if _, err := dataset.Load(t.Context(), s, tools); err == nil || !strings.Contains(err.Error(), "render chat template") {
		t.Errorf("error %v", err)
	}
}

// On completions a conversation is its first turn of the user, where its whole
// template is not known.
func TestHubConversationAsAPrompt(t *testing.T) {
	s := columnSpec("chat")
	tools := wordTools()
	got := load2(t, s, tools).Requests[0].Prompt
	if got != "<system>be kind</system>\n<user>hello</user>\n<assistant>" {
		t.Errorf("rendered: %q", got)
	}
	s.SkipTemplate = true
	if got := load2(t, s, tools).Requests[1].Prompt; got != "first" {
		t.Errorf("without template: %q", got)
	}
}

func TestHubAnswersSayHowMuchToAskFor(t *testing.T) {
	s := columnSpec("prompt")
	s.Hub.OutputColumn, s.OutputLen, s.Chat = "reply", -1, true
	set := load2(t, s, wordTools())
	var got []int
	for _, r := range set.Requests {
		got = append(got, r.OutputTokens)
	}
	if diff := cmp.Diff([]int{4, 2, 3}, got); diff != "" || !strings.Contains(strings.Join(set.Warnings, "\n"), "1 with no answer, 2 with no prompt") {
		t.Errorf("%s; warnings %q", diff, set.Warnings)
	}
	s.Hub.OutputColumn = ""
	set = load2(t, s, wordTools())
	if set.Requests[0].OutputTokens != 256 || !strings.Contains(strings.Join(set.Warnings, "\n"), "256 tokens are asked for in each request; --hf-output-len") {
		t.Errorf("%d tokens, warnings %q", set.Requests[0].OutputTokens, set.Warnings)
	}
}

func TestHubGuessesTheOnlyColumn(t *testing.T) {
	s := columnSpec("")
	s.Path, s.Chat = "testdata/hub/guess", true
	set := load2(t, s, wordTools())
	if len(set.Requests) != 4 || !strings.Contains(set.Warnings[0], "its column prompt is sent as prompts; --hf-prompt-column names another") {
		t.Errorf("%d requests, warnings %q", len(set.Requests), set.Warnings)
	}
}

func TestHubAsTokenIDs(t *testing.T) {
	s := columnSpec("prompt")
	s.TokenIDs, s.SkipTemplate = true, true
	want := dataset.Request{Tokens: []int{1, 2, 2}, InputTokens: 3, OutputTokens: 9}
	for _, remote := range []bool{false, true} {
		set := load2(t, s, dataset.Tools{Tokenizer: words{remote}})
		if diff := cmp.Diff(want, set.Requests[1]); diff != "" {
			t.Error(diff)
		}
	}
}

// Templates are treated as those of the other data sets.
func TestHubSendsABOSOfTheTemplateOnce(t *testing.T) {
	s := columnSpec("prompt")
	want := 1 + len(encode(t, "[user]one[bot]"))
	for _, remote := range []bool{false, true} {
		set := load2(t, s, dataset.Tools{Tokenizer: toy{added: 1, remote: remote}, Render: template("<s>")})
		if r := set.Requests[0]; r.Prompt != "[user]one[bot]" || !remote && r.InputTokens != want || !strings.Contains(strings.Join(set.Warnings, "\n"), "writes <s>") {
			t.Errorf("remote %v: %+v, warnings %q", remote, r, set.Warnings)
		}
	}
	s.Chat = true
	set := load2(t, s, dataset.Tools{Tokenizer: toy{added: 1}, Render: template("<s>")})
	if r := set.Requests[0]; r.Prompt != "one" || r.InputTokens != want {
		t.Errorf("chat: %+v, want %d tokens", r, want)
	}
	broken := func(string) (string, error) { return "", errors.New("no such filter") }
	set, err := dataset.Load(t.Context(), s, dataset.Tools{Tokenizer: toy{added: 1}, Render: broken})
	if err != nil || !strings.Contains(strings.Join(set.Warnings, "\n"), "rendered here: no such filter") {
		t.Errorf("a template that only counts: %+v, error %v", set, err)
	}
}

// A count by the server would be one more request for each prompt.
func TestHubIsCountedRemotelyOnlyWhereItMatters(t *testing.T) {
	s := columnSpec("prompt")
	s.Chat = true
	if n := load2(t, s, dataset.Tools{Tokenizer: words{remote: true}}).Requests[0].InputTokens; n != 0 {
		t.Errorf("%d tokens", n)
	}
	s.Hub.OutputColumn, s.OutputLen = "reply", -1
	if n := load2(t, s, dataset.Tools{Tokenizer: words{remote: true}}).Requests[0].OutputTokens; n != 4 {
		t.Errorf("%d tokens", n)
	}
}

func TestHubWarmups(t *testing.T) {
	s := columnSpec("dotted.name")
	s.Prompts, s.Warmups, s.Chat = 3, 2, true
	set := load2(t, s, wordTools())
	var got []string
	for _, r := range slices.Concat(set.Requests, set.Warmups) {
		got = append(got, r.Prompt)
	}
	if diff := cmp.Diff([]string{"dot 0", "dot 1", "dot 2", "dot 3", "dot 4"}, got); diff != "" || set.Warnings != nil {
		t.Errorf("%s; warnings %q", diff, set.Warnings)
	}
	s.Warmups = 5
	set = load2(t, s, wordTools())
	if got := set.Warmups[4].Prompt; got != "Warm-up 2: dot 1" || len(set.Warnings) != 1 {
		t.Errorf("last warm-up %q, warnings %q", got, set.Warnings)
	}
	s.Hub.PromptColumn, s.Warmups = "chat", 3
	set = load2(t, s, wordTools())
	if got := string(set.Warmups[2].Messages); !strings.HasPrefix(got, `[{"role":"user","content":"Warm-up 3: alone"}`) {
		t.Errorf("last warm-up %s, warnings %q", got, set.Warnings)
	}
}

func TestHubErrorsSayWhatIsWanted(t *testing.T) {
	dir := t.TempDir()
	whole, err := os.ReadFile("testdata/hub/columns/train.parquet")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
		return filepath.Dir(path)
	}
	damaged := slices.Clone(whole)
	for i := 4; i < 300; i++ {
		damaged[i] = 0xff
	}
	for name, c := range map[string]struct {
		set  func(*dataset.Spec)
		want string
	}{
		"no folder, no hub": {func(s *dataset.Spec) { s.Path = "org/name" }, "dataset-path: there is no folder org/name, and no hub to ask"},
		"no parquet":        {func(s *dataset.Spec) { s.Path = write("json/train.jsonl", []byte("{}")) }, "has no Parquet files"},
		"another file":      {func(s *dataset.Spec) { s.Path = write("json/train.jsonl", []byte("{}")) + "/train.jsonl" }, "is no folder; want one with .parquet files"},
		"damaged":           {func(s *dataset.Spec) { s.Path = write("damaged/train.parquet", damaged) }, "/train.parquet: column prompt, row group 0: "},
		"cut short":         {func(s *dataset.Spec) { s.Path = write("cut/train.parquet", whole[:900]) }, "/train.parquet: no Parquet file, or cut short"},
		"one of three":      {func(s *dataset.Spec) { s.Path = write("part/data/train-00001-of-00003.parquet", whole) + "/.." }, "has 1 of the 3 files"},
		"bad card": {func(s *dataset.Spec) {
			write("card/train.parquet", whole)
			s.Path = write("card/README.md", []byte("---\nconfigs: 7\n---\n"))
		}, "/README.md: read the YAML at its head"},
		"no split":        {func(s *dataset.Spec) { s.Hub.Split = "test" }, `hf-split: testdata/hub/columns has no split "test"; want one of train`},
		"no subset":       {func(s *dataset.Spec) { s.Subset = "x" }, `hf-subset: there is no "x"; want one of default`},
		"no column":       {func(s *dataset.Spec) { s.Hub.PromptColumn = "Prompt" }, "hf-prompt-column: testdata/hub/columns/train.parquet: no column Prompt; want one of prompt (string), number (int64), reply"},
		"no answer there": {func(s *dataset.Spec) { s.Hub.OutputColumn = "answer" }, "hf-output-column: testdata/hub/columns/train.parquet: no column answer; want one of"},
		"which column":    {func(s *dataset.Spec) { s.Hub.PromptColumn, s.Path = "", "testdata/hub/aimo" }, "hf-prompt-column: testdata/hub/aimo is of a form that is not known; want the name of the column with the prompts, one of problem (string), solution (string)"},
		"number":          {func(s *dataset.Spec) { s.Hub.PromptColumn = "number" }, "testdata/hub/columns/train.parquet: row 0: column number is a number; want a string"},
		"bytes":           {func(s *dataset.Spec) { s.Hub.PromptColumn = "raw" }, "row 0: column raw is bytes; want a string"},
		"list of groups":  {func(s *dataset.Spec) { s.Hub.PromptColumn = "nested.list" }, "row 0: column nested.list element 0 has neither role and content nor from and value"},
		"nowhere":         {func(s *dataset.Spec) { s.Hub.PromptColumn = "nested.list.7" }, "none of its rows can be sent: 6 with no prompt"},
	} {
		s := columnSpec("prompt")
		c.set(&s)
		tools := wordTools()
		if _, err := dataset.Load(t.Context(), s, tools); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want ...%s...", name, err, c.want)
		}
	}
	s := columnSpec("prompt")
	if _, err := dataset.Load(t.Context(), s, dataset.Tools{}); err == nil || !strings.Contains(err.Error(), "--skip-chat-template") {
		t.Errorf("without a template: %v", err)
	}
	s.Chat, s.OutputLen, s.Hub.OutputColumn = true, -1, "reply"
	if _, err := dataset.Load(t.Context(), s, dataset.Tools{}); err == nil || !strings.Contains(err.Error(), "needs a tokenizer") {
		t.Errorf("without a tokenizer: %v", err)
	}
}

func TestHubValidate(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*dataset.Spec)
		want string
	}{
		"no path":       {func(s *dataset.Spec) { s.Path = "" }, "dataset-path: missing; want the id"},
		"no prompts":    {func(s *dataset.Spec) { s.Prompts = 0 }, "num-prompts: 0 is out of range"},
		"no output":     {func(s *dataset.Spec) { s.OutputLen = 0 }, "hf-output-len: 0 is out of range"},
		"part of split": {func(s *dataset.Spec) { s.Hub.Split = "train[:10]" }, `hf-split: "train[:10]" is no name`},
		"unknown form":  {func(s *dataset.Spec) { s.Hub.Name, s.Hub.PromptColumn = "a/b", "" }, `hf-name: the form of "a/b" is not known; want one of AI-MO/NuminaMath-1.5, `},
		"videos":        {func(s *dataset.Spec) { s.Path, s.Hub.PromptColumn = "yale-nlp/MMVU", "" }, "yale-nlp/MMVU consists of videos"},
		"images to completions": {func(s *dataset.Spec) { s.Path, s.Hub.PromptColumn = "Lin-Chen/MMStar", "" },
			"Lin-Chen/MMStar has images, which only a chat endpoint takes"},
		"output column alone": {func(s *dataset.Spec) { s.Hub.OutputColumn, s.Hub.PromptColumn = "x", "" }, "hf-output-column: has no meaning without hf-prompt-column"},
		"no distance": {func(s *dataset.Spec) {
			s.Path, s.Hub = "vdaita/edit_5k_char", dataset.Hub{MinDistance: 2, MaxDistance: 1}
		}, "blazedit-min-distance: 2 to 1"},
	} {
		s := columnSpec("prompt")
		c.set(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", name, err, c.want)
		}
	}
	s := columnSpec("question")
	s.Path = "yale-nlp/MMVU"
	if err := s.Validate(); err != nil {
		t.Errorf("a column of a data set of videos: %v", err)
	}
}

// shelf is a hub in a folder.
type shelf struct {
	root    string
	files   []string
	fetched map[string]bool
}

func (s shelf) Files(context.Context, string) ([]string, error) { return s.files, nil }
func (s shelf) Fetch(_ context.Context, _, file string) (string, error) {
	s.fetched[file] = true
	return filepath.Join(s.root, file), nil
}

func TestHubReadsWhatTheHubHasConverted(t *testing.T) {
	root := t.TempDir()
	data, err := os.ReadFile("testdata/hub/guess/train.parquet")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, f := range []string{"a/train/0000.parquet", "a/test/0000.parquet", "b/train/0000.parquet", "b/partial-train2/0000.parquet", "b/train/0001.parquet"} {
		path := filepath.Join(root, "refs/convert/parquet", f)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644)); err != nil {
			t.Fatal(err)
		}
		files = append(files, "refs/convert/parquet/"+f)
	}
	if err := os.WriteFile(root+"/README.md", []byte("no head"), 0o644); err != nil {
		t.Fatal(err)
	}
	hub := shelf{root, append(files, "README.md", "train.jsonl"), map[string]bool{}}
	tools := wordTools()
	tools.Hub = hub
	s := columnSpec("prompt")
	s.Path, s.Chat = "org/set", true
	if _, err := dataset.Load(t.Context(), s, tools); err == nil || err.Error() != "org/set: hf-subset: missing; want one of a, b" {
		t.Errorf("error %v", err)
	}
	s.Subset = "a"
	if set := load2(t, s, tools); len(set.Requests) != 4 || !cmp.Equal(hub.fetched, map[string]bool{"README.md": true, files[0]: true}) {
		t.Errorf("%d requests; fetched %v", len(set.Requests), hub.fetched)
	}
	s.Subset = "b"
	if set := load2(t, s, tools); len(set.Requests) != 6 || !strings.Contains(set.Warnings[0], "in another order") {
		t.Errorf("%d requests; warnings %q", len(set.Requests), set.Warnings)
	}
	one := shelf{root, []string{files[0], "train.jsonl", "test.jsonl"}, map[string]bool{}}
	tools.Hub, s.Subset = one, ""
	if set := load2(t, s, tools); len(set.Warnings) != 2 || strings.Contains(set.Warnings[0]+set.Warnings[1], "order") {
		t.Errorf("one file made of one file has its order: warnings %q", set.Warnings)
	}
	tools.Hub, s.Subset = hub, "b"
	s.Hub.Split = "train2"
	if set := load2(t, s, tools); !strings.Contains(set.Warnings[0], "has converted only the beginning of split train2") {
		t.Errorf("warnings %q", set.Warnings)
	}
}

// TestHubTakesTheOnlySplit: a copy of a data set need not have the names that its
// form expects, as long as there is no choice.
func TestHubTakesTheOnlySplit(t *testing.T) {
	s := columnSpec("prompt")
	s.Path = "testdata/hub/humaneval"
	set := load2(t, s, wordTools())
	if len(set.Requests) == 0 || !strings.Contains(strings.Join(set.Warnings, "\n"), "split test, its only one, is taken") {
		t.Errorf("%d requests, warnings %q", len(set.Requests), set.Warnings)
	}
	s.Hub.Split = "train"
	if _, err := dataset.Load(t.Context(), s, wordTools()); err == nil || !strings.Contains(err.Error(), "hf-split") {
		t.Errorf("a split that is not there: %v", err)
	}
}
