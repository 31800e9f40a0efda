package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
)

// printPlan is --dry-run: it shows what would be sent and sends no request.
func (o *options) printPlan(ctx context.Context, t *terminal) error {
	p, err := bench.Prepare(ctx, o.config)
	if err != nil {
		return &exitError{code: exitUsage, err: flagged(err)}
	}
	c := &o.config
	row := func(label, format string, args ...any) {
		fmt.Fprintf(t.out, "%-24s %s\n", label+":", printable(fmt.Sprintf(format, args...)))
	}
	target := openai.PublicURL(c.Target.BaseURL)
	if o.sim != nil {
		target = "the embedded simulator"
	}
	if o.server != nil {
		target = "the server that " + shownCommand(o.server.Command, o.server.Host) + " starts"
	}
	row("Target", "%s, %s", target, c.Target.Endpoint)
	for i, url := range c.Replicas {
		row(fmt.Sprintf("Replica %d", i+1), "%s", openai.PublicURL(url))
	}
	row("Requests", "%d, after %d warm-ups", len(p.Requests), c.Dataset.Warmups)
	row("Prompts", "%s, counted by %s", p.Generator, p.Counted)
	row("Prompt tokens", "%s", spread(p.Requests, func(r loadgen.Request) int { return r.PromptTokens }))
	row("Tokens to generate", "%s", spread(p.Requests, func(r loadgen.Request) int { return r.OutputTokens }))
	row("Body bytes", "%s", spread(p.Requests, func(r loadgen.Request) int { return r.Len() }))
	row("sha256 of the bodies", "%s", p.SHA256)
	row("Schedule", "%s", schedule(c, p))
	for _, w := range p.Warnings {
		row("Warning", "%s", w)
	}
	if len(p.Requests) > 0 {
		row("Body of request 0", "%s", p.Requests[0].Body)
	}
	return nil
}

func schedule(c *bench.Config, p *bench.Plan) string {
	if p.Offsets == nil {
		return fmt.Sprintf("closed loop, %d at a time", min(cmp.Or(c.MaxConcurrency, len(p.Requests)), len(p.Requests)))
	}
	n := len(p.Offsets)
	pace := fmt.Sprintf("%v requests/s, burstiness %v", c.Rate, c.Burstiness)
	switch {
	case c.Ramp != nil:
		pace = fmt.Sprintf("%s from %v to %v requests/s, burstiness %v", c.Ramp.Strategy, c.Ramp.Start, c.Ramp.End, c.Burstiness)
	case c.Traced():
		pace = "the times of the trace"
	}
	s := fmt.Sprintf("open loop, %s, first due at %v, last at %v", pace, p.Offsets[0].Round(time.Microsecond), p.Offsets[n-1].Round(time.Microsecond))
	if c.MaxConcurrency > 0 {
		s += fmt.Sprintf(", %d at a time at most", c.MaxConcurrency)
	}
	return s
}

// spread is a length's statistics in a line.
func spread(rs []loadgen.Request, f func(loadgen.Request) int) string {
	if len(rs) == 0 {
		return "none"
	}
	v := make([]int, len(rs))
	sum := 0
	for i, r := range rs {
		v[i] = f(r)
		sum += v[i]
	}
	slices.Sort(v)
	if v[len(v)-1] == 0 {
		return "not known"
	}
	return fmt.Sprintf("min %d, median %d, max %d, total %d", v[0], v[len(v)/2], v[len(v)-1], sum)
}
