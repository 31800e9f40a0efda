package sim_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/servebench/servebench/bench/sim"
)

// call answers one request without a network.
func call(t testing.TB, h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// capture is a recorded response of vLLM 0.32.0: status line, headers and body.
func capture(t testing.TB, name string) (status string, header http.Header, body string) {
	t.Helper()
	raw := readFile(t, name+".txt")
	head, body, ok := strings.Cut(raw, "\r\n\r\n")
	if !ok {
		t.Fatalf("%s: no end of headers", name)
	}
	lines := strings.Split(head, "\r\n")
	header = http.Header{}
	for _, line := range lines[1:] {
		key, value, _ := strings.Cut(line, ": ")
		header.Set(key, value)
	}
	return lines[0], header, body
}

func readFile(t testing.TB, name string) string {
	t.Helper()
	files, _ := filepath.Glob("../../testdata/vllm/*/" + name)
	if len(files) != 1 {
		t.Fatalf("%d files of the name %s", len(files), name)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// pipeNet is a network of one listener and any number of net.Pipe connections: it works in a synctest bubble.
type pipeNet struct {
	conns chan net.Conn
	once  sync.Once
	gone  chan struct{}
}

func newPipeNet() *pipeNet { return &pipeNet{conns: make(chan net.Conn), gone: make(chan struct{})} }

func (n *pipeNet) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.gone:
		return nil, net.ErrClosed
	}
}

func (n *pipeNet) Close() error   { n.once.Do(func() { close(n.gone) }); return nil }
func (n *pipeNet) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (n *pipeNet) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case n.conns <- server:
		return client, nil
	case <-n.gone:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// served is a server in a bubble, and its client.
type served struct {
	*http.Client
	stop context.CancelFunc
	done chan error // Serve's result
}

func serve(t testing.TB, c sim.Config) *served {
	l := newPipeNet()
	ctx, stop := context.WithCancel(t.Context())
	s := &served{&http.Client{Transport: &http.Transport{DialContext: l.dial}}, stop, make(chan error, 1)}
	go func() { s.done <- sim.New(c).Serve(ctx, l) }()
	return s
}

// close stops the server and reports what Serve returned.
func (s *served) close(t testing.TB) {
	t.Helper()
	s.CloseIdleConnections()
	s.stop()
	if err := <-s.done; err != nil {
		t.Errorf("Serve: %v", err)
	}
}

// event is one payload and when it was read.
type event struct {
	at   time.Duration
	data string
}

// stream posts body and reads the events; at counts from the call. The error is the one that ended reading early.
func (s *served) stream(ctx context.Context, path, body string) ([]event, error) {
	start := time.Now()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://sim"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := s.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var events []event
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, err
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			events = append(events, event{time.Since(start), strings.TrimSuffix(data, "\n")})
		}
	}
}

func (s *served) get(t testing.TB, path string) string {
	t.Helper()
	resp, err := s.Get("http://sim" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
