package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/metrics"
)

func ptr[T any](v T) *T { return &v }

// TestEncode states bodies to the byte: bench-serve.md 2a and 2b.
func TestEncode(t *testing.T) {
	comp := Format{API: Completions, Model: "m", Stream: true}
	chat := Format{API: Chat, Model: "m", Stream: true}
	with := func(f Format, change func(*Format)) Format { change(&f); return f }
	extra := func(f Format, s string) Format { f.Extra = json.RawMessage(s); return f }
	req := dataset.Request{Prompt: "hi", OutputTokens: 8}
	const (
		compHead = `{"model":"m","prompt":"hi","repetition_penalty":1.0,"max_tokens":8,"logprobs":null,"stream":true,"stream_options":{"include_usage":true}`
		chatHead = `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"max_completion_tokens":8,"stream":true,"stream_options":{"include_usage":true}`
	)
	all := Sampling{ptr(0.0), ptr(0.9), ptr(5), ptr(0.1), ptr(0.2), ptr(-0.3), ptr(1.1)}
	for _, tt := range []struct {
		name string
		f    Format
		req  dataset.Request
		want string
	}{
		{"completions", comp, req, compHead + `}`},
		{"chat", chat, req, chatHead + `}`},
		{"ignore_eos", with(comp, func(f *Format) { f.IgnoreEOS = true }), req, compHead + `,"ignore_eos":true}`},
		{"chat, ignore_eos", with(chat, func(f *Format) { f.IgnoreEOS = true }), req, chatHead + `,"ignore_eos":true}`},
		{"not streaming", with(comp, func(f *Format) { f.Stream = false }), req,
			`{"model":"m","prompt":"hi","repetition_penalty":1.0,"max_tokens":8,"logprobs":null,"stream":false}`},
		{"logprobs", with(comp, func(f *Format) { f.Logprobs = ptr(0) }), req, strings.Replace(compHead, `"logprobs":null`, `"logprobs":0`, 1) + `}`},
		{"token ids", comp, dataset.Request{Tokens: []int{1, 2}, OutputTokens: 8}, strings.Replace(compHead, `"hi"`, `[1,2]`, 1) + `}`},
		{"sampling", with(comp, func(f *Format) { f.Sampling = all }), req, strings.Replace(compHead, `1.0`, `1.1`, 1) +
			`,"temperature":0,"top_p":0.9,"top_k":5,"min_p":0.1,"frequency_penalty":0.2,"presence_penalty":-0.3}`},
		{"strict", with(comp, func(f *Format) { f.Strict, f.IgnoreEOS, f.Sampling = true, true, all }), req,
			`{"model":"m","prompt":"hi","max_tokens":8,"stream":true,"stream_options":{"include_usage":true},"temperature":0,"top_p":0.9,"frequency_penalty":0.2,"presence_penalty":-0.3}`},
		{"strict chat", with(chat, func(f *Format) { f.Strict, f.IgnoreEOS, f.Sampling = true, true, all }), req,
			chatHead + `,"temperature":0,"top_p":0.9,"frequency_penalty":0.2,"presence_penalty":-0.3}`},
		{"strict, logprobs", with(comp, func(f *Format) { f.Strict, f.Logprobs = true, ptr(3) }), req,
			`{"model":"m","prompt":"hi","max_tokens":8,"logprobs":3,"stream":true,"stream_options":{"include_usage":true}}`},
		{"extra replaces", extra(comp, `{"prompt":"other","max_tokens":1,"logprobs":2}`), req,
			`{"model":"m","prompt":"other","repetition_penalty":1.0,"max_tokens":1,"logprobs":2,"stream":true,"stream_options":{"include_usage":true}}`},
		{"extra over sampling", extra(with(comp, func(f *Format) { f.Sampling.Temperature = ptr(0.5) }), `{"temperature":0.7}`), req, compHead + `,"temperature":0.7}`},
		{"extra, nested replaces as a whole", extra(chat, `{"chat_template_kwargs":{"enable_thinking":false,"a.b":[1,{"c":null}]},"stream_options":{"x":1}}`), req,
			strings.Replace(chatHead, `{"include_usage":true}`, `{"x":1}`, 1) + `,"chat_template_kwargs":{"enable_thinking":false,"a.b":[1,{"c":null}]}}`},
		{"extra, odd keys", extra(comp, `{"a.b":1,"*":2,"0":3,"-1":4,"@x":5,"#":6,"a|b":7,":1":8,"q\"q":9,"b\\c":10,"é":11,"x y":12,"stream.x":13,"?":14,"":15}`), req,
			compHead + `,"a.b":1,"*":2,"0":3,"-1":4,"@x":5,"#":6,"a|b":7,":1":8,"q\"q":9,"b\\c":10,"é":11,"x y":12,"stream.x":13,"?":14,"":15}`},
		{"extra, the last of two", extra(comp, `{"a":1,"a":2}`), req, compHead + `,"a":2}`},
		{"extra, empty", extra(comp, ` {} `), req, compHead + `}`},
		{"no HTML escapes", comp, dataset.Request{Prompt: "<a & b>", OutputTokens: 8}, strings.Replace(compHead, `"hi"`, `"<a & b>"`, 1) + `}`},
		{"invalid UTF-8", comp, dataset.Request{Prompt: "a\xffb", OutputTokens: 8}, strings.Replace(compHead, `"hi"`, `"a\ufffdb"`, 1) + `}`},
		{"text that needs escapes", comp, dataset.Request{Prompt: "\"\\\n\x00é🦜", OutputTokens: 8}, strings.Replace(compHead, `"hi"`, `"\"\\\n\u0000é🦜"`, 1) + `}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.f.Encode(tt.req)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Error(diff)
			}
			if !json.Valid(got) {
				t.Error("not valid JSON")
			}
		})
	}
	if _, err := chat.Encode(dataset.Request{Tokens: []int{1}}); err == nil {
		t.Error("chat takes token ids")
	}
	for _, bad := range []string{`[1]`, `{"a":`, `null`, `1`} {
		if body, err := extra(comp, bad).Encode(req); err == nil {
			t.Errorf("%s makes %s", bad, body)
		}
	}
}

// sent returns what a client with cfg sends for one request with this id.
func sent(t *testing.T, cfg Config, id string) (r *http.Request, body string) {
	t.Helper()
	serve := func(p *peer) {
		if r = p.next(); r != nil {
			b, _ := io.ReadAll(r.Body)
			body = string(b)
			p.send(stream(last("c"), doneEvent))
		}
	}
	bubble(t, cfg, serve, func(t *testing.T, c *Client) {
		var rec metrics.Record
		c.Do(t.Context(), loadgen.StartClock(), &loadgen.Request{ID: id, Body: []byte(`{"a":"<&>"}`)}, &rec)
		if rec.Outcome != metrics.OK {
			t.Errorf("got %s", sum(rec))
		}
	})
	return r, body
}

// TestHeaders states all headers that go out; the environment of TestMain has no
// part in them.
func TestHeaders(t *testing.T) {
	base := http.Header{
		"Accept": {"application/json"}, "Content-Length": {"11"}, "Content-Type": {"application/json"},
		"User-Agent": nil, // openai-go's, with its version
	}
	for _, tt := range []struct {
		name string
		cfg  Config
		id   string
		more http.Header
	}{
		{"bare", Config{}, "", nil},
		{"key", Config{APIKey: "k"}, "", http.Header{"Authorization": {"Bearer k"}}},
		{"id", Config{}, "r-1", http.Header{"X-Request-Id": {"r-1"}}},
		{"the user's win", Config{APIKey: "k", Header: map[string]string{"authorization": "Basic x", "content-type": "application/json; v=2", "User-Agent": "me", "X-A": "1", "Accept": "text/event-stream"}}, "",
			http.Header{"Authorization": {"Basic x"}, "Content-Type": {"application/json; v=2"}, "User-Agent": {"me"}, "X-A": {"1"}, "Accept": {"text/event-stream"}}},
		{"but for the id", Config{Header: map[string]string{"x-request-id": "mine"}}, "r-1", http.Header{"X-Request-Id": {"r-1"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, body := sent(t, tt.cfg, tt.id)
			want := base.Clone()
			for k, v := range tt.more {
				want[k] = v
			}
			if want["User-Agent"] == nil {
				want["User-Agent"] = r.Header["User-Agent"]
			}
			if diff := cmp.Diff(want, r.Header); diff != "" {
				t.Error(diff)
			}
			if r.Host != "server.test" || r.RequestURI != "/v1/completions" || body != `{"a":"<&>"}` {
				t.Errorf("%s %s %s", r.Host, r.RequestURI, body)
			}
		})
	}
	if r, _ := sent(t, Config{Header: map[string]string{"host": "other"}}, ""); r.Host != "other" {
		t.Errorf("host %s", r.Host)
	}
	for base, want := range map[string]string{"http://x.test/p/": "/p/v1/completions", "http://x.test/p": "/p/v1/completions", "http://x.test?q=1#f": "/v1/completions"} {
		if r, _ := sent(t, Config{BaseURL: base}, ""); r.RequestURI != want {
			t.Errorf("%s: %s", base, r.RequestURI)
		}
	}
}

// TestModels uses the same headers.
func TestModels(t *testing.T) {
	var r *http.Request
	serve := func(p *peer) {
		r = p.next()
		p.send(plain("200 OK", "application/json", `{"data":[{"id":"m","root":"/m","owned_by":"vllm"}]}`))
	}
	bubble(t, Config{APIKey: "k", Header: map[string]string{"X-A": "1"}, BaseURL: "http://x.test/p"}, serve, func(t *testing.T, c *Client) {
		got, err := c.Models(t.Context())
		if diff := cmp.Diff([]Model{{"m", "/m"}}, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
		if r.RequestURI != "/p/v1/models" || r.Header.Get("Authorization") != "Bearer k" || r.Header.Get("X-A") != "1" {
			t.Errorf("%s %v", r.RequestURI, r.Header)
		}
		if diff := cmp.Diff(http.Header{"Authorization": {"Bearer k"}, "X-A": {"1"}}, c.Headers()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestTwoClients share neither connections nor the gate that holds requests
// back, nor what they learned of a target.
func TestTwoClients(t *testing.T) {
	var conns atomic.Int64
	url := loopback(t, func(p *peer) {
		for conns.Add(1); p.next() != nil; {
			p.send(stream(last("c"), doneEvent))
		}
	})
	a, b := newClient(t, Config{BaseURL: url}), newClient(t, Config{BaseURL: url})
	defer a.Close()
	defer b.Close()
	for range cap(a.gate) { // nothing passes any more
		a.gate <- struct{}{}
	}
	for i, want := range []bool{false, true} {
		if r := do(t.Context(), b); r.Outcome != metrics.OK || r.Reused != want {
			t.Errorf("request %d: %s, reused %v", i, sum(r), r.Reused)
		}
	}
	for range cap(a.gate) {
		<-a.gate
	}
	if b.ungated.Load() {
		t.Error("the second client waited for the first one's gate")
	}
	if r := do(t.Context(), a); r.Outcome != metrics.OK || r.Reused || conns.Load() != 2 {
		t.Errorf("%s, reused %v, %d connections", sum(r), r.Reused, conns.Load())
	}
	if got := [2]int64{a.Events.Load(), b.Events.Load()}; got != [2]int64{1, 2} {
		t.Errorf("events %v", got)
	}
}

// TestSiblings hold requests back at one gate and count together, but share no
// connections and no target.
func TestSiblings(t *testing.T) {
	var conns [2]atomic.Int64
	var url [2]string
	for i := range url {
		url[i] = loopback(t, func(p *peer) {
			for conns[i].Add(1); p.next() != nil; {
				p.send(stream(last("c"), doneEvent))
			}
		})
	}
	a := newClient(t, Config{BaseURL: url[0]})
	defer a.Close()
	b, err := a.Sibling(Config{BaseURL: url[1], Endpoint: "/v1/completions"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, c := range []*Client{a, b, b} {
		if r := do(t.Context(), c); r.Outcome != metrics.OK {
			t.Error(sum(r))
		}
	}
	if got := [2]int64{conns[0].Load(), conns[1].Load()}; got != [2]int64{1, 1} {
		t.Errorf("connections %v, want one to each", got)
	}
	if got := [2]int64{a.Events.Load(), b.Events.Load()}; got != [2]int64{3, 3} || a.passed.Load() != 3 {
		t.Errorf("events %v, %d through the gate, want 3 together", got, a.passed.Load())
	}
	for range cap(a.gate) { // nothing passes any more
		a.gate <- struct{}{}
	}
	if r := do(t.Context(), b); r.Outcome != metrics.OK || !a.ungated.Load() {
		t.Errorf("%s; the gate is open: %v, want it to be for both", sum(r), a.ungated.Load())
	}
	for range cap(a.gate) {
		<-a.gate
	}
}

// TestProxy: the environment's proxy is for others than loopback and dialers.
func TestProxy(t *testing.T) {
	for base, want := range map[string]bool{"http://127.0.0.1:8000": false, "http://localhost:8000": false, "http://[::1]:8000": false, "https://example.com": true} {
		c := newClient(t, Config{BaseURL: base})
		if c.Proxied() != want {
			t.Errorf("%s: proxied %v", base, c.Proxied())
		}
		c.Close()
	}
	c := newClient(t, Config{BaseURL: "http://example.com", Dial: func(context.Context, string, string) (net.Conn, error) { return nil, io.EOF }})
	if c.Proxied() {
		t.Error("proxied, though there is a dialer")
	}
	c.Close()
	// The proxy cannot be reached, and its password is not told.
	c = newClient(t, Config{BaseURL: "http://example.com"})
	defer c.Close()
	if r := do(t.Context(), c); r.Outcome != metrics.Connect || strings.Contains(r.Error, "hunter2") {
		t.Errorf("got %s", sum(r))
	}
}

func TestNewRefuses(t *testing.T) {
	for _, base := range []string{"", "x", "localhost:8000", "ftp://x", "http://", "http://u:hunter2@\x7f"} {
		if _, err := New(Config{BaseURL: base}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", base, err)
		}
	}
}

// TestMessages states what a record says of an error: S13.
func TestMessages(t *testing.T) {
	const prompt = "Once upon a time there was a grüße 中文字符很多很多很多很多很多 line\nthat\tended"
	body, err := Format{API: Chat}.Encode(dataset.Request{Prompt: prompt})
	if err != nil {
		t.Fatal(err)
	}
	quoted, _ := json.Marshal(prompt)
	ascii := strings.Trim(fmt.Sprintf("%+q", prompt), `"`)
	for _, tt := range []struct{ name, response, want string }{
		{"JSON", plain("404 Not Found", "application/json", `{"error":{"message":"no such model"}}`), `http 404 [no such model]`},
		{"seconds", plain("429 No", "application/json", `{"message":"slow down"}`, "Retry-After: 3\r\n"), `http 429 [(Retry-After: 3) slow down]`},
		{"date", plain("503 No", "text/plain", " busy\n", "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT\r\n"), `http 503 [(Retry-After: Wed, 21 Oct 2026 07:28:00 GMT) busy]`},
		{"empty", plain("413 X", "text/plain", ""), `http 413 [Request Entity Too Large]`},
		{"unknown status", plain("599 X", "text/plain", ""), `http 599`},
		{"HTML", plain("502 X", "text/html", "<html>bad</html>"), `http 502 [<html>bad</html>]`},
		{"redirect", plain("307 X", "text/html", "moved", "Location: http://u:hunter2@evil/\r\n"), `http 307 [redirect to http://evil/, which is not followed]`},
		{"1 MB", plain("500 X", "text/plain", strings.Repeat("x", 1<<20)), `http 500 [` + strings.Repeat("x", 509) + `…]`},
		{"control characters", plain("500 X", "text/plain", "a\x1b[31m\r\n\u202eb\x9b\u00a0\U000e0041"), `http 500 [a\u001b[31m\u000d \u202eb\x9b\u00a0\U000e0041]`},
		{"key", plain("401 X", "text/plain", "bad key sk-secret, also s3cr3t"), `http 401 [bad key <redacted>, also <redacted>]`},
		{"prompt", plain("400 X", "text/plain", "bad input: "+prompt+"!"), `http 400 [bad input: <prompt>!]`},
		{"prompt in JSON", plain("422 X", "application/json", `{"detail":[{"msg":"bad","input":`+string(quoted)+`}]}`), `http 422 [{"detail":[{"msg":"bad","input":"<prompt>"}]}]`},
		{"prompt in ASCII", plain("400 X", "text/plain", "bad: '"+ascii+"'"), `http 400 [bad: '<prompt>']`},
		{"prompt, escaped twice", plain("400 X", "text/plain", "bad: "+strings.ReplaceAll(string(quoted), `\`, `\\`)), `http 400 [bad: "<prompt>"]`},
		{"part of the prompt", plain("400 X", "text/plain", "at '...upon a time there...': no"), `http 400 [at '...<prompt>...': no]`},
		{"prompt in the stream", stream(event1(`{"error":"cannot read: Once upon a time there"}`)), `stream_error [cannot read: <prompt>]`},
		{"short words are not the prompt", plain("400 X", "text/plain", "a time limit"), `http 400 [a time limit]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := Config{APIKey: "sk-secret", Header: map[string]string{"X-Api-Key": "s3cr3t"}}
			bubble(t, cfg, answer(tt.response), func(t *testing.T, c *Client) {
				r := do(t.Context(), c, string(body))
				if got := sum(r); got != tt.want || len(r.Error) > 512 {
					t.Errorf("%d bytes\ngot  %s\nwant %s", len(r.Error), got, tt.want)
				}
			})
		})
	}
	for _, tt := range []struct{ body, msg, want string }{
		{`{"prompt":[9707, 76412,29422,95463]}`, "ids [9707,76412, 29422, 95463] too many", "ids [<prompt>] too many"},
		{`{"prompt":"secret"}`, "got 'secret'", "got '<prompt>'"},
		{`{"prompt":["first of the two prompts","x"]}`, "got first of the two prompts", "got <prompt>"},
		{`{"prompt":"the"}`, "the server", "the server"},
		{`{"model":"a-model-of-some-length"}`, "no a-model-of-some-length", "no a-model-of-some-length"},
		{`not JSON`, "msg", "msg"},
	} {
		if got := hide(tt.msg, []byte(tt.body)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.body, got, tt.want)
		}
	}
}

// FuzzHide: no run of 12 letters of the prompt stands in what is shown.
func FuzzHide(f *testing.F) {
	f.Add("Once upon a time there was", "bad: upon a time there was!")
	f.Add("a\\nb", `a\\nb`)
	f.Fuzz(func(t *testing.T, prompt, msg string) {
		body, err := Format{API: Completions}.Encode(dataset.Request{Prompt: prompt})
		if err != nil {
			t.Skip()
		}
		shown := printable(hide(msg, body))
		if len(shown) > messageMax {
			t.Fatalf("%d bytes", len(shown))
		}
		whole, _ := letters(unescape(prompt))
		for _, part := range strings.Split(shown, "<prompt>") {
			runes, _ := letters(part)
			for i := 0; i+run <= len(runes); i++ {
				if strings.ContainsRune(string(runes[i:i+run]), '\uFFFD') || strings.Contains(part, `\`) {
					continue
				}
				if strings.Contains(string(whole), string(runes[i:i+run])) {
					t.Fatalf("%q shows %q of the prompt", shown, string(runes[i:i+run]))
				}
			}
		}
	})
}

// A header's value is a secret where its name says so or where it is long enough
// to be one; short ones would black out words.
func TestSecretsOfHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		value  string
		secret bool
	}{"X-Api-Key": {"k1", true}, "Y": {"hunter22", true}, "X-Team": {"perf", false}} {
		got := Config{Header: map[string]string{name: c.value}}.Secrets()
		if slices.Contains(got, c.value) != c.secret {
			t.Errorf("%s: %s: %v", name, c.value, got)
		}
	}
}
