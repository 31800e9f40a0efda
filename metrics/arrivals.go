package metrics

import (
	"fmt"
	"math"
	"time"

	"github.com/servebench/servebench/metrics/internal/radix"
	"github.com/servebench/servebench/metrics/stat"
)

// Arrivals compares an open loop's sends with its schedule.
type Arrivals struct {
	// Offered is requests over the last due time, Achieved sent requests over the
	// last send, both per second; Ratio is Achieved/Offered (M10). A cap that was
	// reached lowers it as a slow client does: the verdict tells them apart.
	Offered  float64 `json:"offered_rate"`
	Achieved float64 `json:"achieved_rate"`
	Ratio    float64 `json:"achieved_over_offered"`
	// Gaps tests the gaps between the actual sends against the process that was
	// asked for (M9); nil where there is none, or too few, as NoGaps says.
	Gaps   *GapTest `json:"gap_test,omitempty"`
	NoGaps string   `json:"no_gap_test,omitempty"`
}

// GapTest is a Kolmogorov-Smirnov test of gaps over their mean against a gamma
// distribution. With very many gaps it sees what does not matter: D says how
// large the distance is.
type GapTest struct {
	N     int     `json:"n"` // gaps
	Shape float64 `json:"shape"`
	D     float64 `json:"ks_distance"`
	P     float64 `json:"p"` // within 0.001 and 0.99 for shape 1
	// Bound tells that P is an upper bound, as for shapes other than 1.
	Bound bool `json:"p_is_bound,omitempty"`
}

// Rejected tells that the gaps are not of the process, at 1 %.
func (g *GapTest) Rejected() bool { return g.P <= 0.01 }

// arrivals is nil where nothing was due after schedule zero, and why says so.
func arrivals(records []Record, load Load) (a *Arrivals, why string) {
	sends := make([]time.Duration, 0, len(records))
	offered, due := 0, time.Duration(0)
	for i := range records {
		r := &records[i]
		if r.Outcome == "" {
			continue
		}
		offered, due = offered+1, max(due, r.Due)
		if r.issued() {
			sends = append(sends, r.Sent)
		}
	}
	radix.Int64s(sends)
	if due <= 0 || len(sends) == 0 || sends[len(sends)-1] <= 0 {
		return nil, "nothing was due after the start"
	}
	a = &Arrivals{Offered: float64(offered) / due.Seconds(), Achieved: float64(len(sends)) / sends[len(sends)-1].Seconds()}
	a.Ratio = a.Achieved / a.Offered
	switch {
	case math.IsInf(load.Shape, 1):
		a.NoGaps = "the gaps are constant: nothing was drawn"
	case !(load.Shape > 0):
		a.NoGaps = "the schedule is no stationary process"
	default:
		a.test(sends, load.Shape)
	}
	return a, ""
}

func (a *Arrivals) test(sends []time.Duration, shape float64) {
	gaps := make([]float64, 0, len(sends))
	for i := 1; i < len(sends); i++ {
		gaps = append(gaps, (sends[i] - sends[i-1]).Seconds())
	}
	k, ok := stat.GammaGaps(gaps, shape)
	if !ok {
		a.NoGaps = fmt.Sprintf("%d gaps cannot be tested; want %d, not all 0", len(gaps), stat.FewestGaps)
		return
	}
	a.Gaps = &GapTest{N: len(gaps), Shape: shape, D: k.D, P: k.P, Bound: k.Bound}
}
