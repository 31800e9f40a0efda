package metrics

import (
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms cover 0 ns to a day with three significant digits, 311 KB each.
// The longest request that is allowed by default takes 6 h.
const (
	histLow    = 1 // the smallest that is told from 0
	histHigh   = int64(24 * time.Hour)
	histDigits = 3
)

func newHist() *hdrhistogram.Histogram { return hdrhistogram.New(histLow, histHigh, histDigits) }

// record puts ns into h, k times. Values outside are moved to the nearest end.
func record(h *hdrhistogram.Histogram, ns int64, k int) {
	// The value is in range, so this cannot fail.
	_ = h.RecordValues(min(max(ns, 0), histHigh), int64(k))
}

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
	log := hdrhistogram.NewHistogramLogWriter(w)
	if err := log.OutputLogFormatVersion(); err != nil {
		return err
	}
	if err := log.OutputStartTime(from); err != nil {
		return err
	}
	if err := log.OutputLegend(); err != nil {
		return err
	}
	hists := histograms(records, o)
	for _, l := range logged {
		h := hists[l.m]
		if h == nil {
			continue
		}
		h.SetTag(l.tag)
		h.SetStartTimeMs(from)
		h.SetEndTimeMs(from + max(length, 0).Milliseconds())
		if err := log.OutputIntervalHistogram(h); err != nil {
			return fmt.Errorf("histogram %s: %w", l.tag, err)
		}
	}
	return nil
}

// histograms fills one histogram a metric, nil where there is no sample.
func histograms(records []Record, o Options) *[metricCount]*hdrhistogram.Histogram {
	var wanted [metricCount]bool
	for _, l := range logged {
		wanted[l.m] = true
	}
	var all [metricCount]*hdrhistogram.Histogram
	put := func(m metric, ns int64, k int) {
		if k <= 0 || !wanted[m] {
			return
		}
		if all[m] == nil {
			all[m] = newHist()
		}
		record(all[m], ns, k)
	}
	for i := range records {
		r := &records[i]
		if r.issued() {
			r.generator(o, put)
		}
		if r.Outcome == OK {
			r.latencies(o, put)
			if t, n := r.tokens(), r.OutputTokens; n > 1 && t.n > 1 {
				put(tpotToken, int64(t.last-t.first)/int64(n-1), 1)
			}
		}
	}
	return &all
}
