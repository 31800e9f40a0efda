package tokenize

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// fileName is the file that a tokenizer is read from.
const fileName = "tokenizer.json"

// Info says which tokenizer a path holds.
type Info struct {
	// Path is the tokenizer.json.
	Path string
	// Identifier is org/name for a path inside a hub cache, else the base name of
	// the folder (of the file, where it is not called tokenizer.json).
	Identifier string
	// Revision is the hub's commit (40 hex digits), "" outside a hub cache.
	Revision string
	// SHA256 is the digest of the file in hex.
	SHA256 string
	// Class is the transformers class that reads this folder there.
	Class string
	// Note says why ids may differ from that class's, "" where they do not.
	Note string
}

// Describe reads what [Open] would read and says what it is. It works in every
// build.
func Describe(path string) (Info, error) {
	f, err := readFolder(path)
	if err != nil {
		return Info{}, fmt.Errorf("describe tokenizer: %w", err)
	}
	r, err := resolve(f)
	if err != nil {
		return Info{}, fmt.Errorf("describe tokenizer %s: %w", f.path, err)
	}
	sum := sha256.Sum256(f.document)
	info := Info{Path: f.path, SHA256: hex.EncodeToString(sum[:]), Class: r.class, Note: r.note}
	info.Identifier, info.Revision = origin(f.path)
	return info, nil
}

var snapshot = regexp.MustCompile(`^models--(.+)$`)
var commit = regexp.MustCompile(`^[0-9a-f]{40}$`)

// origin reads .../models--org--name/snapshots/<commit>/tokenizer.json.
func origin(path string) (identifier, revision string) {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if filepath.Base(path) != fileName {
		return filepath.Base(path), ""
	}
	folder := filepath.Dir(path)
	repository := filepath.Dir(filepath.Dir(folder))
	name := snapshot.FindStringSubmatch(filepath.Base(repository))
	if name == nil || filepath.Base(filepath.Dir(folder)) != "snapshots" {
		return filepath.Base(folder), ""
	}
	if commit.MatchString(filepath.Base(folder)) {
		revision = filepath.Base(folder)
	}
	return strings.ReplaceAll(name[1], "--", "/"), revision
}

// Find returns a path for [Open]: name itself where it is a folder with a
// tokenizer.json or a file, else the snapshot of the hub id name ("org/name") in
// the local hub cache, at $HF_HUB_CACHE, $HF_HOME/hub,
// $XDG_CACHE_HOME/huggingface/hub or ~/.cache/huggingface/hub. It downloads
// nothing. The error lists the places looked at and matches [fs.ErrNotExist]
// where none exists.
func Find(name string) (path string, err error) {
	return find(name, hubCaches(os.Getenv))
}

func find(name string, caches []string) (string, error) {
	if name == "" {
		return "", errors.New("find tokenizer: empty name")
	}
	path, err := locate(name)
	if err == nil {
		return path, nil
	}
	failures := []error{err}
	if hubID.MatchString(name) && !strings.Contains(name, "..") {
		for _, cache := range caches {
			path, err := cached(filepath.Join(cache, "models--"+strings.ReplaceAll(name, "/", "--")))
			if err == nil {
				return path, nil
			}
			failures = append(failures, err)
		}
	}
	return "", &notFound{name, failures}
}

// notFound says where a tokenizer is not. It matches what each place answered.
type notFound struct {
	name     string
	failures []error // first that of the path itself
}

func (e *notFound) Error() string {
	var places []string
	for _, err := range e.failures {
		// Of a place that is not there its name says enough.
		var path *fs.PathError
		if errors.As(err, &path) && errors.Is(err, fs.ErrNotExist) {
			places = append(places, path.Path)
		} else {
			places = append(places, err.Error())
		}
	}
	return fmt.Sprintf("no tokenizer %s (looked at %s); want a folder with a %s, or an id that is in the local hub cache",
		e.name, strings.Join(places, ", "), fileName)
}

func (e *notFound) Unwrap() []error { return e.failures }

// hubID is an id as the hub allows it: a name, or an organisation and a name.
var hubID = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)?$`)

// hubCaches lists the caches in the order that huggingface_hub prefers them.
func hubCaches(getenv func(string) string) []string {
	var caches []string
	add := func(base string, more ...string) {
		if base != "" {
			caches = append(caches, filepath.Join(append([]string{base}, more...)...))
		}
	}
	add(getenv("HF_HUB_CACHE"))
	add(getenv("HF_HOME"), "hub")
	add(getenv("XDG_CACHE_HOME"), "huggingface", "hub")
	if home, err := os.UserHomeDir(); err == nil {
		add(home, ".cache", "huggingface", "hub")
	}
	return caches
}

// locate returns the file itself, or the tokenizer.json of the folder path.
func locate(path string) (string, error) {
	stat, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if stat.IsDir() {
		path = filepath.Join(path, fileName)
		if stat, err = os.Stat(path); err != nil {
			return "", err
		}
	}
	if !stat.Mode().IsRegular() {
		return "", &fs.PathError{Op: "open", Path: path, Err: errors.New("not a regular file")}
	}
	return path, nil
}

// cached returns the tokenizer.json of a repository in a hub cache: of the
// revision that refs/main names, else of the newest snapshot.
func cached(repository string) (string, error) {
	snapshots := filepath.Join(repository, "snapshots")
	if ref, err := os.ReadFile(filepath.Join(repository, "refs", "main")); err == nil {
		if revision := strings.TrimSpace(string(ref)); filepath.IsLocal(revision) {
			return locate(filepath.Join(snapshots, revision, fileName))
		}
	}
	entries, err := os.ReadDir(snapshots)
	if err != nil {
		return "", err
	}
	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(modified(b), modified(a)) })
	failures := []error{&fs.PathError{Op: "open", Path: filepath.Join(snapshots, "*", fileName), Err: fs.ErrNotExist}}
	for _, entry := range entries {
		path, err := locate(filepath.Join(snapshots, entry.Name(), fileName))
		if err == nil {
			return path, nil
		}
		failures = append(failures, err)
	}
	return "", errors.Join(failures...)
}

func modified(entry fs.DirEntry) int64 {
	info, err := entry.Info()
	if err != nil {
		return 0
	}
	return info.ModTime().UnixNano()
}
