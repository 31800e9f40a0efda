package main

import (
	"io"

	"github.com/servebench/servebench/bench/gate"
	"github.com/servebench/servebench/bench/report"
)

// gatePage writes the verdict as a page with a picture of the pairs.
func gatePage(w io.Writer, r *gate.Report) error {
	p := report.Page{Title: "servebench gate: " + string(r.Verdict), Simulated: r.Simulated, Facts: [][2]string{{"mode", string(r.Mode)}, {"verdict", string(r.Verdict)}, {"reason", r.Reason}, {"at", r.At}}}
	p.Notes = append(p.Notes, r.Differences...)
	p.Notes = append(append(p.Notes, r.Doubts()...), r.Notes...)
	return report.Gate(w, p, r)
}
