package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/manifest"
)

// inPath puts a program that prints text before all others, once for each line of
// arguments that it is asked with; with others it fails.
func inPath(t *testing.T, name string, answers map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	var b strings.Builder
	b.WriteString("#!/bin/sh\ncase \"$*\" in\n")
	for args, text := range answers {
		b.WriteString("'" + args + "')\n/bin/cat <<'END'\n" + text + "\nEND\n;;\n")
	}
	b.WriteString("*) exit 9;;\nesac\n")
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(b.String()), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return path
}

// What `servebench env` prints is a host file of what the tools of this machine
// say.
func TestEnv(t *testing.T) {
	const card = "NVIDIA GeForce RTX 5090, 32607, 580.173.02, 575.00, 12.0"
	inPath(t, "nvidia-smi", map[string]string{
		"--query-gpu=name,memory.total,driver_version,power.limit,compute_cap --format=csv,noheader,nounits": card + "\n" + card,
		"topo -m": "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNODE\t0-31\nGPU1\tNODE\t X \t0-31",
	})
	inPath(t, "nvcc", map[string]string{"--version": "Cuda compilation tools\nBuild cuda_13.1.r13.1/compiler.37061995_0"})
	code, out, errs := command(t, "env")
	if code != 0 || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	env, err := manifest.ParseHost("host.yaml", []byte(out))
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := []manifest.Accelerator{{Count: 2, Model: "NVIDIA GeForce RTX 5090", Driver: "580.173.02", Vendor: "NVIDIA", Architecture: "Blackwell SM120",
		Interconnect: "PCIe within one NUMA node; no NVLink", DeviceIndices: []int{0, 1}, PowerLimitWatts: 575, MemoryBytesPerDevice: 34190917632}}
	if diff := cmp.Diff(want, env.Accelerators); diff != "" {
		t.Error(diff)
	}
	if got := env.DriverVersions; got["nvidia"] != "580.173.02" || got["cuda_compiler"] != "Build cuda_13.1.r13.1/compiler.37061995_0" {
		t.Errorf("drivers %v", got)
	}
	if env.CPU == nil || env.CPU.LogicalCPUs == 0 || env.Kernel == "" || !strings.Contains(out, "# topology:") {
		t.Errorf("%s", out)
	}
	if host, err := os.Hostname(); err == nil && len(host) > 4 && strings.Contains(out, host) {
		t.Errorf("the machine's name %s is in it:\n%s", host, out)
	}
}

func TestEnvPython(t *testing.T) {
	python := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(python, []byte(`#!/bin/sh
echo '{"python": "3.10.4", "packages": {"torch": "2.9.0+cu129", "vllm": "0.23.0"}}'
`), 0o700); err != nil {
		t.Fatal(err)
	}
	code, out, errs := command(t, "env", "--python", python)
	env, err := manifest.ParseHost("host.yaml", []byte(out))
	if code != 0 || err != nil {
		t.Fatalf("exit %d %v: %s%s", code, err, out, errs)
	}
	if v := env.VirtualEnvironment; v == nil || v.Python != "3.10.4" || len(v.DependencyLockHash) != 64 {
		t.Errorf("%+v", v)
	}
	if want := `server: {dependencies: {vllm: "0.23.0", pytorch: "2.9.0+cu129"}}`; !strings.Contains(out, want) {
		t.Errorf("no %s in\n%s", want, out)
	}
	for _, c := range [][]string{{"env", "--python", "/none/python"}, {"env", "more"}, {"env", "--hostname"}} {
		if code, out, errs := command(t, c...); code != exitUsage || out != "" || errs == "" {
			t.Errorf("%q: exit %d %q %q", c, code, out, errs)
		}
	}
}
