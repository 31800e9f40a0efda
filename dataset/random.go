package dataset

import (
	"context"
	"fmt"

	"github.com/servebench/servebench/dataset/nprand"
	"github.com/servebench/servebench/tokenize"
)

// A generator makes n prompts from a seed. Its first call makes the timed
// prompts, a second one the warm-ups.
type generator interface {
	// It calls emit, if not nil, as Tools.Emit says.
	prompts(ctx context.Context, seed uint64, n int, emit func(int, *Request) error) ([]Request, error)
	// doubts are the warnings of all calls so far.
	doubts() []string
}

// loadRandom is vLLM's RandomDataset: Spec.BatchSize prompts a request, fewer in
// the last one.
func loadRandom(ctx context.Context, s Spec, t Tools) (*Set, error) {
	set := &Set{Synthetic: true}
	gen, err := s.generator(t.Tokenizer, &set.Generator)
	if err != nil {
		return nil, err
	}
	if s.BatchSize > 1 {
		gen = batches{gen, s.warmBatch()}
	}
	return s.generate(ctx, set, gen, t.Emit, s.Warmups*s.warmBatch())
}

// generate fills set. Warm-ups come from a generator whose seed is derived from
// s.Seed, with a shared prefix of their own, so that they leave nothing of the
// timed prompts in a cache.
func (s Spec) generate(ctx context.Context, set *Set, gen generator, emit func(int, *Request) error, warmups int) (_ *Set, err error) {
	seen := newMemory(s, s.Prompts)
	if set.Requests, err = gen.prompts(ctx, uint64(s.Seed), s.Prompts, seen.before(emit)); err != nil {
		return nil, err
	}
	err = seen.addWarmups(s, set, func() ([]Request, error) {
		return gen.prompts(ctx, derive("warmup", uint64(s.Seed)), warmups, nil)
	})
	if err != nil {
		return nil, err
	}
	set.Warnings = append(set.Warnings, gen.doubts()...)
	return set, nil
}

// generator chooses by what is known of the tokenizer.
func (s Spec) generator(tok tokenize.Tokenizer, name *string) (generator, error) {
	v, known := vocabularyOf(tok)
	switch {
	case known && s.TokenIDs:
		*name = "servebench-vocab-ids-1"
		return newVocabularyPrompts(s, tok, v)
	case known:
		*name = "vllm-random"
		return newVocabularyPrompts(s, tok, v)
	case s.TokenIDs:
		*name = "servebench-ids-1"
		return idPrompts{s}, nil
	}
	*name = "servebench-words-1"
	return &wordPrompts{spec: s, tok: tok}, nil
}

// lengths are the first two array draws of vLLM's get_sampling_params: prompt
// lengths around input and answer lengths around s.OutputLen.
func (s Spec) lengths(rng *nprand.Generator, input, n int) (in, out []int64) {
	low, high := span(input, s.RangeRatio.Input)
	in = rng.Integers(low, high+1, n)
	low, high = span(s.OutputLen, s.RangeRatio.Output)
	out = rng.Integers(max(1, low), max(1, high)+1, n)
	return in, out
}

// vocabularyPrompts is vLLM's RandomDataset: a prompt is a run of consecutive
// ids of the vocabulary, decoded, encoded again and adjusted to its length. The
// only random numbers are those of one numpy Generator, in this order: prompt
// lengths, answer lengths, offsets, the prefix, padding.
//
// With Spec.TokenIDs the runs themselves are sent, nothing is adjusted, and the
// lengths do not make room for special tokens: a server adds none to ids.
type vocabularyPrompts struct {
	spec    Spec
	tok     tokenize.Tokenizer
	size    int64        // the padding's bound: any id, special ones too
	allowed []int        // ids of prompts: the vocabulary without special tokens, ascending
	input   int          // Spec.InputLen without the special tokens that the server adds
	taken   map[int]bool // where timed prompts start in allowed; nil before they are made
	excess  int          // tokens more or fewer than asked, after all corrections
}

func newVocabularyPrompts(s Spec, tok tokenize.Tokenizer, v tokenize.Vocabulary) (*vocabularyPrompts, error) {
	g := &vocabularyPrompts{spec: s, tok: tok, size: int64(v.Size), allowed: plainIDs(v), input: s.InputLen}
	if err := someIDs(v, g.allowed); err != nil {
		return nil, err
	}
	if s.TokenIDs {
		return g, nil
	}
	g.input = max(0, s.InputLen-v.Added)
	return g, s.checkInput(v.Added)
}

func (g *vocabularyPrompts) prompts(ctx context.Context, seed uint64, n int, emit func(int, *Request) error) ([]Request, error) {
	rng := nprand.NewGenerator(seed)
	in, out := g.spec.lengths(rng, g.input, n)
	starts := g.starts(rng.Integers(0, g.size, n))
	prefix := pick(rng, g.allowed, g.spec.PrefixLen)
	reqs := make([]Request, n)
	for i := range reqs {
		reqs[i].OutputTokens = int(out[i])
	}
	if g.spec.TokenIDs {
		return reqs, each(ctx, reqs, emit, func(_ context.Context, i int, r *Request) error {
			r.Tokens = g.run(prefix, starts[i], int(in[i]))
			r.InputTokens = len(r.Tokens)
			return nil
		})
	}
	a := adjuster{tok: g.tok, emit: emit, padding: padding{rng: rng, size: g.size}}
	prefix, err := a.adjustPrefix(ctx, prefix)
	if err != nil {
		return nil, err
	}
	err = a.adjustAll(ctx, reqs, func(i int) attempt {
		return attempt{
			ids:    g.run(prefix, starts[i], int(in[i])),
			target: g.spec.PrefixLen + int(in[i]),
			left:   corrections,
		}
	})
	g.excess += a.excess
	return reqs, err
}

// starts turns offsets into places in allowed. A warm-up moves up to the next
// place where no timed prompt starts, if there is one: prompts that start alike
// are alike for a prefix cache.
func (g *vocabularyPrompts) starts(offsets []int64) []int {
	starts := make([]int, len(offsets))
	for i, offset := range offsets {
		starts[i] = int((offset + int64(i)) % int64(len(g.allowed)))
		for tries := 0; g.taken[starts[i]] && tries < len(g.allowed); tries++ {
			starts[i] = (starts[i] + 1) % len(g.allowed)
		}
	}
	if g.taken == nil {
		g.taken = make(map[int]bool, min(len(starts), len(g.allowed)))
		for _, at := range starts {
			g.taken[at] = true
		}
	}
	return starts
}

// run returns prefix and then n allowed ids from start on, round the end. It
// copies only where it must.
func (g *vocabularyPrompts) run(prefix []int, start, n int) []int {
	if len(prefix) == 0 && start+n <= len(g.allowed) {
		return g.allowed[start : start+n : start+n]
	}
	ids := append(make([]int, 0, len(prefix)+n), prefix...)
	for len(ids) < len(prefix)+n {
		ids = append(ids, g.allowed[start:min(len(g.allowed), start+len(prefix)+n-len(ids))]...)
		start = 0
	}
	return ids
}

func (g *vocabularyPrompts) doubts() []string {
	return lengthDoubt(g.excess)
}

// lengthDoubt words the net difference between the tokens made and asked for.
func lengthDoubt(excess int) []string {
	switch {
	case excess > 0:
		return []string{fmt.Sprintf("all prompts together have %d tokens more than asked for: some texts cannot be encoded to the length wanted", excess)}
	case excess < 0:
		return []string{fmt.Sprintf("all prompts together have %d tokens fewer than asked for: some texts cannot be encoded to the length wanted", -excess)}
	}
	return nil
}

// idPrompts draws token ids where the vocabulary is unknown, from a range that
// all models of the day have and in which few have special tokens. The random
// numbers are those of one numpy Generator: prompt lengths, answer lengths, the
// prefix, then each prompt in order.
type idPrompts struct{ spec Spec }

const firstID, endID = 1000, 20000

func (g idPrompts) prompts(ctx context.Context, seed uint64, n int, emit func(int, *Request) error) ([]Request, error) {
	rng := nprand.NewGenerator(seed)
	in, out := g.spec.lengths(rng, g.spec.InputLen, n)
	prefix := rng.Integers(firstID, endID, g.spec.PrefixLen)
	reqs := make([]Request, n)
	for i := range reqs {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		ids := make([]int, 0, len(prefix)+int(in[i]))
		for _, id := range prefix {
			ids = append(ids, int(id))
		}
		for _, id := range rng.Integers(firstID, endID, int(in[i])) {
			ids = append(ids, int(id))
		}
		reqs[i] = Request{Tokens: ids, InputTokens: len(ids), OutputTokens: int(out[i])}
		if emit != nil {
			if err := emit(i, &reqs[i]); err != nil {
				return nil, err
			}
		}
	}
	return reqs, nil
}

func (idPrompts) doubts() []string { return nil }
