package bench

import (
	"time"

	"github.com/servebench/servebench/metrics"
)

// judge says how sure the run's numbers are, and whether they are the server's.
func (r *Result) judge() {
	r.Analysis = metrics.Analyze(r.Records, r.Summary, r.options(), r.load())
	f := metrics.FiguresOf(r.Records, r.Summary, r.Analysis)
	if f.KernelStamps = r.stamped(); !f.KernelStamps {
		f.RxDelay, f.Merged, f.Even = nil, nil, nil // a delay of 0 is what is written where nobody knows
	}
	f.Panics = r.panics
	offset := r.clockOffset.Abs()
	if v := r.vitals; v != nil {
		v.boundPorts(r.Summary.Counters.Dialed + r.Summary.Counters.Redialed)
		f.Canary, f.Throttled = v.Wake, v.Throttled
		f.Descriptors, f.Ports = share(v.Files, v.FilesLimit), share(v.Ports, v.PortsLimit)
		if !r.Config.InProcess { // else these are the simulator's too
			f.CPU, f.GC, f.SchedWait, f.Pause, f.Wake = v.CPU, v.GC, v.SchedWait, v.Pause, v.WakeP99
		}
		// A clock that was set there and back has moved stamps in between.
		offset = max(offset, v.ClockOffset.Abs())
	}
	if r.Duration > 0 {
		f.Clocks = ptr(offset.Seconds() / max(r.Duration, time.Second).Seconds())
	}
	j := metrics.Judge(f, metrics.DefaultLimits)
	r.Figures, r.Judgement, r.Series = &f, &j, r.series()
}

// share is a count over its limit; nil where one of them is not known.
func share(n, limit *int) *float64 {
	if n == nil || limit == nil || *limit <= 0 {
		return nil
	}
	return ptr(float64(*n) / float64(*limit))
}

// series is what the records and the watch over this process tell of each second.
func (r *Result) series() *metrics.Series {
	s := metrics.SeriesOf(r.Records, r.options())
	if v := r.vitals; v != nil {
		v.addTo(&s, r.watched)
	}
	return &s
}

// Reasons are those of the verdict, in words and numbers.
func (r *Result) Reasons() []string {
	out := []string{}
	if r.Judgement != nil {
		for _, reason := range r.Judgement.Reasons {
			out = append(out, reason.Text)
		}
	}
	return out
}

// load is the run's schedule.
func (r *Result) load() metrics.Load {
	c := &r.Config
	l := metrics.Load{OpenLoop: r.openLoop()}
	if !l.OpenLoop {
		l.Concurrency = c.MaxConcurrency
		if l.Concurrency == 0 {
			l.Concurrency = len(r.Plan.Requests)
		}
		return l
	}
	if c.Ramp == nil && !c.Traced() {
		l.Shape = float64(c.Burstiness)
	}
	return l
}

// setSure writes into a manifest's extensions how sure its numbers are.
func (r *Result) setSure(ext map[string]any) {
	if r.Judgement == nil {
		return
	}
	j := r.Judgement
	ext["servebench.verdict"] = j.Verdict
	ext["servebench.verdict_reasons"] = r.Reasons()
	ext["servebench.verdict_attribution"] = j.Sentence
	ext["servebench.verdict_limits"] = metrics.DefaultLimits
	if r.Figures != nil {
		ext["servebench.health"] = r.health()
		ext["servebench.health_series"] = r.Series.Plain()
	}
	r.setSureExt(ext)
}
