package bench

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/dataset/nprand"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
)

// Traced tells whether requests are due when their trace says.
func (c *Config) Traced() bool { return c.Dataset.Name == "timed_trace" && !c.IgnoreTimes }

// paced tells whether requests are to have due times of their own. Of a plan that
// was built, its Offsets tell.
func (c *Config) paced() bool { return !c.Rate.IsInf() || c.Ramp != nil || c.Traced() }

// offsets are the due times of a set's requests; nil in a closed loop. vLLM draws
// them from the generator that the data set may have used before.
func (c *Config) offsets(set *dataset.Set) ([]time.Duration, error) {
	gen := nprand.NewLegacy(uint32(c.Dataset.Seed))
	if set.Numpy != nil {
		*gen = *set.Numpy
	}
	switch n := len(set.Requests); {
	case set.Offsets != nil && c.Traced():
		return set.Offsets, nil
	case c.Ramp != nil:
		return c.Ramp.Offsets(n, c.Burstiness, gen)
	case !c.Rate.IsInf():
		return loadgen.Offsets(n, c.Rate, c.Burstiness, gen)
	}
	return nil, nil
}

// openLoop tells whether requests had due times of their own.
func (r *Result) openLoop() bool {
	if r.Plan != nil && len(r.Plan.Requests) > 0 {
		return r.Plan.Offsets != nil
	}
	return r.Config.paced()
}

// assigner chooses the LoRA name of each request: in turn, or as random.choice of
// a Python freshly seeded. vLLM's client goes on with the generator that its data
// set has left, which is that one where the data set draws nothing from it. It is
// safe for concurrent use.
type assigner struct {
	names  []string
	mu     sync.Mutex
	rng    *nprand.Python // nil: in turn
	chosen []int          // guarded by mu, as is rng
}

// assigner is nil where there are no names.
func (c *Config) assigner() *assigner {
	if len(c.LoRA) == 0 {
		return nil
	}
	a := &assigner{names: c.LoRA}
	if c.LoRARandom {
		a.rng = nprand.NewPython(c.Dataset.Seed)
	}
	return a
}

// of is the name of request i, in whatever order they are asked for.
func (a *assigner) of(i int) string {
	if a.rng == nil {
		return a.names[i%len(a.names)]
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.chosen) <= i {
		a.chosen = append(a.chosen, a.rng.Choice(len(a.names)))
	}
	return a.names[a.chosen[i]]
}

// maxProbeRate is far beyond what one probe at a time can follow.
const maxProbeRate = 1e6

// validateLoad reports what is wrong with when and beside what requests are sent.
func (c *Config) validateLoad() (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Ramp != nil {
		if err := c.Ramp.Validate(); err != nil {
			errs = append(errs, err)
		}
		if !c.Rate.IsInf() {
			bad("ramp-up-strategy: the ramp sets the rate, and request-rate is %v; want one of the two", float64(c.Rate))
		}
		if c.Traced() {
			bad("ramp-up-strategy: a timed_trace is sent at its own times; want no ramp, or no-self-timed")
		}
	}
	if c.IgnoreTimes && c.Dataset.Name != "timed_trace" {
		bad("self-timed: a data set %s has no times of its own; want dataset-name timed_trace", c.Dataset.Name)
	}
	for _, name := range c.LoRA {
		if name == "" {
			bad("lora-modules: an empty name; want names that the server lists")
		}
	}
	if !(c.ProbeRate >= 0 && c.ProbeRate <= maxProbeRate) {
		bad("probe-request-rate: %v; want 0 to %.0f requests a second", c.ProbeRate, maxProbeRate)
	}
	return errs
}

// imageAPIs are those that take the images of a data set which always has some.
var imageAPIs = map[string][]openai.API{
	"random-mm":    {openai.Chat},
	"custom_image": {openai.Chat, openai.EmbeddingsChat, openai.EmbeddingsClip, openai.InfinityClip},
}

// batchAPIs take several prompts in one request.
var batchAPIs = []openai.API{openai.Embeddings, openai.Pooling, openai.Infinity, openai.InfinityClip}

// validateForm reports data sets whose requests the backend cannot take.
func (c *Config) validateForm() (errs []error) {
	if _, ok := backends[c.Backend]; !ok {
		return nil
	}
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	api, d := c.API(), &c.Dataset
	if d.TokenIDs && api != openai.Completions {
		bad("prompt-form: token-ids exist only in completions, not with the backend %s; want text, or a completions backend", c.Backend)
	}
	_, images := imageAPIs[d.Name]
	switch {
	case d.Name == "timed_trace" && api != openai.Completions:
		bad("dataset-name: timed_trace sends token ids, which the backend %s does not take; want vllm or openai", c.Backend)
	case images && !slices.Contains(imageAPIs[d.Name], api):
		bad("dataset-name: %s sends images, which the backend %s does not take; want openai-chat", d.Name, c.Backend)
	case d.Name == "random-rerank" && api.Generates():
		bad("dataset-name: random-rerank sends a query and documents, which the backend %s does not take; want vllm-rerank", c.Backend)
	case api == openai.Rerank && d.Name != "random-rerank":
		bad("backend: vllm-rerank sends a query and documents, which dataset-name %s does not have; want random-rerank", d.Name)
	case d.Name == "random" && d.BatchSize > 1 && !slices.Contains(batchAPIs, api):
		bad("random-batch-size: %d prompts a request, which the backend %s does not take; want 1, or a backend for embeddings", d.BatchSize, c.Backend)
	}
	if len(c.TemplateKwargs) > 0 && openai.CheckExtra(c.TemplateKwargs) != nil {
		bad(`chat-template-kwargs: not a JSON object, such as {"enable_thinking": false}`)
	}
	return errs
}

// rounded is v as JSON has it in vLLM's file: a whole number without a point.
func rounded(v float64) any {
	if v == math.Trunc(v) {
		return int64(v)
	}
	return float(v)
}
