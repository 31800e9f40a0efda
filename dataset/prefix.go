package dataset

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/servebench/servebench/dataset/nprand"
	"github.com/servebench/servebench/tokenize"
)

func (s Spec) validatePrefixes(bad *problems) {
	before := len(*bad)
	bad.whole("num-prompts", int64(s.Prompts), 1, maxCount)
	bad.whole("prefix-repetition-prefix-len", int64(s.PrefixLen), 0, maxLen)
	bad.whole("prefix-repetition-suffix-len", int64(s.SuffixLen), 0, maxLen)
	bad.whole("prefix-repetition-num-prefixes", int64(s.Prefixes), 1, maxCount)
	bad.whole("prefix-repetition-output-len", int64(s.OutputLen), 1, maxLen)
	bad.noFile(s)
	if len(*bad) > before {
		return // the sums below would judge nonsense
	}
	if s.Prompts < s.Prefixes {
		bad.addf("prefix-repetition-num-prefixes: %d prefixes for %d prompts; want num-prompts or fewer", s.Prefixes, s.Prompts)
	}
	length := s.PrefixLen + s.SuffixLen
	if length == 0 {
		bad.addf("prefix-repetition-suffix-len: prefix and suffix are both empty; want one token at least")
	}
	if total := int64(s.Prompts+s.Warmups) * int64(length); total > maxTokens {
		bad.addf("num-prompts: %d prompts of %d tokens are %d tokens; want %d at most, or shorter ones",
			s.Prompts+s.Warmups, length, total, int64(maxTokens))
	}
}

// A prefixMaker makes the parts of prefix_repetition's prompts, one after the
// other in vLLM's order: a prefix, its suffixes, the next prefix.
type prefixMaker interface {
	prefix(ctx context.Context) (part, error)
	suffix(ctx context.Context) (part, error)
	// join makes the prompt of a prefix and a suffix. It is safe for concurrent
	// use, the k-th prompt's call at any time after its parts were made.
	join(ctx context.Context, k int, prefix, suffix part) (Request, error)
	// excess is the number of tokens more or fewer than asked for so far.
	excess() int
}

// part is half a prompt: ids, or the words of a maker of words.
type part struct {
	ids   []int
	words []string
}

// loadPrefixes is vLLM's PrefixRepetitionRandomDataset. What it leaves over,
// num-prompts modulo the number of prefixes, is not sent here either.
func loadPrefixes(ctx context.Context, s Spec, t Tools) (*Set, error) {
	per := s.Prompts / s.Prefixes
	n := per * s.Prefixes
	set := &Set{Synthetic: true, Requests: make([]Request, n)}
	if n < s.Prompts {
		set.warnf("num-prompts: %d is no multiple of %d prefixes: %d requests are sent, as vLLM does",
			s.Prompts, s.Prefixes, n)
	}
	set.Python = nprand.NewPython(s.Seed)
	place := s.places(n, set.Python)
	seen := newMemory(s, n)
	emit := seen.before(t.Emit)
	set.Numpy = nprand.NewLegacy(uint32(s.Seed))
	timed, err := s.prefixMaker(t.Tokenizer, uint64(s.Seed), set.Numpy, &set.Generator)
	if err != nil {
		return nil, err
	}
	err = s.joinAll(ctx, timed, per, n, func(k int, r Request) error {
		set.Requests[place[k]] = r
		return emit(place[k], &set.Requests[place[k]])
	})
	if err != nil {
		return nil, err
	}
	excess := timed.excess()
	err = seen.addWarmups(s, set, func() ([]Request, error) { return s.prefixWarmups(ctx, t.Tokenizer) })
	if err != nil {
		return nil, err
	}
	set.Warnings = append(set.Warnings, lengthDoubt(excess)...)
	return set, nil
}

// places says where the k-th prompt made is sent, which does not depend on what
// it is.
func (s Spec) places(n int, python *nprand.Python) []int {
	order, place := make([]int, n), make([]int, n)
	for i := range order {
		order[i] = i
	}
	if !s.DisableShuffle {
		python.Shuffle(n, func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	for at, k := range order {
		place[k] = at
	}
	return place
}

// prefixWarmups have prefixes and suffixes of their own, from a seed of their
// own.
func (s Spec) prefixWarmups(ctx context.Context, tok tokenize.Tokenizer) ([]Request, error) {
	reqs := make([]Request, s.Warmups)
	seed := derive("warmup", uint64(s.Seed))
	var name string
	m, err := s.prefixMaker(tok, seed, nprand.NewLegacy(uint32(seed)), &name)
	if err != nil {
		return nil, err
	}
	per := (s.Warmups + s.Prefixes - 1) / s.Prefixes
	err = s.joinAll(ctx, m, per, s.Warmups, func(k int, r Request) error {
		reqs[k] = r
		return nil
	})
	return reqs, err
}

// prefixMaker chooses by what is known of the tokenizer. Only vLLM's draws from
// numpy, which others leave as it is.
func (s Spec) prefixMaker(tok tokenize.Tokenizer, seed uint64, numpy *nprand.Legacy, name *string) (prefixMaker, error) {
	v, known := vocabularyOf(tok)
	switch {
	case known && !s.TokenIDs:
		*name = "vllm-prefix-repetition"
		return &vocabularyParts{spec: s, tok: tok, rng: numpy, size: int64(v.Size)}, someIDs(v, plainIDs(v))
	case known:
		*name = "servebench-prefix-repetition-vocab-ids-1"
		ids := plainIDs(v)
		return &idParts{spec: s, rng: nprand.NewGenerator(seed), ids: ids}, someIDs(v, ids)
	case s.TokenIDs:
		*name = "servebench-prefix-repetition-ids-1"
		return &idParts{spec: s, rng: nprand.NewGenerator(seed), ids: unknownIDs()}, nil
	}
	*name = "servebench-prefix-repetition-words-1"
	return &wordParts{wordPrompts: wordPrompts{spec: s, tok: tok}, seed: seed, rng: nprand.NewGenerator(seed)}, nil
}

// joinAll makes n prompts, per of them behind each prefix. One goroutine makes
// the parts, as each goes on with the random numbers where the one before it
// stopped; the others join them and call done.
func (s Spec) joinAll(ctx context.Context, m prefixMaker, per, n int, done func(k int, r Request) error) error {
	type pair struct {
		k              int
		prefix, suffix part
	}
	pairs := make(chan pair, 4*cores())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(pairs)
		var prefix part
		for k := range n {
			var err error
			if k%per == 0 {
				if prefix, err = m.prefix(ctx); err != nil {
					return err
				}
			}
			suffix, err := m.suffix(ctx)
			if err != nil {
				return err
			}
			select {
			case pairs <- pair{k, prefix, suffix}:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
	for range cores() {
		g.Go(func() error {
			for p := range pairs {
				r, err := m.join(ctx, p.k, p.prefix, p.suffix)
				if err != nil {
					return err
				}
				r.OutputTokens = s.OutputLen
				if err := done(p.k, r); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// vocabularyParts are vLLM's: ids of the whole vocabulary, special ones too,
// each part adjusted to its length. Parts and padding come from one RandomState.
// The length of a joined text is not looked at.
type vocabularyParts struct {
	spec Spec
	tok  tokenize.Tokenizer
	rng  *nprand.Legacy
	size int64
	off  int
}

func (m *vocabularyParts) prefix(ctx context.Context) (part, error) {
	return m.adjusted(ctx, m.spec.PrefixLen)
}

func (m *vocabularyParts) suffix(ctx context.Context) (part, error) {
	return m.adjusted(ctx, m.spec.SuffixLen)
}

func (m *vocabularyParts) adjusted(ctx context.Context, n int) (part, error) {
	a := attempt{ids: m.draw(nil, n), target: n, left: corrections}
	for {
		if err := a.advance(ctx, m.tok); err != nil {
			return part{}, err
		}
		if a.missing == 0 {
			break
		}
		a.ids = m.draw(a.ids, a.missing)
	}
	m.off += len(a.ids) - n
	return part{ids: a.ids}, nil
}

func (m *vocabularyParts) draw(ids []int, n int) []int {
	for _, id := range m.rng.Integers(0, m.size, n) {
		ids = append(ids, int(id))
	}
	return ids
}

func (m *vocabularyParts) join(ctx context.Context, _ int, prefix, suffix part) (Request, error) {
	ids := joined(prefix, suffix)
	text, err := m.tok.Decode(ctx, ids)
	if err != nil {
		return Request{}, fmt.Errorf("decode prompt: %w", err)
	}
	return Request{Prompt: text, InputTokens: len(ids)}, nil
}

func (m *vocabularyParts) excess() int { return m.off }

func joined(prefix, suffix part) []int {
	return append(append(make([]int, 0, len(prefix.ids)+len(suffix.ids)), prefix.ids...), suffix.ids...)
}

// idParts draws ids for prompts that are sent as ids, without special ones.
type idParts struct {
	spec Spec
	rng  *nprand.Generator
	ids  []int
}

func (m *idParts) prefix(context.Context) (part, error) {
	return part{ids: pick(m.rng, m.ids, m.spec.PrefixLen)}, nil
}

func (m *idParts) suffix(context.Context) (part, error) {
	return part{ids: pick(m.rng, m.ids, m.spec.SuffixLen)}, nil
}

func (m *idParts) join(_ context.Context, _ int, prefix, suffix part) (Request, error) {
	ids := joined(prefix, suffix)
	return Request{Tokens: ids, InputTokens: len(ids)}, nil
}

func (m *idParts) excess() int { return 0 }

// pick draws n of ids, with replacement.
func pick(rng *nprand.Generator, ids []int, n int) []int {
	out := make([]int, n)
	for i, at := range rng.Integers(0, int64(len(ids)), n) {
		out[i] = ids[at]
	}
	return out
}

// wordParts makes texts where the vocabulary is unknown. Prefixes have one
// generator, each suffix one of its own, whose words are added or taken away
// until the whole prompt has its length.
type wordParts struct {
	wordPrompts
	seed uint64
	rng  *nprand.Generator
	off  atomic.Int64
}

func (m *wordParts) prefix(context.Context) (part, error) {
	return part{words: appendWords(nil, m.rng, m.spec.PrefixLen)}, nil
}

func (m *wordParts) suffix(context.Context) (part, error) { return part{}, nil }

func (m *wordParts) join(ctx context.Context, k int, prefix, _ part) (Request, error) {
	own := nprand.NewGenerator(derive(fmt.Sprintf("words %d", k), m.seed))
	r, err := m.one(ctx, own, prefix.words, m.spec.SuffixLen)
	m.off.Add(int64(r.InputTokens - len(prefix.words) - m.spec.SuffixLen))
	return r, err
}

func (m *wordParts) excess() int { return int(m.off.Load()) }
