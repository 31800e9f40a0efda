package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var seeds = []string{"seed-run-1", "seed-run-2", "seed-run-3"}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parse[T any](t testing.TB, data []byte) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// document is the bare manifest of a reference, as generic JSON.
func document(t testing.TB, seed string) map[string]any {
	t.Helper()
	doc := parse[map[string]any](t, readFile(t, seed+".json"))
	if inner, ok := doc["manifest"].(map[string]any); ok {
		return inner
	}
	return doc
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// edit changes the place a JSON pointer names. The value __del__ removes it.
func edit(t testing.TB, doc map[string]any, pointer, op string, value any) {
	t.Helper()
	tokens := strings.Split(pointer[1:], "/")
	last := tokens[len(tokens)-1]
	var node any = doc
	for _, token := range tokens[:len(tokens)-1] {
		switch n := node.(type) {
		case map[string]any:
			node = n[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil {
				t.Fatal(err)
			}
			node = n[i]
		}
	}
	switch n := node.(type) {
	case map[string]any:
		switch {
		case op == "remove" || value == "__del__":
			delete(n, last)
		case op == "rename":
			n[value.(string)] = n[last]
			delete(n, last)
		default:
			n[last] = value
		}
	case []any:
		i, err := strconv.Atoi(last)
		if err != nil {
			t.Fatal(err)
		}
		if i < len(n) {
			n[i] = value
			return
		}
		edit(t, doc, strings.TrimSuffix(pointer, "/"+last), "replace", append(n, value))
	default:
		t.Fatalf("%s: nothing there", pointer)
	}
}

var profiles = []Profile{{}, {Publishable: true}, {References: true}, {Publishable: true, References: true}}

func TestProfilesAcceptTheReferences(t *testing.T) {
	for _, p := range profiles {
		for _, seed := range append(seeds, "seed-experiment") {
			report, err := p.Check(readFile(t, seed+".json"))
			if err != nil || len(report.Problems) > 0 || report.Enveloped != (seed != "seed-experiment") || report.Kind == "" {
				t.Errorf("%s, %v: %+v, %v", seed, p, report, err)
			}
		}
	}
}

func TestValidateAcceptsTheReferences(t *testing.T) {
	for _, seed := range append(seeds, "seed-experiment") {
		enveloped, err := Validate(readFile(t, seed+".json"))
		if err != nil || enveloped != (seed != "seed-experiment") {
			t.Errorf("%s: enveloped %v, %v", seed, enveloped, err)
		}
		if enveloped, err := Validate(marshal(t, document(t, seed))); err != nil || enveloped {
			t.Errorf("%s, bare: enveloped %v, %v", seed, enveloped, err)
		}
	}
}

// Seven mutations take away what only the publishable profile asks for; the
// base profile is about everything else.
var onlyPublishable = []string{
	"seed-run-1 /artifacts",
	"seed-run-1 /environment/topology",
	"seed-run-1 /results/latency_ms/inter_token",
	"seed-run-1 /workload/prefix_behavior/cache_enabled",
	"seed-run-1 /workload/tokenizer/revision",
	"seed-run-2 /subject/adapters",
	"seed-run-3 /environment/cpu/model",
}

// refuses tells whether a profile finds something in a decoded manifest, without the
// way through its text, which is slow and the same for all profiles.
func refuses(t *testing.T, p Profile, doc map[string]any) bool {
	t.Helper()
	kind, _ := doc["kind"].(string)
	if kind != KindRun && kind != KindExperiment {
		return true
	}
	found, err := violations(p, kind, doc)
	if err != nil {
		t.Fatal(err)
	}
	return len(found) > 0
}

func TestValidateRejectsMutations(t *testing.T) {
	t.Parallel()
	type mutation struct {
		Seed, Pointer, Op, Why string
		Value                  any
	}
	rejected, publishable, seen := 0, 0, 0
	for _, m := range parse[[]mutation](t, readFile(t, "mutations.json")) {
		doc := document(t, m.Seed)
		edit(t, doc, m.Pointer, m.Op, m.Value)
		_, err := Validate(marshal(t, doc))
		absence := slices.Contains(onlyPublishable, m.Seed+" "+m.Pointer)
		if (err == nil) != absence {
			t.Errorf("%s %s %s %v (%s): %v", m.Seed, m.Op, m.Pointer, m.Value, m.Why, err)
		}
		if err != nil {
			rejected++
		}
		if refuses(t, Profile{Publishable: true}, doc) {
			publishable++
		} else {
			t.Errorf("publishable: %s %s %s %v (%s)", m.Seed, m.Op, m.Pointer, m.Value, m.Why)
		}
		if refuses(t, Profile{Publishable: true, References: true}, doc) {
			seen++
		}
	}
	if rejected != 128 || publishable != 135 || seen != 135 {
		t.Errorf("%d, %d, %d mutations rejected, want 128, 135, 135", rejected, publishable, seen)
	}
}

func TestValidateAcceptsVariants(t *testing.T) {
	t.Parallel()
	type variant struct {
		Seed, Why string
		Patch     [][2]any
	}
	variants := parse[[]variant](t, readFile(t, "valid_variants.json"))
	if len(variants) != 15 {
		t.Errorf("%d variants, want 15", len(variants))
	}
	for _, v := range variants {
		doc := document(t, v.Seed)
		for _, p := range v.Patch {
			edit(t, doc, p[0].(string), "replace", p[1])
		}
		data := marshal(t, doc)
		if _, err := Validate(data); err != nil {
			t.Errorf("%s (%s): %v", v.Seed, v.Why, err)
		}
		if _, err := (Profile{Publishable: true}).Validate(data); err != nil {
			t.Errorf("publishable: %s (%s): %v", v.Seed, v.Why, err)
		}
		if doc["kind"] != "run" {
			continue
		}
		run := parse[Run](t, data)
		again, err := Encode(&run)
		if err != nil {
			t.Errorf("%s: %v", v.Why, err)
		}
		if diff := cmp.Diff(doc, parse[map[string]any](t, again)); diff != "" {
			t.Errorf("%s: the Go types lose something:\n%s", v.Why, diff)
		}
	}
}

// An error names every place, so that all can be put right at once.
func TestValidateSaysWhere(t *testing.T) {
	doc := document(t, "seed-run-1")
	edit(t, doc, "/environment/hostname", "add", "box")
	edit(t, doc, "/results/failed_requests", "replace", "none")
	edit(t, doc, "/measurement/notes", "replace", "see /home/me/x")
	edit(t, doc, "/failure", "add", map[string]any{})
	_, err := Validate(marshal(t, doc))
	want := `/environment: additional properties 'hostname' not allowed
/failure: missing properties 'stage', 'category', 'message_sanitized'
/failure: must not be here
/measurement/notes: public text must hold no local path, LAN address or credential
/results/failed_requests: got string, want integer`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestValidateRejectsWhatIsNoDocument(t *testing.T) {
	for _, c := range []struct{ data, want string }{
		{``, "read manifest: line 1: the document is empty"},
		{`[]`, "/: a manifest is a JSON object"},
		{`null`, "/: a manifest is a JSON object"},
		{`{"kind":"run","kind":"run"}`, `read manifest: line 1: key "kind" is there twice`},
		{`{"a":[{"b":1,"c":{"b":2},"b":3}]}`, `read manifest: line 1: key "b" is there twice`},
		{`{"kind":"other"}`, "/kind: value must be one of 'run', 'experiment'"},
		{`{"manifest":7}`, "/: a manifest is a JSON object"},
		{`{"manifest":{"kind":"run"}}{}`, "read manifest: line 1: invalid character '{' after top-level value"},
	} {
		if _, err := Validate([]byte(c.data)); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", c.data, err, c.want)
		}
	}
}

func TestEncodeRoundTripLosesNothing(t *testing.T) {
	for _, seed := range seeds {
		want := document(t, seed)
		run := parse[Run](t, marshal(t, want))
		data, err := Encode(&run)
		if err != nil {
			t.Fatal(seed, err)
		}
		if diff := cmp.Diff(want, parse[map[string]any](t, data)); diff != "" {
			t.Errorf("%s:\n%s", seed, diff)
		}
		again := parse[Run](t, data)
		if diff := cmp.Diff(run, again); diff != "" {
			t.Errorf("%s, decoded again:\n%s", seed, diff)
		}
		repeated, err := Encode(&again)
		if err != nil || !bytes.Equal(repeated, data) {
			t.Errorf("%s: encoding twice gives other bytes, %v", seed, err)
		}
		if !bytes.HasSuffix(data, []byte("}\n")) || !bytes.Contains(data, []byte("1024->256")) {
			t.Errorf("%s: no newline at the end, or HTML escapes", seed)
		}
	}
}

func TestEncodeNamesTheFieldThatIsWrong(t *testing.T) {
	check := func(want string, change func(*Run)) {
		t.Helper()
		run := parse[Run](t, marshal(t, document(t, "seed-run-1")))
		change(&run)
		if _, err := Encode(&run); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	check("/results/latency_ms/end_to_end/mean: a number must be finite", func(r *Run) { r.Results.LatencyMS.EndToEnd.Mean = math.NaN() })
	check("/workload/request_rate_per_second: a number", func(r *Run) { v := math.Inf(1); r.Workload.RequestRatePerSecond = &v })
	check("/measurement/extensions/servebench.x/0: a number", func(r *Run) { r.Measurement.Extensions["servebench.x"] = []any{math.Inf(-1)} })
	check("/client_run_id: '' does not match", func(r *Run) { r.ClientRunID = "" })
	check("/measurement/benchmark_command: public text", func(r *Run) { r.Measurement.BenchmarkCommand = "x 10.0.0.7" })
	check("/: missing property 'results'", func(r *Run) { r.Results = nil })
}

func TestEncodeWritesEmptyWarnings(t *testing.T) {
	run := parse[Run](t, marshal(t, document(t, "seed-run-1")))
	run.Warnings = nil
	data, err := Encode(&run)
	if err != nil || !bytes.Contains(data, []byte(`"warnings": []`)) || run.Warnings != nil {
		t.Errorf("%v, or warnings are not [], or the run was changed", err)
	}
}

// The Go types have exactly the keys of the schema, and omit none that the
// schema requires.
func TestTypesFollowTheSchema(t *testing.T) {
	schema := parse[map[string]any](t, schemaText)
	defs := schema["$defs"].(map[string]any)
	var resolve func(any) map[string]any
	resolve = func(v any) map[string]any {
		m, _ := v.(map[string]any)
		merged := map[string]any{"properties": map[string]any{}, "required": []any{}}
		parts := []any{m}
		if ref, ok := m["$ref"].(string); ok {
			parts = append(parts, resolve(defs[strings.TrimPrefix(ref, "#/$defs/")]))
		}
		for _, key := range []string{"allOf", "oneOf"} {
			for _, sub := range sliceOf(m[key]) {
				if key == "allOf" || m["properties"] == nil {
					parts = append(parts, resolve(sub))
				}
			}
		}
		for _, part := range parts {
			p := part.(map[string]any)
			for key, value := range mapOf(p["properties"]) {
				if value != false {
					mapOf(merged["properties"])[key] = value
				}
			}
			merged["required"] = append(sliceOf(merged["required"]), sliceOf(p["required"])...)
			if p["items"] != nil {
				merged["items"] = p["items"]
			}
		}
		return merged
	}
	var check func(path string, typ reflect.Type, schema map[string]any)
	check = func(path string, typ reflect.Type, schema map[string]any) {
		properties := mapOf(schema["properties"])
		var keys []string
		for i := range typ.NumField() {
			field := typ.Field(i)
			name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
			keys = append(keys, name)
			required := slices.Contains(sliceOf(schema["required"]), any(name))
			if path == "/workload/input_tokens" || path == "/workload/output_tokens" {
				required = name == "kind" // the rest depends on the kind
			}
			if name == "run_client_id" {
				required = false // of kind experiment alone, and one type serves both
			}
			always := path == "/results/latency_ms" || required
			if required && option != "" || !always && option == "" {
				t.Errorf("%s/%s: required %v, but the tag's option is %q", path, name, required, option)
			}
			inner := field.Type
			sub := resolve(properties[name])
			if inner.Kind() == reflect.Slice {
				inner, sub = inner.Elem(), resolve(sub["items"])
			}
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct {
				check(path+"/"+name, inner, sub)
			}
		}
		var want []string
		for key := range sorted(properties) {
			want = append(want, key)
		}
		slices.Sort(keys)
		if diff := cmp.Diff(want, keys); diff != "" {
			t.Errorf("%s: keys of the schema and of %v:\n%s", path, typ, diff)
		}
	}
	check("", reflect.TypeFor[Run](), resolve(defs["run"]))
	check("", reflect.TypeFor[Experiment](), resolve(defs["experiment"]))
}

func mapOf(v any) map[string]any { m, _ := v.(map[string]any); return m }
func sliceOf(v any) []any        { s, _ := v.([]any); return s }

func TestRunID(t *testing.T) {
	// sha256 of the empty string begins e3b0c44298fc.
	if got, want := RunID(nil, 2), "servebench-e3b0c44298fc-2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestIdentifier(t *testing.T) {
	for name, want := range map[string]string{
		"google/gemma-4-12B-it": "google/gemma-4-12B-it",
		"tiny":                  "tiny",
		"gpt-4o:2024@x":         "gpt-4o:2024@x",
		"/models/qwen3":         "qwen3",
		"/models/qwen3/":        "qwen3",
		"./tok":                 "tok",
		`C:\models\qwen3`:       "qwen3",
		"my model (v2)":         "my-model--v2",
		"/":                     "",
		"..":                    "",
		"":                      "",
		"//":                    "",
		"_a/.b":                 "a/b",
		"~/.cache/huggingface/hub/models--org--na--me/snapshots/5926caa": "org/na--me",
	} {
		if got := Identifier(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func FuzzIdentifier(f *testing.F) {
	f.Add("a/b")
	f.Fuzz(func(t *testing.T, name string) {
		id := Identifier(name)
		if Identifier(id) != id {
			t.Errorf("%q, then %q", id, Identifier(id))
		}
		if id == "" {
			return
		}
		problems, err := violations(Profile{}, "subject", map[string]any{"type": "model", "identifier": id})
		if err != nil || len(problems) > 0 {
			t.Errorf("%q gives %q: %v %v", name, id, problems, err)
		}
	})
}

func FuzzValidate(f *testing.F) {
	for _, seed := range append(seeds, "seed-experiment") {
		f.Add(readFile(f, seed+".json"))
		f.Add(marshal(f, document(f, seed)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := Validate(data)
		findings := Verify(data, nil)
		if err != nil {
			if len(findings) == 0 || findings[0].Rule != "schema" {
				t.Errorf("invalid (%v), but verified: %v", err, findings)
			}
			return
		}
		bare, _ := unwrap(data)
		var run Run
		if json.Unmarshal(bare, &run) != nil || run.Kind != KindRun {
			var e Experiment
			if err := json.Unmarshal(bare, &e); err == nil && e.Kind == KindExperiment {
				if _, err := Encode(&e); err != nil {
					t.Errorf("valid, but not encoded: %v", err)
				}
			}
			return
		}
		if _, err := Encode(&run); err != nil {
			t.Errorf("valid, but not encoded: %v", err)
		}
	})
}

func ExampleValidate() {
	_, err := Validate([]byte(`{"kind": "runs"}`))
	fmt.Println(err)
	// Output: /kind: value must be one of 'run', 'experiment'
}
