package metrics_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/servebench/servebench/metrics"
)

// healthy is a run with everything measured and nothing to find.
func healthy() metrics.Figures {
	at := func(v float64) *float64 { return &v }
	none := 0
	return metrics.Figures{
		Lag: at(0.1), QueueWait: at(0), RxDelay: at(0.6), TTFT: at(50), ITL: at(10), Gap: at(10), Behind: at(0), Achieved: at(1),
		EventsPerRead: at(1), ITL99: at(10), Merged: at(0), KernelStamps: true,
		CPU: at(0.2), GC: at(0.01), SchedWait: at(0.1), Pause: at(0.1), Canary: at(2), Clocks: at(1e-6), Throttled: &none,
		Descriptors: at(0.1), Ports: at(0.1), Failed: at(0),
	}
}

// Every rule holds at its threshold and breaks right beyond it.
func TestVerdictAtItsThresholds(t *testing.T) {
	const quiet = "Neither held the other up"
	for _, c := range []struct {
		rule  string
		limit float64
		set   func(f *metrics.Figures, v *float64)
		want  metrics.Verdict
		text  string // of the reason right beyond
		who   metrics.Culprit
	}{
		{"lag", 1, func(f *metrics.Figures, v *float64) { f.Lag = v }, metrics.Suspect, "requests were sent 1 ms late at p99; limit 1 ms", metrics.SlowClient},
		{"lag", 5, func(f *metrics.Figures, v *float64) { f.Lag = v; *f.TTFT = 500 }, metrics.Suspect, "requests were sent 5 ms late at p99; limit 5 ms", metrics.SlowClient},
		{"behind", 0.05, func(f *metrics.Figures, v *float64) { f.Behind = v }, metrics.Suspect, "5 % of requests were sent over a millisecond late; limit 5 %", metrics.Nobody},
		{"rx_delay", 5, func(f *metrics.Figures, v *float64) { f.RxDelay = v }, metrics.Suspect, "events were read 5 ms after they had come at p99; limit 5 ms", metrics.SlowClient},
		{"rx_delay", 1, func(f *metrics.Figures, v *float64) { f.RxDelay = v; f.KernelStamps = false }, metrics.Suspect, "events were read 1 ms after they had come at p99; limit 1 ms", metrics.SlowClient},
		{"rx_delay", 2, func(f *metrics.Figures, v *float64) { f.RxDelay = v; f.KernelStamps = false; *f.ITL = 40 }, metrics.Suspect, "events were read 2 ms after they had come at p99; limit 2 ms", metrics.SlowClient},
		{"sched_wait", 1, func(f *metrics.Figures, v *float64) { f.SchedWait = v }, metrics.Suspect, "goroutines waited 1 ms for a CPU at p99; limit 1 ms", metrics.Nobody},
		{"pause", 0.5, func(f *metrics.Figures, v *float64) { f.Pause = v }, metrics.Suspect, "the runtime stopped the process for 0.5 ms at p99; limit 0.5 ms", metrics.Nobody},
		{"events_per_read", 1.5, func(f *metrics.Figures, v *float64) { f.EventsPerRead = v }, metrics.Suspect, "events came 1.5 to a read, where they share one stamp; limit 1.5", metrics.Nobody},
		{"shared_reads", 10.5, func(f *metrics.Figures, v *float64) {
			f.ITL99, f.Even = v, new(float64)
			*f.Even = 10
			*f.Merged = 0.03
		}, metrics.Suspect, "3 % of gaps end in reads that came late and brought several events, which share a stamp: ITL's p99 is 10.5 ms, and 10 ms with their time shared out evenly; limit 5 %", metrics.SlowClient},
		{"wake_delay", 1, func(f *metrics.Figures, v *float64) { f.Wake = v; f.KernelStamps = false }, metrics.Suspect, "a sleeping goroutine woke 1 ms late at p99, and so may readers, whose delay is in the gaps without kernel stamps; limit 1 ms", metrics.SlowClient},
		{"wake_delay", 2, func(f *metrics.Figures, v *float64) { f.Wake = v; f.KernelStamps = false; *f.ITL = 40 }, metrics.Suspect, "a sleeping goroutine woke 2 ms late at p99, and so may readers, whose delay is in the gaps without kernel stamps; limit 2 ms", metrics.SlowClient},
		{"sched_wait", 0.5, func(f *metrics.Figures, v *float64) { f.SchedWait = v; f.KernelStamps = false }, metrics.Suspect, "goroutines waited 0.5 ms for a CPU at p99; limit 0.5 ms", metrics.Nobody},
		{"gc", 0.05, func(f *metrics.Figures, v *float64) { f.GC = v }, metrics.Suspect, "garbage collection took 5 % of the generator's CPU time; limit 5 %", metrics.Nobody},
		{"cpu", 0.70, func(f *metrics.Figures, v *float64) { f.CPU = v }, metrics.Suspect, "the generator used 70 % of its CPUs (p95 over seconds); limit 70 %", metrics.Nobody},
		{"descriptors", 0.9, func(f *metrics.Figures, v *float64) { f.Descriptors = v }, metrics.Suspect, "90 % of the descriptors allowed were in use; limit 90 %", metrics.Nobody},
		{"ports", 0.9, func(f *metrics.Figures, v *float64) { f.Ports = v }, metrics.Suspect, "90 % of the ephemeral ports were in use; limit 90 %", metrics.Nobody},
		{"failures", 0.02, func(f *metrics.Figures, v *float64) { f.Failed = v; budget := 0.02; f.FailureBudget = &budget }, metrics.Suspect, "2 % of requests failed; the budget is 2 %", metrics.Nobody},
		{"canary", 1000, func(f *metrics.Figures, v *float64) { f.Canary = v }, metrics.Invalid, "a sleeping goroutine woke 1000 ms late; limit 1000 ms: the process or the machine stood still", metrics.Nobody},
		{"clocks", 0.001, func(f *metrics.Figures, v *float64) { f.Clocks = v }, metrics.Valid, "the wall clock and the monotonic one differ by 0.1 % over the run; limit 0.1 %", metrics.Nobody},
	} {
		f := healthy()
		at := c.limit
		c.set(&f, &at)
		if j := metrics.Judge(f, metrics.DefaultLimits); j.Verdict != metrics.Valid || len(j.Reasons) != 0 || j.Culprit != metrics.Nobody || !strings.HasPrefix(j.Sentence, quiet) {
			t.Errorf("%s at %v: %+v", c.rule, c.limit, j)
		}
		at = math.Nextafter(c.limit, math.Inf(1))
		j := metrics.Judge(f, metrics.DefaultLimits)
		if want := []metrics.Reason{{Verdict: c.want, Rule: c.rule, Text: c.text}}; !reflect.DeepEqual(j.Reasons, want) || j.Verdict != c.want || j.Culprit != c.who {
			t.Errorf("%s beyond %v: %+v, want %+v and %s", c.rule, c.limit, j, want, c.who)
		}
	}
}

// What one count, or two figures together, make of a run.
func TestVerdictByCounts(t *testing.T) {
	at := func(v float64) *float64 { return &v }
	n := func(v int) *int { return &v }
	for _, c := range []struct {
		name  string
		set   func(f *metrics.Figures)
		want  metrics.Verdict
		rules string
	}{
		{"healthy", func(*metrics.Figures) {}, metrics.Valid, ""},
		{"nothing measured", func(f *metrics.Figures) { *f = metrics.Figures{} }, metrics.Valid, ""},
		{"negative", func(f *metrics.Figures) { f.Negative = 1 }, metrics.Invalid, "negative_durations"},
		{"lost", func(f *metrics.Figures) { f.Lost = 1 }, metrics.Invalid, "lost"},
		{"panic", func(f *metrics.Figures) { f.Panics = 1 }, metrics.Invalid, "panics"},
		{"dropped", func(f *metrics.Figures) { f.Dropped = 1 }, metrics.Invalid, "dropped"},
		{"no ports", func(f *metrics.Figures) { f.ClientResource = 1 }, metrics.Invalid, "client_resource"},
		{"throttled", func(f *metrics.Figures) { f.Throttled = n(1) }, metrics.Suspect, "throttled"},
		{"clocks apart", func(f *metrics.Figures) { f.Clocks = at(0.0101) }, metrics.Invalid, "clocks"},
		{"CPU full", func(f *metrics.Figures) { f.CPU = at(0.901) }, metrics.Invalid, "cpu"},
		{"rate missed by the client", func(f *metrics.Figures) { f.Achieved, f.Lag = at(0.98), at(4) }, metrics.Invalid, "achieved_rate lag"},
		{"rate missed by the server", func(f *metrics.Figures) { f.Achieved, f.QueueWait = at(0.5), at(4000) }, metrics.Valid, ""},
		{"rate just met", func(f *metrics.Figures) { f.Achieved, f.Lag = at(0.99), at(4) }, metrics.Suspect, "lag"},
		{"a sleeper late, with stamps", func(f *metrics.Figures) { f.Wake = at(50) }, metrics.Valid, ""},
		{"p99 too low", func(f *metrics.Figures) { f.ITL99, f.Even = at(9.4), at(10) }, metrics.Suspect, "shared_reads"},
		{"shared reads of a server that bunches", func(f *metrics.Figures) { f.ITL99, f.Even, f.Bunches = at(40), at(10), true }, metrics.Valid, ""},
		{"rate unknown", func(f *metrics.Figures) { f.Achieved, f.Lag = nil, at(4) }, metrics.Suspect, "lag"},
		{"a server that writes in bunches", func(f *metrics.Figures) { f.EventsPerRead, f.Bunches = at(4), true }, metrics.Valid, ""},
		{"bunches that were read at once", func(f *metrics.Figures) { f.EventsPerRead, f.ITL, f.RxDelay = at(4), at(0), at(0.5) }, metrics.Valid, ""},
		{"or not quite", func(f *metrics.Figures) { f.EventsPerRead, f.ITL, f.RxDelay = at(4), at(0), at(0.51) }, metrics.Suspect, "events_per_read"},
		{"or late", func(f *metrics.Figures) { f.EventsPerRead, f.ITL, f.RxDelay = at(4), at(0), at(1.1) }, metrics.Suspect, "rx_delay events_per_read"},
		{"bunches without stamps", func(f *metrics.Figures) { f.EventsPerRead, f.RxDelay, f.KernelStamps = at(4), nil, false }, metrics.Suspect, "events_per_read"},
		{"failures without a budget", func(f *metrics.Figures) { f.Failed = at(0.5) }, metrics.Valid, ""},
		{"stamped delay without gaps", func(f *metrics.Figures) { f.RxDelay, f.ITL = at(100), nil }, metrics.Valid, ""},
		{"delay without stamps or gaps", func(f *metrics.Figures) { f.RxDelay, f.ITL, f.KernelStamps = at(100), nil, false }, metrics.Suspect, "rx_delay"},
		{"invalid ones first", func(f *metrics.Figures) { f.Clocks, f.GC, f.Canary, f.CPU = at(0.002), at(0.5), at(2000), at(0.8) }, metrics.Invalid, "canary cpu gc clocks"},
	} {
		f := healthy()
		c.set(&f)
		j := metrics.Judge(f, metrics.DefaultLimits)
		var rules []string
		for _, r := range j.Reasons {
			rules = append(rules, r.Rule)
		}
		if got := strings.Join(rules, " "); j.Verdict != c.want || got != c.rules {
			t.Errorf("%s: %s by %q, want %s by %q", c.name, j.Verdict, got, c.want, c.rules)
		}
	}
}

func TestWhoWasSlow(t *testing.T) {
	at := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		set      func(f *metrics.Figures)
		who      metrics.Culprit
		sentence string
	}{
		{func(f *metrics.Figures) { f.QueueWait = at(40) }, metrics.SlowServer, "The server was slow: requests waited for a slot (queue_wait p99 40 ms), while the client sent and read in time."},
		{func(f *metrics.Figures) { f.OverSaturated = true }, metrics.SlowServer, "The server was slow: requests piled up, while the client sent and read in time."},
		{func(f *metrics.Figures) { f.Lag, f.RxDelay = at(3), at(6) }, metrics.SlowClient, "The client was slow: it sent late (lag p99 3 ms) and read late (rx_delay p99 6 ms)."},
		{func(f *metrics.Figures) { f.Lag, f.QueueWait = at(3), at(40) }, metrics.SlowBoth, "Both were slow: requests waited for a slot (queue_wait p99 40 ms), and the client sent late (lag p99 3 ms)."},
		{func(f *metrics.Figures) { f.ITL99, f.Even, f.Merged = at(20), at(10), at(0.03) }, metrics.SlowClient, "The client was slow: it read several events at once, late (3 % of gaps end so)."},
		{func(f *metrics.Figures) { f.Wake, f.RxDelay, f.KernelStamps = at(40), nil, false }, metrics.SlowClient, "The client was slow: it woke late (p99 40 ms)."},
		{func(f *metrics.Figures) {}, metrics.Nobody, "Neither held the other up: requests were sent and events read in time, and none waited for a slot."},
		{func(f *metrics.Figures) { f.QueueWait, f.RxDelay = at(40), nil }, metrics.SlowServer, "The server was slow: requests waited for a slot (queue_wait p99 40 ms), while the client sent in time; how late it read is not known."},
		{func(f *metrics.Figures) { f.RxDelay = nil }, metrics.Nobody, "Neither held the other up: requests were sent in time, and none waited for a slot; how late events were read is not known."},
		{func(f *metrics.Figures) { f.Lag, f.RxDelay = nil, nil }, metrics.Nobody, "Nothing was measured that tells who was slow."},
	} {
		f := healthy()
		c.set(&f)
		if j := metrics.Judge(f, metrics.DefaultLimits); j.Culprit != c.who || j.Sentence != c.sentence {
			t.Errorf("%s: %q, want %s: %q", j.Culprit, j.Sentence, c.who, c.sentence)
		}
	}
}

// What records tell: an open loop whose cap was reached, with late sends, a
// stamp that runs backwards, drops and kernel stamps.
func TestFiguresOfRecords(t *testing.T) {
	var records []metrics.Record
	for i := range 100 {
		r := answer(time.Duration(i+1)*10*ms, 2, 5*ms, 9*ms)
		if i%10 == 0 {
			r.Due -= 2 * ms // queue_wait
		}
		if i < 6 {
			r.Slot -= 1500 * time.Microsecond // lag
			r.Due -= 1500 * time.Microsecond
		}
		r.RxDelay = []time.Duration{100, 200}
		records = append(records, r)
	}
	records[50].Arrivals[1] = records[50].Arrivals[0] - 1
	records = append(records, metrics.Record{Outcome: metrics.Dropped, Due: time.Second}, metrics.Record{Outcome: metrics.ClientResource, Due: time.Second, Slot: time.Second, Sent: time.Second, Done: time.Second})
	o := metrics.Options{OpenLoop: true}
	s := metrics.Summarize(records, o)
	f := metrics.FiguresOf(records, s, metrics.Analyze(records, s, o, metrics.Load{OpenLoop: true}))
	if f.Negative != 1 || f.Dropped != 1 || f.ClientResource != 1 || !f.KernelStamps || f.OverSaturated {
		t.Errorf("%+v", f)
	}
	if *f.Behind != 6./101 || *f.EventsPerRead != 1 || *f.Failed != 2./102 || !near(*f.Achieved, 101./102) {
		t.Errorf("behind %v, events per read %v, failed %v, achieved %v", *f.Behind, *f.EventsPerRead, *f.Failed, *f.Achieved)
	}
	if *f.Lag != 1.5 || *f.QueueWait != 2 || *f.TTFT != 5 || *f.ITL != 4 {
		t.Errorf("lag %v, queue_wait %v, ttft %v, itl %v", *f.Lag, *f.QueueWait, *f.TTFT, *f.ITL)
	}
	for i := range records {
		records[i].NoStamp = len(records[i].Arrivals)
	}
	if metrics.FiguresOf(records, metrics.Summarize(records, o), nil).KernelStamps {
		t.Error("stamps of the kernel that are none")
	}
	// The ramp of a closed loop is not judged, and nothing has no share.
	ramp := []metrics.Record{answer(0, 1, ms)}
	ramp[0].Sent = 10 * ms
	f = metrics.FiguresOf(ramp, metrics.Summarize(ramp, metrics.Options{}), nil)
	if f.Behind != nil || f.Lag != nil || f.QueueWait != nil || f.Achieved != nil || f.Negative != 1 { // its event comes before it was sent
		t.Errorf("%+v", f)
	}
}

func TestWorseVerdict(t *testing.T) {
	order := []metrics.Verdict{"", metrics.Valid, metrics.Suspect, metrics.Invalid}
	for i, a := range order {
		for j, b := range order {
			if got, want := a.Worse(b), order[max(i, j)]; got != want {
				t.Errorf("%s and %s: %s, want %s", a, b, got, want)
			}
		}
	}
}
