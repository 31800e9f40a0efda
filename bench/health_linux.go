package bench

import (
	"bytes"
	"errors"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// cpuStats are the files in which the kernel counts how often this process's control
// groups were held back: its own group's and those above it, in either version.
func cpuStats() []string {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	return cpuStatsOf(string(own), func(name string) bool {
		text, err := os.ReadFile(name)
		return err == nil && bytes.Contains(text, []byte("nr_throttled"))
	})
}

// cpuStatsOf reads /proc/self/cgroup: lines of ID:CONTROLLERS:PATH, the second
// version's without controllers. Seen from inside a container the path may be one
// that exists outside only; then what is above it, the mount, still tells.
func cpuStatsOf(own string, tells func(name string) bool) (files []string) {
	for line := range strings.Lines(own) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || !path.IsAbs(parts[2]) {
			continue
		}
		root := "/sys/fs/cgroup"
		if parts[1] != "" {
			if !strings.Contains(","+parts[1]+",", ",cpu,") {
				continue
			}
			root = "/sys/fs/cgroup/cpu" // a link where it is mounted with cpuacct
		}
		for group := path.Clean(parts[2]); ; group = path.Dir(group) {
			if name := path.Join(root, group, "cpu.stat"); tells(name) {
				files = append(files, name)
			}
			if group == "/" {
				break
			}
		}
	}
	return files
}

// throttledPeriods counts the periods in which one of the groups was held back; not
// ok where the kernel tells none.
func throttledPeriods(files []string) (n int, ok bool) {
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if v, is := number(text, "nr_throttled "); is {
			n, ok = n+v, true
		}
	}
	return n, ok
}

// number is the one that follows a word.
func number(text []byte, word string) (int, bool) {
	_, rest, found := bytes.Cut(text, []byte(word))
	if !found {
		return 0, false
	}
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(string(rest[:end]))
	return n, err == nil
}

// openFiles counts this process's descriptors. Since Linux 6.2 that is the size of
// the folder; before, its entries are counted.
func openFiles() (int, bool) {
	const folder = "/proc/self/fd"
	var s syscall.Stat_t
	if err := syscall.Stat(folder, &s); err != nil {
		return 0, false
	}
	if s.Size > 0 {
		return int(s.Size), true
	}
	return countFiles(folder)
}

// countFiles counts the entries of a folder that this process holds open while it
// does: 10,000 of them can cost 20 ms.
func countFiles(folder string) (n int, ok bool) {
	fd, err := syscall.Open(folder, syscall.O_RDONLY|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return 0, false
	}
	defer syscall.Close(fd)
	buf := make([]byte, 32<<10)
	for {
		got, err := syscall.ReadDirent(fd, buf)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return 0, false
		}
		if got == 0 {
			return n - 1, true // one is the folder itself
		}
		_, more, _ := syscall.ParseDirent(buf[:got], -1, nil)
		n += more
	}
}

// filesLimit is how many descriptors this process may have.
func filesLimit() (int, bool) {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil || l.Cur > 1<<40 {
		return 0, false
	}
	return int(l.Cur), true
}

// portRange is how many ephemeral ports there are for connections to one server.
func portRange() (int, bool) {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 0, false
	}
	return portsIn(string(text))
}

func portsIn(text string) (int, bool) {
	f := strings.Fields(text)
	if len(f) != 2 {
		return 0, false
	}
	from, err := strconv.Atoi(f[0])
	to, err2 := strconv.Atoi(f[1])
	return to - from + 1, err == nil && err2 == nil && from <= to
}

// timeWait counts the sockets of this network namespace that are closed and still
// hold their ports.
func timeWait() (int, bool) {
	text, err := os.ReadFile("/proc/net/sockstat")
	if err != nil {
		return 0, false
	}
	return number(text, " tw ")
}

// residentBytes is the memory that this process occupies.
func residentBytes() (int, bool) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, false
	}
	_, rest, _ := bytes.Cut(text, []byte(" "))
	n, ok := number(rest, "")
	return n * os.Getpagesize(), ok
}
