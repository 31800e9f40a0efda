package probe

import (
	"strconv"
	"strings"

	"github.com/servebench/servebench/metrics"
)

// maxDraft bounds the positions of a draft that are counted.
const maxDraft = 1024

// readSpeculation takes in n of a counter of speculative decoding.
func (r *Reading) readSpeculation(name, text string, n int64) {
	if r.Speculation == nil {
		r.Speculation = new(metrics.Speculation)
	}
	s := r.Speculation
	switch name {
	case "spec_decode_num_drafts":
		s.Drafts = sum(s.Drafts, n)
	case "spec_decode_num_draft_tokens":
		s.DraftTokens = sum(s.DraftTokens, n)
	case "spec_decode_num_accepted_tokens":
		s.Accepted = sum(s.Accepted, n)
	case "spec_decode_num_accepted_tokens_per_pos":
		pos, err := strconv.Atoi(labels(text)["position"])
		if err != nil || pos < 0 || pos >= maxDraft {
			return
		}
		for len(s.AcceptedAt) <= pos {
			s.AcceptedAt = append(s.AcceptedAt, 0)
		}
		s.AcceptedAt[pos] = sum(s.AcceptedAt[pos], n)
	}
}

// readDiffusion takes in n of a counter of a diffusion model.
func (r *Reading) readDiffusion(name string, n int64) {
	if r.Diffusion == nil {
		r.Diffusion = new(metrics.Diffusion)
	}
	switch d := r.Diffusion; {
	case strings.Contains(name, "num_denoising_steps"):
		d.Steps = sum(d.Steps, n)
	case strings.Contains(name, "num_canvas_positions"):
		d.Positions = sum(d.Positions, n)
	case strings.Contains(name, "num_committed_tokens"):
		d.Committed = sum(d.Committed, n)
	}
}
