package main

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func help(t *testing.T, topic string) string {
	t.Helper()
	var b strings.Builder
	if err := printHelp(&b, topic); err != nil {
		t.Fatalf("--help=%s: %v", topic, err)
	}
	return b.String()
}

// flagsIn are the flags that a help text explains, in order.
func flagsIn(text string) (names []string) {
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "  --"); ok {
			names = append(names, strings.Fields(name)[0])
		}
	}
	return names
}

func TestHelpHasEveryFlagOnceInItsGroup(t *testing.T) {
	for _, topic := range []string{"", "all"} {
		text := help(t, topic)
		names := flagsIn(text)
		if len(names) != len(flagTable) {
			t.Errorf("--help=%s has %d flags, want %d", topic, len(names), len(flagTable))
		}
		for _, s := range flagTable {
			if !slices.Contains(names, s.Name) {
				t.Errorf("--help=%s has no --%s", topic, s.Name)
			}
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
				t.Errorf("--help=%s: %d columns: %s", topic, n, line)
			}
		}
		at := -1
		for _, g := range groups {
			i := strings.Index(text, "\n"+g.Title+":\n")
			if i <= at {
				t.Errorf("--help=%s: the group %q is at %d, after %d", topic, g.Title, i, at)
			}
			at = i
		}
	}
	if n := strings.Count(help(t, ""), "\n"); n > 215 {
		t.Errorf("the short help has %d lines", n)
	}
}

func TestHelpShowsDefaultsChoicesAndReasons(t *testing.T) {
	short, full := help(t, ""), strings.Join(strings.Fields(help(t, "all")), " ")
	for _, want := range []string{
		"prompt tokens [1024]", "{random,round-robin} [random]", "port of the server [8000]", "not supported: audio is not sent",
		"no effect: code that comes with a model is never run here", "[the server's]",
	} {
		if !strings.Contains(short, want) {
			t.Errorf("--help has no %q", want)
		}
	}
	for _, want := range []string{
		"Refused: audio is not sent.", "openai-audio is refused: audio is not sent.", "mistral is refused: tokenizers are read",
		"Accepted without effect: vLLM's client never looks at it either.", "Read by random, random-mm.", "(720, 1280, 16): 0.0}]",
	} {
		if !strings.Contains(full, want) {
			t.Errorf("--help=all has no %q", want)
		}
	}
}

func TestHelpForAWord(t *testing.T) {
	for _, row := range []struct {
		reading, topic string
		want           []string
	}{
		{"a group", "load", slices.Collect(namesIn(inLoad))},
		{"a data set has the flags it reads", "random", []string{"input-len", "output-len", "random-input-len", "random-output-len", "random-range-ratio", "random-prefix-len", "random-batch-size"}},
		{"a data set with _", "prefix-repetition", append([]string{"output-len", "disable-shuffle"}, slices.Collect(namesIn(inPrefix))...)},
		{"a part of names", "warmup", []string{"num-warmups", "warmup-prompts"}},
		{"with its dashes", "--num-w", []string{"num-warmups"}},
		{"a word of a text", "gamma", []string{"burstiness"}},
	} {
		if got := flagsIn(help(t, row.topic)); !slices.Equal(got, row.want) {
			t.Errorf("%s: --help=%s: %v, want %v", row.reading, row.topic, got, row.want)
		}
	}
	if help(t, "options") != help(t, "") {
		t.Error("--help=options, vLLM's largest group, is not the whole list")
	}
	code, _, errs := command(t, "serve", "--help=xyzzy")
	if code != exitUsage || !strings.Contains(errs, "xyzzy") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func namesIn(title string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, s := range flagTable {
			if s.Group == title && !yield(s.Name) {
				return
			}
		}
	}
}

// A group asked for by vLLM's title shows all of vLLM's flags in it.
func TestHelpKnowsVLLMsGroups(t *testing.T) {
	for _, f := range vllmFlags(t) {
		topic := dashes(strings.ToLower(f.Group))
		if topic == "options" {
			continue
		}
		if name := strings.TrimPrefix(f.Names[0], "--"); !slices.Contains(flagsIn(help(t, topic)), name) {
			t.Errorf("--help=%q has no --%s", topic, name)
		}
	}
}

func TestWrapLosesNothing(t *testing.T) {
	for _, row := range []struct {
		text  string
		width int
		want  []string
	}{
		{"", 10, []string{""}},
		{"one two", 10, []string{"one two"}},
		{"one two three", 9, []string{"one two", "three"}},
		{"a,b,c d", 3, []string{"a,", "b,c", "d"}},
		{"x {alpha,beta,gamma} [a]", 12, []string{"x {alpha,", "beta,gamma}", "[a]"}},
		{"abcdefghij k", 5, []string{"abcdefghij", "k"}},
	} {
		got := wrap(row.text, row.width)
		if !slices.Equal(got, row.want) {
			t.Errorf("wrap(%q, %d) = %q, want %q", row.text, row.width, got, row.want)
		}
	}
}

func TestHelpCommand(t *testing.T) {
	for _, args := range [][]string{{"serve", "--help"}, {"serve", "-h"}, {"help", "serve"}, {"serve", "--num-prompts", "x", "--help"}} {
		if code, out, _ := command(t, args...); code != 0 || out != help(t, "") {
			t.Errorf("%v: exit %d, %d bytes", args, code, len(out))
		}
	}
}

// A flag behind a file would be read as a file.
func TestFlagsStandBeforeFiles(t *testing.T) {
	for _, words := range [][]string{{"compare", "a.json", "b.json", "--format", "csv"}, {"hdr", "a.hdr", "--json"}, {"manifest", "show", "a.json", "-x"}} {
		code, _, errs := command(t, words...)
		if code != exitUsage || !strings.Contains(errs, "stands behind a file; want flags first") || strings.Contains(errs, "no such file") {
			t.Errorf("%v: exit %d: %s", words, code, errs)
		}
	}
}
