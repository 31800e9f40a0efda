package selftest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/renameio/v2"

	"github.com/servebench/servebench/metrics"
)

// Figure is a report in short, as later runs carry it.
type Figure struct {
	At       time.Time       `json:"at"`
	TLS      bool            `json:"tls"`
	Streams  []int           `json:"concurrency"` // of the steps
	Floor    *Floor          `json:"floor"`
	MaxValid *Reach          `json:"max_valid"`
	TurnedAt *int            `json:"turned_at"`
	TurnedTo metrics.Verdict `json:"turned_to,omitempty"`
	// Passed tells that the verdict turned before the error passed [Limit].
	Passed bool  `json:"passed"`
	Build  Build `json:"build"`
}

// Figure returns r in short.
func (r *Report) Figure() Figure {
	f := Figure{
		At: r.At, TLS: r.TLS, Floor: r.Floor, MaxValid: r.MaxValid, TurnedAt: r.TurnedAt, TurnedTo: r.TurnedTo,
		Passed: len(r.Failures) == 0, Build: r.Build,
	}
	for _, s := range r.Steps {
		f.Streams = append(f.Streams, s.Concurrency)
	}
	return f
}

// kept is a figure's file.
type kept struct {
	Format  int    `json:"servebench_selftest"`
	Machine string `json:"machine_id"` // [Machine.ID]
	Figure  Figure `json:"figure"`
}

const (
	format  = 1
	maxFile = 64 << 10
)

// Save keeps r's figure in a file that appears whole or not at all and that only its
// owner can read; folders are made.
func (r *Report) Save(path string) error {
	data, err := json.MarshalIndent(kept{format, r.Machine.ID(), r.Figure()}, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return renameio.WriteFile(path, append(data, '\n'), 0o600, renameio.WithTempDir(filepath.Dir(path)), renameio.IgnoreUmask())
}

// Load returns the figure in a file where it was made on this machine by this build:
// build is asked only if all else fits. Without a file, or with one of another machine
// or build, it is nil; what is no figure is an error. Of a file nothing but numbers and
// words that are known comes back.
func Load(path string, machine Machine, build func() (Build, error)) (json.RawMessage, error) {
	data, err := readSmall(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parse(data, machine, build)
}

func parse(data []byte, machine Machine, build func() (Build, error)) (json.RawMessage, error) {
	var k kept
	if err := json.Unmarshal(data, &k); err != nil {
		return nil, errors.New("no figure of a selftest")
	}
	if k.Format != format || k.Machine != machine.ID() {
		return nil, nil
	}
	if err := k.Figure.check(); err != nil {
		return nil, err
	}
	own, err := build()
	if err != nil {
		return nil, fmt.Errorf("this program's own file: %w", err)
	}
	if k.Figure.Build != own {
		return nil, nil
	}
	k.Figure.At = k.Figure.At.UTC()
	return json.Marshal(k.Figure)
}

// readSmall reads a regular file of little size: a figure is no reason to wait for a
// pipe or to read without end.
func readSmall(path string) ([]byte, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("no regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("larger than %d bytes", maxFile)
	}
	return data, err
}

// check tells what cannot come from a selftest.
func (f *Figure) check() error {
	count := func(n int) bool { return n >= 1 && n <= 1<<16 }
	number := func(v *float64) bool { return v == nil || math.Abs(*v) < 1e9 } // NaN is none
	good := len(f.Streams) >= 1 && len(f.Streams) <= 64 && f.At.Year() >= 2000 && f.At.Year() < 3000 && f.Floor != nil
	for _, n := range f.Streams {
		good = good && count(n)
	}
	if w := f.Floor; w != nil {
		good = good && count(w.Concurrency) && (w.Stamps == "kernel" || w.Stamps == "read") && number(w.TTFTBiasP50) && number(w.ITLErrorP99)
	}
	if m := f.MaxValid; m != nil {
		good = good && count(m.Concurrency) && number(&m.EventsPerSecond)
	}
	good = good && (f.TurnedAt == nil || count(*f.TurnedAt)) &&
		slices.Contains([]metrics.Verdict{"", metrics.Suspect, metrics.Invalid}, f.TurnedTo)
	if !good {
		return errors.New("not what a selftest writes")
	}
	return nil
}
