package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/servebench/servebench/bench/report"
	"github.com/servebench/servebench/manifest"
)

// leakFlag is --fail-on-leak of the manifest commands; serve has a row of its own in
// the table.
var leakFlag = &cli.BoolFlag{Name: "fail-on-leak", Usage: "exit 4 where a secret, a home folder, a LAN address or a name of this machine or user is left"}

// shownLeaks is how much is said of one file.
const shownLeaks = 20

// errLeak is the end of a command whose files hold what must not be published.
func errLeak(n int) error {
	return &exitError{code: exitInvalid, err: fmt.Errorf("what must not be published is in %s; nothing was taken back", count(n, "file")),
		hint: "servebench manifest redact prints a manifest without it"}
}

// leaksIn says where a file holds what must not be published, never what.
func (t *terminal) leaksIn(name string, data []byte, r *manifest.Redactor) bool {
	found := r.Leaks(report.WithoutLibrary(data), shownLeaks+1)
	for i, l := range found {
		if i == shownLeaks {
			t.notef("%s: leak: and more", name)
			break
		}
		at := ""
		if l.Path != "" {
			at = clip(r.Hide(l.Path), 200) + ": "
		}
		t.notef("%s: leak: %s%s", where(name, l.Line), at, strings.Join(l.Kinds, ", "))
	}
	return len(found) > 0
}

// failOnLeak looks through files that were written.
func (t *terminal) failOnLeak(names []string, r *manifest.Redactor) error {
	leaking := 0
	var errs []error
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("look for leaks: %w", err))
		} else if t.leaksIn(name, data, r) {
			leaking++
		}
	}
	switch {
	case leaking > 0:
		return errLeak(leaking)
	case len(errs) > 0: // what was not looked at is not clean
		return &exitError{code: exitUnsaved, err: errors.Join(errs...)}
	}
	return nil
}

// leaksBeside looks through the artifacts of a manifest that are in its folder.
func (t *terminal) leaksBeside(files fs.FS, data []byte, r *manifest.Redactor) (leaking int, err error) {
	if files == nil {
		return 0, nil
	}
	for _, name := range manifest.ArtifactNames(data) {
		st, err := fs.Stat(files, name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !st.Mode().IsRegular() {
			continue // verify tells of it; a FIFO would never open
		}
		var text []byte
		if err == nil {
			text, err = fs.ReadFile(files, name)
		}
		if err != nil {
			return leaking, fmt.Errorf("look for leaks: %w", err)
		}
		if t.leaksIn(name, text, r) {
			leaking++
		}
	}
	return leaking, nil
}
