package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/sim"
)

// command runs the program in this process.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// fast are flags of a small run on a simulator that does not dawdle.
var fast = []string{"--sim", "--sim-ttft", "1ms", "--sim-itl", "100us", "--num-prompts", "6", "--random-input-len", "8", "--random-output-len", "4", "--temperature", "0"}

func serveArgs(more ...string) []string {
	return append(append([]string{"serve"}, fast...), more...)
}

// The run of the README: exit 0, vLLM's table on stdout, and the files beside
// the result.
func TestServeWritesItsFiles(t *testing.T) {
	dir := t.TempDir()
	code, out, errs := command(t, serveArgs("--save-result", "--result-dir", dir, "--result-filename", "run.json", "--max-concurrency", "2", "--num-warmups", "2")...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, label := range []string{"Successful requests:                     6", "Maximum request concurrency:             2", "Mean TTFT (ms):", "P99 ITL (ms):", "SIMULATED"} {
		if !strings.Contains(out, label) {
			t.Errorf("the table has no %q:\n%s", label, out)
		}
	}
	for _, name := range []string{"run.json", "run.manifest.json", "run.requests.jsonl", "run.hdr"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The simulator tells its own timing where it is asked for.
func TestServeShowsTheServersTiming(t *testing.T) {
	code, out, errs := command(t, serveArgs("--server-timing")...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, row := range []string{
		"Server TTFT, without queue          6      1.000      1.000      1.000      1.000\n",
		"Server mean ITL                     6      0.100      0.100      0.100      0.100\n", "\nTTFT beyond the server's            6 ",
	} {
		if !strings.Contains(out, row) {
			t.Errorf("no row %q in\n%s", row, out)
		}
	}
	if code, out, _ := command(t, serveArgs()...); code != 0 || strings.Contains(out, "Server") {
		t.Errorf("exit %d, unasked:\n%s", code, out)
	}
}

// Pages need no --save-result. Their folder is made, and what cannot be written is told
// before the first request. Names lose their last suffix, as vLLM's do.
func TestServeWritesItsPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "deep")
	code, out, errs := command(t, serveArgs("--plot-timeline", "--plot-dataset-stats", "--result-dir", dir, "--result-filename", "run.v1.txt")...)
	if code != 0 || strings.Contains(errs, "save nothing") {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, name := range []string{"run.v1.timeline.html", "run.v1.dataset_stats.html"} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Contains(data, []byte("<html")) || !strings.Contains(out, name) {
			t.Errorf("%s: %v, %d bytes", name, err, len(data))
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "x.timeline.html"), 0o700); err != nil {
		t.Fatal(err)
	}
	code, out, errs = command(t, serveArgs("--plot-timeline", "--result-dir", dir, "--result-filename", "x.json")...)
	if code != exitUsage || out != "" || !strings.Contains(errs, "x.timeline.html is no regular file") {
		t.Errorf("exit %d: %s%s", code, errs, out)
	}
	code, _, errs = command(t, "serve", "--base-url", "http://127.0.0.1:1", "--model", "m", "--num-prompts", "1", "--plot-timeline", "--plot-dataset-stats", "--result-dir", dir)
	if code != exitTarget || !strings.Contains(errs, "does not answer") {
		t.Errorf("a server that is not there: exit %d: %s", code, errs)
	}
	for path, want := range map[string]string{"a.b/c": "a.b/c", "a.b/.c": "a.b/.c", "a/.c.d": "a/.c", "c.json": "c", "..": ".."} {
		if got := withoutExt(path); got != want {
			t.Errorf("%s became %s, want %s", path, got, want)
		}
	}
}

// Without a flag that asks for a file nothing is written.
func TestServeWritesNothingUnasked(t *testing.T) {
	t.Chdir(t.TempDir())
	if code, _, errs := command(t, serveArgs()...); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if entries, _ := os.ReadDir("."); len(entries) != 0 {
		t.Errorf("%v was written", entries)
	}
}

// A result file grows by a line a run, and the files beside it carry the run's id.
func TestServeAppends(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		if code, _, errs := command(t, serveArgs("--append-result", "--result-dir", dir, "--result-filename", "all.json")...); code != 0 {
			t.Fatalf("exit %d: %s", code, errs)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "all.json"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2", len(lines))
	}
	for _, l := range lines {
		if !json.Valid([]byte(l)) {
			t.Errorf("a line is not JSON: %s", l)
		}
	}
	manifests, _ := filepath.Glob(filepath.Join(dir, "all.servebench-*-1.manifest.json"))
	if len(manifests) != 2 {
		t.Errorf("manifests %v, want two with ids", manifests)
	}
}

// The keys of vLLM's result file, in its order, with its types.
func TestResultKeys(t *testing.T) {
	dir := t.TempDir()
	code, _, errs := command(t, serveArgs("--save-result", "--save-detailed", "--result-dir", dir, "--result-filename", "r.json",
		"--metadata", "a=1", "b=x=y", "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,99.9", "--goodput", "ttft:1000", "--label", "L")...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	data, err := os.ReadFile(filepath.Join(dir, "r.json"))
	if err != nil {
		t.Fatal(err)
	}
	keys := keysOf(t, data)
	want := strings.Fields(`date endpoint_type backend label model_id tokenizer_id num_prompts a b request_rate burstiness max_concurrency
		duration completed failed total_input_tokens total_output_tokens request_throughput request_goodput output_throughput total_token_throughput
		input_lens output_lens ttfts itls latencies start_times queue_times generated_texts errors max_output_tokens_per_s max_concurrent_requests rtfx
		mean_ttft_ms median_ttft_ms std_ttft_ms p50_ttft_ms p99.9_ttft_ms mean_tpot_ms median_tpot_ms std_tpot_ms p50_tpot_ms p99.9_tpot_ms
		mean_itl_ms median_itl_ms std_itl_ms p50_itl_ms p99.9_itl_ms mean_e2el_ms median_e2el_ms std_e2el_ms p50_e2el_ms p99.9_e2el_ms`)
	if len(keys) < len(want) || !slices.Equal(keys[:len(want)], want) {
		t.Errorf("keys\n%v\nwant\n%v", keys, want)
	}
	for _, k := range keys[len(want):] {
		if !slices.Contains([]string{"simulated", "outcome", "failure", "servebench"}, k) {
			t.Errorf("key %q is neither vLLM's nor ours", k)
		}
	}
	for _, piece := range []string{`"request_rate":"inf"`, `"burstiness":1.0`, `"max_concurrency":null`, `"label":"L"`, `"rtfx":0.0`, `"b":"x=y"`, `"simulated":true`} {
		if !bytes.Contains(data, []byte(piece)) {
			t.Errorf("no %s in the result", piece)
		}
	}
}

// keysOf returns the keys of a JSON object in order.
func keysOf(t *testing.T, data []byte) (keys []string) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	for dec.More() {
		k, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, k.(string))
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
	}
	return keys
}

// Each mistake is found before the first request: exit 2, one line that names
// the flag, no stack.
func TestUsageErrors(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.jsonl")
	if err := os.WriteFile(broken, []byte("{\"prompt\":\"a\"}\n{\"prompt\":\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args  string
		names []string
	}{
		{"--request-rate nan", []string{"--request-rate"}},
		{"--request-rate 0", []string{"--request-rate"}},
		{"--request-rate -3", []string{"--request-rate"}},
		{"--request-rate 1e-300", []string{"--request-rate", "30"}},
		{"--burstiness 0", []string{"--burstiness"}},
		{"--max-concurrency 0", []string{"--max-concurrency"}},
		{"--max-concurrency -1", []string{"--max-concurrency"}},
		{"--max-concurrency 99999999999999999999", []string{"--max-concurrency"}},
		{"--num-prompts 0", []string{"--num-prompts"}},
		{"--num-prompts -5", []string{"--num-prompts"}},
		{"--num-prompts 1000000000", []string{"--num-prompts"}},
		{"--num-warmups -1", []string{"--num-warmups"}},
		{"--seed -1", []string{"--seed"}},
		{"--dataset-name alpaca", []string{"--dataset-name", "alpaca", "sharegpt"}},
		{"--dataset-name custom --skip-chat-template", []string{"--dataset-path", ".jsonl"}},
		{"--dataset-name custom --skip-chat-template --dataset-path " + dir + "/none.jsonl", []string{"none.jsonl", "no such file"}},
		{"--dataset-name custom --skip-chat-template --dataset-path " + broken, []string{"broken.jsonl:2"}},
		{"--backend grpc", []string{"--backend", "grpc"}},
		{"--percentile-metrics ttft,xyz", []string{"--percentile-metrics", "xyz"}},
		{"--metric-percentiles 101", []string{"--metric-percentiles"}},
		{"--metric-percentiles nan", []string{"--metric-percentiles"}},
		{"--goodput itl:5", []string{"--goodput", "itl"}},
		{"--goodput ttft:x", []string{"--goodput"}},
		{"--random-range-ratio 1", []string{"--random-range-ratio"}},
		{"--random-input-len -1", []string{"--random-input-len"}},
		{"--temperature -1", []string{"--temperature"}},
		{"--top-p 2", []string{"--top-p"}},
		{"--extra-body [1]", []string{"--extra-body", "JSON object"}},
		{"--metadata nokey", []string{"--metadata", "KEY=VALUE"}},
		{"--tokenizer /no/such/tokenizer", []string{"--tokenizer", "/no/such/tokenizer"}},
		{"--endpoint /v1/chat/completions", []string{"--endpoint", "/v1/completions"}},
		{"--result-dir /dev/null/x --save-result", []string{"/dev/null", "results cannot be saved"}},
		{"--subject /no/such.yaml", []string{"--subject", "no such file"}},
		{"--backend openai-chat --prompt-form token-ids", []string{"--prompt-form"}},
		{"--ignore-eos false", []string{"--ignore-eos", "false"}},
		{"--no-such-flag", []string{"--no-such-flag"}},
		{"--sim-itl x", []string{"--sim-itl"}},
		{"--sim-jitter 7", []string{"jitter"}},
		{"--port 99999", []string{"--port"}},
		{"--base-url ftp://x", []string{"--base-url"}},
		{"--timeout-stall x", []string{"--timeout-stall"}},
		{"--pacing busy", []string{"--pacing"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			code, out, errs := command(t, append([]string{"serve", "--sim"}, strings.Fields(c.args)...)...)
			if code != exitUsage || out != "" {
				t.Errorf("exit %d, stdout %q, want 2 and nothing", code, out)
			}
			for _, n := range c.names {
				if !strings.Contains(errs, n) {
					t.Errorf("no %q in the message:\n%s", n, errs)
				}
			}
			if strings.Contains(errs, "goroutine") || strings.Contains(errs, ".go:") {
				t.Errorf("a stack is shown:\n%s", errs)
			}
		})
	}
}

// A server that is not there is exit 5 with a hint, and what was asked for is
// written: the run failed.
func TestServerNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	file := filepath.Join(t.TempDir(), "m.json")
	code, _, errs := command(t, "serve", "--base-url", url, "--model", "m", "--num-prompts", "2", "--manifest", file)
	if code != exitTarget || !strings.Contains(errs, url) || !strings.Contains(errs, "--sim") {
		t.Errorf("exit %d, message %q, want 5, the URL and the hint", code, errs)
	}
	data, err := os.ReadFile(file)
	if err != nil || !bytes.Contains(data, []byte(`"outcome": "failed"`)) {
		t.Errorf("the manifest: %v", err)
	}
}

// A wrong model and a rejected key say so in the server's words.
func TestServerRefuses(t *testing.T) {
	srv := httptest.NewServer(sim.New(sim.Config{Model: "right", APIKey: "secret-key-1"}))
	defer srv.Close()
	run := func(key string, args ...string) (int, string) {
		t.Setenv("OPENAI_API_KEY", key)
		code, _, errs := command(t, append([]string{"serve", "--base-url", srv.URL, "--num-prompts", "2", "--random-input-len", "4", "--random-output-len", "2"}, args...)...)
		return code, errs
	}
	if code, errs := run("secret-key-1", "--model", "wrong"); code != exitTarget || !strings.Contains(errs, "wrong") || !strings.Contains(errs, "--model") {
		t.Errorf("wrong model: exit %d: %s", code, errs)
	}
	if code, errs := run("bad-key-12345", "--model", "right"); code != exitTarget || !strings.Contains(errs, "Unauthorized") || !strings.Contains(errs, "OPENAI_API_KEY") || strings.Contains(errs, "bad-key-12345") {
		t.Errorf("rejected key: exit %d: %s", code, errs)
	}
	if code, errs := run("secret-key-1"); code != 0 {
		t.Errorf("right key, the server's own model: exit %d: %s", code, errs)
	}
}

// A 400 that names a parameter OpenAI does not know hints at --strict-openai.
func TestStrictHint(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, `{"error":{"message":"Unrecognized request argument supplied: repetition_penalty"}}`, http.StatusBadRequest)
	}))
	defer srv.Close()
	code, _, errs := command(t, "serve", "--base-url", srv.URL, "--model", "m", "--num-prompts", "1", "--random-input-len", "4", "--skip-tokenizer-init")
	if code != exitTarget || !strings.Contains(errs, "--strict-openai") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// So does one that was asked for token ids and refuses them, by name or not.
func TestAccountingHint(t *testing.T) {
	for _, message := range []string{"Unrecognized request argument supplied: return_token_ids", "no such thing"} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, `{"error":{"message":"`+message+`"}}`, http.StatusBadRequest)
		}))
		code, _, errs := command(t, "serve", "--base-url", srv.URL, "--model", "m", "--num-prompts", "1", "--random-input-len", "4", "--skip-tokenizer-init", "--token-accounting", "ids")
		if code != exitTarget || !strings.Contains(errs, "hint: --token-accounting chunks") {
			t.Errorf("exit %d: %s", code, errs)
		}
		srv.Close()
	}
	code, _, errs := command(t, "serve", "--port", "1", "--model", "m", "--strict-openai", "--token-accounting", "usage", "--dry-run")
	if code != exitUsage || !strings.Contains(errs, "--strict-openai") || !strings.Contains(errs, "--token-accounting") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// A dry run shows the plan and sends nothing: nobody listens here.
func TestDryRun(t *testing.T) {
	code, out, errs := command(t, "serve", "--port", "1", "--model", "m", "--num-prompts", "5", "--request-rate", "2", "--dry-run")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, want := range []string{"Requests:", "open loop, 2.0 requests/s", "Body of request 0:", `"max_tokens":128`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestVersionAndUnknownCommand(t *testing.T) {
	if code, out, _ := command(t, "--version"); code != 0 || !strings.HasPrefix(out, "servebench ") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, _, errs := command(t, "bench"); code != exitUsage || !strings.Contains(errs, "serve, sweep, gate, sim, selftest, manifest, compare, baseline, config, hdr, env or completion") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// `servebench sim` says where it listens and stops when it is told to.
func TestSimCommand(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines := make(chan string, 1)
	ended := make(chan int)
	go func() {
		ended <- run(ctx, []string{"sim", "--port", "0", "--ttft", "1ms"}, writerFunc(func(p []byte) { lines <- string(p) }), os.Stderr)
	}()
	line := <-lines
	url := strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	res, err := http.Get(url + "/health")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit %d", code)
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// A terminal gets no control characters from a server.
func TestServerTextIsEscaped(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		w.Write([]byte("{\"error\":{\"message\":\"\\u001b[31mred\\u0007\"}}"))
	}))
	defer srv.Close()
	_, out, errs := command(t, "serve", "--base-url", srv.URL, "--model", "m", "--num-prompts", "1", "--random-input-len", "4", "--skip-tokenizer-init")
	if strings.ContainsAny(out+errs, "\x1b\x07") {
		t.Errorf("control characters came through: %q", out+errs)
	}
}

// Names of flags in a library's words get their dashes, once, and nothing else does.
func TestDashed(t *testing.T) {
	for in, want := range map[string]string{
		"num-prompts: 32 is no multiple":                "--num-prompts: 32 is no multiple",
		"want --num-prompts or random-input-len, below": "want --num-prompts or --random-input-len, below",
		"(request-rate is 5)":                           "(--request-rate is 5)",
		"my-num-prompts, num-prompts-x, the model":      "my-num-prompts, num-prompts-x, the model",
		"x: chat-template-kwargs":                       "x: --chat-template-kwargs",
	} {
		if got := dashed(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

// A reset that failed has nothing to do with the model's name.
func TestHintOfAReset(t *testing.T) {
	o := &options{}
	if got := o.hint(&bench.TargetError{Stage: "prefix_cache_reset", Category: "http_404", Err: errors.New("HTTP 404")}, []string{"m"}); !strings.Contains(got, "without --reset-prefix-cache") {
		t.Error(got)
	}
}
