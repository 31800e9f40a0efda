package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// The workflow, the GitLab job and the action are run here as their hosts would run
// them, as far as they are scripts: the expressions are filled in, each step is a bash
// with the variables of a step, and servebench on the PATH is this program. Checkout
// and the like are left out.

// workflowFile is what there is of a workflow, and of an action.
type workflowFile struct {
	Jobs map[string]struct {
		Steps []workflowStep
	}
	Inputs  map[string]struct{ Default string }
	Outputs map[string]struct{ Value string }
	Runs    struct {
		Steps []workflowStep
	}
}

type workflowStep struct {
	ID, If, Uses, Run string
	With, Env         map[string]string
}

// workflow is one job under way.
type workflow struct {
	t    *testing.T
	dir  string   // the workspace
	env  []string // of every step
	gate string   // the action's folder
	said strings.Builder
}

// exprs are the names that expressions may use, with their values.
type exprs map[string]string

var (
	expression = regexp.MustCompile(`\$\{\{\s*(.*?)\s*\}\}`)
	name       = regexp.MustCompile(`^(inputs|steps|github|env)\.[\w.-]+$`)
)

// term is the value of a name or of a text in quotes.
func (w *workflow) term(x exprs, s string) string {
	s = strings.TrimSpace(s)
	if text, ok := strings.CutPrefix(s, "'"); ok {
		if text, ok = strings.CutSuffix(text, "'"); ok && !strings.Contains(text, "'") {
			return text
		}
	}
	if !name.MatchString(s) {
		w.t.Fatalf("an expression that this test does not know: %q", s)
	}
	return x[s]
}

// fill puts the values of expressions into a text: a || b is the first that is not empty.
func (w *workflow) fill(x exprs, text string) string {
	return expression.ReplaceAllStringFunc(text, func(m string) string {
		for part := range strings.SplitSeq(expression.FindStringSubmatch(m)[1], "||") {
			if v := w.term(x, part); v != "" {
				return v
			}
		}
		return ""
	})
}

// due tells whether a step is to run, after one that failed or not.
func (w *workflow) due(x exprs, condition string, failed bool) bool {
	holds, always := true, false
	for part := range strings.SplitSeq(condition, "&&") {
		if part = strings.TrimSpace(part); part == "always()" {
			always = true
		} else if a, b, ok := strings.Cut(part, "=="); ok {
			holds = holds && w.term(x, a) == w.term(x, b)
		} else if part != "" {
			w.t.Fatalf("a condition that this test does not know: %q", part)
		}
	}
	return holds && (always || !failed)
}

// steps runs the steps of a job or of an action, whose exit code is that of the first
// that fails.
func (w *workflow) steps(list []workflowStep, x exprs) (code int) {
	for _, s := range list {
		if !w.due(x, s.If, code != 0) {
			continue
		}
		with := maps.Clone(s.With)
		for k, v := range with {
			with[k] = w.fill(x, v)
		}
		one, outputs := 0, exprs(nil)
		switch action, _, _ := strings.Cut(s.Uses, "@"); {
		case s.Run != "":
			one, outputs = w.script(s, x)
		case strings.HasSuffix(action, ".github/actions/gate"):
			one, outputs = w.action(with)
		case action == "actions/upload-artifact":
			if _, err := os.Stat(filepath.Join(w.dir, with["path"])); err != nil {
				w.t.Errorf("to upload: %v", err)
			}
		case action != "actions/checkout" && action != "actions/setup-go":
			w.t.Fatalf("an action that this test does not know: %q", s.Uses)
		}
		for k, v := range outputs {
			x["steps."+s.ID+".outputs."+k] = v
		}
		if code == 0 {
			code = one
		}
	}
	return code
}

// action runs the composite action.
func (w *workflow) action(with map[string]string) (code int, outputs exprs) {
	a := readWorkflow(w.t, filepath.Join(w.gate, "action.yml"))
	x := exprs{"github.action_path": w.gate}
	for k, in := range a.Inputs {
		x["inputs."+k] = in.Default
	}
	for k, v := range with {
		if _, ok := a.Inputs[k]; !ok {
			w.t.Fatalf("the action has no input %s", k)
		}
		x["inputs."+k] = v
	}
	code, outputs = w.steps(a.Runs.Steps, x), exprs{}
	for k, out := range a.Outputs {
		outputs[k] = w.fill(x, out.Value)
	}
	return code, outputs
}

// script runs a step's script. An expression in it would be a way in for those who
// choose the values.
func (w *workflow) script(s workflowStep, x exprs) (code int, outputs exprs) {
	if expression.MatchString(s.Run) {
		w.t.Errorf("a script with an expression: %s", s.Run)
	}
	file := filepath.Join(w.t.TempDir(), "outputs")
	env := append(w.env[:len(w.env):len(w.env)], "GITHUB_OUTPUT="+file)
	for k, v := range s.Env {
		env = append(env, k+"="+w.fill(x, v))
	}
	code = w.bash(s.Run, env)
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	outputs = exprs{}
	for line := range strings.Lines(string(text)) {
		k, v, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !ok {
			w.t.Errorf("not an output: %q", line)
		}
		outputs[k] = v
	}
	return code, outputs
}

func (w *workflow) bash(script string, env []string) int {
	cmd := exec.CommandContext(w.t.Context(), "bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script)
	cmd.Dir, cmd.Env = w.dir, env
	out, err := cmd.CombinedOutput()
	w.said.Write(out)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	} else if err != nil {
		w.t.Fatal(err)
	}
	return 0
}

func readWorkflow(t *testing.T, path string) (f workflowFile) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(data, &f)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return f
}

// newWorkflow is a workspace with servebench and a gh that keeps what it is given.
func newWorkflow(t *testing.T, programs map[string]string) *workflow {
	t.Helper()
	w := &workflow{t: t, dir: t.TempDir()}
	bin := t.TempDir()
	for name, text := range programs {
		path := filepath.Join(bin, name)
		if text != "" {
			if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		} else if self, err := os.Executable(); err != nil || os.Symlink(self, path) != nil {
			t.Fatal(err)
		}
	}
	var err error
	if w.gate, err = filepath.Abs("../../.github/actions/gate"); err != nil {
		t.Fatal(err)
	}
	w.env = append(os.Environ(), "SERVEBENCH_TEST_MAIN=1", "OPENAI_API_KEY=", "GITHUB_ACTIONS=true", "GITHUB_ACTION_PATH="+w.gate, "RUNNER_TEMP="+t.TempDir(),
		"GITHUB_STEP_SUMMARY="+filepath.Join(w.dir, "summary.md"), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return w
}

// A load of a second in the place of the example's; what is slower is so by far more
// than what a busy machine makes of it.
const shortLoad = "--pairs 5 --effect 20% --primary output_throughput --model m --skip-tokenizer-init --num-prompts 8 --max-concurrency 8 --random-input-len 8 --random-output-len 24 --temperature 0"

func simCommand(itl string) string {
	return "{servebench} sim --host {host} --port {port} --ttft 20ms --itl " + itl
}

// commentOnly is a gh that keeps the comment.
const commentOnly = `#!/bin/sh
[ "$1 $2 $3" = "pr comment 7" ] && [ -n "$GH_TOKEN" ] || exit 9
while [ "$1" != --body-file ]; do shift; done
cp "$2" comment.md
`

func TestWorkflow(t *testing.T) {
	job := readWorkflow(t, "../../docs/examples/gate-github.yml").Jobs["gate"]
	for _, c := range []struct {
		name      string
		candidate string
		args      string
		code      int
		verdict   string
		says      string // on the screen
	}{
		{"equal", simCommand("20ms"), "", 0, "PASS", "::notice title=servebench gate PASS::output_throughput: No loss of 20 %"},
		{"slower", simCommand("32ms"), "", exitRegression, "FAIL", "::error title=servebench gate FAIL::output_throughput: A loss beyond 20 %"},
		{"does not start", "false {port}", "", exitTarget, "INCONCLUSIVE", "::warning title=servebench gate INCONCLUSIVE::Not all runs could be made"},
		{"a mistake", simCommand("20ms"), " --effect 0", exitUsage, "", "--effect: 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorkflow(t, map[string]string{"servebench": "", "gh": commentOnly})
			x := exprs{
				"inputs.baseline": simCommand("20ms"), "inputs.candidate": c.candidate, "inputs.load": shortLoad + " --result-dir gate/runs" + c.args,
				"github.token": "token", "github.event_name": "pull_request", "github.repository": "o/r", "github.event.pull_request.head.repo.full_name": "o/r", "github.event.pull_request.number": "7",
			}
			code := w.steps(job.Steps, x)
			if code != c.code || !strings.Contains(w.said.String(), c.says) {
				t.Fatalf("exit %d, want %d …%s…\n%s", code, c.code, c.says, &w.said)
			}
			if got := x["steps.gate.outputs.verdict"]; got != c.verdict || x["steps.gate.outputs.exit-code"] != fmt.Sprint(c.code) || (c.verdict != "" && x["steps.gate.outputs.reason"] == "") {
				t.Errorf("%q, want %s", x, c.verdict)
			}
			comment, err := os.ReadFile(filepath.Join(w.dir, "comment.md"))
			if c.verdict == "" {
				if err == nil {
					t.Errorf("a comment without a verdict: %s", comment)
				}
				return
			}
			summary, _ := os.ReadFile(filepath.Join(w.dir, "summary.md"))
			if err != nil || !strings.Contains(string(comment), c.verdict+": servebench gate (paired)") || string(summary) != string(comment) {
				t.Errorf("%v: comment %s, summary %s", err, comment, summary)
			}
			if r := readReport(t, filepath.Join(w.dir, "gate/verdict.json")); string(r.Verdict) != c.verdict {
				t.Errorf("%+v", r)
			}
		})
	}
}

// The GitLab job, and the report that its page shows.
func TestGitLabJob(t *testing.T) {
	var file map[string]struct {
		Variables    map[string]string
		BeforeScript []string `yaml:"before_script"`
		Script       []string
		Artifacts    struct {
			Paths   []string
			Reports struct{ JUnit string }
		}
	}
	data, err := os.ReadFile("../../docs/examples/gate-gitlab.yml")
	if err == nil {
		err = yaml.Unmarshal(data, &file)
	}
	job := file["throughput"]
	if err != nil || len(job.Script) == 0 {
		t.Fatalf("%v: %+v", err, job)
	}
	for _, c := range []struct {
		itl  string
		code int
		says string
	}{{"20ms", 0, `failures="0"`}, {"32ms", exitRegression, "<failure"}} {
		t.Run(c.itl, func(t *testing.T) {
			t.Parallel()
			w := newWorkflow(t, map[string]string{"servebench": ""})
			env := append(w.env, "GITHUB_ACTIONS=")
			for k, v := range job.Variables {
				if k == "LOAD" {
					v = shortLoad
				}
				env = append(env, k+"="+strings.ReplaceAll(v, "10ms", "20ms"))
			}
			env = append(env, "CANDIDATE="+simCommand(c.itl))
			code := w.bash(strings.Join(append(job.BeforeScript, job.Script...), "\n"), env)
			report, err := os.ReadFile(filepath.Join(w.dir, job.Artifacts.Reports.JUnit))
			if code != c.code || err != nil || !strings.Contains(string(report), c.says) {
				t.Errorf("exit %d, %v, %s\n%s", code, err, report, &w.said)
			}
		})
	}
}

// The action's other inputs, on results that are there.
func TestGateAction(t *testing.T) {
	for _, c := range []struct {
		name    string
		with    map[string]string
		code    int
		verdict string
		says    string
	}{
		{"file", map[string]string{"mode": "file", "baseline": "good.json", "result": "slow.json"}, exitRegression, "FAIL", "Weak evidence"},
		{"absolute", map[string]string{"mode": "absolute", "result": "good.json", "require": "output_throughput >= 890\n\n  itl.p50 < 2ms\n"}, 0, "PASS", "itl.p50 < 2ms"},
		{"inconclusive", map[string]string{"mode": "history", "history": "history", "result": "good.json"}, exitInvalid, "INCONCLUSIVE", "want 10 or more"},
		{"inconclusive is a warning", map[string]string{"mode": "history", "history": "history", "result": "good.json", "on-inconclusive": "warn"}, 0, "INCONCLUSIVE", "::warning"},
		{"a quoted word", map[string]string{"mode": "absolute", "result": "good.json", "args": `--require "output_throughput >= 890" --require 'p99_ttft << 1'`, "require": "output_throughput > 1"}, exitUsage, "", "^"},
		{"no script", map[string]string{"mode": "absolute", "result": "good.json", "require": "$(touch pwned)\n`touch pwned`", "args": "; touch pwned $(touch pwned)"}, exitUsage, "", "servebench"},
		{"a quote alone", map[string]string{"mode": "absolute", "result": "good.json", "require": "output_throughput > 1", "args": `--primary "x`}, exitUsage, "", "quotes in pairs"},
		{"no mode", map[string]string{"mode": "best", "result": "good.json"}, exitUsage, "", "want paired, history, file or absolute"},
		{"of another mode", map[string]string{"mode": "absolute", "require": "output_throughput > 1", "result": "good.json", "baseline": "good.json"}, exitUsage, "", "mode absolute does not take baseline"},
		{"no baseline", map[string]string{"mode": "file", "result": "good.json"}, exitUsage, "", "baseline is missing"},
		{"no binary", map[string]string{"binary": "none/servebench"}, exitUsage, "", "none/servebench is not there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorkflow(t, map[string]string{"servebench": ""})
			write(t, w.dir, "good.json", keptResult(900, "VALID", "aa"))
			write(t, w.dir, "slow.json", keptResult(820, "VALID", "aa"))
			history := filepath.Join(w.dir, "history")
			if err := os.Mkdir(history, 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, history, "1.json", strings.Replace(keptResult(900, "VALID", "aa"), "20261201", "20261101", 1))
			code, outputs := w.action(c.with)
			if code != c.code || outputs["verdict"] != c.verdict || !strings.Contains(w.said.String(), c.says) {
				t.Errorf("exit %d, %q, want %d %s …%s…\n%s", code, outputs, c.code, c.verdict, c.says, &w.said)
			}
			if _, err := os.Stat(filepath.Join(w.dir, "pwned")); err == nil {
				t.Error("an input was run as a script")
			}
		})
	}
}

// Without a servebench the action builds one of its own repository.
func TestGateActionBuilds(t *testing.T) {
	w := newWorkflow(t, map[string]string{"go": "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\n[ -f cmd/servebench/main.go ] && [ \"$3\" = ./cmd/servebench ] && ln -s \"$SELF\" \"$2\"\n"})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.SplitList(strings.TrimPrefix(w.env[len(w.env)-1], "PATH="))[0]
	w.env = append(w.env, "SELF="+self, "PATH="+bin+":/usr/bin:/bin") // there is none of a user's there
	write(t, w.dir, "good.json", keptResult(900, "VALID", "aa"))
	code, outputs := w.action(map[string]string{"mode": "absolute", "result": "good.json", "require": "output_throughput >= 890"})
	if code != 0 || outputs["verdict"] != "PASS" {
		t.Errorf("exit %d %q\n%s", code, outputs, &w.said)
	}
}
