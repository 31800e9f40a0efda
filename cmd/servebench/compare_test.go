package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "repeats")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		write(t, folder, string(rune('a'+i))+".json", runAt(i, 980+float64(i)))
	}
	// The manifest beside tells what serves; what is neither is left alone.
	write(t, folder, "a.manifest.json", `{"kind": "run", "outcome": "completed", "runtime": {"engine": "vllm", "version": "1.2"}, "results": {"successful_requests": 100, "failed_requests": 0, "total_output_tokens": 1000, "duration_seconds": 10.00}}`)
	write(t, folder, "repeats.json", `{"schema": "servebench.repeats/1"}`)
	a, b := write(t, dir, "a.json", runAt(0, 900)), write(t, dir, "b.json", runAt(0, 910))
	simulated := write(t, dir, "s.json", strings.Replace(runAt(0, 900), `"failed"`, `"simulated": true, "failed"`, 1))
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{a, b}, 0, "output_throughput (/s)"},
		{[]string{a, b, folder}, 0, "(3 runs)"},
		{[]string{a, folder}, 0, "engine_version: (not told) -> "},
		{[]string{"--format", "csv", a, folder}, 0, "change_low"},
		{[]string{"--format", "markdown", a, folder}, 0, "| metric |"},
		{[]string{simulated, simulated}, 0, "simulator"},
		{[]string{a, simulated}, exitInvalid, "simulated and real"},
		{[]string{a}, exitUsage, "two or more"},
		{[]string{"--format", "xml", a, b}, exitUsage, "--format"},
		{[]string{a, filepath.Join(dir, "none.json")}, exitUsage, "none.json"},
		{[]string{a, write(t, dir, "cut.json", runAt(0, 900)[:80])}, exitUsage, "cut.json"},
		{[]string{a, t.TempDir()}, exitUsage, "no result in the folder"},
	} {
		code, out, errs := command(t, append([]string{"compare"}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.says) || strings.Contains(out, "\x1b") || (code != 0) != (out == "") {
			t.Errorf("%q: exit %d, want %d …%s…\n%s%s", c.args, code, c.code, c.says, out, errs)
		}
	}
	_, out, _ := command(t, "compare", "--format", "json", a, folder)
	if !json.Valid([]byte(out)) {
		t.Error(out)
	}
}

// A table ends up in comments: nothing private is in it, but that it differs is.
func TestCompareLeaks(t *testing.T) {
	canary(t)
	dir := filepath.Join(t.TempDir(), canaryUser)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	of := func(name string) string {
		return write(t, dir, name, strings.Replace(runAt(0, 900), `"m"`, `"`+canaryHome+`/`+name+` `+everything+`"`, 1))
	}
	a, b := of("a.json"), of("b.json")
	for _, format := range []string{"text", "markdown", "csv", "json"} {
		code, out, errs := command(t, "compare", "--format", format, a, b)
		if code != 0 || strings.Contains(out, "canary") || strings.Contains(out, "10.1.2.3") || format != "csv" && !strings.Contains(out, "model") {
			t.Errorf("exit %d %s%s", code, out, errs)
		}
	}
}
