package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// keys compares the two result files of the same words: keys, order, types, and
// the values that no run can change. What servebench writes in detail then goes
// through vLLM's own formulas, which must give what servebench says.
func (s *suite) keys(ctx context.Context, srv *server) error {
	common := []string{
		"--base-url", srv.url, "--model", modelName, "--tokenizer", s.tokenizer(), "--disable-tqdm",
		"--random-input-len", "64", "--random-output-len", "32", "--num-prompts", "48", "--temperature", "0",
	}
	// The bounds of goodput are about the medians, so that some hold and some not.
	detailed := []string{
		"--save-detailed", "--max-concurrency", "8", "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,95,99,99.9",
		"--goodput", "ttft:18", "e2el:160", "--metadata", "campaign=e2e", "empty=", "equals=a=b", "--label", "side by side",
	}
	queued := []string{
		"--save-detailed", "--request-rate", "40", "--burstiness", "2", "--max-concurrency", "4", "--metric-percentiles", "99",
		"--percentile-metrics", "itl,client_queue_time,e2el_including_client_queue,ttft",
	}
	ramped := []string{"--ramp-up-strategy", "linear", "--ramp-up-start-rps", "10", "--ramp-up-end-rps", "60"}
	probed := []string{"--probe-request-rate", "10", "--max-concurrency", "4"}
	chat := append([]string{"--backend", "openai-chat", "--endpoint", "/v1/chat/completions"}, detailed...)
	var formulas []string
	for _, c := range []struct {
		name  string
		args  []string
		plain bool // only there
		again bool // through the formulas
	}{
		{"default", nil, true, false},
		{"detailed", detailed, false, true},
		{"queued", queued, true, false},
		{"ramp-up", ramped, true, false},
		{"probes", probed, true, false},
		{"chat", chat, true, true},
	} {
		if c.plain && srv.kind != "plain" {
			continue
		}
		name := "keys-" + srv.kind + "-" + c.name
		problems, err := s.sameShape(ctx, name, common, c.args)
		if err != nil {
			return err
		}
		s.check("keys: "+srv.kind+", "+c.name, problems...)
		if c.again {
			formulas = append(formulas, name+"-servebench")
		}
	}
	return s.formulas(ctx, srv, formulas)
}

// sameShape runs both clients and compares their results' shapes.
func (s *suite) sameShape(ctx context.Context, name string, common, more []string) (problems []string, err error) {
	var results [2]result
	for i, who := range []client{ours, theirs} {
		file := name + "-" + string(who)
		_ = os.Remove(s.path(file + ".json"))
		e, err := s.bench(ctx, who, slices.Concat(common, more, s.save(file))...)
		if err != nil {
			return nil, err
		}
		if e.code != 0 {
			return []string{fmt.Sprintf("%s: exit %d: %s", who, e.code, e.tail())}, nil
		}
		data, err := os.ReadFile(s.path(file + ".json"))
		if err == nil {
			results[i], err = parseResult(data)
		}
		if err != nil {
			return []string{fmt.Sprintf("%s: %v", who, err)}, nil
		}
	}
	return append(shapes(results[0], results[1]), s.parity.add(strings.TrimPrefix(name, "keys-"), more, results[0], results[1])...), nil
}

// result is a result file: its keys in order, their values.
type result struct {
	keys   []string
	values map[string]any // numbers as json.Number
}

func parseResult(data []byte) (result, error) {
	r := result{values: make(map[string]any)}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if _, err := dec.Token(); err != nil {
		return r, err
	}
	for dec.More() {
		k, err := dec.Token()
		if err != nil {
			return r, err
		}
		var v any
		if err := dec.Decode(&v); err != nil {
			return r, err
		}
		r.keys = append(r.keys, k.(string))
		r.values[k.(string)] = v
	}
	return r, nil
}

// own are the keys of servebench that vLLM does not have; they come last.
var own = []string{"simulated", "outcome", "failure", "servebench"}

// given are the keys whose values follow from the words alone.
var given = []string{
	"endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts", "campaign", "empty", "equals",
	"request_rate", "burstiness", "max_concurrency", "ramp_up_strategy", "ramp_up_start_rps", "ramp_up_end_rps", "completed", "failed", "total_output_tokens", "rtfx",
}

// shapes compares a result of servebench with one of vLLM.
func shapes(us, them result) (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	without := slices.DeleteFunc(slices.Clone(us.keys), func(k string) bool { return slices.Contains(own, k) })
	var missing, extra []string
	for _, k := range them.keys {
		if !slices.Contains(us.keys, k) {
			missing = append(missing, k)
		}
	}
	for _, k := range without {
		if !slices.Contains(them.keys, k) {
			extra = append(extra, k)
		}
	}
	switch {
	case missing != nil || extra != nil:
		bad("keys only vLLM has: %s; only servebench has: %s", list(missing), list(extra))
	case !slices.Equal(without, them.keys):
		bad("the order is\n%s\nvLLM's is\n%s", strings.Join(without, " "), strings.Join(them.keys, " "))
	case !slices.Equal(us.keys[:len(without)], without):
		bad("servebench's own keys are not the last: %s", strings.Join(us.keys, " "))
	}
	for _, k := range them.keys {
		v, ok := us.values[k]
		if a, b := typeOf(v), typeOf(them.values[k]); ok && a != b {
			bad("%s is %s, vLLM's is %s", k, a, b)
		}
		if w := them.values[k]; ok && slices.Contains(given, k) && fmt.Sprint(v) != fmt.Sprint(w) {
			bad("%s is %v, vLLM's is %v", k, v, w)
		}
	}
	return problems
}

func list(words []string) string {
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, " ")
}

// typeOf is the type that Python's json gives a value: "list of float". An empty
// list among others that are not (a request of one chunk has no gap) says nothing.
func typeOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case string:
		return "str"
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return "float"
		}
		return "int"
	case []any:
		var of []string
		for _, e := range v {
			of = append(of, typeOf(e))
		}
		slices.Sort(of)
		of = slices.Compact(of)
		if len(of) > 1 {
			of = slices.DeleteFunc(of, func(t string) bool { return t == "list of " })
		}
		return "list of " + strings.Join(of, " and ")
	}
	return "object"
}

// formulas puts detailed results through bench/e2e/formulas.py.
func (s *suite) formulas(ctx context.Context, srv *server, names []string) error {
	args := []string{filepath.Join(s.scripts, "formulas.py"), `{"ttft":18,"e2el":160}`}
	for _, n := range names {
		args = append(args, s.path(n+".json"))
	}
	c := command(ctx, filepath.Join(s.base, "venv/bin/python"), args...)
	c.Env = append(os.Environ(), "VLLM_TARGET_DEVICE=cpu", "HF_HUB_OFFLINE=1", "VLLM_NO_USAGE_STATS=1")
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var again []map[string]float64
	if err == nil {
		err = json.Unmarshal(out, &again)
	}
	if err != nil {
		e := ended{stderr: errs.String()}
		s.check("formulas: "+srv.kind, fmt.Sprintf("%v: %s", err, e.tail()))
		return nil
	}
	for i, n := range names {
		var r map[string]any
		if err := readJSON(s.path(n+".json"), &r); err != nil {
			return err
		}
		s.check(fmt.Sprintf("formulas: %s, %d numbers of %s", srv.kind, len(again[i]), n), apart(r, again[i])...)
	}
	return nil
}

// apart lists the numbers of a result that are not those recomputed. Sums of
// floats in another order differ in the last places.
func apart(r map[string]any, again map[string]float64) (problems []string) {
	for _, k := range keysOf(again, nil) {
		v, ok := r[k].(float64)
		if w := again[k]; !ok || math.Abs(v-w) > 1e-9*max(1, math.Abs(v), math.Abs(w)) {
			problems = append(problems, fmt.Sprintf("%s is %v, vLLM's formula gives %v", k, r[k], w))
		}
	}
	return problems
}
