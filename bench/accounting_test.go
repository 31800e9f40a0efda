package bench_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/metrics"
)

// The default changes no byte of a body, and the digest is over what is sent.
func TestAccountingInBodies(t *testing.T) {
	plan := func(backend, asked string) *bench.Plan {
		cfg := config(nil)
		cfg.Backend, cfg.TokenAccounting, cfg.Dataset.Warmups, cfg.ProbeRate = backend, asked, 1, 1
		p, err := bench.Prepare(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, backend := range []string{"vllm", "openai-chat"} {
		plain := plan(backend, "")
		for _, c := range []struct{ asked, from, to string }{
			{"chunks", "", ""},
			{"auto", "", ""}, // nobody is there to be asked
			{"ids", `"ignore_eos":true`, `"ignore_eos":true,"return_token_ids":true`},
			{"usage", `"include_usage":true`, `"include_usage":true,"continuous_usage_stats":true`},
		} {
			got := plan(backend, c.asked)
			if (got.SHA256 == plain.SHA256) != (c.from == "") {
				t.Errorf("%s %s: digest %s beside %s", backend, c.asked, got.SHA256, plain.SHA256)
			}
			for i := range got.Requests {
				if want := strings.Replace(string(plain.Requests[i].Body), c.from, c.to, 1); string(got.Requests[i].Body) != want {
					t.Errorf("%s %s: %s, want %s", backend, c.asked, got.Requests[i].Body, want)
				}
			}
			if has(got.Warnings, "asks the server first") != (c.asked == "auto") {
				t.Errorf("%s: %q", c.asked, got.Warnings)
			}
		}
	}
}

func TestAccountingIsValidated(t *testing.T) {
	for _, c := range []struct {
		why  string
		set  func(*bench.Config)
		want string // "": valid
	}{
		{"no such form", func(c *bench.Config) { c.TokenAccounting = "tokens" }, `token-accounting: "tokens"; want chunks, ids, usage or auto`},
		{"strict", func(c *bench.Config) { c.TokenAccounting, c.Strict = "ids", true }, "strict-openai"},
		{"strict, auto", func(c *bench.Config) { c.TokenAccounting, c.Strict = "auto", true }, ""},
		{"responses", func(c *bench.Config) { c.TokenAccounting, c.Backend = "usage", "openai-responses" }, "openai-responses has no parameter for it"},
		{"pooling", func(c *bench.Config) { c.TokenAccounting, c.Backend, c.IgnoreEOS = "ids", "openai-embeddings", false }, "openai-embeddings has no parameter for it"},
		{"pooling, auto", func(c *bench.Config) { c.TokenAccounting, c.Backend, c.IgnoreEOS = "auto", "openai-embeddings", false }, ""},
		{"no stream", func(c *bench.Config) { c.TokenAccounting, c.Stream = "ids", false }, "stream is off"},
		{"extra ids", func(c *bench.Config) {
			c.TokenAccounting, c.Extra = "ids", json.RawMessage(`{"return_token_ids":false}`)
		}, "extra-body sets return_token_ids to false"},
		{"extra options", func(c *bench.Config) {
			c.TokenAccounting, c.Extra = "usage", json.RawMessage(`{"stream_options":{"continuous_usage_stats":true}}`)
		}, "extra-body has stream_options of its own"},
		{"the same extra options", func(c *bench.Config) {
			c.TokenAccounting, c.Extra = "usage", json.RawMessage(`{"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`)
		}, ""},
		{"usage of two choices", func(c *bench.Config) { c.TokenAccounting, c.Extra = "usage", json.RawMessage(`{"n":2}`) }, "asks for 2 of them; want ids"},
		{"ids of two choices", func(c *bench.Config) { c.TokenAccounting, c.Extra = "ids", json.RawMessage(`{"n":2}`) }, ""},
	} {
		cfg := config(nil)
		c.set(&cfg)
		err := cfg.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.why, err, c.want)
		}
	}
}

// S10: 4 tokens in a chunk every 40 ms, by either parameter and either API.
func TestFourTokensAChunk(t *testing.T) {
	for _, backend := range []string{"vllm", "openai-chat"} {
		for _, asked := range []string{"chunks", "ids", "usage", "auto"} {
			t.Run(backend+" "+asked, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cfg := simulate(t, sim.Config{TTFT: 50 * ms, ITL: 10 * ms, TokensPerChunk: 4})
					cfg.Backend, cfg.TokenAccounting, cfg.Dataset.OutputLen, cfg.Dataset.Warmups = backend, asked, 41, 2
					res, err := bench.Run(t.Context(), cfg)
					if err != nil {
						t.Fatal(err)
					}
					s := res.Summary
					if s.OutputTokens != 4*41 || s.TokenSources[metrics.FromUsage] != 4 || s.Counters.UsageMismatch > 0 {
						t.Errorf("%d tokens, %v: %q", s.OutputTokens, s.TokenSources, res.Warnings)
					}
					exactly(t, "tpot", s.Token.TPOT, 4, 10)
					exactly(t, "itl", s.Token.ITL, 40, 40)
					if asked == "chunks" {
						if s.ITLPerToken != nil || s.Chunks != nil || s.TPOTAfterFirst != nil {
							t.Errorf("%+v, %+v of nothing told", s.ITLPerToken, s.Chunks)
						}
						return
					}
					exactly(t, "itl per token", s.ITLPerToken, 160, 10)
					exactly(t, "tpot after the first chunk", s.TPOTAfterFirst, 4, 10)
					want := metrics.ChunkSizes{Requests: 4, Chunks: 44, Tokens: 164, Mean: 164. / 44, P50: 4, P99: 4, Max: 4, Single: 4. / 44, First: 1}
					if *s.Chunks != want {
						t.Errorf("chunks %+v, want %+v", *s.Chunks, want)
					}
					ext := save(t, res).Measurement.Extensions
					told, _ := ext["servebench.token_accounting"].(map[string]any)
					used := asked
					if asked == "auto" {
						used = "usage"
					}
					if told["asked"] != asked || told["used"] != used || told["why"] == "" {
						t.Errorf("the manifest says %v", told)
					}
					for _, key := range []string{"tokens_per_chunk", "itl_per_token_ms", "tpot_after_first_chunk_ms"} {
						if ext["servebench."+key] == nil {
							t.Errorf("the manifest lacks %s", key)
						}
					}
				})
			})
		}
	}
}

// exactly wants n samples that are all the same.
func exactly(t *testing.T, name string, d *metrics.Dist, n int, want float64) {
	t.Helper()
	if d == nil || d.N != n || d.Mean != want || d.Min != want || d.Max != want {
		t.Errorf("%s is %+v, want %d times %v", name, d, n, want)
	}
}

// A first chunk of four tokens makes tpot too small, which is said, and the
// figure beside it is right.
func TestFourTokensInTheFirstChunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := sim.New(sim.Config{})
		cfg := config(serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || r.URL.Path != "/v1/completions" {
				server.ServeHTTP(w, r)
				return
			}
			for n := 4; n <= 40; n += 4 {
				time.Sleep(40 * ms)
				fmt.Fprintf(w, `data: {"choices":[{"index":0,"text":"wxyz","finish_reason":null}],"usage":{"prompt_tokens":7,"completion_tokens":%d}}`+"\n\n", n)
				w.(http.Flusher).Flush()
			}
			io.WriteString(w, "data: [DONE]\n\n")
		})))
		cfg.TokenAccounting, cfg.Dataset.OutputLen = "usage", 40
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		s := res.Summary
		exactly(t, "tpot", s.Token.TPOT, 4, 360./39)
		exactly(t, "tpot after the first chunk", s.TPOTAfterFirst, 4, 10)
		exactly(t, "itl", s.Token.ITL, 36, 40)
		exactly(t, "itl per token", s.ITLPerToken, 144, 10)
		if s.OutputTokens != 160 || !has(res.Warnings, "First chunks bring 4.0 tokens on average: mean TPOT, which counts all but one of them, is 7.7 % below") {
			t.Errorf("%d tokens, %q", s.OutputTokens, res.Warnings)
		}
	})
}

// S9: reasoning for a second, then content. Both firsts are told, and who came
// to no content is counted.
func TestReasoningFirst(t *testing.T) {
	for _, c := range []struct {
		name            string
		reasoning, n    int
		visible, unseen int
	}{{"then content", 10, 15, 4, 0}, {"and nothing else", 15, 15, 0, 4}, {"none", 0, 15, 0, 0}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := simulate(t, sim.Config{TTFT: 100 * ms, ITL: 100 * ms, ReasoningTokens: c.reasoning})
				cfg.Backend, cfg.Dataset.OutputLen = "openai-chat", c.n
				res, err := bench.Run(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				s, ext := res.Summary, save(t, res).Measurement.Extensions
				exactly(t, "ttft_token", s.Token.TTFT, 4, 100)
				if c.visible > 0 {
					exactly(t, "ttft_visible", s.TTFTVisible, c.visible, 1100)
				}
				if (s.TTFTVisible != nil) != (c.visible > 0) || (ext["servebench.ttft_visible_ms"] != nil) != (c.visible > 0) {
					t.Errorf("visible %+v, %v", s.TTFTVisible, ext["servebench.ttft_visible_ms"])
				}
				want := metrics.Reasoning{Requests: min(c.reasoning, 1) * 4, Unseen: c.unseen, Tokens: int64(4 * c.reasoning)}
				if s.Reasoning != want || (ext["servebench.reasoning"] != nil) != (c.reasoning > 0) {
					t.Errorf("%+v, want %+v; %v", s.Reasoning, want, ext["servebench.reasoning"])
				}
				if has(res.Warnings, "show nothing else") != (c.unseen > 0) {
					t.Errorf("%q", res.Warnings)
				}
			})
		})
	}
}

// edited is a server behind something that changes the bodies of requests for
// tokens, or refuses them by a status.
func edited(server http.Handler, asked *atomic.Int64, edit func(body string) (string, int)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v1/") {
			asked.Add(1)
			b, _ := io.ReadAll(r.Body)
			body, status := edit(string(b))
			if status != 0 {
				http.Error(w, body, status)
				return
			}
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
		}
		server.ServeHTTP(w, r)
	})
}

func without(parameter string) func(string) (string, int) {
	return func(body string) (string, int) { return strings.Replace(body, `,"`+parameter+`":true`, "", 1), 0 }
}

func refusing(parameter string) func(string) (string, int) {
	return func(body string) (string, int) {
		if strings.Contains(body, parameter) {
			return `{"error":{"message":"Unknown parameter: '` + parameter + `'."}}`, http.StatusBadRequest
		}
		return body, 0
	}
}

func both(f, g func(string) (string, int)) func(string) (string, int) {
	return func(body string) (string, int) {
		if out, status := f(body); status != 0 {
			return out, status
		} else {
			return g(out)
		}
	}
}

// posing answers as vLLM of a version does, where it is asked what it is.
func posing(version string, server http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/version":
			fmt.Fprintf(w, `{"version":%q}`, version)
		case "/v1/models":
			io.WriteString(w, `{"data":[{"id":"m","owned_by":"vllm"}]}`)
		case "/metrics":
			io.WriteString(w, prom("prompt_tokens", 1))
		default:
			server.ServeHTTP(w, r)
		}
	})
}

// silent never answers a request that has the parameter.
func silent(parameter string, server http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), parameter) {
			<-r.Context().Done()
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		server.ServeHTTP(w, r)
	})
}

func TestAutoAccounting(t *testing.T) {
	as := func(body string) (string, int) { return body, 0 }
	plain := sim.New(sim.Config{})
	deaf := both(without("continuous_usage_stats"), without("return_token_ids"))
	for _, c := range []struct {
		name   string
		server http.Handler
		edit   func(string) (string, int)
		set    func(*bench.Config)
		used   string
		probes int // untimed requests
		why    string
	}{
		{"the simulator", plain, as, nil, "usage", 2, "told the tokens of each of 8 events"},
		{"vLLM", posing("0.32.0", plain), as, nil, "usage", 2, "told the tokens of each of 8 events"},
		{"an old vLLM", posing("0.9.2", plain), as, nil, "chunks", 0, "not known that the server (vllm 0.9.2) can tell"},
		{"a vLLM of no version", posing("dev", plain), as, nil, "chunks", 0, "not known"},
		{"an unknown server", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Server", "other")
			plain.ServeHTTP(w, r)
		}), as, nil, "chunks", 0, "not known that the server (unknown"},
		{"one that ignores the usage", plain, without("continuous_usage_stats"), nil, "ids", 3, "each of 8 events"},
		{"one that is silent when asked", silent("continuous_usage_stats", plain), as, nil, "chunks", 2, "usage: no whole answer within 1m0s"},
		{"one that ignores both", plain, deaf, nil, "chunks", 3, "usage: the server did not tell the tokens of every event; ids: the server did not"},
		{"one that refuses the usage", plain, refusing("continuous_usage_stats"), nil, "ids", 3, "each of 8 events"},
		{"one that refuses both", plain, both(refusing("continuous_usage_stats"), refusing("return_token_ids")), nil, "chunks", 3, "HTTP 400: Unknown parameter: 'return_token_ids'"},
		{"one that fails", plain, func(string) (string, int) { return "overloaded", 503 }, nil, "chunks", 1, "a request without it failed (HTTP 503"},
		{"one that writes much more", plain, func(body string) (string, int) {
			if strings.Contains(body, "continuous") || strings.Contains(body, "token_ids") {
				body = strings.Replace(body, `"model":"m"`, `"model":"`+strings.Repeat("m", 200)+`"`, 1)
			}
			return body, 0
		}, nil, "chunks", 3, "an event takes"},
		{"two choices", plain, func(body string) (string, int) { return strings.Replace(body, `,"n":2`, "", 1), 0 }, func(c *bench.Config) { c.Extra = json.RawMessage(`{"n":2}`) }, "ids", 2, "each of 8 events"},
		{"two choices, refused", plain, as, func(c *bench.Config) { c.Extra = json.RawMessage(`{"n":2}`) }, "chunks", 1, "failed (HTTP 400"},
		{"a server that recounts reasoning", sim.New(sim.Config{ReasoningTokens: 3}), as, func(c *bench.Config) { c.Backend = "openai-chat" }, "ids", 3, "each of 9 events"},
		{"and has long prompts", sim.New(sim.Config{ReasoningTokens: 3}), as, func(c *bench.Config) { c.Backend, c.Dataset.InputLen = "openai-chat", 300 }, "chunks", 3, "into the first event"},
		{"strict", plain, as, func(c *bench.Config) { c.Strict = true }, "chunks", 0, "--strict-openai"},
		{"not streaming", plain, as, func(c *bench.Config) { c.Stream = false }, "chunks", 0, "nothing is streamed"},
		{"responses", plain, as, func(c *bench.Config) { c.Backend = "openai-responses" }, "chunks", 0, "no parameter"},
		{"options of the user's", plain, as, func(c *bench.Config) { c.Extra = json.RawMessage(`{"stream_options":{"include_usage":true}}`) }, "chunks", 0, "--extra-body"},
		{"a file, which is read first", plain, as, func(c *bench.Config) {
			path := filepath.Join(t.TempDir(), "prompts.jsonl")
			if err := os.WriteFile(path, []byte(`{"prompt":"a b"}`+"\n"+`{"prompt":"c d"}`+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			c.Dataset.Name, c.Dataset.Path, c.Dataset.Prompts, c.Dataset.OutputLen = "custom", path, 2, 5
			c.Dataset.SkipTemplate = true
		}, "usage", 2, "each of 8 events"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked atomic.Int64
				cfg := config(serveHandler(t, edited(c.server, &asked, c.edit)))
				cfg.TokenAccounting = "auto"
				if c.set != nil {
					c.set(&cfg)
				}
				res, _ := bench.Run(t.Context(), cfg)
				if res == nil {
					t.Fatal("no result")
				}
				a := res.Accounting
				if a.Asked != "auto" || a.Used != c.used || a.Probes != c.probes || !strings.Contains(a.Why, c.why) {
					t.Errorf("%+v, want %s after %d requests as %q", a, c.used, c.probes, c.why)
				}
				if n := len(res.Records) + a.Probes; int(asked.Load()) != n {
					t.Errorf("%d requests came, want %d", asked.Load(), n)
				}
				if has(res.Warnings, "--token-accounting auto asks for nothing") != (c.used == "chunks") {
					t.Errorf("%q", res.Warnings)
				}
				if told := res.Summary.Chunks; res.Summary.Completed > 0 && (told != nil) != (c.used != "chunks") {
					t.Errorf("%s, and %+v was told", a.Used, told)
				}
			})
		})
	}
}

// Two servers of which one cannot tell are not asked for more than both can.
func TestAutoAccountingOfReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		server := sim.New(sim.Config{})
		deaf := edited(server, &asked, without("continuous_usage_stats"))
		cfg := config(serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Host == "two.test" {
				deaf.ServeHTTP(w, r)
			} else {
				server.ServeHTTP(w, r)
			}
		})))
		cfg.TokenAccounting, cfg.Replicas = "auto", []string{"http://two.test"}
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if a := res.Accounting; a.Used != "ids" || a.Probes != 6 || res.Summary.Chunks.Requests != 4 {
			t.Errorf("%+v, %+v", a, res.Summary.Chunks)
		}
	})
}

// What was asked for by name and does not come is said.
func TestAccountingThatDoesNotCome(t *testing.T) {
	for _, c := range []struct {
		asked string
		edit  func(string) (string, int)
		ready bool
		want  string
	}{
		{"ids", without("return_token_ids"), false, "--token-accounting ids: 4 of 4 streams did not tell the tokens of every event"},
		{"usage", without("continuous_usage_stats"), false, "--token-accounting usage: 4 of 4 streams did not tell"},
		{"ids", refusing("return_token_ids"), false, "all 4 requests failed, the first with: HTTP 400: Unknown parameter: 'return_token_ids'"},
		{"usage", refusing("continuous_usage_stats"), true, "the ready check failed: HTTP 400: Unknown parameter: 'continuous_usage_stats'"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int64
			cfg := config(serveHandler(t, edited(sim.New(sim.Config{}), &asked, c.edit)))
			cfg.TokenAccounting = c.asked
			if c.ready {
				cfg.ReadyTimeout = time.Second
			}
			res, err := bench.Run(t.Context(), cfg)
			if err != nil && !strings.Contains(err.Error(), c.want) || err == nil && !has(res.Warnings, c.want) {
				t.Errorf("%s: %v, %q, want %q", c.asked, err, res.Warnings, c.want)
			}
		})
	}
}

// The server's drafts over the timed part are the chunks that came in it: each
// step of speculation is one, and each request's first chunk is none of them.
func TestChunksAreStepsOfSpeculation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := simulate(t, sim.Config{Seed: 5, Engine: &sim.Engine{
			StepBase: 10 * ms, MaxNumSeqs: 8, MaxNumBatchedTokens: 512, ChunkedPrefill: true,
			SpeculativeTokens: 3, Acceptance: []sim.Acceptance{{Share: 1, Rate: .6}},
		}})
		cfg.TokenAccounting, cfg.Dataset.OutputLen, cfg.Dataset.Warmups = "ids", 60, 3
		res, err := bench.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		k, sp := res.Summary.Chunks, res.Speculation
		if sp == nil || k == nil {
			t.Fatalf("%+v, %+v: %q", sp, k, res.Warnings)
		}
		if int64(k.Chunks-4) != sp.Drafts {
			t.Errorf("%d chunks after the first ones, and %d drafts", k.Chunks-4, sp.Drafts)
		}
		// The last step of a request may accept more than was asked for.
		if over := sp.Drafts + sp.Accepted - (k.Tokens - 4); over < 0 || over > 4*3 {
			t.Errorf("%d drafts and %d accepted tokens for %d tokens after the first", sp.Drafts, sp.Accepted, k.Tokens-4)
		}
		if k.Max > 4 || k.Mean <= 1 {
			t.Errorf("%+v", k)
		}
	})
}

// What a row above says already is said once: where each event of a chat bears one
// token, the gaps between tokens are the gaps between events.
func TestOwnMetricsTellNothingTwice(t *testing.T) {
	a, b := &metrics.Dist{N: 3, Mean: 2}, &metrics.Dist{N: 3, Mean: 5}
	for _, c := range []struct {
		vllm, token, per *metrics.Dist
		same             bool
	}{{a, a, a, true}, {a, b, b, true}, {a, b, a, true}, {a, a, b, false}, {nil, nil, b, false}} {
		r := &bench.Result{Summary: &metrics.Summary{VLLM: metrics.Latencies{ITL: c.vllm}, Token: metrics.Latencies{ITL: c.token}, ITLPerToken: c.per}}
		for _, m := range r.OwnMetrics() {
			if m.Key == "itl_per_token_ms" && m.Same != c.same {
				t.Errorf("%+v: %v", c, m.Same)
			}
		}
	}
}
