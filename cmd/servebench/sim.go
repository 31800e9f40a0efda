package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/servebench/servebench/bench/sim"
)

// simCommand is `servebench sim`: the simulator as a server of its own.
func simCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:            "sim",
		Usage:           "run the simulated vLLM server until SIGTERM",
		Description:     "SERVEBENCH_SIM_API_KEY in the environment is the key it asks for; without it there is none.",
		HideHelpCommand: true,
		OnUsageError:    func(_ *cli.Context, err error, _ bool) error { return &exitError{code: exitUsage, err: err} },
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "host", Value: "127.0.0.1", Usage: "address to listen on"},
			&cli.IntFlag{Name: "port", Usage: "port to listen on; 0 takes a free one"},
			&cli.StringFlag{Name: "model", Usage: "the only model served; without it any name is"},
			&cli.DurationFlag{Name: "ttft", Value: defaultSim.TTFT, Usage: "time to first token"},
			&cli.DurationFlag{Name: "itl", Value: defaultSim.ITL, Usage: "time between tokens"},
			&cli.DurationFlag{Name: "per-prompt-token", Usage: "added to the time to first token for each prompt token"},
			&cli.Float64Flag{Name: "jitter", Usage: "spread of the times, 0 to 1"},
			&cli.Uint64Flag{Name: "seed", Usage: "seed of the jitter"},
			&cli.IntFlag{Name: "slots", Usage: "requests served at once; 0 is no limit"},
			&cli.IntFlag{Name: "tokens-per-chunk", Value: 1, Usage: "tokens in an event after the first"},
			&cli.IntFlag{Name: "max-model-len", Usage: "largest prompt plus answer in tokens; 0 is 131072"},
			&cli.BoolFlag{Name: "truth", Usage: "put the time of writing into each event as sent_ns (CLOCK_MONOTONIC)"},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("unexpected word %s", quoteWord(c.Args().First()))
			}
			cfg := sim.Config{
				Model: c.String("model"), TTFT: c.Duration("ttft"), ITL: c.Duration("itl"),
				PerPromptToken: c.Duration("per-prompt-token"), Jitter: c.Float64("jitter"), Seed: c.Uint64("seed"),
				Slots: c.Int("slots"), TokensPerChunk: c.Int("tokens-per-chunk"), MaxModelLen: c.Int("max-model-len"),
				Truth: c.Bool("truth"), APIKey: os.Getenv("SERVEBENCH_SIM_API_KEY"),
			}
			return runSim(c.Context, cfg, net.JoinHostPort(c.String("host"), fmt.Sprint(c.Int("port"))), t)
		},
	}
}

// defaultSim has the timings of a simulator nobody has told otherwise.
var defaultSim = sim.Config{TTFT: 50 * time.Millisecond, ITL: 10 * time.Millisecond, TokensPerChunk: 1}

func runSim(ctx context.Context, cfg sim.Config, addr string, t *terminal) error {
	if err := cfg.Validate(); err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return &exitError{code: exitUsage, err: fmt.Errorf("--host, --port: %w", err)}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	fmt.Fprintf(t.out, "listening on http://%s\n", l.Addr())
	return sim.New(cfg).Serve(ctx, l)
}
