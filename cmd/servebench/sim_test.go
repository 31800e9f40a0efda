package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/bench/sim"
)

// readWords reads a line of sim as far as nothing is fitted or started.
func readWords(args ...string) (*simOptions, error) {
	parsed, err := normalize(args, simFlags())
	if err != nil {
		return nil, err
	}
	return readSimOptions(parsed)
}

// Every flag of vLLM's is there once, under a name that no other has, and none of ours
// takes one of its names.
func TestSimHasTheFlagsOfVLLMServe(t *testing.T) {
	var snapshot struct{ Flags []parserFlag }
	if err := json.Unmarshal(serveFlagsJSON, &snapshot); err != nil {
		t.Fatal(err)
	}
	theirs := 0
	seen := map[string]bool{}
	for _, s := range simFlags() {
		if !s.Own {
			theirs++
		}
		for _, name := range slices.Concat(s.spellings(), s.Aliases, s.Short) {
			if seen[name] {
				t.Errorf("%s is there twice", name)
			}
			seen[name] = true
		}
		if s.Help == "" && s.Group != inSimIgnored && s.Use != refused {
			t.Errorf("--%s has no help", s.Name)
		}
	}
	// All but the positional model_tag.
	if want := len(snapshot.Flags) - 1; theirs != want || theirs < 300 {
		t.Errorf("%d flags of vLLM's, want %d", theirs, want)
	}
	for _, f := range snapshot.Flags {
		for _, name := range f.Names {
			short := strings.HasPrefix(name, "-") && !strings.HasPrefix(name, "--")
			if name != "model_tag" && !seen[name] && !seen[strings.TrimPrefix(name, "--")] && !(short && seen[name[1:]]) {
				t.Errorf("no %s", name)
			}
		}
	}
}

// Lines are read as vLLM's parser reads them: testdata/serveargv.py asks it.
func TestSimReadsLinesAsVLLM(t *testing.T) {
	data, err := os.ReadFile("testdata/serveargv.json")
	if err != nil {
		t.Fatal(err)
	}
	function := regexp.MustCompile(`<function (\w+) at \w+>`)
	for _, row := range gjson.GetBytes(data, "lines").Array() {
		var line []string
		for _, w := range row.Get("line").Array() {
			line = append(line, w.Str)
		}
		parsed, err := normalize(line, simFlags())
		if want := row.Get("error"); want.Exists() {
			var errs strings.Builder
			code := (&terminal{err: &errs}).exit((&terminal{err: &errs}).refuse(orNil(err)))
			_, got, _ := strings.Cut(errs.String(), "servebench sim: error: ")
			got, _, _ = strings.Cut(got, "\n")
			if code != int(row.Get("exit").Int()) || sameInBoth(got) != sameInBoth(function.ReplaceAllString(want.Str, "<$1>")) {
				t.Errorf("%q: exit %d\n got %s\nwant %s", line, code, got, want.Str)
			}
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		compareValues(t, line, parsed, row.Get("values"))
	}
}

func orNil(err error) error {
	if err == nil {
		return usageError{}
	}
	return err
}

// sameInBoth is a message without what differs on purpose: values behind an unknown
// flag are not shown, since they may be secret, and candidates have another order.
func sameInBoth(message string) string {
	if words, ok := strings.CutPrefix(message, unrecognizedPrefix); ok {
		var kept []string
		for i, w := range strings.Fields(words) {
			w, _, _ = strings.Cut(w, "=")
			if i == 0 || strings.HasPrefix(w, "-") {
				kept = append(kept, w)
			}
		}
		return unrecognizedPrefix + strings.Join(kept, " ")
	}
	if head, list, ok := strings.Cut(message, " could match "); ok {
		names := strings.Split(list, ", ")
		slices.Sort(names)
		return head + " could match " + strings.Join(names, ", ")
	}
	return message
}

// compareValues holds what was given against vLLM's values. Those of flags that were not
// given are vLLM's defaults, which are not looked at.
func compareValues(t *testing.T, line []string, parsed parsedArgs, want gjson.Result) {
	t.Helper()
	got := map[string][]string{}
	for _, w := range parsed.Words {
		name, value, _ := strings.Cut(strings.TrimPrefix(w, "--"), "=")
		got[name] = append(got[name], value)
	}
	for name, values := range got {
		key := strings.ReplaceAll(name, "-", "_")
		if name == "model" {
			key = "model_tag"
		}
		v := want.Get(key)
		var theirs []string
		switch {
		case !v.Exists() && values[0] == "", !slices.Contains(comparedKeys, key):
			continue
		case v.IsArray():
			for _, x := range v.Array() {
				theirs = append(theirs, x.String())
			}
		case v.IsObject():
			theirs = []string{compactJSON(v.Raw)}
			values = []string{compactJSON(values[0])}
		default:
			theirs = []string{v.String()}
		}
		if !slices.Equal(values, theirs) {
			t.Errorf("%q: --%s is %q, want %q", line, name, values, theirs)
		}
	}
}

var comparedKeys = strings.Fields("model_tag host port max_model_len max_num_seqs max_num_batched_tokens tensor_parallel_size served_model_name " +
	"block_size enable_prefix_caching enable_chunked_prefill num_gpu_blocks_override kv_cache_memory_bytes gpu_memory_utilization " +
	"speculative_config spec_tokens stream_interval seed api_key")

func compactJSON(s string) string {
	var v any
	_ = json.Unmarshal([]byte(s), &v)
	b, _ := json.Marshal(v)
	return string(b)
}

// launchWords are the words behind `vllm serve` in a reference's launch command.
func launchWords(t *testing.T, file string) []string {
	t.Helper()
	data, err := os.ReadFile(references + file)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(gjson.GetBytes(data, "manifest.runtime.launch_command").Str, "\n")
	_, line, ok := strings.Cut(line, "vllm serve ")
	if !ok {
		t.Fatalf("%s: no launch command", file)
	}
	var words []string
	for i, part := range strings.Split(line, "'") { // every other part is quoted
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// The launch line of each reference starts the simulator.
func TestSimTakesTheLaunchLinesOfTheReferences(t *testing.T) {
	for _, row := range []struct {
		file, model, port string
		length            int
		engine            sim.Engine
		ignored           string
	}{
		{"seed-run-1.json", "google/gemma-4-12B-it", "9000", 9216,
			sim.Engine{MaxNumSeqs: 64, MaxNumBatchedTokens: 16384, ChunkedPrefill: true, GPUMemoryUtilization: 0.92, CacheDtype: "fp8"},
			"--disable-uvicorn-access-log --dtype --revision --quantization --enforce-eager --distributed-executor-backend --pipeline-parallel-size --tensor-parallel-size --language-model-only --async-scheduling"},
		{"seed-run-2.json", "RedHatAI/gemma-4-31B-it-NVFP4", "9003", 9216,
			sim.Engine{MaxNumSeqs: 32, MaxNumBatchedTokens: 16384, ChunkedPrefill: true, GPUMemoryUtilization: 0.88, CacheDtype: "fp8",
				SpeculativeTokens: 1, Acceptance: []sim.Acceptance{{Share: 1, Rate: 0.6}}},
			"--disable-uvicorn-access-log --dtype --revision --enforce-eager --distributed-executor-backend --pipeline-parallel-size --tensor-parallel-size --language-model-only --async-scheduling"},
		{"seed-run-3.json", "nvidia/Gemma-4-26B-A4B-NVFP4", "9001", 16384,
			sim.Engine{MaxNumSeqs: 128, MaxNumBatchedTokens: 16384, ChunkedPrefill: true, GPUMemoryUtilization: 0.9, CacheDtype: "fp8"},
			"--disable-uvicorn-access-log --dtype --revision --tensor-parallel-size --language-model-only"},
	} {
		o, err := readWords(launchWords(t, row.file)...)
		if err != nil {
			t.Errorf("%s: %v", row.file, err)
			continue
		}
		// Times no launch line has.
		row.engine.StepBase, row.engine.PrefillRate = 10*time.Millisecond, 20000
		if diff := cmp.Diff(&row.engine, o.config.Engine); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.file, diff)
		}
		if o.config.Model != row.model || len(o.config.Aliases) > 0 || o.port != row.port || o.host != "127.0.0.1" || o.config.MaxModelLen != row.length {
			t.Errorf("%s: %+v, %s:%s", row.file, o.config, o.host, o.port)
		}
		if diff := cmp.Diff(strings.Fields(row.ignored), o.ignored); diff != "" {
			t.Errorf("%s: ignored (-want +got):\n%s", row.file, diff)
		}
		if err := o.config.Validate(); err != nil {
			t.Errorf("%s: %v", row.file, err)
		}
	}
}

func TestSimFlags(t *testing.T) {
	t.Setenv("SERVEBENCH_SIM_API_KEY", "")
	t.Setenv("VLLM_API_KEY", "")
	engine := func(change func(*sim.Engine)) *sim.Engine {
		e := defaultEngine()
		change(&e)
		return &e
	}
	for _, row := range []struct {
		reading, args string
		want          sim.Config
		port          string
		ignored       string
	}{
		{"nothing is fixed timing on a free port", "", sim.Config{TTFT: 50 * time.Millisecond, ITL: 10 * time.Millisecond, TokensPerChunk: 1}, "0", ""},
		{"the flags of old", "--model x --ttft 1ms --itl 2ms --per-prompt-token 3us --jitter .5 --seed 4 --slots 5 --tokens-per-chunk 6 --max-model-len 7 --truth --port 8",
			sim.Config{Model: "x", TTFT: time.Millisecond, ITL: 2 * time.Millisecond, PerPromptToken: 3 * time.Microsecond, Jitter: .5, Seed: 4, Slots: 5,
				TokensPerChunk: 6, MaxModelLen: 7, Truth: true}, "8", ""},
		{"its own timing", "--enable-per-request-metrics", sim.Config{TTFT: 50 * time.Millisecond, ITL: 10 * time.Millisecond, TokensPerChunk: 1, PerRequestMetrics: true}, "0", ""},
		{"a model as a word is an engine on vLLM's port", "x", sim.Config{Model: "x", TokensPerChunk: 1, Engine: engine(func(*sim.Engine) {})}, "8000", ""},
		{"fixed timing goes before vLLM's limits", "x --ttft 1ms --max-num-seqs 3", sim.Config{Model: "x", TTFT: time.Millisecond, ITL: 10 * time.Millisecond, TokensPerChunk: 1}, "8000", "--max-num-seqs"},
		{"names and keys", "x --served-model-name a b --lora-modules l=/p {\"name\":\"m\",\"path\":\"/q\"} --api-key k1 k2",
			sim.Config{Model: "a", Aliases: []string{"b", "l", "m"}, APIKey: "k1", MoreKeys: []string{"k2"}, TokensPerChunk: 1, Engine: engine(func(*sim.Engine) {})}, "8000", ""},
		{"every time of the engine", "--decode-ms 1.5 --per-sequence 2us --context-rate 3e6 --prefill-rate 4000 --overhead 5ms --frontend 6us --idle-delay 7ms --spec-tokens 2 --acceptance 1:0.5,3:0.25 --draft-overhead 8us --time-scale 0.1",
			sim.Config{TokensPerChunk: 1, Engine: engine(func(e *sim.Engine) {
				e.StepBase, e.PerSequence, e.ContextRate, e.PrefillRate = 1500*time.Microsecond, 2*time.Microsecond, 3e6, 4000
				e.Overhead, e.Frontend, e.IdleDelay = 5*time.Millisecond, 6*time.Microsecond, 7*time.Millisecond
				e.SpeculativeTokens, e.Acceptance, e.DraftOverhead = 2, []sim.Acceptance{{Share: 1, Rate: .5}, {Share: 3, Rate: .25}}, 8*time.Microsecond
				e.TimeScale = .1
			})}, "0", ""},
		{"blocks of 32 tokens", "--num-gpu-blocks-override 100 --block-size 32 --stream-interval 4", sim.Config{TokensPerChunk: 4, Engine: engine(func(e *sim.Engine) { e.BlockSize, e.KVTokens = 32, 3200 })}, "0", ""},
		// 2^30 bytes / 2^17 bytes a token = 8192 tokens
		{"a GiB at the default bytes a token", "--kv-cache-memory-bytes 1G", sim.Config{TokensPerChunk: 1, Engine: engine(func(e *sim.Engine) { e.KVTokens = 8192 })}, "0", ""},
		// 1000000 / 1000 = 1000 tokens, in blocks of 16 992
		{"bytes in whole blocks", "--kv-cache-memory-bytes 1m --kv-bytes-per-token 1k", sim.Config{TokensPerChunk: 1, Engine: engine(func(e *sim.Engine) { e.KVTokens = 992 })}, "0", ""},
		{"speculation by its config", `x -sc.num_speculative_tokens 3 -sc.method ngram`, sim.Config{Model: "x", TokensPerChunk: 1,
			Engine: engine(func(e *sim.Engine) { e.SpeculativeTokens, e.Acceptance = 3, []sim.Acceptance{{Share: 1, Rate: .6}} })}, "8000", ""},
		{"switches", "--no-enable-prefix-caching --no-enable-chunked-prefill --max-num-batched-tokens 8k --gpu-memory-utilization .5", sim.Config{TokensPerChunk: 1,
			Engine: engine(func(e *sim.Engine) {
				e.ChunkedPrefill, e.PrefixCaching, e.MaxNumBatchedTokens, e.GPUMemoryUtilization = false, false, 8000, .5
			})}, "0", ""},
	} {
		o, err := readWords(strings.Fields(row.args)...)
		if err != nil {
			t.Errorf("%s: %v", row.reading, err)
			continue
		}
		got := o.config
		if len(got.Aliases) == 0 {
			got.Aliases = nil
		}
		if len(got.MoreKeys) == 0 {
			got.MoreKeys = nil
		}
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.reading, diff)
		}
		if o.port != row.port || strings.Join(o.ignored, " ") != row.ignored {
			t.Errorf("%s: port %s, ignored %q", row.reading, o.port, o.ignored)
		}
	}
}

// What is wrong is said in one go, by the flag's name. vLLM's parser has no say in these.
func TestSimRefusesFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--ttft x":                                          `--ttft: "x"; want a time of at most 24h, such as 50ms`,
		"--ttft 1ms --decode-ms 3":                          "--ttft: is about fixed timing, and --decode-ms about the engine model; want one of the two",
		"--slots 3 --like f":                                "--slots: is about fixed timing, and --like about the engine model",
		"--jitter 2":                                        "--jitter: 2; want 0 to 1",
		"--port 65536":                                      "--port: 65536; want 0 to 65535",
		"--time-scale 0":                                    "--time-scale: 0; want",
		"--acceptance 0.5":                                  "--acceptance: is about draft tokens; want --spec-tokens or --speculative-config with it",
		"--spec-tokens 1 --acceptance 1.5":                  `--acceptance: "1.5"; want a probability from 0 to 1`,
		"--spec-tokens 1 --acceptance 0:1":                  `--acceptance: "0:1"; want`,
		"--spec-tokens 0":                                   "--spec-tokens: 0; want 1 to 1024",
		"m --speculative-config {}":                         `--speculative-config: wants "num_speculative_tokens" from 1 to 1024`,
		"m --speculative-config 3":                          `--speculative-config: "3"; want a JSON object`,
		"--spec-tokens 2 -sc.num_speculative_tokens 3":      "--spec-tokens: 2, and --speculative-config says 3; want one of them",
		"--kv-tokens 9 --num-gpu-blocks-override 9":         "--kv-tokens: the size of the KV cache is given in two ways; want one of them",
		"--kv-cache-memory-bytes 1T --kv-bytes-per-token 1": "--kv-cache-memory-bytes: 1099511627776 tokens of KV cache; want 1073741824 at most",
		"--stream-interval 2 --tokens-per-chunk 2":          "--stream-interval: --tokens-per-chunk is the same; want one of the two",
		"--fail-after 0":                                    "--fail-after: 0; want 1 or more requests",
		"--fail-start-over max-num-seqs":                    `--fail-start-over: "max-num-seqs"; want FLAG=N`,
		"--fail-start-over dtype=3":                         `--fail-start-over: --"dtype" is no flag with a number`,
		"--lora-modules a=b":                                "--lora-modules: adapts no model; want MODEL with it",
		"m --lora-modules a":                                `--lora-modules: "a"; want NAME=PATH`,
		"--config f.yaml":                                   `--config "f.yaml" is not supported`,
		"--headless":                                        `--headless "true" is not supported: nothing would answer`,
		"--start-delay -1s":                                 "--start-delay",
		"--max-num-seqs 0 --ttft 1h --slots -1":             "--slots: -1; want 0 to",
	} {
		code, out, errs := command(t, append([]string{"sim"}, strings.Fields(args)...)...)
		if code != exitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s\nwant %s", args, code, errs, want)
		}
	}
}

// A key on the command line is in no message.
func TestSimShowsNoSecrets(t *testing.T) {
	for _, args := range []string{"m --api-key sk-canary --port x", "m --api-key sk-canary -sk-canary", "m --api-key=sk-canary sk-canary", "m --hf-token sk-canary --fail-start", "m --api-keys=sk-canary"} {
		_, out, errs := command(t, append([]string{"sim"}, strings.Fields(args)...)...)
		if strings.Contains(out+errs, "canary") {
			t.Errorf("%s: %s", args, errs)
		}
	}
}

// The flags that are printed for an engine are that engine.
func TestEngineFlagsComeBack(t *testing.T) {
	for _, e := range []sim.Engine{
		defaultEngine(),
		{StepBase: 11672458, PrefillRate: 18167.08579119708, MaxNumSeqs: 64},
		{MaxNumSeqs: 1, MaxNumBatchedTokens: 2, PrefixCaching: true, KVTokens: 320, BlockSize: 32, StepBase: 4, PerSequence: 5, ContextRate: 1e9 / 7, PrefillRate: 1. / 3,
			Overhead: 6, Frontend: 7 * time.Second, IdleDelay: 8, SpeculativeTokens: 9, Acceptance: []sim.Acceptance{{Share: 1. / 3, Rate: 2. / 3}, {Share: 2, Rate: 0}},
			DraftOverhead: 10, TimeScale: .25, GPUMemoryUtilization: .88, CacheDtype: "fp8"},
	} {
		o, err := readWords(engineFlags(e)...)
		if err != nil {
			t.Errorf("%q: %v", engineFlags(e), err)
			continue
		}
		if diff := cmp.Diff(&e, o.config.Engine); diff != "" {
			t.Errorf("%q (-want +got):\n%s", engineFlags(e), diff)
		}
	}
}

// A start that fails ends with vLLM's words and exit code.
func TestSimFailsToStart(t *testing.T) {
	for _, row := range []struct {
		reading, args string
		want          []string
	}{
		{"on demand", "m --fail-start", []string{"told to fail by --fail-start"}},
		{"with a message", "m --fail-start=torch.OutOfMemoryError:_CUDA", []string{"] torch.OutOfMemoryError:_CUDA\n"}},
		{"a message takes no word", "--fail-start m", []string{"told to fail"}},
		{"after a while", "m --fail-start --start-delay 1ms", []string{"told to fail"}},
		{"as the reference's 12288 did", "m --max-num-batched-tokens 12288 --fail-start-over max_num_batched_tokens=11776", []string{
			"--max-num-batched-tokens is 12288, above the 11776 of --fail-start-over", "ValueError: No available memory for the cache blocks."}},
		{"any flag with a number", "m -tp 4 --fail-start-over block_size=1,tensor-parallel-size=2", []string{"--tensor-parallel-size is 4, above the 2"}},
		{"a KV cache of less than one request", "m --max-model-len 1k --num-gpu-blocks-override 10", []string{
			// 1000 and 160 tokens of 131072 bytes
			"ValueError: To serve at least one request with the model's max seq len (1000), (0.12 GiB KV cache is needed, which is larger than the available KV cache memory (0.02 GiB). Based on the available memory, the estimated maximum model length is 160."}},
		{"a budget below the length without chunks", "m --max-model-len 4k --max-num-batched-tokens 2k --no-enable-chunked-prefill", []string{
			"ValueError: max_num_batched_tokens (2000) is smaller than max_model_len (4000)."}},
		{"a budget below the sequences", "m --max-num-batched-tokens 8 --max-num-seqs 9", []string{"ValueError: max_num_batched_tokens (8) must be greater than or equal to max_num_seqs (9)"}},
	} {
		code, out, errs := command(t, append([]string{"sim"}, strings.Fields(row.args)...)...)
		if code != 1 || out != "" {
			t.Errorf("%s: exit %d, %q", row.reading, code, out)
		}
		for _, want := range append(row.want, "EngineCore failed to start.", "RuntimeError: Engine core initialization failed.") {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: no %q in\n%s", row.reading, want, errs)
			}
		}
		if strings.Contains(errs, "startup complete") {
			t.Errorf("%s: it started:\n%s", row.reading, errs)
		}
	}
	code, _, errs := command(t, "sim", "m", "--max-model-len", "auto", "--num-gpu-blocks-override", "10", "--fail-start-over", "max-model-len=159")
	if code != 1 || !strings.Contains(errs, "--max-model-len is 160, above the 159") {
		t.Errorf("auto is what fits in the cache: exit %d, %s", code, errs)
	}
	code, _, errs = command(t, "sim", "m", "--max-num-batched-tokens", "11776", "--fail-start-over", "max-num-batched-tokens=11776", "--fail-start=other")
	if code != 1 || strings.Contains(errs, "cache blocks") || !strings.Contains(errs, "other") {
		t.Errorf("the limit itself is no failure: exit %d, %s", code, errs)
	}
}

// startSimulator runs sim and returns its URL; ended has the exit code.
func startSimulator(t *testing.T, errs *strings.Builder, args ...string) (url string, ended <-chan int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	lines, codes := make(chan string, 1), make(chan int, 1)
	go func() {
		codes <- run(ctx, append([]string{"sim", "--port", "0"}, args...), writerFunc(func(p []byte) { lines <- string(p) }), errs)
	}()
	t.Cleanup(cancel)
	select {
	case line := <-lines:
		return strings.TrimSpace(strings.TrimPrefix(line, "listening on ")), codes
	case code := <-codes:
		t.Fatalf("exit %d: %s", code, errs)
	}
	return "", nil
}

// A server that dies leaves its clients without an answer and ends with 1.
func TestSimDiesAfterSomeRequests(t *testing.T) {
	var errs strings.Builder
	url, ended := startSimulator(t, &errs, "m", "--decode-ms", "0", "--prefill-rate", "0", "--fail-after", "2")
	defer http.DefaultClient.CloseIdleConnections()
	ask := func() (int, error) {
		res, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"a","max_tokens":2}`))
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		return res.StatusCode, nil
	}
	if res, err := http.Get(url + "/v1/models"); err != nil || res.Body.Close() != nil {
		t.Fatal(err) // it asks for no tokens
	}
	for i := range 2 {
		if status, err := ask(); status != http.StatusOK {
			t.Fatalf("request %d: %d, %v", i, status, err)
		}
	}
	if status, err := ask(); err == nil {
		t.Errorf("the third request is answered: %d", status)
	}
	if code := <-ended; code != 1 || !strings.Contains(errs.String(), "ended after 2 requests, as --fail-after says") {
		t.Errorf("exit %d: %s", code, &errs)
	}
}

// HTTPS with a certificate made at the start, or with that of vLLM's flags.
func TestSimSpeaksTLS(t *testing.T) {
	pair, err := sim.SelfSigned(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, blocks ...*pem.Block) string {
		var b []byte
		for _, block := range blocks {
			b = append(b, pem.EncodeToMemory(block)...)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	certBlock, keyBlock := &pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, &pem.Block{Type: "PRIVATE KEY", Bytes: key}
	cert, keyFile, both := write("cert.pem", certBlock), write("key.pem", keyBlock), write("both.pem", certBlock, keyBlock)
	for _, args := range [][]string{{"--tls"}, {"--ssl-certfile", cert, "--ssl-keyfile", keyFile}, {"--ssl-certfile", both}, {"--tls", "--fail-after", "100"}} {
		var errs strings.Builder
		url, _ := startSimulator(t, &errs, append([]string{"--ttft", "1ms", "--itl", "1ms", "--truth"}, args...)...)
		if !strings.HasPrefix(url, "https://127.0.0.1:") {
			t.Errorf("%q: %s", args, url)
		}
		line := []string{"serve", "--base-url", url, "--num-prompts", "2", "--random-input-len", "4", "--random-output-len", "3", "--skip-tokenizer-init", "--model", "m"}
		if code, out, errs := command(t, append(line, "--insecure")...); code != 0 || !strings.Contains(out, "Successful requests:                     2") {
			t.Errorf("%q: exit %d: %s%s", args, code, errs, out)
		}
		if code, _, errs := command(t, line...); code != exitTarget || !strings.Contains(errs, "certificate") {
			t.Errorf("%q, unknown: exit %d: %s", args, code, errs)
		}
	}
	for _, row := range []struct{ args, want string }{
		{"--tls --ssl-certfile " + cert, "--tls: makes a certificate"},
		{"--ssl-keyfile " + keyFile, "--ssl-keyfile: is the key of a certificate"},
		{"--ssl-certfile " + cert, "--ssl-certfile: "},
		{"--ssl-certfile " + filepath.Join(dir, "none"), "--ssl-certfile: "},
	} {
		code, _, errs := command(t, append([]string{"sim"}, strings.Fields(row.args)...)...)
		if code != exitUsage || !strings.Contains(errs, row.want) {
			t.Errorf("%s: exit %d: %s", row.args, code, errs)
		}
	}
}

// Patterns that wait for a vLLM to start find what they look for.
func TestSimLogsLikeVLLM(t *testing.T) {
	var errs strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	code := run(ctx, []string{"sim", "m", "--port", "0", "--dtype", "half", "-q", "fp8", "--max-model-len", "1k", "--num-gpu-blocks-override", "1000"},
		writerFunc(func(p []byte) { cancel() }), &errs)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	for _, want := range []string{"Application startup complete.", "] ignored: --dtype, --quantization\n", "GPU KV cache size: 16,000 tokens, Maximum concurrency for 1,000 tokens per request: 16.00x"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("no %q in\n%s", want, &errs)
		}
	}
}

func TestSimHelp(t *testing.T) {
	for topic, want := range map[string][]string{
		"":        {"--like ", "--decode-ms ", "--max-num-seqs ", "--fail-start "},
		"all":     {"--like ", "--enforce-eager/--no-enforce-eager", "Refused: only HTTP is spoken.", "--tensor-parallel-size/-tp"},
		"engine":  {"--decode-ms ", "takes B + s*Q + c/C + p/P"},
		"dtype":   {"--dtype", "--kv-cache-dtype"},
		"failing": {"--fail-after "},
	} {
		arg := "--help"
		if topic != "" {
			arg += "=" + topic
		}
		code, out, errs := command(t, "sim", arg)
		if code != 0 || errs != "" {
			t.Errorf("%s: exit %d, %s", arg, code, errs)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: no %q in\n%s", arg, w, out)
			}
		}
		for line := range strings.Lines(out) {
			if len([]rune(line)) > helpWidth+1 {
				t.Errorf("%s: %d columns: %s", arg, len(line), line)
			}
		}
	}
	if _, out, _ := command(t, "sim", "--help"); strings.Contains(out, "enforce-eager") || strings.Count(out, "\n") > 80 {
		t.Errorf("the short help is long:\n%s", out)
	}
	if code, _, errs := command(t, "sim", "--help=zzz"); code != exitUsage || !strings.Contains(errs, `"zzz"`) {
		t.Errorf("exit %d, %s", code, errs)
	}
	_, direct, _ := command(t, "sim", "--help")
	if _, out, _ := command(t, "help", "sim"); out != direct {
		t.Error("help sim is something else")
	}
}
