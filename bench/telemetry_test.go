package bench

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/manifest/probe"
)

// driver is a stand-in for nvidia-smi: sample k says 50+k degrees and 100*(k+1) W.
type driver struct {
	takes     time.Duration // each sample
	fails     int           // the first so many samples
	apps      string
	hangs     bool // until it is killed
	samples   int
	processes int
}

func (d *driver) run(ctx context.Context, _ string, args ...string) ([]byte, error) {
	if strings.HasPrefix(args[0], "--query-compute-apps") {
		d.processes++
		return []byte(d.apps), nil
	}
	if d.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	k := d.samples
	d.samples++
	if !pause(ctx, d.takes) {
		return nil, ctx.Err()
	}
	if k < d.fails {
		return nil, errors.New("exit status 9")
	}
	digit := string(rune('0' + k))
	return []byte("0, 5" + digit + ", " + string(rune('1'+k)) + "00, 2700, 14001, 1, 9" + digit + "\n1, 40, [N/A], 2700, 14001, 1, [N/A]\n"), nil
}

// watch watches for so long.
func watch(d *driver, every, long time.Duration, server ...int) (*gpuReport, time.Duration) {
	w := &gpuWatch{smi: probe.NvidiaSMI{Run: d.run}, every: every, server: server}
	w.start(context.Background())
	time.Sleep(long)
	w.end()
	begin := time.Now()
	r := w.wait()
	return r, time.Since(begin)
}

// Samples are due at 0, 1, 2 and 3 s. A driver that takes 1.5 s gives those of 0 and 1
// (begun at 1.5 s), misses 2, and is cut off in that of 3; one that takes 2.5 s gives
// those of 0 and 2 and misses 1, 3 and 4.
func TestGPUWatchKeepsTime(t *testing.T) {
	for name, c := range map[string]struct {
		driver                        driver
		every, long                   time.Duration
		samples, missed, failed, asks int
	}{
		"quick":                     {driver{}, 0, 3500 * time.Millisecond, 4, 0, 0, 4},
		"slow":                      {driver{takes: 1500 * time.Millisecond}, time.Second, 3500 * time.Millisecond, 2, 1, 0, 3},
		"slower":                    {driver{takes: 2500 * time.Millisecond}, time.Second, 5500 * time.Millisecond, 2, 3, 0, 3},
		"hanging":                   {driver{hangs: true}, time.Second, 3 * time.Second, 0, 0, 0, 0},
		"failing at first":          {driver{fails: 2}, time.Second, 3500 * time.Millisecond, 2, 0, 2, 4},
		"a run of less than a tick": {driver{}, time.Second, time.Millisecond, 1, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, waited := watch(&c.driver, c.every, c.long)
				got := [...]int{r.samples, r.missed, r.failed, c.driver.samples}
				if want := [...]int{c.samples, c.missed, c.failed, c.asks}; got != want || waited != 0 {
					t.Errorf("samples, missed, failed, asked: %v, want %v; the end took %v", got, want, waited)
				}
				if c.driver.processes != 2 {
					t.Errorf("processes were asked for %d times, want at the start and the end", c.driver.processes)
				}
			})
		})
	}
}

// Temperatures are 50, 51, 52; power and utilization of the first sample are of the
// time before the load: 200 and 300 W count.
func TestGPUReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := watch(&driver{apps: "GPU-a, 4711, 10\nGPU-a, 1, 20\n"}, time.Second, 2500*time.Millisecond)
		ext := map[string]any{}
		r.set(ext)
		span := func(lo, mean, hi float64) any { return map[string]any{"min": lo, "mean": mean, "max": hi} }
		use := map[string]any{"processes": 2, "memory_bytes": int64(30 << 20), "server_known": false}
		want := map[string]any{
			"runpile.max_gpu_temperature_c":      int64(52),
			"servebench.gpu_devices":             []int{0, 1},
			"servebench.gpu_samples":             3,
			"servebench.gpu_temperature_c":       []any{span(50, 51, 52), span(40, 40, 40)},
			"servebench.gpu_power_watts":         []any{span(200, 250, 300), nil},
			"servebench.gpu_utilization_percent": []any{span(91, 91.5, 92), nil},
			"servebench.gpu_sm_clock_mhz":        []any{span(2700, 2700, 2700), span(2700, 2700, 2700)},
			"servebench.gpu_memory_clock_mhz":    []any{span(14001, 14001, 14001), span(14001, 14001, 14001)},
			"servebench.gpu_memory_used_bytes":   []any{span(1<<20, 1<<20, 1<<20), span(1<<20, 1<<20, 1<<20)},
			"servebench.gpu_processes":           map[string]any{"start": use, "end": use},
		}
		if d := cmp.Diff(want, ext); d != "" {
			t.Error(d)
		}
	})
	empty := map[string]any{}
	new(gpuReport).set(empty)
	(*gpuReport)(nil).set(empty)
	if len(empty) > 0 {
		t.Error(empty)
	}
}

// Which process is whose is only known where one of them descends from the server.
func TestGPUProcesses(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc here")
	}
	self, parent := os.Getpid(), os.Getppid()
	apps := "GPU-a, " + strconv.Itoa(self) + ", 10\nGPU-a, 1, 20\nGPU-b, " + strconv.Itoa(self) + ", 10\n"
	for _, c := range []struct {
		why    string
		server []int
		want   gpuUse
	}{
		{"a server's child and another's", []int{parent}, gpuUse{true, 3, 40 << 20, 2, true, 1, 20 << 20}},
		{"nobody knows", nil, gpuUse{true, 3, 40 << 20, 2, false, 3, 40 << 20}},
		{"the server's are not among them", []int{1 << 30}, gpuUse{true, 3, 40 << 20, 2, false, 3, 40 << 20}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := watch(&driver{apps: apps}, time.Second, 0, c.server...)
			if r.start != c.want || r.end != c.want {
				t.Errorf("%s: %+v and %+v, want %+v", c.why, r.start, r.end, c.want)
			}
			s := &session{res: &Result{}}
			w := &gpuWatch{report: *r}
			s.takeGPUs(w)
			warning := map[bool]string{true: "1 processes beside the server's computed", false: "2 processes computed on one GPU; which of them"}[c.want.known]
			if all := strings.Join(s.res.Warnings, "\n"); !strings.Contains(all, warning) {
				t.Errorf("%s: %q, want %q", c.why, all, warning)
			}
		})
	}
}

func TestTelemetryIsValid(t *testing.T) {
	for _, c := range []struct {
		t   Telemetry
		bad string
	}{
		{Telemetry{}, ""},
		{Telemetry{GPU: true, Interval: 100 * time.Millisecond, Devices: []int{0, 3}}, ""},
		{Telemetry{Interval: time.Millisecond}, "telemetry-interval: 1ms; want 100ms or more"},
		{Telemetry{Interval: -1}, "telemetry-interval: -1ns; want 100ms or more"},
		{Telemetry{Devices: []int{-1}}, "telemetry-devices: -1; want each index once, 0 or more"},
		{Telemetry{Devices: []int{1, 1}}, "telemetry-devices: 1; want each index once, 0 or more"},
	} {
		err := errors.Join(c.t.validate()...)
		if (err == nil) != (c.bad == "") || err != nil && err.Error() != c.bad {
			t.Errorf("%+v: %v, want %q", c.t, err, c.bad)
		}
	}
}

// nvidia-smi tells of this machine, which one of the servers may not be on.
func TestServersAreHere(t *testing.T) {
	for base, want := range map[string]bool{
		"http://127.0.0.1:1": true, "http://localhost:1": true, "http://[::1]:1": true,
		"http://192.0.2.1:1": false, "http://gpu.example:1": false,
	} {
		var c Config
		c.Target.BaseURL = base
		if c.here() != want {
			t.Errorf("%s: here is %v", base, !want)
		}
		c.Target.BaseURL, c.Replicas = "http://127.0.0.1:9", []string{base}
		if c.here() != want || c.loopback() != want {
			t.Errorf("%s as a replica: here is %v, on the loopback %v", base, c.here(), c.loopback())
		}
	}
}

// What no file may hold of servers. The loopback's address tells nothing.
func TestAddressesOfReplicas(t *testing.T) {
	var c Config
	c.Target.BaseURL = "http://gpu7.example:8000/v1"
	if names, numbers := c.addresses(); !slices.Equal(names, []string{"gpu7.example"}) || numbers != nil {
		t.Errorf("one server: %v, %v", names, numbers)
	}
	c.Replicas = []string{"https://u:p@gpu8.example", "http://203.0.113.9:80", "http://[2001:db8::1]:1", "http://127.0.0.1:1", "http://localhost:2"}
	names, numbers := c.addresses()
	if d := cmp.Diff([][]string{{"gpu7.example", "gpu8.example"}, {"203.0.113.9", "2001:db8::1"}}, [][]string{names, numbers}); d != "" {
		t.Error(d)
	}
	r := &Result{Config: c}
	got, _ := r.redactor().String("dial tcp 203.0.113.9:80: refused; lookup gpu8.example: no such host; dial tcp [2001:db8::1]:1; 127.0.0.1:1")
	if strings.Contains(got, "203.0.113.9") || strings.Contains(got, "gpu8") || strings.Contains(got, "2001:db8") || !strings.Contains(got, "127.0.0.1:1") {
		t.Error(got)
	}
}

// Samples without a list of processes, and a list without samples, each say so.
func TestGPUHalfWatched(t *testing.T) {
	broken := errors.New("exit status 9")
	for _, c := range []struct {
		r    gpuReport
		want string
	}{
		{gpuReport{samples: 1, unlisted: broken}, "Who computed on the GPU is not known: exit status 9."},
		{gpuReport{samples: 3, failed: 1, first: broken}, "1 of 4 looks at the GPU failed, the first: exit status 9."},
		{gpuReport{failed: 2, first: broken, start: gpuUse{asked: true}}, "No GPU was watched: exit status 9."},
		{gpuReport{}, "No GPU was watched: the timed requests ended before nvidia-smi answered."},
		{gpuReport{unlisted: broken}, "No GPU was watched: exit status 9."},
		{gpuReport{samples: 1}, ""},
	} {
		s := &session{res: &Result{}}
		s.takeGPUs(&gpuWatch{report: c.r})
		if got := strings.Join(s.res.Warnings, "\n"); got != c.want {
			t.Errorf("%+v: %q, want %q", c.r, got, c.want)
		}
	}
}
