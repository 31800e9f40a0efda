package bench_test

import (
	"testing"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/loadgen/openai"
)

// The names of the servers' machines are no one's business, addresses are known by
// their form.
func TestRedactorKnowsTheServers(t *testing.T) {
	c := bench.Config{
		Target: openai.Config{BaseURL: "http://gpu-box.corp.example:8000"}, Replicas: []string{"https://second-box.example", "http://127.0.0.1:9000"},
		PrivateNames: []string{"rackname"},
	}
	got, _ := c.Redactor().String("lookup gpu-box.corp.example: no such host; second-box.example, 127.0.0.1:9000 in rackname")
	if want := "lookup <redacted>: no such host; <redacted>, 127.0.0.1:9000 in <redacted>"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
