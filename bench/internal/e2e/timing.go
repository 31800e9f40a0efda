package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

// timingStreams are how many requests are in flight, and how many there are.
var timingStreams = []struct{ streams, prompts int }{{1, 40}, {8, 120}, {32, 256}}

// The lengths of all requests of the page.
const (
	timingInput  = 256
	timingOutput = 32
)

// timingEnv lets the server of the part timing find bench/e2e/middleware, and its
// middleware the file to write to.
func (s *suite) timingEnv() []string {
	scripts, err := filepath.Abs(s.scripts)
	if err != nil {
		scripts = s.scripts
	}
	return []string{"PYTHONPATH=" + filepath.Join(scripts, "middleware"), "SERVEBENCH_TIMING_LOG=" + s.path("timing.log")}
}

// tapped is a line of bench/e2e/middleware/timing_tap.py: instants on the server's
// monotonic clock in nanoseconds, and the object that the client got too.
type tapped struct {
	ID                   string
	Entered, First, Last int64
	Metrics              struct {
		TTFT       float64 `json:"time_to_first_token_ms"`
		Generation float64 `json:"generation_time_ms"`
		Queue      float64 `json:"queue_time_ms"`
		ITL        float64 `json:"mean_itl_ms"`
	}
}

// seenTiming is one request from both sides, in milliseconds.
type seenTiming struct {
	TTFT, ITL, E2EL             float64 // the client's
	Queue, First, Generation    float64 // the engine's: in its queue, to the first token, to the last
	EngineITL                   float64
	HTTPFirst, HTTPLast, HTTPIT float64 // the HTTP layer's, from its having the headers
	Before                      float64 // requests that were there without a first token when it came
}

// Engine is the engine's time to the first token.
func (t seenTiming) Engine() float64 { return t.Queue + t.First }

// Beyond is what the client's TTFT has beyond the engine's; Front is the server's
// part of it, Outside what is not the server's.
func (t seenTiming) Beyond() float64  { return t.TTFT - t.Engine() }
func (t seenTiming) Front() float64   { return t.HTTPFirst - t.Engine() }
func (t seenTiming) Outside() float64 { return t.TTFT - t.HTTPFirst }

// timing runs both clients in alternation and sets what each saw beside what the
// server told of the same requests.
func (s *suite) timing(ctx context.Context, srv *server) error {
	p := &s.timings
	p.Runs = s.runs
	if err := p.describe(ctx, s, srv); err != nil {
		return err
	}
	// The first prompts of a new length and the first batches are slower; which
	// client pays for them would be chance.
	if _, err := s.timed(ctx, srv, ours, 32, 64, s.runs); err != nil {
		return fmt.Errorf("warm-up: %w", err)
	}
	for _, at := range timingStreams {
		runs := map[client][][]seenTiming{}
		var problems []string
		for i := range s.runs {
			order := []client{ours, theirs}
			if i%2 == 1 {
				slices.Reverse(order)
			}
			for _, who := range order {
				seen, err := s.timed(ctx, srv, who, at.streams, at.prompts, i)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err != nil {
					problems = append(problems, fmt.Sprintf("%s, run %d: %v", who, i, err))
					continue
				}
				problems = append(problems, impossible(who, i, seen)...)
				runs[who] = append(runs[who], seen)
			}
		}
		s.check(fmt.Sprintf("timing: %d streams, %d runs of each client, %d requests each", at.streams, s.runs, at.prompts), problems...)
		if len(problems) == 0 {
			p.add(at.streams, at.prompts, runs)
		}
	}
	p.LoadAfter = load()
	p.Passed, p.Failed = s.passed, s.failed
	return nil
}

// impossible lists the requests in which a client saw the first token before the
// server had it: then one of the three does not measure what it says.
func impossible(who client, run int, seen []seenTiming) (problems []string) {
	for i, t := range seen {
		if t.Outside() < 0 || t.Front() < 0 {
			problems = append(problems, fmt.Sprintf("%s, run %d, request %d: TTFT %.3f ms, the HTTP layer's %.3f, the engine's %.3f", who, run, i, t.TTFT, t.HTTPFirst, t.Engine()))
		}
	}
	return problems
}

// timed is one run of one client: its requests in order, from both sides.
func (s *suite) timed(ctx context.Context, srv *server, who client, streams, prompts, seed int) ([]seenTiming, error) {
	name := fmt.Sprintf("timing-%s-%d-%d", who, streams, seed)
	args := append(s.save(name), "--base-url", srv.url, "--model", modelName, "--tokenizer", s.tokenizer(), "--disable-tqdm",
		"--random-input-len", strconv.Itoa(timingInput), "--random-output-len", strconv.Itoa(timingOutput), "--num-prompts", strconv.Itoa(prompts),
		"--max-concurrency", strconv.Itoa(streams), "--temperature", "0", "--seed", strconv.Itoa(seed), "--save-detailed",
		"--request-id-prefix", name+"-", "--ready-check-timeout-sec", "0")
	if who == ours {
		args = append(args, "--server-timing")
	}
	e, err := s.bench(ctx, who, args...)
	if err != nil {
		return nil, err
	}
	if e.code != 0 {
		return nil, fmt.Errorf("exit %d: %s", e.code, e.tail())
	}
	return s.readTimed(who, name, prompts)
}

// readTimed reads what a run called name has left.
func (s *suite) readTimed(who client, name string, prompts int) ([]seenTiming, error) {
	var r struct {
		Completed  int
		TTFTs      []float64
		ITLs       [][]float64
		Latencies  []float64
		OutputLens []int `json:"output_lens"`
	}
	if err := readJSON(s.path(name+".json"), &r); err != nil {
		return nil, err
	}
	if r.Completed != prompts || len(r.TTFTs) != prompts || len(r.ITLs) != prompts || len(r.Latencies) != prompts || len(r.OutputLens) != prompts {
		return nil, fmt.Errorf("%d of %d requests completed, with %d TTFTs", r.Completed, prompts, len(r.TTFTs))
	}
	taps, err := readTaps(s.path("timing.log"), name+"-", prompts)
	if err != nil {
		return nil, err
	}
	if who == ours {
		if err := s.sameAsTapped(name, taps); err != nil {
			return nil, err
		}
	}
	seen := make([]seenTiming, prompts)
	for i, tap := range taps {
		n := float64(r.OutputLens[i] - 1)
		if n < 1 || tap.First == 0 {
			return nil, fmt.Errorf("request %d has %d tokens", i, r.OutputLens[i])
		}
		total := 0.0
		for _, gap := range r.ITLs[i] {
			total += gap
		}
		seen[i] = seenTiming{
			TTFT: r.TTFTs[i] * 1e3, ITL: total / n * 1e3, E2EL: r.Latencies[i] * 1e3,
			Queue: tap.Metrics.Queue, First: tap.Metrics.TTFT, Generation: tap.Metrics.Generation, EngineITL: tap.Metrics.ITL,
			HTTPFirst: float64(tap.First-tap.Entered) / 1e6, HTTPLast: float64(tap.Last-tap.Entered) / 1e6,
			HTTPIT: float64(tap.Last-tap.First) / 1e6 / n,
		}
		for _, other := range taps {
			if other.Entered < tap.Entered && tap.Entered < other.First {
				seen[i].Before++
			}
		}
	}
	return seen, nil
}

// readTaps returns what the middleware noted of requests PREFIX0 to PREFIXn-1.
func readTaps(path, prefix string, n int) ([]tapped, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	taps := make([]tapped, n)
	found := 0
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var t tapped
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
		number, ok := strings.CutPrefix(t.ID, "cmpl-"+prefix)
		if !ok {
			continue
		}
		i, err := strconv.Atoi(number)
		if err != nil || i < 0 || i >= n || taps[i].ID != "" {
			return nil, fmt.Errorf("the server's notes have %q, want each of %s0 to %d once", t.ID, prefix, n-1)
		}
		taps[i] = t
		found++
	}
	if found != n {
		return nil, fmt.Errorf("the server noted %d of %d requests", found, n)
	}
	return taps, nil
}

// sameAsTapped holds what --server-timing took in against what the server sent.
func (s *suite) sameAsTapped(name string, taps []tapped) error {
	f, err := os.Open(s.path(name + ".requests.jsonl"))
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	i := 0
	for ; lines.Scan(); i++ {
		var r struct {
			Seq    int
			Timing *struct {
				Queue      float64 `json:"queue_ns"`
				TTFT       float64 `json:"ttft_ns"`
				Generation float64 `json:"generation_ns"`
				ITL        float64 `json:"mean_itl_ns"`
			} `json:"server_timing"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		if r.Seq >= len(taps) || r.Timing == nil {
			return fmt.Errorf("record %d has no server_timing", r.Seq)
		}
		m, t := taps[r.Seq].Metrics, r.Timing
		for _, pair := range [][2]float64{{m.Queue, t.Queue}, {m.TTFT, t.TTFT}, {m.Generation, t.Generation}, {m.ITL, t.ITL}} {
			if math.Abs(pair[0]*1e6-pair[1]) > 0.51 { // rounded to a nanosecond
				return fmt.Errorf("record %d has %v ns where the server sent %v ms", r.Seq, pair[1], pair[0])
			}
		}
	}
	if i != len(taps) {
		return fmt.Errorf("%d records of %d requests", i, len(taps))
	}
	return lines.Err()
}

//go:embed server-timing.md.tmpl
var timingText string

// timingPage is what docs/server-timing.md tells.
type timingPage struct {
	document
	Tables []timingTable
	Sample []timingSample
}

// timingTable is one number of streams.
type timingTable struct {
	Streams, Prompts int
	Rows             []row
}

// timingSample is one request of the first runs with one stream.
type timingSample struct {
	Number       int
	Ours, Theirs seenTiming
}

// Input and Output are the lengths as the page says them.
func (p *timingPage) Input() int  { return timingInput }
func (p *timingPage) Output() int { return timingOutput }

// Shared tells that others worked on the machine: before the runs the server was
// idle, and so should the machine have been.
func (p *timingPage) Shared() bool {
	before, err := strconv.ParseFloat(p.Load, 64)
	return err != nil || before > float64(p.Cores)
}

// shownRequests are those of the page's first table.
const shownRequests = 6

// add makes a table of the runs with so many streams.
func (p *timingPage) add(streams, prompts int, runs map[client][][]seenTiming) {
	t := timingTable{Streams: streams, Prompts: prompts}
	for _, m := range timingRows {
		r := row{Label: m.label}
		for who, into := range map[client]*string{ours: &r.Ours, theirs: &r.Theirs} {
			var each []float64
			for _, seen := range runs[who] {
				var values []float64
				for _, one := range seen {
					values = append(values, m.of(one))
				}
				slices.Sort(values)
				if m.q == mean {
					each = append(each, meanOf(values))
				} else {
					each = append(each, quantile(values, m.q))
				}
			}
			*into = cell(each, 3)
		}
		t.Rows = append(t.Rows, r)
	}
	p.Tables = append(p.Tables, t)
	if streams > 1 {
		return
	}
	for i := range min(shownRequests, prompts) {
		p.Sample = append(p.Sample, timingSample{i, runs[ours][0][i], runs[theirs][0][i]})
	}
}

// mean stands for a quantile in timingRows.
const mean = -1

func meanOf(v []float64) (sum float64) {
	for _, x := range v {
		sum += x / float64(len(v))
	}
	return sum
}

// timingRows are the lines of a table: a quantile over a run's requests.
var timingRows = []struct {
	label string
	q     float64
	of    func(seenTiming) float64
}{
	{"TTFT, the client's, p50", .5, func(t seenTiming) float64 { return t.TTFT }},
	{"TTFT, the engine's: queue + first token, p50", .5, seenTiming.Engine},
	{"of it the engine's queue, p50", .5, func(t seenTiming) float64 { return t.Queue }},
	{"**TTFT beyond the engine's**, p50", .5, seenTiming.Beyond},
	{"the same, p90", .9, seenTiming.Beyond},
	{"of it inside the server, in front of the engine and behind it, p50", .5, seenTiming.Front},
	{"requests before it in the server that had no first token yet, mean", mean, func(t seenTiming) float64 { return t.Before }},
	{"of it **outside the server's HTTP layer**, p50", .5, seenTiming.Outside},
	{"the same, p90", .9, seenTiming.Outside},
	{"mean ITL, the client's, p50", .5, func(t seenTiming) float64 { return t.ITL }},
	{"mean ITL, the engine's, p50", .5, func(t seenTiming) float64 { return t.EngineITL }},
	{"**mean ITL beyond the engine's**, p50", .5, func(t seenTiming) float64 { return t.ITL - t.EngineITL }},
	{"mean ITL beyond the HTTP layer's, p50", .5, func(t seenTiming) float64 { return t.ITL - t.HTTPIT }},
	{"E2EL, the client's, p50", .5, func(t seenTiming) float64 { return t.E2EL }},
	{"**E2EL beyond the engine's**, p50", .5, func(t seenTiming) float64 { return t.E2EL - t.Engine() - t.Generation }},
	{"E2EL beyond the HTTP layer's, p50", .5, func(t seenTiming) float64 { return t.E2EL - t.HTTPLast }},
}

// quantile of sorted values, as numpy's.
func quantile(v []float64, q float64) float64 {
	h := float64(len(v)-1) * q
	low := int(h)
	return v[low] + (v[min(low+1, len(v)-1)]-v[low])*(h-float64(low))
}

// write renders the page.
func (p *timingPage) write(path string) error {
	t, err := template.New("page").Funcs(template.FuncMap{"ms": func(v float64) string { return strconv.FormatFloat(v, 'f', 3, 64) }}).Parse(timingText)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, p); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o666)
}
