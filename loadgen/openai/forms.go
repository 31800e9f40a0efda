package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/servebench/servebench/dataset"
)

// The bodies have the keys of vLLM's client in its order.
type completionBody struct {
	Model      string          `json:"model"`
	Prompt     any             `json:"prompt"`
	Repetition json.RawMessage `json:"repetition_penalty,omitempty"`
	MaxTokens  int             `json:"max_tokens"`
	Logprobs   json.RawMessage `json:"logprobs,omitempty"`
	tail
}

type chatBody struct {
	Model     string `json:"model"`
	Messages  any    `json:"messages"`
	MaxTokens int    `json:"max_completion_tokens"`
	tail
}

type responseBody struct {
	Model     string `json:"model"`
	Input     any    `json:"input"`
	MaxTokens int    `json:"max_output_tokens"`
	Stream    bool   `json:"stream"`
	// Store is false: a server may keep what it stores for its lifetime.
	Store     bool `json:"store"`
	IgnoreEOS bool `json:"ignore_eos,omitempty"`
}

// tail ends the bodies of completions and chat.
type tail struct {
	Stream    bool           `json:"stream"`
	Options   *streamOptions `json:"stream_options,omitempty"`
	IgnoreEOS bool           `json:"ignore_eos,omitempty"`
	TokenIDs  bool           `json:"return_token_ids,omitempty"`
}

// streamOptions: vLLM looks at Running only beside IncludeUsage.
type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
	Running      bool `json:"continuous_usage_stats,omitempty"`
}

type embeddingBody struct {
	Model string `json:"model"`
	Input any    `json:"input"`
	pooled
}

type embeddingChatBody struct {
	Model    string `json:"model"`
	Messages any    `json:"messages"`
	pooled
}

type rerankBody struct {
	Model     string   `json:"model"`
	Query     string   `json:"query"`
	Documents []string `json:"documents"`
	pooled
}

// pooled ends the bodies of the APIs that pool. Truncate of -1 makes vLLM cut a
// prompt to the model's length: those of embedding models are short.
type pooled struct {
	Truncate  json.RawMessage `json:"truncate_prompt_tokens,omitempty"`
	IgnoreEOS bool            `json:"ignore_eos,omitempty"`
}

type poolingBody struct {
	Model     string          `json:"model"`
	Truncate  json.RawMessage `json:"truncate_prompt_tokens,omitempty"`
	Input     any             `json:"input"`
	IgnoreEOS bool            `json:"ignore_eos,omitempty"`
}

type infinityBody struct {
	Model     string `json:"model"`
	Input     any    `json:"input"`
	Modality  string `json:"modality,omitempty"`
	IgnoreEOS bool   `json:"ignore_eos,omitempty"`
}

// form is how the prompt of a request is given.
type form int

const (
	ofText form = 1 << iota
	ofIDs
	ofTexts
	ofParts
	ofMessages
	ofTools
)

var formNames = []string{"one text", "a prompt of token ids", "a list of texts", "images or other parts of a message", "a list of messages", "tools"}

// takes says which forms an API takes.
var takes = map[API]form{
	Completions: ofText | ofIDs, Chat: ofText | ofParts | ofMessages | ofTools, Responses: ofText | ofMessages,
	Embeddings: ofText | ofIDs | ofTexts, EmbeddingsChat: ofText | ofParts | ofMessages,
	EmbeddingsClip: ofText | ofParts | ofMessages, Pooling: ofText | ofIDs | ofTexts, Rerank: ofTexts,
	Infinity: ofText | ofTexts | ofParts, InfinityClip: ofText | ofTexts | ofParts,
}

// formsOf lists the forms of a request.
func formsOf(r dataset.Request) (has form) {
	switch {
	case r.Messages != nil:
		has = ofMessages
	case r.Tokens != nil:
		has = ofIDs
	case r.Texts != nil:
		has = ofTexts
	default:
		has = ofText
	}
	if len(r.Parts) > 0 && r.Messages == nil {
		has |= ofParts
	}
	if r.Tools != nil {
		has |= ofTools
	}
	return has
}

// check tells why the API does not take a request.
func (f Format) check(r dataset.Request) error {
	can, known := takes[f.API]
	if !known {
		return fmt.Errorf("the API %q is unknown", f.API)
	}
	if !f.API.Generates() && f.Sampling != (Sampling{}) {
		return fmt.Errorf("sampling parameters have no place in %s, which generates nothing", f.API)
	}
	if f.API != Completions && f.API != Chat && (f.TokenIDs || f.RunningUsage) {
		return fmt.Errorf("%s has no parameter that tells the tokens of events; completions and chat have", f.API)
	}
	wrong := formsOf(r) &^ can
	for i, name := range formNames {
		if wrong&(1<<i) == 0 {
			continue
		}
		var may []string
		for j, other := range formNames {
			if can&(1<<j) != 0 {
				may = append(may, other)
			}
		}
		return fmt.Errorf("%s does not take %s; want %s", f.API, name, strings.Join(may, " or "))
	}
	return nil
}

// body is what is encoded before parameters and Extra are laid over it.
func (f Format) body(r dataset.Request) (any, error) {
	if err := f.check(r); err != nil {
		return nil, err
	}
	end := pooled{IgnoreEOS: f.IgnoreEOS}
	if !f.Strict {
		end.Truncate = json.RawMessage("-1")
	}
	switch f.API {
	case Completions:
		return f.completion(r), nil
	case Chat:
		m, err := messages(r, true)
		return chatBody{f.Model, m, r.OutputTokens, f.tail()}, err
	case Responses:
		in, err := input(r)
		return responseBody{f.Model, in, r.OutputTokens, f.Stream, false, f.IgnoreEOS}, err
	case EmbeddingsChat, EmbeddingsClip:
		m, err := messages(r, f.API == EmbeddingsChat)
		return embeddingChatBody{f.Model, m, end}, err
	case Pooling:
		in, err := input(r)
		return poolingBody{f.Model, end.Truncate, in, f.IgnoreEOS}, err
	case Rerank:
		if len(r.Texts) < 2 {
			return nil, fmt.Errorf("rerank: %d texts; want a query and one document at least", len(r.Texts))
		}
		return rerankBody{f.Model, r.Texts[0], r.Texts[1:], end}, nil
	case Infinity, InfinityClip:
		return f.infinity(r)
	}
	in, err := input(r)
	return embeddingBody{f.Model, in, end}, err
}

func (f Format) tail() tail {
	t := tail{Stream: f.Stream, IgnoreEOS: f.IgnoreEOS, TokenIDs: f.TokenIDs}
	if f.Stream {
		t.Options = &streamOptions{true, f.RunningUsage}
	}
	return t
}

func (f Format) completion(r dataset.Request) completionBody {
	b := completionBody{Model: f.Model, Prompt: r.Prompt, MaxTokens: r.OutputTokens, tail: f.tail()}
	if r.Tokens != nil {
		b.Prompt = r.Tokens
	}
	if !f.Strict {
		b.Repetition, b.Logprobs = json.RawMessage("1.0"), json.RawMessage("null")
	}
	if f.Logprobs != nil {
		b.Logprobs = fmt.Append(nil, *f.Logprobs)
	}
	return b
}

// infinity's body has the URL of an image where vLLM's has a message.
func (f Format) infinity(r dataset.Request) (any, error) {
	b := infinityBody{Model: f.Model, IgnoreEOS: f.IgnoreEOS}
	if len(r.Parts) == 0 {
		in, err := input(r)
		b.Input = in
		return b, err
	}
	if r.Prompt != "" && f.API == Infinity {
		return nil, fmt.Errorf("%s takes a text or an image, not both; %s sends the image alone", f.API, InfinityClip)
	}
	kind := gjson.GetBytes(r.Parts[0], "type").Str
	url := gjson.GetBytes(r.Parts[0], escapePath(kind)+".url")
	if len(r.Parts) > 1 || url.Type != gjson.String {
		return nil, fmt.Errorf("%s: %d parts, the first of type %q; want one image with a url", f.API, len(r.Parts), kind)
	}
	b.Modality, _, _ = strings.Cut(kind, "_")
	b.Input = url.Str
	return b, nil
}

// input is a prompt of whatever form.
func input(r dataset.Request) (any, error) {
	switch {
	case r.Messages != nil:
		return messages(r, true)
	case r.Tokens != nil:
		return r.Tokens, nil
	case r.Texts != nil:
		return r.Texts, nil
	}
	return r.Prompt, nil
}

type message struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// messages is a chat's list of messages. As in vLLM's client a prompt is always
// a list of parts, and text comes first, also one that is empty. Without text
// beside parts it becomes the empty one.
func messages(r dataset.Request, text bool) (any, error) {
	if r.Messages != nil {
		if !opens(r.Messages, '[') {
			return nil, fmt.Errorf("the messages are no JSON list; want [{\"role\": …, \"content\": …}, …]")
		}
		return r.Messages, nil
	}
	if !text && len(r.Parts) > 0 {
		r.Prompt = ""
	}
	content := []any{part{"text", r.Prompt}}
	for i, p := range r.Parts {
		if !opens(p, '{') {
			return nil, fmt.Errorf("part %d of the message is no JSON object; want {\"type\": …}", i)
		}
		content = append(content, p)
	}
	return []message{{"user", content}}, nil
}

// opens tells whether raw begins as a JSON object or list does; encoding it
// checks the rest.
func opens(raw []byte, with byte) bool {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	return len(raw) > 0 && raw[0] == with
}

// addTools gives a chat its tools. As in vLLM's client they come behind Extra
// and win over it: they are the data set's, and the model may use them or not.
func addTools(body, tools []byte) ([]byte, error) {
	if !json.Valid(tools) {
		return nil, fmt.Errorf("the tools are not valid JSON; want [{\"type\": \"function\", …}, …]")
	}
	body, err := sjson.SetRawBytes(body, "tools", tools)
	if err == nil {
		body, err = sjson.SetRawBytes(body, "tool_choice", []byte(`"auto"`))
	}
	return body, err
}
