package manifest

// Launched is one command that started a server, as it was run: not redacted.
type Launched struct {
	Args []string          `json:"args"`
	Env  map[string]string `json:"env,omitempty"` // what was set for it beyond the caller's own
}

// Launch is what such a command says.
type Launch struct {
	Engine                   string // vllm, servebench-sim or ""
	Model, ServedModel       string
	Revision, Tokenizer      string
	Parameters               map[string]any // runtime.parameters.server: typed, in snake_case
	Parallelism              Parallelism    // without replicas
	SpeculativeModel         string
	SpeculativeModelRevision string
}
