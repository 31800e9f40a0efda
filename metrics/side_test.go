package metrics_test

import (
	"testing"
	"time"

	"github.com/servebench/servebench/metrics"
)

func TestDistOf(t *testing.T) {
	var whole []time.Duration // 100 ms down to 0
	for i := range 101 {
		whole = append(whole, time.Duration(100-i)*time.Millisecond)
	}
	d := metrics.DistOf(whole)
	p99, ok := d.Percentile(99)
	if d.N != 101 || d.Mean != 50 || d.Median != 50 || d.Max != 100 || !ok || p99 != 99 {
		t.Errorf("%+v, p99 %v", d, p99)
	}
	if metrics.DistOf(nil) != nil {
		t.Error("nothing has a distribution")
	}
}

// 40 steps over canvases of 32 positions commit 256 tokens: 8 canvases, each
// committed by a step of its own, after 4 denoising steps.
func TestDiffusion(t *testing.T) {
	before := &metrics.Diffusion{Steps: 5, Positions: 160, Committed: 32}
	d := (&metrics.Diffusion{Steps: 45, Positions: 160 + 40*32, Committed: 32 + 256}).Sub(before)
	if d == nil || d.Denoising() != 32 || d.PerCanvas() != 4 || d.PerStep() != 8 {
		t.Fatalf("%+v: %v denoising steps, %v a canvas, %v tokens a step", d, d.Denoising(), d.PerCanvas(), d.PerStep())
	}
	if before.Sub(before) != nil || before.Sub(nil) != nil || (*metrics.Diffusion)(nil).Sub(before) != nil {
		t.Error("nothing committed is nil")
	}
}
