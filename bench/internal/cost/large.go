package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"time"

	"github.com/servebench/servebench/bench/internal/simproc"
	"github.com/servebench/servebench/metrics"
)

// open measures 10,000 streams open at once, each with one event a second. They
// begin evenly over twenty seconds, so that as many events come at any instant; their
// connections are there before, as with any cap.
func (l *lab) open(ctx context.Context) error {
	streams, tokens := 10_000, 30
	if l.quick {
		streams, tokens = 1_000, 4
	}
	sim, err := l.serverOf(simConfig.TTFT, time.Second)
	if err != nil {
		return err
	}
	args := func(url string) []string {
		return append(serveArgs(url, streams, tokens), "--request-rate", strconv.Itoa(streams/20), "--burstiness", "1000000", "--max-concurrency", strconv.Itoa(streams))
	}
	u, err := l.start(ctx, nil, l.binary, args(sim.URL)...)
	if err != nil {
		return err
	}
	if err := sim.events(ctx, streams, tokens); err != nil {
		return err
	}
	what := fmt.Sprintf("%d open streams of one event a second", streams)
	verdict, wrong := verdictOf(u.out), ""
	if verdict != string(metrics.Valid) {
		wrong = "wrong"
	}
	l.table.say(l.part, what+", the run's own verdict", []string{verdict}, "VALID", wrong)
	l.table.add(l.part, "  peak memory of the client", "MB", []float64{float64(u.peak) / 1e6}, atMost(600))
	l.table.add(l.part, "  CPU of the client, start and end included", "µs/event", []float64{u.cpu.Seconds() * 1e6 / float64(streams*tokens)}, nil)
	l.table.command(l.part, "%s, with --itl 1s", shown(args("URL")))
	return nil
}

// rate measures an open loop of 2,000 requests a second, each of one token.
func (l *lab) rate(ctx context.Context) error {
	const rate = 2000
	seconds := 8
	if l.quick {
		seconds = 1
	}
	sim, err := l.serverOf(20*time.Millisecond, simConfig.ITL)
	if err != nil {
		return err
	}
	file := filepath.Join(l.dir, "rate.jsonl")
	args := func(url string) []string {
		return append(serveArgs(url, rate*seconds, 1), "--request-rate", strconv.Itoa(rate))
	}
	var off, lag []float64
	var verdicts []string
	err = l.repeat(func() error {
		u, err := l.start(ctx, nil, l.binary, append(args(sim.URL), "--records", file)...)
		if err != nil {
			return err
		}
		if err := sim.events(ctx, rate*seconds, 1); err != nil {
			return err
		}
		records, err := readRecords(file)
		if err != nil {
			return err
		}
		o, g := paced(records)
		off, lag, verdicts = append(off, 100*o), append(lag, g), append(verdicts, verdictOf(u.out))
		return nil
	})
	l.table.add(l.part, "2,000 requests/s of one token: achieved off offered by", "%", off, atMost(0.5))
	l.table.add(l.part, "  lag p99", "ms", lag, atMost(2))
	l.table.say(l.part, "  the runs' own verdict", verdicts, "", "")
	l.table.command(l.part, "%s --records FILE, with --ttft 20ms", shown(args("URL")))
	return err
}

// paced tells by how much the rate at which requests were sent differs from that of
// their due times, as a share, and the p99 of their lag in milliseconds.
func paced(records []*metrics.Record) (off, lag float64) {
	var lags []float64
	due, sent := [2]time.Duration{math.MaxInt64, 0}, [2]time.Duration{math.MaxInt64, 0}
	for _, r := range records {
		lags = append(lags, ms(r.Sent-r.Slot))
		due = [2]time.Duration{min(due[0], r.Due), max(due[1], r.Due)}
		sent = [2]time.Duration{min(sent[0], r.Sent), max(sent[1], r.Sent)}
	}
	return math.Abs(float64(due[1]-due[0])/float64(sent[1]-sent[0]) - 1), simproc.Quantile(lags, 0.99)
}

// postProcessing is what the role million prints.
type postProcessing struct {
	Seconds       float64
	Before, After int64 // peak resident bytes: with the records made, and at the end
}

// million measures what happens to the records after a run.
func (l *lab) million(ctx context.Context) error {
	n, events := 1_000_000, 8
	if l.quick {
		n = 40_000
	}
	one := func(n int) (p postProcessing, err error) {
		u, err := l.start(ctx, nil, l.self, "-role", "million", "-streams", strconv.Itoa(n), "-tokens", strconv.Itoa(events))
		if err == nil {
			err = json.Unmarshal(u.out, &p)
		}
		return p, err
	}
	var seconds, linear, before, after []float64
	err := l.repeat(func() error {
		whole, err := one(n)
		if err != nil {
			return err
		}
		quarter, err := one(n / 4)
		seconds, linear = append(seconds, whole.Seconds), append(linear, whole.Seconds/quarter.Seconds/4)
		before, after = append(before, float64(whole.Before)/1e6), append(after, float64(whole.After)/1e6)
		return err
	})
	l.table.add(l.part, fmt.Sprintf("statistics of %d records of %d events", n, events), "s", seconds, atMost(3*float64(n)/1e6))
	l.table.add(l.part, "  over 4 x those of a quarter (1: linear)", "", linear, nil)
	l.table.add(l.part, "  peak memory, records included", "MB", after, nil)
	l.table.add(l.part, "  the records alone", "MB", before, nil)
	l.table.command(l.part, "metrics.Summarize and metrics.Analyze of synthetic records")
	return err
}

// processRecords is the role million: it makes n records of some events each and
// prints what their statistics took.
func processRecords(stdout io.Writer, n, events int) error {
	records := syntheticRecords(n, events)
	p := postProcessing{Before: peakMemory()}
	o := metrics.Options{Percentiles: []float64{99.9}, Goodput: map[string]float64{"ttft": 60, "e2el": 200}, OpenLoop: true}
	began := time.Now()
	s := metrics.Summarize(records, o)
	metrics.Analyze(records, s, o, metrics.Load{OpenLoop: true, Shape: 1})
	p.Seconds = time.Since(began).Seconds()
	p.After = peakMemory()
	if s.Completed != n {
		return fmt.Errorf("%d of %d records counted as completed", s.Completed, n)
	}
	return json.NewEncoder(stdout).Encode(p)
}

// syntheticRecords are those of an open loop of 1,000 requests a second, varied by
// a generator that needs no seed.
func syntheticRecords(n, events int) []metrics.Record {
	records := make([]metrics.Record, n)
	state := uint64(1)
	vary := func(d time.Duration) time.Duration { // d to 2d
		state = state*6364136223846793005 + 1442695040888963407
		return d + time.Duration(state>>33)*d>>31
	}
	for i := range records {
		r := &records[i]
		due := time.Duration(i) * time.Millisecond
		*r = metrics.Record{
			Seq: i, Due: due, Slot: due, Sent: due + vary(20*time.Microsecond), Status: 200, Outcome: metrics.OK,
			PromptTokens: 32, OutputTokens: events, TokenSource: metrics.FromUsage, Reused: true,
			Arrivals: make([]time.Duration, events), RxDelay: make([]time.Duration, events),
		}
		at := r.Sent + vary(40*time.Millisecond)
		r.Headers = at - time.Millisecond
		for k := range events {
			r.Arrivals[k], r.RxDelay[k] = at, vary(50*time.Microsecond)
			at += vary(8 * time.Millisecond)
		}
		r.Done = r.Arrivals[events-1]
	}
	return records
}
