// Package remote counts tokens by asking the server: /tokenize and /detokenize of
// vLLM's OpenAI-compatible server as a [tokenize.Tokenizer].
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/servebench/servebench/tokenize"
)

const (
	maxAnswer  = 64 << 20 // bytes of an answer; a million ids take 8 MB
	maxMessage = 512      // bytes of a refused answer's body in an error
)

var _ tokenize.Tokenizer = (*Client)(nil)

// Client asks one server about one model. It is safe for concurrent use.
type Client struct {
	http   *http.Client
	base   string
	model  string
	header http.Header
}

// New returns a client of the server at baseURL, without the path /v1 (vLLM has
// both endpoints at the root; a trailing /v1 is taken off). The header goes with every request.
// Timeouts, redirects and connections are the HTTP client's matter; nil is
// [http.DefaultClient]. An empty model is left out of the requests.
func New(client *http.Client, baseURL, model string, header http.Header) *Client {
	if client == nil {
		client = http.DefaultClient
	}
	base := strings.TrimSuffix(strings.TrimRight(baseURL, "/"), "/v1")
	return &Client{http: client, base: strings.TrimRight(base, "/"), model: model, header: header.Clone()}
}

// Error is an answer that is not a 200.
type Error struct {
	URL    string
	Status int
	// Body is the beginning of the answer, at most 512 bytes, without control characters.
	Body string
}

// Error implements error.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s: status %d", e.URL, e.Status)
	if e.Status == http.StatusNotFound {
		text += " (a server without this endpoint, or another model)"
	}
	if e.Body != "" {
		text += ": " + e.Body
	}
	return text
}

// Encode implements [tokenize.Tokenizer].
func (c *Client) Encode(ctx context.Context, text string, special bool) ([]int, error) {
	question := struct {
		Model   string `json:"model,omitempty"`
		Prompt  string `json:"prompt"`
		Special bool   `json:"add_special_tokens"`
	}{c.model, text, special}
	var answer struct {
		Count  *int   `json:"count"`
		Tokens *[]int `json:"tokens"`
	}
	if err := c.ask(ctx, "/tokenize", question, &answer); err != nil {
		return nil, err
	}
	if answer.Tokens == nil {
		return nil, fmt.Errorf("%s/tokenize: answer without tokens", c.base)
	}
	if answer.Count != nil && *answer.Count != len(*answer.Tokens) {
		return nil, fmt.Errorf("%s/tokenize: answer of %d tokens says count %d", c.base, len(*answer.Tokens), *answer.Count)
	}
	return *answer.Tokens, nil
}

// Decode implements [tokenize.Tokenizer].
func (c *Client) Decode(ctx context.Context, ids []int) (string, error) {
	question := struct {
		Model  string `json:"model,omitempty"`
		Tokens []int  `json:"tokens"`
	}{c.model, ids}
	if question.Tokens == nil {
		question.Tokens = []int{}
	}
	var answer struct {
		Prompt *string `json:"prompt"`
	}
	if err := c.ask(ctx, "/detokenize", question, &answer); err != nil {
		return "", err
	}
	if answer.Prompt == nil {
		return "", fmt.Errorf("%s/detokenize: answer without prompt", c.base)
	}
	return *answer.Prompt, nil
}

// Vocabulary implements [tokenize.Tokenizer]; ok is false, for no endpoint tells.
func (c *Client) Vocabulary() (v tokenize.Vocabulary, ok bool) { return v, false }

func (c *Client) ask(ctx context.Context, path string, question, answer any) error {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(question); err != nil {
		return fmt.Errorf("encode question: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, &body)
	if err != nil {
		return err
	}
	url := request.URL.Redacted() // for messages
	for name, values := range c.header {
		request.Header[name] = values
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return err // names method and URL
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return refusal(url, response)
	}
	return read(url, response.Body, answer)
}

func refusal(url string, response *http.Response) error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, 8*maxMessage)) // what there is of it
	return &Error{URL: url, Status: response.StatusCode, Body: sanitize(body)}
}

func read(url string, body io.Reader, answer any) error {
	data, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", url, err)
	}
	if len(data) > maxAnswer {
		return fmt.Errorf("read %s: answer of more than %d bytes", url, maxAnswer)
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("read %s: %w", url, errors.Join(err, errNoAnswer))
	}
	return nil
}

var errNoAnswer = errors.New("not an answer of vLLM's /tokenize or /detokenize")

// sanitize makes a foreign body fit for a terminal and one line of a log.
func sanitize(body []byte) string {
	var out strings.Builder
	space := false
	for _, r := range string(body) {
		if !unicode.IsPrint(r) || r == utf8.RuneError || unicode.IsSpace(r) {
			space = out.Len() > 0
			continue
		}
		if out.Len()+utf8.RuneLen(r)+1 > maxMessage {
			break
		}
		if space {
			out.WriteByte(' ')
			space = false
		}
		out.WriteRune(r)
	}
	return out.String()
}
