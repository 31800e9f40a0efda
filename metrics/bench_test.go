package metrics_test

import (
	"cmp"
	"io"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/servebench/servebench/metrics"
)

// stream is a run of n requests of k tokens each, 64 at a time, with a role-only
// event at the head of each where chat is set.
func stream(n, k int, chat bool) []metrics.Record {
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	free := make([]time.Duration, 64)
	records := make([]metrics.Record, n)
	for i := range records {
		slot := &free[i%len(free)]
		r := &records[i]
		*r = metrics.Record{
			Seq: i, ID: "bench-0", Due: *slot, Slot: *slot, Sent: *slot + 20_000, Status: 200, Outcome: metrics.OK, Reused: true,
			PromptTokens: 512, OutputTokens: k, TokenSource: metrics.FromUsage,
		}
		at := r.Sent + 50*time.Millisecond + upTo(rng, 20*time.Millisecond)
		r.Headers = at
		for j := range k {
			if chat && j == 0 {
				r.NotBearing = []int{0}
				r.Arrivals, r.RxDelay = append(r.Arrivals, at), append(r.RxDelay, 9_000)
			}
			r.Arrivals = append(r.Arrivals, at)
			r.RxDelay = append(r.RxDelay, upTo(rng, 50*time.Microsecond))
			at += 8*time.Millisecond + upTo(rng, 4*time.Millisecond)
		}
		r.Done = at
		*slot = at
	}
	return records
}

func BenchmarkSummarize(b *testing.B) {
	for _, m := range []struct {
		name string
		chat bool
	}{{"api=completions", false}, {"api=chat", true}} {
		b.Run(m.name, func(b *testing.B) {
			const n = 10_000
			records := stream(n, 256, m.chat)
			b.ReportAllocs()
			for b.Loop() {
				metrics.Summarize(records, metrics.Options{Percentiles: []float64{99.9}, Goodput: map[string]float64{"ttft": 60, "tpot": 11}})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
		})
	}
}

func BenchmarkWriteRecords(b *testing.B) {
	records := stream(1000, 256, true)
	var size counter
	if err := metrics.WriteRecords(&size, records); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		if err := metrics.WriteRecords(io.Discard, records); err != nil {
			b.Fatal(err)
		}
	}
}

type counter int

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

func upTo(rng *rand.Rand, d time.Duration) time.Duration { return time.Duration(rng.Int64N(int64(d))) }

// BenchmarkAnalyze is everything beside the summary: intervals, plateau, trends
// and verdict. A million records of 16 tokens are what issue 6 bounds by 3 s,
// summary included.
func BenchmarkAnalyze(b *testing.B) {
	for _, m := range []struct {
		name string
		load metrics.Load
		n, k int
	}{
		{"closed-16", metrics.Load{Concurrency: 64}, 1_000_000, 16},
		{"open-16", metrics.Load{OpenLoop: true, Shape: 1}, 1_000_000, 16},
		{"closed-256", metrics.Load{Concurrency: 64}, 10_000, 256},
	} {
		records := stream(m.n, m.k, false)
		slices.SortFunc(records, func(a, b metrics.Record) int { return cmp.Compare(a.Sent, b.Sent) }) // as a run has them
		o := metrics.Options{OpenLoop: m.load.OpenLoop, Goodput: map[string]float64{"ttft": 60}}
		s := metrics.Summarize(records, o)
		b.Run(m.name, func(b *testing.B) {
			b.ReportAllocs()
			cpu := cpuTime(b)
			for b.Loop() {
				a := metrics.Analyze(records, s, o, m.load)
				metrics.Judge(metrics.FiguresOf(records, s, a), metrics.DefaultLimits)
			}
			b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N*m.n), "cpu-ns/record")
		})
		b.Run(m.name+"-with-summary", func(b *testing.B) {
			b.ReportAllocs()
			cpu := cpuTime(b)
			for b.Loop() {
				s := metrics.Summarize(records, o)
				a := metrics.Analyze(records, s, o, m.load)
				metrics.Judge(metrics.FiguresOf(records, s, a), metrics.DefaultLimits)
			}
			b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N*m.n), "cpu-ns/record")
		})
	}
}

// cpuTime is that of the process so far: on a busy machine the wall clock says
// little.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
