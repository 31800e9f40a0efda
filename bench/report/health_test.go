package report

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/servebench/servebench/metrics"
)

func TestHealthBlock(t *testing.T) {
	at := func(v float64) *float64 { return &v }
	three := 3
	for _, c := range []struct {
		name string
		f    *metrics.Figures
		want string
	}{
		{"none", nil, ""},
		{"nothing measured", &metrics.Figures{}, ""},
		{"a lag alone", &metrics.Figures{Lag: at(0.25)}, "\nClient health\n  lag 0.25 ms (p99)\n"},
		{"all", &metrics.Figures{
			CPU: at(0.123), GC: at(0.01), Pause: at(0.2), SchedWait: at(0.03), Canary: at(1234.4), Throttled: &three,
			Lag: at(0), QueueWait: at(2658.2), RxDelay: at(0.14159), EventsPerRead: at(1.0249), KernelStamps: true,
			Achieved: at(0.998), Descriptors: at(0.5), Ports: at(0.01),
		}, fmt.Sprintf(`
Client health
  CPU 12.3 %% of %d (p95 of the seconds), GC 1 %% of it, GC pause 0.2 ms (p99),
  wait for a CPU 0.03 ms (p99), wake delay 1234 ms (longest), throttled in 3 periods
  lag 0 ms (p99), queue wait 2658 ms (p99), receive delay 0.142 ms (p99, not in the latencies),
  events per read 1.02 (mean)
  99.8 %% of the offered rate, descriptors 50 %% of the limit, ports 1 %% of the range
`, runtime.GOMAXPROCS(0))},
		{"without stamps", &metrics.Figures{RxDelay: at(2)}, "\nClient health\n  receive delay 2 ms (p99)\n"},
	} {
		var b bytes.Buffer
		if health(&b, c.f); b.String() != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, b.String(), c.want)
		}
	}
}

// A verdict says what it means for the numbers where the client was late, on screen
// and page, and stays within its columns.
func TestVerdictSaysWhatItMeans(t *testing.T) {
	late := metrics.Reason{Verdict: metrics.Suspect, Rule: "lag", Text: "requests were sent 12.4 ms late at p99; limit 1 ms"}
	for _, c := range []struct {
		name string
		j    metrics.Judgement
		want string
	}{
		{"valid", metrics.Judgement{Verdict: metrics.Valid, Sentence: "All well."}, "\nVerdict: VALID. All well.\n"},
		{"warning", metrics.Judgement{Verdict: metrics.Valid, Sentence: "All well.", Reasons: []metrics.Reason{{Verdict: metrics.Valid, Rule: "clocks", Text: "apart"}}},
			"\nVerdict: VALID. All well.\n  - apart\n"},
		{"late", metrics.Judgement{Verdict: metrics.Suspect, Sentence: strings.Repeat("It sent late. ", 8), Reasons: []metrics.Reason{late}}, `
Verdict: SUSPECT. It sent late. It sent late. It sent late. It sent late. It sent late. It sent
                  late. It sent late. It sent late.
  - requests were sent 12.4 ms late at p99; limit 1 ms
  The numbers may hold delays of the client. Most often its machine is busy with other work.
`},
		{"failures", metrics.Judgement{Verdict: metrics.Suspect, Sentence: "All well.", Reasons: []metrics.Reason{{Verdict: metrics.Suspect, Rule: "failures", Text: "2 % failed"}}},
			"\nVerdict: SUSPECT. All well.\n  - 2 % failed\n"},
	} {
		var b bytes.Buffer
		if judged(&b, &c.j); b.String() != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, b.String(), c.want)
		}
	}
	var b bytes.Buffer
	figures := &Table{Summary: &metrics.Summary{}, Verdict: &metrics.Judgement{Verdict: metrics.Suspect, Sentence: "It was slow.", Reasons: []metrics.Reason{late}}}
	if err := Timeline(&b, Page{}, []metrics.Record{{Outcome: metrics.OK, Arrivals: at(1, 2)}}, nil, [2]float64{25, 50}, figures); err != nil {
		t.Fatal(err)
	}
	if want := "Verdict: SUSPECT. It was slow. Reasons: " + late.Text + ". The numbers may hold"; !strings.Contains(b.String(), want) {
		t.Errorf("the page does not say %q", want)
	}
}

// A page has a chart for what was measured, and none for what was not; gaps stay
// gaps.
func TestHealthCharts(t *testing.T) {
	s := metrics.Series{Width: 36 * time.Second}
	s.Add("cpu", []float64{0.5, math.NaN()})
	s.Add("gc_cpu", []float64{math.NaN(), math.Inf(1)})
	s.Add("events_per_s", []float64{1, 2})
	var b bytes.Buffer
	if err := Timeline(&b, Page{}, []metrics.Record{{Outcome: metrics.OK, Arrivals: at(1, 2)}}, &s, [2]float64{25, 50}, nil); err != nil {
		t.Fatal(err)
	}
	var got timeline
	dataOf(t, b.Bytes(), &got)
	var found []string
	for _, p := range got.Health.Panels {
		for _, c := range p.Series {
			text := fmt.Sprintf("%s/%s right=%v", p.Title, c.Name, c.Right)
			for _, v := range c.Values {
				if v == nil {
					text += " -"
				} else {
					text += fmt.Sprint(" ", *v)
				}
			}
			found = append(found, text)
		}
	}
	want := []string{"the load/events that came right=true 1 2", "the client's CPU/of all CPUs right=false 50 -"}
	if strings.Join(found, "\n") != strings.Join(want, "\n") || got.Health.Interval != 36 {
		t.Errorf("%q, %v", found, got.Health.Interval)
	}
	page := b.String()
	if !strings.Contains(page, `id="panel1"`) || strings.Contains(page, `id="panel2"`) || !strings.Contains(page, "a point for every 36s") {
		t.Error("the page has not the charts of its data")
	}
}
