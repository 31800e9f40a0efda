package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	maxFile  = 50e9 // bytes; the hub serves no larger ones over HTTP
	attempts = 4
)

// Fetch returns the path of a file of the data set in the cache, as Files names
// it, and fetches it first if need be.
func (c *Client) Fetch(ctx context.Context, id, file string) (string, error) {
	list, err := c.list(ctx, id)
	if err != nil {
		return "", err
	}
	revision, name := mainBranch, file
	if rest, ok := strings.CutPrefix(file, convertedBranch+"/"); ok {
		revision, name = convertedBranch, rest
	}
	b := list.branches[revision]
	o, ok := b.Files[name]
	if !ok {
		return "", fmt.Errorf("%s has no file %.200q", id, file)
	}
	path := filepath.Join(c.snapshot(id, b.Commit), filepath.FromSlash(name))
	switch info, err := os.Stat(path); {
	case err == nil && info.Mode().IsRegular() && (o.Size < 0 || info.Size() == o.Size):
		return path, nil
	case err == nil && c.config.Offline:
		return "", fmt.Errorf("%s: has %d bytes; the hub's has %d; want HF_HUB_OFFLINE unset, to fetch it again", path, info.Size(), o.Size)
	case c.config.Offline:
		return "", fmt.Errorf("%s of %s is not in the cache %s, and HF_HUB_OFFLINE is set; want it unset once, to fetch the file", file, id, c.config.Cache)
	}
	if err := c.download(ctx, id, b.Commit, name, o, path); err != nil {
		return "", fmt.Errorf("fetch %s of %s: %w", file, id, err)
	}
	return path, nil
}

// download puts the file's content into the cache's blobs, and a link to it at
// path: content that two commits share is kept once.
func (c *Client) download(ctx context.Context, id, commit, name string, o object, path string) error {
	key := o.key()
	if key == "" { // a hub that tells no digests
		sum := sha256.Sum256([]byte(commit + "/" + name))
		key = "servebench-" + hex.EncodeToString(sum[:])
	}
	blob := filepath.Join(c.folder(id), "blobs", key)
	lock := filepath.Join(c.config.Cache, ".locks", filepath.Base(c.folder(id)), key+".lock")
	for _, dir := range []string{filepath.Dir(blob), filepath.Dir(lock), filepath.Dir(path)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("HF_HUB_CACHE: %w", err)
		}
	}
	if o.Size > maxFile {
		return fmt.Errorf("has %d bytes; want %d at most", o.Size, int64(maxFile))
	}
	unlock, err := lockFile(ctx, lock)
	if err != nil {
		return err
	}
	defer unlock()
	if info, err := os.Stat(blob); err != nil || o.Size >= 0 && info.Size() != o.Size || o.Size < 0 {
		address := c.base.JoinPath("datasets", id, "resolve", commit, escaped(name)).String()
		if err := c.fill(ctx, id, address, blob+".servebench.incomplete", o); err != nil {
			return err
		}
		if err := os.Rename(blob+".servebench.incomplete", blob); err != nil {
			return fmt.Errorf("HF_HUB_CACHE: %w", err)
		}
	}
	return link(blob, path)
}

// link makes path a relative symbolic link to blob, as Python's are, at once.
func link(blob, path string) error {
	target, err := filepath.Rel(filepath.Dir(path), blob)
	if err != nil {
		return err
	}
	temporary := path + ".servebench-" + strconv.Itoa(os.Getpid())
	if err := os.Symlink(target, temporary); err != nil {
		return fmt.Errorf("HF_HUB_CACHE: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return errors.Join(fmt.Errorf("HF_HUB_CACHE: %w", err), os.Remove(temporary))
	}
	return nil
}

// key is the name of the content in the cache: that of its ETag.
func (o object) key() string {
	if o.SHA256 != "" {
		return o.SHA256
	}
	return o.Git
}

// fill completes the file at path, which may have a beginning of the content
// from an earlier run. The caller holds the lock.
func (c *Client) fill(ctx context.Context, id, address, path string, o object) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("HF_HUB_CACHE: %w", err)
	}
	defer f.Close()
	if o.key() == "" {
		// Nothing would tell whether the beginning is of this content.
		if err := f.Truncate(0); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		err := c.more(ctx, id, address, f, &o)
		if err == nil {
			break
		}
		if _, again := errors.AsType[*transient](err); !again || try == attempts || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(time.Duration(try) * time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := verify(f, o); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return f.Sync()
}

// escaped is a file's name as JoinPath wants it, which takes % for an escape.
func escaped(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// transient marks what is worth another try.
type transient struct{ error }

func (t *transient) Unwrap() error { return t.error }

// more appends to f what it lacks.
func (c *Client) more(ctx context.Context, id, address string, f *os.File, o *object) error {
	have, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if o.Size >= 0 && have > o.Size {
		have = 0
	}
	if o.Size == have && have > 0 {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	header := http.Header{"Accept-Encoding": {"identity"}}
	if have > 0 {
		header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	resp, err := c.get(ctx, id, address, header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusPartialContent || !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", have)) {
		if resp.StatusCode == http.StatusPartialContent {
			return fmt.Errorf("asked for bytes from %d on; answered %.100q", have, resp.Header.Get("Content-Range"))
		}
		have = 0
	}
	if err := errors.Join(f.Truncate(have), seek(f, have)); err != nil {
		return err
	}
	if o.Size < 0 && resp.ContentLength >= 0 {
		o.Size = have + resp.ContentLength
	}
	want := int64(maxFile)
	if o.Size >= 0 {
		want = o.Size
	}
	body, stall := watch(resp.Body, cancel)
	defer stall.Stop()
	n, err := io.Copy(f, io.LimitReader(body, want-have+1))
	switch total := have + n; {
	case total > want:
		return fmt.Errorf("longer than %d bytes", want)
	case ctx.Err() != nil:
		return &transient{fmt.Errorf("after %d bytes: %w", total, context.Cause(ctx))}
	case err != nil:
		return &transient{fmt.Errorf("after %d bytes: %w", total, err)}
	case o.Size >= 0 && total < o.Size:
		return &transient{fmt.Errorf("ends after %d of %d bytes", total, o.Size)}
	}
	return nil
}

func seek(f *os.File, to int64) error {
	_, err := f.Seek(to, io.SeekStart)
	return err
}

// watch cancels when in has had no byte for a while. The caller stops the timer.
func watch(in io.Reader, cancel context.CancelCauseFunc) (io.Reader, *time.Timer) {
	stall := time.AfterFunc(stallAfter, func() { cancel(fmt.Errorf("no byte for %v", stallAfter)) })
	return &watched{in, stall}, stall
}

// watched puts off the stall timer with every byte.
type watched struct {
	io.Reader
	stall *time.Timer
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.stall.Reset(stallAfter)
	}
	return n, err
}

// verify holds a complete file against its digest.
func verify(f *os.File, o object) error {
	var sum hash.Hash
	switch {
	case o.SHA256 != "":
		sum = sha256.New()
	case o.Git != "" && o.Size >= 0:
		sum = sha1.New()
		fmt.Fprintf(sum, "blob %d\x00", o.Size)
	default:
		return nil
	}
	if err := seek(f, 0); err != nil {
		return err
	}
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != o.key() {
		return fmt.Errorf("its digest is %s; the hub says %s", got, o.key())
	}
	return nil
}

// get asks for an address of the hub. The caller closes the body of the answer,
// which is 200 or 206.
func (c *Client) get(ctx context.Context, id, address string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	req.Header.Set("User-Agent", "servebench")
	resp, err := c.http.Do(req)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		// A redirected address is a key to the file: it is not shown.
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return nil, &transient{fmt.Errorf("ask %s: %w; want the hub in reach (HF_ENDPOINT, HTTPS_PROXY), or HF_HUB_OFFLINE=1 and the data set in the cache %s",
			c.base.Host, err, c.config.Cache)}
	}
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent {
		return resp, nil
	}
	resp.Body.Close()
	return nil, c.refusal(id, resp)
}

// refusal says what a status means for the data set.
func (c *Client) refusal(id string, resp *http.Response) error {
	code := resp.Header.Get("X-Error-Code")
	switch status := resp.StatusCode; {
	case code == "GatedRepo":
		return fmt.Errorf("%s is gated: accept its terms at %s/datasets/%s and set HF_TOKEN to a token of that account", id, c.base, id)
	case status == http.StatusUnauthorized && c.config.Token == "":
		return fmt.Errorf("%s has no data set %s that anyone may read; want the id of one, or HF_TOKEN for a private one", c.base.Host, id)
	case status == http.StatusUnauthorized:
		return fmt.Errorf("%s does not accept HF_TOKEN, or has no data set %s; want a valid token, or none for a public data set", c.base.Host, id)
	case status == http.StatusForbidden:
		return fmt.Errorf("%s refuses to give out %s (HTTP 403); want its terms accepted where it is gated, and a HF_TOKEN that may read it", c.base.Host, id)
	case status == http.StatusNotFound && code != "" && code != "RepoNotFound":
		return &absent{fmt.Errorf("%s has no such file or branch (%.40q)", id, code)}
	case status == http.StatusNotFound:
		return &absent{fmt.Errorf("%s has no data set %s (HTTP 404); want its id as in the address of its page", c.base.Host, id)}
	case status == http.StatusTooManyRequests || status >= 500:
		return &transient{fmt.Errorf("%s answers HTTP %d", resp.Request.URL.Host, status)}
	default:
		return fmt.Errorf("%s answers HTTP %d", resp.Request.URL.Host, status)
	}
}
