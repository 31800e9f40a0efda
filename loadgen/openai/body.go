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

// API is the form of the requests.
type API string

// The APIs. All but the first three answer in one piece.
const (
	Completions    API = "completions"
	Chat           API = "chat"
	Responses      API = "responses"
	Embeddings     API = "embeddings"
	EmbeddingsChat API = "embeddings-chat"
	// EmbeddingsClip is EmbeddingsChat without the text of a request that has
	// an image, as CLIP embeds one or the other; InfinityClip is Infinity so.
	EmbeddingsClip API = "embeddings-clip"
	Pooling        API = "pooling"
	Rerank         API = "rerank"
	Infinity       API = "infinity-embeddings"
	InfinityClip   API = "infinity-embeddings-clip"
)

// paths are where each API is found below the base URL.
var paths = map[API]string{
	Completions: "/v1/completions", Chat: "/v1/chat/completions", Responses: "/v1/responses",
	Embeddings: "/v1/embeddings", EmbeddingsChat: "/v1/embeddings", EmbeddingsClip: "/v1/embeddings",
	Pooling: "/pooling", Rerank: "/v1/rerank", Infinity: "/embeddings", InfinityClip: "/embeddings",
}

// Path is where the API is found below the base URL.
func (a API) Path() string { return paths[a] }

// apiOf is the API whose path a path ends like: that of a gateway has more in
// front. Where nothing is known it is one that streams choices.
func apiOf(path string) API {
	path, _, _ = strings.Cut(path, "?")
	for _, end := range []struct {
		with string
		api  API
	}{{"/responses", Responses}, {"embeddings", Embeddings}, {"pooling", Pooling}, {"rerank", Rerank}} {
		if strings.HasSuffix(path, end.with) {
			return end.api
		}
	}
	return Completions
}

// Renders tells the APIs that render the model's chat template themselves.
func (a API) Renders() bool {
	return a == Chat || a == Responses || a == EmbeddingsChat || a == EmbeddingsClip
}

// Generates tells the APIs that generate tokens from those that pool a prompt
// into vectors or scores.
func (a API) Generates() bool {
	return a == Completions || a == Chat || a == Responses
}

// Sampling holds the sampling parameters of vLLM's flags; nil is not sent.
type Sampling struct {
	Temperature       *float64 `json:"temperature,omitempty"`
	TopP              *float64 `json:"top_p,omitempty"`
	TopK              *int     `json:"top_k,omitempty"`
	MinP              *float64 `json:"min_p,omitempty"`
	FrequencyPenalty  *float64 `json:"frequency_penalty,omitempty"`
	PresencePenalty   *float64 `json:"presence_penalty,omitempty"`
	RepetitionPenalty *float64 `json:"repetition_penalty,omitempty"`
}

// Format says what goes into a body beside the prompt. It is plain data.
type Format struct {
	API       API    `json:"api"`
	Model     string `json:"model"`
	Stream    bool   `json:"stream"`
	IgnoreEOS bool   `json:"ignore_eos,omitempty"`
	Logprobs  *int   `json:"logprobs,omitempty"` // completions only, as in vLLM
	// Strict sends what OpenAI's own API knows and nothing else.
	Strict bool `json:"strict,omitempty"`
	// TokenIDs and RunningUsage ask for what tells the tokens of each event:
	// their ids, and a usage in every event. Completions and chat know them.
	TokenIDs     bool     `json:"token_ids,omitempty"`
	RunningUsage bool     `json:"running_usage,omitempty"`
	Sampling     Sampling `json:"sampling"`
	// Extra is a JSON object merged over the body; its keys win.
	Extra json.RawMessage `json:"extra,omitempty"`
}

// foreign lists parameters that OpenAI's API refuses.
var foreign = []string{"top_k", "min_p", "repetition_penalty", "ignore_eos"}

// The parameters that tell the tokens of events, as vLLM names them.
const (
	idsParameter   = "return_token_ids"
	usageParameter = "continuous_usage_stats"
)

// AccountsIn returns the parameter for the tokens of events that text, an error
// message, names; "" if there is none.
func AccountsIn(text string) string {
	for _, name := range []string{idsParameter, usageParameter} {
		if strings.Contains(text, name) {
			return name
		}
	}
	return ""
}

// ForeignIn returns the parameter that OpenAI's API refuses and that text, an
// error message, names; "" if there is none.
func ForeignIn(text string) string {
	for _, name := range append([]string{"truncate_prompt_tokens"}, foreign...) {
		if strings.Contains(text, name) {
			return name
		}
	}
	return ""
}

// Foreign lists the set parameters that Strict keeps back.
func (f Format) Foreign() (names []string) {
	s := f.Sampling
	for i, set := range []bool{s.TopK != nil, s.MinP != nil, s.RepetitionPenalty != nil, f.IgnoreEOS} {
		if set {
			names = append(names, foreign[i])
		}
	}
	if f.API == Responses && s.FrequencyPenalty != nil {
		names = append(names, "frequency_penalty")
	}
	if f.API == Responses && s.PresencePenalty != nil {
		names = append(names, "presence_penalty")
	}
	return names
}

// strict is f without what Foreign lists, where Strict is set.
func (f Format) strict() Format {
	if !f.Strict {
		return f
	}
	s := &f.Sampling
	f.IgnoreEOS, s.TopK, s.MinP, s.RepetitionPenalty = false, nil, nil, nil
	if f.API == Responses {
		s.FrequencyPenalty, s.PresencePenalty = nil, nil
	}
	return f
}

// Encode returns the body of one request: vLLM's keys in vLLM's order, then the
// sampling parameters, then Extra over all of it, then a chat's tools. Errors: a
// request in a form that the API does not take, sampling parameters where
// nothing is generated.
func (f Format) Encode(r dataset.Request) ([]byte, error) {
	f = f.strict()
	v, err := f.body(r)
	if err != nil {
		return nil, err
	}
	body, err := encode(v)
	if err != nil { // only what came as JSON can fail
		return nil, fmt.Errorf("the messages, or parts of one, are not valid JSON: %w", err)
	}
	body, err = f.merge(body)
	if err != nil || r.Tools == nil {
		return body, err
	}
	return addTools(body, r.Tools)
}

func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.Clone(bytes.TrimSuffix(buf.Bytes(), []byte("\n"))), nil
}

// merge lays the sampling parameters and Extra over a body.
func (f Format) merge(body []byte) ([]byte, error) {
	over, err := encode(f.Sampling)
	if err != nil {
		return nil, err
	}
	if len(f.Extra) > 0 {
		if err := CheckExtra(f.Extra); err != nil {
			return nil, err
		}
	}
	for _, layer := range [][]byte{over, f.Extra} {
		gjson.ParseBytes(layer).ForEach(func(key, value gjson.Result) bool {
			body, err = sjson.SetRawBytes(body, escapePath(key.String()), []byte(value.Raw))
			return err == nil
		})
		if err != nil {
			return nil, fmt.Errorf("merge the request body: %w", err)
		}
	}
	return body, nil
}

// escapePath makes a key a path of one element.
func escapePath(key string) string {
	var b []byte
	for i := range len(key) {
		switch key[i] {
		case '.', '*', '?', '|', '#', '@', '!', '{', '}', '[', ']', '(', ')', '=', '>', '<', '%', '~', '\\', ':', '"':
			b = append(b, '\\')
		}
		b = append(b, key[i])
	}
	return string(b)
}

// CheckExtra tells whether raw is a JSON object.
func CheckExtra(raw json.RawMessage) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		return fmt.Errorf("not a JSON object, such as {\"chat_template_kwargs\": {\"enable_thinking\": false}}")
	}
	return nil
}
