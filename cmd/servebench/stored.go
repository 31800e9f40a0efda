package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/servebench/servebench/bench/stored"
	"github.com/servebench/servebench/manifest"
)

// storedMax is how long a result file may be: one of --save-detailed has every gap.
const storedMax = 1 << 30

// readStored reads the results of a file, or of the files of a folder: those that are
// manifests or results, each run once. What else lies in a folder is left alone.
func readStored(path string) ([]stored.Run, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return readStoredFile(path)
	}
	all, err := filesOf(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range all {
		if !strings.HasSuffix(n, ".state.json") && !strings.HasSuffix(n, ".experiment.json") {
			names = append(names, n)
		}
	}
	var runs []stored.Run
	for _, n := range names {
		// A run's manifest stands beside its result, and is read with it.
		if stem, ok := strings.CutSuffix(n, ".manifest.json"); ok && (slices.Contains(names, stem+".json") || slices.Contains(names, stem+".result.json")) {
			continue
		}
		more, err := readStoredFile(filepath.Join(path, n))
		if errors.Is(err, stored.ErrNoResult) {
			continue
		}
		if err != nil {
			return nil, err
		}
		runs = append(runs, more...)
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("%s: no result in the folder; want manifests or result JSONs, *.json", path)
	}
	return runs, nil
}

// readStoredFile reads a file; of a result, whose own text does not say what served
// it, also the manifest beside it.
func readStoredFile(path string) ([]stored.Run, error) {
	runs, err := readOne(path)
	if err != nil || len(runs) != 1 || runs[0].Form != stored.Result {
		return runs, err
	}
	stem := strings.TrimSuffix(strings.TrimSuffix(path, ".json"), ".result")
	beside, err := readOne(stem + ".manifest.json")
	if errors.Is(err, os.ErrNotExist) {
		return runs, nil
	}
	if err != nil {
		return nil, err
	}
	if len(beside) == 1 && beside[0].OfSameRun(&runs[0]) {
		runs[0].Describe(&beside[0])
	}
	return runs, nil
}

// filesOf are the names of the JSON files of a folder, in order; links to files are
// among them, folders and what begins with a dot are not.
func filesOf(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		n := e.Name()
		if !strings.HasSuffix(n, ".json") || strings.HasPrefix(n, ".") {
			continue
		}
		st, err := os.Stat(filepath.Join(dir, n))
		if err != nil {
			return nil, err
		}
		if st.Mode().IsRegular() {
			names = append(names, n)
		}
	}
	return names, nil
}

func readOne(path string) ([]stored.Run, error) {
	data, err := readText(path)
	if err != nil {
		return nil, err
	}
	return stored.Read(path, data)
}

// readText reads a result file. What is no file is not opened: a pipe would wait.
func readText(path string) ([]byte, error) {
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file; want a manifest or a result JSON", path)
	case st.Size() > storedMax:
		return nil, fmt.Errorf("%s: %d bytes; want %d at most", path, st.Size(), storedMax)
	}
	return os.ReadFile(path)
}

// cleanJSON is JSON in whose strings nothing is that must not be published. Members come
// in the order of their names, and numbers as they are written.
func cleanJSON(text []byte, r *manifest.Redactor) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(cleanValue(v, r)); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func cleanValue(v any, r *manifest.Redactor) any {
	switch v := v.(type) {
	case string:
		return r.Hide(v)
	case []any:
		for i := range v {
			v[i] = cleanValue(v[i], r)
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, member := range v {
			out[r.Hide(k)] = cleanValue(member, r)
		}
		return out
	}
	return v
}
