package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/bench/sweep"
)

// This file is the sweep without a file: `servebench serve` with lists for flags that
// take them is an experiment over these values.

// shorthandID begins the ids of such experiments.
const shorthandID = "sweep-"

// listFlag is the first flag that was given a list, "" if none was.
func listFlag(words []string) string {
	for _, w := range words {
		name, value, _ := strings.Cut(strings.TrimPrefix(w, "--"), "=")
		if flagByName[name].List && strings.Contains(value, ",") {
			return name
		}
	}
	return ""
}

// choice is one value of a flag.
type choice struct{ flag, value string }

// expandLists returns the words of each combination of values, and those values; the
// flag that comes last in the table changes fastest.
func expandLists(words []string) (all [][]string, choices [][]choice, err error) {
	all, choices = [][]string{nil}, [][]choice{nil}
	for _, w := range words {
		name, value, _ := strings.Cut(strings.TrimPrefix(w, "--"), "=")
		values := []string{value}
		if flagByName[name].List {
			values = strings.Split(value, ",")
		}
		var longer [][]string
		var chosen [][]choice
		for i := range all {
			for j, v := range values {
				if slices.ContainsFunc(values[:j], func(o string) bool { return o == v || sameNumber(o, v) }) {
					return nil, nil, fmt.Errorf("--%s: %s is there twice; want each value once", name, quoteWord(v))
				}
				longer = append(longer, append(slices.Clone(all[i]), "--"+name+"="+v))
				c := slices.Clone(choices[i])
				if len(values) > 1 {
					c = append(c, choice{name, v})
				}
				chosen = append(chosen, c)
			}
		}
		if w == "--"+name {
			longer, chosen = nil, nil
			for i := range all {
				longer, chosen = append(longer, append(slices.Clone(all[i]), w)), append(chosen, choices[i])
			}
		}
		all, choices = longer, chosen
		if len(all) > mostPoints {
			return nil, nil, fmt.Errorf("--%s: more than %d runs; want shorter lists", name, mostPoints)
		}
	}
	return all, choices, nil
}

// sameNumber tells whether two values are one: 1e2 and 100, inf and Infinity.
func sameNumber(a, b string) bool {
	x, errX := strconv.ParseFloat(a, 64)
	y, errY := strconv.ParseFloat(b, 64)
	return errX == nil && errY == nil && x == y
}

// mostPoints bounds the points of lists.
const mostPoints = 1000

// serveLists runs the sweep over the lists in words. read makes options of the words
// of one run.
func serveLists(ctx context.Context, words []string, t *terminal, read func(context.Context, []string) (*options, error)) error {
	all, choices, err := expandLists(words)
	if err != nil {
		return &exitError{code: exitUsage, err: err}
	}
	s := &study{}
	for i, w := range all {
		o, err := read(ctx, w)
		if err != nil {
			return err
		}
		o.config.Command = append([]string{"servebench", "serve"}, w...)
		s.options = append(s.options, o)
		s.experiment.Points = append(s.experiment.Points, listPoint(o, choices[i]))
	}
	first := s.options[0]
	id := shorthandID + slug(cmp.Or(first.config.Label, first.config.Backend)+"-"+filepath.Base(first.config.Model), 60)
	id = strings.TrimRight(id, "-.") + "-" + time.Now().Format("20060102-150405")
	s.experiment.About = sweep.About{ID: id, Title: listTitle(first, choices)}
	s.dir = filepath.Join(cmp.Or(first.dir, "."), id)
	return s.run(ctx, t)
}

// shortNames are the flags in ids and groups.
var shortNames = map[string]string{"max-concurrency": "concurrency", "request-rate": "rate"}

func listPoint(o *options, chosen []choice) sweep.Point {
	p := sweep.Point{Config: o.config, Server: o.server, Deadline: o.deadline}
	var id, name, group []string
	for _, c := range chosen {
		short := cmp.Or(shortNames[c.flag], c.flag)
		id = append(id, short+"-"+slug(c.value, 40))
		name = append(name, strings.ReplaceAll(c.flag, "-", " ")+" "+c.value)
		group = append(group, short)
		p.Vary = append(p.Vary, sweep.Setting{Key: strings.ReplaceAll(c.flag, "-", "_"), Value: choiceValue(c)})
	}
	p.ID, p.Name, p.Group = strings.Join(id, "-"), strings.Join(name, ", "), strings.Join(group, "-")
	return p
}

// choiceValue is a flag's value as JSON can hold it.
func choiceValue(c choice) any {
	if n, err := strconv.Atoi(c.value); err == nil {
		return n
	}
	if v, err := strconv.ParseFloat(c.value, 64); err == nil && !math.IsInf(v, 0) {
		return v
	}
	return c.value // inf
}

func listTitle(o *options, choices [][]choice) string {
	var flags []string
	for _, c := range choices[0] {
		flags = append(flags, strings.ReplaceAll(c.flag, "-", " "))
	}
	return fmt.Sprintf("%s: %s", cmp.Or(o.config.Model, o.config.Backend), strings.Join(flags, " × "))
}

// embeddedName stands in the command of a server that runs in this process.
const embeddedName = "servebench: the embedded simulator"

func isEmbedded(c *server.Config) bool {
	return c != nil && len(c.Command) > 0 && c.Command[0] == embeddedName
}

// embed makes --sim the server of the points that have it, and returns what starts
// servers: points with the same simulator share it. What there is to know of a
// simulator is told to note.
func (s *study) embed(t *terminal, note func(string)) func(context.Context, server.Config) (sweep.Server, error) {
	simulated := map[string]*options{}
	for i, o := range s.options {
		p := &s.experiment.Points[i]
		if o.sim == nil || p.Server != nil {
			continue
		}
		text, err := json.Marshal(struct {
			*sim.Config
			Like *likeness `json:",omitempty"`
		}{o.sim, o.like})
		if err != nil { // it has no such field; a name of its own keeps the points apart
			text = fmt.Append(nil, i)
		}
		p.Config.InProcess = true
		p.Server, p.Digest = &server.Config{Command: []string{embeddedName, string(text)}}, ""
		if simulated[string(text)] == nil {
			simulated[string(text)] = o
		}
	}
	return func(ctx context.Context, c server.Config) (sweep.Server, error) {
		if isEmbedded(&c) {
			return simulated[c.Command[1]].startSim(note)
		}
		return startServer(ctx, t, c)
	}
}
