package openai

import (
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/metrics"
)

func TestStampBehind(t *testing.T) {
	for data, want := range map[string]int64{
		`{"a":1,"sent_ns":12}`:                                 12,
		`{"a":1,"sent_ns":12,"arrived_ns":3}`:                  12,
		`{"a":{"b":1,"sent_ns":7},"sent_ns":12}`:               12,
		`{"a":1,"sent_ns":9223372036854775790}`:                9223372036854775790,
		`{"a":1,"sent_ns":9223372036854775808}`:                0,
		`{"a":1,"sent_ns":99999999999999999999999}`:            0,
		`{"a":1,"sent_ns":-5}`:                                 0,
		`{"a":1,"sent_ns":"5"}`:                                0,
		`{"a":1,"sent_ns":`:                                    0,
		`{"choices":[{"text":"\",\"sent_ns\":5"}]}`:            0,
		`{"choices":[{"text":"\",\"sent_ns\":5"}],"sent_ns":6`: 6,
		``: 0,
	} {
		if got := stampBehind([]byte(data), sentKey); got != want {
			t.Errorf("%s: %d, want %d", data, got, want)
		}
	}
}

func FuzzStampBehind(f *testing.F) {
	f.Add([]byte(`{"a":1,"sent_ns":9223372036854775807}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if got := stampBehind(data, sentKey); got < 0 {
			t.Errorf("%q: %d", data, got)
		}
	})
}

// What the simulator tells of its times is in the record where it is asked for, an
// entry for each arrival.
func TestTruthIsKeptWhereAskedFor(t *testing.T) {
	server := httptest.NewServer(sim.New(sim.Config{Truth: true}))
	defer server.Close()
	silent := httptest.NewServer(sim.New(sim.Config{}))
	defer silent.Close()
	do := func(api API, url string, ask bool) metrics.Record {
		f := Format{API: api, Stream: true, Model: "m"}
		body, err := f.Encode(dataset.Request{Prompt: "one two", OutputTokens: 5})
		if err != nil {
			t.Fatal(err)
		}
		c := newClient(t, Config{BaseURL: url, Endpoint: api.Path(), API: api, Truth: ask})
		defer c.Close()
		var rec metrics.Record
		c.Do(t.Context(), loadgen.StartClock(), &loadgen.Request{Body: body, OutputTokens: 5}, &rec)
		if rec.Outcome != metrics.OK {
			t.Fatalf("%s: %s %s", api, rec.Outcome, rec.Error)
		}
		return rec
	}
	for _, api := range []API{Completions, Chat, Responses} {
		r := do(api, server.URL, true)
		if tr := r.Truth; tr == nil || len(tr.Sent) != len(r.Arrivals) || !slices.IsSorted(tr.Sent) || tr.Arrived <= 0 || tr.Arrived > tr.Sent[0] {
			t.Errorf("%s: %d arrivals, %+v", api, len(r.Arrivals), tr)
		}
		if r := do(api, server.URL, false); r.Truth != nil {
			t.Errorf("%s, not asked for: %+v", api, r.Truth)
		}
	}
	if tr := do(Completions, silent.URL, true).Truth; tr == nil || tr.Arrived != 0 || slices.Max(tr.Sent) != 0 {
		t.Errorf("a server that does not tell: %+v", tr)
	}
}
