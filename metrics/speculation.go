package metrics

import "cmp"

// Speculation counts speculative decoding over a window, by the server.
type Speculation struct {
	Drafts, DraftTokens, Accepted int64
	AcceptedAt                    []int64 // accepted tokens by position in the draft
}

// Sub returns the counts since before; nil where nothing was drafted.
func (s *Speculation) Sub(before *Speculation) *Speculation {
	if s == nil || before == nil {
		return nil
	}
	d := &Speculation{
		Drafts: s.Drafts - before.Drafts, DraftTokens: s.DraftTokens - before.DraftTokens,
		Accepted: s.Accepted - before.Accepted, AcceptedAt: make([]int64, len(s.AcceptedAt)),
	}
	for i := range d.AcceptedAt {
		d.AcceptedAt[i] = s.AcceptedAt[i]
		if i < len(before.AcceptedAt) {
			d.AcceptedAt[i] -= before.AcceptedAt[i]
		}
	}
	if d.DraftTokens <= 0 || d.Drafts <= 0 {
		return nil
	}
	return d
}

// Plus returns the counts of two servers together; nil stands for none.
func (s *Speculation) Plus(o *Speculation) *Speculation {
	if s == nil || o == nil {
		return cmp.Or(s, o)
	}
	sum := &Speculation{
		Drafts: s.Drafts + o.Drafts, DraftTokens: s.DraftTokens + o.DraftTokens, Accepted: s.Accepted + o.Accepted,
		AcceptedAt: make([]int64, max(len(s.AcceptedAt), len(o.AcceptedAt))),
	}
	for _, at := range [][]int64{s.AcceptedAt, o.AcceptedAt} {
		for i, n := range at {
			sum.AcceptedAt[i] += n
		}
	}
	return sum
}

// Rate is the share of draft tokens that were accepted, in percent.
func (s *Speculation) Rate() float64 { return 100 * float64(s.Accepted) / float64(s.DraftTokens) }

// Length is the mean number of tokens a step yields: the accepted ones and the
// target model's own.
func (s *Speculation) Length() float64 { return 1 + float64(s.Accepted)/float64(s.Drafts) }

// Positions are the accepted tokens a draft, by position.
func (s *Speculation) Positions() []float64 {
	out := make([]float64, len(s.AcceptedAt))
	for i, n := range s.AcceptedAt {
		out[i] = float64(n) / float64(s.Drafts)
	}
	return out
}
