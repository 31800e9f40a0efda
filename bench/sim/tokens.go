package sim

import "slices"

// The vocabulary; the scheme is in the package comment.
const (
	maxLetters = 6
	wordCount  = 26 + 26*26 + 26*26*26 + 26*26*26*26 + 26*26*26*26*26 + 26*26*26*26*26*26 // 321,272,406

	byteCount   = 256
	spacedLower = byteCount + 0*wordCount
	spacedUpper = byteCount + 1*wordCount
	bareLower   = byteCount + 2*wordCount
	bareUpper   = byteCount + 3*wordCount
	vocabSize   = byteCount + 4*wordCount // 1,285,089,880: fits an int32
)

// nextToken returns the token that s starts with and its length in bytes. s must not be empty.
func nextToken(s string) (id int32, n int) {
	family := int32(bareLower)
	i := 0
	if s[0] == ' ' && len(s) > 1 {
		family, i = spacedLower, 1
	}
	c := s[i]
	switch {
	case 'a' <= c && c <= 'z':
	case 'A' <= c && c <= 'Z':
		family += wordCount
		c += 'a' - 'A'
	default:
		return int32(s[0]), 1
	}
	v := int32(c-'a') + 1
	end := min(len(s), i+maxLetters)
	for i++; i < end && 'a' <= s[i] && s[i] <= 'z'; i++ {
		v = v*26 + int32(s[i]-'a') + 1
	}
	return family + v - 1, i
}

// countTokens is len(tokenize(s)) without the ids.
func countTokens(s string) int {
	count := 0
	for len(s) > 0 {
		_, n := nextToken(s)
		s = s[n:]
		count++
	}
	return count
}

// tokenize returns the ids of s, never nil.
func tokenize(s string) []int32 {
	ids := make([]int32, 0, len(s)/5+1)
	for len(s) > 0 {
		id, n := nextToken(s)
		ids = append(ids, id)
		s = s[n:]
	}
	return ids
}

// appendToken appends the bytes of id, which must be inside the vocabulary.
func appendToken(dst []byte, id int32) []byte {
	if id < byteCount {
		return append(dst, byte(id))
	}
	id -= byteCount
	family := id / wordCount
	if family < 2 {
		dst = append(dst, ' ')
	}
	start := len(dst)
	for v := id%wordCount + 1; v > 0; v = (v - 1) / 26 {
		dst = append(dst, 'a'+byte((v-1)%26))
	}
	slices.Reverse(dst[start:])
	if family%2 == 1 {
		dst[start] -= 'a' - 'A'
	}
	return dst
}

// detokenize returns the text of ids, which must be inside the vocabulary.
func detokenize(ids []int32) string {
	var b []byte
	for _, id := range ids {
		b = appendToken(b, id)
	}
	return string(b)
}

// tokenString spells a token as byte-level BPE vocabularies do (and vLLM's token_strs show): printable Latin-1 bytes stand
// for themselves, the others for the runes from U+0100 on, so a space is "Ġ".
func tokenString(id int32) string {
	var out []rune
	for _, b := range appendToken(nil, id) {
		out = append(out, byteRunes[b])
	}
	return string(out)
}

var byteRunes = func() (table [256]rune) {
	next := rune(256)
	for b := range table {
		r := rune(b)
		if r < '!' || (r > '~' && r < 0xA1) || r == 0xAD {
			r, next = next, next+1
		}
		table[b] = r
	}
	return table
}()

// words is the generated text: token k of a request is words[(first+k)%len(words)]. Each is one token with its leading
// space and needs no escaping in JSON. Their number is a power of two.
var words = [64]string{
	" the", " river", " runs", " past", " a", " quiet", " town", " where", " old", " stone", " houses", " stand",
	" and", " people", " sell", " bread", " at", " dawn", " while", " boats", " drift", " slowly", " under", " low",
	" green", " hills", " some", " days", " wind", " comes", " from", " west", " it", " brings", " rain", " that",
	" fills", " every", " street", " then", " light", " breaks", " over", " roofs", " birds", " rise", " again", " in",
	" wide", " rings", " no", " one", " speaks", " of", " winter", " until", " leaves", " turn", " gold", " above",
	" white", " paths", " along", " shore",
}

var wordIDs = func() (ids [len(words)]int32) {
	for i, w := range words {
		ids[i], _ = nextToken(w)
	}
	return ids
}()
