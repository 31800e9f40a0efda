package loadgen

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/servebench/servebench/dataset/nprand"
)

// Number is a float64 whose infinity survives JSON, as the string "inf".
type Number float64

// Inf is the infinite Number: a request rate without pacing, a burstiness that
// makes all gaps equal.
var Inf = Number(math.Inf(1))

// IsInf tells whether n is infinite.
func (n Number) IsInf() bool { return math.IsInf(float64(n), 1) }

// String writes n as Python's float does, "inf" or with at least one decimal.
func (n Number) String() string {
	if n.IsInf() {
		return "inf"
	}
	if a := math.Abs(float64(n)); a >= 1e16 || a > 0 && a < 1e-4 {
		return strconv.FormatFloat(float64(n), 'e', -1, 64)
	}
	s := strconv.FormatFloat(float64(n), 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// MarshalJSON writes a number, or "inf".
func (n Number) MarshalJSON() ([]byte, error) {
	if n.IsInf() {
		return []byte(`"inf"`), nil
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (n *Number) UnmarshalJSON(b []byte) error {
	if string(b) == `"inf"` {
		*n = Inf
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

// Ramp is a rate that rises from request to request, by the request's number and
// not by the clock. It is plain data; the zero value is not valid.
type Ramp struct {
	Strategy string  `json:"strategy"` // linear or exponential
	Start    float64 `json:"start"`    // requests a second at the first request
	End      float64 `json:"end"`      // at the last one
}

// maxRamp bounds the rates of a ramp: the result lists every whole one it passes.
const maxRamp = 1 << 20

// Validate tells what is wrong with r, under the names of the flags.
func (r Ramp) Validate() error {
	switch {
	case r.Strategy != "linear" && r.Strategy != "exponential":
		return fmt.Errorf("ramp-up-strategy: %q; want linear or exponential", r.Strategy)
	case !(r.Start >= 0 && r.Start <= maxRamp):
		return fmt.Errorf("ramp-up-start-rps: %v; want 0 to %d requests a second", r.Start, maxRamp)
	case !(r.End > 0 && r.End <= maxRamp):
		return fmt.Errorf("ramp-up-end-rps: %v; want a number above 0, %d at most", r.End, maxRamp)
	case r.Start > r.End:
		return fmt.Errorf("ramp-up-start-rps: %v is above ramp-up-end-rps %v; want a rate that rises", r.Start, r.End)
	case r.Strategy == "exponential" && r.Start == 0:
		return errors.New("ramp-up-start-rps: 0 cannot grow exponentially; want a number above 0, or ramp-up-strategy linear")
	}
	return nil
}

// Rate is that of request i of n in requests a second, as vLLM's client has it.
func (r Ramp) Rate(i, n int) float64 {
	progress := float64(i) / float64(max(n-1, 1))
	if r.Strategy == "linear" {
		return r.Start + (r.End-r.Start)*progress
	}
	return r.Start * math.Pow(r.End/r.Start, progress)
}

// String is the ramp's part of vLLM's name for a result file.
func (r Ramp) String() string {
	whole := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	return fmt.Sprintf("ramp-up-%s-%sqps-%sqps", r.Strategy, whole(r.Start), whole(r.End))
}

// Offsets returns the due times of n requests, the same as `vllm bench serve`
// gives them: gaps as [Offsets] draws them, each at the rate of its own
// request, summed up and not stretched. The first request waits its gap too,
// but for a linear ramp from 0: its first request has no rate, draws no gap and
// is due at once (vLLM stops there).
//
// Errors: what [Ramp.Validate] says, and those of [Offsets].
func (r Ramp) Offsets(n int, burstiness Number, gen *nprand.Legacy) ([]time.Duration, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	at, err := arrivals(n, burstiness, gen, func(i int) float64 { return r.Rate(i, n) })
	if err != nil {
		return nil, err
	}
	return round(at, 1)
}

// MaxOffset bounds a schedule: no request is due later than this after the
// start.
const MaxOffset = 30 * 24 * time.Hour

// Offsets returns the due times of n requests at rate requests a second, from
// schedule zero, those of `vllm bench serve`: gaps drawn from gen, its numpy.random
// (freshly seeded but for data sets that have used it), gamma with shape burstiness and mean 1/rate (an
// infinite burstiness makes them constant), summed up, then stretched so that
// the last request is due at n/rate. The first request waits its gap too.
//
// Errors: a rate or burstiness that is not positive, an infinite rate, a
// schedule longer than MaxOffset.
func Offsets(n int, rate, burstiness Number, gen *nprand.Legacy) ([]time.Duration, error) {
	if !(rate > 0) || rate.IsInf() {
		return nil, fmt.Errorf("request rate %v: a schedule needs a finite rate above 0", rate)
	}
	total := float64(n) / float64(rate)
	if total > MaxOffset.Seconds() {
		return nil, fmt.Errorf("%d requests at %v a second last longer than %v", n, rate, MaxOffset)
	}
	at, err := arrivals(n, burstiness, gen, func(int) float64 { return float64(rate) })
	if err != nil {
		return nil, err
	}
	stretch := 1.0
	if n > 0 && at[n-1] != 0 {
		stretch = total / at[n-1]
	}
	return round(at, stretch)
}

// arrivals sums up the gaps before n requests, in seconds. A rate of 0 has none.
func arrivals(n int, burstiness Number, gen *nprand.Legacy, rate func(i int) float64) ([]float64, error) {
	if !(burstiness > 0) {
		return nil, fmt.Errorf("burstiness %v: must be above 0", burstiness)
	}
	at := make([]float64, n)
	sum := 0.0
	for i := range at {
		switch r := rate(i); {
		case r == 0:
		case burstiness.IsInf():
			sum += 1 / r
		default:
			// A scale that overflows is a gap without end, and its sum too long.
			scale := min(1/(r*float64(burstiness)), math.MaxFloat64)
			sum += gen.Gamma(float64(burstiness), scale)
		}
		at[i] = sum
	}
	return at, nil
}

// round turns seconds into due times.
func round(at []float64, stretch float64) ([]time.Duration, error) {
	out := make([]time.Duration, len(at))
	for i, s := range at {
		if !(s*stretch <= MaxOffset.Seconds()) {
			return nil, fmt.Errorf("request %d of %d would be due after more than %v; want a faster rate or fewer requests", i, len(at), MaxOffset)
		}
		out[i] = time.Duration(math.Round(s * stretch * 1e9))
	}
	return out, nil
}
