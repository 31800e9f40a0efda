package dataset

import (
	"fmt"
	"slices"

	"github.com/servebench/servebench/tokenize"
)

// vocabularyOf is what tok tells of its vocabulary; it may be nil.
func vocabularyOf(tok tokenize.Tokenizer) (v tokenize.Vocabulary, known bool) {
	if tok == nil {
		return v, false
	}
	return tok.Vocabulary()
}

// plainIDs are the ids of the base vocabulary without special tokens, ascending.
func plainIDs(v tokenize.Vocabulary) []int {
	ids := make([]int, 0, v.Size)
	for id := range v.Size {
		if _, special := slices.BinarySearch(v.Special, id); !special {
			ids = append(ids, id)
		}
	}
	return ids
}

// traceIDs are sorted(get_vocab().values()) of transformers without special
// tokens: added ones belong to it, ids that no token has do not.
func traceIDs(v tokenize.Vocabulary) []int {
	not := func(id int, list []int) bool {
		_, in := slices.BinarySearch(list, id)
		return !in
	}
	ids := make([]int, 0, v.Size+len(v.Others))
	for id := range v.Size {
		if not(id, v.Special) && not(id, v.Missing) {
			ids = append(ids, id)
		}
	}
	for _, id := range v.Others {
		if not(id, v.Special) {
			ids = append(ids, id)
		}
	}
	return ids
}

// someIDs is an error where a vocabulary left none to make prompts of.
func someIDs(v tokenize.Vocabulary, ids []int) error {
	if len(ids) == 0 {
		return fmt.Errorf("tokenizer: a vocabulary of %d tokens has no ordinary one to make prompts of", v.Size)
	}
	return nil
}

// unknownIDs are ids that all models of the day have.
func unknownIDs() []int {
	ids := make([]int, endID-firstID)
	for i := range ids {
		ids[i] = firstID + i
	}
	return ids
}
