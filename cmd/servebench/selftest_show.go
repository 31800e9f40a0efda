package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/selftest"
	"github.com/servebench/servebench/metrics"
)

// selftestView shows the steps as they end.
type selftestView struct {
	t           *terminal
	tls, asJSON bool
	titled      bool
	hide        func() // the progress of the step under way; nil between steps
	err         error  // the table's first, which is not worth ending for
}

func (v *selftestView) began(streams int, p *bench.Progress) {
	v.t.notef("%s", count(streams, "stream"))
	// Without a terminal the line above is enough for a step of some seconds.
	v.hide = showProgress(v.t.err, p, !isTerminal(v.t.err))
}

// pause takes the progress away.
func (v *selftestView) pause() {
	if v.hide != nil {
		v.hide()
		v.hide = nil
	}
}

func (v *selftestView) ended(s selftest.Step) {
	v.pause()
	if v.asJSON {
		return
	}
	if !v.titled {
		v.titled = true
		v.err = writeSelftestTitle(v.t.out)
	}
	if v.err == nil {
		v.err = writeSelftestStep(v.t.out, s)
	}
}

// show writes what comes after the steps, or all as JSON.
func (v *selftestView) show(r *selftest.Report) error {
	if v.asJSON {
		enc := json.NewEncoder(v.t.out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	if v.err != nil {
		return v.err
	}
	return writeSelftestEnd(v.t.out, r)
}

// selftestRow is a row of the table: numbers to the right, the verdict last.
const selftestRow = "%7s  %-6s  %9s  %7s  %7s  %9s  %9s  %9s  %9s  %9s  %9s  %8s  %9s  %6s  %s\n"

func writeSelftestTitle(w io.Writer) error {
	_, err := fmt.Fprintf(w, selftestRow+selftestRow,
		"", "", "", "CPU per", "event", "TTFT bias", "", "", "ITL error", "", "", "ITL p99", "rx_delay", "events", "",
		"streams", "stamps", "events/s", "client", "sim", "mean", "p50", "p99", "mean", "p50", "p99", "off by", "p99", "/read", "verdict")
	return err
}

// writeSelftestStep writes a row with kernel stamps, if there are any, and one
// without.
func writeSelftestStep(w io.Writer, s selftest.Step) error {
	first := []any{fmt.Sprint(s.Concurrency), "kernel", fmt.Sprintf("%.0f", s.EventsPerSecond), micro(s.ClientCPU), micro(s.SimulatorCPU)}
	blank := []any{"", "read", "", "", ""}
	if s.Kernel == nil {
		first[1] = "read"
		return writeSelftestErrors(w, first, s, &s.Read, s.VerdictUnstamped)
	}
	return errors.Join(writeSelftestErrors(w, first, s, s.Kernel, s.Verdict), writeSelftestErrors(w, blank, s, &s.Read, s.VerdictUnstamped))
}

func writeSelftestErrors(w io.Writer, cells []any, s selftest.Step, e *selftest.Errors, v metrics.Verdict) error {
	delay, perRead := "", ""
	if cells[0] != "" {
		delay, perRead = "-", "-"
		if s.RxDelay != nil {
			delay = milli(s.RxDelay.P99, true)
		}
		if s.EventsPerRead != nil {
			perRead = fmt.Sprintf("%.2f", *s.EventsPerRead)
		}
	}
	off := "-"
	if e.ITLP99Error != nil {
		off = fmt.Sprintf("%.1f %%", 100**e.ITLP99Error)
	}
	cells = append(cells, milli(e.TTFTBias.Mean, e.TTFTBias.N > 0), milli(e.TTFTBias.P50, e.TTFTBias.Tells(0.5)), milli(e.TTFTBias.P99, e.TTFTBias.Tells(0.99)),
		milli(e.ITLError.Mean, e.ITLError.N > 0), milli(e.ITLError.P50, e.ITLError.Tells(0.5)), milli(e.ITLError.P99, e.ITLError.Tells(0.99)),
		off, delay, perRead, v)
	_, err := fmt.Fprintf(w, selftestRow, cells...)
	return err
}

func milli(ms float64, known bool) string {
	if !known {
		return "-"
	}
	decimals := 3 // fewer where the column had no room
	for limit := 100.0; decimals > 0 && math.Abs(ms) >= limit; limit *= 10 {
		decimals--
	}
	return fmt.Sprintf("%.*f ms", decimals, ms)
}

func micro(ms *float64) string {
	if ms == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f µs", 1e3**ms)
}

// writeSelftestEnd writes the floor, where the verdict turned and what went wrong.
func writeSelftestEnd(w io.Writer, r *selftest.Report) error {
	var b strings.Builder
	b.WriteByte('\n')
	tell := func(v *float64) string {
		if v == nil {
			return "unknown, too few samples"
		}
		return milli(*v, true)
	}
	f := r.Floor
	stamps := "with kernel stamps"
	if f.Stamps != "kernel" {
		stamps = "without kernel stamps"
	}
	fmt.Fprintf(&b, "Floor of this machine (%s, %s): TTFT bias p50 %s, ITL error p99 %s\n", count(f.Concurrency, "stream"), stamps, tell(f.TTFTBiasP50), tell(f.ITLErrorP99))
	switch {
	case r.TurnedAt == nil:
		fmt.Fprintf(&b, "VALID at every step, up to %s and %.0f events/s\n", count(r.MaxValid.Concurrency, "stream"), r.MaxValid.EventsPerSecond)
	case r.MaxValid == nil:
		fmt.Fprintf(&b, "Not VALID at any step: %s at %s", r.TurnedTo, count(*r.TurnedAt, "stream"))
	default:
		fmt.Fprintf(&b, "VALID up to %s and %.0f events/s, %s at %d", count(r.MaxValid.Concurrency, "stream"), r.MaxValid.EventsPerSecond, r.TurnedTo, *r.TurnedAt)
	}
	if r.TurnedAt != nil {
		for _, s := range r.Steps {
			if s.Concurrency == *r.TurnedAt {
				fmt.Fprintf(&b, ": %s\n", strings.Join(s.Reasons, "; "))
			}
		}
	}
	if r.Stopped != "" {
		fmt.Fprintf(&b, "Stopped early: %s\n", printable(r.Stopped))
	}
	for _, failure := range r.Failures {
		fmt.Fprintf(&b, "FAIL: %s\n", failure)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
