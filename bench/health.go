package bench

import (
	"math"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"
)

// health watches this process while the timed requests run: what keeps it from
// reading and sending in time. The zero value is none.
type health struct {
	stop, done chan struct{}

	began     time.Time
	processor []float64     // share of GOMAXPROCS in use, second by second
	canary    time.Duration // by which a sleeper woke late, at most
	before    runtimeCounts
	throttled int
	cgroup    bool
}

// healthEvery is how often the watcher wakes: its lateness is the canary's.
const healthEvery = 100 * time.Millisecond

// watchHealth starts to watch; the caller calls end.
func watchHealth() *health {
	h := &health{stop: make(chan struct{}), done: make(chan struct{}), began: time.Now(), before: readRuntime()}
	h.throttled, h.cgroup = throttledPeriods()
	go h.watch()
	return h
}

func (h *health) watch() {
	defer close(h.done)
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	second, used := h.began, processCPU()
	for {
		select {
		case <-h.stop:
			return
		case due := <-tick.C:
			now := time.Now()
			h.canary = max(h.canary, now.Sub(due))
			if d := now.Sub(second); d >= time.Second {
				cpu := processCPU()
				h.processor = append(h.processor, (cpu-used).Seconds()/d.Seconds()/float64(runtime.GOMAXPROCS(0)))
				second, used = now, cpu
			}
		}
	}
}

// vitals are what health found, in the units of a verdict's figures; nil is not
// known.
type vitals struct {
	CPU       *float64 `json:"cpu_p95,omitempty"` // share of GOMAXPROCS, p95 over seconds
	GC        *float64 `json:"gc_cpu,omitempty"`  // share of the process's CPU time
	SchedWait *float64 `json:"sched_wait_p99_ms,omitempty"`
	Pause     *float64 `json:"gc_pause_p99_ms,omitempty"`
	Canary    *float64 `json:"wake_delay_max_ms,omitempty"`
	Throttled *int     `json:"throttled_periods,omitempty"`
}

// end stops watching and returns what was found. It waits for the watcher.
func (h *health) end() *vitals {
	close(h.stop)
	<-h.done
	v := &vitals{Canary: ptr(float64(h.canary) / 1e6)}
	if n := len(h.processor); n > 0 {
		slices.Sort(h.processor)
		v.CPU = ptr(h.processor[min(n-1, int(math.Ceil(0.95*float64(n)))-1)])
	}
	after := readRuntime()
	if busy := after.busy - h.before.busy; busy > 0 {
		v.GC = ptr((after.gc - h.before.gc) / busy)
	}
	v.SchedWait = p99Of(h.before.sched, after.sched)
	v.Pause = p99Of(h.before.pauses, after.pauses)
	if n, ok := throttledPeriods(); ok && h.cgroup {
		v.Throttled = ptr(max(0, n-h.throttled))
	}
	return v
}

// runtimeCounts are the Go runtime's cumulative counts.
type runtimeCounts struct {
	gc, busy      float64 // CPU seconds
	sched, pauses *metrics.Float64Histogram
}

func readRuntime() (c runtimeCounts) {
	s := []metrics.Sample{
		{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"},
		{Name: "/sched/latencies:seconds"}, {Name: "/sched/pauses/total/gc:seconds"},
	}
	metrics.Read(s)
	number := func(i int) float64 {
		if s[i].Value.Kind() == metrics.KindFloat64 {
			return s[i].Value.Float64()
		}
		return 0
	}
	c.gc, c.busy = number(0), number(1)-number(2)
	for i, to := range []**metrics.Float64Histogram{&c.sched, &c.pauses} {
		if v := s[3+i].Value; v.Kind() == metrics.KindFloat64Histogram {
			h := v.Float64Histogram()
			*to = &metrics.Float64Histogram{Counts: slices.Clone(h.Counts), Buckets: h.Buckets}
		}
	}
	return c
}

// p99Of is the 99th percentile, in milliseconds, of what was added to a histogram:
// the upper bound of its bucket, or the lower one of the last, which has none. It is
// nil where nothing was added.
func p99Of(before, after *metrics.Float64Histogram) *float64 {
	if before == nil || after == nil || len(before.Counts) != len(after.Counts) {
		return nil
	}
	total := uint64(0)
	for i, n := range after.Counts {
		total += n - before.Counts[i]
	}
	if total == 0 {
		return nil
	}
	rank, seen := uint64(math.Ceil(0.99*float64(total))), uint64(0)
	for i, n := range after.Counts {
		if seen += n - before.Counts[i]; seen >= rank {
			bound := after.Buckets[i+1]
			if math.IsInf(bound, 1) {
				bound = after.Buckets[i]
			}
			return ptr(bound * 1e3)
		}
	}
	return nil
}
