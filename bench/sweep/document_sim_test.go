package sweep

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/internal/memnet"
	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/manifest"
)

// recorded is a trial as its files have it.
func recorded(t *testing.T, dir string, p *Point, res *bench.Result) Trial {
	t.Helper()
	f := bench.Beside(filepath.Join(dir, p.ID+".result.json"))
	f.Manifest = filepath.Join(dir, p.ID+".manifest.json")
	f.Selected = []string{"ttft", "tpot", "itl", "e2el"}
	if _, err := res.Save(f); err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(f.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	run := new(manifest.Run)
	if err := json.Unmarshal(doc, run); err != nil {
		t.Fatal(err)
	}
	own, err := Evidence([]File{{Path: f.Manifest, Kind: "runpile_run_manifest_json", ID: p.ID + "-manifest"}})
	if err != nil {
		t.Fatal(err)
	}
	return Trial{Status: run.Outcome, Manifest: run, Artifacts: append(run.Artifacts, own...), StartedAt: res.Start, Seconds: res.Duration.Seconds()}
}

// Runs against the simulator in virtual time, and what became of them: the manifest
// holds the base profile and verifies with every file beside it, though nothing was
// declared.
func TestDocumentOfMeasuredRuns(t *testing.T) {
	dir := t.TempDir()
	var e Experiment
	var outcomes []Outcome
	e.About.ID = "measured"
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New()
		srv := &http.Server{Handler: sim.New(sim.Config{TTFT: 50 * time.Millisecond, ITL: 10 * time.Millisecond})}
		ended := make(chan struct{})
		go func() { defer close(ended); srv.Serve(n) }()
		defer func() { srv.Close(); <-ended }()
		for _, c := range []struct {
			id     string
			at     int
			lens   float64
			within time.Duration
		}{{"c-1", 1, 0, 0}, {"c-2", 2, 0, 0}, {"mixed", 2, 0.5, 0}, {"cut", 1, 0, 250 * time.Millisecond}} {
			p := Point{ID: c.id, Name: c.id, Group: "concurrency", OnFailure: OnFailure{Replacement: "c-1"}}
			p.Config = bench.Config{
				Backend: "openai-chat", Model: "m", Stream: true, IgnoreEOS: true, NoTokenizer: true, Target: openai.Config{BaseURL: "http://sim.test", Dial: n.Dial},
				Dataset: dataset.Spec{Name: "random", Prompts: 8, InputLen: 20, OutputLen: 6, RangeRatio: dataset.Ratio{Input: c.lens, Output: c.lens}},
				Rate:    loadgen.Inf, Pacing: loadgen.Sleep, MaxConcurrency: c.at, Percentiles: []float64{99}, Command: []string{"servebench", "sweep"},
			}
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if c.within > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.within)
			}
			res, err := bench.Run(ctx, p.Config)
			cancel()
			if err != nil {
				t.Fatal(c.id, err)
			}
			trial := recorded(t, dir, &p, res)
			e.Points, outcomes = append(e.Points, p), append(outcomes, Outcome{PointID: p.ID, Status: trial.Status, Trials: []Trial{trial}})
		}
		p := Point{ID: "no-start", Group: "startup", OnFailure: OnFailure{Replacement: "c-1"}, Config: e.Points[0].Config}
		f := manifest.Failure{Stage: "runtime_startup", Category: "bad_argument", MessageSanitized: "unrecognized arguments: --x"}
		trial := recorded(t, dir, &p, bench.NotRun(t.Context(), p.Config, f))
		e.Points, outcomes = append(e.Points, p), append(outcomes, Outcome{PointID: p.ID, Status: manifest.Failed, Failure: &f, Trials: []Trial{trial}})
	})
	e.Aggregates = []Aggregate{{ID: "both", Group: "sum", Sum: []string{"c-1", "c-2"}}}
	doc, err := Document(e, outcomes, Writing{At: began})
	if err != nil {
		t.Fatal(err)
	}
	text, err := manifest.Encode(doc)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range manifest.Verify(text, os.DirFS(dir)) {
		if f.Severity == manifest.Fail {
			t.Error(f)
		}
	}
	// A request is 50 ms and 5 times 10 ms, and one follows the other.
	var got []string
	for _, r := range doc.Runs {
		row := r.ClientRunID + " " + r.Status
		if res := r.Results; res != nil && r.ClientRunID != "mixed" {
			row += fmt.Sprintf(" %v", res.RequestsPerSecond.Value)
		}
		if f := r.Failure; f != nil {
			row += " by " + f.ReplacementClientRunID
		}
		if r.Status == manifest.Interrupted {
			row += ": " + r.Warnings[0]
		}
		got = append(got, row)
	}
	want := []string{"c-1 completed 10", "c-2 completed 20", "mixed completed",
		"cut interrupted: Interrupted after 2 of 8 requests; excluded from completed-run rankings.", "no-start failed by c-1", "both completed 30"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(strings.Join(doc.Limitations, " "), "simulated") || doc.Extensions["servebench.simulated"] != true {
		t.Errorf("nothing says that it is simulated: %q", doc.Limitations)
	}
}

func TestEvidence(t *testing.T) {
	dir := t.TempDir()
	path := func(name, text string) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	notes, empty := path("notes.md", "x\n"), path("empty.md", "")
	got, err := Evidence([]File{{Path: notes, Kind: "methodology_markdown", ID: "notes"}})
	want := []manifest.Artifact{{Kind: "methodology_markdown", ClientArtifactID: "notes", Filename: "notes.md", MediaType: "text/markdown", SizeBytes: 2,
		SHA256: "73cb3858a687a8494ca3323053016282f3dad39d42cf62ca4e79dda2aac7d9ac"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(err, diff)
	}
	_, err = Evidence([]File{{Path: notes, ID: "a"}, {Path: notes, ID: "a"}, {Path: empty, ID: "b"}, {Path: filepath.Join(dir, "none"), ID: "c"}, {Path: dir, ID: "d"}})
	for _, want := range []string{`notes.md: id "a" is missing or another file's too`, "empty.md: the file is empty", "none: no such file", "no regular file"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}
