package importer

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/servebench/servebench/manifest"
	"github.com/servebench/servebench/metrics/stat"
)

// results are the numbers, each computed from the file's counts and arrays and held
// against what the file says of it.
func (i *imported) results(w *manifest.Workload) *manifest.Results {
	res := &manifest.Results{
		FailedRequests: i.failed, SuccessfulRequests: i.completed, DurationSeconds: i.duration, TotalInputTokens: i.input, TotalOutputTokens: i.output,
		Throughput: manifest.Throughput{
			RequestsPerSecond:     i.rate("request_throughput", i.completed),
			OutputTokensPerSecond: i.rate("output_throughput", i.output),
			TotalTokensPerSecond:  i.rate("total_token_throughput", i.input+i.output),
		},
	}
	l := &res.LatencyMS
	l.EndToEnd = i.latency("e2el", i.hasE2E, i.latencies, i.completed)
	if w.Task != "text_generation" {
		return res
	}
	l.TimeToFirstToken = i.latency("ttft", i.hasTTFTs, i.ttfts, i.completed)
	l.TimePerOutputToken = i.latency("tpot", i.multiToken != nil, i.multiToken, i.completed)
	l.InterToken = i.latency("itl", i.hasItls, i.itls, i.gaps())
	if l.TimeToFirstToken == nil && l.TimePerOutputToken == nil && l.InterToken == nil && !i.has("mean_ttft_ms") && !i.has("mean_itl_ms") {
		i.warnf("The file has no times of tokens: whether answers were streamed is not known.")
	}
	return res
}

// rate is a count over the duration. The file's own must be the same, up to the
// rounding of one division.
func (i *imported) rate(key string, n int64) manifest.Rate {
	want := float64(n) / i.duration
	if got, ok := i.number(key); ok && !near(got, want, 1e-12) {
		i.badf(key, "%v, but %d / %v s is %v", got, n, i.duration, want)
	}
	return manifest.Rate{Value: want, SampleCount: i.completed, MeasurementStatus: "measured"}
}

func near(a, b, relative float64) bool {
	return a == b || math.Abs(a-b) <= relative*max(math.Abs(a), math.Abs(b))
}

// gaps is the number of times between tokens where no array has them. Their sum is
// that of the decode times, so it follows from three means; 0 where it does not.
func (i *imported) gaps() int64 {
	e2e, ok1 := i.number("mean_e2el_ms")
	first, ok2 := i.number("mean_ttft_ms")
	gap, ok3 := i.number("mean_itl_ms")
	if i.hasItls || !ok1 || !ok2 || !ok3 || !(gap > 0) {
		return 0
	}
	n := float64(i.completed) * (e2e - first) / gap
	if whole := math.Round(n); whole >= 1 && math.Abs(n-whole) < 0.1 && whole < 1<<53 {
		return int64(whole)
	}
	return 0
}

// latency is one metric: from its samples, in seconds, or as the file states it. What
// lacks a part that the manifest wants is left out.
func (i *imported) latency(name string, sampled bool, samples []float64, n int64) *manifest.Latency {
	stated, missing := i.stated(name)
	if sampled && len(samples) > 0 {
		l := summarize(samples)
		i.agree(name, l)
		return l
	}
	if _, any := i.number("mean_" + name + "_ms"); !any || i.completed == 0 {
		return nil
	}
	if len(missing) > 0 {
		i.warnf("%s is left out: the file has no %s of it (--metric-percentiles 50,90,95,99, or --save-detailed).", strings.ToUpper(name), strings.Join(missing, ", "))
		return nil
	}
	switch {
	case name == "itl" && n > 0:
		i.warnf("The number of times between tokens, %d, is computed: the file does not hold it.", n)
	case name == "itl":
		n = max(1, i.completed)
		i.warnf("The number of times between tokens is not known; sample_count is that of the requests.")
	case name == "tpot":
		i.warnf("How many requests had more than one token is not known; sample_count of the time per output token is that of all.")
	}
	if stated.Mean == 0 && stated.P99 == 0 {
		return nil // vLLM's zeros for no samples
	}
	stated.SampleCount, stated.MeasurementStatus = n, "measured"
	return stated
}

// stated is what the file says of a metric, and the keys it lacks.
func (i *imported) stated(name string) (*manifest.Latency, []string) {
	l := &manifest.Latency{}
	var missing []string
	for _, f := range []struct {
		key string
		to  *float64
	}{{"mean", &l.Mean}, {"std", &l.Stddev}, {"p50", &l.P50}, {"p90", &l.P90}, {"p95", &l.P95}, {"p99", &l.P99}} {
		v, ok := i.number(f.key + "_" + name + "_ms")
		if !ok && f.key == "p50" {
			v, ok = i.number("median_" + name + "_ms")
		}
		if *f.to = v; !ok {
			missing = append(missing, f.key)
		}
	}
	return l, missing
}

// agree holds the file's statistics against those of its samples.
func (i *imported) agree(name string, l *manifest.Latency) {
	for _, f := range []struct {
		key  string
		want float64
	}{{"mean", l.Mean}, {"median", l.P50}, {"std", l.Stddev}, {"p50", l.P50}, {"p90", l.P90}, {"p95", l.P95}, {"p99", l.P99}} {
		key := fmt.Sprintf("%s_%s_ms", f.key, name)
		// A deviation of equal samples is rounding alone.
		if got, ok := i.number(key); ok && !near(got, f.want, 1e-6) && math.Abs(got-f.want) > 1e-9*l.Mean {
			i.badf(key, "%v, but the file's own samples give %v", got, f.want)
		}
	}
}

// summarize computes in milliseconds what the manifest has of a metric: percentiles
// by linear interpolation at rank (n-1)q, the population's standard deviation.
func summarize(seconds []float64) *manifest.Latency {
	v := make([]float64, len(seconds))
	for i, s := range seconds {
		v[i] = s * 1000
	}
	slices.Sort(v)
	value := func(i int) float64 { return v[i] }
	at := func(p float64) float64 { q, _ := stat.Quantile(len(v), value, p); return q }
	l := &manifest.Latency{P50: at(0.5), P90: at(0.9), P95: at(0.95), P99: at(0.99), SampleCount: int64(len(v)), MeasurementStatus: "measured"}
	l.Mean, _ = stat.Mean(len(v), value)
	l.Stddev, _ = stat.StdDev(len(v), value, l.Mean)
	return l
}
