package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNoOrphans: however the tool ends, the server and what it started end within
// 10 s, though they ignore TERM, and the watcher does too. All wait side by side.
func TestNoOrphans(t *testing.T) {
	t.Parallel()
	sigkill := func(tool *exec.Cmd, _ io.Closer) { tool.Process.Kill() }
	var waits []func()
	for _, c := range []struct {
		name, child string
		end         func(tool *exec.Cmd, in io.Closer)
	}{
		{"SIGKILL, a child in the group", "group", sigkill},
		{"SIGKILL, a child in a session of its own", "session", sigkill},
		{"SIGKILL, a child without the variable too", "lost", sigkill},
		{"an end without Stop", "session", func(_ *exec.Cmd, in io.Closer) { in.Close() }},
		{"SIGKILL of the tool's whole session", "session", func(tool *exec.Cmd, _ io.Closer) { syscall.Kill(-tool.Process.Pid, syscall.SIGKILL) }},
	} {
		held := newHolders(t)
		temp := t.TempDir()
		tool, watcher := startTool(t, temp, fake("FIFO", held.path, "STUBBORN", "1", "CHILD", c.child))
		c.end(tool.cmd, tool.in)
		waits = append(waits, func() {
			t.Run(c.name, func(t *testing.T) {
				tool.cmd.Wait()
				held.gone(t, 10*time.Second)   // what is promised
				n, err := 0, error(unix.EINTR) // Go's own signals interrupt it
				for err == unix.EINTR {
					n, err = unix.Poll([]unix.PollFd{{Fd: int32(watcher), Events: unix.POLLIN}}, 10_000)
				}
				if n != 1 {
					t.Errorf("the watcher has survived: %v", err)
				}
				if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
					t.Errorf("logs that nobody will read are left: %v, %v", left, err)
				}
			})
		})
	}
	for _, wait := range waits {
		wait()
	}
}

// tool is a process that stands in for servebench.
type tool struct {
	cmd *exec.Cmd
	in  io.Closer
}

// startTool starts a process that starts a group, and waits until that is ready.
// It returns a handle of the group's watcher too. temp takes its temporary files.
func startTool(t *testing.T, temp string, cfg Config) (tool, int) {
	text, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], string(text))
	cmd.Env = append(os.Environ(), "SERVER_TEST_ROLE=tool", "TMPDIR="+temp)
	cmd.Stderr = os.Stderr
	ownSession(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(out).ReadString('\n')
	watcher, _ := strconv.Atoi(strings.TrimSpace(said))
	if err != nil || watcher == 0 {
		t.Fatalf("the tool says %q (%v)", said, err)
	}
	handle, err := unix.PidfdOpen(watcher, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(handle) })
	return tool{cmd, in}, handle
}

// TestFoundProcesses: PIDs knows a child in another session, by its variable or
// by its parent.
func TestFoundProcesses(t *testing.T) {
	for _, child := range []string{"group", "session", "lost"} {
		t.Run(child, func(t *testing.T) {
			t.Parallel()
			held := newHolders(t)
			cfg := fake("FIFO", held.path, "CHILD", child)
			cfg.StopTimeout = 200 * time.Millisecond
			g := start(t, cfg)
			if pids := g.PIDs(); len(pids) != 2 || pids[0] != g.replicas[0].cmd.Process.Pid && pids[1] != g.replicas[0].cmd.Process.Pid {
				t.Errorf("process ids %v, want the server's %d and its child's", pids, g.replicas[0].cmd.Process.Pid)
			}
		})
	}
}

// TestWatcherIsMissed: when the watcher ends by itself, a warning says so.
func TestWatcherIsMissed(t *testing.T) {
	t.Parallel()
	g := start(t, fake())
	g.watch.cmd.Process.Kill()
	<-g.watch.ended
	if !slices.ContainsFunc(g.Warnings(), func(s string) bool { return strings.Contains(s, "kill -9") }) {
		t.Errorf("warnings %q", g.Warnings())
	}
	if err := g.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestImpostor: the server does not listen; another program, here the test,
// takes the port after it was found free, and answers 200.
func TestImpostor(t *testing.T) {
	t.Parallel()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	held := newHolders(t)
	cfg := fake("FIFO", held.path, "DEAF", "1")
	cfg.Port = port
	result := make(chan error)
	go func() {
		_, err := Start(t.Context(), cfg)
		result <- err
	}()
	<-held.lines // it runs, so the port was found free
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go srv.Serve(l)
	defer srv.Close()
	got, ok := errors.AsType[*StartError](<-result)
	want := fmt.Sprintf("port %d is answered by another program, process %d;", port, os.Getpid())
	if !ok || got.Category != "port_in_use" || !strings.HasPrefix(got.Message, want) {
		t.Errorf("got %v, want %s…", got, want)
	}
}
