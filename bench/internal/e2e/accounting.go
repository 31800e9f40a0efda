package main

import (
	"context"
	"fmt"
)

// told is what a result says of the tokens of events.
type told struct {
	Completed    int
	OutputTokens int64 `json:"total_output_tokens"`
	Servebench   struct {
		Accounting struct{ Asked, Used, Why string } `json:"token_accounting"`
		Chunks     *struct {
			Requests int
			Tokens   int64
			Mean     float64
			Single   float64 `json:"single_share"`
			First    float64 `json:"first_mean"`
		} `json:"tokens_per_chunk"`
		PerToken *struct {
			N    int64
			Mean float64
		} `json:"itl_per_token_ms"`
		Counters map[string]int64
		Warnings []string
	}
}

// accounting asks a server that guesses ahead for the tokens of its events in each
// way, by both APIs: they must add up to its own count, request for request.
func (s *suite) accounting(ctx context.Context, srv *server) error {
	for _, backend := range []string{"vllm", "openai-chat"} {
		for _, form := range []struct{ asked, used string }{{"chunks", "chunks"}, {"ids", "ids"}, {"usage", "usage"}, {"auto", "usage"}} {
			args := append([]string{
				"--base-url", srv.url, "--model", modelName, "--tokenizer", s.tokenizer(), "--backend", backend, "--num-prompts", "16", "--max-concurrency", "4",
				"--random-input-len", "32", "--random-output-len", "48", "--temperature", "0", "--ignore-eos", "--disable-tqdm", "--token-accounting", form.asked,
			}, s.save("accounting")...)
			e, err := s.bench(ctx, ours, args...)
			if err != nil {
				return err
			}
			var problems []string
			if e.code != 0 {
				problems = append(problems, fmt.Sprintf("exit %d: %s", e.code, e.tail()))
			} else {
				problems = s.toldTokens(form.used)
			}
			s.check(fmt.Sprintf("accounting: %s, %s", backend, form.asked), problems...)
		}
	}
	return nil
}

func (s *suite) toldTokens(used string) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	var t told
	if err := readJSON(s.path("accounting.json"), &t); err != nil {
		return []string{err.Error()}
	}
	a, k, gaps := t.Servebench.Accounting, t.Servebench.Chunks, t.Servebench.PerToken
	if a.Used != used {
		bad("%s was used, as %s; want %s", a.Used, a.Why, used)
	}
	if n := t.Servebench.Counters["usage_mismatch"]; n != 0 {
		bad("usage_mismatch is %d", n)
	}
	switch {
	case used == "chunks":
		if k != nil || gaps != nil {
			bad("tokens of events are told though nobody asked")
		}
		return problems
	case k == nil || gaps == nil:
		bad("no tokens of events: %q", t.Servebench.Warnings)
		return problems
	}
	first := int64(k.First*float64(k.Requests) + 0.5)
	if k.Requests != t.Completed || k.Tokens != t.OutputTokens || gaps.N != k.Tokens-first {
		bad("%d of %d requests told %d of %d tokens, %d of them after the first chunks, which had %d", k.Requests, t.Completed, k.Tokens, t.OutputTokens, gaps.N, first)
	}
	s.infof("%s: %.3f tokens per chunk, %.1f %% of one, ITL per token %.3f ms (%s)", used, k.Mean, 100*k.Single, gaps.Mean, a.Why)
	return append(problems, verified(s.dir, s.path("accounting.manifest.json"))...)
}
