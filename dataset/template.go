package dataset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/servebench/servebench/tokenize"
)

// prompter turns texts into requests: the chat template around them where vLLM
// renders it, a count where somebody counts. Its requests may be made
// concurrently.
type prompter struct {
	spec    Spec
	tok     tokenize.Tokenizer           // nil: nothing is counted, or sent as ids
	render  func(string) (string, error) // nil: a text is sent and counted as it is
	local   bool                         // counting costs no call to a server
	every   bool                         // prompts are counted; a doubled BOS is looked for in each
	workers int                          // requests made at a time

	bos     int    // the special token before every text
	bosText string // "" where there is none that a template could repeat
	cut     bool   // not every: the first prompt's was taken away
	keep    bool   // not every: it could not be

	cuts, doubled atomic.Int64 // prompts without their own BOS; prompts that keep it
	failed        atomic.Int64 // not rendered, where it was for a count only
}

// newPrompter looks whether there is what s needs. count asks for a count of
// every prompt; otherwise nobody is asked whose answer the server's usage will
// repeat.
func newPrompter(s Spec, t Tools, count bool) (*prompter, error) {
	p := &prompter{spec: s, tok: t.Tokenizer, workers: cores()}
	if p.tok == nil && (s.TokenIDs || count) {
		return nil, fmt.Errorf("tokenizer: %s needs one to %s, and there is none; want a tokenizer, or a server with /tokenize",
			s.Name, map[bool]string{true: "count tokens", false: "make token ids"}[count])
	}
	_, p.local = vocabularyOf(p.tok)
	p.every = p.local || count || s.TokenIDs
	if !p.local && p.every {
		p.workers = countWorkers
	}
	switch {
	case s.SkipTemplate:
	case s.Chat && (t.Render == nil || !p.every): // the server renders
	case t.Render == nil:
		want := "--skip-chat-template, or a chat backend"
		if s.Name == "spec_bench" || s.Name == "sonnet" {
			want = "a model that has one, or a chat backend"
		}
		return nil, fmt.Errorf("dataset-name: %s renders the model's chat template around each prompt, and none is there; want %s", s.Name, want)
	default:
		p.render = t.Render
	}
	return p, nil
}

// requests makes one request of each row, in order.
func (p *prompter) requests(ctx context.Context, rows []row) ([]Request, error) {
	reqs := make([]Request, len(rows))
	if len(rows) == 0 {
		return reqs, nil
	}
	if err := p.learn(ctx, rows[0].prompt); err != nil {
		return nil, err
	}
	return reqs, parallel(ctx, p.workers, len(rows), func(ctx context.Context, i int) (err error) {
		if reqs[i], _, err = p.request(ctx, rows[i].prompt); err != nil {
			return fmt.Errorf("%s: %w", p.spec.at(rows[i].line), err)
		}
		reqs[i].OutputTokens, reqs[i].Parts = rows[i].output, rows[i].parts
		return nil
	})
}

// at names a place of the file; line 0 is nowhere in particular.
func (s Spec) at(line int) string {
	switch {
	case line > 0:
		return fmt.Sprintf("%s:%d", s.Path, line)
	case s.Path == "":
		return s.Name
	}
	return s.Path
}

// request makes one request and returns vLLM's own count of its prompt too,
// which differs where a BOS was taken away. It needs learn before.
func (p *prompter) request(ctx context.Context, text string) (r Request, theirs int, err error) {
	return p.rendered(ctx, text, p.render)
}

// rendered is request with a template of its own; nil sends the text as it is.
func (p *prompter) rendered(ctx context.Context, text string, render func(string) (string, error)) (r Request, theirs int, err error) {
	sent, counted := text, text
	if render != nil {
		counted, err = render(text)
		switch {
		case err == nil && !p.spec.Chat:
			sent = counted
		case err != nil && p.spec.Chat: // the server renders it, perhaps better
			p.failed.Add(1)
			counted = text
		case err != nil:
			return r, 0, fmt.Errorf("render chat template: %w", err)
		}
	}
	if !p.every {
		return Request{Prompt: p.asTheFirst(sent)}, 0, nil
	}
	rest, ids, theirs, err := p.encode(ctx, counted)
	if err != nil {
		return r, 0, fmt.Errorf("encode prompt: %w", err)
	}
	if render != nil && !p.spec.Chat {
		sent = rest
	}
	r = Request{Prompt: sent, InputTokens: len(ids)}
	if p.spec.TokenIDs {
		r.Prompt, r.Tokens = "", ids
	}
	return r, theirs, nil
}

// asTheFirst treats the beginning of a prompt as that of the first was treated.
func (p *prompter) asTheFirst(text string) string {
	rest, begins := strings.CutPrefix(text, p.bosText)
	switch {
	case !begins:
	case p.cut:
		p.cuts.Add(1)
		return rest
	case p.keep:
		p.doubled.Add(1)
	}
	return text
}

// learn finds the BOS that the server puts before every prompt, and where not
// every prompt is looked at, whether a rendered one can do without its own.
func (p *prompter) learn(ctx context.Context, text string) error {
	if p.render == nil || p.tok == nil || p.bosText != "" {
		return nil
	}
	const probe = "x" // not "", which some servers refuse
	with, err := p.tok.Encode(ctx, probe, true)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	without, err := p.tok.Encode(ctx, probe, false)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if len(with) <= len(without) || len(without) > 0 && with[0] == without[0] {
		return nil
	}
	p.bos = with[0]
	if p.bosText, err = p.tok.Decode(ctx, with[:1]); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	if p.every {
		return nil
	}
	if text, err = p.render(text); err != nil {
		return fmt.Errorf("render chat template: %w", err)
	}
	if _, _, _, err = p.encode(ctx, text); err != nil {
		return fmt.Errorf("encode prompt: %w", err)
	}
	p.cut, p.keep = p.cuts.Swap(0) > 0, p.doubled.Swap(0) > 0
	return nil
}

// encode encodes a prompt as the server will, and takes a BOS away from a
// rendered one that the server would repeat: vLLM's client leaves it there, and
// the model then sees two. It does so only where all other tokens stay the same,
// which a tokenizer that marks the beginning of a text does not promise.
func (p *prompter) encode(ctx context.Context, text string) (rest string, ids []int, theirs int, err error) {
	ids, err = p.tok.Encode(ctx, text, true)
	if err != nil {
		return "", nil, 0, err
	}
	rest, begins := strings.CutPrefix(text, p.bosText)
	if p.render == nil || p.bosText == "" || !begins || len(ids) < 2 || ids[0] != p.bos || ids[1] != p.bos {
		return text, ids, len(ids), nil
	}
	if p.spec.Chat { // a chat endpoint adds none to what its template gives
		return text, ids[1:], len(ids), nil
	}
	again, err := p.tok.Encode(ctx, rest, true)
	if err != nil {
		return "", nil, 0, err
	}
	if !slices.Equal(again, ids[1:]) {
		p.doubled.Add(1)
		return text, ids, len(ids), nil
	}
	p.cuts.Add(1)
	return rest, again, len(ids), nil
}

// warn tells what was done about templates.
func (p *prompter) warn(set *Set) {
	if p.cuts.Load() > 0 {
		set.warnf("the chat template writes %s, and so does the server: it is sent once, where vllm bench serve doubles it", p.bosText)
	}
	if n := p.failed.Load(); n > 0 {
		set.warnf("%s", uncounted(n, p.render))
	}
	if p.doubled.Load() > 0 {
		set.warnf("prompts begin with %s twice, once from the chat template and once from the server: without the first their other tokens would change", p.bosText)
	}
}

// uncounted is the warning about n prompts that were not rendered. A template's
// own words (raise_exception) may hold the prompt, which must not get into a
// manifest: another one is asked about.
func uncounted(n int64, render func(string) (string, error)) string {
	why := errors.New("it refuses them")
	if render != nil {
		if _, err := render("x"); err != nil {
			why = err
		}
	}
	return fmt.Sprintf("%d prompts are counted without the chat template, which cannot be rendered here: %v", n, why)
}
