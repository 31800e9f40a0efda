package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tapOf is a line of the middleware: its first token left 30 ms after the headers
// had come, the last one 62 ms later.
func tapOf(id string) string {
	return fmt.Sprintf(`{"id": %q, "entered": 1000000000, "first": 1030000000, "last": 1092000000, "metrics": {"time_to_first_token_ms": 20.5, "generation_time_ms": 62.0, "queue_time_ms": 2.5, "mean_itl_ms": 2.0}}`, id)
}

func TestReadTaps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "timing.log")
	for _, c := range []struct {
		name, want string
		ids        []string
	}{
		{"others and another order", "", []string{"cmpl-warm", "cmpl-a-1", "cmpl-b-0", "cmpl-a-0"}},
		{"one is missing", "noted 1 of 2", []string{"cmpl-a-1"}},
		{"one came twice", `have "cmpl-a-1"`, []string{"cmpl-a-1", "cmpl-a-1"}},
		{"one too many", `have "cmpl-a-2"`, []string{"cmpl-a-0", "cmpl-a-1", "cmpl-a-2"}},
		{"no number", `have "cmpl-a-x"`, []string{"cmpl-a-x"}},
	} {
		var lines strings.Builder
		for _, id := range c.ids {
			fmt.Fprintln(&lines, tapOf(id))
		}
		if err := os.WriteFile(path, []byte(lines.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		taps, err := readTaps(path, "a-", 2)
		switch {
		case c.want == "":
			if err != nil || taps[0].ID != "cmpl-a-0" || taps[1].Metrics.Queue != 2.5 {
				t.Errorf("%s: %+v, %v", c.name, taps, err)
			}
		case err == nil || !strings.Contains(err.Error(), c.want):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

// What a client records must be what the server sent.
func TestSameAsTapped(t *testing.T) {
	s := &suite{dir: t.TempDir()}
	taps := make([]tapped, 1)
	taps[0].Metrics.Queue, taps[0].Metrics.TTFT, taps[0].Metrics.Generation, taps[0].Metrics.ITL = 2.5, 20.5000004, 62, 2
	for record, want := range map[string]string{
		`{"seq":0,"server_timing":{"queue_ns":2500000,"ttft_ns":20500000,"generation_ns":62000000,"mean_itl_ns":2000000}}`: "",
		`{"seq":0,"server_timing":{"queue_ns":2500000,"ttft_ns":20500002,"generation_ns":62000000,"mean_itl_ns":2000000}}`: "has 2.0500002e+07 ns",
		`{"seq":0}`: "no server_timing",
		``:          "0 records of 1",
	} {
		if err := os.WriteFile(s.path("r.requests.jsonl"), []byte(record), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := s.sameAsTapped("r", taps); (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", record, err, want)
		}
	}
}

// The parts of a request's TTFT, and what no server can have done.
func TestSeenTiming(t *testing.T) {
	// 31 ms at the client, 30 at the HTTP layer, 23 in the engine.
	ok := seenTiming{TTFT: 31, HTTPFirst: 30, Queue: 2.5, First: 20.5}
	if ok.Engine() != 23 || ok.Beyond() != 8 || ok.Front() != 7 || ok.Outside() != 1 {
		t.Errorf("engine %v, beyond %v, front %v, outside %v", ok.Engine(), ok.Beyond(), ok.Front(), ok.Outside())
	}
	early := ok
	early.TTFT = 29
	if got := impossible(ours, 0, []seenTiming{ok, early}); len(got) != 1 || !strings.Contains(got[0], "request 1: TTFT 29.000 ms") {
		t.Errorf("%q", got)
	}
}

// The page names everything that a run fills in; the tables have a row a figure.
func TestTimingPage(t *testing.T) {
	p := timingPage{document: document{Date: "D", CPU: "C", Kernel: "K", Load: "7.5", LoadAfter: "9", Servebench: "servebench S", VLLM: "V", Torch: "T", Runs: 3, Cores: 2}}
	one := []seenTiming{{TTFT: 31, HTTPFirst: 30, Queue: 2.5, First: 20.5}, {TTFT: 33, HTTPFirst: 30, Queue: 2.5, First: 20.5}}
	p.add(1, 2, map[client][][]seenTiming{ours: {one}, theirs: {one, one}})
	p.add(8, 2, map[client][][]seenTiming{ours: {one}, theirs: {one}})
	path := filepath.Join(t.TempDir(), "page.md")
	if err := p.write(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, want := range []string{
		"| TTFT, the client's, p50 | 32.000 (32.000–32.000) | 32.000 (32.000–32.000) |", "### 1 stream, 2 requests", "### 8 streams,", "the machine was shared",
		"| 0 | 31.000 | 23.000 | 30.000 | 8.000 | 1.000 | 31.000 |", "| 1 | 33.000 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "<no value>") || strings.Contains(text, "%!") {
		t.Errorf("something is not filled in:\n%s", text)
	}
	if p.Load = "0.9"; p.Shared() {
		t.Error("a quiet machine is not shared")
	}
}
