package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// subsets are the files of SPEED-Bench, each under its name and .jsonl.
var subsets = []string{"qualitative", "throughput_1k", "throughput_2k", "throughput_8k", "throughput_16k", "throughput_32k"}

func (s Spec) validateSpecBench(bad *problems) {
	bad.rows(s)
	bad.whole("spec-bench-output-len", int64(s.OutputLen), 1, maxLen)
	if s.Path == "" {
		bad.addf("dataset-path: missing; want Spec-Bench's question.jsonl")
	}
}

func (s Spec) validateSpeedBench(bad *problems) {
	bad.rows(s)
	bad.whole("speed-bench-output-len", int64(s.OutputLen), 1, maxLen)
	if s.Path == "" {
		bad.addf("dataset-path: missing; want the folder with SPEED-Bench's .jsonl files")
	}
	if !slices.Contains(subsets, s.Subset) {
		bad.addf("speed-bench-dataset-subset: %q is unknown; want one of %s", s.Subset, strings.Join(subsets, ", "))
	}
}

// loadSpecBench is vLLM's SpecBench: the first turn of each question. vLLM gives
// it neither --seed nor --skip-chat-template: the order is always that of seed 0,
// the template always rendered.
func loadSpecBench(ctx context.Context, s Spec, t Tools) (*Set, error) {
	set := &Set{Generator: "spec-bench-jsonl"}
	if s.SkipTemplate && !s.Chat {
		set.warnf("skip-chat-template does not hold for spec_bench, as in vllm bench serve: the chat template is rendered")
	}
	s.SkipTemplate, s.Seed = false, 0
	return s.loadBench(ctx, t, set, firstTurn)
}

func firstTurn(object map[string]json.RawMessage) (string, error) {
	turns, err := listUnder(object, "turns")
	if err != nil {
		return "", err
	}
	if len(turns) == 0 {
		return "", errors.New("turns is empty; want a prompt in it")
	}
	return parseText(turns[0], "turns[0]")
}

// loadSpeedBench is vLLM's SpeedBench: the first message of each row. vLLM does
// not give it --seed: the order is always that of seed 0.
func loadSpeedBench(ctx context.Context, s Spec, t Tools) (*Set, error) {
	if info, err := os.Stat(s.Path); err != nil {
		return nil, fmt.Errorf("dataset-path: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("%s: is no folder; want the folder with SPEED-Bench's %s.jsonl, as its prepare.py writes it", s.Path, s.Subset)
	}
	s.Path, s.Seed = filepath.Join(s.Path, s.Subset+".jsonl"), 0
	return s.loadBench(ctx, t, &Set{Generator: "speed-bench-jsonl"}, firstMessage)
}

func firstMessage(object map[string]json.RawMessage) (string, error) {
	messages, err := listUnder(object, "messages")
	if err != nil {
		return "", err
	}
	if len(messages) == 0 {
		return "", errors.New("messages is empty; want one in it")
	}
	return textIn(messages[0], "messages[0]", "content")
}

// loadBench samples the rows of one category, or of all.
func (s Spec) loadBench(ctx context.Context, t Tools, set *Set, prompt func(map[string]json.RawMessage) (string, error)) (*Set, error) {
	p, err := newPrompter(s, t, false)
	if err != nil {
		return nil, err
	}
	rows, err := s.benchRows(ctx, prompt)
	if err != nil {
		return nil, err
	}
	return p.sample(ctx, rows, set)
}

func (s Spec) benchRows(ctx context.Context, prompt func(map[string]json.RawMessage) (string, error)) (rows []row, err error) {
	others := map[string]bool{}
	err = jsonLines(ctx, s.Path, func(line int, object map[string]json.RawMessage) error {
		if s.Category != "" {
			category, err := textUnder(object, "category")
			if err != nil {
				return err
			}
			if category != s.Category {
				others[category] = true
				return nil
			}
		}
		text, err := prompt(object)
		if err == nil && text == "" {
			err = errors.New("the prompt is empty; want some text")
		}
		rows = append(rows, row{prompt: text, output: s.OutputLen, line: line})
		return err
	})
	switch {
	case err != nil || len(rows) > 0:
		return rows, err
	case len(others) > 0:
		return nil, fmt.Errorf("%s: no row%s; want one of %s", s.Path, s.ofCategory(),
			strings.Join(slices.Sorted(maps.Keys(others)), ", "))
	}
	return nil, noRows(s.Path)
}
