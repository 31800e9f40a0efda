package tokenize

import (
	"os"
	"path/filepath"
	"strings"
)

// Snapshot finds a model ("org/name") in the local hub cache: the folder of its
// files and the commit they are of. revision is a commit, a branch or a tag; "" is
// main, as the hub's clients have it. Only what the cache itself names is taken,
// never the newest of several. getenv says where caches are, see [Find]; nil is
// [os.Getenv].
func Snapshot(name, revision string, getenv func(string) string) (folder, commitID string, ok bool) {
	if getenv == nil {
		getenv = os.Getenv
	}
	if revision == "" {
		revision = "main"
	}
	if !hubID.MatchString(name) || strings.Contains(name, "..") || !filepath.IsLocal(revision) {
		return "", "", false
	}
	for _, cache := range hubCaches(getenv) {
		repository := filepath.Join(cache, "models--"+strings.ReplaceAll(name, "/", "--"))
		id := revision
		if !commit.MatchString(id) {
			ref, err := os.ReadFile(filepath.Join(repository, "refs", filepath.FromSlash(revision)))
			if id = strings.TrimSpace(string(ref)); err != nil || !commit.MatchString(id) {
				continue
			}
		}
		folder := filepath.Join(repository, "snapshots", id)
		if st, err := os.Stat(folder); err == nil && st.IsDir() {
			return folder, id, true
		}
	}
	return "", "", false
}
