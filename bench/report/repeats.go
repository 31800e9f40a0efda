package report

import (
	"fmt"
	"io"
)

// Repeated is a metric over repeats of one run.
type Repeated struct {
	Metric string // with its unit, for people
	Values []float64
	Mean   float64
	// Low and High are the 95 % interval of the mean; nil: there is none.
	Low, High *float64
	// Figures are the cells of the table: mean, interval, standard deviation,
	// coefficient of variation, drift a run.
	Figures []string
}

// repeatsCharts is what page.js draws: a panel for each metric.
type repeatsCharts struct {
	Kind     string         `json:"kind"`
	Runs     []string       `json:"runs"`
	Verdicts []string       `json:"verdicts"`
	Panels   []repeatsPanel `json:"panels"`
}

type repeatsPanel struct {
	Title  string     `json:"title"`
	Values []float64  `json:"values"`
	Mean   float64    `json:"mean"`
	Bounds []*float64 `json:"bounds"` // low, high
}

// Repeats writes an HTML page with the values of the first drawn metrics over the order
// of the runs, the mean and its interval; below it a table of all metrics. verdicts are
// those of the runs; the values of a metric are as many as runs.
func Repeats(w io.Writer, p Page, runs, verdicts []string, all []Repeated, drawn int) error {
	c := repeatsCharts{Kind: "repeats", Runs: runs, Verdicts: verdicts, Panels: []repeatsPanel{}}
	t := table{Head: []string{"metric", "mean", "95 %", "std", "CV", "drift a run"}}
	var charts []string
	for i, m := range all {
		if i < drawn {
			c.Panels = append(c.Panels, repeatsPanel{m.Metric, m.Values, m.Mean, []*float64{m.Low, m.High}})
			charts = append(charts, fmt.Sprintf("panel%d", i))
		}
		t.Rows = append(t.Rows, append([]string{m.Metric}, m.Figures...))
	}
	return p.write(w, charts, t, c)
}
