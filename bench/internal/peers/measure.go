package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/servebench/servebench/bench/internal/simproc"
)

// result is what is read of a client's result file.
type result struct {
	Completed int
	TTFTs     []float64
	ITLs      [][]float64
}

// figures are one run's, in the units of the table; NaN is not measured.
type figures struct{ ttft, itl, cpu, peak, first float64 }

// figuresOf compares a result with what the simulator did.
func figuresOf(r *result, truth map[string]simproc.Stamps, prefix string, began time.Time, streams, tokens int) (f figures, err error) {
	if r.Completed != streams || len(r.TTFTs) != streams || len(r.ITLs) != streams || len(truth) != streams {
		return f, fmt.Errorf("%d of %d requests completed, with %d TTFTs and %d lists of gaps; the simulator answered %d", r.Completed, streams, len(r.TTFTs), len(r.ITLs), len(truth))
	}
	var ttft, simTTFT, itl, simITL []float64
	entered := int64(math.MaxInt64)
	for i, gaps := range r.ITLs {
		s, ok := truth[fmt.Sprint(prefix, i)]
		// After the tokens the simulator writes the usage and [DONE].
		if !ok || len(gaps) != tokens-1 || len(s.Writes) != tokens+2 {
			return f, fmt.Errorf("request %s%d: %d gaps of %d writes, want %d tokens", prefix, i, len(gaps), len(s.Writes), tokens)
		}
		entered = min(entered, s.Entered)
		ttft, simTTFT = append(ttft, r.TTFTs[i]*1e3), append(simTTFT, float64(s.Writes[0]-s.Arrived)/1e6)
		for k, gap := range gaps {
			itl, simITL = append(itl, gap*1e3), append(simITL, float64(s.Writes[k+1]-s.Writes[k])/1e6)
		}
	}
	f.ttft = simproc.Quantile(ttft, .5) - simproc.Quantile(simTTFT, .5)
	f.itl = simproc.Quantile(itl, .99) - simproc.Quantile(simITL, .99)
	f.first = float64(entered-began.UnixNano()) / 1e6
	f.cpu = math.NaN()
	return f, nil
}

// lab is one measurement: the simulator and where results go.
type lab struct {
	*options
	sim  *simulator
	dir  string
	runs int // so far: a prefix for each
}

// one is a run of a client with answers of so many tokens.
func (l *lab) one(ctx context.Context, p *peer, streams, tokens int) (f figures, u used, err error) {
	l.runs++
	prefix := fmt.Sprintf("run%d-", l.runs)
	file := filepath.Join(l.dir, "run.json")
	_ = os.Remove(file) // that of the run before must not pass for this one's
	if u, err = p.start(ctx, l.args(l.sim.URL, streams, tokens, l.dir, prefix)); err != nil {
		return f, u, err
	}
	truth, err := l.sim.take(ctx)
	if err != nil {
		return f, u, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return f, u, err
	}
	var r result
	if err := json.Unmarshal(data, &r); err != nil {
		return f, u, err
	}
	f, err = figuresOf(&r, truth, prefix, u.began, streams, tokens)
	f.peak = float64(u.peak) / 1e6
	return f, u, err
}

// pair is a long run and, where there are enough events, a short one.
func (l *lab) pair(ctx context.Context, p *peer, streams int) (figures, error) {
	f, long, err := l.one(ctx, p, streams, longAnswer)
	if err != nil {
		return f, err
	}
	events := streams * (longAnswer - shortAnswer)
	if events < fewEvents {
		return f, nil
	}
	_, short, err := l.one(ctx, p, streams, shortAnswer)
	f.cpu = (long.cpu - short.cpu).Seconds() * 1e6 / float64(events)
	return f, err
}

// measure runs all clients and prints the table. missing tells that one of them
// could not be measured.
func (o *options) measure(ctx context.Context, stdout, stderr io.Writer) (missing bool, err error) {
	peers, err := o.find()
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "servebench-peers-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	l := &lab{options: o, dir: dir}
	if l.sim, err = startSim(ctx, dir, stderr); err != nil {
		return false, err
	}
	defer l.sim.Stop()
	began, before := time.Now(), loadAverage()
	var tables []table
	for i, streams := range o.streams {
		// Each number of streams has its share of the time that is left.
		left := o.budget - time.Since(began)
		deadline := time.Now().Add(left / time.Duration(len(o.streams)-i))
		t, err := l.alternate(ctx, peers, streams, deadline, stderr)
		if err != nil {
			return false, err
		}
		tables = append(tables, t)
	}
	write(stdout, peers, tables, fmt.Sprintf("%s, load average %s before and %s after", machine(), before, loadAverage()))
	for _, p := range peers[:2] { // what can be had must have been measured
		missing = missing || p.why != ""
	}
	for _, t := range tables {
		missing = missing || t.failed != nil
	}
	return missing, nil
}

// alternate runs the clients that are there in turn, the order changing each time.
func (l *lab) alternate(ctx context.Context, peers []peer, streams int, deadline time.Time, log io.Writer) (t table, err error) {
	t = table{streams: streams, runs: map[string][]figures{}}
	var there []*peer
	for i := range peers {
		if peers[i].why == "" {
			there = append(there, &peers[i])
		}
	}
	for i := range l.options.runs {
		if i > 0 && time.Now().After(deadline) {
			break
		}
		for _, p := range there {
			fmt.Fprintf(log, "peers: %d streams, run %d of %s\n", streams, i+1, p.name)
			f, err := l.pair(ctx, p, streams)
			if ctx.Err() != nil {
				return t, ctx.Err()
			}
			if err != nil {
				t.failed = errors.Join(t.failed, fmt.Errorf("%d streams, run %d: %w", streams, i+1, err))
				_, _ = l.sim.take(ctx) // what a failed run has left
				continue
			}
			t.runs[p.name] = append(t.runs[p.name], f)
		}
		slices.Reverse(there)
	}
	return t, nil
}
