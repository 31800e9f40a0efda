package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/servebench/servebench/bench/internal/simproc"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/loadgen/rxtime"
	"github.com/servebench/servebench/metrics"
)

func TestCompareTakesTheSimulatorsGapsAway(t *testing.T) {
	const msec = time.Millisecond
	// The client was sent at 1 ms, the request arrived at 2 (on another clock: 1002), was read at 3, and the events were
	// written at 10, 20 and 31. The client saw them at 11, 22 and 32: gaps 11 and 10 for 10 and 11.
	records := []*metrics.Record{{ID: "a", Sent: msec, Arrivals: []time.Duration{11 * msec, 22 * msec, 32 * msec}}}
	at := func(n int) int64 { return int64(time.Duration(1000+n) * msec) }
	truth := []stamps{{ID: "a", Arrived: at(2), Entered: at(2), Read: at(3), Writes: []int64{at(10), at(20), at(31), at(31), at(31)}}}
	got, err := compare(records, truth)
	if err != nil {
		t.Fatal(err)
	}
	// ITL p99 is 10.99 for both, TTFT 10 for the simulator's 8 from the arrival and 7 from the admission.
	want := difference{itl: 0, simITL: 10.99, ttft: 2, simTTFT: 8, admitted: 3, gap: 1}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"itl", got.itl, want.itl}, {"simITL", got.simITL, want.simITL}, {"ttft", got.ttft, want.ttft},
		{"simTTFT", got.simTTFT, want.simTTFT}, {"admitted", got.admitted, want.admitted}, {"gap", got.gap, want.gap},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestCompareRefusesWhatDoesNotJoin(t *testing.T) {
	one := []*metrics.Record{{ID: "a", Arrivals: []time.Duration{1}}}
	for name, truth := range map[string][]stamps{
		"no such request": {{ID: "b", Writes: make([]int64, 3)}},
		"another one":     {{ID: "a", Writes: make([]int64, 3)}, {ID: "b", Writes: make([]int64, 3)}},
		"more events":     {{ID: "a", Writes: make([]int64, 4)}},
	} {
		if _, err := compare(one, truth); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestQuantileIsNumpys(t *testing.T) {
	// numpy.percentile([3, 1, 2, 10], [0, 50, 99, 100])
	for q, want := range map[float64]float64{0: 1, 0.5: 2.5, 0.99: 9.79, 1: 10} {
		if got := simproc.Quantile([]float64{3, 1, 2, 10}, q); math.Abs(got-want) > 1e-12 {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if !math.IsNaN(simproc.Quantile(nil, 0.5)) {
		t.Error("the quantile of nothing is a number")
	}
}

func TestTheTapStampsEachWriteAndChangesNothing(t *testing.T) {
	tap := newTap(sim.New(sim.Config{}))
	client, server := net.Pipe()
	defer client.Close()
	defer server.Close()
	ctx := context.WithValue(t.Context(), connKey{}, rxtime.New(server, false))
	body := `{"model":"m","prompt":"a","max_tokens":3,"stream":true}`
	do := func(h http.Handler) string {
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/v1/completions", strings.NewReader(body))
		r.Header.Set("X-Request-Id", "a")
		h.ServeHTTP(w, r)
		return w.Body.String()
	}
	if got, want := strings.Count(do(tap), "data: "), strings.Count(do(sim.New(sim.Config{})), "data: "); got != want {
		t.Errorf("%d events behind the tap, %d without", got, want)
	}
	w := httptest.NewRecorder()
	tap.ServeHTTP(w, httptest.NewRequest(http.MethodGet, simproc.TakePath, nil))
	var got []stamps
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	// 3 tokens and [DONE]; no usage was asked for.
	if len(got) != 1 || got[0].ID != "a" || len(got[0].Writes) != 4 || got[0].Read < got[0].Entered || got[0].Writes[0] < got[0].Read {
		t.Errorf("stamps: %+v", got)
	}
}

func TestTheTableSaysWhatIsOver(t *testing.T) {
	var tab table
	tab.add("cpu", "few", "ms", []float64{3, 1, 2}, atMost(2))
	tab.add("cpu", "many", "MB", []float64{250}, atMost(150))
	tab.add("cpu", "cores", "", []float64{1}, atLeast(1.8))
	tab.add("cpu", "none", "", nil, atMost(1))
	tab.check("cpu", "same", false)
	tab.say("cpu", "words", []string{"VALID", "SUSPECT", "VALID"}, "VALID", "wrong")
	tab.say("cpu", "no words", nil, "", "")
	tab.missing("size", errors.New("no\ngo"))
	var b bytes.Buffer
	tab.write(&b)
	want := `what   median                min .. max      runs  bar     verdict  part
few    2.000 ms              1.000 .. 3.000  3     <= 2    ok       cpu
many   250 MB                                1     <= 150  over     cpu
cores  1.000                                 1     >= 1.8  under    cpu
same   no                                    1     yes     wrong    cpu
words  SUSPECT, VALID x 2                    3     VALID   wrong    cpu
size   not measured: no; go                                         size
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestOverButValid(t *testing.T) {
	for _, tt := range []struct {
		itl, ttft float64
		verdict   string
		want      string
	}{
		{0.1, 0.1, "VALID", ""}, {3, 0.1, "SUSPECT", ""}, {3, 0.1, "VALID", "wrong"}, {-3, 0.1, "VALID", "wrong"}, {0.1, 9, "VALID", "wrong"}, {0.1, 9, "INVALID", ""},
	} {
		var s differences
		s.add(difference{itl: tt.itl, ttft: tt.ttft, verdict: tt.verdict})
		if got := s.overButValid(2, 3); got != tt.want {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

func TestVerdictOf(t *testing.T) {
	if got := verdictOf([]byte("a\nVerdict: SUSPECT. The client was slow: Verdict: x.\nb\n")); got != "SUSPECT" {
		t.Errorf("got %q", got)
	}
	if got := verdictOf([]byte("no verdict\n")); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestPaced(t *testing.T) {
	const msec = time.Millisecond
	records := []*metrics.Record{
		{Due: 10 * msec, Slot: 10 * msec, Sent: 11 * msec}, {Due: 0, Slot: 0, Sent: msec}, {Due: 100 * msec, Slot: 150 * msec, Sent: 151 * msec},
	}
	// Due over 100 ms, sent over 150: two thirds of the rate. Every lag is 1 ms, as the slot's wait is the server's.
	off, lag := paced(records)
	if math.Abs(off-1.0/3) > 1e-12 || math.Abs(lag-1) > 1e-12 {
		t.Errorf("off %v, lag %v", off, lag)
	}
}

func TestSyntheticRecordsAreARun(t *testing.T) {
	records := syntheticRecords(100, 8)
	s := metrics.Summarize(records, metrics.Options{OpenLoop: true})
	if s.Completed != 100 {
		t.Fatalf("%d completed", s.Completed)
	}
	for i, r := range records {
		if r.Sent < r.Due || r.Arrivals[0] < r.Sent || !slices.IsSorted(r.Arrivals) || r.Done != r.Arrivals[7] {
			t.Fatalf("record %d: %+v", i, r)
		}
	}
}

func TestSamplesAreSorted(t *testing.T) {
	const traces = `File: x
Type: cpu
Duration: 1s, Total samples = 60ms (6%)
-----------+-------------------------------------------------------
      10ms   internal/runtime/syscall/linux.Syscall6
             golang.org/x/sys/unix.RawSyscall (inline)
             github.com/servebench/servebench/loadgen/rxtime.(*sys).tryRecv
             github.com/servebench/servebench/loadgen/rxtime.(*loop).run
-----------+-------------------------------------------------------
      20ms   time.now
             github.com/servebench/servebench/loadgen/rxtime.(*sys).tryRecv
             github.com/servebench/servebench/loadgen/rxtime.(*loop).run
-----------+-------------------------------------------------------
      30ms   github.com/servebench/servebench/loadgen/openai.str
             github.com/servebench/servebench/loadgen/openai.scan
             github.com/servebench/servebench/loadgen/openai.(*call).feed
             github.com/servebench/servebench/loadgen/rxtime.(*loop).run
-----------+-------------------------------------------------------
      40ms   runtime.scanobject
             runtime.gcBgMarkWorker
-----------+-------------------------------------------------------
      50ms   runtime.futex
             runtime.mcall
-----------+-------------------------------------------------------
      60ms   somebody.Else
-----------+-------------------------------------------------------
`
	got, err := sortSamples(strings.NewReader(traces))
	if err != nil {
		t.Fatal(err)
	}
	const msec = time.Millisecond
	want := map[string]time.Duration{
		"read: recvmsg": 10 * msec, "stamp: clock readings": 20 * msec, "JSON": 30 * msec, "garbage collection": 40 * msec,
		"scheduler, timers, wake-ups": 50 * msec, "other": 60 * msec,
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for _, bad := range []string{"", "-----+---\n  x  y\n"} {
		if _, err := sortSamples(strings.NewReader(bad)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}
