package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/servebench/servebench/bench/internal/simproc"
)

// measured are two requests of three tokens. The simulator had them at 0 ms, wrote
// after 500, 510 and 520 ms; the clients' stamps come 1 ms later, the last one 3 ms.
func measured() (*result, map[string]simproc.Stamps) {
	r := &result{Completed: 2, TTFTs: []float64{.501, .501}, ITLs: [][]float64{{.010, .012}, {.010, .012}}}
	truth := map[string]simproc.Stamps{}
	for i := range 2 {
		id := fmt.Sprint("run1-", i)
		truth[id] = simproc.Stamps{ID: id, Arrived: 1e9, Entered: 1e9 + int64(i)*1e6, Writes: []int64{1.5e9, 1.51e9, 1.52e9, 1.52e9, 1.52e9}}
	}
	return r, truth
}

func TestFiguresOf(t *testing.T) {
	r, truth := measured()
	f, err := figuresOf(r, truth, "run1-", time.Unix(0, 8e8), 2, 3)
	// The p99 of 10 10 12 12 ms is 12.
	if err != nil || math.Abs(f.ttft-1) > 1e-9 || math.Abs(f.itl-2) > 1e-9 || f.first != 200 || !math.IsNaN(f.cpu) {
		t.Errorf("%+v, %v", f, err)
	}
	for name, spoil := range map[string]func(*result, map[string]simproc.Stamps){
		"a failed request":         func(r *result, _ map[string]simproc.Stamps) { r.Completed = 1 },
		"a request of another run": func(_ *result, m map[string]simproc.Stamps) { m["run0-1"] = m["run1-1"]; delete(m, "run1-1") },
		"a gap that was not seen":  func(r *result, _ map[string]simproc.Stamps) { r.ITLs[1] = r.ITLs[1][:1] },
		"a write that is not there": func(_ *result, m map[string]simproc.Stamps) {
			s := m["run1-0"]
			s.Writes = s.Writes[:4]
			m["run1-0"] = s
		},
		"more requests": func(_ *result, m map[string]simproc.Stamps) { m["other"] = simproc.Stamps{} },
	} {
		r, truth := measured()
		spoil(r, truth)
		if f, err := figuresOf(r, truth, "run1-", time.Now(), 2, 3); err == nil {
			t.Errorf("%s: %+v and no error", name, f)
		}
	}
}

func TestTable(t *testing.T) {
	peers := []peer{{name: "servebench"}, {name: "slow"}, {name: "absent", why: "nobody sells it"}}
	runs := map[string][]figures{
		"servebench": {{ttft: .5, itl: -.01, cpu: 8, peak: 40, first: 100}, {ttft: .7, itl: .02, cpu: 10, peak: 50, first: 120}, {ttft: .6, itl: .02, cpu: 9, peak: 41, first: 110}},
		"slow":       {{ttft: 5, itl: 70, cpu: 80, peak: 800, first: 9000}, {ttft: 14, itl: 80, cpu: 100, peak: 800, first: 9000}},
	}
	one := map[string][]figures{"servebench": {{cpu: math.NaN()}}, "slow": {{cpu: math.NaN()}}}
	var b strings.Builder
	write(&b, peers, []table{{500, runs, nil}, {1, one, errors.New("1 streams, run 2: exit status 1")}}, "MACHINE")
	got := b.String()
	for _, want := range []string{
		"| streams | | servebench | slow | ratio |\n|---|---|---|---|---|\n",
		"| 500 | TTFT p50 error, ms | 0.600 (0.500–0.700, n=3) | 9.50 (5.00–14.0, n=2) | 15.0 × |", // 10 and 20 times
		"|  | ITL p99 error, ms | 0.020 (-0.010–0.020, n=3) | 75.0 (70.0–80.0, n=2) | – |",         // ours was below zero
		"|  | peak memory, MB | 41.0 (40.0–50.0, n=3) | 800 (800–800, n=2) | 18.0 × |",
		"|  | CPU per event, µs | not measured | not measured | – |",
		"absent: not measured: nobody sells it.",
		"not measured: 1 streams, run 2: exit status 1.",
		"MACHINE",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// Without vLLM the program says so, and does not pass.
func TestMissingPeer(t *testing.T) {
	self := t.TempDir()
	o := options{binary: self, base: self}
	peers, err := o.find()
	if err != nil || peers[0].why != "" || !strings.Contains(peers[1].why, "setup.sh") || peers[2].why == "" {
		t.Errorf("%+v, %v", peers, err)
	}
	o.binary += "/none"
	if _, err := o.find(); err == nil || !strings.Contains(err.Error(), "`make` builds it") {
		t.Errorf("%v", err)
	}
}

func TestFlags(t *testing.T) {
	for words, want := range map[string]string{
		"-streams 0":        `"0"; want numbers from 1 to 2000`,
		"-streams 1,x":      `"x"; want numbers`,
		"-runs 0":           "-runs wants 1 or more",
		"-binary /none/one": "no such file",
		"word":              "no other words",
	} {
		var out, errs strings.Builder
		if code := run(t.Context(), strings.Fields(words), &out, &errs); code == 0 || !strings.Contains(errs.String(), want) || out.Len() > 0 {
			t.Errorf("%s: exit %d, %q, want %q", words, code, errs.String(), want)
		}
	}
	if n, err := numbers("1, 50"); err != nil || !slices.Equal(n, []int{1, 50}) {
		t.Errorf("%v, %v", n, err)
	}
}
