package sweep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/bench/sweep"
	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/internal/memnet"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/manifest"
)

const ms = time.Millisecond

// world is a network in a bubble of virtual time, in which servers start.
type world struct {
	t   *testing.T
	dir string

	mu      sync.Mutex
	hosts   map[string]*memnet.Net
	started []string // the commands of the servers that were started
	alive   int
	hurried bool // the last server to be stopped had no time for it
	// fail, if set, is asked before a server starts, with how many were asked for
	// before it.
	fail func(n int, c server.Config) error
	asks int
	// handler, if set, wraps the simulator.
	handler  func(http.Handler, *fakeServer) http.Handler
	stopping func(context.Context)
}

// startTime is how long a server takes to start.
const startTime = 7 * time.Second

func (w *world) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(addr)
	w.mu.Lock()
	l := w.hosts[host]
	w.mu.Unlock()
	if l == nil {
		return nil, errors.New("connection refused")
	}
	return l.Dial(ctx, "", "")
}

// serve puts the simulator behind a name of the network.
func (w *world) serve(host string, h http.Handler) (stop func()) {
	l := memnet.New()
	w.mu.Lock()
	w.hosts[host] = l
	w.mu.Unlock()
	srv := &http.Server{Handler: h}
	ended := make(chan struct{})
	go func() { defer close(ended); srv.Serve(l) }()
	return func() { srv.Close(); <-ended }
}

// fakeServer is a server that was started: the simulator.
type fakeServer struct {
	w    *world
	url  string
	c    server.Config
	log  string
	done chan struct{}
	once sync.Once
	stop func()
	err  error
}

func (f *fakeServer) URLs() []string { return []string{f.url} }
func (f *fakeServer) Launched() []manifest.Launched {
	return []manifest.Launched{{Args: f.c.Command}}
}
func (f *fakeServer) PIDs() []int { return []int{4711} }
func (f *fakeServer) Warnings() []string {
	return []string{"uncalibrated scales in /home/somebody/model"}
}
func (f *fakeServer) Logs() []string        { return []string{f.log} }
func (f *fakeServer) Done() <-chan struct{} { return f.done }
func (f *fakeServer) Err() error            { return f.err }
func (f *fakeServer) Stop(ctx context.Context) error {
	f.w.mu.Lock()
	f.w.hurried = ctx.Err() != nil
	f.w.mu.Unlock()
	if f.w.stopping != nil {
		f.w.stopping(ctx)
	}
	f.end(nil)
	return nil
}

func (f *fakeServer) end(err error) {
	f.once.Do(func() {
		f.err = err
		f.stop()
		f.w.mu.Lock()
		f.w.alive--
		f.w.mu.Unlock()
		close(f.done)
	})
}

func (w *world) start(ctx context.Context, c server.Config) (sweep.Server, error) {
	w.mu.Lock()
	n := w.asks
	w.asks++
	w.mu.Unlock()
	select {
	case <-time.After(startTime):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if w.fail != nil {
		if err := w.fail(n, c); err != nil {
			return nil, err
		}
	}
	w.mu.Lock()
	w.started = append(w.started, strings.Join(c.Command, " "))
	w.alive++
	host := fmt.Sprintf("server-%d.test", n)
	w.mu.Unlock()
	f := &fakeServer{w: w, url: "http://" + host, c: c, done: make(chan struct{}), log: filepath.Join(w.dir, host+".log")}
	if err := os.WriteFile(f.log, []byte("ready "+c.Env["HF_TOKEN"]+"\n"), 0o600); err != nil {
		return nil, err
	}
	var h http.Handler = sim.New(sim.Config{TTFT: 50 * ms, ITL: 10 * ms})
	if w.handler != nil {
		h = w.handler(h, f)
	}
	f.stop = w.serve(host, h)
	return f, nil
}

func newWorld(t *testing.T) *world {
	return &world{t: t, dir: t.TempDir(), hosts: map[string]*memnet.Net{}}
}

// config is four requests, one after the other, of 90 ms each.
func (w *world) config() bench.Config {
	return bench.Config{
		Backend: "vllm", Model: "m", Stream: true, IgnoreEOS: true, NoTokenizer: true, MaxConcurrency: 1,
		Target:      openai.Config{BaseURL: "http://none.test", Dial: w.dial},
		Dataset:     dataset.Spec{Name: "random", Prompts: 4, InputLen: 7, OutputLen: 5},
		Rate:        loadgen.Inf,
		Pacing:      loadgen.Sleep,
		Percentiles: []float64{50, 99},
		Grace:       time.Second,
		Command:     []string{"servebench", "sweep", "-f", "x.yaml"},
	}
}

const runTime = 360 * ms

func (w *world) point(id string, command ...string) sweep.Point {
	p := sweep.Point{ID: id, Name: id, Group: "g", Config: w.config()}
	if len(command) > 0 {
		p.Server = &server.Config{Command: command, Env: map[string]string{"HF_TOKEN": "hf_canary_123456789"}}
	}
	return p
}

func experiment(points ...sweep.Point) sweep.Experiment {
	return sweep.Experiment{About: sweep.About{ID: "x", Title: "X"}, Points: points}
}

// result is what happened in a call of Run.
type result struct {
	outcomes []sweep.Outcome
	err      error
	order    []string // of the runs, in the words of line
	left     []string // the estimate after each
	notes    []string
	took     time.Duration
}

func line(s sweep.Step) string {
	return fmt.Sprintf("%d/%d %s trial %d attempt %d", s.Number, s.Of, s.Point.ID, s.Trial, s.Attempt)
}

// run runs e in dir.
func (w *world) run(dir string, e sweep.Experiment, change ...func(*sweep.Options)) result {
	var r result
	o := sweep.Options{
		Dir: dir, Start: w.start, Selected: []string{"ttft", "itl"},
		Ended: func(s sweep.Step, res *bench.Result, left sweep.Estimate) {
			r.order = append(r.order, line(s)+" "+res.Outcome)
			r.left = append(r.left, left.String())
		},
		Note: func(s string) { r.notes = append(r.notes, s) },
	}
	for _, f := range change {
		f(&o)
	}
	begin := time.Now()
	r.outcomes, r.err = sweep.Run(w.t.Context(), e, o)
	r.took = time.Since(begin)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.alive != 0 {
		w.t.Errorf("%d servers are left", w.alive)
	}
	return r
}

func resume(o *sweep.Options) { o.Resume = true }

// A run knows the processes of its server, by which telemetry tells them from others.
func TestServersProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var pids []int
		w.run(t.TempDir(), experiment(w.point("a", "vllm", "serve", "m")), func(o *sweep.Options) {
			o.Ended = func(_ sweep.Step, res *bench.Result, _ sweep.Estimate) { pids = res.Config.ServerPIDs }
		})
		same(t, "processes", pids, []int{4711})
	})
}

// statuses are the outcomes in a line each.
func statuses(outs []sweep.Outcome) (list []string) {
	for _, o := range outs {
		var trials []string
		for _, t := range o.Trials {
			trials = append(trials, t.Status)
		}
		list = append(list, fmt.Sprintf("%s %s [%s]", o.PointID, o.Status, strings.Join(trials, " ")))
	}
	return list
}

func same[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// checkFiles validates each trial's manifest and compares artifacts with files.
func checkFiles(t *testing.T, dir string, outs []sweep.Outcome) {
	t.Helper()
	for _, o := range outs {
		for _, tr := range o.Trials {
			for _, a := range tr.Artifacts {
				data, err := os.ReadFile(filepath.Join(dir, a.Filename))
				if err != nil || int64(len(data)) != a.SizeBytes {
					t.Errorf("%s: %v, %d bytes of %d", a.Filename, err, len(data), a.SizeBytes)
				}
				if !strings.HasPrefix(a.ClientArtifactID, o.PointID+"-") {
					t.Errorf("the artifact id %s does not begin with the point's", a.ClientArtifactID)
				}
				for _, secret := range []string{"hf_canary", "/home/somebody"} {
					if strings.Contains(string(data), secret) {
						t.Errorf("%s holds %s: %s", a.Filename, secret, data)
					}
				}
				if a.Kind != "runpile_run_manifest_json" {
					continue
				}
				if _, err := manifest.Validate(data); err != nil {
					t.Errorf("%s: %v", a.Filename, err)
				}
				for _, f := range manifest.Verify(data, os.DirFS(dir)) {
					if f.Severity == manifest.Fail {
						t.Errorf("%s: %v", a.Filename, f)
					}
				}
			}
		}
	}
}

// Two servers, two points on each with two trials: one start for each server, trials
// interleaved on it, and all numbers exact.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(t), t.TempDir()
		a, b, c := w.point("a", "one"), w.point("b", "one"), w.point("c", "two")
		a.Repeat, b.Repeat = 2, 2
		b.Config.Rate, b.Config.Burstiness = 4, loadgen.Inf // due at 0.25, 0.5, 0.75 and 1 s
		r := w.run(dir, experiment(a, b, c))
		if r.err != nil {
			t.Fatal(r.err)
		}
		same(t, "order", r.order, []string{
			"1/5 a trial 1 attempt 1 completed", "2/5 b trial 1 attempt 1 completed",
			"3/5 a trial 2 attempt 1 completed", "4/5 b trial 2 attempt 1 completed", "5/5 c trial 1 attempt 1 completed",
		})
		same(t, "servers", w.started, []string{"one", "two"})
		same(t, "outcomes", statuses(r.outcomes), []string{"a completed [completed completed]", "b completed [completed completed]", "c completed [completed]"})
		if want := 2*startTime + 3*runTime + 2*1090*ms; r.took != want {
			t.Errorf("it took %v, want %v", r.took, want)
		}
		// After a: b twice by its schedule of 1 s, a and c as long as a, a start of 7 s.
		// After b: b once more, as long as it took.
		same(t, "estimates", r.left, []string{"about 9.7s", "about 8.8s", "about 8.5s", "about 7.4s", "nothing"})
		checkFiles(t, dir, r.outcomes)
		var kinds []string
		for _, f := range r.outcomes[0].Trials[1].Artifacts {
			kinds = append(kinds, f.Kind+" "+f.Filename)
		}
		same(t, "artifacts", kinds, []string{
			"benchmark_result_json a-trial-2.result.json", "request_records_jsonl a-trial-2.requests.jsonl", "hdr_histogram_log a-trial-2.hdr",
			"runpile_run_manifest_json a-trial-2.manifest.json",
		})
		for _, o := range r.outcomes {
			if m := o.Trials[0].Manifest; m.Results.LatencyMS.TimeToFirstToken.P50 != 50 || len(o.Warnings) != 1 || !strings.Contains(o.Warnings[0], "uncalibrated") {
				t.Errorf("%s: TTFT %v, warnings %q", o.PointID, m.Results.LatencyMS.TimeToFirstToken.P50, o.Warnings)
			}
		}
	})
}

// A server that does not start is an outcome, and the experiment goes on. The same
// failure twice is reproducible; another point stands in its place.
func TestStartFails(t *testing.T) {
	one := 1
	for _, c := range []struct {
		name    string
		fails   []int
		retry   int
		allow   bool
		order   []string
		outcome string
		repro   *bool
		resumed int // runs when the experiment is resumed
	}{
		{"for good, twice", []int{1, 2}, 1, true, []string{"2/3 bad trial 1 attempt 1 failed", "2/3 bad trial 1 attempt 2 failed"}, "bad failed [failed]", new(bool), 0},
		{"once", []int{1}, 1, true, []string{"2/3 bad trial 1 attempt 1 failed", "2/3 bad trial 1 attempt 2 completed"}, "bad completed [completed]", nil, 0},
		{"nobody allowed it", []int{1}, 0, false, []string{"2/3 bad trial 1 attempt 1 failed"}, "bad failed [failed]", nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dir := newWorld(t), t.TempDir()
				w.fail = func(n int, _ server.Config) error {
					if slices.Contains(c.fails, n) {
						return &server.StartError{Stage: "runtime_startup", Category: "kv_cache_allocation", ExitCode: &one,
							Message: "no room for the KV cache with hf_canary_123456789", LogTail: []byte("loading /home/somebody/m\nno room hf_canary_123456789\n")}
					}
					return nil
				}
				bad := w.point("bad", "two")
				bad.OnFailure = sweep.OnFailure{Retry: c.retry}
				if c.allow {
					bad.OnFailure.Replacement = "previous_completed"
				}
				e := experiment(w.point("good", "one"), bad, w.point("after", "three"))
				r := w.run(dir, e)
				if r.err != nil {
					t.Fatal(r.err)
				}
				want := append(append([]string{"1/3 good trial 1 attempt 1 completed"}, c.order...), "3/3 after trial 1 attempt 1 completed")
				same(t, "order", r.order, want)
				o := r.outcomes[1]
				same(t, "outcome", statuses(r.outcomes)[1], c.outcome)
				checkFiles(t, dir, r.outcomes)
				if o.Status == manifest.Failed {
					if o.Failure.Category != "kv_cache_allocation" || *o.Failure.ExitCode != 1 {
						t.Errorf("the failure is %+v", *o.Failure)
					}
					log, err := os.ReadFile(filepath.Join(dir, "bad.startup.log"))
					if err != nil || string(log) != "loading <local-path>\nno room <redacted>\n" {
						t.Errorf("the log is %q, %v", log, err)
					}
					if (o.Failure.Reproducible == nil) != (c.repro == nil) || o.Failure.Reproducible != nil && !*o.Failure.Reproducible {
						t.Errorf("reproducible is %v", o.Failure.Reproducible)
					}
				}
				if c.retry > 0 && (len(o.Attempts) != 1 || len(glob(t, dir, "bad-attempt-1.*")) != 5) {
					t.Errorf("attempts %v, files %v", o.Attempts, glob(t, dir, "bad-attempt-1.*"))
				}
				again := w.run(dir, e, resume)
				if again.err != nil || len(again.order) != c.resumed {
					t.Errorf("resumed: %v, %v, want %d runs", again.err, again.order, c.resumed)
				}
			})
		})
	}
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// on_failure: stop ends the experiment; what was not run has no outcome.
func TestFailureStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(t), t.TempDir()
		w.fail = func(int, server.Config) error {
			return &server.StartError{Stage: "readiness", Category: "timeout", Message: "too late"}
		}
		bad := w.point("bad", "one")
		bad.OnFailure.Stop, bad.Repeat = true, 3
		r := w.run(dir, experiment(bad, w.point("after", "two")))
		same(t, "outcomes", statuses(r.outcomes), []string{"bad failed [failed]"})
		if r.err != nil || len(r.order) != 1 {
			t.Errorf("%v after %v", r.err, r.order)
		}
	})
}

// A server that ends in the middle of a run fails the point, though some requests
// succeeded; the next point has a new one.
func TestServerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(t), t.TempDir()
		w.handler = func(next http.Handler, f *fakeServer) http.Handler {
			if f.url != "http://server-0.test" {
				return next
			}
			time.AfterFunc(200*ms, func() { f.end(errors.New("exit status 9 in /home/somebody/vllm")) })
			return next
		}
		r := w.run(dir, experiment(w.point("a", "one"), w.point("b", "one")))
		same(t, "outcomes", statuses(r.outcomes), []string{"a failed [failed]", "b completed [completed]"})
		f := r.outcomes[0].Failure
		if r.err != nil || f == nil || f.Category != "server_exited" || f.MessageSanitized != "the server ended during the run: exit status 9 in <local-path>" {
			t.Errorf("error %v, failure %+v", r.err, f)
		}
		partial, _ := r.outcomes[0].Trials[0].Manifest.Measurement.Extensions["servebench.partial"].(map[string]any)
		if partial["successful_requests"] != 2.0 { // 90 ms each
			t.Errorf("partial %v", partial)
		}
		checkFiles(t, dir, r.outcomes)
		if len(w.started) != 2 {
			t.Errorf("servers %v", w.started)
		}
	})
}

// A server's end becomes known after its connections broke: the run still failed, and
// the next point has another server.
func TestServerEndsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(t), t.TempDir()
		w.handler = func(next http.Handler, f *fakeServer) http.Handler {
			if f.url == "http://server-0.test" {
				time.AfterFunc(200*ms, func() { f.stop() })
				time.AfterFunc(700*ms, func() { f.end(errors.New("exit status 9")) })
			}
			return next
		}
		r := w.run(dir, experiment(w.point("a", "one"), w.point("b", "one")))
		same(t, "outcomes", statuses(r.outcomes), []string{"a failed [failed]", "b completed [completed]"})
		if f := r.outcomes[0].Failure; f == nil || f.Category != "server_exited" {
			t.Errorf("failure %+v", f)
		}
	})
}

// The first signal while a server stops ends the experiment: no other is started. The
// second one ends the patience with it.
func TestInterruptedAtStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(t), t.TempDir()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stop := make(chan struct{})
		w.stopping = func(ctx context.Context) {
			time.AfterFunc(time.Second, func() { close(stop) })
			time.AfterFunc(3*time.Second, cancel)
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
				t.Error("it did not hurry")
			}
			w.stopping = nil
		}
		var starting []string
		outs, err := sweep.Run(ctx, experiment(w.point("a", "one"), w.point("b", "two")), sweep.Options{
			Dir: dir, Start: w.start, Stop: stop, Starting: func(s sweep.Step) { starting = append(starting, s.Point.ID) },
		})
		if !errors.Is(err, sweep.ErrInterrupted) {
			t.Error(err)
		}
		same(t, "outcomes", statuses(outs), []string{"a completed [completed]"})
		same(t, "starting", starting, []string{"a"})
	})
}

// A folder that was removed meanwhile is made again; what cannot be saved is told.
func TestFolderGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, parent := newWorld(t), t.TempDir()
		dir := filepath.Join(parent, "out")
		e := experiment(w.point("a", "one"))
		time.AfterFunc(startTime+100*ms, func() { os.RemoveAll(dir) })
		r := w.run(dir, e)
		same(t, "outcomes", statuses(r.outcomes), []string{"a completed [completed]"})
		checkFiles(t, dir, r.outcomes)

		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(startTime+100*ms, func() {
			os.RemoveAll(dir)
			os.WriteFile(dir, nil, 0o666)
		})
		r = w.run(dir, e)
		if !errors.Is(r.err, sweep.ErrUnsaved) {
			t.Error(r.err)
		}
		same(t, "told", r.order, []string{"1/1 a trial 1 attempt 1 completed"})
	})
}

// A run knows the processes of its server, which nvidia-smi is asked about.
func TestServerProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var pids []int
		w.run(t.TempDir(), experiment(w.point("a", "one")), func(o *sweep.Options) {
			o.Ended = func(_ sweep.Step, res *bench.Result, _ sweep.Estimate) { pids = res.Config.ServerPIDs }
		})
		same(t, "processes", pids, []int{4711})
	})
}

// A deadline interrupts the run, keeps what there is, and is final: resuming does
// not run the point again, unless it is named.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(t), t.TempDir()
		a := w.point("a", "one")
		a.Deadline = 200 * ms // in the third request, which has its grace
		a.Config.Dataset.Warmups = 3
		e := experiment(a, w.point("b", "one"))
		r := w.run(dir, e)
		same(t, "outcomes", statuses(r.outcomes), []string{"a interrupted [interrupted]", "b completed [completed]"})
		m := r.outcomes[0].Trials[0].Manifest
		partial, _ := m.Measurement.Extensions["servebench.partial"].(map[string]any)
		if r.err != nil || partial["successful_requests"] != 3.0 || !slices.Contains(m.Warnings, "The deadline of 200ms ended the timed run.") {
			t.Errorf("error %v, partial %v, warnings %q", r.err, partial, m.Warnings)
		}
		if again := w.run(dir, e, resume); again.err != nil || len(again.order) != 0 || len(again.outcomes) != 2 {
			t.Errorf("resumed: %v, %v", again.err, again.order)
		}
		named := w.run(dir, e, resume, func(o *sweep.Options) { o.Only = []string{"a"} })
		same(t, "named", named.order, []string{"1/2 a trial 1 attempt 1 interrupted"})
	})
}

// A deadline before anything completed is a failure that says so.
func TestDeadlineBeforeAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(t), t.TempDir()
		a := w.point("a", "one")
		a.Deadline, a.Config.Grace = 40*ms, 10*ms // the first answer takes 90 ms
		r := w.run(dir, experiment(a))
		same(t, "outcomes", statuses(r.outcomes), []string{"a failed [failed]"})
		f := r.outcomes[0].Failure
		if r.err != nil || f.Category != "deadline" || f.MessageSanitized != "the deadline of 40ms ended the timed run before any request completed" {
			t.Errorf("%v, %+v", r.err, f)
		}
		checkFiles(t, dir, r.outcomes)
	})
}

// The server refuses all requests of a point at first: it is tried again with
// another server.
func TestTargetFailsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(t), t.TempDir()
		w.handler = func(next http.Handler, f *fakeServer) http.Handler {
			return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if f.url == "http://server-0.test" && r.Method == http.MethodPost {
					http.Error(rw, "no", http.StatusServiceUnavailable)
					return
				}
				next.ServeHTTP(rw, r)
			})
		}
		a := w.point("a", "one")
		a.OnFailure.Retry = 2
		r := w.run(dir, experiment(a, w.point("b", "one")))
		same(t, "order", r.order, []string{"1/2 a trial 1 attempt 1 failed", "1/2 a trial 1 attempt 2 completed", "2/2 b trial 1 attempt 1 completed"})
		o := r.outcomes[0]
		if r.err != nil || len(w.started) != 2 || len(o.Attempts) != 1 || o.Attempts[0].Category != "http_503" || o.Failure != nil {
			t.Errorf("%v, servers %v, attempts %+v", r.err, w.started, o.Attempts)
		}
		checkFiles(t, dir, r.outcomes)
	})
}

// The user ends the experiment in the middle of a run: softly, or at once. What was
// measured is kept aside, and resuming runs that point again and what follows.
func TestInterrupted(t *testing.T) {
	for _, hard := range []bool{false, true} {
		t.Run(fmt.Sprintf("hard=%v", hard), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dir := newWorld(t), t.TempDir()
				b := w.point("b", "one")
				b.Repeat = 2
				e := experiment(w.point("a", "one"), b, w.point("c", "one"))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				stop := make(chan struct{})
				time.AfterFunc(startTime+runTime+200*ms, func() { // 200 ms into b
					if hard {
						cancel()
					} else {
						close(stop)
					}
				})
				outs, err := sweep.Run(ctx, e, sweep.Options{Dir: dir, Start: w.start, Stop: stop})
				if !errors.Is(err, sweep.ErrInterrupted) || w.alive != 0 || w.hurried != hard {
					t.Errorf("error %v, %d servers left, the last hurried: %v", err, w.alive, w.hurried)
				}
				same(t, "outcomes", statuses(outs), []string{"a completed [completed]", "b interrupted [interrupted]"})
				partial, _ := outs[1].Trials[0].Manifest.Measurement.Extensions["servebench.partial"].(map[string]any)
				if want := map[bool]float64{false: 3, true: 2}[hard]; partial["successful_requests"] != want {
					t.Errorf("partial %v, want %v requests", partial, want)
				}
				if refused := w.run(dir, e); refused.err == nil || !strings.Contains(refused.err.Error(), "want to resume") {
					t.Errorf("begun anew: %v", refused.err)
				}
				r := w.run(dir, e, resume)
				same(t, "order", r.order, []string{"2/4 b trial 1 attempt 1 completed", "3/4 c trial 1 attempt 1 completed", "4/4 b trial 2 attempt 1 completed"})
				same(t, "outcomes", statuses(r.outcomes), []string{"a completed [completed]", "b completed [completed completed]", "c completed [completed]"})
				checkFiles(t, dir, r.outcomes)
				if files := glob(t, dir, "b-trial-1-attempt-1.*"); len(files) != 4 { // it logged nothing
					t.Errorf("set aside: %v", files)
				}
				aside, err := os.ReadFile(filepath.Join(dir, "b-trial-1-attempt-1.manifest.json"))
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range manifest.Verify(aside, os.DirFS(dir)) {
					if f.Severity == manifest.Fail {
						t.Errorf("what was set aside does not verify: %v", f)
					}
				}
			})
		})
	}
}

// Ended while a server starts: at once, and nothing is recorded.
func TestInterruptedAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(t), t.TempDir()
		stop := make(chan struct{})
		time.AfterFunc(3*time.Second, func() { close(stop) })
		r := w.run(dir, experiment(w.point("a", "one")), func(o *sweep.Options) { o.Stop = stop })
		if !errors.Is(r.err, sweep.ErrInterrupted) || len(r.outcomes) != 0 || r.took != 3*time.Second {
			t.Errorf("error %v, outcomes %v after %v", r.err, r.outcomes, r.took)
		}
	})
}

// Killed at any moment, the folder as it is then is enough to go on: each trial is
// there, or is run again.
func TestKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(t), t.TempDir()
		a, b := w.point("a", "one"), w.point("b", "one")
		a.Repeat, b.Repeat = 2, 2
		e := experiment(a, b, w.point("c", "two"))
		all := []string{
			"1/5 a trial 1 attempt 1 completed", "2/5 b trial 1 attempt 1 completed", "3/5 a trial 2 attempt 1 completed",
			"4/5 b trial 2 attempt 1 completed", "5/5 c trial 1 attempt 1 completed",
		}
		var snaps []string
		var done []int // trials that were saved by then
		ended := 0
		snap := func() {
			copied := t.TempDir()
			if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			snaps, done = append(snaps, copied), append(done, ended)
		}
		r := w.run(dir, e, func(o *sweep.Options) {
			report := o.Ended
			o.Began = func(sweep.Step) *bench.Progress { snap(); return nil }
			o.Ended = func(s sweep.Step, res *bench.Result, left sweep.Estimate) {
				ended++
				snap()
				report(s, res, left)
			}
		})
		same(t, "order", r.order, all)
		if len(snaps) != 10 {
			t.Fatalf("%d moments", len(snaps))
		}
		for i, d := range snaps {
			again := w.run(d, e, resume)
			if again.err != nil {
				t.Fatal(again.err)
			}
			same(t, fmt.Sprintf("order after %d trials", done[i]), append(slices.Clone(all[:done[i]]), again.order...), all)
			same(t, "outcomes", statuses(again.outcomes), statuses(r.outcomes))
			checkFiles(t, d, again.outcomes)
		}
	})
}

// Between the files and the state a kill leaves files that nobody knows of: the
// trial is run again, and they are not overwritten.
func TestKilledBeforeTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(t), t.TempDir()
		e := experiment(w.point("a", "one"))
		if r := w.run(dir, e); r.err != nil {
			t.Fatal(r.err)
		}
		if err := os.Remove(filepath.Join(dir, "x.state.json")); err != nil {
			t.Fatal(err)
		}
		r := w.run(dir, e, resume)
		if r.err != nil || len(r.order) != 1 || len(glob(t, dir, "a-attempt-1.*")) != 5 || !strings.Contains(strings.Join(r.outcomes[0].Warnings, " "), "a-attempt-1") {
			t.Errorf("%v, %v, %v, %q", r.err, r.order, glob(t, dir, "a-attempt-1.*"), r.outcomes[0].Warnings)
		}
	})
}

// Resuming tells what is not as it was, and runs it.
func TestResumeTellsWhatChanged(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(w *world, dir string, e *sweep.Experiment)
		order  []string
		note   string
	}{
		{"nothing", func(*world, string, *sweep.Experiment) {}, nil, "0 of 2 runs are left"},
		{"a point's load", func(_ *world, _ string, e *sweep.Experiment) { e.Points[0].Config.MaxConcurrency = 2 },
			[]string{"1/2 a trial 1 attempt 1 completed"}, "point a has changed"},
		{"a point's server", func(_ *world, _ string, e *sweep.Experiment) {
			e.Points[1].Server = &server.Config{Command: []string{"two"}}
		},
			[]string{"2/2 b trial 1 attempt 1 completed"}, "point b has changed"},
		{"its name, its command line, its id prefix", func(_ *world, _ string, e *sweep.Experiment) {
			e.Points[0].Name, e.Points[0].Config.Command, e.Points[0].Config.RequestIDPrefix = "other", nil, "bench-1-"
		}, nil, "0 of 2"},
		{"a new point", func(w *world, _ string, e *sweep.Experiment) { e.Points = append(e.Points, w.point("n", "one")) },
			[]string{"3/3 n trial 1 attempt 1 completed"}, "1 of 3"},
		{"a point less", func(_ *world, _ string, e *sweep.Experiment) { e.Points = e.Points[:1] }, nil, "point b is no more"},
		{"a file that is gone", func(_ *world, dir string, _ *sweep.Experiment) { os.Remove(filepath.Join(dir, "a.requests.jsonl")) },
			[]string{"1/2 a trial 1 attempt 1 completed"}, "its file a.requests.jsonl is gone"},
		{"a file that was changed", func(_ *world, dir string, _ *sweep.Experiment) {
			os.WriteFile(filepath.Join(dir, "b.result.json"), []byte("{}"), 0o600)
		}, []string{"2/2 b trial 1 attempt 1 completed"}, "its file b.result.json has changed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, dir := newWorld(t), t.TempDir()
				e := experiment(w.point("a", "one"), w.point("b", "one"))
				if r := w.run(dir, e); r.err != nil {
					t.Fatal(r.err)
				}
				c.change(w, dir, &e)
				r := w.run(dir, e, resume)
				if r.err != nil || !strings.Contains(strings.Join(r.notes, "\n"), c.note) {
					t.Errorf("error %v, notes %q, want %q", r.err, r.notes, c.note)
				}
				same(t, "order", r.order, c.order)
				if len(r.outcomes) != len(e.Points) {
					t.Errorf("outcomes %v", statuses(r.outcomes))
				}
			})
		})
	}
}

// More trials than before are run in addition.
func TestMoreTrials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(t), t.TempDir()
		p := w.point("a", "one")
		p.Repeat = 2
		e := experiment(p)
		w.run(dir, e)
		e.Points[0].Repeat = 3
		r := w.run(dir, e, resume)
		same(t, "order", r.order, []string{"3/3 a trial 3 attempt 1 completed"})
		same(t, "outcomes", statuses(r.outcomes), []string{"a completed [completed completed completed]"})
	})
}

// One process works on a folder at a time.
func TestLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(t), t.TempDir()
		e := experiment(w.point("a", "one"))
		var second error
		r := w.run(dir, e, func(o *sweep.Options) {
			o.Began = func(sweep.Step) *bench.Progress {
				_, second = sweep.Run(t.Context(), e, sweep.Options{Dir: dir, Resume: true, Start: w.start})
				return nil
			}
		})
		if r.err != nil || second == nil || !strings.Contains(second.Error(), "another servebench works on") {
			t.Errorf("errors %v and %v", r.err, second)
		}
	})
}

// A server of the user's is measured as it is, and needs no start.
func TestUnmanaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, dir := newWorld(t), t.TempDir()
		defer w.serve("mine.test", sim.New(sim.Config{TTFT: 50 * ms, ITL: 10 * ms}))()
		a, b := w.point("a"), w.point("b")
		a.Config.Target.BaseURL, b.Config.Target.BaseURL = "http://mine.test", "http://mine.test"
		b.Config.MaxConcurrency = 4
		r := w.run(dir, experiment(a, b), func(o *sweep.Options) { o.Start = nil })
		if r.err != nil || r.took != runTime+90*ms {
			t.Errorf("%v after %v", r.err, r.took)
		}
		// One at a time a request took 90 ms: four at a time take as long at least,
		// and 360 ms at most.
		same(t, "estimates", r.left, []string{"100ms to 400ms", "nothing"})
	})
}

// A mistake ends an experiment that has measured nothing; later it is a failure of
// its point.
func TestMistakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		bad := w.point("bad", "one")
		bad.Config.Dataset = dataset.Spec{Name: "custom", Path: "none.jsonl", Prompts: 1, OutputLen: 1}
		r := w.run(t.TempDir(), experiment(bad, w.point("a", "one")))
		if r.err == nil || !strings.Contains(r.err.Error(), "point bad:") || !strings.Contains(r.err.Error(), "none.jsonl") || len(r.outcomes) != 0 {
			t.Errorf("first: %v, %v", r.err, r.outcomes)
		}
		dir := t.TempDir()
		r = w.run(dir, experiment(w.point("a", "one"), bad, w.point("b", "one")))
		same(t, "outcomes", statuses(r.outcomes), []string{"a completed [completed]", "bad failed [failed]", "b completed [completed]"})
		if f := r.outcomes[1].Failure; r.err != nil || f.Stage != "preparation" || f.Category != "configuration" {
			t.Errorf("later: %v, %+v", r.err, f)
		}
		checkFiles(t, dir, r.outcomes)
	})
}

func TestCheck(t *testing.T) {
	w := newWorld(t)
	a, b := w.point("a"), w.point("a-trial-1")
	a.Repeat = 2
	c := w.point("../c")
	c.Config.MaxConcurrency = -1
	c.OnFailure.Replacement = "nobody"
	e := experiment(a, b, c)
	e.About.ID = ""
	err := e.Check()
	for _, want := range []string{`experiment ""`, "points a and a-trial-1 would write the same files", `point "../c"`, "point ../c: max-concurrency: -1", `"nobody" is no point`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	_, err = sweep.Run(t.Context(), experiment(w.point("a")), sweep.Options{Dir: t.TempDir(), Only: []string{"z"}})
	if err == nil || !strings.Contains(err.Error(), `"z" is no point of the experiment; it has a`) {
		t.Errorf("only: %v", err)
	}
}

// Left looks and touches nothing.
func TestLeft(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(t.TempDir(), "new")
	steps, left, _, err := sweep.Left(experiment(w.point("a", "one"), w.point("b", "one")), sweep.Options{Dir: dir})
	if err != nil || len(steps) != 2 || left.String() != "2 runs of unknown length and 1 server start of unknown length" {
		t.Errorf("%v, %v, %v", steps, left, err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("the folder was made")
	}
}

// A point goes through JSON and back, and is the same point.
func TestPointIsPlainData(t *testing.T) {
	w := newWorld(t)
	p := w.point("a", "one")
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back sweep.Point
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil || string(again) != string(data) {
		t.Errorf("%v: %s became %s", err, data, again)
	}
}
