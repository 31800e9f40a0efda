package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/metrics"
)

// doubts are what a reader must know of the numbers.
func (r *Result) doubts() (out []string) {
	add := func(cond bool, format string, args ...any) {
		if cond {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	s, k := r.Summary, &r.Summary.Counters
	add(r.Simulated(), "The target is a simulator: these numbers describe no real model.")
	if s.Failed > 0 && s.Completed > 0 {
		first := firstFailure(r.Records)
		add(true, "%d requests failed (%s) and enter no latency. The first: %s", s.Failed, r.failures(), describe(first))
		if n := 1 + len(r.Config.Replicas); n > 1 {
			add(true, "Of the failed requests %s.", failuresByReplica(r.Records, n))
		}
		name := openai.ForeignIn(first.Error)
		refused := openai.AccountsIn(first.Error)
		add(refused != "" && first.Outcome == metrics.HTTP, "The server refuses %s; --token-accounting chunks does not send it.", refused)
		add(name != "" && first.Outcome == metrics.HTTP, "--strict-openai sends only OpenAI's own parameters, without %s.", name)
	}
	add(s.Outcomes[metrics.ClientResource] > 0, "%d requests found no descriptor or port here: raise the limit of open files (ulimit -n) above the concurrency.", s.Outcomes[metrics.ClientResource])
	if sub := r.Config.Subject; sub != nil {
		add(r.Simulated(), "The declared subject %s was not measured: the simulator stands in for it.", sub.Identifier)
		names := append(r.Served(), r.Config.Model, r.Config.ServedModel)
		add(!r.Simulated() && !slices.Contains(names, sub.Identifier), "The declared subject is %s, and the server serves %s: nobody checked that they are the same.", sub.Identifier, r.Config.Model)
	}
	if !r.pools() {
		out = append(out, r.tokenDoubts()...)
		out = append(out, r.lengthDoubts()...)
		out = append(out, r.accountingDoubts()...)
	}
	add(r.pools() && len(r.Config.Goodput) > 0, "--goodput is not reported where nothing is generated, as in vLLM.")
	for _, kv := range r.Config.Metadata {
		add(slices.Contains(ownKeys, kv[0]), "--metadata %s is not in the result, which has a key of that name.", kv[0])
	}
	generates := r.Config.API().Generates()
	add(k.NotStreamed > 0 && r.Config.Stream && generates, "%d responses were not streamed: they have no TTFT, TPOT or ITL.", k.NotStreamed)
	add(k.NoDone > 0, "%d streams ended without [DONE], after a finish reason.", k.NoDone)
	add(k.Empty > 0 && generates, "%d completions have no output token.", k.Empty)
	out = append(out, r.PrefixCache.doubts(r)...)
	add(k.Dialed > 0, "%d requests had to open a connection, whose time is inside their TTFT.", k.Dialed)
	add(k.Redialed > 0, "%d idle connections were found closed by the server and replaced.", k.Redialed)
	add(k.Undrained > 0, "%d connections were dropped, as the server kept the response open after [DONE].", k.Undrained)
	add(k.Discarded > 0, "%d kernel receive stamps were discarded as negative or over 10 s.", k.Discarded)
	add(k.NoStamp > 0 && k.NoStamp < r.reads(), "%d of %d reads had no kernel receive stamp: their arrivals are read times.", k.NoStamp, r.reads())
	add(s.Completed > 0 && s.InputTokens == 0, "Neither the server nor a tokenizer counted the prompts: no input tokens are in these numbers.")
	add(s.Completed == 0 && r.unknownInput(), "Nobody counted the prompts: the input length is only bounded by their bytes.")
	add(r.reads() > 0 && k.NoStamp >= r.reads() && !r.Config.Target.NoKernelStamps, "There are no kernel receive stamps here: arrivals are read times and hold the client's own delay.")
	add(k.Reads > 0 && k.Events > k.Reads*3/2, "Events came %.1f to a read: gaps inside a read are 0 and the one before it is longer.", float64(k.Events)/float64(max(1, k.Reads)))
	add(r.proxied, "A proxy of the environment stands between client and server.")
	add(s.VLLM.ITL != nil && s.VLLM.ITL.Source != "exact", "Inter-token percentiles come from a histogram of 3 significant digits.")
	out = append(out, r.counterDoubts()...)
	out = append(out, r.timingDoubts()...)
	if p99, ok := s.QueueWait.Percentile(99); ok {
		add(p99 > 0, "The cap of %d was reached: requests waited for a slot, p99 %.1f ms. TTFT and E2EL do not hold that wait, the values from the due time do.", r.Config.MaxConcurrency, p99)
	}
	return out
}

func (r *Result) failures() string {
	var parts []string
	for _, o := range slices.Sorted(maps.Keys(r.Summary.Outcomes)) {
		if o != metrics.OK {
			parts = append(parts, fmt.Sprintf("%s %d", o, r.Summary.Outcomes[o]))
		}
	}
	return strings.Join(parts, ", ")
}

func (r *Result) tokenDoubts() (out []string) {
	s := r.Summary
	for _, src := range slices.Sorted(maps.Keys(s.TokenSources)) {
		if n := s.TokenSources[src]; src != metrics.FromUsage {
			out = append(out, fmt.Sprintf("The server told no token usage for %d requests: counted from %s.", n, strings.ReplaceAll(string(src), "_", " ")))
		}
	}
	if n := s.Completed; n > 0 && len(s.TokenSources) == 0 {
		out = append(out, "Nobody counted output tokens.")
	}
	if n := s.Counters.UsageMismatch; n > 0 {
		out = append(out, fmt.Sprintf("The server's token usage disagrees with its own stream in %d requests; its usage was taken.", n))
	}
	if n := s.Counters.BadUsage; n > 0 {
		out = append(out, fmt.Sprintf("%d usage numbers were not counts and were ignored.", n))
	}
	return out
}

// lengthDoubts compares what was asked for with what the server counted.
func (r *Result) lengthDoubts() (out []string) {
	long, short, prompts := 0, 0, 0
	asked, told := 0, 0.0 // a server may tell any number
	ignoring := r.ignoreEOS()
	for i := range r.Records {
		rec, req := &r.Records[i], &r.Plan.Requests[i]
		if rec.Outcome != metrics.OK {
			continue
		}
		if req.OutputTokens > 0 && rec.TokenSource == metrics.FromUsage {
			long += one(rec.OutputTokens > req.OutputTokens)
			short += one(rec.OutputTokens < req.OutputTokens && ignoring)
		}
		want := req.PromptTokens + r.Plan.special
		if r.Plan.claimed != nil {
			want = r.Plan.claimed[i]
		}
		if want > 0 && rec.PromptTokens > 0 && rec.PromptTokens != want {
			prompts++
			asked, told = asked+want, told+float64(rec.PromptTokens)
		}
	}
	if long > 0 {
		out = append(out, fmt.Sprintf("%d completions are longer than asked for.", long))
	}
	if short > 0 {
		out = append(out, fmt.Sprintf("%d completions are shorter than asked for, though they were to ignore the end of the text.", short))
	}
	// A chat template adds tokens, which is no disagreement.
	if prompts > 0 && r.Simulated() && r.Plan.Tokenizer != nil {
		out = append(out, fmt.Sprintf("The simulator has a tokenizer of its own: it counts %.0f tokens where the prompts have %d.", told, asked))
	} else if prompts > 0 && r.Config.API() == "completions" {
		out = append(out, fmt.Sprintf("The server counts %d prompts otherwise than they were made: %.0f tokens for %d.", prompts, told, asked))
	}
	return out
}

// unknownInput tells that no prompt was counted before the run.
func (r *Result) unknownInput() bool {
	return len(r.Plan.Requests) > 0 && r.Plan.Requests[0].PromptTokens == 0
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
