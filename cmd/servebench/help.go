package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/servebench/servebench/dataset"
)

// helpWidth is how wide a line of help may be.
const helpWidth = 100

const helpHead = "servebench serve: run one benchmark against an OpenAI-compatible server.\n\n" +
	"Takes the flags of `vllm bench serve`, as argparse reads them, and its own. [In brackets: defaults]\n" +
	"OPENAI_API_KEY goes to every request to the server.\n"

const helpTail = "\nObjects may be given key by key: --extra-body.chat_template_kwargs.enable_thinking false,\n" +
	"--extra-body.stop+ a,b (a list). --help=WORD shows the flags of a group or with WORD in the name,\n" +
	"--help=all everything.\n"

// printHelp writes the flags in their groups. The topic is the word of --help=WORD, in
// lower case with - for _: a group, a part of a flag's name, or of its text. All but
// the short list ("") is in full.
func printHelp(w io.Writer, topic string) error {
	var b strings.Builder
	whole := topic == "" || topic == "all" || topic == "options"
	if whole {
		b.WriteString(helpHead)
	}
	keep := func(flagSpec) bool { return true }
	if !whole {
		if keep = matcher(topic); keep == nil {
			return usagef("no group of flags and no flag has %s in its name or text; servebench serve --help lists all", quoteWord(topic))
		}
	}
	for _, g := range groups {
		writeGroup(&b, serveFlags(), g, keep, topic != "" && topic != "options")
	}
	if whole {
		b.WriteString(helpTail)
	}
	_, err := io.WriteString(w, strings.TrimPrefix(b.String(), "\n"))
	return err
}

// matcher tells the flags that topic means: those that the data set of that name reads
// and others do not, those of the group of that name, else those with it in their name,
// else in their text; nil if there are none.
func matcher(topic string) func(flagSpec) bool {
	if name := strings.ReplaceAll(topic, "-", "_"); slices.Contains(dataset.Names(), topic) || slices.Contains(dataset.Names(), name) {
		return func(s flagSpec) bool { return slices.Contains(s.Sets, topic) || slices.Contains(s.Sets, name) }
	}
	if i := slices.IndexFunc(groups, func(g group) bool { return g.called(topic) }); i >= 0 {
		return func(s flagSpec) bool { return s.Group == groups[i].Title }
	}
	for _, keep := range []func(flagSpec) bool{
		func(s flagSpec) bool { return strings.Contains(s.Name, strings.TrimLeft(topic, "-")) },
		func(s flagSpec) bool {
			return strings.Contains(strings.ToLower(dashes(strings.Join([]string{s.Help, s.More, s.Why}, " "))), topic)
		},
	} {
		if slices.ContainsFunc(serveFlags(), keep) {
			return keep
		}
	}
	return nil
}

// called tells whether topic is the group's title or another word for it.
func (g group) called(topic string) bool {
	return slices.ContainsFunc(append([]string{g.Title}, g.Aliases...), func(s string) bool {
		return dashes(strings.ToLower(s)) == topic
	})
}

// writeGroup writes those of flags that are in g and kept. The short form is a line for each
// where that is wide enough; the full one adds further sentences and reasons.
func writeGroup(b *strings.Builder, flags []flagSpec, g group, keep func(flagSpec) bool, full bool) {
	var shown []flagSpec
	column := 0
	for _, s := range flags {
		if s.Group == g.Title && keep(s) {
			shown = append(shown, s)
			column = max(column, len("  --")+len(s.Name)+2)
		}
	}
	if len(shown) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", g.Title)
	for _, s := range shown {
		text := s.line()
		if full {
			text = s.full()
		}
		for i, l := range wrap(text, helpWidth-column) {
			name := ""
			if i == 0 {
				name = "  --" + s.Name
			}
			fmt.Fprintf(b, "%-*s%s\n", column, name, l)
		}
	}
}

// line is what the short help says of a flag.
func (s flagSpec) line() string {
	if s.Use == refused {
		return "not supported: " + s.Why
	}
	text := s.Help
	if s.Use == accepted {
		text = "no effect: " + s.Why
	}
	if offered := s.offered(); len(offered) > 0 {
		text += " {" + strings.Join(offered, ",") + "}"
	}
	return text + s.bracket()
}

// bracket is the default, in brackets.
func (s flagSpec) bracket() string {
	switch {
	case s.Unset != "":
		return " [" + s.Unset + "]"
	case s.Default != "" && s.Arity != arityNone:
		return " [" + s.Default + "]"
	}
	return ""
}

// full is everything there is to say of a flag.
func (s flagSpec) full() string {
	text := s.Help
	if offered := s.offered(); len(offered) > 0 {
		text += " {" + strings.Join(offered, ",") + "}"
	}
	parts := []string{text + s.bracket() + "."}
	if s.More != "" {
		parts = append(parts, s.More)
	}
	switch s.Use {
	case accepted:
		parts = append(parts, "Accepted without effect: "+s.Why+".")
	case refused:
		parts = append(parts, "Refused: "+s.Why+".")
	}
	for _, v := range s.choices() {
		if why := s.refusal(v); why != "" {
			parts = append(parts, v+" is refused: "+why+".")
		}
	}
	if s.Sets != nil && !strings.HasPrefix(s.Group, "Data set ") {
		parts = append(parts, "Read by "+strings.Join(s.Sets, ", ")+".")
	}
	return strings.Join(parts, " ")
}

// wrap breaks text at spaces, and after commas in a longer word, into lines of at most
// width columns.
func wrap(text string, width int) (lines []string) {
	var line string
	for _, word := range breakable(text, width) {
		if line != "" && utf8.RuneCountInString(line+strings.TrimRight(word, " ")) > width {
			lines = append(lines, strings.TrimRight(line, " "))
			line = ""
		}
		line += word
	}
	return append(lines, strings.TrimRight(line, " "))
}

// breakable cuts text into pieces that stay whole, each with the space behind it.
func breakable(text string, width int) (pieces []string) {
	for word := range strings.SplitAfterSeq(text, " ") {
		if len(word) <= width/2 {
			pieces = append(pieces, word)
			continue
		}
		pieces = append(pieces, strings.SplitAfter(word, ",")...)
	}
	return pieces
}
