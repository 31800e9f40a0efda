package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
)

// compare runs both clients in turn on the same server.
func (s *suite) compare(ctx context.Context, srv *server) error {
	const prompts = 256
	s.doc.Prompts, s.doc.Runs = prompts, s.runs
	if err := s.doc.describe(ctx, s, srv); err != nil {
		return err
	}
	samples := map[client]map[string][]float64{ours: {}, theirs: {}}
	var problems []string
	for i := range s.runs {
		for _, who := range []client{ours, theirs} {
			name := fmt.Sprintf("numbers-%s-%d", who, i)
			e, err := s.bench(ctx, who, append(s.save(name), "--base-url", srv.url, "--model", modelName, "--tokenizer", s.tokenizer(),
				"--random-input-len", "64", "--random-output-len", "32", "--num-prompts", strconv.Itoa(prompts), "--max-concurrency", "8",
				"--num-warmups", "8", "--temperature", "0", "--seed", strconv.Itoa(i), "--disable-tqdm",
				"--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "99")...)
			if err != nil {
				return err
			}
			r, err := s.numbers(e, name, prompts)
			if err != nil {
				problems = append(problems, fmt.Sprintf("%s, run %d: %v", who, i, err))
				continue
			}
			for k, v := range r {
				samples[who][k] = append(samples[who][k], v)
			}
		}
	}
	s.check(fmt.Sprintf("numbers: %d runs of each client, %d requests each", s.runs, prompts), problems...)
	s.doc.LoadAfter = load()
	for _, m := range measures {
		a, b := samples[ours][m.key], samples[theirs][m.key]
		s.doc.Rows = append(s.doc.Rows, row{m.label, cell(a, m.digits), cell(b, m.digits)})
		if disjoint(a, b) {
			s.doc.Apart = append(s.doc.Apart, m.label)
		}
	}
	for _, r := range s.doc.Rows {
		s.infof("%-32s servebench %-26s vllm bench serve %s", r.Label, r.Ours, r.Theirs)
	}
	return nil
}

// measures are the rows of the table.
var measures = []struct {
	label, key string
	digits     int
}{
	{"Requests/s", "request_throughput", 1},
	{"Output tokens/s", "output_throughput", 0},
	{"TTFT mean, ms", "mean_ttft_ms", 2},
	{"TTFT median, ms", "median_ttft_ms", 2},
	{"TTFT p99, ms", "p99_ttft_ms", 2},
	{"TPOT mean, ms", "mean_tpot_ms", 3},
	{"TPOT median, ms", "median_tpot_ms", 3},
	{"TPOT p99, ms", "p99_tpot_ms", 3},
	{"ITL mean, ms", "mean_itl_ms", 3},
	{"ITL median, ms", "median_itl_ms", 3},
	{"ITL p99, ms", "p99_itl_ms", 2},
	{"E2EL mean, ms", "mean_e2el_ms", 1},
	{"E2EL median, ms", "median_e2el_ms", 1},
	{"E2EL p99, ms", "p99_e2el_ms", 1},
	{"Peak concurrent requests", "max_concurrent_requests", 0},
	{"Client: CPU, s", "cpu", 2},
	{"Client: wall clock, s", "wall", 2},
	{"Client: peak memory, MB", "rss", 0},
}

// numbers are those of a result and of the process that wrote it.
func (s *suite) numbers(e *ended, name string, n int) (map[string]float64, error) {
	if e.code != 0 {
		return nil, fmt.Errorf("exit %d: %s", e.code, e.tail())
	}
	var raw map[string]any
	if err := readJSON(s.path(name+".json"), &raw); err != nil {
		return nil, err
	}
	out := make(map[string]float64)
	for k, v := range raw {
		if f, ok := v.(float64); ok {
			out[k] = f
		}
	}
	if out["completed"] != float64(n) {
		return nil, fmt.Errorf("%v of %d requests completed", out["completed"], n)
	}
	out["cpu"], out["wall"], out["rss"] = e.cpu.Seconds(), e.wall.Seconds(), float64(e.rss)/1e6
	return out, nil
}

// cell is a median and, in brackets, the extremes.
func cell(v []float64, digits int) string {
	if len(v) == 0 {
		return "none"
	}
	v = slices.Sorted(slices.Values(v))
	f := func(x float64) string { return strconv.FormatFloat(x, 'f', digits, 64) }
	return fmt.Sprintf("%s (%s–%s)", f(median(v)), f(v[0]), f(v[len(v)-1]))
}

// disjoint tells that the ranges of two samples do not overlap.
func disjoint(a, b []float64) bool {
	return len(a) > 0 && len(b) > 0 && (slices.Max(a) < slices.Min(b) || slices.Max(b) < slices.Min(a))
}

// median of sorted values.
func median(v []float64) float64 { return (v[(len(v)-1)/2] + v[len(v)/2]) / 2 }

// speculative runs both clients on the server whose chunks carry several tokens.
func (s *suite) speculative(ctx context.Context, srv *server) error {
	const prompts = 192
	s.doc.SpecPrompts = prompts
	var problems []string
	for _, who := range []client{ours, theirs} {
		name := "speculative-" + string(who)
		e, err := s.bench(ctx, who, append(s.save(name), "--base-url", srv.url, "--model", modelName, "--tokenizer", s.tokenizer(),
			"--random-input-len", "64", "--random-output-len", "64", "--num-prompts", strconv.Itoa(prompts), "--max-concurrency", "8",
			"--num-warmups", "8", "--temperature", "0", "--disable-tqdm", "--save-detailed",
			"--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "99")...)
		if err != nil {
			return err
		}
		r, err := s.numbers(e, name, prompts)
		if err != nil {
			problems = append(problems, fmt.Sprintf("%s: %v", who, err))
			continue
		}
		var d struct {
			ITLs       [][]float64
			Servebench struct {
				Peak float64 `json:"peak_output_tokens_per_s"`
			}
		}
		if err := readJSON(s.path(name+".json"), &d); err != nil {
			return err
		}
		chunks := 0
		for _, gaps := range d.ITLs {
			chunks += 1 + len(gaps)
		}
		s.doc.Spec = append(s.doc.Spec, specRow{
			Client: who, Rate: r["output_throughput"], Peak: r["max_output_tokens_per_s"], OwnPeak: d.Servebench.Peak, Tokens: int(r["total_output_tokens"]), Chunks: chunks,
			TPOT: r["mean_tpot_ms"], ITL: r["mean_itl_ms"],
		})
	}
	s.check("numbers: speculative", problems...)
	for _, r := range s.doc.Spec {
		s.infof("speculative, %-10s %.0f output tokens/s, peak %.0f as vLLM counts, %d tokens in %d chunks, TPOT %.3f ms, ITL %.3f ms", r.Client, r.Rate, r.Peak, r.Tokens, r.Chunks, r.TPOT, r.ITL)
	}
	return nil
}

// specRow is one client on the speculative server.
type specRow struct {
	Client         client
	Rate, Peak     float64
	OwnPeak        float64 // by tokens; 0: the client has none
	Tokens, Chunks int
	TPOT, ITL      float64
}

// PerChunk is the mean number of tokens in a chunk.
func (r specRow) PerChunk() float64 { return float64(r.Tokens) / float64(max(1, r.Chunks)) }
