package dataset

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ParseBuckets reads the sizes of random-mm's items as vLLM takes them, a Python
// dictionary of (height, width, frames) and probability:
//
//	{(256, 256, 1): 0.5, (720, 1280, 1): 0.5}
//
// or the same in JSON with the keys as strings. Of a repeated key the last
// probability holds. [Spec.Validate] judges the numbers. An error names the
// column, counted in bytes from 1.
func ParseBuckets(s string) ([]Bucket, error) {
	p := &literal{text: s}
	buckets, err := p.buckets()
	if err != nil {
		return nil, fmt.Errorf("column %d: %w; want {(height, width, frames): probability, ...}", p.at+1, err)
	}
	return buckets, nil
}

// literal reads the few forms of Python literals that a bucket has.
type literal struct {
	text string
	at   int
}

func (p *literal) buckets() (buckets []Bucket, err error) {
	if err := p.expect("{"); err != nil {
		return nil, err
	}
	for !p.take("}") {
		var b Bucket
		if b, err = p.bucket(); err != nil {
			return nil, err
		}
		same := func(o Bucket) bool { return o.Height == b.Height && o.Width == b.Width && o.Frames == b.Frames }
		if i := slices.IndexFunc(buckets, same); i >= 0 {
			buckets[i].Probability = b.Probability
		} else {
			buckets = append(buckets, b)
		}
		if p.take(",") {
			continue
		}
		if err := p.expect("}"); err != nil {
			return nil, err
		}
		break
	}
	if p.space(); p.at < len(p.text) {
		return nil, errors.New("text after the end")
	}
	return buckets, nil
}

func (p *literal) bucket() (b Bucket, err error) {
	if b, err = p.key(); err != nil {
		return b, err
	}
	if err := p.expect(":"); err != nil {
		return b, err
	}
	quote := p.quote()
	start := p.at
	text := p.run("+-.0123456789eE")
	if b.Probability, err = strconv.ParseFloat(text, 64); err != nil {
		p.at = start
		return b, errors.New("no probability")
	}
	return b, p.unquote(quote)
}

// key reads (256, 256, 1), "(256, 256, 1)" or "256, 256, 1".
func (p *literal) key() (b Bucket, err error) {
	quote := p.quote()
	bracket := p.take("(")
	if !bracket && quote == "" {
		return b, errors.New("no key in brackets")
	}
	for i, field := range []*int{&b.Height, &b.Width, &b.Frames} {
		if i > 0 {
			if err := p.expect(","); err != nil {
				return b, err
			}
		}
		p.space()
		start := p.at
		if *field, err = strconv.Atoi(p.run("+-0123456789")); err != nil {
			p.at = start
			return b, errors.New("no whole number")
		}
	}
	p.take(",")
	if bracket {
		if err := p.expect(")"); err != nil {
			return b, err
		}
	}
	return b, p.unquote(quote)
}

func (p *literal) quote() string {
	for _, q := range []string{`"`, "'"} {
		if p.take(q) {
			return q
		}
	}
	return ""
}

func (p *literal) unquote(quote string) error {
	if quote == "" {
		return nil
	}
	return p.expect(quote)
}

func (p *literal) space() { p.run(" \t\r\n") }

// run returns the longest text of these characters.
func (p *literal) run(of string) string {
	start := p.at
	for p.at < len(p.text) && strings.IndexByte(of, p.text[p.at]) >= 0 {
		p.at++
	}
	return p.text[start:p.at]
}

func (p *literal) take(token string) bool {
	p.space()
	if !strings.HasPrefix(p.text[p.at:], token) {
		return false
	}
	p.at += len(token)
	return true
}

func (p *literal) expect(token string) error {
	if p.take(token) {
		return nil
	}
	return fmt.Errorf("no %q", token)
}
