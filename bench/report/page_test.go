package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/metrics"
)

const msec = time.Millisecond

func at(list ...int) (out []time.Duration) {
	for _, v := range list {
		out = append(out, time.Duration(v)*msec)
	}
	return out
}

// dataOf returns what the page's script is given.
func dataOf(t *testing.T, page []byte, into any) {
	t.Helper()
	_, rest, ok := strings.Cut(string(page), "var DATA = ")
	raw, _, ok2 := strings.Cut(rest, ";</script>")
	if !ok || !ok2 {
		t.Fatal("the page has no data")
	}
	if err := json.Unmarshal([]byte(raw), into); err != nil {
		t.Fatal(err)
	}
}

func TestTimelineSegments(t *testing.T) {
	limits := [2]float64{25, 50}
	for name, c := range map[string]struct {
		rec  metrics.Record
		want []segment
	}{
		"neighbours of one colour are one bar": {
			metrics.Record{Outcome: metrics.OK, Due: 5 * msec, Sent: 10 * msec, Arrivals: at(110, 120, 144, 169, 219, 300), Done: 301 * msec},
			[]segment{{3, segQueue, 5, 10, 1, 5}, {3, segTTFT, 10, 110, 1, 100}, {3, segShort, 110, 144, 2, 24}, {3, segMiddle, 144, 169, 1, 25}, {3, segLong, 169, 300, 2, 81}},
		},
		"one event": {metrics.Record{Outcome: metrics.OK, Arrivals: at(7)}, []segment{{3, segTTFT, 0, 7, 1, 7}}},
		"in one piece": {metrics.Record{Outcome: metrics.OK, Sent: msec, Due: msec, Done: 9 * msec},
			[]segment{{3, segAnswer, 1, 9, 1, 8}}},
		"failed before an event": {metrics.Record{Outcome: metrics.HTTP, Done: 2 * msec}, []segment{{3, segFailed, 0, 2, 1, 2}}},
		"failed after some": {metrics.Record{Outcome: metrics.Truncated, Arrivals: at(4, 5), Done: 8 * msec},
			[]segment{{3, segTTFT, 0, 4, 1, 4}, {3, segShort, 4, 5, 1, 1}, {3, segFailed, 5, 8, 1, 3}}},
	} {
		if diff := cmp.Diff(c.want, segmentsOf(&c.rec, 3, limits)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestTimelinePage(t *testing.T) {
	records := []metrics.Record{
		{Outcome: metrics.OK, Arrivals: at(1, 2)},
		{}, // never sent
		{Seq: 2, Outcome: metrics.Reset, Error: "</script><script>alert(1)</script>", Done: msec},
	}
	var b bytes.Buffer
	evil := `</title><script>alert("x")</script>`
	p := Page{Title: evil, Simulated: true, Facts: [][2]string{{"model", evil}}, Notes: []string{evil}}
	if err := Timeline(&b, p, records, nil, [2]float64{25, 50}, nil); err != nil {
		t.Fatal(err)
	}
	var got timeline
	dataOf(t, b.Bytes(), &got)
	if len(got.Requests) != 2 || got.Requests[1].Label != "request 2" || len(got.Segments) != 3 {
		t.Errorf("requests %v, segments %v", got.Requests, got.Segments)
	}
	page := b.String()
	if strings.Contains(page, "<script>alert") || strings.Count(page, "<script>") != 3 {
		t.Error("text of the run became markup")
	}
	if !strings.Contains(page, "SIMULATED") {
		t.Error("the page does not say that it is simulated")
	}
	if !strings.Contains(page, "default-src 'none'") {
		t.Error("the page may load something")
	}
	if err := Timeline(&b, p, records[1:2], nil, [2]float64{25, 50}, nil); err == nil {
		t.Error("a timeline of nothing was written")
	}
}

// TestTimelineSaysWhatItLeavesOut: too many bars are not dropped in silence.
func TestTimelineSaysWhatItLeavesOut(t *testing.T) {
	var gaps []int
	for i := range 1000 {
		gaps = append(gaps, 50*i+25*(i%2)) // gaps of 75 and 25 ms in turn
	}
	records := make([]metrics.Record, 300)
	for i := range records {
		records[i] = metrics.Record{Seq: i, Outcome: metrics.OK, Arrivals: at(gaps...)}
	}
	var b bytes.Buffer
	if err := Timeline(&b, Page{}, records, nil, [2]float64{25, 50}, nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "250 of 300 requests are drawn") {
		t.Error("the page does not say what it leaves out")
	}
}

func TestLengthsPage(t *testing.T) {
	records := []metrics.Record{
		{Outcome: metrics.OK, PromptTokens: 10, OutputTokens: 4},
		{Outcome: metrics.HTTP, PromptTokens: 99},
		{Outcome: metrics.OK, PromptTokens: 72, OutputTokens: 4},
	}
	var b bytes.Buffer
	if err := Lengths(&b, Page{Title: "t"}, records); err != nil {
		t.Fatal(err)
	}
	var got lengths
	dataOf(t, b.Bytes(), &got)
	counts := make([]int, 21)
	counts[0], counts[20] = 1, 1
	want := []histogram{
		{"prompt", 10, 3, counts}, {"output", 4, 1, []int{2}}, {"prompt + output", 14, 3, counts},
	}
	if diff := cmp.Diff(want, got.Histograms); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{
		"1 of 3 requests did not succeed", "<td>prompt</td><td>2</td><td>82</td><td>10</td><td>41.0</td><td>41.0</td><td>65.8</td><td>71.4</td><td>72</td>",
	} {
		if !strings.Contains(b.String(), text) {
			t.Errorf("the page lacks %q", text)
		}
	}
	if err := Lengths(&b, Page{}, records[1:2]); err == nil {
		t.Error("statistics of nothing were written")
	}
}

// TestHistogram: every value is in a bin, and there are no more than asked for.
func TestHistogram(t *testing.T) {
	for _, values := range [][]int{{5}, {0, 29}, {0, 30}, {0, 31, 7}, {1, 1000, 500, 999}, {-3, 8}} {
		h := histogramOf("x", values)
		sum := 0
		for _, c := range h.Counts {
			sum += c
		}
		if sum != len(values) || len(h.Counts) > bins {
			t.Errorf("%v: %+v", values, h)
		}
	}
}
