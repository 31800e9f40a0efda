package sim

import (
	"math"
	"testing"
	"time"
)

// The factor is log-normal with mean 1 and standard deviation Jitter. The seed is fixed, so the numbers are always the
// same; 1 % (2 % for the standard deviation) is about four standard errors of 400,000 draws at Jitter 0.5.
func TestJitterHasItsMeanAndSpread(t *testing.T) {
	const n = 400_000
	for _, jitter := range []float64{0.05, 0.5} {
		p := (&Config{Jitter: jitter, Seed: 1}).pace(time.Time{}, 0, 0)
		var sum, squares float64
		for range n {
			x := float64(p.vary(time.Second)) / float64(time.Second)
			if x < 0 {
				t.Fatalf("negative wait %v", x)
			}
			sum += x
			squares += x * x
		}
		mean := sum / n
		sd := math.Sqrt(squares/n - mean*mean)
		if math.Abs(mean-1) > 0.01 || math.Abs(sd/jitter-1) > 0.02 {
			t.Errorf("jitter %v: mean %v, standard deviation %v", jitter, mean, sd)
		}
	}
}
