package tokenize

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSnapshot(t *testing.T) {
	const main, other = "1111111111111111111111111111111111111111", "2222222222222222222222222222222222222222"
	cache := t.TempDir()
	repository := filepath.Join(cache, "models--org--name")
	for _, id := range []string{main, other} {
		touch(t, repository, "snapshots", id, "config.json")
	}
	touch(t, repository, "refs", "main")
	touch(t, repository, "refs", "v1")
	for ref, text := range map[string]string{"main": main + "\n", "v1": "no commit"} {
		if err := os.WriteFile(filepath.Join(repository, "refs", ref), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	getenv := func(key string) string { return map[string]string{"HF_HUB_CACHE": cache}[key] }
	for _, c := range []struct{ name, revision, want string }{
		{"org/name", "", main},
		{"org/name", "main", main},
		{"org/name", other, other},
		{"org/name", "3333333333333333333333333333333333333333", ""},
		{"org/name", "v1", ""},
		{"org/name", "v2", ""},
		{"org/name", "../refs", ""},
		{"org/absent", "", ""},
		{"../org", "", ""},
	} {
		folder, id, ok := Snapshot(c.name, c.revision, getenv)
		if id != c.want || ok != (c.want != "") || ok && folder != filepath.Join(repository, "snapshots", id) {
			t.Errorf("%s@%s: %s %s %v, want %s", c.name, c.revision, folder, id, ok, c.want)
		}
	}
}
