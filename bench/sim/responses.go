package sim

import (
	"fmt"
	"strconv"
	"time"
)

// echo holds the parameters that a response repeats.
type echo struct{ temperature, topP, presence, frequency float64 }

// echo reads them, but for the temperature, which every endpoint reads.
func (f *fields) echo(temperature float64, heated bool) echo {
	e := echo{temperature: 1, topP: 1}
	if heated {
		e.temperature = temperature
	}
	if v, ok := f.number("top_p"); ok {
		e.topP = v
	}
	e.presence, _ = f.number("presence_penalty")
	e.frequency, _ = f.number("frequency_penalty")
	return e
}

// responseInput reads a text, which is a user's message, or a list of messages.
func (f *fields) responseInput() (prompt, *apiError) {
	raw := f.raw["input"]
	switch {
	case !f.has("input"):
		// One more than came: vLLM counts the model's default that it filled in.
		f.problem("body.input", "'missing'", "'Field required'", fmt.Sprintf("'<dict of %d items>'", len(f.raw)+1))
		return prompt{}, nil
	case raw[0] == '"':
		return prompt{text: " user:" + f.text("input", "") + "\n assistant:"}, nil
	}
	return f.messages("input", true)
}

// reply is what a response needs beside an answer.
type reply struct {
	next int    // sequence number
	item string // the message's id
	// The response object around what changes in it: details, output, status and usage.
	upToDetails, upToOutput, upToStatus, rest []byte
}

func newReply(g *generation, mixed uint64) *reply {
	e := &g.echo
	return &reply{
		item:        fmt.Sprintf("msg_%016x", mix(mixed, 0)),
		upToDetails: fmt.Appendf(nil, `{"id":"resp_%016x","created_at":%d,"incomplete_details":`, mixed, time.Now().Unix()),
		upToOutput:  fmt.Appendf(nil, `,"instructions":null,"metadata":null,"model":%s,"object":"response","output":[`, quoted(g.model)),
		upToStatus: fmt.Appendf(nil, `],"parallel_tool_calls":true,"temperature":%s,"tool_choice":"none","tools":[],"top_p":%s,`+
			`"background":false,"max_output_tokens":%d,"max_tool_calls":null,"previous_response_id":null,"prompt":null,`+
			`"reasoning":null,"service_tier":"auto","status":"`, pythonFloat(e.temperature), pythonFloat(e.topP), g.maxTokens),
		rest: fmt.Appendf(nil, `,"presence_penalty":%s,"frequency_penalty":%s,"kv_transfer_params":null,`+
			`"ec_transfer_params":null,"input_messages":null,"output_messages":null}`, pythonFloat(e.presence), pythonFloat(e.frequency)),
	}
}

// object appends the response object, before the first token or when all is done. Every answer ends at its length.
func (a *answer) object(b []byte, done bool) []byte {
	p := a.reply
	b = append(b, p.upToDetails...)
	if done {
		b = append(b, `{"reason":"max_output_tokens"}`...)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, p.upToOutput...)
	if done {
		b = a.message(b, true)
	}
	b = append(b, p.upToStatus...)
	if done {
		b = append(b, `incomplete","text":null,"top_logprobs":null,"truncation":"disabled","usage":`...)
		b = a.metrics(append(a.replyUsage(b), `,"user":null`...), true)
	} else {
		b = append(b, `in_progress","text":null,"top_logprobs":null,"truncation":"disabled","usage":null,"user":null`...)
	}
	return append(b, p.rest...)
}

func (a *answer) replyUsage(b []byte) []byte {
	b = append(b, `{"input_tokens":`...)
	b = strconv.AppendInt(b, int64(a.g.promptTokens), 10)
	b = append(b, `,"input_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, int64(a.cached), 10)
	b = append(b, `,"cache_write_tokens":0,"input_tokens_per_turn":[],"cached_tokens_per_turn":[]},"output_tokens":`...)
	b = strconv.AppendInt(b, int64(a.g.maxTokens), 10)
	b = append(b, `,"output_tokens_details":{"reasoning_tokens":0,"tool_output_tokens":0,"output_tokens_per_turn":[],"tool_output_tokens_per_turn":[]},"total_tokens":`...)
	b = strconv.AppendInt(b, int64(a.g.promptTokens+a.g.maxTokens), 10)
	return append(b, '}')
}

// message appends the item that holds the text.
func (a *answer) message(b []byte, done bool) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, a.reply.item...)
	b = append(b, `","content":[`...)
	status := "in_progress"
	if done {
		b, status = a.part(b, true), "completed"
	}
	b = append(b, `],"role":"assistant","status":"`...)
	b = append(b, status...)
	return append(b, `","type":"message","phase":null}`...)
}

// part appends the message's one part.
func (a *answer) part(b []byte, done bool) []byte {
	b = append(b, `{"annotations":[],"text":"`...)
	if !done {
		return append(b, `","type":"output_text","logprobs":[]}`...)
	}
	b = a.text(b, 0, a.g.maxTokens)
	return append(b, `","type":"output_text","logprobs":null}`...)
}

// event starts an event in the buffer; the members of its JSON in front of the item's id follow.
func (a *answer) event(name string) []byte {
	b := append(a.buf[:0], "event: "...)
	b = append(b, name...)
	return append(b, "\ndata: {"...)
}

// inItem appends the item's id.
func (a *answer) inItem(b []byte) []byte {
	b = append(b, `"item_id":"`...)
	b = append(b, a.reply.item...)
	return append(b, '"')
}

// numbered appends the sequence number, typed the type, which comes last; the event is then in the buffer.
func (a *answer) numbered(b []byte) []byte {
	b = append(b, `,"sequence_number":`...)
	b = strconv.AppendInt(b, int64(a.reply.next), 10)
	a.reply.next++
	return b
}

func (a *answer) typed(b []byte, name string) {
	b = append(b, `,"type":"`...)
	b = append(b, name...)
	a.buf = append(b, '"')
}

// state fills the buffer with an event that carries the response object.
func (a *answer) state(name string, done bool) {
	b := append(a.event(name), `"response":`...)
	a.typed(a.numbered(a.object(b, done)), name)
}

// itemState and partState do so with the message and its part.
func (a *answer) itemState(name string, done bool) {
	b := append(a.event(name), `"item":`...)
	b = append(a.message(b, done), `,"output_index":0`...)
	a.typed(a.numbered(b), name)
}

func (a *answer) partState(name string, done bool) {
	b := append(a.event(name), `"content_index":0,`...)
	b = append(a.inItem(b), `,"output_index":0,"part":`...)
	a.typed(a.numbered(a.part(b, done)), name)
}

// begin announces the response, before the request is admitted.
func (a *answer) begin() error {
	a.state("response.created", false)
	if err := a.send(); err != nil {
		return err
	}
	a.state("response.in_progress", false)
	return a.send()
}

// openMessage writes what comes right before the first token.
func (a *answer) openMessage() error {
	a.itemState("response.output_item.added", false)
	if err := a.send(); err != nil {
		return err
	}
	a.partState("response.content_part.added", false)
	return a.send()
}

// delta fills the buffer with the event of tokens first to first+n-1.
func (a *answer) delta(first, n int) {
	const name = "response.output_text.delta"
	b := append(a.event(name), `"content_index":0,"delta":"`...)
	b = append(a.text(b, first, n), `",`...)
	b = append(a.inItem(b), `,"logprobs":[],"output_index":0`...)
	a.typed(a.numbered(b), name)
}

// wholeText fills the buffer with the event that has all of the text.
func (a *answer) wholeText() {
	const name = "response.output_text.done"
	b := append(a.event(name), `"content_index":0,`...)
	b = append(a.inItem(b), `,"logprobs":[],"output_index":0`...)
	b = append(a.numbered(b), `,"text":"`...)
	a.typed(append(a.text(b, 0, a.g.maxTokens), '"'), name)
}

// endReply writes what follows the last token. Nobody needs to know whether it arrived.
func (a *answer) endReply() {
	for _, fill := range [...]func(){
		a.wholeText,
		func() { a.partState("response.content_part.done", true) },
		func() { a.itemState("response.output_item.done", true) },
	} {
		if fill(); a.send() != nil {
			return
		}
	}
	a.state("response.completed", true)
	_ = a.write() // without a flush, as in end
}
