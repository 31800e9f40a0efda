// Package bench runs one benchmark from plain data: the data set, the load, the
// records, the numbers, and the documents that tell of them.
package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/manifest"
)

// Version is that of the tool.
const Version = "0.1.0"

// Config is one run. It is plain data: apart from the key and the fields for a
// running program it survives a round trip through JSON, so what stands in a
// manifest can be run again. [Config.Validate] says what is wrong with it.
type Config struct {
	// Backend is the name results carry: one of vLLM's, see [Backends].
	Backend string `json:"backend"`
	// Target is the server. Its Text is set by Run.
	Target openai.Config `json:"target"`
	// Model is the model's id, the tokenizer's default; "" takes the first of
	// the server's list.
	Model string `json:"model,omitempty"`
	// ServedModel is the name to send; "" is Model.
	ServedModel string `json:"served_model,omitempty"`

	// Tokenizer is a folder, a tokenizer.json or an id in the local hub cache.
	// "" looks for Model there and falls back to the server's /tokenize.
	Tokenizer string `json:"tokenizer,omitempty"`
	// NoTokenizer uses none of them.
	NoTokenizer bool `json:"no_tokenizer,omitempty"`

	Dataset dataset.Spec `json:"dataset"`
	// TemplateKwargs is a JSON object of arguments to the chat template, where
	// it is rendered here.
	TemplateKwargs json.RawMessage `json:"chat_template_kwargs,omitempty"`
	// Stream, IgnoreEOS, Logprobs, Strict, Sampling and Extra go into bodies.
	Stream    bool            `json:"stream"`
	IgnoreEOS bool            `json:"ignore_eos,omitempty"`
	Logprobs  *int            `json:"logprobs,omitempty"`
	Strict    bool            `json:"strict_openai,omitempty"`
	Sampling  openai.Sampling `json:"sampling"`
	Extra     json.RawMessage `json:"extra_body,omitempty"`

	// Rate in requests a second; 0 and infinite are a closed loop.
	Rate loadgen.Number `json:"request_rate"`
	// Burstiness is the shape of the gamma distribution of gaps: 1 is Poisson,
	// infinite is constant. 0 stands for 1.
	Burstiness loadgen.Number `json:"burstiness,omitempty"`
	// Ramp, if set, changes the rate from request to request; Rate is infinite.
	Ramp *loadgen.Ramp `json:"ramp,omitempty"`
	// IgnoreTimes sends a timed trace by Rate and not at the times it gives.
	IgnoreTimes bool `json:"ignore_times,omitempty"`
	// MaxConcurrency bounds the requests in flight; 0 does not.
	MaxConcurrency int            `json:"max_concurrency,omitempty"`
	Pacing         loadgen.Pacing `json:"pacing,omitempty"`
	// ReadyTimeout is how long to try request 0 before the run; 0 does not.
	ReadyTimeout time.Duration `json:"ready_timeout,omitempty"`
	// Grace is how long requests in flight may take to end once Stop is closed.
	Grace time.Duration `json:"grace,omitempty"`
	// LoRA are names to send in place of the model's, one for each request:
	// in turn, or chosen at random where LoRARandom is set.
	LoRA       []string `json:"lora,omitempty"`
	LoRARandom bool     `json:"lora_random,omitempty"`
	// ProbeRate is how many probes a second are sent beside the load, each a
	// request for one token on a connection of its own; 0 sends none.
	ProbeRate float64 `json:"probe_rate,omitempty"`
	// Profile starts the server's profiler before the timed requests and stops
	// it after them.
	Profile bool `json:"profile,omitempty"`
	// RequestIDPrefix and a number make the x-request-id; "" sends none.
	RequestIDPrefix string `json:"request_id_prefix,omitempty"`

	// Percentiles in percent, for the result JSON and the screen.
	Percentiles []float64 `json:"percentiles,omitempty"`
	// Goodput bounds in milliseconds: ttft, tpot, e2el.
	Goodput map[string]float64 `json:"goodput,omitempty"`

	// Label and Metadata go into the result JSON as they are.
	Label    string      `json:"label,omitempty"`
	Metadata [][2]string `json:"metadata,omitempty"`
	// Subject is what the user declared of the model, Declared all else.
	Subject  *manifest.Subject `json:"subject,omitempty"`
	Declared Declared          `json:"declared,omitzero"`

	// Replicas are the base URLs of further servers of the same kind: requests go
	// to Target.BaseURL and to them in turn.
	Replicas  []string  `json:"replicas,omitempty"`
	Telemetry Telemetry `json:"telemetry,omitzero"`
	// ResetPrefixCache asks each server to forget its prefix cache before the
	// warm-up.
	ResetPrefixCache bool `json:"reset_prefix_cache,omitempty"`
	// Salt makes the prompts' prefixes unlike those of runs with another salt, so
	// that no prefix cache holds them; "" changes nothing, [AutoSalt] draws one.
	Salt string `json:"salt,omitempty"`

	// TokenAccounting says what is asked of the server so that it tells how many
	// tokens an event carries: chunks (nothing, the default), ids, usage or auto.
	TokenAccounting string `json:"token_accounting,omitempty"`
	// ServerTiming takes in what the server tells of its own timing of each
	// request, to set it beside the client's.
	ServerTiming bool `json:"server_timing,omitempty"`
	// RawSamples is how many samples of a metric are held exactly, as
	// [metrics.Options].RawGaps; 0 is its default.
	RawSamples int `json:"raw_samples,omitempty"`

	// Selftest is the figure that `servebench selftest` found for this machine and
	// this build, for the manifest; nil where there is none.
	Selftest json.RawMessage `json:"-"`

	// ServerPIDs are the processes that serve, where they are known: what descends
	// from them is theirs too.
	ServerPIDs []int `json:"-"`

	// RunFile is the resolved configuration in the form of a run file, for the
	// manifest; it must hold nothing that may not be published.
	RunFile json.RawMessage `json:"-"`

	// PrivateNames are names of people and machines that must not be published,
	// beside those that are known: this host, its user, the host of Target.
	PrivateNames []string `json:"-"`
	// PrivateTexts are secrets that must not be published, beside those that are
	// known: those of Target, and of the servers' commands. The server may have
	// inherited them.
	PrivateTexts []string `json:"-"`

	// Command is the command line to write, redacted, into the manifest.
	Command []string `json:"-"`
	// InProcess tells that the target runs in this process, whose CPU time is then
	// not the client's alone.
	InProcess bool `json:"-"`
	// Stop, when closed, ends the run early: no new requests, Grace for those in
	// flight. Canceling the context ends it at once. Both keep what there is.
	Stop <-chan struct{} `json:"-"`
	// Progress, if set, is kept up to date while the run lasts.
	Progress *Progress `json:"-"`
}

// Progress tells how far a run is. It is safe for concurrent use; the zero value
// is ready.
type Progress struct {
	// Entered, if set before the run, is called with each phase as it begins, one
	// call after the other.
	Entered func(phase string)

	phase               atomic.Pointer[string]
	total, done, failed atomic.Int64
	events              atomic.Pointer[atomic.Int64]
	span                atomic.Int64
}

// Phase is what the run is doing: "prompts", "waiting for the server", "ready
// check", "warm-up", "starting the profiler", "run", "stopping the profiler" or
// "results"; "" before all.
func (p *Progress) Phase() string {
	if s := p.phase.Load(); s != nil {
		return *s
	}
	return ""
}

// Counts are of the present phase: requests in all, ended, and failed among the
// ended; and the token-bearing events since the run began.
func (p *Progress) Counts() (total, done, failed, events int64) {
	if e := p.events.Load(); e != nil {
		events = e.Load()
	}
	return p.total.Load(), p.done.Load(), p.failed.Load(), events
}

// Span is how long after the start of the load its last request is due; 0 where
// that is not known: before the run, and in a closed loop.
func (p *Progress) Span() time.Duration { return time.Duration(p.span.Load()) }

func (p *Progress) enter(phase string, total int) {
	if p != nil {
		p.total.Store(int64(total))
		p.done.Store(0)
		p.failed.Store(0)
		p.phase.Store(&phase)
		if p.Entered != nil {
			p.Entered(phase)
		}
	}
}

// backends maps vLLM's names to an API.
var backends = map[string]openai.API{
	"vllm": openai.Completions, "openai": openai.Completions, "openai-chat": openai.Chat,
	"openai-embeddings-clip": openai.EmbeddingsClip, "infinity-embeddings-clip": openai.InfinityClip,
	"openai-responses": openai.Responses, "openai-embeddings": openai.Embeddings,
	"openai-embeddings-chat": openai.EmbeddingsChat, "infinity-embeddings": openai.Infinity,
	"vllm-pooling": openai.Pooling, "vllm-rerank": openai.Rerank,
}

// Backends lists the backends in alphabetical order.
func Backends() []string { return slices.Sorted(maps.Keys(backends)) }

// API is the form of the requests that the backend stands for.
func (c *Config) API() openai.API { return backends[c.Backend] }

// withDefaults fills in what the zero value stands for.
func (c Config) withDefaults() Config {
	if c.Burstiness == 0 {
		c.Burstiness = 1
	}
	if c.Rate == 0 {
		c.Rate = loadgen.Inf
	}
	if c.Target.Endpoint == "" {
		c.Target.Endpoint = c.API().Path()
	}
	if c.Pacing == "" {
		c.Pacing = loadgen.Hybrid
	}
	c.Dataset.Chat = c.API().Renders()
	if !c.API().Generates() {
		c.Stream = false // what is pooled comes in one piece
	}
	return c
}

// Validate reports everything that is wrong at once, under the names of the
// flags, and changes nothing.
func (c Config) Validate() error {
	c = c.withDefaults()
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if _, ok := backends[c.Backend]; !ok {
		bad("backend: %q is unknown; want one of %s", c.Backend, strings.Join(Backends(), ", "))
	}
	if err := c.Dataset.Validate(); err != nil {
		errs = append(errs, err)
	}
	if !(c.Rate > 0) {
		bad("request-rate: %v; want a number above 0, or inf", float64(c.Rate))
	}
	if !(c.Burstiness > 0) {
		bad("burstiness: %v; want a number above 0, or inf", float64(c.Burstiness))
	}
	if c.MaxConcurrency < 0 || c.MaxConcurrency > 1<<20 {
		bad("max-concurrency: %d; want 1 to %d", c.MaxConcurrency, 1<<20)
	}
	if !slices.Contains([]loadgen.Pacing{loadgen.Sleep, loadgen.Hybrid}, c.Pacing) {
		bad("pacing: %q; want sleep or hybrid", c.Pacing)
	}
	for _, p := range c.Percentiles {
		if !(p >= 0 && p <= 100) {
			bad("metric-percentiles: %v; want 0 to 100", p)
		}
	}
	for name, ms := range c.Goodput {
		if !slices.Contains([]string{"ttft", "tpot", "e2el"}, name) {
			bad("goodput: %q is no metric; want ttft, tpot or e2el", name)
		}
		if (name == "ttft" || name == "tpot") && !c.Stream && c.API().Generates() {
			bad("goodput: %s does not exist without streaming; want e2el", name)
		}
		if !(ms >= 0) || math.IsInf(ms, 1) {
			bad("goodput: %s:%v; want a number of milliseconds, 0 or more", name, ms)
		}
	}
	errs = append(errs, c.validateLoad()...)
	errs = append(errs, c.validateForm()...)
	errs = append(errs, c.validateSampling()...)
	if err := c.validateSalt(); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, c.validateAccounting()...)
	errs = append(errs, c.validateReplicas()...)
	errs = append(errs, c.Telemetry.validate()...)
	errs = append(errs, c.Declared.Publish.validate()...)
	if !c.Rate.IsInf() && !c.Traced() && len(errs) == 0 && c.Dataset.Prompts > 0 {
		if s := float64(c.Dataset.Prompts) / float64(c.Rate); s > loadgen.MaxOffset.Seconds() {
			bad("request-rate: %d requests at %v a second take %.3g days; want 30 at most", c.Dataset.Prompts, c.Rate, s/86400)
		}
	}
	return errors.Join(errs...)
}

func (c *Config) validateSampling() (errs []error) {
	s := c.Sampling
	for _, f := range []struct {
		name     string
		v        *float64
		low, hi  float64
		exclusiv bool
	}{
		{"temperature", s.Temperature, 0, math.MaxFloat64, false},
		{"top-p", s.TopP, 0, 1, true},
		{"min-p", s.MinP, 0, 1, false},
		{"frequency-penalty", s.FrequencyPenalty, -2, 2, false},
		{"presence-penalty", s.PresencePenalty, -2, 2, false},
		{"repetition-penalty", s.RepetitionPenalty, 0, math.MaxFloat64, true},
	} {
		if f.v != nil && (!(*f.v >= f.low && *f.v <= f.hi) || f.exclusiv && *f.v == f.low) {
			want := fmt.Sprintf("%v to %v", f.low, f.hi)
			if f.hi == math.MaxFloat64 {
				want = fmt.Sprintf("%v or more", f.low)
			}
			if f.exclusiv {
				want += ", but not " + fmt.Sprint(f.low)
			}
			errs = append(errs, fmt.Errorf("%s: %v; want %s", f.name, *f.v, want))
		}
	}
	if _, known := backends[c.Backend]; known && !c.API().Generates() && s != (openai.Sampling{}) {
		errs = append(errs, fmt.Errorf("backend: %s generates no tokens and takes no sampling parameters such as temperature; want none, or extra-body", c.Backend))
	}
	if s.TopK != nil && *s.TopK < -1 {
		errs = append(errs, fmt.Errorf("top-k: %d; want 1 or more, or 0 or -1 for no limit", *s.TopK))
	}
	if c.Logprobs != nil && (*c.Logprobs < 0 || *c.Logprobs > 1<<20) {
		errs = append(errs, fmt.Errorf("logprobs: %d; want 0 or more", *c.Logprobs))
	}
	if c.Extra != nil {
		if err := openai.CheckExtra(c.Extra); err != nil {
			errs = append(errs, fmt.Errorf("extra-body: %w", err))
		}
	}
	return errs
}
