package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// A process that is started with fits does not make them again: what was handed over
// is changed here, and comes back as it was changed.
func TestFitsAreHandedOver(t *testing.T) {
	t.Setenv(fitsVariable, "no JSON")
	l, err := (&terminal{}).readLike(references + "seed-experiment.json#concurrency-1")
	if err != nil {
		t.Fatal(err)
	}
	var first fits
	made, err := first.of(l.Published)
	if err != nil {
		t.Fatal(err)
	}
	for key, f := range first.known {
		f.Engine.StepBase++
		f.Off = []string{"throughput"}
		first.known[key] = f
	}
	if err := first.handOver(); err != nil {
		t.Fatal(err)
	}
	var second fits
	got, err := second.of(l.Published)
	made.Engine.StepBase++
	made.Off = []string{"throughput"}
	if diff := cmp.Diff(made, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	l.Requests++ // another run
	if got, err := second.of(l.Published); err != nil || len(got.Off) > 0 {
		t.Errorf("%v %v", got, err)
	}
}

func TestLikeIn(t *testing.T) {
	for command, want := range map[string]string{
		"{servebench} sim --like a.json#x --port 1": "a.json#x",
		"{servebench} sim m --like=a.json":          "a.json",
		"{servebench} sim m --like":                 "",
		"{servebench} sim m":                        "",
		"vllm serve --like a.json":                  "",
		"":                                          "",
	} {
		if got := likeIn(strings.Fields(command)); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// --sim-like holds for lists too: one simulator, fitted once, with the fitted times.
func TestListsOfSimLike(t *testing.T) {
	dir := t.TempDir()
	code, _, errs := command(t, "serve", "--sim", "--sim-like", references+"seed-experiment.json#concurrency-1", "--num-prompts", "2", "--max-concurrency", "1,2",
		"--random-input-len", "8", "--random-output-len", "2", "--temperature", "0", "--skip-tokenizer-init", "--prompt-form", "token-ids", "--result-dir", dir)
	if code != 0 || strings.Count(errs, "simulating 1 x servebench sim --max-num-batched-tokens 10240") != 1 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	data, err := os.ReadFile(filepath.Join(onlyFolder(t, dir), "concurrency-1.result.json"))
	if step := gjson.GetBytes(data, "median_itl_ms").Num; err != nil || step < 1 {
		t.Errorf("a step takes %v ms: %v", step, err)
	}
}
