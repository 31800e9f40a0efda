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
	if s.cfg.Truth {
		a.arrived = arrived(r)
	}
	if g.stream {
		// Headers go first and do not wait for a slot.
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.WriteHeader(http.StatusOK)
		if a.flush() != nil {
			return
		}
		a.sender = sender(r)
		if a.reply != nil && a.begin() != nil {
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
	cached  int    // tokens of the prompt that came from the prefix cache; known with the first token
	took    took

	// Parts of every event, made once.
	head  []byte // up to the choices' opening bracket
	open  string // from there to the text
	close string // from the text to the finish reason

	arrived int64 // CLOCK_MONOTONIC, with Config.Truth; 0 once it is told

	buf []byte // the event being written; reused

	sender    Sender // past net/http; nil where there is none
	wire      []byte // the event as a chunk; reused
	conducted bool   // in the hands of a conductor, for which there is
	rest      []byte // what a slow reader left no room for
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
func (a *answer) stream(ctx context.Context, p *pace) (err error) {
	if err := a.opening(); err != nil {
		return err
	}
	slow := false
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
		if a.sender != nil && a.s.cfg.ITL > 0 && !slow {
			// What a conductor does not finish is a slow reader's.
			if sent, err = a.conduct(ctx, p, sent); err != nil || sent == a.g.maxTokens {
				return err
			}
			slow = true
			n = min(a.s.cfg.TokensPerChunk, a.g.maxTokens-sent)
			p.advance(n)
		}
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
	if thought := a.thought(first, n); thought > 0 {
		b = append(b, `{"index":0,"delta":{"reasoning":"`...)
		b = a.text(b, first, thought)
		if thought < n {
			b = append(b, `","content":"`...)
			b = a.text(b, first+thought, n-thought)
		}
	} else {
		b = append(b, a.open...)
		b = a.text(b, first, n)
	}
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

// thought is how many of tokens first to first+n-1 are reasoning: those in front.
func (a *answer) thought(first, n int) int {
	if a.g.api != ofChat {
		return 0
	}
	return min(max(a.s.cfg.ReasoningTokens-first, 0), n)
}

// reasoningDetails appends how many of the first n tokens are reasoning, where a parser tells them apart.
func (a *answer) reasoningDetails(b []byte, n int) []byte {
	b = append(b, `,"completion_tokens_details":{"reasoning_tokens":`...)
	b = strconv.AppendInt(b, int64(a.thought(0, n)), 10)
	return append(b, '}')
}

// reasons tells a chat whose reasoning a parser tells apart.
func (a *answer) reasons() bool { return a.g.api == ofChat && a.s.cfg.ReasoningTokens > 0 }

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
	b = a.counts(b, a.g.maxTokens)
	if a.s.cfg.PromptTokensDetails {
		b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
		b = append(strconv.AppendInt(b, int64(a.cached), 10), '}')
	}
	if a.reasons() {
		b = a.reasoningDetails(b, a.g.maxTokens)
	}
	b = append(b, '}')
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
	switch {
	case a.reasons():
		b = a.reasoningDetails(b, completion)
	case a.g.api == ofChat:
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
	if a.sender != nil {
		a.finish()
		return a.sendDirect()
	}
	if err := a.write(); err != nil {
		return err
	}
	return a.flush()
}

// finish closes the JSON in the buffer.
func (a *answer) finish() {
	if a.s.cfg.Truth {
		a.buf = append(a.buf, `,"sent_ns":`...)
		a.buf = strconv.AppendInt(a.buf, monotonicNow(), 10)
		if a.arrived != 0 {
			a.buf = append(a.buf, `,"arrived_ns":`...)
			a.buf = strconv.AppendInt(a.buf, a.arrived, 10)
			a.arrived = 0
		}
	}
	a.buf = append(a.buf, "}\n\n"...)
}

// write writes the event without making sure that it leaves.
func (a *answer) write() error {
	a.finish()
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
	thought := a.thought(0, g.maxTokens)
	b = a.text(b, thought, g.maxTokens-thought)
	if g.api == ofChat {
		b = append(b, `","refusal":null,"annotations":null,"audio":null,"function_call":null,"reasoning":`...)
		if thought > 0 {
			b = append(a.text(append(b, '"'), 0, thought), '"')
		} else {
			b = append(b, "null"...)
		}
		b = append(b, '}')
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
	if a.s.cfg.PromptTokensDetails {
		b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
		b = strconv.AppendInt(b, int64(a.cached), 10)
		b = append(b, `,"created_cache_tokens":null,"multimodal_tokens":null}`...)
	} else {
		b = append(b, `,"prompt_tokens_details":null`...)
	}
	if a.reasons() {
		b = a.reasoningDetails(b, g.maxTokens)
	} else {
		b = append(b, `,"completion_tokens_details":null`...)
	}
	b = append(b, '}')
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
