package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/servebench/servebench/loadgen"
)

// phases that the preamble tells of, in the order of a run.
var phases = []string{"ready check", "warm-up", "run"}

// preamble returns what is called with each phase of a run: it writes the lines that
// vLLM prints before its table, which scripts look for, as the run gets that far.
func (o *options) preamble(w io.Writer) func(phase string) {
	told := -1 // the last phase that was begun
	ready := false
	return func(phase string) {
		now := slices.Index(phases, phase)
		if now <= told {
			return // a phase of no interest
		}
		if told < 0 {
			fmt.Fprintln(w, "Starting initial single prompt test run...")
		}
		if now > 0 && !ready {
			ready = true
			fmt.Fprintln(w, map[bool]string{true: "Initial test run completed.", false: "Skipping endpoint ready check."}[o.config.ReadyTimeout > 0])
		}
		switch {
		case phase == "warm-up":
			fmt.Fprintf(w, "Warming up with %d requests...\n", o.config.Dataset.Warmups)
		case phase == "run":
			if told == 1 {
				fmt.Fprintln(w, "Warmup run completed.")
			}
			o.announce(w)
		}
		told = now
	}
}

// announce describes the load in vLLM's words.
func (o *options) announce(w io.Writer) {
	c := &o.config
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	line("Starting main benchmark run...")
	if c.Profile {
		line("Starting profiler...")
	}
	if c.Traced() {
		line("Self timing is set, using the timestamps from the trace file.")
	} else {
		o.announceRate(line)
	}
	if c.ProbeRate > 0 {
		line("Probe request rate: %v req/s", loadgen.Number(c.ProbeRate))
	}
}

func (o *options) announceRate(line func(string, ...any)) {
	c := &o.config
	if c.Ramp != nil {
		line("Traffic ramp-up strategy: %s.", c.Ramp.Strategy)
		line("Will increase RPS from %v to %v RPS over the duration of the benchmark.", c.Ramp.Start, c.Ramp.End)
	} else {
		line("Traffic request rate: %v", c.Rate)
	}
	shape := "Gamma distribution"
	if c.Burstiness == 1 {
		shape = "Poisson process"
	}
	line("Burstiness factor: %v (%s)", c.Burstiness, shape)
	if c.MaxConcurrency > 0 {
		line("Maximum request concurrency: %d", c.MaxConcurrency)
	} else {
		line("Maximum request concurrency: None")
	}
}
