//go:build hf && cgo

package tokenize

// extern const char *tokenizers_version(void);
import "C"

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/daulet/tokenizers"
)

var _ Tokenizer = (*local)(nil)

// local is the Rust tokenizer with what transformers puts around it.
type local struct {
	rust  *tokenizers.Tokenizer // freed by a cleanup once local is unreachable
	vocab Vocabulary
	clean bool
	memo  *memo        // nil where texts must be encoded whole
	table *decodeTable // nil where only the library decodes
}

// Open reads a tokenizer from a folder or a tokenizer.json; [Find] turns a hub
// id into such a path. Beside a file of that name (and in a folder) it reads
// tokenizer_config.json, special_tokens_map.json, added_tokens.json and
// config.json where they exist. In a build without the tag hf it returns
// [ErrNotBuilt]. The memory is released when the tokenizer becomes unreachable.
func Open(path string) (Tokenizer, error) {
	f, err := readFolder(path)
	if err != nil {
		return nil, fmt.Errorf("open tokenizer: %w", err)
	}
	r, err := resolve(f)
	if err != nil {
		return nil, fmt.Errorf("open tokenizer %s: %w", f.path, err)
	}
	t, err := load(r)
	if err != nil {
		return nil, fmt.Errorf("open tokenizer %s: %w", f.path, err)
	}
	return t, nil
}

func load(r resolved) (*local, error) {
	t := &local{vocab: r.vocab, clean: r.clean}
	if a := anchorsOf(r); !a.none() {
		t.memo = newMemo(a, func(text string) ([]int, error) { return t.encode(text, false) })
	}
	t.table = newDecodeTable(r)
	// Last: while the library reads the file, which is the peak of memory, the
	// vocabulary that was read here is garbage.
	if err := t.open(r.document, r.splitSpecial); err != nil {
		return nil, err
	}
	around, err := t.encode("", true)
	if err != nil {
		return nil, err
	}
	t.vocab.Added = len(around)
	return t, nil
}

func (t *local) open(document []byte, splitSpecial bool) error {
	var options []tokenizers.TokenizerOption
	if splitSpecial {
		options = append(options, tokenizers.WithEncodeSpecialTokens())
	}
	rust, err := tokenizers.FromBytes(document, options...)
	if err != nil {
		return err
	}
	t.rust = rust
	// Not a finalizer on rust: it has none of its own, and Close takes care of its memory only once.
	runtime.AddCleanup(t, func(rust *tokenizers.Tokenizer) { _ = rust.Close() }, rust)
	return nil
}

// Encode implements [Tokenizer]. The context is looked at before the work only:
// a call into the library cannot be stopped.
func (t *local) Encode(ctx context.Context, text string, special bool) ([]int, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if t.memo != nil && !(special && t.vocab.Added > 0) {
		return t.memo.encode(text)
	}
	return t.encode(text, special)
}

func (t *local) encode(text string, special bool) ([]int, error) {
	text, err := toC(text)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	// Without options only ids cross the border; Encode would make a string of every token.
	encoding, err := t.rust.EncodeWithOptionsErr(text, special)
	runtime.KeepAlive(t)
	if err != nil {
		return nil, fmt.Errorf("encode %d bytes: %w", len(text), err)
	}
	ids := make([]int, len(encoding.IDs))
	for i, id := range encoding.IDs {
		ids[i] = int(id)
	}
	return ids, nil
}

// Decode implements [Tokenizer]; for the context see Encode.
func (t *local) Decode(ctx context.Context, ids []int) (string, error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	for _, id := range ids {
		if id < 0 || uint64(id) > math.MaxUint32 {
			return "", fmt.Errorf("decode: no token id: %d", id)
		}
	}
	text, err := t.decode(ids)
	if t.clean {
		text = cleanUp(text)
	}
	return text, err
}

func (t *local) decode(ids []int) (string, error) {
	if t.table != nil {
		return t.table.decode(ids), nil
	}
	narrow := make([]uint32, len(ids))
	for i, id := range ids {
		narrow[i] = uint32(id)
	}
	text, err := t.rust.DecodeErr(narrow, false)
	runtime.KeepAlive(t)
	if err != nil {
		return "", fmt.Errorf("decode %d ids: %w", len(ids), err)
	}
	return fromC(text), nil
}

// Vocabulary implements [Tokenizer]; ok is true.
func (t *local) Vocabulary() (v Vocabulary, ok bool) {
	v = t.vocab
	for _, ids := range []*[]int{&v.Special, &v.Others, &v.Missing, &v.Control} {
		*ids = slices.Clone(*ids)
	}
	return v, true
}

// nulPair stands for NUL in C strings, as in Java's modified UTF-8; valid UTF-8
// never holds it. A libtokenizers.a that build-lib.sh made translates it.
const nulPair = "\xC0\x80"

// patched tells whether the linked libtokenizers.a is build-lib.sh's.
var patched = sync.OnceValue(func() bool {
	return strings.Contains(C.GoString(C.tokenizers_version()), "+servebench.")
})

var errNUL = errors.New("text with a NUL byte: the linked libtokenizers.a is not the one of tokenize/build-lib.sh")

func toC(text string) (string, error) {
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	if !strings.Contains(text, "\x00") {
		return text, nil
	}
	if !patched() {
		return "", errNUL
	}
	return strings.ReplaceAll(text, "\x00", nulPair), nil
}

func fromC(text string) string { return strings.ReplaceAll(text, nulPair, "\x00") }
