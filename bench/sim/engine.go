package sim

import (
	"errors"
	"fmt"
	"math"
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

	// Overhead is the time a request spends outside the engine and its queue (HTTP, parsing, detokenizing): all of it is
	// before Frontend, and no request waits in it for another.
	Overhead time.Duration `json:"overhead_ns"`
	// Frontend is the time in which the API server hands one request to the engine, one request after the other.
	Frontend time.Duration `json:"frontend_ns"`
	// IdleDelay is the time from the first request that reaches an idle engine to its first step. Requests that come
	// meanwhile are in that step too, as are those of the same instant where it is 0: the step then begins 1 ns later.
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
// [Config.Validate] joins it with other errors; errors.AsType finds it.
type KVTooSmallError struct {
	MaxModelLen int // tokens
	KVTokens    int // tokens, in whole blocks
}

// Error is in vLLM's words.
func (e *KVTooSmallError) Error() string {
	return fmt.Sprintf("The model's max seq len (%d) is larger than the maximum number of tokens that can be stored in KV cache (%d). "+
		"Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.", e.MaxModelLen, e.KVTokens)
}

// withDefaults fills in what a zero field stands for.
func (e Engine) withDefaults(maxModelLen int) Engine {
	if e.MaxNumSeqs == 0 {
		e.MaxNumSeqs = 256
	}
	if e.MaxNumBatchedTokens == 0 {
		e.MaxNumBatchedTokens = max(2048, e.MaxNumSeqs)
		if !e.ChunkedPrefill {
			e.MaxNumBatchedTokens = max(e.MaxNumBatchedTokens, maxModelLen)
		}
	}
	if e.BlockSize == 0 {
		e.BlockSize = 16
	}
	if e.TimeScale == 0 {
		e.TimeScale = 1
	}
	if e.GPUMemoryUtilization == 0 {
		e.GPUMemoryUtilization = 0.9
	}
	if e.CacheDtype == "" {
		e.CacheDtype = "auto"
	}
	if e.KVTokens == 0 {
		e.KVTokens = e.MaxNumSeqs * ((maxModelLen + e.BlockSize - 1) / e.BlockSize) * e.BlockSize
	}
	return e
}

// blocks is the number of blocks in the KV cache.
func (e Engine) blocks() int { return e.KVTokens / e.BlockSize }

// maxSetting bounds the whole numbers of an Engine, so that no product of two overflows; maxTime its durations.
const (
	maxSetting = 1 << 30
	maxTime    = 24 * time.Hour
	minRate    = 1e-3 // tokens a second, where there is a rate
)

// validate reports everything that is wrong with e for requests of up to maxModelLen tokens, in terms of vLLM's settings.
func (e Engine) validate(maxModelLen int) []error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for _, f := range [...]struct {
		name  string
		value int
	}{
		{"max_num_seqs", e.MaxNumSeqs}, {"max_num_batched_tokens", e.MaxNumBatchedTokens}, {"kv_tokens", e.KVTokens},
		{"block_size", e.BlockSize}, {"num_speculative_tokens", e.SpeculativeTokens},
	} {
		if f.value < 0 || f.value > maxSetting {
			wrong("%s must be from 0 to %d, got %d", f.name, maxSetting, f.value)
		}
	}
	for _, f := range [...]struct {
		name  string
		value time.Duration
	}{
		{"step_base", e.StepBase}, {"per_sequence", e.PerSequence}, {"overhead", e.Overhead}, {"frontend", e.Frontend},
		{"idle_delay", e.IdleDelay}, {"draft_overhead", e.DraftOverhead},
	} {
		if f.value < 0 || f.value > maxTime {
			wrong("%s must be from 0 to %v, got %v", f.name, maxTime, f.value)
		}
	}
	for _, f := range [...]struct {
		name  string
		value float64
	}{{"prefill_rate", e.PrefillRate}, {"context_rate", e.ContextRate}} {
		if !(f.value == 0 || f.value >= minRate && f.value <= math.MaxFloat64) { // written so that NaN is refused
			wrong("%s must be 0 (no time) or at least %v tokens a second, got %v", f.name, minRate, f.value)
		}
	}
	if !(e.TimeScale == 0 || e.TimeScale >= 1e-6 && e.TimeScale <= 1000) {
		wrong("time_scale must be from 0.000001 to 1000, got %v", e.TimeScale)
	}
	if !(e.GPUMemoryUtilization >= 0 && e.GPUMemoryUtilization <= 1) {
		wrong("gpu_memory_utilization must be from 0 to 1, got %v", e.GPUMemoryUtilization)
	}
	errs = append(errs, e.validateAcceptance()...)
	if len(errs) == 0 { // else the products below could overflow
		errs = e.validateLimits(maxModelLen)
	}
	return errs
}

func (e Engine) validateAcceptance() []error {
	var errs []error
	switch {
	case e.SpeculativeTokens > 0 && len(e.Acceptance) == 0:
		errs = append(errs, errors.New("acceptance is missing: num_speculative_tokens needs it"))
	case e.SpeculativeTokens == 0 && len(e.Acceptance) > 0:
		errs = append(errs, errors.New("acceptance needs num_speculative_tokens of at least 1"))
	}
	for _, a := range e.Acceptance {
		if !(a.Share > 0 && a.Share <= math.MaxInt32) {
			errs = append(errs, fmt.Errorf("a share of acceptance must be above 0, got %v", a.Share))
		}
		if !(a.Rate >= 0 && a.Rate <= 1) {
			errs = append(errs, fmt.Errorf("a rate of acceptance must be from 0 to 1, got %v", a.Rate))
		}
	}
	return errs
}

// validateLimits checks what vLLM checks when it starts, in its words.
func (e Engine) validateLimits(maxModelLen int) []error {
	var errs []error
	e = e.withDefaults(maxModelLen)
	if e.MaxNumBatchedTokens < maxModelLen && !e.ChunkedPrefill {
		errs = append(errs, fmt.Errorf("max_num_batched_tokens (%d) is smaller than max_model_len (%d). This effectively limits the "+
			"maximum sequence length to max_num_batched_tokens and makes vLLM reject longer sequences. Please increase "+
			"max_num_batched_tokens or decrease max_model_len", e.MaxNumBatchedTokens, maxModelLen))
	}
	if e.MaxNumBatchedTokens < e.MaxNumSeqs {
		errs = append(errs, fmt.Errorf("max_num_batched_tokens (%d) must be greater than or equal to max_num_seqs (%d)",
			e.MaxNumBatchedTokens, e.MaxNumSeqs))
	}
	if kv := e.blocks() * e.BlockSize; kv < maxModelLen {
		errs = append(errs, &KVTooSmallError{maxModelLen, kv})
	}
	return errs
}
