package tokenize

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxFile bounds a tokenizer.json; Gemma's, the largest known, has 33 MB.
const maxFile = 512 << 20

// folder is what a model's folder says of its tokenizer, still as JSON. A file
// that does not exist is empty.
type folder struct {
	path        string // of tokenizer.json
	document    []byte
	config      object         // tokenizer_config.json
	specialMap  object         // special_tokens_map.json
	addedTokens map[string]int // added_tokens.json
	model       struct {       // config.json
		Type           string `json:"model_type"`
		Name           string `json:"model_name"`
		TokenizerClass string `json:"tokenizer_class"`
	}
}

// readFolder reads path, a folder or a file. The files around it count for a file
// called tokenizer.json only.
func readFolder(path string) (folder, error) {
	path, err := locate(path)
	if err != nil {
		return folder{}, err
	}
	f := folder{path: path}
	if f.document, err = readFile(path); err != nil {
		return folder{}, err
	}
	if filepath.Base(path) != fileName {
		return f, nil
	}
	return f, errors.Join(
		f.readBeside("tokenizer_config.json", &f.config),
		f.readBeside("special_tokens_map.json", &f.specialMap),
		f.readBeside("added_tokens.json", &f.addedTokens),
		f.readBeside("config.json", &f.model),
	)
}

func (f *folder) readBeside(name string, v any) error {
	path, err := locate(filepath.Join(filepath.Dir(f.path), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	data, err := readFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	stat, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if stat.Size() > maxFile {
		return nil, fmt.Errorf("read %s: %d bytes, more than %d", path, stat.Size(), maxFile)
	}
	// Bounded again: a file may grow, and some have no size.
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("read %s: more than %d bytes", path, maxFile)
	}
	return data, err
}

// object is a JSON object in the order of its members, which decides the ids of
// added tokens. Of a repeated key the last value counts, at the first's place.
type object []member

type member struct {
	key   string
	value json.RawMessage
}

// UnmarshalJSON implements [json.Unmarshaler]; anything but an object is an error.
func (o *object) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if token, err := decoder.Token(); err != nil {
		return err
	} else if token != json.Delim('{') {
		return fmt.Errorf("want a JSON object, got %.20s", data)
	}
	*o = nil
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		if len(*o) == maxMembers {
			return fmt.Errorf("JSON object of more than %d members", maxMembers)
		}
		o.set(key.(string), value)
	}
	return nil
}

// maxMembers bounds an object that is searched member by member.
const maxMembers = 4096

func (o object) get(key string) json.RawMessage {
	for _, m := range o {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

func (o *object) set(key string, value json.RawMessage) {
	for i := range *o {
		if (*o)[i].key == key {
			(*o)[i].value = value
			return
		}
	}
	*o = append(*o, member{key, value})
}

// bytes returns the object's JSON. The values go in as they are: [json.Marshal]
// would check and escape megabytes again.
func (o object) bytes() []byte {
	size := 2
	for _, m := range o {
		size += 2*len(m.key) + len(m.value) + 8
	}
	out := make([]byte, 0, size)
	for i, m := range o {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		key, _ := json.Marshal(m.key) // a string
		out = append(append(append(append(out, separator), key...), ':'), m.value...)
	}
	if len(o) == 0 {
		out = append(out, '{')
	}
	return append(out, '}')
}

// isNull tells a value that is absent or null.
func isNull(value json.RawMessage) bool {
	return len(value) == 0 || bytes.Equal(bytes.TrimSpace(value), []byte("null"))
}
