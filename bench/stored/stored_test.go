package stored_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/servebench/servebench/bench/gate"
	"github.com/servebench/servebench/bench/stored"
)

func reference(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile("../../manifest/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func one(t *testing.T, name string, data []byte) stored.Run {
	t.Helper()
	runs, err := stored.Read(name, data)
	if err != nil || len(runs) != 1 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	return runs[0]
}

func TestReadManifest(t *testing.T) {
	r := one(t, "a.json", reference(t, "seed-run-1.json"))
	if r.Form != stored.Manifest || r.Completed != 256 || r.OutputTokens != 65536 || !r.IgnoreEOS || r.Simulated {
		t.Errorf("%+v", r)
	}
	m := r.Metric("output_throughput")
	if m == nil || m.Value != 990.1369021961951 || m.Better != gate.Higher || m.Unit != gate.PerSecond {
		t.Errorf("%+v", m)
	}
	if m := r.Metric("median_itl"); m == nil || m.Value != 12.606250355020165 || m.Better != gate.Lower {
		t.Errorf("the median stands under p50: %+v", m)
	}
	for _, want := range []stored.Fact{
		{stored.Model, "model", "google/gemma-4-12B-it"}, {stored.UnderTest, "engine_version", "0.23.0+cu129"},
		{stored.UnderTest, "--max-num-seqs", "64"}, {stored.Workload, "concurrency", "16"}, {stored.Client, "client", "vllm bench serve"},
		{stored.Machine, "driver", "{nvidia: 580.173.02}"},
	} {
		if !slices.Contains(r.Facts, want) {
			t.Errorf("no %+v in %+v", want, r.Facts)
		}
	}
}

const ours = `{"date": "20261201-061851", "backend": "openai", "model_id": "m", "num_prompts": 60, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 8,
 "duration": 0.67, "completed": 60, "failed": 0, "total_output_tokens": 1920, "output_throughput": 2844.5, "mean_ttft_ms": 21.7, "median_ttft_ms": 20.9, "p99_ttft_ms": null, "p99_itl_ms": 5.9,
 "p99_made_up_ms": 4, "simulated": true, "outcome": "completed", "servebench": {"version": "0.1.0", "verdict": "SUSPECT", "verdict_reasons": ["late"],
 "ttft_token_ms": {"n": 60, "mean": 21.7, "median": 20.8, "p99": 25.5, "source": "hdr3"}, "dataset_sha256": "cf60",
 "steady_state": {"output_tokens_per_second": 2900.5}, "throughput": {"output_tokens_per_second": {"value": 2900.5, "ci95": {"low": 2890, "high": 2910}}},
 "percentile_intervals": {"itl": {"source": "hdr3", "p99": [5.5, 6.5], "p50": null}, "ttft_token": {"p99": {"low": 25, "high": 26}}}}}`

func TestReadResult(t *testing.T) {
	r := one(t, "a.json", []byte(ours))
	if r.Form != stored.Result || !r.Simulated || r.Verdict != "SUSPECT" || !slices.Equal(r.Reasons, []string{"late"}) || r.At.Year() != 2026 {
		t.Errorf("%+v", r)
	}
	var names []string
	for _, m := range r.Metrics {
		names = append(names, m.Name)
	}
	want := "duration completed failed total_output_tokens output_throughput mean_ttft median_ttft p99_itl mean_ttft_token median_ttft_token p99_ttft_token steady_output_throughput"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("metrics %s\nwant    %s", got, want)
	}
	for _, c := range []struct {
		name      string
		low, high float64
	}{{"p99_itl", 5.5, 6.5}, {"p99_ttft_token", 25, 26}, {stored.SteadyThroughput, 2890, 2910}} {
		if m := r.Metric(c.name); m == nil || m.Low == nil || *m.Low != c.low || *m.High != c.high {
			t.Errorf("%s: %+v", c.name, m)
		}
	}
	if m := r.Metric("p99_itl"); m.Source != "hdr3" {
		t.Errorf("%+v", m)
	}
	if m := r.Metric("p99_ttft_token"); m.Source != "hdr3" {
		t.Errorf("%+v", m)
	}
	if r.Metric("p99_ttft") != nil || r.Metric("p99_made_up") != nil {
		t.Error("null or an unknown metric is one")
	}
}

func TestReadVLLM(t *testing.T) {
	text := `{"date": "20260101-000000", "backend": "vllm", "model_id": "m", "tokenizer_id": "m", "duration": 2.0, "completed": 2, "failed": 0, "output_throughput": 64.0, "request_rate": "inf", "mean_ttft_ms": NaN}
{"backend": "vllm", "model_id": "n", "duration": 4.0, "completed": 2, "output_throughput": 32.0, "request_rate": 4.0}`
	runs, err := stored.Read("v.json", []byte(text))
	if err != nil || len(runs) != 2 || runs[0].Form != stored.VLLM || runs[1].Name != "v.json:2" {
		t.Fatalf("%+v %v", runs, err)
	}
	if runs[0].Metric("mean_ttft") != nil {
		t.Error("NaN is a number")
	}
	diffs := stored.Differences(runs)
	var keys []string
	for _, d := range diffs {
		if !d.Unknown {
			keys = append(keys, d.Key)
		}
	}
	if !slices.Equal(keys, []string{"model"}) {
		t.Errorf("%+v", diffs)
	}
	var unknown []string
	for _, d := range diffs {
		if d.Unknown {
			unknown = append(unknown, d.Key)
		}
	}
	if !slices.Equal(unknown, []string{"tokenizer", "request_rate"}) {
		t.Errorf("%+v", diffs)
	}
}

// Of equal facts there is no difference, in whatever order an object has its keys.
func TestDifferences(t *testing.T) {
	a := one(t, "a", reference(t, "seed-run-1.json"))
	b := one(t, "b", []byte(strings.ReplaceAll(string(reference(t, "seed-run-1.json")), "580.173.02", "590.1")))
	if d := stored.Differences([]stored.Run{a, a}); len(d) != 0 {
		t.Errorf("%+v", d)
	}
	d := stored.Differences([]stored.Run{a, b})
	if len(d) != 2 || d[0].Key != "driver" && d[1].Key != "driver" || d[0].Class != stored.Machine {
		t.Errorf("%+v", d)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"empty": " \n", "no JSON": "hello", "cut off": ours[:300], "null": "null", "array": "[1]", "number": "7", "other JSON": `{"a":1}`,
		"experiment": string(reference(t, "seed-experiment.json")), "second is none": ours + "\n{}",
	} {
		if runs, err := stored.Read("x.json", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "x.json") {
			t.Errorf("%s: %d runs, %v", name, len(runs), err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(ours))
	f.Add([]byte(`{"kind":"run","results":{"latency_ms":{"inter_token":{"p50":1e999}}},"measurement":{"extensions":{"servebench.goodput":[1,2]}}}`))
	f.Add([]byte(`{"manifest":{"kind":"run","runtime":{"parameters":{"server":{"a":{"b":[1,{"c":null}]}}}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		runs, err := stored.Read("x", data)
		if err != nil {
			return
		}
		for _, r := range runs {
			for _, m := range r.Metrics {
				if m.Value-m.Value != 0 || m.Name == "" {
					t.Errorf("%+v", m)
				}
			}
		}
		stored.Differences(runs)
	})
}

// A manifest is written from the same duration by another path: its last digits may
// be rounded.
func TestOfSameRun(t *testing.T) {
	result := one(t, "a.json", []byte(strings.Replace(ours, `"duration": 0.67`, `"duration": 5.893165813`, 1)))
	for seconds, same := range map[string]bool{"5.893165813": true, "5.8931658129999995": true, "5.89317": false, "5.89316": false} {
		other := one(t, "b.json", []byte(strings.Replace(ours, `"duration": 0.67`, `"duration": `+seconds, 1)))
		if got := other.OfSameRun(&result); got != same {
			t.Errorf("%s s beside 5.893165813 s: %v", seconds, got)
		}
	}
}
