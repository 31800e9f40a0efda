//go:build hf && cgo

package tokenize_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/servebench/servebench/tokenize"
)

const small = "testdata/small"

// answers is what testdata/oracle.py prints for one folder.
type answers struct {
	Folder       string
	Transformers string
	Class        string
	VocabSize    int   `json:"vocab_size"`
	Special      []int `json:"all_special_ids"`
	Added        int   `json:"num_special_tokens_to_add"`
	Others       []int
	Missing      []int
	Control      []int
	Encode       []struct {
		Text           string
		Plain, Special []int
	}
	Decode []struct {
		IDs  []int
		Text string
	}
}

func readAnswers(t *testing.T, path string) []answers {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []answers
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return list
}

func open(t testing.TB, path string) tokenize.Tokenizer {
	t.Helper()
	tokenizer, err := tokenize.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return tokenizer
}

// sameAsTransformers holds a folder against the answers of transformers.
func sameAsTransformers(t *testing.T, folder string, want answers) {
	t.Helper()
	info, err := tokenize.Describe(folder)
	if err != nil {
		t.Fatal(err)
	}
	if info.Class != want.Class || info.Note != "" {
		t.Errorf("class %s, note %q, want %s and none", info.Class, info.Note, want.Class)
	}
	tokenizer := open(t, folder)
	vocabulary, ok := tokenizer.Vocabulary()
	w := tokenize.Vocabulary{Size: want.VocabSize, Special: want.Special, Added: want.Added,
		Others: want.Others, Missing: want.Missing, Control: want.Control}
	if diff := cmp.Diff(w, vocabulary, cmpopts.EquateEmpty()); !ok || diff != "" {
		t.Errorf("vocabulary (-transformers +ours):\n%s", diff)
	}
	for _, row := range want.Encode {
		for special, ids := range map[bool][]int{false: row.Plain, true: row.Special} {
			got, err := tokenizer.Encode(t.Context(), row.Text, special)
			if err != nil || !slices.Equal(got, ids) {
				t.Errorf("encode %q, special %t: %v (%v), want %v", row.Text, special, got, err, ids)
			}
		}
	}
	for _, row := range want.Decode {
		if got, err := tokenizer.Decode(t.Context(), row.IDs); err != nil || got != row.Text {
			t.Errorf("decode %v: %q (%v), want %q", row.IDs, got, err, row.Text)
		}
	}
	if len(want.Encode) < 40 || len(want.Decode) < 20 {
		t.Errorf("%d encodings and %d decodings: too few to say anything", len(want.Encode), len(want.Decode))
	}
}

func TestSmallTokenizerIsTransformers(t *testing.T) {
	for _, want := range readAnswers(t, "testdata/small.json") {
		sameAsTransformers(t, filepath.Join("testdata", want.Folder), want)
	}
}

// One file under the classes that build a pipeline of their own.
func TestClassesAreTransformers(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(small, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range readAnswers(t, "testdata/classes.answers.json") {
		t.Run(want.Folder, func(t *testing.T) {
			config, err := os.ReadFile(filepath.Join("testdata", "configs", want.Folder+".json"))
			if err != nil {
				t.Fatal(err)
			}
			folder := filepath.Join(t.TempDir(), want.Folder)
			write(t, filepath.Join(folder, "tokenizer.json"), document)
			write(t, filepath.Join(folder, "tokenizer_config.json"), config)
			sameAsTransformers(t, folder, want)
		})
	}
}

// The tokenizers of real models are too large to check in.
func TestRealTokenizersAreTransformers(t *testing.T) {
	root := os.Getenv("SERVEBENCH_TOKENIZERS")
	if root == "" {
		t.Skip("needs SERVEBENCH_TOKENIZERS=<folder>: in it, for each model, NAME/tokenizer.json with its config files " +
			"and NAME.json, the output of testdata/oracle.py for NAME")
	}
	files, err := filepath.Glob(filepath.Join(root, "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("SERVEBENCH_TOKENIZERS=%s has no NAME.json of testdata/oracle.py (%v)", root, err)
	}
	for _, file := range files {
		for _, want := range readAnswers(t, file) {
			t.Run(want.Folder, func(t *testing.T) { sameAsTransformers(t, filepath.Join(root, want.Folder), want) })
		}
	}
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedFilesAreErrors(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join(small, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	const model = `{"version":"1.0","added_tokens":[],"model":`
	rows := map[string]string{
		"empty":                    "",
		"null":                     "null",
		"list":                     "[]",
		"no model":                 `{"version":"1.0"}`,
		"model is a list":          `{"model":[]}`,
		"model is null":            `{"model":null}`,
		"no vocabulary":            model + `{"type":"BPE"}}`,
		"vocabulary is a string":   model + `{"type":"BPE","vocab":"x","merges":[]}}`,
		"ids are strings":          model + `{"type":"BPE","vocab":{"a":"b"},"merges":[]}}`,
		"negative ids":             model + `{"type":"BPE","vocab":{"a":-1},"merges":[]}}`,
		"huge ids":                 model + `{"type":"BPE","vocab":{"a":99999999999},"merges":[]}}`,
		"merge of unknown tokens":  model + `{"type":"BPE","vocab":{"a":0},"merges":["a b"]}}`,
		"merges are numbers":       model + `{"type":"BPE","vocab":{"a":0},"merges":[1]}}`,
		"unknown model":            model + `{"type":"XYZ\u0000","vocab":{"a":0},"merges":[]}}`,
		"unigram rows":             model + `{"type":"Unigram","vocab":[["a"]]}}`,
		"unigram without tokens":   model + `{"type":"Unigram","unk_id":0,"vocab":[]}}`,
		"unigram unknown beyond":   model + `{"type":"Unigram","unk_id":7,"vocab":[["a",0]]}}`,
		"added tokens are numbers": `{"added_tokens":[1],"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`,
		"added without content":    `{"added_tokens":[{"id":1}],"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`,
		"pre-tokenizer unknown":    `{"pre_tokenizer":{"type":"\u0000"},"added_tokens":[],"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`,
		"regex broken":             `{"pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated","invert":false},"added_tokens":[],"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`,
		"charsmap broken":          `{"normalizer":{"type":"Precompiled","precompiled_charsmap":"AAAA"},"added_tokens":[],"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`,
		"charsmap short":           `{"normalizer":{"type":"Precompiled","precompiled_charsmap":"/////w=="},"added_tokens":[],"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`,
		"not UTF-8":                model + "{\"type\":\"BPE\",\"vocab\":{\"\xff\":0},\"merges\":[]}}",
		"deep":                     `{"normalizer":` + strings.Repeat(`{"type":"Sequence","normalizers":[`, 3000) + strings.Repeat("]}", 3000) + `,"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`,
		"deeper":                   strings.Repeat("[", 1<<20),
		"trailing":                 string(whole) + "x",
	}
	for _, part := range []int{1, 10, 100, len(whole) / 2, len(whole) - 2, len(whole) - 1} {
		rows[fmt.Sprintf("cut at %d", part)] = string(whole[:part])
	}
	for name, document := range rows {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tokenizer.json")
			write(t, path, []byte(document))
			tokenizer, err := tokenize.Open(path)
			if err == nil {
				ids, err := tokenizer.Encode(t.Context(), "abc", true)
				t.Fatalf("no error; encode: %v, %v", ids, err)
			}
			if !strings.Contains(err.Error(), path) {
				t.Errorf("error does not name the file: %v", err)
			}
		})
	}
}

func TestDamagedConfigIsAnError(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(small, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range []string{
		"", "[]", "{", `{"tokenizer_class":1}`, `{"added_tokens_decoder":[]}`, `{"added_tokens_decoder":{"x":{"content":"y"}}}`,
		`{"bos_token":{}}`, `{"extra_special_tokens":{"a":1}}`, `{"additional_special_tokens":"x"}`, `{"clean_up_tokenization_spaces":"yes"}`,
	} {
		folder := t.TempDir()
		write(t, filepath.Join(folder, "tokenizer.json"), document)
		write(t, filepath.Join(folder, "tokenizer_config.json"), []byte(config))
		if _, err := tokenize.Open(folder); err == nil || !strings.Contains(err.Error(), "tokenizer_config.json") {
			t.Errorf("config %s: error %v, want one that names tokenizer_config.json", config, err)
		}
	}
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	for _, path := range []string{"", "testdata/none", t.TempDir(), os.DevNull} {
		if _, err := tokenize.Open(path); err == nil {
			t.Errorf("open %q: no error", path)
		}
	}
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "tokenizer.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := tokenize.Open(folder); err == nil {
		t.Error("open a folder called tokenizer.json: no error")
	}
	huge := filepath.Join(t.TempDir(), "tokenizer.json")
	write(t, huge, nil)
	if err := os.Truncate(huge, 513<<20); err != nil { // a hole: takes no space
		t.Fatal(err)
	}
	if _, err := tokenize.Open(huge); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("open 513 MB: %v", err)
	}
}

func TestNULAndInvalidUTF8(t *testing.T) {
	tokenizer := open(t, small)
	zero, err := tokenizer.Encode(t.Context(), "\x00", false)
	if err != nil || len(zero) != 1 {
		t.Fatalf("encode NUL: %v, %v", zero, err)
	}
	if text, err := tokenizer.Decode(t.Context(), []int{zero[0], zero[0]}); err != nil || text != "\x00\x00" {
		t.Errorf("decode %v twice: %q, %v", zero, text, err)
	}
	// The pair that stands for NUL on the way to the library must not become one.
	for _, text := range []string{"\xC0\x80", "a\xC0\x80\x00b", "\xff", "é\xc3"} {
		got, err := tokenizer.Encode(t.Context(), text, false)
		want, _ := tokenizer.Encode(t.Context(), string([]rune(text)), false)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("encode %q: %v (%v), want %v", text, got, err, want)
		}
	}
}

func TestIdsOutsideTheVocabulary(t *testing.T) {
	tokenizer := open(t, small)
	if text, err := tokenizer.Decode(t.Context(), []int{1 << 20, 1<<32 - 1}); err != nil || text != "" {
		t.Errorf("unknown ids: %q, %v, want nothing", text, err)
	}
	for _, id := range []int{-1, 1 << 32} {
		if _, err := tokenizer.Decode(t.Context(), []int{id}); err == nil {
			t.Errorf("id %d: no error", id)
		}
	}
}

// A tokenizer without an unknown token drops or refuses what it does not know; a
// word-level one refuses, which is an error here and not an empty list.
func TestEncodeReportsTheLibrarysError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	write(t, path, []byte(`{"version":"1.0","added_tokens":[],"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"[UNK]"}}`))
	tokenizer := open(t, path)
	if ids, err := tokenizer.Encode(t.Context(), "unknown", false); err == nil {
		t.Errorf("ids %v, want an error", ids)
	}
}

func TestConcurrentUse(t *testing.T) {
	tokenizer := open(t, small)
	want, err := tokenizer.Encode(t.Context(), "Größe, Höhe, Maß", true)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 200 {
				ids, err := tokenizer.Encode(t.Context(), "Größe, Höhe, Maß", true)
				if err != nil || !slices.Equal(ids, want) {
					t.Errorf("ids %v (%v), want %v", ids, err, want)
					return
				}
				if _, err := tokenizer.Decode(t.Context(), ids); err != nil {
					t.Error(err)
				}
				vocabulary, _ := tokenizer.Vocabulary()
				vocabulary.Special[0] = -1 // a copy
			}
		})
	}
	group.Wait()
}

// A cleanup that ran during or before a call would crash here.
func TestUnreachableTokenizersAreReleased(t *testing.T) {
	for range 20 {
		ids, err := open(t, small).Encode(t.Context(), "freed", false)
		if err != nil || len(ids) == 0 {
			t.Fatal(ids, err)
		}
		runtime.GC()
	}
}

func FuzzRoundTrip(f *testing.F) {
	for _, seed := range []string{"", " ", "\x00", "\xC0\x80", "Größe", "[BOS]x[TOOL] y", "e\u0301", "\xff\xfe", "🙂\u200d", strings.Repeat("a", 1000)} {
		f.Add(seed)
	}
	tokenizer := open(f, small)
	f.Fuzz(func(t *testing.T, text string) {
		for _, special := range []bool{false, true} {
			ids, err := tokenizer.Encode(t.Context(), text, special)
			if err != nil {
				t.Fatalf("encode %q: %v", text, err)
			}
			decoded, err := tokenizer.Decode(t.Context(), ids)
			if err != nil {
				t.Fatalf("decode %v: %v", ids, err)
			}
			// Byte-level: what was decoded encodes to a text that decodes alike.
			again, err := tokenizer.Encode(t.Context(), decoded, false)
			if err != nil {
				t.Fatal(err)
			}
			if twice, err := tokenizer.Decode(t.Context(), again); err != nil || twice != decoded {
				t.Fatalf("%q decodes to %q, then to %q (%v)", text, decoded, twice, err)
			}
		}
	})
}

func FuzzOpen(f *testing.F) {
	whole, err := os.ReadFile(filepath.Join(small, "tokenizer.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add([]byte(`{"model":{"type":"Unigram","vocab":[["a",0]],"unk_id":0}}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		path := filepath.Join(t.TempDir(), "tokenizer.json")
		write(t, path, document)
		if tokenizer, err := tokenize.Open(path); err == nil {
			_, _ = tokenizer.Encode(t.Context(), "a b\x00é", true) // may fail, must return
			_, _ = tokenizer.Decode(t.Context(), []int{0, 1, 2})
		}
	})
}

func TestErrNotBuiltIsNotReturnedHere(t *testing.T) {
	if _, err := tokenize.Open("testdata/none"); errors.Is(err, tokenize.ErrNotBuilt) {
		t.Error(err)
	}
}

func BenchmarkOpen(b *testing.B) {
	path := benchmarkFolder(b)
	for b.Loop() {
		open(b, path)
	}
}

func BenchmarkEncode(b *testing.B) {
	tokenizer := open(b, benchmarkFolder(b))
	source, err := os.ReadFile("hf_test.go")
	if err != nil {
		b.Fatal(err)
	}
	text, tokens := string(source), 0
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		ids, err := tokenizer.Encode(b.Context(), text, false)
		if err != nil {
			b.Fatal(err)
		}
		tokens += len(ids)
	}
	b.ReportMetric(float64(tokens)/1e6/b.Elapsed().Seconds(), "Mtok/s")
}

func BenchmarkDecode(b *testing.B) {
	tokenizer := open(b, benchmarkFolder(b))
	ids := make([]int, 1024)
	for i := range ids {
		ids[i] = 300 + i%200
	}
	for b.Loop() {
		if _, err := tokenizer.Decode(b.Context(), ids); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*len(ids))/1e6/b.Elapsed().Seconds(), "Mtok/s")
}

// benchmarkFolder is SERVEBENCH_TOKENIZER, or the small one of the tests.
func benchmarkFolder(b *testing.B) string {
	if folder := os.Getenv("SERVEBENCH_TOKENIZER"); folder != "" {
		return folder
	}
	b.Log("the small tokenizer; SERVEBENCH_TOKENIZER=<folder> names a real one")
	return small
}
