package metrics_test

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/servebench/servebench/metrics"
)

const ms = time.Millisecond

// answer is a completed request of n output tokens, sent at the given instant,
// whose events came at the given times after that.
func answer(sent time.Duration, n int, after ...time.Duration) metrics.Record {
	r := metrics.Record{
		Due: sent, Slot: sent, Sent: sent, Done: sent, Status: 200, Outcome: metrics.OK,
		OutputTokens: n, TokenSource: metrics.FromUsage, RxDelay: make([]time.Duration, len(after)),
	}
	for _, d := range after {
		r.Arrivals = append(r.Arrivals, sent+d)
		r.Done = sent + d
	}
	return r
}

func every(n int, gap time.Duration) []time.Duration {
	out := make([]time.Duration, n)
	for i := range out {
		out[i] = time.Duration(i+1) * gap
	}
	return out
}

func wantDist(t *testing.T, name string, d *metrics.Dist, n int, mean float64) {
	t.Helper()
	if d == nil {
		t.Errorf("%s is absent", name)
	} else if d.N != n || d.Mean != mean {
		t.Errorf("%s: %d samples with mean %v, want %d with %v", name, d.N, d.Mean, n, mean)
	}
}

// S10: 4 tokens in a chunk every 40 ms are 10 ms a token.
func TestChunksOfFourTokens(t *testing.T) {
	r := answer(0, 40, every(10, 40*ms)...)
	r.Tokens = []int{4, 4, 4, 4, 4, 4, 4, 4, 4, 4}
	s := metrics.Summarize([]metrics.Record{r}, metrics.Options{})
	wantDist(t, "itl", s.Token.ITL, 9, 40)
	wantDist(t, "itl_per_token", s.ITLPerToken, 36, 10)
	// The first chunk's four tokens are over before the clock of tpot starts.
	wantDist(t, "tpot", s.Token.TPOT, 1, 360./39)
	wantDist(t, "tpot after the first chunk", s.TPOTAfterFirst, 1, 10)
	want := metrics.ChunkSizes{Requests: 1, Chunks: 10, Tokens: 40, Mean: 4, P50: 4, P99: 4, Max: 4, First: 4}
	if s.Chunks == nil || *s.Chunks != want {
		t.Errorf("chunks %+v, want %+v", s.Chunks, want)
	}
}

// Percentiles of sizes interpolate as numpy's: of 1, 1, 1, 2, 100 the median is 1
// and p99 lies at rank 3.96. Requests that told nothing, or failed, are left out.
func TestSizesOfChunks(t *testing.T) {
	told := answer(0, 105, every(5, ms)...)
	told.Tokens = []int{1, 2, 1, 100, 1}
	silent, failed := answer(0, 3, every(3, ms)...), told
	failed.Outcome = metrics.Reset
	s := metrics.Summarize([]metrics.Record{told, silent, failed}, metrics.Options{})
	want := metrics.ChunkSizes{Requests: 1, Chunks: 5, Tokens: 105, Mean: 21, P50: 1, P99: 2 + .96*98, Max: 100, Single: .6, First: 1}
	if s.Chunks == nil || math.Abs(s.Chunks.P99-want.P99) > 1e-9 {
		t.Fatalf("chunks %+v, want %+v", s.Chunks, want)
	}
	if s.Chunks.P99 = want.P99; *s.Chunks != want {
		t.Errorf("chunks %+v, want %+v", s.Chunks, want)
	}
	wantDist(t, "tpot after the first chunk", s.TPOTAfterFirst, 1, 4./104)
	if none := metrics.Summarize([]metrics.Record{silent}, metrics.Options{}); none.Chunks != nil || none.TPOTAfterFirst != nil {
		t.Errorf("chunks %+v, %+v of events that told nothing", none.Chunks, none.TPOTAfterFirst)
	}
}

// One chunk with all tokens tells nothing of a pace.
func TestNoPaceInOneChunk(t *testing.T) {
	r := answer(0, 9, ms)
	r.Tokens = []int{9}
	s := metrics.Summarize([]metrics.Record{r}, metrics.Options{})
	if s.TPOTAfterFirst != nil || s.Chunks == nil || s.Chunks.Max != 9 {
		t.Errorf("%+v, %+v", s.TPOTAfterFirst, s.Chunks)
	}
}

// Whatever the events told, a request's time per token after the first chunk is
// the mean of its gaps per token.
func TestPaceAfterTheFirstChunkIsTheMeanGapPerToken(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		n := 2 + rng.IntN(8)
		r := answer(0, 0, every(n, 7*ms)...)
		for i := range n {
			k := rng.IntN(4)
			r.Tokens = append(r.Tokens, k)
			r.OutputTokens += k
			if rng.IntN(4) == 0 {
				r.NotBearing = append(r.NotBearing, i)
			}
		}
		s := metrics.Summarize([]metrics.Record{r}, metrics.Options{})
		if (s.ITLPerToken == nil) != (s.TPOTAfterFirst == nil) {
			t.Fatalf("%v %v: %+v beside %+v", r.Tokens, r.NotBearing, s.ITLPerToken, s.TPOTAfterFirst)
		}
		if d := s.ITLPerToken; d != nil && math.Abs(d.Mean-s.TPOTAfterFirst.Mean) > 1e-9*d.Mean {
			t.Fatalf("%v %v: %v beside %v", r.Tokens, r.NotBearing, d.Mean, s.TPOTAfterFirst.Mean)
		}
	}
}

// S9: reasoning for a second, then content. The first token of any kind is one
// thing, the first visible output another.
func TestVisibleOutputAfterReasoning(t *testing.T) {
	thought := answer(0, 3, 100*ms, 600*ms, 1100*ms)
	thought.Reasoned, thought.Visible, thought.ReasoningTokens = true, 2, 2
	endless := answer(0, 2, 100*ms, 200*ms)
	endless.Reasoned, endless.ReasoningTokens = true, 2
	s := metrics.Summarize([]metrics.Record{thought, endless, answer(0, 2, 100*ms, 110*ms)}, metrics.Options{})
	wantDist(t, "ttft", s.Token.TTFT, 3, 100)
	wantDist(t, "first visible", s.TTFTVisible, 1, 1100)
	if want := (metrics.Reasoning{Requests: 2, Unseen: 1, Tokens: 4}); s.Reasoning != want {
		t.Errorf("%+v, want %+v", s.Reasoning, want)
	}
}

// The gap of a chunk whose tokens were held back belongs to those that came
// next: nothing of last - first is lost.
func TestNoGapIsLostOnTheWayToAToken(t *testing.T) {
	r := answer(0, 7, 10*ms, 20*ms, 50*ms, 90*ms)
	r.Tokens, r.NotBearing = []int{1, 1, 0, 5}, []int{1} // the second has a token, but shows nothing
	s := metrics.Summarize([]metrics.Record{r}, metrics.Options{})
	wantDist(t, "itl_per_token", s.ITLPerToken, 6, 80./6)
	if s.ITLPerToken.Min != 8 || s.ITLPerToken.Max != 40 { // 40 ms for one token, then 40 ms for five
		t.Errorf("%+v", s.ITLPerToken)
	}
}

// A server that claims 2^52 tokens in an event costs no time and no memory.
func TestAbsurdTokenCounts(t *testing.T) {
	var records []metrics.Record
	for range 5000 {
		r := answer(0, 1<<52, ms, 3*ms, 4*ms)
		r.PromptTokens, r.Tokens = 1<<52, []int{1, 1 << 52, 1 << 52}
		records = append(records, r)
	}
	s := metrics.Summarize(records, metrics.Options{RawGaps: 1000})
	finite(t, s)
	if s.OutputTokens != 1<<53 || s.InputTokens != 1<<53 { // and so are exact in JSON
		t.Errorf("%d in and %d out: the sum wrapped round", s.InputTokens, s.OutputTokens)
	}
	if s.ITLPerToken.N != math.MaxInt || s.ITLPerToken.Source != "hdr3" {
		t.Errorf("%+v", s.ITLPerToken)
	}
}

// S15: no pace where there is none to be seen, and never a zero for it.
func TestAnswersWithoutAPace(t *testing.T) {
	for _, c := range []struct {
		name   string
		tokens int
		vllm   bool // vLLM has a TPOT, of 0
	}{{"one token", 1, false}, {"no token", 0, false}, {"everything in one chunk", 9, true}} {
		s := metrics.Summarize([]metrics.Record{answer(0, c.tokens, 5*ms)}, metrics.Options{})
		wantDist(t, c.name+": ttft", s.Token.TTFT, 1, 5)
		if s.Token.TPOT != nil || s.Token.ITL != nil || s.VLLM.ITL != nil || (s.VLLM.TPOT != nil) != c.vllm {
			t.Errorf("%s: tpot %v and %v, itl %v", c.name, s.Token.TPOT, s.VLLM.TPOT, s.Token.ITL)
		}
		if s.Completed != 1 || s.Counters.Empty != 1-min(1, c.tokens) {
			t.Errorf("%s: %d completed, %d empty", c.name, s.Completed, s.Counters.Empty)
		}
	}
}

// S22: 8 requests at 100, 200, ... 800 ms, one slot, 0.5 s each.
func TestOverloadShowsFromTheDueTime(t *testing.T) {
	var records []metrics.Record
	free := time.Duration(0)
	for i := range 8 {
		due := time.Duration(i+1) * 100 * ms
		slot := max(due, free)
		r := answer(slot, 1, 500*ms)
		r.Due = due
		free = r.Done
		records = append(records, r)
	}
	s := metrics.Summarize(records, metrics.Options{OpenLoop: true})
	for i, r := range records {
		if want := time.Duration(i) * 400 * ms; r.QueueWait() != want {
			t.Errorf("request %d waited %v, want %v", i, r.QueueWait(), want)
		}
	}
	wantDist(t, "queue_wait", s.QueueWait, 8, 1400)
	wantDist(t, "e2el_from_due", s.E2ELFromDue, 8, 1900)
	wantDist(t, "e2el", s.Token.E2EL, 8, 500)
	wantDist(t, "lag", s.Lag, 8, 0)
	if s.MaxInFlight != 1 {
		t.Errorf("%d in flight", s.MaxInFlight)
	}
}

// S24: 10 requests of 100 ms one after another are one at a time, though all of
// them touch the first second. vLLM's field keeps vLLM's number.
func TestPeakConcurrency(t *testing.T) {
	var records []metrics.Record
	for i := range 10 {
		records = append(records, answer(time.Duration(i)*100*ms, 1, 100*ms))
	}
	s := metrics.Summarize(records, metrics.Options{})
	if s.MaxInFlight != 1 || s.PeakConcurrency != 10 {
		t.Errorf("%d in flight, want 1; vLLM's %d, want 10", s.MaxInFlight, s.PeakConcurrency)
	}
}

// S25: 4 tokens a chunk, 25 chunks/s: 100 tokens/s, though vLLM counts chunks.
func TestPeakTokenRate(t *testing.T) {
	for _, told := range []bool{true, false} {
		r := answer(0, 1000, every(250, 40*ms)...)
		if told {
			for range r.Arrivals {
				r.Tokens = append(r.Tokens, 4)
			}
		}
		s := metrics.Summarize([]metrics.Record{r}, metrics.Options{})
		if s.MaxTokenRate != 100 || s.PeakTokens != 25 {
			t.Errorf("told %v: %v tokens/s, want 100; vLLM's %d, want 25", told, s.MaxTokenRate, s.PeakTokens)
		}
	}
	// 50 tokens in the first 100 ms: there is no full second to count.
	s := metrics.Summarize([]metrics.Record{answer(0, 50, 100*ms)}, metrics.Options{})
	if s.MaxTokenRate != 500 {
		t.Errorf("%v tokens/s in a run of 100 ms, want the mean, 500", s.MaxTokenRate)
	}
}

// A run of four days is as cheap as one of a second, and stamps no run can
// have cost nothing either.
func TestPeaksOfLongRuns(t *testing.T) {
	records := []metrics.Record{
		answer(0, 2, ms, 6*time.Hour), answer(96*time.Hour, 1, ms),
		answer(1<<62, 1, ms), answer(-1<<62, 3, ms, ms, ms), answer(math.MinInt64, 1, 0), answer(math.MaxInt64, 1, 0),
	}
	s := metrics.Summarize(records[:2], metrics.Options{})
	if s.PeakTokens != 1 || s.PeakConcurrency != 1 || s.MaxInFlight != 1 {
		t.Errorf("%d, %d, %d", s.PeakTokens, s.PeakConcurrency, s.MaxInFlight)
	}
	if n := testing.AllocsPerRun(3, func() { metrics.Summarize(records[:2], metrics.Options{}) }); n > 400 {
		t.Errorf("%v allocations", n)
	}
	finite(t, metrics.Summarize(records, metrics.Options{OpenLoop: true}))
}

// The range is over those that were counted, whichever came first.
func TestRangesAreOverWhatWasTold(t *testing.T) {
	silent := metrics.Record{Outcome: metrics.OK, NotStreamed: true, Status: 200, Done: ms}
	s := metrics.Summarize([]metrics.Record{silent, answer(0, 7, ms), answer(0, 5, ms), silent}, metrics.Options{})
	if s.OutputRange != [2]int{5, 7} || s.InputRange != [2]int{} {
		t.Errorf("%v, %v", s.OutputRange, s.InputRange)
	}
	if s.Counters.Empty != 0 || s.Counters.NotStreamed != 2 {
		t.Errorf("%+v", s.Counters)
	}
}

// A bound is met at the bound, and not where nothing was measured.
func TestGoodput(t *testing.T) {
	document := metrics.Record{Outcome: metrics.OK, NotStreamed: true, Status: 200, Done: 10 * ms, OutputTokens: 5, TokenSource: metrics.FromUsage}
	at := answer(0, 3, 20_100_000, 25*ms, 30_300_001) // tpot 5.1000005 ms
	for _, c := range []struct {
		name  string
		r     metrics.Record
		bound map[string]float64
		want  int
	}{
		{"ttft at its bound", at, map[string]float64{"ttft": 20.1}, 1},
		{"ttft a nanosecond over", at, map[string]float64{"ttft": 20.099999}, 0},
		{"tpot at its bound", at, map[string]float64{"tpot": 5.1000005}, 1},
		{"tpot over", at, map[string]float64{"tpot": 5.1}, 0},
		{"e2el at its bound", at, map[string]float64{"e2el": 30.300001}, 1},
		{"all three", at, map[string]float64{"ttft": 21, "tpot": 6, "e2el": 31}, 1},
		{"one of three not", at, map[string]float64{"ttft": 21, "tpot": 6, "e2el": 30}, 0},
		{"one token has no pace to miss", answer(0, 1, ms), map[string]float64{"tpot": 1e-9}, 1},
		{"no stream, no ttft", document, map[string]float64{"ttft": 1e9}, 0},
		{"no stream, no tpot", document, map[string]float64{"tpot": 1e9}, 0},
		{"no stream, but an end", document, map[string]float64{"e2el": 10}, 1},
		{"failed", metrics.Record{Outcome: metrics.Reset, Status: 200}, map[string]float64{"e2el": 10}, 0},
	} {
		if s := metrics.Summarize([]metrics.Record{c.r}, metrics.Options{Goodput: c.bound}); s.Good != c.want {
			t.Errorf("%s: %d good, want %d", c.name, s.Good, c.want)
		}
	}
}

// finite fails on any number that JSON cannot hold, and on statistics without
// samples.
func finite(t testing.TB, s *metrics.Summary) {
	t.Helper()
	v := reflect.ValueOf(*s)
	var walk func(name string, v reflect.Value)
	walk = func(name string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Float64:
			if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
				t.Errorf("%s is %v", name, f)
			}
		case reflect.Pointer:
			if !v.IsNil() {
				walk(name, v.Elem())
			}
		case reflect.Struct:
			if n := v.FieldByName("N"); n.IsValid() && n.Int() <= 0 {
				t.Errorf("%s has %d samples", name, n.Int())
			}
			for i := range v.NumField() {
				walk(name+"."+v.Type().Field(i).Name, v.Field(i))
			}
		case reflect.Slice, reflect.Array:
			for i := range v.Len() {
				walk(name, v.Index(i))
			}
		case reflect.Int, reflect.Int64:
			if v.Int() < 0 {
				t.Errorf("%s is %d", name, v.Int())
			}
		}
	}
	walk("Summary", v)
}

func TestNoRecordsNoNumbers(t *testing.T) {
	for name, records := range map[string][]metrics.Record{
		"none": nil, "never sent": make([]metrics.Record, 3), "dropped": {{Outcome: metrics.Dropped, Due: 5, Slot: 5}},
	} {
		s := metrics.Summarize(records, metrics.Options{OpenLoop: true, RawGaps: -1, Goodput: map[string]float64{"ttft": 1}, Percentiles: []float64{-1, 101, math.NaN()}})
		finite(t, s)
		if s.VLLM != (metrics.Latencies{}) || s.Token != (metrics.Latencies{}) || s.Lag != nil || s.QueueWait != nil || s.Completed != 0 || s.MaxInFlight != 0 {
			t.Errorf("%s: %+v", name, s)
		}
	}
	var none *metrics.Dist
	if _, ok := none.Percentile(50); ok {
		t.Error("a percentile of nothing")
	}
}

// roundTrip is what a reader of the JSON gets.
func roundTrip(t testing.TB, f float64) float64 {
	t.Helper()
	b, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	f, err = strconv.ParseFloat(string(b), 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func ulps(a, b float64) float64 {
	return math.Abs(a-b) / (math.Nextafter(max(a, b), math.Inf(1)) - max(a, b))
}

// anyRun makes a run of every shape: a few or hundreds of requests, fast or
// slow, equal lengths or not, some failed, some not bearing.
func anyRun(rng *rand.Rand, equal, bearing bool) (records []metrics.Record, tokens int) {
	tokens = 2 + rng.IntN(300)
	speed := math.Pow(10, 2+7*rng.Float64()) // ns between events
	for range 1 + rng.IntN(120) {
		if !equal {
			tokens = rng.IntN(300)
		}
		due := time.Duration(rng.Int64N(1e12))
		r := metrics.Record{Due: due, Slot: due + time.Duration(rng.Int64N(1e9)), Status: 200, Outcome: metrics.OK, OutputTokens: tokens, TokenSource: metrics.FromUsage}
		r.Sent = r.Slot + time.Duration(rng.Int64N(1e6))
		at := r.Sent + time.Duration(rng.ExpFloat64()*speed*50)
		chunks := 2 + rng.IntN(max(1, tokens))
		for i := range chunks {
			if !bearing && i < chunks-2 && rng.IntN(4) == 0 {
				r.NotBearing = append(r.NotBearing, i)
			}
			r.Arrivals, r.RxDelay = append(r.Arrivals, at), append(r.RxDelay, time.Duration(rng.Int64N(1e5)))
			at += time.Duration(rng.ExpFloat64() * speed)
		}
		r.Done = at
		if rng.IntN(8) == 0 && !equal {
			r.Outcome = metrics.Reset
		}
		records = append(records, r)
	}
	return records, tokens
}

// R9, R18, R7 and R11 of the manifest's rules, on any records.
func TestRulesOfArithmetic(t *testing.T) {
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 1))
		equal := seed%2 == 0
		records, tokens := anyRun(rng, equal, false)
		s := metrics.Summarize(records, metrics.Options{OpenLoop: true, Percentiles: []float64{0, 10, 99.9, 100}})
		finite(t, s)
		if equal {
			for name, l := range map[string]metrics.Latencies{"vllm": s.VLLM, "token": s.Token} {
				n := float64(tokens - 1)
				e2el, sum := roundTrip(t, l.E2EL.Mean), roundTrip(t, l.TTFT.Mean)+n*roundTrip(t, l.TPOT.Mean)
				if u := ulps(e2el, sum); u > 2 {
					t.Errorf("seed %d %s: R9: mean(e2el) %v, from its parts %v: %v ulp", seed, name, e2el, sum, u)
				}
				// Theorems of real numbers: the slack is what rounding may do to them.
				slack := 1e-12 * l.E2EL.Mean
				if lo, hi := math.Abs(l.TTFT.Std-n*l.TPOT.Std), l.TTFT.Std+n*l.TPOT.Std; l.E2EL.Std < lo-slack || l.E2EL.Std > hi+slack {
					t.Errorf("seed %d %s: R18: spread %v outside %v..%v", seed, name, l.E2EL.Std, lo, hi)
				}
			}
		}
		for _, l := range []metrics.Latencies{s.VLLM, s.Token} {
			for _, d := range []*metrics.Dist{l.TTFT, l.TPOT, l.ITL, l.E2EL} {
				if d != nil {
					rising(t, seed, d)
				}
			}
			if l.E2EL == nil {
				continue
			}
			for _, p := range []float64{0, 10, 50, 90, 95, 99, 99.9, 100} {
				first, _ := l.TTFT.Percentile(p)
				last, _ := l.E2EL.Percentile(p)
				if last < first {
					t.Errorf("seed %d: R11: p%v of e2el %v is below ttft's %v", seed, p, last, first)
				}
			}
		}
	}
}

func rising(t *testing.T, seed uint64, d *metrics.Dist) {
	t.Helper()
	last := d.Min
	for _, p := range []float64{0, 10, 50, 90, 95, 99, 99.9, 100} {
		v, ok := d.Percentile(p)
		if !ok || v < last {
			t.Errorf("seed %d: R7: p%v is %v, below %v", seed, p, v, last)
		}
		last = v
	}
	if last > d.Max || d.Mean < d.Min || d.Mean > d.Max {
		t.Errorf("seed %d: %v..%v does not hold p100 %v and the mean %v", seed, d.Min, d.Max, last, d.Mean)
	}
	// No slack: a constant has no spread, and its mean is its median.
	if math.Abs(d.Mean-d.Median) > d.Std {
		t.Errorf("seed %d: R18: mean %v and median %v are further apart than %v", seed, d.Mean, d.Median, d.Std)
	}
}

// A simulator answers all alike: the rules hold without any slack there.
func TestEqualAnswersHaveNoSpread(t *testing.T) {
	for n := 1; n < 200; n++ {
		var records []metrics.Record
		for i := range n {
			// The second half is of another length at the same pace.
			k := 4 + i%2*3
			records = append(records, answer(time.Duration(i)*time.Second, k, every(k, 7_777_777)...))
		}
		s := metrics.Summarize(records, metrics.Options{})
		for _, d := range []*metrics.Dist{s.Token.TTFT, s.Token.TPOT, s.Token.ITL} {
			if d.Std != 0 || d.Mean != d.Median || d.Mean != 7.777777 {
				t.Fatalf("%d requests: %+v", n, d)
			}
		}
	}
}

// Where every event bears a token the two readings are one.
func TestReadingsAgreeWhereEveryEventBears(t *testing.T) {
	for seed := range uint64(50) {
		records, _ := anyRun(rand.New(rand.NewPCG(seed, 2)), false, true)
		s := metrics.Summarize(records, metrics.Options{})
		if !reflect.DeepEqual(s.VLLM, s.Token) {
			t.Fatalf("seed %d: %+v and %+v", seed, s.VLLM, s.Token)
		}
		gaps := 0
		for _, r := range records {
			if r.Outcome == metrics.OK {
				gaps += len(r.Arrivals) - 1
			}
		}
		if s.VLLM.ITL != nil && s.VLLM.ITL.N != gaps {
			t.Fatalf("seed %d: %d gaps, want %d", seed, s.VLLM.ITL.N, gaps)
		}
	}
}

// A failed request changes nothing but the counts of failures, the generator's
// own figures and the length of the run.
func TestFailuresEnterNoLatency(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		records, _ := anyRun(rng, true, false)
		failed, _ := anyRun(rng, false, false)
		for i := range failed {
			failed[i].Outcome = []metrics.Outcome{metrics.Reset, metrics.HTTP, metrics.Canceled, "new in a later version"}[i%4]
		}
		o := metrics.Options{OpenLoop: true, Goodput: map[string]float64{"e2el": 1e9}}
		alone, both := metrics.Summarize(records, o), metrics.Summarize(append(records, failed...), o)
		if both.Failed != len(failed) || both.Completed != len(records) {
			t.Fatalf("%d failed of %d, %d completed of %d", both.Failed, len(failed), both.Completed, len(records))
		}
		if alone.Lag.N+len(failed) != both.Lag.N {
			t.Errorf("lag of %d requests", both.Lag.N)
		}
		both.Failed, both.Outcomes, both.Counters, both.Last = alone.Failed, alone.Outcomes, alone.Counters, alone.Last
		both.Lag, both.QueueWait, both.RxDelay, both.MaxInFlight, both.MaxTokenRate = alone.Lag, alone.QueueWait, alone.RxDelay, alone.MaxInFlight, alone.MaxTokenRate
		if !reflect.DeepEqual(alone, both) {
			t.Errorf("seed %d: failures changed %+v to %+v", seed, alone, both)
		}
	}
}

// queue_wait + lag + e2el is e2el_from_due, for every request and so for the means.
func TestIdentitiesOfTheDueTime(t *testing.T) {
	for seed := range uint64(50) {
		records, _ := anyRun(rand.New(rand.NewPCG(seed, 4)), true, false)
		for i := range records {
			r := &records[i]
			if r.QueueWait() != r.Slot-r.Due || r.Lag() != r.Sent-r.Slot || r.QueueWait()+r.Lag() != r.Sent-r.Due {
				t.Fatalf("%+v", r)
			}
			one := metrics.Summarize(records[i:i+1], metrics.Options{OpenLoop: true})
			if sum := one.QueueWait.Mean + one.Lag.Mean + one.Token.E2EL.Mean; ulps(sum, one.E2ELFromDue.Mean) > 3 {
				t.Fatalf("%v, want %v", sum, one.E2ELFromDue.Mean)
			}
		}
		s := metrics.Summarize(records, metrics.Options{OpenLoop: true})
		if sum := s.QueueWait.Mean + s.Lag.Mean + s.Token.E2EL.Mean; ulps(sum, s.E2ELFromDue.Mean) > 3 {
			t.Errorf("seed %d: %v, want %v", seed, sum, s.E2ELFromDue.Mean)
		}
		if c := metrics.Summarize(records, metrics.Options{}); c.QueueWait != nil || c.E2ELFromDue != nil || c.TTFTFromDue != nil {
			t.Errorf("a closed loop has latencies from the due time")
		}
	}
}

// The peak of concurrency is that of a count at every start.
func TestMaxInFlightIsWhatACountGives(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 5))
		var records []metrics.Record
		for range rng.IntN(60) {
			r := answer(time.Duration(rng.IntN(30)), 1)
			r.Done = r.Sent + 1 + time.Duration(rng.IntN(9))
			records = append(records, r)
		}
		want := 0
		for _, a := range records {
			n := 0
			for _, b := range records {
				if b.Sent <= a.Sent && a.Sent < b.Done {
					n++
				}
			}
			want = max(want, n)
		}
		if got := metrics.Summarize(records, metrics.Options{}).MaxInFlight; got != want {
			t.Errorf("seed %d: %d, want %d", seed, got, want)
		}
	}
}
