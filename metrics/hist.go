package metrics

import (
	"math/bits"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms cover 0 ns to a day with three significant digits, 311 KB each.
// The longest request that is allowed by default takes 6 h.
const (
	histLow    = 1 // the smallest that is told from 0
	histHigh   = int64(24 * time.Hour)
	histDigits = 3
	// Three digits are told apart by 11 bits.
	histBits = 11
	// histLength is the number of buckets of such a histogram: half of them for
	// each power of two, twice for the first.
	histLength = (47 - histBits + 2) << (histBits - 1) // a day has 47 bits
)

// hist counts durations in the buckets of an HdrHistogram, by an arithmetic that
// is inlined: there is one value for each event of a run.
type hist struct {
	counts [histLength]int64
}

func newHist() *hist { return new(hist) }

// add counts ns, which is not negative, k times. Values beyond a day count as a
// day.
func (h *hist) add(ns uint64, k int64) {
	ns = min(ns, uint64(histHigh))
	b := max(bits.Len64(ns), histBits) - histBits
	h.counts[b<<(histBits-1)+int(ns>>b)] += k
}

// hdr is the histogram in the form of the library.
func (h *hist) hdr() *hdrhistogram.Histogram {
	return hdrhistogram.Import(&hdrhistogram.Snapshot{
		LowestTrackableValue: histLow, HighestTrackableValue: histHigh, SignificantFigures: histDigits, Counts: h.counts[:],
	})
}
