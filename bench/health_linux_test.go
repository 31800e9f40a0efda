package bench

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"
)

func TestCPUStatFiles(t *testing.T) {
	for _, c := range []struct {
		name, own string
		there     []string // suffixes of folders that tell
		want      string
	}{
		{"v2", "0::/user.slice/a.scope\n", []string{"/sys/fs/cgroup/user.slice/a.scope", "/sys/fs/cgroup/user.slice"}, "[/sys/fs/cgroup/user.slice/a.scope/cpu.stat /sys/fs/cgroup/user.slice/cpu.stat]"},
		{"v2 in a container", "0::/\n", []string{"/sys/fs/cgroup"}, "[/sys/fs/cgroup/cpu.stat]"},
		{"v1 in a container, with the path outside", "4:memory:/docker/1\n3:cpu,cpuacct:/docker/1\n", []string{"/sys/fs/cgroup/cpu"}, "[/sys/fs/cgroup/cpu/cpu.stat]"},
		{"no cpu controller", "2:cpuset:/a\n1:cpuacct:/a\n", []string{"/sys/fs/cgroup/cpu"}, "[]"},
		{"nonsense", "x\n1:cpu\n::rel\n0::/../..\n", []string{"/sys/fs/cgroup"}, "[/sys/fs/cgroup/cpu.stat]"},
		{"nothing tells", "0::/a\n", nil, "[]"},
	} {
		got := cpuStatsOf(c.own, func(name string) bool { return slices.Contains(c.there, name[:len(name)-len("/cpu.stat")]) })
		if fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

func TestPortsIn(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		ok   bool
	}{{"32768\t60999\n", 28232, true}, {"1 1", 1, true}, {"2 1", 0, false}, {"", 0, false}, {"a b", 0, false}, {"1 2 3", 0, false}} {
		if n, ok := portsIn(c.text); ok != c.ok || ok && n != c.n {
			t.Errorf("%q: %d %v", c.text, n, ok)
		}
	}
}

// Both ways of counting descriptors see those that are open.
func TestOpenFiles(t *testing.T) {
	const many = 200
	dir := t.TempDir()
	for i := range many {
		f, err := os.Create(fmt.Sprintf("%s/%d", dir, i))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	a, okA := openFiles()
	b, okB := countFiles("/proc/self/fd")
	if !okA || !okB || a < many || b < many {
		t.Errorf("%d %v and %d %v, with %d files open", a, okA, b, okB, many)
	}
	if n, ok := countFiles(dir); !ok || n != many-1 { // the folder is not among its own entries
		t.Errorf("%d %v, want %d", n, ok, many-1)
	}
	if _, ok := countFiles(dir + "/no such folder"); ok {
		t.Error("a folder that is not there was counted")
	}
}

// What one second's look costs with 10,000 descriptors open, and what a wake does.
func BenchmarkHealth(b *testing.B) {
	var limit = 10_000
	if n, ok := filesLimit(); ok {
		limit = min(limit, n-200)
	}
	for range limit {
		f, err := os.Open("/dev/null")
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
	}
	b.Run(fmt.Sprintf("second/descriptors=%d", limit), func(b *testing.B) {
		h := &health{conns: func() int { return 1 }, began: time.Now(), joined: 1}
		h.now.init()
		last := h.began
		b.ReportAllocs()
		for b.Loop() {
			now := time.Now()
			h.take(last, now, 0)
			last = now
		}
	})
	b.Run("entries", func(b *testing.B) {
		for b.Loop() {
			countFiles("/proc/self/fd")
		}
	})
}
