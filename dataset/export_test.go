package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/servebench/servebench/tokenize"
)

// MediaPixels is a random-mm data set with [height, width, digest of the pixels]
// in place of each image: JPEG loses the pixels.
func MediaPixels(ctx context.Context, s Spec, tok tokenize.Tokenizer) ([]Request, error) {
	var name string
	gen, err := s.mediaMaker(tok, &name)
	if err != nil {
		return nil, err
	}
	m := gen.(*mediaPrompts)
	m.draw = func(it mediaItem) (json.RawMessage, error) {
		return fmt.Appendf(nil, `[%d,%d,"%x"]`, it.height, it.width, sha256.Sum256(it.pixels())), nil
	}
	return m.prompts(ctx, uint64(s.Seed), s.Prompts, nil)
}
