//go:build hf && cgo

package tokenize

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A change to the small tokenizer's file: key of the document, or of its model
// behind a dot, and JSON.
type change map[string]string

func split(pattern, behavior string, invert bool) string {
	regex, _ := json.Marshal(pattern)
	return fmt.Sprintf(`{"type":"Split","pattern":{"Regex":%s},"behavior":%q,"invert":%t}`, regex, behavior, invert)
}

const (
	noRegex = `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":false}`
	marking = `{"type":"Replace","pattern":{"String":" "},"content":"▁"}`
	gemmas  = `{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"}]}`
)

func inSequence(stages ...string) string {
	return `{"type":"Sequence","pretokenizers":[` + strings.Join(stages, ",") + `]}`
}

func added(content, flags string) string {
	token := `{"id":0,"content":%q,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false}`
	for _, flag := range strings.Fields(flags) {
		token = strings.Replace(token, `"`+flag+`":false`, `"`+flag+`":true`, 1)
	}
	return fmt.Sprintf("["+token+"]", content)
}

// variants are pipelines over the small vocabulary that are cut into pieces.
func variants() map[string]change {
	all := map[string]change{
		"as it is":            {},
		"no normalizer":       {"normalizer": "null"},
		"ignore_merges":       {"model.ignore_merges": "true"},
		"digits":              {"pre_tokenizer": inSequence(`{"type":"Digits","individual_digits":true}`, strings.Replace(noRegex, "false}", "true}", 1))},
		"token with stripes":  {"added_tokens": added("<mid>", "lstrip rstrip normalized")},
		"token of letters":    {"added_tokens": added("the", "single_word")},
		"strips behind a z":   {"added_tokens": added("oz", "rstrip")},
		"strips before an a":  {"added_tokens": added("ab", "lstrip normalized")},
		"begins with a space": {"added_tokens": added(" the", "normalized")},
		"a token of spaces":   {"added_tokens": added("  ", "")},
		"merges over all": {"normalizer": marking, "model.byte_fallback": "true",
			"decoder":       gemmas,
			"pre_tokenizer": `{"type":"Split","pattern":{"String":" "},"behavior":"MergedWithPrevious","invert":false}`},
	}
	names := slices.Sorted(maps.Keys(patterns))
	for i, pattern := range names {
		if patterns[pattern] {
			all[fmt.Sprint("pattern ", i)] = change{"normalizer": "null", "pre_tokenizer": inSequence(split(pattern, "Isolated", false), noRegex)}
			all[fmt.Sprint("composed pattern ", i)] = change{"pre_tokenizer": inSequence(split(pattern, "Removed", true), noRegex)}
		}
	}
	all["DeepSeek"] = change{"normalizer": `{"type":"Sequence","normalizers":[]}`,
		"pre_tokenizer": inSequence(split(`\p{N}{1,3}`, "Isolated", false), split(`[一-龥぀-ゟ゠-ヿ]+`, "Isolated", false),
			split(names[slices.IndexFunc(names, func(s string) bool { return strings.Contains(s, "[A-Za-z]") })], "Isolated", false), noRegex)}
	return all
}

// openChanged opens the small tokenizer with a change.
func openChanged(t testing.TB, c change) *local {
	t.Helper()
	data, err := os.ReadFile("testdata/small/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	src, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range c {
		if name, ok := strings.CutPrefix(key, "model."); ok {
			src.model.set(name, json.RawMessage(value))
			continue
		}
		src.document.set(key, json.RawMessage(value))
	}
	if c["normalizer"] == marking {
		markVocabulary(t, &src)
	}
	src.document.set("model", src.model.bytes())
	path := filepath.Join(t.TempDir(), fileName)
	if err := os.WriteFile(path, src.document.bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	tok, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return tok.(*local)
}

// markVocabulary turns the byte-level vocabulary into one with "▁" for spaces,
// of which "q" is only found before one and so is no place to cut.
func markVocabulary(t testing.TB, src *source) {
	t.Helper()
	for _, key := range []string{"vocab", "merges"} {
		src.model.set(key, json.RawMessage(strings.ReplaceAll(string(src.model.get(key)), "Ġ", spaceMark)))
	}
	vocab := strings.TrimSuffix(strings.TrimSpace(string(src.model.get("vocab"))), "}")
	src.model.set("vocab", json.RawMessage(vocab+`,"q▁":603,"<0xE4>":604,"<0xB8>":605,"<0xad>":606,"<0x00>":607,"<0xFF>":608,"<0xZZ>":609}`))
	merges := strings.TrimSuffix(strings.TrimSpace(string(src.model.get("merges"))), "]")
	merge := `,"q ▁"]`
	if strings.Contains(merges, "[[") || strings.Contains(merges[1:], "[") {
		merge = `,["q","▁"]]`
	}
	src.model.set("merges", json.RawMessage(merges+merge))
}

// sameAsPlain holds pieces and tables against the library alone.
func sameAsPlain(t *testing.T, tok *local, text string) {
	t.Helper()
	want, err := tok.encode(text, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, pass := range []string{"first", "second"} {
		if got, err := tok.Encode(t.Context(), text, false); err != nil || !slices.Equal(got, want) {
			t.Fatalf("encode %q, %s pass: %v (%v), want %v", text, pass, got, err, want)
		}
	}
	sameDecoding(t, tok, want)
}

func sameDecoding(t *testing.T, tok *local, ids []int) {
	t.Helper()
	alone := local{rust: tok.rust}
	want, err := alone.decode(ids)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tok.decode(ids); err != nil || got != want {
		t.Fatalf("decode %v: %q (%v), want %q", ids, got, err, want)
	}
}

// fragments are what stands around cuts in made-up texts.
var fragments = []string{
	" ", " ", " ", " ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\x00", "\xff", "\xc3", "\xe4\xb8", "\xc0\x80",
	"a", "b", "z", "q", "the", "The", "THE", "ing", "token", "hello", "K", "\u212a", ";", "\u037e", "1", "22", "333", "4444", "٣", "²",
	"'", "'s", "'re", "'LL", "don't", "'\u017f", ".", ",", "...", "(", ")", "!\n", "/", "//", "_", "[", "]", "<", ">", "~", "\x7f",
	"\u0301", "\u0308", "e\u0301", "\u0327", "é", "ß", "Ǆ", "ǅ", "ʰ", "Größe", "中", "文字", "かな", "が", "か\u3099", "한", "\u1112\u1161", "🙂", "👩\u200d👩", "\ufe0f",
	"▁", "Ġ", "Ċ", "[TOOL]", "[BOS]", "[PAD]", "<mid>", "oz", "ab", " the", "<0x41>", "\ufffd",
}

func madeUp(rng *rand.Rand) string {
	var text strings.Builder
	for range rng.IntN(24) {
		if rng.IntN(12) == 0 {
			text.WriteRune(rune(rng.IntN(0x11000)))
		}
		text.WriteString(fragments[rng.IntN(len(fragments))])
	}
	return text.String()
}

func TestPiecesAreTheWhole(t *testing.T) {
	source, err := os.ReadFile("memo_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range variants() {
		t.Run(name, func(t *testing.T) {
			tok := openChanged(t, c)
			if tok.memo == nil || tok.table == nil {
				t.Fatal("the library does it all")
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for range 300 {
				sameAsPlain(t, tok, madeUp(rng))
			}
			for _, a := range fragments {
				var pairs strings.Builder // around a cut, and beside one
				for _, b := range fragments {
					pairs.WriteString(a + " " + b + "\nx" + a + b + " x\n")
				}
				sameAsPlain(t, tok, pairs.String())
			}
			sameAsPlain(t, tok, string(source))
			sameRuns(t, tok, rng, 60)
		})
	}
}

// sameRuns compares what a random prompt is: a run of ids, decoded and encoded;
// and ids in disorder.
func sameRuns(t *testing.T, tok *local, rng *rand.Rand, n int) {
	t.Helper()
	size := tok.vocab.Size
	for range n {
		run := make([]int, rng.IntN(300))
		start := rng.IntN(size)
		for i := range run {
			run[i] = (start + i) % (size + 5)
		}
		sameDecoding(t, tok, run)
		text, err := tok.decode(run)
		if err != nil {
			t.Fatal(err)
		}
		sameAsPlain(t, tok, text)
		for i := range run {
			run[i] = rng.IntN(size + 20)
		}
		sameDecoding(t, tok, run)
	}
}

// The tokenizers of real models, each id alone, and texts and runs of all parts of
// the vocabulary.
func TestPiecesOfRealTokenizersAreTheWhole(t *testing.T) {
	root := os.Getenv("SERVEBENCH_TOKENIZERS")
	if root == "" {
		t.Skip("needs SERVEBENCH_TOKENIZERS=<folder with NAME/tokenizer.json>")
	}
	files, err := filepath.Glob(filepath.Join(root, "*", fileName))
	if err != nil || len(files) == 0 {
		t.Fatalf("SERVEBENCH_TOKENIZERS=%s has no NAME/%s (%v)", root, fileName, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			opened, err := Open(filepath.Dir(file))
			if err != nil {
				t.Fatal(err)
			}
			tok := opened.(*local)
			t.Logf("pieces: %t, decoder's table: %t", tok.memo != nil, tok.table != nil)
			for id := range tok.vocab.Size + 2000 {
				sameDecoding(t, tok, []int{id})
			}
			rng := rand.New(rand.NewPCG(3, 4))
			for range 3000 {
				sameAsPlain(t, tok, madeUp(rng))
			}
			sameRuns(t, tok, rng, 1000)
			for start := 0; start < tok.vocab.Size; start += 1000 {
				run := make([]int, 1024)
				for i := range run {
					run[i] = start + i
				}
				text, err := tok.decode(run)
				if err != nil {
					t.Fatal(err)
				}
				sameAsPlain(t, tok, text)
			}
			var text strings.Builder
			for range 20000 {
				text.WriteString(fragments[rng.IntN(len(fragments))])
			}
			sameAsPlain(t, tok, text.String())
		})
	}
}

// What may look over a cut is encoded whole.
func TestUnknownPipelinesAreEncodedWhole(t *testing.T) {
	gpt2 := `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	byteLevel := func(fields string) string { return `{"type":"ByteLevel","trim_offsets":true,` + fields + `}` }
	for name, c := range map[string]change{
		"no pre-tokenizer":            {"pre_tokenizer": "null"},
		"prefix space":                {"pre_tokenizer": byteLevel(`"add_prefix_space":true,"use_regex":true`)},
		"nothing splits":              {"pre_tokenizer": noRegex},
		"split behind the bytes":      {"pre_tokenizer": inSequence(noRegex, split(gpt2, "Isolated", false))},
		"only digits":                 {"pre_tokenizer": inSequence(split(`\p{N}{1,3}`, "Isolated", false), noRegex)},
		"pattern of words":            {"pre_tokenizer": inSequence(split(`[a-z]+ [a-z]+|\s+`, "Isolated", false), noRegex)},
		"merged with the next":        {"pre_tokenizer": inSequence(split(gpt2, "MergedWithNext", false), noRegex)},
		"matches removed":             {"pre_tokenizer": inSequence(split(gpt2, "Removed", false), noRegex)},
		"blanks":                      {"pre_tokenizer": `{"type":"Whitespace"}`},
		"lower case":                  {"normalizer": `{"type":"Lowercase"}`},
		"strips":                      {"normalizer": `{"type":"Sequence","normalizers":[{"type":"Strip","strip_left":true,"strip_right":true}]}`},
		"prepends":                    {"normalizer": `{"type":"Prepend","prepend":"▁"}`},
		"dropout":                     {"model.dropout": "0.5"},
		"marks, words looked up":      {"normalizer": marking, "pre_tokenizer": "null", "model.ignore_merges": "true"},
		"marks the inside of words":   {"normalizer": marking, "pre_tokenizer": "null", "model.continuing_subword_prefix": `"##"`},
		"another model":               {"model": ""},
		"adds pairs":                  {"post_processor": `{"type":"RobertaProcessing","sep":["[EOS]",2],"cls":["[BOS]",1],"trim_offsets":true,"add_prefix_space":false}`},
		"token of two words":          {"added_tokens": added("a b", "")},
		"token of two words, folded":  {"added_tokens": added("\u212a b", "normalized")},
		"token ends with a space":     {"added_tokens": added("a ", "")},
		"marked token of two words":   {"added_tokens": added("a▁b", "normalized")},
		"whole word behind a space":   {"added_tokens": added(" a", "single_word")},
		"strips behind a Kelvin sign": {"added_tokens": added("\u212a", "rstrip normalized")},
	} {
		t.Run(name, func(t *testing.T) {
			r := resolved{model: object{{"type", json.RawMessage(`"BPE"`)}, {"dropout", json.RawMessage("null")}}}
			r.rewritten = object{
				{"normalizer", json.RawMessage(`{"type":"NFC"}`)},
				{"pre_tokenizer", json.RawMessage(byteLevel(`"add_prefix_space":false,"use_regex":true`))},
			}
			if a := anchorsOf(r); a.none() {
				t.Fatal("unchanged, it is not cut either")
			}
			for key, value := range c {
				switch {
				case key == "added_tokens":
					if err := json.Unmarshal([]byte(value), &r.added); err != nil {
						t.Fatal(err)
					}
				case key == "model":
					r.model.set("type", json.RawMessage(`"Unigram"`))
				case strings.HasPrefix(key, "model."):
					r.model.set(strings.TrimPrefix(key, "model."), json.RawMessage(value))
				default:
					r.rewritten.set(key, json.RawMessage(value))
				}
			}
			if a := anchorsOf(r); !a.none() {
				t.Error("it is cut")
			}
		})
	}
}

// A token that swallows blanks behind it takes its last byte from the anchors, and
// a merge over a space the byte before it.
func TestAnchorsLeaveOutWhatReachesOver(t *testing.T) {
	variants := variants()
	for name, want := range map[string]string{"strips behind a z": "z", "token with stripes": ">", "merges over all": "q]"} {
		a := openChanged(t, variants[name]).memo.anchors
		for c := '!'; c <= '~'; c++ {
			if a[c] == strings.ContainsRune(want, c) {
				t.Errorf("%s: anchor behind %c is %t", name, c, a[c])
			}
		}
	}
}

// spelled stands for the library: an id for each byte, and a list of the calls.
func spelled(calls *[]string) func(string) ([]int, error) {
	return func(text string) ([]int, error) {
		*calls = append(*calls, text)
		if strings.Contains(text, "!") {
			return nil, errors.New("refused")
		}
		ids := []int{}
		for _, c := range []byte(text) {
			ids = append(ids, int(c))
		}
		return ids, nil
	}
}

func letters() (a anchors) {
	for c := 'a'; c <= 'z'; c++ {
		a[c] = true
	}
	return a
}

func TestMemoAsksOnceForAPiece(t *testing.T) {
	var calls []string
	m := newMemo(letters(), spelled(&calls))
	long := strings.Repeat("中", maxPiece)
	for _, step := range []struct {
		why, text string
		calls     []string
	}{
		{"nothing is asked for an empty text", "", nil},
		{"pieces begin at spaces behind letters", "ab cd  ef. g", []string{"ab", " cd", "  ef. g"}},
		{"known pieces are not asked for", "ab cd cd", nil},
		{"the first piece is not the one with a space", "cd ab", []string{"cd", " ab"}},
		{"long pieces are asked for each time", "ab " + long + "x cd", []string{" " + long + "x"}},
		{"long pieces are asked for each time", "ab " + long + "x cd", []string{" " + long + "x"}},
	} {
		calls = nil
		ids, err := m.encode(step.text)
		if err != nil || !slices.Equal(calls, step.calls) {
			t.Errorf("%s: asked for %.40q (%v), want %.40q", step.why, calls, err, step.calls)
		}
		if want, _ := spelled(&calls)(step.text); !slices.Equal(ids, want) {
			t.Errorf("%s: %v, want %v", step.why, ids, want)
		}
	}
	m.full.Store(true)
	calls = nil
	ids, err := m.encode("new words ab cd more and more ab new")
	if want := []string{"new words", " more and more", " new"}; err != nil || !slices.Equal(calls, want) {
		t.Errorf("full: asked for %q (%v), want what it does not know in one piece each: %q", calls, err, want)
	}
	if want, _ := spelled(&calls)("new words ab cd more and more ab new"); !slices.Equal(ids, want) {
		t.Errorf("full: %v, want %v", ids, want)
	}
	for _, full := range []bool{false, true} {
		m.full.Store(full)
		for _, text := range []string{"ab no! cd", "ab no!"} {
			if _, err := m.encode(text); err == nil {
				t.Errorf("full %t, %q: no error", full, text)
			}
		}
	}
}

// The table grows many times while others read it.
func TestMemoGrowsUnderReaders(t *testing.T) {
	m := newMemo(letters(), func(text string) ([]int, error) {
		var calls []string
		return spelled(&calls)(text)
	})
	var group sync.WaitGroup
	for worker := range uint64(4) {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(worker, 0))
			for range 4000 {
				text := fmt.Sprintf("a %dx %dx %dx", rng.IntN(20000), rng.IntN(20000), worker)
				ids, err := m.encode(text)
				if err != nil || len(ids) != len(text) {
					t.Errorf("%q: %v, %v", text, ids, err)
					return
				}
				for i, id := range ids {
					if id != int(text[i]) {
						t.Errorf("%q: %v", text, ids)
						return
					}
				}
			}
		})
	}
	group.Wait()
	table := m.table.Load()
	if len(table.slots) <= 1<<12 || len(table.records) <= 1<<16 || 2*table.count > len(table.slots) {
		t.Errorf("%d slots, %d bytes for %d pieces", len(table.slots), len(table.records), table.count)
	}
}

// Unicode 3.9, tables 3-8 to 3-11, and what follows from table 3-7.
func TestLossyIsMaximalSubparts(t *testing.T) {
	for raw, want := range map[string]string{
		"": "",
		"a\xF1\x80\x80\xE1\x80\xC2b\x80c\x80\xBFd": "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd",
		"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82A":        strings.Repeat("\uFFFD", 8) + "A",
		"\xED\xA0\x80\xED\xBF\xBF\xED\xAFA":        strings.Repeat("\uFFFD", 8) + "A",
		"\xF4\x91\x92\x93\xFFA\x80\xBFB":           strings.Repeat("\uFFFD", 5) + "A\uFFFD\uFFFDB",
		"\xE1\x80\xE2\xF0\x91\x92\xF1\xBFA":        "\uFFFD\uFFFD\uFFFD\uFFFDA",
		"\xF0\x9F\x99":                             "\uFFFD",
		"\xEF\xBF\xBD":                             "\uFFFD",
		"\xE4\xB8\xE4\xB8\xAD":                     "\uFFFD中",
	} {
		var got strings.Builder
		writeLossy(&got, []byte(raw))
		if got.String() != want {
			t.Errorf("%q: %q, want %q", raw, got.String(), want)
		}
	}
}

// A table of ids is no larger than what is in it calls for, and of two tokens of
// one id nobody knows which the library takes.
func TestDecoderTableRefuses(t *testing.T) {
	byteLevel := object{{"decoder", json.RawMessage(`{"type":"ByteLevel"}`)}}
	fallback := object{{"decoder", json.RawMessage(gemmas)}}
	for name, r := range map[string]resolved{
		"another decoder": {rewritten: object{{"decoder", json.RawMessage(`{"type":"WordPiece"}`)}}, ids: map[string]int{"a": 0}},
		"none":            {ids: map[string]int{"a": 0}},
		"one id twice":    {rewritten: byteLevel, ids: map[string]int{"a": 0, "b": 0}},
		"far ids":         {rewritten: byteLevel, ids: map[string]int{"a": 1 << 31}},
		"negative ids":    {rewritten: byteLevel, ids: map[string]int{"a": -1}},
		"an empty token":  {rewritten: byteLevel, ids: map[string]int{"": 0}},
		"negative added":  {rewritten: byteLevel, added: []addedToken{{ID: -1, Content: "a"}}},
		"empty":           {rewritten: byteLevel, ids: map[string]int{"a": 0}, added: []addedToken{{ID: 1}}},
		"Rust's sign":     {rewritten: fallback, ids: map[string]int{"<0x+1>": 0}},
	} {
		if newDecodeTable(r) != nil {
			t.Errorf("%s: a table", name)
		}
	}
	d := newDecodeTable(resolved{rewritten: byteLevel, ids: map[string]int{"Ġa": 2}, added: []addedToken{{ID: 2, Content: "b c"}}})
	if got := d.decode([]int{0, 2, 5}); got != "b c" {
		t.Errorf("added token over the vocabulary's: %q, want %q", got, "b c")
	}
}

func FuzzPieces(f *testing.F) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		f.Add(madeUp(rng))
	}
	all := variants()
	var tokenizers []*local
	for _, name := range slices.Sorted(maps.Keys(all)) {
		tokenizers = append(tokenizers, openChanged(f, all[name]))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, tok := range tokenizers {
			sameAsPlain(t, tok, text)
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x00\x01\x80\xff\xc0"))
	f.Add([]byte("\x02\x5c\x02\x5d\x02\x5e\x02\x5f\x02\x60\x00\x00"))
	tokenizers := []*local{openChanged(f, nil), openChanged(f, variants()["merges over all"])}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var ids []int
		for ; len(raw) > 1; raw = raw[2:] {
			ids = append(ids, int(binary.BigEndian.Uint16(raw)%700))
		}
		for _, tok := range tokenizers {
			sameDecoding(t, tok, ids)
		}
	})
}
