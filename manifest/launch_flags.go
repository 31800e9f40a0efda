package manifest

import (
	"strings"
	"sync"
)

// serverFlags are the options of vLLM 0.32's `serve`, without dashes, by how many
// words each takes: none (and then there is a --no- form), one, or several.
// Options of other versions are read by their looks.
const (
	serverSwitches = `
aggregate-engine-logging allow-credentials allow-deprecated-quantization async-scheduling cohere-is-reasoning-model
cudagraph-metrics data-parallel-external-lb data-parallel-hybrid-lb data-parallel-multi-port-external-lb
dcp-q-replicate disable-cascade-attn disable-chunked-mm-input disable-custom-all-reduce disable-fastapi-docs
disable-hybrid-kv-cache-manager disable-log-stats disable-nccl-for-dp-synchronization disable-sliding-window
disable-uvicorn-access-log enable-auto-tool-choice enable-batch-sharded-sampling enable-chunked-prefill
enable-cumem-allocator enable-dbo enable-elastic-ep enable-ep-weight-filter enable-eplb enable-expert-parallel
enable-fault-tolerance enable-flash-late-interaction enable-flashinfer-autotune enable-force-include-usage
enable-hc-sp enable-layerwise-nvtx-tracing enable-log-deltas enable-log-outputs enable-log-requests
enable-logging-iteration-details enable-lora enable-mamba-cache-stochastic-rounding
enable-mamba-shared-prefix-checkpoint enable-mfu-metrics enable-mixed-moe-lora-format enable-mm-embeds
enable-moe-shared-loras enable-nccl-comm-suspend enable-offline-docs enable-per-request-metrics enable-prefix-caching
enable-prompt-embeds enable-prompt-tokens-details enable-request-id-headers enable-return-routed-experts
enable-scale-out enable-server-load-tracking enable-shm-tensor-arena enable-sleep-mode enable-ssl-refresh
enable-tokenizer-info-endpoint enable-tower-connector-lora enable-trace-replay enforce-eager
exclude-tools-when-tool-choice-none fail-on-environ-validation fully-sharded-loras grpc headless interleave-mm-strings
jit-monitor-verbose kv-cache-metrics kv-sharing-fast-prefill language-model-only log-error-stack
long-prefill-token-threshold-adaptive mm-device-do-normalize mm-encoder-only numa-bind ray-workers-use-nsight
return-sampling-mask return-tokens-as-token-ids scheduler-reserve-full-isl skip-mm-profiling skip-tokenizer-init
sleep-mode-offload-cudagraph specialize-active-lora swa-bounded-replay tokens-only trust-remote-code
trust-request-chat-template trust-request-mm-kwargs use-fp64-gumbel use-replayssm use-tqdm-on-load`
	serverLists = `
allowed-media-domains api-key collect-detailed-traces cpu-offload-params cudagraph-capture-sizes ignore-patterns
kv-cache-dtype-skip-layers logits-processors lora-modules lora-target-modules numa-bind-cpus numa-bind-nodes
offload-params served-model-name sleep-preserve-parameter-names`
	serverValues = `
additional-config all2all-backend allowed-headers allowed-local-media-path allowed-methods allowed-origins
anthropic-disabled-thinking-effort api-server-count attention-backend attention-config aux-output-config block-size
chat-template chat-template-content-format code-revision cohere-format compilation-config config config-format convert
cp-kv-cache-interleave-size cpu-distributed-timeout-seconds cpu-offload-gb custom-histogram-buckets
data-parallel-address data-parallel-backend data-parallel-rank data-parallel-rpc-port data-parallel-size
data-parallel-size-local data-parallel-start-rank data-parallel-supervisor-port dbo-decode-token-threshold
dbo-prefill-token-threshold dcp-comm-backend dcp-kv-cache-interleave-size decode-context-parallel-size
default-chat-template-kwargs default-mm-loras device-ids device-memory-utilization diffusion-config
disable-access-log-for-endpoints distributed-executor-backend distributed-timeout-seconds download-dir
dp-supervisor-probe-failure-threshold dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s dp-sync-interval
dtype ec-manager-config ec-transfer-config elastic-ep-max-dp-size engram-config eplb-config expert-placement-strategy
fault-tolerance-config fingerprint-mode fingerprint-value gdn-prefill-backend generation-config gpu-memory-utilization
grpc-port h11-max-header-count h11-max-incomplete-event-size hf-config-path hf-overrides hf-token host
io-processor-plugin ir-op-priority jit-monitor-mode kda-decode-backend kda-prefill-backend kernel-config
kv-cache-dtype kv-cache-memory-bytes kv-cache-metrics-sample kv-events-config kv-offloading-backend kv-offloading-size
kv-transfer-config limit-mm-per-prompt linear-backend load-format log-config-file log-level logging-config
logprobs-mode long-prefill-token-threshold lora-dtype mamba-backend mamba-block-size mamba-cache-dtype
mamba-cache-mode mamba-cache-philox-rounds mamba-ssm-cache-dtype mamba-ssu-algorithm master-addr master-port
max-cpu-loras max-cudagraph-capture-size max-log-len max-logprobs max-lora-cls-labels max-lora-rank max-loras
max-model-len max-num-active-seqs max-num-batched-tokens max-num-queued-reqs max-num-queued-tokens
max-num-scheduled-tokens max-num-seqs max-parallel-loading-workers media-io-kwargs middleware mm-encoder-attn-backend
mm-encoder-attn-dtype mm-encoder-fp8-scale-path mm-encoder-fp8-scale-save-margin mm-encoder-fp8-scale-save-path
mm-encoder-tp-mode mm-hasher-algorithm mm-ipc-gpu-memory-gb mm-processor-cache-gb mm-processor-cache-type
mm-processor-device mm-processor-kwargs mm-shm-cache-max-object-size-mb mm-tensor-ipc model model-class-overrides
model-impl model-loader-extra-config moe-backend nnodes node-rank num-gpu-blocks-override offload-backend
offload-group-size offload-num-in-group offload-prefetch-step optimization-level otlp-traces-endpoint
override-generation-config per-request-spec-decode-metrics performance-mode pipeline-parallel-size pooler-config port
prefill-context-parallel-size prefill-schedule-interval prefix-cache-retention-interval prefix-caching-hash-algo
prefix-match-unit profiler-config pt-load-map-location quantization quantization-config reasoning-config
reasoning-parser reasoning-parser-plugin renderer-num-workers replayssm-buffer-len response-role revision root-path
runner safetensors-load-strategy safetensors-prefetch-block-size safetensors-prefetch-num-threads scheduler-cls
scheduling-policy seed show-hidden-metrics-for-version shutdown-timeout sparse-indexer-topk-backend spec-method
spec-model spec-tokens speculative-config sse-keep-alive-interval ssl-ca-certs ssl-cert-reqs ssl-certfile ssl-ciphers
ssl-keyfile stream-interval structured-outputs-config tensor-parallel-size tokenizer tokenizer-mode tokenizer-revision
tool-call-parser tool-parser-plugin tool-server tool-strict-level ubatch-size uds uvicorn-log-level
video-pruning-method video-pruning-rate watermark watermark-config weight-transfer-config worker-cls
worker-extension-cls`
)

// shortFlags are the options that have a second name.
var shortFlags = map[string]string{
	"asc": "api-server-count", "q": "quantization", "n": "nnodes", "r": "node-rank", "O": "optimization-level",
	"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "ep": "enable-expert-parallel",
	"dcp": "decode-context-parallel-size", "pcp": "prefill-context-parallel-size",
	"dp": "data-parallel-size", "dpn": "data-parallel-rank", "dpr": "data-parallel-start-rank",
	"dpl": "data-parallel-size-local", "dpa": "data-parallel-address", "dpp": "data-parallel-rpc-port",
	"dpb": "data-parallel-backend", "dph": "data-parallel-hybrid-lb", "dpe": "data-parallel-external-lb",
	"dpm": "data-parallel-multi-port-external-lb",
	"sc":  "speculative-config", "dc": "diffusion-config", "cc": "compilation-config", "ac": "attention-config",
	"device-memory-utilization": "gpu-memory-utilization",
}

// notParameters are options that say nothing of how the engine computes: what it
// serves under which name and where, who may ask, what is logged, and degrees of
// parallelism, which have a place of their own.
const notParameters = `
aggregate-engine-logging allow-credentials allowed-headers allowed-local-media-path allowed-media-domains
allowed-methods allowed-origins anthropic-disabled-thinking-effort api-key chat-template chat-template-content-format
code-revision cohere-format cohere-is-reasoning-model collect-detailed-traces config custom-histogram-buckets
data-parallel-address data-parallel-rpc-port data-parallel-size data-parallel-supervisor-port
default-chat-template-kwargs device-ids disable-access-log-for-endpoints disable-fastapi-docs disable-log-requests
disable-log-stats disable-uvicorn-access-log download-dir dp-supervisor-probe-failure-threshold
dp-supervisor-probe-interval-s dp-supervisor-probe-timeout-s enable-auto-tool-choice enable-force-include-usage
enable-log-deltas enable-log-outputs enable-log-requests enable-logging-iteration-details enable-offline-docs
enable-per-request-metrics enable-prompt-tokens-details enable-request-id-headers enable-server-load-tracking
enable-ssl-refresh enable-tokenizer-info-endpoint exclude-tools-when-tool-choice-none fail-on-environ-validation
fingerprint-mode fingerprint-value grpc grpc-port h11-max-header-count h11-max-incomplete-event-size headless
hf-config-path hf-token host jit-monitor-verbose like log-config-file log-error-stack log-level logging-config
lora-modules master-addr master-port max-log-len middleware model node-rank otlp-traces-endpoint
pipeline-parallel-size port response-role return-tokens-as-token-ids revision root-path served-model-name
show-hidden-metrics-for-version shutdown-timeout sse-keep-alive-interval ssl-ca-certs ssl-cert-reqs ssl-certfile
ssl-ciphers ssl-keyfile tensor-parallel-size tokenizer tokenizer-revision tokens-only tool-call-parser
tool-parser-plugin tool-server tool-strict-level trust-request-chat-template trust-request-mm-kwargs uds
use-tqdm-on-load uvicorn-log-level`

// arity is how many words an option takes.
type arity int

const (
	takesOne arity = iota
	takesNone
	takesSome
)

var serverFlags = sync.OnceValue(func() map[string]arity {
	all := make(map[string]arity)
	for names, n := range map[string]arity{serverSwitches: takesNone, serverLists: takesSome, serverValues: takesOne} {
		for name := range strings.FieldsSeq(names) {
			all[name] = n
		}
	}
	return all
})

// arityOf looks an option up; of one that is not known its first word may tell.
func arityOf(flag string) arity {
	if n, ok := serverFlags()[flag]; ok {
		return n
	}
	for _, word := range []string{"enable-", "disable-", "use-", "no-"} {
		if strings.HasPrefix(flag, word) {
			return takesNone
		}
	}
	return takesOne
}
