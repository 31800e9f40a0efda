package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// sweep runs `vllm bench sweep serve`, which starts a server of its own, with
// servebench as its client and with vLLM's, and then `sweep plot` on what came
// out: the two summaries must have the same columns, but for servebench's own.
func (s *suite) sweep(ctx context.Context) error {
	points := s.path("sweep-points.json")
	if err := os.WriteFile(points, []byte(`[{"max_concurrency": 2}, {"max_concurrency": 8}]`), 0o666); err != nil {
		return err
	}
	var tables [2][][]string
	var problems []string
	for i, who := range []client{ours, theirs} {
		folder := s.path("sweep-" + string(who))
		table, err := s.sweepWith(ctx, who, points, folder)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", who, err))
			continue
		}
		tables[i] = table
	}
	if len(problems) == 0 {
		problems = summaries(tables[0], tables[1])
	}
	s.check("sweep: `vllm bench sweep serve` and `sweep plot`, two points", problems...)
	return nil
}

// sweepWith runs a sweep and returns its summary.csv.
func (s *suite) sweepWith(ctx context.Context, who client, points, folder string) ([][]string, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	if err := os.RemoveAll(folder); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	bench := s.binary + " serve"
	if who == theirs {
		bench = filepath.Join(s.base, "venv/bin/vllm") + " bench serve"
	}
	bench += fmt.Sprintf(" --host 127.0.0.1 --port %d --model %s --tokenizer %s --random-input-len 48 --random-output-len 8 --num-prompts 24",
		port, modelName, s.tokenizer())
	c := command(ctx, "bash", filepath.Join(s.scripts, "sweep.sh"), bench, strconv.Itoa(port), points, folder)
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("sweep.sh: %w: %s", err, (&ended{stderr: string(out)}).tail())
	}
	f, err := os.Open(filepath.Join(folder, "e2e/summary.csv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	table, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	if pictures, _ := filepath.Glob(filepath.Join(folder, "e2e/*.png")); len(pictures) == 0 {
		return nil, fmt.Errorf("sweep plot left no picture in %s", folder)
	}
	return table, nil
}

// summaries compares two summary.csv files.
func summaries(us, them [][]string) (problems []string) {
	if len(us) != 3 || len(them) != 3 {
		return []string{fmt.Sprintf("%d and %d lines, want a header and two points", len(us), len(them))}
	}
	columns := slices.DeleteFunc(slices.Clone(us[0]), func(k string) bool { return slices.Contains(own, k) })
	if !slices.Equal(columns, them[0]) {
		problems = append(problems, fmt.Sprintf("the columns are\n%s\nvLLM's are\n%s", strings.Join(columns, " "), strings.Join(them[0], " ")))
	}
	for _, k := range []string{"completed", "max_concurrency", "run_number"} {
		for row := 1; row < 3; row++ {
			if a, b := cellOf(us, k, row), cellOf(them, k, row); a != b {
				problems = append(problems, fmt.Sprintf("point %d: %s is %s, vLLM's %s", row, k, a, b))
			}
		}
	}
	return problems
}

func cellOf(table [][]string, column string, row int) string {
	i := slices.Index(table[0], column)
	if i < 0 {
		return "absent"
	}
	return table[row][i]
}
