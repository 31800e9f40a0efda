package probe

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/metrics"
)

// Counters of two engines add up; _created stamps and other metrics are not
// counters; a label with a space or a brace spoils nothing.
func TestReadSpeculation(t *testing.T) {
	body := `# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
vllm:num_requests_running{engine="0"} 3.0
vllm:spec_decode_num_drafts_total{engine="0",model_name="a b} 9"} 74.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="a b} 9"} 26.0
vllm:spec_decode_num_drafts_created{engine="0"} 1.796068383476893e+09
vllm:spec_decode_num_draft_tokens_total{engine="0"} 296.0
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 280.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 70.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 60.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="99999999"} 60.0
`
	want := &metrics.Speculation{Drafts: 100, DraftTokens: 296, Accepted: 280, AcceptedAt: []int64{70, 60}}
	if d := cmp.Diff(want, read([]byte(body)).Speculation); d != "" {
		t.Error(d)
	}
	if s := read([]byte("vllm:num_requests_running 1\n")).Speculation; s != nil {
		t.Errorf("a server without speculation has %v", s)
	}
	before := &metrics.Speculation{Drafts: 50, DraftTokens: 200, Accepted: 180, AcceptedAt: []int64{40}}
	d := want.Sub(before)
	if d.Rate() != 100*100.0/96 || d.Length() != 1+100.0/50 || !cmp.Equal(d.Positions(), []float64{30.0 / 50, 60.0 / 50}) {
		t.Errorf("rate %v, length %v, positions %v", d.Rate(), d.Length(), d.Positions())
	}
	if want.Sub(want) != nil || want.Sub(nil) != nil {
		t.Error("nothing drafted is nil")
	}
}

func TestReadDiffusion(t *testing.T) {
	body := `vllm:diffusion_num_denoising_steps_total{engine="0"} 30.0
vllm:diffusion_num_denoising_steps_total{engine="1"} 10.0
vllm:diffusion_num_denoising_steps_created{engine="0"} 1.79e+09
vllm:diffusion_num_canvas_positions_total{engine="0"} 1280.0
vllm:diffusion_num_committed_tokens_total{engine="0"} 256.0
vllm:diffusion_num_committed_tokens_total{engine="1"} NaN
`
	want := &metrics.Diffusion{Steps: 40, Positions: 1280, Committed: 256}
	if d := cmp.Diff(want, read([]byte(body)).Diffusion); d != "" {
		t.Error(d)
	}
	if d := read([]byte("vllm:diffusion_num_denoising_steps_created 1\n")).Diffusion; d != nil {
		t.Errorf("a server without diffusion has %v", d)
	}
}

// The counters of two engines add up; what was aborted did not succeed; a label may
// hold anything; a time may stand behind the value; what is no count is not there.
func TestReadCounts(t *testing.T) {
	body := `# TYPE vllm:num_preemptions_total counter
process_start_time_seconds 1.796068383476893e+09
vllm:num_preemptions_total{engine="0",model_name="m"} 2.0
vllm:num_preemptions_total{engine="1",model_name="a \"b} 9"} 3.0 1796068383476
vllm:num_preemptions_created{engine="0"} 1.79e+09
vllm:prefix_cache_queries_total{engine="0"} 1e3
vllm:prefix_cache_hits_total{engine="0"} NaN
vllm:prompt_tokens_total 640
vllm:prompt_tokens_by_source_total{source="x"} 5
vllm:generation_tokens_total{engine="0"} -1
vllm:generation_tokens_total{engine="0"} 9e99
vllm:iteration_tokens_total_bucket{le="1"} 7
vllm:request_success_total{finished_reason="stop"} 1
vllm:request_success_total{finished_reason="length"} 4
vllm:request_success_total{finished_reason="abort"} 100
vllm:request_success_total{finished_reason="error"} 100
vllm:request_success_total{finished_reason="length" 100
vllm:request_success_total
`
	want := Reading{
		Counts:  map[Count]int64{Preemptions: 5, PrefixQueries: 1000, PromptTokens: 640, Succeeded: 5},
		started: 1.796068383476893e+09,
	}
	if d := cmp.Diff(want, read([]byte(body)), cmp.AllowUnexported(Reading{})); d != "" {
		t.Error(d)
	}
}

func TestReadingSince(t *testing.T) {
	at := func(started float64, kv ...int64) Reading {
		r := Reading{started: started}
		for i, c := range []Count{Preemptions, GenerationTokens}[:len(kv)] {
			if r.Counts == nil {
				r.Counts = map[Count]int64{}
			}
			r.Counts[c] = kv[i]
		}
		return r
	}
	for _, c := range []struct {
		why           string
		before, after Reading
		want          map[Count]int64
		err           string
	}{
		{"a window", at(7, 1, 100), at(7, 3, 150), map[Count]int64{Preemptions: 2, GenerationTokens: 50}, ""},
		{"nothing happened", at(7, 1), at(7, 1), map[Count]int64{Preemptions: 0}, ""},
		{"a counter that came into being", at(7, 1), at(7, 1, 50), map[Count]int64{Preemptions: 0, GenerationTokens: 50}, ""},
		{"no first reading", Reading{}, at(0, 1, 50), nil, ""},
		{"no counters", Reading{}, Reading{}, nil, ""},
		{"back", at(7, 1, 100), at(7, 1, 99), nil, "generation_tokens went back from 100 to 99: the server was started anew in between"},
		{"gone", at(7, 1, 100), at(7, 1), nil, "generation_tokens went back from 100 to 0: the server was started anew in between"},
		{"another process that has counted more", at(7, 1, 100), at(8, 5, 500), nil, "another process answered: the server was started anew in between, or several share an address"},
	} {
		got, err := c.after.Since(c.before)
		if d := cmp.Diff(c.want, got.Counts); d != "" || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: %s error %v, want %q", c.why, d, err, c.err)
		}
	}
	back := &metrics.Speculation{Drafts: 5, DraftTokens: 20, Accepted: 9}
	if _, err := (Reading{Speculation: &metrics.Speculation{Drafts: 6, DraftTokens: 24, Accepted: 8}}).Since(Reading{Speculation: back}); err == nil {
		t.Error("fewer tokens are accepted than before, without an error")
	}
	back.AcceptedAt = []int64{9, 0}
	for _, at := range [][]int64{{8, 1}, {9}} {
		after := &metrics.Speculation{Drafts: 6, DraftTokens: 24, Accepted: 9, AcceptedAt: at}
		if _, err := (Reading{Speculation: after}).Since(Reading{Speculation: back}); err == nil {
			t.Errorf("%v accepted by position after %v, without an error", at, back.AcceptedAt)
		}
	}
}

// Servers add up; what one of them does not count is known of none.
func TestReadingPlus(t *testing.T) {
	a := Reading{Counts: map[Count]int64{Preemptions: 1, PromptTokens: 10}, Speculation: &metrics.Speculation{Drafts: 2, DraftTokens: 8, Accepted: 5, AcceptedAt: []int64{2}}}
	b := Reading{Counts: map[Count]int64{Preemptions: 2}, Speculation: &metrics.Speculation{Drafts: 1, DraftTokens: 4, Accepted: 3, AcceptedAt: []int64{1, 1}}, Diffusion: &metrics.Diffusion{Steps: 1, Positions: 2, Committed: 3}}
	want := Reading{
		Counts:      map[Count]int64{Preemptions: 3},
		Speculation: &metrics.Speculation{Drafts: 3, DraftTokens: 12, Accepted: 8, AcceptedAt: []int64{3, 1}},
		Diffusion:   &metrics.Diffusion{Steps: 1, Positions: 2, Committed: 3},
	}
	for _, sum := range []Reading{a.Plus(b), b.Plus(a)} {
		if d := cmp.Diff(want, sum, cmp.AllowUnexported(Reading{})); d != "" {
			t.Error(d)
		}
	}
}

func TestReadFails(t *testing.T) {
	for want, s := range map[string]server{
		"GET /metrics: the server does not have it": {},
		"GET /metrics: status 500":                  {"/metrics": status(500, "vllm:x")},
	} {
		if _, err := Read(t.Context(), &http.Client{Transport: s}, "http://h/v1", nil); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	r, err := Read(t.Context(), &http.Client{Transport: server{"/metrics": ok("vllm:num_preemptions_total 3\n")}}, "http://h/v1", nil)
	if err != nil || r.Counts[Preemptions] != 3 {
		t.Error(r, err)
	}
}

// No number of lines makes a sum wrap round.
func TestReadSumsStayCounts(t *testing.T) {
	line := "vllm:prompt_tokens_total 9007199254740991\nvllm:spec_decode_num_drafts_total 9007199254740991\nvllm:diffusion_num_committed_tokens_total 9007199254740991\n"
	r := read([]byte(strings.Repeat(line, 2000)))
	if r.Counts[PromptTokens] != 1<<53 || r.Speculation.Drafts != 1<<53 || r.Diffusion.Committed != 1<<53 {
		t.Errorf("%v, %+v, %+v", r.Counts, r.Speculation, r.Diffusion)
	}
}

// FuzzRead: any text can be read, and no count is below 0.
func FuzzRead(f *testing.F) {
	f.Add([]byte("vllm:num_preemptions_total{engine=\"0\",a=\"}\\\"\"} 2.0 17\nprocess_start_time_seconds 1e9\n"))
	f.Add([]byte("vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"1\"} 60.0\nvllm:x{"))
	f.Fuzz(func(t *testing.T, body []byte) {
		r := read(body)
		for c, n := range r.Counts {
			if n < 0 {
				t.Errorf("%s is %d", c, n)
			}
		}
		if d, err := r.Since(r); err != nil || d.Counts[Preemptions] != 0 {
			t.Errorf("the window of no length has %v, %v", d, err)
		}
	})
}
