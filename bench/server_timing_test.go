package bench_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/metrics"
)

// In virtual time nothing stands between the server's token and the client's: the
// differences are 0 to the nanosecond.
func TestServerTimingInTheFiles(t *testing.T) {
	const ms = time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		cfg := simulate(t, sim.Config{TTFT: 20 * ms, ITL: 4 * ms, Slots: 2, PerRequestMetrics: true})
		cfg.ServerTiming = true
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		s := res.ServerSide
		if s.Told != 4 || s.Untold+s.Bad+s.Negative != 0 {
			t.Fatalf("%+v", s)
		}
		// Two wait for the slots of the others: 20 + 4*4 ms.
		for _, c := range []struct {
			name     string
			d        *metrics.Dist
			min, max float64
		}{
			{"queue", s.Queue, 0, 36}, {"ttft", s.TTFT, 20, 20}, {"generation", s.Generation, 16, 16}, {"itl", s.ITL, 4, 4},
			{"ttft beyond", s.BeyondTTFT, 0, 0}, {"itl beyond", s.BeyondITL, 0, 0}, {"e2el beyond", s.BeyondE2EL, 0, 0},
		} {
			if c.d == nil || c.d.N != 4 || c.d.Min != c.min || c.d.Max != c.max {
				t.Errorf("%s: %+v, want 4 from %v to %v", c.name, c.d, c.min, c.max)
			}
		}
		m := save(t, res)
		ext, err := json.Marshal(m.Measurement.Extensions["servebench.server_timing"])
		if err != nil || !strings.Contains(string(ext), `"told":4`) || !strings.Contains(string(ext), `"ttft_beyond_ms":{"max":0,"mean":0,"median":0,"min":0,"n":4,`) {
			t.Errorf("the extension is %s, %v", ext, err)
		}
		own := ownOf(t, res)
		var file struct {
			Told  int
			Queue struct{ Mean float64 } `json:"queue_ms"`
		}
		if err := json.Unmarshal(own["server_timing"], &file); err != nil || file.Told != 4 || file.Queue.Mean != 18 {
			t.Errorf("servebench.server_timing is %s, %v", own["server_timing"], err)
		}
		labels := ""
		for _, row := range res.ServerMetrics() {
			labels += row.Label + ", "
		}
		if want := "Server queue, Server TTFT, without queue, Server generation, Server mean ITL, TTFT beyond the server's, ITL beyond the server's, E2EL beyond the server's, "; labels != want {
			t.Errorf("rows are %s", labels)
		}
	})
}

// ownOf are the members of the result's object servebench.
func ownOf(t *testing.T, res *bench.Result) (own map[string]json.RawMessage) {
	t.Helper()
	data, err := res.JSON(nil, false)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Servebench map[string]json.RawMessage }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file.Servebench
}

// What is amiss is said, and nothing is where it was not asked for.
func TestServerTimingWarnings(t *testing.T) {
	stream := func(more string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"choices\":[{\"text\":\"a\",\"finish_reason\":\"length\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":5}%s}\n\ndata: [DONE]\n\n", more)
		}
	}
	one := 0
	some := func(w http.ResponseWriter, r *http.Request) { // the first request alone
		more := ""
		if r.Method == http.MethodPost {
			if one++; one == 1 {
				more = `,"metrics":{"queue_time_ms":0,"time_to_first_token_ms":0}`
			}
		}
		stream(more)(w, r)
	}
	for _, c := range []struct {
		reading string
		h       http.HandlerFunc
		on      bool
		want    []string // what warnings begin with
	}{
		{"not asked for", stream(`,"metrics":{"queue_time_ms":-1}`), false, nil},
		{"told nothing", stream(""), true, []string{"The server told no timing of its own (--server-timing). vLLM does where it was started with --enable-per-request-metrics"}},
		{"told nonsense", stream(`,"metrics":{"queue_time_ms":-1,"mean_itl_ms":"x"}`), true, []string{"The server told no timing", "8 figures of the server's own timing were not times"}},
		{"told by some", some, true, []string{"3 of 4 completed requests came without the server's own timing."}},
		{"impossible", stream(`,"metrics":{"queue_time_ms":0,"time_to_first_token_ms":5}`), true, []string{"In 4 requests the server says that it took longer"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := config(serveHandler(t, c.h))
			cfg.ServerTiming, cfg.MaxConcurrency = c.on, 1
			res, err := bench.Run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(slices.Clone(res.Warnings), func(w string) bool {
				return !strings.Contains(w, "timing") && !strings.Contains(w, "longer to the first token")
			})
			same := slices.EqualFunc(got, c.want, strings.HasPrefix)
			if !same || (res.ServerSide != nil) != c.on || (ownOf(t, res)["server_timing"] != nil) != c.on {
				t.Errorf("%s: %q, want %q; %+v", c.reading, got, c.want, res.ServerSide)
			}
		})
	}
}
