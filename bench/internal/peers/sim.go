package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// stamps are what the role sim of bench/internal/cost notes of a request, in
// nanoseconds since 1970 by its monotonic clock: the end of the headers in the
// kernel, the start of the handler, and each write (usage and [DONE] last).
type stamps struct {
	ID      string  `json:"id"`
	Arrived int64   `json:"arrived"`
	Entered int64   `json:"entered"`
	Writes  []int64 `json:"writes"`
}

// simulator is that role in a process of its own.
type simulator struct {
	url   string
	cmd   *exec.Cmd
	stdin io.Closer // its end ends the process, also when this program is killed
}

// startSim builds the program into dir and starts it.
func startSim(ctx context.Context, dir string, log io.Writer) (*simulator, error) {
	program := filepath.Join(dir, "cost")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/servebench/servebench/bench/internal/cost")
	build.Stderr = log
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build the simulator: %w", err)
	}
	cmd := exec.Command(program, "-role", "sim")
	cmd.Stderr = log
	stdin, err := cmd.StdinPipe()
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
	s := &simulator{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	var ok bool
	if s.url, ok = strings.CutPrefix(strings.TrimSpace(line), "listening on "); err != nil || !ok {
		s.stop()
		return nil, fmt.Errorf("the simulator did not start: %q, %v", line, err)
	}
	return s, nil
}

func (s *simulator) stop() {
	_ = s.stdin.Close() // the process ends of it
	late := time.AfterFunc(10*time.Second, func() { _ = s.cmd.Process.Kill() })
	defer late.Stop()
	_ = s.cmd.Wait() // how it ended says nothing about the measurements
}

// take returns the stamps of the requests since the last take, by their ids.
func (s *simulator) take(ctx context.Context) (map[string]stamps, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/cost/take", nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var all []stamps
	if err := json.NewDecoder(res.Body).Decode(&all); err != nil {
		return nil, fmt.Errorf("the simulator's stamps: %w", err)
	}
	byID := make(map[string]stamps, len(all))
	for _, st := range all {
		byID[st.ID] = st
	}
	if len(byID) != len(all) {
		return nil, fmt.Errorf("%d ids for %d requests", len(byID), len(all))
	}
	return byID, nil
}
