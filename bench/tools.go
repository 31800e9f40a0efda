package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/dataset/hub"
	"github.com/servebench/servebench/tokenize"
)

// tools are what a data set of this run may use.
func (s *session) tools(tok tokenize.Tokenizer, emit func(int, *dataset.Request) error) (t dataset.Tools, err error) {
	t = dataset.Tools{Tokenizer: tok, Render: s.render(), Emit: emit}
	t.Hub, err = s.fetcher()
	return t, err
}

// renderer renders a chat template around one user message.
type renderer func(prompt string) (string, error)

// openTemplate reads the chat template that lies beside a tokenizer; kwargs are
// the template's own arguments.
func openTemplate(tokenizer string, kwargs map[string]any) (renderer, error) {
	return nil, errors.New("chat templates are not built in; want skip-chat-template, or a chat backend, where the server renders it")
}

// fetcher is where a data set of the hub comes from: the one that the environment
// names as it does for Python's huggingface_hub. Others need none.
func (s *session) fetcher() (dataset.Fetcher, error) {
	if s.cfg.Dataset.Name != "hf" {
		return nil, nil
	}
	return hub.New(hub.FromEnv(os.Getenv))
}

// render opens the model's chat template when a data set first asks for it: one
// that needs none must not fail for its lack. It is nil where no tokenizer says
// where a template is.
func (s *session) render() func(prompt string) (string, error) {
	if s.files == "" {
		return nil
	}
	open := sync.OnceValues(func() (renderer, error) {
		var kwargs map[string]any
		if len(s.cfg.TemplateKwargs) > 0 {
			if err := json.Unmarshal(s.cfg.TemplateKwargs, &kwargs); err != nil {
				return nil, fmt.Errorf("chat-template-kwargs: %w", err)
			}
		}
		return openTemplate(s.files, kwargs)
	})
	return func(prompt string) (string, error) {
		render, err := open()
		if err != nil {
			return "", err
		}
		return render(prompt)
	}
}
