package sweep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/manifest"
	"github.com/servebench/servebench/metrics"
)

// words writes a plan as "^a1 b1": ^ is a server start, the number is the trial's.
func words(steps []Step) string {
	var list []string
	for _, s := range steps {
		w := fmt.Sprintf("%s%d", s.Point.ID, s.Trial)
		if s.Starts {
			w = "^" + w
		}
		list = append(list, w)
	}
	return strings.Join(list, " ")
}

func TestPlan(t *testing.T) {
	// point is written "id server repeat": a server "-" is none, "!x" restarts.
	point := func(text string) Point {
		f := strings.Fields(text)
		p := Point{ID: f[0]}
		fmt.Sscan(f[2], &p.Repeat)
		if f[1] != "-" {
			name, restart := strings.CutPrefix(f[1], "!")
			p.Server, p.Restart = &server.Config{Command: []string{name}}, restart
		}
		return p
	}
	for _, c := range []struct {
		name      string
		points    []string
		asWritten bool
		want      string
	}{
		{"one server is kept", []string{"a x 0", "b x 1", "c y 1"}, false, "^a1 b1 ^c1"},
		{"trials are interleaved on a server, not over servers", []string{"a x 2", "b x 3", "c y 2"}, false, "^a1 b1 a2 b2 b3 ^c1 c2"},
		{"as written", []string{"a x 2", "b x 2"}, true, "^a1 a2 b1 b2"},
		{"a server comes back: it is started again", []string{"a x 1", "b y 1", "c x 1"}, false, "^a1 ^b1 ^c1"},
		{"restarts cost the same in any order", []string{"a !x 2", "b !y 2"}, false, "^a1 ^b1 ^a2 ^b2"},
		{"a restart among others", []string{"a x 2", "b !x 2", "c x 1"}, false, "^a1 a2 ^b1 ^b2 c1"},
		{"no server", []string{"a - 2", "b - 2"}, false, "a1 b1 a2 b2"},
		{"with and without a server", []string{"a - 2", "b x 2"}, false, "a1 a2 ^b1 b2"},
	} {
		var e Experiment
		for _, p := range c.points {
			e.Points = append(e.Points, point(p))
		}
		e.AsWritten = c.asWritten
		if got := words(Plan(e)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// What a trial takes: of its own point the mean; else by its schedule or by what
// requests took.
func TestEstimate(t *testing.T) {
	const s = time.Second
	point := func(id string, n, c int, rate loadgen.Number) *Point {
		return &Point{ID: id, Config: bench.Config{Dataset: dataset.Spec{Name: "random", Prompts: n}, MaxConcurrency: c, Rate: rate}}
	}
	closed, open := point("closed", 100, 4, loadgen.Inf), point("open", 100, 0, 10)
	short := point("short", 100, 4, loadgen.Inf)
	short.Deadline = 5 * s
	trace := point("trace", 100, 0, loadgen.Inf)
	trace.Config.Dataset.Name = "timed_trace"
	// One at a time a request took 2 s; ten at a time 5 s, that is 0.5 s of the whole.
	measured := []sample{{"one", 10, 1, true, 20 * s, 22 * s}, {"ten", 10, 10, true, 5 * s, 9 * s}}
	for _, c := range []struct {
		name  string
		past  past
		steps []Step
		want  string
	}{
		{"nothing is left", past{}, nil, "nothing"},
		{"nothing is known", past{}, []Step{{Point: closed, Starts: true}}, "1 run of unknown length and 1 server start of unknown length"},
		{"an open loop is its schedule", past{}, []Step{{Point: open}, {Point: trace}}, "about 10s and 1 run of unknown length"},
		{"starts take the mean", past{starts: []time.Duration{10 * s, 20 * s}}, []Step{{Point: open, Starts: true}}, "about 25s"},
		{"own trials before", past{samples: []sample{{"closed", 100, 4, true, 30 * s, 40 * s}, {"closed", 100, 4, true, 30 * s, 50 * s}}}, []Step{{Point: closed}}, "about 45s"},
		// 100 requests of 2 s at least, 4 at a time: 50 s; 200 s at most, as with one
		// at a time. Before the timed part went 3 s on average.
		{"a closed loop by its requests", past{samples: measured}, []Step{{Point: closed}}, "53s to 3m23s"},
		{"the order does not matter", past{samples: []sample{measured[1], measured[0]}}, []Step{{Point: closed}}, "53s to 3m23s"},
		{"fewer than were measured", past{samples: measured[1:]}, []Step{{Point: closed}}, "about 2m9s"}, // 5 s each, and 4 s before
		{"a deadline bounds it", past{samples: measured}, []Step{{Point: short}}, "about 8s"},
		{"an open loop's requests tell nothing", past{samples: []sample{{"open", 100, 100, false, 10 * s, 10 * s}}}, []Step{{Point: closed}}, "1 run of unknown length"},
	} {
		if got := c.past.estimate(c.steps).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// A long log keeps its beginning and its end, and what was read is not read again.
func TestReadSince(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	head, tail := strings.Repeat("h", logHead), strings.Repeat("t", logTail)
	if err := os.WriteFile(path, []byte(head+"middle"+tail), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	end, err := readSince(&b, path, 0)
	want := head + "\n[servebench: 6 bytes of the log are left out]\n" + tail
	if err != nil || b.String() != want || end != int64(logHead+logTail+6) {
		t.Errorf("%d bytes, end %d, %v", b.Len(), end, err)
	}
	b.Reset()
	if again, err := readSince(&b, path, end-3); err != nil || b.String() != "ttt" || again != end {
		t.Errorf("%q to %d, %v", b.String(), again, err)
	}
}

// The commands of a server that did not start, one for each replica.
func TestLaunched(t *testing.T) {
	got := (&server.Config{
		Command: []string{"vllm", "--port", "{port}", "--host={host}", "{x}"}, Env: map[string]string{"GPU": "{device}"},
		Port: 9000, Replicas: 2, Devices: []int{4, 5, 6, 7},
	}).Launched()
	want := []manifest.Launched{
		{Args: []string{"vllm", "--port", "9000", "--host=127.0.0.1", "{x}"}, Env: map[string]string{"GPU": "4,5", "CUDA_VISIBLE_DEVICES": "4,5"}},
		{Args: []string{"vllm", "--port", "9001", "--host=127.0.0.1", "{x}"}, Env: map[string]string{"GPU": "6,7", "CUDA_VISIBLE_DEVICES": "6,7"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The same prompts to the same server are a doubt, unless it has no cache of them.
func TestRepeated(t *testing.T) {
	r := &runner{sent: map[[2]string]string{}}
	run := func(name, url, sum string, uncached bool, change func(*bench.Result)) string {
		res := &bench.Result{Plan: &bench.Plan{SHA256: sum}, Records: make([]metrics.Record, 1)}
		if change != nil {
			change(res)
		}
		return r.repeated(name, url, uncached, res)
	}
	const told = "The run a sent the same prompts to this server before: a prefix cache may hold them, and was not reset."
	for i, c := range []struct {
		url, sum string
		uncached bool
		change   func(*bench.Result)
		want     string
	}{
		{"x", "1", false, nil, ""}, // the run a
		{"x", "1", false, nil, told},
		{"x", "2", false, nil, ""},
		{"y", "1", false, nil, ""},
		{"x", "1", true, nil, ""},
		{"x", "1", false, func(r *bench.Result) { r.Config.ResetPrefixCache = true }, ""},
		{"x", "1", false, func(r *bench.Result) { r.Engine.Simulated = true }, ""},
		{"x", "", false, nil, ""},
	} {
		if got := run(string(rune('a'+i)), c.url, c.sum, c.uncached, c.change); got != c.want {
			t.Errorf("run %d: %q, want %q", i, got, c.want)
		}
	}
	if !launchedWithoutCache([]manifest.Launched{{Args: []string{"vllm", "--no-enable-prefix-caching"}}}) || launchedWithoutCache(nil) {
		t.Error("the launch is not read")
	}
}

// A server that ended in a way its log explains.
func TestExited(t *testing.T) {
	code := 1
	red := &manifest.Redactor{Home: "/home/somebody"}
	got := exited(&server.StartError{Stage: "runtime", Category: "out_of_memory", ExitCode: &code, Message: "CUDA out of memory in /home/somebody/x.py"}, red)
	want := &manifest.Failure{Stage: "timed_run", Category: "out_of_memory", ExitCode: &code, MessageSanitized: "the server ended during the run: CUDA out of memory in <local-path>"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What a server was given as a secret is one in its log.
func TestServerSecrets(t *testing.T) {
	p := Point{Config: bench.Config{Backend: "vllm"}, Server: &server.Config{
		Command: []string{"vllm", "serve", "--api-key", "first-canary", "--api-key=second-canary", "--max-tokens", "77777777"},
		Env:     map[string]string{"HF_TOKEN": "third-canary", "TOKENIZERS_PARALLELISM": "false", "MAX_TOKENS": "88888888"},
	}}
	r := &runner{Options: Options{Secrets: []string{"fourth-canary"}}}
	got, _ := r.redactor(Step{Point: &p}, &bench.Result{}).String("first-canary second-canary third-canary fourth-canary false 77777777 88888888")
	if want := "<redacted> <redacted> <redacted> <redacted> false 77777777 88888888"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// FuzzState: whatever is in a state file is refused or goes round.
func FuzzState(f *testing.F) {
	code := 1
	s := &state{Format: stateFormat, Experiment: "x", Starts: []float64{1.5}, Points: map[string]*pointState{
		"a": {Digest: "d", Warnings: []string{"w"}, Trials: map[int]*trialState{1: {
			Trial:    Trial{Status: "failed", Artifacts: []manifest.Artifact{{Kind: kindLog, Filename: "a.server.log"}}},
			Failures: []manifest.Failure{{Stage: "s", Category: "c", ExitCode: &code}}, Requests: 4, Concurrency: 1, Took: 2,
		}}},
	}}
	data, err := json.Marshal(s)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	for _, bad := range []string{`{}`, `null`, `{"format":1,"points":{"a":null}}`, `{"format":1,"points":{"a":{"trials":{"0":{}}}}}`, `{"format":1}{}`, `{"format":2}`} {
		f.Add([]byte(bad))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := parseState(data)
		if err != nil {
			return
		}
		s.past()
		e := &Experiment{}
		for id := range s.Points {
			e.Points = append(e.Points, Point{ID: id, Repeat: 2, Digest: s.Points[id].Digest})
			outcomeOf(&e.Points[len(e.Points)-1], s.Points[id])
		}
		dir := t.TempDir()
		s.Experiment = "x"
		if err := s.write(dir); err != nil {
			t.Fatal(err)
		}
		back, err := readState(dir, "x")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(jsonOf(s), jsonOf(back)); diff != "" && !hasManifest(s) {
			t.Error(diff)
		}
		s.resume(e, dir, nil)
	})
}

// hasManifest tells whether a trial holds what is not kept in the file.
func hasManifest(s *state) bool {
	for _, p := range s.Points {
		for _, t := range p.Trials {
			if t.Manifest != nil {
				return true
			}
		}
	}
	return false
}
