package manifest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Served is the runtime that the commands say which started a server, a line for
// each replica; empty lines and those that begin with # are none. What is not known
// from them, such as the engine's version, is left out. The commands are redacted.
// The error is of a text without a command of `vllm serve`.
func (r *Redactor) Served(text string) (Runtime, error) {
	var lines []string
	for line := range strings.SplitSeq(strings.ReplaceAll(text, "\\\n", " "), "\n") {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	engines := engineCommands(strings.Join(lines, "\n"))
	if len(engines) == 0 {
		return Runtime{}, fmt.Errorf("no line starts a server; want a command such as vllm serve MODEL")
	}
	rt := Runtime{Engine: "vllm", SafeEnvironment: map[string]string{}}
	var devices []string
	for _, c := range engines {
		if d := c.env["CUDA_VISIBLE_DEVICES"]; d != "" {
			devices = append(devices, d)
		}
	}
	if len(devices) > 0 {
		rt.SafeEnvironment["CUDA_VISIBLE_DEVICES"] = strings.Join(devices, ",")
	}
	first := engines[0]
	if p := launchedParameters(first); len(p) > 0 {
		rt.Parameters = &Parameters{Server: p}
	}
	degree := func(flag string) int {
		n, ok := first.number(flag)
		if !ok || n < 1 || n > 1<<20 {
			return 1
		}
		return int(n)
	}
	rt.Parallelism = &Parallelism{Data: degree("data-parallel-size"), Tensor: degree("tensor-parallel-size"), Pipeline: degree("pipeline-parallel-size"), Replicas: len(engines)}
	rt.LaunchCommand, _ = r.script(strings.Join(lines, "\n"))
	return rt, nil
}

// launchedParameters are the engine's arguments that the schema knows, typed.
func launchedParameters(c command) map[string]any {
	parameters := map[string]any{}
	keys := []string{"dtype", "max_num_seqs", "max_model_len", "max_num_batched_tokens", "kv_cache_dtype", "gpu_memory_utilization", "async_scheduling",
		"enforce_eager", "moe_backend", "attention_backend", "speculative_config"}
	for key := range launchFlags {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		flag, ok := launchFlags[key]
		if !ok {
			flag = strings.ReplaceAll(key, "_", "-")
		}
		word, ok := launched(c, flag)
		if !ok {
			continue
		}
		var object map[string]any
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			parameters[key] = n
		} else if f, err := strconv.ParseFloat(word, 64); err == nil && isNumber(word) {
			parameters[key] = f
		} else if word == "true" || word == "false" {
			parameters[key] = word == "true"
		} else if json.Unmarshal([]byte(word), &object) == nil {
			parameters[key] = object
		} else {
			parameters[key] = word
		}
	}
	return parameters
}
