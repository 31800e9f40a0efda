package bench_test

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/manifest"
)

// cachingSim is a simulator with a prefix cache whose usage tells of it, or not.
func cachingSim(t *testing.T, details bool) bench.Config {
	engine := sim.Engine{ChunkedPrefill: true, PrefixCaching: true, StepBase: 10 * ms, PrefillRate: 20000}
	cfg := simulate(t, sim.Config{Engine: &engine, PromptTokensDetails: details})
	cfg.Dataset = dataset.Spec{Name: "random", Prompts: 4, InputLen: 100, OutputLen: 3, Warmups: 2}
	cfg.MaxConcurrency = 2
	return cfg
}

func mustRun(t *testing.T, cfg bench.Config) *bench.Result {
	t.Helper()
	res, err := bench.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if res.Summary.Failed > 0 {
		t.Fatalf("%d requests failed: %v", res.Summary.Failed, res.Warnings)
	}
	return res
}

// S26: the same command twice with the same seed. The second run is served from
// the first one's cache, which is seen and warned of; a salt or a reset avoids it.
func TestWarmCache(t *testing.T) {
	for _, api := range []struct {
		name, backend string
		ids, details  bool
	}{
		{"completions by usage", "openai", false, true},
		{"token ids by usage", "openai", true, true},
		{"completions by counters", "openai", false, false},
		{"chat by usage", "openai-chat", false, true},
		{"responses", "openai-responses", false, false},
	} {
		t.Run(api.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := cachingSim(t, api.details)
				cfg.Backend, cfg.Dataset.TokenIDs = api.backend, api.ids
				run := func(salt string, reset bool) *bench.Result {
					c := cfg
					c.Salt, c.ResetPrefixCache = salt, reset
					return mustRun(t, c)
				}
				check := func(name string, res *bench.Result, warm bool) {
					t.Helper()
					p := res.PrefixCache
					hits := *p.Hit
					if told := api.details || api.backend == "openai-responses"; told != (p.UsageCached > 0) && warm || told && p.UsageCached != hits {
						t.Errorf("%s: the usage tells of %d cached tokens, the counters of %d", name, p.UsageCached, hits)
					}
					if p.Warm != warm || has(res.Warnings, "Warm cache: ") != warm {
						t.Errorf("%s: warm is %v, want %v: %+v: %q", name, p.Warm, warm, *p, res.Warnings)
					}
					// 4 prompts of 100 tokens or a few more, in blocks of 16, of which the
					// last token is always computed.
					if wantHits := map[bool]int64{true: 4 * 96}[warm]; api.backend == "openai" && hits != wantHits {
						t.Errorf("%s: %d tokens hit, want %d", name, hits, wantHits)
					}
				}
				cold := run("", false)
				check("first", cold, false)
				check("second", run("", false), true)
				check("second, reset", run("", true), false)
				salted := run("s1", false)
				check("salted", salted, false)
				check("the same salt", run("s1", false), true)
				check("another salt", run("s2", false), false)
				drawn := run(bench.AutoSalt, false)
				check("a drawn salt", drawn, false)
				if salt := drawn.Config.Salt; salt == bench.AutoSalt || !has(drawn.Warnings, "drawn for this run is "+salt) {
					t.Errorf("the salt drawn is %q, and not shown: %q", salt, drawn.Warnings)
				}
				if salted.Plan.SHA256 != cold.Plan.SHA256 || drawn.Plan.SHA256 != cold.Plan.SHA256 {
					t.Error("the data set's digest depends on the salt")
				}
			})
		})
	}
}

// What prompts share by design is no warm cache, and stays shared under a salt.
func TestSharedByDesign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, details := range []bool{true, false} {
			cfg := cachingSim(t, details)
			cfg.Dataset = dataset.Spec{Name: "prefix_repetition", Prompts: 12, PrefixLen: 64, SuffixLen: 32, Prefixes: 2, OutputLen: 2}
			cfg.MaxConcurrency = 1
			for _, salt := range []string{"", "x", "y"} {
				cfg.Salt = salt
				res := mustRun(t, cfg)
				p := res.PrefixCache
				// Ten of twelve prompts begin with a prefix that is there, of four blocks.
				if *p.Hit != 10*64 || p.Warm || has(res.Warnings, "Warm cache") {
					t.Errorf("salt %q: %d tokens hit, warm %v, want 640 and false: %q", salt, *p.Hit, p.Warm, res.Warnings)
				}
				if !has(res.Warnings, "the run's own prompts begin alike") {
					t.Errorf("salt %q: nothing says where the hits come from: %q", salt, res.Warnings)
				}
			}
			if res := mustRun(t, cfg); !res.PrefixCache.Warm {
				t.Errorf("the same again is not warm: %+v", *res.PrefixCache)
			}
		}
	})
}

// The ready check sends the first prompt, and that is no warm cache either.
func TestReadyCheckIsExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := cachingSim(t, true)
		cfg.ReadyTimeout = time.Minute
		if p := mustRun(t, cfg).PrefixCache; p.UsageCached != 96 || p.Warm || p.Explained == nil || *p.Explained < 0.24 {
			t.Errorf("the ready check left %+v, want 96 tokens that are explained", *p)
		}
		cfg.Salt = "ready"
		if p := mustRun(t, cfg).PrefixCache; p.UsageCached != 0 {
			t.Errorf("a salted ready check left %+v, want nothing", *p)
		}
	})
}

// recorder notes bodies, and hides what the server is.
type recorder struct {
	http.Handler
	mu     sync.Mutex
	bodies [][]byte
	hide   bool
}

func (r *recorder) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	if q.Method == http.MethodPost {
		body, _ := io.ReadAll(q.Body)
		q.Body = io.NopCloser(bytes.NewReader(body))
		r.mu.Lock()
		r.bodies = append(r.bodies, body)
		r.mu.Unlock()
	} else if r.hide {
		http.NotFound(w, q)
		return
	}
	r.Handler.ServeHTTP(w, q)
}

// The field is for servers that know it; for others and with --strict-openai the
// prompt changes. Warm-ups have a salt of their own. The documents say which.
func TestSaltForm(t *testing.T) {
	for _, c := range []struct {
		name         string
		hide, strict bool
		ids          bool
		form         openai.SaltForm
		longer       bool
	}{
		{"the simulator", false, false, false, openai.SaltField, false},
		{"strict", false, true, false, openai.SaltPrompt, true},
		{"an unknown server", true, false, false, openai.SaltPrompt, true},
		{"token ids", true, false, true, openai.SaltPrompt, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engine := sim.Engine{ChunkedPrefill: true, PrefixCaching: true}
				rec := &recorder{Handler: sim.New(sim.Config{Engine: &engine, PromptTokensDetails: true}), hide: c.hide}
				cfg := config(serveHandler(t, rec))
				cfg.Dataset = dataset.Spec{Name: "random", Prompts: 2, InputLen: 100, OutputLen: 3, Warmups: 1, TokenIDs: c.ids}
				cfg.Strict, cfg.MaxConcurrency, cfg.Command = c.strict, 1, []string{"servebench", "serve", "--num-prompts", "2"}
				mustRun(t, cfg)
				plain := len(rec.bodies)
				cfg.Salt = "pepper"
				res := mustRun(t, cfg)
				if p := res.PrefixCache; p.UsageCached != 0 {
					t.Errorf("%d tokens came from the cache, want 0", p.UsageCached)
				}
				if has(res.Warnings, "a few tokens longer") != c.longer {
					t.Errorf("longer prompts are warned of: %v: %q", !c.longer, res.Warnings)
				}
				var salts []string
				for _, b := range rec.bodies[plain:] {
					if gjson.GetBytes(b, "prompt").Exists() {
						salts = append(salts, gjson.GetBytes(b, "cache_salt").Str)
					}
				}
				want := []string{"pepper-warm-up", "pepper", "pepper"}
				if c.form == openai.SaltPrompt {
					want = []string{"", "", ""}
				}
				if strings.Join(salts, " ") != strings.Join(want, " ") {
					t.Errorf("the bodies have the salts %q, want %q", salts, want)
				}
				checkSaltDocuments(t, res, c.form)
			})
		})
	}
}

func checkSaltDocuments(t *testing.T, res *bench.Result, form openai.SaltForm) {
	t.Helper()
	run := save(t, res)
	said, _ := run.Measurement.Extensions["servebench.salt"].(map[string]any)
	if said["form"] != string(form) || said["value"] != "pepper" {
		t.Errorf("the manifest says %v of the salt, want %s and pepper", said, form)
	}
	if p, _ := run.Measurement.Extensions["servebench.prefix_cache"].(map[string]any); p["usage_cached_tokens"] != 0.0 || p["warm"] != false {
		t.Errorf("the manifest says %v of the prefix cache", p)
	}
	dir := t.TempDir()
	f := bench.Beside(dir + "/r.json")
	if _, err := res.Save(f); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(f.Result)
	if err != nil {
		t.Fatal(err)
	}
	if v := gjson.GetBytes(doc, "servebench.salt.form").Str; v != string(form) || !gjson.GetBytes(doc, "servebench.prefix_cache.hit_rate").Exists() {
		t.Errorf("the result's form is %q, want %q, or it has no prefix_cache", v, form)
	}
	if res.Outcome != manifest.Completed {
		t.Errorf("the outcome is %s", res.Outcome)
	}
}

// A salt that vLLM would refuse is refused before anything is sent, and so is a
// second one.
func TestBadSalt(t *testing.T) {
	for salt, extra := range map[string]string{
		"a/b": "", "a@b": "", `a\b`: "", "a\nb": "", strings.Repeat("x", 101): "", "fine": `{"cache_salt": "mine"}`,
	} {
		cfg := config(nil)
		cfg.Salt = salt
		if extra != "" {
			cfg.Extra = []byte(extra)
		}
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), "salt: ") || !strings.Contains(err.Error(), "; want ") {
			t.Errorf("salt %.10q with %q: %v, want an error that says what would be right", salt, extra, err)
		}
	}
}
