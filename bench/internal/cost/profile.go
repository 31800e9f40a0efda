package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/metrics"
)

// group is where CPU time goes: samples of which a frame contains one of marks.
// The first group that has one takes the sample.
type group struct {
	name  string
	marks []string
}

// watching is the group that has a bar of its own.
const watching = "health, telemetry, histograms"

// groups go from what is particular to what is below everything. A frame is a
// function's full name.
var groups = []group{
	{"garbage collection", []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart"}},
	{watching, []string{"bench.(*health)", "bench.(*gpuWatch)", "bench.readRuntime", "manifest/probe.", "hdrhistogram.", "metrics.WriteHDR"}},
	{"statistics at the end", []string{"servebench/metrics."}},
	{"read: recvmsg", []string{"rxtime.(*sys).tryRecv>Syscall6"}},
	{"read: epoll_wait", []string{"unix.EpollWait", "unix.EpollCtl"}},
	{"stamp: clock readings", []string{"rxtime.(*sys).tryRecv", "rxtime.(*Conn).stamp", "openai.(*call).stamp"}},
	{"chunks", []string{"openai.(*chunks)", "openai.(*directBody)"}},
	{"JSON", []string{"openai.scan", "openai.(*call).scan"}},
	{"lines of the event stream", []string{"sse.(*Decoder)"}},
	{"record, watch, counters", []string{"openai.(*call).feed", "openai.(*call).stream"}},
	{"poller and its locks", []string{"rxtime."}},
	{"requests: connect, build, send, heads", []string{"loadgen.(*run)", "net/http.", "openai.(*Client)", "openai.(*call)", "net."}},
	{"prompts, plan, probes", []string{"servebench/bench.", "servebench/dataset", "main."}},
	{"scheduler, timers, wake-ups", []string{"runtime."}},
}

// groupOf is the group of a stack, whose first frame is the innermost.
func groupOf(stack []string) string {
	for _, g := range groups {
		for _, mark := range g.marks {
			outer, inner, both := strings.Cut(mark, ">")
			if both && (len(stack) == 0 || !strings.Contains(stack[0], inner)) {
				continue
			}
			for _, frame := range stack {
				if strings.Contains(frame, outer) {
					return g.name
				}
			}
		}
	}
	return "other"
}

// profile measures where the client's CPU time goes.
func (l *lab) profile(ctx context.Context) error {
	const streams = 500
	tokens := 1500
	if l.quick {
		tokens = 200
	}
	sim, err := l.server()
	if err != nil {
		return err
	}
	total, runs := map[string]time.Duration{}, 0
	var shares []float64
	err = l.repeat(func() error {
		if runs == 3 {
			return nil
		}
		file := filepath.Join(l.dir, "cpu.pprof")
		_, err := l.start(ctx, nil, l.self, "-role", "profile", "-url", sim.URL, "-streams", strconv.Itoa(streams), "-tokens", strconv.Itoa(tokens), "-file", file)
		if err != nil {
			return err
		}
		if err := sim.events(ctx, streams, tokens); err != nil {
			return err
		}
		traces, err := l.start(ctx, nil, "go", "tool", "pprof", "-traces", l.self, file)
		if err != nil {
			return err
		}
		times, err := sortSamples(bytes.NewReader(traces.out))
		if err != nil {
			return err
		}
		var sum time.Duration
		for name, d := range times {
			total[name] += d
			sum += d
		}
		runs++
		shares = append(shares, 100*float64(times[watching])/float64(sum))
		return nil
	})
	l.table.add(l.part, watching+", share of CPU per event", "%", shares, atMost(3))
	l.table.command(l.part, "bench.Run of %d x %d tokens with its histograms, under runtime/pprof", streams, tokens)
	if runs > 0 {
		writeGroups(&l.appendix, total, float64(runs*streams*tokens))
	}
	return err
}

// writeGroups prints the table of docs/cost.md.
func writeGroups(w io.Writer, total map[string]time.Duration, events float64) {
	var sum time.Duration
	for _, d := range total {
		sum += d
	}
	fmt.Fprint(w, "\nWhere a microsecond goes (of CPU time, the whole run over its events):\n\n")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, g := range append(groups[:len(groups):len(groups)], group{name: "other"}) {
		d := total[g.name]
		fmt.Fprintf(tw, "%s\t%.2f µs\t%.1f %%\t\n", g.name, d.Seconds()*1e6/events, 100*float64(d)/float64(sum))
	}
	fmt.Fprintf(tw, "together\t%.2f µs\t\t\n", sum.Seconds()*1e6/events)
	_ = tw.Flush() // nobody reads the table: nothing to save
}

// sortSamples adds up the output of `pprof -traces` by group. Stacks stand between
// lines of dashes: the time and the innermost frame, then one frame a line.
func sortSamples(r io.Reader) (map[string]time.Duration, error) {
	times := map[string]time.Duration{}
	var stack []string
	var value time.Duration
	end := func() {
		if value > 0 {
			times[groupOf(stack)] += value
		}
		stack, value = nil, 0
	}
	lines, begun := bufio.NewScanner(r), false
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "-----") {
			end()
			begun = true
			continue
		}
		if !begun || line == "" {
			continue
		}
		if value == 0 {
			number, frame, ok := strings.Cut(line, " ")
			d, err := time.ParseDuration(number)
			if !ok || err != nil {
				return nil, fmt.Errorf("pprof -traces: %q; want a time and a function", line)
			}
			value, line = d, strings.TrimSpace(frame)
		}
		stack = append(stack, strings.TrimSuffix(line, " (inline)"))
	}
	end()
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(times) == 0 {
		return nil, errors.New("pprof -traces shows no samples")
	}
	return times, nil
}

// profileRun is the role profile: a run with its histograms, as serve makes it,
// under a CPU profile.
func profileRun(ctx context.Context, file, url string, n, tokens int) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	res, err := bench.Run(ctx, config(url, n, tokens))
	if err != nil {
		return err
	}
	if res.Summary.Completed != n {
		return fmt.Errorf("%d of %d requests completed", res.Summary.Completed, n)
	}
	return metrics.WriteHDR(io.Discard, res.Records, metrics.Options{}, res.Start, res.Duration)
}
