package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// runAt is a result file of a run at a second of a day.
func runAt(second int, rate float64) string {
	text := strings.Replace(keptResult(rate, "VALID", "aa"), "20261201-000000", fmt.Sprintf("20261101-0000%02d", second), 1)
	return strings.Replace(text, `"duration": 10`, fmt.Sprintf(`"duration": 10.%02d`, second), 1)
}

func jsonFiles(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filesOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestBaseline(t *testing.T) {
	dir := t.TempDir()
	h := filepath.Join(dir, "new", "history") // made when it is needed
	for i := range 14 {
		f := write(t, dir, "r.json", runAt(i, 900+float64(i)))
		if code, out, errs := command(t, "baseline", "add", "--history", h, f); code != 0 || !strings.Contains(out, h) {
			t.Fatalf("exit %d %q %q", code, out, errs)
		}
	}
	first := write(t, dir, "first.json", runAt(0, 900))
	if code, out, errs := command(t, "baseline", "add", "--history", h, first); code != 0 || out != "" || !strings.Contains(errs, "is there already") {
		t.Errorf("the same run twice: exit %d %q %q", code, out, errs)
	}
	code, out, _ := command(t, "baseline", "list", "--history", h)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 15 || !strings.Contains(lines[1], "900.0") || !strings.Contains(lines[14], "913.0") {
		t.Errorf("exit %d\n%s", code, out)
	}
	if code, out, errs := command(t, "gate", "--history", h, "--result", first); code != 0 || !strings.Contains(errs, "the candidate itself") || !strings.Contains(out, "13 runs") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	prune := []string{"baseline", "prune", "--history", h, "--anchor", "3", "--keep", "4"}
	if code, out, _ := command(t, append(prune, "--dry-run")...); code != 0 || strings.Count(out, "\n") != 7 || len(jsonFiles(t, h)) != 14 {
		t.Errorf("exit %d\n%s", code, out)
	}
	for range 2 { // the second time there is nothing to do
		if code, _, errs := command(t, prune...); code != 0 {
			t.Errorf("exit %d %s", code, errs)
		}
		_, out, _ := command(t, "baseline", "list", "--history", h)
		for _, rate := range []string{"900.0", "901.0", "902.0", "910.0", "911.0", "912.0", "913.0"} {
			if !strings.Contains(out, rate) {
				t.Errorf("%s is gone:\n%s", rate, out)
			}
		}
		if n := len(jsonFiles(t, h)); n != 7 {
			t.Errorf("%d files, want 7", n)
		}
	}
	// What a history has can be added to another one, and is the same there.
	other := filepath.Join(dir, "other")
	all := []string{"baseline", "add", "--history", other}
	for _, n := range jsonFiles(t, h) {
		all = append(all, filepath.Join(h, n))
	}
	if code, _, errs := command(t, all...); code != 0 || strings.Join(jsonFiles(t, other), " ") != strings.Join(jsonFiles(t, h), " ") {
		t.Errorf("exit %d %s: %q", code, errs, jsonFiles(t, other))
	}
}

// A file of several runs was put there by hand: it goes when all of its runs do.
func TestPruneKeepsAnchorsOfOneFile(t *testing.T) {
	h := t.TempDir()
	write(t, h, "two.json", runAt(0, 900)+"\n"+runAt(9, 909))
	for i := 1; i < 9; i++ {
		write(t, h, fmt.Sprintf("%d.json", i), runAt(i, 900))
	}
	code, _, errs := command(t, "baseline", "prune", "--history", h, "--anchor", "1", "--keep", "0")
	if names := jsonFiles(t, h); code != 0 || len(names) != 1 || names[0] != "two.json" || !strings.Contains(errs, "two.json stays") {
		t.Errorf("exit %d %q %q", code, errs, names)
	}
}

func TestBaselineRefuses(t *testing.T) {
	dir := t.TempDir()
	h := filepath.Join(dir, "h")
	good := write(t, dir, "good.json", runAt(0, 900))
	if code, _, errs := command(t, "baseline", "add", "--history", h, good); code != 0 {
		t.Fatal(errs)
	}
	change := func(name, from, to string) string {
		text := strings.Replace(runAt(5, 900), from, to, 1)
		if text == runAt(5, 900) {
			t.Fatalf("no %s", from)
		}
		return write(t, dir, name, text)
	}
	pipe := filepath.Join(dir, "pipe.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		file, says string
		code       int
	}{
		{change("invalid.json", `"VALID"`, `"INVALID"`), "is INVALID: the client was slow", exitInvalid},
		{change("stopped.json", `"completed", "servebench"`, `"interrupted", "servebench"`), "it was interrupted", exitInvalid},
		{change("some.json", `"failed": 0`, `"failed": 1`), "0.99 % of the requests failed", exitInvalid},
		{change("none.json", `"completed": 100`, `"completed": 0`), "no completed request", exitInvalid},
		{change("other.json", `"aa"`, `"bb"`), "dataset_sha256 (aa and bb) differ", exitInvalid},
		{change("simulated.json", `"failed"`, `"simulated": true, "failed"`), "simulator", exitInvalid},
		{change("cut.json", `"failed"`, ``), "cut.json", exitUsage},
		{write(t, dir, "two.json", runAt(1, 900)+runAt(2, 900)), "holds 2 results", exitUsage},
		{write(t, dir, "empty.json", ""), "empty", exitUsage},
		{pipe, "no regular file", exitUsage},
		{dir, "no regular file", exitUsage},
		{filepath.Join(dir, "nowhere.json"), "nowhere.json", exitUsage},
	} {
		code, out, errs := command(t, "baseline", "add", "--history", h, c.file)
		if code != c.code || !strings.Contains(errs, c.says) || out != "" || len(jsonFiles(t, h)) != 1 {
			t.Errorf("%s: exit %d %q %q, want %d …%s…", c.file, code, out, errs, c.code, c.says)
		}
	}
	if code, _, errs := command(t, "baseline", "add", "--history", h, "--max-failures", "2%", filepath.Join(dir, "some.json")); code != 0 {
		t.Errorf("exit %d %s", code, errs)
	}
	if code, _, errs := command(t, "baseline", "add", "--history", h, "--max-failures", "x", good); code != exitUsage || !strings.Contains(errs, "--max-failures") {
		t.Errorf("exit %d %s", code, errs)
	}
	// A damaged file and a link to nowhere are named, not left out.
	for _, damage := range []func(path string) error{
		func(path string) error {
			return os.WriteFile(path, []byte(`{"servebench_baseline": 1, "result": {`), 0o600)
		},
		func(path string) error { return os.Symlink(filepath.Join(dir, "nowhere.json"), path) },
	} {
		path := filepath.Join(h, "damaged.json")
		if err := damage(path); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"baseline", "list"}, {"baseline", "prune"}, {"gate", "--result", good}} {
			if code, out, errs := command(t, append(args, "--history", h)...); code != exitUsage || !strings.Contains(errs, "--history: ") || !strings.Contains(errs, "damaged.json") || out != "" {
				t.Errorf("%q: exit %d %q %q", args, code, out, errs)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(write(t, dir, "linked.json", runAt(7, 900)), filepath.Join(h, "link.json")); err != nil {
		t.Fatal(err)
	}
	if _, out, errs := command(t, "baseline", "list", "--history", h); strings.Count(out, "\n") != 4 {
		t.Errorf("a link to a result is left out: %s%s", out, errs)
	}
}

// Jobs add at the same time, some of them the same run.
func TestBaselineOfManyJobs(t *testing.T) {
	dir := t.TempDir()
	h := filepath.Join(dir, "h")
	var jobs []*exec.Cmd
	for i := range 20 {
		f := write(t, dir, fmt.Sprintf("%d.json", i), runAt(i/2, 900))
		cmd := exec.CommandContext(t.Context(), os.Args[0], "baseline", "add", "--history", h, f)
		cmd.Env = append(os.Environ(), "SERVEBENCH_TEST_MAIN=1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		jobs = append(jobs, cmd)
	}
	for _, j := range jobs {
		if err := j.Wait(); err != nil {
			t.Error(err)
		}
	}
	entries, err := os.ReadDir(h)
	if err != nil || len(entries) != 10 {
		t.Errorf("%d files, want 10: %v %v", len(entries), entries, err)
	}
	if code, out, errs := command(t, "baseline", "list", "--history", h); code != 0 || strings.Count(out, "\n") != 11 {
		t.Errorf("exit %d %s%s", code, out, errs)
	}
}

// What is kept of a run, of whomever, has nothing in it that must not be published.
func TestBaselineLeaks(t *testing.T) {
	canary(t)
	dir := t.TempDir()
	h := filepath.Join(dir, "h")
	text := strings.Replace(runAt(0, 900), `"model_id": "m"`, `"model_id": "`+canaryHome+`/m", "tokenizer_id": "`+everything+`", "`+canaryUser+`": ["`+everything+`"], "generated_texts": ["`+everything+`"]`, 1)
	raw := write(t, dir, "r.json", text)
	if code, _, errs := command(t, "baseline", "add", "--history", h, raw); code != 0 {
		t.Fatal(errs)
	}
	other := write(t, dir, "other.json", strings.Replace(text, "20261101", "20261102", 1))
	if code, out, errs := command(t, "gate", "--history", h, "--result", other); code != exitInvalid || !strings.Contains(out, "1 runs; want 10") || strings.Contains(out, "differ") {
		t.Errorf("the same model under the same path: exit %d %s%s", code, out, errs)
	}
	if found, files := loose(t, h); len(found) > 0 || files != 1 {
		t.Errorf("%d files: %q", files, found)
	}
}
