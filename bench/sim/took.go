package sim

import "time"

// took is how long a request took by the simulator's own times: when its tokens were due or, with an engine, when the steps
// that made them ended. When they were written is Config.Truth's.
type took struct {
	queue time.Duration // from its arrival in the queue to the start of its first step, or to its slot
	first time.Duration // from there to the first token
	rest  time.Duration // from the first token to the last
}

// metrics appends the member that tells of it, if it is to be told. What cannot be said of one token is null or left out.
func (a *answer) metrics(b []byte, nulls bool) []byte {
	if !a.s.cfg.PerRequestMetrics {
		return b
	}
	t, n := &a.took, float64(a.g.maxTokens)
	ms := func(d time.Duration) string { return pythonFloat(float64(d) / 1e6) }
	b = append(b, `,"metrics":{"time_to_first_token_ms":`...)
	b = append(b, ms(t.first)...)
	b = append(b, `,"generation_time_ms":`...)
	b = append(b, ms(t.rest)...)
	b = append(b, `,"queue_time_ms":`...)
	b = append(b, ms(t.queue)...)
	optional := func(name, value string, known bool) {
		if !known {
			value = "null"
		}
		if known || nulls {
			b = append(b, `,"`+name+`":`+value...)
		}
	}
	optional("mean_itl_ms", pythonFloat(float64(t.rest)/1e6/max(1, n-1)), n > 1)
	whole := (t.first + t.rest).Seconds()
	optional("tokens_per_second", pythonFloat(n/max(whole, 1e-9)), whole > 0)
	optional("speculative_decoding", "", false)
	return append(b, '}')
}
