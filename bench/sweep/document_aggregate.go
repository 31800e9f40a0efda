package sweep

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
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
