package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/metrics"
)

// sweepPoints: two trials, one trial, a failure and another group.
func sweepPoints() []Point {
	f := func(rate, ttft float64) Figures {
		return Figures{Requests: rate, OutputTokens: 10 * rate, TotalTokens: 20 * rate, TTFT: &Quantiles{P50: ttft, P99: 2 * ttft}, E2EL: &Quantiles{P50: 100, P99: 200}}
	}
	return []Point{
		{ID: "c-1", Group: "c", Settings: [][2]string{{"max_concurrency", "1"}}, Status: "completed", Trials: []Figures{f(1, 50), f(3, 70)}},
		{ID: "c-10", Group: "c", Settings: [][2]string{{"max_concurrency", "10"}}, Status: "completed", Trials: []Figures{f(4, 90)}},
		{ID: "c-x", Group: "c", Settings: [][2]string{{"max_concurrency", "99"}}, Status: "failed", Why: "runtime_startup, out_of_memory"},
		{ID: "pooled", Group: "other", Settings: [][2]string{{"device", "0"}}, Status: "completed", Trials: []Figures{{Requests: 7, TotalTokens: 70, Failed: 2, E2EL: &Quantiles{P50: 5, P99: 6}}}},
	}
}

// Medians over trials: (1 + 3) / 2 requests a second, (50 + 70) / 2 ms.
func TestPoints(t *testing.T) {
	var b strings.Builder
	if err := Points(&b, sweepPoints()); err != nil {
		t.Fatal(err)
	}
	want := `point   varied              trials  req/s  out tok/s  tok/s  TTFT p50  TTFT p99  E2EL p50  E2EL p99  failed
c-1     max_concurrency 1        2   2.00       20.0   40.0     60.00    120.00    100.00    200.00       0
c-10    max_concurrency 10       1   4.00       40.0   80.0     90.00    180.00    100.00    200.00       0
c-x     max_concurrency 99  failed: runtime_startup, out_of_memory
pooled  device 0                 1   7.00          -   70.0         -         -      5.00      6.00       2
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

// A screen has 120 columns: the last figures give way, and a line says so. Names do not.
func TestPointsFitTheScreen(t *testing.T) {
	q := &Quantiles{P50: 12345.67, P99: 23456.78}
	points := []Point{
		{ID: "validation-500-kv-auto", Settings: [][2]string{{"max_num_batched_tokens", "12288"}, {"kv", "auto"}}, Status: "completed", Trials: []Figures{{Requests: 4321.5, OutputTokens: 1234567.5, TotalTokens: 12345678.9, TTFT: q, TPOT: q, ITL: q, E2EL: q}}},
		{ID: "sum", Settings: [][2]string{{"sum of", "4 runs"}}, Status: "completed", Trials: []Figures{{Requests: 7}}},
	}
	var b strings.Builder
	if err := Points(&b, points); err != nil {
		t.Fatal(err)
	}
	want := `point                   varied                                   req/s  out tok/s       tok/s  TTFT p50  failed
validation-500-kv-auto  max_num_batched_tokens 12288, kv auto  4321.50  1234567.5  12345678.9  12345.67       0
sum                     sum of 4 runs                             7.00          -           -         -       0
No room here for TTFT p99, TPOT p50, TPOT p99, ITL p50, ITL p99, E2EL p50, E2EL p99; the page has them.
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	points[0].ID = strings.Repeat("x", 130)
	b.Reset()
	if err := Points(&b, points); err != nil || !strings.Contains(b.String(), "  4321.50  ") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// A point has the intervals of its run where it has one trial: between several there
// is more to see. The verdict is the worst of its trials, in the table and the chart.
func TestPointsSayHowSureTheyAre(t *testing.T) {
	in := &metrics.Interval{Low: 85, High: 99}
	points := sweepPoints()[:2]
	for i := range points {
		for j := range points[i].Trials {
			f := &points[i].Trials[j]
			f.TTFT.P50Interval, f.RequestsInterval, f.Verdict = in, &metrics.Interval{Low: 3, High: 5}, metrics.Valid
		}
	}
	points[0].Trials[1].Verdict = metrics.Suspect
	var b strings.Builder
	if err := Points(&b, points); err != nil {
		t.Fatal(err)
	}
	want := `point  varied              trials  req/s  out tok/s  tok/s  TTFT p50  TTFT p99  E2EL p50  E2EL p99  failed  verdict
c-1    max_concurrency 1        2   2.00       20.0   40.0     60.00    120.00    100.00    200.00       0  SUSPECT
c-10   max_concurrency 10       1   4.00       40.0   80.0     90.00    180.00    100.00    200.00       0    VALID
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	panels := panelsOf("c", points)
	rate, ttft := panels[0], panels[3]
	if diff := cmp.Diff([]*[2]float64{nil, {3, 5}}, rate.Series[0].Intervals); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]*[2]float64{nil, {85, 99}}, ttft.Series[0].Intervals); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]*[2]float64{nil, nil}, ttft.Series[1].Intervals); diff != "" {
		t.Errorf("p99 has none: %s", diff)
	}
	if !slices.Equal(rate.Verdicts, []metrics.Verdict{metrics.Suspect, metrics.Valid}) {
		t.Error(rate.Verdicts)
	}
}

func TestComparison(t *testing.T) {
	var b bytes.Buffer
	points := sweepPoints()
	points[0], points[1] = points[1], points[0] // charts put numbers in order
	if err := Comparison(&b, Page{Title: "</title><script>alert(1)</script>"}, points); err != nil {
		t.Fatal(err)
	}
	var got comparison
	dataOf(t, b.Bytes(), &got)
	var titles []string
	for _, p := range got.Panels {
		titles = append(titles, p.Title)
	}
	want := []string{
		"c: requests a second", "c: output tokens a second", "c: all tokens a second", "c: TTFT, ms", "c: E2EL, ms",
		"other: requests a second", "other: all tokens a second", "other: E2EL, ms",
	}
	if diff := cmp.Diff(want, titles); diff != "" {
		t.Error(diff)
	}
	v := func(f float64) *float64 { return &f }
	first := panel{"c: TTFT, ms", "max_concurrency", []string{"1", "10"}, true, []metrics.Verdict{"", ""}, []panelLine{
		{"p50", []*float64{v(60), v(90)}, [][]float64{{50, 70}, {}}, []*[2]float64{nil, nil}}, {"p99", []*float64{v(120), v(180)}, [][]float64{{100, 140}, {}}, []*[2]float64{nil, nil}},
	}}
	if diff := cmp.Diff(first, got.Panels[3]); diff != "" {
		t.Error(diff)
	}
	if got := panelsOf("g", []Point{points[0], {ID: "base", Trials: points[0].Trials}}); !slices.Equal(got[0].Labels, []string{"10", "base"}) || got[0].Lines {
		t.Errorf("a point without the setting: %+v", got[0])
	}
	if got.Panels[5].Lines || got.Panels[5].Labels[0] != "pooled" {
		t.Errorf("a group of one is %+v", got.Panels[5])
	}
	page := b.String()
	if strings.Contains(page, "<script>alert") || strings.Count(page, `class="chart"`) != len(want) || !strings.Contains(page, "<td>failed: runtime_startup, out_of_memory</td>") {
		t.Error("the page is not as it should be")
	}
	if err := Comparison(&b, Page{}, sweepPoints()[2:3]); err == nil {
		t.Error("a comparison of nothing was written")
	}
}
