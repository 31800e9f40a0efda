package runfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/servebench/servebench/manifest"
)

// known are a few flags of each form.
var known = []Flag{
	{Name: "backend", Default: "openai", Choices: []string{"openai", "openai-chat"}},
	{Name: "model"}, {Name: "dataset-name", Default: "random"},
	{Name: "random-input-len", Kind: "whole", Default: "1024"}, {Name: "random-output-len", Kind: "whole", Default: "128"},
	{Name: "num-prompts", Kind: "whole", Default: "1000"}, {Name: "num-warmups", Kind: "whole"},
	{Name: "max-concurrency", Kind: "whole"}, {Name: "request-rate", Kind: "number", Default: "inf"}, {Name: "temperature", Kind: "number"},
	{Name: "ignore-eos", Switch: true}, {Name: "save-result", Switch: true},
	{Name: "goodput", Several: true}, {Name: "header", Several: true},
	{Name: "extra-body", Kind: "json", Object: true}, {Name: "label"},
	{Name: "result-dir"}, {Name: "percentile-metrics"}, {Name: "metric-percentiles"},
}

// files are read by name; others are not there.
type files map[string]string

func (f files) read(path string) ([]byte, error) {
	if s, ok := f[path]; ok {
		return []byte(s), nil
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: errors.New("no such file")}
}

func run(t *testing.T, text string, f files) *Run {
	t.Helper()
	r, err := ParseRun("conf/r.yaml", []byte(text), Options{Flags: known, Read: f.read})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The contract's example, entire.
const entire = `bench:
  backend: openai
  dataset_name: random
  random-input-len: 1_024
  max-concurrency: 16
  request-rate: .inf
  temperature: 0
  ignore-eos: true
  label: 1.10
  goodput: [ttft:200, tpot:5]
  extra-body: {a: {b: [1, x]}}
subject: s.yaml
host: host.yaml
environment: {topology: One server engine on one GPU., interconnect: single device}
server:
  command: [vllm, serve, "{model}", --revision, "{revision}", --port, "{port}", --speculative-config, '{"method":"mtp"}', --budget, "{max_num_batched_tokens}", --tp, 2]
  env: {HF_HUB_OFFLINE: 1, V: "{variant}"}
  dir: work
  devices: [0, 1]
  port: 9000
  replicas: 2
  ready_timeout: 20m
  stop_timeout: 1.5s
  log_warnings: ["uncalibrated FP8 KV"]
  safe_env: [HF_HUB_OFFLINE, VLLM_*]
  build_identifier: vllm-0.23.0-cu129
  dependencies: {pytorch: 2.10}
vars: {max_num_batched_tokens: 10240}
sim: {like: run1.manifest.json, args: [--time-scale, 0.10]}
labels: {variant: fp8, repetition_index: 1}
prefix_behavior: {cache_state: warm-host, reset_policy: none}
auxiliary_models: [{role: mtp-assistant, weight_bytes: 1}]
load_balancer: {type: round_robin, retry_other_replica_on_connect_failure: true}
telemetry: {gpu: true, interval: 1s, engine_metrics: false}
publish: {name: "{subject.identifier} | {variant} | {input}->{output}", visibility: public, artifact_visibility: private}
deadline: 10m
`

var wholeFiles = files{
	"conf/s.yaml":    "identifier: a/b\nrevision: main\n",
	"conf/host.yaml": "os: Ubuntu 24.04\ncpu: {model: X, sockets: 2}\naccelerators: [{model: RTX, count: 1, memory_bytes_per_device: 32}]\n",
}

func TestParseRun(t *testing.T) {
	r := run(t, entire, wholeFiles)
	var words []string
	for _, g := range r.Given() {
		words = append(words, g.Words...)
	}
	want := []string{"--backend=openai", "--dataset-name=random", "--random-input-len=1_024", "--max-concurrency=16", "--request-rate=inf",
		"--temperature=0", "--ignore-eos=true", "--label=1.10", "--goodput", "ttft:200", "tpot:5", `--extra-body={"a":{"b":[1,"x"]}}`}
	if diff := cmp.Diff(want, words); diff != "" {
		t.Error(diff)
	}
	if r.Subject.Identifier != "a/b" || r.Subject.RevisionKind != "tag" || r.Host.CPU.Sockets != 2 || r.Host.Accelerators[0].MemoryBytesPerDevice != 32 {
		t.Errorf("subject %+v, host %+v", r.Subject, r.Host)
	}
	if r.Server.Dir != "conf/work" || r.Sim.Like != "conf/run1.manifest.json" || r.Sim.Args[1] != "0.10" || r.Server.Dependencies["pytorch"] != "2.10" {
		t.Errorf("paths and words: %+v, %+v", r.Server, r.Sim)
	}
	full, err := r.Resolve("", false)
	if err != nil {
		t.Fatal(err)
	}
	c, err := full.Config()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.Command, " "); got != `vllm serve a/b --revision main --port {port} --speculative-config {"method":"mtp"} --budget 10240 --tp 2` {
		t.Error(got)
	}
	if c.Env["V"] != "fp8" || c.Env["HF_HUB_OFFLINE"] != "1" || c.StopTimeout.Seconds() != 1.5 || c.Replicas != 2 {
		t.Errorf("%+v", c)
	}
	if full.Publish.Name != "a/b | fp8 | {input}->{output}" {
		t.Error(full.Publish.Name)
	}
	if r.At("server.ready_timeout") != "conf/r.yaml:22:18" || r.At("bench.dataset-name") != "conf/r.yaml:3:17" || r.At("server.none") != "conf/r.yaml:16:3" {
		t.Error(r.At("server.ready_timeout"), r.At("bench.dataset-name"), r.At("server.none"))
	}
	sim, err := r.Resolve("", true)
	if got := strings.Join(sim.Server.Command, " "); err != nil || !strings.HasPrefix(got, "{servebench} sim --like conf/run1.manifest.json --time-scale 0.10 a/b --revision main") {
		t.Error(got, err)
	}
}

// A run written as JSON is a run file that says the same.
func TestRunSurvivesJSON(t *testing.T) {
	r := run(t, entire, wholeFiles)
	r.Server.Dir, r.Sim.Like = "", "" // relative to another folder then
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseRun("x/y.json", b, Options{Flags: known})
	if err != nil {
		t.Fatal(err)
	}
	b2, err := json.Marshal(again)
	if err != nil || string(b) != string(b2) {
		t.Errorf("%v: %s", err, cmp.Diff(string(b), string(b2)))
	}
}

func TestParseRunErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "r.yaml: the file is empty"},
		{"# nothing\n", "r.yaml: the file is empty"},
		{"- a\n", "r.yaml:1:1: a list; want the keys of a run file, such as bench"},
		{"bench: {}\n---\nbench: {}\n", "r.yaml:2:1: a second YAML document; want one in a file"},
		{"benhc: {}\n", "r.yaml:1:1: benhc is no key that is known; did you mean bench?"},
		{"max_concurrency: 4\n", "r.yaml:1:1: max_concurrency is no key that is known; it is a flag: did you mean bench.max-concurrency?"},
		{"bench:\n  max-concurency: 4\n", "r.yaml:2:3: bench.max-concurency is no flag of servebench serve; did you mean bench.max-concurrency?"},
		{"bench:\n  model: a\n  model: b\n", "r.yaml:3:3: model is given twice, first on line 2"},
		{"bench:\n  num-prompts: 1\n  num_prompts: 2\n", "r.yaml:3:3: bench.num-prompts is given twice, first on line 2"},
		{"bench:\n  ignore-eos: yes\n", `r.yaml:2:15: bench.ignore-eos is "yes"; want true or false`},
		{"bench:\n  model:\n", "r.yaml:2:10: bench.model has no value; want one, or leave the key out"},
		{"bench:\n  model: [a]\n", "r.yaml:2:10: bench.model is a list; want one value"},
		{"bench:\n  model: {a: 1}\n", "r.yaml:2:11: bench.model is a mapping; want one value"},
		{"bench:\n  header: [-H]\n", `r.yaml:2:11: bench.header holds "-H"; want words that do not begin with -`},
		{"server: {}\n", "r.yaml:1:9: server.command is missing"},
		{"server:\n  command: vllm 'serve\n", "r.yaml:2:12: server.command: a quotation mark without its end"},
		{"server:\n  command: [vllm]\n  ready_timeout: 20\n", `r.yaml:3:18: server.ready_timeout is "20"; want a duration such as 20m or 1.5s`},
		{"server:\n  command: [vllm]\n  readytimeout: 20m\n", "r.yaml:3:3: server.readytimeout is no key that is known; did you mean server.ready_timeout?"},
		{"server:\n  command: [vllm]\n  replicas: 0\n", "r.yaml:3:13: server.replicas is 0; want 1 or more"},
		{"server:\n  command: [vllm]\n  managed: false\n  replicas: 1000000000\n", "r.yaml:4:13: server.replicas is 1000000000; want 256 at most"},
		{"publish: {license: MIT}\n", "publish.license is \"MIT\"; want CC-BY-4.0 or CC0-1.0"},
		{"server:\n  command: [vllm]\n  devices: [0, -1]\n", "r.yaml:3:16: server.devices[1] is -1; want 0 or more"},
		{"server:\n  command: [vllm]\n  port: 0x50\n", `r.yaml:3:9: server.port is "0x50"; want a whole number`},
		{"server:\n  command: [vllm]\n  log_warnings: [a, '(']\n", "r.yaml:3:21: server.log_warnings[1]: error parsing regexp"},
		{"subject:\n  identifier: a\n  revision: 1.10\n", `r.yaml:3:13: subject.revision is text; put the value in quotes: "1.10"`},
		{"subject:\n  identifier: a\n  licence: x\n", "r.yaml:3:3: subject.licence is no key that is known"},
		{"subject: {revision: a}\n", "subject.identifier is missing"},
		{"subject:\n  identifier: a\n  modifications:\n  - fine\n  - /home/x/y\n", "r.yaml:5:5: subject.modifications/1: public text must hold no local path"},
		{"subject: none.yaml\n", "r.yaml:1:10: subject: open conf/none.yaml: no such file"},
		{"subject: bad.yaml\n", `conf/bad.yaml:2:1: unknown field "licence"`},
		{"host: bad.yaml\n", "conf/bad.yaml:1:1: host.identifier is no key that is known"},
		{"publish: {visibility: secret}\n", `publish.visibility is "secret"; want public or private`},
		{"deadline: -1s\n", `deadline is "-1s"; want a duration`},
		{"a: *x\n", "r.yaml:1:4: *x: no anchor before it has this name"},
		{"a: &x [*x]\n", "r.yaml:1:8: *x: no anchor before it has this name"},
		{"a: !!binary eA==\n", "the tag !!binary is not read"},
		{"bench: {<<: 3}\n", "<< merges a number; want a mapping"},
		{"experiment: {}\n", "an experiment; want a run file here, and servebench sweep -f for this one"},
		{"bench: {a\n", "r.yaml:1:"},
		{strings.Repeat("[", 100), "nested too deeply; want 64 levels at most"},
		{strings.Repeat("- ", 1000) + "a", "nested too deeply; want 64 levels at most"},
		{strings.Repeat("#", maxBytes+1), "bytes; want 262144 at most"},
		{strings.Repeat("a: 1\n", 20_000), "YAML tokens; want 30000 at most"},
		{bomb(), "more than 100000 values, with the aliases written out"},
	} {
		_, err := ParseRun("conf/r.yaml", []byte(c.text), Options{Flags: known, Read: files{"conf/bad.yaml": "identifier: a\nlicence: x\n"}.read})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: %v\nwant %s", c.text, err, c.want)
		}
	}
}

// bomb doubles itself with every line.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x]\n")
	for i := range 30 {
		fmt.Fprintf(&b, "a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	return b.String()
}

func TestAllMistakesAtOnce(t *testing.T) {
	_, err := ParseRun("r.yaml", []byte("bench: {x1: 1, model: [a]}\nserver: {command: [a], port: x}\ndeadline: 3\n"), Options{Flags: known})
	if n := len(strings.Split(fmt.Sprint(err), "\n")); n != 4 {
		t.Errorf("%d mistakes, want 4: %v", n, err)
	}
}

func TestMergeKeysAndAnchors(t *testing.T) {
	r := run(t, "bench:\n  <<: &common {model: a, num-prompts: 5}\n  model: b\nlabels: &l {v: 1}\nvars: *l\n", nil)
	if diff := cmp.Diff(Bench{"model": "b", "num-prompts": json.Number("5")}, r.Bench); diff != "" || r.Vars["v"] != "1" {
		t.Error(diff, r.Vars)
	}
}

func TestUnknownTemplateNames(t *testing.T) {
	r := run(t, "server:\n  command: [vllm, serve, '{modle}', '{port}']\n  env: {A: '{nothing_like_it}'}\nsubject: {identifier: a/b}\npublish:\n  name: '{varian}'\n", nil)
	_, err := r.Resolve("", false)
	for _, want := range []string{"conf/r.yaml:2:12: server.command: {modle} has no value; did you mean {model}?", "conf/r.yaml:3:12: server.env.A: {nothing_like_it} has no value; want one of model, subject.identifier", "conf/r.yaml:6:9: publish.name: {varian} has no value; did you mean {variant}?"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func TestUnmanagedServer(t *testing.T) {
	r := run(t, "server: {managed: false, command: 'vllm serve m --port {port}', devices: [0, 1, 2, 3], replicas: 2, port: 9001, env: {A: 'x{replica}-{devices}'}}\n", nil)
	if c, err := r.Config(); c != nil || err != nil {
		t.Errorf("%v, %v: nothing is to be started", c, err)
	}
	got := r.Launched()
	if len(got) != 2 || strings.Join(got[1].Args, " ") != "vllm serve m --port 9002" || got[1].Env["CUDA_VISIBLE_DEVICES"] != "2,3" || got[0].Env["A"] != "x0-0,1" {
		t.Errorf("%+v", got)
	}
}

// What a redaction took out of a manifest is left out, and told.
func TestRunOfManifest(t *testing.T) {
	inner := `{"schema_version": "1.0", "measurement": {"extensions": {"servebench.run_file": {"bench": {"model": "m", "header": ["A=<redacted>"], "extra-body": {"k": "<redacted>", "n": 1}},
		"server": {"command": ["vllm", "serve", "<local-path>"], "env": {"A": "<redacted>", "B": "1"}}, "sim": {"like": "<local-path>"}}}}}`
	for _, text := range []string{inner, `{"manifest": ` + inner + `, "id": "run_x"}`} {
		r := run(t, text, nil)
		if len(r.Bench) != 2 || len(r.Server.Env) != 1 || r.Sim.Like != "" {
			t.Errorf("%+v", r)
		}
		if want := 4; len(r.Notes()) != want || !slices.ContainsFunc(r.Notes(), func(s string) bool { return strings.HasPrefix(s, "bench.header was taken out") }) {
			t.Errorf("%q, want %d", r.Notes(), want)
		}
		if _, err := r.Config(); err == nil || !strings.Contains(err.Error(), "server.command holds <local-path>, which was taken out") {
			t.Error(err)
		}
	}
	_, err := ParseRun("m.json", []byte(`{"schema_version": "1.0"}`), Options{})
	if err == nil || !strings.Contains(err.Error(), "a manifest without measurement.extensions") {
		t.Error(err)
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{"", []string{}}, {" a  b ", []string{"a", "b"}}, {`a 'b c' "d \"e\\ \x" f\ g`, []string{"a", "b c", `d "e\ \x`, "f g"}},
		{"a \\\n b '' c\"d\"e", []string{"a", "b", "", "cde"}}, {`--x='{"a": 1}'`, []string{`--x={"a": 1}`}},
	} {
		got, err := Words(c.text)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%q: %v %s", c.text, err, diff)
		}
	}
	for _, bad := range []string{"'a", `a"b`, `a\`} {
		if got, err := Words(bad); err == nil {
			t.Errorf("%q became %q", bad, got)
		}
	}
}

// validator compiles the schema of a kind.
func validator(t *testing.T, kind string) *jsonschema.Schema {
	t.Helper()
	text, err := Schema(kind, known)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("s.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("s.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// instance is a YAML text as a JSON value.
func instance(t *testing.T, text string) any {
	t.Helper()
	n, err := parseYAML("x", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(n.plain())
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// What the schema takes and refuses is what the reader does, where a schema can say it.
func TestSchemaAgrees(t *testing.T) {
	s := validator(t, KindRun)
	for _, text := range []string{entire, string(Starter(KindRun))} {
		if err := s.Validate(instance(t, text)); err != nil {
			t.Errorf("%.40q: %v", text, err)
		}
	}
	for _, text := range []string{"benhc: {}", "bench: {max-concurency: 4}", "bench: {ignore-eos: yes}", "bench: {model: [a]}", "subject: {identifier: a, revision: 1.10}",
		"server: {command: [vllm], ready_timeout: 20}", "server: {command: [vllm], replicas: 0}", "publish: {visibility: secret}", "labels: {a: [1]}", "server: {command: []}"} {
		if s.Validate(instance(t, text)) == nil {
			t.Errorf("the schema takes %s", text)
		}
		if _, err := ParseRun("r", []byte(text), Options{Flags: known}); err == nil {
			t.Errorf("the reader takes %s", text)
		}
	}
	e := validator(t, KindExperiment)
	for _, text := range []string{judge, string(Starter(KindExperiment))} {
		if err := e.Validate(instance(t, text)); err != nil {
			t.Error(err)
		}
	}
}

// Every key that the types have is described.
func TestEveryKeyHasHelp(t *testing.T) {
	for _, s := range []*shape{runShape(), experimentShape()} {
		var walk func(*shape, string)
		walk = func(s *shape, path string) {
			for _, f := range s.fields {
				own := !slices.Contains([]string{"Subject", "Environment", "CPU", "Accelerator", "Quantization", "PrefixBehavior", "LoadBalancer", "VirtualEnvironment"}, s.name)
				if own && f.help == "" {
					t.Errorf("%s.%s has no help", path, f.key)
				}
				walk(f.shape, path+"."+f.key)
			}
			if s.of != nil {
				walk(s.of, path)
			}
		}
		walk(s, "")
	}
}

func FuzzParseRun(f *testing.F) {
	f.Add([]byte(entire))
	f.Add(Starter(KindRun))
	f.Add([]byte("bench: {<<: *a}\n? [a]\n: b\n"))
	f.Add([]byte(`{"schema_version":"1.0","measurement":{"extensions":{"servebench.run_file":{"bench":{"model":"m"}}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4<<10 {
			return
		}
		r, err := ParseRun("r.yaml", data, Options{Flags: known})
		if err != nil {
			return
		}
		full, err := r.Resolve("m", true)
		if err != nil {
			return
		}
		full.Config()
		full.Launched()
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseRun("again.yaml", b, Options{Flags: known}); err != nil && !strings.Contains(err.Error(), "deeply") && !strings.Contains(err.Error(), "empty") {
			t.Errorf("%v: %s", err, b)
		}
	})
}

func TestKindOf(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"", KindRun},
		{"[", KindRun},
		{"- identifier", KindRun},
		{"nobody: knows\n", KindRun},
		{"bench: {}\n", KindRun},
		{"subject: {identifier: a}\n", KindRun},
		{"groups: []\n", KindExperiment},
		{"groups: []\nbench: {}\n", KindExperiment},
		{"identifier: a\nvars: {}\n", KindRun},
		{"identifier: a\n", KindSubject},
		{"identifer: a\nrevision: b\n", KindSubject},
		{"os: Debian\n", KindHost},
		{"accelerators: [{count: 1}]\n", KindHost},
		{string(Starter(KindRun)), KindRun},
		{string(Starter(KindExperiment)), KindExperiment},
		{string(Starter(KindSubject)), KindSubject},
	} {
		if got := KindOf([]byte(row.text)); got != row.want {
			t.Errorf("%.40q is a %s file; want %s", row.text, got, row.want)
		}
	}
}

// What is in the starter for a subject is one, with and without the comments.
func TestStarterSubject(t *testing.T) {
	text := string(Starter(KindSubject))
	if _, err := manifest.ParseSubject("starter", []byte(text)); err != nil {
		t.Error(err)
	}
	// A line of the form "# key: value" is an example of a key.
	entire := regexp.MustCompile(`(?m)^( *)# ([a-z_]+: )`).ReplaceAllString(text, "$1$2")
	if s, err := manifest.ParseSubject("starter", []byte(entire)); err != nil || s.Quantization.Application == "" || s.Source != "huggingface" {
		t.Errorf("with all keys: %+v, %v", s, err)
	}
	if Starter(KindHost) != nil {
		t.Error("a host file to begin with")
	}
}
