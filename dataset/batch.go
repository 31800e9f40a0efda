package dataset

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/servebench/servebench/dataset/nprand"
	"github.com/servebench/servebench/tokenize"
)

func (s Spec) validateBatches(bad *problems) {
	s.validateRandom(bad)
	bad.whole("random-batch-size", int64(s.BatchSize), 0, maxCount)
	if s.BatchSize > 1 && s.TokenIDs {
		bad.addf("random-batch-size: %d prompts in a request cannot be token ids; want 1, or text prompts", s.BatchSize)
	}
	bad.warmupBatches(s)
}

func (p *problems) warmupBatches(s Spec) {
	if n := int64(s.Warmups) * int64(s.BatchSize); n > maxCount {
		p.addf("num-warmups: %d requests of %d prompts are %d; want %d at most", s.Warmups, s.BatchSize, n, maxCount)
	}
}

// warmBatch is the number of prompts of a warm-up: that of a timed request.
func (s Spec) warmBatch() int { return max(1, min(s.BatchSize, s.Prompts)) }

// batches makes requests of size prompts each, fewer in the last one.
type batches struct {
	generator
	size int
}

// prompts makes n prompts, and calls emit, if not nil, for each batch as soon as
// its last one is made.
func (b batches) prompts(ctx context.Context, seed uint64, n int, emit func(int, *Request) error) ([]Request, error) {
	reqs := make([]Request, (n+b.size-1)/b.size)
	missing, tokens := make([]atomic.Int64, len(reqs)), make([]atomic.Int64, len(reqs))
	for i := range reqs {
		reqs[i].Texts = make([]string, min(b.size, n-i*b.size))
		missing[i].Store(int64(len(reqs[i].Texts)))
	}
	_, err := b.generator.prompts(ctx, seed, n, func(i int, r *Request) error {
		at := i / b.size
		reqs[at].Texts[i%b.size] = r.Prompt
		r.Prompt = ""
		tokens[at].Add(int64(r.InputTokens))
		if missing[at].Add(-1) > 0 {
			return nil
		}
		reqs[at].InputTokens = int(tokens[at].Load())
		if emit == nil {
			return nil
		}
		return emit(at, &reqs[at])
	})
	return reqs, err
}

func (s Spec) validateRerank(bad *problems) {
	least := 1
	if s.NoReranker {
		least = 2 // of which one is the query
	}
	before := len(*bad)
	bad.whole("num-prompts", int64(s.Prompts), int64(least), maxCount)
	bad.whole("random-input-len", int64(s.InputLen), 1, maxLen)
	bad.ratio("input", s.RangeRatio.Input)
	bad.noFile(s)
	if s.NoReranker && s.BatchSize < least {
		bad.addf("random-batch-size: %d is the query alone; want 2 or more with no-reranker", max(1, s.BatchSize))
	}
	bad.whole("random-batch-size", int64(s.BatchSize), 0, maxCount)
	bad.warmupBatches(s)
	if s.TokenIDs {
		bad.addf("prompt-form: a reranker's query and documents cannot be token ids; want text")
	}
	if len(*bad) > before {
		return
	}
	if total := int64(s.Prompts+s.Warmups*max(1, s.BatchSize)) * int64(s.InputLen); total > maxTokens {
		bad.addf("num-prompts: %d documents of up to %d tokens are %d tokens; want %d at most, or smaller random-input-len",
			s.Prompts, s.InputLen, total, int64(maxTokens))
	}
}

// loadRerank is vLLM's RandomDatasetForReranking: one query and num-prompts
// documents, in requests of the query and a batch of documents.
//
// A reranker sees a query and a document as one text with a separator between
// them, together InputLen tokens; a model that only embeds sees InputLen each.
func loadRerank(ctx context.Context, s Spec, t Tools) (*Set, error) {
	set := &Set{Synthetic: true}
	r := reranking{spec: s, tok: t.Tokenizer}
	var err error
	if set.Requests, err = r.requests(ctx, uint64(s.Seed), s.Prompts, &set.Generator); err != nil {
		return nil, err
	}
	err = addWarmups(s, set, func() ([]Request, error) {
		documents := s.Warmups * max(1, s.BatchSize)
		if s.NoReranker {
			documents = s.Warmups*(s.BatchSize-1) + 1
		}
		var name string
		return r.requests(ctx, derive("warmup", uint64(s.Seed)), documents, &name)
	})
	set.Warnings = append(set.Warnings, lengthDoubt(r.excess)...)
	return set, err
}

type reranking struct {
	spec   Spec
	tok    tokenize.Tokenizer
	excess int
}

// requests draws the query's length and offset, then all documents', then makes
// the texts in this order.
func (r *reranking) requests(ctx context.Context, seed uint64, n int, name *string) ([]Request, error) {
	s, separators, size := r.spec, 1, max(1, r.spec.BatchSize)
	if s.NoReranker {
		// vLLM counts the query as one of the prompts, and as one of a batch.
		n, size, separators = n-1, size-1, 0
	}
	v, known := vocabularyOf(r.tok)
	s.OutputLen = 0 // then no answer lengths are drawn
	rng := nprand.NewGenerator(seed)
	draw := func(input, n int) (lengths, offsets []int64) {
		lengths, _ = s.lengths(rng, max(0, input-v.Added), n)
		if known {
			offsets = rng.Integers(0, int64(v.Size), n)
		}
		return lengths, offsets
	}
	query := s.InputLen
	if !s.NoReranker {
		query = s.InputLen/2 - separators
	}
	lengths, offsets := draw(query, 1)
	document := s.InputLen
	if !s.NoReranker {
		document = s.InputLen - int(lengths[0]) - separators
	}
	more, moreOffsets := draw(document, n)
	lengths, offsets = append(lengths, more...), append(offsets, moreOffsets...)
	if slices.Min(lengths) < 1 {
		return nil, fmt.Errorf("random-input-len: %d tokens with %d special tokens and random-range-ratio %v give an empty query or document; want more tokens",
			s.InputLen, v.Added, s.RangeRatio.Input)
	}
	var texts []Request
	var err error
	if known {
		*name = "vllm-random-rerank"
		texts, err = r.vocabularyTexts(ctx, v, rng, lengths, offsets)
	} else {
		*name = "servebench-random-rerank-words-1"
		texts, err = r.wordTexts(ctx, seed, lengths)
	}
	if err != nil {
		return nil, err
	}
	for i, text := range texts {
		r.excess += text.InputTokens - int(lengths[i])
	}
	return rerankRequests(texts[0], texts[1:], size, separators), nil
}

// rerankRequests counts a request as vLLM does: for a reranker the query and a
// separator once for each document.
func rerankRequests(query Request, documents []Request, size, separators int) (reqs []Request) {
	for batch := range slices.Chunk(documents, size) {
		req := Request{Texts: []string{query.Prompt}, InputTokens: query.InputTokens}
		if separators > 0 {
			req.InputTokens = (query.InputTokens + separators) * len(batch)
		}
		for _, d := range batch {
			req.Texts = append(req.Texts, d.Prompt)
			req.InputTokens += d.InputTokens
		}
		reqs = append(reqs, req)
	}
	return reqs
}

func (r *reranking) vocabularyTexts(ctx context.Context, v tokenize.Vocabulary, rng *nprand.Generator, lengths, offsets []int64) ([]Request, error) {
	s := r.spec
	s.InputLen += v.Added + 1 // the lengths are known: nothing is to be checked
	s.RangeRatio = Ratio{}
	g, err := newVocabularyPrompts(s, r.tok, v)
	if err != nil {
		return nil, err
	}
	starts := g.starts(offsets)
	texts := make([]Request, len(lengths))
	a := adjuster{tok: r.tok, padding: padding{rng: rng, size: g.size}}
	err = a.adjustAll(ctx, texts, func(i int) attempt {
		return attempt{ids: g.run(nil, starts[i], int(lengths[i])), target: int(lengths[i]), left: corrections}
	})
	return texts, err
}

func (r *reranking) wordTexts(ctx context.Context, seed uint64, lengths []int64) ([]Request, error) {
	g := &wordPrompts{spec: r.spec, tok: r.tok}
	texts := make([]Request, len(lengths))
	err := parallel(ctx, countWorkers, len(texts), func(ctx context.Context, i int) (err error) {
		own := nprand.NewGenerator(derive(fmt.Sprintf("words %d", i), seed))
		texts[i], err = g.one(ctx, own, nil, int(lengths[i]))
		return err
	})
	return texts, err
}
