package manifest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The references are public: there is nothing to take out, and not a byte changes.
func TestRedactDocumentLeavesTheReferencesAlone(t *testing.T) {
	for _, seed := range append(seeds, "seed-experiment") {
		data := readFile(t, seed+".json")
		out, found, err := (&Redactor{}).Document(data)
		if err != nil || len(found) > 0 || !bytes.Equal(out, data) {
			t.Errorf("%s: %v %v", seed, found, err)
		}
	}
}

func TestRedactDocument(t *testing.T) {
	for _, c := range []struct{ reading, in, want, kinds string }{
		{"nothing", `{"a": [1, -2e3, true, null, {}, [], "x\"y"]}`, "", ""},
		{"layout and escapes stay", "{ \"a\" :\t\"\\u0041\",\n\"b\":\"/home/me/x\"}\n", "{ \"a\" :\t\"\\u0041\",\n\"b\":\"<local-path>\"}\n", "/b:2 local_path"},
		{"an escape hides nothing", `{"notes":"\u002fhome\/me\/x"}`, `{"notes":"<local-path>"}`, "/notes:1 local_path"},
		{"in arrays", `{"warnings":["ok","at 10.0.0.7"]}`, `{"warnings":["ok","at <lan-address>"]}`, "/warnings/1:1 lan_address"},
		{"alone", `"hf_abcdefghijklmnopqrstuv"`, `"<redacted>"`, "/:1 secret"},
		{"a key is text too", `{"x":{"gpubox-7":1}}`, `{"x":{"<redacted>":1}}`, "/x:1 name"},
		{"but for the schema's own", `{"subject":{"gpubox-7":"gpubox-7"}}`, `{"subject":{"<redacted>":"<redacted>"}}`, "/subject:1 name|/subject/<redacted>:1 name"},
		{"a value by its key", `{"server":{"api_key":"abc","max_tokens":"7","token_ids":"8"}}`, `{"server":{"api_key":"<redacted>","max_tokens":"7","token_ids":"8"}}`, "/server/api_key:1 secret"},
		{"what only looks so", `{"itl_token_ms":{"s":"a"},"workload_key":"b","servebench.per_token":"c","cache_key":"d","eos_token":"e"}`, "", ""},
		{"what else is one", `{"token":"a","X_TOKEN":"b","my.access-key":"c","Authorization":"d","":"e"}`, `{"token":"<redacted>","X_TOKEN":"<redacted>","my.access-key":"<redacted>","Authorization":"<redacted>","":"e"}`,
			"/token:1 secret|/X_TOKEN:1 secret|/my.access-key:1 secret|/Authorization:1 secret"},
		{"and below it", `{"HF_TOKEN":["abc",{"x":"<redacted>","y":""}]}`, `{"HF_TOKEN":["<redacted>",{"x":"<redacted>","y":""}]}`, "/HF_TOKEN/0:1 secret"},
		{"a pointer is escaped", `{"a/b~":"/home/me/x"}`, `{"a/b~":"<local-path>"}`, "/a~1b~0:1 local_path"},
		{"a command knows its flags", `{"launch_command":"A=1 /opt/v/vllm serve m --api-key k --x 'a b'"}`, `{"launch_command":"A=1 vllm serve m --api-key <redacted> --x 'a b'"}`, "/launch_command:1 local_path,secret"},
		{"each of its lines", `{"launch_command":"X=/u/alice/z vllm\npython /srv/p.py"}`, `{"launch_command":"X=<local-path> vllm\npython <local-path>"}`, "/launch_command:1 local_path"},
		{"what was taken out is", `{"benchmark_command":"sb serve --header X=<redacted> --dataset-path <EXACT_DATA> --token=<redacted>"}`, "", ""},
		{"a header", `{"benchmark_command":"sb --header Cookie=5"}`, `{"benchmark_command":"sb --header Cookie=<redacted>"}`, "/benchmark_command:1 secret"},
		{"an endpoint is no path", `{"benchmark_command":"sb --endpoint /my/own/route"}`, "", ""},
	} {
		out, found, err := redactor.Document([]byte(c.in))
		var kinds []string
		for _, r := range found {
			kinds = append(kinds, r.Path+":"+string(rune('0'+r.Line))+" "+strings.Join(r.Kinds, ","))
		}
		want := c.want
		if want == "" {
			want = c.in
		}
		if err != nil || string(out) != want || strings.Join(kinds, "|") != c.kinds {
			t.Errorf("%s: %v\ngot  %s %q\nwant %s %q", c.reading, err, out, kinds, want, c.kinds)
		}
	}
	if _, _, err := redactor.Document([]byte("{\n\"a\":}")); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
		t.Error(err)
	}
}

// A canary in every string and below every key of a manifest appears nowhere
// after, and the document is still one.
func TestRedactDocumentCanary(t *testing.T) {
	t.Parallel()
	const canary = "s3cr3t-key-of-mine"
	values := []string{canary, "/u/alice/runs", "gpubox-7", "http://alice:pw@10.0.0.3/"}
	check := func(seed string, values ...string) {
		t.Helper()
		in, places := string(readFile(t, seed+".json")), 0
		for _, p := range [][3]string{{`"measured"`, `"`, `"`}, {`"runpile.`, `"`, `.`}, {"serve ", "serve ", " "}} {
			var b strings.Builder
			for i, part := range strings.SplitAfter(in, p[0]) { // the values in turn
				if rest, ok := strings.CutSuffix(part, p[0]); ok {
					part = rest + p[1] + values[i%len(values)] + p[2]
					places++
				}
				b.WriteString(part)
			}
			in = b.String()
		}
		out, found, err := redactor.Document([]byte(in))
		if err != nil || len(found) < 4 || places < 9 {
			t.Errorf("%s %s: %d found of %d, %v", seed, values, len(found), places, err)
		}
		for _, v := range values {
			if n := strings.Count(in, v); n < 5 || bytes.Contains(out, []byte(v)) {
				t.Errorf("%s: %s was put in %d times and is left", seed, v, n)
			}
		}
		again, more, err := redactor.Document(out)
		if err != nil || len(more) > 0 || !bytes.Equal(again, out) {
			t.Errorf("%s %s: redacted twice: %v %v", seed, values, more, err)
		}
	}
	for _, seed := range seeds {
		for _, v := range values {
			check(seed, v)
		}
	}
	check("seed-experiment", values...) // each has a share of its many places
}

func TestWordSpans(t *testing.T) {
	for _, line := range []string{"", " ", "a", "  a  b\tc ", `a 'b c' "d 'e'" f\ g ''`, `'it'\''s' x`, `"open x`, `x\`, "é 'ü ' z"} {
		var words []string
		for _, s := range wordSpans(line) {
			words = append(words, strings.Join(SplitWords(line[s[0]:s[1]]), "|"))
		}
		want := slices.DeleteFunc(SplitWords(line), func(string) bool { return false })
		if diff := cmp.Diff(want, words); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}

func FuzzRedactDocument(f *testing.F) {
	f.Add([]byte(`{"launch_command":"A=/x/y vllm serve 'a b' --api-key k\n\\","n":[1,{"HF_TOKEN":"x"}]}`))
	f.Add(readFile(f, "seed-run-2.json"))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, _, err := redactor.Document(data)
		if err != nil {
			return
		}
		if err := checkTokens(out); err != nil && !strings.Contains(err.Error(), "twice") {
			t.Fatalf("%q became %q: %v", data, out, err)
		}
	})
}
