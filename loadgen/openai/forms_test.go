package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/dataset"
)

// tokens lists what a JSON text holds, in order; numbers by value.
func tokens(t *testing.T, text string) (out []any) {
	t.Helper()
	for dec := json.NewDecoder(strings.NewReader(text)); ; {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		out = append(out, tok)
	}
}

// TestBodiesAreVLLMs compares with what vLLM's own client sent for the same
// requests: keys, their order and values. testdata/bodies.py recorded it.
func TestBodiesAreVLLMs(t *testing.T) {
	raw, err := os.ReadFile("testdata/bodies.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden []struct {
		Name    string
		Format  Format
		Request dataset.Request
		Body    string
	}
	if err := json.Unmarshal(raw, &golden); err != nil {
		t.Fatal(err)
	}
	seen := map[API]int{}
	for _, g := range golden {
		t.Run(g.Name, func(t *testing.T) {
			seen[g.Format.API]++
			got, err := g.Format.Encode(g.Request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tokens(t, g.Body), tokens(t, string(got))); diff != "" {
				t.Errorf("vLLM %s\nours %s\n%s", g.Body, got, diff)
			}
		})
	}
	for api := range paths {
		if seen[api] == 0 {
			t.Errorf("no golden body for %s", api)
		}
	}
}

// TestBodiesOfOurOwn states those that vLLM's client cannot send.
func TestBodiesOfOurOwn(t *testing.T) {
	extra := json.RawMessage(`{"encoding_format":"bytes"}`)
	penalties := Sampling{FrequencyPenalty: ptr(0.5), PresencePenalty: ptr(0.5), TopK: ptr(1), Temperature: ptr(0.0)}
	for _, tt := range []struct {
		name string
		f    Format
		r    dataset.Request
		want string
	}{
		{"rerank with extra, which vLLM drops", Format{API: Rerank, Extra: extra}, dataset.Request{Texts: []string{"q", "d"}},
			`{"model":"","query":"q","documents":["d"],"truncate_prompt_tokens":-1,"encoding_format":"bytes"}`},
		{"responses, not streaming", Format{API: Responses}, dataset.Request{Prompt: "hi", OutputTokens: 3},
			`{"model":"","input":"hi","max_output_tokens":3,"stream":false,"store":false}`},
		{"strict responses", Format{API: Responses, Stream: true, IgnoreEOS: true, Strict: true, Sampling: penalties}, dataset.Request{Prompt: "hi", OutputTokens: 3},
			`{"model":"","input":"hi","max_output_tokens":3,"stream":true,"store":false,"temperature":0}`},
		{"strict embeddings", Format{API: Embeddings, Strict: true}, dataset.Request{Prompt: "hi"}, `{"model":"","input":"hi"}`},
		{"strict pooling", Format{API: Pooling, Strict: true}, dataset.Request{Prompt: "hi"}, `{"model":"","input":"hi"}`},
		{"completions that tell token ids", Format{API: Completions, Stream: true, TokenIDs: true, IgnoreEOS: true}, dataset.Request{Prompt: "hi", OutputTokens: 3},
			`{"model":"","prompt":"hi","repetition_penalty":1.0,"max_tokens":3,"logprobs":null,"stream":true,"stream_options":{"include_usage":true},"ignore_eos":true,"return_token_ids":true}`},
		{"completions with a running usage", Format{API: Completions, Stream: true, RunningUsage: true, Sampling: Sampling{TopK: ptr(1)}}, dataset.Request{Prompt: "hi", OutputTokens: 3},
			`{"model":"","prompt":"hi","repetition_penalty":1.0,"max_tokens":3,"logprobs":null,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"top_k":1}`},
		{"a chat that tells token ids", Format{API: Chat, Stream: true, TokenIDs: true}, dataset.Request{Messages: json.RawMessage(`[]`)},
			`{"model":"","messages":[],"max_completion_tokens":0,"stream":true,"stream_options":{"include_usage":true},"return_token_ids":true}`},
		{"a chat with a running usage", Format{API: Chat, Stream: true, RunningUsage: true}, dataset.Request{Messages: json.RawMessage(`[]`)},
			`{"model":"","messages":[],"max_completion_tokens":0,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`},
		{"messages of a clip model", Format{API: EmbeddingsClip}, dataset.Request{Messages: json.RawMessage(` [ ] `)},
			`{"model":"","messages":[],"truncate_prompt_tokens":-1}`},
		{"a part's escapes stay", Format{API: Chat}, dataset.Request{Parts: []json.RawMessage{json.RawMessage(`{"type":"x","x":"<\u00e9>"}`)}},
			`{"model":"","messages":[{"role":"user","content":[{"type":"text","text":""},{"type":"x","x":"<\u00e9>"}]}],"max_completion_tokens":0,"stream":false}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.f.Encode(tt.r)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEncodeRefuses states what each API does not take, and what is said of it.
func TestEncodeRefuses(t *testing.T) {
	text := dataset.Request{Prompt: "hi"}
	ids := dataset.Request{Tokens: []int{1}}
	texts := dataset.Request{Texts: []string{"a", "b"}}
	image := []json.RawMessage{json.RawMessage(`{"type":"image_url","image_url":{"url":"u"}}`)}
	messages := dataset.Request{Messages: json.RawMessage(`[]`)}
	tools := dataset.Request{Prompt: "hi", Tools: json.RawMessage(`[]`)}
	for _, tt := range []struct {
		api  API
		r    dataset.Request
		want string
	}{
		{Completions, texts, "completions does not take a list of texts; want one text or a prompt of token ids"},
		{Completions, messages, "completions does not take a list of messages; want one text or a prompt of token ids"},
		{Completions, dataset.Request{Prompt: "x", Parts: image}, "completions does not take images or other parts of a message; want one text or a prompt of token ids"},
		{Completions, tools, "completions does not take tools; want one text or a prompt of token ids"},
		{Chat, ids, "chat does not take a prompt of token ids; want one text or images or other parts of a message or a list of messages or tools"},
		{Chat, texts, "chat does not take a list of texts; want one text or images or other parts of a message or a list of messages or tools"},
		{Chat, dataset.Request{Messages: json.RawMessage(`{}`)}, `the messages are no JSON list; want [{"role": …, "content": …}, …]`},
		{Chat, dataset.Request{Messages: json.RawMessage(`[1`)}, "the messages, or parts of one, are not valid JSON: json: error calling MarshalJSON for type json.RawMessage: unexpected end of JSON input"},
		{Chat, dataset.Request{Parts: []json.RawMessage{json.RawMessage(`1`)}}, `part 0 of the message is no JSON object; want {"type": …}`},
		{Chat, dataset.Request{Prompt: "x", Tools: json.RawMessage(`[`)}, `the tools are not valid JSON; want [{"type": "function", …}, …]`},
		{Responses, ids, "responses does not take a prompt of token ids; want one text or a list of messages"},
		{Responses, tools, "responses does not take tools; want one text or a list of messages"},
		{Embeddings, messages, "embeddings does not take a list of messages; want one text or a prompt of token ids or a list of texts"},
		{EmbeddingsChat, texts, "embeddings-chat does not take a list of texts; want one text or images or other parts of a message or a list of messages"},
		{Pooling, messages, "pooling does not take a list of messages; want one text or a prompt of token ids or a list of texts"},
		{Rerank, text, "rerank does not take one text; want a list of texts"},
		{Rerank, dataset.Request{Texts: []string{"q"}}, "rerank: 1 texts; want a query and one document at least"},
		{Infinity, ids, "infinity-embeddings does not take a prompt of token ids; want one text or a list of texts or images or other parts of a message"},
		{Infinity, dataset.Request{Prompt: "x", Parts: image}, "infinity-embeddings takes a text or an image, not both; infinity-embeddings-clip sends the image alone"},
		{InfinityClip, dataset.Request{Parts: append(image, image...)}, `infinity-embeddings-clip: 2 parts, the first of type "image_url"; want one image with a url`},
		{Infinity, dataset.Request{Parts: []json.RawMessage{json.RawMessage(`{"type":"text","text":"x"}`)}}, `infinity-embeddings: 1 parts, the first of type "text"; want one image with a url`},
		{"speech", text, `the API "speech" is unknown`},
		{"", text, `the API "" is unknown`},
	} {
		if body, err := (Format{API: tt.api}).Encode(tt.r); err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %s, %v\nwant %s", tt.api, body, err, tt.want)
		}
	}
	for api := range paths {
		_, err := Format{API: api, Sampling: Sampling{TopK: ptr(1)}}.Encode(dataset.Request{Prompt: "x", Texts: nil})
		if api.Generates() != (err == nil) {
			t.Errorf("%s with a sampling parameter: %v", api, err)
		}
	}
}

// Only where the API knows them are tokens asked for.
func TestAccountingIsRefusedElsewhere(t *testing.T) {
	for api := range paths {
		for _, f := range []Format{{API: api, TokenIDs: true}, {API: api, RunningUsage: true}} {
			r := dataset.Request{Prompt: "x"}
			if api == Rerank {
				r.Texts = []string{"q", "d"}
			}
			_, err := f.Encode(r)
			if known := api == Completions || api == Chat; known != (err == nil) {
				t.Errorf("%+v: %v", f, err)
			}
		}
	}
	for text, want := range map[string]string{"Unknown parameter: 'return_token_ids'.": "return_token_ids", "stream_options.continuous_usage_stats: extra": "continuous_usage_stats", "top_k": ""} {
		if got := AccountsIn(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestForeign(t *testing.T) {
	for text, want := range map[string]string{"Unknown parameter: 'min_p'.": "min_p", "no truncate_prompt_tokens": "truncate_prompt_tokens", "no": ""} {
		if got := ForeignIn(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	all := Sampling{ptr(0.0), ptr(0.9), ptr(5), ptr(0.1), ptr(0.2), ptr(-0.3), ptr(1.1)}
	for api, want := range map[API]string{
		Chat:      "[top_k min_p repetition_penalty ignore_eos]",
		Responses: "[top_k min_p repetition_penalty ignore_eos frequency_penalty presence_penalty]",
	} {
		f := Format{API: api, Sampling: all, IgnoreEOS: true}
		if got := fmt.Sprint(f.Foreign()); got != want {
			t.Errorf("%s: %s, want %s", api, got, want)
		}
		f.Strict = true
		if left := f.strict().Foreign(); left != nil {
			t.Errorf("%s: strict leaves %v", api, left)
		}
	}
}
