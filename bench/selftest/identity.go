package selftest

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/servebench/servebench/bench"
)

// Build is the program that a figure was made with.
type Build struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	Commit  string `json:"commit,omitempty"`
	// Executable is the sha256 of the program's file.
	Executable string `json:"executable_sha256"`
}

// ThisBuild is the running program. It reads the whole of executable, its file.
func ThisBuild(executable string) (b Build, err error) {
	b = Build{Version: bench.Version, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Commit = s.Value
			}
		}
	}
	f, err := os.Open(executable)
	if err != nil {
		return b, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return b, err
	}
	b.Executable = hex.EncodeToString(h.Sum(nil))
	return b, nil
}

// Machine is what a figure depends on of the machine; nothing in it names it.
type Machine struct {
	OS          string `json:"os"`
	Arch        string `json:"arch"`
	CPU         string `json:"cpu_model,omitempty"`
	Cores       int    `json:"cores"`
	GOMAXPROCS  int    `json:"gomaxprocs"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
	Kernel      string `json:"kernel,omitempty"`
}

// ThisMachine reads what there is of it.
func ThisMachine() Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0)}
	m.CPU = field("/proc/cpuinfo", "model name")
	if kib, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil && kib < 1<<50 {
		m.MemoryBytes = kib << 10
	}
	m.Kernel = line("/proc/sys/kernel/osrelease")
	return m
}

// ID is a digest of the machine, and of /etc/machine-id where there is one, by which
// it is known again. It does not tell what it was made of.
func (m Machine) ID() string {
	// The kernel keeps back a little more or less of the memory at each boot.
	m.MemoryBytes >>= 30
	sum := sha256.Sum256(fmt.Appendf(nil, "servebench selftest\n%+v\n%s\n", m, line("/etc/machine-id")))
	return hex.EncodeToString(sum[:])
}

// field finds "key : value" in a file of such lines.
func field(path, key string) (value string) {
	_ = scan(path, func(l string) bool {
		k, v, ok := strings.Cut(l, ":")
		if ok && strings.TrimSpace(k) == key {
			value = strings.TrimSpace(v)
		}
		return value == ""
	})
	return value
}

// line is the first line of a file.
func line(path string) (text string) {
	_ = scan(path, func(l string) bool { text = strings.TrimSpace(l); return false })
	return text
}

// scan calls f with the lines of a file until it returns false; what is not there
// has none.
func scan(path string, f func(string) bool) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	s := bufio.NewScanner(io.LimitReader(file, 8<<20))
	for s.Scan() && f(s.Text()) {
	}
	return s.Err()
}
