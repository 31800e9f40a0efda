package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// server is a running vLLM.
type server struct {
	kind string // plain, speculative, pooling or timing
	url  string
}

// modelName is what the servers call their model.
const modelName = "tiny"

// serving starts a server, hands it to f, and stops it whatever happens.
func (s *suite) serving(ctx context.Context, kind, model string, args, env []string, f func(*server) error) (err error) {
	name := "e2e-" + kind
	stop := func() error {
		// Not ctx: an interrupt is the very time to stop.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		defer cancel()
		out, err := command(ctx, "bash", filepath.Join(s.scripts, "stop.sh"), name).CombinedOutput()
		if err != nil {
			return fmt.Errorf("stop the %s server: %w: %s", kind, err, out)
		}
		return nil
	}
	if err := stop(); err != nil { // one that a SIGKILL left behind
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	port, err := freePort()
	if err != nil {
		return err
	}
	s.infof("starting the %s server on port %d", kind, port)
	start := command(ctx, "bash", append([]string{filepath.Join(s.scripts, "start.sh"), name, strconv.Itoa(port), model}, args...)...)
	start.Env = append(os.Environ(), env...)
	if out, err := start.CombinedOutput(); err != nil {
		return fmt.Errorf("start the %s server: %w: %s", kind, err, out)
	}
	return f(&server{kind: kind, url: fmt.Sprintf("http://127.0.0.1:%d", port)})
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// totals are the tokens that a server has counted since it started.
type totals struct{ prompt, generation int64 }

func (t totals) minus(o totals) totals {
	return totals{t.prompt - o.prompt, t.generation - o.generation}
}

// totals reads /metrics.
func (srv *server) totals(ctx context.Context) (totals, error) {
	body, err := get(ctx, srv.url+"/metrics")
	if err != nil {
		return totals{}, err
	}
	prompt, ok := counter(body, "vllm:prompt_tokens_total")
	generation, ok2 := counter(body, "vllm:generation_tokens_total")
	if !ok || !ok2 {
		return totals{}, errors.New("/metrics has no token counters")
	}
	return totals{int64(prompt), int64(generation)}, nil
}

// settled reads /metrics until it says want or, as the server counts a moment
// after it has answered, for two seconds.
func (srv *server) settled(ctx context.Context, before, want totals) (totals, error) {
	for end := time.Now().Add(2 * time.Second); ; {
		now, err := srv.totals(ctx)
		if d := now.minus(before); err != nil || d == want || time.Now().After(end) {
			return d, err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return totals{}, ctx.Err()
		}
	}
}

// counter sums a counter over its labels in Prometheus' text format.
func counter(text []byte, name string) (sum float64, found bool) {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err == nil {
			sum, found = sum+v, true
		}
	}
	return sum, found
}

func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, res.Status)
	}
	return io.ReadAll(res.Body)
}
