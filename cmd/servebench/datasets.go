package main

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/servebench/servebench/dataset"
)

// dataset reads what to send. Only fields of the data set that is named are filled in.
func (r *reader) dataset() dataset.Spec {
	s := dataset.Spec{
		Name: r.text("dataset-name"), Path: r.text("dataset-path"),
		Prompts: r.whole("num-prompts"), Seed: int64(r.whole("seed")),
		TokenIDs: r.text("prompt-form") == "token-ids",
		Warmups:  r.whole("num-warmups"), WarmupFirst: r.text("warmup-prompts") == "first",
		DisableShuffle: r.on("disable-shuffle"), NoOversample: r.on("no-oversample"),
	}
	s.SkipTemplate = r.on("skip-chat-template") && slices.Contains(setsRendered, s.Name)
	r.lengths(&s)
	switch s.Name {
	case "random", "random-mm", "random-rerank":
		r.random(&s)
	case "prefix_repetition":
		s.PrefixLen, s.SuffixLen = r.whole("prefix-repetition-prefix-len"), r.whole("prefix-repetition-suffix-len")
		s.Prefixes = r.whole("prefix-repetition-num-prefixes")
	case "sonnet":
		s.PrefixLen = r.whole("sonnet-prefix-len")
	case "spec_bench":
		s.Category = r.text("spec-bench-category")
	case "speed_bench":
		s.Category, s.Subset = r.text("speed-bench-category"), r.text("speed-bench-dataset-subset")
	case "custom_image":
		s.Media.ClientSide = r.on("custom-ensure-client-side-data")
	case "timed_trace":
		s.Trace = dataset.Trace{
			BlockSize: r.whole("timed-trace-chunk-hash-size"), Multiplier: r.finite("timed-trace-sec-multiplier"),
			Timestamp: r.text("timed-trace-label-timestamp"), HashIDs: r.text("timed-trace-label-hash-ids"),
			InputLength: r.text("timed-trace-label-input-length"), OutputLength: r.text("timed-trace-label-output-length"),
		}
	case "hf":
		s.Subset = r.text("hf-subset")
		s.Hub = dataset.Hub{
			Split: r.text("hf-split"), Name: r.text("hf-name"), NoStream: r.on("no-stream"),
			PromptColumn: r.text("hf-prompt-column"), OutputColumn: r.text("hf-output-column"),
			MinDistance: r.finite("blazedit-min-distance"), MaxDistance: r.finite("blazedit-max-distance"),
		}
	}
	return s
}

// lengthFlags name the flag of each data set's lengths of prompts and answers; "" is
// that of none, whose rows have their own.
var lengthFlags = map[string][2]string{
	"random": {"random-input-len", "random-output-len"}, "random-mm": {"random-input-len", "random-output-len"},
	"random-rerank": {"random-input-len", ""}, "sonnet": {"sonnet-input-len", "sonnet-output-len"},
	"prefix_repetition": {"", "prefix-repetition-output-len"},
	"custom":            {"", "custom-output-len"}, "custom_image": {"", "custom-output-len"},
	"sharegpt": {"", "sharegpt-output-len"}, "hf": {"", "hf-output-len"},
	"spec_bench": {"", "spec-bench-output-len"}, "speed_bench": {"", "speed-bench-output-len"},
	"burstgpt": {}, "timed_trace": {},
}

// lengths reads those of prompts and answers. The general flags win over a data set's
// own, as in vLLM.
func (r *reader) lengths(s *dataset.Spec) {
	length := func(general, own string, none int) int {
		switch {
		case r.given(general) && slices.Contains(flagByName[general].Sets, s.Name):
			return r.whole(general)
		case own == "" || r.text(own) == "":
			return none
		}
		return r.whole(own)
	}
	flags := lengthFlags[s.Name]
	own := -1 // the row's own
	if s.Name == "random-rerank" {
		own = 0 // nothing is generated
	}
	s.InputLen, s.OutputLen = length("input-len", flags[0], 0), length("output-len", flags[1], own)
}

func (r *reader) random(s *dataset.Spec) {
	s.RangeRatio = r.ratio()
	if s.Name != "random-rerank" {
		s.PrefixLen = r.whole("random-prefix-len")
	}
	if s.Name != "random-mm" {
		s.BatchSize = r.whole("random-batch-size")
	}
	switch s.Name {
	case "random-rerank":
		s.NoReranker = r.on("no-reranker")
	case "random-mm":
		s.Media = dataset.Media{Items: r.whole("random-mm-base-items-per-request"), ItemsRatio: r.finite("random-mm-num-mm-items-range-ratio")}
		s.Media.Limit = r.counts("random-mm-limit-mm-per-prompt")
		var err error
		if s.Media.Buckets, err = dataset.ParseBuckets(r.text("random-mm-bucket-config")); err != nil {
			r.badf("random-mm-bucket-config", "%v", err)
		}
	}
}

// counts reads a JSON object of whole numbers.
func (r *reader) counts(flag string) (m map[string]int) {
	if err := json.Unmarshal([]byte(r.text(flag)), &m); err != nil {
		r.badf(flag, `%s; want whole numbers, such as {"image": 3, "video": 0}`, quoteWord(r.text(flag)))
	}
	return m
}

// ratio reads a number, or {"input": a, "output": b}.
func (r *reader) ratio() dataset.Ratio {
	s := r.text("random-range-ratio")
	if v, err := strconv.ParseFloat(s, 64); err == nil {
		return dataset.Ratio{Input: v, Output: v}
	}
	var m map[string]float64
	if err := json.Unmarshal([]byte(s), &m); err != nil || len(m) != 2 {
		r.badf("random-range-ratio", `%s; want a number from 0 to below 1, or {"input": 0.2, "output": 0.1}`, quoteWord(s))
		return dataset.Ratio{}
	}
	in, okIn := m["input"]
	out, okOut := m["output"]
	if !okIn || !okOut {
		r.badf("random-range-ratio", `want the keys "input" and "output"`)
	}
	return dataset.Ratio{Input: in, Output: out}
}
