package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/selftest"
)

// selftestCommand is `servebench selftest`.
func selftestCommand(t *terminal) *cli.Command {
	var steps []string
	for _, n := range selftest.DefaultConcurrency {
		steps = append(steps, strconv.Itoa(n))
	}
	return &cli.Command{
		Name:  "selftest",
		Usage: "measure how exact servebench's own numbers are on this machine",
		Description: "Runs the simulator in a process of its own, at rising concurrency, and holds what the client measured against what the\n" +
			"simulator did. It takes two minutes at most. docs/selftest.md says what the columns mean. The figure is kept in the user's\n" +
			"cache folder and attached to the manifests of later runs of this build on this machine.\n" +
			"Exit codes: 0; 2 usage; 4 a step's verdict was VALID though its ITL p99 was off by more than 5 %; 5 the simulator failed.",
		HideHelpCommand: true,
		OnUsageError:    wrongFlag,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "concurrency", Usage: "`STREAMS` of each step, rising, with commas between", Value: strings.Join(steps, ",")},
			&cli.StringFlag{Name: "duration", Usage: "`TIME` that a step takes, 1s to 1m", Value: selftest.DefaultDuration.String()},
			&cli.BoolFlag{Name: "tls", Usage: "speak HTTPS with the simulator"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object and no table"},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("unexpected word %s", quoteWord(c.Args().First()))
			}
			config, err := readSelftest(c)
			if err != nil {
				return &exitError{code: exitUsage, err: err, hint: "servebench selftest --help"}
			}
			return t.selftest(c.Context, config, c.Bool("tls"), c.Bool("json"))
		},
	}
}

// readSelftest reads the flags; all mistakes are reported at once.
func readSelftest(c *cli.Context) (config selftest.Config, err error) {
	var errs []error
	for word := range strings.SplitSeq(c.String("concurrency"), ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil {
			errs = append(errs, fmt.Errorf("--concurrency: %s; want numbers with commas between, such as 1,16,100", quoteWord(word)))
			continue
		}
		config.Concurrency = append(config.Concurrency, n)
	}
	config.Duration, err = time.ParseDuration(c.String("duration"))
	if err != nil {
		errs = append(errs, fmt.Errorf("--duration: %s; want a time such as 8s", quoteWord(c.String("duration"))))
		config.Duration = selftest.DefaultDuration
	}
	if err := config.Validate(); err != nil && len(errs) == 0 {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			errs = append(errs, errors.New("--"+line))
		}
	}
	return config, errors.Join(errs...)
}

// selftest runs the steps, shows them and keeps the figure.
func (t *terminal) selftest(ctx context.Context, c selftest.Config, tls, asJSON bool) error {
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program's file: %w", err)
	}
	ctx, signals := catchSignals(ctx, t, func() string { return "ending; what there is gets shown" })
	defer signals.stop()
	ctx, cancel := bench.UntilStopped(ctx, signals.soft)
	defer cancel()

	v := &selftestView{t: t, tls: tls, asJSON: asJSON}
	c.Streams = openStreams()
	c.Began, c.Ended = v.began, v.ended
	c.Start = func(ctx context.Context, ttft, itl time.Duration) (*selftest.Simulator, error) {
		return startTruth(ctx, executable, ttft, itl, tls)
	}
	r, err := selftest.Run(ctx, c)
	v.pause()
	if ctx.Err() != nil {
		if r != nil && len(r.Steps) > 0 {
			r.Stopped = "interrupted"
			t.describe(r, executable, tls)
			_ = v.show(r) // the exit code tells of the interrupt
		}
		return &exitError{code: signals.code(), err: errors.New("interrupted")}
	}
	if err != nil {
		return &exitError{code: exitTarget, err: err}
	}
	if len(r.Steps) == 0 {
		return &exitError{code: exitUsage, err: fmt.Errorf("no step was run: %s", r.Stopped)}
	}
	if err := v.conclude(r, t.describe(r, executable, tls)); err != nil {
		return err
	}
	if len(r.Failures) > 0 {
		return &exitError{code: exitInvalid, err: errors.New("the verdict did not see the client's own error")}
	}
	return nil
}

// conclude shows a report and keeps its figure, if its build is known: also where
// nobody takes what is shown.
func (v *selftestView) conclude(r *selftest.Report, known bool) error {
	err := v.show(r)
	if known {
		v.t.keepFigure(r)
	}
	if err != nil && !errors.Is(err, syscall.EPIPE) {
		return &exitError{code: exitUnsaved, err: fmt.Errorf("the result: %w", err)}
	}
	return nil
}

// describe fills in what a report was made with; false where the program's file
// cannot be read, without which its figure is not known again.
func (t *terminal) describe(r *selftest.Report, executable string, tls bool) bool {
	r.TLS, r.Machine = tls, selftest.ThisMachine()
	var err error
	if r.Build, err = selftest.ThisBuild(executable); err != nil {
		t.notef("the figure is not kept: this program's file cannot be read: %v", err)
	}
	return err == nil
}

// keepFigure saves a report's figure for later runs. That it cannot be is no failure
// of the selftest.
func (t *terminal) keepFigure(r *selftest.Report) {
	path, err := figurePath(r.TLS)
	if err == nil {
		err = r.Save(path)
	}
	if err != nil {
		t.notef("the figure is not kept for later runs: %v", err)
		return
	}
	t.notef("kept for the manifests of later runs: %s", path)
}

// figurePath is where the figure of this user is.
func figurePath(tls bool) (string, error) {
	dir := os.Getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(dir) {
		var err error
		if dir, err = os.UserCacheDir(); err != nil {
			return "", err
		}
	}
	name := "selftest.json"
	if tls {
		name = "selftest-tls.json"
	}
	return filepath.Join(dir, "servebench", name), nil
}

// selftestFigure is what a selftest of this build found on this machine, for a server
// of this base URL; nil where there is none.
func (t *terminal) selftestFigure(baseURL string) json.RawMessage {
	path, err := figurePath(strings.HasPrefix(baseURL, "https:"))
	if err != nil {
		return nil // no selftest could keep one
	}
	f, err := selftest.Load(path, selftest.ThisMachine(), func() (selftest.Build, error) {
		executable, err := os.Executable()
		if err != nil {
			return selftest.Build{}, err
		}
		return selftest.ThisBuild(executable)
	})
	if err != nil {
		t.notef("the figure of the selftest is left out: %s: %v", path, err)
	}
	return f
}

// attachSelftest gives every point the figure of this machine, read once.
func (s *study) attachSelftest(t *terminal) {
	figures := map[bool]json.RawMessage{}
	for i := range s.experiment.Points {
		c := &s.experiment.Points[i].Config
		tls := strings.HasPrefix(c.Target.BaseURL, "https:")
		if _, ok := figures[tls]; !ok {
			figures[tls] = t.selftestFigure(c.Target.BaseURL)
		}
		c.Selftest = figures[tls]
	}
}

// startTruth starts the simulator in a process of its own.
func startTruth(ctx context.Context, executable string, ttft, itl time.Duration, tls bool) (*selftest.Simulator, error) {
	args := []string{"sim", "--truth", "--until-eof", "--host", "127.0.0.1", "--port", "0", "--ttft", ttft.String(), "--itl", itl.String()}
	if tls {
		args = append(args, "--tls")
	}
	cmd := exec.Command(executable, args...)
	// A key of the user's is for other servers. The simulator's memory is little, and
	// it should be slowed down by collecting it even less than servebench is.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return name == "SERVEBENCH_SIM_API_KEY" || name == "VLLM_API_KEY" || name == "GOGC"
	})
	cmd.Env = append(cmd.Env, "GOGC=100")
	var said lastWords
	cmd.Stderr = &said
	stdin, err := cmd.StdinPipe() // its end ends the process, also when this one is killed
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &truthProcess{cmd: cmd, stdin: stdin}
	// Whoever does not start in time is killed, and the read below ends.
	starting, cancel := context.WithTimeout(ctx, 10*time.Second)
	kill := context.AfterFunc(starting, func() { _ = cmd.Process.Kill() })
	line, readErr := bufio.NewReader(stdout).ReadString('\n')
	kill()
	cancel()
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if readErr != nil || !ok {
		_, _, err := p.stop()
		return nil, fmt.Errorf("it does not listen: %s", cmp.Or(said.String(), fmt.Sprint(errors.Join(readErr, err))))
	}
	return &selftest.Simulator{URL: url, Stop: p.stop}, nil
}

// truthProcess is a simulator under way.
type truthProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

// stop ends the process, by force after some seconds, and waits for it.
func (p *truthProcess) stop() (cpu time.Duration, known bool, err error) {
	// One of the two and not both: once the first has ended its server, the simulator no
	// longer catches the other.
	if p.cmd.Process.Signal(syscall.SIGTERM) != nil {
		_ = p.stdin.Close() // it has ended, or the system has no such signal
	}
	late := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	err = p.cmd.Wait() // closes stdin too
	if s := p.cmd.ProcessState; s != nil {
		cpu, known = s.UserTime()+s.SystemTime(), true
	}
	return cpu, known, err
}

// lastWords keeps the end of what a process says.
type lastWords struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

func (l *lastWords) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 4 << 10
	l.text = append(l.text, p...)
	l.text = l.text[max(0, len(l.text)-most):]
	return len(p), nil
}

// String is the last line that is no hint.
func (l *lastWords) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(l.text)), "\n")
	for len(lines) > 1 && strings.HasPrefix(lines[len(lines)-1], "hint: ") {
		lines = lines[:len(lines)-1]
	}
	return lines[len(lines)-1]
}
