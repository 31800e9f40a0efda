package gate

import (
	"encoding/json"
	"encoding/xml"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/servebench/servebench/metrics/stat"
)

func decided(t *testing.T, d ...float64) *MetricDecision {
	t.Helper()
	got, err := Pairs(d, Rule{})
	if err != nil {
		t.Fatal(err)
	}
	return &MetricDecision{Metric: "output_throughput", Unit: PerSecond, Better: Higher, Decision: got}
}

func TestConclude(t *testing.T) {
	same, slower, noise := decided(t, make([]float64, 8)...), decided(t, -.1, -.1, -.1, -.1, -.1, -.1), decided(t, -.2, .3, -.1, .2, -.3, .1)
	held, broken := Check{"verdicts", true, "all runs are VALID"}, Check{"verdicts", false, "run 3 is INVALID"}
	good, bad, absent := Finding{Verdict: Pass, Reason: "holds"}, Finding{Verdict: Fail, Reason: "breaks"}, Finding{Verdict: Inconclusive, Reason: "absent"}
	for _, c := range []struct {
		name    string
		checks  []Check
		primary *MetricDecision
		reqs    []Finding
		want    Verdict
		code    int
		says    string
	}{
		{"equal", []Check{held}, same, nil, Pass, 0, "No loss of 3 %"},
		{"slower", []Check{held}, slower, nil, Fail, 3, "A loss beyond 3 %"},
		{"noise", []Check{held}, noise, nil, Inconclusive, 4, "Neither"},
		{"a check goes before a loss", []Check{held, broken}, slower, []Finding{bad}, Inconclusive, 4, "run 3 is INVALID"},
		{"a requirement fails", nil, same, []Finding{good, bad}, Fail, 3, "breaks"},
		{"a failure goes before a doubt", nil, noise, []Finding{bad}, Fail, 3, "breaks"},
		{"an absent metric", nil, nil, []Finding{good, absent}, Inconclusive, 4, "absent"},
		{"requirements alone", nil, nil, []Finding{good}, Pass, 0, "holds"},
		{"nothing", nil, nil, nil, Inconclusive, 4, "Nothing was compared"},
	} {
		r := Report{Checks: c.checks, Primary: c.primary, Requirements: c.reqs}
		r.Conclude()
		if r.Verdict != c.want || r.ExitCode() != c.code || !strings.Contains(r.Reason, c.says) {
			t.Errorf("%s: %v %d %q", c.name, r.Verdict, r.ExitCode(), r.Reason)
		}
	}
	if (&Report{}).ExitCode() != 4 {
		t.Error("a report without a verdict passes")
	}
}

// hostile has all that a server or a file could put into a name.
const hostile = "a|b<script>\x1b[31m\n::error::x`y` ![z](http://x.test) @team"

func TestForms(t *testing.T) {
	v, c := 900.0, -0.08
	r := Report{
		Mode: Paired, At: "2026-12-01T00:00:00Z", Simulated: true,
		Primary: decided(t, -.08, -.081, -.079, -.08, -.082, -.078), Advisory: []MetricDecision{*decided(t, -.05, -.051, -.049, -.05, -.052, -.048), {Metric: hostile}},
		Requirements: []Finding{{Requirement: hostile, Value: &v, Verdict: Fail, Reason: hostile}, {Requirement: "p99_ttft < 5ms", Verdict: Inconclusive, Reason: "absent"}},
		Checks:       []Check{{"fingerprint", true, "equal"}}, Pairs: []Pair{{1, "AB", &v, nil, &c}},
		Runs:        []Run{{"1-candidate", "candidate", "SUSPECT", []string{"late"}, true}, {"1-baseline", "baseline", "VALID", nil, false}},
		Differences: []string{hostile}, Notes: []string{"weak"},
	}
	r.Advise(stat.Holm)
	r.Conclude()
	if r.Advisory[0].HolmP == nil || r.Advisory[1].HolmP != nil || r.Advisory[0].Advice(r.Rule) != "worse" {
		t.Errorf("%+v", r.Advisory)
	}
	var js, md, text, junit strings.Builder
	for _, err := range []error{r.JSON(&js), r.Markdown(&md), r.Text(&text), r.JUnit(&junit)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var back Report
	if err := json.Unmarshal([]byte(js.String()), &back); err != nil || back.Verdict != Fail || back.Schema != Schema || back.Primary.N != 6 {
		t.Errorf("%+v %v", back, err)
	}
	for name, s := range map[string]string{"Markdown": md.String(), "text": text.String(), "JUnit": junit.String(), "annotation": r.Annotation()} {
		if strings.ContainsAny(s, "\x1b") || strings.Contains(s, "<script>") && name != "text" && name != "annotation" || strings.Contains(s, "\n::error::x") {
			t.Errorf("%s: %q", name, s)
		}
	}
	if strings.Contains(md.String(), "](") || strings.Contains(md.String(), "@team") || strings.Contains(md.String(), "x`y`") {
		t.Error(md.String())
	}
	for _, want := range []string{"FAIL", "output_throughput", "| 1 | AB | 900 | - | -8.00 % |", "had been repeated once", "simulator", "weak"} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("no %q in\n%s", want, md.String())
		}
	}
	var suite struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Cases    []struct {
			Name string `xml:"name,attr"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal([]byte(junit.String()), &suite); err != nil || suite.Tests != 4 || suite.Failures != 2 || suite.Errors != 1 || len(suite.Cases) != 4 {
		t.Errorf("%+v %v\n%s", suite, err, junit.String())
	}
	if !strings.HasPrefix(r.Annotation(), "::error title=servebench gate FAIL::") {
		t.Error(r.Annotation())
	}
}

// A gate that was cut short has no case that a reader takes for passed alone.
func TestJUnitOfBrokenGate(t *testing.T) {
	r := Report{Mode: Paired, Verdict: Inconclusive, Reason: "interrupted", Primary: decided(t, make([]float64, 8)...), Checks: []Check{{"verdicts", true, "fine"}}}
	var b strings.Builder
	if err := r.JUnit(&b); err != nil || !strings.Contains(b.String(), `errors="1"`) || !strings.Contains(b.String(), "interrupted") {
		t.Errorf("%v %s", err, b.String())
	}
}

// Whatever the values are: another unit changes no verdict, and to turn the two sides
// round turns the change round and never leaves a loss one.
func TestPairsOfAnything(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 100 {
		n := FewestPairs + r.IntN(4)
		loss, noise := 0.06*(r.Float64()-0.5), 0.02*r.Float64()
		var d, scaled, turned []float64
		for range n {
			a := math.Exp(10 * r.NormFloat64())
			b := a * math.Exp(loss+noise*r.NormFloat64())
			for _, c := range []struct {
				to   *[]float64
				a, b float64
			}{{&d, a, b}, {&scaled, a / 1024, b / 1024}, {&turned, b, a}} {
				v, ok := Change(c.a, c.b, Higher)
				if !ok {
					t.Fatal(c)
				}
				*c.to = append(*c.to, v)
			}
		}
		rule := Rule{Effect: 0.03}
		quick := func(d []float64) Decision { return newPairs(d, rule.WithDefaults()).decide() }
		one, same, other := quick(d), quick(scaled), quick(turned)
		if one.Verdict != same.Verdict || math.Abs(one.Mean.Change-same.Mean.Change) > 1e-9 {
			t.Errorf("%v: %+v in another unit %+v", d, one, same)
		}
		if math.Abs(math.Log1p(one.Mean.Change)+math.Log1p(other.Mean.Change)) > 1e-12 || math.Abs(one.Spread-other.Spread) > 1e-12 || one.Verdict == Fail && other.Verdict == Fail {
			t.Errorf("%v: %+v turned round %+v", d, one, other)
		}
	}
}

// Each look at the data has half of the level, and sees less.
func TestLooks(t *testing.T) {
	d := []float64{-.012, .02, -.01, .015, -.02, .01, .012, -.018}
	once, err := Pairs(d, Rule{})
	twice, err2 := Pairs(d, Rule{Looks: 2})
	if err != nil || err2 != nil || !(*twice.Mean.Low < *once.Mean.Low) || !(twice.Detectable > once.Detectable) || !(*twice.HodgesLehmann.Low < *once.HodgesLehmann.Low) {
		t.Errorf("%+v %v\n%+v %v", once, err, twice, err2)
	}
	half := stat.StudentT(0.975, 7) * once.Spread / math.Sqrt(8)
	if got := math.Log1p(twice.Mean.Change) - math.Log1p(*twice.Mean.Low); math.Abs(got-half) > 1e-12 {
		t.Errorf("half an interval is %v, want %v", got, half)
	}
}

// No number of a report is one that JSON does not have.
func TestReportsAreFinite(t *testing.T) {
	for _, d := range [][]float64{make([]float64, 5), {-350, 350, -350, 350, 0}, {-350, -350, -350, -350, 350}, {1e-300, 1e-300, 0, 0, 0}, {-1e300, 1, 1, 1, 1}} {
		got, err := Pairs(d, Rule{})
		if err != nil {
			continue
		}
		r := Report{Primary: &MetricDecision{Decision: got}}
		r.Conclude()
		var js strings.Builder
		if err := r.JSON(&js); err != nil {
			t.Errorf("%v: %v", d, err)
		}
	}
	if f, err := File(math.Log(1e150), 0); err != nil || math.IsInf(f.Mean.Change, 0) {
		t.Errorf("%+v %v", f, err)
	}
}
