package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/servebench/servebench/internal/edit"
)

// This file stands between the shell and urfave/cli, so that a command line written
// for `vllm bench serve` means the same here. vLLM parses with argparse, whose habits
// differ from those of Go's flag package: a list is one flag with several words, the
// last of two equal flags wins, names may be shortened, and _ stands for -. Whatever
// argparse refuses is refused here too, by name, because urfave/cli is silent about
// some of it: it drops every flag after a stray word.

// usageError is one mistake on the command line. Its parts are one line each, with
// text from the command line made printable and without values of secret flags.
type usageError struct {
	Flag    string // name of the flag at fault, "" if there is none
	Problem string
	Hint    string // what would be right, "" if unknown
	Theirs  string // what argparse says of it, "" where it says nothing
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
	Given    []string // names of all flags that were given, those with an empty list too
	Warnings []string
	Worded   bool // a word that belongs to no flag is the value of the flag with Word
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
	r.setObjects()
	r.checkWord()
	if len(r.problems) > 0 {
		return parsedArgs{}, errors.Join(r.problems...)
	}
	return parsedArgs{Words: r.words(), Given: r.flags(), Warnings: r.warnings(), Worded: r.worded}, nil
}

// argReader walks over the words once, from left to right.
type argReader struct {
	specs    []flagSpec
	names    flagNames
	given    []givenFlag // by index of specs
	last     int         // index of the latest flag in specs, -1 without one
	lastWord word
	worded   bool          // the word that belongs to no flag has come
	objects  []*objectFlag // given key by key, in the order they were begun
	problems []error
	notes    []string // what else is doubtful
}

// givenFlag is what the command line says about one flag.
type givenFlag struct {
	times  int
	values []string // of the last occurrence, or of all
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
			if r.takeWord(args[0]) {
				break
			}
			r.stray(args[0])
			rest = rest[r.names.countValues(rest):] // one complaint for a row of words
		case formFlag:
			rest = rest[r.take(w, rest):]
		case formDotted:
			rest = rest[r.takeKey(w, rest):]
		default:
			r.unknown(w)
			rest = rest[r.names.countValues(rest):] // they belong to the unknown flag
		}
		args = rest
	}
}

// takeWord makes the first word that belongs to no flag the value of the flag that
// takes one, if there is any.
func (r *argReader) takeWord(arg string) bool {
	i := slices.IndexFunc(r.specs, func(s flagSpec) bool { return s.Word })
	if i < 0 || r.worded {
		return false
	}
	r.worded = true
	r.given[i].times++
	r.set(i, []string{arg})
	return true
}

// checkWord complains where the flag that takes a word was given too.
func (r *argReader) checkWord() {
	i := slices.IndexFunc(r.specs, func(s flagSpec) bool { return s.Word })
	if i < 0 || !r.worded || r.given[i].times < 2 {
		return
	}
	name := r.specs[i].Name
	r.fail(name, fmt.Sprintf("--%s is given, and a word for it too", name), "want one of the two")
	r.theirs("%s--%s", unrecognizedPrefix, name)
}

// take stores the values of the flag w and returns how many words of rest it used.
func (r *argReader) take(w word, rest []string) int {
	spec := r.specs[w.spec]
	r.last, r.lastWord = w.spec, w
	r.given[w.spec].times++
	switch {
	case spec.Arity == arityNone || spec.Arity == arityToggle:
		r.set(w.spec, []string{r.switchValue(w)})
		return 0
	case w.hasValue:
		r.set(w.spec, []string{w.value})
		return 0
	}
	n := r.names.countValues(rest)
	switch spec.Arity {
	case arityOne, arityMaybe:
		n = min(n, 1)
	case arityInline:
		n = 0
	}
	switch {
	case n == 0 && (spec.Arity == arityOne || spec.Arity == aritySome):
		return r.missing(spec, rest)
	case n == 0 && spec.Arity != arityMany:
		r.set(w.spec, []string{""})
		return 0
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

// set stores values as those of the last occurrence of a flag, or adds them.
func (r *argReader) set(index int, values []string) {
	spec := r.specs[index]
	for i, v := range values {
		if spec.None && (v == "" || v == "None") {
			values[i] = ""
			continue
		}
		canonical, problem := spec.canonical(v)
		if problem != "" {
			r.fail(spec.Name, fmt.Sprintf("--%s: %s %s", spec.Name, r.show(v), problem), "")
			r.theirs("argument %s: %s", spec.argparseName(), r.invalid(spec, v))
		} else {
			r.checkChoice(spec, canonical)
		}
		values[i] = canonical
	}
	if spec.Repeats {
		values = append(r.given[index].values, values...)
	}
	r.given[index].values = values
}

// canonical is canonicalValue of each value of a list.
func (s flagSpec) canonical(v string) (canonical, problem string) {
	if !s.List || !strings.Contains(v, ",") {
		return canonicalValue(s.Kind, v)
	}
	parts := strings.Split(v, ",")
	for i, part := range parts {
		if parts[i], problem = canonicalValue(s.Kind, part); problem != "" {
			return v, fmt.Sprintf("holds %s, which %s", quoteWord(part), problem)
		}
	}
	return strings.Join(parts, ","), ""
}

// checkChoice complains about a value that the flag does not have, and about one that
// it has in vLLM and not here.
func (r *argReader) checkChoice(spec flagSpec, value string) {
	choices := spec.choices()
	switch {
	case spec.Use == refused && !sameValue(spec.Kind, value, spec.Default):
		r.fail(spec.Name, fmt.Sprintf("--%s %s is not supported: %s", spec.Name, quoteWord(value), spec.Why), "leave it out")
	case len(choices) > 0 && !slices.Contains(choices, value):
		r.fail(spec.Name, fmt.Sprintf("--%s: %s is unknown", spec.Name, quoteWord(value)), "want one of "+strings.Join(spec.offered(), ", "))
		r.theirs("argument %s: invalid choice: %s (choose from %s)", spec.argparseName(), r.choice(spec, value), r.choiceList(spec, choices))
	case spec.refusal(value) != "":
		r.fail(spec.Name, fmt.Sprintf("--%s %s is not supported: %s", spec.Name, value, spec.refusal(value)),
			"want one of "+strings.Join(spec.offered(), ", "))
	}
}

// sameValue compares values as the flag reads them.
func sameValue(k kind, a, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	if k == kindFloat && errX == nil && errY == nil {
		return x == y
	}
	return a == b
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
	r.theirs("argument %s: ignored explicit argument %s", r.specs[w.spec].argparseName(), r.repr(w.value))
	return ""
}

// missing complains about a flag without its value and returns how many words of
// rest are explained by that.
func (r *argReader) missing(spec flagSpec, rest []string) int {
	problem, hint, used := fmt.Sprintf("--%s needs a value", spec.Name), "", 0
	if len(rest) > 0 {
		if next := r.names.classify(rest[0]); next.form == formUnknown {
			hint, used = fmt.Sprintf("write --%s=VALUE if the value begins with -", spec.Name), 1
		}
	}
	r.fail(spec.Name, problem, hint)
	expected := "one argument"
	if spec.Arity == aritySome {
		expected = "at least one argument"
	}
	r.theirs("argument %s: expected %s", spec.argparseName(), expected)
	return used
}

// stray complains about a word that belongs to no flag.
func (r *argReader) stray(arg string) {
	shown, hint := r.show(arg), ""
	if strings.HasPrefix(arg, "–") || strings.HasPrefix(arg, "—") {
		hint = "its dash is not the one of the keyboard: flags begin with --"
	}
	if r.last < 0 {
		r.fail("", fmt.Sprintf("unexpected word %s before the first flag", shown), hint)
		r.unrecognized(shown)
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
	r.unrecognized(shown)
}

// unknown complains about a word that begins with - and names no flag. Only the part
// before = is shown: a mistyped --header carries its secret behind it.
func (r *argReader) unknown(w word) {
	switch name := strings.TrimPrefix(w.dashed, "-"); {
	case w.form == formAmbiguous:
		r.fail("", fmt.Sprintf("%s is short for more than one flag", quoteWord(w.dashed)), "one of "+strings.Join(w.candidates, ", "))
		r.theirs("ambiguous option: %s could match %s", printable(w.dashed), strings.Join(w.candidates, ", "))
		return
	case w.keyless:
		flag := r.specs[w.spec].Name
		r.fail(flag, fmt.Sprintf("--%s holds no JSON object, so it has no keys", flag), "write --"+flag)
	case r.names.longName(name) != "":
		long := r.names.longName(name)
		r.fail(long, fmt.Sprintf("%s has one dash", quoteWord(w.dashed)), "write --"+long)
	case r.secretBehind(w):
		r.fail(r.specs[r.last].Name, fmt.Sprintf("a word after --%s begins with - and is no flag", r.specs[r.last].Name), "")
	default:
		shown, _, _ := strings.Cut(w.dashed, ":") // -HAuthorization:..., as curl takes it
		r.fail("", "unknown flag "+quoteWord(shown), r.suggestion(strings.TrimPrefix(name, "-")))
		r.unrecognized(shown)
		return
	}
	if r.secretBehind(w) {
		w.dashed = "(not shown)"
	}
	r.unrecognized(w.dashed)
}

// secretBehind tells whether w may be part of the value of a secret flag.
func (r *argReader) secretBehind(w word) bool {
	return r.last >= 0 && r.specs[r.last].Secret && !strings.HasPrefix(w.dashed, "--")
}

// suggestion names the flag that name was probably meant to be.
func (r *argReader) suggestion(name string) string {
	name, _, _ = strings.Cut(dashes(name), ".")
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
		// A flag that does something is preferred to others at the same distance.
		d := edit.Distance(name, spec.Name)
		if d < limit || d == limit && (best == "" || spec.Use == works && r.specs[r.names.exact[best]].Use != works) {
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

// theirs adds to the latest problem what argparse says of it.
func (r *argReader) theirs(format string, args ...any) {
	i := len(r.problems) - 1
	p := r.problems[i].(usageError) // fail puts in nothing else
	p.Theirs = fmt.Sprintf(format, args...)
	r.problems[i] = p
}

// unrecognizedPrefix begins what argparse says of all words it has no use for.
const unrecognizedPrefix = "unrecognized arguments: "

func (r *argReader) unrecognized(shown string) {
	r.theirs("%s%s", unrecognizedPrefix, clip(printable(strings.Trim(shown, `"`)), shownBytes))
}

// repr is a value in a message of argparse's.
func (r *argReader) repr(value string) string {
	return "'" + strings.Trim(r.show(value), `"`) + "'"
}

// invalid is what argparse, or a converter of vLLM's, says of a value of the wrong kind.
func (r *argReader) invalid(spec flagSpec, value string) string {
	m := numberWithUnit.FindStringSubmatch(value)
	switch {
	case (spec.Kind == kindSize || spec.Kind == kindSizeOrAuto) && m != nil && m[2] != "":
		return fmt.Sprintf("Decimals are not allowed with binary suffixes like %s. Did you mean to use %s instead?",
			m[3], m[1]+m[2]+strings.ToLower(m[3]))
	case spec.Type == "_optional_type" || spec.Type == "_parse_type":
		// vLLM names a Python function and its address here.
		kinds := map[kind]string{kindInt: "int", kindFloat: "float", kindSize: "human_readable_int", kindConfig: "loads"}
		return fmt.Sprintf("Value %s cannot be converted to <%s>.", strings.Trim(r.repr(value), "'"), kinds[spec.Kind])
	}
	return fmt.Sprintf("invalid %s value: %s", spec.Type, r.repr(value))
}

// choice is one of several values in a message of argparse's.
func (r *argReader) choice(spec flagSpec, value string) string {
	if spec.Kind == kindInt || value == "None" && spec.None {
		return strings.Trim(r.show(value), `"`)
	}
	return r.repr(value)
}

func (r *argReader) choiceList(spec flagSpec, values []string) string {
	var shown []string
	for _, v := range values {
		shown = append(shown, r.choice(spec, v))
	}
	return strings.Join(shown, ", ")
}

// argparseName is how argparse calls a flag.
func (s flagSpec) argparseName() string {
	names := s.spellings()
	for _, alias := range s.Aliases {
		names = append(names, "--"+alias)
	}
	for _, short := range s.Short {
		names = append(names, "-"+short)
	}
	return strings.Join(names, "/")
}

// show quotes a word for a message, unless it may be part of a secret: the words
// after --header without quotes around them are, and what looks like a header.
func (r *argReader) show(arg string) string {
	lower := strings.ToLower(arg)
	if r.last >= 0 && r.specs[r.last].Secret || strings.Contains(lower, "authorization") || strings.Contains(lower, "bearer") {
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

// flags are the names of those that were given.
func (r *argReader) flags() (out []string) {
	for i, g := range r.given {
		if g.times > 0 {
			out = append(out, r.specs[i].Name)
		}
	}
	return out
}

func (r *argReader) warnings() []string {
	out := r.notes
	for i, g := range r.given {
		if g.times < 2 || r.specs[i].Repeats {
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
	formDotted         // --x.key of a flag with keys
	formUnknown        // begins with - and is none of these
)

// word is one classified argument.
type word struct {
	form       form
	spec       int    // for formFlag and formDotted
	negated    bool   // given as --no-x
	keyless    bool   // formUnknown: --x.key of a flag without keys
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
	short     map[string]int // name behind a single dash to index of specs
	shorts    []string       // these names in order
}

func newFlagNames(specs []flagSpec) flagNames {
	n := flagNames{specs: specs, vllm: []string{helpName}, exact: map[string]int{}, negated: map[string]int{}, short: map[string]int{}}
	for i, spec := range specs {
		names := []string{spec.Name}
		n.exact[spec.Name] = i
		if spec.Arity == arityToggle {
			n.negated["no-"+spec.Name] = i
			names = append(names, "no-"+spec.Name)
		}
		for _, alias := range spec.Aliases {
			n.exact[alias] = i
			names = append(names, alias)
		}
		for _, short := range spec.Short {
			n.short[short] = i
			n.shorts = append(n.shorts, short)
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
	case w.dashed == "-f" && n.spec(runFileFlag) >= 0: // the one short flag beside it
		n.settle(runFileFlag, &w)
	case isLong && n.find(long, &w):
	case !isLong && n.findShort(arg[1:], &w):
	case negativeNumber.MatchString(arg), strings.Contains(w.dashed, " "):
		w.form = formValue
	case !isLong && strings.Contains(arg, " ") && n.longName(w.dashed[1:]) == "":
		w.form = formValue // behind two dashes it is a mistyped flag sooner than a value
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
	if base, _, dotted := strings.Cut(name, "."); dotted { // no name has a dot
		if !n.find(base, w) {
			return false
		}
		if w.form == formFlag {
			w.form = formDotted
			if w.negated || !n.specs[w.spec].Keys {
				w.form, w.keyless = formUnknown, true
			}
		}
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

// findShort fills in the flag that typed, behind its single dash, stands for: a whole
// name or the only one that begins so, or one letter with its value right behind it.
func (n flagNames) findShort(typed string, w *word) bool {
	name, _, _ := strings.Cut(typed, "=")
	if base, _, dotted := strings.Cut(name, "."); dotted {
		i, ok := n.short[base]
		if ok && n.specs[i].Keys {
			w.form, w.spec = formDotted, i
			return true
		}
		name = "" // the dot is part of a value
	} else if i, ok := n.short[name]; ok {
		w.form, w.spec = formFlag, i
		return true
	}
	var found []string
	for _, short := range n.shorts {
		if len(short) == 1 && strings.HasPrefix(typed, short) || name != "" && strings.HasPrefix(short, name) {
			found = append(found, short)
		}
	}
	switch len(found) {
	case 0:
		return false
	case 1:
		w.form, w.spec = formFlag, n.short[found[0]]
		if len(found[0]) == 1 {
			w.value, w.hasValue = strings.TrimPrefix(typed[1:], "="), true
		}
		return true
	}
	w.form = formAmbiguous
	for _, short := range found {
		w.candidates = append(w.candidates, "-"+short)
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
	case kindSize, kindSizeOrAuto:
		if k == kindSizeOrAuto && (number == "-1" || strings.EqualFold(number, "auto")) {
			return "-1", ""
		}
		if sized, ok := sizedNumber(number); ok {
			return sized, ""
		}
		return canonicalValue(kindInt, v)
	case kindConfig:
		v = plainNumbers(v)
		fallthrough
	case kindJSON:
		if !json.Valid([]byte(v)) {
			return v, "is not JSON"
		}
	}
	return v, ""
}

var (
	numberWithUnit = regexp.MustCompile(`^(\d+)(\.\d+)?([kKmMgGtT])$`)
	// jsonPiece is a text of a JSON document, or a number with a unit outside of one.
	jsonPiece = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\b\d+(?:\.\d+)?[kKmMgGtT]\b`)
)

// sizedNumber reads a number with a unit as vLLM does: k, m, g and t are powers of
// 1000 and take a fraction, K, M, G and T are powers of 1024 and do not.
func sizedNumber(s string) (canonical string, ok bool) {
	m := numberWithUnit.FindStringSubmatch(s)
	if m == nil {
		return "", false
	}
	power := strings.Index("kmgt", strings.ToLower(m[3])) + 1
	if m[3] == strings.ToLower(m[3]) {
		f, err := strconv.ParseFloat(m[1]+m[2], 64)
		f *= math.Pow(1000, float64(power))
		if err != nil || f >= math.MaxInt64 {
			return "", false
		}
		return strconv.FormatInt(int64(f), 10), true
	}
	i, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || m[2] != "" || i > math.MaxInt64>>(10*power) {
		return "", false
	}
	return strconv.FormatInt(i<<(10*power), 10), true
}

// plainNumbers writes the numbers with a unit in a JSON text without it.
func plainNumbers(text string) string {
	return jsonPiece.ReplaceAllStringFunc(text, func(piece string) string {
		if n, ok := sizedNumber(piece); ok {
			return n
		}
		return piece
	})
}
