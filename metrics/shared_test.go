package metrics

import (
	"testing"
	"time"
)

// stream is a request whose reads came at the times given, with so many events each and
// so much later than received.
func stream(reads ...[3]time.Duration) Record {
	r := Record{Outcome: OK}
	for _, read := range reads {
		for range read[1] {
			r.Arrivals, r.RxDelay = append(r.Arrivals, read[0]), append(r.RxDelay, read[2])
		}
	}
	r.Done = r.Arrivals[len(r.Arrivals)-1]
	return r
}

func TestSharedReads(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name         string
		reads        [][3]time.Duration
		merged, gaps int
		even         float64 // ms, to three digits
	}{
		{"one event a read, however late", [][3]time.Duration{{0, 1, 9 * ms}, {10 * ms, 1, 9 * ms}}, 0, 1, 0},
		{"written at once, read at once", [][3]time.Duration{{0, 1, 0}, {40 * ms, 4, ms / 2}}, 0, 4, 0},
		{"written one by one, read late", [][3]time.Duration{{0, 1, 0}, {40 * ms, 4, ms/2 + 1}}, 4, 4, 10},
		{"the first read has no gap before it", [][3]time.Duration{{5 * ms, 3, 9 * ms}, {15 * ms, 1, 0}}, 0, 3, 0},
		{"one of two", [][3]time.Duration{{0, 1, 0}, {10 * ms, 1, 3 * ms}, {30 * ms, 2, 4 * ms}}, 2, 3, 10},
	} {
		records := []Record{stream(c.reads...), {Outcome: Reset, Arrivals: []time.Duration{0, ms, ms}, RxDelay: []time.Duration{0, ms, ms}}}
		merged, gaps, even := sharedReads(records)
		if merged != c.merged || gaps != c.gaps || even < c.even || even > c.even*1.001 {
			t.Errorf("%s: %d of %d, p99 %v; want %d of %d, %v", c.name, merged, gaps, even, c.merged, c.gaps, c.even)
		}
	}
	// Events without a token have no gap.
	r := stream([3]time.Duration{0, 1, 0}, [3]time.Duration{10 * ms, 2, 5 * ms})
	r.NotBearing = []int{1}
	if merged, gaps, _ := sharedReads([]Record{r}); merged != 0 || gaps != 1 {
		t.Errorf("%d of %d", merged, gaps)
	}
}

// A client that stands still for 25 ms now and then, between reads that are in time:
// 1.5 % of the reads bring two events, and the p99 is twice the truth. Neither the
// delay's p99 nor the events a read tell.
func TestVerdictSeesSharedReads(t *testing.T) {
	const ms = time.Millisecond
	var reads [][3]time.Duration
	at := time.Duration(0)
	for i := range 2000 {
		if at += 10 * ms; i%66 == 1 {
			continue // comes with the next one
		}
		read := [3]time.Duration{at, 1, ms / 10}
		if i%66 == 2 {
			read[1], read[2] = 2, 3*ms
		}
		reads = append(reads, read)
	}
	judge := func() (Figures, Judgement) {
		records := []Record{stream(reads...)}
		f := FiguresOf(records, Summarize(records, Options{}), nil)
		return f, Judge(f, DefaultLimits)
	}
	f, j := judge()
	if *f.ITL99 != 20 || *f.Even > 10.01 || *f.EventsPerRead > 1.1 || *f.RxDelay > 4 || j.Verdict != Suspect || len(j.Reasons) != 1 || j.Reasons[0].Rule != "shared_reads" {
		t.Errorf("ITL p99 %v, even %v, %v events a read, rx_delay %v: %+v", *f.ITL99, *f.Even, *f.EventsPerRead, *f.RxDelay, j)
	}
	// A server that stood still and then wrote two at once, to a client that was in time.
	for i := range reads {
		reads[i][2] = ms / 10
	}
	if f, j := judge(); *f.Merged != 0 || f.Even != nil || j.Verdict != Valid {
		t.Errorf("%+v", j)
	}
}

func TestHistQuantile(t *testing.T) {
	h := newHist()
	if h.quantile(0.99) != 0 {
		t.Error("of nothing")
	}
	for i := range 1000 {
		h.add(uint64(i+1), 1)
	}
	if got := h.quantile(0.99); got != 990 {
		t.Errorf("%d, want 990", got)
	}
	h = newHist()
	h.add(1e7, 100)
	if got, want := h.quantile(0.99), h.hdr().ValueAtQuantile(99); got != want {
		t.Errorf("%d, want %d as the library has it", got, want)
	}
}

func TestKernelStampsAreOfNearlyAllReads(t *testing.T) {
	for _, c := range []struct {
		reads, whole, none int
		want               bool
	}{{0, 0, 0, false}, {1, 0, 0, true}, {1, 0, 1, false}, {2, 0, 1, true}, {20, 0, 2, false}, {200, 0, 2, true}, {200, 0, 3, false}, {150, 50, 2, true}} {
		s := Summary{Counters: Counters{Reads: c.reads, NotStreamed: c.whole, NoStamp: c.none}}
		if got := s.KernelStamps(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
