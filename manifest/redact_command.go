package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// What a flag's value is, as far as publishing goes.
type flagKind int

const (
	plainFlag  flagKind = iota
	fileFlag            // a path, or a plain word such as a repository
	folderFlag          // always a path
	nameFlag            // a file of which the base name is published
	urlFlag
	headerFlag // KEY=VALUE: the values are secret
	pairFlag   // KEY=VALUE
	jsonFlag
	secretFlag
	routeFlag // a path on the server
)

// commandFlags are the flags that need more than [Redactor.String].
var commandFlags = map[string]flagKind{
	"dataset-path": folderFlag, "result-dir": folderFlag, "result-filename": nameFlag,
	"tokenizer": fileFlag, "model": fileFlag, "manifest": fileFlag, "records": fileFlag, "subject": fileFlag,
	"base-url": urlFlag, "host": urlFlag, "url": urlFlag, "replica-url": urlFlag, "tokenize-url": urlFlag, "proxy": urlFlag,
	"endpoint": routeFlag, "header": headerFlag, "metadata": pairFlag, "extra-body": jsonFlag,
	"prompt": secretFlag, "system-prompt": secretFlag, "prompts": secretFlag, "messages": secretFlag,
}

// Command returns a command line as it may be published, on one line, quoted
// for a shell where that is needed, and the kinds of what was taken out as in
// [Redactor.String]. The program is named by its base name. A path becomes
// <local-path>; --result-filename keeps its base name, which must be an
// artifact's (rule C9); a plain file name and a repository (org/name) stay.
// Values of --header and of flags named after a key, token, secret or
// password, credentials in URLs and in JSON, and prompts become <redacted>.
// URLs of the loopback stay. Flags should be written out: an abbreviation of
// --header is known, others are not.
func (r *Redactor) Command(argv []string) (string, []string) {
	c := &commandRedactor{r: r}
	for i, arg := range argv {
		switch {
		case i == 0:
			c.add(c.text(arg[strings.LastIndexAny(arg, `/\`)+1:]))
		case c.takesValue(arg):
			c.add(c.value(arg))
		default:
			c.option(arg, argv)
		}
	}
	line, kinds := publicText(strings.Join(c.words, " "))
	kinds = append(kinds, c.kinds...)
	slices.Sort(kinds)
	return line, slices.Compact(kinds)
}

// commandRedactor is the state between one argument and the next.
type commandRedactor struct {
	r       *Redactor
	words   []string
	kinds   []string
	flag    string
	kind    flagKind
	dataset string // value of --dataset-name
	open    bool   // a flag has been seen that may have values
}

// takesValue reports whether arg is a value of the flag before it. A secret may
// begin with a dash.
func (c *commandRedactor) takesValue(arg string) bool {
	if c.open && c.kind == secretFlag && !strings.HasPrefix(arg, "--") {
		return true
	}
	return !isFlag(arg)
}

// option adds a flag, and its value where that is part of the argument.
func (c *commandRedactor) option(arg string, argv []string) {
	name, value, joined := strings.Cut(arg, "=")
	c.flag, c.open = flagName(name), true
	c.kind = kindOfFlag(c.flag)
	if c.flag == "dataset-path" && c.dataset == "" {
		c.dataset = flagValue(argv, "dataset-name")
	}
	if !joined {
		c.add(c.text(arg))
		return
	}
	c.add(c.text(name) + "=" + c.value(value))
}

func (c *commandRedactor) add(word string) { c.words = append(c.words, quote(word)) }

func (c *commandRedactor) text(s string) string {
	s, kinds := c.r.String(s)
	c.kinds = append(c.kinds, kinds...)
	return s
}

// instead returns what stands for a value, and notes why.
func (c *commandRedactor) instead(placeholder string) string {
	kind := map[string]string{redacted: secretKind, localPath: pathKind, lanAddress: addressKind}[placeholder]
	c.kinds = append(c.kinds, kind)
	return placeholder
}

// value redacts one value of the current flag.
func (c *commandRedactor) value(s string) string {
	switch c.kind {
	case secretFlag:
		return c.instead(redacted)
	case headerFlag:
		if key, _, ok := cutPair(s); ok {
			return c.text(key) + "=" + c.instead(redacted)
		}
		return c.instead(redacted)
	case pairFlag:
		key, value, ok := strings.Cut(s, "=")
		if ok && isSecretName(key) && key != "workload_key" { // a name of a workload, see rule C8
			return c.text(key) + "=" + c.instead(redacted)
		}
		if ok && isPath(value) {
			return c.text(key) + "=" + c.instead(localPath)
		}
		return c.text(s)
	case folderFlag:
		if c.flag == "dataset-path" && c.dataset == "hf" && isRepository(s) {
			return c.text(s)
		}
		return c.instead(localPath)
	case nameFlag:
		base := s[strings.LastIndexAny(s, `/\`)+1:]
		if base != s {
			c.instead(localPath)
		}
		return c.text(base)
	case urlFlag:
		return c.address(s)
	case jsonFlag:
		return c.json(s)
	case routeFlag:
		out, kinds := publicText(s)
		c.kinds = append(c.kinds, kinds...)
		return out
	}
	inFolder := strings.ContainsAny(s, `/\`) && !strings.Contains(s, "://")
	if isPath(s) || inFolder && (c.kind == fileFlag && !isRepository(s) || isFileName(s)) {
		return c.instead(localPath)
	}
	return c.text(s)
}

// address redacts a URL or host: the host of a private network even where it
// is a name.
func (c *commandRedactor) address(s string) string {
	u, err := url.Parse(s)
	host := s
	if err == nil && u.Host != "" {
		host = u.Hostname()
	} else if h, _, err := net.SplitHostPort(s); err == nil {
		host = h
	}
	if isPrivateName(host) {
		s = strings.Replace(s, host, c.instead(lanAddress), 1)
	}
	return c.text(s)
}

// isPrivateName reports whether a host name is known inside a network only.
func isPrivateName(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" || host == "localhost" || strings.ContainsAny(host, ":/@<% ") {
		return false
	}
	if !strings.Contains(host, ".") {
		return !isNumber(host)
	}
	for _, suffix := range []string{".local", ".lan", ".internal", ".corp", ".home", ".intranet", ".home.arpa", ".localdomain"} {
		if strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return false
}

// json redacts a JSON value: secrets and prompts by their key, everything else
// as text. What is no JSON is taken out whole.
func (c *commandRedactor) json(s string) string {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return c.instead(redacted)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(c.jsonValue(value)) != nil {
		return c.instead(redacted)
	}
	return c.text(strings.TrimSpace(b.String()))
}

func (c *commandRedactor) jsonValue(value any) any {
	switch value := value.(type) {
	case string:
		return c.text(value)
	case []any:
		for i := range value {
			value[i] = c.jsonValue(value[i])
		}
	case map[string]any:
		clean := make(map[string]any, len(value))
		for key, member := range value {
			if isSecretName(key) || slices.Contains([]string{"prompt", "messages", "input", "system"}, strings.ToLower(key)) {
				clean[c.text(key)] = c.instead(redacted)
				continue
			}
			clean[c.text(key)] = c.jsonValue(member)
		}
		return clean
	}
	return value
}

// kindOfFlag knows a flag by its name. Dotted flags set a member of a JSON
// value, and the member's name counts.
func kindOfFlag(name string) flagKind {
	if kind, ok := commandFlags[name]; ok {
		return kind
	}
	if len(name) > 2 && strings.HasPrefix("header", name) || name == "H" {
		return headerFlag
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if isSecretName(last) || commandFlags[last] == secretFlag {
		return secretFlag
	}
	return plainFlag
}

// isSecretName reports whether a word of a name says that the value is secret.
// A count of tokens and the ids of tokens are not.
func isSecretName(name string) bool {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '-' || r == '_' || r == '.' || r == ' ' })
	for i, word := range words {
		switch word {
		case "key", "apikey", "secret", "password", "passwd", "credential", "credentials", "auth", "authorization", "cookie":
			return true
		case "token":
			if i+1 == len(words) || words[i+1] != "ids" && words[i+1] != "id" {
				return true
			}
		}
	}
	return false
}

// isRepository matches org/name, which a file does not look like.
func isRepository(s string) bool {
	org, name, ok := strings.Cut(s, "/")
	if !ok || org == "" || name == "" || isPath(s) || Identifier(s) != s || strings.Contains(name, "/") {
		return false
	}
	return !isFileName(name)
}

// isFileName reports whether s ends as the files do that this tool's users
// name on a command line.
func isFileName(s string) bool {
	return slices.ContainsFunc([]string{".json", ".jsonl", ".txt", ".csv", ".parquet", ".yaml", ".yml", ".model", ".gguf", ".gz", ".jinja", ".pem"},
		func(ext string) bool { return strings.HasSuffix(s, ext) })
}

// cutPair cuts KEY=VALUE or KEY: VALUE.
func cutPair(s string) (key, value string, ok bool) {
	if i := strings.IndexAny(s, "=:"); i > 0 {
		return s[:i], s[i+1:], true
	}
	return "", "", false
}

// flagValue looks a flag up in a whole command line.
func flagValue(argv []string, flag string) string {
	for i, arg := range argv {
		name, value, joined := strings.Cut(arg, "=")
		switch {
		case !isFlag(arg) || flagName(name) != flag:
		case joined:
			return value
		case i+1 < len(argv):
			return argv[i+1]
		}
	}
	return ""
}

// quote makes one word of s for a shell. A placeholder is not quoted, so that
// it reads as one; a control character takes the form that keeps one line.
func quote(s string) string {
	plain := func(r rune) bool {
		return r > 0x7f && r != 0x2028 && r != 0x2029 && r != 0x85 ||
			r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_@%+=:,./-", r)
	}
	rest := outside(s, func(part string) string { return strings.Map(keepUnless(plain), part) })
	if s != "" && forms().placeholder.ReplaceAllString(rest, "") == "" {
		return s
	}
	if !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + "'"
}

// keepUnless drops the runes that f accepts.
func keepUnless(f func(rune) bool) func(rune) rune {
	return func(r rune) rune {
		if f(r) {
			return -1
		}
		return r
	}
}

// Value returns a JSON value (as encoding/json decodes it) as it may be
// published: strings as [Redactor.String] has them, members that are named after
// a secret or a prompt taken out whole. It changes value.
func (r *Redactor) Value(value any) any {
	return (&commandRedactor{r: r}).jsonValue(value)
}
