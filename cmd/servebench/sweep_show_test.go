package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/bench/report"
	"github.com/servebench/servebench/manifest"
	"github.com/servebench/servebench/metrics"
)

// A run's figures have the intervals that its manifest has, and none where it says
// null, or where it is of a version that says something else.
func TestFiguresHaveTheirIntervals(t *testing.T) {
	run := func(ext map[string]any) *manifest.Run {
		m := &manifest.Run{Results: &manifest.Results{}}
		m.Results.Throughput.RequestsPerSecond.Value = 4
		m.Results.LatencyMS.TimeToFirstToken = &manifest.Latency{P50: 50, P99: 90}
		m.Measurement.Extensions = ext
		return m
	}
	plain := report.Figures{Requests: 4, TTFT: &report.Quantiles{P50: 50, P99: 90}}
	sure := plain
	sure.TTFT = &report.Quantiles{P50: 50, P99: 90, P50Interval: &metrics.Interval{Low: 49, High: 52}}
	sure.RequestsInterval, sure.Verdict = &metrics.Interval{Low: 3, High: 5}, metrics.Suspect
	for _, c := range []struct {
		name string
		ext  map[string]any
		want report.Figures
	}{
		{"nothing said", nil, plain},
		{"another version", map[string]any{"servebench.percentile_intervals": "none"}, plain},
		{"intervals", map[string]any{
			"servebench.verdict":              "SUSPECT",
			"servebench.percentile_intervals": map[string]any{"ttft_token": map[string]any{"p50": []any{49.0, 52.0}, "p99": nil}},
			"servebench.throughput":           map[string]any{"from_ns": 0.0, "requests_per_second": map[string]any{"ci95": map[string]any{"low": 3.0, "high": 5.0}}},
		}, sure},
	} {
		if diff := cmp.Diff(c.want, figures(run(c.ext))); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}
