package loadgen

import (
	"encoding/json"
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

// Ramp is a rate that changes from request to request. It is plain data.
type Ramp struct {
	Strategy string  `json:"strategy"` // linear or exponential
	Start    float64 `json:"start"`    // requests a second at the first request
	End      float64 `json:"end"`      // at the last one
}

// MaxOffset bounds a schedule: no request is due later than this after the
// start.
const MaxOffset = 30 * 24 * time.Hour

// Offsets returns the due times of n requests at rate requests a second, from
// schedule zero, the same as `vllm bench serve` with the same seed: gaps from
// numpy's legacy gamma generator with shape burstiness and mean 1/rate (an
// infinite burstiness makes them constant), summed up, then stretched so that
// the last request is due at n/rate. The first request waits its gap too.
//
// Errors: a rate or burstiness that is not positive, an infinite rate, a seed
// that numpy refuses, a schedule longer than MaxOffset.
func Offsets(n int, rate, burstiness Number, seed int64) ([]time.Duration, error) {
	if !(rate > 0) || rate.IsInf() {
		return nil, fmt.Errorf("request rate %v: a schedule needs a finite rate above 0", rate)
	}
	if !(burstiness > 0) {
		return nil, fmt.Errorf("burstiness %v: must be above 0", burstiness)
	}
	if seed < 0 || seed > math.MaxUint32 {
		return nil, fmt.Errorf("seed %d: numpy takes 0 to 4294967295", seed)
	}
	total := float64(n) / float64(rate)
	if total > MaxOffset.Seconds() {
		return nil, fmt.Errorf("%d requests at %v a second last longer than %v", n, rate, MaxOffset)
	}
	at := make([]float64, n)
	gen := nprand.NewLegacy(uint32(seed))
	sum := 0.0
	for i := range at {
		if burstiness.IsInf() {
			sum += 1 / float64(rate)
		} else {
			sum += gen.Gamma(float64(burstiness), 1/(float64(rate)*float64(burstiness)))
		}
		at[i] = sum
	}
	stretch := 1.0
	if sum != 0 {
		stretch = total / sum
	}
	out := make([]time.Duration, n)
	for i, s := range at {
		out[i] = time.Duration(math.Round(s * stretch * 1e9))
	}
	return out, nil
}
