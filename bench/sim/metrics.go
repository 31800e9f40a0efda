package sim

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// metrics answers /metrics with the families of vLLM's that a load generator reads, under vLLM's names, types and help.
// There is no prefix cache and no preemption, so hits and preemptions stay 0. A request whose client left counts in
// neither request_success_total reason, as in vLLM.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	running, waiting := s.slots.load()
	labels := `engine="0",model_name="` + labelValue(s.modelName()) + `"`
	var b []byte
	family := func(name, kind, help string) {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	sample := func(name, labels string, value uint64) {
		b = fmt.Appendf(b, "%s{%s} %s.0\n", name, labels, strconv.FormatUint(value, 10))
	}
	for _, m := range [...]struct {
		name, kind, help string
		value            uint64
	}{
		{"vllm:num_requests_running", "gauge", "Number of requests in model execution batches.", uint64(running)},
		{"vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", uint64(waiting)},
		{"vllm:prefix_cache_queries_total", "counter", "Prefix cache queries, in terms of number of queried tokens.", s.queried.Load()},
		{"vllm:prefix_cache_hits_total", "counter", "Prefix cache hits, in terms of number of cached tokens.", 0},
		{"vllm:num_preemptions_total", "counter", "Cumulative number of preemption from the engine.", 0},
		{"vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", s.promptTokens.Load()},
		{"vllm:generation_tokens_total", "counter", "Number of generation tokens processed.", s.generated.Load()},
	} {
		family(m.name, m.kind, m.help)
		sample(m.name, labels, m.value)
	}
	family("vllm:request_success_total", "counter", "Count of successfully processed requests.")
	for _, reason := range [...]string{"stop", "length", "abort", "error", "repetition"} {
		value := uint64(0)
		switch reason {
		case "stop":
			value = s.pooled.Load()
		case "length":
			value = s.finished.Load()
		}
		engine, model, _ := strings.Cut(labels, ",")
		sample("vllm:request_success_total", engine+`,finished_reason="`+reason+`",`+model, value)
	}
	family("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
	sample("vllm:cache_config_info", `block_size="16",cache_dtype="auto",enable_prefix_caching="False",`+labels+`,num_gpu_blocks="None"`, 1)

	w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b) // the client is gone: there is nobody to tell
}

// labelValue escapes what the Prometheus text format asks for.
func labelValue(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
}
