package sim_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/servebench/servebench/bench/sim"
)

// onWire serves c on a socket, past net/http or through it, and returns what a
// client reads that writes request, without what is another each time.
func onWire(t *testing.T, c sim.Config, direct bool, request string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := sim.New(c)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	if direct {
		all.Go(func() { s.Serve(ctx, l) })
	} else {
		srv := &http.Server{Handler: s}
		all.Go(func() { srv.Serve(l) })
		defer srv.Close()
	}
	defer all.Wait()
	defer l.Close()
	defer stop()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	changes := regexp.MustCompile(`Date: [^\r]*|"created(_at)?":[0-9.]+|"completed_at":[0-9.]+|"(sent|arrived)_ns":[0-9]+`)
	return string(changes.ReplaceAll(got, []byte("...")))
}

func post(version, path, body string) string {
	return fmt.Sprintf("POST %s HTTP/%s\r\nHost: sim\r\nConnection: close\r\nX-Request-Id: a\r\nContent-Length: %d\r\n\r\n%s", path, version, len(body), body)
}

// TestDirectIsTheSame: what is on the wire does not depend on who writes it.
func TestDirectIsTheSame(t *testing.T) {
	chat := `{"messages":[{"role":"user","content":"a"}],"max_tokens":20,"stream":true,"stream_options":{"include_usage":true}}`
	for name, request := range map[string]string{
		"completion":       post("1.1", "/v1/completions", streamBody("a", 20)),
		"one token":        post("1.1", "/v1/completions", streamBody("a", 1)),
		"chat":             post("1.1", "/v1/chat/completions", chat),
		"response":         post("1.1", "/v1/responses", responseBody(20)),
		"HTTP/1.0":         post("1.0", "/v1/completions", streamBody("a", 20)),
		"not a stream":     post("1.1", "/v1/completions", `{"prompt":"a","max_tokens":20}`),
		"refused":          post("1.1", "/v1/completions", `{"prompt":`),
		"a second in line": strings.Replace(post("1.1", "/v1/completions", streamBody("a", 3)), "Connection: close\r\n", "", 1) + post("1.1", "/v1/completions", streamBody("b", 3)),
	} {
		for kind, c := range map[string]sim.Config{
			"paced": {ITL: 100 * time.Microsecond, TokensPerChunk: 3, Jitter: 0.5, Truth: true}, "at once": {}, "engine": {Engine: &sim.Engine{ChunkedPrefill: true, StepBase: 1}},
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				want := onWire(t, c, false, request)
				if got := onWire(t, c, true, request); got != want {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
			})
		}
	}
}

// A reader that does not read loses nothing, and holds up nobody else.
func TestASlowReaderHoldsUpNobody(t *testing.T) {
	const tokens = 25_000 // more than the sockets hold
	c := sim.Config{ITL: time.Nanosecond, MaxModelLen: 1 << 20}
	request := post("1.1", "/v1/completions", streamBody("a", tokens))
	s := sim.New(c)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { s.Serve(ctx, l) })
	defer all.Wait()
	defer stop()
	open := func() net.Conn {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		return conn
	}
	slow, quick, gone := open(), open(), open()
	defer slow.Close()
	defer quick.Close()
	gone.Close() // in the middle of its answer, most likely
	count := func(conn net.Conn) (events int) {
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if bytes.HasPrefix(lines.Bytes(), []byte("data: ")) {
				events++
			}
		}
		return events
	}
	for _, conn := range []net.Conn{quick, slow} {
		if got := count(conn); got != tokens+1 {
			t.Errorf("%d events, want %d", got, tokens+1)
		}
	}
}
