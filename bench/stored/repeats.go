package stored

import (
	"math"

	"github.com/servebench/servebench/bench/gate"
	"github.com/servebench/servebench/metrics/stat"
)

// Spread is what repeats of a run say of one metric.
type Spread struct {
	Metric string    `json:"metric"`
	Unit   gate.Unit `json:"unit"`
	Values []float64 `json:"values"` // in the order of the runs
	Mean   float64   `json:"mean"`
	// Std is the standard deviation between runs (n-1), CV its share of the mean; nil
	// for one run, CV too where the mean is 0.
	Std *float64 `json:"std"`
	CV  *float64 `json:"cv"`
	// Low and High are the 95 % interval of the mean by Student's t; nil for one run.
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
	// Drift is the slope over the order of the runs, per run, as a share of the mean,
	// with its 95 % interval; nil below four runs.
	Drift     *float64 `json:"drift_per_run"`
	DriftLow  *float64 `json:"drift_low"`
	DriftHigh *float64 `json:"drift_high"`
}

// Drifts tells that the values move with the order, with 95 % confidence: then they
// are no repeats of one thing.
func (s *Spread) Drifts() bool {
	return s.DriftLow != nil && (*s.DriftLow > 0 || *s.DriftHigh < 0)
}

// Half is half of the interval as a share of the mean; infinite where there is none.
func (s *Spread) Half() float64 {
	if s.Low == nil || s.Mean == 0 {
		return math.Inf(1)
	}
	return (*s.High - *s.Low) / 2 / math.Abs(s.Mean)
}

// fewestForDrift is how many runs a slope takes.
const fewestForDrift = 4

// Repeats summarises the metrics that all runs have. The runs are repeats of one
// another in the order in which they were made; each is one value.
func Repeats(runs []Run) (out []Spread) {
	if len(runs) == 0 {
		return nil
	}
	for _, m := range runs[0].Metrics {
		s := Spread{Metric: m.Name, Unit: m.Unit}
		for i := range runs {
			if v := runs[i].Metric(m.Name); v != nil {
				s.Values = append(s.Values, v.Value)
			}
		}
		if len(s.Values) == len(runs) {
			s.summarise()
			out = append(out, s)
		}
	}
	return out
}

func (s *Spread) summarise() {
	n := len(s.Values)
	mean, sd := stat.Sample(s.Values)
	if s.Mean = mean; n < 2 {
		return
	}
	half := stat.StudentT(0.975, float64(n-1)) * sd / math.Sqrt(float64(n))
	low, high := s.Mean-half, s.Mean+half
	s.Std, s.Low, s.High = &sd, &low, &high
	if s.Mean == 0 {
		return
	}
	cv := sd / math.Abs(s.Mean)
	s.CV = &cv
	if n < fewestForDrift {
		return
	}
	order := make([]float64, n)
	for i := range order {
		order[i] = float64(i)
	}
	if fit, ok := stat.Line(order, s.Values, stat.Level); ok {
		slope, low, high := fit.Slope/s.Mean, fit.Low/s.Mean, fit.High/s.Mean
		if s.Mean < 0 {
			low, high = high, low
		}
		s.Drift, s.DriftLow, s.DriftHigh = &slope, &low, &high
	}
}
