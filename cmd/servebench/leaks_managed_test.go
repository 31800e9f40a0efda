package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/servebench/servebench/bench/sim"
)

// telltale is a server, for TestMain: it logs its arguments, its environment and all
// that it was asked, and every other answer is an error that repeats it.
func telltale(args []string) int {
	var told strings.Builder
	fmt.Fprintf(&told, "%s | %s", strings.Join(args, " "), everything)
	for _, v := range os.Environ() {
		if strings.Contains(v, "canary") {
			fmt.Fprintf(&told, " | %s", v)
		}
	}
	fmt.Fprintf(os.Stderr, "INFO env %s\nWARNING uncalibrated %s\n", told.String(), told.String())
	if slices.Contains(args, "--no-start") {
		fmt.Fprintf(os.Stderr, "Traceback (most recent call last):\nValueError: %s\n", told.String())
		return 3
	}
	s := sim.New(sim.Config{TTFT: time.Millisecond, ITL: 100 * time.Microsecond})
	var n atomic.Int64
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(os.Stderr, "INFO %s %s %v\n", r.Method, r.URL, r.Header)
		if r.Method == http.MethodPost && n.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusInternalServerError)
			io.WriteString(w, `{"error":{"message":"`+strings.ReplaceAll(told.String(), `"`, `'`)+`"}}`)
			return
		}
		s.ServeHTTP(w, r)
	})
	addr := args[slices.Index(args, "--host")+1] + ":" + args[slices.Index(args, "--port")+1]
	fmt.Fprintln(os.Stderr, http.ListenAndServe(addr, handler))
	return 1
}

// canaryRun is a run file with canaries wherever it takes text. The flags of bench
// follow it.
const canaryRun = `subject:
  identifier: canaryuser/model
  architecture: made on canaryhost-7
  modifications: ["by canaryuser on canaryhost-7 with canary-key-0123456789"]
  quantization: {format: /nest/canaryhome/q, application: canaryhost-7}
host:
  os: canaryuser OS on canaryhost-7
  accelerators: [{model: GPU of canaryhost-7, vendor: NVIDIA, count: 1}]
environment: {topology: canaryhost-7 at 10.1.2.3, interconnect: canaryuser's, virtual_environment: {python: /nest/canaryhome/bin/python}}
server:
  command: ["{servebench}", --host, "{host}", --port, "{port}", --api-key, canary-server-key-1, canary-server-key-2, --hf-token=canary-hub-1, --model, "{model}",
    --download-dir, /nest/canaryhome/models, --hf-overrides, '{"access_token": "canary-override-1"}', --note, "{who} on canaryhost-7", --peer, "http://canaryuser:canarypassword@10.1.2.3:8000"%s]
  env: {SERVEBENCH_TEST_TELLTALE: 1, HF_TOKEN: canary-hub-token-9, DB_PASSWORD: canary-db-1, WANDB_API_KEY: canary-wandb-1, NOTE: "canaryuser at canaryhost-7, 10.1.2.3", CACHE: /nest/canaryhome/cache}
  dir: %q
  log_warnings: [uncalibrated]
  safe_env: ["*"]
  stop_timeout: 5s
  ready_timeout: 20s
  build_identifier: canaryuser-build
  dependencies: {canaryuser: canaryhost-7}
  parameters: {note: canaryhost-7, api_key: canary-parameter-1, nested: {canaryuser: [canaryhost-7]}}
vars: {who: canaryuser}
labels: {who: canaryuser, canaryhost-7: "10.1.2.3", path: /nest/canaryhome/x}
auxiliary_models: [{role: canaryuser, repository: canaryuser/draft, quantization: canaryhost-7}]
load_balancer: {type: canaryhost-7}
prefix_behavior: {cache_state: canaryuser, reset_policy: canaryhost-7}
telemetry: {engine_metrics: true}
publish:
  name: "canaryuser on canaryhost-7 {who}"
  notes: "canary-key-0123456789 canary-hub-token-9 canary-server-key-2 /nest/canaryhome/x canaryuser@canaryhost-7 http://u:canarypassword@10.1.2.3/"
  license: CC-BY-4.0
  dataset_license: CC-BY-4.0
  warnings: ["canaryuser on canaryhost-7"]
bench:
  dataset-name: custom
  dataset-path: %q
  custom-output-len: 4
  skip-chat-template: true
  num-prompts: 6
  skip-tokenizer-init: true
  tokenizer: /nest/canaryhome/tokenizer
  served-model-name: canaryuser
  label: canaryhost-7
  metadata: [by=canaryuser, canaryuser=/nest/canaryhome/x, "all=canary-key-0123456789 canaryuser@canaryhost-7 10.1.2.3"]
  header: [X-Auth=canary-header-1, X-Of=canaryuser]
  extra-body: {user: canaryuser, note: "canaryhost-7 10.1.2.3", api_key: canary-body-1}
  request-id-prefix: canaryhost-7-
  save-result: true
  save-detailed: true
  fail-on-leak: true
  result-dir: %q
`

// canaryFiles makes the folders and files that a run file names; the returned text
// is the run file.
func canaryFiles(t *testing.T, dir, more string) string {
	t.Helper()
	private := filepath.Join(t.TempDir(), "canaryuser")
	if err := os.Mkdir(private, 0o700); err != nil {
		t.Fatal(err)
	}
	prompts := write(t, private, "canaryhost-7.jsonl", strings.Repeat(`{"prompt":"canaryprompt of canaryuser"}`+"\n", 6))
	return fmt.Sprintf(canaryRun, more, private, prompts, dir)
}

// tellsNothing holds what a command printed and wrote against the canaries.
func tellsNothing(t *testing.T, dir, printed string, least int) {
	t.Helper()
	found, files := loose(t, dir)
	if len(found) > 0 || files < least {
		t.Errorf("%d files, and in them:\n%s", files, strings.Join(found, "\n"))
	}
	for line := range strings.Lines(printed) {
		if strings.Contains(line, "canary") || strings.Contains(line, "10.1.2.3") {
			t.Errorf("printed: %s", line)
		}
	}
}

// A run file with canaries everywhere, and a server of its own that repeats all it
// knows, in its log and in its answers: nothing of it is in a file or on the screen.
func TestManagedServersTellNothing(t *testing.T) {
	for _, c := range []struct {
		name, more string
		want       int
	}{
		{"runs", "", 0},
		{"does not start", ", --no-start", exitTarget},
	} {
		t.Run(c.name, func(t *testing.T) {
			canary(t)
			t.Setenv("HF_TOKEN", "canary-own-token-1")
			dir := t.TempDir()
			file := write(t, t.TempDir(), "run.yaml", canaryFiles(t, dir, c.more))
			code, out, errs := command(t, "serve", "-f", file)
			if code != c.want {
				t.Errorf("exit %d, want %d: %s", code, c.want, errs)
			}
			tellsNothing(t, dir, out+errs, 2)
			m, err := filepath.Glob(filepath.Join(dir, "*.manifest.json"))
			if err != nil || len(m) != 1 {
				t.Fatalf("%v, %v", m, err)
			}
			if code, out, errs := command(t, "manifest", "verify", "--fail-on-leak", m[0]); code != 0 {
				t.Errorf("exit %d: %s%s", code, out, errs)
			}
		})
	}
}

// The same of an experiment: its points, its state, its page and its manifest.
func TestExperimentsTellNothing(t *testing.T) {
	canary(t)
	t.Setenv("HF_TOKEN", "canary-own-token-1")
	dir, folder := t.TempDir(), t.TempDir()
	write(t, folder, "methodology.md", "# How\n\nOn a machine.\n")
	file := write(t, folder, "x.yaml", `experiment:
  id: x
  title: canaryuser on canaryhost-7
  summary: canary-key-0123456789 /nest/canaryhome/x
  objective: "canary-hub-token-9 canary-server-key-2 canaryuser@canaryhost-7"
  methodology: http://u:canarypassword@10.1.2.3/ and canary-wandb-1
  conclusions: canaryuser
  limitations: [on canaryhost-7]
  tags: [canaryuser]
  license: CC-BY-4.0
  publisher_notes: {warnings: [of canaryuser], omitted_files: [canaryhost-7.log]}
  artifacts: [{file: methodology.md, kind: methodology_markdown, id: notes}]
base:
  `+strings.ReplaceAll(strings.TrimSpace(canaryFiles(t, dir, "")), "\n", "\n  ")+`
groups:
  - {group: by canaryuser, id: "p-{n}", name: "{who} {n} on canaryhost-7", repeat: 2, vary: {server.env.HF_TOKEN: [canary-vary-token-1, canary-vary-token-2], labels.who: [canaryuser]}}
  - {group: of canaryhost-7, id: "q-{n}", name: "{said}", points: [{said: "canaryhost-7 10.1.2.3", set: {server.command: ["{servebench}", --no-start, --port, "{port}", --api-key, canary-point-key-1, canary-point-key-2], vars.who: "canaryuser /nest/canaryhome"}}],
     on_failure: {retry: 1, continue: true, replacement: p-1}}
  - {group: sum, id: total, name: canaryuser's, aggregate: {sum: {group: by canaryuser}, derivation: by canaryuser, warnings: [canaryhost-7]}}
`)
	for _, more := range [][]string{{"--dry-run"}, nil, {"--resume"}} {
		code, out, errs := command(t, append([]string{"sweep", "-f", file}, more...)...)
		if code != 0 {
			t.Errorf("%v: exit %d: %s", more, code, errs)
		}
		least := 20
		if slices.Contains(more, "--dry-run") {
			least = 0
		}
		tellsNothing(t, dir, out+errs, least)
	}
	names := []string{"x.state.json", "x.html", "x.experiment.json", "methodology.md", "q-1.startup.log", "p-1-trial-1.server.log", "p-2-trial-2.requests.jsonl"}
	for _, name := range names {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if code, out, errs := command(t, "manifest", "verify", "--fail-on-leak", filepath.Join(dir, "x.experiment.json")); code != 0 {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// What would be lost after the runs is told before: ids and files of the author's that
// hold what must not be published, files that would take the place of others, and what
// fits no manifest. Nothing is run or written.
func TestExperimentsAreCheckedFirst(t *testing.T) {
	canary(t)
	for _, c := range []struct{ id, group, vendor, files, want string }{
		{"canaryhost-7", "g", "NVIDIA", "", `the id "<redacted>" holds what must not be published (name)`},
		{"x", "canaryuser", "NVIDIA", "", "holds what must not be published (name)"},
		{"x", "g", "Acme", "", "/shared/environment/accelerators/0/vendor: value must be one of"},
		{"x", "g", "NVIDIA", "{file: leak.md, kind: notes, id: n}", "leak.md holds what must not be published"},
		{"x", "g", "NVIDIA", "{file: a/n.md, kind: notes, id: n}, {file: b/N.md, kind: notes, id: m}", "have the same name"},
		{"x", "g", "NVIDIA", "{file: g-1.result.json, kind: notes, id: n}", "g-1.result.json has the name of a file that the experiment writes"},
		{"x", "g", "NVIDIA", "{file: x.html, kind: notes, id: n}", "x.html has the name of a file that the experiment writes"},
	} {
		folder, dir := t.TempDir(), filepath.Join(t.TempDir(), "results")
		for _, name := range []string{"a/n.md", "b/N.md", "g-1.result.json", "x.html", "leak.md"} {
			if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o700); err != nil {
				t.Fatal(err)
			}
			text := "ok"
			if name == "leak.md" {
				text = "of canaryuser"
			}
			write(t, filepath.Join(folder, filepath.Dir(name)), filepath.Base(name), text)
		}
		file := write(t, folder, "x.yaml", fmt.Sprintf(`experiment: {id: %s, title: t, artifacts: [%s]}
base:
  bench: {sim: true, num-prompts: 2, random-input-len: 4, random-output-len: 2, result-dir: %q}
  host: {accelerators: [{model: GPU, vendor: %s, count: 1}]}
groups: [{group: g, id: "%s-{n}", name: n}]
`, c.id, c.files, dir, c.vendor, c.group))
		code, out, errs := command(t, "sweep", "-f", file)
		if code != exitUsage || !strings.Contains(errs, c.want) || strings.Contains(out+errs, "canary") {
			t.Errorf("%s: exit %d: %s%s", c.want, code, errs, out)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s: something was written", c.want)
		}
	}
}
