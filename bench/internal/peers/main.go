// Command peers is `make bench-peers`: servebench beside the load generators that
// can be had from PyPI, each measured against a server whose every instant is
// known, in the same minutes on the same machine. It prints a table in Markdown.
//
// The server is package sim in a process of its own: the role sim of
// bench/internal/cost, which notes when the kernel had received each request and
// when each event was written. Every run of a client is a fresh process. The
// clients get the same words and take turns, A B B A.
//
//   - TTFT p50 error: the client's median (`ttfts` of its result file) minus the
//     simulator's, from the kernel's stamp of the request to the first write.
//   - ITL p99 error: the p99 over all gaps of the client (`itls`) minus that over
//     the simulator's gaps between the same writes.
//   - CPU per event: CPU time of the process and its children with long answers
//     minus that with short ones, over the events by which they differ.
//   - peak memory: of the run with long answers (wait4's rusage).
//   - first request: from before the exec to the simulator's having its headers.
//
// A client that is not there is a row "not measured", and the exit status is 1: a
// missing peer has not been beaten. Bars are not checked here.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
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
	binary  string
	base    string
	streams []int
	runs    int
	budget  time.Duration
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := options{streams: []int{1, 50, 200, 500}}
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.binary, "binary", "bin/servebench", "the `file` to measure")
	flags.StringVar(&o.base, "vllm", base(), "`folder` that bench/e2e/setup.sh has filled")
	flags.IntVar(&o.runs, "runs", 3, "runs of each client that a median is of")
	flags.DurationVar(&o.budget, "budget", 9*time.Minute, "start no further run after so long; rows say how many there were")
	flags.Func("streams", "comma-separated `numbers` of streams (default 1,50,200,500)", func(s string) (err error) {
		o.streams, err = numbers(s)
		return err
	})
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if o.runs < 1 || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "peers: -runs wants 1 or more, and there are no other words")
		return 2
	}
	missing, err := o.measure(ctx, stdout, stderr)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "peers: interrupted")
		return 130
	case err != nil:
		fmt.Fprintf(stderr, "peers: %v\n", err)
		return 1
	case missing:
		return 1
	}
	return 0
}

// numbers reads 1,50,200.
func numbers(s string) (out []int, err error) {
	for word := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 || n > 2000 {
			return nil, fmt.Errorf("%q; want numbers from 1 to 2000, such as 1,50", word)
		}
		out = append(out, n)
	}
	return out, nil
}
