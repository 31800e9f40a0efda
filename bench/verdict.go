package bench

import (
	"math"
	"time"

	"github.com/servebench/servebench/metrics"
)

// judge says how sure the run's numbers are, and whether they are the server's.
func (r *Result) judge() {
	r.Analysis = metrics.Analyze(r.Records, r.Summary, r.options(), r.load())
	f := metrics.FiguresOf(r.Records, r.Summary, r.Analysis)
	f.KernelStamps = r.stamped()
	if v := r.vitals; v != nil {
		f.Canary, f.Throttled = v.Canary, v.Throttled
		if !r.Config.InProcess { // else these are the simulator's too
			f.CPU, f.GC, f.SchedWait, f.Pause = v.CPU, v.GC, v.SchedWait, v.Pause
		}
	}
	if r.Duration > 0 {
		f.Clocks = ptr(math.Abs(r.clockOffset.Seconds()) / max(r.Duration, time.Second).Seconds())
	}
	j := metrics.Judge(f, metrics.DefaultLimits)
	r.Judgement = &j
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
	if r.vitals != nil {
		ext["servebench.health"] = r.vitals
	}
	r.setSureExt(ext)
}
