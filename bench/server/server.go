// Package server runs the servers that a benchmark measures: it starts them,
// waits until they are ready, keeps their logs, and ends them whatever happens.
package server

import (
	"errors"
	"fmt"
	"time"

	"github.com/servebench/servebench/manifest"
)

// Config says how to start a server. It is plain data.
type Config struct {
	// Command is what to run for each replica. {port}, {host}, {device} or
	// {devices} (the replica's devices, with commas), {replica} (from 0) and
	// {servebench} (this program) stand for what only the start decides; a brace
	// that begins no such name is text.
	Command []string `json:"command"`
	// Env is set beyond this program's environment; the same names stand for the
	// same in its values.
	Env map[string]string `json:"env,omitempty"`
	// Dir is the folder to run in; "" is the present one.
	Dir string `json:"dir,omitempty"`
	// Devices are shared out evenly over the replicas and become
	// CUDA_VISIBLE_DEVICES; nil leaves that alone.
	Devices []int `json:"devices,omitempty"`
	// Host and Port are where replica 0 listens, the others on the ports after
	// it. "" is 127.0.0.1, 0 takes free ports.
	Host string `json:"host,omitempty"`
	Port int    `json:"port,omitempty"`
	// Replicas is how many to start; 0 is one.
	Replicas int `json:"replicas,omitempty"`
	// ReadyPath is asked until it answers 200; "" is /health.
	ReadyPath    string        `json:"ready_path,omitempty"`
	ReadyTimeout time.Duration `json:"ready_timeout,omitempty"` // 0 is 20 minutes
	// StopTimeout is how long TERM may take before KILL; 0 is 30 seconds.
	StopTimeout time.Duration `json:"stop_timeout,omitempty"`
	// LogWarnings are regular expressions; a line of the log that matches one
	// becomes a warning, once for each expression. They go beside those that are
	// always looked for.
	LogWarnings []string `json:"log_warnings,omitempty"`
	// LogDir takes the replicas' logs as they are, not redacted; "" is a folder
	// for temporary files that goes with the servers.
	LogDir string `json:"log_dir,omitempty"`
	// LogName begins the logs' file names; "" is server.
	LogName string `json:"log_name,omitempty"`
}

// The stages of a StartError.
const (
	stageStart   = "runtime_startup"
	stageReady   = "readiness"
	stageRuntime = "runtime"
)

// StartError is a server that did not become ready, or, from [Group.Err], one
// that was and then ended unasked.
type StartError struct {
	Replica  int
	Stage    string // runtime_startup or readiness; runtime after it was ready
	Category string // kv_cache_allocation, out_of_memory, model_not_found, bad_argument, port_in_use, command_not_found, timeout, killed, other
	ExitCode *int   // nil while the process still ran, or was killed
	Message  string // one line that says why, from the log where it does
	LogTail  []byte // the end of the log, not redacted
	// Launched are the commands of all replicas as they were to be run, not
	// redacted; only an error of Start has them.
	Launched []manifest.Launched
	// Version is the engine's, where the log says it.
	Version string
}

func (e *StartError) Error() string {
	code := ""
	if e.ExitCode != nil {
		code = fmt.Sprintf(", exit code %d", *e.ExitCode)
	}
	return fmt.Sprintf("server: replica %d, %s: %s%s: %s", e.Replica, e.Stage, e.Category, code, e.Message)
}

// Failure is e as the manifest has it; the message is still to be redacted.
func (e *StartError) Failure() manifest.Failure {
	return manifest.Failure{Stage: e.Stage, Category: e.Category, ExitCode: e.ExitCode, MessageSanitized: e.Message}
}

// Ended is the failure of a run during which its server ended unasked; err says why,
// as [Group.Err] does. The message is still to be redacted.
func Ended(err error) manifest.Failure {
	f := manifest.Failure{Stage: "timed_run", Category: "server_exited", MessageSanitized: "the server ended during the run"}
	if e, ok := errors.AsType[*StartError](err); ok { // its log says more
		f.ExitCode = e.ExitCode
		if e.Category != categoryOther {
			f.Category = e.Category
		}
		f.MessageSanitized += ": " + e.Message
	} else if err != nil {
		f.MessageSanitized += ": " + err.Error()
	}
	return f
}
