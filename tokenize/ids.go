package tokenize

import "slices"

// fillIDs sets what v says of single ids: tokens are the added ones as [resolve]
// numbers them, of two with one id the last holds.
func (v *Vocabulary) fillIDs(vocab map[string]int, tokens []addedToken) {
	taken := make([]bool, v.Size)
	others := map[int]bool{}
	take := func(id int) {
		if id >= 0 && id < v.Size {
			taken[id] = true
		} else if id >= 0 {
			others[id] = true
		}
	}
	for _, id := range vocab {
		take(id)
	}
	control := map[int]bool{}
	for _, token := range tokens {
		take(token.ID)
		control[token.ID] = token.Special
	}
	for id, ok := range taken {
		if !ok {
			v.Missing = append(v.Missing, id)
		}
	}
	for id, ok := range control {
		if ok {
			v.Control = append(v.Control, id)
		}
	}
	for id := range others {
		v.Others = append(v.Others, id)
	}
	slices.Sort(v.Control)
	slices.Sort(v.Others)
}
