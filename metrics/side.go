package metrics

import (
	"cmp"
	"time"
)

// Probes are the requests for one token that were sent beside the load.
type Probes struct {
	Completed, Failed int
	Missed            int   // ticks of the schedule that found the probe before under way
	E2EL              *Dist // of completed ones; nil where there is none
}

// DistOf is the distribution of durations, with the manifest's percentiles (50,
// 90, 95, 99); nil where there is none.
func DistOf(durations []time.Duration) *Dist {
	var s samples
	for _, d := range durations {
		s.add(int64(d), 1)
	}
	return s.dist(newCertainties(basePercentiles))
}

// Diffusion counts the decoding of a diffusion model over a window, by the
// server: forward passes, positions of the canvas that they evaluated, tokens.
type Diffusion struct{ Steps, Positions, Committed int64 }

// Sub returns the counts since before; nil where nothing was committed.
func (d *Diffusion) Sub(before *Diffusion) *Diffusion {
	if d == nil || before == nil {
		return nil
	}
	w := Diffusion{d.Steps - before.Steps, d.Positions - before.Positions, d.Committed - before.Committed}
	if w.Steps <= 0 || w.Committed <= 0 || w.Positions <= 0 {
		return nil
	}
	return &w
}

// Plus returns the counts of two servers together; nil stands for none.
func (d *Diffusion) Plus(o *Diffusion) *Diffusion {
	if d == nil || o == nil {
		return cmp.Or(d, o)
	}
	return &Diffusion{d.Steps + o.Steps, d.Positions + o.Positions, d.Committed + o.Committed}
}

// canvases is the number of canvases that were committed, each in a step of its
// own: tokens over the length of a canvas, positions over steps.
func (d *Diffusion) canvases() float64 {
	return float64(d.Committed) / (float64(d.Positions) / float64(d.Steps))
}

// Denoising is the number of steps without those that committed.
func (d *Diffusion) Denoising() float64 { return float64(d.Steps) - d.canvases() }

// PerCanvas is the number of denoising steps a canvas.
func (d *Diffusion) PerCanvas() float64 { return d.Denoising() / d.canvases() }

// PerStep is the number of committed tokens a denoising step; infinite where
// every step committed.
func (d *Diffusion) PerStep() float64 { return float64(d.Committed) / d.Denoising() }
