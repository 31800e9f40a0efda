package bench

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/metrics"
)

// What may be asked of a server so that it tells the tokens of each event.
const (
	byChunks = "chunks" // nothing: the body is vLLM's
	byIDs    = "ids"
	byUsage  = "usage"
	byAuto   = "auto"
)

// Accounting says how the tokens of events are known.
type Accounting struct {
	Asked string `json:"asked"` // chunks, ids, usage or auto
	Used  string `json:"used"`  // chunks, ids or usage
	Why   string `json:"why"`
	// Probes are the untimed requests that the choice took.
	Probes int `json:"probe_requests,omitempty"`
}

// accounting is what was asked for.
func (c *Config) accounting() string { return cmp.Or(c.TokenAccounting, byChunks) }

// tells says whether the API has parameters for it.
func (c *Config) tells() bool { return c.API() == openai.Completions || c.API() == openai.Chat }

func (c *Config) validateAccounting() (errs []error) {
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("token-accounting: "+format, args...))
	}
	asked := c.accounting()
	switch asked {
	case byChunks, byAuto:
		return nil
	case byIDs, byUsage:
	default:
		bad("%q; want chunks, ids, usage or auto", asked)
		return errs
	}
	if _, known := backends[c.Backend]; known && !c.tells() {
		bad("%s: the backend %s has no parameter for it; want chunks, or a backend for completions or chat", asked, c.Backend)
	}
	if c.Strict {
		bad("%s asks for what OpenAI's API does not know, and strict-openai sends nothing of the kind; want chunks, or no strict-openai", asked)
	}
	if !c.Stream {
		bad("%s tells the tokens of a stream's events, and stream is off; want chunks", asked)
	}
	extra := gjson.ParseBytes(c.Extra)
	if v := extra.Get("return_token_ids"); asked == byIDs && v.Exists() && !v.Bool() {
		bad("ids, but extra-body sets return_token_ids to %s; want one of the two", v.Raw)
	}
	if o := extra.Get("stream_options"); asked == byUsage && o.Exists() && !(o.Get("include_usage").Bool() && o.Get("continuous_usage_stats").Bool()) {
		bad(`usage, but extra-body has stream_options of its own, which win; want {"include_usage": true, "continuous_usage_stats": true} among them`)
	}
	if n := extra.Get("n"); asked == byUsage && n.Exists() && n.Int() != 1 {
		bad("usage counts each choice by itself, and extra-body asks for %s of them; want ids", n.Raw)
	}
	return errs
}

// accounts is what is known of the accounting before a server was asked.
func (c *Config) accounts() Accounting {
	a := Accounting{Asked: c.accounting()}
	switch a.Used = a.Asked; a.Asked {
	case byChunks:
		a.Why = "no tokens of events were asked for"
	case byAuto:
		a.Used, a.Why = byChunks, "no server was asked"
	default:
		a.Why = "it was asked for by name"
	}
	return a
}

// How auto chooses. The running usage comes first: it leaves the events as they
// are, where ids put the prompt's into the first event and make events of tokens
// that show nothing.
const (
	accountTokens  = 8
	accountTimeout = time.Minute // of all requests together
	// accountBytes is how much longer an event may get: vLLM's usage takes 68 to
	// 110 bytes.
	accountBytes = 160
	// accountPrompt is the longest prompt whose ids auto lets into the first event.
	accountPrompt = 256
)

// account chooses where auto is asked for.
func (s *session) account(ctx context.Context) {
	if s.cfg.accounting() != byAuto {
		return
	}
	a := &s.res.Accounting
	a.Used, a.Why = s.choose(ctx)
	if a.Used == byChunks {
		s.warnf("--token-accounting auto asks for nothing: %s.", a.Why)
	}
}

func (s *session) choose(ctx context.Context) (used, why string) {
	c, engine := &s.cfg, &s.res.Engine
	extra := gjson.ParseBytes(c.Extra)
	switch {
	case !c.tells():
		return byChunks, "the backend " + c.Backend + " has no parameter for it"
	case c.Strict:
		return byChunks, "--strict-openai sends nothing that OpenAI's API does not know"
	case !c.Stream:
		return byChunks, "nothing is streamed"
	case extra.Get("return_token_ids").Exists() || extra.Get("stream_options").Exists():
		return byChunks, "--extra-body has its own return_token_ids or stream_options"
	case engine.Simulated:
	case engine.Name != "vllm" || !knows(engine.Version):
		return byChunks, fmt.Sprintf("it is not known that the server (%s %s) can tell", cmp.Or(engine.Name, "unknown"), cmp.Or(engine.Version, "without a version"))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, accountTimeout, fmt.Errorf("no whole answer within %v", accountTimeout))
	defer cancel()
	plain, err := s.sampleAll(ctx, byChunks)
	if err != nil {
		return byChunks, fmt.Sprintf("a request without it failed (%v)", err)
	}
	var not []string
	for _, form := range []string{byUsage, byIDs} {
		if n := extra.Get("n"); form == byUsage && n.Exists() && n.Int() != 1 {
			not = append(not, "usage tells nothing of several choices")
			continue
		}
		told, err := s.sampleAll(ctx, form)
		if err == nil {
			err = told.judge(form, plain, s.cfg.API())
		}
		if err == nil {
			return form, fmt.Sprintf("the server told the tokens of each of %d events at %d bytes more an event", told.events, max(0, told.each()-plain.each()))
		}
		not = append(not, fmt.Sprintf("%s: %v", form, err))
		if ctx.Err() != nil {
			break // the other form would have no time
		}
	}
	return byChunks, strings.Join(not, "; ")
}

// knows tells versions of vLLM that have both parameters: the younger one came
// with 0.10.2.
func knows(version string) bool {
	var n [3]int
	for i, part := range strings.SplitN(version, ".", 3) {
		digits := part
		if end := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
			digits = part[:end]
		}
		v, err := strconv.Atoi(digits)
		if err != nil {
			return false
		}
		n[i] = v
	}
	return slices.Compare(n[:], []int{0, 10, 2}) >= 0
}

// sampleAll sends one small request to each server, whose answers are taken
// together.
func (s *session) sampleAll(ctx context.Context, form string) (sum sample, err error) {
	c := s.collector()
	c.format.TokenIDs, c.format.RunningUsage = form == byIDs, form == byUsage
	body, err := c.format.Encode(dataset.Request{Prompt: "Count from one to ten.", OutputTokens: accountTokens})
	if err != nil {
		return sum, err
	}
	got := make([]sample, len(s.fleet))
	s.res.Accounting.Probes += len(s.fleet)
	err = s.fleet.each(func(i int, t *target) error {
		answer, err := t.client.Post(ctx, body)
		switch {
		case err == nil:
			got[i], err = readSample(answer, form)
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		}
		return err
	})
	sum = got[0]
	for _, g := range got[1:] {
		sum = sum.plus(g)
	}
	return sum, err
}

// sample is what one small answer showed.
type sample struct {
	events, bytes int  // events with choices, and the bytes of their payloads
	tokens        int  // told by events
	silent        int  // events with text that told nothing
	hidden        int  // events that are there for their token ids alone
	recounted     bool // the running usage tells reasoning apart
	total         int  // by the last usage; -1 where none came
}

func (s sample) plus(o sample) sample {
	total := s.total + o.total
	if s.total < 0 || o.total < 0 {
		total = -1
	}
	return sample{
		s.events + o.events, s.bytes + o.bytes, s.tokens + o.tokens, s.silent + o.silent, s.hidden + o.hidden,
		s.recounted || o.recounted, total,
	}
}

// each is the mean length of an event's payload.
func (s sample) each() int { return s.bytes / max(1, s.events) }

// readSample reads the body of an answer. It is no part of what is timed, and so
// it shares no code with what is.
func readSample(answer []byte, form string) (s sample, err error) {
	s.total = -1
	before := int64(0)
	for line := range bytes.Lines(answer) {
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:"))
		if data = bytes.TrimSpace(data); !ok || string(data) == "[DONE]" {
			continue
		}
		if !gjson.ValidBytes(data) {
			return s, errors.New("an event is not valid JSON")
		}
		ev := gjson.ParseBytes(data)
		if e := ev.Get("error"); e.Exists() && e.Type != gjson.Null {
			return s, errors.New("an error came in the stream")
		}
		running := ev.Get("usage.completion_tokens")
		if running.Type == gjson.Number {
			s.total = int(running.Int())
		}
		choices := ev.Get("choices").Array()
		if len(choices) == 0 {
			continue
		}
		s.events, s.bytes = s.events+1, s.bytes+len(data)
		ids, shows := gjson.Result{}, false
		for _, c := range choices {
			shows = shows || visible(c)
			if v := c.Get("token_ids"); v.IsArray() {
				ids = v
				s.tokens += len(v.Array())
			}
		}
		switch {
		case form == byIDs && !ids.Exists():
			s.silent += one(shows)
		case form == byIDs && !shows:
			s.hidden += one(len(ids.Array()) > 0)
		case form == byUsage && running.Type != gjson.Number:
			s.silent += one(shows)
		case form == byUsage:
			s.tokens += int(running.Int() - before)
			before = running.Int()
			s.recounted = s.recounted || ev.Get("usage.completion_tokens_details").IsObject()
		}
	}
	if s.events == 0 {
		return s, errors.New("no event with choices came")
	}
	return s, nil
}

// visible tells a choice with text of any kind.
func visible(choice gjson.Result) bool {
	for _, key := range []string{"text", "delta.content", "delta.reasoning", "delta.reasoning_content", "delta.tool_calls"} {
		if v := choice.Get(key); v.Type == gjson.String && v.Str != "" || v.IsArray() && len(v.Array()) > 0 {
			return true
		}
	}
	return false
}

// judge says why s, an answer with what was asked for, shows that it does not
// come or that it costs something; plain is one without.
func (s sample) judge(form string, plain sample, api openai.API) error {
	switch {
	case s.silent > 0 || s.tokens == 0:
		return errors.New("the server did not tell the tokens of every event")
	case s.total >= 0 && s.tokens != s.total:
		return fmt.Errorf("its events told %d tokens and its usage %d", s.tokens, s.total)
	case s.each() > plain.each()+accountBytes:
		return fmt.Errorf("an event takes %d bytes with it and %d without", s.each(), plain.each())
	case form == byUsage && s.recounted:
		return errors.New("the server recounts the reasoning tokens at each event")
	case form == byIDs && api == openai.Chat && s.hidden > 0:
		return errors.New("tokens that show nothing become events of their own")
	}
	return nil
}

// longPrompts gives up ids that auto chose where they would put a long prompt
// into the first event, which is on the first token's way.
func (s *session) longPrompts() bool {
	a := &s.res.Accounting
	if a.Asked != byAuto || a.Used != byIDs {
		return false
	}
	longest := 0
	for i := range s.res.Plan.Requests {
		r := &s.res.Plan.Requests[i]
		longest = max(longest, cmp.Or(r.PromptTokens, r.Len()/4))
	}
	if longest <= accountPrompt {
		return false
	}
	a.Used, a.Why = byChunks, fmt.Sprintf("ids would put prompts of up to %d tokens into the first event", longest)
	s.warnf("--token-accounting auto asks for nothing: %s.", a.Why)
	return true
}

// accountingDoubts are where what was asked for did not come, and what it shows.
func (r *Result) accountingDoubts() (out []string) {
	s, a := r.Summary, &r.Accounting
	streamed := s.Completed - s.Counters.NotStreamed
	if a.Used != byChunks && streamed > 0 {
		told := 0
		if s.Chunks != nil {
			told = s.Chunks.Requests
		}
		if told < streamed {
			out = append(out, fmt.Sprintf("--token-accounting %s: %d of %d streams did not tell the tokens of every event.", a.Used, streamed-told, streamed))
		}
	}
	if k := s.Chunks; k != nil && s.TPOTAfterFirst != nil && s.Token.TPOT != nil {
		if off := 1 - s.Token.TPOT.Mean/s.TPOTAfterFirst.Mean; k.First > 1 && off > 0.01 {
			out = append(out, fmt.Sprintf("First chunks bring %.1f tokens on average: mean TPOT, which counts all but one of them, is %.1f %% below the time per token after the first chunk.", k.First, 100*off))
		}
	}
	if g := &s.Reasoning; g.Unseen > 0 {
		out = append(out, fmt.Sprintf("%d of %d completions that began with reasoning show nothing else: they are not in the time to visible output.", g.Unseen, g.Requests))
	}
	return out
}

// setAccounting writes how tokens of events are known, and what they show.
func (r *Result) setAccounting(set func(key string, value any)) {
	if r.pools() {
		return
	}
	s := r.Summary
	if r.Accounting.Asked != "" { // else nothing was to run
		set("token_accounting", r.Accounting)
	}
	if s.Chunks != nil {
		set("tokens_per_chunk", s.Chunks)
	}
	if s.Reasoning != (metrics.Reasoning{}) {
		set("reasoning", s.Reasoning)
	}
}
