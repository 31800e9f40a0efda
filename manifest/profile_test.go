package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each value that the schema marks x-proposed passes the base profile and not
// the references'.
func TestStrictReferences(t *testing.T) {
	for _, c := range []struct {
		pointer string
		value   any
		want    string
	}{
		{"/license", "CC0-1.0", "/license: value must be 'CC-BY-4.0'"},
		{"/subject/source", "local", "/subject/source: value must be 'huggingface'"},
		{"/subject/modalities/0", "image", "/subject/modalities/0: value must be 'text'"},
		{"/environment/accelerators/0/vendor", "AMD", "/environment/accelerators/0/vendor: value must be 'NVIDIA'"},
		{"/environment/host_architecture", "aarch64", "/environment/host_architecture: value must be 'x86_64'"},
		{"/workload/client/placement", "remote-host", "/workload/client/placement: value must be 'same-host'"},
		{"/workload/sampling/mode", "sampled", "/workload/sampling/mode: value must be 'greedy'"},
		{"/workload/endpoint_type", "openai-compatible-responses", "/workload/endpoint_type: value must be one of 'openai-compatible-completions', 'openai-compatible-chat', 'openai_completions'"},
		{"/workload/prefix_behavior/reset_policy", "none", "/workload/prefix_behavior/reset_policy: value must be 'server_restart'"},
		{"/workload/input_tokens", map[string]any{"kind": "uniform", "min": 1, "max": 2}, "/workload/input_tokens/kind: must not be here"},
		{"/workload/input_tokens", map[string]any{"kind": "empirical", "min": 1, "max": 2, "mean": 1.5}, "/workload/input_tokens/kind: must not be here"},
		{"/provenance/source", "harness", "/provenance/source: value must be one of 'import', 'agent'"},
	} {
		doc := document(t, "seed-run-1")
		edit(t, doc, c.pointer, "replace", c.value)
		if c.value == "sampled" {
			edit(t, doc, "/workload/sampling/temperature", "replace", 0.5)
		}
		data := marshal(t, doc)
		if _, err := Validate(data); err != nil {
			t.Errorf("base: %s: %v", c.pointer, err)
		}
		if _, err := (Profile{References: true}).Validate(data); err == nil || !slices.Contains(strings.Split(err.Error(), "\n"), c.want) {
			t.Errorf("%s: got %v\nwant %s", c.pointer, err, c.want)
		}
	}
	doc := document(t, "seed-run-1")
	delete(doc, "results")
	doc["outcome"], doc["failure"] = Failed, map[string]any{"stage": "a", "category": "b", "message_sanitized": "c"}
	if _, err := (Profile{References: true}).Validate(marshal(t, doc)); err == nil || !strings.Contains(err.Error(), "/failure: must not be here\n/outcome: value must be 'completed'") {
		t.Errorf("a failed run: %v", err)
	}
}

func TestSchemaIsTheFile(t *testing.T) {
	for p, name := range map[Profile]string{{}: "schema-1.0.json", {Publishable: true}: "schema-1.0-publishable.json"} {
		want, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(p.Schema(), want) || !json.Valid(want) {
			t.Errorf("%v: %v", p, err)
		}
		p.Schema()[0] = 'x'
		if p.Schema()[0] != '{' {
			t.Error("the schema can be changed from outside")
		}
	}
}

// What no one could have meant is named with its line.
func TestCheckHostileText(t *testing.T) {
	for _, c := range []struct{ reading, in, want string }{
		{"nothing", " \n", "1: the document is empty"},
		{"cut off", "{\n\"a\": {\n", "2: unexpected end of JSON input"},
		{"cut off in a word", `{"a": tru`, "1: invalid character ' ' in literal true"},
		{"NaN", "{\n\n\"a\": NaN}", "3: NaN is no JSON; want a number or null"},
		{"-Infinity", "[\n-Infinity]", "2: Infinity is no JSON; want a number or null"},
		{"Infinity", "[\n\nInfinity]", "3: Infinity is no JSON; want a number or null"},
		{"a comma too many", "{\"a\": 1,\n}", "2: invalid character '}' looking for beginning of object key string"},
		{"two documents", "{}\n{}", "2: invalid character '{' after top-level value"},
		{"not UTF-8", "{\"a\":\n\"\xff\"}", "2: the document is not UTF-8"},
		{"UTF-16", "{\x00\"\x00\xfe\xff", "1: the document is not UTF-8"},
		{"a byte order mark", "\ufeff{}", "1: the document begins with a byte order mark; want plain UTF-8"},
		{"a key twice", "{\"a\":1,\n\"b\":{\"a\":2,\"c\":3,\n\"c\":4}}", `3: key "c" is there twice`},
		{"a key twice, spelt otherwise", "{\"a\":1,\n\"\\u0061\":2}", `2: key "a" is there twice`},
		{"too deep", strings.Repeat("[", 201) + strings.Repeat("]", 201), "1: nested more than 200 deep"},
		{"far too deep", strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), "1: nested more than 200 deep"},
		{"a number beyond float64", "[1,\n1e999]", "2: the number 1e999 is beyond float64"},
		{"an exponent that fills the memory", "[1e999999999]", "1: the number 1e999999999 is beyond float64"},
		{"a small one too", "[-1e-999999999]", "1: the number -1e-999999999 is beyond float64"},
		{"digits that fill it", "[1" + strings.Repeat("0", 500) + "]", "1: the number 1" + strings.Repeat("0", 39) + " is beyond float64"},
		{"digits behind the point", "[0." + strings.Repeat("1", 500) + "]", "1: the number 0." + strings.Repeat("1", 38) + " is beyond float64"},
		{"0 is a number in every form", "[0, -0.0, 0e5, 0.00e-999]", "0: /: a manifest is a JSON object"},
		{"too long", strings.Repeat(" ", MaxBytes+1), fmt.Sprintf("1: the document has %d bytes; want at most %d", MaxBytes+1, MaxBytes)},
	} {
		for _, p := range profiles {
			report, err := p.Check([]byte(c.in))
			if err != nil || len(report.Problems) != 1 {
				t.Fatalf("%s: %+v, %v", c.reading, report, err)
			}
			problem := report.Problems[0]
			got := fmt.Sprintf("%d: %s", problem.Line, problem.Message)
			if problem.Path != "" {
				got = fmt.Sprintf("0: %s: %s", problem.Path, problem.Message)
			}
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("%s: got %s\nwant %s", c.reading, got, c.want)
			}
		}
		if findings := Verify([]byte(c.in), nil); len(findings) != 1 || findings[0].Rule != "schema" {
			t.Errorf("%s: verified: %v", c.reading, findings)
		}
	}
}

func TestLines(t *testing.T) {
	const doc = `{
"a": 1,
"b": [
 10, {"c/d": 2,
  "~": 3}],
"":
 {"x": [[],
   []]}}`
	pointers := []string{"/", "/a", "/b", "/b/0", "/b/1", "/b/1/c~1d", "/b/1/~0", "/b/2", "/b/1/none/there", "/none"}
	want := []int{1, 2, 3, 4, 4, 4, 5, 3, 4, 1}
	if diff := cmp.Diff(want, Lines([]byte(doc), pointers)); diff != "" {
		t.Error(diff)
	}
	inside := "{\n\"id\": 1,\n\"manifest\":\n" + doc + "}"
	for i := range want {
		want[i] += 3
	}
	if diff := cmp.Diff(want, Lines([]byte(inside), pointers)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{0}, Lines([]byte("{"), []string{"/a"})); diff != "" {
		t.Error(diff)
	}
}

// A manifest of ours is found to lack what a person must declare.
func TestVerifyPublish(t *testing.T) {
	check := func(why string, change func(map[string]any), want ...string) {
		t.Helper()
		doc := document(t, "seed-run-1")
		change(doc)
		var got []string
		for _, f := range (Profile{Publishable: true}).Verify(marshal(t, doc), nil) {
			if f.Rule == "publish" {
				got = append(got, f.String())
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", why, diff)
		}
		for _, f := range Verify(marshal(t, doc), nil) {
			if f.Severity == Fail {
				t.Errorf("%s, base: %v", why, f)
			}
		}
	}
	check("a reference", func(map[string]any) {})
	check("no subject and no host", func(doc map[string]any) {
		s := doc["subject"].(map[string]any)
		doc["subject"] = map[string]any{"type": "model", "identifier": s["identifier"], "revision_kind": "undeclared"}
		delete(doc, "environment")
		delete(doc, "license")
	},
		"fail publish /: missing properties 'license', 'environment'",
		"fail publish /subject: missing properties 'modalities', 'architecture', 'quantization', 'parameter_count_total', 'parameter_count_active', 'adapters', 'modifications'",
		"fail publish /subject: missing properties 'source', 'revision'",
		"fail publish /subject/revision_kind: the subject is undeclared; want --subject FILE with its revision")
	check("private", func(doc map[string]any) { doc["visibility"] = "private" },
		"warn publish /visibility: private: nobody else will see it; want public")
}
