package metrics_test

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/servebench/servebench/metrics"
)

// The histograms of two runs, merged, are that of all their requests.
func TestMergedHistogramsAreThoseOfAllSamples(t *testing.T) {
	a, b := readRecords(t, "testdata/mixed.requests.jsonl"), readRecords(t, "testdata/equal.requests.jsonl")
	o := metrics.Options{OpenLoop: true}
	read := func(records []metrics.Record) []*metrics.HDR {
		t.Helper()
		all, err := metrics.ReadHDR(strings.NewReader(hdrLog(t, records, o, began, time.Minute)))
		if err != nil || len(all) == 0 {
			t.Fatal(all, err)
		}
		return all
	}
	merged, other, both := read(a), read(b), readHDR(t, hdrLog(t, slices.Concat(a, b), o, began, time.Minute))
	for _, h := range merged {
		if i := slices.IndexFunc(other, func(o *metrics.HDR) bool { return o.Tag == h.Tag }); i >= 0 {
			if err := h.Merge(other[i]); err != nil {
				t.Fatal(err)
			}
		}
		want := both[h.Tag]
		if h.Count() != want.TotalCount() || h.Mean() != want.Mean() || h.Digits() != 3 {
			t.Errorf("%s: %d with mean %v, want %d with %v", h.Tag, h.Count(), h.Mean(), want.TotalCount(), want.Mean())
		}
		percent := []float64{0, 50, 99.9, 100}
		at := h.Percentiles(percent...)
		for i, p := range percent {
			if got := at[i]; got != want.ValueAtQuantile(p) {
				t.Errorf("%s p%v: %d, want %d", h.Tag, p, got, want.ValueAtQuantile(p))
			}
		}
	}
	// What was merged is read again as it was written.
	var out bytes.Buffer
	if err := metrics.WriteHDRs(&out, merged); err != nil {
		t.Fatal(err)
	}
	again, err := metrics.ReadHDR(bytes.NewReader(out.Bytes()))
	if err != nil || len(again) != len(merged) {
		t.Fatal(len(again), err)
	}
	for i, h := range again {
		m := merged[i]
		if h.Tag != m.Tag || h.Count() != m.Count() || h.Percentile(99) != m.Percentile(99) || h.Start != m.Start || h.End != m.End {
			t.Errorf("%s was written as %s with %d of %d samples", m.Tag, h.Tag, h.Count(), m.Count())
		}
	}
}

// A log of the Java tools: no tags, a base time, several intervals, other ranges.
func TestLogsOfOthers(t *testing.T) {
	var lines []string
	for i := range 3 {
		h := hdrhistogram.New(1, 3_600_000_000, 2)
		for v := range int64(100) {
			if err := h.RecordValue((v + 1) * 1000 * int64(i+1)); err != nil {
				t.Fatal(err)
			}
		}
		lines = append(lines, fmt.Sprintf("%d.500,1.000,%d.0,%s", i, 100*(i+1), encode(t, h)))
	}
	log := "#[Logged with jHiccup]\n#[Histogram log format version 1.3]\n#[StartTime: 1441812279.474 (seconds since epoch), Wed Sep 09 08:24:39 PDT 2015]\n" +
		"#[BaseTime: 1441812279.000 (seconds since epoch)]\r\n\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\r\n" + strings.Join(lines, "\r\n")
	all, err := metrics.ReadHDR(strings.NewReader(log))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	h := all[0]
	if h.Tag != "" || h.Intervals != 3 || h.Count() != 300 || h.Digits() != 2 || h.Start != 1441812279.5 || h.End != 1441812282.5 {
		t.Errorf("%+v", h)
	}
	if p := h.Percentile(100); p < 300_000 || p > 303_000 {
		t.Errorf("largest %d", p)
	}
}

func encode(t testing.TB, h *hdrhistogram.Histogram) string {
	t.Helper()
	b, err := h.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// raw is a line with a header and counts of the caller's.
func raw(low, high uint64, digits, said uint32, counts []byte) string {
	be := binary.BigEndian
	head := be.AppendUint32(nil, 0x1c849303|0x10)
	head = be.AppendUint32(head, said)
	head = be.AppendUint32(head, 0)
	head = be.AppendUint32(head, digits)
	head = be.AppendUint64(head, low)
	head = be.AppendUint64(head, high)
	head = be.AppendUint64(head, math.Float64bits(1))
	var z bytes.Buffer
	w := zlib.NewWriter(&z)
	w.Write(append(head, counts...))
	w.Close()
	data := be.AppendUint32(be.AppendUint32(nil, 0x1c849304|0x10), uint32(z.Len()))
	return "Tag=x,0.0,1.0,2.0," + base64.StdEncoding.EncodeToString(append(data, z.Bytes()...))
}

// hostile are logs that no tool wrote, with what is said about them.
func hostile() map[string]string {
	const day = uint64(24 * time.Hour)
	most := append(bytes.Repeat([]byte{0xff}, 8), 0xfe) // the largest odd count of 9 bytes is negative; this one is not
	most[0] = 0xfe
	return map[string]string{
		raw(1, day, 3, 1<<20, make([]byte, 1<<20)):              "counts take",
		raw(1, day, 3, 1, nil):                                  "counts take",
		raw(1, 1<<62, 5, 0, nil):                                "counts; want",
		raw(1, day, 9, 0, nil):                                  "1 to 5 digits",
		raw(1, day, math.MaxUint32, 0, nil):                     "1 to 5 digits",
		raw(0, day, 3, 0, nil):                                  "want 1 or more",
		raw(1, 1<<63, 3, 0, nil):                                "want 1 or more",
		raw(day, day, 3, 0, nil):                                "want 1 or more",
		raw(1<<61, 1<<62, 3, 0, nil):                            "counts; want",
		raw(1, day, 3, 1, []byte{0x80}):                         "cut off",
		raw(1, day, 3, 5, []byte{0xff, 0xff, 0xff, 0xff, 0x01}): "counts beyond",
		raw(1, day, 3, 18, append(most, most...)):               "counts beyond",
		"Tag=x,0,1,2,HISTFAAA":                                  "version 2",
		"Tag=x,0,1,2,\x00":                                      "base64",
		"Tag=x,0,1,2," + base64.StdEncoding.EncodeToString(append([]byte{0x1c, 0x84, 0x93, 0x14, 0, 0, 0, 3}, "abc"...)): "zlib",
		"Tag=x,0,1,2," + base64.StdEncoding.EncodeToString([]byte{0x1c, 0x84, 0x93, 0x14, 0xff, 0xff, 0xff, 0xff}):       "says 4294967295",
		strings.Replace(raw(1, day, 3, 1, []byte{2}), "0.0,1.0,", "9007199254740991,1.0,", 1):                            "seconds after 1970",
		"Tag=x":              "no interval",
		"Tag=,0,1,2,HIST":    "no name",
		"Tag=a b,0,1,2,HIST": "no name",
		"Tag=" + strings.Repeat("x", 65) + ",0,1,2,H": "no name",
		"0,-1,2,HIST":                  "no time",
		"NaN,1,2,HIST":                 "no time",
		"#[BaseTime: 1e999 (seconds)]": "no time",
		"hello":                        "no interval",
		strings.Repeat("x", 1<<20+1):   "longer than",
	}
}

// Bombs and nonsense are refused with the line, and before memory is taken.
func TestHostileLogs(t *testing.T) {
	for log, want := range hostile() {
		name := log[:min(len(log), 60)]
		all, err := metrics.ReadHDR(strings.NewReader("# fine\n" + log + "\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%s: %v, %v; want an error with %q", name, all, err, want)
		}
	}
	var tags strings.Builder
	for i := range 65 {
		fmt.Fprintf(&tags, "Tag=t%d,0,1,2,%s\n", i, encode(t, hdrhistogram.New(1, 10, 1)))
	}
	if _, err := metrics.ReadHDR(strings.NewReader(tags.String())); err == nil || !strings.Contains(err.Error(), "line 65: more than 64 tags") {
		t.Error(err)
	}
	if all, err := metrics.ReadHDR(strings.NewReader("\n# nothing\n\n")); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
}

// Merge refuses what has no common buckets, and leaves its histogram alone.
func TestMergeRefuses(t *testing.T) {
	one := func(line string) *metrics.HDR {
		t.Helper()
		all, err := metrics.ReadHDR(strings.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	h := one(raw(1, 1000, 3, 1, []byte{6}))
	full := []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff} // MaxInt64
	for name, o := range map[string]*metrics.HDR{
		"different buckets":        one(raw(1, 2000, 3, 1, []byte{6})),
		"with 2;":                  one(raw(1, 1000, 2, 1, []byte{6})),
		"same metric":              one(strings.Replace(raw(1, 1000, 3, 1, []byte{6}), "Tag=x", "Tag=y", 1)),
		"more samples than can be": one(raw(1, 1000, 3, 9, full)),
	} {
		if err := h.Merge(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if h.Count() != 3 || h.Intervals != 1 {
		t.Errorf("%d samples after what was refused", h.Count())
	}
}

// FuzzReadHDR: any text is read within bounds or refused, and what was read can be
// written, read again and merged.
func FuzzReadHDR(f *testing.F) {
	for log := range hostile() {
		if len(log) < 1<<16 {
			f.Add(log)
		}
	}
	f.Add(hdrLog(f, []metrics.Record{answer(0, 3, ms, 2*ms, 5*ms)}, metrics.Options{}, began, time.Second))
	f.Add(raw(1, 1000, 3, 3, []byte{6, 3, 2}))
	f.Fuzz(func(t *testing.T, log string) {
		all, err := metrics.ReadHDR(strings.NewReader(log))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := metrics.WriteHDRs(&out, all); err != nil {
			t.Fatal(err)
		}
		again, err := metrics.ReadHDR(&out)
		if err != nil || len(again) != len(all) {
			t.Fatalf("%d of %d histograms are read again: %v", len(again), len(all), err)
		}
		for i, h := range all {
			if again[i].Count() != h.Count() || again[i].Percentile(50) != h.Percentile(50) || math.IsNaN(h.Mean()) {
				t.Errorf("%q: %d and %d samples", h.Tag, h.Count(), again[i].Count())
			}
		}
	})
}
