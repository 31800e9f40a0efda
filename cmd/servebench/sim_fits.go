package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/servebench/servebench/bench/server"
	"github.com/servebench/servebench/bench/sim"
)

// A fit takes seconds of a whole core. An experiment starts many simulators that are
// like the same run, so each fit is made once in a process, and handed over to the
// simulators that the process starts in a variable of its environment. Nothing is
// kept on disk, and the commands stay as they are.

// fitsVariable holds fits as JSON, by the digest of what they are fitted to.
const fitsVariable = "SERVEBENCH_SIM_FITS"

// fitted is an engine and, where it is not near what was published, what is off.
type fitted struct {
	Engine sim.Engine `json:"engine"`
	Off    []string   `json:"off,omitempty"`
}

// fits are those that are known, made here or handed over. Safe for concurrent use.
type fits struct {
	mu    sync.Mutex
	known map[string]fitted
	start sync.Once
}

var knownFits fits

// of is the fit to a run, which is made if it is not known.
func (f *fits) of(p sim.Published) (fitted, error) {
	f.start.Do(f.inherit)
	text, err := json.Marshal(p)
	if err != nil {
		return fitted{}, err
	}
	sum := sha256.Sum256(append([]byte(sim.Version+" "), text...))
	key := hex.EncodeToString(sum[:])
	f.mu.Lock() // also for the time of a fit: a second one of the same would take as long
	defer f.mu.Unlock()
	if known, ok := f.known[key]; ok {
		return known, nil
	}
	e, err := sim.Fit(p)
	made := fitted{Engine: e}
	if misfit, ok := errors.AsType[*sim.MisfitError](err); ok {
		made.Off, err = misfit.Off, nil
	}
	if err == nil {
		f.known[key] = made
	}
	return made, err
}

// inherit takes over what the process that started this one has fitted. What it
// cannot read is made again.
func (f *fits) inherit() {
	f.known = map[string]fitted{}
	var handed map[string]fitted
	if json.Unmarshal([]byte(os.Getenv(fitsVariable)), &handed) == nil && handed != nil {
		f.known = handed
	}
}

// handOver makes all fits known to the processes that are started from now on.
func (f *fits) handOver() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, err := json.Marshal(f.known)
	if err != nil {
		return err
	}
	return os.Setenv(fitsVariable, string(text))
}

// launch starts servers, once what a simulator among them needs is fitted. A manifest
// that cannot be fitted is the simulator's to complain about.
func (t *terminal) launch(ctx context.Context, c server.Config) (*server.Group, error) {
	if name := likeIn(c.Command); name != "" && name != standardInput {
		if c.Dir != "" && !filepath.IsAbs(name) {
			name = filepath.Join(c.Dir, name)
		}
		if l, err := t.readLike(name); err == nil {
			if _, err := knownFits.of(l.Published); err == nil {
				if err := knownFits.handOver(); err != nil {
					return nil, err
				}
			}
		}
	}
	return server.Start(ctx, c)
}

// likeIn is what a command that starts our simulator names after --like.
func likeIn(command []string) string {
	if len(command) < 2 || command[0] != "{servebench}" || command[1] != "sim" {
		return ""
	}
	for i, w := range command {
		if name, ok := strings.CutPrefix(w, "--like="); ok {
			return name
		}
		if w == "--like" && i+1 < len(command) {
			return command[i+1]
		}
	}
	return ""
}
