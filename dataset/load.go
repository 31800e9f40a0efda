package dataset

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"hash/maphash"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/servebench/servebench/dataset/nprand"
	"github.com/servebench/servebench/tokenize"
)

// Set is a loaded data set. It is not changed after Load and may be read
// concurrently.
type Set struct {
	// Requests are the timed requests in sending order.
	Requests []Request
	// Offsets are the due times that a timed trace gives its requests, from the
	// start of the load, ascending; nil where there are none.
	Offsets []time.Duration
	// Warmups are the requests to send before the clock starts.
	Warmups []Request
	// Generator names what made the prompts; another algorithm gets another
	// name:
	//   - "vllm-random": vLLM's random data set, text;
	//   - "servebench-vocab-ids-1": the token ids from which vLLM's random
	//     data set starts, not adjusted;
	//   - "servebench-words-1": English words, where no vocabulary is known;
	//   - "servebench-ids-1": token ids of [1000, 20000), where none is known;
	//   - "vllm-prefix-repetition", "vllm-random-rerank", "vllm-random-mm":
	//     vLLM's data sets of these names;
	//   - "vllm-timed-trace": prompts of a trace's hash ids as vLLM makes them
	//     under PYTHONHASHSEED=0;
	//   - the same with "servebench-" before them and "-ids-1" (ids without a
	//     vocabulary), "-vocab-ids-1" or "-words-1" behind: made as the kinds
	//     above of these endings;
	//   - "custom-image-jsonl": a file's rows with images in vLLM's order;
	//   - "custom-jsonl", "sharegpt-json", "spec-bench-jsonl",
	//     "speed-bench-jsonl": a file's rows in vLLM's order;
	//   - "burstgpt-ids": vLLM's prompts of BurstGPT's lengths;
	//   - "sonnet-lines": older vLLM's prompts of a poem's lines;
	//   - "hf-parquet": rows of a data set of the hub in the order of datasets 5.2.
	Generator string
	// Numpy and Python are vLLM's global generators as its data set leaves them,
	// for the draws that follow it (arrival times; adapters): numpy.random and
	// Python's random. nil is one freshly seeded with Spec.Seed. Whoever draws
	// takes a copy, *set.Numpy, and draws from that.
	Numpy  *nprand.Legacy
	Python *nprand.Python
	// Synthetic is true where the prompts were made and not read.
	Synthetic bool
	// Warnings are doubts about the set, for people.
	Warnings []string
}

func (s *Set) warnf(format string, args ...any) {
	s.Warnings = append(s.Warnings, fmt.Sprintf(format, args...))
}

// Tools are what a data set needs beside its file. Each may be nil.
type Tools struct {
	// Tokenizer counts and makes prompts. One that knows its vocabulary gives
	// random sets vLLM's prompts and read ones their token counts. With any
	// other random prompts are words, counted through it (many calls at a
	// time), or unconfirmed where it is nil: InputTokens is then what was asked
	// for.
	Tokenizer tokenize.Tokenizer
	// Render renders the model's chat template around one user message, with
	// the beginning of an answer. It is safe for concurrent use.
	Render func(prompt string) (string, error)
	// RenderMessages renders it around a chat's whole list of messages, in JSON,
	// with the beginning of an answer. It is safe for concurrent use.
	RenderMessages func(messages json.RawMessage) (string, error)
	// Hub fetches files of a data set of the hub.
	Hub Fetcher
	// Emit, if set, is called once for each timed request as soon as it is
	// final, from several goroutines and in any order, but for request 0, which
	// is always begun first (not in prefix_repetition, which makes prompts in
	// another order than it sends them). It may take the prompt out of the request:
	// the texts of a large random set are then never in memory together.
	Emit func(i int, r *Request) error
}

// A Fetcher gets the files of a data set of the hub. It is safe for concurrent
// use.
type Fetcher interface {
	// Files lists the data set's files, as paths below it.
	Files(ctx context.Context, id string) ([]string, error)
	// Fetch returns a local path of one of them.
	Fetch(ctx context.Context, id, file string) (string, error)
}

// kind is one kind of data set.
type kind struct {
	validate func(Spec, *problems)
	load     func(context.Context, Spec, Tools) (*Set, error)
	emits    bool // load calls Tools.Emit itself
}

// kinds are all of them by their names.
var kinds = map[string]kind{
	"random": {Spec.validateBatches, loadRandom, true},
	"custom": {Spec.validateCustom, loadCustom, false},

	"custom_image":      {Spec.validateImages, loadImages, true},
	"prefix_repetition": {Spec.validatePrefixes, loadPrefixes, true},
	"random-mm":         {Spec.validateMedia, loadMedia, true},
	"random-rerank":     {Spec.validateRerank, loadRerank, false},
	"timed_trace":       {Spec.validateTrace, loadTrace, true},

	"sharegpt":    {Spec.validateShareGPT, loadShareGPT, false},
	"burstgpt":    {Spec.validateBurstGPT, loadBurstGPT, false},
	"spec_bench":  {Spec.validateSpecBench, loadSpecBench, false},
	"speed_bench": {Spec.validateSpeedBench, loadSpeedBench, false},
	"sonnet":      {Spec.validateSonnet, loadSonnet, false},
	"hf":          {Spec.validateHub, loadHub, false},
}

// Names lists the kinds of data set in alphabetical order.
func Names() []string { return slices.Sorted(maps.Keys(kinds)) }

// Load makes the data set that s describes.
//
// It uses all cores, and returns early with the context's error when ctx ends.
// An error in a file names it as s.Path does, with the line.
func Load(ctx context.Context, s Spec, t Tools) (*Set, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	k := kinds[s.Name]
	set, err := k.load(ctx, s, t)
	if err != nil || k.emits || t.Emit == nil {
		return set, err
	}
	return set, parallel(ctx, cores(), len(set.Requests), func(_ context.Context, i int) error {
		return t.Emit(i, &set.Requests[i])
	})
}

// derive is the seed of a generator that is independent of the spec's own: the
// FNV-1a hash of "purpose:seed". Warm-ups use the purpose "warmup", words
// "words" followed by the request's number.
func derive(purpose string, seed uint64) uint64 {
	h := fnv.New64a()
	h.Write(strconv.AppendUint([]byte(purpose+":"), seed, 10))
	return h.Sum64()
}

// addWarmups sets set.Warmups as s asks: copies of the first request, or what
// prompts returns. A warm-up that equals a timed prompt would warm its cache
// entries, so it is warned about.
func addWarmups(s Spec, set *Set, prompts func() ([]Request, error)) error {
	m := newMemory(s, len(set.Requests))
	for i := range set.Requests {
		m.note(i, set.Requests[i])
	}
	return m.addWarmups(s, set, prompts)
}

// memory is what the warm-ups need to know of timed requests that may be gone.
type memory struct {
	first  Request
	seed   maphash.Seed
	hashes []uint64
}

func newMemory(s Spec, n int) *memory {
	m := &memory{seed: maphash.MakeSeed()}
	if s.Warmups > 0 && !s.WarmupFirst {
		m.hashes = make([]uint64, n)
	}
	return m
}

// note may be called from several goroutines, once for each request.
func (m *memory) note(i int, r Request) {
	if i == 0 {
		m.first = r
	}
	if m.hashes != nil {
		m.hashes[i] = r.hash(m.seed)
	}
}

// before returns an emit that notes each request before emit, if it is not nil,
// takes it.
func (m *memory) before(emit func(int, *Request) error) func(int, *Request) error {
	return func(i int, r *Request) error {
		m.note(i, *r)
		if emit == nil {
			return nil
		}
		return emit(i, r)
	}
}

func (m *memory) addWarmups(s Spec, set *Set, prompts func() ([]Request, error)) (err error) {
	switch {
	case s.Warmups == 0:
		return nil
	case s.WarmupFirst:
		for range s.Warmups {
			set.Warmups = append(set.Warmups, m.first)
		}
		return nil
	}
	if set.Warmups, err = prompts(); err != nil {
		return err
	}
	own, same := make(map[uint64]bool, s.Warmups), 0
	for _, w := range set.Warmups {
		own[w.hash(m.seed)] = true
	}
	for _, h := range m.hashes {
		if own[h] {
			delete(own, h)
			same++
		}
	}
	if same > 0 {
		set.warnf("%d warm-up prompts of %d equal a timed prompt, which may come from the server's prefix cache", same, s.Warmups)
	}
	return nil
}

// hash tells prompts apart, whatever they are made of.
func (r Request) hash(seed maphash.Seed) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, text := range append([]string{r.Prompt, string(r.Messages)}, r.Texts...) {
		h.WriteString(text)
		h.WriteByte(0)
	}
	for _, part := range r.Parts {
		h.Write(part)
	}
	var word [8]byte
	for _, id := range r.Tokens {
		binary.LittleEndian.PutUint64(word[:], uint64(id))
		h.Write(word[:])
	}
	return h.Sum64()
}

// parallel calls f for 0..n-1 from up to workers goroutines and waits for them.
// After an error, or when ctx ends, no further calls start.
func parallel(ctx context.Context, workers, n int, f func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	var taken atomic.Int64
	for range min(workers, n) {
		g.Go(func() error {
			for i := int(taken.Add(1)) - 1; i < n; i = int(taken.Add(1)) - 1 {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if err := f(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

func cores() int { return runtime.GOMAXPROCS(0) }
