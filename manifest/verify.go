package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
)

// Severity is what a [Finding] means for the manifest.
type Severity string

const (
	Fail Severity = "fail" // the manifest contradicts itself or its files
	Warn Severity = "warn" // a reader should know
)

// Finding is one rule that a manifest does not hold.
type Finding struct {
	Rule     string // R2, C4, sha256, ...
	Severity Severity
	Path     string // JSON pointer into the bare manifest
	Message  string
}

// String is the finding on one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s %s %s: %s", f.Severity, f.Rule, f.Path, f.Message)
}

// Verify checks what a schema cannot: that the numbers of a manifest follow
// from each other, that its parts say the same about the same fact, and that
// its artifacts are the files they claim to be. An envelope of the publishing
// site is unwrapped. What files (nil: none) does not hold is not checked and a
// warning; the rest is checked from the document alone. A manifest that breaks
// the base schema has its violations as the only findings (rule schema). What
// it lacks for the profile is found beside the rest, under rule publish.
//
// No finding means that all is well. The order is fixed, failures before
// warnings. Safe for concurrent use.
func (p Profile) Verify(data []byte, files fs.FS) []Finding {
	bare, report, err := Profile{}.check(data)
	if err != nil {
		return []Finding{{"schema", Fail, "/", err.Error()}}
	}
	if len(report.Problems) > 0 {
		return schemaFindings(report)
	}
	var found []Finding
	if report.Kind == KindExperiment {
		found = verifyExperiment(bare, files)
	} else {
		found = verifyRun(bare, files)
	}
	found = append(found, p.publishFindings(bare)...)
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(a.Severity, b.Severity) })
	return found
}

// Verify is [Profile.Verify] of the base profile.
func Verify(data []byte, files fs.FS) []Finding {
	return Profile{}.Verify(data, files)
}

func verifyRun(bare []byte, files fs.FS) []Finding {
	var run Run
	if err := json.Unmarshal(bare, &run); err != nil {
		return []Finding{{"schema", Fail, "/", err.Error()}}
	}
	v := newVerifier(&run)
	v.results()
	v.commands()
	v.facts()
	v.artifacts(files)
	return v.found
}

// schemaFindings turns the problems of a document into findings.
func schemaFindings(report *Report) []Finding {
	var found []Finding
	for _, p := range report.Problems {
		if p.Path == "" {
			p.Path, p.Message = "/", fmt.Sprintf("read manifest: line %d: %s", p.Line, p.Message)
		}
		found = append(found, Finding{"schema", Fail, p.Path, p.Message})
	}
	return found
}

// publishFindings are what a document that holds the base profile must still
// declare before it holds p, and what a reader of a published one should know.
func (p Profile) publishFindings(bare []byte) []Finding {
	if p == (Profile{}) {
		return nil
	}
	var found []Finding
	report, err := p.Check(bare)
	if err != nil {
		return []Finding{{"publish", Fail, "/", err.Error()}}
	}
	for _, problem := range report.Problems {
		found = append(found, Finding{"publish", Fail, problem.Path, problem.Message})
	}
	var doc struct {
		Visibility string
		Subject    Subject
	}
	if json.Unmarshal(bare, &doc) != nil || !p.Publishable {
		return found
	}
	if doc.Visibility == "private" {
		found = append(found, Finding{"publish", Warn, "/visibility", "private: nobody else will see it; want public"})
	}
	if doc.Subject.RevisionKind == "undeclared" {
		found = append(found, Finding{"publish", Fail, "/subject/revision_kind", "the subject is undeclared; want --subject FILE with its revision"})
	}
	return found
}

// verifier holds what several rules need.
type verifier struct {
	run       *Run
	found     []Finding
	server    map[string]any // runtime.parameters.server, never nil
	launch    []command      // the lines of the launch command that start an engine
	bench     command        // the benchmark command
	simulated bool
}

func newVerifier(run *Run) *verifier {
	v := &verifier{run: run, server: map[string]any{}}
	if p := run.Runtime.Parameters; p != nil && p.Server != nil {
		v.server = p.Server
	}
	v.launch = engineCommands(run.Runtime.LaunchCommand)
	v.bench = parseCommand(run.Measurement.BenchmarkCommand)
	v.simulated = run.Measurement.Extensions["servebench.simulated"] == true ||
		run.Runtime.Engine == "servebench-sim"
	return v
}

func (v *verifier) fail(rule, path, format string, args ...any) {
	v.found = append(v.found, Finding{rule, Fail, path, fmt.Sprintf(format, args...)})
}

func (v *verifier) warn(rule, path, format string, args ...any) {
	v.found = append(v.found, Finding{rule, Warn, path, fmt.Sprintf(format, args...)})
}

// speculative reports whether the server is known to have guessed ahead, so
// that one chunk may carry several tokens.
func (v *verifier) speculative() bool {
	return v.server["speculative_config"] != nil || v.launchedSpeculative() ||
		v.run.Measurement.Extensions["runpile.speculative_accept_length"] != nil
}

func (v *verifier) launchedSpeculative() bool {
	return slices.ContainsFunc(v.launch, func(c command) bool { return c.has("speculative-config") })
}

// extension finds a number in the extensions of the workload or, failing that,
// of the measurement.
func (v *verifier) extension(key string) (float64, bool) {
	for _, e := range []map[string]any{v.run.Workload.Extensions, v.run.Measurement.Extensions} {
		if n, ok := e[key].(float64); ok {
			return n, true
		}
	}
	return 0, false
}

func (v *verifier) completions() bool {
	e := v.run.Workload.EndpointType
	return e == "openai-compatible-completions" || e == "openai_completions"
}

func deref[T any](p *T) (value T) {
	if p != nil {
		value = *p
	}
	return value
}
