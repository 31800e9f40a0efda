package sim_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/servebench/servebench/bench/sim"
)

// response is what the tests read of a response object.
type response struct {
	ID, Model, Status string
	Temperature       float64
	Max               int `json:"max_output_tokens"`
	Output            []struct{ Content []struct{ Text string } }
	Usage             struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
		Total  int `json:"total_tokens"`
	}
}

// The whole response is, byte for byte up to the time, the one that ends the stream of the same request.
func TestWholeResponseIsTheStreamsLastOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that the seconds are the same
		ask := func(stream string) string {
			return call(t, sim.New(tiny), "POST", "/v1/responses", `{"model":"tiny","input":"one two","max_output_tokens":5,"temperature":0.5,"stream":`+stream+`}`).Body.String()
		}
		whole, events := ask("false"), strings.Split(strings.TrimSpace(ask("true")), "\n\n")
		_, data, _ := strings.Cut(events[len(events)-1], "\ndata: ")
		var last struct {
			Response json.RawMessage
			Sequence int `json:"sequence_number"`
		}
		if err := json.Unmarshal([]byte(data), &last); err != nil {
			t.Fatal(err)
		}
		if string(last.Response) != whole || last.Sequence != len(events)-1 {
			t.Errorf("event %d of %d\nwhole  %s\nstream %s", last.Sequence, len(events), whole, last.Response)
		}
		var r response
		if err := json.Unmarshal([]byte(whole), &r); err != nil {
			t.Fatal(err)
		}
		text := r.Output[0].Content[0].Text
		// " user:" 2, two words, "\n" 1, " assistant:" 3
		if n := len(tokenize(t, sim.New(tiny), text)); n != 5 || r.Usage.Input != 8 || r.Usage.Output != 5 || r.Usage.Total != 13 || r.Temperature != 0.5 || r.Max != 5 || r.Status != "incomplete" {
			t.Errorf("%d tokens in %+v", n, r)
		}
		deltas := ""
		for _, e := range events {
			_, data, _ := strings.Cut(e, "\ndata: ")
			var d struct{ Delta string }
			_ = json.Unmarshal([]byte(data), &d)
			deltas += d.Delta
		}
		if deltas != text {
			t.Errorf("deltas make %q, the end says %q", deltas, text)
		}
	})
}

func TestResponsesTakeAsMuchAsTheirMessages(t *testing.T) {
	s := sim.New(sim.Config{})
	for body, want := range map[string]int{
		`{"input":"Hi"}`: 7,
		`{"input":[{"role":"user","content":"Hi"}]}`: 7,
		`{"input":[{"role":"user","content":[{"type":"input_text","text":"H"},{"type":"input_text","text":"i"}]}],"stream":null,"temperature":null}`: 7,
	} {
		var r response
		if err := json.Unmarshal(call(t, s, "POST", "/v1/responses", body).Body.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		if r.Usage.Input != want || r.Usage.Output != 16 || r.Model != "servebench-sim" {
			t.Errorf("%s: %+v", body, r)
		}
	}
}

// Each event says when it was written, in virtual time too: the same clock paces them.
func TestEventsOfAResponseTellTheTruth(t *testing.T) {
	body := call(t, sim.New(sim.Config{Truth: true}), "POST", "/v1/responses", `{"input":"a","max_output_tokens":3,"stream":true}`).Body.String()
	before := int64(0)
	events := strings.Split(strings.TrimSpace(body), "\n\n")
	for _, e := range events {
		_, data, _ := strings.Cut(e, "\ndata: ")
		var v struct {
			Sent int64 `json:"sent_ns"`
		}
		if err := json.Unmarshal([]byte(data), &v); err != nil || v.Sent <= before {
			t.Errorf("%d after %d in %s: %v", v.Sent, before, e, err)
		}
		before = v.Sent
	}
	if len(events) != 11 {
		t.Errorf("%d events", len(events))
	}
}

// vectors decodes the answer to a request for embeddings.
func vectors(t *testing.T, s *sim.Server, path, body string) (out [][]float32, tokens int) {
	t.Helper()
	w := call(t, s, "POST", path, body)
	var v struct {
		Data []struct {
			Index           int
			Embedding, Data json.RawMessage
		}
		Usage struct {
			Prompt int `json:"prompt_tokens"`
			Total  int `json:"total_tokens"`
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	for i, d := range v.Data {
		raw := append(d.Embedding, d.Data...)
		var floats []float32
		if raw[0] == '"' {
			var text string
			_ = json.Unmarshal(raw, &text)
			b, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			floats = decodeFloats(b)
		} else if err := json.Unmarshal(raw, &floats); err != nil {
			t.Fatal(err)
		}
		if d.Index != i || v.Usage.Total != v.Usage.Prompt {
			t.Errorf("index %d of %d, usage %+v", d.Index, i, v.Usage)
		}
		out = append(out, floats)
	}
	return out, v.Usage.Prompt
}

func decodeFloats(b []byte) (out []float32) {
	for ; len(b) >= 4; b = b[4:] {
		out = append(out, math.Float32frombits(binary.LittleEndian.Uint32(b)))
	}
	return out
}

func TestVectorsAreTheSameInEveryEncoding(t *testing.T) {
	const input = `"input":["one two","three"],"dimensions":5`
	for _, path := range []string{"/v1/embeddings", "/pooling", "/embeddings"} {
		want, tokens := vectors(t, sim.New(tiny), path, `{`+input+`}`)
		if len(want) != 2 || len(want[0]) != 5 || len(want[1]) != 5 || tokens != 3 {
			t.Fatalf("%s: %v of %d tokens", path, want, tokens)
		}
		all := append(append([]float32{}, want[0]...), want[1]...)
		got, _ := vectors(t, sim.New(tiny), path, `{`+input+`,"encoding_format":"base64"}`)
		if !equal(append(got[0], got[1]...), all) {
			t.Errorf("%s: base64 %v, want %v", path, got, all)
		}
		for format, has := range map[string]bool{"bytes": true, "bytes_only": false} {
			w := call(t, sim.New(tiny), "POST", path, `{`+input+`,"encoding_format":"`+format+`"}`)
			if got := decodeFloats(w.Body.Bytes()); !equal(got, all) || w.Header().Get("Content-Type") != "application/octet-stream" {
				t.Errorf("%s: %s %v, want %v", path, format, got, all)
			}
			about := w.Header().Get("Metadata")
			if (about != "") != has || has && !strings.HasSuffix(about, `"usage": {"prompt_tokens": 3, "total_tokens": 3}}`) {
				t.Errorf("%s: %s with metadata %q", path, format, about)
			}
		}
	}
}

func equal(a, b []float32) bool {
	for i := range a {
		if len(a) != len(b) || a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// The header is vLLM's up to ids and sizes.
func TestMetadataHasVLLMsShape(t *testing.T) {
	_, header, _ := capture(t, "embeddings_bytes")
	got := call(t, sim.New(tiny), "POST", "/v1/embeddings", readFile(t, "embeddings_bytes.req.json")).Header().Get("Metadata")
	form := func(s string) string {
		var v map[string]any
		if err := json.Unmarshal([]byte(s), &v); err != nil {
			t.Fatal(err)
		}
		s = strings.ReplaceAll(s, v["id"].(string), "ID")
		created := strconv.FormatFloat(v["created"].(float64), 'f', -1, 64)
		return strings.ReplaceAll(s, created, "N")
	}
	if g, w := form(got), form(header.Get("Metadata")); g != w {
		t.Errorf("differs\n got %s\nvLLM %s", g, w)
	}
}

func TestPromptsOfEveryFormAreCounted(t *testing.T) {
	s := sim.New(sim.Config{MaxModelLen: 4})
	for body, want := range map[string]int{
		`{"input":"one two"}`:           2,
		`{"input":["one two","three"]}`: 3,
		`{"input":[5,6,7]}`:             3,
		`{"input":[[5,6],[7]]}`:         3,
		`{"input":""}`:                  0,
		`{"input":"a b c d e f","truncate_prompt_tokens":-1}`:              4,
		`{"input":["a b c d e f","a b c"],"truncate_prompt_tokens":2}`:     4,
		`{"messages":[{"role":"u","content":"a"}],"encoding_format":null}`: 4, // " u" ":" "a" "\n"
	} {
		if v, got := vectors(t, s, "/v1/embeddings", body); got != want || len(v[0]) != 64 {
			t.Errorf("%s: %d tokens, want %d", body, got, want)
		}
	}
}

func TestRankingIsOfTheDocuments(t *testing.T) {
	for top, want := range map[string]int{"": 3, `,"top_n":2`: 2, `,"top_n":9`: 3} {
		w := call(t, sim.New(tiny), "POST", "/v1/rerank", `{"query":"one two","documents":["a","b","c d"]`+top+`}`)
		var v struct {
			Results []struct {
				Index    int
				Document struct{ Text string }
				Score    float64 `json:"relevance_score"`
			}
			Usage struct {
				Prompt int `json:"prompt_tokens"`
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || len(v.Results) != want || v.Usage.Prompt != 6 {
			t.Fatalf("%s: %v", w.Body, err)
		}
		seen := map[int]bool{}
		for i, r := range v.Results {
			if i > 0 && r.Score > v.Results[i-1].Score || r.Document.Text != []string{"a", "b", "c d"}[r.Index] || seen[r.Index] {
				t.Errorf("result %d: %+v", i, v.Results)
			}
			seen[r.Index] = true
		}
	}
}

func TestProfilingCanBeAskedFor(t *testing.T) {
	for _, path := range []string{"/start_profile", "/stop_profile"} {
		if w := call(t, sim.New(tiny), "POST", path, ""); w.Code != 200 || w.Body.Len() != 0 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if w := call(t, sim.New(tiny), "GET", path, ""); w.Code != 405 {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
}

// Several names are one model, and several keys open the same door.
func TestAliasesAndKeys(t *testing.T) {
	s := sim.New(sim.Config{Model: "org/model", Aliases: []string{"short"}, APIKey: "one", MoreKeys: []string{"two"}})
	ask := func(method, path, key, body string) (int, string) {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+key)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	for _, key := range []string{"one", "two"} {
		code, body := ask("GET", "/v1/models", key, "")
		var list struct{ Data []struct{ ID, Root string } }
		if err := json.Unmarshal([]byte(body), &list); code != 200 || err != nil || len(list.Data) != 2 ||
			list.Data[0].ID != "org/model" || list.Data[1].ID != "short" || list.Data[1].Root != "org/model" {
			t.Errorf("key %s: %d, %s, %v", key, code, body, err)
		}
	}
	if code, _ := ask("GET", "/v1/models", "three", ""); code != 401 {
		t.Errorf("another key: %d", code)
	}
	for model, want := range map[string]int{"org/model": 200, "short": 200, "other": 404} {
		code, body := ask("POST", "/v1/completions", "two", `{"model":"`+model+`","prompt":"a","max_tokens":1}`)
		if code != want || want == 404 && !strings.Contains(body, "Valid aliases: org/model, short.") {
			t.Errorf("%s: %d, %s", model, code, body)
		}
	}
}
