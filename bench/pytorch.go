package bench

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/servebench/servebench/loadgen/openai"
)

// pytorchMetrics are those that vLLM hands to PyTorch's benchmark data base, in
// its order.
var pytorchMetrics = []string{
	"median_ttft_ms", "mean_ttft_ms", "std_ttft_ms", "p99_ttft_ms",
	"mean_tpot_ms", "median_tpot_ms", "std_tpot_ms", "p99_tpot_ms",
	"median_itl_ms", "mean_itl_ms", "std_itl_ms", "p99_itl_ms",
}

// pytorch is the result in the form of PyTorch's benchmark data base, a record for
// each metric; nil where it has none of them. result is the result file.
func (r *Result) pytorch(f Files, result *object) ([]byte, error) {
	info := new(object)
	for _, k := range result.keys {
		big := []string{"ttfts", "itls", "generated_texts", "errors", "servebench"}
		if !slices.Contains(pytorchMetrics, k) && !slices.Contains(big, k) {
			info.set(k, result.values[k])
		}
	}
	about := r.pytorchExtra(f, info)
	var records []*object
	for _, name := range pytorchMetrics {
		value, ok := result.values[name]
		if !ok {
			continue
		}
		record := new(object)
		record.set("benchmark", newObject("name", "vLLM benchmark", "extra_info", about))
		record.set("model", newObject("name", r.redactor().Hide(r.Config.Model)))
		record.set("metric", newObject("name", name, "benchmark_values", []any{value}, "extra_info", info))
		records = append(records, record)
	}
	if records == nil {
		return nil, nil
	}
	return json.Marshal(records)
}

// pytorchExtra is what a record says of its benchmark. Metadata may tell how the
// server was compiled and spread.
func (r *Result) pytorchExtra(f Files, info *object) *object {
	args := maps.Clone(f.Args)
	if args == nil {
		args = map[string]any{}
	}
	if args["header"] != nil {
		args["header"] = "***"
	}
	if base, ok := args["base_url"].(string); ok {
		args["base_url"] = openai.PublicURL(base) // a password may stand in it
	}
	if tp, ok := info.values["tensor_parallel_size"]; ok && (args["tensor_parallel_size"] == nil || args["tensor_parallel_size"] == 0) {
		args["tensor_parallel_size"] = tp
	}
	for key, value := range args {
		args[key] = hidden(r.redactor(), value)
	}
	known := func(key string) any {
		if v, ok := info.values[key]; ok {
			return v
		}
		return ""
	}
	mode := known("compilation_config.mode")
	eager := strings.Contains(filepath.Base(f.Result), "eager")
	return newObject("args", args, "compilation_config.mode", mode, "optimization_level", known("optimization_level"),
		"use_compile", mode != "0" && !eager)
}

// newObject makes an object of keys and values in turn.
func newObject(pairs ...any) *object {
	o := new(object)
	for i := 0; i < len(pairs); i += 2 {
		o.set(pairs[i].(string), pairs[i+1])
	}
	return o
}
