package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/manifest"
)

// managedTimeout bounds an experiment with three starts of vLLM.
const managedTimeout = 25 * time.Minute

// managed runs an experiment whose servers servebench starts itself: two token
// budgets by two concurrencies, and a start that fails. In its second point the tool
// is killed with SIGKILL: the server must be gone within ten seconds, and a second
// process goes on with what is left.
func (s *suite) managed(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, managedTimeout)
	defer cancel()
	folder := s.path("managed")
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	after, err := s.killed(ctx, folder)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.check("managed: SIGKILL in the middle of a point, and the server is gone within 10 s", problemsOf(err)...)
	if err == nil {
		s.infof("the server was gone %.1f s after SIGKILL", after.Seconds())
	}
	out, err := command(ctx, "bash", filepath.Join(s.scripts, "managed.sh"), s.binary, folder, "--resume").CombinedOutput()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		err = fmt.Errorf("managed.sh --resume: %w: %s", err, (&ended{stderr: string(out)}).tail())
	} else {
		err = holds(folder)
	}
	s.check("managed: --resume finishes the experiment, two budgets by two concurrencies and a failed start", problemsOf(err)...)
	return nil
}

func problemsOf(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}

// killed starts the experiment, kills the tool in its second point, and returns how
// long the server lived on.
func (s *suite) killed(ctx context.Context, folder string) (time.Duration, error) {
	c := exec.CommandContext(ctx, "bash", filepath.Join(s.scripts, "managed.sh"), s.binary, folder) // it becomes servebench
	var said strings.Builder
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	first := filepath.Join(folder, "budget-256-c2.manifest.json")
	for {
		if _, err := os.Stat(first); err == nil {
			break
		}
		select {
		case err := <-ended:
			return 0, fmt.Errorf("it ended before its first point did: %w: %s", err, said.String())
		case <-tick.C:
		}
	}
	if len(serving(folder)) == 0 {
		return 0, errors.New("no process of a server was found; the check would prove nothing")
	}
	if err := c.Process.Signal(syscall.SIGKILL); err != nil {
		return 0, err
	}
	<-ended
	began := time.Now()
	for time.Since(began) < 10*time.Second {
		if len(serving(folder)) == 0 {
			return time.Since(began), nil
		}
		<-tick.C
	}
	return 0, fmt.Errorf("processes %v are there after 10 s", serving(folder))
}

// serving lists the processes of servers that were started for a folder, by a
// variable that managed.sh sets.
func serving(folder string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err == nil && strings.Contains("\x00"+string(text), "\x00MANAGED_FOLDER="+folder+"\x00") {
			pids = append(pids, filepath.Base(filepath.Dir(f)))
		}
	}
	return pids
}

// holds checks what the experiment left.
func holds(folder string) error {
	doc, err := os.ReadFile(filepath.Join(folder, "managed.experiment.json"))
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range manifest.Verify(doc, os.DirFS(folder)) {
		if f.Severity == manifest.Fail {
			errs = append(errs, fmt.Errorf("%s %s: %s", f.Rule, f.Path, f.Message))
		}
	}
	completed := len(gjson.GetBytes(doc, `runs.#(status=="completed")#`).Array())
	failed := gjson.GetBytes(doc, `runs.#(status=="failed")#.failure.category`).String()
	if completed != 4 || failed != `["bad_argument"]` {
		errs = append(errs, fmt.Errorf("%d runs completed and %s failed, want 4 and a bad_argument", completed, failed))
	}
	return errors.Join(errs...)
}
