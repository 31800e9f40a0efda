package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/dataset/hub"
	"github.com/servebench/servebench/tokenize"
	"github.com/servebench/servebench/tokenize/chat"
)

// tools are what a data set of this run may use.
func (s *session) tools(tok tokenize.Tokenizer, emit func(int, *dataset.Request) error) (t dataset.Tools, err error) {
	t = dataset.Tools{Tokenizer: tok, Emit: emit}
	if s.files != "" { // else no tokenizer says where a template is
		render := s.template()
		t.Render = func(prompt string) (string, error) { return render([]chat.Message{{Role: "user", Content: prompt}}) }
		t.RenderMessages = func(raw json.RawMessage) (string, error) {
			messages, err := messagesOf(raw)
			if err != nil {
				return "", err
			}
			return render(messages)
		}
	}
	t.Hub, err = s.fetcher()
	return t, err
}

// fetcher is where a data set of the hub comes from: the one that the environment
// names as it does for Python's huggingface_hub. Others need none.
func (s *session) fetcher() (dataset.Fetcher, error) {
	if s.cfg.Dataset.Name != "hf" {
		return nil, nil
	}
	return hub.New(hub.FromEnv(os.Getenv))
}

// template opens the model's chat template when a data set first asks for it: one
// that needs none must not fail for its lack. A call of what it returns is safe for
// concurrent use.
func (s *session) template() func([]chat.Message) (string, error) {
	open := sync.OnceValues(func() (func([]chat.Message) (string, error), error) {
		t, err := chat.Open(s.files)
		if err != nil {
			want := "a chat backend, where the server renders it"
			if d := s.cfg.Dataset.Name; d != "spec_bench" && d != "sonnet" { // those have no choice
				want = "--skip-chat-template, or " + want
			}
			return nil, fmt.Errorf("%w; or want %s", err, want)
		}
		kwargs, err := chat.Kwargs(s.cfg.TemplateKwargs)
		if err != nil {
			return nil, fmt.Errorf("chat-template-kwargs: %w", err)
		}
		s.dated.Store(t.Dated())
		return func(messages []chat.Message) (string, error) { return t.Render(messages, kwargs) }, nil
	})
	return func(messages []chat.Message) (string, error) {
		render, err := open()
		if err != nil {
			return "", err
		}
		return render(messages)
	}
}

// messagesOf reads a chat of texts alone.
func messagesOf(raw json.RawMessage) ([]chat.Message, error) {
	var in []struct {
		Role    string
		Content *string
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, fmt.Errorf("messages for the chat template: %w; want a list of role and content, both texts", err)
	}
	out := make([]chat.Message, len(in))
	for i, m := range in {
		if m.Content == nil {
			return nil, fmt.Errorf("message %d for the chat template has no content; want a text", i)
		}
		out[i] = chat.Message{Role: m.Role, Content: *m.Content}
	}
	return out, nil
}
