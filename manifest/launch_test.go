package manifest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/servebench/servebench/manifest"
)

// reference reads one of the published runs.
func reference(t testing.TB, n int) *manifest.Run {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("testdata/seed-run-%d.json", n))
	if err != nil {
		t.Fatal(err)
	}
	var envelope struct{ Manifest *manifest.Run }
	if err := json.Unmarshal(data, &envelope); err != nil {
		t.Fatal(err)
	}
	return envelope.Manifest
}

// shellWords splits what the references' commands hold: words and single quotes.
func shellWords(line string) (words []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}

// Each parameter that a reference states comes out of its launch command, typed.
func TestParseLaunchOfReferences(t *testing.T) {
	more := map[int]map[string]any{ // what the references leave out
		1: {"distributed_executor_backend": "mp", "language_model_only": true},
		2: {"distributed_executor_backend": "mp", "language_model_only": true, "speculative_config": map[string]any{
			"method": "mtp", "model": "google/gemma-4-31B-it-assistant",
			"revision": "627c5ec1458b9086b841a91e0512fd31fd2fbbf1", "num_speculative_tokens": 1.0}},
		3: {"language_model_only": true, "expert_parallel": false},
	}
	for n, extra := range more {
		run := reference(t, n)
		for line := range strings.SplitSeq(run.Runtime.LaunchCommand, "\n") {
			got, warnings := manifest.ParseLaunch(shellWords(line))
			if strings.HasSuffix(line, "lb_proxy.py") {
				if got.Engine != "" || got.Parameters != nil {
					t.Errorf("the proxy is read as %+v", got)
				}
				continue
			}
			want := maps.Clone(run.Runtime.Parameters.Server)
			for key, value := range want {
				want[key] = typed(value)
			}
			maps.Copy(want, extra)
			if !reflect.DeepEqual(got.Parameters, want) || warnings != nil {
				t.Errorf("run %d:\n got %v %v\nwant %v", n, got.Parameters, warnings, want)
			}
			parallel := manifest.Parallelism{Data: 1, Expert: 1, Tensor: 1, Pipeline: 1}
			id := run.Subject.Identifier
			if got.Engine != "vllm" || got.Model != id || got.ServedModel != id || got.Revision != run.Subject.Revision || got.Parallelism != parallel {
				t.Errorf("run %d: %+v", n, got)
			}
			if n == 2 && (got.SpeculativeModel != "google/gemma-4-31B-it-assistant" || got.SpeculativeModelRevision != "627c5ec1458b9086b841a91e0512fd31fd2fbbf1") {
				t.Errorf("speculative model %q %q", got.SpeculativeModel, got.SpeculativeModelRevision)
			}
		}
	}
}

// typed is a number as ParseLaunch has it, also of run 3's strings.
func typed(value any) any {
	switch v := value.(type) {
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case string:
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			return f
		}
	}
	return value
}

// argparse's habits, and what may stand around the command.
func TestParseLaunchForms(t *testing.T) {
	on := func(more map[string]any) map[string]any {
		all := map[string]any{"expert_parallel": false}
		maps.Copy(all, more)
		return all
	}
	type m = map[string]any
	for _, c := range []struct {
		line string
		want m
	}{
		{"vllm serve m --max-num-seqs 8", m{"max_num_seqs": int64(8)}},
		{"vllm serve m --max_num_seqs=8", m{"max_num_seqs": int64(8)}},
		{"vllm serve m --max-num-seq 8", m{"max_num_seqs": int64(8)}}, // the beginning of one option
		{"vllm serve m --max-num-seqs 8 --max-num-seqs 9", m{"max_num_seqs": int64(9)}},
		{"vllm serve m --max-model-len 16k", m{"max_model_len": int64(16000)}},
		{"vllm serve m --max-model-len=16K", m{"max_model_len": int64(16384)}},
		{"vllm serve m --max-model-len 25.6k", m{"max_model_len": int64(25600)}},
		{"vllm serve m --max-model-len auto --dtype auto --max-num-batched-tokens -1", m{}},
		{"vllm serve m -q awq -O3 --seed 7", m{"runtime_weight_quantization": "awq", "optimization_level": int64(3), "seed": int64(7)}},
		{"vllm serve m --quantization compressed-tensors", m{"quantization": "compressed-tensors"}},
		{"vllm serve --enforce-eager m --no-async-scheduling", m{"enforce_eager": true, "async_scheduling": false}},
		{"vllm serve m --cudagraph-capture-sizes 1 2 4 --kv-cache-dtype fp8", m{"cudagraph_capture_sizes": []any{int64(1), int64(2), int64(4)}, "kv_cache_dtype": "fp8"}},
		{"vllm serve m --compilation-config.mode 3 --compilation-config.pass_config.fuse true -cc.cudagraph_capture_sizes+ 1,2",
			m{"compilation_config": m{"mode": 3.0, "pass_config": m{"fuse": true}, "cudagraph_capture_sizes": []any{"1", "2"}}}},
		{"vllm serve m -sc '{\"method\":\"ngram\"}' --spec-tokens 3", m{"speculative_config": m{"method": "ngram", "num_speculative_tokens": 3.0}}},
		{"vllm serve m --future-knob --other-knob 0.50 --third-knob a b --no-fourth-knob --enable-fifth", m{
			"future_knob": true, "other_knob": 0.5, "third_knob": []any{"a", "b"}, "fourth_knob": false, "enable_fifth": true}},
		{"vllm serve m --api-key k --hf-token t --my-secret -x1 --port 1 --host h --uvicorn-log-level info --tokenizer t", m{}},
		{"vllm serve m --gpu-memory-utilization .9 --device-memory-utilization 0.80", m{"gpu_memory_utilization": 0.8}},
		{"env A=1 numactl --cpunodebind=0 /opt/venv/bin/vllm serve m --block-size 32", m{"block_size": int64(32)}},
		{"bash -lc 'exec vllm serve m --block-size 32'", m{"block_size": int64(32)}},
		{"python3 -m vllm.entrypoints.openai.api_server --model m --block-size 32", m{"block_size": int64(32)}},
		{"docker run --gpus all vllm/vllm-openai:v0.23.0 --model m --block-size 32", m{"block_size": int64(32)}},
		{"servebench sim --like x.json --time-scale 0.1 m --block-size 32", m{"time_scale": 0.1, "block_size": int64(32)}},
	} {
		got, warnings := manifest.ParseLaunch(shellWords(c.line))
		if want := on(c.want); !reflect.DeepEqual(got.Parameters, want) || warnings != nil || got.Model != "m" {
			t.Errorf("%s:\n got %v of %q %v\nwant %v", c.line, got.Parameters, got.Model, warnings, want)
		}
	}
}

func TestParseLaunchDegrees(t *testing.T) {
	for line, want := range map[string]manifest.Parallelism{
		"vllm serve m":                       {Data: 1, Expert: 1, Tensor: 1, Pipeline: 1},
		"vllm serve m -tp 2 -pp=3 -dp 4 -ep": {Data: 4, Expert: 8, Tensor: 2, Pipeline: 3},
		"vllm serve m --tensor_parallel_size 2 --no-enable-expert-parallel": {Data: 1, Expert: 1, Tensor: 2, Pipeline: 1},
	} {
		if got, warnings := manifest.ParseLaunch(shellWords(line)); got.Parallelism != want || warnings != nil {
			t.Errorf("%s: %+v %v, want %+v", line, got.Parallelism, warnings, want)
		}
	}
}

// What the manifest cannot hold is left out and told.
func TestParseLaunchWarns(t *testing.T) {
	for line, want := range map[string]string{
		"vllm serve m --max-num-seqs many":             "--max-num-seqs many is no value",
		"vllm serve m --gpu-memory-utilization 3":      "--gpu-memory-utilization 3 is no value",
		"vllm serve m --Ünknown 3":                     "cannot be named",
		"vllm serve m -tp 0":                           "--tensor-parallel-size 0 is no degree",
		"vllm serve m --max-num 3":                     "--max-num may be --max-num-active-seqs or --max-num-batched-tokens or",
		"vllm serve m --compilation-config..mode 3":    "is no member",
		"vllm serve m --enable-prefix-caching=perhaps": "--enable-prefix-caching perhaps is no value",
	} {
		_, warnings := manifest.ParseLaunch(shellWords(line))
		if len(warnings) != 1 || !strings.Contains(warnings[0], want) {
			t.Errorf("%s: %q, want one with %q", line, warnings, want)
		}
	}
}

// The references' launch lines are what we write for the same commands.
func TestLaunchLinesOfReferences(t *testing.T) {
	red := &manifest.Redactor{}
	for n := 1; n <= 3; n++ {
		for line := range strings.SplitSeq(reference(t, n).Runtime.LaunchCommand, "\n") {
			if strings.HasPrefix(line, "RUNPILE") {
				continue // its variables are no devices
			}
			words := shellWords(line)
			_, devices, _ := strings.Cut(words[0], "=")
			forms := []manifest.Launched{
				{Args: words},
				{Args: words[1:], Env: map[string]string{"CUDA_VISIBLE_DEVICES": devices, "HF_TOKEN": "hf_0123456789012345678901"}},
				{Args: append([]string{"env", "A=b", words[0], "/opt/venv/bin/vllm"}, words[2:]...)},
			}
			for _, l := range forms {
				if got, _ := red.Launch(l); got != line {
					t.Errorf("got  %s\nwant %s", got, line)
				}
			}
		}
	}
}

func TestLaunchIsRedacted(t *testing.T) {
	red := &manifest.Redactor{Home: "/home/ann", HostNames: []string{"bigbox"}, UserNames: []string{"ann"}}
	got, kinds := red.Launch(manifest.Launched{Args: []string{"bash", "-c",
		"API_KEY=abcdefgh /home/ann/venv/bin/vllm serve /data/models/x --api-key k1 k2 --host 192.168.1.7 --download-dir /home/ann/hub --hf-token hf_0123456789012345678901 --served-model-name bigbox-model"}})
	want := "vllm serve <local-path> --api-key <redacted> <redacted> --host <lan-address> --download-dir <local-path> --hf-token <redacted> --served-model-name <redacted>-model"
	if got != want || !slices.Equal(kinds, []string{"lan_address", "local_path", "name", "secret"}) {
		t.Errorf("%s %q\nwant %s", got, kinds, want)
	}
}

func TestLaunchedSecrets(t *testing.T) {
	l := manifest.Launched{Args: []string{"X_TOKEN=first-secret", "vllm", "serve", "m", "--api-key", "second-secret", "third-secret", "--dtype", "bfloat16", "--my-secret=short"},
		Env: map[string]string{"HF_TOKEN": "fourth-secret", "TOKENIZERS_PARALLELISM": "false-or-true"}}
	if got, want := l.Secrets(), []string{"fourth-secret", "first-secret", "second-secret", "third-secret"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	other := manifest.Launched{Args: []string{"my-server", "--api-key", "fifth-secret", "--hf-token=sixth-secret", "--max-tokens", "77777777", "--auth-key"}}
	if got, want := other.Secrets(), []string{"fifth-secret", "sixth-secret"}; !slices.Equal(got, want) {
		t.Errorf("of another engine %q, want %q", got, want)
	}
	// Any program, and wherever a value may stand.
	l = manifest.Launched{Args: []string{"docker", "run", "-e", "HF_TOKEN=by-docker-1", "--env=DB_PASSWORD=by-docker-2", "image", "llama-server", "--api-key", "of-llama-1", "of-llama-2",
		"--header", "X-Any: Bearer of-header-1", "--overrides", `{"a": [{"access_token": "in-json-1", "num_tokens": "not-secret"}]}`, "--api-key-file=not-short", "--name=nothing-secret"}}
	if got, want := l.Secrets(), []string{"by-docker-1", "by-docker-2", "of-llama-1", "of-llama-2", "Bearer of-header-1", "of-header-1", "in-json-1", "not-short"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSafeEnvironment(t *testing.T) {
	red := &manifest.Redactor{}
	servers := []manifest.Launched{
		{Args: []string{"CUDA_VISIBLE_DEVICES=0", "vllm", "serve", "m"}, Env: map[string]string{"VLLM_A": "1", "HF_HUB_OFFLINE": "1", "VLLM_PORT": "1", "VLLM_API_KEY": "x", "OTHER": "o"}},
		{Args: []string{"vllm", "serve", "m"}, Env: map[string]string{"CUDA_VISIBLE_DEVICES": "1", "VLLM_A": "1", "HF_HUB_OFFLINE": "1", "VLLM_PORT": "2", "VLLM_API_KEY": "x"}},
	}
	got, warnings := red.SafeEnvironment(servers, []string{"HF_HUB_OFFLINE", "VLLM_*"})
	want := map[string]string{"CUDA_VISIBLE_DEVICES": "0,1", "HF_HUB_OFFLINE": "1", "VLLM_A": "1"}
	if !reflect.DeepEqual(got, want) || len(warnings) != 2 || !strings.Contains(warnings[0], "VLLM_API_KEY") || !strings.Contains(warnings[1], "VLLM_PORT") {
		t.Errorf("%v %q, want %v", got, warnings, want)
	}
	if got, _ := red.SafeEnvironment(nil, nil); got != nil {
		t.Errorf("no servers: %v", got)
	}
}

// FuzzParseLaunch: nothing panics, and what comes out fits the manifest and
// contradicts no command that was written from it (C1, C2, C3).
func FuzzParseLaunch(f *testing.F) {
	for n := 1; n <= 3; n++ {
		for line := range strings.SplitSeq(reference(f, n).Runtime.LaunchCommand, "\n") {
			f.Add(strings.Join(shellWords(line), "\x00"))
		}
	}
	f.Add("bash\x00-c\x00vllm serve m --a.b.c 1 -cc.x+ 1,2 --no-x")
	f.Add("vllm\x00serve\x00m\x00--max-model-len\x001e400\x00--q\x00-tp")
	base := reference(f, 1)
	f.Fuzz(func(t *testing.T, text string) {
		argv := strings.Split(text, "\x00")
		l, _ := manifest.ParseLaunch(argv)
		run := *base
		run.Runtime.LaunchCommand, _ = (&manifest.Redactor{}).Launch(manifest.Launched{Args: argv})
		if l.Engine == "" || run.Runtime.LaunchCommand == "" {
			return
		}
		red := &manifest.Redactor{}
		server := map[string]any{}
		for key, value := range l.Parameters {
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			clean, changed := red.String(string(text))
			if len(changed) > 0 || clean != string(text) {
				continue // what is redacted says less
			}
			server[key] = value
		}
		run.Runtime.Parameters = &manifest.Parameters{Server: server}
		data, err := manifest.Encode(&run)
		if err != nil {
			t.Fatal(err)
		}
		for _, finding := range manifest.Verify(data, nil) {
			if finding.Rule == "schema" && strings.HasPrefix(finding.Path, "/runtime/parameters") || finding.Rule == "C1" && finding.Severity == manifest.Fail {
				t.Errorf("%q: %v\n%s", argv, finding, run.Runtime.LaunchCommand)
			}
		}
	})
}
