package metrics

import (
	"fmt"
	"math"
	"time"

	"github.com/servebench/servebench/metrics/internal/radix"
	"github.com/servebench/servebench/metrics/stat"
)

// plateauShare is the share of the target that counts as being at it.
const plateauShare = 0.95

// Steady is the time during which a closed loop had its concurrency: from the
// first instant at which in-flight requests reach 95 % of the target to the
// last at which they fall below it (M14). Requests of any outcome are in flight
// from sent to done. It stands beside the whole run, never instead of it.
type Steady struct {
	Target    int           `json:"target_concurrency"`
	Threshold int           `json:"threshold"`
	From      time.Duration `json:"from_ns"`
	To        time.Duration `json:"to_ns"` // exclusive

	InFlight float64 `json:"mean_in_flight"`
	// OutputTokens were emitted inside, by completed requests; Started and Ended
	// count completed requests that were sent and that were done inside.
	OutputTokens float64 `json:"output_tokens"`
	Started      int     `json:"started"`
	Ended        int     `json:"ended"`
	TokenRate    float64 `json:"output_tokens_per_second"`
	RequestRate  float64 `json:"requests_per_second"` // of those that ended

	// TTFT (vLLM's), TPOT and E2EL are of requests that were sent inside, ITL of
	// gaps that ended inside; nil where there is none.
	TTFT, TPOT, ITL, E2EL *Dist `json:"-"`

	// Settled is how much of the window's head MSER-5 would leave out, judging by
	// the tokens of each second; nil where it finds no end, as NoSettled says.
	Settled   *time.Duration `json:"mser5_cut_ns,omitempty"`
	NoSettled string         `json:"no_mser5_cut,omitempty"`

	// Warnings are for people.
	Warnings []string `json:"warnings,omitempty"`
}

// plateau finds the window; why is "" where there is one.
func plateau(records []Record, target int) (w *Steady, why string) {
	if target <= 0 {
		return nil, "the target concurrency is not known"
	}
	began, ended := make([]time.Duration, 0, len(records)), make([]time.Duration, 0, len(records))
	for i := range records {
		if r := &records[i]; r.issued() {
			began, ended = append(began, r.Sent), append(ended, r.Done)
		}
	}
	radix.Int64s(began)
	radix.Int64s(ended)
	w = &Steady{Target: target, Threshold: max(1, int(math.Ceil(plateauShare*float64(target))))}
	open, most, found := 0, 0, false
	edges(began, ended, func(at time.Duration, by int) {
		was := open
		open += by
		most = max(most, open)
		if !found && open >= w.Threshold {
			w.From, found = at, true
		}
		if was >= w.Threshold && open < w.Threshold {
			w.To = at
		}
	})
	if !found {
		return nil, fmt.Sprintf("at most %d requests were in flight; want %d of %d", most, w.Threshold, target)
	}
	if w.To <= w.From {
		return nil, "the concurrency was reached for no time"
	}
	w.InFlight = meanOpen(began, ended, w.From, w.To)
	return w, ""
}

// edges merges two sorted series: yield is called with 1 where a request begins
// and with -1 where one ends. Where one ends as another begins, the end is first.
func edges(began, ended []time.Duration, yield func(at time.Duration, by int)) {
	for len(began) > 0 || len(ended) > 0 {
		if len(began) == 0 || len(ended) > 0 && ended[0] <= began[0] {
			yield(ended[0], -1)
			ended = ended[1:]
		} else {
			yield(began[0], 1)
			began = began[1:]
		}
	}
}

// meanOpen is the mean number of open requests over [from, to).
func meanOpen(began, ended []time.Duration, from, to time.Duration) float64 {
	var area float64
	open, last := 0, from
	edges(began, ended, func(at time.Duration, by int) {
		if at = min(max(at, from), to); at > last {
			area += float64(open) * float64(at-last)
			last = at
		}
		open += by
	})
	return area / float64(to-from)
}

// mostSlices bounds the slices of a window, which are about a second long.
const mostSlices = 100_000

// slices of a window with what happened in each.
type tallied struct {
	from, to time.Duration
	slice    float64   // length in seconds: 1 or a little more
	tokens   []float64 // emitted by completed requests
	ended    []float64 // completed requests
	total    struct {
		tokens         float64
		started, ended int
	}
	edges []time.Duration // of the slices: one more than there are
}

// tally counts a window's tokens by the time of their emission, by slice.
func tally(records []Record, from, to time.Duration) *tallied {
	t := &tallied{from: from, to: to}
	n := min(int((to-from)/time.Second), mostSlices)
	t.tokens, t.ended = make([]float64, max(n, 1)), make([]float64, max(n, 1))
	t.slice = (to - from).Seconds() / float64(len(t.tokens))
	t.cut()
	var buf []time.Duration
	for i := range records {
		r := &records[i]
		if r.Outcome != OK {
			continue
		}
		if t.within(r.Sent) {
			t.total.started++
		}
		if t.within(r.Done) {
			t.total.ended++
			t.ended[t.index(r.Done)]++
		}
		if r.Sent < to && r.Done >= from {
			t.emitted(r.doses(&buf))
		}
	}
	for _, k := range t.tokens {
		t.total.tokens += k
	}
	return t
}

// emitted counts a request's tokens.
func (t *tallied) emitted(d doses) {
	each := float64(d.tokens) / float64(max(1, len(d.at)))
	for i := 0; i < len(d.at); {
		if !t.within(d.at[i]) {
			i++
			continue
		}
		j := t.index(d.at[i])
		from, to, sum := t.edges[j], t.edges[j+1], t.tokens[j]
		for ; i < len(d.at) && d.at[i] >= from && d.at[i] < to; i++ {
			if d.told != nil {
				each = float64(d.told[i])
			}
			sum += each
		}
		t.tokens[j] = sum
	}
}

// cut finds the first instant of each slice by its index, so that one comparison
// tells whether the next event is in it too.
func (t *tallied) cut() {
	t.edges = make([]time.Duration, len(t.tokens)+1)
	for j := range t.tokens {
		at := max(t.from+time.Duration(float64(j)*t.slice*float64(time.Second)), t.from)
		for at > t.from && t.index(at) >= j {
			at--
		}
		for t.index(at) < j {
			at++
		}
		t.edges[j] = at
	}
	t.edges[len(t.tokens)] = t.to
}

func (t *tallied) within(at time.Duration) bool { return at >= t.from && at < t.to }

func (t *tallied) index(at time.Duration) int {
	return min(int((at-t.from).Seconds()/t.slice), len(t.tokens)-1)
}

// Throughput holds the rates of a window with their intervals by batch means
// over slices of a second (M19): tokens count when they are emitted, requests
// when they end. Only completed requests count. What differs from run to run is
// not in the intervals.
type Throughput struct {
	From         time.Duration `json:"from_ns"`
	To           time.Duration `json:"to_ns"` // exclusive
	OutputTokens *Estimate     `json:"output_tokens_per_second"`
	Requests     *Estimate     `json:"requests_per_second"`
}

// throughput is nil where the window is too short, and why says so.
func throughput(t *tallied, e2el time.Duration) (r *Throughput, why string) {
	n := len(t.tokens)
	if n < stat.FewestForBatches {
		return nil, fmt.Sprintf("a window of %.3g s is too short for batch means; want %d s", (t.to - t.from).Seconds(), stat.FewestForBatches)
	}
	if batch := (t.to - t.from).Seconds() / float64(stat.BatchCount(n)); batch < e2el.Seconds() {
		return nil, fmt.Sprintf("batches of %.3g s are shorter than the mean latency of %.3g s", batch, e2el.Seconds())
	}
	per := func(counts []float64) *Estimate {
		b, ok := stat.BatchMeans(n, func(i int) float64 { return counts[i] / t.slice }, stat.Level)
		if !ok {
			return nil
		}
		return estimate(b)
	}
	r = &Throughput{From: t.from, To: t.to, OutputTokens: per(t.tokens), Requests: per(t.ended)}
	if r.OutputTokens == nil || r.Requests == nil {
		return nil, "the counts are no numbers"
	}
	return r, ""
}

// fill computes what the window holds, and warns where it is short.
func (w *Steady) fill(records []Record, t *tallied, s *Summary, o Options) {
	length := (w.To - w.From).Seconds()
	w.OutputTokens, w.Started, w.Ended = t.total.tokens, t.total.started, t.total.ended
	w.TokenRate, w.RequestRate = t.total.tokens/length, float64(t.total.ended)/length
	w.latencies(records, t, s, o)
	if n := len(t.tokens); n < stat.FewestForMSER {
		w.NoSettled = fmt.Sprintf("a window of %.3g s is too short for MSER-5; want %d s", length, stat.FewestForMSER)
	} else if cut, ok := stat.MSER5(t.tokens); ok {
		at := time.Duration(float64(cut) * t.slice * float64(time.Second))
		w.Settled = &at
	} else {
		w.NoSettled = "MSER-5 finds no steady state: the token rate settles in no more than half of the window"
		w.Warnings = append(w.Warnings, w.NoSettled)
	}
	if want := max(10, s.Last.Seconds()/10); length < want {
		w.Warnings = append(w.Warnings, fmt.Sprintf("the plateau lasted %.3g s of %.3g s; want %.3g s: its figures are of little weight", length, s.Last.Seconds(), want))
	}
}

// latencies fills the distributions.
func (w *Steady) latencies(records []Record, t *tallied, s *Summary, o Options) {
	c := newCollector(o)
	gaps := &c.all[itl]
	gaps.small = make([]uint32, 0, min(s.Counters.Events, gaps.limit))
	c.all[ttft].small, c.all[e2elToken].small = make([]uint32, 0, t.total.started), make([]uint32, 0, t.total.started)
	c.tpotTok.ms = make([]float64, 0, t.total.started)
	for i := range records {
		r := &records[i]
		if r.Outcome != OK || r.Sent >= w.To || r.Done < w.From {
			continue
		}
		token := r.tokens()
		if t.within(r.Sent) {
			if chunk := r.chunks(); chunk.n > 0 {
				c.all[ttft].add(int64(chunk.first-r.Sent), 1)
			}
			c.all[e2elToken].add(int64(r.end(token)-r.Sent), 1)
			if token.n > 1 && r.OutputTokens > 1 {
				c.tpotTok.add(int64(token.last-token.first), int64(r.OutputTokens-1))
			}
		}
		at, ns := r.Arrivals, c.ns[:0]
		if token.n < len(at) {
			c.at = r.bearingTimes(c.at)
			at = c.at
		}
		for j := 1; j < len(at); j++ {
			if t.within(at[j]) {
				ns = append(ns, int64(at[j]-at[j-1]))
			}
		}
		c.ns = ns
		gaps.addAll(ns)
	}
	w.TTFT, w.ITL, w.E2EL = c.all[ttft].dist(c.sure), c.all[itl].dist(c.sure), c.all[e2elToken].dist(c.sure)
	w.TPOT = c.tpotTok.dist(c.sure)
}
