package openai

import (
	"encoding/json"
	"testing"
)

const vllmEvent = `{"id":"cmpl-ad6df3ca4737d212","object":"text_completion","created":1796068298,"model":"tiny","choices":[{"index":0,"text":" onChangeText","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}]}`

func BenchmarkScan(b *testing.B) {
	p := []byte(vllmEvent)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	var ev event
	for b.Loop() {
		if err := scan(p, &ev); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzScan(f *testing.F) {
	for _, s := range []string{vllmEvent, `{}`, `[1]`, `{"a":[{"b":"\u00e9\n"}],"usage":{"completion_tokens":2.0}}`, `{"error":{"x":1}}`, `-0.1e+5`, `01`, `"\x"`, `{"a":1,}`, "{\"a\":\"\n\"}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var ev event
		err := scan(p, &ev)
		// Depth apart, both must agree on what is JSON.
		if valid := json.Valid(p); (err == nil) != valid && len(p) < maxDepth {
			t.Fatalf("scan says %v, encoding/json says %v", err, valid)
		}
	})
}
