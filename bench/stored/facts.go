package stored

import (
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/bench/gate"
)

// resultFacts are those of a result JSON. Keys are those of a manifest where both
// have a thing.
func (r *Run) resultFacts(doc, own gjson.Result) {
	r.fact(Model, "model", doc.Get("model_id"))
	r.fact(Model, "tokenizer", doc.Get("tokenizer_id"))
	r.fact(Workload, "endpoint", doc.Get("backend"))
	r.fact(Workload, "request_count", doc.Get("num_prompts"))
	if v := doc.Get("request_rate"); v.Type == gjson.Number {
		r.fact(Workload, "request_rate", v)
	}
	r.fact(Workload, "burstiness", doc.Get("burstiness"))
	r.fact(Workload, "concurrency", doc.Get("max_concurrency"))
	r.fact(Workload, "dataset_sha256", own.Get("dataset_sha256"))
	r.fact(Workload, "dataset_generator", own.Get("dataset_generator"))
	r.fact(Client, "client_version", own.Get("version"))
	if r.Form == Result {
		r.Facts = append(r.Facts, Fact{Client, "client", "servebench"})
	} else {
		r.Facts = append(r.Facts, Fact{Client, "client", "vllm bench serve"})
	}
	// vLLM's own file does not say whether it told servers to ignore the end of
	// text; equal counts for each request do.
	r.IgnoreEOS = false
}

// manifestMetrics are the names of a manifest's latencies.
var manifestMetrics = []struct{ key, name string }{
	{"time_to_first_token", "ttft"}, {"time_per_output_token", "tpot"}, {"inter_token", "itl"}, {"end_to_end", "e2el"},
}

// readManifest reads a manifest of kind run. Its latencies are over token-bearing
// events, where vLLM's file has those over events with choices; the names say so: they
// are the names of the token reading unless the harness is vLLM's.
func readManifest(doc gjson.Result) (Run, error) {
	res, ext := doc.Get("results"), doc.Get("measurement.extensions")
	r := Run{Form: Manifest, Outcome: doc.Get("outcome").String()}
	r.Completed, r.Failed = res.Get("successful_requests").Int(), res.Get("failed_requests").Int()
	r.OutputTokens = res.Get("total_output_tokens").Int()
	r.IgnoreEOS = doc.Get("workload.stopping.ignore_eos").Bool()
	r.Simulated = field(ext, "servebench.simulated").Bool()
	r.At, _ = time.Parse(time.RFC3339, doc.Get("provenance.generated_at").String())
	if at, err := time.Parse(time.RFC3339, field(ext, "servebench.started_at").String()); err == nil {
		r.At = at
	}
	r.judged(field(ext, "servebench.verdict"), field(ext, "servebench.verdict_reasons"))
	r.take("duration", gate.Seconds, "", res.Get("duration_seconds"), "")
	r.take("completed", gate.Number, gate.Higher, res.Get("successful_requests"), "")
	r.take("failed", gate.Number, gate.Lower, res.Get("failed_requests"), "")
	r.take("total_input_tokens", gate.Number, "", res.Get("total_input_tokens"), "")
	r.take("total_output_tokens", gate.Number, "", res.Get("total_output_tokens"), "")
	r.take("request_throughput", gate.PerSecond, gate.Higher, res.Get("throughput.requests_per_second.value"), "")
	r.take("output_throughput", gate.PerSecond, gate.Higher, res.Get("throughput.output_tokens_per_second.value"), "")
	r.take("total_token_throughput", gate.PerSecond, gate.Higher, res.Get("throughput.total_tokens_per_second.value"), "")
	suffix := ""
	if strings.HasPrefix(doc.Get("measurement.harness").String(), "servebench") {
		suffix = "_token"
	}
	for _, m := range manifestMetrics {
		d := res.Get("latency_ms." + m.key)
		for _, stat := range []string{"mean", "p50", "p90", "p95", "p99"} {
			r.take(stat+"_"+m.name+suffix, gate.Milliseconds, gate.Lower, d.Get(stat), "")
		}
		r.take("std_"+m.name+suffix, gate.Milliseconds, gate.Lower, d.Get("stddev"), "")
	}
	r.own(ext)
	r.manifestFacts(doc)
	return r, nil
}

func (r *Run) manifestFacts(doc gjson.Result) {
	for _, f := range []struct {
		class     Class
		key, path string
	}{
		{Model, "model", "subject.identifier"}, {Model, "revision", "subject.revision"}, {Model, "quantization", "subject.quantization"},
		{Model, "tokenizer", "workload.tokenizer.identifier"}, {Model, "tokenizer_revision", "workload.tokenizer.revision"},
		{UnderTest, "engine", "runtime.engine"}, {UnderTest, "engine_version", "runtime.version"}, {UnderTest, "build", "runtime.build_identifier"},
		{UnderTest, "parallelism", "runtime.parallelism"},
		{Workload, "endpoint", "workload.client.backend"}, {Workload, "task", "workload.task"}, {Workload, "streaming", "workload.streaming"},
		{Workload, "arrival_process", "workload.arrival_process"}, {Workload, "request_count", "workload.request_count"},
		{Workload, "request_rate", "workload.request_rate_per_second"}, {Workload, "concurrency", "workload.concurrency"},
		{Workload, "input_tokens", "workload.input_tokens"}, {Workload, "output_tokens", "workload.output_tokens"},
		{Workload, "sampling", "workload.sampling"}, {Workload, "stopping", "workload.stopping"}, {Workload, "seed", "workload.random_seed"},
		{Workload, "dataset_sha256", "workload.dataset.sha256"}, {Workload, "dataset_generator", "workload.dataset.generator"},
		{Workload, "warmups", "workload.warmup_request_count"},
		{Machine, "cpu", "environment.cpu"}, {Machine, "kernel", "environment.kernel"}, {Machine, "driver", "environment.driver_versions"},
		{Client, "client", "measurement.harness"}, {Client, "client_version", "measurement.version"}, {Client, "placement", "workload.client.placement"},
	} {
		// A simulator's subject stands in for the model that the flags named.
		if r.Simulated && f.class == Model && strings.HasPrefix(f.path, "subject.") {
			continue
		}
		r.fact(f.class, f.key, doc.Get(f.path))
	}
	for i, a := range doc.Get("environment.accelerators").Array() {
		key := "gpu"
		if i > 0 {
			key = "gpu_" + string(rune('0'+i%10))
		}
		r.fact(Machine, key, a)
	}
	server := doc.Get("runtime.parameters.server")
	for _, k := range keysOf(server) {
		r.fact(UnderTest, "--"+strings.ReplaceAll(k, "_", "-"), field(server, k))
	}
}
