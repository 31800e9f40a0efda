package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// folder writes files, by name, into a new folder.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var hi = []Message{{"user", "hi"}}

// TestOpenPrefers: transformers' order of the places that a template may stand in.
func TestOpenPrefers(t *testing.T) {
	const config = `{"chat_template": "config {{ bos_token }}", "bos_token": "<s>"}`
	const list = `{"chat_template": [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "list"}]}`
	for _, test := range []struct {
		name  string
		files map[string]string
		want  string
	}{
		{"the config's string", map[string]string{"tokenizer_config.json": config}, "config <s>"},
		{"the config's list, by name", map[string]string{"tokenizer_config.json": list}, "list"},
		{"a file over the config", map[string]string{"tokenizer_config.json": config, "chat_template.jinja": "file {{ bos_token }}\n"}, "file <s>"},
		{"the config over the processor's file", map[string]string{"tokenizer_config.json": config, "chat_template.json": `{"chat_template": "processor"}`}, "config <s>"},
		{"the processor's file where there is nothing else", map[string]string{"tokenizer_config.json": `{"bos_token": "<s>"}`, "chat_template.json": `{"chat_template": "processor {{ bos_token }}"}`}, "processor <s>"},
		{"a token as an object", map[string]string{"tokenizer_config.json": `{"chat_template": "{{ bos_token }}{{ eos_token }}", "bos_token": {"content": "<b>", "lstrip": false}, "eos_token": null}`}, "<b>"},
		{"tokens of special_tokens_map.json", map[string]string{"chat_template.jinja": "{{ bos_token }}{{ image_token }}", "special_tokens_map.json": `{"bos_token": "<m>", "image_token": "<img>"}`}, "<m><img>"},
		{"a class's own token", map[string]string{"chat_template.jinja": "{{ bos_token }}", "tokenizer_config.json": `{"tokenizer_class": "GPT2Tokenizer"}`}, "<|endoftext|>"},
	} {
		dir := folder(t, test.files)
		template, err := Open(dir)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if got, err := template.Render(hi, nil); err != nil || got != test.want {
			t.Errorf("%s: %q, %v; want %q", test.name, got, err, test.want)
		}
	}
}

// TestOpenFile: a tokenizer.json stands for its folder, another file for itself.
func TestOpenFile(t *testing.T) {
	dir := folder(t, map[string]string{"tokenizer.json": "{}", "other.json": "{}", "chat_template.jinja": "x"})
	template, err := Open(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := template.Render(hi, nil); err != nil || got != "x" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Open(filepath.Join(dir, "other.json")); !errors.Is(err, ErrNone) {
		t.Errorf("another file: %v, want ErrNone", err)
	}
}

// TestNone: without a template only the argument's can be rendered.
func TestNone(t *testing.T) {
	for _, files := range []map[string]string{
		{}, {"tokenizer_config.json": `{"chat_template": null}`}, {"tokenizer_config.json": `{"chat_template": []}`},
	} {
		template, err := Open(folder(t, files))
		if !errors.Is(err, ErrNone) {
			t.Fatalf("%v: %v, want ErrNone", files, err)
		}
		if _, err := template.Render(hi, nil); !errors.Is(err, ErrNone) {
			t.Errorf("%v: %v, want ErrNone", files, err)
		}
		got, err := template.Render(hi, map[string]any{"chat_template": "{{ messages[0].content }}"})
		if err != nil || got != "hi" {
			t.Errorf("%v: %q, %v", files, got, err)
		}
	}
}

// TestNames: several templates are chosen as get_chat_template does.
func TestNames(t *testing.T) {
	template, err := Open(folder(t, map[string]string{
		"chat_template.jinja": "default", "additional_chat_templates/tool_use.jinja": "tools {{ tools|length }}",
		"additional_chat_templates/rag.jinja": "rag",
	}))
	if err != nil {
		t.Fatal(err)
	}
	nameless, err := Open(folder(t, map[string]string{"additional_chat_templates/rag.jinja": "rag"}))
	if err != nil {
		t.Fatal(err)
	}
	tools := json.RawMessage(`[{"name": "f"}]`)
	for _, test := range []struct {
		name     string
		template *Template
		kwargs   map[string]any
		want     string
	}{
		{"the default", template, nil, "default"},
		{"tool_use with tools", template, map[string]any{"tools": tools}, "tools 1"},
		{"by name", template, map[string]any{"chat_template": "rag", "tools": tools}, "rag"},
		{"a source that is no name", template, map[string]any{"chat_template": "own"}, "own"},
		{"by name without a default", nameless, map[string]any{"chat_template": "rag"}, "rag"},
	} {
		if got, err := test.template.Render(hi, test.kwargs); err != nil || got != test.want {
			t.Errorf("%s: %q, %v; want %q", test.name, got, err, test.want)
		}
	}
	if _, err := nameless.Render(hi, nil); err == nil || !strings.Contains(err.Error(), `"rag"`) {
		t.Errorf("no default: %v; want the names", err)
	}
}

// TestOpenRefuses: a damaged folder is an error that names the file.
func TestOpenRefuses(t *testing.T) {
	for _, test := range []struct {
		name, file, text, want string
	}{
		{"no JSON", "tokenizer_config.json", `{"chat_template": `, "tokenizer_config.json"},
		{"not an object", "tokenizer_config.json", `[]`, "tokenizer_config.json"},
		{"a number", "tokenizer_config.json", `{"chat_template": 5}`, "want a string, or a list"},
		{"a list of strings", "tokenizer_config.json", `{"chat_template": ["x"]}`, "chat_template"},
		{"no name", "tokenizer_config.json", `{"chat_template": [{"template": "x"}]}`, "name and template"},
		{"not UTF-8", "chat_template.jinja", "a\xffb", "not UTF-8"},
		{"a folder", "chat_template.jinja/x", "", "not a regular file"},
		{"syntax", "chat_template.jinja", "a\nb\n{% if x %}\n{{ 'y' }", "line 4"},
		{"open block", "chat_template.jinja", "{% if x %}", "endif"},
		{"unknown tag", "chat_template.jinja", "\n{% do x %}", "do"},
		{"include", "chat_template.jinja", "{% include '/etc/passwd' %}", "not supported"},
		{"import", "chat_template.jinja", "{% from 'x' import y %}", "not supported"},
	} {
		_, err := Open(folder(t, map[string]string{test.file: test.text}))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want %q in it", test.name, err, test.want)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
}

// TestArguments: what apply_chat_template refuses is refused, and what it keeps
// for itself does not reach the template.
func TestArguments(t *testing.T) {
	template := &Template{named: map[string]string{"default": "{{ padding is defined }}{{ x }}"}, single: true}
	for _, test := range []struct {
		kwargs    string
		want, err string
	}{
		{`{}`, "False", ""},
		{`{"padding": true, "return_dict": false, "x": 1}`, "False1", ""},
		{`{"x": 1.0}`, "False1.0", ""},
		{`{"x": {"b": 1, "a": [null, true]}}`, "False{'b': 1, 'a': [None, True]}", ""},
		{`{"chat_template": null, "tools": null}`, "False", ""},
		{`{"add_generation_prompt": false}`, "", "add_generation_prompt: it is set already"},
		{`{"tokenize": true}`, "", "tokenize: it is set already"},
		{`{"messages": []}`, "", "messages: it is set already"},
		{`{"continue_final_message": true}`, "", "continue_final_message"},
		{`{"tools": {"a": 1}}`, "", "tools: want a list of objects"},
		{`{"documents": ["x"]}`, "", "documents: want a list of objects"},
		{`{"chat_template": 5}`, "", "chat_template: want a string"},
		{`{"chat_template": "{{"}`, "", "read chat template: line 1"},
	} {
		kwargs, err := Kwargs([]byte(test.kwargs))
		if err != nil {
			t.Fatal(err)
		}
		got, err := template.Render(hi, kwargs)
		if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: %v; want %q in it", test.kwargs, err, test.err)
		}
		if test.err == "" && (err != nil || got != test.want) {
			t.Errorf("%s: %q, %v; want %q", test.kwargs, got, err, test.want)
		}
	}
	if _, err := template.Render(nil, nil); err == nil {
		t.Error("no error for no messages")
	}
}

// TestGoValues: arguments that were decoded by encoding/json.
func TestGoValues(t *testing.T) {
	template := &Template{named: map[string]string{"default": "{{ x }}"}, single: true}
	for _, test := range []struct {
		value     any
		want, err string
	}{
		{5.0, "5", ""}, {5.5, "5.5", ""}, {json.Number("5.0"), "5.0", ""}, {7, "7", ""}, {true, "True", ""},
		{[]any{1.0, "a", nil}, "[1, 'a', None]", ""}, {map[string]any{"k": 1.0}, "{'k': 1}", ""},
		{json.RawMessage(`{"b": 1, "a": 2}`), "{'b': 1, 'a': 2}", ""},
		{map[string]any{"b": 1, "a": 2}, "", "lost the order"},
		{time.Second, "", "not supported"},
		{json.RawMessage(`{`), "", "argument x"},
	} {
		got, err := template.Render(hi, map[string]any{"x": test.value})
		if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%v: %v; want %q in it", test.value, err, test.err)
		}
		if test.err == "" && (err != nil || got != test.want) {
			t.Errorf("%v: %q, %v; want %q", test.value, got, err, test.want)
		}
	}
}

func TestKwargsRefuses(t *testing.T) {
	for _, text := range []string{`[]`, `5`, `{"a":`, `{} {}`, `{"a": 99999999999999999999}`, `x`} {
		if got, err := Kwargs([]byte(text)); err == nil {
			t.Errorf("%s: %v, want an error", text, got)
		}
	}
	for _, text := range []string{``, ` `, `null`, `{}`} {
		if got, err := Kwargs([]byte(text)); err != nil || len(got) != 0 {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// TestBounds: a hostile template ends in an error.
func TestBounds(t *testing.T) {
	deep := strings.Repeat("(", 100_000)
	for _, source := range []string{
		"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
		"{% for i in range(99999999) %}{% endfor %}",
		"{% for i in range(100000) %}{{ 'x' * 1000000 }}{% endfor %}",
		"{{ 'x' * 99999999999 }}", "{{ 'x' * 9223372036854775807 }}", "{{ [0] * 9223372036854775807 }}", "{{ [[]] * 999999999 }}",
		"{{ ([] * 9223372036854775807) }}{{ 1 // 0 }}",
		"{% set ns = namespace(x='xxxxxxxx') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
		"{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
		"{% set ns = namespace(x=[1]) %}{% for i in range(100000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
		"{% set ns = namespace(x=[1]) %}{% for i in range(50) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}",
		"{% set ns = namespace(x=1) %}{% set ns.x = [ns] %}{{ ns.x }}",
		"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{% macro m(x) %}{{ m([[[x]]]) }}{% endmacro %}{{ m(1) }}",
		"{% for x in [[1]] recursive %}{{ loop([[x]]) }}{% endfor %}",
		"{{ 'x'.center(99999999999) }}", "{{ 'x'.zfill(99999999999) }}", "{{ 'a\nb'|indent(99999999999) }}", "{{ [1]|tojson(indent=99999999999) }}",
		"{{ ('x' * 1000000).replace('x', 'x' * 1000000) }}", "{{ ('x' * 60000000) ~ ('x' * 60000000) }}",
		"{{ ('x' * 1000000).join(['a'] * 1000000) }}", "{{ ['x' * 1000000] * 1000 }}",
		"{{ '%999999999d' % 1 }}", "{{ '%9999s' % ('x' * 60000000) ~ 'y' * 60000000 }}",
		"{{ [1]|batch(999999999, 0)|list }}", "{{ [1]|slice(999999999)|list }}", "{{ 2 ** 999999999999 }}",
		"{{ " + deep + " }}", "{{ " + strings.Repeat("[", 100_000) + " }}", "{{ " + strings.Repeat("not ", 100_000) + "x }}",
		"{{ " + strings.Repeat("-", 100_000) + "1 }}", "{{ 1" + strings.Repeat(" + 1", 100_000) + " }}",
		strings.Repeat("{% if x %}", 10_000), strings.Repeat("{% for x in y %}", 10_000),
		"{% set " + deep + "x %}", "{{ x" + strings.Repeat("|list", 50_000) + " }}", "{{ x" + strings.Repeat(".a", 50_000) + " }}",
	} {
		text, err := (&Template{}).Render(hi, map[string]any{"chat_template": source})
		if err == nil {
			t.Errorf("%.80s: no error, %d bytes", source, len(text))
		}
	}
}

// TestNoLeak: a template that fails gives no part of its text.
func TestNoLeak(t *testing.T) {
	text, err := (&Template{}).Render(hi, map[string]any{"chat_template": "some{{ raise_exception('why') }}"})
	const want = "render chat template: line 1: the template refuses: why"
	if text != "" || err == nil || err.Error() != want {
		t.Errorf("%q, %v; want no text and %q", text, err, want)
	}
}

func TestDated(t *testing.T) {
	for source, want := range map[string]bool{
		"{{ strftime_now('%d %b %Y') }}":                            true,
		"{% if strftime_now is defined %}x{% endif %}":              true,
		"{{ messages }} strftime_now {{ 'strftime_now' }}":          false,
		"{# strftime_now #}{% raw %}{{ strftime_now }}{% endraw %}": false,
	} {
		template, err := Open(folder(t, map[string]string{"chat_template.jinja": source}))
		if err != nil {
			t.Fatal(err)
		}
		if got := template.Dated(); got != want {
			t.Errorf("%s: %t", source, got)
		}
	}
}

// TestConcurrent: goroutines share a template and its loops.
func TestConcurrent(t *testing.T) {
	template := &Template{named: map[string]string{
		"default": "{% macro m(x) %}<{{ x }}{{ loop }}{% endmacro %}{% set ns = namespace(n=0) %}{% for m2 in messages %}" +
			"{% set ns.n = ns.n + m2.content|length %}{{ loop.index }}{{ m(m2.content) }}{% endfor %}{{ ns.n }}",
	}, single: true}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			content := strings.Repeat("x", i)
			want := fmt.Sprintf("1<%s2<%s%d", content, content, 2*i)
			for range 50 {
				got, err := template.Render([]Message{{"user", content}, {"user", content}}, nil)
				if err != nil || got != want {
					t.Errorf("%q, %v; want %q", got, err, want)
				}
			}
		})
	}
	group.Wait()
}

// TestKwargsAreNotChanged: rendering leaves the caller's arguments alone.
func TestKwargsAreNotChanged(t *testing.T) {
	kwargs, err := Kwargs([]byte(`{"x": {"a": [1]}}`))
	if err != nil {
		t.Fatal(err)
	}
	source := "{% set y = x %}{% for x in [1] %}{% set y = x %}{% endfor %}{{ x }}"
	kwargs["chat_template"] = source
	for range 2 {
		if got, err := (&Template{}).Render(hi, kwargs); err != nil || got != "{'a': [1]}" {
			t.Errorf("%q, %v", got, err)
		}
	}
	want := map[string]bool{"x": true, "chat_template": true}
	got := map[string]bool{}
	for name := range kwargs {
		got[name] = true
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
