package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/servebench/servebench/manifest"
)

// requests of the checks that count.
const requests = 64

// counts runs servebench in each form of request: no failure, the server's own
// token counters, and files that agree with each other.
func (s *suite) counts(ctx context.Context, srv *server) error {
	for _, form := range []struct {
		name string
		args []string
	}{
		{"completions, text", nil},
		{"completions, token ids", []string{"--prompt-form", "token-ids"}},
		{"chat", []string{"--backend", "openai-chat"}},
		{"completions, 40 requests a second", []string{"--request-rate", "40", "--max-concurrency", "16"}},
		{"chat, 40 requests a second, no cap", []string{"--backend", "openai-chat", "--request-rate", "40"}},
	} {
		args := append([]string{
			"--base-url", srv.url, "--model", modelName, "--tokenizer", s.tokenizer(), "--num-prompts", fmt.Sprint(requests),
			"--random-input-len", "64", "--random-output-len", "32", "--temperature", "0", "--disable-tqdm",
		}, s.save("counts")...)
		if !slices.Contains(form.args, "--request-rate") {
			args = append(args, "--max-concurrency", "8")
		}
		problems, err := s.counted(ctx, srv, append(args, form.args...))
		if err != nil {
			return err
		}
		s.check("counts: "+srv.kind+", "+form.name, problems...)
	}
	return nil
}

// outcome is what a result file says of how it went.
type outcome struct {
	Completed    int
	Failed       int
	InputTokens  int64 `json:"total_input_tokens"`
	OutputTokens int64 `json:"total_output_tokens"`
	Servebench   struct {
		Counters map[string]int64
		Warnings []string
	}
}

// counted runs one benchmark of the 64 requests and returns what is wrong with it.
func (s *suite) counted(ctx context.Context, srv *server, args []string) (problems []string, err error) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for _, name := range []string{"counts.json", "counts.manifest.json", "counts.requests.jsonl", "counts.hdr"} {
		_ = os.Remove(s.path(name))
	}
	before, err := srv.totals(ctx)
	if err != nil {
		return nil, err
	}
	e, err := s.bench(ctx, ours, args...)
	if err != nil {
		return nil, err
	}
	if e.code != 0 {
		bad("exit %d: %s", e.code, e.tail())
		return problems, nil
	}
	var o outcome
	if err := readJSON(s.path("counts.json"), &o); err != nil {
		return []string{err.Error()}, nil
	}
	if o.Completed != requests || o.Failed != 0 {
		bad("%d completed and %d failed, want %d and 0", o.Completed, o.Failed, requests)
	}
	if n := o.Servebench.Counters["usage_mismatch"]; n != 0 {
		bad("usage_mismatch is %d", n)
	}
	if o.OutputTokens != requests*32 {
		bad("%d output tokens, want %d", o.OutputTokens, requests*32)
	}
	told := totals{o.InputTokens, o.OutputTokens}
	if took, err := srv.settled(ctx, before, told); err != nil {
		return nil, err
	} else if took != told {
		bad("the result has %d prompt and %d output tokens, the server counted %d and %d", told.prompt, told.generation, took.prompt, took.generation)
	}
	problems = append(problems, recorded(s.path("counts.requests.jsonl"), requests, told)...)
	return append(problems, verified(s.dir, s.path("counts.manifest.json"))...), nil
}

func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// record is what is read of a line of the request records.
type record struct {
	Seq          int
	Outcome      string
	Error        string
	TokenSource  string  `json:"token_source"`
	PromptTokens int64   `json:"prompt_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	Arrivals     []int64 `json:"arrivals_ns"`
	Sent         int64   `json:"sent_ns"`
}

func readRecords(path string) (records []record, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, len(records)+1, err)
		}
		records = append(records, r)
	}
	return records, lines.Err()
}

// recorded checks the records against the totals.
func recorded(path string, n int, told totals) (problems []string) {
	records, err := readRecords(path)
	if err != nil {
		return []string{err.Error()}
	}
	var sum totals
	for _, r := range records {
		sum.prompt += r.PromptTokens
		sum.generation += r.OutputTokens
		if r.Outcome != "ok" || r.TokenSource != "usage" {
			problems = append(problems, fmt.Sprintf("record %d: outcome %s, token_source %s, error %q", r.Seq, r.Outcome, r.TokenSource, r.Error))
		}
	}
	if len(records) != n || sum != told {
		problems = append(problems, fmt.Sprintf("%d records with %d prompt and %d output tokens, want %d with %d and %d",
			len(records), sum.prompt, sum.generation, n, told.prompt, told.generation))
	}
	return problems
}

// verified checks a manifest against the schema, itself, and its artifacts in
// dir. Warnings are for readers of a manifest, not for us; a missing artifact is.
func verified(dir, path string) (problems []string) {
	data, err := os.ReadFile(path)
	if err != nil {
		return []string{err.Error()}
	}
	if _, err := manifest.Validate(data); err != nil {
		problems = append(problems, "the manifest does not validate: "+err.Error())
	}
	for _, f := range manifest.Verify(data, os.DirFS(dir)) {
		if f.Severity == manifest.Fail || f.Rule == "sha256" {
			problems = append(problems, "the manifest: "+f.String())
		}
	}
	return problems
}
