package sweep

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/servebench/servebench/manifest"
)

// aggregate is a run that is computed from others: the sum of their rates, in
// float64 and in the order in which they are named. It has no latencies and no
// trials, and its times are those of its inputs.
func (d *document) aggregate(a *Aggregate) manifest.ExperimentRun {
	run := manifest.ExperimentRun{
		Name: clipped(cmp.Or(a.Name, a.ID)), ClientRunID: d.id(a.ID), Status: manifest.Completed,
		Relation: manifest.Relation{Type: "aggregate", Group: d.group(a.Group)},
		Trials:   []manifest.Trial{}, Artifacts: []manifest.Artifact{},
	}
	var inputs []*manifest.ExperimentRun
	var missing, ids []string
	for _, id := range a.Sum {
		in := d.runs[id]
		inputs, ids = append(inputs, in), append(ids, in.ClientRunID)
		if in.Status != manifest.Completed {
			missing = append(missing, in.ClientRunID)
		}
	}
	if len(inputs) == 0 {
		run.Subject, run.Runtime = manifest.Subject{Type: "model", Identifier: "undeclared"}, manifest.ExperimentRuntime{Engine: "unknown"}
		run.Workload = map[string]any{"mode": "online", "task": "text_generation"}
		return underivable(run, "it names no runs to add")
	}
	run.Subject, run.Runtime, run.Workload = inputs[0].Subject, inputs[0].Runtime, maps.Clone(inputs[0].Workload)
	if len(missing) > 0 {
		return underivable(run, strings.Join(missing, ", ")+" did not complete")
	}
	var ok, failed int64
	rate := 0.0
	run.StartedAt, run.EndedAt = inputs[0].StartedAt, inputs[0].EndedAt
	for _, in := range inputs {
		rate += in.Results.RequestsPerSecond.Value
		ok, failed = ok+*in.Results.SuccessfulRequests, failed+*in.Results.FailedRequests
		// All are in UTC and of one form, so text compares as time does.
		run.StartedAt, run.EndedAt = min(run.StartedAt, in.StartedAt), max(run.EndedAt, in.EndedAt)
		run.DurationSeconds = max(run.DurationSeconds, in.DurationSeconds)
	}
	run.Results = &manifest.ExperimentResults{
		SuccessfulRequests: &ok, FailedRequests: &failed,
		RequestsPerSecond: derived("req/s", rate, cmp.Or(a.Derivation, fmt.Sprintf("Sum of the rates of %d independently timed runs; not a shared end-to-end workload.", len(inputs))), ids...),
	}
	if n, fixed := equalLength(inputs); fixed {
		run.Results.InputTokensPerS = derived("tok/s", rate*float64(n), fmt.Sprintf("Derived requests/s × fixed %d input tokens.", n), run.ClientRunID)
	}
	combine(&run, inputs)
	run.Warnings = append(run.Warnings, fmt.Sprintf("This aggregate is derived from %d runs and was not measured end to end: it began with the first of them, ended with the last, and its duration is the longest one's; counts, concurrency, replicas and devices are those of all.", len(inputs)))
	run.Warnings = append(run.Warnings, a.Warnings...)
	return run
}

func derived(unit string, value float64, derivation string, inputs ...string) *manifest.Metric {
	return &manifest.Metric{Unit: unit, Value: value, Derivation: derivation, InputRunIDs: inputs, MeasurementStatus: "derived"}
}

// underivable is an aggregate of which an input is missing.
func underivable(run manifest.ExperimentRun, why string) manifest.ExperimentRun {
	run.Status, run.Trials = manifest.Failed, nil
	run.Failure = &manifest.Failure{Stage: "derivation", Category: "input_missing", MessageSanitized: "The aggregate cannot be derived: " + why + "."}
	return run
}

// combine makes the load and the machine those of all inputs.
func combine(run *manifest.ExperimentRun, inputs []*manifest.ExperimentRun) {
	for _, key := range []string{"request_count", "concurrency", "warmup_request_count", "request_rate_per_second"} {
		sum, all := 0.0, true
		for _, in := range inputs {
			n, ok := number(in.Workload[key])
			sum, all = sum+n, all && ok
		}
		if all {
			run.Workload[key] = sum
		}
	}
	if p := inputs[0].Runtime.Parallelism; p != nil {
		total := *p
		total.Replicas = 0
		for _, in := range inputs {
			replicas := 1
			if q := in.Runtime.Parallelism; q != nil {
				replicas = max(1, q.Replicas)
			}
			total.Replicas += replicas
		}
		run.Runtime.Parallelism = &total
	}
	combineRuntime(&run.Runtime, inputs)
	var devices [][]manifest.Accelerator
	for _, in := range inputs {
		if in.Environment != nil {
			devices = append(devices, in.Environment.Accelerators)
		}
	}
	if env := inputs[0].Environment; env != nil {
		all := *env
		all.Extensions = nil // of one device
		all.Accelerators = union(devices, func(a, b int) int { return a + b })
		run.Environment = &all
	}
}

// combineRuntime gives an aggregate the commands of all its inputs, and of their
// parameters and variables those that are the same in each. CUDA_VISIBLE_DEVICES
// lists the devices of all, as for the replicas of one run.
func combineRuntime(r *manifest.ExperimentRuntime, inputs []*manifest.ExperimentRun) {
	const safe, devices = "servebench.safe_environment", "CUDA_VISIBLE_DEVICES"
	var commands, visible []string
	groups, environment := cloneGroups(r.Parameters), map[string]string{}
	if env, ok := r.Extensions[safe].(map[string]string); ok {
		environment = maps.Clone(env)
	}
	for _, in := range inputs {
		for line := range strings.SplitSeq(in.Runtime.CommandSanitized, "\n") {
			if !slices.Contains(commands, line) {
				commands = append(commands, line)
			}
		}
		for name, group := range groups {
			theirs, _ := in.Runtime.Parameters[name].(map[string]any)
			maps.DeleteFunc(group, func(key string, v any) bool { return !sameJSON(theirs[key], v) })
		}
		env, _ := in.Runtime.Extensions[safe].(map[string]string)
		if v := env[devices]; v != "" && !slices.Contains(visible, v) {
			visible = append(visible, v)
		}
		maps.DeleteFunc(environment, func(key, v string) bool { return env[key] != v })
	}
	r.CommandSanitized = strings.Join(commands, "\n")
	for name, group := range groups {
		r.Parameters = maps.Clone(r.Parameters)
		r.Parameters[name] = group
	}
	r.Extensions = maps.Clone(r.Extensions)
	delete(r.Extensions, safe)
	if len(visible) > 0 {
		environment[devices] = strings.Join(visible, ",")
	}
	if len(environment) > 0 {
		r.Extensions[safe] = environment
	}
}

// sameJSON compares values of which one may have been read from a file.
func sameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// cloneGroups are the groups of parameters that are objects, to be changed.
func cloneGroups(parameters map[string]any) map[string]map[string]any {
	groups := map[string]map[string]any{}
	for name, v := range parameters {
		if group, ok := v.(map[string]any); ok {
			groups[name] = maps.Clone(group)
		}
	}
	return groups
}

// equalLength is the length of prompts, where all inputs have the same.
func equalLength(inputs []*manifest.ExperimentRun) (n int64, fixed bool) {
	for i, in := range inputs {
		text, err := json.Marshal(in.Workload["input_tokens"])
		var c manifest.TokenCount
		if err != nil || json.Unmarshal(text, &c) != nil || c.Kind != "fixed" || i > 0 && c.Value != n {
			return 0, false
		}
		n = c.Value
	}
	return n, true
}

// number reads a JSON number of an object that was made here.
func number(v any) (float64, bool) {
	switch n := v.(type) {
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	case int:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}
