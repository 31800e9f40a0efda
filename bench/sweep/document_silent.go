package sweep

import (
	"fmt"
	"slices"
	"strings"

	"github.com/servebench/servebench/manifest"
)

// A server that ends before it answers tells neither its version nor what its
// defaults are. Another run of the experiment that started the same program does.

// hearOthers fills in what a run's server did not live to say, from the first run
// whose server did, and says so.
func (d *document) hearOthers(runs []manifest.ExperimentRun) {
	for i := range runs {
		run := &runs[i]
		if run.Status == manifest.Completed {
			continue
		}
		var heard []string
		if run.Runtime.Version == "" {
			if by := other(runs, run, func(o *manifest.ExperimentRun) bool { return o.Runtime.Version != "" }); by != nil {
				run.Runtime.Version = by.Runtime.Version
				heard = append(heard, "version of the engine")
			}
		}
		if prefix, ok := run.Workload["prefix_behavior"].(map[string]any); ok && prefix["cache_enabled"] == nil {
			by := other(runs, run, func(o *manifest.ExperimentRun) bool { return cacheEnabled(o) != nil && cacheFlag(o) == cacheFlag(run) })
			if by != nil {
				prefix["cache_enabled"] = cacheEnabled(by)
				heard = append(heard, "prefix cache's being on or off")
			}
		}
		if len(heard) > 0 {
			run.Warnings = append(run.Warnings, fmt.Sprintf("The server did not tell the %s: given as in the runs that started the same program.", strings.Join(heard, " and the ")))
		}
	}
}

// other is the first run that started the same program and that has what is wanted.
func other(runs []manifest.ExperimentRun, run *manifest.ExperimentRun, has func(*manifest.ExperimentRun) bool) *manifest.ExperimentRun {
	for i := range runs {
		o := &runs[i]
		if o.Runtime.Engine == run.Runtime.Engine && slices.Equal(program(o), program(run)) && has(o) {
			return o
		}
	}
	return nil
}

// program are the words of a launch command up to the one that starts the engine,
// without what is set in front.
func program(run *manifest.ExperimentRun) (words []string) {
	line, _, _ := strings.Cut(run.Runtime.CommandSanitized, "\n")
	for _, w := range strings.Fields(line) {
		if len(words) == 0 && strings.Contains(w, "=") {
			continue
		}
		words = append(words, w)
		if w == "serve" || w == "sim" {
			break
		}
	}
	return words
}

func cacheEnabled(run *manifest.ExperimentRun) any {
	prefix, _ := run.Workload["prefix_behavior"].(map[string]any)
	return prefix["cache_enabled"]
}

// cacheFlag is what the launch command says of the prefix cache, "" for nothing.
func cacheFlag(run *manifest.ExperimentRun) string {
	for _, w := range strings.Fields(run.Runtime.CommandSanitized) {
		if strings.Contains(w, "prefix-caching") {
			return w
		}
	}
	return ""
}
