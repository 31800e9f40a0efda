package dataset

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/servebench/servebench/dataset/nprand"
	"github.com/servebench/servebench/tokenize"
)

// corrections is how often vLLM cuts or pads one prompt before it takes the
// length as it is.
const corrections = 10

// An attempt is one prompt on its way through vLLM's
// gen_prompt_decode_to_target_len: decode, encode again, and while the length is
// not the target cut or pad, at most `corrections` times.
type attempt struct {
	ids     []int
	text    string
	target  int
	left    int // corrections left
	missing int // padding needed before the next pass; 0 when done
	drawn   int // padding used so far
}

// advance makes passes until the attempt is done or padding is missing.
func (a *attempt) advance(ctx context.Context, tok tokenize.Tokenizer) (err error) {
	for {
		if a.text, err = tok.Decode(ctx, a.ids); err != nil {
			return fmt.Errorf("decode random prompt: %w", err)
		}
		if a.ids, err = tok.Encode(ctx, a.text, false); err != nil {
			return fmt.Errorf("encode random prompt: %w", err)
		}
		a.missing = a.target - len(a.ids)
		if a.missing == 0 || a.left == 0 {
			a.missing = 0
			return nil
		}
		a.left--
		if a.missing > 0 {
			return nil
		}
		a.ids = a.ids[:a.target]
	}
}

// finish makes all remaining passes with the padding from place `from` on.
func (a *attempt) finish(ctx context.Context, tok tokenize.Tokenizer, p *padding, from int) error {
	for a.missing > 0 {
		// Clip: other tries of this attempt start from the same ids.
		a.ids = p.appendTo(slices.Clip(a.ids), from+a.drawn, a.missing)
		a.drawn += a.missing
		if err := a.advance(ctx, tok); err != nil {
			return err
		}
	}
	return nil
}

// padding is the one stream of ids that all prompts take their padding from,
// each where the one before it stopped. All draws have one bound, so how they
// are cut into calls does not matter. appendTo is safe for concurrent use.
type padding struct {
	rng  *nprand.Generator
	size int64

	mu    sync.Mutex
	ahead []int64 // drawn but not discarded; guarded by mu
}

// appendTo appends the n ids from place `from` on; place 0 is the first that was
// not discarded.
func (p *padding) appendTo(ids []int, from, n int) []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if lack := from + n - len(p.ahead); lack > 0 {
		p.ahead = append(p.ahead, p.rng.Integers(0, p.size, lack)...)
	}
	for _, id := range p.ahead[from : from+n] {
		ids = append(ids, int(id))
	}
	return ids
}

func (p *padding) discard(n int) { p.ahead = p.ahead[n:] }

// adjuster runs attempts as if one after another, though on all cores.
//
// What a prompt becomes depends on the prompts before it only through the place
// in the padding stream, and few need padding (8 % of Qwen3's at 1,024 tokens).
// So prompts run together up to their first padding; those that need some then
// run together on the guess that each takes what it misses now, and of these the
// ones that started at the right place are kept.
type adjuster struct {
	tok     tokenize.Tokenizer
	emit    func(int, *Request) error // nil: nobody takes them
	padding padding
	excess  int // tokens more or fewer than asked, after all corrections
}

// adjustPrefix adjusts the shared prefix to its own length and returns its ids.
func (a *adjuster) adjustPrefix(ctx context.Context, ids []int) ([]int, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	p := attempt{ids: ids, target: len(ids), left: corrections}
	if err := p.advance(ctx, a.tok); err != nil {
		return nil, err
	}
	if err := p.finish(ctx, a.tok, &a.padding, 0); err != nil {
		return nil, err
	}
	a.padding.discard(p.drawn)
	return p.ids, nil
}

// adjustAll fills in the prompts of reqs from the attempts that begin returns.
// It works in blocks, so that the ids of all prompts are never in memory at once.
func (a *adjuster) adjustAll(ctx context.Context, reqs []Request, begin func(i int) attempt) error {
	attempts := make([]attempt, min(len(reqs), 64*cores()))
	for first := 0; first < len(reqs); first += len(attempts) {
		block := attempts[:min(len(attempts), len(reqs)-first)]
		err := parallel(ctx, cores(), len(block), func(ctx context.Context, i int) error {
			block[i] = begin(first + i)
			return block[i].advance(ctx, a.tok)
		})
		if err != nil {
			return err
		}
		if err := a.pad(ctx, block); err != nil {
			return err
		}
		for _, done := range block {
			a.excess += len(done.ids) - done.target
		}
		err = each(ctx, reqs[first:first+len(block)], a.emitFrom(first), func(_ context.Context, i int, r *Request) error {
			r.Prompt, r.InputTokens = block[i].text, len(block[i].ids)
			block[i] = attempt{}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// emitFrom is emit for a part of the requests that begins at first.
func (a *adjuster) emitFrom(first int) func(int, *Request) error {
	if a.emit == nil {
		return nil
	}
	return func(i int, r *Request) error { return a.emit(first+i, r) }
}

// each calls f and then emit, if there is one, for every request, on all cores.
func each(ctx context.Context, reqs []Request, emit func(int, *Request) error, f func(context.Context, int, *Request) error) error {
	return parallel(ctx, cores(), len(reqs), func(ctx context.Context, i int) error {
		if err := f(ctx, i, &reqs[i]); err != nil || emit == nil {
			return err
		}
		return emit(i, &reqs[i])
	})
}

// pad finishes those of block that miss padding, in order of their place in the
// stream. The window grows while guesses hold and shrinks to what held, so that
// a tokenizer for which they never hold costs no more than one core would.
func (a *adjuster) pad(ctx context.Context, block []attempt) error {
	var waiting []*attempt
	for i := range block {
		if block[i].missing > 0 {
			waiting = append(waiting, &block[i])
		}
	}
	window := cores()
	for len(waiting) > 0 {
		window = min(window, len(waiting))
		kept, err := a.padWindow(ctx, waiting[:window])
		if err != nil {
			return err
		}
		waiting = waiting[kept:]
		if kept == window {
			window = min(2*window, 4*cores())
		} else {
			window = kept
		}
	}
	return nil
}

// padWindow tries all of waiting at guessed places and keeps the leading ones
// whose place was right: at least the first.
func (a *adjuster) padWindow(ctx context.Context, waiting []*attempt) (kept int, err error) {
	tries, from := make([]attempt, len(waiting)), make([]int, len(waiting))
	guess := 0
	for i, w := range waiting {
		tries[i], from[i] = *w, guess
		guess += w.missing
	}
	err = parallel(ctx, cores(), len(tries), func(ctx context.Context, i int) error {
		return tries[i].finish(ctx, a.tok, &a.padding, from[i])
	})
	if err != nil {
		return 0, err
	}
	used := 0
	for kept < len(tries) && from[kept] == used {
		used += tries[kept].drawn
		*waiting[kept] = tries[kept]
		kept++
	}
	a.padding.discard(used)
	return kept, nil
}
