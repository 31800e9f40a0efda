package bench

import (
	"time"

	"github.com/servebench/servebench/manifest"
)

// Declared is what the user says of a run that nobody can measure. Every field
// may be empty; what is said here goes before what a probe finds.
type Declared struct {
	// Environment is the server's host, from a host file.
	Environment *manifest.Environment `json:"environment,omitempty"`
	// Topology and Interconnect are sentences of the manifest's environment.
	Topology     string `json:"topology,omitempty"`
	Interconnect string `json:"interconnect,omitempty"`

	// Launch are the commands that started the server, one for each replica: of
	// a managed server those that did.
	Launch []manifest.Launched `json:"launch,omitempty"`
	// SafeEnvironment names the variables of Launch that may be published,
	// beside CUDA_VISIBLE_DEVICES; * at the end of a name stands for any rest.
	SafeEnvironment []string `json:"safe_env,omitempty"`
	BuildIdentifier string   `json:"build_identifier,omitempty"`
	// EngineVersion is that of an engine which did not answer when it was asked,
	// such as its log has it.
	EngineVersion string `json:"engine_version,omitempty"`
	// Dependencies are versions of the engine's packages.
	Dependencies    map[string]string            `json:"dependencies,omitempty"`
	LoadBalancer    *manifest.LoadBalancer       `json:"load_balancer,omitempty"`
	AuxiliaryModels []map[string]any             `json:"auxiliary_models,omitempty"`
	PrefixBehavior  *manifest.PrefixBehavior     `json:"prefix_behavior,omitempty"`
	Virtual         *manifest.VirtualEnvironment `json:"virtual_environment,omitempty"`
	// Parameters are engine arguments that no command shows; they go over those
	// that were found.
	Parameters map[string]any `json:"parameters,omitempty"`

	// Labels of a campaign: variant, profile_id, repetition_index and any other
	// name; see the manifest's runpile.* extensions.
	Labels map[string]string `json:"labels,omitempty"`

	Publish Publish `json:"publish,omitzero"`
}

// Publish are the settings that make a manifest fit to be published.
type Publish struct {
	// Name is a template: {subject.identifier} {variant} {input} {output}
	// {concurrency} {rate} and the labels. "" makes one.
	Name  string `json:"name,omitempty"`
	Notes string `json:"notes,omitempty"`
	// Visibility is public or private; "" is private.
	Visibility         string `json:"visibility,omitempty"`
	License            string `json:"license,omitempty"` // SPDX
	ArtifactVisibility string `json:"artifact_visibility,omitempty"`
	// DatasetLicense is that of the prompts.
	DatasetLicense string   `json:"dataset_license,omitempty"`
	Warnings       []string `json:"warnings,omitempty"`
}

// Telemetry says what is watched on the server's side while the timed requests
// run, and only then.
type Telemetry struct {
	// GPU asks nvidia-smi every Interval; Devices are the indices to watch, nil
	// for all.
	GPU      bool          `json:"gpu,omitempty"`
	Interval time.Duration `json:"interval,omitempty"` // 0 is a second
	Devices  []int         `json:"devices,omitempty"`
	// NoEngineMetrics takes no counters from the servers' /metrics.
	NoEngineMetrics bool `json:"no_engine_metrics,omitempty"`
}
