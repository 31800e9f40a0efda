package probe

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// server answers by path without a network.
type server map[string]func(*http.Request) *http.Response

func (s server) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, ok := s[r.URL.Path]
	if !ok {
		answer = status(http.StatusNotFound, `{"detail":"Not Found"}`)
	}
	response := answer(r)
	if response == nil { // it hangs
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	response.Request = r
	return response, nil
}

func status(code int, body string, header ...string) func(*http.Request) *http.Response {
	return func(*http.Request) *http.Response {
		h := make(http.Header)
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader(body))}
	}
}

func ok(body string, header ...string) func(*http.Request) *http.Response {
	return status(http.StatusOK, body, header...)
}

func captured(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func vllm(t testing.TB) server {
	return server{"/version": ok(captured(t, "version.json"), "Server", "uvicorn"), "/v1/models": ok(captured(t, "models.json")), "/metrics": ok(captured(t, "metrics.txt"))}
}

func TestEngineVLLM(t *testing.T) {
	want := Server{Name: "vllm", Version: "0.32.0", Models: []Model{{ID: "tiny", Root: "/models/qwen3", OwnedBy: "vllm", MaxModelLen: 8192}},
		Parameters: map[string]any{"max_model_len": int64(8192), "prefix_caching": true, "gpu_memory_utilization": 0.92, "kv_cache_dtype": "auto"},
		Cache:      map[string]any{"block_size": int64(128), "num_gpu_blocks": int64(16384), "kv_cache_size_tokens": int64(2097152), "kv_cache_max_concurrency": 256.0}}
	for _, base := range []string{"http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"} {
		got, warnings := Engine(t.Context(), &http.Client{Transport: vllm(t)}, base, nil)
		if diff := cmp.Diff(want, got); diff != "" || len(warnings) > 0 {
			t.Errorf("%s: %s %v", base, diff, warnings)
		}
	}
}

// Labels as vLLM 0.32 writes them with --enable-lora, of two engines.
func TestEngineInfoLabels(t *testing.T) {
	s := server{"/metrics": ok(`vllm:lora_requests_info{max_lora="4",running_lora_adapters="",waiting_lora_adapters="a\"b"} 1.7e+09
vllm:cache_config_info{block_size="16",cache_dtype="fp8",engine="0",kv_cache_max_concurrency="3.5",num_gpu_blocks="None"} 1.0
vllm:cache_config_info{block_size="32",cache_dtype="auto",engine="1"} 1.0
`)}
	got, warnings := Engine(t.Context(), &http.Client{Transport: s}, "http://h", nil)
	want := Server{Name: "vllm", Parameters: map[string]any{"max_loras": int64(4), "kv_cache_dtype": "fp8"},
		Cache: map[string]any{"block_size": int64(16), "kv_cache_max_concurrency": 3.5}}
	if diff := cmp.Diff(want, got); diff != "" || len(warnings) > 0 {
		t.Error(diff, warnings)
	}
}

func TestEngineSendsTheHeader(t *testing.T) {
	seen := make(chan string, 3)
	answer := func(r *http.Request) *http.Response {
		seen <- r.URL.Path + " " + r.Header.Get("Authorization")
		return status(http.StatusFound, "", "Location", "http://elsewhere/")(r)
	}
	s := server{"/version": answer, "/v1/models": answer, "/metrics": answer}
	_, warnings := Engine(t.Context(), &http.Client{Transport: s}, "http://h", http.Header{"Authorization": {"Bearer k"}})
	close(seen)
	n := 0
	for line := range seen {
		n++
		if !strings.HasSuffix(line, " Bearer k") {
			t.Error(line)
		}
	}
	if n != 3 || len(warnings) != 3 {
		t.Errorf("%d requests, a redirect may have been followed; %v", n, warnings)
	}
}

func TestEngineNames(t *testing.T) {
	check := func(why, want string, simulated bool, s server) {
		t.Helper()
		got, _ := Engine(t.Context(), &http.Client{Transport: s}, "http://h", nil)
		if got.Name != want || got.Simulated != simulated {
			t.Errorf("%s: %+v", why, got)
		}
	}
	check("nothing known", "unknown", false, server{})
	check("vLLM has no metrics of its own name yet", "unknown", false, server{"/metrics": ok("python_info 1\n# about vllm:x\n")})
	check("vLLM", "vllm", false, server{"/metrics": ok("x 1\nvllm:num_requests_running{engine=\"0\"} 0\n")})
	sim := vllm(t)
	sim["/v1/models"] = ok(`{"data":[{"id":"m","owned_by":"servebench-sim"}]}`)
	check("the simulator by its models", "servebench-sim", true, sim)
	sim = vllm(t)
	sim["/metrics"] = status(http.StatusNotFound, "", "Server", "servebench-sim/0.1")
	check("the simulator by its header", "servebench-sim", true, sim)
}

func TestEngineBadAnswers(t *testing.T) {
	for _, c := range []struct {
		why      string
		path     string
		answer   func(*http.Request) *http.Response
		warnings []string
	}{
		{"not served", "/version", status(404, "x"), nil},
		{"another method", "/metrics", status(405, ""), nil},
		{"no key", "/v1/models", status(401, "{}"), []string{"GET /v1/models: status 401"}},
		{"broken", "/metrics", status(500, "vllm:x"), []string{"GET /metrics: status 500"}},
		{"a page", "/version", ok("<html>"), []string{"GET /version: the answer is not JSON of a version"}},
		{"a page for the models", "/v1/models", ok("<html>"), []string{"GET /v1/models: the answer is not JSON of a model list"}},
		{"another shape", "/v1/models", ok(`{"data":{"id":1}}`), []string{"GET /v1/models: the answer is not JSON of a model list"}},
		{"a list of nothing", "/v1/models", ok(`{"data":[]}`), nil},
		{"a version that is none", "/version", ok(`{"version":"<script>"}`), []string{"GET /version: the version does not fit the manifest"}},
		{"a version without one", "/version", ok(`{"v":1}`), nil},
		{"a page for the metrics", "/metrics", ok("<html>vllm:</html>"), nil},
	} {
		s := server{c.path: c.answer}
		got, warnings := Engine(t.Context(), &http.Client{Transport: s}, "http://h", nil)
		if diff := cmp.Diff(c.warnings, warnings); diff != "" {
			t.Errorf("%s: %s", c.why, diff)
		}
		if diff := cmp.Diff(Server{Name: "unknown"}, got); diff != "" {
			t.Errorf("%s: %s", c.why, diff)
		}
	}
	if got, warnings := Engine(t.Context(), nil, "://user:secret@h", nil); got.Name != "unknown" || len(warnings) != 3 || strings.Contains(strings.Join(warnings, ""), "secret") {
		t.Error(got, warnings)
	}
}

// A server that never answers costs the timeout once, and no goroutine stays.
func TestEngineHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := func(*http.Request) *http.Response { return nil }
		got, warnings := Engine(t.Context(), &http.Client{Transport: server{"/version": hang, "/v1/models": ok(captured(t, "models.json")), "/metrics": hang}}, "http://h", nil)
		want := []string{"GET /version: context deadline exceeded", "GET /metrics: context deadline exceeded"}
		if diff := cmp.Diff(want, warnings); diff != "" || len(got.Models) != 1 {
			t.Error(diff, got)
		}
	})
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("x"), len(p))), nil }
func (endless) Close() error               { return nil }

func TestEngineBoundsBodies(t *testing.T) {
	flood := func(*http.Request) *http.Response { return &http.Response{StatusCode: 200, Body: endless{}} }
	got, warnings := Engine(t.Context(), &http.Client{Transport: server{"/version": flood, "/v1/models": flood, "/metrics": flood}}, "http://h", nil)
	if got.Name != "unknown" || len(warnings) != 2 {
		t.Error(got, warnings)
	}
	long := strings.Repeat("é", 1000)
	got, _ = Engine(t.Context(), &http.Client{Transport: server{"/v1/models": ok(`{"data":[` + strings.Repeat(`{"id":"`+long+`"},`, 150) + `{}]}`)}}, "http://h", nil)
	if len(got.Models) != 100 || len(got.Models[0].ID) > 512 {
		t.Errorf("%d models", len(got.Models))
	}
}

func TestLabels(t *testing.T) {
	check := func(text string, want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, labels(text)); diff != "" {
			t.Errorf("%s:\n%s", text, diff)
		}
	}
	check(`a="1",b="x y, z",c="q\"\\\n}"} 1`, map[string]string{"a": "1", "b": "x y, z", "c": "q\"\\\n}"})
	check(`a = "1" , } 1`, map[string]string{"a": "1"})
	check(`} 1`, map[string]string{})
	check(`a="open`, map[string]string{})
	check(`a="1",b=2} 1`, map[string]string{"a": "1"})
	check(`a="\`, map[string]string{})
}

func FuzzEngine(f *testing.F) {
	f.Add(captured(f, "version.json"), captured(f, "models.json"), captured(f, "metrics.txt"))
	f.Add("{}", "null", "vllm:cache_config_info{gpu_memory_utilization=\"NaN\",cache_dtype=\"a b\"} 1")
	f.Fuzz(func(t *testing.T, version, models, metrics string) {
		s, _ := Engine(context.Background(), &http.Client{Transport: server{"/version": ok(version), "/v1/models": ok(models), "/metrics": ok(metrics)}}, "http://h", nil)
		if s.Version != "" && !versionForm(s.Version) || len(s.Models) > 100 {
			t.Error(s)
		}
	})
}
