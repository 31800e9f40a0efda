package manifest

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// The deviations are those that arithmetic.md lists for the reference, and no
// others.
func TestVerifyExperimentReference(t *testing.T) {
	var got []string
	for _, f := range Verify(readFile(t, "seed-experiment.json"), nil) {
		got = append(got, f.String())
	}
	want := []string{
		`fail X9 /runs/24/results/requests_per_second/value: 34.48 is not the sum of gpu-rotation-0, gpu-rotation-1, gpu-rotation-2, gpu-rotation-3, which is 34.42`,
		`fail X16 /runs/1/started_at: "checkpoint-unsloth-c8" began while "checkpoint-nvidia-c8" was running on device 0, and 17 more such`,
		`fail X12 /runs/22/artifacts/0/filename: "startup-sanitized.log" is no benchmark_result_json`,
		`fail X12 /runs/22/artifacts/0/media_type: application/json is not the type of "startup-sanitized.log"; want text/plain`,
		`warn X10 /runs/24/workload/request_count: 2000, but the runs that were added have 800`,
		`warn X10 /runs/24/duration_seconds: 58.004640371229705, but the longest run that was added took 23.31002331002331`,
		`warn X10 /runs/24/started_at: the runs that were added lasted from 2026-08-15T16:00:00Z to 2026-08-15T16:00:23.31Z`,
		`warn X19 /runs/6: the duration and rate of "checkpoint-unsloth-c8": one measurement, two runs`,
		`warn C16 /runs/0/workload/dataset: no sha256 identifies the prompts, and 21 more such`,
		`warn X17 /runs/16/artifacts/0/filename: "benchmark-20260815T160000.json" is another artifact's name too`,
		`warn X17 /runs/17/artifacts/0/filename: "benchmark-20260815T160000.json" is another artifact's name too`,
		`warn X17 /runs/18/artifacts/0/filename: "benchmark-20260815T160000.json" is another artifact's name too`,
		`warn X18 /runs: 25 artifacts have 2 different sizes: sizes are not measured ones`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Each row changes the reference and names the findings that are new, or gone.
func TestVerifyExperimentFindsWhatIsWrong(t *testing.T) {
	type edits map[string]any
	all := func(doc map[string]any) []string {
		var out []string
		for _, f := range Verify(marshal(t, doc), nil) {
			out = append(out, f.Rule+" "+f.Path)
		}
		return out
	}
	before := all(document(t, "seed-experiment"))
	const run, results = "/runs/0", "/runs/0/results"
	metric := func(value float64) map[string]any {
		return map[string]any{"unit": "req/s", "value": value, "measurement_status": "measured"}
	}
	for _, c := range []struct {
		why   string
		edits edits
		want  []string
		gone  []string
	}{
		{"an id twice", edits{"/runs/23/client_run_id": "concurrency-1"}, []string{"X0 /runs/23/client_run_id", "X11 /runs/23/artifacts/0/run_client_id", "X11 /runs/23/artifacts/0/client_artifact_id"}, nil},
		{"a rate of its own", edits{results + "/requests_per_second": metric(8.08), run + "/trials/0/results/requests_per_second": metric(8.08)},
			[]string{"X1 " + results + "/requests_per_second/value", "X2 " + results + "/input_tokens_per_second/value", "X3 " + results + "/output_tokens_per_second/value"}, nil},
		{"a flow of its own", edits{results + "/input_tokens_per_second/value": 48420.001, results + "/output_tokens_per_second/value": 8.0701},
			[]string{"X2 " + results + "/input_tokens_per_second/value", "X3 " + results + "/output_tokens_per_second/value"}, nil},
		{"a token more", edits{results + "/total_tokens/value": 3000501}, []string{"X4 " + results + "/total_tokens/value"}, nil},
		{"a failure more", edits{results + "/failed_requests": 1}, []string{"X5 " + results + "/successful_requests"}, nil},
		{"another trial's duration", edits{run + "/trials/0/duration_seconds": 61}, []string{"X6 " + run + "/trials/0/duration_seconds"}, nil},
		{"another trial's rate", edits{run + "/trials/0/results/requests_per_second": metric(8)}, []string{"X6 " + run + "/trials/0/results/requests_per_second/value"}, nil},
		{"another trial's artifacts", edits{run + "/trials/0/artifacts": []any{}}, []string{"X6 " + run + "/trials/0/artifacts"}, nil},
		{"another trial's id", edits{run + "/trials/0/client_trial_id": "first"}, []string{"X6 " + run + "/trials/0/client_trial_id"}, nil},
		{"another duration in the results", edits{results + "/duration_seconds/value": 61.9}, []string{"X6 " + results + "/duration_seconds/value"}, nil},
		{"a millisecond late", edits{run + "/ended_at": "2026-08-15T16:01:01.958Z"}, []string{"X7 " + run + "/ended_at"}, nil},
		{"derived from another", edits{results + "/total_tokens/input_run_ids": []any{"concurrency-1"}}, []string{"X8 " + results + "/total_tokens/input_run_ids"}, nil},
		{"the true sum", edits{"/runs/24/results/requests_per_second/value": 34.42, "/runs/24/results/input_tokens_per_second/value": 34.42 * 6000}, nil, []string{"X9 /runs/24/results/requests_per_second/value"}},
		{"what was added", edits{"/runs/24/workload/request_count": 800, "/runs/24/duration_seconds": 23.31002331002331, "/runs/24/ended_at": "2026-08-15T16:00:23.310Z"}, nil,
			[]string{"X10 /runs/24/workload/request_count", "X10 /runs/24/duration_seconds", "X10 /runs/24/started_at"}},
		{"an artifact of nobody", edits{run + "/artifacts/0/run_client_id": "nobody", run + "/trials/0/artifacts/0/run_client_id": "nobody"}, []string{"X11 " + run + "/artifacts/0/run_client_id"}, nil},
		{"an artifact's id twice", edits{"/artifacts/0/client_artifact_id": "concurrency-1-raw"}, []string{"X11 /runs/3/artifacts/0/client_artifact_id"}, nil},
		{"a log that says so", edits{"/runs/22/artifacts/0/kind": "server_log_text", "/runs/22/artifacts/0/media_type": "text/plain"}, nil,
			[]string{"X12 /runs/22/artifacts/0/filename", "X12 /runs/22/artifacts/0/media_type"}},
		{"a parameter against the command", edits{run + "/runtime/parameters/vllm/max_model_len": 7000}, []string{"X13 " + run + "/runtime/parameters/vllm/max_model_len"}, nil},
		{"a cache type against the command", edits{run + "/subject/quantization/kv_cache_dtype": "auto"}, []string{"X13 " + run + "/subject/quantization/kv_cache_dtype"}, nil},
		{"a replacement that is not there", edits{"/runs/22/failure/replacement_client_run_id": "x"}, []string{"X14 /runs/22/failure/replacement_client_run_id"}, nil},
		{"its own replacement", edits{"/runs/22/failure/replacement_client_run_id": "scheduler-12288-failed"}, []string{"X14 /runs/22/failure/replacement_client_run_id"}, nil},
		{"a sum over what is not there", edits{"/runs/24/results/requests_per_second/input_run_ids/1": "x"}, []string{"X14 /runs/24/results/requests_per_second/input_run_ids/1"},
			[]string{"X9 /runs/24/results/requests_per_second/value", "X10 /runs/24/workload/request_count", "X10 /runs/24/duration_seconds", "X10 /runs/24/started_at"}},
		{"an interrupted run with times", edits{"/runs/23/started_at": "2026-08-15T16:00:00.000Z"}, []string{"X15 /runs/23"}, nil},
		{"two at once on device 1", edits{"/runs/17/environment/accelerators/0/device_indices": []any{1}}, []string{"X16 /runs/17/started_at"}, nil},
		{"one after another on device 1", edits{"/runs/17/environment/accelerators/0/device_indices": []any{1}, "/runs/17/started_at": "2026-08-15T16:00:23.310Z", "/runs/17/ended_at": "2026-08-15T16:00:46.484Z"}, nil, nil},
		{"two files of one content", edits{"/artifacts/0/sha256": "96d622112c81fab027dc97c56d16c7715a97e4ec3f1c94f0f3148878da03390a"}, []string{"X18 /runs/0/artifacts/0/sha256"}, nil},
		{"a cache against the server's", edits{run + "/workload/prefix_behavior/cache_enabled": true}, []string{"C7 " + run + "/workload/prefix_behavior"}, nil},
		{"a request longer than the model", edits{run + "/runtime/parameters/vllm/max_model_len": 6000, run + "/runtime/command_sanitized": "vllm serve MODEL"}, []string{"C11 " + run + "/runtime/parameters/vllm/max_model_len"}, nil},
		{"more active than there are", edits{run + "/subject/parameter_count_active": 27000000000}, []string{"C12 " + run + "/subject/parameter_count_active"}, nil},
		{"another driver", edits{run + "/environment/accelerators/0/driver": "1.2"}, []string{"C5 " + run + "/environment/accelerators/0/driver"}, nil},
		{"a number as text", edits{run + "/runtime/parameters/vllm/max_model_len": "6144"}, []string{"C15 " + run + "/runtime/parameters/vllm/max_model_len"}, nil},
		{"prompts with a hash", edits{run + "/workload/dataset/sha256": strings.Repeat("0", 64)}, []string{"C16 /runs/1/workload/dataset"}, []string{"C16 /runs/0/workload/dataset"}},
		{"a pooled task has no output", edits{run + "/workload/task": "embedding", results + "/output_tokens_per_second/value": 0}, nil, nil},
		{"no processor", edits{"/shared/environment/cpu/model": "x86_64"}, []string{"C14 /shared/environment/cpu/model"}, nil},
	} {
		doc := document(t, "seed-experiment")
		for pointer, value := range c.edits {
			edit(t, doc, pointer, "replace", value)
		}
		after := all(doc)
		// X16 of device 0 moves with the runs that are edited; it has rows of its own.
		lacks := func(list []string) func(string) bool {
			return func(s string) bool { return slices.Contains(list, s) }
		}
		got := slices.DeleteFunc(slices.Clone(after), lacks(before))
		gone := slices.DeleteFunc(slices.Clone(before), lacks(after))
		slices.Sort(got)
		slices.Sort(c.want)
		slices.Sort(gone)
		slices.Sort(c.gone)
		if !slices.Equal(got, c.want) || !slices.Equal(gone, c.gone) {
			t.Errorf("%s:\nnew  %q\nwant %q\ngone %q\nwant %q", c.why, got, c.want, gone, c.gone)
		}
	}
}

// An experiment's files are those of its runs, each looked at once.
func TestVerifyExperimentFiles(t *testing.T) {
	doc := document(t, "seed-experiment")
	const content = "{}\n"
	for _, place := range []string{"/runs/3/artifacts/0", "/runs/3/trials/0/artifacts/0"} {
		edit(t, doc, place+"/sha256", "replace", fmt.Sprintf("%x", sha256.Sum256([]byte(content))))
		edit(t, doc, place+"/size_bytes", "replace", len(content))
	}
	files := fstest.MapFS{"concurrency-1.json": {Data: []byte(content)}, "concurrency-2.json": {Data: []byte("x")}, "methodology.md/x": {}}
	var got []string
	for _, f := range Verify(marshal(t, doc), files) {
		if (f.Rule == "sha256" || f.Rule == "size") && f.Severity == Fail || strings.Contains(f.Path, "/runs/3/") {
			got = append(got, f.Rule+" "+f.Path)
		}
	}
	if diff := cmp.Diff([]string{"sha256 /artifacts/0", "size /runs/4/artifacts/0/size_bytes", "sha256 /runs/4/artifacts/0/sha256"}, got); diff != "" {
		t.Error(diff)
	}
}

// A run's own manifest is held against the run.
func TestVerifyExperimentRunManifests(t *testing.T) {
	own := document(t, "seed-run-1")
	for pointer, value := range map[string]any{
		"/subject/identifier": "nvidia/Gemma-4-26B-A4B-NVFP4", "/subject/revision": "03f11a2ecf5d5c682c2720f1fb9bd46001bcf651",
		"/runtime/launch_command": "python -m other", "/workload/tokenizer/revision": "03f11a2ecf5d5c682c2720f1fb9bd46001bcf651",
	} {
		edit(t, own, pointer, "replace", value)
	}
	verify := func(name string, content []byte) []string {
		doc := document(t, "seed-experiment")
		artifact := map[string]any{
			"kind": "runpile_run_manifest_json", "filename": "own.manifest.json", "media_type": "application/json", "sha256": fmt.Sprintf("%x", sha256.Sum256(content)), "size_bytes": len(content),
			"license": "CC-BY-4.0", "visibility": "public", "run_client_id": "checkpoint-nvidia-c8", "client_artifact_id": "checkpoint-nvidia-c8-manifest", "raw_requests_included": false,
		}
		for _, place := range []string{"/runs/0/artifacts/1", "/runs/0/trials/0/artifacts/1"} {
			edit(t, doc, place, "add", artifact)
		}
		var got []string
		for _, f := range Verify(marshal(t, doc), fstest.MapFS{name: {Data: content}}) {
			if f.Rule == "run" {
				got = append(got, f.String())
			}
		}
		return got
	}
	const here = "fail run /runs/0/artifacts/1: "
	for _, c := range []struct {
		why, name string
		content   []byte
		want      []string
	}{
		{"another's numbers", "own.manifest.json", marshal(t, own), []string{
			here + "the duration of checkpoint-nvidia-c8 is 66.18882687296718 in own.manifest.json and 61.95786864931846 here",
			here + "the rate of requests of checkpoint-nvidia-c8 is 3.8677222742038873 in own.manifest.json and 8.07 here",
			"fail run /runs/0/results/successful_requests: 500, but the trials' manifests add up to 256",
			"fail run /runs/0/results/total_tokens/value: 3.0005e+06, but the trials' manifests add up to 327680",
		}},
		{"no manifest", "own.manifest.json", []byte("{}"), []string{here + "own.manifest.json is no valid manifest: /kind: value must be one of 'run', 'experiment'"}},
		{"an experiment", "own.manifest.json", readFile(t, "seed-experiment.json"), []string{here + "own.manifest.json is a manifest of kind experiment; want run"}},
		{"not here", "other.json", []byte("{}"), nil},
	} {
		got := verify(c.name, c.content)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.why, diff)
		}
	}
}
