// Package sweep runs experiments: points of which each is a benchmark run, with
// its server where that is ours to start, and one manifest over all of them.
package sweep

import (
	"time"

	"github.com/servebench/servebench/bench"
	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/manifest"
)

// Experiment is what to do. It is plain data.
type Experiment struct {
	About  About   `json:"about"`
	Points []Point `json:"points"` // in the order of the manifest
	// Aggregates are derived from points that were run.
	Aggregates []Aggregate `json:"aggregates,omitempty"`
	// AsWritten runs all trials of a point before the next point. Else trials of
	// neighbours that share a server, or each start one, are
	// interleaved.
	AsWritten bool `json:"as_written,omitempty"`
}

// About is what the experiment's author says.
type About struct {
	ID            string   `json:"id"` // begins the names of the experiment's own files
	Title         string   `json:"title"`
	Summary       string   `json:"summary,omitempty"`
	Objective     string   `json:"objective,omitempty"`
	Methodology   string   `json:"methodology,omitempty"`
	Conclusions   string   `json:"conclusions,omitempty"`
	Limitations   []string `json:"limitations,omitempty"`
	Tags          []string `json:"tags,omitempty"`
	License       string   `json:"license,omitempty"`
	Visibility    string   `json:"visibility,omitempty"`
	Warnings      []string `json:"warnings,omitempty"`      // publisher_notes
	OmittedFiles  []string `json:"omitted_files,omitempty"` // publisher_notes
	DataAffirmed  bool     `json:"public_data_license_affirmed,omitempty"`
	ArtifactFiles []File   `json:"artifacts,omitempty"`
	// Environment is the whole host, where points use parts of it.
	Environment *manifest.Environment `json:"environment,omitempty"`
}

// File is a further piece of evidence that the author adds.
type File struct {
	Path string `json:"file"`
	Kind string `json:"kind"` // snake_case
	ID   string `json:"id"`
	// MediaType is told by the file's ending where "".
	MediaType string `json:"media_type,omitempty"`
}

// Point is one run of the manifest: Repeat trials of one configuration.
type Point struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Group string `json:"group"`
	// Screening takes the point out of the comparison: relation.type other.
	Screening bool `json:"screening,omitempty"`
	Repeat    int  `json:"repeat,omitempty"` // 0 is 1
	// Config is the run. Of a managed server its base URL is set at the start.
	Config bench.Config `json:"config"`
	// Server is started for the point; nil benchmarks Config.Target as it is.
	Server *server.Config `json:"server,omitempty"`
	// Restart starts the server anew though the point before had the same.
	Restart bool `json:"restart,omitempty"`
	// ExactSalt takes the salt of Config as it is. Else each trial has its own.
	ExactSalt bool `json:"exact_salt,omitempty"`
	// Deadline ends the point's timed run; 0 does not.
	Deadline  time.Duration `json:"deadline,omitempty"`
	OnFailure OnFailure     `json:"on_failure,omitzero"`
	// Vary is what sets the point apart from others, for people.
	Vary []Setting `json:"vary,omitempty"`
	// Digest identifies all that decides on the point's results: the point of a
	// resumed experiment is done if the digest is the same.
	Digest string `json:"digest,omitempty"`
}

// Setting is one value of a point.
type Setting struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

// OnFailure says what to do with a point that failed.
type OnFailure struct {
	Retry int `json:"retry,omitempty"` // further attempts
	// Stop ends the experiment; else it goes on.
	Stop bool `json:"stop,omitempty"`
	// Allow says that a failure is a result like others: it is not run again when
	// the experiment is resumed. A Replacement says so too.
	Allow bool `json:"allow,omitempty"`
	// Replacement is the id of the point that stands in its place if it completed, or
	// "previous_completed" for the last one before it in its group that did.
	Replacement string `json:"replacement,omitempty"`
}

// Aggregate is a run of the manifest that is computed from others.
type Aggregate struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Group string `json:"group"`
	// Sum are the ids of the points whose requests_per_second are added.
	Sum []string `json:"sum"`
	// Derivation says how in words; "" takes ours.
	Derivation string   `json:"derivation,omitempty"`
	Warnings   []string `json:"warnings,omitempty"`
}

// Outcome is what became of a point.
type Outcome struct {
	PointID string  `json:"point_id"`
	Digest  string  `json:"digest"`
	Status  string  `json:"status"` // completed, failed or interrupted
	Trials  []Trial `json:"trials"` // the last attempt at each
	// Failure is set where Status is failed.
	Failure *manifest.Failure `json:"failure,omitempty"`
	// Attempts that failed before, for the record.
	Attempts []manifest.Failure `json:"attempts,omitempty"`
	Warnings []string           `json:"warnings,omitempty"`
}

// Trial is one run of a point. Its kind-run manifest has all that is known.
type Trial struct {
	Status   string        `json:"status"`
	Manifest *manifest.Run `json:"manifest"`
	// Artifacts are the files of the trial, the kind-run manifest among them
	// (kind runpile_run_manifest_json).
	Artifacts []manifest.Artifact `json:"artifacts"`
	StartedAt time.Time           `json:"started_at"` // of the timed requests
	Seconds   float64             `json:"duration_seconds"`
}
