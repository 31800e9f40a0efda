package sim_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/servebench/servebench/bench/sim"
)

func tokenize(t testing.TB, h http.Handler, text string) []int32 {
	t.Helper()
	body, err := json.Marshal(map[string]any{"prompt": text, "return_token_strs": true})
	if err != nil {
		t.Fatal(err)
	}
	var reply struct {
		Count      int
		Tokens     []int32
		Token_strs []string
	}
	got := call(t, h, "POST", "/tokenize", string(body))
	if err := json.Unmarshal(got.Body.Bytes(), &reply); err != nil {
		t.Fatalf("body %s: %v", got.Body, err)
	}
	if reply.Count != len(reply.Tokens) || reply.Count != len(reply.Token_strs) {
		t.Fatalf("count %d, %d tokens, %d strings", reply.Count, len(reply.Tokens), len(reply.Token_strs))
	}
	return reply.Tokens
}

func detokenize(t testing.TB, h http.Handler, ids []int32) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"tokens": ids})
	if err != nil {
		t.Fatal(err)
	}
	var reply struct{ Prompt string }
	got := call(t, h, "POST", "/detokenize", string(body))
	if err := json.Unmarshal(got.Body.Bytes(), &reply); err != nil {
		t.Fatalf("body %s: %v", got.Body, err)
	}
	return reply.Prompt
}

func TestTokenizeSplitsAsDocumented(t *testing.T) {
	s := sim.New(sim.Config{})
	for text, want := range map[string]string{
		"Hello world, grüße 🙂": `Hello|Ġworld|,|Ġgr|Ã|¼|Ã|Ł|e|Ġ|ð|Ł|Ļ|Ĥ`,
		"understanding":        `unders|tandin|g`,
		"  two HI":             `Ġ|Ġtwo|ĠH|I`,
		"a1\n b":               `a|1|Ċ|Ġb`,
		" ":                    `Ġ`,
	} {
		body, _ := json.Marshal(map[string]any{"prompt": text, "return_token_strs": true})
		var reply struct{ Token_strs []string }
		if err := json.Unmarshal(call(t, s, "POST", "/tokenize", string(body)).Body.Bytes(), &reply); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(reply.Token_strs, "|"); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// Ids by hand: " a" is the first word, id 256; " z" 281; " aa" 282 (26 one-letter words before it); "a" 256+2*321272406.
func TestIDsAreArithmetic(t *testing.T) {
	s := sim.New(sim.Config{})
	for text, want := range map[string]int32{
		"\x00": 0, "!": 33, " a": 256, " z": 281, " aa": 282, " zzzzzz": 321272661, " A": 321272662, "a": 642545068, "A": 963817474, "Zzzzzz": 1285089879,
	} {
		if got := tokenize(t, s, text); !slices.Equal(got, []int32{want}) {
			t.Errorf("%q: %v, want %d", text, got, want)
		}
		if got := detokenize(t, s, []int32{want}); got != text {
			t.Errorf("%d: %q, want %q", want, got, text)
		}
	}
	var ids []int32
	for id := int32(256); id < 321272662; id += 40_009 {
		ids = append(ids, id)
	}
	if got := tokenize(t, s, detokenize(t, s, ids)); !slices.Equal(got, ids) {
		t.Error("lower-case words with spaces do not come back as the same ids")
	}
}

func FuzzTokenizer(f *testing.F) {
	for _, seed := range []string{"", "Hello world, grüße 🙂", "understanding", "  A  aB", "\n\t \u2028 <&>", " z zz zzzzzz zzzzzzz"} {
		f.Add(seed)
	}
	s := sim.New(sim.Config{})
	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) {
			t.Skip("JSON carries no other bytes")
		}
		ids := tokenize(t, s, text)
		if back := detokenize(t, s, ids); back != text {
			t.Errorf("%q came back as %q", text, back)
		}
		if again := tokenize(t, s, detokenize(t, s, ids)); !slices.Equal(again, ids) {
			t.Errorf("%q: ids %v, then %v", text, ids, again)
		}
	})
}

// Whatever is posted, the answer is JSON, and an accepted request gets what it asked for.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		`{"prompt":"a","max_tokens":3}`, `{"prompt":[1,2]}`, `{"prompt":[["a"]]}`, `{"messages":[{"role":"user","content":"a"}]}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"max_completion_tokens":2}`, `{"prompt":`, `{"prompt":"a","n":2}`,
		`{"prompt":"a","stream_options":{"include_usage":1}}`, `{"tokens":[1,2,3]}`, `[[[`, `{"prompt":"a","temperature":-1e400}`,
	} {
		f.Add([]byte(seed))
	}
	s := sim.New(sim.Config{MaxModelLen: 64})
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, path := range []string{"/v1/completions", "/v1/chat/completions", "/tokenize", "/detokenize"} {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(string(body))))
			if strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
				if !strings.HasSuffix(w.Body.String(), "data: [DONE]\n\n") {
					t.Errorf("%s: stream ends %q", path, w.Body)
				}
				continue
			}
			var reply struct {
				Usage *struct{ Prompt_tokens, Completion_tokens, Total_tokens int }
				Error *struct{ Code int }
			}
			if err := json.Unmarshal(w.Body.Bytes(), &reply); err != nil {
				t.Errorf("%s: %s: %v", path, w.Body, err)
			}
			if (w.Code == 200) == (reply.Error != nil) {
				t.Errorf("%s: status %d with %s", path, w.Code, w.Body)
			}
			if u := reply.Usage; u != nil && (u.Prompt_tokens < 1 || u.Completion_tokens < 1 || u.Total_tokens > 64) {
				t.Errorf("%s: usage %+v", path, *u)
			}
		}
	})
}
