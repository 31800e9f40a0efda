package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/metrics"
)

// oracleRun is what testdata/oracle.py adds to recorded requests.
type oracleRun struct {
	Records     string
	Backend     string
	Rate        loadgen.Number
	Burstiness  loadgen.Number
	Cap         int
	Open        bool
	Stream      *bool
	Goodput     map[string]float64
	Ramp        []any
	Probes      []time.Duration
	ProbeFailed int `json:"probe_failed"`
	Sequences   []int
	Speculation *struct {
		Drafts      int64
		DraftTokens int64 `json:"draft_tokens"`
		Accepted    int64
		At          []int64
	}
	Diffusion *metrics.Diffusion
}

// result is what Run would return of these requests.
func (o *oracleRun) result(t *testing.T, percent []float64) *Result {
	f, err := os.Open("../metrics/testdata/" + o.Records + ".requests.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := &Result{Plan: new(Plan), Start: time.Date(2026, 3, 1, 23, 59, 58, 999_999_000, time.UTC), Diffusion: o.Diffusion}
	for rec, err := range metrics.ReadRecords(f) {
		if err != nil {
			t.Fatal(err)
		}
		req := loadgen.Request{}
		if o.Sequences != nil {
			req.Sequences = o.Sequences[len(r.Records)%len(o.Sequences)]
		}
		r.Records = append(r.Records, *rec)
		r.Plan.Requests = append(r.Plan.Requests, req)
		if o.Open {
			r.Plan.Offsets = append(r.Plan.Offsets, rec.Due)
		}
	}
	r.Config = Config{
		Backend: "vllm", Model: "m", Stream: o.Stream == nil || *o.Stream, Rate: o.Rate, Burstiness: o.Burstiness,
		MaxConcurrency: o.Cap, Goodput: o.Goodput, Percentiles: percent,
	}
	if o.Backend != "" {
		r.Config.Backend = o.Backend
	}
	if o.Ramp != nil {
		r.Config.Ramp = &loadgen.Ramp{Strategy: o.Ramp[0].(string), Start: o.Ramp[1].(float64), End: o.Ramp[2].(float64)}
	}
	r.Config = r.Config.withDefaults()
	if o.Probes != nil {
		r.Probes = &metrics.Probes{Completed: len(o.Probes), Failed: o.ProbeFailed, E2EL: metrics.DistOf(o.Probes)}
	}
	if s := o.Speculation; s != nil {
		r.Speculation = &metrics.Speculation{Drafts: s.Drafts, DraftTokens: s.DraftTokens, Accepted: s.Accepted, AcceptedAt: s.At}
	}
	r.Summary = metrics.Summarize(r.Records, r.options())
	r.Duration = r.Summary.Last
	return r
}

// members are a JSON object's in order.
func members(t *testing.T, data []byte) (keys []string, values map[string]json.RawMessage) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		t.Fatal(err)
	}
	values = map[string]json.RawMessage{}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key.(string))
		values[key.(string)] = v
	}
	return keys, values
}

// Every number of the result JSON is that of vLLM's formulas over the same
// stamps, under vLLM's keys in vLLM's order, and of the same type.
func TestResultIsTheFormulas(t *testing.T) {
	data, err := os.ReadFile("testdata/oracle.json")
	if err != nil {
		t.Fatal(err)
	}
	var oracle struct {
		Percent []float64
		Runs    map[string]struct {
			Run  oracleRun
			JSON json.RawMessage
		}
	}
	if err := json.Unmarshal(data, &oracle); err != nil {
		t.Fatal(err)
	}
	if len(oracle.Runs) != 11 {
		t.Fatalf("%d runs", len(oracle.Runs))
	}
	for name, c := range oracle.Runs {
		t.Run(name, func(t *testing.T) {
			r := c.Run.result(t, oracle.Percent)
			b, err := r.JSON(metricNames, true)
			if err != nil {
				t.Fatal(err)
			}
			gotKeys, got := members(t, b)
			wantKeys, want := members(t, c.JSON)
			head := slices.Index(gotKeys, "request_rate")
			if gotKeys = gotKeys[head:slices.Index(gotKeys, "outcome")]; !slices.Equal(gotKeys, wantKeys) {
				t.Errorf("keys\n%v, want\n%v", gotKeys, wantKeys)
			}
			for _, key := range wantKeys {
				sameNumbers(t, key, parsed(t, got[key]), parsed(t, want[key]), r.Start)
			}
		})
	}
}

// parsed keeps numbers as they are written.
func parsed(t *testing.T, raw json.RawMessage) (v any) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Errorf("%q: %v", raw, err)
	}
	return v
}

// sameNumbers holds got against the oracle: floats to 1e-9, all else exactly.
func sameNumbers(t *testing.T, path string, got, want any, start time.Time) {
	switch want := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		if len(g) != len(want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
		for k := range want {
			sameNumbers(t, path+"."+k, g[k], want[k], start)
		}
	case []any:
		g, _ := got.([]any)
		if len(g) != len(want) {
			t.Errorf("%s: %d entries, want %d", path, len(g), len(want))
			return
		}
		for i := range want {
			sameNumbers(t, fmt.Sprintf("%s[%d]", path, i), g[i], want[i], start)
		}
	case json.Number:
		w, _ := want.Float64()
		if text, ok := got.(string); ok { // a timestamp, seconds from the start there
			at := start.Add(time.Duration(math.Round(w * 1e9)))
			if stamp, err := time.ParseInLocation("2006-01-02T15:04:05.999999", text, time.Local); err != nil || !stamp.Equal(at.Truncate(time.Microsecond)) {
				t.Errorf("%s: %v, want %v (%v)", path, got, at, err)
			}
			return
		}
		g, ok := got.(json.Number)
		v, err := g.Float64()
		integer := func(n json.Number) bool { _, err := n.Int64(); return err == nil }
		// numpy's spread of equal values is the rounding of its mean.
		if !ok || err != nil || integer(g) != integer(want) || math.Abs(v-w) > 1e-9*math.Abs(w)+1e-12 {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	case string:
		if g, ok := got.(string); !ok || g != want && (want != "some" || g == "") {
			t.Errorf("%s: %v, want %q", path, got, want)
		}
	default:
		if got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
