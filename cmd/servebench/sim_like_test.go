package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/servebench/servebench/bench/sim"
)

// ms is a duration of whole nanoseconds, cut off as a manifest's fractions are.
func ms(f float64) time.Duration { return time.Duration(f * float64(time.Millisecond)) }

// What is read of the references is what stands there.
func TestReadLike(t *testing.T) {
	run2 := likeness{Model: "RedHatAI/gemma-4-31B-it-NVFP4", MaxModelLen: 9216, Published: sim.Published{
		InputTokens: 1024, OutputTokens: 256, Requests: 256, Concurrency: 4, Replicas: 1, Streaming: true,
		Server:       sim.Engine{MaxNumSeqs: 32, MaxNumBatchedTokens: 16384, ChunkedPrefill: true, SpeculativeTokens: 1, GPUMemoryUtilization: .88, CacheDtype: "fp8"},
		Duration:     ms(206933.78758011386),
		TTFT:         &sim.Latency{Mean: ms(114.76690616837004), P50: ms(107.37940017133951), P90: ms(110.5269140098244), P95: ms(167.89769695606083), P99: ms(264.69481501262635), StdDev: ms(25.121972078134277)},
		ITL:          &sim.Latency{Mean: ms(18.928301770165337), P50: ms(17.939267680048943), P90: ms(18.17670613527298), P95: ms(18.390714703127742), P99: ms(71.79747825488448), StdDev: ms(7.241057194293545)},
		TPOT:         &sim.Latency{Mean: ms(12.1558080531138), P50: ms(9.745108259513097), P90: ms(18.821355068654405), P95: ms(19.034851476659668), P99: ms(19.163920393432765), StdDev: ms(3.883250495912295)},
		E2E:          &sim.Latency{Mean: ms(3214.4979597123893), P50: ms(2593.263066606596), P90: ms(4941.0553586203605), P95: ms(4961.853032698855), P99: ms(5014.121132902801), StdDev: ms(990.8731589582869)},
		AcceptLength: 1.5789186609395243,
	}}
	check := func(name string, want likeness) {
		t.Helper()
		got, err := (&terminal{}).readLike(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if diff := cmp.Diff(want, *got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	check(references+"seed-run-2.json", run2)
	// The same without the envelope of the publishing site.
	data, err := os.ReadFile(references + "seed-run-2.json")
	if err != nil {
		t.Fatal(err)
	}
	bare := filepath.Join(t.TempDir(), "run#2.json") // the # is part of the name
	if err := os.WriteFile(bare, []byte(gjson.GetBytes(data, "manifest").Raw), 0o600); err != nil {
		t.Fatal(err)
	}
	check(bare, run2)
	check(bare+"#"+gjson.GetBytes(data, "manifest.client_run_id").Str, run2)

	// Numbers as text, four replicas, chunks by vLLM's default.
	got, err := (&terminal{}).readLike(references + "seed-run-3.json")
	if err != nil {
		t.Fatal(err)
	}
	want := sim.Engine{MaxNumSeqs: 128, MaxNumBatchedTokens: 16384, ChunkedPrefill: true, GPUMemoryUtilization: .9, CacheDtype: "fp8"}
	if diff := cmp.Diff(want, got.Server); diff != "" || got.Replicas != 4 || got.Concurrency != 8 || got.MaxModelLen != 16384 {
		t.Errorf("run 3: %+v\n%s", got, diff)
	}

	// A run of an experiment: no latencies, values as objects, vLLM's names of settings.
	check(references+"seed-experiment.json#scheduler-2048", likeness{Model: "unsloth/gemma-4-26B-A4B-it-NVFP4", MaxModelLen: 6144, Published: sim.Published{
		InputTokens: 6000, OutputTokens: 1, Requests: 500, Concurrency: 8, Replicas: 1,
		Server:   sim.Engine{MaxNumBatchedTokens: 2048, ChunkedPrefill: true, GPUMemoryUtilization: .95},
		Duration: experimentDuration(t, "scheduler-2048"),
	}})
}

func experimentDuration(t *testing.T, id string) time.Duration {
	data, err := os.ReadFile(references + "seed-experiment.json")
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(gjson.GetBytes(data, `runs.#(client_run_id=="`+id+`").results.duration_seconds.value`).Num * 1e9)
}

// What cannot be read is named with its file and field.
func TestReadLikeRefuses(t *testing.T) {
	data, err := os.ReadFile(references + "seed-run-1.json")
	if err != nil {
		t.Fatal(err)
	}
	run := gjson.GetBytes(data, "manifest").Raw
	dir := t.TempDir()
	for _, row := range []struct {
		path  string // in the manifest; what is done to it
		value any    // nil deletes it
		want  []string
	}{
		{"workload.concurrency", nil, []string{"workload.concurrency is missing; only a closed loop can be fitted"}},
		{"workload.concurrency", 1.5, []string{`workload.concurrency is 1.5; want a whole number from 1`}},
		{"workload.concurrency", "x", []string{`workload.concurrency is "x"; want`}},
		{"workload.input_tokens", nil, []string{"workload.input_tokens.value is missing; want the number of tokens"}},
		{"workload.output_tokens", map[string]any{"kind": "odd"}, []string{`workload.output_tokens of kind "odd" has no value, mean, min or max`}},
		{"results", nil, []string{`results is missing, the run is "completed"`}},
		{"results.duration_seconds", nil, []string{"results.duration_seconds is missing"}},
		{"results.duration_seconds", -1, []string{"results.duration_seconds is missing or no number of seconds"}},
		{"results.successful_requests", 0, []string{`results.successful_requests is 0; want a whole number from 1`}},
		{"results.latency_ms.time_to_first_token", nil, []string{"results.latency_ms.time_to_first_token is missing; want it of a run that streamed"}},
		{"results.latency_ms.inter_token.p50", "soon", []string{`results.latency_ms.inter_token.p50 is "soon"; want milliseconds`}},
		{"results.latency_ms.inter_token.mean", nil, []string{"results.latency_ms.inter_token.mean is missing"}},
		{"runtime.parameters.server.max_num_seqs", "many", []string{`runtime.parameters.server.max_num_seqs is "many"`}},
		{"runtime.parallelism.replicas", 0, []string{`runtime.parallelism.replicas is 0`}},
		{"kind", "page", []string{`kind is "page"; want a manifest of kind run or experiment`}},
		{"workload", nil, []string{"workload.input_tokens", "workload.output_tokens", "workload.concurrency"}},
	} {
		text, err := sjson.Set(run, row.path, row.value)
		if row.value == nil {
			text, err = sjson.Delete(run, row.path)
		}
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "run.json")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := command(t, "sim", "--like", file)
		for _, want := range append(row.want, "--like: "+file+": ") {
			if code != exitUsage || out != "" || !strings.Contains(errs, want) {
				t.Errorf("%s = %v: exit %d, %s\nwant %s", row.path, row.value, code, errs, want)
			}
		}
		// The simulator inside serve reads it the same way.
		if code, _, errs := command(t, "serve", "--sim", "--sim-like", file); code != exitUsage || !strings.Contains(errs, "--sim-like: "+file+": "+row.want[0]) {
			t.Errorf("serve, %s = %v: exit %d, %s", row.path, row.value, code, errs)
		}
	}
	experiment := references + "seed-experiment.json"
	for name, want := range map[string]string{
		filepath.Join(dir, "none.json"):        "none.json",
		dir:                                    "is a folder; want a manifest",
		references + "seed-run-1.json#other":   `the only run there is; want the file without #`,
		experiment:                             "is an experiment; want " + experiment + "#ID, where ID is one of checkpoint-nvidia-c8, ",
		experiment + "#none":                   `has no run "none"; want ` + experiment + "#ID",
		experiment + "#scheduler-12288-failed": `results is missing, the run is "failed"; want a completed run`,
		"sim_test.go":                          "sim_test.go is not JSON; want a manifest",
	} {
		if code, _, errs := command(t, "sim", "--like", name); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %s\nwant %s", name, code, errs, want)
		}
	}
}

// Flags go before what is fitted, and what is printed is the engine that runs.
func TestSimLike(t *testing.T) {
	experiment := references + "seed-experiment.json#concurrency-1" // its fit is quick
	code, _, errs := command(t, "sim", "--like", experiment, "--max-num-seqs", "7", "--kv-tokens", "9k", "--time-scale", "0.5", "--fail-start=stop")
	if code != 1 || !strings.Contains(errs, "] stop\n") {
		t.Fatalf("exit %d: %s", code, errs)
	}
	_, line, ok := strings.Cut(errs, "like "+experiment+": ")
	line, _, _ = strings.Cut(line, "\n")
	if !ok {
		t.Fatal(errs)
	}
	o, err := readWords(strings.Fields(line)...)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	l, err := (&terminal{}).readLike(experiment)
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := l.fit()
	if err != nil {
		t.Fatal(err)
	}
	want.MaxNumSeqs, want.KVTokens, want.TimeScale = 7, 9000, .5
	if diff := cmp.Diff(&want, o.config.Engine); diff != "" || o.config.MaxModelLen != 6144 {
		t.Errorf("%s (-want +got):\n%s", line, diff)
	}
	// The budget of 10240 tokens is the manifest's.
	if code, _, errs := command(t, "sim", "--like", experiment, "--fail-start-over", "max-num-batched-tokens=10239"); code != 1 ||
		!strings.Contains(errs, "--max-num-batched-tokens is 10240, above the 10239") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// serve's own simulator is fitted too, and answers.
func TestServeSimLike(t *testing.T) {
	experiment := references + "seed-experiment.json#concurrency-1"
	dir := t.TempDir()
	code, _, errs := command(t, "serve", "--sim", "--sim-like", experiment, "--num-prompts", "2", "--max-concurrency", "1", "--random-input-len", "8", "--random-output-len", "2",
		"--temperature", "0", "--skip-tokenizer-init", "--prompt-form", "token-ids", "--save-result", "--result-dir", dir, "--result-filename", "r.json")
	if code != 0 || !strings.Contains(errs, "simulating 1 x servebench sim --max-num-batched-tokens 10240") {
		t.Fatalf("exit %d: %s", code, errs)
	}
	data, err := os.ReadFile(filepath.Join(dir, "r.json"))
	if err != nil || gjson.GetBytes(data, "completed").Int() != 2 {
		t.Errorf("%v: %s", err, data)
	}
	if code, _, errs := command(t, "serve", "--sim", "--sim-like", experiment, "--sim-ttft", "1ms"); code != exitUsage || !strings.Contains(errs, "--sim-ttft: is about fixed timing") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, _, errs := command(t, "serve", "--sim-like", experiment); code != exitUsage || !strings.Contains(errs, "--sim-like: says how the simulator behaves; want --sim with it") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// A list of loads is run on one simulator that is like the server, with its replicas.
func TestListOnSimLike(t *testing.T) {
	code, _, errs := command(t, "serve", "--sim", "--sim-like", references+"seed-run-3.json", "--max-concurrency", "1,2", "--num-prompts", "4", "--random-input-len", "8", "--random-output-len", "2",
		"--temperature", "0", "--skip-tokenizer-init", "--prompt-form", "token-ids", "--result-dir", t.TempDir())
	if code != 0 || strings.Count(errs, "simulating 4 x servebench sim --max-num-seqs") != 1 {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// FuzzReadLike: any file is read or refused, and what is read can be fitted or is
// refused with words.
func FuzzReadLike(f *testing.F) {
	read := func(file string) []byte {
		data, err := os.ReadFile(references + file)
		if err != nil {
			f.Fatal(err)
		}
		return data
	}
	for _, file := range []string{"seed-run-1.json", "seed-run-2.json", "seed-run-3.json"} {
		f.Add("", read(file))
	}
	// One run of the experiment: a small file is tried more often.
	run := gjson.GetBytes(read("seed-experiment.json"), `runs.#(client_run_id=="concurrency-1")`).Raw
	f.Add("concurrency-1", []byte(`{"kind":"experiment","runs":[`+run+`]}`))
	f.Add("", []byte(`{"kind":"run","workload":{"input_tokens":{"kind":"uniform","min":1,"max":3}}}`))
	f.Add("", []byte(`{"kind":"experiment","runs":[{},3]}`))
	f.Fuzz(func(t *testing.T, id string, data []byte) {
		l, err := likeOf("file", id, id != "", data)
		if (l == nil) && err == nil {
			t.Fatal("neither a run nor an error")
		}
		if err != nil {
			return
		}
		p := l.Published
		if p.InputTokens < 1 || p.OutputTokens < 1 || p.Requests < 1 || p.Concurrency < 1 || p.Replicas < 1 || p.Duration <= 0 {
			t.Fatalf("accepted: %+v", p)
		}
	})
}
