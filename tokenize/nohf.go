//go:build !hf || !cgo

package tokenize

import "fmt"

// Open reads a tokenizer from a folder or a tokenizer.json; [Find] turns a hub
// id into such a path. In a build without the tag hf or without cgo, which this is, it
// returns [ErrNotBuilt].
func Open(path string) (Tokenizer, error) {
	return nil, fmt.Errorf("open tokenizer %s: %w", path, ErrNotBuilt)
}
