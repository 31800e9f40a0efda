package sweep

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
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
	"github.com/servebench/servebench/loadgen/openai"
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
		if got := words(order(e)); got != c.want {
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

// A long log keeps its beginning and its end in whole lines, and what was read is not
// read again.
func TestReadSince(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	read := func(log string, from int64, ended bool) (string, int64) {
		t.Helper()
		if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		end, err := readSince(&b, path, from, ended)
		if err != nil {
			t.Fatal(err)
		}
		return b.String(), end
	}
	for _, c := range []struct {
		name, log string
		from      int64
		ended     bool
		want      string
		end       int64
	}{
		{"whole lines", "a\nb\n", 0, false, "a\nb\n", 4},
		{"what is new", "a\nb\n", 2, false, "b\n", 4},
		{"a line under way", "a\n--api-key first-ca", 0, false, "a\n", 2},
		{"the rest of it", "a\n--api-key first-canary\n", 2, false, "--api-key first-canary\n", 25},
		{"the last words", "a\nKilled", 2, true, "Killed", 8},
		{"begun anew", "a\n", 9, false, "a\n", 2},
	} {
		if got, end := read(c.log, c.from, c.ended); got != c.want || end != c.end {
			t.Errorf("%s: %q to %d, want %q to %d", c.name, got, end, c.want, c.end)
		}
	}
	line := strings.Repeat("l", 99) + "\n"
	long := "first\n" + strings.Repeat(line, 20_000) + "last\n"
	got, end := read(long, 0, false)
	lines := strings.SplitAfter(got, "\n")
	left := -1
	for i, l := range lines {
		if l != line && strings.HasPrefix(l, "[servebench: ") {
			left = i
		} else if l != line && i > 0 && l != "last\n" && l != "" {
			t.Errorf("line %d is cut: %q", i, l)
		}
	}
	if left < 0 || end != int64(len(long)) || len(got) > logHead+logTail+100 || len(got) < logHead+logTail-200 {
		t.Fatalf("%d bytes, end %d, left out in line %d", len(got), end, left)
	}
	if want := fmt.Sprintf("[servebench: %d bytes of the log are left out]\n", len(long)-len(got)+len(lines[left])); lines[left] != want {
		t.Errorf("%q, want %q", lines[left], want)
	}
}

// Each trial has a salt of its own, the same one whenever it is asked, or draws it.
func TestSaltOfTrial(t *testing.T) {
	seen := map[string]string{}
	for _, s := range []Step{
		{Point: &Point{ID: "a"}, Trial: 1}, {Point: &Point{ID: "a"}, Trial: 2}, {Point: &Point{ID: "b"}, Trial: 1},
		{Point: &Point{ID: "a"}, Trial: 1, Attempt: 2},
	} {
		what := fmt.Sprint(s.Point.ID, s.Trial, s.Attempt)
		for _, text := range []string{"x", "y"} {
			s.Point.Config.Salt = text
			salt := s.config().Salt
			if before := seen[salt]; before != "" || salt != s.config().Salt || openai.CheckSalt(salt) != nil {
				t.Errorf("%s %s: the salt %q, also that of %q", text, what, salt, before)
			}
			seen[salt] = text + what
		}
		for _, text := range []string{"", bench.AutoSalt} {
			if s.Point.Config.Salt = text; s.config().Salt != text {
				t.Errorf("the salt %q of %s became %q", text, what, s.config().Salt)
			}
		}
	}
}

// The same prompts to the same server are a doubt, unless it has no cache of them.
func TestRepeated(t *testing.T) {
	r := &runner{sent: map[[3]string]string{}}
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
		{"x", "1", false, func(r *bench.Result) { r.Config.Salt = "s" }, ""},
		{"x", "1", false, func(r *bench.Result) { r.Config.Salt = "t" }, ""},
	} {
		if got := run(string(rune('a'+i)), c.url, c.sum, c.uncached, c.change); got != c.want {
			t.Errorf("run %d: %q, want %q", i, got, c.want)
		}
	}
	with := manifest.Launched{Args: []string{"vllm", "serve", "m"}}
	without := manifest.Launched{Args: []string{"vllm", "serve", "m", "--no_enable_prefix_caching"}}
	for _, c := range []struct {
		commands []manifest.Launched
		want     bool
	}{{nil, false}, {[]manifest.Launched{with}, false}, {[]manifest.Launched{without, without}, true}, {[]manifest.Launched{without, with}, false}} {
		if got := withoutCache(c.commands); got != c.want {
			t.Errorf("%v: %v", c.commands, got)
		}
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

// Trials of a point have their numbers as repetitions; a point alone has what its
// file says, and the point keeps its labels.
func TestTrialsAreRepetitions(t *testing.T) {
	for _, c := range []struct {
		repeat int
		labels map[string]string
		want   string
	}{
		{3, nil, "2"},
		{3, map[string]string{"variant": "v"}, "2"},
		{3, map[string]string{"repetition_index": "7"}, "7"},
		{0, nil, ""},
		{1, nil, ""},
	} {
		p := &Point{Repeat: c.repeat}
		p.Config.Declared.Labels = c.labels
		before := maps.Clone(c.labels)
		got := Step{Point: p, Trial: 2}.config().Declared.Labels
		if got["repetition_index"] != c.want || got["variant"] != c.labels["variant"] || !maps.Equal(p.Config.Declared.Labels, before) {
			t.Errorf("%+v: %v, the point's are %v", c, got, p.Config.Declared.Labels)
		}
	}
}
