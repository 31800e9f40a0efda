package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Redaction is one place of a document from which something was taken out.
type Redaction struct {
	Path  string   // JSON pointer into the whole text, envelope included
	Line  int      // from 1
	Kinds []string // as [Redactor.String] names them, sorted
}

// Document returns a manifest without what must not be published, and each
// place where something was taken out. It looks at every string, and at every
// key that is not the schema's; a command is redacted word by word as
// [Redactor.Command] does, and the value of a key that is named after a secret
// is taken out whole. Everything else stays as it is, byte by byte, so that
// redacting twice changes nothing more. What is no JSON is an error with the
// line.
//
// A name of a host or person may be a part of what the schema wants in a form
// of its own (an id, a model). Validate the result.
func (r *Redactor) Document(data []byte) ([]byte, []Redaction, error) {
	if err := checkDocument(data); err != nil {
		return nil, nil, err
	}
	d := &documentRedactor{r: r, in: data, line: 1}
	d.value("", "", false)
	d.out.Write(data[d.copied:])
	return d.out.Bytes(), d.found, nil
}

// documentRedactor walks through a text that is known to be JSON and copies it.
type documentRedactor struct {
	r             *Redactor
	in            []byte
	at            int // of the next byte to read
	copied        int // what is in out already
	out           bytes.Buffer
	line, counted int
	found         []Redaction
	// instead, if set, says what a string at a place becomes, and nothing else is done.
	instead func(path, s string) string
	// plainKeys takes the brackets off what was left in keys.
	plainKeys bool
}

// commandKeys are the keys whose strings are command lines.
var commandKeys = []string{"launch_command", "benchmark_command", "command_sanitized"}

// value walks over one value. The key is that of the object around it, secret
// says that some key around it names a secret.
func (d *documentRedactor) value(path, key string, secret bool) {
	d.skip(" \t\r\n")
	switch d.in[d.at] {
	case '{':
		d.members(path, secret)
	case '[':
		for i := 0; d.more(']'); i++ {
			d.value(path+"/"+strconv.Itoa(i), key, secret)
		}
	case '"':
		d.text(path, func(s string) (string, []string) {
			switch {
			case d.instead != nil:
				return d.instead(path, s), nil
			case secret && s != "" && s != redacted:
				return redacted, []string{secretKind}
			case secret:
				return s, nil
			case slices.Contains(commandKeys, key):
				return d.r.script(s)
			}
			return d.r.String(s)
		})
	default:
		for d.at < len(d.in) && !strings.ContainsRune(",]} \t\r\n", rune(d.in[d.at])) {
			d.at++
		}
	}
}

func (d *documentRedactor) members(path string, secret bool) {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	seen := make(map[string]bool)
	for d.more('}') {
		known := false
		key := d.text(path, func(s string) (string, []string) {
			if known = schemaKeys()[s]; known {
				return s, nil
			}
			clean, kinds, between := s, []string(nil), "_"
			if d.instead == nil {
				clean, kinds = d.r.String(s)
				between = "-"
			} else if d.plainKeys && forms().placeholder.MatchString(s) {
				clean = strings.Trim(plainForm.ReplaceAllString(s, "_"), "_")
			}
			// Two keys may lose what told them apart.
			for base, n := clean, 2; seen[clean]; n++ {
				clean = fmt.Sprintf("%s%s%d", base, between, n)
			}
			return clean, kinds
		})
		seen[key] = true
		d.skip(" \t\r\n:")
		d.value(path+"/"+escape.Replace(key), key, secret || !known && isSecretKey(key))
	}
}

// isSecretKey reports whether a key says that its value is secret: api_key,
// HF_TOKEN. A key of a cache and a time per token do not.
func isSecretKey(key string) bool {
	words := strings.FieldsFunc(strings.ToLower(key), func(r rune) bool { return strings.ContainsRune("-_. ", r) })
	if len(words) == 0 {
		return false
	}
	before := ""
	if len(words) > 1 {
		before = words[len(words)-2]
	}
	switch words[len(words)-1] {
	case "apikey", "secret", "password", "passwd", "credential", "credentials", "authorization", "cookie":
		return true
	case "key":
		return slices.Contains([]string{"api", "access", "secret", "private", "auth"}, before)
	case "token":
		return before == "" || key == strings.ToUpper(key) || slices.Contains([]string{"hf", "hub", "api", "access", "auth", "bearer", "secret", "refresh", "session"}, before)
	}
	return false
}

// more goes to the first or the next element, or past the end of the list.
func (d *documentRedactor) more(end byte) bool {
	d.skip(" \t\r\n")
	if d.in[d.at] != end { // what opened it, or a comma
		d.at++
		d.skip(" \t\r\n")
	}
	if d.in[d.at] == end {
		d.at++
		return false
	}
	return true
}

func (d *documentRedactor) skip(chars string) {
	for d.at < len(d.in) && strings.IndexByte(chars, d.in[d.at]) >= 0 {
		d.at++
	}
}

// text walks over a string, writes what f makes of it, and returns that.
func (d *documentRedactor) text(path string, f func(string) (string, []string)) string {
	from := d.at
	for d.at++; d.in[d.at] != '"'; d.at++ {
		if d.in[d.at] == '\\' {
			d.at++
		}
	}
	d.at++
	var s string
	if json.Unmarshal(d.in[from:d.at], &s) != nil {
		return "" // not in what is JSON
	}
	clean, kinds := f(s)
	if clean == s {
		return s
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(clean) != nil {
		return s
	}
	d.out.Write(d.in[d.copied:from])
	d.out.Write(bytes.TrimSpace(b.Bytes()))
	d.line += bytes.Count(d.in[d.counted:from], []byte("\n"))
	d.copied, d.counted = d.at, from
	if path == "" {
		path = "/"
	}
	d.found = append(d.found, Redaction{path, d.line, kinds})
	return clean
}

// schemaKeys are the names that the schema gives to members, in any object.
var schemaKeys = sync.OnceValue(func() map[string]bool {
	keys := make(map[string]bool)
	var walk func(any)
	walk = func(node any) {
		switch n := node.(type) {
		case []any:
			for _, v := range n {
				walk(v)
			}
		case map[string]any:
			if properties, ok := n["properties"].(map[string]any); ok {
				for key := range properties {
					keys[key] = true
				}
			}
			for _, v := range n {
				walk(v)
			}
		}
	}
	var schema any
	if json.Unmarshal(schemaText, &schema) == nil {
		walk(schema)
	}
	return keys
})

// script redacts lines of commands as [Redactor.Command] does, but keeps what
// stands before the program and everything that needs no change as it is
// written.
func (r *Redactor) script(s string) (string, []string) {
	var all []string
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		var kinds []string
		lines[i], kinds = r.commandLine(line)
		all = append(all, kinds...)
	}
	out, kinds := publicText(strings.Join(lines, "\n"))
	all = append(all, kinds...)
	slices.Sort(all)
	return out, slices.Compact(all)
}

// placeholderForm matches a value that somebody has taken out already.
var placeholderForm = regexp.MustCompile(`^<[A-Za-z][A-Za-z0-9 _-]*>$`)

func (r *Redactor) commandLine(line string) (string, []string) {
	spans := wordSpans(line)
	argv := make([]string, len(spans))
	for i, s := range spans {
		argv[i] = strings.Join(SplitWords(line[s[0]:s[1]]), "")
	}
	c := &commandRedactor{r: r}
	var b strings.Builder
	var kinds []string
	copied, program := 0, false
	for i, arg := range argv {
		c.kinds, c.words = nil, nil
		_, value, joined := strings.Cut(arg, "=")
		switch {
		case !program && joined && !isFlag(arg):
			c.add(c.text(arg))
		case !program:
			if program = true; isPath(arg) {
				c.instead(localPath)
				arg = arg[strings.LastIndexAny(arg, `/\`)+1:]
			}
			c.add(c.text(arg))
		case c.takesValue(arg):
			c.add(c.value(arg))
		default:
			c.option(arg, argv)
		}
		same := strings.Join(SplitWords(c.words[0]), "") == argv[i]
		// A folder that is a mere word tells nothing.
		same = same || slices.Equal(c.kinds, []string{pathKind}) && !strings.ContainsAny(argv[i], `/\~`)
		if len(c.kinds) == 0 || same || placeholderForm.MatchString(arg) || joined && placeholderForm.MatchString(value) {
			continue
		}
		b.WriteString(line[copied:spans[i][0]])
		b.WriteString(c.words[0])
		copied, kinds = spans[i][1], append(kinds, c.kinds...)
	}
	return b.String() + line[copied:], kinds
}

// wordSpans says where the words of a line are that [SplitWords] finds.
func wordSpans(line string) [][2]int {
	var spans [][2]int
	start, quote, escaped := -1, rune(0), false
	for i, r := range line {
		space := quote == 0 && !escaped && strings.ContainsRune(" \t\n\r", r)
		if space && start >= 0 {
			spans, start = append(spans, [2]int{start, i}), -1
		} else if !space && start < 0 {
			start = i
		}
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		}
	}
	if start >= 0 {
		spans = append(spans, [2]int{start, len(line)})
	}
	return spans
}

// Clean returns a manifest without what must not be published, as [Redactor.Document]
// finds it, and which places those are. What the schema wants in a form of its own, an
// id or a name, has a placeholder without its brackets. Numbers in open objects stay as
// they are written. Where nothing is to be taken out, it is doc itself. The error is of
// a number that JSON does not have.
func Clean[D Run | Experiment](r *Redactor, doc *D) (*D, []Redaction, error) {
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, nil, fmt.Errorf("redact manifest: %w", err)
	}
	clean, found, err := r.Document(text)
	if err != nil {
		return nil, nil, fmt.Errorf("redact manifest: %w", err)
	}
	if len(found) == 0 {
		return doc, Redacted(clean), nil
	}
	clean, err = withPlainPlaceholders(clean, found)
	if err != nil {
		return nil, nil, fmt.Errorf("redact manifest: %w", err)
	}
	out := new(D)
	decoder := json.NewDecoder(bytes.NewReader(clean))
	decoder.UseNumber()
	if err := decoder.Decode(out); err != nil {
		return nil, nil, fmt.Errorf("redact manifest: %w", err)
	}
	return out, Redacted(clean), nil
}

// plainForm matches what a key that the schema wants in a form of its own cannot hold.
var plainForm = regexp.MustCompile(`[^A-Za-z0-9]+`)

// withPlainPlaceholders takes the brackets off what was left at places that then
// broke the schema, and off all keys where one broke it: a problem of a key has no
// place.
func withPlainPlaceholders(clean []byte, found []Redaction) ([]byte, error) {
	for range 2 { // a key that has changed moves what is below it
		again, err := withPlainOnce(clean)
		if err != nil || bytes.Equal(again, clean) {
			return again, err
		}
		clean = again
	}
	return clean, nil
}

// withPlainOnce does so at the places that a check finds now.
func withPlainOnce(clean []byte) ([]byte, error) {
	report, err := Profile{}.Check(clean)
	if err != nil {
		return nil, err
	}
	broken := make(map[string]bool)
	for _, p := range report.Problems {
		broken[p.Path] = true
	}
	if len(broken) == 0 {
		return clean, nil
	}
	d := &documentRedactor{r: &Redactor{}, in: clean, line: 1, plainKeys: broken["/"] || broken[""]}
	d.instead = func(path, s string) string {
		if !broken[path] {
			return s
		}
		return strings.NewReplacer("<", "", ">", "").Replace(s)
	}
	d.value("", "", false)
	d.out.Write(clean[d.copied:])
	return d.out.Bytes(), nil
}

// placeholderKinds say what a placeholder stands for. A name and a secret leave
// the same behind.
var placeholderKinds = map[string]string{redacted: "secret_or_name", localPath: pathKind, lanAddress: addressKind}

// Redacted lists the places of a document where something was taken out, by what
// was left there: secret_or_name, local_path, lan_address. What is no JSON has
// none.
func Redacted(data []byte) []Redaction {
	if checkDocument(data) != nil {
		return nil
	}
	var found []Redaction
	eachString(data, func(path string, line int, s string) {
		var kinds []string
		for _, p := range forms().placeholder.FindAllString(s, -1) {
			kinds = append(kinds, placeholderKinds[p])
		}
		if slices.Sort(kinds); len(kinds) > 0 {
			found = append(found, Redaction{path, line, slices.Compact(kinds)})
		}
	})
	return found
}
