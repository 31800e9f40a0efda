package sweep

import (
	"fmt"
	"strings"
	"testing"

	"github.com/servebench/servebench/manifest"
)

// Two points have no majority: the workload of one is the shared one, and the manifest
// holds the schema.
func TestDocumentOfTwoPoints(t *testing.T) {
	for _, arrival := range []string{"closed_loop", "poisson"} {
		c := newCampaign()
		for i, id := range []string{"one", "two"} {
			p := c.point(id, "g", func(p *Point) { p.Config.MaxConcurrency = i + 1 })
			c.complete(p, 10, 1.5)
			w := &c.outcomes[i].Trials[0].Manifest.Workload
			if w.ArrivalProcess = arrival; arrival == "poisson" {
				w.RequestRatePerSecond = ptr(float64(i + 1))
			}
		}
		doc, text := c.document(t)
		c.verify(t, text, "X19")
		if w := doc.Shared.Workload; w["mode"] != "online" || w["arrival_process"] != arrival || fmt.Sprint(w["concurrency"]) != "1" {
			t.Errorf("shared is %v", w)
		}
	}
}

// A server that ended before it said its version has that of the others that
// started the same program; what other programs say is no hint.
func TestDocumentHearsOthers(t *testing.T) {
	c := newCampaign()
	silent := func(id, command string) {
		p := c.point(id, "g", nil)
		run := kindRun(p, 10, 1)
		run.Outcome, run.Results = manifest.Failed, nil
		run.Failure = &manifest.Failure{Stage: "runtime_startup", Category: "bad_argument", MessageSanitized: "unrecognized arguments: --x"}
		run.Runtime.Version, run.Runtime.LaunchCommand = "", command
		run.Workload.PrefixBehavior = &manifest.PrefixBehavior{CacheState: "cold"}
		c.outcomes = append(c.outcomes, Outcome{PointID: id, Status: manifest.Failed, Failure: run.Failure, Trials: []Trial{{Status: manifest.Failed, Manifest: run}}})
	}
	silent("same", "CUDA_VISIBLE_DEVICES=0 vllm serve m --no-enable-prefix-caching --x")
	silent("cached", "vllm serve m --x")
	silent("module", "python -m vllm.entrypoints.openai.api_server --no-enable-prefix-caching")
	p := c.point("done", "g", nil)
	c.complete(p, 10, 1.5)
	off := false
	c.outcomes[len(c.outcomes)-1].Trials[0].Manifest.Workload.PrefixBehavior = &manifest.PrefixBehavior{CacheState: "cold", CacheEnabled: &off}
	doc, text := c.document(t)
	c.verify(t, text)
	for i, want := range []struct {
		version string
		cache   any
		says    string
	}{
		{"0.27.1", false, "The server did not tell the version of the engine and the prefix cache's being on or off: given as"},
		{"0.27.1", nil, "The server did not tell the version of the engine: given as"},
		{"", nil, ""},
	} {
		r := &doc.Runs[i]
		if said := strings.Join(r.Warnings, " "); r.Runtime.Version != want.version || cacheEnabled(r) != want.cache || !strings.Contains(said, want.says) || (want.says == "") == strings.Contains(said, "did not tell") {
			t.Errorf("%s: version %q, cache %v, %q", r.ClientRunID, r.Runtime.Version, cacheEnabled(r), said)
		}
	}
}
