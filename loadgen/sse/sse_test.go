package sse_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/servebench/servebench/loadgen/sse"
)

type event struct{ Type, Data string }

// drain takes what the bytes fed so far complete.
func drain(d *sse.Decoder) (events []event) {
	for d.Next() {
		events = append(events, event{string(d.Type()), string(d.Data())})
	}
	return events
}

// decode feeds s cut at the given offsets. Each feed's memory is overwritten as
// soon as the decoder may no longer look at it.
func decode(d *sse.Decoder, s string, cuts ...int) (events []event) {
	prev := 0
	for _, cut := range append(cuts, len(s)) {
		p := []byte(s[prev:cut])
		d.Feed(p)
		events = append(events, drain(d)...)
		clear(p)
		prev = cut
	}
	return events
}

// everyByte are the cuts that make every feed one byte long.
func everyByte(s string) (cuts []int) {
	for i := 1; i < len(s); i++ {
		cuts = append(cuts, i)
	}
	return cuts
}

func TestStreamMeansWhatTheStandardSays(t *testing.T) {
	one := []event{{"", "x"}}
	tests := []struct {
		name, in string
		want     []event
		pending  bool
	}{
		{"nothing", "", nil, false},
		{"LF", "data: x\n\n", one, false},
		{"CR", "data: x\r\r", one, false},
		{"CRLF", "data: x\r\n\r\n", one, false},
		{"line ends mixed: LF then CR", "data: x\n\r", one, false},
		{"LF CR LF is two line ends, not three", "data: x\n\r\ndata: y\n\n", []event{{"", "x"}, {"", "y"}}, false},
		{"CRLF makes no empty event", "data: x\r\n\r\ndata: y\r\n\r\n", []event{{"", "x"}, {"", "y"}}, false},
		{"a CR alone ends the event, the next line may follow at once", "data: x\r\rdata: y\r\r", []event{{"", "x"}, {"", "y"}}, false},
		{"no space", "data:x\n\n", one, false},
		{"two spaces: one is stripped", "data:  x\n\n", []event{{"", " x"}}, false},
		{"a tab is no space", "data:\tx\n\n", []event{{"", "\tx"}}, false},
		{"trailing space stays", "data: [DONE] \n\n", []event{{"", "[DONE] "}}, false},
		{"field name alone", "data\n\n", []event{{"", ""}}, false},
		{"field name and colon", "data:\n\n", []event{{"", ""}}, false},
		{"field name, colon, space", "data: \n\n", []event{{"", ""}}, false},
		{"two empty lines of data are one LF", "data\ndata\n\n", []event{{"", "\n"}}, false},
		{"an empty first line of data counts", "data:\ndata: x\n\n", []event{{"", "\nx"}}, false},
		{"an empty last line of data counts", "data: x\ndata\n\n", []event{{"", "x\n"}}, false},
		{"three lines", "data: YHOO\ndata: +2\ndata: 10\n\n", []event{{"", "YHOO\n+2\n10"}}, false},
		{"the standard's example: the last block has no blank line", "data\n\ndata\ndata\n\ndata:", []event{{"", ""}, {"", "\n"}}, true},
		{"colon in the value", "data: a:b: c\n\n", []event{{"", "a:b: c"}}, false},
		{"byte order mark", "\xEF\xBB\xBFdata: x\n\n", one, false},
		{"byte order mark and a blank line", "\xEF\xBB\xBF\ndata: x\n\n", one, false},
		{"two byte order marks: the second is text", "\xEF\xBB\xBF\xEF\xBB\xBFdata: x\n\n", nil, false},
		{"byte order mark later is text", "\n\xEF\xBB\xBFdata: x\n\n", nil, false},
		{"half a byte order mark is text", "\xEF\xBBdata: x\n\n", nil, false},
		{"byte order mark in data stays", "data: \xEF\xBB\xBFx\n\n", []event{{"", "\xEF\xBB\xBFx"}}, false},
		{"comment alone is no event", ": keep-alive\n\n", nil, false},
		{"comment inside an event", "data: x\n: ping\ndata: y\n\n", []event{{"", "x\ny"}}, false},
		{"comment between events", "data: x\n\n:\n\ndata: y\n\n", []event{{"", "x"}, {"", "y"}}, false},
		{"comment that looks like data", ":data: x\n\n", nil, false},
		{"event type", "event: error\ndata: x\n\n", []event{{"error", "x"}}, false},
		{"event type after data", "data: x\nevent: error\n\n", []event{{"error", "x"}}, false},
		{"the last event type wins", "event: a\nevent: b\ndata: x\n\n", []event{{"b", "x"}}, false},
		{"an empty event type is none", "event: a\nevent\ndata: x\n\n", one, false},
		{"event type without data is dropped with its block", "event: a\n\ndata: x\n\n", one, false},
		{"event type does not last", "event: a\ndata: x\n\ndata: y\n\n", []event{{"a", "x"}, {"", "y"}}, false},
		{"id and retry", "id: 1\nretry: 3000\ndata: x\n\n", one, false},
		{"id with NUL", "id: 1\x002\ndata: x\n\n", one, false},
		{"id alone is no event", "id: 1\n\nretry: no number\n\n", nil, false},
		{"NUL in data stays", "data: a\x00b\n\n", []event{{"", "a\x00b"}}, false},
		{"unknown fields", "foo: bar\nfoo\ndata: x\n\n", one, false},
		{"names are case sensitive and exact", "Data: x\n data: x\ndata : x\ndatax: x\n\n", nil, false},
		{"not UTF-8 stays as it is", "data: \xff\xc3\n\n", []event{{"", "\xff\xc3"}}, false},
		{"blank lines before and between", "\n\r\n\rdata: x\n\n\n\n", one, false},
		{"raw LF inside JSON cuts the line, the rest is an unknown field", "data: {\"a\":\"b\nc\"}\n\n", []event{{"", `{"a":"b`}}, false},
		{"unfinished line", "data: x\n\ndata: y", one, true},
		{"unfinished event", "data: x\n\ndata: y\n", one, true},
		{"unfinished event with empty data", "data\n", nil, true},
		{"type only, unfinished", "event: x\n", nil, true},
		{"comment line over: nothing is lost", "data: x\n\n: bye\n", one, false},
		{"CRLF not over: the event is", "data: x\r\n\r", one, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cutsets := map[string][]int{"whole": nil, "bytes": everyByte(tt.in)}
			for i := range len(tt.in) {
				cutsets[fmt.Sprintf("cut at %d", i)] = []int{i}
			}
			for how, cuts := range cutsets {
				var d sse.Decoder
				if diff := cmp.Diff(tt.want, decode(&d, tt.in, cuts...)); diff != "" {
					t.Errorf("%s, events (-want +got):\n%s", how, diff)
				}
				if d.Pending() != tt.pending || d.Err() != nil {
					t.Errorf("%s: pending %v, error %v, want %v, nil", how, d.Pending(), d.Err(), tt.pending)
				}
			}
			if diff := cmp.Diff(tt.want, standard(tt.in)); diff != "" {
				t.Errorf("the reference of the fuzz test (-want +got):\n%s", diff)
			}
		})
	}
}

// body returns the body of a recorded answer of vLLM.
func body(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, s, ok := strings.Cut(string(b), "\r\n\r\n")
	if !ok {
		t.Fatalf("%s has no end of the HTTP header", path)
	}
	return s
}

func captures(t testing.TB) (bodies map[string]string) {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("captures: %v, %v", paths, err)
	}
	bodies = map[string]string{}
	for _, path := range paths {
		bodies[filepath.Base(path)] = body(t, path)
	}
	return bodies
}

// With any of the three line ends, cut at any byte or at every byte, a recorded
// stream gives the events of the whole.
func TestRecordedStreamsCutAnywhere(t *testing.T) {
	for name, s := range captures(t) {
		t.Run(name, func(t *testing.T) {
			want := standard(s)
			if n := strings.Count("\n"+s, "\ndata: "); len(want) != n || n < 5 {
				t.Fatalf("%d events, %d data lines", len(want), n)
			}
			for _, eol := range []string{"\n", "\r", "\r\n"} {
				s := strings.ReplaceAll(s, "\n", eol)
				if got := decode(new(sse.Decoder), s, everyByte(s)...); !slices.Equal(want, got) {
					t.Fatalf("line end %q, every byte (-want +got):\n%s", eol, cmp.Diff(want, got))
				}
				var d sse.Decoder
				b := []byte(s)
				for i := range len(b) + 1 {
					// Compared in place: some 100,000 streams are decoded here.
					n := 0
					for _, p := range [][]byte{b[:i], b[i:]} {
						for d.Feed(p); d.Next(); n++ {
							if n >= len(want) || string(d.Data()) != want[n].Data || string(d.Type()) != want[n].Type {
								t.Fatalf("line end %q, cut at %d, event %d: %q, %q", eol, i, n, d.Type(), d.Data())
							}
						}
					}
					if n != len(want) || d.Pending() {
						t.Fatalf("line end %q, cut at %d: %d events, pending %v, want %d", eol, i, n, d.Pending(), len(want))
					}
					d.Reset()
				}
			}
		})
	}
}

// An event's stamp is that of the read that completed it: the first byte of the
// blank line's end, CR too, though its LF is still to come.
func TestEventIsCompleteAtTheFirstByteOfItsBlankLine(t *testing.T) {
	for _, eol := range []string{"\n", "\r", "\r\n"} {
		s := "event: a" + eol + "data: x" + eol
		var d sse.Decoder
		d.Feed([]byte(s))
		if d.Next() {
			t.Fatalf("line end %q: an event before the blank line", eol)
		}
		d.Feed([]byte(eol[:1]))
		if !d.Next() || string(d.Data()) != "x" || string(d.Type()) != "a" {
			t.Fatalf("line end %q: no event %q, %q at the blank line", eol, d.Data(), d.Type())
		}
		d.Feed([]byte(eol[1:] + s + eol)) // though Next did not yet return false
		if got := drain(&d); len(got) != 1 {
			t.Fatalf("line end %q: then %v", eol, got)
		}
	}
}

func TestManyEventsInOneFeed(t *testing.T) {
	var d sse.Decoder
	got := decode(&d, strings.Repeat("data: x\n\n", 200))
	if want := slices.Repeat([]event{{"", "x"}}, 200); !slices.Equal(want, got) {
		t.Errorf("%d events, want 200", len(got))
	}
}

// A caller may feed ahead of Next; nothing is lost.
func TestFeedsQueue(t *testing.T) {
	s := body(t, "testdata/responses_stream.txt")
	want := standard(s)
	for size := 1; size < 700; size += 7 {
		var d sse.Decoder
		var got []event
		for i, part := range slices.Collect(slices.Chunk([]byte(s), size)) {
			d.Feed(part)
			if i%3 == 1 && d.Next() { // one event now and then, so that the queue grows
				got = append(got, event{string(d.Type()), string(d.Data())})
			}
		}
		if got = append(got, drain(&d)...); !slices.Equal(want, got) {
			t.Fatalf("feeds of %d bytes (-want +got):\n%s", size, cmp.Diff(want, got))
		}
	}
}

func TestNothingToSeeOutsideAnEvent(t *testing.T) {
	var d sse.Decoder
	if d.Data() != nil || d.Type() != nil || d.Pending() || d.Next() || d.Err() != nil {
		t.Error("the zero value holds something")
	}
	d.Feed([]byte("event: a\ndata: x\n\nevent: b\ndata: y\n"))
	if !d.Next() || d.Next() || d.Data() != nil || d.Type() != nil {
		t.Errorf("after the last event: %q, %q", d.Type(), d.Data())
	}
}

func TestLimit(t *testing.T) {
	const limit = 16
	ok, long := "data: "+strings.Repeat("x", limit-6), "data: "+strings.Repeat("x", limit-5)
	tests := []struct {
		name, in string
		events   int
		err      error
	}{
		{"a line of just the limit", ok + "\n\n" + ok + "\n\n", 2, nil},
		{"a line over it, after an event", ok + "\n\n" + long + "\n\n" + ok + "\n\n", 1, sse.ErrTooLong},
		{"a line over it, not over", long, 0, sse.ErrTooLong},
		{"two lines that make it up", "data: 01\ndata: 23\n\n", 1, nil},
		{"two lines over it", "data: 01\ndata: 234\n\n", 0, sse.ErrTooLong},
		{"type and data over it", "event: 01\ndata: 23\n\n", 0, sse.ErrTooLong},
		{"comments do not add up", strings.Repeat(": 89abcdef\n", 10) + "data: x\n\n", 1, nil},
		{"unknown fields do not add up", strings.Repeat("id: 1\nfoo\n", 10) + "data: x\n\n", 1, nil},
		{"a comment line has the same limit", ":" + strings.Repeat("x", limit), 0, sse.ErrTooLong},
		{"the byte order mark counts", "\xEF\xBB\xBF" + ok + "\n\n", 0, sse.ErrTooLong},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, cuts := range [][]int{nil, everyByte(tt.in)} {
				d := sse.Decoder{MaxEvent: limit}
				if got := decode(&d, tt.in, cuts...); len(got) != tt.events || !errors.Is(d.Err(), tt.err) {
					t.Errorf("%d cuts: %d events, error %v, want %d, %v", len(cuts), len(got), d.Err(), tt.events, tt.err)
				}
				if d.Err() == nil {
					continue
				}
				if got := decode(&d, "\n\ndata: x\n\n"); got != nil || d.Err() == nil || d.Pending() {
					t.Errorf("after the error: %v, %v, pending %v", got, d.Err(), d.Pending())
				}
				if want := "sse: event too long: over 16 bytes"; d.Err().Error() != want {
					t.Errorf("error %q, want %q", d.Err(), want)
				}
			}
		})
	}
}

func TestReset(t *testing.T) {
	d := sse.Decoder{MaxEvent: 8}
	for _, s := range []string{"data: xxxxxxxx", "data: 1\r\n\r", "event: a", "data: x\n", "\xEF"} {
		decode(&d, s)
		d.Reset()
		if d.Pending() || d.Err() != nil || d.MaxEvent != 8 {
			t.Errorf("after %q: pending %v, error %v, limit %d", s, d.Pending(), d.Err(), d.MaxEvent)
		}
		// A leading LF is swallowed if the CR before the Reset is remembered,
		// a byte order mark only skipped if the Reset began a new stream.
		if got := decode(&d, "\xEF\xBB\xBF\ndata\n\n"); !slices.Equal(got, []event{{"", ""}}) {
			t.Errorf("after %q: %v", s, got)
		}
		d.Reset()
	}
}

// Quadratic time needs no clock to be seen: it would be 10^12 steps and
// more.
func TestLinearTime(t *testing.T) {
	big := strings.Repeat("x", 10<<20)
	feed := func(name, s string, size, want int) {
		t.Run(name, func(t *testing.T) {
			var d sse.Decoder
			n := 0
			for part := range slices.Chunk([]byte(s), size) {
				for d.Feed(part); d.Next(); n++ {
				}
			}
			if n != want || d.Err() != nil {
				t.Errorf("%d events, error %v, want %d", n, d.Err(), want)
			}
		})
	}
	feed("10 MB event in one feed", "data: "+big+"\n\n", 11<<20, 1)
	feed("2 MB event in 1-byte feeds", "data: "+big[:2<<20]+"\n\n", 1, 1)
	feed("2 MB comment in 1-byte feeds", ":"+big[:2<<20]+"\n\n", 1, 0)
	feed("CR only, one feed", strings.Repeat("data\r\r", 1<<19), 8<<20, 1<<19)
	feed("LF only, one feed", strings.Repeat("data\n\n", 1<<19), 8<<20, 1<<19)
	feed("1 M data lines in one event", strings.Repeat("data\n", 1<<20)+"\n", 1000, 1)
	t.Run("1-byte feeds queued before the first Next", func(t *testing.T) {
		var d sse.Decoder
		for _, c := range []byte("data: " + big[:2<<20] + "\n\n") {
			d.Feed([]byte{c})
		}
		if got := drain(&d); len(got) != 1 {
			t.Errorf("%d events", len(got))
		}
	})
}

func TestNoAllocationInTheSteadyState(t *testing.T) {
	s := []byte(strings.Repeat("event: a\ndata: "+strings.Repeat("x", 240)+"\ndata: y\n\n"+"data: z\r\n\r\n", 8))
	for _, size := range []int{1, 7, 100, len(s)} {
		var d sse.Decoder
		got := testing.AllocsPerRun(20, func() {
			for p := s; len(p) > 0; p = p[min(size, len(p)):] {
				for d.Feed(p[:min(size, len(p))]); d.Next(); {
				}
			}
		})
		if got != 0 {
			t.Errorf("feeds of %d bytes: %v allocations", size, got)
		}
	}
}

// standard is the standard's section 9.2.6 word by word, over a whole stream:
// lines first, then fields, then dispatch. It shares no idea with the Decoder.
func standard(stream string) (events []event) {
	stream = strings.TrimPrefix(stream, "\xEF\xBB\xBF")
	stream = strings.ReplaceAll(stream, "\r\n", "\n")
	stream = strings.ReplaceAll(stream, "\r", "\n")
	lines := strings.Split(stream, "\n")
	lines = lines[:len(lines)-1] // what no line end follows is no line
	var data, eventType string
	for _, line := range lines {
		if line == "" {
			// "If the data buffer is an empty string, set the data buffer and
			// the event type buffer to the empty string and return."
			if data != "" {
				events = append(events, event{eventType, strings.TrimSuffix(data, "\n")})
			}
			data, eventType = "", ""
			continue
		}
		if strings.HasPrefix(line, ":") {
			continue
		}
		field, value := line, ""
		if i := strings.Index(line, ":"); i >= 0 {
			field, value = line[:i], strings.TrimPrefix(line[i+1:], " ")
		}
		switch field {
		case "event":
			eventType = value
		case "data":
			data += value + "\n"
		}
	}
	return events
}

// randomCuts cuts n bytes into feeds of 1 to 2*mean-1 bytes, now and then of
// none.
func randomCuts(n int, seed uint64, mean int) (cuts []int) {
	r := rand.New(rand.NewPCG(seed, 0))
	for i := 0; i < n; i += 1 + r.IntN(2*mean-1) {
		cuts = append(cuts, i)
		if r.IntN(8) == 0 {
			cuts = append(cuts, i)
		}
	}
	return cuts
}

func FuzzDecoder(f *testing.F) {
	for _, s := range captures(f) {
		// Short, because the engine spends its time on making long inputs
		// shorter: 11 executions in 45 s with whole streams.
		f.Add([]byte(s[:min(600, len(s))]), uint64(1), uint8(40))
	}
	f.Add([]byte("\xEF\xBB\xBFdata: x\r\n\r\nevent: a\rdata\r\r: c\nid: \x00\ndata:y\ndata:  z\n\n"), uint64(2), uint8(0))
	f.Fuzz(func(t *testing.T, stream []byte, seed uint64, mean uint8) {
		s := string(stream)
		cuts := randomCuts(len(s), seed, 1+int(mean))
		var whole, parts sse.Decoder
		want := standard(s)
		if got := decode(&whole, s); !slices.Equal(want, got) {
			t.Errorf("whole (-want +got):\n%s", cmp.Diff(want, got))
		}
		if got := decode(&parts, s, cuts...); !slices.Equal(want, got) {
			t.Errorf("cuts %v (-want +got):\n%s", cuts, cmp.Diff(want, got))
		}
		if whole.Pending() != parts.Pending() {
			t.Errorf("cuts %v: pending %v, whole %v", cuts, parts.Pending(), whole.Pending())
		}
		// The limit too does not depend on the cuts.
		whole, parts = sse.Decoder{MaxEvent: 12}, sse.Decoder{MaxEvent: 12}
		want, got := decode(&whole, s), decode(&parts, s, cuts...)
		if !slices.Equal(want, got) || fmt.Sprint(whole.Err()) != fmt.Sprint(parts.Err()) {
			t.Errorf("limit 12, cuts %v: %v, want %v (-want +got):\n%s", cuts, parts.Err(), whole.Err(), cmp.Diff(want, got))
		}
	})
}

// BenchmarkDecoder decodes recorded vLLM completions events. read=1: each event
// comes in a read of its own; read=16: 16 at once; cut: every read ends amid
// an event.
func BenchmarkDecoder(b *testing.B) {
	first, _, _ := strings.Cut(body(b, "testdata/comp_stream_usage.txt"), "\n\n")
	ev := first + "\n\n"
	for _, bb := range []struct {
		name, in string
		events   int
	}{
		{"read=1", ev, 1},
		{"read=16", strings.Repeat(ev, 16), 16},
		{"read=1/cut", ev[100:] + ev[:100], 1},
		{"read=1/crlf", strings.ReplaceAll(ev, "\n", "\r\n"), 1},
	} {
		b.Run(fmt.Sprintf("%s/bytes=%d", bb.name, len(ev)), func(b *testing.B) {
			var d sse.Decoder
			in, n := []byte(bb.in), 0
			b.ReportAllocs()
			for b.Loop() {
				for d.Feed(in); d.Next(); n++ {
					if len(d.Data()) == 0 {
						b.Fatal("no data")
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*bb.events), "ns/event")
			b.SetBytes(int64(len(bb.in)))
		})
	}
	// What no splitter can go below: looking once for LF and once for CR.
	b.Run(fmt.Sprintf("floor/bytes=%d", len(ev)), func(b *testing.B) {
		in := []byte(ev)
		for b.Loop() {
			if bytes.IndexByte(in, '\n') < 0 || bytes.IndexByte(in, '\r') >= 0 {
				b.Fatal("no event")
			}
		}
	})
}

func ExampleDecoder() {
	reads := []string{": keep-alive\n\ndata: {\"text\":\"He\"}\n", "\ndata: {\"text\":\"llo\"}\n\ndata: [DONE]\n\n"}
	var d sse.Decoder
	for i, p := range reads {
		for d.Feed([]byte(p)); d.Next(); {
			if bytes.Equal(d.Data(), []byte("[DONE]")) {
				fmt.Println("end of the stream")
				break
			}
			fmt.Printf("read %d: %s\n", i, d.Data())
		}
	}
	if err := d.Err(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// read 1: {"text":"He"}
	// read 1: {"text":"llo"}
	// end of the stream
}
