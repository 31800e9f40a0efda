package tokenize

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// SpecialTokens returns the special tokens by name ("bos_token") that transformers
// gives to a chat template: those of its class, of tokenizer_config.json and of
// special_tokens_map.json. path is what [Open] takes, but tokenizer.json need not
// exist. It works in every build.
func SpecialTokens(path string) (map[string]string, error) {
	marks, err := specialTokens(path)
	if err != nil {
		return nil, fmt.Errorf("read special tokens: %w", err)
	}
	return marks.named, nil
}

func specialTokens(path string) (specials, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return specials{}, err
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
		return specials{}, err
	}
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
	document, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return marks, nil
	}
	if err == nil {
		err = json.Unmarshal(document, &src.document)
	}
	if err != nil {
		return marks, fmt.Errorf("%s: %w", path, err)
	}
	padFromFile(&marks, f, info, src)
	return marks, nil
}
