// Command e2e holds servebench against a real vLLM on the CPU and beside `vllm
// bench serve`: `make e2e-vllm` runs it, after bench/e2e/setup.sh. It prints a
// PASS or FAIL line a check, writes docs/vllm.md, and exits with 1 if any failed.
//
// The servers are bench/e2e/start.sh's. However the program ends, short of a
// SIGKILL, they are stopped by their recorded pids.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// parts are the groups of checks in their order.
var parts = []string{"tokenizers", "sweep", "managed", "counts", "prompts", "keys", "numbers", "accounting", "pooling", "timing"}

// suite is one run of the program.
type suite struct {
	binary  string // servebench
	scripts string // the folder of start.sh and stop.sh
	base    string // what setup.sh made
	dir     string // results
	runs    int    // of each client for the comparison
	out     io.Writer

	passed, failed int
	doc            document
	parity         parity
	timings        timingPage
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("e2e", flag.ContinueOnError)
	flags.SetOutput(stderr)
	s := &suite{out: stdout, base: base()}
	flags.StringVar(&s.binary, "binary", "bin/servebench", "the `program` to check")
	flags.StringVar(&s.scripts, "scripts", "bench/e2e", "the `folder` of start.sh and stop.sh")
	flags.IntVar(&s.runs, "runs", 5, "runs of each client for the comparison, 3 or more")
	only := flags.String("only", "", "comma-separated `parts` of "+strings.Join(parts, ","))
	doc := flags.String("doc", "docs/vllm.md", "`file` to write the numbers to; \"\" writes none")
	same := flags.String("parity", "docs/parity.md", "`file` to write the keys and prompts of both clients to; \"\" writes none")
	timing := flags.String("timing", "docs/server-timing.md", "`file` to write both sides' timing to; \"\" writes none")
	keep := flags.String("keep", "", "`folder` to keep results in; \"\" takes one that is removed")
	if flags.Parse(args) != nil {
		return 2
	}
	chosen := parts
	if *only != "" {
		chosen = strings.Split(*only, ",")
	}
	for _, p := range chosen {
		if !slices.Contains(parts, p) {
			fmt.Fprintf(stderr, "e2e: -only: %q is none of %s\n", p, strings.Join(parts, ","))
			return 2
		}
	}
	if s.runs < 3 || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "e2e: -runs wants 3 or more, and there are no other words")
		return 2
	}
	if err := s.folders(*keep); err != nil {
		fmt.Fprintln(stderr, "e2e:", err)
		return 1
	}
	if *keep == "" {
		defer os.RemoveAll(s.dir)
	}
	err := s.all(ctx, chosen)
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "e2e: interrupted, the servers are stopped")
		return 130
	}
	if err == nil && *doc != "" && slices.Contains(chosen, "numbers") {
		s.doc.Passed, s.doc.Failed = s.passed, s.failed
		err = s.doc.write(*doc)
	}
	if err == nil && *timing != "" && slices.Contains(chosen, "timing") {
		err = s.timings.write(*timing)
	}
	if err == nil && *same != "" && slices.Contains(chosen, "keys") && slices.Contains(chosen, "tokenizers") {
		err = s.parity.write(*same)
	}
	if err != nil {
		fmt.Fprintln(stderr, "e2e:", err)
		return 1
	}
	fmt.Fprintf(stdout, "%d passed, %d failed\n", s.passed, s.failed)
	return min(s.failed, 1)
}

// base is the folder that setup.sh fills.
func base() string {
	cache, _ := os.UserCacheDir()
	if x := os.Getenv("XDG_CACHE_HOME"); x != "" {
		cache = x
	} else if home, err := os.UserHomeDir(); err == nil {
		cache = filepath.Join(home, ".cache")
	}
	return cmp.Or(os.Getenv("SERVEBENCH_VLLM"), filepath.Join(cache, "servebench-vllm"))
}

func (s *suite) folders(keep string) (err error) {
	for _, p := range []string{s.binary, filepath.Join(s.scripts, "start.sh"), filepath.Join(s.base, "venv/bin/vllm"), s.tokenizer()} {
		if _, err := os.Stat(p); err != nil {
			return err
		}
	}
	if s.binary, err = filepath.Abs(s.binary); err != nil {
		return err
	}
	if keep == "" {
		s.dir, err = os.MkdirTemp("", "servebench-e2e-")
		return err
	}
	s.dir = keep
	return os.MkdirAll(keep, 0o777)
}

// tokenizer is the folder of the models' tokenizer.
func (s *suite) tokenizer() string { return filepath.Join(s.base, "qwen3") }

// check prints a line; no problem is a pass.
func (s *suite) check(name string, problems ...string) {
	if len(problems) == 0 {
		s.passed++
		fmt.Fprintln(s.out, "PASS", name)
		return
	}
	s.failed++
	fmt.Fprintln(s.out, "FAIL", name)
	const most = 12
	for _, p := range problems[:min(most, len(problems))] {
		fmt.Fprintln(s.out, "     -", strings.ReplaceAll(p, "\n", "\n       "))
	}
	if n := len(problems) - most; n > 0 {
		fmt.Fprintf(s.out, "     - and %d more\n", n)
	}
}

func (s *suite) infof(format string, args ...any) {
	fmt.Fprintf(s.out, "     "+format+"\n", args...)
}

// speculation makes the second server guess ahead.
const speculation = `{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4}`

// all runs the chosen parts, on one server after the other. Only what keeps the
// rest from running is an error; all else is a failed check.
func (s *suite) all(ctx context.Context, chosen []string) error {
	began := time.Now()
	for _, p := range []struct {
		name string
		run  func(context.Context) error
	}{{"tokenizers", s.tokenizers}, {"sweep", s.sweep}, {"managed", s.managed}} {
		if slices.Contains(chosen, p.name) {
			if err := p.run(ctx); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	for _, kind := range []struct {
		name, model string
		args, env   []string
		parts       map[string]func(context.Context, *server) error
	}{
		{"plain", "qwen3", nil, nil, map[string]func(context.Context, *server) error{
			"counts": s.counts, "prompts": s.prompts, "keys": s.keys, "numbers": s.compare,
		}},
		{"speculative", "qwen3-chain", []string{"--speculative-config", speculation}, nil, map[string]func(context.Context, *server) error{
			"counts": s.counts, "keys": s.keys, "numbers": s.speculative,
		}},
		{"accounting", "qwen3-chain", []string{"--speculative-config", speculation}, nil, map[string]func(context.Context, *server) error{
			"accounting": s.accounting,
		}},
		{"pooling", "qwen3", []string{"--runner", "pooling", "--convert", "embed"}, nil, map[string]func(context.Context, *server) error{
			"pooling": s.pooling,
		}},
		{"timing", "qwen3", []string{"--enable-per-request-metrics", "--middleware", "timing_tap.Tap", "--no-enable-prefix-caching"}, s.timingEnv(), map[string]func(context.Context, *server) error{
			"timing": s.timing,
		}},
	} {
		if !slices.ContainsFunc(chosen, func(p string) bool { return kind.parts[p] != nil }) {
			continue
		}
		err := s.serving(ctx, kind.name, kind.model, kind.args, kind.env, func(srv *server) error {
			for _, p := range parts {
				if f := kind.parts[p]; f != nil && slices.Contains(chosen, p) {
					if err := f(ctx, srv); err != nil {
						return fmt.Errorf("%s, %s server: %w", p, kind.name, err)
					}
				}
			}
			return nil
		})
		if err := errors.Join(err, context.Cause(ctx)); err != nil {
			return err
		}
	}
	s.infof("%v in all", time.Since(began).Round(time.Second))
	return nil
}
