// Package manifest is the document that one published run is: schema version
// 1.0, kind run. It holds the types, writes and validates the document,
// verifies that its numbers agree with each other, and takes out of strings
// what must not be published.
//
// Everything here is a function of its arguments: no clock, no network, no
// environment. Facts about machines and servers come from manifest/probe.
//
// # What is optional
//
// A pointer, slice or map that is nil is absent from the document, and so is a
// number or string that is zero where the schema does not allow zero. The one
// value that is written as null is [Workload.RequestRatePerSecond].
package manifest

// The constants of every document this package writes.
const (
	SchemaVersion = "1.0"
	KindRun       = "run"
)

// How a run ended, as [Run.Outcome] says it. Only a completed run has results,
// a failed one has a failure, an interrupted one has at least one warning.
const (
	Completed   = "completed"
	Failed      = "failed"
	Interrupted = "interrupted"
)

// Run is a manifest of kind run. The zero value is not a valid document: the
// fields without omitempty must be set. A Run is plain data, safe for
// concurrent reading.
type Run struct {
	SchemaVersion string       `json:"schema_version"` // [SchemaVersion]
	Kind          string       `json:"kind"`           // [KindRun]
	ClientRunID   string       `json:"client_run_id"`  // see [RunID]
	Name          string       `json:"name"`           // title, at most 200 characters
	Notes         string       `json:"notes,omitempty"`
	Visibility    string       `json:"visibility,omitempty"` // public or private
	License       string       `json:"license,omitempty"`    // SPDX id, only if the user gave one
	Outcome       string       `json:"outcome"`
	Subject       Subject      `json:"subject"`
	Environment   *Environment `json:"environment,omitempty"` // the server's host
	Runtime       Runtime      `json:"runtime"`
	Workload      Workload     `json:"workload"`
	Measurement   Measurement  `json:"measurement"`
	Results       *Results     `json:"results,omitempty"`
	Failure       *Failure     `json:"failure,omitempty"`
	Artifacts     []Artifact   `json:"artifacts,omitzero"`
	Provenance    Provenance   `json:"provenance"`
	Warnings      []string     `json:"warnings"` // [Encode] writes [] for nil
}

// Subject is what was measured. Type and Identifier are enough; the rest is
// declared by the user (see [ParseSubject]).
type Subject struct {
	Type                 string           `json:"type" yaml:"type"`
	Source               string           `json:"source,omitempty" yaml:"source"` // huggingface, local or endpoint
	Adapters             []map[string]any `json:"adapters,omitzero" yaml:"adapters"`
	Revision             string           `json:"revision,omitempty" yaml:"revision"`
	RevisionKind         string           `json:"revision_kind,omitempty" yaml:"revision_kind"` // commit, tag or undeclared
	Identifier           string           `json:"identifier" yaml:"identifier"`                 // see [Identifier]
	Modalities           []string         `json:"modalities,omitzero" yaml:"modalities"`
	Architecture         string           `json:"architecture,omitempty" yaml:"architecture"`
	Quantization         *Quantization    `json:"quantization,omitempty" yaml:"quantization"`
	Modifications        []string         `json:"modifications,omitzero" yaml:"modifications"`
	ParameterCountTotal  int64            `json:"parameter_count_total,omitempty" yaml:"parameter_count_total"`
	ParameterCountActive int64            `json:"parameter_count_active,omitempty" yaml:"parameter_count_active"`
}

// Quantization is how the weights of a [Subject] are quantised.
type Quantization struct {
	Format          string `json:"format" yaml:"format"`
	Application     string `json:"application,omitempty" yaml:"application"`
	Checkpoint      string `json:"checkpoint,omitempty" yaml:"checkpoint"`
	Scope           string `json:"scope,omitempty" yaml:"scope"`
	Method          string `json:"method,omitempty" yaml:"method"`
	Provider        string `json:"provider,omitempty" yaml:"provider"`
	WeightDtype     string `json:"weight_dtype,omitempty" yaml:"weight_dtype"`
	KVCacheDtype    string `json:"kv_cache_dtype,omitempty" yaml:"kv_cache_dtype"`
	ActivationDtype string `json:"activation_dtype,omitempty" yaml:"activation_dtype"`
}

// Environment is the host of the server. With a remote server it is known only
// where somebody declared it.
type Environment struct {
	OS                 string              `json:"os,omitempty" yaml:"os,omitempty"` // PRETTY_NAME of os-release
	CPU                *CPU                `json:"cpu,omitempty" yaml:"cpu,omitempty"`
	Kernel             string              `json:"kernel,omitempty" yaml:"kernel,omitempty"`
	Topology           string              `json:"topology,omitempty" yaml:"topology,omitempty"`
	Accelerators       []Accelerator       `json:"accelerators,omitempty" yaml:"accelerators,omitempty"`
	DriverVersions     map[string]string   `json:"driver_versions,omitempty" yaml:"driver_versions,omitempty"`
	HostArchitecture   string              `json:"host_architecture,omitempty" yaml:"host_architecture,omitempty"` // x86_64 or aarch64
	SystemMemoryBytes  int64               `json:"system_memory_bytes,omitempty" yaml:"system_memory_bytes,omitempty"`
	VirtualEnvironment *VirtualEnvironment `json:"virtual_environment,omitempty" yaml:"virtual_environment,omitempty"`
	Extensions         map[string]any      `json:"extensions,omitzero" yaml:"extensions,omitempty"`
}

// CPU is the processor of a host. LogicalCPUs and LogicalCores are two
// spellings of one fact; kind run has the first.
type CPU struct {
	Model         string `json:"model,omitempty" yaml:"model,omitempty"`
	Sockets       int    `json:"sockets,omitempty" yaml:"sockets,omitempty"`
	NUMANodes     int    `json:"numa_nodes,omitempty" yaml:"numa_nodes,omitempty"`
	LogicalCPUs   int    `json:"logical_cpus,omitempty" yaml:"logical_cpus,omitempty"`
	LogicalCores  int    `json:"logical_cores,omitempty" yaml:"logical_cores,omitempty"`
	PhysicalCores int    `json:"physical_cores,omitempty" yaml:"physical_cores,omitempty"`
}

// Accelerator is one group of identical devices.
type Accelerator struct {
	Count                int     `json:"count,omitempty" yaml:"count,omitempty"` // devices the engines use, not devices present
	Model                string  `json:"model,omitempty" yaml:"model,omitempty"`
	Driver               string  `json:"driver,omitempty" yaml:"driver,omitempty"`
	Vendor               string  `json:"vendor,omitempty" yaml:"vendor,omitempty"` // NVIDIA, AMD or Intel
	Architecture         string  `json:"architecture,omitempty" yaml:"architecture,omitempty"`
	Interconnect         string  `json:"interconnect,omitempty" yaml:"interconnect,omitempty"`
	DeviceIndices        []int   `json:"device_indices,omitempty" yaml:"device_indices,omitempty"`
	PowerLimitWatts      float64 `json:"power_limit_watts,omitempty" yaml:"power_limit_watts,omitempty"`
	MemoryBytesPerDevice int64   `json:"memory_bytes_per_device,omitempty" yaml:"memory_bytes_per_device,omitempty"`
}

// VirtualEnvironment is the Python environment the server ran in.
type VirtualEnvironment struct {
	Python             string `json:"python" yaml:"python"`
	DependencyLockHash string `json:"dependency_lock_hash,omitempty" yaml:"dependency_lock_hash,omitempty"` // sha256
}

// Runtime is the serving engine.
type Runtime struct {
	Engine          string            `json:"engine"` // vllm, servebench-sim or unknown
	Version         string            `json:"version,omitempty"`
	Extensions      map[string]any    `json:"extensions,omitzero"`
	Parameters      *Parameters       `json:"parameters,omitempty"`
	Parallelism     *Parallelism      `json:"parallelism,omitempty"`
	LaunchCommand   string            `json:"launch_command,omitempty"` // one line per replica
	BuildIdentifier string            `json:"build_identifier,omitempty"`
	SafeEnvironment map[string]string `json:"safe_environment,omitzero"`
}

// Parameters are the engine's arguments. Server is open: a knob nobody knows
// is kept as it is.
type Parameters struct {
	Server       map[string]any    `json:"server,omitempty"`
	Dependencies map[string]string `json:"dependencies,omitempty"`
	LoadBalancer *LoadBalancer     `json:"load_balancer,omitempty"`
}

// LoadBalancer is the proxy in front of several replicas.
type LoadBalancer struct {
	Type                              string `json:"type" yaml:"type"`
	RetryOtherReplicaOnConnectFailure *bool  `json:"retry_other_replica_on_connect_failure,omitempty" yaml:"retry_other_replica_on_connect_failure,omitempty"`
}

// Parallelism holds degrees; 0 is absent, which rule C3 reads as 1.
type Parallelism struct {
	Data     int `json:"data,omitempty"`
	Expert   int `json:"expert,omitempty"`
	Tensor   int `json:"tensor,omitempty"`
	Pipeline int `json:"pipeline,omitempty"`
	Replicas int `json:"replicas,omitempty"`
}

// Workload is the load that was offered.
type Workload struct {
	Mode                 string          `json:"mode"` // online
	Task                 string          `json:"task"` // text_generation
	Client               Client          `json:"client"`
	Dataset              Dataset         `json:"dataset"`
	Sampling             Sampling        `json:"sampling"`
	Stopping             Stopping        `json:"stopping"`
	Streaming            bool            `json:"streaming"`
	Tokenizer            *Tokenizer      `json:"tokenizer,omitempty"`
	Extensions           map[string]any  `json:"extensions,omitzero"`
	Concurrency          int             `json:"concurrency,omitempty"` // most requests in flight
	RandomSeed           int64           `json:"random_seed"`
	InputTokens          TokenCount      `json:"input_tokens"`
	OutputTokens         TokenCount      `json:"output_tokens"`
	EndpointType         string          `json:"endpoint_type"` // openai-compatible-completions, -chat, ...
	RequestCount         int             `json:"request_count"` // timed requests
	ArrivalProcess       string          `json:"arrival_process"`
	PrefixBehavior       *PrefixBehavior `json:"prefix_behavior,omitempty"`
	WarmupRequestCount   int             `json:"warmup_request_count"`
	RequestRatePerSecond *float64        `json:"request_rate_per_second"` // nil is null: a closed loop
}

// Client is the load generator. At least one field must be set.
type Client struct {
	Name             string `json:"name,omitempty"`
	Backend          string `json:"backend,omitempty"`
	Version          string `json:"version,omitempty"`
	Placement        string `json:"placement,omitempty"` // same-host or remote-host
	OverheadIncluded *bool  `json:"overhead_included,omitempty"`
}

// Dataset says which prompts were sent. Name or Generator must be set.
type Dataset struct {
	Name               string   `json:"name,omitempty"`
	Generator          string   `json:"generator,omitempty"`
	GeneratorRevision  string   `json:"generator_revision,omitempty"` // 40 or 64 hex digits
	SHA256             string   `json:"sha256,omitempty"`             // over the request bodies sent
	Synthetic          *bool    `json:"synthetic,omitempty"`
	SharedPrefixTokens *int64   `json:"shared_prefix_tokens,omitempty"`
	RangeRatio         *float64 `json:"range_ratio,omitempty"`
	RandomPrefixTokens *int64   `json:"random_prefix_tokens,omitempty"`
	License            string   `json:"license,omitempty"`
}

// Sampling is how the server chose tokens. Mode greedy needs temperature 0.
type Sampling struct {
	Mode            string   `json:"mode,omitempty"` // greedy, sampled or server_default
	Temperature     *float64 `json:"temperature,omitempty"`
	MaxOutputTokens int64    `json:"max_output_tokens,omitempty"`
}

// Stopping is when a response ended. MaxTokens is an older spelling of
// MaxOutputTokens; where IgnoreEOS is set, exactly one of them must be.
type Stopping struct {
	IgnoreEOS         *bool `json:"ignore_eos,omitempty"`
	MaxOutputTokens   int64 `json:"max_output_tokens,omitempty"`
	MaxTokens         int64 `json:"max_tokens,omitempty"`
	ExactOutputTokens *bool `json:"exact_output_tokens,omitempty"`
}

// Tokenizer is the tokenizer prompts were built and counted with.
type Tokenizer struct {
	Revision   string `json:"revision,omitempty"` // 40 hex digits
	Identifier string `json:"identifier"`
}

// TokenCount is a distribution of lengths that were counted, in tokens: kind
// fixed has Value, uniform has Min and Max, empirical has Min, Max and Mean.
type TokenCount struct {
	Kind  string  `json:"kind"`
	Value int64   `json:"value,omitempty"`
	Min   int64   `json:"min,omitempty"`
	Max   int64   `json:"max,omitempty"`
	Mean  float64 `json:"mean,omitempty"`
}

// PrefixBehavior is the condition of the prefix cache. ServerPrefixCaching is
// an older spelling of CacheEnabled.
type PrefixBehavior struct {
	CacheState          string   `json:"cache_state,omitempty" yaml:"cache_state,omitempty"` // cold or warm-host
	CacheEnabled        *bool    `json:"cache_enabled,omitempty" yaml:"cache_enabled,omitempty"`
	ServerPrefixCaching *bool    `json:"server_prefix_caching,omitempty" yaml:"server_prefix_caching,omitempty"`
	SharedPrefixTokens  *int64   `json:"shared_prefix_tokens,omitempty" yaml:"shared_prefix_tokens,omitempty"`
	RepetitionRatio     *float64 `json:"repetition_ratio,omitempty" yaml:"repetition_ratio,omitempty"`
	ResetPolicy         string   `json:"reset_policy,omitempty" yaml:"reset_policy,omitempty"` // server_restart or none
}

// Measurement is how the numbers were taken.
type Measurement struct {
	Notes                  string         `json:"notes,omitempty"`
	Warmup                 string         `json:"warmup"`
	Harness                string         `json:"harness"`
	Version                string         `json:"version"` // the harness's
	Extensions             map[string]any `json:"extensions,omitzero"`
	Repetitions            int            `json:"repetitions"`
	TimingScope            string         `json:"timing_scope"`
	BenchmarkCommand       string         `json:"benchmark_command"` // see [Redactor.Command]
	RetryFailureTreatment  string         `json:"retry_failure_treatment"`
	ClientOverheadIncluded bool           `json:"client_overhead_included"`
}

// Results are the aggregates of the timed requests.
type Results struct {
	LatencyMS          Latencies  `json:"latency_ms"`
	Throughput         Throughput `json:"throughput"`
	FailedRequests     int64      `json:"failed_requests"`
	DurationSeconds    float64    `json:"duration_seconds"`
	TotalInputTokens   int64      `json:"total_input_tokens"`
	SuccessfulRequests int64      `json:"successful_requests"`
	TotalOutputTokens  int64      `json:"total_output_tokens"`
}

// Latencies are the four latency metrics; one that could not be measured is
// nil. Without streaming only EndToEnd exists.
type Latencies struct {
	EndToEnd           *Latency `json:"end_to_end,omitempty"`
	InterToken         *Latency `json:"inter_token,omitempty"`
	TimeToFirstToken   *Latency `json:"time_to_first_token,omitempty"`
	TimePerOutputToken *Latency `json:"time_per_output_token,omitempty"`
}

// Latency summarises exact samples, in milliseconds: percentiles by linear
// interpolation at rank (n-1)q, the population standard deviation, and the
// true number of samples.
type Latency struct {
	P50               float64 `json:"p50"`
	P90               float64 `json:"p90"`
	P95               float64 `json:"p95"`
	P99               float64 `json:"p99"`
	Mean              float64 `json:"mean"`
	Stddev            float64 `json:"stddev"`
	SampleCount       int64   `json:"sample_count"`
	MeasurementStatus string  `json:"measurement_status"` // measured
}

// Throughput holds counts divided by [Results.DurationSeconds] in float64.
type Throughput struct {
	RequestsPerSecond     Rate `json:"requests_per_second"`
	TotalTokensPerSecond  Rate `json:"total_tokens_per_second"`
	OutputTokensPerSecond Rate `json:"output_tokens_per_second"`
}

// Rate is one throughput, per second.
type Rate struct {
	Value             float64 `json:"value"`
	SampleCount       int64   `json:"sample_count"`       // successful requests
	MeasurementStatus string  `json:"measurement_status"` // measured
}

// Artifact is one evidence file.
type Artifact struct {
	Kind                string `json:"kind"` // snake_case; *_json is application/json
	SHA256              string `json:"sha256"`
	License             string `json:"license,omitempty"`
	Filename            string `json:"filename"` // a base name
	MediaType           string `json:"media_type"`
	SizeBytes           int64  `json:"size_bytes"` // at least 1
	Visibility          string `json:"visibility,omitempty"`
	RunClientID         string `json:"run_client_id,omitempty"` // kind experiment: the run it is of
	ClientArtifactID    string `json:"client_artifact_id"`      // unique in the manifest
	RawRequestsIncluded bool   `json:"raw_requests_included"`
}

// Provenance is who wrote the manifest.
type Provenance struct {
	Tool        string `json:"tool"`
	Source      string `json:"source"` // harness for what was measured, import, agent
	Notes       string `json:"notes,omitempty"`
	GeneratedAt string `json:"generated_at,omitempty"` // RFC 3339
	ToolVersion string `json:"tool_version"`
}

// Failure is why a run failed. Stage and Category are snake_case.
type Failure struct {
	Stage                  string `json:"stage"`
	Category               string `json:"category"`
	ExitCode               *int   `json:"exit_code,omitempty"`
	Reproducible           *bool  `json:"reproducible,omitempty"`
	MessageSanitized       string `json:"message_sanitized"`
	ReplacementClientRunID string `json:"replacement_client_run_id,omitempty"`
}
