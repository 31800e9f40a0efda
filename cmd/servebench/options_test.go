package main

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/metrics"
)

// optionsOf reads a command line as serve does.
func optionsOf(t *testing.T, args ...string) (o *options, err error) {
	t.Helper()
	parsed, err := normalize(args, serveFlags())
	if err != nil {
		return nil, err
	}
	term := &terminal{out: io.Discard, err: io.Discard}
	return term.readWords(t.Context(), parsed.Words)
}

// Every data set's flags, defaults and general lengths, as vLLM's get_samples takes them.
func TestDataSetFlags(t *testing.T) {
	const common = `"prompts":1000,"seed":0`
	for _, row := range []struct{ reading, args, want string }{
		{"nothing is random", "", `{"name":"random",` + common + `,"input_len":1024,"output_len":128,"range_ratio":{"input":0,"output":0},"batch_size":1}`},
		{"random's own", "--random-input-len 5 --random-output-len 6 --random-prefix-len 7 --random-batch-size 8 --random-range-ratio 0.5 --num-prompts 3 --seed 4",
			`{"name":"random","prompts":3,"seed":4,"input_len":5,"output_len":6,"prefix_len":7,"range_ratio":{"input":0.5,"output":0.5},"batch_size":8}`},
		{"general lengths win over random's, in any order", "--input-len 1 --output-len 2 --random-input-len 5 --random-output-len 6",
			`{"name":"random",` + common + `,"input_len":1,"output_len":2,"range_ratio":{"input":0,"output":0},"batch_size":1}`},
		{"ratios key by key", "--random-range-ratio.output 0.25 --random-range-ratio.input 0",
			`{"name":"random",` + common + `,"input_len":1024,"output_len":128,"range_ratio":{"input":0,"output":0.25},"batch_size":1}`},
		{"rerank has no answers and no prefix", "--dataset-name random-rerank --random-batch-size 4 --no-reranker --random-prefix-len 3 --output-len 9",
			`{"name":"random-rerank",` + common + `,"input_len":1024,"range_ratio":{"input":0,"output":0},"batch_size":4,"no_reranker":true}`},
		{"images on chat", "--dataset-name random-mm --backend openai-chat --random-mm-base-items-per-request 2 --random-mm-num-mm-items-range-ratio 0.5 --random-mm-limit-mm-per-prompt.image 3",
			`{"name":"random-mm",` + common + `,"input_len":1024,"output_len":128,"range_ratio":{"input":0,"output":0},` +
				`"media":{"items":2,"items_ratio":0.5,"limit":{"image":3},"buckets":[{"height":256,"width":256,"frames":1,"probability":0.5},{"height":720,"width":1280,"frames":1,"probability":0.5},{"height":720,"width":1280,"frames":16,"probability":0}]}}`},
		{"prefix_repetition", "--dataset-name prefix_repetition --input-len 9", `{"name":"prefix_repetition",` + common + `,"output_len":128,"prefix_len":256,"range_ratio":{"input":0,"output":0},"suffix_len":256,"prefixes":10}`},
		{"sharegpt has the answers' lengths", "--dataset-name sharegpt --dataset-path f --no-oversample --disable-shuffle",
			`{"name":"sharegpt","path":"f",` + common + `,"output_len":-1,"disable_shuffle":true,"no_oversample":true}`},
		{"sharegpt's own length", "--dataset-name sharegpt --sharegpt-output-len 7", `{"name":"sharegpt",` + common + `,"output_len":7}`},
		{"the general one for sharegpt", "--dataset-name sharegpt --sharegpt-output-len 7 --output-len 8", `{"name":"sharegpt",` + common + `,"output_len":8}`},
		{"custom", "--dataset-name custom --dataset-path f.jsonl --skip-chat-template", `{"name":"custom","path":"f.jsonl",` + common + `,"output_len":256,"skip_template":true}`},
		{"custom by its lines", "--dataset-name custom --custom-output-len -1 --num-prompts 0", `{"name":"custom","prompts":0,"seed":0,"output_len":-1}`},
		{"custom_image", "--dataset-name custom_image --backend openai-chat --custom-ensure-client-side-data --output-len 5",
			`{"name":"custom_image",` + common + `,"output_len":5,"media":{"client_side":true}}`},
		{"spec_bench: vLLM does not pass it --skip-chat-template", "--dataset-name spec_bench --spec-bench-category math --skip-chat-template",
			`{"name":"spec_bench",` + common + `,"output_len":256,"category":"math"}`},
		{"speed_bench has no general length", "--dataset-name speed_bench --output-len 5 --speed-bench-dataset-subset throughput_1k --speed-bench-category a --skip-chat-template",
			`{"name":"speed_bench",` + common + `,"output_len":4096,"category":"a","subset":"throughput_1k","skip_template":true}`},
		{"burstgpt has the rows' lengths", "--dataset-name burstgpt --output-len 5", `{"name":"burstgpt",` + common + `,"output_len":-1}`},
		{"sonnet, an older vLLM's", "--dataset-name sonnet", `{"name":"sonnet",` + common + `,"input_len":550,"output_len":150,"prefix_len":200}`},
		{"its lengths", "--dataset-name sonnet --sonnet-input-len 1 --output-len 2 --sonnet-prefix-len 3", `{"name":"sonnet",` + common + `,"input_len":1,"output_len":2,"prefix_len":3}`},
		{"timed_trace", "--dataset-name timed_trace --timed-trace-sec-multiplier 0.001 --timed-trace-label-timestamp t",
			`{"name":"timed_trace",` + common + `,"output_len":-1,"trace":{"block_size":16,"multiplier":0.001,"timestamp":"t","input_length":"input_length","output_length":"output_length","hash_ids":"hash_ids"}}`},
		{"hf", "--dataset-name hf --dataset-path a/b --hf-split s --hf-subset u --hf-name n --no-stream --hf-prompt-column p --hf-output-column o",
			`{"name":"hf","path":"a/b",` + common + `,"output_len":-1,"subset":"u","hub":{"split":"s","name":"n","prompt_column":"p","output_column":"o","max_distance":1,"no_stream":true}}`},
		{"hf's length", "--dataset-name hf --hf-output-len 3 --blazedit-min-distance 0.5",
			`{"name":"hf",` + common + `,"output_len":3,"hub":{"min_distance":0.5,"max_distance":1}}`},
		{"embeddings do not", "--dataset-name custom --backend openai-embeddings", `{"name":"custom",` + common + `,"output_len":256}`},
		{"prompts and warm-ups in our own forms", "--prompt-form token-ids --num-warmups 3 --warmup-prompts first",
			`{"name":"random",` + common + `,"input_len":1024,"output_len":128,"range_ratio":{"input":0,"output":0},"batch_size":1,"token_ids":true,"warmups":3,"warmup_first":true}`},
	} {
		o, err := optionsOf(t, strings.Fields(row.args)...)
		if err != nil {
			t.Errorf("%s: %q: %v", row.reading, row.args, err)
			continue
		}
		var want dataset.Spec
		if err := json.Unmarshal([]byte(row.want), &want); err != nil {
			t.Fatalf("%s: %v", row.reading, err)
		}
		if diff := cmp.Diff(want, o.config.Dataset); diff != "" {
			t.Errorf("%s: %q (-want +got):\n%s", row.reading, row.args, diff)
		}
	}
}

// The rest of the configuration, as a JSON object of the fields that the row is about.
func TestRunFlags(t *testing.T) {
	for _, row := range []struct{ reading, args, want string }{
		{"defaults", "", `{"backend":"openai","stream":true,"ignore_eos":true,"request_rate":"inf","burstiness":1,"pacing":"hybrid","grace":10000000000,"percentiles":[99]}`},
		{"EOS counts where nothing is random", "--dataset-name custom", `{"ignore_eos":null}`},
		{"unless it is asked for", "--dataset-name custom --ignore-eos", `{"ignore_eos":true}`},
		{"a trace goes on to its length", "--dataset-name timed_trace", `{"ignore_eos":true,"ignore_times":null}`},
		{"random on chat and responses", "--backend openai-responses", `{"ignore_eos":true}`},
		{"but not where nothing is generated", "--backend openai-embeddings", `{"ignore_eos":null}`},
		{"a trace by the rate", "--dataset-name timed_trace --no-self-timed --request-rate 3", `{"ignore_times":true,"request_rate":3}`},
		{"ramp", "--ramp-up-strategy linear --ramp-up-start-rps 0 --ramp-up-end-rps 2.5", `{"ramp":{"strategy":"linear","start":0,"end":2.5},"request_rate":"inf"}`},
		{"adapters, at random unless", "--lora-modules a b", `{"lora":["a","b"],"lora_random":true}`},
		{"adapters in turn", "--lora-modules a b --lora-assignment round-robin", `{"lora":["a","b"],"lora_random":null}`},
		{"probes and profiler", "--probe-request-rate 0.5 --profile", `{"probe_rate":0.5,"profile":true}`},
		{"one server", "", `{"replicas":null,"telemetry":null,"reset_prefix_cache":null}`},
		{"replicas beside the base URL", "--base-url http://a:1 --replica-url http://b:1 --replica-url http://c:1", `{"replicas":["http://b:1","http://c:1"]}`},
		{"replicas beside the host", "--port 9 --replica-url http://b:1", `{"replicas":["http://b:1"]}`},
		{"all of them", "--replica-url http://b:1/ http://c:1", `{"replicas":["http://c:1"],"target":{"base_url":"http://b:1","endpoint":"/v1/completions"}}`},
		{"a single one is none", "--replica-url http://b:1", `{"replicas":null,"target":{"base_url":"http://b:1","endpoint":"/v1/completions"}}`},
		{"what is watched", "--telemetry-gpu --telemetry-interval 0.5 --telemetry-devices 0,3 --telemetry-engine-metrics=false --reset-prefix-cache",
			`{"telemetry":{"gpu":true,"interval":500000000,"devices":[0,3],"no_engine_metrics":true},"reset_prefix_cache":true}`},
		{"arguments to the template", "--dataset-name custom --chat-template-kwargs.thinking true", `{"chat_template_kwargs":{"thinking":true}}`},
		{"they are custom's and speed_bench's", "--chat-template-kwargs.thinking true", `{"chat_template_kwargs":null}`},
		{"null is none", "--extra-body null --chat-template-kwargs null", `{"extra_body":null,"chat_template_kwargs":null}`},
		{"numbers keep their spelling", "--extra-body.a.b 1.50 --extra-body.c 1k", `{"extra_body":{"a":{"b":1.50},"c":1000}}`},
		{"spaces around keys and values go", "--metadata=\x00a\x00=\x00b\x00", `{"metadata":[["a","b"]]}`},
		{"logprobs are the completions'", "--backend openai-chat --logprobs 3", `{"logprobs":null}`},
		{"sampling is for what generates", "--backend vllm-pooling --temperature 0 --top-k 3", `{"sampling":{}}`},
		{"everything else", "--temperature 0 --top-p 0.5 --logprobs 2 --max-concurrency 4 --ready-check-timeout-sec 5 --served-model-name s --model m",
			`{"sampling":{"temperature":0,"top_p":0.5},"logprobs":2,"max_concurrency":4,"ready_timeout":5000000000,"served_model":"s","model":"m"}`},
	} {
		args := strings.Fields(row.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "\x00", " ")
		}
		o, err := optionsOf(t, args...)
		if err != nil {
			t.Errorf("%s: %q: %v", row.reading, row.args, err)
			continue
		}
		data, err := json.Marshal(o.config)
		if err != nil {
			t.Fatal(err)
		}
		var want, got map[string]any
		if err := errors.Join(json.Unmarshal([]byte(row.want), &want), json.Unmarshal(data, &got)); err != nil {
			t.Fatal(err)
		}
		for k, v := range want {
			if diff := cmp.Diff(v, got[k]); diff != "" {
				t.Errorf("%s: %q: %s (-want +got):\n%s", row.reading, row.args, k, diff)
			}
		}
	}
	o, err := optionsOf(t, "--extra-body.a", "1.50")
	if err != nil || string(o.config.Extra) != `{"a": 1.50}` {
		t.Errorf("extra body %s, %v", o.config.Extra, err)
	}
}

// The endpoint and the metrics follow the backend.
func TestDefaultsOfEachBackend(t *testing.T) {
	for backend, want := range map[string][2]string{
		"vllm": {"/v1/completions", "ttft,tpot,itl"}, "openai": {"/v1/completions", "ttft,tpot,itl"},
		"openai-chat": {"/v1/chat/completions", "ttft,tpot,itl"}, "openai-responses": {"/v1/responses", "ttft,tpot,itl"},
		"openai-embeddings": {"/v1/embeddings", "e2el"}, "openai-embeddings-chat": {"/v1/embeddings", "e2el"},
		"infinity-embeddings": {"/embeddings", "e2el"}, "vllm-pooling": {"/pooling", "e2el"}, "vllm-rerank": {"/v1/rerank", "e2el"},
		"openai-embeddings-clip": {"/v1/embeddings", "e2el"}, "infinity-embeddings-clip": {"/embeddings", "e2el"},
	} {
		o, err := optionsOf(t, "--backend", backend)
		if err != nil {
			t.Errorf("%s: %v", backend, err)
			continue
		}
		if got := [2]string{o.config.Target.Endpoint, strings.Join(o.selected, ",")}; got != want {
			t.Errorf("%s: %v, want %v", backend, got, want)
		}
	}
	if n := len(bench.Backends()); n != 11 {
		t.Errorf("%d backends, of which 11 are tested here", n)
	}
}

// vLLM's conflicts: each message names the flags that do not go together.
func TestConflicts(t *testing.T) {
	for _, row := range []struct {
		args  string
		names string
	}{
		{"--dataset-path f", "--dataset-path: --dataset-name random"},
		{"--dataset-name random-mm --backend openai-chat --dataset-path f", "--dataset-path: --dataset-name random-mm"},
		{"--dataset-name random-rerank --dataset-path f", "--dataset-path: --dataset-name random-rerank"},
		{"--dataset-name prefix_repetition --dataset-path f", "--dataset-path: --dataset-name prefix_repetition"},
		{"--ramp-up-strategy linear", "--ramp-up-start-rps --ramp-up-end-rps"},
		{"--ramp-up-strategy linear --ramp-up-end-rps 3", "--ramp-up-strategy: --ramp-up-start-rps"},
		{"--ramp-up-strategy linear --ramp-up-start-rps 3", "--ramp-up-strategy: --ramp-up-end-rps"},
		{"--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 3 --request-rate 5", "--request-rate: --ramp-up-strategy"},
		{"--ramp-up-strategy linear --ramp-up-start-rps 5 --ramp-up-end-rps 3", "--ramp-up-start-rps: --ramp-up-end-rps"},
		{"--ramp-up-strategy linear --ramp-up-start-rps -1 --ramp-up-end-rps 3", "--ramp-up-start-rps: -1"},
		{"--ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps inf", "--ramp-up-end-rps:"},
		{"--ramp-up-strategy linear --ramp-up-start-rps 0 --ramp-up-end-rps 0", "--ramp-up-end-rps:"},
		{"--ramp-up-strategy exponential --ramp-up-start-rps 0 --ramp-up-end-rps 3", "--ramp-up-start-rps: exponential"},
		{"--self-timed", "--self-timed: --dataset-name timed_trace"},
		{"--no-self-timed --dataset-name custom", "--self-timed: custom timed_trace"},
		{"--dataset-name timed_trace --dataset-path t.jsonl --backend openai-chat", "--dataset-name: timed_trace --backend openai-chat"},
		{"--dataset-name timed_trace --dataset-path t.jsonl --backend openai-embeddings", "--dataset-name: timed_trace --backend"},
		{"--dataset-name timed_trace --dataset-path t.jsonl --ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 3", "--ramp-up-strategy: --no-self-timed"},
		{"--dataset-name random-mm", "--dataset-name: random-mm --backend openai-chat"},
		{"--dataset-name random-mm --backend openai-embeddings-chat", "--dataset-name: random-mm --backend openai-chat"},
		{"--dataset-name custom_image --dataset-path i.jsonl --backend vllm", "--dataset-name: custom_image --backend openai-chat"},
		{"--dataset-name random-mm --backend openai-chat --random-mm-bucket-config x", "--random-mm-bucket-config: column"},
		{"--dataset-name random-mm --backend openai-chat --random-mm-limit-mm-per-prompt [1]", "--random-mm-limit-mm-per-prompt: image"},
		{"--dataset-name sharegpt --skip-tokenizer-init", "--skip-tokenizer-init: sharegpt"},
		{"--dataset-name hf --blazedit-min-distance 0.9 --blazedit-max-distance 0.1", "--blazedit-min-distance: --blazedit-max-distance"},
		{"--timeline-itl-thresholds 25", "--timeline-itl-thresholds: two"},
		{"--timeline-itl-thresholds 25,50,75", "--timeline-itl-thresholds: two"},
		{"--timeline-itl-thresholds a,b", "--timeline-itl-thresholds: two"},
		{"--replica-url b:1", "--replica-url: http://127.0.0.1:8000"},
		{"--base-url http://a --replica-url b:1", "--replica-url: b:1 base URL"},
		{"--base-url http://a --replica-url http://a/", "--replica-url: twice"},
		{"--sim --replica-url http://a", "--replica-url: --sim"},
		{"--telemetry-gpu --telemetry-devices 0,a", "--telemetry-devices: a 0,1"},
		{"--telemetry-gpu --telemetry-devices 0,0", "--telemetry-devices: once"},
		{"--telemetry-gpu --telemetry-interval 0", "--telemetry-interval: 100ms"},
		{"--telemetry-gpu --telemetry-interval 5ms", "--telemetry-interval: 100ms"},
		{"--extra-body [1]", "--extra-body: object"},
		{"--chat-template-kwargs 5", "--chat-template-kwargs: object"},
		{"--backend openai-embeddings-clip --endpoint /v1/completions", "--endpoint: --backend openai-embeddings-clip /v1/embeddings"},
		{"--backend openai-chat --endpoint /v1/completions", "--endpoint: --backend openai-chat /v1/chat/completions"},
		{"--backend openai-embeddings --endpoint /v1/completions", "--endpoint: /v1/embeddings"},
		{"--backend vllm --endpoint /v1/chat/completions", "--endpoint: /v1/completions"},
	} {
		o, err := optionsOf(t, strings.Fields(row.args)...)
		if err == nil {
			err = o.config.Validate() // what a program would hear as well
		}
		if err == nil {
			t.Errorf("%q is accepted", row.args)
			continue
		}
		for _, name := range strings.Fields(row.names) {
			if name = strings.Trim(name, "-:"); !strings.Contains(err.Error(), name) {
				t.Errorf("%q: no %q in: %v", row.args, name, err)
			}
		}
	}
}

// What is taken and changes nothing is told in a line each.
func TestRemarks(t *testing.T) {
	for _, row := range []struct {
		args string
		want []string
	}{
		{"--seed 1 --tokenizer-mode hf --trust-remote-code=false", nil},
		{"--trust-remote-code --use-beam-search --enable-multimodal-chat", []string{
			"--trust-remote-code has no effect: code that comes with a model is never run here",
			"--enable-multimodal-chat has no effect: chat requests have the same content without it",
			"--use-beam-search has no effect: vLLM's client never looks at it either"}},
		{"--asr-max-audio-len-sec inf --asr-min-audio-len-sec 0", nil},
		{"--sharegpt-output-len 3 --hf-split x", []string{"--sharegpt-output-len has no effect: --dataset-name random does not read it",
			"--hf-split has no effect: --dataset-name random does not read it"}},
		{"--dataset-name spec_bench --skip-chat-template", []string{"--skip-chat-template has no effect: --dataset-name spec_bench does not read it"}},
		{"--dataset-name speed_bench --output-len 3", []string{"--output-len has no effect: --dataset-name speed_bench does not read it"}},
		{"--backend openai-chat --logprobs 3", []string{"--logprobs has no effect: --backend openai-chat asks for none, as in vLLM's client; --extra-body can"}},
		{"--backend openai-embeddings --temperature 0 --top-p 1", []string{"--temperature has no effect: --backend openai-embeddings generates nothing",
			"--top-p has no effect: --backend openai-embeddings generates nothing"}},
		{"--ramp-up-end-rps 3 --lora-assignment random --timeline-itl-thresholds 1,2", []string{"--ramp-up-end-rps has no effect: there is no --ramp-up-strategy",
			"--lora-assignment has no effect: there are no --lora-modules", "--timeline-itl-thresholds has no effect: there is no --plot-timeline"}},
		{"--dataset-name custom --backend openai-chat --chat-template-kwargs.a 1", []string{
			`--chat-template-kwargs has no effect: the server renders the template of --backend openai-chat; want --extra-body '{"chat_template_kwargs": {...}}'`}},
		{"--dataset-name timed_trace --request-rate 3", []string{"--request-rate has no effect: timed_trace has times of its own; --no-self-timed sends by the rate"}},
	} {
		o, err := optionsOf(t, strings.Fields(row.args)...)
		if err != nil {
			t.Errorf("%q: %v", row.args, err)
			continue
		}
		if diff := cmp.Diff(row.want, o.remarks); diff != "" {
			t.Errorf("%q (-want +got):\n%s", row.args, diff)
		}
		if len(row.want) > 0 && !slices.Contains(o.notes(), row.want[0]) {
			t.Errorf("%q: the remark is not among the notes %q", row.args, o.notes())
		}
	}
}

// vLLM's name of the result file, with a ramp too.
func TestResultNames(t *testing.T) {
	for args, want := range map[string]string{
		"--save-result": "openai-infqps-m-",
		"--save-result --request-rate 10 --max-concurrency 4 --label L":                                                               "L-10.0qps-concurrency4-m-",
		"--append-result --ramp-up-strategy linear --ramp-up-start-rps 1 --ramp-up-end-rps 20":                                        "openai-ramp-up-linear-1qps-20qps-m-",
		"--save-result --ramp-up-strategy exponential --ramp-up-start-rps 0.5 --ramp-up-end-rps 2 --max-concurrency 3 --backend vllm": "vllm-ramp-up-exponential-0.5qps-2qps-concurrency3-m-",
	} {
		o, err := optionsOf(t, strings.Fields(args)...)
		if err != nil {
			t.Errorf("%q: %v", args, err)
			continue
		}
		if got := o.defaultName("org/m"); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %s, want %s...", args, got, want)
		}
		long, other := o.defaultName("org/"+strings.Repeat("m", 300)), o.defaultName("org/m")
		if len(long) > 180 || long[len(long)-len("20060102-150405.json"):] != other[len(other)-len("20060102-150405.json"):] {
			t.Errorf("%q: a long model's file is %s; want 180 bytes at most, the time at the end", args, long)
		}
	}
}

// The arguments in the file for PyTorch's data base are those that argparse has, of
// Python's types; what may hold credentials is hidden.
func TestArguments(t *testing.T) {
	o, err := optionsOf(t, "--request-rate", "5", "--seed", "0_7", "--profile", "--header", "A=b", "--extra-body.a", "1", "--lora-modules", "x", "y",
		"--chat-template-kwargs", `{"a": 1}`, "--temperature", "1e-5", "--dataset-name", "custom", "--dataset-path", "c.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"request_rate": "5.0", "burstiness": "1.0", "seed": "7", "profile": "true", "insecure": "false", "header": `"***"`, "extra_body": `"***"`,
		"lora_modules": `["x","y"]`, "goodput": "null", "model": "null", "self_timed": "null", "chat_template_kwargs": `{"a":1}`,
		"temperature": "1e-05", "num_prompts": "1000", "asr_max_audio_len_sec": `"inf"`, "top_k": "null",
	} {
		if got, err := json.Marshal(o.args[name]); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
	if _, ok := o.args["dry_run"]; ok {
		t.Error("a flag of ours is no argument of vLLM's")
	}
}

// Nothing is said of the tokens of events where there are none.
func TestPooledTableHasNoTokenAccounting(t *testing.T) {
	for backend, want := range map[string]string{"openai": "chunks, as it is so", "openai-embeddings": ""} {
		res := &bench.Result{Plan: &bench.Plan{}, Summary: &metrics.Summary{}, Accounting: bench.Accounting{Asked: "auto", Used: "chunks", Why: "it is so"}}
		res.Config.Backend = backend
		if got := new(options).table(res, nil).Accounting; got != want {
			t.Errorf("%s: %q, want %q", backend, got, want)
		}
	}
}
