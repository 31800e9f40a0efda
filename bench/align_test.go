package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/tokenize"
)

// letters is a tokenizer whose every letter is a token; joined letters are one
// more way to count for a server.
type letters struct{}

func (letters) Encode(_ context.Context, text string, _ bool) ([]int, error) {
	var ids []int
	for _, c := range text {
		ids = append(ids, int(c-'a'))
	}
	return ids, nil
}

func (letters) Decode(_ context.Context, ids []int) (string, error) {
	var b strings.Builder
	for _, id := range ids {
		b.WriteByte(byte('a' + id%26))
	}
	return b.String(), nil
}

func (letters) Vocabulary() (tokenize.Vocabulary, bool) { return tokenize.Vocabulary{Size: 26}, true }

// counter is a server with /tokenize and /detokenize. It counts every "a" as three
// tokens, but one of them in a prompt that begins with plain.
type counter struct {
	mu       sync.Mutex
	asked    int
	auth     []string
	models   map[string]bool
	refuses  string // a prompt that holds it is an error
	perA     int
	notFound bool
	last     int // the last question of how long a prompt is that gets an answer; 0 is none
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var q struct {
		Model   string
		Prompt  string
		Tokens  []int
		Special *bool `json:"add_special_tokens"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || c.notFound {
		http.Error(w, "no", http.StatusNotFound)
		return
	}
	c.auth = append(c.auth, r.Header.Get("Authorization"))
	if c.models == nil {
		c.models = map[string]bool{}
	}
	c.models[q.Model] = true
	switch r.URL.Path {
	case "/tokenize":
		c.asked++
		if c.last > 0 && c.asked > c.last || q.Special == nil || *q.Special || c.refuses != "" && strings.Contains(q.Prompt, c.refuses) {
			http.Error(w, "bad", http.StatusBadRequest)
			return
		}
		ids := []int{}
		for _, l := range q.Prompt {
			ids = append(ids, int(l-'a'))
			for range c.perA - 1 {
				if l == 'a' {
					ids = append(ids, 26)
				}
			}
		}
		json.NewEncoder(w).Encode(map[string]any{"tokens": ids, "count": len(ids)})
	case "/detokenize":
		var b strings.Builder
		for _, id := range q.Tokens {
			if id < 26 {
				b.WriteByte(byte('a' + id))
			}
		}
		json.NewEncoder(w).Encode(map[string]any{"prompt": b.String()})
	}
}

// planOf builds the plan of a random set against a server that counts, with a
// local tokenizer of letters.
func planOf(t *testing.T, c *counter, set func(*session)) *Plan {
	t.Helper()
	srv := httptest.NewServer(c)
	defer srv.Close()
	s, err := open(Config{
		Backend: "vllm", Model: "org/model", ServedModel: "served", NoTokenizer: true, Stream: true, Rate: loadgen.Inf,
		Target:  openai.Config{BaseURL: srv.URL, APIKey: "sk-1234567890"},
		Dataset: dataset.Spec{Name: "random", Prompts: 60, InputLen: 20, OutputLen: 1, Warmups: 3, WarmupFirst: true, Seed: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.client.Close()
	s.tok = letters{}
	s.res.Plan.Counted = "tokenizer"
	if set != nil {
		set(s)
	}
	if err := s.build(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	return s.res.Plan
}

func promptOf(r *loadgen.Request) string {
	b, _ := r.Bytes()
	return gjson.GetBytes(b, "prompt").String()
}

// A server that counts request 0 as the tokenizer does is asked nothing else.
func TestAlignedAlready(t *testing.T) {
	c := &counter{perA: 1}
	p := planOf(t, c, nil)
	if c.asked != 1 || p.aligned != 0 || len(p.Warnings) != 0 {
		t.Errorf("asked %d times, %d cut, warnings %q, want 1, 0 and none", c.asked, p.aligned, p.Warnings)
	}
}

// One that counts otherwise cuts what is too long, warm-ups too, and leaves the
// rest; it is asked with the key, under the name it serves.
func TestAlign(t *testing.T) {
	want := planOf(t, &counter{perA: 1}, nil)
	c := &counter{perA: 3}
	p := planOf(t, c, nil)
	cut := 0
	check := func(got, want *loadgen.Request) {
		text := promptOf(want)
		var kept strings.Builder
		for n := 0; n < 20 && kept.Len() < len(text); {
			l := text[kept.Len()]
			if n++; l == 'a' {
				n += 2
			}
			kept.WriteByte(l)
		}
		cut += one(strings.Contains(text, "a"))
		if promptOf(got) != kept.String() || got.PromptTokens != 20 {
			t.Errorf("%q became %q of %d tokens, want %q of 20", text, promptOf(got), got.PromptTokens, kept.String())
		}
	}
	for i := range p.Requests {
		check(&p.Requests[i], &want.Requests[i])
	}
	for i := range p.warmups {
		check(&p.warmups[i], &want.warmups[i])
	}
	if len(p.Requests) != 60 || len(p.warmups) != 3 || cut <= 3 || cut == 63 || p.aligned != cut {
		t.Errorf("%d requests and %d warm-ups, %d cut, want 60, 3 and %d", len(p.Requests), len(p.warmups), p.aligned, cut)
	}
	if len(c.models) != 1 || !c.models["served"] || slices.ContainsFunc(c.auth, func(a string) bool { return a != "Bearer sk-1234567890" }) {
		t.Errorf("asked for %v with %q", c.models, c.auth[:3])
	}
	if len(p.Warnings) != 1 || !strings.HasPrefix(p.Warnings[0], "The server counts ") || !strings.Contains(p.Warnings[0], fmt.Sprint(cut, " prompts were cut")) {
		t.Errorf("warnings %q", p.Warnings)
	}
}

// A prompt that cannot be aligned stays as it is, and is told of.
func TestAlignSomeFail(t *testing.T) {
	c := &counter{perA: 3, refuses: "m"}
	p := planOf(t, c, func(s *session) { s.cfg.Dataset.InputLen, s.cfg.Dataset.Seed = 12, 5 })
	if text := promptOf(&p.Requests[0]); !strings.Contains(text, "a") || strings.Contains(text, "m") {
		t.Fatalf("request 0 is %q; another seed gives one with an a and no m", text)
	}
	failed := 0
	for i := range p.Requests {
		failed += one(strings.Contains(promptOf(&p.Requests[i]), "m"))
	}
	for i := range p.warmups {
		failed += one(strings.Contains(promptOf(&p.warmups[i]), "m"))
	}
	want := fmt.Sprintf("%d prompts could not be aligned", failed)
	if failed == 0 || len(p.Warnings) != 2 || !strings.HasPrefix(p.Warnings[1], want) {
		t.Errorf("warnings %q, want %s", p.Warnings, want)
	}
}

// A server that answers no more is not asked about thousands of prompts, which may be
// a quarter of a minute each.
func TestAlignGivesUp(t *testing.T) {
	const prompts, warmups = 1000, 3
	c := &counter{perA: 3, last: 1}
	p := planOf(t, c, func(s *session) { s.cfg.Dataset.Prompts = prompts })
	if c.asked < 1+alignWorkers || c.asked > 1+2*alignWorkers {
		t.Errorf("asked %d times, want at most two rounds of %d after request 0", c.asked, alignWorkers)
	}
	want := fmt.Sprintf("%d prompts could not be aligned", prompts+warmups)
	if len(p.Requests) != prompts || len(p.Warnings) != 2 || !strings.HasPrefix(p.Warnings[1], want) {
		t.Errorf("%d requests, warnings %q, want %s", len(p.Requests), p.Warnings, want)
	}
}

// Without /tokenize prompts stay as they are; only of vLLM, which has one, is that
// worth a word. Token ids and a
// simulator are not asked about.
func TestNotAligned(t *testing.T) {
	if p := planOf(t, &counter{notFound: true}, nil); len(p.Warnings) != 0 || len(p.Requests) != 60 {
		t.Errorf("%d requests, warnings %q", len(p.Requests), p.Warnings)
	}
	p := planOf(t, &counter{notFound: true}, func(s *session) { s.res.Engine.Name = "vllm" })
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "was not asked for its count") {
		t.Errorf("warnings %q", p.Warnings)
	}
	c := &counter{perA: 3}
	planOf(t, c, func(s *session) { s.cfg.Dataset.TokenIDs = true })
	planOf(t, c, func(s *session) { s.res.Engine.Simulated = true })
	if c.asked != 0 {
		t.Errorf("asked %d times about token ids, or a simulator", c.asked)
	}
}

// Prompts that come before request 0 wait for it, and go on where it never comes.
func TestAlignOutOfOrder(t *testing.T) {
	for _, comes := range []bool{true, false} {
		a := &aligner{tok: letters{}, ctx: t.Context()}
		a.renew()
		var got []string
		put := func(i int, r dataset.Request) error { got = append(got, r.Prompt); return nil }
		for i := range 3 {
			if err := a.take(i+1, dataset.Request{Prompt: fmt.Sprint(i + 1), InputTokens: 1}, put); err != nil || len(got) != 0 {
				t.Fatalf("%v before request 0 (%v)", got, err)
			}
		}
		want := []string{"1", "2", "3"}
		if comes {
			want = append([]string{"0"}, want...)
			if err := a.take(0, dataset.Request{Prompt: "0", InputTokens: 1}, put); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.finish(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%v (%v), want %v", got, err, want)
		}
	}
}

// A trace's own times are the schedule, unless they are to be ignored; then it is
// sent as any other set.
func TestTraceTimes(t *testing.T) {
	trace := []time.Duration{0, time.Second, 5 * time.Second}
	timed := Config{Dataset: dataset.Spec{Name: "timed_trace"}, Rate: loadgen.Inf, Burstiness: loadgen.Inf}
	ignored, paced, ramped := timed, timed, timed
	ignored.IgnoreTimes, paced.IgnoreTimes, ramped.IgnoreTimes = true, true, true
	paced.Rate, ramped.Ramp = 2, &loadgen.Ramp{Strategy: "linear", Start: 1, End: 1}
	for _, c := range []struct {
		name string
		cfg  Config
		want []time.Duration
		word string // of the manifest
	}{
		{"timed", timed, trace, "trace"},
		{"ignored", ignored, nil, "closed_loop"},
		{"ignored, at a rate", paced, []time.Duration{500 * time.Millisecond, time.Second, 1500 * time.Millisecond}, "constant"},
		{"ignored, with a ramp", ramped, []time.Duration{time.Second, 2 * time.Second, 3 * time.Second}, "ramp"},
	} {
		got, err := c.cfg.offsets(&dataset.Set{Requests: make([]dataset.Request, 3), Offsets: trace})
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: due at %v (%v), want %v", c.name, got, err, c.want)
		}
		r := &Result{Config: c.cfg, Plan: &Plan{Offsets: got}}
		for range 2 { // before the plan is built, and after
			if r.openLoop() != (c.want != nil) || r.arrival() != c.word {
				t.Errorf("%s: open loop %v, %s", c.name, r.openLoop(), r.arrival())
			}
			r.Plan.Requests = make([]loadgen.Request, 3)
		}
		s := &session{cfg: c.cfg, res: r}
		if n := s.connections(); (n == 0) != (c.want != nil) {
			t.Errorf("%s: %d connections are opened beforehand", c.name, n)
		}
	}
}

// What pooled requests bring is counted as vLLM counts it.
func TestSequences(t *testing.T) {
	three := &dataset.Request{Texts: []string{"a", "b", "c"}}
	for _, c := range []struct {
		api  openai.API
		in   *dataset.Request
		want int
	}{
		{openai.Completions, three, 0}, {openai.Embeddings, three, 3}, {openai.Infinity, three, 3}, {openai.Pooling, three, 3},
		{openai.Rerank, three, 2}, {openai.EmbeddingsChat, three, 1}, {openai.Embeddings, &dataset.Request{Prompt: "a"}, 1},
	} {
		if got := sequences(c.api, c.in); got != c.want {
			t.Errorf("%s: %d, want %d", c.api, got, c.want)
		}
	}
}
