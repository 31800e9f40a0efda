package hub_test

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/dataset"
	"github.com/servebench/servebench/dataset/hub"
)

const (
	token     = "hf_secretsecret"
	commit    = "0123456789abcdef0123456789abcdef01234567"
	converted = "fedcba9876543210fedcba9876543210fedcba98"
)

// fakeHub imitates the hub's answers: large files come from another host, by a
// signed address, with the headers that huggingface.co sends.
type fakeHub struct {
	mu       sync.Mutex
	files    map[string]map[string]string // by revision's commit, then name
	revision map[string]string
	private  bool   // everything needs the token
	refuse   string // X-Error-Code of every answer
	status   int
	plain    bool // does not tell sizes and digests
	seen     []string
	auth     map[string]bool // hosts that got an Authorization
	cut      int             // the storage host closes after so many bytes, once
	tamper   bool            // the storage host changes a byte
	extra    string          // it appends this
	hub, cdn *httptest.Server
}

func newFakeHub(t *testing.T) *fakeHub {
	f := &fakeHub{
		files: map[string]map[string]string{
			commit:    {"README.md": "# a set", "data/train-00000-of-00001.parquet": strings.Repeat("parquet ", 1000)},
			converted: {"default/train/0000.parquet": "converted"},
		},
		revision: map[string]string{"main": commit, "refs/convert/parquet": converted},
		auth:     map[string]bool{},
	}
	f.hub = httptest.NewServer(http.HandlerFunc(f.serveHub))
	f.cdn = httptest.NewServer(http.HandlerFunc(f.serveCDN))
	t.Cleanup(f.hub.Close)
	t.Cleanup(f.cdn.Close)
	return f
}

func (f *fakeHub) note(r *http.Request, host string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, host+" "+r.URL.EscapedPath()+" "+r.Header.Get("Range"))
	if r.Header.Get("Authorization") != "" {
		f.auth[host] = true
	}
}

func (f *fakeHub) serveHub(w http.ResponseWriter, r *http.Request) {
	f.note(r, "hub")
	if f.refuse != "" || f.status != 0 {
		w.Header().Set("X-Error-Code", f.refuse)
		http.Error(w, "no", f.status)
		return
	}
	if f.private && r.Header.Get("Authorization") != "Bearer "+token {
		w.Header().Set("X-Error-Code", "RepoNotFound")
		http.Error(w, "Invalid username or password.", http.StatusUnauthorized)
		return
	}
	if rev, ok := strings.CutPrefix(r.URL.Path, "/api/datasets/org/set/revision/"); ok {
		sha, ok := f.revision[rev]
		if !ok {
			w.Header().Set("X-Error-Code", "RevisionNotFound")
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		f.list(w, sha)
		return
	}
	if old, ok := strings.CutPrefix(r.URL.Path, "/api/datasets/org/old/"); ok { // renamed
		http.Redirect(w, r, "/api/datasets/org/set/"+old, http.StatusTemporaryRedirect)
		return
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/datasets/org/set/resolve/")
	sha, name, _ := strings.Cut(rest, "/")
	content, has := f.files[sha][name]
	switch {
	case !ok:
		w.Header().Set("X-Error-Code", "RepoNotFound")
		http.Error(w, "no", http.StatusNotFound)
	case !has:
		w.Header().Set("X-Error-Code", "EntryNotFound")
		http.Error(w, "no", http.StatusNotFound)
	case strings.HasSuffix(name, ".parquet"):
		w.Header().Set("X-Repo-Commit", sha)
		w.Header().Set("X-Linked-Size", strconv.Itoa(len(content)))
		w.Header().Set("X-Linked-Etag", `"`+sum256(content)+`"`)
		http.Redirect(w, r, f.cdn.URL+"/"+sha+"/"+name+"?Signature=SIGNED", http.StatusFound)
	default:
		w.Header().Set("ETag", `"`+git(content)+`"`)
		fmt.Fprint(w, content)
	}
}

func (f *fakeHub) list(w http.ResponseWriter, sha string) {
	type lfs struct {
		SHA256      string `json:"sha256"`
		Size        int    `json:"size"`
		PointerSize int    `json:"pointerSize"`
	}
	type sibling struct {
		Name string `json:"rfilename"`
		Size *int   `json:"size,omitempty"`
		Blob string `json:"blobId,omitempty"`
		LFS  *lfs   `json:"lfs,omitempty"`
	}
	var siblings []sibling
	for name, content := range f.files[sha] {
		s := sibling{Name: name}
		if n := len(content); !f.plain {
			s.Size, s.Blob = &n, git(content)
			if strings.HasSuffix(name, ".parquet") {
				s.LFS = &lfs{sum256(content), n, 134}
			}
		}
		siblings = append(siblings, s)
	}
	json.NewEncoder(w).Encode(map[string]any{"id": "org/set", "sha": sha, "private": false, "gated": false, "siblings": siblings})
}

func (f *fakeHub) serveCDN(w http.ResponseWriter, r *http.Request) {
	f.note(r, "cdn")
	sha, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	content := f.files[sha][name] + f.extra
	if f.tamper {
		content = "P" + content[1:]
	}
	if f.cut > 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		fmt.Fprint(w, content[:f.cut])
		f.cut = 0
		panic(http.ErrAbortHandler)
	}
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
}

func sum256(s string) string { h := sha256.Sum256([]byte(s)); return hex.EncodeToString(h[:]) }
func git(s string) string {
	h := sha1.Sum(fmt.Appendf(nil, "blob %d\x00%s", len(s), s))
	return hex.EncodeToString(h[:])
}

const file = "data/train-00000-of-00001.parquet"

func client(t *testing.T, c hub.Config) *hub.Client {
	t.Helper()
	out, err := hub.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestFetchFillsPythonsCache(t *testing.T) {
	f, cache := newFakeHub(t), t.TempDir()
	c := client(t, hub.Config{Endpoint: f.hub.URL + "/", Token: token, Cache: cache})
	files, err := c.Files(t.Context(), "org/set")
	want := []string{"README.md", file, "refs/convert/parquet/default/train/0000.parquet"}
	if err != nil || !slices.Equal(files, want) {
		t.Fatalf("files %q, error %v", files, err)
	}
	root := filepath.Join(cache, "datasets--org--set")
	for name, where := range map[string]string{
		file:        filepath.Join(root, "snapshots", commit, file),
		"README.md": filepath.Join(root, "snapshots", commit, "README.md"),
		files[2]:    filepath.Join(root, "snapshots", converted, "default/train/0000.parquet"),
	} {
		path, err := c.Fetch(t.Context(), "org/set", name)
		if err != nil || path != where {
			t.Fatalf("%s: path %s, error %v", name, path, err)
		}
	}
	content := f.files[commit][file]
	target, err := os.Readlink(filepath.Join(root, "snapshots", commit, file))
	if err != nil || target != "../../../blobs/"+sum256(content) || read(t, filepath.Join(root, "snapshots", commit, file)) != content {
		t.Errorf("link to %s, error %v", target, err)
	}
	if got := read(t, filepath.Join(root, "refs/main")); got != commit {
		t.Errorf("refs/main is %q", got)
	}
	if got := read(t, filepath.Join(root, "refs/refs/convert/parquet")); got != converted {
		t.Errorf("refs/refs/convert/parquet is %q", got)
	}
	if left, _ := filepath.Glob(root + "/blobs/*.incomplete"); left != nil {
		t.Errorf("left behind: %q", left)
	}
	if diff := cmp.Diff(map[string]bool{"hub": true}, f.auth); diff != "" {
		t.Errorf("hosts that saw the token: %s", diff)
	}

	// The same, and another client, fetch nothing again.
	f.seen = nil
	for _, c := range []*hub.Client{c, client(t, hub.Config{Endpoint: f.hub.URL, Cache: cache})} {
		if _, err := c.Fetch(t.Context(), "org/set", file); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.seen) != 2 { // its two lists
		t.Errorf("asked again: %q", f.seen)
	}
}

func TestOffline(t *testing.T) {
	f, cache := newFakeHub(t), t.TempDir()
	offline := hub.Config{Endpoint: f.hub.URL, Cache: cache, Offline: true}
	if _, err := client(t, offline).Files(t.Context(), "org/set"); err == nil || !strings.Contains(err.Error(), "org/set is not in the cache "+cache) {
		t.Errorf("empty cache: error %v", err)
	}
	online := client(t, hub.Config{Endpoint: f.hub.URL, Cache: cache})
	if _, err := online.Fetch(t.Context(), "org/set", file); err != nil {
		t.Fatal(err)
	}
	f.seen = nil
	c := client(t, offline)
	if files, err := c.Files(t.Context(), "org/set"); err != nil || len(files) != 3 {
		t.Errorf("files %q, error %v: a file that is not in the cache is of the data set all the same", files, err)
	}
	if path, err := c.Fetch(t.Context(), "org/set", file); err != nil || read(t, path) != f.files[commit][file] {
		t.Errorf("error %v", err)
	}
	if _, err := c.Fetch(t.Context(), "org/set", "README.md"); err == nil || !strings.Contains(err.Error(), "README.md of org/set is not in the cache") {
		t.Errorf("error %v", err)
	}
	if f.seen != nil {
		t.Errorf("asked %q", f.seen)
	}
}

// A cache that Python filled has no list of ours.
func TestOfflineInACacheOfPythons(t *testing.T) {
	cache := t.TempDir()
	root := filepath.Join(cache, "datasets--org--set")
	snapshot := filepath.Join(root, "snapshots", commit)
	for path, content := range map[string]string{
		filepath.Join(root, "refs/main"): commit, filepath.Join(root, "blobs/abc"): "rows",
	} {
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	os.MkdirAll(filepath.Join(snapshot, "main"), 0o755)
	if err := os.Symlink("../../../blobs/abc", filepath.Join(snapshot, "main/train.parquet")); err != nil {
		t.Fatal(err)
	}
	c := client(t, hub.Config{Cache: cache, Offline: true})
	files, err := c.Files(t.Context(), "org/set")
	if err != nil || !slices.Equal(files, []string{"main/train.parquet"}) {
		t.Fatalf("files %q, error %v", files, err)
	}
	if path, err := c.Fetch(t.Context(), "org/set", files[0]); err != nil || read(t, path) != "rows" {
		t.Errorf("error %v", err)
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(*fakeHub)
		token string
		id    string
		want  string
	}{
		"gated":            {func(f *fakeHub) { f.refuse, f.status = "GatedRepo", 401 }, "", "", "org/set is gated: accept its terms at http://"},
		"gated, forbidden": {func(f *fakeHub) { f.refuse, f.status = "GatedRepo", 403 }, token, "", "set HF_TOKEN to a token of that account"},
		"private":          {func(f *fakeHub) { f.private = true }, "", "", "no data set org/set that anyone may read; want the id of one, or HF_TOKEN"},
		"bad token":        {func(f *fakeHub) { f.private = true }, "hf_other", "", "does not accept HF_TOKEN"},
		"forbidden":        {func(f *fakeHub) { f.status = 403 }, token, "", "HTTP 403"},
		"not there":        {func(f *fakeHub) {}, "", "org/none", "has no data set org/none (HTTP 404)"},
		"broken hub":       {func(f *fakeHub) { f.status = 500 }, token, "", "answers HTTP 500"},
		"no id":            {func(f *fakeHub) {}, "", "../../etc", "is neither a folder nor an id of the hub; want one like"},
		"climbing id":      {func(f *fakeHub) {}, "", "org/..", "is neither a folder nor an id"},
	} {
		f := newFakeHub(t)
		c.set(f)
		if c.id == "" {
			c.id = "org/set"
		}
		_, err := client(t, hub.Config{Endpoint: f.hub.URL, Token: c.token, Cache: t.TempDir()}).Files(t.Context(), c.id)
		if err == nil || !strings.Contains(err.Error(), c.want) || c.token != "" && strings.Contains(err.Error(), c.token) {
			t.Errorf("%s: error %v, want ...%s...", name, err, c.want)
		}
	}
}

// A name's % is no escape of an address, nor are ? and # its ends.
func TestNamesAreEscaped(t *testing.T) {
	f := newFakeHub(t)
	const name = "data/50%25 of a?b#c+d.txt"
	f.files[commit][name] = "content"
	path, err := client(t, hub.Config{Endpoint: f.hub.URL, Cache: t.TempDir()}).Fetch(t.Context(), "org/set", name)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); string(got) != "content" {
		t.Errorf("content %q, error %v", got, err)
	}
}

// A file that no hub serves is refused before the disk is full of it.
func TestFileTooLarge(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/resolve/") {
			t.Error("asked for the file")
		}
		fmt.Fprintf(w, `{"sha": "%s", "siblings": [{"rfilename": "x.parquet", "size": 4611686018427387904}]}`, commit)
	}))
	defer server.Close()
	_, err := client(t, hub.Config{Endpoint: server.URL, Cache: t.TempDir()}).Fetch(t.Context(), "org/set", "x.parquet")
	if err == nil || !strings.Contains(err.Error(), "x.parquet of org/set: has 4611686018427387904 bytes; want 50000000000 at most") {
		t.Errorf("error %v", err)
	}
}

func TestRenamedAndUnconverted(t *testing.T) {
	f := newFakeHub(t)
	delete(f.revision, "refs/convert/parquet")
	files, err := client(t, hub.Config{Endpoint: f.hub.URL, Token: token, Cache: t.TempDir()}).Files(t.Context(), "org/old")
	if err != nil || len(files) != 2 {
		t.Errorf("files %q, error %v", files, err)
	}
}

func TestHubOutOfReach(t *testing.T) {
	f := newFakeHub(t)
	f.hub.Close()
	_, err := client(t, hub.Config{Endpoint: f.hub.URL, Token: token, Cache: t.TempDir()}).Files(t.Context(), "org/set")
	if err == nil || !strings.Contains(err.Error(), "HF_HUB_OFFLINE=1") || strings.Contains(err.Error(), token) {
		t.Errorf("error %v", err)
	}
}

func TestFetchGoesOnWhereItWasCutOff(t *testing.T) {
	f, cache := newFakeHub(t), t.TempDir()
	f.cut = 3000
	c := client(t, hub.Config{Endpoint: f.hub.URL, Cache: cache})
	path, err := c.Fetch(t.Context(), "org/set", file)
	if err != nil || read(t, path) != f.files[commit][file] {
		t.Fatalf("error %v", err)
	}
	if last := f.seen[len(f.seen)-1]; !strings.HasSuffix(last, " bytes=3000-") {
		t.Errorf("requests %q", f.seen)
	}
}

// What an earlier process left is the beginning, if it is one.
func TestFetchGoesOnAfterACrash(t *testing.T) {
	for name, c := range map[string]struct{ left, want string }{
		"a good beginning": {"parquet parquet ", " bytes=16-"},
		"too long":         {strings.Repeat("x", 9000), " "},
		"nothing":          {"", " "},
	} {
		f, cache := newFakeHub(t), t.TempDir()
		blobs := filepath.Join(cache, "datasets--org--set/blobs")
		os.MkdirAll(blobs, 0o755)
		left := filepath.Join(blobs, sum256(f.files[commit][file])+".servebench.incomplete")
		if err := os.WriteFile(left, []byte(c.left), 0o644); err != nil {
			t.Fatal(err)
		}
		path, err := client(t, hub.Config{Endpoint: f.hub.URL, Cache: cache}).Fetch(t.Context(), "org/set", file)
		if err != nil || read(t, path) != f.files[commit][file] || !strings.HasSuffix(f.seen[len(f.seen)-1], c.want) {
			t.Errorf("%s: error %v, requests %q", name, err, f.seen)
		}
	}
}

func TestWrongContentIsNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*fakeHub)
		want string
	}{
		"another byte": {func(f *fakeHub) { f.tamper = true }, "its digest is"},
		"longer":       {func(f *fakeHub) { f.extra = "more" }, "longer than 8000 bytes"},
		"wrong beginning": {func(f *fakeHub) {
			f.files[commit][file] = strings.Repeat("another ", 1000)
		}, "its digest is"},
	} {
		f, cache := newFakeHub(t), t.TempDir()
		cl := client(t, hub.Config{Endpoint: f.hub.URL, Token: token, Cache: cache})
		if _, err := cl.Files(t.Context(), "org/set"); err != nil {
			t.Fatal(err)
		}
		c.set(f)
		_, err := cl.Fetch(t.Context(), "org/set", file)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "SIGNED") {
			t.Errorf("%s: error %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(cache, "datasets--org--set/snapshots", commit, file)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: kept (%v)", name, err)
		}
	}
}

func TestHubWithoutDigests(t *testing.T) {
	f := newFakeHub(t)
	f.plain = true
	c := client(t, hub.Config{Endpoint: f.hub.URL, Cache: t.TempDir()})
	path, err := c.Fetch(t.Context(), "org/set", file)
	if err != nil || read(t, path) != f.files[commit][file] {
		t.Errorf("error %v", err)
	}
}

func TestFetchEndsWithItsContext(t *testing.T) {
	f := newFakeHub(t)
	c := client(t, hub.Config{Endpoint: f.hub.URL, Cache: t.TempDir()})
	if _, err := c.Files(t.Context(), "org/set"); err != nil {
		t.Fatal(err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if _, err := c.Fetch(ctx, "org/set", file); !errors.Is(err, enough) {
		t.Errorf("error %v", err)
	}
}

func TestManyFetchAtOnce(t *testing.T) {
	f, cache := newFakeHub(t), t.TempDir()
	var all sync.WaitGroup
	for range 8 {
		c := client(t, hub.Config{Endpoint: f.hub.URL, Cache: cache}) // as of another process
		all.Go(func() {
			path, err := c.Fetch(t.Context(), "org/set", file)
			if err != nil {
				t.Error(err)
				return
			}
			if read(t, path) != f.files[commit][file] {
				t.Error("other content")
			}
		})
	}
	all.Wait()
	fetched := 0
	for _, s := range f.seen {
		if strings.HasPrefix(s, "cdn ") {
			fetched++
		}
	}
	if fetched != 1 {
		t.Errorf("fetched %d times", fetched)
	}
}

func TestListThatLies(t *testing.T) {
	for name, body := range map[string]string{
		"no JSON": "<html>login</html>", "no commit": `{"siblings": []}`, "empty": "",
		"no object": "[]", "wrong type": `{"sha": 5}`, "too long": strings.Repeat(" ", 128<<20+1),
		"climbs":   `{"sha": "` + commit + `", "siblings": [{"rfilename": "../../../x"}]}`,
		"absolute": `{"sha": "` + commit + `", "siblings": [{"rfilename": "/etc/passwd"}]}`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
		_, err := client(t, hub.Config{Endpoint: server.URL, Cache: t.TempDir()}).Files(t.Context(), "org/set")
		if err == nil || !strings.Contains(err.Error(), "list the files of org/set") || strings.Contains(err.Error(), "struct") {
			t.Errorf("%s: error %v", name, err)
		}
		if name == "too long" && !strings.Contains(fmt.Sprint(err), "more than 128 MiB") {
			t.Errorf("%s: error %v", name, err)
		}
		server.Close()
	}
}

func TestEnvironmentIsPythons(t *testing.T) {
	for _, c := range []struct {
		env  string
		want hub.Config
	}{
		{"HOME=/h", hub.Config{Cache: "/h/.cache/huggingface/hub"}},
		{"HOME=/h XDG_CACHE_HOME=/x", hub.Config{Cache: "/x/huggingface/hub"}},
		{"HOME=/h XDG_CACHE_HOME=/x HF_HOME=~/y", hub.Config{Cache: "/h/y/hub"}},
		{"HOME=/h HF_HOME=/y HF_HUB_CACHE=$HOME/z", hub.Config{Cache: "/h/z"}},
		{"HOME=/h HF_TOKEN=hf_a HF_ENDPOINT=http://mirror HF_HUB_OFFLINE=yes",
			hub.Config{Cache: "/h/.cache/huggingface/hub", Token: "hf_a", Endpoint: "http://mirror", Offline: true}},
		{"HOME=/h HF_HUB_OFFLINE=0 HF_DATASETS_OFFLINE=1", hub.Config{Cache: "/h/.cache/huggingface/hub"}},
	} {
		env := map[string]string{}
		for _, pair := range strings.Fields(c.env) {
			k, v, _ := strings.Cut(pair, "=")
			env[k] = v
		}
		if diff := cmp.Diff(c.want, hub.FromEnv(func(k string) string { return env[k] })); diff != "" {
			t.Errorf("%s: %s", c.env, diff)
		}
	}
}

func TestBadConfiguration(t *testing.T) {
	for name, c := range map[string]hub.Config{
		"no scheme":          {Endpoint: "huggingface.co"},
		"another scheme":     {Endpoint: "ftp://huggingface.co"},
		"user in address":    {Endpoint: "https://me:" + token + "@huggingface.co"},
		"two lines in token": {Token: token + "\nX-Evil: 1"},
	} {
		if _, err := hub.New(c); err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// A data set of the hub is sampled through its card and its files.
func TestLoadThroughTheHub(t *testing.T) {
	f := newFakeHub(t)
	f.files[commit] = map[string]string{}
	root := "../testdata/hub/gsm8k"
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		f.files[commit][strings.TrimPrefix(path, root+"/")] = read(t, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s := dataset.Spec{Name: "hf", Path: root, Prompts: 5, OutputLen: -1, Chat: true, Hub: dataset.Hub{Name: "openai/gsm8k"}}
	want, err := dataset.Load(t.Context(), s, dataset.Tools{})
	if err != nil {
		t.Fatal(err)
	}
	s.Path = "org/set"
	tools := dataset.Tools{Hub: client(t, hub.Config{Endpoint: f.hub.URL, Token: token, Cache: t.TempDir()})}
	for range 2 {
		got, err := dataset.Load(t.Context(), s, tools)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Requests, got.Requests); diff != "" || len(got.Requests) != 5 {
			t.Error(diff)
		}
	}
	if fetched := slices.DeleteFunc(f.seen, func(s string) bool { return !strings.Contains(s, "cdn") }); len(fetched) != 1 {
		t.Errorf("fetched %q; want only the file of the split", fetched)
	}
}
