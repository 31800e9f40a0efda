package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/internal/paths"
	"github.com/servebench/servebench/manifest"
)

// The files of docs/examples are run here as a reader would run them: real
// processes, the simulator in the place of vLLM, nvidia-smi a script that prints what
// one has printed. They are smaller and faster than the references, and take free
// ports; all else is as it is in the files.

// shrunk are the changes to the copies.
var shrunk = map[string]*strings.Replacer{
	"run-1.yaml": strings.NewReplacer("num-prompts: 256", "num-prompts: 32", "port: 9000", "port: 0", ".json}\nprefix", ".json, args: [--time-scale, \"0.5\"]}\nprefix", "interval: 1s", "interval: 100ms"),
	"run-2.yaml": strings.NewReplacer("num-prompts: 256", "num-prompts: 8", "port: 9003", "port: 0", ".json}\nprefix", ".json, args: [--time-scale, \"0.5\"]}\nprefix", "interval: 1s", "interval: 100ms"),
	"run-3.yaml": strings.NewReplacer("num-prompts: 200", "num-prompts: 16", "port: 9001", "port: 0", "interval: 1s", "interval: 100ms"),
	// The deadline comes when a third of 100 requests can be done, and 8 are in flight.
	"judge.yaml": strings.NewReplacer("num-prompts: 500", "num-prompts: 12", "bench.num-prompts: 200", "bench.num-prompts: 8", "port: 9000", "port: 0",
		"{deadline: 400ms}", "{deadline: 400ms, bench.num-prompts: 100, sim.args: [--time-scale, \"0.1\"]}"),
}

// recorded is nvidia-smi on the machine of the references.
const recorded = `#!/bin/sh
case "$1" in
*compute-apps*) echo "GPU-1a2b, 4711, 30000" ;;
*index*) cat <<'END'
0, 57, 312.45, 2700, 14001, 30211, 98
1, 55, 301.20, 2692, 14001, 30211, 97
2, 58, 315.77, 2700, 14001, 30211, 98
3, 54, 298.03, 2685, 14001, 30211, 97
END
;;
*) exit 9 ;;
esac
`

// exampleWorld is a folder with copies of the examples and what they need, and a
// program of the name servebench that is this one.
func exampleWorld(t *testing.T) (dir string, env []string) {
	t.Helper()
	dir = t.TempDir()
	place := func(name string, data []byte, mode os.FileMode) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []string{"../../docs/examples/*", references + "seed-*.json"} {
		names, err := filepath.Glob(from)
		if err != nil || len(names) < 4 {
			t.Fatalf("%s: %v, %v", from, names, err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if r := shrunk[filepath.Base(name)]; r != nil {
				data = []byte(r.Replace(string(data)))
			}
			place(strings.TrimPrefix(filepath.ToSlash(name), "../../"), data, 0o600)
		}
	}
	place("bin/nvidia-smi", []byte(recorded), 0o700)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "bin", "servebench")
	if os.Link(self, program) != nil { // another file system
		data, err := os.ReadFile(self)
		if err != nil {
			t.Fatal(err)
		}
		place("bin/servebench", data, 0o700)
	}
	env = append(os.Environ(), "SERVEBENCH_TEST_MAIN=1", "OPENAI_API_KEY=", "HF_HUB_CACHE="+dir, fitsVariable+"=",
		"PATH="+filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	return dir, env
}

func TestExamples(t *testing.T) {
	dir, env := exampleWorld(t)
	for _, c := range []struct {
		file, reference, manifest string
		args                      []string
		renamed, excused          map[string]string
	}{
		{"run-1.yaml", "seed-run-1.json", "gemma4-12b-fp8__serve-fixed-1k-256-v1__c16__r1.manifest.json", []string{"serve"}, nil, nil},
		{"run-2.yaml", "seed-run-2.json", "gemma4-31b-nvfp4-mtp1__serve-fixed-1k-256-v1__c4__r1.manifest.json", []string{"serve"}, nil, map[string]string{
			"measurement.extensions.runpile.controller_source_sha256": "the hash of the authors' own script",
			"workload.dataset.generator_revision":                     "the same hash; ours is the commit of a build, and a test's has none",
		}},
		{"run-3.yaml", "seed-run-3.json", "gemma4-26b-a4b-nvfp4__r4__i1024__o256__c8.manifest.json", []string{"serve"}, map[string]string{
			"workload.dataset.name":                          "workload.dataset.generator",
			"workload.stopping.max_tokens":                   "workload.stopping.max_output_tokens",
			"workload.prefix_behavior.server_prefix_caching": "workload.prefix_behavior.cache_enabled",
		}, map[string]string{
			"runtime.parameters.load_balancer": "the authors' proxy; here the client deals the requests out",
		}},
		{"judge.yaml", "seed-experiment.json", "judge.experiment.json", []string{"sweep"}, nil, map[string]string{
			"extensions.runpile.demo.fixture":                                "says that the reference is made up",
			"runs[].environment.extensions":                                  "the demonstration's; the device is in accelerators",
			"runs[].runtime.parameters.servebench_sim.future_scheduler_knob": "made up: a setting that no engine has yet",
			"publisher_notes.redactions":                                     "nothing had to be taken out here",
		}},
	} {
		t.Run(c.file, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(dir, "out-"+c.file)
			cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "bin", "servebench"), append(c.args, "-f", "docs/examples/"+c.file, "--sim", "--result-dir", out)...)
			cmd.Dir, cmd.Env = dir, env
			if said, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, said)
			}
			file := filepath.Join(out, c.manifest)
			ours, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := os.ReadFile(references + c.reference)
			if err != nil {
				t.Fatal(err)
			}
			if inner := gjson.GetBytes(theirs, "manifest"); inner.Exists() {
				theirs = []byte(inner.Raw)
			}
			// The engine's name is a key, and the simulator's is another.
			theirs = bytes.ReplaceAll(theirs, []byte(`"vllm":`), []byte(`"servebench_sim":`))
			missing, unneeded, err := paths.Comparison{Renamed: c.renamed, Excused: c.excused}.Missing(theirs, ours)
			if err != nil || len(missing) > 0 || len(unneeded) > 0 {
				t.Errorf("%v; fields of the reference that ours lacks: %q; excuses that nothing needs: %q", err, missing, unneeded)
			}
			fit(t, file)
			if c.args[0] == "sweep" {
				incomplete(t, out, ours)
			}
		})
	}
}

// fit holds a manifest to the commands that a publisher runs.
func fit(t *testing.T, file string) {
	t.Helper()
	for _, args := range [][]string{{"validate"}, {"validate", "--publishable"}, {"verify", "--publish"}} {
		code, out, errs := command(t, append(append([]string{"manifest"}, args...), file)...)
		if code != 0 {
			t.Errorf("%v: exit %d: %s%s", args, code, out, errs)
		}
	}
}

// incomplete looks at the runs that did not complete. The one whose server did not
// start has the facts of the others.
func incomplete(t *testing.T, dir string, doc []byte) {
	t.Helper()
	var status []string
	for _, r := range gjson.GetBytes(doc, "runs").Array() {
		if s := r.Get("status").String(); s != manifest.Completed {
			status = append(status, r.Get("client_run_id").String()+" "+s)
		}
	}
	if got, want := fmt.Sprint(status), "[scheduler-12288 failed screening-interrupted interrupted]"; got != want || gjson.GetBytes(doc, "runs.#").Int() != 25 {
		t.Fatalf("%s, want %s", got, want)
	}
	failed, before := gjson.GetBytes(doc, "runs.15"), gjson.GetBytes(doc, "runs.14")
	for _, same := range []string{"runtime.engine", "runtime.version", "runtime.parallelism", "subject.identifier", "environment.accelerators", "workload.prefix_behavior.cache_enabled"} {
		if g, w := failed.Get(same).Raw, before.Get(same).Raw; g != w || g == "" {
			t.Errorf("%s is %s, want %s", same, g, w)
		}
	}
	for key, want := range map[string]string{
		"failure.stage": "runtime_startup", "failure.category": "kv_cache_allocation", "failure.exit_code": "1", "failure.reproducible": "true",
		"failure.replacement_client_run_id": "scheduler-11776", "runtime.parameters.servebench_sim.max_num_batched_tokens": "12288",
	} {
		if got := failed.Get(key).String(); got != want {
			t.Errorf("%s is %s, want %s", key, got, want)
		}
	}
	partial := gjson.GetBytes(doc, `extensions.servebench\.partial.screening-interrupted.successful_requests`).Int()
	if partial < 1 || partial >= 100 {
		t.Errorf("%d requests before the deadline", partial)
	}
	log, err := os.Open(filepath.Join(dir, "scheduler-12288.startup.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if text, err := io.ReadAll(log); err != nil || !strings.Contains(string(text), "No available memory for the cache blocks") {
		t.Errorf("%v: %s", err, text)
	}
}
