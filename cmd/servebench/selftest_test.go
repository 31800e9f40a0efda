package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/bench/selftest"
)

// asServebench lets the processes that a test starts of itself be servebench, with a
// cache folder of their own.
func asServebench(t *testing.T) (cache string) {
	t.Helper()
	cache = t.TempDir()
	t.Setenv("SERVEBENCH_TEST_MAIN", "1")
	t.Setenv("XDG_CACHE_HOME", cache)
	return cache
}

// A selftest over HTTPS, in two processes: the JSON, the file, and the manifests of
// later runs, which carry it only while it is of this build.
func TestSelftestIsAttachedToLaterRuns(t *testing.T) {
	cache := asServebench(t)
	t.Setenv("VLLM_API_KEY", "of another server")
	code, out, errs := command(t, "selftest", "--json", "--concurrency", "2", "--duration", "1s")
	if code != 0 || !gjson.Valid(out) {
		t.Fatalf("exit %d: %s%s", code, errs, out)
	}
	if n := gjson.Get(out, "steps.#").Int(); n != 1 || gjson.Get(out, "steps.0.simulator_cpu_per_event_ms").Num <= 0 || gjson.Get(out, "steps.0.events").Int() != 6*29 {
		t.Errorf("%s", out)
	}
	file := filepath.Join(cache, "servebench", "selftest.json")
	figure, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	attached := func() (inManifest, inResult, said string) {
		dir := t.TempDir()
		code, _, errs := command(t, serveArgs("--save-result", "--result-dir", dir, "--result-filename", "run.json")...)
		if code != 0 {
			t.Fatalf("exit %d: %s", code, errs)
		}
		m, err := os.ReadFile(filepath.Join(dir, "run.manifest.json"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := os.ReadFile(filepath.Join(dir, "run.json"))
		if err != nil {
			t.Fatal(err)
		}
		if code, out, errs := command(t, "manifest", "verify", filepath.Join(dir, "run.manifest.json")); code != 0 {
			t.Errorf("verify: exit %d: %s%s", code, out, errs)
		}
		return gjson.GetBytes(m, `measurement.extensions.servebench\.selftest`).Raw, gjson.GetBytes(r, "servebench.selftest").Raw, errs
	}
	m, r, _ := attached()
	if gjson.Get(m, "concurrency.0").Int() != 2 || gjson.Get(r, "concurrency.0").Int() != 2 || gjson.Get(m, "build.executable_sha256").Str == "" {
		t.Errorf("in the manifest: %s, in the result: %s", m, r)
	}
	for name, text := range map[string]string{
		"another build": strings.Replace(string(figure), `"executable_sha256": "`, `"executable_sha256": "0`, 1),
		"damaged":       string(figure[:len(figure)/2]),
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, r, said := attached()
		if m != "" || r != "" || strings.Contains(said, "is left out") != (name == "damaged") {
			t.Errorf("%s: in the manifest: %s, in the result: %s, said %s", name, m, r, said)
		}
	}
}

// Over HTTPS all is the same, and the table has it; that the figure cannot be kept is
// no failure.
func TestSelftestOverTLS(t *testing.T) {
	asServebench(t)
	t.Setenv("XDG_CACHE_HOME", filepath.Join(os.DevNull, "x"))
	code, out, errs := command(t, "selftest", "--tls", "--concurrency", "1", "--duration", "1s")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, want := range []string{"TTFT bias", "Floor of this machine (1 stream, ", "VALID"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if !strings.Contains(errs, "not kept for later runs") {
		t.Error(errs)
	}
}

func TestSelftestRefusesFlags(t *testing.T) {
	for _, row := range [][2]string{
		{"--concurrency 1,x", `--concurrency: "x"; want numbers`}, {"--concurrency 2,1", "--concurrency: 1 after 2; want rising"},
		{"--duration 1h", "--duration: 1h0m0s; want 1s to 1m"}, {"--duration soon", "--duration: \"soon\"; want a time"}, {"more", "unexpected word"},
		{"--streams 1", "streams"},
	} {
		code, out, errs := command(t, append([]string{"selftest"}, strings.Fields(row[0])...)...)
		if code != exitUsage || out != "" || !strings.Contains(errs, row[1]) {
			t.Errorf("%s: exit %d, %s%s", row[0], code, out, errs)
		}
	}
}

// An interrupt ends both processes, whichever of them it was sent to.
func TestSelftestEndsItsSimulator(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux lists a process's children")
	}
	asServebench(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "selftest", "--concurrency", "1", "--duration", "1m")
	var said lines
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-said.has("1 stream")
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	var children []string
	for _, f := range tasks {
		text, _ := os.ReadFile(f) // a thread may have ended
		children = append(children, strings.Fields(string(text))...)
	}
	if len(children) != 1 {
		t.Fatalf("children: %v", children)
	}
	pid, err := strconv.Atoi(children[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit code is looked at
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(said.String(), "interrupted") || out.Len() != 0 {
		t.Errorf("exit %d: %s%s", code, said.String(), out.String())
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the simulator is still there: %v", err)
	}
}

// A simulator that does not listen says why, and none is left.
func TestStartTruthTellsWhyItFails(t *testing.T) {
	asServebench(t)
	if _, err := startTruth(t.Context(), os.Args[0], -time.Second, selftest.ITL, false); err == nil || !strings.Contains(err.Error(), "it does not listen") || !strings.Contains(err.Error(), "--ttft") {
		t.Errorf("%v", err)
	}
	if _, err := startTruth(t.Context(), filepath.Join(t.TempDir(), "none"), time.Second, selftest.ITL, false); err == nil {
		t.Error("a program that is not there")
	}
}

// The last lines say what was found, in words.
func TestSelftestTellsWhatItFound(t *testing.T) {
	bias, off, at := 0.08, 0.2, 500
	e := selftest.Errors{TTFTBias: selftest.Spread{N: 10, Mean: 0.09, P50: bias}, ITLP99Error: &off}
	r := &selftest.Report{
		Steps: []selftest.Step{{Concurrency: 100, EventsPerSecond: 9900.4, Kernel: &e, Verdict: "VALID", VerdictUnstamped: "SUSPECT"}, {Concurrency: 500, Verdict: "SUSPECT", Reasons: []string{"a", "b"}}},
		Floor: &selftest.Floor{Concurrency: 100, Stamps: "kernel", TTFTBiasP50: &bias}, MaxValid: &selftest.Reach{Concurrency: 100, EventsPerSecond: 9900.4},
		TurnedAt: &at, TurnedTo: "SUSPECT", Stopped: "no\x1btime", Failures: []string{"it did not see"},
	}
	var b strings.Builder
	if err := writeSelftestEnd(&b, r); err != nil {
		t.Fatal(err)
	}
	want := `
Floor of this machine (100 streams, with kernel stamps): TTFT bias p50 0.080 ms, ITL error p99 unknown, too few samples
VALID up to 100 streams and 9900 events/s, SUSPECT at 500: a; b
Stopped early: no\x1btime
FAIL: it did not see
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	if err := errors.Join(writeSelftestTitle(&b), writeSelftestStep(&b, r.Steps[0])); err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(b.String(), "\n")
	if len(rows) != 5 || !strings.Contains(rows[2], "    100  kernel       9900        -        -   0.090 ms   0.080 ms          -          -          -          -    20.0 %          -       -  VALID") ||
		!strings.HasSuffix(rows[3], "SUSPECT") || !strings.HasPrefix(rows[3], "         read ") {
		t.Errorf("%s", b.String())
	}
	if text, err := json.Marshal(r); err != nil || !gjson.ValidBytes(text) {
		t.Error(err)
	}
}

// A long delay has fewer decimals, so that it stays in its column.
func TestSelftestColumns(t *testing.T) {
	for ms, want := range map[float64]string{0.0804: "0.080 ms", 99.9: "99.900 ms", 871.089: "871.09 ms", 1653.822: "1653.8 ms", 23256.801: "23257 ms"} {
		if got := milli(ms, true); got != want {
			t.Errorf("%v: %q, want %q", ms, got, want)
		}
	}
}

// A full disk behind stdout: said once, and the figure is kept.
func TestSelftestKeepsItsFigure(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	full := errors.New("no space left")
	for _, asJSON := range []bool{false, true} {
		var errs strings.Builder
		v := &selftestView{t: &terminal{out: failing{full}, err: &errs}, asJSON: asJSON, tls: asJSON}
		r := &selftest.Report{Steps: []selftest.Step{{Concurrency: 1}, {Concurrency: 2}}, TLS: asJSON}
		for _, s := range r.Steps {
			v.ended(s)
		}
		err := v.conclude(r, true)
		var exit *exitError
		if !errors.As(err, &exit) || exit.code != exitUnsaved || strings.Count(err.Error(), "no space") != 1 {
			t.Errorf("%v", err)
		}
		path, _ := figurePath(asJSON)
		if _, err := os.Stat(path); err != nil || !strings.Contains(errs.String(), "kept for") {
			t.Errorf("%v; %s", err, errs.String())
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
