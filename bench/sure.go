package bench

import (
	"slices"
	"strconv"

	"github.com/servebench/servebench/metrics"
)

// named is a distribution under its metric's name; dist is nil without a sample.
type named struct {
	name string
	dist *metrics.Dist
}

// latencies are vLLM's metrics in vLLM's reading, whether selected or not, then
// those of the server beside them and with all of them the generator's own.
func (r *Result) latencies(vllm, client bool) (list []named) {
	for _, name := range metricNames {
		if d, ok := r.Metric(name); ok && vllm {
			list = append(list, named{name, d})
		}
	}
	for _, m := range r.OwnMetrics() {
		if client || !m.Client {
			list = append(list, named{m.name(), m.Dist})
		}
	}
	return list
}

// setSureOwn writes into the result's own object how sure its numbers are.
func (r *Result) setSureOwn(o *object) {
	list, percentiles := r.latencies(true, true), withMedian(r.Config.Percentiles)
	o.set("percentile_intervals", intervals(list, percentiles, true))
	o.set("tail_estimates", tails(list, percentiles))
	o.set("samples_needed", needed(percentiles))
	r.analysed(func(key string, v any) { o.set(key, v) }, func(d *metrics.Dist) *object {
		if d == nil {
			return nil
		}
		var in object
		in.setIntervals(d, percentiles)
		all := distJSON(d, r.Config.Percentiles)
		all.set("percentile_intervals", &in)
		return all
	})
}

// setSureExt writes the same into a manifest's extensions, without what is the
// generator's own and in the reading of the manifest.
func (r *Result) setSureExt(ext map[string]any) {
	list := r.latencies(false, false)
	ext["servebench.percentile_intervals"] = intervals(list, basePercentiles, false)
	ext["servebench.tail_estimates"] = tails(list, basePercentiles)
	ext["servebench.samples_needed"] = needed(basePercentiles)
	r.analysed(func(key string, v any) { ext["servebench."+key] = v }, func(d *metrics.Dist) *object {
		if d == nil {
			return nil
		}
		return distJSON(d, basePercentiles)
	})
}

// analysed sets what the run's analysis found, or why there is none.
func (r *Result) analysed(set func(key string, v any), dist func(*metrics.Dist) *object) {
	a := r.Analysis
	if a == nil {
		const none = "no request completed"
		a = &metrics.Analysis{NoSteady: none, NoThroughput: none, NoSaturation: none, NoArrivals: none}
	}
	if in := independence(a); len(in.keys) > 0 {
		set("independence", in)
	}
	either := func(key string, v any, is bool, why string) {
		if is {
			set(key, v)
		} else if why != "" {
			set("no_"+key, why)
		}
	}
	either("steady_state", steadyOf(a.Steady, dist), a.Steady != nil, a.NoSteady)
	either("throughput", a.Throughput, a.Throughput != nil, a.NoThroughput)
	either("saturation", a.Saturation, a.Saturation != nil, a.NoSaturation)
	either("arrivals", a.Arrivals, a.Arrivals != nil, a.NoArrivals)
	either("goodput", a.Goodput, a.Goodput != nil, "")
}

// steady is the plateau with the distributions inside it.
type steady struct {
	*metrics.Steady
	TTFT *object `json:"ttft_ms,omitempty"`
	TPOT *object `json:"tpot_ms,omitempty"`
	ITL  *object `json:"itl_ms,omitempty"`
	E2EL *object `json:"e2el_ms,omitempty"`
}

func steadyOf(w *metrics.Steady, dist func(*metrics.Dist) *object) any {
	if w == nil {
		return nil
	}
	return steady{w, dist(w.TTFT), dist(w.TPOT), dist(w.ITL), dist(w.E2EL)}
}

// independence says of each metric that has samples what they are worth.
func independence(a *metrics.Analysis) *object {
	var o object
	for _, m := range []struct {
		name string
		in   *metrics.Independence
	}{{"ttft", &a.TTFT}, {"tpot", &a.TPOT}, {"itl", &a.ITL}, {"e2el", &a.E2EL}} {
		if m.in.N > 0 {
			o.set(m.name, worth{m.in, m.in.Alike()})
		}
	}
	return &o
}

type worth struct {
	*metrics.Independence
	Alike bool `json:"neighbours_alike"`
}

// withMedian has p50, which every distribution tells, asked for or not.
func withMedian(percentiles []float64) []float64 {
	if slices.Contains(percentiles, 50) {
		return percentiles
	}
	return append([]float64{50}, percentiles...)
}

// percentileKey is p50, p99.9.
func percentileKey(p float64) string { return "p" + strconv.FormatFloat(p, 'f', -1, 64) }

// intervals holds for each metric the 95 % interval [low, high] of its percentiles
// in milliseconds, null where the samples are fewer than it takes; labelled with the
// number of samples and where the percentiles come from, if nothing else tells.
func intervals(list []named, percentiles []float64, labelled bool) *object {
	var o object
	for _, m := range list {
		var each object
		if labelled {
			each.set("n", 0)
			if m.dist != nil {
				each.set("n", m.dist.N)
				each.set("source", m.dist.Source)
			}
		}
		each.setIntervals(m.dist, percentiles)
		o.set(m.name, &each)
	}
	return &o
}

func (o *object) setIntervals(d *metrics.Dist, percentiles []float64) {
	for _, p := range percentiles {
		o.set(percentileKey(p), nil)
		if in := d.Interval(p); in != nil {
			o.set(percentileKey(p), [2]float{float(in.Low), float(in.High)})
		}
	}
}

// tails holds for each metric what its percentiles are below with 99 % confidence,
// in milliseconds; null where the samples are fewer than that takes.
func tails(list []named, percentiles []float64) *object {
	var o object
	for _, m := range list {
		var each object
		for _, p := range percentiles {
			each.set(percentileKey(p), nil)
			if v, ok := m.dist.Tail(p); ok {
				each.set(percentileKey(p), float(v))
			}
		}
		o.set(m.name, &each)
	}
	return &o
}

// needed is how many samples an interval and a tail estimate take; null: no number
// is enough, as for the extremes.
func needed(percentiles []float64) *object {
	var o object
	for _, p := range percentiles {
		var each object
		each.set("interval", nullable(metrics.IntervalNeeds(p)))
		each.set("tail", nullable(metrics.TailNeeds(p)))
		o.set(percentileKey(p), &each)
	}
	return &o
}
