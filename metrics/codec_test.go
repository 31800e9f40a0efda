package metrics_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/servebench/servebench/metrics"
)

// full has a value in every field but the text.
var full = metrics.Record{
	Seq: 3, ID: "bench-3", Replica: 1, Due: 10, Slot: 20, Sent: 30, Headers: 40, Done: 90, Connect: 7,
	Arrivals: []time.Duration{50, 60, 60}, RxDelay: []time.Duration{1, 0, 2}, Tokens: []int{0, 2, 1}, NotBearing: []int{0},
	PromptTokens: 11, OutputTokens: 3, CachedTokens: 8, TokenSource: metrics.FromUsage,
	Status: 200, Outcome: metrics.OK, Error: `a "quoted" <é> word`, Reused: true,
	NoDone: true, NotStreamed: true, UsageMismatch: true, BadUsage: 1, Redialed: 2, Clamped: 3, Discarded: 4, NoStamp: 5,
	Trailing: 6, Undrained: true, Reasoned: true, Visible: 2, ReasoningTokens: 2, BadTiming: 7,
	ServerTiming: &metrics.ServerTiming{Queue: new(time.Duration), TTFT: ptr(time.Duration(12)), Generation: ptr(time.Duration(13)), ITL: ptr(time.Duration(6)), Rate: ptr(1.5)},
}

func ptr[T any](v T) *T { return &v }

func write(t testing.TB, records ...metrics.Record) string {
	t.Helper()
	var b strings.Builder
	if err := metrics.WriteRecords(&b, records); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func read(text string) (records []metrics.Record, err error) {
	for r, err := range metrics.ReadRecords(strings.NewReader(text)) {
		if err != nil {
			return records, err
		}
		records = append(records, *r)
	}
	return records, nil
}

func TestEveryFieldGoesThroughTheFile(t *testing.T) {
	v := reflect.ValueOf(full)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() != (name == "Text" || name == "Truth") {
			t.Errorf("full has %s = %v", name, v.Field(i))
		}
	}
	var records []metrics.Record
	for i := range v.NumField() {
		// One field at zero, the others as they are; then that field alone.
		r := full
		reflect.ValueOf(&r).Elem().Field(i).SetZero()
		records = append(records, r)
	}
	for _, r := range append(records, full, metrics.Record{Outcome: metrics.Connect, Sent: 1, Done: 2}, metrics.Record{}) {
		got, err := read(write(t, r))
		if _, refused := err.(interface{ Unwrap() error }); refused && inconsistent(r) {
			continue
		}
		want := r
		if want.Status == 0 {
			want.Headers = 0 // no response, no headers
		}
		if want.TokenSource == "" {
			want.OutputTokens = 0 // nothing was counted
		}
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], want) {
			t.Errorf("wrote %+v, read %+v, %v", want, got, err)
		}
	}
}

// inconsistent tells the records that no run makes.
func inconsistent(r metrics.Record) bool {
	return len(r.RxDelay) != len(r.Arrivals) || len(r.NotBearing) > 0 && len(r.Arrivals) == 0 || r.Sent == 0 || r.Slot == 0 || r.Headers == 0 || r.Done == 0 || r.Outcome == "" || r.Visible > 0 && !r.Reasoned
}

// The names are those of docs/measurement.md; what did not happen is absent.
func TestLinesOfTheFile(t *testing.T) {
	for _, c := range []struct {
		name string
		r    metrics.Record
		want string
	}{
		{"all fields", full, `{"seq":3,"id":"bench-3","replica":1,"due_ns":10,"slot_ns":20,"sent_ns":30,"headers_ns":40,"first_ns":50,"done_ns":90,"arrivals_ns":[50,60,60],"rx_delay_ns":[1,0,2],"tokens":[0,2,1],"not_bearing":[0],"reasoned":true,"first_visible":2,"reasoning_tokens":2,"prompt_tokens":11,"output_tokens":3,"cached_tokens":8,"token_source":"usage","server_timing":{"queue_ns":0,"ttft_ns":12,"generation_ns":13,"mean_itl_ns":6,"tokens_per_second":1.5},"status":200,"outcome":"ok","error":"a \"quoted\" \u003cé\u003e word","reused":true,"connect_ns":7,"no_done":true,"not_streamed":true,"usage_mismatch":true,"bad_usage":1,"bad_timing":7,"redialed":2,"clamped":3,"discarded":4,"no_stamp":5,"trailing_bytes":6,"undrained":true}`},
		{"no tokens is not no count", metrics.Record{Sent: 1, Done: 2, Outcome: metrics.OK, TokenSource: metrics.FromUsage, Status: 200}, `{"seq":0,"due_ns":0,"slot_ns":0,"sent_ns":1,"headers_ns":0,"done_ns":2,"arrivals_ns":[],"rx_delay_ns":[],"output_tokens":0,"token_source":"usage","status":200,"outcome":"ok","reused":false}`},
		{"no connection", metrics.Record{Sent: 1, Done: 2, Outcome: metrics.Connect, Error: "refused"}, `{"seq":0,"due_ns":0,"slot_ns":0,"sent_ns":1,"done_ns":2,"arrivals_ns":[],"rx_delay_ns":[],"outcome":"connect","error":"refused","reused":false}`},
	} {
		if got := write(t, c.r); got != c.want+"\n" {
			t.Errorf("%s:\n got %s want %s", c.name, got, c.want)
		}
	}
}

func TestNoTextIsWritten(t *testing.T) {
	r := full
	r.Text = "SECRET answer"
	value, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	pointer, err := json.Marshal(map[string]any{"record": &r})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{write(t, r), string(value), string(pointer)} {
		if strings.Contains(line, "SECRET") || !strings.Contains(line, "due_ns") {
			t.Errorf("the text is in %s", line)
		}
	}
	// No key is there that could hold one.
	var keys map[string]any
	if err := json.Unmarshal([]byte(write(t, full)), &keys); err != nil {
		t.Fatal(err)
	}
	for k, v := range keys {
		if _, text := v.(string); text && k != "id" && k != "token_source" && k != "outcome" && k != "error" {
			t.Errorf("%s holds text", k)
		}
	}
}

func TestBadLinesAreNamed(t *testing.T) {
	good := `{"seq":0,"due_ns":0,"slot_ns":0,"sent_ns":1,"done_ns":9,"arrivals_ns":[5],"rx_delay_ns":[0],"outcome":"ok","status":200,"headers_ns":4}`
	with := func(old, repl string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%s is not in the line", old)
		}
		return strings.Replace(good, old, repl, 1)
	}
	if got, err := read(good + "\n\n  \n" + good); err != nil || len(got) != 2 {
		t.Fatalf("%d records, %v", len(got), err)
	}
	for _, c := range []struct{ name, line, want string }{
		{"cut off", good[:40], "line 3: unexpected end of JSON"},
		{"not JSON", "seq=1", "line 3: not a JSON object"},
		{"no object", "null", "line 3: not a JSON object"},
		{"an array", "[" + good + "]", "line 3: not a JSON object"},
		{"two records in a line", good + good, "line 3: invalid character '{' after top-level value"},
		{"text for a number", with(`"sent_ns":1`, `"sent_ns":"1"`), "line 3: json: cannot unmarshal string"},
		{"half a nanosecond", with(`"sent_ns":1`, `"sent_ns":1.5`), "line 3: json: cannot unmarshal number 1.5"},
		{"more than 64 bits", with(`"done_ns":9`, `"done_ns":9223372036854775808`), "line 3: json: cannot unmarshal number"},
		{"no delay for an arrival", with(`"rx_delay_ns":[0]`, `"rx_delay_ns":[]`), "line 3: request 0: arrivals_ns, rx_delay_ns and tokens have 1, 0 and 0 entries"},
		{"two counts for one", with(`"outcome"`, `"tokens":[1,2],"outcome"`), "have 1, 1 and 2 entries"},
		{"beyond the end", with(`"outcome"`, `"not_bearing":[1],"outcome"`), "not_bearing"},
		{"before the start", with(`"outcome"`, `"not_bearing":[-1],"outcome"`), "not_bearing"},
		{"twice the same", with(`"arrivals_ns":[5],"rx_delay_ns":[0]`, `"arrivals_ns":[5,6],"rx_delay_ns":[0,0],"not_bearing":[1,1]`), "not_bearing"},
		{"arrivals fall", with(`"arrivals_ns":[5],"rx_delay_ns":[0]`, `"arrivals_ns":[5,4],"rx_delay_ns":[0,0]`), "arrivals_ns is 4, before arrivals_ns at 5"},
		{"first before sent", with(`"sent_ns":1`, `"sent_ns":6`), "headers_ns is 4, before sent_ns at 6"},
		{"sent before due", with(`"due_ns":0,"slot_ns":0`, `"due_ns":2,"slot_ns":2`), "sent_ns is 1, before slot_ns at 2"},
		{"headers after the first", with(`"headers_ns":4`, `"headers_ns":6`), "arrivals_ns is 5, before headers_ns at 6"},
		{"done before the last", with(`"done_ns":9`, `"done_ns":4`), "done_ns is 4, before arrivals_ns at 5"},
		{"before schedule zero", with(`"due_ns":0`, `"due_ns":-1`), "due_ns is -1, before schedule zero at 0"},
		{"300 years", with(`"done_ns":9`, `"done_ns":9223372036854775807`), "done_ns is 9223372036854775807, not a time of a run"},
		{"another first", with(`"outcome"`, `"first_ns":4,"outcome"`), "first_ns is not"},
		{"headers of nothing", with(`"status":200,`, ``), "one of headers_ns and status"},
		{"a status from nowhere", with(`,"headers_ns":4`, ``), "one of headers_ns and status"},
		{"a count by nobody", with(`"outcome"`, `"output_tokens":3,"outcome"`), "output_tokens without a token_source"},
		{"less than no token", with(`"outcome"`, `"prompt_tokens":-3,"outcome"`), "prompt_tokens is -3"},
		{"a negative delay", with(`"rx_delay_ns":[0]`, `"rx_delay_ns":[-9]`), "rx_delay_ns is -9"},
		{"2^53 tokens", with(`"outcome"`, `"tokens":[9007199254740992],"outcome"`), "tokens is 9007199254740992"},
		{"visible without reasoning", with(`"outcome"`, `"first_visible":1,"outcome"`), "first_visible"},
		{"visible behind the end", with(`"outcome"`, `"reasoned":true,"first_visible":1,"outcome"`), "first_visible"},
		{"less than no reasoning", with(`"outcome"`, `"reasoning_tokens":-1,"outcome"`), "reasoning_tokens is -1"},
		{"a server faster than light", with(`"outcome"`, `"server_timing":{"queue_ns":-1},"outcome"`), "server_timing.queue_ns is -1"},
		{"a server slower than a run", with(`"outcome"`, `"server_timing":{"ttft_ns":9007199254740992},"outcome"`), "server_timing.ttft_ns is 9007199254740992"},
		{"a rate below none", with(`"outcome"`, `"server_timing":{"tokens_per_second":-1},"outcome"`), "server_timing.tokens_per_second is -1"},
		{"a server's fraction", with(`"outcome"`, `"server_timing":{"mean_itl_ns":0.5},"outcome"`), "cannot unmarshal number 0.5"},
		{"dropped, but sent", with(`"outcome":"ok"`, `"outcome":"dropped"`), "times of a request that was not sent"},
	} {
		got, err := read(good + "\n" + good + "\n" + c.line + "\n" + good + "\n")
		if err == nil || !strings.HasPrefix(err.Error(), "line 3: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if len(got) != 2 {
			t.Errorf("%s: %d records before the error", c.name, len(got))
		}
	}
}

// A later version may write more.
func TestUnknownKeysAreIgnored(t *testing.T) {
	got, err := read(`{"seq":1,"sent_ns":1,"done_ns":2,"outcome":"ok","new":{"a":[1]},"arrivals_ns":null}`)
	if err != nil || len(got) != 1 || got[0].Seq != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// A megabyte of arrivals is a line; so is what has no end, up to a limit.
func TestLongLines(t *testing.T) {
	r := answer(0, 200_000, every(200_000, 5*ms)...)
	got, err := read(write(t, r))
	if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0].Arrivals, r.Arrivals) {
		t.Errorf("%d records, %v", len(got), err)
	}
	if testing.Short() {
		t.Skip("the rest reads 256 MB")
	}
	n := 0
	endless := reader(func(p []byte) (int, error) { n += len(p); return len(p), nil })
	for _, err := range metrics.ReadRecords(endless) {
		if err == nil || !strings.Contains(err.Error(), "line 1: ") || n > 600<<20 {
			t.Errorf("after %d bytes: %v", n, err)
		}
	}
}

type reader func(p []byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

func TestFilesThatBreak(t *testing.T) {
	broken := errors.New("disk on fire")
	line := write(t, full)
	given := false
	var got []error
	for _, err := range metrics.ReadRecords(reader(func(p []byte) (int, error) {
		if given {
			return 0, broken
		}
		given = true
		return copy(p, line), nil
	})) {
		got = append(got, err)
	}
	if len(got) != 2 || got[0] != nil || !errors.Is(got[1], broken) || !strings.HasPrefix(got[1].Error(), "line 2: ") {
		t.Errorf("%v", got)
	}
	if err := metrics.WriteRecords(writer(func([]byte) (int, error) { return 0, broken }), []metrics.Record{full}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	for range metrics.ReadRecords(strings.NewReader(line + line)) {
		break // ends without a panic
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// What is read can be written and read again, and makes numbers that JSON can
// hold.
func FuzzReadRecords(f *testing.F) {
	for _, run := range []string{"mixed", "chat", "failed"} {
		for _, r := range readRecords(f, "testdata/"+run+".requests.jsonl")[:4] {
			f.Add([]byte(write(f, r)))
		}
	}
	f.Add([]byte(write(f, full, metrics.Record{}, metrics.Record{Outcome: metrics.Dropped, Due: 4, Slot: 4})))
	f.Add([]byte(`{"seq":1,"sent_ns":1,"done_ns":9007199254740991,"arrivals_ns":[2,9007199254740990],"rx_delay_ns":[0,9007199254740991],"tokens":[1,9007199254740991],"output_tokens":9007199254740991,"token_source":"?","outcome":"ok"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		records, _ := read(string(data))
		again, err := read(write(t, records...))
		if err != nil || !reflect.DeepEqual(again, records) {
			t.Errorf("read %+v,\nthen %+v, %v", records, again, err)
		}
		for _, open := range []bool{false, true} {
			o := metrics.Options{OpenLoop: open, RawGaps: 100, Goodput: map[string]float64{"tpot": 1}}
			s := metrics.Summarize(records, o)
			finite(t, s)
			if told := metrics.CompareServer(records, nil); told.Told+told.Untold != s.Completed {
				t.Errorf("%d and %d of %d", told.Told, told.Untold, s.Completed)
			}
			if s.Completed+s.Failed > len(records) {
				t.Errorf("%d and %d of %d", s.Completed, s.Failed, len(records))
			}
			if err := metrics.WriteHDR(&bytes.Buffer{}, records, o, time.Time{}, s.Last); err != nil {
				t.Error(err)
			}
		}
	})
}
