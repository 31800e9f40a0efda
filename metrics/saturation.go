package metrics

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/servebench/servebench/metrics/stat"
)

// Saturation tells whether an open loop sent more than the server could do: then
// the requests that are due and not done, and the time to the first token, grow
// for as long as requests come, and every figure depends on the run's length.
//
// Both are averaged over blocks no shorter than an early request's latency and
// fitted by straight lines (M14c), whose intervals are widened where neighbouring
// blocks are alike. The server is over-saturated where both slopes are above 0
// with 95 % confidence and each makes up for half of its mean over the window.
type Saturation struct {
	Over   bool          `json:"over_saturated"`
	Reason string        `json:"reason"`
	From   time.Duration `json:"from_ns"`
	To     time.Duration `json:"to_ns"` // the last due time
	Blocks int           `json:"blocks"`
	// Outstanding counts requests due and not done; TTFT is from the due time, in
	// milliseconds, by due time.
	Outstanding Trend `json:"outstanding"`
	TTFT        Trend `json:"ttft_from_due_ms"`
}

// Trend is how fast a figure changes.
type Trend struct {
	Mean     float64  `json:"mean"`
	Slope    float64  `json:"slope_per_second"`
	Interval Interval `json:"ci95"` // of the slope
}

// What it takes to judge a trend.
const (
	fewestBlocks     = 8
	mostBlocks       = 30
	fewestInWindow   = 40  // requests
	materialGrowth   = 0.5 // of the mean, over the window
	earlyRequests    = 10  // that find the server nearly empty
	fillShare        = 4   // the fill is at least this part of the arrivals
	fillLatencies    = 2   // and so many early latencies
	saturationAdvice = "the arrivals lasted %.3g s, which is too short to judge after a fill of %.3g s with early latencies of %.3g s"
)

// window is the part of an open loop's arrivals that is looked at.
type window struct {
	from, to time.Duration
	early    time.Duration // median latency from due of the first requests that completed
}

// arrivalWindow leaves out the fill: at first nothing is in flight, so that any
// server would look as if requests piled up.
func arrivalWindow(records []Record) (w window, why string) {
	sent, begin := 0, time.Duration(math.MaxInt64)
	early := make([]*Record, 0, earlyRequests+1) // by due time
	byDue := func(a, b *Record) int { return cmp.Compare(a.Due, b.Due) }
	for i := range records {
		r := &records[i]
		if !r.issued() {
			continue
		}
		sent, begin, w.to = sent+1, min(begin, r.Due), max(w.to, r.Due)
		if r.Outcome != OK || len(early) == earlyRequests && byDue(r, early[earlyRequests-1]) >= 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(early, r, byDue)
		early = slices.Insert(early, at, r)
		early = early[:min(len(early), earlyRequests)]
	}
	if sent < fewestInWindow {
		return w, fmt.Sprintf("%d requests are too few; want %d", sent, fewestInWindow)
	}
	if len(early) < earlyRequests {
		return w, fmt.Sprintf("%d requests completed; want %d to know an early latency", len(early), earlyRequests)
	}
	first := make([]time.Duration, 0, earlyRequests)
	for _, r := range early {
		first = append(first, r.Done-r.Due)
	}
	slices.Sort(first)
	w.early = max(first[len(first)/2], 1)
	span := w.to - begin
	fill := max(span/fillShare, fillLatencies*w.early)
	if w.from = begin + fill; fill > span/2 {
		return w, fmt.Sprintf(saturationAdvice, span.Seconds(), fill.Seconds(), w.early.Seconds())
	}
	return w, ""
}

// saturation fits the trends; nil where the window cannot tell, and why says so.
func saturation(records []Record, w window) (s *Saturation, why string) {
	length := w.to - w.from
	m := int(min(length/w.early, mostBlocks))
	if m < fewestBlocks {
		return nil, fmt.Sprintf(saturationAdvice, w.to.Seconds(), w.from.Seconds(), w.early.Seconds())
	}
	b := blocks{from: w.from, width: length.Seconds() / float64(m), open: make([]float64, m+1), sum: make([]float64, m), at: make([]float64, m), n: make([]int, m)}
	for i := range records {
		b.add(&records[i])
	}
	s = &Saturation{From: w.from, To: w.to, Blocks: m}
	var ok [2]bool
	s.Outstanding, ok[0] = trend(b.outstanding())
	s.TTFT, ok[1] = trend(b.latency())
	if !ok[0] || !ok[1] {
		return nil, "too few requests completed to fit a trend"
	}
	s.judge(length.Seconds())
	return s, ""
}

// blocks sums the window up. open[j] is what block j adds to the level of all
// blocks from j on; part of it is taken back where it came within the block.
type blocks struct {
	from          time.Duration
	width         float64 // seconds
	open, sum, at []float64
	n             []int
	within        []float64
}

func (b *blocks) add(r *Record) {
	if !r.issued() {
		return
	}
	b.step(r.Due, 1)
	b.step(r.Done, -1)
	j := b.block(r.Due)
	if t := r.tokens(); r.Outcome == OK && t.n > 0 && j >= 0 && j < len(b.n) {
		b.n[j]++
		b.sum[j] += float64(t.first-r.Due) / msInNS
		b.at[j] += (r.Due - b.from).Seconds()
	}
}

// block is the index of the block of an instant; out of range where it has none.
func (b *blocks) block(at time.Duration) int {
	if at < b.from {
		return -1
	}
	// The last due time is the end of the last block.
	return int(min((at-b.from).Seconds()/b.width, float64(len(b.n))))
}

// step changes the level by `by` from an instant on.
func (b *blocks) step(at time.Duration, by float64) {
	if b.within == nil {
		b.within = make([]float64, len(b.n))
	}
	j := b.block(at)
	if j < 0 {
		b.open[0] += by
		return
	}
	if j < len(b.n) {
		// For the rest of its block it counts by the share of it that is left.
		left := float64(j+1) - (at-b.from).Seconds()/b.width
		b.within[j] += by * left
		b.open[j+1] += by
	}
}

// outstanding is the mean level of each block at its middle.
func (b *blocks) outstanding() (x, y []float64) {
	level := 0.0
	for j := range b.n {
		level += b.open[j]
		x = append(x, (float64(j)+0.5)*b.width)
		y = append(y, level+b.within[j])
	}
	return x, y
}

// latency is the mean TTFT of each block that has one, at the mean due time.
func (b *blocks) latency() (x, y []float64) {
	for j, n := range b.n {
		if n > 0 {
			x = append(x, b.at[j]/float64(n))
			y = append(y, b.sum[j]/float64(n))
		}
	}
	return x, y
}

func trend(x, y []float64) (t Trend, ok bool) {
	if len(x) < fewestBlocks {
		return t, false
	}
	f, ok := stat.Line(x, y, stat.Level)
	f = f.Widened()
	t.Mean, _ = stat.Mean(len(y), func(i int) float64 { return y[i] })
	t.Slope, t.Interval = f.Slope, Interval{f.Low, f.High}
	return t, ok
}

// grows tells that the trend is up for certain and matters.
func (t *Trend) grows(seconds float64) bool {
	return t.Interval.Low > 0 && t.Slope*seconds >= materialGrowth*t.Mean
}

func (s *Saturation) judge(seconds float64) {
	queue, latency := s.Outstanding.grows(seconds), s.TTFT.grows(seconds)
	s.Over = queue && latency
	figures := fmt.Sprintf("requests due and not done changed by %+.3g a second (95 %% interval %.3g to %.3g) about a mean of %.3g, TTFT from the due time by %+.3g ms a second (%.3g to %.3g) about %.3g ms",
		s.Outstanding.Slope, s.Outstanding.Interval.Low, s.Outstanding.Interval.High, s.Outstanding.Mean,
		s.TTFT.Slope, s.TTFT.Interval.Low, s.TTFT.Interval.High, s.TTFT.Mean)
	switch {
	case s.Over:
		s.Reason = "the server did not keep up: " + figures
	case queue:
		s.Reason = "requests pile up, but TTFT does not grow with them: " + figures
	case latency:
		s.Reason = "TTFT grows, but requests do not pile up: " + figures
	default:
		s.Reason = "the server kept up: " + figures
	}
}
