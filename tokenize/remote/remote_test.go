package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/servebench/servebench/tokenize/remote"
)

// serve answers every request with status and body, and tells what was asked.
func serve(t *testing.T, status int, body string) (base string, asked func() (path, body string, header http.Header)) {
	t.Helper()
	var path, got string
	var header http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		path, got, header = r.Method+" "+r.URL.Path, string(data), r.Header
		w.WriteHeader(status)
		io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() (string, string, http.Header) { return path, got, header }
}

func TestEncodeAsksLikeVLLM(t *testing.T) {
	// The answer is a capture of vLLM 0.32.0.
	base, asked := serve(t, 200, `{"count":7,"max_model_len":8192,"tokens":[9707,1879,11,1081,2391,23455,27484],"token_strs":null}`)
	client := remote.New(nil, base+"/v1/", "tiny", http.Header{"Authorization": {"Bearer k"}})
	ids, err := client.Encode(t.Context(), "Hello world, grüße 🙂 <b>", false)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{9707, 1879, 11, 1081, 2391, 23455, 27484}; !reflect.DeepEqual(ids, want) {
		t.Errorf("ids %v, want %v", ids, want)
	}
	path, body, header := asked()
	if want := "POST /tokenize"; path != want {
		t.Errorf("asked %q, want %q", path, want)
	}
	if want := `{"model":"tiny","prompt":"Hello world, grüße 🙂 <b>","add_special_tokens":false}` + "\n"; body != want {
		t.Errorf("body %s, want %s", body, want)
	}
	if header.Get("Authorization") != "Bearer k" || header.Get("Content-Type") != "application/json" {
		t.Errorf("header %v", header)
	}
}

func TestDecodeAsksLikeVLLM(t *testing.T) {
	base, asked := serve(t, 200, `{"prompt":"Hello world"}`)
	client := remote.New(http.DefaultClient, base, "tiny", nil)
	text, err := client.Decode(t.Context(), []int{9707, 1879})
	if err != nil || text != "Hello world" {
		t.Fatalf("text %q, error %v", text, err)
	}
	if path, body, _ := asked(); path != "POST /detokenize" || body != `{"model":"tiny","tokens":[9707,1879]}`+"\n" {
		t.Errorf("asked %s %s", path, body)
	}
	if _, err := client.Decode(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if _, body, _ := asked(); !strings.Contains(body, `"tokens":[]`) {
		t.Errorf("no ids are sent as %s, want an empty list", body)
	}
}

func TestVocabularyIsUnknown(t *testing.T) {
	if _, ok := remote.New(nil, "http://x", "m", nil).Vocabulary(); ok {
		t.Error("ok, want not")
	}
}

func TestRefusalsHaveStatusAndCleanBody(t *testing.T) {
	base, _ := serve(t, 404, "{\"error\":\n\t\"no \x1b[31mmodel\x00\xff\"}"+strings.Repeat("é", 4096))
	_, err := remote.New(nil, base, "m", nil).Encode(t.Context(), "x", true)
	refused, ok := errors.AsType[*remote.Error](err)
	if !ok || refused.Status != 404 {
		t.Fatalf("error %v, want a *remote.Error of 404", err)
	}
	if len(refused.Body) > 512 || len(refused.Body) < 500 {
		t.Errorf("body of %d bytes, want nearly 512", len(refused.Body))
	}
	if want := `{"error": "no [31mmodel "}éé`; !strings.HasPrefix(refused.Body, want) {
		t.Errorf("body %q, want prefix %q", refused.Body[:40], want)
	}
	if !strings.Contains(err.Error(), "/tokenize: status 404 (a server without this endpoint") {
		t.Errorf("error %v", err)
	}
}

func TestOddAnswersAreErrors(t *testing.T) {
	for _, row := range []struct{ name, body, want string }{
		{"not JSON", "<html>", "not an answer"},
		{"empty", "", "not an answer"},
		{"cut off", `{"tokens":[1,2`, "not an answer"},
		{"ids are strings", `{"tokens":["1"]}`, "not an answer"},
		{"ids are not whole", `{"tokens":[1.5]}`, "not an answer"},
		{"no ids", `{"count":2}`, "without tokens"},
		{"null ids", `{"count":0,"tokens":null}`, "without tokens"},
		{"count differs", `{"count":3,"tokens":[1,2]}`, "of 2 tokens says count 3"},
		{"too large", strings.Repeat(" ", 64<<20) + "{}", "more than 67108864 bytes"},
	} {
		t.Run(row.name, func(t *testing.T) {
			base, _ := serve(t, 200, row.body)
			ids, err := remote.New(nil, base, "m", nil).Encode(t.Context(), "x", true)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("ids %v, error %v, want one with %q", ids, err, row.want)
			}
		})
	}
	base, _ := serve(t, 200, `{"tokens":[1]}`)
	if _, err := remote.New(nil, base, "m", nil).Decode(t.Context(), []int{1}); err == nil {
		t.Error("decode without prompt: no error")
	}
}

func TestEmptyTextIsNoTokens(t *testing.T) {
	base, _ := serve(t, 200, `{"count":0,"tokens":[]}`)
	ids, err := remote.New(nil, base, "m", nil).Encode(t.Context(), "", false)
	if err != nil || len(ids) != 0 {
		t.Errorf("ids %v, error %v", ids, err)
	}
}

func TestUnreachableServerAndCanceledContext(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	if _, err := remote.New(nil, server.URL, "m", nil).Encode(t.Context(), "x", false); err == nil {
		t.Error("closed server: no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	base, _ := serve(t, 200, `{"tokens":[]}`)
	if _, err := remote.New(nil, base, "m", nil).Encode(ctx, "x", false); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	if _, err := remote.New(nil, "::", "m", nil).Encode(t.Context(), "x", false); err == nil {
		t.Error("no URL: no error")
	}
}

// The captures are vLLM's own words.
func TestCapturedAnswers(t *testing.T) {
	const folder = "../../testdata/vllm/other"
	for name, want := range map[string]string{"tokenize_text.txt": "[9707 1879 11 1081 2391 23455 27484]", "detokenize.txt": "Hello world"} {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(data), "\r\n\r\n")
		if body == "" {
			_, body, _ = strings.Cut(string(data), "\n\n")
		}
		base, _ := serve(t, 200, body)
		client := remote.New(nil, base, "tiny", nil)
		var got string
		if strings.HasPrefix(name, "tokenize") {
			ids, err := client.Encode(t.Context(), "", false)
			got = fmt.Sprint(ids)
			if err != nil {
				t.Error(err)
			}
		} else if got, err = client.Decode(t.Context(), []int{1}); err != nil {
			t.Error(err)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func ExampleClient() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"count":2,"tokens":[9707,1879]}`)
	}))
	defer server.Close()
	client := remote.New(http.DefaultClient, server.URL, "qwen3", nil)
	ids, err := client.Encode(context.Background(), "Hello world", true)
	fmt.Println(ids, err)
	// Output: [9707 1879] <nil>
}
