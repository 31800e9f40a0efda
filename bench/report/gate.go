package report

import (
	"fmt"
	"io"

	"github.com/servebench/servebench/bench/gate"
)

// pairsChart is what page.js draws of a gate: the change of each pair in percent, with
// its mean and the bounds of the rule.
type pairsChart struct {
	Kind   string     `json:"kind"`
	Metric string     `json:"metric"`
	Pairs  []pairDot  `json:"pairs"`
	Mean   *float64   `json:"mean"`
	Bounds []*float64 `json:"bounds"` // low, high
	Effect float64    `json:"effect"` // below 0
}

type pairDot struct {
	Label  string   `json:"label"`
	Change *float64 `json:"change"`
	Text   string   `json:"text"`
}

// Gate writes an HTML page with the change of each pair, the mean with its bounds and
// the loss that the gate was to find; below it a table of all metrics.
func Gate(w io.Writer, p Page, r *gate.Report) error {
	percent := func(v *float64) *float64 {
		if v == nil {
			return nil
		}
		x := 100 * *v
		return &x
	}
	effect := r.Rule.Effect
	if effect == 0 {
		effect = gate.DefaultEffect
	}
	c := pairsChart{Kind: "pairs", Effect: -100 * effect, Pairs: []pairDot{}}
	var t table
	if m := r.Primary; m != nil {
		c.Metric, c.Mean, c.Bounds = m.Metric, percent(&m.Mean.Change), []*float64{percent(m.Mean.Low), percent(m.Mean.High)}
		t = gateTable(r)
	}
	for _, pair := range r.Pairs {
		c.Pairs = append(c.Pairs, pairDot{fmt.Sprintf("%d %s", pair.N, pair.Order), percent(pair.Change), fmt.Sprintf("baseline %s, candidate %s", shown(pair.Baseline), shown(pair.Candidate))})
	}
	var charts []string
	if len(c.Pairs) > 0 {
		charts = []string{"pairs"}
	}
	return p.write(w, charts, t, c)
}

func gateTable(r *gate.Report) table {
	t := table{Head: []string{"metric", "change", "interval", "smallest loss it sees", "verdict"}}
	bound := func(v *float64) string {
		if v == nil {
			return "unbounded"
		}
		return fmt.Sprintf("%+.2f %%", 100**v)
	}
	row := func(m *gate.MetricDecision, verdict string) {
		t.Rows = append(t.Rows, []string{m.Metric, fmt.Sprintf("%+.2f %%", 100*m.Mean.Change), bound(m.Mean.Low) + " to " + bound(m.Mean.High), fmt.Sprintf("%.2g %%", 100*m.Detectable), verdict})
	}
	row(r.Primary, string(r.Primary.Verdict))
	for i := range r.Advisory {
		row(&r.Advisory[i], "advisory: "+r.Advisory[i].Advice(r.Rule))
	}
	for _, f := range r.Requirements {
		t.Rows = append(t.Rows, []string{f.Requirement, shown(f.Value), "bound " + shown(f.Bound), "", string(f.Verdict)})
	}
	return t
}

func shown(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.6g", *v)
}
