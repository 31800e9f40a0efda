package sweep

import (
	"cmp"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/servebench/servebench/manifest"
)

// The two kinds of manifest name the same facts differently. What is here turns
// parts of a kind-run manifest into parts of a kind-experiment one, and leaves the
// former as it is.

// kvCacheForm is what the schema takes for a subject's cache type.
var kvCacheForm = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// subject has the type of the KV cache, a parameter of the server, with the
// quantization.
func subject(m *manifest.Run) manifest.Subject {
	s := m.Subject
	if dtype := cacheDtype(m); dtype != "" && s.Quantization != nil {
		q := *s.Quantization
		q.KVCacheDtype = dtype
		s.Quantization = &q
	}
	return s
}

func cacheDtype(m *manifest.Run) string {
	if m.Runtime.Parameters == nil {
		return ""
	}
	if dtype, ok := m.Runtime.Parameters.Server["kv_cache_dtype"].(string); ok && kvCacheForm.MatchString(dtype) {
		return dtype
	}
	return ""
}

func runtime(m *manifest.Run) manifest.ExperimentRuntime {
	r := manifest.ExperimentRuntime{
		Engine: m.Runtime.Engine, Version: m.Runtime.Version, Parallelism: m.Runtime.Parallelism,
		CommandSanitized: command(m), Extensions: map[string]any{},
	}
	for key, value := range m.Runtime.Extensions {
		r.Extensions[key] = value
	}
	if id := m.Runtime.BuildIdentifier; id != "" {
		r.Extensions["servebench.build_identifier"] = id
	}
	if len(m.Runtime.SafeEnvironment) > 0 {
		r.Extensions["servebench.safe_environment"] = m.Runtime.SafeEnvironment
	}
	p := m.Runtime.Parameters
	if p == nil {
		return r
	}
	r.Parameters = map[string]any{}
	engine := map[string]any{}
	for key, value := range p.Server {
		switch {
		case key == "prefix_caching":
			key = "enable_prefix_caching"
		case key == "kv_cache_dtype" && m.Subject.Quantization != nil && cacheDtype(m) != "":
			continue // it is the subject's here
		}
		engine[key] = value
	}
	if len(engine) > 0 {
		r.Parameters[group(m.Runtime.Engine)] = engine
	}
	if len(p.Dependencies) > 0 {
		r.Parameters["dependencies"] = p.Dependencies
	}
	if p.LoadBalancer != nil {
		r.Parameters["load_balancer"] = p.LoadBalancer
	}
	if len(r.Parameters) == 0 {
		r.Parameters = nil
	}
	return r
}

// command is the launch command with MODEL for the model. The schema wants one of
// every completed run.
func command(m *manifest.Run) string {
	if m.Runtime.LaunchCommand == "" {
		return "The command that started the server was not declared."
	}
	lines := strings.Split(m.Runtime.LaunchCommand, "\n")
	for i, line := range lines {
		words := strings.Split(line, " ")
		for j, word := range words {
			if word == m.Subject.Identifier || j > 0 && words[j-1] == "serve" && !strings.HasPrefix(word, "-") {
				words[j] = "MODEL"
			}
		}
		lines[i] = strings.Join(words, " ")
	}
	return strings.Join(lines, "\n")
}

// workload is that of m as an object: a run of an experiment may have a part of it.
func workload(m *manifest.Run) map[string]any {
	w := m.Workload // a copy
	w.Sampling.MaxOutputTokens = cmp.Or(w.Sampling.MaxOutputTokens, w.Stopping.MaxOutputTokens, w.Stopping.MaxTokens)
	if exact := w.Stopping.IgnoreEOS; exact != nil {
		w.Stopping = manifest.Stopping{ExactOutputTokens: exact}
	}
	if m.Measurement.Harness != "" {
		included := m.Measurement.ClientOverheadIncluded
		w.Client.OverheadIncluded = &included
	}
	if p := w.PrefixBehavior; p != nil && p.CacheEnabled == nil && p.ServerPrefixCaching != nil {
		q := *p
		q.CacheEnabled, q.ServerPrefixCaching = p.ServerPrefixCaching, nil
		w.PrefixBehavior = &q
	}
	all := object(w)
	for _, key := range []string{"extensions", "stopping", "sampling"} {
		if v, ok := all[key].(map[string]any); ok && len(v) == 0 && key == "extensions" {
			delete(all, key)
		}
	}
	if m.Measurement.Harness != "" {
		return all
	}
	// What was only planned has but the load.
	partial := map[string]any{"mode": w.Mode, "task": w.Task}
	for key, known := range map[string]bool{"concurrency": w.Concurrency > 0, "request_count": w.RequestCount > 0, "input_tokens": w.InputTokens.Kind != "", "output_tokens": w.OutputTokens.Kind != ""} {
		if known {
			partial[key] = all[key]
		}
	}
	return partial
}

// environment is the host of a run, of which only the devices that it used.
func (d *document) environment(m *manifest.Run, p *Point) *manifest.Environment {
	var env manifest.Environment
	if m.Environment != nil {
		env = *ofExperiment(m.Environment)
	}
	if whole := d.e.About.Environment; whole != nil && len(env.Accelerators) == 0 && p.Server != nil && p.Server.Devices != nil {
		env.Accelerators = withDevices(ofExperiment(whole).Accelerators, p.Server.Devices)
	}
	if reflect.ValueOf(env).IsZero() {
		return nil
	}
	return &env
}

// ofExperiment is an environment in the names of kind experiment.
func ofExperiment(e *manifest.Environment) *manifest.Environment {
	out := *e
	if e.CPU != nil {
		cpu := *e.CPU
		cpu.LogicalCores = cmp.Or(cpu.LogicalCores, cpu.LogicalCPUs)
		cpu.LogicalCPUs = 0
		out.CPU = &cpu
	}
	if e.DriverVersions != nil {
		out.DriverVersions = map[string]string{}
		for name, version := range e.DriverVersions {
			if name == "cuda_compiler" && e.DriverVersions["cuda_toolkit"] == "" {
				name = "cuda_toolkit"
			}
			out.DriverVersions[name] = version
		}
	}
	out.Accelerators = slices.Clone(e.Accelerators)
	for i := range out.Accelerators {
		a := &out.Accelerators[i]
		a.Model = cmp.Or(strings.TrimPrefix(a.Model, "NVIDIA "), a.Model)
	}
	return &out
}

// withDevices are the groups of a host cut down to some of its devices.
func withDevices(host []manifest.Accelerator, devices []int) (used []manifest.Accelerator) {
	for _, a := range host {
		a.DeviceIndices = slices.DeleteFunc(slices.Clone(a.DeviceIndices), func(i int) bool { return !slices.Contains(devices, i) })
		if a.Count = len(a.DeviceIndices); a.Count > 0 {
			used = append(used, a)
		}
	}
	return used
}

// union are the devices of several runs. Devices with an index are told apart; the
// counts of others go through f.
func union(runs [][]manifest.Accelerator, f func(a, b int) int) (all []manifest.Accelerator) {
	for _, run := range runs {
		for _, a := range run {
			i := slices.IndexFunc(all, func(b manifest.Accelerator) bool { return sameDevice(a, b) })
			if i < 0 {
				a.DeviceIndices = slices.Clone(a.DeviceIndices)
				all = append(all, a)
				continue
			}
			b := &all[i]
			if len(a.DeviceIndices) == 0 || len(b.DeviceIndices) == 0 {
				b.Count, b.DeviceIndices = f(b.Count, a.Count), nil
				continue
			}
			b.DeviceIndices = append(b.DeviceIndices, a.DeviceIndices...)
			slices.Sort(b.DeviceIndices)
			b.DeviceIndices = slices.Compact(b.DeviceIndices)
			b.Count = len(b.DeviceIndices)
		}
	}
	for i := range all {
		if a := &all[i]; a.Count > 1 && a.Interconnect == singleDevice {
			a.Interconnect = "" // each run had one device; how they are connected nobody said
		}
	}
	return all
}

// singleDevice is what a run on one device says of its connection.
const singleDevice = "single device"

func sameDevice(a, b manifest.Accelerator) bool {
	a.Count, a.DeviceIndices, b.Count, b.DeviceIndices = 0, nil, 0, nil
	return reflect.DeepEqual(a, b)
}
