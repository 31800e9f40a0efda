package probe

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/metrics"
)

// Counters of two engines add up; _created stamps and other metrics are not
// counters; a label with a space or a brace spoils nothing.
func TestReadSpeculation(t *testing.T) {
	body := `# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
vllm:num_requests_running{engine="0"} 3.0
vllm:spec_decode_num_drafts_total{engine="0",model_name="a b} 9"} 74.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="a b} 9"} 26.0
vllm:spec_decode_num_drafts_created{engine="0"} 1.796068383476893e+09
vllm:spec_decode_num_draft_tokens_total{engine="0"} 296.0
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 280.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 70.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 60.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="99999999"} 60.0
`
	want := &metrics.Speculation{Drafts: 100, DraftTokens: 296, Accepted: 280, AcceptedAt: []int64{70, 60}}
	if d := cmp.Diff(want, readSpeculation([]byte(body))); d != "" {
		t.Error(d)
	}
	if s := readSpeculation([]byte("vllm:num_requests_running 1\n")); s != nil {
		t.Errorf("a server without speculation has %v", s)
	}
	before := &metrics.Speculation{Drafts: 50, DraftTokens: 200, Accepted: 180, AcceptedAt: []int64{40}}
	d := want.Sub(before)
	if d.Rate() != 100*100.0/96 || d.Length() != 1+100.0/50 || !cmp.Equal(d.Positions(), []float64{30.0 / 50, 60.0 / 50}) {
		t.Errorf("rate %v, length %v, positions %v", d.Rate(), d.Length(), d.Positions())
	}
	if want.Sub(want) != nil || want.Sub(nil) != nil {
		t.Error("nothing drafted is nil")
	}
}

func TestReadDiffusion(t *testing.T) {
	body := `vllm:diffusion_num_denoising_steps_total{engine="0"} 30.0
vllm:diffusion_num_denoising_steps_total{engine="1"} 10.0
vllm:diffusion_num_denoising_steps_created{engine="0"} 1.79e+09
vllm:diffusion_num_canvas_positions_total{engine="0"} 1280.0
vllm:diffusion_num_committed_tokens_total{engine="0"} 256.0
vllm:diffusion_num_committed_tokens_total{engine="1"} NaN
`
	want := &metrics.Diffusion{Steps: 40, Positions: 1280, Committed: 256}
	if d := cmp.Diff(want, readDiffusion([]byte(body))); d != "" {
		t.Error(d)
	}
	if d := readDiffusion([]byte("vllm:diffusion_num_denoising_steps_created 1\n")); d != nil {
		t.Errorf("a server without diffusion has %v", d)
	}
}
