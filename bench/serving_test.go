package bench

import (
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/servebench/servebench/manifest"
)

func launched(lines ...string) (out []manifest.Launched) {
	for _, line := range lines {
		out = append(out, manifest.Launched{Args: strings.Fields(line)})
	}
	return out
}

// The devices in use are the first ones that an engine sees, one for each rank.
func TestDevicesInUse(t *testing.T) {
	for _, c := range []struct {
		launch  []manifest.Launched
		indices []int
		count   int
		warning string
	}{
		{nil, nil, 0, ""},
		{launched("vllm serve m"), nil, 1, ""},
		{launched("vllm serve m -tp 2 -pp 2 -dp 2"), nil, 8, ""},
		{launched("CUDA_VISIBLE_DEVICES=3 vllm serve m"), []int{3}, 1, ""},
		{launched("CUDA_VISIBLE_DEVICES=2,3,0 vllm serve m -tp 2"), []int{2, 3}, 2, ""},
		{launched("CUDA_VISIBLE_DEVICES=GPU-5a1b,GPU-77 vllm serve m -tp 2"), nil, 2, ""},
		{launched("CUDA_VISIBLE_DEVICES= vllm serve m"), nil, 1, ""},
		{launched("CUDA_VISIBLE_DEVICES=0 vllm serve m -tp 2"), []int{0}, 1, "1 devices for 2 ranks"},
		{launched("CUDA_VISIBLE_DEVICES=0 vllm serve m", "CUDA_VISIBLE_DEVICES=2 vllm serve m", "python proxy.py"), []int{0, 2}, 2, ""},
		{launched("vllm serve m", "vllm serve m"), nil, 0, ""},
		{launched("python proxy.py"), nil, 0, ""},
	} {
		cfg := Config{Declared: Declared{Launch: c.launch}}
		s := cfg.served()
		indices, count := s.devices()
		if !slices.Equal(indices, c.indices) || count != c.count || (c.warning == "") != (len(s.warnings) == 0) || !strings.Contains(strings.Join(s.warnings, ""), c.warning) {
			t.Errorf("%v: %v %d %q", c.launch, indices, count, s.warnings)
		}
	}
}

// Which of the host's devices the environment lists.
func TestUseDevices(t *testing.T) {
	four := manifest.Accelerator{Count: 4, Model: "A", DeviceIndices: []int{0, 1, 2, 3}, Interconnect: "PCIe"}
	two := manifest.Accelerator{Count: 2, Model: "B", DeviceIndices: []int{4, 5}, Interconnect: "PCIe"}
	plain := manifest.Accelerator{Count: 4, Model: "A", Interconnect: "PCIe"}
	of := func(a manifest.Accelerator, interconnect string, count int, indices ...int) manifest.Accelerator {
		a.Count, a.DeviceIndices, a.Interconnect = count, indices, interconnect
		return a
	}
	type list = []manifest.Accelerator
	for _, c := range []struct {
		reading  string
		probed   bool
		host     list
		indices  []int
		count    int
		want     list
		warnings int
	}{
		{"one of four", true, list{four}, []int{3}, 1, list{of(four, "single device", 1, 3)}, 0},
		{"some of two kinds", true, list{four, two}, []int{1, 5}, 2, list{of(four, "PCIe", 1, 1), of(two, "PCIe", 1, 5)}, 0},
		{"one that is not there", true, list{four}, []int{0, 9}, 2, list{of(four, "single device", 1, 0)}, 1},
		{"none that is there", true, list{four}, []int{9}, 1, list{four}, 1},
		{"a count alone", true, list{four}, nil, 2, list{of(four, "PCIe", 2)}, 0},
		{"more than there are", true, list{four}, nil, 5, list{of(four, "PCIe", 5)}, 1},
		{"a host file without numbers", false, list{plain}, []int{2}, 1, list{of(plain, "single device", 1, 2)}, 0},
		{"nothing is known, of this machine", true, list{four}, nil, 0, list{of(four, "PCIe", 0)}, 1},
		{"nothing is known, of a host file", false, list{plain}, nil, 0, list{plain}, 0},
	} {
		s := &session{res: &Result{facts: facts{probed: c.probed}}}
		env := &manifest.Environment{Accelerators: slices.Clone(c.host)}
		s.useDevices(env, c.indices, c.count)
		same := slices.EqualFunc(env.Accelerators, c.want, func(a, b manifest.Accelerator) bool {
			return a.Count == b.Count && a.Model == b.Model && a.Interconnect == b.Interconnect && slices.Equal(a.DeviceIndices, b.DeviceIndices)
		})
		if !same || len(s.res.Warnings) != c.warnings {
			t.Errorf("%s: %+v %q\nwant %+v", c.reading, env.Accelerators, s.res.Warnings, c.want)
		}
	}
}

func TestReplicas(t *testing.T) {
	line := "vllm serve m --block-size 16"
	for _, c := range []struct {
		launch    []manifest.Launched
		urls      []string
		replicas  int
		topology  string // with one device each
		warnings  int
		blockSize any
	}{
		{launched(line), nil, 1, "One server engine on one GPU.", 0, int64(16)},
		{launched(line, line), nil, 2, "2 independent server engines on 2 GPUs.", 0, int64(16)},
		{launched(line, line, "python proxy.py"), nil, 2, "2 independent server engines on 2 GPUs.", 0, int64(16)},
		{launched(line, line), []string{"http://b"}, 2, "2 independent server engines on 2 GPUs; the client sends requests to them in turn.", 0, int64(16)},
		{launched(line), []string{"http://b"}, 2, "2 independent server engines on 2 GPUs; the client sends requests to them in turn.", 1, int64(16)},
		{launched(line, "vllm serve m --block-size 32"), nil, 2, "2 independent server engines on 2 GPUs.", 1, nil},
		{nil, []string{"http://b", "http://c"}, 3, "", 0, nil},
		{nil, nil, 0, "", 0, nil},
	} {
		cfg := Config{Replicas: c.urls, Declared: Declared{Launch: c.launch}}
		s := cfg.served()
		p := s.parallelism()
		if s.replicas != c.replicas || (p == nil) != (c.replicas == 0) || p != nil && p.Replicas != c.replicas {
			t.Errorf("%v: %d replicas, %+v", c.launch, s.replicas, p)
		}
		if got := s.parameters()["block_size"]; got != c.blockSize {
			t.Errorf("%v: block_size %v", c.launch, got)
		}
		if got := s.topology(s.replicas, len(c.urls) > 0); got != c.topology || len(s.warnings) != c.warnings {
			t.Errorf("%v: %q %q", c.launch, got, s.warnings)
		}
	}
}

func TestSourceCommit(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef01234567"
	set := func(pairs ...string) *debug.BuildInfo {
		info := &debug.BuildInfo{}
		for i := 0; i < len(pairs); i += 2 {
			info.Settings = append(info.Settings, debug.BuildSetting{Key: pairs[i], Value: pairs[i+1]})
		}
		return info
	}
	for _, c := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{set("vcs", "git", "vcs.revision", id, "vcs.modified", "false"), id},
		{set("vcs.revision", id, "vcs.modified", "true"), ""},
		{set("vcs.revision", "r12"), ""},
		{set(), ""},
	} {
		if got := sourceCommit(c.info); got != c.want {
			t.Errorf("%v: %q, want %q", c.info.Settings, got, c.want)
		}
	}
}
