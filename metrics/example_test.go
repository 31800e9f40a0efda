package metrics_test

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/servebench/servebench/metrics"
)

// A chat stream: a role-only event at 5 ms, then four tokens.
func Example() {
	records := []metrics.Record{{
		Sent: 1 * time.Millisecond, Headers: 5 * time.Millisecond, Done: 240 * time.Millisecond,
		Arrivals: []time.Duration{6e6, 201e6, 211e6, 221e6, 231e6}, RxDelay: make([]time.Duration, 5), NotBearing: []int{0},
		OutputTokens: 4, TokenSource: metrics.FromUsage, Status: 200, Outcome: metrics.OK,
	}}
	s := metrics.Summarize(records, metrics.Options{})
	fmt.Println("vllm: ttft", s.VLLM.TTFT.Mean, "tpot", s.VLLM.TPOT.Mean)
	fmt.Println("ours: ttft", s.Token.TTFT.Mean, "tpot", s.Token.TPOT.Mean)
	// Output:
	// vllm: ttft 5 tpot 75
	// ours: ttft 200 tpot 10
}

func ExampleReadRecords() {
	file := strings.NewReader(`{"seq":0,"due_ns":0,"slot_ns":0,"sent_ns":1000,"done_ns":9000,"arrivals_ns":[],"rx_delay_ns":[],"outcome":"connect","error":"refused"}
{"seq":1,"due_ns":0,"slot_ns":0,"sent_ns":9000,"done_ns":2000}
`)
	for r, err := range metrics.ReadRecords(file) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(r.Seq, r.Outcome, r.Error)
	}
	// Output:
	// 0 connect refused
	// line 2: request 1: times of a request that was not sent
}

func ExampleWriteRecords() {
	_ = metrics.WriteRecords(os.Stdout, []metrics.Record{{Seq: 7, Sent: 1000, Done: 9000, Outcome: metrics.Connect, Error: "refused"}})
	// Output:
	// {"seq":7,"due_ns":0,"slot_ns":0,"sent_ns":1000,"done_ns":9000,"arrivals_ns":[],"rx_delay_ns":[],"outcome":"connect","error":"refused","reused":false}
}
