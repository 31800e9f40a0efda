package bench_test

import (
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/metrics"
)

// The wall clock is set by an hour in the middle of a run, or there and back. No time
// in the records moves by a nanosecond, and the verdict says what happened, once.
func TestWallClockIsSet(t *testing.T) {
	run := func(set time.Duration, back bool) (res *bench.Result) {
		synctest.Test(t, func(t *testing.T) {
			cfg := simulate(t, sim.Config{TTFT: 500 * ms, ITL: 100 * ms})
			cfg.InProcess, cfg.Dataset.Prompts, cfg.MaxConcurrency = true, 8, 2
			cfg.Command = []string{"servebench", "serve", "--num-prompts", "8", "--max-concurrency", "2"}
			began := time.Now()
			cfg.Target.Wall = func(now time.Time) time.Time {
				if d := now.Sub(began); d > 1200*ms && !(back && d > 2700*ms) {
					return now.Add(set)
				}
				return now
			}
			var err error
			if res, err = bench.Run(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
		})
		return res
	}
	still := run(0, false)
	if j := still.Judgement; j.Verdict != metrics.Valid || len(j.Reasons) != 0 {
		t.Fatalf("%+v", j)
	}
	ext := save(t, run(time.Hour, false)).Measurement.Extensions
	if ext["servebench.verdict"] != string(metrics.Invalid) || ext["servebench.health_series"] == nil {
		t.Errorf("the manifest says %v", ext["servebench.verdict"])
	}
	for _, set := range []time.Duration{time.Hour, -time.Hour} {
		for _, back := range []bool{false, true} {
			res := run(set, back)
			if !reflect.DeepEqual(res.Records, still.Records) || res.Duration != still.Duration {
				t.Errorf("set by %v: a time moved", set)
			}
			j := res.Judgement
			if len(j.Reasons) != 1 || j.Reasons[0].Rule != "clocks" || j.Verdict != metrics.Invalid || !strings.Contains(res.Reasons()[0], "limit 1 %") {
				t.Errorf("set by %v: %+v", set, j)
			}
			if has(res.Warnings, "clock") {
				t.Errorf("set by %v: a second voice: %v", set, res.Warnings)
			}
			offsets := res.Series.Column("wall_clock_offset_ms")
			if at := float64(set / ms); offsets[0] != 0 || offsets[1] != at || back != (offsets[3] == 0) {
				t.Errorf("set by %v: seen as %v", set, offsets)
			}
		}
	}
}
