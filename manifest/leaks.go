package manifest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
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

// eachString calls f for each string in JSON values that follow each other, keys
// among them, with its JSON pointer (a key has that of its object) and its line. It
// tells whether the text was JSON to its end; what came before has been seen anyway.
func eachString(data []byte, f func(path string, line int, s string)) bool {
	type level struct {
		path  string
		array bool
		index int
		key   *string // of the value that follows
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var open []level
	line, counted := 1, 0
	for {
		token, err := d.Token()
		if err != nil {
			return err == io.EOF && len(open) == 0
		}
		at := int(d.InputOffset())
		line, counted = line+bytes.Count(data[counted:at], []byte("\n")), at
		if token == json.Delim('}') || token == json.Delim(']') {
			open = open[:len(open)-1]
			continue
		}
		path := ""
		if len(open) > 0 {
			top := &open[len(open)-1]
			if s, ok := token.(string); ok && !top.array && top.key == nil {
				top.key = &s
				f(orRoot(top.path), line, s)
				continue
			}
			name := strconv.Itoa(top.index)
			if !top.array {
				name, top.key = escape.Replace(*top.key), nil
			}
			top.index++
			path = top.path + "/" + name
		}
		switch token := token.(type) {
		case json.Delim:
			open = append(open, level{path: path, array: token == '['})
		case string:
			f(orRoot(path), line, token)
		}
	}
}

// orRoot is a pointer as people read it: / for the whole.
func orRoot(path string) string {
	if path == "" {
		return "/"
	}
	return path
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
