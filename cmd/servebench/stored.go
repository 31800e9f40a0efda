package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/servebench/servebench/bench/stored"
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
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if n := e.Name(); e.Type().IsRegular() && strings.HasSuffix(n, ".json") && !strings.HasSuffix(n, ".state.json") && !strings.HasSuffix(n, ".experiment.json") {
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

func readOne(path string) ([]stored.Run, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, storedMax+1))
	if err != nil {
		return nil, err
	}
	if len(data) > storedMax {
		return nil, fmt.Errorf("%s: over %d bytes", path, storedMax)
	}
	return stored.Read(path, data)
}
