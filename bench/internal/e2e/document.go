package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/template"
	"time"
)

//go:embed vllm.md.tmpl
var page string

// document is what docs/vllm.md tells.
type document struct {
	Date, CPU, Kernel       string
	Cores                   int
	Servebench, VLLM, Torch string
	Load, LoadAfter         string // averages over a minute
	Prompts, Runs           int
	Rows                    []row
	Apart                   []string // rows whose ranges do not overlap
	SpecPrompts             int
	Spec                    []specRow
	Speculation             string
	Arrivals                []arrival
	Passed, Failed          int
}

// row is a line of the table.
type row struct{ Label, Ours, Theirs string }

// describe notes the machine and the versions.
func (d *document) describe(ctx context.Context, s *suite, srv *server) error {
	d.Date = time.Now().UTC().Format("2006-01-02")
	d.Cores, d.Speculation = runtime.NumCPU(), speculation
	d.CPU, d.Kernel, d.Load = "unknown", firstLine("/proc/sys/kernel/osrelease"), load()
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				d.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	out, err := command(ctx, s.binary, "--version").Output()
	if err != nil {
		return err
	}
	d.Servebench = strings.TrimSpace(string(out))
	body, err := get(ctx, srv.url+"/version")
	if err != nil {
		return err
	}
	var v struct{ Version string }
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("/version: %w", err)
	}
	d.VLLM, d.Torch = v.Version, "unknown"
	if found, _ := filepath.Glob(filepath.Join(s.base, "venv/lib/python3*/site-packages/torch-*.dist-info")); len(found) > 0 {
		d.Torch = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), "torch-"), ".dist-info")
	}
	return nil
}

// load is the load average of the minute before.
func load() string {
	first, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	return first
}

func firstLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}

// write renders the page.
func (d *document) write(path string) error {
	t, err := template.New("page").Parse(page)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, d); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o666)
}

// LastSeed is that of the last run.
func (d *document) LastSeed() int { return d.Runs - 1 }

// Differing says which rows of the table differ by more than their spread.
func (d *document) Differing() string {
	if len(d.Apart) == 0 {
		return "In every row the two ranges overlap."
	}
	return "The two ranges do not overlap in: " + strings.Join(d.Apart, "; ") + ". In all other rows they do."
}

// PeakBelow says how the peaks stand to the means.
func (d *document) PeakBelow() string {
	below := 0
	for _, r := range d.Spec {
		if r.Peak < r.Rate {
			below++
		}
	}
	switch below {
	case len(d.Spec):
		return "is below the mean"
	case 0:
		return "is above the mean this time, though it counts only part of the tokens"
	}
	return "is below the mean for one client"
}
