package bench_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/manifest"
)

// own runs a configuration in virtual time and returns the result JSON, and the
// manifest's extensions without the servebench. of their keys.
func own(t *testing.T, h http.Handler, change func(*bench.Config)) (result, ext gjson.Result) {
	t.Helper()
	return documents(t, h, change, func(res *bench.Result) *manifest.Run { return res.Manifest([]byte("{}"), nil) })
}

// verified is own of a manifest that holds the schema and its verification.
func verified(t *testing.T, h http.Handler, change func(*bench.Config)) (result, ext gjson.Result) {
	t.Helper()
	return documents(t, h, change, func(res *bench.Result) *manifest.Run { return save(t, res) })
}

func documents(t *testing.T, h http.Handler, change func(*bench.Config), describe func(*bench.Result) *manifest.Run) (result, ext gjson.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg := config(serveHandler(t, h))
		cfg.InProcess, cfg.Command = true, nil
		change(&cfg)
		res, _ := bench.Run(t.Context(), cfg)
		if res == nil {
			t.Fatal("no result")
		}
		text, err := res.JSON(bench.MetricNames(), false)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(describe(res).Measurement.Extensions)
		if err != nil {
			t.Fatal(err)
		}
		result, ext = gjson.ParseBytes(text), gjson.Parse(strings.ReplaceAll(string(raw), `"servebench.`, `"`))
	})
	return result, ext
}

func equal(t *testing.T, in gjson.Result, want map[string]string) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got := in.Get(key).Raw; got != want[key] {
			t.Errorf("%s is %q, want %q", key, got, want[key])
		}
	}
}

// S24: ten requests of 100 ms one after another are one at a time; vLLM's figure
// counts all that touch a second.
func TestPeakConcurrencyIsExact(t *testing.T) {
	result, ext := own(t, sim.New(sim.Config{TTFT: 100 * ms}), func(c *bench.Config) {
		c.Dataset.Prompts, c.Dataset.OutputLen, c.MaxConcurrency = 10, 1, 1
	})
	equal(t, result, map[string]string{"max_concurrent_requests": "10", "servebench.peak_concurrency": "1", "completed": "10"})
	equal(t, ext, map[string]string{"peak_concurrency": "1"})
}

// S25: four streams with four tokens in a chunk every 40 ms make 400 tokens a second.
// vLLM counts chunks, 100 a second; ours is no less than the mean.
func TestPeakTokenRateCountsTokens(t *testing.T) {
	result, ext := own(t, sim.New(sim.Config{TTFT: 50 * ms, ITL: 10 * ms, TokensPerChunk: 4}), func(c *bench.Config) {
		c.Dataset.OutputLen = 401
	})
	mean, vllm := result.Get("output_throughput").Float(), result.Get("max_output_tokens_per_s").Float()
	peak := result.Get("servebench.peak_output_tokens_per_s").Float()
	if vllm >= mean || peak < mean || peak > 404 || ext.Get("peak_output_tokens_per_s").Float() != peak {
		t.Errorf("peak %v, mean %v, vLLM's peak %v", peak, mean, vllm)
	}
}

// Eight requests are enough for the interval of a median and for nothing else: what
// is missing is null, and how many samples it takes stands beside it.
func TestFewSamplesAreNull(t *testing.T) {
	result, ext := verified(t, sim.New(sim.Config{TTFT: 50 * ms, ITL: 10 * ms}), func(c *bench.Config) {
		c.Dataset.Prompts, c.MaxConcurrency, c.Percentiles = 8, 2, []float64{50, 99, 100}
	})
	equal(t, result, map[string]string{
		"servebench.percentile_intervals.ttft": `{"n":8,"source":"exact","p50":[50.0,50.0],"p99":null,"p100":null}`,
		"servebench.percentile_intervals.itl":  `{"n":32,"source":"exact","p50":[10.0,10.0],"p99":null,"p100":null}`,
		"servebench.percentile_intervals.lag":  `{"n":6,"source":"exact","p50":[0.0,0.0],"p99":null,"p100":null}`,
		"servebench.tail_estimates.ttft":       `{"p50":null,"p99":null,"p100":null}`,
		"servebench.tail_estimates.itl":        `{"p50":10.0,"p99":null,"p100":null}`,
		"servebench.samples_needed":            `{"p50":{"interval":6,"tail":11},"p99":{"interval":368,"tail":662},"p100":{"interval":null,"tail":null}}`,
		"servebench.independence.e2el":         `{"n":8,"no_mean":"8 requests are too few for batch means; want 60","neighbours_alike":false}`,
		"servebench.no_throughput":             `"a window of 0.36 s is too short for batch means; want 60 s"`,
		"servebench.throughput":                "",
		"servebench.goodput":                   "",
		"servebench.no_saturation":             `"a closed loop cannot outrun the server"`,
		"servebench.no_arrivals":               `"a closed loop has no schedule"`,
	})
	steady := result.Get("servebench.steady_state")
	equal(t, steady, map[string]string{
		"target_concurrency": "2", "to_ns": "360000000", "mean_in_flight": "2", "ttft_ms.n": "8", "e2el_ms.p50": "90.0",
		"ttft_ms.percentile_intervals": `{"p50":[50.0,50.0],"p99":null,"p100":null}`,
		"no_mser5_cut":                 `"a window of 0.36 s is too short for MSER-5; want 50 s"`,
	})
	// The manifest has its own percentiles and reading, and nothing of the generator's.
	equal(t, ext, map[string]string{
		"percentile_intervals.ttft_token": `{"p50":[50,50],"p90":null,"p95":null,"p99":null}`,
		"tail_estimates.itl_token":        `{"p50":10,"p90":null,"p95":null,"p99":null}`,
		"samples_needed.p90":              `{"interval":36,"tail":64}`,
		"percentile_intervals.lag":        "",
		"steady_state.ttft_ms.p95":        "50",
		"independence.ttft.n":             "8",
	})
}

// Past the budget of exact samples a histogram answers, and the result says so.
func TestHistogramIsLabelled(t *testing.T) {
	result, _ := own(t, sim.New(sim.Config{TTFT: 50 * ms, ITL: 10 * ms}), func(c *bench.Config) {
		c.Dataset.Prompts, c.RawSamples = 8, 10
	})
	equal(t, result, map[string]string{
		"servebench.percentile_intervals.itl.source": `"hdr3"`, "servebench.percentile_intervals.ttft.source": `"exact"`,
		"servebench.steady_state.itl_ms.source": `"hdr3"`,
	})
}

// A closed loop of 80 s in virtual time has it all: two at a time, each 4 tokens in
// 0.8 s, make 10 tokens and 2.5 requests a second.
func TestLongClosedLoop(t *testing.T) {
	result, ext := verified(t, sim.New(sim.Config{TTFT: 500 * ms, ITL: 100 * ms}), func(c *bench.Config) {
		c.Dataset.Prompts, c.Dataset.OutputLen, c.MaxConcurrency = 200, 4, 2
	})
	for _, in := range []gjson.Result{result.Get("servebench"), ext} {
		tokens, requests := in.Get("throughput.output_tokens_per_second"), in.Get("throughput.requests_per_second")
		// The last two requests end where the window does, outside of it.
		equal(t, tokens, map[string]string{"value": "9.975", "batches": "5"})
		equal(t, requests, map[string]string{"value": "2.475", "batches": "5"})
		for _, e := range []gjson.Result{tokens, requests} {
			if v := e.Get("value").Float(); !(e.Get("ci95.low").Float() <= v && v <= e.Get("ci95.high").Float()) {
				t.Errorf("%s is not around its value", e.Raw)
			}
		}
		equal(t, in, map[string]string{"steady_state.mser5_cut_ns": "0", "independence.ttft.mean.batches": "6", "no_throughput": ""})
	}
}

// An open loop tells of its arrivals, of the server and of its goodput.
func TestOpenLoopIsAnalysed(t *testing.T) {
	result, _ := verified(t, sim.New(sim.Config{TTFT: 50 * ms, ITL: 10 * ms}), func(c *bench.Config) {
		c.Dataset.Prompts, c.Rate, c.Burstiness = 100, 10, loadgen.Inf
		c.Goodput = map[string]float64{"ttft": 50}
	})
	equal(t, result, map[string]string{
		"servebench.goodput.good": "100", "servebench.goodput.share": "1", "servebench.goodput.ci95.high": "1",
		"servebench.saturation.over_saturated": "false", "servebench.arrivals.achieved_over_offered": "1",
		"servebench.arrivals.no_gap_test": `"the gaps are constant: nothing was drawn"`,
		"servebench.no_steady_state":      `"an open loop has no concurrency to hold"`,
	})
	if low := result.Get("servebench.goodput.ci95.low").Float(); !(low > 0.96 && low < 0.97) { // 1/(1+z²/100)
		t.Errorf("Wilson's lower end is %v", low)
	}
}

// Where nothing completed there is no number, and no guess.
func TestNothingCompletedIsNull(t *testing.T) {
	fails := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusServiceUnavailable) })
	result, _ := own(t, fails, func(c *bench.Config) { c.Percentiles = []float64{99} })
	equal(t, result, map[string]string{
		"completed": "0", "failed": "4",
		"servebench.percentile_intervals.ttft": `{"n":0,"p50":null,"p99":null}`,
		"servebench.tail_estimates.e2el":       `{"p50":null,"p99":null}`,
		"servebench.no_throughput":             `"no request completed"`,
		"servebench.no_steady_state":           `"no request completed"`,
		"servebench.independence":              "",
	})
}
