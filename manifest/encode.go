package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// Encode writes a manifest: indented, keys in a fixed order, no HTML escapes,
// a newline at the end; the same run gives the same bytes. It fails, and says
// at which JSON pointers, where a number is NaN or infinite or where the
// document would break the base profile of the schema. It does not change doc.
func Encode[D Run | Experiment](doc *D) ([]byte, error) {
	out := *doc
	switch out := any(&out).(type) {
	case *Run:
		out.Warnings = present(out.Warnings)
	case *Experiment:
		out.Artifacts = present(out.Artifacts)
		out.Runs = slices.Clone(out.Runs)
		for i := range out.Runs {
			out.Runs[i].Artifacts = present(out.Runs[i].Artifacts)
		}
	}
	if path, bad := notFinite(reflect.ValueOf(out), ""); bad {
		return nil, fmt.Errorf("encode manifest: %s: a number must be finite", path)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	if _, err := Validate(b.Bytes()); err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	return b.Bytes(), nil
}

// present is a list that is written where it is empty too.
func present[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// notFinite finds the first NaN or infinity, which encoding/json rejects
// without saying where.
func notFinite(v reflect.Value, path string) (string, bool) {
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		return path, math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return notFinite(v.Elem(), path)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if p, bad := notFinite(v.Index(i), fmt.Sprintf("%s/%d", path, i)); bad {
				return p, true
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if p, bad := notFinite(v.MapIndex(key), fmt.Sprintf("%s/%v", path, key)); bad {
				return p, true
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if p, bad := notFinite(v.Field(i), path+"/"+name); bad {
				return p, true
			}
		}
	}
	return "", false
}
