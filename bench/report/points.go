package report

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/servebench/servebench/metrics"
	"github.com/servebench/servebench/metrics/stat"
)

// Point is one point of an experiment, as tables and charts compare it.
type Point struct {
	ID, Group string
	// Settings are what sets the point apart: keys and values.
	Settings [][2]string
	Status   string // completed, failed or interrupted
	// Why says why the point did not complete.
	Why string
	// Trials are the figures of the trials that completed.
	Trials []Figures
}

// Figures are those of one run. Rates are per second, latencies in milliseconds.
type Figures struct {
	Requests, OutputTokens, TotalTokens float64
	TTFT, TPOT, ITL, E2EL               *Quantiles // nil: not measured
	Failed                              int64
	// Intervals of Requests and OutputTokens inside the run, of its steady window; nil:
	// not known.
	RequestsInterval, OutputTokensInterval *metrics.Interval
	// Verdict is the run's; "" is not known.
	Verdict metrics.Verdict
}

// Quantiles of a latency in milliseconds, with their 95 % intervals; nil: none.
type Quantiles struct {
	P50, P99                 float64
	P50Interval, P99Interval *metrics.Interval
}

// figure is one column of the table and one line of a chart.
type figure struct {
	head, chart, name string // of the column, of the chart, and in the chart
	decimals          int
	of                func(Figures) (float64, bool)
	interval          func(Figures) *metrics.Interval // nil: never
}

func quantile(of func(Figures) *Quantiles, p99 bool) func(Figures) (float64, bool) {
	return func(f Figures) (float64, bool) {
		q := of(f)
		switch {
		case q == nil:
			return 0, false
		case p99:
			return q.P99, true
		}
		return q.P50, true
	}
}

func quantileInterval(of func(Figures) *Quantiles, p99 bool) func(Figures) *metrics.Interval {
	return func(f Figures) *metrics.Interval {
		switch q := of(f); {
		case q == nil:
			return nil
		case p99:
			return q.P99Interval
		default:
			return q.P50Interval
		}
	}
}

// figures in the order of the table.
var figures = func() []figure {
	list := []figure{
		{"req/s", "requests a second", "requests/s", 2, func(f Figures) (float64, bool) { return f.Requests, true }, func(f Figures) *metrics.Interval { return f.RequestsInterval }},
		{"out tok/s", "output tokens a second", "output tokens/s", 1, func(f Figures) (float64, bool) { return f.OutputTokens, f.OutputTokens > 0 }, func(f Figures) *metrics.Interval { return f.OutputTokensInterval }},
		{"tok/s", "all tokens a second", "tokens/s", 1, func(f Figures) (float64, bool) { return f.TotalTokens, f.TotalTokens > 0 }, nil},
	}
	for _, l := range []struct {
		name string
		of   func(Figures) *Quantiles
	}{
		{"TTFT", func(f Figures) *Quantiles { return f.TTFT }}, {"TPOT", func(f Figures) *Quantiles { return f.TPOT }},
		{"ITL", func(f Figures) *Quantiles { return f.ITL }}, {"E2EL", func(f Figures) *Quantiles { return f.E2EL }},
	} {
		list = append(list,
			figure{l.name + " p50", l.name + ", ms", "p50", 2, quantile(l.of, false), quantileInterval(l.of, false)},
			figure{l.name + " p99", l.name + ", ms", "p99", 2, quantile(l.of, true), quantileInterval(l.of, true)})
	}
	return list
}()

// values are a figure's values in the trials that have it.
func (f figure) values(p *Point) (list []float64) {
	for _, t := range p.Trials {
		if v, ok := f.of(t); ok {
			list = append(list, v)
		}
	}
	return list
}

// median is that over the trials.
func (f figure) median(p *Point) (v float64, ok bool) {
	list := f.values(p)
	slices.Sort(list)
	return stat.Quantile(len(list), func(i int) float64 { return list[i] }, .5)
}

// inside is a figure's interval within its run. Of several trials there is none: how
// they differ says more.
func (f figure) inside(p *Point) *[2]float64 {
	if f.interval == nil || len(p.Trials) != 1 {
		return nil
	}
	if in := f.interval(p.Trials[0]); in != nil {
		return &[2]float64{in.Low, in.High}
	}
	return nil
}

// verdict is the worst of the trials; "" where none is known.
func (p *Point) verdict() (worst metrics.Verdict) {
	for _, t := range p.Trials {
		worst = worst.Worse(t.Verdict)
	}
	return worst
}

// screenWidth is the most columns that Points fills, where names leave room.
const screenWidth = 120

// Points writes a table that compares points: medians over the trials that
// completed, and why a point did not. Columns that no point has are left out, and
// so are those for which the screen has no room, the last figures first; the line
// below says which. The error is the writer's.
func Points(w io.Writer, points []Point) error {
	shown := shownFigures(points)
	var left []string
	rows := tableOf(points, shown)
	for widthOf(rows) > screenWidth && len(shown) > 1 {
		last := len(shown) - 1
		left = append([]string{shown[last].head}, left...)
		shown = shown[:last]
		rows = tableOf(points, shown)
	}
	widths := widthsOf(rows)
	b := bufio.NewWriter(w)
	for i, row := range rows {
		if i > 0 && len(points[i-1].Trials) == 0 {
			row = slices.Concat(row[:namesIn(points)], row[len(row)-1:]) // the sentence takes the figures' place
		}
		var text strings.Builder
		for i, cell := range row {
			gap := ""
			if i < len(row)-1 {
				gap = strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(cell)))
			}
			if i < namesIn(points) || i == len(row)-1 { // names and sentences
				cell += gap
			} else {
				cell = gap + cell
			}
			if i > 0 {
				text.WriteString("  ")
			}
			text.WriteString(cell)
		}
		line(b, text.String())
	}
	if len(left) > 0 {
		line(b, "No room here for "+strings.Join(left, ", ")+"; the page has them.")
	}
	return b.Flush()
}

// widthsOf are the widths of the columns but the last, which has sentences.
func widthsOf(rows [][]string) []int {
	widths := make([]int, len(rows[0])-1)
	for _, row := range rows {
		for i := range widths {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	return widths
}

func widthOf(rows [][]string) (sum int) {
	for _, n := range widthsOf(rows) {
		sum += n + 2
	}
	return sum - 2
}

// namesIn are the leading columns of names: the point, and what sets it apart.
func namesIn(points []Point) int {
	if len(settingKeys(points)) > 0 {
		return 2
	}
	return 1
}

// shownFigures are those that some point has.
func shownFigures(points []Point) (shown []figure) {
	for _, f := range figures {
		if slices.ContainsFunc(points, func(p Point) bool { _, ok := f.median(&p); return ok }) {
			shown = append(shown, f)
		}
	}
	return shown
}

// tableOf are the cells, the heads first. What sets a point apart is one column,
// whatever the keys are; the number of trials is one where there are several.
func tableOf(points []Point, shown []figure) [][]string {
	named := namesIn(points) == 2
	trials := slices.ContainsFunc(points, func(p Point) bool { return len(p.Trials) > 1 })
	head := []string{"point"}
	if named {
		head = append(head, "varied")
	}
	if trials {
		head = append(head, "trials")
	}
	for _, f := range shown {
		head = append(head, f.head)
	}
	judged := slices.ContainsFunc(points, func(p Point) bool { return p.verdict() != "" })
	head = append(head, "failed")
	if judged {
		head = append(head, "verdict")
	}
	rows := [][]string{append(head, "")}
	for i := range points {
		p := &points[i]
		row := []string{p.ID}
		if named {
			row = append(row, p.settings())
		}
		if trials {
			row = append(row, strconv.Itoa(len(p.Trials)))
		}
		for _, f := range shown {
			cell := "-"
			if v, ok := f.median(p); ok {
				cell = strconv.FormatFloat(v, 'f', f.decimals, 64)
			}
			row = append(row, cell)
		}
		failed := int64(0)
		for _, t := range p.Trials {
			failed += t.Failed
		}
		row = append(row, strconv.FormatInt(failed, 10))
		if judged {
			row = append(row, cmp.Or(string(p.verdict()), "-"))
		}
		rows = append(rows, append(row, p.note()))
	}
	return rows
}

// note says what there is to say beside the figures.
func (p *Point) note() string {
	switch {
	case p.Status == "completed":
		return ""
	case p.Why == "":
		return p.Status
	}
	return p.Status + ": " + p.Why
}

// settings are what sets a point apart, in one text.
func (p *Point) settings() string {
	var all []string
	for _, s := range p.Settings {
		all = append(all, s[0]+" "+s[1])
	}
	return cmp.Or(strings.Join(all, ", "), "-")
}

// settingKeys are the keys of all points, in the order in which they come.
func settingKeys(points []Point) (keys []string) {
	for _, p := range points {
		for _, s := range p.Settings {
			if !slices.Contains(keys, s[0]) {
				keys = append(keys, s[0])
			}
		}
	}
	return keys
}

func (p *Point) setting(key string) string {
	for _, s := range p.Settings {
		if s[0] == key {
			return s[1]
		}
	}
	return "-"
}

// panel is one chart: a group's points along the x axis.
type panel struct {
	Title  string   `json:"title"`
	Key    string   `json:"key"` // what varies
	Labels []string `json:"labels"`
	Lines  bool     `json:"lines"` // the labels are numbers in order
	// Verdicts of the points: those that are not VALID are marked.
	Verdicts []metrics.Verdict `json:"verdicts"`
	Series   []panelLine       `json:"series"`
}

type panelLine struct {
	Name   string      `json:"name"`
	Values []*float64  `json:"values"` // medians; null: none
	Trials [][]float64 `json:"trials"` // of each point, where there are several
	// Intervals are [low, high] inside the run of each point; null: none.
	Intervals []*[2]float64 `json:"intervals"`
}

type comparison struct {
	Kind   string  `json:"kind"`
	Panels []panel `json:"panels"`
}

// Comparison writes an HTML page with charts of throughput and latency over what
// varies in each group of points, and the table of all points. A mark is the median
// over trials; further marks are the trials. The error is the writer's, or that no
// point completed.
func Comparison(w io.Writer, p Page, points []Point) error {
	c := comparison{Kind: "points"}
	var groups []string
	for _, pt := range points {
		if !slices.Contains(groups, pt.Group) {
			groups = append(groups, pt.Group)
		}
	}
	for _, g := range groups {
		var of []Point
		for _, pt := range points {
			if pt.Group == g {
				of = append(of, pt)
			}
		}
		c.Panels = append(c.Panels, panelsOf(g, of)...)
	}
	if len(c.Panels) == 0 {
		return errors.New("comparison: no point completed")
	}
	var charts []string
	for i := range c.Panels {
		charts = append(charts, fmt.Sprintf("panel%d", i))
	}
	rows := tableOf(points, shownFigures(points))
	return p.write(w, charts, table{Head: rows[0], Rows: rows[1:]}, c)
}

// panelsOf are the charts of a group: one for each figure that a point has, p50 and
// p99 together.
func panelsOf(group string, points []Point) (panels []panel) {
	points = slices.DeleteFunc(slices.Clone(points), func(p Point) bool { return len(p.Trials) == 0 })
	keys := varying(points)
	base := panel{Key: strings.Join(keys, ", ")}
	numbers := len(keys) == 1
	if number := func(p Point) (float64, error) { return strconv.ParseFloat(p.setting(keys[0]), 64) }; numbers {
		bad := func(p Point) bool { _, err := number(p); return err != nil }
		if numbers = !slices.ContainsFunc(points, bad); numbers { // inf is a number, and the last
			slices.SortStableFunc(points, func(a, b Point) int {
				x, _ := number(a)
				y, _ := number(b)
				return cmp.Compare(x, y)
			})
		}
	}
	for i := range points {
		p := &points[i]
		label := p.ID
		if len(keys) > 0 {
			var values []string
			for _, k := range keys {
				values = append(values, p.setting(k))
			}
			if !slices.Contains(values, "-") { // of a point without one its id says more
				label = strings.Join(values, ", ")
			}
		}
		base.Labels = append(base.Labels, label)
		base.Verdicts = append(base.Verdicts, p.verdict())
	}
	base.Lines = numbers && len(points) > 1
	for _, f := range figures {
		l := panelLine{Name: f.name}
		some := false
		for i := range points {
			v, ok := f.median(&points[i])
			some = some || ok
			l.Values = append(l.Values, nil)
			if ok {
				l.Values[i] = &v
			}
			trials := []float64{}
			if list := f.values(&points[i]); len(list) > 1 {
				trials = list
			}
			l.Trials = append(l.Trials, trials)
			l.Intervals = append(l.Intervals, f.inside(&points[i]))
		}
		if !some {
			continue
		}
		title := f.chart
		if group != "" {
			title = group + ": " + title
		}
		if n := len(panels); n > 0 && panels[n-1].Title == title {
			panels[n-1].Series = append(panels[n-1].Series, l)
			continue
		}
		next := base
		next.Title, next.Series = title, []panelLine{l}
		panels = append(panels, next)
	}
	return panels
}

// varying are the keys whose values differ among points.
func varying(points []Point) (keys []string) {
	for _, k := range settingKeys(points) {
		if slices.ContainsFunc(points, func(p Point) bool { return p.setting(k) != points[0].setting(k) }) {
			keys = append(keys, k)
		}
	}
	return keys
}
