package tokenize

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// AutoTokenizer's choice; want is read off tokenization_auto.py of 5.19.0.
func TestChoiceOfTheClass(t *testing.T) {
	for _, row := range []struct{ named, model, want, why string }{
		{"", "", "TokenizersBackend", "nothing is known"},
		{"", "gpt2", "GPT2Tokenizer", "the model type's class"},
		{"GPT2TokenizerFast", "", "GPT2Tokenizer", "the folder's class"},
		{"GPT2Tokenizer", "gpt2", "GPT2Tokenizer", "both agree"},
		{"PreTrainedTokenizerFast", "qwen2", "Qwen2Tokenizer", "qwen2 overrules"},
		{"LlamaTokenizer", "qwen3", "LlamaTokenizer", "qwen3 does not"},
		{"LlamaTokenizerFast", "deepseek_v3", "TokenizersBackend", "the registered class is the plain one"},
		{"LlamaTokenizer", "mistral", "TokenizersBackend", "mistral-common is not installed there"},
		{"NoSuchTokenizer", "", "TokenizersBackend", "unknown class"},
		{"PreTrainedTokenizerFast", "", "TokenizersBackend", "its old name"},
	} {
		name, _ := classes().lookup(classes().choose(row.named, row.model, ""))
		if name != row.want {
			t.Errorf("named %q, model type %q: %s, want %s (%s)", row.named, row.model, name, row.want, row.why)
		}
	}
}

func TestClassTableIsWhole(t *testing.T) {
	built := 0
	for name, info := range classes().Classes {
		switch info.Kind {
		case "built":
			built++
			if len(info.Pipelines) == 0 || len(info.Defaults) == 0 {
				t.Errorf("%s: no pipelines or defaults", name)
			}
		case "alias":
			if classes().Classes[info.Of].Kind == "" {
				t.Errorf("%s is an alias of nothing", name)
			}
		case "file", "other", "python":
		default:
			t.Errorf("%s: kind %q", name, info.Kind)
		}
	}
	if built != 7 || classes().Transformers == "" {
		t.Errorf("%d built classes of transformers %q", built, classes().Transformers)
	}
}

func TestPipelineFollowsTheOptions(t *testing.T) {
	llama := classes().Classes["LlamaTokenizer"]
	for config, want := range map[string]string{
		`{}`:                           `"first"`,
		`{"legacy":true}`:              `"always"`,
		`{"add_prefix_space":false}`:   `"never"`,
		`{"legacy":null}`:              `"first"`,
		`{"add_prefix_space":"maybe"}`: "error",
	} {
		var options object
		if err := json.Unmarshal([]byte(config), &options); err != nil {
			t.Fatal(err)
		}
		p, err := llama.pipelineFor(options)
		if err != nil != (want == "error") || err == nil && !strings.Contains(string(p.PreTokenizer), `"prepend_scheme": `+want) {
			t.Errorf("%s: %s (%v), want %s", config, p.PreTokenizer, err, want)
		}
	}
}

func TestNotesSayWhatIsNotFollowed(t *testing.T) {
	for config, want := range map[string]string{
		`{"tokenizer_class":"T5Tokenizer"}`:    "builds its own pipeline",
		`{"tokenizer_class":"ByT5Tokenizer"}`:  "does not read tokenizer.json",
		`{"auto_map":{"AutoTokenizer":["a"]}}`: "own Python code",
		`{"fix_mistral_regex":true}`:           "fix_mistral_regex",
		`{"tokenizer_class":"GemmaTokenizer"}`: "",
	} {
		f, err := readFolder(filepath.Join("testdata", "small"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(config), &f.config); err != nil {
			t.Fatal(err)
		}
		r, err := resolve(f)
		if err != nil || !strings.Contains(r.note, want) || want == "" && r.note != "" {
			t.Errorf("%s: note %q (%v), want %q", config, r.note, err, want)
		}
	}
}

func TestCleanUpIsTransformers(t *testing.T) {
	// By hand from clean_up_tokenization: the replacements run one after another.
	for text, want := range map[string]string{
		"a . b ? c ! d , e": "a. b? c! d, e",
		"do n't ' s  's":    "don't's 's",
		"we 're I 'm ' .":   "we're I'm '.",
	} {
		if got := cleanUp(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestObjectKeepsOrderAndBounds(t *testing.T) {
	var o object
	if err := json.Unmarshal([]byte(`{"b":1,"a":{"x":[1, 2]},"b":2}`), &o); err != nil {
		t.Fatal(err)
	}
	if got, want := string(o.bytes()), `{"b":2,"a":{"x":[1, 2]}}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := string(object(nil).bytes()); got != "{}" {
		t.Errorf("empty: %s", got)
	}
	var many strings.Builder
	many.WriteString("{")
	for range maxMembers {
		many.WriteString(`"` + strings.Repeat("k", many.Len()%97+1) + `":1,"` + string(rune('a'+many.Len()%26)) + `":1,`)
	}
	many.WriteString(`"z":1}`)
	if err := json.Unmarshal([]byte(many.String()), &o); err != nil {
		t.Errorf("repeated members are one: %v", err)
	}
}
