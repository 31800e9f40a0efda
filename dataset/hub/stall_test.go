package hub

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// silent answers with some bytes and then none until its request is given up.
type silent struct{ requests *int }

func (s silent) RoundTrip(req *http.Request) (*http.Response, error) {
	*s.requests++
	return &http.Response{StatusCode: http.StatusOK, Request: req, ContentLength: 100,
		Body: struct {
			io.Reader
			io.Closer
		}{io.MultiReader(strings.NewReader("[    "), waiting{req.Context()}), io.NopCloser(nil)}}, nil
}

type waiting struct{ ctx context.Context }

func (w waiting) Read([]byte) (int, error) {
	<-w.ctx.Done()
	return 0, context.Cause(w.ctx)
}

// A download without bytes is given up after a minute, four times, with 1, 2 and
// 3 seconds between.
func TestStalledDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Config{Cache: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		requests := 0
		c.http = newHTTP(silent{&requests}, c.base, "")
		start := time.Now()
		err = c.fill(t.Context(), "org/set", "https://huggingface.co/x", filepath.Join(t.TempDir(), "f"), object{Size: 100, SHA256: strings.Repeat("0", 64)})
		if err == nil || err.Error() != "after 5 bytes: no byte for 1m0s" {
			t.Errorf("error %v", err)
		}
		if took := time.Since(start); requests != 4 || took != 4*time.Minute+6*time.Second {
			t.Errorf("%d requests in %v", requests, took)
		}
	})
}

// The context's end leaves what there is for the next time.
func TestCanceledDownload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Config{Cache: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		requests := 0
		c.http = newHTTP(silent{&requests}, c.base, "")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		path := filepath.Join(t.TempDir(), "f")
		err = c.fill(ctx, "org/set", "https://huggingface.co/x", path, object{Size: 100, SHA256: strings.Repeat("0", 64)})
		if err == nil || requests != 1 || !strings.Contains(err.Error(), context.DeadlineExceeded.Error()) {
			t.Errorf("%d requests, error %v", requests, err)
		}
		if left, _ := os.ReadFile(path); string(left) != "[    " {
			t.Errorf("left %q", left)
		}
	})
}

// A list of files without bytes is given up after a minute.
func TestStalledList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := New(Config{Cache: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		requests := 0
		c.http = newHTTP(silent{&requests}, c.base, "")
		start := time.Now()
		_, err = c.Files(t.Context(), "org/set")
		if err == nil || err.Error() != "list the files of org/set at huggingface.co: no byte for 1m0s" {
			t.Errorf("error %v", err)
		}
		if took := time.Since(start); requests != 1 || took != time.Minute {
			t.Errorf("%d requests in %v", requests, took)
		}
	})
}
