package metrics_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/servebench/servebench/metrics"
)

var began = time.Date(2026, 11, 30, 19, 49, 8, 123e6, time.UTC)

func hdrLog(t testing.TB, records []metrics.Record, o metrics.Options, start time.Time, length time.Duration) string {
	t.Helper()
	var b bytes.Buffer
	if err := metrics.WriteHDR(&b, records, o, start, length); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func readHDR(t testing.TB, log string) map[string]*hdrhistogram.Histogram {
	t.Helper()
	all := map[string]*hdrhistogram.Histogram{}
	for r := hdrhistogram.NewHistogramLogReader(strings.NewReader(log)); ; {
		h, err := r.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			return all
		}
		if all[h.Tag()] != nil {
			t.Errorf("two lines for %s", h.Tag())
		}
		all[h.Tag()] = h
	}
}

// The log of a run says what its Summary says, to three digits.
func TestHDRLogHasTheSummarysNumbers(t *testing.T) {
	for _, run := range []string{"equal", "chat", "mixed", "stalls", "unstreamed"} {
		records := readRecords(t, "testdata/"+run+".requests.jsonl")
		o := metrics.Options{OpenLoop: run == "equal" || run == "mixed"}
		s := metrics.Summarize(records, o)
		all := readHDR(t, hdrLog(t, records, o, began, 12345678*time.Microsecond))
		want := map[string]*metrics.Dist{
			"ttft": s.VLLM.TTFT, "ttft_token": s.Token.TTFT, "itl": s.Token.ITL, "itl_per_token": s.ITLPerToken,
			"tpot": s.Token.TPOT, "e2el": s.Token.E2EL, "ttft_from_due": s.TTFTFromDue, "e2el_from_due": s.E2ELFromDue,
			"queue_wait": s.QueueWait, "lag": s.Lag, "ramp_lag": s.RampLag, "rx_delay": s.RxDelay, "connect": s.Connect,
		}
		for tag, d := range want {
			h := all[tag]
			delete(all, tag)
			if (h == nil) != (d == nil) {
				t.Errorf("%s: %s is in one of the two alone", run, tag)
				continue
			}
			if d == nil {
				continue
			}
			if h.TotalCount() != int64(d.N) {
				t.Errorf("%s %s: %d values, want %d", run, tag, h.TotalCount(), d.N)
			}
			// A bucket is at most 0.1 % wide, and whole nanoseconds.
			if got := float64(h.Max()) / 1e6; math.Abs(got-d.Max) > d.Max/1000+1e-6 {
				t.Errorf("%s %s: largest %v ms, want %v", run, tag, got, d.Max)
			}
			if got := h.Mean() / 1e6; math.Abs(got-d.Mean) > d.Mean/1000+1e-6 {
				t.Errorf("%s %s: mean %v ms, want %v", run, tag, got, d.Mean)
			}
			if h.StartTimeMs() != began.UnixMilli() || h.EndTimeMs()-h.StartTimeMs() != 12345 {
				t.Errorf("%s %s: from %d for %d ms", run, tag, h.StartTimeMs(), h.EndTimeMs()-h.StartTimeMs())
			}
		}
		for tag := range all {
			t.Errorf("%s: %s is in the log alone", run, tag)
		}
	}
}

// Quantiles of the log are within 10^-3 of the sample of that rank.
func TestHDRQuantiles(t *testing.T) {
	records := stream(300, 40, false)
	h := readHDR(t, hdrLog(t, records, metrics.Options{}, began, time.Minute))["itl"]
	var gaps []float64
	for _, r := range records {
		for i := range len(r.Arrivals) - 1 {
			gaps = append(gaps, float64(r.Arrivals[i+1]-r.Arrivals[i]))
		}
	}
	slices.Sort(gaps)
	for _, p := range []float64{1, 50, 90, 99, 99.9, 100} {
		want := gaps[max(1, int(p/100*float64(len(gaps))+0.5))-1]
		if got := float64(h.ValueAtQuantile(p)); math.Abs(got-want) > want/1000 {
			t.Errorf("p%v: %v ns, want %v", p, got, want)
		}
	}
}

// The form, as HistogramLogProcessor and its like read it: seconds since the
// epoch, seconds, milliseconds, base64.
func TestHDRLogFormat(t *testing.T) {
	// Sent at 1 s, first token 20 ms, last 7 h later: past what histograms of an
	// hour could hold.
	r := answer(time.Second, 3, 20*ms, 40*ms, 7*time.Hour)
	lines := strings.Split(strings.TrimSuffix(hdrLog(t, []metrics.Record{r}, metrics.Options{}, began, 8*time.Hour), "\n"), "\n")
	head := []string{
		"#[Histogram log format version 1.3]",
		"#[StartTime: 1796068148 (seconds since epoch), 2026-11-30T19:49:08Z]",
		`"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"`,
	}
	if !slices.Equal(lines[:3], head) {
		t.Errorf("head %q", lines[:3])
	}
	form := regexp.MustCompile(`^Tag=([a-z_0-9]+),1796068148\.123000,28800\.000000,(\d+\.\d{6}),HISTFAAA[A-Za-z0-9+/]+=*$`)
	var tags []string
	for _, line := range lines[3:] {
		m := form.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("line %q", line)
			continue
		}
		tags = append(tags, m[1])
		var most float64
		fmt.Sscan(m[2], &most)
		if want := float64(7*3600*1000 + 0); m[1] == "e2el" && math.Abs(most-want) > want/1000 {
			t.Errorf("largest e2el %v, want about %v ms", most, want)
		}
		if m[1] == "ttft" && math.Abs(most-20) > 0.02 {
			t.Errorf("largest ttft %v, want about 20 ms", most)
		}
	}
	if want := []string{"ttft", "ttft_token", "itl", "tpot", "e2el", "lag", "rx_delay"}; !slices.Equal(tags, want) {
		t.Errorf("tags %v, want %v", tags, want)
	}
}

func TestHDRLogOfAnEmptyRun(t *testing.T) {
	for name, log := range map[string]string{
		"no records": hdrLog(t, nil, metrics.Options{OpenLoop: true}, began, 0),
		"no clock":   hdrLog(t, []metrics.Record{{}}, metrics.Options{}, time.Time{}, -time.Second),
	} {
		if n := strings.Count(log, "\n"); n != 3 {
			t.Errorf("%s: %d lines", name, n)
		}
		if all := readHDR(t, log); len(all) != 0 {
			t.Errorf("%s: %v", name, all)
		}
	}
	// What has samples but no date is readable too: the format knows no sign.
	if all := readHDR(t, hdrLog(t, []metrics.Record{answer(0, 1, ms)}, metrics.Options{}, time.Time{}, -time.Second)); len(all) != 5 {
		t.Errorf("%d histograms", len(all))
	}
}

// Events of one read are 0 apart, and stay so.
func TestHDRKeepsZero(t *testing.T) {
	log := hdrLog(t, []metrics.Record{answer(0, 3, ms, ms, ms)}, metrics.Options{}, began, time.Second)
	if h := readHDR(t, log)["itl"]; h.Max() != 0 || h.TotalCount() != 2 {
		t.Errorf("largest %d of %d", h.Max(), h.TotalCount())
	}
}

// python is HdrHistogram's own reader in another language. It prints a line a
// metric: tag, count, p50, p99, largest.
const python = `
import sys
from hdrh.log import HistogramLogReader
from hdrh.histogram import HdrHistogram
reader = HistogramLogReader(sys.argv[1], HdrHistogram(1, 24 * 3600 * 10**9, 3))
while (h := reader.get_next_interval_histogram()):
    print(h.get_tag() if hasattr(h, "get_tag") else h.tag, h.get_total_count(), h.get_value_at_percentile(50), h.get_value_at_percentile(99), h.get_max_value())
`

// Set SERVEBENCH_HDR_PYTHON to a Python with the package hdrhistogram.
func TestHDRLogIsReadByPython(t *testing.T) {
	exe := os.Getenv("SERVEBENCH_HDR_PYTHON")
	if exe == "" {
		t.Skip("SERVEBENCH_HDR_PYTHON is not set")
	}
	log := hdrLog(t, readRecords(t, "testdata/mixed.requests.jsonl"), metrics.Options{OpenLoop: true}, began, time.Minute)
	path := t.TempDir() + "/run.hdr"
	if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(exe, "-c", python, path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := readHDR(t, log)
	for line := range strings.Lines(string(out)) {
		var tag string
		var n, p50, p99, most int64
		if _, err := fmt.Sscan(line, &tag, &n, &p50, &p99, &most); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		h := want[tag]
		delete(want, tag)
		if h == nil || n != h.TotalCount() || p50 != h.ValueAtQuantile(50) || p99 != h.ValueAtQuantile(99) || most != h.Max() {
			t.Errorf("Python reads %q", line)
		}
	}
	if len(want) != 0 {
		t.Errorf("Python did not read %d of the histograms:\n%s", len(want), out)
	}
}
