package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/servebench/servebench/bench/sim"
	"github.com/servebench/servebench/bench/sweep"
)

const (
	canaryKey  = "canary-key-0123456789"
	canaryHome = "/nest/canaryhome"
	canaryHost = "canaryhost-7"
	canaryUser = "canaryuser"
	everything = canaryKey + " " + canaryHome + "/x http://u:canarypassword@10.1.2.3/ " + canaryUser + "@" + canaryHost
)

// canary puts what must not be published where the environment has it.
func canary(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", canaryKey)
	t.Setenv("HOME", canaryHome)
	t.Setenv("SERVEBENCH_PRIVATE_NAMES", canaryHost+","+canaryUser)
}

// gossip is a simulator that answers each n-th request for tokens with an error that
// tells all it knows.
func gossip(t *testing.T, nth int64) *httptest.Server {
	s := sim.New(sim.Config{TTFT: time.Millisecond, ITL: 100 * time.Microsecond})
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && n.Add(1)%nth == 0 {
			http.Error(w, `{"error":{"message":"`+everything+` and `+strings.ReplaceAll(everything, "/", "%2F")+`"}}`, http.StatusInternalServerError)
			return
		}
		s.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	return srv
}

// loose lists the files of a folder that have a canary in them or in their names.
func loose(t *testing.T, dir string) (found []string, files int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		text := e.Name() + "\n" + string(data)
		for _, c := range []string{"canary", "10.1.2.3"} {
			if i := strings.Index(text, c); i >= 0 {
				found = append(found, fmt.Sprintf("%s: …%s…", e.Name(), text[max(0, i-60):min(len(text), i+60)]))
			}
		}
	}
	return found, len(entries)
}

// Whatever a user or a server says where, no file has the key, the home folder, the
// host, the user, the password or the LAN address.
func TestNoCanaryInAnyFile(t *testing.T) {
	canary(t)
	half, always := gossip(t, 2).URL, gossip(t, 1).URL
	t.Setenv("SAVE_TO_PYTORCH_BENCHMARK_FORMAT", "1")
	subject := filepath.Join(t.TempDir(), "subject.yaml")
	text := "identifier: " + canaryUser + "/model\narchitecture: from " + canaryHost + "\nmodifications: [\"by " + canaryUser + " for " + canaryKey + "\"]\nquantization: {format: " + canaryHome + "/q}\n"
	if err := os.WriteFile(subject, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, url string
		args      []string
		want      int
	}{
		{"all places", half, []string{"--model", canaryHome + "/models/" + canaryUser, "--served-model-name", canaryUser, "--label", canaryHost, "--metadata", "by=" + canaryUser, canaryUser + "=" + canaryHome + "/x", "all=" + everything,
			"--header", "X-Auth=" + canaryKey, "X-Of=" + canaryUser, "--extra-body", `{"user":"` + canaryUser + `","note":"` + everything + `"}`, "--request-id-prefix", canaryHost + "-",
			"--subject", subject, "--plot-timeline", "--plot-dataset-stats", "--lora-modules", canaryUser, canaryHome + "/lora"}, 0},
		{"a model with a server's name", half, []string{"--model", canaryUser + "/" + canaryHost, "--append-result", "--result-filename", "all.jsonl"}, 0},
		{"nothing works", always, []string{"--model", "m"}, exitTarget},
	} {
		dir := t.TempDir()
		base := strings.Replace(c.url, "http://", "http://"+canaryUser+":canarypassword@", 1)
		args := append([]string{"serve", "--base-url", base, "--num-prompts", "6", "--random-input-len", "8", "--random-output-len", "4", "--skip-tokenizer-init",
			"--save-result", "--save-detailed", "--result-dir", dir, "--fail-on-leak", "--ready-check-timeout-sec", "0"}, c.args...)
		if slices.Contains(args, "--append-result") {
			args = slices.DeleteFunc(args, func(s string) bool { return s == "--save-result" })
		}
		code, _, errs := command(t, args...)
		if code != c.want {
			t.Errorf("%s: exit %d, want %d: %s", c.name, code, c.want, errs)
		}
		found, files := loose(t, dir)
		if len(found) > 0 || files < 3 {
			t.Errorf("%s: %d files, and in them:\n%s", c.name, files, strings.Join(found, "\n"))
		}
	}
}

// A file that an author adds to a sweep is looked at before anything runs.
func TestSweepFailsOnLeak(t *testing.T) {
	canary(t)
	notes := filepath.Join(t.TempDir(), "notes.md")
	if err := os.WriteFile(notes, []byte("measured on "+canaryHost+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	experimentOf(t, "", func(e *sweep.Experiment) {
		e.About.ArtifactFiles = []sweep.File{{Path: notes, Kind: "other", ID: "notes", MediaType: "text/markdown"}}
	}, "a")
	dir := t.TempDir()
	code, _, errs := command(t, "sweep", "-f", "x.yaml", "--result-dir", dir, "--fail-on-leak")
	want := notes + ":1: leak: name\n"
	if code != exitUsage || !strings.Contains(errs, want) || !strings.Contains(errs, "holds what must not be published") {
		t.Errorf("exit %d, want %q: %s", code, want, errs)
	}
}

// What a file holds beyond our reach ends the run with a code of its own, and the
// message says where and what kind, not what.
func TestFailOnLeak(t *testing.T) {
	canary(t)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, `{"choices":[{"text":"I run as `+canaryUser+` on 10.1.2.3"}],"usage":{"prompt_tokens":8,"completion_tokens":4}}`)
	}))
	defer srv.Close()
	dir := t.TempDir()
	args := []string{"serve", "--base-url", srv.URL, "--model", "m", "--num-prompts", "2", "--random-input-len", "8", "--random-output-len", "4", "--skip-tokenizer-init", "--stream=false",
		"--save-result", "--save-detailed", "--result-dir", dir, "--result-filename", "r.json"}
	if code, _, errs := command(t, args...); code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	code, _, errs := command(t, append(args, "--fail-on-leak")...)
	want := filepath.Join(dir, "r.json") + ":1: leak: /generated_texts/0: lan_address, name\n"
	if code != exitInvalid || !strings.Contains(errs, want) || strings.Contains(errs, canaryUser) || strings.Contains(errs, "10.1.2.3") {
		t.Errorf("exit %d: %s", code, errs)
	}
	m := filepath.Join(dir, "r.manifest.json")
	if code, out, errs := command(t, "manifest", "verify", m); code != 0 {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if code, _, errs := command(t, "manifest", "verify", "--fail-on-leak", m); code != exitInvalid || !strings.Contains(errs, "r.json:1: leak: /generated_texts/0: lan_address, name\n") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, _, errs := command(t, "manifest", "redact", "--fail-on-leak", m); code != 0 {
		t.Errorf("exit %d: %s", code, errs)
	}
}
