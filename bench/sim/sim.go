// Package sim is a simulated vLLM server whose true timings are known.
//
// It is the target a load generator is calibrated against: the time of every token follows from Config alone, so whatever
// a client reports beyond it is the client's own. It speaks vLLM's HTTP API as recorded from vLLM 0.32.0 (field order,
// error bodies, usage, the role chunk of chat) and nothing is computed: the answer to any prompt is plain words.
//
// # Timing
//
// A request is admitted when its body has been read, or, with Config.Slots in use, when a slot is handed to it. Token k
// (from 0) is due at
//
//	admitted + TTFT + PerPromptToken*prompt_tokens + k*ITL
//
// on the monotonic clock. Each due time is absolute: a late write never delays the next one. With Jitter j, the first wait
// and every gap are multiplied by independent log-normal factors of mean 1 and standard deviation j, drawn from a PCG
// generator seeded by (Seed, request number); due times are then the running sum of those waits. Request numbers count
// accepted requests for tokens or vectors from 0 in order of arrival.
//
// With TokensPerChunk c the first chunk carries one token, each later one c tokens (the last one what is left), and is
// written when its last token is due: vLLM's --stream-interval, so the end of a request does not depend on c. The role
// chunk of chat is written right before the first content, usage and [DONE] right after the last; of a response (/v1/responses)
// the events that open its message and those that close it. Response headers of a stream leave at once, also while the
// request waits for a slot, as vLLM's do; so do the two events that announce a response.
//
// Embeddings, poolings and rerankings (a real server has these or generation, this one has both) hold a slot up to the
// first token's due time and are written then. Their numbers come from Seed and request number.
//
// A stream sleeps on one time.Timer and never spins, so it runs in virtual time inside a testing/synctest bubble and writes
// token k at exactly its due time there. On Linux a sleeping runtime wakes up to about 1 ms late (epoll's resolution);
// Config.Truth says in each event when it really was written.
//
// # Engine
//
// With Config.Engine the times are not a formula's but those of a scheduler: requests wait, run together, hold each other
// up and push each other out of the KV cache, as in one vLLM v1 engine. A step computes at most Engine.MaxNumBatchedTokens
// tokens for at most Engine.MaxNumSeqs requests, those that decode first, and takes
//
//	StepBase + PerSequence*decoding + context/ContextRate + prefill/PrefillRate (+ DraftOverhead if there are drafts)
//
// Its tokens are written when it ends. Steps follow each other without a gap, at absolute times. Engine's fields give the
// units, docs/simulator.md the rules, and [Fit] the engine behind a published run. A request that arrives at the very
// instant at which a step begins is in the next one, so that in a bubble the same requests always get the same times.
// Embeddings are prompts without answers there.
//
// # Tokens
//
// The vocabulary is arithmetic, without tables or special tokens. Ids 0 to 255 are the bytes. The other ids are words of 1
// to 6 ASCII letters, the letters read as a number in bijective base 26, in four families: with a leading space in lower
// case, with a leading space and a capital first letter, and both again without the space. Text is split greedily: " hello"
// and "Hello" are one token each, a longer word one token per 6 letters, every other byte one token. So detokenizing what
// was tokenized gives back the same bytes for any text, and a sequence of lower-case words with leading spaces (such as
// every generated answer, or any ids from 256 to 321272661) tokenizes back to the same ids. A prompt given as n ids counts n. The chat
// template is " ROLE:CONTENT\n" for each message, then " assistant:".
package sim

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Version is the simulator's version, as GET /version and system_fingerprint show it. It changes whenever the same request
// may be answered by other bytes or at other times.
const Version = "0.4.0"

const (
	serverName         = "servebench-sim"
	defaultMaxModelLen = 131072
	defaultMaxTokens   = 16
)

// Config says what a Server pretends to be. It is plain data; its JSON form has the durations in nanoseconds and leaves
// out the key. The zero value is a server that answers at once to any model name.
type Config struct {
	// Model is the only model name served; others get vLLM's 404. Empty serves whatever name is asked for, and lists
	// itself as "servebench-sim".
	Model string `json:"model"`
	// Aliases are further names of the same model (--served-model-name a b, --lora-modules). They need Model.
	Aliases []string `json:"aliases,omitempty"`
	// TTFT is the time from admission to the first token.
	TTFT time.Duration `json:"ttft_ns"`
	// ITL is the time between two tokens.
	ITL time.Duration `json:"itl_ns"`
	// PerPromptToken is added to TTFT for every token of the prompt.
	PerPromptToken time.Duration `json:"per_prompt_token_ns"`
	// Jitter is the standard deviation of the first wait and of each gap between tokens as a share of its mean, 0 to 1.
	Jitter float64 `json:"jitter"`
	// Seed selects the jitter and the request ids; the same seed and the same order of requests give the same ones.
	Seed uint64 `json:"seed"`
	// Slots is how many requests are served at the same time; the others wait in order of arrival. 0 means no limit.
	Slots int `json:"slots"`
	// PromptTokensDetails tells in the usage how much of a prompt came from the prefix cache
	// (--enable-prompt-tokens-details). The Responses API always does.
	PromptTokensDetails bool `json:"prompt_tokens_details"`
	// TokensPerChunk is how many tokens an event after the first one carries. 0 means 1.
	TokensPerChunk int `json:"tokens_per_chunk"`
	// ReasoningTokens is how many tokens at the start of a chat's answer are reasoning, as of a server with
	// --reasoning-parser. 0 means none, and no such parser.
	ReasoningTokens int `json:"reasoning_tokens,omitempty"`
	// MaxModelLen is the largest prompt plus max_tokens, in tokens. 0 means 131072.
	MaxModelLen int `json:"max_model_len"`
	// Truth adds "sent_ns" to the JSON of each event: CLOCK_MONOTONIC in nanoseconds, read right before the event's write.
	// On systems other than Linux it is the time since the process started. The first event of an answer has "arrived_ns"
	// too, on the same clock: when the kernel received the end of the request, or, where it does not tell, when that was
	// read.
	Truth bool `json:"truth"`
	// PerRequestMetrics adds to each answer how long it took by the simulator's own times, as vLLM's
	// --enable-per-request-metrics does and where it does: to the event that has the usage, to a response, to a whole body.
	PerRequestMetrics bool `json:"per_request_metrics,omitempty"`
	// Engine is the model of an engine that the timing follows instead of the formula above; nil is the formula. With it
	// TTFT, ITL, PerPromptToken and Slots must be 0, TokensPerChunk is the number of new tokens from which a chunk is
	// written (--stream-interval), and Jitter varies the time of each step.
	Engine *Engine `json:"engine,omitempty"`
	// APIKey is the bearer token that /v1/*, /tokenize and /detokenize ask for. Empty asks for none.
	APIKey string `json:"-"`
	// MoreKeys are further tokens that are as good as APIKey. They need it.
	MoreKeys []string `json:"-"`
}

// Validate reports everything that is wrong with c, joined by errors.Join, or nil. It changes nothing.
func (c Config) Validate() error {
	var errs []error
	negative := func(name string, bad bool, value any) {
		if bad {
			errs = append(errs, fmt.Errorf("%s must not be negative, got %v", name, value))
		}
	}
	negative("ttft", c.TTFT < 0, c.TTFT)
	negative("itl", c.ITL < 0, c.ITL)
	negative("per_prompt_token", c.PerPromptToken < 0, c.PerPromptToken)
	negative("slots", c.Slots < 0, c.Slots)
	negative("tokens_per_chunk", c.TokensPerChunk < 0, c.TokensPerChunk)
	negative("reasoning_tokens", c.ReasoningTokens < 0, c.ReasoningTokens)
	negative("max_model_len", c.MaxModelLen < 0, c.MaxModelLen)
	if !(c.Jitter >= 0 && c.Jitter <= 1) { // written so that NaN is refused
		errs = append(errs, fmt.Errorf("jitter must be from 0 to 1, got %v", c.Jitter))
	}
	// A whole request has to fit an int64 of nanoseconds, with room for the long tail of the jitter.
	d := c.withDefaults()
	longest := float64(d.TTFT) + float64(d.MaxModelLen)*(float64(d.PerPromptToken)+float64(d.ITL))
	if longest > math.MaxInt64/1024 {
		errs = append(errs, fmt.Errorf("timings are too long: a request of max_model_len %d tokens would take over 100 days", d.MaxModelLen))
	}
	if c.Engine != nil {
		if c.TTFT != 0 || c.ITL != 0 || c.PerPromptToken != 0 || c.Slots != 0 {
			errs = append(errs, errors.New("ttft, itl, per_prompt_token and slots must be 0 with an engine, whose steps make the times"))
		}
		errs = append(errs, c.Engine.validate(d.MaxModelLen)...)
	}
	errs = append(errs, c.validateNames()...)
	return errors.Join(errs...)
}

// validateNames checks the names that c answers to and the keys it asks for.
func (c Config) validateNames() []error {
	var errs []error
	for _, key := range append(slices.Clone(c.MoreKeys), c.APIKey) {
		if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
			errs = append(errs, errors.New("api_key must be printable ASCII without spaces"))
			break
		}
	}
	if c.Model == "" && len(c.Aliases) > 0 {
		errs = append(errs, errors.New("aliases need a model"))
	}
	if len(c.MoreKeys) > 0 && (c.APIKey == "" || slices.Contains(c.MoreKeys, "")) {
		errs = append(errs, errors.New("an api_key is empty"))
	}
	return errs
}

// withDefaults fills in what a zero field stands for.
func (c Config) withDefaults() Config {
	if c.TokensPerChunk == 0 {
		c.TokensPerChunk = 1
	}
	if c.MaxModelLen == 0 {
		c.MaxModelLen = defaultMaxModelLen
	}
	return c
}

// Server is a simulated vLLM server: an http.Handler, safe for concurrent use. Make one with New; it holds no goroutines
// of its own (while there are requests, an engine has a timer and streams have some goroutines together) and needs no closing.
type Server struct {
	cfg     Config
	keys    [][32]byte // sha256 of "Bearer KEY": compared in constant time whatever the lengths
	routes  map[string]route
	created int64 // Unix seconds
	slots   gate
	engine  *engine // nil: the times follow from Config's formula

	conductors conductors

	requests     atomic.Uint64 // accepted requests so far: the next request's number
	promptTokens atomic.Uint64 // of requests whose first token is out
	queried      atomic.Uint64 // prompt tokens of admitted requests
	generated    atomic.Uint64
	finished     atomic.Uint64 // generation requests
	pooled       atomic.Uint64 // pooling requests
}

var _ http.Handler = (*Server)(nil)

// New returns a server for c. It panics where c.Validate reports an error.
func New(c Config) *Server {
	if err := c.Validate(); err != nil {
		panic("sim: invalid config: " + err.Error())
	}
	s := &Server{cfg: c.withDefaults(), created: time.Now().Unix()}
	for _, key := range append([]string{c.APIKey}, c.MoreKeys...) {
		s.keys = append(s.keys, keyDigest("Bearer "+key))
	}
	s.slots.limit = c.Slots
	if c.Engine != nil {
		s.engine = newEngine(s.cfg)
	}
	s.routes = s.routing()
	return s
}

// serves tells whether name is one of the model's.
func (s *Server) serves(name string) bool {
	return s.cfg.Model == "" || name == s.cfg.Model || slices.Contains(s.cfg.Aliases, name)
}

// modelName is what the server calls itself where no request says otherwise.
func (s *Server) modelName() string {
	if s.cfg.Model == "" {
		return serverName
	}
	return s.cfg.Model
}
