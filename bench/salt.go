package bench

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
)

// AutoSalt is the [Config].Salt for which Run draws one. The Config of the result
// has the one that was drawn.
const AutoSalt = "auto"

// NewSalt draws a salt.
func NewSalt() string { return strings.ToLower(rand.Text()[:20]) }

// validateSalt looks at the salt.
func (c *Config) validateSalt() error {
	if c.Salt == "" {
		return nil
	}
	if err := openai.CheckSalt(c.Salt); err != nil {
		return fmt.Errorf("salt: %w", err)
	}
	if gjson.GetBytes(c.Extra, string(openai.SaltField)).Exists() {
		return errors.New("salt: extra-body has a cache_salt too; want one of the two")
	}
	return nil
}

// saltedSince is the vLLM from which on an API knows cache_salt; an older one
// ignores it.
func saltedSince(api openai.API) (major, minor int) {
	switch {
	case api == openai.Chat:
		return 0, 9
	case api.Generates():
		return 0, 10
	}
	return 0, 32 // the one that was read
}

// saltForm is how the salt is sent to this server: in the field of vLLM's where
// the server is known to look at it, else in the prompt.
func (s *session) saltForm() openai.SaltForm {
	e, api := &s.res.Engine, s.cfg.API()
	// The simulator's pooled prompts have no cache.
	if s.cfg.Strict || e.Name != "vllm" && !(e.Simulated && api.Generates()) {
		return openai.SaltPrompt
	}
	if e.Simulated {
		return openai.SaltField
	}
	major, minor := saltedSince(api)
	if v := numbers(e.Version); len(v) == 2 && slices.Compare(v, []int{major, minor}) < 0 {
		return openai.SaltPrompt
	}
	return openai.SaltField
}

// numbers are the first two of a version; nil where it has none.
func numbers(version string) (v []int) {
	for _, part := range strings.SplitN(version, ".", 3) {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		if v = append(v, n); len(v) == 2 {
			return v
		}
	}
	return nil
}

// salt salts every request of the plan, whose digest was made before. What is not
// timed gets salts of its own, so that it leaves nothing of the timed prompts in
// a cache.
func (s *session) salt() error {
	salt, p := s.cfg.Salt, s.res.Plan
	if salt == "" || len(p.Requests) == 0 {
		return nil
	}
	if s.drawn {
		s.warnf("The salt that was drawn for this run is %s.", salt)
	}
	p.salted = s.saltForm()
	var bodies spool
	for i := range p.Requests {
		q := &p.Requests[i]
		if err := s.saltOne(q, salt); err != nil {
			return fmt.Errorf("salt: request %d: %w", i, err)
		}
		if i > 0 { // the manifest looks into the first one
			bodies.put(q)
		}
	}
	for i := range p.warmups {
		if err := s.saltOne(&p.warmups[i], salt+"-warm-up"); err != nil {
			return fmt.Errorf("salt: warm-up %d: %w", i, err)
		}
		bodies.put(&p.warmups[i])
	}
	if err := s.saltOne(&p.first, salt+"-ready"); err != nil {
		return fmt.Errorf("salt: the ready check's request: %w", err)
	}
	if s.cfg.ProbeRate > 0 {
		if err := s.saltOne(&p.probe, salt+"-probe"); err != nil {
			return fmt.Errorf("salt: the probe request: %w", err)
		}
	}
	if p.salted == openai.SaltPrompt && !idsAlone(s.cfg.API(), p.first.Body) {
		why := "the server is not known to look at cache_salt"
		if s.cfg.Strict {
			why = "--strict-openai does not send cache_salt"
		}
		p.warnf("The salt stands in front of each prompt, which is a few tokens longer for it: %s.", why)
	}
	return nil
}

// idsAlone tells whether the prompt is token ids, which a salt leaves as many as
// they are.
func idsAlone(api openai.API, body []byte) bool {
	prompt, text := api.PromptIn(body)
	return prompt != nil && !text
}

func (s *session) saltOne(q *loadgen.Request, salt string) error {
	body, err := q.Bytes()
	if err != nil {
		return err
	}
	if body, err = s.cfg.API().Salted(body, s.res.Plan.salted, salt); err != nil {
		return err
	}
	q.Body, q.File, q.Offset, q.Size = body, nil, 0, 0
	return nil
}

// setSalt writes the salt into a document's own part.
func (r *Result) setSalt(set func(key string, value any)) {
	if r.Plan.salted == "" {
		return
	}
	set("salt", map[string]any{"form": r.Plan.salted, "value": r.redactor().Hide(r.Config.Salt)})
}
