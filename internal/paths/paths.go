// Package paths compares which fields two JSON documents have, for tests that hold
// our manifests against the published ones.
package paths

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// of returns the sorted paths of all fields of a document: keys with dots between,
// [] for the items of an array. A key that holds dots itself is one key.
func of(doc []byte) ([]string, error) {
	var value any
	if err := json.Unmarshal(doc, &value); err != nil {
		return nil, fmt.Errorf("field paths: %w", err)
	}
	found := map[string]bool{}
	walk("", value, found)
	return slices.Sorted(maps.Keys(found)), nil
}

func walk(at string, value any, found map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			path := strings.TrimPrefix(at+"."+key, ".")
			found[path] = true
			walk(path, member, found)
		}
	case []any:
		for _, item := range v {
			found[at+"[]"] = true
			walk(at+"[]", item, found)
		}
	}
}

// Comparison says which differences are meant.
type Comparison struct {
	// Renamed are fields that the other document has under another path, the
	// newer of two spellings.
	Renamed map[string]string
	// Excused are fields that need not be there, and why. What is below one is
	// excused with it.
	Excused map[string]string
}

// Missing returns the fields of want that got lacks, sorted, and the excuses that
// nothing needed.
func (c Comparison) Missing(want, got []byte) (missing, unneeded []string, err error) {
	wanted, err := of(want)
	if err != nil {
		return nil, nil, err
	}
	have, err := of(got)
	if err != nil {
		return nil, nil, err
	}
	needed := map[string]bool{}
	for _, path := range wanted {
		if other, ok := c.Renamed[path]; ok {
			path = other
		}
		if _, ok := slices.BinarySearch(have, path); ok {
			continue
		}
		excuse := ""
		for e := range c.Excused {
			if rest, ok := strings.CutPrefix(path, e); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
				excuse = e
			}
		}
		if excuse == "" {
			missing = append(missing, path)
		}
		needed[excuse] = true
	}
	for e := range c.Excused {
		if !needed[e] {
			unneeded = append(unneeded, e)
		}
	}
	slices.Sort(unneeded)
	return missing, unneeded, nil
}
