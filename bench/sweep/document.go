package sweep

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/manifest"
)

// Writing is what [Document] must be told beside the experiment, so that it is a
// function of its arguments.
type Writing struct {
	At     time.Time // of writing
	Random [10]byte  // makes the submission's id unique
	// Artifacts are the files of [About.ArtifactFiles], see [Evidence].
	Artifacts []manifest.Artifact
	// Redactor knows what must not be published; nil knows the general forms.
	Redactor *manifest.Redactor
}

// Document describes an experiment and what became of its points as a manifest of
// kind experiment, which holds the base profile of the schema: a run for each
// point, in order, then one for each aggregate. A point without an outcome was not
// run and is an interrupted one. Every string is redacted.
//
// The error is about ids that are there twice or nowhere, or about a completed
// outcome without results; the manifest is nil then. Safe for concurrent use.
func Document(e Experiment, outcomes []Outcome, w Writing) (*manifest.Experiment, error) {
	if w.Redactor == nil {
		w.Redactor = &manifest.Redactor{}
	}
	d := &document{e: &e, w: &w, outcomes: map[string]*Outcome{}, runs: map[string]*manifest.ExperimentRun{}, artifactIDs: map[string]bool{}}
	for i := range outcomes {
		d.outcomes[outcomes[i].PointID] = &outcomes[i]
	}
	if err := d.checkIDs(); err != nil {
		return nil, err
	}
	out := &manifest.Experiment{SchemaVersion: manifest.SchemaVersion, Kind: manifest.KindExperiment, Extensions: map[string]any{}}
	out.Runs = make([]manifest.ExperimentRun, 0, len(e.Points)+len(e.Aggregates)) // d.runs points into it
	for i := range e.Points {
		run, err := d.point(&e.Points[i])
		if err != nil {
			return nil, err
		}
		out.Runs = append(out.Runs, run)
		d.runs[e.Points[i].ID] = &out.Runs[len(out.Runs)-1]
	}
	d.hearOthers(out.Runs)
	d.replacements()
	for i := range e.Aggregates {
		out.Runs = append(out.Runs, d.aggregate(&e.Aggregates[i]))
	}
	d.share(out)
	d.tell(out)
	d.extend(out)
	return d.redact(out)
}

// document is what several steps of [Document] need.
type document struct {
	e           *Experiment
	w           *Writing
	outcomes    map[string]*Outcome                // by point
	runs        map[string]*manifest.ExperimentRun // by point, those that are done
	described   []*manifest.Run                    // of all trials
	artifactIDs map[string]bool
	partial     map[string]any // by run: what there is of an interrupted one
	attempts    map[string]any
}

func (d *document) checkIDs() (err error) {
	known := map[string]bool{}
	add := func(id string) {
		if known[id] {
			err = errors.Join(err, fmt.Errorf("id %q is there twice; want one for each run of the experiment", id))
		}
		known[id] = true
	}
	for _, p := range d.e.Points {
		add(p.ID)
	}
	for id := range d.outcomes {
		if !known[id] {
			err = errors.Join(err, fmt.Errorf("an outcome is of %q; want the id of a point", id))
		}
	}
	for _, a := range d.e.Aggregates {
		for _, id := range a.Sum {
			if !known[id] {
				err = errors.Join(err, fmt.Errorf("aggregate %q adds %q; want the id of a point", a.ID, id))
			}
		}
	}
	for _, a := range d.e.Aggregates {
		add(a.ID)
	}
	if err == nil && len(known) == 0 {
		err = errors.New("an experiment without a point; want one at least")
	}
	return err
}

// id is a run's id as it may be published.
func (d *document) id(id string) string {
	clean, _ := d.w.Redactor.String(id)
	clean = strings.Map(func(r rune) rune {
		if r < 0x80 && (isAlnum(byte(r)) || strings.ContainsRune("._-", r)) {
			return r
		}
		return -1
	}, clean)
	if clean = strings.TrimLeft(clean, "._-"); len(clean) > 128 {
		clean = clean[:128]
	}
	return cmp.Or(clean, "run")
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// share fills in what the runs have in common, and takes out of their environments
// what is no different there.
func (d *document) share(out *manifest.Experiment) {
	var workloads []map[string]any
	var environments []*manifest.Environment
	for i := range out.Runs {
		if r := &out.Runs[i]; r.Relation.Type != "aggregate" {
			workloads = append(workloads, r.Workload)
			if r.Environment != nil {
				environments = append(environments, r.Environment)
			}
		}
	}
	out.Shared.Workload = commonWorkload(workloads)
	out.Shared.Environment = d.sharedEnvironment(environments)
	for i := range out.Runs {
		out.Runs[i].Environment = beyond(out.Runs[i].Environment, out.Shared.Environment)
	}
	out.Shared.MeasurementMethod = d.method()
}

// commonWorkload is the workload that has most in common with the others, the
// first of several. It is one that was run, and not put together of values that
// the schema does not take beside each other, such as a rate in a closed loop.
func commonWorkload(workloads []map[string]any) map[string]any {
	var common map[string]any
	most := -1
	for _, w := range workloads {
		same := 0
		for _, other := range workloads {
			for key, value := range w {
				if v, ok := other[key]; ok && reflect.DeepEqual(v, value) {
					same++
				}
			}
		}
		// The schema wants these two in any workload.
		if same > most && w["mode"] != nil && w["task"] != nil {
			most, common = same, maps.Clone(w)
		}
	}
	delete(common, "extensions")
	return common
}

// sharedEnvironment is the whole host where that was declared, else what more than
// half of the runs say of it, with the devices of all of them.
func (d *document) sharedEnvironment(runs []*manifest.Environment) *manifest.Environment {
	var shared manifest.Environment
	if d.e.About.Environment != nil {
		shared = *ofExperiment(d.e.About.Environment)
	}
	to := reflect.ValueOf(&shared).Elem()
	for i := range to.NumField() {
		name := to.Type().Field(i).Name
		if !to.Field(i).IsZero() || name == "Accelerators" || name == "Extensions" {
			continue
		}
		for _, run := range runs {
			value, same := reflect.ValueOf(run).Elem().Field(i), 0
			for _, other := range runs {
				if reflect.DeepEqual(value.Interface(), reflect.ValueOf(other).Elem().Field(i).Interface()) {
					same++
				}
			}
			if 2*same > len(runs) {
				to.Field(i).Set(value)
				break
			}
		}
	}
	if len(shared.Accelerators) == 0 {
		var all [][]manifest.Accelerator
		for _, run := range runs {
			all = append(all, run.Accelerators)
		}
		shared.Accelerators = union(all, func(a, b int) int { return max(a, b) })
	}
	if reflect.ValueOf(shared).IsZero() {
		return nil
	}
	return &shared
}

// beyond is what a run's environment says beyond the shared one. Its devices are
// always said.
func beyond(run, shared *manifest.Environment) *manifest.Environment {
	if run == nil || shared == nil {
		return run
	}
	own := *run
	v, s := reflect.ValueOf(&own).Elem(), reflect.ValueOf(shared).Elem()
	for i := range v.NumField() {
		if v.Type().Field(i).Name != "Accelerators" && reflect.DeepEqual(v.Field(i).Interface(), s.Field(i).Interface()) {
			v.Field(i).SetZero()
		}
	}
	if reflect.ValueOf(own).IsZero() {
		return nil
	}
	return &own
}

// method is how the trials were measured. What differs from run to run stands in
// the run's own manifest.
func (d *document) method() manifest.MeasurementMethod {
	m := manifest.MeasurementMethod{
		Harness: "servebench", Version: bench.Version, ClockSource: "CLOCK_MONOTONIC",
		WarmupSemantics:   "Warm-up requests end before the first timed request is sent.",
		DurationSemantics: "From the start of the timed requests to the end of the last response.",
		// The server is given text, and is there before the clock runs.
		TokenizationIncluded: true, ModelLoadingIncluded: false,
		RetryFailureTreatment:   "Failed requests are counted, in no latency, and not sent again.",
		MetricDefinitionVersion: "servebench-generation-1",
	}
	var warmups []string
	for _, run := range d.described {
		if run.Results != nil { // a server that did not start was measured in no way
			m.ClientOverheadIncluded = m.ClientOverheadIncluded || run.Measurement.ClientOverheadIncluded
		}
		if run.Outcome == manifest.Completed && !slices.Contains(warmups, run.Measurement.Warmup) {
			warmups = append(warmups, run.Measurement.Warmup)
		}
	}
	if len(warmups) == 1 {
		m.WarmupSemantics = warmups[0]
	} else if len(warmups) > 1 {
		m.WarmupSemantics += " How many there are differs from run to run; each run's own manifest says."
	}
	return m
}

// extend adds what the schema has no field for.
func (d *document) extend(out *manifest.Experiment) {
	set := func(key string, value map[string]any) {
		if len(value) > 0 {
			out.Extensions["servebench."+key] = value
		}
	}
	varied := map[string]any{}
	for _, p := range d.e.Points {
		settings := map[string]any{}
		for _, s := range p.Vary {
			settings[s.Key] = s.Value
		}
		if len(settings) > 0 {
			varied[d.id(p.ID)] = settings
		}
	}
	set("varied", varied)
	set("partial", d.partial)
	set("failed_attempts", d.attempts)
	set("certainty", d.certainty())
	if d.e.About.ID != "" {
		out.Extensions["servebench.experiment_id"] = d.e.About.ID
	}
	if d.simulated() {
		out.Extensions["servebench.simulated"] = true
	}
}

// certainty says of each trial that completed how sure its numbers are; the trial's
// own manifest says the rest. A run that is computed from others has none of its own.
func (d *document) certainty() map[string]any {
	all := map[string]any{}
	for i := range d.e.Points {
		o := d.outcomes[d.e.Points[i].ID]
		if o == nil {
			continue
		}
		var trials []map[string]any
		for _, t := range o.Trials {
			if t.Manifest == nil || t.Status != manifest.Completed {
				continue
			}
			said := map[string]any{}
			for _, key := range []string{"verdict", "verdict_reasons", "throughput", "no_throughput", "goodput"} {
				if v, ok := t.Manifest.Measurement.Extensions["servebench."+key]; ok {
					said[key] = v
				}
			}
			if s, ok := t.Manifest.Measurement.Extensions["servebench.saturation"].(map[string]any); ok {
				said["over_saturated"] = s["over_saturated"]
			}
			if len(said) > 0 {
				said["trial"] = len(trials) + 1
				trials = append(trials, said)
			}
		}
		if len(trials) > 0 {
			all[d.id(d.e.Points[i].ID)] = trials
		}
	}
	return all
}

func (d *document) simulated() bool {
	return slices.ContainsFunc(d.described, isSimulated)
}

func isSimulated(m *manifest.Run) bool {
	return m.Measurement.Extensions["servebench.simulated"] == true || m.Runtime.Engine == "servebench-sim"
}

// redact cleans every string of the manifest and lists what was taken out, here
// and before.
func (d *document) redact(out *manifest.Experiment) (*manifest.Experiment, error) {
	public, places, err := manifest.Clean(d.w.Redactor, out)
	if err != nil {
		return nil, fmt.Errorf("experiment: %w", err)
	}
	public.PublisherNotes.Redactions = redactions(places)
	if reflect.ValueOf(*public.PublisherNotes).IsZero() {
		public.PublisherNotes = nil
	}
	return public, nil
}

// redactions says in words what was taken out of a document.
func redactions(all []manifest.Redaction) (said []string) {
	places := map[string][]string{}
	for _, r := range all {
		for _, kind := range r.Kinds {
			places[kind] = append(places[kind], r.Path)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(places)) {
		at := places[kind]
		said = append(said, fmt.Sprintf("%s: taken out of %s, the first at %s", kind, count(len(at), "string"), strings.TrimPrefix(at[0], "/"))) // with the slash it would be a local path
	}
	return said
}

// decode reads JSON and keeps each number in open objects as it is written.
func decode(text []byte, to any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return dec.Decode(to)
}

// object is a value as a JSON object.
func object(v any) map[string]any {
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var m map[string]any
	if decode(text, &m) != nil {
		return nil
	}
	return m
}

// count is a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
