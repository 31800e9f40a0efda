package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/servebench/servebench/metrics"
)

// The lengths of answers whose difference gives a cost per event.
const (
	shortAnswer = 16
	longAnswer  = 400
	quickAnswer = 64
)

func (l *lab) long() int {
	if l.quick {
		return quickAnswer
	}
	return longAnswer
}

// cpu compares the CPU time per event of serve with that of a bare reader.
func (l *lab) cpu(ctx context.Context) error {
	const streams = 500
	sim, err := l.server()
	if err != nil {
		return err
	}
	long := l.long()
	events := float64(streams * (long - shortAnswer))
	one := func(serve bool, tokens int) (time.Duration, error) {
		name, args := l.binary, serveArgs(sim.URL, streams, tokens)
		if !serve {
			name, args = l.self, []string{"-role", "bare", "-url", sim.URL, "-streams", strconv.Itoa(streams), "-tokens", strconv.Itoa(tokens)}
		}
		u, err := l.start(ctx, nil, name, args...)
		if err != nil {
			return 0, err
		}
		return u.cpu, sim.events(ctx, streams, tokens)
	}
	perEvent := func(serve bool) (float64, error) {
		most, err := one(serve, long)
		if err != nil {
			return 0, err
		}
		least, err := one(serve, shortAnswer)
		return (most - least).Seconds() * 1e6 / events, err
	}
	var serve, bare, ratio []float64
	into := func(values *[]float64, isServe bool) func() error {
		return func() error {
			v, err := perEvent(isServe)
			if err == nil {
				*values = append(*values, v)
			}
			return err
		}
	}
	err = l.inTurn(into(&serve, true), into(&bare, false))
	for i := range min(len(serve), len(bare)) {
		ratio = append(ratio, serve[i]/bare[i])
	}
	l.table.add(l.part, "CPU per event, serve, 500 streams of 10 ms", "µs", serve, atMost(9))
	l.table.add(l.part, "  the same, bare net/http line reader", "µs", bare, nil)
	l.table.add(l.part, "  serve / bare, pair by pair", "", ratio, atMost(1.05))
	l.table.command(l.part, "%s, minus the same with --random-output-len %d; `-role bare` in turn with it", shown(serveArgs("URL", streams, long)), shortAnswer)
	return err
}

// allocations counts those of the client's own code as a library.
func (l *lab) allocations(ctx context.Context) error {
	const streams, most = 100, 200
	sim, err := l.server()
	if err != nil {
		return err
	}
	one := func(tokens int) (n float64, err error) {
		u, err := l.start(ctx, nil, l.self, "-role", "allocs", "-url", sim.URL, "-streams", strconv.Itoa(streams), "-tokens", strconv.Itoa(tokens))
		if err != nil {
			return 0, err
		}
		if err := json.Unmarshal(u.out, &n); err != nil {
			return 0, err
		}
		return n, sim.events(ctx, streams, tokens)
	}
	var per []float64
	err = l.repeat(func() error {
		long, err := one(most)
		if err != nil {
			return err
		}
		short, err := one(shortAnswer)
		per = append(per, (long-short)/(streams*(most-shortAnswer)))
		return err
	})
	// The runtime's own (timers, stacks of the collector) vary by some hundred.
	l.table.add(l.part, "allocations per event, 100 streams", "", per, atMost(0.01))
	l.table.command(l.part, "bench.Run of %d x %d tokens, minus %d x %d", streams, most, streams, shortAnswer)
	return err
}

// latencies compares what serve reports with what the simulator did, with and
// without kernel stamps. A bar of 0 is none.
func (l *lab) latencies(ctx context.Context, streams int, itlBar, ttftBar float64) error {
	sim, err := l.server()
	if err != nil {
		return err
	}
	args := serveArgs(sim.URL, streams, l.long())
	one := func(extra ...string) (d difference, err error) {
		file := filepath.Join(l.dir, "run.jsonl")
		u, err := l.start(ctx, nil, l.binary, append(append(slices.Clone(args), "--records", file), extra...)...)
		if err != nil {
			return d, err
		}
		if d.verdict = verdictOf(u.out); d.verdict == "" {
			return d, errors.New("serve printed no verdict")
		}
		truth, err := sim.Take(ctx)
		if err != nil {
			return d, err
		}
		records, err := readRecords(file)
		if err != nil {
			return d, err
		}
		verdict := d.verdict
		d, err = compare(records, truth)
		d.verdict = verdict
		return d, err
	}
	var with, without differences
	into := func(all *differences, extra ...string) func() error {
		return func() error {
			d, err := one(extra...)
			if err == nil {
				all.add(d)
			}
			return err
		}
	}
	err = l.inTurn(into(&with), into(&without, "--no-kernel-stamps"))
	var ttft *bar
	if ttftBar > 0 {
		ttft = atMost(ttftBar)
	}
	at := fmt.Sprintf(", %d streams", streams)
	l.table.add(l.part, "ITL p99, client - simulator"+at, "ms", with.itl, atMost(itlBar))
	l.table.add(l.part, "  the same without kernel stamps", "ms", without.itl, nil)
	l.table.add(l.part, "  the simulator's own ITL p99", "ms", with.simITL, nil)
	l.table.add(l.part, "  gap by gap, p99 of |client - simulator|", "ms", with.gap, nil)
	l.table.add(l.part, "  the same without kernel stamps", "ms", without.gap, nil)
	l.table.add(l.part, "TTFT p50, client - simulator"+at, "ms", with.ttft, ttft)
	l.table.add(l.part, "  the same without kernel stamps", "ms", without.ttft, nil)
	l.table.add(l.part, "  with stamps, from the simulator's admission", "ms", with.admitted, nil)
	l.table.add(l.part, "  the simulator's own TTFT p50", "ms", with.simTTFT, nil)
	l.table.say(l.part, "  the runs' own verdict", with.verdict, "not VALID where over", with.overButValid(itlBar, ttftBar))
	l.table.say(l.part, "  the same without kernel stamps", without.verdict, "", "")
	l.table.command(l.part, "%s --records FILE, in turn with --no-kernel-stamps", shown(serveArgs("URL", streams, l.long())))
	return err
}

// readRecords reads a record file, in which every request must have succeeded.
func readRecords(file string) (all []*metrics.Record, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for r, err := range metrics.ReadRecords(f) {
		if err != nil {
			return nil, err
		}
		if r.Outcome != metrics.OK {
			return nil, fmt.Errorf("request %s: %s: %s", r.ID, r.Outcome, r.Error)
		}
		all = append(all, r)
	}
	return all, nil
}

// prompts measures the making of random prompts with gpt2's tokenizer.
func (l *lab) prompts(ctx context.Context) error {
	dir, err := l.gpt2(ctx)
	if err != nil {
		return err
	}
	n := 10_000
	if l.quick {
		n = 500
	}
	args := func(n int, dir string) []string {
		return []string{
			// Nobody listens on port 9 (discard) of loopback: a dry run asks no server.
			"serve", "--dry-run", "--base-url", "http://127.0.0.1:9", "--model", "m", "--tokenizer", dir, "--temperature", "0",
			"--num-prompts", strconv.Itoa(n), "--random-input-len", "1024", "--random-output-len", "16",
		}
	}
	var cpu, wall, cores []float64
	err = l.repeat(func() error {
		u, err := l.start(ctx, nil, l.binary, args(n, dir)...)
		if err != nil {
			return err
		}
		cpu, wall = append(cpu, u.cpu.Seconds()), append(wall, u.wall.Seconds())
		cores = append(cores, u.cpu.Seconds()/u.wall.Seconds())
		return nil
	})
	if err != nil {
		return err
	}
	scale := float64(n) / 10_000
	l.table.add(l.part, fmt.Sprintf("%d random prompts x 1024 tokens (gpt2), CPU", n), "s", cpu, atMost(1+5*scale)) // the 1: to open the tokenizer, and to meet each word once
	l.table.add(l.part, "  wall", "s", wall, nil)
	l.table.add(l.part, fmt.Sprintf("  cores used of %d (CPU / wall)", runtime.NumCPU()), "", cores, atLeast(0.8*float64(runtime.NumCPU()))) // opening the tokenizer takes one
	l.table.command(l.part, "%s", shown(args(n, "GPT2")))

	const few = 300
	var sums [2]string
	for i, env := range [][]string{{"GOMAXPROCS=1"}, nil} {
		u, err := l.start(ctx, env, l.binary, args(few, dir)...)
		if err != nil {
			return err
		}
		if sums[i] = digest(u.out); sums[i] == "" {
			return errors.New("the dry run printed no sha256")
		}
	}
	l.table.check(l.part, fmt.Sprintf("  same bytes of %d on 1 core and on all", few), sums[0] == sums[1])
	l.table.command(l.part, "GOMAXPROCS=1 %s", shown(args(few, "GPT2")))
	return nil
}

// digest finds the sha256 in what a dry run prints.
func digest(out []byte) string {
	for line := range bytes.Lines(out) {
		if label, sum, ok := bytes.Cut(line, []byte(":")); ok && string(label) == "sha256 of the bodies" {
			return string(bytes.TrimSpace(sum))
		}
	}
	return ""
}

// startUp measures the time to the version and to the first request.
func (l *lab) startUp(ctx context.Context) error {
	var version []float64
	for range 20 {
		u, err := l.start(ctx, nil, l.binary, "--version")
		if err != nil {
			return err
		}
		version = append(version, ms(u.wall))
	}
	l.table.add(l.part, "--version", "ms", version, atMost(10))
	l.table.command(l.part, "servebench --version")
	dir, err := l.gpt2(ctx)
	if err != nil {
		return err
	}
	sim, err := l.server()
	if err != nil {
		return err
	}
	args := func(url, dir string) []string {
		return []string{
			"serve", "--base-url", url, "--model", "m", "--tokenizer", dir, "--disable-tqdm", "--temperature", "0",
			"--num-prompts", "10", "--random-input-len", "128", "--random-output-len", "2",
		}
	}
	var first []float64
	err = l.repeat(func() error {
		u, err := l.start(ctx, nil, l.binary, args(sim.URL, dir)...)
		if err != nil {
			return err
		}
		truth, err := sim.Take(ctx)
		if err != nil {
			return err
		}
		at := int64(math.MaxInt64)
		for _, s := range truth {
			at = min(at, s.Entered)
		}
		if len(truth) == 0 {
			return errors.New("no request came")
		}
		first = append(first, ms(time.Duration(at-u.began.UnixNano())))
		return nil
	})
	l.table.add(l.part, "first request, tokenizer of 50k entries (gpt2)", "ms", first, atMost(500))
	l.table.command(l.part, "%s", shown(args("URL", "GPT2")))
	return err
}

// memory measures the client's peak with long prompts.
func (l *lab) memory(ctx context.Context) error {
	sim, err := l.server()
	if err != nil {
		return err
	}
	args := func(url string) []string {
		return []string{
			"serve", "--base-url", url, "--model", "m", "--skip-tokenizer-init", "--disable-tqdm", "--temperature", "0",
			"--num-prompts", "2800", "--max-concurrency", "1400", "--random-input-len", "4096", "--random-output-len", "16",
		}
	}
	var peak []float64
	err = l.repeat(func() error {
		u, err := l.start(ctx, nil, l.binary, args(sim.URL)...)
		if err != nil {
			return err
		}
		peak = append(peak, float64(u.peak)/1e6)
		return sim.events(ctx, 2800, 16)
	})
	l.table.add(l.part, "peak memory, 1400 streams x 4096-token prompts, 2800 requests", "MB", peak, atMost(150))
	l.table.command(l.part, "%s", shown(args("URL")))
	return err
}

// size measures the pure-Go binary.
func (l *lab) size(ctx context.Context) error {
	build := func(label string, limit *bar, args ...string) error {
		file := filepath.Join(l.dir, "servebench")
		all := append(append([]string{"build", "-o", file}, args...), "github.com/servebench/servebench/cmd/servebench")
		if _, err := l.start(ctx, []string{"CGO_ENABLED=0"}, "go", all...); err != nil {
			return err
		}
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		l.table.add(l.part, label, "MB", []float64{float64(info.Size()) / 1e6}, limit)
		l.table.command(l.part, "CGO_ENABLED=0 %s", strings.Join(append(append([]string{"go", "build"}, args...), "./cmd/servebench"), " "))
		return nil
	}
	if err := build("pure-Go binary", atMost(40)); err != nil {
		return err
	}
	return build("  the same, stripped", atMost(40), "-ldflags=-s -w")
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

// shown is a command as a person types it; URL is the simulator.
func shown(args []string) string { return "servebench " + strings.Join(args, " ") }
