package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Launched is one command that started a server, as it was run: not redacted.
type Launched struct {
	Args []string          `json:"args"`
	Env  map[string]string `json:"env,omitempty"` // what was set for it beyond the caller's own
}

// Launch is what such a command says.
type Launch struct {
	Engine                   string // vllm, servebench-sim or ""
	Model, ServedModel       string
	Revision, Tokenizer      string
	Parameters               map[string]any // runtime.parameters.server: typed, in snake_case
	Parallelism              Parallelism    // without replicas
	SpeculativeModel         string
	SpeculativeModelRevision string
	Env                      map[string]string // assignments in front of the command
}

// EngineParameters is the extension of the runtime with the parameters that the
// engine itself stated otherwise than its launch command.
const EngineParameters = "servebench.engine_parameters"

// The engines whose commands are read.
const (
	engineVLLM      = "vllm"
	engineSimulator = "servebench-sim"
)

// ParseLaunch reads the command line of `vllm serve`, of vLLM's api_server
// module or of `servebench sim`, with argparse's habits: --a_b is --a-b, a
// beginning that fits one option only stands for it, --no-x is x false,
// --x.key VALUE is a member of the JSON value of --x, and of an option given
// twice the last counts. Assignments and other programs may stand in front, and
// the line may be the script of a shell's -c.
//
// Parameters hold no option about names, addresses, access or logs, and none
// that is named after a secret; the strings in them are not redacted. Numbers are
// int64 or float64, JSON is as encoding/json has it. expert_parallel is false
// where the command does not ask for it, and degrees are 1, as in every version
// of vLLM; other defaults depend on version and model and are not made up.
//
// A command that starts no such engine gives a Launch with nothing but Env.
// What does not fit the manifest is left out with one. ParseLaunch never fails.
func ParseLaunch(argv []string) (Launch, []string) {
	c := parseLaunch(argv)
	l := Launch{Engine: c.engine, Env: c.env}
	if c.engine == "" {
		return l, nil
	}
	l.Model, l.Revision, l.Tokenizer = c.model, c.last("revision"), c.last("tokenizer")
	if names := c.flags["served-model-name"]; len(names) > 0 {
		l.ServedModel = names[0]
	}
	l.Parameters = c.parameters()
	l.Parallelism = c.parallelism()
	if s, ok := l.Parameters["speculative_config"].(map[string]any); ok {
		l.SpeculativeModel, _ = s["model"].(string)
		l.SpeculativeModelRevision, _ = s["revision"].(string)
	}
	return l, c.warnings
}

// launchLine is a command line that starts an engine, its options under their
// long names.
type launchLine struct {
	command
	argv     []string // without assignments in front and without a shell around it
	engine   string
	model    string
	warnings []string
}

func (c *launchLine) warn(format string, args ...any) {
	c.warnings = append(c.warnings, "The launch command: "+fmt.Sprintf(format, args...))
}

// last is the last value of an option, "" where it has none.
func (c *launchLine) last(flag string) string {
	if values := c.flags[flag]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// parseLaunch finds the engine in a command line and reads what follows.
func parseLaunch(argv []string) *launchLine {
	c := &launchLine{command: command{env: map[string]string{}, flags: map[string][]string{}}}
	c.argv = c.unwrap(argv, 0)
	engine, rest := findEngine(c.argv)
	if c.engine = engine; engine == "" {
		return c
	}
	c.words = []string{engineVLLM, "serve"}
	c.read(rest)
	c.mergeDotted()
	c.mergeSpeculative()
	return c
}

var assignment = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)=((?s:.*))$`)

// unwrap takes assignments off the front and opens the script of `sh -c`.
func (c *launchLine) unwrap(argv []string, depth int) []string {
	for len(argv) > 0 {
		set := assignment.FindStringSubmatch(argv[0])
		switch {
		case set != nil:
			c.env[set[1]] = set[2]
		case argv[0] != "env" && argv[0] != "exec":
			return c.script(argv, depth)
		}
		argv = argv[1:]
	}
	return nil
}

func (c *launchLine) script(argv []string, depth int) []string {
	shells := []string{"sh", "bash", "dash", "zsh"}
	if len(argv) < 3 || depth > 3 || !slices.Contains(shells, baseName(argv[0])) {
		return argv
	}
	if flag := argv[1]; strings.HasPrefix(flag, "-") && !strings.HasPrefix(flag, "--") && strings.HasSuffix(flag, "c") {
		return c.unwrap(SplitWords(argv[2]), depth+1)
	}
	return argv
}

func baseName(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }

// findEngine returns the engine that a command starts, and its arguments.
func findEngine(argv []string) (string, []string) {
	for i, word := range argv {
		next := ""
		if i+1 < len(argv) {
			next = argv[i+1]
		}
		switch base := baseName(word); {
		case base == "vllm" && next == "serve":
			return engineVLLM, argv[i+2:]
		case base == "servebench" && next == "sim":
			return engineSimulator, argv[i+2:]
		case word == "-m" && strings.HasPrefix(next, "vllm.entrypoints."):
			rest := argv[i+2:]
			if len(rest) > 0 && rest[0] == "serve" {
				rest = rest[1:]
			}
			return engineVLLM, rest
		case strings.HasPrefix(base, "vllm-openai"): // the image, whose entry point is the server
			return engineVLLM, argv[i+1:]
		}
	}
	return "", nil
}

// read sorts the words after the engine into options and the model.
func (c *launchLine) read(words []string) {
	for i := 0; i < len(words); i++ {
		word := words[i]
		if !isFlag(word) || word == "--" {
			if word != "--" && c.model == "" {
				c.model = word
			}
			continue
		}
		name, value, joined := strings.Cut(word, "=")
		if strings.HasPrefix(word, "-O") && len(word) > 2 { // -O3 and -O=3
			name, value, joined = "-O", strings.TrimPrefix(word[2:], "="), true
		}
		flag, off := c.longName(name)
		switch {
		case joined:
			c.flags[flag] = []string{value}
		case off:
			c.flags[flag] = []string{"false"}
		default:
			n := c.valuesAfter(flag, words[i+1:])
			c.flags[flag] = slices.Clone(words[i+1 : i+1+n])
			i += n
		}
	}
	if m := c.last("model"); m != "" {
		c.model = m
	}
	if c.model != "" {
		c.words = append(c.words, c.model)
	}
}

// valuesAfter counts the words that belong to an option.
func (c *launchLine) valuesAfter(flag string, words []string) int {
	most := len(words)
	switch arityOf(strings.TrimSuffix(flag, "+")) {
	case takesNone:
		most = 0
	case takesOne:
		// Once the model is named, words that are left over can only be a list
		// of an option that we do not know.
		if _, known := serverFlags()[flag]; known || c.model == "" || strings.Contains(flag, ".") {
			most = min(1, most)
		}
	}
	n := 0
	for n < most && (!isFlag(words[n]) || n == 0 && isSecretName(flag) && !strings.HasPrefix(words[n], "--")) {
		n++
	}
	return n
}

// longName is an option's full name, and whether it is written to be off.
func (c *launchLine) longName(word string) (name string, off bool) {
	head, member, dotted := strings.Cut(strings.TrimLeft(word, "-"), ".")
	head = strings.ReplaceAll(head, "_", "-")
	if long, ok := shortFlags[head]; ok {
		head = long
	}
	known := serverFlags()
	if _, ok := known[head]; !ok && strings.HasPrefix(word, "--") {
		if on, negated := strings.CutPrefix(head, "no-"); negated && on != "" {
			return on, true
		}
		head = c.abbreviated(head)
	}
	if dotted {
		head += "." + member
	}
	return head, false
}

// abbreviated completes the beginning of one option's name.
func (c *launchLine) abbreviated(head string) string {
	var fit []string
	for name := range serverFlags() {
		if head != "" && strings.HasPrefix(name, head) {
			fit = append(fit, name)
		}
	}
	switch len(fit) {
	case 0:
		return head
	case 1:
		return fit[0]
	}
	slices.Sort(fit)
	c.warn("--%s may be --%s; it is taken as an option of its own.", head, strings.Join(fit[:min(3, len(fit))], " or --"))
	return head
}

// mergeDotted puts options such as --x.a.b VALUE together as the JSON of --x.
func (c *launchLine) mergeDotted() {
	for _, flag := range slices.Sorted(maps.Keys(c.flags)) {
		head, path, dotted := strings.Cut(flag, ".")
		if !dotted {
			continue
		}
		text := strings.Join(c.flags[flag], " ")
		delete(c.flags, flag)
		var value any = text
		if list, ok := strings.CutSuffix(path, "+"); ok {
			path = list
			var items []any
			for item := range strings.SplitSeq(text, ",") {
				items = append(items, item)
			}
			value = items
		} else if v, ok := jsonValue(text); ok {
			value = v
		} else if n, ok := humanInt(text); ok {
			value = n
		}
		c.setMember(head, strings.Split(path, "."), value)
	}
}

// setMember sets one member of an option's JSON value.
func (c *launchLine) setMember(flag string, path []string, value any) {
	const deepest = 8
	if flag == "" || slices.Contains(path, "") || len(path) > deepest {
		c.warn("--%s.%s is no member of an option.", flag, strings.Join(path, "."))
		return
	}
	root, _ := c.object(flag)
	at := root
	for _, key := range path[:len(path)-1] {
		inner, ok := at[key].(map[string]any)
		if !ok {
			inner = map[string]any{}
			at[key] = inner
		}
		at = inner
	}
	at[path[len(path)-1]] = value
	c.setObject(flag, root)
}

// object is an option's value where that is a JSON object, else an empty one.
func (c *launchLine) object(flag string) (map[string]any, bool) {
	if v, ok := jsonValue(c.last(flag)); ok {
		if object, ok := v.(map[string]any); ok {
			return object, true
		}
	}
	return map[string]any{}, false
}

func (c *launchLine) setObject(flag string, object map[string]any) {
	if text, err := json.Marshal(object); err == nil {
		c.flags[flag] = []string{string(text)}
	}
}

// mergeSpeculative puts the options that are short for members of
// --speculative-config where they belong.
func (c *launchLine) mergeSpeculative() {
	for flag, key := range map[string]string{"spec-method": "method", "spec-model": "model", "spec-tokens": "num_speculative_tokens"} {
		values, given := c.flags[flag]
		if !given {
			continue
		}
		delete(c.flags, flag)
		if len(values) > 0 {
			c.setMember("speculative-config", []string{key}, typedWord(values[0]))
		}
	}
}

// notParameter reports whether an option is none of the engine's arguments.
func notParameter(flag string) bool {
	return slices.Contains(strings.Fields(notParameters), flag) || isSecretName(flag)
}

// launchFlags are the parameters whose flag is not their name with hyphens.
var launchFlags = map[string]string{
	"prefix_caching":              "enable-prefix-caching",
	"chunked_prefill":             "enable-chunked-prefill",
	"expert_parallel":             "enable-expert-parallel",
	"runtime_weight_quantization": "quantization",
}

// launchFlag is the option behind a parameter.
func launchFlag(key string) string {
	if flag, ok := launchFlags[key]; ok {
		return flag
	}
	return strings.ReplaceAll(key, "_", "-")
}

// parameterName is the parameter that an option with this value sets. A way of
// quantisation that is no snake_case name is that of a checkpoint.
func parameterName(flag string, value any) string {
	for key, f := range launchFlags {
		if f != flag {
			continue
		}
		if s, ok := value.(string); flag == "quantization" && (!ok || !snakeCase.MatchString(s)) {
			break
		}
		return key
	}
	return strings.ReplaceAll(flag, "-", "_")
}

var (
	snakeCase    = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	parameterKey = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// parameters are the engine's arguments.
func (c *launchLine) parameters() map[string]any {
	found := make(map[string]any)
	if c.engine == engineVLLM || c.engine == engineSimulator {
		found["expert_parallel"] = false
	}
	for flag, values := range sorted(c.flags) {
		if notParameter(flag) {
			continue
		}
		value := typedValues(flag, values)
		if value == nil || leftToEngine(value) {
			continue
		}
		key := parameterName(flag, value)
		switch {
		case !parameterKey.MatchString(key):
			c.warn("--%s cannot be named in the manifest.", flag)
		case !fitsParameter(key, value):
			c.warn("--%s %s is no value that the manifest takes.", flag, strings.Join(values, " "))
		default:
			found[key] = value
		}
	}
	return found
}

// leftToEngine reports whether a value leaves the choice to the engine.
func leftToEngine(value any) bool { return value == "auto" || value == int64(-1) }

// fitsParameter holds the parameters that the schema knows to its types.
func fitsParameter(key string, value any) bool {
	switch key {
	case "max_num_seqs", "max_model_len", "max_num_batched_tokens":
		n, ok := value.(int64)
		return ok && n >= 1
	case "gpu_memory_utilization":
		n, ok := floatOf(value)
		return ok && n > 0 && n <= 1
	case "prefix_caching", "chunked_prefill", "expert_parallel", "async_scheduling", "enforce_eager":
		_, ok := value.(bool)
		return ok
	case "dtype", "kv_cache_dtype", "moe_backend", "attention_backend":
		s, ok := value.(string)
		return ok && s != ""
	}
	return true
}

func floatOf(value any) (float64, bool) {
	switch n := value.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	}
	return 0, false
}

// typedValues are the words of an option as one value; nil is none.
func typedValues(flag string, words []string) any {
	switch {
	case len(words) == 0:
		return true
	case len(words) == 1 && arityOf(flag) != takesSome:
		if n, ok := humanInt(words[0]); ok && humanFlags[flag] {
			return n
		}
		return typedWord(words[0])
	}
	list := make([]any, len(words))
	for i, w := range words {
		list[i] = typedWord(w)
	}
	return list
}

// typedWord reads a word as JSON would, and Python's True, False and None.
func typedWord(word string) any {
	switch strings.ToLower(word) {
	case "true":
		return true
	case "false":
		return false
	case "none", "null":
		return nil
	}
	if isNumber(word) {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(word, 64); err == nil && !math.IsInf(f, 0) {
			return f
		}
	}
	if strings.HasPrefix(word, "{") || strings.HasPrefix(word, "[") {
		if v, ok := jsonValue(word); ok {
			return v
		}
	}
	return word
}

// jsonValue reads a whole word as JSON.
func jsonValue(text string) (any, bool) {
	var value any
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&value); err != nil || d.More() {
		return nil, false
	}
	rest := bytes.TrimSpace([]byte(text)[d.InputOffset():])
	return value, len(rest) == 0
}

// humanFlags take numbers such as 16k (16000) and 16K (16384).
var humanFlags = map[string]bool{
	"max-model-len": true, "max-num-batched-tokens": true, "max-num-scheduled-tokens": true,
	"kv-cache-memory-bytes": true, "safetensors-prefetch-block-size": true, "max-num-queued-tokens": true,
}

// humanInt reads such a number; a small letter is a power of 1000, of which
// there may be a fraction, a capital one a power of 1024.
func humanInt(word string) (int64, bool) {
	if word == "" {
		return 0, false
	}
	digits, power := word[:len(word)-1], strings.IndexByte("kmgt", word[len(word)-1]|0x20)
	if power < 0 || !isNumber(digits) || strings.ContainsAny(digits, "eE+-") {
		return 0, false
	}
	unit := 1000.0
	if word[len(word)-1] < 'a' {
		unit = 1024
		if strings.Contains(digits, ".") {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(digits, 64)
	if f *= math.Pow(unit, float64(power+1)); err != nil || f >= 1<<62 {
		return 0, false
	}
	return int64(f), true
}

// parallelism reads the degrees. Experts are spread over all tensor and data
// ranks of an engine, where they are spread at all.
func (c *launchLine) parallelism() Parallelism {
	degree := func(flag string) int {
		word := c.last(flag)
		if word == "" {
			return 1
		}
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > 1<<20 {
			c.warn("--%s %s is no degree; want a whole number from 1.", flag, word)
			return 0
		}
		return n
	}
	p := Parallelism{Data: degree("data-parallel-size"), Tensor: degree("tensor-parallel-size"), Pipeline: degree("pipeline-parallel-size"), Expert: 1}
	if given, ok := launched(c.command, "enable-expert-parallel"); ok && given != "false" {
		p.Expert = p.Data * p.Tensor * degree("prefill-context-parallel-size")
	}
	return p
}
