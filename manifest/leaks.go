package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Leaks lists the places of a file that hold what must not be published: secrets
// and what has the form of one, also in URLs (secret), the home folder and those of
// others (local_path), addresses of private networks (lan_address), names of people
// and machines (name). It says where and of which kind, never what. Of JSON, also of
// several values one after another, it reads the strings as they are meant and Path
// is a JSON pointer; of any other text Path is empty. There are at most as many as
// most.
//
// It is narrower than [Redactor.String]: a path outside home folders is no leak, so
// that programs and pages can be looked at too. Safe for concurrent use.
func (r *Redactor) Leaks(data []byte, most int) (found []Redaction) {
	note := func(path string, line int, kinds []string) {
		if len(kinds) > 0 && len(found) < most {
			found = append(found, Redaction{path, line, kinds})
		}
	}
	if eachString(data, func(path string, line int, s string) { note(path, line, r.leaks(s)) }) {
		return found
	}
	found = nil
	line := 0
	for text := range bytes.Lines(data) {
		line++
		note("", line, r.leaks(string(text)))
	}
	return found
}

// Hide is [Redactor.String] of a text that holds something in the sense of
// [Redactor.Leaks]; any other stays as it is, a path outside home folders too.
func (r *Redactor) Hide(s string) string {
	if len(r.leaks(s)) == 0 {
		return s
	}
	clean, _ := r.String(s)
	if len(r.leaks(clean)) > 0 { // what was escaped
		return redacted
	}
	return clean
}

// leaks are the kinds of what a text holds.
func (r *Redactor) leaks(s string) (kinds []string) {
	// What is escaped once more, as in a URL, is as plain to a reader.
	texts := []string{s}
	if plain, err := url.PathUnescape(s); err == nil && plain != s {
		texts = append(texts, plain)
	}
	for _, s := range texts {
		if r.secrets(s) != s {
			kinds = append(kinds, secretKind)
		}
		if home := strings.TrimRight(r.Home, `/\`); len(home) > 1 && withoutFolder(s, home) != s || homes().MatchString(s) {
			kinds = append(kinds, pathKind)
		}
		if addresses(s) != s {
			kinds = append(kinds, addressKind)
		}
		if r.names(s) != s {
			kinds = append(kinds, nameKind)
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// homes matches a path below a home folder.
var homes = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(^|[^A-Za-z0-9_.-])/(?:home|Users)/[A-Za-z0-9._-]+|(^|[^A-Za-z0-9_./-])/root/`)
})

// eachString is eachToken of the strings, keys among them; the whole is /.
func eachString(data []byte, f func(path string, line int, s string)) bool {
	return eachToken(data, func(path string, line int, token json.Token, _ bool) {
		if s, ok := token.(string); ok {
			f(cmp.Or(path, "/"), line, s)
		}
	})
}

// ArtifactNames are the file names of the artifacts of a manifest of either kind,
// each once, in order; an envelope is looked through. What is no manifest has none.
func ArtifactNames(data []byte) (names []string) {
	if checkDocument(data) != nil {
		return nil
	}
	bare, _ := unwrap(data)
	type holder struct{ Artifacts []Artifact }
	var doc struct {
		holder
		Runs []holder
	}
	if json.Unmarshal(bare, &doc) != nil {
		return nil
	}
	for _, h := range append([]holder{doc.holder}, doc.Runs...) {
		for _, a := range h.Artifacts {
			if a.Filename != "" && !slices.Contains(names, a.Filename) {
				names = append(names, a.Filename)
			}
		}
	}
	return names
}
