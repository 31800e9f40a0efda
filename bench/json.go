package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/servebench/servebench/metrics"
)

// object is a JSON object that keeps the order of its keys, as Python's dict
// does: setting a key again keeps its place.
type object struct {
	keys   []string
	values map[string]any
}

func (o *object) set(key string, value any) {
	if o.values == nil {
		o.values = map[string]any{}
	}
	if _, ok := o.values[key]; !ok {
		o.keys = append(o.keys, key)
	}
	o.values[key] = value
}

// MarshalJSON writes the members in order.
func (o *object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, k := range o.keys {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := enc.Encode(k); err != nil {
			return nil, err
		}
		b.Truncate(b.Len() - 1)
		b.WriteByte(':')
		if err := enc.Encode(o.values[k]); err != nil {
			return nil, err
		}
		b.Truncate(b.Len() - 1)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// float is a float64 that Python would print with a decimal point, so that the
// reader gets a float back.
type float float64

// MarshalJSON writes null for what JSON has no number for.
func (f float) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	b := strconv.AppendFloat(nil, float64(f), 'g', -1, 64)
	if !bytes.ContainsAny(b, ".e") {
		b = append(b, ".0"...)
	}
	return b, nil
}

func seconds(d time.Duration) float { return float(float64(d) / 1e9) }

// metricNames are vLLM's, in the order of its JSON.
var metricNames = []string{"ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"}

// MetricNames lists the names of vLLM's metrics in the order of its JSON.
func MetricNames() []string { return slices.Clone(metricNames) }

// Metric is one of vLLM's metrics by its name; ok is false where vLLM does not
// have it for this kind of load.
func (r *Result) Metric(name string) (d *metrics.Dist, ok bool) {
	s, capped, streamed := r.Summary, r.Config.MaxConcurrency > 0, r.Config.Stream && !r.pools()
	switch name {
	case "ttft":
		return s.VLLM.TTFT, streamed
	case "tpot":
		return s.VLLM.TPOT, streamed
	case "itl":
		return s.VLLM.ITL, streamed
	case "e2el":
		return s.VLLM.E2EL, true
	case "client_queue_time":
		return s.ClientQueue, capped
	case "e2el_including_client_queue":
		return s.E2ELWithQueue, capped && r.openLoop()
	}
	return nil, false
}

// throughput is a count over the duration; 0 where nothing took time.
func (r *Result) throughput(count int64) float64 {
	if r.Duration <= 0 {
		return 0
	}
	return float64(count) / r.Duration.Seconds()
}

// JSON is the result file of `vllm bench serve`: its keys, order and types, then
// ours. selected names the metrics to include; detailed adds the arrays of
// --save-detailed.
func (r *Result) JSON(selected []string, detailed bool) ([]byte, error) {
	b, err := r.object(selected, detailed).MarshalJSON()
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

func (r *Result) object(selected []string, detailed bool) *object {
	var o object
	r.setHead(&o)
	if r.pools() {
		r.setPooled(&o, detailed)
	} else {
		r.setCounts(&o)
		r.setArrays(&o, detailed)
		o.set("max_output_tokens_per_s", float(r.Summary.PeakTokens))
		o.set("max_concurrent_requests", r.Summary.PeakConcurrency)
		o.set("rtfx", float(0))
	}
	r.setProbes(&o)
	r.setRamp(&o)
	r.setSpeculation(&o)
	r.setDiffusion(&o)
	for _, name := range metricNames {
		if slices.Contains(selected, name) {
			r.setMetric(&o, name)
		}
	}
	r.setOwn(&o)
	r.hide(&o)
	return &o
}

// nullable is v, or null for the zero value.
func nullable[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

func (r *Result) setHead(o *object) {
	c := &r.Config
	o.set("date", r.Start.Local().Format("20060102-150405"))
	o.set("endpoint_type", c.Backend)
	o.set("backend", c.Backend)
	o.set("label", nullable(c.Label))
	o.set("model_id", c.Model)
	tokenizer := nullable(cmp.Or(c.Tokenizer, c.Model))
	if c.NoTokenizer {
		tokenizer = nil
	}
	o.set("tokenizer_id", tokenizer)
	o.set("num_prompts", c.Dataset.Prompts)
	for _, kv := range c.Metadata {
		o.set(r.redactor().Hide(kv[0]), kv[1])
	}
	if c.Rate.IsInf() {
		o.set("request_rate", "inf")
	} else {
		o.set("request_rate", float(c.Rate))
	}
	if c.Burstiness.IsInf() {
		o.set("burstiness", "inf")
	} else {
		o.set("burstiness", float(c.Burstiness))
	}
	o.set("max_concurrency", nullable(c.MaxConcurrency))
	if c.Ramp != nil {
		o.set("ramp_up_strategy", c.Ramp.Strategy)
		o.set("ramp_up_start_rps", rounded(c.Ramp.Start))
		o.set("ramp_up_end_rps", rounded(c.Ramp.End))
	}
}

func (r *Result) setCounts(o *object) {
	s := r.Summary
	o.set("duration", seconds(r.Duration))
	o.set("completed", s.Completed)
	o.set("failed", s.Failed)
	o.set("total_input_tokens", s.InputTokens)
	o.set("total_output_tokens", s.OutputTokens)
	o.set("request_throughput", float(r.throughput(int64(s.Completed))))
	var good any
	if len(r.Config.Goodput) > 0 {
		good = float(r.throughput(int64(s.Good)))
	}
	o.set("request_goodput", good)
	o.set("output_throughput", float(r.throughput(s.OutputTokens)))
	o.set("total_token_throughput", float(r.throughput(s.InputTokens+s.OutputTokens)))
}

// setArrays writes one entry a request, in order. vLLM always writes latencies
// and queue_times, and so do we; the others only in detail.
func (r *Result) setArrays(o *object, detailed bool) {
	if detailed {
		o.set("input_lens", column(r.Records, func(rec *metrics.Record) int { return rec.PromptTokens }))
		o.set("output_lens", column(r.Records, func(rec *metrics.Record) int {
			if rec.Outcome != metrics.OK {
				return 0
			}
			return rec.OutputTokens
		}))
		o.set("ttfts", column(r.Records, ttft))
		o.set("itls", column(r.Records, gapsOf))
	}
	r.setTimes(o, detailed)
	if detailed {
		o.set("generated_texts", column(r.Records, func(rec *metrics.Record) string { return rec.Text }))
		o.set("errors", column(r.Records, failure))
	}
}

// setTimes writes vLLM's times of each request: 0 is the latency of one that
// failed.
func (r *Result) setTimes(o *object, starts bool) {
	o.set("latencies", column(r.Records, func(rec *metrics.Record) float {
		if rec.Outcome != metrics.OK {
			return 0
		}
		return seconds(rec.E2EL())
	}))
	if starts {
		o.set("start_times", column(r.Records, func(rec *metrics.Record) float { return seconds(rec.Sent) }))
	}
	open := r.openLoop()
	o.set("queue_times", column(r.Records, func(rec *metrics.Record) float {
		if open {
			return seconds(rec.Sent - rec.Due)
		}
		return seconds(rec.Sent)
	}))
}

// failure is vLLM's error of a request; "" where there is none.
func failure(rec *metrics.Record) string {
	switch rec.Outcome {
	case "":
		return "not sent"
	case metrics.OK:
		return ""
	}
	return describe(rec)
}

// Errors are those of the first requests that failed, at most most of them.
func (r *Result) Errors(most int) (out []string) {
	for i := range r.Records {
		rec := &r.Records[i]
		if rec.Outcome != "" && rec.Outcome != metrics.OK && len(out) < most {
			out = append(out, describe(rec))
		}
	}
	return out
}

func column[T any](records []metrics.Record, f func(*metrics.Record) T) []T {
	out := make([]T, len(records))
	for i := range records {
		out[i] = f(&records[i])
	}
	return out
}

func ttft(rec *metrics.Record) float {
	if len(rec.Arrivals) == 0 {
		return 0
	}
	return seconds(rec.Arrivals[0] - rec.Sent)
}

func gapsOf(rec *metrics.Record) []float {
	gaps := make([]float, 0, max(0, len(rec.Arrivals)-1))
	for i := 1; i < len(rec.Arrivals); i++ {
		gaps = append(gaps, seconds(rec.Arrivals[i]-rec.Arrivals[i-1]))
	}
	return gaps
}

// setMetric writes vLLM's statistics of one metric: zeros where there is no
// sample, as vLLM does, but null where no request succeeded at all.
func (r *Result) setMetric(o *object, name string) {
	d, ok := r.Metric(name)
	if !ok {
		return
	}
	value := func(v float64) any {
		if r.Summary.Completed == 0 {
			return nil
		}
		return float(v)
	}
	if d == nil {
		d = &metrics.Dist{}
	}
	o.set("mean_"+name+"_ms", value(d.Mean))
	o.set("median_"+name+"_ms", value(d.Median))
	o.set("std_"+name+"_ms", value(d.Std))
	for _, p := range r.Config.Percentiles {
		v, _ := d.Percentile(p)
		o.set(percentileKey(p)+"_"+name+"_ms", value(v))
	}
}

// ownKeys are those beside vLLM's in the result JSON.
var ownKeys = []string{"simulated", "outcome", "failure", "servebench"}

// setOwn writes what vLLM does not know, under keys it does not have.
func (r *Result) setOwn(o *object) {
	if r.Simulated() {
		o.set("simulated", true)
	}
	o.set("outcome", r.Outcome)
	if r.Failure != nil {
		o.set("failure", r.Failure)
	}
	var own object
	own.set("version", Version)
	if r.Judgement != nil {
		own.set("verdict", r.Judgement.Verdict)
		own.set("verdict_reasons", r.Reasons())
		own.set("verdict_attribution", r.Judgement.Sentence)
	}
	if r.Figures != nil {
		own.set("health", r.health())
		own.set("health_series", r.Series)
	}
	for _, m := range r.OwnMetrics() {
		own.set(m.Key, distJSON(m.Dist, r.Config.Percentiles))
	}
	r.setSureOwn(&own)
	if o := r.serverTiming(r.Config.Percentiles); o != nil {
		own.set("server_timing", o)
	}
	if p := r.Probes; p != nil {
		var probes object
		probes.set("rate", float(r.Config.ProbeRate))
		probes.set("completed", p.Completed)
		probes.set("failed", p.Failed)
		probes.set("missed", p.Missed)
		own.set("probes", &probes)
	}
	if r.pools() { // vLLM's file does not tell
		own.set("failed", r.Summary.Failed)
	}
	own.set("peak_concurrency", r.Summary.MaxInFlight)
	own.set("peak_output_tokens_per_s", float(r.Summary.MaxTokenRate))
	own.set("outcomes", r.Summary.Outcomes)
	own.set("token_sources", r.Summary.TokenSources)
	r.setAccounting(own.set)
	own.set("counters", counters(&r.Summary.Counters))
	if r.PrefixCache != nil {
		own.set("prefix_cache", r.PrefixCache)
	}
	r.setSalt(own.set)
	own.set("dataset_sha256", r.Plan.SHA256)
	own.set("dataset_generator", r.Plan.Generator)
	if f := r.Config.Selftest; f != nil {
		own.set("selftest", f)
	}
	own.set("warnings", append([]string{}, r.Warnings...))
	o.set("servebench", &own)
}

// OwnMetric is a distribution that vLLM does not report.
type OwnMetric struct {
	Key, Label string
	Dist       *metrics.Dist
	Same       bool // no different from vLLM's reading of it, or from a row above
	Client     bool // the generator's own part, not the server's
}

// name is the metric's name: that of its key, which has the unit too.
func (m *OwnMetric) name() string { return strings.TrimSuffix(m.Key, "_ms") }

// OwnMetrics are the distributions beside vLLM's, those with samples, in the
// order of the screen.
func (r *Result) OwnMetrics() (out []OwnMetric) {
	s := r.Summary
	put := func(m OwnMetric) {
		if m.Dist != nil {
			out = append(out, m)
		}
	}
	add := func(key, label string, d *metrics.Dist, told ...*metrics.Dist) {
		same := func(o *metrics.Dist) bool { return o != nil && d != nil && o.N == d.N && o.Mean == d.Mean }
		put(OwnMetric{Key: key, Label: label, Dist: d, Same: slices.ContainsFunc(told, same)})
	}
	client := func(key, label string, d *metrics.Dist) {
		put(OwnMetric{Key: key, Label: label, Dist: d, Client: true})
	}
	add("ttft_token_ms", "TTFT, first token", s.Token.TTFT, s.VLLM.TTFT)
	add("ttft_visible_ms", "TTFT, visible output", s.TTFTVisible)
	add("tpot_token_ms", "TPOT, token events", s.Token.TPOT, s.VLLM.TPOT)
	add("tpot_after_first_chunk_ms", "TPOT after first chunk", s.TPOTAfterFirst, s.Token.TPOT)
	add("itl_token_ms", "ITL, token events", s.Token.ITL, s.VLLM.ITL)
	add("itl_per_token_ms", "ITL per token", s.ITLPerToken, s.VLLM.ITL, s.Token.ITL)
	add("e2el_token_ms", "E2EL, last token", s.Token.E2EL, s.VLLM.E2EL)
	add("ttft_from_due_ms", "TTFT from due time", s.TTFTFromDue)
	add("e2el_from_due_ms", "E2EL from due time", s.E2ELFromDue)
	client("queue_wait_ms", "Queue wait", s.QueueWait)
	client("lag_ms", "Lag (client)", s.Lag)
	client("ramp_lag_ms", "Ramp lag (client)", s.RampLag)
	if r.stamped() {
		client("rx_delay_ms", "Receive delay (client)", s.RxDelay)
	}
	client("connect_ms", "Connect", s.Connect)
	return out
}

func distJSON(d *metrics.Dist, percentiles []float64) *object {
	var o object
	o.set("n", d.N)
	o.set("mean", float(d.Mean))
	o.set("median", float(d.Median))
	o.set("std", float(d.Std))
	o.set("min", float(d.Min))
	o.set("max", float(d.Max))
	for _, p := range percentiles {
		if v, ok := d.Percentile(p); ok {
			o.set(percentileKey(p), float(v))
		}
	}
	o.set("source", d.Source)
	return &o
}

// counters are those that happened.
func counters(c *metrics.Counters) *object {
	var o object
	for _, f := range []struct {
		name string
		n    int
	}{
		{"events", c.Events}, {"reads", c.Reads}, {"zero_gaps", c.ZeroGaps}, {"not_bearing", c.NotBearing},
		{"dialed", c.Dialed}, {"redialed", c.Redialed}, {"undrained", c.Undrained}, {"trailing_bytes", c.Trailing},
		{"no_done", c.NoDone}, {"empty", c.Empty}, {"not_streamed", c.NotStreamed},
		{"usage_mismatch", c.UsageMismatch}, {"bad_usage", c.BadUsage},
		{"clamped", c.Clamped}, {"discarded_stamps", c.Discarded}, {"unstamped_reads", c.NoStamp},
		{"cached_prompt_tokens", int(c.Cached)},
	} {
		o.set(f.name, f.n)
	}
	return &o
}

// Rates are counts over the run's duration, per second. Sequences are those of
// pooled requests.
type Rates struct{ Requests, OutputTokens, TotalTokens, Good, Sequences float64 }

// Rates returns the run's throughputs; 0 where nothing took time.
func (r *Result) Rates() Rates {
	s := r.Summary
	return Rates{
		Requests: r.throughput(int64(s.Completed)), OutputTokens: r.throughput(s.OutputTokens),
		TotalTokens: r.throughput(s.InputTokens + s.OutputTokens), Good: r.throughput(int64(s.Good)),
		Sequences: r.throughput(r.Sequences()),
	}
}
