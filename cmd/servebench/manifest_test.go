package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/servebench/servebench/manifest"
)

const references = "../../manifest/testdata/"

// stdin gives the program a standard input.
func stdin(t *testing.T, data string) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stdin"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(data); err != nil {
		t.Fatal(err)
	}
	if _, err := file.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	before := os.Stdin
	os.Stdin = file
	t.Cleanup(func() { os.Stdin = before; file.Close() })
}

// written puts a file into a folder of the test's.
func written(t *testing.T, name, data string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func reference(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(references + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestManifestValidate(t *testing.T) {
	run, experiment := references+"seed-run-1.json", references+"seed-experiment.json"
	leaky := written(t, "leaky.json", strings.Replace(reference(t, "seed-run-1"), `"outcome": "completed"`, `"outcome": "done"`, 1))
	ours := written(t, "ours.json", strings.Replace(reference(t, "seed-run-1"), `"license": "CC-BY-4.0"`, `"license": "CC0-1.0"`, 1))
	bare := written(t, "bare.json", strings.Replace(reference(t, "seed-run-1"), `"topology":`, `"extensions": {}, "extensions":`, 1))
	for _, c := range []struct {
		reading, args string
		code          int
		out, errs     string
	}{
		{"both kinds", "validate " + run + " " + experiment, 0,
			run + ": valid: kind run, base profile, inside the publishing site's envelope\n" + experiment + ": valid: kind experiment, base profile\n", ""},
		{"publishable", "validate --publishable " + experiment, 0, experiment + ": valid: kind experiment, publishable profile\n", ""},
		{"one of two is wrong", "validate " + leaky + " " + experiment, exitInvalid,
			leaky + ":13: /outcome: value must be one of 'completed', 'failed', 'interrupted'\n" + leaky + ": invalid: 1 problem, base profile, inside the publishing site's envelope\n" +
				experiment + ": valid: kind experiment, base profile\n", "servebench: manifest validate: not passed by 1 of 2\n"},
		{"a value of ours", "validate " + ours, 0, ours + ": valid: kind run, base profile, inside the publishing site's envelope\n", ""},
		{"is none of the references'", "validate --strict-references " + ours, exitInvalid, "LICENSE", "servebench: manifest validate: not passed by 1 of 1\n"},
		{"a key twice", "validate " + bare, exitInvalid, bare + ":41: key \"extensions\" is there twice\n" + bare + ": invalid: 1 problem, base profile\n", "servebench: manifest validate: not passed by 1 of 1\n"},
		{"a file that is not there goes before one that is invalid", "validate /none/x.json " + bare, exitUsage, "SOME",
			"servebench: open /none/x.json: no such file or directory\nservebench: 1 of 2 files could not be read\n"},
		{"a folder", "validate " + references, exitUsage, "", "servebench: " + references + " is a folder; want a manifest\nservebench: 1 of 1 files could not be read\n"},
		{"a flag behind a file", "validate " + run + " --publishable", exitUsage, "", "servebench: \"--publishable\" stands behind a file; want flags first: servebench manifest validate --publishable ... FILE (a file of that name is ./--publishable)\n"},
		{"an unknown flag", "validate --all", exitUsage, "", "servebench: flag provided but not defined: -all\n"},
		{"an unknown word", "check", exitUsage, "", "servebench: manifest \"check\" is no command; want validate, verify, show, redact, import, schema\n"},
	} {
		code, out, errs := command(t, append([]string{"manifest"}, words(c.args)...)...)
		switch c.out {
		case "LICENSE":
			c.out = out
			if !strings.Contains(out, "/license: value must be 'CC-BY-4.0'\n") {
				t.Errorf("%s: %s", c.reading, out)
			}
		case "SOME":
			c.out = out
		}
		if code != c.code || out != c.out || errs != c.errs {
			t.Errorf("%s: exit %d, want %d\n%s\n%s", c.reading, code, c.code, cmp.Diff(c.out, out), cmp.Diff(c.errs, errs))
		}
	}
}

func TestManifestReadsStandardInput(t *testing.T) {
	for _, args := range []string{"validate", "validate -"} {
		stdin(t, reference(t, "seed-run-2"))
		if code, out, errs := command(t, append([]string{"manifest"}, words(args)...)...); code != 0 || out != "-: valid: kind run, base profile, inside the publishing site's envelope\n" {
			t.Errorf("%s: exit %d, %q, %q", args, code, out, errs)
		}
	}
	stdin(t, "{\n\"a\": NaN}")
	if code, out, _ := command(t, "manifest", "validate"); code != exitInvalid || !strings.HasPrefix(out, "-:2: NaN is no JSON; want a number or null\n") {
		t.Errorf("exit %d, %q", code, out)
	}
	stdin(t, reference(t, "seed-run-2"))
	if code, out, _ := command(t, "manifest", "verify"); code != 0 || !strings.HasSuffix(out, "-: verified: 0 failures, 2 warnings; artifacts unchecked, standard input has no folder\n") {
		t.Errorf("exit %d, %q", code, out)
	}
}

// Whatever a text holds, each command says so, ends with 4 and no panic, and
// sends nothing to the terminal that could move its cursor.
func TestManifestHostileInput(t *testing.T) {
	deep := strings.Repeat("[", 100_000)
	for reading, text := range map[string]string{
		"nothing": "", "cut off": reference(t, "seed-run-1")[:5000], "deep": deep, "deep and whole": deep + strings.Repeat("]", 100_000), "not UTF-8": "{\"a\":\"\xff\xfe\"}",
		"a binary": "\x7fELF\x00\x01", "null": "null", "an envelope with nothing": `{"manifest":null}`, "an envelope in one": `{"manifest":{"manifest":{"kind":"run"}}}`,
		"escapes": `{"kind":"run","\u001b[31m\u0007":"\u001b]0;x\u0007"}`, "a number": "1e999999999", "NaN": "NaN", "a long key": `{"kind":"run","` + strings.Repeat("k", 1<<20) + `":1}`,
		"an experiment of nothing": `{"kind":"experiment","runs":[null,[],{"results":7}]}`, "kinds": `{"kind":["run"]}`, "huge": strings.Repeat(" ", manifest.MaxBytes+5),
		"many things wrong": `{"kind":"run","warnings":[` + strings.Repeat("1,", 5000) + `1]}`,
	} {
		file := written(t, "x.json", text)
		for _, args := range []string{"validate", "validate --publishable --strict-references", "verify --publish", "show", "redact"} {
			code, out, errs := command(t, append([]string{"manifest"}, words(args+" "+file)...)...)
			if args != "redact" {
				errs = strings.TrimPrefix(errs, "servebench: manifest")
			}
			if code != exitInvalid || len(out)+len(errs) > 1<<21 || strings.Contains(errs, "internal error") {
				t.Errorf("%s, %s: exit %d, %.300q, %.300q", reading, args, code, out, errs)
			}
			if args != "redact" && (!strings.HasPrefix(out, file+":") || strings.ContainsAny(out+errs, "\x1b\x07\x00")) {
				t.Errorf("%s, %s: %.300q", reading, args, out)
			}
			if args == "redact" && (!strings.Contains(errs, file) || strings.ContainsAny(errs, "\x1b\x07\x00")) {
				t.Errorf("%s, %s: %.300q", reading, args, errs)
			}
		}
	}
}

// What a run of ours writes verifies, until one byte beside it changes.
func TestManifestVerifiesARun(t *testing.T) {
	dir := t.TempDir()
	if code, _, errs := command(t, serveArgs("--save-result", "--result-dir", dir, "--result-filename", "run.json", "--max-concurrency", "2")...); code != 0 {
		t.Fatal(errs)
	}
	file := filepath.Join(dir, "run.manifest.json")
	code, out, errs := command(t, "manifest", "verify", file)
	if code != 0 || strings.Contains(out, "fail ") || !strings.Contains(out, file+": verified: 0 failures, ") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if code, out, _ := command(t, "manifest", "verify", "--publish", file); code != exitInvalid || !strings.Contains(out, "fail publish /") {
		t.Errorf("a simulated run may be published: exit %d: %s", code, out)
	}
	if code, out, _ := command(t, "manifest", "show", file); code != 0 || !strings.Contains(out, "servebench-sim") || !strings.Contains(out, "6 ok, 0 failed") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out, errs := command(t, "manifest", "redact", file); code != 0 || !strings.HasSuffix(errs, ": 0 places redacted\n") {
		t.Errorf("what we write is redacted: exit %d: %s %s", code, errs, out)
	}
	records := filepath.Join(dir, "run.requests.jsonl")
	data, err := os.ReadFile(records)
	if err != nil {
		t.Fatal(err)
	}
	data[0]++
	if err := os.WriteFile(records, data, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs = command(t, "manifest", "verify", file)
	if want := fmt.Sprintf("%x", sha256.Sum256(data)); code != exitInvalid || !strings.Contains(out, want) || !strings.Contains(out, "not verified: 1 failure, ") || errs != "servebench: manifest verify: not passed by 1 of 1\n" {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	// A way out of the folder is none, and a folder is no file.
	if err := os.Remove(records); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", records); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := command(t, "manifest", "verify", file); code != exitInvalid || !strings.Contains(out, "escapes") {
		t.Errorf("exit %d: %s", code, out)
	}
}

func TestManifestShow(t *testing.T) {
	for _, c := range []struct {
		seed string
		want []string
		rows int
	}{
		{"seed-run-2", []string{"RedHatAI/gemma-4-31B-it-NVFP4", "closed_loop, 4 at a time, 256 requests", " ttft ", " e2el ", "41", "published  run_"}, 24},
		{"seed-experiment", []string{"23 completed, 1 failed, 1 interrupted", "concurrency-4 ", "scheduler-12288-failed: replaced by scheduler-11776, runtime_startup, kv_cache_allocation", "c=8 tokens=10240  500/0      61.96  8.07           48420     8.07", "34.48 derived", "interrupted  1"}, 47},
	} {
		code, out, errs := command(t, "manifest", "show", references+c.seed+".json")
		if code != 0 || errs != "" {
			t.Errorf("%s: exit %d: %s", c.seed, code, errs)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q:\n%s", c.seed, want, out)
			}
		}
		if n := strings.Count(out, "\n"); n > c.rows {
			t.Errorf("%s: %d lines are no screen", c.seed, n)
		}
	}
	code, out, _ := command(t, "manifest", "show", references+"seed-run-1.json", references+"seed-run-2.json")
	if code != 0 || strings.Count(out, "==> "+references+"seed-run-") != 2 {
		t.Errorf("exit %d: files are not named:\n%s", code, out)
	}
}

func TestManifestRedact(t *testing.T) {
	const canary = "canary-7f3a9c"
	t.Setenv("OPENAI_API_KEY", canary)
	t.Setenv("HOME", "/h/someone")
	clean := reference(t, "seed-run-1")
	dirty := strings.ReplaceAll(clean, `"notes": "`, `"notes": "`+canary+` /h/someone/x gpubox-7 `)
	stdin(t, dirty)
	code, out, errs := command(t, "manifest", "redact", "--name", "gpubox-7")
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	if want := strings.ReplaceAll(clean, `"notes": "`, `"notes": "<redacted> <local-path> <redacted> `); out != want {
		t.Error(cmp.Diff(want, out))
	}
	lines := strings.Split(strings.TrimSpace(errs), "\n")
	if !strings.Contains(errs, "/notes: local_path, name, secret\n") || lines[len(lines)-1] != fmt.Sprintf("servebench: -: %s redacted", count(len(lines)-1, "place")) || strings.Contains(errs, canary) {
		t.Error(errs)
	}
	// A secret that is a part of what the schema holds to a form cannot go unseen.
	t.Setenv("OPENAI_API_KEY", "google/gemma-4")
	code, out, errs = command(t, "manifest", "redact", references+"seed-run-1.json")
	if code != exitInvalid || strings.Contains(out, "google/gemma-4-12B") || !strings.Contains(errs, "no longer valid") || !json.Valid([]byte(out)) {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, out, _ := command(t, "manifest", "redact", "a", "b"); code != exitUsage || out != "" {
		t.Errorf("exit %d for two files", code)
	}
}

func TestManifestSchema(t *testing.T) {
	for args, want := range map[string]manifest.Profile{"schema": {}, "schema --publishable": {Publishable: true}} {
		code, out, _ := command(t, append([]string{"manifest"}, words(args)...)...)
		if code != 0 || out != string(want.Schema()) {
			t.Errorf("%s: exit %d", args, code)
		}
	}
	if code, _, _ := command(t, "manifest", "schema", "x"); code != exitUsage {
		t.Errorf("exit %d", code)
	}
	var errs bytes.Buffer
	for _, args := range []string{"schema", "validate " + references + "seed-run-1.json"} {
		if code := run(t.Context(), append([]string{"manifest"}, words(args)...), fullDisk{}, &errs); code != exitUnsaved {
			t.Errorf("%s on a full disk: exit %d", args, code)
		}
	}
	if code, out, _ := command(t, "manifest"); code != 0 || !strings.Contains(out, "verify") {
		t.Errorf("exit %d: %s", code, out)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, os.ErrPermission }

func TestManifestShowsTheVerdict(t *testing.T) {
	var b strings.Builder
	showVerdict(&b, map[string]any{"servebench.verdict": "SUSPECT", "servebench.verdict_reasons": []any{"late", "busy"}})
	showVerdict(&b, map[string]any{"servebench.verdict": 3, "servebench.verdict_reasons": "none"}) // by another hand
	showVerdict(&b, nil)
	if want := "verdict    SUSPECT\n           late\n           busy\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
