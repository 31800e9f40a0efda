package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/urfave/cli/v2"

	"github.com/servebench/servebench/bench/runfile"
	"github.com/servebench/servebench/manifest"
)

var resolvedFlag = &cli.BoolFlag{Name: "resolved", Usage: "print the run files that result, as a manifest would hold them"}

// configCommand is `servebench config`.
func configCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:            "config",
		Usage:           "check, begin and describe the YAML files of runs and experiments",
		Description:     "Files are named after the flags; - or none is standard input. Exit 0: all is well, 2: there are mistakes.",
		HideHelpCommand: true,
		OnUsageError:    wrongFlag,
		Subcommands: []*cli.Command{
			configSubcommand("check", "say what is wrong with run, experiment, subject and host files, or what they would run; nothing is contacted", "FILE...",
				func(c *cli.Context) error { return checkFiles(c, t) }, resolvedFlag),
			configSubcommand("init", "print a file to begin with: a run, an experiment, or a model's facts", "[run|experiment|subject]",
				func(c *cli.Context) error {
					if c.Args().First() == runfile.KindHost {
						return usagef("config init: a host file is not begun by hand; want servebench env > host.yaml, run where the server is")
					}
					kinds := append(runfile.Kinds(), runfile.KindSubject)
					return printOf(c, t, kinds, func(kind string) ([]byte, error) { return runfile.Starter(kind), nil })
				}),
			configSubcommand("schema", "print the JSON Schema of a kind of file", "[run|experiment]",
				func(c *cli.Context) error {
					return printOf(c, t, runfile.Kinds(), func(kind string) ([]byte, error) { return runfile.Schema(kind, fileFlags()) })
				}),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("config %s is no command; want %s", quoteWord(c.Args().First()), strings.Join(subcommandNames(c.Command), ", "))
			}
			return cli.ShowSubcommandHelp(c)
		},
	}
}

func configSubcommand(name, usage, args string, action cli.ActionFunc, flags ...cli.Flag) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, ArgsUsage: args, Flags: flags, HideHelpCommand: true, OnUsageError: wrongFlag,
		Action: func(c *cli.Context) error {
			for _, word := range c.Args().Slice() { // the flag package stops at the first word that is no flag
				if len(word) > 1 && word[0] == '-' {
					return usagef("config %s: %s after a word; want flags first, and ./ before a file whose name begins with -", name, quoteWord(word))
				}
			}
			return action(c)
		},
	}
}

// printOf prints what belongs to the kind of file that is named, one of kinds; a
// run unless one is.
func printOf(c *cli.Context, t *terminal, kinds []string, f func(kind string) ([]byte, error)) error {
	kind := cmp.Or(c.Args().First(), runfile.KindRun)
	if c.Args().Len() > 1 || !slices.Contains(kinds, kind) {
		return usagef("config %s: %s; want one of %s", c.Command.Name, quoteWord(strings.Join(c.Args().Slice(), " ")), strings.Join(kinds, ", "))
	}
	text, err := f(kind)
	if err != nil {
		return err
	}
	if _, err := t.out.Write(text); err != nil {
		return &exitError{code: exitUnsaved, err: fmt.Errorf("standard output: %w", err)}
	}
	return nil
}

// checkFiles checks each file, and says what it would run.
func checkFiles(c *cli.Context, t *terminal) error {
	names := c.Args().Slice()
	if len(names) == 0 {
		names = []string{standardInput}
	}
	bad := 0
	for _, name := range names {
		var out strings.Builder
		if err := t.checkFile(c.Context, &out, name, c.Bool(resolvedFlag.Name)); err != nil {
			bad++
			t.fail(err)
			continue
		}
		if _, err := io.WriteString(t.out, out.String()); err != nil {
			return &exitError{code: exitUnsaved, err: fmt.Errorf("standard output: %w", err)}
		}
	}
	if bad > 0 {
		return &exitError{code: exitUsage, err: fmt.Errorf("config check: not passed by %d of %d", bad, len(names))}
	}
	return nil
}

func (t *terminal) checkFile(ctx context.Context, w io.Writer, name string, resolved bool) error {
	data, err := t.read(name)
	if err != nil {
		return err
	}
	shown := shownFile(name)
	switch runfile.KindOf(data) {
	case runfile.KindSubject:
		s, err := manifest.ParseSubject(shown, data)
		if err != nil {
			return err
		}
		sayf(w, "%s: a subject: %s%s", shown, s.Identifier, lacking(data, subjectFacts))
		return nil
	case runfile.KindHost:
		env, err := manifest.ParseHost(shown, data)
		if err != nil {
			return err
		}
		sayf(w, "%s: a host: %s%s", shown, hostInWords(env), lacking(data, hostFacts))
		return nil
	case runfile.KindExperiment:
		x, err := t.expand(ctx, shown, data, given{})
		if err != nil {
			return err
		}
		for _, warning := range x.Warnings {
			t.notef("warning: %s", warning)
		}
		return x.describe(w, shown, resolved)
	}
	r, err := runfile.ParseRun(shown, data, fileOptions())
	if err != nil {
		return err
	}
	o, err := t.resolveRun(ctx, r, given{})
	if err != nil {
		return err
	}
	if err := o.valid(); err != nil {
		return err
	}
	for _, n := range append(r.Notes(), o.notes()...) {
		t.notef("%s: %s", shown, n)
	}
	if resolved {
		return writeResolved(w, o)
	}
	sayf(w, "%s: a run: %s", shown, o.inWords())
	return nil
}

// What the publishable profile wants of a subject and of a host, and nothing else
// is sure to know.
var (
	subjectFacts = []string{"revision", "architecture", "quantization", "modifications", "parameter_count_total", "parameter_count_active"}
	hostFacts    = []string{"os", "cpu", "kernel", "host_architecture", "system_memory_bytes", "accelerators", "driver_versions"}
)

// lacking says which of the keys a file that was read does not have.
func lacking(data []byte, keys []string) string {
	var has map[string]any
	if err := yaml.Unmarshal(data, &has); err != nil {
		return ""
	}
	var out []string
	for _, k := range keys {
		if _, ok := has[k]; !ok {
			out = append(out, k)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return "; for publication it lacks " + strings.Join(out, ", ")
}

// hostInWords is a host in a few words.
func hostInWords(e *manifest.Environment) string {
	parts := []string{cmp.Or(e.OS, "unknown system")}
	if e.CPU != nil && e.CPU.Model != "" {
		parts = append(parts, e.CPU.Model)
	}
	for _, a := range e.Accelerators {
		parts = append(parts, fmt.Sprintf("%d x %s", a.Count, a.Model))
	}
	return strings.Join(parts, ", ")
}

// writeResolved writes the run file that a manifest would hold.
func writeResolved(w io.Writer, o *options) error {
	text, err := yaml.JSONToYAML(o.config.RunFile)
	if err != nil {
		return fmt.Errorf("the resolved run file: %w", err)
	}
	_, err = w.Write(text)
	return err
}

// inWords is what the options would run, in a line.
func (o *options) inWords() string {
	c := &o.config
	s := fmt.Sprintf("%s of %s by %s", count(c.Dataset.Prompts, "request"), c.Dataset.Name, c.Backend)
	if c.MaxConcurrency > 0 {
		s += fmt.Sprintf(", %d at a time", c.MaxConcurrency)
	}
	if !c.Rate.IsInf() {
		s += fmt.Sprintf(", %v a second", c.Rate)
	}
	switch {
	case o.server != nil:
		s += ", on " + count(max(1, o.server.Replicas), "server") + " started by: " + publicServerCommand(&o.config, o.server)
	case o.sim != nil:
		s += ", on the embedded simulator"
	default:
		s += ", on the server at " + c.Target.BaseURL
	}
	return s
}

// describe says what an experiment would run.
func (x *experiment) describe(w io.Writer, name string, resolved bool) error {
	trials := 0
	for _, p := range x.Points {
		trials += max(1, p.Repeat)
	}
	if !resolved {
		sayf(w, "%s: the experiment %s: %s, %s, %s", name, x.About.ID, count(len(x.Points), "point"), count(trials, "trial"), count(len(x.Aggregates), "computed run"))
	}
	for i, p := range x.Points {
		if resolved {
			fmt.Fprintf(w, "---\n# %s\n", printable(p.ID))
			if err := writeResolved(w, x.Options[i]); err != nil {
				return err
			}
			continue
		}
		times := ""
		if p.Repeat > 1 {
			times = fmt.Sprintf(", %d times", p.Repeat)
		}
		sayf(w, "  %s (%s%s): %s", p.ID, p.Group, times, x.Options[i].inWords())
	}
	for _, a := range x.Aggregates {
		if !resolved {
			sayf(w, "  %s (%s): the sum of %s", a.ID, a.Group, strings.Join(a.Sum, ", "))
		}
	}
	return nil
}
