package sim

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

// speculative is the second reference run (manifest/testdata/seed-run-2.json): one draft token, which some requests
// accept nearly always and others nearly never.
func speculative() Published {
	return Published{
		InputTokens: 1024, OutputTokens: 256, Requests: 256, Concurrency: 4, Streaming: true,
		Server:   Engine{MaxNumSeqs: 32, MaxNumBatchedTokens: 16384, ChunkedPrefill: true, SpeculativeTokens: 1},
		Duration: 206933787580,
		TTFT:     &Latency{Mean: 114766906, P50: 107379400, P90: 110526914, P95: 167897697, P99: 264694815, StdDev: 25121972},
		ITL:      &Latency{Mean: 18928302, P50: 17939268, P90: 18176706, P95: 18390715, P99: 71797478, StdDev: 7241057},
		TPOT:     &Latency{Mean: 12155808, P50: 9745108, P90: 18821355, P95: 19034851, P99: 19163920, StdDev: 3883250},
	}
}

// part is a sixteenth of it: less to play.
func part() Published {
	p := speculative()
	p.Requests, p.Duration = p.Requests/16, p.Duration/16
	return p
}

func TestFitFindsKindsOfRequests(t *testing.T) {
	p := speculative()
	p.Requests, p.Duration = p.Requests/4, p.Duration/4
	e, err := Fit(p)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Acceptance) != 2 || e.Acceptance[0].Rate < 0.85 || e.Acceptance[1].Rate > 0.1 || e.Acceptance[0].Share < 0.65 || e.Acceptance[0].Share > 0.8 {
		t.Errorf("got %+v, want about three quarters near 1 and the rest near 0", e.Acceptance)
	}
}

func TestFitRepeats(t *testing.T) {
	first, err := Fit(part())
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := Fit(part()); !reflect.DeepEqual(again, first) {
		t.Errorf("a second fit gives %+v, not %+v", again, first)
	}
}

// What is known beforehand stays as it is.
func TestFitKeepsTheServersSettings(t *testing.T) {
	p := part()
	p.Server.KVTokens, p.Server.BlockSize, p.Server.PrefixCaching = 65536, 32, true
	p.Server.GPUMemoryUtilization, p.Server.CacheDtype = 0.88, "fp8"
	p.Server.StepBase, p.Server.TimeScale = time.Hour, 0.1 // and what is not known is not looked at
	e, err := Fit(p)
	if err != nil {
		t.Fatal(err)
	}
	if errs := e.validate(9216); errs != nil || e.StepBase > 20*ms || e.TimeScale != 0 {
		t.Errorf("got %+v: %v", e, errs)
	}
	e.StepBase, e.PerSequence, e.PrefillRate, e.Overhead, e.Frontend, e.IdleDelay, e.Acceptance = 0, 0, 0, 0, 0, 0, nil
	p.Server.StepBase, p.Server.TimeScale = 0, 0
	if !reflect.DeepEqual(e, p.Server) {
		t.Errorf("settings became %+v, not %+v", e, p.Server)
	}
}

// Less and less is known. What there is is met, and the rest is something that can be run.
func TestFitOfWhatIsThere(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*Published)
	}{
		{"means only", func(p *Published) {
			p.TTFT, p.ITL, p.TPOT = &Latency{Mean: p.TTFT.Mean}, &Latency{Mean: p.ITL.Mean}, &Latency{Mean: p.TPOT.Mean}
		}},
		{"no ITL", func(p *Published) { p.ITL, p.AcceptLength = nil, 1.557 }},
		{"TTFT only", func(p *Published) { p.ITL, p.TPOT = nil, nil }},
		{"E2E only", func(p *Published) { p.TTFT, p.ITL, p.TPOT, p.E2E = nil, nil, nil, &Latency{Mean: 3214497959} }},
		{"throughput only", func(p *Published) { p.TTFT, p.ITL, p.TPOT = nil, nil, nil }},
		{"not streamed, one token", func(p *Published) { p.Streaming, p.OutputTokens = false, 1 }},
		{"several kinds of replicas' load", func(p *Published) { p.Replicas, p.TTFT, p.ITL, p.TPOT = 3, nil, nil, nil }},
	} {
		p := part()
		c.set(&p)
		if e, err := Fit(p); err != nil {
			t.Errorf("%s: %v, %+v", c.name, err, e)
		}
	}
}

// An answer of 256 tokens 1 ms apart does not take 2 s after a first token that takes none.
func TestMisfit(t *testing.T) {
	p := part()
	p.Server.SpeculativeTokens = 0
	p.TTFT, p.ITL, p.TPOT, p.E2E = &Latency{Mean: ms}, &Latency{Mean: ms}, &Latency{Mean: ms}, &Latency{Mean: 2 * time.Second}
	e, err := Fit(p)
	misfit, ok := errors.AsType[*MisfitError](err)
	if !ok || len(misfit.Off) == 0 || !strings.Contains(err.Error(), ", published 2000") {
		t.Errorf("got %v, want a misfit of E2E", err)
	}
	if errs := e.validate(1280); errs != nil {
		t.Errorf("the nearest engine is not valid: %v", errs)
	}
}

func TestFitSaysWhatIsWrong(t *testing.T) {
	_, err := Fit(Published{Replicas: -1, TTFT: &Latency{P90: -1}, Streaming: true, AcceptLength: math.NaN()})
	for _, want := range []string{"input tokens must be", "output tokens must be", "requests must be", "concurrency must be",
		"replicas must be", "duration must be", "TTFT must be", "accept length must"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error lacks %q: %v", want, err)
		}
	}
	p := part()
	p.Server.KVTokens = 1024
	if _, err := Fit(p); err == nil || !strings.Contains(err.Error(), "stored in KV cache (1024)") {
		t.Errorf("a cache that does not hold a request: %v", err)
	}
}

// Whatever numbers a manifest has, the fit ends, and what it returns can be run.
func FuzzFit(f *testing.F) {
	f.Add(1024, 4, 8, 2, 1, int64(1e9), int64(1e8), int64(1e7), int64(1e7), int64(0))
	f.Add(1, 1, 1, 1, 4, int64(1), int64(1), int64(0), int64(1), int64(1))
	f.Add(7, 3, 20, 9, 2, int64(1e15), int64(1e15), int64(1), int64(1e15), int64(1e12))
	f.Fuzz(func(t *testing.T, in, out, requests, concurrency, replicas int, duration, ttft, itl, tpot, sd int64) {
		p := Published{InputTokens: in, OutputTokens: out, Requests: requests, Concurrency: concurrency, Replicas: replicas,
			Streaming: true, Server: Engine{ChunkedPrefill: true, SpeculativeTokens: 2}, Duration: time.Duration(duration),
			TTFT: &Latency{Mean: time.Duration(ttft), StdDev: time.Duration(sd)}, ITL: &Latency{P50: time.Duration(itl), Mean: time.Duration(itl)},
			TPOT: &Latency{Mean: time.Duration(tpot), P50: time.Duration(itl), StdDev: time.Duration(sd)}}
		if p.validate() != nil || in > 4096 || out > 64 || requests > 64 || concurrency > 64 || replicas > 8 {
			t.Skip("too much work for a fuzz target")
		}
		e, err := Fit(p)
		if _, misfit := errors.AsType[*MisfitError](err); err != nil && !misfit {
			t.Fatal(err)
		}
		if errs := e.validate(in + out); errs != nil {
			t.Fatalf("%+v: %v", e, errs)
		}
	})
}

// The expected values are numpy 2.3.5's: mean, percentile (linear) and std of [1, 2, 4, 8, 16, 32].
func TestLatencyStatistics(t *testing.T) {
	want := Latency{Mean: 10500, P50: 6000, P90: 24000, P95: 28000, P99: 31200, StdDev: 10828}
	if got := latency([]float64{32000, 1000, 16000, 2000, 8000, 4000}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// 1 + r + r² = made.
func TestRateOf(t *testing.T) {
	for _, c := range []struct {
		made float64
		k    int
		want float64
	}{{1, 1, 0}, {2, 1, 1}, {1.5, 1, 0.5}, {1.75, 2, 0.5}, {3, 2, 1}} {
		if got := rateOf(c.made, c.k); math.Abs(got-c.want) > 1e-12 { // a bisection of 50 steps
			t.Errorf("%v tokens of %d drafts: rate %v, want %v", c.made, c.k, got, c.want)
		}
	}
}

func BenchmarkFit(b *testing.B) {
	for b.Loop() {
		if _, err := Fit(speculative()); err != nil {
			b.Fatal(err)
		}
	}
}
