package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// completionScript writes a shell's script to a file.
func completionScript(t *testing.T, shell string) string {
	t.Helper()
	code, out, errs := command(t, "completion", shell)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	file := filepath.Join(t.TempDir(), "script."+shell)
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// installed returns the shell's program. Bash must be there; CI has no other.
func installed(t *testing.T, shell string) string {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil && shell == "bash" {
		t.Fatal(err)
	} else if err != nil {
		t.Skipf("no %s here: its script is held against its golden only", shell)
	}
	return path
}

// completed are rows that every shell must complete alike. The last word is the one to
// complete.
var completed = []struct {
	reading string
	words   []string
	want    []string
}{
	{"commands", words("servebench s"), words("selftest serve sim sweep")},
	{"shells", []string{"servebench", "completion", ""}, words("bash fish zsh")},
	{"flags", words("servebench serve --ramp"), words("--ramp-up-end-rps --ramp-up-start-rps --ramp-up-strategy")},
	{"own flags", words("servebench serve --rec"), words("--records")},
	{"both forms of a toggle", words("servebench serve --no-s"), words("--no-self-timed --no-stream")},
	{"choices", words("servebench serve --backend vllm"), words("vllm vllm-pooling vllm-rerank")},
	{"refused choices are not offered", words("servebench serve --dataset-name custom_"), words("custom_image")},
	{"flags of the simulator", words("servebench sim --tok"), words("--tokens-per-chunk")},
	{"flags of vLLM that it looks at", words("servebench sim --max-num"), words("--max-num-batched-tokens --max-num-seqs")},
	{"flags of the selftest", words("servebench selftest --t"), words("--tls")},
	{"flags of the gate", words("servebench gate --base"), words("--base-url --baseline --baseline-command --baseline-url")},
	{"words behind baseline", words("servebench baseline p"), words("prune")},
	{"flags of a word of baseline", words("servebench baseline prune --k"), words("--keep")},
	{"flags of compare", words("servebench compare --a"), words("--all")},
	{"its forms", words("servebench compare --format m"), words("markdown")},
	{"and those it does not", words("servebench sim --tensor"), nil},
	{"words behind manifest", words("servebench manifest v"), words("validate verify")},
	{"flags of a word behind it", words("servebench manifest validate --p"), words("--publishable")},
	{"words behind config", words("servebench config " + "i"), words("init")},
	{"kinds of file", words("servebench config init s"), words("subject")},
	{"flags of check", words("servebench config check --r"), words("--resolved")},
	{"a value of which nothing is known", words("servebench serve --label x"), nil},
	{"a flag behind a switch", words("servebench serve --sim --sim-j"), words("--sim-jitter")},
}

func TestBashCompletes(t *testing.T) {
	bash, file := installed(t, "bash"), completionScript(t, "bash")
	dir := t.TempDir()
	for _, name := range []string{"data one.jsonl", "data.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "dataset"), 0o700); err != nil {
		t.Fatal(err)
	}
	complete := func(line []string) []string {
		cmd := exec.Command(bash, append([]string{"--norc", "-c", `source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _servebench; printf '%s\n' "${COMPREPLY[@]}"`, file}, line...)...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		return sorted(strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' }))
	}
	rows := completed
	for _, row := range append(rows[:len(rows):len(rows)], []struct {
		reading string
		words   []string
		want    []string
	}{
		{"bash makes three words of --x=y", words("servebench serve --pacing = s"), words("sleep")},
		{"and two of --x=", words("servebench serve --pacing ="), words("hybrid sleep")},
		{"_ for - in names", words("servebench serve --num_p"), words("--num-prompts")},
		{"_ in the name before", words("servebench serve --dataset_name hf"), words("hf")},
		{"files", words("servebench serve --dataset-path da"), []string{"data one.jsonl", "data.txt", "dataset"}},
		{"files of the simulator", words("servebench sim --like da"), []string{"data one.jsonl", "data.txt", "dataset"}},
		{"folders", words("servebench serve --result-dir da"), words("dataset")},
		{"files behind sweep -f", words("servebench sweep -f da"), []string{"data one.jsonl", "data.txt", "dataset"}},
		{"flags of sweep, and of serve", words("servebench sweep --re"), words("--ready-check-timeout-sec --records --repetition-penalty --replica-url --request-id-prefix --request-rate --reset-prefix-cache --result-dir --result-filename --resume")},
		{"files of the gate", words("servebench gate --result da"), []string{"data one.jsonl", "data.txt", "dataset"}},
		{"folders of the gate", words("servebench gate --history da"), words("dataset")},
		{"results to compare", words("servebench compare da"), []string{"data one.jsonl", "data.txt", "dataset"}},
		{"files behind a word of manifest", words("servebench manifest verify --publish da"), []string{"data one.jsonl", "data.txt", "dataset"}},
		{"files behind config check", words("servebench config check da"), []string{"data one.jsonl", "data.txt", "dataset"}},
		{"files of a flag of import", words("servebench manifest import --subject da"), []string{"data one.jsonl", "data.txt", "dataset"}},
		{"none behind one that takes none", []string{"servebench", "manifest", "schema", ""}, words("--help --publishable")},
		{"a name of which nothing is known", words("servebench manifest redact --name da"), nil},
		{"commands to have help for", words("servebench help s"), words("selftest serve sim sweep")},
	}...) {
		if diff := cmp.Diff(row.want, complete(row.words)); diff != "" {
			t.Errorf("%s: %q (-want +got):\n%s", row.reading, row.words, diff)
		}
	}
	// Every flag is offered, and each choice behind its flag.
	if got := complete([]string{"servebench", "serve", "--"}); len(got) != len(spellings(flagTable)) {
		t.Errorf("%d flags are offered, want %d", len(got), len(spellings(flagTable)))
	}
	for _, s := range flagTable {
		if c := s.offered(); len(c) > 0 {
			if diff := cmp.Diff(sorted(c), complete([]string{"servebench", "serve", "--" + s.Name, ""})); diff != "" {
				t.Errorf("--%s (-want +got):\n%s", s.Name, diff)
			}
		}
	}
}

func TestFishCompletes(t *testing.T) {
	fish, file := installed(t, "fish"), completionScript(t, "fish")
	for _, row := range completed {
		out, err := exec.Command(fish, "--no-config", "-c", `source $argv[1]; complete -C "$argv[2]"`, file, strings.Join(row.words, " ")).Output()
		if err != nil {
			t.Fatalf("%q: %v", row.words, err)
		}
		var got []string
		for line := range strings.Lines(string(out)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			got = append(got, word)
		}
		if diff := cmp.Diff(row.want, sorted(got)); diff != "" {
			t.Errorf("%s: %q (-want +got):\n%s", row.reading, row.words, diff)
		}
	}
}

func TestZshReadsItsScript(t *testing.T) {
	zsh, file := installed(t, "zsh"), completionScript(t, "zsh")
	if out, err := exec.Command(zsh, "-f", "-c", `autoload -Uz compinit && compinit -u -D && source "$0" && print $_comps[servebench]`, file).CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "_servebench" {
		t.Errorf("%v: %s", err, out)
	}
}

// The scripts of a small table, checked in: a change of them is seen.
func TestCompletionGoldens(t *testing.T) {
	serve := []flagSpec{
		{Name: "backend", Arity: arityOne, Choices: []string{"a", "b"}, Help: "it's [this]: one"},
		{Name: "insecure", Arity: arityNone, Help: `back\slash`},
		{Name: "self-timed", Arity: arityToggle, Help: "both"},
		{Name: "path", Kind: kindFile, Help: "a file"},
		{Name: "dir", Kind: kindDir, Help: "a folder"},
		{Name: "goodput", Arity: aritySome, Help: "several"},
		{Name: "seed", Kind: kindInt, Help: "a number"},
	}
	sim := []flagSpec{{Name: "ttft", Help: "a time"}, {Name: "truth", Arity: arityNone, Help: "a switch"}}
	further := []commandWords{
		{"manifest", []subcommand{
			{"check", "it's one", []flagSpec{{Name: "all", Arity: arityNone, Help: "a switch"}, {Name: "name", Help: "a name"}, {Name: "facts", Kind: kindFile, Help: "a file"}}, true, nil},
			{"print", "another", nil, false, nil},
		}},
		{"config", []subcommand{{"init", "begin", nil, false, []string{"run", "subject"}}}},
	}
	for _, shell := range shells {
		var b strings.Builder
		if err := writeCompletion(&b, shell, serve, sim, further); err != nil {
			t.Fatal(err)
		}
		file := "testdata/completion." + shell
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), b.String()); diff != "" {
			t.Errorf("%s, UPDATE=1 rewrites it (-want +got):\n%s", file, diff)
		}
	}
}

// What completion offers of the gate is what the gate reads, and what its help tells.
func TestGateFlagsAreOne(t *testing.T) {
	var want []string
	for line := range strings.Lines(gateHelp) {
		if strings.HasPrefix(line, "  --") {
			want = append(want, strings.Fields(line)[0])
		}
	}
	var got []string
	for _, s := range gateOwnFlags {
		got = append(got, "--"+s.Name)
		words := []string{"--" + s.Name}
		if s.Arity != arityNone {
			words = append(words, "")
		}
		if l, _ := readGateLine(words); len(l.rest) > 0 {
			t.Errorf("%q is none of the gate's", l.rest)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("in the help and in the list (-want +got):\n%s", diff)
	}
	names := map[string]int{}
	for _, s := range flagsOfGate(flagTable) {
		if names[s.Name]++; names[s.Name] > 1 {
			t.Errorf("--%s is offered twice", s.Name)
		}
	}
}

func TestCompletionOfNoShell(t *testing.T) {
	for _, args := range [][]string{{"completion"}, {"completion", "csh"}, {"completion", "bash", "zsh"}} {
		if code, out, errs := command(t, args...); code != exitUsage || out != "" || !strings.Contains(errs, "bash, zsh, fish") {
			t.Errorf("%v: exit %d, %q, %q", args, code, out, errs)
		}
	}
	if !slices.Contains(commandNames, "completion") {
		t.Error("completion does not complete itself")
	}
}
