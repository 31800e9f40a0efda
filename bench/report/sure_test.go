package report_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/bench/report"
	"github.com/servebench/servebench/metrics"
)

var update = flag.Bool("update", false, "rewrite the golden screens")

// load is a schedule of n requests of 4 tokens each, as a server answers it whose
// times vary a little and the same in each run.
type load struct {
	n     int
	slots int           // of a closed loop: each sends when its last one has ended
	every time.Duration // of an open loop
	// slow is by how much each request of an open loop waits longer than the one
	// before: the server does not keep up.
	slow time.Duration
	o    metrics.Options
	a    metrics.Load
}

func (l load) table() *report.Table {
	records := make([]metrics.Record, l.n)
	free := make([]time.Duration, max(l.slots, 1))
	for i := range records {
		r := &records[i]
		due := time.Duration(i) * l.every
		if l.slots > 0 {
			due = free[i%l.slots]
		}
		first := 200*ms + time.Duration(i*37%101)*ms/2 + time.Duration(i)*l.slow
		*r = metrics.Record{
			Seq: i, Due: due, Slot: due, Sent: due + time.Duration(i%3)*10*time.Microsecond, Outcome: metrics.OK, Status: 200, Reused: true,
			PromptTokens: 8, OutputTokens: 4, TokenSource: metrics.FromUsage,
		}
		for j := range 4 {
			r.Arrivals = append(r.Arrivals, r.Sent+first+time.Duration(j)*100*ms+time.Duration((i+j)*13%17)*ms)
			r.RxDelay = append(r.RxDelay, 20*time.Microsecond)
		}
		r.Done = r.Arrivals[3]
		free[i%len(free)] = r.Done
	}
	s := metrics.Summarize(records, l.o)
	t := &report.Table{
		MaxConcurrency: l.slots, Seconds: s.Last.Seconds(), Summary: s, Percentiles: []float64{99},
		Sections: []report.Section{report.SectionOf("ttft", s.VLLM.TTFT), report.SectionOf("tpot", s.VLLM.TPOT), report.SectionOf("itl", s.VLLM.ITL)},
		Own:      []report.Row{{Label: "Lag (client)", Dist: s.Lag, Client: true}, {Label: "Receive delay (client)", Dist: s.RxDelay, Client: true}},
		Analysis: metrics.Analyze(records, s, l.o, l.a),
	}
	t.Own = slices.DeleteFunc(t.Own, func(r report.Row) bool { return r.Dist == nil })
	if l.o.OpenLoop {
		t.Own = append([]report.Row{{Label: "TTFT from due time", Dist: s.TTFTFromDue}}, t.Own...)
	}
	return t
}

// The block below vLLM's table, for people: it fits 100 columns, marks too few
// samples and says what makes an interval less than it looks.
func TestScreensSayHowSureTheyAre(t *testing.T) {
	for name, l := range map[string]load{
		"one":        {n: 1, slots: 1, a: metrics.Load{Concurrency: 1}},
		"five":       {n: 5, slots: 5, a: metrics.Load{Concurrency: 5}},
		"long":       {n: 800, slots: 4, a: metrics.Load{Concurrency: 4}, o: metrics.Options{RawGaps: 1000}},
		"kept_up":    {n: 500, every: 100 * ms, o: metrics.Options{OpenLoop: true, Goodput: map[string]float64{"ttft": 240}}, a: metrics.Load{OpenLoop: true, Shape: 1}},
		"outrun":     {n: 700, every: 100 * ms, slow: 30 * ms, o: metrics.Options{OpenLoop: true}, a: metrics.Load{OpenLoop: true}},
		"too_little": {n: 4, every: 100 * ms, o: metrics.Options{OpenLoop: true}, a: metrics.Load{OpenLoop: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := report.Text(&b, l.table()); err != nil {
				t.Fatal(err)
			}
			_, got, _ := strings.Cut(b.String(), "==================================================\n\n")
			path := filepath.Join("testdata", "sure_"+name+".txt")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
			for line := range strings.Lines(got) {
				if n := utf8.RuneCountInString(line); n > 101 {
					t.Errorf("a line of %d columns: %s", n, line)
				}
			}
			if strings.Contains(got, "NaN") || strings.Contains(got, "Inf") {
				t.Error(got)
			}
		})
	}
}
