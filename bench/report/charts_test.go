package report

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/metrics"
)

// Seven requests of 1 s one after another, a token at 0.5 s and one at the end. The
// page has the course of the run with its window, the intervals that seven samples
// have and null for those that they have not.
func TestTimelineSaysHowSureItIs(t *testing.T) {
	var records []metrics.Record
	for i := range 7 {
		sent := time.Duration(i) * time.Second
		records = append(records, metrics.Record{
			Seq: i, Due: sent, Slot: sent, Sent: sent, Done: sent + time.Second, Outcome: metrics.OK, OutputTokens: 2, TokenSource: metrics.FromUsage,
			Arrivals: []time.Duration{sent + time.Second/2, sent + 999*msec}, RxDelay: make([]time.Duration, 2),
		})
	}
	s := metrics.Summarize(records, metrics.Options{Percentiles: []float64{99.9}})
	a := metrics.Analyze(records, s, metrics.Options{}, metrics.Load{Concurrency: 1})
	settled := 2 * time.Second
	a.Steady.Settled = &settled
	rate := &metrics.Estimate{Value: 2, Interval: metrics.Interval{Low: 1.5, High: 2.5}, Batches: 5}
	a.Throughput = &metrics.Throughput{From: a.Steady.From, To: a.Steady.To, OutputTokens: rate, Requests: rate}
	figures := &Table{
		Summary: s, Analysis: a, Percentiles: []float64{99.9}, Seconds: 7, Sections: []Section{SectionOf("ttft", s.VLLM.TTFT), SectionOf("itl", nil)},
		Own: []Row{{Label: "Ramp lag (client)", Dist: s.RampLag, Client: true}},
	}
	var b bytes.Buffer
	if err := Timeline(&b, Page{Title: "t"}, records, nil, [2]float64{25, 50}, figures); err != nil {
		t.Fatal(err)
	}
	var got sureCharts
	dataOf(t, b.Bytes(), &got)
	c := got.Course
	if c.Slice <= 0 || len(c.Tokens) != len(c.InFlight) || c.InFlight[3] != 1 {
		t.Errorf("the course is %+v", c)
	}
	c.Slice, c.Tokens, c.InFlight = 0, nil, nil
	if diff := cmp.Diff(&course{Window: []float64{0, 7}, WindowName: "steady state", Settled: 2, Rate: 2, Interval: []float64{1.5, 2.5}}, c); diff != "" {
		t.Error(diff)
	}
	want := []percentiles{{
		Name: "TTFT", At: []string{"p50", "p90", "p95", "p99", "p99.9"}, Values: []float64{500, 500, 500, 500, 500},
		Intervals: []*[2]float64{{500, 500}, nil, nil, nil, nil},
	}}
	if diff := cmp.Diff(want, got.Percentiles); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{
		"<td>500.00\n[500.00, 500.00]</td><td>500.00\n[n &lt; 36]</td>", "<td>n &lt; 6636</td>", "<td>Ramp lag (client)</td><td>1</td>",
		`id="course"`, `id="percentiles"`, "Steady output throughput (tok/s): 2.000 [1.500, 2.500]",
	} {
		if !strings.Contains(b.String(), text) {
			t.Errorf("the page lacks %q", text)
		}
	}
}

// A run of which nothing completed has a timeline and no figures.
func TestTimelineOfFailures(t *testing.T) {
	records := []metrics.Record{{Outcome: metrics.Reset, Done: msec}}
	s := metrics.Summarize(records, metrics.Options{})
	var b bytes.Buffer
	if err := Timeline(&b, Page{}, records, nil, [2]float64{25, 50}, &Table{Summary: s, Sections: []Section{SectionOf("ttft", nil)}}); err != nil {
		t.Fatal(err)
	}
	if page := b.String(); !strings.Contains(page, `id="course"`) || strings.Contains(page, `id="percentiles"`) || strings.Contains(page, "<table>") {
		t.Error("the page is not as it should be")
	}
}

// Chunks without a token make the readings differ: the steady state says which its
// gaps are of, and what is known of the gaps between tokens stands beside those alone.
// The plateau is the whole run here, with the same samples.
func TestReadingsAreNotMixed(t *testing.T) {
	var records []metrics.Record
	for i := range 40 {
		sent := time.Duration(i) * time.Second
		r := metrics.Record{Seq: i, Due: sent, Slot: sent, Sent: sent, Done: sent + 999*msec, Outcome: metrics.OK, OutputTokens: 3, TokenSource: metrics.FromUsage, NotBearing: []int{0}}
		for j := range 4 {
			r.Arrivals = append(r.Arrivals, sent+time.Duration(100+200*j+(i*37+j*11)%50)*msec)
		}
		records = append(records, r)
	}
	s := metrics.Summarize(records, metrics.Options{})
	table := &Table{
		Summary: s, Analysis: metrics.Analyze(records, s, metrics.Options{}, metrics.Load{Concurrency: 1}), Sections: []Section{SectionOf("ttft", s.VLLM.TTFT), SectionOf("itl", s.VLLM.ITL)},
		Own: []Row{{Label: "ITL, token events", Dist: s.Token.ITL}},
	}
	var got []string
	for _, row := range table.page().Rows {
		label := row[0]
		if row[len(row)-1] != "" {
			label += " *"
		}
		got = append(got, label)
	}
	if diff := cmp.Diff([]string{"TTFT *", "ITL", "ITL, token events *", "TTFT, steady state *", "ITL (token), steady state *"}, got); diff != "" {
		t.Error(diff)
	}
}
