package main

import (
	"bytes"
	"fmt"
	"math"
	"time"

	"github.com/servebench/servebench/bench/internal/simproc"
	"github.com/servebench/servebench/metrics"
)

// difference is what a client's numbers of one run have beyond the simulator's,
// and the latter, in milliseconds.
type difference struct {
	itl, simITL   float64 // p99 over all gaps
	ttft, simTTFT float64 // p50 over the requests, the simulator's from the request's arrival
	admitted      float64 // as ttft, the simulator's from the end of its reading the request
	gap           float64 // p99 of the distance between a gap and its truth
	verdict       string  // serve's own
}

// differences are those of several runs.
type differences struct {
	itl, simITL, ttft, simTTFT, admitted, gap []float64
	verdict                                   []string
}

func (s *differences) add(d difference) {
	s.itl, s.simITL = append(s.itl, d.itl), append(s.simITL, d.simITL)
	s.ttft, s.simTTFT = append(s.ttft, d.ttft), append(s.simTTFT, d.simTTFT)
	s.admitted, s.gap = append(s.admitted, d.admitted), append(s.gap, d.gap)
	s.verdict = append(s.verdict, d.verdict)
}

// overButValid is "wrong" if a run whose error was over a bar called itself valid.
func (s *differences) overButValid(itlBar, ttftBar float64) string {
	for i, v := range s.verdict {
		if v == string(metrics.Valid) && (math.Abs(s.itl[i]) > itlBar || ttftBar > 0 && math.Abs(s.ttft[i]) > ttftBar) {
			return "wrong"
		}
	}
	return ""
}

// verdictOf finds the verdict in what serve prints; "" where there is none.
func verdictOf(out []byte) string {
	for line := range bytes.Lines(out) {
		if rest, ok := bytes.CutPrefix(line, []byte("Verdict: ")); ok {
			word, _, _ := bytes.Cut(rest, []byte("."))
			return string(word)
		}
	}
	return ""
}

// compare joins what the client recorded with what the simulator did.
func compare(records []*metrics.Record, truth []stamps) (d difference, err error) {
	byID := make(map[string]*stamps, len(truth))
	for i := range truth {
		byID[truth[i].ID] = &truth[i]
	}
	if len(byID) != len(records) {
		return d, fmt.Errorf("%d records for %d requests of the simulator", len(records), len(byID))
	}
	var itl, simITL, ttft, simTTFT, simAdmitted, gap []float64
	for _, r := range records {
		s, ok := byID[r.ID]
		if !ok {
			return d, fmt.Errorf("the simulator knows no request %q", r.ID)
		}
		// After the tokens the simulator writes the usage and [DONE].
		if n := len(r.Arrivals); n == 0 || len(s.Writes) != n+2 {
			return d, fmt.Errorf("request %s: %d events arrived of %d writes", r.ID, n, len(s.Writes))
		}
		ttft = append(ttft, ms(r.Arrivals[0]-r.Sent))
		simTTFT = append(simTTFT, ms(time.Duration(s.Writes[0]-s.Arrived)))
		simAdmitted = append(simAdmitted, ms(time.Duration(s.Writes[0]-s.Read)))
		for i := 1; i < len(r.Arrivals); i++ {
			client, own := ms(r.Arrivals[i]-r.Arrivals[i-1]), ms(time.Duration(s.Writes[i]-s.Writes[i-1]))
			itl, simITL, gap = append(itl, client), append(simITL, own), append(gap, math.Abs(client-own))
		}
	}
	d.simITL, d.simTTFT = simproc.Quantile(simITL, 0.99), simproc.Quantile(simTTFT, 0.5)
	d.itl, d.ttft = simproc.Quantile(itl, 0.99)-d.simITL, simproc.Quantile(ttft, 0.5)-d.simTTFT
	d.admitted, d.gap = simproc.Quantile(ttft, 0.5)-simproc.Quantile(simAdmitted, 0.5), simproc.Quantile(gap, 0.99)
	return d, nil
}
