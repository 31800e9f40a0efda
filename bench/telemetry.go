package bench

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/manifest/probe"
)

// defaultInterval is that of Telemetry.
const defaultInterval = time.Second

func (t Telemetry) validate() (errs []error) {
	const least = 100 * time.Millisecond // nvidia-smi itself takes tens of them
	if t.Interval != 0 && t.Interval < least {
		errs = append(errs, fmt.Errorf("telemetry-interval: %v; want %v or more", t.Interval, least))
	}
	for i, d := range t.Devices {
		if d < 0 || slices.Contains(t.Devices[:i], d) {
			errs = append(errs, fmt.Errorf("telemetry-devices: %d; want each index once, 0 or more", d))
		}
	}
	return errs
}

// gpuWatch looks at the devices while the timed requests run. A nil gpuWatch does
// nothing.
type gpuWatch struct {
	smi    probe.NvidiaSMI
	every  time.Duration
	server []int // process ids of the servers, where they are ours
	cancel context.CancelFunc
	wg     sync.WaitGroup

	report gpuReport // written by the loop, read after it has ended
}

// gpuReport is what was seen.
type gpuReport struct {
	samples, missed, failed int
	first                   error // of those that failed
	unlisted                error // why processes are not known
	devices                 map[int]map[string]*span
	start, end              gpuUse
}

// span sums up a value's samples.
type span struct {
	n             int
	sum, min, max float64
}

func (s *span) add(v float64) {
	if s.n == 0 {
		s.min, s.max = v, v
	}
	s.n, s.sum, s.min, s.max = s.n+1, s.sum+v, min(s.min, v), max(s.max, v)
}

// gpuUse counts processes that compute on the devices.
type gpuUse struct {
	asked     bool
	processes int
	memory    int64 // bytes
	most      int   // processes on one device
	// Those that are not the server's; known tells whether that can be told.
	known        bool
	others       int
	othersMemory int64
}

// watchGPUs begins to watch, if that was asked for; nil where it was not.
func (s *session) watchGPUs(ctx context.Context) *gpuWatch {
	t := s.cfg.Telemetry
	if !t.GPU || ctx.Err() != nil {
		return nil
	}
	if !s.cfg.here() {
		s.warnf("No GPU was watched: the server is on another host, and nvidia-smi tells of this one.")
		return nil
	}
	w := &gpuWatch{smi: probe.NvidiaSMI{Devices: t.Devices}, every: t.Interval, server: s.cfg.ServerPIDs}
	w.start(ctx)
	return w
}

func (w *gpuWatch) start(ctx context.Context) {
	if w.every == 0 {
		w.every = defaultInterval
	}
	w.report.devices = map[int]map[string]*span{}
	ctx, w.cancel = context.WithCancel(ctx)
	w.wg.Go(func() { w.loop(ctx) })
}

// end ends the watching without a wait; [gpuWatch.wait] waits.
func (w *gpuWatch) end() {
	if w != nil {
		w.cancel()
	}
}

// wait returns what was seen up to end. It may take a few seconds where nvidia-smi
// hangs.
func (w *gpuWatch) wait() *gpuReport {
	w.wg.Wait()
	return &w.report
}

// loop takes sample k at k times the interval by an absolute schedule. While one is
// slow the ticks that pass are missed; what comes after the end is not counted.
func (w *gpuWatch) loop(ctx context.Context) {
	clock := loadgen.StartClock()
	w.report.start = w.use(ctx)
	for tick := 0; pause(ctx, time.Duration(tick)*w.every-clock.Now()); {
		devices, err := w.smi.Sample(ctx)
		if ctx.Err() != nil {
			break // cut off, or of a device that had begun to rest
		}
		w.take(tick == 0, devices, err)
		next := max(tick+1, int(clock.Now()/w.every))
		w.report.missed += next - tick - 1
		tick = next
	}
	if w.report.start.asked { // else nvidia-smi would only make us wait
		w.report.end = w.use(context.WithoutCancel(ctx))
	}
}

// take counts a sample. In the first one, power and utilization are of the time
// before the load.
func (w *gpuWatch) take(first bool, devices []probe.GPU, err error) {
	r := &w.report
	if err != nil {
		if r.failed++; r.first == nil {
			r.first = err
		}
		return
	}
	r.samples++
	for _, d := range devices {
		if r.devices[d.Index] == nil {
			r.devices[d.Index] = map[string]*span{}
		}
		for name, v := range d.Values {
			if first && (name == "power_watts" || name == "utilization_percent") {
				continue
			}
			if r.devices[d.Index][name] == nil {
				r.devices[d.Index][name] = new(span)
			}
			r.devices[d.Index][name].add(v)
		}
	}
}

// use counts who computes on the devices.
func (w *gpuWatch) use(ctx context.Context) (u gpuUse) {
	processes, err := w.smi.Processes(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.report.unlisted = err
		}
		return u
	}
	u.asked = true
	on := map[string]int{}
	for _, p := range processes {
		u.processes++
		u.memory += p.MemoryBytes
		on[p.Device]++
		u.most = max(u.most, on[p.Device])
		if p.PID > 0 && probe.Descends(p.PID, w.server) {
			u.known = true // the driver's process ids are ours, and not another container's
			continue
		}
		u.others++
		u.othersMemory += p.MemoryBytes
	}
	return u
}

// takeGPUs takes the numbers over once the loop has ended.
func (s *session) takeGPUs(w *gpuWatch) {
	if w == nil {
		return
	}
	r := w.wait()
	s.res.gpu = r
	switch why := cmp.Or(r.first, r.unlisted); {
	case r.samples == 0 && why != nil:
		s.warnf("No GPU was watched: %v.", why)
	case r.samples == 0:
		s.warnf("No GPU was watched: the timed requests ended before nvidia-smi answered.")
	case r.failed > 0:
		s.warnf("%d of %d looks at the GPU failed, the first: %v.", r.failed, r.failed+r.samples, r.first)
	}
	if r.samples > 0 && r.unlisted != nil {
		s.warnf("Who computed on the GPU is not known: %v.", r.unlisted)
	}
	if r.samples > 0 {
		for _, d := range s.cfg.Telemetry.Devices {
			if r.devices[d] == nil {
				s.warnf("nvidia-smi tells nothing of GPU %d.", d)
			}
		}
	}
	others := max(r.start.others, r.end.others)
	switch {
	case r.start.known || r.end.known:
		if others > 0 {
			s.warnf("%d processes beside the server's computed on its GPUs.", others)
		}
	case max(r.start.most, r.end.most) > 1:
		s.warnf("%d processes computed on one GPU; which of them are the server's is not known, as servebench did not start it or cannot see its processes.", max(r.start.most, r.end.most))
	}
}

// set fills in the extensions about the devices.
func (r *gpuReport) set(ext map[string]any) {
	if r == nil || r.samples == 0 {
		return
	}
	indices := slices.Sorted(maps.Keys(r.devices))
	hottest, known := 0.0, false
	for _, name := range probe.GPUValues {
		var list []any
		for _, i := range indices {
			s := r.devices[i][name]
			if s == nil {
				list = append(list, nil)
				continue
			}
			if name == "temperature_c" {
				hottest, known = max(hottest, s.max), true
			}
			list = append(list, map[string]any{"min": s.min, "mean": s.sum / float64(s.n), "max": s.max})
		}
		ext["servebench.gpu_"+name] = list
	}
	if known {
		ext["runpile.max_gpu_temperature_c"] = int64(math.Round(hottest))
	}
	ext["servebench.gpu_devices"] = indices
	ext["servebench.gpu_samples"] = r.samples
	if r.missed+r.failed > 0 {
		ext["servebench.gpu_samples_missed"] = r.missed + r.failed
	}
	processes := map[string]any{}
	for name, u := range map[string]gpuUse{"start": r.start, "end": r.end} {
		if !u.asked {
			continue
		}
		one := map[string]any{"processes": u.processes, "memory_bytes": u.memory, "server_known": u.known}
		if u.known {
			one["others"], one["others_memory_bytes"] = u.others, u.othersMemory
		}
		processes[name] = one
	}
	if len(processes) > 0 {
		ext["servebench.gpu_processes"] = processes
	}
}

// setWatched fills in the extensions about the servers' side of the timed requests.
func (r *Result) setWatched(ext map[string]any) {
	r.setCounted(ext)
	r.gpu.set(ext)
	if list := r.replicas(); list != nil {
		ext["servebench.replicas"] = list
	}
	if r.Config.ResetPrefixCache {
		ext["servebench.prefix_cache_reset"] = r.reset
	}
}
