package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/servebench/servebench/bench/sim"
)

// prompt is n tokens.
func prompt(n int) string { return strings.TrimSpace(strings.Repeat("a ", n)) }

// completion is a request for a stream with its token ids.
func completion(promptText string, maxTokens int) string {
	return fmt.Sprintf(`{"prompt":%q,"max_tokens":%d,"stream":true,"return_token_ids":true}`, promptText, maxTokens)
}

// chunks is when each event with tokens came and how many it had.
func chunks(t testing.TB, events []event) (out []string) {
	t.Helper()
	for _, e := range events {
		var body struct {
			Choices []struct {
				TokenIDs []int `json:"token_ids"`
			}
		}
		if e.data == "[DONE]" {
			out = append(out, fmt.Sprint(e.at, " done"))
			continue
		}
		if err := json.Unmarshal([]byte(e.data), &body); err != nil {
			t.Fatal(err)
		}
		for _, c := range body.Choices {
			out = append(out, fmt.Sprint(e.at, " ", len(c.TokenIDs)))
		}
	}
	return out
}

func TestEngineStreams(t *testing.T) {
	base := sim.Engine{ChunkedPrefill: true, StepBase: 10 * ms, PrefillRate: 1000, IdleDelay: ms}
	for _, c := range []struct {
		name string
		cfg  sim.Config
		set  func(*sim.Engine)
		want []string
	}{
		// 1 ms until the idle engine starts, 10 + 20 ms for the prompt, then 10 ms a token.
		{"a token a step", sim.Config{}, func(*sim.Engine) {}, []string{"31ms 1", "41ms 1", "51ms 1", "61ms 1", "71ms 1", "71ms done"}},
		{"stream interval", sim.Config{TokensPerChunk: 3}, func(*sim.Engine) {}, []string{"31ms 1", "61ms 3", "71ms 1", "71ms done"}},
		{"speculation", sim.Config{}, func(e *sim.Engine) {
			e.SpeculativeTokens, e.Acceptance, e.DraftOverhead = 2, []sim.Acceptance{{Share: 1, Rate: 1}}, 2*ms
		}, []string{"31ms 1", "43ms 3", "55ms 1", "55ms done"}},
		{"chunks of the prompt", sim.Config{}, func(e *sim.Engine) { e.MaxNumSeqs, e.MaxNumBatchedTokens = 8, 8 },
			[]string{"51ms 1", "61ms 1", "71ms 1", "81ms 1", "91ms 1", "91ms done"}}, // 18 + 18 + 14 ms
		{"half the time", sim.Config{}, func(e *sim.Engine) { e.TimeScale = 0.5 },
			[]string{"15.5ms 1", "20.5ms 1", "25.5ms 1", "30.5ms 1", "35.5ms 1", "35.5ms done"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := base
				c.set(&e)
				c.cfg.Engine, c.cfg.MaxModelLen = &e, 100
				s := serve(t, c.cfg)
				defer s.close(t)
				events, err := s.stream(t.Context(), "/v1/completions", completion(prompt(20), 5))
				if got := chunks(t, events); err != nil || !reflect.DeepEqual(got, c.want) {
					t.Errorf("got %v, %v, want %v", got, err, c.want)
				}
			})
		})
	}
}

// Whatever the order in which the goroutines of one instant run, the same requests get the same times.
func TestEngineIsDeterministic(t *testing.T) {
	run := func() (all []string) {
		synctest.Test(t, func(t *testing.T) {
			e := sim.Engine{ChunkedPrefill: true, MaxNumSeqs: 6, MaxNumBatchedTokens: 64, StepBase: 10 * ms, PerSequence: ms, PrefillRate: 1e4, Frontend: ms}
			s := serve(t, sim.Config{Engine: &e, MaxModelLen: 200, Jitter: 0.3, Seed: 7})
			defer s.close(t)
			var wg sync.WaitGroup
			var mu sync.Mutex
			times := map[string]int{}
			for range 20 {
				wg.Go(func() {
					for range 3 {
						events, err := s.stream(t.Context(), "/v1/completions", completion(prompt(50), 9))
						if err != nil {
							t.Error(err)
						}
						mu.Lock()
						times[fmt.Sprint(chunks(t, events))]++
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			all = append(all, fmt.Sprint(times, time.Now().UnixNano()))
		})
		return all
	}
	if first, second := run(), run(); !reflect.DeepEqual(first, second) {
		t.Errorf("two runs differ:\n%v\n%v", first, second)
	}
}

// A thousand streams are one timer: they end together, at the time of one.
func TestThousandStreamsOfAnEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := sim.Engine{ChunkedPrefill: true, MaxNumSeqs: 1000, MaxNumBatchedTokens: 16384, StepBase: 10 * ms, IdleDelay: ms}
		s := serve(t, sim.Config{Engine: &e, MaxModelLen: 100})
		defer s.close(t)
		var wg sync.WaitGroup
		for range 1000 {
			wg.Go(func() {
				events, err := s.stream(t.Context(), "/v1/completions", completion("a", 5))
				if err != nil || len(events) != 6 || events[5].at != 51*ms {
					t.Errorf("%d events, %v, want 6 within 51 ms", len(events), err)
				}
			})
		}
		wg.Wait()
	})
}

// The events that open and close a chat or a response are written with the tokens next to them.
func TestEngineStreamsEveryAPI(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"a"}],"max_tokens":3,"stream":true}`,
		"/v1/responses":        `{"input":"a","max_output_tokens":3,"stream":true}`,
	} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := sim.Engine{ChunkedPrefill: true, StepBase: 10 * ms, IdleDelay: ms}
				with := serve(t, sim.Config{Engine: &e, MaxModelLen: 100})
				defer with.close(t)
				// The formula with the same times: events and their order are the same.
				without := serve(t, sim.Config{TTFT: 11 * ms, ITL: 10 * ms, MaxModelLen: 100})
				defer without.close(t)
				var got [2][]event
				for i, s := range []*served{with, without} {
					var err error
					if got[i], err = s.stream(t.Context(), path, body); err != nil {
						t.Fatal(err)
					}
					for k := range got[i] { // made of the clock
						got[i][k].data = created.ReplaceAllString(got[i][k].data, "")
					}
				}
				if !reflect.DeepEqual(got[0], got[1]) {
					t.Errorf("got\n%v\nwant\n%v", got[0], got[1])
				}
			})
		})
	}
}

var created = regexp.MustCompile(`"(created|created_at|completed_at)":[0-9.]+`)

func TestEngineAnswersWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := sim.Engine{ChunkedPrefill: true, StepBase: 10 * ms, IdleDelay: ms}
		s := serve(t, sim.Config{Engine: &e, MaxModelLen: 100})
		defer s.close(t)
		for path, want := range map[string]time.Duration{
			"/v1/completions": 51 * ms, // five steps
			"/v1/embeddings":  11 * ms, // one step for both prompts
		} {
			start := time.Now()
			resp, err := s.Post("http://sim"+path, "application/json", strings.NewReader(`{"prompt":"a","input":["a","b"],"max_tokens":5}`))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if got := time.Since(start); resp.StatusCode != http.StatusOK || got != want {
				t.Errorf("%s: status %d after %v, want 200 after %v", path, resp.StatusCode, got, want)
			}
		}
	})
}

func TestEngineMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// 64 blocks of 4. One request runs, the other waits for its slot.
		e := sim.Engine{MaxNumSeqs: 1, MaxNumBatchedTokens: 256, ChunkedPrefill: true, PrefixCaching: true, BlockSize: 4, KVTokens: 256,
			StepBase: 10 * ms, IdleDelay: ms, SpeculativeTokens: 2, Acceptance: []sim.Acceptance{{Share: 1, Rate: 1}},
			GPUMemoryUtilization: 0.92, CacheDtype: "fp8"}
		s := serve(t, sim.Config{Model: "m", Engine: &e, MaxModelLen: 256})
		defer s.close(t)
		expect := func(when string, want ...string) {
			t.Helper()
			got := s.get(t, "/metrics")
			for _, w := range want {
				if !strings.Contains(got, "\nvllm:"+w+"\n") {
					t.Errorf("%s: metrics lack %s in\n%s", when, w, got)
				}
			}
		}
		const of = `{engine="0",model_name="m"}`
		expect("before",
			`cache_config_info{block_size="4",cache_dtype="fp8",enable_prefix_caching="True",engine="0",gpu_memory_utilization="0.92",kv_cache_size_tokens="256",model_name="m",num_gpu_blocks="64"} 1.0`,
			"kv_cache_usage_perc"+of+" 0.0")
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if _, err := s.stream(t.Context(), "/v1/completions", completion(prompt(20), 5)); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(5 * ms)
		expect("in the first step", "num_requests_running"+of+" 1.0", "num_requests_waiting"+of+" 1.0",
			"kv_cache_usage_perc"+of+" 0.078125", "generation_tokens_total"+of+" 0.0") // 5 of 64 blocks
		wg.Wait()
		expect("after", "num_requests_running"+of+" 0.0", "num_requests_waiting"+of+" 0.0", "kv_cache_usage_perc"+of+" 0.0",
			"prompt_tokens_total"+of+" 40.0", "generation_tokens_total"+of+" 10.0", "num_preemptions_total"+of+" 0.0",
			"prefix_cache_queries_total"+of+" 40.0", "prefix_cache_hits_total"+of+" 16.0", // all blocks but the last
			"spec_decode_num_drafts_total"+of+" 4.0", "spec_decode_num_draft_tokens_total"+of+" 8.0",
			"spec_decode_num_accepted_tokens_total"+of+" 8.0",
			`spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 4.0`,
			`spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 4.0`,
			`request_success_total{engine="0",finished_reason="length",model_name="m"} 2.0`)

		resp, err := s.Post("http://sim/reset_prefix_cache", "", nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		resp.Body.Close()
		if _, err := s.stream(t.Context(), "/v1/completions", completion(prompt(20), 1)); err != nil {
			t.Error(err)
		}
		expect("after the reset", "prefix_cache_queries_total"+of+" 60.0", "prefix_cache_hits_total"+of+" 16.0")
		if got := s.get(t, "/v1/models"); !strings.Contains(got, `"max_model_len":256,`) {
			t.Errorf("models: %s", got)
		}
	})
}

func TestEngineForgetsWhoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := sim.Engine{MaxNumSeqs: 1, ChunkedPrefill: true, StepBase: 10 * ms, IdleDelay: ms}
		s := serve(t, sim.Config{Engine: &e, MaxModelLen: 10000})
		defer s.close(t)
		ctx, cancel := context.WithTimeout(t.Context(), 35*ms)
		defer cancel()
		// Steps end at 11, 21, 31 ms.
		if events, err := s.stream(ctx, "/v1/completions", completion("a", 1000)); !errors.Is(err, context.DeadlineExceeded) || len(events) != 3 {
			t.Errorf("%d events, %v", len(events), err)
		}
		start := time.Now() // 35 ms: the step to 41 ms runs on without its request
		events, err := s.stream(t.Context(), "/v1/completions", completion("a", 1))
		if err != nil || len(events) != 2 || events[0].at != 16*ms {
			t.Errorf("got %v, %v from %v, want the token 6 + 10 ms later", events, err, start)
		}
	})
}

func TestConfigWithEngineSurvivesJSON(t *testing.T) {
	want := sim.Config{Model: "m", Engine: &sim.Engine{MaxNumSeqs: 3, PrefillRate: 1234.5, StepBase: ms, SpeculativeTokens: 1, Acceptance: []sim.Acceptance{{Share: 0.7, Rate: 0.9}}}}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got sim.Config
	if err := json.Unmarshal(data, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v from %s", got, err, data)
	}
}
