package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// recorder stands between a client and a server and keeps the bodies of the
// requests that carry a number in their x-request-id. It is safe
// for concurrent use.
type recorder struct {
	*httptest.Server
	prefix string

	mu       sync.Mutex
	seen     map[int][]seen // by number
	nameless int            // without a number
}

// seen is one request as it came.
type seen struct {
	at   time.Time // its headers had been read
	path string
	body []byte
}

// newRecorder starts a recorder in front of target for ids that begin with prefix.
func newRecorder(target, prefix string) (*recorder, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, err
	}
	r := &recorder{prefix: prefix, seen: make(map[int][]seen)}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(u) },
		FlushInterval: -1, // a token at a time
		Transport:     &http.Transport{MaxIdleConnsPerHost: 64},
	}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		at := time.Now()
		body, err := io.ReadAll(req.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if req.Method == http.MethodPost && !strings.HasSuffix(req.URL.Path, "tokenize") {
			r.keep(req.Header.Get("X-Request-Id"), seen{at, req.URL.Path, body})
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		req.ContentLength = int64(len(body))
		forward.ServeHTTP(w, req)
	}))
	return r, nil
}

func (r *recorder) keep(id string, s seen) {
	r.mu.Lock()
	defer r.mu.Unlock()
	number, ok := strings.CutPrefix(id, r.prefix)
	i, err := strconv.Atoi(number)
	if !ok || err != nil {
		r.nameless++
		return
	}
	r.seen[i] = append(r.seen[i], s)
}

// take returns what was seen, request 0 to n-1, and forgets it. Every number
// must have come once, and nothing else.
func (r *recorder) take(n int) ([]seen, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	defer func() { clear(r.seen); r.nameless = 0 }()
	if r.nameless > 0 || len(r.seen) != n {
		return nil, fmt.Errorf("%d numbered requests and %d others, want %d and 0", len(r.seen), r.nameless, n)
	}
	out := make([]seen, n)
	for i := range out {
		if len(r.seen[i]) != 1 {
			return nil, fmt.Errorf("request %d came %d times", i, len(r.seen[i]))
		}
		out[i] = r.seen[i][0]
	}
	return out, nil
}

// differences compares two bodies as JSON: a line for each field that is not the
// same in both.
func differences(a, b []byte) ([]string, error) {
	var x, y map[string]json.RawMessage
	if err := json.Unmarshal(a, &x); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &y); err != nil {
		return nil, err
	}
	var out []string
	for _, k := range keysOf(x, y) {
		if u, v := canonical(x[k]), canonical(y[k]); u != v {
			out = append(out, fmt.Sprintf("%s: %s and %s", k, around(u, v), around(v, u)))
		}
	}
	return out, nil
}

// canonical is a JSON value in one spelling; "absent" for none.
func canonical(raw json.RawMessage) string {
	if raw == nil {
		return "absent"
	}
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(b)
}

// around is the part of a where it stops being b.
func around(a, b string) string {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	from, to := max(0, i-20), min(len(a), i+40)
	return strings.ToValidUTF8(a[from:to], "?")
}
