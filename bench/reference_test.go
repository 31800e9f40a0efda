package bench_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/internal/paths"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/manifest"
)

// published reads a reference's manifest, without the site's envelope.
func published(t *testing.T, n int) (*manifest.Run, []byte) {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("../manifest/testdata/seed-run-%d.json", n))
	if err != nil {
		t.Fatal(err)
	}
	var envelope struct{ Manifest json.RawMessage }
	if err := json.Unmarshal(data, &envelope); err != nil {
		t.Fatal(err)
	}
	var run manifest.Run
	if err := json.Unmarshal(envelope.Manifest, &run); err != nil {
		t.Fatal(err)
	}
	return &run, envelope.Manifest
}

// theirHost is the machine of all three references, as a host file has it.
func theirHost() *manifest.Environment {
	const driver = "580.173.02"
	return &manifest.Environment{
		OS:     "Ubuntu 24.04.4 LTS",
		Kernel: "6.8.0-136-generic",
		CPU:    &manifest.CPU{Model: "AMD Ryzen Threadripper PRO 9955WX 16-Cores", Sockets: 1, NUMANodes: 1, LogicalCPUs: 32, PhysicalCores: 16},
		Accelerators: []manifest.Accelerator{{
			Count: 4, Model: "NVIDIA GeForce RTX 5090", Driver: driver, Vendor: "NVIDIA", Architecture: "Blackwell SM120",
			Interconnect: "PCIe within one NUMA node; no NVLink", DeviceIndices: []int{0, 1, 2, 3}, MemoryBytesPerDevice: 32607 << 20,
		}},
		DriverVersions:    map[string]string{"nvidia": driver, "cuda_compiler": "Build cuda_13.1.r13.1/compiler.37061995_0"},
		HostArchitecture:  "x86_64",
		SystemMemoryBytes: 263267328 << 10,
	}
}

// likeReference is the configuration of a published run: what its authors decided
// on, with the tool filling in the rest.
func likeReference(t *testing.T, n int, network *pipeNet) bench.Config {
	const base = "http://127.0.0.1:9000"
	ref, _ := published(t, n)
	w := &ref.Workload
	load := bench.Config{
		Backend: "vllm", Model: ref.Subject.Identifier, Stream: true, IgnoreEOS: true,
		Target:         openai.Config{BaseURL: base, Dial: network.Dial},
		Dataset:        dataset.Spec{Name: "random", Prompts: w.RequestCount, InputLen: 1024, OutputLen: 256, Warmups: 16, Seed: w.RandomSeed},
		Sampling:       openai.Sampling{Temperature: new(float64)},
		Rate:           loadgen.Inf,
		MaxConcurrency: w.Concurrency,
		Pacing:         loadgen.Sleep,
		ReadyTimeout:   10 * time.Second,
		Percentiles:    []float64{50, 90, 95, 99},
		Command: []string{"servebench", "serve", "--backend", "vllm", "--base-url", base, "--model", ref.Subject.Identifier,
			"--dataset-name", "random", "--random-input-len", "1024", "--random-output-len", "256", "--num-prompts", fmt.Sprint(w.RequestCount),
			"--num-warmups", "16", "--max-concurrency", fmt.Sprint(w.Concurrency), "--seed", fmt.Sprint(w.RandomSeed), "--temperature", "0", "--ignore-eos"},
		Subject: &ref.Subject,
	}
	d := &load.Declared
	load.Telemetry = bench.Telemetry{GPU: true}
	d.Environment = theirHost()
	d.SafeEnvironment = []string{"HF_HUB_OFFLINE", "TOKENIZERS_PARALLELISM", "VLLM_*"}
	for line := range strings.SplitSeq(ref.Runtime.LaunchCommand, "\n") {
		if strings.HasPrefix(line, "RUNPILE") {
			continue // their proxy, which is the client here
		}
		words := strings.Fields(strings.ReplaceAll(line, "'", "")) // their JSON has no spaces
		env := map[string]string{"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "VLLM_MARLIN_USE_ATOMIC_ADD": "1", "SOME_TOKEN": "secret-token-1"}
		d.Launch = append(d.Launch, manifest.Launched{Args: words, Env: env})
	}
	d.Publish = bench.Publish{
		Notes: ref.Notes, Visibility: "public", License: "CC-BY-4.0", ArtifactVisibility: "private",
		Name: "{subject.identifier} | {variant} | {input}->{output} | C{concurrency}",
	}
	if n == 3 {
		d.Labels = map[string]string{"variant": "4x-rtx-5090"}
		d.Dependencies = ref.Runtime.Parameters.Dependencies
		d.LoadBalancer = ref.Runtime.Parameters.LoadBalancer
		return load
	}
	d.BuildIdentifier = ref.Runtime.BuildIdentifier
	d.PrefixBehavior = &manifest.PrefixBehavior{CacheState: "warm-host"}
	d.Labels = map[string]string{"variant": ref.Runtime.Extensions["runpile.server_variant"].(string), "profile_id": "serve-fixed-1k-256-v1", "repetition_index": "1", "campaign": "nightly"}
	if n == 2 {
		d.AuxiliaryModels = []map[string]any{{"role": "mtp-assistant", "quantization": "BF16", "weight_bytes": 939042560}}
	}
	return load
}

// asPublished are the fields whose older spelling only run 3 has.
var asPublished = map[string]string{
	"workload.dataset.name":                          "workload.dataset.generator",
	"workload.stopping.max_tokens":                   "workload.stopping.max_output_tokens",
	"workload.prefix_behavior.server_prefix_caching": "workload.prefix_behavior.cache_enabled",
}

// Each published run, done again against the simulator from what its authors
// knew, gives a manifest with every field that they published.
func TestEveryFieldOfTheReferences(t *testing.T) {
	excused := map[int]map[string]string{
		1: {},
		2: {
			"measurement.extensions.runpile.controller_source_sha256": "the hash of the authors' own script",
			"workload.dataset.generator_revision":                     "the same hash; ours is the commit of a build, and a test's has none",
		},
		3: {},
	}
	for n := 1; n <= 3; n++ {
		t.Run(fmt.Sprint("run ", n), func(t *testing.T) {
			t.Setenv("HF_HUB_CACHE", t.TempDir()) // not this machine's
			fakeSMI(t, "case \"$1\" in *index*) echo '"+[]string{"0", "3", "0"}[n-1]+", 57, 312.45, 2700, 14001, 30211, 98' ;; *) echo 'GPU-1, 4711, 30000' ;; esac\n")
			ref, theirs := published(t, n)
			var run *manifest.Run
			var ours []byte
			synctest.Test(t, func(t *testing.T) {
				server := sim.Config{TTFT: 50 * ms, ITL: 10 * ms}
				if n == 2 { // which drafts a token ahead
					server = sim.Config{Engine: &sim.Engine{StepBase: 17 * ms, SpeculativeTokens: 1, Acceptance: []sim.Acceptance{{Share: 1, Rate: .8}}}}
				}
				res, err := bench.Run(t.Context(), likeReference(t, n, serveHandler(t, sim.New(server))))
				if err != nil {
					t.Fatal(err)
				}
				run, ours = savePublishable(t, res)
			})
			c := paths.Comparison{Renamed: asPublished, Excused: maps.Clone(excused[n])}
			missing, unneeded, err := c.Missing(theirs, ours)
			if err != nil || len(missing) > 0 || len(unneeded) > 0 {
				t.Errorf("%v; fields of the reference that ours lacks: %q; excuses that nothing needs: %q", err, missing, unneeded)
			}
			sameFacts(t, n, run, ref)
			for _, secret := range []string{"secret-token-1", "SOME_TOKEN"} {
				if strings.Contains(string(ours), secret) {
					t.Errorf("the manifest has %s", secret)
				}
			}
		})
	}
}

// savePublishable writes all files, and holds the manifest against the profile of
// what is published and every rule of verify.
func savePublishable(t *testing.T, res *bench.Result) (*manifest.Run, []byte) {
	t.Helper()
	run := save(t, res)
	dir := t.TempDir()
	f := bench.Beside(filepath.Join(dir, "run.json"))
	if _, err := res.Save(f); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(f.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	for _, finding := range (manifest.Profile{Publishable: true}).Verify(data, os.DirFS(dir)) {
		if finding.Severity == manifest.Fail {
			t.Errorf("not publishable: %v", finding)
		}
	}
	return run, data
}

// sameFacts compares the values that do not depend on who measured.
func sameFacts(t *testing.T, n int, got, want *manifest.Run) {
	t.Helper()
	check := func(what string, got, want any) {
		t.Helper()
		if g, w := plainText(t, got), plainText(t, want); g != w {
			t.Errorf("%s:\n got %s\nwant %s", what, g, w)
		}
	}
	var engines []string
	for line := range strings.SplitSeq(want.Runtime.LaunchCommand, "\n") {
		if !strings.HasPrefix(line, "RUNPILE") {
			engines = append(engines, line)
		}
	}
	check("launch command", got.Runtime.LaunchCommand, strings.Join(engines, "\n"))
	for key, value := range want.Runtime.Parameters.Server {
		if s, ok := value.(string); ok && s[0] >= '0' && s[0] <= '9' {
			value = json.RawMessage(strings.TrimSuffix(s, "0.90") + map[bool]string{true: "0.9"}[s == "0.90"])
		}
		check(key, got.Runtime.Parameters.Server[key], value)
	}
	parallel := *want.Runtime.Parallelism
	parallel.Data, parallel.Expert = 1, 1 // run 3 does not say
	check("parallelism", got.Runtime.Parallelism, parallel)
	check("accelerators' count", got.Environment.Accelerators[0].Count, want.Environment.Accelerators[0].Count)
	check("interconnect", got.Environment.Accelerators[0].Interconnect, want.Environment.Accelerators[0].Interconnect)
	check("memory", got.Environment.Accelerators[0].MemoryBytesPerDevice, want.Environment.Accelerators[0].MemoryBytesPerDevice)
	check("quantization", got.Subject.Quantization, want.Subject.Quantization)
	check("input", got.Workload.InputTokens, want.Workload.InputTokens)
	check("output", got.Workload.OutputTokens, want.Workload.OutputTokens)
	check("sampling", got.Workload.Sampling, want.Workload.Sampling)
	check("warm-ups", got.Workload.WarmupRequestCount, want.Workload.WarmupRequestCount)
	if n < 3 {
		check("environment of the server", got.Runtime.SafeEnvironment["CUDA_VISIBLE_DEVICES"], want.Runtime.SafeEnvironment["CUDA_VISIBLE_DEVICES"])
		check("topology", got.Environment.Topology, want.Environment.Topology)
		check("prefix behaviour", got.Workload.PrefixBehavior, want.Workload.PrefixBehavior)
		check("stopping", got.Workload.Stopping, want.Workload.Stopping)
		check("placement", got.Workload.Client.Placement, want.Workload.Client.Placement)
		check("runtime extensions", got.Runtime.Extensions, want.Runtime.Extensions)
		check("profile", got.Workload.Extensions["runpile.profile_id"], want.Workload.Extensions["runpile.profile_id"])
		check("repetition", got.Measurement.Extensions["runpile.independent_repetition_index"], 1)
		check("label", got.Measurement.Extensions["servebench.labels"], map[string]any{"campaign": "nightly"})
		check("name", got.Name, want.Name+" | simulated")
	}
	check("stand-in", got.Subject.Modifications[len(got.Subject.Modifications)-1],
		"The simulator servebench-sim stands in for "+want.Subject.Identifier+"@"+want.Subject.Revision+".")
	check("identifier", got.Subject.Identifier, "servebench-sim")
	for _, a := range got.Artifacts {
		check("artifact "+a.Filename, []string{a.License, a.Visibility}, []string{"CC-BY-4.0", "private"})
	}
	if !slices.ContainsFunc(got.Warnings, func(w string) bool { return strings.Contains(w, "simulator") }) {
		t.Errorf("no warning of the simulator: %q", got.Warnings)
	}
}

func plainText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
