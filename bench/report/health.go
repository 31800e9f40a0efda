package report

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"

	"github.com/servebench/servebench/metrics"
)

// health writes the block that tells how well the client did its part: what the
// verdict rests on. What was not measured is left out, and the block where nothing
// was.
func health(w io.Writer, f *metrics.Figures) {
	if f == nil {
		return
	}
	var out []string
	for _, parts := range [][]string{process(f), delays(f), limits(f)} {
		out = append(out, fitted(parts)...)
	}
	if len(out) == 0 {
		return
	}
	line(w, "")
	line(w, "Client health")
	for _, l := range out {
		line(w, "  "+l)
	}
}

// fitted are lines of whole parts, with room for an indent of two.
func fitted(parts []string) (out []string) {
	for i, part := range parts {
		if i < len(parts)-1 {
			part += ","
		}
		if n := len(out); n > 0 && 2+len(out[n-1])+1+len(part) <= sureWidth {
			out[n-1] += " " + part
			continue
		}
		out = append(out, part)
	}
	return out
}

// parts are what a line is made of.
type parts []string

// number adds what was measured: format has one %s, for v times scale.
func (p *parts) number(v *float64, scale float64, format string) {
	if v != nil {
		*p = append(*p, fmt.Sprintf(format, digits(scale**v)))
	}
}

// digits is a number in three digits, or all of those before the point.
func digits(v float64) string {
	if math.Abs(v) >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func process(f *metrics.Figures) (p parts) {
	p.number(f.CPU, 100, fmt.Sprintf("CPU %%s %%%% of %d (p95 of the seconds)", runtime.GOMAXPROCS(0)))
	p.number(f.GC, 100, "GC %s %% of it")
	p.number(f.Pause, 1, "GC pause %s ms (p99)")
	p.number(f.SchedWait, 1, "wait for a CPU %s ms (p99)")
	p.number(f.Canary, 1, "wake delay %s ms (longest)")
	if f.Throttled != nil && *f.Throttled > 0 {
		p = append(p, fmt.Sprintf("throttled in %d periods", *f.Throttled))
	}
	return p
}

func delays(f *metrics.Figures) (p parts) {
	p.number(f.Lag, 1, "lag %s ms (p99)")
	p.number(f.QueueWait, 1, "queue wait %s ms (p99)")
	kept := ""
	if f.KernelStamps {
		kept = ", not in the latencies"
	}
	p.number(f.RxDelay, 1, "receive delay %s ms (p99"+kept+")")
	p.number(f.EventsPerRead, 1, "events per read %s (mean)")
	return p
}

func limits(f *metrics.Figures) (p parts) {
	p.number(f.Achieved, 100, "%s %% of the offered rate")
	p.number(f.Descriptors, 100, "descriptors %s %% of the limit")
	p.number(f.Ports, 100, "ports %s %% of the range")
	return p
}

// healthData is the charts of a series, slice by slice.
type healthData struct {
	Interval float64       `json:"interval"` // seconds
	Panels   []healthPanel `json:"panels"`
}

type healthPanel struct {
	Title  string  `json:"title"`
	Unit   string  `json:"unit"`
	Right  string  `json:"right,omitempty"` // unit of the axis at the right
	Series []curve `json:"series"`
}

type curve struct {
	Name   string     `json:"name"`
	Values []*float64 `json:"values"` // nil where nothing was measured
	Right  bool       `json:"right"`  // on the axis at the right
}

// healthPanels are the charts of the client's health; those without a value are left
// out.
func healthPanels(s *metrics.Series) *healthData {
	if s == nil {
		return nil
	}
	out := &healthData{Interval: s.Width.Seconds()}
	for _, p := range []struct {
		title, unit, right string
		columns            [][2]string // a column and its name; a name that begins with > is on the right
		scale              float64
	}{
		{"the load", "requests/s", "events/s", [][2]string{{"due_per_s", "requests due"}, {"sends_per_s", "requests sent"}, {"events_per_s", "> events that came"}}, 1},
		{"the client's delays, p99", "ms", "", [][2]string{{"lag_p99_ms", "lag"}, {"rx_delay_p99_ms", "receive delay"}, {"sched_wait_p99_ms", "wait for a CPU"}}, 1},
		{"the client's delays, the longest", "ms", "", [][2]string{{"lag_max_ms", "lag"}, {"rx_delay_max_ms", "receive delay"}, {"wake_delay_max_ms", "wake delay"}, {"gc_pause_max_ms", "GC pause"}}, 1},
		{"wait for a slot", "ms", "", [][2]string{{"queue_wait_p99_ms", "p99"}, {"queue_wait_max_ms", "longest"}}, 1},
		{"the client's CPU", "%", "", [][2]string{{"cpu", "of all CPUs"}, {"gc_cpu", "GC, of the client's"}}, 100},
		{"events per read", "", "", [][2]string{{"events_per_read", "events per read (mean)"}}, 1},
		{"requests and connections", "", "", [][2]string{{"in_flight", "requests in flight (mean)"}, {"connections", "connections"}, {"descriptors", "descriptors"}}, 1},
	} {
		made := healthPanel{Title: p.title, Unit: p.unit, Right: p.right}
		for _, c := range p.columns {
			values, some := pointers(s.Column(c[0]), p.scale)
			if name, right := strings.CutPrefix(c[1], "> "); some {
				made.Series = append(made.Series, curve{name, values, right})
			}
		}
		if len(made.Series) > 0 {
			out.Panels = append(out.Panels, made)
		}
	}
	return out
}

// pointers are the values times scale, nil for NaN; some tells that one is not nil.
func pointers(values []float64, scale float64) (out []*float64, some bool) {
	for _, v := range values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			out = append(out, nil)
			continue
		}
		v *= scale
		out, some = append(out, &v), true
	}
	return out, some
}
