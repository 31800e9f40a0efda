package metrics_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"
	"time"

	"github.com/servebench/servebench/metrics"
)

// numbers is one distribution in oracle.json.
type numbers struct {
	N                           int
	Mean, Median, Std, Min, Max float64
	P                           []float64
}

type four struct{ TTFT, TPOT, ITL, E2EL *numbers }

type opinion struct {
	OpenLoop     bool `json:"open_loop"`
	Goodput      map[string]float64
	Completed    int
	Failed       int
	InputTokens  int64  `json:"input_tokens"`
	OutputTokens int64  `json:"output_tokens"`
	OutputRange  [2]int `json:"output_range"`
	Good         int
	PeakChunks   int     `json:"peak_chunks"`
	PeakTouching int     `json:"peak_touching"`
	InFlight     int     `json:"in_flight"`
	TokenRate    float64 `json:"token_rate"`
	Reads        int
	VLLM, Token  four
	Other        map[string]*numbers
}

func readRecords(t testing.TB, path string) []metrics.Record {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var records []metrics.Record
	for r, err := range metrics.ReadRecords(f) {
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		records = append(records, *r)
	}
	return records
}

func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
}

// numpy works on seconds in float64: 1e-9 is what is asked of two tools that
// see the same stream.
func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*math.Abs(want) }

func compare(t *testing.T, name string, d *metrics.Dist, want *numbers, percent []float64) {
	t.Helper()
	if (d == nil) != (want == nil) {
		t.Errorf("%s: %v, want %v", name, d, want)
		return
	}
	if d == nil {
		return
	}
	if d.N != want.N || d.Source != "exact" {
		t.Errorf("%s: %d samples (%s), want %d", name, d.N, d.Source, want.N)
	}
	type pair struct {
		name      string
		got, want float64
	}
	pairs := []pair{
		{"mean", d.Mean, want.Mean}, {"median", d.Median, want.Median},
		{"min", d.Min, want.Min}, {"max", d.Max, want.Max},
	}
	for i, p := range percent {
		v, ok := d.Percentile(p)
		if !ok {
			t.Errorf("%s has no percentile %v", name, p)
		}
		pairs = append(pairs, pair{"percentile", v, want.P[i]})
	}
	for _, p := range pairs {
		if !near(p.got, p.want) {
			t.Errorf("%s: %s %v, numpy has %v", name, p.name, p.got, p.want)
		}
	}
	// numpy's spread of equal values is the rounding of its mean.
	if !near(d.Std, want.Std) && math.Abs(d.Std-want.Std) > 1e-15*want.Mean {
		t.Errorf("%s: standard deviation %v, numpy has %v", name, d.Std, want.Std)
	}
}

func compareFour(t *testing.T, name string, l metrics.Latencies, want four, percent []float64) {
	t.Helper()
	compare(t, name+" ttft", l.TTFT, want.TTFT, percent)
	compare(t, name+" tpot", l.TPOT, want.TPOT, percent)
	compare(t, name+" itl", l.ITL, want.ITL, percent)
	compare(t, name+" e2el", l.E2EL, want.E2EL, percent)
}

// TestOracle holds every number against testdata/oracle.py, which computes them
// from the same files with numpy.
func TestOracle(t *testing.T) {
	var oracle struct {
		Percent []float64
		Runs    map[string]opinion
	}
	readJSON(t, "testdata/oracle.json", &oracle)
	if len(oracle.Runs) != 7 {
		t.Fatalf("%d runs", len(oracle.Runs))
	}
	for name, want := range oracle.Runs {
		t.Run(name, func(t *testing.T) {
			records := readRecords(t, "testdata/"+name+".requests.jsonl")
			s := metrics.Summarize(records, metrics.Options{Percentiles: oracle.Percent, Goodput: want.Goodput, OpenLoop: want.OpenLoop})
			for _, c := range []struct {
				name      string
				got, want any
			}{
				{"completed", s.Completed, want.Completed}, {"failed", s.Failed, want.Failed},
				{"input tokens", s.InputTokens, want.InputTokens}, {"output tokens", s.OutputTokens, want.OutputTokens},
				{"output range", s.OutputRange, want.OutputRange}, {"good", s.Good, want.Good},
				{"peak of chunks", s.PeakTokens, want.PeakChunks}, {"peak of touching requests", s.PeakConcurrency, want.PeakTouching},
				{"in flight", s.MaxInFlight, want.InFlight}, {"reads", s.Counters.Reads, want.Reads},
			} {
				if c.got != c.want {
					t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
				}
			}
			if !near(s.MaxTokenRate, want.TokenRate) {
				t.Errorf("token rate: %v, want %v", s.MaxTokenRate, want.TokenRate)
			}
			compareFour(t, "vllm", s.VLLM, want.VLLM, oracle.Percent)
			compareFour(t, "token", s.Token, want.Token, oracle.Percent)
			for name, d := range map[string]*metrics.Dist{
				"itl_per_token": s.ITLPerToken, "ttft_from_due": s.TTFTFromDue, "e2el_from_due": s.E2ELFromDue,
				"client_queue": s.ClientQueue, "e2el_with_queue": s.E2ELWithQueue, "queue_wait": s.QueueWait,
				"lag": s.Lag, "ramp_lag": s.RampLag, "rx_delay": s.RxDelay, "connect": s.Connect,
			} {
				if _, ok := want.Other[name]; !ok {
					t.Fatalf("oracle.json has no %s", name)
				}
				compare(t, name, d, want.Other[name], oracle.Percent)
			}
		})
	}
}

// vllmResult is what `vllm bench serve --save-result --save-detailed` of vLLM
// 0.32.0 wrote of a run against a vLLM server, with the texts taken out.
type vllmResult struct {
	Duration    float64
	Completed   int
	Failed      int
	TotalInput  int64       `json:"total_input_tokens"`
	TotalOutput int64       `json:"total_output_tokens"`
	PeakTokens  float64     `json:"max_output_tokens_per_s"`
	PeakOpen    int         `json:"max_concurrent_requests"`
	InputLens   []int       `json:"input_lens"`
	OutputLens  []int       `json:"output_lens"`
	TTFTs       []float64   `json:"ttfts"`
	ITLs        [][]float64 `json:"itls"`
	Starts      []float64   `json:"start_times"`
	Latencies   []float64
	QueueTimes  []float64 `json:"queue_times"`
}

func ns(seconds float64) time.Duration { return time.Duration(math.Round(seconds * 1e9)) }

// records are ours of the same run. Python's clock counts whole nanoseconds.
func (v *vllmResult) records() []metrics.Record {
	records := make([]metrics.Record, v.Completed)
	zero := v.Starts[0] - v.QueueTimes[0]
	for i := range records {
		r := &records[i]
		*r = metrics.Record{
			Seq: i, Sent: ns(v.Starts[i] - zero), Status: 200, Outcome: metrics.OK,
			PromptTokens: v.InputLens[i], OutputTokens: v.OutputLens[i], TokenSource: metrics.FromUsage,
		}
		at := r.Sent + ns(v.TTFTs[i])
		r.Arrivals = append(r.Arrivals, at)
		for _, gap := range v.ITLs[i] {
			at += ns(gap)
			r.Arrivals = append(r.Arrivals, at)
		}
		r.RxDelay = make([]time.Duration, len(r.Arrivals))
		r.Done = at
	}
	return records
}

// The published aggregates of vLLM's own client come out of its own raw data.
func TestVLLMsOwnResults(t *testing.T) {
	for _, file := range []string{"vllm-plain.json", "vllm-spec.json"} {
		t.Run(file, func(t *testing.T) {
			var v vllmResult
			var published map[string]any
			readJSON(t, "testdata/"+file, &v)
			readJSON(t, "testdata/"+file, &published)
			s := metrics.Summarize(v.records(), metrics.Options{})
			if s.Completed != v.Completed || s.Failed != v.Failed || s.InputTokens != v.TotalInput || s.OutputTokens != v.TotalOutput {
				t.Errorf("counts %d %d %d %d", s.Completed, s.Failed, s.InputTokens, s.OutputTokens)
			}
			if float64(s.PeakTokens) != v.PeakTokens || s.PeakConcurrency != v.PeakOpen {
				t.Errorf("peaks %d and %d, vLLM has %v and %d", s.PeakTokens, s.PeakConcurrency, v.PeakTokens, v.PeakOpen)
			}
			if got := float64(s.OutputTokens) / v.Duration; got != published["output_throughput"] {
				t.Errorf("output throughput %v, vLLM has %v", got, published["output_throughput"])
			}
			seen := 0
			for name, d := range map[string]*metrics.Dist{"ttft": s.VLLM.TTFT, "tpot": s.VLLM.TPOT, "itl": s.VLLM.ITL, "e2el": s.VLLM.E2EL} {
				p99, _ := d.Percentile(99)
				for key, got := range map[string]float64{"mean_": d.Mean, "median_": d.Median, "std_": d.Std, "p99_": p99} {
					want, ok := published[key+name+"_ms"].(float64)
					if !ok {
						t.Errorf("no %s%s_ms", key, name)
						continue
					}
					if seen++; !near(got, want) {
						t.Errorf("%s%s_ms %v, vLLM has %v (relative %g)", key, name, got, want, got/want-1)
					}
				}
			}
			if seen != 16 {
				t.Errorf("%d numbers compared", seen)
			}
			// vLLM's peak of concurrency is not what was in flight: 8 slots.
			if s.MaxInFlight != 8 {
				t.Errorf("%d in flight with --max-concurrency 8", s.MaxInFlight)
			}
			if mean := float64(s.OutputTokens) / v.Duration; s.MaxTokenRate < mean {
				t.Errorf("peak token rate %v below the mean %v", s.MaxTokenRate, mean)
			}
		})
	}
}
