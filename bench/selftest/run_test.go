package selftest

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/sim"
)

// inProcess starts simulators in this process, and counts those that run.
func inProcess(t *testing.T, running *int, truth bool) func(context.Context, time.Duration, time.Duration) (*Simulator, error) {
	return func(_ context.Context, ttft, itl time.Duration) (*Simulator, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- sim.New(sim.Config{TTFT: ttft, ITL: itl, Truth: truth}).Serve(ctx, l) }()
		*running++
		return &Simulator{URL: "http://" + l.Addr().String(), Stop: func() (time.Duration, bool, error) {
			cancel()
			*running--
			return 3 * time.Millisecond, true, <-served
		}}, nil
	}
}

// A small selftest, with all but the process of its own. What is exact of it: the
// counts, and that a client's times are never shorter than the way of the bytes.
func TestRun(t *testing.T) {
	running, began, ended := 0, []int{}, 0
	r, err := Run(t.Context(), Config{
		Concurrency: []int{2, 20}, Duration: time.Second, Start: inProcess(t, &running, true), Streams: 10,
		Began: func(n int, p *bench.Progress) { began = append(began, n) },
		Ended: func(s Step) { ended++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	if running != 0 || len(began) != 1 || ended != 1 || len(r.Steps) != 1 || !strings.Contains(r.Stopped, "20 streams need more open files") {
		t.Fatalf("%d simulators run, began %v, ended %d, %d steps, stopped: %s", running, began, ended, len(r.Steps), r.Stopped)
	}
	s := r.Steps[0]
	// 3 rounds of 2 with 29 tokens: see shape.
	if s.Concurrency != 2 || s.Requests != 6 || s.Events != 6*29 || s.Read.TTFTBias.N != 6 || s.Read.ITLError.N != 6*28 || s.Truth.ITL.N != 6*28 {
		t.Errorf("%+v", s)
	}
	if s.SimulatorCPU == nil || *s.SimulatorCPU != 3.0/(6*29) || s.EventsPerRead == nil || s.Verdict == "" || s.VerdictUnstamped == "" {
		t.Errorf("%+v", s)
	}
	if s.Truth.TTFT.Mean < 50 || s.Read.TTFTBias.Mean <= 0 {
		t.Errorf("TTFT %+v for 50 ms, bias %+v", s.Truth.TTFT, s.Read.TTFTBias)
	}
	if k := s.Kernel; k != nil && (k.TTFTBias.Mean <= 0 || k.TTFTBias.Mean > s.Read.TTFTBias.Mean) {
		t.Errorf("bias %v with kernel stamps, %v by reading, which is later", k.TTFTBias.Mean, s.Read.TTFTBias.Mean)
	}
	if r.Floor == nil || r.Floor.Concurrency != 2 || r.ITL != 10 {
		t.Errorf("%+v", r)
	}
}

func TestRunEndsWithItsSimulator(t *testing.T) {
	running := 0
	c := Config{Concurrency: []int{1}, Duration: time.Second, Start: inProcess(t, &running, false)}
	if r, err := Run(t.Context(), c); r != nil || err == nil || !strings.Contains(err.Error(), "--truth") || running != 0 {
		t.Errorf("without the truth: %v, %v, %d run", r, err, running)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	c.Start = inProcess(t, &running, true)
	why := errors.New("enough")
	c.Began = func(int, *bench.Progress) { cancel(why) }
	if r, err := Run(ctx, c); r == nil || len(r.Steps) != 0 || !errors.Is(err, why) || running != 0 {
		t.Errorf("interrupted: %+v, %v, %d run", r, err, running)
	}
	c.Began = nil
	c.Start = func(context.Context, time.Duration, time.Duration) (*Simulator, error) {
		return nil, errors.New("no port")
	}
	if r, err := Run(t.Context(), c); r != nil || err == nil || !strings.Contains(err.Error(), "no port") {
		t.Errorf("no simulator: %v, %v", r, err)
	}
}

func TestValidateTellsAllAtOnce(t *testing.T) {
	for _, tt := range []struct {
		c    Config
		want []string
	}{
		{Config{Concurrency: []int{1, 2}, Duration: time.Second}, nil},
		{Config{Duration: time.Minute}, []string{"concurrency: 0 numbers"}},
		{Config{Concurrency: []int{0, 5, 5, 1 << 17}, Duration: time.Millisecond}, []string{"0; want 1 to", "5 after 5", "131072; want", "duration: 1ms"}},
	} {
		err := tt.c.Validate()
		if (err == nil) != (tt.want == nil) {
			t.Errorf("%+v: %v", tt.c, err)
		}
		for _, w := range tt.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v, want %q", err, w)
			}
		}
	}
}
