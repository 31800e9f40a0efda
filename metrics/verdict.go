package metrics

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Verdict says whether a run measured the server or the generator.
type Verdict string

// The verdicts, from good to bad.
const (
	Valid   Verdict = "VALID"
	Suspect Verdict = "SUSPECT"
	Invalid Verdict = "INVALID"
)

// Worse is the worse of two verdicts; "", which is none, is the best.
func (v Verdict) Worse(o Verdict) Verdict {
	order := []Verdict{Valid, Suspect, Invalid}
	if slices.Index(order, o) > slices.Index(order, v) {
		return o
	}
	return v
}

// Culprit says who was slow.
type Culprit string

// The culprits.
const (
	Nobody     Culprit = "none"
	SlowServer Culprit = "server"
	SlowClient Culprit = "client"
	SlowBoth   Culprit = "both"
)

// Figures are what a verdict rests on, over the timed part of a run. What was
// not measured is nil and is not judged; a count of 0 is a finding. The zero
// value has nothing to judge. Durations are in milliseconds, shares in 0 to 1.
type Figures struct {
	// From the records; [FiguresOf] fills these.
	Lag, QueueWait, RxDelay *float64 // p99
	TTFT, ITL               *float64 // p50, the token reading: what delays are compared with
	Behind                  *float64 // share of sends more than a millisecond late
	Achieved                *float64 // achieved over offered rate, open loops
	Gap                     *float64 // mean of what ITL is the median of
	EventsPerRead           *float64 // mean
	ITL99                   *float64 // p99 of what ITL is the median of
	Merged                  *float64 // share of gaps that end in a read of several events that came late
	Even                    *float64 // ITL99 with the time of those reads shared out evenly; nil where there are none
	Negative                int      // records with a stamp before the one it follows
	Dropped                 int      // requests never sent, by a rule
	ClientResource          int      // requests for which there was no descriptor or port

	// KernelStamps tells that arrivals are kernel receive times: then rx_delay is
	// kept out of the result.
	KernelStamps bool
	// Bunches tells that the server is known to put several events into one
	// write; events that share a read are then no fault of the client.
	Bunches bool
	// OverSaturated is [Saturation].Over: the server was slow without a cap.
	OverSaturated bool

	// From the process and the machine.
	CPU         *float64 // p95 over seconds of process CPU over GOMAXPROCS
	GC          *float64 // share of process CPU spent in garbage collection
	SchedWait   *float64 // p99 of /sched/latencies:seconds
	Pause       *float64 // p99 of stop-the-world pauses
	Canary      *float64 // largest gap by which a sleeping goroutine woke late
	Wake        *float64 // p99 of the same
	Clocks      *float64 // |wall - monotonic length| over the run's length
	Throttled   *int     // cgroup periods in which the process was throttled
	Descriptors *float64 // share of the descriptor limit in use at the peak
	Ports       *float64 // share of the ephemeral ports in use at the peak
	Lost        int      // measurements that a recorder or journal lost
	Panics      int      // panics of the generator that were recovered

	// Failed is the share of requests that failed, FailureBudget what the user
	// allows; without a budget failures are not judged.
	Failed, FailureBudget *float64
}

// Limits are the thresholds of [Judge], in the units of [Figures].
type Limits struct {
	LagMS         float64 `json:"lag_p99_ms"`              // or LagOfTTFT, whichever is larger
	LagOfTTFT     float64 `json:"lag_p99_of_ttft_p50"`     //
	Behind        float64 `json:"sends_behind"`            //
	Achieved      float64 `json:"achieved_over_offered"`   // at least
	RxDelayMS     float64 `json:"rx_delay_p99_ms"`         // without kernel stamps; or RxDelayOfITL
	RxDelayOfITL  float64 `json:"rx_delay_p99_of_itl"`     // without kernel stamps
	StampedOfITL  float64 `json:"stamped_rx_delay_of_itl"` // with kernel stamps
	EventsPerRead float64 `json:"events_per_read"`
	ITLP99        float64 `json:"itl_p99_error"` // either way
	CPUSuspect    float64 `json:"cpu_p95_suspect"`
	CPUInvalid    float64 `json:"cpu_p95_invalid"`
	GC            float64 `json:"gc_cpu"`
	SchedWaitMS   float64 `json:"sched_wait_p99_ms"`
	PauseMS       float64 `json:"pause_p99_ms"`
	CanaryMS      float64 `json:"wake_delay_ms"`
	ClocksWarn    float64 `json:"clocks_warn"`
	ClocksInvalid float64 `json:"clocks_invalid"`
	Resource      float64 `json:"descriptors_or_ports"`
}

// DefaultLimits are the starting values of M25 and A2; that of descriptors and
// ports is ours.
var DefaultLimits = Limits{
	LagMS: 1, LagOfTTFT: 0.01, Behind: 0.05, Achieved: 0.99,
	RxDelayMS: 1, RxDelayOfITL: 0.05, StampedOfITL: 0.5, EventsPerRead: 1.5, ITLP99: 0.05,
	CPUSuspect: 0.70, CPUInvalid: 0.90, GC: 0.05, SchedWaitMS: 1, PauseMS: 0.5, CanaryMS: 1000,
	ClocksWarn: 0.001, ClocksInvalid: 0.01, Resource: 0.9,
}

// Reason is one rule that was broken.
type Reason struct {
	// Verdict is what the rule makes of the run; Valid for a warning.
	Verdict Verdict `json:"verdict"`
	Rule    string  `json:"rule"` // its name, for programs
	Text    string  `json:"text"` // in words and numbers
}

// Judgement is a run's verdict.
type Judgement struct {
	Verdict Verdict  `json:"verdict"`
	Reasons []Reason `json:"reasons,omitempty"` // invalid ones first
	Culprit Culprit  `json:"slow"`
	// Sentence says in words who was slow.
	Sentence string `json:"attribution"`
}

// Judge applies A2 and M25. It is a pure function. The run is INVALID where its
// numbers cannot be trusted or are the generator's own, SUSPECT where they may
// be.
func Judge(f Figures, l Limits) Judgement {
	j := judge{f: f, l: l}
	j.invalid()
	j.suspect()
	out := Judgement{Verdict: Valid}
	for _, v := range []Verdict{Invalid, Suspect, Valid} {
		for _, r := range j.reasons {
			if r.Verdict == v {
				out.Reasons = append(out.Reasons, r)
			}
		}
	}
	if len(out.Reasons) > 0 {
		out.Verdict = out.Reasons[0].Verdict
	}
	out.Culprit, out.Sentence = j.attribute()
	return out
}

type judge struct {
	f       Figures
	l       Limits
	reasons []Reason
}

func (j *judge) add(broken bool, v Verdict, rule, format string, args ...any) {
	if broken {
		j.reasons = append(j.reasons, Reason{v, rule, fmt.Sprintf(format, args...)})
	}
}

func (j *judge) invalid() {
	f, l := &j.f, &j.l
	j.add(f.Negative > 0, Invalid, "negative_durations", "%d requests have a stamp before the one it follows; want none", f.Negative)
	j.add(f.Lost > 0, Invalid, "lost", "%d measurements were lost by the recorder; want none", f.Lost)
	j.add(f.Panics > 0, Invalid, "panics", "%d panics of the generator were recovered; want none", f.Panics)
	j.add(f.Dropped > 0, Invalid, "dropped", "%d requests of the schedule were never sent; want none", f.Dropped)
	j.add(f.ClientResource > 0, Invalid, "client_resource", "%d requests found no descriptor or port here; want none", f.ClientResource)
	if c := f.Clocks; c != nil {
		j.add(*c > l.ClocksInvalid, Invalid, "clocks", "the wall clock and the monotonic one differ by %.3g %% over the run; limit %.3g %%", 100**c, 100*l.ClocksInvalid)
		j.add(*c > l.ClocksWarn && *c <= l.ClocksInvalid, Valid, "clocks", "the wall clock and the monotonic one differ by %.3g %% over the run; limit %.3g %%", 100**c, 100*l.ClocksWarn)
	}
	j.add(over(f.Canary, l.CanaryMS), Invalid, "canary", "a sleeping goroutine woke %.4g ms late; limit %.4g ms: the process or the machine stood still", val(f.Canary), l.CanaryMS)
	limit := j.lagLimit()
	j.add(f.Achieved != nil && *f.Achieved < l.Achieved && over(f.Lag, limit), Invalid, "achieved_rate",
		"%.4g %% of the offered rate was achieved, with a p99 lag of %.4g ms; want %.4g %%, or a lag of at most %.4g ms", 100*val(f.Achieved), val(f.Lag), 100*l.Achieved, limit)
	j.add(over(f.CPU, l.CPUInvalid), Invalid, "cpu", "the generator used %.3g %% of its CPUs (p95 over seconds); limit %.3g %%", 100*val(f.CPU), 100*l.CPUInvalid)
}

func (j *judge) suspect() {
	f, l := &j.f, &j.l
	j.add(over(f.CPU, l.CPUSuspect) && !over(f.CPU, l.CPUInvalid), Suspect, "cpu", "the generator used %.3g %% of its CPUs (p95 over seconds); limit %.3g %%", 100*val(f.CPU), 100*l.CPUSuspect)
	j.add(over(f.Lag, j.lagLimit()), Suspect, "lag", "requests were sent %.4g ms late at p99; limit %.4g ms", val(f.Lag), j.lagLimit())
	j.add(over(f.Behind, l.Behind), Suspect, "behind", "%.3g %% of requests were sent over a millisecond late; limit %.3g %%", 100*val(f.Behind), 100*l.Behind)
	if limit, known := j.rxLimit(); known {
		j.add(over(f.RxDelay, limit), Suspect, "rx_delay", "events were read %.4g ms after they had come at p99; limit %.4g ms", val(f.RxDelay), limit)
	}
	sched, wake := j.unstampedLimits()
	j.add(over(f.SchedWait, sched), Suspect, "sched_wait", "goroutines waited %.4g ms for a CPU at p99; limit %.4g ms", val(f.SchedWait), sched)
	j.add(!f.KernelStamps && over(f.Wake, wake), Suspect, "wake_delay", "a sleeping goroutine woke %.4g ms late at p99, and so may readers, whose delay is in the gaps without kernel stamps; limit %.4g ms", val(f.Wake), wake)
	j.add(over(f.Pause, l.PauseMS), Suspect, "pause", "the runtime stopped the process for %.4g ms at p99; limit %.4g ms", val(f.Pause), l.PauseMS)
	j.add(f.Throttled != nil && *f.Throttled > 0, Suspect, "throttled", "the cgroup throttled the generator in %d periods; want none", num(f.Throttled))
	j.add(!j.bunches() && over(f.EventsPerRead, l.EventsPerRead), Suspect, "events_per_read", "events came %.3g to a read, where they share one stamp; limit %.3g", val(f.EventsPerRead), l.EventsPerRead)
	j.add(j.uneven(), Suspect, "shared_reads", "%.3g %% of gaps end in reads that came late and brought several events, which share a stamp: ITL's p99 is %.4g ms, and %.4g ms with their time shared out evenly; limit %.3g %%",
		100*val(f.Merged), val(f.ITL99), val(f.Even), 100*l.ITLP99)
	j.add(over(f.GC, l.GC), Suspect, "gc", "garbage collection took %.3g %% of the generator's CPU time; limit %.3g %%", 100*val(f.GC), 100*l.GC)
	j.add(over(f.Descriptors, l.Resource), Suspect, "descriptors", "%.3g %% of the descriptors allowed were in use; limit %.3g %%", 100*val(f.Descriptors), 100*l.Resource)
	j.add(over(f.Ports, l.Resource), Suspect, "ports", "%.3g %% of the ephemeral ports were in use; limit %.3g %%", 100*val(f.Ports), 100*l.Resource)
	j.add(f.FailureBudget != nil && over(f.Failed, *f.FailureBudget), Suspect, "failures", "%.3g %% of requests failed; the budget is %.3g %%", 100*val(f.Failed), 100*val(f.FailureBudget))
}

// lagLimit is what counts as late in milliseconds.
func (j *judge) lagLimit() float64 { return max(j.l.LagMS, j.l.LagOfTTFT*val(j.f.TTFT)) }

// bunches tells that events which share a read were written together. One that was
// read late, after the next had come, would share that one's stamp, whose delay lies
// anywhere within a gap: where delays are far below the mean gap there are none.
func (j *judge) bunches() bool {
	f := &j.f
	return f.Bunches || f.KernelStamps && f.RxDelay != nil && f.Gap != nil && *f.RxDelay <= j.l.RxDelayOfITL**f.Gap
}

// rxLimit is what counts as read late. Kernel stamps keep the delay out of the
// result, so that only one in the order of a gap matters; without a gap there is
// nothing to compare with. Where most gaps are 0 the limit is the one without stamps.
func (j *judge) rxLimit() (ms float64, known bool) {
	if j.f.KernelStamps && val(j.f.ITL) > 0 {
		return j.l.StampedOfITL * *j.f.ITL, true
	}
	if j.f.KernelStamps && j.f.ITL == nil {
		return 0, false
	}
	return max(j.l.RxDelayMS, j.l.RxDelayOfITL*val(j.f.ITL)), true
}

// uneven tells that ITL's p99 rests on events whose own stamps are lost. Without kernel
// stamps nobody knows which reads came late.
func (j *judge) uneven() bool {
	f := &j.f
	return f.KernelStamps && !f.Bunches && f.Even != nil && f.ITL99 != nil && math.Abs(*f.ITL99-*f.Even) > j.l.ITLP99**f.Even
}

// unstampedLimits are those of what tells of late reading where nothing measures it:
// then it is in the gaps, and a twentieth of one is much. How late sleepers wake is
// known to a millisecond only.
func (j *judge) unstampedLimits() (sched, wake float64) {
	sched, wake = j.l.SchedWaitMS, max(j.l.RxDelayMS, j.l.RxDelayOfITL*val(j.f.ITL))
	if itl := val(j.f.ITL); !j.f.KernelStamps && itl > 0 {
		sched = min(sched, j.l.RxDelayOfITL*itl)
	}
	return sched, wake
}

// attribute says who was slow: the server where requests waited for a slot or
// piled up while lag and rx_delay were flat, the client where those were not
// (A2).
func (j *judge) attribute() (Culprit, string) {
	f := &j.f
	var client, server []string
	if over(f.Lag, j.lagLimit()) {
		client = append(client, fmt.Sprintf("sent late (lag p99 %.4g ms)", val(f.Lag)))
	}
	if limit, known := j.rxLimit(); known && over(f.RxDelay, limit) {
		client = append(client, fmt.Sprintf("read late (rx_delay p99 %.4g ms)", val(f.RxDelay)))
	}
	if j.uneven() {
		client = append(client, fmt.Sprintf("read several events at once, late (%.3g %% of gaps end so)", 100*val(f.Merged)))
	}
	if _, limit := j.unstampedLimits(); !f.KernelStamps && over(f.Wake, limit) {
		client = append(client, fmt.Sprintf("woke late (p99 %.4g ms)", val(f.Wake)))
	}
	if over(f.QueueWait, j.lagLimit()) {
		server = append(server, fmt.Sprintf("requests waited for a slot (queue_wait p99 %.4g ms)", val(f.QueueWait)))
	}
	if f.OverSaturated {
		server = append(server, "requests piled up")
	}
	slow, late := strings.Join(server, " and "), strings.Join(client, " and ")
	switch {
	case f.Lag == nil && f.RxDelay == nil:
		return Nobody, "Nothing was measured that tells who was slow."
	case slow != "" && late != "":
		return SlowBoth, fmt.Sprintf("Both were slow: %s, and the client %s.", slow, late)
	case late != "":
		return SlowClient, fmt.Sprintf("The client was slow: it %s.", late)
	case slow != "" && f.RxDelay == nil:
		return SlowServer, fmt.Sprintf("The server was slow: %s, while the client sent in time; how late it read is not known.", slow)
	case slow != "":
		return SlowServer, fmt.Sprintf("The server was slow: %s, while the client sent and read in time.", slow)
	case f.RxDelay == nil:
		return Nobody, "Neither held the other up: requests were sent in time, and none waited for a slot; how late events were read is not known."
	}
	return Nobody, "Neither held the other up: requests were sent and events read in time, and none waited for a slot."
}

// over tells that a figure was measured and is beyond its limit.
func over(v *float64, limit float64) bool { return v != nil && *v > limit }

func val(v *float64) float64 {
	if v == nil {
		return 0
	}
	return *v
}

func num(v *int) int {
	if v == nil {
		return 0
	}
	return *v
}

// FiguresOf fills in what the records tell; a is nil where there is no
// [Analysis]. Whether stamps are the kernel's is told by the reads that had none.
func FiguresOf(records []Record, s *Summary, a *Analysis) Figures {
	at := func(d *Dist, p float64) *float64 {
		if v, ok := d.Percentile(p); ok {
			return &v
		}
		return nil
	}
	f := Figures{
		Lag: at(s.Lag, 99), QueueWait: at(s.QueueWait, 99), RxDelay: at(s.RxDelay, 99),
		TTFT: at(s.Token.TTFT, 50), ITL: at(s.Token.ITL, 50),
		Dropped: s.Outcomes[Dropped], ClientResource: s.Outcomes[ClientResource],
		KernelStamps: s.KernelStamps(),
	}
	if d := s.Token.ITL; d != nil {
		f.Gap, f.ITL99 = &d.Mean, at(d, 99)
	}
	f.shared(records, s)
	if s.Counters.Reads > 0 {
		v := float64(s.Counters.Events) / float64(s.Counters.Reads)
		f.EventsPerRead = &v
	}
	if n := s.Completed + s.Failed; n > 0 {
		v := float64(s.Failed) / float64(n)
		f.Failed = &v
	}
	if a != nil {
		if a.Arrivals != nil {
			f.Achieved = &a.Arrivals.Ratio
		}
		f.OverSaturated = a.Saturation != nil && a.Saturation.Over
	}
	f.scan(records, s.QueueWait != nil)
	return f
}

// unstampedMost is the share of reads that may lack a kernel stamp where a p99 is to
// rest on the others. One may in any case: the first on a machine that took no stamps
// before.
const unstampedMost = 0.01

// KernelStamps tells that arrivals are the kernel's receive times, but for too few to
// matter.
func (s *Summary) KernelStamps() bool {
	k := &s.Counters
	reads := k.Reads + k.NotStreamed
	return k.NoStamp < reads && float64(k.NoStamp) <= max(1, unstampedMost*float64(reads))
}

// shared looks at the events that share a read.
func (f *Figures) shared(records []Record, s *Summary) {
	if f.ITL == nil || !f.KernelStamps {
		return
	}
	v := 0.0
	if f.Merged = &v; s.Counters.Reads >= s.Counters.Events {
		return // none do
	}
	merged, gaps, even := sharedReads(records)
	if merged > 0 {
		v, f.Even = float64(merged)/float64(gaps), &even
	}
}

// lateSend is what makes a send late (M8).
const lateSend = time.Millisecond

// scan counts what no distribution has. The first fill of a closed loop's slots
// is ramp lag, which is not judged.
func (f *Figures) scan(records []Record, openLoop bool) {
	sent, late := 0, 0
	for i := range records {
		r := &records[i]
		if !r.issued() {
			continue
		}
		f.Negative += b2i(r.backwards())
		if openLoop || r.Slot != 0 {
			sent++
			late += b2i(r.Lag() > lateSend)
		}
	}
	if sent > 0 {
		v := float64(late) / float64(sent)
		f.Behind = &v
	}
}

// backwards tells that a stamp lies before the one it follows.
func (r *Record) backwards() bool {
	if r.Due < 0 || r.Slot < r.Due || r.Sent < r.Slot || r.Done < r.Sent {
		return true
	}
	last := r.Sent
	for _, at := range r.Arrivals {
		if at < last {
			return true
		}
		last = at
	}
	return r.Done < last
}
