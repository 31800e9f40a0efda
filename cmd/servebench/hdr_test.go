package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/servebench/servebench/metrics"
)

// hdrFile writes the log of n requests whose first token took so many ms each.
func hdrFile(t *testing.T, path string, n int, ttft time.Duration) string {
	t.Helper()
	records := make([]metrics.Record, n)
	for i := range records {
		sent := time.Duration(i) * time.Second
		at := sent + ttft
		records[i] = metrics.Record{
			Due: sent, Slot: sent, Sent: sent, Headers: at, Done: at, Status: 200, Outcome: metrics.OK,
			Arrivals: []time.Duration{at}, RxDelay: []time.Duration{0}, OutputTokens: 1, TokenSource: metrics.FromUsage,
		}
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := metrics.WriteHDR(file, records, metrics.Options{}, time.Unix(1_796_068_148, 0), time.Minute); err != nil {
		t.Fatal(err)
	}
	return path
}

// 9 requests of 10 ms and one of 1 s: the percentiles are of the ten together.
func TestHDRCommandMerges(t *testing.T) {
	dir := t.TempDir()
	a, b := hdrFile(t, filepath.Join(dir, "a.hdr"), 9, 10*time.Millisecond), hdrFile(t, filepath.Join(dir, "b.hdr"), 1, time.Second)
	out := filepath.Join(dir, "all.hdr")
	code, text, errs := command(t, "hdr", "--out", out, a, b)
	if code != 0 || !strings.Contains(text, "From histograms of 3 significant digits, of 2 logs") || !strings.Contains(errs, "saved ") {
		t.Fatalf("exit %d, %s, %s", code, text, errs)
	}
	row := ""
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 0 && f[0] == "ttft" {
			row = strings.Join(f, " ")
		}
	}
	// Buckets are 8,192 ns wide at 10 ms, 524,288 ns at 1 s.
	if want := "ttft 10 9.994 109.006 10.002 10.002 1000.342 1000.342 1000.342"; row != want {
		t.Errorf("%q, want %q", row, want)
	}
	// The merged log says the same.
	code, text, _ = command(t, "hdr", "--json", out)
	var doc struct {
		Source  string
		Metrics []struct {
			Metric    string
			Count     int64
			Intervals int
			P         map[string]float64 `json:"percentiles_ms"`
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); code != 0 || err != nil || doc.Source != "histogram" || len(doc.Metrics) == 0 {
		t.Fatalf("exit %d, %v: %s", code, err, text)
	}
	if m := doc.Metrics[0]; m.Metric != "ttft" || m.Count != 10 || m.Intervals != 1 || m.P["p90"] > 10.1 || m.P["p99"] < 999 {
		t.Errorf("%+v", m)
	}
}

// socket is the path of something that is no regular file, and no loss.
func socket(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return path
}

func TestHDRCommandRefuses(t *testing.T) {
	dir := t.TempDir()
	good := hdrFile(t, filepath.Join(dir, "good.hdr"), 1, time.Millisecond)
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "no file"},
		{[]string{filepath.Join(dir, "none")}, exitUsage, "no such file"},
		{[]string{dir}, exitUsage, "is a folder"},
		{[]string{"--out", good, good}, exitUsage, "one of the logs to read"},
		{[]string{"--bogus", good}, exitUsage, "bogus"},
		{[]string{"--out", socket(t), good}, exitUsage, "no regular file"},
		{[]string{good, "--json"}, exitUsage, "behind a file; want flags first"},
		{[]string{good, write("bad.hdr", "hello\n")}, exitInvalid, "bad.hdr: line 1: no interval"},
		{[]string{write("empty.hdr", "#[Histogram log format version 1.3]\n")}, exitInvalid, "no histogram in 1 file"},
		{[]string{"--out", filepath.Join(dir, "none", "x.hdr"), good}, exitUnsaved, "x.hdr"},
	} {
		code, _, errs := command(t, append([]string{"hdr"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%q: exit %d, %s; want %d and %q", c.args, code, errs, c.code, c.want)
		}
	}
}
