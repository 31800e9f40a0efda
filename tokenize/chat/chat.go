// Package chat renders the chat template of a model's folder as transformers'
// apply_chat_template does.
//
// A template is Jinja2 as transformers sets it up: a sandbox that changes no list
// or dict, trim_blocks, lstrip_blocks, break and continue, tojson without HTML
// escapes, raise_exception and strftime_now.
//
// gonja parses the tags and walks the template; its lexer, its expressions and
// its control structures are replaced, because they render other text than Jinja2
// without saying so: none prints nothing, an undefined name is none, an error
// inside a list is dropped. What is not followed is an error that says so, never
// another text. docs/chat-templates.md lists it, with the real templates that were
// compared.
package chat

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/nikolalohinski/gonja/v2/config"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
)

// ErrNone is returned by [Open] for a folder without a chat template.
var ErrNone = errors.New("no chat template: want chat_template.jinja, or chat_template in tokenizer_config.json")

// Message is one turn of a conversation.
type Message struct{ Role, Content string }

// Template is the chat template of one model, or several under names. It is safe
// for concurrent use. The zero value has no template of its own.
type Template struct {
	named   map[string]string // by name
	single  bool              // named has "default" only, and no name counts
	special map[string]string // bos_token and its like
	now     func() time.Time  // nil: time.Now

	mu       sync.Mutex
	programs map[string]*program // by source
}

// Dated says that a template of the model may show today's date (strftime_now):
// another day then renders another text.
func (t *Template) Dated() bool {
	for _, source := range t.named {
		if p, err := t.program(source); err == nil && p.dated {
			return true
		}
	}
	return false
}

// Render returns what
//
//	tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False, **kwargs)
//
// returns. [Kwargs] reads kwargs from JSON; other values may be what encoding/json
// decodes to, where a whole float64 counts as an integer and an object of several
// members must be a [json.RawMessage], since a Go map has no order.
//
// A template that refuses the messages (raise_exception) is an error with its
// words. A template that does not end, or grows beyond 16 MiB, is an error too.
func (t *Template) Render(messages []Message, kwargs map[string]any) (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			text, err = "", fmt.Errorf("render chat template: %v", p)
		}
	}()
	source, variables, err := t.arguments(messages, kwargs)
	if err != nil {
		return "", fmt.Errorf("render chat template: %w", err)
	}
	p, err := t.program(source)
	if err != nil {
		return "", fmt.Errorf("read chat template: %w", err)
	}
	now := t.now
	if now == nil {
		now = time.Now
	}
	text, err = p.render(variables, &run{now: now, maxSteps: maxSteps})
	if err != nil {
		return "", fmt.Errorf("render chat template: %w", err)
	}
	return text, nil
}

func (p *program) render(variables map[string]any, r *run) (string, error) {
	out := &sink{run: r}
	names := exec.NewContext(globals).Inherit()
	for name, v := range variables {
		names.Set(name, v)
	}
	err := nodes.Walk(&exec.Renderer{
		Config:      config.New(),
		Environment: &exec.Environment{Context: names.Inherit()},
		RootNode:    p.root,
		Output:      out,
	}, p.root)
	// gonja wraps an error once for every block around it.
	if own, ok := errors.AsType[*lineError](err); ok {
		err = own
	}
	if err != nil {
		return "", err
	}
	return out.Builder.String(), nil
}

// arguments sorts kwargs as apply_chat_template does: some are its own, the rest
// are the template's variables.
func (t *Template) arguments(messages []Message, kwargs map[string]any) (source string, variables map[string]any, err error) {
	if len(messages) == 0 {
		return "", nil, errors.New("an empty conversation; want one message at least")
	}
	variables = map[string]any{"tools": nil, "documents": nil}
	for name, token := range t.special {
		variables[name] = token
	}
	own := map[string]any{}
	for name, v := range kwargs {
		value, err := fromGo(v)
		if err != nil {
			return "", nil, fmt.Errorf("argument %s: %w", name, err)
		}
		switch name {
		case "add_generation_prompt", "tokenize", "conversation", "conversations", "messages":
			return "", nil, fmt.Errorf("argument %s: it is set already, as it is by vllm bench serve", name)
		case "chat_template", "continue_final_message", "return_assistant_tokens_mask":
			own[name] = value
		case "padding", "truncation", "max_length", "return_tensors", "return_dict", "tokenizer_kwargs":
			// These are for the tokens, which are not made here.
		default:
			variables[name] = value
		}
	}
	if truth(own["continue_final_message"]) || truth(own["return_assistant_tokens_mask"]) {
		return "", nil, errors.New("continue_final_message and return_assistant_tokens_mask do not go with a generation prompt as text")
	}
	err = errors.Join(wantDicts("tools", variables["tools"]), wantDicts("documents", variables["documents"]))
	if err != nil {
		return "", nil, err
	}
	source, err = t.choose(own["chat_template"], variables["tools"] != nil)
	variables["messages"] = conversation(messages)
	variables["add_generation_prompt"] = true
	return source, variables, err
}

func wantDicts(name string, v any) error {
	if v == nil {
		return nil
	}
	q, ok := v.(*sequence)
	if !ok || slices.ContainsFunc(q.items, func(v any) bool { _, ok := v.(*dict); return !ok }) {
		return fmt.Errorf("argument %s: want a list of objects", name)
	}
	return nil
}

func conversation(messages []Message) *sequence {
	all := newList()
	for _, m := range messages {
		d := &dict{}
		// A string is a key always.
		_ = d.set("role", m.Role)
		_ = d.set("content", m.Content)
		all.items = append(all.items, d)
	}
	return all
}

// choose returns the source of the template to use. given is the argument
// chat_template: a name of one, a source, or nil.
func (t *Template) choose(given any, tools bool) (string, error) {
	if given != nil {
		source, ok := given.(string)
		if !ok {
			return "", errors.New("argument chat_template: want a string")
		}
		if named, ok := t.named[source]; ok && !t.single {
			return named, nil
		}
		return source, nil
	}
	if source, ok := t.named["tool_use"]; ok && tools && !t.single {
		return source, nil
	}
	if source, ok := t.named["default"]; ok {
		return source, nil
	}
	if len(t.named) == 0 {
		return "", ErrNone
	}
	return "", fmt.Errorf("several chat templates and none is the default; want the argument chat_template: one of %q",
		slices.Sorted(maps.Keys(t.named)))
}

// maxPrograms bounds the templates that are kept: the model's, and what the
// argument chat_template gave.
const maxPrograms = 32

// program returns the read template of a source.
func (t *Template) program(source string) (*program, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.programs[source]; ok {
		return p, nil
	}
	p, err := compile(source)
	if err != nil {
		return nil, err
	}
	if t.programs == nil || len(t.programs) == maxPrograms {
		t.programs = map[string]*program{}
	}
	t.programs[source] = p
	return p, nil
}
