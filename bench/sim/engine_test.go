package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

const ms = time.Millisecond

// request is one sequence of a test.
type request struct {
	at             time.Duration
	prompt, answer int
	ids            []int32 // with a prefix cache; else prompt counts
}

// schedule runs requests on e with max_model_len limit and returns its steps, one line each:
// when it began, then for each request in it its number, its tokens, and after a + how many of them are drafts.
func schedule(t *testing.T, e Engine, limit int, requests ...request) (steps []string, c *core) {
	t.Helper()
	if errs := e.validate(limit); errs != nil {
		t.Fatal(errs)
	}
	c = newCore(e, limit, 1, 0, func(*sequence, int, time.Duration) {})
	for i, r := range requests {
		n := r.prompt
		if r.ids != nil {
			n = len(r.ids)
		}
		c.submit(&sequence{visit: i, promptTokens: n, prompt: r.ids, maxTokens: r.answer}, r.at)
	}
	for at, ok := c.next(); ok; at, ok = c.next() {
		c.advance(at)
		if !c.stepping {
			continue
		}
		line := fmt.Sprint(at.Truncate(ms), ":")
		for _, s := range c.step {
			line += fmt.Sprintf(" #%d %d", s.visit, s.scheduled-s.drafted)
			if s.drafted > 0 {
				line += fmt.Sprintf("+%d", s.drafted)
			}
		}
		steps = append(steps, line)
		if len(steps) > 1000 {
			t.Fatal("no end")
		}
	}
	if c.pool.free != c.pool.size {
		t.Errorf("%d of %d blocks are free at the end", c.pool.free, c.pool.size)
	}
	return steps, c
}

func ids(from, n int) (out []int32) {
	for i := range n {
		out = append(out, int32(1000+from+i))
	}
	return out
}

func TestScheduling(t *testing.T) {
	step := func(e Engine) Engine { e.StepBase = 10 * ms; return e }
	for _, c := range []struct {
		name     string
		engine   Engine
		limit    int
		requests []request
		want     []string
	}{
		{"running requests come first, the budget's rest goes to prompts in chunks",
			Engine{MaxNumSeqs: 8, MaxNumBatchedTokens: 10, ChunkedPrefill: true}, 100,
			[]request{{0, 6, 3, nil}, {0, 6, 2, nil}, {0, 6, 1, nil}},
			[]string{
				"0s: #0 6 #1 4",
				"10ms: #0 1 #1 2 #2 6", // 10 - 1 - 2 leaves 7
				"20ms: #0 1 #1 1",
			}},
		{"a prompt longer than the budget takes several steps alone",
			Engine{MaxNumSeqs: 8, MaxNumBatchedTokens: 10, ChunkedPrefill: true}, 100,
			[]request{{0, 25, 2, nil}},
			[]string{"0s: #0 10", "10ms: #0 10", "20ms: #0 5", "30ms: #0 1"}},
		{"without chunks a prompt waits for a step with room for all of it, and those behind it too",
			Engine{MaxNumSeqs: 8, MaxNumBatchedTokens: 12}, 12,
			[]request{{0, 7, 3, nil}, {0, 6, 1, nil}, {0, 2, 1, nil}},
			[]string{
				"0s: #0 7",             // 5 left, 6 wanted; the 2 of the last may not overtake
				"10ms: #0 1 #1 6 #2 2", // 12 - 1
				"20ms: #0 1",
			}},
		{"as many requests as there are slots run; the next one comes when one ends",
			Engine{MaxNumSeqs: 2, MaxNumBatchedTokens: 100, ChunkedPrefill: true}, 100,
			[]request{{0, 4, 2, nil}, {0, 4, 3, nil}, {0, 4, 1, nil}},
			[]string{"0s: #0 4 #1 4", "10ms: #0 1 #1 1", "20ms: #1 1 #2 4"}},
		{"a request that comes during a step is in the next one",
			Engine{MaxNumSeqs: 8, MaxNumBatchedTokens: 100, ChunkedPrefill: true}, 100,
			[]request{{0, 4, 3, nil}, {5 * ms, 4, 1, nil}},
			[]string{"0s: #0 4", "10ms: #0 1 #1 4", "20ms: #0 1"}},
		{"an idle engine starts anew when a request comes",
			Engine{MaxNumSeqs: 8, MaxNumBatchedTokens: 100, ChunkedPrefill: true}, 100,
			[]request{{0, 4, 1, nil}, {50 * ms, 4, 1, nil}},
			[]string{"0s: #0 4", "50ms: #1 4"}},
		{"where the KV cache runs out the last one in begins again, and waits until it fits as a whole",
			// 4 blocks of 4 tokens. Both prompts take 1 block; a second one each at the 5th token, a third at the 9th.
			Engine{MaxNumSeqs: 8, MaxNumBatchedTokens: 100, ChunkedPrefill: true, BlockSize: 4, KVTokens: 16}, 16,
			[]request{{0, 7, 4, nil}, {0, 7, 3, nil}},
			[]string{
				"0s: #0 7 #1 7",
				"10ms: #0 1 #1 1",
				"20ms: #0 1", // #0 takes the third block of 4: #1, which holds 2, is thrown out; 9 tokens of it need 3
				"30ms: #0 1", // one block is free
				"40ms: #1 9", // 7 of the prompt, 2 made
			}},
		{"who has no room for its own next token begins again itself",
			Engine{MaxNumSeqs: 8, MaxNumBatchedTokens: 100, ChunkedPrefill: true, BlockSize: 4, KVTokens: 12}, 12,
			[]request{{0, 5, 3, nil}, {0, 4, 2, nil}},
			[]string{"0s: #0 5 #1 4", "10ms: #0 1", "20ms: #0 1", "30ms: #1 5"}},
		{"all drafts accepted: 1 + 2 tokens a step, the last step makes more than are wanted",
			Engine{MaxNumSeqs: 8, MaxNumBatchedTokens: 100, ChunkedPrefill: true, SpeculativeTokens: 2, Acceptance: []Acceptance{{1, 1}}}, 100,
			[]request{{0, 4, 6, nil}},
			[]string{"0s: #0 4", "10ms: #0 1+2", "20ms: #0 1+2"}}, // 1, 4, 6 tokens
		{"no draft accepted: one token a step, at the cost of three",
			Engine{MaxNumSeqs: 8, MaxNumBatchedTokens: 100, ChunkedPrefill: true, SpeculativeTokens: 2, Acceptance: []Acceptance{{1, 0}}}, 100,
			[]request{{0, 4, 3, nil}},
			[]string{"0s: #0 4", "10ms: #0 1+2", "20ms: #0 1+2"}},
		{"drafts count against the budget and give way to it",
			Engine{MaxNumSeqs: 2, MaxNumBatchedTokens: 8, ChunkedPrefill: true, SpeculativeTokens: 4, Acceptance: []Acceptance{{1, 0}}}, 100,
			[]request{{0, 4, 2, nil}, {0, 4, 2, nil}},
			[]string{"0s: #0 4 #1 4", "10ms: #0 1+4 #1 1+2"}},
		{"no draft reaches beyond the model's length",
			Engine{MaxNumSeqs: 2, MaxNumBatchedTokens: 100, ChunkedPrefill: true, SpeculativeTokens: 4, Acceptance: []Acceptance{{1, 0}}}, 8,
			[]request{{0, 4, 4, nil}},
			[]string{"0s: #0 4", "10ms: #0 1+2", "20ms: #0 1+1", "30ms: #0 1"}}, // 5, 6, 7 tokens there, 7 may be computed
		{"the front end hands over one request at a time; those it has when an idle engine starts run together",
			Engine{MaxNumSeqs: 8, MaxNumBatchedTokens: 100, ChunkedPrefill: true, Overhead: 5 * ms, Frontend: 2 * ms, IdleDelay: 5 * ms}, 100,
			[]request{{0, 4, 1, nil}, {0, 4, 1, nil}, {0, 4, 1, nil}, {0, 4, 1, nil}},
			[]string{"12ms: #0 4 #1 4 #2 4", "22ms: #3 4"}}, // ready at 7, 9, 11, 13
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, _ := schedule(t, step(c.engine), c.limit, c.requests...); !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestPreemptionsAndDraftsAreCounted(t *testing.T) {
	_, c := schedule(t, Engine{ChunkedPrefill: true, MaxNumSeqs: 8, MaxNumBatchedTokens: 100, BlockSize: 4, KVTokens: 16}, 16, request{0, 7, 4, nil}, request{0, 7, 3, nil})
	if c.preemptions != 1 || c.promptTokens != 14 || c.generated != 7 {
		t.Errorf("%d preemptions, %d prompt tokens, %d generated, want 1, 14 and 7", c.preemptions, c.promptTokens, c.generated)
	}
	_, c = schedule(t, Engine{ChunkedPrefill: true, SpeculativeTokens: 2, Acceptance: []Acceptance{{1, 1}}}, 100, request{0, 4, 6, nil})
	// As in vLLM accepted tokens count even where the answer ends before them.
	if c.drafts != 2 || c.drafted != 4 || c.matched != 4 || !slices.Equal(c.matchedAt, []uint64{2, 2}) || c.generated != 6 {
		t.Errorf("%d drafts of %d tokens, %d accepted, %v by position, %d generated, want 2, 4, 4, [2 2] and 6", c.drafts, c.drafted, c.matched, c.matchedAt, c.generated)
	}
}

func TestAcceptanceKindsShareTheRequestsEvenly(t *testing.T) {
	var requests []request
	for range 100 {
		requests = append(requests, request{0, 1, 4, nil})
	}
	e := Engine{ChunkedPrefill: true, SpeculativeTokens: 2, Acceptance: []Acceptance{{3, 1}, {1, 0}}}
	_, c := schedule(t, e, 100, requests...)
	// Multiples of the golden ratio put 76 of the first 100 below 0.75. After the first token 76 requests make 3 more in one
	// step, 24 in three.
	if c.drafts != 76+3*24 || c.matched != 2*76 {
		t.Errorf("%d drafts, %d tokens accepted, want 148 and 152", c.drafts, c.matched)
	}
}

func TestPrefixCache(t *testing.T) {
	// Blocks of 4 tokens. Token k of every answer is wordIDs[k].
	base := Engine{ChunkedPrefill: true, PrefixCaching: true, MaxNumSeqs: 4, MaxNumBatchedTokens: 100, BlockSize: 4, StepBase: 10 * ms}
	small := base
	small.KVTokens = 16
	turn := slices.Concat(ids(0, 4), wordIDs[:5]) // a second turn: the first one's prompt and answer and one more
	for _, c := range []struct {
		name     string
		engine   Engine
		requests []request
		want     []string
		hits     uint64
	}{
		{"a prompt that begins alike computes only what differs",
			base, []request{{0, 0, 1, ids(0, 10)}, {50 * ms, 0, 1, slices.Concat(ids(0, 8), ids(90, 2))}},
			[]string{"0s: #0 10", "50ms: #1 2"}, 8},
		{"the last token is always computed, so a repeated prompt of whole blocks computes one block",
			base, []request{{0, 0, 1, ids(0, 8)}, {50 * ms, 0, 1, ids(0, 8)}},
			[]string{"0s: #0 8", "50ms: #1 4"}, 4},
		{"blocks are known from when they are scheduled",
			base, []request{{0, 0, 1, ids(0, 10)}, {0, 0, 1, ids(0, 10)}},
			[]string{"0s: #0 10 #1 2"}, 8},
		{"a block counts only with all before it",
			base, []request{{0, 0, 1, ids(0, 10)}, {50 * ms, 0, 1, slices.Concat(ids(90, 4), ids(4, 6))}},
			[]string{"0s: #0 10", "50ms: #1 10"}, 0},
		{"answers are kept too, but for the last token, which nobody computed",
			base, []request{{0, 0, 5, ids(0, 4)}, {100 * ms, 0, 1, turn}},
			[]string{"0s: #0 4", "10ms: #0 1", "20ms: #0 1", "30ms: #0 1", "40ms: #0 1", "100ms: #1 1"}, 8},
		{"the prompt that was used last stays longest",
			// 4 blocks. A and B of 2 blocks each fill them; A again; C evicts B; A hits, B does not.
			small, []request{{0, 0, 1, ids(0, 8)}, {50 * ms, 0, 1, ids(20, 8)}, {100 * ms, 0, 1, ids(0, 8)}, {150 * ms, 0, 1, ids(40, 8)},
				{200 * ms, 0, 1, slices.Concat(ids(0, 4), ids(60, 1))}, {250 * ms, 0, 1, ids(20, 8)}},
			[]string{"0s: #0 8", "50ms: #1 8", "100ms: #2 4", "150ms: #3 8", "200ms: #4 1", "250ms: #5 8"}, 8},
		{"without the cache nothing is known",
			func() Engine { e := base; e.PrefixCaching = false; return e }(), []request{{0, 0, 1, ids(0, 10)}, {50 * ms, 0, 1, ids(0, 10)}},
			[]string{"0s: #0 10", "50ms: #1 10"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, core := schedule(t, c.engine, 16, c.requests...)
			if !slices.Equal(got, c.want) || core.hits != c.hits {
				t.Errorf("%d hits, want %d; got\n%s\nwant\n%s", core.hits, c.hits, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			queried := uint64(0)
			for _, r := range c.requests {
				queried += uint64(len(r.ids))
			}
			if !c.engine.PrefixCaching {
				queried = 0
			}
			if core.queries != queried {
				t.Errorf("%d tokens queried, want %d", core.queries, queried)
			}
		})
	}
}

// The formula of docs/simulator.md, term by term.
func TestStepTime(t *testing.T) {
	e := Engine{ChunkedPrefill: true, StepBase: 10 * ms, PerSequence: ms, ContextRate: 1e5, PrefillRate: 1e4, DraftOverhead: 3 * ms,
		SpeculativeTokens: 1, Acceptance: []Acceptance{{1, 0}}}
	for _, c := range []struct {
		load  load
		scale float64
		want  time.Duration
	}{
		{load{}, 1, 10 * ms},
		{load{decoding: 4}, 1, 14 * ms},
		{load{decoding: 4, context: 2000}, 1, 34 * ms},
		{load{decoding: 4, context: 2000, prefill: 100}, 1, 44 * ms},
		{load{decoding: 4, context: 2000, prefill: 100, drafting: true}, 1, 47 * ms},
		{load{decoding: 4, context: 2000, prefill: 100, drafting: true}, 0.5, 23500 * time.Microsecond},
	} {
		e.TimeScale = c.scale
		if got := newCore(e, 100, 0, 0, nil).duration(c.load); got != c.want {
			t.Errorf("%+v at scale %v takes %v, want %v", c.load, c.scale, got, c.want)
		}
	}
}

func TestCanceledRequestsLeaveNothingBehind(t *testing.T) {
	c := newCore(Engine{ChunkedPrefill: true, MaxNumSeqs: 1, StepBase: 10 * ms}, 100, 0, 0, func(*sequence, int, time.Duration) {})
	var all [3]*sequence // running, waiting, in the front end
	for i := range all {
		all[i] = &sequence{promptTokens: 20, maxTokens: 5}
	}
	c.submit(all[0], 0)
	c.submit(all[1], 0)
	c.advance(15 * ms)
	c.submit(all[2], 15*ms)
	if len(c.running) != 1 || len(c.waiting) != 1 || len(c.arriving) != 1 {
		t.Fatalf("%d running, %d waiting, %d arriving", len(c.running), len(c.waiting), len(c.arriving))
	}
	for _, s := range all {
		c.cancel(s)
	}
	c.advance(time.Second)
	if at, ok := c.next(); ok || len(c.running)+len(c.waiting)+len(c.arriving) != 0 || c.pool.free != c.pool.size || c.generated != 1 {
		t.Errorf("next %v %v, %d running, %d waiting, %d arriving, %d of %d blocks free, %d generated", at, ok,
			len(c.running), len(c.waiting), len(c.arriving), c.pool.free, c.pool.size, c.generated)
	}
}

func TestEngineValidate(t *testing.T) {
	for _, c := range []struct {
		name string
		e    Engine
		want string // "" is valid
	}{
		{"zero", Engine{}, ""},
		{"reference 1", Engine{MaxNumSeqs: 64, MaxNumBatchedTokens: 16384, ChunkedPrefill: true}, ""},
		{"the cache holds one request of the full length", Engine{ChunkedPrefill: true, KVTokens: 4096}, ""},
		{"and not one token less", Engine{ChunkedPrefill: true, KVTokens: 4095}, "The model's max seq len (4096) is larger than the maximum number of tokens that can be stored in KV cache (4080)."},
		{"budget below the length without chunks", Engine{MaxNumBatchedTokens: 2048}, "max_num_batched_tokens (2048) is smaller than max_model_len (4096)."},
		{"budget below the slots", Engine{MaxNumBatchedTokens: 100, ChunkedPrefill: true}, "max_num_batched_tokens (100) must be greater than or equal to max_num_seqs (256)"},
		{"drafts without acceptance", Engine{SpeculativeTokens: 1}, "acceptance is missing"},
		{"acceptance without drafts", Engine{Acceptance: []Acceptance{{1, 1}}}, "acceptance needs num_speculative_tokens"},
		{"share", Engine{SpeculativeTokens: 1, Acceptance: []Acceptance{{0, 1}}}, "share of acceptance must be above 0, got 0"},
		{"rate", Engine{SpeculativeTokens: 1, Acceptance: []Acceptance{{1, math.NaN()}}}, "rate of acceptance must be from 0 to 1, got NaN"},
		{"negative", Engine{MaxNumSeqs: -1}, "max_num_seqs must be from 0"},
		{"time", Engine{StepBase: -1}, "step_base must be from 0"},
		{"prefill rate", Engine{PrefillRate: math.Inf(1)}, "prefill_rate must be 0 (no time) or at least"},
		{"scale", Engine{TimeScale: math.NaN()}, "time_scale must be"},
		{"memory", Engine{GPUMemoryUtilization: 1.1}, "gpu_memory_utilization must be from 0 to 1, got 1.1"},
	} {
		err := Config{MaxModelLen: 4096, Engine: &c.e}.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	e := Engine{ChunkedPrefill: true, KVTokens: 100}
	if small, ok := errors.AsType[*KVTooSmallError](Config{MaxModelLen: 4096, Engine: &e}.Validate()); !ok || *small != (KVTooSmallError{4096, 96}) {
		t.Errorf("got %+v %v, want the cache of 96 tokens beside 4096", small, ok)
	}
	if err := (Config{Engine: &Engine{}, TTFT: 1}).Validate(); err == nil || !strings.Contains(err.Error(), "ttft, itl, per_prompt_token and slots must be 0 with an engine") {
		t.Errorf("times beside an engine: %v", err)
	}
}
