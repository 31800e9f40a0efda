package bench

import (
	"time"

	"github.com/servebench/servebench/metrics"
)

// pools tells that the requests asked for vectors or scores and not for tokens.
func (r *Result) pools() bool { return !r.Config.API().Generates() }

// Sequences is the number of texts that completed requests brought to be pooled;
// 0 where tokens were generated.
func (r *Result) Sequences() (n int64) {
	for i := range r.Records[:min(len(r.Records), len(r.Plan.Requests))] {
		if r.Records[i].Outcome == metrics.OK {
			n += int64(r.Plan.Requests[i].Sequences)
		}
	}
	return n
}

// setPooled writes what vLLM has of pooled requests, whose failures it does not
// count.
func (r *Result) setPooled(o *object, detailed bool) {
	s, sequences := r.Summary, r.Sequences()
	o.set("duration", seconds(r.Duration))
	o.set("completed", s.Completed)
	o.set("total_input_tokens", s.InputTokens)
	o.set("total_input_sequences", sequences)
	o.set("request_throughput", float(r.throughput(int64(s.Completed))))
	o.set("input_sequence_throughput", float(r.throughput(sequences)))
	o.set("total_token_throughput", float(r.throughput(s.InputTokens)))
	if detailed {
		o.set("input_lens", column(r.Records, func(rec *metrics.Record) int {
			if rec.Outcome != metrics.OK {
				return 0
			}
			return rec.PromptTokens
		}))
	}
	r.setTimes(o, false)
	if detailed {
		o.set("errors", column(r.Records, failure))
	}
}

// setProbes writes what vLLM does, where a probe succeeded.
func (r *Result) setProbes(o *object) {
	p := r.Probes
	if p == nil || p.E2EL == nil {
		return
	}
	p99, _ := p.E2EL.Percentile(99)
	o.set("probe_completed", p.Completed)
	o.set("probe_failed", p.Failed)
	o.set("probe_median_e2el_ms", float(p.E2EL.Median))
	o.set("probe_p99_e2el_ms", float(p99))
	o.set("probe_max_e2el_ms", float(p.E2EL.Max))
}

// setRamp lists when a ramp passed each whole rate, as vLLM's client notes it:
// when the first request of that rate or more was due.
func (r *Result) setRamp(o *object) {
	ramp := r.Config.Ramp
	if ramp == nil {
		return
	}
	var events []*object
	add := func(rps int, at time.Duration) {
		e := new(object)
		e.set("rps", rps)
		e.set("timestamp", isoformat(r.Start.Add(at)))
		events = append(events, e)
	}
	last := int(ramp.Start)
	add(last, 0)
	for i := range r.Records {
		rec := &r.Records[i]
		if rec.Outcome == "" {
			break // nor any after it
		}
		for rate := int(ramp.Rate(i, len(r.Records))); last < rate; {
			last++
			add(last, rec.Due)
		}
	}
	o.set("rps_change_events", events)
}

// isoformat is Python's of a local time without a zone.
func isoformat(t time.Time) string {
	layout := "2006-01-02T15:04:05.000000"
	if t = t.Local().Truncate(time.Microsecond); t.Nanosecond() == 0 {
		layout = "2006-01-02T15:04:05"
	}
	return t.Format(layout)
}

func (r *Result) setDiffusion(o *object) {
	d := r.Diffusion
	if d == nil {
		return
	}
	o.set("diffusion_committed_throughput", float(r.throughput(d.Committed)))
	o.set("diffusion_steps_per_canvas", float(d.PerCanvas()))
	o.set("diffusion_committed_per_step", float(d.PerStep()))
	o.set("diffusion_committed_tokens", d.Committed)
	o.set("diffusion_denoising_steps", int64(d.Denoising()))
	o.set("diffusion_canvas_positions", d.Positions)
}

func (r *Result) setSpeculation(o *object) {
	s := r.Speculation
	if s == nil {
		return
	}
	o.set("spec_decode_acceptance_rate", float(s.Rate()))
	o.set("spec_decode_acceptance_length", float(s.Length()))
	o.set("spec_decode_num_drafts", s.Drafts)
	o.set("spec_decode_draft_tokens", s.DraftTokens)
	o.set("spec_decode_accepted_tokens", s.Accepted)
	positions := []float{}
	for _, p := range s.Positions() {
		positions = append(positions, float(p))
	}
	o.set("spec_decode_per_position_acceptance_rates", positions)
}
