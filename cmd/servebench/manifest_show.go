package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"github.com/servebench/servebench/manifest"
)

const (
	// shownRows is how many runs, artifacts or warnings fit a screen.
	shownRows = 30
	shownFew  = 5
	// shownWidth is how wide a line is.
	shownWidth = 120
)

func showFiles(c *cli.Context, t *terminal) error {
	several := c.Args().Len() > 1
	return eachFile(c, t, func(w io.Writer, name string, data []byte) (bool, error) {
		report, err := manifest.Profile{}.Check(data)
		if err != nil {
			return false, err
		}
		if len(report.Problems) > 0 {
			sayProblems(w, name, report.Problems)
			return false, nil
		}
		if several {
			sayf(w, "==> %s", name)
		}
		return true, showManifest(w, data, report)
	})
}

// showManifest writes a screen about a valid manifest.
func showManifest(w io.Writer, data []byte, report *manifest.Report) error {
	if report.Enveloped {
		var outer struct {
			Manifest    json.RawMessage
			ID          string
			PublishedAt string
		}
		if err := json.Unmarshal(data, &outer); err != nil {
			return err
		}
		data = outer.Manifest
		line(w, "published", joined(" ", outer.ID, outer.PublishedAt))
	}
	if report.Kind != manifest.KindRun {
		var e manifest.Experiment
		if err := json.Unmarshal(data, &e); err != nil {
			return err
		}
		return showExperiment(w, &e)
	}
	var r manifest.Run
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	return showRun(w, &r)
}

// line writes a fact with its name in front, where there is one.
func line(w io.Writer, name, fact string) {
	if fact != "" {
		fmt.Fprintln(w, clip(fmt.Sprintf("%-10s %s", name, printable(fact)), shownWidth))
	}
}

// joined joins what is not empty.
func joined(with string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), with)
}

// figure writes a measured number with what matters of it.
func figure(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

func showRun(w io.Writer, r *manifest.Run) error {
	line(w, "run", joined(" ", r.ClientRunID, r.Outcome+",", cmp.Or(r.Visibility, "private"), r.License))
	line(w, "name", r.Name)
	if f := r.Failure; f != nil {
		line(w, "failure", joined(", ", f.Stage, f.Category, f.MessageSanitized))
	}
	line(w, "subject", subjectLine(&r.Subject))
	line(w, "engine", joined(" ", r.Runtime.Engine, r.Runtime.Version, parallelism(r.Runtime.Parallelism)))
	if e := r.Environment; e != nil {
		cpu := ""
		if e.CPU != nil {
			cpu = e.CPU.Model
		}
		line(w, "host", joined(", ", e.OS, cpu, accelerators(e.Accelerators)))
	}
	wl := &r.Workload
	line(w, "load", joined(", ", arrival(wl), few(wl.Concurrency, " at a time"), count(wl.RequestCount, "request"), few(wl.WarmupRequestCount, " before")))
	stream := ""
	if !wl.Streaming {
		stream = "not streamed"
	}
	line(w, "tokens", joined(", ", length(wl.InputTokens)+" in", length(wl.OutputTokens)+" out", wl.EndpointType, stream))
	line(w, "prompts", joined(" ", cmp.Or(wl.Dataset.Name, wl.Dataset.Generator), short("sha256 ", wl.Dataset.SHA256)))
	line(w, "measured", joined(" ", r.Measurement.Harness, r.Measurement.Version, r.Provenance.GeneratedAt))
	if err := showResults(w, r.Results); err != nil {
		return err
	}
	showVerdict(w, r.Measurement.Extensions)
	showArtifacts(w, r.Artifacts)
	showWarnings(w, r.Warnings)
	return nil
}

// showVerdict writes what servebench judged of its own measurement, if it did.
func showVerdict(w io.Writer, extensions map[string]any) {
	verdict, _ := extensions["servebench.verdict"].(string)
	reasons, _ := extensions["servebench.verdict_reasons"].([]any)
	line(w, "verdict", verdict)
	for i, reason := range reasons {
		if i == shownFew {
			line(w, "", fmt.Sprintf("and %d more", len(reasons)-i))
			return
		}
		line(w, "", fmt.Sprint(reason))
	}
}

func subjectLine(s *manifest.Subject) string {
	revision := cmp.Or(s.Revision, s.RevisionKind)
	format := ""
	if s.Quantization != nil {
		format = s.Quantization.Format
	}
	return joined(", ", s.Identifier, short("", revision), format)
}

// short is a hash as people compare them.
func short(name, hash string) string {
	if hash == "" {
		return ""
	}
	return name + hash[:min(len(hash), 12)]
}

func parallelism(p *manifest.Parallelism) string {
	if p == nil {
		return ""
	}
	return "(" + joined(", ", few(p.Data, " data"), few(p.Tensor, " tensor"), few(p.Pipeline, " pipeline"), few(p.Replicas, " replicas")) + ")"
}

// few is a number with what it counts, or nothing for none.
func few(n int, what string) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n) + what
}

func accelerators(list []manifest.Accelerator) string {
	var parts []string
	for _, a := range list {
		parts = append(parts, joined(" ", few(a.Count, " x"), a.Model))
	}
	return strings.Join(parts, " + ")
}

func arrival(w *manifest.Workload) string {
	if w.RequestRatePerSecond == nil {
		return w.ArrivalProcess
	}
	return fmt.Sprintf("%s %v requests/s", w.ArrivalProcess, *w.RequestRatePerSecond)
}

func length(c manifest.TokenCount) string {
	if c.Kind == "fixed" {
		return fmt.Sprint(c.Value)
	}
	return fmt.Sprintf("%d..%d", c.Min, c.Max)
}

func showResults(w io.Writer, r *manifest.Results) error {
	if r == nil {
		return nil
	}
	line(w, "results", fmt.Sprintf("%d ok, %d failed, %s s: %s requests/s, %s output tokens/s, %s tokens/s", r.SuccessfulRequests, r.FailedRequests, figure(r.DurationSeconds),
		figure(r.Throughput.RequestsPerSecond.Value), figure(r.Throughput.OutputTokensPerSecond.Value), figure(r.Throughput.TotalTokensPerSecond.Value)))
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "ms\tmean\tp50\tp90\tp95\tp99\tstddev\tsamples\t")
	for _, l := range []struct {
		name string
		*manifest.Latency
	}{{"ttft", r.LatencyMS.TimeToFirstToken}, {"tpot", r.LatencyMS.TimePerOutputToken}, {"itl", r.LatencyMS.InterToken}, {"e2el", r.LatencyMS.EndToEnd}} {
		if l.Latency != nil {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t\n", l.name, figure(l.Mean), figure(l.P50), figure(l.P90), figure(l.P95), figure(l.P99), figure(l.Stddev), l.SampleCount)
		}
	}
	return table.Flush()
}

func showArtifacts(w io.Writer, list []manifest.Artifact) {
	for i, a := range list {
		if i == shownFew {
			line(w, "artifact", fmt.Sprintf("and %d more", len(list)-i))
			return
		}
		line(w, "artifact", fmt.Sprintf("%s, %d bytes, %s", a.Filename, a.SizeBytes, short("sha256 ", a.SHA256)))
	}
}

func showWarnings(w io.Writer, list []string) {
	for i, text := range list {
		if i == shownFew {
			line(w, "warning", fmt.Sprintf("and %d more", len(list)-i))
			return
		}
		line(w, "warning", text)
	}
}
