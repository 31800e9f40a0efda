package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/servebench/servebench/dataset/nprand"
	"github.com/servebench/servebench/loadgen"
)

const idPrefix = "e2e-"

// prompts runs both clients through a recorder: for the same words they send the
// same bodies, prompts byte for byte.
func (s *suite) prompts(ctx context.Context, srv *server) error {
	rows := s.path("rows.jsonl")
	if err := os.WriteFile(rows, customRows(), 0o666); err != nil {
		return err
	}
	r, err := newRecorder(srv.url, idPrefix)
	if err != nil {
		return err
	}
	defer r.Close()
	random := func(more ...string) []string {
		return append([]string{"--random-input-len", "64", "--random-output-len", "4"}, more...)
	}
	custom := func(more ...string) []string {
		return append([]string{"--dataset-name", "custom", "--dataset-path", rows, "--skip-chat-template", "--ignore-eos"}, more...)
	}
	for _, c := range []struct {
		name string
		n    int
		args []string
	}{
		{"random", 64, random()},
		{"random, seed 42", 64, random("--seed", "42", "--temperature", "0", "--repetition-penalty", "1.1")},
		{"random, range ratio 0.3", 64, random("--random-range-ratio", "0.3")},
		{"random, prefix 16", 64, random("--random-prefix-len", "16")},
		{"random, seed 42, prefix 16, range ratio 0.3", 96, random("--seed", "42", "--random-prefix-len", "16", "--random-range-ratio", "0.3", "--logprobs", "1")},
		{"random, 1024 tokens", 24, []string{"--random-input-len", "1024", "--random-output-len", "2", "--seed", "7"}},
		{"random, chat", 32, random("--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--extra-body", `{"seed":5}`)},
		{"custom, shuffled, 4 tokens", 24, custom("--custom-output-len", "4")},
		{"custom, in order, lengths of the rows", 36, custom("--custom-output-len", "-1", "--disable-shuffle")},
		{"custom, oversampled, seed 42", 60, custom("--custom-output-len", "-1", "--seed", "42")},
	} {
		problems, err := s.sameBodies(ctx, r, c.n, append(c.args, "--num-prompts", fmt.Sprint(c.n), "--max-concurrency", "8"))
		if err != nil {
			return err
		}
		s.check("prompts: "+c.name, problems...)
	}
	return s.arrivals(ctx, r, random("--num-prompts", "60", "--request-rate", "20"), 60)
}

// through runs a client through the recorder and returns what it sent.
func (s *suite) through(ctx context.Context, r *recorder, who client, n int, args []string) ([]seen, error) {
	e, err := s.bench(ctx, who, append([]string{
		"--base-url", r.URL, "--model", modelName, "--tokenizer", s.tokenizer(), "--request-id-prefix", idPrefix, "--disable-tqdm",
	}, args...)...)
	if err != nil {
		return nil, err
	}
	if e.code != 0 {
		return nil, fmt.Errorf("%s: exit %d: %s", who, e.code, e.tail())
	}
	sent, err := r.take(n)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", who, err)
	}
	return sent, nil
}

// sameBodies compares what the two send.
func (s *suite) sameBodies(ctx context.Context, r *recorder, n int, args []string) (problems []string, err error) {
	var sent [2][]seen
	for i, who := range []client{ours, theirs} {
		sent[i], err = s.through(ctx, r, who, n, args)
		if ctx.Err() != nil {
			return nil, err
		}
		if err != nil {
			return []string{err.Error()}, nil
		}
	}
	for i := range n {
		a, b := sent[0][i], sent[1][i]
		if a.path != b.path {
			problems = append(problems, fmt.Sprintf("request %d: %s and %s", i, a.path, b.path))
		}
		d, err := differences(a.body, b.body)
		if err != nil {
			d = []string{err.Error()}
		}
		for _, line := range d {
			problems = append(problems, fmt.Sprintf("request %d, servebench's and vLLM's %s", i, line))
		}
	}
	return problems, nil
}

// arrivals tells, for information, how far behind the schedule of seed 0
// requests came in.
func (s *suite) arrivals(ctx context.Context, r *recorder, args []string, n int) error {
	due, err := loadgen.Offsets(n, 20, 1, nprand.NewLegacy(0))
	if err != nil {
		return err
	}
	for _, who := range []client{ours, theirs} {
		sent, err := s.through(ctx, r, who, n, args)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			s.infof("arrivals: %v", err)
			continue
		}
		// Schedule zero is not known here: what counts is how much later than the
		// most punctual request each one came.
		late := make([]float64, n)
		for i := range sent {
			late[i] = (sent[i].at.Sub(sent[0].at) - due[i]).Seconds() * 1000
		}
		least := slices.Min(late)
		for i := range late {
			late[i] -= least
		}
		slices.Sort(late)
		s.infof("arrivals at 20/s, %-10s behind the schedule of seed 0 (ms, from the most punctual): median %.2f, p90 %.2f, max %.2f",
			string(who)+":", late[n/2], late[n*9/10], late[n-1])
		s.doc.Arrivals = append(s.doc.Arrivals, arrival{who, late[n/2], late[n*9/10], late[n-1]})
	}
	return nil
}

// arrival is one client's lateness in milliseconds.
type arrival struct {
	Client           client
	Median, P90, Max float64
}

// customRows is a JSONL file of 36 prompts in many scripts, with what JSON has to
// escape, each with its output_tokens.
func customRows() []byte {
	texts := []string{
		"Write a haiku about rivers.", "Erzähle von Grüßen aus Köln, ß inklusive.", "解释一下量子纠缠。", "東京の天気を教えてください。",
		"Напиши рассказ о море.", "اكتب قصيدة عن الصحراء", "लिखो एक कविता", "What is 🦜🏔 about? 👩‍👩‍👧‍👦", "tab\tand \"quotes\" and \\ and /",
		"line one\nline two\n\nline four", "  leading and trailing  ", "control \u0001 and \u007f and nbsp\u00a0end", "zero\u200bwidth and e\u0301 combining",
		"<|im_start|>user\nspecial tokens<|im_end|>", "<html>&amp; \u2028 \u2029 separators</html>", "17 plus 25 is", "x", "def f(x):\n    return x ** 2  # squared",
	}
	var b strings.Builder
	for i := range 2 * len(texts) {
		prompt := texts[i%len(texts)]
		if i >= len(texts) {
			prompt = fmt.Sprintf("%s (%d) %s", prompt, i, strings.Repeat("again ", i%5))
		}
		line, err := json.Marshal(map[string]any{"prompt": prompt, "output_tokens": 2 + i%7, "note": i})
		if err != nil {
			panic(err) // strings and ints only
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// keysOf are the keys of both maps, each once, sorted.
func keysOf[V any](a, b map[string]V) []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(all)
	return slices.Compact(all)
}
