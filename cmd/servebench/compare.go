package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/servebench/servebench/bench/compare"
)

// tableForms are the forms in which tables are written.
const tableForms = "text, markdown, csv or json"

// compareCommand is `servebench compare`.
func compareCommand(t *terminal) *cli.Command {
	return &cli.Command{
		Name:      "compare",
		Usage:     "set results side by side: what differs, and the change of each metric",
		ArgsUsage: "A B ...",
		Description: "A, B and further ones are manifests, result files of servebench or vllm bench serve, or folders with repeats of a run. The first is the base.\n" +
			"A change has the 95 % interval that its repeats give, or, for single runs, the one inside the runs; ~ says that nothing can be said.\n" +
			"Exit codes: 0, 2 for what cannot be read, 4 for what cannot be compared, such as simulated with real results.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Value: "text", Usage: tableForms},
			&cli.BoolFlag{Name: "all", Usage: "every figure that the results have, and not the first ones to look at"},
			&cli.BoolFlag{Name: "no-color", Usage: "no colour on a terminal (also: the environment variable NO_COLOR)"},
		},
		Action: func(c *cli.Context) error { return t.compare(c) },
	}
}

func (t *terminal) compare(c *cli.Context) error {
	if c.Args().Len() < 2 {
		return usagef("compare: %d given; want two or more results: files or folders", c.Args().Len())
	}
	write := map[string]func(*compare.Table, io.Writer) error{
		"text":     func(tab *compare.Table, w io.Writer) error { return tab.Text(w, isTerminal(w) && coloured(c)) },
		"markdown": (*compare.Table).Markdown, "csv": (*compare.Table).CSV, "json": (*compare.Table).JSON,
	}[c.String("format")]
	if write == nil {
		return usagef("--format: %q; want %s", c.String("format"), tableForms)
	}
	var sides []compare.Side
	for _, path := range c.Args().Slice() {
		runs, err := readStored(path)
		if err != nil {
			return &exitError{code: exitUsage, err: err}
		}
		sides = append(sides, compare.Side{Name: filepath.ToSlash(path), Runs: runs})
	}
	tab, err := compare.Of(sides)
	if err != nil {
		return &exitError{code: map[bool]int{true: exitInvalid, false: exitUsage}[errors.Is(err, compare.ErrMixed)], err: err}
	}
	if !c.Bool("all") {
		tab = tab.Headline()
	}
	if tab, err = publicTable(tab); err != nil {
		return err
	}
	return write(tab, t.out)
}

// publicTable is a table without what must not be published: it ends up in comments.
// What differs was found before.
func publicTable(tab *compare.Table) (*compare.Table, error) {
	text, err := json.Marshal(tab)
	if err == nil {
		text, err = cleanJSON(text, localRedactor(nil))
	}
	clean := &compare.Table{}
	return clean, errors.Join(err, json.Unmarshal(text, clean))
}

// coloured tells that colour is wanted.
func coloured(c *cli.Context) bool { return !c.Bool("no-color") && os.Getenv("NO_COLOR") == "" }
