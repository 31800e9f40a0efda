package report_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/report"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/metrics"
)

// screen is what vLLM's own client prints of requests, and the keys of its
// result; see testdata/screens.py.
type screen struct {
	Name, Backend string
	Requests      []struct {
		Due, Start, TTFT      float64
		Gaps                  []float64
		Prompt, Tokens, Texts int
		Failed                bool
		Error                 string
	}
	Duration    float64
	Cap         int
	Rate        loadgen.Number
	Metrics     []string
	Goodput     map[string]float64
	Ramp        []any
	Probes      []float64 // ms; 0 is a failure
	Speculation []any
	Diffusion   []int64
	Screen      []string
	Keys        []string
}

var allMetrics = []string{"ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"}

func ns(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }

// result is ours of the same requests.
func (s *screen) result() *bench.Result {
	r := &bench.Result{Plan: new(bench.Plan), Duration: ns(s.Duration), Outcome: "completed"}
	r.Config = bench.Config{
		Backend: s.Backend, Stream: true, Rate: s.Rate, Burstiness: loadgen.Inf, MaxConcurrency: s.Cap,
		Goodput: s.Goodput, Percentiles: []float64{99, 99.9},
	}
	if s.Ramp != nil {
		r.Config.Ramp = &loadgen.Ramp{Strategy: s.Ramp[0].(string), Start: s.Ramp[1].(float64), End: s.Ramp[2].(float64)}
	}
	if s.Rate == 0 {
		r.Config.Rate = loadgen.Inf
	}
	open := s.Rate != 0 || s.Ramp != nil
	for i, q := range s.Requests {
		rec := metrics.Record{Seq: i, Sent: ns(q.Start), Outcome: metrics.OK, PromptTokens: q.Prompt, OutputTokens: q.Tokens, TokenSource: metrics.FromUsage}
		if open {
			rec.Due, rec.Slot = ns(q.Due), ns(q.Due)
			r.Plan.Offsets = append(r.Plan.Offsets, rec.Due)
		}
		if q.Failed {
			rec.Outcome, rec.Error = metrics.Reset, strings.TrimPrefix(q.Error, "reset: ")
			rec.Done = rec.Sent
		} else {
			at := rec.Sent + ns(q.TTFT)
			rec.Arrivals = append(rec.Arrivals, at)
			for _, gap := range q.Gaps {
				at += ns(gap)
				rec.Arrivals = append(rec.Arrivals, at)
			}
			if rec.Done = at; q.Texts > 0 {
				rec.Arrivals = nil
			}
			rec.RxDelay = make([]time.Duration, len(rec.Arrivals))
		}
		r.Records = append(r.Records, rec)
		r.Plan.Requests = append(r.Plan.Requests, loadgen.Request{Sequences: q.Texts})
	}
	if s.Probes != nil {
		r.Probes = new(metrics.Probes)
		var took []time.Duration
		for _, ms := range s.Probes {
			if ms > 0 {
				took = append(took, ns(ms/1e3))
			}
		}
		r.Probes.Completed, r.Probes.Failed, r.Probes.E2EL = len(took), len(s.Probes)-len(took), metrics.DistOf(took)
	}
	s.decoding(r)
	r.Summary = metrics.Summarize(r.Records, metrics.Options{Percentiles: r.Config.Percentiles, Goodput: s.Goodput, OpenLoop: open})
	return r
}

func (s *screen) decoding(r *bench.Result) {
	if v := s.Speculation; v != nil {
		n := func(v any) int64 { return int64(v.(float64)) }
		r.Speculation = &metrics.Speculation{Drafts: n(v[0]), DraftTokens: n(v[1]), Accepted: n(v[2])}
		for _, at := range v[3].([]any) {
			r.Speculation.AcceptedAt = append(r.Speculation.AcceptedAt, n(at))
		}
	}
	if v := s.Diffusion; v != nil {
		r.Diffusion = &metrics.Diffusion{Steps: v[0], Positions: v[1], Committed: v[2]}
	}
}

// table is what the command makes of a result.
func table(r *bench.Result, selected []string) *report.Table {
	c, rates := &r.Config, r.Rates()
	t := &report.Table{
		MaxConcurrency: c.MaxConcurrency, Seconds: r.Duration.Seconds(), RequestRate: rates.Requests, OutputRate: rates.OutputTokens,
		TotalRate: rates.TotalTokens, Pooled: !c.API().Generates(), SequenceRate: rates.Sequences, Errors: r.Errors(10),
		Summary: r.Summary, Percentiles: c.Percentiles, Probes: r.Probes, Diffusion: r.Diffusion, Speculation: r.Speculation,
	}
	if !c.Rate.IsInf() {
		t.Rate = float64(c.Rate)
	}
	if len(c.Goodput) > 0 {
		t.Goodput = &rates.Good
	}
	for _, name := range allMetrics {
		if d, ok := r.Metric(name); ok && slices.Contains(selected, name) {
			t.Sections = append(t.Sections, report.SectionOf(name, d))
		}
	}
	return t
}

// In every mode the screen is that of vLLM's own client, and the result has its
// keys in its order.
func TestEveryModeIsVLLMs(t *testing.T) {
	data, err := os.ReadFile("testdata/screens.json")
	if err != nil {
		t.Fatal(err)
	}
	var screens []screen
	if err := json.Unmarshal(data, &screens); err != nil {
		t.Fatal(err)
	}
	if len(screens) != 6 {
		t.Fatalf("%d screens", len(screens))
	}
	for _, s := range screens {
		t.Run(s.Name, func(t *testing.T) {
			r := s.result()
			selected := s.Metrics
			if selected == nil {
				selected = allMetrics
			}
			var b strings.Builder
			if err := report.Text(&b, table(r, selected)); err != nil {
				t.Fatal(err)
			}
			got, _, _ := strings.Cut(b.String(), "\n\nIn flight at most:")
			if want := strings.Join(s.Screen, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			result, err := r.JSON(selected, true)
			if err != nil {
				t.Fatal(err)
			}
			if keys := vllmKeys(t, result); !slices.Equal(keys, s.Keys) {
				t.Errorf("keys\n%v, want\n%v", keys, s.Keys)
			}
		})
	}
}

// vllmKeys are the keys from the duration up to our own.
func vllmKeys(t *testing.T, result []byte) (keys []string) {
	dec := json.NewDecoder(bytes.NewReader(result))
	dec.Token()
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
	}
	return keys[slices.Index(keys, "duration"):slices.Index(keys, "outcome")]
}
