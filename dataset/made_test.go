package dataset_test

import (
	"bytes"
	"encoding/json"
	"image/jpeg"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/tokenize"
)

// detailed is the toy with the vocabulary of testdata/made.py.
type detailed struct{ toy }

func (t detailed) Vocabulary() (tokenize.Vocabulary, bool) {
	v, ok := t.toy.Vocabulary()
	v.Others, v.Missing, v.Control = []int{60, 62}, []int{4}, []int{0, 3, 49, 62}
	return v, ok
}

// madeRow is [prompt, prompt_len, expected_output_len], the prompt a text, a
// list of texts or of ids, or a chat.
type madeRow struct {
	prompt    json.RawMessage
	in, outpt int
}

func (r *madeRow) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&r.prompt, &r.in, &r.outpt})
}

type madeCase struct {
	Seed                     int64
	N, Batch, Input, Output  int
	Prefix, Suffix, Prefixes int
	Added, Items, Block      int
	Shuffle, Plain           bool
	Ratio                    dataset.Ratio
	ItemsRatio               float64 `json:"items_ratio"`
	Limit                    map[string]int
	Buckets                  []dataset.Bucket
	Rows                     []madeRow
	SHA256                   string
	Images                   [][]json.RawMessage
	Lines                    []string
	Offsets                  []float64
	Gamma                    []string
	Python                   string
}

type madeGolden struct{ Prefixes, Batches, Rerank, Media, Trace, Images []madeCase }

func readMade(t *testing.T, file string) (g madeGolden) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// file writes the case's lines and returns their path.
func (c madeCase) file(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(path, []byte(strings.Join(c.Lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (c madeCase) prefixes() dataset.Spec {
	return dataset.Spec{Name: "prefix_repetition", Prompts: c.N, Seed: c.Seed, PrefixLen: c.Prefix, SuffixLen: c.Suffix,
		Prefixes: c.Prefixes, OutputLen: c.Output, DisableShuffle: !c.Shuffle}
}

func (c madeCase) batches() dataset.Spec {
	return dataset.Spec{Name: "random", Prompts: c.N, Seed: c.Seed, InputLen: c.Input, OutputLen: 8,
		PrefixLen: c.Prefix, RangeRatio: c.Ratio, BatchSize: c.Batch}
}

func (c madeCase) rerank() dataset.Spec {
	return dataset.Spec{Name: "random-rerank", Prompts: c.N, Seed: c.Seed, InputLen: c.Input, OutputLen: 128,
		RangeRatio: c.Ratio, BatchSize: c.Batch, NoReranker: c.Plain}
}

func (c madeCase) media() dataset.Spec {
	return dataset.Spec{Name: "random-mm", Prompts: c.N, Seed: c.Seed, InputLen: c.Input, OutputLen: c.Output, Chat: true,
		PrefixLen: c.Prefix, RangeRatio: c.Ratio,
		Media: dataset.Media{Items: c.Items, ItemsRatio: c.ItemsRatio, Limit: c.Limit, Buckets: c.Buckets}}
}

func (c madeCase) trace(t *testing.T) dataset.Spec {
	return dataset.Spec{Name: "timed_trace", Path: c.file(t), Prompts: len(c.Lines), Seed: c.Seed, Trace: dataset.Trace{
		BlockSize: c.Block, Multiplier: 1,
		Timestamp: "timestamp", InputLength: "input_length", OutputLength: "output_length", HashIDs: "hash_ids"}}
}

// prompt is what a request sends, in the form of made.json.
func prompt(t *testing.T, r dataset.Request) json.RawMessage {
	t.Helper()
	var v any = r.Prompt
	switch {
	case r.Messages != nil:
		v = r.Messages
	case r.Texts != nil:
		v = r.Texts
	case r.Tokens != nil:
		v = r.Tokens
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// sameRows compares values, not the spelling of JSON.
func sameRows(t *testing.T, name string, want []madeRow, got []dataset.Request) {
	t.Helper()
	plain := func(raw json.RawMessage) (v any) {
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	var a, b []any
	for _, r := range want {
		a = append(a, []any{plain(r.prompt), r.in, r.outpt})
	}
	for _, r := range got {
		b = append(b, []any{plain(prompt(t, r)), r.InputTokens, r.OutputTokens})
	}
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("%s (-vLLM +ours):\n%s", name, diff)
	}
}

// sameState holds the next draws of vLLM's global generators against the set's.
func sameState(t *testing.T, name string, c madeCase, set *dataset.Set) {
	t.Helper()
	if set.Python == nil {
		t.Errorf("%s: the state of Python's generator is not told", name)
		return
	}
	python := *set.Python
	if len(c.Gamma) > 0 {
		numpy := *set.Numpy
		for i, want := range c.Gamma {
			// 1e-12: the last bits of log are the C library's.
			if got, want := numpy.Gamma(1, .1), float(t, want); !(got >= want*(1-1e-12) && got <= want*(1+1e-12)) {
				t.Errorf("%s: gap %d is %v, want %v", name, i, got, want)
			}
		}
	}
	if got, want := python.Random(), float(t, c.Python); got != want {
		t.Errorf("%s: Python's next number is %v, want %v", name, got, want)
	}
}

func float(t *testing.T, hex string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(hex, 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func caseName(kind string, i int) string { return kind + ", case " + strconv.Itoa(i) }

func TestPrefixRepetitionIsVLLMs(t *testing.T) {
	for i, c := range readMade(t, "made.json").Prefixes {
		set := load(t, c.prefixes(), detailed{toy{added: c.Added}})
		sameRows(t, caseName("prefixes", i), c.Rows, set.Requests)
		sameState(t, caseName("prefixes", i), c, set)
		warned := strings.Contains(strings.Join(set.Warnings, "\n"), "requests are sent, as vLLM does")
		if warned != (c.N%c.Prefixes != 0) {
			t.Errorf("case %d: %d prompts of %d prefixes: warnings %q", i, c.N, c.Prefixes, set.Warnings)
		}
	}
}

func TestBatchesAreVLLMs(t *testing.T) {
	for i, c := range readMade(t, "made.json").Batches {
		set := load(t, c.batches(), detailed{toy{added: c.Added}})
		sameRows(t, caseName("batches", i), c.Rows, set.Requests)
	}
}

func TestRerankIsVLLMs(t *testing.T) {
	for i, c := range readMade(t, "made.json").Rerank {
		set := load(t, c.rerank(), detailed{toy{added: c.Added}})
		sameRows(t, caseName("rerank", i), c.Rows, set.Requests)
	}
}

func TestRandomMediaAreVLLMs(t *testing.T) {
	for i, c := range readMade(t, "made.json").Media {
		s, tok := c.media(), detailed{toy{added: c.Added}}
		pixels, err := dataset.MediaPixels(t.Context(), s, tok)
		if err != nil {
			t.Fatal(err)
		}
		sameRows(t, caseName("media", i), c.Rows, pixels)
		samePixels(t, caseName("media", i), c, pixels)
		set := load(t, s, tok)
		sameRows(t, caseName("media with images", i), c.Rows, set.Requests)
		for k, r := range set.Requests {
			if len(r.Parts) != len(c.Images[k]) {
				t.Fatalf("case %d, request %d: %d parts, want %d", i, k, len(r.Parts), len(c.Images[k]))
			}
			for at, part := range r.Parts {
				isImage(t, part, c.Images[k][at])
			}
		}
	}
}

func samePixels(t *testing.T, name string, c madeCase, got []dataset.Request) {
	t.Helper()
	for k, r := range got {
		var want []string
		for _, image := range c.Images[k] {
			want = append(want, strings.ReplaceAll(string(image), " ", ""))
		}
		var parts []string
		for _, part := range r.Parts {
			parts = append(parts, string(part))
		}
		if !slices.Equal(parts, want) {
			t.Errorf("%s, request %d: images %v, want %v", name, k, parts, want)
		}
	}
}

// isImage wants a part with a JPEG of the size that want begins with.
func isImage(t *testing.T, part, want json.RawMessage) {
	t.Helper()
	var size []any
	var got struct {
		Type     string
		ImageURL struct{ URL string } `json:"image_url"`
	}
	if err := json.Unmarshal(want, &size); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(part, &got); err != nil || got.Type != "image_url" {
		t.Fatalf("part %.80s: %v", part, err)
	}
	data, ok := strings.CutPrefix(got.ImageURL.URL, "data:image/jpeg;base64,")
	if !ok {
		t.Fatalf("address %.40s", got.ImageURL.URL)
	}
	var file []byte
	if err := json.Unmarshal([]byte(strconv.Quote(data)), &file); err != nil {
		t.Fatal(err)
	}
	picture, err := jpeg.DecodeConfig(bytes.NewReader(file))
	if err != nil || float64(picture.Height) != size[0] || float64(picture.Width) != size[1] {
		t.Errorf("a picture of %d x %d, want %v: %v", picture.Height, picture.Width, size, err)
	}
}

func TestTimedTraceIsVLLMsWithoutSalt(t *testing.T) {
	for i, c := range readMade(t, "made.json").Trace {
		set := load(t, c.trace(t), detailed{toy{added: 1}})
		// What the hash ids leave missing is ours: vLLM's prompts are shorter there.
		for k, r := range set.Requests {
			if vllm := c.Rows[k].in; r.InputTokens > vllm {
				set.Requests[k].Tokens, set.Requests[k].InputTokens = r.Tokens[:vllm], vllm
			}
		}
		sameRows(t, caseName("trace", i), c.Rows, set.Requests)
		sameState(t, caseName("trace", i), c, set)
		for k, want := range c.Offsets {
			if got := set.Offsets[k].Seconds(); got != want {
				t.Errorf("case %d, request %d is due at %v s, want %v", i, k, got, want)
			}
		}
	}
}

func TestCustomImagesAreVLLMs(t *testing.T) {
	for i, c := range readMade(t, "made.json").Images {
		s := dataset.Spec{Name: "custom_image", Path: c.file(t), Prompts: c.N, Seed: c.Seed, OutputLen: c.Output,
			DisableShuffle: !c.Shuffle, Chat: true}
		set := load(t, s, detailed{toy{added: 1}})
		sameState(t, caseName("images", i), c, set)
		for k, r := range set.Requests {
			if r.Messages == nil { // as the chat API puts it together
				text, _ := json.Marshal(r.Prompt)
				parts := []string{`{"type":"text","text":` + string(text) + `}`}
				for _, p := range r.Parts {
					parts = append(parts, string(p))
				}
				set.Requests[k].Messages = json.RawMessage(`[{"role":"user","content":[` + strings.Join(parts, ",") + `]}]`)
			}
		}
		// vLLM leaves # in a file's name, where the server would stop reading;
		// there is none in the golden lines.
		sameRows(t, caseName("images", i), c.Rows, set.Requests)
	}
}

// madeSpecs are one small set of each kind, for what all have in common.
func madeSpecs(t *testing.T) map[string]dataset.Spec {
	g := readMade(t, "made.json")
	specs := map[string]dataset.Spec{
		"prefix_repetition": g.Prefixes[0].prefixes(), "random": g.Batches[0].batches(), "random-rerank": g.Rerank[1].rerank(),
		"random-mm": g.Media[1].media(), "timed_trace": g.Trace[0].trace(t),
		"custom_image": {Name: "custom_image", Path: g.Images[0].file(t), Prompts: 4, OutputLen: 9, Chat: true},
	}
	ids := specs["prefix_repetition"]
	ids.TokenIDs = true
	specs["prefix_repetition as ids"] = ids
	return specs
}

// Whatever the number of cores and the tokenizer: the same requests, each emitted
// once and as it is, and warm-ups that are no timed prompt.
func TestMadeSetsAreTheSameOnAnyNumberOfCores(t *testing.T) {
	for name, s := range madeSpecs(t) {
		for kind, tok := range map[string]tokenize.Tokenizer{"vocabulary": detailed{toy{added: 1}}, "remote": spaced{}, "none": nil} {
			s.Warmups = 3
			first := map[int]string{}
			for _, n := range []int{1, 4} {
				before := runtime.GOMAXPROCS(n)
				emitted := make([]atomic.Int64, 64)
				set, err := dataset.Load(t.Context(), s, dataset.Tools{Tokenizer: tok, Emit: func(i int, r *dataset.Request) error {
					if len(prompt(t, *r)) > 2 {
						emitted[i].Add(1)
					}
					return nil
				}})
				runtime.GOMAXPROCS(before)
				if err != nil {
					t.Fatalf("%s, %s: %v", name, kind, err)
				}
				timed := map[string]bool{}
				var all strings.Builder
				for i, r := range set.Requests {
					if emitted[i].Load() != 1 {
						t.Errorf("%s, %s: request %d emitted %d times", name, kind, i, emitted[i].Load())
					}
					timed[string(prompt(t, r))] = true
					all.Write(prompt(t, r))
					for _, p := range r.Parts {
						all.Write(p)
					}
				}
				if len(set.Warmups) != 3 || len(set.Requests) == 0 || set.Generator == "" {
					t.Errorf("%s, %s: %d warm-ups of %d requests by %q", name, kind, len(set.Warmups), len(set.Requests), set.Generator)
				}
				for _, w := range set.Warmups {
					all.Write(prompt(t, w))
					if timed[string(prompt(t, w))] {
						t.Errorf("%s, %s: a warm-up is a timed prompt: %s", name, kind, prompt(t, w))
					}
				}
				first[n] = all.String()
			}
			if first[1] != first[4] {
				t.Errorf("%s, %s: one core makes\n%.300s\nfour make\n%.300s", name, kind, first[1], first[4])
			}
		}
	}
}

func TestWarmupFirstRepeatsTheFirstMadeRequest(t *testing.T) {
	for name, s := range madeSpecs(t) {
		s.Warmups, s.WarmupFirst = 2, true
		set := load(t, s, detailed{toy{}})
		if len(set.Warmups) != 2 || cmp.Diff(set.Warmups[1], set.Requests[0]) != "" {
			t.Errorf("%s: warm-ups %v, want twice %v", name, set.Warmups, set.Requests[0])
		}
	}
}

func TestWordsHaveTheLengthTheServerCounts(t *testing.T) {
	for name, want := range map[string]int{"prefix_repetition": 35, "random": 0, "random-rerank": 0, "random-mm": 0} {
		set := load(t, madeSpecs(t)[name], spaced{})
		for i, r := range set.Requests {
			ids := 0
			for _, text := range append(r.Texts, r.Prompt) {
				n, _ := spaced{}.Encode(t.Context(), text, true)
				if text != "" {
					ids += len(n)
				}
			}
			if name != "random-rerank" && r.InputTokens != ids || want > 0 && ids != want {
				t.Errorf("%s, request %d: %d tokens, counted %d, want %d", name, i, r.InputTokens, ids, want)
			}
		}
	}
}

// A request is the emitter's: what it takes out is not missed in the count.
func TestEmittedWordsAreNotCountedAsMissing(t *testing.T) {
	for name, s := range madeSpecs(t) {
		set, err := dataset.Load(t.Context(), s, dataset.Tools{Tokenizer: spaced{}, Emit: func(_ int, r *dataset.Request) error {
			*r = dataset.Request{}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(set.Warnings, "\n"); strings.Contains(all, "than asked for") {
			t.Errorf("%s: %s", name, all)
		}
	}
}

// Lines out of order, epoch milliseconds: due from the first, in order; a prompt
// beyond its hash ids has its length.
func TestTimedTraceStartsAtItsFirstLine(t *testing.T) {
	c := madeCase{Block: 4, Lines: []string{
		`{"t": 1700000001500, "i": 6, "o": 3, "h": [7]}`,
		`{"t": 1700000000000, "i": 5, "o": 0}`,
		`{"t": "1700000000250", "i": 4.0, "o": 2, "h": null}`,
		`{"t": 1700000000250, "i": 3, "o": 9, "h": [7, 8]}`,
		`{"t": 1, "i": 1, "o": 1}`,
	}}
	s := c.trace(t)
	s.Prompts = 4
	s.Trace = dataset.Trace{BlockSize: 4, Multiplier: .001, Timestamp: "t", InputLength: "i", OutputLength: "o", HashIDs: "h"}
	set := load(t, s, detailed{toy{}})
	if want := []time.Duration{0, 250 * time.Millisecond, 250 * time.Millisecond, 1500 * time.Millisecond}; !slices.Equal(set.Offsets, want) {
		t.Errorf("offsets %v, want %v", set.Offsets, want)
	}
	var got [][2]int
	for _, r := range set.Requests {
		if len(r.Tokens) != r.InputTokens {
			t.Errorf("%d ids, said to be %d", len(r.Tokens), r.InputTokens)
		}
		got = append(got, [2]int{r.InputTokens, r.OutputTokens})
	}
	if want := [][2]int{{5, 1}, {4, 2}, {3, 9}, {6, 3}}; !slices.Equal(got, want) {
		t.Errorf("lengths %v, want %v", got, want)
	}
	warnings := strings.Join(set.Warnings, "\n")
	for _, part := range []string{
		"not in the order of their timestamps", "the first timestamp is 1.7e+09 s", "1 lines ask for no tokens",
		"3 prompts are longer than their hash ids: 11 tokens", "1 prompts are shorter than their hash ids",
	} {
		if !strings.Contains(warnings, part) {
			t.Errorf("no warning %q in:\n%s", part, warnings)
		}
	}
	if again := load(t, s, detailed{toy{}}); cmp.Diff(again.Requests, set.Requests) != "" {
		t.Error("the same trace gave other prompts")
	}
	s.Seed = 1
	other := load(t, s, detailed{toy{}})
	if slices.Equal(other.Requests[0].Tokens, set.Requests[0].Tokens) || !slices.Equal(other.Requests[3].Tokens[:4], set.Requests[3].Tokens[:4]) {
		t.Error("a seed changes what is filled up, and not the blocks of hash ids")
	}
}

func TestTimedTraceNamesWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		`{"input_length": 1, "output_length": 1}`:                                       `no "timestamp"`,
		`{"timestamp": null, "input_length": 1, "output_length": 1}`:                    `timed-trace-label-timestamp`,
		`{"timestamp": 1, "output_length": 1}`:                                          `no "input_length"`,
		`{"timestamp": 1, "input_length": 1}`:                                           `timed-trace-label-output-length`,
		`{"timestamp": -1, "input_length": 1, "output_length": 1}`:                      `timestamp is -1; want a finite number of 0 or more`,
		`{"timestamp": 1e999, "input_length": 1, "output_length": 1}`:                   `timestamp is 1e999`,
		`{"timestamp": "nan", "input_length": 1, "output_length": 1}`:                   `timestamp is "nan"`,
		`{"timestamp": NaN, "input_length": 1, "output_length": 1}`:                     `not a JSON object`,
		`{"timestamp": [1], "input_length": 1, "output_length": 1}`:                     `timestamp is a list`,
		`{"timestamp": true, "input_length": 1, "output_length": 1}`:                    `timestamp is a boolean`,
		`{"timestamp": "soon", "input_length": 1, "output_length": 1}`:                  `timestamp is "soon"`,
		`{"timestamp": 1, "input_length": 0, "output_length": 1}`:                       `input_length is 0; want a whole number from 1`,
		`{"timestamp": 1, "input_length": "9", "output_length": 1}`:                     `input_length is a string`,
		`{"timestamp": 1, "input_length": 1, "output_length": -1}`:                      `output_length is -1; want a whole number from 0`,
		`{"timestamp": 1, "input_length": 1, "output_length": 1.5}`:                     `output_length is 1.5`,
		`{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": 7}`:        `hash_ids is a number; want a list`,
		`{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [1, 2.0]}`: `hash_ids [1] is 2.0; want a whole number`,
		`{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": [null]}`:   `hash_ids [0] is null`,
		`{"timestamp": 9e6, "input_length": 1, "output_length": 1}`:                     `want 30 days at most, or another timed-trace-sec-multiplier`,
		`[1]`:                 `not a JSON object`,
		"{\"timestamp\xff\"}": `not UTF-8`,
	} {
		c := madeCase{Block: 4, Lines: []string{`{"timestamp": 0, "input_length": 1, "output_length": 1}`, "", line}}
		s := c.trace(t)
		_, err := dataset.Load(t.Context(), s, dataset.Tools{})
		if err == nil || !strings.Contains(err.Error(), s.Path+":3: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want line 3 and %q", line, err, want)
		}
	}
}

func TestCustomImagesNamesWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		`{"prompt": "a"}`:                                                      `no "content"; want it, or "prompt" and "image_files"`,
		`{"prompt": 1, "image_files": ["a"]}`:                                  `prompt is a number`,
		`{"prompt": "a", "image_files": []}`:                                   `image_files is empty`,
		`{"prompt": "a", "image_files": "a"}`:                                  `image_files is a string; want a list`,
		`{"prompt": "a", "image_files": ["b", {"bytes": "x"}]}`:                `image_files[1] is an object; want a string`,
		`{"prompt": "a", "image_files": [""]}`:                                 `image_files[0] is empty`,
		`{"content": "a"}`:                                                     `content is a string; want a list`,
		`{"content": []}`:                                                      `content is empty`,
		`{"content": ["a"]}`:                                                   `content[0]: is a string; want an object`,
		`{"content": [{"type": "text"}]}`:                                      `content[0]: no "text"`,
		`{"content": [{"text": "a"}]}`:                                         `type is ""; want "text", "image" or "image_url"`,
		`{"content": [{"type": "video", "video": "a"}]}`:                       `type is "video"`,
		`{"content": [{"type": "image_url", "image_url": {"detail": "low"}}]}`: `image_url has no "url"`,
		`{"content": [{"type": "image_url", "image_url": {"url": 7}}]}`:        `image_url.url is a number`,
		`{"content": [{"type": "text", "text": "a"}], "output_tokens": 0}`:     `output_tokens is 0`,
		`{"content": [{"type": "text", "text": "\ud800"}]}`:                    `half of a surrogate pair`,
	} {
		c := madeCase{Lines: []string{`{"content": [{"type": "text", "text": "a"}]}`, line}}
		s := dataset.Spec{Name: "custom_image", Path: c.file(t), OutputLen: 1, Chat: true}
		_, err := dataset.Load(t.Context(), s, dataset.Tools{})
		if err == nil || !strings.Contains(err.Error(), s.Path+":2: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want line 2 and %q", line, err, want)
		}
	}
}

func TestCustomImagesOnTheClientsSide(t *testing.T) {
	folder := t.TempDir()
	picture := filepath.Join(folder, "a b#1%.png")
	if err := os.WriteFile(picture, []byte("\x89PNG\r\n\x1a\nrest"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(folder, "text.txt")
	if err := os.WriteFile(text, []byte("no picture"), 0o600); err != nil {
		t.Fatal(err)
	}
	quoted := strconv.Quote(picture)
	set := func(clientSide bool, line string) (*dataset.Set, error) {
		c := madeCase{Lines: []string{line}}
		s := dataset.Spec{Name: "custom_image", Path: c.file(t), OutputLen: -1, Chat: true, Media: dataset.Media{ClientSide: clientSide}}
		return dataset.Load(t.Context(), s, dataset.Tools{})
	}
	const asData = `{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgpyZXN0"}}`
	for _, c := range []struct {
		clientSide           bool
		image, want, warning string
	}{
		{true, quoted, asData, ""},
		{true, strconv.Quote("file://" + strings.NewReplacer("%", "%25", " ", "%20").Replace(picture)), asData, ""},
		{true, `"http://h/a.png"`, `{"type":"image_url","image_url":{"url":"http://h/a.png"}}`, "1 images are sent as http addresses"},
		{true, `"data:image/png;base64,AA=="`, `{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}`, ""},
		{false, quoted, `{"type":"image_url","image_url":{"url":"file://` + folder + `/a b%231%25.png"}}`, ""},
		{false, `"/not/here.png"`, `{"type":"image_url","image_url":{"url":"file:///not/here.png"}}`, "1 image files, that of line 1 for one, are not on this machine"},
	} {
		got, err := set(c.clientSide, `{"prompt": "p", "image_files": [`+c.image+`], "output_tokens": 7}`)
		if err != nil {
			t.Error(err)
			continue
		}
		r := got.Requests[0]
		if string(r.Parts[0]) != c.want || r.Prompt != "p" || r.OutputTokens != 7 {
			t.Errorf("%s: %q, %d tokens, part %s; want part %s", c.image, r.Prompt, r.OutputTokens, r.Parts[0], c.want)
		}
		if all := strings.Join(got.Warnings, "\n"); !strings.Contains(all, c.warning) || c.warning == "" && all != "" {
			t.Errorf("%s: warnings %q, want %q", c.image, all, c.warning)
		}
	}
	for image, want := range map[string]string{
		`"/not/here.png"`: ":1: image: stat /not/here.png: no such file", strconv.Quote(folder): "is no regular file",
		strconv.Quote(text): "no picture that is known here; want PNG",
	} {
		_, err := set(true, `{"prompt": "p", "image_files": [`+image+`], "output_tokens": 7}`)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", image, err, want)
		}
	}
	if _, err := set(false, `{"prompt": "p", "image_files": ["a"]}`); err == nil || !strings.Contains(err.Error(), ":1: no output_tokens") {
		t.Errorf("no output_tokens: %v", err)
	}
}

func TestReadersRefuseWhatIsNoFile(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	if err := os.WriteFile(empty, []byte("\ufeff\r\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "folder.jsonl")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"timed_trace", "custom_image"} {
		for path, want := range map[string]string{empty: "no rows", folder: "is a directory", folder + "/x.jsonl": "no such file"} {
			s := madeSpecs(t)[name]
			s.Path = path
			if _, err := dataset.Load(t.Context(), s, dataset.Tools{}); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s of %s: %v, want %q", name, path, err, want)
			}
		}
	}
}

func TestMadeSetsValidate(t *testing.T) {
	with := func(name string, change func(*dataset.Spec)) dataset.Spec {
		s := madeSpecs(t)[name]
		change(&s)
		return s
	}
	for _, c := range []struct {
		spec dataset.Spec
		want string
	}{
		{with("prefix_repetition", func(s *dataset.Spec) { s.Prompts = 2 }), "prefix-repetition-num-prefixes: 3 prefixes for 2 prompts"},
		{with("prefix_repetition", func(s *dataset.Spec) { s.Prefixes = 0 }), "prefix-repetition-num-prefixes: 0"},
		{with("prefix_repetition", func(s *dataset.Spec) { s.PrefixLen, s.SuffixLen = 0, 0 }), "prefix-repetition-suffix-len"},
		{with("prefix_repetition", func(s *dataset.Spec) { s.PrefixLen = 1 << 23; s.Prompts = 1 << 20 }), "num-prompts"},
		{with("prefix_repetition", func(s *dataset.Spec) { s.OutputLen = 0 }), "prefix-repetition-output-len"},
		{with("prefix_repetition", func(s *dataset.Spec) { s.Path = "x" }), "dataset-path"},
		{with("random", func(s *dataset.Spec) { s.TokenIDs = true }), "random-batch-size"},
		{with("random", func(s *dataset.Spec) { s.BatchSize = -1 }), "random-batch-size"},
		{with("random", func(s *dataset.Spec) { s.BatchSize, s.Warmups = 1<<20, 1<<20 }), "num-warmups"},
		{with("random-rerank", func(s *dataset.Spec) { s.TokenIDs = true }), "prompt-form"},
		{with("random-rerank", func(s *dataset.Spec) { s.InputLen = 0 }), "random-input-len"},
		{with("random-rerank", func(s *dataset.Spec) { s.NoReranker, s.BatchSize = true, 1 }), "random-batch-size: 1 is the query alone"},
		{with("random-rerank", func(s *dataset.Spec) { s.NoReranker, s.Prompts = true, 1 }), "num-prompts"},
		{with("random-rerank", func(s *dataset.Spec) { s.Prompts, s.InputLen = 1<<20, 1<<20 }), "num-prompts"},
		{with("random-mm", func(s *dataset.Spec) { s.BatchSize = 2 }), "random-batch-size"},
		{with("random-mm", func(s *dataset.Spec) { s.TokenIDs = true }), "prompt-form"},
		{with("random-mm", func(s *dataset.Spec) { s.Media.ItemsRatio = 1.5 }), "random-mm-num-mm-items-range-ratio"},
		{with("random-mm", func(s *dataset.Spec) { s.Media.Items = -1 }), "random-mm-base-items-per-request"},
		{with("random-mm", func(s *dataset.Spec) { s.Media.Limit = nil }), `random-mm-limit-mm-per-prompt: no "image"`},
		{with("random-mm", func(s *dataset.Spec) { s.Media.Limit = map[string]int{"image": -1} }), "random-mm-limit-mm-per-prompt: image"},
		{with("random-mm", func(s *dataset.Spec) { s.Media.Limit["image"], s.Media.ItemsRatio = 2, 0 }), "random-mm-limit-mm-per-prompt: 2 items at most, of 3 at least"},
		{with("random-mm", func(s *dataset.Spec) { s.Media.Buckets = nil }), "random-mm-bucket-config: no size"},
		{with("random-mm", func(s *dataset.Spec) { s.Media.Buckets[0].Probability = -1 }), "random-mm-bucket-config: probability -1"},
		{with("random-mm", func(s *dataset.Spec) { s.Media.Buckets[0].Width = 1 << 16 }), "random-mm-bucket-config: (1, 65536, 1)"},
		{with("random-mm", func(s *dataset.Spec) { s.Media.Buckets[0].Frames = 2; s.Media.Limit["video"] = 1 }), "random-mm-bucket-config: videos are not made here"},
		{with("timed_trace", func(s *dataset.Spec) { s.Prompts = 0 }), "num-prompts"},
		{with("timed_trace", func(s *dataset.Spec) { s.Path = "" }), "dataset-path: missing"},
		{with("timed_trace", func(s *dataset.Spec) { s.Trace.BlockSize = 0 }), "timed-trace-chunk-hash-size"},
		{with("timed_trace", func(s *dataset.Spec) { s.Trace.Multiplier = 0 }), "timed-trace-sec-multiplier"},
		{with("timed_trace", func(s *dataset.Spec) { s.Trace.HashIDs = "" }), "timed-trace-label-hash-ids"},
		{with("custom_image", func(s *dataset.Spec) { s.Path = "x.json" }), "dataset-path"},
	} {
		err := c.spec.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !strings.Contains(err.Error(), "; want ") {
			t.Errorf("%v, want %q and what would be right", err, c.want)
		}
	}
	for name, s := range madeSpecs(t) {
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRerankRefusesEmptyTexts(t *testing.T) {
	s := dataset.Spec{Name: "random-rerank", Prompts: 3, InputLen: 3, BatchSize: 1}
	if _, err := dataset.Load(t.Context(), s, dataset.Tools{}); err == nil || !strings.Contains(err.Error(), "random-input-len: 3 tokens") {
		t.Errorf("%v", err)
	}
}
