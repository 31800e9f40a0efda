package manifest

// KindExperiment is the kind of a manifest over several runs.
const KindExperiment = "experiment"

// Experiment is a manifest of kind experiment: what several runs have in common,
// and each run with its headline numbers. What else is known of a run stands in
// a manifest of its own, which is one of its artifacts. As in a [Run], what is nil
// or zero is absent. An Experiment is plain data, safe for concurrent reading.
type Experiment struct {
	SchemaVersion      string          `json:"schema_version"`       // [SchemaVersion]
	Kind               string          `json:"kind"`                 // [KindExperiment]
	ClientSubmissionID string          `json:"client_submission_id"` // see [SubmissionID]
	Title              string          `json:"title"`                // at most 200 characters
	Summary            string          `json:"summary,omitempty"`
	Objective          string          `json:"objective,omitempty"`
	Methodology        string          `json:"methodology,omitempty"`
	Conclusions        string          `json:"conclusions,omitempty"`
	Limitations        []string        `json:"limitations,omitempty"`
	Tags               []string        `json:"tags,omitempty"` // kebab case, each once
	Visibility         string          `json:"visibility,omitempty"`
	License            string          `json:"license,omitempty"` // SPDX id, only if the user gave one
	Shared             Shared          `json:"shared"`
	Runs               []ExperimentRun `json:"runs"`
	Artifacts          []Artifact      `json:"artifacts"` // of no run; [Encode] writes [] for nil
	Provenance         Provenance      `json:"provenance"`
	PublisherNotes     *PublisherNotes `json:"publisher_notes,omitempty"`
	Extensions         map[string]any  `json:"extensions,omitempty"`
}

// Shared is what most runs have in common. A run goes over it key by key.
type Shared struct {
	// Workload has keys of [Workload], in the names of this kind.
	Workload          map[string]any    `json:"workload,omitempty"`
	Environment       *Environment      `json:"environment,omitempty"`
	MeasurementMethod MeasurementMethod `json:"measurement_method"`
}

// MeasurementMethod is how the numbers of all runs were taken.
type MeasurementMethod struct {
	Harness                 string `json:"harness"`
	Version                 string `json:"version"`
	ClockSource             string `json:"clock_source"` // CLOCK_MONOTONIC
	WarmupSemantics         string `json:"warmup_semantics"`
	DurationSemantics       string `json:"duration_semantics"`
	TokenizationIncluded    bool   `json:"tokenization_included"` // the server's, in the time of a request
	ModelLoadingIncluded    bool   `json:"model_loading_included"`
	RetryFailureTreatment   string `json:"retry_failure_treatment"`
	ClientOverheadIncluded  bool   `json:"client_overhead_included"`
	MetricDefinitionVersion string `json:"metric_definition_version"` // kebab case
}

// PublisherNotes are what the publisher declares. The affirmation can only be
// true; false is absent.
type PublisherNotes struct {
	Warnings                  []string `json:"warnings,omitempty"`
	Redactions                []string `json:"redactions,omitempty"`
	OmittedFiles              []string `json:"omitted_files,omitempty"` // base names
	PublicDataLicenseAffirmed bool     `json:"public_data_license_affirmed,omitempty"`
}

// ExperimentRun is one run of an experiment. Only a completed one has trials,
// results and times; a failed one has a failure, an interrupted one a warning.
type ExperimentRun struct {
	Name            string             `json:"name"`          // at most 200 characters
	ClientRunID     string             `json:"client_run_id"` // unique in the experiment
	Status          string             `json:"status"`        // [Completed], [Failed] or [Interrupted]
	Failure         *Failure           `json:"failure,omitempty"`
	Trials          []Trial            `json:"trials,omitzero"` // [] of an aggregate
	Results         *ExperimentResults `json:"results,omitempty"`
	Runtime         ExperimentRuntime  `json:"runtime"`
	Subject         Subject            `json:"subject"`
	StartedAt       string             `json:"started_at,omitempty"` // RFC 3339, in milliseconds
	EndedAt         string             `json:"ended_at,omitempty"`
	DurationSeconds float64            `json:"duration_seconds,omitempty"`
	Relation        Relation           `json:"relation"`
	Warnings        []string           `json:"warnings,omitzero"`
	Workload        map[string]any     `json:"workload"` // as [Shared.Workload]
	Artifacts       []Artifact         `json:"artifacts"`
	Environment     *Environment       `json:"environment,omitempty"` // what is not as in [Shared.Environment]
}

// ExperimentRuntime is the serving engine of one run.
type ExperimentRuntime struct {
	Engine     string         `json:"engine"`
	Version    string         `json:"version,omitempty"`
	Extensions map[string]any `json:"extensions,omitempty"`
	// Parameters has a group named after the engine, and may have dependencies
	// and load_balancer as [Parameters] has them.
	Parameters       map[string]any `json:"parameters,omitempty"`
	Parallelism      *Parallelism   `json:"parallelism,omitempty"`
	CommandSanitized string         `json:"command_sanitized,omitempty"` // the model is written MODEL
}

// Relation is a run's part in the experiment.
type Relation struct {
	Type  string `json:"type"`  // sweep_point, aggregate or other
	Group string `json:"group"` // snake_case
}

// Trial is one repetition of a run that completed.
type Trial struct {
	Status          string       `json:"status"`
	ClientTrialID   string       `json:"client_trial_id"` // RUN-trial-N, from 1
	DurationSeconds float64      `json:"duration_seconds"`
	Results         TrialResults `json:"results"`
	Artifacts       []Artifact   `json:"artifacts"`
}

// TrialResults is the one headline number of a trial.
type TrialResults struct {
	RequestsPerSecond *Metric `json:"requests_per_second"`
}

// ExperimentResults are the headline numbers of a run.
type ExperimentResults struct {
	TotalTokens        *Metric `json:"total_tokens,omitempty"`
	FailedRequests     *int64  `json:"failed_requests,omitempty"`
	DurationSeconds    *Metric `json:"duration_seconds,omitempty"`
	RequestsPerSecond  *Metric `json:"requests_per_second"`
	SuccessfulRequests *int64  `json:"successful_requests,omitempty"`
	InputTokensPerS    *Metric `json:"input_tokens_per_second,omitempty"`
	OutputTokensPerS   *Metric `json:"output_tokens_per_second,omitempty"`
}

// Metric is a number with where it came from. A derived one says how and from
// which runs, a measured one says neither.
type Metric struct {
	Unit              string   `json:"unit"` // req/s, tok/s, tokens or s
	Value             float64  `json:"value"`
	Derivation        string   `json:"derivation,omitempty"`
	InputRunIDs       []string `json:"input_run_ids,omitempty"`
	MeasurementStatus string   `json:"measurement_status"` // measured or derived
}

func (m *Metric) derived() bool { return m != nil && m.MeasurementStatus == "derived" }
