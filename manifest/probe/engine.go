package probe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// engineTimeout bounds each of the three requests; they run side by side.
const engineTimeout = 3 * time.Second

// The most that is read of each answer.
const (
	smallBody   = 1 << 20
	metricsBody = 16 << 20
)

// Server is what an engine says about itself. A field that is zero is unknown,
// except Name.
type Server struct {
	// Name is vllm, servebench-sim or unknown: the engine of the manifest.
	Name string
	// Version fits the manifest's runtime.version.
	Version string
	// Simulated says that there is no model behind the answers.
	Simulated bool
	// Models are those served, in the server's order, at most a hundred.
	Models []Model
	// Parameters are engine arguments under the names of the manifest's
	// runtime.parameters.server: max_model_len, prefix_caching,
	// gpu_memory_utilization, kv_cache_dtype, max_loras. It is nil if none is
	// known.
	Parameters map[string]any
	// Cache is what vLLM made of its KV cache, under its own names: block_size,
	// num_gpu_blocks, kv_cache_size_tokens, kv_cache_max_concurrency (requests of
	// max_model_len tokens that it holds). It is nil if none is known.
	Cache map[string]any
}

// Model is one entry of /v1/models.
type Model struct {
	ID          string // the name to put in a request
	Root        string // the repository or folder it was loaded from
	OwnedBy     string
	MaxModelLen int64 // tokens
}

// Engine asks the server at baseURL (with or without a trailing /v1) for
// /version, /v1/models and /metrics, sending header with each; a nil client is
// [http.DefaultClient]. Redirects are not followed, so that a key stays where
// it belongs.
//
// It fails in nothing: an endpoint that is not there is silence, one that
// answers wrongly or not at all within seconds a warning. It returns when all
// requests have ended and is safe for concurrent use.
func Engine(ctx context.Context, client *http.Client, baseURL string, header http.Header) (Server, []string) {
	if client == nil {
		client = http.DefaultClient
	}
	direct := *client
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	base := strings.TrimSuffix(strings.TrimRight(baseURL, "/"), "/v1")

	var version, models, metrics answer
	var wait sync.WaitGroup
	for path, a := range map[string]*answer{"/version": &version, "/v1/models": &models, "/metrics": &metrics} {
		limit := smallBody
		if a == &metrics {
			limit = metricsBody
		}
		wait.Go(func() { *a = get(ctx, &direct, base+path, path, header, limit) })
	}
	wait.Wait()

	var s Server
	var warnings []string
	s.readVersion(&version)
	s.readModels(&models)
	vllm := s.readMetrics(&metrics)
	s.name(vllm, version.server, models.server, metrics.server)
	for _, a := range []answer{version, models, metrics} {
		if a.err != nil {
			warnings = append(warnings, fmt.Sprintf("GET %s: %v", a.path, a.err))
		}
	}
	return s, warnings
}

// answer is what came back for one path. A body is only there with status 200;
// neither a body nor an error means that the path is not served.
type answer struct {
	path   string
	body   []byte
	server string // the Server header
	err    error
}

func get(ctx context.Context, client *http.Client, address, path string, header http.Header, limit int) answer {
	a := answer{path: path}
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		a.err = errors.New("the base URL is no URL") // err would repeat it, and what it may hold
		return a
	}
	if header != nil {
		request.Header = header.Clone()
	}
	response, err := client.Do(request)
	if err != nil {
		a.err = withoutURL(err)
		return a
	}
	defer response.Body.Close()
	a.server = response.Header.Get("Server")
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return a
	default:
		a.err = fmt.Errorf("status %d", response.StatusCode)
		return a
	}
	// What arrived before an error or the limit may still hold what is sought.
	a.body, err = io.ReadAll(io.LimitReader(response.Body, int64(limit)))
	if err != nil {
		a.err = withoutURL(err)
	}
	return a
}

// withoutURL leaves the URL out of an error of net/http: it may hold a password.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

func (s *Server) readVersion(a *answer) {
	var v struct{ Version string }
	if a.body == nil || a.err != nil {
		return
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		a.err = errors.New("the answer is not JSON of a version")
		return
	}
	if versionForm(v.Version) {
		s.Version = v.Version
	} else if v.Version != "" {
		a.err = errors.New("the version does not fit the manifest")
	}
}

// versionForm matches the schema's ^[A-Za-z0-9][A-Za-z0-9.+_-]*$, and is short.
func versionForm(s string) bool {
	return s != "" && len(s) <= 100 && isWord(s[:1], "") && isWord(s, ".+_-")
}

func isWord(s, extra string) bool {
	for _, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		if !letter && !strings.ContainsRune(extra, r) {
			return false
		}
	}
	return true
}

func (s *Server) readModels(a *answer) {
	if a.body == nil || a.err != nil {
		return
	}
	var list struct {
		Data []struct {
			ID          string      `json:"id"`
			Root        string      `json:"root"`
			OwnedBy     string      `json:"owned_by"`
			MaxModelLen json.Number `json:"max_model_len"`
		} `json:"data"`
	}
	if err := json.Unmarshal(a.body, &list); err != nil {
		a.err = errors.New("the answer is not JSON of a model list")
		return
	}
	for _, m := range list.Data[:min(len(list.Data), 100)] {
		length, err := m.MaxModelLen.Int64()
		if err != nil || length < 0 {
			length = 0
		}
		s.Models = append(s.Models, Model{clip(m.ID), clip(m.Root), clip(m.OwnedBy), length})
		if length > 0 && s.Parameters["max_model_len"] == nil {
			s.set("max_model_len", length)
		}
	}
}

// clip bounds a text of the server's making.
func clip(s string) string {
	const most = 512
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "")
	}
	return s
}

func (s *Server) set(key string, value any) {
	if s.Parameters == nil {
		s.Parameters = make(map[string]any)
	}
	s.Parameters[key] = value
}

// readMetrics looks for vLLM's metrics and what their info labels say. A second
// engine is configured as the first. Speculation has counters, but no info.
func (s *Server) readMetrics(a *answer) (vllm bool) {
	lines := bufio.NewScanner(bytes.NewReader(a.body))
	lines.Buffer(nil, metricsBody+1)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "vllm:") {
			continue
		}
		vllm = true
		if text, ok := strings.CutPrefix(line, "vllm:cache_config_info{"); ok && s.Cache == nil {
			s.Cache = map[string]any{}
			s.readCacheConfig(labels(text))
		}
		if text, ok := strings.CutPrefix(line, "vllm:lora_requests_info{"); ok {
			if n, err := strconv.ParseInt(labels(text)["max_lora"], 10, 32); err == nil && n > 0 {
				s.set("max_loras", n)
			}
		}
	}
	if len(s.Cache) == 0 {
		s.Cache = nil
	}
	return vllm
}

// readCacheConfig takes over what vLLM calls, in Python's spelling, its cache
// configuration.
func (s *Server) readCacheConfig(config map[string]string) {
	switch config["enable_prefix_caching"] {
	case "True":
		s.set("prefix_caching", true)
	case "False":
		s.set("prefix_caching", false)
	}
	if f, err := strconv.ParseFloat(config["gpu_memory_utilization"], 64); err == nil && f > 0 && f <= 1 {
		s.set("gpu_memory_utilization", f)
	}
	if dtype := config["cache_dtype"]; dtype != "" && len(dtype) <= 100 && isWord(dtype, "._-") {
		s.set("kv_cache_dtype", dtype)
	}
	for _, key := range []string{"block_size", "num_gpu_blocks", "kv_cache_size_tokens"} {
		if n, err := strconv.ParseInt(config[key], 10, 64); err == nil && n > 0 {
			s.Cache[key] = n
		}
	}
	if f, err := strconv.ParseFloat(config["kv_cache_max_concurrency"], 64); err == nil && f > 0 && f < 1e12 {
		s.Cache["kv_cache_max_concurrency"] = f
	}
}

// labels reads the labels of a line in the Prometheus text format, from behind
// the opening brace: name="value", with \\, \" and \n in a value. It ends at
// the closing brace or at the first thing that is no label.
func labels(text string) map[string]string {
	found := make(map[string]string)
	for {
		text = strings.TrimLeft(text, ", \t")
		name, rest, ok := strings.Cut(text, "=")
		rest = strings.TrimLeft(rest, " \t")
		if !ok || !isWord(strings.TrimSpace(name), "_") || !strings.HasPrefix(rest, `"`) {
			return found
		}
		value, after, ok := labelValue(rest[1:])
		if !ok {
			return found
		}
		found[strings.TrimSpace(name)] = value
		text = after
	}
}

// labelValue reads up to the closing quote.
func labelValue(text string) (value, after string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:], true
		case c == '\\' && i+1 < len(text):
			i++
			if c = text[i]; c == 'n' {
				c = '\n'
			}
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return "", "", false
}

const simulator = "servebench-sim"

// name decides which engine this is. The simulator imitates vLLM and has its
// metrics, so it goes first.
func (s *Server) name(vllm bool, servers ...string) {
	for _, m := range s.Models {
		s.Simulated = s.Simulated || strings.Contains(m.OwnedBy, simulator)
	}
	for _, header := range servers {
		s.Simulated = s.Simulated || strings.Contains(header, simulator)
	}
	switch {
	case s.Simulated:
		s.Name = simulator
	case vllm:
		s.Name = "vllm"
	default:
		s.Name = "unknown"
	}
}
