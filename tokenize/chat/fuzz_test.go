package chat

import (
	"path/filepath"
	"testing"
	"unicode/utf8"
)

// FuzzRender: no template panics, renders without end or makes bytes that are not
// UTF-8 of text that is.
func FuzzRender(f *testing.F) {
	for _, source := range constructs(f) {
		f.Add(source, "content")
	}
	variables := constructVariables(f)
	f.Fuzz(func(t *testing.T, source, content string) {
		p, err := compile(source)
		if err != nil {
			return
		}
		here := map[string]any{"messages": conversation([]Message{{"user", content}, {"assistant", content}})}
		for name, v := range variables {
			if name != "messages" {
				here[name] = v
			}
		}
		text, err := p.render(here, &run{now: renderPy, maxSteps: 100_000})
		if err == nil && utf8.ValidString(source) && utf8.ValidString(content) && !utf8.ValidString(text) {
			t.Errorf("not UTF-8: %q", text)
		}
	})
}

// FuzzOpen: no tokenizer_config.json or template file panics.
func FuzzOpen(f *testing.F) {
	for _, config := range []string{
		`{"chat_template": "{{ bos_token }}", "bos_token": {"content": "<s>"}}`, `{"chat_template": [{"name": "default", "template": "x"}]}`,
		`{"chat_template": {"default": "x"}}`, `{`, `[]`, `{"chat_template": null, "extra_special_tokens": {"a_token": "x"}}`,
	} {
		f.Add([]byte(config), []byte(config), []byte(""))
		f.Add([]byte(config), []byte(`{"bos_token": "m"}`), []byte("{{ bos_token }}"))
	}
	f.Fuzz(func(t *testing.T, config, specialMap, jinja []byte) {
		files := map[string]string{
			"tokenizer_config.json": string(config), "special_tokens_map.json": string(specialMap), "chat_template.json": string(config),
		}
		if len(jinja) > 0 {
			files["chat_template.jinja"] = string(jinja)
		}
		template, err := Open(filepath.Join(folder(t, files), "tokenizer.json"))
		if err == nil && template == nil {
			t.Error("neither a template nor an error")
		}
	})
}

// FuzzKwargs: what is read can be rendered.
func FuzzKwargs(f *testing.F) {
	f.Add([]byte(`{"enable_thinking": false, "tools": [{"a": {"b": 1.5e300}}]}`))
	f.Add([]byte(`{"chat_template": "{{ x }}", "x": null}`))
	f.Fuzz(func(t *testing.T, object []byte) {
		kwargs, err := Kwargs(object)
		if err != nil {
			return
		}
		template := &Template{named: map[string]string{"default": "{{ x }}{{ tools|tojson }}"}, single: true}
		_, _ = template.Render(hi, kwargs) // an error is fine, a panic is one
	})
}
