package tokenize

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

const (
	older = "0000000000000000000000000000000000000001"
	newer = "00000000000000000000000000000000000000ff"
)

// touch writes an empty tokenizer.json-like file and returns its path.
func touch(t *testing.T, parts ...string) string {
	t.Helper()
	path := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFindTakesFoldersAndFiles(t *testing.T) {
	root := t.TempDir()
	file := touch(t, root, "model", "tokenizer.json")
	other := touch(t, root, "other.json")
	for name, want := range map[string]string{filepath.Join(root, "model"): file, file: file, other: other} {
		if got, err := find(name, nil); err != nil || got != want {
			t.Errorf("find %s: %s, %v, want %s", name, got, err, want)
		}
	}
}

func TestFindLooksIntoTheHubCache(t *testing.T) {
	cache := t.TempDir()
	repository := filepath.Join(cache, "models--org--name")
	first := touch(t, repository, "snapshots", older, "tokenizer.json")
	second := touch(t, repository, "snapshots", newer, "tokenizer.json")
	touch(t, repository, "snapshots", "without", "config.json")
	age(t, filepath.Dir(second), time.Hour)
	age(t, filepath.Dir(first), 2*time.Hour)
	caches := []string{filepath.Join(cache, "none"), cache}
	if got, err := find("org/name", caches); err != nil || got != second {
		t.Errorf("without a ref: %s, %v, want the newest that has a tokenizer, %s", got, err, second)
	}
	touch(t, repository, "refs", "main")
	if err := os.WriteFile(filepath.Join(repository, "refs", "main"), []byte(older+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := find("org/name", caches); err != nil || got != first {
		t.Errorf("with a ref: %s, %v, want %s", got, err, first)
	}
	if err := os.WriteFile(filepath.Join(repository, "refs", "main"), []byte("../../.."), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := find("org/name", caches); err != nil || got != second {
		t.Errorf("with a ref out of the cache: %s, %v, want %s", got, err, second)
	}
}

func age(t *testing.T, path string, by time.Duration) {
	t.Helper()
	then := time.Now().Add(-by)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

func TestFindSaysWhereItLooked(t *testing.T) {
	cache := t.TempDir()
	if err := os.MkdirAll(filepath.Join(cache, "models--org--empty", "snapshots"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"org/none":       filepath.Join(cache, "models--org--none"),
		"org/empty":      filepath.Join(cache, "models--org--empty", "snapshots"),
		"gpt2":           filepath.Join(cache, "models--gpt2"),
		"../x":           "../x",
		"a/b/c":          "a/b/c",
		"/none/absolute": "/none/absolute",
	} {
		_, err := find(name, []string{cache})
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), want) {
			t.Errorf("find %s: %v, want fs.ErrNotExist with %s", name, err, want)
		}
		if strings.Contains(want, "..") && strings.Contains(err.Error(), cache) {
			t.Errorf("find %s looked into the cache: %v", name, err)
		}
	}
	if _, err := find("", []string{cache}); err == nil {
		t.Error("empty name: no error")
	}
	if _, err := find(os.DevNull, nil); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a device: %v", err)
	}
}

func TestHubCachesInTheHubsOrder(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	env := map[string]string{"HF_HUB_CACHE": "/a", "HF_HOME": "/b", "XDG_CACHE_HOME": "/c"}
	got := hubCaches(func(key string) string { return env[key] })
	want := []string{"/a", "/b/hub", "/c/huggingface/hub", "/home/me/.cache/huggingface/hub"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("caches %q, want %q", got, want)
	}
	if got := hubCaches(func(string) string { return "" }); len(got) != 1 {
		t.Errorf("caches of an empty environment %q, want one", got)
	}
}

func TestOriginOfAPath(t *testing.T) {
	for path, want := range map[string][2]string{
		"/hub/models--org--name/snapshots/" + newer + "/tokenizer.json": {"org/name", newer},
		"/hub/models--gpt2/snapshots/" + newer + "/tokenizer.json":      {"gpt2", newer},
		"/hub/models--org--name/snapshots/main/tokenizer.json":          {"org/name", ""},
		"/hub/models--org--name/blobs/" + newer + "/tokenizer.json":     {newer, ""},
		"/models/qwen3/tokenizer.json":                                  {"qwen3", ""},
		"/models/qwen3.json":                                            {"qwen3.json", ""},
	} {
		if identifier, revision := origin(path); identifier != want[0] || revision != want[1] {
			t.Errorf("origin %s: %q %q, want %q", path, identifier, revision, want)
		}
	}
}

func TestDescribe(t *testing.T) {
	info, err := Describe("testdata/small")
	if err != nil {
		t.Fatal(err)
	}
	// sha256sum testdata/small/tokenizer.json
	want := Info{Path: filepath.Join("testdata", "small", "tokenizer.json"), Identifier: "small", Class: "TokenizersBackend",
		SHA256: "e33aaee9cdbf2887982dc950a6b1489e18800a62e8893a44c2f04ddc3266458e"}
	if info != want {
		t.Errorf("%+v, want %+v", info, want)
	}
	if _, err := Describe("testdata/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want fs.ErrNotExist", err)
	}
}
