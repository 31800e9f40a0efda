package bench

import (
	"math"
	"runtime"
	rt "runtime/metrics"
	"slices"
	"sync"
	"time"

	"github.com/servebench/servebench/metrics"
)

// health watches this process while the timed requests run: what keeps it from
// reading and sending in time. A goroutine wakes every 10 ms to see how late it is,
// and looks at the rest once a second.
type health struct {
	stop chan struct{}
	wg   sync.WaitGroup

	began time.Time
	wall  func(time.Time) time.Time // the wall clock; nil is time.Now's own
	conns func() int                // open connections to the busiest server; nil is not known
	now   sampler

	wakes   rt.Float64Histogram // seconds; written by the watcher
	windows []window            // written by the watcher, read after it has ended
	joined  int                 // how many seconds one of them is; a power of two
	cpus    []float64
}

const (
	// wakeEvery is how often the watcher wakes, timerGrain how much of its lateness
	// is the kernel's timers', as Go uses them.
	wakeEvery  = 10 * time.Millisecond
	timerGrain = time.Millisecond
	windowLong = time.Second
	// windowsMost bounds the windows that are held: beyond it two become one.
	windowsMost = 7200
	// windowShort is the shortest window at the end of a run whose CPU share says
	// something.
	windowShort = windowLong / 2
)

// window is what was seen in a second, or in several. NaN is not known.
type window struct {
	end       time.Duration // since began
	cpu       float64       // share of GOMAXPROCS
	gc        float64       // CPU seconds of the collector, where it is not idle time
	used      float64       // CPU seconds of the process
	sched     float64       // ms, p99
	pause     float64       // ms, the longest
	wake      float64       // ms, the longest
	throttled float64       // periods
	files     float64       // descriptors open
	conns     float64       // connections to the busiest server
	ports     float64       // conns and what TIME_WAIT has gained
	rss       float64       // bytes
	offset    float64       // ms by which the wall clock has gained since began
}

// watchHealth starts to watch; the caller calls end. conns counts open connections,
// wall reads the wall clock at an instant; both may be nil.
func watchHealth(conns func() int, wall func(time.Time) time.Time) *health {
	h := &health{stop: make(chan struct{}), conns: conns, wall: wall, joined: 1, began: time.Now()}
	h.now.init()
	h.wakes = newWakes()
	h.wg.Go(h.watch)
	return h
}

func (h *health) watch() {
	timer := time.NewTimer(wakeEvery)
	defer timer.Stop()
	last, wake := h.began, time.Duration(0)
	next := h.began.Add(windowLong)
	for due := h.began.Add(wakeEvery); ; {
		select {
		case <-h.stop:
			if now := time.Now(); now.After(last) {
				h.take(last, now, wake)
			}
			return
		case <-timer.C:
		}
		now := time.Now()
		late := now.Sub(due) - timerGrain
		wake = max(wake, late)
		noteWake(&h.wakes, late)
		if !now.Before(next) {
			h.take(last, now, wake)
			last, wake = now, 0
			next = next.Add(now.Sub(next).Truncate(windowLong) + windowLong)
		}
		due = time.Now().Add(wakeEvery) // what take cost is not lateness
		timer.Reset(wakeEvery)
	}
}

// newWakes is a histogram from 10 µs to two hours, in buckets a tenth wide.
func newWakes() rt.Float64Histogram {
	const n, least, factor = 215, 10e-6, 1.1
	bounds := make([]float64, n+1)
	for i := range bounds[1:] {
		bounds[i+1] = least * math.Pow(factor, float64(i))
	}
	return rt.Float64Histogram{Counts: make([]uint64, n), Buckets: bounds}
}

// noteWake notes by how much the watcher woke late, and by how much it would have
// where it slept through its next turns.
func noteWake(h *rt.Float64Histogram, late time.Duration) {
	const most = 1 << 16 // turns: eleven minutes
	for range most {
		i, _ := slices.BinarySearch(h.Buckets[1:], max(late, 0).Seconds())
		h.Counts[min(i, len(h.Counts)-1)]++
		if late -= wakeEvery; late <= 0 {
			return
		}
	}
}

// take notes the window from last to now.
func (h *health) take(last, now time.Time, wake time.Duration) {
	w := h.now.window()
	length := now.Sub(last)
	w.end, w.wake = now.Sub(h.began), ms(wake)
	w.cpu = w.used / length.Seconds() / float64(runtime.GOMAXPROCS(0))
	w.offset = ms(gained(h.began, now, h.wall))
	if h.conns != nil {
		w.conns = float64(h.conns())
		w.ports += w.conns // NaN where TIME_WAIT is not known
	} else {
		w.conns, w.ports = math.NaN(), math.NaN()
	}
	if length >= windowShort && !math.IsNaN(w.cpu) {
		h.cpus = append(h.cpus, w.cpu)
	}
	h.windows = append(h.windows, w)
	if len(h.windows) >= windowsMost {
		h.join()
	}
}

// gained is by how much the wall clock gained on the monotonic one; wall reads it,
// nil is the instants' own readings.
func gained(from, to time.Time, wall func(time.Time) time.Time) time.Duration {
	mono := to.Sub(from)
	if wall != nil {
		from, to = wall(from), wall(to)
	}
	return to.Round(0).Sub(from.Round(0)) - mono
}

// join makes one window of every two.
func (h *health) join() {
	out, from := h.windows[:0], time.Duration(0)
	for i := 0; i+1 < len(h.windows); i += 2 {
		a, b := h.windows[i], h.windows[i+1]
		out = append(out, a.and(b, from))
		from = b.end
	}
	if n := len(h.windows); n%2 == 1 {
		out = append(out, h.windows[n-1])
	}
	h.windows, h.joined = out, 2*h.joined
}

// and is the window of a, which began at from, and b, which follows it.
func (a window) and(b window, from time.Duration) window {
	total := (b.end - from).Seconds()
	cpu := a.cpu*((a.end-from).Seconds()/total) + b.cpu*((b.end-a.end).Seconds()/total)
	offset := a.offset
	if math.Abs(b.offset) > math.Abs(offset) {
		offset = b.offset
	}
	return window{
		end: b.end, cpu: cpu, gc: a.gc + b.gc, used: a.used + b.used, throttled: a.throttled + b.throttled,
		sched: larger(a.sched, b.sched), pause: larger(a.pause, b.pause), wake: larger(a.wake, b.wake),
		files: larger(a.files, b.files), conns: larger(a.conns, b.conns), ports: larger(a.ports, b.ports),
		rss: larger(a.rss, b.rss), offset: offset,
	}
}

// larger is the larger one of two numbers of which one may be unknown.
func larger(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

// sampler reads what the runtime and the kernel count up. init must come first.
type sampler struct {
	first, last runtimeCounts
	spare       runtimeCounts
	cpu         time.Duration
	groups      []string // files with the throttled periods of the control groups
	throttled   int
	throttles   bool
	wait        int // sockets in TIME_WAIT at the start
	waits       bool
	files       float64   // descriptors when they were counted last
	filesNext   time.Time // when they may be again
}

func (s *sampler) init() {
	s.groups = cpuStats()
	s.throttled, s.throttles = throttledPeriods(s.groups)
	s.wait, s.waits = timeWait()
	s.first.read()
	s.last.read()
	s.cpu, _ = ProcessCPU()
}

// window is what has changed since the last one, and what is the case now.
func (s *sampler) window() (w window) {
	next := &s.spare
	next.read()
	cpu, counted := ProcessCPU()
	if w.used = (cpu - s.cpu).Seconds(); !counted {
		w.used = math.NaN()
	}
	w.gc = next.gc - s.last.gc
	w.sched, _ = tailOf(s.last.sched, next.sched, 0.99)
	w.pause, _ = tailOf(s.last.pauses, next.pauses, 1)
	w.throttled = math.NaN()
	if n, ok := throttledPeriods(s.groups); ok && s.throttles {
		w.throttled = float64(max(0, n-s.throttled))
		s.throttled = n
	}
	w.files, w.rss, w.ports = s.openFiles(), known(residentBytes()), math.NaN()
	if n, ok := timeWait(); ok && s.waits {
		w.ports = float64(max(0, n-s.wait))
	}
	s.cpu, s.last, s.spare = cpu, s.spare, s.last
	return w
}

// filesCost is how small a part of the time may go into counting descriptors.
const filesCost = 1000

// openFiles counts this process's descriptors: seldom, and the same again in between,
// where that takes long.
func (s *sampler) openFiles() float64 {
	if now := time.Now(); !now.Before(s.filesNext) {
		s.files = known(openFiles())
		s.filesNext = now.Add(filesCost * time.Since(now))
	}
	return s.files
}

// known is n, or NaN.
func known(n int, ok bool) float64 {
	if !ok {
		return math.NaN()
	}
	return float64(n)
}

// runtimeCounts are the Go runtime's cumulative counts. Its memory is used again.
type runtimeCounts struct {
	samples       []rt.Sample
	gc            float64 // CPU seconds, those on CPUs that were idle else left out
	sched, pauses *rt.Float64Histogram
}

func (c *runtimeCounts) read() {
	if c.samples == nil {
		c.samples = []rt.Sample{
			{Name: "/cpu/classes/gc/total:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/idle:cpu-seconds"},
			{Name: "/sched/latencies:seconds"}, {Name: "/sched/pauses/total/gc:seconds"},
		}
	}
	rt.Read(c.samples)
	number := func(i int) float64 {
		if c.samples[i].Value.Kind() == rt.KindFloat64 {
			return c.samples[i].Value.Float64()
		}
		return 0
	}
	c.gc = number(0) - number(1)
	for i, to := range []**rt.Float64Histogram{&c.sched, &c.pauses} {
		if v := c.samples[2+i].Value; v.Kind() == rt.KindFloat64Histogram {
			*to = v.Float64Histogram()
		}
	}
}

// tailOf is the q-quantile, in milliseconds, of what was added to a histogram: the
// upper bound of its bucket, or the lower one of the last, which has none. Where
// nothing was added it is NaN and not ok.
func tailOf(before, after *rt.Float64Histogram, q float64) (ms float64, ok bool) {
	if before == nil || after == nil || len(before.Counts) != len(after.Counts) {
		return math.NaN(), false
	}
	total := uint64(0)
	for i, n := range after.Counts {
		total += n - before.Counts[i]
	}
	if total == 0 {
		return math.NaN(), false
	}
	rank, seen := uint64(math.Ceil(q*float64(total))), uint64(0)
	for i, n := range after.Counts {
		if seen += n - before.Counts[i]; seen >= rank {
			bound := after.Buckets[i+1]
			if math.IsInf(bound, 1) {
				bound = after.Buckets[i]
			}
			return bound * 1e3, true
		}
	}
	return math.NaN(), false
}

// vitals are what health found, in the units of a verdict's figures; nil is not
// known.
type vitals struct {
	CPU         *float64 // share of GOMAXPROCS, p95 over seconds
	GC          *float64 // share of the process's CPU time
	SchedWait   *float64 // ms, p99
	Pause       *float64 // ms, p99
	PauseMax    *float64 // ms
	Wake        *float64 // ms by which a sleeper woke late, at most
	WakeP99     *float64 // the same, p99
	Throttled   *int     // periods
	Files       *int     // descriptors open, at most
	FilesLimit  *int
	Conns       *int // connections to the busiest server, at most
	Ports       *int // with what TIME_WAIT has gained
	PortsLimit  *int // ephemeral ports
	RSS         *int // bytes, at most
	ClockOffset time.Duration

	windows []window
}

// end stops watching and returns what was found. It waits for the watcher.
func (h *health) end() *vitals {
	close(h.stop)
	h.wg.Wait()
	v := &vitals{windows: h.windows}
	if n := len(h.cpus); n > 0 {
		slices.Sort(h.cpus)
		v.CPU = ptr(h.cpus[int(math.Ceil(0.95*float64(n)))-1])
	}
	v.SchedWait = tailPtr(tailOf(h.now.first.sched, h.now.last.sched, 0.99))
	v.Pause = tailPtr(tailOf(h.now.first.pauses, h.now.last.pauses, 0.99))
	v.PauseMax = tailPtr(tailOf(h.now.first.pauses, h.now.last.pauses, 1))
	if len(h.windows) == 0 {
		return v
	}
	all, from := h.windows[0], time.Duration(0)
	for _, w := range h.windows[1:] {
		all = all.and(w, from)
	}
	v.Wake = ptr(all.wake)
	none := rt.Float64Histogram{Counts: make([]uint64, len(h.wakes.Counts))}
	v.WakeP99 = tailPtr(tailOf(&none, &h.wakes, 0.99))
	if all.used > 0 {
		v.GC = ptr(all.gc / all.used)
	}
	v.Throttled, v.Files, v.Conns, v.Ports, v.RSS = whole(all.throttled), whole(all.files), whole(all.conns), whole(all.ports), whole(all.rss)
	v.ClockOffset = time.Duration(all.offset * 1e6)
	if n, ok := filesLimit(); ok {
		v.FilesLimit = &n
	}
	if n, ok := portRange(); ok && h.conns != nil {
		v.PortsLimit = &n
	}
	return v
}

// boundPorts takes out what others of the network namespace left in TIME_WAIT: this
// process holds no more ports than it had connections and dialed new ones.
func (v *vitals) boundPorts(dialed int) {
	if v.Ports == nil || v.Conns == nil {
		return
	}
	most := *v.Conns + dialed
	*v.Ports = min(*v.Ports, most)
	for i := range v.windows {
		v.windows[i].ports = min(v.windows[i].ports, float64(most)) // NaN stays
	}
}

func tailPtr(v float64, ok bool) *float64 {
	if !ok {
		return nil
	}
	return &v
}

// whole is a count that may be unknown.
func whole(v float64) *int {
	if math.IsNaN(v) {
		return nil
	}
	return ptr(int(v))
}

// spread lays windows out over n slices of a run. A slice gets the windows whose
// middles it holds, or else the one that holds its own; watched is when the first
// window began, on the run's clock.
func spread(windows []window, watched, width time.Duration, n int) []window {
	rows, filled := make([]window, n), make([]bool, n)
	for i := range rows {
		rows[i] = unknown
	}
	from := time.Duration(0)
	for _, w := range windows {
		a, b := from+watched, w.end+watched
		k := min(n-1, int(max(0, a+(b-a)/2)/width))
		if filled[k] {
			start := max(0, time.Duration(k)*width-watched)
			rows[k] = rows[k].and(w, start)
		} else {
			rows[k], filled[k] = w, true
		}
		middle := func(i int) time.Duration { return time.Duration(i)*width + width/2 }
		for i := k - 1; i >= 0 && !filled[i] && middle(i) >= a; i-- {
			rows[i], filled[i] = w, true
		}
		for i := k + 1; i < n && middle(i) < b; i++ {
			rows[i], filled[i] = w, true
		}
		from = w.end
	}
	return rows
}

// unknown is a window of which nothing is known.
var unknown = window{
	cpu: math.NaN(), gc: math.NaN(), used: math.NaN(), sched: math.NaN(), pause: math.NaN(), wake: math.NaN(), throttled: math.NaN(),
	files: math.NaN(), conns: math.NaN(), ports: math.NaN(), rss: math.NaN(), offset: math.NaN(),
}

// addTo puts what was seen of the process beside what the records tell.
func (v *vitals) addTo(s *metrics.Series, watched time.Duration) {
	n := 0
	if len(s.Columns) > 0 {
		n = len(s.Columns[0].Values)
	}
	rows := spread(v.windows, watched, s.Width, n)
	for _, c := range []struct {
		name string
		of   func(w *window) float64
	}{
		{"cpu", func(w *window) float64 { return w.cpu }},
		{"gc_cpu", func(w *window) float64 { return w.gc / w.used }},
		{"gc_pause_max_ms", func(w *window) float64 { return w.pause }},
		{"sched_wait_p99_ms", func(w *window) float64 { return w.sched }},
		{"wake_delay_max_ms", func(w *window) float64 { return w.wake }},
		{"throttled_periods", func(w *window) float64 { return w.throttled }},
		{"descriptors", func(w *window) float64 { return w.files }},
		{"connections", func(w *window) float64 { return w.conns }},
		{"ports", func(w *window) float64 { return w.ports }},
		{"resident_mib", func(w *window) float64 { return math.Round(w.rss / (1 << 20)) }},
		{"wall_clock_offset_ms", func(w *window) float64 { return w.offset }},
	} {
		values := make([]float64, n)
		for i := range rows {
			values[i] = c.of(&rows[i])
		}
		s.Add(c.name, values)
	}
}

// health is the run's health in figures: what the verdict rests on, and beside it
// what was seen of the process. What was not measured is left out.
func (r *Result) health() *object {
	var o object
	f, v := r.Figures, r.vitals
	number := func(key string, n *float64) {
		if n != nil {
			o.set(key, float(*n))
		}
	}
	count := func(key string, n *int) {
		if n != nil {
			o.set(key, *n)
		}
	}
	number("lag_p99_ms", f.Lag)
	number("queue_wait_p99_ms", f.QueueWait)
	number("rx_delay_p99_ms", f.RxDelay)
	number("sends_behind", f.Behind)
	number("achieved_over_offered", f.Achieved)
	if a := r.Analysis; a != nil && a.Arrivals != nil && a.Arrivals.Gaps != nil {
		number("arrivals_ks_distance", &a.Arrivals.Gaps.D)
		number("arrivals_p", &a.Arrivals.Gaps.P)
	}
	number("events_per_read", f.EventsPerRead)
	number("gaps_in_late_shared_reads", f.Merged)
	number("itl_p99_shared_evenly_ms", f.Even)
	o.set("kernel_receive_stamps", f.KernelStamps)
	if v == nil {
		return &o
	}
	if r.Config.InProcess {
		o.set("with_simulator", true)
	}
	number("cpu_p95", v.CPU)
	o.set("cpus", runtime.GOMAXPROCS(0))
	number("gc_cpu", v.GC)
	number("sched_wait_p99_ms", v.SchedWait)
	number("gc_pause_p99_ms", v.Pause)
	number("gc_pause_max_ms", v.PauseMax)
	number("wake_delay_p99_ms", v.WakeP99)
	number("wake_delay_max_ms", v.Wake)
	count("throttled_periods", v.Throttled)
	number("clocks_apart", f.Clocks)
	o.set("wall_clock_offset_max_ms", float(ms(v.ClockOffset)))
	count("descriptors_peak", v.Files)
	count("descriptors_limit", v.FilesLimit)
	count("connections_peak", v.Conns)
	count("ports_peak", v.Ports)
	count("ports_limit", v.PortsLimit)
	count("resident_bytes_peak", v.RSS)
	return &o
}
