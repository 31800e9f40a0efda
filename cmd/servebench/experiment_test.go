package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/sweep"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/manifest"
)

// Keys and hosts of all points are taken out of an experiment's manifest, which shows
// on a screen.
func TestEncodeSweep(t *testing.T) {
	canary(t)
	dir := t.TempDir()
	e := sweep.Experiment{About: sweep.About{ID: "e", Title: "On " + canaryHost, Summary: everything, ArtifactFiles: []sweep.File{{Path: write(t, dir, "notes.md", "x"), Kind: "methodology_markdown", ID: "notes"}}}}
	for _, id := range []string{"a", "b"} {
		e.Points = append(e.Points, sweep.Point{ID: id, Name: id + " of " + canaryUser, Group: "g", Config: bench.Config{
			Model: "m", MaxConcurrency: 4, Target: openai.Config{BaseURL: "http://canarybox-" + id + ".example:1", APIKey: "canary-of-" + id + "-0123"},
		}})
	}
	outcomes := []sweep.Outcome{{PointID: "a", Status: manifest.Failed, Failure: &manifest.Failure{Stage: "runtime_startup", Category: "other", MessageSanitized: everything + " canarybox-b.example canary-of-a-0123"}}}
	_, doc, err := encodeSweep(e, outcomes)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(doc), "canary") || !strings.Contains(string(doc), `"redactions"`) {
		t.Errorf("%s", doc)
	}
	path := write(t, dir, "e.experiment.json", string(doc))
	code, out, errs := command(t, "manifest", "show", path)
	if code != 0 || !strings.Contains(out, "a: runtime_startup, other") || !strings.Contains(out, "b: Not run") || !strings.Contains(out, "1 failed, 1 interrupted") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if code, out, errs := command(t, "manifest", "verify", "--fail-on-leak", path); code != 0 {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	e.About.ArtifactFiles[0].Path = filepath.Join(dir, "none.md")
	if _, doc, err := encodeSweep(e, outcomes); err != nil || !strings.Contains(string(doc), "Not all files of the author's could be read.") {
		t.Errorf("%v: %s", err, doc)
	}
}
