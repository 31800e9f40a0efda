package metrics

import (
	"math"
	"time"
)

// lateShare is which part of a gap a read may come late before the events in it may
// owe their common stamp to the client; as for a client without stamps (M25).
const lateShare = 0.05

// sharedReads looks at the gaps between the token-bearing events of completed requests.
// merged is how many of them end in a read that brought several events and came late:
// such events have the stamp of the last one, and what lay between them is lost. even is
// the p99 of all gaps in milliseconds were the time of each such read shared out evenly;
// 0 where there is none.
//
// A server that writes several events at once makes shared reads too; there the read
// follows at once.
func sharedReads(records []Record) (merged, gaps int, even float64) {
	walk := func(each func(gap time.Duration, k int, late bool)) {
		for i := range records {
			if r := &records[i]; r.Outcome == OK && len(r.RxDelay) == len(r.Arrivals) {
				r.reads(each)
			}
		}
	}
	walk(func(_ time.Duration, k int, late bool) {
		gaps += k
		if late {
			merged += k
		}
	})
	if merged == 0 {
		return 0, gaps, 0
	}
	h := newHist()
	walk(func(gap time.Duration, k int, late bool) {
		if late {
			h.add(uint64(gap)/uint64(k), int64(k))
			return
		}
		h.add(uint64(gap), 1)
		h.add(0, int64(k-1))
	})
	return merged, gaps, float64(h.quantile(0.99)) / 1e6
}

// reads calls each with the k gaps that end in a read: the time since the event before
// it, and whether several events came late in it. The events of a stream's first read
// have no time before them.
func (r *Record) reads(each func(gap time.Duration, k int, late bool)) {
	k, last, delay := 0, time.Duration(-1), time.Duration(0)
	before := time.Duration(-1) // the stamp of the last read
	end := func() {
		switch {
		case k > 0 && before < 0:
			if k > 1 {
				each(0, k-1, false)
			}
		case k > 0:
			gap := max(0, last-before)
			each(gap, k, k > 1 && float64(delay)*float64(k) > lateShare*float64(gap))
		}
		if k > 0 {
			before = last
		}
	}
	r.bearing(func(i int) {
		if at, d := r.Arrivals[i], r.RxDelay[i]; k == 0 || at != last || d != delay {
			end()
			k, last, delay = 0, at, d
		}
		k++
	})
	end()
}

// quantile is the upper end of the bucket that holds the q-quantile; 0 of no values.
func (h *hist) quantile(q float64) int64 {
	total, seen := int64(0), int64(0)
	for _, n := range h.counts {
		total += n
	}
	rank := int64(math.Ceil(q * float64(total)))
	for i, n := range h.counts {
		if seen += n; n > 0 && seen >= rank {
			b := max(0, i>>(histBits-1)-1)
			return int64(i-b<<(histBits-1)+1)<<b - 1
		}
	}
	return 0
}
