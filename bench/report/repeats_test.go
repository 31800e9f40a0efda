package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRepeatsPage(t *testing.T) {
	low, high := 9.5, 11.5
	var b bytes.Buffer
	err := Repeats(&b, Page{Title: "repeats", Facts: [][2]string{{"ended", "<b>all"}}}, []string{"run-001", "run-002"}, []string{"VALID", "SUSPECT"}, []Repeated{
		{"output_throughput (/s)", []float64{10, 11}, 10.5, &low, &high, []string{"10.5", "[9.5, 11.5]", "0.7", "6.7 %", "-"}},
		{"p99_ttft (ms)", []float64{3, 3}, 3, nil, nil, []string{"3", "-", "-", "-", "-"}},
		{"p99_itl (ms)", []float64{1, 1}, 1, nil, nil, []string{"1", "-", "-", "-", "-"}},
	}, 2)
	if err != nil {
		t.Fatal(err)
	}
	var got repeatsCharts
	dataOf(t, b.Bytes(), &got)
	want := repeatsCharts{"repeats", []string{"run-001", "run-002"}, []string{"VALID", "SUSPECT"}, []repeatsPanel{
		{"output_throughput (/s)", []float64{10, 11}, 10.5, []*float64{&low, &high}},
		{"p99_ttft (ms)", []float64{3, 3}, 3, []*float64{nil, nil}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	page := b.String()
	if !strings.Contains(page, `id="panel1"`) || strings.Contains(page, `id="panel2"`) || !strings.Contains(page, "p99_itl (ms)") || strings.Contains(page, "<b>all") {
		t.Error("two panels, and a table of three, nothing as markup")
	}
}
