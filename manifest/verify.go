package manifest

import (
	"cmp"
	"encoding/json"
	"errors"
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

// Verify checks what a schema cannot: that the numbers of a kind-run manifest
// follow from each other, that its parts say the same about the same fact, and
// that its artifacts are the files they claim to be. An envelope of the
// publishing site is unwrapped. What files (nil: none) does not hold is not
// checked and a warning; the rest is checked from the document alone. A
// manifest that breaks the schema has its violations as the only findings
// (rule schema), and one of another kind a finding that says so (rule kind).
//
// No finding means that all is well. The order is fixed, failures before
// warnings. Safe for concurrent use.
func Verify(data []byte, files fs.FS) []Finding {
	bare, _, err := validated(data)
	if err != nil {
		return schemaFindings(err)
	}
	var run Run
	if err := json.Unmarshal(bare, &run); err != nil {
		return []Finding{{"schema", Fail, "/", err.Error()}}
	}
	if run.Kind != KindRun {
		return []Finding{{"kind", Fail, "/kind", "rules are known for kind run only, this is " + run.Kind}}
	}
	v := newVerifier(&run)
	v.results()
	v.commands()
	v.facts()
	v.artifacts(files)
	slices.SortStableFunc(v.found, func(a, b Finding) int { return cmp.Compare(a.Severity, b.Severity) })
	return v.found
}

// schemaFindings turns the error of [Validate] into findings.
func schemaFindings(err error) []Finding {
	problems, ok := errors.AsType[invalidError](err)
	if !ok {
		return []Finding{{"schema", Fail, "/", err.Error()}}
	}
	var found []Finding
	for _, p := range problems {
		found = append(found, Finding{"schema", Fail, p.path, p.message})
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
