package openai

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/metrics"
)

// timing writes what was read of an object for a table: the JSON of the record file.
func timing(t testing.TB, told *metrics.ServerTiming) string {
	t.Helper()
	b, err := json.Marshal(told)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestVLLMTiming(t *testing.T) {
	for _, c := range []struct {
		reading, object, want string
		bad                   int
	}{
		// Of testdata/vllm/generation/interval4_stream.txt.
		{"as recorded", `{"time_to_first_token_ms":6.111879999934899,"generation_time_ms":60.58854399998381,"queue_time_ms":0.027070999749412294,"mean_itl_ms":3.5640319999990475,"tokens_per_second":269.86335199341363}`,
			`{"queue_ns":27071,"ttft_ns":6111880,"generation_ns":60588544,"mean_itl_ns":3564032,"tokens_per_second":269.86335199341363}`, 0},
		{"one token has no gap", `{"queue_time_ms":0,"time_to_first_token_ms":5,"generation_time_ms":0.0,"mean_itl_ms":null}`, `{"queue_ns":0,"ttft_ns":5000000,"generation_ns":0}`, 0},
		{"drafts alone", `{"speculative_decoding":{"num_spec_steps":13}}`, `null`, 0},
		{"nothing", `{}`, `null`, 0},
		{"nulls", `{"queue_time_ms":null,"mean_itl_ms":null}`, `null`, 0},
		{"negative", `{"queue_time_ms":-0.001,"time_to_first_token_ms":1}`, `{"ttft_ns":1000000}`, 1},
		{"minus zero", `{"queue_time_ms":-0.0}`, `{"queue_ns":0}`, 0},
		{"2^53 ns and beyond", `{"queue_time_ms":9007199254.740992,"time_to_first_token_ms":1e999,"generation_time_ms":9007199254.740990,"tokens_per_second":1e300}`, `{"generation_ns":9007199254740990}`, 3},
		{"no numbers", `{"queue_time_ms":"5","time_to_first_token_ms":[1],"generation_time_ms":true,"mean_itl_ms":{},"tokens_per_second":"NaN"}`, `null`, 5},
		{"twice: the last", `{"queue_time_ms":1,"queue_time_ms":2}`, `{"queue_ns":2000000}`, 0},
		{"no object", `[{"queue_time_ms":1}]`, `null`, 1},
		{"a number", `7`, `null`, 1},
	} {
		told, bad := vllmTiming(gjson.Parse(c.object))
		if got := timing(t, told); got != c.want || bad != c.bad {
			t.Errorf("%s: %s and %d bad, want %s and %d", c.reading, got, bad, c.want, c.bad)
		}
	}
}

// The figures come with the usage, in a body of one piece, or in a response object,
// and from nowhere else; without the flag nothing is read.
func TestServerTiming(t *testing.T) {
	const object = `{"time_to_first_token_ms":2,"queue_time_ms":1}`
	const want = `{"queue_ns":1000000,"ttft_ns":2000000}`
	usage := func(metrics string) string {
		return event1(`{"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":1},"metrics":` + metrics + `}`)
	}
	plain := func(body string) string {
		return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + body
	}
	named := func(name, data string) string { return "event: " + name + "\n" + event1(data) }
	reply := `{"output":[{"content":[{"type":"output_text","text":"a"}]}],"status":"completed","usage":{"input_tokens":1,"output_tokens":1},"metrics":` + object + `}`
	for _, c := range []struct {
		reading, response, want string
		bad                     int
		api                     API
	}{
		{"with the usage", stream(last("a"), usage(object), doneEvent), want, 0, Completions},
		{"the last of two", stream(last("a"), usage(`{"queue_time_ms":9}`), usage(object), doneEvent), want, 0, Completions},
		{"null", stream(last("a"), usage(`null`), doneEvent), `null`, 0, Completions},
		{"none", stream(last("a"), doneEvent), `null`, 0, Completions},
		{"with the finish reason", stream(event1(`{"choices":[{"text":"a","finish_reason":"stop"}],"metrics":`+object+`}`), doneEvent), want, 0, Completions},
		{"text", stream(last("a"), usage(`"slow"`), doneEvent), `null`, 1, Completions},
		{"bad once", stream(last("a"), usage(`{"queue_time_ms":-1,"time_to_first_token_ms":2}`), doneEvent), `{"ttft_ns":2000000}`, 1, Completions},
		{"a list around it", stream(last("a"), event1(`[{"metrics":`+object+`}]`), doneEvent), `null`, 0, Completions},
		{"chat", stream(delta(`"content":"x"`), event1(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`), usage(object), doneEvent), want, 0, Chat},
		{"one body", plain(`{"choices":[{"text":"a","finish_reason":"stop"}],"metrics":` + object + `}`), want, 0, Completions},
		{"one body without", plain(`{"choices":[{"text":"a","finish_reason":"stop"}],"metrics":null}`), `null`, 0, Completions},
		{"response", stream(named("response.output_text.delta", `{"delta":"a"}`), named("response.completed", `{"response":`+reply+`}`)), want, 0, Responses},
		{"response in one body", plain(reply), want, 0, Responses},
		{"beside a response", stream(named("response.completed", `{"response":`+strings.Replace(reply, "metrics", "other", 1)+`,"metrics":`+object+`}`)), `null`, 0, Responses},
	} {
		for _, on := range []bool{true, false} {
			bubble(t, Config{Endpoint: c.api.Path(), ServerTiming: on}, answer(c.response), func(t *testing.T, client *Client) {
				rec := do(t.Context(), client)
				want, bad := c.want, c.bad
				if !on {
					want, bad = "null", 0
				}
				if got := timing(t, rec.ServerTiming); rec.Outcome != metrics.OK || got != want || rec.BadTiming != bad {
					t.Errorf("%s, on %v: %s %q: %s and %d bad, want %s and %d", c.reading, on, rec.Outcome, rec.Error, got, rec.BadTiming, want, bad)
				}
			})
		}
	}
}

// A stream that a real vLLM sent with --enable-per-request-metrics.
func TestServerTimingOfARecordedStream(t *testing.T) {
	raw, err := os.ReadFile("../../testdata/vllm/generation/interval4_stream.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(raw), "\r\n\r\n") // kept without its chunks' lengths
	bubble(t, Config{ServerTiming: true}, answer(stream(body)), func(t *testing.T, c *Client) {
		rec := do(t.Context(), c)
		if s := rec.ServerTiming; rec.Outcome != metrics.OK || s == nil || s.TTFT == nil || *s.TTFT != 6111880*time.Nanosecond {
			t.Errorf("%s %q: %+v", rec.Outcome, rec.Error, s)
		}
	})
}

// Whatever a server tells, what is kept is fit for a record file.
func FuzzServerTiming(f *testing.F) {
	for _, s := range []string{`{"metrics":{"queue_time_ms":1.5,"tokens_per_second":3}}`, `{"response":{"metrics":{"mean_itl_ms":-1}}}`, `{"metrics":[]}`,
		`{"metrics":{"generation_time_ms":1e400}}`, `{"metr\u0069cs":{"queue_time_ms":1}}`, `null`, `{"metrics":{"queue_time_ms":9007199254.7409915}}`} {
		f.Add([]byte(s), s[2] == 'r')
	}
	f.Fuzz(func(t *testing.T, data []byte, responses bool) {
		if !json.Valid(data) {
			return // scan has refused it
		}
		k := &call{c: &Client{responses: responses}, rec: &metrics.Record{Outcome: metrics.OK, Sent: 1, Done: 1, Slot: 1}}
		k.takeTiming(data)
		if k.rec.BadTiming < 0 {
			t.Errorf("%d bad figures", k.rec.BadTiming)
		}
		var file bytes.Buffer
		if err := metrics.WriteRecords(&file, []metrics.Record{*k.rec}); err != nil {
			t.Fatal(err)
		}
		for again, err := range metrics.ReadRecords(&file) {
			if err != nil || !reflect.DeepEqual(again, k.rec) {
				t.Errorf("wrote %+v, read %+v, %v", k.rec, again, err)
			}
		}
	})
}
