package sim_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/servebench/servebench/bench/sim"
)

const ms = time.Millisecond

func streamBody(prompt string, tokens int) string {
	return fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"stream":true}`, prompt, tokens)
}

func times(events []event) []time.Duration {
	var at []time.Duration
	for _, e := range events {
		at = append(at, e.at)
	}
	return at
}

// In virtual time an event is read at the instant it was written.
func TestTokensAreWrittenWhenTheyAreDue(t *testing.T) {
	for name, c := range map[string]struct {
		config     sim.Config
		path, body string
		want       []time.Duration // the last one is [DONE]
	}{
		"token k at TTFT + k ITL": {
			sim.Config{TTFT: 200 * ms, ITL: 7 * ms}, "/v1/completions", streamBody("a", 4),
			[]time.Duration{200 * ms, 207 * ms, 214 * ms, 221 * ms, 221 * ms},
		},
		"three tokens of prompt": {
			sim.Config{TTFT: 200 * ms, PerPromptToken: 50 * time.Microsecond}, "/v1/completions", streamBody("a b c", 1),
			[]time.Duration{200*ms + 150*time.Microsecond, 200*ms + 150*time.Microsecond},
		},
		// 1, 4, 4 and 1 tokens, each chunk at the time of its last token: 0, 4, 8 and 9 gaps after the first.
		"four tokens a chunk": {
			sim.Config{TTFT: 100 * ms, ITL: 10 * ms, TokensPerChunk: 4}, "/v1/completions", streamBody("a", 10),
			[]time.Duration{100 * ms, 140 * ms, 180 * ms, 190 * ms, 190 * ms},
		},
		"role chunk with the first content, usage with the last": {
			sim.Config{TTFT: 100 * ms, ITL: 10 * ms}, "/v1/chat/completions",
			`{"messages":[{"role":"user","content":"a"}],"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`,
			[]time.Duration{100 * ms, 100 * ms, 110 * ms, 110 * ms, 110 * ms},
		},
		// Announced at once, opened with the first token, closed with the last.
		"a response": {
			sim.Config{TTFT: 100 * ms, ITL: 10 * ms}, "/v1/responses", `{"input":"a","max_output_tokens":3,"stream":true}`,
			[]time.Duration{0, 0, 100 * ms, 100 * ms, 100 * ms, 110 * ms, 120 * ms, 120 * ms, 120 * ms, 120 * ms, 120 * ms},
		},
		"a response, four tokens a chunk": {
			sim.Config{TTFT: 100 * ms, ITL: 10 * ms, TokensPerChunk: 4}, "/v1/responses", `{"input":"a","max_output_tokens":5,"stream":true}`,
			[]time.Duration{0, 0, 100 * ms, 100 * ms, 100 * ms, 140 * ms, 140 * ms, 140 * ms, 140 * ms, 140 * ms},
		},
		"the zero value is instant": {
			sim.Config{}, "/v1/completions", streamBody("a", 2), []time.Duration{0, 0, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, c.config)
				defer s.close(t)
				events, err := s.stream(t.Context(), c.path, c.body)
				if err != nil {
					t.Fatal(err)
				}
				if got := times(events); !slices.Equal(got, c.want) {
					t.Errorf("events at %v, want %v", got, c.want)
				}
			})
		})
	}
}

func TestHeadersLeaveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sim.Config{TTFT: time.Second})
		defer s.close(t)
		start := time.Now()
		resp, err := s.Post("http://sim/v1/completions", "application/json", strings.NewReader(streamBody("a", 1)))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got := time.Since(start); got != 0 {
			t.Errorf("headers after %v, want 0s", got)
		}
	})
}

func TestWholeAnswerComesWithItsLastToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sim.Config{TTFT: 100 * ms, ITL: 10 * ms})
		defer s.close(t)
		start := time.Now()
		resp, err := s.Post("http://sim/v1/completions", "application/json", strings.NewReader(`{"prompt":"a","max_tokens":11}`))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got := time.Since(start); got != 200*ms {
			t.Errorf("answer after %v, want 200ms", got)
		}
	})
}

// Vectors take as long as a first token does, and a slot for that time.
func TestVectorsComeWhenTheyAreDue(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/embeddings": `{"input":["a b","c"]}`, "/embeddings": `{"input":["a b","c"]}`, "/pooling": `{"input":[1,2,3]}`,
		"/v1/rerank": `{"query":"a","documents":["b","c"]}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t, sim.Config{TTFT: 100 * ms, PerPromptToken: ms, ITL: time.Second, Slots: 1})
			defer s.close(t)
			start := time.Now()
			took := make([]time.Duration, 2)
			var all sync.WaitGroup
			for i := range took {
				all.Go(func() {
					resp, err := s.Post("http://sim"+path, "application/json", strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					resp.Body.Close()
					took[i] = time.Since(start)
				})
			}
			all.Wait()
			slices.Sort(took)
			if want := []time.Duration{103 * ms, 206 * ms}; !slices.Equal(took, want) {
				t.Errorf("%s: answers after %v, want %v", path, took, want)
			}
			got := s.get(t, "/metrics")
			for _, want := range []string{
				`request_success_total{engine="0",finished_reason="stop",model_name="servebench-sim"} 2.0`,
				`request_success_total{engine="0",finished_reason="length",model_name="servebench-sim"} 0.0`,
				`prompt_tokens_total{engine="0",model_name="servebench-sim"} 6.0`,
				`generation_tokens_total{engine="0",model_name="servebench-sim"} 0.0`,
			} {
				if !strings.Contains(got, "vllm:"+want+"\n") {
					t.Errorf("%s: metrics lack %s", path, want)
				}
			}
		})
	}
}

func TestJitterRepeatsWithTheSeed(t *testing.T) {
	run := func(seed uint64, perChunk int) (all [][]time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t, sim.Config{TTFT: 100 * ms, ITL: 10 * ms, Jitter: 0.5, Seed: seed, TokensPerChunk: perChunk})
			defer s.close(t)
			for range 2 {
				events, err := s.stream(t.Context(), "/v1/completions", streamBody("a", 9))
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, times(events))
			}
		})
		return all
	}
	a, b, other, chunked := run(1, 1), run(1, 1), run(2, 1), run(1, 4)
	for i := range a {
		if !slices.Equal(a[i], b[i]) {
			t.Errorf("request %d: %v, then %v", i, a[i], b[i])
		}
		if slices.Equal(a[i], other[i]) {
			t.Errorf("request %d: the seed changes nothing", i)
		}
		// Chunks only choose which of the due times are seen: tokens 0, 4 and 8, then [DONE].
		if want := []time.Duration{a[i][0], a[i][4], a[i][8], a[i][9]}; !slices.Equal(chunked[i], want) {
			t.Errorf("request %d in chunks: %v, want %v", i, chunked[i], want)
		}
	}
	if slices.Equal(a[0], a[1]) {
		t.Error("both requests have the same jitter")
	}
}

func TestSlotsAreGivenInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sim.Config{TTFT: 100 * ms, ITL: 10 * ms, Slots: 1})
		defer s.close(t)
		first := make([]time.Duration, 3)
		var all sync.WaitGroup
		start := time.Now()
		for i := range first {
			all.Go(func() {
				sent := time.Since(start)
				events, err := s.stream(t.Context(), "/v1/completions", streamBody("a", 3))
				if err != nil {
					t.Error(err)
					return
				}
				first[i] = sent + events[0].at
			})
			time.Sleep(ms)
		}
		for _, want := range []string{
			`vllm:num_requests_running{engine="0",model_name="servebench-sim"} 1.0`,
			`vllm:num_requests_waiting{engine="0",model_name="servebench-sim"} 2.0`,
		} {
			if got := s.get(t, "/metrics"); !strings.Contains(got, want+"\n") {
				t.Errorf("metrics lack %s", want)
			}
		}
		all.Wait()
		// Each holds the slot for 100 + 2*10 ms.
		if want := []time.Duration{100 * ms, 220 * ms, 340 * ms}; !slices.Equal(first, want) {
			t.Errorf("first tokens at %v, want %v", first, want)
		}
	})
}

// Request 0 is given up at 50 ms in the middle of its prefill, request 1 while it waits: request 2 starts at 50 ms.
func TestAbortFreesTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sim.Config{TTFT: 100 * ms, ITL: 10 * ms, Slots: 1})
		defer s.close(t)
		var all sync.WaitGroup
		for _, patience := range []time.Duration{50 * ms, 30 * ms} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			all.Go(func() {
				if events, err := s.stream(ctx, "/v1/completions", streamBody("a", 3)); !errors.Is(err, context.DeadlineExceeded) || len(events) > 0 {
					t.Errorf("got %v, %v", events, err)
				}
			})
			synctest.Wait()
		}
		events, err := s.stream(t.Context(), "/v1/completions", streamBody("a", 3))
		if err != nil {
			t.Fatal(err)
		}
		if want := []time.Duration{150 * ms, 160 * ms, 170 * ms, 170 * ms}; !slices.Equal(times(events), want) {
			t.Errorf("events at %v, want %v", times(events), want)
		}
		all.Wait()
		for _, want := range []string{
			`num_requests_running{engine="0",model_name="servebench-sim"} 0.0`,
			`num_requests_waiting{engine="0",model_name="servebench-sim"} 0.0`,
			`request_success_total{engine="0",finished_reason="length",model_name="servebench-sim"} 1.0`,
			`prompt_tokens_total{engine="0",model_name="servebench-sim"} 1.0`,
			`generation_tokens_total{engine="0",model_name="servebench-sim"} 3.0`,
			`prefix_cache_queries_total{engine="0",model_name="servebench-sim"} 2.0`, // of the two that got the slot
		} {
			if got := s.get(t, "/metrics"); !strings.Contains(got, "vllm:"+want+"\n") {
				t.Errorf("metrics lack %s in\n%s", want, got)
			}
		}
	})
}

// A client that leaves after three tokens: they count as generated, the request in no success figure.
func TestAbortInTheMiddleStopsTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sim.Config{TTFT: 100 * ms, ITL: 10 * ms})
		defer s.close(t)
		ctx, cancel := context.WithTimeout(t.Context(), 125*ms)
		defer cancel()
		events, err := s.stream(ctx, "/v1/completions", streamBody("a", 1000))
		if !errors.Is(err, context.DeadlineExceeded) || len(events) != 3 {
			t.Errorf("%d events, %v", len(events), err)
		}
		synctest.Wait()
		got := s.get(t, "/metrics")
		for _, want := range []string{
			`num_requests_running{engine="0",model_name="servebench-sim"} 0.0`,
			`request_success_total{engine="0",finished_reason="length",model_name="servebench-sim"} 0.0`,
			`generation_tokens_total{engine="0",model_name="servebench-sim"} 3.0`,
		} {
			if !strings.Contains(got, "vllm:"+want+"\n") {
				t.Errorf("metrics lack %s in\n%s", want, got)
			}
		}
	})
}

func TestServeStopsWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sim.Config{})
		if got := s.get(t, "/version"); got != `{"version":"`+sim.Version+`"}` {
			t.Errorf("version %s", got)
		}
		s.close(t)
		if _, err := s.Get("http://sim/health"); err == nil {
			t.Error("a stopped server answers")
		}
	})
}

func TestServeLetsRunningRequestsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sim.Config{TTFT: 4 * time.Second})
		time.AfterFunc(time.Second, s.stop)
		events, err := s.stream(t.Context(), "/v1/completions", streamBody("a", 1))
		if err != nil || len(events) != 2 || events[1] != (event{4 * time.Second, "[DONE]"}) {
			t.Errorf("got %v, %v", events, err)
		}
		s.close(t)
	})
}

func TestServeCutsWhatDoesNotFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sim.Config{TTFT: time.Minute})
		time.AfterFunc(time.Second, s.stop)
		start := time.Now()
		events, err := s.stream(t.Context(), "/v1/completions", streamBody("a", 1))
		if got := time.Since(start); err == nil || len(events) != 0 || got != 6*time.Second {
			t.Errorf("got %v, %v after %v, want an error after 1+5 s", events, err, got)
		}
		s.close(t)
	})
}

func TestServeReportsABrokenListener(t *testing.T) {
	l := newPipeNet()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := sim.New(sim.Config{}).Serve(t.Context(), l); err == nil || errors.Is(err, http.ErrServerClosed) {
		t.Errorf("got %v, want the listener's error", err)
	}
}
