package server

import (
	"regexp"
	"strings"
)

const (
	categoryKV      = "kv_cache_allocation"
	categoryMemory  = "out_of_memory"
	categoryModel   = "model_not_found"
	categoryArg     = "bad_argument"
	categoryPort    = "port_in_use"
	categoryCommand = "command_not_found"
	categoryTimeout = "timeout"
	categoryKilled  = "killed"
	categoryOther   = "other"
)

// reasons say what a line of a failed start means, the most telling first: a
// process that has no memory left may well name a bad value after that. The
// messages are those of vLLM 0.32, PyTorch, huggingface_hub, transformers,
// argparse, pydantic, uvicorn and the shells.
var reasons = []struct {
	category string
	quick
}{
	{categoryKV, quickly(regexp.MustCompile(`No available memory for the cache blocks|larger than the (?:available KV cache memory|maximum number of tokens that can be stored in (?:the )?KV cache)|(?i)\bkv cache (?:memory )?allocation\b`))},
	{categoryMemory, quickly(regexp.MustCompile(`OutOfMemoryError|(?:CUDA|HIP|XPU) out of memory|^(?:\w+\.)*MemoryError\b|can't allocate memory|Cannot allocate memory|std::bad_alloc|Free memory on device .* is less than|CUDA error: out of memory`))},
	{categoryPort, quickly(regexp.MustCompile(`(?i)address already in use|EADDRINUSE`))},
	{categoryModel, quickly(regexp.MustCompile(`Invalid repository ID or local directory|(?:RepositoryNotFound|RevisionNotFound|GatedRepo|LocalEntryNotFound|HFValidation)Error\b|is not a local folder and is not a valid model identifier|Cannot find an appropriate cached snapshot folder|couldn't connect to 'https?://[^']*' to load|does not appear to have a file named|^Repo id must `))},
	{categoryArg, quickly(regexp.MustCompile(`^\S.*: error: |^error: (?:unexpected|unrecognized|unknown|invalid|the following|argument)|^Value error, |flag provided but not defined|unknown (?:shorthand )?flag|(?i)^unknown (?:flag|option|argument)`))},
	{categoryCommand, quickly(regexp.MustCompile(`: (?:command )?not found$|No module named '?vllm'?\b|executable file not found`))},
}

var (
	// raised is the last line of a Python traceback, or of a Go panic.
	raised = quickly(regexp.MustCompile(`^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Exit|Interrupt)\b(?:: |$)|^panic: |^fatal error: `))
	// elsewhere is one that only says that another process failed.
	elsewhere = regexp.MustCompile(`[Ss]ee root cause above|See stack trace|initialization failed due to an exception in a`)
)

// diagnosis finds, line by line, why a server ended. Its zero value is ready; its
// memory is bounded.
type diagnosis struct {
	why    string // the first line of the best reason so far
	reason int    // its index in reasons, plus 1; 0 is none
	raised string // the last exception that is no echo of another
	echo   string // the last exception of all

	version string // of the engine; the first that it says
}

// versions are how engines say theirs: vLLM's banner, its older greeting and its
// engine, and the simulator, which says first what it is.
var versions = quickly(regexp.MustCompile(`^(?:[ ▀▄█]*█ +version |vLLM (?:API )?server version |Initializing an? (?:V\d )?LLM engine \(v|servebench-sim )([0-9][A-Za-z0-9.+_-]*)`))

// tells reports whether any of the expressions can match a line.
func tells(folded string) bool {
	if raised.may(folded) {
		return true
	}
	for i := range reasons {
		if reasons[i].may(folded) {
			return true
		}
	}
	return false
}

// see takes the log's next line, without control characters, and the same folded.
func (d *diagnosis) see(line, folded string) {
	if d.version == "" && versions.may(folded) {
		if m := versions.re.FindStringSubmatch(origin.ReplaceAllString(line, "")); m != nil {
			d.version = m[1]
		}
	}
	if !tells(folded) {
		return
	}
	line = origin.ReplaceAllString(line, "")
	if strings.HasPrefix(line, "    ") {
		return // a traceback's source, which may name an exception too
	}
	line, _, _ = strings.Cut(strings.TrimSpace(line), " [type=") // pydantic's details
	if raised.match(line, folded) {
		if d.echo = brief(line); !elsewhere.MatchString(line) {
			d.raised = d.echo
		}
	}
	for i, r := range reasons {
		if d.reason > 0 && i+1 >= d.reason {
			return
		}
		if r.match(line, folded) {
			d.reason, d.why = i+1, brief(line)
			return
		}
	}
}

// cause is the category and the line that says why; code is the exit code, nil
// where there was none. last is the log's last line.
func (d *diagnosis) cause(code *int, last string) (category, message string) {
	category, message = categoryOther, brief(last)
	for _, m := range []string{d.echo, d.raised, d.why} {
		if m != "" {
			message = m
		}
	}
	switch {
	case d.reason > 0:
		category = reasons[d.reason-1].category
	case code != nil && *code == 2:
		category = categoryArg // argparse's, getopt's and Go's
	case code != nil && (*code == 126 || *code == 127):
		category = categoryCommand // the shells'
	}
	return category, message
}
