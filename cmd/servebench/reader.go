package main

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
)

// reader reads values, with the table's defaults, and collects what is wrong with them.
type reader struct {
	c    *cli.Context
	set  map[string]bool // the flags that were given; urfave/cli's IsSet walks over all
	errs []error
}

func newReader(c *cli.Context) *reader {
	r := &reader{c: c, set: map[string]bool{}}
	for _, name := range c.FlagNames() {
		r.set[name] = true
	}
	return r
}

func (r *reader) given(flag string) bool { return r.set[flag] }

func (r *reader) badf(flag, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("--%s: %s", flag, fmt.Sprintf(format, args...)))
}

// text is the flag's value, or its default.
func (r *reader) text(flag string) string {
	if r.given(flag) {
		return r.c.String(flag)
	}
	s, ok := flagByName[flag]
	if !ok {
		panic("no flag is called " + flag)
	}
	return s.Default
}

// on is the state of a switch.
func (r *reader) on(flag string) bool {
	if r.given(flag) {
		return r.c.Bool(flag)
	}
	return r.text(flag) == "true"
}

// whole is 0 where there is neither a value nor a default.
func (r *reader) whole(flag string) int {
	s := r.text(flag)
	if s == "" {
		return 0
	}
	v, err := strconv.Atoi(s)
	if err != nil {
		r.badf(flag, "%s is not a whole number", quoteWord(s))
	}
	return v
}

func (r *reader) bounded(flag string, low, high int) int {
	v := r.whole(flag)
	if v < low || v > high {
		r.badf(flag, "%d; want %d to %d", v, low, high)
		return low
	}
	return v
}

func (r *reader) optionalInt(flag string) *int {
	if !r.given(flag) {
		return nil
	}
	v := r.whole(flag)
	return &v
}

func (r *reader) number(flag string) float64 {
	s := r.text(flag)
	if s == "" {
		return 0
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(v) {
		r.badf(flag, "%s is not a number", quoteWord(s))
	}
	return v
}

func (r *reader) optionalNumber(flag string) *float64 {
	if !r.given(flag) {
		return nil
	}
	v := r.finite(flag)
	return &v
}

func (r *reader) finite(flag string) float64 {
	v := r.number(flag)
	if math.IsInf(v, 0) {
		r.badf(flag, "%v is not finite", v)
	}
	return v
}

// positive refuses 0 and less where a flag was given.
func (r *reader) positive(flag string, v int) {
	if r.given(flag) && v < 1 {
		r.badf(flag, "%s; want 1 or more", r.c.String(flag))
	}
}

// duration reads 500ms, 10s or a number of seconds.
func (r *reader) duration(flag string) time.Duration {
	s := r.text(flag)
	d, err := time.ParseDuration(s)
	if sec, ferr := strconv.ParseFloat(s, 64); ferr == nil && (sec == 0 || sec >= 1e-6 && sec < 1e9) {
		d, err = time.Duration(sec*float64(time.Second)), nil
	}
	if err != nil || d < 0 {
		r.badf(flag, "%s is not a duration; want 500ms, 10s, 5m or a number of seconds", quoteWord(s))
	}
	return d
}

// limit is a duration in which 0 means none. The default is the wire's.
func (r *reader) limit(flag string) time.Duration {
	if !r.given(flag) {
		return 0
	}
	if d := r.duration(flag); d != 0 {
		return d
	}
	return -1
}

// object reads a JSON object; null is none.
func (r *reader) object(flag string) json.RawMessage {
	s := r.text(flag)
	if s == "" || strings.TrimSpace(s) == "null" {
		return nil
	}
	if err := openai.CheckExtra(json.RawMessage(s)); err != nil {
		r.badf(flag, "%v", err)
		return nil
	}
	return json.RawMessage(s)
}

// pairs reads KEY=VALUE words; secret keeps values out of messages.
func (r *reader) pairs(flag string, secret bool) (out [][2]string) {
	for _, w := range r.c.StringSlice(flag) {
		k, v, ok := strings.Cut(w, "=")
		k, v = strings.TrimSpace(k), strings.TrimSpace(v)
		if !ok || k == "" {
			shown := "a word"
			if !secret {
				shown = quoteWord(w)
			}
			r.badf(flag, "%s is not KEY=VALUE", shown)
			continue
		}
		out = append(out, [2]string{k, v})
	}
	return out
}

// prefix is that of request ids: random, unless it is given.
func (r *reader) prefix() string {
	if r.given("request-id-prefix") {
		return r.text("request-id-prefix")
	}
	var b [4]byte
	rand.Read(b[:]) // never fails
	return strings.Replace(r.text("request-id-prefix"), "<random>", hex.EncodeToString(b[:]), 1)
}

// namespace is what argparse makes of the command line: every flag of vLLM by its
// name there. What may hold credentials is hidden.
func (r *reader) namespace() map[string]any {
	out := make(map[string]any, len(flagByName))
	for _, s := range serveFlags() {
		if s.Own {
			continue
		}
		name := strings.ReplaceAll(s.Name, "-", "_")
		switch {
		case s.Arity == arityMany || s.Arity == aritySome:
			out[name] = nil
			if r.given(s.Name) {
				out[name] = r.c.StringSlice(s.Name)
			}
		case s.Arity == arityNone, s.Arity == arityToggle && r.given(s.Name):
			out[name] = r.on(s.Name)
		case s.Arity == arityToggle || r.text(s.Name) == "" && !r.given(s.Name):
			out[name] = nil
		default:
			out[name] = typed(s.Kind, r.text(s.Name))
		}
		if s.Secret && r.given(s.Name) {
			out[name] = "***"
		}
	}
	return out
}

// typed is a value as a JSON document has it.
func typed(k kind, text string) any {
	number := json.Number(text)
	switch _, notWhole := number.Int64(); k {
	case kindInt:
		if notWhole == nil {
			return number
		}
	case kindFloat:
		if v, err := number.Float64(); err == nil && !math.IsInf(v, 0) {
			return json.RawMessage(loadgen.Number(v).String()) // with a decimal point, as Python's float
		}
	case kindJSON:
		if json.Valid([]byte(text)) {
			return json.RawMessage(text)
		}
	}
	return text
}
