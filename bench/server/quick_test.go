package server

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestQuickTexts: what every match of an expression has.
func TestQuickTexts(t *testing.T) {
	for _, c := range []struct{ expression, want string }{
		{`uncalibrated FP8`, "uncalibrated fp8"},
		{`(?i)kv cache|Out of Memory`, "kv cache|out of memory"},
		{`^\S.*: error: |^unknown`, ": error: |unknown"},
		{`(?:ab)?xyz*`, "xy"},
		{`(?:ab){0,3}`, ""},
		{`(?:ab){2}`, "ab"},
		{`a|.`, ""},
		{`[a-z]+`, ""},
		{`Preemptions: [1-9]|is preempted`, "preemptions: |is preempted"},
	} {
		if got := strings.Join(quickly(regexp.MustCompile(c.expression)).texts, "|"); got != c.want {
			t.Errorf("%s: %q, want %q", c.expression, got, c.want)
		}
	}
}

// TestQuickExpressions: each expression for a log is run over few lines only, and
// says of each line what it would say alone.
func TestQuickExpressions(t *testing.T) {
	list := []quick{raised}
	for _, r := range reasons {
		list = append(list, r.quick)
	}
	for _, p := range watchFor(nil).list {
		list = append(list, p.quick)
	}
	logs, err := filepath.Glob("testdata/*.log")
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	for _, q := range list {
		if q.texts == nil {
			t.Errorf("%v: it is run over every line", q.re)
		}
		for _, path := range logs {
			log, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for raw := range bytes.Lines(log) {
				line := plain(bytes.TrimRight(raw, "\r\n"))
				if got, want := q.match(line, fold(line)), q.re.MatchString(line); got != want {
					t.Errorf("%v: %v, want %v: %s", q.re, got, want, line)
				}
			}
		}
	}
}

// FuzzQuick: no line that matches is passed over.
func FuzzQuick(f *testing.F) {
	for _, e := range append([]string{`(?i)ſK`, `(?i:kelvin)|a{2,}b+`, `(a|bc)*d`, `\Qa.b\E`, `(?s).x`, `(?U)a+b?`}, defaultWarnings...) {
		f.Add(e, "Preemptions: 1 \u212aELVIN sk aab d a.b")
	}
	f.Fuzz(func(t *testing.T, expression, line string) {
		re, err := regexp.Compile(expression)
		line = plain([]byte(line))
		if err == nil && re.MatchString(line) && !quickly(re).match(line, fold(line)) {
			t.Errorf("%q matches %q and is passed over for %q", expression, line, quickly(re).texts)
		}
	})
}

// BenchmarkFeed is what a line costs that says nothing.
func BenchmarkFeed(b *testing.B) {
	c := &capture{warn: watchFor(nil)}
	const line = "(APIServer pid=1234) INFO 12-01 10:10:10 [loggers.py:123] Engine 000: Avg prompt throughput: 12.0 tokens/s, Running: 3 reqs, Waiting: 0 reqs, GPU KV cache usage: 1.0%\n"
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		c.feed([]byte(line))
	}
}
