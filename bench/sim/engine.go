package sim

import (
	"fmt"
	"time"
)

// Engine is a model of one vLLM v1 engine core: what its scheduler is set to and how long its steps take. It is plain
// data. One Server is one engine; replicas are several Servers. The zero value has vLLM's default limits, no chunked
// prefill, no prefix cache and steps that take no time. The formulas are in docs/simulator.md, "Engine model".
type Engine struct {
	// MaxNumSeqs is the largest number of running requests (--max-num-seqs). 0 means 256.
	MaxNumSeqs int `json:"max_num_seqs"`
	// MaxNumBatchedTokens is the token budget of one step (--max-num-batched-tokens). 0 means 2048, or max_model_len
	// where that is larger and ChunkedPrefill is off.
	MaxNumBatchedTokens int `json:"max_num_batched_tokens"`
	// ChunkedPrefill lets a prompt be computed over several steps; without it a prompt waits for a step that has room for
	// all of it (--enable-chunked-prefill, vLLM's default).
	ChunkedPrefill bool `json:"chunked_prefill"`
	// PrefixCaching keeps the blocks of prompts and answers for later prompts that begin alike (--enable-prefix-caching,
	// vLLM's default).
	PrefixCaching bool `json:"prefix_caching"`
	// KVTokens is the capacity of the KV cache in tokens, rounded down to whole blocks. 0 means room for MaxNumSeqs
	// requests of max_model_len tokens, so that it never runs out.
	KVTokens int `json:"kv_tokens"`
	// BlockSize is the tokens of one KV cache block (--block-size). 0 means 16.
	BlockSize int `json:"block_size"`

	// StepBase is the time of any step: reading the weights, launching, sampling.
	StepBase time.Duration `json:"step_base_ns"`
	// PerSequence is added for each request that decodes in the step.
	PerSequence time.Duration `json:"per_sequence_ns"`
	// ContextRate is how many context tokens of decoding requests a step's attention reads in a second. 0 means that they
	// take no time.
	ContextRate float64 `json:"context_tokens_per_s"`
	// PrefillRate is how many prompt tokens a step computes in a second. 0 means that they take no time.
	PrefillRate float64 `json:"prefill_tokens_per_s"`

	// Overhead is the time from a request's arrival to the front end's work on it, and from its end there to the client:
	// all of it is before the waiting queue. Requests do not wait for each other in it.
	Overhead time.Duration `json:"overhead_ns"`
	// Frontend is the time in which the API server hands one request to the engine (parsing, tokenizing): one at a time.
	Frontend time.Duration `json:"frontend_ns"`
	// IdleDelay is the time from the first request that reaches an idle engine to its first step. Requests that come
	// meanwhile are in that step too.
	IdleDelay time.Duration `json:"idle_delay_ns"`

	// SpeculativeTokens is the number of draft tokens of a decode step (num_speculative_tokens). 0 means no speculation.
	SpeculativeTokens int `json:"num_speculative_tokens"`
	// Acceptance says how often drafts are accepted. Required with SpeculativeTokens, refused without.
	Acceptance []Acceptance `json:"acceptance,omitempty"`
	// DraftOverhead is added to each step that decodes with speculation, for the draft model.
	DraftOverhead time.Duration `json:"draft_overhead_ns"`

	// TimeScale multiplies every time above: 0.1 is an engine ten times as fast. 0 means 1.
	TimeScale float64 `json:"time_scale"`

	// GPUMemoryUtilization and CacheDtype are only shown in /metrics (vllm:cache_config_info). 0 and "" mean 0.9 and "auto".
	GPUMemoryUtilization float64 `json:"gpu_memory_utilization"`
	CacheDtype           string  `json:"cache_dtype"`
}

// Acceptance is one kind of request where drafts are verified. The requests are shared out evenly, in order of arrival.
type Acceptance struct {
	// Share is this kind's part of the requests, relative to the sum of all shares; above 0.
	Share float64 `json:"share"`
	// Rate is the probability that a draft token is accepted if all before it in the step are, 0 to 1: with k draft tokens
	// a step makes 1 + Rate + … + Rate^k tokens on average.
	Rate float64 `json:"rate"`
}

// KVTooSmallError says that the KV cache cannot hold one request of the longest allowed length: vLLM does not start then.
// Config.Validate joins it with other errors: find it with errors.AsType.
type KVTooSmallError struct {
	MaxModelLen int // tokens
	KVTokens    int // tokens
}

// Error is in vLLM's words.
func (e *KVTooSmallError) Error() string {
	return fmt.Sprintf("max seq len (%d) is larger than the maximum number of tokens that can be stored in KV cache (%d)", e.MaxModelLen, e.KVTokens)
}
