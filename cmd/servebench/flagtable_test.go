package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/bench"
)

// vllmFlag is one flag of testdata/flags.json, which testdata/flags.py writes from
// vLLM's own parser.
type vllmFlag struct {
	Names    []string `json:"names"`
	Action   string   `json:"action"`
	Type     *string  `json:"type"`
	Nargs    any      `json:"nargs"`
	Default  any      `json:"default"`
	Choices  []string `json:"choices"`
	Required bool     `json:"required"`
	Group    string   `json:"group"`
}

func vllmFlags(t *testing.T) []vllmFlag {
	t.Helper()
	data, err := os.ReadFile("testdata/flags.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		VLLM  string     `json:"vllm"`
		Flags []vllmFlag `json:"flags"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.VLLM != "0.32.0" || len(doc.Flags) != 101 {
		t.Fatalf("%d flags of vLLM %s, want the 101 of 0.32.0: after an upgrade, adapt this line", len(doc.Flags), doc.VLLM)
	}
	return doc.Flags
}

// snapshot is a row of the table in the words of vLLM's parser.
type snapshot struct {
	Names   []string
	Arity   arity
	Kind    string
	Default string
	Choices []string
}

// TestFlagTableIsVLLMs: after an upgrade of vLLM, run testdata/flags.py and edit the
// rows that this test names.
func TestFlagTableIsVLLMs(t *testing.T) {
	want, got := map[string]snapshot{}, map[string]snapshot{}
	for _, f := range vllmFlags(t) {
		name := strings.TrimPrefix(f.Names[0], "--")
		if f.Required {
			t.Errorf("--%s is required, which no flag is here", name)
		}
		want[name] = snapshot{f.Names, arityOf(t, f), kindOf(t, f), defaultOf(f), sorted(f.Choices)}
	}
	for _, s := range flagTable {
		if s.Own {
			continue
		}
		k := map[kind]string{kindInt: "int", kindFloat: "float", kindJSON: "json"}[s.Kind]
		if strings.HasPrefix(s.Name, "ramp-up-") && s.Kind == kindFloat {
			k = "int" // deliberate: rates may be fractions
		}
		got[s.Name] = snapshot{s.spellings(), s.Arity, k, s.Default, sorted(s.Choices)}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table (-vLLM +ours):\n%s", diff)
	}
}

func sorted(s []string) []string { return slices.Sorted(slices.Values(s)) }

func arityOf(t *testing.T, f vllmFlag) arity {
	switch n := f.Nargs.(type) {
	case nil:
		return arityOne
	case float64:
		if f.Action == "BooleanOptionalAction" {
			return arityToggle
		}
		if n == 0 && f.Action == "_StoreTrueAction" {
			return arityNone
		}
	case string:
		if n == "*" {
			return arityMany
		}
		return aritySome
	}
	t.Errorf("%v: action %s with nargs %v is not known", f.Names, f.Action, f.Nargs)
	return arityOne
}

func kindOf(t *testing.T, f vllmFlag) string {
	if f.Type == nil {
		return ""
	}
	switch *f.Type {
	case "int", "float":
		return *f.Type
	case "loads":
		return "json"
	case "str", "add_cli_args.<locals>.<lambda>", "add_dataset_parser.<locals>.<lambda>",
		"add_random_multimodal_dataset_args.<locals>._parse_mm_bucket_config":
		return ""
	}
	t.Errorf("%v: type %s is not known", f.Names, *f.Type)
	return ""
}

// defaultOf writes a default as it would be typed.
func defaultOf(f vllmFlag) string {
	switch v := f.Default.(type) {
	case nil:
		return ""
	case bool:
		return map[bool]string{true: "true"}[v]
	case float64:
		// Python writes the floats of these flags with one decimal, but for
		// --timed-trace-sec-multiplier, whose default is the whole number 1.
		if *f.Type == "float" && f.Names[0] != "--timed-trace-sec-multiplier" {
			return fmt.Sprintf("%.1f", v)
		}
		return fmt.Sprint(v)
	case map[string]any:
		var parts []string
		for k, x := range v {
			if strings.HasPrefix(k, "(") {
				parts = append(parts, fmt.Sprintf("%s: %.1f", k, x))
			} else {
				parts = append(parts, fmt.Sprintf("%q: %v", k, x))
			}
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprint(f.Default)
}

func TestEveryRowOfTheTableIsWhole(t *testing.T) {
	titles := map[string]bool{}
	for _, g := range groups {
		titles[g.Title] = true
	}
	seen := map[string]bool{helpName: true}
	for _, s := range flagTable {
		if seen[s.Name] {
			t.Errorf("--%s is there twice", s.Name)
		}
		seen[s.Name] = true
		if s.Help == "" || !titles[s.Group] {
			t.Errorf("--%s: help %q, group %q", s.Name, s.Help, s.Group)
		}
		if own := strings.HasSuffix(s.Group, "own flags"); own != s.Own {
			t.Errorf("--%s: own is %v in the group %q", s.Name, s.Own, s.Group)
		}
		if (s.Use == works) != (s.Why == "") {
			t.Errorf("--%s: use %d with the reason %q", s.Name, s.Use, s.Why)
		}
		for v := range s.Refused {
			if !slices.Contains(s.choices(), v) {
				t.Errorf("--%s refuses %s, which is no choice", s.Name, v)
			}
		}
		if c := s.offered(); len(c) > 0 && s.Default != "" && !slices.Contains(c, s.Default) {
			t.Errorf("--%s: the default %s is not among %v", s.Name, s.Default, c)
		}
		for _, set := range s.Sets {
			if !slices.Contains(flagByName["dataset-name"].offered(), set) {
				t.Errorf("--%s is read by %s, which is no data set", s.Name, set)
			}
		}
	}
}

// An own flag whose whole name begins one of vLLM's would change what a shortened name
// means in a script written for vLLM.
func TestOwnFlagsDoNotClashWithVLLM(t *testing.T) {
	for _, own := range flagTable {
		for _, s := range flagTable {
			if own.Own && !s.Own && strings.HasPrefix(s.Name, own.Name) {
				t.Errorf("--%s is ours and short for vLLM's --%s", own.Name, s.Name)
			}
		}
	}
}

// Every backend of the library can be chosen, and each that can be chosen is there.
func TestBackendsAreTheLibrarys(t *testing.T) {
	if diff := cmp.Diff(bench.Backends(), sorted(flagByName["backend"].offered())); diff != "" {
		t.Errorf("backends (-library +table):\n%s", diff)
	}
}

// argvCase is one case of testdata/argv.json, which testdata/argv.py writes.
type argvCase struct {
	Args  []string          `json:"args"`
	Error bool              `json:"error"`
	Set   map[string][2]any `json:"set"`
	Ours  string            `json:"ours"` // how we differ on purpose
}

// TestCommandLinesAgainstArgparse holds the normaliser against what vLLM's own parser
// makes of the same words.
func TestCommandLinesAgainstArgparse(t *testing.T) {
	data, err := os.ReadFile("testdata/argv.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []argvCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 500 {
		t.Fatalf("only %d cases", len(cases))
	}
	for _, c := range cases {
		got, err := normalize(c.Args, serveFlags())
		how, why, differs := strings.Cut(c.Ours, ": ")
		if differs && (how == "accepts") != c.Error {
			t.Errorf("%q: argparse's error is %v, but we are to differ: %s", c.Args, c.Error, why)
		}
		if wantErr := c.Error != differs; (err != nil) != wantErr {
			t.Errorf("%q: error %v, want one: %v (argparse: %v, ours: %s)", c.Args, err, wantErr, c.Error, c.Ours)
			continue
		}
		if err != nil || differs {
			continue
		}
		if diff := cmp.Diff(wantSet(c), gotSet(t, got.Words)); diff != "" {
			t.Errorf("%q (-argparse +ours):\n%s", c.Args, diff)
		}
	}
}

// wantSet and gotSet write values alike: JSON decoded, numbers as float64.
func wantSet(c argvCase) map[string]any {
	m := map[string]any{}
	for name, v := range c.Set {
		value := v[1]
		if v[0] == "list" && len(value.([]any)) == 0 {
			continue // an empty list is no words
		}
		if s, ok := value.(string); ok && v[0] != "str" && v[0] != "json" {
			value = number(s)
		}
		if s, ok := value.(string); ok && flagByName[name].Keys && v[0] == "str" {
			value = decoded(s) // written by Python, from keys
		}
		m[name] = value
	}
	return m
}

func gotSet(t *testing.T, words []string) map[string]any {
	m := map[string]any{}
	for _, w := range words {
		name, v, _ := strings.Cut(strings.TrimPrefix(w, "--"), "=")
		s := flagByName[name]
		switch {
		case s.Arity == arityMany || s.Arity == aritySome:
			l, _ := m[name].([]any)
			m[name] = append(l, v)
		case s.Keys:
			m[name] = decoded(v)
		case s.Kind == kindInt || s.Kind == kindFloat:
			m[name] = number(v)
		case s.Arity == arityNone || s.Arity == arityToggle:
			m[name] = v
		default:
			m[name] = v
		}
	}
	return m
}

func number(s string) any {
	var f float64
	if n, err := fmt.Sscanf(s, "%g", &f); n == 1 && err == nil {
		return f
	}
	return s
}

// decoded is s as JSON, or as it is.
func decoded(s string) any {
	var v any
	if json.Unmarshal([]byte(s), &v) != nil {
		return s
	}
	return v
}
