package selftest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/metrics"
)

// ITL is the simulator's time between tokens at every step.
const ITL = 10 * time.Millisecond

// promptTokens are those of a prompt: prompts do not matter here.
const promptTokens = 32

// Defaults of a [Config].
var DefaultConcurrency = []int{1, 16, 100, 500, 1000, 2000}

const (
	DefaultDuration = 8 * time.Second
	// Budget bounds all steps together.
	Budget = 2 * time.Minute
)

// Simulator is a server that says when it wrote what, in a process of its own.
type Simulator struct {
	URL string
	// Stop ends it and returns the CPU time it used, where that is known.
	Stop func() (cpu time.Duration, known bool, err error)
}

// Config says what to run. Start must be set.
type Config struct {
	Concurrency []int         // streams of each step, rising
	Duration    time.Duration // of a step's streams, if nothing is late
	Budget      time.Duration // of all; 0 is [Budget]
	// Start starts a simulator with --truth whose first token takes ttft and
	// every further one itl.
	Start func(ctx context.Context, ttft, itl time.Duration) (*Simulator, error)
	// Streams is how many can be open for lack of descriptors; 0 is not known.
	Streams int
	// Began and Ended, if set, are called around each step.
	Began func(streams int, p *bench.Progress)
	Ended func(Step)
}

// Validate tells everything that is wrong, under the names of the flags.
func (c *Config) Validate() error {
	var errs []error
	for i, n := range c.Concurrency {
		if n < 1 || n > 1<<16 {
			errs = append(errs, fmt.Errorf("concurrency: %d; want 1 to %d", n, 1<<16))
		}
		if i > 0 && n <= c.Concurrency[i-1] {
			errs = append(errs, fmt.Errorf("concurrency: %d after %d; want rising numbers", n, c.Concurrency[i-1]))
		}
	}
	if len(c.Concurrency) == 0 || len(c.Concurrency) > 64 {
		errs = append(errs, fmt.Errorf("concurrency: %d numbers; want 1 to 64", len(c.Concurrency)))
	}
	if c.Duration < time.Second || c.Duration > time.Minute {
		errs = append(errs, fmt.Errorf("duration: %v; want 1s to 1m", c.Duration))
	}
	return errors.Join(errs...)
}

// Step is one concurrency. Its durations are in milliseconds.
type Step struct {
	Concurrency     int     `json:"concurrency"`
	Requests        int     `json:"requests"`
	Events          int     `json:"events"`
	Duration        float64 `json:"duration_ms"`
	EventsPerSecond float64 `json:"events_per_s"`
	// CPU time of a process over the events: of the client while its timed
	// requests ran, of the simulator from its start to its end.
	ClientCPU    *float64 `json:"client_cpu_per_event_ms"`
	SimulatorCPU *float64 `json:"simulator_cpu_per_event_ms"`
	Truth        Truth    `json:"truth"`
	// Kernel is by the kernel's receive stamps, nil where there were none; Read
	// by the time of reading, which is what a client without them has.
	Kernel        *Errors  `json:"kernel_stamps"`
	Read          Errors   `json:"read_times"`
	RxDelay       *Delay   `json:"rx_delay_ms"` // nil without kernel stamps
	EventsPerRead *float64 `json:"events_per_read"`
	// Verdict is the run's, VerdictUnstamped that of the same figures under the
	// limits for a client without kernel stamps.
	Verdict          metrics.Verdict `json:"verdict"`
	Reasons          []string        `json:"verdict_reasons"`
	VerdictUnstamped metrics.Verdict `json:"verdict_without_stamps"`
}

// Delay is how much later events were read than received, in milliseconds.
type Delay struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Run runs the steps. Where there is at least one, it returns a report, also
// beside an error: ctx's, where that ended first.
func Run(ctx context.Context, c Config) (*Report, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Budget == 0 {
		c.Budget = Budget
	}
	r := &Report{ITL: float64(ITL) / 1e6, At: time.Now().UTC().Truncate(time.Second), Steps: []Step{}}
	limited, cancel := context.WithTimeout(ctx, c.Budget)
	defer cancel()
	deadline, last := time.Now().Add(c.Budget), pastStep{}
	for _, n := range c.Concurrency {
		if r.Stopped = c.stops(n, time.Until(deadline), last); r.Stopped != "" {
			break
		}
		began := time.Now()
		s, err := c.step(limited, n)
		switch {
		case ctx.Err() != nil:
			return r.end(), context.Cause(ctx)
		case limited.Err() != nil:
			r.Stopped = fmt.Sprintf("%d streams were not through when the %v were over", n, c.Budget)
		case err != nil && len(r.Steps) == 0:
			return nil, err
		case err != nil:
			r.Stopped = fmt.Sprintf("%d streams: %v", n, err)
		}
		if r.Stopped != "" {
			break
		}
		r.Steps = append(r.Steps, *s)
		if c.Ended != nil {
			c.Ended(*s)
		}
		last = pastStep{n, time.Since(began)}
	}
	return r.end(), nil
}

// pastStep is how long a step took from start to end.
type pastStep struct {
	streams int
	took    time.Duration
}

// stops says why there is to be no step of n streams, "" where there is.
func (c *Config) stops(n int, left time.Duration, last pastStep) string {
	if c.Streams > 0 && n > c.Streams {
		return fmt.Sprintf("%d streams need more open files than are allowed, which is enough for %d (ulimit -n)", n, c.Streams)
	}
	need := c.Duration
	if last.took > 0 {
		need = last.took
		// A step that took far longer had more events than these cores carry.
		if last.took > c.Duration*3/2 {
			need = time.Duration(float64(last.took) * float64(n) / float64(last.streams))
		}
	}
	if need > left {
		return fmt.Sprintf("%d streams would take about %v, and %v are left of %v", n, need.Round(time.Second), max(left, 0).Round(time.Second), c.Budget)
	}
	return ""
}

// shape is what the requests of a step are: as many as make a median of TTFT, in
// rounds, and as long as the time allows. From 16 streams on there is one round: a
// second would begin with a burst, as all requests of the first end at once. The
// first token waits until a burst of n requests has been sent and read.
func shape(n int, d time.Duration) (requests, tokens int, ttft time.Duration) {
	const fewest, shortest = 16, 25
	ttft = min(max(time.Duration(n)*time.Millisecond, 50*time.Millisecond), 500*time.Millisecond)
	rounds := min((fewest+n-1)/n, max(1, int(d/(ttft+shortest*ITL))))
	return n * rounds, max(2, 1+int((d/time.Duration(rounds)-ttft)/ITL)), ttft
}

// step runs one concurrency against a simulator of its own.
func (c *Config) step(ctx context.Context, n int) (*Step, error) {
	requests, tokens, ttft := shape(n, c.Duration)
	sim, err := c.Start(ctx, ttft, ITL)
	if err != nil {
		return nil, fmt.Errorf("start the simulator: %w", err)
	}
	p := &bench.Progress{}
	var watch cpuWatch
	p.Entered = watch.entered
	if c.Began != nil {
		c.Began(n, p)
	}
	zero := 0.0
	res, err := bench.Run(ctx, bench.Config{
		Backend: "openai", Model: "selftest", NoTokenizer: true, Stream: true, IgnoreEOS: true,
		Target:   openai.Config{BaseURL: sim.URL, Insecure: strings.HasPrefix(sim.URL, "https:"), Truth: true},
		Sampling: openai.Sampling{Temperature: &zero}, MaxConcurrency: n, Progress: p,
		Dataset: dataset.Spec{Name: "random", Prompts: requests, InputLen: promptTokens, OutputLen: tokens},
	})
	cpu, known, stopErr := sim.Stop()
	switch {
	case err != nil:
		return nil, err
	case res.Stopped || res.Summary.Completed != requests:
		return nil, fmt.Errorf("%d of %d requests completed%s", res.Summary.Completed, requests, firstError(res.Records))
	case stopErr != nil:
		return nil, fmt.Errorf("the simulator: %w", stopErr)
	}
	s, err := newStep(res)
	if err != nil {
		return nil, err
	}
	s.Concurrency = n
	s.ClientCPU = perEvent(watch.used, watch.known, s.Events)
	s.SimulatorCPU = perEvent(cpu, known, s.Events)
	return s, nil
}

func firstError(records []metrics.Record) string {
	i := slices.IndexFunc(records, func(r metrics.Record) bool { return r.Error != "" })
	if i < 0 {
		return ""
	}
	return ", the first failure: " + records[i].Error
}

// cpuWatch measures the CPU time of this process from the first timed request to
// the end of the last.
type cpuWatch struct {
	began, used time.Duration
	known       bool
}

func (w *cpuWatch) entered(phase string) {
	switch phase {
	case "run":
		w.began, w.known = bench.ProcessCPU()
	case "results":
		end, ok := bench.ProcessCPU()
		w.used, w.known = end-w.began, w.known && ok
	}
}

func perEvent(cpu time.Duration, known bool, events int) *float64 {
	if !known || events == 0 {
		return nil
	}
	v := float64(cpu) / 1e6 / float64(events)
	return &v
}

// newStep compares what a run measured with what the simulator did.
func newStep(res *bench.Result) (*Step, error) {
	s := &Step{Requests: res.Summary.Completed, Duration: float64(res.Duration) / 1e6}
	var kernel, read Comparison
	var late []time.Duration
	for i := range res.Records {
		r := &res.Records[i]
		if r.Truth == nil || r.Truth.Arrived == 0 || slices.Contains(r.Truth.Sent, 0) {
			return nil, errors.New("the server's events do not say when they were sent; want `servebench sim --truth`")
		}
		p := Pair{Sent: r.Sent, Arrivals: r.Arrivals, Arrived: r.Truth.Arrived, Writes: r.Truth.Sent}
		late = append(late[:0], r.Arrivals...)
		for i, d := range r.RxDelay {
			late[i] += d
		}
		if err := errors.Join(kernel.Add(p), read.Add(Pair{p.Sent, late, p.Arrived, p.Writes})); err != nil {
			return nil, err
		}
		s.Events += len(r.Arrivals)
	}
	s.EventsPerSecond = float64(s.Events) / res.Duration.Seconds()
	s.Truth, s.Read = read.Truth(), read.Errors()
	f := *res.Figures
	s.EventsPerRead = f.EventsPerRead
	if f.KernelStamps {
		e := kernel.Errors()
		s.Kernel = &e
		if d := res.Summary.RxDelay; d != nil {
			p99, _ := d.Percentile(99)
			s.RxDelay = &Delay{d.Median, p99}
		}
	}
	s.judge(res, f)
	return s, nil
}

// judge takes over the run's verdict and makes that of a client without stamps: what it
// would have is the same but for what stamps alone tell, and their limits.
func (s *Step) judge(res *bench.Result, f metrics.Figures) {
	s.Verdict, s.Reasons = res.Judgement.Verdict, res.Reasons()
	f.KernelStamps, f.RxDelay, f.Merged, f.Even = false, nil, nil, nil
	s.VerdictUnstamped = metrics.Judge(f, metrics.DefaultLimits).Verdict
}
