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

// Both ways of counting descriptors see one more that is open.
func TestOpenFiles(t *testing.T) {
	count := func() (a, b int) {
		a, okA := openFiles()
		b, okB := countFiles("/proc/self/fd")
		if !okA || !okB {
			t.Fatal("descriptors cannot be counted")
		}
		return a, b
	}
	a, b := count()
	f, err := os.Open("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if a2, b2 := count(); a2 != a+1 || b2 != b+1 || a != b {
		t.Errorf("%d and %d, with one more %d and %d", a, b, a2, b2)
	}
	if _, ok := countFiles("/proc/self/no such folder"); ok {
		t.Error("a folder that is not there was counted")
	}
	if n, ok := countFiles(t.TempDir()); !ok || n != -1 { // it does not hold its own descriptor
		t.Errorf("%d", n)
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
