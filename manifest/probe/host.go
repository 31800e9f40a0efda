// Package probe asks which machine and which serving engine a run is made on.
//
// Every probe only advises: what cannot be known is absent from the answer and
// at most a warning, never an error, and none takes longer than a few seconds.
package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/servebench/servebench/manifest"
)

// programTimeout bounds each helper program; nvidia-smi can hang when a device
// has fallen off its bus.
const programTimeout = 5 * time.Second

// Host describes this machine as an environment of the manifest: operating
// system, kernel, processor, memory, and the NVIDIA devices that nvidia-smi
// lists. Every value it holds fits the schema; what was found and does not fit
// is left out with a warning. The devices are those present: which of them the
// engine uses and the topology are for the caller to say.
//
// On Linux it reads /proc, /sys and os-release, on macOS it asks sysctl and
// sw_vers. gopsutil would read the same files of Linux, but knows neither NUMA
// nodes nor the name of the distribution as the manifest has it, nor a file system
// made up for a test. It is safe for concurrent use and returns soon after ctx ends.
func Host(ctx context.Context) (*manifest.Environment, []string) {
	m := machine{os: runtime.GOOS, arch: runtime.GOARCH, root: os.DirFS("/"), run: runProgram}
	return m.probe(ctx)
}

// machine is everything a probe of the host looks at.
type machine struct {
	os, arch string // as runtime.GOOS and GOARCH
	root     fs.FS
	// run returns the standard output of a program, or errNoProgram.
	run func(ctx context.Context, name string, args ...string) ([]byte, error)

	warnings []string
}

var errNoProgram = errors.New("no such program")

func (m *machine) warn(format string, args ...any) {
	m.warnings = append(m.warnings, fmt.Sprintf(format, args...))
}

func (m *machine) probe(ctx context.Context) (*manifest.Environment, []string) {
	env := &manifest.Environment{}
	var cpu manifest.CPU
	if m.os == "darwin" {
		m.darwin(ctx, env, &cpu)
	} else {
		m.linux(ctx, env, &cpu)
	}
	switch m.arch {
	case "amd64":
		env.HostArchitecture = "x86_64"
	case "arm64":
		env.HostArchitecture = "aarch64"
	default:
		m.warn("host architecture %s is none the manifest can name", m.arch)
	}
	m.fit(env)
	if cpu != (manifest.CPU{}) {
		env.CPU = &cpu
	}
	m.nvidia(ctx, env)
	m.compiler(ctx, env)
	return env, m.warnings
}

// fit drops what the schema does not allow.
func (m *machine) fit(env *manifest.Environment) {
	if !kernelForm(env.Kernel) {
		if env.Kernel != "" {
			m.warn("kernel release %q has no version in front", env.Kernel)
		}
		env.Kernel = ""
	}
	if env.SystemMemoryBytes < 1<<30 {
		if env.SystemMemoryBytes != 0 {
			m.warn("system memory of %d bytes is less than the manifest allows", env.SystemMemoryBytes)
		}
		env.SystemMemoryBytes = 0
	}
}

// kernelForm matches the schema's ^[0-9]+\.[0-9]+.*$.
func kernelForm(s string) bool {
	major, rest, ok := strings.Cut(s, ".")
	return ok && isDigits(major) && rest != "" && isDigits(rest[:1]) && !strings.Contains(s, "\n")
}

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// linux reads the files of the kernel and the distribution.
func (m *machine) linux(ctx context.Context, env *manifest.Environment, cpu *manifest.CPU) {
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		if env.OS = prettyName(m.read(name)); env.OS != "" {
			break
		}
	}
	env.Kernel = strings.TrimSpace(m.read("proc/sys/kernel/osrelease"))
	env.SystemMemoryBytes = memTotal(m.read("proc/meminfo"))
	readCPUInfo(m.read("proc/cpuinfo"), cpu)
	if cpu.Model == "" { // ARM kernels give numbers where x86 gives a name
		cpu.Model = colonField(m.output(ctx, "lscpu"), "Model name")
	}
	nodes, err := fs.ReadDir(m.root, "sys/devices/system/node")
	if err != nil {
		return
	}
	for _, n := range nodes {
		if number, ok := strings.CutPrefix(n.Name(), "node"); ok && isDigits(number) {
			cpu.NUMANodes++
		}
	}
}

// read returns a file of at most a few megabytes, or "".
func (m *machine) read(name string) string {
	f, err := m.root.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 8<<20))
	if err != nil {
		m.warn("read /%s: %v", name, err)
	}
	return string(data)
}

// prettyName finds the PRETTY_NAME of an os-release file, whose values are
// quoted as in a shell.
func prettyName(text string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			return strings.TrimSpace(strings.Trim(value, `"'`))
		}
	}
	return ""
}

// memTotal reads MemTotal, whose kB are 1024 bytes.
func memTotal(text string) int64 {
	kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(colonField(text, "MemTotal"), "kB")), 10, 64)
	if err != nil || kb < 0 || kb > 1<<50 {
		return 0
	}
	return kb * 1024
}

// colonField is the first value of a "key : value" line.
func colonField(text, key string) string {
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// readCPUInfo counts processors, sockets and cores. A core is known by its
// number and its socket's; where the kernel gives none, neither is counted.
func readCPUInfo(text string, cpu *manifest.CPU) {
	cpu.Model = colonField(text, "model name")
	sockets, cores := make(map[string]bool), make(map[[2]string]bool)
	socket := ""
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "processor":
			if isDigits(value) {
				cpu.LogicalCPUs++
			}
		case "physical id":
			socket = value
			sockets[socket] = true
		case "core id":
			cores[[2]string{socket, value}] = true
		}
	}
	cpu.Sockets, cpu.PhysicalCores = len(sockets), len(cores)
}

// darwin asks macOS.
func (m *machine) darwin(ctx context.Context, env *manifest.Environment, cpu *manifest.CPU) {
	if version := m.output(ctx, "sw_vers", "-productVersion"); version != "" {
		env.OS = "macOS " + version
	}
	ask := func(key string) string { return m.output(ctx, "sysctl", "-n", key) }
	number := func(key string) int64 {
		n, err := strconv.ParseInt(ask(key), 10, 64)
		if err != nil {
			return 0
		}
		return max(n, 0)
	}
	env.Kernel = ask("kern.osrelease")
	env.SystemMemoryBytes = number("hw.memsize")
	cpu.Model = ask("machdep.cpu.brand_string")
	cpu.Sockets = int(number("hw.packages"))
	cpu.LogicalCPUs = int(number("hw.logicalcpu"))
	cpu.PhysicalCores = int(number("hw.physicalcpu"))
}

// output is the trimmed output of a program that need not exist; a failure of
// one that does is a warning.
func (m *machine) output(ctx context.Context, name string, args ...string) string {
	out, err := m.run(ctx, name, args...)
	if err != nil && !errors.Is(err, errNoProgram) {
		m.warn("%s: %v", name, err)
	}
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// gpuFields are what nvidia-smi is asked for. Drivers before 510 do not know
// compute_cap, so it is last and left out at a second try.
var gpuFields = []string{"name", "memory.total", "driver_version", "power.limit", "compute_cap"}

// mostDevices of one machine are listed.
const mostDevices = 256

// nvidia lists the devices, grouped where they are the same in everything.
func (m *machine) nvidia(ctx context.Context, env *manifest.Environment) {
	var out []byte
	var err error
	asked := 0
	for _, fields := range [][]string{gpuFields, gpuFields[:len(gpuFields)-1]} {
		asked = len(fields)
		out, err = m.run(ctx, "nvidia-smi", "--query-gpu="+strings.Join(fields, ","), "--format=csv,noheader,nounits")
		if err == nil || errors.Is(err, errNoProgram) || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		if !errors.Is(err, errNoProgram) {
			m.warn("nvidia-smi: %v", err)
		}
		return
	}
	var groups []manifest.Accelerator
	devices, odd, first := 0, 0, ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case strings.Count(line, ",")+1 != asked || !utf8.ValidString(line) || devices == mostDevices:
			if odd++; odd == 1 {
				first = line
			}
		default:
			a := m.device(line)
			a.DeviceIndices = []int{devices} // they are listed in their order
			groups = group(groups, a)
			devices++
		}
	}
	if odd > 0 {
		m.warn("nvidia-smi: %d lines are of no device, the first: %.100q", odd, first)
	}
	if devices == 0 {
		return
	}
	connection := "single device"
	if devices > 1 {
		connection = interconnect(m.output(ctx, "nvidia-smi", "topo", "-m"), devices)
	}
	for i := range groups {
		groups[i].Interconnect = connection
	}
	env.Accelerators = groups
	if driver := groups[0].Driver; driver != "" {
		env.DriverVersions = map[string]string{"nvidia": driver}
	}
}

// interconnect says in words what the matrix of `nvidia-smi topo -m` shows between
// devices: a row GPU0 has in column GPU1 NV and a number for NVLink, SYS for a way
// from one NUMA node to another, else a way inside one. It is "" where the matrix
// is not that of so many devices.
func interconnect(matrix string, devices int) string {
	var nvlink, across, pairs int
	for line := range strings.Lines(matrix) {
		cells := strings.Fields(line)
		if len(cells) <= devices || !isDigits(strings.TrimPrefix(cells[0], "GPU")) || !strings.HasPrefix(cells[0], "GPU") || cells[1] == "GPU1" {
			continue
		}
		for _, cell := range cells[1 : devices+1] {
			switch {
			case cell == "X":
				continue
			case strings.HasPrefix(cell, "NV"):
				nvlink++
			case cell == "SYS":
				across++
			case cell != "PIX" && cell != "PXB" && cell != "PHB" && cell != "NODE":
				return ""
			}
			pairs++
		}
	}
	switch {
	case pairs != devices*(devices-1):
		return ""
	case nvlink == pairs:
		return "NVLink between all devices"
	case nvlink > 0:
		return "NVLink between some devices, PCIe between the others"
	case across > 0:
		return "PCIe across NUMA nodes; no NVLink"
	}
	return "PCIe within one NUMA node; no NVLink"
}

// compiler is the CUDA compiler's version, the last line of what nvcc tells.
func (m *machine) compiler(ctx context.Context, env *manifest.Environment) {
	for _, program := range []string{"nvcc", "/usr/local/cuda/bin/nvcc"} {
		text := m.output(ctx, program, "--version")
		build := strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
		if !strings.HasPrefix(build, "Build ") {
			continue
		}
		if env.DriverVersions == nil {
			env.DriverVersions = map[string]string{}
		}
		env.DriverVersions["cuda_compiler"] = build
		return
	}
}

// device reads one line of nvidia-smi. A field the driver cannot tell is
// written [N/A] or the like and is absent.
func (m *machine) device(line string) manifest.Accelerator {
	a := manifest.Accelerator{Count: 1, Vendor: "NVIDIA"}
	for i, value := range strings.Split(line, ",") {
		if value = strings.TrimSpace(value); value == "" || value[0] == '[' || i >= len(gpuFields) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		number := err == nil && n > 0 && n < 1<<40
		switch field := gpuFields[i]; {
		case field == "name":
			a.Model = value
		case field == "memory.total" && number && n*(1<<20) >= 1<<30:
			a.MemoryBytesPerDevice = int64(n * (1 << 20))
		case field == "driver_version" && driverForm(value):
			a.Driver = value
		case field == "power.limit" && number:
			a.PowerLimitWatts = n
		case field == "compute_cap" && number:
			a.Architecture = architecture(value)
		default:
			m.warn("nvidia-smi: %s of %.100q does not fit", field, value)
		}
	}
	return a
}

// group adds a device to the group of its like.
func group(groups []manifest.Accelerator, a manifest.Accelerator) []manifest.Accelerator {
	for i, g := range groups {
		if g.Model == a.Model && g.Driver == a.Driver && g.Architecture == a.Architecture &&
			g.MemoryBytesPerDevice == a.MemoryBytesPerDevice && g.PowerLimitWatts == a.PowerLimitWatts {
			groups[i].Count++
			groups[i].DeviceIndices = append(groups[i].DeviceIndices, a.DeviceIndices...)
			return groups
		}
	}
	return append(groups, a)
}

// driverForm matches two to four numbers with dots between.
func driverForm(s string) bool {
	parts := strings.Split(s, ".")
	return len(parts) >= 2 && len(parts) <= 4 && !slices.ContainsFunc(parts, func(p string) bool { return !isDigits(p) })
}

// families are the names of compute capabilities: by major and minor version
// where a minor one has its own name, else by the major one.
var families = map[string]string{
	"5": "Maxwell", "6": "Pascal", "7": "Volta", "7.5": "Turing", "8": "Ampere", "8.9": "Ada", "9": "Hopper",
	"10": "Blackwell", "11": "Blackwell", "12": "Blackwell",
}

// architecture names a compute capability: 12.0 is Blackwell SM120.
func architecture(capability string) string {
	sm := "SM" + strings.ReplaceAll(capability, ".", "")
	major, _, _ := strings.Cut(capability, ".")
	for _, key := range []string{capability, major} {
		if name := families[key]; name != "" {
			return name + " " + sm
		}
	}
	return sm
}

// runProgram runs a program for at most programTimeout and returns at most a
// megabyte of what it writes.
func runProgram(ctx context.Context, name string, args ...string) ([]byte, error) {
	return runWithin(ctx, programTimeout, name, args...)
}

func runWithin(ctx context.Context, most time.Duration, name string, args ...string) ([]byte, error) {
	if _, err := exec.LookPath(name); err != nil {
		return nil, errNoProgram
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	ownGroup(cmd)
	cmd.WaitDelay = time.Second // a child of its own may hold the pipe open
	out, said := &limited{max: 1 << 20}, &limited{max: 1 << 10}
	cmd.Stdout, cmd.Stderr = out, said
	err := cmd.Run()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("no answer: %w", context.Cause(ctx))
	}
	if err != nil {
		for _, words := range [][]byte{out.kept.Bytes(), said.kept.Bytes()} {
			if words = bytes.TrimSpace(words); len(words) > 0 {
				return nil, fmt.Errorf("%w: %s", err, bytes.ToValidUTF8(words[:min(len(words), 200)], nil))
			}
		}
		return nil, err
	}
	return out.kept.Bytes(), nil
}

// limited keeps the first max bytes written to it and drops the rest, so that
// the program can go on. The buffer is no embedded field: its ReadFrom would
// go round the limit.
type limited struct {
	kept bytes.Buffer
	max  int
}

func (l *limited) Write(p []byte) (int, error) {
	l.kept.Write(p[:min(len(p), max(0, l.max-l.kept.Len()))])
	return len(p), nil
}
