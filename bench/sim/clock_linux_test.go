package sim_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/servebench/servebench/bench/sim"
)

func monotonic(t testing.TB) int64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return ts.Nano()
}

// cpuTime is the CPU time of this process so far.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestTruthIsTheMonotonicClock(t *testing.T) {
	s := sim.New(sim.Config{Truth: true})
	last := monotonic(t)
	body := `{"messages":[{"role":"user","content":"a"}],"max_tokens":20,"stream":true,"stream_options":{"include_usage":true}}`
	got := call(t, s, "POST", "/v1/chat/completions", body).Body.String()
	end := monotonic(t)
	events := strings.Split(strings.TrimSuffix(got, "\n\ndata: [DONE]\n\n"), "\n\n")
	if len(events) != 1+20+1 {
		t.Fatalf("%d events, want the role, 20 tokens and the usage", len(events))
	}
	for _, e := range events {
		var v struct {
			Sent *int64 `json:"sent_ns"`
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(e, "data: ")), &v); err != nil || v.Sent == nil {
			t.Fatalf("%s: %v", e, err)
		}
		if *v.Sent < last || *v.Sent > end {
			t.Errorf("sent_ns %d is outside %d to %d", *v.Sent, last, end)
		}
		last = *v.Sent
	}
}
