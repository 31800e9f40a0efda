package gate

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Mode is where the baseline comes from.
type Mode string

// The modes.
const (
	Paired   Mode = "paired"
	OfRuns   Mode = "history"
	OfFile   Mode = "file"
	Absolute Mode = "absolute"
)

// Report is a verdict with all that it rests on, as `--verdict` writes it.
type Report struct {
	Schema    string  `json:"schema"` // servebench.gate/1
	Mode      Mode    `json:"mode"`
	Verdict   Verdict `json:"verdict"`
	Reason    string  `json:"reason"` // one sentence
	Simulated bool    `json:"simulated,omitempty"`
	At        string  `json:"at"` // RFC 3339
	Rule      Rule    `json:"rule"`
	// Attempt counts the gates that were run for this verdict, this one among them: a
	// gate that is run until it is green is none.
	Attempt int `json:"attempt"`

	Primary      *MetricDecision  `json:"primary"`
	Advisory     []MetricDecision `json:"advisory"`
	Requirements []Finding        `json:"requirements"`
	// Checks are what must hold before anything is compared.
	Checks []Check `json:"checks"`
	Pairs  []Pair  `json:"pairs"`
	Runs   []Run   `json:"runs"`
	// Differences are what the two sides are unlike in, a line each.
	Differences []string `json:"differences"`
	Notes       []string `json:"notes"`
}

// Schema is that of a [Report].
const Schema = "servebench.gate/1"

// MetricDecision is what the rule makes of one metric.
type MetricDecision struct {
	Metric string `json:"metric"`
	Unit   Unit   `json:"unit"`
	Better Better `json:"better"`
	Decision
	// HolmP is the one-sided p against no loss, adjusted for the number of advisory
	// metrics; nil where there is none.
	HolmP *float64 `json:"holm_p,omitempty"`
}

// Check is a precondition.
type Check struct {
	Name   string `json:"name"` // for programs: verdicts, fingerprint, equal_work, errors, values
	Holds  bool   `json:"holds"`
	Reason string `json:"reason"`
}

// Pair is one pair of runs, with the primary metric of each.
type Pair struct {
	N         int      `json:"n"`     // from 1
	Order     string   `json:"order"` // AB or BA; A is the baseline
	Baseline  *float64 `json:"baseline"`
	Candidate *float64 `json:"candidate"`
	Change    *float64 `json:"change"` // as a share, negative where the candidate is worse
}

// Run is one run that went into a gate.
type Run struct {
	Name     string   `json:"name"`
	Side     string   `json:"side"` // baseline, candidate
	Verdict  string   `json:"verdict"`
	Reasons  []string `json:"reasons"`
	Repeated bool     `json:"repeated,omitempty"` // it took the place of one that was SUSPECT
}

// Conclude sets the verdict of a report from its parts: INCONCLUSIVE where a check does
// not hold; else FAIL where the primary metric or a requirement fails, INCONCLUSIVE
// where one of them is, PASS where all pass. Nothing to judge never passes.
func (r *Report) Conclude() {
	r.Schema = Schema
	type part struct {
		v    Verdict
		text string
	}
	var parts []part
	for _, c := range r.Checks {
		if !c.Holds {
			r.Verdict, r.Reason = Inconclusive, c.Reason
			return
		}
	}
	if r.Primary != nil {
		parts = append(parts, part{r.Primary.Verdict, r.Primary.Metric + ": " + r.Primary.Reason})
	}
	for _, f := range r.Requirements {
		parts = append(parts, part{f.Verdict, f.Reason})
	}
	if len(parts) == 0 {
		r.Verdict, r.Reason = Inconclusive, "Nothing was compared."
		return
	}
	rank := func(v Verdict) int { return slices.Index([]Verdict{Fail, Inconclusive, Pass}, v) }
	worst := slices.MinFunc(parts, func(a, b part) int { return cmp.Compare(rank(a.v), rank(b.v)) })
	r.Verdict, r.Reason = worst.v, worst.text
	if r.Verdict == Pass && r.Primary != nil {
		r.Reason = parts[0].text
	}
}

// ExitCode is that of the verdict: 0, 3 or 4.
func (r *Report) ExitCode() int {
	switch r.Verdict {
	case Pass:
		return 0
	case Fail:
		return 3
	}
	return 4
}

// Advise sets Holm's p of the advisory metrics.
func (r *Report) Advise(adjust func(p []float64) []float64) {
	p := make([]float64, len(r.Advisory))
	for i, a := range r.Advisory {
		if p[i] = math.NaN(); a.TP != nil {
			p[i] = *a.TP
		}
	}
	for i, v := range adjust(p) {
		if !math.IsNaN(v) {
			r.Advisory[i].HolmP = &v
		}
	}
}

// JSON writes the report.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// marks of the verdicts, for people.
var marks = map[Verdict]string{Pass: "✅ PASS", Fail: "❌ FAIL", Inconclusive: "⚠️ INCONCLUSIVE"}

// Markdown writes the report as a comment on a change.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s: servebench gate (%s)\n\n%s\n", marks[r.Verdict], r.Mode, markdown(r.Reason))
	if r.Simulated {
		b.WriteString("\nThe target is a simulator: these numbers describe no real server.\n")
	}
	r.markdownMetrics(&b)
	if len(r.Requirements) > 0 {
		b.WriteString("\n| requirement | value | bound | |\n| --- | ---: | ---: | --- |\n")
		for _, f := range r.Requirements {
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", markdown(f.Requirement), value(f.Value), value(f.Bound), f.Verdict)
		}
	}
	section := func(title string, items []string) {
		if len(items) == 0 {
			return
		}
		b.WriteString("\n" + title + "\n\n")
		for _, it := range items {
			b.WriteString("- " + markdown(it) + "\n")
		}
	}
	var broken []string
	for _, c := range r.Checks {
		if !c.Holds {
			broken = append(broken, c.Reason)
		}
	}
	section("What does not hold:", broken)
	section("What differs:", r.Differences)
	section("Notes:", r.notes())
	r.markdownPairs(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) markdownMetrics(b *strings.Builder) {
	if r.Primary == nil {
		return
	}
	b.WriteString("\n| metric | change | interval | smallest loss it sees | p (Holm) | |\n| --- | ---: | --- | ---: | ---: | --- |\n")
	row := func(m *MetricDecision, name, verdict string) {
		p := "-"
		if m.HolmP != nil {
			p = strconv.FormatFloat(*m.HolmP, 'g', 2, 64)
		}
		fmt.Fprintf(b, "| %s | %s | %s | %.2g %% | %s | %s |\n", markdown(name), percent(m.Mean.Change), m.Mean.span(), 100*m.Detectable, p, verdict)
	}
	row(r.Primary, "**"+r.Primary.Metric+"**", string(r.Primary.Verdict))
	for i := range r.Advisory {
		a := &r.Advisory[i]
		row(a, a.Metric, a.Advice(r.Rule))
	}
	b.WriteString("\nA change below 0 is worse, whichever way the metric gets better. Metrics below the first only advise.\n")
}

// Advice is what an advisory metric says after Holm's correction.
func (m *MetricDecision) Advice(rule Rule) string {
	switch p := m.HolmP; {
	case p == nil:
		return "~"
	case *p <= level && m.Mean.Change < -rule.WithDefaults().Effect:
		return "worse"
	case *p <= level:
		return "slightly worse"
	}
	return "~"
}

func (r *Report) markdownPairs(b *strings.Builder) {
	if len(r.Pairs) == 0 {
		return
	}
	b.WriteString("\n<details><summary>The pairs</summary>\n\n| pair | order | baseline | candidate | change |\n| ---: | --- | ---: | ---: | ---: |\n")
	for _, p := range r.Pairs {
		change := "-"
		if p.Change != nil {
			change = percent(*p.Change)
		}
		fmt.Fprintf(b, "| %d | %s | %s | %s | %s |\n", p.N, p.Order, value(p.Baseline), value(p.Candidate), change)
	}
	b.WriteString("\n</details>\n")
}

// notes are all that a reader must know besides.
func (r *Report) notes() []string {
	out := append(r.Doubts(), r.Notes...)
	if r.Attempt > 1 {
		out = append(out, fmt.Sprintf("Attempt %d: a gate that is run until it passes shows nothing.", r.Attempt))
	}
	return out
}

// Doubts names the runs that are not VALID.
func (r *Report) Doubts() (out []string) {
	for _, run := range r.Runs {
		if run.Verdict == "" || run.Verdict == "VALID" {
			continue
		}
		text := fmt.Sprintf("%s (%s) is %s", run.Name, run.Side, run.Verdict)
		if len(run.Reasons) > 0 {
			text += ": " + run.Reasons[0]
		}
		if run.Repeated {
			text += "; it had been repeated once"
		}
		out = append(out, text+".")
	}
	return out
}

func value(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'g', 6, 64)
}

// markdown makes a text of one line that formats nothing.
func markdown(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "'", "](", `]\(`, "@", "&#64;").Replace(visible(s))
}

// Text writes the report for a terminal.
func (r *Report) Text(w io.Writer) error {
	var b strings.Builder
	line := func(format string, args ...any) { b.WriteString(visible(fmt.Sprintf(format, args...)) + "\n") }
	for _, p := range r.Pairs {
		change := "-"
		if p.Change != nil {
			change = percent(*p.Change)
		}
		line("pair %2d %s  baseline %12s  candidate %12s  %10s", p.N, p.Order, value(p.Baseline), value(p.Candidate), change)
	}
	for _, d := range r.Differences {
		line("differs: %s", d)
	}
	if m := r.Primary; m != nil {
		line("%-28s %10s  %s  (spread %.2g %%, sees %.2g %%)", m.Metric, percent(m.Mean.Change), m.Mean.span(), 100*m.Spread, 100*m.Detectable)
	}
	for i := range r.Advisory {
		m := &r.Advisory[i]
		line("%-28s %10s  %s  advisory: %s", m.Metric, percent(m.Mean.Change), m.Mean.span(), m.Advice(r.Rule))
	}
	for _, f := range r.Requirements {
		line("%-12s %s", f.Verdict, f.Reason)
	}
	for _, c := range r.Checks {
		if !c.Holds {
			line("does not hold: %s", c.Reason)
		}
	}
	for _, n := range r.notes() {
		line("note: %s", n)
	}
	if r.Simulated {
		line("SIMULATED: the targets are servebench's own simulator, not a model.")
	}
	line("%s: %s", r.Verdict, r.Reason)
	_, err := io.WriteString(w, b.String())
	return err
}

// JUnit writes the report as a test suite: a case for the primary metric and for each
// requirement and check. What is inconclusive is an error, so that no reader of the
// file takes it for passed.
func (r *Report) JUnit(w io.Writer) error {
	type problem struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
	type testcase struct {
		Name    string   `xml:"name,attr"`
		Class   string   `xml:"classname,attr"`
		Failure *problem `xml:"failure"`
		Error   *problem `xml:"error"`
	}
	type suite struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Time     string     `xml:"timestamp,attr,omitempty"`
		Cases    []testcase `xml:"testcase"`
	}
	s := suite{Name: "servebench gate", Time: r.At}
	add := func(name string, v Verdict, reason string) {
		c := testcase{Name: visible(name), Class: "servebench.gate." + string(r.Mode)}
		p := &problem{visible(reason), visible(reason)}
		switch v {
		case Pass:
		case Fail:
			c.Failure, s.Failures = p, s.Failures+1
		default:
			c.Error, s.Errors = p, s.Errors+1
		}
		s.Cases = append(s.Cases, c)
		s.Tests++
	}
	for _, c := range r.Checks {
		add(c.Name, map[bool]Verdict{true: Pass, false: Inconclusive}[c.Holds], c.Reason)
	}
	if r.Primary != nil {
		add(r.Primary.Metric, r.Primary.Verdict, r.Primary.Reason)
	}
	for _, f := range r.Requirements {
		add(f.Requirement, f.Verdict, f.Reason)
	}
	// A gate that was cut short has a verdict of its own.
	if s.Tests == 0 || r.Verdict == Fail && s.Failures == 0 || r.Verdict != Pass && s.Failures+s.Errors == 0 {
		add("gate", r.Verdict, r.Reason)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// Annotation is a line of GitHub's workflow commands: an error, a warning or a notice.
func (r *Report) Annotation() string {
	level := map[Verdict]string{Fail: "error", Inconclusive: "warning", Pass: "notice"}[r.Verdict]
	escape := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	return fmt.Sprintf("::%s title=servebench gate %s::%s", level, r.Verdict, escape.Replace(visible(r.Reason)))
}

// Stamp is the time in a report's form.
func Stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }
