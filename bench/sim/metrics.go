package sim

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// metrics answers /metrics with the families of vLLM's that a load generator reads, under vLLM's names, types and help.
// Without an engine there is no prefix cache and no preemption, so hits and preemptions stay 0. A request whose client left
// counts in neither request_success_total reason, as in vLLM.
func (s *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	labels := `engine="0",model_name="` + labelValue(s.modelName()) + `"`
	var b []byte
	family := func(name, kind, help string) {
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	sample := func(name, labels string, value uint64) {
		b = fmt.Appendf(b, "%s{%s} %s.0\n", name, labels, strconv.FormatUint(value, 10))
	}
	st := s.state()
	for _, m := range [...]struct {
		name, kind, help string
		value            uint64
	}{
		{"vllm:num_requests_running", "gauge", "Number of requests in model execution batches.", uint64(st.running)},
		{"vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", uint64(st.waiting)},
		{"vllm:prefix_cache_queries_total", "counter", "Prefix cache queries, in terms of number of queried tokens.", st.queries},
		{"vllm:prefix_cache_hits_total", "counter", "Prefix cache hits, in terms of number of cached tokens.", st.hits},
		{"vllm:num_preemptions_total", "counter", "Cumulative number of preemption from the engine.", st.preemptions},
		{"vllm:prompt_tokens_total", "counter", "Number of prefill tokens processed.", st.promptTokens},
		{"vllm:generation_tokens_total", "counter", "Number of generation tokens processed.", st.generated},
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
	if s.engine == nil {
		sample("vllm:cache_config_info", `block_size="16",cache_dtype="auto",enable_prefix_caching="False",`+labels+`,num_gpu_blocks="None"`, 1)
	} else {
		b = s.engineMetrics(b, st, labels)
	}

	w.Header().Set("Content-Type", "text/plain; version=1.0.0; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b) // the client is gone: there is nobody to tell
}

// state is that of the engine, or of the formula where there is none.
func (s *Server) state() state {
	if s.engine != nil {
		return s.engine.state()
	}
	running, waiting := s.slots.load()
	return state{running: running, waiting: waiting, tally: tally{
		queries: s.queried.Load(), promptTokens: s.promptTokens.Load(), generated: s.generated.Load(),
	}}
}

// engineMetrics appends what only an engine has.
func (s *Server) engineMetrics(b []byte, st state, labels string) []byte {
	e := s.engine.core.Engine // its settings never change
	b = fmt.Appendf(b, "vllm:cache_config_info{block_size=\"%d\",cache_dtype=\"%s\",enable_prefix_caching=\"%s\",engine=\"0\","+
		"gpu_memory_utilization=\"%s\",kv_cache_size_tokens=\"%d\",model_name=\"%s\",num_gpu_blocks=\"%d\"} 1.0\n",
		e.BlockSize, labelValue(e.CacheDtype), pythonBool(e.PrefixCaching), pythonFloat(e.GPUMemoryUtilization),
		e.blocks()*e.BlockSize, labelValue(s.modelName()), e.blocks())
	b = fmt.Appendf(b, "# HELP vllm:kv_cache_usage_perc KV-cache usage. 1 means 100 percent usage.\n"+
		"# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{%s} %s\n", labels, pythonFloat(st.usage))
	if e.SpeculativeTokens == 0 {
		return b
	}
	for _, m := range [...]struct {
		name, help string
		value      uint64
	}{
		{"drafts", "Number of spec decoding drafts.", st.drafts},
		{"draft_tokens", "Number of draft tokens.", st.drafted},
		{"accepted_tokens", "Number of accepted tokens.", st.matched},
	} {
		name := "vllm:spec_decode_num_" + m.name + "_total"
		b = fmt.Appendf(b, "# HELP %s %s\n# TYPE %s counter\n%s{%s} %d.0\n", name, m.help, name, name, labels, m.value)
	}
	const perPosition = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
	b = fmt.Appendf(b, "# HELP %s Accepted tokens per draft position.\n# TYPE %s counter\n", perPosition, perPosition)
	for i, n := range st.matchedAt {
		b = fmt.Appendf(b, "%s{%s,position=\"%d\"} %d.0\n", perPosition, labels, i, n)
	}
	return b
}

func pythonBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// labelValue escapes what the Prometheus text format asks for.
func labelValue(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s)
}
