package manifest

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func rulesOf(findings []Finding) []string {
	var rules []string
	for _, f := range findings {
		rules = append(rules, string(f.Severity)+" "+f.Rule)
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

// The deviations are those that arithmetic.md lists for the references, under
// rules that are checked.
func TestVerifyReferences(t *testing.T) {
	for seed, want := range map[string][]string{
		"seed-run-1": {"warn C14", "warn C16"},
		"seed-run-2": {"warn C14", "warn C17"},
		"seed-run-3": {"warn C13", "warn C15", "warn C16"},
	} {
		findings := Verify(readFile(t, seed+".json"), nil)
		if diff := cmp.Diff(want, rulesOf(findings)); diff != "" {
			t.Errorf("%s:\n%s\n%v", seed, diff, findings)
		}
	}
}

// What the references' own rules leave out stays out.
func TestVerifyKnowsNoOtherRules(t *testing.T) {
	// Run 1's mean gap lies above its p99, and its percentiles of first token
	// and decode time do not add up to those of the whole: both are right.
	for _, f := range Verify(readFile(t, "seed-run-1.json"), nil) {
		if f.Rule == "R12" || f.Rule == "R19" {
			t.Error(f)
		}
	}
}

const (
	e2e  = "/results/latency_ms/end_to_end"
	itl  = "/results/latency_ms/inter_token"
	ttft = "/results/latency_ms/time_to_first_token"
	tpot = "/results/latency_ms/time_per_output_token"
	del  = "__del__"
)

// Each row changes a reference and names the findings that are new.
func TestVerifyFindsWhatIsWrong(t *testing.T) {
	type edits map[string]any
	bench := func(from, to string) func(map[string]any) {
		return func(doc map[string]any) { replaceText(doc, "measurement", "benchmark_command", from, to) }
	}
	launch := func(from, to string) func(map[string]any) {
		return func(doc map[string]any) { replaceText(doc, "runtime", "launch_command", from, to) }
	}
	known := make(map[string][]string) // by reference
	for _, c := range []struct {
		seed, why string
		edits     edits
		text      func(map[string]any)
		want      []string
	}{
		{"1", "a failed request too many", edits{"/results/failed_requests": 1.}, nil, []string{"fail R1"}},
		{"1", "rate one ulp up", edits{"/results/throughput/requests_per_second/value": math.Nextafter(3.8677222742038873, 4)}, nil, []string{"fail R2"}},
		{"1", "output rate rounded", edits{"/results/throughput/output_tokens_per_second/value": 990.137}, nil, []string{"fail R3"}},
		{"1", "total rate without input", edits{"/results/throughput/total_tokens_per_second/value": 990.1369021961951}, nil, []string{"fail R4"}},
		{"1", "one input token more", edits{"/results/total_input_tokens": 262145.}, nil, []string{"fail R4", "fail R5"}},
		{"1", "one output token less (no equal N, so no R9)", edits{"/results/total_output_tokens": 65535.}, nil, []string{"fail R3", "fail R4", "fail R6"}},
		{"1", "chat adds template tokens", edits{"/results/total_input_tokens": 262145., "/workload/endpoint_type": "openai-compatible-chat"}, nil, []string{"fail R4"}},
		{"1", "p90 above p95", edits{e2e + "/p90": 4147.}, nil, []string{"fail R7"}},
		{"1", "p50 below p90 in the gaps", edits{itl + "/p50": 12.9}, nil, []string{"fail R7"}},
		{"1", "mean three ulps up", edits{e2e + "/mean": 4136.0418891199515 + 3*0x1p-40}, nil, []string{"fail R9"}},
		{"1", "mean two ulps up is rounding", edits{e2e + "/mean": 4136.0418891199515 + 2*0x1p-40}, nil, nil},
		{"3", "a first token after the end", edits{ttft + "/p99": 1759.}, nil, []string{"fail R11"}},
		{"3", "half of the requests came unstreamed", edits{ttft + "/p99": 1759., ttft + "/sample_count": 100.}, nil, nil},
		{"1", "more in flight than allowed", edits{"/workload/concurrency": 15.}, nil, []string{"fail C4", "fail R13", "fail R14"}},
		{"1", "far fewer in flight than allowed", edits{"/workload/concurrency": 32.}, nil, []string{"fail C4", "warn R13"}},
		{"1", "open loop may have few in flight", edits{"/workload/concurrency": 32., "/workload/arrival_process": "poisson", "/workload/request_rate_per_second": 4.}, nil, []string{"fail C4"}},
		{"1", "duration too short", edits{"/results/duration_seconds": 66.}, nil, []string{"fail R14", "fail R2", "fail R3", "fail R4"}},
		{"3", "median too far from the mean", edits{itl + "/stddev": 0.09}, nil, []string{"fail R18"}},
		{"3", "spread of the whole beyond its parts", edits{e2e + "/stddev": 27.}, nil, []string{"fail R18"}},
		{"3", "spread of the whole below its parts", edits{e2e + "/stddev": 16.}, nil, []string{"fail R18"}},
		{"3", "chunks of two tokens and nothing that says why", edits{itl + "/mean": 6.5}, nil, []string{"warn R10"}},
		{"2", "chunks of two tokens and a speculative model", edits{itl + "/mean": 19.}, nil, nil},
		{"3", "not enough samples for a p99", edits{e2e + "/sample_count": 99.}, nil, []string{"warn samples"}},

		{"1", "a parameter against its flag", edits{"/runtime/parameters/server/dtype": "float16"}, nil, []string{"fail C1"}},
		{"1", "a number against its flag", edits{"/runtime/parameters/server/gpu_memory_utilization": 0.9}, nil, []string{"fail C1"}},
		{"3", "0.90 and 0.9 are one number", edits{"/runtime/parameters/server/gpu_memory_utilization": 0.9}, nil, nil},
		{"1", "a switch against its flag", edits{"/runtime/parameters/server/enforce_eager": true}, nil, []string{"fail C1"}},
		{"1", "a knob the command does not have", edits{"/runtime/parameters/server/block_size": 16.}, nil, nil},
		{"1", "another dtype on the command line", nil, launch("--dtype bfloat16", "--dtype=half"), []string{"fail C1"}},
		{"3", "one replica of four differs", nil, launch("--max-num-seqs 128 --no-enable-prefix-caching --disable-uvicorn-access-log --language-model-only --port 9004",
			"--max-num-seqs 64 --no-enable-prefix-caching --port 9004"), []string{"fail C1"}},
		{"2", "the speculative configuration agrees", edits{"/runtime/parameters/server/speculative_config": map[string]any{"method": "mtp", "model": "google/gemma-4-31B-it-assistant",
			"revision": "627c5ec1458b9086b841a91e0512fd31fd2fbbf1", "num_speculative_tokens": 1.}}, nil, nil},
		{"2", "the speculative configuration differs", edits{"/runtime/parameters/server/speculative_config": map[string]any{"method": "mtp"}}, nil, []string{"fail C1"}},
		{"1", "another subject", edits{"/subject/identifier": "google/gemma-4-4B-it"}, nil, []string{"fail C2", "warn C2"}},
		{"1", "another revision", edits{"/subject/revision": strings.Repeat("0", 40)}, nil, []string{"fail C2", "warn C2"}},
		{"1", "another served name", nil, launch("--served-model-name google/gemma-4-12B-it", "--served-model-name gemma"), []string{"fail C2"}},
		{"1", "a model in a folder", nil, launch("serve google/gemma-4-12B-it", "serve <local-path>"), nil},
		{"1", "another tokenizer", edits{"/workload/tokenizer/identifier": "google/gemma-4-4B-it"}, nil, []string{"warn C2"}},
		{"1", "a simulated target is no model", edits{"/subject/identifier": "servebench-sim", "/runtime/parameters/server/dtype": "none", "/measurement/extensions/servebench.simulated": true}, nil, nil},
		{"1", "two devices for one engine", edits{"/environment/accelerators/0/count": 2.}, nil, []string{"fail C3"}},
		{"3", "three replicas", edits{"/runtime/parallelism/replicas": 3.}, nil, []string{"fail C3"}},
		{"3", "two devices an engine", edits{"/runtime/parallelism/tensor": 2., "/environment/accelerators/0/count": 8.}, nil, []string{"fail C3"}},
		{"3", "no accelerators known", edits{"/runtime/parallelism/replicas": 3., "/environment": del}, nil, nil},
		{"1", "another number of prompts", nil, bench("--num-prompts 256", "--num-prompts 255"), []string{"fail C4"}},
		{"1", "fewer prompts in the data set than asked for", nil, bench("--num-prompts 256", "--num-prompts 300 --no-oversample"), nil},
		{"1", "batches", nil, bench("--num-prompts 256", "--num-prompts 1024 --random-batch-size 4"), nil},
		{"1", "all prompts of the data set", nil, bench("--num-prompts 256", "--num-prompts -1"), nil},
		{"1", "another concurrency", nil, bench("--max-concurrency 16", "--max_concurrency=17"), []string{"fail C4"}},
		{"1", "another seed", nil, bench("--seed 0", "--seed 1"), []string{"fail C4"}},
		{"1", "another number of warm-ups", edits{"/workload/warmup_request_count": 8.}, nil, []string{"fail C4", "fail C8"}},
		{"1", "another output length", nil, bench("--custom-output-len 256", "--custom-output-len 128"), []string{"fail C4"}},
		{"3", "another input length", nil, bench("--random-input-len 1024", "--random-input-len 1000"), []string{"fail C4"}},
		{"3", "prefix and rest make the length", nil, bench("--random-input-len 1024", "--random-input-len 1000 --random-prefix-len 24"), nil},
		{"3", "lengths that vary", nil, bench("--random-input-len 1024 --random-output-len 256 --random-range-ratio 0", "--random-input-len 1000 --random-range-ratio 0.5"), nil},
		{"3", "what was asked for is stated apart", edits{"/workload/extensions": map[string]any{"servebench.requested_input_tokens": 1000.}}, bench("--random-input-len 1024", "--random-input-len 1000"), nil},
		{"3", "the short form goes first", nil, bench("--random-input-len 1024", "--random-input-len 7 --input-len 1024"), nil},
		{"1", "a finite rate", nil, bench("--request-rate inf", "--request-rate 4"), []string{"fail C4"}},
		{"1", "a rate against inf", edits{"/workload/arrival_process": "poisson", "/workload/request_rate_per_second": 4.}, nil, []string{"fail C4"}},
		{"1", "end tokens not ignored", nil, bench("--ignore-eos ", ""), []string{"fail C4"}},
		{"3", "random prompts ignore the end token", nil, bench("--ignore-eos ", ""), nil},
		{"1", "another temperature", nil, bench("--temperature 0", "--temperature 0.5"), []string{"fail C4"}},
		{"1", "our own harness", nil, bench("vllm bench serve", "servebench serve"), nil},
		{"1", "our own harness, another seed", nil, bench("vllm bench serve --backend vllm", "servebench serve --seed 0"), nil},
		{"1", "another driver", edits{"/environment/accelerators/0/driver": "570.1"}, nil, []string{"fail C5"}},
		{"1", "another client version", edits{"/workload/client/version": "0.24.0"}, nil, []string{"fail C6"}},
		{"1", "another engine version is none of ours", edits{"/runtime/version": "0.24.0"}, nil, nil},
		{"1", "cache on and off", edits{"/workload/prefix_behavior/cache_enabled": true}, nil, []string{"fail C7"}},
		{"3", "cache on and off, older spelling", edits{"/workload/prefix_behavior/server_prefix_caching": true}, nil, []string{"fail C7"}},
		{"1", "another shared prefix", edits{"/workload/dataset/shared_prefix_tokens": 8.}, nil, []string{"fail C7"}},
		{"3", "another random prefix", edits{"/workload/dataset/random_prefix_tokens": 8.}, nil, []string{"fail C7"}},
		{"1", "declared warm-ups", edits{"/measurement/extensions/runpile.declared_warmup_count": 8.}, nil, []string{"fail C8"}},
		{"1", "another variant", edits{"/runtime/extensions/runpile.server_variant": "baseline"}, nil, []string{"fail C8"}},
		{"1", "another profile", edits{"/workload/extensions/runpile.profile_id": "other"}, nil, []string{"fail C8"}},
		{"1", "another repetition", edits{"/measurement/extensions/runpile.independent_repetition_index": 2.}, nil, []string{"fail C8"}},
		{"3", "another result file", nil, bench("c8.json", "c16.json"), []string{"fail C9"}},
		{"3", "the result file in a folder", nil, bench("--result-filename ", "--result-filename out/"), nil},
		{"3", "a result file nobody wrote", nil, bench("--save-result --result-dir results --result-filename gemma4", "--result-filename x"), nil},
		{"3", "a growing file is no artifact", nil, bench("--save-result --result-dir results --result-filename ", "--save-result --append-result --result-filename all"), nil},
		{"1", "a request longer than the model", edits{"/runtime/parameters/server/max_model_len": 1279.}, nil, []string{"fail C1", "fail C11"}},
		{"3", "more requests than sequences", edits{"/runtime/parameters/server/max_num_seqs": 1.}, nil, []string{"fail C1", "fail C11"}},
		{"1", "more active parameters than all", edits{"/subject/parameter_count_active": 13e9}, nil, []string{"fail C12"}},
		{"1", "another device on the command line", edits{"/runtime/safe_environment/CUDA_VISIBLE_DEVICES": "1"}, nil, []string{"warn C13"}},
		{"3", "a processor without a model", edits{"/environment/cpu/model": "aarch64"}, nil, []string{"warn C14"}},
		{"1", "a number as text", edits{"/runtime/parameters/server/max_num_seqs": "64"}, nil, []string{"warn C15"}},
		{"2", "prompts without a hash", edits{"/workload/dataset/sha256": del}, nil, []string{"warn C16"}},
		{"1", "warm-ups repeat a timed prompt", edits{"/measurement/extensions/servebench.warmup_prompts": "first"}, nil, []string{"warn warmup"}},
		{"1", "a kind that the name denies", edits{"/artifacts/0/filename": "x.log"}, nil, []string{"fail C9", "fail X12"}},
	} {
		before, ok := known[c.seed]
		if !ok {
			before = rulesOf(Verify(readFile(t, "seed-run-"+c.seed+".json"), nil))
			known[c.seed] = before
		}
		doc := document(t, "seed-run-"+c.seed)
		for pointer, value := range c.edits {
			edit(t, doc, pointer, "replace", value)
		}
		if c.text != nil {
			c.text(doc)
		}
		findings := Verify(marshal(t, doc), nil)
		got := slices.DeleteFunc(rulesOf(findings), func(rule string) bool { return slices.Contains(before, rule) })
		if !slices.Equal(got, c.want) {
			t.Errorf("run %s, %s: got %q, want %q\n%v", c.seed, c.why, got, c.want, findings)
		}
	}
}

// replaceText panics where the text to replace is not there, so that no row of
// a table changes nothing.
func replaceText(doc map[string]any, object, key, from, to string) {
	o := doc[object].(map[string]any)
	text := o[key].(string)
	if !strings.Contains(text, from) {
		panic(fmt.Sprintf("no %q in %s.%s", from, object, key))
	}
	o[key] = strings.Replace(text, from, to, 1)
}

func TestVerifyEmpiricalLengths(t *testing.T) {
	check := func(why string, mean, low, high float64, want ...string) {
		t.Helper()
		doc := document(t, "seed-run-1")
		edit(t, doc, "/workload/output_tokens", "replace", map[string]any{"kind": "empirical", "min": low, "max": high, "mean": mean})
		edit(t, doc, "/workload/stopping/ignore_eos", "replace", false)
		replaceText(doc, "measurement", "benchmark_command", "--ignore-eos ", "")
		got := slices.DeleteFunc(rulesOf(Verify(marshal(t, doc), nil)), func(s string) bool { return s == "warn C14" || s == "warn C16" })
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", why, got, want)
		}
	}
	check("65536 tokens are 256 x 256", 256, 1, 256)
	check("a mean that gives another sum", 255, 1, 256, "fail R6")
	check("a mean beyond the longest", 256, 1, 255, "fail R6")
}

func TestVerifyArtifacts(t *testing.T) {
	const name = "run.requests.jsonl"
	records := func(n int, output int) string {
		line := fmt.Sprintf(`{"seq":0,"outcome":"ok","prompt_tokens":1024,"output_tokens":%d}`+"\n", output)
		return strings.Repeat(line, n) + `{"seq":9,"outcome":"http","prompt_tokens":0,"output_tokens":7}` + "\n"
	}
	verify := func(files fs.FS, content, sha string, size int) []Finding {
		t.Helper()
		run := parse[Run](t, marshal(t, document(t, "seed-run-2")))
		if sha == "" {
			sha = fmt.Sprintf("%x", sha256.Sum256([]byte(content)))
		}
		run.Artifacts = append(run.Artifacts, Artifact{Kind: "requests_jsonl", SHA256: sha, Filename: name, MediaType: "application/jsonl",
			SizeBytes: int64(size), ClientArtifactID: "records", RawRequestsIncluded: true})
		data, err := Encode(&run)
		if err != nil {
			t.Fatal(err)
		}
		return Verify(data, files)
	}
	check := func(why, content, sha string, size int, want ...string) {
		t.Helper()
		got := slices.DeleteFunc(rulesOf(verify(fstest.MapFS{name: {Data: []byte(content)}}, content, sha, size)),
			func(s string) bool { return s == "warn C14" || s == "warn C17" })
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", why, got, want)
		}
	}
	good := records(256, 256)
	// The reference's own result file is private: a warning, as it is not here.
	check("the file as stated", good, "", len(good), "warn sha256")
	check("another size", good, "", len(good)+1, "fail size", "warn sha256")
	check("another hash", good, strings.Repeat("0", 64), len(good), "fail sha256", "warn sha256")
	fewer := records(255, 256)
	check("a request is missing", fewer, "", len(fewer), "fail R1", "fail R5", "fail R6", "warn sha256")
	shorter := records(256, 255)
	check("shorter responses", shorter, "", len(shorter), "fail R6", "warn sha256")
	if findings := verify(nil, good, strings.Repeat("0", 64), 1); slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Fail }) {
		t.Errorf("no files to look at: %v", findings)
	}
}

func TestVerifyArtifactIDs(t *testing.T) {
	doc := document(t, "seed-run-2")
	first := doc["artifacts"].([]any)[0]
	doc["artifacts"] = []any{first, first}
	got := rulesOf(Verify(marshal(t, doc), nil))
	if want := []string{"fail X11", "warn C14", "warn C17", "warn X17", "warn X18"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestVerifyWhatIsNoRun(t *testing.T) {
	check := func(data []byte, want string) {
		t.Helper()
		findings := Verify(data, nil)
		if len(findings) != 1 || findings[0].String() != want {
			t.Errorf("got %v, want %s", findings, want)
		}
	}
	check([]byte(`{"kind":"x"}`), "fail schema /kind: value must be one of 'run', 'experiment'")
	check([]byte(`{`), "fail schema /: read manifest: line 1: unexpected end of JSON input")
	doc := document(t, "seed-run-1")
	delete(doc, "results")
	delete(doc["measurement"].(map[string]any), "harness")
	findings := Verify(marshal(t, doc), nil)
	if len(findings) != 2 || findings[0].Path != "/" || findings[1].Path != "/measurement" {
		t.Errorf("got %v", findings)
	}
}

// A failed run has no results, and nothing that needs them is checked.
func TestVerifyFailedRun(t *testing.T) {
	doc := document(t, "seed-run-2")
	delete(doc, "results")
	doc["outcome"] = "failed"
	doc["failure"] = map[string]any{"stage": "runtime_startup", "category": "other", "message_sanitized": "it stopped",
		"replacement_client_run_id": doc["client_run_id"]}
	got := rulesOf(Verify(marshal(t, doc), fstest.MapFS{}))
	if want := []string{"fail X14", "warn C14", "warn C17", "warn sha256"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSplitWords(t *testing.T) {
	check := func(line string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, SplitWords(line)); diff != "" {
			t.Errorf("%s:\n%s", line, diff)
		}
	}
	check("")
	check("  a  b\tc\n", "a", "b", "c")
	check(`a 'b c' "d 'e'" f\ g ''`, "a", "b c", "d 'e'", "f g", "")
	check(`--x='{"a":"b"}'`, `--x={"a":"b"}`)
	check(`'it'\''s'`, "it's")
	check(`"open`, "open")
	check(`"a\"b\\c\$d\n" 'e\n' f\n`, `a"b\c$d\n`, `e\n`, "fn")
	check(`$'a\nb\x01' c`, "a\nb\x01", "c")
}

func ExampleVerify() {
	findings := Verify([]byte(`{"kind": "run"}`), nil)
	fmt.Println(len(findings), findings[0].Rule, findings[0].Severity)
	// Output: 1 schema fail
}
