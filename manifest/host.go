package manifest

import (
	"fmt"
	"slices"
)

// ParseHost reads a host file: YAML with the fields of [Environment], which
// describes the machine that a server runs on, as `servebench env` writes it
// there. Nothing is required and nothing is filled in. Errors are those of
// [ParseSubject].
func ParseHost(name string, data []byte) (*Environment, error) {
	var env Environment
	file, err := parseFacts(name, "host", data, &env)
	if err != nil {
		return nil, err
	}
	if err := checkFacts(name, file, "environment", &env); err != nil {
		return nil, err
	}
	return &env, nil
}

// UseDevices leaves of the accelerators of a host those that a server uses: the
// ones with these indices, or as many of the only kind as count says. It reports
// whether that is known: 0 and no index are not. Of what does not fit the host the
// warnings tell. Slices are replaced and not written to.
func (e *Environment) UseDevices(indices []int, count int) (known bool, warnings []string) {
	groups := slices.Clone(e.Accelerators)
	numbered := len(indices) > 0 && !slices.ContainsFunc(groups, func(a Accelerator) bool { return len(a.DeviceIndices) == 0 })
	switch {
	case len(groups) == 0:
		return true, nil
	case numbered:
		groups, warnings = pickDevices(groups, indices)
		known = true
	case count > 0 && len(groups) == 1:
		if groups[0].Count > 0 && count > groups[0].Count {
			warnings = append(warnings, fmt.Sprintf("The launch commands use %d devices, and the host has %d.", count, groups[0].Count))
		}
		groups[0].Count, groups[0].DeviceIndices = count, indices
		known = true
	}
	if len(groups) == 1 && groups[0].Count == 1 {
		groups[0].Interconnect = "single device"
	}
	e.Accelerators = groups
	return known, warnings
}

// pickDevices are the groups with the devices of these indices alone.
func pickDevices(groups []Accelerator, indices []int) (used []Accelerator, warnings []string) {
	rest := slices.Clone(indices)
	for _, g := range groups {
		var in []int
		for _, i := range g.DeviceIndices {
			if at := slices.Index(rest, i); at >= 0 {
				rest = slices.Delete(rest, at, at+1)
				in = append(in, i)
			}
		}
		if len(in) > 0 {
			g.Count, g.DeviceIndices = len(in), in
			used = append(used, g)
		}
	}
	if len(rest) > 0 {
		warnings = append(warnings, fmt.Sprintf("The launch commands use the devices %v, which the host does not have.", rest))
	}
	if len(used) == 0 {
		return groups, warnings
	}
	return used, warnings
}
