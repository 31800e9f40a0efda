package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSubject(t *testing.T) {
	const full = `identifier: google/gemma-4-12B-it
revision: 5926caa4ec0cac5cbfadaf4077420520de1d5205    # default: the snapshot in the local HF cache
quantization: {format: FP8 per tensor, application: runtime weight quantization}
parameter_count_total: 12000000000
parameter_count_active: 12000000000
modifications: ["Multimodal inputs disabled at serving time."]
architecture: Gemma4UnifiedForConditionalGeneration
`
	got, err := ParseSubject("s.yaml", []byte(full))
	if err != nil {
		t.Fatal(err)
	}
	// It is the subject of the first reference.
	want := parse[Run](t, marshal(t, document(t, "seed-run-1"))).Subject
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseSubjectDefaults(t *testing.T) {
	got, err := ParseSubject("s.yaml", []byte("identifier: a/b\nrevision: main\n"))
	want := &Subject{Type: "model", Source: "huggingface", Adapters: []map[string]any{}, Identifier: "a/b", Modalities: []string{"text"}, Revision: "main", RevisionKind: "tag"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	got, err = ParseSubject("s.yaml", []byte("{identifier: a/b, source: local, adapters: [{path: x}], modalities: [text, image], revision_kind: undeclared}"))
	want = &Subject{Type: "model", Source: "local", Adapters: []map[string]any{{"path": "x"}}, Identifier: "a/b", Modalities: []string{"text", "image"}, RevisionKind: "undeclared"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestParseSubjectErrors(t *testing.T) {
	for _, c := range []struct{ data, want string }{
		{"", "s.yaml: identifier is missing"},
		{"# nothing\n", "s.yaml: identifier is missing"},
		{"type: model\n", "s.yaml: identifier is missing"},
		{"identifier: a\nlicence: MIT\n", `s.yaml:2:1: unknown field "licence"`},
		{"identifier: a\nquantization:\n  formatt: x\n", `s.yaml:3:3: unknown field "formatt"`},
		{"identifier: a\n\nidentifier: b\n", `s.yaml:3:1: mapping key "identifier" already defined at [1:1]`},
		{"identifier: a\n---\nidentifier: b\n", "s.yaml: more than one YAML document"},
		{"identifier: a\nrevision: 1.10\n", "s.yaml:2: revision is text, put the value in quotes"},
		{"identifier: a\nquantization:\n  format: 8\n", "s.yaml:3: format is text, put the value in quotes"},
		{"identifier: a\nparameter_count_total: 12B\n", "s.yaml:2:24: cannot unmarshal string"},
		{"identifier: a\nparameter_count_total: -1\n", "s.yaml:2: parameter_count_total: minimum"},
		{"identifier: a b\n", "s.yaml:1: identifier: 'a b' does not match"},
		{"identifier: a\nrevision_kind: commit\nrevision: main\n", "s.yaml:3: revision: 'main' does not match"},
		{"identifier: a\nrevision_kind: commit\n", "s.yaml:2: revision_kind: commit without a revision"},
		{"identifier: a\nmodifications:\n- ok\n- /home/x/y\n", "s.yaml:4: modifications/1: public text must hold no local path"},
		{"identifier: a\nquantization: {checkpoint: x}\n", "s.yaml:2: quantization/format: minLength"},
		{"- a\n", "s.yaml:1:1: sequence was used where mapping is expected"},
		{"a: [", "s.yaml:1:4: sequence end token ']' not found"},
		{strings.Repeat("#", 1<<20+1), "s.yaml: a subject file of 1048577 bytes"},
	} {
		if s, err := ParseSubject("s.yaml", []byte(c.data)); err == nil || s != nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%.40q: %v, want %s", c.data, err, c.want)
		}
	}
}

func FuzzParseSubject(f *testing.F) {
	for _, s := range []string{"identifier: a\n", "identifier: &a [*a]\n", "<<: *x\n", "? [a]\n: b\n", "!!binary x\n", "identifier: !!str 5\nquantization: {format: ~}\n",
		"a: &a\n  <<: *a\nidentifier: x\n", "modifications: [/home/x/]\nidentifier: x\n", "\x00", "%YAML 1.2\n---\nidentifier: x\n...\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data string) {
		s, err := ParseSubject("s.yaml", []byte(data))
		if (s == nil) == (err == nil) {
			t.Errorf("%v and %v", s, err)
		}
		if s == nil {
			return
		}
		run := parse[Run](t, marshal(t, document(t, "seed-run-1")))
		run.Subject = *s
		if _, err := Encode(&run); err != nil {
			t.Errorf("a subject that cannot be written: %v", err)
		}
	})
}

func ExampleParseSubject() {
	s, err := ParseSubject("gemma.subject.yaml", []byte("identifier: google/gemma-4-12B-it\nrevision: 5926caa4ec0cac5cbfadaf4077420520de1d5205\n"))
	fmt.Println(s.Source, s.RevisionKind, err)
	// Output: huggingface commit <nil>
}
