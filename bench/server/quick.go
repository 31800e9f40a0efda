package server

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// quick is an expression that is run only over lines with one of the texts that
// every match of it has. Nearly no line of a log has any: a server that logs
// thousands of lines in a second must not be held up here, nor the client whose
// processor this is. The zero value is of no use; it is safe for concurrent use.
type quick struct {
	re    *regexp.Regexp
	texts []string // folded; nil where every line may match
}

func quickly(re *regexp.Regexp) quick {
	parsed, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil { // it was compiled: this does not happen
		return quick{re: re}
	}
	return quick{re, needed(parsed)}
}

// match tells whether s matches; folded is fold(s), or of a text that s is part of.
func (q quick) match(s, folded string) bool { return q.may(folded) && q.re.MatchString(s) }

// may tells whether a line can match at all.
func (q quick) may(folded string) bool {
	for _, t := range q.texts {
		if strings.Contains(folded, t) {
			return true
		}
	}
	return q.texts == nil
}

// needed are texts, folded, of which every match of re has at least one; nil where
// there are none.
func needed(re *syntax.Regexp) (texts []string) {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{fold(string(re.Rune))}
	case syntax.OpCapture, syntax.OpPlus:
		return needed(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needed(re.Sub[0])
		}
	case syntax.OpConcat: // the one whose shortest text is the longest tells the most
		for _, sub := range re.Sub {
			if t := needed(sub); shortest(t) > shortest(texts) {
				texts = t
			}
		}
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			t := needed(sub)
			if t == nil {
				return nil
			}
			texts = append(texts, t...)
		}
	}
	return texts
}

func shortest(texts []string) int {
	n := 0
	for i, t := range texts {
		if i == 0 || len(t) < n {
			n = len(t)
		}
	}
	return n
}

// fold makes texts equal that differ in what (?i) does not look at.
func fold(s string) string { return strings.Map(foldRune, s) }

func foldRune(r rune) rune {
	if r >= utf8.RuneSelf {
		for f := unicode.SimpleFold(r); f > r || f < r; f = unicode.SimpleFold(f) {
			if f < r {
				return foldRune(f) // the orbit's least one, in the end
			}
		}
		return r
	}
	if 'A' <= r && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}
