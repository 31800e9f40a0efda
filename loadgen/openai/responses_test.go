package openai

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/servebench/servebench/metrics"
)

// reply is a response object as encoding/json reads it.
type reply struct {
	Status string
	Output []struct {
		Content []struct{ Type, Text string }
	}
	Usage *struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
	}
}

func (r *reply) fill(into *metrics.Record) {
	if r.Usage != nil {
		into.PromptTokens, into.OutputTokens, into.TokenSource = r.Usage.Input, r.Usage.Output, metrics.FromUsage
	}
}

func (r *reply) text() (s string) {
	for _, item := range r.Output {
		for _, part := range item.Content {
			if part.Type == "output_text" {
				s += part.Text
			}
		}
	}
	return s
}

// replyOracle reads a capture with encoding/json. The text is that of the final
// object, not of the events that it was put together from.
func replyOracle(t *testing.T, body string) metrics.Record {
	want := metrics.Record{Outcome: metrics.Truncated}
	if strings.HasPrefix(body, "{") {
		var r reply
		if err := json.Unmarshal([]byte(body), &r); err != nil {
			t.Fatal(err)
		}
		r.fill(&want)
		want.Outcome, want.Text = metrics.OK, r.text()
		return want
	}
	for line := range strings.SplitSeq(body, "\n") {
		data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\r"), "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type     string
			Response reply
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if strings.HasSuffix(e.Type, ".delta") {
			want.Arrivals = append(want.Arrivals, 0)
		}
		if e.Type == "response.completed" {
			e.Response.fill(&want)
			want.Outcome, want.Text = metrics.OK, e.Response.text()
			if len(want.Arrivals) == 0 {
				want.Arrivals = append(want.Arrivals, 0)
			}
		}
	}
	return want
}

// TestResponseCaptures replays what vLLM's /v1/responses sent.
func TestResponseCaptures(t *testing.T) {
	files, err := filepath.Glob("../../testdata/vllm/responses/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d captures, %v", len(files), err)
	}
	brief := func(r metrics.Record) string {
		return fmt.Sprintf("%s events=%d in=%d out=%d/%s %q", r.Outcome, len(r.Arrivals), r.PromptTokens, r.OutputTokens, r.TokenSource, r.Text)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			response, body := capture(t, name)
			bubble(t, Config{API: Responses, Text: TextAlways}, answer(response), func(t *testing.T, c *Client) {
				got := do(t.Context(), c)
				if strings.HasPrefix(name, "err_") {
					if got.Outcome != metrics.HTTP || got.Status < 400 || got.Error == "" {
						t.Errorf("got %s", sum(got))
					}
					return
				}
				if want := replyOracle(t, body); brief(got) != brief(want) {
					t.Errorf("got  %s\nwant %s", brief(got), brief(want))
				}
				if got.UsageMismatch || got.BadUsage > 0 || got.NoDone || got.Trailing > 0 {
					t.Errorf("doubts: %s", sum(got))
				}
			})
		})
	}
}

// TestResponseCaptureDetails states what the oracle does not know.
func TestResponseCaptureDetails(t *testing.T) {
	for name, want := range map[string]string{
		"responses_stream.txt":              `ok ev=6 out=6/usage in=12`,
		"responses_think_stream.txt":        `ok ev=10 out=42/usage in=10 visible=8 reasoning=12`,
		"responses_tool_stream.txt":         `ok ev=27 out=42/usage in=136 visible=11 reasoning=11`,
		"responses_eos_first.txt":           `ok ev=1 without=[0] out=1/usage in=10 tokens=[1]`,
		"responses_one.txt":                 `ok ev=1 without=[0] out=1/usage in=10 tokens=[1]`,
		"responses_eos_first_nonstream.txt": `ok out=1/usage in=10 not_streamed`,
		"responses_nonstream.txt":           `ok out=6/usage in=10 reasoning=5 not_streamed`,
		"err_responses_model.txt":           "http 404 [The model `nope` does not exist. Valid aliases: tiny.]",
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := capture(t, name)
			bubble(t, Config{API: Responses}, answer(response), func(t *testing.T, c *Client) {
				if got := sum(do(t.Context(), c)); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			})
		})
	}
}

// named is an event of the Responses API, as vLLM writes them: the type last.
func named(name, members string) string {
	if members != "" {
		members += ","
	}
	return "event: " + name + "\n" + event1(`{`+members+`"type":"`+name+`"}`)
}

// TestResponseStreams states what a record holds for each stream of a response.
func TestResponseStreams(t *testing.T) {
	delta := func(s string) string { return named("response.output_text.delta", `"content_index":0,"delta":"`+s+`"`) }
	opening := named("response.created", `"response":{"status":"in_progress","error":null,"output":[],"usage":null}`)
	end := func(name, usage string) string {
		return named(name, `"response":{"status":"completed","error":null,"output":[{"content":[{"type":"output_text","text":"whole"},{"type":"reasoning_text","text":"r"}]},{"content":[{"type":"output_text","text":"\ud83e\udd9c"}]}],"usage":`+usage+`}`)
	}
	a, b := delta("a"), delta("b")
	done := end("response.completed", `{"input_tokens":4,"output_tokens":2}`)
	body := func(members string) string {
		return plain("200 OK", "application/json", `{"object":"response",`+members+`}`)
	}
	for _, tt := range []struct{ name, response, want string }{
		{"plain", stream(opening, a, b, done), `ok ev=2 out=2/usage in=4 "ab"`},
		{"incomplete", stream(a, end("response.incomplete", `{"output_tokens":1}`)), `ok ev=1 out=1/usage "a"`},
		{"details", stream(a, end("response.completed", `{"input_tokens":9,"input_tokens_details":{"cached_tokens":8},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":3}}`)), `ok ev=1 out=7/usage in=9 cached=8 reasoning=3 "a"`},
		{"more reasoning than tokens", stream(a, end("response.completed", `{"output_tokens":2,"output_tokens_details":{"reasoning_tokens":3}}`)), `ok ev=1 out=2/usage reasoning=3 "a" mismatch`},
		{"fewer tokens than events", stream(a, b, end("response.completed", `{"output_tokens":1}`)), `ok ev=2 out=1/usage "ab" mismatch`},
		{"usage null", stream(a, end("response.completed", `null`)), `ok ev=1 out=1/chunks "a"`},
		{"usage bad", stream(a, end("response.completed", `{"input_tokens":-1,"output_tokens":"x"}`)), `ok ev=1 out=1/chunks "a" bad=2`},
		{"no response in the end", stream(a, named("response.completed", "")), `ok ev=1 out=1/chunks "a"`},
		{"response null in the end", stream(a, named("response.completed", `"response":null`)), `ok ev=1 out=1/chunks "a"`},
		{"usage on the way is not the last", stream(named("response.in_progress", `"response":{"usage":{"output_tokens":0,"input_tokens":1}}`), a, done), `ok ev=1 out=2/usage in=4 "a"`},
		{"[DONE] behind it", stream(a, b, done, doneEvent), `ok ev=2 out=2/usage in=4 "ab"`},
		{"[DONE] and more behind it", stream(a, b, done, doneEvent, event1("x")), `ok ev=2 out=2/usage in=4 "ab" trailing=1`},
		{"[DONE] in its place", stream(a, doneEvent), `truncated ev=1 out=1/chunks "a" [[DONE] came, but no terminal event such as response.completed]`},
		{"S12 no terminal event", stream(opening, a), `truncated ev=1 out=1/chunks "a" [the stream ended without a terminal event such as response.completed]`},
		{"S12 the terminal event cut", stream(a, strings.TrimSuffix(done, "\n")), `truncated ev=1 out=1/chunks "a" [the stream ended in the middle of an event, without a terminal event such as response.completed]`},
		{"S12 body cut", streamHead + chunk(a) + "ff\r\nevent: {", `truncated ev=1 out=1/chunks "a" [the body was cut off]`},
		{"S12 body cut behind the end", streamHead + chunk(a) + chunk(done), `ok ev=1 out=2/usage in=4 "a" undrained`},
		{"nothing", stream(), `truncated [the stream ended without a terminal event such as response.completed]`},
		{"S1 CRLF", stream(strings.ReplaceAll(a+b+done, "\n", "\r\n")), `ok ev=2 out=2/usage in=4 "ab"`},
		{"S3 comments", stream(": k\n\n", a, ": k\n\n", done), `ok ev=1 out=2/usage in=4 "a"`},
		{"no event names", stream(strings.NewReplacer("event: response.output_text.delta\n", "", "event: response.completed\n", "").Replace(a + done)), `ok ev=1 out=2/usage in=4 "a"`},
		{"no types", stream("event: response.output_text.delta\n"+event1(`{"delta":"a"}`), "event: response.completed\n"+event1(`{}`)), `ok ev=1 out=1/chunks "a"`},
		{"the type first", stream(event1(`{"type":"response.output_text.delta","delta":"a"}`), done), `ok ev=1 out=2/usage in=4 "a"`},
		{"neither name nor type", stream(event1(`{"delta":"a"}`), done), `ok ev=1 out=2/usage in=4 tokens=[2] "whole🦜"`},
		{"all kinds of deltas", stream(named("response.reasoning_text.delta", `"delta":"r"`), named("response.reasoning_summary_text.delta", `"delta":"r"`), named("response.refusal.delta", `"delta":"r"`),
			named("response.function_call_arguments.delta", `"delta":"{"`), named("response.custom_tool_call_input.delta", `"delta":"x"`), named("response.code.delta", `"delta":{"x":1}`), done), `ok ev=6 out=2/usage in=4 visible=2 mismatch`},
		{"deltas without content", stream(delta(""), named("response.output_text.delta", `"delta":null`), named("response.output_text.delta", ""), a, done), `ok ev=4 without=[0 1 2] out=2/usage in=4 "a"`},
		{"a delta that is no text", stream(named("response.output_text.delta", `"delta":["x"]`), named("response.output_text.delta", `"delta":7`), done), `ok ev=2 without=[1] out=2/usage in=4`},
		{"no events but the end", stream(opening, done), `ok ev=1 out=2/usage in=4 tokens=[2] "whole🦜"`},
		{"an end without output", stream(named("response.completed", `"response":{"output":[],"usage":{"output_tokens":1}}`)), `ok ev=1 without=[0] out=1/usage tokens=[1]`},
		{"done events are no tokens", stream(a, named("response.output_text.done", `"text":"a"`), named("response.output_item.done", `"item":{"content":[]}`), done), `ok ev=1 out=2/usage in=4 "a"`},
		{"choices are none", stream(token("x"), a, done), `ok ev=1 out=2/usage in=4 "a"`},
		{"S11 a surrogate pair over two events", stream(delta(`\ud83e`), delta(`\udd9c`), done), `ok ev=2 out=2/usage in=4 "🦜"`},
		{"S4 line feed in a string", stream(a, event1("{\"delta\":\"x\ny\"}"), done), `decode ev=1 out=1/chunks "a" [an event is not valid JSON]`},
		{"types of the wrong type", stream(event1(`{"type":1,"delta":"a"}`), event1(`{"type":{},"response":[]}`), event1(`[1]`), event1(`7`), event1(`"x"`), a, done), `ok ev=1 out=2/usage in=4 "a"`},
		{"S5 error event", stream(a, "event: error\n"+event1(`{"type":"error","code":"x","message":"boom"}`)), `stream_error ev=1 out=1/chunks "a" [boom]`},
		{"error by its type", stream(event1(`{"type":"error","code":"x","message":"boom"}`)), `stream_error [boom]`},
		{"error member", stream(a, event1(`{"error":{"message":"boom","code":500}}`), done), `stream_error ev=1 out=1/chunks "a" [boom]`},
		{"detail", stream(event1(`{"detail":"gone"}`)), `stream_error [gone]`},
		{"object error", stream(event1(`{"object":"error","message":"old"}`)), `stream_error [old]`},
		{"failed", stream(a, named("response.failed", `"response":{"status":"failed","error":{"code":"server_error","message":"boom"}}`)), `stream_error ev=1 out=1/chunks "a" [boom]`},
		{"failed without a reason", stream(named("response.failed", `"response":{"status":"failed"}`)), `stream_error [{"response":{"status":"failed"},"type":"response.failed"}]`},
		{"cancelled", stream(a, named("response.cancelled", `"response":{"status":"cancelled","message":"by hand"}`)), `stream_error ev=1 out=1/chunks "a" [by hand]`},
		{"completed, but failed", stream(a, named("response.completed", `"response":{"status":"failed","error":{"message":"boom"}}`)), `stream_error ev=1 out=1/chunks "a" [boom]`},
		{"error null", stream(event1(`{"type":"response.output_text.delta","delta":"a","error":null}`), done), `ok ev=1 out=2/usage in=4 "a"`},
		{"JSON", body(`"status":"completed","error":null,"output":[{"content":[{"type":"output_text","text":"abc"}]}],"usage":{"input_tokens":4,"output_tokens":3}`), `ok out=3/usage in=4 "abc" not_streamed`},
		{"JSON, incomplete", body(`"status":"incomplete","output":[]`), `ok not_streamed`},
		{"JSON, no status", body(`"output":[]`), `ok not_streamed`},
		{"JSON, failed", body(`"status":"failed","error":{"message":"boom"},"output":[]`), `stream_error [boom]`},
		{"JSON, cancelled", body(`"status":"cancelled","output":[]`), `stream_error [{"object":"response","status":"cancelled","output":[]}]`},
		{"JSON, queued", body(`"status":"queued","output":[]`), `truncated not_streamed [the body has no output that is complete]`},
		{"JSON without output", body(`"status":"completed"`), `truncated not_streamed [the body has no output that is complete]`},
		{"JSON with choices", plain("200 OK", "application/json", `{"choices":[{"text":"a"}]}`), `truncated not_streamed [the body has no output that is complete]`},
		{"JSON list", plain("200 OK", "application/json", `[{"output":[]}]`), `truncated not_streamed [the body has no output that is complete]`},
		{"JSON detail", plain("200 OK", "application/json", `{"detail":"gone"}`), `stream_error [gone]`},
		{"JSON cut", plain("200 OK", "application/json", `{"output":[`), `decode [the body is not valid JSON]`},
		{"HTML", plain("200 OK", "text/html", " \n<html>login</html>"), `decode [the response is a page of HTML: <html>login</html>]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, pieces := range [][]string{{tt.response}, strings.Split(tt.response, "")} {
				// Behind a slash, as gateways have it: the API follows from the path's end.
				bubble(t, Config{Endpoint: "/openai/v1/responses", Text: TextAlways}, answer(pieces...), func(t *testing.T, c *Client) {
					if got := trimURL(sum(do(t.Context(), c))); got != tt.want {
						t.Errorf("in %d pieces\ngot  %s\nwant %s", len(pieces), got, tt.want)
					}
				})
			}
		})
	}
}

const (
	replyDelta = `{"content_index":0,"delta":" mặc","item_id":"msg_a6ee9462bc991dd0","logprobs":[],"output_index":0,"sequence_number":7,"type":"response.output_text.delta"}`
	replyEnd   = `{"response":{"id":"resp_8","error":null,"output":[{"content":[{"text":"x","type":"output_text"}]}],"status":"completed","usage":{"input_tokens":1,"output_tokens":2}},"type":"response.completed"}`
)

func FuzzScanResponse(f *testing.F) {
	for _, s := range []string{replyDelta, replyEnd, `{}`, `[1]`, `{"type":1,"delta":{}}`, `{"response":[],"error":{"x":1}}`, `{"output":[],"usage":{"output_tokens":2.0}}`, `{"type":"error"}`, `{"type":"`, `{"delta":`, `{"response":{"status":`, `{"type":"a.delta","delta":null}`} {
		f.Add([]byte(s), "response.output_text.delta")
		f.Add([]byte(s), "")
	}
	f.Fuzz(func(t *testing.T, p []byte, name string) {
		var event, body event
		errEvent, errBody := scanResponse(p, []byte(name), &event), scanReplyBody(p, &body)
		if len(p) >= maxDepth {
			return
		}
		if valid := json.Valid(p); (errEvent == nil) != valid || (errBody == nil) != valid {
			t.Fatalf("scanned: %v, %v; encoding/json says %v", errEvent, errBody, valid)
		}
		if errEvent != nil {
			return
		}
		var as map[string]json.RawMessage
		_ = json.Unmarshal(p, &as) // a list or a number has no type either
		if as["type"] == nil && event.choices != strings.HasSuffix(name, ".delta") {
			t.Fatalf("%q %s: choices %v", name, p, event.choices)
		}
		_ = replyText(p)
	})
}
