package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/servebench/servebench/manifest"
)

// showExperiment writes a screen: what was asked, a row for each run, and why some did
// not complete.
func showExperiment(w io.Writer, e *manifest.Experiment) error {
	ended := make(map[string]int)
	for _, r := range e.Runs {
		ended[r.Status]++
	}
	line(w, "experiment", joined(" ", e.ClientSubmissionID, cmp.Or(e.Visibility, "private"), e.License))
	line(w, "title", e.Title)
	line(w, "summary", e.Summary)
	line(w, "tags", strings.Join(e.Tags, " "))
	line(w, "question", e.Objective)
	line(w, "conclusion", e.Conclusions)
	line(w, "subject", subjects(e))
	if env := e.Shared.Environment; env != nil {
		line(w, "host", joined(", ", env.OS, accelerators(env.Accelerators)))
	}
	line(w, "measured", joined(" ", e.Shared.MeasurementMethod.Harness, e.Shared.MeasurementMethod.Version+",", "written by", e.Provenance.Tool, e.Provenance.ToolVersion, e.Provenance.GeneratedAt))
	line(w, "runs", joined(", ", few(ended[manifest.Completed], " completed"), few(ended[manifest.Failed], " failed"), few(ended[manifest.Interrupted], " interrupted")))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "#\tgroup\trun\tconfiguration\tok/failed\ts\treq/s\ttok/s in\ttok/s out\tstatus\tfiles\t")
	for i := range e.Runs {
		if i == shownRows {
			fmt.Fprintf(table, "\tand %d more\t\t\t\t\t\t\t\t\t\t\n", len(e.Runs)-i)
			break
		}
		fmt.Fprintf(table, "%02d\t%s\t\n", i+1, strings.Join(runCells(e, &e.Runs[i]), "\t"))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	showRemarks(w, e)
	line(w, "limits", strings.Join(e.Limitations, " "))
	showArtifacts(w, e.Artifacts)
	if e.PublisherNotes != nil {
		showWarnings(w, e.PublisherNotes.Warnings)
		line(w, "redacted", strings.Join(e.PublisherNotes.Redactions, " "))
	}
	return nil
}

// subjects are the models of all runs.
func subjects(e *manifest.Experiment) string {
	var all []string
	for _, r := range e.Runs {
		if !slices.Contains(all, r.Subject.Identifier) {
			all = append(all, r.Subject.Identifier)
		}
	}
	return strings.Join(all, ", ")
}

// runCells are a run's part of the table.
func runCells(e *manifest.Experiment, r *manifest.ExperimentRun) []string {
	cell := func(s string) string { return clip(printable(s), 40) }
	cells := []string{cell(r.Relation.Group), cell(r.ClientRunID), cell(configuration(e, r))}
	if res := r.Results; res != nil {
		rate := shownMetric(res.RequestsPerSecond)
		if res.RequestsPerSecond != nil && res.RequestsPerSecond.MeasurementStatus == "derived" {
			rate += " derived"
		}
		cells = append(cells, counts(res), figure(r.DurationSeconds), rate, shownMetric(res.InputTokensPerS), shownMetric(res.OutputTokensPerS))
	} else {
		cells = append(cells, "", "", "—", "", "")
	}
	status := r.Status
	if n := len(r.Trials); n > 1 {
		status += fmt.Sprintf(" x %d", n)
	}
	return append(cells, status, strconv.Itoa(len(r.Artifacts)))
}

// configuration is what sets a run apart: the load, and the setting that was varied or
// else the scheduler's token budget, as the published page has it.
func configuration(e *manifest.Experiment, r *manifest.ExperimentRun) string {
	parts := []string{}
	if c := r.Workload["concurrency"]; c != nil {
		parts = append(parts, fmt.Sprintf("c=%v", c))
	}
	if rate := r.Workload["request_rate_per_second"]; rate != nil {
		parts = append(parts, fmt.Sprintf("%v req/s", rate))
	}
	varied, _ := e.Extensions["servebench.varied"].(map[string]any)
	if own, ok := varied[r.ClientRunID].(map[string]any); ok {
		for _, key := range slices.Sorted(maps.Keys(own)) {
			if name := key[strings.LastIndexByte(key, '.')+1:]; name != "max-concurrency" {
				parts = append(parts, fmt.Sprintf("%s=%v", name, own[key]))
			}
		}
		return strings.Join(parts, " ")
	}
	for _, group := range r.Runtime.Parameters {
		if p, ok := group.(map[string]any); ok && p["max_num_batched_tokens"] != nil {
			parts = append(parts, fmt.Sprintf("tokens=%v", p["max_num_batched_tokens"]))
		}
	}
	return strings.Join(parts, " ")
}

func shownMetric(m *manifest.Metric) string {
	if m == nil {
		return ""
	}
	return figure(m.Value)
}

// showRemarks says of the first runs with something to say why they did not complete,
// what stands in their place, how derived numbers came about, and their warnings.
func showRemarks(w io.Writer, e *manifest.Experiment) {
	var said [3][]string // in the order of weight
	for _, r := range e.Runs {
		text, weight := strings.Join(r.Warnings, " "), 2
		if f := r.Failure; f != nil {
			text, weight = joined(", ", f.Stage, f.Category, f.MessageSanitized), 0
			if f.ReplacementClientRunID != "" {
				text = "replaced by " + f.ReplacementClientRunID + ", " + text
			}
		} else if r.Status != manifest.Completed {
			weight = 0
		} else if m := r.Results.RequestsPerSecond; m != nil && m.Derivation != "" {
			text, weight = m.Derivation+" Of "+strings.Join(m.InputRunIDs, ", ")+". "+text, 1
		}
		if text != "" {
			said[weight] = append(said[weight], r.ClientRunID+": "+text)
		}
	}
	all := slices.Concat(said[:]...)
	for i, text := range all {
		if i == shownFew {
			line(w, "", fmt.Sprintf("and %d more remarks", len(all)-i))
			return
		}
		line(w, "", text)
	}
}

// counts are the requests that succeeded and that failed.
func counts(r *manifest.ExperimentResults) string {
	if r.SuccessfulRequests == nil || r.FailedRequests == nil {
		return ""
	}
	return fmt.Sprintf("%d/%d", *r.SuccessfulRequests, *r.FailedRequests)
}
