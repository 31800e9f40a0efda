package dataset

import (
	"context"
	_ "embed" // the poems
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/servebench/servebench/dataset/nprand"
)

// poems are sonnets by Shakespeare (1609) in modern spelling, for sonnet without
// a file.
//
//go:embed sonnets.txt
var poems string

const (
	pickLines = "Pick as many lines as you can from these poem lines:\n"
	// A prompt that is too long is made again, with other lines. Lines of a
	// poem are so much alike that most fit; where none in so many does, none will.
	maxRejected = 1000
)

func (s Spec) validateSonnet(bad *problems) {
	bad.whole("num-prompts", int64(s.Prompts), 1, maxCount)
	bad.whole("sonnet-input-len", int64(s.InputLen), 1, maxLen)
	bad.whole("sonnet-output-len", int64(s.OutputLen), 1, maxLen)
	bad.whole("sonnet-prefix-len", int64(s.PrefixLen), 0, maxLen)
	if s.PrefixLen > s.InputLen {
		bad.addf("sonnet-prefix-len: %d is more than sonnet-input-len %d; want at most that", s.PrefixLen, s.InputLen)
	}
}

// loadSonnet is SonnetDataset of vLLM before 0.32: a question, the first lines of
// a text that all prompts share, and lines drawn from it by CPython's random, as
// many as come to the length asked for on average. Prompts that came out longer
// are drawn again.
func loadSonnet(ctx context.Context, s Spec, t Tools) (*Set, error) {
	p, err := newPrompter(s, t, true)
	if err != nil {
		return nil, err
	}
	set := &Set{Generator: "sonnet-lines"}
	if s.Chat && p.render == nil && !s.SkipTemplate {
		set.warnf("sonnet-input-len is kept without the chat template, which is not known here and which the server adds")
	}
	g := sonnet{prompter: p}
	if g.lines, err = s.poem(); err != nil {
		return nil, err
	}
	if err := g.plan(ctx); err != nil {
		return nil, err
	}
	set.Python = nprand.NewPython(s.Seed)
	if set.Requests, err = g.take(ctx, set.Python, s.Prompts, "", s.InputLen); err != nil {
		return nil, err
	}
	p.warn(set)
	return set, addWarmups(s, set, func() ([]Request, error) {
		// Behind a text of their own: the first lines are those of all prompts.
		return g.take(ctx, nprand.NewPython(int64(derive("warmup", uint64(s.Seed))>>1)), s.Warmups, "Warm-up: ", math.MaxInt)
	})
}

// poem returns the lines of the text with their ends, as Python reads them.
func (s Spec) poem() ([]string, error) {
	text := poems
	if s.Path != "" {
		f, err := openFile(s.Path, "a text file")
		if err != nil {
			return nil, err
		}
		defer f.Close()
		data, err := io.ReadAll(io.LimitReader(f, maxLine+1))
		switch {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", s.Path, err)
		case len(data) > maxLine:
			return nil, fmt.Errorf("%s: larger than %d MiB; want lines of a poem", s.Path, maxLine>>20)
		}
		text = string(data)
	}
	return poemLines(text, s.Path)
}

// poemLines cuts text into lines; path is for messages.
func poemLines(text, path string) (lines []string, err error) {
	text = strings.TrimPrefix(text, byteOrderMark)
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	for line := range strings.Lines(text) {
		if !utf8.ValidString(line) || strings.Contains(line, "\x00") { // UTF-16 may be valid UTF-8 with zeros
			return nil, fmt.Errorf("%s:%d: not UTF-8; want the file encoded as UTF-8", path, len(lines)+1)
		}
		lines = append(lines, line)
	}
	if strings.TrimSpace(text) == "" {
		return nil, fmt.Errorf("%s: no text in it; want lines of a poem", path)
	}
	return lines, nil
}

// sonnet makes prompts of lines.
type sonnet struct {
	*prompter
	lines  []string
	prefix int // how many of the first lines begin every prompt
	drawn  int // how many follow
}

// plan finds how many lines come to the lengths asked for. Lengths are vLLM's
// own counts: of each line with special tokens, of a BOS twice where the
// template writes one.
func (g *sonnet) plan(ctx context.Context) error {
	counts := make([]int, len(g.lines))
	err := parallel(ctx, g.workers, len(g.lines), func(ctx context.Context, i int) error {
		ids, err := g.tok.Encode(ctx, g.lines[i], true)
		counts[i] = len(ids)
		return err
	})
	if err != nil {
		return fmt.Errorf("encode lines: %w", err)
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	if total == 0 {
		return fmt.Errorf("%s: its lines have no tokens; want lines of a poem", g.spec.at(0))
	}
	if err := g.learn(ctx, pickLines); err != nil {
		return err
	}
	_, base, err := g.request(ctx, pickLines)
	if err != nil {
		return err
	}
	if g.spec.InputLen <= base {
		return fmt.Errorf("sonnet-input-len: %d is not more than the %d tokens of the question alone; want more", g.spec.InputLen, base)
	}
	average := float64(total) / float64(len(counts))
	number := func(length int) int { // Python rounds halves to even
		return int(math.RoundToEven(float64(length-base) / average))
	}
	g.prefix = max(0, number(g.spec.PrefixLen))
	g.drawn = max(0, number(g.spec.InputLen)-g.prefix)
	g.prefix = min(g.prefix, len(g.lines))
	return nil
}

// take makes n prompts of at most limit tokens behind salt. It leaves rng as if
// it had drawn one prompt after the other and stopped at the last.
func (g *sonnet) take(ctx context.Context, rng *nprand.Python, n int, salt string, limit int) ([]Request, error) {
	reqs := make([]Request, 0, n)
	head := salt + pickLines + strings.Join(g.lines[:g.prefix], "")
	rejected, shortest := 0, math.MaxInt
	for len(reqs) < n {
		before := *rng
		texts := make([]string, min(n-len(reqs)+8*g.workers, 256*g.workers))
		for i := range texts {
			texts[i] = g.draw(rng, head)
		}
		block, counts := make([]Request, len(texts)), make([]int, len(texts))
		err := parallel(ctx, g.workers, len(block), func(ctx context.Context, i int) (err error) {
			block[i], counts[i], err = g.request(ctx, texts[i])
			return err
		})
		if err != nil {
			return nil, err
		}
		*rng = before
		for i := 0; i < len(block) && len(reqs) < n; i++ {
			rng.Choices(len(g.lines), g.drawn)
			if shortest = min(shortest, counts[i]); counts[i] > limit {
				rejected++
				continue
			}
			block[i].OutputTokens = g.spec.OutputLen
			reqs, rejected = append(reqs, block[i]), 0
		}
		if rejected >= maxRejected {
			return nil, fmt.Errorf("sonnet-input-len: the last %d prompts of %s are longer than %d tokens, the shortest has %d; want more, or lines of more even length",
				rejected, g.spec.at(0), limit, shortest)
		}
	}
	return reqs, nil
}

func (g *sonnet) draw(rng *nprand.Python, head string) string {
	var text strings.Builder
	text.WriteString(head)
	for _, at := range rng.Choices(len(g.lines), g.drawn) {
		text.WriteString(g.lines[at])
	}
	return text.String()
}
