package main

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// This file stands between the shell and urfave/cli, so that a command line written
// for `vllm bench serve` means the same here. vLLM parses with argparse, whose habits
// differ from those of Go's flag package: a list is one flag with several words, the
// last of two equal flags wins, names may be shortened, and _ stands for -. Whatever
// argparse refuses is refused here too, by name, because urfave/cli is silent about
// some of it: it drops every flag after a stray word.

// arity says which words a flag takes.
type arity int

const (
	arityNone   arity = iota // a switch: --x, or --x=true and --x=false
	arityToggle              // a switch that also has --no-x
	arityOne                 // --x VALUE or --x=VALUE
	arityMany                // --x and the words up to the next flag, or none (nargs="*")
	aritySome                // like arityMany, with at least one word (nargs="+")
)

// kind says how the value of a flag is written. Numbers are checked here because Go's
// flag package reads them in its own way: 010 as eight, NaN as a number.
type kind int

const (
	kindText  kind = iota
	kindInt        // as Python's int(): decimal, may be 1_000
	kindFloat      // as Python's float(), without NaN
	kindJSON       // decoded where it is used
)

// flagSpec describes one flag of the command. The zero Why means it is implemented.
type flagSpec struct {
	Name   string // without dashes
	Arity  arity
	Kind   kind
	Secret bool   // values may hold credentials and are never shown
	Own    bool   // a flag of servebench that vLLM does not have
	Why    string // the reason for refusing a flag of vLLM, as shown to the user
}

// vllmFlags are all flags of `vllm bench serve` 0.32.0, in the order of
// vllm/benchmarks/serve.py and datasets/datasets.py.
var vllmFlags = []flagSpec{
	{Name: "label", Arity: arityOne},
	{Name: "backend", Arity: arityOne},
	{Name: "base-url", Arity: arityOne},
	{Name: "host", Arity: arityOne},
	{Name: "port", Arity: arityOne, Kind: kindInt},
	{Name: "endpoint", Arity: arityOne},
	{Name: "header", Arity: arityMany, Secret: true},
	{Name: "max-concurrency", Arity: arityOne, Kind: kindInt},
	{Name: "model", Arity: arityOne},
	{Name: "input-len", Arity: arityOne, Kind: kindInt},
	{Name: "output-len", Arity: arityOne, Kind: kindInt},
	{Name: "tokenizer", Arity: arityOne},
	{Name: "tokenizer-mode", Arity: arityOne, Why: "there is one way to read a tokenizer here"},
	{Name: "use-beam-search", Arity: arityNone, Why: "vLLM reads this flag and never uses it"},
	{Name: "logprobs", Arity: arityOne, Kind: kindInt},
	{Name: "request-rate", Arity: arityOne, Kind: kindFloat},
	{Name: "burstiness", Arity: arityOne, Kind: kindFloat},
	{Name: "probe-request-rate", Arity: arityOne, Kind: kindFloat, Why: "no probe requests are sent beside the load"},
	{Name: "disable-tqdm", Arity: arityNone},
	{Name: "num-warmups", Arity: arityOne, Kind: kindInt},
	{Name: "profile", Arity: arityNone, Why: "the server's profiler is not started from here"},
	{Name: "save-result", Arity: arityNone},
	{Name: "save-detailed", Arity: arityNone},
	{Name: "append-result", Arity: arityNone},
	{Name: "metadata", Arity: arityMany},
	{Name: "result-dir", Arity: arityOne},
	{Name: "result-filename", Arity: arityOne},
	{Name: "ignore-eos", Arity: arityNone},
	{Name: "self-timed", Arity: arityToggle, Why: whyTrace},
	{Name: "percentile-metrics", Arity: arityOne},
	{Name: "metric-percentiles", Arity: arityOne},
	{Name: "goodput", Arity: aritySome},
	{Name: "request-id-prefix", Arity: arityOne},
	{Name: "top-p", Arity: arityOne, Kind: kindFloat},
	{Name: "top-k", Arity: arityOne, Kind: kindInt},
	{Name: "min-p", Arity: arityOne, Kind: kindFloat},
	{Name: "temperature", Arity: arityOne, Kind: kindFloat},
	{Name: "frequency-penalty", Arity: arityOne, Kind: kindFloat},
	{Name: "presence-penalty", Arity: arityOne, Kind: kindFloat},
	{Name: "repetition-penalty", Arity: arityOne, Kind: kindFloat},
	{Name: "served-model-name", Arity: arityOne},
	{Name: "lora-modules", Arity: aritySome, Why: whyLoRA},
	{Name: "lora-assignment", Arity: arityOne, Why: whyLoRA},
	{Name: "ramp-up-strategy", Arity: arityOne, Why: whyRamp},
	{Name: "ramp-up-start-rps", Arity: arityOne, Kind: kindInt, Why: whyRamp},
	{Name: "ramp-up-end-rps", Arity: arityOne, Kind: kindInt, Why: whyRamp},
	{Name: "ready-check-timeout-sec", Arity: arityOne, Kind: kindInt},
	{Name: "chat-template-kwargs", Arity: arityOne, Kind: kindJSON, Why: "chat templates are not rendered here"},
	{Name: "extra-body", Arity: arityOne, Kind: kindJSON, Secret: true},
	{Name: "skip-tokenizer-init", Arity: arityNone},
	{Name: "insecure", Arity: arityNone},
	{Name: "plot-timeline", Arity: arityNone, Why: whyPlot},
	{Name: "timeline-itl-thresholds", Arity: arityOne, Why: whyPlot},
	{Name: "plot-dataset-stats", Arity: arityNone, Why: whyPlot},

	{Name: "trust-remote-code", Arity: arityNone, Why: "code that comes with a model is never run here"},
	{Name: "seed", Arity: arityOne, Kind: kindInt},
	{Name: "num-prompts", Arity: arityOne, Kind: kindInt},
	{Name: "dataset-name", Arity: arityOne},
	{Name: "no-stream", Arity: arityNone, Why: "it is about downloading Hugging Face datasets; answers in one piece are --stream=false"},
	{Name: "dataset-path", Arity: arityOne},
	{Name: "no-oversample", Arity: arityNone},
	{Name: "skip-chat-template", Arity: arityNone},
	{Name: "enable-multimodal-chat", Arity: arityNone, Why: whyMedia},
	{Name: "disable-shuffle", Arity: arityNone},
	{Name: "custom-output-len", Arity: arityOne, Kind: kindInt},
	{Name: "custom-ensure-client-side-data", Arity: arityNone, Why: whyMedia},
	{Name: "spec-bench-output-len", Arity: arityOne, Kind: kindInt, Why: whyDataset},
	{Name: "spec-bench-category", Arity: arityOne, Why: whyDataset},
	{Name: "sharegpt-output-len", Arity: arityOne, Kind: kindInt, Why: whyDataset},
	{Name: "timed-trace-chunk-hash-size", Arity: arityOne, Kind: kindInt, Why: whyTrace},
	{Name: "timed-trace-sec-multiplier", Arity: arityOne, Kind: kindFloat, Why: whyTrace},
	{Name: "timed-trace-label-timestamp", Arity: arityOne, Why: whyTrace},
	{Name: "timed-trace-label-input-length", Arity: arityOne, Why: whyTrace},
	{Name: "timed-trace-label-output-length", Arity: arityOne, Why: whyTrace},
	{Name: "timed-trace-label-hash-ids", Arity: arityOne, Why: whyTrace},
	{Name: "blazedit-min-distance", Arity: arityOne, Kind: kindFloat, Why: whyHF},
	{Name: "blazedit-max-distance", Arity: arityOne, Kind: kindFloat, Why: whyHF},
	{Name: "asr-max-audio-len-sec", Arity: arityOne, Kind: kindFloat, Why: whyHF},
	{Name: "asr-min-audio-len-sec", Arity: arityOne, Kind: kindFloat, Why: whyHF},
	{Name: "hf-subset", Arity: arityOne, Why: whyHF},
	{Name: "hf-split", Arity: arityOne, Why: whyHF},
	{Name: "hf-name", Arity: arityOne, Why: whyHF},
	{Name: "hf-output-len", Arity: arityOne, Kind: kindInt, Why: whyHF},
	{Name: "bfcl-categories", Arity: arityOne, Why: whyHF},
	{Name: "prefix-repetition-prefix-len", Arity: arityOne, Kind: kindInt, Why: whyDataset},
	{Name: "prefix-repetition-suffix-len", Arity: arityOne, Kind: kindInt, Why: whyDataset},
	{Name: "prefix-repetition-num-prefixes", Arity: arityOne, Kind: kindInt, Why: whyDataset},
	{Name: "prefix-repetition-output-len", Arity: arityOne, Kind: kindInt, Why: whyDataset},
	{Name: "speed-bench-dataset-subset", Arity: arityOne, Why: whyDataset},
	{Name: "speed-bench-output-len", Arity: arityOne, Kind: kindInt, Why: whyDataset},
	{Name: "speed-bench-category", Arity: arityOne, Why: whyDataset},
	{Name: "random-input-len", Arity: arityOne, Kind: kindInt},
	{Name: "random-output-len", Arity: arityOne, Kind: kindInt},
	{Name: "random-range-ratio", Arity: arityOne}, // a number or a JSON object
	{Name: "random-prefix-len", Arity: arityOne, Kind: kindInt},
	{Name: "random-batch-size", Arity: arityOne, Kind: kindInt, Why: whyPooling},
	{Name: "no-reranker", Arity: arityNone, Why: whyPooling},
	{Name: "random-mm-base-items-per-request", Arity: arityOne, Kind: kindInt, Why: whyMedia},
	{Name: "random-mm-num-mm-items-range-ratio", Arity: arityOne, Kind: kindFloat, Why: whyMedia},
	{Name: "random-mm-limit-mm-per-prompt", Arity: arityOne, Kind: kindJSON, Why: whyMedia},
	{Name: "random-mm-bucket-config", Arity: arityOne, Why: whyMedia},
}

// Reasons that several flags share.
const (
	whyLoRA    = "requests are not spread over LoRA adapters"
	whyRamp    = "the request rate is constant during a run"
	whyPlot    = "nothing is drawn"
	whyTrace   = "the timed_trace dataset is missing"
	whyDataset = "its dataset is missing"
	whyHF      = "Hugging Face datasets are not read"
	whyMedia   = "prompts are text only"
	whyPooling = "embedding and rerank requests are missing"
)

// ownFlags are the flags vLLM does not have.
var ownFlags = []flagSpec{
	{Name: "sim", Arity: arityNone, Own: true},
	{Name: "sim-ttft", Arity: arityOne, Own: true},
	{Name: "sim-itl", Arity: arityOne, Own: true},
	{Name: "sim-per-prompt-token", Arity: arityOne, Own: true},
	{Name: "sim-jitter", Arity: arityOne, Own: true},
	{Name: "sim-slots", Arity: arityOne, Own: true},
	{Name: "sim-tokens-per-chunk", Arity: arityOne, Own: true},
	{Name: "sim-seed", Arity: arityOne, Own: true},
	{Name: "manifest", Arity: arityOne, Own: true},
	{Name: "subject", Arity: arityOne, Own: true},
	{Name: "records", Arity: arityOne, Own: true},
	{Name: "prompt-form", Arity: arityOne, Own: true},
	{Name: "timeout-stall", Arity: arityOne, Own: true},
	{Name: "timeout-total", Arity: arityOne, Own: true},
	{Name: "timeout-connect", Arity: arityOne, Own: true},
	{Name: "timeout-headers", Arity: arityOne, Own: true},
	{Name: "stream", Arity: arityNone, Own: true}, // on unless --stream=false
	{Name: "strict-openai", Arity: arityNone, Own: true},
	{Name: "pacing", Arity: arityOne, Own: true},
	{Name: "warmup-prompts", Arity: arityOne, Own: true},
	{Name: "dry-run", Arity: arityNone, Own: true},
	{Name: "no-kernel-stamps", Arity: arityNone, Own: true},
	{Name: "max-event-bytes", Arity: arityOne, Own: true},
	{Name: "drain", Arity: arityOne, Own: true},
}

// serveFlags returns every flag of `servebench serve`, the refused ones included.
func serveFlags() []flagSpec { return slices.Concat(vllmFlags, ownFlags) }

// usageError is one mistake on the command line. Its parts are one line each, with
// text from the command line made printable and without values of secret flags.
type usageError struct {
	Flag    string // name of the flag at fault, "" if there is none
	Problem string
	Hint    string // what would be right, "" if unknown
}

func (e usageError) Error() string {
	if e.Hint == "" {
		return e.Problem
	}
	return e.Problem + "; " + e.Hint
}

// parsedArgs is a command line in canonical form. If Help is set, Words and Warnings
// are empty.
type parsedArgs struct {
	// Words is for urfave/cli: each flag once, as --name=value, in the order of the
	// specs; a list repeats the flag for each value, and an empty list is left out.
	// Reading lists unchanged needs App.DisableSliceFlagSeparator (or a comma
	// splits a value) and StringSliceFlag.KeepSpace (or values are trimmed).
	Words    []string
	Warnings []string
	Help     bool
	Topic    string // WORD of --help=WORD in lower case with - for _; "all" is everything
}

// normalize reads args, the words after `serve`, by the rules of argparse with
// vLLM's additions, and reports all mistakes at once: the error is a usageError or
// several joined by errors.Join, one line each. A request for help anywhere before
// -- wins over mistakes.
func normalize(args []string, specs []flagSpec) (parsedArgs, error) {
	r := argReader{
		specs: specs,
		names: newFlagNames(specs),
		given: make([]givenFlag, len(specs)),
		last:  -1,
	}
	if topic, asked := r.names.helpAsked(args); asked {
		return parsedArgs{Help: true, Topic: topic}, nil
	}
	r.read(args)
	if len(r.problems) > 0 {
		return parsedArgs{}, errors.Join(r.problems...)
	}
	return parsedArgs{Words: r.words(), Warnings: r.warnings()}, nil
}

// argReader walks over the words once, from left to right.
type argReader struct {
	specs    []flagSpec
	names    flagNames
	given    []givenFlag // by index of specs
	last     int         // index of the latest flag in specs, -1 without one
	lastWord word
	problems []error
}

// givenFlag is what the command line says about one flag.
type givenFlag struct {
	times  int
	values []string // of the last occurrence
}

func (r *argReader) read(args []string) {
	for len(args) > 0 {
		w := r.names.classify(args[0])
		rest := args[1:]
		switch w.form {
		case formEnd:
			if len(rest) > 0 {
				r.fail("", fmt.Sprintf("unexpected word %s after --", r.show(rest[0])), "")
			}
			return
		case formValue:
			r.stray(args[0])
			rest = rest[r.names.countValues(rest):] // one complaint for a row of words
		case formFlag:
			rest = rest[r.take(w, rest):]
		default:
			r.unknown(w)
			rest = rest[r.names.countValues(rest):] // they belong to the unknown flag
		}
		args = rest
	}
}

// take stores the values of the flag w and returns how many words of rest it used.
func (r *argReader) take(w word, rest []string) int {
	spec := r.specs[w.spec]
	r.last, r.lastWord = w.spec, w
	r.given[w.spec].times++
	if spec.Why != "" {
		if r.given[w.spec].times == 1 {
			r.fail(spec.Name, fmt.Sprintf("--%s is not supported yet: %s", r.asked(w), spec.Why), "")
		}
		return r.names.countValues(rest) // one complaint is enough, whatever follows
	}
	switch {
	case spec.Arity == arityNone || spec.Arity == arityToggle:
		r.set(w.spec, []string{r.switchValue(w)})
		return 0
	case w.hasValue:
		r.set(w.spec, []string{w.value})
		return 0
	}
	n := r.names.countValues(rest)
	if spec.Arity == arityOne {
		n = min(n, 1)
	}
	if n == 0 && spec.Arity != arityMany {
		return r.missing(spec, rest)
	}
	r.set(w.spec, slices.Clone(rest[:n]))
	return n
}

// asked is the name of the flag the user meant by w, in full.
func (r *argReader) asked(w word) string {
	if w.negated {
		return "no-" + r.specs[w.spec].Name
	}
	return r.specs[w.spec].Name
}

// set stores values as those of the last occurrence of a flag.
func (r *argReader) set(index int, values []string) {
	spec := r.specs[index]
	for i, v := range values {
		canonical, problem := canonicalValue(spec.Kind, v)
		if problem != "" {
			r.fail(spec.Name, fmt.Sprintf("--%s: %s %s", spec.Name, r.show(v), problem), "")
		}
		values[i] = canonical
	}
	r.given[index].values = values
}

// switchValue reads the =true or =false that may follow a switch.
func (r *argReader) switchValue(w word) string {
	name := r.asked(w)
	switch {
	case w.negated && !w.hasValue:
		return "false"
	case !w.hasValue:
		return "true"
	case !w.negated && (w.value == "true" || w.value == "false"):
		return w.value
	case w.negated:
		r.fail(r.specs[w.spec].Name, fmt.Sprintf("--%s takes no value, got =%s", name, quoteWord(w.value)), "write --"+name)
	default:
		r.fail(name, fmt.Sprintf("--%s is a switch, got =%s", name, quoteWord(w.value)),
			fmt.Sprintf("write --%s, or --%s=false", name, name))
	}
	return ""
}

// missing complains about a flag without its value and returns how many words of
// rest are explained by that.
func (r *argReader) missing(spec flagSpec, rest []string) int {
	problem := fmt.Sprintf("--%s needs a value", spec.Name)
	if len(rest) > 0 {
		if next := r.names.classify(rest[0]); next.form == formUnknown {
			r.fail(spec.Name, problem, fmt.Sprintf("write --%s=VALUE if the value begins with -", spec.Name))
			return 1
		}
	}
	r.fail(spec.Name, problem, "")
	return 0
}

// stray complains about a word that belongs to no flag.
func (r *argReader) stray(arg string) {
	shown, hint := r.show(arg), ""
	if strings.HasPrefix(arg, "–") || strings.HasPrefix(arg, "—") {
		hint = "its dash is not the one of the keyboard: flags begin with --"
	}
	if r.last < 0 {
		r.fail("", fmt.Sprintf("unexpected word %s before the first flag", shown), hint)
		return
	}
	spec, name := r.specs[r.last], r.asked(r.lastWord)
	problem := fmt.Sprintf("unexpected word %s after --%s", shown, name)
	switch {
	case hint != "":
	case spec.Arity == arityNone && spec.Own:
		problem = fmt.Sprintf("--%s takes no word, got %s", name, shown)
		hint = fmt.Sprintf("write --%s, or --%s=false", name, name)
	case spec.Arity == arityNone || spec.Arity == arityToggle:
		problem = fmt.Sprintf("--%s takes no word, got %s", name, shown)
		hint = fmt.Sprintf("write --%s, or leave it out", name)
	case spec.Arity == arityOne:
		hint = fmt.Sprintf("--%s takes one value, with quotes around it if it holds spaces", name)
	default:
		hint = fmt.Sprintf("several values are written --%s VALUE VALUE, without =", name)
	}
	r.fail(spec.Name, problem, hint)
}

// unknown complains about a word that begins with - and names no flag. Only the part
// before = is shown: a mistyped --header carries its secret behind it.
func (r *argReader) unknown(w word) {
	switch name := strings.TrimPrefix(w.dashed, "-"); {
	case w.form == formAmbiguous:
		r.fail("", fmt.Sprintf("%s is short for more than one flag", quoteWord(w.dashed)), "one of "+strings.Join(w.candidates, ", "))
	case w.form == formDotted:
		flag := r.specs[w.spec].Name
		r.fail(flag, fmt.Sprintf("--%s.KEY is not supported yet", flag), fmt.Sprintf("give the whole object: --%s '{\"KEY\": VALUE}'", flag))
	case r.names.longName(name) != "":
		long := r.names.longName(name)
		r.fail(long, fmt.Sprintf("%s has one dash", quoteWord(w.dashed)), "write --"+long)
	case r.last >= 0 && r.specs[r.last].Secret && !strings.HasPrefix(name, "-"):
		r.fail(r.specs[r.last].Name, fmt.Sprintf("a word after --%s begins with - and is no flag", r.specs[r.last].Name), "")
	default:
		shown, _, _ := strings.Cut(w.dashed, ":") // -HAuthorization:..., as curl takes it
		r.fail("", "unknown flag "+quoteWord(shown), r.suggestion(strings.TrimPrefix(name, "-")))
	}
}

// suggestion names the flag that name was probably meant to be.
func (r *argReader) suggestion(name string) string {
	name = dashes(name)
	if spec := r.names.spec(strings.TrimPrefix(name, "no-")); spec >= 0 && r.specs[spec].Arity == arityNone {
		return fmt.Sprintf("write --%s=false", r.specs[spec].Name)
	}
	// Cost grows with the length, and no flag is near to a much longer word.
	if len(name) > 60 {
		return ""
	}
	best, limit := "", max(2, len(name)/3) // two: letters swapped
	if len(name) < 4 {
		limit = 1
	}
	for _, spec := range r.specs {
		// An implemented flag is preferred to a refused one at the same distance.
		d := editDistance(name, spec.Name)
		if d < limit || d == limit && (best == "" || spec.Why == "" && r.specs[r.names.exact[best]].Why != "") {
			best, limit = spec.Name, d
		}
	}
	if best == "" {
		return ""
	}
	return "did you mean --" + best + "?"
}

func (r *argReader) fail(flag, problem, hint string) {
	r.problems = append(r.problems, usageError{Flag: flag, Problem: problem, Hint: hint})
}

// show quotes a word for a message, unless it may be part of a secret: the words
// after --header without quotes around them are.
func (r *argReader) show(arg string) string {
	if r.last >= 0 && r.specs[r.last].Secret {
		return "(not shown)"
	}
	return quoteWord(arg)
}

func (r *argReader) words() []string {
	var out []string
	for i, g := range r.given {
		for _, v := range g.values {
			out = append(out, "--"+r.specs[i].Name+"="+v)
		}
	}
	return out
}

func (r *argReader) warnings() []string {
	var out []string
	for i, g := range r.given {
		if g.times < 2 {
			continue
		}
		what := "the last one counts"
		if a := r.specs[i].Arity; a == arityMany || a == aritySome {
			what = "only the values after the last one count"
		}
		out = append(out, fmt.Sprintf("--%s is given %d times: %s", r.specs[i].Name, g.times, what))
	}
	return out
}

// form is what a word looks like, whatever stands before it.
type form int

const (
	formValue     form = iota
	formFlag           // names a flag
	formHelp           // -h, --help or --help=WORD
	formEnd            // --
	formAmbiguous      // begins more than one name
	formDotted         // --json-flag.key
	formUnknown        // begins with - and is none of these
)

// word is one classified argument.
type word struct {
	form       form
	spec       int    // for formFlag and formDotted
	negated    bool   // given as --no-x
	dashed     string // the part before =, as typed
	value      string // the part behind =
	hasValue   bool
	candidates []string // for formAmbiguous
}

// helpName is the flag that every parser has without declaring it.
const helpName = "help"

// flagNames finds flags by what the user typed.
type flagNames struct {
	specs     []flagSpec
	vllm, own []string       // all names in order, with --no- forms and help
	exact     map[string]int // name to index of specs
	negated   map[string]int // --no- form to index of specs
}

func newFlagNames(specs []flagSpec) flagNames {
	n := flagNames{specs: specs, vllm: []string{helpName}, exact: map[string]int{}, negated: map[string]int{}}
	for i, spec := range specs {
		names := []string{spec.Name}
		n.exact[spec.Name] = i
		if spec.Arity == arityToggle {
			n.negated["no-"+spec.Name] = i
			names = append(names, "no-"+spec.Name)
		}
		if spec.Own {
			n.own = append(n.own, names...)
		} else {
			n.vllm = append(n.vllm, names...)
		}
	}
	return n
}

// classify follows argparse in what makes a word a flag: a word that begins with -
// is a value only if it is a negative number, holds a space, or is the - alone.
func (n flagNames) classify(arg string) word {
	if arg == "--" {
		return word{form: formEnd}
	}
	if len(arg) < 2 || arg[0] != '-' {
		return word{form: formValue}
	}
	w := word{form: formUnknown}
	w.dashed, w.value, w.hasValue = strings.Cut(arg, "=")
	switch long, isLong := strings.CutPrefix(w.dashed, "--"); {
	case arg == "-h":
		w.form = formHelp
	case isLong && n.find(long, &w):
	case negativeNumber.MatchString(arg), strings.Contains(w.dashed, " "):
		w.form = formValue
	}
	return w
}

// find fills in the flag that typed, without its dashes, stands for, and reports
// whether there is any. An exact name wins over longer ones, and vLLM's names over our
// own, so that a shortened name in a vLLM script keeps its meaning.
func (n flagNames) find(typed string, w *word) bool {
	name := dashes(typed)
	if name == "" {
		return false
	}
	if base, _, dotted := strings.Cut(name, "."); dotted {
		// Keys are for flags that hold JSON; no name has a dot.
		i := n.spec(base)
		if i < 0 || n.specs[i].Kind != kindJSON {
			return false
		}
		w.form, w.spec = formDotted, i
		return true
	}
	if n.settle(name, w) {
		return true
	}
	hasPrefix := func(s string) bool { return strings.HasPrefix(s, name) }
	vllm, own := matching(n.vllm, hasPrefix), matching(n.own, hasPrefix)
	switch {
	case len(vllm) == 1:
		return n.settle(vllm[0], w)
	case len(vllm) == 0 && len(own) == 1:
		return n.settle(own[0], w)
	case len(vllm)+len(own) == 0:
		return false
	}
	w.form = formAmbiguous
	for _, name := range slices.Concat(vllm, own) {
		w.candidates = append(w.candidates, "--"+name)
	}
	return true
}

// settle makes w the flag of exactly this name.
func (n flagNames) settle(name string, w *word) bool {
	if i, ok := n.exact[name]; ok {
		w.form, w.spec = formFlag, i
	} else if i, ok := n.negated[name]; ok {
		w.form, w.spec, w.negated = formFlag, i, true
	} else if name == helpName {
		w.form = formHelp
	} else {
		return false
	}
	return true
}

// spec returns the index of the flag of exactly this name, or -1.
func (n flagNames) spec(name string) int {
	if i, ok := n.exact[name]; ok {
		return i
	}
	return -1
}

// longName returns the flag that typed, found behind a single dash, would name behind
// two, or "".
func (n flagNames) longName(typed string) string {
	var w word
	switch {
	case len(typed) < 2 || !n.find(typed, &w):
		return ""
	case w.form == formHelp:
		return helpName
	case w.form == formFlag && w.negated:
		return "no-" + n.specs[w.spec].Name
	case w.form == formFlag:
		return n.specs[w.spec].Name
	}
	return ""
}

// countValues returns how many words at the start of args are values.
func (n flagNames) countValues(args []string) int {
	i := slices.IndexFunc(args, func(arg string) bool { return n.classify(arg).form != formValue })
	if i < 0 {
		return len(args)
	}
	return i
}

// helpAsked looks for a request for help. A word of that form can never be a value,
// so the words around it do not matter.
func (n flagNames) helpAsked(args []string) (topic string, asked bool) {
	for _, arg := range args {
		switch w := n.classify(arg); w.form {
		case formEnd:
			return "", false
		case formHelp:
			return clip(printable(dashes(strings.ToLower(w.value))), shownBytes), true
		}
	}
	return "", false
}

// dashes writes - for _ in a name, up to the first dot: behind it is a JSON key.
func dashes(name string) string {
	base, keys, dotted := strings.Cut(name, ".")
	base = strings.ReplaceAll(base, "_", "-")
	if dotted {
		return base + "." + keys
	}
	return base
}

func matching(names []string, keep func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(names), func(s string) bool { return !keep(s) })
}

// shownBytes bounds a word of the command line inside a message.
const shownBytes = 80

func quoteWord(s string) string { return `"` + clip(printable(s), shownBytes) + `"` }

var (
	// negativeNumber is argparse's rule for a value that may begin with -, with the
	// exponents it leaves out. No flag looks like a number, so nothing is lost.
	negativeNumber = regexp.MustCompile(`^-(\d[\d_]*(\.[\d_]*)?|\.\d[\d_]*)([eE][+-]?\d+)?$`)
	pythonInt      = regexp.MustCompile(`^[+-]?\d+(_\d+)*$`)
	pythonFloat    = regexp.MustCompile(`^[+-]?(\d+(_\d+)*\.?(\d+(_\d+)*)?|\.\d+(_\d+)*)([eE][+-]?\d+(_\d+)*)?$`)
	pythonInf      = regexp.MustCompile(`^[+-]?(?i:inf|infinity)$`)
)

// canonicalValue returns v in a notation that Go and Python read alike, or what is
// wrong with it.
func canonicalValue(k kind, v string) (canonical, problem string) {
	number := strings.TrimSpace(v)
	digits := strings.ReplaceAll(number, "_", "")
	switch k {
	case kindInt:
		if !pythonInt.MatchString(number) {
			return v, "is not a whole number"
		}
		i, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return v, "is out of range"
		}
		return strconv.FormatInt(i, 10), ""
	case kindFloat:
		if pythonInf.MatchString(number) {
			return number, ""
		}
		if !pythonFloat.MatchString(number) {
			return v, "is not a number"
		}
		if f, err := strconv.ParseFloat(digits, 64); err != nil || math.IsInf(f, 0) {
			return v, "is out of range"
		}
		return digits, ""
	}
	return v, ""
}

// editDistance is the Levenshtein distance in bytes: flag names are ASCII.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substituted := diagonal
			if a[i] != b[j] {
				substituted++
			}
			diagonal = row[j+1]
			row[j+1] = min(substituted, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
