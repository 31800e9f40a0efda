package bench

import (
	"fmt"
	"hash/maphash"

	"github.com/servebench/servebench/manifest/probe"
	"github.com/servebench/servebench/metrics"
)

// PrefixCache says how much of the prompts came from the servers' prefix caches,
// and how much of that the run's own prompts explain. Tokens are of the requests
// that completed.
type PrefixCache struct {
	PromptTokens int64 `json:"prompt_tokens"`
	// UsageCached is what the servers' usage tells; 0 also where it tells nothing
	// of caches, as vLLM's without --enable-prompt-tokens-details.
	UsageCached int64   `json:"usage_cached_tokens"`
	UsageShare  float64 `json:"usage_cached_share"` // of PromptTokens
	// Queried and Hit are tokens that the servers' counters counted over the timed
	// part, whosever they were; nil where they are not known. HitRate is their
	// quotient.
	Queried *int64   `json:"queried_tokens"`
	Hit     *int64   `json:"hit_tokens"`
	HitRate *float64 `json:"hit_rate"`
	// Explained is the most that a cache which was empty before the run can have
	// served, as a share of the prompt tokens: prompts may begin alike. It is an
	// estimate over the first Checked requests; nil where it was not made, as
	// nothing came from a cache or the order of a prompt's parts is not known.
	Explained *float64 `json:"explained_share"`
	Checked   int      `json:"checked_requests"`
	// Warm tells that more came from the caches than Explained.
	Warm bool `json:"warm"`
	// Beyond is the share of the prompt tokens that is not explained.
	Beyond float64 `json:"unexplained_share"`
}

// warmShare of the prompt tokens must be unexplained for a cache to count as warm:
// the estimate has its own error.
const warmShare = 0.02

// prefixCache looks at the records and counters; nil where nothing completed.
func (r *Result) prefixCache() *PrefixCache {
	if r.Summary.Completed == 0 {
		return nil
	}
	p := &PrefixCache{PromptTokens: r.Summary.InputTokens}
	for i := range r.Records {
		if rec := &r.Records[i]; rec.Outcome == metrics.OK {
			p.UsageCached = min(p.UsageCached+int64(min(rec.CachedTokens, rec.PromptTokens)), p.PromptTokens)
		}
	}
	if p.PromptTokens > 0 {
		p.UsageShare = float64(p.UsageCached) / float64(p.PromptTokens)
	}
	if q, ok := r.counted.Counts[probe.PrefixQueries]; ok {
		if hits := r.counted.Counts[probe.PrefixHits]; hits <= q {
			p.Queried, p.Hit = ptr(int64(q)), ptr(int64(hits))
			if q > 0 {
				p.HitRate = ptr(float64(hits) / float64(q))
			}
		}
	}
	if p.PromptTokens > 0 && p.share() > warmShare {
		p.explain(r)
	}
	return p
}

// share is how much came from a cache: by the usage, which is of these requests
// alone, or else by the counters.
func (p *PrefixCache) share() float64 {
	if p.UsageCached == 0 && p.HitRate != nil {
		return *p.HitRate
	}
	return p.UsageShare
}

// explain compares what came from a cache with what the prompts share.
func (p *PrefixCache) explain(r *Result) {
	var prompts, cached, shared float64
	seen := newPrompts()
	add := func(body []byte) (part float64, ok bool) {
		prompt, text := r.Config.API().PromptIn(body)
		if prompt == nil {
			return 0, false
		}
		part = seen.add(prompt)
		if text { // some texts take more tokens a byte than others
			part = min(1, 1.5*part)
		}
		return part, true
	}
	// With a salt these have salts of their own.
	if r.Config.Salt == "" {
		if r.ReadyRequests > 0 && !r.reset {
			add(r.Plan.first.Body)
		}
		for i := 0; i < r.warmups && seen.room(); i++ {
			if body, err := r.Plan.warmups[i].Bytes(); err == nil {
				add(body)
			}
		}
	}
	for i := range r.Records {
		rec, req := &r.Records[i], &r.Plan.Requests[i]
		if !seen.room() {
			break
		}
		body, err := req.Bytes()
		if err != nil {
			break
		}
		part, ok := add(body)
		if !ok {
			return
		}
		p.Checked++
		if rec.Outcome != metrics.OK {
			continue
		}
		n := float64(rec.PromptTokens)
		prompts, cached = prompts+n, cached+float64(min(rec.CachedTokens, rec.PromptTokens))
		shared += min(n, part*n+r.templateTokens(req.PromptTokens, rec.PromptTokens))
	}
	if prompts == 0 {
		return
	}
	explained := shared / prompts
	have := cached / prompts
	if p.UsageCached == 0 {
		have = *p.HitRate
	}
	p.Explained = &explained
	p.Beyond = max(0, have-explained)
	p.Warm = p.Beyond > warmShare
}

// templateTokens is at most how many tokens a chat template puts around a prompt,
// the same for all. Where nobody counted the prompt it is a usual number.
func (r *Result) templateTokens(made, counted int) float64 {
	switch {
	case !r.Config.API().Renders():
		return 0
	case made > 0:
		return float64(max(0, counted-made))
	}
	return 64
}

// prompts remembers how prompts began: a hash for every chunk, of all bytes up to
// its end.
type prompts struct {
	seed maphash.Seed
	seen map[uint64]struct{}
}

const (
	promptChunk = 32      // bytes; a block of vLLM's cache has 16 tokens at least
	promptsKept = 1 << 20 // chunks: 32 MiB of prompts, in some 40 MB
)

func newPrompts() *prompts {
	return &prompts{seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
}

// room tells whether another prompt may be added.
func (p *prompts) room() bool { return len(p.seen) < promptsKept }

// add remembers a prompt and returns at most which part of it an earlier one
// began with.
func (p *prompts) add(prompt []byte) float64 {
	var h maphash.Hash
	h.SetSeed(p.seed)
	known, same := 0, true
	for from := 0; from < len(prompt); from += promptChunk {
		chunk := prompt[from:min(len(prompt), from+promptChunk)]
		_, _ = h.Write(chunk)
		sum := h.Sum64()
		if _, there := p.seen[sum]; same && there {
			known += len(chunk)
		} else {
			same = false
			p.seen[sum] = struct{}{}
		}
	}
	if known > 0 && known < len(prompt) {
		known = min(len(prompt), known+promptChunk-1)
	}
	return float64(known) / float64(max(1, len(prompt)))
}

// doubts say where prompt tokens came from.
func (p *PrefixCache) doubts(r *Result) []string {
	if p == nil || p.share() == 0 {
		return nil
	}
	what := fmt.Sprintf("%d of %d prompt tokens (%.1f %%) came from the server's prefix cache", p.UsageCached, p.PromptTokens, 100*p.UsageShare)
	if p.UsageCached == 0 {
		what = fmt.Sprintf("%d of %d prompt tokens (%.1f %%) came from the server's prefix cache, by its counters", *p.Hit, *p.Queried, 100**p.HitRate)
	}
	if !p.Warm {
		if p.Explained != nil {
			what += "; the run's own prompts begin alike"
		}
		return []string{what + "."}
	}
	way := "--salt auto or --reset-prefix-cache avoids that"
	switch {
	case r.Config.Salt != "":
		way = "its salt was used before, or the server does not look at it; --salt auto draws another, --reset-prefix-cache empties the cache"
	case r.reset:
		way = "it was filled again after the reset, by others; --salt auto keeps apart from them"
	}
	return []string{fmt.Sprintf("Warm cache: %s, and prompts of this run that begin alike explain at most %.1f %%. The server knew them from before, which makes it look faster: %s.",
		what, 100**p.Explained, way)}
}
