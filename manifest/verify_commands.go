package manifest

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

const (
	launchPath = "/runtime/launch_command"
	benchPath  = "/measurement/benchmark_command"
	serverPath = "/runtime/parameters/server"
)

// commands checks the two command lines against the facts that the document
// states elsewhere: C1 to C4, C8, C9, C13, C17. What a command does not say is
// no contradiction: it may be a default or have been set by hand.
func (v *verifier) commands() {
	if !v.simulated {
		for _, c := range v.launch {
			v.launchParameters(c)
			v.launchSubject(c)
		}
		v.tokenizer()
	}
	v.devices()
	v.benchLoad()
	v.benchLengths()
	v.benchSampling()
	v.benchRate()
	v.metadata()
	v.resultFile()
	if v.launchedSpeculative() && v.server["speculative_config"] == nil {
		v.warn("C17", serverPath, "the launch command has --speculative-config, the parameters have none")
	}
}

// launchParameters checks C1: a parameter and its flag say the same, as far as
// the command does not leave the value to the engine. What the engine itself was
// heard to say goes before its command.
func (v *verifier) launchParameters(c command) {
	heard, _ := v.run.Runtime.Extensions[EngineParameters].(map[string]any)
	for key, value := range sorted(v.server) {
		flag := launchFlag(key)
		given, known := launched(c, flag)
		typed := typedValues(flag, c.flags[flag])
		if !known || leftToEngine(typed) || sameValue(value, given) || sameParameter(value, typed) {
			continue
		}
		f := v.fail
		if said, ok := heard[key]; ok && reflect.DeepEqual(said, value) {
			f = v.warn
		}
		f("C1", serverPath+"/"+key, "%v, but the launch command has --%s %s", value, flag, given)
	}
}

// sameParameter compares a JSON value with a typed one of a command line.
func sameParameter(value, typed any) bool {
	n, isNumber := value.(float64)
	if m, ok := floatOf(typed); ok {
		return isNumber && n == m
	}
	text, err := json.Marshal(typed)
	var again any
	return err == nil && json.Unmarshal(text, &again) == nil && reflect.DeepEqual(value, again)
}

// launched is what a command says about a flag: true or false for a switch.
func launched(c command, flag string) (string, bool) {
	if c.has("no-" + flag) {
		return "false", true
	}
	if c.has(flag) && len(c.flags[flag]) == 0 {
		return "true", true
	}
	return c.value(flag)
}

// sameValue compares a JSON value with a word of a command line: numbers by
// value, so that 0.90 is 0.9 in either form, objects as JSON.
func sameValue(value any, word string) bool {
	n, err := strconv.ParseFloat(word, 64)
	switch value := value.(type) {
	case bool:
		return strings.EqualFold(word, strconv.FormatBool(value))
	case float64:
		return err == nil && n == value
	case string:
		m, notNumber := strconv.ParseFloat(value, 64)
		return value == word || err == nil && notNumber == nil && n == m
	default:
		var given any
		return json.Unmarshal([]byte(word), &given) == nil && reflect.DeepEqual(value, given)
	}
}

// launchSubject checks C2: the model that was started is the subject.
func (v *verifier) launchSubject(c command) {
	s := v.run.Subject
	model, known := c.value("model")
	if i := slices.Index(c.words, "serve"); i+1 < len(c.words) && i >= 0 {
		model, known = c.words[i+1], !strings.HasPrefix(c.words[i+1], "<")
	}
	if known && model != s.Identifier {
		v.fail("C2", "/subject/identifier", "%s, but the launch command serves %s", s.Identifier, model)
	}
	if names := c.flags["served-model-name"]; len(names) > 0 && !slices.Contains(names, s.Identifier) {
		const format = "%s, but the launch command has --served-model-name %s"
		if known || s.RevisionKind != "undeclared" {
			v.fail("C2", "/subject/identifier", format, s.Identifier, strings.Join(names, " "))
		} else { // a folder, and a name for it
			v.warn("C2", "/subject/identifier", format, s.Identifier, strings.Join(names, " "))
		}
	}
	if revision, ok := c.value("revision"); ok && s.Revision != "" && revision != s.Revision {
		v.fail("C2", "/subject/revision", "%s, but the launch command has --revision %s", s.Revision, revision)
	}
}

// tokenizer checks the rest of C2. Another tokenizer than the subject's may be
// meant, so it is only a warning.
func (v *verifier) tokenizer() {
	t, s := v.run.Workload.Tokenizer, v.run.Subject
	switch {
	case t == nil:
	case t.Identifier != s.Identifier:
		v.warn("C2", "/workload/tokenizer/identifier", "%s is not the subject's (%s)", t.Identifier, s.Identifier)
	case t.Revision != "" && s.Revision != "" && t.Revision != s.Revision:
		v.warn("C2", "/workload/tokenizer/revision", "%s is not the subject's (%s)", t.Revision, s.Revision)
	}
}

// devices checks C3, only where accelerators are known, and C13.
func (v *verifier) devices() {
	rt := v.run.Runtime
	var prefixes []string
	for _, c := range v.launch {
		if p, ok := c.env["CUDA_VISIBLE_DEVICES"]; ok {
			prefixes = append(prefixes, p)
		}
	}
	stated, known := rt.SafeEnvironment["CUDA_VISIBLE_DEVICES"]
	if launched := strings.Join(prefixes, ","); known && len(prefixes) > 0 && stated != launched {
		v.warn("C13", "/runtime/safe_environment/CUDA_VISIBLE_DEVICES", "%q, but the launch command has %q", stated, launched)
	}
	p, env := rt.Parallelism, v.run.Environment
	if p == nil || env == nil || len(env.Accelerators) == 0 {
		return
	}
	present, counted := 0, true
	for _, a := range env.Accelerators {
		present += a.Count
		counted = counted && a.Count > 0
	}
	degree := func(n int) int { return max(n, 1) }
	if used := degree(p.Data) * degree(p.Tensor) * degree(p.Pipeline) * degree(p.Replicas); counted && used != present {
		v.fail("C3", "/runtime/parallelism", "data x tensor x pipeline x replicas are %d devices, the accelerators are %d", used, present)
	}
	if len(v.launch) > 0 && len(v.launch) != degree(p.Replicas) {
		v.fail("C3", launchPath, "%d engines are launched for %d replicas", len(v.launch), degree(p.Replicas))
	}
	for _, c := range v.launch {
		if n, ok := c.number("tensor-parallel-size"); ok && int(n) != degree(p.Tensor) {
			v.fail("C3", "/runtime/parallelism/tensor", "%d, but the launch command has --tensor-parallel-size %v", p.Tensor, n)
		}
	}
}

// benchLoad checks the counts of C4.
func (v *verifier) benchLoad() {
	w := v.run.Workload
	check := func(flag, field string, stated float64) {
		if n, ok := v.bench.number(flag); ok && n != stated {
			v.fail("C4", "/workload/"+field, "%v, but the benchmark command has --%s %v", stated, flag, n)
		}
	}
	n, ok := v.bench.number("num-prompts")
	dataset, _ := v.bench.value("dataset-name")
	// Batches make fewer requests of the prompts, a trace and whole groups of
	// prefixes fewer prompts.
	batch, _ := v.bench.number("random-batch-size")
	mayBeFewer := v.bench.has("no-oversample") || batch > 1 || dataset == "timed_trace" || dataset == "prefix_repetition" || dataset == "random-rerank"
	switch {
	case !ok || n <= 0: // all the data set has
	case float64(w.RequestCount) > n, float64(w.RequestCount) < n && !mayBeFewer:
		v.fail("C4", "/workload/request_count", "%d, but the benchmark command has --num-prompts %v", w.RequestCount, n)
	}
	check("max-concurrency", "concurrency", float64(w.Concurrency))
	check("seed", "random_seed", float64(w.RandomSeed))
	check("num-warmups", "warmup_request_count", float64(w.WarmupRequestCount))
}

// benchLengths checks the lengths of C4. Lengths that vary by request are in
// no flag, and what was counted may differ from what was asked for, which an
// extension then states.
func (v *verifier) benchLengths() {
	if ratio, ok := v.bench.value("random-range-ratio"); ok && !sameValue(0.0, ratio) {
		return
	}
	w := v.run.Workload
	if n, flag, ok := v.lengthFlag("output"); ok {
		limit := max(w.Stopping.MaxOutputTokens, w.Stopping.MaxTokens)
		if limit != 0 && float64(limit) != n {
			v.fail("C4", "/workload/stopping", "at most %d tokens, but the benchmark command has --%s %v", limit, flag, n)
		}
		v.length("output", w.OutputTokens, deref(w.Stopping.IgnoreEOS), flag, n, 0)
	}
	if n, flag, ok := v.lengthFlag("input"); ok {
		prefix, _ := v.bench.number("random-prefix-len")
		v.length("input", w.InputTokens, v.completions(), flag, n, prefix)
	}
}

// length compares a length flag with the length asked for, or with the one
// that was counted where that must be the same (exact).
func (v *verifier) length(side string, count TokenCount, exact bool, flag string, n, prefix float64) {
	path := "/workload/" + side + "_tokens/value"
	stated, requested := v.extension("servebench.requested_" + side + "_tokens")
	if !requested {
		if count.Kind != "fixed" || !exact {
			return
		}
		stated = float64(count.Value)
	}
	if stated != n+prefix && (!requested || stated != n) {
		v.fail("C4", path, "%v, but the benchmark command has --%s %v", stated, flag, n+prefix)
	}
}

// lengthFlag finds the flag that fixes the input or output length of the data
// set at hand; the short form goes before the data set's own.
func (v *verifier) lengthFlag(side string) (n float64, flag string, ok bool) {
	dataset, _ := v.bench.value("dataset-name")
	var own string
	switch dataset {
	case "", "random":
		own = "random-" + side + "-len"
	case "custom", "sharegpt", "prefix_repetition":
		if side == "input" {
			return 0, "", false
		}
		own = strings.ReplaceAll(dataset, "_", "-") + "-output-len"
	default:
		return 0, "", false
	}
	for _, flag := range []string{side + "-len", own} {
		if n, ok := v.bench.number(flag); ok && n > 0 {
			return n, flag, true
		}
	}
	return 0, "", false
}

// benchSampling checks the temperature and ignore_eos of C4. Random prompts
// and traces ignore the end token without being told, and --extra-body can
// say anything.
func (v *verifier) benchSampling() {
	w := v.run.Workload
	if v.bench.has("extra-body") || len(v.bench.flags) == 0 {
		return
	}
	// What pools a prompt samples nothing, whatever the command says.
	generates := w.Task == "text_generation"
	if t, ok := v.bench.number("temperature"); ok && generates && (w.Sampling.Temperature == nil || *w.Sampling.Temperature != t) {
		v.fail("C4", "/workload/sampling/temperature", "%s, but the benchmark command has --temperature %v", show(w.Sampling.Temperature), t)
	}
	dataset, _ := v.bench.value("dataset-name")
	forced := dataset == "" || strings.HasPrefix(dataset, "random") || dataset == "timed_trace"
	given := v.bench.has("ignore-eos") && !slices.Equal(v.bench.flags["ignore-eos"], []string{"false"})
	if stated := w.Stopping.IgnoreEOS; stated != nil && (given && !*stated || *stated && !given && !forced) {
		v.fail("C4", "/workload/stopping/ignore_eos", "%v contradicts the benchmark command", *stated)
	}
}

// benchRate checks the rate of C4: inf is null.
func (v *verifier) benchRate() {
	rate, ok := v.bench.number("request-rate")
	stated := v.run.Workload.RequestRatePerSecond
	switch {
	case !ok || v.bench.has("ramp-up-strategy"):
	case math.IsInf(rate, 1) && stated != nil, !math.IsInf(rate, 1) && (stated == nil || *stated != rate):
		v.fail("C4", "/workload/request_rate_per_second", "%s, but the benchmark command has --request-rate %v", show(stated), rate)
	}
}

// metadata checks C8: what the user labelled the run with is what the
// extensions say, and the warm-ups declared are those of the workload.
func (v *verifier) metadata() {
	run := v.run
	if n, ok := run.Measurement.Extensions["runpile.declared_warmup_count"].(float64); ok && n != float64(run.Workload.WarmupRequestCount) {
		v.fail("C8", "/workload/warmup_request_count", "%d, but %v were declared", run.Workload.WarmupRequestCount, n)
	}
	labels := make(map[string]string)
	for _, pair := range v.bench.flags["metadata"] {
		if key, value, ok := strings.Cut(pair, "="); ok {
			labels[key] = value
		}
	}
	for _, c := range []struct {
		label, path, key string
		in               map[string]any
	}{
		{"server_variant", "/runtime/extensions/", "runpile.server_variant", run.Runtime.Extensions},
		{"workload_key", "/workload/extensions/", "runpile.profile_id", run.Workload.Extensions},
		{"repetition", "/measurement/extensions/", "runpile.independent_repetition_index", run.Measurement.Extensions},
	} {
		given, labelled := labels[c.label]
		stated, ok := c.in[c.key]
		if labelled && ok && !sameValue(stated, given) {
			v.fail("C8", c.path+c.key, "%v, but the benchmark command has --metadata %s=%s", stated, c.label, given)
		}
	}
}

// resultFile checks C9: one artifact is the file that the benchmark wrote. A
// file that runs are appended to is no artifact.
func (v *verifier) resultFile() {
	name, ok := v.bench.value("result-filename")
	if !ok || !v.bench.has("save-result") || v.bench.has("append-result") || len(v.run.Artifacts) == 0 {
		return
	}
	want := withoutAttempt(name[strings.LastIndexAny(name, `/\`)+1:])
	if !slices.ContainsFunc(v.run.Artifacts, func(a Artifact) bool { return a.Filename == want || a.Filename == name }) {
		v.fail("C9", "/artifacts", "none is the benchmark command's --result-filename %s", name)
	}
}

// withoutAttempt takes __attemptN out of a file name: the attempt that counts
// loses its number.
func withoutAttempt(name string) string {
	stem, rest, ok := strings.Cut(name, "__attempt")
	digits := strings.TrimLeft(rest, "0123456789")
	if !ok || digits == rest {
		return name
	}
	return stem + digits
}

func show(p *float64) string {
	if p == nil {
		return "none"
	}
	return strconv.FormatFloat(*p, 'g', -1, 64)
}
