package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/manifest"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A result of vLLM's with all that can be declared holds the publishable profile and
// verifies with its file beside it.
func TestImport(t *testing.T) {
	dir := t.TempDir()
	data, err := os.ReadFile("../../bench/importer/testdata/serve.json")
	if err != nil {
		t.Fatal(err)
	}
	result := write(t, dir, "serve.json", string(data))
	commit := strings.Repeat("ab", 20)
	subject := write(t, dir, "subject.yaml", "identifier: org/tiny\nrevision: "+commit+"\narchitecture: A\nparameter_count_total: 10\nparameter_count_active: 10\nmodifications: []\nquantization: {format: BF16}\n")
	host := write(t, dir, "host.yaml", `
os: Ubuntu 24.04
cpu: {model: AMD EPYC, logical_cpus: 8}
kernel: 6.8.0
topology: One engine on one GPU.
accelerators: [{count: 1, model: NVIDIA L4, vendor: NVIDIA, driver: "575.64", architecture: Ada, memory_bytes_per_device: 24000000000}]
driver_versions: {nvidia: "575.64"}
host_architecture: x86_64
system_memory_bytes: 68719476736
`)
	launch := write(t, dir, "launch.sh", "# how it was started\nCUDA_VISIBLE_DEVICES=0 vllm serve org/tiny --revision "+commit+" \\\n  --max-model-len 4096 --max-num-seqs 16 --tensor-parallel-size 1 --no-enable-prefix-caching --api-key abcdefgh --download-dir /data/x\n")
	out := filepath.Join(dir, "serve.manifest.json")
	args := []string{"manifest", "import", "--subject", subject, "--host", host, "--launch", launch, "-o", out}
	for _, s := range []string{"visibility=public", "license=CC-BY-4.0", "notes=Imported.", "measurement.notes=n", "runtime.version=0.32.0", "workload.tokenizer.identifier=org/tiny", "workload.tokenizer.revision=" + commit, "workload.client.placement=same-host",
		`workload.dataset={"generator":"vllm-random","synthetic":true,"shared_prefix_tokens":0,"license":"CC0-1.0"}`, `workload.sampling={"mode":"greedy","temperature":0}`, `workload.stopping={"ignore_eos":true,"max_output_tokens":32}`,
		`workload.prefix_behavior={"cache_enabled":false,"shared_prefix_tokens":0}`, "measurement.version=0.32.0", "measurement.benchmark_command=vllm bench serve --max-concurrency 8"} {
		args = append(args, "--set", s)
	}
	if code, stdout, errs := command(t, append(args, result)...); code != 0 || stdout != "" || !strings.Contains(errs, "saved "+out) || !strings.Contains(errs, "warning: Imported from a result file") {
		t.Fatalf("exit %d: %s%s", code, stdout, errs)
	}
	if code, stdout, errs := command(t, "manifest", "verify", "--publish", out); code != 0 {
		t.Errorf("exit %d: %s%s", code, stdout, errs)
	}
	doc, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"launch_command": "CUDA_VISIBLE_DEVICES=0 vllm serve org/tiny --revision ` + commit, `--api-key <redacted> --download-dir <local-path>"`, `"max_num_seqs": 16`, `"prefix_caching": false`, `"source": "import"`, `"CUDA_VISIBLE_DEVICES": "0"`} {
		if !strings.Contains(string(doc), want) {
			t.Errorf("no %s in\n%s", want, doc)
		}
	}
}

func TestImportMistakes(t *testing.T) {
	dir := t.TempDir()
	const ok = `{"completed":1,"failed":0,"total_input_tokens":2,"total_output_tokens":3,"duration":1.5,"backend":"vllm","max_concurrency":1}`
	good, two := write(t, dir, "good.json", ok), write(t, dir, "two.jsonl", ok+"\n"+strings.Replace(ok, "1.5", "2.5", 1))
	bad := write(t, dir, "bad.json", strings.Replace(ok, `"failed":0`, `"failed":0,"request_throughput":1`, 1))
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{good, good}, exitUsage, "manifest import: 2 files; want one, or none for standard input"},
		{[]string{filepath.Join(dir, "none.json")}, exitUsage, "none.json: no such file"},
		{[]string{two}, exitUsage, "two.jsonl: 2 results; want -o FILE.manifest.json"},
		{[]string{bad}, exitInvalid, "bad.json: request_throughput: 1, but 1 / 1.5 s is 0.6666666666666666"},
		{[]string{write(t, dir, "empty.json", "")}, exitInvalid, "empty.json: the file is empty"},
		{[]string{"--subject", bad, good}, exitUsage, "--subject: " + bad + ":1"},
		{[]string{"--host", write(t, dir, "h.yaml", "oss: x\n"), good}, exitUsage, "oss"},
		{[]string{"--launch-command", "python -m x", good}, exitUsage, "--launch-command: no line starts a server; want a command such as vllm serve MODEL"},
		{[]string{"--launch-command", "vllm serve x", "--launch", two, good}, exitUsage, "--launch: and --launch-command; want one of them"},
		{[]string{"--set", "results.x=1", good}, exitInvalid, "good.json: set results.x: cannot be set"},
		{[]string{"-o", filepath.Join(dir, "no", "x.json"), good}, exitUnsaved, "x.json"},
		{[]string{"-o", socket(t), good}, exitUsage, "no regular file"},
	} {
		if code, out, errs := command(t, append([]string{"manifest", "import"}, c.args...)...); code != c.code || !strings.Contains(errs, c.want) || out != "" {
			t.Errorf("%q: exit %d: %s\nwant %d: %s", c.args, code, errs, c.code, c.want)
		}
	}
	if code, out, _ := command(t, "manifest", "import", good); code != 0 {
		t.Errorf("exit %d", code)
	} else if _, err := manifest.Validate([]byte(out)); err != nil {
		t.Error(err)
	}
	if code, _, errs := command(t, "manifest", "import", "-o", filepath.Join(dir, "all.manifest.json"), two); code != 0 {
		t.Errorf("exit %d: %s", code, errs)
	}
	names, err := filepath.Glob(filepath.Join(dir, "all.servebench-*-1.manifest.json"))
	if err != nil || len(names) != 2 {
		t.Error(cmp.Diff(2, len(names)), err)
	}
}
