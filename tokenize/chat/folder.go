package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/servebench/servebench/tokenize"
)

// Open reads the chat template of a model. path is a folder, or the tokenizer.json
// in it, as for [tokenize.Open]; the file need not exist.
//
// As in transformers, chat_template.jinja and additional_chat_templates/*.jinja go
// before the chat_template of tokenizer_config.json. A folder without either, of a
// multimodal model, may have a chat_template.json, which transformers reads for
// the processor. With none of them the error is [ErrNone], and the Template
// renders with the argument chat_template only.
func Open(path string) (*Template, error) {
	t, err := open(path)
	if err != nil && t == nil {
		return nil, fmt.Errorf("open chat template: %w", err)
	}
	if err != nil {
		return t, fmt.Errorf("open chat template of %s: %w", path, err)
	}
	return t, nil
}

// open returns both a template and an error for [ErrNone].
func open(path string) (*Template, error) {
	special, err := tokenize.SpecialTokens(path)
	if err != nil {
		return nil, err
	}
	t := &Template{special: special}
	stat, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !stat.IsDir() {
		if filepath.Base(path) != "tokenizer.json" {
			return t, ErrNone // the files beside another name are not this tokenizer's
		}
		path = filepath.Dir(path)
	}
	for _, read := range []func(string) (map[string]string, bool, error){readJinja, readConfig, readProcessor} {
		if t.named, t.single, err = read(path); err != nil {
			return nil, err
		}
		if len(t.named) > 0 {
			break
		}
	}
	if len(t.named) == 0 {
		return t, ErrNone
	}
	if source, ok := t.named["default"]; ok {
		if _, err := t.program(source); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return t, nil
}

// readJinja reads the templates that are files of their own. single is true for
// one template that has no name.
func readJinja(folder string) (named map[string]string, single bool, err error) {
	named = map[string]string{}
	files, err := filepath.Glob(filepath.Join(escapeGlob(folder), "additional_chat_templates", "*.jinja"))
	if err != nil {
		return nil, false, err
	}
	for _, file := range append([]string{filepath.Join(folder, "chat_template.jinja")}, files...) {
		source, err := readText(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, false, err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".jinja")
		if name == "chat_template" && filepath.Dir(file) == filepath.Clean(folder) {
			name = "default"
		}
		named[name] = source
	}
	_, ok := named["default"]
	return named, ok && len(named) == 1, nil
}

// escapeGlob takes the meaning from the characters of a pattern.
func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func readConfig(folder string) (map[string]string, bool, error) {
	return readMember(filepath.Join(folder, "tokenizer_config.json"))
}

func readProcessor(folder string) (map[string]string, bool, error) {
	return readMember(filepath.Join(folder, "chat_template.json"))
}

// readMember reads the member chat_template of a JSON file: a string, a list of
// {name, template}, or an object of templates by name.
func readMember(file string) (named map[string]string, single bool, err error) {
	data, err := readText(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	var config struct {
		Template json.RawMessage `json:"chat_template"`
	}
	if err := json.Unmarshal([]byte(data), &config); err != nil {
		return nil, false, fmt.Errorf("read %s: %w", file, err)
	}
	named = map[string]string{}
	switch raw := bytes.TrimSpace(config.Template); {
	case len(raw) == 0 || bytes.Equal(raw, []byte("null")):
	case raw[0] == '"':
		var source string
		err = json.Unmarshal(raw, &source)
		named["default"], single = source, true
	case raw[0] == '{':
		err = json.Unmarshal(raw, &named)
	case raw[0] == '[':
		var list []struct{ Name, Template *string }
		err = json.Unmarshal(raw, &list)
		for _, one := range list {
			if one.Name == nil || one.Template == nil {
				return nil, false, fmt.Errorf("read %s: chat_template: want objects with name and template", file)
			}
			named[*one.Name] = *one.Template
		}
	default:
		err = errors.New("want a string, or a list of objects with name and template")
	}
	if err != nil {
		return nil, false, fmt.Errorf("read %s: chat_template: %w", file, err)
	}
	return named, single, nil
}

// maxFile bounds a file; a tokenizer_config.json with all tokens of a model has a
// few MB.
const maxFile = 64 << 20

func readText(path string) (string, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !stat.Mode().IsRegular() {
		return "", &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxFile {
		return "", fmt.Errorf("read %s: more than %d bytes", path, maxFile)
	}
	if !utf8.Valid(data) {
		return "", fmt.Errorf("read %s: not UTF-8", path)
	}
	return string(data), nil
}
