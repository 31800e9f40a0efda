package bench_test

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/manifest"
)

// asVLLM is the simulator with the answers of a vLLM that serves model.
func asVLLM(model, cacheConfig string) http.Handler {
	simulator := sim.New(sim.Config{TTFT: ms})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/models":
			fmt.Fprintf(w, `{"data":[{"id":%q,"root":%q,"owned_by":"vllm","max_model_len":4096}]}`, model, model)
		case "/version":
			fmt.Fprint(w, `{"version":"0.32.0"}`)
		case "/metrics":
			fmt.Fprintf(w, "vllm:cache_config_info{%s} 1\n", cacheConfig)
		default:
			simulator.ServeHTTP(w, r)
		}
	})
}

// measured runs cfg against h, after change, and returns the manifest.
func measured(t *testing.T, h http.Handler, change func(*bench.Config)) (run *manifest.Run) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := config(serveHandler(t, h))
		change(&cfg)
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		run = save(t, res)
	})
	return run
}

func warnedOf(t *testing.T, run *manifest.Run, words string) {
	t.Helper()
	if !slices.ContainsFunc(run.Warnings, func(w string) bool { return strings.Contains(w, words) }) {
		t.Errorf("no warning of %q: %q", words, run.Warnings)
	}
}

// The engine's word goes before its command's, with a warning, and C1 knows why;
// what the user declares goes before both.
func TestTheEnginesWord(t *testing.T) {
	const config = `block_size="16",cache_dtype="fp8_e4m3",enable_prefix_caching="False",gpu_memory_utilization="0.9",kv_cache_size_tokens="1000"`
	run := measured(t, asVLLM("org/m", config), func(c *bench.Config) {
		c.Declared.Launch = []manifest.Launched{{Args: strings.Fields(
			"vllm serve org/m --enable-prefix-caching --kv-cache-dtype fp8 --gpu-memory-utilization 0.90 --max-model-len auto --max-num-seqs 8 --quantization fp8")}}
		c.Declared.Parameters = map[string]any{"attention_backend": "FLASHINFER", "max_num_seqs": 8, "bad key": 1}
		c.Subject = &manifest.Subject{Type: "model", Identifier: "org/m", Quantization: &manifest.Quantization{Format: "FP8", Checkpoint: "fp8"}}
	})
	want := map[string]any{"prefix_caching": false, "kv_cache_dtype": "fp8", "gpu_memory_utilization": 0.9, "max_model_len": 4096.0,
		"max_num_seqs": 8.0, "attention_backend": "FLASHINFER", "expert_parallel": false, "quantization": "fp8"}
	if got := run.Runtime.Parameters.Server; !reflect.DeepEqual(got, want) {
		t.Errorf("parameters %v\nwant %v", got, want)
	}
	if run.Runtime.Engine != "vllm" || *run.Workload.PrefixBehavior.CacheEnabled {
		t.Errorf("%s %+v", run.Runtime.Engine, run.Workload.PrefixBehavior)
	}
	ext := map[string]any{"servebench.engine_parameters": map[string]any{"prefix_caching": false},
		"servebench.kv_cache": map[string]any{"block_size": 16.0, "kv_cache_size_tokens": 1000.0}}
	if !reflect.DeepEqual(run.Runtime.Extensions, ext) {
		t.Errorf("extensions %v", run.Runtime.Extensions)
	}
	warnedOf(t, run, "prefix_caching true, and the server says false")
	warnedOf(t, run, `parameter "bad key"`)
}

// hubCache is a local cache with a model and the draft model that goes with it.
func hubCache(t *testing.T) string {
	t.Helper()
	cache := t.TempDir()
	write := func(path string, data []byte) {
		path = filepath.Join(cache, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("models--org--m/refs/main", []byte(commitA))
	write("models--org--m/snapshots/"+commitA+"/config.json", []byte(`{"architectures":["MForCausalLM"],"quantization_config":{"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized"}}`))
	write("models--org--draft/snapshots/"+commitB+"/config.json", []byte(`{"architectures":["DraftModel"],"torch_dtype":"bfloat16"}`))
	weights := append(binary.LittleEndian.AppendUint64(nil, 2), "{}0123456789"...)
	write("models--org--draft/snapshots/"+commitB+"/model-1.safetensors", weights)
	write("models--org--draft/snapshots/"+commitB+"/model-2.safetensors", weights)
	return cache
}

const (
	commitA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	commitB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// Of a subject that nobody declared, or in part, the launch command and the
// files that the server loads tell what they can. What is declared stays.
func TestSubjectFromTheCache(t *testing.T) {
	cache := hubCache(t)
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	serve := func(args string) []manifest.Launched {
		return []manifest.Launched{{Args: strings.Fields("vllm serve org/m " + args), Env: map[string]string{"HF_HUB_CACHE": cache}}}
	}
	q := &manifest.Quantization{Format: "nvfp4-pack-quantized", Checkpoint: "compressed-tensors"}
	full := manifest.Subject{Type: "model", Source: "huggingface", Identifier: "org/m", Revision: commitA, RevisionKind: "commit", Architecture: "MForCausalLM", Quantization: q}
	for _, c := range []struct {
		reading   string
		declared  *manifest.Subject
		launch    []manifest.Launched
		elsewhere bool
		want      manifest.Subject
	}{
		{"main of the server's cache", nil, serve(""), false, full},
		{"main of another machine's cache", nil, serve(""), true, manifest.Subject{Type: "model", Identifier: "org/m", RevisionKind: "undeclared"}},
		{"a commit is the same everywhere", nil, serve("--revision " + commitA), true, full},
		{"a revision of the command that is not in the cache", nil, serve("--revision " + commitB), false,
			manifest.Subject{Type: "model", Source: "huggingface", Identifier: "org/m", Revision: commitB, RevisionKind: "commit"}},
		{"nobody launched it here", nil, nil, false, manifest.Subject{Type: "model", Identifier: "org/m", RevisionKind: "undeclared"}},
		{"declared in part", &manifest.Subject{Type: "model", Identifier: "org/m", Architecture: "Mine", Quantization: &manifest.Quantization{Format: "NVFP4"}}, serve(""), false,
			manifest.Subject{Type: "model", Source: "huggingface", Identifier: "org/m", Revision: commitA, RevisionKind: "commit", Architecture: "Mine",
				Quantization: &manifest.Quantization{Format: "NVFP4", Checkpoint: "compressed-tensors"}}},
		{"another revision is declared", &manifest.Subject{Type: "model", Identifier: "org/m", Revision: commitB, RevisionKind: "commit"}, serve(""), false,
			manifest.Subject{Type: "model", Identifier: "org/m", Revision: commitB, RevisionKind: "commit"}},
	} {
		run := measured(t, asVLLM("org/m", ""), func(cfg *bench.Config) {
			cfg.Model, cfg.Subject, cfg.Declared.Launch = "org/m", c.declared, c.launch
			cfg.Target.BaseURL = "http://127.0.0.1:9000"
			if c.elsewhere {
				cfg.Target.BaseURL = "http://elsewhere.test"
			}
		})
		if !reflect.DeepEqual(run.Subject, c.want) {
			t.Errorf("%s:\n got %+v %+v\nwant %+v", c.reading, run.Subject, run.Subject.Quantization, c.want)
		}
	}
}

func TestAuxiliaryModels(t *testing.T) {
	cache := hubCache(t)
	t.Setenv("HF_HUB_CACHE", cache)
	launch := []manifest.Launched{{Args: []string{"vllm", "serve", "org/m", "--speculative-config", `{"method":"mtp","model":"org/draft","revision":"` + commitB + `"}`}}}
	run := measured(t, asVLLM("org/m", ""), func(c *bench.Config) {
		c.Declared.Launch = launch
		c.Declared.AuxiliaryModels = []map[string]any{{"role": "mtp-assistant"}, {"role": "judge", "repository": "org/other"}}
	})
	want := []any{map[string]any{"role": "mtp-assistant", "repository": "org/draft", "revision": commitB, "quantization": "BF16", "weight_bytes": 20.0}}
	if got := run.Runtime.Extensions["runpile.auxiliary_models"]; !reflect.DeepEqual(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	warnedOf(t, run, "org/other is left out: nobody told its revision, quantization, weight_bytes")
}

// What does not fit the schema is left out with a warning, and the manifest is
// there.
func TestDeclaredThatDoesNotFit(t *testing.T) {
	run := measured(t, sim.New(sim.Config{TTFT: ms}), func(c *bench.Config) {
		c.Subject = &manifest.Subject{Type: "machine", Identifier: "org/m"}
		c.Declared = bench.Declared{
			Environment:     &manifest.Environment{OS: "x", HostArchitecture: "amd64"},
			BuildIdentifier: "not a version", Dependencies: map[string]string{"Py Torch": "1", "cuda": "12 or so", "triton": "3.1"},
			LoadBalancer:    &manifest.LoadBalancer{Type: "Round Robin"},
			AuxiliaryModels: []map[string]any{{"role": "Not A Role", "repository": "a/b", "revision": "main", "quantization": "BF16", "weight_bytes": 1}},
			PrefixBehavior:  &manifest.PrefixBehavior{CacheState: "lukewarm"},
			Labels:          map[string]string{"variant": "Not Kebab", "profile_id": "also not", "repetition_index": "first"},
			Publish:         bench.Publish{Name: "{model} at {concurrency}", DatasetLicense: "not a licence!"},
		}
	})
	if run.Environment != nil || run.Subject.Identifier != "m" || run.Subject.RevisionKind != "undeclared" {
		t.Errorf("%+v %+v", run.Environment, run.Subject)
	}
	if rt := run.Runtime; rt.BuildIdentifier != "" || rt.Extensions != nil || rt.Parameters.LoadBalancer != nil || !maps.Equal(rt.Parameters.Dependencies, map[string]string{"triton": "3.1"}) {
		t.Errorf("%+v %+v", rt, rt.Parameters)
	}
	if run.Name != "{model} at 4 | simulated" {
		t.Errorf("name %q", run.Name)
	}
	for _, words := range []string{"environment is left out", "subject is left out", "runtime/extensions is left out", "workload/prefix_behavior is left out",
		`build_identifier "not a version"`, `dependency "Py Torch"`, `version of cuda "12 or so"`, `"Round Robin"`, `"Not Kebab"`, `"also not"`, `repetition_index "first"`, "{model}", "licence!"} {
		warnedOf(t, run, words)
	}
}

// What is wrong with what is to be published is said before the run.
func TestPublishIsValidated(t *testing.T) {
	cfg := config(&pipeNet{})
	cfg.Declared.Publish = bench.Publish{Visibility: "secret", ArtifactVisibility: "open", License: "MIT"}
	err := cfg.Validate()
	for _, want := range []string{"publish.visibility: \"secret\"", "publish.artifact_visibility: \"open\"", "publish.license: \"MIT\"; want CC-BY-4.0 or CC0-1.0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A key, a home folder, a host's and a user's name, wherever they are declared,
// are in no file.
func TestCanaries(t *testing.T) {
	const key = "canary-key-0123456789"
	const serverSecret = "canary-of-the-server"
	home, _ := os.UserHomeDir()
	host, _ := os.Hostname()
	canary := strings.Join([]string{"see", home + "/canary-folder", "/data/canary-model", "192.168.77.7", key, host}, " ")
	var text string
	synctest.Test(t, func(t *testing.T) {
		cfg := config(serveHandler(t, sim.New(sim.Config{TTFT: ms, APIKey: key})))
		cfg.Target.APIKey = key
		cfg.Subject = &manifest.Subject{Type: "model", Identifier: "org/m", Architecture: canary, Modifications: []string{canary}, Quantization: &manifest.Quantization{Format: canary}}
		cfg.Declared = bench.Declared{
			Environment: &manifest.Environment{OS: canary, CPU: &manifest.CPU{Model: canary}, Topology: canary, Extensions: map[string]any{"a.b": canary}},
			Topology:    canary, Interconnect: canary,
			Launch:          []manifest.Launched{{Args: []string{"/data/canary-venv/vllm", "serve", "/data/canary-model", "--api-key", key, "--canary-option", canary, "--hf-overrides", `{"token":"` + key + `"}`}, Env: map[string]string{"VLLM_X": canary, "VLLM_API_KEY": key, "HF_TOKEN": serverSecret}}},
			SafeEnvironment: []string{"VLLM_*"},
			Parameters:      map[string]any{"some_path": canary, "some_token": key},
			AuxiliaryModels: []map[string]any{{"role": "r", "repository": canary, "revision": commitA, "quantization": canary, "weight_bytes": 1}},
			Labels:          map[string]string{"campaign": canary},
			Publish:         bench.Publish{Name: "{campaign} " + canary + " " + serverSecret, Notes: canary, Warnings: []string{canary}},
		}
		cfg.RunFile = json.RawMessage(`{"bench":{"base-url":"http://192.168.77.7:1"},"server":{"env":{"KEY":"` + key + `","P":"` + home + `/canary-folder"}}}`)
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		written, err := res.Save(bench.Beside(filepath.Join(dir, "run.json")))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range written {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text += string(data)
		}
		save(t, res)
	})
	forbidden := []string{key, serverSecret, "canary-folder", "canary-model", "canary-venv", "192.168.77.7"}
	if len(host) >= 6 {
		forbidden = append(forbidden, host)
	}
	if u, err := user.Current(); err == nil && len(u.Username) >= 6 {
		forbidden = append(forbidden, u.Username)
	}
	for _, word := range forbidden {
		if i := strings.Index(text, word); i >= 0 {
			t.Errorf("%s is in a file: %s", word, text[max(0, i-80):min(len(text), i+80)])
		}
	}
}

// A run whose server did not start is described by its command.
func TestNotRunIsDescribed(t *testing.T) {
	cfg := config(&pipeNet{})
	cfg.Target.Dial = nil
	cfg.Model = "org/m"
	cfg.Target.BaseURL = "http://203.0.113.5:1"
	cfg.Declared.Launch = []manifest.Launched{{Args: strings.Fields("CUDA_VISIBLE_DEVICES=1 vllm serve org/m --max-num-seqs 4")}}
	cfg.Declared.Environment = theirHost()
	run := save(t, bench.NotRun(t.Context(), cfg, manifest.Failure{Stage: "runtime_startup", Category: "other", MessageSanitized: "it ended"}))
	if run.Runtime.Engine != "vllm" || run.Runtime.Parameters.Server["max_num_seqs"] != 4.0 || run.Environment.Accelerators[0].Count != 1 || !slices.Equal(run.Environment.Accelerators[0].DeviceIndices, []int{1}) {
		t.Errorf("%+v %+v", run.Runtime, run.Environment)
	}
	// The simulator stands in for the declared model here too.
	cfg.Declared.Launch = []manifest.Launched{{Args: strings.Fields("/opt/servebench sim --port 9 org/m --no-enable-prefix-caching")}}
	cfg.Declared.EngineVersion = "0.3.0"
	cfg.Subject = &manifest.Subject{Type: "model", Identifier: "org/m", RevisionKind: "undeclared"}
	run = save(t, bench.NotRun(t.Context(), cfg, manifest.Failure{Stage: "runtime_startup", Category: "other", MessageSanitized: "it ended"}))
	if r := run.Runtime; r.Engine != "servebench-sim" || r.Version != "0.3.0" || r.Parameters.Server["prefix_caching"] != false || r.Parallelism.Replicas != 1 ||
		run.Subject.Identifier != "servebench-sim" || *run.Workload.PrefixBehavior.CacheEnabled || run.Measurement.Extensions["servebench.simulated"] != true {
		t.Errorf("%+v %+v %+v", r, run.Subject, run.Workload.PrefixBehavior)
	}
}

// The id of a run ends in the number of its repetition, which a label gives.
func TestRunIDHasTheRepetition(t *testing.T) {
	for _, c := range []struct {
		labels map[string]string
		want   string
	}{{nil, "-1"}, {map[string]string{"repetition_index": "3"}, "-3"}, {map[string]string{"repetition_index": "last"}, "-1"}, {map[string]string{"repetition_index": "-2"}, "-1"}} {
		r := bench.NotRun(t.Context(), bench.Config{Declared: bench.Declared{Labels: c.labels}}, manifest.Failure{Stage: "runtime_startup", Category: "other", MessageSanitized: "it ended"})
		if id := r.Manifest([]byte("{}"), nil).ClientRunID; id != manifest.RunID([]byte("{}"), 1)[:len("servebench-")+12]+c.want {
			t.Errorf("%v: %s", c.labels, id)
		}
	}
}
