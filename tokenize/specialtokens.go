package tokenize

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// SpecialTokens returns the special tokens by name ("bos_token", "image_token")
// that transformers gives to a chat template (special_tokens_map): those of its
// class, of tokenizer_config.json and of special_tokens_map.json. path is what
// [Open] takes, but tokenizer.json need not exist. It works in every build.
func SpecialTokens(path string) (map[string]string, error) {
	tokens, err := specialTokens(path)
	if err != nil {
		return nil, fmt.Errorf("read special tokens: %w", err)
	}
	return tokens, nil
}

func specialTokens(path string) (map[string]string, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if stat.IsDir() {
		path = filepath.Join(path, fileName)
	}
	f := folder{path: path}
	if filepath.Base(path) == fileName {
		err = errors.Join(
			f.readBeside("tokenizer_config.json", &f.config),
			f.readBeside("special_tokens_map.json", &f.specialMap),
			f.readBeside("config.json", &f.model),
		)
	}
	if err != nil {
		return nil, err
	}
	marks, err := namedTokens(f)
	if err != nil {
		return nil, err
	}
	tokens := marks.named
	addOwnNames(tokens, f.config)
	if f.config.get("added_tokens_decoder") == nil {
		addOwnNames(tokens, f.specialMap)
	}
	return tokens, nil
}

// addOwnNames adds the tokens under a model's own names, which specials keeps
// without the names. What is no token has been refused before.
func addOwnNames(tokens map[string]string, config object) {
	add := func(o object) {
		for _, m := range o {
			token, ok, err := tokenText(m.value)
			if err == nil && ok && !slices.Contains(attributes, m.key) {
				tokens[m.key] = token
			}
		}
	}
	add(slices.DeleteFunc(slices.Clone(config), func(m member) bool {
		return !strings.HasSuffix(m.key, "_token") || strings.HasPrefix(m.key, "add_")
	}))
	var named object
	if json.Unmarshal(config.get("extra_special_tokens"), &named) == nil {
		add(named)
	}
}

func namedTokens(f folder) (specials, error) {
	_, info, _, err := classOf(f, source{})
	if err != nil {
		return specials{}, err
	}
	marks, err := readSpecials(f, info.Defaults)
	if err != nil || marks.named["pad_token"] != "" {
		return marks, err
	}
	// The pad token may stand in tokenizer.json alone, which is read for it only.
	var src source
	document, err := readFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return marks, nil
	}
	if err == nil {
		err = json.Unmarshal(document, &src.document)
	}
	if err != nil {
		return marks, fmt.Errorf("%s: %w", f.path, err)
	}
	padFromFile(&marks, f, info, src)
	return marks, nil
}
