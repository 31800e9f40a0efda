package manifest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var leaky = &Redactor{Secrets: []string{"s3cr3t-key"}, Home: "/nest/alice", HostNames: []string{"gpuhost-7"}, UserNames: []string{"alice", "root"}}

func TestLeaks(t *testing.T) {
	for _, c := range []struct {
		why, in string
		want    []Redaction
	}{
		{"nothing", "a line\n/v1/completions /models/x root 127.0.0.1 8.8.8.8\n", nil},
		{"what was taken out", `{"a": "<redacted> <local-path> <lan-address> http://<redacted>@h/ --api-key <redacted>"}`, nil},
		{"a text", "one\ntwo s3cr3t-key\nalice on gpuhost-7\n10.0.0.1 /nest/alice/x", []Redaction{{"", 2, []string{"secret"}}, {"", 3, []string{"name"}}, {"", 4, []string{"lan_address", "local_path", "name"}}}},
		{"a document", "{\n \"a/b\": [1, {\"c\": \"alice\"}]}", []Redaction{{"/a~1b/1/c", 2, []string{"name"}}}},
		{"a key", `{"x": {"alice": 1}}`, []Redaction{{"/x", 1, []string{"name"}}}},
		{"escaped for JSON", `"\u0061lice \/nest\/bob"`, []Redaction{{"/", 1, []string{"name"}}}},
		{"escaped for a URL", `"http:%2F%2Fx:y@host.example"`, []Redaction{{"/", 1, []string{"secret"}}}},
		{"lines of JSON", "{\"a\":1}\n{\"b\":\"hf_abcdefghijklmnopqrstuvwxyz\"}\n", []Redaction{{"/b", 2, []string{"secret"}}}},
		{"JSON that ends early", "{\"a\":\"alice\",\n", []Redaction{{"", 1, []string{"name"}}}},
		{"another's home", "x=/home/bob/y /root/.cache", []Redaction{{"", 1, []string{"local_path"}}}},
		{"part of a word", "malice gpuhost-77x", nil},
		{"empty", "", nil},
	} {
		if diff := cmp.Diff(c.want, leaky.Leaks([]byte(c.in), 10)); diff != "" {
			t.Errorf("%s: %s", c.why, diff)
		}
	}
	if got := leaky.Leaks([]byte(strings.Repeat("alice\n", 9)), 3); len(got) != 3 {
		t.Errorf("%d leaks, want 3", len(got))
	}
}

func TestHide(t *testing.T) {
	for in, want := range map[string]string{
		"/models/qwen3":               "/models/qwen3",
		"/nest/alice/m":               "<local-path>",
		"/home/bob/models/m":          "<local-path>",
		"org/model":                   "org/model",
		"by alice":                    "by <redacted>",
		"%6Eame %2Fnest%2Falice%2fx":  "%6Eame <local-path>%2fx",
		"%61lice":                     "<redacted>",
		"http://u:p@host.example/v1/": "http://<redacted>@host.example/v1/",
	} {
		if got := leaky.Hide(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// Whatever goes in: what String made of a text leaks no more, and neither does a
// document.
func FuzzLeaks(f *testing.F) {
	for _, s := range []string{"s3cr3t-key", "alice@gpuhost-7 /nest/alice", "http://u:p@10.0.0.1/?token=abcdefgh", `{"a":["alice"]}`, "%2Fnest%2Falice", "\x00%zz"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if hidden := leaky.Hide(s); len(leaky.leaks(hidden)) > 0 {
			t.Errorf("%q became %q, which has %q", s, hidden, leaky.leaks(hidden))
		}
		leaky.Leaks([]byte(s), 5)
		for _, r := range Redacted([]byte(s)) {
			if len(r.Kinds) == 0 {
				t.Error("a place without a kind")
			}
		}
	})
}

func TestCleanFitsTheSchema(t *testing.T) {
	run := parse[Run](t, marshal(t, document(t, "seed-run-1")))
	same, places, err := Clean(leaky, &run)
	if err != nil || same != &run || len(places) != 1 || places[0].Path != "/measurement/benchmark_command" {
		t.Errorf("%v, %v, %v", same == &run, places, err)
	}
	run.Subject.Identifier, run.Name, run.Notes = "alice/m", "m of alice", "on gpuhost-7"
	run.Runtime.Extensions = map[string]any{"servebench.x": map[string]any{"alice": 12345678901234567}}
	clean, places, err := Clean(leaky, &run)
	if err != nil {
		t.Fatal(err)
	}
	data, err := Encode(clean)
	if err != nil {
		t.Fatal(err)
	}
	if clean.Subject.Identifier != "redacted/m" || clean.Name != "m of <redacted>" || !strings.Contains(string(data), `"<redacted>": 12345678901234567`) || run.Notes != "on gpuhost-7" {
		t.Errorf("%q, %q, %v", clean.Subject.Identifier, clean.Name, clean.Runtime.Extensions)
	}
	var paths []string
	for _, p := range places {
		paths = append(paths, p.Path)
	}
	if want := []string{"/name", "/notes", "/runtime/extensions/servebench.x", "/measurement/benchmark_command"}; !slices.Equal(paths, want) {
		t.Errorf("%q, want %q", paths, want)
	}
}

func TestArtifactNames(t *testing.T) {
	if got := ArtifactNames(readFile(t, "seed-run-1.json")); len(got) != 1 {
		t.Errorf("%q", got)
	}
	if got := ArtifactNames(readFile(t, "seed-experiment.json")); len(got) != 22 || got[0] != "methodology.md" {
		t.Errorf("%d: %q", len(got), got)
	}
	if got := ArtifactNames([]byte("{")); got != nil {
		t.Errorf("%q", got)
	}
}
