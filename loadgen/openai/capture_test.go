package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/servebench/servebench/metrics"
)

// capture is a recorded response of vLLM 0.32.0; as a whole as it was sent.
func capture(t testing.TB, name string) (response, body string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join("../../testdata/vllm/*", name))
	if len(files) != 1 {
		t.Fatalf("%d captures of the name %s", len(files), name)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	head, body, ok := strings.Cut(string(raw), "\r\n\r\n")
	if !ok {
		t.Fatalf("%s has no end of headers", name)
	}
	if strings.Contains(name, ".chunked.") || !strings.Contains(head, "chunked") {
		return string(raw), body
	}
	// The recorder took the chunking off; an event was a chunk.
	var b strings.Builder
	b.WriteString(head + "\r\n\r\n")
	for event := range strings.SplitAfterSeq(body, "\n\n") {
		if event != "" {
			b.WriteString(chunk(event))
		}
	}
	if !cutShort(name) {
		b.WriteString(lastChunk)
	}
	return b.String(), body
}

// cutShort tells captures whose stream never ended.
func cutShort(name string) bool {
	return name == "err_midstream_sigterm.txt" || name == "abort_midstream.txt"
}

// payload is a body as encoding/json reads it.
type payload struct {
	Error   any
	Choices []struct {
		Text           string
		Delta, Message struct{ Content, Reasoning string }
		FinishReason   any   `json:"finish_reason"`
		TokenIDs       []int `json:"token_ids"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
}

// oracle reads a capture with encoding/json instead of scan.
func oracle(t *testing.T, name, body string) metrics.Record {
	want := metrics.Record{Outcome: metrics.Truncated}
	finished, streamed := false, strings.HasPrefix(body, "data:") || strings.Contains(name, ".chunked.")
	var payloads []string
	if streamed {
		for line := range strings.SplitSeq(body, "\n") {
			if data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\r"), "data: "); ok {
				payloads = append(payloads, data)
			}
		}
	} else {
		payloads = []string{body}
	}
	for _, data := range payloads {
		if data == "[DONE]" {
			finished = true
			break
		}
		var p payload
		if err := json.Unmarshal([]byte(data), &p); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if p.Error != nil {
			want.Outcome = metrics.StreamError
			break
		}
		if len(p.Choices) > 0 {
			c := p.Choices[0]
			want.Text += c.Text + c.Delta.Content + c.Message.Content
			if streamed {
				want.Arrivals = append(want.Arrivals, 0)
			}
			finished = finished || c.FinishReason != nil
		}
		if p.Usage != nil {
			want.PromptTokens, want.OutputTokens = p.Usage.Prompt, p.Usage.Completion
			want.TokenSource = metrics.FromUsage
		}
	}
	if finished && want.Outcome != metrics.StreamError {
		want.Outcome = metrics.OK
	}
	return want
}

// TestCaptures replays what vLLM sent. Outcome, events, text and tokens are those
// that encoding/json finds.
func TestCaptures(t *testing.T) {
	files, err := filepath.Glob("../../testdata/vllm/generation/*.txt")
	if err != nil || len(files) < 60 {
		t.Fatalf("%d captures, %v", len(files), err)
	}
	brief := func(r metrics.Record) string {
		return fmt.Sprintf("%s events=%d in=%d out=%d/%s %q", r.Outcome, len(r.Arrivals), r.PromptTokens, r.OutputTokens, r.TokenSource, r.Text)
	}
	for _, file := range files {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			response, body := capture(t, name)
			bubble(t, Config{Text: TextAlways}, answer(response), func(t *testing.T, c *Client) {
				got := do(t.Context(), c)
				if !strings.HasPrefix(response, "HTTP/1.1 200") {
					// The message is in the body, whatever its shape.
					text := strings.Split(got.Error, "…")[0]
					if got.Outcome != metrics.HTTP || got.Status < 400 || text == "" || !strings.Contains(printable(unescapeOnce(body)), unescapeOnce(text)) {
						t.Errorf("got %s", sum(got))
					}
					return
				}
				want := oracle(t, name, body)
				if want.TokenSource == "" {
					want.TokenSource, want.OutputTokens = got.TokenSource, got.OutputTokens // checked below
				}
				if brief(got) != brief(want) {
					t.Errorf("got  %s\nwant %s", brief(got), brief(want))
				}
				if got.UsageMismatch || got.BadUsage > 0 || got.NoDone && !got.NotStreamed {
					t.Errorf("doubts: %s", sum(got))
				}
			})
		})
	}
}

// TestCaptureDetails states what encoding/json cannot tell.
func TestCaptureDetails(t *testing.T) {
	for name, want := range map[string]string{
		"comp_stream_nousage.txt":         `ok ev=7 out=7/chunks`,
		"comp_eos_first.txt":              `ok ev=1 out=1/usage in=4`,
		"chat_eos_first.txt":              `ok ev=2 without=[0 1] out=1/usage in=20`,
		"interval4_stream.txt":            `ok ev=6 out=18/usage in=4 tokens=[1 4 4 4 4 1]`,
		"spec_max_tokens_3.txt":           `ok ev=2 out=3/usage in=25 tokens=[1 2]`,
		"chat_token_ids.txt":              `ok ev=5 without=[0] out=4/token_ids tokens=[0 1 1 1 1]`,
		"err_midstream_engine_killed.txt": `stream_error ev=35 out=35/chunks [EngineCore encountered an issue. See stack trace (above) for the root cause.]`,
		"err_midstream_sigterm.txt":       `truncated ev=34 out=34/chunks [the body was cut off]`,
		"err_401_no_key.txt":              `http 401 [Unauthorized]`,
		"tool_nonstream.txt":              `ok out=42/usage in=136 cached=128 reasoning=13 not_streamed`,
		"reason_only_length.txt":          `ok ev=6 without=[0] out=8/usage in=10 visible=0 reasoning=5`,
		"comp_stream_continuous.txt":      `ok ev=8 out=8/usage in=4 tokens=[1 1 1 1 1 1 1 1]`,
		"chat_stream_continuous.txt":      `ok ev=7 without=[0] out=6/usage in=20 tokens=[0 1 1 1 1 1 1]`,
		"spec_chat_ids.txt":               `ok ev=23 without=[0] out=64/usage in=9 tokens=[0 1 1 1 1 1 1 1 1 1 1 1 5 5 5 5 5 5 5 5 5 5 3]`,
		"spec_stream_ids.txt":             `ok ev=14 out=64/usage in=25 tokens=[1 5 5 5 5 5 5 5 5 5 5 5 5 3]`,
		"reason_stream.txt":               `ok ev=39 without=[0 38] out=42/usage in=10 visible=12 reasoning=11`,
		"tool_stream.txt":                 `ok ev=30 without=[0 29] out=42/usage in=136 visible=12 reasoning=11`,
	} {
		t.Run(name, func(t *testing.T) {
			response, _ := capture(t, name)
			bubble(t, Config{}, answer(response), func(t *testing.T, c *Client) {
				if got := sum(do(t.Context(), c)); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			})
		})
	}
}

// TestSplits cuts real streams at every byte: the record stays the same.
func TestSplits(t *testing.T) {
	for _, tt := range []struct {
		name string
		api  API
	}{
		{"comp_stream_usage.chunked.txt", Completions}, {"chat_stream_usage.chunked.txt", Chat}, {"spec_max_tokens_3.txt", Completions},
		{"comp_nonstream.txt", Completions}, {"responses_short.txt", Responses}, {"responses_eos_first.txt", Responses},
		{"responses_nonstream.txt", Responses}, {"rerank.txt", Rerank}, {"embeddings_base64.txt", Embeddings}, {"embeddings_bytes.txt", Embeddings},
	} {
		name := tt.name
		t.Run(name, func(t *testing.T) {
			cfg := Config{Text: TextAlways, API: tt.api}
			response, _ := capture(t, name)
			at := 0
			serve := func(p *peer) {
				for p.next() != nil {
					p.send(response[:at], response[at:])
				}
			}
			bubble(t, cfg, serve, func(t *testing.T, c *Client) {
				want := sum(do(t.Context(), c))
				for at = 1; at < len(response); at++ {
					r := do(t.Context(), c)
					if got := sum(r); got != want || !r.Reused {
						t.Fatalf("cut at %d, reused %v\ngot  %s\nwant %s", at, r.Reused, got, want)
					}
				}
			})
			bubble(t, cfg, answer(strings.Split(response, "")...), func(t *testing.T, c *Client) {
				if got := do(t.Context(), c); got.Outcome != metrics.OK {
					t.Errorf("in single bytes: %s", sum(got))
				}
			})
		})
	}
}

// TestLargeEvents has one event of 10 MB, and one over the limit: S14.
func TestLargeEvents(t *testing.T) {
	for _, tt := range []struct {
		name string
		size int
		max  int
		want string
	}{
		{"64 KB", 70 << 10, 0, "ok ev=2 out=2/chunks"},
		{"10 MB", 10 << 20, 0, "ok ev=2 out=2/chunks"},
		{"over the default", 17 << 20, 0, "oversized [sse: event too long: over 16777216 bytes]"},
		{"over the limit", 2000, 1000, "oversized [sse: event too long: over 1000 bytes]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			big := token(string(bytes.Repeat([]byte("é"), tt.size/2)))
			bubble(t, Config{MaxEventBytes: tt.max}, answer(stream(big, last("c"), doneEvent)), func(t *testing.T, c *Client) {
				if got := sum(do(t.Context(), c)); got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
			})
			doc := plain("200 OK", "application/json", `{"choices":[{"text":"`+strings.Repeat("x", tt.size)+`"}]}`)
			bubble(t, Config{MaxEventBytes: tt.max}, answer(doc), func(t *testing.T, c *Client) {
				if got := do(t.Context(), c); (got.Outcome == metrics.OK) != strings.HasPrefix(tt.want, "ok") {
					t.Errorf("as one document: %s", sum(got))
				}
			})
		})
	}
}
