package stored

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/servebench/servebench/bench/gate"
)

// Known tells the unit of a metric by its canonical name, and whether a result can
// have one of that name.
func Known(name string) (gate.Unit, bool) {
	for _, p := range plain {
		if p.name == name {
			return p.unit, true
		}
	}
	switch name {
	case SteadyThroughput:
		return gate.PerSecond, true
	case "goodput_share":
		return gate.Fraction, true
	}
	stat, metric, ok := strings.Cut(name, "_")
	if !ok || !statistic(stat) {
		return "", false
	}
	_, own := ownLatencies[metric]
	return gate.Milliseconds, own || slices.Contains(latencies, metric)
}

// statistic tells mean, median, std and percentiles: p50, p99.9.
func statistic(s string) bool {
	if s == "mean" || s == "median" || s == "std" {
		return true
	}
	number, ok := strings.CutPrefix(s, "p")
	if !ok {
		return false
	}
	v, err := strconv.ParseFloat(number, 64)
	return err == nil && v >= 0 && v <= 100 && number[0] != '+'
}

// Hint says what runs have in place of a metric that they lack: a manifest has the
// token reading of latencies, and vLLM's result the other one. "" is no hint.
func Hint(runs []Run, name string) string {
	other := name + "_token"
	if plain, ok := strings.CutSuffix(name, "_token"); ok {
		other = plain
	}
	for i := range runs {
		if runs[i].Metric(name) == nil && runs[i].Metric(other) != nil {
			return fmt.Sprintf(" %s has %s, the other reading of it.", runs[i].Name, other)
		}
	}
	return ""
}

// Names are examples of metrics, for messages.
func Names() []string {
	return []string{
		"output_throughput", SteadyThroughput, "request_throughput", "total_token_throughput", "request_goodput", "mean_ttft", "p50_ttft", "p99_ttft",
		"p50_itl", "p99_itl", "p50_tpot", "p99_tpot", "p50_e2el", "p99_e2el", "p99_ttft_token", "p99_itl_token", "completed", "failed", "duration",
	}
}
