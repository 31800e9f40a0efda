package manifest

import "math"

const latencyPath = "/results/latency_ms/"

// A named latency metric, in the order of the document.
type namedLatency struct {
	name string
	*Latency
}

func (r *Results) latencies() []namedLatency {
	var present []namedLatency
	for _, l := range []namedLatency{
		{"end_to_end", r.LatencyMS.EndToEnd},
		{"inter_token", r.LatencyMS.InterToken},
		{"time_to_first_token", r.LatencyMS.TimeToFirstToken},
		{"time_per_output_token", r.LatencyMS.TimePerOutputToken},
	} {
		if l.Latency != nil {
			present = append(present, l)
		}
	}
	return present
}

// results checks the rules about measured numbers: R1 to R7, R9 to R14, R18.
func (v *verifier) results() {
	r := v.run.Results
	if r == nil {
		return
	}
	if sum := r.SuccessfulRequests + r.FailedRequests; sum != int64(v.run.Workload.RequestCount) {
		v.fail("R1", "/results/successful_requests", "%d successful + %d failed requests are not the %d of workload.request_count",
			r.SuccessfulRequests, r.FailedRequests, v.run.Workload.RequestCount)
	}
	v.rates(r)
	v.tokenTotals(r)
	for _, l := range r.latencies() {
		v.distribution(l)
	}
	v.firstBeforeLast(r)
	v.decodeTime(r)
	v.littlesLaw(r)
}

// rates checks R2, R3 and R4 bit for bit: a rate is a count over the duration
// that the document states.
func (v *verifier) rates(r *Results) {
	check := func(rule, name string, rate Rate, count int64) {
		if want := float64(count) / r.DurationSeconds; rate.Value != want {
			v.fail(rule, "/results/throughput/"+name+"/value", "%v is not %d / %v s = %v", rate.Value, count, r.DurationSeconds, want)
		}
	}
	check("R2", "requests_per_second", r.Throughput.RequestsPerSecond, r.SuccessfulRequests)
	check("R3", "output_tokens_per_second", r.Throughput.OutputTokensPerSecond, r.TotalOutputTokens)
	check("R4", "total_tokens_per_second", r.Throughput.TotalTokensPerSecond, r.TotalInputTokens+r.TotalOutputTokens)
}

// tokenTotals checks R5 and R6. A chat template adds tokens that the prompt
// length does not count, and without ignore_eos a fixed length is only asked
// for; lengths that were counted (empirical) must give the sum anyway.
func (v *verifier) tokenTotals(r *Results) {
	w := v.run.Workload
	check := func(rule, name string, total int64, count TokenCount, fixed bool) {
		n := r.SuccessfulRequests
		path := "/results/total_" + name
		switch {
		case n == 0 && total != 0:
			v.fail(rule, path, "%d tokens without a successful request", total)
		case n == 0:
		case count.Kind == "fixed" && fixed && total != n*count.Value:
			v.fail(rule, path, "%d is not %d requests x %d tokens", total, n, count.Value)
		case count.Kind == "empirical" && !about(float64(total), count.Mean*float64(n)):
			v.fail(rule, path, "%d is not %d requests x mean %v tokens", total, n, count.Mean)
		case count.Kind == "empirical" && (total < n*count.Min || total > n*count.Max):
			v.fail(rule, path, "%d is outside %d requests x %d..%d tokens", total, n, count.Min, count.Max)
		}
	}
	if v.completions() {
		check("R5", "input_tokens", r.TotalInputTokens, w.InputTokens, true)
	}
	check("R6", "output_tokens", r.TotalOutputTokens, w.OutputTokens, deref(w.Stopping.IgnoreEOS))
}

// distribution checks R7 and the first part of R18 (the median lies within one
// standard deviation of the mean), and warns where a percentile stands on
// fewer samples than it needs to be told from the maximum.
//
// Note: mean <= p99 is no rule. A few long stalls lift the mean above it.
func (v *verifier) distribution(l namedLatency) {
	path := latencyPath + l.name
	if l.P50 > l.P90 || l.P90 > l.P95 || l.P95 > l.P99 {
		v.fail("R7", path, "percentiles fall: p50 %v, p90 %v, p95 %v, p99 %v", l.P50, l.P90, l.P95, l.P99)
	}
	if gap := math.Abs(l.Mean - l.P50); gap > l.Stddev+slack*l.Mean {
		v.fail("R18", path, "mean %v and median %v are %v apart, more than the standard deviation %v", l.Mean, l.P50, gap, l.Stddev)
	}
	for _, p := range []struct {
		name string
		need int64 // 1/(1-q)
	}{{"p99", 100}, {"p95", 20}, {"p90", 10}, {"p50", 2}} {
		if l.SampleCount < p.need {
			v.warn("samples", path+"/"+p.name, "%s of %d samples; it needs %d", p.name, l.SampleCount, p.need)
			break // the smaller percentiles may be short too, one line is enough
		}
	}
}

// firstBeforeLast checks R11: no response ends before it begins. Where the two
// metrics describe different requests (some came unstreamed) it does not hold.
func (v *verifier) firstBeforeLast(r *Results) {
	e2e, ttft := r.LatencyMS.EndToEnd, r.LatencyMS.TimeToFirstToken
	if e2e == nil || ttft == nil || e2e.SampleCount != ttft.SampleCount {
		return
	}
	for _, p := range []struct {
		name        string
		first, last float64
	}{{"mean", ttft.Mean, e2e.Mean}, {"p50", ttft.P50, e2e.P50}, {"p90", ttft.P90, e2e.P90}, {"p95", ttft.P95, e2e.P95}, {"p99", ttft.P99, e2e.P99}} {
		if p.last < p.first {
			v.fail("R11", latencyPath+"end_to_end/"+p.name, "%v is less than the time to first token's %v", p.last, p.first)
		}
	}
}

// decodeTime checks what follows from e2e = ttft + (N-1) tpot where every
// request has the same N: R9, the second part of R18, and R10, whose ratio is
// the number of tokens in a chunk.
func (v *verifier) decodeTime(r *Results) {
	l := r.LatencyMS
	steps, ok := v.equalSteps(r)
	if !ok {
		return
	}
	sum := l.TimeToFirstToken.Mean + steps*l.TimePerOutputToken.Mean
	if ulps(sum, l.EndToEnd.Mean) > 2 {
		v.fail("R9", latencyPath+"end_to_end/mean", "%v is not %v + %v x %v = %v",
			l.EndToEnd.Mean, l.TimeToFirstToken.Mean, steps, l.TimePerOutputToken.Mean, sum)
	}
	sd, first, decode := l.EndToEnd.Stddev, l.TimeToFirstToken.Stddev, steps*l.TimePerOutputToken.Stddev
	if spare := slack * (l.EndToEnd.Mean + sd); sd < math.Abs(first-decode)-spare || sd > first+decode+spare {
		v.fail("R18", latencyPath+"end_to_end/stddev", "%v is outside %v..%v, which the other two allow", sd, math.Abs(first-decode), first+decode)
	}
	if l.InterToken == nil || l.TimePerOutputToken.Mean == 0 || v.speculative() {
		return
	}
	if ratio := l.InterToken.Mean / l.TimePerOutputToken.Mean; math.Abs(ratio-1) > 1e-6 {
		v.warn("R10", latencyPath+"inter_token/mean", "mean gap / mean time per token is %v: chunks carried several tokens, and no speculative configuration says why", ratio)
	}
}

// equalSteps returns N-1 where all successful requests have N output tokens and
// all three metrics describe the same requests.
func (v *verifier) equalSteps(r *Results) (float64, bool) {
	l, out := r.LatencyMS, v.run.Workload.OutputTokens
	if l.EndToEnd == nil || l.TimeToFirstToken == nil || l.TimePerOutputToken == nil {
		return 0, false
	}
	same := l.EndToEnd.SampleCount == l.TimeToFirstToken.SampleCount && l.EndToEnd.SampleCount == l.TimePerOutputToken.SampleCount
	fixed := out.Kind == "fixed" && out.Value > 1 && r.TotalOutputTokens == r.SuccessfulRequests*out.Value
	return float64(out.Value - 1), same && fixed
}

// littlesLaw checks R13 and R14: no more requests can have been in flight, on
// average, than were allowed to be; in a closed loop about as many should.
func (v *verifier) littlesLaw(r *Results) {
	e2e, w := r.LatencyMS.EndToEnd, v.run.Workload
	if e2e == nil || w.Concurrency == 0 {
		return
	}
	c := float64(w.Concurrency)
	inFlight := r.Throughput.RequestsPerSecond.Value * e2e.Mean / 1000
	if inFlight > c*(1+slack) {
		v.fail("R13", latencyPath+"end_to_end/mean", "%v req/s x %v ms are %v requests in flight, more than concurrency %d",
			r.Throughput.RequestsPerSecond.Value, e2e.Mean, inFlight, w.Concurrency)
	}
	if least := float64(r.SuccessfulRequests) / c * e2e.Mean / 1000; r.DurationSeconds*(1+slack) < least {
		v.fail("R14", "/results/duration_seconds", "%v s is less than %d requests of %v ms take %d at a time: %v s",
			r.DurationSeconds, r.SuccessfulRequests, e2e.Mean, w.Concurrency, least)
	}
	if full := min(c, float64(w.RequestCount)); w.ArrivalProcess == "closed_loop" && inFlight < 0.95*full {
		v.warn("R13", "/workload/concurrency", "%.4g of %v requests were in flight on average: the client or the ramp was the limit", inFlight, full)
	}
}

// slack covers the rounding of a bound computed in another order; it is the
// 1.0000001 of rule R13.
const slack = 1e-7

// about reports equality up to the rounding of a mean.
func about(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b)) }

// ulps is the distance of two numbers in units in the last place of the larger.
func ulps(a, b float64) float64 {
	big := max(math.Abs(a), math.Abs(b))
	if big == 0 {
		return 0
	}
	return math.Abs(a-b) / (math.Nextafter(big, math.Inf(1)) - big)
}
