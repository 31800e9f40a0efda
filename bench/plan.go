package bench

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/tokenize"
	"github.com/servebench/servebench/tokenize/remote"
)

// Plan is a run that is ready to start: every body is encoded, every due time
// known.
type Plan struct {
	Requests []loadgen.Request
	warmups  []loadgen.Request
	first    loadgen.Request // request 0 with the model's own name, of the ready check
	probe    loadgen.Request // what is sent beside the load
	Offsets  []time.Duration // nil in a closed loop
	// SHA256 is the digest of the bodies in order, each preceded by its length
	// as 8 bytes, big endian.
	SHA256    string
	Generator string
	Synthetic bool
	Tokenizer *tokenize.Info  // nil where no local tokenizer was used
	claimed   []int           // lengths that were asked for and nobody counted
	special   int             // tokens the server puts around a prompt, uncounted here
	salted    openai.SaltForm // how the salt was sent; "" where there was none
	aligned   int             // prompts that were cut to the length the server counts
	Counted   string          // who counts prompts: "tokenizer", "server" or "nobody"
	Warnings  []string
}

// Prepare makes the plan of a run and sends nothing: a dry run. What only the
// server can tell is missing: the name of an unnamed model, and the length of
// prompts where no local tokenizer counts them.
func Prepare(ctx context.Context, cfg Config) (*Plan, error) {
	s, err := open(cfg)
	if err != nil {
		return nil, err
	}
	defer s.fleet.close()
	if s.tok == nil && !s.cfg.Dataset.TokenIDs {
		s.warnf("No local tokenizer counts the prompts; the run itself asks the server, and their bytes may then differ.")
	}
	if s.cfg.accounting() == byAuto {
		s.warnf("--token-accounting auto asks the server first; the bodies of the run, and their sha256, may be others.")
	}
	if err := s.build(ctx, false); err != nil {
		return nil, err
	}
	s.res.Plan.Warnings = append(s.res.Warnings, s.res.Plan.Warnings...)
	return s.res.Plan, nil
}

// openTokenizer opens the local tokenizer that was named, or the model's, if
// there is one.
func (s *session) openTokenizer(model string) error {
	name := cmp.Or(s.cfg.Tokenizer, model)
	if s.cfg.NoTokenizer || name == "" {
		return nil
	}
	path, err := tokenize.Find(name)
	if err != nil {
		if s.cfg.Tokenizer != "" {
			return fmt.Errorf("tokenizer: %w", err)
		}
		return nil
	}
	s.files = path
	info, err := tokenize.Describe(path)
	if err == nil {
		s.tok, err = tokenize.Open(path)
	}
	switch {
	case err == nil:
	case errors.Is(err, tokenize.ErrNotBuilt), s.cfg.Tokenizer == "":
		s.warnf("The tokenizer of %s is not used: %v.", filepath.Base(name), err)
		return nil
	default:
		return fmt.Errorf("tokenizer: %w", err)
	}
	s.res.Plan.Tokenizer, s.res.Plan.Counted = &info, "tokenizer"
	if info.Note != "" {
		s.warnf("tokenizer %s: %s", info.Identifier, info.Note)
	}
	return nil
}

// servedModel is the name in the bodies.
func (s *session) servedModel() string {
	return cmp.Or(s.cfg.ServedModel, s.cfg.Model)
}

// build makes the plan; ask allows to ask the server for counts.
func (s *session) build(ctx context.Context, ask bool) error {
	tok := s.tok
	if tok == nil && !s.cfg.NoTokenizer && ask {
		tok = s.serverTokenizer(ctx)
	}
	p := s.res.Plan
	timed := s.collector()
	timed.lora = s.cfg.assigner()
	if ask {
		timed.align = s.aligner(ctx)
	}
	tools, err := s.tools(tok, timed.take)
	if err != nil {
		return err
	}
	set, err := dataset.Load(ctx, s.cfg.Dataset, tools)
	if late := timed.finish(); err == nil {
		err = late
	}
	if err != nil {
		return err
	}
	p.Requests, p.claimed, p.first = timed.out, timed.claimed, timed.first
	p.Generator, p.Synthetic, p.Warnings = set.Generator, set.Synthetic, set.Warnings
	if s.dated.Load() {
		p.warnf("The chat template writes today's date into prompts: on another day they differ.")
	}
	if v, ok := vocabulary(tok); ok && s.cfg.Dataset.Name == "random" && !s.cfg.Dataset.TokenIDs {
		p.special = v.Added
	}
	if p.Offsets, err = s.cfg.offsets(set); err != nil {
		return err
	}
	if s.cfg.Traced() && !s.cfg.Rate.IsInf() {
		p.warnf("The rate of %v requests a second is not used: the trace's own times are.", s.cfg.Rate)
	}
	if err := s.buildOthers(timed, set.Warmups); err != nil {
		return err
	}
	if prefix := s.cfg.RequestIDPrefix; prefix != "" {
		for i := range p.Requests {
			p.Requests[i].ID = fmt.Sprint(prefix, i)
		}
	}
	p.SHA256, err = digest(p.Requests)
	return err
}

// buildOthers makes the requests that are not timed: warm-ups, as the timed ones
// were aligned, and the probe.
func (s *session) buildOthers(timed *collector, warmups []dataset.Request) error {
	p := s.res.Plan
	warm := s.collector()
	warm.align = timed.align
	for i := range warmups {
		if err := warm.take(i, &warmups[i]); err != nil {
			return err
		}
	}
	if err := warm.finish(); err != nil {
		return err
	}
	p.warmups = warm.out
	if timed.align != nil {
		p.aligned = timed.align.report(p)
	}
	if s.cfg.ProbeRate <= 0 {
		return nil
	}
	hi := dataset.Request{Prompt: "Hi", InputTokens: 1, OutputTokens: 1}
	if s.cfg.API() == openai.Rerank {
		hi.Prompt, hi.Texts = "", []string{"Hi", "Hi"}
	}
	body, err := warm.format.Encode(hi)
	if err != nil {
		return fmt.Errorf("probe request: %w", err)
	}
	p.probe = loadgen.Request{Body: body, PromptTokens: 1, OutputTokens: asked(warm.format, body, 1)}
	return nil
}

func (p *Plan) warnf(format string, args ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
}

func vocabulary(tok tokenize.Tokenizer) (v tokenize.Vocabulary, ok bool) {
	if tok == nil {
		return v, false
	}
	return tok.Vocabulary()
}

// tokenizeTimeout bounds the wait for one answer of /tokenize.
const tokenizeTimeout = 15 * time.Second

// serverTokenizer is the server's own, if it has one that answers.
func (s *session) serverTokenizer(ctx context.Context) tokenize.Tokenizer {
	client := *s.client.HTTP()
	client.Timeout = tokenizeTimeout
	tok := remote.New(&client, s.cfg.Target.BaseURL, s.servedModel(), s.client.Headers())
	if _, err := tok.Encode(ctx, "count", false); err != nil {
		s.warnf("No local tokenizer, and the server counts no prompts (%v): lengths are compared with its usage only.", err)
		return nil
	}
	s.res.Plan.Counted = "server"
	if !s.cfg.Dataset.TokenIDs && s.cfg.Dataset.Name == "random" {
		s.warnf("No local tokenizer for %s: prompts are seeded words, counted by the server's /tokenize.", s.cfg.Model)
	}
	return tok
}

// spoolOver is how many bytes of bodies are held in memory; more go to a file
// that has no name any more.
const spoolOver = 8 << 20

// collector makes requests of prompts. take is safe for concurrent use; what it
// collected may be read after finish.
type collector struct {
	format  openai.Format
	claims  bool      // the lengths that come with prompts were counted by nobody
	lora    *assigner // nil: every request has the model's name
	align   *aligner  // nil: prompts are sent as they are
	spool   spool
	mu      sync.Mutex
	out     []loadgen.Request
	first   loadgen.Request // request 0 with the model's name
	claimed []int           // lengths that were asked for, kept to be compared with a count
}

func (s *session) collector() *collector {
	return &collector{
		format: openai.Format{
			API: s.cfg.API(), Model: s.servedModel(), Stream: s.cfg.Stream, IgnoreEOS: s.cfg.IgnoreEOS,
			Logprobs: s.cfg.Logprobs, Strict: s.cfg.Strict, Sampling: s.cfg.Sampling, Extra: s.cfg.Extra,
			TokenIDs: s.res.Accounting.Used == byIDs, RunningUsage: s.res.Accounting.Used == byUsage,
		},
		claims: s.res.Plan.Counted == "nobody" && !s.cfg.Dataset.TokenIDs,
	}
}

// take makes request i of a prompt, which is not needed after it.
func (c *collector) take(i int, in *dataset.Request) error {
	prompt := *in
	*in = dataset.Request{}
	if c.align == nil {
		return c.put(i, prompt)
	}
	return c.align.take(i, prompt, c.put)
}

// finish waits for what take has left to others.
func (c *collector) finish() error {
	if c.align == nil {
		return nil
	}
	return c.align.finish()
}

// put encodes request i and keeps it.
func (c *collector) put(i int, in dataset.Request) error {
	format := c.format
	if c.lora != nil {
		format.Model = c.lora.of(i)
	}
	req, err := encode(format, in)
	if err != nil {
		return fmt.Errorf("request %d: %w", i, err)
	}
	first := req
	if i == 0 && c.lora != nil {
		if first, err = encode(c.format, in); err != nil {
			return fmt.Errorf("request 0: %w", err)
		}
	}
	if i > 0 { // the manifest looks into the first one
		c.spool.put(&req)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if i == 0 {
		c.first = first
	}
	if lack := i + 1 - len(c.out); lack > 0 {
		c.out = append(c.out, make([]loadgen.Request, lack)...)
	}
	if c.claims {
		if lack := i + 1 - len(c.claimed); lack > 0 {
			c.claimed = append(c.claimed, make([]int, lack)...)
		}
		c.claimed[i], req.PromptTokens = req.PromptTokens, 0
	}
	c.out[i] = req
	return nil
}

func encode(f openai.Format, in dataset.Request) (loadgen.Request, error) {
	body, err := f.Encode(in)
	if err != nil {
		return loadgen.Request{}, err
	}
	return loadgen.Request{
		Body: body, PromptTokens: in.InputTokens, OutputTokens: asked(f, body, in.OutputTokens), Sequences: sequences(f.API, &in),
	}, nil
}

// sequences is how many texts a request brings to be pooled, as vLLM counts them:
// a reranker's query is none.
func sequences(api openai.API, in *dataset.Request) int {
	switch {
	case api.Generates():
		return 0
	case api == openai.Rerank:
		return max(0, len(in.Texts)-1)
	case api == openai.EmbeddingsChat:
		return 1
	}
	return max(1, len(in.Texts))
}

// asked is the number of tokens a body asks for: --extra-body may have changed
// it.
func asked(f openai.Format, body []byte, otherwise int) int {
	if len(f.Extra) == 0 {
		return otherwise
	}
	for _, key := range []string{"max_completion_tokens", "max_output_tokens", "max_tokens"} {
		if v := gjson.GetBytes(body, key); v.Type == gjson.Number && v.Num >= 0 && v.Num < 1<<40 {
			return int(v.Num)
		}
	}
	return otherwise
}

func digest(requests []loadgen.Request) (string, error) {
	h := sha256.New()
	var length [8]byte
	for i := range requests {
		body, err := requests[i].Bytes()
		if err != nil {
			return "", err
		}
		binary.BigEndian.PutUint64(length[:], uint64(len(body)))
		h.Write(length[:])
		h.Write(body)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
