package runfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// mutate calls f for each value below v, with what puts another in its place.
func mutate(v any, path string, f func(path string, put func(any) any)) {
	var walk func(v any, path string, put func(any) any)
	walk = func(v any, path string, put func(any) any) {
		f(path, put)
		switch v := v.(type) {
		case map[string]any:
			for k := range v {
				walk(v[k], path+"."+k, func(n any) any {
					m := maps.Clone(v)
					m[k] = n
					return put(m)
				})
			}
		case []any:
			for i := range v {
				walk(v[i], path+fmt.Sprintf("[%d]", i), func(n any) any {
					m := slices.Clone(v)
					m[i] = n
					return put(m)
				})
			}
		}
	}
	walk(v, path, func(n any) any { return n })
}

// Whatever stands in the place of whatever, an editor that holds the schema complains
// of nothing that the reader takes; a flag's value is its own reader's matter.
func TestSchemaRefusesNothingThatIsRead(t *testing.T) {
	values := []any{"x", "5m", json.Number("1"), json.Number("-1"), json.Number("1.5"), json.Number("99999"), true, []any{}, map[string]any{}, []any{"a"}}
	opts := Options{Flags: known, Read: func(name string) ([]byte, error) {
		if strings.HasPrefix(name, "h") {
			return []byte("os: x"), nil
		}
		return []byte("identifier: a/b"), nil
	}}
	for _, c := range []struct{ kind, text string }{{KindRun, entire}, {KindExperiment, judge}} {
		s, tried, read := validator(t, c.kind), 0, 0
		mutate(instance(t, c.text), "", func(path string, put func(any) any) {
			if strings.HasPrefix(path, ".base.") {
				return // a run file, as before
			}
			for _, v := range values {
				b, err := json.Marshal(put(v))
				if err != nil {
					t.Fatal(err)
				}
				doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
				if err != nil {
					t.Fatal(err)
				}
				if c.kind == KindRun {
					_, err = ParseRun("r", b, opts)
				} else {
					_, err = ParseExperiment("r", b, opts)
				}
				tried++
				if err != nil {
					continue
				}
				read++
				if err := s.Validate(doc); err != nil && !strings.Contains(path, ".bench.") {
					t.Errorf("%s: %s = %v is read, and the schema says %v", c.kind, path, v, err)
				}
			}
		})
		if read < 50 || tried < 2*read {
			t.Errorf("%s: %d of %d were read", c.kind, read, tried)
		}
	}
}
