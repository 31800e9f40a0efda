package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/runfile"
	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/manifest"
)

// write puts a file into a new folder and returns its path.
// resolved reads a command line of serve, with -f or without.
func resolved(t *testing.T, args ...string) (*options, error) {
	t.Helper()
	parsed, err := normalize(args, serveFlags())
	if err != nil {
		t.Fatal(err)
	}
	term := &terminal{out: io.Discard, err: io.Discard}
	r, err := term.runOf(parsed.given())
	if err != nil {
		return nil, err
	}
	return term.resolveRun(t.Context(), r, parsed.given())
}

func must(t *testing.T, args ...string) *options {
	t.Helper()
	o, err := resolved(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// A file is the same as its flags, and its resolved form says the same again.
func TestRunFileEqualsFlags(t *testing.T) {
	file := write(t, t.TempDir(), "run.yaml", `bench:
  backend: openai-chat
  model: m
  random_input_len: 1_000
  num-prompts: 20
  max-concurrency: 4
  request-rate: 2.50
  goodput: [ttft:200, tpot:5]
  metadata: [a=b c]
  temperature: 0
  ignore-eos: true
  stream: false
  label: 1.10
  extra-body: {stop: [x], n: 1}
  percentile-metrics: e2el
  sim: true
  sim-ttft: 1ms
`)
	flags := []string{"--backend", "openai-chat", "--model", "m", "--random-input-len", "1000", "--num-prompts", "20", "--max-concurrency", "4",
		"--request-rate", "2.5", "--goodput", "ttft:200", "tpot:5", "--metadata", "a=b c", "--temperature", "0", "--ignore-eos", "--stream=false", "--label", "1.10",
		"--extra-body", `{"n":1,"stop":["x"]}`, "--percentile-metrics", "e2el", "--sim", "--sim-ttft", "1ms"}
	same := cmpopts.IgnoreFields(bench.Config{}, "RequestIDPrefix")
	a, b := must(t, "-f", file), must(t, flags...)
	if diff := cmp.Diff(b.config, a.config, same); diff != "" || !cmp.Equal(a.sim, b.sim) || !slices.Equal(a.selected, b.selected) {
		t.Errorf("file (+) and flags (-): %s", diff)
	}
	again := must(t, "-f", write(t, t.TempDir(), "again.json", string(a.config.RunFile)))
	if diff := cmp.Diff(a.config, again.config, same); diff != "" {
		t.Errorf("the resolved file (+) and the first (-): %s", diff)
	}
}

// Flags go before the file's: lists too, and what names another target.
func TestFlagsGoBeforeTheFile(t *testing.T) {
	file := write(t, t.TempDir(), "run.yaml", "bench: {model: m, goodput: ['ttft:200', 'tpot:5'], metadata: [a=b], base-url: 'http://127.0.0.1:9', num-prompts: 7}\n")
	o := must(t, "-f", file, "--goodput", "e2el:1", "--metadata", "--num_prompts=3", "--sim")
	if diff := cmp.Diff(map[string]float64{"e2el": 1}, o.config.Goodput); diff != "" || o.config.Metadata != nil || o.config.Dataset.Prompts != 3 || o.sim == nil {
		t.Errorf("%s %v %d %v", diff, o.config.Metadata, o.config.Dataset.Prompts, o.sim)
	}
	if o := must(t, "-f", file, "--port", "8080"); o.config.Target.BaseURL != "http://127.0.0.1:8080" {
		t.Error(o.config.Target.BaseURL)
	}
	file = write(t, t.TempDir(), "sim.yaml", "bench: {sim: true, sim-ttft: 5ms}\n")
	if o := must(t, "-f", file, "--base-url", "http://127.0.0.1:7"); o.sim != nil || o.config.Target.BaseURL != "http://127.0.0.1:7" {
		t.Errorf("%v %s", o.sim, o.config.Target.BaseURL)
	}
	// A server section gives way to a server that is named.
	file = write(t, t.TempDir(), "server.yaml", "server: {command: [vllm, serve, m, --port, '{port}']}\n")
	if o := must(t, "-f", file, "--base-url", "http://127.0.0.1:7"); o.server != nil || strings.Contains(string(o.config.RunFile), "vllm") || len(o.remarks) != 1 {
		t.Errorf("%v %s %q", o.server, o.config.RunFile, o.remarks)
	}
	if o := must(t, "-f", file); o.server == nil {
		t.Error("no server is started")
	}
}

// Every mistake has its place, whoever finds it, and the key.
func TestRunFileMistakesHavePlaces(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"bench:\n  num-prompts: 1.5\n", `run.yaml:2:16: bench.num-prompts: "1.5" is not a whole number`},
		{"bench:\n  backend: openia\n", `run.yaml:2:12: bench.backend: "openia" is unknown; want one of`},
		{"bench:\n  percentile-metrics: ttfx\n", `run.yaml:2:23: bench.percentile-metrics: "ttfx" is no metric`},
		{"bench:\n  top-p: 7\n", "run.yaml:2:10: bench.top-p: 7; want 0 to 1"},
		{"bench:\n  base-url: 'http://127.0.0.1:1'\nserver: {command: [a]}\n", "run.yaml:2:13: bench.base-url names a server, and the section server starts one"},
		{"server:\n  command: [a, '{x}']\n", "run.yaml:2:12: server.command: {x} has no value"},
		{"bench:\n  sim-ttft: 1ms\n  sim: true\nserver:\n  command: [a, serve]\n", "run.yaml:2:13: bench.sim-ttft is for the simulator without a section server; want sim.args"},
		{"bench: {sim: true}\nserver:\n  command: [a]\n", "run.yaml:3:12: server.command has no word serve"},
		{"bench:\n  num-prompts: 1\n  nim-prompts: 1\n", "run.yaml:3:3: bench.nim-prompts is no flag of servebench serve; did you mean bench.num-prompts?"},
	} {
		path := write(t, t.TempDir(), "run.yaml", c.text)
		code, out, errs := command(t, "serve", "-f", path, "--dry-run")
		if code != exitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%q: exit %d: %s%s\nwant %s", c.text, code, errs, out, c.want)
		}
		code, _, errs = command(t, "config", "check", path)
		if code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("config check %q: exit %d: %s\nwant %s", c.text, code, errs, c.want)
		}
	}
	// A flag of the command line is none of the file's.
	_, _, errs := command(t, "serve", "-f", write(t, t.TempDir(), "run.yaml", "bench: {top-p: 0.5}\n"), "--top-p", "7", "--dry-run")
	if !strings.Contains(errs, "servebench: --top-p: 7; want") || strings.Contains(errs, "run.yaml") {
		t.Error(errs)
	}
	if code, _, errs := command(t, "serve", "-f", filepath.Join(t.TempDir(), "none.yaml")); code != exitUsage || !strings.Contains(errs, "no such file") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// readManifest reads a manifest that must hold the schema.
func readManifest(t *testing.T, path string) (*manifest.Run, string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	report, err := manifest.Profile{}.Check(data)
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("%s: %v %v", path, err, report.Problems)
	}
	var m manifest.Run
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return &m, string(data)
}

// A manifest is a run file: what it says can be run again with the same prompts,
// and what must not be public is not in it.
func TestManifestRunsAgain(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "run.yaml")
	err := os.WriteFile(file, []byte(`bench:
  model: org/m
  num-prompts: 5
  random-input-len: 9
  random-output-len: 3
  seed: 42
  temperature: 0
  header: ["X-Secret=canary-header"]
  extra-body: {api_key: canary-body, top_k: 3}
  metadata: [path=/home/canary/x]
  result-dir: `+dir+`
  result-filename: run.json
  save-result: true
subject: {identifier: org/m}
host: {os: Ubuntu 24.04}
labels: {variant: v1, path: /home/canary/y}
server:
  managed: false
  command: [/home/canary/bin/vllm, serve, org/m, --api-key, canary-key, --port, 8000, --chat-template, /home/canary/t.jinja]
  env: {PRIVATE: canary-env, VLLM_X: "1"}
  safe_env: [VLLM_*]
publish: {name: "{subject.identifier} {variant}", notes: from 192.168.7.9}
`), 0o666)
	if err != nil {
		t.Fatal(err)
	}
	quick := []string{"--sim", "--sim-ttft", "1ms", "--sim-itl", "100us"}
	if code, _, errs := command(t, append([]string{"serve", "-f", file}, quick...)...); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	first, text := readManifest(t, filepath.Join(dir, "run.manifest.json"))
	raw, err := json.Marshal(first.Measurement.Extensions["servebench.run_file"])
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"canary-header", "canary-body", "canary-env", "canary-key", "/home/canary", "192.168.7.9", dir} {
		if strings.Contains(string(raw), secret) {
			t.Errorf("the run file holds %s", secret)
		}
	}
	envelope := write(t, t.TempDir(), "enveloped.json", `{"id": "run_x", "manifest": `+text+`}`)
	for i, path := range []string{filepath.Join(dir, "run.manifest.json"), envelope} {
		out := filepath.Join(dir, fmt.Sprintf("again%d.json", i))
		code, _, errs := command(t, append([]string{"serve", "-f", path, "--result-filename", out}, quick...)...)
		if code != 0 || !strings.Contains(errs, "server.env.PRIVATE was taken out of the manifest") {
			t.Fatalf("exit %d: %s", code, errs)
		}
		again, _ := readManifest(t, strings.TrimSuffix(out, ".json")+".manifest.json")
		if again.Workload.RandomSeed != 42 || again.Workload.RequestCount != 5 {
			t.Errorf("%+v", again.Workload)
		}
	}
}

// Without secrets the prompts are the same to the byte, from a manifest of plain
// flags too.
func TestManifestRunsAgainToTheByte(t *testing.T) {
	dir := t.TempDir()
	if code, _, errs := command(t, serveArgs("--save-result", "--result-dir", dir, "--result-filename", "a.json", "--seed", "7", "--model", "m", "--extra-body", `{"top_k": 3}`, "--num-warmups", "2")...); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	path := filepath.Join(dir, "a.manifest.json")
	if code, _, errs := command(t, "serve", "-f", path, "--sim", "--result-filename", filepath.Join(dir, "b.json")); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	a, _ := readManifest(t, path)
	b, _ := readManifest(t, filepath.Join(dir, "b.manifest.json"))
	if a.Workload.Dataset.SHA256 == "" || a.Workload.Dataset.SHA256 != b.Workload.Dataset.SHA256 {
		t.Errorf("%s, then %s", a.Workload.Dataset.SHA256, b.Workload.Dataset.SHA256)
	}
	if diff := cmp.Diff(a.Measurement.Extensions["servebench.run_file"], b.Measurement.Extensions["servebench.run_file"]); diff != "" {
		t.Error(diff)
	}
}

// fakeServer is a group of one simulator in this process.
type fakeServer struct {
	url     string
	dead    chan struct{}
	died    error
	warned  []string
	stopped bool
	// stopping, if set, is called while it stops.
	stopping func()
}

func (f *fakeServer) URLs() []string { return []string{f.url} }
func (f *fakeServer) Launched() []manifest.Launched {
	return []manifest.Launched{{Args: []string{"vllm", "serve", "m"}}}
}
func (f *fakeServer) PIDs() []int           { return []int{4711} }
func (f *fakeServer) Warnings() []string    { return f.warned }
func (f *fakeServer) Done() <-chan struct{} { return f.dead }
func (f *fakeServer) Err() error            { return f.died }
func (f *fakeServer) Stop(context.Context) error {
	f.stopped = true
	if f.stopping != nil {
		f.stopping()
	}
	return nil
}

// managed runs a run file with a server section against start.
func managed(t *testing.T, text string, start starter) (code int, said string, m *manifest.Run, dir string) {
	t.Helper()
	dir = t.TempDir()
	o := must(t, "-f", write(t, t.TempDir(), "run.yaml", text), "--save-result", "--result-dir", dir, "--result-filename", "r.json")
	o.start = start
	var out, errs lines // a signal is told from another goroutine
	term := &terminal{out: &out, err: &errs}
	code = term.exit(o.run(t.Context(), term))
	m, _ = readManifest(t, filepath.Join(dir, "r.manifest.json"))
	return code, errs.String(), m, dir
}

const managedFile = `bench: {model: m, num-prompts: 4, max-concurrency: 1, random-input-len: 4, random-output-len: 2, temperature: 0, drain: 0}
subject: {identifier: org/m}
server: {command: [vllm, serve, "{model}", --port, "{port}"], devices: [0]}
`

func TestManagedServer(t *testing.T) {
	srv := httptest.NewServer(sim.New(sim.Config{}))
	defer srv.Close()
	f := &fakeServer{url: srv.URL, dead: make(chan struct{}), warned: []string{"fp8 kv at /home/x/y"}}
	var asked server.Config
	code, said, m, _ := managed(t, managedFile, func(_ context.Context, c server.Config) (serverGroup, error) { asked = c; return f, nil })
	if code != 0 || !f.stopped || !strings.Contains(said, "starting the server: vllm serve org/m") {
		t.Fatalf("exit %d, stopped %v: %s", code, f.stopped, said)
	}
	if diff := cmp.Diff([]string{"vllm", "serve", "org/m", "--port", "{port}"}, asked.Command); diff != "" {
		t.Error(diff)
	}
	if m.Outcome != manifest.Completed || !slices.Contains(m.Warnings, "fp8 kv at <local-path>") {
		t.Errorf("%s %q", m.Outcome, m.Warnings)
	}
}

// A server may take half a minute to end: what was measured is saved by then.
func TestSavedBeforeTheServerStops(t *testing.T) {
	srv := httptest.NewServer(sim.New(sim.Config{}))
	defer srv.Close()
	dir := t.TempDir()
	path := filepath.Join(dir, "r.manifest.json")
	f := &fakeServer{url: srv.URL, dead: make(chan struct{}), stopping: func() {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}}
	o := must(t, "-f", write(t, t.TempDir(), "run.yaml", managedFile), "--manifest", path)
	o.start = func(context.Context, server.Config) (serverGroup, error) { return f, nil }
	var out, errs lines
	term := &terminal{out: &out, err: &errs}
	if code := term.exit(o.run(t.Context(), term)); code != 0 || !f.stopped {
		t.Errorf("exit %d, stopped %v: %s", code, f.stopped, errs.String())
	}
}

// A start that fails is a failed run, with the log.
func TestServerThatDoesNotStart(t *testing.T) {
	one := 1
	file := strings.Replace(managedFile, "devices: [0]", "devices: [0], env: {MY_API_KEY: canary-of-the-server}", 1)
	code, said, m, dir := managed(t, file, func(context.Context, server.Config) (serverGroup, error) {
		return nil, &server.StartError{Stage: "runtime_startup", Category: "kv_cache_allocation", ExitCode: &one, Message: "no memory for the KV cache", LogTail: []byte("loading /home/canary/m\nkey canary-of-the-server\nno memory\n")}
	})
	if code != exitTarget || !strings.Contains(said, "the server did not start: no memory for the KV cache") || !strings.Contains(said, "server log: no memory") {
		t.Errorf("exit %d: %s", code, said)
	}
	if m.Outcome != manifest.Failed || m.Failure.Category != "kv_cache_allocation" || *m.Failure.ExitCode != 1 {
		t.Errorf("%s %+v", m.Outcome, m.Failure)
	}
	i := slices.IndexFunc(m.Artifacts, func(a manifest.Artifact) bool { return a.Kind == "server_log_text" })
	if i < 0 || m.Artifacts[i].Filename != "r.startup.log" || m.Artifacts[i].MediaType != "text/plain" {
		t.Fatalf("%+v", m.Artifacts)
	}
	log, err := os.ReadFile(filepath.Join(dir, "r.startup.log"))
	if err != nil || string(log) != "loading <local-path>\nkey <redacted>\nno memory\n" {
		t.Errorf("%v: %s", err, log)
	}
	// Not even a start that failed is without its command.
	if want := "CUDA_VISIBLE_DEVICES=0 vllm serve org/m --port '{port}'"; m.Runtime.LaunchCommand != want || strings.Contains(said, "canary") {
		t.Errorf("%q, want %q; %s", m.Runtime.LaunchCommand, want, said)
	}
}

// The key that a server is started with, by its command or its environment, is in no
// file and in no line, whether it does not start or ends later; and the manifest of a
// server that did not start has its command.
func TestManagedServersKeyStaysHere(t *testing.T) {
	text := strings.Replace(managedFile, `--port, "{port}"]`, `--port, "{port}", --api-key, plainvalueone], env: {VLLM_API_KEY: plainvaluetwo}`, 1)
	const both = "keys plainvalueone and plainvaluetwo"
	died := &server.StartError{Stage: "runtime", Category: "other", Message: both, LogTail: []byte(both + "\n")}
	srv := httptest.NewServer(sim.New(sim.Config{}))
	defer srv.Close()
	dead := make(chan struct{})
	close(dead)
	for name, start := range map[string]starter{
		"does not start": func(context.Context, server.Config) (serverGroup, error) { return nil, died },
		"dies": func(context.Context, server.Config) (serverGroup, error) {
			return &fakeServer{url: srv.URL, dead: dead, died: died, warned: []string{both}}, nil
		},
	} {
		_, said, m, dir := managed(t, text, start)
		if strings.Contains(said, "plainvalue") {
			t.Errorf("%s: said %s", name, said)
		}
		logs := 0
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if data := mustRead(t, filepath.Join(dir, e.Name())); strings.Contains(data, "plainvalue") {
				t.Errorf("%s: %s: %s", name, e.Name(), data)
			}
			if strings.HasSuffix(e.Name(), ".log") {
				logs++
			}
		}
		if logs != 1 {
			t.Errorf("%s: %d logs", name, logs)
		}
		if name != "dies" && m.Runtime.LaunchCommand != "CUDA_VISIBLE_DEVICES=0 vllm serve org/m --port '{port}' --api-key <redacted>" {
			t.Errorf("%s: launch command %s", name, m.Runtime.LaunchCommand)
		}
	}
}

// hanging answers the first n requests for completions and holds the others until
// their client goes.
func hanging(t *testing.T, n int, held func()) string {
	quick := sim.New(sim.Config{})
	var asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/completions" {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			if asked.Add(1) > int64(n) {
				held()
				<-r.Context().Done()
				return
			}
		}
		quick.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// A server that ends in the middle ends the run, which failed: what was measured is
// kept.
func TestServerThatDies(t *testing.T) {
	for n := range 3 {
		f := &fakeServer{dead: make(chan struct{}), died: &server.StartError{Stage: "runtime", Category: "killed", Message: "signal 9", LogTail: []byte("last words\n")}}
		f.url = hanging(t, n, func() { close(f.dead) })
		code, said, m, _ := managed(t, managedFile, func(context.Context, server.Config) (serverGroup, error) { return f, nil })
		if code != exitTarget || !strings.Contains(said, "the server ended during the run: signal 9") {
			t.Errorf("%d answers: exit %d: %s", n, code, said)
		}
		partial, _ := m.Measurement.Extensions["servebench.partial"].(map[string]any)
		if m.Outcome != manifest.Failed || !slices.Contains(m.Warnings, "The server ended during the run: signal 9") || m.Failure.Category != "killed" || partial["successful_requests"] != float64(n) {
			t.Errorf("%d answers: %s %+v %q", n, m.Outcome, m.Failure, m.Warnings)
		}
		if !slices.ContainsFunc(m.Artifacts, func(a manifest.Artifact) bool { return a.Filename == "r.server.log" }) {
			t.Errorf("%+v", m.Artifacts)
		}
	}
}

// A server that ends with the last requests, which fail all at once, ended during
// the run all the same, though that is known only later.
func TestServerThatDiesLast(t *testing.T) {
	f := &fakeServer{dead: make(chan struct{}), died: &server.StartError{Stage: "runtime", Category: "killed", Message: "signal 9"}}
	quick := sim.New(sim.Config{})
	var answers atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/completions" {
			if n := answers.Add(1); n > 2 {
				if n == 4 {
					time.AfterFunc(100*time.Millisecond, func() { close(f.dead) })
				}
				panic(http.ErrAbortHandler)
			}
		}
		quick.ServeHTTP(w, r)
	}))
	defer srv.Close()
	f.url = srv.URL
	code, said, m, _ := managed(t, managedFile, func(context.Context, server.Config) (serverGroup, error) { return f, nil })
	if code != exitTarget || !strings.Contains(said, "the server ended during the run: signal 9") {
		t.Errorf("exit %d: %s", code, said)
	}
	if !slices.Contains(m.Warnings, "The server ended during the run: signal 9") {
		t.Errorf("%q", m.Warnings)
	}
}

// The deadline ends the run with exit 4.
func TestDeadline(t *testing.T) {
	url := hanging(t, 0, func() {})
	f := &fakeServer{url: url, dead: make(chan struct{})}
	code, said, m, _ := managed(t, managedFile+"deadline: 50ms\n", func(context.Context, server.Config) (serverGroup, error) { return f, nil })
	if code != exitInvalid || !strings.Contains(said, "the deadline of 50ms: interrupted after 0 of 4 requests") {
		t.Errorf("exit %d: %s", code, said)
	}
	if m.Outcome != manifest.Failed || m.Failure.Category != "interrupted" || !slices.Contains(m.Warnings, "Interrupted after 0 of 4 requests.") {
		t.Errorf("%s %+v %q", m.Outcome, m.Failure, m.Warnings)
	}
}

// The clock of the deadline begins with the timed requests, and ends with them.
func TestDeadlineClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := func(s *stopState) bool {
			select {
			case <-s.soft:
				return true
			default:
				return false
			}
		}
		for _, c := range []struct {
			until string // the phase that follows the timed requests in time
			late  bool
		}{{"results", false}, {"", true}} {
			s := &stopState{soft: make(chan struct{})}
			o := &options{deadline: time.Minute}
			enter := o.timed(func(string) {}, s, &terminal{out: io.Discard, err: io.Discard})
			enter("warm-up")
			time.Sleep(time.Hour)
			enter("run")
			time.Sleep(time.Minute - time.Nanosecond)
			synctest.Wait()
			if closed(s) {
				t.Error("before the deadline")
			}
			if c.until != "" {
				enter(c.until)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if closed(s) != c.late || s.late() != c.late {
				t.Errorf("%q: late %v, want %v", c.until, s.late(), c.late)
			}
		}
	})
}

// Of a value with a line end in it what is left is published as it stands.
func TestPublicValueOfSeveralLines(t *testing.T) {
	canary(t)
	o := must(t, "--extra-body", "{\"a\":\"x\"}", "--label", "by "+canaryUser+"\non two lines", "--model", "m")
	if got := gjson.GetBytes(o.config.RunFile, "bench.label").String(); got != "by <redacted>\non two lines" {
		t.Errorf("%q", got)
	}
}

// What is named after a secret is no safe variable, whatever a pattern says.
func TestSecretVariablesAreNotSafe(t *testing.T) {
	text := strings.Replace(managedFile, "devices: [0]", "env: {VLLM_MYPASSWORD1: plainvalue, VLLM_LEVEL: high, VLLM_EMPTY: '', OTHER: x}, safe_env: ['VLLM_*']", 1)
	o := must(t, "-f", write(t, t.TempDir(), "run.yaml", text))
	want := "map[OTHER:<redacted> VLLM_EMPTY: VLLM_LEVEL:high VLLM_MYPASSWORD1:<redacted>]"
	if got := fmt.Sprint(gjson.GetBytes(o.config.RunFile, "server.env").Value()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// An interrupt while the server starts is a failed run of its own.
func TestInterruptedStart(t *testing.T) {
	code, said, m, _ := managed(t, managedFile, func(ctx context.Context, _ server.Config) (serverGroup, error) {
		p, err := os.FindProcess(os.Getpid())
		if err != nil {
			return nil, err
		}
		if err := p.Signal(os.Interrupt); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if code != 130 || !strings.Contains(said, "interrupted while the server started") || m.Failure.Category != "interrupted" {
		t.Errorf("exit %d: %s %+v", code, said, m.Failure)
	}
}

// The simulator takes the server's place under the same launch line.
func TestSimTakesTheServersPlace(t *testing.T) {
	file := write(t, t.TempDir(), "run.yaml", managedFile+"sim: {like: ref.json, args: [--time-scale, 0.1]}\n")
	o := must(t, "-f", file, "--sim")
	want := []string{"{servebench}", "sim", "--like", filepath.Join(filepath.Dir(file), "ref.json"), "--time-scale", "0.1", "org/m", "--port", "{port}"}
	if diff := cmp.Diff(want, o.server.Command); diff != "" || o.sim != nil {
		t.Error(diff, o.sim)
	}
	if !strings.Contains(string(o.config.RunFile), `"vllm"`) {
		t.Errorf("the server's own command is not in %s", o.config.RunFile)
	}
}

func TestConfigCommands(t *testing.T) {
	dir := t.TempDir()
	for _, kind := range runfile.Kinds() {
		code, starter, errs := command(t, "config", "init", kind)
		if code != 0 {
			t.Fatalf("exit %d: %s", code, errs)
		}
		path := filepath.Join(dir, kind+".yaml")
		if err := os.WriteFile(path, []byte(starter), 0o666); err != nil {
			t.Fatal(err)
		}
		code, out, errs := command(t, "config", "check", path)
		if code != 0 || errs != "" || !strings.Contains(out, "started by: vllm serve org/model") {
			t.Errorf("%s: exit %d: %s%s", kind, code, errs, out)
		}
		code, out, _ = command(t, "config", "check", "--resolved", path)
		if code != 0 || !strings.Contains(out, "num-prompts: 2") {
			t.Errorf("%s: exit %d: %s", kind, code, out)
		}
		// The published schema is what the program prints.
		code, schema, _ := command(t, "config", "schema", kind)
		published, err := os.ReadFile("../../docs/" + kind + ".schema.json")
		if os.Getenv("UPDATE") != "" {
			err = os.WriteFile("../../docs/"+kind+".schema.json", []byte(schema), 0o666)
			published = []byte(schema)
		}
		if code != 0 || err != nil || schema != string(published) {
			t.Errorf("docs/%s.schema.json is not what `servebench config schema %s` prints (%v); UPDATE=1 rewrites it", kind, kind, err)
		}
	}
	for _, args := range [][]string{{"config", "init", "x"}, {"config", "schema", "run", "run"}, {"config", "nothing"}, {"config", "check", "x", "--resolved"}} {
		if code, out, _ := command(t, args...); code != exitUsage || out != "" {
			t.Errorf("%q: exit %d: %s", args, code, out)
		}
	}
	good, bad := filepath.Join(dir, "run.yaml"), write(t, t.TempDir(), "bad.yaml", "bench: {x: 1, model: [a]}\n")
	code, out, errs := command(t, "config", "check", bad, good)
	if code != exitUsage || !strings.Contains(errs, "not passed by 1 of 2") || strings.Count(errs, "bad.yaml:1:") != 2 || !strings.Contains(out, good) {
		t.Errorf("exit %d: %s%s", code, errs, out)
	}
}

// An experiment becomes points as they are run.
func TestResolveExperiment(t *testing.T) {
	file := write(t, t.TempDir(), "e.yaml", `experiment: {id: e, title: T, publisher_notes: {warnings: [w], public_data_license_affirmed: true}}
base:
  bench: {model: m, num-prompts: 5, temperature: 0}
  server: {command: [vllm, serve, m, --port, "{port}", --x, "{x}"]}
  vars: {x: 1}
order: as_written
groups:
  - {group: g, id: "c{max-concurrency}", name: N, vary: {bench.max-concurrency: [1, 2]}, repeat: 2, on_failure: {continue: false, retry: 2}}
  - {group: x, id: "x{x}", name: N, vary: {vars.x: [7]}, restart: per_point, set: {deadline: 9s, labels.variant: v}}
  - {group: s, id: s, name: S, aggregate: {sum: {group: g}}}
`)
	term := &terminal{out: io.Discard, err: io.Discard}
	x, err := term.resolveExperiment(t.Context(), file, []string{"--num-prompts", "3"})
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Points) != 3 || len(x.Options) != 3 || x.Order != "as_written" || len(x.Aggregates) != 1 || !x.About.DataAffirmed || x.About.Warnings[0] != "w" {
		t.Fatalf("%+v", x)
	}
	c2, x7 := x.Points[1], x.Points[2]
	if c2.ID != "c2" || c2.Config.MaxConcurrency != 2 || c2.Config.Dataset.Prompts != 3 || c2.Repeat != 2 || !c2.OnFailure.Stop || c2.OnFailure.Retry != 2 || c2.Restart || c2.Vary[0].Key != "bench.max-concurrency" {
		t.Errorf("%+v", c2)
	}
	if strings.Join(x7.Server.Command, " ") != "vllm serve m --port {port} --x 7" || !x7.Restart || x7.Deadline != 9*time.Second || x7.Config.Declared.Labels["variant"] != "v" || !json.Valid(x7.Config.RunFile) {
		t.Errorf("%+v", x7)
	}
	// The digest stays the same from one reading to the next.
	again, err := term.resolveExperiment(t.Context(), file, []string{"--num-prompts", "3"})
	if err != nil {
		t.Fatal(err)
	}
	digests := map[string]bool{}
	for i, p := range x.Points {
		digests[p.Digest] = true
		if p.Digest != again.Points[i].Digest {
			t.Errorf("%s has two digests", p.ID)
		}
	}
	if len(digests) != 3 {
		t.Errorf("%d digests, want 3", len(digests))
	}
	if _, err := term.resolveExperiment(t.Context(), write(t, t.TempDir(), "e.yaml", strings.Replace(mustRead(t, file), "num-prompts: 5", "top-p: 9", 1)), nil); err == nil || strings.Count(err.Error(), "bench.top-p: 9; want") != 1 {
		t.Error(err)
	}
}

func mustRead(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The examples of the documentation are what they say they are.
func TestDocumentedFiles(t *testing.T) {
	text := mustRead(t, "../../docs/run-file.md")
	blocks := strings.Split(text, "```yaml\n")[1:]
	if len(blocks) != 2 {
		t.Fatalf("%d files, want a run and an experiment", len(blocks))
	}
	for i, b := range blocks {
		b, _, _ = strings.Cut(b, "```")
		code, out, errs := command(t, "config", "check", write(t, t.TempDir(), runfile.Kinds()[i]+".yaml", b))
		if code != 0 || errs != "" || !strings.Contains(out, map[string]string{"run": "a run: 256 requests", "experiment": "the experiment judge: 11 points, 13 trials, 1 computed run"}[runfile.Kinds()[i]]) {
			t.Errorf("exit %d: %s%s", code, errs, out)
		}
	}
}

// -f - reads standard input.
func TestRunFileFromStandardInput(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.WriteString("bench: {num-prompts: 3, x: 1}\n"); err != nil {
		t.Fatal(err)
	}
	out.Close()
	old := os.Stdin
	os.Stdin = in
	t.Cleanup(func() { os.Stdin = old; in.Close() })
	code, _, errs := command(t, "serve", "-f", "-", "--sim")
	if code != exitUsage || !strings.Contains(errs, "stdin:1:25: bench.x is no flag") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// Files of facts are checked as what they are.
func TestConfigCheckOfFacts(t *testing.T) {
	for _, row := range []struct {
		name, text string
		code       int
		want       string
	}{
		{"subject", "identifier: org/m\n", 0, "f.yaml: a subject: org/m; for publication it lacks revision, architecture, quantization, modifications, parameter_count_total, parameter_count_active\n"},
		{"a subject's mistake", "identifier: org/m\nrevison: a\n", exitUsage, "f.yaml:2:1: "},
		{"host", "os: Debian\ncpu: {model: X}\naccelerators: [{count: 2, model: Y}]\n", 0, "f.yaml: a host: Debian, X, 2 x Y; for publication it lacks kernel, host_architecture, system_memory_bytes, driver_versions\n"},
		{"a host's mistake", "os: Debian\nkernal: 6\n", exitUsage, "f.yaml:2:1: "},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, ".", "f.yaml", row.text)
			code, out, errs := command(t, "config", "check", "f.yaml")
			if code != row.code || !strings.Contains(out+errs, row.want) {
				t.Errorf("exit code %d, %s%s; want %d and %q", code, out, errs, row.code, row.want)
			}
		})
	}
	code, starter, _ := command(t, "config", "init", "subject")
	if code != 0 {
		t.Fatal("no subject to begin with")
	}
	if code, out, errs := command(t, "config", "check", write(t, t.TempDir(), "s.yaml", starter)); code != 0 || strings.Contains(out, "lacks") {
		t.Errorf("the starter: %d, %s%s", code, out, errs)
	}
	if code, _, errs := command(t, "config", "init", "host"); code != exitUsage || !strings.Contains(errs, "servebench env > host.yaml") {
		t.Errorf("a host to begin with: %d, %s", code, errs)
	}
}

// What a file of facts is said to lack is what the publishable profile wants.
func TestFactsForPublication(t *testing.T) {
	text, err := os.ReadFile("../../manifest/testdata/seed-run-1.json")
	if err != nil {
		t.Fatal(err)
	}
	profile := manifest.Profile{Publishable: true}
	for part, keys := range map[string][]string{"subject": subjectFacts, "environment": hostFacts} {
		for _, key := range keys {
			var doc map[string]any
			if err := json.Unmarshal(text, &doc); err != nil {
				t.Fatal(err)
			}
			run := doc
			if inner, ok := doc["manifest"].(map[string]any); ok {
				run = inner
			}
			delete(run[part].(map[string]any), key)
			cut, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			report, err := profile.Check(cut)
			if err != nil || len(report.Problems) == 0 {
				t.Errorf("/%s/%s may be missing: %v", part, key, err)
			}
		}
	}
}

// The record of a run whose server did not start is named after the model, and the
// hint names a log only where there is one.
func TestHintOfAFailedStart(t *testing.T) {
	for _, row := range []struct {
		name, command string
	}{
		{"no program", "[no-such-program-1b2c, '{port}']"},
		{"a log", "[sh, -c, 'echo Trouble; exit 3', '{port}']"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			file := write(t, ".", "r.yaml", "bench: {num-prompts: 1, random-output-len: 1, temperature: 0, save-result: true}\nsubject: {identifier: org/m}\nserver: {command: "+row.command+"}\n")
			code, _, errs := command(t, "serve", "-f", file)
			if code != exitTarget {
				t.Errorf("exit code %d", code)
			}
			results, err := filepath.Glob("openai-infqps-m-*.manifest.json")
			if err != nil || len(results) != 1 {
				all, _ := filepath.Glob("*")
				t.Errorf("no file named after the model among %q", all)
			}
			logs, _ := filepath.Glob("*.startup.log")
			hinted := strings.Contains(errs, "hint: ")
			if hinted != (len(logs) == 1) || hinted && !strings.Contains(errs, "hint: "+logs[0]) {
				t.Errorf("logs %q, but: %s", logs, errs)
			}
		})
	}
}
