package stored

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/servebench/servebench/bench/gate"
)

// Policy says what a comparison allows. The zero value allows nothing.
type Policy struct {
	// Failures is the share of requests that may fail.
	Failures float64
	// Differ are keys of facts that may differ, beside those under test.
	Differ []string
	// Strict refuses runs that are SUSPECT.
	Strict bool
}

// tokensWithin is how far the tokens of two runs of equal work may be apart (A8).
const tokensWithin = 0.001

// Checks are what must hold before runs are compared: that they are of one kind, that
// none is INVALID, that few requests failed, that all but what is under test is equal,
// and that the work was the same. baseline may be empty. notes are for people.
func Checks(baseline, candidate []Run, p Policy) (checks []gate.Check, notes []string) {
	notes = []string{}
	all := append(slices.Clone(baseline), candidate...)
	add := func(name, broken, holds string) {
		c := gate.Check{Name: name, Holds: broken == "", Reason: holds}
		if broken != "" {
			c.Reason = broken
		}
		checks = append(checks, c)
	}
	add("kind", mixed(all), "simulated and real results are not mixed")
	add("verdicts", unfit(all, p.Strict), "no run is INVALID")
	if i := slices.IndexFunc(all, func(r Run) bool { return r.Verdict == "" }); i >= 0 {
		notes = append(notes, fmt.Sprintf("Nobody judged the client of %s: it may have been what was slow.", all[i].Name))
	}
	add("errors", failing(all, p.Failures), "failed requests are within the budget")
	if len(baseline) == 0 {
		return checks, notes
	}
	broken := ""
	broken, more := unlike(all, p.Differ)
	notes = append(notes, more...)
	add("fingerprint", broken, "model, workload, machine and client are equal")
	broken, note := unequal(all)
	add("equal_work", broken, "the output tokens are equal")
	if note != "" {
		notes = append(notes, note)
	}
	return checks, notes
}

func mixed(all []Run) string {
	for i := range all {
		if all[i].Simulated != all[0].Simulated {
			return fmt.Sprintf("%s is of a simulator and %s is not, or the other way round: they cannot be compared.", all[i].Name, all[0].Name)
		}
	}
	return ""
}

func unfit(all []Run, strict bool) string {
	for _, r := range all {
		if r.Verdict == "INVALID" || strict && r.Verdict == "SUSPECT" {
			why := "no reason is told"
			if len(r.Reasons) > 0 {
				why = r.Reasons[0]
			}
			return fmt.Sprintf("%s is %s: %s.", r.Name, r.Verdict, why)
		}
		if r.Outcome != "" && r.Outcome != "completed" {
			return fmt.Sprintf("%s did not complete: it was %s.", r.Name, r.Outcome)
		}
	}
	return ""
}

func failing(all []Run, budget float64) string {
	for _, r := range all {
		if n := r.Completed + r.Failed; n == 0 || r.Completed <= 0 {
			return fmt.Sprintf("%s has no completed request.", r.Name)
		} else if share := float64(r.Failed) / float64(n); share > budget {
			return fmt.Sprintf("%s: %.3g %% of the requests failed; the budget is %.3g %%.", r.Name, 100*share, 100*budget)
		}
	}
	return ""
}

// unlike names the facts that must be equal and are not. What only some runs tell is
// noted.
func unlike(all []Run, differ []string) (broken string, notes []string) {
	var wrong, unknown []string
	for _, d := range Differences(all) {
		switch {
		case d.Class == UnderTest || slices.Contains(differ, d.Key):
		case d.Unknown:
			unknown = append(unknown, d.Key)
		default:
			values := slices.Clone(d.Values)
			slices.Sort(values)
			values = slices.DeleteFunc(slices.Compact(values), func(v string) bool { return v == "" })
			for i, v := range values {
				if r := []rune(v); len(r) > 40 {
					values[i] = string(r[:37]) + "..."
				}
			}
			wrong = append(wrong, fmt.Sprintf("%s (%s)", d.Key, strings.Join(values, " and ")))
		}
	}
	if len(unknown) > 0 {
		notes = append(notes, "Only some runs tell: "+strings.Join(unknown, ", ")+".")
	}
	if len(wrong) > 0 {
		broken = "The runs are not of the same kind: " + strings.Join(wrong, ", ") + " differ."
	}
	return broken, notes
}

// unequal compares the output tokens of equal work.
func unequal(all []Run) (broken, note string) {
	fixed := true
	low, high := int64(math.MaxInt64), int64(0)
	for _, r := range all {
		fixed = fixed && r.IgnoreEOS
		low, high = min(low, r.OutputTokens), max(high, r.OutputTokens)
	}
	if high <= 0 || float64(high-low)/float64(high) <= tokensWithin {
		return "", ""
	}
	text := fmt.Sprintf("the runs have %d to %d output tokens", low, high)
	if fixed {
		return "The work is not the same: " + text + " though the end of text was to be ignored.", ""
	}
	return "", "T" + text[1:] + ": answers end by themselves, and tokens per second depend on their lengths."
}
