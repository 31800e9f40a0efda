package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/servebench/servebench/manifest"
)

// Group are the replicas of one server, started together. Its methods are safe
// for concurrent use. Whoever has one calls Stop; when this program ends without
// that, however it ends, a watcher ends the servers within 10 s.
type Group struct {
	cfg      Config // with its defaults
	mark     string
	logDir   string
	temp     bool // logDir is ours
	warn     *warnings
	own      []string // warnings that are no lines of the log
	replicas []*replica
	watch    *watcher

	goroutines sync.WaitGroup // of the replicas
	stop       sync.Once
	stopping   chan struct{} // closed when Stop is called
	hurry      chan struct{} // closed when it is to kill at once
	hurryOnce  sync.Once
	stopped    chan struct{} // closed when all is done
	stopErr    error         // after stopped

	death sync.Once
	dead  chan struct{} // closed when a replica ended unasked
	first *replica      // which one, after dead
}

// Start starts the replicas of a server side by side and returns once each has
// answered 200. A server that does not come so far is a [*StartError]; anything
// else wrong is another error. ctx bounds the start alone: when it ends, what was
// started is stopped in order, and its cause is the error; [WithHurry] says when that
// must not last any longer. On an error nothing is left running.
func Start(ctx context.Context, cfg Config) (*Group, error) {
	if err := errors.Join(cfg.Validate(), supported); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	g := &Group{cfg: cfg.withDefaults(), mark: rand.Text(), stopping: make(chan struct{}),
		hurry: make(chan struct{}), stopped: make(chan struct{}), dead: make(chan struct{})}
	g.warn = watchFor(cfg.LogWarnings)
	err := g.prepare()
	if err == nil {
		err = g.launch(ctx)
	}
	if err == nil {
		return g, nil
	}
	// What runs is ended in order, so that the logs are whole when they are asked
	// why. This takes no longer than StopTimeout and killTime.
	stopErr := g.Stop(hurryOf(ctx))
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	} else if e, ok := errors.AsType[*StartError](err); ok && g.first != nil && g.first.index == e.Replica {
		err = g.first.failure()
	}
	if e, ok := errors.AsType[*StartError](err); ok {
		e.Launched = g.cfg.Launched()
		if len(g.replicas) > 0 { // their ports are known
			e.Launched = g.Launched()
		}
	}
	if stopErr != nil {
		err = fmt.Errorf("%w; and %w", err, stopErr)
	}
	return nil, err
}

type hurryKey struct{}

// WithHurry returns a context for Start. When hurry ends while a start that failed or
// was canceled is being stopped, what is left gets KILL at once.
func WithHurry(ctx, hurry context.Context) context.Context {
	return context.WithValue(ctx, hurryKey{}, hurry)
}

// hurryOf is the context that ends when a stop is to be hurried.
func hurryOf(ctx context.Context) context.Context {
	if hurry, ok := ctx.Value(hurryKey{}).(context.Context); ok {
		return hurry
	}
	return context.WithoutCancel(ctx)
}

// prepare finds all that a start needs but the processes.
func (g *Group) prepare() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if g.cfg.Dir != "" {
		if info, err := os.Stat(g.cfg.Dir); err != nil || !info.IsDir() {
			return fmt.Errorf("server.dir: %q is no folder; want one to run in", g.cfg.Dir)
		}
	}
	ports, taken := reserve(g.cfg.Host, g.cfg.Port, g.cfg.Replicas)
	if taken != nil {
		return taken
	}
	for i, port := range ports {
		g.replicas = append(g.replicas, &replica{index: i, port: port, url: g.cfg.url(port),
			launched: g.cfg.launched(i, strconv.Itoa(port), self), exited: make(chan struct{})})
	}
	if set, ok := g.cfg.Env[cudaDevices]; ok && len(g.cfg.Devices) > 0 {
		g.own = append(g.own, fmt.Sprintf("server.env sets %s to %q, which goes before server.devices %v", cudaDevices, set, g.cfg.Devices))
	}
	g.logDir = g.cfg.LogDir
	if g.temp = g.logDir == ""; g.temp {
		g.logDir, err = os.MkdirTemp("", "servebench-server-")
	} else {
		err = os.MkdirAll(g.logDir, 0o777)
	}
	if err != nil {
		return fmt.Errorf("server.log_dir: %w", err)
	}
	return nil
}

// launch starts the watcher, then the replicas, then waits until all are ready.
// The first that fails ends the wait for the others.
func (g *Group) launch(ctx context.Context) (err error) {
	temporary := ""
	if g.temp {
		temporary = g.logDir
	}
	if g.watch, err = watch(g.mark, temporary); err != nil {
		return err
	}
	for _, r := range g.replicas {
		if err := r.start(g); err != nil {
			return err
		}
		if err := g.watch.add(r.cmd.Process.Pid); err != nil {
			return err
		}
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true}, // and no proxy
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var wg sync.WaitGroup
	for _, r := range g.replicas {
		wg.Go(func() {
			if err := r.waitReady(ctx, client, &g.cfg); err != nil {
				fail(err)
			} else if err := g.impostor(r); err != nil {
				fail(err)
			}
		})
	}
	all := make(chan struct{})
	go func() { wg.Wait(); close(all) }()
	select {
	case <-g.dead:
		fail(g.first.failure())
	case <-all:
	}
	<-all
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, r := range g.replicas {
		r.ready.Store(true)
	}
	g.warn.ready()
	return nil
}

// impostor is the error of a replica for which another program has answered: it
// took the port after it was found free.
func (g *Group) impostor(r *replica) error {
	if g.inContainer() {
		return nil
	}
	pid, ok := stranger(r.port, processes(g.mark, g.leaders(), nil))
	if !ok {
		return nil
	}
	return &StartError{Replica: r.index, Stage: stageStart, Category: categoryPort, LogTail: r.log.end(),
		Message: fmt.Sprintf("port %d is answered by another program, process %d; end it, or set server.port to another port, or to 0 for a free one", r.port, pid)}
}

// inContainer reports whether the command starts a container: then the one who
// listens is the daemon's child and none of ours.
func (g *Group) inContainer() bool {
	return slices.ContainsFunc(g.cfg.Command, func(word string) bool {
		return slices.Contains([]string{"docker", "podman", "nerdctl", "kubectl"}, filepath.Base(word))
	})
}

func (g *Group) died(r *replica) {
	g.death.Do(func() { g.first = r; close(g.dead) })
}

// leaders are the process ids of the replicas, which are those of their groups
// and sessions too.
func (g *Group) leaders() (pids []int) {
	for _, r := range g.replicas {
		if r.cmd != nil {
			pids = append(pids, r.cmd.Process.Pid)
		}
	}
	return pids
}

// URLs are the replicas' base URLs, in order.
func (g *Group) URLs() (urls []string) {
	for _, r := range g.replicas {
		urls = append(urls, r.url)
	}
	return urls
}

// Launched are the commands as they were run, with what was set in their
// environments; nothing is redacted. This program has its own name, whatever its
// file is called: [manifest] knows an engine by its name.
func (g *Group) Launched() (commands []manifest.Launched) {
	for _, r := range g.replicas {
		commands = append(commands, g.cfg.launched(r.index, strconv.Itoa(r.port), "servebench"))
	}
	return commands
}

// Logs are the paths of the replicas' logs, not redacted, in order. Without
// LogDir they go when the group is stopped.
func (g *Group) Logs() (paths []string) {
	for _, r := range g.replicas {
		paths = append(paths, r.log.file.Name())
	}
	return paths
}

// PIDs are the ids of the servers' living processes: on Linux of all of them,
// elsewhere of those that were started here.
func (g *Group) PIDs() (pids []int) {
	for _, p := range processes(g.mark, g.leaders(), nil) {
		pids = append(pids, p.pid)
	}
	slices.Sort(pids)
	return pids
}

// Warnings are what was odd about the start and what the logs have said that a reader
// of the numbers should know. What they said after the start is told once as of this
// run, and in later calls as of an earlier one. Nothing is redacted.
func (g *Group) Warnings() []string {
	all := slices.Concat(g.own, g.warn.take())
	for _, r := range g.replicas {
		if c := r.log.complaint(); c != "" {
			all = append(all, fmt.Sprintf("replica %d: %s", r.index, c))
		}
	}
	select {
	case <-g.stopping:
	default:
		if g.watch.gone() {
			all = append(all, "the process that ends servers when servebench is killed has ended: after a kill -9 this server would go on")
		}
	}
	return all
}

// Done is closed when a replica has ended that nobody has asked to.
func (g *Group) Done() <-chan struct{} { return g.dead }

// Err says which replica ended first, as a [*StartError] of the stage runtime,
// once Done is closed; before that it is nil.
func (g *Group) Err() error {
	select {
	case <-g.dead:
		return g.first.failure()
	default:
		return nil
	}
}

// killTime is how long to wait for killed processes to be gone.
const killTime = 10 * time.Second

// Stop ends the servers and returns when every process of theirs is gone and the
// logs are closed: TERM to all of them, KILL after StopTimeout, or at once when
// ctx ends. It may be called again, and then waits for the same and returns the
// same.
func (g *Group) Stop(ctx context.Context) error {
	g.stop.Do(func() {
		close(g.stopping)
		go func() { // ends by itself, after StopTimeout and killTime at most
			defer close(g.stopped)
			g.stopErr = g.end()
		}()
	})
	select {
	case <-g.stopped:
	case <-ctx.Done():
		g.hurryOnce.Do(func() { close(g.hurry) })
		<-g.stopped
	}
	return g.stopErr
}

// end is Stop's work. The watcher goes last: until then it stands by, should
// this program be killed on the way.
func (g *Group) end() error {
	var errs []error
	left := g.kill()
	if len(left) > 0 {
		errs = append(errs, fmt.Errorf("server: processes %v are still there %v after KILL", left, killTime))
	}
	g.drain(len(left) == 0)
	if g.watch != nil {
		if len(left) > 0 {
			g.watch.abandon()
		} else {
			g.watch.dismiss()
		}
	}
	if g.temp && g.logDir != "" {
		errs = append(errs, os.RemoveAll(g.logDir))
	}
	return errors.Join(errs...)
}

// kill asks all processes to end, then kills them, and returns those that are
// left all the same. It looks again and again: an asked process may start others.
func (g *Group) kill() (left []int) {
	var all []process
	leaders := g.leaders()
	asked := map[int]bool{}
	patience, hurry, limit := time.After(g.cfg.StopTimeout), g.hurry, (<-chan time.Time)(nil)
	// While a process starts another program its environment cannot be read; one
	// look may miss it.
	for none, pause := 0, 5*time.Millisecond; none < 3; {
		all = processes(g.mark, leaders, all)
		if len(all) == 0 {
			none, pause = none+1, 5*time.Millisecond
		} else {
			none, pause = 0, min(2*pause, 200*time.Millisecond)
		}
		leaders = g.stillTheirs(leaders, all)
		if limit == nil {
			signalAll(all, leaders, sigterm, asked)
		} else {
			signalAll(all, leaders, sigkill, nil)
		}
		select {
		case <-time.After(pause):
		case <-patience:
			limit = time.After(killTime)
		case <-hurry:
			hurry, limit = nil, time.After(killTime)
		case <-limit:
			for _, p := range all {
				left = append(left, p.pid)
			}
			return left
		}
	}
	return nil
}

// stillTheirs are the leaders whose numbers cannot have become another's: those
// that have not ended, or have left processes in their groups.
func (g *Group) stillTheirs(leaders []int, all []process) []int {
	ended := map[int]bool{}
	for _, r := range g.replicas {
		select {
		case <-r.exited:
			ended[r.cmd.Process.Pid] = true
		default:
		}
	}
	return slices.DeleteFunc(leaders, func(pid int) bool {
		return ended[pid] && !slices.ContainsFunc(all, func(p process) bool { return p.in(pid) })
	})
}

// signalAll sends a signal to the leaders' groups and to each process that is in
// none of them. With asked, each of them gets it once.
func signalAll(all []process, leaders []int, s syscall.Signal, asked map[int]bool) {
	to := map[int]bool{}
	for _, p := range all {
		if slices.Contains(leaders, p.group) {
			to[-p.group] = true
		} else {
			to[p.pid] = true
		}
	}
	for pid := range to {
		if !asked[pid] {
			send(pid, s)
		}
		if asked != nil {
			asked[pid] = true
		}
	}
}

// drainTime is how long the logs may stay open after the last process that is
// known: what holds them then is none of the server's.
const drainTime = 2 * time.Second

// drain closes the logs, and where all processes have ended waits until they
// are read to the end.
func (g *Group) drain(ended bool) {
	done := make(chan struct{})
	go func() { // ends with the last process
		g.goroutines.Wait()
		close(done)
	}()
	if ended {
		select {
		case <-done:
		case <-time.After(drainTime):
		}
	}
	for _, r := range g.replicas {
		if r.cmd != nil {
			r.out.Close()
			<-r.log.done
		}
	}
	if ended {
		<-done
	}
}
