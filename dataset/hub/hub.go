// Package hub fetches files of the data sets of a Hugging Face hub, through the
// cache that Python's huggingface_hub uses.
//
// A file that is in the cache at the data set's current commit is not fetched
// again, whoever put it there; what is fetched here Python finds. Downloads are
// resumed, held to the size and digest that the hub names, and moved into the
// cache when complete. The token goes to the hub's own host and to no other.
//
// Note: github.com/gomlx/go-huggingface was tried first. It knows neither
// HF_HOME, HF_HUB_CACHE nor HF_HUB_OFFLINE, logs, lists a data set without the
// caller's context, and checks no digests.
package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/servebench/servebench/dataset"
)

const (
	defaultEndpoint = "https://huggingface.co"
	mainBranch      = "main"
	// convertedBranch is where the hub puts Parquet files that it has made of
	// data sets in other formats, as config/split/0000.parquet.
	convertedBranch = "refs/convert/parquet"

	maxListing   = 128 << 20 // bytes of a list of files; a file takes about 200
	maxRedirects = 10
	stallAfter   = time.Minute
)

// Config says where the hub and its cache are.
type Config struct {
	Endpoint string // address of the hub; "" stands for https://huggingface.co
	Token    string // of an account, for what is not public; may be empty
	Cache    string // folder of the cache, which need not exist yet
	Offline  bool   // only the cache is asked
}

// FromEnv reads the variables that Python's huggingface_hub reads: HF_ENDPOINT,
// HF_TOKEN, HF_HUB_OFFLINE (or HF_DATASETS_OFFLINE, TRANSFORMERS_OFFLINE), and
// HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, HF_HOME or XDG_CACHE_HOME for the cache.
// getenv is os.Getenv. A token that `hf auth login` has left in a file is not
// read.
func FromEnv(getenv func(string) string) Config {
	first := func(names ...string) string {
		for _, name := range names {
			if v := getenv(name); v != "" {
				return v
			}
		}
		return ""
	}
	home := func(p string) string {
		p = os.Expand(p, getenv)
		if rest, ok := strings.CutPrefix(p, "~/"); ok {
			return filepath.Join(getenv("HOME"), rest)
		}
		return p
	}
	c := Config{Endpoint: getenv("HF_ENDPOINT"), Token: strings.TrimSpace(getenv("HF_TOKEN"))}
	offline := strings.ToUpper(first("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE"))
	c.Offline = slices.Contains([]string{"1", "ON", "YES", "TRUE"}, offline)
	switch {
	case first("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE") != "":
		c.Cache = home(first("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"))
	case getenv("HF_HOME") != "":
		c.Cache = filepath.Join(home(getenv("HF_HOME")), "hub")
	case getenv("XDG_CACHE_HOME") != "":
		c.Cache = filepath.Join(home(getenv("XDG_CACHE_HOME")), "huggingface", "hub")
	default:
		c.Cache = filepath.Join(getenv("HOME"), ".cache", "huggingface", "hub")
	}
	return c
}

// Client is a [dataset.Fetcher]. It is safe for concurrent use. The zero value
// is not usable; see [New].
type Client struct {
	config Config
	base   *url.URL
	http   *http.Client

	mu    sync.Mutex
	lists map[string]*listing // by id; guarded by mu
}

var _ dataset.Fetcher = (*Client)(nil)

// New checks the configuration. It connects to nothing.
func New(c Config) (*Client, error) {
	if c.Endpoint == "" {
		c.Endpoint = defaultEndpoint
	}
	base, err := url.Parse(strings.TrimRight(c.Endpoint, "/"))
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, fmt.Errorf("HF_ENDPOINT: %.200q is no address; want one like %s", c.Endpoint, defaultEndpoint)
	}
	if base.User != nil || base.RawQuery != "" {
		return nil, errors.New("HF_ENDPOINT: has a user or a query; want an address alone, and the token in HF_TOKEN")
	}
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("HF_TOKEN: has a character that no token has; want one line that begins with hf_")
	}
	if !filepath.IsAbs(c.Cache) {
		if c.Cache, err = filepath.Abs(c.Cache); err != nil {
			return nil, fmt.Errorf("HF_HUB_CACHE: %w", err)
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	transport.ResponseHeaderTimeout = stallAfter
	return &Client{config: c, base: base, http: newHTTP(transport, base, c.Token), lists: map[string]*listing{}}, nil
}

func newHTTP(transport http.RoundTripper, base *url.URL, token string) *http.Client {
	return &http.Client{
		Transport: authorizer{transport, base, token},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			switch {
			case len(via) >= maxRedirects:
				return errors.New("more than 10 redirects")
			case via[0].URL.Scheme == "https" && req.URL.Scheme != "https":
				return errors.New("redirected from https to http")
			}
			return nil
		},
	}
}

// authorizer adds the token to requests to the hub itself. It stands here and
// not in the request's header because net/http would take that along to every
// subdomain it is redirected to.
type authorizer struct {
	next  http.RoundTripper
	base  *url.URL
	token string
}

func (a authorizer) RoundTrip(req *http.Request) (*http.Response, error) {
	if a.token != "" && req.URL.Scheme == a.base.Scheme && req.URL.Host == a.base.Host {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	return a.next.RoundTrip(req)
}

// listing is what is known of a data set.
type listing struct {
	branches map[string]branch
}

type branch struct {
	Commit string            `json:"commit"`
	Files  map[string]object `json:"files"`
}

// object is a file as the hub knows it. What the hub did not tell is empty, and
// Size -1.
type object struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitempty"` // of large files
	Git    string `json:"git,omitempty"`    // git's name of the content
}

// idForm is a data set's id: org/name, or a name alone.
var idForm = regexp.MustCompile(`^[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)?$`)

func checkID(id string) error {
	if !idForm.MatchString(id) || strings.Contains(id, "..") || strings.Contains(id, "--") || len(id) > 200 {
		return fmt.Errorf("dataset-path: %.200q is neither a folder nor an id of the hub; want one like openai/gsm8k", id)
	}
	return nil
}

// Files lists the files at the data set's current commit. Those that the hub has
// converted to Parquet follow as refs/convert/parquet/config/split/0000.parquet.
func (c *Client) Files(ctx context.Context, id string) ([]string, error) {
	list, err := c.list(ctx, id)
	if err != nil {
		return nil, err
	}
	files := slices.Sorted(maps.Keys(list.branches[mainBranch].Files))
	for _, name := range slices.Sorted(maps.Keys(list.branches[convertedBranch].Files)) {
		files = append(files, convertedBranch+"/"+name)
	}
	return files, nil
}

// list asks the hub once.
func (c *Client) list(ctx context.Context, id string) (*listing, error) {
	if err := checkID(id); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.lists[id]; l != nil {
		return l, nil
	}
	l := &listing{branches: map[string]branch{}}
	for _, revision := range []string{mainBranch, convertedBranch} {
		b, err := c.branch(ctx, id, revision)
		if _, none := errors.AsType[*absent](err); none && revision == convertedBranch {
			continue // a few data sets cannot be converted
		}
		if err != nil {
			return nil, err
		}
		l.branches[revision] = b
	}
	c.lists[id] = l
	return l, nil
}

// absent marks the answer that something is not there.
type absent struct{ error }

func (a *absent) Unwrap() error { return a.error }

func (c *Client) branch(ctx context.Context, id, revision string) (b branch, err error) {
	if c.config.Offline {
		return c.cachedBranch(id, revision)
	}
	if b, err = c.askBranch(ctx, id, revision); err != nil {
		return b, err
	}
	return b, c.remember(id, revision, b)
}

func (c *Client) askBranch(ctx context.Context, id, revision string) (b branch, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	address := c.base.JoinPath("api", "datasets", id, "revision").String() + "/" + url.PathEscape(revision) + "?blobs=true"
	resp, err := c.get(ctx, id, address, nil)
	if err != nil {
		return b, err
	}
	defer resp.Body.Close()
	body, stall := watch(resp.Body, cancel)
	defer stall.Stop()
	b, err = parseBranch(body)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("list the files of %s at %s: %w", id, c.base.Host, err)
	}
	return b, err
}

// parseBranch reads the hub's answer about a revision.
func parseBranch(in io.Reader) (b branch, err error) {
	var answer struct {
		SHA      string `json:"sha"`
		Siblings []struct {
			Name string `json:"rfilename"`
			Size *int64 `json:"size"`
			Blob string `json:"blobId"`
			LFS  *struct {
				SHA256 string `json:"sha256"`
				Size   *int64 `json:"size"`
			} `json:"lfs"`
		} `json:"siblings"`
	}
	limited := &io.LimitedReader{R: in, N: maxListing}
	if err := json.NewDecoder(limited).Decode(&answer); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // its text holds Go's types
			err = fmt.Errorf("a JSON %s at byte %d where there is none", wrong.Value, wrong.Offset)
		}
		if limited.N == 0 {
			return b, fmt.Errorf("more than %d MiB; want the list of one data set's files", maxListing>>20)
		}
		return b, fmt.Errorf("not the hub's JSON: %w", err)
	}
	if !isHex(answer.SHA, 40) {
		return b, fmt.Errorf("no commit in the answer: sha is %.60q", answer.SHA)
	}
	b = branch{answer.SHA, make(map[string]object, len(answer.Siblings))}
	for _, s := range answer.Siblings {
		if !filepath.IsLocal(s.Name) || strings.ContainsAny(s.Name, "\\\x00") {
			return b, fmt.Errorf("a file name that leaves the data set: %.200q", s.Name)
		}
		o := object{Size: -1}
		if s.LFS != nil && isHex(s.LFS.SHA256, 64) {
			o.SHA256 = s.LFS.SHA256
			s.Size = s.LFS.Size
		} else if s.LFS == nil && isHex(s.Blob, 40) {
			o.Git = s.Blob
		}
		if s.Size != nil && *s.Size >= 0 {
			o.Size = *s.Size
		}
		b.Files[s.Name] = o
	}
	return b, nil
}

func isHex(s string, n int) bool {
	return len(s) == n && strings.Trim(s, "0123456789abcdef") == ""
}

// folder is the data set's place in the cache.
func (c *Client) folder(id string) string {
	return filepath.Join(c.config.Cache, "datasets--"+strings.ReplaceAll(id, "/", "--"))
}

// listPath is where the list of a commit's files is kept for the time without
// the hub: a snapshot holds only files that somebody has fetched, and a run over
// some of the files would be another run.
func (c *Client) listPath(id, commit string) string {
	return filepath.Join(c.folder(id), "servebench", commit+".json")
}

// remember writes what Python notes of a branch, and the list of its files.
func (c *Client) remember(id, revision string, b branch) error {
	list, err := json.Marshal(b)
	if err != nil {
		return err
	}
	for path, content := range map[string][]byte{
		filepath.Join(c.folder(id), "refs", filepath.FromSlash(revision)): []byte(b.Commit),
		c.listPath(id, b.Commit): list,
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("HF_HUB_CACHE: %w", err)
		}
		if err := renameio.WriteFile(path, content, 0o644); err != nil {
			return fmt.Errorf("HF_HUB_CACHE: %w", err)
		}
	}
	return nil
}

// cachedBranch is what the cache knows of a branch.
func (c *Client) cachedBranch(id, revision string) (b branch, err error) {
	commit, err := os.ReadFile(filepath.Join(c.folder(id), "refs", filepath.FromSlash(revision)))
	if errors.Is(err, os.ErrNotExist) {
		return b, &absent{fmt.Errorf("%s is not in the cache %s, and HF_HUB_OFFLINE is set; want it unset once, to fetch the data set", id, c.config.Cache)}
	}
	if err != nil {
		return b, fmt.Errorf("HF_HUB_CACHE: %w", err)
	}
	b.Commit = strings.TrimSpace(string(commit))
	if !isHex(b.Commit, 40) {
		return b, fmt.Errorf("%s: its branch %s in the cache %s is no commit", id, revision, c.config.Cache)
	}
	list, err := os.ReadFile(c.listPath(id, b.Commit))
	if err == nil {
		if err := json.Unmarshal(list, &b); err != nil {
			return b, fmt.Errorf("%s: %w", c.listPath(id, b.Commit), err)
		}
		return b, nil
	}
	return b, c.walk(id, &b)
}

// walk lists the files of a snapshot that Python has made.
func (c *Client) walk(id string, b *branch) error {
	b.Files = map[string]object{}
	root := c.snapshot(id, b.Commit)
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		b.Files[filepath.ToSlash(rel)] = object{Size: -1}
		return err
	})
	if err != nil {
		return fmt.Errorf("HF_HUB_CACHE: %w", err)
	}
	return nil
}

func (c *Client) snapshot(id, commit string) string {
	return filepath.Join(c.folder(id), "snapshots", commit)
}
