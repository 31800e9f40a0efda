package openai

import (
	"bytes"

	"github.com/tidwall/gjson"
)

// The Responses API names its events: generated text comes in events whose name
// ends in .delta, and one that is terminal ends the stream. [DONE] is no part of
// it. In an event, choices stands for one that carries what was generated, and
// finish for a terminal one.

// ends are the names of the terminal events of a response that is one: cut at
// its length it may be incomplete.
func ends(name []byte) bool {
	return string(name) == "response.completed" || string(name) == "response.incomplete"
}

// fails are the names of events that say that there is no response.
func fails(name []byte) bool {
	return string(name) == "error" || string(name) == "response.failed" || string(name) == "response.cancelled"
}

var (
	dotDelta  = []byte(".delta")
	reasoning = []byte("reasoning") // in the names of the deltas that carry it
	textDelta = "response.output_text.delta"
)

// scanResponse does for an event of the Responses API what scan does for one of
// the others. name is that of the event stream, for events without a type.
func scanResponse(payload, name []byte, ev *event) error {
	*ev = event{ids: -1, usage: noUsage}
	i := space(payload, 0)
	var e responseEvent
	if at(payload, i) == '{' {
		i = e.scan(payload, i, ev)
	} else {
		i = skip(payload, i, 0)
	}
	if i < 0 || space(payload, i) != len(payload) {
		return errJSON
	}
	if e.name == nil {
		e.name = name
		ev.failed = ev.failed || ev.detail
	}
	switch {
	case ends(e.name):
		ev.finish = true
		ev.bearing = ev.choices // an output that is not empty
		ev.choices = false
	case fails(e.name):
		ev.failed = true
	default:
		ev.choices = bytes.HasSuffix(e.name, dotDelta)
		ev.bearing = ev.choices && len(e.delta) > len(`""`) && e.delta[0] != 'n' // of null
		ev.thought = ev.bearing && bytes.Contains(e.name, reasoning)
		ev.visible = ev.bearing && !ev.thought
		if ev.bearing && e.delta[0] == '"' && string(e.name) == textDelta {
			ev.text = e.delta[1 : len(e.delta)-1]
		}
	}
	if !ev.finish {
		ev.usage = noUsage // not yet what it will be
	}
	return nil
}

// responseEvent is what scan finds on its way: the name may come last.
type responseEvent struct {
	name  []byte
	delta []byte // the value as it stands
}

func (e *responseEvent) scan(b []byte, i int, ev *event) int {
	key, i, more := begin(b, i)
	for more {
		from := i
		switch string(key) {
		case "type":
			i = skip(b, i, 1)
			if i > from && b[from] == '"' {
				e.name = b[from+1 : i-1]
			}
		case "delta":
			i = skip(b, i, 1)
			if i > from {
				e.delta = b[from:i]
			}
		case "response":
			if at(b, i) == '{' {
				i = scanReply(b, i, ev)
			} else {
				i = skip(b, i, 1)
			}
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

// scanReplyBody reads a response that comes as one JSON body: choices stands for
// a response that is complete.
func scanReplyBody(body []byte, ev *event) error {
	*ev = event{ids: -1, usage: noUsage}
	i := space(body, 0)
	if at(body, i) == '{' {
		i = scanReply(body, i, ev)
	} else {
		i = skip(body, i, 0)
	}
	if i < 0 || space(body, i) != len(body) {
		return errJSON
	}
	ev.choices = ev.finish
	ev.failed = ev.failed || ev.detail && !ev.finish
	return nil
}

// scanReply reads a response object: in its events, and the whole of a body.
// Here choices stands for an output that is not empty.
func scanReply(b []byte, i int, ev *event) int {
	output, going := false, false
	key, i, more := begin(b, i)
	for more {
		from := i
		switch string(key) {
		case "output":
			output = at(b, i) == '['
			i = skip(b, i, 2)
			ev.choices = output && i > from && !bytes.Equal(b[from:i], []byte("[]"))
		case "usage":
			i = scanReplyUsage(b, i, &ev.usage)
		case "error":
			i = skip(b, i, 2)
			ev.failed = ev.failed || i > from && !empty(b[from:i])
		case "object":
			i = skip(b, i, 2)
			ev.failed = ev.failed || i > from && string(b[from:i]) == `"error"`
		case "status":
			i = skip(b, i, 2)
			if i > from {
				s := string(b[from:i])
				ev.failed = ev.failed || s == `"failed"` || s == `"cancelled"`
				going = s == `"in_progress"` || s == `"queued"`
			}
		case "detail":
			i = skip(b, i, 2)
			ev.detail = true
		default:
			i = skip(b, i, 2)
		}
		key, i, more = next(b, i)
	}
	ev.finish = output && !going
	return i
}

func scanReplyUsage(b []byte, i int, u *usage) int {
	if at(b, i) != '{' {
		return skip(b, i, 2)
	}
	u.seen = true
	key, i, more := begin(b, i)
	for more {
		switch string(key) {
		case "input_tokens":
			i = scanCount(b, i, &u.prompt, &u.bad)
		case "output_tokens":
			i = scanCount(b, i, &u.completion, &u.bad)
		case "input_tokens_details", "output_tokens_details":
			i = scanDetails(b, i, u)
		default:
			i = skip(b, i, 3)
		}
		key, i, more = next(b, i)
	}
	return i
}

// replyText is the text in a response object, still escaped as ev.text is. It is
// for bodies and terminal events, after all stamps.
func replyText(payload []byte) (text []byte) {
	reply := gjson.GetBytes(payload, "response")
	if !reply.IsObject() {
		reply = gjson.ParseBytes(payload)
	}
	reply.Get("output").ForEach(func(_, item gjson.Result) bool {
		item.Get("content").ForEach(func(_, part gjson.Result) bool {
			if t := part.Get("text"); part.Get("type").Str == "output_text" && t.Type == gjson.String {
				text = append(text, t.Raw[1:len(t.Raw)-1]...)
			}
			return true
		})
		return true
	})
	return text
}
