package openai

import (
	"math"
	"time"

	"github.com/tidwall/gjson"

	"github.com/servebench/servebench/metrics"
)

// A server may tell, at the end of an answer, how long it took by its own clock.
// Nothing is read of it unless [Config.ServerTiming] asks, and then only of events
// that can end a stream: none of this stands between two tokens.

// timingForms are the forms in which servers tell: the member of the event, of the
// body or of a response object that holds it, and what is in it. Another server's
// form is one more line; the first that is there counts.
var timingForms = []struct {
	key  string
	read func(told gjson.Result) (t *metrics.ServerTiming, bad int)
}{
	{"metrics", vllmTiming},
}

// takeTiming keeps what a payload tells; payloads are totals, so the last counts.
// data is valid JSON.
func (k *call) takeTiming(data []byte) {
	event := gjson.ParseBytes(data)
	if reply := event.Get("response"); k.c.responses && reply.IsObject() {
		event = reply
	}
	if !event.IsObject() {
		return
	}
	for _, form := range timingForms {
		told := event.Get(form.key)
		if !told.Exists() || told.Type == gjson.Null {
			continue
		}
		t, bad := form.read(told)
		k.rec.BadTiming += bad
		if t != nil {
			k.rec.ServerTiming = t
		}
		return
	}
}

// vllmTiming reads the object that vLLM adds with --enable-per-request-metrics to
// the event that has the usage, or to the body, of an answer with one choice
// (PerRequestMetrics of its entrypoints/generate/base/protocol.py). It is in
// milliseconds; null and absent are figures that it did not have.
func vllmTiming(told gjson.Result) (*metrics.ServerTiming, int) {
	if !told.IsObject() {
		return nil, 1
	}
	var t metrics.ServerTiming
	some, bad := false, 0
	told.ForEach(func(key, v gjson.Result) bool {
		var into **time.Duration
		switch key.Str {
		case "queue_time_ms":
			into = &t.Queue
		case "time_to_first_token_ms":
			into = &t.TTFT
		case "generation_time_ms":
			into = &t.Generation
		case "mean_itl_ms":
			into = &t.ITL
		case "tokens_per_second":
		default:
			return true // of drafts, for one
		}
		switch ns := math.Round(v.Num * 1e6); {
		case v.Type == gjson.Null:
		case v.Type != gjson.Number || !(v.Num >= 0) || ns >= timeLimit:
			bad++
		case into == nil:
			rate := v.Num // not its address, which would keep the payload
			t.Rate, some = &rate, true
		default:
			d := time.Duration(ns)
			*into, some = &d, true
		}
		return true
	})
	if !some {
		return nil, bad
	}
	return &t, bad
}

// timeLimit is the end of the times that a record file takes, in nanoseconds.
const timeLimit = 1 << 53
