package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

const simHead = "servebench sim [MODEL]: a simulated vLLM server, until SIGTERM.\n\n" +
	"Takes the flags of `vllm serve` " + serveFlagsVersion + ", as argparse reads them, and its own. [In brackets: defaults]\n" +
	"Flags of fixed timing and of the engine model exclude each other. MODEL, --like or a flag that\n" +
	"only the engine model looks at chooses that; otherwise the timing is fixed. With --like, flags\n" +
	"that are not given are as fitted.\n"

const simTail = "\n--help=all explains more and lists the flags of vllm serve without an effect; --help=WORD shows\n" +
	"those of a group or with WORD in the name. docs/simulator.md has the engine model.\n"

// printSimHelp writes what sim's flags do; the topic is as in printHelp.
func printSimHelp(w io.Writer, topic string) error {
	keep := func(s flagSpec) bool { return s.Group != inSimIgnored && s.Use != refused }
	whole := topic == "" || topic == "all"
	switch {
	case topic == "all":
		keep = func(s flagSpec) bool { return s.Group != inSimIgnored }
	case topic != "":
		word := strings.TrimLeft(topic, "-")
		keep = func(s flagSpec) bool { return strings.Contains(s.Name, word) }
		if i := slices.IndexFunc(simGroups, func(g group) bool { return g.called(topic) }); i >= 0 {
			keep = func(s flagSpec) bool { return s.Group == simGroups[i].Title }
		}
		if !slices.ContainsFunc(simFlags(), keep) {
			return usagef("no group of flags and no flag has %s in its name; servebench sim --help lists all", quoteWord(topic))
		}
	}
	var b strings.Builder
	if whole {
		b.WriteString(simHead)
	}
	for _, g := range simGroups {
		if g.Title == inSimIgnored {
			writeNames(&b, g, keep, topic == "all")
			continue
		}
		writeGroup(&b, simFlags(), g, keep, topic != "")
	}
	if whole {
		b.WriteString(simTail)
	}
	_, err := io.WriteString(w, strings.TrimPrefix(b.String(), "\n"))
	return err
}

// writeNames writes the bare names of the flags in g that are kept, or of all.
func writeNames(b *strings.Builder, g group, keep func(flagSpec) bool, all bool) {
	var names []string
	for _, s := range simFlags() {
		if s.Group == g.Title && (all || keep(s)) {
			names = append(names, s.argparseName())
		}
	}
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s:\n", g.Title)
	for _, line := range wrap(strings.Join(names, ", "), helpWidth-2) {
		fmt.Fprintf(b, "  %s\n", line)
	}
}
