// Package stored reads results of runs back: manifests of kind run, result files of
// servebench and of `vllm bench serve`. It makes of each the same thing, so that they
// can be compared, and does no I/O.
package stored

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/bench/gate"
	"github.com/servebench/servebench/bench/importer"
)

// Run is one result. The zero value is none. It is not changed after it was read.
type Run struct {
	// Name says where it came from: the file's name, with a number behind it where
	// the file holds several.
	Name string
	Form Form
	At   time.Time // its start or making; zero where nobody tells
	// Simulated tells that the target said it is a simulator.
	Simulated bool
	Outcome   string // completed, interrupted, failed; "" where nobody tells
	Verdict   string // VALID, SUSPECT, INVALID; "" where nobody judged
	Reasons   []string

	Completed, Failed int64
	OutputTokens      int64
	IgnoreEOS         bool // answers have the length that was asked for

	Metrics []Metric // in the order of the file
	Facts   []Fact   // what identifies the run, each key once
}

// Form is the kind of a file.
type Form string

// The forms.
const (
	Manifest Form = "manifest"
	Result   Form = "result" // of servebench
	VLLM     Form = "vllm"   // of vllm bench serve
)

// Metric is one figure of a run. Its name is the result JSON's key without _ms:
// output_throughput, p99_ttft.
type Metric struct {
	Name   string
	Unit   gate.Unit
	Better gate.Better // "" where neither way is better
	Value  float64
	// Low and High are the 95 % interval inside the run; nil where there is none.
	Low, High *float64
	Source    string // exact, or hdr3 of a histogram; "" where nobody tells
}

// Class says what a fact is about.
type Class string

// The classes. Only what is under test may differ in a comparison.
const (
	UnderTest Class = "server"   // engine, version, parameters
	Model     Class = "model"    // and its tokenizer
	Workload  Class = "workload" // data set, load, sampling
	Machine   Class = "machine"
	Client    Class = "client"
)

// Fact is something that identifies a run.
type Fact struct {
	Class Class  `json:"class"`
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Metric returns the metric of a name; p50_X stands for median_X where only that is
// there. nil: the run has none.
func (r *Run) Metric(name string) *Metric {
	for _, n := range []string{name, twin(name)} {
		if i := slices.IndexFunc(r.Metrics, func(m Metric) bool { return m.Name == n }); n != "" && i >= 0 {
			return &r.Metrics[i]
		}
	}
	return nil
}

// twin is the other name of a median.
func twin(name string) string {
	if m, ok := strings.CutPrefix(name, "p50_"); ok {
		return "median_" + m
	}
	if m, ok := strings.CutPrefix(name, "median_"); ok {
		return "p50_" + m
	}
	return ""
}

// SteadyThroughput is the name of the output token throughput of the steady window.
const SteadyThroughput = "steady_output_throughput"

// Read reads a file's text: one manifest, or one or more results. name is for people.
// A manifest of kind experiment is an error, and so is JSON that is neither. Numbers
// that are not finite are as if absent. Safe for concurrent use.
func Read(name string, data []byte) ([]Run, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, fmt.Errorf("%s: the file is empty; want a manifest or a result JSON", name)
	}
	texts, err := importer.Split(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	runs := make([]Run, 0, len(texts))
	for i, text := range texts {
		r, err := read(gjson.ParseBytes(text))
		if r.Name = name; len(texts) > 1 {
			r.Name = fmt.Sprintf("%s:%d", name, i+1)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name, err)
		}
		runs = append(runs, r)
	}
	return runs, nil
}

// ErrNoResult is JSON of another kind.
var ErrNoResult = errors.New("neither a manifest nor a result JSON; want what servebench serve or vllm bench serve writes")

func read(doc gjson.Result) (Run, error) {
	if doc.Get("servebench_baseline").Exists() {
		return readKept(doc)
	}
	if inner := doc.Get("manifest"); inner.IsObject() {
		doc = inner // the publishing site's envelope
	}
	switch kind := doc.Get("kind"); {
	case kind.String() == "run":
		return readManifest(doc)
	case kind.String() == "experiment":
		return Run{}, errors.New("a manifest of kind experiment holds many runs; want that of one run, which is beside it")
	case doc.Get("completed").Exists() && doc.Get("duration").Exists():
		return readResult(doc), nil
	}
	return Run{}, ErrNoResult
}

// latencies are the metrics that have percentiles in vLLM's file.
var latencies = []string{"ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"}

// plain are the other figures of a result, and which way is better.
var plain = []struct {
	name   string
	unit   gate.Unit
	better gate.Better
}{
	{"duration", gate.Seconds, ""}, {"completed", gate.Number, gate.Higher}, {"failed", gate.Number, gate.Lower},
	{"total_input_tokens", gate.Number, ""}, {"total_output_tokens", gate.Number, ""},
	{"request_throughput", gate.PerSecond, gate.Higher}, {"request_goodput", gate.PerSecond, gate.Higher},
	{"output_throughput", gate.PerSecond, gate.Higher}, {"total_token_throughput", gate.PerSecond, gate.Higher},
	{"max_output_tokens_per_s", gate.PerSecond, ""}, {"max_concurrent_requests", gate.Number, ""},
}

func readResult(doc gjson.Result) Run {
	r := Run{Form: VLLM, Completed: doc.Get("completed").Int(), Failed: doc.Get("failed").Int(), OutputTokens: doc.Get("total_output_tokens").Int()}
	own := doc.Get("servebench")
	if own.IsObject() {
		r.Form = Result
	}
	r.Simulated, r.Outcome = doc.Get("simulated").Bool(), doc.Get("outcome").String()
	r.At, _ = time.ParseInLocation("20060102-150405", doc.Get("date").String(), time.Local)
	r.judged(own.Get("verdict"), own.Get("verdict_reasons"))
	for _, p := range plain {
		r.take(p.name, p.unit, p.better, doc.Get(p.name), "")
	}
	doc.ForEach(func(key, v gjson.Result) bool {
		if name, ok := strings.CutSuffix(key.String(), "_ms"); ok {
			if stat, metric, ok := strings.Cut(name, "_"); ok && statistic(stat) && slices.Contains(latencies, metric) {
				r.take(name, gate.Milliseconds, gate.Lower, v, "")
			}
		}
		return true
	})
	r.own(own)
	r.resultFacts(doc, own)
	return r
}

// ownLatencies are servebench's own distributions, and which way is better.
var ownLatencies = map[string]gate.Better{
	"ttft_token": gate.Lower, "tpot_token": gate.Lower, "itl_token": gate.Lower, "itl_per_token": gate.Lower, "e2el_token": gate.Lower,
	"ttft_from_due": gate.Lower, "e2el_from_due": gate.Lower, "queue_wait": gate.Lower, "lag": gate.Lower, "rx_delay": gate.Lower,
}

// own takes what stands under servebench in a result, and in a manifest's extensions
// with that prefix.
func (r *Run) own(own gjson.Result) {
	for _, name := range keysOf(own) {
		metric, ok := strings.CutSuffix(strings.TrimPrefix(name, "servebench."), "_ms")
		better, known := ownLatencies[metric]
		if !ok || !known {
			continue
		}
		d := field(own, name)
		for _, stat := range keysOf(d) {
			if statistic(stat) {
				r.take(stat+"_"+metric, gate.Milliseconds, better, d.Get(gjson.Escape(stat)), d.Get("source").String())
			}
		}
	}
	get := func(name string) gjson.Result {
		if v := field(own, name); v.Exists() {
			return v
		}
		return field(own, "servebench."+name)
	}
	r.fact(Client, "cpus", get("health").Get("cpus"))
	r.take(SteadyThroughput, gate.PerSecond, gate.Higher, get("steady_state").Get("output_tokens_per_second"), "")
	if m := r.Metric(SteadyThroughput); m != nil {
		m.Low, m.High = interval(get("throughput").Get("output_tokens_per_second.ci95"))
	}
	r.take("goodput_share", gate.Fraction, gate.Higher, get("goodput").Get("share"), "")
	if m := r.Metric("goodput_share"); m != nil {
		m.Low, m.High = interval(get("goodput").Get("ci95"))
	}
	get("percentile_intervals").ForEach(func(metric, byPercentile gjson.Result) bool {
		byPercentile.ForEach(func(p, ends gjson.Result) bool {
			if m := r.Metric(p.String() + "_" + strings.TrimSuffix(metric.String(), "_ms")); m != nil {
				m.Low, m.High = interval(ends)
				m.Source = cmp.Or(m.Source, byPercentile.Get("source").String())
			}
			return true
		})
		return true
	})
}

// interval reads {"low": …, "high": …} or [low, high]; nil where it is neither.
func interval(v gjson.Result) (low, high *float64) {
	a, b := v.Get("low"), v.Get("high")
	if v.IsArray() {
		if ends := v.Array(); len(ends) == 2 {
			a, b = ends[0], ends[1]
		}
	}
	if a.Type != gjson.Number || b.Type != gjson.Number || !(a.Num <= b.Num) {
		return nil, nil
	}
	return &a.Num, &b.Num
}

// field is a member by its name, dots and all.
func field(doc gjson.Result, name string) gjson.Result { return doc.Get(gjson.Escape(name)) }

func keysOf(doc gjson.Result) (keys []string) {
	doc.ForEach(func(k, _ gjson.Result) bool { keys = append(keys, k.String()); return true })
	return keys
}

// take adds a metric, the first of its name.
func (r *Run) take(name string, unit gate.Unit, better gate.Better, v gjson.Result, source string) {
	if v.Type != gjson.Number || v.Num-v.Num != 0 || slices.ContainsFunc(r.Metrics, func(m Metric) bool { return m.Name == name }) {
		return
	}
	r.Metrics = append(r.Metrics, Metric{Name: name, Unit: unit, Better: better, Value: v.Num, Source: source})
}

func (r *Run) judged(verdict, reasons gjson.Result) {
	r.Verdict = verdict.String()
	for _, reason := range reasons.Array() {
		r.Reasons = append(r.Reasons, reason.String())
	}
}

// fact adds what is known.
func (r *Run) fact(c Class, key string, v gjson.Result) {
	if !v.Exists() || v.Type == gjson.Null || slices.ContainsFunc(r.Facts, func(f Fact) bool { return f.Key == key }) {
		return
	}
	text := v.String()
	if v.IsObject() || v.IsArray() {
		text = sorted(v)
	}
	if text != "" {
		r.Facts = append(r.Facts, Fact{c, key, text})
	}
}

// sorted is JSON with the keys of objects in order, so that equal ones look alike.
func sorted(v gjson.Result) string {
	var b strings.Builder
	var put func(v gjson.Result)
	put = func(v gjson.Result) {
		switch {
		case v.IsObject():
			members := v.Map()
			keys := keysOf(v)
			slices.Sort(keys)
			b.WriteByte('{')
			for i, k := range slices.Compact(keys) {
				b.WriteString(map[bool]string{true: ", "}[i > 0] + k + ": ")
				put(members[k])
			}
			b.WriteByte('}')
		case v.IsArray():
			b.WriteByte('[')
			for i, e := range v.Array() {
				b.WriteString(map[bool]string{true: ", "}[i > 0])
				put(e)
			}
			b.WriteByte(']')
		default:
			b.WriteString(v.String())
		}
	}
	put(v)
	return b.String()
}

// Difference is a fact in which runs are not alike; the value of a run that does not
// tell is "".
type Difference struct {
	Class  Class    `json:"class"`
	Key    string   `json:"key"`
	Values []string `json:"values"` // one for each run
	// Unknown tells that they differ only in who tells.
	Unknown bool `json:"unknown,omitempty"`
}

// classes in the order in which differences are listed.
var classes = []Class{Model, UnderTest, Workload, Machine, Client}

// Differences lists the facts in which the runs differ, by class, then in the order
// in which they were first told.
func Differences(runs []Run) (out []Difference) {
	var seen []string
	for _, r := range runs {
		for _, f := range r.Facts {
			if slices.Contains(seen, f.Key) {
				continue
			}
			seen = append(seen, f.Key)
			d := Difference{Class: f.Class, Key: f.Key, Values: make([]string, len(runs))}
			var told []string
			for i := range runs {
				d.Values[i] = runs[i].value(f.Key)
				if v := d.Values[i]; v != "" && !slices.Contains(told, v) {
					told = append(told, v)
				}
			}
			if d.Unknown = len(told) == 1; !d.Unknown || slices.Contains(d.Values, "") {
				out = append(out, d)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Difference) int {
		return cmp.Compare(slices.Index(classes, a.Class), slices.Index(classes, b.Class))
	})
	return out
}

func (r *Run) value(key string) string {
	for _, f := range r.Facts {
		if f.Key == key {
			return f.Value
		}
	}
	return ""
}

// OfSameRun tells that a manifest is that of the run of a result: it has the same
// counts and, but for the rounding of the last digits, the same duration.
func (r *Run) OfSameRun(o *Run) bool {
	a, b := r.Metric("duration"), o.Metric("duration")
	return r.Completed == o.Completed && r.Failed == o.Failed && r.OutputTokens == o.OutputTokens && a != nil && b != nil && math.Abs(a.Value-b.Value) <= 0.5e-9
}

// Same tells that both are one run, whichever of its files they were read from: a
// result has the time at which it was written down, a manifest that of the start.
func (r *Run) Same(o *Run) bool {
	if !r.OfSameRun(o) {
		return false
	}
	const saving = time.Minute
	apart := r.At.Sub(o.At).Abs()
	return apart <= saving || r.At.IsZero() || o.At.IsZero() || apart <= saving+time.Duration(r.Metric("duration").Value*float64(time.Second))
}

// Describe adds the facts of a manifest of the same run, and the figures that the
// result does not have.
func (r *Run) Describe(m *Run) {
	r.IgnoreEOS = r.IgnoreEOS || m.IgnoreEOS
	if !m.At.IsZero() {
		r.At = m.At
	}
	facts := slices.Clone(m.Facts)
	for _, f := range r.Facts {
		if m.value(f.Key) == "" {
			facts = append(facts, f)
		}
	}
	r.Facts = facts
	for _, f := range m.Metrics {
		if r.Metric(f.Name) == nil {
			r.Metrics = append(r.Metrics, f)
		}
	}
}
