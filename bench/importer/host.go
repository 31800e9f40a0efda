package importer

import (
	"slices"
	"strconv"
	"strings"

	"github.com/servebench/servebench/manifest"
)

// host is the declared machine with the devices that the launch commands use: a host
// file has all that are there.
func (i *imported) host() *manifest.Environment {
	declared, p := i.o.Environment, i.o.Runtime.Parallelism
	if declared == nil || p == nil || len(declared.Accelerators) == 0 {
		return declared
	}
	count := max(1, p.Data) * max(1, p.Tensor) * max(1, p.Pipeline) * max(1, p.Replicas)
	used := inUse(declared.Accelerators, i.visible(count), count)
	if used == nil {
		return declared
	}
	env := *declared
	env.Accelerators = used
	return &env
}

// visible are the devices that the launch commands name, as many as are used; nil
// where that is not known.
func (i *imported) visible(count int) (out []int) {
	for word := range strings.SplitSeq(i.o.Runtime.SafeEnvironment["CUDA_VISIBLE_DEVICES"], ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || slices.Contains(out, n) {
			return nil
		}
		out = append(out, n)
	}
	switch {
	case len(out) == count:
		return out
	case len(out) > count && i.o.Runtime.Parallelism.Replicas <= 1:
		return out[:count] // an engine uses the first that it sees
	}
	return nil
}

// inUse leaves of the groups of devices those with these indices or, where they are
// alike and nobody numbered them, as many as there are in use. nil is no answer.
func inUse(groups []manifest.Accelerator, indices []int, count int) (used []manifest.Accelerator) {
	found := 0
	for _, g := range groups {
		in := slices.DeleteFunc(slices.Clone(indices), func(n int) bool { return !slices.Contains(g.DeviceIndices, n) })
		if len(in) > 0 {
			g.Count, g.DeviceIndices = len(in), in
			used = append(used, g)
			found += len(in)
		}
	}
	switch {
	case found == count:
	case len(groups) == 1 && groups[0].Count > count:
		used = slices.Clone(groups)
		used[0].Count, used[0].DeviceIndices = count, nil
	default:
		return nil
	}
	if count == 1 {
		used[0].Interconnect = "single device"
	}
	return used
}
