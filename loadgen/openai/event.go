package openai

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"unsafe"
)

// event is what a payload of a stream, or a whole JSON body, says. Byte slices
// point into the payload.
type event struct {
	choices bool   // has at least one choice
	plain   bool   // a completion's choice: no event comes without a token
	bearing bool   // carries text, reasoning, a tool call or token ids
	finish  bool   // has a finish reason
	failed  bool   // is an error object
	text    []byte // the first choice's text, still escaped
	ids     int    // token ids; -1 where the event has none
	usage   usage
}

// usage holds the server's counts; -1 where absent or not a count.
type usage struct {
	seen                       bool // a usage object was there
	prompt, completion, cached int
	reasoning                  int // part of completion
	bad                        int // numbers that are no counts
}

var errJSON = errors.New("not valid JSON")

// maxDepth bounds nesting: a payload is not worth a stack overflow.
const maxDepth = 512

// scanner walks a JSON text once, checks all of it and keeps what an event
// needs; nothing is allocated. A full decode would cost ten times as much, on
// the path that is being timed.
type scanner struct {
	b     []byte
	i     int
	depth int
}

// scan reads one payload. Keys are compared as they stand: nobody escapes them.
func scan(payload []byte, ev *event) error {
	*ev = event{ids: -1, usage: usage{prompt: -1, completion: -1, cached: -1, reasoning: -1}}
	s := scanner{b: payload}
	s.space()
	if s.peek() != '{' {
		if !s.skip() || !s.end() {
			return errJSON
		}
		return nil
	}
	ok := s.object(func(key []byte) bool {
		switch string(key) {
		case "choices":
			return s.choices(ev)
		case "usage":
			return s.usage(&ev.usage)
		case "error":
			null := s.peek() == 'n'
			ev.failed = ev.failed || !null
			return s.skip()
		case "object":
			raw, ok := s.value()
			ev.failed = ev.failed || string(raw) == `"error"`
			return ok
		}
		return s.skip()
	})
	if !ok || !s.end() {
		return errJSON
	}
	return nil
}

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\r' || s.b[s.i] == '\t') {
		s.i++
	}
}

func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) take(c byte) bool {
	s.space()
	if s.peek() != c {
		return false
	}
	s.i++
	s.space()
	return true
}

// end tells whether only white space is left.
func (s *scanner) end() bool {
	s.space()
	return s.i == len(s.b)
}

// object calls member with each key; member consumes the value.
func (s *scanner) object(member func(key []byte) bool) bool {
	if s.depth++; s.depth > maxDepth || !s.take('{') {
		return false
	}
	defer func() { s.depth-- }()
	if s.take('}') {
		return true
	}
	for {
		key, ok := s.str()
		if !ok || !s.take(':') || !member(key) {
			return false
		}
		if s.take(',') {
			continue
		}
		return s.take('}')
	}
}

// array calls element at the start of each value; element consumes it.
func (s *scanner) array(element func() bool) bool {
	if s.depth++; s.depth > maxDepth || !s.take('[') {
		return false
	}
	defer func() { s.depth-- }()
	if s.take(']') {
		return true
	}
	for {
		if !element() {
			return false
		}
		if s.take(',') {
			continue
		}
		return s.take(']')
	}
}

// str reads a string and returns what stands between the quotes.
func (s *scanner) str() (raw []byte, ok bool) {
	if s.peek() != '"' {
		return nil, false
	}
	s.i++
	from := s.i
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[from : s.i-1], true
		case c < 0x20:
			return nil, false
		case c == '\\':
			if !s.escape() {
				return nil, false
			}
		default:
			s.i++
		}
	}
	return nil, false
}

func (s *scanner) escape() bool {
	s.i++
	switch s.peek() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i++
		return true
	case 'u':
		s.i++
		for range 4 {
			if c := s.peek() | 0x20; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') || s.peek() < '0' {
				return false
			}
			s.i++
		}
		return true
	}
	return false
}

// skip passes over one value of any kind.
func (s *scanner) skip() bool {
	switch s.peek() {
	case '"':
		_, ok := s.str()
		return ok
	case '{':
		return s.object(func([]byte) bool { return s.skip() })
	case '[':
		return s.array(s.skip)
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	_, ok := s.number()
	return ok
}

// value passes over one value and returns its bytes.
func (s *scanner) value() (raw []byte, ok bool) {
	from := s.i
	ok = s.skip()
	return s.b[from:s.i], ok
}

func (s *scanner) word(w string) bool {
	if !bytes.HasPrefix(s.b[s.i:], []byte(w)) {
		return false
	}
	s.i += len(w)
	return true
}

// number reads a JSON number and returns it as it stands.
func (s *scanner) number() (raw []byte, ok bool) {
	from := s.i
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else if !s.digits() {
		return nil, false
	}
	if s.peek() == '.' {
		if s.i++; !s.digits() {
			return nil, false
		}
	}
	if s.peek()|0x20 == 'e' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return nil, false
		}
	}
	return s.b[from:s.i], true
}

func (s *scanner) digits() bool {
	from := s.i
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.i++
	}
	return s.i > from
}

// choices reads the choices of an event. The text is the first one's, as in
// vLLM's client; any of them makes the event bear a token.
func (s *scanner) choices(ev *event) bool {
	if s.peek() != '[' {
		return s.skip() // null, for one
	}
	first := true
	return s.array(func() bool {
		if s.peek() != '{' {
			return false
		}
		ev.choices = true
		ok := s.object(func(key []byte) bool { return s.choice(ev, key, first) })
		first = false
		return ok
	})
}

// choice reads one member of a choice.
func (s *scanner) choice(ev *event, key []byte, first bool) bool {
	switch string(key) {
	case "text":
		ev.plain = true
		return s.piece(ev, first)
	case "delta", "message":
		if s.peek() != '{' {
			return s.skip()
		}
		return s.object(func(key []byte) bool { return s.delta(ev, key, first) })
	case "finish_reason":
		null := s.peek() == 'n'
		ev.finish = ev.finish || !null
		return s.skip()
	case "token_ids":
		return s.tokenIDs(ev)
	}
	return s.skip()
}

// delta reads one member of a chat choice's delta or message.
func (s *scanner) delta(ev *event, key []byte, first bool) bool {
	switch string(key) {
	case "content":
		return s.piece(ev, first)
	case "reasoning", "reasoning_content", "refusal":
		raw, ok := s.value()
		ev.bearing = ev.bearing || len(raw) > len(`""`) && raw[0] == '"'
		return ok
	case "tool_calls", "function_call":
		raw, ok := s.value()
		ev.bearing = ev.bearing || len(raw) > len(`[]`) && (raw[0] == '[' || raw[0] == '{')
		return ok
	case "token_ids":
		return s.tokenIDs(ev)
	}
	return s.skip()
}

// piece reads generated text.
func (s *scanner) piece(ev *event, first bool) bool {
	if s.peek() != '"' {
		return s.skip()
	}
	raw, ok := s.str()
	ev.bearing = ev.bearing || len(raw) > 0
	if first {
		ev.text = raw
	}
	return ok
}

func (s *scanner) tokenIDs(ev *event) bool {
	if s.peek() != '[' {
		return s.skip()
	}
	ev.ids = max(ev.ids, 0)
	return s.array(func() bool {
		ev.ids++
		ev.bearing = true
		return s.skip()
	})
}

func (s *scanner) usage(u *usage) bool {
	if s.peek() != '{' {
		return s.skip()
	}
	u.seen = true
	return s.object(func(key []byte) bool {
		switch string(key) {
		case "prompt_tokens":
			return s.count(&u.prompt, &u.bad)
		case "completion_tokens":
			return s.count(&u.completion, &u.bad)
		case "prompt_tokens_details", "completion_tokens_details":
			return s.details(u)
		}
		return s.skip()
	})
}

func (s *scanner) details(u *usage) bool {
	if s.peek() != '{' {
		return s.skip()
	}
	return s.object(func(key []byte) bool {
		switch string(key) {
		case "cached_tokens":
			return s.count(&u.cached, &u.bad)
		case "reasoning_tokens":
			return s.count(&u.reasoning, &u.bad)
		}
		return s.skip()
	})
}

// count reads a non-negative integer below 2^53; 2.0 counts as 2. Anything else
// is as if absent, and a number among it is counted as bad.
func (s *scanner) count(into, bad *int) bool {
	c := s.peek()
	if c != '-' && (c < '0' || c > '9') {
		if c != 'n' {
			*bad++
		}
		return s.skip()
	}
	raw, ok := s.number()
	if !ok {
		return false
	}
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(raw), len(raw)), 64)
	if err != nil || f < 0 || f >= 1<<53 || f != math.Trunc(f) {
		*bad++
		return true
	}
	*into = int(f)
	return true
}
