package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/servebench/servebench/manifest"
)

// replica is one server process and what it started.
type replica struct {
	index    int
	url      string
	port     int
	launched manifest.Launched
	cmd      *exec.Cmd
	out      *os.File // what it writes, to be read
	log      *capture
	exited   chan struct{} // closed when cmd was waited for
	ready    atomic.Bool
}

// start starts the process; on an error nothing is left behind. The replica's
// two goroutines, which read its log and wait for its end, are the group's: they
// end once it is stopped.
func (r *replica) start(g *Group) error {
	file, err := createLog(g.logDir, g.cfg.LogName, r.index, g.cfg.Replicas)
	if err != nil {
		return err
	}
	r.log = &capture{file: file, limit: logBytes, warn: g.warn, done: make(chan struct{})}
	var in *os.File
	if r.out, in, err = os.Pipe(); err != nil {
		discard(file)
		return err
	}
	defer in.Close()
	path, err := lookPath(r.launched.Args[0], g.cfg.Dir, r.launched.Env)
	if err == nil {
		r.cmd = &exec.Cmd{Path: path, Args: r.launched.Args, Dir: g.cfg.Dir, Stdout: in, Stderr: in,
			Env: append(environment(r.launched.Env), markName+"="+g.mark)}
		ownSession(r.cmd)
		err = r.cmd.Start()
	}
	if err != nil {
		r.cmd = nil
		r.out.Close()
		discard(file)
		return r.notStarted(err)
	}
	g.goroutines.Go(func() { r.log.run(r.out) })
	g.goroutines.Go(func() { r.wait(g) })
	return nil
}

// discard removes a log that nobody will write to.
func discard(file *os.File) {
	file.Close()
	os.Remove(file.Name())
}

// environment is this program's with env over it.
func environment(env map[string]string) []string {
	all := slices.DeleteFunc(os.Environ(), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		_, set := env[name]
		return set || name == markName
	})
	for _, name := range slices.Sorted(maps.Keys(env)) {
		all = append(all, name+"="+env[name])
	}
	return all
}

// lookPath finds a program as a shell would after a change to dir and with the
// PATH of env, if it has one.
func lookPath(name, dir string, env map[string]string) (string, error) {
	if strings.ContainsRune(name, filepath.Separator) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		if dir != "" { // exec would look from dir
			var err error
			if name, err = filepath.Abs(name); err != nil {
				return "", err
			}
		}
		return exec.LookPath(name)
	}
	path, ok := env["PATH"]
	if !ok {
		return exec.LookPath(name)
	}
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(folder, name)); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("exec: %q: %w", name, exec.ErrNotFound)
}

// createLog makes a new file for a replica's log; what is there stays.
func createLog(dir, name string, replica, replicas int) (*os.File, error) {
	if replicas > 1 {
		name = fmt.Sprintf("%s-%d", name, replica)
	}
	for n := 1; ; n++ {
		path := filepath.Join(dir, name+".log")
		if n > 1 {
			path = filepath.Join(dir, fmt.Sprintf("%s.%d.log", name, n))
		}
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, os.ErrExist) {
			return f, err
		}
	}
}

// notStarted is the error of a process that could not be started at all.
func (r *replica) notStarted(err error) *StartError {
	e := &StartError{Replica: r.index, Stage: stageStart, Category: categoryOther, Message: err.Error()}
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		e.Category = categoryCommand
		e.Message = fmt.Sprintf("server.command: %v; want a program that can be run, with its folder or one in PATH", err)
	}
	return e
}

// wait waits until the process has ended and, where nobody asked for that, tells
// the group. The log's last lines are waited for, but not for long: what the
// process started may hold it open.
func (r *replica) wait(g *Group) {
	r.cmd.Wait() // the state says how it ended
	close(r.exited)
	select {
	case <-r.log.done:
	case <-g.stopping:
	case <-time.After(500 * time.Millisecond):
	}
	select {
	case <-g.stopping:
	default:
		g.died(r)
	}
}

// failure is the error of a process that has ended unasked.
func (r *replica) failure() *StartError {
	e := &StartError{Replica: r.index, Stage: stageStart, LogTail: r.log.end()}
	if r.ready.Load() {
		e.Stage = stageRuntime
	}
	state := r.cmd.ProcessState
	signal := signaled(state)
	if code := state.ExitCode(); signal == "" {
		e.ExitCode = &code
	}
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	e.Version = r.log.diag.version
	e.Category, e.Message = r.log.diag.cause(e.ExitCode, r.log.last)
	if signal != "" && r.log.diag.reason == 0 {
		e.Category = categoryKilled
		e.Message = "ended by the signal: " + signal
		if r.log.last != "" {
			e.Message += "; its last words: " + brief(r.log.last)
		}
	}
	if e.Message == "" {
		e.Message = "it ended without a word"
	}
	return e
}

// notReady is the error of a process that still runs but does not answer.
func (r *replica) notReady(after time.Duration, path, answer string) *StartError {
	return &StartError{Replica: r.index, Stage: stageReady, Category: categoryTimeout, LogTail: r.log.end(), Version: r.log.version(),
		Message: fmt.Sprintf("not ready after %v: GET %s: %s; want a longer server.ready_timeout, or another server.ready_path", after, path, answer)}
}

const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
	pollLimit  = 5 * time.Second // one question's
)

// waitReady asks until the replica answers 200. ctx ends it, with its cause.
func (r *replica) waitReady(ctx context.Context, client *http.Client, cfg *Config) error {
	late := time.NewTimer(cfg.ReadyTimeout)
	defer late.Stop()
	for pause := firstPause; ; pause = min(pause*3/2, lastPause) {
		answer := r.ask(ctx, client, cfg.ReadyPath)
		if answer == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late.C:
			return r.notReady(cfg.ReadyTimeout, cfg.ReadyPath, answer)
		case <-time.After(pause):
		}
	}
}

// ask says what the replica answered in place of 200, or "".
func (r *replica) ask(ctx context.Context, client *http.Client, path string) string {
	ctx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	if err != nil {
		return err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if resp.StatusCode != http.StatusOK {
		return "answered " + resp.Status
	}
	return ""
}
