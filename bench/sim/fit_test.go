package sim

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

func published(t testing.TB, name string) Published {
	t.Helper()
	raw, err := os.ReadFile("../../manifest/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Manifest struct {
			Workload struct {
				Concurrency  int
				InputTokens  struct{ Value int } `json:"input_tokens"`
				OutputTokens struct{ Value int } `json:"output_tokens"`
				RequestCount int                 `json:"request_count"`
			}
			Results struct {
				Latency  map[string]struct{ Mean, P50, P90, P95, P99, StdDev float64 } `json:"latency_ms"`
				Duration float64                                                       `json:"duration_seconds"`
			}
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	w, r := doc.Manifest.Workload, doc.Manifest.Results
	ns := func(ms float64) time.Duration { return time.Duration(ms * 1e6) }
	lat := func(name string) *Latency {
		l := r.Latency[name]
		return &Latency{ns(l.Mean), ns(l.P50), ns(l.P90), ns(l.P95), ns(l.P99), ns(l.StdDev)}
	}
	return Published{InputTokens: w.InputTokens.Value, OutputTokens: w.OutputTokens.Value, Requests: w.RequestCount, Concurrency: w.Concurrency,
		Streaming: true, Duration: time.Duration(r.Duration * 1e9),
		TTFT: lat("time_to_first_token"), ITL: lat("inter_token"), TPOT: lat("time_per_output_token"), E2E: lat("end_to_end")}
}

func TestX(t *testing.T) {
	for i, n := range []string{"seed-run-1.json", "seed-run-2.json", "seed-run-3.json"} {
		p := published(t, n)
		p.Server = Engine{MaxNumSeqs: []int{64, 32, 128}[i], MaxNumBatchedTokens: 16384, ChunkedPrefill: true}
		if i == 1 {
			p.Server.SpeculativeTokens = 1
		}
		if i == 2 {
			p.Replicas = 4
		}
		start := time.Now()
		e, err := Fit(p)
		t.Logf("%s: %v %v\n%+v", n, time.Since(start), err, e)
		f := &fit{Published: &p, requests: p.Requests}
		for _, m := range f.terms(play(&p, e, p.Requests)) {
			t.Logf("  %-30s %10.4f %10.4f  %+.1f %%", m.name, m.published, m.got, 100*(m.got/m.published-1))
		}
	}
	p := Published{InputTokens: 6000, OutputTokens: 1, Requests: 500, Concurrency: 8, Duration: 57803468208 * time.Nanosecond, Server: Engine{MaxNumBatchedTokens: 10240, ChunkedPrefill: true}}
	e, err := Fit(p)
	t.Logf("%+v %v", e, err)
}
