package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// The operating characteristics as a picture in the documents: how often each verdict
// is given at a true loss. UPDATE=1 draws it anew.

const (
	curveTrials = 1000 // a point; its standard error is 1.6 % at most
	curveStep   = 0.005
	curvePoints = 21
	panelWidth  = 300
	plotLeft    = 52
	plotWidth   = 230
	plotTop     = 62
	plotHeight  = 190
)

// curve is the share of FAIL and of PASS at each loss.
type curve struct{ fail, pass [curvePoints]float64 }

// curveOf asks how often a gate fails and passes at each true loss.
func curveOf(at func(loss float64) (fail, pass float64)) (c curve) {
	for i := range curvePoints {
		c.fail[i], c.pass[i] = at(curveStep * float64(i))
	}
	return c
}

// historyVerdicts counts what the history rule makes of new sessions, after ten of the
// same spread.
func historyVerdicts(trials int, loss, spread float64) (fail, pass float64) {
	r := rand.New(rand.NewPCG(43, uint64(1000*loss)))
	earlier := make([]float64, 10)
	for range trials {
		for i := range earlier {
			earlier[i] = spread * r.NormFloat64()
		}
		d, err := History(earlier, math.Log1p(-loss)+spread*r.NormFloat64(), Rule{})
		switch {
		case err != nil:
			panic(err)
		case d.Verdict == Fail:
			fail++
		case d.Verdict == Pass:
			pass++
		}
	}
	return fail / float64(trials), pass / float64(trials)
}

// drawCurves draws a panel for each curve.
func drawCurves(titles []string, curves []curve) string {
	var b strings.Builder
	width, height := panelWidth*len(curves), plotTop+plotHeight+58
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12" role="img">`+"\n", width, height)
	b.WriteString("<title>How often the gate says FAIL, PASS and INCONCLUSIVE, over the true loss of throughput</title>\n")
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	for i, entry := range []struct{ name, colour, dash string }{{"FAIL", "#c92a2a", ""}, {"PASS", "#2b8a3e", ""}, {"INCONCLUSIVE", "#868e96", "5 4"}} {
		x := plotLeft + 120*i
		fmt.Fprintf(&b, `<line x1="%d" y1="18" x2="%d" y2="18" stroke="%s" stroke-width="2.5" stroke-dasharray="%s"/><text x="%d" y="22" fill="#212529">%s</text>`+"\n", x, x+26, entry.colour, entry.dash, x+32, entry.name)
	}
	for i, c := range curves {
		fmt.Fprintf(&b, `<g transform="translate(%d 0)">`+"\n", panelWidth*i)
		drawPanel(&b, titles[i], c)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func drawPanel(b *strings.Builder, title string, c curve) {
	x := func(loss float64) float64 { return plotLeft + plotWidth*loss/(curveStep*(curvePoints-1)) }
	y := func(share float64) float64 { return plotTop + plotHeight*(1-share) }
	fmt.Fprintf(b, `<text x="%d" y="%d" fill="#212529" font-weight="bold">%s</text>`+"\n", plotLeft, plotTop-12, title)
	for k := range 5 {
		v := 0.25 * float64(k)
		fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#dee2e6"/><text x="%d" y="%.1f" text-anchor="end" fill="#495057">%.0f %%</text>`+"\n", plotLeft, y(v), plotLeft+plotWidth, y(v), plotLeft-6, y(v)+4, 100*v)
	}
	for k := range 6 {
		v := 0.02 * float64(k)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#495057">%.0f %%</text>`+"\n", x(v), plotTop+plotHeight+18, 100*v)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" fill="#495057">true loss</text>`+"\n", plotLeft+plotWidth/2, plotTop+plotHeight+38)
	fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#495057" stroke-dasharray="2 3"/>`+"\n", x(DefaultEffect), plotTop, x(DefaultEffect), plotTop+plotHeight)
	line := func(colour, dash string, at func(i int) float64) {
		var points []string
		for i := range curvePoints {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(curveStep*float64(i)), y(at(i))))
		}
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="2.5" stroke-dasharray="%s" points="%s"/>`+"\n", colour, dash, strings.Join(points, " "))
	}
	line("#868e96", "5 4", func(i int) float64 { return 1 - c.fail[i] - c.pass[i] })
	line("#2b8a3e", "", func(i int) float64 { return c.pass[i] })
	line("#c92a2a", "", func(i int) float64 { return c.fail[i] })
}

func TestOperatingPicture(t *testing.T) {
	curves := []curve{
		curveOf(func(loss float64) (float64, float64) { return verdicts(curveTrials, loss, Rule{}) }),
		curveOf(func(loss float64) (float64, float64) { return verdicts(curveTrials, loss, Rule{Certain: true}) }),
		curveOf(func(loss float64) (float64, float64) { return historyVerdicts(curveTrials, loss, 0.02) }),
	}
	for i, c := range curves {
		for _, k := range []int{0, 2, 4, 6, 8, 10, 16, 20} {
			t.Logf("%d: loss %.1f %%: FAIL %.1f %% PASS %.1f %%", i, 100*curveStep*float64(k), 100*c.fail[k], 100*c.pass[k])
		}
		// A false alarm is rare, and a great loss never passes.
		if c.fail[0] > 0.02 || c.pass[20] > 0.02 || c.fail[20] < 0.9 {
			t.Errorf("curve %d: %+v", i, c)
		}
	}
	got := drawCurves([]string{"8 pairs", "8 pairs, --certain", "history of 10 sessions"}, curves)
	const file = "../../docs/gate-operating.svg"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != got {
		t.Errorf("%v: %s is not what the rule gives; UPDATE=1 draws it anew", err, file)
	}
}
