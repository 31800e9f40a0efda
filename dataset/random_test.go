package dataset_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/dataset/nprand"
	"github.com/servebench/servebench/tokenize"
)

// goldenRow is [prompt, prompt_len, expected_output_len].
type goldenRow struct {
	prompt    string
	in, outpt int
}

func (g *goldenRow) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&g.prompt, &g.in, &g.outpt})
}

type randomCase struct {
	Seed                            int64
	N, Input, Output, Prefix, Added int
	Ratio                           dataset.Ratio
	Rows                            []goldenRow
	SHA256                          string
}

func (c randomCase) spec() dataset.Spec {
	return dataset.Spec{Name: "random", Prompts: c.N, Seed: c.Seed, InputLen: c.Input, OutputLen: c.Output,
		PrefixLen: c.Prefix, RangeRatio: c.Ratio}
}

// readGolden reads testdata/golden.json: vLLM's own data sets over the toy.
func readGolden(t *testing.T) (g struct {
	Random []randomCase
	Custom []struct {
		Seed                int64
		N, Output           int
		Shuffle, Oversample bool
		Rows                []goldenRow
	}
	File []string
}) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func rowsOf(reqs []dataset.Request) (rows []goldenRow) {
	for _, r := range reqs {
		rows = append(rows, goldenRow{r.Prompt, r.InputTokens, r.OutputTokens})
	}
	return rows
}

func load(t testing.TB, s dataset.Spec, tok tokenize.Tokenizer) *dataset.Set {
	t.Helper()
	set, err := dataset.Load(t.Context(), s, dataset.Tools{Tokenizer: tok})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func TestRandomIsVLLMs(t *testing.T) {
	for i, c := range readGolden(t).Random {
		set := load(t, c.spec(), toy{added: c.Added})
		if diff := cmp.Diff(c.Rows, rowsOf(set.Requests), cmp.AllowUnexported(goldenRow{})); diff != "" {
			t.Errorf("case %d (-vLLM +ours):\n%s", i, diff)
		}
		if set.Generator != "vllm-random" || !set.Synthetic {
			t.Errorf("case %d: generator %q, synthetic %v", i, set.Generator, set.Synthetic)
		}
	}
}

// sequential is vLLM's algorithm in its plainest form: one prompt after the
// other, one generator.
func sequential(t *testing.T, s dataset.Spec, tok tokenize.Tokenizer) (rows []goldenRow, padded int) {
	t.Helper()
	ctx := t.Context()
	v, _ := tok.Vocabulary()
	rng := nprand.NewGenerator(uint64(s.Seed))
	n := int64(s.InputLen - v.Added)
	in := rng.Integers(n/2, n+(n+1)/2+1, s.Prompts) // the ratio of the test is 0.5
	rng.Integers(int64(s.OutputLen), int64(s.OutputLen)+1, s.Prompts)
	offsets := rng.Integers(0, int64(v.Size), s.Prompts)
	var allowed []int
	for id := range v.Size {
		if !slices.Contains(v.Special, id) {
			allowed = append(allowed, id)
		}
	}
	adjust := func(ids []int, target int) (string, []int) {
		for left := 10; ; left-- {
			text, _ := tok.Decode(ctx, ids)
			ids, _ = tok.Encode(ctx, text, false)
			switch {
			case left == 0 || len(ids) == target:
				return text, ids
			case len(ids) > target:
				ids = ids[:target]
			default:
				padded++
				for _, id := range rng.Integers(0, int64(v.Size), target-len(ids)) {
					ids = append(ids, int(id))
				}
			}
		}
	}
	var prefix []int
	for _, at := range rng.Integers(0, int64(len(allowed)), s.PrefixLen) {
		prefix = append(prefix, allowed[at])
	}
	_, prefix = adjust(prefix, s.PrefixLen)
	for i := range s.Prompts {
		ids := slices.Clone(prefix)
		for k := range int(in[i]) {
			ids = append(ids, allowed[(int(offsets[i])+i+k)%len(allowed)])
		}
		text, ids := adjust(ids, s.PrefixLen+int(in[i]))
		rows = append(rows, goldenRow{text, len(ids), s.OutputLen})
	}
	return rows, padded
}

func TestRandomOnAllCoresIsTheSequentialAlgorithm(t *testing.T) {
	for _, c := range []struct{ prompts, input, prefix, added int }{
		{3000, 24, 0, 0}, // nearly every prompt needs padding several times
		{1500, 90, 5, 1},
		{1, 10, 3, 1},
	} {
		s := dataset.Spec{Name: "random", Prompts: c.prompts, Seed: 11, InputLen: c.input, OutputLen: 3,
			PrefixLen: c.prefix, RangeRatio: dataset.Ratio{Input: .5}}
		want, padded := sequential(t, s, toy{added: c.added})
		t.Logf("%d prompts were padded %d times", s.Prompts, padded)
		for _, cores := range []int{1, 2, 3, 16} {
			before := runtime.GOMAXPROCS(cores)
			got := rowsOf(load(t, s, toy{added: c.added}).Requests)
			runtime.GOMAXPROCS(before)
			if !slices.Equal(got, want) {
				i := 0
				for got[i] == want[i] {
					i++
				}
				t.Errorf("%+v on %d cores: prompt %d is %v, want %v", c, cores, i, got[i], want[i])
			}
		}
	}
}

// A tokenizer for which guessed places are always wrong must not cost many times
// what a sequential run does.
func TestRandomWastesLittleWorkOnWrongGuesses(t *testing.T) {
	s := dataset.Spec{Name: "random", Prompts: 2000, InputLen: 24, OutputLen: 1}
	count := func(cores int) int64 {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		tok := toy{calls: new(atomic.Int64)}
		load(t, s, tok)
		return tok.calls.Load()
	}
	one, eight := count(1), count(8)
	t.Logf("encodings: %d on one core, %d on eight", one, eight)
	if eight > 3*one {
		t.Errorf("%d encodings on eight cores, %d on one", eight, one)
	}
}

func TestTokenIDsAreExactlyAsLongAsAsked(t *testing.T) {
	s := dataset.Spec{Name: "random", Prompts: 200, Seed: 5, InputLen: 60, OutputLen: 9, PrefixLen: 4, TokenIDs: true}
	for _, c := range []struct {
		tok       tokenize.Tokenizer
		generator string
		low, high int
	}{
		{toy{added: 2}, "servebench-vocab-ids-1", 1, 49},
		{nil, "servebench-ids-1", 1000, 19999},
		{spaced{}, "servebench-ids-1", 1000, 19999},
	} {
		set := load(t, s, c.tok)
		if set.Generator != c.generator {
			t.Errorf("generator %q, want %q", set.Generator, c.generator)
		}
		for i, r := range set.Requests {
			if len(r.Tokens) != 64 || r.InputTokens != 64 || r.OutputTokens != 9 || r.Prompt != "" {
				t.Fatalf("%s, request %d: %+v", c.generator, i, r)
			}
			if slices.Min(r.Tokens) < c.low || slices.Max(r.Tokens) > c.high {
				t.Fatalf("%s, request %d: ids outside [%d, %d]: %v", c.generator, i, c.low, c.high, r.Tokens)
			}
			if !slices.Equal(r.Tokens[:4], set.Requests[0].Tokens[:4]) {
				t.Fatalf("%s, request %d has another prefix", c.generator, i)
			}
		}
	}
}

// The runs start where vLLM's do: offsets of the golden row, plus the index.
func TestTokenIDsStartAtVLLMsOffsets(t *testing.T) {
	s := dataset.Spec{Name: "random", Prompts: 8, InputLen: 1024, OutputLen: 128, TokenIDs: true}
	set := load(t, s, plainVocabulary(151643))
	for i, offset := range []int{128991, 96590, 77510, 40911, 46680, 6213, 11409, 2506} {
		r := set.Requests[i]
		if first, last := r.Tokens[0], r.Tokens[1023]; first != offset+i || last != (offset+i+1023)%151643 {
			t.Errorf("request %d runs from %d to %d", i, first, last)
		}
	}
}

// Fixed lengths draw nothing, so the ids are a plain numpy Generator's.
func TestTokenIDsWithoutAVocabularyAreNumpys(t *testing.T) {
	s := dataset.Spec{Name: "random", Prompts: 2, Seed: 9, InputLen: 32, OutputLen: 1, TokenIDs: true}
	set := load(t, s, nil)
	for i, want := range nprand.NewGenerator(9).Integers(1000, 20000, 64) {
		if got := set.Requests[i/32].Tokens[i%32]; int64(got) != want {
			t.Fatalf("id %d is %d, want %d", i, got, want)
		}
	}
}

// plainVocabulary is a vocabulary of that many ordinary ids; it has no text.
type plainVocabulary int

func (p plainVocabulary) Vocabulary() (tokenize.Vocabulary, bool) {
	return tokenize.Vocabulary{Size: int(p)}, true
}
func (plainVocabulary) Encode(context.Context, string, bool) ([]int, error) {
	return nil, errors.New("no text")
}
func (plainVocabulary) Decode(context.Context, []int) (string, error) {
	return "", errors.New("no text")
}

func TestWordsHaveTheLengthThatTheServerCounts(t *testing.T) {
	s := dataset.Spec{Name: "random", Prompts: 100, Seed: 3, InputLen: 50, OutputLen: 9, PrefixLen: 10,
		RangeRatio: dataset.Ratio{Input: .5}}
	plain, counted := load(t, s, nil), load(t, s, spaced{})
	if plain.Generator != "servebench-words-1" || counted.Generator != plain.Generator {
		t.Errorf("generators %q, %q", plain.Generator, counted.Generator)
	}
	for i, r := range plain.Requests {
		if words := strings.Fields(r.Prompt); len(words) != r.InputTokens {
			t.Errorf("request %d has %d words for %d tokens", i, len(words), r.InputTokens)
		}
		c := counted.Requests[i]
		ids, _ := spaced{}.Encode(t.Context(), c.Prompt, true)
		if len(ids) != r.InputTokens || c.InputTokens != r.InputTokens {
			t.Errorf("request %d is %d tokens, says %d, wants %d", i, len(ids), c.InputTokens, r.InputTokens)
		}
	}
	if counted.Warnings != nil {
		t.Errorf("warnings %q", counted.Warnings)
	}
}

func TestWordsThatCannotHaveTheLengthAreWarnedAbout(t *testing.T) {
	// One token is the special one, so one word is one too many.
	set := load(t, dataset.Spec{Name: "random", Prompts: 3, InputLen: 1, OutputLen: 1}, spaced{})
	if len(set.Warnings) != 1 || !strings.Contains(set.Warnings[0], "more than asked") {
		t.Errorf("warnings %q", set.Warnings)
	}
	for _, r := range set.Requests {
		if r.Prompt == "" || r.InputTokens < 2 {
			t.Errorf("request %+v", r)
		}
	}
}

func TestWarmupsAreDistinctFromTimedPrompts(t *testing.T) {
	s := dataset.Spec{Name: "random", Prompts: 1000, Seed: 1, InputLen: 40, OutputLen: 4, Warmups: 100}
	ids := s
	ids.TokenIDs = true
	for name, set := range map[string]*dataset.Set{
		"words":          load(t, s, nil),
		"ids":            load(t, ids, nil),
		"vocabulary ids": load(t, ids, plainVocabulary(1100)), // nearly every start is taken
	} {
		if len(set.Warmups) != 100 || set.Warnings != nil {
			t.Errorf("%s: %d warm-ups, warnings %q", name, len(set.Warmups), set.Warnings)
		}
		starts := map[string]bool{}
		start := func(r dataset.Request) string {
			return fmt.Sprint(r.Tokens[:min(1, len(r.Tokens))], r.Prompt)
		}
		for _, r := range set.Requests {
			starts[start(r)] = true
		}
		for i, w := range set.Warmups {
			if starts[start(w)] && name != "ids" {
				t.Errorf("%s: warm-up %d starts as a timed prompt", name, i)
			}
			if w.InputTokens != 40 || w.OutputTokens != 4 {
				t.Errorf("%s: warm-up %d is %+v", name, i, w)
			}
		}
	}
}

func TestWarmupsLeaveTimedPromptsAlone(t *testing.T) {
	c := readGolden(t).Random[1]
	s := c.spec()
	s.Warmups = 20
	if got := rowsOf(load(t, s, toy{added: 1}).Requests); !slices.Equal(got, c.Rows) {
		t.Error("timed prompts changed")
	}
}

func TestWarmupFirstRepeatsTheFirstRequest(t *testing.T) {
	s := dataset.Spec{Name: "random", Prompts: 3, InputLen: 9, OutputLen: 4, Warmups: 2, WarmupFirst: true}
	set := load(t, s, nil)
	for _, w := range set.Warmups {
		if diff := cmp.Diff(set.Requests[0], w); diff != "" || len(set.Warmups) != 2 {
			t.Error(diff)
		}
	}
}

func TestWarmupsThatCannotDifferAreWarnedAbout(t *testing.T) {
	s := dataset.Spec{Name: "random", Prompts: 500, InputLen: 20, OutputLen: 1, Warmups: 5, TokenIDs: true}
	set := load(t, s, plainVocabulary(7)) // every start is taken
	if len(set.Warnings) != 1 || !strings.Contains(set.Warnings[0], "prefix cache") {
		t.Errorf("warnings %q", set.Warnings)
	}
}

func TestRandomNeedsRoomForSpecialTokens(t *testing.T) {
	s := dataset.Spec{Name: "random", Prompts: 1, InputLen: 1, OutputLen: 1}
	if _, err := dataset.Load(t.Context(), s, dataset.Tools{Tokenizer: toy{added: 1}}); err == nil || !strings.Contains(err.Error(), "random-input-len") {
		t.Errorf("error %v", err)
	}
	s.PrefixLen = 1
	load(t, s, toy{added: 1})
	s.PrefixLen, s.TokenIDs = 0, true // a server adds nothing to ids
	load(t, s, toy{added: 1})
}

func TestTokenizerErrorsEndTheLoad(t *testing.T) {
	broken := errors.New("the server is gone")
	s := dataset.Spec{Name: "random", Prompts: 100, InputLen: 10, OutputLen: 1}
	if _, err := dataset.Load(t.Context(), s, dataset.Tools{Tokenizer: spaced{broken}}); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if _, err := dataset.Load(t.Context(), s, dataset.Tools{Tokenizer: plainVocabulary(100)}); err == nil {
		t.Error("no error of Decode")
	}
	if _, err := dataset.Load(t.Context(), s, dataset.Tools{Tokenizer: plainVocabulary(0)}); err == nil {
		t.Error("no error for an empty vocabulary")
	}
}

func TestLoadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	cancel(stop)
	path := writeFile(t, `{"prompt": "a"}`)
	for _, s := range []dataset.Spec{
		{Name: "random", Prompts: 10, InputLen: 10, OutputLen: 1},
		{Name: "random", Prompts: 10, InputLen: 10, OutputLen: 1, TokenIDs: true},
		{Name: "custom", SkipTemplate: true, Path: path, OutputLen: 1},
	} {
		for _, tok := range []tokenize.Tokenizer{nil, toy{}} {
			if _, err := dataset.Load(ctx, s, dataset.Tools{Tokenizer: tok}); !errors.Is(err, stop) {
				t.Errorf("%s with %v: error %v", s.Name, tok, err)
			}
		}
	}
	for i, c := range textGolden(t, "text.json") {
		if _, err := dataset.Load(ctx, c.Spec, dataset.Tools{Tokenizer: toy{}, Render: template("")}); !errors.Is(err, stop) {
			t.Errorf("case %d, %s: error %v", i, c.Spec.Name, err)
		}
	}
}

func ExampleLoad() {
	spec := dataset.Spec{Name: "random", Prompts: 2, InputLen: 6, OutputLen: 16}
	set, err := dataset.Load(context.Background(), spec, dataset.Tools{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range set.Requests {
		fmt.Printf("%d -> %d: %s\n", r.InputTokens, r.OutputTokens, r.Prompt)
	}
	fmt.Println(set.Generator)
	// Output:
	// 6 -> 16: drive snow test under our bad
	// 6 -> 16: weather watch sell buy past winter
	// servebench-words-1
}

func BenchmarkRandom(b *testing.B) {
	for _, form := range []string{"text", "ids"} {
		b.Run("form="+form, func(b *testing.B) {
			s := dataset.Spec{Name: "random", Prompts: 1000, InputLen: 1024, OutputLen: 128, TokenIDs: form == "ids"}
			b.ReportAllocs()
			for b.Loop() {
				load(b, s, toy{})
			}
		})
	}
}
