package server

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"time"
)

// markName is the variable that every process of a group inherits; its value is
// the group's own.
const markName = "SERVEBENCH_SERVER_GROUP"

// patience is how long the watcher's TERM may take: short, as nobody waits for
// what the server still has to say, and all must be gone within 10 s.
const patience = 3 * time.Second

//go:embed watch.sh
var watchScript string

// watcher is a process that ends the servers when this one has gone, however
// that came about. It is a shell with a script of its own, in a session of its
// own, that reads a pipe of which only this process holds the other end: the
// kernel closes it, whatever happens.
//
// Rejected: PR_SET_PDEATHSIG, which tells of the end of a thread, not of the
// process, and reaches no grandchildren.
type watcher struct {
	cmd   *exec.Cmd
	pipe  *os.File
	ended chan struct{}
}

// watch starts the watcher of the processes with a mark. The owner dismisses it. A
// folder that is no "" goes with processes that the watcher has to end.
func watch(mark, folder string) (*watcher, error) {
	in, pipe, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	w := &watcher{pipe: pipe, ended: make(chan struct{})}
	w.cmd = exec.Command("/bin/sh", "-c", watchScript, "servebench-watch", markName, mark, strconv.Itoa(int(patience.Seconds())), folder)
	w.cmd.Stdin, w.cmd.Dir = in, "/"
	w.cmd.Env = []string{"PATH=/usr/bin:/bin:/usr/sbin:/sbin:" + os.Getenv("PATH"), "LC_ALL=C"}
	ownSession(w.cmd)
	if err := w.cmd.Start(); err != nil {
		pipe.Close()
		return nil, fmt.Errorf("start the process that ends servers when this one is killed: %w; want /bin/sh", err)
	}
	go func() { // ends when the watcher does: at the latest in dismiss
		defer close(w.ended)
		w.cmd.Wait()
	}()
	return w, nil
}

// add tells of the leader of a session. Until then the mark alone shows who
// belongs to the server.
func (w *watcher) add(pid int) error {
	if _, err := fmt.Fprintln(w.pipe, pid); err != nil {
		return fmt.Errorf("the process that ends servers when this one is killed has gone: %w", err)
	}
	return nil
}

// gone reports whether the watcher has ended, which it should not do by itself.
func (w *watcher) gone() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// dismiss ends the watcher, which then kills nothing, and waits until it has
// ended.
func (w *watcher) dismiss() {
	fmt.Fprintln(w.pipe, "done") // an error is that of one that has gone
	w.pipe.Close()
	<-w.ended
}

// abandon leaves the watcher to end what could not be ended here.
func (w *watcher) abandon() { w.pipe.Close() }
