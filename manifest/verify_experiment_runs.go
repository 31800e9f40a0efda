package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// runManifestKind is the kind of the artifacts that are manifests of kind run.
const runManifestKind = "runpile_run_manifest_json"

// runFacts checks C5, C14 and C15 of one run: the rules of kind run that concern
// facts which a run of an experiment states too. Where it says nothing of drivers,
// the shared ones hold.
func (v *experimentVerifier) runFacts(at string, r *experimentRun) {
	if r.Environment != nil {
		env := *r.Environment
		if shared := v.doc.Shared.Environment; env.DriverVersions == nil && shared != nil {
			env.DriverVersions = shared.DriverVersions
		}
		v.under(at, func() { v.host(&env) })
	}
	for name, parameters := range sorted(r.Runtime.Parameters) {
		if name == "dependencies" || name == "load_balancer" {
			continue // versions are text
		}
		for key, value := range sorted(parameters) {
			if text, ok := value.(string); ok && isNumber(text) {
				v.warn("C15", at+"/runtime/parameters/"+name+"/"+key, "the number %q is written as a string", text)
			}
		}
	}
}

// prompts checks C16. Runs of one experiment tend to lack the hash together, so one
// finding stands for all.
func (v *experimentVerifier) prompts() {
	first, n := "", 0
	for i := range v.doc.Runs {
		r := &v.doc.Runs[i]
		if r.Status != Completed || r.aggregate() || r.Workload.Dataset.SHA256 != "" || v.doc.Shared.Workload.Dataset.SHA256 != "" {
			continue
		}
		if n++; n == 1 {
			first = fmt.Sprintf("/runs/%d/workload/dataset", i)
		}
	}
	if n > 0 {
		v.warn("C16", first, "no sha256 identifies the prompts%s", andMore(n-1))
	}
}

// runManifests holds each run against its own manifests of kind run, as far as they
// are beside the experiment's: they verify, and both say the same.
func (v *experimentVerifier) runManifests(files fs.FS) {
	if files == nil {
		return
	}
	for i := range v.doc.Runs {
		r := &v.doc.Runs[i]
		var sum Results
		completed := 0
		for j, a := range r.Artifacts {
			if a.Kind != runManifestKind {
				continue
			}
			at := fmt.Sprintf("/runs/%d/artifacts/%d", i, j)
			run := v.runManifest(files, at, a)
			if run == nil {
				continue
			}
			v.sameRun(at, r, a, run)
			if res := run.Results; res != nil {
				completed++
				sum.SuccessfulRequests += res.SuccessfulRequests
				sum.FailedRequests += res.FailedRequests
				sum.TotalInputTokens += res.TotalInputTokens
				sum.TotalOutputTokens += res.TotalOutputTokens
			}
		}
		if completed > 0 && completed == len(r.Trials) && r.Results != nil {
			v.sameCounts(fmt.Sprintf("/runs/%d/results", i), r.Results, &sum)
		}
	}
}

// runManifest reads a manifest of kind run, nil where it is not here or is none.
func (v *experimentVerifier) runManifest(files fs.FS, at string, a Artifact) *Run {
	file, err := files.Open(a.Filename)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a warning of rule sha256
	}
	var data []byte
	if err == nil {
		defer file.Close()
		if st, serr := file.Stat(); serr == nil && !st.Mode().IsRegular() {
			return nil // a failure of rule sha256
		}
		data, err = io.ReadAll(io.LimitReader(file, MaxBytes+1))
	}
	if err != nil {
		v.fail("run", at, "read %s: %v", a.Filename, err)
		return nil
	}
	bare, report, err := Profile{}.check(data)
	var run Run
	switch {
	case err != nil:
		v.fail("run", at, "read %s: %v", a.Filename, err)
		return nil
	case len(report.Problems) > 0:
		p := report.Problems[0]
		v.fail("run", at, "%s is no valid manifest: %s: %s%s", a.Filename, p.Path, p.Message, andMore(len(report.Problems)-1))
		return nil
	case report.Kind != KindRun || json.Unmarshal(bare, &run) != nil:
		v.fail("run", at, "%s is a manifest of kind %s; want run", a.Filename, report.Kind)
		return nil
	}
	for _, f := range verifyRun(bare, nil) {
		if f.Severity == Fail {
			v.fail("run", at, "%s: %s %s: %s", a.Filename, f.Rule, f.Path, f.Message)
		}
	}
	return &run
}

// sameRun compares what a run and its manifest both say.
func (v *experimentVerifier) sameRun(at string, r *experimentRun, a Artifact, run *Run) {
	differ := func(what string, here, there any) {
		if here != there {
			v.fail("run", at, "%s of %s is %v in %s and %v here", what, r.ClientRunID, there, a.Filename, here)
		}
	}
	differ("the subject", r.Subject.Identifier, run.Subject.Identifier)
	differ("the revision", r.Subject.Revision, run.Subject.Revision)
	if r.Status != Completed || len(r.Trials) == 1 {
		differ("the end", r.Status, run.Outcome)
	}
	for _, b := range run.Artifacts {
		for _, c := range r.Artifacts {
			if b.Filename == c.Filename {
				differ("the sha256 of "+b.Filename, c.SHA256, b.SHA256)
			}
		}
	}
	i := slices.IndexFunc(r.Trials, func(t Trial) bool {
		return slices.ContainsFunc(t.Artifacts, func(b Artifact) bool { return b.ClientArtifactID == a.ClientArtifactID })
	})
	if i < 0 || run.Results == nil || len(r.Trials) > 1 && run.Outcome != Completed {
		return
	}
	differ("the duration", r.Trials[i].DurationSeconds, run.Results.DurationSeconds)
	if rate := r.Trials[i].Results.RequestsPerSecond; rate != nil {
		differ("the rate of requests", rate.Value, run.Results.Throughput.RequestsPerSecond.Value)
	}
}

// sameCounts compares a run's counts with the sums over its trials' manifests.
func (v *experimentVerifier) sameCounts(at string, r *ExperimentResults, sum *Results) {
	check := func(name string, here float64, there int64) {
		if here != float64(there) {
			v.fail("run", at+"/"+name, "%v, but the trials' manifests add up to %d", here, there)
		}
	}
	if n := r.SuccessfulRequests; n != nil {
		check("successful_requests", float64(*n), sum.SuccessfulRequests)
	}
	if n := r.FailedRequests; n != nil {
		check("failed_requests", float64(*n), sum.FailedRequests)
	}
	if m := r.TotalTokens; m != nil {
		check("total_tokens/value", m.Value, sum.TotalInputTokens+sum.TotalOutputTokens)
	}
}
