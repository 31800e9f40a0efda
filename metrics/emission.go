package metrics

import (
	"math"
	"time"

	"github.com/servebench/servebench/metrics/internal/radix"
)

// emission finds the second in which most output tokens came: the largest number
// in any window [t, t+1s) of a run.
//
// Tokens are counted in bins so short that few events come in each. That bounds
// what a window that begins in a bin can hold, so that events are put in order only
// where a bin's bound is above the best that is known. There are few such bins, but
// in a run whose rate does not vary at all.
//
// Tokens are counted in units so small that the parts of a request's tokens add
// up to them, and the run's to 2^62 at most: all sums are exact.
type emission struct {
	from   time.Duration   // the beginning of the first bin
	shift  int             // a bin is 1<<shift ns
	bins   []uint64        // units; once they are counted, of all bins up to this one
	unit   int             // a token is 1<<unit units; negative: a unit is 1<<-unit tokens
	total  float64         // tokens
	untidy bool            // some event is outside of the bins
	at     []time.Duration // scratch
}

const (
	// binEvents come in a bin on average; mostBins bounds the bins, of 8 bytes each.
	binEvents = 4
	mostBins  = 4 << 20
	// mostStarts is how many bins are looked into at a time.
	mostStarts = 1 << 17
)

func newEmission(sh shape) (e emission) {
	if sh.completed == 0 {
		return e
	}
	_, size := math.Frexp(sh.tokens)
	e.total, e.unit, e.from = sh.tokens, min(61-size, 40), sh.first
	span, n := uint64(max(sh.last-sh.first, 0)), uint64(min((sh.events+sh.completed)/binEvents+1, mostBins))
	for span>>e.shift >= n {
		e.shift++
	}
	e.bins = make([]uint64, span>>e.shift+1)
	return e
}

// doses are a request's output tokens by the instants at which they came: as its
// events told, else in equal parts on those that bore tokens, else at its end.
type doses struct {
	at     []time.Duration
	told   []int // parallel to at; nil: equal parts of tokens
	tokens int
}

// doses returns a completed request's. Where at is not the record's own it is in
// buf, which is kept there for the next call.
func (r *Record) doses(buf *[]time.Duration) doses {
	told := 0
	for _, k := range r.Tokens {
		told += k
	}
	switch {
	case len(r.Arrivals) == 0:
		*buf = append((*buf)[:0], r.Done)
	case len(r.Tokens) == len(r.Arrivals) && told == r.OutputTokens:
		return doses{r.Arrivals, r.Tokens, told}
	case r.BearingCount() == len(r.Arrivals):
		return doses{r.Arrivals, nil, r.OutputTokens}
	default:
		*buf = r.bearingTimes(*buf)
	}
	return doses{*buf, nil, r.OutputTokens}
}

// parts are the units of the doses: each has so many, the first more of them one
// more.
func (e *emission) parts(d doses) (each uint64, more int) {
	all, n := e.units(d.tokens), uint64(max(len(d.at), 1))
	return all / n, int(all % n)
}

func (e *emission) units(tokens int) uint64 {
	if e.unit < 0 {
		return uint64(max(tokens, 0)) >> -e.unit
	}
	return uint64(max(tokens, 0)) << e.unit
}

// count takes in a completed request.
func (e *emission) count(r *Record) {
	d := r.doses(&e.at)
	each, more := e.parts(d)
	from, shift, bins := e.from, e.shift, e.bins
	for i, at := range d.at {
		b := uint64(at-from) >> shift
		if b >= uint64(len(bins)) {
			e.untidy = true
			return
		}
		switch {
		case d.told != nil:
			bins[b] += e.units(d.told[i])
		case i < more:
			bins[b] += each + 1
		default:
			bins[b] += each
		}
	}
}

// rate is the peak in tokens a second, and no less than the mean rate up to last:
// a run of less than a second has no other peak. The records are those that were
// counted.
func (e *emission) rate(records []Record, last time.Duration) (perSecond float64) {
	if len(e.bins) > 0 {
		perSecond = math.Ldexp(float64(e.peak(records)), -e.unit)
	}
	if last > 0 {
		perSecond = max(perSecond, e.total/last.Seconds())
	}
	return perSecond
}

// peak is the fullest window's units.
func (e *emission) peak(records []Record) (best uint64) {
	if e.untidy {
		// One bin for all of time: whatever came is put in order.
		e.from, e.shift, e.bins = math.MinInt64, 64, make([]uint64, 1)
		return e.within(records, []bool{true}, 0)
	}
	for b := 1; b < len(e.bins); b++ {
		e.bins[b] += e.bins[b-1]
	}
	for b := range e.bins {
		if end := e.after(uint64(b) << e.shift); end > b {
			best = max(best, e.bins[min(end, len(e.bins))-1]-e.before(b))
		}
	}
	marks := make([]bool, len(e.bins))
	for b := 0; b < len(e.bins); {
		clear(marks)
		n := 0
		for ; b < len(e.bins) && n < mostStarts; b++ {
			// A window from the last instant of the bin ends in the last bin that any may.
			far := e.after(uint64(b+1)<<e.shift - 1)
			if e.bins[min(far, len(e.bins)-1)]-e.before(b) <= best || e.bins[b] == e.before(b) {
				continue
			}
			n++
			for _, i := range []int{b, e.after(uint64(b) << e.shift), far} {
				if i < len(marks) {
					marks[i] = true
				}
			}
		}
		if n > 0 {
			best = e.within(records, marks, best)
		}
	}
	return best
}

// after is the bin in which a window ends that begins so long after e.from.
func (e *emission) after(ns uint64) int { return int((ns + uint64(time.Second)) >> e.shift) }

// before is what came before a bin.
func (e *emission) before(b int) uint64 {
	if b == 0 {
		return 0
	}
	return e.bins[b-1]
}

// within is the fullest of the windows that begin with an event in a marked bin;
// best where it is fuller. Windows must end in marked bins too, or else they are
// counted short, and not looked for.
func (e *emission) within(records []Record, marks []bool, best uint64) uint64 {
	var events []radix.Item
	var units []uint64
	for i := range records {
		r := &records[i]
		if r.Outcome != OK {
			continue
		}
		d := r.doses(&e.at)
		each, more := e.parts(d)
		for j, at := range d.at {
			if !marks[uint64(at-e.from)>>e.shift] {
				continue
			}
			events = append(events, radix.Item{Key: uint64(at - e.from), I: int32(len(units))})
			switch {
			case d.told != nil:
				units = append(units, e.units(d.told[j]))
			case j < more:
				units = append(units, each+1)
			default:
				units = append(units, each)
			}
		}
	}
	radix.Items(events)
	sums := make([]uint64, 1, len(events)+1) // of units, in order
	for _, ev := range events {
		sums = append(sums, sums[len(sums)-1]+units[ev.I])
	}
	past := func(i int, at uint64) int { // the first event from i on that is not before at
		for i < len(events) && events[i].Key < at {
			i++
		}
		return i
	}
	// Events from i to own are in the bin of i; those from other to end in the bin
	// in which the window ends.
	own, other, end := 0, 0, 0
	for i, ev := range events {
		to := ev.Key + uint64(time.Second)
		if to < ev.Key {
			to = math.MaxUint64
		}
		b, last := int(ev.Key>>e.shift), int(to>>e.shift)
		end = past(end, to)
		held := sums[end] - sums[i]
		if b != last {
			own, other = past(own, uint64(b+1)<<e.shift), past(other, uint64(last)<<e.shift)
			held = sums[own] - sums[i] + sums[end] - sums[other] + e.bins[min(last, len(e.bins))-1] - e.bins[b]
		}
		best = max(best, held)
	}
	return best
}
