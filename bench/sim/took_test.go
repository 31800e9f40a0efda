package sim_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/servebench/servebench/bench/sim"
)

// told is the "metrics" object of an answer's last JSON, as it stands; "" without one.
func told(t testing.TB, events []event) string {
	t.Helper()
	for i := len(events) - 1; i >= 0; i-- {
		var body struct{ Metrics json.RawMessage }
		if events[i].data != "[DONE]" {
			if err := json.Unmarshal([]byte(events[i].data), &body); err != nil {
				t.Fatal(err)
			}
			return string(body.Metrics)
		}
	}
	return ""
}

// The times are those of the model, exact in virtual time.
func TestPerRequestMetrics(t *testing.T) {
	fixed := sim.Config{PerRequestMetrics: true, TTFT: 20 * ms, ITL: 4 * ms, Slots: 1}
	engine := sim.Config{PerRequestMetrics: true, MaxModelLen: 100,
		Engine: &sim.Engine{ChunkedPrefill: true, StepBase: 10 * ms, PrefillRate: 1000, IdleDelay: ms, MaxNumSeqs: 1}}
	const usage = `,"stream_options":{"include_usage":true}`
	for _, c := range []struct {
		reading string
		cfg     sim.Config
		after   time.Duration // of another request like it
		tokens  int
		more    string
		want    string
	}{
		// 4 tokens: 20 ms, then 3 * 4 ms; 4 / 32 ms = 125 a second.
		{"fixed timing", fixed, -1, 4, usage, `{"time_to_first_token_ms":20.0,"generation_time_ms":12.0,"queue_time_ms":0.0,"mean_itl_ms":4.0,"tokens_per_second":125.0}`},
		{"one token has no gap", fixed, -1, 1, usage, `{"time_to_first_token_ms":20.0,"generation_time_ms":0.0,"queue_time_ms":0.0,"tokens_per_second":50.0}`},
		// The other one has the slot for 32 ms, of which 5 are over.
		{"waiting for the slot", fixed, 5 * ms, 4, usage, `{"time_to_first_token_ms":20.0,"generation_time_ms":12.0,"queue_time_ms":27.0,"mean_itl_ms":4.0,"tokens_per_second":125.0}`},
		{"no usage, nowhere to tell", fixed, -1, 4, "", ""},
		{"not asked to tell", sim.Config{TTFT: 20 * ms}, -1, 4, usage, ""},
		// The idle engine starts 1 ms later, which is the queue's; 10 + 20 ms for the prompt, 10 ms a token.
		{"engine", engine, -1, 3, usage, `{"time_to_first_token_ms":30.0,"generation_time_ms":20.0,"queue_time_ms":0.0,"mean_itl_ms":10.0,"tokens_per_second":60.0}`},
		// It comes at 5 ms, in the other's first step, which ends at 31: until then nobody looks. That one ends at 51.
		{"engine, behind another", engine, 5 * ms, 3, usage, `{"time_to_first_token_ms":30.0,"generation_time_ms":20.0,"queue_time_ms":20.0,"mean_itl_ms":10.0,"tokens_per_second":60.0}`},
	} {
		t.Run(c.reading, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, c.cfg)
				defer s.close(t)
				body := strings.Replace(completion(prompt(20), c.tokens), `,"return`, c.more+`,"return`, 1)
				var other sync.WaitGroup
				if c.after > 0 {
					other.Go(func() {
						if _, err := s.stream(t.Context(), "/v1/completions", body); err != nil {
							t.Error(err)
						}
					})
					time.Sleep(c.after) // of the bubble's clock
				}
				events, err := s.stream(t.Context(), "/v1/completions", body)
				if got := told(t, events); err != nil || got != c.want {
					t.Errorf("got %s, %v, want %s", got, err, c.want)
				}
				other.Wait()
			})
		})
	}
}

// A chat, a response and a body in one piece tell it where vLLM does.
func TestPerRequestMetricsEverywhere(t *testing.T) {
	server := sim.New(sim.Config{PerRequestMetrics: true})
	for path, body := range map[string]string{
		"/v1/completions":      `{"prompt":"a","max_tokens":1}`,
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"a"}],"max_tokens":1}`,
		"/v1/responses":        `{"input":"a","max_output_tokens":1}`,
	} {
		var whole struct{ Metrics map[string]any }
		w := call(t, server, "POST", path, body)
		if err := json.Unmarshal(w.Body.Bytes(), &whole); err != nil {
			t.Fatal(err)
		}
		// In a whole body what is not known is null; these take no time, so there is no rate.
		want := map[string]any{"time_to_first_token_ms": 0.0, "generation_time_ms": 0.0, "queue_time_ms": 0.0, "mean_itl_ms": nil, "tokens_per_second": nil, "speculative_decoding": nil}
		if !reflect.DeepEqual(whole.Metrics, want) {
			t.Errorf("%s: %v", path, whole.Metrics)
		}
	}
	w := call(t, server, "POST", "/v1/responses", `{"input":"a","max_output_tokens":1,"stream":true}`)
	if n := strings.Count(w.Body.String(), `"metrics":{`); n != 1 || !strings.Contains(w.Body.String(), `"user":null,"metrics":{"time_to_first`) {
		t.Errorf("%d times in a streamed response:\n%s", n, w.Body)
	}
}

// vLLM's own members in vLLM's own order: those of a recorded stream.
func TestPerRequestMetricsHaveVLLMsForm(t *testing.T) {
	_, _, body := capture(t, "interval4_stream")
	_, theirs, _ := strings.Cut(body, `"metrics":{`)
	w := call(t, sim.New(sim.Config{PerRequestMetrics: true, TTFT: ms}), "POST", "/v1/completions", `{"prompt":"a","max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`)
	_, ours, _ := strings.Cut(w.Body.String(), `"metrics":{`)
	names := func(s string) (out []string) {
		s, _, _ = strings.Cut(s, "}")
		for member := range strings.SplitSeq(s, ",") {
			name, _, _ := strings.Cut(member, ":")
			out = append(out, name)
		}
		return out
	}
	if a, b := names(ours), names(theirs); len(a) != 5 || !reflect.DeepEqual(a, b) {
		t.Errorf("%v, vLLM's are %v", a, b)
	}
}
