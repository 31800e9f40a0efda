package manifest

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var redactor = Redactor{
	Secrets:   []string{"s3cr3t-key-of-mine", "EMPTY", "abc", "", "a/b+c==secret"},
	Home:      "/u/alice",
	HostNames: []string{"gpubox-7", "gpu", "localhost"},
	UserNames: []string{"alice", "root", "ubuntu", "al"},
}

func TestRedactorString(t *testing.T) {
	for _, c := range []struct{ in, want, kinds string }{
		{"", "", ""},
		{"1024->256 tokens at 12.5 req/s", "1024->256 tokens at 12.5 req/s", ""},

		{"key s3cr3t-key-of-mine.", "key <redacted>.", "secret"},
		{"xs3cr3t-key-of-minex", "x<redacted>x", "secret"},
		{"q=a%2Fb%2Bc%3D%3Dsecret", "q=<redacted>", "secret"},
		{"key EMPTY, but EMPTYING stays", "key <redacted>, but EMPTYING stays", "secret"},
		{"abc is too short to be one", "abc is too short to be one", ""},
		{"Authorization: Bearer abcdefgh.ij", "Authorization: Bearer <redacted>", "secret"},
		{"bearer tok", "bearer tok", ""},
		{"sk-proj-0123456789abcdef", "<redacted>", "secret"},
		{"task-0123456789abcdef", "ta<redacted>", "secret"}, // the schema's pattern has no word boundary
		{"hf_abcdefghijklmnopqrstuv", "<redacted>", "secret"},
		{"HF_TOKEN=xyz OPENAI_API_KEY='q'", "HF_TOKEN=<redacted> OPENAI_API_KEY='<redacted>'", "secret"},
		{"MY_TOKEN=5 max_tokens=256 num_token=7", "MY_TOKEN=<redacted> max_tokens=256 num_token=7", "secret"},
		{`{"api_key": "x", "n": 1}`, `{"api_key": "<redacted>", "n": 1}`, "secret"},
		{"http://h.org/x?key=abc&n=1", "http://h.org/x?key=<redacted>&n=1", "secret"},
		{"http://u:p@h.org/v1", "http://<redacted>@h.org/v1", "secret"},
		{"http://u:p<@>w@h.org/v1", "http://<redacted>@h.org/v1", "secret"},

		{"open /home/bob/x.json: no such file", "open <local-path> no such file", "local_path"},
		{"in /u/alice/runs/1 and /u/alice", "in <local-path> and <local-path>", "local_path"},
		{"/u/alicette/x is another's", "<local-path> is another's", "local_path"},
		{"see ~/x, ~bob/y and C:\\Users\\x", "see <local-path>, <local-path> and <local-path>", "local_path"},
		{"about ~5/s", "about ~5/s", ""},
		{"'/models/qwen3'", "'<local-path>'", "local_path"},
		{"file:///home/x/y", "<local-path>", "local_path"},
		{"/v1/completions and /health", "/v1/completions and /health", ""},
		{"http://127.0.0.1:9000/v1/models", "http://127.0.0.1:9000/v1/models", ""},
		{"https://h.org/home/x/y", "https://h.org/home/x/y", ""}, // a letter before the path: no local one
		{"application/json, and/or", "application/json, and/or", ""},
		{"/root", "/root", ""}, // alone it tells nothing

		{"10.0.0.1:8000, 192.168.1.2 172.16.0.9 172.32.0.9 169.254.3.4", "<lan-address>:8000, <lan-address> <lan-address> 172.32.0.9 <lan-address>", "lan_address"},
		{"127.0.0.1 8.8.8.8 0.10.1.2.3", "127.0.0.1 8.8.8.8 0.10.1.2.3", ""},
		{"10.999.1.2 is one by the schema", "<lan-address> is one by the schema", "lan_address"},
		{"[fd00::1]:8000, fe80::1%eth0: up", "[<lan-address>]:8000, <lan-address>: up", "lan_address"},
		{"[::1]:8000 and 2001:db8::1", "[::1]:8000 and 2001:db8::1", ""},
		{"::ffff:10.0.0.1", "::ffff:<lan-address>", "lan_address"},

		{"alice ran it on gpubox-7", "<redacted> ran it on <redacted>", "name"},
		{"malice", "malice", ""},
		{"root@h ubuntu@gpu", "<redacted>@h <redacted>@<redacted>", "name"},
		{"Ubuntu root ubuntu gpu localhost al", "Ubuntu root ubuntu gpu localhost al", ""},
	} {
		got, kinds := redactor.String(c.in)
		if k := strings.Join(kinds, " "); got != c.want || k != c.kinds {
			t.Errorf("%q: got %q (%s), want %q (%s)", c.in, got, k, c.want, c.kinds)
		}
	}
}

// A canary: no given secret is left, wherever it stood.
func TestRedactorCanary(t *testing.T) {
	const canary = "CANARY-0123456789"
	r := Redactor{Secrets: []string{canary}}
	for _, form := range []string{"%s", "x%sx", "http://u:%s@h/", "http://h/?k=%s", "Bearer %s", `{"k":"%s"}`, "/home/%s/x", "<%s>", "<redacted>%s", "%[1]s%[1]s"} {
		text := fmt.Sprintf(form, canary)
		if got, _ := r.String(text); strings.Contains(got, canary) {
			t.Errorf("%s: %s", text, got)
		}
		if got, _ := r.Command([]string{text, text, "--flag", text, "--x=" + text, "--" + text, "--header", "A=" + text}); strings.Contains(got, canary) {
			t.Errorf("%s: %s", text, got)
		}
	}
}

func TestRedactorCommand(t *testing.T) {
	for _, c := range []struct {
		why  string
		argv []string
		want string
	}{
		{"nothing", nil, ""},
		{"the program by its base name", []string{"/u/alice/bin/servebench", "serve"}, "servebench serve"},
		{"counts stay", strings.Fields("servebench serve --num-prompts 256 --seed -1 --request-rate inf --ignore-eos"), "servebench serve --num-prompts 256 --seed -1 --request-rate inf --ignore-eos"},
		{"the loopback and the endpoint stay", strings.Fields("servebench serve --base-url http://127.0.0.1:9000 --endpoint /v1/completions --host localhost"),
			"servebench serve --base-url http://127.0.0.1:9000 --endpoint /v1/completions --host localhost"},
		{"an endpoint below a prefix", strings.Fields("servebench serve --endpoint=/gpt/oss/completions"), "servebench serve --endpoint=/gpt/oss/completions"},
		{"addresses and names of a private network", strings.Fields("servebench serve --base-url http://10.0.0.5:8000 --replica-url http://node7:8000 --replica-url http://a.corp:1 --host https://api.openai.com"),
			"servebench serve --base-url http://<lan-address>:8000 --replica-url http://<lan-address>:8000 --replica-url http://<lan-address>:1 --host https://api.openai.com"},
		{"user info", strings.Fields("servebench serve --base-url http://u:p@h.org"), "servebench serve --base-url http://<redacted>@h.org"},
		{"files and folders", strings.Fields("servebench serve --dataset-path data.jsonl --result-dir results --result-filename out/r.json --tokenizer ./tok --manifest m/a.json --records=/x/y --subject s.yaml"),
			"servebench serve --dataset-path <local-path> --result-dir <local-path> --result-filename r.json --tokenizer <local-path> --manifest <local-path> --records=<local-path> --subject s.yaml"},
		{"repositories stay", strings.Fields("servebench serve --tokenizer google/gemma --model google/gemma --dataset-name hf --dataset-path org/data"),
			"servebench serve --tokenizer google/gemma --model google/gemma --dataset-name hf --dataset-path org/data"},
		{"a folder of a model", strings.Fields("servebench serve --model /models/x --tokenizer a/b/c"), "servebench serve --model <local-path> --tokenizer <local-path>"},
		{"headers", []string{"servebench", "serve", "--header", "Authorization=Bearer x", "X-A: b", "loose", "--seed", "0"},
			"servebench serve --header Authorization=<redacted> X-A=<redacted> <redacted> --seed 0"},
		{"headers, abbreviated", []string{"servebench", "--head", "A=b"}, "servebench --head A=<redacted>"},
		{"flags that are secret", strings.Fields("x --api-key -abc --hf_token=q --password p --tokenizer t --max-tokens 5 --prompt-token-ids"),
			"x --api-key <redacted> --hf_token=<redacted> --password <redacted> --tokenizer t --max-tokens 5 --prompt-token-ids"},
		{"prompts", []string{"x", "--system-prompt", "be nice", "--extra-body", `{"prompt":"hi","top_k":5,"x_token":"q","n":[{"messages":[]}],"stop":"<e>"}`},
			`x --system-prompt <redacted> --extra-body '{"n":[{"messages":"<redacted>"}],"prompt":"<redacted>","stop":"<e>","top_k":5,"x_token":"<redacted>"}'`},
		{"a body that is no JSON", []string{"x", "--extra-body", "{"}, "x --extra-body <redacted>"},
		{"one secret member of a body", []string{"x", "--extra-body.api_key", "q", "--extra-body.top_k", "5"}, "x --extra-body.api_key <redacted> --extra-body.top_k 5"},
		{"labels", strings.Fields("x --metadata repetition=1 api_key=q dir=/srv/x out=./y"), "x --metadata repetition=1 api_key=<redacted> dir=<local-path> out=<local-path>"},
		{"quotes", []string{"x", "--a", "b c", "--d", "it's", "--e", ""}, `x --a 'b c' --d 'it'\''s' --e ''`},
		{"one line", []string{"x", "a\nb\tc'd"}, `x $'a\nb\tc\'d'`},
		{"a secret across two words", []string{"x", "Bearer", "abcdefgh12"}, "x Bearer <redacted>"},
		{"other paths", strings.Fields("x --trace traces/a.jsonl --cert /etc/ssl/x.pem --y ~/z k=/opt/x"), "x --trace <local-path> --cert <local-path> --y <local-path> k=<local-path>"},
	} {
		got, _ := redactor.Command(c.argv)
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.why, got, c.want)
		}
	}
}

// Rules C4 and C9 read the command that Command wrote.
func TestRedactorCommandIsReadBack(t *testing.T) {
	argv := []string{"servebench", "serve", "--num-prompts", "256", "--result-filename", "/tmp/x/r.json", "--extra-body", `{"a": "it's"}`, "--metadata", "a=b c"}
	line, kinds := redactor.Command(argv)
	c := parseCommand(line)
	if name, _ := c.value("result-filename"); name != "r.json" || c.flags["extra-body"][0] != `{"a":"it's"}` || c.flags["metadata"][0] != "a=b c" {
		t.Errorf("%s is read as %v", line, c)
	}
	if !slices.Equal(kinds, []string{pathKind}) {
		t.Errorf("kinds %v", kinds)
	}
}

// forbidden are the patterns of publicText, read from the schema.
func forbidden(t testing.TB) []*regexp.Regexp {
	t.Helper()
	schema := parse[map[string]any](t, schemaText)
	text := mapOf(mapOf(schema["$defs"])["publicText"])
	var patterns []*regexp.Regexp
	for _, p := range sliceOf(mapOf(text["not"])["anyOf"]) {
		patterns = append(patterns, regexp.MustCompile(mapOf(p)["pattern"].(string)))
	}
	if len(patterns) != 3 {
		t.Fatalf("%d patterns", len(patterns))
	}
	return patterns
}

func FuzzRedactor(f *testing.F) {
	for _, s := range []string{"", "/home/a/b", "x/tmp/<redacted>/tmp/", "10.1.2.3.4.5", "010.1.2.3", "hf_hf_aaaaaaaaaaaaaaaaaaaaaaa", "sk-sk-aaaaaaaaaaaaaaaaaaaaaaa",
		"Bearer bearer aaaaaaaaaaaaa", "http://a:b@c@d/x?key=1", "fd00::1%a", "fe80:::", "~a/b", "/u/alice/u/alice/", "aliceal@alice", "<redacted>@<local-path>/home/x",
		"a\xff/home/\xff", "EMPTYEMPTY EMPTY", "api_key=api_key=b", "--header\nAuthorization: Bearer aaaaaaaa"} {
		f.Add(s)
	}
	patterns := forbidden(f)
	f.Fuzz(func(t *testing.T, in string) {
		check := func(what, out string) {
			t.Helper()
			for _, p := range patterns {
				if p.MatchString(out) {
					t.Errorf("%s of %q: %q matches %s", what, in, out, p)
				}
			}
		}
		for _, r := range []*Redactor{{}, &redactor} {
			out, _ := r.String(in)
			check("String", out)
			if (out == "") != (in == "") {
				t.Errorf("%q became %q", in, out)
			}
			if again, kinds := r.String(out); again != out {
				t.Errorf("%q became %q, then %q (%v)", in, out, again, kinds)
			}
			line, _ := r.Command(append([]string{"servebench"}, strings.Split(in, " ")...))
			check("Command", line)
			if strings.ContainsAny(line, "\n\r") {
				t.Errorf("%q is more than a line", line)
			}
			r.Command(strings.Split(in, " "))
		}
	})
}

func ExampleRedactor_Command() {
	r := Redactor{Home: "/home/me"}
	line, kinds := r.Command([]string{"servebench", "serve", "--dataset-path", "/home/me/p.jsonl", "--header", "Authorization=Bearer x"})
	fmt.Println(line)
	fmt.Println(kinds)
	// Output:
	// servebench serve --dataset-path <local-path> --header Authorization=<redacted>
	// [local_path secret]
}

// Pieces put together at random reach what a fuzzer's single bytes do not.
func TestRedactorFragments(t *testing.T) {
	t.Parallel()
	pieces := []string{"/home/", "/tmp/", "/u/alice", "alice", "root", "al", "@", "~", ":", "//", "http", "https://", "10.0.0.1", "192.168.", "1.2", ".3", "0", "9", "fd00::1",
		"fe80:", ":", "%eth0", "hf_", "sk-", "aaaaaaaaaaaaaaaaaaaa", "Bearer ", "bearer  ", "Authorization", "api_key", "TOKEN", "_TOKEN", "=", "?key=", "<redacted>",
		"<local-path>", "<lan-address>", "<", ">", "'", "\"", " ", "\n", "\t", "v1/", "/v1/", "s3cr3t-key-of-mine", "EMPTY", "gpubox-7", ".", "-", "_", "\\", "C:\\", "é", "\xff"}
	patterns := forbidden(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var b strings.Builder
		for range 1 + rnd.IntN(8) {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		in := b.String()
		for _, r := range []*Redactor{{}, &redactor} {
			out, _ := r.String(in)
			again := out
			if out != in { // else it is the same question
				again, _ = r.String(out)
			}
			line, _ := r.Command([]string{"x", in, "--header", in})
			for _, p := range patterns {
				if p.MatchString(out) || p.MatchString(line) {
					t.Fatalf("%q becomes %q and %q, which match %s", in, out, line, p)
				}
			}
			if again != out || out == "" {
				t.Fatalf("%q becomes %q, then %q", in, out, again)
			}
		}
	}
}

// What was cut before it was redacted ends in an ellipsis: half a secret is one.
func TestHalfASecret(t *testing.T) {
	r := &Redactor{Secrets: []string{"canary-key-0123", "EMPTY"}, UserNames: []string{"canaryuser"}, HostNames: []string{"root"}}
	for in, want := range map[string]string{
		"key canary-k…":                       "key <redacted>…",
		"key canary-key-0123…":                "key <redacted>…",
		"a canaryus… and cana… b":             "a <redacted>… and <redacted>… b",
		"can… EMP… roo… c":                    "can… EMP… roo… c",
		"canary-key without an end":           "canary-key without an end",
		"at http://u:pass…":                   "at http://<redacted>…",
		"at http://canaryuser:pass…":          "at http://<redacted>…",
		"at http://127.0.0.1:80…":             "at http://127.0.0.1:80…",
		"at http://[::1]:80/x…":               "at http://[::1]:80/x…",
		"at http://example.com/a:b…":          "at http://example.com/a:b…",
		"at http://example.com, and: so on …": "at http://example.com, and: so on …",
	} {
		got, _ := r.String(in)
		if again, kinds := r.String(got); got != want || again != got || len(kinds) > 0 {
			t.Errorf("%q: %q, then %q; want %q", in, got, again, want)
		}
	}
}
