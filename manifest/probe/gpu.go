package probe

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// NvidiaSMI asks NVIDIA's driver about devices and who uses them, by nvidia-smi.
// The zero value asks for all devices. It is safe for concurrent use, and each
// answer takes seconds at most.
type NvidiaSMI struct {
	// Devices are indices in nvidia-smi's order, that of the PCI bus; nil is all.
	Devices []int
	// Run replaces the running of a program, which returns what it writes.
	Run func(ctx context.Context, name string, args ...string) ([]byte, error)
}

// GPU is a device at one instant.
type GPU struct {
	Index int
	// Values are by name, the unit at its end; those that the driver cannot tell
	// are not there.
	Values map[string]float64
}

// GPUValues are the names in GPU.Values. Power and utilization are the driver's
// means over up to a second before; all others hold for the instant.
var GPUValues = []string{"temperature_c", "power_watts", "sm_clock_mhz", "memory_clock_mhz", "memory_used_bytes", "utilization_percent"}

// gpuQuery are nvidia-smi's names of GPUValues, in their order.
var gpuQuery = []string{"temperature.gpu", "power.draw", "clocks.current.sm", "clocks.current.memory", "memory.used", "utilization.gpu"}

// Sample looks at the devices once.
func (n NvidiaSMI) Sample(ctx context.Context) ([]GPU, error) {
	out, err := n.ask(ctx, "--query-gpu=index,"+strings.Join(gpuQuery, ","))
	if err != nil {
		return nil, err
	}
	var found []GPU
	for line := range strings.Lines(string(out)) {
		if g, ok := readGPU(line); ok {
			found = append(found, g)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("nvidia-smi lists no device")
	}
	return found, nil
}

// readGPU reads a line. What the driver cannot tell is written [N/A] or the like.
func readGPU(line string) (g GPU, ok bool) {
	fields := csvFields(line)
	index, err := strconv.Atoi(fields[0])
	if err != nil || index < 0 || len(fields) != 1+len(GPUValues) {
		return g, false
	}
	g.Index, g.Values = index, map[string]float64{}
	for i, name := range GPUValues {
		v, err := strconv.ParseFloat(fields[i+1], 64)
		if err != nil || !(v >= 0 && v < 1<<40) {
			continue
		}
		if name == "memory_used_bytes" {
			v *= 1 << 20 // nvidia-smi's unit is MiB
		}
		g.Values[name] = v
	}
	return g, true
}

func csvFields(line string) []string {
	fields := strings.Split(line, ",")
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	return fields
}

// GPUProcess is a process that computes on a device; one on several devices is
// there once for each.
type GPUProcess struct {
	PID         int // 0 where the driver does not tell, as in a container
	Device      string
	MemoryBytes int64 // 0 where the driver does not tell
}

// Processes lists who computes on the devices.
func (n NvidiaSMI) Processes(ctx context.Context) ([]GPUProcess, error) {
	out, err := n.ask(ctx, "--query-compute-apps=gpu_uuid,pid,used_memory")
	if err != nil {
		return nil, err
	}
	var found []GPUProcess
	for line := range strings.Lines(string(out)) {
		fields := csvFields(line)
		if len(fields) != 3 || !strings.HasPrefix(fields[0], "GPU-") && !strings.HasPrefix(fields[0], "MIG-") {
			continue // "No running processes found", in some versions
		}
		p := GPUProcess{Device: fields[0]}
		if pid, err := strconv.Atoi(fields[1]); err == nil && pid > 0 {
			p.PID = pid
		}
		if mib, err := strconv.ParseFloat(fields[2], 64); err == nil && mib > 0 && mib < 1<<30 {
			p.MemoryBytes = int64(math.Round(mib * (1 << 20)))
		}
		found = append(found, p)
	}
	return found, nil
}

// killWait is how long a program that was killed may take to be gone.
const killWait = 2 * time.Second

// ask runs nvidia-smi with a query. Below a device that has fallen off its bus the
// program waits inside the kernel, where not even KILL reaches it: then it and the
// goroutine that waits for it are left behind.
func (n NvidiaSMI) ask(ctx context.Context, query string) ([]byte, error) {
	run := n.Run
	if run == nil {
		run = runProgram
	}
	args := []string{query, "--format=csv,noheader,nounits"}
	if n.Devices != nil {
		var list []string
		for _, i := range n.Devices {
			list = append(list, strconv.Itoa(i))
		}
		args = append(args, "--id="+strings.Join(list, ","))
	}
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	type answer struct {
		out []byte
		err error
	}
	ended := make(chan answer, 1)
	go func() {
		out, err := run(ctx, "nvidia-smi", args...)
		ended <- answer{out, err}
	}()
	var a answer
	select {
	case a = <-ended:
	case <-ctx.Done():
		late := time.NewTimer(killWait)
		defer late.Stop()
		select {
		case a = <-ended:
		case <-late.C:
			return nil, errors.New("nvidia-smi hangs and cannot be ended: it was left behind")
		}
	}
	if a.err != nil {
		return nil, fmt.Errorf("nvidia-smi: %w", a.err)
	}
	return a.out, nil
}

// Descends tells whether pid is one of roots or descends from one. Where /proc does
// not tell, it says no.
func Descends(pid int, roots []int) bool {
	return descends(pid, roots, func(pid int) string {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return ""
		}
		return string(data)
	})
}

// descends walks up through the parents; stat returns a process's line in /proc.
func descends(pid int, roots []int, stat func(pid int) string) bool {
	for range 64 { // no tree of processes is that deep
		if slices.Contains(roots, pid) {
			return true
		}
		if pid <= 1 {
			return false
		}
		// PID (NAME) STATE PARENT ...; a name may hold spaces and brackets.
		line := stat(pid)
		fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:])
		if len(fields) < 2 {
			return false
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			return false
		}
		pid = parent
	}
	return false
}
