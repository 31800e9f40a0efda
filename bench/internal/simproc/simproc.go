// Package simproc is the simulator in a process of its own, as bench/internal/cost
// serves it (-role sim), for the programs that measure clients against it.
package simproc

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/servebench/servebench/metrics/stat"
)

// Stamps are what the simulator noted of a request, in nanoseconds since 1970 by its
// monotonic clock.
type Stamps struct {
	ID      string  `json:"id"`
	Arrived int64   `json:"arrived"` // the kernel had received the segment with the end of the headers
	Entered int64   `json:"entered"` // the handler began: the headers had been read
	Read    int64   `json:"read"`    // the body had been read, with which the request is admitted
	Writes  []int64 `json:"writes"`  // before the write of each event; the usage and [DONE] come last
}

// TakePath is where the stamps are fetched.
const TakePath = "/cost/take"

// Process is a simulator that runs.
type Process struct {
	URL   string
	cmd   *exec.Cmd
	stdin io.Closer // its end ends the process, also when this program is killed
}

// Start starts cmd, which prints where it listens; the caller calls Stop.
func Start(cmd *exec.Cmd) (*Process, error) {
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
	p := &Process{cmd: cmd, stdin: stdin}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	var ok bool
	if p.URL, ok = strings.CutPrefix(strings.TrimSpace(line), "listening on "); err != nil || !ok {
		p.Stop()
		return nil, fmt.Errorf("the simulator did not start: %q, %v", line, err)
	}
	return p, nil
}

// Stop ends the process and waits for it.
func (p *Process) Stop() {
	_ = p.stdin.Close() // the process ends of it
	late := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	_ = p.cmd.Wait() // how it ended says nothing about the measurements
}

// Take returns the stamps of the requests since the last Take.
func (p *Process) Take(ctx context.Context) ([]Stamps, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+TakePath, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var all []Stamps
	if err := json.NewDecoder(res.Body).Decode(&all); err != nil {
		return nil, fmt.Errorf("the simulator's stamps: %w", err)
	}
	return all, nil
}

// Quantile is [stat.Quantile] of values in any order; NaN without values.
func Quantile(values []float64, q float64) float64 {
	v := slices.Sorted(slices.Values(values))
	x, ok := stat.Quantile(len(v), func(i int) float64 { return v[i] }, q)
	if !ok {
		return math.NaN()
	}
	return x
}
