package openai

import (
	"strings"
	"testing"
)

// TestStreams states what a record holds for each response; S.. are the cases of
// the catalogue.
func TestStreams(t *testing.T) {
	a, b, c := token("a"), token("b"), last("c")
	chat := func(events ...string) string { return stream(append(events, doneEvent)...) }
	stop := event1(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	role := delta(`"role":"assistant","content":""`)
	text := delta(`"content":"x"`)
	u := func(n string) string {
		return usageEvent(`{"prompt_tokens":4,"completion_tokens":` + n + `}`)
	}
	for _, tt := range []struct{ name, response, want string }{
		{"plain", stream(a, b, c, u("3"), doneEvent), `ok ev=3 out=3/usage in=4 "abc"`},
		{"S1 CRLF", stream(strings.ReplaceAll(a+b+c+doneEvent, "\n", "\r\n")), `ok ev=3 out=3/chunks "abc"`},
		{"S1 CR", stream(strings.ReplaceAll(a+b+c+doneEvent, "\n", "\r")), `ok ev=3 out=3/chunks "abc"`},
		{"S2 no space", stream(strings.ReplaceAll(a+c+doneEvent, "data: ", "data:")), `ok ev=2 out=2/chunks "ac"`},
		{"S2 spaces", stream(strings.ReplaceAll(a+c, "data: ", "data:  ") + "data:  [DONE] \n\n"), `ok ev=2 out=2/chunks "ac"`},
		{"S3 comments and fields", stream(": keep-alive\n\n", "id: 1\nretry: 3000\nevent: x\n"+a, ": k\n\n", "\n\n\n", ": k\n"+c, doneEvent), `ok ev=2 out=2/chunks "ac"`},
		{"byte order mark", stream("\xEF\xBB\xBF"+a, c, doneEvent), `ok ev=2 out=2/chunks "ac"`},
		{"data over two lines", stream("data: {\"choices\":[{\"text\":\"a\",\ndata: \"finish_reason\":\"stop\"}]}\n\n", doneEvent), `ok ev=1 out=1/chunks "a"`},
		{"S4 line feed in a string", stream(a, event1("{\"choices\":[{\"text\":\"x\ny\"}]}"), doneEvent), `decode ev=1 out=1/chunks "a" [an event is not valid JSON]`},
		{"NUL in a string", stream(a, token("x\x00y"), doneEvent), `decode ev=1 out=1/chunks "a" [an event is not valid JSON]`},
		{"NUL escaped", stream(token(`x\u0000y`), c, doneEvent), `ok ev=2 out=2/chunks "x\x00yc"`},
		{"S3 empty data", stream(a, "data:\n\n", "data: \t\n\n", c, doneEvent), `ok ev=2 out=2/chunks "ac"`},
		{"S5 error first", stream(event1(`{"error":{"message":"boom","code":500}}`)), `stream_error [boom]`},
		{"S5 error after tokens", stream(a, b, event1(`{"error":{"message":"boom","code":500}}`), doneEvent), `stream_error ev=2 out=2/chunks "ab" [boom]`},
		{"S5 error event", stream(a, "event: error\n"+event1(`{"detail":"gone"}`)), `stream_error ev=1 out=1/chunks "a" [gone]`},
		{"error event without JSON", stream("event: error\n" + event1(`queue full`)), `stream_error [queue full]`},
		{"detail in the stream", stream(event1(`{"detail":"gone"}`)), `stream_error [gone]`},
		{"error as a string", stream(event1(`{"error":"Unauthorized"}`)), `stream_error [Unauthorized]`},
		{"object error", stream(event1(`{"object":"error","message":"old vLLM","code":400}`)), `stream_error [old vLLM]`},
		{"no error", stream(event1(`{"error":null,"choices":[{"text":"a"}]}`), event1(`{"error":"","choices":[{"text":"b"}]}`), doneEvent), `ok ev=2 out=2/chunks "ab"`},
		{"S6 null choices", stream(a, event1(`{"choices":null,"usage":{"prompt_tokens":4,"completion_tokens":1}}`), doneEvent), `ok ev=1 out=1/usage in=4 "a"`},
		{"choices that are none", stream(a, event1(`{"choices":[null,1,"x",[]]}`), event1(`{"choices":{}}`), event1(`[1]`), event1(`7`), doneEvent), `ok ev=1 out=1/chunks "a"`},
		{"S7 usage in the finishing chunk", stream(a, b, event1(`{"choices":[{"text":"","finish_reason":"stop"}],"usage":{"completion_tokens":37}}`), doneEvent), `ok ev=3 out=37/usage "ab"`},
		{"S8 role first", chat(role, text, stop, u("1")), `ok ev=3 without=[0 2] out=1/usage in=4 "x"`},
		{"null content", chat(delta(`"role":"assistant","content":null`), text, stop), `ok ev=3 without=[0 2] out=1/chunks "x"`},
		{"S9 reasoning, both spellings", chat(role, delta(`"reasoning":"r"`), delta(`"reasoning_content":"r"`), delta(`"reasoning":""`), text), `ok ev=5 without=[0 3] out=3/chunks visible=4 "x"`},
		{"S9 reasoning without an end", chat(role, delta(`"reasoning":"r"`), delta(`"content":""`), stop), `ok ev=4 without=[0 2 3] out=1/chunks visible=0`},
		{"S9 reasoning and content in one event", chat(role, delta(`"reasoning":"r","content":"x"`), delta(`"reasoning":"r"`), stop), `ok ev=4 without=[0 3] out=2/chunks "x"`},
		{"S9 content, then reasoning", chat(text, delta(`"reasoning":"r"`), text, stop), `ok ev=4 without=[3] out=3/chunks "xx"`},
		{"S9 reasoning, then a tool call", chat(role, delta(`"reasoning":"r"`), delta(`"tool_calls":[{"index":0}]`), stop), `ok ev=4 without=[0 3] out=2/chunks visible=2`},
		{"S9 reasoning tokens in usage", chat(role, delta(`"reasoning":"r"`), text, stop, usageEvent(`{"completion_tokens":3,"completion_tokens_details":{"reasoning_tokens":2}}`)), `ok ev=4 without=[0 3] out=3/usage visible=2 reasoning=2 "x"`},
		{"S9 tool calls only", chat(role, delta(`"tool_calls":[{"index":0,"function":{"arguments":"{"}}]`), delta(`"tool_calls":[]`), stop, u("9")), `ok ev=4 without=[0 2 3] out=9/usage in=4`},
		{"refusal", chat(delta(`"refusal":"no"`)), `ok ev=1 out=1/chunks`},
		{"S10 continuous usage", stream(
			event1(`{"choices":[{"text":"abcd"}],"usage":{"completion_tokens":4}}`),
			event1(`{"choices":[{"text":"efgh","finish_reason":"stop"}],"usage":{"completion_tokens":8}}`), doneEvent), `ok ev=2 out=8/usage tokens=[4 4] "abcdefgh"`},
		{"S10 continuous usage, cut short", stream(event1(`{"choices":[{"text":"a"}],"usage":{"completion_tokens":4}}`), doneEvent), `ok ev=1 out=4/continuous_usage tokens=[4] "a"`},
		{"S10 token ids", stream(event1(`{"choices":[{"text":"ab","token_ids":[1,2]}]}`), event1(`{"choices":[{"text":"c","token_ids":[3],"finish_reason":"stop"}]}`), doneEvent), `ok ev=2 out=3/token_ids tokens=[2 1] "abc"`},
		{"token ids, then usage", stream(event1(`{"choices":[{"text":"ab","token_ids":[1,2]}]}`), event1(`{"choices":[{"text":"c"}],"usage":{"completion_tokens":3}}`), doneEvent), `ok ev=2 out=3/continuous_usage tokens=[2 1] "abc"`},
		{"S10 the prompt's ids are none of the answer's", stream(event1(`{"choices":[{"text":"a","prompt_token_ids":[5,6,7],"token_ids":[1]}]}`), event1(`{"choices":[{"text":"bc","token_ids":[2,3],"prompt_token_ids":null,"finish_reason":"length"}]}`), u("3"), doneEvent), `ok ev=2 out=3/usage in=4 tokens=[1 2] "abc"`},
		{"S10 in chat, with logprobs", chat(event1(`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"prompt_token_ids":[5,6,7],"usage":{"completion_tokens":0}}`), event1(`{"choices":[{"index":0,"delta":{"content":"x"},"logprobs":{"content":[{"token":"x","top_logprobs":[{"token_ids":[1,2,3]}]}]},"token_ids":[9]}]}`), stop, u("1")), `ok ev=3 without=[0 2] out=1/usage in=4 tokens=[0 1 0] "x"`},
		{"S10 continuous usage, then a total", stream(
			event1(`{"choices":[{"text":"abcd"}],"usage":{"completion_tokens":4}}`),
			event1(`{"choices":[{"text":"efgh","finish_reason":"stop"}],"usage":{"completion_tokens":8}}`), u("8"), doneEvent), `ok ev=2 out=8/usage in=4 tokens=[4 4] "abcdefgh"`},
		{"running usage of two choices", stream(
			event1(`{"choices":[{"index":0,"text":"a"}],"usage":{"completion_tokens":1}}`),
			event1(`{"choices":[{"index":1,"text":"b","finish_reason":"stop"}],"usage":{"completion_tokens":1}}`), u("2"), doneEvent), `ok ev=2 out=2/usage in=4 "ab"`},
		{"token ids of two choices", stream(
			event1(`{"choices":[{"index":0,"text":"a","token_ids":[1]}]}`),
			event1(`{"choices":[{"index":1,"text":"bc","token_ids":[1,2],"finish_reason":"stop"}]}`), u("3"), doneEvent), `ok ev=2 out=3/usage in=4 tokens=[1 2] "abc"`},
		{"token ids of two chats", chat(role, event1(`{"choices":[{"index":1,"delta":{"role":"assistant","content":""}}]}`),
			event1(`{"choices":[{"index":1,"delta":{"content":"b"},"token_ids":[2]}]}`), event1(`{"choices":[{"index":0,"delta":{"content":"a"},"token_ids":[1],"finish_reason":"stop"}]}`), u("2")), `ok ev=4 without=[0 1] out=2/usage in=4 tokens=[0 0 1 1] "ba"`},
		{"token ids of a held-back text", chat(delta(`"content":"","token_ids":[7]`), text), `ok ev=2 out=2/chunks "x"`},
		{"S15 one token", stream(c, u("1"), doneEvent), `ok ev=1 out=1/usage in=4 "c"`},
		{"S15 no tokens", stream(last(""), u("0"), doneEvent), `ok ev=1 without=[0] out=0/usage in=4`},
		{"end of sequence first", stream(last(""), u("1"), doneEvent), `ok ev=1 out=1/usage in=4`},
		{"finish apart", stream(a, b, last(""), u("2"), doneEvent), `ok ev=3 without=[2] out=2/usage in=4 "ab"`},
		{"finish apart, no usage", stream(a, b, last(""), doneEvent), `ok ev=3 out=3/chunks "ab"`},
		{"chat, all contents empty", chat(role, delta(`"content":""`), stop, u("2")), `ok ev=3 without=[0 1 2] out=2/usage in=4`},
		{"chat, all contents empty, no usage", chat(role, stop), `ok ev=2 without=[0 1] out=2/chunks`},
		{"S16 fewer tokens than events", stream(a, b, c, u("2"), doneEvent), `ok ev=3 out=2/usage in=4 "abc" mismatch`},
		{"S16 more tokens than events", stream(a, b, c, u("9"), doneEvent), `ok ev=3 out=9/usage in=4 "abc"`},
		{"S16 reasoning over the whole", stream(a, c, usageEvent(`{"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":5}}`), doneEvent), `ok ev=2 out=2/usage reasoning=5 "ac" mismatch`},
		{"S16 several usages", stream(a, c, u("9"), u("2"), doneEvent), `ok ev=2 out=2/usage in=4 "ac"`},
		{"S16 a field missing", stream(a, c, usageEvent(`{"prompt_tokens":4}`), doneEvent), `ok ev=2 out=2/chunks in=4 "ac"`},
		{"usage null", stream(a, c, usageEvent(`null`), doneEvent), `ok ev=2 out=2/chunks "ac"`},
		{"usage null inside", stream(a, c, usageEvent(`{"prompt_tokens":null,"completion_tokens":null,"prompt_tokens_details":null}`), doneEvent), `ok ev=2 out=2/chunks "ac"`},
		{"usage 2.0", stream(a, c, u("2.0"), doneEvent), `ok ev=2 out=2/usage in=4 "ac"`},
		{"usage 1e3", stream(a, c, u("1e3"), doneEvent), `ok ev=2 out=1000/usage in=4 "ac"`},
		{"usage 2.5", stream(a, c, u("2.5"), doneEvent), `ok ev=2 out=2/chunks in=4 "ac" bad=1`},
		{"usage negative", stream(a, c, u("-1"), doneEvent), `ok ev=2 out=2/chunks in=4 "ac" bad=1`},
		{"usage 2^60", stream(a, c, u("1152921504606846976"), doneEvent), `ok ev=2 out=2/chunks in=4 "ac" bad=1`},
		{"usage 2^53-1", stream(a, c, u("9007199254740991"), doneEvent), `ok ev=2 out=9007199254740991/usage in=4 "ac"`},
		{"usage 1e400", stream(a, c, u("1e400"), doneEvent), `ok ev=2 out=2/chunks in=4 "ac" bad=1`},
		{"usage string", stream(a, c, u(`"2"`), doneEvent), `ok ev=2 out=2/chunks in=4 "ac" bad=1`},
		{"usage bad, then good", stream(a, c, u("-1"), u("2"), doneEvent), `ok ev=2 out=2/usage in=4 "ac" bad=1`},
		{"cached tokens", stream(a, c, usageEvent(`{"prompt_tokens":9,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}}`), doneEvent), `ok ev=2 out=2/usage in=9 cached=8 "ac"`},
		{"several choices in one event", stream(event1(`{"choices":[{"index":0,"text":"a"},{"index":1,"text":"b","finish_reason":"stop"}]}`), doneEvent), `ok ev=1 out=1/chunks "a"`},
		{"S11 a surrogate pair over two events", stream(token(`\ud83e`), token(`\udd9c`), c, doneEvent), `ok ev=3 out=3/chunks "🦜c"`},
		{"S12 no [DONE]", stream(a, c, u("2")), `ok ev=2 out=2/usage in=4 "ac" no_done`},
		{"S12 no [DONE], no finish reason", stream(a, b), `truncated ev=2 out=2/chunks "ab" [the stream ended without [DONE] and without a finish reason]`},
		{"S12 no last blank line", stream(a, c, "data: [DONE]\n"), `ok ev=2 out=2/chunks "ac" no_done`},
		{"S12 no last blank line, no finish reason", stream(a, "data: [DONE]"), `truncated ev=1 out=1/chunks "a" [the stream ended in the middle of an event, without a finish reason]`},
		{"S12 chunked body cut", streamHead + chunk(a) + "ff\r\ndata: {", `truncated ev=1 out=1/chunks "a" [the body was cut off]`},
		{"S12 chunked body cut after the finish reason", streamHead + chunk(a) + chunk(c), `ok ev=2 out=2/chunks "ac" no_done`},
		{"S12 length too short", plain("200 OK", "text/event-stream", a+c+doneEvent)[:len(plain("200 OK", "text/event-stream", a+c+doneEvent))-len(c+doneEvent)], `truncated ev=1 out=1/chunks "a" [the body was cut off]`},
		{"length cuts an event", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n" + a + c, `truncated [the stream ended in the middle of an event, without a finish reason]`},
		{"no length", "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + a + c + doneEvent, `ok ev=2 out=2/chunks "ac"`},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\n" + a + c + doneEvent, `ok ev=2 out=2/chunks "ac"`},
		{"100 and 103 before", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + stream(a, c, doneEvent), `ok ev=2 out=2/chunks "ac"`},
		{"trailers and chunk extensions", streamHead + strings.Replace(chunk(a+c+doneEvent), "\r\n", ";x=y\r\n", 1) + "0\r\nX-T: 1\r\n\r\n", `ok ev=2 out=2/chunks "ac"`},
		{"broken chunking", streamHead + chunk(a) + "zz\r\nfoo", `decode ev=1 out=1/chunks "a" [invalid byte in chunk length]`},
		{"broken chunking after the finish reason", streamHead + chunk(c) + "zz\r\nfoo", `decode ev=1 out=1/chunks "c" [invalid byte in chunk length]`},
		{"S13 no body", stream(), `truncated [the stream ended without [DONE] and without a finish reason]`},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", `truncated 204 [the stream ended without [DONE] and without a finish reason]`},
		{"gzip", plain("200 OK", "text/event-stream", "\x1f\x8b", "Content-Encoding: gzip\r\n"), `decode [the response is encoded as gzip, which was not asked for]`},
		{"HTML", plain("200 OK", "text/html", " \n<html>login</html>"), `decode [the response is a page of HTML: <html>login</html>]`},
		{"not HTTP", "SSH-2.0-OpenSSH\r\n", `decode [malformed HTTP response "SSH-2.0-OpenSSH"]`},
		{"nothing at all", "", `reset [the server closed or reset the connection]`},
		{"S29 stream as JSON", strings.Replace(stream(a, c, doneEvent), "text/event-stream", "application/json", 1), `ok ev=2 out=2/chunks "ac"`},
		{"S29 stream without a type", strings.Replace(stream(a, c, doneEvent), "Content-Type: text/event-stream\r\n", "", 1), `ok ev=2 out=2/chunks "ac"`},
		{"S29 JSON as a stream", plain("200 OK", "text/event-stream", `{"choices":[{"text":"abc","finish_reason":"stop"}],"usage":{"prompt_tokens":4,"completion_tokens":3}}`), `ok out=3/usage in=4 "abc" not_streamed`},
		{"JSON chat", plain("200 OK", "application/json", "\xEF\xBB\xBF\r\n"+`{"choices":[{"message":{"content":"abc","token_ids":[1,2]}}]}`), `ok out=2/token_ids "abc" not_streamed`},
		{"JSON without counts", plain("200 OK", "application/json", `{"choices":[{"message":{"content":"abc"}}]}`), `ok "abc" not_streamed`},
		{"S5 JSON error", plain("200 OK", "application/json", `{"error":{"message":"boom"}}`), `stream_error [boom]`},
		{"S5 JSON detail", plain("200 OK", "application/json", `{ "detail" : "gone"}`), `stream_error [gone]`},
		{"JSON without choices", plain("200 OK", "application/json", `{"id":1}`), `truncated not_streamed [the body has no choices]`},
		{"JSON list", plain("200 OK", "application/json", `[{"choices":[{"text":"a"}]}]`), `truncated not_streamed [the body has no choices]`},
		{"JSON lines", plain("200 OK", "application/json", "{\"choices\":[]}\n{\"choices\":[]}\n"), `decode [the body is not valid JSON]`},
		{"JSON cut", plain("200 OK", "application/json", `{"choices":[{"text":"a"}]}`+"   ")[:90], `truncated [the body was cut off]`},
		{"S30 more after [DONE]", stream(c, doneEvent, a, ": k\n\n", doneEvent), `ok ev=1 out=1/chunks "c" trailing=63`},
		{"S30 more after [DONE] in its chunk", stream(c, doneEvent+a+": k\n\n"+doneEvent), `ok ev=1 out=1/chunks "c" trailing=63`},
		{"S31 [DONE] alone", stream(doneEvent), `truncated [[DONE] came, but no event with choices]`},
		{"200 events in one chunk", stream(strings.Repeat(a, 199)+c, u("200"), doneEvent), `ok ev=200 out=200/usage in=4 "` + strings.Repeat("a", 199) + `c"`},
		{"oversized header", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 300<<10) + "\r\n\r\n", `oversized [net/http: server response headers exceeded 262144 bytes; aborted]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, Config{Text: TextAlways}, answer(tt.response), func(t *testing.T, c *Client) {
				if got := trimURL(sum(do(t.Context(), c))); got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
			})
			// The same in single bytes: what a stream means does not depend on
			// how its bytes were cut.
			if len(tt.response) < 4<<10 {
				bubble(t, Config{Text: TextAlways}, answer(strings.Split(tt.response, "")...), func(t *testing.T, c *Client) {
					if got := trimURL(sum(do(t.Context(), c))); got != tt.want {
						t.Errorf("in single bytes\ngot  %s\nwant %s", got, tt.want)
					}
				})
			}
		})
	}
}

// trimURL leaves out what net/http writes before its errors.
func trimURL(s string) string {
	const before = `Post "http://server.test/v1/completions": `
	s = strings.Replace(s, before, "", 1)
	return strings.Replace(s, "net/http: HTTP/1.x transport connection broken: ", "", 1)
}
