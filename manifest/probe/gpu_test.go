package probe

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fakeSMI answers each query with what stands for it, and notes the arguments.
func fakeSMI(asked *[]string, devices []int, answers map[string]string) NvidiaSMI {
	return NvidiaSMI{Devices: devices, Run: func(_ context.Context, name string, args ...string) ([]byte, error) {
		*asked = append(*asked, name+" "+strings.Join(args, " "))
		for query, out := range answers {
			if strings.HasPrefix(args[0], query) {
				return []byte(out), nil
			}
		}
		return nil, errors.New("exit status 6")
	}}
}

// Two devices, of which the second cannot tell its power and its utilization.
func TestGPUSample(t *testing.T) {
	var asked []string
	n := fakeSMI(&asked, []int{0, 3}, map[string]string{"--query-gpu": "0, 57, 312.45, 2700, 14001, 30211, 98\n3, 34, [N/A], 210, 405, 1, [Not Supported]\n\n"})
	got, err := n.Sample(t.Context())
	want := []GPU{
		{0, map[string]float64{"temperature_c": 57, "power_watts": 312.45, "sm_clock_mhz": 2700, "memory_clock_mhz": 14001, "memory_used_bytes": 30211 << 20, "utilization_percent": 98}},
		{3, map[string]float64{"temperature_c": 34, "sm_clock_mhz": 210, "memory_clock_mhz": 405, "memory_used_bytes": 1 << 20}},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	line := "nvidia-smi --query-gpu=index,temperature.gpu,power.draw,clocks.current.sm,clocks.current.memory,memory.used,utilization.gpu --format=csv,noheader,nounits --id=0,3"
	if d := cmp.Diff([]string{line}, asked); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{"", "No devices were found\n", "0, 57\n", "-1, 57, 1, 1, 1, 1, 1\n"} {
		n := fakeSMI(&asked, nil, map[string]string{"--query-gpu": bad})
		if got, err := n.Sample(t.Context()); err == nil {
			t.Errorf("%q is read as %v", bad, got)
		}
	}
}

func TestGPUProcesses(t *testing.T) {
	var asked []string
	n := fakeSMI(&asked, nil, map[string]string{"--query-compute-apps": "GPU-1a2b, 4711, 30000\nGPU-1a2b, [N/A], [N/A]\nMIG-7, 12, 5\nNo running processes found\n"})
	got, err := n.Processes(t.Context())
	want := []GPUProcess{{4711, "GPU-1a2b", 30000 << 20}, {0, "GPU-1a2b", 0}, {12, "MIG-7", 5 << 20}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Error(d, err)
	}
	if d := cmp.Diff([]string{"nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv,noheader,nounits"}, asked); d != "" {
		t.Error(d)
	}
}

func TestGPUFails(t *testing.T) {
	n := NvidiaSMI{Run: func(context.Context, string, ...string) ([]byte, error) { return nil, errNoProgram }}
	if _, err := n.Sample(t.Context()); err == nil || err.Error() != "nvidia-smi: no such program" {
		t.Error(err)
	}
}

// One that waits is killed with the context; one that cannot be killed is left
// behind.
func TestGPUHangs(t *testing.T) {
	for name, c := range map[string]struct {
		killable bool
		want     string
		after    time.Duration
	}{
		"killable":   {true, "nvidia-smi: no answer", programTimeout},
		"unkillable": {false, "nvidia-smi hangs and cannot be ended: it was left behind", programTimeout + killWait},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				n := NvidiaSMI{Run: func(ctx context.Context, _ string, _ ...string) ([]byte, error) {
					<-ctx.Done()
					if !c.killable {
						<-release
					}
					return nil, errors.New("no answer")
				}}
				begin := time.Now()
				_, err := n.Sample(t.Context())
				if err == nil || err.Error() != c.want || time.Since(begin) != c.after {
					t.Errorf("%v after %v, want %s after %v", err, time.Since(begin), c.want, c.after)
				}
				close(release)
			})
		})
	}
}

func TestDescends(t *testing.T) {
	tree := map[int]string{30: "30 (VLLM::Engine) S) R 20 30 1 0", 20: "20 (vllm) S 10 10 1", 10: "10 (sh) S 1 10", 40: "40 (x) S 40", 50: "50 (x"}
	stat := func(pid int) string { return tree[pid] }
	for _, c := range []struct {
		pid   int
		roots []int
		want  bool
	}{
		{30, []int{20}, true}, {30, []int{7, 10}, true}, {20, []int{20}, true},
		{20, []int{30}, false}, {30, nil, false}, {40, []int{1}, false}, {50, []int{1}, false}, {99, []int{10}, false}, {0, []int{10}, false},
	} {
		if got := descends(c.pid, c.roots, stat); got != c.want {
			t.Errorf("%d below %v: %v", c.pid, c.roots, got)
		}
	}
	if _, err := os.Stat("/proc/self/stat"); err == nil && !Descends(os.Getpid(), []int{os.Getppid()}) {
		t.Error("this process does not descend from its parent")
	}
}

// FuzzReadGPU: any line can be read, and all values are numbers.
func FuzzReadGPU(f *testing.F) {
	f.Add("0, 57, 312.45, 2700, 14001, 30211, 98\n")
	f.Add("1, [N/A], NaN, inf, 1e300, -1, 0x1p3")
	f.Fuzz(func(t *testing.T, line string) {
		g, ok := readGPU(line)
		for name, v := range g.Values {
			if !ok || !(v >= 0 && v < 1<<60) {
				t.Errorf("%s is %v", name, v)
			}
		}
	})
}
