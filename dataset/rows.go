package dataset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/servebench/servebench/dataset/nprand"
)

// row is one prompt of a file, before a chat template.
type row struct {
	prompt string
	output int               // tokens to ask for; in a custom row 0 where the line has none
	line   int               // of the file, counted from 1; 0 where there is none
	parts  []json.RawMessage // images and the like
}

// sample fills set from all rows of a file in vLLM's seeded order: they are
// shuffled by CPython's random, the first are sent, and where there are too few,
// requests are chosen again by a freshly seeded one.
func (p *prompter) sample(ctx context.Context, rows []row, set *Set) (_ *Set, err error) {
	s := p.spec
	set.Python = shuffle(s, rows)
	wanted := s.Prompts
	if wanted <= 0 {
		wanted = len(rows)
	}
	timed, rest := rows[:min(wanted, len(rows))], rows[min(wanted, len(rows)):]
	if set.Requests, err = p.requests(ctx, timed); err != nil {
		return nil, err
	}
	p.warn(set)
	s.oversample(set, wanted)
	return set, p.addWarmups(ctx, set, timed, rest)
}

// shuffle puts what a file gave in vLLM's order, and returns the generator as it
// is then.
func shuffle[T any](s Spec, rows []T) *nprand.Python {
	rng := nprand.NewPython(s.Seed)
	if !s.DisableShuffle {
		rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	}
	return rng
}

// oversample adds copies of requests until there are as many as wanted.
func (s Spec) oversample(set *Set, wanted int) {
	for _, i := range s.again(set, len(set.Requests), wanted) {
		set.Requests = append(set.Requests, set.Requests[i])
	}
}

// again is vLLM's maybe_oversample_requests: choices, with replacement, from the
// requests that the file gave, by a freshly seeded generator.
func (s Spec) again(set *Set, have, wanted int) (more []int) {
	switch {
	case have >= wanted:
	case s.NoOversample:
		set.warnf("%s has %d rows%s: %d requests are sent and not %d", s.Path, have, s.ofCategory(), have, wanted)
	default:
		set.warnf("%s has %d rows%s: %d of the %d requests repeat one, which may come from the server's prefix cache",
			s.Path, have, s.ofCategory(), wanted-have, wanted)
		set.Python = nprand.NewPython(s.Seed)
		for range wanted - have {
			more = append(more, set.Python.Choice(have))
		}
	}
	return more
}

// ofCategory tells in a message which rows were kept.
func (s Spec) ofCategory() string {
	switch {
	case s.Name == "sharegpt":
		return " of the right length"
	case s.Category != "" && (s.Name == "spec_bench" || s.Name == "speed_bench"):
		return fmt.Sprintf(" of category %q", s.Category)
	}
	return ""
}

// addWarmups adds warm-ups that are rows of rest, but for those that are sent.
func (p *prompter) addWarmups(ctx context.Context, set *Set, timed, rest []row) error {
	return addWarmups(p.spec, set, func() ([]Request, error) {
		sent := make(map[string]bool, len(timed))
		for _, r := range timed {
			sent[r.prompt] = true
		}
		var unsent []row
		for _, r := range rest {
			if len(unsent) < p.spec.Warmups && !sent[r.prompt] {
				unsent = append(unsent, r)
			}
		}
		return p.requests(ctx, warmRows(p.spec, set, timed, unsent, row.salted))
	})
}

// warmRows takes rows of rest, and copies of timed ones where there are too few:
// salted puts a short text of their own in front.
func warmRows[T any](s Spec, set *Set, timed, rest []T, salted func(row T, salt string) T) []T {
	warm := slices.Clip(rest[:min(len(rest), s.Warmups)])
	if missing := s.Warmups - len(warm); missing > 0 {
		set.warnf("%s has no rows left for %d warm-ups: they are timed prompts behind a prefix of their own", s.Path, missing)
	}
	for i := 0; len(warm) < s.Warmups; i++ {
		warm = append(warm, salted(timed[i%len(timed)], fmt.Sprintf("Warm-up %d: ", i+1)))
	}
	return warm
}

// salted puts a text in front that makes r no other prompt's beginning.
func (r row) salted(salt string) row {
	r.prompt = salt + r.prompt
	return r
}
