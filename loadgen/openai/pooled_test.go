package openai

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/metrics"
)

// TestPooledCaptures replays what a vLLM server with --runner pooling sent, and
// compares with what encoding/json finds in it.
func TestPooledCaptures(t *testing.T) {
	files, err := filepath.Glob("../../testdata/vllm/pooling/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d captures, %v", len(files), err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			response, body := capture(t, name)
			endpoint := Embeddings.Path()
			switch {
			case strings.Contains(name, "rerank"):
				endpoint = Rerank.Path()
			case strings.Contains(name, "pooling"):
				endpoint = Pooling.Path()
			}
			var told struct {
				Usage struct {
					Prompt int `json:"prompt_tokens"`
				}
			}
			told.Usage.Prompt = 9 // the client's count stays where nothing is told
			head, _, _ := strings.Cut(response, "\r\n\r\n")
			if _, about, ok := strings.Cut(head, "metadata: "); ok {
				body, _, _ = strings.Cut(about, "\r\n")
			}
			if !strings.Contains(name, "bytes_only") {
				if err := json.Unmarshal([]byte(body), &told); err != nil {
					t.Fatal(err)
				}
			}
			bubble(t, Config{Endpoint: endpoint, Text: TextUncounted}, answer(response), func(t *testing.T, c *Client) {
				var got metrics.Record
				c.Do(t.Context(), loadgen.StartClock(), &loadgen.Request{PromptTokens: 9}, &got)
				want := fmt.Sprintf("ok in=%d not_streamed", told.Usage.Prompt)
				if strings.HasPrefix(name, "err_") {
					want = "http"
				}
				if s := sum(got); !strings.HasPrefix(s, want) || got.Text != "" || got.Outcome == metrics.HTTP && got.Error == "" {
					t.Errorf("got  %s\nwant %s", s, want)
				}
			})
		})
	}
}

// TestPooledBodies states what a record holds for each body.
func TestPooledBodies(t *testing.T) {
	ok := func(body string) string { return plain("200 OK", "application/json", body) }
	octets := func(body string, header ...string) string {
		return plain("200 OK", "application/octet-stream", body, header...)
	}
	const data = `"data":[{"embedding":[0.1,-2e-3]}]`
	for _, tt := range []struct{ name, response, want string }{
		{"embeddings", ok(`{` + data + `,"usage":{"prompt_tokens":4,"total_tokens":4,"completion_tokens":0}}`), `ok in=4 not_streamed`},
		{"usage first", ok(`{"usage":{"total_tokens":5,"prompt_tokens":4},` + data + `}`), `ok in=4 not_streamed`},
		{"base64", ok(`{"data":"eNKP"}`), `ok not_streamed`},
		{"rerank of other servers", ok(`{"results":[{"index":0,"relevance_score":0.5}],"usage":{"total_tokens":7}}`), `ok in=7 not_streamed`},
		{"embeddings by type", ok(`{"embeddings":{"float":[[1]]}}`), `ok not_streamed`},
		{"cached", ok(`{` + data + `,"usage":{"prompt_tokens":4,"prompt_tokens_details":{"cached_tokens":3}}}`), `ok in=4 cached=3 not_streamed`},
		{"no usage", ok(`{` + data + `}`), `ok not_streamed`},
		{"usage null", ok(`{` + data + `,"usage":null}`), `ok not_streamed`},
		{"usage 0 tells nothing", ok(`{` + data + `,"usage":{"prompt_tokens":0,"total_tokens":0}}`), `ok not_streamed`},
		{"usage bad", ok(`{` + data + `,"usage":{"prompt_tokens":-1}}`), `ok not_streamed bad=1`},
		{"under another type", plain("200 OK", "text/plain", `{`+data+`}`), `ok not_streamed`},
		{"in chunks", streamHead + chunk(`{"data":[`) + chunk(`1`) + chunk(`]}`) + lastChunk, `ok not_streamed`},
		{"byte order mark", ok("\xEF\xBB\xBF\n{" + data + "}"), `ok not_streamed`},
		{"no data", ok(`{"data":[]}`), `truncated not_streamed [the body has no data and no results]`},
		{"data null", ok(`{"data":null}`), `truncated not_streamed [the body has no data and no results]`},
		{"an object of something else", ok(`{"choices":[{"text":"a"}]}`), `truncated not_streamed [the body has no data and no results]`},
		{"a list", ok(`[[0.1]]`), `truncated not_streamed [the body has no data and no results]`},
		{"error", ok(`{"error":{"message":"boom"}}`), `stream_error [boom]`},
		{"error beside data", ok(`{` + data + `,"error":"boom"}`), `stream_error [boom]`},
		{"object error", ok(`{"object":"error","message":"old"}`), `stream_error [old]`},
		{"detail", ok(`{"detail":"gone"}`), `stream_error [gone]`},
		{"a stream", stream(token("a"), doneEvent), `decode [the body is not valid JSON]`},
		{"not JSON", ok(`embeddings: 1`), `decode [the body is not valid JSON]`},
		{"two texts", ok(`{` + data + `}{}`), `decode [the body is not valid JSON]`},
		{"a number that is none", ok(`{"data":[.5]}`), `decode [the body is not valid JSON]`},
		{"cut", ok(`{` + data + `}`)[:90], `truncated [the body was cut off]`},
		{"chunks cut", streamHead + chunk(`{"data":[`), `truncated [the body was cut off]`},
		{"empty", ok(``), `truncated [the body is empty]`},
		{"white space", ok("\n \n"), `truncated [the body is empty]`},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", `truncated 204 [the body is empty]`},
		{"HTML", plain("200 OK", "text/html", "<html>login</html>"), `decode [the response is a page of HTML: <html>login</html>]`},
		{"404", plain("404 Not Found", "application/json", `{"detail":"Not Found"}`), `http 404 [Not Found]`},
		{"bytes", octets("{\x00<\xff", `metadata: {"usage":{"prompt_tokens":5}}`+"\r\n"), `ok in=5 not_streamed`},
		{"bytes only", octets("<\x00"), `ok not_streamed`},
		{"bytes, of a type with parameters", plain("200 OK", "Application/Octet-Stream; x=y", "\x00"), `ok not_streamed`},
		{"bytes, metadata without usage", octets("\x00", "metadata: {}\r\n"), `ok not_streamed`},
		{"bytes, metadata broken", octets("\x00", "metadata: {\r\n"), `decode [the header metadata is not valid JSON: "{"]`},
		{"no bytes", octets(""), `truncated [the body is empty]`},
		{"bytes cut", octets("\x00\x00")[:len(octets("\x00\x00"))-1], `truncated [the body was cut off]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, pieces := range [][]string{{tt.response}, strings.Split(tt.response, "")} {
				bubble(t, Config{API: Pooling, Text: TextAlways}, answer(pieces...), func(t *testing.T, c *Client) {
					if got := trimURL(sum(do(t.Context(), c))); got != tt.want {
						t.Errorf("in %d pieces\ngot  %s\nwant %s", len(pieces), got, tt.want)
					}
				})
			}
		})
	}
}

// TestPooledEndIsTheBodysEnd: there are no events, so the time that counts is
// that at which the last byte came.
func TestPooledEndIsTheBodysEnd(t *testing.T) {
	for name, body := range map[string]string{"JSON": `{"data":[1]}`, "bytes": "\x00\x01"} {
		kind := map[string]string{"JSON": "application/json", "bytes": "application/octet-stream"}[name]
		response := plain("200 OK", kind, body)
		last := len(response) - 1
		bubble(t, Config{API: Embeddings}, steps(10*ms, response[:last], 30*ms, response[last:]), func(t *testing.T, c *Client) {
			r := do(t.Context(), c)
			if got := fmt.Sprintf("%s %v %v %d", r.Outcome, r.Headers-r.Sent, r.Done-r.Sent, len(r.Arrivals)); got != "ok 10ms 40ms 0" {
				t.Errorf("%s: %s", name, got)
			}
		})
	}
}

// TestLargeVectors: a body may be larger than an event, and its memory is bounded.
func TestLargeVectors(t *testing.T) {
	vectors := func(n int) string {
		return `{"data":[{"embedding":[` + strings.Repeat("-0.05943914502859116,", n) + `0]}],"usage":{"prompt_tokens":4}}`
	}
	small, large := vectors(1<<14), vectors(17<<20/21)
	for _, tt := range []struct {
		name, body string
		limit      int
		want       string
	}{
		{"over an event's default", large, 0, "ok in=4 not_streamed"},
		{"at the limit", small, len(small), "ok in=4 not_streamed"},
		{"over it", small, len(small) - 1, fmt.Sprintf("oversized [a body over %d bytes]", len(small)-1)},
	} {
		for _, response := range []string{plain("200 OK", "application/json", tt.body), streamHead + chunk(tt.body) + lastChunk} {
			bubble(t, Config{API: Embeddings, MaxEventBytes: tt.limit}, answer(response), func(t *testing.T, c *Client) {
				if got := sum(do(t.Context(), c)); got != tt.want {
					t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
				}
			})
		}
	}
}

// Vectors in bytes are dropped as they come, and bounded all the same: a server that
// sends without an end must not hold a request for hours.
func TestPooledBytesBound(t *testing.T) {
	for limit, want := range map[int]string{4: "ok not_streamed", 3: "oversized [a body over 3 bytes]"} {
		bubble(t, Config{API: Embeddings, MaxEventBytes: limit}, answer(plain("200 OK", "application/octet-stream", "\x00\x01\x02\x03")), func(t *testing.T, c *Client) {
			if got := sum(do(t.Context(), c)); got != want {
				t.Errorf("at most %d bytes: got %s, want %s", limit, got, want)
			}
		})
	}
}

func FuzzScanPooled(f *testing.F) {
	for _, s := range []string{`{"data":[1],"usage":{"prompt_tokens":1,"total_tokens":2}}`, `{"results":{}}`, `{"data":`, `{"usage":{"total_tokens":1e400}}`, `[]`, `7`, `{"error":null,"detail":[]}`, `{"data":[01]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var ev event
		err := scanPooled(p, &ev)
		if valid := json.Valid(p); (err == nil) != valid && len(p) < maxDepth {
			t.Fatalf("scan says %v, encoding/json says %v", err, valid)
		}
		if err == nil && (ev.usage.completion != -1 || ev.usage.prompt == 0) {
			t.Fatalf("%+v", ev.usage)
		}
	})
}

func BenchmarkScanPooled(b *testing.B) {
	p := []byte(`{"data":[{"embedding":[` + strings.Repeat("-0.05943914502859116,", 50<<10) + `0]}],"usage":{"prompt_tokens":4}}`)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	var ev event
	for b.Loop() {
		if err := scanPooled(p, &ev); err != nil {
			b.Fatal(err)
		}
	}
}

// TestErrorsHideEveryForm: a server that quotes what it refuses may quote the
// prompt in whatever form it was sent.
func TestErrorsHideEveryForm(t *testing.T) {
	const secret = "Once upon a time there was a client"
	for api, r := range map[API]dataset.Request{
		Responses: {Prompt: secret}, Embeddings: {Texts: []string{"x", secret}}, Rerank: {Texts: []string{secret, "document"}},
		Pooling: {Prompt: secret}, Infinity: {Prompt: secret}, EmbeddingsChat: {Prompt: secret},
	} {
		body, err := Format{API: api}.Encode(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := hide("cannot take "+secret+"!", body); got != "cannot take <prompt>!" {
			t.Errorf("%s: %s", api, got)
		}
	}
	body, _ := Format{API: Rerank}.Encode(dataset.Request{Texts: []string{"query", secret}})
	if got := hide(secret, body); got != "<prompt>" {
		t.Errorf("a document: %s", got)
	}
}
