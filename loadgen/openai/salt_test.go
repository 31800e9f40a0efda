package openai_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/loadgen/openai"
)

// With the field the prompt stays as it is; else one text at the beginning grows,
// and ids change places.
func TestSalted(t *testing.T) {
	const long = "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19]"
	for _, c := range []struct {
		name string
		api  openai.API
		body string
		at   string // what is salted; "" is nothing
	}{
		{"text", openai.Completions, `{"model":"m","prompt":"a \"b\"","max_tokens":3}`, "prompt"},
		{"chat", openai.Chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`, "messages.0.content.0.text"},
		{"system first", openai.Chat, `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}]}`, "messages.0.content"},
		{"a message without text", openai.Chat, `{"messages":[{"role":"assistant","content":null},{"role":"user","content":"hi"}]}`, "messages.1.content"},
		{"an image first", openai.Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:x"}},{"type":"text","text":"hi"}]}]}`, "messages.0.content.1.text"},
		{"response", openai.Responses, `{"model":"m","input":"hi"}`, "input"},
		{"embeddings of texts", openai.Embeddings, `{"model":"m","input":["hi","ho"]}`, "input.1"},
		{"reranker", openai.Rerank, `{"query":"q","documents":["hi","ho"]}`, "documents.1"},
		{"an image's embedding", openai.Infinity, `{"input":"data:x","modality":"image"}`, ""},
		{"clip's image", openai.EmbeddingsClip, `{"messages":[{"role":"user","content":[{"type":"text","text":""},{"type":"image_url"}]}]}`, ""},
	} {
		field, err := c.api.Salted([]byte(c.body), openai.SaltField, `s"1`)
		if err != nil || gjson.GetBytes(field, "cache_salt").Str != `s"1` || !strings.HasPrefix(string(field), strings.TrimSuffix(c.body, "}")) {
			t.Errorf("%s: %s, %v with the field", c.name, field, err)
		}
		one, err := c.api.Salted([]byte(c.body), openai.SaltPrompt, "1")
		if err != nil || !json.Valid(one) {
			t.Errorf("%s: %s, %v", c.name, one, err)
			continue
		}
		two, _ := c.api.Salted([]byte(c.body), openai.SaltPrompt, "2")
		if c.at == "" {
			if string(one) != c.body || string(two) != c.body {
				t.Errorf("%s: %s and %s, want no change", c.name, one, two)
			}
			continue
		}
		was, a, b := gjson.Get(c.body, c.at).Str, gjson.GetBytes(one, c.at).Str, gjson.GetBytes(two, c.at).Str
		if len(a) != len(was)+9 || a[9:] != was || len(b) != len(a) || b[9:] != was || a == b {
			t.Errorf("%s: %q and %q of %q", c.name, a, b, was)
		}
	}
	for _, ids := range []string{"[7]", "[]", "[7,8]", long} {
		seen := map[string]bool{}
		for _, salt := range []string{"1", "2", "3", "4", "5"} {
			body, err := openai.Completions.Salted([]byte(`{"prompt":`+ids+`}`), openai.SaltPrompt, salt)
			if err != nil {
				t.Fatal(err)
			}
			var was, is []int
			_ = json.Unmarshal([]byte(ids), &was)
			if err := json.Unmarshal([]byte(gjson.GetBytes(body, "prompt").Raw), &is); err != nil || len(was) > 16 && !slices.Equal(is[16:], was[16:]) {
				t.Errorf("%s became %v: %v", ids, is, err)
			}
			seen[string(body)] = true
			slices.Sort(is)
			if !slices.Equal(is, was) {
				t.Errorf("%s lost or gained ids: %v", ids, is)
			}
		}
		if ids == long && len(seen) != 5 {
			t.Errorf("five salts make %d orders", len(seen))
		}
	}
}

// Bodies that begin alike still do, as far as before.
func TestSaltedBeginAlike(t *testing.T) {
	shared := "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,"
	a, _ := openai.Completions.Salted([]byte(`{"prompt":[`+shared+`20,21]}`), openai.SaltPrompt, "x")
	b, _ := openai.Completions.Salted([]byte(`{"prompt":[`+shared+`30,31]}`), openai.SaltPrompt, "x")
	if n := strings.Index(string(a), "20,21"); n < 0 || string(a[:n]) != string(b[:n]) {
		t.Errorf("%s and %s", a, b)
	}
}

func TestPromptIn(t *testing.T) {
	for _, c := range []struct {
		api        openai.API
		body, want string
		text       bool
	}{
		{openai.Completions, `{"prompt":"hi"}`, `"hi"`, true},
		{openai.Completions, `{"prompt":[1,2]}`, `[1,2]`, false},
		{openai.Completions, `{"prompt":["a","b"]}`, "", false},
		{openai.Completions, `{"model":"m"}`, "", false},
		{openai.Chat, `{"messages":[{"content":"hi"}],"tools":[{"a":1}]}`, `[{"a":1}][{"content":"hi"}]`, true},
		{openai.Chat, `{"messages":[{"content":[{"type":"image_url","image_url":{}}]}]}`, "", false},
		{openai.Responses, `{"input":"hi"}`, `"hi"`, true},
		{openai.Embeddings, `{"input":"hi"}`, "", false},
	} {
		if got, text := c.api.PromptIn([]byte(c.body)); string(got) != c.want || text != c.text {
			t.Errorf("%s: %s, text %v, want %s, %v", c.body, got, text, c.want, c.text)
		}
	}
}

// Whatever the body: no panic, and what comes out is JSON where it was.
func FuzzSalted(f *testing.F) {
	for _, body := range []string{`{"prompt":"a"}`, `{"prompt":[1,2,3]}`, `{"messages":[{"content":"x"}]}`, `{"input":["a",[1]]}`, `{"query":1,"documents":[]}`, `{`, `[]`, `{}`, `{"prompt":[1,"a,b"]}`} {
		f.Add([]byte(body), "salt")
	}
	f.Fuzz(func(t *testing.T, body []byte, salt string) {
		for _, api := range []openai.API{openai.Completions, openai.Chat, openai.Rerank, openai.InfinityClip, openai.EmbeddingsClip} {
			api.PromptIn(body)
			for _, form := range []openai.SaltForm{openai.SaltField, openai.SaltPrompt} {
				out, err := api.Salted(body, form, salt)
				if err == nil && json.Valid(body) && !json.Valid(out) {
					t.Fatalf("%s of %s: %s is no JSON", form, body, out)
				}
			}
		}
	})
}
