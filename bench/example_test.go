package bench_test

import (
	"context"
	"fmt"
	"log"
	"net/http/httptest"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/loadgen/openai"
)

// A run from another Go program. For a real server drop the simulator and set
// the base URL.
func ExampleRun() {
	server := httptest.NewServer(sim.New(sim.Config{TTFT: 5 * time.Millisecond, ITL: time.Millisecond}))
	defer server.Close()
	res, err := bench.Run(context.Background(), bench.Config{
		Backend: "openai-chat",
		Target:  openai.Config{BaseURL: server.URL},
		Stream:  true,
		Dataset: dataset.Spec{Name: "random", Prompts: 20, InputLen: 64, OutputLen: 16},
		Rate:    200, MaxConcurrency: 8,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Outcome, res.Summary.Completed, "requests,", res.Summary.OutputTokens, "tokens")
	// Output: completed 20 requests, 320 tokens
}
