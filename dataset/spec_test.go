package dataset_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/dataset"
)

func TestSpecSurvivesJSON(t *testing.T) {
	for _, s := range []dataset.Spec{
		{},
		{Name: "random", Path: "p", Prompts: 1, Seed: 1 << 31, InputLen: 2, OutputLen: 3, PrefixLen: 4,
			RangeRatio: dataset.Ratio{Input: .1, Output: .2}, DisableShuffle: true,
			NoOversample: true, TokenIDs: true, Warmups: 5, WarmupFirst: true},
	} {
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back dataset.Spec
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, back); diff != "" {
			t.Errorf("%s:\n%s", data, diff)
		}
	}
}

func TestValidateNamesEveryWrongField(t *testing.T) {
	good := dataset.Spec{Name: "random", Prompts: 1, InputLen: 1, OutputLen: 0}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	with := func(change func(*dataset.Spec)) dataset.Spec {
		s := good
		change(&s)
		return s
	}
	for _, c := range []struct {
		spec dataset.Spec
		want []string
	}{
		{dataset.Spec{}, []string{"dataset-name"}},
		{dataset.Spec{Name: "sonet", Seed: -1, Warmups: -1}, []string{"seed", "num-warmups", "dataset-name"}},
		{with(func(s *dataset.Spec) { s.Seed = 1 << 32 }), []string{"seed"}},
		{with(func(s *dataset.Spec) { s.Prompts = 0 }), []string{"num-prompts"}},
		{with(func(s *dataset.Spec) { s.InputLen, s.OutputLen, s.PrefixLen = -1, -1, -1 }),
			[]string{"random-input-len", "random-output-len", "random-prefix-len"}},
		{with(func(s *dataset.Spec) { s.InputLen = math.MaxInt }), []string{"random-input-len"}},
		{with(func(s *dataset.Spec) { s.InputLen = 0 }), []string{"random-input-len"}},
		{with(func(s *dataset.Spec) { s.RangeRatio.Input = .1 }), []string{"random-input-len"}}, // floor(0.9) is 0
		{with(func(s *dataset.Spec) { s.RangeRatio = dataset.Ratio{Input: 1, Output: math.NaN()} }),
			[]string{"random-range-ratio", "random-range-ratio"}},
		{with(func(s *dataset.Spec) { s.RangeRatio.Input = -.1 }), []string{"random-range-ratio"}},
		{with(func(s *dataset.Spec) { s.Prompts, s.InputLen = 1<<20, 1<<20 }), []string{"num-prompts"}},
		{with(func(s *dataset.Spec) { s.Path = "x.jsonl" }), []string{"dataset-path"}},
		{dataset.Spec{Name: "sharegpt"}, []string{"num-prompts", "sharegpt-output-len", "dataset-path"}},
		{dataset.Spec{Name: "burstgpt"}, []string{"num-prompts", "dataset-path"}},
		{dataset.Spec{Name: "spec_bench", Prompts: 1 << 30, OutputLen: -1}, []string{"num-prompts", "spec-bench-output-len", "dataset-path"}},
		{dataset.Spec{Name: "speed_bench", Prompts: -1, Subset: "../x"},
			[]string{"speed-bench-output-len", "dataset-path", "speed-bench-dataset-subset"}},
		{dataset.Spec{Name: "sonnet", PrefixLen: -1}, []string{"num-prompts", "sonnet-input-len", "sonnet-output-len", "sonnet-prefix-len"}},
		{dataset.Spec{Name: "sonnet", Prompts: 1, InputLen: 5, OutputLen: 1, PrefixLen: 6}, []string{"sonnet-prefix-len"}},
		{dataset.Spec{Name: "custom", Prompts: 1 << 30}, []string{"num-prompts", "custom-output-len", "dataset-path"}},
		{dataset.Spec{Name: "custom", Path: "x.json", OutputLen: -2}, []string{"custom-output-len", "dataset-path"}},
	} {
		err := c.spec.Validate()
		if err == nil {
			t.Errorf("%+v: no error, want %v", c.spec, c.want)
			continue
		}
		var names []string
		for line := range strings.SplitSeq(err.Error(), "\n") {
			name, _, _ := strings.Cut(line, ":")
			names = append(names, name)
			if !strings.Contains(line, "; want ") {
				t.Errorf("%q does not say what would be right", line)
			}
		}
		if diff := cmp.Diff(c.want, names); diff != "" {
			t.Errorf("%+v: %v\n%s", c.spec, err, diff)
		}
	}
}
