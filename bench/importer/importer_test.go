package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/manifest"
)

func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func options(set ...string) Options {
	return Options{At: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Version: "0.1.0", Set: set}
}

// edited is a real result with other values; nil takes a key out.
func edited(t testing.TB, name string, edits map[string]any) []byte {
	t.Helper()
	var doc map[string]any
	if err := decode(read(t, name), &doc); err != nil {
		t.Fatal(err)
	}
	for key, value := range edits {
		if doc[key] = value; value == nil {
			delete(doc, key)
		}
	}
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A file of a real vLLM, with and without speculation: what it says of itself is what
// its arrays give, and the manifest holds both.
func TestImportOfRealFiles(t *testing.T) {
	for _, c := range []struct {
		file, want string
	}{
		{"serve.json", "completed fixed 64 fixed 32 closed_loop 8 64 0 openai-compatible-completions | 64 64 64 1984 | 20.610253609348206 27.662247360067337 3.917892025201252 142.064906390587"},
		{"speculative.json", "completed fixed 64 fixed 64 closed_loop 8 64 0 openai-compatible-completions | 64 64 64 1344 | 25.992598281263213 38.11852108008222 3.561251682292153 250.35145426566885"},
	} {
		m, err := Run(read(t, c.file), options())
		if err != nil {
			t.Fatal(err)
		}
		w, r := m.Workload, m.Results
		l := r.LatencyMS
		got := fmt.Sprintln(m.Outcome, w.InputTokens.Kind, w.InputTokens.Value, w.OutputTokens.Kind, w.OutputTokens.Value, w.ArrivalProcess, w.Concurrency, r.SuccessfulRequests, r.FailedRequests, w.EndpointType,
			"|", l.EndToEnd.SampleCount, l.TimeToFirstToken.SampleCount, l.TimePerOutputToken.SampleCount, l.InterToken.SampleCount)
		// The file's digits, up to the rounding of sums.
		for _, v := range []float64{l.TimeToFirstToken.Mean, l.TimeToFirstToken.P99, l.TimePerOutputToken.Mean, l.EndToEnd.Mean} {
			got += fmt.Sprintf(" %.12g", v)
		}
		before, after, _ := strings.Cut(c.want, " | ")
		counts, digits, _ := strings.Cut(after, " | ")
		want := before + " | " + counts + "\n"
		for _, word := range strings.Fields(digits) {
			want += " " + rounded(t, word)
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.file, got, want)
		}
		if m.Provenance.Source != "import" || m.Measurement.Harness != "vllm bench serve" || !strings.HasPrefix(m.Warnings[0], "Imported from a result file") {
			t.Errorf("%+v, %q, %q", m.Provenance, m.Measurement.Harness, m.Warnings)
		}
	}
}

func rounded(t *testing.T, word string) string {
	v, err := json.Number(word).Float64()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%.12g", v)
}

// Without the arrays there are fewer facts, and what is lacking is said.
func TestImportWithoutArrays(t *testing.T) {
	none := map[string]any{"input_lens": nil, "output_lens": nil, "ttfts": nil, "itls": nil, "start_times": nil, "generated_texts": nil, "errors": nil}
	m, err := Run(edited(t, "serve.json", none), options())
	if err != nil {
		t.Fatal(err)
	}
	if l := m.Results.LatencyMS; l.EndToEnd == nil || l.EndToEnd.SampleCount != 64 || l.TimeToFirstToken != nil || l.InterToken != nil {
		t.Errorf("%+v", l)
	}
	warned := strings.Join(m.Warnings, "\n")
	for _, want := range []string{
		"no input lengths (--save-detailed): they are taken as equal", "TTFT is left out: the file has no p90, p95 of it", "TPOT is left out", "ITL is left out", "does not name the data set", "(--set workload.random_seed=…)",
	} {
		if !strings.Contains(warned, want) {
			t.Errorf("no warning of %q in\n%s", want, warned)
		}
	}
	// With all percentiles the number of gaps follows from the means.
	for key, value := range map[string]any{"p90_ttft_ms": 24, "p95_ttft_ms": 25, "p90_itl_ms": 5, "p95_itl_ms": 6, "p90_tpot_ms": 4.1, "p95_tpot_ms": 4.2, "total_input_tokens": 4097, "total_token_throughput": nil} {
		none[key] = value
	}
	m, err = Run(edited(t, "serve.json", none), options("workload.dataset.generator=vllm-random", "workload.random_seed=7", "workload.output_tokens=32", "workload.warmup_request_count=8", "measurement.version=0.32", "measurement.extensions.a.b=1", "workload.stopping.ignore_eos=true", "workload.stopping.max_output_tokens=32"))
	if err != nil {
		t.Fatal(err)
	}
	l := m.Results.LatencyMS
	got := []any{l.InterToken.SampleCount, l.TimePerOutputToken.SampleCount, m.Workload.RandomSeed, m.Workload.OutputTokens.Value, m.Workload.Client.Version, m.Workload.InputTokens.Kind, m.Workload.InputTokens.Mean, fmt.Sprint(m.Measurement.Extensions["a.b"])}
	if diff := cmp.Diff([]any{int64(1984), int64(64), int64(7), int64(32), "0.32", "empirical", 4097.0 / 64, "1"}, got); diff != "" {
		t.Error(diff)
	}
	if warned := strings.Join(m.Warnings, "\n"); strings.Contains(warned, "seed") || strings.Contains(warned, "data set") || !strings.Contains(warned, "The number of times between tokens, 1984, is computed") {
		t.Error(warned)
	}
}

// The file of the Rust harness has other keys and lacks some.
func TestImportOfRust(t *testing.T) {
	rust := edited(t, "serve.json", map[string]any{
		"date": "2026-11-30T19:49:08.123456Z", "model_id": "", "queue_times": nil, "input_throughput": 3588.85, "max_model_len": 8192, "steady_state": nil, "generated_texts": nil, "errors": nil,
		"completed": 63, "failed": 1, "failed_requests": []any{map[string]any{"index": 0, "error": "HTTP 500 in /home/u/x"}}, "request_throughput": nil, "output_throughput": nil, "total_token_throughput": nil,
		"total_input_tokens": 63 * 64, "total_output_tokens": 63 * 32, "mean_ttft_ms": nil, "median_ttft_ms": nil, "std_ttft_ms": nil, "p99_ttft_ms": nil, "mean_tpot_ms": nil, "median_tpot_ms": nil, "std_tpot_ms": nil, "p99_tpot_ms": nil,
		"mean_itl_ms": nil, "median_itl_ms": nil, "std_itl_ms": nil, "p99_itl_ms": nil, "mean_e2el_ms": nil, "median_e2el_ms": nil, "std_e2el_ms": nil, "p99_e2el_ms": nil,
	})
	var doc map[string]any
	if err := decode(rust, &doc); err != nil {
		t.Fatal(err)
	}
	doc["output_lens"].([]any)[5], doc["latencies"].([]any)[5], doc["ttfts"].([]any)[5] = json.Number("0"), json.Number("0"), json.Number("0")
	rust, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Run(rust, options())
	if err != nil {
		t.Fatal(err)
	}
	if r := m.Results; r.FailedRequests != 1 || r.LatencyMS.InterToken.SampleCount != 63*31 || m.Subject.Identifier != "undeclared" || m.Workload.RequestCount != 64 {
		t.Errorf("%+v, %+v", r, m.Subject)
	}
	if text, err := manifest.Encode(m); err != nil || bytes.Contains(text, []byte("/home/u")) || !bytes.Contains(text, []byte(`"max_model_len": 8192`)) {
		t.Errorf("%v", err)
	}
}

func TestImportRefuses(t *testing.T) {
	for _, c := range []struct {
		why   string
		edits map[string]any
		set   []string
		want  string
	}{
		{"a rate of its own", map[string]any{"request_throughput": 57}, nil, "request_throughput: 57, but 64 / 1.1413137979998282 s is 56.07572616064143"},
		{"another mean", map[string]any{"mean_ttft_ms": 21}, nil, "mean_ttft_ms: 21, but the file's own samples give 20.6102536093482"},
		{"another percentile", map[string]any{"p99_itl_ms": 8}, nil, "p99_itl_ms: 8, but the file's own samples give 7.06060639030965"},
		{"another sum", map[string]any{"total_output_tokens": 2049, "output_throughput": nil, "total_token_throughput": nil}, nil, "total_output_tokens: 2049, but the lengths of the successful requests add up to 2048"},
		{"another count", map[string]any{"completed": 63}, nil, "completed: 63, but 64 of the 64 rows of the arrays are successful requests"},
		{"a count that is none", map[string]any{"completed": "many"}, nil, "completed: many; want a whole number, 0 or more"},
		{"no duration", map[string]any{"duration": nil}, nil, "duration: <nil>; want seconds above 0"},
		{"nothing of vLLM's", map[string]any{"completed": nil}, nil, "completed: is missing; want the result JSON of vllm bench serve"},
		{"a short array", map[string]any{"ttfts": []any{1}}, nil, "ttfts: 1 rows, but another array has 64"},
		{"words in an array", map[string]any{"ttfts": []any{"x"}}, nil, `ttfts[0]: x; want a number, 0 or more`},
		{"a result that is set", nil, []string{"results.duration_seconds=1"}, "set results.duration_seconds: cannot be set; want a key in name, notes, visibility, license, subject, environment, runtime, workload, measurement"},
		{"a setting without a value", nil, []string{"workload"}, `set "workload": want KEY=VALUE, such as workload.random_seed=0`},
		{"a key that is not there", nil, []string{"workload.sed=1"}, "set: the manifest would break the schema: /workload: additional properties 'sed' not allowed"},
		{"inside a number", nil, []string{"workload.random_seed.x=1"}, "set workload.random_seed.x: workload.random_seed is no object"},
		{"against the arithmetic", nil, []string{"workload.concurrency=2"}, "/results/latency_ms/end_to_end/mean (rule R13): "},
	} {
		m, err := Run(edited(t, "serve.json", c.edits), options(c.set...))
		if m != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", c.why, err, c.want)
		}
	}
}

func TestImportOfOtherLoads(t *testing.T) {
	for _, c := range []struct {
		why   string
		edits map[string]any
		want  string
	}{
		{"Poisson", map[string]any{"request_rate": 60, "max_concurrency": nil}, "completed text_generation poisson 60 0"},
		{"gamma", map[string]any{"request_rate": 60.5, "burstiness": 0.5}, "completed text_generation gamma 60.5 8"},
		{"constant", map[string]any{"request_rate": 60, "burstiness": "inf"}, "completed text_generation constant 60 8"},
		{"a ramp", map[string]any{"ramp_up_strategy": "linear", "ramp_up_start_rps": 1}, "completed text_generation ramp 0 8"},
		{"all at once", map[string]any{"max_concurrency": nil}, "completed text_generation closed_loop 0 64"},
		{"pooled", map[string]any{"backend": "openai-embeddings", "failed": nil, "total_output_tokens": nil, "output_throughput": nil, "output_lens": nil, "total_token_throughput": nil, "itls": nil, "ttfts": nil,
			"mean_ttft_ms": nil, "mean_itl_ms": nil, "mean_tpot_ms": nil}, "completed embedding closed_loop 0 8"},
		{"nothing", map[string]any{"completed": 0, "failed": 64, "total_input_tokens": 0, "total_output_tokens": 0, "request_throughput": 0, "output_throughput": 0, "total_token_throughput": 0, "input_lens": nil, "output_lens": nil, "ttfts": nil, "itls": nil, "latencies": nil,
			"mean_ttft_ms": 0}, "failed text_generation closed_loop 0 8"},
		{"ours, interrupted", map[string]any{"outcome": "interrupted", "servebench": map[string]any{"version": "0.1.0"}, "num_prompts": 100}, "interrupted text_generation closed_loop 0 8"},
	} {
		m, err := Run(edited(t, "serve.json", c.edits), options())
		if err != nil {
			t.Errorf("%s: %v", c.why, err)
			continue
		}
		rate := 0.0
		if p := m.Workload.RequestRatePerSecond; p != nil {
			rate = *p
		}
		if got := fmt.Sprintln(m.Outcome, m.Workload.Task, m.Workload.ArrivalProcess, rate, m.Workload.Concurrency); got != c.want+"\n" {
			t.Errorf("%s: got %s, want %s", c.why, got, c.want)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
		err  string
	}{
		{"{\"a\": NaN, \"b\": Infinity,\n\"c\": [-Infinity, \"NaN \\\" Infinity\"]}\n", []string{"{\"a\": null, \"b\": \"inf\",\n\"c\": [null, \"NaN \\\" Infinity\"]}"}, ""},
		{"{\"a\":1}\n{\"a\":2}", []string{`{"a":1}`, `{"a":2}`}, ""},
		{" \n", nil, "the file is empty; want the result JSON of vllm bench serve"},
		{"{}\n{\"a\":,}", nil, "the result from line 2: invalid character ',' looking for beginning of value; want the result JSON of vllm bench serve"},
	} {
		results, err := Split([]byte(c.in))
		var got []string
		for _, r := range results {
			got = append(got, string(r))
		}
		if !slices.Equal(got, c.want) || (err != nil || c.err != "") && fmt.Sprint(err) != c.err {
			t.Errorf("%q: got %q, %v", c.in, got, err)
		}
	}
}

// numpy: percentile([1,2,3,4,10], 90) is 7.6, std 3.1622776601683795.
func TestSummarize(t *testing.T) {
	l := summarize([]float64{0.010, 0.001, 0.004, 0.002, 0.003})
	if math.Abs(l.P90-7.6) > 1e-12 || l.P50 != 3 || l.Mean != 4 || math.Abs(l.Stddev-3.1622776601683795) > 1e-12 || l.SampleCount != 5 {
		t.Errorf("%+v", l)
	}
	if one := summarize([]float64{2}); one.P99 != 2000 || one.Stddev != 0 {
		t.Errorf("%+v", one)
	}
}

// Whatever comes in: an error, or a manifest that is valid and verifies.
func FuzzImport(f *testing.F) {
	small := edited(f, "serve.json", map[string]any{"input_lens": nil, "output_lens": nil, "ttfts": nil, "itls": nil, "start_times": nil, "generated_texts": nil, "errors": nil, "latencies": nil, "queue_times": nil})
	f.Add(small, "workload.random_seed=1")
	f.Add([]byte(`{"completed":1,"total_input_tokens":2,"total_output_tokens":3,"duration":1e-300,"itls":[[1]],"latencies":[1],"ttfts":[2]}`), "a=b")
	f.Add([]byte(`{"completed":NaN}`), "workload.extensions.a.b={}")
	f.Fuzz(func(t *testing.T, data []byte, set string) {
		results, err := Split(data)
		if err != nil {
			return
		}
		for _, r := range results {
			m, err := Run(r, options(set))
			if (m == nil) == (err == nil) {
				t.Fatalf("%v and %v", m, err)
			}
			if m == nil {
				continue
			}
			text, err := manifest.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			for _, finding := range manifest.Verify(text, nil) {
				if finding.Severity == manifest.Fail {
					t.Error(finding)
				}
			}
		}
	})
}

// A host file has all devices of the machine; the manifest has those that the
// launch commands use.
func TestImportTakesTheDevicesInUse(t *testing.T) {
	host := func() *manifest.Environment {
		return &manifest.Environment{Accelerators: []manifest.Accelerator{{Count: 4, Model: "A", DeviceIndices: []int{0, 1, 2, 3}, Interconnect: "PCIe 5.0"}}}
	}
	for _, c := range []struct {
		launch       string
		count        int
		indices      string
		interconnect string
	}{
		{"CUDA_VISIBLE_DEVICES=3 vllm serve m", 1, "[3]", "single device"},
		{"vllm serve m -tp 2", 2, "[]", "PCIe 5.0"},
		{"CUDA_VISIBLE_DEVICES=2,1,0 vllm serve m -tp 2", 2, "[1 2]", "PCIe 5.0"},
		{"CUDA_VISIBLE_DEVICES=1 vllm serve m\nCUDA_VISIBLE_DEVICES=3 vllm serve m", 2, "[1 3]", "PCIe 5.0"},
		{"CUDA_VISIBLE_DEVICES=GPU-1 vllm serve m", 1, "[]", "single device"},
		{"", 4, "[0 1 2 3]", "PCIe 5.0"},
	} {
		o := &Options{Environment: host()}
		if c.launch != "" {
			o.Runtime, _ = new(manifest.Redactor).Served(c.launch)
		}
		a := (&imported{o: o}).environment().Accelerators[0]
		if a.Count != c.count || fmt.Sprint(a.DeviceIndices) != c.indices || a.Interconnect != c.interconnect || o.Environment.Accelerators[0].Count != 4 {
			t.Errorf("%q: %+v; the host's %+v", c.launch, a, o.Environment.Accelerators[0])
		}
	}
}
