// Command servebench measures OpenAI-compatible LLM servers.
//
// Exit codes: 0 completed or passed; 1 internal error; 2 usage or configuration;
// 3 regression; 4 inconclusive, invalid or not comparable; 5 the server failed;
// 6 results could not be saved after data existed; 128 + N after signal N, with
// partial results saved.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/servebench/servebench/bench"
)

// The exit codes that a command decides on.
const (
	exitInternal = 1
	exitUsage    = 2
	exitInvalid  = 4
	exitTarget   = 5
	exitUnsaved  = 6
)

// exitError is an error with the code to end with and, where we know one, a hint
// at what would help.
type exitError struct {
	code int
	err  error
	hint string
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

func main() {
	// A reader that goes away (`| head`) must not end us before results are saved.
	signal.Ignore(syscall.SIGPIPE)
	// net/http logs what servers send out of turn, in their own words.
	log.SetOutput(io.Discard)
	// Most of the memory is request bodies, which stay: collecting more often
	// costs little and keeps the rest from doubling.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(10)
	}
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	t := &terminal{out: stdout, err: stderr}
	defer func() {
		if p := recover(); p != nil {
			t.fail(fmt.Errorf("internal error: %v; please report it", p))
			code = exitInternal
		}
	}()
	switch {
	case len(args) > 1 && args[0] == "help":
		args = []string{args[1], "--help"}
	case len(args) == 1 && (args[0] == "help" || args[0] == "version"):
		args = []string{"--" + args[0]}
	}
	// These read their flags by argparse's rules.
	own := map[string]func(context.Context, []string, *terminal) error{"serve": serve, "sweep": sweepCommand, "gate": gateCommand, "sim": simulate}
	if len(args) > 0 && own[args[0]] != nil {
		return t.exit(own[args[0]](ctx, args[1:], t))
	}
	return t.exit(application(t).RunContext(ctx, append([]string{"servebench"}, args...)))
}

func application(t *terminal) *cli.App {
	cli.VersionPrinter = func(*cli.Context) {
		fmt.Fprintf(t.out, "servebench %s (%s, %s/%s, %s)\n", bench.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, tokenizerBuild)
	}
	app := &cli.App{
		Name:                      "servebench",
		Usage:                     "measure OpenAI-compatible LLM servers",
		Description:               "servebench serve --help lists the flags of a benchmark, servebench sim --help those of the simulator, servebench manifest --help what there is for manifests, servebench config --help what there is for run files.",
		Version:                   bench.Version,
		Writer:                    t.out,
		ErrWriter:                 t.err,
		DisableSliceFlagSeparator: true,
		HideHelpCommand:           true,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              func(_ *cli.Context, err error, _ bool) error { return &exitError{code: exitUsage, err: err} },
		Commands: []*cli.Command{
			{
				Name:            "serve",
				Usage:           "run one benchmark; takes the flags of `vllm bench serve`",
				SkipFlagParsing: true, // handled before, by argparse's rules
				Action:          func(*cli.Context) error { return nil },
			},
			{
				Name:            "sweep",
				Usage:           "run an experiment: many benchmarks and their servers, from a YAML file",
				SkipFlagParsing: true, // handled before
				Action:          func(*cli.Context) error { return nil },
			},
			{
				Name:            "gate",
				Usage:           "decide whether a server became slower: pairs of runs, or stored results",
				SkipFlagParsing: true, // handled before
				Action:          func(*cli.Context) error { return nil },
			},
			{
				Name:            "sim",
				Usage:           "run a simulated vLLM server; takes the flags of `vllm serve`",
				SkipFlagParsing: true, // as serve
				Action:          func(*cli.Context) error { return nil },
			},
			selftestCommand(t),
			manifestCommand(t),
			compareCommand(t),
			baselineCommand(t),
			configCommand(t),
			hdrCommand(t),
			envCommand(t),
			completionCommand(t),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("%s is no command; want serve, sweep, gate, sim, selftest, manifest, compare, baseline, config, hdr, env or completion", quoteWord(c.Args().First()))
			}
			return cli.ShowAppHelp(c)
		},
	}
	flagsFirst(app.Commands)
	return app
}

// flagsFirst refuses flags behind files, which would be taken for files.
func flagsFirst(commands []*cli.Command) {
	for _, cmd := range commands {
		flagsFirst(cmd.Subcommands)
		if cmd.SkipFlagParsing || cmd.Action == nil {
			continue
		}
		act := cmd.Action
		cmd.Action = func(c *cli.Context) error {
			for _, word := range c.Args().Slice() {
				if len(word) > 1 && strings.HasPrefix(word, "-") {
					return usagef("%s stands behind a file; want flags first: %s %s ... FILE (a file of that name is ./%s)", quoteWord(word), c.Command.HelpName, word, word)
				}
			}
			return act(c)
		}
	}
}

// terminal talks to people: results to out, everything else to err.
type terminal struct {
	out, err io.Writer
	// dial, if set, replaces the network of a gate's runs: tests have servers in
	// virtual time.
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// notef writes one line to people.
func (t *terminal) notef(format string, args ...any) {
	fmt.Fprintf(t.err, "servebench: %s\n", printable(fmt.Sprintf(format, args...)))
}

// fail writes an error, a line for each of its parts.
func (t *terminal) fail(err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		t.notef("%s", clip(line, 2000))
	}
}

// exit reports err and turns it into an exit code.
func (t *terminal) exit(err error) int {
	if err == nil {
		return 0
	}
	var e *exitError
	if !errors.As(err, &e) {
		t.fail(err)
		return exitInternal
	}
	if e.err != nil {
		t.fail(e.err)
	}
	if e.hint != "" {
		fmt.Fprintf(t.err, "hint: %s\n", printable(e.hint))
	}
	return e.code
}
