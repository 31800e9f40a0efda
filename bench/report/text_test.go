package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/servebench/servebench/bench/report"
	"github.com/servebench/servebench/metrics"
)

const ms = time.Millisecond

// twoRequests sends one at 0 and one at 10 ms: first tokens after 50 and 70 ms,
// then two more 10 ms apart.
func twoRequests() *metrics.Summary {
	records := make([]metrics.Record, 2)
	for i := range records {
		sent := time.Duration(i) * 10 * ms
		first := sent + time.Duration(50+20*i)*ms
		records[i] = metrics.Record{
			Seq: i, Sent: sent, Status: 200, Headers: sent + ms, Outcome: metrics.OK, Reused: true,
			Arrivals: []time.Duration{first, first + 10*ms, first + 20*ms}, RxDelay: make([]time.Duration, 3),
			Done: first + 20*ms, PromptTokens: 7, OutputTokens: 3, TokenSource: metrics.FromUsage,
		}
	}
	return metrics.Summarize(records, metrics.Options{Percentiles: []float64{99}})
}

// The labels, widths and order of `vllm bench serve`, which scripts grep.
const want = `============ Serving Benchmark Result ============
Successful requests:                     2
Failed requests:                         0
Maximum request concurrency:             8
Request rate configured (RPS):           4.00
Benchmark duration (s):                  0.10
Total input tokens:                      14
Total generated tokens:                  6
Request throughput (req/s):              20.00
Request goodput (req/s):                 10.00
Output token throughput (tok/s):         60.00
Peak output token throughput (tok/s):    6.00
Peak concurrent requests:                2.00
Total token throughput (tok/s):          200.00
---------------Time to First Token----------------
Mean TTFT (ms):                          60.00
Median TTFT (ms):                        60.00
P99 TTFT (ms):                           69.80
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          10.00
Median TPOT (ms):                        10.00
P99 TPOT (ms):                           10.00
---------------Inter-token Latency----------------
Mean ITL (ms):                           n/a
Median ITL (ms):                         n/a
P99 ITL (ms):                            n/a
---------------Speculative Decoding---------------
Acceptance rate (%):                     50.00
Acceptance length:                       2.00
Drafts:                                  10
Draft tokens:                            20
Accepted tokens:                         10
Per-position acceptance (%):
  Position 0:                            70.00
  Position 1:                            30.00
==================================================
`

func TestTextIsVLLMs(t *testing.T) {
	s := twoRequests()
	goodput := 10.0
	table := report.Table{
		MaxConcurrency: 8, Rate: 4, Seconds: 0.1, Goodput: &goodput, RequestRate: 20, OutputRate: 60, TotalRate: 200,
		Summary: s, Percentiles: []float64{99},
		Sections: []report.Section{
			report.SectionOf("ttft", s.VLLM.TTFT), report.SectionOf("tpot", s.VLLM.TPOT), report.SectionOf("itl", nil),
		},
		Speculation: &metrics.Speculation{Drafts: 10, DraftTokens: 20, Accepted: 10, AcceptedAt: []int64{7, 3}},
		Simulated:   true, Warnings: []string{"a doubt"}, Files: []string{"run.json"},
	}
	var b strings.Builder
	if err := report.Text(&b, &table); err != nil {
		t.Fatal(err)
	}
	got, own, _ := strings.Cut(b.String(), "\nIn flight at most:")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, piece := range []string{"SIMULATED", "  - a doubt\n", "  - run.json\n"} {
		if !strings.Contains(own, piece) {
			t.Errorf("no %q below the table:\n%s", piece, own)
		}
	}
}
