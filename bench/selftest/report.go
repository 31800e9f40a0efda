package selftest

import (
	"fmt"
	"time"

	"github.com/servebench/servebench/metrics"
)

// Limit is the error of the ITL's p99 that a VALID run must not have.
const Limit = 0.05

// Report is what a selftest found. Durations are in milliseconds.
type Report struct {
	At    time.Time `json:"at"`
	TLS   bool      `json:"tls"`
	ITL   float64   `json:"simulated_itl_ms"`
	Steps []Step    `json:"steps"`
	// Floor is the error of the step with the fewest streams.
	Floor *Floor `json:"floor"`
	// MaxValid is the last step before the first that is not VALID; nil where
	// that is the first of all.
	MaxValid *Reach `json:"max_valid"`
	// TurnedAt is the concurrency of the first step that is not VALID, nil where
	// all are; TurnedUnstamped the same without kernel stamps.
	TurnedAt        *int            `json:"turned_at"`
	TurnedTo        metrics.Verdict `json:"turned_to,omitempty"`
	TurnedUnstamped *int            `json:"turned_at_without_stamps"`
	// Stopped says why steps are missing.
	Stopped string `json:"stopped,omitempty"`
	// Failures are steps whose verdict was VALID and whose error beyond Limit.
	Failures []string `json:"failures"`
	Build    Build    `json:"build"`
	Machine  Machine  `json:"machine"`
}

// Floor is the least error that this machine's numbers have, in milliseconds; nil
// where samples were too few.
type Floor struct {
	Concurrency int      `json:"concurrency"`
	Stamps      string   `json:"stamps"` // kernel or read
	TTFTBiasP50 *float64 `json:"ttft_bias_p50_ms"`
	ITLErrorP99 *float64 `json:"itl_error_p99_ms"`
}

// Reach is what a step carried.
type Reach struct {
	Concurrency     int     `json:"concurrency"`
	EventsPerSecond float64 `json:"events_per_s"`
}

// end draws the conclusions from the steps.
func (r *Report) end() *Report {
	r.Failures = []string{}
	for i := range r.Steps {
		s := &r.Steps[i]
		if s.Verdict != metrics.Valid && r.TurnedAt == nil {
			r.TurnedAt, r.TurnedTo = &s.Concurrency, s.Verdict
		}
		if s.VerdictUnstamped != metrics.Valid && r.TurnedUnstamped == nil {
			r.TurnedUnstamped = &s.Concurrency
		}
		if r.TurnedAt == nil {
			r.MaxValid = &Reach{s.Concurrency, s.EventsPerSecond}
		}
		r.Failures = append(r.Failures, s.failures()...)
	}
	if len(r.Steps) > 0 {
		r.Floor = r.Steps[0].floor()
	}
	return r
}

// failures tells where the verdict did not see an error of the ITL's p99.
func (s *Step) failures() (out []string) {
	check := func(e *Errors, v metrics.Verdict, how string) {
		if e != nil && v == metrics.Valid && e.ITLP99Error != nil && *e.ITLP99Error > Limit {
			out = append(out, fmt.Sprintf("at %d streams the ITL's p99 %s is off by %.1f %% and the verdict is VALID; want SUSPECT beyond %.0f %%",
				s.Concurrency, how, 100**e.ITLP99Error, 100*Limit))
		}
	}
	check(s.Kernel, s.Verdict, "with kernel stamps")
	check(&s.Read, s.VerdictUnstamped, "without kernel stamps")
	return out
}

func (s *Step) floor() *Floor {
	f, e := &Floor{Concurrency: s.Concurrency, Stamps: "kernel"}, s.Kernel
	if e == nil {
		f.Stamps, e = "read", &s.Read
	}
	if e.TTFTBias.Tells(0.5) {
		f.TTFTBiasP50 = &e.TTFTBias.P50
	}
	if e.ITLError.Tells(0.99) {
		f.ITLErrorP99 = &e.ITLError.P99
	}
	return f
}
