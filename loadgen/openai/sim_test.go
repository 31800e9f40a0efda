package openai

import (
	"encoding/json"
	"net/http/httptest"
	"testing"

	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/metrics"
)

// TestAgainstTheSimulator sends a body of each API to a server that nobody wrote
// with this client in mind.
func TestAgainstTheSimulator(t *testing.T) {
	server := httptest.NewServer(sim.New(sim.Config{Model: "m", TokensPerChunk: 2}))
	defer server.Close()
	text := dataset.Request{Prompt: "one two three", OutputTokens: 5}
	bytes := json.RawMessage(`{"encoding_format":"bytes"}`)
	for _, tt := range []struct {
		name string
		f    Format
		r    dataset.Request
		want string
	}{
		{"completions", Format{API: Completions, Stream: true}, text, `ok ev=3 out=5/usage in=3 tokens=[1 2 2]`},
		{"completions of ids", Format{API: Completions}, dataset.Request{Tokens: []int{1, 2}, OutputTokens: 5}, `ok out=5/usage in=2 not_streamed`},
		{"chat", Format{API: Chat, Stream: true}, text, `ok ev=4 without=[0] out=5/usage in=9 tokens=[0 1 2 2]`},
		{"chat of messages", Format{API: Chat}, dataset.Request{Messages: json.RawMessage(`[{"role":"user","content":"a"}]`), OutputTokens: 2}, `ok out=2/usage in=7 not_streamed`},
		{"chat with an image", Format{API: Chat}, dataset.Request{Prompt: "a", Parts: []json.RawMessage{json.RawMessage(`{"type":"image_url","image_url":{"url":"data:"}}`)}, OutputTokens: 2}, `ok out=2/usage in=7 not_streamed`},
		{"responses", Format{API: Responses, Stream: true}, text, `ok ev=3 out=5/usage in=9`},
		{"responses, whole", Format{API: Responses}, text, `ok out=5/usage in=9 not_streamed`},
		{"responses of nothing known", Format{API: Responses, Model: "other"}, text, "http 404 [The model `other` does not exist. Valid aliases: m.]"},
		{"embeddings", Format{API: Embeddings}, text, `ok in=3 not_streamed`},
		{"embeddings of ids", Format{API: Embeddings}, dataset.Request{Tokens: []int{1, 2}}, `ok in=2 not_streamed`},
		{"embeddings of a batch", Format{API: Embeddings}, dataset.Request{Texts: []string{"a b", "c"}}, `ok in=3 not_streamed`},
		{"embeddings in bytes", Format{API: Embeddings, Extra: bytes}, dataset.Request{Texts: []string{"a b", "c"}}, `ok in=3 not_streamed`},
		{"embeddings of a chat", Format{API: EmbeddingsChat}, text, `ok in=6 not_streamed`},
		{"pooling", Format{API: Pooling}, text, `ok in=3 not_streamed`},
		{"pooling in bytes", Format{API: Pooling, Extra: bytes}, text, `ok in=3 not_streamed`},
		{"rerank", Format{API: Rerank}, dataset.Request{Texts: []string{"a", "b c", "d"}}, `ok in=4 not_streamed`},
		{"infinity", Format{API: Infinity}, dataset.Request{Texts: []string{"a", "b c"}}, `ok in=3 not_streamed`},
		{"infinity of an image", Format{API: InfinityClip}, dataset.Request{Prompt: "x", Parts: []json.RawMessage{json.RawMessage(`{"type":"image_url","image_url":{"url":"a"}}`)}}, `ok in=1 not_streamed`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.f.Model == "" {
				tt.f.Model = "m"
			}
			if tt.f.API == Completions || tt.f.API == Chat {
				tt.f.Extra = json.RawMessage(`{"return_token_ids":true}`)
			}
			body, err := tt.f.Encode(tt.r)
			if err != nil {
				t.Fatal(err)
			}
			c := newClient(t, Config{BaseURL: server.URL, Endpoint: tt.f.API.Path(), API: tt.f.API})
			defer c.Close()
			var rec metrics.Record
			c.Do(t.Context(), loadgen.StartClock(), &loadgen.Request{Body: body, OutputTokens: tt.r.OutputTokens}, &rec)
			if got := sum(rec); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}
