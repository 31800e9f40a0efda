package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/bench/sweep"
)

// onlyFolder is the one folder in dir.
func onlyFolder(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || !entries[0].IsDir() {
		t.Fatalf("%v, %v; want one folder", entries, err)
	}
	return filepath.Join(dir, entries[0].Name())
}

// A list is a run for each value, on one simulator: files of each, a table that
// compares them, and a page.
func TestListIsASweep(t *testing.T) {
	dir := t.TempDir()
	code, out, errs := command(t, serveArgs("--max-concurrency", "1,3", "--request-rate=500,inf", "--result-dir", dir, "--label", "L")...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	folder := onlyFolder(t, dir)
	id := filepath.Base(folder)
	if !strings.HasPrefix(id, "sweep-L-") {
		t.Errorf("the folder is %s", id)
	}
	points := []string{"rate-500-concurrency-1", "rate-500-concurrency-3", "rate-inf-concurrency-1", "rate-inf-concurrency-3"}
	last := -1
	for i, p := range points {
		for _, ending := range []string{".result.json", ".manifest.json", ".requests.jsonl", ".hdr"} {
			if st, err := os.Stat(filepath.Join(folder, p+ending)); err != nil || st.Size() == 0 {
				t.Errorf("%s%s: %v", p, ending, err)
			}
		}
		told := strings.Index(errs, fmt.Sprintf("[%d/4] %s (request_rate", i+1, p))
		if told <= last {
			t.Errorf("the line of %s is at %d:\n%s", p, told, errs)
		}
		last = told
		if !strings.Contains(out, "\n"+p+" ") {
			t.Errorf("the table lacks %s:\n%s", p, out)
		}
	}
	head, _, _ := strings.Cut(out, "\n")
	if !strings.HasPrefix(strings.Join(strings.Fields(head), " "), "point varied req/s out tok/s") || !strings.Contains(out, "SIMULATED") {
		t.Errorf("the table:\n%s", out)
	}
	page, err := os.ReadFile(filepath.Join(folder, id+".html"))
	if err != nil || !bytes.Contains(page, []byte("rate-concurrency: TTFT, ms")) {
		t.Errorf("the page has %d bytes, %v", len(page), err)
	}
	data, err := os.ReadFile(filepath.Join(folder, points[1]+".result.json"))
	if err != nil || !bytes.Contains(data, []byte(`"max_concurrency":3`)) || !bytes.Contains(data, []byte(`"request_rate":500.0`)) {
		t.Errorf("the result: %v, %s", err, data)
	}
	manifest, err := os.ReadFile(filepath.Join(folder, points[1]+".manifest.json"))
	if err != nil || !bytes.Contains(manifest, []byte("--max-concurrency=3")) || bytes.Contains(manifest, []byte("1,3")) {
		t.Errorf("the command in the manifest is not that of its run: %v", err)
	}
}

// One value is what it always was: no folder, vLLM's table.
func TestOneValueIsNoSweep(t *testing.T) {
	t.Chdir(t.TempDir())
	code, out, errs := command(t, serveArgs("--max-concurrency", "2", "--request-rate", "inf")...)
	if code != 0 || !strings.Contains(out, "Serving Benchmark Result") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if entries, _ := os.ReadDir("."); len(entries) != 0 {
		t.Errorf("%v was written", entries)
	}
}

// A list runs against the simulator that --sim-like asks for, fitted once, with all
// its replicas.
func TestListIsLike(t *testing.T) {
	dir := t.TempDir()
	like := filepath.Join("..", "..", "manifest", "testdata", "seed-run-3.json")
	args := []string{"serve", "--sim", "--sim-like", like, "--model", "nvidia/Gemma-4-26B-A4B-NVFP4", "--skip-tokenizer-init", "--prompt-form", "token-ids",
		"--random-input-len", "8", "--random-output-len", "2", "--num-prompts", "8", "--max-concurrency", "8", "--request-rate", "500,inf", "--temperature", "0", "--result-dir", dir}
	code, out, errs := command(t, args...)
	if code != 0 || strings.Count(errs, "simulating 4 x servebench sim ") != 1 {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

func TestListMistakes(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--max-concurrency 1,x", `--max-concurrency: "1,x" holds "x", which is not a whole number`},
		{"--max-concurrency 1,", `holds "", which is not a whole number`},
		{"--request-rate 1,nan", `holds "nan", which is not a number`},
		{"--request-rate 1,2,1", `--request-rate: "1" is there twice`},
		{"--request-rate 100,1e2", `--request-rate: "1e2" is there twice`},
		{"--request-rate Infinity,inf", `--request-rate: "inf" is there twice`},
		{"--max-concurrency 0,1", "--max-concurrency: 0; want 1 or more"},
		{"--num-prompts 1,2", `"1,2" is not a whole number`},
		{"--max-concurrency 1,2 --result-filename x.json --append-result", "--result-filename is for one run"},
		{"--max-concurrency 1,2 --manifest x.json", "--manifest is for one run"},
	} {
		t.Chdir(t.TempDir())
		code, out, errs := command(t, serveArgs(strings.Fields(c.args)...)...)
		if code != exitUsage || out != "" || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, want %q: %s", c.args, code, c.want, errs)
		}
		if entries, _ := os.ReadDir("."); len(entries) != 0 {
			t.Errorf("%s: %v was written", c.args, entries)
		}
	}
}

func TestListPlan(t *testing.T) {
	t.Chdir(t.TempDir())
	code, out, errs := command(t, serveArgs("--max-concurrency", "1,2", "--request-rate", "2", "--dry-run")...)
	want := `   start a server: the embedded simulator
1  concurrency-1 (max_concurrency 1)
2  concurrency-2 (max_concurrency 2)

2 runs of 2 points, 1 server start. Time: about 6s and 1 server start of unknown length.
`
	if diff := cmp.Diff(want, out); code != 0 || diff != "" {
		t.Errorf("exit %d: %s%s", code, errs, diff)
	}
	if entries, _ := os.ReadDir("."); len(entries) != 0 {
		t.Errorf("%v was written", entries)
	}
}

// The plan tells of a server once, and then what is different.
func TestStartText(t *testing.T) {
	const line = "CUDA_VISIBLE_DEVICES=0 vllm serve m --port 1 --tokens 5 --eager"
	for _, c := range []struct{ before, line, want string }{
		{"", line, "start a server: " + line},
		{line, line, "start a server with the same command"},
		{line, strings.Replace(line, "5", "6", 1), "the same with --tokens 6"},
		{line, strings.Replace(line, "=0", "=3", 1), "the same with CUDA_VISIBLE_DEVICES=3"},
		{line, strings.Replace(line, "eager", "lazy", 1), "the same with --lazy"},
		{line, line + " --more", "start another server: " + line + " --more"},
	} {
		if got := startText(c.before, c.line); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// experimentOf replaces what reads an experiment file: a point for each id, against
// base, with the flags of the command line over those of a small run.
func experimentOf(t *testing.T, base string, change func(*sweep.Experiment), ids ...string) {
	t.Helper()
	old := resolveStudy
	t.Cleanup(func() { resolveStudy = old })
	resolveStudy = func(ctx context.Context, term *terminal, path string, args []string) (*study, error) {
		return testStudy(ctx, term, base, change, args, ids)
	}
}

func testStudy(ctx context.Context, term *terminal, base string, change func(*sweep.Experiment), args, ids []string) (*study, error) {
	words := []string{"--num-prompts=4", "--random-input-len=4", "--random-output-len=2", "--max-concurrency=1", "--model=m"}
	if base == "" {
		words = append(words, "--sim", "--sim-ttft=1ms", "--sim-itl=1ms")
	} else {
		words = append(words, "--base-url="+base)
	}
	parsed, err := normalize(append(words, args...), serveFlags())
	if err != nil {
		return nil, err
	}
	s := &study{experiment: sweep.Experiment{About: sweep.About{ID: "exp", Title: "An experiment"}}}
	for _, id := range ids {
		o, err := term.readWords(ctx, parsed.Words)
		if err != nil {
			return nil, err
		}
		s.options = append(s.options, o)
		s.experiment.Points = append(s.experiment.Points, sweep.Point{ID: id, Name: id, Group: "g", Config: o.config})
	}
	if change != nil {
		change(&s.experiment)
	}
	return s, nil
}

// The files of an experiment, and what the exit code says of its failures.
func TestSweepCommand(t *testing.T) {
	fail := func(ctx context.Context, t *terminal, c server.Config) (sweep.Server, error) {
		return nil, &server.StartError{Stage: "runtime_startup", Category: "bad_argument", Message: "unrecognized arguments: --no-such-flag"}
	}
	broken := func(p sweep.OnFailure) func(*sweep.Experiment) {
		return func(e *sweep.Experiment) {
			e.Points[1].Server = &server.Config{Command: []string{"vllm", "serve", "m", "--api-key", "sk-canary-1234567"}}
			e.Points[1].OnFailure = p
		}
	}
	for _, c := range []struct {
		name   string
		change func(*sweep.Experiment)
		args   []string
		code   int
		says   string
		ran    int
	}{
		{"all complete", nil, nil, 0, "", 3},
		{"some alone", nil, []string{"--only", "c,a"}, 0, "", 2},
		{"a failure nobody allowed", broken(sweep.OnFailure{}), nil, exitTarget, "1 of 3 points failed: b", 3},
		{"a failure that is a result", broken(sweep.OnFailure{Allow: true}), nil, 0, "", 3},
		{"a failure with a replacement", broken(sweep.OnFailure{Replacement: "a"}), nil, 0, "", 3},
		{"a failure that ends it", broken(sweep.OnFailure{Stop: true}), nil, exitTarget, "which ends the experiment", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			started := startServer
			startServer = fail
			t.Cleanup(func() { startServer = started })
			dir := t.TempDir()
			experimentOf(t, "", c.change, "a", "b", "c")
			code, out, errs := command(t, append([]string{"sweep", "-f", "x.yaml", "--result-dir", dir}, c.args...)...)
			if code != c.code || !strings.Contains(errs, c.says) || strings.Contains(out+errs, "sk-canary") {
				t.Fatalf("exit %d, want %d and %q: %s%s", code, c.code, c.says, errs, out)
			}
			doc, err := os.ReadFile(filepath.Join(dir, "exp.experiment.json"))
			ran := len(gjson.GetBytes(doc, `runs.#(status!="interrupted")#`).Array())
			if err != nil || ran != c.ran {
				t.Errorf("the manifest has %d runs, %v, want %d: %s", ran, err, c.ran, doc)
			}
			for _, name := range []string{"exp.html", "exp.state.json", "a.manifest.json"} {
				data, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil || bytes.Contains(data, []byte("sk-canary")) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if strings.Contains(c.name, "failure") {
				log, err := os.ReadFile(filepath.Join(dir, "b.manifest.json"))
				if err != nil || bytes.Contains(log, []byte("sk-canary")) || !strings.Contains(out, "failed: runtime_startup, bad_argument") {
					t.Errorf("%v, %s%s", err, log, out)
				}
			}
		})
	}
}

func TestSweepUsage(t *testing.T) {
	experimentOf(t, "", nil, "a")
	for _, c := range []struct{ args, want string }{
		{"", "-f is missing"},
		{"-f", "-f needs a value"},
		{"-f x --file y", "--file is given twice; want one experiment file"},
		{"-f x --resume=maybe", "--resume is a switch"},
		{"-f x --no-such-flag 1", "unknown flag"},
		{"-f x --max-concurrency 1,2", "--max-concurrency: a list; want one value here"},
		{"-f x --only z", `"z" is no point of the experiment; it has a`},
	} {
		t.Chdir(t.TempDir())
		code, _, errs := command(t, append([]string{"sweep"}, strings.Fields(c.args)...)...)
		if code != exitUsage || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, want %q: %s", c.args, code, c.want, errs)
		}
	}
	code, out, _ := command(t, "sweep", "--help")
	if code != 0 || !strings.Contains(out, "--resume") {
		t.Errorf("help: exit %d, %s", code, out)
	}
}

// Done twice: the second time is refused without --resume, and with it runs nothing.
func TestSweepResumes(t *testing.T) {
	experimentOf(t, "", nil, "a", "b")
	dir := t.TempDir()
	args := []string{"sweep", "-f", "x.yaml", "--result-dir", dir}
	if code, _, errs := command(t, args...); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	code, _, errs := command(t, args...)
	if code != exitUsage || !strings.Contains(errs, "hint: --resume goes on") {
		t.Errorf("exit %d: %s", code, errs)
	}
	code, out, errs := command(t, append(args, "--resume")...)
	if code != 0 || !strings.Contains(errs, "0 of 2 runs are left") || strings.Contains(errs, "[1/2]") || !strings.Contains(out, "\nb ") {
		t.Errorf("exit %d: %s%s", code, errs, out)
	}
}

// sweepPrompts are many: some are sent between a signal and the run's notice of it.
const sweepPrompts = 500

// blocking is a server of which one request for tokens hangs until told.
func blocking(t *testing.T) (base string, started, release chan struct{}) {
	started, release = make(chan struct{}), make(chan struct{})
	quick := sim.New(sim.Config{})
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/completions" {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if n.Add(1) == sweepPrompts+3 { // the third of the second point
				close(started)
				select {
				case <-release:
				case <-r.Context().Done():
				}
			}
		}
		quick.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, started, release
}

// sweepProcess is a process that runs the sweep a, b, c against base.
func sweepProcess(t *testing.T, base, dir string, args ...string) (*exec.Cmd, *lines) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], append([]string{"sweep", "-f", "x.yaml", "--result-dir", dir, "--drain", "1h", "--num-prompts", fmt.Sprint(sweepPrompts)}, args...)...)
	cmd.Env = append(os.Environ(), "SERVEBENCH_TEST_MAIN=1", "SERVEBENCH_TEST_SWEEP="+base, "OPENAI_API_KEY=")
	said := &lines{}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, said
}

// A process that is ended in the middle of a point, however that is, leaves a folder
// in which another one goes on: what was complete is not run again.
func TestSweepEnded(t *testing.T) {
	for _, c := range []struct {
		name    string
		signals []os.Signal
		code    int
		aside   bool // the interrupted point has files
	}{
		{"SIGINT", []os.Signal{os.Interrupt}, 130, true},
		{"SIGTERM twice", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, 143, true},
		{"SIGKILL", []os.Signal{os.Kill}, -1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			base, started, release := blocking(t)
			dir := t.TempDir()
			cmd, said := sweepProcess(t, base, dir)
			<-started
			for i, s := range c.signals {
				if i > 0 {
					<-said.has("no new requests")
				}
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			if len(c.signals) == 1 && c.signals[0] != os.Kill {
				<-said.has("no new requests")
			}
			if c.signals[0] == os.Kill || len(c.signals) == 1 {
				close(release)
			}
			cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != c.code {
				t.Fatalf("exit %d, want %d: %s", code, c.code, said.String())
			}
			if _, err := os.Stat(filepath.Join(dir, "exp.experiment.json")); (err == nil) != c.aside {
				t.Errorf("the experiment's manifest: %v", err)
			}
			again, said := sweepProcess(t, base, dir, "--resume")
			if err := again.Wait(); err != nil {
				t.Fatalf("%v: %s", err, said.String())
			}
			text := said.String()
			if strings.Contains(text, "[1/3]") || !strings.Contains(text, "[2/3] b: completed") || !strings.Contains(text, "[3/3]") || !strings.Contains(text, "2 of 3 runs are left") {
				t.Errorf("resumed:\n%s", text)
			}
			kept, _ := filepath.Glob(filepath.Join(dir, "b-attempt-1.*"))
			if (len(kept) == 4) != c.aside {
				t.Errorf("kept aside: %v", kept)
			}
		})
	}
}

// init lets the test binary that stands in for servebench read an experiment.
func init() {
	base := os.Getenv("SERVEBENCH_TEST_SWEEP")
	if base == "" {
		return
	}
	resolveStudy = func(ctx context.Context, term *terminal, _ string, args []string) (*study, error) {
		return testStudy(ctx, term, base, nil, args, []string{"a", "b", "c"})
	}
}

// In every error the flags of a point are written as they are typed.
func TestFlaggedPoints(t *testing.T) {
	err := flaggedPoints(errors.New("point a: max-concurrency: -1; want 1\nexperiment \"\": no"))
	if want := "point a: --max-concurrency: -1; want 1\nexperiment \"\": no"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}

func TestExpandLists(t *testing.T) {
	words := []string{"--model=a,b", "--request-rate=1,inf", "--save-result=true", "--max-concurrency=4"}
	all, choices, err := expandLists(words)
	want := [][]string{
		{"--model=a,b", "--request-rate=1", "--save-result=true", "--max-concurrency=4"},
		{"--model=a,b", "--request-rate=inf", "--save-result=true", "--max-concurrency=4"},
	}
	if diff := cmp.Diff(want, all); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
	if !slices.Equal(choices[1], []choice{{"request-rate", "inf"}}) {
		t.Errorf("choices %v", choices)
	}
}
