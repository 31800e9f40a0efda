package bench

import (
	"fmt"

	"github.com/servebench/servebench/metrics"
)

// ServerMetrics are what the servers told of their own timing and by how much the
// client's figures are beyond it, those with samples, in the order of the screen.
// Without [Config.ServerTiming] there are none.
func (r *Result) ServerMetrics() (out []OwnMetric) {
	s := r.ServerSide
	if s == nil {
		return nil
	}
	for _, m := range []struct {
		key, label string
		d          *metrics.Dist
	}{
		{"queue_ms", "Server queue", s.Queue},
		{"ttft_ms", "Server TTFT, without queue", s.TTFT},
		{"generation_ms", "Server generation", s.Generation},
		{"mean_itl_ms", "Server mean ITL", s.ITL},
		{"ttft_beyond_ms", "TTFT beyond the server's", s.BeyondTTFT},
		{"itl_beyond_ms", "ITL beyond the server's", s.BeyondITL},
		{"e2el_beyond_ms", "E2EL beyond the server's", s.BeyondE2EL},
	} {
		if m.d != nil {
			out = append(out, OwnMetric{Key: m.key, Label: m.label, Dist: m.d})
		}
	}
	return out
}

// serverTiming is the same for a file; nil where it was not asked for.
func (r *Result) serverTiming(percentiles []float64) *object {
	s := r.ServerSide
	if s == nil {
		return nil
	}
	var o object
	o.set("told", s.Told)
	o.set("untold", s.Untold)
	o.set("bad", s.Bad)
	o.set("negative", s.Negative)
	for _, m := range r.ServerMetrics() {
		o.set(m.Key, distJSON(m.Dist, percentiles))
	}
	return &o
}

// timingDoubts are what is amiss with the servers' own timing.
func (r *Result) timingDoubts() (out []string) {
	s := r.ServerSide
	if s == nil {
		return nil
	}
	add := func(cond bool, format string, args ...any) {
		if cond {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	switch {
	case r.pools():
		add(s.Told == 0, "--server-timing has no effect where nothing is generated.")
	case s.Told == 0:
		add(s.Untold > 0, "The server told no timing of its own (--server-timing). vLLM does where it was started with --enable-per-request-metrics, in answers of one choice that end with a usage.")
	default:
		add(s.Untold > 0, "%d of %d completed requests came without the server's own timing.", s.Untold, s.Told+s.Untold)
	}
	add(s.Bad > 0, "%d figures of the server's own timing were not times and were ignored.", s.Bad)
	add(s.Negative > 0, "In %d requests the server says that it took longer to the first token than the client waited for it: its figures are not to be trusted.", s.Negative)
	return out
}
