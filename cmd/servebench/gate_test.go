package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/bench/gate"
	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/bench/stored"
	"github.com/servebench/servebench/internal/memnet"
)

// gateHosts are simulators in virtual time by their names.
type gateHosts map[string]http.Handler

// gated runs a gate against them; what it says goes to out and errs.
func gated(t *testing.T, hosts gateHosts, args ...string) (code int, out, errs string) {
	t.Helper()
	// The runtime's own goroutine for signals must not be one of the bubble.
	early := make(chan os.Signal, 1)
	signal.Notify(early, syscall.SIGUSR2)
	defer signal.Stop(early)
	synctest.Test(t, func(t *testing.T) {
		nets := map[string]*memnet.Net{}
		for name, h := range hosts {
			n := memnet.New()
			nets[name] = n
			srv := &http.Server{Handler: h}
			ended := make(chan struct{})
			go func() { defer close(ended); srv.Serve(n) }()
			defer func() { srv.Close(); <-ended }()
		}
		var stdout, stderr bytes.Buffer
		term := &terminal{out: &stdout, err: &stderr, dial: func(ctx context.Context, _, addr string) (net.Conn, error) {
			host, _, _ := net.SplitHostPort(addr)
			if nets[host] == nil {
				return nil, errors.New("connection refused")
			}
			return nets[host].Dial(ctx, "", "")
		}}
		code = term.exit(gateCommand(t.Context(), args, term))
		out, errs = stdout.String(), stderr.String()
	})
	return code, out, errs
}

// gateFlags are those of a small load.
func gateFlags(dir string, more ...string) []string {
	return append([]string{
		"--baseline-url", "http://a.test", "--candidate-url", "http://b.test", "--pairs", "5", "--model", "m", "--skip-tokenizer-init", "--pacing", "sleep",
		"--num-prompts", "12", "--max-concurrency", "4", "--random-input-len", "8", "--random-output-len", "20", "--temperature", "0", "--result-dir", dir,
	}, more...)
}

func simulator(itl time.Duration) http.Handler {
	return sim.New(sim.Config{TTFT: 10 * time.Millisecond, ITL: itl})
}

func readReport(t *testing.T, path string) (r gate.Report) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// Two servers that are one pass, one that is slower fails, one that is not there is an
// error of its own.
func TestGatePairs(t *testing.T) {
	const itl = 10 * time.Millisecond
	for _, c := range []struct {
		name    string
		b       http.Handler
		more    []string
		code    int
		verdict gate.Verdict
		says    string
	}{
		{"equal", simulator(itl), []string{"--require", "itl.p50 <= base+3%"}, 0, gate.Pass, "PASS: steady_output_throughput: No loss of 3 %"},
		{"slower", simulator(itl + itl/8), []string{"--primary", "output_throughput"}, exitRegression, gate.Fail, "FAIL: output_throughput: A loss beyond 3 %"},
		{"dead", nil, nil, exitTarget, gate.Inconclusive, "Not all runs could be made"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			hosts := gateHosts{"a.test": simulator(itl)}
			if c.b != nil {
				hosts["b.test"] = c.b
			}
			verdict := filepath.Join(dir, "v.json")
			code, out, errs := gated(t, hosts, gateFlags(filepath.Join(dir, "runs"), append(c.more, "--verdict", verdict, "--html", filepath.Join(dir, "v.html"), "--junit", filepath.Join(dir, "v.xml"), "--markdown", filepath.Join(dir, "v.md"))...)...)
			if code != c.code || !strings.Contains(out, c.says) {
				t.Fatalf("exit %d\n%s\n%s", code, out, errs)
			}
			r := readReport(t, verdict)
			if r.Verdict != c.verdict || r.Mode != gate.Paired {
				t.Errorf("%+v", r)
			}
			if c.code == exitTarget {
				return
			}
			if !r.Simulated {
				t.Error("nothing says that these are simulators")
			}
			if len(r.Pairs) != 5 || r.Pairs[0].Order != "AB" || r.Pairs[1].Order != "BA" {
				t.Errorf("%+v", r.Pairs)
			}
			for _, name := range []string{"v.html", "v.xml", "v.md", "runs/01-baseline.manifest.json", "runs/05-candidate.result.json"} {
				if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Size() == 0 {
					t.Errorf("%s: %v", name, err)
				}
			}
			for run, salt := range saltsOf(t, filepath.Join(dir, "runs")) {
				if salt != "" {
					t.Errorf("%s has the salt %s, though its server's cache was emptied", run, salt)
				}
			}
			if m, err := os.ReadFile(filepath.Join(dir, "runs", "01-baseline.manifest.json")); err != nil || gjson.GetBytes(m, "workload.warmup_request_count").Int() != 4 {
				t.Errorf("%v, or the runs are not warmed up", err)
			}
			left, err := filepath.Glob(filepath.Join(dir, "runs", "*.state.json"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}

// withoutReset is a server that does not empty its prefix cache when asked.
type withoutReset struct{ http.Handler }

func (h withoutReset) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/reset_prefix_cache" {
		http.NotFound(w, r)
		return
	}
	h.Handler.ServeHTTP(w, r)
}

// saltsOf are the salts that the runs of a gate were sent with, by their names.
func saltsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.result.json"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(f), ".result.json")
		if !strings.Contains(name, "attempt") {
			out[name] = gjson.GetBytes(data, "servebench.salt.value").String()
		}
	}
	return out
}

// Where a cache cannot be emptied each pair has a salt of its own, the same on both
// sides, and the verdict says so.
func TestGateSalts(t *testing.T) {
	refuses := func() http.Handler { return withoutReset{simulator(time.Millisecond)} }
	both := gateHosts{"a.test": refuses(), "b.test": refuses()}
	for _, c := range []struct {
		name  string
		hosts gateHosts
		more  []string
		says  string
		sides bool // even the sides of a pair differ
	}{
		{"one refuses", gateHosts{"a.test": simulator(time.Millisecond), "b.test": refuses()}, nil, "could not be emptied", false},
		{"asked for", both, []string{"--salt=auto"}, "as --salt asks", false},
		{"one server", both, []string{"--candidate-url", "http://a.test"}, "Both sides are one server", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			verdict, runs := filepath.Join(dir, "v.json"), filepath.Join(dir, "runs")
			args := gateFlags(runs, append([]string{"--verdict", verdict}, c.more...)...)
			if c.name == "one server" {
				args = append(args[:2], args[4:]...)
			}
			code, out, errs := gated(t, c.hosts, args...)
			if code != 0 {
				t.Fatalf("exit %d\n%s\n%s", code, out, errs)
			}
			if r := readReport(t, verdict); !strings.Contains(strings.Join(r.Notes, " "), c.says) || len(r.Runs) != 10 {
				t.Errorf("%q %+v", r.Notes, r.Runs)
			}
			salts, seen := saltsOf(t, runs), map[string]bool{}
			for k := 1; k <= 5; k++ {
				a, b := salts[fmt.Sprintf("%02d-baseline", k)], salts[fmt.Sprintf("%02d-candidate", k)]
				if a == "" || (a != b) != c.sides || seen[a] || seen[b] {
					t.Errorf("pair %d: %q and %q of %v", k, a, b, salts)
				}
				seen[a], seen[b] = true, true
			}
		})
	}
}

// Salts are others in another gate.
func TestGateSaltsAreItsOwn(t *testing.T) {
	one := trials{salt: "x", options: map[string]*options{sideBaseline: {}, sideCandidate: {}}}
	one.options[sideCandidate].config.Target.BaseURL = "http://b"
	first := one.saltOf(sideBaseline, 1, false)
	if first != one.saltOf(sideCandidate, 1, false) || first == one.saltOf(sideBaseline, 2, false) || first == one.saltOf(sideBaseline, 1, true) {
		t.Error("a pair has one salt, another pair and a repeated run have others")
	}
	other := one
	if other.salt = "y"; first == other.saltOf(sideBaseline, 1, false) {
		t.Error("two gates have one salt")
	}
	one.options[sideBaseline].server = &server.Config{}
	if first != one.saltOf(sideBaseline, 1, true) {
		t.Error("a server that is started anew has no prompts of before")
	}
}

// A mistake is told before the first request.
func TestGateRefuses(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "r.json", keptResult(900, "VALID", "aa"))
	urls := []string{"--baseline-url", "http://a.test", "--candidate-url", "http://b.test"}
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "nothing to decide"},
		{[]string{"--baseline-url", "http://a.test"}, "pairs need both sides"},
		{append(urls, "--pairs", "4"), "--pairs: \"4\"; want 5 to 20"},
		{append(urls, "--pairs", "x"), "--pairs: \"x\""},
		{append(urls, "--pairs", "11", "--extend"), "--pairs 10 at most"},
		{append(urls, "--result", file), "stored results"},
		{append(urls, "--baseline-command", "vllm serve m"), "want one of them"},
		{append(urls, "--base-url", "http://c.test"), "names the server here"},
		{append(urls, "--max-concurrency", "1,2"), "a list"},
		{append(urls, "--result-filename", "x.json"), "for one run"},
		{append(urls, "--effect", "0"), "--effect: 0"},
		{append(urls, "--effect", "120%"), "a share from 0%"},
		{append(urls, "--certain=maybe"), "is a switch"},
		{append(urls, "--primary", "speed"), "no metric of a result"},
		{append(urls, "--no-such-flag"), "no-such-flag"},
		{append(urls, "--verdict", filepath.Join(dir, "none", "v.json")), "folder is not there"},
		{append(urls, "--verdict", dir), "no regular file"},
		{append(urls, "--require"), "needs a value"},
		{append(urls, "--require", "p99_ttft << 3ms"), "^"},
		{[]string{"--result", file}, "nothing to compare"},
		{[]string{"--result", file, "--baseline", file, "--history", dir}, "want one of them"},
		{[]string{"--baseline", file}, "--result is missing"},
		{[]string{"--result", file, "--require", "output_throughput >= base"}, "only there with a baseline"},
		{[]string{"--result", filepath.Join(dir, "none.json"), "--baseline", file}, "none.json"},
		{[]string{"--result", file, "--baseline", filepath.Join(dir, "none.json")}, "none.json"},
		{[]string{"--result", file, "--result", file, "--baseline", file}, "given twice"},
		{[]string{"--result", file, "--baseline", file, "--pairs", "8"}, "for pairs of runs"},
		{[]string{"--result", file, "--history", filepath.Join(dir, "none")}, "--history"},
	} {
		code, out, errs := command(t, append([]string{"gate"}, c.args...)...)
		if code != exitUsage || !strings.Contains(errs, c.says) || out != "" {
			t.Errorf("%q: exit %d, %q, %q, want …%s…", c.args, code, out, errs, c.says)
		}
	}
}

// keptResult is a result file of a throughput.
func keptResult(rate float64, verdict, data string) string {
	return fmt.Sprintf(`{"date": "20261201-000000", "model_id": "m", "backend": "vllm", "num_prompts": 100, "duration": 10, "completed": 100, "failed": 0, "total_output_tokens": 1000, "output_throughput": %v,
 "median_itl_ms": %v, "outcome": "completed", "servebench": {"version": "0.1.0", "verdict": %q, "verdict_reasons": ["the client was slow"], "dataset_sha256": %q}}`, rate, 1000/rate, verdict, data)
}

func TestGateOfStoredResults(t *testing.T) {
	dir := t.TempDir()
	history := filepath.Join(dir, "history")
	if err := os.Mkdir(history, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		write(t, history, fmt.Sprintf("%d.json", i), strings.Replace(keptResult(900+float64(i%3-1)*5, "VALID", "aa"), "20261201-000000", fmt.Sprintf("20261101-0%d0000", i), 1))
	}
	file := func(name string, text string) string { return write(t, dir, name, text) }
	good, slow := file("good.json", keptResult(897, "VALID", "aa")), file("slow.json", keptResult(820, "VALID", "aa"))
	invalid, other := file("invalid.json", keptResult(900, "INVALID", "aa")), file("other.json", keptResult(900, "VALID", "bb"))
	suspect := file("suspect.json", keptResult(900, "SUSPECT", "aa"))
	zero, none := file("zero.json", keptResult(1, "VALID", "aa")), file("none.json", `{"duration": 1, "completed": 3, "failed": 0, "servebench": {}}`)
	if err := os.WriteFile(zero, []byte(strings.Replace(keptResult(1, "VALID", "aa"), `"output_throughput": 1`, `"output_throughput": 0`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	mani := file("m.json", `{"kind": "run", "outcome": "completed", "measurement": {"harness": "servebench"}, "results": {"successful_requests": 3, "failed_requests": 0, "duration_seconds": 1, "latency_ms": {"time_to_first_token": {"p99": 12.5}}}}`)
	pipe := filepath.Join(dir, "pipe.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	failed := file("failed.json", strings.Replace(keptResult(900, "VALID", "aa"), `"failed": 0`, `"failed": 7`, 1))
	short := filepath.Join(dir, "short")
	if err := os.Mkdir(short, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, short, "1.json", strings.Replace(keptResult(900, "VALID", "aa"), "20261201", "20261101", 1))
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--history", history, "--result", good}, 0, "PASS"},
		{[]string{"--history", history, "--result", slow}, exitRegression, "that the history does not explain"},
		{[]string{"--history", history, "--result", invalid}, exitInvalid, "is INVALID: the client was slow"},
		{[]string{"--history", history, "--result", suspect}, 0, "is SUSPECT: the client was slow"},
		{[]string{"--history", history, "--result", suspect, "--strict"}, exitInvalid, "is SUSPECT"},
		{[]string{"--history", history, "--result", other}, exitInvalid, "dataset_sha256 (aa and bb) differ"},
		{[]string{"--history", history, "--result", other, "--allow-difference", "dataset_sha256"}, 0, "PASS"},
		{[]string{"--history", history, "--result", zero}, exitInvalid, "no output_throughput above 0"},
		{[]string{"--history", history, "--result", none}, exitInvalid, "no output_throughput above 0"},
		{[]string{"--history", history, "--result", failed}, exitInvalid, "6.54 % of the requests failed"},
		{[]string{"--history", history, "--result", failed, "--max-failures", "10%"}, 0, "PASS"},
		{[]string{"--history", short, "--result", good}, exitInvalid, "1 runs; want 10 or more"},
		{[]string{"--baseline", good, "--result", slow}, exitRegression, "Weak evidence"},
		{[]string{"--baseline", slow, "--result", good}, 0, "Weak evidence"},
		{[]string{"--baseline", zero, "--result", good}, exitInvalid, "The baseline has no output_throughput above 0"},
		{[]string{"--result", good, "--require", "output_throughput >= 900"}, exitRegression, "does not hold"},
		{[]string{"--result", good, "--require", "output_throughput >= 890"}, 0, "holds"},
		{[]string{"--result", good, "--require", "p99_ttft < 5ms"}, exitInvalid, "p99_ttft is not in the result"},
		{[]string{"--result", mani, "--require", "p99_ttft < 5s"}, exitInvalid, "has p99_ttft_token, the other reading of it"},
		{[]string{"--result", mani, "--require", "ttft_token.p99 < 5s"}, 0, "holds"},
		{[]string{"--result", mani, "--baseline", mani, "--primary", "p99_ttft"}, exitInvalid, "has p99_ttft_token"},
		{[]string{"--result", pipe, "--require", "p99_ttft < 5s"}, exitUsage, ""},
		{[]string{"--result", good, "--baseline", good, "--require", "itl.p50 <= base+3%"}, 0, "itl.p50 <= base+3% holds"},
	} {
		code, out, errs := command(t, append([]string{"gate"}, c.args...)...)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%q: exit %d, want %d …%s…\n%s%s", c.args, code, c.code, c.says, out, errs)
		}
	}
}

func TestGateOnGitHub(t *testing.T) {
	dir := t.TempDir()
	summary, outputs := filepath.Join(dir, "summary.md"), filepath.Join(dir, "outputs")
	t.Setenv("GITHUB_ACTIONS", "true")
	t.Setenv("GITHUB_STEP_SUMMARY", summary)
	t.Setenv("GITHUB_OUTPUT", outputs)
	slow, good := write(t, dir, "slow.json", keptResult(820, "VALID", "aa")), write(t, dir, "good.json", keptResult(900, "VALID", "aa"))
	code, out, _ := command(t, "gate", "--baseline", good, "--result", slow)
	text, err := os.ReadFile(summary)
	if code != exitRegression || err != nil || !strings.Contains(out, "::error title=servebench gate FAIL::") || !strings.Contains(string(text), "FAIL: servebench gate (file)") {
		t.Errorf("exit %d, %v\n%s\n%s", code, err, out, text)
	}
	text, err = os.ReadFile(outputs)
	if lines := strings.Split(string(text), "\n"); err != nil || len(lines) != 3 || lines[0] != "verdict=FAIL" || !strings.HasPrefix(lines[1], "reason=output_throughput: Beyond the coarse limit") {
		t.Errorf("%v %q", err, text)
	}
}

// A gate that is run until it is green is none: the verdict counts.
func TestGateAttempts(t *testing.T) {
	dir := t.TempDir()
	good, verdict := write(t, dir, "good.json", keptResult(900, "VALID", "aa")), filepath.Join(dir, "v.json")
	for n := 1; n <= 3; n++ {
		_, out, _ := command(t, "gate", "--baseline", good, "--result", good, "--verdict", verdict)
		if r := readReport(t, verdict); r.Attempt != n || strings.Contains(out, fmt.Sprintf("Attempt %d", n)) != (n > 1) {
			t.Errorf("attempt %d, want %d: %s", r.Attempt, n, out)
		}
	}
	t.Setenv("GITHUB_RUN_ATTEMPT", "7")
	command(t, "gate", "--baseline", good, "--result", good, "--verdict", verdict)
	if r := readReport(t, verdict); r.Attempt != 7 {
		t.Errorf("attempt %d, want GitHub's", r.Attempt)
	}
}

// Whatever a gate writes has nothing in it that must not be published, whatever the
// results have and wherever they lie.
func TestGateLeaks(t *testing.T) {
	canary(t)
	in := filepath.Join(t.TempDir(), canaryUser)
	if err := os.Mkdir(in, 0o700); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(keptResult(900, "INVALID", "aa"), `"the client was slow"`, `"`+everything+`"`, 1)
	text = strings.Replace(text, `"m"`, `"`+canaryHome+`/m", "tokenizer_id": "`+everything+`"`, 1)
	a, b := write(t, in, "a.json", keptResult(900, "SUSPECT", "aa")), write(t, in, "b.json", text)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	t.Setenv("GITHUB_ACTIONS", "true")
	t.Setenv("GITHUB_STEP_SUMMARY", file("summary.md"))
	code, out, errs := command(t, "gate", "--baseline", a, "--result", b, "--verdict", file("v.json"), "--markdown", file("v.md"), "--junit", file("v.xml"), "--html", file("v.html"))
	if code != exitInvalid {
		t.Fatalf("exit %d %s%s", code, out, errs)
	}
	if found, files := loose(t, dir); len(found) > 0 || files != 5 {
		t.Errorf("%d files, and in them:\n%s", files, strings.Join(found, "\n"))
	}
	if strings.Contains(out, "canary") {
		t.Error(out)
	}
}

// A first run that is INVALID ends a gate, and the verdict says which and why.
func TestGateOfInvalidRun(t *testing.T) {
	runs, err := stored.Read("01-baseline", []byte(strings.Replace(keptResult(900, "INVALID", "aa"), `"failed"`, `"simulated": true, "failed"`, 1)))
	if err != nil {
		t.Fatal(err)
	}
	g := trials{l: &gateLine{pairs: 8}, options: map[string]*options{}, runs: runs, details: []gate.Run{{Name: "01-baseline", Side: sideBaseline, Verdict: "INVALID", Reasons: runs[0].Reasons}}}
	r := g.report()
	if r.Verdict != gate.Inconclusive || r.ExitCode() != exitInvalid || r.Reason != "01-baseline is INVALID: the client was slow." || !r.Simulated || len(r.Runs) != 1 || r.Schema != gate.Schema {
		t.Errorf("%+v", r)
	}
	if r = (&trials{l: &gateLine{}}).broken(errors.New("no. ")); r.Verdict != gate.Inconclusive || len(r.Runs) != 0 {
		t.Errorf("%+v", r)
	}
}
