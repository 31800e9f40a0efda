package probe

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/manifest"
)

func text(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

// workstation is the host of the third reference manifest.
func workstation() fstest.MapFS {
	var cpus strings.Builder
	for i := range 32 {
		cpus.WriteString("processor\t: " + string(rune('0'+i%10)) + "\nmodel name\t: AMD Ryzen Threadripper PRO 9955WX 16-Cores\nphysical id\t: 0\ncore id\t\t: " +
			string(rune('a'+i%16)) + "\n\n")
	}
	return fstest.MapFS{
		"etc/os-release":                        text("NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 24.04.4 LTS\"\nVERSION_ID=\"24.04\"\n"),
		"proc/sys/kernel/osrelease":             text("6.8.0-136-generic\n"),
		"proc/meminfo":                          text("MemTotal:       263267328 kB\nMemFree:        1 kB\n"),
		"proc/cpuinfo":                          text(cpus.String()),
		"sys/devices/system/node/node0/cpulist": text("0-31\n"),
		"sys/devices/system/node/possible":      text("0\n"),
	}
}

// programs is a fake of the helper programs: a command line to its output.
type programs map[string]string

func (p programs) run(_ context.Context, name string, args ...string) ([]byte, error) {
	line := strings.Join(append([]string{name}, args...), " ")
	if out, ok := p[line]; ok {
		return []byte(out), nil
	}
	if _, ok := p[name]; ok {
		return nil, errors.New(p[name])
	}
	return nil, errNoProgram
}

const (
	smi      = "nvidia-smi --query-gpu=name,memory.total,driver_version,power.limit,compute_cap --format=csv,noheader,nounits"
	smiOlder = "nvidia-smi --query-gpu=name,memory.total,driver_version,power.limit --format=csv,noheader,nounits"
	rtx5090  = "NVIDIA GeForce RTX 5090, 32607, 580.173.02, 575.00, 12.0\n"
)

const nvcc = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.1, V13.1.80\nBuild cuda_13.1.r13.1/compiler.37061995_0\n"

// topology is the matrix of four devices, each pair connected by one of ways, in
// turn.
func topology(ways ...string) string {
	text := "\t\033[4mGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\033[0m\n"
	n := 0
	for i := range 4 {
		text += "GPU" + strconv.Itoa(i)
		for j := range 4 {
			way := " X "
			if i != j {
				way = ways[n%len(ways)]
				n++
			}
			text += "\t" + way
		}
		text += "\t0-31\t0\n"
	}
	return text + "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes\n  NV#  = Connection traversing a bonded set of # NVLinks\n"
}

func TestInterconnect(t *testing.T) {
	for _, c := range []struct {
		matrix, want string
	}{
		{topology("PHB", "NODE", "PIX", "PXB"), "PCIe within one NUMA node; no NVLink"},
		{topology("SYS", "PHB"), "PCIe across NUMA nodes; no NVLink"},
		{topology("NV18"), "NVLink between all devices"},
		{topology("NV4", "SYS"), "NVLink between some devices, PCIe between the others"},
		{topology("???"), ""},
		{"", ""},
		{"GPU0\t X \tPHB\nGPU1\tPHB\t X \n", ""}, // of two devices only
	} {
		if got := interconnect(c.matrix, 4); got != c.want {
			t.Errorf("%q, want %q:\n%s", got, c.want, c.matrix)
		}
	}
	if got := interconnect("GPU0\t X \tPHB\tPHB\nGPU1\tPHB\t X \tPHB\n", 2); got != "PCIe within one NUMA node; no NVLink" {
		t.Errorf("with a network card behind the devices: %q", got)
	}
}

// fits fails where the environment would break the schema.
func fits(t *testing.T, env *manifest.Environment) {
	t.Helper()
	rate := 1.0
	run := &manifest.Run{SchemaVersion: manifest.SchemaVersion, Kind: manifest.KindRun, ClientRunID: "x", Name: "x", Outcome: manifest.Failed,
		Subject: manifest.Subject{Type: "model", Identifier: "x"}, Environment: env, Runtime: manifest.Runtime{Engine: "unknown"},
		Workload: manifest.Workload{Mode: "online", Task: "text_generation", Client: manifest.Client{Name: "x"}, Dataset: manifest.Dataset{Name: "x"},
			InputTokens: manifest.TokenCount{Kind: "fixed", Value: 1}, OutputTokens: manifest.TokenCount{Kind: "fixed", Value: 1},
			EndpointType: "openai-compatible-completions", RequestCount: 1, ArrivalProcess: "poisson", RequestRatePerSecond: &rate},
		Measurement: manifest.Measurement{Warmup: "x", Harness: "x", Version: "1", Repetitions: 1, TimingScope: "x", BenchmarkCommand: "x", RetryFailureTreatment: "x"},
		Failure:     &manifest.Failure{Stage: "x", Category: "x", MessageSanitized: "x"},
		Provenance:  manifest.Provenance{Tool: "x", Source: "harness", ToolVersion: "1"}}
	if _, err := manifest.Encode(run); err != nil {
		t.Error(err)
	}
}

func probeHost(t *testing.T, m machine) (*manifest.Environment, []string) {
	t.Helper()
	env, warnings := m.probe(t.Context())
	fits(t, env)
	return env, warnings
}

func TestHostLinux(t *testing.T) {
	got, warnings := probeHost(t, machine{os: "linux", arch: "amd64", root: workstation(), run: programs{
		smi: strings.Repeat(rtx5090, 4), "nvidia-smi topo -m": topology("PHB"), "nvcc --version": nvcc}.run})
	want := &manifest.Environment{
		OS: "Ubuntu 24.04.4 LTS", Kernel: "6.8.0-136-generic", HostArchitecture: "x86_64", SystemMemoryBytes: 269585743872,
		CPU: &manifest.CPU{Model: "AMD Ryzen Threadripper PRO 9955WX 16-Cores", Sockets: 1, NUMANodes: 1, LogicalCPUs: 32, PhysicalCores: 16},
		Accelerators: []manifest.Accelerator{{Count: 4, Model: "NVIDIA GeForce RTX 5090", Driver: "580.173.02", Vendor: "NVIDIA",
			Architecture: "Blackwell SM120", Interconnect: "PCIe within one NUMA node; no NVLink", DeviceIndices: []int{0, 1, 2, 3},
			PowerLimitWatts: 575, MemoryBytesPerDevice: 34190917632}},
		DriverVersions: map[string]string{"nvidia": "580.173.02", "cuda_compiler": "Build cuda_13.1.r13.1/compiler.37061995_0"},
	}
	if diff := cmp.Diff(want, got); diff != "" || len(warnings) > 0 {
		t.Error(diff, warnings)
	}
}

func TestHostGPUs(t *testing.T) {
	check := func(why string, p programs, want []manifest.Accelerator, wantWarnings ...string) {
		t.Helper()
		env, warnings := probeHost(t, machine{os: "linux", arch: "amd64", root: workstation(), run: p.run})
		if diff := cmp.Diff(want, env.Accelerators); diff != "" {
			t.Errorf("%s:\n%s", why, diff)
		}
		if diff := cmp.Diff(wantWarnings, warnings); diff != "" {
			t.Errorf("%s, warnings:\n%s", why, diff)
		}
	}
	card := manifest.Accelerator{Count: 1, Model: "NVIDIA GeForce RTX 5090", Driver: "580.173.02", Vendor: "NVIDIA", Architecture: "Blackwell SM120",
		Interconnect: "single device", DeviceIndices: []int{0}, PowerLimitWatts: 575, MemoryBytesPerDevice: 34190917632}
	check("no program", programs{}, nil)
	check("a driver that does not answer", programs{"nvidia-smi": "exit status 9"}, nil, "nvidia-smi: exit status 9")
	check("no device", programs{smi: "\n"}, nil)
	check("one device", programs{smi: rtx5090}, []manifest.Accelerator{card})

	older := card
	older.Architecture = ""
	check("an older driver", programs{"nvidia-smi": "no field", smiOlder: "NVIDIA GeForce RTX 5090, 32607, 580.173.02, 575.00\n"}, []manifest.Accelerator{older})

	a, b := card, manifest.Accelerator{Count: 2, Model: "NVIDIA H100", Driver: "580.173.02", Vendor: "NVIDIA", Architecture: "Hopper SM90", DeviceIndices: []int{0, 2}, MemoryBytesPerDevice: 81559 << 20}
	a.Interconnect, a.DeviceIndices = "", []int{1}
	const h100 = "NVIDIA H100, 81559, 580.173.02, [N/A], 9.0\n"
	check("two kinds", programs{smi: h100 + rtx5090 + h100}, []manifest.Accelerator{b, a})
	check("lines of no device", programs{smi: "NVIDIA-SMI has failed, because\n" + rtx5090 + strings.Repeat("x,\xff,\n", 5000)}, []manifest.Accelerator{card},
		`nvidia-smi: 5001 lines are of no device, the first: "NVIDIA-SMI has failed, because"`)
	check("values that do not fit", programs{smi: "X, 512, beta, -1, 9.0\n"},
		[]manifest.Accelerator{{Count: 1, Model: "X", Vendor: "NVIDIA", Architecture: "Hopper SM90", Interconnect: "single device", DeviceIndices: []int{0}}},
		`nvidia-smi: memory.total of "512" does not fit`, `nvidia-smi: driver_version of "beta" does not fit`, `nvidia-smi: power.limit of "-1" does not fit`)
}

func TestArchitecture(t *testing.T) {
	for capability, want := range map[string]string{
		"6.1": "Pascal SM61", "7.0": "Volta SM70", "7.5": "Turing SM75", "8.0": "Ampere SM80", "8.6": "Ampere SM86", "8.9": "Ada SM89",
		"9.0": "Hopper SM90", "10.0": "Blackwell SM100", "10.3": "Blackwell SM103", "12.0": "Blackwell SM120", "12.1": "Blackwell SM121", "15.0": "SM150",
	} {
		if got := architecture(capability); got != want {
			t.Errorf("%s: got %s, want %s", capability, got, want)
		}
	}
}

func TestHostARM(t *testing.T) {
	root := fstest.MapFS{
		"usr/lib/os-release": text("PRETTY_NAME='Debian GNU/Linux 12 (bookworm)'\n"),
		"proc/cpuinfo":       text("processor\t: 0\nCPU part\t: 0xd0c\n\nprocessor\t: 1\nCPU part\t: 0xd0c\n"),
	}
	got, warnings := probeHost(t, machine{os: "linux", arch: "arm64", root: root, run: func(_ context.Context, name string, _ ...string) ([]byte, error) {
		if name == "lscpu" {
			return nil, errors.New("exit status 1")
		}
		return nil, errNoProgram
	}})
	if got.CPU.Model != "" || len(warnings) != 1 {
		t.Errorf("lscpu fails: %+v %v", got.CPU, warnings)
	}
	got, warnings = probeHost(t, machine{os: "linux", arch: "arm64", root: root,
		run: func(context.Context, string, ...string) ([]byte, error) {
			return []byte("Architecture: aarch64\nModel name:   Neoverse-N1\n"), nil
		}})
	if got.CPU.Model != "Neoverse-N1" || got.CPU.LogicalCPUs != 2 || got.HostArchitecture != "aarch64" || got.OS != "Debian GNU/Linux 12 (bookworm)" {
		t.Errorf("%+v %+v %v", got, got.CPU, warnings)
	}
}

func TestHostDropsWhatDoesNotFit(t *testing.T) {
	root := fstest.MapFS{"proc/sys/kernel/osrelease": text("custom\n"), "proc/meminfo": text("MemTotal: 1024 kB\n")}
	got, warnings := probeHost(t, machine{os: "linux", arch: "riscv64", root: root, run: programs{}.run})
	if diff := cmp.Diff(&manifest.Environment{}, got); diff != "" || len(warnings) != 3 {
		t.Error(diff, warnings)
	}
}

func TestHostDarwin(t *testing.T) {
	got, warnings := probeHost(t, machine{os: "darwin", arch: "arm64", root: fstest.MapFS{}, run: programs{
		"sw_vers -productVersion": "15.1\n", "sysctl -n kern.osrelease": "24.1.0\n", "sysctl -n hw.memsize": "34359738368\n",
		"sysctl -n machdep.cpu.brand_string": "Apple M3 Max\n", "sysctl -n hw.packages": "1\n", "sysctl -n hw.logicalcpu": "14\n", "sysctl -n hw.physicalcpu": "14\n",
	}.run})
	want := &manifest.Environment{OS: "macOS 15.1", Kernel: "24.1.0", HostArchitecture: "aarch64", SystemMemoryBytes: 34359738368,
		CPU: &manifest.CPU{Model: "Apple M3 Max", Sockets: 1, LogicalCPUs: 14, PhysicalCores: 14}}
	if diff := cmp.Diff(want, got); diff != "" || len(warnings) > 0 {
		t.Error(diff, warnings)
	}
}

// This machine, whatever it is.
func TestHost(t *testing.T) {
	env, warnings := Host(t.Context())
	fits(t, env)
	if env.CPU == nil || env.CPU.LogicalCPUs == 0 {
		t.Errorf("no processors: %+v %v", env, warnings)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	env, _ = Host(ctx)
	fits(t, env)
}

// The process under test stands for a helper program.
func TestMain(m *testing.M) {
	switch os.Getenv("PROBE_TEST_PROGRAM") {
	case "much":
		for range 3000 {
			os.Stdout.WriteString(strings.Repeat("x", 1023) + "\n")
		}
		os.Exit(0)
	case "complain":
		os.Stderr.WriteString("no driver was found\n")
		os.Exit(7)
	case "hang":
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "PROBE_TEST_PROGRAM=hold")
		if err := child.Run(); err != nil {
			panic(err)
		}
	case "hold":
		if _, err := os.OpenFile(os.Getenv("PROBE_TEST_FIFO"), os.O_WRONLY, 0); err != nil {
			panic(err)
		}
		select {}
	case "fail":
		os.Stdout.WriteString("no devices were found\n")
		os.Exit(6)
	}
	os.Exit(m.Run())
}

func TestRunProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runProgram(t.Context(), "no-such-program-"+runtime.GOOS); !errors.Is(err, errNoProgram) {
		t.Error(err)
	}
	t.Setenv("PROBE_TEST_PROGRAM", "much")
	if out, err := runProgram(t.Context(), self); err != nil || len(out) != 1<<20 {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	t.Setenv("PROBE_TEST_PROGRAM", "fail")
	if _, err := runProgram(t.Context(), self); err == nil || err.Error() != "exit status 6: no devices were found" {
		t.Error(err)
	}
	t.Setenv("PROBE_TEST_PROGRAM", "complain")
	if _, err := runProgram(t.Context(), self); err == nil || err.Error() != "exit status 7: no driver was found" {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := runProgram(ctx, self); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
