package bench

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// processCPU is the CPU time that this process has used, in user and in kernel mode.
func processCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// throttledPeriods counts the periods in which this process's control group was held
// back; not ok where the kernel tells none.
func throttledPeriods() (n int, ok bool) {
	group := ""
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(own)) {
		if path, is := strings.CutPrefix(strings.TrimSpace(line), "0::"); is {
			group = path
		}
	}
	stat, err := os.ReadFile("/sys/fs/cgroup" + group + "/cpu.stat")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(stat)) {
		if text, is := strings.CutPrefix(strings.TrimSpace(line), "nr_throttled "); is {
			n, err := strconv.Atoi(text)
			return n, err == nil
		}
	}
	return 0, false
}
