//go:build unix

package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

// TestMain lets the test binary stand in for a server, for what a server starts,
// and for a tool that gets killed; else it runs the tests and fails if one leaves
// a goroutine behind.
func TestMain(m *testing.M) {
	switch os.Getenv("SERVER_TEST_ROLE") {
	case "server":
		fakeServer()
	case "child":
		fakeChild()
	case "tool":
		fakeTool()
	}
	goleak.VerifyTestMain(m)
}

// fakeServer does what its variables say: SAY is written to standard error, FIFO
// is kept open, CHILD is started, EXIT ends it, STUBBORN ignores TERM; then it
// answers on the address of its last argument.
func fakeServer() {
	if os.Getenv("STUBBORN") != "" {
		signal.Ignore(syscall.SIGTERM)
	}
	fmt.Fprintln(os.Stderr, os.Getenv("SAY"))
	if path := os.Getenv("FIFO"); path != "" {
		fifo, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			panic(err)
		}
		if os.Getenv("CHILD") != "" {
			startChild(fifo)
		}
		fmt.Fprintln(fifo, "server")
	}
	if code := os.Getenv("EXIT"); code != "" {
		n, _ := strconv.Atoi(code)
		os.Exit(n)
	}
	if os.Getenv("DEAF") != "" {
		select {}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		if os.Getenv("UNWELL") != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("/env", func(w http.ResponseWriter, _ *http.Request) { json.NewEncoder(w).Encode(os.Environ()) })
	mux.HandleFunc("/exit", func(http.ResponseWriter, *http.Request) {
		fmt.Println("ValueError: told to end")
		os.Exit(7)
	})
	mux.HandleFunc("/kill", func(http.ResponseWriter, *http.Request) { syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	panic(http.ListenAndServe(os.Args[len(os.Args)-1], mux))
}

// startChild starts a process that holds fifo open too, in a session of its own
// and without the group's variable where CHILD is "lost", and waits until it has
// said so.
func startChild(fifo *os.File) {
	said, says, err := os.Pipe()
	if err != nil {
		panic(err)
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "SERVER_TEST_ROLE=child")
	switch os.Getenv("CHILD") {
	case "lost": // nothing but its parent shows whose it is
		child.Env = append(child.Env, markName+"=")
		fallthrough
	case "session": // only the variable stays when the parent has gone
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	child.ExtraFiles = []*os.File{fifo, says}
	if err := child.Start(); err != nil {
		panic(err)
	}
	says.Close()
	io.ReadAll(said)
}

// fakeChild ignores what can be ignored and holds what it inherited.
func fakeChild() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP)
	os.NewFile(4, "says").Close()
	select {}
}

// fakeTool starts the group of its first argument, writes the process id of the
// watcher, and waits to be killed, or until standard input ends.
func fakeTool() {
	var cfg Config
	if err := json.Unmarshal([]byte(os.Args[1]), &cfg); err != nil {
		panic(err)
	}
	g, err := Start(context.Background(), cfg)
	if err != nil {
		panic(err)
	}
	fmt.Println(g.watch.cmd.Process.Pid)
	io.ReadAll(os.Stdin)
	os.Exit(0) // and Stop is never called
}

// fake is the configuration of a fake server, with variables in pairs.
func fake(variables ...string) Config {
	cfg := Config{Command: []string{os.Args[0], "{host}:{port}"}, Env: map[string]string{"SERVER_TEST_ROLE": "server"},
		ReadyTimeout: time.Minute, StopTimeout: time.Minute}
	for i := 0; i < len(variables); i += 2 {
		cfg.Env[variables[i]] = variables[i+1]
	}
	return cfg
}

func start(t *testing.T, cfg Config) *Group {
	t.Helper()
	g, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Stop(context.Background()) })
	return g
}

// holders is a named pipe that processes of a server hold open.
type holders struct {
	path  string
	lines chan string // what they write; closed when none has it open any more
	own   *os.File    // keeps it open until gone is called
}

func newHolders(t *testing.T) *holders {
	h := &holders{path: filepath.Join(t.TempDir(), "fifo"), lines: make(chan string, 100)}
	if err := syscall.Mkfifo(h.path, 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := os.OpenFile(h.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if h.own, err = os.OpenFile(h.path, os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	go func() { // ends when the last holder does
		defer close(h.lines)
		defer in.Close()
		for s := bufio.NewScanner(in); s.Scan(); {
			h.lines <- s.Text()
		}
	}()
	t.Cleanup(func() { h.gone(t, time.Minute) })
	return h
}

// gone waits until all holders have ended, and fails when that takes longer.
func (h *holders) gone(t *testing.T, limit time.Duration) {
	t.Helper()
	h.own.Close()
	late := time.After(limit)
	for more := true; more; {
		select {
		case _, more = <-h.lines:
		case <-late:
			t.Fatalf("a process of the server still lives after %v", limit)
		}
	}
}

func TestStartAndStop(t *testing.T) {
	t.Parallel()
	held := newHolders(t)
	cfg := fake("FIFO", held.path, "CHILD", "group", "SAY", "Using uncalibrated q_scale 1.0 in replica {replica}", "MINE", "{port}")
	cfg.Replicas, cfg.Devices, cfg.LogDir, cfg.LogName = 2, []int{4, 5, 6, 7}, t.TempDir(), "point-1.server"
	cfg.StopTimeout = 200 * time.Millisecond // the child ignores TERM
	cfg.Command[0] = "{servebench}"
	g := start(t, cfg)

	for i, url := range g.URLs() {
		resp, err := http.Get(url + "/env")
		if err != nil {
			t.Fatal(err)
		}
		var env []string
		err = json.NewDecoder(resp.Body).Decode(&env)
		resp.Body.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
		for _, want := range []string{"MINE=" + port, "CUDA_VISIBLE_DEVICES=" + []string{"4,5", "6,7"}[i], "PATH=" + os.Getenv("PATH")} {
			if err != nil || !slices.Contains(env, want) {
				t.Errorf("replica %d's environment lacks %s (%v)", i, want, err)
			}
		}
		l := g.Launched()[i]
		if l.Args[0] != "servebench" {
			t.Errorf("this program is called %s", l.Args[0])
		}
		if l.Args[1] != "127.0.0.1:"+port || l.Env["MINE"] != port || l.Env[markName] != "" {
			t.Errorf("launched %v", l)
		}
		if want := fmt.Sprintf("point-1.server-%d.log", i); filepath.Base(g.Logs()[i]) != want {
			t.Errorf("log %s, want %s", g.Logs()[i], want)
		}
	}
	if pids := g.PIDs(); len(pids) < 2 || !slices.Contains(pids, g.replicas[0].cmd.Process.Pid) || slices.Contains(pids, os.Getpid()) || slices.Contains(pids, g.watch.cmd.Process.Pid) {
		t.Errorf("process ids %v", pids)
	}
	if g.Err() != nil {
		t.Errorf("before its end: %v", g.Err())
	}
	for range 2 { // and once more in the cleanup
		if err := g.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	held.gone(t, 10*time.Second)
	if pids := g.PIDs(); len(pids) > 0 {
		t.Errorf("process ids %v after the end", pids)
	}
	for i, log := range g.Logs() {
		if data, err := os.ReadFile(log); err != nil || !strings.HasPrefix(string(data), fmt.Sprintf("Using uncalibrated q_scale 1.0 in replica %d\n", i)) {
			t.Errorf("log %q (%v)", data, err)
		}
	}
	want := []string{"the server's log says, first of 2 such lines: Using uncalibrated q_scale 1.0 in replica "}
	if got := g.Warnings(); len(got) != 1 || !strings.HasPrefix(got[0], want[0]) {
		t.Errorf("warnings %q, want %q", got, want)
	}
	select {
	case <-g.Done():
		t.Error("an orderly end is none that nobody has asked for")
	default:
	}
	if !g.watch.gone() {
		t.Error("the watcher has survived")
	}
}

// TestLogsOfATemporaryFolder go with the group; those of a folder that was given
// stay, and are not written over by the next start.
func TestLogsStay(t *testing.T) {
	t.Parallel()
	g := start(t, fake())
	if _, err := os.Stat(g.Logs()[0]); err != nil {
		t.Error(err)
	}
	g.Stop(t.Context())
	if _, err := os.Stat(filepath.Dir(g.Logs()[0])); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary folder: %v", err)
	}
	cfg := fake("SAY", "x")
	cfg.LogDir = filepath.Join(t.TempDir(), "new")
	var names []string
	for range 2 {
		g := start(t, cfg)
		g.Stop(t.Context())
		data, _ := os.ReadFile(g.Logs()[0])
		names = append(names, filepath.Base(g.Logs()[0]), string(data[:1]))
	}
	if want := []string{"server.log", "x", "server.2.log", "x"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if _, err := Start(t.Context(), Config{Command: []string{"/servebench-no-such-program", "{port}"}, LogDir: cfg.LogDir}); err == nil {
		t.Error("a program that is not there was started")
	}
	if left, err := os.ReadDir(cfg.LogDir); err != nil || len(left) != 2 {
		t.Errorf("%v in the folder (%v): want no log of what did not start", left, err)
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	code := func(n int) *int { return &n }
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() }) // after the parallel tests below
	port := taken.Addr().(*net.TCPAddr).Port
	short := func(c Config) Config { c.ReadyTimeout = 300 * time.Millisecond; return c }
	at := func(c Config, port int) Config { c.Port = port; return c }
	shell := func(script string) Config {
		return Config{Command: []string{"sh", "-c", script, "sh", "{port}"}, StopTimeout: time.Minute}
	}
	for _, c := range []struct {
		name string
		cfg  Config
		want StartError // its Message the beginning
	}{
		{"no such program", Config{Command: []string{"servebench-no-such-program", "{port}"}},
			StartError{Stage: "runtime_startup", Category: "command_not_found", Message: `server.command: exec: "servebench-no-such-program": executable file not found`}},
		{"not in the PATH given", Config{Command: []string{"sh", "{port}"}, Env: map[string]string{"PATH": "/nowhere"}},
			StartError{Stage: "runtime_startup", Category: "command_not_found", Message: `server.command: exec: "sh": executable file not found`}},
		{"a shell's unknown program", shell("servebench-no-such-program"),
			StartError{Stage: "runtime_startup", Category: "command_not_found", ExitCode: code(127), Message: "sh: "}},
		{"vLLM without memory", fake("EXIT", "1", "SAY", "(EngineCore pid=4) ERROR 08-26 10:00:00 [core.py:7] ValueError: No available memory for the cache blocks. Try\nRuntimeError: Engine core initialization failed. See root cause above."),
			StartError{Stage: "runtime_startup", Category: "kv_cache_allocation", ExitCode: code(1), Message: "ValueError: No available memory for the cache blocks. Try",
				LogTail: []byte("(EngineCore pid=4) ERROR 08-26 10:00:00 [core.py:7] ValueError: No available memory for the cache blocks. Try\nRuntimeError: Engine core initialization failed. See root cause above.\n")}},
		{"an end without an error", fake("EXIT", "0", "SAY", "bye"),
			StartError{Stage: "runtime_startup", Category: "other", ExitCode: code(0), Message: "bye", LogTail: []byte("bye\n")}},
		{"a silent end", shell("exit 3"),
			StartError{Stage: "runtime_startup", Category: "other", ExitCode: code(3), Message: "it ended without a word"}},
		{"killed", shell("echo loading; kill -9 $$"),
			StartError{Stage: "runtime_startup", Category: "killed", Message: "ended by the signal: killed; its last words: loading", LogTail: []byte("loading\n")}},
		{"never well", short(fake("UNWELL", "1", "SAY", "hm")),
			StartError{Stage: "readiness", Category: "timeout", Message: "not ready after 300ms: GET /health: answered 503 Service Unavailable", LogTail: []byte("hm\n")}},
		{"never there", short(fake("DEAF", "1", "SAY", "hm")),
			StartError{Stage: "readiness", Category: "timeout", Message: "not ready after 300ms: GET /health: ", LogTail: []byte("hm\n")}},
		{"a port in use", at(fake(), port),
			StartError{Stage: "runtime_startup", Category: "port_in_use", Message: fmt.Sprintf("127.0.0.1:%d is in use; end what listens there, or set server.port to another port", port)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Start(t.Context(), c.cfg)
			got, ok := errors.AsType[*StartError](err)
			if !ok {
				t.Fatalf("%v is no StartError", err)
			}
			if !strings.HasPrefix(got.Message, c.want.Message) {
				t.Errorf("message %q, want %q…", got.Message, c.want.Message)
			}
			if n := max(1, c.cfg.Replicas); len(got.Launched) != n || got.Launched[0].Args[0] != c.cfg.Command[0] {
				t.Errorf("the commands are %v", got.Launched)
			}
			have := *got
			have.Launched = nil
			have.Message = c.want.Message
			if c.want.LogTail == nil {
				have.LogTail = nil
			}
			if c.want.Category == "timeout" && c.want.LogTail != nil && len(have.LogTail) == 0 {
				have.LogTail = c.want.LogTail // a loaded machine has not come so far
			}
			if d := cmp.Diff(c.want, have); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestPortInUseNamesTheReplica: the second of three ports is taken.
func TestPortInUseNamesTheReplica(t *testing.T) {
	for { // two free ports in a row
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port := first.Addr().(*net.TCPAddr).Port
		second, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+1))
		first.Close()
		if err != nil {
			continue
		}
		_, taken := reserve("127.0.0.1", port, 3)
		second.Close()
		if taken == nil || taken.Replica != 1 || taken.Category != "port_in_use" {
			t.Errorf("got %+v, want port_in_use for replica 1", taken)
		}
		return
	}
}

func TestOtherErrorsAreNoStartErrors(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o600)
	noDir, noLogs := fake(), fake()
	noDir.Dir, noLogs.LogDir = file, file
	for want, cfg := range map[string]Config{"server.command: empty": {}, "server.dir: ": noDir, "server.log_dir: ": noLogs} {
		_, err := Start(t.Context(), cfg)
		if _, is := errors.AsType[*StartError](err); err == nil || is || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s…", err, want)
		}
	}
}

// TestOneFailsAllStop: the replica that fails first is the error, and the others
// are gone when Start returns.
func TestOneFailsAllStop(t *testing.T) {
	t.Parallel()
	held := newHolders(t)
	cfg := fake("FIFO", held.path, "CHILD", "session")
	cfg.Replicas, cfg.StopTimeout = 3, 200*time.Millisecond
	// Replica 1 is no server.
	cfg.Command = []string{"sh", "-c", `[ $2 = 1 ] && { echo "OutOfMemoryError: CUDA out of memory" >&2; exit 9; }; exec "$0" "$1"`, os.Args[0], "{host}:{port}", "{replica}"}
	cfg.Env["DEAF"] = "1" // the others would never be ready
	_, err := Start(t.Context(), cfg)
	got, ok := errors.AsType[*StartError](err)
	if !ok || got.Replica != 1 || got.Category != "out_of_memory" || got.ExitCode == nil || *got.ExitCode != 9 {
		t.Errorf("got %v, want out_of_memory of replica 1", err)
	}
	held.gone(t, 10*time.Second)
}

// TestCancelStart: when the context ends, what was started is gone, and the
// context's cause is the error.
func TestCancelStart(t *testing.T) {
	t.Parallel()
	held := newHolders(t)
	cfg := fake("FIFO", held.path, "DEAF", "1")
	cfg.Replicas = 2
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	result := make(chan error)
	go func() {
		_, err := Start(ctx, cfg)
		result <- err
	}()
	for range cfg.Replicas {
		<-held.lines
	}
	cancel(why)
	if err := <-result; err != why {
		t.Errorf("got %v, want %v", err, why)
	}
	held.gone(t, 10*time.Second)
	if _, err := Start(ctx, cfg); err != why {
		t.Errorf("with an ended context: %v, want %v", err, why)
	}
}

// TestCancelStartHurries: a canceled start is patient with what ignores TERM, until
// it is told to hurry.
func TestCancelStartHurries(t *testing.T) {
	t.Parallel()
	held := newHolders(t)
	cfg := fake("FIFO", held.path, "STUBBORN", "1", "DEAF", "1")
	cfg.StopTimeout = time.Hour
	hurry, now := context.WithCancel(t.Context())
	ctx, cancel := context.WithCancel(hurry)
	result := make(chan error)
	go func() {
		_, err := Start(WithHurry(ctx, hurry), cfg)
		result <- err
	}()
	<-held.lines
	cancel()
	now()
	if err := <-result; err != context.Canceled {
		t.Error(err)
	}
	held.gone(t, 10*time.Second)
}

// TestStopHurries: when Stop's context ends, what ignores TERM is killed at once.
func TestStopHurries(t *testing.T) {
	t.Parallel()
	held := newHolders(t)
	cfg := fake("FIFO", held.path, "STUBBORN", "1", "CHILD", "lost")
	cfg.StopTimeout = time.Hour
	g := start(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Stop(ctx); err != nil {
		t.Error(err)
	}
	held.gone(t, 10*time.Second)
}

// TestUnaskedEnd: Done tells of it, Err says why.
func TestUnaskedEnd(t *testing.T) {
	t.Parallel()
	seven := 7
	for path, want := range map[string]StartError{
		"/exit": {Replica: 1, Stage: "runtime", Category: "other", ExitCode: &seven, Message: "ValueError: told to end", LogTail: []byte("hello\nValueError: told to end\n")},
		"/kill": {Replica: 1, Stage: "runtime", Category: "killed", Message: "ended by the signal: killed; its last words: hello", LogTail: []byte("hello\n")},
	} {
		cfg := fake("SAY", "hello")
		cfg.Replicas = 2
		g := start(t, cfg)
		if _, err := http.Get(g.URLs()[1] + path); err == nil {
			t.Error("an answer from one that ends")
		}
		<-g.Done()
		got, ok := errors.AsType[*StartError](g.Err())
		if !ok {
			t.Fatalf("got %v", g.Err())
		}
		if d := cmp.Diff(want, *got); d != "" {
			t.Error(d)
		}
		if err := g.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if g.Err() == nil {
			t.Error("Stop has made the error go")
		}
	}
}

// TestDevicesAndTheirVariable: the variable goes first, and that is said.
func TestDevicesAndTheirVariable(t *testing.T) {
	t.Parallel()
	cfg := fake(cudaDevices, "3")
	cfg.Devices = []int{0}
	g := start(t, cfg)
	if got, want := g.Warnings(), []string{`server.env sets CUDA_VISIBLE_DEVICES to "3", which goes before server.devices [0]`}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
