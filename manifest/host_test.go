package manifest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// It is the host of the third reference, and what only an experiment has.
const hostFile = `os: Ubuntu 24.04.4 LTS
cpu: {model: AMD Ryzen Threadripper PRO 9955WX 16-Cores, sockets: 1, numa_nodes: 1, logical_cpus: 32, physical_cores: 16}
kernel: 6.8.0-136-generic
topology: Four independent one-GPU replicas, one per GPU, behind the recorded round-robin HTTP proxy.
accelerators:
- count: 4
  model: NVIDIA GeForce RTX 5090
  driver: 580.173.02
  vendor: NVIDIA
  architecture: Blackwell SM120
  interconnect: PCIe within one NUMA node; no NVLink
  memory_bytes_per_device: 34190917632
driver_versions:
  nvidia: 580.173.02
  cuda_compiler: Build cuda_13.1.r13.1/compiler.37061995_0
host_architecture: x86_64
system_memory_bytes: 269585743872
`

func TestParseHost(t *testing.T) {
	got, err := ParseHost("h.yaml", []byte(hostFile))
	if err != nil {
		t.Fatal(err)
	}
	want := parse[Run](t, marshal(t, document(t, "seed-run-3"))).Environment
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	got, err = ParseHost("h.yaml", []byte("virtual_environment:\n  python: \"3.11\"\naccelerators: [{device_indices: [0, 2], power_limit_watts: 575.5}]\n"))
	want = &Environment{VirtualEnvironment: &VirtualEnvironment{Python: "3.11"}, Accelerators: []Accelerator{{DeviceIndices: []int{0, 2}, PowerLimitWatts: 575.5}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestParseHostErrors(t *testing.T) {
	for _, c := range []struct{ data, want string }{
		{"hostname: x\n", `h.yaml:1:1: unknown field "hostname"`},
		{"os: a\naccelerators:\n- modell: x\n", `h.yaml:3:3: unknown field "modell"`},
		{"os: a\nos: b\n", `h.yaml:2:1: mapping key "os" already defined at [1:1]`},
		{"os: 12\n", "h.yaml:1: os is text, put the value in quotes"},
		{"driver_versions:\n  nvidia: 580.17\n", "h.yaml:2: nvidia is text, put the value in quotes"},
		{"virtual_environment:\n  python: 3.10\n", "h.yaml:2: python is text, put the value in quotes"},
		{"accelerators:\n- count: 1\n- driver: 580.17\n", "h.yaml:3: driver is text, put the value in quotes"},
		{"accelerators:\n- count: -4\n", "h.yaml:2: accelerators/0/count: minimum"},
		{"accelerators:\n- vendor: Nvidia\n", "h.yaml:2: accelerators/0/vendor: value must be one of"},
		{"topology: see /home/ann/notes\n", "h.yaml:1: topology: public text must hold no local path"},
		{"host_architecture: amd64\n", "h.yaml:1: host_architecture: value must be one of"},
		{"a: 1\n---\nb: 2\n", "h.yaml: more than one YAML document"},
		{strings.Repeat("#", 1<<20+1), "h.yaml: a host file of 1048577 bytes is no host file"},
	} {
		if env, err := ParseHost("h.yaml", []byte(c.data)); err == nil || env != nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%.40q: %v, want %s", c.data, err, c.want)
		}
	}
}

func FuzzParseHost(f *testing.F) {
	for _, s := range []string{hostFile, "", "accelerators: [{device_indices: [0, 0]}]\n", "cpu: ~\n", "extensions: {a.b: [1, {c: 2}]}\n", "cpu: &c {sockets: 1}\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data string) {
		env, err := ParseHost("h.yaml", []byte(data))
		if (env == nil) == (err == nil) {
			t.Errorf("%v and %v", env, err)
		}
		if env == nil {
			return
		}
		run := parse[Run](t, marshal(t, document(t, "seed-run-1")))
		run.Environment = env
		if _, err := Encode(&run); err != nil {
			t.Errorf("a host that cannot be written: %v", err)
		}
	})
}
