package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/servebench/servebench/bench/sim"
)

// What passes a recorder arrives unchanged and is kept under its number.
func TestRecorder(t *testing.T) {
	target := httptest.NewServer(sim.New(sim.Config{}))
	defer target.Close()
	r, err := newRecorder(target.URL, "e-")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const body = `{"model":"m","prompt":"héllo\u0000","max_tokens":2}`
	post := func(id string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.URL+"/v1/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Request-Id", id)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("status %s", res.Status)
		}
	}
	post("e-1")
	post("e-0")
	sent, err := r.take(2)
	if err != nil || string(sent[0].body) != body || sent[1].path != "/v1/completions" || !sent[1].at.Before(sent[0].at) {
		t.Errorf("took %v, %v", sent, err)
	}
	for name, ids := range map[string][]string{"twice": {"e-0", "e-0"}, "nameless": {"e-0", "x-1"}, "too few": {"e-0"}} {
		for _, id := range ids {
			post(id)
		}
		if _, err := r.take(2); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := r.take(0); err != nil {
		t.Errorf("what was taken is still there: %v", err)
	}
}

func TestDifferences(t *testing.T) {
	for _, c := range []struct {
		reading, a, b string
		want          []string
	}{
		{"the same in another order and spelling", `{"a":1.0,"b":"\u00e9"}`, `{"b":"é","a":1}`, nil},
		{"a field more", `{"a":null}`, `{}`, []string{"a: null and absent"}},
		{"a byte less", `{"p":"ab "}`, `{"p":"ab"}`, []string{`p: "ab " and "ab"`}},
	} {
		if got, err := differences([]byte(c.a), []byte(c.b)); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v; want %q", c.reading, got, err, c.want)
		}
	}
}

func TestShapes(t *testing.T) {
	parse := func(s string) result {
		t.Helper()
		r, err := parseResult([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	them := parse(`{"backend":"openai","x":1.0,"l":[[1.5],[]],"n":null}`)
	for us, want := range map[string]string{
		`{"backend":"openai","x":2.5,"l":[[2.5],[]],"n":null,"outcome":"completed"}`:    "",
		`{"backend":"openai","x":2,"l":[[2.5],[]],"n":null}`:                            "x is int, vLLM's is float",
		`{"backend":"openai","x":2.0,"l":[[2],[]],"n":null}`:                            "l is list of list of int, vLLM's is list of list of float",
		`{"backend":"vllm","x":2.0,"l":[[2.5],[]],"n":null}`:                            "backend is vllm, vLLM's is openai",
		`{"backend":"openai","l":[[2.5],[]],"x":2.0,"n":null}`:                          "the order is",
		`{"backend":"openai","x":2.0,"l":[[2.5],[]],"outcome":"completed"}`:             "keys only vLLM has: n; only servebench has: none",
		`{"outcome":"completed","backend":"openai","x":2.5,"l":[[2.5],[]],"n":null}`:    "own keys are not the last",
		`{"backend":"openai","x":2.5,"l":[[2.5],[]],"n":null,"y":0,"outcome":"failed"}`: "only servebench has: y",
	} {
		got := strings.Join(shapes(parse(us), them), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s:\n%s\nwant %s", us, got, want)
		}
	}
}

func TestCounter(t *testing.T) {
	const text = "# TYPE a_total counter\na_total{m=\"x y\"} 3.0\na_total{m=\"z\"} 4.0\na_total_created{m=\"z\"} 1.7e+09\n"
	if v, ok := counter([]byte(text), "a_total"); v != 7 || !ok {
		t.Errorf("a_total is %v, %v; want 7", v, ok)
	}
	if v, ok := counter([]byte(text), "a"); ok {
		t.Errorf("a is %v, want none", v)
	}
}

// A table's cell is a median with the extremes beside it.
func TestCell(t *testing.T) {
	for want, v := range map[string][]float64{"2.0 (1.0–4.0)": {4, 1, 2}, "1.5 (1.0–2.0)": {2, 1}, "none": nil} {
		if got := cell(v, 1); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	if disjoint([]float64{1, 3}, []float64{3, 4}) || !disjoint([]float64{5, 4}, []float64{1, 3}) {
		t.Error("ranges that touch overlap, others do not")
	}
}

// Every row is a JSON object with a prompt and a length, and no two are the same.
func TestCustomRows(t *testing.T) {
	seen := map[string]bool{}
	for line := range strings.Lines(string(customRows())) {
		var row struct {
			Prompt string
			Tokens int `json:"output_tokens"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil || row.Prompt == "" || row.Tokens < 2 || seen[row.Prompt] {
			t.Errorf("%s: %v", line, err)
		}
		seen[row.Prompt] = true
	}
	if len(seen) != 36 {
		t.Errorf("%d rows, want 36", len(seen))
	}
}

// The page names everything that a run fills in.
func TestPage(t *testing.T) {
	d := document{
		Date: "D", CPU: "C", Kernel: "K", Load: "L", Servebench: "servebench S", VLLM: "V", Torch: "T", Prompts: 3, Runs: 4, Cores: 2,
		Rows: []row{{"label", "1", "2"}}, Apart: []string{"label"}, SpecPrompts: 5, Speculation: "{}", Passed: 6,
		Spec:     []specRow{{Client: ours, Rate: 10, Peak: 4, Tokens: 8, Chunks: 4, TPOT: 1, ITL: 2}},
		Arrivals: []arrival{{theirs, 1, 2, 3}},
	}
	path := t.TempDir() + "/page.md"
	if err := d.write(path); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, want := range []string{"| label | 1 | 2 |", "do not overlap in: label. In", "servebench S", "| servebench | 10 | 4 | – | 8 | 4 | 2.00 | 1.000 | 2.000 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "<no value>") || strings.Contains(text, "%!") {
		t.Errorf("something is not filled in:\n%s", text)
	}
}
