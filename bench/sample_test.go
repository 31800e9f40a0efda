package bench

import (
	"strings"
	"testing"

	"github.com/servebench/servebench/loadgen/openai"
)

func TestVersionsThatTellTokens(t *testing.T) {
	for version, want := range map[string]bool{
		"0.10.2": true, "0.10.2rc1": true, "0.11.0": true, "0.32.0": true, "1.0": true, "0.32.1.dev3+g12ab": true,
		"0.10.1": false, "0.9.2": false, "": false, "dev": false, "v0.32.0": false, "0": false, "..": false, "99999999999999999999.1": false,
	} {
		if got := knows(version); got != want {
			t.Errorf("%q: %v, want %v", version, got, want)
		}
	}
}

// What a small answer shows, and whether that is good enough.
func TestSamples(t *testing.T) {
	ids := func(text, ids string) string {
		return `data: {"choices":[{"index":0,"delta":{"content":"` + text + `"},"token_ids":` + ids + "}]}\n\n"
	}
	usage := func(text, usage string) string {
		return `data: {"choices":[{"index":0,"text":"` + text + `"}],"usage":` + usage + "}\n\n"
	}
	total := func(n string) string { return `data: {"choices":[],"usage":{"completion_tokens":` + n + "}}\n\n" }
	plain := sample{events: 2, bytes: 200}
	for _, c := range []struct{ name, form, body, want string }{
		{"ids", byIDs, ids("a", "[1]") + ids("b", "[2,3]") + total("3") + "data: [DONE]\n\n", ""},
		{"ids that miss a token", byIDs, ids("a", "[1]") + ids("b", "[2]") + total("3"), "its events told 2 tokens and its usage 3"},
		{"an event without", byIDs, ids("a", "[1]") + ids("b", "null"), "did not tell"},
		{"a role without", byIDs, ids("", "null") + ids("b", "[1]"), ""},
		{"an event of its own", byIDs, ids("", "[1]") + ids("b", "[2]"), "tokens that show nothing"},
		{"no ids", byIDs, ids("a", "null") + total("1"), "did not tell"},
		{"usage", byUsage, usage("a", `{"completion_tokens":1}`) + usage("b", `{"completion_tokens":3}`) + total("3"), ""},
		{"usage at the end alone", byUsage, usage("a", "null") + usage("b", `{"completion_tokens":3}`), "did not tell"},
		{"usage that recounts", byUsage, usage("a", `{"completion_tokens":1,"completion_tokens_details":{"reasoning_tokens":1}}`), "recounts"},
		{"usage, details of nothing", byUsage, usage("a", `{"completion_tokens":1,"completion_tokens_details":null}`), ""},
		{"much longer", byUsage, usage(strings.Repeat("a", 300), `{"completion_tokens":1}`), "bytes with it and 100 without"},
		{"an error inside", byUsage, usage("a", `{"completion_tokens":1}`) + "data: {\"error\":{\"message\":\"x\"}}\n\n", "an error came"},
		{"not JSON", byUsage, "data: {\n\n", "not valid JSON"},
		{"a page", byUsage, "<html>", "no event with choices"},
		{"nothing", byUsage, "", "no event with choices"},
	} {
		s, err := readSample([]byte(c.body), c.form)
		if err == nil {
			err = s.judge(c.form, plain, openai.Chat)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q (%+v)", c.name, err, c.want, s)
		}
	}
}

// Whatever a server sends, nothing panics and no count is negative but what a
// usage that falls makes.
func FuzzReadSample(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"token_ids\":[1]}],\"usage\":{\"completion_tokens\":1}}\n\ndata: [DONE]\n\n"))
	f.Add([]byte("data: {\"choices\":{\"0\":{}},\"usage\":{\"completion_tokens\":1e300}}\n\n"))
	f.Add([]byte("data: []\n\ndata: {\"choices\":[null,[]]}\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, form := range []string{byChunks, byIDs, byUsage} {
			s, err := readSample(body, form)
			if err == nil && (s.events <= 0 || s.bytes > len(body) || s.silent > s.events || s.hidden > s.events) {
				t.Fatalf("%+v of %q", s, body)
			}
			_ = s.judge(form, sample{}, openai.Chat)
		}
	})
}
