package sweep

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/manifest"
)

// tell writes what the author says. What the publishable profile requires and the
// author left out is told from the plan; conclusions are never ours.
func (d *document) tell(out *manifest.Experiment) {
	a := &d.e.About
	out.ClientSubmissionID = manifest.SubmissionID(d.w.At, d.w.Random)
	out.Title = clipped(cmp.Or(a.Title, a.ID, "Experiment"))
	out.Summary = cmp.Or(a.Summary, d.summary(out))
	out.Objective = cmp.Or(a.Objective, d.objective())
	out.Methodology = cmp.Or(a.Methodology, d.methodology(out))
	out.Conclusions = a.Conclusions
	out.Limitations = d.limitations()
	out.Tags = tags(d.public(a.Tags))
	out.Visibility = cmp.Or(a.Visibility, "private")
	out.License = a.License
	out.Artifacts = slices.Clone(d.w.Artifacts)
	for i := range out.Artifacts {
		f := &out.Artifacts[i]
		f.License, f.Visibility = cmp.Or(f.License, a.License), cmp.Or(f.Visibility, out.Visibility)
	}
	out.Provenance = manifest.Provenance{
		Tool: "servebench", Source: "harness", ToolVersion: bench.Version, GeneratedAt: stamp(d.w.At),
	}
	if d.simulated() {
		out.Provenance.Notes = "Runs were measured against a simulated server."
	}
	notes := &manifest.PublisherNotes{Warnings: a.Warnings, PublicDataLicenseAffirmed: a.DataAffirmed}
	for _, f := range a.OmittedFiles {
		notes.OmittedFiles = append(notes.OmittedFiles, filepath.Base(strings.ReplaceAll(f, `\`, "/")))
	}
	out.PublisherNotes = notes
}

// groups are the groups of the points in order, with what each varies.
func (d *document) groups() (names []string, varied map[string][]string) {
	varied = map[string][]string{}
	for _, p := range d.e.Points {
		name := d.group(p.Group)
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		for _, s := range p.Vary {
			if !slices.Contains(varied[name], s.Key) {
				varied[name] = append(varied[name], s.Key)
			}
		}
	}
	return names, varied
}

func (d *document) summary(out *manifest.Experiment) string {
	ended := map[string]int{}
	for _, r := range out.Runs {
		ended[r.Status]++
	}
	var parts []string
	names, varied := d.groups()
	for _, name := range names {
		part := name
		if keys := varied[name]; len(keys) > 0 {
			part += " (" + strings.Join(keys, ", ") + ")"
		}
		parts = append(parts, part)
	}
	said := fmt.Sprintf("%s: %d completed", count(len(out.Runs), "run"), ended[manifest.Completed])
	for _, status := range []string{manifest.Failed, manifest.Interrupted} {
		if n := ended[status]; n > 0 {
			said += fmt.Sprintf(", %d %s", n, status)
		}
	}
	return said + ". Groups: " + strings.Join(parts, ", ") + "."
}

// objective names the settings and their values.
func (d *document) objective() string {
	var keys []string
	values := map[string][]string{}
	for _, p := range d.e.Points {
		for _, s := range p.Vary {
			if values[s.Key] == nil {
				keys = append(keys, s.Key)
			}
			if v := shown(s.Value); !slices.Contains(values[s.Key], v) {
				values[s.Key] = append(values[s.Key], v)
			}
		}
	}
	if len(keys) == 0 {
		return "Measure the throughput of each configuration under its load."
	}
	var parts []string
	for _, key := range keys {
		parts = append(parts, fmt.Sprintf("%s (%s)", key, strings.Join(values[key], ", ")))
	}
	return "Measure how throughput depends on " + strings.Join(parts, ", ") + "."
}

// shown is a value as JSON has it, text without quotes.
func shown(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

func (d *document) methodology(out *manifest.Experiment) string {
	m := out.Shared.MeasurementMethod
	said := m.WarmupSemantics + " Rates are successful requests over the time from the start of the timed requests to the end of the last response. Each run's latencies stand in its own manifest, which is one of its artifacts. Failed and interrupted runs stay in the record."
	most := 1
	for _, p := range d.e.Points {
		most = max(most, p.Repeat)
	}
	if most > 1 {
		said += fmt.Sprintf(" Runs have up to %d trials, which are pooled.", most)
	}
	return said
}

// limitations are the author's, and those that follow from what was done.
func (d *document) limitations() []string {
	said := slices.Clone(d.e.About.Limitations)
	if d.simulated() {
		said = append(said, "The server is simulated: the numbers say nothing about a real engine.")
	}
	if len(d.e.Aggregates) > 0 {
		said = append(said, "Aggregates are derived from runs that were timed one by one; nothing was timed end to end.")
	}
	return said
}

// public are texts as they may be published.
func (d *document) public(given []string) (out []string) {
	for _, s := range given {
		clean, _ := d.w.Redactor.String(s)
		out = append(out, clean)
	}
	return out
}

// tags are in kebab case, sorted, each once.
func tags(given []string) (out []string) {
	for _, tag := range given {
		if tag = strings.ReplaceAll(strings.TrimPrefix(group("a "+tag), "a"), "_", "-"); tag != "" {
			out = append(out, strings.Trim(tag, "-"))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
