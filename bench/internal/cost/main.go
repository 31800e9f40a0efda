// Command cost is `make bench`: what servebench itself costs, and what it adds to
// the latencies it reports. It prints one table; each row has its bar beside it.
//
// Everything runs on loopback. The server is package sim in a process of its own
// (this program again, with -role sim) that notes when each request had been read
// and when each event was written: the truth that a row calls "the simulator's".
// The client is `servebench serve`, each run a fresh process whose CPU time and
// peak memory the kernel reports when it has ended (wait4's rusage). What is
// compared is interleaved, A B B A, so that a noisy machine is noisy for both.
//
// How a row is measured:
//   - CPU per event: CPU time of a run of long answers minus that of one of short
//     answers with as many requests, over the events they differ by. So start-up,
//     prompts, connections and requests cancel out; the statistics at the end,
//     which grow with the events, are in. The bare reader (-role bare) posts the
//     same bodies with net/http and reads lines, with one time.Now a line.
//   - allocations per event: runtime.MemStats.Mallocs over bench.Run inside this
//     program (-role allocs), long answers minus short ones in the same way.
//   - ITL p99: over all gaps between events of a request. The client's come from
//     its record file, the simulator's from the instants right before the writes
//     of the same events, joined by x-request-id.
//   - TTFT p50: the client's is first event minus sent; the simulator's is first
//     write minus the arrival of the request in its machine's kernel, by the
//     kernel's own stamp. So what the client needs to get a request out counts as
//     the client's, and the simulator's waiting for a core as the simulator's. A
//     row beside it begins at the simulator's admission (it had read the body) and
//     has both in it. The connections are open before the clock starts.
//   - the run's own verdict: what serve said of each run, in a row beside its error.
//     It may not be VALID where the error is over its bar.
//   - lag and achieved rate of an open loop: from the records' due and sent times.
//   - a million records: synthetic ones through metrics.Summarize and
//     metrics.Analyze in a process of its own (-role million).
//   - where a microsecond goes: a CPU profile of bench.Run and of the writing of the
//     histograms (-role profile), its samples sorted by their stacks. So the share of
//     health, telemetry and histograms is measured in the run that has them.
//   - first request: from just before the client's exec to the first POST for
//     tokens in the simulator.
//
// The exit status is 0 also where a bar is passed: the table is information. It
// is 1 where something could not be measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the command line.
type options struct {
	binary    string
	tokenizer string
	only      string
	runs      int
	quick     bool

	// For the processes that this program starts of itself.
	role    string
	url     string
	streams int
	tokens  int
	ttft    time.Duration
	itl     time.Duration
	file    string
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("cost", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.binary, "binary", "bin/servebench", "the `file` to measure")
	flags.StringVar(&o.tokenizer, "tokenizer", "", "`folder` of the gpt2 tokenizer; without it npm gets it once into the user's cache")
	flags.StringVar(&o.only, "only", "", "the `parts` to measure, comma separated: "+strings.Join(partNames(), ","))
	flags.IntVar(&o.runs, "runs", 5, "runs a median is of")
	flags.BoolVar(&o.quick, "quick", false, "one short run of each, to see that all works: the numbers mean little")
	flags.StringVar(&o.role, "role", "", "internal: what a process started by this program does")
	flags.StringVar(&o.url, "url", "", "internal: with -role")
	flags.IntVar(&o.streams, "streams", 0, "internal: with -role")
	flags.IntVar(&o.tokens, "tokens", 0, "internal: with -role")
	flags.DurationVar(&o.ttft, "ttft", simConfig.TTFT, "internal: with -role")
	flags.DurationVar(&o.itl, "itl", simConfig.ITL, "internal: with -role")
	flags.StringVar(&o.file, "file", "", "internal: with -role")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	var err error
	switch o.role {
	case "":
		return o.measure(ctx, stdout, stderr)
	case "sim":
		err = serveSim(ctx, stdout, o.ttft, o.itl)
	case "bare":
		err = readBare(ctx, o.url, o.streams, o.tokens)
	case "allocs":
		err = countAllocations(ctx, stdout, o.url, o.streams, o.tokens)
	case "million":
		err = processRecords(stdout, o.streams, o.tokens)
	case "profile":
		err = profileRun(ctx, o.file, o.url, o.streams, o.tokens)
	default:
		err = fmt.Errorf("unknown role %q", o.role)
	}
	if err != nil {
		fmt.Fprintf(stderr, "cost: %v\n", err)
		return 1
	}
	return 0
}

// part is a group of rows that are measured together.
type part struct {
	name    string
	budget  time.Duration // after which no further run starts; rows say how many there were
	measure func(*lab, context.Context) error
}

// parts in the table's order.
var parts = []part{
	{"cpu", 80 * time.Second, (*lab).cpu},
	{"profile", 60 * time.Second, (*lab).profile},
	{"allocs", 30 * time.Second, (*lab).allocations},
	{"itl200", 60 * time.Second, func(l *lab, ctx context.Context) error { return l.latencies(ctx, 200, 0.02, 0) }},
	{"itl500", 70 * time.Second, func(l *lab, ctx context.Context) error { return l.latencies(ctx, 500, 0.05, 1.5) }},
	{"itl1000", 90 * time.Second, func(l *lab, ctx context.Context) error { return l.latencies(ctx, 1000, 2, 3) }},
	{"open10000", 60 * time.Second, (*lab).open},
	{"rate2000", 40 * time.Second, (*lab).rate},
	{"million", 40 * time.Second, (*lab).million},
	{"prompts", 90 * time.Second, (*lab).prompts},
	{"start", 20 * time.Second, (*lab).startUp},
	{"memory", 50 * time.Second, (*lab).memory},
	{"size", 60 * time.Second, (*lab).size},
}

func partNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// measure is the program: it measures the parts asked for and prints the table.
func (o *options) measure(ctx context.Context, stdout, stderr io.Writer) int {
	chosen := parts
	if o.only != "" {
		chosen = nil
		for name := range strings.SplitSeq(o.only, ",") {
			i := slices.Index(partNames(), name)
			if i < 0 {
				fmt.Fprintf(stderr, "cost: -only: %q is no part; want some of %s\n", name, strings.Join(partNames(), ","))
				return 2
			}
			chosen = append(chosen, parts[i])
		}
	}
	l, err := openLab(ctx, o, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "cost: %v\n", err)
		return 1
	}
	before := readLoad()
	failed := false
	var budget time.Duration
	for _, p := range chosen {
		budget += p.budget
	}
	fmt.Fprintf(stderr, "cost: this takes about %.0f minutes\n", math.Ceil(budget.Minutes()))
	for _, p := range chosen {
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(stderr, "cost: measuring %s\n", p.name)
		l.part, l.deadline = p.name, time.Now().Add(p.budget)
		if err := p.measure(l, ctx); err != nil && ctx.Err() == nil {
			l.table.missing(p.name, err)
			failed = true
		}
	}
	l.close()
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "cost: interrupted")
		return 130
	}
	fmt.Fprintf(stdout, "\nservebench's own cost: %s\n", l.version)
	fmt.Fprintf(stdout, "machine: %s\n\n", before.until(readLoad()))
	l.table.write(stdout)
	stdout.Write(l.appendix.Bytes())
	fmt.Fprintf(stdout, "\nEach part again: go run ./bench/internal/cost -binary %s -only PART. What it runs:\n", o.binary)
	l.table.writeCommands(stdout)
	if failed {
		return 1
	}
	return 0
}
