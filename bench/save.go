package bench

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/servebench/servebench/manifest"
	"github.com/servebench/servebench/metrics"
)

// Files says where to write what; "" is not written. All files but an appended
// result appear whole or not at all.
type Files struct {
	Result   string // vLLM's JSON
	Manifest string
	Records  string
	HDR      string
	// PyTorch is the result once more in the form of PyTorch's benchmark data base,
	// which vLLM writes where SAVE_TO_PYTORCH_BENCHMARK_FORMAT is set. Nothing is
	// written where it has none of the metrics that go there. Args are the
	// command's flags under argparse's names, for this file; headers and
	// a password in base_url are hidden.
	PyTorch string
	Args    map[string]any
	// Pages are further files about the run, written like the others.
	Pages []Page
	// Append adds the result as a line to Result. Manifest, Records and HDR
	// then carry the run's id in their names, and Result is no artifact.
	Append bool
	// Selected are the metrics of the result JSON; Detailed adds its arrays.
	Selected []string
	Detailed bool
}

// Page is one of Files.Pages. Write is not asked for by Check. With a Kind (and
// then a MediaType and an ID) the file is one of the manifest's artifacts.
type Page struct {
	Path                string
	Write               func(io.Writer) error
	Kind, MediaType, ID string
}

// Beside returns the files that go with a result file: run.json has
// run.manifest.json, run.requests.jsonl and run.hdr beside it.
func Beside(result string) Files {
	stem := strings.TrimSuffix(result, ".json")
	return Files{Result: result, Manifest: stem + ".manifest.json", Records: stem + ".requests.jsonl", HDR: stem + ".hdr"}
}

// withID puts the run's id into a name: run.hdr becomes run.ID.hdr.
func withID(path, id string) string {
	if path == "" {
		return ""
	}
	for _, ext := range []string{".manifest.json", ".requests.jsonl", ".timeline.html", ".dataset_stats.html", ".hdr", ".json", ".jsonl"} {
		if stem, ok := strings.CutSuffix(path, ext); ok {
			return stem + "." + id + ext
		}
	}
	return path + "." + id
}

// Check tells before a run whether its files can be written: that each folder
// exists or can be made, and takes a file. It leaves nothing behind but folders.
func (f Files) Check() error {
	var errs []error
	seen := map[string]bool{}
	paths := []string{f.Result, f.Manifest, f.Records, f.HDR, f.PyTorch}
	for _, p := range f.Pages {
		paths = append(paths, p.Path)
	}
	for _, path := range paths {
		if path == "" {
			continue
		}
		if seen[filepath.Clean(path)] {
			errs = append(errs, fmt.Errorf("%s is named for two of the files to write; want different names", path))
		}
		seen[filepath.Clean(path)] = true
		err := checkWritable(path, f.Append && path == f.Result)
		if err != nil && !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == err.Error() }) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// nameMax leaves room in a file name of 255 bytes for what is put around it: a
// run's id, a temporary name.
const nameMax = 200

func checkWritable(path string, appending bool) error {
	if n := len(filepath.Base(path)); n > nameMax {
		return fmt.Errorf("a file name of %d bytes; want %d at most", n, nameMax)
	}
	st, err := os.Stat(path)
	switch {
	case err == nil && !st.Mode().IsRegular():
		// A device or a FIFO would be replaced by a file.
		return fmt.Errorf("%s is no regular file; want the name of a file", path)
	case err == nil && appending:
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return file.Close()
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	probe, err := os.CreateTemp(dir, ".servebench-*")
	if err != nil {
		return fmt.Errorf("no file can be made in %s: %w", dir, errors.Unwrap(err))
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// saver writes the files of one run and remembers them.
type saver struct {
	written   []string
	artifacts []manifest.Artifact
	unnamed   []string // artifacts whose file names do not fit the schema
	errs      []error
}

// Save writes the files and returns the names of those that were written. One
// that fails does not keep the others back; the manifest comes last, since it
// names them. The error tells of everything that could not be saved.
func (r *Result) Save(f Files) ([]string, error) {
	o := r.object(f.Selected, f.Detailed)
	result, err := o.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	result = append(result, '\n')
	if f.Append { // a line of its own: what is hashed is what is written
		result = bytes.TrimSuffix(result, []byte("\n"))
		id := manifest.RunID(result, 1)
		f.Manifest, f.Records, f.HDR = withID(f.Manifest, id), withID(f.Records, id), withID(f.HDR, id)
	}
	var s saver
	if f.Result != "" && f.Append {
		s.append(f.Result, result)
	} else if f.Result != "" {
		s.write(f.Result, "vllm_bench_serve_json", "application/json", "result", f.Detailed, bytesOf(result))
	}
	if f.Records != "" {
		s.write(f.Records, "request_records_jsonl", "application/x-ndjson", "requests", true, func(w io.Writer) error {
			return metrics.WriteRecords(w, r.sent())
		})
	}
	if f.HDR != "" {
		s.write(f.HDR, "hdr_histogram_log", "text/plain", "histograms", false, func(w io.Writer) error {
			return metrics.WriteHDR(w, r.Records, r.options(), r.Start, r.Duration)
		})
	}
	if f.PyTorch != "" {
		if doc, err := r.pytorch(f, o); err != nil {
			s.errs = append(s.errs, fmt.Errorf("%s: %w", f.PyTorch, err))
		} else if doc != nil {
			s.write(f.PyTorch, "", "", "", false, bytesOf(doc))
		}
	}
	for _, p := range f.Pages {
		if f.Append {
			p.Path = withID(p.Path, manifest.RunID(result, 1))
		}
		s.write(p.Path, p.Kind, p.MediaType, p.ID, false, p.Write)
	}
	if f.Manifest != "" {
		run := r.Manifest(result, s.artifacts)
		for _, id := range s.unnamed {
			run.Warnings = append(run.Warnings, "The "+id+" file is no artifact here: its name has characters that the schema does not allow.")
		}
		doc, err := manifest.Encode(run)
		if err != nil {
			s.errs = append(s.errs, fmt.Errorf("%s: %w", f.Manifest, err))
		} else {
			s.write(f.Manifest, "", "", "", false, bytesOf(doc))
		}
	}
	return s.written, errors.Join(s.errs...)
}

func bytesOf(b []byte) func(io.Writer) error {
	return func(w io.Writer) error { _, err := w.Write(b); return err }
}

// sent are the records of requests that were issued.
func (r *Result) sent() []metrics.Record {
	out := make([]metrics.Record, 0, len(r.Records))
	for _, rec := range r.Records {
		if rec.Outcome != "" {
			out = append(out, rec)
		}
	}
	return out
}

// write makes a file of what fill writes, and an artifact of the file where it
// is of a kind.
func (s *saver) write(path, kind, media, id string, raw bool, fill func(io.Writer) error) {
	sum, size, err := writeWhole(path, fill)
	if err != nil {
		s.errs = append(s.errs, fmt.Errorf("%s: %w", path, err))
		return
	}
	s.written = append(s.written, path)
	if kind == "" || size == 0 {
		return
	}
	if !nameFits(filepath.Base(path)) {
		s.unnamed = append(s.unnamed, id)
		return
	}
	s.artifacts = append(s.artifacts, manifest.Artifact{
		Kind: kind, SHA256: sum, Filename: filepath.Base(path), MediaType: media,
		SizeBytes: size, Visibility: "private", ClientArtifactID: id, RawRequestsIncluded: raw,
	})
}

// writeWhole writes a file that appears complete or not at all, and returns its
// digest and size.
func writeWhole(path string, fill func(io.Writer) error) (sum string, size int64, err error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return "", 0, errors.New("no regular file any more")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil { // it may have gone since Check
		return "", 0, err
	}
	file, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithPermissions(0o666))
	if err != nil {
		return "", 0, err
	}
	defer file.Cleanup()
	h := sha256.New()
	if err := fill(io.MultiWriter(file, h)); err != nil {
		return "", 0, err
	}
	if size, err = file.Seek(0, io.SeekCurrent); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), size, file.CloseAtomicallyReplace()
}

// nameFits tells whether the schema takes a file's name.
func nameFits(name string) bool {
	for i, c := range []byte(name) {
		alnum := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alnum && (i == 0 || !strings.ContainsRune("._+@=-", rune(c))) {
			return false
		}
	}
	return name != ""
}

// append adds a line, as vLLM does: a newline before it where there is something.
// What cannot be written whole is taken back.
func (s *saver) append(path string, result []byte) {
	if err := appendLine(path, result); err != nil {
		s.errs = append(s.errs, fmt.Errorf("%s: %w", path, err))
		return
	}
	s.written = append(s.written, path)
}

func appendLine(path string, line []byte) (err error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	// Two runs may end at a time: each must see whether it is the first, and what is
	// taken back must be its own.
	lock(file)
	st, err := file.Stat()
	if err != nil {
		return err
	}
	if st.Size() > 0 {
		line = append([]byte("\n"), line...)
	}
	if _, err := file.Write(line); err != nil {
		return errors.Join(err, file.Truncate(st.Size()))
	}
	return file.Sync()
}
