package compare

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/servebench/servebench/bench/gate"
)

// JSON writes the table as it is.
func (t *Table) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(t)
}

// CSV writes a line a metric. What a spreadsheet would take for a formula is quoted.
func (t *Table) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	head := []string{"metric", "unit", "better"}
	for i, s := range t.Sides {
		head = append(head, plain(s.Name), "low", "high")
		if i > 0 {
			head = append(head, "change", "change_low", "change_high", "sign")
		}
	}
	if err := c.Write(head); err != nil {
		return err
	}
	number := func(v *float64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(*v, 'g', -1, 64)
	}
	for _, r := range t.Rows {
		line := []string{r.Metric, string(r.Unit), string(r.Better)}
		for i, v := range r.Cells {
			line = append(line, number(v.Value), number(v.Low), number(v.High))
			if i > 0 {
				line = append(line, number(v.Change), number(v.ChangeLow), number(v.ChangeHigh), v.Sign)
			}
		}
		if err := c.Write(line); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// plain is a text that no spreadsheet computes and no terminal obeys.
func plain(s string) string {
	s = printable(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}

func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '·'
		}
		return r
	}, s)
}

// Markdown writes the table for a comment on a change.
func (t *Table) Markdown(w io.Writer) error {
	var b strings.Builder
	escape := strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "'", "](", `]\(`, "@", "&#64;")
	line := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + escape.Replace(printable(c)) + " ")
		}
		b.WriteString("|\n")
	}
	grid := t.grid(false)
	line(grid[0])
	b.WriteString("|" + strings.Repeat(" --- |", len(grid[0])) + "\n")
	for _, cells := range grid[1:] {
		line(cells)
	}
	if diffs := t.different(); len(diffs) > 0 {
		b.WriteString("\nWhat differs:\n\n")
		for _, d := range diffs {
			b.WriteString("- " + escape.Replace(d) + "\n")
		}
	}
	for i, n := range t.Notes {
		b.WriteString(map[bool]string{true: "\n"}[i == 0] + "- " + escape.Replace(printable(n)) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Colours of a terminal.
const (
	green = "\x1b[32m"
	red   = "\x1b[31m"
	reset = "\x1b[0m"
)

// Text writes the table for a terminal, what differs between the runs first; colour
// marks better and worse.
func (t *Table) Text(w io.Writer, colour bool) error {
	var b strings.Builder
	if diffs := t.different(); len(diffs) > 0 {
		b.WriteString("What differs:\n")
		for _, d := range diffs {
			b.WriteString("  " + d + "\n")
		}
		b.WriteByte('\n')
	}
	grid := t.grid(true)
	widths := make([]int, len(grid[0]))
	for _, cells := range grid {
		for i, c := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	for i, cells := range grid {
		var line strings.Builder
		for j, c := range cells {
			pad := strings.Repeat(" ", widths[j]-utf8.RuneCountInString(c))
			if j > 0 {
				line.WriteString("  ")
			}
			// Words stand on the left, numbers on the right.
			if words := j == 0 || grid[0][j] == ""; words {
				line.WriteString(tinted(c, colour && i > 0) + pad)
			} else {
				line.WriteString(pad + c)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	for i, n := range t.Notes {
		b.WriteString(map[bool]string{true: "\n"}[i == 0] + "  - " + printable(n) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func tinted(s string, colour bool) string {
	switch {
	case !colour:
	case s == "better":
		return green + s + reset
	case s == "worse":
		return red + s + reset
	}
	return s
}

// different is a line for each difference.
func (t *Table) different() (out []string) {
	for _, d := range t.Differences {
		values := make([]string, len(d.Values))
		for i, v := range d.Values {
			if values[i] = printable(v); v == "" {
				values[i] = "(not told)"
			}
			if n := utf8.RuneCountInString(values[i]); n > 60 {
				values[i] = string([]rune(values[i])[:57]) + "..."
			}
		}
		out = append(out, fmt.Sprintf("%-8s %s: %s", d.Class, printable(d.Key), strings.Join(values, " -> ")))
	}
	return out
}

// grid is the table as texts, the heads first.
func (t *Table) grid(short bool) [][]string {
	head := []string{"metric"}
	for i, s := range t.Sides {
		name := printable(s.Name)
		if n := utf8.RuneCountInString(name); short && n > 28 {
			name = "..." + string([]rune(name)[n-25:])
		}
		if s.Runs > 1 {
			name += fmt.Sprintf(" (%d runs)", s.Runs)
		}
		head = append(head, name, "95 %")
		if i > 0 {
			head = append(head, "change", "95 %", "")
		}
	}
	grid := [][]string{head}
	for _, r := range t.Rows {
		label := r.Metric
		if r.Unit != gate.Number {
			label += " (" + string(r.Unit) + ")"
		}
		line := []string{label}
		for i, c := range r.Cells {
			line = append(line, figure(c.Value), span(c.Low, c.High, figure))
			if i > 0 {
				line = append(line, percent(c.Change), span(c.ChangeLow, c.ChangeHigh, percent), c.Sign)
			}
		}
		grid = append(grid, line)
	}
	return grid
}

// figure has four digits and no exponent where it can do without.
func figure(v *float64) string {
	switch {
	case v == nil:
		return "-"
	case *v == math.Trunc(*v) && math.Abs(*v) < 1e15:
		return strconv.FormatFloat(*v, 'f', 0, 64)
	case math.Abs(*v) >= 1000 && math.Abs(*v) < 1e15:
		return strconv.FormatFloat(*v, 'f', 1, 64)
	}
	return strconv.FormatFloat(*v, 'g', 4, 64)
}

func percent(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%+.2f%%", 100**v)
}

func span(low, high *float64, text func(*float64) string) string {
	if low == nil || high == nil {
		return ""
	}
	return "[" + text(low) + ", " + text(high) + "]"
}
