package compare_test

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/servebench/servebench/bench/compare"
	"github.com/servebench/servebench/bench/stored"
)

// result is a result file of ours; more are members to add.
func result(rate float64, more string) string {
	return fmt.Sprintf(`{"model_id": "m", "duration": 10, "completed": 100, "failed": 0, "output_throughput": %v, "p99_itl_ms": %v, "outcome": "completed", "servebench": {"verdict": "VALID", "dataset_sha256": "aa"}%s}`, rate, 1000/rate, more)
}

func side(t *testing.T, name string, files ...string) compare.Side {
	t.Helper()
	s := compare.Side{Name: name}
	for i, f := range files {
		runs, err := stored.Read(fmt.Sprintf("%s/%d", name, i), []byte(f))
		if err != nil {
			t.Fatal(err)
		}
		s.Runs = append(s.Runs, runs...)
	}
	return s
}

func find(t *testing.T, tab *compare.Table, metric string) compare.Row {
	t.Helper()
	for _, r := range tab.Rows {
		if r.Metric == metric {
			return r
		}
	}
	t.Fatalf("no row %s", metric)
	return compare.Row{}
}

func TestRepeats(t *testing.T) {
	a := side(t, "a", result(900, ""), result(905, ""), result(895, ""))
	b := side(t, "b", result(990, ""), result(985, ""), result(995, ""))
	tab, err := compare.Of([]compare.Side{a, b})
	if err != nil {
		t.Fatal(err)
	}
	rate := find(t, tab, "output_throughput").Cells
	// t(0.975, 2) = 4.30265 times 5/sqrt(3).
	if *rate[0].Value != 900 || math.Abs(*rate[0].Low-(900-12.4207)) > 1e-3 || math.Abs(*rate[1].Change-0.1) > 1e-12 || rate[1].Sign != "better" {
		t.Errorf("%+v", rate)
	}
	if itl := find(t, tab, "p99_itl").Cells; itl[1].Sign != "better" || *itl[1].Change > 0 {
		t.Errorf("a latency that falls: %+v", itl[1])
	}
	if c := find(t, tab, "completed").Cells[1]; c.Sign != "~" || *c.Change != 0 {
		t.Errorf("equal values: %+v", c)
	}
	if len(tab.Differences) != 0 || len(tab.Notes) != 0 {
		t.Errorf("%+v %v", tab.Differences, tab.Notes)
	}
	turned, _ := compare.Of([]compare.Side{b, a})
	if c := find(t, turned, "output_throughput").Cells[1]; c.Sign != "worse" || math.Abs(math.Log1p(*c.Change)+math.Log1p(*rate[1].Change)) > 1e-12 {
		t.Errorf("turned round: %+v", c)
	}
	noisy := side(t, "c", result(800, ""), result(1000, ""), result(950, ""))
	tab, _ = compare.Of([]compare.Side{a, noisy})
	if c := find(t, tab, "output_throughput").Cells[1]; c.Sign != "~" || c.ChangeLow == nil {
		t.Errorf("noise: %+v", c)
	}
}

func TestSingleRuns(t *testing.T) {
	with := func(rate, half float64) string {
		return strings.Replace(result(rate, ""), `"verdict"`, fmt.Sprintf(`"percentile_intervals": {"itl": {"p99": [%v, %v]}}, "verdict"`, 1000/rate-half, 1000/rate+half), 1)
	}
	tab, err := compare.Of([]compare.Side{side(t, "a", with(900, .001)), side(t, "b", with(800, .001))})
	if err != nil {
		t.Fatal(err)
	}
	if c := find(t, tab, "p99_itl").Cells[1]; c.Sign != "worse" || c.ChangeLow == nil {
		t.Errorf("%+v", c)
	}
	if c := find(t, tab, "output_throughput").Cells[1]; c.Sign != "~" || c.Change == nil || c.ChangeLow != nil {
		t.Errorf("without an interval nothing can be said: %+v", c)
	}
	if len(tab.Notes) != 1 || !strings.Contains(tab.Notes[0], "single run") {
		t.Errorf("%q", tab.Notes)
	}
}

func TestRefusals(t *testing.T) {
	a, sim := side(t, "a", result(900, "")), side(t, "s", result(900, `, "simulated": true`))
	if _, err := compare.Of([]compare.Side{a, sim}); !errors.Is(err, compare.ErrMixed) {
		t.Errorf("%v", err)
	}
	if tab, err := compare.Of([]compare.Side{sim, sim}); err != nil || !strings.Contains(strings.Join(tab.Notes, " "), "simulator") {
		t.Error(err)
	}
	if _, err := compare.Of([]compare.Side{a}); err == nil {
		t.Error("one side is a comparison")
	}
	if _, err := compare.Of([]compare.Side{a, {Name: "empty"}}); err == nil || !strings.Contains(err.Error(), "empty") {
		t.Error(err)
	}
	// A histogram's percentile and an exact one, 0.1 % apart.
	own := func(v float64, source string) string {
		return strings.Replace(result(900, ""), `"verdict"`, fmt.Sprintf(`"itl_token_ms": {"p99": %v, "source": %q}, "percentile_intervals": {"itl_token": {"p99": [%v, %v]}}, "verdict"`, v, source, v-1e-6, v+1e-6), 1)
	}
	tab, err := compare.Of([]compare.Side{side(t, "a", own(10, "exact")), side(t, "b", own(10.01, "hdr3"))})
	if err != nil {
		t.Fatal(err)
	}
	if c := find(t, tab, "p99_itl_token").Cells[1]; c.Sign != "~" || !strings.Contains(strings.Join(tab.Notes, " "), "closer than the histogram's error") {
		t.Errorf("%+v %q", c, tab.Notes)
	}
	tab, _ = compare.Of([]compare.Side{side(t, "a", own(10, "hdr3")), side(t, "b", own(10.01, "hdr3"))})
	if c := find(t, tab, "p99_itl_token").Cells[1]; c.Sign != "~" {
		t.Errorf("two histograms: %+v", c)
	}
	tab, _ = compare.Of([]compare.Side{side(t, "a", own(10, "exact")), side(t, "b", own(10.01, "exact"))})
	if c := find(t, tab, "p99_itl_token").Cells[1]; c.Sign != "worse" {
		t.Errorf("two exact ones: %+v", c)
	}
}

// A metric that only some repeats have is no mean of them all, and 0 has no share.
func TestHoles(t *testing.T) {
	none := `{"model_id": "n", "duration": 10, "completed": 0, "failed": 3, "output_throughput": 0, "p99_itl_ms": null}`
	tab, err := compare.Of([]compare.Side{side(t, "a", result(900, ""), none), side(t, "b", none)})
	if err != nil {
		t.Fatal(err)
	}
	if c := find(t, tab, "p99_itl").Cells; c[0].Value != nil || c[1].Value != nil || c[1].Change != nil {
		t.Errorf("%+v", c)
	}
	if c := find(t, tab, "output_throughput").Cells[1]; c.Change != nil || c.Sign != "~" {
		t.Errorf("%+v", c)
	}
	var text strings.Builder
	if err := tab.JSON(&text); err != nil || !json.Valid([]byte(text.String())) {
		t.Error(err)
	}
	for _, want := range []string{"failed", `"m | n"`, "without a verdict"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %s in %s", want, text.String())
		}
	}
}

func TestForms(t *testing.T) {
	a := side(t, "old.json", result(900, ""), result(905, ""), result(895, ""))
	b := side(t, "=cmd|new\x1b[31m.json", strings.Replace(result(990, ""), `"m"`, `"m|2<b>"`, 1), strings.Replace(result(985, ""), `"m"`, `"m|2<b>"`, 1), strings.Replace(result(995, ""), `"m"`, `"m|2<b>"`, 1))
	tab, err := compare.Of([]compare.Side{a, b})
	if err != nil {
		t.Fatal(err)
	}
	var text, colour, md, sheet strings.Builder
	for _, err := range []error{tab.Text(&text, false), tab.Text(&colour, true), tab.Markdown(&md), tab.CSV(&sheet)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := `What differs:
  model    model: m -> m|2<b>

metric                  old.json (3 runs)            95 %  =cmd|new·[31m.json (3 runs)             95 %   change               95 %
duration (s)                           10        [10, 10]                           10         [10, 10]   +0.00%                     ~
completed                             100      [100, 100]                          100       [100, 100]   +0.00%                     ~
failed                                  0          [0, 0]                            0           [0, 0]   +0.00%                     ~
output_throughput (/s)                900  [887.6, 912.4]                          990  [977.6, 1002.4]  +10.00%  [+8.68%, +11.34%]  better
p99_itl (ms)                        1.111  [1.096, 1.126]                         1.01  [0.9974, 1.023]   -9.09%  [-10.18%, -7.99%]  better
`
	if got := text.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if strings.Contains(text.String(), "\x1b") || !strings.Contains(colour.String(), "\x1b[32mbetter\x1b[0m") || strings.Contains(colour.String(), "\x1b[31m.json") {
		t.Errorf("%q", colour.String())
	}
	if !strings.Contains(md.String(), `m\|2&lt;b>`) || strings.Contains(md.String(), "<b>") {
		t.Error(md.String())
	}
	lines, err := csv.NewReader(strings.NewReader(sheet.String())).ReadAll()
	if err != nil || lines[0][6] != "'=cmd|new·[31m.json" {
		t.Errorf("%v %v", lines, err)
	}
}
