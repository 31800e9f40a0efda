package sweep

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/servebench/servebench/manifest"
)

// stateFormat is the version of the state file.
const stateFormat = 1

// state is what an experiment knows of itself between two processes. It is written
// whole after each trial, so that a process can end at any moment.
type state struct {
	Format     int                    `json:"format"`
	Experiment string                 `json:"experiment"`
	Points     map[string]*pointState `json:"points"`
	// Starts are how long server starts took, in seconds.
	Starts []float64 `json:"server_start_seconds,omitempty"`
}

type pointState struct {
	Digest   string              `json:"digest"`
	Trials   map[int]*trialState `json:"trials"` // by number, from 1
	Warnings []string            `json:"warnings,omitempty"`
}

// trialState is the last attempt at a trial, and the failures of all.
type trialState struct {
	Trial                       // its manifest is read from the file
	Failures []manifest.Failure `json:"failures,omitempty"`
	// Again says that the user ended it: it is to be run again.
	Again       bool    `json:"again,omitempty"`
	Requests    int     `json:"requests"`
	Concurrency int     `json:"concurrency"`
	Closed      bool    `json:"closed_loop"`
	Took        float64 `json:"seconds"` // with all but the server's start
}

// failure is that of a trial that failed at last, else nil.
func (t *trialState) failure() *manifest.Failure {
	if t.Status != manifest.Failed || len(t.Failures) == 0 {
		return nil
	}
	f := t.Failures[len(t.Failures)-1]
	if n := len(t.Failures); n > 1 {
		same := true
		for _, o := range t.Failures {
			same = same && o.Stage == f.Stage && o.Category == f.Category && equalCode(o.ExitCode, f.ExitCode)
		}
		f.Reproducible = &same
	}
	return &f
}

func equalCode(a, b *int) bool { return a == b || a != nil && b != nil && *a == *b }

func statePath(dir, id string) string { return filepath.Join(dir, id+".state.json") }

// readState reads what was recorded; a file that is not there is an empty state.
func readState(dir, id string) (*state, error) {
	path := statePath(dir, id)
	fresh := &state{Format: stateFormat, Experiment: id, Points: map[string]*pointState{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := parseState(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; want it as it was, or no such file: then every run is made again, and the files there are set aside", path, err)
	}
	if s.Experiment != id {
		return nil, fmt.Errorf("%s: it is of the experiment %q; want %q", path, s.Experiment, id)
	}
	return s, nil
}

func parseState(data []byte) (*state, error) {
	var s state
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("not the state of an experiment: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("not the state of an experiment: something follows it")
	}
	if s.Format != stateFormat {
		return nil, fmt.Errorf("format %d; want %d", s.Format, stateFormat)
	}
	if s.Points == nil {
		s.Points = map[string]*pointState{}
	}
	for id, p := range s.Points {
		if p == nil {
			return nil, fmt.Errorf("point %q is null", id)
		}
		if p.Trials == nil {
			p.Trials = map[int]*trialState{}
		}
		for n, t := range p.Trials {
			if t == nil || n < 1 {
				return nil, fmt.Errorf("trial %d of point %q is none", n, id)
			}
		}
	}
	return &s, nil
}

// write replaces the state file.
func (s *state) write(dir string) error {
	out := *s
	out.Points = make(map[string]*pointState, len(s.Points))
	for id, p := range s.Points {
		lean := *p
		lean.Trials = make(map[int]*trialState, len(p.Trials))
		for n, t := range p.Trials {
			without := *t
			without.Manifest = nil
			lean.Trials[n] = &without
		}
		out.Points[id] = &lean
	}
	data, err := json.MarshalIndent(&out, "", " ")
	if err != nil {
		return err
	}
	return writeFile(statePath(dir, s.Experiment), append(data, '\n'))
}

// trials counts those that were recorded.
func (s *state) trials() (n int) {
	for _, p := range s.Points {
		n += len(p.Trials)
	}
	return n
}

// past is what the state lets expect of what is to come.
func (s *state) past() past {
	var k past
	for id, p := range s.Points {
		for _, t := range p.Trials {
			if t.Status == manifest.Completed {
				k.samples = append(k.samples, sample{id, t.Requests, t.Concurrency, t.Closed, seconds(t.Seconds), seconds(t.Took)})
			}
		}
	}
	for _, v := range s.Starts {
		k.starts = append(k.starts, seconds(v))
	}
	return k
}

func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

// resume takes back what is to be run again, and tells of it: trials that the user
// ended, those that failed though nobody allowed it, those of points that are not
// as they were, and those whose files are not as they were. Of the points in again
// everything that did not complete is run again.
func (s *state) resume(e *Experiment, dir string, again map[string]bool) (notes []string) {
	known := map[string]bool{}
	for i := range e.Points {
		p := &e.Points[i]
		known[p.ID] = true
		st := s.Points[p.ID]
		if st == nil {
			continue
		}
		if st.Digest != p.digest() {
			notes = append(notes, fmt.Sprintf("point %s has changed since it was run: it is run again, its old files are set aside", p.ID))
			delete(s.Points, p.ID)
			continue
		}
		for n, t := range st.Trials {
			why := t.restart(p, again[p.ID])
			if why == "" {
				if err := t.load(dir); err != nil {
					why = err.Error()
				}
			}
			if why != "" {
				notes = append(notes, fmt.Sprintf("trial %d of point %s is run again: %s", n, p.ID, why))
				delete(st.Trials, n)
			}
		}
	}
	for id := range s.Points {
		if !known[id] {
			notes = append(notes, fmt.Sprintf("point %s is no more in the experiment: its files stay", id))
			delete(s.Points, id)
		}
	}
	return notes
}

// restart says why a trial is to be run again, "" if it is not.
func (t *trialState) restart(p *Point, again bool) string {
	switch {
	case t.Again:
		return "it was interrupted"
	case t.Status == manifest.Interrupted && again:
		return "its deadline ended it, and it was named"
	case t.Status == manifest.Failed && again:
		return "it failed, and it was named"
	case t.Status == manifest.Failed && !p.OnFailure.allows():
		return "it failed"
	case t.Status == manifest.Failed && len(t.Failures) <= p.OnFailure.Retry:
		return "it failed and is to be tried again"
	}
	return ""
}

func (f OnFailure) allows() bool { return f.Allow || f.Replacement != "" }

// load reads the trial's manifest and checks that its files are as they were
// written.
func (t *trialState) load(dir string) error {
	var doc []byte
	for _, a := range t.Artifacts {
		data, err := readArtifact(dir, a)
		if err != nil {
			return err
		}
		if a.Kind == kindManifest {
			doc = data
		}
	}
	if doc == nil {
		return errors.New("it has no manifest")
	}
	t.Manifest = new(manifest.Run)
	return json.Unmarshal(doc, t.Manifest)
}

// readArtifact returns the content of a manifest, and checks the others.
func readArtifact(dir string, a manifest.Artifact) ([]byte, error) {
	if a.Filename != filepath.Base(a.Filename) {
		return nil, fmt.Errorf("%q is no file name", a.Filename)
	}
	file, err := os.Open(filepath.Join(dir, a.Filename))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("its file %s is gone", a.Filename)
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var doc bytes.Buffer
	h := sha256.New()
	out := io.Writer(h)
	if a.Kind == kindManifest {
		out = io.MultiWriter(h, &doc)
	}
	if _, err := io.Copy(out, file); err != nil {
		return nil, err
	}
	if hex.EncodeToString(h.Sum(nil)) != a.SHA256 {
		return nil, fmt.Errorf("its file %s has changed", a.Filename)
	}
	return doc.Bytes(), nil
}

// checkID tells what is wrong with an id that begins file names.
func checkID(what, id string) error {
	ok := id != "" && len(id) <= 120 && !strings.ContainsRune("._-", rune(id[0]))
	for _, c := range id {
		ok = ok && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.ContainsRune("._-", c))
	}
	if !ok {
		return fmt.Errorf("%s %q: it names files; want 1 to 120 letters, digits, . _ and -, the first of them a letter or digit", what, id)
	}
	return nil
}
