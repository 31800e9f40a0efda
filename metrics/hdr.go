package metrics

import (
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// logged are the metrics of the histogram log: ttft is vLLM's, the others are
// our reading.
var logged = []struct {
	tag string
	m   metric
}{
	{"ttft", ttft}, {"ttft_token", ttftToken}, {"ttft_visible", ttftVisible}, {"itl", itlToken}, {"itl_per_token", itlPerToken},
	{"tpot", tpotToken}, {"e2el", e2elToken}, {"ttft_from_due", ttftFromDue}, {"e2el_from_due", e2elFromDue},
	{"queue_wait", queueWait}, {"lag", lag}, {"ramp_lag", rampLag}, {"rx_delay", rxDelay}, {"connect", connect},
}

// WriteHDR writes the histograms of a run in HdrHistogram's log format 1.3: one
// line a metric with samples, tagged with its name, values in nanoseconds, the
// largest one beside them in milliseconds, as the format has it. start is the
// wall clock's at schedule zero; length is the run's.
//
// The run is one interval. Latencies are of completed requests: ttft is vLLM's,
// ttft_token and the others are over token-bearing events.
func WriteHDR(w io.Writer, records []Record, o Options, start time.Time, length time.Duration) error {
	// The format has no sign: what began before 1970 was never dated.
	from := max(start.UnixMilli(), 0)
	hists := histograms(records, o)
	var lines []*hdrhistogram.Histogram
	for _, l := range logged {
		h := hists[l.m]
		if h == nil {
			continue
		}
		h.SetTag(l.tag)
		h.SetStartTimeMs(from)
		h.SetEndTimeMs(from + max(length, 0).Milliseconds())
		lines = append(lines, h)
	}
	return writeLog(w, from, lines)
}

// histograms fills one histogram a metric, nil where there is no sample.
func histograms(records []Record, o Options) *[metricCount]*hdrhistogram.Histogram {
	sh := shapeOf(records)
	c := newCollector(o)
	c.same, c.sameTPOT = sh.same, sh.sameTPOT
	for m := range c.all {
		c.all[m].hist = newHist()
	}
	for i := range records {
		r := &records[i]
		if r.issued() {
			c.generator(r)
		}
		if r.Outcome == OK {
			c.latencies(r)
			if t, n := r.tokens(), r.OutputTokens; n > 1 && t.n > 1 {
				c.all[tpotToken].add(int64(t.last-t.first)/int64(n-1), 1)
			}
		}
	}
	if c.same {
		for token, chunk := range map[metric]metric{ttftToken: ttft, itlToken: itl, e2elToken: e2el} {
			c.all[token] = c.all[chunk]
		}
	}
	var all [metricCount]*hdrhistogram.Histogram
	for _, l := range logged {
		if s := &c.all[l.m]; s.n > 0 {
			all[l.m] = s.hist.hdr()
		}
	}
	return &all
}
