package openai

import (
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
	detail  bool   // has a "detail": an error, where there are no choices
	thought bool   // carries reasoning
	visible bool   // carries what is no reasoning: text, a refusal, a tool call
	several bool   // has a choice that is not the first of its request
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

// noUsage is a usage in which nothing is told.
var noUsage = usage{prompt: -1, completion: -1, cached: -1, reasoning: -1}

var errJSON = errors.New("not valid JSON")

// scan reads one payload, checks all of it and keeps what an event needs.
// Nothing is allocated; a full decode would cost ten times as much, on the path
// that is being timed. Keys are compared as they stand: nobody escapes them.
// Where a key comes twice, the last one's numbers count.
func scan(payload []byte, ev *event) error {
	*ev = event{ids: -1, usage: noUsage}
	i := space(payload, 0)
	if at(payload, i) == '{' {
		i = scanTop(payload, i, ev)
	} else {
		i = skip(payload, i, 0)
	}
	if i < 0 || space(payload, i) != len(payload) {
		return errJSON
	}
	ev.failed = ev.failed || ev.detail && !ev.choices
	return nil
}

// The functions below stand at b[i], the start of a value, and return the index
// behind it, or -1 where it is not valid JSON. Index and bytes are arguments,
// not a struct's fields, so that they stay in registers.

func scanTop(b []byte, i int, ev *event) int {
	key, i, more := begin(b, i)
	for more {
		from := i
		switch string(key) {
		case "choices":
			i = scanChoices(b, i, ev)
		case "usage":
			i = scanUsage(b, i, &ev.usage)
		case "error":
			i = skip(b, i, 1)
			ev.failed = ev.failed || i > from && !empty(b[from:i])
		case "object":
			i = skip(b, i, 1)
			ev.failed = ev.failed || i > from && string(b[from:i]) == `"error"`
		case "detail":
			i = skip(b, i, 1)
			ev.detail = true
		default:
			i = skip(b, i, 1)
		}
		key, i, more = next(b, i)
	}
	return i
}

// empty tells a value that says there is no error.
func empty(raw []byte) bool {
	switch string(raw) {
	case "null", "false", `""`:
		return true
	}
	return false
}

// scanChoices reads the choices of an event. The text is the first one's, as in
// vLLM's client; any of them makes the event bear a token.
func scanChoices(b []byte, i int, ev *event) int {
	if at(b, i) != '[' {
		return skip(b, i, 1) // null, for one
	}
	i, more := beginArray(b, i)
	for first := true; more; {
		if at(b, i) == '{' {
			ev.choices = true
			i = scanChoice(b, i, ev, first)
			first = false
		} else {
			i = skip(b, i, 2)
		}
		i, more = nextElement(b, i)
	}
	return i
}

func scanChoice(b []byte, i int, ev *event, first bool) int {
	key, i, more := begin(b, i)
	for more {
		switch string(key) {
		case "text":
			ev.plain = true
			i = scanText(b, i, ev, first)
		case "delta", "message":
			i = scanDelta(b, i, ev, first)
		case "index":
			ev.several = ev.several || at(b, i) > '0' && at(b, i) <= '9'
			i = skip(b, i, 3)
		case "finish_reason":
			ev.finish = ev.finish || at(b, i) != 'n'
			i = skip(b, i, 3)
		case "token_ids":
			i = scanIDs(b, i, ev)
		default:
			i = skip(b, i, 3)
		}
		key, i, more = next(b, i)
	}
	return i
}

// scanDelta reads a chat choice's delta or message.
func scanDelta(b []byte, i int, ev *event, first bool) int {
	if at(b, i) != '{' {
		return skip(b, i, 3)
	}
	key, i, more := begin(b, i)
	for more {
		from := i
		switch string(key) {
		case "content":
			i = scanText(b, i, ev, first)
		case "reasoning", "reasoning_content":
			i = skip(b, i, 4)
			ev.thought = ev.thought || b[from] == '"' && i-from > len(`""`)
		case "refusal":
			i = skip(b, i, 4)
			ev.visible = ev.visible || b[from] == '"' && i-from > len(`""`)
		case "tool_calls", "function_call":
			i = skip(b, i, 4)
			ev.visible = ev.visible || (b[from] == '[' || b[from] == '{') && i-from > len(`[]`)
		case "token_ids":
			i = scanIDs(b, i, ev)
		default:
			i = skip(b, i, 4)
		}
		key, i, more = next(b, i)
	}
	ev.bearing = ev.bearing || ev.thought || ev.visible
	return i
}

// scanText reads generated text.
func scanText(b []byte, i int, ev *event, first bool) int {
	if at(b, i) != '"' {
		return skip(b, i, 4)
	}
	end := str(b, i)
	if end < 0 {
		return end
	}
	raw := b[i+1 : end-1]
	if len(raw) > 0 {
		ev.bearing, ev.visible = true, true
	}
	if first {
		ev.text = raw
	}
	return end
}

func scanIDs(b []byte, i int, ev *event) int {
	if at(b, i) != '[' {
		return skip(b, i, 4)
	}
	ev.ids = max(ev.ids, 0)
	i, more := beginArray(b, i)
	for more {
		ev.ids++
		ev.bearing = true
		i, more = nextElement(b, skip(b, i, 5))
	}
	return i
}

func scanUsage(b []byte, i int, u *usage) int {
	if at(b, i) != '{' {
		return skip(b, i, 1)
	}
	u.seen = true
	key, i, more := begin(b, i)
	for more {
		switch string(key) {
		case "prompt_tokens":
			i = scanCount(b, i, &u.prompt, &u.bad)
		case "completion_tokens":
			i = scanCount(b, i, &u.completion, &u.bad)
		case "prompt_tokens_details", "completion_tokens_details":
			i = scanDetails(b, i, u)
		default:
			i = skip(b, i, 2)
		}
		key, i, more = next(b, i)
	}
	return i
}

func scanDetails(b []byte, i int, u *usage) int {
	if at(b, i) != '{' {
		return skip(b, i, 2)
	}
	key, i, more := begin(b, i)
	for more {
		switch string(key) {
		case "cached_tokens":
			i = scanCount(b, i, &u.cached, &u.bad)
		case "reasoning_tokens":
			i = scanCount(b, i, &u.reasoning, &u.bad)
		default:
			i = skip(b, i, 3)
		}
		key, i, more = next(b, i)
	}
	return i
}

// scanCount reads a non-negative integer below 2^53; 2.0 counts as 2. Anything
// else is as if absent, and but for null it is counted as bad.
func scanCount(b []byte, i int, into, bad *int) int {
	end := skip(b, i, 3)
	if end < 0 || b[i] == 'n' {
		return end
	}
	n := -1
	if c := b[i]; c == '-' || c >= '0' && c <= '9' {
		raw := b[i:end]
		f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(raw), len(raw)), 64)
		if err == nil && f >= 0 && f < 1<<53 && f == math.Trunc(f) {
			n = int(f)
		}
	}
	if n < 0 {
		*bad++
		return end
	}
	*into = n
	return end
}
