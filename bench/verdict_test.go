package bench_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/metrics"
)

// In virtual time nothing is late: the verdict has nothing against the run, and the
// manifest says so, with what has no basis in so few requests.
func TestVerdictOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(serveHandler(t, sim.New(sim.Config{TTFT: 50 * ms, ITL: 10 * ms})))
		cfg.Dataset.Prompts, cfg.MaxConcurrency, cfg.InProcess = 8, 2, true
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if j := res.Judgement; j == nil || j.Verdict != metrics.Valid || len(res.Reasons()) != 0 {
			t.Fatalf("%+v", j)
		}
		ext := res.Manifest([]byte("{}"), nil).Measurement.Extensions
		if ext["servebench.verdict"] != metrics.Valid || ext["servebench.verdict_attribution"] == "" || ext["servebench.no_throughput"] == nil {
			t.Errorf("%v", ext)
		}
		if s := res.Analysis.Steady; s == nil || s.To-s.From != 4*90*ms {
			t.Errorf("the plateau is %+v, want the whole run of %v", s, 4*90*ms)
		}
	})
}

// A client that cannot keep its schedule is told from a server that is slow.
func TestVerdictOfALateClient(t *testing.T) {
	lag, ttft := 40.0, 50.0
	j := metrics.Judge(metrics.Figures{Lag: &lag, TTFT: &ttft}, metrics.DefaultLimits)
	if j.Verdict != metrics.Suspect || j.Culprit != metrics.SlowClient || !strings.Contains(j.Sentence, "client") {
		t.Errorf("%+v", j)
	}
}
