package sim

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const fingerprint = `,"system_fingerprint":"` + serverName + `-` + Version + `"`

// generate answers what asks for tokens.
func (s *Server) generate(w http.ResponseWriter, r *http.Request, of api) {
	body := readBody(w, r)
	if body == nil {
		return
	}
	// The clock starts here and not after the decoding, which is the server's own work: it must not lengthen the TTFT.
	received := time.Now()
	g, bad := s.decodeGeneration(body, of)
	if bad != nil {
		bad.write(w)
		return
	}
	a := s.newAnswer(w, r, g, s.requests.Add(1)-1)
	if g.stream {
		// Headers go first and do not wait for a slot.
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.WriteHeader(http.StatusOK)
		if a.flush() != nil || a.reply != nil && a.begin() != nil {
			return
		}
	}
	if a.run(r.Context(), received) != nil {
		return // the client is gone
	}
	// The request is over for the engine and its slot free before the client can know: a closed loop of Slots requests
	// never waits for one.
	s.finished.Add(1)
	switch {
	case g.stream && a.reply != nil:
		a.endReply()
	case g.stream:
		a.end()
	case a.reply != nil:
		writeJSON(w, http.StatusOK, a.object(a.buf, true))
	default:
		writeJSON(w, http.StatusOK, a.whole())
	}
}

// answer writes what one request gets. It belongs to the request's goroutine.
type answer struct {
	s       *Server
	g       *generation
	w       http.ResponseWriter
	control *http.ResponseController
	number  uint64
	word    int    // of the first token
	reply   *reply // of a response; nil elsewhere
	took    took

	// Parts of every event, made once.
	head  []byte // up to the choices' opening bracket
	open  string // from there to the text
	close string // from the text to the finish reason

	buf []byte // the event being written; reused
}

func (s *Server) newAnswer(w http.ResponseWriter, r *http.Request, g *generation, number uint64) *answer {
	prefix, object := "cmpl-", "text_completion"
	a := &answer{s: s, g: g, w: w, control: http.NewResponseController(w), number: number}
	a.open, a.close = `{"index":0,"text":"`, `","logprobs":null,"finish_reason":`
	if g.api == ofChat {
		prefix, object = "chatcmpl-", "chat.completion.chunk"
		a.open, a.close = `{"index":0,"delta":{"content":"`, `"},"logprobs":null,"finish_reason":`
		if !g.stream {
			object = "chat.completion"
		}
	}
	mixed := mix(s.cfg.Seed, number)
	a.word = int(mixed % uint64(len(words)))
	if g.api == ofResponse {
		a.reply = newReply(g, mixed)
		return a
	}
	id := fmt.Sprintf("%016x", mixed)
	if given := r.Header.Get("X-Request-Id"); given != "" {
		id = given
	}
	a.head = fmt.Appendf(nil, `{"id":%s,"object":"%s","created":%d,"model":%s,"choices":[`,
		quoted(prefix+id), object, time.Now().Unix(), quoted(g.model))
	if g.stream {
		a.head = append([]byte("data: "), a.head...)
	}
	return a
}

// mix is splitmix64 over a request's number: ids that look like vLLM's and repeat with the seed.
func mix(seed, number uint64) uint64 {
	z := seed + (number+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// run makes the tokens, holding a slot. The error says that the client went away.
func (a *answer) run(ctx context.Context, received time.Time) error {
	if a.s.engine != nil {
		return a.runEngine(ctx, received)
	}
	waited, err := a.s.slots.acquire(ctx)
	if err != nil {
		return err
	}
	defer a.s.slots.release()
	admitted := received
	if waited {
		admitted = time.Now()
	}
	a.s.queried.Add(uint64(a.g.promptTokens))
	p := a.s.cfg.pace(admitted, a.number, a.g.promptTokens)
	a.took = took{queue: admitted.Sub(received), first: p.due}
	defer func() { a.took.rest = p.due - a.took.first }()
	if err := p.wait(ctx); err != nil {
		return err
	}
	a.s.promptTokens.Add(uint64(a.g.promptTokens))
	if !a.g.stream {
		p.advance(a.g.maxTokens - 1)
		if err := p.wait(ctx); err != nil {
			return err
		}
		a.s.generated.Add(uint64(a.g.maxTokens))
		return nil
	}
	return a.stream(ctx, p)
}

// stream writes the events with tokens when they are due. The first is due now.
func (a *answer) stream(ctx context.Context, p *pace) error {
	if err := a.opening(); err != nil {
		return err
	}
	for sent, n := 0, 1; ; {
		a.s.generated.Add(uint64(n))
		if err := a.tokens(sent, n); err != nil {
			return err
		}
		sent += n
		n = min(a.s.cfg.TokensPerChunk, a.g.maxTokens-sent)
		if n == 0 {
			return nil
		}
		p.advance(n)
		if err := p.wait(ctx); err != nil {
			return err
		}
	}
}

// opening writes the events before the first token.
func (a *answer) opening() error {
	switch a.g.api {
	case ofChat:
		a.role()
		return a.send()
	case ofResponse:
		return a.openMessage()
	}
	return nil
}

// tokens writes the event of tokens first to first+n-1.
func (a *answer) tokens(first, n int) error {
	if a.reply != nil {
		a.delta(first, n)
	} else {
		a.content(first, n)
	}
	return a.send()
}

// end writes what follows the last token. Nobody needs to know whether it arrived.
func (a *answer) end() {
	if a.g.includeUsage {
		a.usage()
		if a.send() != nil {
			return
		}
	}
	// No flush: net/http adds the end of the body and sends both in one write.
	_, _ = a.w.Write(done)
}

var done = []byte("data: [DONE]\n\n")

// role fills the buffer with the chunk that opens a chat.
func (a *answer) role() {
	b := append(a.buf[:0], a.head...)
	b = append(b, `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]`...)
	b = a.runningUsage(b, 0)
	b = append(b, `,"prompt_token_ids":`...)
	b = a.promptIDs(b)
	a.buf = append(b, `,"prompt_text":null`...)
}

// content fills the buffer with the event of tokens first to first+n-1.
func (a *answer) content(first, n int) {
	last := first+n == a.g.maxTokens
	b := append(a.buf[:0], a.head...)
	b = append(b, a.open...)
	b = a.text(b, first, n)
	b = append(b, a.close...)
	if last {
		b = append(b, `"length"`...)
	} else {
		b = append(b, "null"...)
	}
	if a.g.api == ofCompletion {
		b = append(b, `,"stop_reason":null,"prompt_token_ids":`...)
		if first == 0 {
			b = a.promptIDs(b)
		} else {
			b = append(b, "null"...)
		}
	} else if last {
		b = append(b, `,"stop_reason":null`...)
	}
	b = append(b, `,"token_ids":`...)
	b = append(a.tokenIDs(b, first, n), "}]"...)
	b = a.runningUsage(b, first+n)
	if last && !a.g.includeUsage {
		b = append(b, fingerprint...)
	}
	a.buf = b
}

// text appends tokens first to first+n-1.
func (a *answer) text(b []byte, first, n int) []byte {
	for k := first; k < first+n; k++ {
		b = append(b, words[(a.word+k)%len(words)]...)
	}
	return b
}

// usage fills the buffer with the event after the last token.
func (a *answer) usage() {
	b := append(a.buf[:0], a.head...)
	b = append(b, ']')
	b = append(a.counts(b, a.g.maxTokens), '}')
	a.buf = a.metrics(append(b, fingerprint...), false)
}

// counts appends a usage object up to its closing brace.
func (a *answer) counts(b []byte, completion int) []byte {
	b = append(b, `,"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(a.g.promptTokens), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(a.g.promptTokens+completion), 10)
	b = append(b, `,"completion_tokens":`...)
	return strconv.AppendInt(b, int64(completion), 10)
}

// runningUsage appends the usage so far where continuous_usage_stats asks for it.
func (a *answer) runningUsage(b []byte, completion int) []byte {
	if !a.g.continuousUsage {
		return b
	}
	b = a.counts(b, completion)
	if a.g.api == ofChat {
		b = append(b, `,"completion_tokens_details":null`...)
	}
	return append(b, '}')
}

func (a *answer) promptIDs(b []byte) []byte {
	if !a.g.returnIDs {
		return append(b, "null"...)
	}
	return appendIDs(b, a.g.promptIDs)
}

func (a *answer) tokenIDs(b []byte, first, n int) []byte {
	if !a.g.returnIDs {
		return append(b, "null"...)
	}
	b = append(b, '[')
	for k := first; k < first+n; k++ {
		if k > first {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(wordIDs[(a.word+k)%len(words)]), 10)
	}
	return append(b, ']')
}

// send closes the JSON in the buffer and writes it as one event, in one write to the connection.
func (a *answer) send() error {
	if err := a.write(); err != nil {
		return err
	}
	return a.flush()
}

// write does so without making sure that it leaves.
func (a *answer) write() error {
	if a.s.cfg.Truth {
		a.buf = append(a.buf, `,"sent_ns":`...)
		a.buf = strconv.AppendInt(a.buf, monotonicNow(), 10)
	}
	a.buf = append(a.buf, "}\n\n"...)
	_, err := a.w.Write(a.buf)
	return err
}

func (a *answer) flush() error { return a.control.Flush() }

// whole is the body of an answer that is not streamed.
func (a *answer) whole() []byte {
	g := a.g
	b := append(a.buf, a.head...)
	if g.api == ofChat {
		b = append(b, `{"index":0,"message":{"role":"assistant","content":"`...)
	} else {
		b = append(b, a.open...)
	}
	b = a.text(b, 0, g.maxTokens)
	if g.api == ofChat {
		b = append(b, `","refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":null}`...)
		b = append(b, `,"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":`...)
		b = a.tokenIDs(b, 0, g.maxTokens)
	} else {
		b = append(b, `","logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":`...)
		b = a.tokenIDs(b, 0, g.maxTokens)
		b = append(b, `,"prompt_logprobs":null,"prompt_token_ids":`...)
		b = a.promptIDs(b)
	}
	b = append(b, `,"routed_experts":null}],"service_tier":null`+fingerprint...)
	b = a.counts(b, g.maxTokens)
	b = append(b, `,"prompt_tokens_details":null,"completion_tokens_details":null}`...)
	if g.api == ofChat {
		b = append(b, `,"prompt_logprobs":null,"prompt_token_ids":`...)
		b = append(a.promptIDs(b), `,"prompt_text":null`...)
	}
	b = append(b, `,"kv_transfer_params":null,"ec_transfer_params":null`...)
	if !a.s.cfg.PerRequestMetrics {
		return append(b, `,"metrics":null}`...)
	}
	return append(a.metrics(b, true), '}')
}
