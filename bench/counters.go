package bench

import (
	"context"
	"fmt"

	"github.com/servebench/servebench/manifest/probe"
	"github.com/servebench/servebench/metrics"
)

// readCounters reads the counters of all servers; nil where they are not wanted, or
// where there are none. The window between two readings is that of the timed
// requests: warm-ups would flatter the acceptance of drafts and the prefix cache.
func (s *session) readCounters(ctx context.Context) []probe.Reading {
	if s.cfg.Telemetry.NoEngineMetrics || s.res.Engine.Name != "vllm" && !s.res.Engine.Simulated || ctx.Err() != nil {
		return nil
	}
	readings := make([]probe.Reading, len(s.fleet))
	err := s.fleet.each(func(i int, t *target) (err error) {
		readings[i], err = probe.Read(ctx, t.client.HTTP(), t.url, t.client.Headers())
		return err
	})
	if err != nil {
		if ctx.Err() == nil {
			s.warnf("The server's counters are not known: %v.", err)
		}
		return nil
	}
	return readings
}

// takeCounters takes over what was counted between two readings. A part of it would
// be taken for the whole, so one server without an answer leaves nothing.
func (s *session) takeCounters(before, after []probe.Reading) {
	if before == nil || after == nil {
		return
	}
	var sum probe.Reading
	for i := range s.fleet {
		d, err := after[i].Since(before[i])
		if err != nil {
			s.warnf("%s counters over the timed requests are not known: %v.", s.fleet[i].whose(), err)
			return
		}
		if i == 0 {
			sum = d
		} else {
			sum = sum.Plus(d)
		}
	}
	s.res.counted, s.res.Speculation, s.res.Diffusion = sum, sum.Speculation, sum.Diffusion
}

// setCounted fills in the extensions about the servers' counters.
func (r *Result) setCounted(ext map[string]any) {
	n := r.counted.Counts
	if v, ok := n[probe.Preemptions]; ok {
		// The references count lines of the server's log, which vLLM no longer
		// writes for each; the counter has what those lines stood for.
		ext["runpile.preemption_log_mentions"] = v
	}
	for count, key := range map[probe.Count]string{
		probe.PrefixQueries: "prefix_cache_query_tokens", probe.PrefixHits: "prefix_cache_hit_tokens",
		probe.PromptTokens: "server_prompt_tokens", probe.GenerationTokens: "server_generation_tokens",
		probe.Succeeded: "server_successful_requests",
	} {
		if v, ok := n[count]; ok {
			ext["servebench."+key] = v
		}
	}
	if q, hits := n[probe.PrefixQueries], n[probe.PrefixHits]; q > 0 && hits <= q {
		ext["servebench.prefix_cache_hit_rate"] = float64(hits) / float64(q)
	}
	if r.PrefixCache != nil {
		ext["servebench.prefix_cache"] = r.PrefixCache
	}
	r.setSalt(func(key string, value any) { ext["servebench."+key] = value })
	if sp := r.Speculation; sp != nil {
		ext["servebench.speculative_decoding"] = map[string]any{
			"drafts": sp.Drafts, "draft_tokens": sp.DraftTokens, "accepted_tokens": sp.Accepted,
			"accepted_tokens_per_position": sp.AcceptedAt, "acceptance_rate_percent": sp.Rate(),
		}
	}
}

// counterDoubts compares what the servers counted with the load.
func (r *Result) counterDoubts() (out []string) {
	if n := r.counted.Counts[probe.Preemptions]; n > 0 {
		out = append(out, fmt.Sprintf("The server preempted running requests %d times during the timed requests: its memory for KV was full, and some tokens were computed twice.", n))
	}
	if q, hits := r.counted.Counts[probe.PrefixQueries], r.counted.Counts[probe.PrefixHits]; hits > q {
		out = append(out, fmt.Sprintf("The server's counters tell of %d prompt tokens found in its prefix cache and %d looked up: they were left out.", hits, q))
	}
	s := r.Summary
	theirs, ok := r.counted.Counts[probe.GenerationTokens]
	// Only where our own count is whole: all requests ended, by the server's usage.
	if !ok || r.pools() || s.Completed == 0 || s.Completed != len(r.Records) || s.TokenSources[metrics.FromUsage] != s.Completed {
		return out
	}
	ours := s.OutputTokens
	if p := r.Probes; p != nil {
		ours += int64(p.Completed)
	}
	// A server may count a step a little after it has answered, and a probe that
	// was cut off made a token.
	slack := max(ours/100, 2*int64(s.MaxInFlight))
	switch {
	case theirs > ours+slack:
		out = append(out, fmt.Sprintf("The server generated %d tokens during the timed requests and these got %d: it had other load.", theirs, ours))
	case theirs < ours-slack:
		out = append(out, fmt.Sprintf("The server counted %d generated tokens during the timed requests, which got %d: it may not be the only one behind its address.", theirs, ours))
	}
	return out
}
