package manifest

import (
	"cmp"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// What a redaction takes out, as [Redactor.String] names it.
const (
	secretKind  = "secret"
	pathKind    = "local_path"
	addressKind = "lan_address"
	nameKind    = "name"
)

// What is left in its place.
const (
	redacted   = "<redacted>"
	localPath  = "<local-path>"
	lanAddress = "<lan-address>"
)

// Redactor takes out of a string what must not be published: credentials,
// local paths, addresses of private networks, names of people and machines.
// Whatever goes in, what comes out holds the schema's rule for public text.
//
// The zero value knows no secrets and no names, but every general form of
// them. A Redactor does not change; it is safe for concurrent use.
type Redactor struct {
	// Secrets are API keys and anything else that must not appear. One of
	// fewer than four bytes is not looked for, one of fewer than eight only as
	// a whole word: EMPTY is a common key.
	Secrets []string
	// Home is the user's home folder.
	Home string
	// HostNames and UserNames are taken out as whole words, short and common
	// ones (root, user, gpu) only where they can be nothing else: root@host,
	// ~root.
	HostNames, UserNames []string
}

// String returns s without what must not be published, and the sorted kinds of
// what was taken out: secret, local_path, lan_address, name. Redacting twice
// changes nothing more.
func (r *Redactor) String(s string) (string, []string) {
	var kinds []string
	apply := func(kind string, f func(string) string) {
		if out := f(s); out != s {
			s, kinds = out, append(kinds, kind)
		}
	}
	// What is taken out can bring together what was apart. A second round finds
	// nothing in any but a made-up text, a tenth in none that was ever seen.
	for range 10 {
		before := s
		apply(secretKind, r.secrets)
		apply(pathKind, r.paths)
		apply(addressKind, addresses)
		apply(nameKind, r.names)
		var more []string
		s, more = publicText(s)
		kinds = append(kinds, more...)
		if s == before {
			break
		}
	}
	slices.Sort(kinds)
	return s, slices.Compact(kinds)
}

// patterns are the general forms. Compiling them waits for the first use.
type patterns struct {
	placeholder, userInfo, cutInfo, bearer, token, assigned, path, ipv4, ipv6 *regexp.Regexp
	// The three that the schema forbids in public text, with as much after
	// them as belongs to the same thing.
	publicPath, publicAddress, publicToken *regexp.Regexp
}

var forms = sync.OnceValue(func() *patterns {
	re := regexp.MustCompile
	return &patterns{
		placeholder: re(`<(?:redacted|local-path|lan-address)>`),
		userInfo:    re(`([A-Za-z][A-Za-z0-9+.-]*:(?://|%2[Ff]%2[Ff]))[^\s/?#"'` + "`" + `]*@`),
		cutInfo:     re(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#"'` + "`" + `@\[\]…]*:[0-9]*[^\s/?#"'` + "`" + `@\[\]<>…0-9][^\s/?#"'` + "`" + `@<>…]*…`),
		bearer:      re(`(?i)\b(bearer[ \t]+)[A-Za-z0-9._~+/=-]{8,}`),
		token: re(`hf_[A-Za-z0-9]{20,}|\bsk-[A-Za-z0-9_-]{16,}|\b(?:ghp|gho|ghs|github_pat|gsk|xai|nvapi|glpat)[_-][A-Za-z0-9_-]{16,}` +
			`|\bAKIA[A-Z0-9]{16}\b|\bAIza[A-Za-z0-9_-]{30,}|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`),
		assigned: re(`(?i)((?:\b|_)(?:api[_-]?key|access[_-]?key|(?:access|auth|hf|api|bearer|secret)[_-]?token|secret|passw(?:or)?d|credentials?|authorization|(?-i:[A-Z][A-Z0-9]*_TOKEN))` +
			`["']?[ \t]*[=:][ \t]*["']?(?:(?:basic|bearer|token)[ \t]+)?|[?&](?:key|sig|signature|token)=)([^\s"'&,;<]+)`),
		path:          re(`(^|[^A-Za-z0-9_./~>-])((?:file://)?(?:/|~(?:[A-Za-z_][A-Za-z0-9_.-]*)?/|[A-Za-z]:[\\/])[^\s"'` + "`" + `<>|;,()\[\]{}]+)`),
		ipv4:          re(`(^|[^0-9.])((?:[0-9]{1,3}\.){3}[0-9]{1,3})`),
		ipv6:          re(`[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*(?:%[A-Za-z0-9._-]+)?`),
		publicPath:    re(`(^|[^A-Za-z0-9_.-])/(?:home|root|Users|mnt|media|srv|tmp|var|opt|data|workspace|scratch)/[^\s"'` + "`" + `<>|;,()\[\]{}]*`),
		publicAddress: re(`(^|[^0-9.])(?:10\.[0-9]{1,3}|192\.168|169\.254|172\.(?:1[6-9]|2[0-9]|3[01]))\.[0-9]{1,3}\.[0-9]{1,3}(?:\.?[0-9])*`),
		publicToken:   re(`(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{16,}|([Bb]earer )[A-Za-z0-9._-]{8,})`),
	}
})

// publicText enforces the schema's rule. Each round takes a match out and puts
// text there that holds none of the characters a match needs, so it ends.
func publicText(s string) (string, []string) {
	f := forms()
	var kinds []string
	for {
		before := s
		for _, rule := range []struct {
			re      *regexp.Regexp
			instead string
			kind    string
		}{
			{f.publicPath, "${1}" + localPath, pathKind},
			{f.publicAddress, "${1}" + lanAddress, addressKind},
			{f.publicToken, "${1}" + redacted, secretKind},
		} {
			if out := rule.re.ReplaceAllString(s, rule.instead); out != s {
				s, kinds = out, append(kinds, rule.kind)
			}
		}
		if s == before {
			return s, kinds
		}
	}
}

// outside applies f to what lies between the placeholders.
func outside(s string, f func(string) string) string {
	var b strings.Builder
	from := 0
	for _, at := range forms().placeholder.FindAllStringIndex(s, -1) {
		b.WriteString(f(s[from:at[0]]))
		b.WriteString(s[at[0]:at[1]])
		from = at[1]
	}
	b.WriteString(f(s[from:]))
	return b.String()
}

// secrets takes out given secrets, then everything that has the form of one.
func (r *Redactor) secrets(s string) string {
	for _, secret := range r.secretForms() {
		s = outside(s, func(part string) string {
			if len(secret) < 8 {
				return replaceWord(part, secret, redacted)
			}
			return strings.ReplaceAll(part, secret, redacted)
		})
	}
	for _, secret := range r.secretForms() {
		s = outside(s, func(part string) string { return withoutBeginning(part, secret) })
	}
	f := forms()
	s = f.userInfo.ReplaceAllString(s, "${1}"+redacted+"@")
	s = f.cutInfo.ReplaceAllString(s, "${1}"+redacted+"…")
	s = f.bearer.ReplaceAllString(s, "${1}"+redacted)
	s = f.token.ReplaceAllString(s, redacted)
	return f.assigned.ReplaceAllStringFunc(s, func(match string) string {
		groups := f.assigned.FindStringSubmatch(match)
		if scheme := strings.ToLower(groups[2]); scheme == "bearer" || scheme == "basic" || scheme == "token" {
			return match // what follows is the secret, and is gone already
		}
		return groups[1] + redacted
	})
}

// secretForms are the given secrets as they may be written, longest first so
// that none is left as the rest of another.
func (r *Redactor) secretForms() []string {
	var all []string
	for _, secret := range r.Secrets {
		secret = strings.TrimSpace(secret)
		if len(secret) >= 4 {
			all = append(all, secret, url.QueryEscape(secret), url.PathEscape(secret))
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(all)
}

// paths takes out the home folder and absolute local paths. The path of a URL
// and an endpoint such as /v1/completions are no local paths.
func (r *Redactor) paths(s string) string {
	f := forms()
	if home := strings.TrimRight(r.Home, `/\`); len(home) > 1 {
		s = withoutFolder(s, home)
		if escaped := url.QueryEscape(home); escaped != home {
			s = withoutFolder(s, escaped)
			s = withoutFolder(s, strings.ReplaceAll(escaped, "%2F", "%2f"))
		}
	}
	return f.path.ReplaceAllStringFunc(s, func(match string) string {
		groups := f.path.FindStringSubmatch(match)
		if !isLocalPath(groups[2]) {
			return match
		}
		return groups[1] + localPath
	})
}

// withoutFolder replaces a folder and what is named below it. A longer name of
// another folder stays.
func withoutFolder(s, folder string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, folder)
		b.WriteString(before)
		if !found {
			return b.String()
		}
		end := 0
		if after != "" && (after[0] == '/' || after[0] == '\\') {
			if end = strings.IndexAny(after, " \t\r\n\"'<>|;,()[]{}"); end < 0 {
				end = len(after)
			}
		} else if after != "" && (isWordByte(after[0]) || after[0] == '.' || after[0] == '-') {
			b.WriteString(folder)
			s = after
			continue
		}
		b.WriteString(localPath)
		s = after[end:]
	}
}

// isLocalPath tells a path in a file system from an endpoint: it has two
// elements or more and no API version.
func isLocalPath(p string) bool {
	p = strings.TrimRight(p, ":.!?")
	if !strings.HasPrefix(p, "/") {
		return true // ~/x, C:\x, file://x
	}
	elements := strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
	if len(elements) < 2 || strings.HasPrefix(p, "//") {
		return false
	}
	return !slices.ContainsFunc(elements, isVersion) && elements[0] != "api"
}

// isVersion matches v1, v2beta and the like.
func isVersion(element string) bool {
	return len(element) > 1 && element[0] == 'v' && element[1] >= '0' && element[1] <= '9'
}

// addresses takes out private and link-local addresses; loopback stays.
func addresses(s string) string {
	f := forms()
	s = f.ipv4.ReplaceAllStringFunc(s, func(match string) string {
		groups := f.ipv4.FindStringSubmatch(match)
		if !isLAN(groups[2]) {
			return match
		}
		return groups[1] + lanAddress
	})
	return f.ipv6.ReplaceAllStringFunc(s, func(match string) string {
		// A sentence may go on with a colon or a full stop.
		address := strings.TrimRight(match, ".")
		if !isLAN(address) {
			address = strings.TrimSuffix(address, ":")
		}
		if !isLAN(address) {
			return match
		}
		return lanAddress + match[len(address):]
	})
}

func isLAN(s string) bool {
	a, err := netip.ParseAddr(s)
	a = a.Unmap()
	return err == nil && (a.IsPrivate() || a.IsLinkLocalUnicast())
}

// commonNames mean something else in most texts, so they are names only in
// user@host and ~user.
var commonNames = []string{
	"address", "admin", "administrator", "api", "bench", "benchmark", "client", "cuda", "data", "debian", "default", "docker", "ec2-user",
	"engine", "fedora", "guest", "home", "host", "http", "https", "lan-address", "linux", "llama", "llm", "local", "local-path", "localhost",
	"manifest", "model", "models", "nobody", "nvidia", "openai", "path", "python", "random", "redacted", "root", "runner", "seed", "serve",
	"servebench", "server", "service", "system", "temperature", "test", "text", "token", "tokenizer", "tokens", "ubuntu", "user", "users",
	"vllm", "worker", "workspace",
}

// names takes out names of users and hosts. A name that the schema's own
// placeholders hold is a common one, so redacting twice changes nothing.
func (r *Redactor) names(s string) string {
	for _, name := range longestFirst(r.UserNames, r.HostNames) {
		common := len(name) < 4 || slices.Contains(commonNames, strings.ToLower(name)) || isNumber(name)
		s = outside(s, func(part string) string {
			if common {
				return replaceInAccount(part, name)
			}
			return withoutBeginning(replaceWord(part, name, redacted), name)
		})
	}
	return s
}

// withoutBeginning takes out the beginning of a word where a text was cut, which an
// ellipsis shows: half a secret looks like none.
func withoutBeginning(s, word string) string {
	const least, ellipsis = 4, "…"
	if len(word) <= least || !strings.Contains(s, ellipsis) {
		return s
	}
	parts := strings.Split(s, ellipsis)
	for i := range parts[:len(parts)-1] {
		for n := min(len(word)-1, len(parts[i])); n >= least; n-- {
			if before, ok := strings.CutSuffix(parts[i], word[:n]); ok {
				parts[i] = before + redacted
				break
			}
		}
	}
	return strings.Join(parts, ellipsis)
}

func longestFirst(lists ...[]string) []string {
	all := slices.DeleteFunc(slices.Concat(lists...), func(s string) bool { return strings.TrimSpace(s) == "" })
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return slices.Compact(all)
}

// replaceWord replaces a word where no letter, digit or underscore touches it.
func replaceWord(s, word, with string) string {
	return replaceWhere(s, word, with, func(before, after byte) bool { return !isWordByte(before) && !isWordByte(after) })
}

// replaceInAccount replaces a name in name@host, user@name and ~name.
func replaceInAccount(s, name string) string {
	return replaceWhere(s, name, redacted, func(before, after byte) bool {
		return after == '@' && !isWordByte(before) || (before == '@' || before == '~') && !isWordByte(after)
	})
}

// replaceWhere replaces word where the bytes around it (0 at an end) allow it.
func replaceWhere(s, word, with string, ok func(before, after byte) bool) string {
	var b strings.Builder
	for from := 0; ; {
		i := strings.Index(s[from:], word)
		if i < 0 {
			b.WriteString(s[from:])
			return b.String()
		}
		start, end := from+i, from+i+len(word)
		var before, after byte
		if start > 0 {
			before = s[start-1]
		}
		if end < len(s) {
			after = s[end]
		}
		b.WriteString(s[from:start])
		if ok(before, after) {
			b.WriteString(with)
		} else {
			b.WriteString(word)
		}
		from = end
	}
}

func isWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
}
