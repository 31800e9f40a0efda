package metrics

import (
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms cover 1 ns to 1 h with three significant digits, 270 KB each.
const (
	histLow    = 1
	histHigh   = int64(time.Hour)
	histDigits = 3
)

func newHist() *hdrhistogram.Histogram { return hdrhistogram.New(histLow, histHigh, histDigits) }

// record puts ns into h. Values outside are moved to the nearest end: below 1
// ns for events that share a stamp, above 1 h for what nobody measures here.
func record(h *hdrhistogram.Histogram, ns int64) {
	// The value is in range, so this cannot fail.
	_ = h.RecordValue(min(max(ns, histLow), histHigh))
}

// gaps holds durations as 4-byte nanoseconds, longer ones beside, up to a
// limit; past it a histogram takes over.
type gaps struct {
	limit int
	small []uint32
	long  []int64 // over math.MaxUint32 ns
	n     int
	sum   int64
	hist  *hdrhistogram.Histogram
	lo    int64
	hi    int64
}

func (g *gaps) add(ns int64) {
	if g.n == 0 {
		g.lo, g.hi = ns, ns
	}
	g.n++
	g.sum += ns
	g.lo, g.hi = min(g.lo, ns), max(g.hi, ns)
	switch {
	case g.hist != nil:
		record(g.hist, ns)
	case g.n > g.limit:
		g.spill()
		record(g.hist, ns)
	case ns > math.MaxUint32:
		g.long = append(g.long, ns)
	default:
		g.small = append(g.small, uint32(ns))
	}
}

// spill hands what is held so far to a histogram.
func (g *gaps) spill() {
	g.hist = newHist()
	for _, v := range g.small {
		record(g.hist, int64(v))
	}
	for _, v := range g.long {
		record(g.hist, v)
	}
	g.small, g.long = nil, nil
}

func (g *gaps) dist(percent []float64) *Dist {
	if g.n == 0 {
		return nil
	}
	mean := float64(g.sum) / (float64(g.n) * 1e6)
	if g.hist == nil {
		slices.Sort(g.small)
		slices.Sort(g.long)
		return exact(g.n, func(i int) float64 {
			if i < len(g.small) {
				return float64(g.small[i]) / 1e6
			}
			return float64(g.long[i-len(g.small)]) / 1e6
		}, mean, percent)
	}
	d := &Dist{N: g.n, Mean: mean, Min: float64(g.lo) / 1e6, Max: float64(g.hi) / 1e6, Source: "hdr3", percent: percent}
	at := func(p float64) float64 { return float64(g.hist.ValueAtQuantile(p)) / 1e6 }
	d.Std, d.Median = g.hist.StdDev()/1e6, at(50)
	for _, p := range percent {
		d.value = append(d.value, at(p))
	}
	return d
}

// WriteHDR writes the histograms of a run in HdrHistogram's log format 1.3: one
// line a metric, tagged with its name, values in nanoseconds. Latencies are of
// completed requests: ttft is vLLM's, ttft_token and the others our reading.
func WriteHDR(w io.Writer, records []Record, o Options, start time.Time, length time.Duration) error {
	log := hdrhistogram.NewHistogramLogWriter(w)
	if err := log.OutputLogFormatVersion(); err != nil {
		return err
	}
	if err := log.OutputStartTime(start.UnixMilli()); err != nil {
		return err
	}
	if err := log.OutputLegend(); err != nil {
		return err
	}
	for _, t := range histograms(records, o) {
		t.hist.SetTag(t.tag)
		t.hist.SetStartTimeMs(start.UnixMilli())
		t.hist.SetEndTimeMs(start.Add(length).UnixMilli())
		if err := log.OutputIntervalHistogram(t.hist); err != nil {
			return fmt.Errorf("histogram %s: %w", t.tag, err)
		}
	}
	return nil
}

type tagged struct {
	tag  string
	hist *hdrhistogram.Histogram
}

// histograms fills one histogram a metric, those with samples only.
func histograms(records []Record, o Options) []tagged {
	names := []string{"ttft", "ttft_token", "itl", "tpot", "e2el", "ttft_from_due", "e2el_from_due", "queue_wait", "lag", "rx_delay"}
	all := make(map[string]*hdrhistogram.Histogram, len(names))
	put := func(name string, d time.Duration) {
		if all[name] == nil {
			all[name] = newHist()
		}
		record(all[name], int64(d))
	}
	for i := range records {
		putRecord(&records[i], o, put)
	}
	var out []tagged
	for _, n := range names {
		if h := all[n]; h != nil {
			out = append(out, tagged{n, h})
		}
	}
	return out
}

func putRecord(r *Record, o Options, put func(string, time.Duration)) {
	if r.Outcome == "" {
		return
	}
	put("lag", r.Lag())
	for i, d := range r.RxDelay {
		if i == 0 || r.Arrivals[i] != r.Arrivals[i-1] || d != r.RxDelay[i-1] {
			put("rx_delay", d)
		}
	}
	if o.OpenLoop {
		put("queue_wait", r.QueueWait())
	}
	if r.Outcome != OK {
		return
	}
	t := r.tokens()
	put("e2el", r.end(t)-r.Sent)
	if o.OpenLoop {
		put("e2el_from_due", r.end(t)-r.Due)
	}
	if t.n == 0 {
		return
	}
	put("ttft", r.Arrivals[0]-r.Sent)
	put("ttft_token", t.first-r.Sent)
	if o.OpenLoop {
		put("ttft_from_due", t.first-r.Due)
	}
	if n := r.OutputTokens; n > 1 && t.n > 1 {
		put("tpot", (t.last-t.first)/time.Duration(n-1))
	}
	prev := time.Duration(-1)
	r.bearing(func(i int) {
		if prev >= 0 {
			put("itl", r.Arrivals[i]-prev)
		}
		prev = r.Arrivals[i]
	})
}
