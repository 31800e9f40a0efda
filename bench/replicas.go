package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/servebench/servebench/loadgen"
	"github.com/servebench/servebench/loadgen/openai"
	"github.com/servebench/servebench/manifest/probe"
	"github.com/servebench/servebench/metrics"
)

// target is one of the servers that share a load.
type target struct {
	client *openai.Client
	url    string
	name   string // for messages, without its address
}

// whose begins a sentence.
func (t *target) whose() string { return strings.ToUpper(t.name[:1]) + t.name[1:] + "'s" }

func (t *target) base() string { return strings.TrimSuffix(strings.TrimRight(t.url, "/"), "/v1") }

// fleet is the targets in the order of the replicas' numbers; there is at least
// one. Request i goes to target i mod n, whatever became of those before it: who
// gets which prompt does not depend on the weather.
type fleet []target

var _ loadgen.Client = (fleet)(nil)

// Do implements [loadgen.Client].
func (f fleet) Do(ctx context.Context, clock loadgen.Clock, req *loadgen.Request, rec *metrics.Record) {
	rec.Replica = rec.Seq % len(f)
	f[rec.Replica].client.Do(ctx, clock, req, rec)
}

// openFleet makes the clients; first is that of Target.BaseURL.
func openFleet(cfg *Config) (fleet, error) {
	first, err := openai.New(cfg.Target)
	if err != nil {
		return nil, fmt.Errorf("base-url: %w", err)
	}
	f := fleet{{first, cfg.Target.BaseURL, "the server"}}
	for i, url := range cfg.Replicas {
		c := cfg.Target
		c.BaseURL = url
		client, err := first.Sibling(c)
		if err != nil {
			f.close()
			return nil, fmt.Errorf("replica-url: %w", err)
		}
		f[0].name = "replica 0"
		f = append(f, target{client, url, fmt.Sprintf("replica %d", i+1)})
	}
	return f, nil
}

func (f fleet) close() {
	for i := range f {
		f[i].client.Close()
	}
}

// each calls do for all targets side by side and joins the errors, which get the
// target's name in front where there are several.
func (f fleet) each(do func(i int, t *target) error) error {
	errs := make([]error, len(f))
	var wg sync.WaitGroup
	for i := range f {
		wg.Go(func() {
			if errs[i] = do(i, &f[i]); errs[i] != nil && len(f) > 1 {
				errs[i] = fmt.Errorf("%s: %w", f[i].name, errs[i])
			}
		})
	}
	wg.Wait()
	var all error // in one line: it may be a failure of the manifest
	for _, err := range errs {
		switch {
		case err == nil:
		case all == nil:
			all = err
		default:
			all = fmt.Errorf("%w; %w", all, err)
		}
	}
	return all
}

// open opens n connections to each target, or as many as it gets requests. With
// one slow replica all that are in flight may be in flight there.
func (f fleet) open(ctx context.Context, n, requests int) (opened int, err error) {
	n = min(n, (requests+len(f)-1)/len(f))
	return n * len(f), f.each(func(_ int, t *target) error { return t.client.Open(ctx, n) })
}

// post sends an empty POST to an address below the base URL.
func (t *target) post(ctx context.Context, path string, limit time.Duration) (status int, body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.base()+path, nil)
	if err != nil {
		return 0, nil, err
	}
	req.Header = t.client.Headers()
	res, err := t.client.HTTP().Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the address
		}
		return 0, nil, err
	}
	defer res.Body.Close()
	const most = 1 << 20
	body, err = io.ReadAll(io.LimitReader(res.Body, most)) // to the end, to use the connection again
	return res.StatusCode, body, err
}

// look asks each target what it is. The first one speaks for all; a warning says
// where the others differ from it.
func (s *session) look(ctx context.Context) {
	infos, warnings := make([]probe.Server, len(s.fleet)), make([][]string, len(s.fleet))
	_ = s.fleet.each(func(i int, t *target) error {
		infos[i], warnings[i] = probe.Engine(ctx, t.client.HTTP(), t.url, t.client.Headers())
		return nil
	})
	s.res.Engine = infos[0]
	for i, w := range warnings {
		for _, text := range w {
			if len(s.fleet) > 1 {
				text = s.fleet[i].name + ": " + text
			}
			s.res.Warnings = append(s.res.Warnings, text)
		}
	}
	for i := range infos {
		if what := different(&infos[0], &infos[i]); len(what) > 0 {
			s.warnf("Replica %d is not as replica 0: it differs in %s.", i, strings.Join(what, ", "))
		}
	}
}

// different names what sets two servers apart.
func different(a, b *probe.Server) (what []string) {
	add := func(name string, same bool) {
		if !same {
			what = append(what, name)
		}
	}
	add("engine", a.Name == b.Name)
	add("version", a.Version == b.Version)
	add("models", slices.EqualFunc(a.Models, b.Models, func(x, y probe.Model) bool { return x.ID == y.ID && x.Root == y.Root }))
	text := func(p map[string]any) string { b, _ := json.Marshal(p); return string(b) } // scalars only
	add("parameters", text(a.Parameters) == text(b.Parameters))
	return what
}

// How long a reset may take, and be tried: vLLM refuses one while a request still
// holds memory, which the ready check's has just given back.
const (
	resetTimeout = 30 * time.Second
	resetPatient = 5 * time.Second
	resetEvery   = 100 * time.Millisecond
)

// resetPrefixCaches makes the servers forget what they know of prompts, if that was
// asked for. Numbers with a cache that should have been empty would mislead, so a
// failure ends the run.
func (s *session) resetPrefixCaches(ctx context.Context) error {
	if !s.cfg.ResetPrefixCache {
		return nil
	}
	var category string
	var mu sync.Mutex
	err := s.fleet.each(func(_ int, t *target) error {
		c, err := t.resetPrefixCache(ctx)
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			category = c
		}
		return err
	})
	if err != nil {
		return &TargetError{"prefix_cache_reset", category, fmt.Errorf("the prefix cache was not reset: %w", err)}
	}
	s.res.reset = true
	return nil
}

// resetPrefixCache returns a failure with its class.
func (t *target) resetPrefixCache(ctx context.Context) (category string, err error) {
	const path = "/reset_prefix_cache"
	for deadline := time.Now().Add(resetPatient); ; {
		status, body, err := t.post(ctx, path, resetTimeout)
		switch {
		case err != nil:
			return "connect", fmt.Errorf("POST %s: %w", path, err)
		case status == http.StatusNotFound:
			return "http_404", fmt.Errorf("POST %s: HTTP 404: vLLM has it only when it was started with VLLM_SERVER_DEV_MODE=1 in its environment", path)
		case status != http.StatusOK:
			return fmt.Sprintf("http_%d", status), fmt.Errorf("POST %s: HTTP %d", path, status)
		}
		// Before version 0.12 or so vLLM answered with nothing.
		var answer struct{ Success *bool }
		if json.Unmarshal(body, &answer) != nil || answer.Success == nil || *answer.Success {
			return "", nil
		}
		if time.Until(deadline) < resetEvery {
			return "refused", fmt.Errorf("POST %s: the server refuses: some requests still hold a part of the cache", path)
		}
		if !pause(ctx, resetEvery) {
			return "interrupted", context.Cause(ctx)
		}
	}
}

// validateReplicas looks at the further servers.
func (c *Config) validateReplicas() (errs []error) {
	seen := []string{strings.TrimRight(c.Target.BaseURL, "/")}
	for _, text := range c.Replicas {
		u, err := url.Parse(text)
		public := openai.PublicURL(text)
		switch text = strings.TrimRight(text, "/"); {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "":
			errs = append(errs, fmt.Errorf("replica-url: %q is no base URL; want http://HOST:PORT or https://HOST", public))
		case strings.HasSuffix(text, "/v1") && strings.HasPrefix(c.Target.Endpoint, "/v1/"):
			errs = append(errs, fmt.Errorf("replica-url: %s ends in /v1, which the endpoint %s begins with; want the part before it", public, c.Target.Endpoint))
		case slices.Contains(seen, text):
			errs = append(errs, fmt.Errorf("replica-url: %s is there twice; want a server once", public))
		default:
			seen = append(seen, text)
		}
	}
	return errs
}

// warmupDoubts warns of replicas that no warm-up request reaches.
func (s *session) warmupDoubts() {
	if n := len(s.res.Plan.warmups); n > 0 && n < len(s.fleet) {
		s.warnf("%d warm-up requests do not reach all %d replicas.", n, len(s.fleet))
	}
}

// loopback tells that all servers are addressed on this machine's loopback.
func (c *Config) loopback() bool {
	return !slices.ContainsFunc(c.baseURLs(), func(base string) bool {
		host := hostOf(base)
		ip := net.ParseIP(host)
		return !strings.EqualFold(host, "localhost") && !(ip != nil && ip.IsLoopback())
	})
}

// here tells that no server is known to be on another machine.
func (c *Config) here() bool {
	if c.Target.Dial != nil || c.loopback() {
		return true
	}
	own, _ := net.InterfaceAddrs()
	name, _ := os.Hostname()
	return !slices.ContainsFunc(c.baseURLs(), func(base string) bool {
		host := hostOf(base)
		ip := net.ParseIP(host)
		isOwn := func(a net.Addr) bool {
			n, ok := a.(*net.IPNet)
			return ok && n.IP.Equal(ip)
		}
		return !strings.EqualFold(host, "localhost") && !strings.EqualFold(host, name) && !slices.ContainsFunc(own, isOwn)
	})
}

func (c *Config) baseURLs() []string { return append([]string{c.Target.BaseURL}, c.Replicas...) }

func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// addresses are the names and addresses of the servers, which no file may hold. That of
// this machine tells nobody anything.
func (c *Config) addresses() (names, numbers []string) {
	for _, base := range c.baseURLs() {
		host := hostOf(base)
		ip := net.ParseIP(host)
		switch {
		case strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback():
		case ip != nil:
			numbers = append(numbers, host)
		default:
			names = append(names, host)
		}
	}
	return names, numbers
}

// failuresByReplica says how many requests failed at each of n servers.
func failuresByReplica(records []metrics.Record, n int) string {
	failed := make([]int, n)
	for i := range records {
		if o := records[i].Outcome; o != "" && o != metrics.OK {
			failed[records[i].Replica]++
		}
	}
	var parts []string
	for k, m := range failed {
		parts = append(parts, fmt.Sprintf("%d went to replica %d", m, k))
	}
	return strings.Join(parts, ", ")
}

// replicas are the counts and latencies of each server; nil where there is one.
func (r *Result) replicas() []any {
	n := 1 + len(r.Config.Replicas)
	if n == 1 || len(r.Records) == 0 {
		return nil
	}
	parts := make([][]metrics.Record, n)
	for i := range r.Records {
		// Those that were never sent have no replica of their own yet.
		k := r.Records[i].Seq % n
		parts[k] = append(parts[k], r.Records[i])
	}
	var out []any
	for k, records := range parts {
		s := metrics.Summarize(records, r.options())
		one := map[string]any{
			"replica": k, "completed": s.Completed, "failed": s.Failed,
			"input_tokens": s.InputTokens, "output_tokens": s.OutputTokens,
		}
		for name, d := range map[string]*metrics.Dist{"ttft_ms": s.Token.TTFT, "e2el_ms": s.Token.E2EL} {
			if d != nil {
				one[name] = distJSON(d, basePercentiles)
			}
		}
		out = append(out, one)
	}
	return out
}
