package openai

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// messageMax bounds an error's message.
const messageMax = 512

// statusMessage says what an error status came with; res may be nil.
func (k *call) statusMessage(res *http.Response) string {
	msg := errorText(k.errBody)
	if k.location != "" && k.rec.Status < 400 {
		msg = "redirect to " + PublicURL(k.location) + ", which is not followed"
	}
	if msg == "" {
		msg = http.StatusText(k.rec.Status)
	}
	if res != nil {
		if after := res.Header.Get("Retry-After"); after != "" {
			// First, where no long message pushes it out.
			msg = "(Retry-After: " + after + ") " + msg
		}
	}
	return msg
}

// errorText finds the message in an error object of any of the usual shapes.
func errorText(body []byte) string {
	whole := strings.TrimSpace(string(body))
	var v map[string]json.RawMessage
	if json.Unmarshal(body, &v) != nil {
		return whole
	}
	if reply := v["response"]; reply != nil { // a failed one of the Responses API
		if json.Unmarshal(reply, &v) != nil {
			return whole
		}
	}
	for _, key := range []string{"error", "message", "detail"} {
		var s string
		if json.Unmarshal(v[key], &s) == nil && s != "" {
			return s
		}
		var in struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(v[key], &in) == nil && in.Message != "" {
			return in.Message
		}
	}
	return whole
}

const longSecret = 8

// Secrets lists what nothing may repeat: the key, the password of the base URL,
// in the form it is sent in too, and the values of headers that carry one.
func (c Config) Secrets() (out []string) {
	add := func(s string) {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	add(c.APIKey)
	if u, err := url.Parse(c.BaseURL); err == nil && u.User != nil {
		password, _ := u.User.Password()
		add(password)
		add(base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password)))
	}
	for name, value := range c.Header {
		name = strings.ToLower(name)
		// A long value may be one under any name; a short one would black out words.
		if len(value) >= longSecret {
			add(value)
		}
		for _, word := range []string{"auth", "key", "token", "secret", "cookie"} {
			if strings.Contains(name, word) {
				_, credentials, _ := strings.Cut(value, " ") // behind Bearer or Basic
				add(value)
				add(credentials)
				break
			}
		}
	}
	return out
}

// redact makes words of a server to a probe fit for people: no prompt went with
// it.
func (c *Client) redact(s string) string {
	s = cut(s, errBodyMax)
	for _, secret := range c.secrets {
		s = strings.ReplaceAll(s, secret, "<redacted>")
	}
	return printable(s)
}

// clean makes a server's words fit for a terminal and a record: printable, of
// bounded length, without our key and without the prompt.
func (k *call) clean(s string) string {
	if s == "" {
		return ""
	}
	s = cut(s, errBodyMax)
	for _, secret := range k.c.secrets {
		s = strings.ReplaceAll(s, secret, "<redacted>")
	}
	body, err := k.req.Bytes()
	if err != nil {
		return "(not shown, as the prompt cannot be read back)"
	}
	return printable(hide(s, body))
}

// cut returns at most n bytes of s.
func cut(s string, n int) string { return s[:min(len(s), n)] }

// printable escapes what a terminal would obey, and cuts.
func printable(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		piece := s[i : i+size]
		switch {
		case r == utf8.RuneError && size == 1:
			piece = fmt.Sprintf(`\x%02x`, s[i])
		case r == '\n':
			piece = " "
		case !unicode.IsPrint(r) && r > 0xffff:
			piece = fmt.Sprintf(`\U%08x`, r)
		case !unicode.IsPrint(r):
			piece = fmt.Sprintf(`\u%04x`, r)
		}
		if b.Len()+len(piece) > messageMax-len("…") {
			return b.String() + "…"
		}
		b.WriteString(piece)
		i += size
	}
	return b.String()
}

// A message repeats the prompt where run letters and digits in a row, whatever
// stands between them, are in the prompt too, or the whole of one that is
// shorter, down to least. Many servers quote the input that they refuse.
const (
	run   = 12
	least = 4
	// hideMax bounds the work: no more of a message is looked at, or kept,
	// where there is a prompt to hide.
	hideMax = 8 << 10
)

// hide takes out of a message what it repeats of the prompts in a request's
// body. The time is linear in both.
func hide(msg string, body []byte) string {
	prompts := promptTexts(body)
	if len(prompts) == 0 {
		return msg
	}
	text := unescape(cut(msg, hideMax))
	runes, starts := letters(text)
	marked := make([]bool, len(text))
	found := false
	for _, p := range prompts {
		prompt, _ := letters(unescape(p))
		if w := min(run, len(prompt)); w >= least {
			found = mark(marked, runes, starts, prompt, w) || found
		}
	}
	if !found {
		return cut(msg, hideMax)
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case !marked[i]:
			b.WriteByte(text[i])
		case i == 0 || !marked[i-1]:
			b.WriteString("<prompt>")
		}
	}
	return b.String()
}

// mark marks the bytes of text between the first and the last of any w runes
// in a row that are in prompt too. It compares hashes of 64 bits.
func mark(marked []bool, runes []rune, starts []int, prompt []rune, w int) (found bool) {
	// seen spares most of the look-ups: a message has few runes.
	var seen [1 << 12]bool
	in := map[uint64]bool{}
	windows(runes, w, func(_ int, h uint64) {
		in[h], seen[h>>52] = false, true
	})
	windows(prompt, w, func(_ int, h uint64) {
		if !seen[h>>52] {
			return
		}
		if _, ok := in[h]; ok {
			in[h], found = true, true
		}
	})
	windows(runes, w, func(i int, h uint64) {
		if in[h] {
			last := i + w - 1
			for j := starts[i]; j < starts[last]+max(1, utf8.RuneLen(runes[last])); j++ {
				marked[min(j, len(marked)-1)] = true
			}
		}
	})
	return found
}

// windows calls yield with the index and a hash of every w runes in a row.
func windows(runes []rune, w int, yield func(i int, h uint64)) {
	const base = 0x9E3779B97F4A7C15 // odd
	top := uint64(1)
	for range w {
		top *= base
	}
	var h uint64
	for i, r := range runes {
		h = h*base + uint64(r) + 1
		if i >= w {
			h -= top * (uint64(runes[i-w]) + 1)
		}
		if i >= w-1 {
			yield(i-w+1, h*0xD6E8FEB86659FD93)
		}
	}
}

// letters returns the letters and digits of s, and all that is not ASCII, and
// where each of them begins.
func letters(s string) (runes []rune, starts []int) {
	for i, r := range s {
		if r >= utf8.RuneSelf || unicode.IsLetter(r) || unicode.IsDigit(r) {
			runes, starts = append(runes, r), append(starts, i)
		}
	}
	return runes, starts
}

// unescape undoes the escapes of JSON and of Python's repr, also where one is
// inside the other.
func unescape(s string) string {
	for range 3 {
		if !strings.Contains(s, `\`) {
			break
		}
		s = unescapeOnce(s)
	}
	return s
}

func unescapeOnce(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		i := strings.IndexByte(s, '\\')
		if i < 0 || i+1 == len(s) {
			break
		}
		b.WriteString(s[:i])
		s = s[i:]
		n := map[byte]int{'u': 6, 'U': 10, 'x': 4}[s[1]]
		if n > 0 && len(s) >= n {
			if r, err := strconv.ParseUint(s[2:n], 16, 31); err == nil {
				b.WriteRune(rune(r))
				s = s[n:]
				continue
			}
		}
		switch c := s[1]; c {
		case 'n', 'r', 't', 'b', 'f':
			b.WriteByte(' ')
		default:
			b.WriteByte(c)
		}
		s = s[2:]
	}
	b.WriteString(s)
	return b.String()
}

// promptTexts finds the prompts in a request's body: texts, and lists of token
// ids as they stand.
func promptTexts(body []byte) (out []string) {
	var walk func(key string, v gjson.Result)
	walk = func(key string, v gjson.Result) {
		switch {
		case key == "role" || key == "type":
		case v.Type == gjson.String:
			out = append(out, v.Str)
		case v.IsArray() && v.Get("0").Type == gjson.Number:
			out = append(out, v.Raw)
		case v.IsArray() || v.IsObject():
			v.ForEach(func(k, v gjson.Result) bool {
				walk(k.Str, v)
				return true
			})
		}
	}
	for _, key := range []string{"prompt", "messages", "input", "query", "documents"} {
		walk("", gjson.GetBytes(body, key))
	}
	return out
}
