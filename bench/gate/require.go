package gate

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Unit is what a metric is measured in.
type Unit string

// The units.
const (
	Milliseconds Unit = "ms"
	PerSecond    Unit = "/s"
	Seconds      Unit = "s"
	Number       Unit = "" // a count
	Fraction     Unit = "of 1"
)

// suffixes are what may stand behind a number, and its worth in the unit.
var suffixes = map[Unit]map[string]float64{
	Milliseconds: {"us": 1e-3, "µs": 1e-3, "ms": 1, "s": 1e3},
	Seconds:      {"ms": 1e-3, "s": 1, "m": 60},
	PerSecond:    {"": 1, "/s": 1, "tok/s": 1, "req/s": 1},
	Number:       {"": 1},
	Fraction:     {"": 1, "%": 0.01},
}

// Requirement is one bound on a metric: `p99_ttft < 500ms`, `itl.p50 <= base+3%`.
type Requirement struct {
	Text   string `json:"text"`
	Metric string `json:"metric"` // canonical name

	unit  Unit
	op    string
	base  bool
	share float64 // of the base, added to it
	value float64 // in unit; added to the base
}

// NeedsBase tells that the bound is relative to a baseline.
func (r *Requirement) NeedsBase() bool { return r.base }

// SyntaxError is a requirement that cannot be read.
type SyntaxError struct {
	Text string
	At   int // byte offset
	Want string
}

// Error shows the place with a caret.
func (e *SyntaxError) Error() string {
	shown := []rune(e.Text[:e.At])
	return fmt.Sprintf("%s\n    %s\n    %s^", e.Want, visible(e.Text), strings.Repeat(" ", len([]rune(visible(string(shown))))))
}

// visible replaces what would move the caret or the terminal.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '·'
		}
		return r
	}, s)
}

// ParseRequirement reads NAME OP VALUE. NAME is a key of the result JSON without _ms,
// or METRIC.STATISTIC: itl.p50 is p50_itl. OP is one of < <= > >=. VALUE is a number
// with a unit where the metric is a time, or base, base+3%, base-5ms. known tells a
// canonical name's unit; names are offered where it does not know one. An error is a
// *[SyntaxError].
func ParseRequirement(text string, known func(name string) (Unit, bool), names []string) (Requirement, error) {
	p := parser{text: text}
	r, err := p.requirement(known, names)
	if err != nil {
		return Requirement{}, err
	}
	return r, nil
}

// parser reads a requirement from left to right.
type parser struct {
	text string
	at   int
}

func (p *parser) fail(at int, format string, args ...any) error {
	return &SyntaxError{p.text, at, fmt.Sprintf(format, args...)}
}

func (p *parser) space() {
	for p.at < len(p.text) && (p.text[p.at] == ' ' || p.text[p.at] == '\t') {
		p.at++
	}
}

// take reads the bytes that belong.
func (p *parser) take(belongs func(c byte) bool) string {
	start := p.at
	for p.at < len(p.text) && belongs(p.text[p.at]) {
		p.at++
	}
	return p.text[start:p.at]
}

func inName(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '.'
}

func (p *parser) requirement(known func(string) (Unit, bool), names []string) (r Requirement, err error) {
	r.Text = strings.TrimSpace(p.text)
	p.space()
	start := p.at
	name := p.take(inName)
	if name == "" {
		return r, p.fail(p.at, "want the name of a metric, such as output_throughput or p99_ttft")
	}
	var ok bool
	if r.Metric, r.unit, ok = resolve(name, known); !ok {
		return r, p.fail(start, "%q is no metric of a result; want %s", name, likely(name, names))
	}
	p.space()
	for _, op := range []string{"<=", ">=", "<", ">"} { // the longer ones first
		if strings.HasPrefix(p.text[p.at:], op) {
			r.op = op
			break
		}
	}
	if r.op == "" {
		return r, p.fail(p.at, "want one of < <= > >=")
	}
	p.at += len(r.op)
	p.space()
	if err = p.bound(&r); err != nil {
		return r, err
	}
	if p.space(); p.at < len(p.text) {
		return r, p.fail(p.at, "want nothing more: one requirement is NAME OP VALUE")
	}
	return r, nil
}

// resolve finds the canonical name: as it is, without _ms, or turned round.
func resolve(name string, known func(string) (Unit, bool)) (string, Unit, bool) {
	forms := []string{name, strings.TrimSuffix(name, "_ms")}
	if metric, stat, ok := strings.Cut(name, "."); ok && !strings.Contains(stat, ".") {
		forms = append(forms, stat+"_"+metric)
	}
	for _, f := range forms {
		if u, ok := known(f); ok {
			return f, u, true
		}
	}
	return "", "", false
}

// likely lists names that resemble one, or some.
func likely(name string, names []string) string {
	var near []string
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '.' })
	for _, n := range names {
		if slices.ContainsFunc(words, func(w string) bool { return len(w) > 2 && strings.Contains(n, w) }) {
			near = append(near, n)
		}
	}
	if len(near) == 0 {
		near = names
	}
	if len(near) > 6 {
		return strings.Join(near[:6], ", ") + " and others"
	}
	return strings.Join(near, ", ")
}

// bound reads what is behind the operator.
func (p *parser) bound(r *Requirement) error {
	if strings.HasPrefix(p.text[p.at:], "base") {
		p.at += len("base")
		r.base = true
		if p.space(); p.at == len(p.text) {
			return nil
		}
		sign := 1.0
		switch p.text[p.at] {
		case '+':
		case '-':
			sign = -1
		default:
			return p.fail(p.at, "want + or - and a share, such as base+3%%")
		}
		p.at++
		p.space()
		return p.offset(r, sign)
	}
	start := p.at
	v, err := p.number()
	if err != nil {
		return err
	}
	scale, err := p.unit(r.unit)
	if err != nil {
		return err
	}
	if r.value = v * scale; math.IsInf(r.value, 0) {
		return p.fail(start, "the number is too large")
	}
	return nil
}

// offset reads 3% or 5ms behind base.
func (p *parser) offset(r *Requirement, sign float64) error {
	start := p.at
	v, err := p.number()
	if err != nil {
		return err
	}
	if p.at < len(p.text) && p.text[p.at] == '%' {
		p.at++
		if r.share = sign * v / 100; r.share <= -1 {
			return p.fail(start, "want less than 100%%: nothing would be left of the base")
		}
		return nil
	}
	if r.unit == PerSecond || r.unit == Number || r.unit == Fraction {
		if !p.suffixed() {
			return p.fail(p.at, "want %% behind the number, such as base+3%%")
		}
	}
	scale, err := p.unit(r.unit)
	if err != nil {
		return err
	}
	r.value = sign * v * scale
	return nil
}

func (p *parser) suffixed() bool { return strings.TrimSpace(p.text[p.at:]) != "" }

// number reads a decimal number that is not negative.
func (p *parser) number() (float64, error) {
	start := p.at
	text := p.take(func(c byte) bool { return c >= '0' && c <= '9' || c == '.' })
	// An exponent, but no unit that begins with e.
	if p.at+1 < len(p.text) && (p.text[p.at] == 'e' || p.text[p.at] == 'E') {
		rest := strings.TrimLeft(p.text[p.at+1:], "+-")
		if rest != "" && rest[0] >= '0' && rest[0] <= '9' {
			p.at = len(p.text) - len(rest)
			p.take(func(c byte) bool { return c >= '0' && c <= '9' })
			text = p.text[start:p.at]
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, p.fail(start, "want a number, or base")
	}
	return v, nil
}

// unit reads what may stand behind a number of the unit.
func (p *parser) unit(u Unit) (float64, error) {
	p.space()
	start := p.at
	word := p.take(func(c byte) bool { return c != ' ' && c != '\t' })
	if scale, ok := suffixes[u][word]; ok {
		return scale, nil
	}
	switch u {
	case Milliseconds:
		return 0, p.fail(start, "want a unit behind the number: us, ms or s")
	case Seconds:
		return 0, p.fail(start, "want a unit behind the number: ms, s or m")
	case PerSecond:
		return 0, p.fail(start, "want nothing behind the number, or /s")
	case Fraction:
		return 0, p.fail(start, "want nothing behind the number, or %%")
	}
	return 0, p.fail(start, "want nothing behind the number")
}

// Finding is what became of a requirement.
type Finding struct {
	Requirement string   `json:"requirement"`
	Metric      string   `json:"metric"`
	Value       *float64 `json:"value"`
	Bound       *float64 `json:"bound"`
	Verdict     Verdict  `json:"verdict"`
	Reason      string   `json:"reason"`
}

// Check holds a value against the bound; base is the baseline's value of the metric.
// What is absent, not a number or no measurement never passes: it is [Inconclusive].
func (r *Requirement) Check(value, base *float64) Finding {
	f := Finding{Requirement: r.Text, Metric: r.Metric, Value: value, Verdict: Inconclusive}
	usable := func(v *float64) bool { return v != nil && !math.IsNaN(*v) && !math.IsInf(*v, 0) }
	switch {
	case !usable(value):
		f.Value, f.Reason = nil, r.Metric+" is not in the result."
		return f
	case r.base && (!usable(base) || *base <= 0):
		f.Reason = r.Metric + " is not in the baseline, or not above 0 there."
		return f
	}
	bound := r.value
	if r.base {
		bound += *base * (1 + r.share)
	}
	f.Bound = &bound
	holds := map[string]bool{"<": *value < bound, "<=": *value <= bound, ">": *value > bound, ">=": *value >= bound}[r.op]
	if *value < 0 || holds && r.void(*value) {
		f.Reason = fmt.Sprintf("%s is %s, which is no measurement.", r.Metric, r.shown(*value))
		return f
	}
	is, word := Pass, "holds"
	if !holds {
		is, word = Fail, "does not hold"
	}
	f.Verdict = is
	f.Reason = fmt.Sprintf("%s %s: %s is %s, the bound %s.", r.Text, word, r.Metric, r.shown(*value), r.shown(bound))
	return f
}

// void tells a 0 of what is above it wherever it was measured: rates, lengths, and
// latencies but those that may take no time.
func (r *Requirement) void(v float64) bool {
	if v != 0 || r.unit == Number {
		return false
	}
	stat, metric, _ := strings.Cut(r.Metric, "_")
	metric = strings.TrimSuffix(strings.TrimSuffix(metric, "_token"), "_from_due")
	return r.unit != Milliseconds || stat != "std" && slices.Contains([]string{"ttft", "tpot", "e2el"}, metric)
}

func (r *Requirement) shown(v float64) string {
	unit := string(r.unit)
	switch r.unit {
	case Milliseconds, Seconds:
		unit = " " + unit
	case Fraction:
		v, unit = 100*v, " %"
	}
	return strconv.FormatFloat(v, 'g', 6, 64) + unit
}
